"""What the plots share: columns, levels, points with intervals, strips, legends and axes."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator
from matplotlib.transforms import ScaledTranslation
from numpy.typing import NDArray

from skillcomp.errors import FrameError, suggest
from skillcomp.frames.estimates import ordered
from skillcomp.records import CONDITIONS, DIMENSIONS, RUBRIC
from skillcomp.style import INK, LABEL_SIZE, TICK_SIZE, Look, called, figure, looks, plain
from skillcomp.style import tell as tell

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]
Stroke: TypeAlias = Any  # what matplotlib takes as a line style: a word or a pattern
Entry: TypeAlias = tuple[object, Artist]  # text and mark of a line of the legend

LINE_GREY = "#b0b0b0"
DASH = (0, (4, 2))
_COUNTS = ("skills", "cases", "repeats")  # columns whose levels are numbers of these
_NATURAL_ORDERS = (CONDITIONS, DIMENSIONS, ("near", "far"))
_CHARACTER = 0.56  # mean width of a character of DejaVu Sans, in font sizes


# Columns and levels


def require(frame: pd.DataFrame, columns: Iterable[str | None], where: str) -> None:
    """Raise FrameError when a column that a plot reads is not in the frame; None asks for none."""
    if not isinstance(frame, pd.DataFrame):
        raise FrameError(f"{where}: expected a pandas DataFrame, found {type(frame).__name__}.")
    there = [str(name) for name in frame.columns]
    for name in columns:
        if name is not None and name not in frame.columns:
            raise FrameError(
                f"{where}: there is no column '{name}'; there: {', '.join(there)}."
                + suggest(str(name), there)
            )


def _converted(frame: pd.DataFrame, column: str, dtype: str, allowed: str, where: str) -> Any:
    try:
        given: Any = frame[column]
        return given.astype(dtype)
    except (TypeError, ValueError):
        found = ", ".join(repr(str(v)) for v in frame[column].dropna().unique()[:3])
        raise FrameError(f"{where}: column '{column}' holds {found}; allowed: {allowed}.") from None


def numbers(frame: pd.DataFrame, column: str, where: str) -> Floats:
    """Return a column as floats, NaN where missing or where the column is not there."""
    if column not in frame.columns:
        return np.full(len(frame), np.nan)
    given = _converted(frame, column, "Float64", "numbers", where)
    return np.asarray(given.to_numpy(dtype=np.float64, na_value=np.nan), dtype=np.float64)


def truth(frame: pd.DataFrame, column: str, where: str) -> Bools:
    """Return a column of truth values, False where missing or where the column is not there."""
    if column not in frame.columns:
        return np.zeros(len(frame), dtype=bool)
    given = _converted(frame, column, "boolean", "truth values", where)
    return np.asarray(given.fillna(False).to_numpy(dtype=bool))


def unit(frame: pd.DataFrame, where: str, *, together: Iterable[str] = ()) -> str | None:
    """Return the one unit of the rows, None where they name none; refuse several on one axis.

    The units in `together` may share an axis, of which then the first is returned.
    """
    found = [name for name in dict.fromkeys(optional(frame, "unit")) if name is not None]
    if len(found) > 1 and not set(found) <= set(together):
        raise FrameError(
            f"{where}: the rows have several units ({', '.join(found)}), which one axis cannot "
            "show. Select the rows of one, or draw each in axes of its own."
        )
    return found[0] if found else None


def values(column: pd.Series) -> list[Any]:
    """Return the values of a column with None for every kind of missing."""
    return [None if pd.isna(value) else value for value in column.tolist()]


def optional(frame: pd.DataFrame, column: str) -> list[Any]:
    """Return the values of a column, None throughout where it is not there."""
    return values(frame[column]) if column in frame.columns else [None] * len(frame)


def levels(column: pd.Series) -> list[Any]:
    """Return the levels of a column in the order in which they are drawn.

    Conditions, C1 to C9 and near before far have their natural order, a categorical column its
    own (levels without rows are kept, so that facets agree); others stand as they appear.
    """
    if isinstance(column.dtype, pd.CategoricalDtype):
        return [*column.cat.categories, *([None] if column.isna().any() else [])]
    found = list(dict.fromkeys(values(column)))
    for order in _NATURAL_ORDERS:
        if any(level in order for level in found):
            return ordered(found, order=order)
    return found


def hue_looks(frame: pd.DataFrame, hue: str | None) -> tuple[list[Any], dict[Any, Look], list[Any]]:
    """Return for each row its level of the hue, the look of each level, and the levels."""
    if hue is None:
        return [None] * len(frame), {None: Look(INK, "o")}, [None]
    found = levels(frame[hue])
    return values(frame[hue]), looks(found), found


def where_equal(given: Sequence[Any], level: Any) -> Bools:
    """Return which rows hold a level."""
    return np.array([value == level for value in given], dtype=bool)


# Words


def words(name: object) -> str:
    """Return a column name as the words of an axis label."""
    text = str(name).replace("_", " ")
    if text.startswith("n ") and len(text) > 2:
        text = f"number of {text[2:]}"
    return plain(text[:1].upper() + text[1:], width=48)


def each(*names: str | Sequence[str] | None) -> str:
    """Return columns as the words of a caption: for each skill and condition."""
    flat = [one for name in names if name for one in ([name] if isinstance(name, str) else name)]
    said = [f"number of {one}" if one in _COUNTS else called(one) for one in flat]
    return f"for each {' and '.join(dict.fromkeys(said))}"


def level_name(level: object, *, width: int = 36) -> str:
    """Return a level on one line, underscores as spaces, C1 to C9 with their names."""
    text = called(plain(level, width=width))
    return f"{text} {RUBRIC[text][0]}" if text in RUBRIC else text


def why_unknown(note: object) -> str:
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


def number_text(value: float, *, percent: bool, signed: bool = False, digits: int = 6) -> str:
    """Return a number as print sets it: a true minus, a plus where the sign is the message."""
    scaled = 100 * value if percent else value
    text = f"{scaled:{'+' if signed and round(scaled, 9) else ''}.{digits}g}"
    return ("0" if float(text) == 0 else text).replace("-", "\N{MINUS SIGN}")


_UNITS = {
    "points": "percentage points",
    "dollars": "US dollars",
}


_COMPARED = {"delta_passed": "attempts passed", "delta_share_passed": "checks passed"}


def difference_of(frame: pd.DataFrame) -> str:
    """Return what an axis of differences is called, with what passed where all rows agree."""
    measures = list(frame["measure"].unique()) if "measure" in frame.columns else []
    what = _COMPARED.get(measures[0]) if len(measures) == 1 else None
    return f"Difference in {what}" if what else "Difference"


def difference_label(unit: str | None, *, percent: bool, name: str = "Difference") -> str:
    """Return the words of an axis of differences."""
    if percent:
        return f"{name} (percentage points)"
    return f"{name} ({_UNITS.get(unit, unit)})" if unit else name


def estimate_label(unit: str | None, *, percent: bool, name: str = "Estimate") -> str:
    """Return the words of an axis of estimates that are no differences."""
    if percent:
        return f"{name} (%)"
    return f"{name} ({_UNITS.get(unit, unit)})" if unit else name


# Axes


def axes(ax: Axes | None, *, width: str = "text", height: float | None = None) -> Axes:
    """Return the axes given, or those of a new figure."""
    if ax is not None:
        return ax
    made: Axes = figure(width, height=height)[1]
    return made


def scale(axis: Axis, *, percent: bool, signed: bool = False) -> None:
    """Label an axis in percent or percentage points while the data stay proportions."""
    if percent or signed:
        axis.set_major_formatter(
            FuncFormatter(lambda value, _: number_text(value, percent=percent, signed=signed))
        )


def whole_steps(axis: Axis, at: Floats) -> None:
    """Put ticks on whole numbers where the values are counts, on each of a few in a row."""
    finite = np.unique(at[np.isfinite(at)])
    if not len(finite) or np.any(finite != np.round(finite)):
        return
    if len(finite) <= 12 and np.ptp(finite) < 16:
        axis.set_ticks(finite)
    else:
        axis.set_major_locator(MaxNLocator(integer=True, nbins=10))


def wrapped(text: str, inches: float) -> str:
    """Return a label in as many lines as the room along its axis asks for."""
    width = max(int(inches * 72 / (LABEL_SIZE * _CHARACTER)), 14)
    lines = text.split("\n")
    return "\n".join(textwrap.fill(one, width, max_lines=3, placeholder="…") for one in lines)


def label_x(ax: Axes, text: str, *, taken: int = 0) -> None:
    """Label the x axis, ``taken`` being the characters that stand at its left."""
    beside = taken * TICK_SIZE * _CHARACTER / 72 if taken else 0.45
    ax.set_xlabel(wrapped(text, panel_size(ax)[0] - beside))


def label_y(ax: Axes, text: str) -> None:
    """Label the y axis."""
    ax.set_ylabel(wrapped(text, panel_size(ax)[1] - 0.75))


def label_rows(ax: Axes, texts: Sequence[str], *, separated: bool) -> int:
    """Name rows from top to bottom at the y axis; return the length of the longest line."""
    ax.set_yticks(range(len(texts)), texts)
    ax.set_ylim(max(len(texts), 1) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    for i in range(len(texts) - 1) if separated else ():
        ax.axhline(i + 0.5, color=LINE_GREY, marker="", linewidth=0.4, zorder=0, gid="separator")
    return max((len(line) for text in texts for line in text.split("\n")), default=0)


def panel_size(ax: Axes) -> tuple[float, float]:
    """Return width and height, in inches, of the cell that the axes have in their figure."""
    wide, high = (float(side) for side in ax.figure.get_figure(root=True).get_size_inches())
    spec = ax.get_subplotspec()
    if spec is None:
        return wide, high
    grid = spec.get_gridspec()
    return wide * len(spec.colspan) / grid.ncols, high * len(spec.rowspan) / grid.nrows


def characters(ax: Axes, share: float = 1.0) -> int:
    """Return about how many small characters fit into a share of the width of the panel."""
    return max(int(panel_size(ax)[0] * 72 * share / (TICK_SIZE * _CHARACTER)), 8)


def offsets(count: int, spread: float = 0.62) -> Floats:
    """Return where the levels of a hue stand around the place of their category."""
    return np.asarray((np.arange(count) - (count - 1) / 2) * (spread / max(count, 1)))


# Marks


def marker(look: Look, *, line: Stroke = "", hollow: bool = False) -> Line2D:
    """Return the legend's mark of a look."""
    face = "white" if hollow else look.color
    return Line2D(
        [], [], color=look.color, marker=look.marker, linestyle=line, markerfacecolor=face
    )


