"""Plots of the copy check and its calibration, of the power of a study and of structure scores."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from skillcomp.errors import FrameError
from skillcomp.plots import _shared as draw
from skillcomp.plots._shared import (
    Entry,
    each,
    hue_looks,
    label_x,
    label_y,
    level_marks,
    limit_line,
    number_text,
    numbers,
    require,
    scale,
    words,
)
from skillcomp.style import CATEGORIES, INK, Look, called, describe_axes, figure

# A measure has the same look in every panel.
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
    "sensitivity": "copies found",
}
# near and far cases of a transfer curve, and those without a label
_KINDS = (CATEGORIES[1], CATEGORIES[0], Look(INK, "."))
_ROC = ("false_positive_rate", "true_positive_rate")
# scores for several values of these columns are not drawn together
_NOT_MIXED = {
    "n": "n ({}), one text would be drawn more than once. Select one n, name y='n', or facet by it "
    "(skillcomp.plots.facet).",
    "tokenizer": "tokenizers ({}), which cannot be compared. Select one, or name y='tokenizer'.",
}


def overlap(
    frame: pd.DataFrame, *, y: str = "condition", limit: float | None = None, ax: Axes | None = None
) -> Axes:
    """Draw the overlap of each text with its skill, as one mark per text.

    Parameters
    ----------
    frame : pandas.DataFrame
        Columns ``share`` and `y`, with one row per text. All scores must be for the same length n
        of n-grams, unless ``n`` is `y`.
    y : str, default "condition"
        Column with the levels that are the rows of the plot, such as ``condition``, ``level`` (of
        copying) or ``skill``. Conditions also have colours and markers.
    limit : float, optional
        Share to mark with a dashed line.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    FrameError
        If a column is missing, if scores for several n would be mixed, or if there are more than
        six conditions.

    See Also
    --------
    skillcomp.overlap.score

    Notes
    -----
    Marks are jittered vertically; the jitter has no meaning and is the same in every run. A text
    with an undefined score has no mark; the row label counts such texts.
    """
    where = "plots.overlap"
    require(frame, ["share", y], where)
    for name, problem in _NOT_MIXED.items():
        shown = name not in frame or name == y
        levels = [] if shown else list(frame[name].dropna().unique())
        if len(levels) > 1:
            several = problem.format(", ".join(map(str, levels[:12])))
            raise FrameError(f"{where}: the frame holds scores of several {several}")
    rows, of_row = draw.positions(frame, y)
    hues, look_of = hue_looks(frame, y if y == "condition" else None)
    ax = draw.axes(ax, height=min(0.36 * len(rows) + 0.95, 9.0))
    value = numbers(frame, "share", where)
    height = of_row + np.random.default_rng(0).uniform(-0.31, 0.31, len(frame))
    size = 5.0 if len(frame) <= 3 * len(rows) else 3.0
    how: dict[str, Any] = {"alpha": 0.6, "markeredgewidth": 0, "clip_on": False}
    for i, (level, look) in enumerate(look_of.items()):
        mine = (hues == i) & np.isfinite(value)
        draw.points(ax, value[mine], height[mine], look, level, markersize=size, **how)
    texts, names = [], draw.level_names(rows)
    for i, level in enumerate(rows):
        here = value[of_row == i]
        zeros, lost = np.sum(here == 0), np.isnan(here).sum()
        none = f", {zeros} at 0" if zeros > 1 else ""
        none += f", {lost} undefined" if lost else ""
        texts.append(f"{names[level]}\n(n = {len(here)}{none})")
    taken = draw.label_rows(ax, texts, separated=True)
    scale(ax.xaxis, percent=True)
    text = "N-grams shared with the skill"
    label_x(ax, f"{text} (%)", taken=taken)
    if limit is not None:
        draw.legend(ax, [limit_line(ax, limit, "limit", upright=True)])
    about = "; ".join(row.replace("\n", " ") for row in texts)
    describe_axes(ax, f"{text}, one mark a text, {each(y)}", about)
    return ax


def threshold(frame: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw the rates of detection and of false flags at each threshold; mark the chosen one.

    Parameters
    ----------
    frame : pandas.DataFrame
        Calibration in long form: ``n``, ``measure`` (``sensitivity``, ``specificity``,
        ``false_flags_baseline``, ``false_flags_fresh``, ``auc`` or others, at most six),
        ``estimate``, ``ci_low``, ``ci_high``. Optional columns: ``rule`` (with one value),
        ``chosen`` (bool; chosen points get a ring) and ``limit`` (allowed rate of
        false flags, drawn as a dashed line). Rows with the measure ``chosen_n`` are optional, too.
        Their limits give the range of the n chosen in resamples, which is drawn as a bracket at
        the bottom.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    FrameError
        If a column is missing, or there are more than six measures or several rules.

    See Also
    --------
    skillcomp.overlap.calibrate

    Notes
    -----
    A line joins the points of a measure in the order of the frame. Points are shifted
    slightly from their threshold, so that intervals do not overlap. An undefined estimate leaves a
    gap in the line.
    """
    where = "plots.threshold"
    require(frame, ["n", "measure", "estimate", "ci_low", "ci_high"], where)
    frame = _of_the_chosen_rule(frame)
    spread = frame[frame["measure"].eq("chosen_n")]
    frame = frame[frame["measure"].ne("chosen_n")]
    draw.unit(frame, where)
    measures, look_of = hue_looks(frame, "measure", _MEASURES)
    at = numbers(frame, "n", where)
    rules = frame.get("rule", pd.Series(dtype=object)).dropna().unique()
    if len(rules) > 1:
        raise FrameError(
            f"{where}: the rows have several rules ({', '.join(map(str, rules[:12]))}), which one "
            "axes cannot show. Select one, or facet by rule (skillcomp.plots.facet)."
        )
    ax = draw.axes(ax)
    curves, chosen = draw.estimates(frame, where), draw.truth(frame, "chosen", where)
    steps = np.diff(np.unique(at[np.isfinite(at)]))
    spread_of_marks = 0.4 * float(steps.min()) if len(steps) else 0.4
    beside = at + draw.offsets(len(look_of), spread=spread_of_marks)[measures]
    entries = level_marks(ax, beside, curves, measures, look_of, _NAMES, line="-")
    for x, y in zip(beside[chosen], curves[0][chosen], strict=True):
        ax.add_line(_rings([x], [y]))
    limit = numbers(frame, "limit", where)
    for share in np.unique(limit[np.isfinite(limit)]):
        entries.append(limit_line(ax, share, "limit", upright=False))
    places = np.unique(at[chosen])
    if len(places):
        text = ", ".join(number_text(place) for place in places)
        entries.append((f"chosen (n = {text})", _rings()))
    entries += _draw_spread(ax, spread, where)
    draw.whole_steps(ax.xaxis, at)
    ax.set_ylim(-0.1 if len(spread) else -0.03, 1.03)
    scale(ax.yaxis, percent=True)
    label_y(ax, "Rate (%)" if _MEASURES.keys() >= look_of.keys() else "Copies found (%)")
    label_x(ax, "Length of n-gram (content tokens)")
    draw.legend(ax, entries)
    about = "Texts found and texts flagged wrongly at each threshold"
    describe_axes(ax, f"{about}, length of n-gram (content tokens)")
    return ax


