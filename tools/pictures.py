"""Make the pictures of the README: the headline figure and the first screen of the answer page.

Usage: ``python tools/pictures.py`` in a checkout, with a Chromium on the machine. The pictures of
the explorers are made by their browser test.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image

from skillcomp import datasets, report

OUT = Path(__file__).resolve().parent.parent / "docs" / "pictures"
SCREEN = (1280, 900)  # pixels
WIDEST = 1000  # pixels; wider than README's column on a hosting site


def keep(source: Path, name: str) -> None:
    """Save a picture at README's width and with 256 colours, which a chart or a page has."""
    picture = Image.open(source).convert("RGB")
    if picture.width > WIDEST:
        size = (WIDEST, round(picture.height * WIDEST / picture.width))
        picture = picture.resize(size, Image.Resampling.LANCZOS)
    picture.quantize(256).save(OUT / name, optimize=True)


def main() -> None:
    """Build the answer page of the pilot and picture it."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        raise SystemExit("no Chromium here.")
    OUT.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder:
        page = report.build(datasets.path("pilot"), Path(folder), notebooks=[], progress=False)
        keep(page.parent / "00-answer.png", "headline.png")
        shot = Path(folder) / "page.png"
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        command += [f"--screenshot={shot}", "--window-size={},{}".format(*SCREEN), page.as_uri()]
        subprocess.run(command, check=True, capture_output=True)
        keep(shot, "page.png")


if __name__ == "__main__":
    main()
