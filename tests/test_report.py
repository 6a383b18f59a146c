"""The report: one page from executed notebooks, safe to open and legible at two widths."""

import html
import re
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

import nbformat
import pandas as pd
import pytest
from browser import Browser, Page
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from PIL import Image, ImageChops, ImageStat
from written_study import written

from benchmarks import simulated
from skillcomp import RunStore, from_frame, report, style
from skillcomp.errors import StudyError
from skillcomp.report import execute_notebooks
from skillcomp.report.chapters import chapter_of, find_notebooks
from skillcomp.report.escaped_text import render
from tools.write_notebooks import write_notebooks

ROOT = Path(__file__).resolve().parent.parent
PILOT = ROOT / "data" / "pilot"
NOTEBOOKS = find_notebooks(ROOT / "notebooks")
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


def write(path: Path, *cells: nbformat.NotebookNode) -> Path:
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    book = new_notebook(cells=list(cells), metadata={"kernelspec": kernel})
    nbformat.write(book, path)
    return path


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the recorded study, from the committed outputs in place of a new run."""
    out = tmp_path_factory.mktemp("report")
    # of an earlier report in the same folder, and not of a report
    for name in ("00-answer-2.png", "00-answers.csv"):
        (out / name).touch()

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
        return report.build(PILOT, out, progress=False)


class Chapters(NamedTuple):
    """The page of executed notebooks, the error of its build, and the notebook that failed."""

    page: Path
    error: str
    failed: Path


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Chapters:
    """A page executed for real: hostile outputs, a cell that fails, and a chapter without data."""
    folder = tmp_path_factory.mktemp("hostile")
    made = simulated.study(n_skills=1, n_cases=6, n_repeats=1, gold_fraction=0.0,
                          graders=(simulated.Grader("g1"),), seed=1)  # fmt: skip
    study = written(folder, made).rename(folder / "<img src=x onerror='window.pwned=1'>")
    hostile = write(
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
    fails = write(
        folder / "02-fails.ipynb",
        new_markdown_cell("# Does it fail?"),
        new_code_cell("GRADER = None\nROUND = 1", metadata={"tags": ["parameters"]}),
        new_code_cell("print('before, by', GRADER, ROUND)"),
        new_code_cell("raise ValueError('<b>no such grader</b>')"),
        new_code_cell("print('after')"),
    )
    lacks = write(
        folder / "03-lacks.ipynb",
        new_markdown_cell("# Is it corrected?\n\nThis chapter corrects."),
        PARAMETERS,
        new_code_cell(
            "import skillcomp as sc\nraise sc.errors.StudyError('there is no gold.')",
            metadata={"tags": ["raises-exception"]},
        ),
        new_code_cell("raise sc.errors.FrameError('and no <b>case</b>.')"),
        new_code_cell("print('not reached')"),
    )
    how = {"notebooks": [hostile, fails, lacks], "parameters": {"GRADER": "g1", "ROUND": None}}
    with pytest.raises(StudyError) as raised:
        report.build(study, folder / "new" / "report", progress=False, **how)
    return Chapters(folder / "new" / "report" / "index.html", str(raised.value), fails)


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
    made = chapter_of(new_notebook(cells=cells), Path("03-x.ipynb"), tmp_path)
    headings = "".join(section.heading for section in made.sections)
    assert re.findall(r'id="03-x--([^"]+)"', headings) == [
        "q", "results", "results-2", "results-3",
    ]  # fmt: skip


# In a browser


def measured(opened: Page, expression: str) -> object:
    return opened.evaluate(
        f"(() => {{ const all = q => [...document.querySelectorAll(q)]; return {expression}; }})()"
    )


PLANS = {
    "harms": {"n_skills": 2, "n_cases": 30, "delta": -0.35, "baseline_rate": 0.95, "seed": 1,
              "conditions": ("baseline", "skill", "placebo"), "between_skill_sd": 0.0,
              "n_repeats": 1},
    "open": {"n_skills": 14, "n_cases": 6, "n_repeats": 1, "delta": 0.1, "between_skill_sd": 0.0,
             "gold_fraction": 0.0, "seed": 4},
}  # fmt: skip


@pytest.fixture(scope="module")
def studies(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Pages of simulated studies, without chapters."""
    pages = {}
    for name, plan in PLANS.items():
        folder = tmp_path_factory.mktemp(name)
        data = written(folder, simulated.study(**plan))
        pages[name] = report.build(data, folder / "out", notebooks=[], progress=False)
    return pages


