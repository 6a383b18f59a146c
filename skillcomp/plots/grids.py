"""Plots in grids: heat maps, maps of cases, facets; and strips of cases below intervals."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize, TwoSlopeNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.transforms import blended_transform_factory

from skillcomp.errors import FrameError
from skillcomp.frames.check import as_list
from skillcomp.plots import _shared as draw
from skillcomp.plots._shared import (
    LINE_GREY,
    Floats,
    level_names,
    number_text,
    panel_size,
    positions,
    require,
)
from skillcomp.plots.forest import draw_estimates
from skillcomp.style import (
    DIFFERENCES,
    GREY,
    INK,
    RATES,
    TICK_SIZE,
    Look,
    describe_axes,
    figure,
    name_artist,
    plain,
)

_HATCH: Any = {"facecolor": "white", "edgecolor": LINE_GREY, "hatch": "////", "linewidth": 0.4}
_MOST_PANELS = 24
_PANELS_PER_ROW = 3


def dimensions(
    frame: pd.DataFrame,
    *,
    x: str = "condition",
    y: str = "comprehension_dimension",
    label: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw a heat map with the value of each dimension and condition (or skill) as a number.

    Parameters
    ----------
    frame : pandas.DataFrame
        Columns `x`, `y` and ``estimate``, with one row per cell. Optional: ``ci_low`` and
        ``ci_high`` (shown below the value) and ``n`` (shown in the row label and, if it differs
        within the row, also in the cells).
    x, y : str
        Columns of the two axes; dimensions are in the order C1 to C9.
    label : str, optional
        Label of the colour bar.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    FrameError
        If a column is missing, or if two rows share a cell; they are not averaged.

    Notes
    -----
    Cells with a missing value are hatched; cells without a row are white. Colours diverge from 0 if
    the unit is points or percentage points. Otherwise they run from 0 to 1 for proportions, and
    from the smallest to the largest value for other units.

    See Also
    --------
    skillcomp.deltas.rates, skillcomp.deltas.paired
    """
    where = "plots.dimensions"
    require(frame, ["estimate", x, y], where)
    unit = draw.unit(frame, where)
    percent, diverges = unit in ("rate", "points"), unit in ("points", "percentage points")
    (columns, across), (rows, down) = positions(frame, x), positions(frame, y)
    collision = f"share a cell of {x} and {y}"
    spots = list(zip(down, across, strict=True))
    draw.refuse_alike(frame, spots, where, collision, "Select one of each")
    grids = np.full((4, len(rows), len(columns)), np.nan)
    for grid, name in zip(grids, ("estimate", "ci_low", "ci_high", "n"), strict=True):
        grid[down, across] = draw.numbers(frame, name, where)
    cells, limits, sizes = grids[0], grids[1:3], grids[3]
    with_interval: draw.Bools = np.isfinite(limits).all(axis=0)
    ax = draw.axes(ax, height=min((0.34 if with_interval.any() else 0.24) * len(rows) + 1.1, 9.0))
    norm = _color_scale(cells, diverges, percent)
    undefined = [spot for spot in sorted(spots) if np.isnan(cells[spot])]
    for i, j in undefined:
        ax.add_patch(Rectangle((j, i), 1, 1, gid="undefined", **_HATCH))
    form = partial(number_text, percent=percent, signed=diverges, digits=3)
    shown_n = [len(np.unique(n[np.isfinite(n)])) > 1 for n in sizes]
    texts = np.full(cells.shape, "", dtype=object)
    for i, j in np.argwhere(np.isfinite(cells)):
        texts[i, j] = form(round(cells[i, j], 2))
        if with_interval[i, j]:
            low, high = (form(round(side[i, j], 2)) for side in limits)
            texts[i, j] += f"\n[{low}, {high}]"
        if shown_n[i] and np.isfinite(sizes[i, j]):
            texts[i, j] += f"\n(n = {number_text(sizes[i, j])})"
    name = draw.name_of(frame, "Difference" if diverges else "Rate" if percent else "Estimate")
    text = draw.axis_label(name, unit) if label is None else label
    bar = {"pad": 0.02, "aspect": 25, "label": draw.wrapped(text, draw.panel_size(ax)[1] - 0.9)}
    _heat_map(ax, cells, texts, norm, cmap=DIFFERENCES if diverges else RATES, cbar_kws=bar)
    for mesh in ax.collections:
        _set_color_bar(mesh.colorbar, percent=percent, signed=diverges)
    counts = [", ".join(dict.fromkeys(map(number_text, n[np.isfinite(n)]))) for n in sizes]
    _name_grid(ax, columns, rows, [f"\n(n = {count})" if count else "" for count in counts])
    entries = [("undefined", Patch(**_HATCH))] if undefined else []
    draw.legend(ax, entries)
    rows_of = "dimension" if "dimension" in y else y
    describe_axes(ax, f"{text.removesuffix(' (%)')} {draw.each(x, rows_of)}")
    return ax


