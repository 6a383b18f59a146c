"""Functions that several plots share: columns, levels, intervals, strips, legends and axes."""

from __future__ import annotations

import itertools
import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from os.path import commonprefix
from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import NDArray

from skillcomp.errors import FrameError
from skillcomp.frames.check import as_list, settle
from skillcomp.frames.contracts import CONTRACTS
from skillcomp.frames.estimates import UNITS, ordered, require_columns
from skillcomp.records import CONDITIONS, DIMENSIONS, RUBRIC
from skillcomp.style import INK, LABEL_SIZE, TICK_SIZE, Look, called, figure, looks, plain

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]
Stroke: TypeAlias = Literal["", "-"]  # A line style: no line, or a solid one.
Entry: TypeAlias = tuple[object, Artist]  # The text and the mark of a legend entry.
Estimates: TypeAlias = Sequence[Floats]  # The values, their lower limits, their upper limits.

LINE_GREY = "#b0b0b0"
DASH = (0, (4, 2))
# in captions, "number of" precedes the names of these columns
_COUNTS = ("skills", "cases", "repeats")
_NATURAL_ORDERS = (CONDITIONS, DIMENSIONS, ("near", "far"))
# These columns hold results; all other columns of a frame identify its rows.
_RESULTS = {*CONTRACTS["estimates"].columns} - {"measure", "unit", "method"}
_CHARACTER = 0.56  # mean width of a character of the font DejaVu Sans, as a share of the font size


def require(frame: pd.DataFrame, columns: Iterable[str | None], where: str) -> None:
    """Raise FrameError if one of the columns is missing; a column name of None is skipped."""
    require_columns(frame, [name for name in columns if name is not None], where)


def numbers(frame: pd.DataFrame, column: str, where: str) -> Floats:
    """Return a column as floats; missing cells, or all cells of a missing column, are NaN."""
    if column not in frame.columns:
        return np.full(len(frame), np.nan)
    settled = settle(frame[[column]], {column: "float64"}, where)[column]
    return settled.to_numpy(dtype=np.float64, na_value=np.nan)


def estimates(frame: pd.DataFrame, where: str) -> Estimates:
    """Return the columns estimate, ci_low and ci_high as floats."""
    value, low, high = (numbers(frame, name, where) for name in ("estimate", "ci_low", "ci_high"))
    return value, low, high


def truth(frame: pd.DataFrame, column: str, where: str) -> Bools:
    """Return a column as truth values; missing cells, or all of a missing column, are False."""
    if column not in frame.columns:
        return np.zeros(len(frame), dtype=bool)
    return settle(frame[[column]], {column: "boolean"}, where)[column].fillna(False).to_numpy(bool)


def unit(frame: pd.DataFrame, where: str, *, together: Iterable[str] = ()) -> str | None:
    """Return the unit of the rows, or None if no row has one; raise FrameError for several units.

    A row without a unit gets the unit of its measure if skillcomp has a measure of this name.
    Units in `together` may share an axis: if the rows have several of them, return None.
    """
    pairs = zip(values(frame, "unit"), values(frame, "measure"), strict=True)
    units: list[Any] = list(dict.fromkeys(own or UNITS.get(name) for own, name in pairs))
    units = [name for name in units if name is not None]
    if len(units) > 1 and set(units) <= set(together):
        return None
    if len(units) > 1:
        raise FrameError(
            f"{where}: the rows have several units ({', '.join(units)}), which one axis cannot "
            "show. Select the rows of one, or draw each in axes of its own."
        )
    return units[0] if units else None


