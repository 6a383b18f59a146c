"""Figures along an axis: control charts and power."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from skillcomp.plots._draw import (
    DASH,
    Floats,
    axes,
    dashed,
    hue_looks,
    intervals,
    key,
    label_x,
    label_y,
    marker,
    number,
    numbers,
    points,
    require,
    rule,
    scale,
    truth,
    where_equal,
    whole_steps,
    words,
)
from skillcomp.style import INK

_ALARM = "#D55E00"


def cusum(
    frame: pd.DataFrame,
    *,
    x: str = "check",
    y: str = "cusum",
    limit: float | str = "limit",
    alarm: float | str | None = "alarm",
    label: str | None = None,
    legend: str | bool = "below",
    ax: Axes | None = None,
) -> Axes:
    """Draw the path of a control chart with its limit and the alarm.

    Parameters
    ----------
    frame : pandas.DataFrame
        One row per check in the order in which they came: `x` (its number) and `y` (the
        statistic after it).
    x, y : str
        Columns of place and statistic.
    limit : float or str, default "limit"
        The limit, or a column that holds it (it may change along the way).
    alarm : float, str or None, default "alarm"
        Place of the alarm on the x axis, or a column of truth values; None when there was none.
        A column that the frame does not have counts as no alarm only where it is the default.
    label : str, optional
        Label of the x axis.
    legend : {"below", "right", False}
        Where the key stands.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    FrameError
        When a column is not there.

    See Also
    --------
    skillcomp.reliability.chart
    """
    where = "plots.cusum"
    require(frame, [x, y, *([limit] if isinstance(limit, str) else [])], where)
    at, value = numbers(frame, x, where), numbers(frame, y, where)
    ax = axes(ax, height=2.2)
    (path,) = ax.plot(at, value, color="#0072B2", marker="", linewidth=1.0, label="CUSUM")
    path.set_gid("path")
    bound = numbers(frame, limit, where) if isinstance(limit, str) else np.full(len(frame), limit)
    (line,) = ax.plot(at, bound, color=INK, marker="", linestyle=DASH, linewidth=0.8)
    line.set_gid("limit")
    entries: list[tuple[object, Line2D]] = [("CUSUM", path)]
    same = np.unique(bound[np.isfinite(bound)])
    entries.append((f"limit ({same[0]:.3g})" if len(same) == 1 else "limit", line))
    places = _alarms(frame, at, alarm, where)
    for place in places:
        ax.axvline(place, color=_ALARM, marker="", linewidth=0.8, zorder=1, gid="alarm")
    hit = np.isin(at, places)
    if len(places):
        ax.plot(at[hit], value[hit], color=_ALARM, marker="^", linestyle="", gid="alarm point")
        shown = ", ".join(number(place, percent=False) for place in places[:3])
        more = f" and {len(places) - 3} more" if len(places) > 3 else ""
        entry = Line2D([], [], color=_ALARM, marker="^", linewidth=0.8)
        entries.append((f"alarm (at {shown}{more})", entry))
    ax.set_ylim(bottom=min(0.0, float(np.nanmin(value)) if len(value) else 0.0))
    ax.margins(x=0.01)
    label_x(ax, label if label is not None else words(x))
    label_y(ax, "CUSUM statistic")
    key(ax, entries, legend)
    return ax


def power(
    frame: pd.DataFrame,
    *,
    x: str = "n_cases",
    y: str = "power",
    hue: str | None = None,
    target: float | None = 0.8,
    label: str | None = None,
    legend: str | bool = "below",
    ax: Axes | None = None,
) -> Axes:
    """Draw the power of a study against its size, a curve for each effect or design.

    Parameters
    ----------
    frame : pandas.DataFrame
        `x`, `y` (a proportion) and, where power was simulated, ``ci_low`` and ``ci_high``; the
        points of a curve in the order of `x`.
    x, y : str
        Columns of size and power.
    hue : str, optional
        Column of curves, at most six.
    target : float, optional
        Power that is wanted, a dashed line; None draws none.
    label : str, optional
        Label of the x axis.
    legend : {"below", "right", False}
        Where the key stands.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    FrameError
        When a column is not there or the hue has more than six levels.

    See Also
    --------
    skillcomp.planning.power_curve
    """
    where = "plots.power"
    require(frame, [x, y, *([hue] if hue else [])], where)
    hues, look_of, order = hue_looks(frame, hue)
    at, value, low, high = (numbers(frame, c, where) for c in (x, y, "ci_low", "ci_high"))
    ax = axes(ax, height=2.8)
    entries: list[tuple[object, Line2D]] = []
    for level in order:
        rows = where_equal(hues, level)
        named = level if isinstance(level, str) else f"{words(hue or '').lower()} {level}"
        name = named if hue else "power"
        intervals(ax, at[rows], low[rows], high[rows], look_of[level], upright=True)
        points(ax, at[rows], value[rows], look_of[level], name, line="-")
        entries.append((name, marker(look_of[level], line="-")))
    if target is not None:
        rule(ax, target, upright=False, dashed=True)
        entries.append((f"target ({number(target, percent=True)}%)", dashed()))
    whole_steps(ax.xaxis, at)
    ax.set_ylim(-0.02, 1.02)
    scale(ax.yaxis, percent=True, signed=False)
    label_x(ax, label if label is not None else words(x))
    label_y(ax, "Power (%)")
    key(ax, entries, legend)
    return ax


def _alarms(frame: pd.DataFrame, at: Floats, alarm: float | str | None, where: str) -> Floats:
    if alarm is None or (alarm == "alarm" and "alarm" not in frame.columns):
        return np.empty(0)
    if not isinstance(alarm, str):
        return np.array([float(alarm)]) if np.isfinite(alarm) else np.empty(0)
    require(frame, [alarm], where)
    return at[truth(frame, alarm, where)]