def facet(
    frame: pd.DataFrame,
    plot: Callable[..., Axes],
    *,
    by: str,
    width: str = "page",
    height: float | None = None,
    title: str = "{}",
    **options: Any,
) -> tuple[Figure, Any]:
    """Draw the same plot for each level of a column, with shared axes and one legend below.

    Parameters
    ----------
    frame : pandas.DataFrame
        Frame with the column `by` and the columns that `plot` needs.
    plot : callable
        A plot function of this package.
    by : str
        Column with one level per panel; the levels become the titles.
    width, height
        As for `skillcomp.style.figure`.
    title : str, default "{}"
        Title of a panel, in which braces are replaced by the level, such as ``"gold {}"``.
    **options
        Keyword arguments of `plot` except ``ax``.

    Returns
    -------
    fig : matplotlib.figure.Figure
    axes : numpy.ndarray of Axes
        One-dimensional array with the axes of each level, in order.

    Raises
    ------
    FrameError
        If the column `by` is missing, has no level, or has more than 24 levels.

    Notes
    -----
    Text columns are first made categorical with the levels of the whole frame, so that a level has
    the same colour and position in every panel.
    """
    require(frame, [by], "plots.facet")
    panels, of_row = positions(frame, by)
    if not 1 <= len(panels) <= _MOST_PANELS:
        raise FrameError(
            f"plots.facet: column '{by}' has {len(panels)} levels; allowed: 1 to {_MOST_PANELS}."
            + (" The frame has no rows." if frame.empty else "")
        )
    columns = min(_PANELS_PER_ROW, len(panels))
    fig, grid = figure(
        width,
        height=height,
        sharex=True,
        sharey=True,
        nrows=-(-len(panels) // columns),
        ncols=columns,
    )
    flat = np.atleast_1d(grid).ravel()
    whole = frame.copy()
    for name in whole.columns:
        if name not in (by, "note") and isinstance(whole[name].dtype, pd.StringDtype):
            order = [level for level in draw.levels(whole, name) if level is not None]
            whole[name] = pd.Categorical(whole[name], categories=order)
    names = level_names(panels, width=40)
    for i, (ax, panel) in enumerate(zip(flat, panels, strict=False)):
        plot(whole[of_row == i], ax=ax, **options)
        ax.set_title(title.replace("{}", names[panel]))
        ax.label_outer()
    for ax in flat[len(panels) :]:
        ax.remove()
    return fig, flat[: len(panels)]


def datasheet(frame: pd.DataFrame) -> Axes:
    """Draw the datasheet of one judge, or of several side by side, as wide as a column of a paper.

    A panel shows the differences, in points, and a panel below it the shares, in percent. A grey
    line marks the value of a judge without bias, in the rows that have one. Colour and marker show
    the judge. A point is hollow if the row does not show a bias; rows without a test are filled. A
    judge without a point in a row was not measured. Properties that no judge has are listed at the
    end.

    Parameters
    ----------
    frame : pandas.DataFrame
        The result of :func:`skillcomp.bias.datasheet`, drawn in the order of its rows. The columns
        before ``property`` identify a judge; at most six judges.

    Returns
    -------
    matplotlib.axes.Axes
        The uppermost axes; ``ax.figure.axes`` has all.

    Raises
    ------
    FrameError
        If a column is missing, if a judge has two rows of one property and condition, or if there
        are more than six judges.

    See Also
    --------
    skillcomp.bias.datasheet
    """
    where = "plots.datasheet"
    require(frame, ["property", "condition", "unit", "estimate", "shown", "null"], where)
    rows = frame.dropna(subset="estimate")
    judges = rows.iloc[:, : list(rows.columns).index("property")].itertuples(index=False)
    missing = frame.loc[~frame["property"].isin(rows["property"]), "property"].unique()
    rows = rows.assign(
        judge=[" · ".join(map(str, judge)) for judge in judges],
        filled=rows["shown"].ne(False).fillna(True).astype(bool),
        property=rows["property"] + (", " + rows["condition"].astype("str")).fillna(""),
    )
    if (twice := rows.duplicated(["judge", "property"])).any():
        raise FrameError(
            f"{where}: the judge {rows['judge'][twice].iloc[0]!r} has several rows of the property "
            f"{rows['property'][twice].iloc[0]!r}. Columns before 'property' identify a judge: put "
            "the column in which the rows differ there."
        )
    rows.loc[rows["unit"].eq("percentage points"), ["estimate", "ci_low", "ci_high"]] /= 100
    panels = list(rows.groupby(rows["unit"].replace("percentage points", "points")))
    text = f"not measured: {'; '.join(plain(name, width=36) for name in missing)}"
    paragraph = textwrap.fill(text, 58)
    look_of = draw.hue_looks(rows, "judge")[1]
    entries = [(level, draw.marker(look, line="-")) for level, look in look_of.items()]
    if not rows["filled"].all():
        entries.append(("hollow: no effect shown", draw.marker(Look(INK, "o"), hollow=True)))
    if rows["null"].notna().any():
        entries.append(("no effect", draw.marker(Look(LINE_GREY, "|"), markersize=8)))
    line = max(0.12 * len(look_of), 0.24) + 0.06
    heights = [part["property"].nunique() * line for _, part in panels]
    heights.append(0.12 * paragraph.count("\n") + 0.2)
    height = sum(heights) + 0.45 * len(panels) + 0.14 * len(entries)
    fig, axes = figure("column", nrows=len(heights), height=max(1.0, min(height, 9.0)))
    *upper, last = np.atleast_1d(axes)
    last.get_gridspec().set_height_ratios(heights)
    for ax, (unit, part) in zip(upper, panels, strict=True):
        forest = draw_estimates(
            part.assign(unit=unit),
            ["property"],
            "judge",
            label=f"Share (%){draw.level_text(part)}" if unit == "rate" else None,
            ax=ax,
            where=where,
            fixed=look_of,
            filled=part["filled"].to_numpy(),
            room=1.62,
        )
        if unit == "rate":
            at = np.round(forest.at)
            null = ax.vlines(part["null"], at - 0.5, at + 0.5, color=LINE_GREY, linewidth=0.8)
            null.set(gid="reference", zorder=1)
            ax.set_xlim(-0.02, 1.02)
        describe_axes(ax, forest.text)
    draw.legend(last, entries)
    last.axis("off")
    across = blended_transform_factory(fig.transFigure, last.transAxes)
    note = last.text(0.02, 0.5, paragraph, size=TICK_SIZE, color=GREY, transform=across)
    note.set(va="center", gid="note", in_layout=False)
    describe_axes(last, "", text)
    if panels and not len(missing):
        last.remove()
    return fig.axes[0]


def _heat_map(ax: Axes, cells: Floats, texts: Any, norm: Normalize, **how: Any) -> None:
    """Colour each cell that has a value; write its text in black or white for contrast."""
    if not cells.size:
        return
    import seaborn as sns  # imported here, because seaborn takes as long to load as matplotlib

    sns.heatmap(
        cells, mask=np.isnan(cells), norm=norm, vmin=norm.vmin, vmax=norm.vmax, ax=ax,
        annot=texts, fmt="", annot_kws={"size": TICK_SIZE, "va": "center_baseline"},
        linewidths=0.8, linecolor="white", xticklabels=False, yticklabels=False, **how,
    )  # fmt: skip
    for text in ax.texts:
        column, row = (int(at) for at in text.get_position())
        color = plt.get_cmap(how["cmap"])(norm(cells[row, column]))
        text.set(gid="value", color=_ink_on(np.asarray(color)[:3]))


def _set_color_bar(bar: Any, *, percent: bool, signed: bool = False) -> None:
    draw.scale(bar.ax.yaxis, percent=percent, signed=signed)
    bar.outline.set_linewidth(0.4)


def _ink_on(background: Floats) -> str:
    """Return black or white, whichever has the higher contrast (WCAG 2) with a background."""
    red, green, blue = (
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in background
    )
    return "black" if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 else "white"


def _color_scale(cells: Floats, diverges: bool, percent: bool) -> Normalize:
    finite = cells[np.isfinite(cells)]
    if diverges:
        reach = float(np.abs(finite).max(initial=0.0)) or 1.0
        return TwoSlopeNorm(0.0, -reach, reach)
    if not len(finite) or (percent and finite.min() >= 0 and finite.max() <= 1):
        return Normalize(0, 1)
    return Normalize(float(finite.min()), float(finite.max()))


def _name_grid(ax: Axes, columns: list[Any], rows: list[Any], counts: list[str]) -> None:
    """Label the columns and rows of a grid; slant the column labels if one is too long."""
    wide = int(draw.characters(ax, 0.72) / max(len(columns), 1))
    heads = list(level_names(columns, width=28).values())
    texts = [textwrap.fill(head, max(wide, 6), break_long_words=False) for head in heads]
    slanted = draw.longest_line(texts) > wide + 2
    ax.set_xticks(np.arange(len(columns)) + 0.5, heads if slanted else texts)
    if slanted:
        ax.tick_params(axis="x", labelrotation=35)
        for tick in ax.get_xticklabels():
            tick.set(ha="right", rotation_mode="anchor")
    names = zip(level_names(rows).values(), counts, strict=True)
    texts = [name + count for name, count in names]
    ax.set_yticks(np.arange(len(rows)) + 0.5, texts)
    ax.set(xlim=(0, max(len(columns), 1)), ylim=(max(len(rows), 1), 0))
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)


