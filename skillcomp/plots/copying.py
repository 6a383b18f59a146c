"""Figures of the copying study: threshold curves, ROC, precision and recall, distributions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from skillcomp.errors import FrameError
from skillcomp.plots._draw import (
    RULE,
    Floats,
    Stroke,
    axes,
    hue_looks,
    intervals,
    key,
    keys,
    levels,
    marker,
    number,
    numbers,
    offsets,
    points,
    require,
    rule,
    scale,
    whole_steps,
    words,
)
from skillcomp.style import CATEGORIES, INK, Look, looks, plain

# a measure keeps its look from panel to panel, whichever of them are drawn
_MEASURES: dict[Any, Look] = dict(
    zip(
        ("sensitivity", "specificity", "false_flags_baseline", "false_flags_fresh", "auc"),
        (CATEGORIES[0], CATEGORIES[3], CATEGORIES[4], CATEGORIES[1], CATEGORIES[5]),
        strict=True,
    )
)
_LINES: tuple[Stroke, ...] = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (4, 1.5, 1, 1.5)))
_GOLDEN = 0.6180339887498949  # steps of this fraction never pile up


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
    at, value, low, high = (numbers(frame, c, where) for c in (x, "estimate", "ci_low", "ci_high"))
    chosen = _truth(frame, "chosen")
    limit = np.unique(numbers(frame, "limit", where))
    limit = limit[np.isfinite(limit)]
    steps = np.diff(np.unique(at[np.isfinite(at)]))
    unit = float(steps.min()) if len(steps) else 1.0
    entries: list[tuple[object, Line2D]] = []
    shift = offsets(len(measures) * len(rules), spread=0.4 * unit)
    of_measure, of_rule = keys(frame["measure"]), keys(_rule_column(frame))
    for i, (measure, name) in enumerate((m, r) for m in measures for r in rules):
        rows = np.array(
            [m == measure and r == name for m, r in zip(of_measure, of_rule, strict=True)],
            dtype=bool,
        )
        look, stroke = look_of[measure], _LINES[rules.index(name)]
        beside = at[rows] + shift[i]
        intervals(ax, beside, low[rows], high[rows], look, upright=True)
        points(ax, beside, value[rows], look, measure, line="-")
        ax.lines[-1].set_linestyle(stroke)
        _rings(ax, beside, value[rows], chosen[rows])
    entries += [(measure, marker(look_of[measure], line="-")) for measure in measures]
    if len(rules) > 1:
        entries += [
            (name, Line2D([], [], color=INK, linestyle=_LINES[i])) for i, name in enumerate(rules)
        ]
    for share in limit:
        rule(ax, share, upright=False, dashed=True)
        text = f"limit ({number(share, percent=True)}%)"
        entries.append((text, Line2D([], [], color=INK, linestyle=(0, (4, 2)), linewidth=0.8)))
    places = np.unique(at[chosen])
    for place in places:
        ax.axvspan(
            place - 0.4 * unit, place + 0.4 * unit, color="#ececec", linewidth=0, zorder=0
        ).set_gid("chosen")
    if len(places):
        text = ", ".join(number(place, percent=False) for place in places)
        entries.append((f"chosen ({x} = {text})", _ring([], [])))
    whole_steps(ax.xaxis, at)
    ax.set_ylim(-0.03, 1.03)
    scale(ax.yaxis, percent=True, signed=False)
    ax.set_ylabel("Rate (%)")
    ax.set_xlabel(label if label is not None else _threshold_label(x))
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
    (chance,) = ax.plot([0, 1], [0, 1], color=INK, linestyle=(0, (4, 2)), linewidth=0.8, zorder=1)
    chance.set_gid("reference")
    key(ax, [*entries, ("chance", chance)], legend)
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
        entries.append((text, Line2D([], [], color=INK, linestyle=(0, (4, 2)), linewidth=0.8)))
    key(ax, entries, legend if len(entries) > 1 or hue else False)
    return ax


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
    rows = levels(frame[y])
    ax = axes(ax, height=min(0.36 * len(rows) + 0.85, 9.0))
    strip(ax, frame, x, y, hue, where)
    if limit is not None:
        rule(ax, limit, upright=True, dashed=True)
    share = x.startswith("share")
    scale(ax.xaxis, percent=share, signed=False)
    ax.set_xlabel(label if label is not None else _overlap_label(x))
    if hue is not None and hue != y:
        order = levels(frame[hue])
        key(ax, [(level, marker(look)) for level, look in looks(order).items()], legend)
    return ax


def strip(ax: Axes, frame: pd.DataFrame, x: str, y: str, hue: str | None, where: str) -> None:
    """Draw one mark per row, spread over the height of its category."""
    rows, value = levels(frame[y]), numbers(frame, x, where)
    hues, look_of, order = hue_looks(frame, hue)
    place = {level: i for i, level in enumerate(rows)}
    base = np.array([place[level] for level in keys(frame[y])], dtype=np.float64)
    lanes = 1 if hue is None or hue == y else len(order)
    step = offsets(lanes, spread=0.8)
    for i, level in enumerate(order):
        mine = np.array([h == level for h in hues], dtype=bool)
        if not mine.any():
            continue
        rank = pd.Series(base[mine]).groupby(base[mine]).cumcount().to_numpy()
        jitter = ((rank * _GOLDEN) % 1 - 0.5) * (0.62 / lanes)
        height = base[mine] + (step[i] if lanes > 1 else 0.0) + jitter
        label = level if hue else "text"
        points(ax, value[mine], height, look_of[level], label)
        ax.lines[-1].set(markersize=3.0, alpha=0.6, markeredgewidth=0, clip_on=False)
    texts = []
    for i, level in enumerate(rows):
        here = base == i
        unknown = int(np.isnan(value[here]).sum())
        lost = f", {unknown} undefined" if unknown else ""
        texts.append(f"{plain(level, width=36).replace('_', ' ')} (n = {int(here.sum())}{lost})")
    ax.set_yticks(range(len(rows)), texts)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    for i in range(len(rows) - 1):
        ax.axhline(i + 0.5, color=RULE, linewidth=0.4, zorder=0).set_gid("separator")


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
    chosen = _truth(frame, "chosen")
    entries: list[tuple[object, Line2D]] = []
    for level in order:
        rows = np.array([h == level for h in hues], dtype=bool)
        name = level if hue else "thresholds"
        points(ax, across[rows], up[rows], look_of[level], name, line="-")
        ax.lines[-1].set_clip_on(False)
        _rings(ax, across[rows], up[rows], chosen[rows])
        known = np.unique(areas[rows & np.isfinite(areas)])
        text = f"{name} ({short} {known[0]:.2f})" if len(known) == 1 else name
        entries.append((text, marker(look_of[level], line="-")))
    if chosen.any():
        entries.append(("chosen", _ring([], [])))
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    ticks = np.linspace(0, 1, 6)
    ax.set_xticks(ticks)
    ax.set_yticks(ticks)
    scale(ax.xaxis, percent=True, signed=False)
    scale(ax.yaxis, percent=True, signed=False)
    ax.set_xlabel(f"{words(x)} (%)")
    ax.set_ylabel(f"{words(y)} (%)")
    return ax, entries


def _ring(x: Any, y: Any) -> Line2D:
    return Line2D(
        x,
        y,
        marker="o",
        markersize=8,
        markerfacecolor="none",
        markeredgecolor=INK,
        markeredgewidth=0.9,
        linestyle="",
    )


def _rings(ax: Axes, x: Floats, y: Floats, chosen: Any) -> None:
    if chosen.any():
        ring = _ring(x[chosen], y[chosen])
        ring.set(gid="chosen", zorder=4, clip_on=False)
        ax.add_line(ring)


def _truth(frame: pd.DataFrame, column: str) -> Any:
    if column not in frame.columns:
        return np.zeros(len(frame), dtype=bool)
    return frame[column].astype("boolean").fillna(False).to_numpy(dtype=bool)


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


def _threshold_label(x: str) -> str:
    return "Length of n-gram (content tokens)" if x == "n" else words(x)


def _overlap_label(x: str) -> str:
    known = {
        "share": "Share of n-grams shared with the skill (%)",
        "longest_run": "Longest shared run (content tokens)",
        "n_shared": "Distinct n-grams shared",
    }
    return known.get(x, words(x) + (" (%)" if x.startswith("share") else ""))
