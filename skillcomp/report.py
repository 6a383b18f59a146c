"""The report: executes the notebooks on a recorded study and builds one HTML page from them."""

from __future__ import annotations

import argparse
import ast
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bleach
import nbformat
from jinja2 import Environment, PackageLoader, select_autoescape
from markupsafe import Markup
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbconvert import HTMLExporter
from tqdm.auto import tqdm

import skillcomp
from skillcomp.errors import StudyError, suggest
from skillcomp.io.store import RunStore

__all__ = ["Chapter", "StoppedError", "build", "execute", "find_notebooks", "write_notebooks"]

CELL_TIMEOUT = 600  # seconds; the slowest cell of the recorded study takes a few
_KERNEL = "python3"
_OWN_PARAMETERS = {"DATA", "OUT", "PILOT"}  # what build says itself
_FIGURE_FILES = (".pdf", ".png", ".csv", ".json")
# what rendered Markdown and pandas tables are made of; everything else is escaped
_TAGS = {
    *("a", "abbr", "b", "blockquote", "br", "caption", "code", "dd", "div", "dl", "dt", "em"),
    *("h1", "h2", "h3", "h4", "h5", "h6", "hr", "i", "li", "ol", "p", "pre", "span", "strong"),
    *("sub", "sup", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "ul"),
}
_ATTRIBUTES = {
    "*": ["class", "id"],
    "a": ["href", "title"],
    "td": ["colspan", "rowspan"],
    "th": ["colspan", "rowspan", "scope"],
}


@dataclass(frozen=True)
class Chapter:
    """One executed notebook as it stands in the report.

    Attributes
    ----------
    stem, title : str
        File stem of the notebook and its first heading.
    body : markupsafe.Markup
        Sanitised HTML of the cells.
    files : tuple of str
        Figure and data files that the notebook saved, by name.
    stopped : str
        Why the notebook ended before its last cell; empty when it did not.
    elsewhere : str
        The study that its numbers are of, where its text was written about another one; empty
        where it was not.
    """

    stem: str
    title: str
    body: Markup
    files: tuple[str, ...]
    stopped: str = ""
    elsewhere: str = ""


class StoppedError(StudyError):
    """A cell of a notebook failed.

    Attributes
    ----------
    notebook : nbformat.NotebookNode
        What was executed before it, with its outputs; the failed cell stands last, without any.
    """

    def __init__(self, message: str, notebook: nbformat.NotebookNode) -> None:
        super().__init__(message)
        self.notebook = notebook


def find_notebooks(folder: Path | None = None) -> list[Path]:
    """Return the notebooks of the report in order.

    Parameters
    ----------
    folder : pathlib.Path, optional
        Where they are; by default ``notebooks`` beside the package, as in a checkout.

    Returns
    -------
    list of pathlib.Path
        Those whose names begin with two digits and a hyphen, sorted by name.

    Raises
    ------
    StudyError
        If there are none: the notebooks are part of the source checkout, not of the package.
    """
    where = folder or Path(skillcomp.__file__).resolve().parent.parent / "notebooks"
    found = sorted(where.glob("[0-9][0-9]-*.ipynb"))
    if not found:
        raise StudyError(
            "report: the notebooks are not here. They are part of skillcomp's source checkout, "
            "not of the installed package: clone the repository and run `make report` in it."
        )
    return found


def execute(
    path: Path, *, parameters: Mapping[str, object] | None = None, progress: bool = True
) -> nbformat.NotebookNode:
    """Run a notebook from top to bottom in a fresh kernel and return it with its outputs.

    Parameters
    ----------
    path : pathlib.Path
        The notebook; it runs in its own folder.
    parameters : mapping of str to object, optional
        Values that replace those of the cell tagged ``parameters``, by assignment after it. With
        ``LIVE`` true a cell may take as long as the models do.
    progress : bool, default True
        Show a bar over the cells.

    Returns
    -------
    nbformat.NotebookNode
        The executed notebook. The file is not changed.

    Raises
    ------
    StoppedError
        If a cell fails, takes longer than ten minutes or ends its kernel: names the notebook, the
        cell (counted from 1) and the error.
    StudyError
        If there are parameters to give and no cell is tagged for them.
    """
    notebook: nbformat.NotebookNode = nbformat.read(path, as_version=4)
    if parameters:
        _inject(notebook, parameters)
    live = bool((parameters or {}).get("LIVE"))
    client = NotebookClient(
        notebook,
        timeout=None if live else CELL_TIMEOUT,
        kernel_name=_KERNEL,
        resources={"metadata": {"path": str(path.parent)}},
        record_timing=False,
        # the kernel's notice that loopback sockets carry plain text is no news in a batch run
        extra_arguments=["--IPKernelApp.log_level=40"],
    )
    code = [i for i, cell in enumerate(notebook.cells) if cell.cell_type == "code"]
    try:
        with (
            client.setup_kernel(env={**os.environ, "PYTHONHASHSEED": "0", "COLUMNS": "100"}),
            tqdm(code, desc=path.stem, unit="cell", leave=False, disable=not progress) as bar,
        ):
            for number, index in enumerate(bar, start=1):
                client.execute_cell(notebook.cells[index], index, execution_count=number)
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        place = index + 1 - sum(_injected(cell) for cell in notebook.cells[:index])
        notebook.cells = notebook.cells[: index + 1]
        notebook.cells[-1].outputs = []
        message = f"report: {path.name}, cell {place}: {_reason(error)}"
        raise StoppedError(message, notebook) from error
    notebook.metadata.pop("widgets", None)
    return notebook


