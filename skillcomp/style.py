"""Style of figures: palette and sizes, and ``save``, which writes a figure with its data.

Colour is never used alone: every level of a hue has a colour and a marker, and the conditions of a
study look the same in all figures. ``save`` writes the figure together with the frames it was drawn
from, so that every printed number can be looked up.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache
from hashlib import sha256
from html import escape
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple
from warnings import warn
from weakref import WeakKeyDictionary, WeakSet

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib import font_manager
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties

from skillcomp.errors import FrameError, SkillcompError, require_known, require_type
from skillcomp.io.files import replace_file
from skillcomp.io.latex_text import latex_figure
from skillcomp.io.spreadsheet_cells import as_csv

WIDTHS: Mapping[str, float] = {"column": 3.25, "text": 5.5, "page": 6.75}  # Widths in inches.
# typed as Any, because matplotlib's stubs give each key of rcParams its own type
_STYLE: Any = mpl.rc_params_from_file(
    Path(__file__).with_name("skillcomp.mplstyle"), use_default_template=False
)
LABEL_SIZE = _STYLE["axes.labelsize"]  # Size of labels in points.
TICK_SIZE = _STYLE["xtick.labelsize"]  # Size of tick labels in points.
MAX_HUES = 6
GREY = "#767676"
INK = "#262626"


__all__ = ["figure", "save", "use"]

__dir__ = __all__.copy  # so that dir() lists the public names


class Look(NamedTuple):
    """Colour and marker of one level of a hue, always used together."""

    color: str
    marker: str


# The colour distance between any two of these looks is at least 20.9, even with the worst
# colour-vision deficiency. The contrast of each with white is at least 3.9.
CONDITION_LOOKS: Mapping[str, Look] = {
    "baseline": Look(GREY, "o"),
    "skill": Look("#0072B2", "s"),
    "placebo": Look("#D55E00", "^"),
}
# Looks of verdicts on skills: gains are blue, losses are vermilion, and the others are grey.
VERDICT_LOOKS: Mapping[str, Look] = {
    "teaching": Look("#0072B2", "^"),
    "helps": Look("#0072B2", "$+$"),
    "redundant": Look(GREY, "o"),
    "ineffective": Look(GREY, "$=$"),
    "hurts": Look("#D55E00", "$-$"),
    "harmful": Look("#D55E00", "v"),
    "undetermined": Look(GREY, "$?$"),
}
VERDICT_SIGNS = dict(zip(VERDICT_LOOKS, "▲+●=−▼?", strict=True))
_FURTHER = (Look("#D55E00", "^"), Look("#964a8b", "D"), Look("#f89c20", "v"), Look("#e42536", "P"))
CATEGORIES = tuple(Look(**look) for look in _STYLE["axes.prop_cycle"])
RATES = "cividis"
DIFFERENCES = "RdBu"

_LAYOUTS = 5  # number of passes after which a layout hardly changes
# amount of an attempt -> its name
AMOUNTS = {
    "cost_usd": "cost",
    "seconds": "time",
    "input_tokens": "input tokens",
    "output_tokens": "output tokens",
    "n_words": "words",
    "n_commands": "commands",
}
_UNITS = {"cost_usd": ", dollars", "seconds": ", seconds"}
# Value -> its name in tables, legends and texts. If a value is not listed, its underscores become
# spaces.
_CALLED = {
    **{
        f"delta_{name}": f"change of {text}{_UNITS.get(name, '')}" for name, text in AMOUNTS.items()
    },
    **{f"ratio_{name}": f"mean ratio of {text}" for name, text in AMOUNTS.items()},
    **{f"total_ratio_{name}": f"ratio of total {text}" for name, text in AMOUNTS.items()},
    "cost_usd_per_pass": "dollars a pass",
    "cost_usd_per_added_pass": "dollars a further pass",
    "minutes_per_pass": "minutes a pass",
    "minutes_per_added_pass": "minutes a further pass",
    "tokens_per_pass": "tokens a pass",
    "tokens_per_added_pass": "tokens a further pass",
    "percentage points": "points",
    "gold_only": "gold only",
    "rogan_gladen_pooled": "Rogan-Gladen, pooled",
    "rogan_gladen_by_arm": "Rogan-Gladen, by condition",
    "ppi": "prediction-powered (ppi)",
    "gwet_ac1": "Gwet's AC1",
    "cohen_kappa": "Cohen's kappa",
    "krippendorff_alpha": "Krippendorff's alpha",
    "rate_passed": "pass rate",
    "rate_share_passed": "share of checks passed",
    "delta_passed": "change in pass rate",
    "delta_share_passed": "change in share of checks passed",
    "agreement_change": "agreement with gold",
    "pass_rate_change": "checks passed",
    "sensitivity_change": "passes among gold passes",
    "specificity_change": "fails among gold fails",
    "gap": "far minus near",
    "near_delta": "change on near cases",
    "far_delta": "change on far cases",
    "near_far_failure": "near-far failure",
}
# measures of which n is a number of cases
_OF_CASES = r"(delta|rate)_(passed|share_passed|score)|gap|near_delta|far_delta|.+_per_.*pass"
# figures that `grow` may make higher: they have a single axes and the default height
_GROWING: WeakSet[Figure] = WeakSet()
_WARNED: set[tuple[str, ...]] = set()  # font families for which a warning was already given
_AXES_TEXTS: WeakKeyDictionary[Any, tuple[str, str]] = WeakKeyDictionary()
_TITLES: WeakKeyDictionary[Any, str] = WeakKeyDictionary()  # artist -> its title in the svg
_PACKAGES = ("skillcomp", "matplotlib", "numpy", "pandas")
# This font comes with matplotlib, so figures are the same on every machine.
_FONT = "DejaVu Sans"
# Fonts with Chinese, Japanese, Korean and other scripts. If `_FONT` lacks a character, matplotlib
# takes it from the first of these fonts that is installed and has it.
_WIDE_FONTS = (
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans SC", "Source Han Sans SC"),
    *("WenQuanYi Micro Hei", "WenQuanYi Zen Hei", "PingFang SC", "Hiragino Sans", "Heiti TC"),
    *("Microsoft YaHei", "SimHei", "Yu Gothic", "Malgun Gothic", "Arial Unicode MS", "Noto Sans"),
)


def use() -> AbstractContextManager[Any]:
    """Set matplotlib to the style of the project's figures.

    Labels are 8 pt and ticks 7 pt at the printed size, fonts are embedded as TrueType (type 42),
    the layout is constrained, and colour and marker cycle together.

    Returns
    -------
    context manager
        The style applies from the call on. After ``with use():`` the previous settings are
        restored.

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
    settings: Any = mpl.rcParams  # typed as Any for the same reason as _STYLE
    before = {key: value for key, value in settings.copy().items() if key != "backend"}
    families, restore = _font_families(), ExitStack()
    restore.callback(settings.update, before)
    # without the default, an earlier style would leave colours, grids or spines behind
    plt.style.use(["default", _STYLE])
    settings["font.family"] = families
    return restore


