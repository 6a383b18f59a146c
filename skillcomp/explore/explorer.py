"""What all explorers share: controls, keys, a view that Python draws, and texts made harmless."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import Any

import anywidget
import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import traitlets
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.axes import Axes

from skillcomp.errors import SkillcompError, StudyError, suggest
from skillcomp.grading_rules import normalise_quote
from skillcomp.ngrams import grams, intern
from skillcomp.records import Skill

_FILES = files("skillcomp") / "templates"
EVERY = "all"
_DPI = 160  # of the pictures: sharp where a screen has two dots for a pixel
Keys = dict[str, tuple[str, Any]]
STEPS: Keys = {
    "ArrowRight": ("step", 1),
    "ArrowLeft": ("step", -1),
    "j": ("step", 1),
    "k": ("step", -1),
}
MOST = 100_000  # characters of one text that are shown; more would stall a browser
_MOST_MARKS = 500
_LONGEST_QUOTE = 10_000  # characters
_MARKS = {"'": "['‘’]", '"': '["“”]'}
# what cannot be seen, or turns round what is seen, is named
_HIDDEN = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\t\n"}
_HIDDEN |= {127: "\N{SYMBOL FOR DELETE}"}
_HIDDEN |= {
    code: f"[U+{code:04X}]"
    for part in ((0x80, 0xA0), (0x200B, 0x2010), (0x2028, 0x202F), (0x2060, 0x2070))
    for code in range(*part)
}
_HIDDEN |= {0xFEFF: "[U+FEFF]", 0x061C: "[U+061C]"}
Piece = tuple[str, bool, bool]


@dataclass
class Control:
    """A control that has one of several values, drawn as a dropdown or a slider."""

    label: str
    values: list[Any]
    shown: list[str]
    at: int = 0
    kind: str = "select"
    key: str = ""

    @property
    def value(self) -> Any:
        """Return the value that is chosen."""
        return self.values[self.at] if self.values else None

    def offer(self, values: Sequence[Any], shown: Sequence[str] | None = None) -> None:
        """Put other values in; the one chosen stays where it is still there, else the first."""
        before = self.value
        self.values = list(values)
        self.shown = [str(one) for one in values] if shown is None else list(shown)
        self.at = self.values.index(before) if before in self.values else 0

    def control(self, name: str) -> dict[str, Any]:
        """Return what the browser draws."""
        told: dict[str, Any] = {
            "name": name,
            "kind": self.kind,
            "label": self.label,
            "value": self.at,
        }
        told |= {"key": self.key} if self.key else {}
        if self.kind == "slider":
            shown = self.shown[self.at] if self.shown else ""
            return told | {"min": 0, "max": max(len(self.values) - 1, 0), "shown": visible(shown)}
        return told | {"options": [visible(one) for one in self.shown]}


def dropdown(label: str, values: Iterable[Any], *, every: bool = True, key: str = "") -> Control:
    """Return a dropdown of values, by default with all of them together as the first."""
    found = list(dict.fromkeys(values))
    shown = [str(one) for one in found]
    if every:
        found, shown = [None, *found], [EVERY, *shown]
    return Control(label, found, shown, key=key)


def button(name: str, label: str, do: str, value: Any = None, **about: Any) -> dict[str, Any]:
    """Return a button as the browser draws it."""
    return {"name": name, "kind": "button", "label": label, "do": do, "value": value, **about}


def walk(at: int | None, n: int, what: str = "") -> list[dict[str, Any]]:
    """Return the buttons that go back and on from a place among n, None before the first."""
    here = -1 if at is None else at
    return [
        button("previous", f"Previous{what}", "step", -1, key="←", off=here <= 0),
        button("next", f"Next{what}", "step", 1, key="→", off=here >= n - 1),
    ]


def stepped(at: int | None, by: Any, n: int) -> int:
    """Return the place one on, or back, among n; 0 where there are none."""
    here = -1 if at is None else at
    return min(max(here + (1 if by == 1 else -1), 0), max(n - 1, 0))


def place_of(value: Any, n: int) -> int | None:
    """Return a place that the browser sent, None where it is none of n."""
    text = str(value)
    return int(text) if text.isdecimal() and len(text) < 9 and int(text) < n else None


class Explorer(anywidget.AnyWidget):
    """A widget whose view Python draws; what an explorer of :mod:`skillcomp.explore` returns.

    Attributes
    ----------
    choices : dict of str to Control
        The dropdowns and sliders by name.
    view : str
        What is in view, as HTML in which every text is escaped.
    status : str
        Where one is, or what went wrong.
    """

    _esm = (_FILES / "explore.js").read_text(encoding="utf-8")
    _css = (_FILES / "explore.css").read_text(encoding="utf-8")
    title = traitlets.Unicode("Explorer").tag(sync=True)
    controls: Any = traitlets.List().tag(sync=True)
    shortcuts = traitlets.Dict().tag(sync=True)
    view = traitlets.Unicode().tag(sync=True)
    status = traitlets.Unicode().tag(sync=True)
    alarm = traitlets.Bool(False).tag(sync=True)
    place = traitlets.Unicode().tag(sync=True)  # the view scrolls to its top where this changes
    token = traitlets.Unicode().tag(sync=True)  # what a label that comes back is about
    tick = traitlets.Int(0).tag(sync=True)  # one more when everything is drawn

    choices: dict[str, Control]

    def __init__(self, title: str) -> None:
        super().__init__(title=title)
        self.on_msg(self.hear)
        self._later: Any = None
        self._redraw()

    # What an explorer says of itself

    def _view(self, *, live: bool) -> Markup:
        """Return the view; without pictures, buttons and rows to click on where it is not live."""
        raise NotImplementedError

    def _state(self) -> dict[str, Any]:
        """Return the values of the other traits: controls, status, keys."""
        raise NotImplementedError

    def _dropdowns(self) -> list[dict[str, Any]]:
        return [one.control(name) for name, one in self.choices.items()]

    def _commands(self) -> Mapping[str, Any]:
        """Return what can be asked for, by name; each takes a value."""
        return {}

    def _chosen(self, name: str) -> None:
        """Take note that a control was changed."""

    # What is asked for

    def choose(self, **settings: Any) -> Explorer:
        """Set dropdowns and sliders by name, as ``choose(grader="g2", gold="disagrees")``.

        Parameters
        ----------
        **settings
            Name and value of controls; None is all of them.

        Returns
        -------
        Explorer
            The same one.

        Raises
        ------
        StudyError
            If there is no such control or value.
        """
        for name, value in settings.items():
            if name not in self.choices:
                raise StudyError(
                    f"choose: there is no control '{name}'; there: {', '.join(self.choices)}."
                    + suggest(name, self.choices)
                )
            one = self.choices[name]
            wanted = value
            if wanted not in one.values and str(value) in one.shown:
                wanted = one.values[one.shown.index(str(value))]
            if wanted not in one.values:
                shown = ", ".join(one.shown[:12]) + (", …" if len(one.shown) > 12 else "")
                raise StudyError(
                    f"choose: {name}: found {value!r}; allowed: {shown}."
                    + suggest(str(value), one.shown)
                )
            self.do("set", {"name": name, "value": one.values.index(wanted)})
        return self

    def do(self, command: str, value: Any = None) -> None:
        """Do what a key, a button or a click asks for, such as ``do("step", 1)``.

        Parameters
        ----------
        command : str
            What is asked for.
        value : object, optional
            What goes with it.
        """
        self._later = None
        problem = ""
        try:
            self._act(command, value)
        except (SkillcompError, OSError) as cause:
            # an exception of a callback would end in a log that nobody reads
            problem = str(cause)
        self._redraw(problem)
        if self._later is not None:
            self._later()
            self._redraw(problem)

    def _act(self, command: str, value: Any) -> None:
        if command != "set":
            act = self._commands().get(command)
            if act is not None:
                act(value)
            return
        told = value if isinstance(value, dict) else {}
        one, at = self.choices.get(str(told.get("name"))), told.get("value")
        if one is None:
            self._noted(str(told.get("name")), at)
        elif isinstance(at, int) and 0 <= at < len(one.values):
            one.at = at
            self._chosen(str(told["name"]))

    def _noted(self, name: str, value: Any) -> None:
        """Take what was written into a field that is no choice."""

    def hear(self, _: Any, content: Any, buffers: Any = None) -> None:
        """Do what the page sent, if it is a command and meant for what is in view."""
        if not isinstance(content, dict) or not isinstance(content.get("do"), str):
            return
        told = content.get("token")
        if content["do"] == "label" and told != self.token:
            return  # of a check that was in view before this one: it was not read
        self.do(content["do"], content.get("value"))

    def _redraw(self, problem: str = "") -> None:
        with self.hold_sync():
            for name, value in self._state().items():
                setattr(self, name, value)
            self.view = str(self._view(live=True))
            self.alarm = bool(problem)
            if problem:
                self.status = visible(problem)
            self.tick += 1

    # What stands in a notebook that is not run

    def still(self) -> str:
        """Return the view as HTML without controls, for a page or a notebook that is not run."""
        status = self.status
        return str(render("still", title=self.title, status=status, view=self._view(live=False)))

    def __repr__(self) -> str:
        """Return what it is and where it stands."""
        return f"{self.title}: {self.status}"

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        found = super()._repr_mimebundle_(**kwargs)
        data, about = found if isinstance(found, tuple) else (found or {}, {})
        return {**data, "text/plain": repr(self), "text/html": self.still()}, about


@dataclass(frozen=True)
class Picture:
    """A figure as the browser shows it, and where its data stand in it.

    Attributes
    ----------
    src : str
        PNG as a data address.
    width : int
        CSS pixels.
    """

    src: str
    width: int
    _box: tuple[float, float]
    _data: Any
    _axes: tuple[float, float, float, float]

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Return a point of the data in percent of the picture, from its left and top."""
        across, up = self._data.transform((x, y))
        return 100 * across / self._box[0], 100 - 100 * up / self._box[1]

    def percent_high(self, inches: float) -> float:
        """Return a height in inches in percent of the picture."""
        return 100 * inches * _DPI / self._box[1]

    @property
    def edges(self) -> tuple[float, float, float, float]:
        """Return left, top, right and bottom of the axes in percent."""
        x0, y0, x1, y1 = self._axes
        wide, high = self._box
        return 100 * x0 / wide, 100 - 100 * y1 / high, 100 * x1 / wide, 100 - 100 * y0 / high


