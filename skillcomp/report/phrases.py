"""Fill in the phrases of sentences: rates, differences, intervals, counts and names in words."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias, TypeGuard

import pandas as pd

from skillcomp.errors import plural as plural
from skillcomp.frames.estimates import columns_of
from skillcomp.stats.results import p_value as p_value
from skillcomp.style import called, quantity

Row: TypeAlias = pd.Series
_LIMITS = ["estimate", "ci_low", "ci_high"]
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


def parts_by(frame: pd.DataFrame, *names: str) -> Iterator[tuple[tuple[Any, ...], pd.DataFrame]]:
    """Group a frame by those `names` that are columns; yield values and rows of each group."""
    by = columns_of(frame, *names)
    yield from frame.groupby(by, sort=False, dropna=False) if by else [((), frame)]


def marked(rows: pd.DataFrame, column: str = "recommended") -> pd.DataFrame:
    """Return the rows for which a column of truth values is True."""
    return rows[rows[column].fillna(False).astype(bool)]


def matching_row(frame: pd.DataFrame | None, row: Row) -> Row | None:
    """Return the row of `frame` that has the skill, agent and condition of `row`.

    Return None if there is no such row, or if it has no estimate.
    """
    if frame is None:
        return None
    names = [name for name in columns_of(frame, "skill", "agent", "condition") if name in row]
    same = frame[frame[names].eq(row[names]).all(axis=1)]
    return same.iloc[0] if len(same) == 1 and has_estimate(same.iloc[0]) else None


def direction(row: Row, above: str, below: str, neither: str) -> str:
    """Return a word for an increase, a decrease, or a difference that is not shown or unknown.

    The column ``shown`` decides; without a value there, the interval.
    """
    shown = row.get("shown")
    if shown is None or pd.isna(shown):
        shown = row["ci_low"] > 0 or row["ci_high"] < 0
    if not shown:
        return neither
    return above if row["estimate"] > 0 else below


def rows_of(frame: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Return the rows of one measure."""
    return frame[frame["measure"].eq(measure)]


def with_estimate(rows: pd.DataFrame, *more: str) -> pd.DataFrame:
    """Return the rows with an estimate, and with a value in each of the columns `more`."""
    return rows.dropna(subset=["estimate", *more])


def treatment(condition: object, reference: object = "baseline") -> str:
    """Name what the agent has under a condition, such as "the skill" or the condition itself."""
    if (condition, reference) == ("skill", "previous"):
        return "the new version"
    return _TREATMENTS.get(str(condition), called(condition))


def without(reference: object) -> str:
    """Describe the reference condition, such as "without it" or "with Tool A"."""
    return "without it" if reference == "baseline" else f"with {treatment(reference)}"


def unit_of(row: Row) -> str:
    """Return the unit of a row: ``score`` for scores, otherwise ``points``."""
    return "score" if str(row.get("measure")).endswith("score") else "points"


def rate(value: float) -> str:
    """Format a rate, such as "79 %", "0.4 %" or "<0.1 %"; 99.7 % does not become 100 %."""
    inside = 0 < value < 0.01 or 0.99 < value < 1
    if inside and not 0.0005 < value < 0.9995:
        return "<0.1 %" if value < 0.5 else ">99.9 %"
    return quantity(value, "rate", digits=int(inside))


def size(value: float, digits: int = 0, unit: str = "points") -> str:
    """Format the size of a difference in rates, such as "10 points" or "1 point"."""
    return signed(abs(value), digits, unit).lstrip("+")


def signed(value: float, digits: int = 0, unit: str = "points") -> str:
    """Format a difference in rates, such as "+52 points"; one in scores has no unit."""
    if unit == "score":
        return quantity(value, unit, signed=True)
    text = quantity(value, "points", signed=True, digits=digits)
    return text + (" point" if text.lstrip("+\N{MINUS SIGN}") == "1" else " points")


def bare(text: str) -> str:
    """Return a number without its unit, for a column that has the unit in its header."""
    return text.partition(" ")[0]


def limits(row: Row) -> str:
    """Format the interval of a difference, such as "[37, 64]"; empty if it is unknown."""
    return _in_brackets(row, lambda end: quantity(end, unit_of(row), digits=_decimals(end)))


def _in_brackets(row: Row, form: Callable[[float], str]) -> str:
    ends = row["ci_low"], row["ci_high"]
    return "" if any(map(pd.isna, ends)) else f"[{', '.join(map(form, ends))}]".replace(" %", "")


def _decimals(value: float) -> int:
    """Return the number of decimals of a difference: 0, or more if it would be rounded to 0."""
    points = 0.0 if pd.isna(value) else abs(100 * value)
    return 0 if points < 1e-6 or float(f"{points:.0f}") else -math.floor(math.log10(points)) or 1


def change(row: Row, unit: bool = True) -> str:
    """Format a difference in rates with its interval, such as "+52 points [37, 64]"."""
    text = signed(row["estimate"], unit=unit_of(row))
    return f"{text if unit else bare(text)} {limits(row)}".rstrip()


def points(row: Row, unit: bool = True) -> str:
    """Format an estimate in percentage points with its interval, such as "+3 points [−2, 8]"."""
    return change(row[_LIMITS] / 100, unit)


def percent(row: Row) -> str:
    """Format a ratio as a change in percent, such as "+104 % [80, 131]"."""
    text = change(row[_LIMITS] - 1.0)
    return text.replace(" points", " %").replace(" point", " %")


