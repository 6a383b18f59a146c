"""A study that names dimensions of its own, from its suite files to the page."""

import dataclasses
import json
import re

import pytest
from typer.testing import CliRunner
from written_study import written

import skillcomp as sc
from benchmarks import simulated
from skillcomp.cli import app
from skillcomp.errors import FrameError, SuiteError
from skillcomp.io import read_suite
from skillcomp.lint import lint_suite

NAMES = ["recall", "refusal", "use"]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> sc.RunStore:
    """Two skills whose cases ask for recall, use and refusal in turn."""
    plan = {"n_skills": 2, "n_cases": 12, "n_repeats": 1, "gold_fraction": 0.0}
    study = simulated.study(**plan, delta=0.4, between_skill_sd=0.0, seed=5)
    turns = (study.cases.groupby("skill").cumcount() % 3).map(dict(enumerate(NAMES)))
    own = study.cases.assign(comprehension_dimension=turns.astype("str"), concept_field=None)
    made = dataclasses.replace(study, cases=own)
    return sc.RunStore(written(tmp_path_factory.mktemp("own"), made))


@pytest.fixture(scope="module")
def outcomes(store: sc.RunStore):
    return sc.frames.outcomes(sc.frames.verdicts(store), sc.frames.cases(store))


def test_check_takes_the_names_and_expects_none_of_the_rubric(store: sc.RunStore) -> None:
    for suite in store.suites.values():
        assert not [one for one in suite.problems if "comprehension_dimension" in one]
        rules = set(lint_suite(suite)["rule"])
        assert not rules & {"dimension_single", "dimensions_missing", "far_missing"}
    told = CliRunner().invoke(app, ["check", str(store.path), "--advice"])
    assert told.output and not re.search(
        r"comprehension_dimension: found|for each of C1", told.output
    )


def test_beside_one_of_the_rubric_another_name_is_a_slip(store, tmp_path):
    file = next((store.path / "suites").glob("*.json"))
    suite = json.loads(file.read_text(encoding="utf-8"))
    suite["evals"][0]["comprehension_dimension"] = "C1"
    suite["evals"][0]["dimension"] = "boundary"
    mixed = tmp_path / file.name
    mixed.write_text(json.dumps(suite), encoding="utf-8")
    with pytest.raises(SuiteError, match="comprehension_dimension: found 'refusal'; allowed: C1"):
        read_suite(mixed, strict=True)
    assert "dimension_single" in set(lint_suite(read_suite(mixed))["rule"])


def test_frames_deltas_and_verdicts_are_of_these_dimensions(store: sc.RunStore, outcomes) -> None:
    assert sorted(sc.frames.cases(store)["comprehension_dimension"].unique()) == NAMES
    delta = sc.deltas.paired(outcomes, by=["comprehension_dimension"])
    assert delta["comprehension_dimension"].tolist() == NAMES
    assert delta["method"].str.endswith("; p adjusted by Holm over 3 rows").all()
    assert delta["p_adjusted"].between(delta["p_value"], 3 * delta["p_value"] + 1e-12).all()
    judged = sc.skillverdicts.dimensions(outcomes)
    assert set(judged["comprehension_dimension"]) == set(NAMES)
    for policy in ("strict", "weighted", "pass_count"):
        whole = sc.skillverdicts.aggregate(judged, policy=policy)
        assert (whole["n_passed"] + whole["n_failed"]).eq(3).all() and whole["n_missing"].eq(
            0
        ).all()
    counted = sc.skillverdicts.aggregate(judged, policy="pass_count")
    assert (counted["passed"] == counted["n_passed"].ge(2)).all()  # two thirds
    with pytest.raises(FrameError, match=r"exceptions: found 'usw'; allowed: recall, refusal, use"):
        sc.skillverdicts.aggregate(judged, exceptions=["usw"])
    both = sc.skillverdicts.together(judged, first="recall", second="use")
    assert both["estimate"].notna().all()


def test_figure_table_and_answer_show_the_names(store: sc.RunStore, outcomes) -> None:
    rates = sc.deltas.rates(outcomes, by=["comprehension_dimension"])
    ax = sc.plots.dimensions(rates, x="condition")
    rows = [label.get_text().partition("\n")[0] for label in ax.get_yticklabels()]
    assert sorted(rows) == NAMES
    assert (
        "| recall |"
        in sc.table(sc.deltas.paired(outcomes, by=["comprehension_dimension"])).markdown()
    )
    said = sc.report.answer(store)
    assert said.findings["sentence"].str.contains("compared within").any()
    near = said.findings.loc[said.findings["topic"].eq("transfer"), "sentence"].str.cat()
    assert any(name in near for name in NAMES) and "C1" not in near