def _inject(notebook: nbformat.NotebookNode, parameters: Mapping[str, object]) -> None:
    for index, cell in enumerate(notebook.cells):
        if "parameters" in cell.metadata.get("tags", []):
            source = "\n".join(f"{name} = {value!r}" for name, value in parameters.items())
            extra = nbformat.v4.new_code_cell(source, metadata={"tags": ["injected-parameters"]})
            extra.pop("id", None)
            extra["id"] = "injected-parameters"
            notebook.cells.insert(index + 1, extra)
            return
    raise StudyError("report: the notebook has no cell tagged 'parameters'.")


def _reason(error: Exception) -> str:
    if isinstance(error, CellExecutionError):
        return f"{error.ename}: {error.evalue}"
    return str(error).partition("\n")[0]


def _injected(cell: nbformat.NotebookNode) -> bool:
    return "injected-parameters" in cell.metadata.get("tags", [])


def build(
    data: Path,
    out: Path,
    *,
    notebooks: Sequence[Path] | None = None,
    parameters: Mapping[str, object] | None = None,
    progress: bool = True,
) -> Path:
    """Execute the notebooks on a recorded study and write ``index.html`` with the figures.

    Parameters
    ----------
    data : pathlib.Path
        Folder of the RunStore.
    out : pathlib.Path
        Folder of the report; made when it is not there.
    notebooks : sequence of pathlib.Path, optional
        By default all notebooks of the checkout, in order.
    parameters : mapping of str to object, optional
        Other values for what the notebooks name in their cell of parameters, such as
        ``{"GRADER": "forced:claude-opus-5-5"}``; each goes to the notebooks that have it. A
        ``STORE`` is relative to the working directory, as `data` and `out` are.
    progress : bool, default True
        Show progress bars.

    Returns
    -------
    pathlib.Path
        The page. Beside it stand pdf, png, csv and json of every figure. A chapter whose text was
        written about another study says so: its numbers and figures are of this one.

    Raises
    ------
    StudyError
        If the data are not a study, the notebooks are not there or no notebook has a parameter. If
        a cell fails, the page is written all the same, with what came before that cell and the
        chapters that did not fail; then the error names every cell that did.
    """
    paths = list(notebooks) if notebooks is not None else find_notebooks()
    if not (data / "manifest.json").is_file():
        raise StudyError(f"report: {data} is not a recorded study: it has no manifest.json.")
    named = {path: _named(path) for path in paths}
    wanted = dict(parameters or {})
    _require_named(wanted, named.values())
    out.mkdir(parents=True, exist_ok=True)
    wanted |= {"DATA": str(data.resolve()), "OUT": str(out.resolve())}
    if "STORE" in wanted:
        wanted["STORE"] = str(Path(str(wanted["STORE"])).resolve())
    study = RunStore(data).fingerprint
    chapters: list[Chapter] = []
    for path in tqdm(paths, desc="report", unit="notebook", disable=not progress):
        own = {name: value for name, value in wanted.items() if name in named[path]}
        stopped = ""
        try:
            notebook = execute(path, parameters=own, progress=progress)
        except StoppedError as error:
            notebook, stopped = error.notebook, str(error)
        own = {**named[path], **own}
        elsewhere = data.name if own.get("PILOT", study) != study else ""
        if own.get("LIVE"):
            elsewhere = Path(str(own.get("STORE", "a live study"))).name
        chapters.append(_chapter(path, notebook, out, stopped, elsewhere))
    page = out / "index.html"
    page.write_text(_render(chapters, data), encoding="utf-8")
    told = [one.stopped for one in chapters if one.stopped]
    if told:
        raise StudyError(
            f"{page} was built, but {len(told)} of {len(chapters)} chapters ended early. "
            + " ".join(told)
        )
    return page


