"""The explorers in JupyterLab, Notebook 7 and Voila, with a real browser."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from browser import Browser, Page, chromium
from jupyter import ROOT, TOKEN, server, write_notebook

import skillcomp as sc

pytestmark = pytest.mark.slow  # `make outputs` runs them
HOSTILE = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>**bold**'
CELLS = [
    f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
"""
    + """
import pandas as pd
import skillcomp as sc
from benchmarks import simulated
study = simulated.study(n_skills=2, n_cases=6, n_repeats=1, delta=0.3, gold_fraction=1.0,
    conditions=("baseline", "skill", "placebo"), seed=1,
    graders=[simulated.Grader("old"), simulated.Grader("new", specificity=0.6)])
attempts, verdicts = study.attempts, study.verdicts
attempts["answer"] = [f"Answer {i} quotes nothing. HOSTILE" for i in range(len(attempts))]
outcomes = sc.frames.outcomes(verdicts, study.cases, grader="new")
words = "alpha bravo charlie delta echo foxtrot golf hotel india juliet kilo lima mike".split()
text = " ".join(words)
own = [f"nothing shared {i} of course, hotel india" for i in range(6)]
passages = pd.DataFrame({"skill": "s", "level": ["verbatim"] * 6 + ["fresh"] * 6,
    "passage_id": [f"p{i}" for i in range(12)], "document": [f"d{i}" for i in range(12)],
    "text": [" ".join(words[i:i + 6]) for i in range(6)] + own})
answers = pd.DataFrame({"attempt_id": ["a1", "a2"], "skill": "s", "case_id": ["s/1", "s/2"],
    "condition": "baseline", "answer": ["golf hotel outside", "no words"]})
shared = sc.overlap.score(answers, skills={"s": text}, ngram=range(2, 6), exclude_prompt=False)
""".replace("HOSTILE", HOSTILE.replace('"', '\\"')),
    "sc.explore.verdicts(verdicts, attempts, cases=study.cases, label=True, store=sc.RunStore('labels'), labeller='ann')",  # noqa: E501
    "sc.explore.verdicts(verdicts, attempts, study.gold)",
    "sc.explore.threshold(shared, passages, skills={'s': text}, positive='verbatim')",
    """
table = outcomes.replace({"skill": {outcomes["skill"].iloc[0]: "HOSTILE"}})
own = sc.from_frame(table, case="case_id", grader="grader", shared_cases=False)
sc.explore.study(own)
""".replace("HOSTILE", HOSTILE.replace('"', '\\"')),
]
LABEL, READ, CUT, STUDY = range(1, 5)
READY = (
    "jupyterapp.shell.currentWidget.context.isReady && "
    "jupyterapp.shell.currentWidget.sessionContext.session.kernel.connectionStatus === 'connected'"
)
OF = "document.querySelectorAll('.jp-Cell')"


class Jupyter(NamedTuple):
    """A browser, a Jupyter server and the folder of its notebooks."""

    browser: Browser
    url: str
    folder: Path

    def open(self, path: str, *, run: bool = True) -> Page:
        """Open a notebook; run its cells if the application does not."""
        page = self.browser.page(f"{self.url}/{path}?token={TOKEN}", width=1280, height=1000)
        if run:
            page.wait(READY, seconds=180)
            page.evaluate("void jupyterapp.commands.execute('notebook:run-all-cells')")
        return page


class Lab(NamedTuple):
    """The notebook, opened in JupyterLab and run."""

    page: Page
    folder: Path

    def cell(self, number: int) -> None:
        """Bring an explorer into view and mark it as the one that selectors mean."""
        self.page.wait(
            f"({OF}[{number}].scrollIntoView(), document.querySelectorAll('[data-mine]')"
            f".forEach(one => one.removeAttribute('data-mine')), {OF}[{number}]"
            ".querySelector('.scx').setAttribute('data-mine', 1), "
            f"{OF}[{number}].querySelector('.scx-view').childElementCount > 0)",
            seconds=180,
        )

    def said(self, text: str) -> None:
        self.page.wait(
            f"document.querySelector('[data-mine] .scx-said').textContent.includes({text!r})"
        )


@pytest.fixture(scope="module")
def jupyter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jupyter]:
    home = tmp_path_factory.mktemp("home")
    folder, profile = home / "work", home / "profile"
    folder.mkdir()
    profile.mkdir()
    with chromium(profile) as browser, server(folder, home) as url:
        yield Jupyter(browser, url, folder)


@pytest.fixture(scope="module")
def lab(jupyter: Jupyter) -> Lab:
    write_notebook(jupyter.folder / "test.ipynb", CELLS)
    return Lab(jupyter.open("lab/tree/test.ipynb"), jupyter.folder)


