"""The contract of every frame: columns, dtypes, allowed values, keys; and the check of them.

``CONTRACTS`` is the single statement of what a frame of each kind looks like. The readers build
frames that keep it; ``check`` brings a researcher's own DataFrame under it, converts columns only
where nothing can be lost, and reports everything that is wrong at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from difflib import get_close_matches
from functools import cache, partial
from typing import Any, get_args

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from skillcomp.errors import FrameError, literal, plural, problem_list, require_known, suggest
from skillcomp.records import (
    CONCEPT_FIELDS,
    CONDITIONS,
    DIMENSIONS,
    JUDGES,
    AttemptStatus,
    CheckKind,
    Goal,
    PromptKind,
    VerdictStatus,
    dimension_family,
)

Ints = NDArray[np.int64]
TIME: Any = "datetime64[us, UTC]"
_TEXT = pd.StringDtype("pyarrow", na_value=np.nan)  # "str", and not of Python's own texts


@dataclass(frozen=True)
class Contract:
    """What a frame of one kind holds."""

    columns: Mapping[str, str]  # name to pandas dtype, in order
    required: tuple[str, ...]  # must be there without a gap; other columns are added as NA
    unique: tuple[str, ...]  # together name a row
    otherwise: tuple[str, ...]  # together name a row whose first `unique` column is missing
    allowed: Mapping[str, tuple[Any, ...]]  # closed vocabularies, and NA unless required
    ranges: Mapping[str, tuple[float, float]]  # closed
    own: tuple[str, ...]  # of `allowed`, dimensions: may hold names of one's own instead


CASE = ["skill", "case_id"]  # what names a case: two suites may number theirs alike
# the least number above 0: the low end of a range that leaves 0 out
ABOVE_ZERO = math.ulp(0.0)
# columns that are no text, the same in every frame
_TYPED: Mapping[str, str] = {
    "Int64": "repeat round order ordinal turn winner_position exit_code n_checks n_passed n_missing"
    " n_words n_commands input_tokens cached_tokens output_tokens",
    "boolean": "passed evidence_found borderline dimension_passed should_trigger triggered invoked"
    " should_invoke read_only in_subagent",
    "float64": "schema_weight cost_usd seconds score share_passed inclusion_probability estimate"
    " ci_low ci_high ci_level se df n n_clusters p_value p_adjusted",
    TIME: "started_at graded_at",
}
_DTYPES = {name: dtype for dtype, names in _TYPED.items() for name in names.split()}
# the closed ranges of numbers; a frame of `unranged` columns takes any there
_RANGED: Mapping[tuple[float, float], str] = {
    (1, math.inf): "repeat round order ordinal turn",
    (0.0, math.inf): "n_checks n_passed n_missing n_words n_commands schema_weight input_tokens"
    " cached_tokens output_tokens cost_usd seconds",
    (0.0, 1.0): "share_passed ci_level p_value p_adjusted",
    (ABOVE_ZERO, 1.0): "inclusion_probability",
}
_RANGES = {name: limits for limits, names in _RANGED.items() for name in names.split()}
# the closed vocabularies of columns, but for a status, which has its own in each frame
_WORDS: Mapping[str, tuple[Any, ...]] = {
    "comprehension_dimension": DIMENSIONS,
    "concept_field": CONCEPT_FIELDS,
    "transfer": ("near", "far"),
    "prompt_kind": get_args(PromptKind),
    "check_kind": get_args(CheckKind),
    "goal": get_args(Goal),
    "judge": JUDGES,
    "winner_position": (1, 2),
}
_OF_CASES = ("comprehension_dimension",)  # what may hold names of one's own instead


def _contract_of(
    *columns: str,
    required: str = "",
    unique: str = "",
    otherwise: str = "",
    status: tuple[str, ...] = (),
    unranged: tuple[str, ...] = (),
) -> Contract:
    """Return a contract of columns named in texts; dtypes, words and ranges go by the name."""
    names = " ".join(columns).split()
    words = {**_WORDS, **({"status": status} if status else {})}
    return Contract(
        columns={name: _DTYPES.get(name, "str") for name in names},
        required=tuple(required.split()),
        unique=tuple(unique.split()),
        otherwise=tuple(otherwise.split()),
        allowed={name: words[name] for name in names if name in words},
        ranges={n: _RANGES[n] for n in names if n in _RANGES and n not in unranged},
        own=tuple(name for name in _OF_CASES if name in names),
    )


# what names an attempt and a grading of it, the same in every frame that has them
ATTEMPT_KEYS = ["attempt_id", *CASE, "condition", "repeat", "agent", "perturbation"]
GRADER_KEYS = [
    *("grader", "grader_kind", "grader_model", "grader_family", "grader_version", "round"),
]
_TOKENS = "input_tokens cached_tokens output_tokens"

CONTRACTS: Mapping[str, Contract] = {
    "cases": _contract_of(
        "skill suite case_id prompt dimension comprehension_dimension concept_field transfer"
        " criticality bloom schema_weight contrast_of should_trigger prompt_kind n_checks",
        required="skill case_id",
        unique="skill case_id",
    ),
    "checks": _contract_of(
        "skill case_id check_id check_kind goal description judge",
        required="skill case_id check_id",
        unique="skill case_id check_id",
    ),
    "attempts": _contract_of(
        "attempt_id skill case_id condition repeat sitting loaded_skill source_attempt_id"
        " perturbation agent agent_model agent_family status stop_reason answer n_words"
        f" {_TOKENS} cost_usd seconds triggered n_commands started_at",
        required="attempt_id skill case_id condition",
        unique="attempt_id",
        status=get_args(AttemptStatus),
    ),
    "verdicts": _contract_of(
        *ATTEMPT_KEYS,
        "check_id check_kind goal",
        *GRADER_KEYS,
        "batch item order status passed score evidence_quote evidence_found rationale borderline"
        " dimension_passed cost_usd graded_at",
        required="attempt_id skill case_id condition check_id grader",
        unique="attempt_id check_id grader grader_version round",
        status=get_args(VerdictStatus),
        unranged=("order",),
    ),
    "outcomes": _contract_of(
        *ATTEMPT_KEYS,
        *GRADER_KEYS,
        "comprehension_dimension transfer contrast_of n_checks n_passed n_missing share_passed"
        " score passed",
        required="skill case_id condition",
        unique="attempt_id grader grader_version round",
        otherwise="skill case_id condition repeat agent perturbation grader grader_version round",
    ),
    "gold": _contract_of(
        "attempt_id check_id labeller passed borderline inclusion_probability note",
        required="attempt_id check_id",
        unique="attempt_id check_id labeller",
    ),
    "pairwise": _contract_of(
        "skill case_id grader grader_family grader_version order first second winner"
        " winner_position rationale",
        required="case_id first second",
        unique="case_id skill grader grader_version order first second",
    ),
    "invocations": _contract_of(
        *ATTEMPT_KEYS,
        "offered invoked should_invoke",
        required="attempt_id skill case_id condition offered",
        unique="attempt_id offered",
    ),
    "events": _contract_of(
        *ATTEMPT_KEYS,
        f"ordinal turn kind tool text status exit_code read_only in_subagent {_TOKENS}",
        required="attempt_id skill case_id condition ordinal kind",
        unique="attempt_id ordinal",
    ),
    "passages": _contract_of(
        "passage_id skill document level text",
        required="passage_id skill level",
        unique="passage_id",
    ),
    "estimates": _contract_of(
        "measure unit estimate ci_low ci_high ci_level se df n n_clusters p_value p_adjusted"
        " method note"
    ),
}


_MAX_SHOWN = 5  # distinct bad values named in a message


class Unfit(Exception):
    """A column cannot be brought to its dtype without loss."""


def show(values: pd.Series) -> str:
    """Name the distinct bad values and how many rows hold them."""
    plain = (one.item() if isinstance(one, np.generic) else one for one in values.tolist())
    distinct = list(dict.fromkeys(map(literal, plain)))
    shown = ", ".join(distinct[:_MAX_SHOWN])
    more = f" and {len(distinct) - _MAX_SHOWN} more" if len(distinct) > _MAX_SHOWN else ""
    return f"{shown}{more} ({plural(len(values), 'row')})"


def convert(values: pd.Series, dtype: Any) -> pd.Series:
    """Bring a column to its dtype where nothing is lost, else say which values stand in the way."""
    if _fits(values.dtype, dtype):
        return values if str(values.dtype) == dtype else pd.Series(values.astype(dtype))
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
    if isinstance(found, pd.StringDtype):
        return dtype == "str" and found == _TEXT
    return str(found) == dtype or (isinstance(found, np.dtype) and found.kind == kinds.get(dtype))


def _to_text(values: pd.Series, present: pd.Series, dtype: str) -> pd.Series:
    if isinstance(values.dtype, pd.StringDtype):
        return values.astype(_TEXT)
    bad = present[~present.map(lambda v: isinstance(v, str | int) and not isinstance(v, bool))]
    if len(bad):
        raise Unfit(f"found {show(bad)}; expected text.")
    return present.map(str).astype(_TEXT).reindex(values.index)


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


_NUMPY = {"boolean": "bool", "float64": "float64"}  # what values are kept in; int64 otherwise


def missing_values(dtype: Any, n: int) -> Any:
    """Return an array of ``n`` missing values of a dtype of the contracts."""
    if dtype == "str":
        # pandas would make n Python objects first
        return pd.array(pa.nulls(n, pa.large_string()), dtype="str")
    values = pd.array(np.zeros(n, _NUMPY.get(dtype, "int64")), dtype=dtype)
    values[:] = None  # a mask is filled, where repeat would pick value by value
    return values


_HEAD = 1000  # rows that tell whether it is worth while to look at all of them


def _run_starts(values: Any) -> Ints | None:
    """Return where runs of equal values begin, None unless they are longer than two on average.

    A missing value is a run of its own.
    """
    arrow = pa.array(values)
    differs = pc.fill_null(pc.not_equal(arrow[1:], arrow[:-1]), True)
    first = np.append(0, pc.indices_nonzero(differs).to_numpy().astype(np.int64) + 1)
    return first if 2 * len(first) < len(values) else None


class Codes:
    """Numbers for the values of a frame's columns, each column gone through once."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame
        self._runs: dict[str, tuple[Any, Ints | None]] = {}
        self._columns: dict[str, tuple[Ints | None, int]] = {}

    def runs(self, name: str) -> tuple[Any, Ints | None]:
        """Return the first value of each run of a column and where it begins.

        Every value, and None, where runs are short. Equal values mostly stand together, and
        comparing neighbours is cheaper than hashing.
        """
        if name not in self._runs:
            values = self._frame[name].array
            first = None
            if values.dtype in (_TEXT, "Int64") and _run_starts(values[:_HEAD]) is not None:
                first = _run_starts(values)
            self._runs[name] = (values if first is None else values.take(first)), first
        return self._runs[name]

    def spread(self, name: str, found: Any) -> Any:
        """Return for every row what was found for its run in a column."""
        first = self.runs(name)[1]
        return found if first is None else found.repeat(np.diff(first, append=len(self._frame)))

    def column(self, name: str) -> tuple[Ints | None, int]:
        """Return the number of each row's value and how many there are; no numbers where all agree.

        Numbered from 0 in the order of appearance; a missing value is a value of its own.
        """
        if name not in self._columns:
            values = self.runs(name)[0]
            # of a Series all missing values are one, of an array None and NaN are two
            whole = pd.Series(values, dtype=values.dtype)
            code, found = pd.factorize(whole, use_na_sentinel=False)
            several = len(found) > 1
            self._columns[name] = (self.spread(name, code), len(found)) if several else (None, 1)
        return self._columns[name]

    def _combined(self, names: Sequence[str]) -> tuple[Ints, int]:
        """Return a number below the second result for each row's combination of some columns."""
        n, code, size = len(self._frame), np.zeros(len(self._frame), dtype=np.int64), 1
        for name in names:
            other, n_found = self.column(name)
            if other is None:
                continue
            code, size = code * n_found + other if size > 1 else other, size * n_found
            if size > 2 * n:  # few of them occur
                code, found = pd.factorize(code)
                size = len(found)
        return code, size

    def differ(self, names: Sequence[str]) -> bool:
        """Tell whether no two rows have the same combination of some columns."""
        code, size = self._combined(names)
        return bool(np.bincount(code, minlength=size).max(initial=0) <= 1)

    def groups(self, names: Sequence[str]) -> tuple[Ints, Ints]:
        """Return the number of each row's combination of some columns, and its first row."""
        code, size = self._combined(names)
        n = len(code)
        row = np.full(size, n)
        row[code[::-1]] = np.arange(n - 1, -1, -1)  # of several writes the last one stays
        present = np.flatnonzero(row < n)
        present = present[np.argsort(row[present], kind="stable")]
        number = np.empty(size, dtype=np.int64)
        number[present] = np.arange(len(present))
        return number[code], row[present]


