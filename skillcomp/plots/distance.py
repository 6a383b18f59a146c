"""Near and far transfer side by side, with the gap between them."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from skillcomp.errors import FrameError
from skillcomp.plots._draw import (
    RULE,
    Floats,
    axes,
    hue_looks,
    intervals,
    key,
    keys,
    label_y,
    level_text,
    marker,
    number,
    numbers,
    offsets,
    points,
    reason,
    require,
    room,
    scale,
    where_equal,
)
from skillcomp.style import INK, Look

_PLACES = {
    "near": "Near",
    "far": "Far",
    "near_delta": "Near\n(delta)",
    "far_delta": "Far\n(delta)",
    "gap": "Gap\n(far − near)",
}
_RATES = ("near", "far")


def transfer(
    frame: pd.DataFrame,
    *,
    hue: str = "condition",
    percent: bool = True,
    label: str | None = None,
    legend: str | bool = "below",
    ax: Axes | None = None,
) -> Axes:
    """Draw near and far transfer side by side in each condition, and the gap between them.

    Parameters
    ----------
    frame : pandas.DataFrame
        One row per place and `hue` with ``estimate``, ``ci_low`` and ``ci_high``. The place is
        ``transfer`` (``near``, ``far``, or ``gap``), or, where that is missing, ``measure``
        (``near_delta``, ``far_delta``, ``gap``): the frames of ``sc.transfer.rates`` and
        ``sc.transfer.gap``, or both one below the other. Where there, ``scope`` keeps rows apart
        (at most two: the first, and rows without one, filled; the second hollow), ``n`` stands
        under its place and ``note`` says why a row is not known.
    hue : str, default "condition"
        Column told apart by colour and marker, at most six levels.
    percent : bool, default True
        Whether the estimates are proportions.
    label : str, optional
        Label of the y axis.
    legend : {"below", "right", False}
        Where the key stands.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    FrameError
        When a column is not there, a place has another name, or two rows stand in one place: for
        several skills, facet.

    See Also
    --------
    skillcomp.transfer.gap, skillcomp.transfer.rates

    Notes
    -----
    A thin line joins near and far of one condition. A row that is not known is a cross at the foot
    of its place, its note in the key. Differences stand right of a vertical line,
    with a line at 0. The gap is the frame's own row, never a subtraction made here.
    """
    where = "plots.transfer"
    require(frame, [hue, "estimate", "ci_low", "ci_high"], where)
    of_row = _place_of(frame, where)
    hues, look_of, order = hue_looks(frame, hue)
    scopes, of_scope = _scopes(frame, where)
    _refuse_overlaps(of_row, hues, of_scope, hue, where)
    places = [place for place in _PLACES if place in of_row]
    lanes = [(level, scope) for level in order for scope in scopes]
    used = set(zip(hues, of_scope, strict=True))
    lanes = [lane for lane in lanes if lane in used]
    ax = axes(ax, width="column" if len(places) < 4 else "text", height=2.8)
    step = dict(zip(lanes, offsets(len(lanes), spread=0.5), strict=True))
    lane_of = list(zip(hues, of_scope, strict=True))
    at = np.array([places.index(p) + step[s] for p, s in zip(of_row, lane_of, strict=True)])
    for lane in lanes:
        rows = where_equal(lane_of, lane)
        hollow = lane[1] != scopes[0]
        _lane(
            ax,
            frame[rows],
            [of_row[i] for i in np.flatnonzero(rows)],
            at[rows],
            look_of[lane[0]],
            lane[0],
            hollow,
            where,
        )
    known = numbers(frame, "estimate", where)
    unknown = _unknown(ax, frame, at, known, [look_of[level] for level in hues])
    _place_axes(ax, frame, places, of_row, percent, where)
    kinds = "rates" if set(places) <= set(_RATES) else ""
    kinds = kinds or ("both" if set(places) & set(_RATES) else "differences")
    label_y(ax, label if label is not None else _label(kinds, percent) + level_text(frame))
    entries: list[tuple[object, Line2D]] = [
        (level, marker(look_of[level], line="-")) for level in order
    ]
    if len(scopes) > 1:
        ink = Look(INK, "o")
        entries += [(scope, marker(ink, hollow=scope != scopes[0])) for scope in scopes]
    key(ax, [*entries, *unknown], legend)
    return ax


def _place_of(frame: pd.DataFrame, where: str) -> list[Any]:
    nothing = [None] * len(frame)
    distance = keys(frame["transfer"]) if "transfer" in frame.columns else nothing
    measure = keys(frame["measure"]) if "measure" in frame.columns else nothing
    of_row = [d if d is not None else m for d, m in zip(distance, measure, strict=True)]
    wrong = [place for place in dict.fromkeys(of_row) if place not in _PLACES]
    if wrong:
        found = ", ".join("missing" if p is None else repr(str(p)) for p in wrong[:5])
        raise FrameError(
            f"{where}: 'transfer' (or 'measure' where that is missing) holds {found}; allowed: "
            f"{', '.join(_PLACES)}."
        )
    return of_row


def _scopes(frame: pd.DataFrame, where: str) -> tuple[list[Any], list[Any]]:
    """Return the scopes and that of each row; a row without one goes with the first."""
    of_row = keys(frame["scope"]) if "scope" in frame.columns else [None] * len(frame)
    found = [s for s in dict.fromkeys(of_row) if s is not None] or [None]
    if len(found) > 2:
        raise FrameError(
            f"{where}: column 'scope' has {len(found)} levels; allowed: at most 2. Facet by scope "
            "instead (skillcomp.plots.facet)."
        )
    return found, [found[0] if scope is None else scope for scope in of_row]


def _refuse_overlaps(
    of_row: list[Any], hues: list[Any], of_scope: list[Any], hue: str, where: str
) -> None:
    spots = list(zip(of_row, hues, of_scope, strict=True))
    if len(set(spots)) < len(spots):
        raise FrameError(
            f"{where}: two rows share the place and {hue}; select one, or facet by the column "
            "that tells them apart (skillcomp.plots.facet)."
        )


def _lane(
    ax: Axes,
    rows: pd.DataFrame,
    of_row: list[Any],
    at: Floats,
    look: Look,
    label: object,
    hollow: bool,
    where: str,
) -> None:
    value, low, high = (numbers(rows, c, where) for c in ("estimate", "ci_low", "ci_high"))
    intervals(ax, at, low, high, look, upright=True)
    bare = np.isnan(low) | np.isnan(high)
    points(ax, at, value, look, label, bare=bare | hollow)
    for pair in (("near", "far"), ("near_delta", "far_delta")):
        spots = [of_row.index(place) for place in pair if place in of_row]
        if len(spots) == 2:
            ax.plot(
                at[spots],
                value[spots],
                color=look.color,
                marker="",
                linewidth=0.6,
                alpha=0.7,
                zorder=1.5,
                gid="pair",
            )


def _place_axes(
    ax: Axes,
    frame: pd.DataFrame,
    places: list[str],
    of_row: list[Any],
    percent: bool,
    where: str,
) -> None:
    counts = numbers(frame, "n", where)
    texts = []
    wide = max(int(room(ax, 0.66) / max(len(places), 1)), 7)
    for place in places:
        here = counts[where_equal(of_row, place) & np.isfinite(counts)]
        several = ", ".join(number(n, percent=False) for n in dict.fromkeys(here))
        count = textwrap.fill(f"n = {several}", wide) if several else ""
        texts.append("\n".join(part for part in (_PLACES[place], count) if part))
    ax.set_xlim(-0.5, max(len(places), 1) - 0.5)
    ax.set_xticks(range(len(places)), texts)
    rates = sum(place in _RATES for place in places)
    if rates < len(places):
        ax.hlines(
            0, rates - 0.5, len(places) - 0.5, color=RULE, linewidth=0.8, zorder=1, gid="reference"
        )
    borders = {rates, len(places) - ("gap" in places)} - {0, len(places)}
    for edge in borders:
        ax.axvline(edge - 0.5, color=RULE, marker="", linewidth=0.6, zorder=0, gid="separator")
    scale(ax.yaxis, percent=percent, signed=rates == 0)


def _unknown(
    ax: Axes, frame: pd.DataFrame, at: Floats, value: Floats, look: list[Look]
) -> list[tuple[object, Line2D]]:
    """Mark the rows that are not known at the foot of their place; return why, for the key."""
    notes = keys(frame["note"]) if "note" in frame.columns else [None] * len(frame)
    reasons = []
    for place, known, own, note in zip(at, np.isfinite(value), look, notes, strict=True):
        if not known:
            reasons.append(reason(note))
            ax.plot(
                [place],
                [0.03],
                color=own.color,
                marker="x",
                linestyle="",
                zorder=3,
                transform=ax.get_xaxis_transform(),
                gid="unknown",
            )
    mark = Line2D([], [], color=INK, marker="x", linestyle="")
    space = max(room(ax) // 2 - 6, 22)  # leaves room for a second column of the key
    whys = (textwrap.shorten(why, space, placeholder="…") for why in reasons)
    return [(why, mark) for why in dict.fromkeys(whys)]


def _label(kinds: str, percent: bool) -> str:
    unit, points_ = (" (%)", " (percentage points)") if percent else ("", "")
    if kinds == "rates":
        return "Rate" + unit
    if kinds == "differences":
        return "Difference" + points_
    return "Rate (%) or difference (points)" if percent else "Rate or difference"
