"""Forests: a point with its interval for every row of an estimates frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import NDArray

from skillcomp.errors import FrameError
from skillcomp.plots._draw import (
    RULE,
    Floats,
    axes,
    cell,
    hue_looks,
    intervals,
    key,
    keys,
    label_x,
    level_text,
    levels,
    marker,
    number,
    numbers,
    offsets,
    points,
    reason,
    require,
    room,
    rule,
    scale,
    shown,
    truth,
    where_equal,
    words,
)
from skillcomp.style import CATEGORIES, INK, TICK_SIZE, Look, plain

_LINE = 0.17  # inches that one row of a forest needs at 7 pt
_MARGIN = 0.85  # inches for axis, its label and the key


def estimates(
    frame: pd.DataFrame,
    *,
    y: str | Sequence[str],
    hue: str | None = None,
    null: float | None = 0.0,
    percent: bool = True,
    label: str | None = None,
    legend: str | bool = "below",
    width: str = "text",
    ax: Axes | None = None,
) -> Axes:
    """Draw an estimates frame as a forest: every row a point with its interval.

    Rows stand from top to bottom in the order of the frame (conditions, C1-C9 and near before far
    in theirs). A row that is not known is not dropped: its note is written where the point would
    be. A point without an interval is hollow.

    Parameters
    ----------
    frame : pandas.DataFrame
        Columns `y`, ``estimate``, ``ci_low``, ``ci_high``; where there, ``n`` goes into the label
        and ``note`` into the place of a missing estimate.
    y : str or sequence of str
        Column or columns that name a row of the forest.
    hue : str, optional
        Column told apart by colour and marker, at most six levels. By default ``condition``,
        where the frame has one that is not in `y`.
    null : float, optional
        Where a line marks no effect; with 0 the axis shows signs. None draws no line.
    percent : bool, default True
        Whether the estimates are proportions, shown in percent or percentage points.
    label : str, optional
        Label of the axis of estimates.
    legend : {"below", "right", False}
        Where the key stands; it is drawn for two levels or more.
    width : {"column", "text", "page"}
        Width of the figure that is made when `ax` is not given.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; by default those of a new figure, as high as the rows need.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    FrameError
        When a column is not there, the hue has more than six levels, or two rows would stand in
        one place.

    See Also
    --------
    skillcomp.deltas.paired, skillcomp.reliability.agreement, skillcomp.bias.audit

    Examples
    --------
    >>> import pandas as pd
    >>> delta = pd.DataFrame({"skill": ["a", "b"], "estimate": [0.2, float("nan")],
    ...     "ci_low": [0.1, float("nan")], "ci_high": [0.3, float("nan")], "n": [14, 0],
    ...     "note": ["", "no case has both conditions"]})
    >>> ax = estimates(delta, y="skill")
    >>> [tick.get_text() for tick in ax.get_yticklabels()]
    ['a (n = 14)', 'b (n = 0)']
    """
    where = "plots.estimates"
    names = [y] if isinstance(y, str) else list(y)
    require(frame, [*names, "estimate", "ci_low", "ci_high", *([hue] if hue else [])], where)
    if hue is None and "condition" in frame.columns and "condition" not in names:
        hue = "condition"
    hues, look_of, order = hue_looks(frame, hue)
    ax, longest = _forest(frame, names, hue, hues, look_of, order, null, width, ax, where)
    scale(ax.xaxis, percent=percent, signed=null == 0)
    text = label if label is not None else _label(null, percent) + level_text(frame)
    label_x(ax, text, taken=longest)
    entries = [(level, marker(look_of[level], line="-")) for level in order]
    key(ax, entries if len(order) > 1 else [], legend)
    return ax


def _forest(
    frame: pd.DataFrame,
    names: list[str],
    hue: str | None,
    hues: list[Any],
    look_of: Mapping[Any, Look],
    order: list[Any],
    null: float | None,
    width: str,
    ax: Axes | None,
    where: str,
    strong: NDArray[np.bool_] | None = None,
) -> tuple[Axes, int]:
    """Draw points, intervals and notes, the strong rows filled; return the longest row's name."""
    categories, places = _rows(frame, names)
    _refuse_overlaps(frame, names, hue, places, hues, where)
    step = dict(zip(order, offsets(len(order)), strict=True))
    at = np.array([place + step[level] for place, level in zip(places, hues, strict=True)])
    lines = len(categories) * (len(order) * _LINE + 0.06)
    ax = axes(ax, width=width, height=min(max(lines + _MARGIN, 1.3), 9.0))
    value, low, high = (numbers(frame, c, where) for c in ("estimate", "ci_low", "ci_high"))
    value = np.where(np.isfinite(value), value, np.nan)
    low, high = _within(ax, at, value, low, high, null)
    if null is not None:
        rule(ax, null, upright=True)
    for level in order:
        rows = where_equal(hues, level)
        if not rows.any():
            continue
        look, name = look_of[level], level or "estimate"
        if strong is None:
            bare, gid = np.isnan(low[rows]) | np.isnan(high[rows]), "no interval"
            intervals(ax, at[rows], low[rows], high[rows], look, upright=False)
        else:
            bare, gid = ~strong[rows], "not recommended"
            for some, thick in ((rows & strong, 1.8), (rows & ~strong, 0.8)):
                intervals(ax, at[some], low[some], high[some], look, upright=False, linewidth=thick)
        points(ax, value[rows], at[rows], look, name, bare=bare, gid=gid)
    longest = _rows_axis(ax, frame, categories, places, hues, order)
    _notes(ax, frame, at, value, [look_of[level] for level in hues], room(ax) - longest - 8)
    return ax, longest