@pytest.mark.parametrize("name", ["pilot", *PLANS])
def test_a_page_fits_its_window_at_two_widths_and_speaks_to_all_readers(
    name: str, page: Path, studies: dict[str, Path], browser: Browser
) -> None:
    path, screens = (page, 14) if name == "pilot" else (studies[name], 8)
    for width in (390, 1280):
        opened = browser.page(path, width=width)
        assert measured(opened, "document.documentElement.scrollWidth") <= width
        # a wide table, figure or code line scrolls in its own box
        over = "e => e.getBoundingClientRect().right > innerWidth + 1"
        boxes = "main, section, p, h1, h2, .panels, .svg, details[open] pre"
        assert measured(opened, f"all({boxes!r}).filter({over})") == []
        folded = "i.closest('details:not([open])') !== null"
        shown = f"i => [i.complete, i.naturalWidth > 0, i.clientWidth > 0 || {folded}]"
        images = measured(opened, f"all('img:not([aria-hidden])').map({shown})")
        assert all(all(image) for image in images)
        assert name != "pilot" or len(images) >= len(CHAPTERS)
        links = "all('nav a').filter(a => a.hash && !document.getElementById(a.hash.slice(1)))"
        assert measured(opened, f"{links}.length") == 0
        assert max(measured(opened, "all('tbody tr').map(r => r.clientHeight)")) < 100
        assert opened.complaints == []
        assert [url for url in opened.requests if not url.startswith(("file:", "data:"))] == []
    assert measured(opened, "document.documentElement.scrollHeight / 900") <= screens
    bottom = "document.querySelector('#answer').getBoundingClientRect().bottom + scrollY"
    assert measured(opened, bottom) <= 1.92 * 900
    for faults in (
        "all('img:not([aria-hidden])').filter(i => !i.alt)",
        "all('img').filter(i => !i.alt && !i.previousElementSibling)",
        "all('.mark').filter(m => m.ariaHidden !== 'true')",
        "all('th').filter(t => !t.scope && t.closest('.set'))",
        "all('.chapter p, .chapter li').filter(e => e.offsetParent && e.clientWidth > 660)",
    ):
        assert measured(opened, f"{faults}.length") == 0, faults
    assert opened.evaluate("document.documentElement.lang") == "en"
    assert measured(opened, "all('h1, h2, h3')[0].tagName") == "H1"
    words = r"Change in pass rate \(points\)"
    assert re.search(words, opened.evaluate("document.querySelector('#answer .svg').ariaLabel"))
    if name == "pilot":
        code = "all('pre.code').filter(e => e.offsetParent).length"
        assert measured(opened, code) == 0
        opened.evaluate("document.querySelector('#code').click()")
        assert measured(opened, code) > len(CHAPTERS)


