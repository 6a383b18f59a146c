"""Sections of a chapter: show sentences and tables, or one sentence on what the study lacks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from os import PathLike

import matplotlib.pyplot as plt
import pandas as pd

from skillcomp.errors import SkillcompError, StudyError, extra_imports
from skillcomp.report.chapters import NOT_SHOWN
from skillcomp.table import Table

with extra_imports("lab", "a section of a notebook"):
    from IPython.display import Markdown, display

_TABLE_FILES: ContextVar[Iterator[str] | None] = ContextVar("table_files", default=None)


@contextmanager
def section(tables: str | PathLike[str] | None = None) -> Iterator[None]:
    """Run an analysis; if the study lacks the data for it, show one sentence instead.

    A ``SkillcompError`` ends the block, and its message is shown, with the remedy. Other errors are
    raised.

    Parameters
    ----------
    tables : str or path, optional
        Folder and stem of files, such as ``report/05-rules``. A table of more than 30 rows that
        the block shows is cut, with a link to all rows in ``report/05-rules-table-1.csv``.

    Yields
    ------
    None
        The block is the analysis with its tables and figures.

    Examples
    --------
    >>> with section():  # doctest: +SKIP
    ...     drift = sc.reliability.drift(verdicts, gold, reference_grader="old")
    """
    files = None if tables is None else (f"{tables}-table-{at}.csv" for at in count(1))
    outer = _TABLE_FILES.set(files)
    try:
        yield
    except SkillcompError as error:
        plt.close("all")
        _show_text(NOT_SHOWN + str(error))
    finally:
        _TABLE_FILES.reset(outer)


def show(*parts: object) -> None:
    """Show sentences as paragraphs and everything else as a notebook does.

    Parameters
    ----------
    *parts : str, pandas.DataFrame with a column ``sentence``, or any object
        A text, the sentences of :func:`skillcomp.report.findings`, or an object such as a
        :class:`skillcomp.table.Table`. Texts are escaped, because names in them may come from
        outside.
    """
    for part in parts:
        if isinstance(part, str):
            _show_text(part)
        elif isinstance(part, pd.DataFrame) and "sentence" in part:
            for sentence in part["sentence"]:
                _show_text(str(sentence))
        else:
            files = _TABLE_FILES.get()
            linked = part.linked(next(files)) if files and isinstance(part, Table) else part
            display(linked)  # type: ignore[no-untyped-call]


def section_rows(frame: pd.DataFrame, message: str) -> pd.DataFrame:
    """Return a frame if it has rows; else raise, so that the section shows one sentence instead.

    Parameters
    ----------
    frame : pandas.DataFrame
        The rows that an analysis needs.
    message : str
        What the study lacks, and the remedy.

    Returns
    -------
    pandas.DataFrame
        The frame, unchanged.

    Raises
    ------
    StudyError
        If the frame has no rows; `message` is the text of the error.
    """
    if frame.empty:
        raise StudyError(message)
    return frame


def _show_text(text: str) -> None:
    """Show a text on one line, with the characters escaped that are markup in Markdown or HTML."""
    escaped = re.sub(r"([\\`*_{}\[\]<>#|!$])", r"\\\1", " ".join(text.split()))
    display(Markdown(escaped))  # type: ignore[no-untyped-call]