def severity(
    frame: pd.DataFrame,
    *,
    y: str | Sequence[str] = "grader",
    hue: str | None = None,
    label: str | None = None,
    legend: str | bool = "below",
    ax: Axes | None = None,
) -> Axes:
    """Draw shifts in severity between graders on the logit scale, 0 for no shift.

    Parameters
    ----------
    frame : pandas.DataFrame
        As for `estimates`, the estimates in logits: above 0 (to the right) a grader is harder
        than the reference, below 0 more lenient.
    y, hue, legend, ax
        As for `estimates`.
    label : str, optional
        Label of the axis; by default it says which side is which.

    Returns
    -------
    matplotlib.axes.Axes

    See Also
    --------
    skillcomp.reliability.drift
    """
    text = label
    if text is None:
        text = f"Shift in severity (logits{level_text(frame)})\n← more lenient · harder →"
    return estimates(frame, y=y, hue=hue, percent=False, label=text, legend=legend, ax=ax)


def corrected(
    frame: pd.DataFrame,
    *,
    y: str | Sequence[str] = "skill",
    hue: str = "estimator",
    null: float | None = 0.0,
    label: str | None = None,
    legend: str | bool = "below",
    ax: Axes | None = None,
) -> Axes:
    """Draw the naive estimate beside the corrected ones, the recommended ones filled.

    Parameters
    ----------
    frame : pandas.DataFrame
        As for `estimates`, with a column that names the estimator. Where it has a column
        ``recommended``, the rows marked there are filled with a thick interval and all others
        hollow with a thin one, and the key says so; without it every point is filled.
    y, null, label, legend, ax
        As for `estimates`.
    hue : str, default "estimator"
        Column of the estimators, at most six. The library's own keep their colour and marker in
        every figure.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    FrameError
        As `estimates` does, or when ``recommended`` holds no truth values.

    See Also
    --------
    skillcomp.correction.delta, skillcomp.correction.rate
    """
    where = "plots.corrected"
    names = [y] if isinstance(y, str) else list(y)
    require(frame, [*names, "estimate", "ci_low", "ci_high", hue], where)
    order = levels(frame[hue])
    known = all(level in _ESTIMATORS for level in order)
    look_of = {n: _ESTIMATORS[n][0] for n in order} if known else hue_looks(frame, hue)[1]
    strong = truth(frame, "recommended", where) if "recommended" in frame.columns else None
    hues = keys(frame[hue])
    ax, longest = _forest(frame, names, hue, hues, look_of, order, null, "text", ax, where, strong)
    scale(ax.xaxis, percent=True, signed=null == 0)
    text = label if label is not None else _label(null, True) + level_text(frame)
    label_x(ax, text, taken=longest)
    entries: list[tuple[object, Any]] = []
    for level in order:
        chosen = strong is None or bool((strong & where_equal(hues, level)).any())
        name = _ESTIMATORS[level][1] if known else level
        entries.append((name, marker(look_of[level], line="-", hollow=not chosen)))
    if strong is not None and strong.any():
        entries.append(("filled: recommended", marker(Look(INK, "o"), line="-")))
    key(ax, entries if len(entries) > 1 else [], legend)
    return ax


# one look for each estimator of skillcomp.correction, strong colours for those that may be
# recommended
_ESTIMATORS: Mapping[Any, tuple[Look, str]] = {
    "naive": (CATEGORIES[4], "naive"),
    "gold_only": (CATEGORIES[1], "gold only"),
    "rogan_gladen_pooled": (CATEGORIES[2], "Rogan-Gladen, pooled"),
    "rogan_gladen_by_arm": (CATEGORIES[3], "Rogan-Gladen, by arm"),
    "ppi": (CATEGORIES[0], "prediction-powered (ppi)"),
}


def _rows(frame: pd.DataFrame, names: list[str]) -> tuple[list[tuple[Any, ...]], Floats]:
    """Return the categories of the forest and the place of each row among them."""
    of_row = list(zip(*(keys(frame[name]) for name in names), strict=True))
    if len(names) == 1:
        found = set(of_row)
        categories = [(level,) for level in levels(frame[names[0]]) if (level,) in found]
    else:
        categories = list(dict.fromkeys(of_row))
    place = {category: i for i, category in enumerate(categories)}
    return categories, np.array([place[row] for row in of_row], dtype=np.float64)