def group_codes(frame: pd.DataFrame, names: Sequence[str]) -> tuple[Ints, Ints]:
    """Return the number of each row's combination of some columns, and the first row of each.

    Numbered from 0 in the order of appearance; a missing value is a value of its own.
    """
    return Codes(frame).groups(names)


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


def checked(frame: pd.DataFrame, kind: str) -> tuple[pd.DataFrame, Codes]:
    """Return a frame as :func:`check` does, and the numbers of its values as far as known."""
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
            continue
        problems += _absent(name, source, contract)
        if name not in contract.required:
            columns[name] = missing_values(dtype, len(source))
    # pandas copies a column of either frame before it changes
    whole = pd.DataFrame(columns, index=source.index, copy=False)
    given = [name for name in columns if name in source.columns]
    codes = Codes(whole)
    if not _keeps(whole, given, contract, codes):
        problems += _violations(whole, kind)
    if problems and kind == "outcomes" and "check_id" in source.columns:
        problems.append(
            "this looks like a verdicts frame: sc.frames.outcomes(verdicts, cases) makes outcomes."
        )
    if problems:
        raise FrameError(problem_list(f"{kind} frame", problems), problems)
    extras = source.columns.difference(list(contract.columns), sort=False)
    if len(extras):
        # a column that only stores its gaps in another way cannot be grouped by
        sparse = [name for name in extras if isinstance(source[name].dtype, pd.SparseDtype)]
        others = {name: plain_values(source[name]) for name in sparse}
        whole = pd.concat([whole, source[extras].assign(**others)], axis=1)
    return whole, codes