def share(row: Row, of: str = "") -> str:
    """Format a rate with its interval and, with `of`, its n, such as "16 % [11, 22] of 419 items".

    >>> row = pd.Series({"estimate": 0.164, "ci_low": 0.11, "ci_high": 0.22, "n": 419})
    >>> share(row, "items"), share(row)
    ('16 % [11, 22] of 419 items', '16 % [11, 22]')
    """
    text = f"{rate(row['estimate'])} {_in_brackets(row, rate)}".rstrip()
    return f"{text} of {row['n']:,.0f} {of}" if of else text


def change_text(row: Row | None) -> str:
    """Format a change in points with its interval, such as "+52 [37, 64]"; empty if unknown."""
    return change(row, unit=False) if has_estimate(row) else ""


def coefficient_text(row: Row | None) -> str:
    """Format a coefficient with its interval, such as ".62 [.52, .72]"; empty if unknown."""
    if not has_estimate(row):
        return ""
    return f"{coefficient(row['estimate'])} {_in_brackets(row, coefficient)}".rstrip()


def coefficient(value: float) -> str:
    """Format kappa, AC1 or a correlation, such as ".79"."""
    return quantity(value, "coefficient")


def on_cases(row: Row) -> str:
    """Format the numbers of cases, cases dropped and attempts missing; empty if n is unknown."""
    n = row["n"]
    return "" if pd.isna(n) else f" on {plural(n, 'case')}{lost(row)}"


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
    return " to ".join(dict.fromkeys((f"{counts.min():,.0f}", f"{counts.max():,.0f}")))


def skill_and_agent(row: Row) -> str:
    """Return the name of a skill, with the agent if the rows are by agent."""
    return called(row["skill"]) + (f" ({row['agent']})" if "agent" in row else "")


def unit_of_rows(rows: pd.DataFrame) -> str:
    """Return what the rows of a frame are about."""
    return "pairs of skill and agent" if "agent" in rows else "skills"


def listing(names: Iterable[str]) -> str:
    """Join names with commas, and the last one with "and"."""
    items = list(names)
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def reason(row: Row) -> str:
    """Return the text of ``reason`` (of a correction) or, failing that, of ``note``."""
    texts = [text.strip() for text in (row.get("reason"), row.get("note")) if isinstance(text, str)]
    return next(filter(None, texts), "no reason was recorded")


class Field(NamedTuple):
    """The value of a field of a phrase: a value, or a row of estimates; unknown values raise."""

    value: Any
    unit: str = "points"

    def __format__(self, form: str) -> str:
        """Format the value, for example as a ``change``, as ``#case``, or as ``more|fewer|``.

        Raises
        ------
        LookupError
            If the value or the estimate is unknown, or if a number of things (``#``) is 0.
        """
        value, is_row = self.value, isinstance(self.value, pd.Series)
        number = value["estimate"] if is_row else value
        if pd.isna(number) or (form.startswith("#") and not number):
            raise LookupError
        if form.startswith("#"):
            return plural(number, form[1:])
        if "|" in form:
            return direction(value, *form.split("|"))
        if form.startswith("of "):
            return share(value, form[3:])
        if form in _OF_ROWS:
            return _OF_ROWS[form](value)
        if self.unit == "score" and form in ("rate", "size", "signed"):
            return signed(number, unit="score") if form == "signed" else quantity(number)
        if form in _OF_NUMBERS:
            return _OF_NUMBERS[form](number)
        return format(value, form) if form else called(value)


_OF_ROWS: dict[str, Callable[[Row], str]] = {
    "change": change,
    "points": points,
    "percent": percent,
    "share": share,
    "limits": limits,
    "lost": lost,
    "cases": on_cases,
    "kappa": coefficient_text,
    "cell": change_text,
    "n": lambda row: f"{row['n']:,.0f}",
    "clusters": lambda row: f"{row['n_clusters']:,.0f}",
    "rank": lambda row: f"{row['estimate']:.0f} [{row['ci_low']:.0f}, {row['ci_high']:.0f}]",
}
_OF_NUMBERS: dict[str, Callable[[Any], str]] = {
    "rate": rate,
    "size": size,
    "signed": signed,
    "coefficient": coefficient,
    "names": lambda text: listing(text.split(", ")),
}


def fields_of(row: Row, more: Mapping[str, Any] | None = None) -> dict[str, Field]:
    """Return the fields of phrases: columns of a row, words for it, and more by name."""
    condition, reference = row.get("condition", "skill"), row.get("reference", "baseline")
    words = {
        "row": row,
        "grader": row.get("grader", "The grader"),
        "how": treatment(condition, reference),
        "without": without(reference),
        "what": "checks" if "share" in str(row.get("measure")) else "answers",
    }
    fields = row.to_dict() | words | dict(more or {})
    return {str(name): Field(value, unit_of(row)) for name, value in fields.items()}


def filled(phrase: Iterable[str], fields: Mapping[str, Field]) -> str:
    """Fill in a phrase; leave out parts with unknown numbers, but raise LookupError for the first.

    >>> row = pd.Series({"estimate": 0.164, "ci_low": 0.11, "ci_high": 0.22, "n": 419})
    >>> phrase = "It fails {row:of items}", ", kappa {kappa:coefficient}"
    >>> filled(phrase, fields_of(row)), filled(phrase, fields_of(row) | {"kappa": Field(0.79)})
    ('It fails 16 % [11, 22] of 419 items', 'It fails 16 % [11, 22] of 419 items, kappa .79')
    """
    first, *rest = phrase
    text = first.format_map(fields)
    for part in rest:
        with suppress(LookupError):
            text += part.format_map(fields)
    return text
