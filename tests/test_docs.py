"""The documentation site: built without a warning or a network, whole, with links that lead on."""

import doctest
import fcntl
import inspect
import operator
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import browser
import pandas as pd
import pytest
import typer
from pydantic import TypeAdapter

import skillcomp as sc
from skillcomp import cli, lint
from skillcomp.live.study_file import KINDS, StudyFile, entry_class
from skillcomp.pricing import Price

ROOT = Path(__file__).resolve().parent.parent


# the pages of the site that are built here; the other notebooks are built like this one
PAGES = ("*.md", "docs/*.md", "docs/howto/*", "docs/results/*", "docs/api/*", "data/README.md")
PAGES += tuple(f"notebooks/{name}.ipynb" for name in ("00-*", "11-*", "my-study"))
of_the_site = pytest.mark.slow  # building the site takes a minute: `make outputs` runs these tests


class Links(HTMLParser):
    """The anchors of a page, its links, and the files that it loads."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.leads: list[str] = []
        self.loads: list[str] = []
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors.add(values.get("id", ""))
        if tag == "a" and "href" in values:
            self.leads.append(values["href"])
        self.loads += [values[name] for name in ("src", "href") if name in values and tag != "a"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, testrun_uid: str) -> dict[Path, Links]:
    """Build the site once; a second worker waits for it, because both would write docs/api."""
    folder = tmp_path_factory.getbasetemp().parent / f"site-{testrun_uid}"
    folder.mkdir(exist_ok=True)
    out = folder / "html"
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-c", "docs"]
    command += ["-D", f"include_patterns={','.join(PAGES)}", ".", out]
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not out.exists():
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
    assert not (ROOT / "jupyter_execute").exists()
    return {page.resolve(): Links(page) for page in out.rglob("*.html")}


@of_the_site
def test_every_link_inside_the_site_leads_to_a_place_that_is_there(
    site: dict[Path, Links],
) -> None:
    for page, links in site.items():
        for link in [*links.leads, *links.loads]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            if target.parent.name == "notebooks" and target not in site:
                target = ROOT / "notebooks" / f"{target.stem}.ipynb"
            assert target.is_file(), f"{page.name}: {link}"
            if parts.fragment and target in site:
                assert unquote(parts.fragment) in site[target].anchors, f"{page.name}: {link}"


@of_the_site
def test_no_page_loads_anything_from_elsewhere(site: dict[Path, Links]) -> None:
    for page, links in site.items():
        assert not [place for place in links.loads if re.match(r"(https?:)?//", place)], page.name


@of_the_site
def test_every_notebook_has_its_card_and_its_figures(site: dict[Path, Links]) -> None:
    index = next(links for page, links in site.items() if page.match("docs/index.html"))
    pictures = [place for place in index.loads if place.startswith("data:image/png")]
    # my-study has no figure before its reader chooses one
    names = [path.stem for path in sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))]
    assert len(pictures) == len(names)
    for name in names:
        assert f"../notebooks/{name}.html" in index.leads
    pages = [links for page, links in site.items() if page.stem in names]
    assert len(pages) == 2  # those of PAGES
    assert all(any("_images/" in place for place in links.loads) for links in pages)


@of_the_site
def test_every_public_function_and_class_is_in_the_api(site: dict[Path, Links]) -> None:
    anchors = set().union(*(links.anchors for links in site.values()))
    modules = [getattr(sc, name) for name in sc.__all__ if inspect.ismodule(getattr(sc, name))]
    names = {anchor.rpartition(".")[2] for anchor in anchors if "skillcomp." in anchor}
    assert set(sc.__all__) - names - {"live", "__version__"} == set()
    for module in modules:
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isclass(thing) or inspect.isfunction(thing):
                assert f"{module.__name__}.{name}" in anchors


@of_the_site
def test_each_function_has_a_page_that_links_to_pandas_and_has_copy_buttons(
    site: dict[Path, Links],
) -> None:
    pages = {page.stem: links for page, links in site.items() if page.parent.name == "api"}
    paired = pages["skillcomp.deltas.paired"]
    assert "https://pandas.pydata.org/docs/reference/api/pandas.DataFrame.html" in paired.leads
    assert any("copybutton" in place for place in paired.loads)
    for name in sc.plots.__all__:  # each draws, so its page and the gallery show a figure
        figures = [place for place in pages[f"skillcomp.plots.{name}"].loads if "_images" in place]
        assert len(figures) == 1 and figures[0].endswith(f"/skillcomp.plots.{name}.png")
    gallery = next(links for page, links in site.items() if page.stem == "figures")
    for name in sc.plots.__all__:
        assert any(place.endswith(f"/skillcomp.plots.{name}.png") for place in gallery.loads)
        assert f"api/skillcomp.plots.{name}.html#skillcomp.plots.{name}" in gallery.leads


@of_the_site
def test_search_lands_on_functions_and_their_pages_show_figures_without_a_network(
    site: dict[Path, Links], tmp_path: Path
) -> None:
    search = next(page for page in site if page.name == "search.html")
    result = "document.querySelector('#search-results li a')"
    with browser.chromium(tmp_path) as chromium:
        page = chromium.page(f"{search.as_uri()}?q=paired", width=1280)
        page.wait(result)
        assert page.evaluate(f"{result}.textContent") == "paired"
        function = chromium.page(page.evaluate(f"{result}.href"), width=1280)
        signature = function.evaluate("document.querySelector('dt').innerText")
        assert signature.startswith("skillcomp.deltas.paired(")
        plot = chromium.page(search.parent / "docs/api/skillcomp.plots.cases.html", width=390)
        picture = "document.querySelector('article img')"
        assert plot.wait(f"{picture}.complete && {picture}.naturalWidth") > 300
        assert plot.wait("document.querySelectorAll('article button.copybtn').length") >= 1
        for opened in (page, function, plot):
            assert opened.complaints == []
            assert all(place.startswith(("file:", "data:")) for place in opened.requests)


def test_the_table_of_the_study_file_has_every_key_and_default_of_the_code() -> None:
    fields = {"file": StudyFile, "grading": type(StudyFile(store=Path()).grading), "price": Price}
    for group, kinds in KINDS.items():
        fields |= {f"{group[:-1]} {kind}": entry_class(group, kind) for kind in kinds}
    fields["comparator"] = fields.pop("comparator pairwise")
    schemas = {place: TypeAdapter(model).json_schema() for place, model in fields.items()}
    keys = {
        (place, key, "–" if key in model.get("required", ()) else default_text(facts))
        for place, model in schemas.items()
        for key, facts in model["properties"].items()
    }
    text = (ROOT / "docs" / "study-file.md").read_text("utf-8")
    rows = re.findall(r"(?m)^\| ([a-z ]+) \| `(\w+)` \| *`?(.*?)`? *\| .+ \|$", text)
    assert set(rows) == keys and len(rows) == len(keys)


def default_text(facts: dict[str, object]) -> str:
    """Return the default of a key as the table has it."""
    default = facts.get("default")
    if default in (None, []) or default != default:
        return ""
    if isinstance(default, list):
        return f"[{', '.join(default)}]"
    if isinstance(default, bool):
        return str(default).lower()
    return f"{default:.0f}" if isinstance(default, float) else str(default)


def test_every_command_and_function_of_the_source_documents_is_there() -> None:
    """Each name in code style resolves, and each option belongs to its command."""
    text = (ROOT / "docs" / "source-documents.md").read_text("utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ") and "`" in line]
    assert len(rows) > 50
    program = typer.main.get_command(cli.app)
    rules = set(lint.RULES)
    for row in rows:
        cell = row.rstrip("| ").rpartition(" | ")[2]
        names = [
            name for name in re.findall(r"`([^`]+)`", cell) if name.startswith(("sc.", "skill"))
        ]
        assert names, row
        for name in names:
            first, *words = name.split()
            if first != "skillcomp":
                assert operator.attrgetter(first.removeprefix("sc."))(sc) is not None
                continue
            command = program
            while hasattr(command, "commands"):
                command = command.commands[words.pop(0)]
            options = {o for part in command.params for o in (*part.opts, *part.secondary_opts)}
            assert set(words) <= options, name
        if found := re.search(r"\(rules? (.+?)\)", cell):
            assert set(re.findall(r"`(\w+)`", found[1])) <= rules


def test_the_examples_of_the_source_documents_print_what_the_page_shows() -> None:
    page = ROOT / "docs" / "source-documents.md"
    results = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
    assert results.failed == 0 and results.attempted > 15


def test_the_power_that_readme_and_overview_state_was_measured() -> None:
    folder = ROOT / "docs/intervals"
    power = pd.read_csv(folder / "power.csv").query("method == 'adaptive'").set_index("design")
    words = pd.read_csv(folder / "words.csv").set_index("design")
    shown = [
        power.loc["20 x 3, delta .3", "power"],
        power.loc["10 cases x 3 attempts, delta .3", "power"],
        words.loc["ten skills of 14 x 2, four gain 31 points", "shown"],
    ]
    first, second, third = (f"{100 * share:.0f}" for share in shown)
    small = f"30 points in {first} of 100 studies, 10 cases in {second}."
    several = f"{third} of 100 gains are shown"
    for name in ("README.md", "docs/overview.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert small in text and several in text, name
