"""Frames to files and back: parquet keeps the dtypes, csv is for people and other tools."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path

import pandas as pd

from skillcomp.errors import FrameError
from skillcomp.frames.contract import CONTRACTS, check

__all__ = ["read", "write"]


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
        If a name cannot be a file name, a format is unknown or a frame breaks its contract.

    Notes
    -----
    In csv a text that begins with ``=``, ``+``, ``-`` or ``@`` is written as it is: open files
    with model output in a spreadsheet as text.
    """
    strange = sorted(set(formats) - {"parquet", "csv"})
    if strange:
        raise FrameError(f"formats: found {', '.join(strange)}; allowed: parquet, csv.")
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for name, frame in frames.items():
        if not name or not all(letter.isalnum() or letter in "-_" for letter in name):
            raise FrameError(f"frame name {name!r}: letters, digits, '-' and '_' only.")
        kept = _checked(frame, name) if name in CONTRACTS else frame
        if "parquet" in formats:
            written.append(target / f"{name}.parquet")
            kept.to_parquet(written[-1], index=False)
        if "csv" in formats:
            written.append(target / f"{name}.csv")
            kept.to_csv(written[-1], index=False, lineterminator="\n")
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
        If the frame breaks its contract.
    """
    source = Path(path)
    frame = pd.read_parquet(source)
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
