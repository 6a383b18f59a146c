"""A change of the table leaves an answer alone, or the change is refused or noted."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pandas as pd
import pytest
from analyses import ANALYSES, Frames
from analyses import frames as whole_study
from pandas.api import types

import skillcomp as sc
from benchmarks import simulated
from skillcomp.errors import SkillcompError

# their rows are identified by numbers
UNMATCHED = ["overlap.calibrate", "planning.power_curve"]
SMALL = ["deltas.paired", "deltas.rates", "reliability.agreement"]
LIMITS = ["estimate", "ci_low", "ci_high"]
# what an analysis says about rows that it left out or read more than once
COUNTS = ["n", "n_missing", "n_missing_reference", "n_dropped", "n_failed", "n_rounds", "note"]
COUNTS += ["n_judged"]
IDS = ["attempt_id", "source_attempt_id", "first", "second", "winner"]
# Krippendorff's alpha and pooled error rates depend a little on the number of items
TOLERANCE = 0.01
Change = Callable[[pd.DataFrame], pd.DataFrame]


@cache
def small_study() -> Frames:
    """Build the frames that the first analyses need."""
    plan = {"n_skills": 2, "n_cases": 10, "checks_per_case": 2, "labeller_error": 0.1}
    study = simulated.study(**plan, value="passed", seed=4)
    gold = study.gold[study.gold["labeller"].eq("adjudicated")].reset_index(drop=True)
    outcomes = sc.frames.outcomes(study.verdicts, study.cases)
    same = {"outcomes": outcomes, "forced": outcomes}
    return {"cases": study.cases, "verdicts": study.verdicts, "gold": gold} | same


def copied_as(column: str) -> Change:
    """Copy every row under another agent, grader, round or run."""

    def copy(frame: pd.DataFrame) -> pd.DataFrame:
        copies = frame.copy()
        if column in ("agent", "run"):
            for name in frame.columns.intersection(IDS):
                copies[name] = copies[name] + "/b"
        if column in frame:
            copies[column] = frame[column] + (10 if column == "round" else " b")
        elif column == "run" and "attempt_id" in frame:
            frame, copies = frame.assign(run="first"), copies.assign(run="second")
        return frame if copies.equals(frame) else pd.concat([frame, copies], ignore_index=True)

    return copy


def without(lost: Callable[[pd.DataFrame], pd.Series]) -> Change:
    """Remove the outcomes and verdicts of some attempts."""

    def remove(frame: pd.DataFrame) -> pd.DataFrame:
        if not {"attempt_id", "condition", "passed", "grader"} <= set(frame.columns):
            return frame
        rows, frame = lost(frame), frame.copy()
        for name in frame.columns.intersection(["passed", "share_passed", "score"]):
            frame[name] = frame[name].mask(rows)
        return (
            frame.assign(status=frame["status"].mask(rows, "error")) if "status" in frame else frame
        )

    return remove


def by_chance(frame: pd.DataFrame) -> pd.Series:
    codes = pd.util.hash_pandas_object(frame["attempt_id"].astype("str"), index=False)
    return codes.mod(8).eq(0)


def by_result(frame: pd.DataFrame) -> pd.Series:
    failed = frame["passed"].eq(False).fillna(False).astype(bool)
    codes = pd.util.hash_pandas_object(frame["attempt_id"].astype("str"), index=False)
    return failed & frame["condition"].eq("skill") & codes.mod(2).eq(0)


CHANGES: dict[str, Change] = {
    **{
        f"copied as another {name}": copied_as(name) for name in ("agent", "grader", "round", "run")
    },
    "outcomes lost by chance": without(by_chance),
    "outcomes lost by result": without(by_result),
}


def identifying_columns(result: pd.DataFrame) -> list[str]:
    """Return the columns that identify a row: texts and numbers that are not estimates."""
    others = [*LIMITS, *COUNTS, "method", "verdict", "reason"]
    names = [name for name in result if name not in others and not name.startswith("n_")]
    columns = [result[name] for name in names]
    texts = [types.is_string_dtype(column) or column.name == "ngram" for column in columns]
    return [name for name, is_key in zip(names, texts, strict=True) if is_key]


def silent_rows(plain: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that changed, or have a narrower interval, without another count or note."""
    keys = [c for c in identifying_columns(plain) if c in after]
    plain, after = (frame.astype(dict.fromkeys(keys, "str")) for frame in (plain, after))
    both = plain.merge(after, on=keys, suffixes=("", " after"), how="left", validate="1:m")
    assert len(both) == len(plain), f"rows of the result cannot be told apart by {keys}"
    before, later = (
        both[LIMITS],
        both[[f"{name} after" for name in LIMITS]].set_axis(LIMITS, axis=1),
    )
    moved = ~np.isclose(before["estimate"], later["estimate"], atol=TOLERANCE, equal_nan=True)
    width = before["ci_high"] - before["ci_low"] - (later["ci_high"] - later["ci_low"])
    # a copied row is no further evidence, so a larger n explains nothing
    fewer = both["n after"].lt(both["n"]) if "n after" in both else False
    counts = [c for c in COUNTS if c != "n" and f"{c} after" in both]
    noted = [both[c].astype("str").ne(both[f"{c} after"].astype("str")) for c in counts]
    changed = moved | width.gt(TOLERANCE)
    return both[changed & ~np.logical_or.reduce([np.zeros(len(both), dtype=bool) | fewer, *noted])]


def assert_alone_refused_or_noted(name: str, change: str, study: Callable[[], Frames]) -> None:
    frames = study()
    plain = ANALYSES[name](frames)
    if not {"estimate", "measure"} <= set(plain.columns):
        return
    try:
        after = ANALYSES[name]({key: CHANGES[change](frame) for key, frame in frames.items()})
    except SkillcompError:
        return
    silent = silent_rows(plain, after)
    assert silent.empty, silent.iloc[0].to_dict()


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", SMALL)
def test_a_change_leaves_the_answer_alone_or_is_refused_or_noted(name: str, change: str) -> None:
    assert_alone_refused_or_noted(name, change, small_study)


def larger_cases() -> list[str]:
    return [name for name in ANALYSES if name not in (*SMALL, *UNMATCHED)]


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", larger_cases())
def test_every_analysis_notes_a_change(name: str, change: str) -> None:
    assert_alone_refused_or_noted(name, change, whole_study)
