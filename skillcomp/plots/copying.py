"""Figures of the calibration of the copy check: thresholds, ROC, precision and recall."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from skillcomp.errors import FrameError
from skillcomp.plots._draw import (
    DASH,
    Floats,
    Stroke,
    axes,
    dashed,
    hue_looks,
    intervals,
    key,
    keys,
    label_x,
    label_y,
    levels,
    marker,
    number,
    numbers,
    offsets,
    points,
    require,
    ring,
    ring_chosen,
    rule,
    scale,
    truth,
    where_equal,
    whole_steps,
    words,
)
from skillcomp.style import CATEGORIES, INK, Look, looks

# a measure keeps its look from panel to panel, whichever of them are drawn
_MEASURES: dict[Any, Look] = dict(
    zip(
        ("sensitivity", "specificity", "false_flags_baseline", "false_flags_fresh", "auc"),
        (CATEGORIES[0], CATEGORIES[3], CATEGORIES[4], CATEGORIES[1], CATEGORIES[5]),
        strict=True,
    )
)
_NAMES = {
    "auc": "AUC",
    "false_flags_baseline": "false flags (baseline)",
    "false_flags_fresh": "false flags (fresh)",
}
_LINES: tuple[Stroke, ...] = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (4, 1.5, 1, 1.5)))


def threshold(
    frame: pd.DataFrame,
    *,
    x: str = "n",
    label: str | None = None,
    legend: str | bool = "below",
    ax: Axes | None = None,
) -> Axes:
    """Draw what each threshold finds and what it flags wrongly, and the point that was chosen.

    Parameters
    ----------
    frame : pandas.DataFrame
        Calibration in long form: `x`, ``measure`` (``sensitivity``, ``specificity``,
        ``false_flags_baseline``, ``false_flags_fresh``, ``auc`` or others, at most six),
        ``estimate``, ``ci_low``, ``ci_high``. Where there: ``rule`` (told apart by the stroke, at
        most four), ``chosen`` (truth value; such points are ringed and their place marked) and
        ``limit`` (rate of false flags allowed, a dashed line).
    x : str, default "n"
        Column of thresholds.
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
        When a column is not there, or there are more measures or rules than can be told apart.

    See Also
    --------
    skillcomp.overlap.calibrate

    Notes
    -----
    Points follow the frame's order within a measure and rule and stand a little beside their
    threshold, so that intervals do not hide each other. An undefined estimate is a gap.
    """
    where = "plots.threshold"
    require(frame, [x, "measure", "estimate", "ci_low", "ci_high"], where)
    measures, rules = levels(frame["measure"]), _rules(frame, where)
    look_of = _measure_looks(measures)
    ax = axes(ax)
    at = numbers(frame, x, where)
    steps = np.diff(np.unique(at[np.isfinite(at)]))
    unit = float(steps.min()) if len(steps) else 1.0
    _threshold_curves(ax, frame, at, measures, rules, look_of, unit, where)
    entries: list[tuple[object, Line2D]] = [
        (_NAMES.get(m, m), marker(look_of[m], line="-")) for m in measures
    ]
    if len(rules) > 1:
        strokes = zip(rules, _LINES, strict=False)
        entries += [(name, Line2D([], [], color=INK, linestyle=s)) for name, s in strokes]
    limit = numbers(frame, "limit", where)
    for share in np.unique(limit[np.isfinite(limit)]):
        rule(ax, share, upright=False, dashed=True)
        entries.append((f"limit ({number(share, percent=True)}%)", dashed()))
    places = np.unique(at[truth(frame, "chosen", where)])
    for place in places:
        band = (place - 0.4 * unit, place + 0.4 * unit)
        ax.axvspan(*band, color="#ececec", linewidth=0, zorder=0, gid="chosen")
    if len(places):
        text = ", ".join(number(place, percent=False) for place in places)
        entries.append((f"chosen ({x} = {text})", ring()))
    whole_steps(ax.xaxis, at)
    ax.set_ylim(-0.03, 1.03)
    scale(ax.yaxis, percent=True, signed=False)
    label_y(ax, "Rate (%)")
    text = "Length of n-gram (content tokens)" if x == "n" else words(x)
    label_x(ax, label if label is not None else text)
    key(ax, entries, legend)
    return ax


def roc(
    frame: pd.DataFrame,
    *,
    x: str = "false_positive_rate",
    y: str = "true_positive_rate",
    hue: str | None = None,
    legend: str | bool = "below",
    ax: Axes | None = None,
) -> Axes:
    """Draw true against false positives along the thresholds, with the line of chance.

    Parameters
    ----------
    frame : pandas.DataFrame
        `x` and `y` as proportions, one row per threshold, in the order of thresholds; where
        there, ``auc`` (one value a level) goes into the key and ``chosen`` points are ringed.
    x, y : str
        Columns of the two rates.
    hue : str, optional
        Column of curves, at most six.
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
    """
    ax, entries = _curves(frame, x, y, hue, ax, "plots.roc", "auc", "AUC")
    ax.axline((0, 0), slope=1, color=INK, linestyle=DASH, marker="", linewidth=0.8, zorder=1)
    key(ax, [*entries, ("chance", dashed())], legend)
    return ax


def precision_recall(
    frame: pd.DataFrame,
    *,
    x: str = "recall",
    y: str = "precision",
    hue: str | None = None,
    legend: str | bool = "below",
    ax: Axes | None = None,
) -> Axes:
    """Draw precision against recall along the thresholds, with the prevalence as the floor.

    Parameters
    ----------
    frame : pandas.DataFrame
        `x` and `y` as proportions, one row per threshold, in the order of thresholds; where
        there, ``average_precision`` (one value a level) goes into the key, ``prevalence`` is a
        dashed line and ``chosen`` points are ringed. Precision without a flagged text is NaN
        and leaves a gap.
    x, y, hue, legend, ax
        As for `roc`.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    FrameError
        When a column is not there or the hue has more than six levels.
    """
    where = "plots.precision_recall"
    ax, entries = _curves(frame, x, y, hue, ax, where, "average_precision", "AP")
    shares = np.unique(numbers(frame, "prevalence", where))
    for share in shares[np.isfinite(shares)]:
        rule(ax, share, upright=False, dashed=True)
        text = f"prevalence ({number(share, percent=True, digits=3)}%)"
        entries.append((text, dashed()))
    key(ax, entries, legend if len(entries) > 1 or hue else False)
    return ax


def _curves(
    frame: pd.DataFrame,
    x: str,
    y: str,
    hue: str | None,
    ax: Axes | None,
    where: str,
    area: str,
    short: str,
) -> tuple[Axes, list[tuple[object, Line2D]]]:
    require(frame, [x, y, *([hue] if hue else [])], where)
    hues, look_of, order = hue_looks(frame, hue)
    ax = axes(ax, width="column", height=3.4)
    across, up, areas = (numbers(frame, c, where) for c in (x, y, area))
    chosen = truth(frame, "chosen", where)
    entries: list[tuple[object, Line2D]] = []
    for level in order:
        rows = where_equal(hues, level)
        name = level if hue else "thresholds"
        points(ax, across[rows], up[rows], look_of[level], name, line="-")
        ax.lines[-1].set_clip_on(False)
        ring_chosen(ax, across[rows & chosen], up[rows & chosen])
        known = np.unique(areas[rows & np.isfinite(areas)])
        text = f"{name} ({short} {known[0]:.2f})" if len(known) == 1 else name
        entries.append((text, marker(look_of[level], line="-")))
    if chosen.any():
        entries.append(("chosen", ring()))
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    ticks = np.linspace(0, 1, 6)
    ax.set_xticks(ticks)
    ax.set_yticks(ticks)
    scale(ax.xaxis, percent=True, signed=False)
    scale(ax.yaxis, percent=True, signed=False)
    label_x(ax, f"{words(x)} (%)")
    label_y(ax, f"{words(y)} (%)")
    return ax, entries


def _threshold_curves(
    ax: Axes,
    frame: pd.DataFrame,
    at: Floats,
    measures: list[Any],
    rules: list[Any],
    look_of: dict[Any, Look],
    unit: float,
    where: str,
) -> None:
    """Draw one curve for each measure and rule, each a little beside the threshold."""
    value, low, high = (numbers(frame, c, where) for c in ("estimate", "ci_low", "ci_high"))
    chosen = truth(frame, "chosen", where)
    of_measure, of_rule = keys(frame["measure"]), keys(_rule_column(frame))
    shift = iter(offsets(len(measures) * len(rules), spread=0.4 * unit))
    for measure, name in product(measures, rules):
        rows = where_equal(of_measure, measure) & where_equal(of_rule, name)
        beside = at[rows] + next(shift)
        intervals(ax, beside, low[rows], high[rows], look_of[measure], upright=True)
        stroke = _LINES[rules.index(name)]
        points(ax, beside, value[rows], look_of[measure], measure, line=stroke)
        ring_chosen(ax, beside[chosen[rows]], value[rows & chosen])


def _rule_column(frame: pd.DataFrame) -> pd.Series:
    if "rule" in frame.columns:
        return frame["rule"]
    return pd.Series(None, index=frame.index, dtype="str")


def _rules(frame: pd.DataFrame, where: str) -> list[Any]:
    found = levels(_rule_column(frame)) or [None]
    if len(found) > len(_LINES):
        raise FrameError(
            f"{where}: found {len(found)} rules; allowed: at most {len(_LINES)} in one axes. "
            "Facet by rule instead (skillcomp.plots.facet)."
        )
    return found


def _measure_looks(measures: list[Any]) -> dict[Any, Look]:
    if any(measure not in _MEASURES for measure in measures):
        return looks(measures)
    return {measure: _MEASURES[measure] for measure in measures}
