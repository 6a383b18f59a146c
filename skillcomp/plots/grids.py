"""Plots in grids: heat maps of dimensions, and facets."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import Normalize, TwoSlopeNorm
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from skillcomp.errors import FrameError
from skillcomp.plots import _shared as draw
from skillcomp.plots._shared import LINE_GREY, Floats, level_names, number_text, positions, require
from skillcomp.style import DIFFERENCES, RATES, TICK_SIZE, figure

_HATCH: Any = {"facecolor": "white", "edgecolor": LINE_GREY, "hatch": "////", "linewidth": 0.4}
_MOST_COLUMNS = 5  # maximum number of columns of a legend
_MOST_PANELS = 24
_PANELS_PER_ROW = 3
_FEW = 10  # A cell with fewer cases than this is pale.
_PALE = 0.35  # Opacity of a pale cell, from 0 to 1.


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
        within the row, also in the cells; a cell with fewer than 10 cases is pale).
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
    double = frame.duplicated([x, y])
    if double.any():
        raise FrameError(
            f"{where}: {int(double.sum()) + 1} rows or more share a cell of {x} and {y}; nothing "
            "is averaged here. Select one of each, or facet (skillcomp.plots.facet)."
        )
    grids = np.full((4, len(rows), len(columns)), np.nan)
    for grid, name in zip(grids, ("estimate", "ci_low", "ci_high", "n"), strict=True):
        grid[down, across] = draw.numbers(frame, name, where)
    cells, *limits, sizes = grids
    with_interval = np.isfinite(limits).all(axis=0)
    ax = draw.axes(ax, height=min((0.34 if with_interval.any() else 0.24) * len(rows) + 1.1, 9.0))
    norm = _color_scale(cells, diverges, percent)
    undefined = [(i, j) for i, j in sorted(zip(down, across, strict=True)) if np.isnan(cells[i, j])]
    for i, j in undefined:
        ax.add_patch(Rectangle((j, i), 1, 1, gid="undefined", **_HATCH))
    form = partial(number_text, percent=percent, signed=diverges, digits=3)
    texts = [[form(round(v, 2)) for v in row] for row in np.nan_to_num(cells)]
    for i, j in np.argwhere(with_interval):
        low, high = (form(round(side[i, j], 2)) for side in limits)
        texts[i][j] += f"\n[{low}, {high}]"
    text = label
    if text is None and diverges:
        text = draw.axis_label(draw.difference_of(frame), None, percent=percent)
    elif text is None:
        text = f"{draw.rate_of(frame)} (%)" if percent else "Estimate"
    bar = {"pad": 0.02, "aspect": 25, "label": draw.wrapped(text, draw.panel_size(ax)[1] - 0.9)}
    few = np.isfinite(cells) & (sizes < _FEW)
    for i, j in np.argwhere(np.isfinite(sizes)):
        if len(np.unique(sizes[i][np.isfinite(sizes[i])])) > 1:
            texts[i][j] += f"\n(n = {number_text(sizes[i, j])})"
    _heat_map(ax, cells, texts, norm, few, cmap=DIFFERENCES if diverges else RATES, cbar_kws=bar)
    for mesh in ax.collections:
        drawn: Any = mesh.colorbar
        draw.scale(drawn.ax.yaxis, percent=percent, signed=diverges)
        drawn.outline.set_linewidth(0.4)
    counts = draw.sizes_by_level(frame, draw.values(frame, y), rows, where)
    _name_grid(ax, columns, rows, [f"\n(n = {count})" if count else "" for count in counts])
    entries = [("undefined", Patch(**_HATCH))] if undefined else []
    if few.any():
        mark = Patch(facecolor=LINE_GREY, alpha=_PALE)
        entries.append((f"pale: fewer than {_FEW} cases", mark))
    draw.legend(ax, entries)
    rows_of = "dimension" if "dimension" in y else y
    draw.describe_axes(ax, f"{text.removesuffix(' (%)')} {draw.each(x, rows_of)}")
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
    _share_legend(fig, flat[: len(panels)])
    return fig, flat[: len(panels)]


def _heat_map(
    ax: Axes,
    cells: Floats,
    texts: list[list[str]],
    norm: Normalize,
    pale: draw.Bools,
    **how: Any,
) -> None:
    """Colour each cell that has a value; write its text in black or white for contrast."""
    if not cells.size:
        return
    import seaborn as sns  # imported here, because only heat maps and strips need seaborn

    sns.heatmap(
        cells, mask=np.isnan(cells), norm=norm, vmin=norm.vmin, vmax=norm.vmax, ax=ax,
        annot=np.array(texts), fmt="", annot_kws={"size": TICK_SIZE, "va": "center_baseline"},
        linewidths=0.8, linecolor="white", xticklabels=False, yticklabels=False, **how,
    )  # fmt: skip
    mesh: Any = ax.collections[0]
    opacity = np.where(pale, _PALE, 1.0)
    mesh.set_alpha(opacity)
    for text in ax.texts:
        column, row = (int(at) for at in text.get_position())
        color = np.asarray(mesh.cmap(norm(cells[row, column])))[:3]
        shown = 1 - opacity[row, column] * (1 - color)  # the translucent colour on white
        text.set(gid="value", color=_ink_on(shown))


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


def _share_legend(fig: Figure, panels: Any) -> None:
    """Replace the legends of the panels by one legend of the figure, with the entries of all."""
    entries: dict[str, Any] = {}
    for ax in panels:
        box = ax.get_legend()
        if box is None:
            continue
        for text, handle in zip(box.get_texts(), box.legend_handles, strict=True):
            entries.setdefault(text.get_text(), handle)
        box.remove()
    if entries:
        ncols = min(draw.legend_columns(list(entries), fig.get_figwidth()), _MOST_COLUMNS)
        fig.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=ncols)
