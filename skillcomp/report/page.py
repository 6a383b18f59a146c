"""The page of a report: the answer first, the chapters below, every figure with its files."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import pairwise
from os import PathLike
from pathlib import Path
from platform import python_version
from typing import Any

import matplotlib.pyplot as plt
import nbformat
import nh3
from jinja2 import Environment, PackageLoader, Template, select_autoescape
from markupsafe import Markup, escape
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from PIL import Image
from tqdm.auto import tqdm

import skillcomp
from skillcomp import frames, style
from skillcomp.errors import SkillcompError, StudyError, suggest
from skillcomp.frames import Frames
from skillcomp.io.journal import replace
from skillcomp.io.store import RunStore
from skillcomp.report.answering import ON_FIRST_PAGE, Answer, answer
from skillcomp.report.notebooks import (
    NotebookError,
    execute,
    find_notebooks,
    is_injected,
    named_parameters,
    title,
)

ARCHIVE = "figures.zip"
_OWN_TABLE = "your table"  # what a study is called that has no folder
# what build says itself; NEEDS is the frame without whose rows a chapter keeps to its own data
# and to a page of its own
_OWN_PARAMETERS = {"DATA", "OUT", "PILOT", "NEEDS"}
_ENDINGS = ("pdf", "png", "svg", "csv", "json", "txt")
_FOLDED = {"Check the data": "Check of the data", "Claims": "Check of what the text claims"}
_PACKAGES = ("numpy", "pandas", "scipy", "statsmodels", "matplotlib", "seaborn")
_LINE, _LETTERS, _HALF, _SHEET = 22, 75, 584, 1500  # px, letters a line, px of half a page, px
_MARKS = {"teaching": "▲", "harmful": "▼", "redundant": "●", "ineffective": "="}
# the findings that open a chapter when its own text is about another study
_TOPICS = {"02": ("summary", "skill"), "03": ("transfer",), "04": ("limits",)}
_TOPICS |= {"09": ("structure",)}
_TOPICS |= {"05": ("grader", "drift"), "07": ("correction",)}
# what rendered Markdown and tables are made of; any other element is dropped
_TAGS = {
    *("a", "abbr", "b", "blockquote", "br", "caption", "code", "dd", "div", "dl", "dt", "em"),
    *("h1", "h2", "h3", "h4", "h5", "h6", "hr", "i", "li", "ol", "p", "pre", "span", "strong"),
    *("sub", "sup", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "ul"),
    *("details", "mark", "section", "summary"),
}
_ATTRIBUTES = {
    "*": {"class", "id"},
    "a": {"href", "title"},
    "td": {"colspan", "rowspan"},
    "th": {"colspan", "rowspan", "scope"},
}


@dataclass(frozen=True)
class Figure:
    """A figure on the page: its panels with their widths, what it shows, its files by kind.

    ``high`` is its height in pixels where it fills half a page at most; ``empty`` that none of its
    frames has a row.
    """

    stem: str
    pictures: tuple[tuple[str, int], ...]
    high: float
    alt: str
    caption: str
    files: tuple[tuple[str, str], ...]
    empty: bool = False


@dataclass(frozen=True)
class Code:
    """The source of a cell."""

    source: str

    def __html__(self) -> str:
        """Return it behind a fold, as markupsafe asks."""
        return str(_code([self]))


@dataclass(frozen=True)
class _Section:
    """A heading, the code of all its cells behind one fold, and what they show."""

    heading: Markup
    code: Markup
    parts: tuple[Markup | Figure, ...]


@dataclass(frozen=True)
class Chapter:
    """One executed notebook as it stands in the report.

    Attributes
    ----------
    stem, title : str
        File stem of the notebook and its first heading.
    sheets : tuple of tuple of _Section
        Headings with what stands below them, in order; the HTML is sanitised. What is in one sheet
        is set in two columns, about as long as a screen is high.
    said : tuple of str
        Computed sentences that open it, where its own text is about another study.
    files : tuple of str
        Files that the notebook saved beside the page and that stand at no figure.
    number : str
        What the stem begins with, by which texts name the chapter and its files begin.
    stopped : str
        Why the notebook ended before its last cell; empty when it did not.
    elsewhere : str
        The study that its numbers are of, where its text was written about another one; empty
        where it was not.
    """

    stem: str
    title: str
    sheets: tuple[tuple[_Section, ...], ...]
    said: tuple[str, ...]
    files: tuple[str, ...]
    number: str
    stopped: str = ""
    elsewhere: str = ""

    @property
    def bare(self) -> bool:
        """Whether it ended before its first figure, on a study that it was not written about."""
        parts = (part for sheet in self.sheets for one in sheet for part in one.parts)
        stopped = bool(self.stopped and self.elsewhere)
        return stopped and not any(isinstance(part, Figure) for part in parts)


def build(
    data: str | PathLike[str] | Frames,
    out: str | PathLike[str],
    *,
    notebooks: Sequence[Path] | None = None,
    parameters: Mapping[str, object] | None = None,
    groups: Mapping[str, str] | None = None,
    margin: float = 0.1,
    order: str = "effect",
    progress: bool = True,
) -> Path:
    """Write ``index.html``: the answer of a study, and the notebooks executed on a recorded one.

    Parameters
    ----------
    data : str, path or skillcomp.frames.Frames
        Folder of the RunStore, or the frames of a table of one's own, which give the answer only.
    out : str or path
        Folder of the report; made when it is not there.
    notebooks : sequence of pathlib.Path, optional
        By default all notebooks, in order, those that need what this study lacks on pages of
        their own; with none, and for frames, the page is the answer.
    parameters : mapping of str to object, optional
        Other values for what the notebooks name in their cell of parameters, such as
        ``{"GRADER": "forced:claude-opus-5-5"}``; each goes to the notebooks that have it, and
        ``GRADER``, ``MARGIN`` and ``ROUND`` to the answer as well. A ``STORE`` is relative to the
        working directory, as `data` and `out` are.
    groups, margin, order
        As for :func:`answer`.
    progress : bool, default True
        Show progress bars.

    Returns
    -------
    pathlib.Path
        The page. Beside it stand pdf, png, svg, csv and json of every figure, and all of them in
        ``figures.zip``. Of a chapter whose text was written about another study the headings,
        tables and figures are shown, and computed sentences in place of the text; where it needs
        what this study lacks it ends early and says so, unless its parameter ``NEEDS`` names that
        (a frame of its store, or ``design``): then it keeps to the recorded study it is about.

    Raises
    ------
    StudyError
        If the data are not a study, the notebooks are not there or no notebook has a parameter. If
        a cell of a chapter about this study fails, the page is written all the same, with what
        came before that cell and the chapters that did not fail; then the error names every cell
        that did.
    """
    if order not in ("effect", "name"):
        raise StudyError(f"report: order '{order}'; allowed: effect, name.")
    out = Path(out)
    study: RunStore | Frames
    if isinstance(data, Frames):
        if notebooks:
            raise StudyError("report: the notebooks read a recorded study; frames give the answer.")
        paths, folder, study = [], Path(_OWN_TABLE), data
    else:
        paths = list(notebooks) if notebooks is not None else find_notebooks()
        folder = Path(data)
        if not (folder / "manifest.json").is_file():
            raise StudyError(f"report: {folder} is not a recorded study: it has no manifest.json.")
        study = RunStore(folder)
    named = {path: named_parameters(path) for path in paths}
    wanted = dict(parameters or {})
    _require_named(wanted, named.values())
    out.mkdir(parents=True, exist_ok=True)
    wanted |= {"DATA": str(folder.resolve()), "OUT": str(out.resolve())}
    if "STORE" in wanted:
        wanted["STORE"] = str(Path(str(wanted["STORE"])).resolve())
    grader = str(wanted["GRADER"]) if "GRADER" in wanted else None
    margin = _margin(wanted.get("MARGIN", margin))
    round = _round(wanted.get("ROUND", 1), study)
    said, unsaid = _answered(study, grader, groups, margin, order, round)
    fingerprint = study.fingerprint
    figures = _headline(said, out, fingerprint) if said else []
    every: list[Chapter] = []
    apart: dict[str, str] = {}  # chapters on pages of their own, and the studies that they show
    for path in tqdm(paths, desc="report", unit="notebook", disable=not progress):
        own = {name: value for name, value in wanted.items() if name in named[path]}
        about = fingerprint
        if "NEEDS" in named[path] and not _has_rows(study, str(named[path]["NEEDS"])):
            own = {"OUT": wanted["OUT"]}  # what was asked of this study is not meant for another
            about = str(named[path]["PILOT"])
            apart[path.stem] = Path(str(named[path]["DATA"])).name
        elif said and said.grader and named[path].get("PILOT", fingerprint) != fingerprint:
            # the grader that a notebook names is of the study that it was written about
            known = {"GRADER": said.grader.partition(" (")[0]}
            own = {name: known[name] for name in known if name in named[path]} | own
        every.append(_executed(path, own, named[path], folder, out, about, said, progress))
    zipped = _archive(out, ["00-answer"] * bool(figures) + [f"{c.number}-" for c in every])
    template = _template()
    common = {"study": folder.name, "archive": zipped, "version": skillcomp.__version__}
    chapters = [one for one in every if one.stem not in apart and not one.bare]
    held = _held(said, unsaid, fingerprint) | {"figures": figures, "chapters": chapters}
    page = out / "index.html"
    replace(page, template.render(**common, **held, every=every, apart=apart).encode())
    for one in (one for one in every if one.stem in apart):
        alone = template.render(**common, chapters=[one], alone=one, shows=apart[one.stem])
        replace(out / f"{one.stem}.html", alone.encode())
    told = [one.stopped for one in every if one.stopped and not one.elsewhere]
    if told:
        raise StudyError(
            f"{page} was built, but {len(told)} of {len(every)} chapters ended early. "
            + " ".join(told)
        )
    return page


def _has_rows(study: RunStore | Frames, kind: str) -> bool:
    """Tell whether a study has rows of the frame that a chapter is about, or the design."""
    if not isinstance(study, RunStore):
        return False
    return (
        bool(study.manifest.get(kind))
        if kind == "design"
        else not getattr(frames, kind)(study).empty
    )


def _margin(given: object) -> float:
    if isinstance(given, int | float) and 0 < given < 1:
        return float(given)
    raise StudyError(f"report: margin: found {given!r}; allowed: a number above 0 and below 1.")


def _round(given: object, study: RunStore | Frames) -> int:
    """Return which grading counts; refuse one that the study does not hold."""
    if isinstance(study, Frames) or given == 1:
        return 1
    there = sorted(set(study.table("verdicts").column("round").to_pylist()) - {None})
    if isinstance(given, int) and given in there:
        return given
    raise StudyError(
        f"report: there is no round {given}; there: {', '.join(map(str, there)) or 'none'}."
    )


def _answered(
    study: RunStore | Frames,
    grader: str | None,
    groups: Mapping[str, str] | None,
    margin: float,
    order: str,
    round: int,
) -> tuple[Answer | None, str]:
    """Return the answer, or why the study gives none.

    A grader that is not of this study may be one of a notebook's own: the default takes its place.
    """
    how: dict[str, Any] = {"groups": groups, "margin": margin, "order": order, "round": round}
    try:
        try:
            return answer(study, grader=grader, **how), ""
        except StudyError:
            if grader is None:
                raise
            return answer(study, **how), ""
    except SkillcompError as error:
        return None, str(error)


def _require_named(wanted: Mapping[str, object], named: Iterable[Mapping[str, object]]) -> None:
    known = sorted({name for own in named for name in own} - _OWN_PARAMETERS)
    for name in wanted:
        if name not in (*known, "GRADER", "MARGIN", "ROUND"):
            raise StudyError(
                f"report: no notebook has a parameter '{name}'; there: "
                f"{', '.join(known) or 'none'}." + suggest(name, known)
            )


def _executed(
    path: Path,
    own: dict[str, object],
    named: Mapping[str, object],
    data: Path,
    out: Path,
    study: str,
    said: Answer | None,
    progress: bool,
) -> Chapter:
    """Run one notebook and make a chapter of it, however far it came."""
    stopped = ""
    try:
        notebook = execute(path, parameters=own, progress=progress, for_page=True)
    except NotebookError as error:
        notebook, stopped = error.notebook, str(error)
    values = {**named, **own}
    elsewhere = data.name if values.get("PILOT", study) != study else ""
    if values.get("LIVE"):
        elsewhere = Path(str(values.get("STORE", "a live study"))).name
    told: list[str] = []
    if elsewhere and said is not None:
        topics = _TOPICS.get(path.stem[:2], ())
        told = list(said.findings.loc[said.findings["topic"].isin(topics), "sentence"])
    cells = [cell for cell in notebook.cells if not is_injected(cell)]
    parts = list(_folded(cells, path.stem, out, prose=not elsewhere))
    figures = [part for part in parts if isinstance(part, Figure)]
    shown = {name for figure in figures for _, name in figure.files}
    number = path.stem.split("-")[0]
    # a caption stands on the page
    kinds = set(_ENDINGS) - {"txt"}
    files = {f.name for f in out.glob(f"{number}-*") if f.suffix[1:] in kinds}
    rest = tuple(sorted(files - shown))
    sections = _sections(parts)
    if elsewhere:  # without its text a section may have nothing to show
        sections = tuple(s for at, s in enumerate(sections) if not at or s.parts)
    shown_as = _sheets(sections)
    name = title(notebook, path)
    return Chapter(path.stem, name, shown_as, tuple(told), rest, number, stopped, elsewhere)


# Cells


def _folded(
    cells: Sequence[nbformat.NotebookNode], stem: str, out: Path, *, prose: bool
) -> Iterator[Markup | Figure | Code]:
    """Yield what the cells show; what only checks data or claims stands behind a fold."""
    fold, held = "", Markup("")
    for cell in cells:
        heading = re.match(r"#{1,6} +(.+)", cell.source) if cell.cell_type == "markdown" else None
        ends = heading or (fold == "Claims" and cell.cell_type == "markdown")
        if ends and fold:
            if prose or fold != "Claims":  # of a text that is left out nothing is claimed
                yield _fold(fold, held)
            fold, held = "", Markup("")
        if heading and heading.group(1).strip() in _FOLDED:
            fold = heading.group(1).strip()
            rest = cell.source.partition("\n")[2]
            held = Markup(_clean(_markdown(rest))) if prose and rest.strip() else Markup("")
            continue
        for part in _cell(cell, stem, out, prose=prose):
            if fold and not isinstance(part, Figure):
                held += escape(part)
            else:
                yield part
    if fold and (prose or fold != "Claims"):
        yield _fold(fold, held)


def _sections(parts: Sequence[Markup | Figure | Code]) -> tuple[_Section, ...]:
    """Put what stands below a heading together, its code behind one fold."""
    found: list[tuple[Markup, list[Code], list[Markup | Figure]]] = []
    for part in parts:
        rest: Markup | Figure | Code = part
        if isinstance(part, Markup):
            head = re.match(r"\s*(<h[12][ >].*?</h[12]>)(.*)", part, flags=re.DOTALL)
            if head:
                found.append((Markup(head.group(1)), [], []))
                rest = Markup(head.group(2))
        if not found:
            found.append((Markup(""), [], []))
        if isinstance(rest, Code):
            found[-1][1].append(rest)
        elif isinstance(rest, Figure) or rest.strip():
            found[-1][2].append(rest)
    return tuple(_Section(heading, _code(cells), tuple(below)) for heading, cells, below in found)


def _sheets(sections: Sequence[_Section]) -> tuple[tuple[_Section, ...], ...]:
    """Put sections together until they fill two columns of about a screen."""
    sheets: list[list[_Section]] = []
    room = 0.0
    for section in sections:
        if room <= 0:
            sheets.append([])
            room = _SHEET
        sheets[-1].append(section)
        room -= 2 * _LINE + sum(_height(part) for part in section.parts)
    return tuple(map(tuple, sheets))


def _height(part: Markup | Figure) -> float:
    """Return about how many pixels a part takes in half a page, with all folds closed."""
    if isinstance(part, Figure):
        return part.high + _LINE * len(part.caption) / _LETTERS
    seen, folds = str(part), 1
    while folds:  # the innermost first
        inner = r"<details(?:(?!<details).)*?</details>"
        seen, folds = re.subn(inner, "", seen, flags=re.DOTALL)
    text = Markup(re.sub(r"<table.*?</table>", "", seen, flags=re.DOTALL)).striptags()
    return _LINE * (seen.count("<tr") + len(text) / _LETTERS)


def _code(cells: Sequence[Code]) -> Markup:
    """Return the code of some cells behind one fold."""
    if not cells:
        return Markup("")
    held = Markup("").join(Markup("<pre><code>{}</code></pre>").format(c.source) for c in cells)
    fold = "<details class='code'><summary>Code</summary>{}</details>"
    return Markup(fold).format(held)


def _fold(name: str, held: Markup) -> Markup:
    return Markup("<details class='fold'><summary>{}</summary>{}</details>").format(
        _FOLDED.get(name, name), held
    )


def _cell(
    cell: nbformat.NotebookNode, stem: str, out: Path, *, prose: bool
) -> Iterable[Markup | Figure | Code]:
    """Yield what a cell shows: its text, or its code and its outputs."""
    if cell.cell_type == "markdown":
        source = cell.source if prose else _headings(cell.source)
        if source.strip():
            yield Markup(_anchored(_clean(_markdown(source)), stem))
        return
    if cell.cell_type != "code" or not cell.source.strip() or "md.version(" in cell.source:
        return  # versions stand in the provenance of the page
    yield Code(cell.source)
    stems = _saved(cell.source, out)
    for output in cell.get("outputs", []):
        shown = output.get("data", {})
        if "image/png" in shown:
            figure = _figure(str(shown["image/png"]), stems.pop(0) if stems else "", out)
            nothing = Markup("<p class='note'>Not drawn, for want of data: {}</p>")
            yield nothing.format(figure.caption) if figure.empty else figure
        elif html := _output(output):
            yield html


def _output(output: nbformat.NotebookNode) -> Markup | None:
    """Return an output that is no picture as harmless HTML; errors and scripts have none."""
    if output.output_type == "stream":
        text = str(output.text)
        return Markup("<pre>{}</pre>").format(text) if output.name == "stdout" else None
    shown = output.get("data", {})
    widget = "application/vnd.jupyter.widget-view+json" in shown
    if "application/javascript" in shown or (widget and "text/html" not in shown):
        return None
    if "text/html" in shown:
        held = Markup("<div class='table'>{}</div>").format(Markup(_clean(shown["text/html"])))
        # an explorer has its view as it stood there as well: many screens that no text refers to
        return _fold("The explorer as it opens", held) if widget else held
    if "text/markdown" in shown:
        return Markup(_clean(_markdown(str(shown["text/markdown"]))))
    text = shown.get("text/latex") or shown.get("text/plain")
    return Markup("<pre>{}</pre>").format(str(text)) if text else None


def _headings(source: str) -> str:
    return "\n\n".join(line for line in source.splitlines() if re.match(r"#{1,6} ", line))


def _markdown(source: str) -> str:
    renderer = IPythonRenderer(escape=False, exclude_anchor_links=True)
    return str(MarkdownWithMath(renderer=renderer).render(source))


def _clean(html: str | bytes) -> str:
    """Keep harmless markup and drop the rest, with the content of scripts and styles."""
    text = html.decode() if isinstance(html, bytes) else str(html)
    schemes = {"http", "https", "mailto"}
    return nh3.clean(text, tags=_TAGS, attributes=_ATTRIBUTES, url_schemes=schemes, link_rel=None)


def _anchored(body: str, stem: str) -> str:
    """Give headings anchors that are unique over chapters, and no other element one."""

    def anchor(found: re.Match[str]) -> str:
        slug = re.sub(r"\W+", "-", Markup(found.group(2)).striptags().lower()).strip("-")
        return f'<h{found.group(1)} id="{stem}--{slug}">{found.group(2)}</h{found.group(1)}>'

    body = re.sub(r' id="[^"]*"', "", body)
    return re.sub(r"<h([1-6])>(.*?)</h\1>", anchor, body, flags=re.DOTALL)


# Figures


def _saved(source: str, out: Path) -> list[str]:
    """Return the stems of the figures that a cell's code saves, those that are there."""
    stems = []
    for found in re.findall(r"\{OUT\}/([\w.-]+(?:\{\w+\})?)", source):
        pattern = re.sub(r"\{\w+\}", "*", found)
        stems += sorted({file.stem for file in out.glob(f"{pattern}.png")})
    return list(dict.fromkeys(stems))


