"""The documentation site: pages, notebooks with their stored outputs, and the API.

``make docs`` reads the files in the root of the checkout; nothing is copied or executed.
"""

import base64
import contextlib
import functools
import html
import inspect
import io
import itertools
import pydoc
import re
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import nbformat
from docutils import nodes
from PIL import Image
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.docutils import SphinxDirective

import skillcomp

ROOT = Path(__file__).resolve().parent.parent
MODULES = [
    module for name in skillcomp.__all__ if inspect.ismodule(module := getattr(skillcomp, name))
]
FILES = {  # where file names ignore case, report.Answer and report.answer would be one file
    f"{module.__name__}.{name}": f"{module.__name__}.{name}-class"
    for module in MODULES
    for name in module.__all__
    if name != name.lower() and name.lower() in module.__all__
}
_, SETUP, *CELLS = re.split(r"(?m)^# %%(.*)\n", (ROOT / "docs/figures.py").read_text("utf-8"))[1:]
DRAWINGS = {name.strip(): code.strip() for name, code in zip(CELLS[::2], CELLS[1::2], strict=True)}
LINKS = {  # types in docstrings; nothing is downloaded to find their pages
    "pandas.DataFrame": "https://pandas.pydata.org/docs/reference/api/pandas.DataFrame.html",
    "pandas.Series": "https://pandas.pydata.org/docs/reference/api/pandas.Series.html",
    "numpy.ndarray": "https://numpy.org/doc/stable/reference/generated/numpy.ndarray.html",
    "matplotlib.axes.Axes": "https://matplotlib.org/stable/api/axes_api.html#matplotlib.axes.Axes",
    "matplotlib.figure.Figure": (
        "https://matplotlib.org/stable/api/figure_api.html#matplotlib.figure.Figure"
    ),
    "pathlib.Path": "https://docs.python.org/3/library/pathlib.html#pathlib.Path",
}
mpl.use("Agg")
mpl.set_loglevel("warning")
SIDEBARS: dict[str, str] = {}  # those written so far; each takes half a second to make
TYPES = re.compile(rf"(?<![\w.`])(?:{'|'.join(map(re.escape, LINKS))})(?![\w.`])")

project, author, version = "skillcomp", "skillcomp", skillcomp.__version__
root_doc = "docs/index"
include_patterns = ["*.md", "docs/*.md", "docs/howto/*", "docs/results/*", "docs/api/*"]
include_patterns += ["data/README.md", "notebooks/*.ipynb"]
exclude_patterns = [".*", "build", "site", "report", "my-study", "skillcomp", "tests", "**/.*"]
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
templates_path = [str(ROOT / "docs/_templates")]

nb_render_error_lexer = "none"  # the error of a cell that lacks data is a sentence
nb_execution_mode = "off"
nb_ipywidgets_js: dict[str, object] = {}  # no scripts from other hosts
myst_heading_anchors = 3

autosummary_ignore_module_all = False  # all exported names, wherever they are defined
autosummary_imported_members = True
autosummary_filename_map = FILES
autodoc_default_options = {"members": True}
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings describe types: columns, units, shapes
napoleon_google_docstring = False
napoleon_use_param = napoleon_use_rtype = False  # types are words, not names to link
nitpicky = True  # an unresolved reference is a warning, which fails `make docs`
nitpick_ignore_regex = [("py:class", ".*")]  # words in types, such as "shape" or "optional"

html_theme = "furo"
html_title = f"skillcomp {version}"
html_static_path = html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False
html_show_search_summary = False  # a page that is opened as a file may not fetch others


class Gallery(SphinxDirective):
    """Cards of the notebooks, each with title and first figure."""

    def run(self) -> list[nodes.Node]:
        """Make the cards of all notebooks, in order."""
        here = self.env.app.builder
        cards = []
        for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
            self.env.note_dependency(str(path))
            notebook = nbformat.read(path, as_version=4)
            outputs = itertools.chain(*(cell.get("outputs", []) for cell in notebook.cells))
            pictures = [
                output["data"]["image/png"]
                for output in outputs
                if "image/png" in output.get("data", {})
            ]
            if not pictures:  # my-study draws only what its reader chooses
                continue
            link = here.get_relative_uri(self.env.docname, f"notebooks/{path.stem}")
            title = html.escape(notebook.cells[0].source.splitlines()[0].lstrip("# "))
            cards.append(f'<a href="{link}"><img alt="" src="{thumbnail(pictures[0])}">{title}</a>')
        cards_html = f'<div class="gallery">{"".join(cards)}</div>'
        return [nodes.raw("", cards_html, format="html")]


