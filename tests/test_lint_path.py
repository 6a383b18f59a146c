"""`skillcomp check` as a frame: files, studies, study files and folders of skills."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import skillcomp as sc
from skillcomp.cli import app, github
from skillcomp.errors import StudyError, SuiteError
from skillcomp.lint import ERRORS, Finding, findings_frame, lint_path, lint_places, store_problems
from skillcomp.live.trigger_runs import TriggerSettings, prepare_run

DATA = Path(__file__).parent.parent / "data"
SKILL = """---
name: tea
description: Brews tea; use it for leaves. Do not use it for coffee.
---
# Tea

1. Boil.
2. Pour, see [times](references/times.md).

With `--dry-run` it names the steps without executing anything. Optional: `git clone a`.

## Definition of done

```bash
test -f cup
```
"""
PROMPTS = """id,should_trigger,prompt
explicit-1,true,Use $tea for two cups
implicit-1,TRUE,How long does oolong steep?
negative-1,false,Grind these beans
"""


def put(root: Path, name: str, text: str) -> Path:
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def check(*args: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["check", *map(str, args)])
    return result.exit_code, result.output


# -- one skill or suite


def test_concept_blocks_of_several_skills_that_share_their_wording_are_named(tmp_path):
    limit = "analogy: It breaks where the water stops rising and nobody measures the second mark.\n"
    for slug, text in {
        "tide": limit,
        "tea": limit,
        "ink": "analogy: A pen on dry paper.\n",
    }.items():
        head = f"---\nname: {slug}\ndescription: About {slug}.\nconcept:\n  {text}---\n# {slug}\n"
        put(tmp_path, f"skills/{slug}/SKILL.md", head)
    rows = sc.lint.lint_path(tmp_path / "skills")
    rows = rows[rows["rule"].eq("concept_shared")]
    assert rows["place"].str.endswith(": skill tide").tolist() == [True]  # alphabetical: after tea
    assert "concept.analogy: shares 'breaks water stops rising" in rows["message"].iloc[0]
    assert "with skill 'tea'" in rows["message"].iloc[0]
    store = sc.RunStore(tmp_path / "study")
    for slug in ("tea", "tide"):
        store.add_skill(tmp_path / "skills" / slug)
    assert "concept_shared" in sc.lint.lint_path(store.path)["rule"].tolist()


def test_coverage_is_that_of_a_suite_a_study_or_the_folder_of_a_study_file(tmp_path):
    code, text = check("--coverage", DATA / "pilot")
    assert code == 0
    c7 = ["3", "1", "2", "21", "%", "9,", "10,", "14"]
    assert ["type-safety", "C7", *c7] in [line.split() for line in text.splitlines()]
    put(tmp_path, "suites/tea.json", '{"skill_name": "tea", "evals": [{"id": 1, "prompt": "Q?"}]}')
    fault = CliRunner().invoke(app, ["check", "--coverage", str(tmp_path)]).exception
    assert str(fault).endswith(f"no case at {tmp_path}; give a suite, a study or study.yaml.")
    put(tmp_path, "study.yaml", "store: study\nsuites: [suites/tea.json]\n")
    assert check("--coverage", tmp_path)[1].split()[-1] == "1"
    fault = CliRunner().invoke(app, ["check", "--judges", str(tmp_path)]).exception
    assert str(fault).startswith("probe: the suites of the study have no checks")


def test_prompts_for_triggers_are_read(tmp_path):
    file = put(tmp_path, "prompts.csv", PROMPTS)
    assert lint_path(file).empty


def test_a_folder_with_a_suite_is_checked_against_the_skill_beside_it(tmp_path):
    slug = "base-rate-reasoning"
    for name, place in ((f"skills/{slug}/SKILL.md", "SKILL.md"), (f"suites/{slug}.json", "evals")):
        text = (DATA / "pilot" / name).read_text("utf-8")
        put(tmp_path, f"{slug}/{place}" + ("/evals.json" if place == "evals" else ""), text)
    by_folder, by_file = (
        lint_path(tmp_path / slug / "evals" / name)[["rule", "message"]]
        for name in ("", "evals.json")
    )
    assert by_folder.equals(by_file)
    assert "not_checked" not in set(by_folder["rule"])


def test_a_problem_that_reader_and_lint_both_see_is_reported_once(tmp_path):
    text = (
        '{"skill_name": "tide", "evals": [{"id": 1, "prompt": "Q?", "contrast_of": 9, '
        '"comprehension_dimension": "C0", "expected_behaviors": [{"id": "a", "kind": "positive"}, '
        '{"id": "a", "kind": "positive"}]}]}'
    )
    file = put(tmp_path, "tide.json", text)
    assert len(sc.read_suite(file).problems) == 4
    counts = lint_path(file)["rule"].value_counts()
    rules = ["fields_missing", "behaviour_id", "contrast_missing", "dimension_single"]
    assert (counts[rules] == 1).all() and "reading" not in counts


def test_words_of_other_files_only_warn(tmp_path):
    text = '{"skill_name": "tide", "evals": [{"id": 1, "criticality": "low"}]}'
    severities = lint_path(put(tmp_path, "tide.json", text)).set_index("rule")["severity"]
    assert (severities["other_word"], severities["reading"]) == ("warning", "error")


# -- study.yaml


def test_a_study_file_is_checked_by_what_it_names(tmp_path):
    put(tmp_path, "skills/tea/SKILL.md", SKILL)
    case = '{"id": 1, "comprehension_dimension": "C1"}'
    put(tmp_path, "suite.json", f'{{"skill_name": "tea", "evals": [{case}]}}')
    study = put(tmp_path, "study.yaml", "store: s\nskills: [skills/tea]\nsuites: [suite.json]\n")
    skill, suite = lint_places(study)
    assert skill.description.startswith("skill 'tea'") and suite.description.startswith("suite")
    assert "not_checked" not in suite.findings["message"].str.cat()
    assert set(lint_path(study)["file"]) == {
        str(tmp_path / n) for n in ("skills/tea", "suite.json")
    }
    put(tmp_path, "study.yaml", "store: s\nskills: tea\n")
    with pytest.raises(StudyError, match="skills: found 'tea'; expected a path or paths"):
        lint_path(study)
    put(tmp_path, "study.yaml", "store: gone\n")
    with pytest.raises(StudyError, match="there is nothing at"):
        lint_path(study)


# -- a store against itself

CHECKS = [{"id": "c", "kind": "positive", "description": "Says it."}]
ATTEMPT = {"attempt_id": "tea/1/skill/1", "skill": "tea", "case_id": "tea/1", "condition": "skill"}
ATTEMPT |= {"answer": "Hot.", "loaded_skill": "tea"}
OTHER = ATTEMPT | {"attempt_id": "tea/1/baseline/1", "condition": "baseline"}
VERDICT = {"attempt_id": ATTEMPT["attempt_id"], "check_id": "c", "grader": "g", "passed": True}
BASELINE_VERDICT = VERDICT | {"attempt_id": OTHER["attempt_id"], "passed": False}
GOLD = {"attempt_id": ATTEMPT["attempt_id"], "check_id": "c", "labeller": "me", "passed": True}
PAIR = {"skill": "tea", "case_id": "tea/1", "grader": "g", "order": 1}
PAIR |= {"first": ATTEMPT["attempt_id"], "second": OTHER["attempt_id"]}
TABLES = {"attempts": [ATTEMPT, OTHER], "verdicts": [VERDICT], "gold": [GOLD], "pairwise": [PAIR]}


def a_store(folder: Path, **changed: list[dict[str, object]]) -> sc.RunStore:
    store = sc.RunStore(folder / "study")
    for name, rows in {**TABLES, **changed}.items():
        put(store.path, f"{name}.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    cases = [{"id": 1, "prompt": "What is it?", "expected_behaviors": CHECKS}]
    store.add_suite(put(folder, "tea.json", json.dumps({"skill_name": "tea", "evals": cases})))
    return sc.RunStore(store.path)


def test_a_sound_store_has_no_problem(tmp_path: Path, pilot: sc.RunStore) -> None:
    assert store_problems(a_store(tmp_path)) == []
    assert store_problems(pilot) == []


@pytest.mark.parametrize(
    ("table", "rows", "problem"),
    [
        ("verdicts", [VERDICT | {"check_id": "d"}], "judge a check that their case does not have"),
        ("verdicts", [VERDICT | {"attempt_id": "x"}], "attempts that the store does not hold: x"),
        ("attempts", [ATTEMPT | {"skill": "mug"}, OTHER], "name another skill than their case"),
        ("attempts", [ATTEMPT | {"case_id": "tea/9"}, OTHER], "answer a case that no suite has"),
        ("attempts", [ATTEMPT, ATTEMPT, OTHER], "2 rows share a key"),
        ("attempts", [ATTEMPT | {"status": "refused"}, OTHER], "whose status is not ok"),
        (
            "attempts",
            [ATTEMPT, OTHER, ATTEMPT | {"attempt_id": "y", "source_attempt_id": "z"}],
            "are copies of an attempt that is not there",
        ),
        ("gold", [GOLD | {"attempt_id": "x"}], "label an attempt that is not there"),
        ("gold", [GOLD | {"check_id": "d"}], "label a check that their case does not have"),
        ("pairwise", [PAIR | {"first": "x"}], "compare an attempt that is not there"),
        ("pairwise", [PAIR | {"winner": "x"}], "a winner that is neither of the two compared"),
        (
            "pairwise",
            [PAIR | {"winner": PAIR["first"], "winner_position": 2}],
            "contradicts 'winner' in 1 row",
        ),
        ("gold", [GOLD, GOLD | {"passed": False}], "2 rows of labellers who contradict themselves"),
        ("verdicts", [], "verdicts.jsonl has no rows"),
        (
            "verdicts",
            [VERDICT | {"grader_version": "1"}, BASELINE_VERDICT],
            "rows without the grader_version that other rows of the grader have: 1",
        ),
    ],
)
def test_a_row_that_no_analysis_accepts_is_a_problem(tmp_path, table, rows, problem):
    assert problem in "".join(store_problems(a_store(tmp_path, **{table: rows})))


def test_a_problem_of_a_store_is_an_error_of_check(tmp_path):
    store = a_store(tmp_path, gold=[GOLD | {"attempt_id": "x"}])
    status, output = check(store.path)
    assert status == 1 and "label an attempt that is not there" in output


def test_check_and_answer_accept_the_same_stores(tmp_path):
    store = a_store(tmp_path, verdicts=[VERDICT, BASELINE_VERDICT])  # without grader_version
    for file in store.path.glob("*.jsonl"):
        file.write_text("\ufeff" + file.read_text()[:-1])
    before = {file: file.read_bytes() for file in store.path.rglob("*.jsonl")}
    assert not {"store", "reading"} & set(lint_path(store.path)["rule"])
    result = CliRunner().invoke(app, ["answer", str(store.path), "--out", str(tmp_path / "page")])
    assert result.exit_code == 0 and "undetermined" in result.output
    assert {file: file.read_bytes() for file in store.path.rglob("*.jsonl")} == before


def test_a_gold_label_replaces_another_only_where_it_says_so(tmp_path):
    again = GOLD | {"passed": False, "replaces": True}
    gold = sc.frames.gold(a_store(tmp_path, gold=[GOLD, again, again]), labeller="all")
    assert gold["passed"].tolist() == [False]


# -- a folder of skills and their trigger prompts


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    put(tmp_path, "skills/tea/SKILL.md", SKILL)
    put(tmp_path, "skills/tea/references/times.md", "Three minutes.")
    put(tmp_path, "evals/skills/tea/prompts.csv", PROMPTS)
    put(tmp_path, "artifacts/skills/old/SKILL.md", "none")
    put(tmp_path, ".hidden/tea/SKILL.md", SKILL)
    return tmp_path


def rules(root: Path) -> list[str]:
    return lint_path(root, evals=True)["rule"].tolist()


def test_a_sound_repository_has_no_findings(repository: Path) -> None:
    (linted,) = lint_places(repository, evals=True)
    assert linted.findings.empty
    assert linted.description == f"'{repository}': 1 skill, 3 prompts"
    put(repository, "skills/tea/my notes.md", "Hot.")
    text = SKILL.replace("references/times.md", "my%20notes.md")  # a link may be percent-encoded
    put(repository, "skills/tea/SKILL.md", text)
    assert rules(repository) == []


@pytest.mark.parametrize(
    ("rule", "old", "new"),
    [
        ("done_none", "## Definition of done", "## Cups"),
        ("dry_run_none", "With `--dry-run` it names the steps without executing anything. ", ""),
        ("not_when_none", " Do not use it for coffee.", ""),
        ("download", "Optional: `git clone a`.", "First: `git clone a`."),
        ("unbounded", "1. Boil.", "1. Do everything."),
        ("link_missing", "references/times.md", "references/time.md"),
        ("link_missing", "references/times.md", "a\0b.md"),
        ("link_outside", "references/times.md", "%2E%2E/../../times.md"),
        ("reading", "name: tea", "name: coffee"),
    ],
)
def test_a_skill_that_lacks_one_thing_has_one_finding(rule, old, new, repository) -> None:
    assert old in SKILL
    file = put(repository, "skills/tea/SKILL.md", SKILL.replace(old, new))
    (row,) = lint_path(repository, evals=True).itertuples()
    assert (row.rule, row.file) == (rule, str(file))
    assert row.severity == ("error" if rule in ERRORS else "warning")


def test_duplicate_prompts_and_prompts_without_a_skill_are_reported(repository: Path) -> None:
    put(repository, "evals/skills/tea/prompts.csv", f"{PROMPTS}again,true,use  $TEA for two cups\n")
    put(repository, "evals/skills/milk/prompts.csv", PROMPTS.replace("cups", "jugs"))
    assert rules(repository) == ["skill_none", "prompt_twice", "prompt_twice", "prompt_twice"]


def test_skills_with_the_same_slug_name_or_description_are_reported(repository: Path) -> None:
    put(repository, "more/Tea/SKILL.md", SKILL.replace("references/times.md", "SKILL.md"))
    assert {"slug_twice", "description_twice"} <= set(rules(repository))
    other = SKILL.replace("name: tea", "name: green-tea").replace("references/times.md", "SKILL.md")
    put(repository, "more/Tea/SKILL.md", "none")
    put(repository, "more/green-tea/SKILL.md", other)
    messages = lint_path(repository, evals=True)["message"]
    places = (
        "evals/skills/%",
        "evals/%",
        "skills/%/evals",
        "skills/%",
        "%/evals",
        "%",
        "plugins/*/skills/%/evals",
        "plugins/*/evals/%",
    )
    listed = ", ".join(place.replace("%", "green-tea") for place in places)
    assert f"there are no prompts in {listed}." in set(messages)


def test_files_that_cannot_be_read_are_findings_and_no_end(repository: Path) -> None:
    (repository / "skills/tea/SKILL.md").write_bytes(b"\xff\xfe")
    put(repository, "evals/skills/tea/prompts.csv", "no,columns\n")
    assert rules(repository) == ["reading", "reading"]
    empty = repository / "empty"
    empty.mkdir()
    with pytest.raises(StudyError, match=r"there is no SKILL\.md and no prompts in evals"):
        lint_path(empty, evals=True)


def test_linked_and_recorded_copies_of_skills_are_left_out(repository, tmp_path_factory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    put(outside, "SKILL.md", SKILL)
    (repository / "skills" / "linked").mkdir()
    (repository / "skills/linked/SKILL.md").symlink_to(outside / "SKILL.md")
    sc.RunStore(repository / "study").add_skill(repository / "skills" / "tea")
    (linted,) = lint_places(repository, evals=True)
    assert linted.description.endswith("1 skill, 3 prompts")
    put(repository, "app/manifest.json", '{"name": "a web page"}')
    put(repository, "app/skills/tea/SKILL.md", SKILL)
    assert rules(repository) != []


# -- output for machines


def test_strict_fails_on_warnings_and_formats_are_for_machines(repository, monkeypatch) -> None:
    monkeypatch.chdir(repository)
    text = SKILL.replace("Optional: `git clone a`", "First: `git clone a`")
    put(repository, "skills/tea/SKILL.md", text)
    assert check("--evals", ".")[0] == 0
    assert check("--evals", "--strict", ".")[0] == 1
    _, output = check("--evals", "--format", "github", ".")
    assert output.startswith("::warning file=skills/tea/SKILL.md,line=10,title=download::line 10")


def test_a_finding_cannot_begin_a_command_of_the_workflow() -> None:
    entry = Finding("reading", "a\n::error::b 100%\r", "x", file="a,b:c.md")
    hostile = findings_frame([entry])
    (line,) = github(hostile)
    assert "\n" not in line and "\r" not in line
    assert line.startswith("::error file=a%2Cb%3Ac.md,title=reading::a%0A::error::b 100%25%0D")


@pytest.mark.parametrize("ident", ["..", "/abs", '"a\nb"', "-x"])
def test_check_evals_refuses_the_ids_that_a_trigger_run_refuses(repository, ident):
    put(repository, "evals/skills/tea/prompts.csv", PROMPTS.replace("explicit-1", ident))
    put(repository, "skills/a b/SKILL.md", SKILL.replace("name: tea", "name: a-b"))
    rows = lint_path(repository, evals=True)
    assert rows["message"].str.contains("'a b' cannot be a slug").any()
    assert rows["message"].str.contains("ids become names of files").sum() == 1
    folders = (repository / "run", repository / "skills", repository / "evals" / "skills")
    with pytest.raises(SuiteError, match="ids become names of files"):
        prepare_run(*folders, TriggerSettings(suite="all"))


@pytest.mark.parametrize("ident", ["..", "/abs", "a\nb"])
def test_check_names_ids_of_suites_that_are_paths_or_break_lines(tmp_path, ident):
    task = {"id": ident, "prompt": "Go.", "judge": {"type": "contains", "expected": ["a"]}}
    tasks = {"skill_id": "tea", "version": "1.0", "tasks": [task]}
    cases = {"skill_name": "tea", "evals": [{"id": ident, "prompt": "What?"}]}
    for name, content in (("task_suite.yaml", tasks), ("evals/tea.json", cases)):
        with pytest.raises(SuiteError, match="ids become names of files"):
            lint_path(put(tmp_path, name, json.dumps(content)))


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("exec(open(path).read())", "exec"),
        ("import runpy\n    runpy.run_path(path)", "runpy.run_path"),
        ("from runpy import run_path as go\n    go(path)", "runpy.run_path"),
        ("from importlib import util\n    util.spec_from_file_location('a', path)",
         "importlib.util.spec_from_file_location"),
        ("import importlib.util as u\n    u.spec_from_file_location('a', path)",
         "importlib.util.spec_from_file_location"),
        ("from importlib.machinery import SourceFileLoader as L\n    L('a', path)",
         "importlib.machinery.SourceFileLoader"),
        ("__import__('answer')", "__import__"),
        ("loader.exec_module(module)", "loader.exec_module"),
        ("run = exec\n    run(open(path).read())", "exec"),
        ("import builtins\n    getattr(builtins, 'exec')(open(path).read())", "builtins.exec"),
        ("import os\n    os.fork()", "os.fork"),
        ("import multiprocessing as mp\n    mp.Process(target=print)", "multiprocessing.Process"),
        ("import pickle\n    pickle.loads(open(path, 'rb').read())", "pickle.loads"),
        ("open('sol.py', 'w').write(open(path).read())\n    from sol import f", "import sol"),
        ("import subprocess, sys\n    subprocess.run([sys.executable, path])", None),
        ("model.eval()\n    re.compile(text)", None),
        ("broken(", None),
    ],
)  # fmt: skip
def test_check_names_a_test_that_executes_the_answer_in_its_own_process(tmp_path, code, message):
    test = f"import os\n\ndef test_it():\n    path = os.environ['AI_OUTPUT_FILE']\n    {code}\n"
    put(tmp_path, "fixtures/test_a.py", test)
    tasks = "\n".join(
        f"  - {{id: t{n}, prompt: Go., judge: {{type: pytest, test_file: fixtures/test_a.py}}}}"
        for n in range(5)
    )
    file = put(tmp_path, "task_suite.yaml", f'skill_id: tea\nversion: "1.0"\ntasks:\n{tasks}\n')
    findings = lint_path(file)
    rows = findings[findings["rule"].eq("answer_in_process")]
    assert len(rows) == (message is not None)  # once, although five tasks share the file
    if message:
        assert rows["message"].iloc[0].startswith("fixtures/test_a.py, line ")
        call = message if message.startswith("import ") else f"{message}(...)"
        assert rows["message"].iloc[0].endswith(f": {call}.")
        assert "a process of its own" in rows["reason"].iloc[0]


def test_check_names_the_conftest_and_the_helper_that_execute_the_answer(tmp_path):
    put(tmp_path, "fixtures/test_a.py", "from helper import run\n\ndef test_it():\n    run()\n")
    put(tmp_path, "fixtures/helper.py", "import deeper\n\ndef run():\n    deeper.run()\n")
    put(tmp_path, "fixtures/deeper.py", "def run():\n    exec('')\n")
    put(tmp_path, "fixtures/conftest.py", "import runpy\n\nrunpy.run_path('a')\n")
    put(tmp_path, "fixtures/unused.py", "exec('')\n")  # no test imports it
    tasks = "\n".join(
        f"  - {{id: t{n}, prompt: Go., judge: {{type: pytest, test_file: fixtures/test_a.py}}}}"
        for n in range(5)
    )
    file = put(tmp_path, "task_suite.yaml", f'skill_id: tea\nversion: "1.0"\ntasks:\n{tasks}\n')
    findings = lint_path(file)
    rows = findings[findings["rule"].eq("answer_in_process")]
    assert sorted(rows["message"]) == [
        "fixtures/conftest.py, line 3: runpy.run_path(...).",
        "fixtures/deeper.py, line 2: exec(...).",
    ]


@pytest.mark.parametrize(
    ("skill", "prompts"),
    [
        ("skills/tea", "evals/skills/tea/prompts.csv"),
        ("skills/tea", "evals/tea/prompts.csv"),
        ("skills/tea", "evals/tea/trigger_eval.json"),
        ("skills/tea", "skills/tea/evals/trigger-evals.json"),
        ("tea", "tea/evals/prompts.csv"),
        ("tea", "evals/tea/queries.json"),
        ("plugins/hot/skills/tea", "plugins/hot/skills/tea/evals/trigger-eval.json"),
    ],
)
def test_prompts_are_found_where_repositories_keep_them(tmp_path, skill, prompts):
    root = tmp_path / "repository"
    put(root, f"{skill}/SKILL.md", SKILL)
    put(root, f"{skill}/references/times.md", "Three minutes.")
    queries = [{"query": f"Steep {n}?", "should_trigger": n > 1} for n in range(3)]
    put(root, prompts, PROMPTS if prompts.endswith("csv") else json.dumps(queries))
    _, printed = check("--evals", root)
    assert "1 skill, 3 prompts" in printed and "there are no prompts" not in printed
    skills = root / "skills" if (root / "skills").is_dir() else root
    plan = prepare_run(tmp_path / "r", skills, root, TriggerSettings(suite="all"))
    assert set(plan.cases.values()) == {"tea"} and len(plan.cases) == 3


def test_a_repository_without_prompts_is_told_the_places(tmp_path: Path) -> None:
    put(tmp_path, "skills/tea/SKILL.md", SKILL)
    _, printed = check("--evals", tmp_path)
    assert "0 prompts in evals/skills/SKILL, evals/SKILL" in printed
    with pytest.raises(StudyError, match=r"0 sets of prompts in .*: evals/skills/SKILL, evals"):
        prepare_run(tmp_path / "r", tmp_path / "skills", tmp_path, TriggerSettings())
