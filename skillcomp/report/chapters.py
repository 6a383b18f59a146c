"""Make chapters of a page from executed notebooks: sanitised HTML, and figures with files."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup
from PIL import Image

from skillcomp.errors import extra_imports
from skillcomp.report.notebooks import is_injected, title

if TYPE_CHECKING:
    import nbformat

ENDINGS = ("pdf", "png", "svg", "csv", "json", "txt")
_LINE_PX, _LETTERS_A_LINE, _HALF_PAGE_PX, _SHEET_PX = 22, 75, 584, 1500
_HEAD = re.compile(r"\s*(<h[12][ >].*?</h[12]>)(.*)", re.DOTALL)
# The HTML elements that Markdown and tables need. All other elements are dropped for safety.
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
    """A figure on the page: its panels with their widths, its texts, and its files by kind.

    ``high`` is the height in pixels if the width is limited to half a page. ``empty``
    means that none of the frames behind the figure has a row.
    """

    stem: str
    pictures: tuple[tuple[str, int], ...]
    high: float
    alt: str
    caption: str
    files: tuple[tuple[str, str], ...]
    empty: bool = False


class Code(Markup):
    """The source code of a cell as HTML."""


@dataclass
class _Section:
    """A heading, the code of the cells below it, and the texts and outputs of these cells."""

    heading: Markup
    cells: list[Code] = field(default_factory=list)
    parts: list[Markup | Figure] = field(default_factory=list)

    @property
    def code(self) -> Markup:
        return _fold_code(self.cells)


@dataclass(frozen=True)
class Chapter:
    """An executed notebook as a part of the page.

    Attributes
    ----------
    stem, title : str
        File stem of the notebook and its first heading.
    sheets : list of list of _Section
        Headings with their content, in order, as sanitised HTML. Each sheet is laid out in two
        columns and is about as high as a screen.
    files : tuple of str
        Files that the notebook saved and that belong to no figure on the page.
    number : str
        The number at the start of the stem; the names of the saved files start with it too.
    stopped : str
        The error that ended the notebook early; empty if it ran to its end.
    """

    stem: str
    title: str
    sheets: list[list[_Section]]
    files: tuple[str, ...]
    number: str
    stopped: str = ""

    @property
    def figures(self) -> list[Figure]:
        """The figures of all sheets of the chapter."""
        parts = (part for sheet in self.sheets for section in sheet for part in section.parts)
        return [part for part in parts if isinstance(part, Figure)]


def chapter_of(
    notebook: nbformat.NotebookNode, path: Path, out: Path, stopped: str = ""
) -> Chapter:
    """Make a chapter from an executed notebook."""
    cells = [cell for cell in notebook.cells if not is_injected(cell)]
    taken: set[str] = set()
    parts = [part for cell in cells for part in _parts_of_cell(cell, path.stem, out, taken)]
    on_page = {name for part in parts if isinstance(part, Figure) for _, name in part.files}
    number = path.stem.split("-")[0]
    kinds = set(ENDINGS) - {"txt"}  # txt files hold captions, which are already on the page
    files = {f.name for f in out.glob(f"{number}-*") if f.suffix[1:] in kinds}
    sheets, apart = _fill_sheets(_sections_of(parts)), sorted(files - on_page)
    return Chapter(path.stem, title(notebook, path), sheets, tuple(apart), number, stopped)


def _sections_of(parts: Iterable[Markup | Figure]) -> list[_Section]:
    """Group the parts of a chapter into sections, one per heading."""
    sections: list[_Section] = []
    for part in parts:
        rest: Markup | Figure = part
        if isinstance(part, Markup) and (head := _HEAD.match(part)):
            sections.append(_Section(Markup(head[1])))
            rest = Markup(head[2])
        elif not sections:
            sections.append(_Section(Markup("")))
        if isinstance(rest, Code):
            sections[-1].cells.append(rest)
        elif isinstance(rest, Figure) or rest.strip():
            sections[-1].parts.append(rest)
    return sections


def _fill_sheets(sections: Sequence[_Section]) -> list[list[_Section]]:
    """Group sections into sheets, each about as high as a screen if set in two columns."""
    sheets: list[list[_Section]] = []
    room = 0.0
    for section in sections:
        if room <= 0:
            sheets.append([])
            room = _SHEET_PX
        sheets[-1].append(section)
        room -= 2 * _LINE_PX + sum(map(_height_in_pixels, section.parts))
    return sheets


def _height_in_pixels(part: Markup | Figure) -> float:
    """Estimate the height in pixels of a part that is half a page wide, with folds closed."""
    if isinstance(part, Figure):
        return part.high + _LINE_PX * len(part.caption) / _LETTERS_A_LINE
    seen, folds = str(part), 1
    while folds:  # a fold can contain folds, so remove the innermost ones first
        inner = r"<details(?:(?!<details).)*?</details>"
        seen, folds = re.subn(inner, "", seen, flags=re.DOTALL)
    text = Markup(re.sub(r"<table.*?</table>", "", seen, flags=re.DOTALL)).striptags()
    return _LINE_PX * (seen.count("<tr") + len(text) / _LETTERS_A_LINE)


def _fold_code(cells: Sequence[Code]) -> Markup:
    """Return the code of cells as one closed fold; empty if there are no cells."""
    fold = Markup("<details class='code'><summary>Code</summary>{}</details>")
    return fold.format(Markup("").join(cells)) if cells else Markup("")


def _parts_of_cell(
    cell: nbformat.NotebookNode, stem: str, out: Path, taken: set[str]
) -> Iterable[Markup | Figure]:
    """Yield the contents of a cell: its text, or its code and outputs."""
    if cell.cell_type == "markdown":
        if cell.source.strip():
            text = _harmless_html(_markdown_as_html(cell.source))
            yield Markup(_with_anchors(text, stem, taken))
        return
    if cell.cell_type != "code" or not cell.source.strip() or "md.version(" in cell.source:
        return  # the end of the page lists the versions
    yield Code("<pre><code>{}</code></pre>").format(cell.source)
    stems = _saved_stems(cell.source, out)
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        if "image/png" in data:
            png = base64.b64decode(str(data["image/png"]))
            drawn = figure_of(png, stems.pop(0) if stems else "", out)
            nothing = Markup("<p class='note'>Not drawn, for want of data: {}</p>")
            yield nothing.format(drawn.caption) if drawn.empty else drawn
        elif html := shown_output(output):
            yield html


def shown_output(output: nbformat.NotebookNode) -> Markup | None:
    """Return an output that is no picture as sanitised HTML; None for errors and scripts."""
    if output.output_type == "stream":
        text = str(output.text)
        return Markup("<pre>{}</pre>").format(text) if output.name == "stdout" else None
    data = output.get("data", {})
    widget = "application/vnd.jupyter.widget-view+json" in data
    if "application/javascript" in data or (widget and "text/html" not in data):
        return None
    if "text/html" in data:
        table = Markup("<div class='table'>{}</div>").format(_harmless_html(data["text/html"]))
        # fold the recorded view of an explorer, because it is long and the text does not refer to
        # it
        explorer = widget or "scx-still" in data["text/html"]
        fold = "<details class='fold'><summary>The explorer as it opens</summary>{}</details>"
        return Markup(fold).format(table) if explorer else table
    if "text/markdown" in data:
        return _harmless_html(_markdown_as_html(str(data["text/markdown"])))
    text = data.get("text/latex") or data.get("text/plain")
    return Markup("<pre>{}</pre>").format(str(text)) if text else None


def _markdown_as_html(source: str) -> str:
    with extra_imports("lab", "a chapter"):
        from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
    renderer = IPythonRenderer(escape=False, exclude_anchor_links=True)
    return str(MarkdownWithMath(renderer=renderer).render(source))


def _harmless_html(html: Any) -> Markup:
    """Keep only harmless markup; the content of scripts and styles is removed, too."""
    with extra_imports("lab", "a chapter"):
        import nh3
    how: Any = {"url_schemes": {"http", "https", "mailto"}, "link_rel": None}
    return Markup(nh3.clean(str(html), tags=_TAGS, attributes=_ATTRIBUTES, **how))


def _with_anchors(body: str, stem: str, taken: set[str]) -> str:
    """Give each heading a unique id, and remove all other ids."""

    def anchor(match: re.Match[str]) -> str:
        slug = re.sub(r"\W+", "-", Markup(match.group(2)).striptags().lower()).strip("-")
        names = (f"{slug}-{n}" if n > 1 else slug for n in count(1))
        taken.add(name := next(free for free in names if free not in taken))
        return f'<h{match.group(1)} id="{stem}--{name}">{match.group(2)}</h{match.group(1)}>'

    body = re.sub(r' id="[^"]*"', "", body)
    return re.sub(r"<h([1-6])>(.*?)</h\1>", anchor, body, flags=re.DOTALL)


def _saved_stems(source: str, out: Path) -> list[str]:
    """Return the file stems of the figures that a cell's code saves and that exist in `out`."""
    stems = []
    for name in re.findall(r"\{OUT\}/([\w.-]+(?:\{\w+\})?)", source):
        pattern = re.sub(r"\{\w+\}", "*", name)
        stems += sorted({file.stem for file in out.glob(f"{pattern}.png")})
    return list(dict.fromkeys(stems))


