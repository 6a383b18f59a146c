"""The report: one page from executed notebooks, safe to open and legible at two widths."""

import html
import re
import shutil
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import nbformat
import pandas as pd
import pytest
from browser import Browser, Page, chromium
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from PIL import Image, ImageChops, ImageStat
from written_study import written

from skillcomp import RunStore, from_frame, report, simulate
from skillcomp.errors import StudyError
from skillcomp.report import answer, execute_notebooks
from skillcomp.report import page as page_module

ROOT = Path(__file__).resolve().parent.parent
PILOT = ROOT / "data" / "pilot"
NOTEBOOKS = report.find_notebooks(ROOT / "notebooks")
# the pilot has no documents that cross content and form, and records no invocations
CHAPTERS = [path for path in NOTEBOOKS if path.stem[:2] not in ("04", "08", "09", "10")]
# what a hostile answer may bring: markup that would run, load or disguise something
HOSTILE = [
    "<script>window.pwned = 1</script>",
    "<img src=x onerror='window.pwned = 1'>",
    "<a href='javascript:window.pwned=1'>click</a>",
    "</pre></td></table></section><iframe src='https://example.com'></iframe>",
    "<svg onload='window.pwned = 1'><script>window.pwned = 1</script></svg>",
    "<form action='https://example.com'><input name=q></form>",
    "<style>body { display: none }</style><link rel=stylesheet href='https://example.com/a.css'>",
    "<p style='position: fixed; inset: 0' onclick='window.pwned = 1'>over everything</p>",
    "<meta http-equiv=refresh content='0; url=https://example.com'>",
    "[click](javascript:window.pwned=1) ![x](https://example.com/x.png)",
]
PARAMETERS = new_code_cell(
    "DATA = '../data/pilot'\nOUT = '../report'", metadata={"tags": ["parameters"]}
)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study that is answered quickly."""
    study = simulate.study(n_skills=1, n_cases=6, n_repeats=1, gold_fraction=0.0,
                           graders=(simulate.Grader("g1"),), seed=1)  # fmt: skip
    return written(tmp_path_factory.mktemp("tiny"), study)


def write(path: Path, *cells: nbformat.NotebookNode) -> Path:
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    book = new_notebook(cells=list(cells), metadata={"kernelspec": kernel})
    nbformat.write(book, path)
    return path


@pytest.fixture(scope="module", autouse=True)
def answered_once() -> Iterator[None]:
    """Answer each study once, however many pages are built of it."""
    answers: dict[str, report.Answer] = {}

    def once(study: RunStore, **how: object) -> report.Answer:
        chosen = sorted((name, value) for name, value in how.items() if value is not None)
        key = f"{study.path} {study.fingerprint} {chosen}"
        if key not in answers:
            answers[key] = answer(study, **how)
        return answers[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page_module, "answer", once)
        yield


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the recorded study, from the committed outputs in place of a new run."""
    out = tmp_path_factory.mktemp("report")

    def committed(todo, *_: object, **__: object) -> dict[Path, tuple[nbformat.NotebookNode, str]]:
        books = {}
        for path, parameters in iter(todo.get, None):
            books[path] = nbformat.read(path, as_version=4), ""
            for ending in ("pdf", "png", "csv", "json"):
                (Path(str(parameters["OUT"])) / f"{path.stem[:3]}figure.{ending}").touch()
        todo.put(None)
        return books

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(execute_notebooks, "execute_chapters", committed)
        return report.build(PILOT, out / "new" / "folder", progress=False)


