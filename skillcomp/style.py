"""How figures look and how they are kept: palette, sizes, and ``save`` with the data behind them.

Colour never stands alone: a level of a hue has one colour and one marker, and the conditions of a
study keep theirs in every figure. ``save`` writes the figure together with the frames it was drawn
from, so that every number in print can be looked up.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from textwrap import shorten
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib import font_manager
from matplotlib.figure import Figure
from matplotlib.rcsetup import cycler

from skillcomp.errors import FrameError, SkillcompError, suggest
from skillcomp.io.files import replace_file

WIDTHS: Mapping[str, float] = {"column": 3.25, "text": 5.5, "page": 6.75}  # inches
LABEL_SIZE = 8.0  # points
TICK_SIZE = 7.0  # points
MAX_HUES = 6
GREY = "#767676"
INK = "#262626"


__all__ = ["figure", "save", "use"]


def __dir__() -> list[str]:
    return __all__


class Look(NamedTuple):
    """Colour and marker of one level of a hue; they are only ever used together."""

    color: str
    marker: str


# smallest distance 20.9 in the worst colour-vision case, contrast at least 3.9 on white
CONDITION_LOOKS: Mapping[str, Look] = {
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
# what the library's own values are called in tables, keys and texts; others lose their underscores
_CALLED = {
    "gold_only": "gold only",
    "rogan_gladen_pooled": "Rogan-Gladen, pooled",
    "rogan_gladen_by_arm": "Rogan-Gladen, by condition",
    "ppi": "prediction-powered (ppi)",
    "gwet_ac1": "Gwet's AC1",
    "cohen_kappa": "Cohen's kappa",
    "krippendorff_alpha": "Krippendorff's alpha",
}
_TOLD: WeakKeyDictionary[Any, tuple[str, str]] = WeakKeyDictionary()
_METHOD = 90  # characters of a method in a caption; the frame has it in full
_PACKAGES = ("skillcomp", "matplotlib", "numpy", "pandas")
# matplotlib types each parameter's name, which a table of them cannot follow
_RC: Any = {
    "font.family": "sans-serif",
    # the one family that matplotlib ships, so that a figure is the same on every machine
    "font.sans-serif": ["DejaVu Sans"],
    **dict.fromkeys(
        ("font.size", "axes.labelsize", "axes.titlesize", "figure.titlesize"), LABEL_SIZE
    ),
    **dict.fromkeys(
        ("xtick.labelsize", "ytick.labelsize", "legend.fontsize", "legend.title_fontsize"),
        TICK_SIZE,
    ),
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
    "svg.hashsalt": "skillcomp",
    "text.usetex": False,
}


def use() -> AbstractContextManager[Any]:
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
    restore = ExitStack()
    restore.callback(mpl.rcParams.update, {key: mpl.rcParams[key] for key in _RC})
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

    Where :func:`use` was not called, it is called: sizes are chosen for its style.

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
    if mpl.rcParams["svg.hashsalt"] != _RC["svg.hashsalt"]:  # use() was not called
        use()
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
    when no placebo is there. Levels that are no conditions take the categories in turn. More than
    six are refused: no reader tells seven colours apart.

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
    known = [name for name in names if name in CONDITION_LOOKS]
    if not known:
        return dict(zip(names, CATEGORIES, strict=False))
    taken = {CONDITION_LOOKS[str(name)].color for name in known}
    free = iter([look for look in _FURTHER if look.color not in taken] + [CATEGORIES[5]])
    return {name: CONDITION_LOOKS[str(name)] if name in known else next(free) for name in names}


@cache
def _glyphs() -> frozenset[int]:
    return frozenset(font_manager.get_font(font_manager.findfont("DejaVu Sans")).get_charmap())


def plain(value: Any, *, width: int | None = None) -> str:
    r"""Turn any value into text that matplotlib shows as it stands.

    Labels may come from a model's answer: dollar signs never start mathematics, line breaks and
    control characters become blanks, characters without a glyph become U+FFFD. What is longer than
    ``width`` is cut and marked by an ellipsis.

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


