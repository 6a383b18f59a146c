"""Figures of the calibration of the copy check: strips, thresholds, ROC, precision and recall."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from skillcomp.errors import FrameError
from skillcomp.plots import _shared as draw
from skillcomp.style import CATEGORIES, INK, Look, called, looks

# a measure keeps its look from panel to panel, whichever of them are drawn
_MEASURES: dict[Any, Look] = {
    "sensitivity": CATEGORIES[0],
    "specificity": CATEGORIES[3],
    "false_flags_baseline": CATEGORIES[4],
    "false_flags_fresh": CATEGORIES[1],
    "auc": CATEGORIES[5],
}
_NAMES = {
    "auc": "AUC",
    "false_flags_baseline": "false flags (baseline)",
    "false_flags_fresh": "false flags (fresh)",
}
_STROKES: tuple[draw.Stroke, ...] = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (4, 1.5, 1, 1.5)))
_SCORES = {
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
    draw.require(frame, [x, y, hue], where)
    if "n" in frame.columns and "n" not in (y, hue) and frame["n"].nunique() > 1:
        found = ", ".join(str(n) for n in frame["n"].unique()[:12])
        raise FrameError(
            f"{where}: the frame holds scores of several n ({found}), one text would be drawn "
            "more than once. Select one n, name y='n', or facet by it (skillcomp.plots.facet)."
        )
    if hue is None and y == "condition":
        hue = y
    ax = draw.axes(ax, height=min(0.36 * len(draw.levels(frame[y])) + 0.95, 9.0))
    taken = draw.strip(ax, frame, x, y, hue, where)
    percent = x.startswith("share")
    draw.scale(ax.xaxis, percent=percent)
    unit = "%" if percent else ""
    text = _SCORES.get(x, draw.words(x) + (" (%)" if percent else ""))
    draw.label_x(ax, label if label is not None else text, taken=taken)
    told_apart = hue is not None and hue != y
    entries = draw.marked(draw.hue_looks(frame, hue)[1], line="") if told_apart else []
    if limit is not None:
        draw.reference(ax, limit, upright=True, dashed=True)
        entries.append(
            (f"limit ({draw.number_text(limit, percent=percent)}{unit})", draw.dashed_mark())
        )
    draw.legend(ax, entries, legend)
    rows = "; ".join(" ".join(t.get_text().split()) for t in ax.get_yticklabels())
    draw.tell(ax, f"{text.removesuffix(' (%)')}, one mark a text, {draw.each(y)}", rows)
    return ax


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
        most four), ``chosen`` (truth value; such points are ringed), ``limit`` (rate of false
        flags allowed, a dashed line) and rows of the measure ``chosen_n``, whose limits are the
        spread of the choice over resamples: a bracket at the foot.
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
    draw.require(frame, [x, "measure", "estimate", "ci_low", "ci_high"], where)
    frame = _of_the_chosen_rule(frame)
    spread = frame[frame["measure"].eq("chosen_n")]
    frame = frame[frame["measure"].ne("chosen_n")]
    draw.unit(frame, where)
    measures, at = draw.levels(frame["measure"]), draw.numbers(frame, x, where)
    known = all(measure in _MEASURES for measure in measures)
    look_of = {m: _MEASURES[m] for m in measures} if known else looks(measures)
    ax = draw.axes(ax)
    steps = np.diff(np.unique(at[np.isfinite(at)]))
    step = float(steps.min()) if len(steps) else 1.0
    entries: list[draw.Entry] = [
        (_NAMES.get(m, m), draw.marker(look_of[m], line="-")) for m in measures
    ]
    entries += _threshold_curves(ax, frame, at, look_of, step, where)
    limit = draw.numbers(frame, "limit", where)
    for share in np.unique(limit[np.isfinite(limit)]):
        draw.reference(ax, share, upright=False, dashed=True)
        entries.append((f"limit ({draw.number_text(share, percent=True)}%)", draw.dashed_mark()))
    places = np.unique(at[draw.truth(frame, "chosen", where)])
    if len(places):
        text = ", ".join(draw.number_text(place, percent=False) for place in places)
        entries.append((f"chosen ({x} = {text})", draw.ring()))
    entries += _spread(ax, spread, x, where)
    draw.whole_steps(ax.xaxis, at)
    ax.set_ylim(-0.03, 1.03)
    draw.scale(ax.yaxis, percent=True)
    draw.label_y(ax, "Rate (%)")
    text = "Length of n-gram (content tokens)" if x == "n" else draw.words(x)
    draw.label_x(ax, label if label is not None else text)
    draw.legend(ax, entries, legend)
    about = "Texts found and texts flagged wrongly at each threshold"
    draw.tell(ax, f"{about}, {text[:1].lower()}{text[1:]}")
    return ax


def _spread(ax: Axes, rows: pd.DataFrame, x: str, where: str) -> list[draw.Entry]:
    """Draw how far the choice moves over resamples as a bracket at the foot of the axes."""
    entries: list[draw.Entry] = []
    foot = ax.get_xaxis_transform()
    how: Any = {"color": INK, "marker": "|", "markersize": 7, "linewidth": 1.0}
    for low, high in zip(
        *(draw.numbers(rows, c, where) for c in ("ci_low", "ci_high")), strict=True
    ):
        if np.isfinite([low, high]).all():
            ax.plot([low, high], [0.02, 0.02], transform=foot, gid="spread", **how)
            # the limits stand half a step outside the lengths that were chosen
            first, last = math.ceil(low), math.floor(high)
            text = f"{first} to {last}" if first < last else f"always {first}"
            entries.append((f"{x} chosen over resamples ({text})", Line2D([], [], **how)))
    return entries


def _of_the_chosen_rule(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the curves of the chosen rule where a frame is a whole calibration, else all of it."""
    measure = frame["measure"].astype("str")
    nulls = measure[measure.str.startswith("chosen_n_")].str.removeprefix("chosen_n_").unique()
    if not len(nulls) or not {"rule", "n"} <= set(frame.columns):
        return frame
    curves = ["sensitivity", "chosen_n", *(f"false_flags_{null}" for null in nulls)]
    answers = frame[measure.eq("chosen_n")]
    kept = frame[measure.isin(curves) & frame["rule"].isin(answers["rule"])]
    return kept.assign(chosen=kept["n"].isin(answers["estimate"]))