def _font_families() -> list[str]:
    """Return `_FONT`, then the user's fonts and those of `_WIDE_FONTS` that are installed."""
    own = [name for family in mpl.rcParams["font.family"] for name in _fonts_of(family)]
    installed = set(font_manager.get_font_names())
    others = [name for name in [*own, *_WIDE_FONTS] if name in installed]
    return list(dict.fromkeys([_FONT, *others]))


def _fonts_of(family: str) -> list[str]:
    """Return the user's fonts for a generic family such as serif; return a font name unchanged."""
    # typed as Any for the same reason as _STYLE
    settings: Any = mpl.rcParams
    defaults: Any = mpl.rcParamsDefault
    key = f"font.{family}"
    if key not in settings:
        return [family]
    return [] if settings[key] == defaults[key] else list(settings[key])


def figure(
    width: str = "text",
    *,
    nrows: int = 1,
    ncols: int = 1,
    height: float | None = None,
    sharex: bool = False,
    sharey: bool = False,
) -> tuple[Figure, Any]:
    """Make a figure of a printed width, with axes.

    Calls :func:`use` unless it was called before, because the sizes are made for that style.

    Parameters
    ----------
    width : {"column", "text", "page"}
        Printed width: 3.25, 5.5 or 6.75 inches.
    nrows, ncols : int
        Grid of axes.
    height : float, optional
        Height in inches. By default each axes is about three quarters as high as wide, but at
        least 2.6 inches high, and the figure is at most 9 inches high (a printed page). If the
        figure has only one axes and the default height, a forest plot with many rows makes it
        higher.
    sharex, sharey : bool
        Whether all axes share their limits.

    Returns
    -------
    fig : matplotlib.figure.Figure
    axes : matplotlib.axes.Axes or array of Axes
        As from ``matplotlib.pyplot.subplots``: a single Axes, or an array of them.

    Raises
    ------
    SkillcompError
        If the width is unknown or the height is not positive.
    """
    require_known("style.figure: no width", width, WIDTHS, SkillcompError)
    automatic = height is None
    if height is None:
        height = min(max(0.72 * WIDTHS[width] / max(ncols, 1), 2.6) * nrows, 9.0)
    if not height > 0:
        raise SkillcompError(f"style.figure: height is {height}; allowed: above 0 (inches).")
    # use() sets svg.hashsalt, so a different value shows that use() has not been called
    if mpl.rcParams["svg.hashsalt"] != _STYLE["svg.hashsalt"]:
        use()
    size = (WIDTHS[width], height)
    fig, axes = plt.subplots(
        nrows, ncols, figsize=size, sharex=sharex, sharey=sharey, layout="constrained"
    )
    if automatic and fig.axes == [axes]:
        _GROWING.add(fig)
    return fig, axes


