"""Strips: one mark for every row, so that nothing of a distribution is summed up."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from skillcomp.errors import FrameError
from skillcomp.plots._draw import (
    RULE,
    axes,
    dashed,
    hue_looks,
    key,
    keys,
    label_x,
    levels,
    marker,
    number,
    numbers,
    offsets,
    points,
    require,
    rule,
    scale,
    shown,
    where_equal,
    words,
)
from skillcomp.style import looks

_GOLDEN = 0.6180339887498949  # steps of this fraction never pile up
_KNOWN = {
    "share": "N-grams shared with the skill (%)",
    "longest_run": "Longest shared run (content tokens)",
    "n_shared": "Distinct n-grams shared",
}


def overlap(
    frame: pd.DataFrame,
    *,
    x: str = "share",
    y: str = "condition",
    hue: str | None = None,
    limit: float | None = None,
    label: str | None = None,
    legend: str | bool = "below",
    ax: Axes | None = None,
) -> Axes:
    """Draw how much each text shares with its skill: one mark for every text.

    Parameters
    ----------
    frame : pandas.DataFrame
        Scores of texts, one row per text, of one n: `x`, `y` and `hue`.
    x : str, default "share"
        ``share`` (a proportion, shown in percent), ``longest_run`` (tokens) or another number.
    y : str, default "condition"
        Column of the rows: ``condition``, ``level`` of copying, ``skill``.
    hue : str, optional
        Column told apart by colour and marker, at most six levels; by default the rows are where
        they are conditions.
    limit : float, optional
        Where a dashed line marks a threshold, in the unit of `x`.
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
        When a column is not there, the frame mixes scores of several n, or the hue has more than
        six levels.

    See Also
    --------
    skillcomp.overlap.score

    Notes
    -----
    Marks are spread over the height of their row in a fixed pattern that carries no meaning.
    A text whose score is undefined has no mark and is counted in the label of its row.
    """
    where = "plots.overlap"
    require(frame, [x, y, *([hue] if hue else [])], where)
    if "n" in frame.columns and "n" not in (y, hue) and frame["n"].nunique() > 1:
        found = ", ".join(str(n) for n in frame["n"].unique()[:12])
        raise FrameError(
            f"{where}: the frame holds scores of several n ({found}), one text would be drawn "
            "more than once. Select one n, name y='n', or facet by it (skillcomp.plots.facet)."
        )
    if hue is None and y == "condition":
        hue = y
    ax = axes(ax, height=min(0.36 * len(levels(frame[y])) + 0.95, 9.0))
    taken = _strip(ax, frame, x, y, hue, where)
    percent = x.startswith("share")
    scale(ax.xaxis, percent=percent, signed=False)
    text = label if label is not None else _KNOWN.get(x, words(x) + (" (%)" if percent else ""))
    label_x(ax, text, taken=taken)
    entries: list[tuple[object, Line2D]] = []
    if hue is not None and hue != y:
        entries += [(level, marker(look)) for level, look in looks(levels(frame[hue])).items()]
    if limit is not None:
        rule(ax, limit, upright=True, dashed=True)
        unit = "%" if percent else ""
        entries.append((f"limit ({number(limit, percent=percent)}{unit})", dashed()))
    key(ax, entries, legend)
    return ax


def coverage(
    frame: pd.DataFrame,
    *,
    x: str = "coverage",
    y: str = "method",
    hue: str | None = None,
    target: float | None = 0.94,
    label: str = "Coverage (%)",
    legend: str | bool = "below",
    ax: Axes | None = None,
) -> Axes:
    """Draw how often the intervals of each method held the truth: one mark per simulated design.

    Parameters
    ----------
    frame : pandas.DataFrame
        One row per method and design: `x` (a proportion), `y`, `hue`.
    x, y : str
        Columns of coverage and method.
    hue : str, optional
        Column of designs told apart by colour and marker, at most six levels.
    target : float, optional
        Coverage that must be reached, a dashed line; None draws none.
    label : str
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

    Notes
    -----
    Marks are spread over the height of their row in a fixed pattern that carries no meaning; a
    design without a coverage is counted in the label.
    """
    where = "plots.coverage"
    require(frame, [x, y, *([hue] if hue else [])], where)
    ax = axes(ax, height=min(0.36 * len(levels(frame[y])) + 0.95, 9.0))
    taken = _strip(ax, frame, x, y, hue, where, unit="designs")
    entries: list[tuple[object, Line2D]] = []
    if hue is not None:
        entries += [(level, marker(look)) for level, look in looks(levels(frame[hue])).items()]
    if target is not None:
        rule(ax, target, upright=True, dashed=True)
        entries.append((f"target ({number(target, percent=True)}%)", dashed()))
    scale(ax.xaxis, percent=True, signed=False)
    label_x(ax, label, taken=taken)
    key(ax, entries, legend)
    return ax


def _strip(
    ax: Axes, frame: pd.DataFrame, x: str, y: str, hue: str | None, where: str, *, unit: str = "n"
) -> int:
    """Draw one mark per row of the frame and return the length of the longest label."""
    rows, value = levels(frame[y]), numbers(frame, x, where)
    hues, look_of, order = hue_looks(frame, hue)
    place = {level: i for i, level in enumerate(rows)}
    base = np.array([place[level] for level in keys(frame[y])], dtype=np.float64)
    lanes = 1 if hue is None or hue == y else len(order)
    step = offsets(lanes, spread=0.8)
    for i, level in enumerate(order):
        mine = where_equal(hues, level)
        if not mine.any():
            continue
        rank = pd.Series(base[mine]).groupby(base[mine]).cumcount().to_numpy()
        jitter = ((rank * _GOLDEN) % 1 - 0.5) * (0.62 / lanes)
        height = base[mine] + (step[i] if lanes > 1 else 0.0) + jitter
        points(ax, value[mine], height, look_of[level], level or "text")
        ax.lines[-1].set(markersize=3.0, alpha=0.6, markeredgewidth=0, clip_on=False)
    texts = []
    for i, level in enumerate(rows):
        here = base == i
        unknown = int(np.isnan(value[here]).sum())
        count = f"n = {int(here.sum())}" if unit == "n" else f"{int(here.sum())} {unit}"
        lost = f", {unknown} undefined" if unknown else ""
        texts.append(f"{shown(level)}\n({count}{lost})")
    ax.set_yticks(range(len(rows)), texts)
    ax.set_ylim(max(len(rows), 1) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    for i in range(len(rows) - 1):
        ax.axhline(i + 0.5, color=RULE, marker="", linewidth=0.4, zorder=0, gid="separator")
    return max((len(line) for text in texts for line in text.split("\n")), default=0)
