"""The contract of every frame: columns, dtypes, allowed values, keys; and the check of them.

``skillcomp.shapes`` is the single statement of what a frame of each kind looks like.
``skillcomp.frames`` builds frames that keep it, ``check`` brings a researcher's own DataFrame
under it and reports everything that is wrong at once.
"""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache
from typing import Any

import pandas as pd
import pandera.pandas as pa
from pandera.errors import SchemaErrors

from skillcomp.columns import Columns, absent
from skillcomp.conversion import Unfit, convert, show
from skillcomp.errors import FrameError, suggest
from skillcomp.shapes import ABOVE_ZERO, CONTRACTS, TIME, Contract

__all__ = ["CONTRACTS", "TIME", "Contract", "check", "checked", "empty"]


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
                columns[name] = convert(source[name], dtype)
            except Unfit as unfit:
                problems.append(f"column '{name}': {unfit}")
        elif name in contract.required:
            problems.append(_missing(name, source, contract))
        else:
            problems += _misspelt(name, source, contract)
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
        and (not unique or not set(unique) <= set(frame.columns) or columns.distinct(unique))
    )


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
def _schema(kind: str) -> pa.DataFrameSchema:
    contract = CONTRACTS[kind]
    columns = {}
    for name in contract.columns:
        checks = []
        if name in contract.allowed:
            checks.append(pa.Check.isin(contract.allowed[name]))
        if name in contract.ranges:
            checks.append(pa.Check.in_range(*contract.ranges[name]))
        # dtypes were settled by convert, so pandera is left the values
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