@pytest.fixture(scope="module")
def hostile_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page executed for real, from cells that show whatever a model may have written."""
    folder = tmp_path_factory.mktemp("hostile")
    study = folder / "<img src=x onerror='window.pwned=1'>"
    study.mkdir()
    shutil.copy(PILOT / "manifest.json", study)
    path = write(
        folder / "01-hostile.ipynb",
        new_markdown_cell("# Is <script>window.pwned = 1</script> safe?\n\nYes."),
        PARAMETERS,
        new_code_cell(f"import pandas as pd\nbad = {HOSTILE!r}\nprint(*bad, sep='\\n')"),
        new_code_cell("pd.DataFrame({'answer': bad, '<b onmouseover=alert(1)>n': 1}, index=bad)"),
        new_code_cell(
            "from IPython.display import HTML, SVG, Javascript, Latex, Markdown, display\n"
            "for text in bad:\n"
            "    display(HTML(text), Markdown(text), Latex(text))\n"
            "display(HTML(pd.DataFrame({'answer': bad}).to_html(escape=False)))"
        ),
        new_code_cell(
            "display(Javascript('window.pwned = 1'))\n"
            'display(SVG(\'<svg xmlns="http://www.w3.org/2000/svg" onload="window.pwned=1"/>\'))\n'
            "display({'application/vnd.plotly.v1+json': {}, 'text/html': bad[0]}, raw=True)"
        ),
        new_code_cell(
            "import ipywidgets\n"
            "from tqdm.auto import tqdm\n"
            "for text in tqdm(bad):\n"
            "    display(ipywidgets.HTML(text))"
        ),
        new_code_cell("open(f'{OUT}/01-\"><img src=x onerror=alert(1)>.csv', 'w').close()"),
        *(new_markdown_cell(text) for text in HOSTILE),
        nbformat.v4.new_raw_cell(HOSTILE[0]),
    )
    out = folder / "report"
    return report.build(study, out, notebooks=[path], progress=False)


# The page


def test_the_page_lists_the_chapters_about_the_study_with_their_questions(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert page.name == "index.html"
    entries = re.findall(r'<li value="(\d+)"><a href="([^"]+)">([^<]+)</a>', text)
    sections = re.findall(r'<section class="chapter" id="([^"]+)" data-number="(\d+)">', text)
    titles = [nbformat.read(path, 4).cells[0].source.splitlines()[0][2:] for path in CHAPTERS]
    assert [int(number) for number, _, _ in entries] == [int(path.stem[:2]) for path in CHAPTERS]
    assert [place for _, place, _ in entries] == [f"#{path.stem}" for path in CHAPTERS]
    assert [stem for stem, _ in sections] == [path.stem for path in CHAPTERS]
    assert [title.replace("&#39;", "'") for _, _, title in entries] == titles
    assert "no documents cross the two" in text and "nothing records it" in text
    assert "Study <strong>pilot</strong>" in text and 'class="notice"' not in text
    anchors = re.findall(r'\bid="([^"]+)"', text)
    assert len(anchors) == len(set(anchors))
    assert any(anchor.startswith(f"{CHAPTERS[1].stem}--") for anchor in anchors)
    for path in CHAPTERS:
        for ending in ("pdf", "png", "csv", "json"):
            name = f"{path.stem[:3]}figure.{ending}"
            assert f'<a href="{name}"' in text
            assert (page.parent / name).is_file()


def test_the_page_asks_for_nothing_from_elsewhere_and_forbids_scripts(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', text)
    assert policy is not None
    assert policy.group(1).startswith("default-src 'none'; img-src 'self' data:")
    assert "script" not in policy.group(1)
    assert not re.search(r"<(script|link|iframe|object|embed|base|form)\b", text)
    assert not re.findall(r'(?:src|srcset|data|action)="(?!data:image/png;base64,)', text)
    assert "injected-parameters" not in text and str(page.parent) not in text


def test_headings_of_the_same_words_have_anchors_of_their_own(tmp_path: Path) -> None:
    cells = [new_markdown_cell(text) for text in ("# Q?\n## Results\n## Results", "## Results")]
    made = report.chapters.chapter_of(new_notebook(cells=cells), Path("03-x.ipynb"), tmp_path)
    headings = "".join(section.heading for section in made.sections)
    assert re.findall(r'id="03-x--([^"]+)"', headings) == [
        "q", "results", "results-2", "results-3",
    ]  # fmt: skip


# In a browser


def measured(opened: Page, expression: str) -> object:
    return opened.evaluate(
        f"(() => {{ const all = q => [...document.querySelectorAll(q)]; return {expression}; }})()"
    )


@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_fits_its_window_and_shows_every_figure(
    page: Path, browser: Browser, width: int
) -> None:
    opened = browser.page(page, width=width)
    assert measured(opened, "innerWidth") == width
    assert measured(opened, "document.documentElement.scrollWidth") <= width
    # a wide table, figure or code line scrolls in its own box
    over = "e => e.getBoundingClientRect().right > innerWidth + 1"
    boxes = "main, section, p, h1, h2, .panels, .svg, details[open] pre"
    assert measured(opened, f"all({boxes!r}).filter({over})") == []
    shown = "i => [i.complete, i.naturalWidth > 0, i.clientWidth > 0]"
    images = measured(opened, f"all('img:not([aria-hidden])').map({shown})")
    assert len(images) >= len(CHAPTERS) and all(all(image) for image in images)
    links = "all('nav a').filter(a => a.hash && !document.getElementById(a.hash.slice(1))).length"
    assert measured(opened, links) == 0
    assert max(measured(opened, "all('tbody tr').map(r => r.clientHeight)")) < 100
    assert opened.complaints == []
    assert [url for url in opened.requests if not url.startswith(("file:", "data:image/"))] == []


def test_what_a_model_wrote_is_shown_as_text_and_never_runs(
    hostile_page: Path, browser: Browser
) -> None:
    opened = browser.page(hostile_page, width=1280)
    assert measured(opened, "window.pwned === undefined && location.protocol") == "file:"
    live = "script, iframe, object, embed, form, link, base, svg, meta[http-equiv=refresh]"
    assert measured(opened, "all('input').map(e => e.id)") == ["code"]  # the switch of the page
    assert measured(opened, f"all({live!r}).map(e => e.outerHTML)") == []
    handlers = "all('*').filter(e => [...e.attributes].some(a => a.name.startsWith('on')))"
    assert measured(opened, f"{handlers}.map(e => e.outerHTML)") == []
    schemes = "all('a[href]').map(a => a.protocol).filter(p => !['file:', 'https:'].includes(p))"
    assert measured(opened, schemes) == []
    styled = "all('main style, main [style]').map(e => e.outerHTML)"
    assert measured(opened, styled) == []
    assert measured(opened, "getComputedStyle(document.body).display") != "none"
    # nothing was requested, and the policy of the page had nothing to stop
    assert [url for url in opened.requests if not url.startswith(("file:", "data:"))] == []
    assert opened.complaints == []
    # all of it can still be read
    text = hostile_page.read_text(encoding="utf-8")
    assert text.count("&lt;script&gt;window.pwned = 1&lt;/script&gt;") >= 4
    assert "Study <strong>&lt;img src=x onerror=&#39;window.pwned=1&#39;&gt;</strong>" in text
    assert '<a href="01-%22%3E%3Cimg%20src%3Dx%20onerror%3Dalert%281%29%3E.csv">' in text
    assert text.count("</section>") == text.count("<section") == 3  # answer, chapter, provenance


# Other studies

PLANS = {
    "harms": {"n_skills": 2, "n_cases": 30, "delta": -0.35, "baseline_rate": 0.95, "seed": 1,
              "conditions": ("baseline", "skill", "placebo"), "between_skill_sd": 0.0},
    "nothing": {"n_skills": 1, "n_cases": 150, "n_repeats": 4, "delta": 0.0, "seed": 3,
                "baseline_rate": 0.9, "between_skill_sd": 0.0, "case_effect_sd": 0.0,
                "value": "passed", "gold_fraction": 0.0},
    "open": {"n_skills": 14, "n_cases": 8, "n_repeats": 1, "delta": 0.1, "between_skill_sd": 0.0,
             "gold_fraction": 0.0, "seed": 4},
}  # fmt: skip


@pytest.fixture(scope="module")
def studies(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Pages of simulated studies; that of the harmful one has chapter 3."""
    pages = {}
    for name, plan in PLANS.items():
        folder = tmp_path_factory.mktemp(name)
        data = written(folder, simulate.study(**plan))
        chapters = NOTEBOOKS[2:3] if name == "harms" else []
        pages[name] = report.build(data, folder / "out", notebooks=chapters, progress=False)
    return pages