def _rings(x: Any = (), y: Any = ()) -> Line2D:
    """Return rings around the given points or, without points, a ring for a legend."""
    made = Line2D(x, y, marker="o", markersize=8, linestyle="", zorder=4, gid="chosen")
    made.set(markerfacecolor="none", markeredgecolor=INK, markeredgewidth=0.9, clip_on=False)
    return made


def _draw_spread(ax: Axes, rows: pd.DataFrame, where: str) -> list[Entry]:
    """Draw a bracket at the foot of the axes: the range of thresholds chosen on resamples."""
    entries: list[Entry] = []
    foot = ax.get_xaxis_transform()
    how: Any = {"color": INK, "marker": "|", "markersize": 7, "linewidth": 1.0}
    for low, high in zip(*draw.estimates(rows, where)[1:], strict=True):
        if np.isfinite([low, high]).all():
            # ci_low and ci_high are 0.5 beyond the smallest and the largest chosen n
            ax.plot([low + 0.5, high - 0.5], [0.03, 0.03], transform=foot, gid="spread", **how)
            entries = [("n chosen over resamples", Line2D([], [], **how))]
    return entries


def _of_the_chosen_rule(frame: pd.DataFrame) -> pd.DataFrame:
    """Select the curves of the chosen rule.

    Return the frame unchanged if it has no measure ``chosen_n_...``, or lacks the column ``rule``
    or ``n``.
    """
    measure = frame["measure"].astype("str")
    nulls = measure[measure.str.startswith("chosen_n_")].str.removeprefix("chosen_n_").unique()
    if not len(nulls) or not {"rule", "n"} <= set(frame.columns):
        return frame
    curves = ["sensitivity", "chosen_n", *(f"false_flags_{null}" for null in nulls)]
    answers = frame[measure.eq("chosen_n")]
    rules = list(answers["rule"].dropna()) or ["any"]  # without a chosen rule, draw "any"
    rows = frame[measure.isin(curves) & frame["rule"].isin(rules)]
    # Turn columns that `facet` made categorical back into text, so that levels without rows vanish.
    words = {name: rows[name].astype("str") for name in ("measure", "rule")}
    return rows.assign(**words, chosen=rows["n"].isin(answers["estimate"]))


