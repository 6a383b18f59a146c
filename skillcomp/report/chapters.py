"""Executed notebooks as chapters of a page: harmless HTML, and every figure with its files."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import nbformat
import nh3
from markupsafe import Markup
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from PIL import Image

from skillcomp.report.notebooks import is_injected, title

ENDINGS = ("pdf", "png", "svg", "csv", "json", "txt")
_FOLDED = {"Check the data": "Check of the data", "Claims": "Check of what the text claims"}
_LINE_PX, _LETTERS_A_LINE, _HALF_PAGE_PX, _SHEET_PX = 22, 75, 584, 1500
_HEAD = re.compile(r"\s*(<h[12][ >].*?</h[12]>)(.*)", re.DOTALL)
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


class Code(Markup):
    """The source of a cell, set as code."""


@dataclass
class _Section:
    """A heading, the code of all its cells behind one fold, and what they show."""

    heading: Markup
    cells: list[Code] = field(default_factory=list)
    parts: list[Markup | Figure] = field(default_factory=list)

    @property
    def code(self) -> Markup:
        return _code(self.cells)


@dataclass(frozen=True)
class Chapter:
    """One executed notebook as it stands in the report.

    Attributes
    ----------
    stem, title : str
        File stem of the notebook and its first heading.
    sheets : list of list of _Section
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
    sheets: list[list[_Section]]
    said: tuple[str, ...]
    files: tuple[str, ...]
    number: str
    stopped: str = ""
    elsewhere: str = ""

    @property
    def figures(self) -> list[Figure]:
        """The figures of all its sheets."""
        parts = (part for sheet in self.sheets for one in sheet for part in one.parts)
        return [part for part in parts if isinstance(part, Figure)]

    @property
    def bare(self) -> bool:
        """Whether it ended before its first figure, on a study that it was not written about."""
        return bool(self.stopped and self.elsewhere) and not self.figures


def chapter_of(
    notebook: nbformat.NotebookNode,
    path: Path,
    out: Path,
    said: tuple[str, ...],
    stopped: str,
    elsewhere: str,
) -> Chapter:
    """Make a chapter of an executed notebook; without its text where that is about another study.

    What only checks data or claims stands behind a fold.
    """
    cells = [cell for cell in notebook.cells if not is_injected(cell)]
    parts = list(_folded(cells, path.stem, out, set(), prose=not elsewhere))
    shown = {name for part in parts if isinstance(part, Figure) for _, name in part.files}
    number = path.stem.split("-")[0]
    # a caption stands on the page
    kinds = set(ENDINGS) - {"txt"}
    files = {f.name for f in out.glob(f"{number}-*") if f.suffix[1:] in kinds}
    sections = _sections(parts)
    if elsewhere:  # without its text a section may have nothing to show
        sections = [section for at, section in enumerate(sections) if not at or section.parts]
    sheets, rest, name = _sheets(sections), tuple(sorted(files - shown)), title(notebook, path)
    return Chapter(path.stem, name, sheets, said, rest, number, stopped, elsewhere)


def _folded(
    cells: Sequence[nbformat.NotebookNode], stem: str, out: Path, taken: set[str], *, prose: bool
) -> Iterator[Markup | Figure]:
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
        for part in _cell(cell, stem, out, taken, prose=prose):
            if fold and not isinstance(part, Figure):
                held += _code([part]) if isinstance(part, Code) else part
            else:
                yield part
    if fold and (prose or fold != "Claims"):
        yield _fold(fold, held)


def _sections(parts: Iterable[Markup | Figure]) -> list[_Section]:
    """Put what stands below a heading together."""
    found: list[_Section] = []
    for part in parts:
        rest: Markup | Figure = part
        if isinstance(part, Markup) and (head := _HEAD.match(part)):
            found.append(_Section(Markup(head[1])))
            rest = Markup(head[2])
        elif not found:
            found.append(_Section(Markup("")))
        if isinstance(rest, Code):
            found[-1].cells.append(rest)
        elif isinstance(rest, Figure) or rest.strip():
            found[-1].parts.append(rest)
    return found


def _sheets(sections: Sequence[_Section]) -> list[list[_Section]]:
    """Put sections together until they fill two columns of about a screen."""
    sheets: list[list[_Section]] = []
    room = 0.0
    for section in sections:
        if room <= 0:
            sheets.append([])
            room = _SHEET_PX
        sheets[-1].append(section)
        room -= 2 * _LINE_PX + sum(map(_height, section.parts))
    return sheets


