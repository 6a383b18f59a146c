"""What read_suite makes of task_suite.yaml 1.0, and what a store keeps of it."""

from __future__ import annotations

from pathlib import Path

import pytest

import skillcomp as sc
from skillcomp.errors import SuiteError
from skillcomp.io import read_suite
from skillcomp.io.skills import skill_files
from skillcomp.io.task_suites import is_task_suite, reference_of
from skillcomp.lint import lint_places
from skillcomp.live.plan import input_files, require_unedited

# The source's own example, its words and order.
SOURCE = """\
skill_id: "target-skill-name"
version: "1.0"
tasks:
  - id: "task-keyword-check"
    description: "Verify output mentions required concepts"
    prompt: "Given these scores {accuracy: 0.9}, what quality tier?"
    judge:
      type: "contains"
      expected: ["POWERFUL"]
    timeout_seconds: 30
  - id: "task-semantic-quality"
    description: "Rubric-scored analysis quality"
    prompt: "Accuracy dropped 0.9 to 0.8 but coverage rose. Accept?"
    judge:
      type: "llm-rubric"
      rubric: "Must mention trade-off analysis and give a recommendation"
    timeout_seconds: 120
  - id: "task-format"
    prompt: "Reply with JSON."
    judge:
      type: "pytest"
      test_file: "fixtures/test_output_format.py"
"""


@pytest.fixture
def make(tmp_path):
    def _make(text: str = SOURCE, name: str = "task_suite.yaml") -> Path:
        for part in ("fixtures", "reference"):
            (tmp_path / part).mkdir(exist_ok=True)
        (tmp_path / "fixtures" / "test_output_format.py").write_text("def test_it(): pass\n")
        (tmp_path / "reference" / "task-format.txt").write_text("{}")
        (tmp_path / name).write_text(text, encoding="utf-8")
        return tmp_path / name

    return _make


def test_the_sources_example_reads_as_tasks_with_their_judges(make):
    suite = read_suite(make(), strict=True)
    assert (suite.slug, suite.skill, suite.kind) == ("target-skill-name",) * 2 + ("tasks",)
    words, rubric, test = suite.cases
    assert words.case_id == "target-skill-name/task-keyword-check"
    assert words.timeout_seconds == 30 and test.timeout_seconds is None
    assert words.checks[0].judge.expected == ("POWERFUL",)
    assert words.checks[0].description == "Verify output mentions required concepts"
    assert rubric.checks[0].judge.pass_threshold == 0.7
    assert [case.checks[0].check_id for case in suite.cases] == ["contains", "llm-rubric", "pytest"]
    assert test.checks[0].judge.test_file == "fixtures/test_output_format.py"


def test_a_file_of_another_name_gives_its_stem_as_the_slug(make):
    assert read_suite(make(name="tasks.yaml")).slug == "tasks"
    assert read_suite(make(name="tasks.yml"), slug="mine").cases[0].case_id.startswith("mine/")


@pytest.mark.parametrize("key", ["id", "prompt", "expected"])
def test_half_a_character_is_a_broken_rule_and_no_broken_store(make, key):
    task = {"id": '"a"', "prompt": '"p"', "expected": '"x"'} | {key: '"\\ud800"'}
    judge = f"{{type: contains, expected: [{task['expected']}]}}"
    row = f"- {{id: {task['id']}, prompt: {task['prompt']}, judge: {judge}}}"
    with pytest.raises(SuiteError, match=r"line [4-9]: not YAML .*half of a surrogate pair"):
        read_suite(make(f'skill_id: s\nversion: "1.0"\ntasks:\n{row}\n'))


def test_every_broken_rule_is_told_at_once_with_file_and_line(make):
    text = """\
skill_id: ""
version: 1.0
tasks:
  - prompt: "x"
    judge: {type: contains, expected: []}
  - id: a
    prompt: ""
    judge: {type: contians, expected: [x]}
  - id: a
    prompt: p
    description: 3
    judge: {type: pytest, test_file: fixtures/../../etc/test_x.py}
  - id: b
    prompt: p
    judge: {type: llm-rubric, rubric: " ", pass_threshold: 70}
    timeout_seconds: -1
  - id: c
    prompt: p
  - just text
  - {id: d, prompt: p, judge: {type: contains, expected: [1]}}
  - {id: e, prompt: p, judge: {type: contains, expected: word}}
  - {id: f, prompt: p, judge: {type: pytest, test_file: /etc/test_x.py}}
  - {id: g, prompt: p, judge: {type: pytest, test_file: fixtures/test_output_formats.py}}
  - {id: h, prompt: p, judge: {type: pytest}}
"""
    with pytest.raises(SuiteError) as raised:
        read_suite(make(text))
    told = str(raised.value)
    for said in (
        "line 1: skill_id: found ''; expected text that is not empty.",
        'line 2: version: found 1.0; expected "1.0" in quotes.',
        "line 4: tasks[0].id: missing",
        "line 8: tasks[1].judge.type: found 'contians'; expected contains or pytest or llm-rubric."
        " Did you mean 'contains'?",
        "line 9: tasks[2].id: found 'a'; expected an id of its own; the first 'a' stands in line 6",
        "line 12: tasks[2].judge.test_file: found 'fixtures/../../etc/test_x.py'; expected a .py",
        "line 15: tasks[3].judge.pass_threshold: found 70; expected a number above 0 up to 1.",
        "tasks[5]: found 'just text'; expected a task with id, prompt and judge.",
        "tasks[8].judge.test_file: found '/etc/test_x.py'; expected a file below fixtures/.",
        "Did you mean 'test_output_format.py'?",
    ):
        assert said in told, said
    assert told.count("task_suite.yaml, line ") == told.count("\n- ") == 19


