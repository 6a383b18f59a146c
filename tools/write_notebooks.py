"""Run the notebooks and save them with their outputs.

Usage: ``python tools/write_notebooks.py``, or ``make notebooks``.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import nbformat
from PIL import Image
from tqdm.auto import tqdm

from skillcomp.report.chapters import find_notebooks
from skillcomp.report.execute_notebooks import execute


def write_notebooks(paths: Sequence[Path] | None = None, *, progress: bool = True) -> None:
    """Run notebooks and save them with their outputs.

    Parameters
    ----------
    paths : sequence of pathlib.Path, optional
        Notebooks to run; by default all, with the tutorial and ``my-study``, in order.
    progress : bool, default True
        Show progress bars.

    Raises
    ------
    StudyError
        If a cell fails. Earlier notebooks are then already saved; the one with the failed cell and
        later ones are not.
    """
    for path in tqdm(paths or find_notebooks(every=True), unit="notebook", disable=not progress):
        nbformat.write(_without_run_details(execute(path)), path)


def _without_run_details(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Drop metadata that differs between two runs of the same notebook; shrink its pictures."""
    keep = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    notebook.metadata = nbformat.from_dict(keep)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        outputs = cell.get("outputs", [])
        for output in outputs:
            data = output.get("data", {})
            data.pop("application/vnd.jupyter.widget-view+json", None)
            if "image/png" in data:
                data["image/png"] = _small_png(data["image/png"])
        outputs[:] = [o for o in outputs if o.get("data", o)]  # drop outputs that were only widgets
    return notebook


def _small_png(data: str) -> str:
    """Return a picture with a palette of 256 colours, which takes less than half of the space."""
    picture, small = Image.open(BytesIO(b64decode(data))), BytesIO()
    picture.convert("RGB").quantize().save(small, "PNG", optimize=True, dpi=picture.info["dpi"])
    return b64encode(small.getvalue()).decode() + "\n"


if __name__ == "__main__":
    write_notebooks()
