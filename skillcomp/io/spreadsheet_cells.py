"""Escape the cells of csv files, so that no spreadsheet reads them as formulas."""

from __future__ import annotations

import re
from typing import Any

import pandas as pd

# Matches cells that a spreadsheet reads as a formula (OWASP, CSV injection). The last four
# characters are full-width forms. Leading apostrophes are matched, too, so that the escape can be
# undone.
_ESCAPED = re.compile(r"'*\s*[=+\-@|＝＋－＠]|'*[\t\n]")
_CONTROL = {code: None for code in range(32) if code not in (9, 10, 13)} | {127: None}


def as_cell(value: Any) -> str:
    """Convert a value to the text of a cell that no spreadsheet reads as a formula."""
    if not isinstance(value, str):
        return "" if pd.isna(value) else str(value)
    return str(_without_formula(value.translate(_CONTROL)))


def from_cell(text: str) -> str:
    """Remove the apostrophe that :func:`as_cell` added."""
    return text[1:] if text.startswith("'") and _ESCAPED.match(text[1:]) else text


def as_csv(frame: pd.DataFrame, *, index: bool = False) -> bytes:
    """Return a frame as csv; texts that a spreadsheet would read as a formula get an apostrophe."""
    safe = frame.rename(columns=_without_formula, index=_without_formula if index else None)
    for place, dtype in enumerate(frame.dtypes):
        if not pd.api.types.is_numeric_dtype(dtype):
            safe.isetitem(place, frame.iloc[:, place].map(_without_formula).array)
    return safe.to_csv(index=index, lineterminator="\n").encode()


def _without_formula(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    # replace carriage returns: the csv module does not quote them, so they would begin a new row
    text = value.replace("\r\n", "\n").replace("\r", "\n")
    # A spreadsheet may drop leading spaces before it looks for a formula, so match them, too.
    return f"'{text}" if _ESCAPED.match(text) else text