def seen(browser: Browser, page: Path) -> str:
    """Return what a reader sees on the page before unfolding anything."""
    text = str(browser.page(page, width=1280).evaluate("document.body.innerText"))
    return text.replace("\N{NO-BREAK SPACE}", " ")


def test_a_harmful_study_never_says_what_the_pilot_found(
    studies: dict[str, Path], browser: Browser
) -> None:
    text = seen(browser, studies["harms"])
    assert "Both skills harm." in text and "−" in text
    assert "over placebo" in text and re.search(r"−\d+ \[−\d+, −\d+\]", text)
    whole = studies["harms"].read_text("utf-8")
    assert "worse than its placebo" in whole or "Against its placebo" in whole
    # no axes without a mark
    assert "Near against far" in text and "Limits" in text


def test_pages_of_other_shapes_say_what_was_found_and_what_is_lacking(
    studies: dict[str, Path], browser: Browser
) -> None:
    nothing = seen(browser, studies["nothing"])
    assert "skill-01 changes nothing." in nothing
    assert "There are no gold labels" in nothing and "Without a placebo" in nothing
    open_ = seen(browser, studies["open"])
    assert re.search(r"\d+ (skills )?are undetermined", open_) and "cases each" in open_
    assert "2 more skills" in open_ and len(re.findall(r"(?m)^skill-\d+ 8 cases$", open_)) == 12