# change of a case -> colour and marker of the case
_CHANGES: Mapping[str, Look] = {
    "lost": Look("#D55E00", "v"),
    "passes, no change": Look(GREY, "o"),
    "mixed, no change": Look(GREY, "x"),
    "fails, no change": Look(GREY, "o"),
    "gained": Look("#0072B2", "^"),
}
_HOLLOW = "fails, no change"
_COLUMNS = ("case_id", "condition", "rate", "reference_rate", "delta")
_LANE = 0.34  # Height in inches of an interval and the strip of cases below it.
_STACK = 2  # Maximum number of cases above each other in a strip.
_SIZE = 3.2  # Largest diameter of the mark of a case, in points.
_LEAST = 2.0  # Smallest diameter at which the marks can be distinguished in print.
_MOST_NAMED = 2000  # With more cells than this, the cells of a map have no titles in the svg.
_MOST_ROWS = 40  # Maximum number of rows of a map.
_WHERE = "plots.cases"


def cases(
    frame: pd.DataFrame,
    estimates: pd.DataFrame,
    *,
    y: str | Sequence[str] = "skill",
    group: str | None = None,
    label: str | None = None,
    width: str = "text",
    ax: Axes | None = None,
) -> Axes:
    """Draw deltas with their intervals and, below each, the deltas of its cases.

    A case is a mark at its delta. Colour and marker show whether it gained or lost and, without a
    change, whether it passes. Cases with the same delta are drawn next to each other.

    Parameters
    ----------
    frame : pandas.DataFrame
        The cases: the result of :func:`skillcomp.skillverdicts.cases`, with the columns `y`,
        ``case_id``, ``condition``, ``rate``, ``reference_rate`` and ``delta``.
    estimates : pandas.DataFrame
        The deltas, such as the result of :func:`skillcomp.deltas.paired` or
        :func:`skillcomp.skillverdicts.decide`. Required are the columns of
        :func:`skillcomp.plots.estimates`, and ``condition``.
    y, group, label, width, ax : optional
        As for :func:`skillcomp.plots.estimates`.

    Returns
    -------
    matplotlib.axes.Axes
        In an svg written by ``sc.style.save``, pointing at a case shows its id and its rates.

    Raises
    ------
    FrameError
        If a column is missing, or two rows of `estimates` have the same `y` and condition.

    Notes
    -----
    A case without a delta, because no attempt has an outcome under one of the conditions, is not
    drawn. If the marks would be smaller than 2 points, none is drawn. A strip shows the cases as
    recorded; a corrected estimate may differ from their mean.
    """
    names = as_list(y)
    require(frame, [*names, *_COLUMNS], _WHERE)
    if group is not None:
        require(estimates, [group], _WHERE)
        order = draw.levels(estimates, group)
        estimates = estimates.sort_values(group, key=lambda g: g.map(order.index), kind="stable")
    forest = draw_estimates(
        estimates,
        names,
        "condition",
        ax=ax,
        null=0,
        lane=_LANE,
        label=label,
        width=width,
        where=_WHERE,
    )
    ax = forest.ax
    if group is not None:
        # write the name of each group above its first row, at the left edge of figure or axes
        group_names = level_names(estimates[group].unique(), width=60)
        alone = ax.figure.axes == [ax]
        left = blended_transform_factory(ax.figure.transSubfigure, ax.transData)
        across = left if alone else ax.get_yaxis_transform()
        at = pd.Series(np.round(forest.at), index=estimates.index)
        for own, places in at.groupby(estimates[group], sort=False):
            top, head = places.min() - 0.47, group_names[own]
            text = draw.text_on_box(ax, 0.005, top, head, transform=across, gid="group")
            text.set(fontweight="bold", va="top", in_layout=not alone)
    keys = [*names, "condition"]
    table = _with_changes(frame.dropna(subset="delta"))
    low, high = ax.get_xlim()
    largest = float(table["delta"].abs().max() or 0) + 0.08 if len(table) else 0  # room for marks
    reach = max(largest, abs(low), abs(high))
    ax.set_xlim(max(-1.08, min(low, -reach)), min(1.08, max(high, reach)))
    place = dict(zip(estimates[keys].itertuples(index=False, name=None), forest.at, strict=True))
    strips = {key: part for key, part in table.groupby(keys, sort=False) if key in place}
    size = min([_SIZE, *(_mark_size(ax, part["delta"]) for part in strips.values())])
    if size < _LEAST:  # such marks cannot be distinguished
        strips, table = {}, table.iloc[:0]
    for key, part in strips.items():
        _draw_strip(ax, part, place[key], size)
    changes = [change for change in _CHANGES if change in set(table["change"])]
    marks = [(f"case {change}", _mark_of_case(change)) for change in changes]
    draw.legend(ax, [*forest.entries, *marks])
    describe_axes(ax, forest.text + (", above the deltas of its cases" if marks else ""))
    return ax