def grow(fig: Figure, height: float) -> None:
    """Make a figure at least ``height`` inches high, if it has one axes and the default height."""
    if fig in _GROWING and fig.get_figheight() < height:
        fig.set_figheight(height)


def looks(levels: Iterable[object]) -> dict[Any, Look]:
    """Assign a colour and a marker to each level of a hue.

    Baseline is always a grey circle, skill a blue square and placebo a vermilion triangle. If a hue
    has one of these conditions, its other levels get further looks, among them the triangle if
    there is no placebo. A hue without conditions gets `CATEGORIES` in order. If all levels are
    verdicts on skills, they get the looks of `VERDICT_LOOKS`. Otherwise, more than six levels raise
    FrameError, because seven colours cannot be distinguished.

    >>> looks(["baseline", "skill"])["skill"]
    Look(color='#0072B2', marker='s')
    """
    names = list(dict.fromkeys(levels))
    if names and set(names) <= set(VERDICT_LOOKS):
        return {name: VERDICT_LOOKS[str(name)] for name in names}
    if len(names) > MAX_HUES:
        examples = ", ".join(repr(str(name)) for name in names[:MAX_HUES])
        raise FrameError(
            f"hue: found {len(names)} levels ({examples}, ...); allowed: at most {MAX_HUES}. "
            "Facet instead (skillcomp.plots.facet), or put the column on an axis."
        )
    conditions = [name for name in names if name in CONDITION_LOOKS]
    if not conditions:
        return dict(zip(names, CATEGORIES, strict=False))
    taken = {CONDITION_LOOKS[str(name)].color for name in conditions}
    free = iter([look for look in _FURTHER if look.color not in taken] + [CATEGORIES[5]])
    return {
        name: CONDITION_LOOKS[str(name)] if name in conditions else next(free) for name in names
    }


@cache
def _glyph_codes(families: tuple[str, ...]) -> frozenset[int]:
    """Return the code points that matplotlib can draw with these font families."""
    fonts = {font_manager.findfont(FontProperties(family=[name])) for name in families}
    return frozenset(code for font in fonts for code in font_manager.get_font(font).get_charmap())


