"""What must not matter does not: columns, names, numbering, order of rows; nothing is changed."""

from __future__ import annotations

import pandas as pd
import pytest
from analyses import ANALYSES, LONG, frames, numbers, plain
from pandas.testing import assert_frame_equal

# drawn at random row by row, or in the order of the rows by their nature
BY_ORDER = {
    *("overlap.calibrate", "reliability.agreement", "reliability.consistency"),
    *("reliability.drift", "overlap.roc"),
    "deltas.over_time",  # the oldest run first
}
BY_ID = {"bias.perturb"}  # what is added to an answer is drawn by its id
IDS = ["attempt_id", "case_id", "contrast_of", "source_attempt_id", "first", "second", "winner"]
CASES = ["case_id", "contrast_of"]


def changed(frame: pd.DataFrame, *, ids: bool, order: bool) -> pd.DataFrame:
    """Add columns, number the cases of every skill alike, rename all ids and mix the rows.

    The cases are numbered as suites do; a column states that their tasks differ.
    """
    there = frame.columns.intersection(CASES)
    tasks = {"task": frame["case_id"].astype("str")} if "case_id" in frame else {}
    alike = {name: frame[name].astype("str").str.replace(r"^.*/", "", regex=True) for name in there}
    frame = frame.assign(remark="a", weight_kg=1.5, **tasks, **alike)
    if ids:
        there = frame.columns.intersection(IDS)
        frame = frame.assign(**{name: "q/" + frame[name] for name in there})
    return frame.sample(frac=1, random_state=3) if order else frame


def without_prefixes(result: pd.DataFrame) -> pd.DataFrame:
    """Undo both changes of ids in a result, and leave out the task."""
    result = result.drop(columns="task", errors="ignore")
    for column in result.columns.intersection([*IDS, "cluster", "case", "method", "note"]):
        if result[column].dtype != object and result[column].dtype != "str":
            continue
        result[column] = result[column].astype("str").str.replace("q/", "").astype("object")
        if column in CASES:
            result[column] = result[column].astype("str").str.replace(r"^.*/", "", regex=True)
    return result


def ordered(table: pd.DataFrame) -> pd.DataFrame:
    if table.empty:
        return table
    texts = [c for c in table.columns if table[c].dtype == object]
    keys = [*texts, *table.columns.difference(texts)]
    key = table[keys].map(lambda v: f"{v:.6f}" if isinstance(v, float) else str(v))
    rows = key.apply("|".join, axis=1).argsort(kind="stable")
    return table.iloc[rows].reset_index(drop=True)


# `make test` takes every eighth analysis, and others in other dtypes
@pytest.mark.parametrize("name", ANALYSES if LONG else list(ANALYSES)[::8])
def test_more_columns_other_ids_and_another_order_change_no_number(name: str) -> None:
    order = name not in BY_ORDER
    others = {
        key: changed(frame, ids=name not in BY_ID, order=order) for key, frame in frames().items()
    }
    before = {key: frame.copy() for key, frame in others.items()}
    result = ANALYSES[name](others)[plain(name).columns]
    tables = [numbers(without_prefixes(frame)) for frame in (result, plain(name))]
    ours, known = map(ordered, tables) if order else tables
    assert_frame_equal(ours, known, check_dtype=False, rtol=1e-9, atol=1e-9)
    for key, frame in others.items():
        assert_frame_equal(frame, before[key])
