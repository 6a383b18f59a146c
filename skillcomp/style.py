"""How figures look and how they are kept: palette, sizes, and ``save`` with the data behind them.

Colour never stands alone: a level of a hue has one colour and one marker, and the conditions of a
study keep theirs in every figure. ``save`` writes the figure together with the frames it was drawn
from, so that every number in print can be looked up.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from cycler import cycler
from matplotlib import font_manager
from matplotlib.figure import Figure

from skillcomp.errors import FrameError, SkillcompError, suggest

WIDTHS: Mapping[str, float] = {"column": 3.25, "text": 5.5, "page": 6.75}  # inches
LABEL_SIZE = 8.0  # points
TICK_SIZE = 7.0  # points
MAX_HUES = 6
GREY = "#767676"
INK = "#262626"


class Look(NamedTuple):
    """Colour and marker of one level of a hue; they are only ever used together."""

    color: str
    marker: str


# smallest distance 20.9 in the worst colour-vision case, contrast at least 3.9 on white
CONDITIONS: Mapping[str, Look] = {
    "baseline": Look(GREY, "o"),
    "skill": Look("#0072B2", "s"),
    "placebo": Look("#D55E00", "^"),
}
_FURTHER = (Look("#D55E00", "^"), Look("#964a8b", "D"), Look("#f89c20", "v"), Look("#e42536", "P"))
# Petroff 2021 (arXiv 2107.02270), the set of six
CATEGORIES: tuple[Look, ...] = (
    Look("#5790fc", "o"),
    Look("#f89c20", "s"),
    Look("#e42536", "^"),
    Look("#964a8b", "D"),
    Look("#9c9ca1", "v"),
    Look("#7a21dd", "P"),
)
RATES = "cividis"
DIFFERENCES = "RdBu"

_MAX_DRAWS = 30
_PACKAGES = ("skillcomp", "matplotlib", "numpy", "pandas")
# matplotlib types each parameter's name, which a table of them cannot follow
_RC: Any = {
    "font.family": "sans-serif",
    # the one family that matplotlib ships, so that a figure is the same on every machine
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": LABEL_SIZE,
    "axes.labelsize": LABEL_SIZE,
    "axes.titlesize": LABEL_SIZE,
    "figure.titlesize": LABEL_SIZE,
    "xtick.labelsize": TICK_SIZE,
    "ytick.labelsize": TICK_SIZE,
    "legend.fontsize": TICK_SIZE,
    "legend.title_fontsize": TICK_SIZE,
    "legend.frameon": False,
    "legend.handlelength": 1.6,
    "legend.columnspacing": 1.4,
    "axes.prop_cycle": cycler(color=[look.color for look in CATEGORIES])
    + cycler(marker=[look.marker for look in CATEGORIES]),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "lines.linewidth": 1.2,
    "lines.markersize": 4.0,
    "hatch.linewidth": 0.5,
    "image.cmap": RATES,
    "figure.dpi": 150.0,
    "figure.constrained_layout.use": True,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "savefig.bbox": None,
    "savefig.dpi": 300.0,
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
    "pdf.compression": 6,
    "text.usetex": False,
}


class _Restore:
    """What ``use`` hands back: leaving the ``with`` block puts the old settings back."""

    def __init__(self, before: Any) -> None:
        self._before = before

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        mpl.rcParams.update(self._before)


def use() -> _Restore:
    """Set matplotlib to the style of the project's figures.

    Labels are 8 pt and ticks 7 pt at the printed size, fonts are embedded as TrueType (type 42),
    the layout is constrained, and colour and marker cycle together.

    Returns
    -------
    context manager
        The style holds from the call on. As ``with use():`` the settings from before come back
        at the end of the block.

    Examples
    --------
    >>> import matplotlib as mpl
    >>> before = mpl.rcParams["pdf.fonttype"]
    >>> with use():
    ...     mpl.rcParams["pdf.fonttype"], mpl.rcParams["xtick.labelsize"]
    (42, 7.0)
    >>> mpl.rcParams["pdf.fonttype"] == before
    True
    """
    restore = _Restore({key: mpl.rcParams[key] for key in _RC})
    mpl.rcParams.update(_RC)
    return restore


def figure(
    width: str = "text",
    *,
    nrows: int = 1,
    ncols: int = 1,
    height: float | None = None,
    sharex: bool = False,
    sharey: bool = False,
) -> tuple[Figure, Any]:
    """Make a figure of a printed width with its axes.

    Parameters
    ----------
    width : {"column", "text", "page"}
        3.25, 5.5 or 6.75 inches.
    nrows, ncols : int
        Grid of axes.
    height : float, optional
        Inches; by default each axes is about three quarters as high as wide, but at least 2.6
        inches, and the figure no higher than a printed page (9 inches).
    sharex, sharey : bool
        Whether all axes share their limits.

    Returns
    -------
    fig : matplotlib.figure.Figure
    axes : matplotlib.axes.Axes or array of Axes
        As ``matplotlib.pyplot.subplots``: one Axes alone, a row of them as a 1-d array.

    Raises
    ------
    SkillcompError
        When the width has no such name or the height is not positive.
    """
    if width not in WIDTHS:
        raise SkillcompError(
            f"style.figure: no width '{width}'; allowed: {', '.join(WIDTHS)}."
            + suggest(str(width), WIDTHS)
        )
    if height is None:
        height = min(max(0.72 * WIDTHS[width] / max(ncols, 1), 2.6) * nrows, 9.0)
    if not height > 0:
        raise SkillcompError(f"style.figure: height is {height}; allowed: above 0 (inches).")
    return plt.subplots(
        nrows,
        ncols,
        figsize=(WIDTHS[width], height),
        sharex=sharex,
        sharey=sharey,
        layout="constrained",
    )


def looks(levels: Iterable[object]) -> dict[Any, Look]:
    """Give each level of a hue its colour and marker.

    Conditions keep theirs whatever else is drawn: baseline grey circle, skill blue square, placebo
    vermilion triangle; another condition beside baseline or skill takes the vermilion triangle
    when no placebo is there. Levels that are no conditions take the categories in turn.

    Parameters
    ----------
    levels : iterable
        Distinct levels in the order in which they are to be drawn.

    Returns
    -------
    dict
        Level to ``Look(color, marker)``, in the same order.

    Raises
    ------
    FrameError
        With more than six levels: no reader tells seven colours apart, so facet instead.

    Examples
    --------
    >>> looks(["baseline", "skill"])["skill"]
    Look(color='#0072B2', marker='s')
    """
    names = list(dict.fromkeys(levels))
    if len(names) > MAX_HUES:
        shown = ", ".join(repr(str(name)) for name in names[:MAX_HUES])
        raise FrameError(
            f"hue: found {len(names)} levels ({shown}, ...); allowed: at most {MAX_HUES}. "
            "Facet instead (skillcomp.plots.facet), or put the column on an axis."
        )
    known = [name for name in names if name in CONDITIONS]
    if not known:
        return dict(zip(names, CATEGORIES, strict=False))
    taken = {CONDITIONS[str(name)].color for name in known}
    free = iter([look for look in _FURTHER if look.color not in taken] + [CATEGORIES[5]])
    return {name: CONDITIONS[str(name)] if name in known else next(free) for name in names}


@cache
def _glyphs() -> frozenset[int]:
    return frozenset(font_manager.get_font(font_manager.findfont("DejaVu Sans")).get_charmap())


def plain(value: Any, *, width: int | None = None) -> str:
    r"""Turn any value into text that matplotlib shows as it stands.

    Labels may come from a model's answer: dollar signs never start mathematics, line breaks and
    control characters become blanks, characters without a glyph become U+FFFD.

    Parameters
    ----------
    value : object
        Missing values become ``"missing"``.
    width : int, optional
        Longest text in characters; the rest is cut and marked by an ellipsis.

    Returns
    -------
    str
        One line of text with ``$`` escaped.

    Examples
    --------
    >>> plain("costs $5\nor $6", width=14)
    'costs \\$5 or \\$6'
    """
    if value is None or (pd.api.types.is_scalar(value) and pd.isna(value)):
        return "missing"
    shown = "".join(c if c.isprintable() else " " for c in str(value))
    shown = "".join(c if ord(c) in _glyphs() else "\N{REPLACEMENT CHARACTER}" for c in shown)
    shown = " ".join(shown.split())
    if width is not None and len(shown) > width:
        shown = shown[: max(width - 1, 1)].rstrip() + "…"
    return shown.replace("$", r"\$")


def save(
    fig: Figure,
    path: str | Path,
    *,
    data: Mapping[str, pd.DataFrame],
    fingerprint: str | None = None,
    dpi: float = 300.0,
) -> tuple[Path, ...]:
    """Write a figure with the data behind it: pdf, png, one csv per frame, and how it was made.

    Two runs on the same data and package versions write the same bytes: no file carries a time, a
    host or a path.

    Parameters
    ----------
    fig : matplotlib.figure.Figure
        The finished figure; it is written at its own size.
    path : str or Path
        Folder and stem (``report/fig2``); a closing ``.pdf`` or ``.png`` is dropped, and the
        folder is made when it is not there.
    data : mapping of str to pandas.DataFrame
        Every frame that was drawn, under a short name (letters, digits, ``_`` and ``-``).
    fingerprint : str, optional
        Fingerprint of the store that the frames come from.
    dpi : float
        Resolution of the png, dots per inch.

    Returns
    -------
    tuple of Path
        ``<stem>.pdf``, ``<stem>.png``, ``<stem>-<frame>.csv`` for each frame, ``<stem>.json``.

    Raises
    ------
    FrameError
        When no frame is given, a value is not a DataFrame, or a name is not fit for a file.

    Notes
    -----
    A csv holds the frame as given, in its order, floats with all digits; the index is written
    only where it is not the plain row number. The json holds name, rows, columns and sha256 of
    each csv, the size of the figure, package versions and the fingerprint.
    """
    _check_frames(data)
    target = Path(path)
    stem = re.sub(r"\.(pdf|png)$", "", target.name)
    target.parent.mkdir(parents=True, exist_ok=True)
    pdf, png = (target.parent / f"{stem}.{kind}" for kind in ("pdf", "png"))
    with use(), _settled(fig):
        fig.savefig(pdf, metadata={"CreationDate": None})
        fig.savefig(png, dpi=dpi, metadata={"Software": None})
    tables, frames = [], {}
    for name, frame in data.items():
        plain_index = isinstance(frame.index, pd.RangeIndex) and frame.index.name is None
        text = frame.to_csv(index=not plain_index, lineterminator="\n").encode()
        tables.append(target.parent / f"{stem}-{name}.csv")
        tables[-1].write_bytes(text)
        frames[name] = {
            "file": tables[-1].name,
            "rows": len(frame),
            "columns": [str(column) for column in frame.columns],
            "sha256": sha256(text).hexdigest(),
        }
    provenance = {
        "figure": stem,
        "size_inches": [round(float(side), 4) for side in fig.get_size_inches()],
        "frames": frames,
        "versions": {name: version(name) for name in _PACKAGES},
        "store": fingerprint,
    }
    note = target.parent / f"{stem}.json"
    note.write_bytes(json.dumps(provenance, indent=2, ensure_ascii=False).encode() + b"\n")
    return (pdf, png, *tables, note)


@contextmanager
def _settled(fig: Figure) -> Iterator[None]:
    """Bring the layout to rest and hold it.

    A constrained layout moves a little at every draw, so that the same figure saved twice, or as
    pdf and as png, would differ.
    """
    engine = fig.get_layout_engine()
    if engine is None:
        yield
        return
    for ax in fig.axes:
        if (spec := ax.get_subplotspec()) is not None:
            ax.set_subplotspec(spec)
    before = np.full(4 * len(fig.axes), np.nan)
    for _ in range(_MAX_DRAWS):
        fig.draw_without_rendering()
        now = np.array([ax.get_position().bounds for ax in fig.axes]).ravel()
        if np.allclose(before, now, rtol=0, atol=1e-9):
            break
        before = now
    fig.set_layout_engine("none")
    try:
        yield
    finally:
        fig.set_layout_engine(engine)


def _check_frames(data: Mapping[str, pd.DataFrame]) -> None:
    if not isinstance(data, Mapping) or not data:
        raise FrameError(
            "style.save: no frames given; allowed: data={name: frame} with every frame that the "
            "figure was drawn from."
        )
    for name, frame in data.items():
        if not isinstance(frame, pd.DataFrame):
            raise FrameError(
                f"style.save: data['{name}'] is a {type(frame).__name__}; allowed: a DataFrame."
            )
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", str(name)):
            raise FrameError(
                f"style.save: '{name}' is no name for a file; allowed: letters, digits, _ and -."
            )
