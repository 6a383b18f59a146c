"""Plots of points with intervals: forests of estimates, and near and far transfer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from skillcomp.errors import FrameError
from skillcomp.frames.check import as_list
from skillcomp.plots import _shared as draw
from skillcomp.plots._shared import (
    Entry,
    Estimates,
    Floats,
    axis_label,
    characters,
    hue_looks,
    level_names,
    level_text,
    marker,
    name_of,
    number_text,
    numbers,
    offsets,
    require,
    scale,
    text_on_box,
    values,
    why_unknown,
)
from skillcomp.style import (
    CATEGORIES,
    INK,
    TICK_SIZE,
    VERDICT_LOOKS,
    Look,
    counts_cases,
    describe_axes,
    grow,
    plain,
    quantity,
)

_LINE = 0.17  # Height in inches of a row with text of 7 points.
_MARGIN = 0.85  # Height in inches of the axis, the axis label and the legend together.
# An estimator of skillcomp.correction has the same look in every figure.
_ESTIMATORS: Mapping[Any, Look] = {
    "naive": CATEGORIES[4],
    "gold_only": CATEGORIES[1],
    "rogan_gladen_pooled": CATEGORIES[2],
    "rogan_gladen_by_arm": CATEGORIES[3],
    "pooled": Look(INK, "P"),
    "ppi": CATEGORIES[0],
}
_PLACES = {
    "near": "near",
    "far": "far",
    "near_delta": "near (delta)",
    "far_delta": "far (delta)",
    "gap": "gap (far − near)",
}


def estimates(
    frame: pd.DataFrame,
    *,
    y: str | Sequence[str],
    hue: str | None = None,
    group: str | None = None,
    null: float | Literal["auto"] | None = "auto",
    label: str | None = None,
    width: str = "text",
    ax: Axes | None = None,
) -> Axes:
    """Draw an estimates frame as a forest: a point with its interval for every row.

    Rows are drawn from top to bottom in the order of the frame, but conditions, C1 to C9 and
    near/far are in their natural order. If a row has no estimate, its note is written in place of
    the point. A point without an interval is hollow. Verdicts on skills are symbols at the right
    edge, which the legend explains.

    Parameters
    ----------
    frame : pandas.DataFrame
        Columns `y`, ``estimate``, ``ci_low``, ``ci_high``. Optional: ``unit`` (``rate`` and
        ``points`` are proportions, shown in percent and in percentage points), ``n`` (shown in the
        row label), ``note`` (shown in place of a missing estimate) and ``verdict`` of
        :func:`skillcomp.skillverdicts.decide`.
    y : str or sequence of str
        Column or columns that identify a row of the forest.
    hue : str, optional
        Column shown by colour and marker, at most six levels. By default ``condition`` if the
        frame has this column and `y` does not name it.
    group : str, optional
        Column of headings: each level is a heading, and its rows are drawn together below it.
    null : float or "auto", optional
        Position of the line of no effect. With 0, positive tick labels have a plus sign. With None,
        no line is drawn. With "auto", the position depends on the column ``unit``: 1 for ratios; no
        line for rates, coefficients, counts, variances and rows without a unit; 0 for all others.
    label : str, optional
        Label of the axis of estimates.
    width : {"column", "text", "page"}
        Width of the new figure if `ax` is not given.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; by default those of a new figure, with a height that fits the rows.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    FrameError
        If a column is missing, if the hue has more than six levels, if two rows would be drawn in
        one place, or if the rows have several units. Rates and coefficients may be combined; they
        are then shown as plain numbers.

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
    names = as_list(y)
    drawn = draw_estimates(
        frame, names, hue, group=group, ax=ax, null=null, label=label, width=width
    )
    draw.legend(drawn.ax, drawn.entries)
    describe_axes(drawn.ax, drawn.text)
    return drawn.ax


class Forest(NamedTuple):
    """A drawn forest: axes, position of each row, legend entries and a description."""

    ax: Axes
    at: Floats
    entries: list[Entry]
    text: str