def roc(frame: pd.DataFrame, *, hue: str | None = None, ax: Axes | None = None) -> Axes:
    """Draw the true against the false positive rate over all thresholds, with the chance line.

    Parameters
    ----------
    frame : pandas.DataFrame
        Columns ``false_positive_rate`` and ``true_positive_rate``, with one row per threshold, in
        the order of thresholds.
    hue : str, optional
        Column with one level per curve, at most six.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    FrameError
        If a column is missing or the hue has more than six levels.

    Notes
    -----
    Points are joined by straight lines, so the area under the curve equals ``roc_auc_score`` of
    scikit-learn, even if texts are tied.
    """
    where = "plots.roc"
    require(frame, [*_ROC, hue], where)
    hues, look_of = hue_looks(frame, hue)
    ax = draw.axes(ax, width="column", height=3.4)
    across, up = (numbers(frame, column, where) for column in _ROC)
    key = "length of n-gram" if hue == "n" else called(hue) if hue else None
    entries: list[Entry] = []
    heights: list[str] = []
    for i, (level, look) in enumerate(look_of.items()):
        rows = hues == i
        name = (
            "thresholds" if hue is None else level if isinstance(level, str) else f"{key} {level}"
        )
        # each curve has its marks in other places, so that equal curves stay visible
        marks = (0.04 + 0.05 * i, 0.3)
        draw.points(ax, across[rows], up[rows], look, name, line="-", markevery=marks)
        entries.append((name, draw.marker(look, line="-")))
        at_zero = up[rows & (across == 0)]
        if np.isfinite(at_zero).any():
            most = number_text(float(np.nanmax(at_zero)), percent=True, digits=3)
            start = f"{key} {level}: " if hue else ""
            heights.append(f"{start}true positive rate {most} % at no false positive")
    ax.set_aspect("equal")
    ax.set(xlim=(-0.04, 1.04), ylim=(-0.04, 1.04))  # leave space for marks in the corners
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
        scale(axis, percent=True)
    label_x(ax, "False positive rate (%)")
    label_y(ax, "True positive rate (%)")
    ax.axline((0, 0), slope=1, color=INK, linestyle=draw.DASH, marker="", linewidth=0.8, zorder=1)
    draw.legend(ax, [*entries, ("chance", draw.dashed_mark())])
    about = "True positives against false positives along the thresholds"
    about += f", a curve {each(key)}" if hue else ""
    describe_axes(ax, about, "; ".join(heights))
    return ax


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
    names: dict[Any, object] = {}
    for level in look_of:
        if not isinstance(level, str):
            number = isinstance(level, float) and hue == "size"
            text = f"{number_text(level, percent=True)} points" if number else level
            names[level] = f"{words(hue).lower()} {text}" if hue else "power"
    entries = level_marks(ax, at, curves, hues, look_of, names, line="-")
    if target is not None:
        entries.append(limit_line(ax, target, "target", upright=False))
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


