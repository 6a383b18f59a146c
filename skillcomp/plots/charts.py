"""Plots of power and of structure scores."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from skillcomp.plots import _shared as draw
from skillcomp.plots._shared import (
    Floats,
    describe_axes,
    each,
    hue_looks,
    label_x,
    label_y,
    level_marks,
    number_text,
    numbers,
    require,
    scale,
    words,
)


def power(
    frame: pd.DataFrame,
    *,
    x: str = "n_cases",
    y: str = "power",
    hue: str | None = None,
    target: float | None = 0.8,
    label: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the power of a study against its size, one curve per effect or design.

    Parameters
    ----------
    frame : pandas.DataFrame
        Columns `x` and `y` (a proportion) and, for simulated power, ``ci_low`` and ``ci_high``. The
        rows of a curve must be in the order of `x`. Optional: ``effect`` and ``size`` (named in the
        label of the y axis, if each has a single value).
    x, y : str
        Columns of size and power.
    hue : str, optional
        Column with one level per curve, at most six.
    target : float, optional
        Target power, drawn as a dashed line; with None, there is no line.
    label : str, optional
        Label of the x axis.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    FrameError
        If a column is missing or the hue has more than six levels.

    See Also
    --------
    skillcomp.planning.power_curve
    """
    where = "plots.power"
    require(frame, [x, y, hue], where)
    draw.unit(frame, where)
    hues, look_of = hue_looks(frame, hue)
    at, *curves = (numbers(frame, c, where) for c in (x, y, "ci_low", "ci_high"))
    ax = draw.axes(ax, height=2.8)
    entries = []
    for i, (level, look) in enumerate(look_of.items()):
        rows = hues == i
        number = isinstance(level, float) and hue == "size"
        text = f"{number_text(level, percent=True)} points" if number else level
        name = level if isinstance(level, str) else f"{words(hue or '').lower()} {text}"
        name = name if hue else "power"
        entries.append(level_marks(ax, at, curves, rows, look, name, line="-"))
    if target is not None:
        entries.append(draw.limit_line(ax, target, "target", upright=False))
    draw.whole_steps(ax.xaxis, at)
    ax.set_ylim(-0.02, 1.02)
    scale(ax.yaxis, percent=True)
    label_x(ax, label if label is not None else words(x))
    shown = _effect_text(frame)
    label_y(ax, f"Power to show {shown} (%)" if shown else "Power (%)")
    draw.legend(ax, entries)
    size = ax.get_xlabel().replace("\n", " ")
    about = f"Power to show {shown or 'the effect'} by {size[:1].lower()}{size[1:]}"
    describe_axes(ax, about + (f", a curve {each(hue)}" if hue else ""))
    return ax


def _effect_text(frame: pd.DataFrame) -> str:
    """Return the effect of a power curve, such as "a gain of 10 points"; empty if it varies."""
    if not {"effect", "size"} <= set(frame.columns):
        return ""
    effects = frame[["effect", "size"]].drop_duplicates()
    if len(effects) != 1 or not (size := float(effects["size"].iloc[0])):
        return ""
    points = number_text(abs(size), percent=True, digits=3)
    sign = "gain" if size > 0 else "loss"
    name = sign if effects["effect"].iloc[0] == "delta" else str(effects["effect"].iloc[0])
    return f"a {name} of {'−' if name == 'gap' and size < 0 else ''}{points} points"


def scores(
    frame: pd.DataFrame,
    *,
    hue: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the score of each document against the results of agents that use it.

    Parameters
    ----------
    frame : pandas.DataFrame
        Columns ``score`` and ``estimate`` (a rate or a delta; the column ``unit`` determines
        which), with one row per document. Optional: ``ci_low`` and ``ci_high``.
    hue : str, optional
        Column shown by colour and marker, at most six levels.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    FrameError
        If a column is missing or the hue has more than six levels.

    See Also
    --------
    skillcomp.structure.score_by_document

    Notes
    -----
    Documents with equal scores are drawn side by side, shifted by at most 3 % of the range of
    scores; their order has no meaning.
    """
    where = "plots.scores"
    require(frame, ["score", "estimate", hue], where)
    unit = draw.unit(frame, where)
    hues, look_of = hue_looks(frame, hue)
    at, results = numbers(frame, "score", where), draw.estimates(frame, where)
    ax = draw.axes(ax, height=3.0)
    at = _side_by_side(at)
    if unit == "points":
        draw.reference(ax, 0, upright=False)
    entries = []
    for i, (level, look) in enumerate(look_of.items()):
        rows = hues == i
        name = "document" if hue is None else level
        entries.append(level_marks(ax, at, results, rows, look, name, width=0.6))
    percent = unit in ("rate", "points")
    scale(ax.yaxis, percent=percent, signed=unit == "points")
    label_x(ax, "Structure score of the document (0 to 100)")
    text = draw.axis_label("Difference", unit, percent=percent)
    text = "Pass rate (%)" if unit == "rate" else text
    label_y(ax, text)
    draw.legend(ax, entries if hue else [])
    what = f"{text.partition(' (')[0]} of each document against its structure score"
    what += " of the document (0 to 100)"
    describe_axes(ax, what + (f", {each(hue)}" if hue else ""))
    return ax


def _side_by_side(at: Floats) -> Floats:
    """Shift equal positions slightly, so that marks at the same position do not overlap."""
    same = pd.Series(at).groupby(at)
    turn, size = same.cumcount(), same.transform("size")
    if not size.gt(1).any():
        return at
    reach = 0.06 * float(np.nanmax(at) - np.nanmin(at)) / float(size.max() - 1)
    return np.asarray(at + reach * (turn - (size - 1) / 2).to_numpy(), dtype=np.float64)