def case_map(
    frame: pd.DataFrame, *, y: str | Sequence[str] = "skill", ax: Axes | None = None
) -> Axes:
    """Draw the pass rate of each case under each condition as a map of colours.

    Parameters
    ----------
    frame : pandas.DataFrame
        The result of :func:`skillcomp.skillverdicts.cases`.
    y : str or sequence of str, default "skill"
        Columns that group the rows of the map; each group has one row per condition.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        Groups are sorted by the mean delta of their first condition, the largest gain first. The
        cases of a group are sorted by their own delta under its first condition, the largest loss
        first. The first row of a group shows the reference. A case without an outcome under a
        condition is white.

    Raises
    ------
    FrameError
        If a column is missing, the map has no row or more than 40, or no case has an outcome.
    """
    names = as_list(y)
    require(frame, [*names, *_COLUMNS], "plots.case_map")
    groups = frame[names].itertuples(index=False, name=None)
    table = frame.assign(_group=[" · ".join(map(str, group)) for group in groups])
    rows, cells = _rows_of_map(table)
    if not 1 <= len(rows) <= _MOST_ROWS:
        raise FrameError(
            f"plots.case_map: the map has {len(rows)} rows; allowed: 1 to {_MOST_ROWS}. Draw some "
            f"of the levels of {', '.join(names)}."
        )
    if not table[["rate", "reference_rate"]].notna().any(axis=None):
        raise FrameError("plots.case_map: no case has an outcome under any condition.")
    wide = max(len(row) for row in cells)
    ax = draw.axes(ax, width="text", height=max(len(rows) * 0.14 + 0.8, 1.5))
    colors = plt.get_cmap(RATES)
    for i, row in enumerate(cells):
        for j, (rate, text) in enumerate(row):
            unknown = not np.isfinite(rate)
            color = "white" if unknown else colors(rate)
            cell = Rectangle((j + 0.04, i - 0.46), 0.92, 0.92, facecolor=color, linewidth=0.3)
            cell.set_edgecolor(draw.LINE_GREY if unknown else "none")
            ax.add_patch(cell)
            if len(rows) * wide <= _MOST_NAMED:
                name_artist(cell, "cell", text)
    draw.label_rows(ax, rows, separated=False)
    for i, name in enumerate(rows[1:]):
        if " · " in name:
            ax.axhline(i + 0.5, color=INK, marker="", linewidth=0.6, clip_on=False, xmin=-0.02)
    ax.set(xlim=(0, wide), xticks=[])
    draw.label_x(ax, "Cases, from the largest loss to the largest gain")
    ax.spines[:].set_visible(False)
    bar = ax.figure.colorbar(ScalarMappable(Normalize(0, 1), colors), ax=ax, pad=0.02, aspect=25)
    bar.set_label("Pass rate (%)")
    _set_color_bar(bar, percent=True)
    case = [name for name in ("skill", "case_id") if name in table]
    n_cases = len(table[case].drop_duplicates())
    about = f"Pass rate of each of {n_cases:,} cases"
    describe_axes(ax, f"{about} {draw.each(names, 'condition')}")
    return ax


