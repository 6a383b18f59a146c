"""What the plots share: columns asked for, order of levels, points with intervals, keys, axes."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator
from matplotlib.transforms import ScaledTranslation
from numpy.typing import NDArray

from skillcomp.errors import FrameError, suggest
from skillcomp.records import DIMENSIONS
from skillcomp.style import CONDITIONS, INK, LABEL_SIZE, TICK_SIZE, Look, figure, looks, plain

Floats = NDArray[np.float64]
Stroke: TypeAlias = Any  # what matplotlib takes as a line style: a word or a pattern

_NATURAL = (tuple(CONDITIONS), DIMENSIONS, ("near", "far"))
_CHAR = 0.56  # mean width of a character of DejaVu Sans, in font sizes
RULE = "#b0b0b0"
DASH = (0, (4, 2))


def require(frame: pd.DataFrame, columns: Iterable[str], where: str) -> None:
    """Raise FrameError when a column that a plot reads is not in the frame."""
    if not isinstance(frame, pd.DataFrame):
        raise FrameError(f"{where}: expected a pandas DataFrame, found {type(frame).__name__}.")
    there = [str(name) for name in frame.columns]
    for name in columns:
        if name not in frame.columns:
            raise FrameError(
                f"{where}: there is no column '{name}'; there: {', '.join(there)}."
                + suggest(str(name), there)
            )


def numbers(frame: pd.DataFrame, column: str, where: str) -> Floats:
    """Return a column as floats, NaN where missing or where the column is not there."""
    if column not in frame.columns:
        return np.full(len(frame), np.nan)
    try:
        given = frame[column].astype("Float64").to_numpy(dtype=np.float64, na_value=np.nan)
        return np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        found = ", ".join(repr(str(v)) for v in frame[column].dropna().unique()[:3])
        raise FrameError(f"{where}: column '{column}' holds {found}; allowed: numbers.") from None


def keys(column: pd.Series) -> list[Any]:
    """Return the values of a column with None for every kind of missing."""
    return [None if pd.isna(value) else value for value in column.tolist()]


def levels(column: pd.Series) -> list[Any]:
    """Return the levels of a column in the order in which they are drawn.

    Conditions, C1 to C9 and near before far have their natural order, a categorical column its
    own (levels without rows are kept, so that facets agree); others stand as they appear.
    """
    if isinstance(column.dtype, pd.CategoricalDtype):
        return [*column.cat.categories, *([None] if column.isna().any() else [])]
    found = list(dict.fromkeys(keys(column)))
    for order in _NATURAL:
        if any(level in order for level in found):
            known = [level for level in order if level in found]
            return known + [level for level in found if level not in order]
    return found


def hue_looks(frame: pd.DataFrame, hue: str | None) -> tuple[list[Any], dict[Any, Look], list[Any]]:
    """Return for each row its level of the hue, the look of each level, and the levels."""
    if hue is None:
        return [None] * len(frame), {None: Look(INK, "o")}, [None]
    found = levels(frame[hue])
    return keys(frame[hue]), looks(found), found


def axes(ax: Axes | None, *, width: str = "text", height: float | None = None) -> Axes:
    """Return the axes given, or those of a new figure."""
    if ax is not None:
        return ax
    made: Axes = figure(width, height=height)[1]
    return made


def words(name: object) -> str:
    """Return a column name as the words of an axis label."""
    text = str(name).replace("_", " ")
    if text.startswith("n ") and len(text) > 2:
        text = f"number of {text[2:]}"
    return plain(text[:1].upper() + text[1:], width=48)


def shown(level: object, *, width: int = 36) -> str:
    """Return a level as it stands in a figure: one line, single words for joined_ones."""
    return re.sub(r"(?<=[^\W_])_(?=[^\W_])", " ", plain(level, width=width))


def reason(note: object) -> str:
    """Return why a row is not known, from its note."""
    said = "" if note is None else str(note).strip()
    if said.lower().startswith(("not identified", "undefined")):
        return said
    return f"undefined: {said}" if said else "undefined"


def level_text(frame: pd.DataFrame) -> str:
    """Return the level of the intervals as words, where the frame has one for all rows."""
    found = np.unique(numbers(frame, "ci_level", "ci_level"))
    known = found[np.isfinite(found)]
    return f", {100 * known[0]:g}% CI" if len(known) == 1 else ""


def number(value: float, *, percent: bool, signed: bool = False, digits: int = 6) -> str:
    """Return a number as print sets it: a true minus, a plus where the sign is the message."""
    shown = 100 * value if percent else value
    text = f"{shown:{'+' if signed and round(shown, 9) else ''}.{digits}g}"
    return ("0" if float(text) == 0 else text).replace("-", "\N{MINUS SIGN}")


def scale(axis: Axis, *, percent: bool, signed: bool) -> None:
    """Label an axis in percent or percentage points while the data stay proportions."""
    if percent or signed:
        axis.set_major_formatter(
            FuncFormatter(lambda value, _: number(value, percent=percent, signed=signed))
        )


def whole_steps(axis: Axis, values: Floats) -> None:
    """Put ticks on whole numbers where the values are counts, on each of a few in a row."""
    finite = np.unique(values[np.isfinite(values)])
    if not len(finite) or np.any(finite != np.round(finite)):
        return
    if len(finite) <= 12 and np.ptp(finite) < 16:
        axis.set_ticks(finite)
    else:
        axis.set_major_locator(MaxNLocator(integer=True, nbins=10))


def wrapped(text: str, inches: float) -> str:
    """Return a label in as many lines as the room along its axis asks for."""
    width = max(int(inches * 72 / (LABEL_SIZE * _CHAR)), 14)
    lines = text.split("\n")
    return "\n".join(textwrap.fill(one, width, max_lines=3, placeholder="…") for one in lines)


def label_x(ax: Axes, text: str, *, taken: int = 0) -> None:
    """Label the x axis, ``taken`` being the characters that stand at its left."""
    beside = taken * TICK_SIZE * _CHAR / 72 if taken else 0.45
    ax.set_xlabel(wrapped(text, cell(ax)[0] - beside))


def label_y(ax: Axes, text: str) -> None:
    """Label the y axis."""
    ax.set_ylabel(wrapped(text, cell(ax)[1] - 0.75))


def cell(ax: Axes) -> tuple[float, float]:
    """Return width and height, in inches, of the cell that the axes have in their figure."""
    wide, high = (float(side) for side in ax.figure.get_figure(root=True).get_size_inches())
    spec = ax.get_subplotspec()
    if spec is None:
        return wide, high
    grid = spec.get_gridspec()
    return wide * len(spec.colspan) / grid.ncols, high * len(spec.rowspan) / grid.nrows


def room(ax: Axes, share: float = 1.0) -> int:
    """Return about how many small characters fit into a share of the width of the axes' cell."""
    return max(int(cell(ax)[0] * 72 * share / (TICK_SIZE * _CHAR)), 8)