def test_what_a_model_wrote_is_shown_as_text_and_never_runs(
    executed: Chapters, browser: Browser
) -> None:
    opened = browser.page(executed.page, width=1280)
    assert measured(opened, "window.pwned === undefined && location.protocol") == "file:"
    live = "script, iframe, object, embed, form, link, base, svg, meta[http-equiv=refresh]"
    assert measured(opened, "all('input').map(e => e.id)") == ["code"]  # the switch of the page
    ours = "filter(e => !e.closest('#answer .svg'))"  # the headline figure
    assert measured(opened, f"all({live!r}).{ours}.map(e => e.outerHTML)") == []
    handlers = "all('*').filter(e => [...e.attributes].some(a => a.name.startsWith('on')))"
    assert measured(opened, f"{handlers}.map(e => e.outerHTML)") == []
    schemes = "all('a[href]').map(a => a.protocol).filter(p => !['file:', 'https:'].includes(p))"
    assert measured(opened, schemes) == []
    styled = f"all('main style, main [style]').{ours}.map(e => e.outerHTML)"
    assert measured(opened, styled) == []
    assert measured(opened, "getComputedStyle(document.body).display") != "none"
    # nothing was requested, and the policy of the page had nothing to stop
    assert [url for url in opened.requests if not url.startswith(("file:", "data:"))] == []
    assert opened.complaints == []
    # all of it can still be read
    text = executed.page.read_text(encoding="utf-8")
    assert text.count("&lt;script&gt;window.pwned = 1&lt;/script&gt;") >= 4
    assert "Study <strong>&lt;img src=x onerror=&#39;window.pwned=1&#39;&gt;</strong>" in text
    assert '<a href="01-%22%3E%3Cimg%20src%3Dx%20onerror%3Dalert%281%29%3E.csv">' in text
    assert text.count("</section>") == text.count("<section")


# Other studies


def test_pages_of_other_shapes_say_what_was_found_and_what_is_lacking(
    studies: dict[str, Path], browser: Browser
) -> None:
    def seen(name: str) -> str:
        opened = browser.page(studies[name], width=1280)
        return str(opened.evaluate("document.body.innerText")).replace("\N{NO-BREAK SPACE}", " ")

    harms, undecided = map(seen, PLANS)
    assert "Both skills harm." in harms and "over placebo" in harms
    assert re.search(r"−\d+ \[−\d+, −\d+\]", harms)
    whole = studies["harms"].read_text("utf-8")
    assert "worse than its placebo" in whole or "Against its placebo" in whole
    assert re.search(r"\d+ (skills )?are undetermined", undecided) and "cases each" in undecided
    assert "2 more skills" in undecided
    assert len(re.findall(r"(?m)^skill-\d+ 6 cases$", undecided)) == 12
    assert "There are no gold labels" in undecided and "Without a placebo" in undecided


def test_the_page_has_one_form_of_numbers_and_one_name_of_each_quantity(page: Path) -> None:
    hidden = r"(?s)<(svg|style|pre).*?</\1>|<[^>]+>"
    unbroken = html.unescape(re.sub(hidden, " ", page.read_text("utf-8")))
    assert re.search("\\+52\N{NO-BREAK SPACE}points \\[38,\N{NO-BREAK SPACE}64\\]", unbroken)
    assert not re.search(r"\[[−<\d.]+, [−<\d.]+\]|\d (%|points)|\bn = \d", unbroken)
    text = unbroken.replace("\N{NO-BREAK SPACE}", " ")
    assert "+52 points [38, 64] on 84 cases" in text
    assert re.search(r"Cohen's kappa\s+\.96 \[", text)
    for other in (
        *(r"\d% \[", r"\[[^\[\]]*\d to [^\[\]]*\]", r"\[\+", r"\bp ?= ?0", r"\bp="),
        *(r"(kappa|AC1|rho) [−-]?0\.", "percentage points", r"points? (more|fewer)\b"),
        *("lets through", "checks met", "success rate", "attempts passed"),
    ):
        assert re.findall(rf".{{0,60}}{other}.{{0,20}}", text) == [], other


INTERVAL = re.compile(r"([+−<>]?\.?\d[\d,.]*)(?: %| points?)? \[([−<>\d.,]+), ([−<>\d.,]+)\]")


def _intervals_in(text: str) -> list[tuple[str, ...]]:
    """Return estimates and their limits, such as ("+52", "38", "64")."""
    return INTERVAL.findall(html.unescape(text).replace("\N{NO-BREAK SPACE}", " "))