def _figure(png: str, stem: str, out: Path) -> Figure:
    note: dict[str, Any] = {}
    if stem and (out / f"{stem}.json").is_file():
        try:
            note = json.loads((out / f"{stem}.json").read_text(encoding="utf-8"))
        except json.JSONDecodeError:
            note = {}
    frames = list(note.get("frames", {}).values())
    tables = [one.get("file", "") for one in frames]
    names = [f"{stem}.{kind}" for kind in ("pdf", "png", "svg")] + tables + [f"{stem}.json"]
    files = [(name.rsplit(".", 1)[-1], name) for name in names if stem and (out / name).is_file()]
    sides = note.get("size_inches", [6.75, 4])
    # the file is the figure at its own size; what a notebook shows is cropped
    saved = out / f"{stem}.png"
    data = saved.read_bytes() if note and saved.is_file() else base64.b64decode(png)
    return Figure(
        stem=stem,
        pictures=_panels(data, note.get("cut"), float(sides[0])),
        high=min(96 * float(sides[0]), _HALF) * float(sides[1]) / float(sides[0]),
        alt=str(note.get("alt", "")) or "A figure of this chapter.",
        caption=str(note.get("caption", "")),
        files=tuple(files),
        empty=bool(frames) and not any(one.get("rows", 1) for one in frames),
    )