def _refuse_overlaps(
    frame: pd.DataFrame,
    names: list[str],
    hue: str | None,
    places: Floats,
    hues: list[Any],
    where: str,
) -> None:
    spots = pd.DataFrame({"place": places, "hue": hues})
    double = spots.duplicated(keep=False).to_numpy()
    if not double.any():
        return
    first = (spots == spots[double].iloc[0]) | (spots.isna() & spots[double].iloc[0].isna())
    rows = frame[first.all(axis=1).to_numpy()]
    told = ("estimate", "ci_low", "ci_high", "ci_level", "p_value", "p_adjusted", "n", "note")
    differ = [str(c) for c in rows.columns if c not in told and rows[c].nunique(dropna=False) > 1]
    hint = f"columns that tell them apart: {', '.join(differ)}" if differ else "the rows are alike"
    raise FrameError(
        f"{where}: {len(rows)} rows stand in one place with y={', '.join(names)} and hue={hue}; "
        f"{hint}. Name one in y= or hue=, or facet by it (skillcomp.plots.facet)."
    )


def _within(
    ax: Axes, at: Floats, value: Floats, low: Floats, high: Floats, null: float | None
) -> tuple[Floats, Floats]:
    """Return the limits with infinite ends brought to the edge, where an arrow says they go on."""
    low, high = (np.where(np.isfinite(value), side, np.nan) for side in (low, high))
    if not np.isinf([low, high]).any():
        return low, high
    everything = np.concatenate([value, low, high, [np.nan if null is None else null]])
    finite = everything[np.isfinite(everything)]
    edge = 0.15 * (float(np.ptp(finite)) or 1.0)
    least, most = float(finite.min()) - edge, float(finite.max()) + edge
    ax.set_xlim(least, most)
    for side, end, arrow in ((low, least, "<"), (high, most, ">")):
        going = at[np.isinf(side)]
        if not len(going):
            continue
        ax.plot(
            np.full(len(going), end),
            going,
            color=INK,
            marker=arrow,
            linestyle="",
            clip_on=False,
            gid="goes on",
        )
    return np.clip(low, least, None), np.clip(high, None, most)


def _notes(
    ax: Axes,
    frame: pd.DataFrame,
    at: Floats,
    value: Floats,
    look: Sequence[Look],
    space: int,
) -> None:
    """Write why a row has no point, where the point would be."""
    notes = keys(frame["note"]) if "note" in frame.columns else [None] * len(frame)
    across = ax.get_yaxis_transform()
    for place, known, note, own in zip(at, np.isfinite(value), notes, look, strict=True):
        if known:
            continue
        ax.plot(
            [0.02],
            [place],
            color=own.color,
            marker=own.marker,
            markerfacecolor="white",
            linestyle="",
            transform=across,
            clip_on=False,
        )[0].set_gid("unknown")
        ax.text(
            0.05,
            place,
            plain(reason(note), width=max(space, len("undefined"))),
            transform=across,
            va="center_baseline",
            fontsize=TICK_SIZE,
            bbox={"facecolor": ax.get_facecolor(), "edgecolor": "none", "pad": 0.5},
            zorder=1.5,
            # a long note must not squeeze the axes
            in_layout=False,
            gid="note",
        )


def _rows_axis(
    ax: Axes,
    frame: pd.DataFrame,
    categories: list[tuple[Any, ...]],
    places: Floats,
    hues: list[Any],
    order: list[Any],
) -> int:
    """Name the rows, with n, and return the length of the longest name."""
    counts = numbers(frame, "n", "plots.estimates")
    rank = [order.index(level) for level in hues]
    lines = (cell(ax)[1] - _MARGIN) / max(len(categories), 1) / (TICK_SIZE * 1.2 / 72)
    between = "\n" if len(order) > 1 and lines > 2 else " "
    texts = []
    for i, category in enumerate(categories):
        rows = sorted(np.flatnonzero(places == i), key=lambda row: rank[row])
        known = [number(counts[r], percent=False) for r in rows if np.isfinite(counts[r])]
        count = ", ".join(known if len(set(known)) > 1 else known[:1])
        name = " · ".join(shown(part) for part in category)
        texts.append(f"{name}{between}(n = {count})" if count else name)
    ax.set_yticks(range(len(categories)), texts)
    ax.set_ylim(max(len(categories), 1) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    if len(order) > 1 and len(categories) > 1:
        for i in range(len(categories) - 1):
            ax.axhline(i + 0.5, color=RULE, linewidth=0.4, zorder=0).set_gid("separator")
    return max((len(line) for text in texts for line in text.split("\n")), default=0)


def _label(null: float | None, percent: bool) -> str:
    if null == 0:
        return "Difference (percentage points)" if percent else "Difference"
    return words("estimate") + (" (%)" if percent else "")