def scores(frame: pd.DataFrame, *, hue: str | None = None, ax: Axes | None = None) -> Axes:
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
    Scores are jittered by at most 3 % of their range, so that documents with equal scores stay
    visible; the jitter has no meaning and is the same in every run.
    """
    where = "plots.scores"
    require(frame, ["score", "estimate", hue], where)
    unit = draw.unit(frame, where)
    hues, look_of = hue_looks(frame, hue)
    at, results = numbers(frame, "score", where), draw.estimates(frame, where)
    ax = draw.axes(ax, height=3.0)
    width = pd.Series(at).max() - pd.Series(at).min()
    at = at + width * np.random.default_rng(0).uniform(-0.03, 0.03, len(at))
    if unit == "points":
        draw.reference(ax, 0, upright=False)
    entries = level_marks(ax, at, results, hues, look_of, {}, width=0.6)
    percent = unit in ("rate", "points")
    scale(ax.yaxis, percent=percent, signed=unit == "points")
    label_x(ax, "Structure score of the document (0 to 100)")
    text = draw.axis_label("Pass rate" if unit == "rate" else "Difference", unit)
    label_y(ax, text)
    draw.legend(ax, entries if hue else [])
    what = f"{text.partition(' (')[0]} of each document against its structure score"
    describe_axes(ax, what + (f", {each(hue)}" if hue else ""))
    return ax


def transfer_curve(
    frame: pd.DataFrame, cases: pd.DataFrame | None = None, *, distance: str = "distance"
) -> Axes:
    """Draw how the effect of a skill changes with the distance of its cases.

    The upper panel shows the delta of each bin and, as small marks, the deltas of single cases. An
    author's labels (near, far) have a colour and a marker, so that one sees whether they agree with
    the distance. The lower panel shows the pass rates with and without the skill on the same axis,
    so that one sees whether far cases are harder anyway.

    Parameters
    ----------
    frame : pandas.DataFrame
        The result of :func:`skillcomp.transfer.curve` for one skill, or for all skills together.
    cases : pandas.DataFrame, optional
        The cases: the result of :func:`skillcomp.skillverdicts.cases` with ``by=[distance]``.
    distance : str, default "distance"
        The column of ``cases`` with the distances.

    Returns
    -------
    matplotlib.axes.Axes
        The upper axes; ``ax.figure.axes`` has both.

    Raises
    ------
    FrameError
        If a column is missing, or if two rows have the same measure, condition and bin.

    Notes
    -----
    An estimate is drawn at the mean distance of its bin. Bins of several skills may overlap,
    because each skill has bins of its own.
    """
    where = "plots.transfer_curve"
    require(frame, ["measure", "condition", "bin", "distance", "estimate"], where)
    binned = frame[frame["bin"].notna()]
    twice = binned.duplicated(["measure", "condition", "bin"])
    if twice.any():
        raise FrameError(
            f"{where}: bin {binned['bin'][twice].iloc[0]} has several rows with one measure and "
            "condition; select one skill, grader and agent."
        )
    _, (top, below) = figure("text", nrows=2, height=3.2, sharex=True)
    changes = binned["measure"].str.startswith("delta")
    entries: list[Entry] = []
    if cases is not None:
        require(cases, [distance, "delta", "transfer", "condition"], where)
        cases = cases[cases["condition"].eq(binned["condition"][changes].iloc[0])]
        kinds = cases["transfer"].astype("object").fillna("not labelled")
        for level, look in zip(dict.fromkeys(sorted(kinds, reverse=True)), _KINDS, strict=False):
            some = cases[kinds.eq(level)]
            at = some[distance].to_numpy(float)
            (marks,) = top.plot(at, some["delta"], look.marker, color=look.color, gid=level)
            marks.set(markersize=3.2, markerfacecolor="none", alpha=0.8, zorder=1.5)
            entries.append((f"case, {level}" if level in ("near", "far") else "case", marks))
    draw.reference(top, 0, upright=False)
    for ax, rows in ((top, binned[changes]), (below, binned[~changes])):
        hues, look_of = hue_looks(rows, "condition")
        at, *of = (numbers(rows, c, where) for c in ("distance", "estimate", "ci_low", "ci_high"))
        steps = draw.offsets(len(look_of), spread=0.02 * float(np.ptp(at) or 1.0))
        own = level_marks(ax, at + steps[hues], of, hues, look_of, {}, line="-")
        entries += [entry for entry in own if entry[0] not in dict(entries)]
    percent = draw.unit(binned[changes], where) == "points"
    scale(top.yaxis, percent=percent, signed=True)
    scale(below.yaxis, percent=percent)
    below.set_ylim(*((-0.02, 1.02) if percent else (None, None)))
    change = draw.axis_label("Change", "points" if percent else None)
    label_y(top, change + draw.level_text(frame))
    label_y(below, "Pass rate (%)" if percent else "Mean score")
    label_x(below, "Distance from the skill")
    draw.legend(below, entries)
    describe_axes(top, "Change by distance from the skill, with the cases as marks")
    describe_axes(below, "below, the pass rates by condition")
    return cast(Axes, top)