def _panels(png: bytes, cut: float | None, inches: float) -> tuple[tuple[str, int], ...]:
    """Return the panels of a figure, which a narrow page sets one below the other."""
    wide = round(96 * inches)
    found = []
    with Image.open(io.BytesIO(png)) as whole:
        high = round(whole.height * 2 * wide / whole.width)
        sharp = whole.resize((2 * wide, high)) if whole.width > 2 * wide else whole
        edges = [0, round(sharp.width * cut), sharp.width] if cut else [0, sharp.width]
        for start, end in pairwise(edges):
            held = io.BytesIO()
            sharp.crop((start, 0, end, sharp.height)).save(held, "PNG", optimize=True)
            text = base64.b64encode(held.getvalue()).decode()
            share = (end - start) / sharp.width
            found.append((f"data:image/png;base64,{text}", round(share * wide)))
    return tuple(found)


def _headline(said: Answer, out: Path, fingerprint: str) -> list[Figure]:
    """Save and return the headline figure, in pieces where there are many skills."""
    skills = list(dict.fromkeys(said.headline()["skill"]))
    figures = []
    for start in range(0, len(skills), ON_FIRST_PAGE):
        some = skills[start : start + ON_FIRST_PAGE]
        stem = "00-answer" if not start else f"00-answer-{start // ON_FIRST_PAGE + 1}"
        fig = said.draw(some)
        rows = said.headline()
        lead = "Change in the share of answers that pass, against no skill, on the same cases."
        frames = {"delta": rows[rows["skill"].isin(some)]}
        paths = style.save(fig, out / stem, data=frames, caption=lead, fingerprint=fingerprint)
        plt.close(fig)
        figures.append(_figure(base64.b64encode(paths[1].read_bytes()).decode(), stem, out))
    return figures


