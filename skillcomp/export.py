"""Write frames as parquet, which keeps dtypes, and as csv, which people and other tools read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path

import pandas as pd
import pyarrow as pa

from skillcomp.errors import FrameError, problem_list, require_type
from skillcomp.frames.check import check
from skillcomp.frames.contracts import CONTRACTS
from skillcomp.io.files import as_path, replace_file, whole_text
from skillcomp.io.redaction import redact, redacted_content
from skillcomp.io.spreadsheet_cells import as_csv
from skillcomp.io.store import make_folder
from skillcomp.removed_names import raise_missing_name

__all__ = ["write"]

_WAYS: Mapping[str, Callable[[pd.DataFrame], bytes]] = {
    "parquet": lambda frame: frame.to_parquet(index=False),
    "csv": as_csv,
}


def write(frames: Mapping[str, pd.DataFrame], folder: str | PathLike[str]) -> list[Path]:
    """Write frames as parquet and csv, one file per frame and format.

    Parameters
    ----------
    frames : mapping of str to pandas.DataFrame
        Frames by name. The name becomes the file name, so it may contain only letters, digits,
        ``-`` and ``_``. If the name is that of a contract, such as ``"verdicts"``, the frame is
        checked against it.
    folder : str or path
        Folder for the files; it is created if missing.

    Returns
    -------
    list of pathlib.Path
        The files written, frame by frame. Missing values are empty fields in csv and nulls in
        parquet.

    Raises
    ------
    FrameError
        If a name cannot be a file name; then no file is written. If a frame breaks its contract or
        a cell cannot be written, all other files are written first, and the message names what is
        missing.
    StoreError
        If a file cannot be written; an existing file then stays unchanged.

    Notes
    -----
    In csv, a text that a spreadsheet would read as a formula gets a leading apostrophe, and a
    carriage return becomes a line feed. Parquet keeps every text unchanged.
    """
    require_type("export", frames, Mapping, "of names to frames", FrameError)
    target = as_path(folder, "export", FrameError)
    for name, frame in frames.items():
        if not name or not all(letter.isalnum() or letter in "-_" for letter in str(name)):
            raise FrameError(f"frame name {name!r}: letters, digits, '-' and '_' only.")
        require_type(f"export: '{name}'", frame, pd.DataFrame, "of pandas", FrameError)
    make_folder(target)
    written = []
    problems = []
    for name, frame in frames.items():
        try:
            checked = check(frame, name) if name in CONTRACTS else frame
            if name == "estimates":
                # restore the order of the columns, because the check moves them
                checked = checked[list(dict.fromkeys([*frame.columns, *checked.columns]))]
            checked = _redacted_frame(checked)
        except FrameError as cause:
            problems.append(str(cause))
            continue
        for form, convert in _WAYS.items():
            path = target / f"{name}.{form}"
            try:
                data = convert(checked)
            except (pa.ArrowException, TypeError, ValueError, OverflowError) as cause:
                place = _unwritable_cell(checked)
                problems.append(f"{path}: cannot be written as {form} ({place or cause}).")
                continue
            replace_file(path, data)
            written.append(path)
    if problems:
        raise FrameError(problem_list(f"export: {len(written)} files written", problems), problems)
    return written


def _redacted_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame without secrets; in parquet they could not be replaced after encoding."""
    redacted = frame.copy()
    redacted.columns = pd.Index(redacted_content(list(frame.columns)), name=frame.columns.name)
    redacted.attrs = redacted_content(frame.attrs)
    for place, dtype in enumerate(frame.dtypes):
        if pd.api.types.is_numeric_dtype(dtype):
            continue
        values = frame.iloc[:, place]
        if isinstance(dtype, pd.CategoricalDtype):
            # categories that no row has are written, too
            words = redacted_content(list(dtype.categories))
            if words != list(dtype.categories):
                values = values.astype(object).map(redacted_content)
                redacted.isetitem(
                    place, pd.Categorical(values, list(dict.fromkeys(words)), dtype.ordered)
                )
            continue
        # one call for the whole column is fast; most columns have no secret
        whole = "\n".join(map(str, values))
        if redact(whole) != whole:
            redacted.isetitem(place, values.map(redacted_content).astype(dtype).array)
    return redacted


def _unwritable_cell(frame: pd.DataFrame) -> str:
    """Return the column and attempt (or row) of the first text that UTF-8 cannot encode, or ""."""
    for column in frame.columns:
        for place, value in enumerate(frame[column].astype(object)):
            if isinstance(value, str) and whole_text(value) != value:
                row = f"attempt {frame['attempt_id'].iloc[place]}" if "attempt_id" in frame else ""
                return f"{column}, {row or f'row {place}'}: half of a surrogate pair"
    return ""


__dir__ = __all__.copy  # so that dir() lists the public names
__getattr__ = raise_missing_name(__name__)