def test_the_page_has_one_form_of_numbers_and_one_name_of_each_quantity(page: Path) -> None:
    hidden = r"(?s)<(svg|style|pre).*?</\1>|<[^>]+>"
    unbroken = html.unescape(re.sub(hidden, " ", page.read_text("utf-8")))
    assert re.search("\\+52\N{NO-BREAK SPACE}points \\[38,\N{NO-BREAK SPACE}64\\]", unbroken)
    assert not re.search(r"\[[−<\d.]+, [−<\d.]+\]|\d (%|points)|\bn = \d", unbroken)
    text = unbroken.replace("\N{NO-BREAK SPACE}", " ")
    assert "+52 points [38, 64] on 84 cases" in text and "kappa .96" in text
    for other in (
        *(r"\d% \[", r"\[[^\[\]]*\d to [^\[\]]*\]", r"\[\+", r"\bp ?= ?0", r"\bp="),
        *(r"(kappa|AC1|rho) [−-]?0\.", "percentage points", r"points? (more|fewer)\b"),
        *("lets through", "checks met", "success rate", "attempts passed"),
    ):
        assert re.findall(rf".{{0,60}}{other}.{{0,20}}", text) == [], other


def test_the_page_is_short_and_its_text_is_one_narrow_column(
    studies: dict[str, Path], page: Path, browser: Browser
) -> None:
    height = "document.documentElement.scrollHeight / 900"
    for one, screens in ((page, 12), *((path, 8) for path in studies.values())):
        assert browser.page(one, width=1280).evaluate(height) <= screens
    opened = browser.page(page, width=1280)
    texts = "all('.chapter p, .chapter li').filter(e => e.offsetParent)"
    assert measured(opened, f"{texts}.filter(e => e.clientWidth > 660).length") == 0
    code = "all('pre.code').filter(e => e.offsetParent).length"
    assert measured(opened, code) == 0
    opened.evaluate("document.querySelector('#code').click()")
    assert measured(opened, code) > len(CHAPTERS)


def test_the_answer_fits_two_screens_and_is_readable_on_a_phone(
    studies: dict[str, Path], page: Path, browser: Browser
) -> None:
    bottom = "document.querySelector('#answer').getBoundingClientRect().bottom + scrollY"
    for one in (page, *studies.values()):
        assert browser.page(one, width=1280).evaluate(bottom) <= 1.8 * 900
        phone = browser.page(one, width=390)
        assert phone.evaluate("document.documentElement.scrollWidth") <= 390
        assert phone.complaints == []


def test_figures_and_marks_speak_to_readers_who_do_not_see_them(
    studies: dict[str, Path], browser: Browser
) -> None:
    opened = browser.page(studies["harms"], width=1280)
    first = "document.querySelector('#answer .svg').ariaLabel"
    words = r"Change in pass rate \(points\).*skill-0\d, skill"
    assert re.search(words, opened.evaluate(first))
    for faults in (
        "all('img:not([aria-hidden])').filter(i => !i.alt)",
        "all('img').filter(i => !i.alt && !i.previousElementSibling)",
        "all('.mark').filter(m => m.ariaHidden !== 'true')",
        "all('th').filter(t => !t.scope && t.closest('.set'))",
    ):
        assert measured(opened, f"{faults}.length") == 0
    assert opened.evaluate("document.documentElement.lang") == "en"
    assert measured(opened, "all('h1, h2, h3')[0].tagName") == "H1"


