"""The contract of every frame: columns, dtypes, allowed values, keys; and the check of them.

The tables below are the single statement of what a frame of each kind looks like.
``skillcomp.frames`` builds frames that keep it, ``check`` brings a researcher's own DataFrame
under it and reports everything that is wrong at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from typing import Any

import pandas as pd
import pandera.pandas as pa
from pandera.errors import SchemaErrors

from skillcomp.columns import Columns, absent
from skillcomp.errors import FrameError, suggest
from skillcomp.records import CONCEPT_FIELDS, DIMENSIONS

TIME: Any = "datetime64[us, UTC]"
_MAX_SHOWN = 5  # distinct bad values named in a message


@dataclass(frozen=True)
class Contract:
    """What a frame of one kind holds.

    Attributes
    ----------
    columns : dict of str to str
        Column name to pandas dtype, in order.
    required : tuple of str
        Columns that must be there and hold no missing value; others are added as NA.
    unique : tuple of str
        Columns that together name a row.
    allowed : dict of str to tuple
        Closed vocabularies; NA is allowed beside them unless the column is required.
    ranges : dict of str to (float, float)
        Closed ranges of numeric columns.
    """

    columns: Mapping[str, str]
    required: tuple[str, ...]
    unique: tuple[str, ...] = ()
    allowed: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)


_KINDS = ("positive", "negative")
_GOALS = ("outcome", "process", "style", "efficiency")
_TRANSFER = ("near", "far")
_GRADER_COLUMNS = {
    "grader": "str",
    "grader_kind": "str",
    "grader_model": "str",
    "grader_family": "str",
    "grader_version": "str",
    "round": "Int64",
}
_POSITIVE = (0.0, float("inf"))
_COUNT = (0.0, float("inf"))

CONTRACTS: Mapping[str, Contract] = {
    "cases": Contract(
        columns={
            "skill": "str",
            "suite": "str",
            "case_id": "str",
            "prompt": "str",
            "dimension": "str",
            "comprehension_dimension": "str",
            "concept_field": "str",
            "transfer": "str",
            "criticality": "str",
            "bloom": "str",
            "schema_weight": "float64",
            "contrast_of": "str",
            "should_trigger": "boolean",
            "n_checks": "Int64",
        },
        required=("skill", "case_id"),
        unique=("case_id",),
        allowed={
            "comprehension_dimension": DIMENSIONS,
            "concept_field": CONCEPT_FIELDS,
            "transfer": _TRANSFER,
        },
        ranges={"n_checks": _COUNT, "schema_weight": _POSITIVE},
    ),
    "checks": Contract(
        columns={
            "skill": "str",
            "case_id": "str",
            "check_id": "str",
            "check_kind": "str",
            "goal": "str",
            "description": "str",
        },
        required=("skill", "case_id", "check_id"),
        unique=("case_id", "check_id"),
        allowed={"check_kind": _KINDS, "goal": _GOALS},
    ),
    "attempts": Contract(
        columns={
            "attempt_id": "str",
            "skill": "str",
            "case_id": "str",
            "condition": "str",
            "repeat": "Int64",
            "sitting": "str",
            "loaded_skill": "str",
            "source_attempt_id": "str",
            "perturbation": "str",
            "agent": "str",
            "agent_model": "str",
            "agent_family": "str",
            "status": "str",
            "stop_reason": "str",
            "answer": "str",
            "n_words": "Int64",
            "input_tokens": "Int64",
            "cached_tokens": "Int64",
            "output_tokens": "Int64",
            "cost_usd": "float64",
            "seconds": "float64",
            "triggered": "boolean",
            "n_commands": "Int64",
            "started_at": TIME,
        },
        required=("attempt_id", "skill", "case_id", "condition"),
        unique=("attempt_id",),
        allowed={"status": ("ok", "error", "refused", "truncated", "paused", "timeout")},
        ranges={
            "repeat": (1, float("inf")),
            "n_words": _COUNT,
            "input_tokens": _COUNT,
            "cached_tokens": _COUNT,
            "output_tokens": _COUNT,
            "cost_usd": _COUNT,
            "seconds": _COUNT,
            "n_commands": _COUNT,
        },
    ),
    "verdicts": Contract(
        columns={
            "attempt_id": "str",
            "skill": "str",
            "case_id": "str",
            "condition": "str",
            "repeat": "Int64",
            "check_id": "str",
            "check_kind": "str",
            "goal": "str",
            **_GRADER_COLUMNS,
            "batch": "str",
            "item": "str",
            "order": "Int64",
            "status": "str",
            "passed": "boolean",
            "score": "float64",
            "evidence_quote": "str",
            "evidence_found": "boolean",
            "rationale": "str",
            "borderline": "boolean",
            "cost_usd": "float64",
            "graded_at": TIME,
        },
        required=("attempt_id", "skill", "case_id", "condition", "check_id", "grader"),
        unique=("attempt_id", "check_id", "grader", "grader_version", "round"),
        allowed={
            "check_kind": _KINDS,
            "goal": _GOALS,
            "status": ("ok", "malformed", "error", "refused"),
        },
        ranges={
            "repeat": (1, float("inf")),
            "round": (1, float("inf")),
            "cost_usd": _COUNT,
        },
    ),
    "outcomes": Contract(
        columns={
            "attempt_id": "str",
            "skill": "str",
            "case_id": "str",
            "condition": "str",
            "repeat": "Int64",
            **_GRADER_COLUMNS,
            "comprehension_dimension": "str",
            "transfer": "str",
            "contrast_of": "str",
            "n_checks": "Int64",
            "n_passed": "Int64",
            "n_missing": "Int64",
            "share_passed": "float64",
            "passed": "boolean",
        },
        required=("skill", "case_id", "condition"),
        unique=("attempt_id", "grader", "grader_version", "round"),
        allowed={"comprehension_dimension": DIMENSIONS, "transfer": _TRANSFER},
        ranges={
            "repeat": (1, float("inf")),
            "round": (1, float("inf")),
            "n_checks": _COUNT,
            "n_passed": _COUNT,
            "n_missing": _COUNT,
            "share_passed": (0.0, 1.0),
        },
    ),
    "gold": Contract(
        columns={
            "attempt_id": "str",
            "check_id": "str",
            "labeller": "str",
            "passed": "boolean",
            "borderline": "boolean",
            "inclusion_probability": "float64",
            "note": "str",
        },
        required=("attempt_id", "check_id"),
        unique=("attempt_id", "check_id", "labeller"),
        ranges={"inclusion_probability": (0.0, 1.0)},
    ),
    "pairwise": Contract(
        columns={
            "skill": "str",
            "case_id": "str",
            "grader": "str",
            "grader_family": "str",
            "order": "Int64",
            "first": "str",
            "second": "str",
            "winner": "str",
            "winner_position": "Int64",
            "rationale": "str",
        },
        required=("case_id", "first", "second"),
        unique=("case_id", "grader", "order", "first", "second"),
        allowed={"winner_position": (1, 2)},
        ranges={"order": (1, float("inf"))},
    ),
    "passages": Contract(
        columns={
            "passage_id": "str",
            "skill": "str",
            "document": "str",
            "level": "str",
            "text": "str",
        },
        required=("passage_id", "skill", "level"),
        unique=("passage_id",),
    ),
    "estimates": Contract(
        columns={
            "measure": "str",
            "estimate": "float64",
            "ci_low": "float64",
            "ci_high": "float64",
            "ci_level": "float64",
            "n": "float64",
            "n_clusters": "float64",
            "p_value": "float64",
            "p_adjusted": "float64",
            "method": "str",
            "note": "str",
        },
        required=(),
        ranges={"ci_level": (0.0, 1.0), "p_value": (0.0, 1.0), "p_adjusted": (0.0, 1.0)},
    ),
}


def empty(kind: str) -> pd.DataFrame:
    """Return a frame of ``kind`` with no rows, every column present at its dtype."""
    contract = _contract(kind)
    return pd.DataFrame({name: pd.Series(dtype=dtype) for name, dtype in contract.columns.items()})


def check(frame: pd.DataFrame, kind: str) -> pd.DataFrame:
    """Return ``frame`` under the contract of its kind, or raise one error that lists every problem.

    Every analysis calls this first, so a researcher's own DataFrame works as well as ours. Values
    are converted only where nothing can be lost (``category`` to ``str``, whole floats to
    integers, 0/1 to boolean); text such as ``"false"`` is never taken for a truth value.

    Parameters
    ----------
    frame : pandas.DataFrame
        Any frame with at least the required columns of the kind.
    kind : str
        Which contract to hold it against: ``"cases"``, ``"checks"``, ``"attempts"``,
        ``"verdicts"``, ``"outcomes"``, ``"gold"``, ``"pairwise"``, ``"passages"`` or
        ``"estimates"``.

    Returns
    -------
    pandas.DataFrame
        A new frame: the contract's columns first, in order and at their dtypes, missing optional
        ones added as NA, then the frame's other columns unchanged. The index is reset.

    Raises
    ------
    FrameError
        With one sentence a problem: the column, the values found, the allowed ones.

    Examples
    --------
    >>> import pandas as pd
    >>> own = pd.DataFrame({"skill": ["a"], "case_id": ["a/1"], "transfer": ["distant"]})
    >>> check(own, "cases")
    Traceback (most recent call last):
    ...
    skillcomp.errors.FrameError: cases frame, 1 problem:
    - column 'transfer': found 'distant' (1 row); allowed: 'near', 'far' or missing.
    """
    return checked(frame, kind)[0]


def checked(frame: pd.DataFrame, kind: str) -> tuple[pd.DataFrame, Columns]:
    """Return what :func:`check` returns, and its columns as far as they were looked at.

    Parameters
    ----------
    frame : pandas.DataFrame
        Any frame with at least the required columns of the kind.
    kind : str
        Which contract to hold it against.

    Returns
    -------
    frame : pandas.DataFrame
        The frame under its contract.
    columns : Columns
        The columns of the contract, for grouping without hashing them again.

    Raises
    ------
    FrameError
        As :func:`check`.
    """
    contract = _contract(kind)
    if not isinstance(frame, pd.DataFrame):
        raise FrameError(
            f"{kind} frame: expected a pandas DataFrame, found {type(frame).__name__}."
        )
    if not frame.columns.is_unique:
        twice = sorted(set(frame.columns[frame.columns.duplicated()].astype(str)))
        raise FrameError(f"{kind} frame: columns stand twice: {', '.join(twice)}.")
    problems: list[str] = []
    columns: dict[str, Any] = {}
    source = frame.reset_index(drop=True)
    for name, dtype in contract.columns.items():
        if name in source.columns:
            try:
                columns[name] = _convert(source[name], dtype)
            except _Unfit as unfit:
                problems.append(f"column '{name}': {unfit}")
        elif name in contract.required:
            problems.append(_missing(name, source, contract))
        else:
            columns[name] = absent(dtype, len(source))
    # pandas copies a column of either frame before it changes
    whole = pd.DataFrame(columns, index=source.index, copy=False)
    looked_at = Columns(whole)
    given = [name for name in columns if name in source.columns]
    if not _keeps(looked_at, whole, given, contract):
        problems += _violations(whole, kind)
    if problems:
        raise FrameError(_message(kind, problems), problems)
    extras = source.columns.difference(list(contract.columns), sort=False)
    if len(extras):
        whole = pd.concat([whole, source[extras]], axis=1)
    return whole, looked_at


def _keeps(columns: Columns, frame: pd.DataFrame, given: list[str], contract: Contract) -> bool:
    """Tell at small cost whether a frame certainly keeps its contract; most frames do."""
    unique = contract.unique
    return (
        not any(frame[name].hasnans for name in given if name in contract.required)
        and all(columns.within(k, v) for k, v in contract.allowed.items() if k in given)
        and all(columns.between(k, *v) for k, v in contract.ranges.items() if k in given)
        and (not set(unique) <= set(frame.columns) or columns.distinct(unique))
    )


class _Unfit(Exception):
    """A column cannot be brought to its dtype without loss."""


def _contract(kind: str) -> Contract:
    if kind not in CONTRACTS:
        raise FrameError(
            f"There is no frame of kind '{kind}'; allowed: {', '.join(CONTRACTS)}."
            + suggest(kind, CONTRACTS)
        )
    return CONTRACTS[kind]


def _message(kind: str, problems: list[str]) -> str:
    many = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    return f"{kind} frame, {many}:\n" + "\n".join(f"- {problem}" for problem in problems)


def _missing(name: str, frame: pd.DataFrame, contract: Contract) -> str:
    others = [str(c) for c in frame.columns if c not in contract.columns]
    near = get_close_matches(name, others, n=1)
    hint = f" Is it '{near[0]}'?" if near else ""
    return f"column '{name}' is missing; required: {', '.join(contract.required)}.{hint}"


def _show(values: pd.Series) -> str:
    """Name the distinct bad values and how many rows hold them."""
    distinct = list(dict.fromkeys(values.tolist()))
    shown = ", ".join(_literal(v) for v in distinct[:_MAX_SHOWN])
    more = f" and {len(distinct) - _MAX_SHOWN} more" if len(distinct) > _MAX_SHOWN else ""
    rows = "1 row" if len(values) == 1 else f"{len(values)} rows"
    return f"{shown}{more} ({rows})"


def _literal(value: Any) -> str:
    text = repr(value.item() if hasattr(value, "item") else value)
    return text if len(text) <= 60 else text[:57] + "..."


def _convert(values: pd.Series, dtype: Any) -> pd.Series:
    """Bring a column to its dtype where nothing is lost, else say which values stand in the way."""
    if str(values.dtype) == dtype:
        return values
    if (dtype, values.dtype.kind) in {("boolean", "b"), ("Int64", "i"), ("float64", "i")}:
        converted: pd.Series = values.astype(dtype)
        return converted
    if isinstance(values.dtype, pd.CategoricalDtype):
        values = pd.Series(values.astype(values.cat.categories.dtype))
    present = values.dropna()
    if present.empty:
        absent: pd.Series = pd.Series(None, index=values.index, dtype=dtype)
        return absent
    match dtype:
        case "str":
            return _to_text(values, present)
        case "boolean":
            return _to_boolean(values, present)
        case "Int64" | "float64":
            return _to_number(values, present, dtype)
        case _:
            return _to_time(values, present)


def _to_text(values: pd.Series, present: pd.Series) -> pd.Series:
    if isinstance(values.dtype, pd.StringDtype):
        return values.astype("str")
    bad = present[~present.map(lambda v: isinstance(v, str | int) and not isinstance(v, bool))]
    if len(bad):
        raise _Unfit(f"found {_show(bad)}; expected text.")
    return present.map(str).astype("str").reindex(values.index)


def _to_boolean(values: pd.Series, present: pd.Series) -> pd.Series:
    fits = present.map(lambda v: not isinstance(v, str) and v in (0, 1))
    if not fits.all():
        raise _Unfit(
            f"found {_show(present[~fits.astype(bool)])}; allowed: True, False or missing."
        )
    return present.astype(bool).astype("boolean").reindex(values.index)


def _to_number(values: pd.Series, present: pd.Series, dtype: str) -> pd.Series:
    if isinstance(values.dtype, pd.StringDtype) or present.map(type).isin([str, bool]).any():
        raise _Unfit(f"found {_show(present)}; expected numbers.")
    numbers = pd.to_numeric(present, errors="coerce").astype("float64")
    bad = present[numbers.isna() | ((numbers % 1 != 0) if dtype == "Int64" else False)]
    if len(bad):
        what = "whole numbers" if dtype == "Int64" else "numbers"
        raise _Unfit(f"found {_show(bad)}; expected {what}.")
    if dtype == "float64":
        return numbers.reindex(values.index)
    return present.astype("Int64").reindex(values.index)


def _to_time(values: pd.Series, present: pd.Series) -> pd.Series:
    if pd.api.types.is_numeric_dtype(values.dtype):
        raise _Unfit(f"found {_show(present)}; expected times (ISO 8601).")
    times = pd.to_datetime(present, errors="coerce", utc=True, format="ISO8601")
    bad = present[times.isna()]
    if len(bad):
        raise _Unfit(f"found {_show(bad)}; expected times (ISO 8601).")
    return times.astype(TIME).reindex(values.index)


@cache
def _schema(kind: str) -> pa.DataFrameSchema:
    contract = CONTRACTS[kind]
    columns = {}
    for name in contract.columns:
        checks = []
        if name in contract.allowed:
            checks.append(pa.Check.isin(contract.allowed[name]))
        if name in contract.ranges:
            checks.append(pa.Check.in_range(*contract.ranges[name]))
        # dtypes were settled by _convert, so pandera is left the values
        columns[name] = pa.Column(
            None, checks=checks, nullable=name not in contract.required, required=False
        )
    return pa.DataFrameSchema(columns)


def _violations(frame: pd.DataFrame, kind: str) -> list[str]:
    contract = CONTRACTS[kind]
    problems: list[str] = []
    try:
        _schema(kind).validate(frame, lazy=True)
    except SchemaErrors as errors:
        for (name, rule), rows in errors.failure_cases.groupby(
            ["column", "check"], sort=False, dropna=False
        ):
            problems.append(_sentence(str(name), str(rule), frame, rows, contract))
    unique = [name for name in contract.unique if name in frame.columns]
    if unique and len(unique) == len(contract.unique):
        # rows without an id (a researcher's own outcomes) cannot share one
        doubled = frame.duplicated(unique, keep=False) & frame[unique[0]].notna()
        if doubled.any():
            first = frame.loc[doubled, unique].iloc[0].dropna().astype(str).to_dict()
            problems.append(
                f"key ({', '.join(contract.unique)}): {int(doubled.sum())} rows share a key; "
                f"the first: {first}."
            )
    return problems


def _sentence(
    name: str, rule: str, frame: pd.DataFrame, rows: pd.DataFrame, contract: Contract
) -> str:
    if rule.startswith("not_nullable"):
        return f"column '{name}': missing in {int(frame[name].isna().sum())} rows; it is required."
    found = _show(rows["failure_case"])
    if name in contract.allowed:
        allowed = contract.allowed[name]
        hint = suggest(str(rows["failure_case"].iloc[0]), [str(a) for a in allowed])
        words = ", ".join(repr(a) for a in allowed)
        return f"column '{name}': found {found}; allowed: {words} or missing.{hint}"
    low, high = contract.ranges[name]
    span = f"at least {low:g}" if high == float("inf") else f"from {low:g} to {high:g}"
    return f"column '{name}': found {found}; allowed: {span}."