def picture(ax: Axes) -> Picture:
    """Return the figure of some axes, closed."""
    fig: Any = ax.figure
    with mpl.rc_context({"savefig.bbox": None}):
        fig.set_dpi(_DPI)
        held = io.BytesIO()
        fig.savefig(held, format="png", dpi=_DPI)
        box = fig.bbox.width, fig.bbox.height
        place = ax.get_window_extent().extents
        data = ax.transData.frozen()
    wide = round(96 * fig.get_size_inches()[0])
    plt.close(fig)
    src = "data:image/png;base64," + base64.b64encode(held.getvalue()).decode()
    sides = tuple(float(side) for side in np.asarray(place))
    return Picture(src, wide, (float(box[0]), float(box[1])), data, sides)  # type: ignore[arg-type]


# Text from models as HTML: escaped by the template, harmless in what it shows, with marks


def visible(value: Any) -> Any:
    """Return a text without characters that hide, move or break; markup and numbers as they are."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    lines = re.sub("\r\n?", "\n", value).translate(_HIDDEN)
    return re.sub("[\ud800-\udfff\ufffe\uffff]", "\N{REPLACEMENT CHARACTER}", lines)


@cache
def _templates() -> Environment:
    return Environment(
        loader=PackageLoader("skillcomp"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def render(template: str, /, **values: Any) -> Markup:
    """Return a template filled in; every value is escaped."""
    return Markup(_templates().get_template(f"explore-{template}.html").render(**values))


def absent(value: Any) -> bool:
    """Return whether a value is missing, in any of pandas' ways."""
    return value is None or value is pd.NA or value != value


