"""Small multiples: the same plot for each level of a column, with one key for all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from skillcomp.errors import FrameError
from skillcomp.plots._draw import keys, levels, require, shown, where_equal
from skillcomp.style import figure

_MAX_PANELS = 24


def facet(
    frame: pd.DataFrame,
    plot: Callable[..., Axes],
    *,
    by: str,
    ncols: int = 3,
    width: str = "page",
    height: float | None = None,
    sharex: bool = True,
    sharey: bool = True,
    title: str = "{}",
    **options: Any,
) -> tuple[Figure, Any]:
    """Draw the same plot for each level of a column, with one key below all of them.

    Parameters
    ----------
    frame : pandas.DataFrame
        What `plot` reads, and `by`.
    plot : callable
        A function of this package.
    by : str
        Column of the panels; its levels are their titles.
    ncols : int, default 3
        Panels in a row.
    width, height
        As for `skillcomp.style.figure`.
    sharex, sharey : bool, default True
        Whether the panels share their limits.
    title : str, default "{}"
        Title of a panel, the braces standing for its level: ``"gold {}"``.
    **options
        Handed to `plot` (its keyword arguments except ``ax``).

    Returns
    -------
    fig : matplotlib.figure.Figure
    axes : numpy.ndarray of Axes
        One per level, in order, one-dimensional.

    Raises
    ------
    FrameError
        When `by` is not there, has no level, or has more than 24.

    Notes
    -----
    Text columns get the levels of the whole frame first, so that a level keeps its colour and its
    place in every panel.
    """
    require(frame, [by], "plots.facet")
    panels = levels(frame[by])
    if not 1 <= len(panels) <= _MAX_PANELS:
        raise FrameError(
            f"plots.facet: column '{by}' has {len(panels)} levels; allowed: 1 to {_MAX_PANELS}."
        )
    columns = min(ncols, len(panels))
    rows = -(-len(panels) // columns)
    fig, grid = figure(
        width, nrows=rows, ncols=columns, height=height, sharex=sharex, sharey=sharey
    )
    flat = np.atleast_1d(grid).ravel()
    whole, of_row = _levelled(frame, by), keys(frame[by])
    for ax, panel in zip(flat, panels, strict=False):
        plot(whole[where_equal(of_row, panel)], ax=ax, **options)
        ax.set_title(title.replace("{}", shown(panel, width=40)))
        ax.label_outer()
    for ax in flat[len(panels) :]:
        ax.remove()
    _one_key(fig, flat[: len(panels)])
    return fig, flat[: len(panels)]


def _levelled(frame: pd.DataFrame, by: str) -> pd.DataFrame:
    whole = frame.copy()
    for name in whole.columns:
        if name not in (by, "note") and isinstance(whole[name].dtype, pd.StringDtype):
            order = [level for level in levels(whole[name]) if level is not None]
            whole[name] = pd.Categorical(whole[name], categories=order)
    return whole


def _one_key(fig: Figure, panels: Any) -> None:
    """Replace the keys of the panels by one of the figure."""
    entries: dict[str, Any] = {}
    for ax in panels:
        box = ax.get_legend()
        if box is None:
            continue
        for text, handle in zip(box.get_texts(), box.legend_handles, strict=True):
            entries.setdefault(text.get_text(), handle)
        box.remove()
    if entries:
        texts = list(entries)
        box = fig.legend(
            list(entries.values()), texts, loc="outside lower center", ncols=min(len(texts), 5)
        )
        for drawn, text in zip(box.get_texts(), texts, strict=True):
            drawn.set_text(text)
