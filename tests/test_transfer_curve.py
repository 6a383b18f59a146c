"""Distances of cases from a skill, and curves of the effect by distance, with known truth."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from build import sentences_on

import skillcomp as sc
from skillcomp.errors import FrameError

N, REPEATS = 40, 3


def study(seed: int = 0, *, base: Any = 0.3, change: Any = 0.4, skills: int = 1) -> pd.DataFrame:
    """Draw outcomes of 40 cases per skill; rates are functions of the distance from 0 to 1."""
    rng = np.random.default_rng(seed)
    at = np.tile(np.linspace(0, 1, N), skills)
    cases = pd.DataFrame({"skill": [f"s{i // N}" for i in range(N * skills)], "x": at})
    cases["case_id"] = [f"c{i}" for i in range(len(cases))]
    before = base(at) if callable(base) else np.full(len(at), base)
    after = before + (change(at) if callable(change) else change)
    parts = []
    for condition, rates in (("baseline", before), ("skill", after)):
        for repeat in range(1, REPEATS + 1):
            passed = rng.random(len(at)) < rates
            parts.append(cases.assign(condition=condition, repeat=repeat, passed=passed))
    return pd.concat(parts, ignore_index=True)


def slopes(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[rows["bin"].isna()].set_index("measure")


@pytest.mark.parametrize("skills", [1, 3])
def test_slopes_are_those_of_least_squares_with_a_level_for_each_skill(skills: int) -> None:
    frame = study(1, change=lambda x: 0.5 - 0.4 * x, skills=skills)
    frame["x"] += frame["skill"].map({"s0": 0.0, "s1": 2.0, "s2": 5.0})
    found = slopes(sc.transfer.curve(frame, distance="x"))
    wide = frame.pivot_table(index=["skill", "case_id", "x"], columns="condition", values="passed")
    wide.columns = ["before", "after"]
    wide = wide.reset_index().assign(delta=lambda w: w["after"] - w["before"])
    for measure, value in (("delta_slope", "delta"), ("reference_slope", "before")):
        expected = smf.ols(f"{value} ~ x + C(skill)", wide).fit().params["x"]
        assert found.loc[measure, "estimate"] == pytest.approx(expected, abs=1e-9)
    assert found["distance_high"].sub(found["distance_low"]).eq(1.0).all()


def test_bins_have_equal_numbers_of_cases_of_each_skill_and_their_deltas() -> None:
    frame = study(2, skills=2)
    rows = sc.transfer.curve(frame, distance="x", bins=4)
    deltas = rows[rows["measure"].eq("delta_passed")]
    assert deltas["n"].tolist() == [20.0] * 4
    assert deltas["bin"].tolist() == [1, 2, 3, 4]
    first = frame[frame["x"] < 0.25]
    plain = sc.deltas.paired(first)
    assert deltas["estimate"].iloc[0] == pytest.approx(plain["estimate"].item())
    assert deltas["ci_low"].iloc[0] == pytest.approx(plain["ci_low"].item())
    assert deltas["distance_high"].is_monotonic_increasing


def test_cases_at_one_distance_are_in_one_bin() -> None:
    frame = study(3).assign(x=lambda f: (f["x"] > 0.6).astype(float))
    rows = sc.transfer.curve(frame, distance="x", bins=3)
    deltas = rows[rows["measure"].eq("delta_passed")]
    assert deltas["n"].sum() == N
    assert deltas["distance_low"].equals(deltas["distance_high"])


def test_planted_slopes_are_found_and_difficulty_is_said() -> None:
    falls = study(4, base=lambda x: 0.75 - 0.6 * x, change=0.2)
    note = slopes(sc.transfer.curve(falls, distance="x")).loc["delta_slope", "note"]
    assert "distance and difficulty cannot be separated" in note
    level = [
        slopes(sc.transfer.curve(study(seed), distance="x")).loc["delta_slope"] for seed in range(6)
    ]
    assert sum("no slope of the rate is shown" in row["note"] for row in level) >= 5
    assert sum(row["ci_low"] <= 0 <= row["ci_high"] for row in level) >= 5
    steep = study(5, change=lambda x: 0.7 - 0.7 * x, skills=3)
    row = slopes(sc.transfer.curve(steep, distance="x")).loc["delta_slope"]
    assert row["ci_low"] <= -0.7 <= row["ci_high"] < 0
    assert row["shown"]


def test_a_gain_by_copied_answers_is_no_gain_in_own_words() -> None:
    frame = study(6)
    copied = frame["condition"].eq("skill") & frame["passed"]
    frame["passed_own_words"] = frame["passed"].mask(copied, frame["case_id"].eq("none"))
    frame["passed_own_words"] = frame["passed_own_words"].astype("boolean")
    rows = sc.transfer.curve(frame, distance="x", value="passed_own_words")
    deltas = rows[rows["measure"].eq("delta_passed_own_words")]
    assert deltas["estimate"].lt(0.0).all()
    whole = sc.transfer.curve(frame, distance="x")
    assert whole.loc[whole["measure"].eq("delta_passed"), "estimate"].gt(0.1).all()


def test_open_passes_widen_a_slope_in_own_words() -> None:
    frame = study(7)
    plain = slopes(sc.transfer.curve(frame, distance="x"))
    frame["passed_own_words"] = frame["passed"].astype("boolean")
    same = slopes(sc.transfer.curve(frame, distance="x", value="passed_own_words"))
    assert same["estimate"].tolist() == pytest.approx(plain["estimate"].tolist())
    open_ = frame["passed"] & frame["repeat"].eq(1)
    frame["passed_own_words"] = frame["passed_own_words"].mask(open_)
    wide = slopes(sc.transfer.curve(frame, distance="x", value="passed_own_words"))
    assert (wide["ci_low"] < same["ci_low"]).all()
    assert (wide["ci_high"] > same["ci_high"]).all()
    assert wide["note"].str.contains("too short to tell").all()


def test_scores_have_slopes_in_their_unit() -> None:
    frame = study(8).assign(score=lambda f: 1.0 + 4.0 * f["passed"])
    points = slopes(sc.transfer.curve(frame, distance="x"))
    rows = slopes(sc.transfer.curve(frame, distance="x", value="score", bounds=(1, 5)))
    assert rows.loc["delta_slope_score", "estimate"] == pytest.approx(
        4 * points.loc["delta_slope", "estimate"]
    )
    assert rows["unit"].eq("score").all()


def test_missing_distances_are_left_out_and_counted() -> None:
    frame = study(9)
    frame.loc[frame["case_id"].isin(["c0", "c1"]), "x"] = np.nan
    rows = sc.transfer.curve(frame, distance="x")
    assert "left out: 2 cases without 'x'" in slopes(rows).loc["delta_slope", "note"]


@pytest.mark.parametrize(
    ("change", "how", "message"),
    [
        ({}, {"distance": "far"}, "there is no column 'far'"),
        ({"x": "near"}, {"distance": "x"}, "allowed: numbers"),
        ({"x": np.nan}, {"distance": "x"}, "no case has a number"),
        ({}, {"distance": "x", "bins": 0}, "bins: found 0"),
        ({}, {"distance": "repeat"}, "has more than one 'repeat'"),
    ],
)
def test_unusable_distances_are_refused(
    change: dict[str, Any], how: dict[str, Any], message: str
) -> None:
    with pytest.raises(FrameError, match=message):
        sc.transfer.curve(study().assign(**change), **how)


def test_few_cases_and_equal_distances_have_no_slope() -> None:
    few = study()[lambda f: f["case_id"].isin([f"c{i}" for i in range(6)])]
    rows = slopes(sc.transfer.curve(few, distance="x"))
    assert rows["estimate"].isna().all()
    assert rows["note"].str.contains("at least 10 are needed").all()
    flat = slopes(sc.transfer.curve(study().assign(x=1.0), distance="x"))
    assert flat["estimate"].isna().all()


def test_the_distance_counts_different_content_words() -> None:
    cases = pd.DataFrame({
        "skill": "tea",
        "case_id": ["same", "half", "none", "empty"],
        "prompt": ["Steep green leaves", "steep green green coffee beans", "roasted coffee", "a b"],
    })  # fmt: skip
    skills = {"tea": "# Tea\n\nSteep green leaves.\n\n## Example\n\nPour water.\n"}
    checks = pd.DataFrame({
        "skill": "tea", "case_id": ["same", "same", "none"], "check_id": ["a", "b", "a"],
        "description": ["green", "coffee", "water"],
    })  # fmt: skip
    rows = sc.overlap.case_distance(cases, skills, checks=checks)
    assert rows["distance"].iloc[:3].tolist() == [0.0, 0.5, 1.0]
    assert rows["distance"].isna().tolist() == [False, False, False, True]
    assert rows["distance_examples"].iloc[:3].tolist() == [1.0, 1.0, 1.0]
    assert rows["distance_checks"].iloc[[0, 2]].tolist() == [0.5, 0.0]
    assert rows["longest_run"].iloc[:3].tolist() == [3, 2, 0]


def test_examples_are_code_and_the_sections_below_a_heading_on_examples() -> None:
    text = "# T\n\nplain words\n\n```\nfenced token\n```\n"
    text += "\n## Examples\n\n### One\n\nnested\n\n## End\n\nlast"
    cases = pd.DataFrame(
        {"skill": "t", "case_id": ["a", "b"], "prompt": ["fenced nested", "plain last"]}
    )
    rows = sc.overlap.case_distance(cases, {"t": text})
    assert rows["distance_examples"].tolist() == [0.0, 1.0]
    bare = sc.overlap.case_distance(cases, {"t": "no sections here"})
    assert bare["distance_examples"].isna().all()


def test_the_figure_draws_bins_cases_and_rates() -> None:
    frame = study(10).assign(transfer=lambda f: np.where(f["x"] > 0.5, "far", "near"))
    rows = sc.transfer.curve(frame, distance="x")
    top = sc.plots.transfer_curve(rows, sc.skillverdicts.cases(frame, by=["x"]), distance="x")
    marks = {line.get_gid(): len(line.get_xdata()) for line in top.lines}
    assert marks["near"] == marks["far"] == N / 2
    assert len(top.figure.axes) == 2
    with pytest.raises(FrameError, match="several rows"):
        sc.plots.transfer_curve(pd.concat([rows, rows]))


def test_the_page_has_the_curve_if_the_skills_and_the_prompts_are_recorded(tmp_path: Path) -> None:
    frame = study(11)
    words = [f"word{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]
    told = 1 + (26 * frame["x"]).astype("int").clip(upper=25)
    frame["prompt"] = [" ".join(words[:n]) for n in told]
    frame["distance"] = "own column"
    names = dict(case="case_id", skill="skill", condition="condition", passed="passed")
    names |= {"repeat": "repeat", "prompt": "prompt"}
    plain = sc.report.answer(sc.from_frame(frame, **names, shared_cases=False))
    assert not plain.findings["sentence"].str.contains("nearest|distance").any()
    assert plain.findings["topic"].eq("transfer").any()

    texts = {"s0": words[0]}
    own = sc.from_frame(frame, **names, skills=texts, shared_cases=False)
    alike = sc.from_frame(frame.assign(prompt="one"), **names, skills=texts, shared_cases=False)
    assert "curve" not in sc.report.answer(alike).frames
    result = sc.report.answer(own)
    measured = frame.drop(columns="distance").merge(result.frames["distances"])
    curve = sc.transfer.curve(measured, distance="distance")
    assert result.frames["curve"]["estimate"].tolist() == curve["estimate"].tolist()
    (sentence,) = sc.report.sentences(curve)
    assert sentences_on(result.findings, "distance") == sentence
    assert not result.findings["topic"].eq("transfer").any(), "labels are not asked for"
    page = sc.report.build(own, tmp_path, notebooks=[], progress=False).read_text("utf-8")
    assert "<details open><summary>By the measured distance" in page and "Figure 2." in page
    assert (tmp_path / "00-answer-curve-curve.csv").is_file()
