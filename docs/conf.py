"""The documentation site: pages, notebooks with their stored outputs, and the API.

``make docs`` reads the files in the root of the checkout; nothing is copied or executed.
"""

import base64
import html
import io
import itertools
import pydoc
import re
from pathlib import Path

import nbformat
from docutils import nodes
from PIL import Image
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.docutils import SphinxDirective

import skillcomp

ROOT = Path(__file__).resolve().parent.parent

project, author, version = "skillcomp", "skillcomp", skillcomp.__version__
root_doc = "docs/index"
include_patterns = ["*.md", "docs/*.md", "docs/results/*", "docs/api/*", "data/README.md"]
include_patterns += ["notebooks/*.ipynb"]
exclude_patterns = [".*", "build", "site", "report", "my-study", "skillcomp", "tests", "**/.*"]
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
]

nb_execution_mode = "off"
nb_ipywidgets_js: dict[str, object] = {}  # no scripts from other hosts
myst_heading_anchors = 3

autosummary_ignore_module_all = False  # all exported names, wherever they are defined
autosummary_imported_members = True
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
            cards.append(
                f'<a href="{link}"><img alt="" src="{thumbnail(pictures[0])}">{title}</a>'
            )
        cards_html = f'<div class="gallery">{"".join(cards)}</div>'
        return [nodes.raw("", cards_html, format="html")]


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


def columns_as_list(
    app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]
) -> None:
    """Turn the columns below "Returns" in a docstring into a list."""
    inside = False
    for at, line in enumerate(lines):
        if lines[at + 1 : at + 2] and re.fullmatch("-{3,}", lines[at + 1]):
            inside = line == "Returns"
        if inside:
            lines[at] = re.sub(r"^    (?=[\w`].* : )", "    -   ", line)


def link_where_it_is_public(
    app: Sphinx, env: BuildEnvironment, node: addnodes.pending_xref, content: nodes.TextElement
) -> nodes.Node | None:
    """Link a private path of an object to the page of its public name."""
    target = node["reftarget"]
    thing = pydoc.locate(target) if target.startswith("skillcomp.") else None
    if thing is None:
        return None
    domain = env.domains["py"]
    for module in map(skillcomp.__getattr__, skillcomp.__all__[1:]):
        for name in getattr(module, "__all__", ()):
            if getattr(module, name) is thing:
                target = f"{module.__name__}.{name}"
                return domain.resolve_xref(
                    env, node["refdoc"], app.builder, "obj", target, node, content
                )
    return content


def setup(app: Sphinx) -> None:
    """Register the directive and the handlers of this site."""
    app.add_directive("gallery", Gallery)
    app.connect("autodoc-process-docstring", columns_as_list, priority=400)  # before napoleon
    app.connect("missing-reference", link_where_it_is_public)
    app.connect("build-finished", lead_to_the_index)