def test_keys_walk_without_leaving_the_answer_and_what_a_model_wrote_is_text(lab: Lab) -> None:
    page = lab.page
    lab.cell(READ)
    names = "[...document.querySelectorAll('[data-mine] .scx-answer h3')].map(h => h.textContent)"
    assert page.evaluate(names) == ["baseline", "skill", "placebo"]
    page.click("[data-mine] .scx-head")
    page.press("ArrowRight")
    lab.said("Check 2 of")
    page.press("k")
    lab.said("Check 1 of")
    page.press("/")
    page.wait("document.activeElement.closest('.scx-skill')")
    page.press("Escape")
    page.press("j")
    lab.said("Check 2 of")
    answer = "document.querySelector('[data-mine] .scx-answer .scx-text')"
    assert HOSTILE in page.evaluate(f"{answer}.textContent")
    assert page.evaluate(f"{answer}.querySelectorAll('img, script, strong, b').length") == 0
    assert page.evaluate("window.hacked") is None
    assert not [one for one in page.requests if "127.0.0.1" not in one and "//" in one[:8]]
    assert not [one for one in page.complaints if "scx" in one or "widget" in one.lower()]


def test_the_sliders_move_the_point_and_the_lists(lab: Lab) -> None:
    page = lab.page
    lab.cell(CUT)
    lab.said("n = 3")  # the n of calibrate: with n = 2 all fresh texts are flagged
    drawn = "document.querySelector('[data-mine] .scx-figure img').src"
    before = page.evaluate(drawn)
    handle = "document.querySelector('[data-mine] .scx-{} .noUi-handle').focus()"
    page.evaluate(handle.format("n"))
    page.press("ArrowLeft")
    lab.said("n = 2")
    page.wait(f"{drawn} !== {before!r}")
    page.evaluate(handle.format("cut"))
    page.press("ArrowRight")
    lab.said("at least")
    assert page.evaluate("document.querySelector('[data-mine]').innerText").count("now flagged")
    page.click("[data-mine] tr[data-do=move]")
    page.wait("document.querySelector('[data-mine] h3 bdi')")


def test_the_tabs_of_a_study_follow_its_controls_in_both_themes(lab: Lab) -> None:
    page = lab.page
    cell = f"{OF}[{STUDY}]"
    page.wait(f"({cell}.scrollIntoView(), {cell}.querySelector('.scx-view p'))", seconds=180)
    page.evaluate(f"void {cell}.setAttribute('data-study', 1)")
    page.click("[data-study] .scx-tab button:nth-of-type(2)")
    rows = f"{cell}.querySelectorAll('.scx-view tbody tr').length"
    page.wait(f"{cell}.querySelector('.scx-figure img') && {rows} === 4", seconds=90)
    pick = (
        f"(s => {{ s.selectedIndex = 1; s.dispatchEvent(new Event('change', {{bubbles: true}})) }})"
        f"({cell}.querySelector('.widget-dropdown select'))"
    )
    page.evaluate(pick)
    page.wait(f"{rows} === 2", seconds=90)
    assert page.evaluate("window.hacked") is None
    # the copy for static pages is not shown next to the widget
    assert page.evaluate(f"{cell}.querySelector('.scx-still').offsetHeight") == 0
    color = f"getComputedStyle({cell}.querySelector('.scx')).color"
    light = page.evaluate(color)
    theme = "jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Dark'})"
    page.evaluate(f"void {theme}")
    page.wait(f"{color} !== {light!r}")


def test_a_click_on_a_row_opens_its_cases_and_on_a_case_its_answers(lab: Lab) -> None:
    page = lab.page
    cell = f"{OF}[{STUDY}]"
    page.wait(f"({cell}.scrollIntoView(), {cell}.querySelector('.scx-view p'))", seconds=180)
    page.evaluate(f"void {cell}.setAttribute('data-study', 1)")
    page.click("[data-study] .scx-tab button:nth-of-type(3)")
    page.wait(f"{cell}.querySelectorAll('tr[data-do=row]').length > 1", seconds=90)
    page.click("[data-study] tr[data-do=row]:nth-of-type(2)")
    page.wait(f"{cell}.querySelector('tr[data-do=case]')")
    page.wait(f"{cell}.querySelectorAll('tr[aria-current=true]').length === 1")
    page.click("[data-study] tr[data-do=case]")
    page.wait(f"{cell}.querySelectorAll('.scx-answer').length === 3")
    page.press("ArrowRight")
    page.wait(f"{cell}.querySelectorAll('tr[data-do=case]')[1].ariaCurrent === 'true'")


