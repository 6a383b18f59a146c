"""Notebooks: find them, and read their titles."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from skillcomp.errors import StudyError
from skillcomp.io.files import shipped

if TYPE_CHECKING:
    import nbformat

INJECTED = "injected-parameters"
_OWN_DATA = ("00-", "11-")  # The tutorial and the published studies use their own data.
NOT_SHOWN = "Not shown: "  # The sentence that replaces an analysis without data starts with this.
_EXPLORER = "sc.explore."


class NotebookError(StudyError):
    """A cell of a notebook failed.

    Attributes
    ----------
    notebook : nbformat.NotebookNode
        The notebook up to the failed cell. The outputs of the failed cell are removed.
    """

    def __init__(self, message: str, notebook: nbformat.NotebookNode) -> None:
        super().__init__(message)
        self.notebook = notebook


def find_notebooks(folder: Path | None = None, *, every: bool = False) -> list[Path]:
    """Return the notebooks that are the chapters of the page, in order.

    Parameters
    ----------
    folder : pathlib.Path, optional
        Folder of the notebooks; by default the one in the checkout or the installed package.
    every : bool, default False
        Include the notebooks that are not chapters: the tutorial ``00-...``, the published studies
        ``11-...`` and ``my-study.ipynb``.

    Returns
    -------
    list of pathlib.Path
        Notebooks with names that start with two digits and a hyphen, sorted by name; with `every`,
        ``my-study.ipynb`` is the last one.

    Raises
    ------
    StudyError
        If there are no notebooks.
    """
    where = folder or shipped("notebooks")
    paths = sorted(where.glob("[0-9][0-9]-*.ipynb"))
    if not paths:
        raise StudyError(
            f"report: there are no notebooks in {where}. They come with skillcomp's wheel and with "
            "its source checkout."
        )
    if every:
        return [*paths, *where.glob("my-study.ipynb")]
    return [path for path in paths if not path.name.startswith(_OWN_DATA)]


def is_injected(cell: nbformat.NotebookNode) -> bool:
    """Return whether `execute` inserted the cell."""
    return INJECTED in cell.metadata.get("tags", [])


def title(notebook: nbformat.NotebookNode, path: Path) -> str:
    """Return the first top-level heading of a notebook; without one, the stem of its file."""
    for cell in notebook.cells:
        if cell.cell_type == "markdown" and (match := re.match(r"#\s+(.+)", cell.source)):
            return str(match.group(1)).strip()
    return path.stem


def blank_explorers(notebook: nbformat.NotebookNode) -> None:
    """Clear the cells that show a widget, and the text before them: a page has no widgets."""
    for before, cell in pairwise(notebook.cells):
        if cell.cell_type == "code" and _EXPLORER in cell.source:
            cell.source, cell.outputs = "", []
            if before.cell_type == "markdown":
                before.source = re.split(r"(?m)^## .*(?!(?:.|\n)*^## )", before.source)[0]
