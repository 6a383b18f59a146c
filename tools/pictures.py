"""Make the pictures of the README and its pages: answer page, cases, headline, explorers.

Usage: ``python tools/pictures.py`` in a checkout, after ``make test`` (which installs JupyterLab
for browser tests); needs Chromium.
"""

# ruff: noqa: E402 - helpers of the tests are not a package
from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from browser import Browser, chromium
from jupyter import TOKEN, server, write_notebook
from test_explore_jupyter import READY

from skillcomp import datasets, report

OUT = ROOT / "docs" / "pictures"
SCREEN = {"width": 1280, "height": 900}  # pixels
LAB = {"width": 1180, "height": 900}
CELLS = [
    """\
import skillcomp as sc
sc.style.use()
store = sc.RunStore(DATA)
attempts, cases = sc.frames.attempts(store), sc.frames.cases(store)
verdicts, gold = sc.frames.verdicts(store, round=1), sc.frames.gold(store)
about = {"cases": cases, "checks": sc.frames.checks(store), "skills": store.skills}""",
    """\
reader = sc.explore.verdicts(verdicts, attempts, gold, ngram=4, **about)
reader.choose(skill="braid-provenance", grader="g1", gold="disagrees")""",
    "sc.explore.study(store).choose(condition='skill').show('cases').do('row', 2).do('case', 1)",
]
SHOWN = {"explorer.png": 1, "explorer-study.png": 2}  # index of its cell
WIDEST = 1000  # pixels; hosting sites show less


def small(source: Path) -> Image.Image:
    """Shrink a picture to the width of the README and to 256 colours, enough for charts."""
    picture = Image.open(source).convert("RGB")
    if picture.width > WIDEST:
        size = (WIDEST, round(picture.height * WIDEST / picture.width))
        picture = picture.resize(size, Image.Resampling.LANCZOS)
    return picture.quantize(256)


def explorers(browser: Browser, folder: Path) -> None:
    """Take pictures of the explorers in JupyterLab."""
    home = folder / "home"
    home.mkdir()
    first = CELLS[0].replace("DATA", repr(str(datasets.path("pilot"))))
    write_notebook(folder / "read-cases.ipynb", [first, *CELLS[1:]])
    of = "document.querySelectorAll('.jp-Cell')"
    with server(folder, home) as url:
        page = browser.page(f"{url}/lab/tree/read-cases.ipynb?token={TOKEN}", **LAB)
        page.wait(READY, seconds=180)
        page.evaluate("void jupyterapp.commands.execute('application:toggle-left-area')")
        page.evaluate("void jupyterapp.commands.execute('notebook:run-all-cells')")
        for name, number in SHOWN.items():
            page.wait(f"{of}[{number}].querySelector('.scx-view').childElementCount", seconds=180)
            page.evaluate(f"{of}[{number}].scrollIntoView()")
            page.evaluate("new Promise(done => setTimeout(done, 1000))")
            page.picture(folder / name)
            small(folder / name).save(OUT / name, optimize=True)


def main() -> None:
    """Take pictures of the answer page of the pilot and of the explorers."""
    OUT.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as place:
        folder, profile = Path(place), Path(place) / "profile"
        profile.mkdir()
        answer = report.build(datasets.path("pilot"), folder, notebooks=[], progress=False)
        small(answer.parent / "00-answer.png").save(OUT / "headline.png", optimize=True)
        with chromium(profile) as browser:
            page = browser.page(answer, **SCREEN)
            page.evaluate("document.documentElement.style.scrollbarWidth = 'none'")
            page.picture(folder / "page.png")
            small(folder / "page.png").save(OUT / "page.png", optimize=True)
            link = page.evaluate("document.querySelector('a[href*=type-safety]').href")
            cases = browser.page(link, **SCREEN)
            cases.wait("document.querySelector('article')")
            cases.evaluate("document.documentElement.style.scrollbarWidth = 'none'")
            cases.evaluate("document.querySelector('article').scrollIntoView()")
            cases.picture(folder / "cases.png")
            small(folder / "cases.png").save(OUT / "cases.png", optimize=True)
            explorers(browser, folder)


if __name__ == "__main__":
    main()