def _archive(out: Path, beginnings: Sequence[str]) -> str:
    """Put the files of the figures of this page into one, the same byte for byte for the same.

    Returns its name, or nothing where there are no files; an earlier one is then removed.
    """
    found = (out.glob(f"{start}*") for start in beginnings)
    files = sorted(f for some in found for f in some if f.suffix[1:] in _ENDINGS)
    if not files:
        (out / ARCHIVE).unlink(missing_ok=True)
        return ""
    with zipfile.ZipFile(out / ARCHIVE, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            archive.writestr(zipfile.ZipInfo(file.name), file.read_bytes())
    return ARCHIVE


# The page


def _provenance(said: Answer | None, fingerprint: str) -> list[Any]:
    """Return versions, hashes and seeds, as pairs of what and which."""
    rows = [("Study, sha256", fingerprint), ("Python", python_version())]
    rows += [("skillcomp", skillcomp.__version__)]
    rows += [(name, version(name)) for name in _PACKAGES]
    if said is not None:
        methods = [m for f in said.frames.values() if "method" in f for m in f["method"].dropna()]
        seeds = {seed for m in methods for seed in re.findall(r"seed (\d+)", str(m))}
        rows += [("Seeds", ", ".join(sorted(seeds)) or "no resampling behind these numbers")]
        for name in dict.fromkeys(methods):
            rows.append(("Method", str(name)))
    return rows


def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("skillcomp"),
        autoescape=select_autoescape(),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.tests["figure"] = lambda part: isinstance(part, Figure)
    return environment.get_template("report.html")


def _held(said: Answer | None, unsaid: str, fingerprint: str) -> dict[str, Any]:
    """Return what the first page says, for the template."""
    found: list[Any] = [] if said is None else said.findings.to_dict("records")
    topics: dict[str, list[dict[str, Any]]] = {}
    for row in found:
        sentence = str(row["sentence"]).replace(" %", "\N{NO-BREAK SPACE}%")
        marked = row | {"mark": _MARKS.get(str(row["verdict"]), "?"), "sentence": sentence}
        topics.setdefault(row["topic"], []).append(marked)
    skills = [] if said is None else list(dict.fromkeys(said.headline()["skill"]))
    order = {name: place for place, name in enumerate(skills)}
    topics.get("skill", []).sort(key=lambda row: order.get(row["about"], len(order)))
    digest = hashlib.sha256(json.dumps(found, default=str).encode()).hexdigest()
    return {
        "topics": topics,
        "answered": said,
        "unsaid": unsaid,
        "groups": []
        if said is None
        else [said.groups.get(row["about"], "") for row in topics.get("skill", [])],
        "first": ON_FIRST_PAGE,
        "provenance": [*_provenance(said, fingerprint), ("Sentences, sha256", digest)],
    }
