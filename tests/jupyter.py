"""A Jupyter server on loopback, for tests that use notebooks like a reader."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import nbformat

TOKEN = "for-this-test-only"
START = 180  # seconds
ROOT = Path(__file__).resolve().parent.parent


def write_notebook(path: Path, cells: Sequence[str]) -> None:
    """Write a notebook of code cells that have not run."""
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    book.metadata["kernelspec"] = kernel
    nbformat.write(book, path)


@contextmanager
def server(folder: Path, home: Path) -> Iterator[str]:
    """Start JupyterLab, Notebook 7 and Voila on a folder in one server and yield its address."""
    places = {name: home / name.lower() for name in ("config", "data", "runtime")}
    for place in places.values():
        place.mkdir(parents=True, exist_ok=True)
    settings = places["config"] / "lab/user-settings/@jupyterlab/apputils-extension"
    settings.mkdir(parents=True)
    quiet = {"fetchNews": "false", "checkForUpdates": False}
    (settings / "notification.jupyterlab-settings").write_text(json.dumps(quiet))
    env = {k: v for k, v in os.environ.items() if not k.startswith(("JUPYTER", "IPYTHON"))}
    env |= {f"JUPYTER_{name.upper()}_DIR": str(place) for name, place in places.items()}
    paths = os.pathsep.join(filter(None, [str(ROOT), env.get("PYTHONPATH")]))
    env |= {"HOME": str(home), "IPYTHONDIR": str(home / "ipython"), "PYTHONPATH": paths}
    command = [
        *(sys.executable, "-m", "jupyterlab", "--LabApp.expose_app_in_browser=True"),
        *("--JupyterNotebookApp.expose_app_in_browser=True", "--no-browser", "--allow-root"),
        *("--ServerApp.ip=127.0.0.1", "--ServerApp.port=0"),
        *(f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={folder}"),
    ]
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=env, cwd=folder)
    try:
        yield _address(process, places["runtime"], home / "log")
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _address(process: subprocess.Popen[bytes], runtime: Path, log: Path) -> str:
    end = time.monotonic() + START
    while time.monotonic() < end:
        for file in runtime.glob("jpserver-*.json"):
            try:
                address = json.loads(file.read_text("utf-8"))
            except json.JSONDecodeError:
                continue  # it is being written
            if address.get("port"):
                return f"http://127.0.0.1:{address['port']}"
        assert process.poll() is None, log.read_text(errors="replace")[-3000:]
        time.sleep(0.1)
    raise AssertionError(
        f"Jupyter did not start in time: {log.read_text(errors='replace')[-3000:]}"
    )