def _threshold_curves(
    ax: Axes,
    frame: pd.DataFrame,
    at: draw.Floats,
    look_of: dict[Any, Look],
    step: float,
    where: str,
) -> list[draw.Entry]:
    """Draw a curve for each measure and rule, beside the threshold; return the rules' entries."""
    of_rule, of_measure = draw.optional(frame, "rule"), draw.values(frame["measure"])
    rules = draw.levels(frame["rule"]) if "rule" in frame.columns else [None]
    if len(rules) > len(_STROKES):
        raise FrameError(
            f"{where}: found {len(rules)} rules; allowed: at most {len(_STROKES)} in one axes. "
            "Facet by rule instead (skillcomp.plots.facet)."
        )
    stroke_of = dict(zip(rules, _STROKES, strict=False))
    value, low, high = (draw.numbers(frame, c, where) for c in ("estimate", "ci_low", "ci_high"))
    chosen = draw.truth(frame, "chosen", where)
    shift = iter(draw.offsets(len(look_of) * len(rules), spread=0.4 * step))
    for (measure, look), rule in product(look_of.items(), rules):
        rows = draw.where_equal(of_measure, measure) & draw.where_equal(of_rule, rule)
        beside = at[rows] + next(shift)
        draw.intervals(ax, beside, low[rows], high[rows], look, upright=True)
        draw.points(ax, beside, value[rows], look, measure, line=stroke_of[rule])
        draw.ring_chosen(ax, beside[chosen[rows]], value[rows & chosen])
    strokes = [(r, Line2D([], [], color=INK, linestyle=s)) for r, s in stroke_of.items()]
    return list(strokes) if len(rules) > 1 else []