def refuse_alike(
    frame: pd.DataFrame, spots: Sequence[Any], where: str, collision: str, advice: str
) -> None:
    """Raise FrameError if rows share a spot; the message names the columns in which they differ."""
    if len(set(spots)) == len(spots):
        return
    first = next(spot for spot in spots if spots.count(spot) > 1)
    rows = frame[[spot == first for spot in spots]]
    columns = [name for name in rows.columns if name not in _RESULTS]
    differ = [str(name) for name in columns if rows[name].nunique(dropna=False) > 1]
    hint = "the rows are alike. Keep one of them."
    if differ:
        hint = f"columns that tell them apart: {', '.join(differ)}. {advice}, or facet by it "
        hint += "(skillcomp.plots.facet)."
    raise FrameError(f"{where}: {len(rows)} rows {collision}; {hint}")


def values(frame: pd.DataFrame, column: str | None) -> Any:
    """Return the values of a column as an array of objects.

    A missing value of any kind is None, and so are all values of a missing column.
    """
    if column not in frame.columns:
        return np.full(len(frame), None)
    cells = frame[column].astype(object)
    return cells.where(cells.notna(), None).to_numpy()


def levels(frame: pd.DataFrame, name: str) -> list[Any]:
    """Return the levels of a column in drawing order.

    A categorical column keeps the order of its categories, including categories without rows, so
    that all panels of a facet have the same levels. In other columns, three kinds of level are in
    a fixed order: conditions (baseline first), the dimensions C1 to C9, and the distances near and
    far. All other levels are in order of appearance.
    """
    column = frame[name]
    if isinstance(column.dtype, pd.CategoricalDtype):
        return [*column.cat.categories, *([None] if column.isna().any() else [])]
    unique = list(dict.fromkeys(values(frame, name)))
    for order in _NATURAL_ORDERS:
        if any(level in order for level in unique):
            return ordered(unique, order=order)
    return unique


def hue_looks(
    frame: pd.DataFrame, hue: str | None, fixed: Mapping[Any, Look] | None = None
) -> tuple[Any, dict[Any, Look]]:
    """Return the position of each row's hue level, and the `Look` of each level in drawing order.

    If `fixed` has a look for every level, the levels have these looks.
    """
    if hue is None:
        return np.zeros(len(frame), dtype=int), {None: Look(INK, "o")}
    order, of_row = positions(frame, hue)
    if fixed is not None and set(order) <= set(fixed):
        return of_row, {level: fixed[level] for level in order}
    return of_row, looks(order)


def positions(frame: pd.DataFrame, column: str) -> tuple[list[Any], Any]:
    """Return the levels of a column in drawing order, and the position of each row's level."""
    order = levels(frame, column)
    return order, np.array([order.index(level) for level in values(frame, column)], dtype=int)


def words(name: object) -> str:
    """Return an axis label for a column, such as "Number of cases" for "n_cases"."""
    text = str(name).replace("_", " ")
    if text.startswith("n ") and len(text) > 2:
        text = f"number of {text[2:]}"
    return plain(text[:1].upper() + text[1:], width=48)


def each(*names: str | Sequence[str] | None) -> str:
    """Return a phrase about grouping columns, such as "for each skill and condition"."""
    flat = [name for part in names if part for name in as_list(part)]
    phrases = [f"number of {name}" if name in _COUNTS else called(name) for name in flat]
    return f"for each {' and '.join(dict.fromkeys(phrases))}"


def level_name(level: object, *, width: int = 36) -> str:
    """Format a level on one line: underscores become spaces, C1 to C9 get their names."""
    text = called(plain(level, width=width, ends=True))
    return f"{text} {RUBRIC[text][0]}" if text in RUBRIC else text


def level_names(levels: Iterable[Any], *, width: int = 36) -> dict[Any, str]:
    """Format levels so that different levels have different names.

    If several levels have the same formatted name, they are shown unformatted, such as "y_1" and
    "y 1". If these names are too long, only the parts in which they differ are shown. Names that
    are still equal get a number.
    """
    unique = list(dict.fromkeys(levels))
    names = {level: level_name(level, width=width) for level in unique}
    for alike in [name for name, n in Counter(names.values()).items() if n > 1]:
        group = [level for level in unique if names[level] == alike]
        names |= dict(zip(group, _differing_parts([plain(n) for n in group], width), strict=True))
    return dict(zip(unique, numbered([names[level] for level in unique]), strict=True))