def figure_of(png: bytes, stem: str, out: Path) -> Figure:
    """Make a figure for the page from a picture and the files that were saved with the picture."""
    note: dict[str, Any] = {}
    if stem and (out / f"{stem}.json").is_file():
        with suppress(json.JSONDecodeError):
            note = json.loads((out / f"{stem}.json").read_text(encoding="utf-8"))
    frames = list(note.get("frames", {}).values())
    tables = [frame.get("file", "") for frame in frames]
    names = [f"{stem}.{kind}" for kind in ("pdf", "png", "svg")] + tables + [f"{stem}.json"]
    files = [(name.rsplit(".", 1)[-1], name) for name in names if stem and (out / name).is_file()]
    sides = note.get("size_inches", [6.75, 4])
    # prefer the saved picture, because notebooks crop theirs
    saved = out / f"{stem}.png"
    data = saved.read_bytes() if note and saved.is_file() else png
    return Figure(
        stem=stem,
        pictures=_cut_panels(data, note.get("cut"), float(sides[0])),
        high=min(96 * float(sides[0]), _HALF_PAGE_PX) * float(sides[1]) / float(sides[0]),
        alt=str(note.get("alt", "")) or "A figure of this chapter.",
        caption=str(note.get("caption", "")),
        files=tuple(files),
        empty=bool(frames) and not any(frame.get("rows", 1) for frame in frames),
    )


def _cut_panels(png: bytes, cut: float | None, inches: float) -> tuple[tuple[str, int], ...]:
    """Cut a figure into its panels, so that a narrow page can show one below the other."""
    wide = round(96 * inches)
    panels = []
    with Image.open(io.BytesIO(png)) as whole:
        high = round(whole.height * 2 * wide / whole.width)
        sharp = whole.resize((2 * wide, high)) if whole.width > 2 * wide else whole
        edges = [0, round(sharp.width * cut), sharp.width] if cut else [0, sharp.width]
        for start, end in pairwise(edges):
            buffer = io.BytesIO()
            sharp.crop((start, 0, end, sharp.height)).save(buffer, "PNG", optimize=True)
            text = base64.b64encode(buffer.getvalue()).decode()
            share = (end - start) / sharp.width
            panels.append((f"data:image/png;base64,{text}", round(share * wide)))
    return tuple(panels)
