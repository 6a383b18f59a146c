"""What must not matter does not: columns, names, numbering, order of rows; nothing is changed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pandas as pd
import pytest
from analyses import ANALYSES, LONG, frames, numbers
from pandas.testing import assert_frame_equal

NAMES = ANALYSES if LONG else list(ANALYSES)[1::3]
# drawn at random row by row, or in the order of the rows by their nature
BY_ORDER = {
    *("overlap.calibrate", "reliability.agreement", "reliability.consistency"),
    *("reliability.drift", "reliability.chart", "overlap.roc"),
    "deltas.over_time",  # the oldest run first
}
IDS = ["attempt_id", "case_id", "contrast_of", "source_attempt_id", "first", "second", "winner"]
CASES = ["case_id", "contrast_of"]
Change = Callable[[pd.DataFrame], pd.DataFrame]


@cache
def plain(name: str) -> pd.DataFrame:
    """Return the result of an analysis on the unchanged frames."""
    return ANALYSES[name](frames())


def changed(change: Change) -> dict[str, pd.DataFrame]:
    return {key: change(frame) for key, frame in frames().items()}


def renamed(frame: pd.DataFrame) -> pd.DataFrame:
    """Put a word before every id; their order stays."""
    there = frame.columns.intersection(IDS)
    return frame.assign(**{name: "q/" + frame[name] for name in there})


def numbered_alike(frame: pd.DataFrame) -> pd.DataFrame:
    """Number the cases of every skill alike, as suites do, and state that their tasks differ."""
    there = frame.columns.intersection(CASES)
    tasks = {"task": frame["case_id"].astype("str")} if "case_id" in frame else {}
    return frame.assign(
        **tasks,
        **{name: frame[name].astype("str").str.replace(r"^.*/", "", regex=True) for name in there},
    )


def without_prefixes(found: pd.DataFrame) -> pd.DataFrame:
    """Undo both changes of ids in a result, and leave out the task."""
    found = found.drop(columns="task", errors="ignore")
    for column in found.columns.intersection([*IDS, "cluster", "case", "method", "note"]):
        if found[column].dtype != object and found[column].dtype != "str":
            continue
        found[column] = found[column].astype("str").str.replace("q/", "").astype("object")
        if column in CASES:
            found[column] = found[column].astype("str").str.replace(r"^.*/", "", regex=True)
    return found


def assert_same_numbers(found: pd.DataFrame, name: str) -> None:
    options = {"check_dtype": False, "rtol": 1e-9, "atol": 1e-9}
    assert_frame_equal(
        numbers(without_prefixes(found)), numbers(without_prefixes(plain(name))), **options
    )


@pytest.mark.parametrize("name", NAMES)
def test_columns_that_no_analysis_knows_change_no_number_and_frames_stay(name: str) -> None:
    wider = changed(lambda frame: frame.assign(remark="a", weight_kg=1.5))
    more = ANALYSES[name](wider)
    assert_same_numbers(more[plain(name).columns], name)
    for key, frame in frames().items():
        assert_frame_equal(wider[key], frame.assign(remark="a", weight_kg=1.5))


# what is added to an answer is drawn by its id
@pytest.mark.parametrize("name", [name for name in NAMES if name != "bias.perturb"])
def test_other_ids_in_the_same_order_change_no_number(name: str) -> None:
    assert_same_numbers(ANALYSES[name](changed(renamed)), name)


@pytest.mark.parametrize("name", ANALYSES)
def test_cases_of_two_skills_may_have_the_same_number(name: str) -> None:
    assert_same_numbers(ANALYSES[name](changed(numbered_alike)), name)


@pytest.mark.parametrize("name", [name for name in ANALYSES if name not in BY_ORDER])
def test_the_order_of_rows_changes_no_number(name: str) -> None:
    def ordered(frame: pd.DataFrame) -> pd.DataFrame:
        table = numbers(frame)
        texts = [c for c in table.columns if table[c].dtype == object]
        keys = [*texts, *table.columns.difference(texts)]
        key = table[keys].map(lambda v: f"{v:.6f}" if isinstance(v, float) else str(v))
        return table.iloc[key.apply("|".join, axis=1).argsort(kind="stable")]

    mixed = ANALYSES[name](changed(lambda frame: frame.sample(frac=1, random_state=3)))
    known = ordered(plain(name)).reset_index(drop=True)
    options = {"check_dtype": False, "rtol": 1e-9, "atol": 1e-9}
    assert_frame_equal(ordered(mixed).reset_index(drop=True), known, **options)