def _differing_parts(texts: Sequence[str], width: int) -> list[str]:
    """If a text is too long, cut most of the beginning that all texts share."""
    if max(map(len, texts)) <= width:
        return list(texts)
    n_shared = len(commonprefix(texts))  # noqa: RUF071 - by character is what is meant
    start = max(n_shared - width // 4, 0)
    parts = [text[start:] for text in texts]
    cut = [part if len(part) < width else f"{part[: width - 2].rstrip()}…" for part in parts]
    return [called(f"…{part}") for part in cut]


def numbered(texts: Sequence[str]) -> list[str]:
    """Add (1), (2) and so on to texts that occur more than once."""
    counts = Counter(texts)
    taken = {text for text in texts if counts[text] == 1}
    made = []
    for text in texts:
        numbers = (f"{text} ({number})" for number in itertools.count(1))
        made.append(text if text in taken else next(name for name in numbers if name not in taken))
        taken.add(made[-1])
    return made


def why_unknown(note: object) -> str:
    """Return the text to draw in place of a missing estimate: "undefined" and the row's note."""
    reason = "" if note is None else str(note).strip()
    if reason.lower().startswith(("not identified", "not measured", "undefined")):
        return reason
    return f"undefined: {reason}" if reason else "undefined"


def level_text(frame: pd.DataFrame) -> str:
    """Return text such as ", 95 % CI"; empty unless all rows have the same confidence level."""
    level = only_level(frame, "ci_level")
    return f", {100 * float(level):g} % CI" if level else ""


def number_text(
    value: float, *, percent: bool = False, signed: bool = False, digits: int = 6
) -> str:
    """Format a number with a typographic minus; with `signed`, positive numbers get a plus."""
    scaled = 100 * value if percent else value
    text = f"{scaled:{'+' if signed and round(scaled, 9) else ''},.{digits}g}"
    return (text if re.search("[^+0.-]", text) else "0").replace("-", "\N{MINUS SIGN}")


_UNITS = {"rate": "%", "percentage points": "points", "dollars": "US dollars"}


def name_of(frame: pd.DataFrame, otherwise: str) -> str:
    """Return a name such as "Pass rate", or `otherwise` for unknown or mixed measures."""
    measure = only_level(frame, "measure")
    name = called(measure).partition(",")[0]
    return name[:1].upper() + name[1:] if name != measure.replace("_", " ") else otherwise


def only_level(frame: pd.DataFrame, column: str, otherwise: str = "") -> str:
    """Return the value in a column if there is exactly one, otherwise return `otherwise`."""
    names = list(frame[column].dropna().unique()) if column in frame.columns else []
    return str(names[0]) if len(names) == 1 else otherwise


def axis_label(name: str, unit: str | None) -> str:
    """Return a name with a unit in brackets, such as "Pass rate (%)"."""
    return f"{name} ({_UNITS.get(unit, unit)})" if unit else name


def axes(ax: Axes | None, *, width: str = "text", height: float | None = None) -> Axes:
    """Return the given axes, or the axes of a new figure."""
    if ax is not None:
        return ax
    made: Axes = figure(width, height=height)[1]
    return made


def scale(axis: Axis, *, percent: bool, signed: bool = False) -> None:
    """Format tick labels in percent or with signs; the data of the axis remain proportions."""
    if percent or signed:
        axis.set_major_formatter(
            FuncFormatter(lambda value, _: number_text(value, percent=percent, signed=signed))
        )


def whole_steps(axis: Axis, at: Floats) -> None:
    """Put ticks on whole numbers only, if all values are whole."""
    finite = at[np.isfinite(at)]
    if np.all(finite == np.round(finite)):
        axis.set_major_locator(MaxNLocator(integer=True, nbins=12, steps=[1, 2, 5, 10]))


def wrapped(text: str, inches: float) -> str:
    """Wrap a label so that its lines fit along an axis of the length `inches`.

    "95 % CI" stays on one line, and so does other text with no-break spaces.
    """
    width = max(int(inches * 72 / (LABEL_SIZE * _CHARACTER)), 14)
    lines = text.replace(" % CI", "\N{NO-BREAK SPACE}%\N{NO-BREAK SPACE}CI").split("\n")
    filled = [textwrap.fill(line, width, max_lines=3, placeholder="…") for line in lines]
    return "\n".join(filled).replace("\N{NO-BREAK SPACE}", " ")


def label_x(ax: Axes, text: str, *, taken: int = 0) -> None:
    """Label the x axis; ``taken`` is the width of the row labels to its left, in characters."""
    margin = taken * TICK_SIZE * _CHARACTER / 72 if taken else 0.45
    ax.set_xlabel(wrapped(text, panel_size(ax)[0] - margin))


def label_y(ax: Axes, text: str) -> None:
    """Label the y axis."""
    ax.set_ylabel(wrapped(text, panel_size(ax)[1] - 0.75))


def label_rows(ax: Axes, texts: Sequence[str], *, separated: bool) -> int:
    """Label the rows on the y axis from top to bottom; return the length of the longest line."""
    ax.set_yticks(range(len(texts)), texts)
    ax.set_ylim(max(len(texts), 1) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    for i in range(len(texts) - 1) if separated else ():
        ax.axhline(i + 0.5, color=LINE_GREY, marker="", linewidth=0.4, zorder=0, gid="separator")
    return longest_line(texts)


def text_on_box(ax: Axes, x: float, y: float, text: str, *, pad: float = 1.0, **how: Any) -> Text:
    """Write text of the size of tick labels on a box of the colour of the axes."""
    box = {"facecolor": ax.get_facecolor(), "edgecolor": "none", "pad": pad}
    return ax.text(x, y, text, fontsize=TICK_SIZE, bbox=box, **how)


def longest_line(texts: Iterable[str]) -> int:
    """Return the length of the longest line of several texts."""
    return max((len(line) for text in texts for line in text.split("\n")), default=0)


def panel_size(ax: Axes) -> tuple[float, float]:
    """Return the width and height in inches of the grid cell that contains the axes."""
    wide, high = (float(side) for side in ax.figure.get_figure(root=True).get_size_inches())
    spec = ax.get_subplotspec()
    if spec is None:
        return wide, high
    grid = spec.get_gridspec()
    return wide * len(spec.colspan) / grid.ncols, high * len(spec.rowspan) / grid.nrows


def characters(ax: Axes, share: float = 1.0) -> int:
    """Estimate how many characters of a tick label fit into a share of the panel width."""
    return max(int(panel_size(ax)[0] * 72 * share / (TICK_SIZE * _CHARACTER)), 8)


def legend_columns(texts: Sequence[str], inches: float) -> int:
    """Return the number of columns with which a legend of these texts fits into `inches`."""
    # the mark of a legend entry and the gaps next to it are as wide as six characters
    width = (max(map(len, texts)) + 6) * _CHARACTER * TICK_SIZE / 72
    return int(np.clip(inches // width, 1, len(texts)))


def offsets(count: int, spread: float = 0.62) -> Floats:
    """Return the offsets of `count` hue levels from the centre of a category."""
    return np.asarray((np.arange(count) - (count - 1) / 2) * (spread / max(count, 1)))


def marker(look: Look, *, line: Stroke = "", hollow: bool = False, **how: Any) -> Line2D:
    """Return a legend mark with the colour and marker of a `Look`."""
    mark = Line2D([], [], color=look.color, marker=look.marker, linestyle=line, **how)
    mark.set_markerfacecolor("white" if hollow else look.color)
    return mark


def intervals(
    ax: Axes, at: Floats, low: Floats, high: Floats, look: Look, *, upright: bool, width: float
) -> None:
    """Draw intervals as lines without caps; a row without both limits gets no line."""
    finite = ~(np.isnan(low) | np.isnan(high))
    if finite.any():
        draw = ax.vlines if upright else ax.hlines
        lines = draw(at[finite], low[finite], high[finite], color=look.color, linewidth=width)
        lines.set(gid="interval", zorder=2)


def points(
    ax: Axes,
    x: Any,
    y: Any,
    look: Look,
    label: object = "",
    *,
    line: Stroke = "",
    hollow: bool = False,
    **how: Any,
) -> None:
    """Draw points; join them if `line` is a line style, leave them unfilled if `hollow`.

    ``how`` has properties of the points; without a `gid`, they are estimates.
    """
    if not len(x):  # an empty artist that is not clipped has an infinite extent
        return
    look_of: dict[str, Any] = {"marker": look.marker, "color": look.color, "linestyle": line}
    look_of["markerfacecolor"] = "white" if hollow else look.color
    ax.plot(x, y, **{**look_of, "zorder": 3, "gid": "estimate", "label": plain(label), **how})


def level_marks(
    ax: Axes,
    at: Floats,
    of: Estimates,
    hues: Any,
    look_of: Mapping[Any, Look],
    names: Mapping[Any, object],
    *,
    line: Stroke = "",
    width: float = 1.1,
) -> list[Entry]:
    """Draw the points and vertical intervals of all levels of a hue; return the legend entries.

    `at`, `of` and `hues` have the positions, the estimates with their limits, and the number of the
    level of each row. `line` is the style of the line that joins the points of a level, and `width`
    the line width of the intervals. Levels that `names` lacks keep their names.
    """
    entries: list[Entry] = []
    for i, (level, look) in enumerate(look_of.items()):
        rows = hues == i
        value, low, high = (column[rows] for column in of)
        intervals(ax, at[rows], low, high, look, upright=True, width=width)
        points(ax, at[rows], value, look, level, line=line)
        entries.append((names.get(level, level), marker(look, line=line)))
    return entries


def reference(ax: Axes, at: float, *, upright: bool, dashed: bool = False) -> None:
    """Draw a reference line across the axes, vertical if `upright`, at the position `at`."""
    draw = ax.axvline if upright else ax.axhline
    color, stroke = (INK, DASH) if dashed else (LINE_GREY, "-")
    draw(at, color=color, linestyle=stroke, marker="", linewidth=0.8, zorder=1, gid="reference")


def dashed_mark() -> Line2D:
    """Return the legend mark of a dashed reference line."""
    return Line2D([], [], color=INK, linestyle=DASH, linewidth=0.8, marker="")


def limit_line(ax: Axes, at: float, what: str, *, upright: bool) -> Entry:
    """Draw a dashed line; return its legend entry, such as "limit (5 %)"."""
    reference(ax, at, upright=upright, dashed=True)
    return f"{what} ({number_text(at, percent=True, digits=3)} %)", dashed_mark()


def legend(ax: Axes, entries: Sequence[Entry]) -> None:
    """Add entries to the legend below all axes of the figure; equal texts are entered once."""
    if not entries:
        return
    fig = ax.figure.get_figure(root=True)
    if fig.get_layout_engine() is None:  # without a layout, the legend would cover the axes
        fig.set_layout_engine("constrained")
    names = level_names([label for label, _ in entries], width=40)
    texts = numbered([names[label] for label, _ in entries])
    marks: dict[str, Any] = {}
    for box in [box for box in fig.legends if box.get_gid() == "legend"]:
        earlier = [text.get_text() for text in box.get_texts()]
        marks |= dict(zip(earlier, box.legend_handles, strict=True))
        box.remove()
    marks |= dict(zip(texts, (mark for _, mark in entries), strict=True))
    ncols = legend_columns([*marks], fig.get_figwidth())
    box = fig.legend(marks.values(), marks.keys(), loc="outside lower center", ncols=ncols)
    box.set_gid("legend")