def test_every_figure_can_be_taken_away_with_its_data(studies: dict[str, Path]) -> None:
    folder = studies["open"].parent
    text = studies["open"].read_text(encoding="utf-8")
    names = ["00-answer.pdf", "00-answer.png", "00-answer.svg", "00-answer-delta.csv"]
    for name in [*names, "00-answer.json"]:
        assert f'href="{name}" download' in text and (folder / name).is_file()
    with zipfile.ZipFile(folder / "figures.zip") as archive:
        assert {*names, "00-answer.json", "00-answer.txt"} <= set(archive.namelist())
    caption = (folder / "00-answer.txt").read_text(encoding="utf-8").strip()
    assert caption in text.replace("\N{NO-BREAK SPACE}", " ")
    assert "Study, sha256" in text and "matplotlib" in text


def test_readme_shows_the_figure_and_a_page_without_figures_links_no_archive_of_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    left = tmp_path / "07-earlier.png"
    left.touch()  # of an earlier report in the same folder
    (tmp_path / "00-answer-2.png").write_bytes(b"old study")
    (tmp_path / "00-answers.csv").write_bytes(b"not of a report")
    study = report.build(PILOT, tmp_path, notebooks=[]).read_text("utf-8").replace("\xa0", " ")
    assert capsys.readouterr().err == ""  # no bar over no notebooks
    assert 'href="figures.zip"' in study
    with zipfile.ZipFile(tmp_path / "figures.zip") as archive:
        assert {name[:9] for name in archive.namelist()} == {"00-answer"}
        assert not {"00-answer-2.png", "00-answers.csv"} & set(archive.namelist())
    assert (tmp_path / "00-answers.csv").exists()
    assert "<h3>Content and form</h3>" not in study  # the pilot has no design
    drawn = Image.open(tmp_path / "00-answer.png").convert("L").resize((500, 368))
    shown = Image.open(ROOT / "docs/pictures/headline.png").convert("L").resize((500, 368))
    apart = ImageChops.difference(drawn, shown)
    assert ImageStat.Stat(apart).rms[0] < 4, "run tools/pictures.py: README shows another figure"
    fires = report.build(ROOT / "data" / "triggers", tmp_path, notebooks=[]).read_text("utf-8")
    assert "figures.zip" not in fires and not (tmp_path / "figures.zip").exists()
    assert "Triggering (opaque): just the right skills" in fires
    assert "gives no answer yet" not in fires and "Skill by skill" not in fires


def test_widgets_method_and_long_tables_are_not_shown_at_once(tmp_path: Path) -> None:
    cells = [
        new_markdown_cell("# Q?\n\nLead.\n\nDetails."),
        new_markdown_cell("## Results\n\nFirst.\n\n- a constant"),
        new_code_cell("rows", outputs=[html_output("<table>" + 9 * "<tr><td>1" + "</table>")]),
        new_markdown_cell("## Read\n\nIn JupyterLab, click."),
        new_code_cell("sc.explore.deltas(outcomes)", outputs=[html_output("<b>widget</b>")]),
        new_code_cell("again", outputs=[html_output("<b>tea teaches</b>")]),
        new_markdown_cell("## Method\n\nHow."),
    ]
    path = Path("03-x.ipynb")
    made = report.chapters.chapter_of(
        new_notebook(cells=cells), path, tmp_path, on_page=["tea teaches: by 20 points"]
    )
    _, lead, results, method = made.sections
    assert "Lead." in lead.shown[0] and "Details." in lead.folded[0]
    assert "First." in results.shown[0] and "a constant" in results.folded[0]
    assert "<details><summary>Table of 8 rows" in results.shown[2]
    assert "JupyterLab" not in str(made) and "widget" not in str(made)
    assert "<b>" not in str(results.shown)
    assert (method.heading, method.shown, method.fold) == ("", [], "Method and constants")


def html_output(html: str) -> nbformat.NotebookNode:
    return nbformat.v4.new_output("display_data", data={"text/html": html})