def _rounds_to(exact: tuple[str, ...], rounded: tuple[str, ...]) -> bool:
    """Return whether the numbers of a sentence are those of a table, which has more digits."""
    for cell, word in zip(exact, rounded, strict=True):
        number, said = (float(re.sub("[+<>,]", "", w).replace("−", "-")) for w in (cell, word))
        decimals = len(word.partition(".")[2])
        if abs(number - said) > 0.5 * 10**-decimals + 0.0501 + ("<" in word or ">" in word):
            return False
    return True


def test_sentences_tables_and_figures_of_a_page_have_the_same_numbers(
    page: Path, studies: dict[str, Path]
) -> None:
    for place in (page, *studies.values()):
        answer = re.search(r'(?s)<section id="answer".*?</section>', place.read_text("utf-8"))
        assert answer is not None
        shown = re.sub(r"(?s)<(svg|style)\b.*?</\1>", "", answer[0])
        tables = "".join(re.findall(r"(?s)<table.*?</table>", shown))
        cells = _intervals_in(re.sub("<[^>]+>", " ", tables))
        prose = re.sub("<[^>]+>", " ", re.sub(r"(?s)<table.*?</table>", "", shown))
        said = _intervals_in(prose)
        assert len(said) > 4 and len(cells) > 4
        assert [words for words in said if not any(_rounds_to(own, words) for own in cells)] == []
        for file in place.parent.glob("00-answer-*.csv"):
            drawn = pd.read_csv(file).dropna(subset=["estimate", "ci_low"])
            texts = [_intervals_in(style.interval(row))[0] for _, row in drawn.iterrows()]
            assert set(texts) <= set(cells), (file, set(texts) - set(cells))


def test_every_figure_can_be_taken_away_with_its_data(page: Path, studies: dict[str, Path]) -> None:
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
    with zipfile.ZipFile(page.parent / "figures.zip") as archive:
        assert not {"00-answer-2.png", "00-answers.csv"} & set(archive.namelist())
    assert (page.parent / "00-answers.csv").exists()
    assert not (page.parent / "00-answer-2.png").exists()


def test_readme_shows_the_headline_figure(page: Path) -> None:
    drawn = Image.open(page.parent / "00-answer.png").convert("L").resize((500, 368))
    shown = Image.open(ROOT / "docs/pictures/headline.png").convert("L").resize((500, 368))
    apart = ImageChops.difference(drawn, shown)
    assert ImageStat.Stat(apart).rms[0] < 4, "run tools/pictures.py: README shows another figure"


def test_studies_of_triggers_and_of_a_design_say_what_they_show(page: Path, tmp_path: Path) -> None:
    (tmp_path / "figures.zip").touch()
    fires = report.build(ROOT / "data" / "triggers", tmp_path, notebooks=[]).read_text("utf-8")
    assert "figures.zip" not in fires and not (tmp_path / "figures.zip").exists()
    assert "Triggering (opaque): just the right skills" in fires
    assert "gives no answer yet" not in fires and "Skill by skill" not in fires
    design = report.build(ROOT / "data" / "execution", tmp_path, notebooks=[], progress=False)
    for words in ("its content by +", "<h3>Content and form</h3>", "24 documents of 6 skills"):
        assert words in design.read_text("utf-8")
    assert "<h3>Content and form</h3>" not in page.read_text("utf-8")  # the pilot has no design


def test_widgets_method_and_long_tables_are_not_shown_at_once(tmp_path: Path) -> None:
    cells = [
        new_markdown_cell("# Q?\n\nLead.\n\nDetails."),
        new_markdown_cell("## Results\n\nFirst.\n\n- a constant"),
        new_code_cell("rows", outputs=[html_output("<table>" + 9 * "<tr><td>1" + "</table>")]),
        new_markdown_cell("## Read\n\nIn JupyterLab, click."),
        new_code_cell("sc.explore.study(own)", outputs=[html_output("<b>widget</b>")]),
        new_markdown_cell("## Method\n\nHow."),
    ]
    path = Path("03-x.ipynb")
    made = chapter_of(new_notebook(cells=cells), path, tmp_path)
    _, lead, results, method = made.sections
    assert "Lead." in lead.shown[0] and "Details." in lead.folded[0]
    assert "First." in results.shown[0] and "a constant" in results.folded[0]
    assert "<details><summary>Table of 8 rows" in render("section-text", section=results)
    assert "JupyterLab" not in str(made) and "widget" not in str(made)
    assert (method.heading, method.shown, method.fold) == ("", [], "Method and constants")