def _with_glyphs_only(text: str) -> str:
    """Replace the characters that no chosen font has; warn once per ``rcParams["font.family"]``."""
    families = tuple(mpl.rcParams["font.family"])
    codes = _glyph_codes(families)
    missing = next((character for character in text if ord(character) not in codes), None)
    if missing is None:
        return text
    if families not in _WARNED:
        _WARNED.add(families)
        warn(_missing_glyph_text(missing), UserWarning, stacklevel=3)
    return "".join(c if ord(c) in codes else "\N{REPLACEMENT CHARACTER}" for c in text)


def _missing_glyph_text(character: str) -> str:
    """Return a warning that names an installed font with the character, or a font to install."""
    fonts = [font for font in font_manager.fontManager.ttflist if "Last Resort" not in font.name]
    having = (
        f.name for f in fonts if ord(character) in font_manager.get_font(f.fname).get_charmap()
    )
    font = next(having, "")
    first = "" if font else "install a font that has it, then "
    return (
        f"style: no font of rcParams['font.family'] has {character!r} (U+{ord(character):04X}); "
        f"labels show U+FFFD in its place. Remedy: {first}set rcParams['font.family'] = "
        f"['{_FONT}', '{font or _WIDE_FONTS[0]}'] after sc.style.use()."
    )


def plain(value: Any, *, width: int | None = None, ends: bool = False) -> str:
    r"""Turn any value into text that matplotlib shows literally.

    Labels may come from a model's answer. Therefore dollar signs are escaped, line breaks and
    control characters become blanks, and characters that no font of ``rcParams["font.family"]`` has
    become U+FFFD, with a warning. Text longer than ``width`` ends in an ellipsis or, with ``ends``,
    keeps its first and last characters.

    >>> plain("costs $5\nor $6", width=14)
    'costs \\$5 or \\$6'
    """
    if value is None or (pd.api.types.is_scalar(value) and pd.isna(value)):
        return "missing"
    text = "".join(c if c.isprintable() else " " for c in str(value))
    text = " ".join(_with_glyphs_only(text).split())
    if width is not None and len(text) > width:
        last = width // 3 if ends else 0
        text = text[: max(width - 1 - last, 1)].rstrip() + "…" + text[len(text) - last :].lstrip()
    return text.replace("$", r"\$")


def quantity(value: Any, unit: str | None = None, *, signed: bool = False, digits: int = 1) -> str:
    """Format a number by its unit: 0.512 is 51.2 % as a rate and 51.2 in points; missing is n/a.

    Rates and points are multiplied by 100 and get `digits` decimals. Coefficients, such as kappa,
    have two decimals and no 0 before the point. Counts have no decimals, except fractions below 10
    (limits of an interval). Other numbers have three significant digits, or no decimals from 1,000
    on. The minus is typographic, and zero has no sign.

    >>> quantity(0.512, "rate"), quantity(-0.0714, "points", signed=True), quantity(232.0, "count")
    ('51.2 %', '−7.1', '232')
    """
    if value is None or pd.isna(value):
        return "n/a"
    number = float(value)
    if not np.isfinite(number):
        return "∞" if number > 0 else "−∞"
    # the limit of an interval of counts can be a fraction; a small limit is shown with decimals
    half = abs(number) < 10 and number != round(number)
    form = ",.0f" if abs(number) >= 1000 else ".3g"
    if unit in ("rate", "points", "percentage points"):
        form = f".{digits}f"
        number *= 1 if unit == "percentage points" else 100
    elif unit == "coefficient":
        form = ".2f"
    elif unit in ("count", "tokens"):
        form = f".{digits}f" if half else ",.0f"
    text = f"{number:{'+' if signed and number > 0 else ''}{form}}"
    if unit == "coefficient":
        text = re.sub(r"^([+-]?)0\.", r"\1.", text)
    if not re.search(r"[1-9]", text):
        text = text.lstrip("+-")
    return text.replace("-", "\N{MINUS SIGN}") + (" %" if unit == "rate" else "")