def quantity(value: Any, unit: str | None = None, *, signed: bool = False, digits: int = 1) -> str:
    """Return a number as people read it: 0.512 as 51.2 % or, as points, +51.2; unknown as n/a.

    Rates and points are shown times 100 with so many digits, counts as whole numbers, others with
    three significant digits, from 1,000 on all before the point; a minus is a true one, and zero
    never negative.

    >>> quantity(0.512, "rate"), quantity(-0.0714, "points", signed=True), quantity(232.0, "count")
    ('51.2 %', '−7.1', '232')
    """
    if value is None or pd.isna(value):
        return "n/a"
    number = float(value)
    if not np.isfinite(number):
        return "∞" if number > 0 else "−∞"
    sign = "+" if signed and number > 0 else ""
    if unit in ("rate", "points"):
        text = f"{100 * number:{sign}.{digits}f}"
    elif unit == "percentage points":
        text = f"{number:{sign}.{digits}f}"
    elif unit in ("count", "tokens"):
        half = abs(number) < 10 and number != round(number)  # such as a limit between two lengths
        text = f"{number:{sign}.{digits}f}" if half else f"{number:{sign},.0f}"
    elif abs(number) >= 1000:
        text = f"{number:{sign},.0f}"
    else:
        text = f"{number:{sign}.3g}"
    if not re.search(r"[1-9]", text):
        text = text.lstrip("+-")
    return text.replace("-", "\N{MINUS SIGN}") + (" %" if unit == "rate" else "")


def called(name: object) -> str:
    """Return a value as people call it: cohen_kappa as Cohen's kappa, false_pass as false pass."""
    text = " ".join(str(name).split())
    return _CALLED.get(text) or re.sub(r"(?<=[^\W_])_(?=[^\W_])", " ", text)


def interval(row: Mapping[str, Any] | pd.Series, *, digits: int = 1) -> str:
    """Return an estimate with its interval in brackets, by the row's unit: +51.2 [40.0, 62.4]."""
    unit = row.get("unit")
    unit = unit if isinstance(unit, str) else None
    signed = unit in ("points", "percentage points", "logits")
    how: Any = {"signed": signed, "digits": digits}
    limits = [quantity(row.get(name), unit, **how) for name in ("ci_low", "ci_high")]
    inside = ", ".join(limits).replace(" %", "")
    shown = quantity(row.get("estimate"), unit, **how)
    return shown if "n/a" in (shown, limits[0]) else f"{shown} [{inside}]"


def tell(ax: Any, what: str, numbers: str = "") -> None:
    """Say what axes show, without a full stop, for caption and alternative text.

    ``numbers`` is what is drawn, for readers who do not see it, where no estimates say so.
    """
    _TOLD[ax] = (what, numbers)


def describe(data: Mapping[str, pd.DataFrame], *, lead: str = "") -> str:
    """Say after a lead what a figure's frames hold: rows, n, clusters, level and method."""
    alike: dict[str, list[str]] = {}
    for name, frame in data.items():
        about: list[str] = []
        for column, noun in (("n", "n"), ("n_clusters", "clusters")):
            if column in frame.columns and "estimate" in frame.columns:
                found = pd.to_numeric(frame[column]).dropna()
                if len(found):
                    low, high = (f"{round(side):,}" for side in (found.min(), found.max()))
                    about.append(f"{noun} = {low}" + (f" to {high}" if low != high else ""))
        if "ci_level" in frame.columns:
            levels = pd.to_numeric(frame["ci_level"]).dropna().unique()
            about += [f"{', '.join(f'{100 * one:g} %' for one in levels)} intervals"] * bool(
                len(levels)
            )
        if "method" in frame.columns and "estimate" in frame.columns:
            methods = [str(one) for one in frame["method"].dropna().unique() if str(one).strip()]
            if len(methods) > 1:  # how exactly each does it, after its first comma, is in the frame
                methods = list(dict.fromkeys(one.partition(",")[0] for one in methods))
            more = f" and {len(methods) - 2} more" if len(methods) > 2 else ""
            short = [shorten(called(one), _METHOD, placeholder=" …") for one in methods[:2]]
            about += [f"by {'; '.join(short)}{more}"] * bool(methods)
        rows = f"{called(name)}: {len(frame):,} row{'s' * (len(frame) != 1)}"
        alike.setdefault(", ".join(about), []).append(rows)
    parts = [lead.strip()] if lead.strip() else []
    parts += [
        ", ".join([*rows, *([about] if about else [])]) + "." for about, rows in alike.items()
    ]
    return " ".join(parts)