def roc(
    frame: pd.DataFrame,
    *,
    x: str = "false_positive_rate",
    y: str = "true_positive_rate",
    hue: str | None = None,
    zoom: float = 1.0,
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
    zoom : float, default 1.0
        Share of each axis that is shown: 0.3 is the corner in which good thresholds lie.
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
    ax, entries = _curves(frame, x, y, hue, ax, "plots.roc", ("auc", "AUC"))
    _zoom(ax, zoom, "plots.roc", low=(0.0, 1.0 - zoom))
    ax.axline((0, 0), slope=1, color=INK, linestyle=draw.DASH, marker="", linewidth=0.8, zorder=1)
    chance: list[draw.Entry] = [("chance", draw.dashed_mark())] if zoom > 0.5 else []
    draw.legend(ax, [*entries, *chance], legend, title=_key(hue))
    about = "True positives against false positives along the thresholds"
    _tell(ax, frame, x, y, hue, about, ("no false positive", 0.0))
    return ax


def precision_recall(
    frame: pd.DataFrame,
    *,
    x: str = "recall",
    y: str = "precision",
    hue: str | None = None,
    zoom: float = 1.0,
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
    x, y, hue, zoom, legend, ax
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
    ax, entries = _curves(frame, x, y, hue, ax, where, ("average_precision", "AP"))
    _zoom(ax, zoom, where, low=(1.0 - zoom, 1.0 - zoom))
    shares = np.unique(draw.numbers(frame, "prevalence", where))
    for share in shares[np.isfinite(shares) & (shares >= 1.0 - zoom)]:
        draw.reference(ax, share, upright=False, dashed=True)
        text = f"prevalence ({draw.number_text(share, percent=True, digits=3)}%)"
        entries.append((text, draw.dashed_mark()))
    draw.legend(ax, entries, legend if len(entries) > 1 or hue else False, title=_key(hue))
    about = "Precision against recall along the thresholds"
    _tell(ax, frame, x, y, hue, about, ("full recall", 1.0))
    return ax


def _key(hue: str | None) -> str | None:
    """Return the title of the key of curves."""
    return "length of n-gram" if hue == "n" else called(hue) if hue else None


def _tell(
    ax: Axes, frame: pd.DataFrame, x: str, y: str, hue: str | None, what: str, at: tuple[str, float]
) -> None:
    """Say what the curves show, and the height of each at one end."""
    hues, _, order = draw.hue_looks(frame, hue)
    across, up = (draw.numbers(frame, column, "plots.roc") for column in (x, y))
    said = []
    for level in order:
        here = up[draw.where_equal(hues, level) & (across == at[1])]
        if np.isfinite(here).any():
            best = draw.number_text(float(np.nanmax(here)), percent=True, digits=3)
            name = f"{_key(hue)} {level}: " if hue else ""
            said.append(f"{name}{draw.words(y).lower()} {best} % at {at[0]}")
    draw.tell(ax, f"{what}, a curve {draw.each(_key(hue))}" if hue else what, "; ".join(said))


def _zoom(ax: Axes, zoom: float, where: str, *, low: tuple[float, float]) -> None:
    """Show a corner of the axes, from the given ends on, with ticks on round numbers."""
    if not 0 < zoom <= 1:
        raise FrameError(f"{where}: zoom: found {zoom!r}; allowed: above 0 and at most 1.")
    edge = 0.04 * zoom  # a mark in the corner is seen whole
    for axis, start in (("x", low[0]), ("y", low[1])):
        ax.set(**{f"{axis}lim": (start - edge, start + zoom + edge)})
        getattr(ax, f"{axis}axis").set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))


def _curves(
    frame: pd.DataFrame,
    x: str,
    y: str,
    hue: str | None,
    ax: Axes | None,
    where: str,
    area: tuple[str, str],
) -> tuple[Axes, list[draw.Entry]]:
    """Draw curves of two rates; return their legend, with the area of each where it is known."""
    draw.require(frame, [x, y, hue], where)
    hues, look_of, order = draw.hue_looks(frame, hue)
    ax = draw.axes(ax, width="column", height=3.4)
    across, up, areas = (draw.numbers(frame, column, where) for column in (x, y, area[0]))
    chosen = draw.truth(frame, "chosen", where)
    entries: list[draw.Entry] = []
    far = up - across if where == "plots.roc" else up + across
    corners: list[tuple[float, float]] = []
    for level in reversed(order):  # a curve shows beneath those that it meets
        rows = draw.where_equal(hues, level)
        name, look, width = level if hue else "thresholds", look_of[level], 1.0 + 0.7 * len(corners)
        drawn = draw.points(ax, across[rows], up[rows], look, name, line="-")
        drawn.set(drawstyle="steps-post", markevery=[])
        drawn.set(linewidth=width, zorder=3 - 0.01 * len(corners))
        # one mark a curve, at its best corner and around those that lie upon it
        best = int(np.nanargmax(far[rows])) if np.isfinite(far[rows]).any() else None
        here = (np.nan, np.nan) if best is None else (across[rows][best], up[rows][best])
        above = sum(np.hypot(here[0] - x0, here[1] - y0) < 0.02 for x0, y0 in corners)
        mark: Any = {"color": look.color, "marker": look.marker, "markeredgecolor": "white"}
        mark |= {"markeredgewidth": 0.5, "markersize": 4.5 * 2**above, "linestyle": ""}
        ax.plot(*here, zorder=3.5 - 0.01 * len(corners), gid="corner", **mark)
        corners.append(here)
        draw.ring_chosen(ax, across[rows & chosen], up[rows & chosen])
        known = np.unique(areas[rows & np.isfinite(areas)])
        text = f"{name} ({area[1]} {known[0]:.2f})" if len(known) == 1 else name
        entries.insert(0, (text, draw.marker(look, line="-")))
    if chosen.any():
        entries.append(("chosen", draw.ring()))
    ax.set_aspect("equal")
    for axis in (ax.xaxis, ax.yaxis):
        draw.scale(axis, percent=True)
    draw.label_x(ax, f"{draw.words(x)} (%)")
    draw.label_y(ax, f"{draw.words(y)} (%)")
    return ax, entries