def offsets(count: int, spread: float = 0.62) -> Floats:
    """Return where the levels of a hue stand around the place of their category."""
    return np.asarray((np.arange(count) - (count - 1) / 2) * (spread / max(count, 1)))


def marker(look: Look, *, line: Stroke = "", hollow: bool = False) -> Line2D:
    """Return the key entry of a look."""
    face = "white" if hollow else look.color
    return Line2D(
        [], [], color=look.color, marker=look.marker, linestyle=line, markerfacecolor=face
    )


def intervals(
    ax: Axes,
    at: Floats,
    low: Floats,
    high: Floats,
    look: Look,
    *,
    upright: bool,
    linewidth: float = 1.1,
) -> None:
    """Draw intervals as lines without caps; a row without both limits has none."""
    known = ~(np.isnan(low) | np.isnan(high))
    if known.any():
        draw: Callable[..., Any] = ax.vlines if upright else ax.hlines
        lines = draw(
            at[known], low[known], high[known], color=look.color, linewidth=linewidth, zorder=2
        )
        lines.set_gid("interval")


def points(
    ax: Axes,
    x: Floats,
    y: Floats,
    look: Look,
    label: object,
    *,
    line: Stroke = "",
    bare: Any = None,
    gid: str = "no interval",
) -> None:
    """Draw the points of one level, hollow where they are bare."""
    ax.plot(
        x, y, color=look.color, marker=look.marker, linestyle=line, label=plain(label), zorder=3
    )[0].set_gid("estimate")
    if bare is not None and np.any(bare):
        ax.plot(
            x[bare],
            y[bare],
            color=look.color,
            marker=look.marker,
            linestyle="",
            markerfacecolor="white",
            zorder=3.1,
        )[0].set_gid(gid)