class Drawing(SphinxDirective):
    """Figure of a function and its code; without a name, the figures of all functions."""

    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Draw the figure, or none for a function that does not draw."""
        self.env.note_dependency(str(ROOT / "docs/figures.py"))
        if self.arguments:
            name = self.arguments[0]
            frames = "The first lines of :doc:`/docs/figures` load the frames."
            drawn_here = name in DRAWINGS
            return [*self.figure(name), *self.parse_text_to_nodes(frames)] if drawn_here else []
        return [self.code(SETUP.strip()), *map(self.section, DRAWINGS)]

    def section(self, name: str) -> nodes.section:
        """Return the figure of a function below its name, which links to its page."""
        (link,) = self.parse_text_to_nodes(f"{{py:func}}`{name}`")
        title = nodes.title("", "", *link.children)
        return nodes.section("", title, *self.figure(name), ids=[nodes.make_id(name)])

    def figure(self, name: str) -> list[nodes.Node]:
        """Return the picture of a function and the code that draws it."""
        alt = f"Figure drawn by {name} from recorded data"
        return [nodes.image(uri=drawn(name), alt=alt), self.code(DRAWINGS[name])]

    def code(self, text: str) -> nodes.literal_block:
        """Return Python code as a block."""
        return nodes.literal_block(text, text, language="python")


@functools.cache
def drawn(name: str) -> str:
    """Draw the figure of a function once and return its path in the sources."""
    path = ROOT / "docs" / "api" / f"{name}.png"
    path.parent.mkdir(exist_ok=True)
    with contextlib.chdir(ROOT), mpl.rc_context():
        exec(DRAWINGS[name], dict(figure_frames()))
        plt.gcf().savefig(path, dpi=120)
        plt.close("all")
    return f"/docs/api/{path.name}"


@functools.cache
def figure_frames() -> dict[str, object]:
    """Return the frames of the first cell, which all figures share."""
    frames: dict[str, object] = {}
    exec(SETUP, frames)
    return frames


def thumbnail(picture: str) -> str:
    """Shrink a stored figure and return it as a data URL."""
    with Image.open(io.BytesIO(base64.b64decode(picture))) as figure:
        figure.thumbnail((560, 420))
        small = io.BytesIO()
        figure.save(small, "PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(small.getvalue()).decode()}"


def lead_to_the_index(app: Sphinx, problem: Exception | None) -> None:
    """Write an index.html that redirects to the first page."""
    if problem is None:
        text = (
            '<!doctype html><title>skillcomp</title><meta http-equiv="refresh" content="0; url={}">'
        )
        (Path(app.outdir) / "index.html").write_text(text.format(f"{root_doc}.html"), "utf-8")


def columns_and_types(
    app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]
) -> None:
    """Turn the columns below "Returns" in a docstring into a list, and link its types."""
    inside = False
    for at, line in enumerate(lines):
        if lines[at + 1 : at + 2] and re.fullmatch("-{3,}", lines[at + 1]):
            inside = line == "Returns"
        lines[at] = TYPES.sub(lambda hit: f"`{hit[0]} <{LINKS[hit[0]]}>`__", line)
        if inside:
            lines[at] = re.sub(r"^    (?=[\w`].* : )", "    -   ", lines[at])


def link_where_it_is_public(
    app: Sphinx, env: BuildEnvironment, node: addnodes.pending_xref, content: nodes.TextElement
) -> nodes.Node | None:
    """Link a private path of an object to the page of its public name."""
    target = node["reftarget"]
    thing = pydoc.locate(target) if target.startswith("skillcomp.") else None
    if thing is None:
        return None
    for module in MODULES:
        for name in module.__all__:
            if getattr(module, name) is thing:
                target = f"{module.__name__}.{name}"
                return env.domains["py"].resolve_xref(
                    env, node["refdoc"], app.builder, "obj", target, node, content
                )
    return content


def short_sidebar(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: object
) -> None:
    """Leave functions out of the sidebar: it lists parts, and each part lists its functions."""
    if whole := context.get("toctree"):
        part = page.rpartition(".")[0]

        def sidebar(**options: object) -> str:
            if part in SIDEBARS:  # a function has that of its module, which was written before
                return SIDEBARS[part].replace('href="#"', f'href="{part.rpartition("/")[2]}.html"')
            return SIDEBARS.setdefault(page, whole(**options | {"maxdepth": 2}))

        context["toctree"] = sidebar


def setup(app: Sphinx) -> None:
    """Register the directive and the handlers of this site."""
    app.add_directive("gallery", Gallery)
    app.add_directive("drawing", Drawing)
    app.connect("autodoc-process-docstring", columns_and_types, priority=400)  # before napoleon
    app.connect("missing-reference", link_where_it_is_public)
    app.connect("html-page-context", short_sidebar, priority=400)  # before the theme
    app.connect("build-finished", lead_to_the_index)