def called(name: object) -> str:
    """Return the readable name of a value, such as Cohen's kappa for cohen_kappa."""
    text = " ".join(str(name).split())
    return _CALLED.get(text) or re.sub(r"(?<=[^\W_])_(?=[^\W_])", " ", text)


def interval(row: Mapping[str, Any] | pd.Series) -> str:
    """Format an estimate and its interval by the unit of the row, such as +51.2 [40.0, 62.4]."""
    unit = row.get("unit") if isinstance(row.get("unit"), str) else None
    signed = unit in ("points", "percentage points", "logits")
    estimate = quantity(row.get("estimate"), unit, signed=signed)
    low, high = (quantity(row.get(end), unit) for end in ("ci_low", "ci_high"))
    inside = f"{low}, {high}".replace(" %", "")
    return estimate if "n/a" in (estimate, low) else f"{estimate} [{inside}]"


def describe_axes(ax: Any, what: str, numbers: str = "") -> None:
    """Register a description of axes for the caption and the alternative text.

    ``what`` states what the axes show, without a full stop; ``numbers`` describes the drawn values
    if the frames have no estimates.
    """
    _AXES_TEXTS[ax] = (what, numbers)


def name_artist(artist: Any, kind: str, title: str) -> None:
    """Give an artist a title; in the svg, pointing at the artist shows the title."""
    artist.set_gid(kind)
    _TITLES[artist] = title


def _titled_svg(fig: Figure, stem: str) -> bytes:
    """Return the figure as svg, in which each artist with a title has an id and this title."""
    titles: dict[str, str] = {}
    gids = {}
    for artist in fig.findobj(lambda part: part in _TITLES):
        name = f"{stem}-{artist.get_gid()}-{len(titles)}"
        gids[artist], titles[name] = artist.get_gid(), _TITLES[artist]
        artist.set_gid(name)
    drawn = BytesIO()
    try:
        fig.savefig(drawn, format="svg", metadata={"Date": None})
    finally:
        for artist, gid in gids.items():
            artist.set_gid(gid)
    text = drawn.getvalue().decode()
    pattern = re.compile(f'<g id="({re.escape(stem)}-[a-z]+-[0-9]+)">')
    titled = pattern.sub(lambda found: f"{found[0]}<title>{escape(titles[found[1]])}</title>", text)
    return titled.encode()


def describe(data: Mapping[str, pd.DataFrame], *, lead: str = "") -> str:
    """Return a caption: `lead`, then the range of n and the interval levels of each frame."""
    facts = dict.fromkeys(fact for frame in data.values() for fact in _frame_facts(frame))
    parts = [lead.strip()] if lead.strip() else []
    return " ".join([*parts, f"{', '.join(facts)}."] if facts else parts)


def counts_cases(frame: pd.DataFrame) -> bool:
    """Return whether n is a number of cases in all rows, which depends on their measures."""
    measures = frame.get("measure", pd.Series("")).astype("str")
    return bool(measures.str.fullmatch(_OF_CASES).all())


def _frame_facts(frame: pd.DataFrame) -> list[str]:
    """List the range of n and the interval levels of a frame, if it has these columns."""
    facts = []
    # in a calibration, n is the length of the n-grams, and n_texts is the number of texts
    units = "n_texts" if "n_texts" in frame.columns else "n"
    if "estimate" in frame.columns and units in frame.columns and frame[units].notna().any():
        counts = pd.to_numeric(frame[units])
        estimated = counts[frame["estimate"].notna()]
        counts = estimated if estimated.notna().any() else counts
        low, high = (f"{round(side):,}" for side in (counts.min(), counts.max()))
        count = low + (f" to {high}" if low != high else "")
        facts.append(f"{count} cases" if counts_cases(frame) else f"n = {count}")
    levels = pd.to_numeric(frame.get("ci_level", pd.Series(dtype=float))).dropna().unique()
    if len(levels):
        facts.append(f"{', '.join(f'{100 * level:g} %' for level in levels)} intervals")
    return facts