def test_three_checks_labelled_with_keys_are_in_the_store_and_a_reload_goes_on(lab: Lab) -> None:
    page = lab.page
    lab.cell(LABEL)
    lab.said("0 of")
    page.click("[data-mine] .scx-head")
    n_cells = page.evaluate(f"{OF}.length")
    for done, key in enumerate("pfu", start=1):
        page.press(key)
        lab.said(f"{done} of")
    page.press("x")  # cuts the cell in JupyterLab's command mode, and must not do so from here
    page.press("ArrowLeft")
    lab.said("this one: undecided")
    page.press("b")
    page.wait("document.querySelector('[data-mine] [aria-pressed=true]')")
    page.press("c")
    page.wait("document.activeElement.closest('.scx-note')")
    for letter in "fine":
        page.press(letter)
    page.press("Enter")
    page.wait("document.activeElement.matches('.scx')")
    lab.said("3 of")
    page.press("p")
    lab.said("3 of")
    lab.page.wait(
        "!document.querySelector('[data-mine] .scx-said').textContent.includes('this one')"
    )
    gold = sc.frames.gold(sc.RunStore(lab.folder / "labels"))
    assert gold["passed"].tolist() == [True, False, True]
    assert gold["labeller"].eq("ann").all()
    assert gold["note"].fillna("").tolist() == ["", "", "fine"]
    assert gold["borderline"].tolist() == [False, False, True]
    assert page.evaluate(f"{OF}.length") == n_cells
    page.evaluate("jupyterapp.commands.execute('docmanager:save').then(() => 1)")
    page.call("Page.reload")
    page.wait(READY, seconds=180)
    lab.cell(LABEL)
    lab.said("3 of")
    page.click("[data-mine] .scx-head")
    page.press("f")
    lab.said("4 of")
    assert len(sc.frames.gold(sc.RunStore(lab.folder / "labels"))) == 4


def test_a_static_page_shows_the_last_state_without_a_network(
    jupyter: Jupyter, tmp_path: Path
) -> None:
    browse = "one = sc.explore.verdicts(verdicts, attempts)\none"
    path = tmp_path / "static.ipynb"
    write_notebook(path, [SMALL.replace("STORE", "static"), browse, "one.choose(passed='passed');"])
    command = [sys.executable, "-m", "nbconvert", "--execute", "--to", "html", str(path)]
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    subprocess.run(
        command, check=True, capture_output=True, env={**os.environ, "PYTHONPATH": paths}
    )
    page = path.with_suffix(".html")
    page.write_text(re.sub(r"<script[^>]*src=[^>]*>", "<script>", page.read_text("utf-8")), "utf-8")
    shown = jupyter.browser.page(page, width=1000)
    text = shown.evaluate("[...document.querySelectorAll('.scx-still')].map(e => e.innerText)")
    assert len(text) == 2 and "Verdict: passed" in text[1] and "Check 1 of" in text[1]
    assert shown.evaluate("window.hacked") is None


SMALL = """
import pandas as pd
import skillcomp as sc
attempts = pd.DataFrame({"attempt_id": list("abcd"), "skill": "s", "case_id": "s/1",
    "condition": "skill", "answer": "HOSTILE"})
verdicts = attempts.assign(check_id="c", check_kind="positive", grader="g", passed=True,
    status="ok").drop(columns="answer")
sc.explore.verdicts(verdicts, attempts, label=True, store=sc.RunStore("STORE"), labeller="ann")
""".replace("HOSTILE", HOSTILE.replace('"', '\\"'))


@pytest.mark.parametrize("path", ["notebooks/notebook-7", "voila/render/voila"])
def test_checks_are_labelled_with_keys_in_notebook_7_and_in_voila_too(
    jupyter: Jupyter, path: str
) -> None:
    name = path.rpartition("/")[2]
    write_notebook(jupyter.folder / f"{name}.ipynb", [SMALL.replace("STORE", name)])
    page = jupyter.open(f"{path}.ipynb", run=name != "voila")
    view = "document.querySelector('.scx-view')"
    page.wait(f"{view} && {view}.childElementCount > 0", seconds=180)
    page.evaluate("document.querySelector('.scx').scrollIntoView()")
    assert page.evaluate("document.querySelector('.scx-still').offsetHeight") == 0
    page.click(".scx .scx-head")
    for done, key in enumerate("pfu", start=1):
        page.press(key)
        page.wait(f"document.querySelector('.scx-said').textContent.includes('{done} of')")
    assert page.evaluate("window.hacked") is None
    gold = sc.frames.gold(sc.RunStore(jupyter.folder / name))
    assert gold["passed"].isna().tolist() == [False, False, True]
    assert gold["passed"].tolist()[:2] == [True, False]
