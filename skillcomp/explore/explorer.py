"""Base class and helpers of all explorers: controls, shortcuts, the view, and safe text."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Self

import matplotlib as mpl
import matplotlib.pyplot as plt
import pandas as pd
from markupsafe import Markup

from skillcomp.errors import (
    SkillcompError,
    StudyError,
    extra_imports,
    require_known,
)
from skillcomp.frames.estimates import columns_of
from skillcomp.report.escaped_text import render, template_text, visible
from skillcomp.stats.results import Fields

with extra_imports("lab", "an explorer"):
    import anywidget
    import ipywidgets as widgets
    import traitlets
    from IPython.display import display

EVERY = "all"
_DPI = 160  # resolution at which pictures are sharp on screens with 2 device pixels per CSS pixel
Keys = dict[str, tuple[str, Any]]
STEPS: Keys = {
    "ArrowRight": ("step", 1),
    "ArrowLeft": ("step", -1),
    "j": ("step", 1),
    "k": ("step", -1),
}
_STEP_BUTTONS = (("Previous", "←"), ("Next", "→"))


def _caption(value: Any) -> str:
    return EVERY if value is None else str(value)


class Control:
    """A dropdown or slider with which the user chooses one of several values.

    Attributes
    ----------
    values : list
        The values to choose from.
    widget : ipywidgets.Dropdown, ToggleButtons or SelectionSlider
        The widget in the notebook.
    """

    def __init__(
        self,
        label: str,
        values: Iterable[Any],
        form: Callable[[Any], str] = _caption,
        *,
        kind: Any = widgets.Dropdown,
        **options: Any,
    ) -> None:
        self.values = list(values)
        self._form = form
        self.widget = kind(description=label, options=self._options(), **options)

    @property
    def captions(self) -> list[str]:
        """Return the text of each value."""
        return [self._form(value) for value in self.values]

    def _options(self) -> list[tuple[str, int]]:
        return [(visible(text), i) for i, text in enumerate(self.captions)]

    @property
    def at(self) -> int:
        """Return the position of the chosen value."""
        return self.widget.index or 0

    @at.setter
    def at(self, position: int) -> None:
        self.widget.index = position

    @property
    def value(self) -> Any:
        """Return the chosen value; None if there are no values."""
        return self.values[self.at] if self.values else None

    def position_of(self, value: Any, name: str) -> int:
        """Return the position of a value or caption; raise StudyError if there is no such value."""
        if value in self.values:
            return self.values.index(value)
        require_known(f"choose: {name}: found", str(value), self.captions, StudyError)
        return self.captions.index(str(value))

    def offer(self, values: Iterable[Any]) -> None:
        """Replace the values; keep the chosen value if it is among them, else choose the first."""
        before, offered = self.value, list(values)
        if offered == self.values:  # the browser would answer new options as a choice of the user
            return
        self.values = offered
        self.widget.options = self._options()
        self.at = self.values.index(before) if before in self.values else 0


def dropdown(label: str, values: Iterable[Any], *, key: str = "") -> Control:
    """Return a dropdown of the distinct values; the first option means all values."""
    return Control(label, [None, *dict.fromkeys(values)], tooltip=f"key {key}" if key else "")


def next_position(at: int, by: Any, n: int) -> int:
    """Return the next position among n items if `by` is 1, otherwise the previous position."""
    return min(max(at + (1 if by == 1 else -1), 0), max(n - 1, 0))


def valid_position(value: Any, n: int) -> int | None:
    """Return the position that the browser sent; None unless it is a number from 0 to n - 1."""
    text = str(value)
    return int(text) if text.isdecimal() and len(text) < 9 and int(text) < n else None


class View(anywidget.AnyWidget):
    """HTML with clickable rows and shortcut keys, which the widgets of ipywidgets do not offer."""

    _esm = template_text("explore.js")
    _css = template_text("explore.css")
    title = traitlets.Unicode("Explorer").tag(sync=True)
    shortcuts = traitlets.Dict().tag(sync=True)
    view = traitlets.Unicode().tag(sync=True)  # Every text in this HTML is escaped.
    status = traitlets.Unicode().tag(sync=True)
    alarm = traitlets.Bool(False).tag(sync=True)
    place = traitlets.Unicode().tag(sync=True)  # When `place` changes, the view scrolls to its top.
    token = traitlets.Unicode().tag(sync=True)  # The browser sends `token` back with a label.
    tick = traitlets.Int(0).tag(sync=True)  # The number of redraws.

    def draw(self, view: Markup, status: str = "", **traits: Any) -> None:
        """Show HTML, and a line of text above it."""
        with self.hold_sync():
            for name, value in traits.items():
                setattr(self, name, value)
            self.view, self.status, self.tick = str(view), visible(status), self.tick + 1


class Explorer(widgets.VBox):  # type: ignore[misc]
    """Base class of the widgets that the functions of :mod:`skillcomp.explore` return.

    Attributes
    ----------
    choices : dict of str to Control
        The dropdowns and sliders, by name.
    view : str
        The current view as HTML; every text in it is escaped.
    status : str
        The status line: a summary of what is shown, or an error message.
    """

    choices: dict[str, Control]
    at: int = -1  # the position of the item in view; -1 if there is none
    _copy: Any = None  # the state of the widget in a saved notebook, for static pages

    def __init__(self, title: str, *more: Any) -> None:
        self.title, self._listens = title, True
        self.page = View(title=title)
        self.page.on_msg(self.hear)
        self.steps = [
            widgets.Button(description=name, tooltip=f"key {key}") for name, key in _STEP_BUTTONS
        ]
        for step, by in zip(self.steps, (-1, 1), strict=True):
            step.on_click(lambda _, by=by: self.do("step", by))
        for name, control in self.choices.items():
            control.widget.observe(partial(self._control_moved, name), "index")
            control.widget.add_class(f"scx-{name}")
        controls = [control.widget for control in self.choices.values()]
        wrap = widgets.Layout(flex_flow="row wrap")
        super().__init__([widgets.HBox([*controls, *self.steps, *more], layout=wrap), self.page])
        self.add_class("scx")
        self._refresh_view()

    @property
    def view(self) -> str:
        """Return the current view as HTML."""
        return str(self.page.view)

    @property
    def status(self) -> str:
        """Return the status line."""
        return str(self.page.status)

    def _control_moved(self, name: str, _: Any) -> None:
        if self._listens:
            with self._redrawn():
                self._control_changed(name)

    def chosen(self, name: str) -> Any:
        """Return the chosen value of a control."""
        return self.choices[name].value

    @property
    def n_items(self) -> int | None:
        """Return the number of items to step through; None hides the step buttons."""
        return None

    def selected_rows(self, rows: pd.DataFrame, *names: str) -> pd.DataFrame:
        """Return the rows that have the chosen value in each column of `names` that they have."""
        for name in columns_of(rows, *names):
            value = self.chosen(name)
            if value is not None:
                rows = rows[rows[name].eq(value)]
        return rows

    # Methods that subclasses override

    def _render_view(self, *, live: bool) -> Markup:
        """Return the view; unless `live`, leave out pictures, buttons and clickable rows."""
        raise NotImplementedError

    def _widget_state(self) -> Fields:
        """Return values for traits of `View` by name, such as the status and the shortcuts."""
        raise NotImplementedError

    def _go_to(self, at: int) -> None:
        """Bring the item at a position into view."""
        self.at = at

    def _do_step(self, by: Any) -> None:
        """Go to the next item if `by` is 1, otherwise to the previous one.

        The command "step" runs this method; so it is with each command and ``_do_<command>``.
        """
        self._go_to(next_position(self.at, by, self.n_items or 0))

    def _control_changed(self, name: str) -> None:
        """React to a new value of the control `name`."""

    def choose(self, **settings: Any) -> Self:
        """Set dropdowns and sliders by name, as in ``choose(grader="g2", gold="disagrees")``.

        Parameters
        ----------
        **settings
            The new value of each control, by name of the control. None sets a filter to all
            values.

        Returns
        -------
        Explorer
            This explorer.

        Raises
        ------
        StudyError
            If there is no such control or value.
        """
        for name, value in settings.items():
            require_known(
                "choose: there is no control", name, self.choices, StudyError, label="there"
            )
            at = self.choices[name].position_of(value, name)
            with self._redrawn():
                self.choices[name].at = at
                self._control_changed(name)
        return self

    def do(self, command: str, value: Any = None) -> Self:
        """Run a command as a key, a button or a click would, for example ``do("step", 1)``.

        Parameters
        ----------
        command : str
            Name of the command.
        value : object, optional
            Argument of the command.
        """
        with self._redrawn():
            if act := getattr(self, f"_do_{command}", None):
                act(value)
        return self

    @contextmanager
    def _redrawn(self) -> Iterator[None]:
        """Run a block that changes the state, and redraw; show an error in the status line.

        An exception in a callback would reach only the log of the kernel.
        """
        problem, self._listens = "", False
        try:
            yield
        except (SkillcompError, OSError) as cause:
            problem = str(cause)
        self._refresh_view(problem)
        self._listens = True

    def hear(self, _: Any, content: Any, buffers: Any = None) -> None:
        """Run a command from the browser; ignore malformed commands and late labels.

        A label is late if its item is no longer in view.
        """
        if not isinstance(content, dict) or not isinstance(content.get("do"), str):
            return
        if content["do"] == "label" and content.get("token") != self.page.token:
            return
        self.do(content["do"], content.get("value"))

    def _refresh_view(self, problem: str = "") -> None:
        state = self._widget_state() | {"alarm": bool(problem)}
        status = state.pop("status")
        self.page.draw(self._render_view(live=True), problem or status, **state)
        n = self.n_items
        for step, at_end in zip(self.steps, (self.at <= 0, self.at + 1 >= (n or 0)), strict=True):
            step.layout.display = "none" if n is None else None
            step.disabled = at_end
        if self._copy is not None:
            self._copy.update(self._mime_bundle(), raw=True)

    def _mime_bundle(self) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self.still()}

    def _ipython_display_(self) -> None:
        # There are two outputs, because nbconvert drops the HTML of an output that has a widget.
        # explore.css hides the copy next to a widget.
        show: Any = display
        self._copy = show(self._mime_bundle(), raw=True, display_id=True)
        widget = super()._repr_mimebundle_()
        show({name: data for name, data in widget.items() if name != "text/plain"}, raw=True)

    def still(self) -> str:
        """Return the view as HTML without controls, for static pages and saved notebooks."""
        view = self._render_view(live=False)
        return str(render("explore-still", explorer=self, view=view))

    def __repr__(self) -> str:
        """Return the title and the status line."""
        return f"{self.title}: {self.status}"


def picture(fig: Any) -> Fields:
    """Draw a figure as a PNG for the browser and close it; return its data URL and its width."""
    with mpl.rc_context({"savefig.bbox": None}):
        buffer = io.BytesIO()
        fig.savefig(buffer, format="png", dpi=_DPI)
    plt.close(fig)
    src = "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
    return {"src": src, "width": round(96 * fig.get_figwidth())}
