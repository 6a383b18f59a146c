"""Frames to files and back: parquet keeps the dtypes, csv is for people and other tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike
from os.path import isfile
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from skillcomp.errors import FrameError, StoreError
from skillcomp.frames.check import check
from skillcomp.frames.contracts import CONTRACTS
from skillcomp.io.files import as_path, replace_file

__all__ = ["read", "write"]

_WAYS: Mapping[str, Callable[[pd.DataFrame], bytes]] = {
    "parquet": lambda frame: frame.to_parquet(index=False),
    "csv": lambda frame: frame.to_csv(index=False, lineterminator="\n").encode(),
}


def write(
    frames: Mapping[str, pd.DataFrame],
    folder: str | PathLike[str],
    *,
    formats: tuple[str, ...] = ("parquet", "csv"),
) -> list[Path]:
    """Write frames as parquet and csv, one file a frame and format.

    Parameters
    ----------
    frames : mapping of str to pandas.DataFrame
        Name to frame; the name becomes the file's stem, so it may hold letters, digits, ``-``
        and ``_`` only. Names of contract kinds (``"verdicts"`` ...) are checked first.
    folder : str or path
        Where the files go; made when it is not there.
    formats : tuple of {"parquet", "csv"}
        Which files to write.

    Returns
    -------
    list of pathlib.Path
        The files, in order. Missing values are empty fields in csv, nulls in parquet.

    Raises
    ------
    FrameError
        If a name cannot be a file name, a format is unknown, a frame breaks its contract or its
        cells cannot be written.
    StoreError
        If the disk refuses a file; the one that stood there is as it was.

    Notes
    -----
    In csv a text that begins with ``=``, ``+``, ``-`` or ``@`` is written as it is: open files
    with model output in a spreadsheet as text.
    """
    given: Any = frames
    if not isinstance(given, Mapping):
        found = type(given).__name__
        raise FrameError(f"export: expected a mapping of names to DataFrames, found {found}.")
    if strange := [str(one) for one in formats if one not in _WAYS]:
        raise FrameError(f"formats: found {', '.join(strange)}; allowed: parquet, csv.")
    target = as_path(folder, "export", FrameError)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as cause:
        raise StoreError(f"{target}: no folder can be made here ({cause}).") from cause
    written: list[Path] = []
    for name, frame in given.items():
        if not name or not all(letter.isalnum() or letter in "-_" for letter in str(name)):
            raise FrameError(f"frame name {name!r}: letters, digits, '-' and '_' only.")
        if not isinstance(frame, pd.DataFrame):
            found = type(frame).__name__
            raise FrameError(f"export: '{name}': expected a pandas DataFrame, found {found}.")
        kept = _checked(frame, name) if name in CONTRACTS else frame
        for form in (one for one in _WAYS if one in formats):
            path = target / f"{name}.{form}"
            try:
                data = _WAYS[form](kept)
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as cause:
                raise FrameError(f"{path}: cannot be written as {form} ({cause}).") from cause
            replace_file(path, data)
            written.append(path)
    return written


def read(path: str | PathLike[str], *, kind: str | None = None) -> pd.DataFrame:
    """Read a parquet file written by :func:`write` back as an equal frame.

    Parameters
    ----------
    path : str or path
        The parquet file.
    kind : str, optional
        Contract to hold it against; by default the file's stem where that names one.

    Returns
    -------
    pandas.DataFrame
        Equal to the frame that was written, dtypes included.

    Raises
    ------
    FrameError
        If the file cannot be read as parquet, or the frame breaks its contract.
    """
    source = as_path(path, "export", FrameError)
    if not isfile(source):
        raise FrameError(f"{source}: there is no parquet file here.")
    try:
        with source.open("rb") as file:
            frame = pd.read_parquet(file)
    except (pa.ArrowException, OSError) as cause:
        raise FrameError(f"{source}: cannot be read as parquet ({cause}).") from cause
    wanted = kind if kind is not None else source.stem
    return _checked(frame, wanted) if kind is not None or wanted in CONTRACTS else frame


def _checked(frame: pd.DataFrame, kind: str) -> pd.DataFrame:
    checked = check(frame, kind)
    if kind != "estimates":
        return checked
    # an estimates frame begins with its `by` columns, which the contract cannot name
    order = dict.fromkeys([*frame.columns, *checked.columns])
    return checked[list(order)]


def __dir__() -> list[str]:
    return __all__
