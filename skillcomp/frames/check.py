"""The check of a frame against its contract, and the conversion of its columns.

The contract of a kind of frame defines its columns, their dtypes, allowed values and keys. Columns
are converted only where no information is lost. One error reports all problems.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import date
from decimal import Decimal
from difflib import get_close_matches
from functools import cache
from typing import Any, get_args

import numpy as np
import pandas as pd

from skillcomp.errors import (
    FrameError,
    argument,
    literal,
    plural,
    problem_list,
    require_known,
    shortened,
    suggest,
)
from skillcomp.frames.contracts import ABOVE_ZERO, CONTRACTS, TEXT, TIME, Cluster, Contract
from skillcomp.records import DIMENSIONS, dimension_family

_MAX_SHOWN = 5  # A message names at most this many distinct bad values.
# types of numbers; a Decimal is not an int or a float
_NUMBERS = (int, float, Decimal, np.integer, np.floating, np.bool_)
_TRUTHS = (bool, np.bool_)


class ConversionError(Exception):
    """A column that cannot be converted to its dtype without loss."""


def show(values: pd.Series) -> str:
    """Format the distinct values and the number of rows for an error message."""
    plain = (v.item() if isinstance(v, np.generic) else v for v in values.tolist())
    distinct = dict.fromkeys(map(literal, plain))
    return f"{shortened(distinct, _MAX_SHOWN)} ({plural(len(values), 'row')})"


def convert(values: pd.Series, dtype: Any) -> pd.Series:
    """Convert a column to its dtype without loss; raise ConversionError if a value prevents it."""
    if _has_dtype(values.dtype, dtype):
        return values if str(values.dtype) == dtype else pd.Series(values.astype(dtype))
    values = plain_values(values)
    present = values[values.notna()]
    if present.empty:
        absent: pd.Series = pd.Series(None, index=values.index, dtype=dtype)
        return absent
    expected, read = _READ[dtype]
    try:
        made = read(present)
    except (TypeError, ValueError, ArithmeticError, RecursionError) as cause:
        raise ConversionError(f"found {show(present)}; {expected}.") from cause
    if len(made) < len(present):
        raise ConversionError(f"found {show(present.drop(made.index))}; {expected}.")
    return made.reindex(values.index)


def plain_values(values: pd.Series) -> pd.Series:
    """Return the values of a categorical, sparse or Arrow column in a plain dtype."""
    dtype = values.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        texts = isinstance(dtype.categories.dtype, pd.StringDtype)
        return pd.Series(values.astype("str" if texts else "object"))
    if isinstance(dtype, pd.SparseDtype):
        return pd.Series(np.asarray(values.array), index=values.index, name=values.name)
    if isinstance(dtype, pd.ArrowDtype):
        dense = values.astype("object")
        return dense.where(dense.notna(), None)
    if dtype == np.float16:  # pandas cannot group by float16
        return values.astype("float64")
    return values


def as_list(names: Any) -> list[Any]:
    """Return names as a list: a single name becomes a list of one, None an empty list."""
    if names is None:
        return []
    return list(names) if pd.api.types.is_list_like(names) else [names]


def require_frame(frame: Any, what: str) -> None:
    """Raise FrameError unless ``frame`` is a DataFrame with unique column names of one level."""
    if not isinstance(frame, pd.DataFrame):
        raise FrameError(f"{what}: expected a pandas DataFrame, found {type(frame).__name__}.")
    if frame.columns.nlevels > 1:
        raise FrameError(f"{what}: the columns have several levels; expected plain names.")
    if not frame.columns.is_unique:
        twice = sorted(set(map(str, frame.columns[frame.columns.duplicated()])))
        raise FrameError(f"{what}: columns stand twice: {', '.join(twice)}.")


def settle(frame: pd.DataFrame, dtypes: Mapping[str, str], what: str) -> pd.DataFrame:
    """Convert columns to the dtypes in ``dtypes``; ignore names that are not columns of the frame.

    This is for frames that have no contract, such as a result that is passed to another analysis.
    """
    require_frame(frame, what)
    changed, problems = {}, []
    for name, dtype in dtypes.items():
        if name in frame and not _has_dtype(frame[name].dtype, dtype):
            try:
                # assign an array: a Series would be aligned by an index that may hold duplicates
                changed[name] = convert(frame[name].reset_index(drop=True), dtype).array
            except ConversionError as error:
                problems.append(f"column '{name}': {error}")
    if problems:
        raise FrameError(f"{what}, {'; '.join(problems)}", problems)
    return frame.assign(**changed) if changed else frame


def _has_dtype(present: Any, dtype: str) -> bool:
    """Check whether a dtype is the expected one or the numpy dtype of the same kind."""
    kinds = {"Int64": "i", "boolean": "b", "float64": "f"}
    if isinstance(present, pd.StringDtype):
        return dtype == "str" and present == TEXT
    is_numpy = isinstance(present, np.dtype)
    return str(present) == dtype or (is_numpy and present.kind == kinds.get(dtype))


def _values_that_fit(values: pd.Series, fits: Callable[[Any], bool]) -> pd.Series:
    return values[values.map(fits).astype(bool)]


def _as_texts(values: pd.Series) -> pd.Series:
    # for a column of objects, infer_dtype is ten times faster than a Python call for each value
    if isinstance(values.dtype, pd.StringDtype) or pd.api.types.infer_dtype(values) == "string":
        return values.astype(TEXT)
    named = _values_that_fit(values, lambda v: isinstance(v, str | int) and not isinstance(v, bool))
    return named.map(str).astype(TEXT)


def _as_truths(values: pd.Series) -> pd.Series:
    known = _values_that_fit(values, lambda v: isinstance(v, _NUMBERS) and v in (0, 1))
    return known.astype(bool).astype("boolean")


def _as_numbers(values: pd.Series) -> pd.Series:
    if values.dtype.kind not in "if":
        values = _values_that_fit(
            values, lambda v: isinstance(v, _NUMBERS) and not isinstance(v, _TRUTHS)
        )
    return pd.to_numeric(values, errors="coerce").astype("float64").dropna()


def _as_whole_numbers(values: pd.Series) -> pd.Series:
    numbers = _as_numbers(values)
    whole = values[numbers.index[numbers % 1 == 0]]  # exact, unlike floats from 2 ** 53 on
    return (whole if values.dtype.kind in "if" else whole.map(int)).astype("Int64")


def _as_times(values: pd.Series) -> pd.Series:
    if values.dtype.kind != "M":
        values = _values_that_fit(values, lambda v: isinstance(v, str | date | np.datetime64))
    return pd.to_datetime(values, errors="coerce", utc=True, format="ISO8601").dropna().astype(TIME)


# for each dtype, the end of the message on other values, and the function that converts values; it
# leaves out those that it cannot convert without loss
_READ: Mapping[Any, tuple[str, Callable[[pd.Series], pd.Series]]] = {
    "str": ("expected text", _as_texts),
    "boolean": ("allowed: True, False or missing", _as_truths),
    "Int64": ("expected whole numbers", _as_whole_numbers),
    "float64": ("expected numbers", _as_numbers),
    TIME: ("expected times (ISO 8601)", _as_times),
}


def empty(kind: str) -> pd.DataFrame:
    """Return a frame of ``kind`` without rows, with every column of its contract."""
    return _frame_without_rows(kind).copy()


@cache
def _frame_without_rows(kind: str) -> pd.DataFrame:
    contract = _contract_of(kind)
    return pd.DataFrame({name: pd.Series(dtype=dtype) for name, dtype in contract.columns.items()})


def check(frame: pd.DataFrame, kind: str) -> pd.DataFrame:
    """Convert a frame to the contract of its kind; raise one error that lists every problem.

    Every analysis calls this first, so any DataFrame with the right columns works. Values are
    converted only without loss (``category`` to ``str``, whole floats to integers, 0/1 to
    boolean); text such as ``"false"`` is never read as a truth value.

    Parameters
    ----------
    frame : pandas.DataFrame
        Any frame with at least the required columns of the kind.
    kind : str
        The contract to apply: ``"cases"``, ``"checks"``, ``"attempts"``, ``"verdicts"``,
        ``"outcomes"``, ``"gold"``, ``"pairwise"``, ``"invocations"``, ``"events"``,
        ``"passages"`` or ``"estimates"``.

    Returns
    -------
    pandas.DataFrame
        A new frame: the contract's columns first, in order and with their dtypes, missing optional
        columns added as NA, then the frame's other columns unchanged. The index is reset.

    Raises
    ------
    FrameError
        With one sentence per problem: the column, its values and the allowed ones. A different
        spelling of an optional column (``Passed``) is a problem, too.

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
    contract = _contract_of(kind)
    require_frame(frame, f"{kind} frame")
    problems = []
    columns = {}
    absent = {}  # missing values, by dtype
    source = frame.reset_index(drop=True)
    for name, dtype in contract.columns.items():
        if name in source:
            try:
                columns[name] = convert(source[name], dtype)
            except ConversionError as error:
                problems.append(f"column '{name}': {error}")
            continue
        problems += _problems_of_absent_column(name, source, contract)
        if name not in contract.required:
            if dtype not in absent:
                absent[dtype] = pd.Series(None, index=source.index, dtype=dtype).array
            columns[name] = absent[dtype].copy()
    present = {name: values for name, values in columns.items() if name in source}
    problems += _problems_of_values(present, contract)
    problems += _problems_of_keys(columns, contract)
    if problems and kind == "outcomes" and "check_id" in source:
        problems.append(
            "this looks like a verdicts frame: sc.frames.outcomes(verdicts, cases) makes outcomes."
        )
    if problems:
        raise FrameError(problem_list(f"{kind} frame", problems), problems)
    dtypes = dict(zip(source.columns, source.dtypes, strict=True))
    others = [name for name in dtypes if name not in contract.columns]
    # pandas cannot group by a sparse column
    sparse = [name for name in others if isinstance(dtypes[name], pd.SparseDtype)]
    if sparse:
        source = source.assign(**{name: plain_values(source[name]) for name in sparse})
    if [*dtypes.items()][: len(columns)] == [(n, values.dtype) for n, values in columns.items()]:
        return source  # nothing to convert: order and dtypes are those of the contract
    # copy=False is safe, because pandas copies a shared column before changing it.
    result = pd.DataFrame(columns, index=source.index, copy=False)
    return pd.concat([result, source[others]], axis=1) if others else result


