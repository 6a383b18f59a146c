"""The contract of every frame: columns, dtypes, allowed values, keys; and the check of them.

``CONTRACTS`` is the single statement of what a frame of each kind looks like. The readers build
frames that keep it; ``check`` brings a researcher's own DataFrame under it, converts columns only
where nothing can be lost, and reports everything that is wrong at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from difflib import get_close_matches
from functools import cache
from typing import Any, get_args

import numpy as np
import pandas as pd

from skillcomp.errors import FrameError, literal, suggest
from skillcomp.frames.columns import Columns, missing_values
from skillcomp.records import (
    CONCEPT_FIELDS,
    CONDITIONS,
    DIMENSIONS,
    JUDGES,
    PromptKind,
    dimension_family,
)

TIME: Any = "datetime64[us, UTC]"


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
    otherwise : tuple of str
        Columns that together name a row whose first ``unique`` column is missing.
    allowed : dict of str to tuple
        Closed vocabularies; NA is allowed beside them unless the column is required.
    ranges : dict of str to (float, float)
        Closed ranges of numeric columns.
    own : tuple of str
        Of ``allowed`` the columns of dimensions, which may hold names of one's own instead.
    """

    columns: Mapping[str, str]
    required: tuple[str, ...]
    unique: tuple[str, ...] = ()
    otherwise: tuple[str, ...] = ()
    allowed: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    own: tuple[str, ...] = ()


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
CASE = ["skill", "case_id"]  # what names a case: two suites may number theirs alike
# the least number above 0: the low end of a range that leaves 0 out
ABOVE_ZERO = math.ulp(0.0)

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
            "prompt_kind": "str",
            "n_checks": "Int64",
        },
        required=("skill", "case_id"),
        unique=("skill", "case_id"),
        allowed={
            "comprehension_dimension": DIMENSIONS,
            "concept_field": CONCEPT_FIELDS,
            "transfer": _TRANSFER,
            "prompt_kind": get_args(PromptKind),
        },
        ranges={"n_checks": _COUNT, "schema_weight": _POSITIVE},
        own=("comprehension_dimension",),
    ),
    "checks": Contract(
        columns={
            "skill": "str",
            "case_id": "str",
            "check_id": "str",
            "check_kind": "str",
            "goal": "str",
            "description": "str",
            "judge": "str",
        },
        required=("skill", "case_id", "check_id"),
        unique=("skill", "case_id", "check_id"),
        allowed={"check_kind": _KINDS, "goal": _GOALS, "judge": JUDGES},
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
            "agent": "str",
            "perturbation": "str",
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
            "dimension_passed": "boolean",
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
            "agent": "str",
            "perturbation": "str",
            **_GRADER_COLUMNS,
            "comprehension_dimension": "str",
            "transfer": "str",
            "contrast_of": "str",
            "n_checks": "Int64",
            "n_passed": "Int64",
            "n_missing": "Int64",
            "share_passed": "float64",
            "score": "float64",
            "passed": "boolean",
        },
        required=("skill", "case_id", "condition"),
        unique=("attempt_id", "grader", "grader_version", "round"),
        otherwise=(
            *("skill", "case_id", "condition", "repeat", "agent", "perturbation"),
            *("grader", "grader_version", "round"),
        ),
        allowed={"comprehension_dimension": DIMENSIONS, "transfer": _TRANSFER},
        own=("comprehension_dimension",),
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
        ranges={"inclusion_probability": (ABOVE_ZERO, 1.0)},
    ),
    "pairwise": Contract(
        columns={
            "skill": "str",
            "case_id": "str",
            "grader": "str",
            "grader_family": "str",
            "grader_version": "str",
            "order": "Int64",
            "first": "str",
            "second": "str",
            "winner": "str",
            "winner_position": "Int64",
            "rationale": "str",
        },
        required=("case_id", "first", "second"),
        unique=("case_id", "skill", "grader", "grader_version", "order", "first", "second"),
        allowed={"winner_position": (1, 2)},
        ranges={"order": (1, float("inf"))},
    ),
    "invocations": Contract(
        columns={
            "attempt_id": "str",
            "skill": "str",
            "case_id": "str",
            "condition": "str",
            "repeat": "Int64",
            "agent": "str",
            "perturbation": "str",
            "offered": "str",
            "invoked": "boolean",
            "should_invoke": "boolean",
        },
        required=("attempt_id", "skill", "case_id", "condition", "offered"),
        unique=("attempt_id", "offered"),
        ranges={"repeat": (1, float("inf"))},
    ),
    "events": Contract(
        columns={
            "attempt_id": "str",
            "skill": "str",
            "case_id": "str",
            "condition": "str",
            "repeat": "Int64",
            "agent": "str",
            "perturbation": "str",
            "ordinal": "Int64",
            "turn": "Int64",
            "kind": "str",
            "tool": "str",
            "text": "str",
            "status": "str",
            "exit_code": "Int64",
            "read_only": "boolean",
            "in_subagent": "boolean",
            "input_tokens": "Int64",
            "cached_tokens": "Int64",
            "output_tokens": "Int64",
        },
        required=("attempt_id", "skill", "case_id", "condition", "ordinal", "kind"),
        unique=("attempt_id", "ordinal"),
        ranges={
            **dict.fromkeys(("repeat", "ordinal", "turn"), (1, float("inf"))),
            **dict.fromkeys(("input_tokens", "cached_tokens", "output_tokens"), _COUNT),
        },
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
            "unit": "str",
            "estimate": "float64",
            "ci_low": "float64",
            "ci_high": "float64",
            "ci_level": "float64",
            "se": "float64",
            "df": "float64",
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


_MAX_SHOWN = 5  # distinct bad values named in a message


class Unfit(Exception):
    """A column cannot be brought to its dtype without loss."""


def show(values: pd.Series) -> str:
    """Name the distinct bad values and how many rows hold them."""
    distinct = list(
        dict.fromkeys(
            literal(value.item() if isinstance(value, np.generic) else value)
            for value in values.tolist()
        )
    )
    shown = ", ".join(distinct[:_MAX_SHOWN])
    more = f" and {len(distinct) - _MAX_SHOWN} more" if len(distinct) > _MAX_SHOWN else ""
    rows = "1 row" if len(values) == 1 else f"{len(values)} rows"
    return f"{shown}{more} ({rows})"


def convert(values: pd.Series, dtype: Any) -> pd.Series:
    """Bring a column to its dtype where nothing is lost, else say which values stand in the way."""
    if str(values.dtype) == dtype:
        return values
    if (dtype, values.dtype.kind) in {("boolean", "b"), ("Int64", "i"), ("float64", "i")} and (
        isinstance(values.dtype, np.dtype)
    ):
        converted: pd.Series = values.astype(dtype)
        return converted
    values = plain_values(values)
    present = values[values.notna()]
    if present.empty:
        absent: pd.Series = pd.Series(None, index=values.index, dtype=dtype)
        return absent
    bring = {"str": _to_text, "boolean": _to_boolean, "Int64": _to_number, "float64": _to_number}
    try:
        return bring.get(dtype, _to_time)(values, present, dtype)
    except (TypeError, ValueError, ArithmeticError, RecursionError) as cause:
        raise Unfit(f"found {show(present)}; expected {_EXPECTED.get(dtype, _TIMES)}.") from cause


_TIMES = "times (ISO 8601)"
_EXPECTED = {
    "str": "text",
    "boolean": "True, False or missing",
    "Int64": "whole numbers",
    "float64": "numbers",
}


def plain_values(values: pd.Series) -> pd.Series:
    """Return a column without what only stores it in another way, as categories and gaps do."""
    dtype = values.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        texts = isinstance(dtype.categories.dtype, pd.StringDtype)
        return pd.Series(values.astype("str" if texts else "object"))
    if isinstance(dtype, pd.SparseDtype):
        dense = pd.Series(np.asarray(values.array), index=values.index, name=values.name)
        return dense
    if isinstance(dtype, pd.ArrowDtype):
        dense = values.astype("object")
        return dense.where(dense.notna(), None)
    return values


def require_frame(frame: Any, what: str) -> None:
    """Raise FrameError unless this is a DataFrame in which a name is one column."""
    if not isinstance(frame, pd.DataFrame):
        raise FrameError(f"{what}: expected a pandas DataFrame, found {type(frame).__name__}.")
    if frame.columns.nlevels > 1:
        raise FrameError(f"{what}: the columns have several levels; expected plain names.")
    if not frame.columns.is_unique:
        twice = sorted(set(map(str, frame.columns[frame.columns.duplicated()])))
        raise FrameError(f"{what}: columns stand twice: {', '.join(twice)}.")


def settle(frame: pd.DataFrame, dtypes: Mapping[str, str], what: str) -> pd.DataFrame:
    """Return a frame with those of the named columns that it has at their dtypes.

    For frames that no contract describes, such as what one analysis makes for the next.
    """
    require_frame(frame, what)
    changed, problems = {}, []
    for name, dtype in dtypes.items():
        if name in frame.columns and not _fits(frame[name].dtype, dtype):
            try:
                # rows may share an index; an array takes its place without one
                changed[name] = convert(frame[name].reset_index(drop=True), dtype).array
            except Unfit as unfit:
                problems.append(f"column '{name}': {unfit}")
    if problems:
        raise FrameError(f"{what}, {'; '.join(problems)}", problems)
    return frame.assign(**changed) if changed else frame


def _fits(found: Any, dtype: str) -> bool:
    """Tell whether a dtype is the one asked for, or plain numpy of the same kind."""
    kinds = {"Int64": "i", "boolean": "b", "float64": "f"}
    return str(found) == dtype or (isinstance(found, np.dtype) and found.kind == kinds.get(dtype))


def _to_text(values: pd.Series, present: pd.Series, dtype: str) -> pd.Series:
    if isinstance(values.dtype, pd.StringDtype):
        return values.astype("str")
    bad = present[~present.map(lambda v: isinstance(v, str | int) and not isinstance(v, bool))]
    if len(bad):
        raise Unfit(f"found {show(bad)}; expected text.")
    return present.map(str).astype("str").reindex(values.index)


def _to_boolean(values: pd.Series, present: pd.Series, dtype: str) -> pd.Series:
    fits = present.map(lambda v: isinstance(v, _NUMBERS) and v in (0, 1)).astype(bool)
    if not fits.all():
        raise Unfit(f"found {show(present[~fits])}; allowed: True, False or missing.")
    return present.astype(bool).astype("boolean").reindex(values.index)


_NUMBERS = (int, float, Decimal, np.number, np.bool_)  # a Decimal is no numbers.Real


def _to_number(values: pd.Series, present: pd.Series, dtype: str) -> pd.Series:
    real = values.dtype.kind in "if"
    if not real:
        odd = present.map(lambda v: isinstance(v, bool | np.bool_) or not isinstance(v, _NUMBERS))
        if isinstance(values.dtype, pd.StringDtype) or odd.any():
            raise Unfit(f"found {show(present)}; expected numbers.")
    numbers = pd.to_numeric(present, errors="coerce").astype("float64")
    bad = present[numbers.isna() | ((numbers % 1 != 0) if dtype == "Int64" else False)]
    if len(bad):
        what = "whole numbers" if dtype == "Int64" else "numbers"
        raise Unfit(f"found {show(bad)}; expected {what}.")
    if dtype == "float64":
        return numbers.reindex(values.index)
    exact = present if real else present.map(int)
    return exact.astype("Int64").reindex(values.index)


def _to_time(values: pd.Series, present: pd.Series, dtype: str) -> pd.Series:
    odd = present.map(lambda v: not isinstance(v, str | date | np.datetime64))
    if values.dtype.kind != "M" and odd.any():
        raise Unfit(f"found {show(present[odd])}; expected {_TIMES}.")
    times = pd.to_datetime(present, errors="coerce", utc=True, format="ISO8601")
    bad = present[times.isna()]
    if len(bad):
        raise Unfit(f"found {show(bad)}; expected {_TIMES}.")
    return times.astype(TIME).reindex(values.index)


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
        ``"verdicts"``, ``"outcomes"``, ``"gold"``, ``"pairwise"``, ``"invocations"``,
        ``"events"``, ``"passages"`` or ``"estimates"``.

    Returns
    -------
    pandas.DataFrame
        A new frame: the contract's columns first, in order and at their dtypes, missing optional
        ones added as NA, then the frame's other columns unchanged. The index is reset.

    Raises
    ------
    FrameError
        With one sentence a problem: the column, the values found, the allowed ones. A column that
        has an optional one's name in another spelling (``Passed``) is a problem, too.

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
    require_frame(frame, f"{kind} frame")
    problems: list[str] = []
    columns: dict[str, Any] = {}
    source = frame.reset_index(drop=True)
    for name, dtype in contract.columns.items():
        if name in source.columns:
            try:
                columns[name] = convert(source[name], dtype)
            except Unfit as unfit:
                problems.append(f"column '{name}': {unfit}")
        elif name in contract.required:
            problems.append(_missing(name, source, contract))
        else:
            problems += _misspelt(name, source, contract)
            columns[name] = missing_values(dtype, len(source))
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
        # a column that only stores its gaps in another way cannot be grouped by
        others = {name: plain_values(source[name]) for name in extras if _is_sparse(source[name])}
        whole = pd.concat([whole, source[extras].assign(**others)], axis=1)
    return whole, looked_at


def _is_sparse(values: pd.Series) -> bool:
    return isinstance(values.dtype, pd.SparseDtype)


def _keeps(columns: Columns, frame: pd.DataFrame, given: list[str], contract: Contract) -> bool:
    """Tell at small cost whether a frame certainly keeps its contract; most frames do."""
    unique = contract.unique
    return (
        not any(frame[name].hasnans for name in given if name in contract.required)
        and not any(columns.equals(name, "").any() for name in _names(contract, given))
        and all(
            columns.within(k, v) or (k in contract.own and _own_names(frame[k]))
            for k, v in contract.allowed.items()
            if k in given
        )
        and all(columns.between(k, *v) for k, v in contract.ranges.items() if k in given)
        and (not unique or not set(unique) <= set(frame.columns) or columns.distinct(unique))
    )


def _own_names(values: pd.Series) -> bool:
    """Tell whether a column of dimensions holds names of one's own."""
    return dimension_family(values.unique()) is not DIMENSIONS


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


def _misspelt(name: str, frame: pd.DataFrame, contract: Contract) -> list[str]:
    """Tell a column that is there under another spelling from one that is not there."""
    plain = name.replace("_", "")
    others = [str(c) for c in frame.columns if c not in contract.columns]
    same = [c for c in others if "".join(x for x in c.casefold() if x.isalnum()) == plain]
    return (
        [f"column '{same[0]}' looks like '{name}': rename it, or it is not read."] if same else []
    )


def _missing(name: str, frame: pd.DataFrame, contract: Contract) -> str:
    others = [str(c) for c in frame.columns if c not in contract.columns]
    near = get_close_matches(name, others, n=1)
    hint = f" Is it '{near[0]}'?" if near else ""
    return f"column '{name}' is missing; required: {', '.join(contract.required)}.{hint}"


@cache
def _schema(kind: str) -> Any:
    # loaded where a frame breaks its contract, which most do not
    import pandera.pandas as pa

    contract = CONTRACTS[kind]
    columns = {}
    for name in contract.columns:
        checks = []
        if name in contract.allowed:
            words = contract.allowed[name]
            checks.append(_own_or_allowed(words) if name in contract.own else pa.Check.isin(words))
        if name in contract.ranges:
            checks.append(pa.Check.in_range(*contract.ranges[name]))
        # dtypes were settled by convert, so pandera is left the values
        columns[name] = pa.Column(
            None, checks=checks, nullable=name not in contract.required, required=False
        )
    return pa.DataFrameSchema(columns)


def _own_or_allowed(words: tuple[Any, ...]) -> Any:
    import pandera.pandas as pa

    return pa.Check(lambda values: values.isin(words) | _own_names(values))


def _names(contract: Contract, given: Iterable[str]) -> list[str]:
    """Return the columns of texts that must be there: an empty one names nothing."""
    return [n for n in given if n in contract.required and contract.columns[n] == "str"]


def _violations(frame: pd.DataFrame, kind: str) -> list[str]:
    contract = CONTRACTS[kind]
    problems: list[str] = []
    for name in _names(contract, frame.columns):
        if n := int(frame[name].eq("").sum()):
            problems.append(f"column '{name}': empty in {n} rows; it is required.")
    from pandera.errors import SchemaErrors

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
        problems += _repeated(frame, contract)
    return problems


def _repeated(frame: pd.DataFrame, contract: Contract) -> list[str]:
    """Rows without an id must differ in the columns that stand in for it."""
    if not contract.otherwise or not set(contract.otherwise) <= set(frame.columns):
        return []
    nameless = frame[contract.unique[0]].isna() & frame["repeat"].notna()
    twice = frame.loc[nameless].duplicated(list(contract.otherwise), keep=False)
    if not twice.any():
        return []
    first = frame.loc[nameless].loc[twice, list(contract.otherwise)].iloc[0].dropna()
    return [
        f"rows without {contract.unique[0]}: {int(twice.sum())} are alike in "
        f"({', '.join(contract.otherwise)}); the first: {first.astype(str).to_dict()}."
    ]


def _sentence(
    name: str, rule: str, frame: pd.DataFrame, rows: pd.DataFrame, contract: Contract
) -> str:
    if rule.startswith("not_nullable"):
        return f"column '{name}': missing in {int(frame[name].isna().sum())} rows; it is required."
    found = show(rows["failure_case"])
    if name in contract.allowed:
        allowed = contract.allowed[name]
        hint = suggest(str(rows["failure_case"].iloc[0]), [str(a) for a in allowed])
        words = ", ".join(repr(a) for a in allowed)
        return f"column '{name}': found {found}; allowed: {words} or missing.{hint}"
    low, high = contract.ranges[name]
    span = f"at least {low:g}" if high == float("inf") else f"from {low:g} to {high:g}"
    span = f"above 0, at most {high:g}" if low == ABOVE_ZERO else span
    return f"column '{name}': found {found}; allowed: {span}."


def ordered(
    names: Iterable[Any], reference: str | None = None, order: Sequence[str] = CONDITIONS
) -> list[Any]:
    """Return names in their fixed order, others after as they first appear; no reference."""
    found = [name for name in dict.fromkeys(names) if reference is None or name != reference]
    return [one for one in order if one in found] + [one for one in found if one not in order]