def _rows_of_map(frame: pd.DataFrame) -> tuple[list[str], list[list[tuple[float, str]]]]:
    """Return, for each row of the map, its label and a list with the rate and text of each case."""
    labels, rows = [], []
    heads = level_names(frame["_group"].unique())
    of_first = frame["condition"].isin(draw.levels(frame, "condition")[:1])
    changes = frame["delta"].where(of_first).groupby(frame["_group"], sort=False).mean()
    for group in changes.sort_values(ascending=False, kind="stable").index:
        part = frame[frame["_group"].eq(group)]
        conditions = draw.levels(part, "condition")
        first = part[part["condition"].eq(conditions[0])].sort_values("delta", kind="stable")
        order, base = list(first["case_id"]), first.set_index("case_id")["reference_rate"]
        named = [(f"{heads[group]} · {draw.only_level(part, 'reference', 'reference')}", base)]
        for condition in conditions:
            own = part[part["condition"].eq(condition)].set_index("case_id")["rate"]
            named.append((str(condition), own))
        for name, rates in named:
            labels.append(draw.level_name(name, width=48))
            values = rates.reindex(order).astype("float64")
            texts = [f"{case}, {name}: {_rate_text(rate)}" for case, rate in values.items()]
            rows.append(list(zip(values, texts, strict=True)))
    return labels, rows


