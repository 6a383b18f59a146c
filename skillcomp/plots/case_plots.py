"""Plots of single cases: strips of deltas below their intervals, and maps of pass rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.transforms import blended_transform_factory

from skillcomp.errors import FrameError
from skillcomp.frames.check import as_list
from skillcomp.plots import _shared as draw
from skillcomp.plots._shared import describe_axes, level_names, panel_size, require
from skillcomp.plots.forest import draw_estimates
from skillcomp.style import GREY, INK, RATES, Look, name_artist

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
_MOST_NAMED = 2000  # With more cases than this, the marks of cases have no titles in the svg.
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
    drawn. A strip shows the cases as recorded; a corrected estimate may differ from their mean.
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
    named = len(table) <= _MOST_NAMED
    rows = dict(zip(estimates[keys].itertuples(index=False, name=None), forest.at, strict=True))
    inch = abs(float(np.ptp(ax.get_ylim()))) / max(panel_size(ax)[1] - 0.85, 0.5)
    low, high = ax.get_xlim()
    reach = max(float(table["delta"].abs().max() or 0) if len(table) else 0, abs(low), abs(high))
    ax.set_xlim(max(-1.08, min(low, -reach)), min(1.08, max(high, reach)))
    for key, part in table.groupby(keys, sort=False, observed=True):
        if key in rows:
            _draw_strip(ax, part, rows[key] + 0.08 * inch, inch, named=named)
    changes = [change for change in _CHANGES if change in set(table["change"])]
    marks = [(f"case {change}", _mark_of_case(change)) for change in changes]
    draw.legend(ax, [*forest.entries, *marks])
    describe_axes(ax, f"{forest.text}, above the deltas of its cases")
    return ax


def case_map(
    frame: pd.DataFrame,
    *,
    y: str | Sequence[str] = "skill",
    ax: Axes | None = None,
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
    bar.outline.set_linewidth(0.4)
    draw.scale(bar.ax.yaxis, percent=True)
    n_cases = len(table[[*names, "case_id"]].drop_duplicates())
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


def _draw_strip(ax: Axes, part: pd.DataFrame, top: float, inch: float, *, named: bool) -> None:
    """Draw the cases of a condition below `top`; `inch` is an inch in units of the y axis."""
    order = {change: i for i, change in enumerate(_CHANGES)}
    ranked = part.assign(_rank=part["change"].map(order)).sort_values(["delta", "_rank"])
    left, right = ax.get_xlim()
    # a typographic point (1/72 inch) in units of the x axis
    point = (right - left) / (max(panel_size(ax)[0] - 1.6, 1.0) * 72)
    counts = ranked.groupby("delta")["delta"].transform("size").to_numpy()
    number = ranked.groupby("delta").cumcount().to_numpy()
    values = np.unique(ranked["delta"])
    between = float(np.diff(values).min()) if len(values) > 1 else right - left
    columns = -(-int(counts.max()) // _STACK)
    size = max(min(_SIZE, 0.85 * between / point / columns - 0.5), 0.6)
    step = (size + 0.6) * point
    wide = -(-counts // _STACK)
    x = ranked["delta"].to_numpy() + (number // _STACK - (wide - 1) / 2) * step
    y = top + (number % _STACK) * (size + 0.6) / 72 * inch
    ranked = ranked.reset_index(drop=True)
    for _, some in ranked.groupby(ranked.index if named else "change"):
        mark = _mark_of_case(some["change"].iloc[0], size)
        mark.set_data(x[some.index], y[some.index])
        mark.set(clip_on=False, zorder=2.5, gid="case")
        ax.add_line(mark)
        if named:
            row = some.iloc[0]
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