def alt_text(fig: Figure, data: Mapping[str, pd.DataFrame]) -> str:
    """Write the alternative text of a figure: axes, legend, and the first rows."""
    panels = _panels_of(fig)
    keys = [box for ax in panels if (box := ax.get_legend()) is not None] + list(fig.legends)
    entries = dict.fromkeys(text.get_text() for box in keys for text in box.get_texts())
    count = sum(ax.axison for ax in panels)
    start = f"{count} panels" if count > 1 else "Figure"
    text = f"{start}: {_axes_text(fig)}."
    if entries:
        text += f" Key: {', '.join(entries)}."
    described = [_AXES_TEXTS[ax] for ax in panels if ax in _AXES_TEXTS and _AXES_TEXTS[ax][1]]
    text += "".join(f" {numbers}." for _, numbers in described)
    if not any(what for what, _ in described):
        frames = [f.dropna(subset="estimate") for f in data.values() if "estimate" in f.columns]
        text += "".join(map(_estimates_text, [f for f in frames if len(f)][:1]))
    return " ".join(text.replace(r"\$", "$").split())


def _estimates_text(frame: pd.DataFrame) -> str:
    """List the first twelve estimates of a frame with the names of their rows."""
    texts = frame.drop(columns=["unit", "method", "note"], errors="ignore")
    place = list(texts.columns).index("estimate")
    # behind the estimate are details, and columns that distinguish rows
    names = [c for at, c in enumerate(texts) if at < place or texts[c].nunique() > 1]
    # the place of an estimate on an axis: a length in a calibration, a bin of distances
    at = "n" if "n_texts" in frame.columns else "bin"
    rows = []
    for (_, row), cells in zip(frame.head(12).iterrows(), texts[names].to_numpy(), strict=False):
        words = [called(cell) for cell in cells if isinstance(cell, str) and len(cell) <= 40]
        if pd.notna(row.get(at)):
            words.append(f"{at} = {row[at]:g}")
        rows.append(f"{', '.join(dict.fromkeys(words))} {interval(row)}".strip())
    more = f"; and {len(frame) - 12} more rows." if len(frame) > 12 else "."
    return " " + "; ".join(rows) + more


def _panels_of(fig: Figure) -> list[Any]:
    return [ax for ax in fig.axes if ax.get_label() != "<colorbar>"]


def _subject_of(fig: Figure) -> str:
    """Return what a figure shows: the registered descriptions or, without them, the axis labels."""
    panels = _panels_of(fig)
    descriptions = [_AXES_TEXTS[ax][0] for ax in panels if ax in _AXES_TEXTS]
    if len(descriptions) < len(panels) or not descriptions:
        return _axes_text(fig)
    descriptions = [text for text in descriptions if text]
    titles = dict.fromkeys(called(ax.get_title()) for ax in panels if ax.get_title())
    return "; ".join(dict.fromkeys(descriptions)) + (f" ({', '.join(titles)})" if titles else "")


def _axes_text(fig: Figure) -> str:
    """Join the titles and axis labels of all axes; axes with equal texts count once."""
    parts = []
    for ax in fig.axes:
        labels = [text for text in (ax.get_title(), ax.get_xlabel(), ax.get_ylabel()) if text]
        parts += [" by ".join(called(text) for text in labels)] if labels else []
    return "; ".join(dict.fromkeys(parts)) or "Axes without labels"