def _rate_text(rate: float) -> str:
    known = np.isfinite(rate)
    return f"{draw.number_text(rate, percent=True, digits=3)} %" if known else "no outcome"


def _point(ax: Axes) -> float:
    """Return a typographic point (1/72 inch) in units of the x axis."""
    return float(np.ptp(ax.get_xlim())) / (max(panel_size(ax)[0] - 1.6, 1.0) * 72)


def _mark_size(ax: Axes, deltas: pd.Series) -> float:
    """Return the diameter in points at which the marks of a strip do not overlap."""
    counts = deltas.value_counts()
    between = np.diff(np.sort(counts.index)).min(initial=np.ptp(ax.get_xlim()))
    return float(0.85 * between / _point(ax) / -(-counts.max() // _STACK) - 0.5)


def _draw_strip(ax: Axes, part: pd.DataFrame, at: float, size: float) -> None:
    """Draw the cases of a condition below its interval, which is at the height `at`."""
    inch = abs(float(np.ptp(ax.get_ylim()))) / max(panel_size(ax)[1] - 0.85, 0.5)
    order = {change: i for i, change in enumerate(_CHANGES)}
    ranked = part.assign(_rank=part["change"].map(order)).sort_values(["delta", "_rank"])
    same = ranked.groupby("delta")["delta"]
    number, wide = same.cumcount(), -(-same.transform("size") // _STACK)
    across = ranked["delta"] + (number // _STACK - (wide - 1) / 2) * (size + 0.6) * _point(ax)
    down = at + (0.08 + (number % _STACK) * (size + 0.6) / 72) * inch
    for x, y, (_, row) in zip(across, down, ranked.iterrows(), strict=True):
        mark = _mark_of_case(row["change"], size)
        mark.set_data([x], [y])
        mark.set(clip_on=False, zorder=2.5)
        ax.add_line(mark)
        rate, base = _rate_text(row["rate"]), _rate_text(row["reference_rate"])
        note = f"; {row['note']}" if row.get("note") else ""
        before = f"{base} under {row.get('reference', 'reference')}"
        text = f"{row['case_id']}: {rate} passed under {row['condition']}, {before}{note}"
        name_artist(mark, "case", text)


def _with_changes(frame: pd.DataFrame) -> pd.DataFrame:
    """Add the column ``change``: lost, gained or, if unchanged, whether most attempts pass."""
    change, rate = frame["delta"], frame["rate"]
    conditions = [change < 0, change > 0, rate > 0.5, rate < 0.5]
    names = ["lost", "gained", "passes, no change", "fails, no change"]
    return frame.assign(change=np.select(conditions, names, default="mixed, no change"))


def _mark_of_case(change: str, size: float = _SIZE) -> Line2D:
    mark = draw.marker(_CHANGES[change], hollow=change == _HOLLOW)
    mark.set(markersize=size, markeredgewidth=0.5)
    return mark