def html_output(html: str) -> nbformat.NotebookNode:
    return nbformat.v4.new_output("display_data", data={"text/html": html})


# What can go wrong


def test_what_is_no_study_and_a_folder_without_notebooks_are_named(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="They come with skillcomp's wheel"):
        find_notebooks(tmp_path)
    with pytest.raises(StudyError, match=r"empty is not a recorded study: it has no manifest"):
        report.build(tmp_path / "empty", tmp_path / "out", progress=False)
    (tmp_path / "table.csv").write_text("case,passed\n1,1\n")
    with pytest.raises(StudyError, match=r"table of your own: sc.report.build\(sc.from_frame\(tab"):
        report.build(tmp_path / "table.csv", tmp_path / "out", progress=False)
    assert not (tmp_path / "out").exists()


def test_a_chapter_that_fails_or_lacks_data_takes_no_other_with_it(executed: Chapters) -> None:
    error = executed.error
    assert error.startswith(f"{executed.page} was built, but 1 of 3 chapters")
    assert "02-fails.ipynb, cell 4: ValueError: <b>no such grader</b>" in error
    text = executed.page.read_text(encoding="utf-8")
    assert "<p>before, by g1 1</p>" in text and "<p>after" not in text
    assert "ends here: report: 02-fails.ipynb, cell 4: ValueError: &lt;b&gt;no" in text
    assert "Traceback" not in text
    assert "<li>Is it corrected? Not shown: there is no gold.</li>" in text
    assert 'class="chapter" id="03' not in text
    cells = nbformat.read(executed.failed, as_version=4).cells
    assert not any(cell.get("outputs") for cell in cells)  # the notebook itself is unchanged


def test_only_errors_of_missing_data_are_shown_and_tagged_cells_go_on(tmp_path: Path) -> None:
    def raising(error: str, *tags: str) -> nbformat.NotebookNode:
        return new_code_cell(f"import skillcomp as sc\nraise {error}", metadata={"tags": [*tags]})

    lacks = "sc.errors.FrameError('<b>no</b> gold.')", "raises-exception"
    cells = raising(*lacks), new_code_cell("print('on')"), raising(lacks[0]), new_code_cell("0")
    path = write(tmp_path / "01-goes-on.ipynb", *cells)
    ran = execute_notebooks.execute(path)
    assert [cell.outputs[0].output_type for cell in ran.cells] == ["error", "stream", "error"]
    assert ran.cells[0].outputs[0].traceback == ["<b>no</b> gold."]
    shown = [
        part for section in chapter_of(ran, path, tmp_path).sections for part in section.folded
    ]
    assert shown.count("<p>Not shown: &lt;b&gt;no&lt;/b&gt; gold.</p>") == 2
    path = write(tmp_path / "02-fails.ipynb", raising("ValueError('no')", "raises-exception"))
    with pytest.raises(StudyError, match=r"02-fails.ipynb, cell 1: ValueError: no"):
        execute_notebooks.execute(path)


def test_a_cell_that_hangs_is_named_and_a_live_one_may_take_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = [
        new_code_cell("LIVE = False", metadata={"tags": ["parameters"]}),
        new_code_cell("import time\ntime.sleep(1.5)\nprint('done')"),
    ]
    monkeypatch.setattr(execute_notebooks, "CELL_TIMEOUT", 1)
    path = write(tmp_path / "09-hangs.ipynb", *cells)
    with pytest.raises(StudyError, match=r"^report: 09-hangs.ipynb, cell 2: .*1 second"):
        execute_notebooks.execute(path)
    live = execute_notebooks.execute(path, parameters={"LIVE": True})
    assert live.cells[-1].outputs[0].text == "done\n"


