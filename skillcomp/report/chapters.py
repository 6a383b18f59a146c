"""Chapters of a page: find notebooks; make sanitised HTML, figures and files of executed ones."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup
from PIL import Image

from skillcomp.errors import StudyError, extra_imports
from skillcomp.io.files import shipped

if TYPE_CHECKING:
    import nbformat

INJECTED = "injected-parameters"
_OWN_DATA = ("00-", "11-")  # The tutorial and the published studies use their own data.
NOT_SHOWN = "Not shown: "  # The sentence that replaces an analysis without data starts with this.
_EXPLORER = "sc.explore."


class NotebookError(StudyError):
    """A cell of a notebook failed.

    Attributes
    ----------
    notebook : nbformat.NotebookNode
        The notebook up to the failed cell. The outputs of the failed cell are removed.
    """

    def __init__(self, message: str, notebook: nbformat.NotebookNode) -> None:
        super().__init__(message)
        self.notebook = notebook


def find_notebooks(folder: Path | None = None, *, every: bool = False) -> list[Path]:
    """Return the notebooks that are the chapters of the page, in order.

    Parameters
    ----------
    folder : pathlib.Path, optional
        Folder of the notebooks; by default the one in the checkout or the installed package.
    every : bool, default False
        Include the notebooks that are not chapters: the tutorial ``00-...``, the published studies
        ``11-...`` and ``my-study.ipynb``.

    Returns
    -------
    list of pathlib.Path
        Notebooks with names that start with two digits and a hyphen, sorted by name; with `every`,
        ``my-study.ipynb`` is the last one.

    Raises
    ------
    StudyError
        If there are no notebooks.
    """
    where = folder or shipped("notebooks")
    paths = sorted(where.glob("[0-9][0-9]-*.ipynb"))
    if not paths:
        raise StudyError(
            f"report: there are no notebooks in {where}. They come with skillcomp's wheel and with "
            "its source checkout."
        )
    if every:
        return [*paths, *where.glob("my-study.ipynb")]
    return [path for path in paths if not path.name.startswith(_OWN_DATA)]


def is_injected(cell: nbformat.NotebookNode) -> bool:
    """Return whether `execute` inserted the cell."""
    return INJECTED in cell.metadata.get("tags", [])


def title(notebook: nbformat.NotebookNode, path: Path) -> str:
    """Return the first top-level heading of a notebook; without one, the stem of its file."""
    for cell in notebook.cells:
        if cell.cell_type == "markdown" and (match := re.match(r"#\s+(.+)", cell.source)):
            return str(match.group(1)).strip()
    return path.stem


def blank_explorers(notebook: nbformat.NotebookNode) -> None:
    """Clear the cells that show a widget, and the text before them: a page has no widgets."""
    for before, cell in pairwise(notebook.cells):
        if cell.cell_type == "code" and _EXPLORER in cell.source:
            cell.source, cell.outputs = "", []
            if before.cell_type == "markdown":
                before.source = re.split(r"(?m)^## .*(?!(?:.|\n)*^## )", before.source)[0]


ENDINGS = ("pdf", "png", "svg", "csv", "json", "txt", "tex")
# text of the button that unfolds the rest of a section; `_FOLDS` has other texts for some headings
_METHOD = "Method and constants"
_TABLE = "<div class='table'>"
_FOLDS = {"Method": _METHOD, "Limits": "Limits"}
_ATTRIBUTES = {
    "*": {"class"},
    "a": {"href", "title"},
    "td": {"colspan", "rowspan"},
    "th": {"colspan", "rowspan", "scope"},
}


@dataclass(frozen=True)
class Figure:
    """A figure on the page: its picture with its width, its texts, and its files by kind.

    ``empty`` means that none of the frames behind the figure has a row. ``svg`` is the drawing as
    SVG, in which pointing at a part shows its title; it is empty if no part has a title.
    ``narrow`` is the same figure drawn for a phone.
    """

    stem: str
    picture: str
    width: int
    alt: str
    caption: str
    files: tuple[tuple[str, str], ...]
    empty: bool = False
    svg: str = ""
    narrow: Figure | None = None


@dataclass
class _Section:
    """A heading, the content shown below it, and the folded content.

    Code in the shown content is visible only on request. ``fold`` is the text of the button that
    unfolds the folded content.
    """

    heading: str = ""
    fold: str = _METHOD
    shown: list[Markup | Figure] = field(default_factory=list)
    folded: list[Markup | Figure] = field(default_factory=list)


@dataclass(frozen=True)
class Chapter:
    """An executed notebook as a part of the page.

    Attributes
    ----------
    stem, title : str
        File stem of the notebook and its first heading.
    sections : list of _Section
        Headings with their content, in order, as sanitised HTML.
    files : tuple of str
        Files that the notebook saved and that belong to no figure on the page.
    number : str
        The number at the start of the stem; the names of the saved files start with it too.
    stopped : str
        The error that ended the notebook early; empty if it ran to its end.
    lacking : str
        What the study lacks, if the notebook shows nothing else; otherwise empty.
    """

    stem: str
    title: str
    sections: list[_Section]
    files: tuple[str, ...]
    number: str
    stopped: str = ""
    lacking: str = ""

    @property
    def figures(self) -> list[Figure]:
        """The figures of all sections of the chapter."""
        parts = (part for one in self.sections for part in (*one.shown, *one.folded))
        return [part for part in parts if isinstance(part, Figure)]


def chapter_of(
    notebook: nbformat.NotebookNode,
    path: Path,
    out: Path,
    stopped: str = "",
) -> Chapter:
    """Make a chapter from an executed notebook."""
    blank_explorers(notebook)
    sections = [_Section()]
    messages: list[str] = []
    taken: set[str] = set()
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            pieces = re.split(r"(?m)^(##? .*)$", cell.source)
            for heading, text in zip(["", *pieces[1::2]], pieces[::2], strict=True):
                if heading:
                    html = _as_safe_html(heading)
                    words = _FOLDS.get(html.striptags(), "")
                    slug = re.sub(r"\W+", "-", html.striptags().lower()).strip("-")
                    names = (f"{slug}-{n}" if n > 1 else slug for n in count(1))
                    taken.add(name := next(free for free in names if free not in taken))
                    opening = rf'<h\1 id="{path.stem}--{name}"'
                    anchored = Markup(re.sub("^<h([12])", opening, str(html).strip()))
                    sections.append(_Section("" if words else anchored, words or _METHOD))
                _add_text(sections[-1], text)
        elif cell.cell_type == "code" and cell.source.strip() and not is_injected(cell):
            if "md.version(" in cell.source:
                continue  # the versions are already at the end of the page
            section = sections[-1]
            code = Markup("<pre class='code'><code>{}</code></pre>").format(cell.source)
            parts = list(_parts_of_outputs(cell, out))
            messages += ["" if isinstance(part, Figure) else part.striptags() for part in parts]
            (section.shown if section.heading else section.folded).extend([code, *parts])
    number, lacking = path.stem.split("-")[0], ""
    if messages and all(text.startswith(NOT_SHOWN) for text in messages):
        lacking = messages[0].removeprefix(NOT_SHOWN)
    chapter = Chapter(path.stem, title(notebook, path), sections, (), number, stopped, lacking)
    drawn = {name for figure in chapter.figures for _, name in figure.files}
    kinds = set(ENDINGS) - {"txt", "tex"}  # the page already shows the captions in .txt and .tex
    files = {f.name for f in out.glob(f"{number}-*") if f.suffix[1:] in kinds}
    return replace(chapter, files=tuple(sorted(files - drawn)))


def _add_text(section: _Section, text: str) -> None:
    """Show a paragraph that directly follows a heading; fold all other text."""
    first, _, rest = text.strip().partition("\n\n")
    if section.shown or not section.heading or first.startswith(("-", "*", "|")):
        first, rest = "", text.strip()
    section.shown += [_as_safe_html(first)] if first else []
    section.folded += [_as_safe_html(rest)] if rest else []


def _parts_of_outputs(cell: nbformat.NotebookNode, out: Path) -> Iterable[Markup | Figure]:
    """Yield the figures, tables and texts that a cell shows."""
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
    """Return a text, a table or an error's message as sanitised HTML; None for widgets, scripts."""
    if output.output_type == "error":  # `execute` keeps errors of missing data alone
        return Markup("<p>{}{}</p>").format(NOT_SHOWN, output.evalue)
    if output.output_type == "stream":
        text = str(output.text).strip("\n")
        lines = Markup("<pre>{}</pre>" if "\n" in text else "<p>{}</p>")
        return lines.format(text) if output.name == "stdout" else None
    data = output.get("data", {})
    if {"application/javascript", "application/vnd.jupyter.widget-view+json"} & set(data):
        return None
    if "text/html" in data:
        return Markup(f"{_TABLE}{{}}</div>").format(_harmless_html(str(data["text/html"])))
    if "text/markdown" in data:
        return _as_safe_html(str(data["text/markdown"]))
    text = data.get("text/latex") or data.get("text/plain")
    return Markup("<pre>{}</pre>").format(str(text)) if text else None


