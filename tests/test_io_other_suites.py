"""Test cases of other tools: skill-creator's evals.json and trigger sets, claude plugin eval."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import skillcomp as sc
from skillcomp.cli import app
from skillcomp.errors import StudyError, SuiteError
from skillcomp.live.graders.comprehension import ComprehensionGrader
from skillcomp.live.graders.rule_checks import RuleChecker
from skillcomp.live.graders.traces import grade_trace
from skillcomp.live.plan import input_files
from skillcomp.live.trigger_runs import TriggerSettings, prepare_run
from skillcomp.records import Attempt, Rule, Skill

SKILL = "---\nname: tea\ndescription: Brews tea.\n---\n# Tea\nBoil.\n"
ATTEMPT = {"attempt_id": "a", "skill": "tea", "case_id": "c", "condition": "skill"}
EVAL = {
    "id": 1,
    "prompt": "Brew the leaves in leaves.csv",
    "expected_output": "A plan",
    "files": ["evals/files/leaves.csv"],
    "expectations": ["Names a time", "Names a heat"],
}


def put(root: Path, name: str, content: object) -> Path:
    file = root / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file


def a_skill(root: Path, *evals: dict[str, object], slug: str = "tea") -> Path:
    folder = root / "skills" / slug
    put(folder, "SKILL.md", SKILL.replace("name: tea", f"name: {slug}"))
    put(folder, "evals/files/leaves.csv", "leaf,grams\noolong,3\n")
    put(folder, "evals/evals.json", {"skill_name": slug, "evals": list(evals or (EVAL,))})
    return folder


# -- skill-creator


def test_each_expectation_is_a_check_and_the_files_are_installed(tmp_path):
    folder = a_skill(tmp_path)
    suite = sc.read_suite(folder)  # 'expectations' is not a known key, before
    (case,) = suite.cases
    assert (suite.slug, suite.skill, suite.problems) == ("tea", "tea", ())
    assert [check.description for check in case.checks] == EVAL["expectations"]
    assert case.case_id == "tea/1" and all(check.rule is None for check in case.checks)
    store = sc.RunStore(tmp_path / "store")
    store.add_skill(folder)
    recorded = store.add_suite(folder / "evals" / "evals.json")
    assert (recorded.cases, recorded.problems) == (suite.cases, ())
    ((name, file),) = input_files(store, case)
    assert name == EVAL["files"][0] and file.read_text().startswith("leaf")
    assert sc.RunStore(store.path).suites["tea"].skill == "tea"


@pytest.mark.parametrize(
    ("change", "descriptions", "problem"),
    [
        ({"expectations": None, "assertions": ["A"]}, ["A"], ""),
        ({"expectations": [{"name": "hot", "description": "Is hot"}]}, ["Is hot"], ""),
        ({"expectations": [{"id": "a", "type": "llm_judge", "rubric": "R"}]}, ["R"], ""),
        (
            {"expectations": ["A", {"type": "file_exists", "path": "x"}]},
            *(["A"], "the type 'file_exists' has no counterpart and is not checked"),
        ),
        ({"assertions": ["B"]}, EVAL["expectations"], "'assertions' has no counterpart"),
        ({"expectations": []}, [], "no expectations; a grader has nothing to decide"),
        ({"turns": [1]}, EVAL["expectations"], "'turns' has no counterpart and is not checked"),
        ({"owner": "me"}, EVAL["expectations"], "'owner' is kept in extra"),
        ({"files": ["evals/gone.csv"]}, EVAL["expectations"], "no file 'evals/gone.csv'"),
        ({"files": ["../../../etc/passwd"]}, EVAL["expectations"], "there is no file '../"),
    ],
)
def test_what_cannot_be_mapped_is_listed_and_kept(tmp_path, change, descriptions, problem):
    suite = sc.read_suite(a_skill(tmp_path, {**EVAL, **change}))
    (case,) = suite.cases
    assert [check.description for check in case.checks] == descriptions
    assert problem in "".join(suite.problems) and bool(problem) == bool(suite.problems)
    unmapped = [row.get("type") for row in case.extra.get("unmapped", [])]
    assert ("file_exists" in unmapped) == ("file_exists" in problem)


def test_a_list_at_the_top_and_a_folder_of_files_are_read_and_no_other_format(tmp_path):
    folder = a_skill(tmp_path)
    put(folder, "evals/evals.json", [{**EVAL, "files": ["evals/files"]}])
    suite = sc.read_suite(folder)
    assert suite.skill == "tea" and suite.cases[0].extra["files"] == EVAL["files"]
    put(folder, "evals/evals.json", {"version": 1, "cases": [{"id": "a", "critical": True}]})
    with pytest.raises(SuiteError, match="'evals' is missing"):  # another tool's format
        sc.read_suite(folder)


def test_a_trigger_set_is_run_by_trigger(tmp_path):
    folder = a_skill(tmp_path)
    rows = [
        {"query": "How long does oolong steep?", "should_trigger": True, "category": "a"},
        {"query": "Grind these beans", "should_trigger": False, "expected_skill": "coffee"},
    ]
    file = put(folder, "evals/trigger_eval.json", rows)
    suite = sc.read_suite(file)
    assert (suite.slug, suite.skill, suite.problems) == ("tea-triggers", "tea", ())
    facts = [(c.should_trigger, c.prompt_kind, c.right_skills) for c in suite.cases]
    assert facts == [(True, "implicit", None), (False, "negative", ("coffee",))]
    assert [c.checks[0].check_kind for c in suite.cases] == ["positive", "negative"]
    skills, settings = folder.parent, TriggerSettings(suite="all")
    plan = prepare_run(tmp_path / "runs" / "r1", skills, skills, settings)
    assert plan.cases == dict.fromkeys(("tea-triggers/query-1", "tea-triggers/query-2"), "tea")
    put(folder, "evals/trigger_eval.json", {"skill_name": "tea", "queries": [*rows, rows[0]]})
    (problem,) = sc.read_suite(file).problems
    assert "the query 'How long does oolong steep?' stands 2 times" in problem


# -- claude plugin eval


def a_plugin(root: Path, graders: dict[str, str], case_yaml: str | None = None) -> Path:
    put(root, ".claude-plugin/plugin.json", {"name": "tea"})
    put(root, "skills/tea/SKILL.md", SKILL)
    put(root, "evals/brew/prompt.md", "---\ntags: [smoke]\ntimeout_seconds: 60\n---\nBrew tea.\n")
    for name, text in graders.items():
        put(root, f"evals/brew/graders/{name}.md", text)
    if case_yaml:
        put(root, "evals/brew/case.yaml", case_yaml)
    return root


def test_graders_become_rules_and_rubrics_become_behaviours(tmp_path):
    graders = {
        "hot": "---\ntype: regex\npattern: \\bhot\\b\nflags: i\n---\na comment",
        "no-cold": "---\n{type: regex, pattern: cold, match: not_contains}\n---\n",
        "read": "---\ntype: tool_used\ntool: Read\ninput_match: leaves\n---\n",
        "order": "---\ntype: tool_order\nbefore: Read\nafter: {tool: Bash}\n---\n",
        "file": "---\ntype: file_exists\npath: out/*.md\n---\n",
        "good": "---\ntype: llm\n---\nPASS if the plan is complete.",
        "fired": "---\ntype: tool_used\ntool: Skill\ninput_match: tea\n---\n",
    }
    suite = sc.read_suite(a_plugin(tmp_path / "tea-plugin", graders))
    (case,) = suite.cases
    assert (suite.skill, suite.kind, suite.problems) == ("tea", "plugin-eval", ())
    assert (case.prompt, case.timeout_seconds, case.should_trigger) == ("Brew tea.", 60.0, True)
    checks = {c.check_id: (c.rule and c.rule.type, c.check_kind, c.goal) for c in case.checks}
    assert checks == {
        "file": ("file_exists", "positive", "outcome"),
        "good": (None, "positive", "outcome"),
        "hot": ("regex", "positive", "outcome"),
        "no-cold": ("regex", "negative", "outcome"),
        "order": ("tool_order", "positive", "process"),
        "read": ("tool_used", "positive", "process"),
    }
    store = sc.RunStore(tmp_path / "store")
    assert store.add_suite(tmp_path / "tea-plugin").cases == suite.cases
    again = sc.RunStore(store.path).suites["tea-plugin"]
    assert (again.cases, again.skill, again.problems) == (suite.cases, "tea", ())
    assert (
        sc.read_suite(tmp_path / "tea-plugin" / "evals" / "brew" / "prompt.md").kind == suite.kind
    )


@pytest.mark.parametrize(
    ("grader", "problem"),
    [
        ("type: baseline\nbaseline_file: a.jsonl", "the type 'baseline' has no counterpart"),
        ("type: regex\npattern: a\narm: with-only", "a grader of the arm with the plugin only"),
        ("type: regex\npattern: (?i)a", "is no JavaScript pattern"),
        ("type: regex\npattern: a(", "the pattern 'a('"),
        ("type: regex\npattern: a\ntarget: mock_calls", "the target 'mock_calls'"),
        ("type: llm\nfocus: trace\ncriteria: c", "a rubric on 'trace'"),
    ],
)
def test_a_grader_without_counterpart_is_listed_and_kept(tmp_path, grader, problem):
    graders = {"a": f"---\n{grader}\n---\n", "b": "---\ntype: regex\npattern: b\n---\n"}
    suite = sc.read_suite(a_plugin(tmp_path, graders))
    assert problem in suite.problems[0] and "is not checked" in suite.problems[0]
    (case,) = suite.cases
    assert [check.check_id for check in case.checks] == ["b"]
    assert case.extra["unmapped"][0]["name"] == "a"


@pytest.mark.parametrize(
    ("settings", "trigger", "problem"),
    [
        ("", True, None),
        ("input_match: tea", True, None),
        ("min: 2", True, "a number of calls"),
        ("min: 0\nmax: 0", False, None),
        ("input_match: coffee", None, "other skills"),
        ("input_match: coffee\nmax: 0", None, "other skills"),
        ("min: two", None, "other skills"),
    ],
)
def test_a_grader_on_the_tool_skill_is_whether_the_skill_should_trigger(
    tmp_path, settings, trigger, problem
):
    graders = {"fired": f"---\ntype: tool_used\ntool: Skill\n{settings}\n---\n"}
    graders["b"] = "---\ntype: regex\npattern: b\n---\n"
    suite = sc.read_suite(a_plugin(tmp_path, graders))
    (case,) = suite.cases
    assert (case.should_trigger, [c.check_id for c in case.checks]) == (trigger, ["b"])
    assert len(suite.problems) == (problem is not None)
    assert all(problem in text and "is kept in extra" in text for text in suite.problems)
    status, output = check(tmp_path / "evals")  # it is no part of the outcome, so no error
    assert (status, "not_mapped" in output) == (0, False)


def test_a_skill_of_several_does_not_trigger_by_any_call_of_the_tool(tmp_path):
    put(tmp_path, "skills/mug/SKILL.md", SKILL)
    graders = {"fired": "---\ntype: tool_used\ntool: Skill\n---\n"}
    (case,) = sc.read_suite(a_plugin(tmp_path, graders), skill="tea").cases
    assert case.should_trigger is None and case.extra["unmapped"][0]["name"] == "fired"


@pytest.mark.parametrize("place", ["plugin", "plugin/evals", "skills"])
def test_trigger_reads_the_cases_of_claude_plugin_eval(tmp_path, place):
    fired = "---\n{type: tool_used, tool: Skill}\n---\n"
    plugin = a_plugin(tmp_path / "plugin", {"fired": fired})
    put(plugin, "evals/cool/prompt.md", "Cool it.\n")
    put(plugin, "evals/cool/graders/not.md", fired.replace("}", ", max: 0}"))
    put(tmp_path, "skills/tea/SKILL.md", SKILL)
    put(tmp_path, "skills/tea/evals/brew/prompt.md", "Brew tea.\n")
    put(tmp_path, "skills/tea/evals/brew/graders/fired.md", fired)
    settings = TriggerSettings(suite="all")
    plan = prepare_run(tmp_path / "r1", plugin / "skills", tmp_path / place, settings)
    ids = [case_id.partition("/")[2] for case_id in plan.cases]
    assert ids == (["brew", "cool"] if "plugin" in place else ["brew"])
    suites = sc.RunStore(tmp_path / "r1" / "store").suites
    (suite,) = (suites[slug] for slug in suites if not slug.startswith("control-"))
    assert suite.skill == "tea" and suite.cases[0].should_trigger is True
    rows = grade_trace(Attempt(**ATTEMPT, triggered=True), suite.cases[0], "tea", None)
    assert [(row.check.check_id, row.passed) for row in rows] == [("trigger", True)]


def test_trigger_asks_for_the_skill_of_a_plugin_with_several(tmp_path):
    plugin = a_plugin(tmp_path, {"a": "---\ntype: regex\npattern: a\n---\n"})
    put(plugin, "skills/mug/SKILL.md", SKILL.replace("tea", "mug"))
    places = (tmp_path / "r", plugin / "skills", plugin / "evals", TriggerSettings(suite="all"))
    with pytest.raises(StudyError, match="--skill names one of: mug, tea"):
        prepare_run(*places)
    assert set(prepare_run(*places, only_skills=["tea"]).cases.values()) == {"tea"}


def test_prompt_md_wins_over_case_yaml_and_both_lists_of_graders_count(tmp_path):
    text = (
        'schema_version: "1.1"\nname: strong\nexecution: {prompt: Old, timeout_seconds: 9}\n'
        "context: {scaffold_script: s.sh}\n"
        "graders: [{name: a, type: regex, pattern: a, weight: 2}]\n"
    )
    suite = sc.read_suite(a_plugin(tmp_path, {"b": "---\ntype: regex\npattern: b\n---\n"}, text))
    (case,) = suite.cases
    assert (case.prompt, case.timeout_seconds) == ("Brew tea.", 60.0)
    assert case.case_id.endswith("/strong")
    assert [check.check_id for check in case.checks] == ["a", "b"]
    problems = "\n".join(suite.problems)
    assert "weight 2 is kept in extra" in problems
    assert "context.scaffold_script: has no counterpart" in problems


# -- rules

BLOCKS = [
    {"type": "tool_use", "id": "1", "name": "Read", "input": {"file_path": "leaves.csv"}},
    {"type": "tool_use", "id": "2", "name": "Bash", "input": {"command": "boil water"}},
]
TRACE = "\n".join(
    json.dumps(event)
    for event in (
        {"type": "system", "subtype": "init", "session_id": "s"},
        *({"type": "assistant", "message": {"content": [block]}} for block in BLOCKS),
    )
)
FILES = ["out/plan.md", "out/deep/a.txt"]


def rule(type: str, **settings: object) -> Rule:
    return Rule(type=type, settings=settings)


@pytest.mark.parametrize(
    ("asked", "passed"),
    [
        (rule("regex", pattern="HOT", flags="i"), True),
        (rule("regex", pattern="HOT"), False),
        (rule("regex", pattern="so", flags="y"), False),  # "hot, so"
        (rule("regex", pattern="hot", match="not_contains"), False),
        (rule("regex", pattern="o", match="count:2"), True),  # "hot, so"
        (rule("regex", pattern="o", match="count:1"), False),
        (rule("regex", pattern='"command": "boil', target="trace"), True),
        (rule("regex", pattern="deep/", target="files"), True),
        (rule("regex", pattern="Boil", target={"source": "file", "path": "out/plan.md"}), True),
        (rule("regex", pattern="x", target={"source": "file", "path": "gone.md"}), False),
        (rule("tool_used", tool="Read", input_match="leaves"), True),
        (rule("tool_used", tool="Read", input_match='"file_path":"leaves'), True),
        (rule("tool_used", tool="Write"), False),
        (rule("tool_used", tool="Write", min=0, max=0), True),
        (rule("tool_order", before="Read", after={"tool": "Bash", "input_match": "boil"}), True),
        (rule("tool_order", before="Bash", after="Read"), False),
        (rule("file_exists", path="**/*.txt"), True),
        (rule("file_exists", path="*.txt"), False),
        (rule("file_exists", path="out/{plan,list}.md", exists=False), False),
    ],
)
def test_a_rule_is_decided_by_what_is_recorded_and_else_unknown(tmp_path, asked, passed):
    put(tmp_path, "out/plan.md", "Boil")
    done = Attempt(**ATTEMPT, answer="hot, so", trace=TRACE)
    assert RuleChecker(done, FILES, tmp_path).result_of(asked)[0] is passed
    if asked.type != "regex" or asked.settings.get("target", "answer") != "answer":
        bare = Attempt(**ATTEMPT, answer="hot, so")
        assert RuleChecker(bare).result_of(asked)[0] is None


@pytest.mark.parametrize(
    ("pattern", "flags", "passed"),
    [
        ("VERT: THÉ", "i", True),  # without a class of letters, both read the same
        (r"th\b", "", None),  # in JavaScript é is no letter: th ends there
        (r"caf\w", "", None),
        (r"\bth\s", "", False),
        ("[a-z--[tf]]{5}", "v", False),  # "café", "vert": two letters before t or f
    ],
)
def test_a_pattern_that_javascript_may_read_differently_is_unknown(pattern, flags, passed):
    done = Attempt(**ATTEMPT, answer="Un café, un Thé vert: thé")
    asked = rule("regex", pattern=pattern, flags=flags)
    assert RuleChecker(done).result_of(asked)[0] is passed


def test_a_grader_decides_rules_without_its_model(tmp_path):
    graders = {"hot": "---\ntype: regex\npattern: hot\n---\n"}
    graders["file"] = "---\ntype: file_exists\npath: a\n---\n"
    (case,) = sc.read_suite(a_plugin(tmp_path / "plugin", graders)).cases
    attempt = Attempt(**ATTEMPT | {"case_id": case.case_id}, answer="hot")

    class Silent(sc.live.BaseAgent):
        name, model, family = "silent", "m", "f"

        async def ask(self, prompt, **about):
            raise AssertionError("the model was asked")

    grading = ComprehensionGrader(Silent()).grade(attempt, case, Skill(slug="tea"))
    rows = {v.check_id: (v.status, v.passed) for v in asyncio.run(grading).verdicts}
    assert rows == {"hot": ("ok", True), "file": ("error", None)}


# -- skillcomp check


def check(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["check", *map(str, arguments)])
    return result.exit_code, result.output


def test_check_reads_a_folder_of_skills_without_advice_on_comprehension(tmp_path):
    a_skill(tmp_path)
    a_skill(tmp_path, slug="mug")
    put(tmp_path / "skills" / "mug", "evals/mock/skills/x/SKILL.md", SKILL)
    status, output = check("--advice", tmp_path / "skills")
    assert status == 0 and "concept" not in output and "Verification" not in output
    assert output.splitlines() == [
        "skill 'mug': 1 section: no problems",
        "suite 'mug': 1 case, 2 checks: no problems",
        "skill 'tea': 1 section: no problems",
        "suite 'tea': 1 case, 2 checks: no problems",
    ]
    put(tmp_path, "skills/bad/SKILL.md", "---\n: [\n")
    status, output = check(tmp_path / "skills")
    assert status == 1 and "bad" in output and "suite 'tea'" in output


def test_a_check_that_has_no_counterpart_is_an_error_and_a_kept_key_is_advice(tmp_path):
    folder = a_skill(tmp_path, {**EVAL, "owner": "me", "expectations": ["A", {"type": "x"}]})
    status, output = check(folder)
    assert status == 1 and "[not_mapped]" in output and "owner" not in output
    assert "'owner' is kept in extra" in check("--advice", folder)[1]


def test_advice_on_a_concept_appears_where_a_suite_asks_about_it(tmp_path):
    put(tmp_path, "skills/tea/SKILL.md", SKILL)
    case = {"id": 1, "prompt": "Q?", "comprehension_dimension": "C1"}
    put(tmp_path, "tea.json", {"skill_name": "tea", "evals": [case]})
    study = put(tmp_path, "study.yaml", "store: s\nskills: [skills/tea]\nsuites: [tea.json]\n")
    assert "concept_none" in set(sc.lint.lint_path(study)["rule"])
    assert sc.lint.lint_path(tmp_path / "skills").empty
