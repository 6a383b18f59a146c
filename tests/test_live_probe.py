"""Answers of known quality expose checks that measure nothing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
import yaml
from live_study import call
from machine import needs_bubblewrap

import skillcomp as sc
from skillcomp.errors import StudyError
from skillcomp.frames.probes import probed_checks
from skillcomp.live import BaseGrader, CliAgent, Grading, on_check, probe
from skillcomp.live.graders import sandbox
from skillcomp.live.graders.grader import GraderWarning

SLUGS = ("type-safety", "idempotent-retries")
EMPTY_TEST = "def test_it():\n    assert True\n"


ASK = "2 not tested: no program decides this check; ask a grader (graders=, --ask)"


def planted(id, judge, **more):
    return {"id": id, "prompt": "Do it.", "judge": judge, **more}


@pytest.fixture
def study(tmp_path) -> Path:
    """Two recorded suites without their tests, which take long, and three planted faults."""
    recorded = sc.datasets.path("execution")
    for slug in SLUGS:
        shutil.copytree(recorded / "skills" / slug, tmp_path / "skills" / slug)
        suite = tmp_path / "suites" / slug
        shutil.copytree(recorded / "suites" / slug, suite)
        content = yaml.safe_load((suite / "task_suite.yaml").read_text())
        content["tasks"] = [t for t in content["tasks"] if t["judge"]["type"] != "pytest"]
        if slug == SLUGS[0]:
            (suite / "fixtures" / "test_empty.py").write_text(EMPTY_TEST)
            (suite / "reference" / "never.md").write_text("The narrowing happens at the boundary.")
            never = {"type": "contains", "expected": ["a word that no answer has"]}
            done = {"type": "contains", "expected": ["I have changed the file"]}
            content["tasks"] += [
                planted("hollow", {"type": "pytest", "test_file": "fixtures/test_empty.py"}),
                planted("never", never),
                planted("no-file", done, refusal="There is no such file, so I changed nothing."),
            ]
        (suite / "task_suite.yaml").write_text(yaml.safe_dump(content))
    listed = {kind: [f"{kind}/{slug}" for slug in SLUGS] for kind in ("skills", "suites")}
    (tmp_path / "study.yaml").write_text(yaml.safe_dump({"store": "study", **listed}))
    return tmp_path / "study.yaml"


def test_three_planted_faults_are_named_with_case_and_check(study, monkeypatch, capsys):
    needs_bubblewrap()
    status, out, _ = call(monkeypatch, capsys, "check", "--judges", study)
    assert status == 1
    for line in (
        "type-safety/hollow: pytest: vacuous: passes on the empty answer, the skill's text, a re",
        "type-safety/never: contains: impossible: fails the reference answer (missing: 'a word",
        "type-safety/no-file: contains: punishes refusal: fails a refusal (missing: 'I have",
    ):
        assert line in out
    store = sc.RunStore(study.parent / "study")
    rows = sc.frames.probes(store)
    of_plants = rows[rows["case_id"].str.contains("hollow|never|no-file")]
    assert of_plants["finding"].tolist() == ["vacuous", "impossible", "punishes refusal"]
    page = sc.report.build(store, study.parent / "page", notebooks=[], progress=False)
    text = page.read_text()
    assert f"3 of 11 checks are at fault; {ASK}." in text and "punishes refusal" in text
    assert "answers of known quality pass. The reference should" in text  # of the figure
    drawn = pd.read_csv(page.parent / "00-probe-rates.csv").set_index(["skill", "answer"])
    empty = drawn.loc[("type-safety", "empty")]
    assert empty["n_checks"] == rows.loc[rows["skill"].eq("type-safety"), "empty"].count()
    assert empty["estimate"] == pytest.approx(1 / empty["n_checks"])
    others = rows.drop(of_plants.index).dropna(subset="grader")  # a rubric asks a model
    assert others["reference"].eq(True).all()  # recorded tasks pass their references
    assert not others["finding"].str.contains("impossible|punishes").any()


def test_without_a_sandbox_one_line_says_what_was_not_tested_and_what_to_install(
    study, monkeypatch, capsys
):
    monkeypatch.setattr(sandbox, "why_no_sandbox", lambda: "bubblewrap is not installed")
    lack = "1 not tested: bubblewrap is not installed; install bubblewrap, or probe on a machine w"
    status, out, err = call(monkeypatch, capsys, "check", "--judges", study)
    (line,) = (line for line in out.splitlines() if "not tested" in line)
    assert line.startswith(f"probe: 2 of 11 checks at fault; {ASK}; {lack}")
    assert (status, "not tested" in err) == (1, False)
    store = sc.RunStore(study.parent / "study")
    page = sc.report.build(store, study.parent / "page", notebooks=[], progress=False)
    assert f"<p>2 of 11 checks are at fault; {ASK}; {lack}" in page.read_text()
    with pytest.warns(GraderWarning, match=f"^probe: {lack}"):
        rows = probe(store, progress=False)
    (hollow,) = rows.loc[rows["case_id"].eq("type-safety/hollow"), "note"]
    assert "install bubblewrap" in hollow and "no verdict: bubblewrap is not installed" in hollow


PROMPTS = r"""id,should_trigger,prompt,must_include,must_not_include,require_files,output_schema
a,true,Use $tea,boil|^(?!.*sorry)|(?!.*sorry)|steep,milk,out.md,s.json
b,false,茶 or ☕?,,tea,,s.json
"""


def test_the_patterns_schemas_and_files_of_a_trigger_suite_are_tested_without_a_run(tmp_path):
    store = sc.RunStore(tmp_path / "study")
    skill = tmp_path / "tea" / "SKILL.md"
    skill.parent.mkdir()
    skill.write_text("---\nname: tea\ndescription: Tea.\n---\nSteep the leaves.")
    (tmp_path / "prompts.csv").write_text(PROMPTS, encoding="utf-8")
    shape = {"type": "object", "properties": {"invoked_skills": {"type": "array"}}}
    (tmp_path / "s.json").write_text(json.dumps(shape))
    store.add_skill(skill)
    suite = store.add_suite(tmp_path / "prompts.csv", skill="tea")
    rows = probe(store, progress=False).set_index(["case_id", "check_id"])
    assert rows["grader"].eq("trace").all()
    vacuous = rows[rows["finding"].eq("vacuous")]["note"].to_dict()
    assert vacuous == {  # a lookahead without an anchor passes everything, and one word is copied
        (f"{suite.slug}/a", "must_include-3"): "passes on the empty answer, the skill's text",
        (f"{suite.slug}/a", "must_include-4"): "passes on the skill's text",
    }
    assert rows["finding"].isin(["", "vacuous"]).all()
    forbidden = rows.loc[(f"{suite.slug}/a", "must_include-2")]  # ^(?! forbids, so empty is right
    assert forbidden["empty"] and rows.loc[(f"{suite.slug}/b", "invoked_skills"), "empty"]
    assert not rows.loc[(f"{suite.slug}/a", "require_files-1"), "empty"]
    assert "a run of the program" in rows.loc[(f"{suite.slug}/a", "trigger"), "note"]


class Lenient(BaseGrader):
    """A grader that passes every answer and forgets one check."""

    name = "lenient"

    async def grade(self, attempt, case, skill, **place):
        about = self.about(attempt, place)
        checks = [c for c in case.checks if c.check_id != "forgotten"]
        return Grading(tuple(on_check(c, i, about, passed=True) for i, c in enumerate(checks)))


def test_graders_decide_what_no_program_does_and_copying_is_searched_for(tmp_path, capsys):
    store = sc.RunStore(tmp_path / "study")
    skill = tmp_path / "tea" / "SKILL.md"
    skill.parent.mkdir()
    skill.write_text(
        "---\nname: tea\ndescription: Tea.\n---\nPour boiling water on the leaves now."
    )
    behaviours = [
        {"id": "names_heat", "kind": "positive", "description": "Names the heat."},
        {"id": "forgotten", "kind": "positive", "description": "Names the time."},
        {"id": "no_verbatim_span", "kind": "negative", "description": "Copies nothing."},
    ]
    case = {"id": 1, "prompt": "How?", "expected_behaviors": behaviours}
    labels = {"names_heat": True}
    answer = "Heat fresh water well, let leaves steep four minutes, add lemon."
    case["gold_answers"] = [{"answer": answer, "labels": labels}]
    (tmp_path / "tea.json").write_text(json.dumps({"skill_name": "tea", "evals": [case]}))
    store.add_skill(skill)
    store.add_suite(tmp_path / "tea.json")
    rows = probe(store, progress=False).set_index(["check_id", "grader"])
    assert rows["finding"].tolist() == ["", "", ""]
    assert "ask a grader" in rows.loc["names_heat", "note"].iloc[0]
    copied = rows.loc["no_verbatim_span", "overlap"]
    assert not copied["skill_text"]
    assert copied["reference"] and pd.isna(copied["empty"])  # too short to copy
    asked = Lenient()
    asked.agent, asked.model = CliAgent(["true"]), "claude-haiku-5-5"
    rows = probe(store, graders=[asked]).set_index(["check_id", "grader"])
    assert "probe: up to 5 questions to graders, about $0.0" in capsys.readouterr().out
    assert rows.loc["names_heat", "lenient"]["finding"] == "vacuous"
    assert rows.loc["no_verbatim_span", "lenient"]["finding"] == "vacuous"
    assert rows.loc["no_verbatim_span", "overlap"]["finding"] == ""
    checks = probed_checks(rows.reset_index())  # three checks, one of them by two graders
    assert checks[["at_fault", "tested"]].sum().tolist() == [2, 2] and len(checks) == 3
    rates = sc.frames.probe_rates(rows.reset_index()).set_index("answer")
    assert rates.loc["empty", "estimate"] == 1 and rates.loc["empty", "n_checks"] == 2
    ax = sc.plots.dimensions(rates.reset_index(), x="answer", y="skill")
    assert len(ax.texts)
    with pytest.raises(StudyError, match="have no checks"):
        probe(sc.RunStore(tmp_path / "other"))