def draw_estimates(
    frame: pd.DataFrame,
    names: list[str],
    hue: str | None,
    *,
    group: str | None = None,
    null: float | Literal["auto"] | None = "auto",
    label: str | None = None,
    width: str = "text",
    ax: Axes | None,
    lane: float = _LINE,
    where: str = "plots.estimates",
    fixed: Mapping[Any, Look] | None = None,
    filled: draw.Bools | None = None,
    room: float | None = None,
) -> Forest:
    """Draw a forest without its legend.

    `lane` is the height in inches per interval. `fixed` has the looks of levels that are the same
    in every figure. Points for which `filled` is False are hollow; if it is None, those without an
    interval. The labels of rows are wrapped at `room` inches.
    """
    require(frame, [*names, "estimate", "ci_low", "ci_high", hue, group], where)
    if hue is None and "condition" in frame.columns and "condition" not in names:
        hue = "condition"
    unit = draw.unit(frame, where, together=("coefficient", "rate"))
    hues, look_of = hue_looks(frame, hue, fixed)
    percent = unit in ("rate", "points")
    price = "measure" in frame.columns and frame["measure"].str.endswith("_pass").all()
    if null == "auto":
        none = price or unit in (None, "rate", "coefficient", "count", "variance")
        null = None if none else 1.0 if unit == "ratio" else 0.0
    if isinstance(null, str):
        raise FrameError(f"null=: found {null!r}; allowed: a number, None or 'auto'.")
    lines, heads, places = _lines_of_forest(frame, names, group)
    collision = f"stand in one place with y={', '.join(names)} and hue={hue}"
    spots = list(zip(places, hues, strict=True))
    draw.refuse_alike(frame, spots, where, collision, "Name one in y= or hue=")
    offset, n_lanes = _lanes_of_rows(places, hues, len(look_of))
    at = places + offset
    least = 1.7 if width == "column" else 1.3  # a narrow figure has a higher label and legend
    height = max(len(lines) * (n_lanes * lane + 0.06) + _MARGIN, least)
    ax = draw.axes(ax, width=width, height=height)
    grow(ax.figure.get_figure(root=True), height)
    value, low, high = _end_at_edge(ax, at, draw.estimates(frame, where), null)
    if null is not None:
        draw.reference(ax, null, upright=True)
    bare = np.isnan(low) | np.isnan(high)
    hollow, widths, gid = bare, (1.1, 1.1), "no interval"
    if filled is not None:
        hollow, widths, gid = ~filled, (1.8, 0.8), "hollow"
    entries = []
    for i, (level, look) in enumerate(look_of.items()):
        rows = hues == i
        for some, size in zip((rows & ~hollow, rows & hollow), widths, strict=True):
            draw.intervals(ax, at[some], low[some], high[some], look, upright=False, width=size)
        draw.points(ax, value[rows], at[rows], look, "estimate" if hue is None else level)
        own = rows & hollow
        draw.points(ax, value[own], at[own], look, hollow=True, zorder=3.1, gid=gid)
        if len(look_of) > 1 or filled is not None:
            outlined = own & np.isfinite(value) if filled is None else own
            only_outlined = bool(rows.any() and (outlined == rows).all())
            line: draw.Stroke = "" if only_outlined and filled is None else "-"
            entries.append((level, marker(look, line=line, hollow=only_outlined)))
    if filled is not None and filled.any():
        entries.append(("filled: recommended", marker(Look(INK, "o"), line="-")))
    elif filled is None and (bare & np.isfinite(value)).any():
        entries.append(("hollow: no interval", marker(Look(INK, "o"), hollow=True)))
    longest = _name_rows(ax, frame, lines, heads, places, hues, len(look_of), room)
    space = characters(ax) - longest - 8
    marks = list(look_of.values())
    _write_notes(ax, frame, at, value, [marks[i] for i in hues], space)
    scale(ax.xaxis, percent=percent, signed=null == 0)
    what = "Price of a pass" if price else "Estimate"
    if null == 0:
        what = "Difference"
    text = axis_label(name_of(frame, what), unit) + level_text(frame)
    text = label if label is not None else text
    draw.label_x(ax, text, taken=longest)
    with_signs = "verdict" in frame.columns and hue != "verdict"
    signs = _draw_verdicts(ax, frame, at) if with_signs else []
    verdicts = ", with the sign of its verdict" if signs else ""
    about = f"{_without_level(text)} {draw.each(names, hue)}{verdicts}"
    return Forest(ax, at, [*entries, *signs], about)