def _keeps(frame: pd.DataFrame, given: list[str], contract: Contract, codes: Codes) -> bool:
    """Tell at small cost whether a frame certainly keeps its contract; most frames do."""
    unique = list(contract.unique)
    return (
        not any(frame[name].hasnans for name in given if name in contract.required)
        and not any(_shortest(frame[name]) == 0 for name in _names(contract, given))
        and all(
            _allowed(contract, name, pd.Series(codes.runs(name)[0])).all()
            for name in contract.allowed
            if name in given
        )
        and all(
            _between(pd.Series(codes.runs(name)[0]), *limits)
            for name, limits in contract.ranges.items()
            if name in given
        )
        and (not unique or not set(unique) <= set(frame) or codes.differ(unique))
    )


def _shortest(texts: pd.Series) -> int | None:
    """Return the length of the shortest text; pandas would make an array of all lengths first."""
    shortest: int | None = pc.min(pc.binary_length(pa.array(texts.array))).as_py()
    return shortest


def _between(values: pd.Series, low: float, high: float) -> bool:
    smallest, largest = values.min(), values.max()
    return bool(pd.isna(smallest) or (low <= smallest and largest <= high))


def _allowed(contract: Contract, name: str, values: pd.Series) -> pd.Series:
    """Tell which values a column may hold: its words, or all where it has names of its own."""
    fits = values.isin(contract.allowed[name]) | values.isna()
    if name in contract.own and not fits.all():
        fits |= dimension_family(values.unique()) is not DIMENSIONS
    return fits


