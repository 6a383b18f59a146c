"""What must not matter does not: other columns, names, the order of rows; nothing is changed."""

from __future__ import annotations

import pandas as pd
import pytest
from analyses import ANALYSES, LONG, Frames, frames, numbers
from pandas.testing import assert_frame_equal

NAMES = ANALYSES if LONG else list(ANALYSES)[1::4]
# drawn at random row by row, or in the order of the rows by their nature
BY_ORDER = {
    *("overlap.calibrate", "reliability.agreement", "reliability.consistency"),
    *("reliability.drift", "reliability.chart", "overlap.roc"),
    "deltas.over_time",  # the oldest run first
}
IDS = ["attempt_id", "case_id", "contrast_of", "source_attempt_id", "first", "second", "winner"]


def same(found: pd.DataFrame, name: str) -> None:
    known = numbers(ANALYSES[name](frames()))
    assert_frame_equal(found, known, check_dtype=False, rtol=1e-9, atol=1e-9)


def renamed(frame: pd.DataFrame) -> pd.DataFrame:
    """Put a word before every id; their order stays."""
    there = frame.columns.intersection(IDS)
    return frame.assign(**{name: "q/" + frame[name] for name in there})


@pytest.mark.parametrize("name", NAMES)
def test_columns_that_no_analysis_knows_change_no_number(name: str) -> None:
    known = ANALYSES[name](frames()).columns
    more = ANALYSES[name]({n: f.assign(remark="a", weight_kg=1.5) for n, f in frames().items()})
    same(numbers(more[known]), name)


# what is added to an answer is drawn by its id
@pytest.mark.parametrize("name", [name for name in NAMES if name != "bias.perturb"])
def test_other_ids_in_the_same_order_change_no_number(name: str) -> None:
    found = ANALYSES[name]({key: renamed(frame) for key, frame in frames().items()})
    for column in found.columns.intersection([*IDS, "cluster", "case"]):
        texts = found[column].astype("object")
        found[column] = texts.map(lambda v: v.replace("q/", "") if isinstance(v, str) else v)
    for column in found.columns.intersection(["method", "note"]):
        found[column] = found[column].str.replace("q/", "")
    same(numbers(found), name)


@pytest.mark.parametrize("name", NAMES)
def test_an_analysis_leaves_its_frames_as_they_are(name: str) -> None:
    given = {key: frame.copy() for key, frame in frames().items()}
    ANALYSES[name](given)
    for key, frame in frames().items():
        assert_frame_equal(given[key], frame)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in BY_ORDER])
def test_the_order_of_rows_changes_no_number(name: str) -> None:
    mixed = {key: frame.sample(frac=1, random_state=3) for key, frame in frames().items()}

    def ordered(frame: pd.DataFrame) -> pd.DataFrame:
        texts = [c for c in frame.columns if frame[c].dtype == object]
        keys = [*texts, *frame.columns.difference(texts)]
        key = frame[keys].map(lambda v: f"{v:.6f}" if isinstance(v, float) else str(v))
        return frame.iloc[key.apply("|".join, axis=1).argsort(kind="stable")]

    def asked(given: Frames) -> pd.DataFrame:
        table = numbers(ANALYSES[name](given))
        return ordered(table).reset_index(drop=True)

    found, known = asked(mixed), asked(frames())
    assert_frame_equal(found, known, check_dtype=False, rtol=1e-9, atol=1e-9)