def marked(looks_of: dict[Any, Look], *, line: Stroke = "-") -> list[Entry]:
    """Return the legend's entries of all looks."""
    return [(level, marker(look, line=line)) for level, look in looks_of.items()]


def intervals(
    ax: Axes,
    at: Floats,
    low: Floats,
    high: Floats,
    look: Look,
    *,
    upright: bool,
    width: float = 1.1,
) -> None:
    """Draw intervals as lines without caps; a row without both limits has none."""
    known = ~(np.isnan(low) | np.isnan(high))
    if known.any():
        draw: Any = ax.vlines if upright else ax.hlines
        lines = draw(at[known], low[known], high[known], color=look.color, linewidth=width)
        lines.set(gid="interval", zorder=2)


def points(
    ax: Axes,
    x: Floats,
    y: Floats,
    look: Look,
    label: object,
    *,
    line: Stroke = "",
    hollow: Any = None,
    gid: str = "no interval",
) -> Line2D:
    """Draw the points of one level, joined by a line where one is given, some of them hollow."""
    how: dict[str, Any] = {"color": look.color, "marker": look.marker}
    (drawn,) = ax.plot(x, y, linestyle=line, label=plain(label), zorder=3, **how)
    drawn.set_gid("estimate")
    if hollow is not None and np.any(hollow):
        ax.plot(
            x[hollow], y[hollow], linestyle="", markerfacecolor="white", zorder=3.1, gid=gid, **how
        )
    return drawn


