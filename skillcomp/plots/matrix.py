"""Figures whose places are pairs of levels: the dimension heat map and the flip matrix."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import Normalize, TwoSlopeNorm
from matplotlib.patches import Patch, Rectangle

from skillcomp.errors import FrameError
from skillcomp.plots._draw import (
    RULE,
    Floats,
    axes,
    cell,
    key,
    keys,
    levels,
    number,
    numbers,
    require,
    room,
    scale,
    shown,
    words,
    wrapped,
)
from skillcomp.style import DIFFERENCES, LABEL_SIZE, RATES, TICK_SIZE, plain

_HATCH = "////"


def dimensions(
    frame: pd.DataFrame,
    *,
    value: str = "estimate",
    x: str = "condition",
    y: str = "comprehension_dimension",
    null: float | None = None,
    percent: bool = True,
    label: str | None = None,
    legend: str | bool = "below",
    ax: Axes | None = None,
) -> Axes:
    """Draw a value for each dimension and condition (or skill) as a heat map with the numbers.

    Parameters
    ----------
    frame : pandas.DataFrame
        One row per `x` and `y`, with `value`.
    value : str, default "estimate"
        Column of rates or differences.
    x, y : str
        Columns of the two axes; dimensions stand in the order C1 to C9.
    null : float, optional
        Value without an effect, for differences: colours diverge from it (0 for deltas). By
        default the values are rates, coloured from 0 to 1 where `percent`.
    percent : bool, default True
        Whether the values are proportions.
    label : str, optional
        Label of the colour bar.
    legend : {"below", "right", False}
        Where the key of hatched cells stands; drawn where there are any.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    FrameError
        When a column is not there or two rows fall on one cell: nothing is averaged here.

    Notes
    -----
    A cell whose value is missing is hatched; one that the frame does not have stays white.

    See Also
    --------
    skillcomp.deltas.by_dimension, skillcomp.deltas.rates
    """
    where = "plots.dimensions"
    require(frame, [value, x, y], where)
    cells, there, columns, rows = _grid(frame, value, x, y, where)
    ax = axes(ax, height=min(0.24 * len(rows) + 1.1, 9.0))
    norm = _norm(cells, null, percent)
    cmap = RATES if null is None else DIFFERENCES
    mesh = ax.pcolormesh(
        np.ma.masked_invalid(cells), cmap=cmap, norm=norm, edgecolors="white", linewidth=0.8
    )
    for i, j in np.argwhere(there & np.isnan(cells)):
        ax.add_patch(
            Rectangle(
                (j, i),
                1,
                1,
                facecolor="white",
                edgecolor=RULE,
                hatch=_HATCH,
                linewidth=0.4,
                gid="undefined",
            )
        )
    for i, j in np.argwhere(np.isfinite(cells)):
        text = _cell(cells[i, j], percent, null == 0)
        color = _ink(mesh.cmap(norm(cells[i, j])))
        ax.text(
            j + 0.5,
            i + 0.5,
            text,
            ha="center",
            va="center_baseline",
            fontsize=TICK_SIZE,
            color=color,
            gid="value",
        )
    _grid_axes(ax, columns, rows)
    bar = ax.figure.colorbar(mesh, ax=ax, pad=0.02, aspect=25)
    scale(bar.ax.yaxis, percent=percent, signed=null == 0)
    bar.outline.set_linewidth(0.4)
    text = label if label is not None else _value_label(value, null, percent)
    bar.set_label(wrapped(text, cell(ax)[1] - 0.9))
    hatched = bool((there & np.isnan(cells)).any())
    entry = Patch(facecolor="white", edgecolor=RULE, hatch=_HATCH, linewidth=0.4)
    key(ax, [("undefined", entry)] if hatched else [], legend)
    return ax


def _whose(frame: pd.DataFrame, column: str, otherwise: str) -> str:
    """Return the one name that a column holds, or the word that stands for it."""
    names = list(frame[column].dropna().unique()) if column in frame.columns else []
    return plain(names[0]) if len(names) == 1 else otherwise


def flips(
    frame: pd.DataFrame,
    *,
    x: str = "new",
    y: str = "old",
    value: str = "count",
    ax: Axes | None = None,
) -> Axes:
    """Draw how many verdicts stayed and how many flipped between two graders.

    Parameters
    ----------
    frame : pandas.DataFrame
        One row per pair of verdicts: `y` (by the reference), `x` (by the other) and `value`, how
        many checks had this pair. Truth values are shown as PASS and FAIL. For several panels
        (gold PASS and gold FAIL), facet.
    x, y : str
        Columns of the two verdicts. Where ``grader`` and ``reference`` each hold one name, these
        label the axes, else the column names do.
    value : str, default "count"
        Column of counts.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    FrameError
        When a column is not there or a pair stands twice.

    Notes
    -----
    Flips are framed: the cells off the diagonal. A pair without a row stays white.
    """
    where = "plots.flips"
    require(frame, [x, y, value], where)
    named = frame.assign(**{name: frame[name].map(_verdict) for name in (x, y)})
    counts, _, columns, rows = _grid(named, value, x, y, where)
    order = [name for name in ("PASS", "FAIL") if name in {*columns, *rows}]
    order += [name for name in dict.fromkeys([*rows, *columns]) if name not in order]
    full = pd.DataFrame(counts, index=rows, columns=columns).reindex(index=order, columns=order)
    cells = full.to_numpy(dtype=np.float64)
    ax = axes(ax, width="column", height=2.6)
    most = np.nanmax(cells) if np.isfinite(cells).any() else 1.0
    norm = Normalize(-0.05 * most, 1.6 * most or 1.0)
    mesh = ax.pcolormesh(
        np.ma.masked_invalid(cells), cmap="Greys", norm=norm, edgecolors="white", linewidth=0.8
    )
    for i, j in np.argwhere(np.isfinite(cells)):
        ax.text(
            j + 0.5,
            i + 0.5,
            f"{cells[i, j]:,.0f}",
            ha="center",
            va="center_baseline",
            fontsize=LABEL_SIZE,
            color=_ink(mesh.cmap(norm(cells[i, j]))),
            gid="value",
        )
        if i != j:
            ax.add_patch(
                Rectangle(
                    (j + 0.03, i + 0.03),
                    0.94,
                    0.94,
                    fill=False,
                    linewidth=1.2,
                    edgecolor="#D55E00",
                    gid="flip",
                )
            )
    _grid_axes(ax, order, order)
    ax.set(
        xlabel=_whose(frame, "grader", words(x)),
        ylabel=_whose(frame, "reference", words(y)),
        aspect="equal",
    )
    ax.spines[:].set(visible=True, color=RULE, linewidth=0.6)
    return ax


def _grid(
    frame: pd.DataFrame, value: str, x: str, y: str, where: str
) -> tuple[Floats, Any, list[Any], list[Any]]:
    """Return the values by row and column, which cells the frame has, and the two orders."""
    columns, rows = levels(frame[x]), levels(frame[y])
    double = frame.duplicated([x, y])
    if double.any():
        raise FrameError(
            f"{where}: {int(double.sum()) + 1} rows or more share a cell of {x} and {y}; nothing "
            "is averaged here. Select one of each, or facet (skillcomp.plots.facet)."
        )
    cells = np.full((len(rows), len(columns)), np.nan)
    there = np.zeros(cells.shape, dtype=bool)
    values = numbers(frame, value, where)
    for row, column, number_ in zip(keys(frame[y]), keys(frame[x]), values, strict=True):
        spot = rows.index(row), columns.index(column)
        cells[spot], there[spot] = number_, True
    return cells, there, columns, rows


def _grid_axes(ax: Axes, columns: list[Any], rows: list[Any]) -> None:
    wide = int(room(ax, 0.72) / max(len(columns), 1))
    texts = [
        textwrap.fill(shown(level, width=28), max(wide, 6), break_long_words=False)
        for level in columns
    ]
    slanted = max((len(line) for text in texts for line in text.split("\n")), default=0) > wide + 2
    if slanted:
        texts = [shown(level, width=28) for level in columns]
    ax.set_xticks(np.arange(len(columns)) + 0.5, texts)
    if slanted:
        ax.tick_params(axis="x", labelrotation=35)
        for tick in ax.get_xticklabels():
            tick.set(ha="right", rotation_mode="anchor")
    ax.set_yticks(np.arange(len(rows)) + 0.5, [shown(level) for level in rows])
    ax.set(xlim=(0, max(len(columns), 1)), ylim=(max(len(rows), 1), 0))
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)


def _norm(cells: Floats, null: float | None, percent: bool) -> Normalize:
    finite = cells[np.isfinite(cells)]
    if null is not None:
        reach = float(np.abs(finite - null).max()) if len(finite) else 1.0
        return TwoSlopeNorm(null, null - (reach or 1.0), null + (reach or 1.0))
    if percent and (not len(finite) or (finite.min() >= 0 and finite.max() <= 1)):
        return Normalize(0, 1)
    return Normalize(float(finite.min()), float(finite.max())) if len(finite) else Normalize(0, 1)


def _cell(value: float, percent: bool, signed: bool) -> str:
    return number(round(value, 2), percent=percent, signed=signed, digits=3)


def _ink(background: tuple[float, float, float, float]) -> str:
    """Return the text colour of the higher contrast (WCAG 2 relative luminance)."""
    red, green, blue = (
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in background[:3]
    )
    return "black" if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 else "white"


def _verdict(value: Any) -> Any:
    if isinstance(value, bool | np.bool_):
        return "PASS" if value else "FAIL"
    return value


def _value_label(value: str, null: float | None, percent: bool) -> str:
    if null == 0:
        return "Difference (percentage points)" if percent else "Difference"
    name = "Rate" if percent and value == "estimate" else words(value)
    return name + (" (%)" if percent else "")