def _as_safe_html(markdown: str) -> Markup:
    with extra_imports("lab", "a chapter"):
        from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
    renderer = IPythonRenderer(escape=False, exclude_anchor_links=True)
    return _harmless_html(MarkdownWithMath(renderer=renderer).render(markdown))


def _harmless_html(html: Any) -> Markup:
    """Keep only harmless markup; the content of scripts and styles is removed, too."""
    with extra_imports("lab", "a chapter"):
        import nh3
    return Markup(
        nh3.clean(
            str(html),
            tags=nh3.ALLOWED_TAGS - {"img"} | {"section", "tfoot"},
            attributes=_ATTRIBUTES,
            url_schemes={"http", "https", "mailto"},
            link_rel=None,
        )
    )


def _saved_stems(source: str, out: Path) -> list[str]:
    """Return the file stems of the figures that a cell's code saves and that exist in `out`."""
    stems = []
    for name in re.findall(r"\{OUT\}/([\w.-]+(?:\{\w+\})?)", source):
        pattern = re.sub(r"\{\w+\}", "*", name)
        stems += sorted({file.stem for file in out.glob(f"{pattern}.png")})
    return list(dict.fromkeys(stems))


def figure_of(png: bytes, stem: str, out: Path) -> Figure:
    """Make a figure for the page from a picture and the files that were saved with the picture."""
    note = {}
    if stem and (out / f"{stem}.json").is_file():
        with suppress(json.JSONDecodeError):
            note = json.loads((out / f"{stem}.json").read_text(encoding="utf-8"))
    frames = list(note.get("frames", {}).values())
    tables = [frame.get("file", "") for frame in frames]
    names = [f"{stem}.{kind}" for kind in ("pdf", "png", "svg")] + tables + [f"{stem}.json"]
    files = [(name.rsplit(".", 1)[-1], name) for name in names if stem and (out / name).is_file()]
    sides = note.get("size_inches", [6.75, 4])
    # prefer the saved picture, because a notebook crops the picture that it shows
    saved = out / f"{stem}.png"
    data = saved.read_bytes() if note and saved.is_file() else png
    width = round(96 * float(sides[0]))
    return Figure(
        stem=stem,
        picture=_picture_url(data, width),
        width=width,
        alt=str(note.get("alt", "")) or "A figure of this chapter.",
        caption=str(note.get("caption", "")),
        files=tuple(files),
        empty=bool(frames) and not any(frame.get("rows", 1) for frame in frames),
        svg=_svg_with_titles(out / f"{stem}.svg") if note else "",
    )


def _svg_with_titles(file: Path) -> str:
    """Return a saved drawing as markup; empty if no part has a title or there is no file.

    The file was written by this library, which escapes all texts. Only ids that the drawing itself
    refers to are kept; the name of the file is put before each of them.
    """
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    if "<title>" not in text:
        return ""
    drawing = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.S)
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', drawing))
    drawing = re.sub(r' id="([^"]*)"', lambda m: m[0] if m[1] in used else "", drawing)
    return Markup(re.sub(r'(href="#|url\(#| id=")', rf"\g<1>{file.stem}-", drawing))


def _picture_url(png: bytes, width: int) -> str:
    """Return a picture as a URL, with two pixels for each pixel of its width on the page."""
    with Image.open(io.BytesIO(png)) as whole:
        high = round(whole.height * 2 * width / whole.width)
        sharp = whole.resize((2 * width, high)) if whole.width > 2 * width else whole
        buffer = io.BytesIO()
        sharp.save(buffer, "PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"