def reference(ax: Axes, at: float, *, upright: bool, dashed: bool = False) -> None:
    """Draw a line of reference."""
    draw: Any = ax.axvline if upright else ax.axhline
    color, stroke = (INK, DASH) if dashed else (LINE_GREY, "-")
    draw(at, color=color, linestyle=stroke, marker="", linewidth=0.8, zorder=1, gid="reference")


def dashed_mark() -> Line2D:
    """Return the legend's mark of a dashed line of reference."""
    return Line2D([], [], color=INK, linestyle=DASH, linewidth=0.8, marker="")


def ring(x: Any = (), y: Any = ()) -> Line2D:
    """Return rings, the mark of what was chosen."""
    made = Line2D(x, y, marker="o", markersize=8, linestyle="", zorder=4, gid="chosen")
    made.set(markerfacecolor="none", markeredgecolor=INK, markeredgewidth=0.9, clip_on=False)
    return made


def ring_chosen(ax: Axes, x: Floats, y: Floats) -> None:
    """Ring the points that were chosen, where there are any."""
    # an artist without points and without clipping would have an infinite extent
    if len(x):
        ax.add_line(ring(x, y))


def strip(
    ax: Axes, frame: pd.DataFrame, x: str, y: str, hue: str | None, where: str, *, unit: str = "n"
) -> int:
    """Draw one mark for every row of the frame; return the length of the longest row label."""
    rows, hues = levels(frame[y]), hue_looks(frame, hue)
    of_row = np.array([rows.index(level) for level in values(frame[y])], dtype=int)
    data = pd.DataFrame({"value": numbers(frame, x, where), "row": of_row, "hue": hues[0]})
    beside = hue is not None and hue != y
    how: dict[str, Any] = {"order": list(range(len(rows))), "orient": "h", "legend": False}
    if beside:
        how |= {"hue": "lane", "hue_order": list(range(len(hues[2]))), "dodge": True}
    size = 5.0 if len(data) <= 3 * len(rows) else 3.0
    before = np.random.get_state()
    np.random.seed(0)  # seaborn jitters by numpy's global state: fixed here and put back
    for lane, level in enumerate(hues[2]):
        mine, look, there = where_equal(hues[0], level), hues[1][level], len(ax.collections)
        if not data["value"][mine].notna().any():
            continue
        color = {"palette": [look.color] * len(hues[2])} if beside else {"color": look.color}
        sns.stripplot(
            data[mine].assign(lane=lane), x="value", y="row", marker=look.marker, size=size,
            alpha=0.6, linewidth=0, jitter=0.31, clip_on=False, zorder=3, ax=ax, **color, **how,
        )  # fmt: skip
        for marks in ax.collections[there:]:
            marks.set(gid="estimate", label=plain("text" if hue is None else level))
    np.random.set_state(before)
    texts = []
    for i, level in enumerate(rows):
        here = data.loc[data["row"] == i, "value"]
        count = f"n = {len(here)}" if unit == "n" else f"{len(here)} {unit}{'s' * (len(here) != 1)}"
        zeros = int(here.eq(0).sum())
        none = f", {zeros} at 0" if zeros > 1 else ""
        lost = f", {here.isna().sum()} undefined" if here.isna().any() else ""
        about = f"{count}{none}{lost}" if unit else lost.removeprefix(", ")
        texts.append(level_name(level) + (f"\n({about})" if about else ""))
    ax.set_ylabel("")
    return label_rows(ax, texts, separated=True)


def legend(
    ax: Axes, entries: Sequence[Entry], place: str | bool, *, title: str | None = None
) -> None:
    """Draw the legend outside the data.

    ``"below"`` stands under the axis and its label, so these are to be set before; ``"right"``
    beside the axes; False draws none.
    """
    if place is False or not entries:
        return
    if place not in ("below", "right"):
        raise FrameError(f"legend: found {place!r}; allowed: 'below', 'right' or False.")
    texts = [level_name(label, width=40) for label, _ in entries]
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
            ncols=int(np.clip(characters(ax) // longest, 1, len(texts))),
        )
    if title is not None:
        box.set_title(level_name(title))
    # matplotlib drops labels with a leading underscore, which text from outside may have
    for drawn, text in zip(box.get_texts(), texts, strict=True):
        drawn.set_text(text)
