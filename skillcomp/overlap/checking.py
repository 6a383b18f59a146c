"""What every function here asks of its frames and settings, and how it says so."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import pandas as pd

from skillcomp.errors import FrameError, suggest

__all__ = ["as_booleans", "as_names", "in_range", "need", "once"]


def as_names(names: str | Sequence[str]) -> tuple[str, ...]:
    """Return one name or several as a tuple."""
    return (names,) if isinstance(names, str) else tuple(names)


def need(frame: pd.DataFrame, columns: Sequence[str], *, what: str) -> None:
    """Raise FrameError unless `frame` has the columns, and whole numbers in one named ``n``."""
    if not isinstance(frame, pd.DataFrame):
        raise FrameError(f"{what}: expected a pandas DataFrame, found {type(frame).__name__}.")
    there = [str(column) for column in frame.columns]
    for column in columns:
        if column not in there:
            raise FrameError(
                f"{what} needs a column '{column}'; found: {', '.join(there) or 'none'}."
                + suggest(column, there)
            )
    if "n" in columns:
        given = frame["n"].dropna()
        wrong = [
            n for n in given.unique() if not isinstance(n, Real) or float(n) < 1 or float(n) % 1
        ]
        if wrong:
            raise FrameError(
                f"{what}, column 'n': found {wrong[0]!r}; allowed: whole numbers of at least 1."
            )


def as_booleans(frame: pd.DataFrame, column: str, *, what: str) -> pd.Series:
    """Return a column as boolean; FrameError where a value is neither true, false nor missing."""
    values = frame[column]
    known = values.dropna()
    wrong = known[~known.isin([True, False])]
    if len(wrong):
        raise FrameError(
            f"{what}, column '{column}': found {wrong.iloc[0]!r} ({len(wrong)} rows); "
            "allowed: True, False or missing."
        )
    return values.astype("object").where(values.notna(), None).astype("boolean")


def once(shared: pd.DataFrame, *, what: str) -> None:
    """Raise FrameError if an attempt has two rows for one n."""
    again = shared[shared["attempt_id"].notna() & shared.duplicated(["attempt_id", "n"])]
    if len(again):
        first = again.iloc[0]
        raise FrameError(
            f"{what}: {len(again)} rows stand there twice, the first for attempt_id "
            f"'{first['attempt_id']}' and n = {first['n']}; allowed: one row per attempt and n."
        )


def in_range(value: Any, name: str, *, low: float, allowed: str) -> float:
    """Return a number from ``low`` to below 1, else raise FrameError that says what is allowed."""
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not number or not low <= value < 1:
        raise FrameError(f"overlap.calibrate: {name}: found {value!r}; allowed: {allowed}.")
    return float(value)