def rule(ax: Axes, at: float, *, upright: bool, dashed: bool = False) -> None:
    """Draw a line of reference."""
    draw: Callable[..., Line2D] = ax.axvline if upright else ax.axhline
    color, stroke = (INK, DASH) if dashed else (RULE, "-")
    draw(at, color=color, linestyle=stroke, marker="", linewidth=0.8, zorder=1, gid="reference")


def dashed() -> Line2D:
    """Return the key entry of a dashed line of reference."""
    return Line2D([], [], color=INK, linestyle=DASH, linewidth=0.8, marker="")


def ring(x: Any = (), y: Any = ()) -> Line2D:
    """Return rings, the mark of what was chosen."""
    return Line2D(
        x,
        y,
        marker="o",
        markersize=8,
        markerfacecolor="none",
        markeredgecolor=INK,
        markeredgewidth=0.9,
        linestyle="",
        zorder=4,
        clip_on=False,
        gid="chosen",
    )


def ring_chosen(ax: Axes, x: Floats, y: Floats) -> None:
    """Ring the points that were chosen, where there are any."""
    # an artist without points and without clipping would have an infinite extent
    if len(x):
        ax.add_line(ring(x, y))


def truth(frame: pd.DataFrame, column: str, where: str) -> NDArray[np.bool_]:
    """Return a column of truth values, False where missing or where the column is not there."""
    if column not in frame.columns:
        return np.zeros(len(frame), dtype=bool)
    try:
        given = frame[column].astype("boolean").fillna(False)
    except (TypeError, ValueError):
        found = ", ".join(repr(str(v)) for v in frame[column].dropna().unique()[:3])
        raise FrameError(
            f"{where}: column '{column}' holds {found}; allowed: truth values."
        ) from None
    return np.asarray(given.to_numpy(dtype=bool))


def where_equal(values: Sequence[Any], level: Any) -> NDArray[np.bool_]:
    """Return which rows hold a level."""
    return np.array([value == level for value in values], dtype=bool)


def key(
    ax: Axes,
    entries: Sequence[tuple[object, Artist]],
    place: str | bool,
    *,
    words_only: bool = True,
) -> None:
    """Draw the legend outside the data.

    ``"below"`` stands under the axis and its label, so these are to be set before; ``"right"``
    beside the axes; False draws none.
    """
    if place is False or not entries:
        return
    if place not in ("below", "right"):
        raise FrameError(f"legend: found {place!r}; allowed: 'below', 'right' or False.")
    texts = [shown(label, width=40) for label, _ in entries]
    handles = [handle for _, handle in entries]
    if place == "right":
        box = ax.legend(handles, texts, loc="upper left", bbox_to_anchor=(1.01, 1.0))
    else:
        longest = max(len(text) for text in texts) + 6
        under = ax.xaxis.get_tightbbox()
        deep = 0.0 if under is None else max(ax.bbox.y0 - under.y0, 0.0)
        down = ScaledTranslation(0, -deep / ax.figure.dpi - 5 / 72, ax.figure.dpi_scale_trans)
        box = ax.legend(
            handles,
            texts,
            loc="upper center",
            bbox_to_anchor=(0.5, 0.0),
            bbox_transform=ax.transAxes + down,
            borderaxespad=0.0,
            ncols=int(np.clip(room(ax) // longest, 1, len(texts))),
        )
    # matplotlib drops labels with a leading underscore, which text from outside may have
    for drawn, text in zip(box.get_texts(), texts, strict=True):
        drawn.set_text(text)