def test_given_parameters_replace_those_of_the_tagged_cell(tmp_path: Path) -> None:
    untagged = write(tmp_path / "06-untagged.ipynb", new_code_cell("OUT = '.'"))
    with pytest.raises(StudyError, match="no cell tagged 'parameters'"):
        execute_notebooks.execute(untagged, parameters={"OUT": "x"})
    path = write(
        tmp_path / "05-given.ipynb", PARAMETERS, new_code_cell("print(DATA, OUT, sep='|')")
    )
    ran = execute_notebooks.execute(path, parameters={"OUT": 'it\'s "there"\n'})
    assert ran.cells[-1].outputs[0].text == '../data/pilot|it\'s "there"\n\n'
    write_notebooks([path], progress=False)
    book = nbformat.read(path, as_version=4)
    assert [cell.execution_count for cell in book.cells] == [1, 2]
    assert book.cells[-1].outputs[0].text == "../data/pilot|../report\n"


def test_chapters_share_a_kernel_but_no_names(tmp_path: Path) -> None:
    sets = new_code_cell("import os\nown = os.getpid()\nprint(own)")
    fails = new_code_cell("print(own)")  # the name belongs to an earlier chapter
    shows = new_code_cell("print(__import__('os').getpid())")
    dies = new_code_cell("__import__('os')._exit(1)")
    cells = {"01-sets": sets, "02-shows": shows, "03-fails": fails, "04-shows": shows}
    todo: SimpleQueue[Any] = SimpleQueue()
    for name, cell in (cells | {"05-dies": dies}).items():
        todo.put((write(tmp_path / f"{name}.ipynb", PARAMETERS, cell), {}))
    todo.put(None)
    how = {"share_kernel": True, "done": lambda: None}
    with ThreadPoolExecutor(1) as pool:
        books = pool.submit(execute_notebooks.execute_chapters, todo, tmp_path, **how).result()
    first, second, (_, problem), last, (_, death) = books.values()
    pids = [book.cells[-1].outputs[0].text for book, _ in (first, second, last)]
    # a kernel in which a cell failed is not used again
    assert pids[0] == pids[1] != pids[2]
    assert "03-fails.ipynb, cell 2: NameError" in problem
    assert re.search("05-dies.ipynb, cell 2: .*[Kk]ernel died", death)


# A study that the chapters were not recorded on


def test_a_table_reaches_the_chapters_through_a_store_with_paths_made_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(
        tmp_path / "01-reads.ipynb",
        new_markdown_cell("# Does it read?"),
        new_code_cell("DATA = ''\nOUT = ''\nSTORE = ''", metadata={"tags": ["parameters"]}),
        new_code_cell(
            "import skillcomp as sc\ncases = sc.frames.cases(sc.RunStore(DATA))\n"
            "print('cases', len(cases), STORE)\nsc.table(cases).linked(f'{OUT}/01-cases.csv')"
        ),
    )
    monkeypatch.chdir(tmp_path)
    cases = [f"c{at}" for at in range(40)] * 2
    table = pd.DataFrame({"case": cases, "condition": ["baseline"] * 40 + ["skill"] * 40})
    own = from_frame(table.assign(passed=[at % 3 > 0 for at in range(80)]), skill=None)
    own.save(tmp_path / "out" / "study")  # of an earlier page, which this one replaces
    how = {"notebooks": [path], "parameters": {"STORE": "studies/<mine>"}}
    page = report.build(own, Path("out"), progress=False, **how)
    text = page.read_text("utf-8")
    assert f"<p>cases 40 {tmp_path}/studies/&lt;mine&gt;" in text
    assert "Study <strong>your table</strong>" in text
    assert 'href="01-cases.csv"' in text and f"{tmp_path}/out" not in text
    assert len(RunStore(page.parent / "study").table("attempts")) == 80