def test_a_chapter_without_data_is_one_line_among_the_limits(tmp_path: Path, tiny: Path) -> None:
    path = write(
        tmp_path / "07-lacks.ipynb",
        new_markdown_cell("# Is it corrected?\n\nThis chapter corrects."),
        PARAMETERS,
        new_code_cell(
            "import pandas as pd, skillcomp as sc\nwith sc.report.section():\n"
            "    sc.report.section_rows(pd.DataFrame(), 'there is no gold.')"
        ),
    )
    page = report.build(tiny, tmp_path / "out", notebooks=[path], progress=False)
    text = page.read_text("utf-8")
    assert "<li>Is it corrected? Not shown: there is no gold.</li>" in text
    assert 'class="chapter" id="07' not in text


# What can go wrong


def test_what_is_no_study_and_a_folder_without_notebooks_are_named(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="They come with skillcomp's wheel"):
        report.find_notebooks(tmp_path)
    with pytest.raises(StudyError, match=r"empty is not a recorded study: it has no manifest"):
        report.build(tmp_path / "empty", tmp_path / "out", progress=False)
    (tmp_path / "table.csv").write_text("case,passed\n1,1\n")
    with pytest.raises(StudyError, match=r"table of your own: sc.report.build\(sc.from_frame\(tab"):
        report.build(tmp_path / "table.csv", tmp_path / "out", progress=False)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("parameters", [None, {"OUT": "elsewhere"}])
def test_a_failing_cell_is_named_by_its_place_in_the_notebook(
    tmp_path: Path, parameters: dict[str, object] | None
) -> None:
    path = write(
        tmp_path / "07-fails.ipynb",
        new_markdown_cell("# Does it fail?\n\nYes."),
        PARAMETERS,
        new_code_cell("raise ValueError('one\\ntwo')"),
    )
    before = path.read_bytes()
    with pytest.raises(StudyError, match=r"^report: 07-fails.ipynb, cell 3: ValueError: one\ntwo$"):
        report.execute(path, parameters=parameters, progress=False)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_a_kernel_that_dies_and_a_cell_that_hangs_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dies = write(tmp_path / "08-dies.ipynb", new_code_cell("import os\nos._exit(1)"))
    with pytest.raises(StudyError, match=r"^report: 08-dies.ipynb, cell 1: .*[Kk]ernel died"):
        report.execute(dies, progress=False)
    monkeypatch.setattr(execute_notebooks, "CELL_TIMEOUT", 1)
    hangs = write(tmp_path / "09-hangs.ipynb", new_code_cell("import time\ntime.sleep(30)"))
    with pytest.raises(StudyError, match=r"^report: 09-hangs.ipynb, cell 1: .*1 second"):
        report.execute(hangs, progress=False)


def test_given_parameters_replace_those_of_the_tagged_cell(tmp_path: Path) -> None:
    untagged = write(tmp_path / "06-untagged.ipynb", new_code_cell("OUT = '.'"))
    with pytest.raises(StudyError, match="no cell tagged 'parameters'"):
        report.execute(untagged, parameters={"OUT": "x"}, progress=False)
    path = write(
        tmp_path / "05-given.ipynb", PARAMETERS, new_code_cell("print(DATA, OUT, sep='|')")
    )
    ran = report.execute(path, parameters={"OUT": 'it\'s "there"\n'}, progress=False)
    assert ran.cells[-1].outputs[0].text == '../data/pilot|it\'s "there"\n\n'
    report.write_notebooks([path], progress=False)
    book = nbformat.read(path, as_version=4)
    assert [cell.execution_count for cell in book.cells] == [1, 2]
    assert book.cells[-1].outputs[0].text == "../data/pilot|../report\n"
    first = path.read_bytes()
    report.write_notebooks([path], progress=False)
    assert path.read_bytes() == first


def test_a_chapter_that_fails_takes_no_other_with_it(tmp_path: Path, tiny: Path) -> None:
    fails = write(
        tmp_path / "01-fails.ipynb",
        new_markdown_cell("# Does it fail?"),
        PARAMETERS,
        new_code_cell("print('before')"),
        new_code_cell("raise ValueError('<b>no such grader</b>')"),
        new_code_cell("print('after')"),
    )
    works = write(
        tmp_path / "02-works.ipynb",
        new_markdown_cell("# Does it work?"),
        new_code_cell("GRADER = None\nROUND = 1", metadata={"tags": ["parameters"]}),
        new_code_cell("print('grader', GRADER, ROUND)"),
    )
    out, books = tmp_path / "out", [fails, works]
    with pytest.raises(StudyError) as raised:
        given = {"GRADER": "g1", "ROUND": None}
        report.build(tiny, out, notebooks=books, parameters=given, progress=False)
    assert str(raised.value).startswith(f"{out / 'index.html'} was built, but 1 of 2 chapters")
    assert "01-fails.ipynb, cell 4: ValueError: <b>no such grader</b>" in str(raised.value)
    text = (out / "index.html").read_text(encoding="utf-8")
    assert "<pre>before" in text and "<pre>after" not in text and "grader g1 1" in text
    assert "ends here: report: 01-fails.ipynb, cell 4: ValueError: &lt;b&gt;no" in text
    assert "Traceback" not in text