def _draw_verdicts(ax: Axes, frame: pd.DataFrame, at: Floats) -> list[Entry]:
    """Draw a symbol for each row's verdict at the right edge; return the legend entries."""
    cells, entries = values(frame, "verdict"), list[Entry]()
    size: dict[str, Any] = {"markersize": 5.5, "markeredgewidth": 0.3}
    edge = size | {"transform": ax.get_yaxis_transform(), "clip_on": False, "gid": "verdict"}
    for word, look in VERDICT_LOOKS.items():
        rows = at[cells == word]
        if len(rows):
            draw.points(ax, np.full_like(rows, 1.02), rows, look, word, **edge)
            entries.append((word, marker(look, **size)))
    return entries


def _without_level(text: str) -> str:
    """Remove the confidence level from an axis label, because the caption states it."""
    return re.sub(r",? \d[\d.]* ?% CI", "", text).replace("\n", " ").strip()


def ranks(
    frame: pd.DataFrame,
    *,
    y: str | Sequence[str] = "grader",
    group: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the rank of each grader with its confidence set, and its agreement as a number.

    Parameters
    ----------
    frame : pandas.DataFrame
        Result of :func:`skillcomp.reliability.contrast` or
        :func:`skillcomp.reliability.contrast_counts`. Only the rows with the measure
        ``agreement_rank`` are drawn, in the order of the frame.
    y : str or sequence of str, default "grader"
        Column or columns that identify a row.
    group, ax
        As for `estimates`.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    FrameError
        As in `estimates`, or if the frame has no ranks.

    See Also
    --------
    skillcomp.reliability.contrast
    """
    names = as_list(y)
    require(frame, [*names, group, "measure", "rate"], "plots.ranks")
    rows = frame[frame["measure"].eq("agreement_rank")]
    if rows.empty:
        raise FrameError(
            "plots.ranks: the frame has no rows with the measure 'agreement_rank'; draw the result "
            "of sc.reliability.contrast or contrast_counts."
        )
    shares = zip(rows[names[-1]], rows["rate"], strict=True)
    texts = [f"{name}: {quantity(rate, 'rate', digits=0)}" for name, rate in shares]
    named = rows.assign(**{names[-1]: texts}).drop(columns=["n", "n_clusters"], errors="ignore")
    level = level_text(rows).replace(" CI", " sets, all graders together")
    text = f"Rank by agreement with gold{level}"
    drawn = draw_estimates(named, names, None, group=group, ax=ax, null=None, label=text)
    last = rows["ci_high"].fillna(1.0).max()
    drawn.ax.set_xlim(0.5, last + 0.5)
    draw.whole_steps(drawn.ax.xaxis, np.arange(1.0, last + 1.0))
    describe_axes(drawn.ax, "Rank of each grader by agreement with gold, and its set")
    return drawn.ax


def corrected(
    frame: pd.DataFrame,
    *,
    y: str | Sequence[str] = "skill",
    hue: str = "estimator",
    ax: Axes | None = None,
) -> Axes:
    """Draw naive and corrected estimates side by side; recommended estimates have filled points.

    Parameters
    ----------
    frame : pandas.DataFrame
        As for `estimates`, with a column that names the estimator. If the frame has a column
        ``recommended`` (bool), recommended rows have a filled point and a thick interval, and all
        others have a hollow point and a thin interval; the legend explains this. Without this
        column, points without an interval are hollow, as in `estimates`.
    y, ax
        As for `estimates`.
    hue : str, default "estimator"
        Column of the estimators, at most six. The estimators of the library have the same colour
        and marker in every figure.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    FrameError
        As in `estimates`, or if ``recommended`` contains something other than truth values.

    See Also
    --------
    skillcomp.correction.delta, skillcomp.correction.rate
    """
    where, filled = "plots.corrected", None
    if "recommended" in frame.columns:
        filled = draw.truth(frame, "recommended", where)
    drawn = draw_estimates(
        frame, as_list(y), hue, ax=ax, where=where, fixed=_ESTIMATORS, filled=filled
    )
    draw.legend(drawn.ax, drawn.entries if len(drawn.entries) > 1 else [])
    describe_axes(drawn.ax, f"{drawn.text}, the recommended one filled")
    return drawn.ax


def _lines_of_forest(
    frame: pd.DataFrame, names: list[str], group: str | None
) -> tuple[list[str], list[int], Floats]:
    """Return the name of each line, the lines that are headings, and the line of each row.

    Rows with equal levels in the columns `names` share a line. With a `group`, each of its levels
    is a heading above its own lines. No two lines of a group have the same name.
    """
    levels_of_row = list(zip(*(values(frame, name) for name in names), strict=True))
    order = list(dict.fromkeys(levels_of_row))
    if len(names) == 1:
        order = [(level,) for level in draw.levels(frame, names[0]) if (level,) in order]
    groups = [None] if group is None else draw.levels(frame, group)
    head_of = level_names(groups, width=60)
    of_row = list(zip(values(frame, group), levels_of_row, strict=True))
    lines: list[str] = []
    heads = []
    place: dict[Any, int] = {}
    for own in groups:
        if group is not None:
            heads.append(len(lines))
            lines.append(head_of[own])
        rows = [row for row in order if (own, row) in of_row]
        place |= {(own, row): len(lines) + i for i, row in enumerate(rows)}
        name_of = [level_names(levels) for levels in zip(*rows, strict=True)]
        parts = [[name[level] for name, level in zip(name_of, row, strict=True)] for row in rows]
        lines += draw.numbered([" · ".join(own_parts) for own_parts in parts])
    return lines, heads, np.array([place[row] for row in of_row], dtype=np.float64)


def _lanes_of_rows(places: Floats, rank: Any, n_levels: int) -> tuple[Floats, int]:
    """Return the offset of each row from its line, and the largest number of lanes.

    Each row of a line is drawn in a lane. If some line has rows of all levels of the hue, every
    line has one lane per level. Otherwise, a line has one lane per row.
    """
    of_line = pd.Series(rank).groupby(places)
    counts = of_line.transform("size")
    most = int(counts.max()) if len(rank) else 1
    if most >= n_levels:
        return offsets(n_levels)[rank], n_levels
    lanes = zip(counts, of_line.rank().astype(int) - 1, strict=True)
    return np.array([offsets(count)[lane] for count, lane in lanes]), most


def _end_at_edge(ax: Axes, at: Floats, estimates: Estimates, null: float | None) -> Estimates:
    """Draw arrows for infinite limits; return the estimates with these limits moved to the edge."""
    finite = np.isfinite(estimates[0])
    value, low, high = (np.where(finite, column, np.nan) for column in estimates)
    if not np.isinf([low, high]).any():
        return value, low, high
    everything = np.concatenate([value, low, high, [np.nan if null is None else null]])
    finite = everything[np.isfinite(everything)]
    edge = 0.15 * (float(np.ptp(finite)) or 1.0)
    least, most = float(finite.min()) - edge, float(finite.max()) + edge
    ax.set_xlim(least, most)
    for side, end, arrow in ((low, least, "<"), (high, most, ">")):
        rows = at[np.isinf(side)]
        ends = np.full_like(rows, end)
        draw.points(ax, ends, rows, Look(INK, arrow), gid="goes on", clip_on=False)
    return value, np.clip(low, least, None), np.clip(high, None, most)


def _write_notes(
    ax: Axes, frame: pd.DataFrame, at: Floats, value: Floats, look: list[Look], space: int
) -> None:
    """Where an estimate is missing, write the reason in place of its point."""
    across = ax.get_yaxis_transform()
    notes = values(frame, "note")
    for row in np.flatnonzero(~np.isfinite(value)):
        mark: dict[str, Any] = {"transform": across, "clip_on": False, "gid": "unknown"}
        draw.points(ax, [0.02], [at[row]], look[row], hollow=True, **mark)
        text = plain(why_unknown(notes[row]), width=max(space, 12))
        written = text_on_box(ax, 0.05, at[row], text, pad=0.5, transform=across, gid="note")
        # A long note must not make the axes narrower, so leave it out of the layout.
        written.set(va="center_baseline", in_layout=False, zorder=1.5)


def _name_rows(
    ax: Axes,
    frame: pd.DataFrame,
    names: list[str],
    heads: list[int],
    places: Floats,
    rank: Any,
    n_levels: int,
    wrap: float | None,
) -> int:
    """Label the lines with their names and n; return the length of the longest text line."""
    counts, clusters = (numbers(frame, c, "plots.estimates") for c in ("n", "n_clusters"))
    room = (draw.panel_size(ax)[1] - _MARGIN) / max(len(names), 1) / (TICK_SIZE * 1.2 / 72)
    between = "\n" if n_levels > 1 and room > 2 else " "
    if of_cases := counts_cases(frame):
        clusters = np.full(len(frame), np.nan)
    texts = []
    for i, name in enumerate(names):
        rows = sorted(np.flatnonzero(places == i), key=lambda row: rank[row])
        size_texts = [_size_text(counts[r], clusters[r]) for r in rows if np.isfinite(counts[r])]
        count = ", ".join(dict.fromkeys(size_texts))
        if len(set(size_texts)) > 1 and len(size_texts) > 2:
            ends = np.nanmin(counts[rows]), np.nanmax(counts[rows])
            count = " to ".join(number_text(float(n)) for n in ends)
        size = f"({count} cases)" if of_cases else f"(n = {count})"
        if not count:
            texts.append(name)
        elif wrap is None:
            texts.append(f"{name}{between}{size}")
        else:
            kept = size.replace(" ", "\N{NO-BREAK SPACE}")
            texts.append(draw.wrapped(f"{name} {kept}", wrap))
    labels = ["" if i in heads else text for i, text in enumerate(texts)]
    longest = draw.label_rows(ax, labels, separated=n_levels > 1)
    for i in heads:
        # a heading may be longer than the row labels, so write it inside the axes
        across = ax.get_yaxis_transform()
        head = text_on_box(ax, 0.005, i + 0.1, texts[i], transform=across, gid="group")
        head.set(fontweight="bold", va="center")
    return longest


def _size_text(n: float, clusters: float) -> str:
    """Format n, and the number of clusters if it is less than n / 2."""
    text = number_text(n)
    few = np.isfinite(clusters) and clusters < 0.5 * n
    return f"{text} in {number_text(clusters)} cases" if few else text


def transfer(frame: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw the estimates of near and far cases for each condition, and the gap between them.

    Parameters
    ----------
    frame : pandas.DataFrame
        One row per place and condition with ``estimate``, ``ci_low`` and ``ci_high``: the result of
        ``sc.transfer.gap``, that of ``sc.deltas.rates`` by ``transfer`` of cases with a label, or
        both concatenated. A place is a row of the forest: the value of ``transfer`` (``near``,
        ``far``, ``gap``) or, if that is missing, of ``measure`` (``near_delta``, ``far_delta``,
        ``gap``). Optional: ``scope`` (several levels are headings; rows without one are "all
        cases"), and the other columns of `estimates`.
        Conditions have colours and markers.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    FrameError
        If a column is missing, if a place has an unknown name, or if two rows with the same
        condition and scope share a place (for several skills, use `facet`).

    See Also
    --------
    skillcomp.transfer.gap, skillcomp.deltas.rates

    Notes
    -----
    Unless all rows are rates, a line marks 0. The gap is a row of the frame; this function does not
    compute it.
    """
    where = "plots.transfer"
    require(frame, ["condition"], where)
    draw.unit(frame, where, together=("rate", "points"))
    distance = values(frame, "transfer")
    of_row = np.where(pd.isna(distance), values(frame, "measure"), distance)
    if wrong := [place for place in dict.fromkeys(of_row) if place not in _PLACES]:
        examples = ", ".join("missing" if p is None else repr(str(p)) for p in wrong[:5])
        raise FrameError(
            f"{where}: 'transfer' (or 'measure' where that is missing) holds {examples}; allowed: "
            f"{', '.join(_PLACES)}."
        )
    is_rate = np.isin(of_row, ["near", "far"])
    unit = "rate" if is_rate.all() else "points"
    text = axis_label(name_of(frame, "Rate" if is_rate.all() else "Difference"), unit)
    if is_rate.any() and not is_rate.all():
        text = "Rate (%) or difference (points)"
    text += level_text(frame)
    places = pd.Categorical([_PLACES[place] for place in of_row], categories=[*_PLACES.values()])
    scope = values(frame, "scope")
    rows = frame.assign(
        place=places,
        scope=np.where(pd.isna(scope), "all cases", scope),
        unit=unit,
    )
    group = "scope" if len({*scope} - {None}) > 1 else None
    drawn = draw_estimates(
        rows, ["place"], "condition", group=group, ax=ax, label=text, where=where
    )
    scale(drawn.ax.xaxis, percent=True, signed=not is_rate.any())
    draw.legend(drawn.ax, drawn.entries)
    describe_axes(drawn.ax, f"{_without_level(text)} of near and far cases")
    return drawn.ax