def save(
    fig: Figure,
    path: str | Path,
    *,
    data: Mapping[str, pd.DataFrame],
    caption: str = "",
    fingerprint: str | None = None,
) -> list[Path]:
    """Write a figure with its data: pdf, png, svg, csv, caption, tex and provenance.

    Two runs on the same data and package versions write the same bytes: no file contains a time,
    host or path.

    Parameters
    ----------
    fig : matplotlib.figure.Figure
        The finished figure, written at its size.
    path : str or Path
        Folder and stem, such as ``report/fig2``. A final ``.pdf`` or ``.png`` is dropped, and a
        missing folder is made.
    data : mapping of str to pandas.DataFrame
        Every frame that was drawn, under a short name (letters, digits, ``_`` and ``-``).
    caption : str
        One sentence on what the figure shows; a description of the frames is appended.
    fingerprint : str, optional
        Fingerprint of the store from which the frames come.

    Returns
    -------
    list of pathlib.Path
        ``<stem>.pdf``, ``<stem>.png``, ``<stem>-<frame>.csv`` for each frame, ``<stem>.svg``,
        ``<stem>.tex`` (the figure for a paper), ``<stem>.txt`` (the caption) and ``<stem>.json``.

    Raises
    ------
    FrameError
        If there is no frame, a value is not a DataFrame, or a name cannot be part of a file name.
    StoreError
        If a file cannot be written; an existing file is then unchanged.

    Notes
    -----
    A csv contains the whole frame in its order, and floats with all digits; the index is written
    only if it is not the row number. The json contains name, rows, columns and sha256 of each csv,
    the size of the figure, caption, alternative text, package versions and the fingerprint.
    """
    _check_frames(data)
    target = Path(path)
    stem = re.sub(r"\.(pdf|png)$", "", target.name)
    target.parent.mkdir(parents=True, exist_ok=True)
    # drawn in memory, because matplotlib leaves half a file on a full disk
    pdf, png = BytesIO(), BytesIO()
    with use(), _layout_at_rest(fig):
        # dates and program names would differ between runs
        fig.savefig(pdf, format="pdf", metadata={"CreationDate": None})
        fig.savefig(png, format="png", metadata={"Software": None})
        svg = _titled_svg(fig, stem)
    files, frames = {".pdf": pdf.getvalue(), ".png": png.getvalue()}, {}
    for name, frame in data.items():
        plain_index = isinstance(frame.index, pd.RangeIndex) and frame.index.name is None
        table = as_csv(frame, index=not plain_index)
        files[f"-{name}.csv"] = table
        frames[name] = {
            "file": f"{stem}-{name}.csv",
            "rows": len(frame),
            "columns": [str(column) for column in frame.columns],
            "sha256": sha256(table).hexdigest(),
        }
    words = describe(data, lead=caption or f"{_subject_of(fig)}.")
    provenance = {
        "figure": stem,
        "caption": words,
        "alt": alt_text(fig, data),
        "size_inches": [round(float(side), 4) for side in fig.get_size_inches()],
        "frames": frames,
        "versions": {name: version(name) for name in _PACKAGES},
        "store": fingerprint,
    }
    files |= {
        ".svg": svg,
        ".tex": latex_figure(stem, words, float(fig.get_size_inches()[0])).encode(),
        ".txt": f"{words}\n".encode(),
        ".json": (json.dumps(provenance, indent=2, ensure_ascii=False) + "\n").encode(),
    }
    paths = [target.parent / f"{stem}{end}" for end in files]
    for path, content in zip(paths, files.values(), strict=True):
        replace_file(path, content)
    return paths


@contextmanager
def _layout_at_rest(fig: Figure) -> Iterator[None]:
    """Compute the layout from its start, then fix it.

    A constrained layout changes slightly each time. If it were not fixed, the pdf would differ
    from the png, and one run from the next.
    """
    engine = fig.get_layout_engine()
    if engine is None:
        yield
        return
    for ax in fig.axes:
        if (spec := ax.get_subplotspec()) is not None:
            ax.set_subplotspec(spec)
    for _ in range(_LAYOUTS):
        engine.execute(fig)
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
        require_type(f"style.save: data['{name}']", frame, pd.DataFrame, "of pandas", FrameError)
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", str(name)):
            problem = f"'{name}' is no name for a file; allowed: letters, digits, _ and -."
            raise FrameError(f"style.save: {problem}")
