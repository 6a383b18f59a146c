"""Sentences and their parts: rates, differences, intervals, counts and names in words."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias, TypeGuard

import pandas as pd

from skillcomp.style import called, quantity

Row: TypeAlias = pd.Series
_TREATMENTS = {"skill": "the skill", "placebo": "a placebo", "previous": "the previous version"}


class Sentence(NamedTuple):
    """A sentence, its subject (skill, grader or condition), and a verdict with its reasons."""

    text: str
    about: Any = None
    verdict: Any = None
    why: Any = None


Sentences: TypeAlias = Iterator[Sentence]


def has_estimate(row: Row | None) -> TypeGuard[Row]:
    """Return whether there is a row and its estimate is a number."""
    return row is not None and bool(pd.notna(row["estimate"]))


def by_measure(frame: pd.DataFrame, name: str = "measure") -> dict[Any, Row]:
    """Return the rows of a frame by their value in the column ``name``."""
    return {row[name]: row for _, row in frame.iterrows()}


def by_grader(frame: pd.DataFrame) -> Iterable[tuple[Any, pd.DataFrame]]:
    """Split a frame by grader; without a column of graders it is about "The grader"."""
    if "grader" in frame.columns:
        return frame.groupby("grader", sort=False)
    return [("The grader", frame)]


def complement_of(total: float, row: Row) -> Row:
    """Return `total` minus an estimate; the lower limit becomes the upper one, and vice versa."""
    ends = {"estimate": "estimate", "ci_low": "ci_high", "ci_high": "ci_low"}
    return pd.Series({name: total - row[other] for name, other in ends.items()})


def treatment(condition: object, reference: object = "baseline") -> str:
    """Name what the agent has under a condition, such as "the skill" or the condition itself."""
    if (condition, reference) == ("skill", "previous"):
        return "the new version"
    return _TREATMENTS.get(str(condition), called(condition))


def without(reference: object, pronoun: str = " it") -> str:
    """Format the reference of a comparison: "without it" or, for example, "with Tool A"."""
    return f"without{pronoun}" if reference == "baseline" else f"with {treatment(reference)}"


def rate(value: float) -> str:
    """Format a rate in whole percent, or with one decimal if it is below 1 % or above 99 %."""
    return quantity(value, "rate", digits=0 if 0.01 <= value <= 0.99 or value in (0, 1) else 1)


def percent(value: float) -> str:
    """Format a rate in percent with one decimal."""
    return quantity(value, "rate")


def points(value: float, digits: int = 0) -> str:
    """Format the size of a difference in percentage points, without a sign."""
    return quantity(abs(value), "points", digits=digits)


def signed(value: float, digits: int = 0) -> str:
    """Format a difference in percentage points, with its sign."""
    return quantity(value, "points", signed=True, digits=digits)


def limits(row: Row) -> str:
    """Format the interval of a difference in brackets, such as "[+2, +49]"."""
    low, high = row["ci_low"], row["ci_high"]
    signs = [signed(value, _decimals_of_limit(value)) for value in (low, high)]
    return f"[{', '.join(signs)}]"


def _decimals_of_limit(value: float) -> int:
    """Return the decimals of a limit: none, unless a limit other than 0 would then be 0."""
    size = 0.0 if pd.isna(value) else abs(100 * value)
    return 0 if size < 1e-6 or float(f"{size:.0f}") else -math.floor(math.log10(size)) or 1


def difference(row: Row, unit: str = "") -> str:
    """Format a difference with its interval, such as "+25 points [+2, +49]"."""
    return f"{signed(row['estimate'])}{unit} {limits(row)}"


def share(row: Row, form: Callable[[float], str] = rate) -> str:
    """Format a rate with its interval, such as "60 % [40 % to 80 %]"; omit a missing interval."""
    interval = f" [{form(row['ci_low'])} to {form(row['ci_high'])}]"
    return form(row["estimate"]) + ("" if pd.isna(row["ci_low"]) else interval)


def span(row: Row) -> str:
    """Format the interval of a difference in words, such as "2 to 49 more"."""
    low, high = row["ci_low"], row["ci_high"]
    if pd.isna(low) or pd.isna(high):
        return "no interval"
    if low > 0 or high < 0:
        return f"{points(low, _decimals_of_limit(low))} to {_more_or_fewer(high)}"
    return f"{_more_or_fewer(low)} to {_more_or_fewer(high)}"


def _more_or_fewer(value: float) -> str:
    size = points(value, _decimals_of_limit(value))
    return f"{size} {'more' if value > 0 else 'fewer'}" if float(size) else "0"


def change(row: Row) -> str:
    """Format a difference and its interval in words, such as "25 points more [2 to 49 more]"."""
    words = difference_in_words(row["estimate"])
    return f"{'no change on average' if words == 'none' else words} [{span(row)}]"


def difference_in_words(value: float) -> str:
    """Format a difference, such as "17 points fewer"."""
    size = points(value)
    word = "more" if value > 0 else "fewer"
    return f"{size} point{plural(float(size))} {word}" if float(size) else "none"


def on_cases(row: Row) -> str:
    """Format the numbers of cases, cases dropped and attempts missing; empty if n is unknown."""
    n = row["n"]
    return "" if pd.isna(n) else f" on {n:,.0f} case{plural(n)}{lost(row)}"


def lost(row: Row) -> str:
    """Format the cases dropped and the attempts missing by condition, such as " (2 dropped)"."""
    parts = [f"{row['n_dropped']:,.0f} dropped"] if row.get("n_dropped", 0) > 0 else []
    sides = {"condition": "", "reference": "_reference"}
    missing = {side: row.get(f"n_missing{end}", 0) for side, end in sides.items()}
    if any(n > 0 for n in missing.values()):
        of = {side: row.get(f"n_attempts{end}", float("nan")) for side, end in sides.items()}
        counts = [
            f"{n:,.0f}{f' of {of[side]:,.0f}' if of[side] > 0 else ''} under {row[side]}"
            for side, n in missing.items()
            if isinstance(row.get(side), str)
        ]
        parts.append(f"attempts missing: {listing(counts)}" if counts else "attempts missing")
    return f" ({'; '.join(parts)})" if parts else ""


def count_range(counts: pd.Series) -> str:
    """Format the range of counts, such as "5 to 20"; a single number if all are equal."""
    ends = (f"{counts.min():,.0f}", f"{counts.max():,.0f}")
    return " to ".join(dict.fromkeys(ends))


def plural(count: float) -> str:
    """Return the ending of a regular noun after a count: empty for 1, otherwise "s"."""
    return "" if count == 1 else "s"


def listing(names: Iterable[str]) -> str:
    """Join names with commas, and the last one with "and"."""
    items = list(names)
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def reason(row: Row, *columns: str) -> str:
    """Return the first text found in the given columns of a row, or its note if they have none."""
    cells = (row.get(column) for column in (*columns, "note"))
    texts = (text.strip() for text in cells if isinstance(text, str))
    return next(filter(None, texts), "no reason was recorded")