def _named(path: Path) -> dict[str, object]:
    """Return the parameters of a notebook by name; empty when it has no cell of them."""
    for cell in nbformat.read(path, as_version=4).cells:
        if "parameters" in cell.metadata.get("tags", []):
            return {
                node.targets[0].id: ast.literal_eval(node.value)
                for node in ast.parse(cell.source).body
                if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
            }
    return {}


def _require_named(wanted: Mapping[str, object], named: Iterable[Mapping[str, object]]) -> None:
    known = sorted({name for own in named for name in own} - _OWN_PARAMETERS)
    for name in wanted:
        if name not in known:
            raise StudyError(
                f"report: no notebook has a parameter '{name}'; there: "
                f"{', '.join(known) or 'none'}." + suggest(name, known)
            )


def _chapter(
    path: Path, notebook: nbformat.NotebookNode, out: Path, stopped: str, elsewhere: str
) -> Chapter:
    exporter = HTMLExporter(template_name="basic", sanitize_html=True, exclude_anchor_links=True)
    exporter.exclude_input_prompt = exporter.exclude_output_prompt = True
    exporter.register_filter("clean_html", _clean)
    cells = [cell for cell in notebook.cells if not _injected(cell)]
    shown = nbformat.from_dict({**notebook, "cells": cells})
    body, _ = exporter.from_notebook_node(shown)
    number = path.stem.split("-")[0]
    files = sorted(f.name for f in out.glob(f"{number}-*") if f.suffix in _FIGURE_FILES)
    return Chapter(
        stem=path.stem,
        title=_title(notebook, path),
        body=Markup(_prefixed(body, path.stem)),
        files=tuple(files),
        stopped=stopped,
        elsewhere=elsewhere,
    )


def _clean(html: str | bytes) -> str:
    """Keep harmless markup; pandas' own style element is dropped, anything else is escaped."""
    text = html.decode() if isinstance(html, bytes) else str(html)
    text = re.sub(r"<style\b.*?</style>", "", text, flags=re.DOTALL)
    return str(bleach.clean(text, tags=_TAGS, attributes=_ATTRIBUTES))


def _title(notebook: nbformat.NotebookNode, path: Path) -> str:
    for cell in notebook.cells:
        if cell.cell_type == "markdown" and (match := re.match(r"#\s+(.+)", cell.source)):
            return str(match.group(1)).strip()
    return path.stem


def _prefixed(body: str, stem: str) -> str:
    """Make heading anchors unique over chapters and figures readable without sight."""
    body = re.sub(r'id="([^"]+)"', lambda m: f'id="{stem}--{m.group(1)}"', body)
    return body.replace('alt="No description has been provided for this image"', 'alt="figure"')


def _render(chapters: Sequence[Chapter], data: Path) -> str:
    environment = Environment(
        loader=PackageLoader("skillcomp"),
        autoescape=select_autoescape(),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    template = environment.get_template("report.html")
    return str(template.render(chapters=chapters, study=data.name, version=skillcomp.__version__))


def write_notebooks(paths: Sequence[Path] | None = None, *, progress: bool = True) -> None:
    """Run notebooks and write their outputs into the files themselves (``make notebooks``).

    Parameters
    ----------
    paths : sequence of pathlib.Path, optional
        By default all notebooks of the checkout, in order.
    progress : bool, default True
        Show progress bars.

    Raises
    ------
    StudyError
        If a cell fails; the notebooks before it are written, it and those after it are not.
    """
    for path in tqdm(paths or find_notebooks(), unit="notebook", disable=not progress):
        nbformat.write(_settled(execute(path, progress=progress)), path)


def _settled(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Drop what differs between two runs of the same notebook."""
    keep = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": _KERNEL},
        "language_info": {"name": "python"},
    }
    notebook.metadata = nbformat.from_dict(keep)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        for output in cell.get("outputs", []):
            if output.get("name") == "stderr":
                continue
            data: dict[str, Any] = output.get("data", {})
            data.pop("application/vnd.jupyter.widget-view+json", None)
    return notebook


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Execute the notebooks in place.")
    parser.add_argument("--write-notebooks", action="store_true", required=True)
    parser.add_argument("paths", nargs="*", type=Path)
    arguments = parser.parse_args()
    write_notebooks(arguments.paths or None)