def test_chapters_share_a_kernel_but_no_names(tmp_path: Path) -> None:
    sets = new_code_cell("import os\nown = os.getpid()\nprint(own)")
    fails = new_code_cell("print(own)")  # the name belongs to an earlier chapter
    shows = new_code_cell("print(__import__('os').getpid())")
    cells = {"01-sets": sets, "02-shows": shows, "03-fails": fails, "04-shows": shows}
    todo: SimpleQueue[Any] = SimpleQueue()
    for name, cell in cells.items():
        todo.put((write(tmp_path / f"{name}.ipynb", PARAMETERS, cell), {}))
    todo.put(None)
    how = {"share_kernel": True, "done": lambda: None}
    with ThreadPoolExecutor(1) as pool:
        books = pool.submit(execute_notebooks.execute_chapters, todo, tmp_path, **how).result()
    first, second, (_, problem), last = books.values()
    pids = [book.cells[-1].outputs[0].text for book, _ in (first, second, last)]
    # a kernel in which a cell failed is not used again
    assert pids[0] == pids[1] != pids[2]
    assert "03-fails.ipynb, cell 2: NameError" in problem


def test_a_live_chapter_may_take_its_time(
    tmp_path: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = "LIVE = False\nSTORE = '../my-study'"
    path = write(
        tmp_path / "08-live.ipynb",
        new_markdown_cell("# Is it live?"),
        new_code_cell(cell, metadata={"tags": ["parameters"]}),
        new_code_cell("import time\ntime.sleep(1.5)\nprint('store', STORE)"),
    )
    monkeypatch.setattr(execute_notebooks, "CELL_TIMEOUT", 1)
    monkeypatch.chdir(tmp_path)
    given = {"LIVE": True, "STORE": "studies/<mine>"}
    out = report.build(tiny, Path("out"), notebooks=[path], parameters=given, progress=False)
    text = out.read_text(encoding="utf-8")
    assert f"store {tmp_path}/studies/&lt;mine&gt;" in text


# A study that the chapters were not recorded on


def test_a_table_reaches_the_chapters_through_a_store(tmp_path: Path) -> None:
    path = write(
        tmp_path / "01-reads.ipynb",
        new_markdown_cell("# Does it read?"),
        PARAMETERS,
        new_code_cell(
            "import skillcomp as sc\nprint('cases', len(sc.frames.cases(sc.RunStore(DATA))))\n"
            "sc.table(sc.frames.cases(sc.RunStore(DATA)), csv=f'{OUT}/01-cases.csv')"
        ),
    )
    cases = [f"c{at}" for at in range(40)] * 2
    table = pd.DataFrame({"case": cases, "condition": ["baseline"] * 40 + ["skill"] * 40})
    own = from_frame(table.assign(passed=[at % 3 > 0 for at in range(80)]), skill=None)
    for _ in range(2):  # a second page replaces the first
        page = report.build(own, tmp_path / "out", notebooks=[path], progress=False)
    text = page.read_text("utf-8")
    assert "<pre>cases 40" in text and "Study <strong>your table</strong>" in text
    assert 'href="01-cases.csv"' in text and str(tmp_path) not in text
    assert len(RunStore(page.parent / "study").table("attempts")) == 80


def test_a_study_with_a_design_says_what_the_design_shows(tmp_path: Path) -> None:
    page = report.build(ROOT / "data" / "execution", tmp_path, notebooks=[], progress=False)
    for words in ("its content by +", "<h3>Content and form</h3>", "24 documents of 6 skills"):
        assert words in page.read_text("utf-8")