def _contract_of(kind: str) -> Contract:
    require_known("There is no frame of kind", kind, CONTRACTS)
    return CONTRACTS[kind]


def _problems_of_absent_column(name: str, frame: pd.DataFrame, contract: Contract) -> list[str]:
    """Return a problem if the absent column is required, or if another column looks like it."""
    others = [str(column) for column in frame if column not in contract.columns]
    if name in contract.required:
        near = get_close_matches(name, others, n=1)
        hint = f" Is it '{near[0]}'?" if near else ""
        return [f"column '{name}' is missing; required: {', '.join(contract.required)}.{hint}"]
    plain = name.replace("_", "")
    alike = [c for c in others if "".join(x for x in c.casefold() if x.isalnum()) == plain]
    return [f"column '{c}' looks like '{name}': rename it, or it is not read." for c in alike[:1]]


def _problems_of_values(columns: Mapping[str, Any], contract: Contract) -> Iterator[str]:
    """Yield the problems of the values: first empty required texts, then the others by column."""
    for name, values in columns.items():
        is_text = name in contract.required and contract.columns[name] == "str"
        if is_text and (n := int((values.array == "").sum())):
            yield f"column '{name}': empty in {plural(n, 'row')}; it is required."
    for name, values in columns.items():
        if name in contract.required and (n := int(values.array.isna().sum())):
            yield f"column '{name}': missing in {plural(n, 'row')}; it is required."
        if name in contract.allowed:
            yield from _problems_of_words(name, values, contract)
        if name in contract.ranges:
            low, high = contract.ranges[name]
            numbers = values.to_numpy(float)
            outside = (numbers < low) | (numbers > high)
            if outside.any():
                span = f"at least {low:g}" if high == float("inf") else f"from {low:g} to {high:g}"
                span = f"above 0, at most {high:g}" if low == ABOVE_ZERO else span
                yield f"column '{name}': found {show(values[outside])}; allowed: {span}."