def _contract(kind: str) -> Contract:
    require_known("There is no frame of kind", kind, CONTRACTS)
    return CONTRACTS[kind]


def _absent(name: str, frame: pd.DataFrame, contract: Contract) -> list[str]:
    """Say what is wrong where a column is not there: it is required, or spelt in another way."""
    others = [str(c) for c in frame.columns if c not in contract.columns]
    if name in contract.required:
        near = get_close_matches(name, others, n=1)
        hint = f" Is it '{near[0]}'?" if near else ""
        return [f"column '{name}' is missing; required: {', '.join(contract.required)}.{hint}"]
    plain = name.replace("_", "")
    same = [c for c in others if "".join(x for x in c.casefold() if x.isalnum()) == plain]
    return (
        [f"column '{same[0]}' looks like '{name}': rename it, or it is not read."] if same else []
    )


@cache
def _schema(kind: str) -> Any:
    # loaded where a frame breaks its contract, which most do not
    from pandera.pandas import Check, Column, DataFrameSchema

    contract = CONTRACTS[kind]
    columns = {}
    for name in contract.columns:
        checks = []
        if name in contract.allowed:
            checks.append(Check(partial(_allowed, contract, name), name="allowed"))
        if name in contract.ranges:
            checks.append(Check.in_range(*contract.ranges[name]))
        # dtypes were settled by convert, so pandera is left the values
        columns[name] = Column(
            None, checks=checks, nullable=name not in contract.required, required=False
        )
    return DataFrameSchema(columns)