def alt_text(fig: Figure, data: Mapping[str, pd.DataFrame]) -> str:
    """Say what a figure shows to a reader who does not see it: axes, key, and the first rows."""
    panels = _panels(fig)
    keys = [box for ax in panels if (box := ax.get_legend()) is not None] + list(fig.legends)
    entries = dict.fromkeys(text.get_text() for box in keys for text in box.get_texts())
    start = f"{len(panels)} panels" if len(panels) > 1 else "Figure"
    text = f"{start}: {_axes_text(fig)}."
    if entries:
        text += f" Key: {', '.join(entries)}."
    numbers = [_TOLD[ax][1] for ax in panels if ax in _TOLD and _TOLD[ax][1]]
    text += "".join(f" {one}." for one in numbers)
    for frame in data.values() if not numbers else ():
        if "estimate" in frame.columns and len(frame):
            rows = [(_row_names(row), interval(row)) for _, row in frame.head(12).iterrows()]
            if len({tuple(names) for names, _ in rows}) < len(rows):  # told apart further on
                more = frame[_telling(frame)].head(12).itertuples(index=False)
                rows = [([*names, *map(called, also)], told) for (names, told), also in zip(
                    rows, more, strict=True)]  # fmt: skip
            text += " " + "; ".join(f"{', '.join(names)} {told}".strip() for names, told in rows)
            text += f"; and {len(frame) - 12} more rows." if len(frame) > 12 else "."
            break
    return " ".join(text.replace(r"\$", "$").split())


def _panels(fig: Figure) -> list[Any]:
    return [ax for ax in fig.axes if ax.get_label() != "<colorbar>"]


def _what(fig: Figure) -> str:
    """Return what the panels of a figure show, in words where they are known."""
    panels = _panels(fig)
    told = [_TOLD[ax][0] for ax in panels if ax in _TOLD]
    if len(told) < len(panels) or not told:
        return _axes_text(fig)
    titles = list(dict.fromkeys(called(ax.get_title()) for ax in panels if ax.get_title()))
    if len(set(told)) == 1:
        return told[0] + (f" ({', '.join(titles)})" if titles else "")
    if len(told) == 2:
        return (
            f"Left: {told[0][:1].lower()}{told[0][1:]}; right: {told[1][:1].lower()}{told[1][1:]}"
        )
    return "; ".join(dict.fromkeys(told))


def _axes_text(fig: Figure) -> str:
    """Return what the axes of a figure are labelled with, each label once."""
    told = []
    for ax in fig.axes:
        labels = [text for text in (ax.get_title(), ax.get_xlabel(), ax.get_ylabel()) if text]
        told += [" by ".join(called(text) for text in labels)] if labels else []
    return "; ".join(dict.fromkeys(told)) or "Axes without labels"


def _row_names(row: pd.Series) -> list[str]:
    before = list(row.index).index("estimate")
    return [called(v) for v in row.iloc[:before] if isinstance(v, str) and v != row.get("unit")]


def _telling(frame: pd.DataFrame) -> list[str]:
    """Return the text columns after 'estimate' (at most 40 characters) whose values differ."""
    behind = list(frame.columns)[list(frame.columns).index("estimate") + 1 :]
    return [
        name
        for name in behind
        if name not in ("method", "note", "unit")
        and frame[name].map(lambda value: isinstance(value, str) and len(value) <= 40).all()
        and frame[name].nunique() > 1
    ]


