"""The report: the answer of a study on one page, and the notebooks executed below it."""

from skillcomp.report.answering import Answer, answer
from skillcomp.report.findings import findings
from skillcomp.report.notebooks import NotebookError, execute, find_notebooks, write_notebooks
from skillcomp.report.page import build
from skillcomp.report.tables import Table, table

__all__ = [
    "Answer",
    "NotebookError",
    "Table",
    "answer",
    "build",
    "execute",
    "find_notebooks",
    "findings",
    "table",
    "write_notebooks",
]


def __dir__() -> list[str]:
    return list(__all__)