def _problems_of_words(name: str, values: pd.Series, contract: Contract) -> Iterator[str]:
    allowed = contract.allowed[name]
    if all(pd.isna(word) or word in allowed for word in values.unique()):
        return
    odd = values[~(values.isin(allowed) | values.isna())]
    # a user's own dimensions are allowed unless one of them looks like C1 to C9
    own = name == "comprehension_dimension"
    if own and dimension_family(values.unique()) is not DIMENSIONS:
        return
    hint = suggest(str(odd.iloc[0]), [str(word) for word in allowed])
    words = ", ".join(repr(word) for word in allowed)
    yield f"column '{name}': found {show(odd)}; allowed: {words} or missing.{hint}"


def _problems_of_keys(columns: Mapping[str, Any], contract: Contract) -> Iterator[str]:
    """Yield a problem if rows have equal keys.

    The key of a row is its values in the columns ``unique`` of the contract. Rows without a value
    in the first of these columns have the columns ``otherwise`` as their key. They are compared
    only if they have a ``repeat``.
    """
    keys, otherwise = list(contract.unique), list(contract.otherwise)
    if not keys or not {*keys} <= {*columns}:
        return
    without_id = pd.isna(columns[keys[0]])
    rows = pd.DataFrame({name: columns[name] for name in keys})[~without_id]
    yield from _problem_of_equal_rows(rows, "key ({}): {} rows share a key")
    if without_id.any() and otherwise and {*otherwise} <= {*columns}:
        rows = pd.DataFrame({name: columns[name] for name in otherwise})
        rows = rows[without_id & rows["repeat"].notna()]
        words = f"rows without {keys[0]}: {{1}} are alike in ({{0}})"
        yield from _problem_of_equal_rows(rows, words)


def _problem_of_equal_rows(rows: pd.DataFrame, words: str) -> Iterator[str]:
    # a table with few graders and rounds differs in its first two columns, which takes less time
    if not (rows.iloc[:, :2].duplicated().any() and rows.duplicated().any()):
        return
    equal = rows[rows.duplicated(keep=False)]
    first = equal.iloc[0].dropna().astype(str).to_dict()
    yield f"{words.format(', '.join(rows.columns), len(equal))}; the first: {first}."


def check_cluster(cluster: str) -> None:
    """Raise FrameError unless an interval is about these cases or about skills in general."""
    if cluster not in get_args(Cluster):
        known = argument("cluster", cluster)
        raise FrameError(
            f"cluster: found {literal(cluster)}; allowed: 'case' or 'skill'. If cases with equal "
            f"values of a column belong together, {known} of from_frame states it."
        )
