"""Execute notebooks on a study."""

from __future__ import annotations

import ast
import asyncio
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from skillcomp import errors
from skillcomp.errors import StudyError, extra_imports
from skillcomp.report.chapters import INJECTED, NotebookError, blank_explorers, is_injected

with extra_imports("lab", "a chapter"):
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

CELL_TIMEOUT = 600  # time limit of a cell in seconds; cells on the recorded study take only a few
_KERNEL = "python3"
# kernels work in parallel, so each uses one core
_ENVIRONMENT = {"PYTHONHASHSEED": "0", "COLUMNS": "100", "OPENBLAS_NUM_THREADS": "1"}
_FOR_PAGE = "from skillcomp.table import install\n\ninstall()"


def execute(path: Path, *, parameters: Mapping[str, object] | None = None) -> nbformat.NotebookNode:
    """Run a notebook from top to bottom in a fresh kernel.

    Parameters
    ----------
    path : pathlib.Path
        The notebook; its folder is the working directory of the run.
    parameters : mapping of str to object, optional
        Values that replace those in the cell tagged ``parameters``; a cell inserted after it
        assigns them. If ``LIVE`` is true, cells have no time limit.

    Returns
    -------
    nbformat.NotebookNode
        The executed notebook with its outputs. The file itself is not changed. A SkillcompError
        is an output of its cell. In a cell tagged ``raises-exception``, the run goes on after it,
        as in JupyterLab; the notebook ends with any other cell that raises it.

    Raises
    ------
    NotebookError
        If a cell fails for another reason, takes longer than ten minutes or kills the kernel. The
        message names the notebook, the cell (counted from 1) and the error.
    StudyError
        If there are parameters but no cell is tagged ``parameters``.
    """
    with _started_kernel(path.parent) as client:
        return _executed(client, path, parameters or {}, for_page=False)


@contextmanager
def _started_kernel(folder: Path) -> Iterator[NotebookClient]:
    """Start a kernel in a folder and end it after the block."""
    client = NotebookClient(
        nbformat.v4.new_notebook(),
        kernel_name=_KERNEL,
        resources={"metadata": {"path": str(folder)}},
        record_timing=False,
        force_raise_errors=True,
        # this hides the kernel's warning that its local sockets are not encrypted
        extra_arguments=["--IPKernelApp.log_level=40"],
    )
    with client.setup_kernel(env={**os.environ, **_ENVIRONMENT}):
        yield client


def _executed(
    client: NotebookClient, path: Path, parameters: Mapping[str, object], *, for_page: bool
) -> nbformat.NotebookNode:
    """Run a notebook in the kernel of a client, as :func:`execute` does.

    With ``for_page``, DataFrames are shown as tables of the report page (:mod:`skillcomp.table`),
    and cells that show a widget are left out.
    """
    notebook: nbformat.NotebookNode = nbformat.read(path, as_version=4)
    if for_page:
        blank_explorers(notebook)
    if parameters or for_page:
        _insert_parameters(notebook, parameters, for_page=for_page)
    client.nb, client.timeout = notebook, None if parameters.get("LIVE") else CELL_TIMEOUT
    client.reset_execution_trackers()
    code = [i for i, cell in enumerate(notebook.cells) if cell.cell_type == "code"]
    for number, index in enumerate(code, start=1):
        cell = notebook.cells[index]
        try:
            client.execute_cell(cell, index, execution_count=number)
        except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
            if getattr(error, "ename", "") in errors.__all__:
                if "raises-exception" in cell.metadata.get("tags", []):
                    continue
                notebook.cells = notebook.cells[: index + 1]
                break
            place = index + 1 - sum(map(is_injected, notebook.cells[:index]))
            notebook.cells = notebook.cells[: index + 1]
            cell.outputs = []
            why = str(error).partition("\n")[0]
            if isinstance(error, CellExecutionError):
                why = f"{error.ename}: {error.evalue}"
            message = f"report: {path.name}, cell {place}: {why}"
            raise NotebookError(message, notebook) from error
    notebook.metadata.pop("widgets", None)
    return notebook


def execute_chapters(
    todo: SimpleQueue[tuple[Path, Mapping[str, object]] | None],
    folder: Path,
    *,
    share_kernel: bool,
    done: Callable[[], object],
) -> dict[Path, tuple[Any, str]]:
    """Run the notebooks of a queue for a page, until the queue yields None.

    A kernel starts at once and imports the package while the queue is still empty. With
    `share_kernel`, all notebooks use this kernel, each with an empty namespace at its start; if a
    notebook fails, the next one gets a new kernel. Without `share_kernel`, each notebook has a
    kernel of its own.

    Returns
    -------
    dict of pathlib.Path to tuple
        For each notebook its executed copy, and the error that ended it early or an empty text.
    """
    books = {}
    with _own_event_loop(), ExitStack() as kernel:
        client: Any = kernel.enter_context(_started_kernel(folder))
        client.kc.execute(f"import skillcomp.report.answer\n{_FOR_PAGE}", silent=True)
        for path, parameters in iter(todo.get, None):
            client = client or kernel.enter_context(_started_kernel(path.parent))
            try:
                client.kc.execute("%reset -f", silent=True)
                books[path] = _executed(client, path, parameters, for_page=True), ""
            except NotebookError as error:
                books[path] = error.notebook, str(error)
            done()
            if books[path][1] or not share_kernel:
                kernel.close()
                client = None
    todo.put(None)  # the next thread also ends when it reads None
    return books


@contextmanager
def _own_event_loop() -> Iterator[None]:
    """After the block, close the event loop that the notebook client opened in this thread."""
    try:
        yield
    finally:
        with suppress(RuntimeError):  # the thread has no event loop
            asyncio.get_event_loop().close()


def _insert_parameters(
    notebook: nbformat.NotebookNode, parameters: Mapping[str, object], *, for_page: bool
) -> None:
    """After the cell tagged 'parameters', insert a cell that assigns new values to parameters."""
    for index, cell in enumerate(notebook.cells):
        if "parameters" in cell.metadata.get("tags", []):
            lines = [_FOR_PAGE] if for_page else []
            lines += [f"{name} = {value!r}" for name, value in parameters.items()]
            extra = nbformat.v4.new_code_cell(
                "\n".join(lines), id=INJECTED, metadata={"tags": [INJECTED]}
            )
            notebook.cells.insert(index + 1, extra)
            return
    raise StudyError("report: the notebook has no cell tagged 'parameters'.")


def named_parameters(path: Path) -> dict[str, object]:
    """Return the parameters of a notebook by name; empty if no cell is tagged 'parameters'."""
    for cell in nbformat.read(path, as_version=4).cells:
        if "parameters" in cell.metadata.get("tags", []):
            return {
                node.targets[0].id: ast.literal_eval(node.value)
                for node in ast.parse(cell.source).body
                if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
            }
    return {}