def _names(contract: Contract, given: Iterable[str]) -> list[str]:
    """Return the columns of texts that must be there: an empty one names nothing."""
    return [n for n in given if n in contract.required and contract.columns[n] == "str"]


def _violations(frame: pd.DataFrame, kind: str) -> list[str]:
    contract = CONTRACTS[kind]
    problems: list[str] = []
    for name in _names(contract, frame.columns):
        if n := int(frame[name].eq("").sum()):
            problems.append(f"column '{name}': empty in {plural(n, 'row')}; it is required.")
    from pandera.errors import SchemaErrors

    try:
        _schema(kind).validate(frame, lazy=True)
    except SchemaErrors as errors:
        for (name, rule), rows in errors.failure_cases.groupby(
            ["column", "check"], sort=False, dropna=False
        ):
            problems.append(_sentence(str(name), str(rule), frame, rows, contract))
    return problems + list(_repeated(frame, contract))


def _repeated(frame: pd.DataFrame, contract: Contract) -> Iterator[str]:
    """Rows must differ in their key; those without an id in the columns that stand in for it."""
    if not contract.unique or not set(contract.unique) <= set(frame.columns):
        return
    nameless = frame[contract.unique[0]].isna()
    # rows without an id (a researcher's own outcomes) cannot share one
    ways = [(contract.unique, frame[~nameless], "key ({}): {} rows share a key")]
    if contract.otherwise and set(contract.otherwise) <= set(frame.columns):
        words = f"rows without {contract.unique[0]}: {{1}} are alike in ({{0}})"
        ways.append((contract.otherwise, frame[nameless & frame["repeat"].notna()], words))
    for names, rows, words in ways:
        twice = rows.loc[rows.duplicated(list(names), keep=False), list(names)]
        if len(twice):
            first = twice.iloc[0].dropna().astype(str).to_dict()
            yield f"{words.format(', '.join(names), len(twice))}; the first: {first}."


def _sentence(
    name: str, rule: str, frame: pd.DataFrame, rows: pd.DataFrame, contract: Contract
) -> str:
    if rule.startswith("not_nullable"):
        n = int(frame[name].isna().sum())
        return f"column '{name}': missing in {plural(n, 'row')}; it is required."
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
    each = names.unique() if isinstance(names, pd.Series) else dict.fromkeys(names)
    found = [name for name in each if reference is None or name != reference]
    return [one for one in order if one in found] + [one for one in found if one not in order]