def save(
    fig: Figure,
    path: str | Path,
    *,
    data: Mapping[str, pd.DataFrame],
    caption: str = "",
    fingerprint: str | None = None,
    dpi: float = 300.0,
) -> list[Path]:
    """Write a figure with the data behind it: pdf, png, svg, csv, caption, and how it was made.

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
    caption : str
        What the figure shows, in a sentence; what ``describe`` reads from the frames follows.
    fingerprint : str, optional
        Fingerprint of the store that the frames come from.
    dpi : float
        Resolution of the png, dots per inch.

    Returns
    -------
    list of pathlib.Path
        ``<stem>.pdf``, ``<stem>.png``, ``<stem>-<frame>.csv`` for each frame, ``<stem>.svg``,
        ``<stem>.txt`` (the caption) and ``<stem>.json``.

    Raises
    ------
    FrameError
        When no frame is given, a value is not a DataFrame, or a name is not fit for a file.
    StoreError
        When the disk refuses a file; the one that stood there is as it was.

    Notes
    -----
    A csv holds the frame as given, in its order, floats with all digits; the index is written
    only where it is not the plain row number. The json holds name, rows, columns and sha256 of
    each csv, the size of the figure, where two panels side by side may be cut apart (a share of
    its width, else null), caption, text for readers who do not see it, package versions and the
    fingerprint.
    """
    _check_frames(data)
    target = Path(path)
    stem = re.sub(r"\.(pdf|png)$", "", target.name)
    target.parent.mkdir(parents=True, exist_ok=True)
    pictures = [target.parent / f"{stem}.{kind}" for kind in ("pdf", "png", "svg")]
    # each format has its own name for what would make two runs differ
    dates: Any = ({"CreationDate": None}, {"Software": None}, {"Date": None})
    with use(), _settled(fig):
        for picture, metadata in zip(pictures, dates, strict=True):
            drawn = BytesIO()  # on a full disk matplotlib fails in a way of its own
            fig.savefig(drawn, format=picture.suffix[1:], dpi=dpi, metadata=metadata)
            replace_file(picture, drawn.getvalue())
        cut = _between_panels(fig)
    tables, frames = [], {}
    for name, frame in data.items():
        plain_index = isinstance(frame.index, pd.RangeIndex) and frame.index.name is None
        text = frame.to_csv(index=not plain_index, lineterminator="\n").encode()
        tables.append(target.parent / f"{stem}-{name}.csv")
        replace_file(tables[-1], text)
        frames[name] = {
            "file": tables[-1].name,
            "rows": len(frame),
            "columns": [str(column) for column in frame.columns],
            "sha256": sha256(text).hexdigest(),
        }
    words = describe(data, lead=caption or f"{_what(fig)}.")
    provenance = {
        "figure": stem,
        "caption": words,
        "alt": alt_text(fig, data),
        "cut": cut,
        "size_inches": [round(float(side), 4) for side in fig.get_size_inches()],
        "frames": frames,
        "versions": {name: version(name) for name in _PACKAGES},
        "store": fingerprint,
    }
    note, beside = (target.parent / f"{stem}.{kind}" for kind in ("json", "txt"))
    replace_file(note, json.dumps(provenance, indent=2, ensure_ascii=False).encode() + b"\n")
    replace_file(beside, words.encode() + b"\n")
    pdf, png, svg = pictures
    return [pdf, png, *tables, svg, beside, note]


def _between_panels(fig: Figure) -> float | None:
    """Return where two panels side by side may be cut apart, None where nothing may be."""
    sides: dict[int, list[Any]] = {}
    for ax in fig.axes:
        spec = ax.get_subplotspec()
        if spec is not None and spec.get_gridspec().get_geometry() == (1, 2):
            sides.setdefault(spec.colspan.start, []).append(ax.get_tightbbox())
    if set(sides) != {0, 1} or len(fig.axes) != 2 or fig.legends:
        return None
    left, right = max(box.x1 for box in sides[0]), min(box.x0 for box in sides[1])
    return round(float((left + right) / 2 / fig.bbox.width), 4) if left < right else None


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
