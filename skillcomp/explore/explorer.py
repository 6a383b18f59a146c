"""What all explorers share: controls, keys and a view that Python draws and a browser shows."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import anywidget
import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import traitlets
from markupsafe import Markup
from matplotlib.axes import Axes

from skillcomp.errors import SkillcompError, StudyError, suggest
from skillcomp.explore.texts import render, visible

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


@dataclass
class Choice:
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


def choice(label: str, values: Iterable[Any], *, every: bool = True, key: str = "") -> Choice:
    """Return a dropdown of values, by default with all of them together as the first."""
    found = list(dict.fromkeys(values))
    shown = [str(one) for one in found]
    if every:
        found, shown = [None, *found], [EVERY, *shown]
    return Choice(label, found, shown, key=key)


def button(name: str, label: str, do: str, value: Any = None, **about: Any) -> dict[str, Any]:
    """Return a button as the browser draws it."""
    return {"name": name, "kind": "button", "label": label, "do": do, "value": value, **about}


class Explorer(anywidget.AnyWidget):
    """A widget whose view Python draws; what an explorer of :mod:`skillcomp.explore` returns.

    Attributes
    ----------
    choices : dict of str to Choice
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

    choices: dict[str, Choice]

    def __init__(self, title: str) -> None:
        super().__init__(title=title)
        self.on_msg(self._hear)
        self._later: Any = None
        self._redraw()

    # What an explorer says of itself

    def _view(self, *, live: bool) -> Markup:
        """Return the view; without pictures, buttons and rows to click on where it is not live."""
        raise NotImplementedError

    def _state(self) -> dict[str, Any]:
        """Return the values of the other traits: controls, status, keys."""
        raise NotImplementedError

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

    def _hear(self, _: Any, content: Any, buffers: Any = None) -> None:
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


def picture(ax: Axes, alt: str) -> tuple[Picture, str]:
    """Return the figure of some axes, closed, with words for readers who do not see it."""
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
    return Picture(src, wide, (float(box[0]), float(box[1])), data, sides), alt  # type: ignore[arg-type]
