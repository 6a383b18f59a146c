"""Test cases of other tools: skill-creator's evals.json and trigger sets."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import skillcomp as sc
from skillcomp.cli import app
from skillcomp.errors import GraderError, SuiteError
from skillcomp.live.graders.comprehension import ComprehensionGrader
from skillcomp.live.plan import input_files
from skillcomp.live.trigger_runs import TriggerSettings, prepare_run
from skillcomp.records import Attempt, Skill

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


@pytest.mark.parametrize("place", ["plugin", "plugin/evals/brew", "plugin/evals/brew/prompt.md"])
def test_cases_of_claude_plugin_eval_are_refused_with_the_way_to_their_results(tmp_path, place):
    put(tmp_path, "plugin/.claude-plugin/plugin.json", {"name": "tea"})
    put(tmp_path, "plugin/evals/brew/prompt.md", "Brew tea.\n")
    put(tmp_path, "plugin/evals/brew/graders/hot.md", "---\ntype: regex\npattern: hot\n---\n")
    with pytest.raises(SuiteError, match=r"claude plugin eval.*sc\.read_results"):
        sc.read_suite(tmp_path / place)


def test_an_old_store_with_cases_of_claude_plugin_eval_is_read_and_not_graded(tmp_path):
    files = {
        "prompt.md": "---\ntimeout_seconds: 60\n---\nBrew tea.\n",
        "graders/hot.md": "---\ntype: regex\npattern: hot\n---\n",
        "case.yaml": "graders:\n- {name: kind, type: llm, criteria: Is kind}\n",
    }
    bundle = {"claude_plugin_eval": {"tea/brew": files}, "plugin": "tea", "skills": ["tea"]}
    suite = sc.read_suite(put(tmp_path, "tea.json", bundle))
    (case,) = suite.cases
    assert (suite.skill, suite.kind, case.case_id) == ("tea", "plugin-eval", "tea/brew")
    assert case.prompt == "Brew tea."
    assert [check.check_id for check in case.checks] == ["kind", "hot"]
    attempt = Attempt(**ATTEMPT | {"case_id": case.case_id}, answer="hot")
    with pytest.raises(GraderError, match="that program runs and grades its cases"):
        asyncio.run(
            ComprehensionGrader(sc.CliAgent(["true"])).grade(attempt, case, Skill(slug="tea"))
        )
    old = {"check_id": "hot", "rule": {"type": "regex", "settings": {"pattern": "hot"}}}
    assert sc.records.Check.model_validate(old).rule["settings"] == {"pattern": "hot"}


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