def _height(part: Markup | Figure) -> float:
    """Return about how many pixels a part takes in half a page, with all folds closed."""
    if isinstance(part, Figure):
        return part.high + _LINE_PX * len(part.caption) / _LETTERS_A_LINE
    seen, folds = str(part), 1
    while folds:  # the innermost first
        inner = r"<details(?:(?!<details).)*?</details>"
        seen, folds = re.subn(inner, "", seen, flags=re.DOTALL)
    text = Markup(re.sub(r"<table.*?</table>", "", seen, flags=re.DOTALL)).striptags()
    return _LINE_PX * (seen.count("<tr") + len(text) / _LETTERS_A_LINE)


def _code(cells: Sequence[Code]) -> Markup:
    """Return the code of some cells behind one fold."""
    fold = Markup("<details class='code'><summary>Code</summary>{}</details>")
    return fold.format(Markup("").join(cells)) if cells else Markup("")


def _fold(name: str, held: Markup) -> Markup:
    return Markup("<details class='fold'><summary>{}</summary>{}</details>").format(
        _FOLDED.get(name, name), held
    )


def _cell(
    cell: nbformat.NotebookNode, stem: str, out: Path, taken: set[str], *, prose: bool
) -> Iterable[Markup | Figure]:
    """Yield what a cell shows: its text, or its code and its outputs."""
    if cell.cell_type == "markdown":
        lines = [line for line in cell.source.splitlines() if re.match(r"#{1,6} ", line)]
        source = cell.source if prose else "\n\n".join(lines)
        if source.strip():
            yield Markup(_anchored(_clean(_markdown(source)), stem, taken))
        return
    if cell.cell_type != "code" or not cell.source.strip() or "md.version(" in cell.source:
        return  # versions stand in the provenance of the page
    yield Code("<pre><code>{}</code></pre>").format(cell.source)
    stems = _saved(cell.source, out)
    for output in cell.get("outputs", []):
        shown = output.get("data", {})
        if "image/png" in shown:
            png = base64.b64decode(str(shown["image/png"]))
            drawn = figure_of(png, stems.pop(0) if stems else "", out)
            nothing = Markup("<p class='note'>Not drawn, for want of data: {}</p>")
            yield nothing.format(drawn.caption) if drawn.empty else drawn
        elif html := shown_output(output):
            yield html


def shown_output(output: nbformat.NotebookNode) -> Markup | None:
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


def _markdown(source: str) -> str:
    renderer = IPythonRenderer(escape=False, exclude_anchor_links=True)
    return str(MarkdownWithMath(renderer=renderer).render(source))


def _clean(html: Any) -> str:
    """Keep harmless markup and drop the rest, with the content of scripts and styles."""
    how: Any = {"url_schemes": {"http", "https", "mailto"}, "link_rel": None}
    return nh3.clean(str(html), tags=_TAGS, attributes=_ATTRIBUTES, **how)


def _anchored(body: str, stem: str, taken: set[str]) -> str:
    """Give headings anchors that no other of the page has, and no other element one."""

    def anchor(found: re.Match[str]) -> str:
        slug = re.sub(r"\W+", "-", Markup(found.group(2)).striptags().lower()).strip("-")
        names = (f"{slug}-{n}" if n > 1 else slug for n in count(1))
        taken.add(name := next(one for one in names if one not in taken))
        return f'<h{found.group(1)} id="{stem}--{name}">{found.group(2)}</h{found.group(1)}>'

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


def figure_of(png: bytes, stem: str, out: Path) -> Figure:
    """Return a figure as it stands on the page, with the files that were saved with it."""
    note: dict[str, Any] = {}
    if stem and (out / f"{stem}.json").is_file():
        with suppress(json.JSONDecodeError):
            note = json.loads((out / f"{stem}.json").read_text(encoding="utf-8"))
    frames = list(note.get("frames", {}).values())
    tables = [one.get("file", "") for one in frames]
    names = [f"{stem}.{kind}" for kind in ("pdf", "png", "svg")] + tables + [f"{stem}.json"]
    files = [(name.rsplit(".", 1)[-1], name) for name in names if stem and (out / name).is_file()]
    sides = note.get("size_inches", [6.75, 4])
    # the file is the figure at its own size; what a notebook shows is cropped
    saved = out / f"{stem}.png"
    data = saved.read_bytes() if note and saved.is_file() else png
    return Figure(
        stem=stem,
        pictures=_panels(data, note.get("cut"), float(sides[0])),
        high=min(96 * float(sides[0]), _HALF_PAGE_PX) * float(sides[1]) / float(sides[0]),
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