def text(value: Any) -> str | None:
    """Return a value as text to be shown, None where it is missing or empty."""
    if absent(value):
        return None
    shown = str(value)
    if len(shown) > MOST:
        shown = f"{shown[:MOST]} … ({len(shown) - MOST:,} characters more)"
    return shown if shown.strip() else None


def quoted(answer: str, quotes: Iterable[str]) -> list[tuple[int, int]]:
    """Return where quotes stand in an answer, white space and shapes of quotation marks aside."""
    found = []
    for quote in dict.fromkeys(quotes):
        words = [re.escape(w) for w in normalise_quote(quote).split(" ") if w]
        if not words or len(quote) > _LONGEST_QUOTE:
            continue
        pattern = r"\s+".join(re.sub("['\"]", lambda m: _MARKS[m.group()], w) for w in words)
        for number, match in enumerate(re.finditer(pattern, answer)):
            if number == _MOST_MARKS:
                break
            found.append(match.span())
    return found


def shared(
    answer: str, source: Skill | str | None, prompt: Any, *, n: int
) -> list[tuple[int, int]]:
    """Return where an answer shares n content tokens in a row with a skill and not the prompt.

    The tokens, and what counts as shared, are those of :func:`skillcomp.overlap.score`.
    """
    whole = source.text or source.body if isinstance(source, Skill) else source
    tokens = intern([answer, whole or "", "" if absent(prompt) else str(prompt)])
    mine, theirs, asked = (grams(tokens.of(doc).tolist(), n) for doc in range(3))
    copied = set(theirs) - set(asked)
    assert tokens.start is not None and tokens.end is not None
    first = int(tokens.bounds[0])
    places = [at for at, gram in enumerate(mine) if gram in copied]
    return [(int(tokens.start[first + at]), int(tokens.end[first + at + n - 1])) for at in places]


def pieces(
    answer: str, quotes: Sequence[tuple[int, int]] = (), copies: Sequence[tuple[int, int]] = ()
) -> list[Piece]:
    """Cut an answer into pieces, each with whether it is quoted and whether it is shared.

    Parameters
    ----------
    answer : str
        What the agent wrote.
    quotes, copies : sequence of (int, int)
        Places of what a grader quoted and of what stands in the skill too; they may overlap.

    Returns
    -------
    list of (str, bool, bool)
        Together the answer, none of them empty.
    """
    edges = sorted({0, len(answer), *(at for span in (*quotes, *copies) for at in span)})
    steps = {at: [0, 0] for at in edges}
    for kind, spans in enumerate((quotes, copies)):
        for start, end in spans:
            steps[start][kind] += 1
            steps[end][kind] -= 1
    found: list[Piece] = []
    depth = [0, 0]
    for start, end in pairwise(edges):
        depth = [d + s for d, s in zip(depth, steps[start], strict=True)]
        now = (depth[0] > 0, depth[1] > 0)
        if found and found[-1][1:] == now:
            found[-1] = (found[-1][0] + answer[start:end], *now)
        else:
            found.append((answer[start:end], *now))
    return [piece for piece in found if piece[0]]
