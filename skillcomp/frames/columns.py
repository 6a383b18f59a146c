"""Columns of large frames, looked at by runs: equal values mostly stand together.

A reader yields the verdicts of an attempt one after the other, so that most columns of a frame
change far less often than it has rows. Comparing each value with the one before is several times
as fast as hashing it; only the first value of each run is hashed. Frames in any other order give
the same answers, more slowly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_LARGEST_CODE = 2**62  # above, products of codes could overflow
_SAMPLE = 2_000  # rows that tell whether a column changes too often for its runs to help
_CELLS_PER_ROW = 8  # a table of counts up to this size is cheaper than hashing


def missing_values(dtype: Any, n: int) -> Any:
    """Return an array of ``n`` missing values.

    Parameters
    ----------
    dtype : str or dtype
        A dtype of the contracts.
    n : int
        Length.

    Returns
    -------
    pandas array or Series
        All missing.
    """
    if dtype == "str":
        # pandas would make n Python objects first
        return pd.array(pa.nulls(n, pa.large_string()), dtype="str")
    if dtype == "boolean":
        return pd.arrays.BooleanArray(np.zeros(n, dtype=bool), np.ones(n, dtype=bool))
    if dtype == "Int64":
        return pd.arrays.IntegerArray(np.zeros(n, dtype=np.int64), np.ones(n, dtype=bool))
    return pd.Series(None, index=range(n), dtype=dtype).array


class Columns:
    """The columns of one frame; each is looked at once, however often it is asked for.

    Parameters
    ----------
    frame : pandas.DataFrame
        Must not be changed as long as this object is asked.
    """

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame
        self._starts: dict[str, Bools] = {}
        self._codes: dict[str, Ints] = {}
        self._groups: dict[tuple[str, ...], tuple[Ints, Ints]] = {}

    def starts(self, name: str) -> Bools:
        """Tell where the runs of a column begin: at least wherever it differs from the row before.

        Parameters
        ----------
        name : str
            The column.

        Returns
        -------
        ndarray of bool
            Missing values that follow one another are the same. True throughout for a large
            column that changes in most of its first rows.
        """
        if name not in self._starts:
            self._starts[name] = _starts(self._frame[name])
        return self._starts[name]

    def heads(self, name: str) -> pd.Series:
        """Return a column without most of its repetitions.

        Parameters
        ----------
        name : str
            The column.

        Returns
        -------
        pandas.Series
            The first value of each run.
        """
        start, values = self.starts(name), self._frame[name]
        return values if start.all() else values.take(np.flatnonzero(start))

    def equals(self, name: str, value: Any) -> Bools:
        """Tell where a column has a value; missing is not equal to anything.

        Parameters
        ----------
        name : str
            The column.
        value : scalar
            The value.

        Returns
        -------
        ndarray of bool
            One per row.
        """
        start = self.starts(name)
        same: Bools = self.heads(name).eq(value).to_numpy(dtype=bool, na_value=False)
        return np.asarray(_spread(same, start), dtype=bool)

    def codes(self, name: str) -> Ints:
        """Return a number for each value of a column, in the order of appearance.

        Parameters
        ----------
        name : str
            The column; missing is a value of its own.

        Returns
        -------
        ndarray of int
            One per row, from 0.
        """
        if name not in self._codes:
            start = self.starts(name)
            heads = self.heads(name)
            small = pd.factorize(heads, use_na_sentinel=False)[0]
            self._codes[name] = small if len(heads) == len(start) else _spread(small, start)
        return self._codes[name]

    def groups(self, names: Sequence[str]) -> tuple[Ints, Ints]:
        """Return a number for each combination of several columns, in the order of appearance.

        Parameters
        ----------
        names : sequence of str
            The columns; missing is a value of its own.

        Returns
        -------
        codes : ndarray of int
            Number of each row's combination, from 0.
        first : ndarray of int
            Row in which each combination appears first.
        """
        varied = tuple(name for name in names if np.count_nonzero(self.starts(name)) > 1)
        if varied not in self._groups:
            self._groups[varied] = self._grouped(varied)
        return self._groups[varied]

    def _grouped(self, names: Sequence[str]) -> tuple[Ints, Ints]:
        n = len(self._frame)
        if not names:
            return np.zeros(n, dtype=np.int64), np.arange(min(n, 1))
        start = np.logical_or.reduce([self.starts(name) for name in names])
        at = np.flatnonzero(start)
        code, size = np.zeros(len(at), dtype=np.int64), 1
        for name in names:
            values = self._frame[name] if len(at) == n else self._frame[name].take(at)
            other, found = pd.factorize(values, use_na_sentinel=False)
            size *= len(found)
            if size > _LARGEST_CODE:
                code, size = pd.factorize(code)[0], len(at) * len(found)
            code = code * len(found) + other
        if len(names) > 1:
            code = pd.factorize(code)[0]
        first = np.empty(int(code.max()) + 1, dtype=np.int64)
        first[code[::-1]] = at[::-1]  # of several writes the last one stays: the first row
        return _spread(code, start), first

    def distinct(self, names: Sequence[str]) -> bool:
        """Tell whether certainly no two rows have the same values in all of some columns.

        Parameters
        ----------
        names : sequence of str
            The columns.

        Returns
        -------
        bool
            False also where rows with missing values may or may not be the same.
        """
        n = len(self._frame)
        names = [name for name in names if np.count_nonzero(self.starts(name)) > 1]
        if len(names) == 1:
            return bool(self._frame[names[0]].is_unique)
        slow = [name for name in names if 2 * np.count_nonzero(self.starts(name)) <= n]
        code, first = self.groups(slow) if slow else (np.zeros(n, dtype=np.int64), np.zeros(1))
        size = len(first)
        for name in names:
            if name in slow:
                continue
            other = self.codes(name)
            count = int(other.max(initial=-1)) + 1
            size *= max(count, 1)
            if size > _LARGEST_CODE:
                return False
            code = code * count + other
        if size <= _CELLS_PER_ROW * n:
            return bool(np.bincount(code, minlength=1).max() <= 1)
        return len(pd.unique(code)) == n

    def within(self, name: str, allowed: Iterable[object]) -> bool:
        """Tell whether a column holds nothing but allowed values and missing ones.

        Parameters
        ----------
        name : str
            The column.
        allowed : iterable
            The allowed values.

        Returns
        -------
        bool
            Whether it does.
        """
        heads = self.heads(name)
        return bool((heads.isin(list(allowed)) | heads.isna()).all())

    def between(self, name: str, low: float, high: float) -> bool:
        """Tell whether the numbers of a column lie in a closed range; missing ones do.

        Parameters
        ----------
        name : str
            The column.
        low, high : float
            The range.

        Returns
        -------
        bool
            Whether they do.
        """
        values = self._frame[name]
        smallest, largest = values.min(), values.max()
        return bool(pd.isna(smallest) or (low <= smallest and largest <= high))

    def pick(self, name: str, rows: Ints) -> Any:
        """Return the values of a column in some rows.

        Parameters
        ----------
        name : str
            The column.
        rows : ndarray of int
            Their numbers.

        Returns
        -------
        pandas array
            One value per row asked for.
        """
        values = self._frame[name]
        if isinstance(values.dtype, pd.StringDtype) and not self.starts(name)[1:].any():
            # one value throughout: repeated, not looked up a hundred thousand times
            found = [None if pd.isna(value) else value for value in values.iloc[:1]]
            if not found or found[0] is None:
                return missing_values("str", len(rows))
            return pd.array(pa.repeat(pa.scalar(found[0], pa.large_string()), len(rows)), "str")
        return values.array.take(rows)


def _spread(values: Any, start: Bools) -> Any:
    """Give every row the value of its run."""
    lengths = np.diff(np.flatnonzero(start), append=len(start))
    return np.repeat(values, lengths)


def _starts(values: pd.Series) -> Bools:
    start = np.ones(len(values), dtype=bool)
    if len(values) < 2:
        return start
    array: Any = values.array
    if isinstance(array.dtype, pd.StringDtype) and hasattr(array, "__arrow_array__"):
        arrow = array.__arrow_array__()
        if isinstance(arrow, pa.ChunkedArray):
            arrow = arrow.chunk(0) if arrow.num_chunks == 1 else arrow.combine_chunks()
        if arrow.null_count == len(arrow):
            start[1:] = False
            return start
        if len(arrow) > 10 * _SAMPLE:
            head = _differ(arrow.slice(1, _SAMPLE), arrow.slice(0, _SAMPLE))
            if 2 * np.count_nonzero(head) > _SAMPLE:
                return start
        start[1:] = _differ(arrow.slice(1), arrow.slice(0, len(arrow) - 1))
    elif values.dtype.kind in "iub":
        missing = values.isna().to_numpy()
        numbers = values.to_numpy(dtype=np.int64, na_value=0)
        start[1:] = (numbers[1:] != numbers[:-1]) | (missing[1:] != missing[:-1])
    return start


def _differ(after: Any, before: Any) -> Bools:
    found = pc.not_equal(after, before)
    if found.null_count:
        one_of_them = pc.xor(pc.is_null(after), pc.is_null(before))
        found = pc.if_else(pc.is_null(found), one_of_them, found)
    # Arrow packs truth values into bits; numpy unpacks them ten times as fast as to_numpy
    bits = np.frombuffer(found.buffers()[1], dtype=np.uint8)
    unpacked = np.unpackbits(bits, count=found.offset + len(found), bitorder="little")
    return unpacked[found.offset :].view(np.bool_)
