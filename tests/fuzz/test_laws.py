"""What holds for the result of every public analysis: contract, "shown", one case, copied rows."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from analyses import ANALYSES, LONG, Frames, frames, numbers, plain
from pandas.testing import assert_frame_equal

import skillcomp as sc
from skillcomp.errors import SkillcompError

SOME = list(ANALYSES) if LONG else list(ANALYSES)[2::8]
INTERVAL = ["estimate", "ci_low", "ci_high"]
# measures whose value is 1/2 if there is no effect
HALF = ["first_wins_if_inconsistent", "first_wins_if_identical", "win_rate"]
RATES, POINTS = (0.0, 1.0), (-1.0, 1.0)
EXACT = 1e-9


def rows_with_interval(result: pd.DataFrame) -> pd.DataFrame:
    if not {*INTERVAL, "measure"} <= set(result):
        return pd.DataFrame(columns=[*INTERVAL, "unit"])
    known = result[INTERVAL].notna().all(axis=1)
    return result[known & result["unit"].ne("rank")]  # limits of a rank are ranks, maybe one


@pytest.mark.parametrize("name", SOME)
def test_an_interval_contains_its_estimate_and_has_a_width(name: str) -> None:
    rows = rows_with_interval(plain(name))
    low, estimate, high = (
        rows[column].astype(float) for column in ("ci_low", "estimate", "ci_high")
    )
    wrong = rows[(low > estimate + EXACT) | (estimate > high + EXACT) | (high - low < EXACT)]
    assert wrong.empty, wrong.iloc[0].to_dict()
    for unit, (least, most) in {"rate": RATES, "points": POINTS}.items():
        outside = rows[rows["unit"].eq(unit) & (low.lt(least - EXACT) | high.gt(most + EXACT))]
        assert outside.empty, outside.iloc[0].to_dict()


@pytest.mark.parametrize("name", SOME)
def test_an_unknown_estimate_has_a_note(name: str) -> None:
    result = plain(name)
    if {"estimate", "note", "measure"} <= set(result):
        silent = result[result["estimate"].isna() & result["note"].fillna("").eq("")]
        assert silent.empty, silent.iloc[0].to_dict()


@pytest.mark.parametrize("name", SOME)
def test_shown_is_a_small_p_value_and_an_interval_on_one_side_of_the_null(name: str) -> None:
    result = plain(name)
    if not {"shown", "p_adjusted"} <= set(result):
        return
    told = result[result["shown"].notna() & result["p_adjusted"].notna()]
    low, high = told["ci_low"].astype(float), told["ci_high"].astype(float)
    null = told["measure"].isin(HALF) * 0.5
    small = told["p_adjusted"].astype(float) < 1 - told["ci_level"].astype(float)
    assert (told["shown"].astype(bool) == (small & ((low > null) | (high < null)))).all()


@pytest.mark.parametrize("name", SOME)
def test_a_second_call_gives_the_same_result(name: str) -> None:
    assert_frame_equal(ANALYSES[name](frames()), plain(name))


@pytest.mark.parametrize("name", SOME)
def test_a_result_has_a_table_a_figure_and_sentences(name: str) -> None:
    result = plain(name)
    assert sc.table(result)._repr_html_()
    if "measure" not in result:
        return
    said = sc.report.sentences(result)
    assert all(text and "nan" not in text.split() for text in said)
    rows = rows_with_interval(result)
    for _, part in rows.groupby("unit"):
        axes = sc.plots.estimates(
            part.head(9).assign(row=[f"row {at}" for at in range(len(part.head(9)))]), y="row"
        )
        plt.close(axes.figure)


def of_case(frame: pd.DataFrame, case: str) -> pd.DataFrame:
    """Keep the rows of one case; a frame without cases stays."""
    return frame[frame["case_id"].eq(case)].reset_index(drop=True) if "case_id" in frame else frame


def one_case() -> Frames:
    """Return the study as if it had a single case."""
    whole = frames()
    case = whole["cases"]["case_id"].iloc[0]
    return {key: of_case(frame, case) for key, frame in whole.items()}


@pytest.mark.parametrize("name", SOME)
def test_a_single_case_has_no_interval_of_zero_width_and_shows_nothing(name: str) -> None:
    try:
        result = ANALYSES[name](one_case())
    except SkillcompError:
        return
    rows = rows_with_interval(result)
    assert (rows["ci_high"].astype(float) - rows["ci_low"].astype(float) > EXACT).all()
    if "shown" in result:
        assert not result["shown"].eq(True).fillna(False).any()


@pytest.mark.parametrize("name", SOME)
def test_frames_without_rows_are_told_or_give_no_number(name: str) -> None:
    empty = {key: frame.head(0) for key, frame in frames().items()}
    try:
        result = ANALYSES[name](empty)
    except SkillcompError:
        return
    assert "estimate" not in result or result["estimate"].isna().all()


@pytest.mark.parametrize("name", SOME)
def test_rows_that_stand_twice_are_told_or_change_nothing(name: str) -> None:
    twice = {key: pd.concat([frame, frame], ignore_index=True) for key, frame in frames().items()}
    try:
        result = ANALYSES[name](twice)
    except SkillcompError:
        return
    columns = [column for column in result.columns if column in plain(name)]
    assert_frame_equal(numbers(result[columns]), numbers(plain(name)[columns]), check_dtype=False)


SWAPPED = {"skill": "baseline", "baseline": "skill"}
# both arms of these can be exchanged, and the sign of a difference turns
TURNED = [
    *("deltas.paired", "deltas.paired share", "deltas.unpaired", "deltas.paired by dimension"),
    *("deltas.pass_at_k paired", "transfer.gap", "correction.delta", "skillverdicts.across"),
]


@pytest.mark.parametrize("name", TURNED if LONG else TURNED[:3])
def test_a_difference_turns_its_sign_when_its_arms_change_names(name: str) -> None:
    others = {
        key: frame.assign(condition=frame["condition"].replace(SWAPPED))
        if "condition" in frame
        else frame
        for key, frame in frames().items()
    }
    found = []
    for result in (plain(name), ANALYSES[name](others)):
        rows = result[result["unit"].eq("points")]
        rows = rows[rows["condition"].eq("skill")] if "condition" in rows else rows
        found.append(rows.reset_index(drop=True))
    ours, turned = found
    assert len(ours) == len(turned) > 0
    for one, other in (("estimate", "estimate"), ("ci_low", "ci_high"), ("ci_high", "ci_low")):
        np.testing.assert_allclose(
            ours[one].astype(float), -turned[other].astype(float), rtol=0, atol=1e-7
        )


def with_passes(passed: bool | None) -> Frames:
    """Return the study as if every verdict was a pass, or as if no grading was successful."""

    def graded(frame: pd.DataFrame) -> pd.DataFrame:
        if not {"attempt_id", "grader"} <= set(frame) or "passed" not in frame:
            return frame
        value = pd.NA if passed is None else passed
        frame = frame.assign(passed=pd.array([value] * len(frame), dtype="boolean"))
        for name in frame.columns.intersection(["share_passed", "n_passed"]):
            full = frame["n_checks"] if name == "n_passed" else 1.0
            frame[name] = np.nan if passed is None else full
        if passed is None and "status" in frame:
            frame["status"] = "error"
        return frame

    return {key: graded(frame) for key, frame in frames().items()}


@pytest.mark.parametrize("name", SOME)
def test_verdicts_that_are_all_passes_give_no_interval_of_zero_width(name: str) -> None:
    try:
        result = ANALYSES[name](with_passes(True))
    except SkillcompError:
        return
    rows = rows_with_interval(result)
    assert (rows["ci_high"].astype(float) - rows["ci_low"].astype(float) > EXACT).all()


# these have rows from pairs, gold alone or calls of a skill
WITHOUT_VERDICTS = {"bias.audit", "bias.datasheet", "bias.position", "correction.delta"}
WITHOUT_VERDICTS |= {"triggers.compare"}


@pytest.mark.parametrize("name", [name for name in SOME if name not in WITHOUT_VERDICTS])
def test_a_study_without_a_successful_grading_is_told_or_unknown(name: str) -> None:
    try:
        result = ANALYSES[name](with_passes(None))
    except SkillcompError:
        return
    if {"estimate", "unit", "measure"} <= set(result):
        result = result[result["unit"].isin(["points", "percentage points"])]
        assert result["estimate"].isna().all(), result[result["estimate"].notna()].iloc[0].to_dict()


@pytest.mark.parametrize("name", SOME)
def test_a_frame_of_estimates_keeps_its_contract(name: str) -> None:
    result = plain(name)
    if {"estimate", "ci_low", "measure", "method"} <= set(result):
        checked = sc.frames.check(result, "estimates")
        shared = [column for column in checked.columns if column in result]
        assert_frame_equal(checked[shared], result[shared], check_dtype=False)