def test_a_file_that_a_link_leads_out_of_fixtures_is_refused(make, tmp_path):
    file = make()
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "fixtures" / "data.txt").symlink_to(tmp_path / "secret.txt")
    with pytest.raises(SuiteError, match="leads out of fixtures/"):
        sc.RunStore(tmp_path / "store").add_suite(file)
    (tmp_path / "fixtures" / "test_output_format.py").unlink()
    (tmp_path / "fixtures" / "test_output_format.py").symlink_to(tmp_path / "secret.txt")
    with pytest.raises(SuiteError, match="the link leads out of it"):
        read_suite(file)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("tasks: [", "not YAML"),
        ("tasks: []\ntasks: []", "line 2: not YAML ('tasks' is given twice; first in line 1"),
        ("a: &a [x, x]\nb: &b [*a, *a]\ntasks: [*b]", "tasks[0]: found [['x', 'x']"),
        ("- tasks", "expected 'key: value' lines"),
        ("skill_id: a\nversion: '1.0'\ntask: []", "tasks: missing; expected a list of tasks. Did"),
    ],
)
def test_what_is_no_suite_is_told(make, text, told):
    with pytest.raises(SuiteError) as raised:
        read_suite(make(text))
    assert told in str(raised.value)


def test_unknown_keys_are_kept_and_told_and_strict_refuses_them(make):
    file = make(SOURCE + "      expceted: [x]\nowner: me\n")
    suite = read_suite(file)
    assert len(suite.problems) == 2 and suite.extra == {"owner": "me"}
    assert suite.problems[0] == "line 23: tasks[2].judge.expceted: not a known key."
    with pytest.raises(SuiteError, match="2 problems"):
        read_suite(file, strict=True)


# -- the store ------------------------------------------------------------------------------------


def test_a_store_keeps_suite_fixtures_and_reference_with_their_hashes(make, tmp_path):
    file = make()
    store = sc.RunStore(tmp_path / "store")
    suite = store.add_suite(file)
    assert suite.path == "suites/target-skill-name/task_suite.yaml"
    entry = store.manifest["suites"]["target-skill-name"]
    assert sorted(entry["files"]) == ["fixtures/test_output_format.py", "reference/task-format.txt"]
    again = sc.RunStore(store.path)
    assert again.suites["target-skill-name"].cases == read_suite(file).cases
    assert again.problems == ()
    folder = (store.path / suite.path).parent
    assert reference_of(folder, suite.cases[2]) == "{}"
    assert reference_of(folder, suite.cases[0]) is None
    require_unedited(again, again.suites.values())
    (folder / "fixtures" / "test_output_format.py").write_text("def test_other(): pass\n")
    with pytest.raises(sc.errors.StudyError, match="not the file that was recorded"):
        require_unedited(again, again.suites.values())


def test_no_agent_gets_what_belongs_to_the_judges(make, tmp_path):
    text = SOURCE.replace(
        '    prompt: "Reply with JSON."',
        '    prompt: "Reply with JSON."\n    files: [fixtures/test_output_format.py]',
    )
    store = sc.RunStore(tmp_path / "store")
    suite = store.add_suite(make(text))
    assert all(input_files(store, case) == () for case in suite.cases)
    (tmp_path / "SKILL.md").write_text("# A skill\n")
    names = [name for name, _ in skill_files(tmp_path)]
    assert "SKILL.md" in names
    assert not any("fixtures" in n or "reference" in n or n.endswith("suite.yaml") for n in names)


def test_frames_tell_the_judge_of_each_check(make, tmp_path, pilot):
    store = sc.RunStore(tmp_path / "store")
    store.add_suite(make())
    checks = sc.frames.checks(store)
    assert checks["judge"].tolist() == ["contains", "llm-rubric", "pytest"]
    assert sc.frames.cases(store)["n_checks"].tolist() == [1, 1, 1]
    assert sc.frames.checks(pilot)["judge"].isna().all()


def test_check_reads_a_task_suite_and_takes_no_study_for_one(make, tmp_path):
    file = make()
    for place in (file, file.parent):
        (linted,) = lint_places(place)
        assert linted.description == "task suite 'target-skill-name': 3 tasks"
        assert len(linted.findings) == 1
    assert is_task_suite(file)
    study = tmp_path / "study.yaml"
    study.write_text("store: here\nskills: []\n")
    assert not is_task_suite(study)
