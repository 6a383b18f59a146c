"""Tables for readers: the same table in a notebook, as Markdown and as LaTeX."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from string import ascii_lowercase
from typing import Any

import numpy as np
import pandas as pd

from skillcomp.errors import FrameError, extra_imports
from skillcomp.frames.estimates import UNITS, require_columns
from skillcomp.io.files import as_path
from skillcomp.io.latex_text import escape_latex, latex_label
from skillcomp.style import called, counts_cases, interval, quantity

MOST_ROWS = 30  # number of rows that a table shows if it links to a file with all rows
_ESTIMATE = ("estimate", "ci_low", "ci_high")
# These columns are on the scale of the estimate. Those in _UNSIGNED never show a plus sign.
_UNSIGNED = ("se", "margin", "detectable")
_ONE_SCALE = (*_ESTIMATE, *_UNSIGNED, "delta", "planted", "worst_low", "worst_high")
# columns of rates
_RATES = (
    r"(^|_)(rate|share|prevalence|coverage|sensitivity|specificity|limit|cut|power)($|_| )"
    r"|^(reference_low|ci_level)$"
)
_OF_METHOD = r", c = [\d.]+"  # a detail of a method that the column of the frame keeps
_NOTES = ("method", "note")
# Units that need no words: a percent sign shows a rate, and the others are plain numbers.
_PLAIN = {"rate", "count", "coefficient", "statistic", None}
# pattern of a formatted quantity, with or without its interval
_NUMBER = r"n/a|[+−<>]?[\d.][\d,.]*( %)?( \[.*\])?"
# These columns move to the caption if all rows have the same value.
_ABOUT = ("measure", "unit", "ci_level", "value", "effect", "cluster", "reference", "margin")
_HEADS = {
    "n": "n",
    "n_clusters": "Clusters",
    "p_value": "p",
    "p_adjusted": "p (adjusted)",
    "ci_low": "From",
    "ci_high": "To",
    "comprehension_dimension": "Dimension",
    "ci_level": "Level",
    "cost_usd": "Cost (US$)",
    "lam": "Lambda",
    "n_for_half_width_20": "Needed for ±20 points",
    "n_for_half_width_10": "Needed for ±10 points",
}
# details that a table shows only if `columns=` names them
_DETAILS = (
    *("se", "df", "n_clusters", "prevalence", "gold_drawn", "overturned", "shown"),
    *("assume_missing", "why", "reference_low"),
)
_DETAIL_ENDS = ("_uncorrected", "worst_low", "worst_high", "n_attempts", "n_attempts_reference")
# columns that are hidden if all their values are 0
_LOST = ("n_dropped", "n_missing", "n_missing_reference", "n_failed")
_COMMON = "all rows: "


@dataclass(frozen=True)
class Table:
    """A table for readers; a notebook shows it as HTML.

    Attributes
    ----------
    cells : pandas.DataFrame
        Cell texts; the column names are the heads.
    about : str
        Caption: what all rows have in common.
    notes : tuple of str
        Notes below the table; rows refer to them by letter.
    numeric : tuple of bool
        Whether each column has numbers, which are aligned right.
    frame : pandas.DataFrame
        The frame, with all digits.
    csv : str
        File with all rows, or empty. If set, a notebook shows the first 30 rows and a link to it.
    """

    cells: pd.DataFrame
    about: str
    notes: tuple[str, ...]
    numeric: tuple[bool, ...]
    frame: pd.DataFrame = field(repr=False)
    csv: str = field(default="", repr=False)

    @property
    def lettered(self) -> list[tuple[str, str]]:
        """Letter and text of each note; a note that applies to all rows has an empty letter."""
        return [
            ("" if n.startswith(_COMMON) else _letters_of(i), n) for i, n in enumerate(self.notes)
        ]

    @property
    def _lines(self) -> list[Any]:
        """The heads, then the cells of each row."""
        return [self.cells.columns, *self.cells.itertuples(index=False, name=None)]

    def linked(self, csv: str | PathLike[str]) -> Table:
        """Write the frame to a file and link to it, if the table has more than 30 rows."""
        if len(self.cells) <= MOST_ROWS:
            return self
        path = as_path(csv, "table: csv", FrameError)
        path.parent.mkdir(parents=True, exist_ok=True)
        self.frame.to_csv(path, index=self.frame.index.names != [None])
        return replace(self, csv=path.as_posix())

    def html(self, *, most: int | None = None) -> str:
        """Return the table as escaped HTML.

        With `most`, the notes are folded. The rows after the first `most` rows are folded, too, if
        there are at least three such rows.
        """
        rows = self._lines[1:]
        shown = rows[:MOST_ROWS] if self.csv else rows
        first = len(shown) if most is None or len(shown) <= most + 2 else most
        from jinja2 import Environment, PackageLoader  # only HTML needs it

        templates = Environment(
            loader=PackageLoader("skillcomp"), autoescape=True, trim_blocks=True, lstrip_blocks=True
        )
        return templates.get_template("table.html").render(
            table=self, rows=shown, first=first, folded=most is not None
        )

    def markdown(self) -> str:
        """Return the table as Markdown."""
        head, *body = [f"| {' | '.join(map(_escape_markdown, row))} |" for row in self._lines]
        rule = f"| {' | '.join('---' + ':' * right for right in self.numeric)} |"
        about = [_escape_markdown(self.about), ""] if self.about else []
        lines = [*about, head, rule, *body]
        lines += [""] if self.notes else []
        lines += [f"{a}: {_escape_markdown(n)}  ".removeprefix(": ") for a, n in self.lettered]
        return "\n".join(lines).rstrip() + "\n"

    def latex(self, *, caption: str = "", label: str = "") -> str:
        """Return the table as LaTeX for the booktabs package.

        With a `caption` or a `label`, the result is a table environment with the label
        ``tab:<label>``.
        """
        align = "".join("lr"[right] for right in self.numeric)
        lines = [" & ".join(map(escape_latex, row)) + r" \\" for row in self._lines]
        body = [rf"\begin{{tabular}}{{{align}}}", r"\toprule", lines[0], r"\midrule", *lines[1:]]
        body += [r"\bottomrule", r"\end{tabular}"]
        notes = [rf"\par {escape_latex(f'{a}: {n}'.removeprefix(': '))}" for a, n in self.lettered]
        if not (caption or label):
            head = [escape_latex(self.about) + r"\par"] if self.about else []
            return "\n".join([*head, *body, *notes]) + "\n"
        head = [r"\begin{table}[tbp]", r"\centering"]
        text = " ".join(escape_latex(part) for part in (caption, self.about) if part)
        head += [rf"\caption{{{text}}}"] if text else []
        head += [rf"\label{{{latex_label('tab', label)}}}"] if label else []
        notes = [r"\par\footnotesize", *notes] if notes else []
        return "\n".join([*head, *body, *notes, r"\end{table}"]) + "\n"

    _repr_html_, _repr_latex_ = html, latex
    __str__ = _repr_markdown_ = markdown


def table(frame: pd.DataFrame, *, columns: Sequence[str] | None = None) -> Table:
    """Format a frame for readers: words, percentages, counts, p-values, and full notes.

    Parameters
    ----------
    frame : pandas.DataFrame
        An estimates frame, or any other. Estimate and limits become one column, in the ``unit`` of
        the row (rates in percent, points times 100). Values shared by all rows move to the
        caption. Methods and notes are listed once each below the table.
    columns : sequence of str, optional
        The columns to show, in this order. By default, a table of estimates shows the columns that
        identify a row, the estimate with its interval, n, p-values and verdicts, and the numbers of
        missing attempts if there are any; other tables show all columns that are not empty.

    Returns
    -------
    Table
        A notebook shows it; ``html()``, ``markdown()`` and ``latex()`` return its text.

    Raises
    ------
    FrameError
        If a column is missing.

    Examples
    --------
    >>> import pandas as pd
    >>> delta = pd.DataFrame({"skill": ["a", "b"], "measure": "delta_passed", "unit": "points",
    ...     "estimate": [0.5, -0.071], "ci_low": [0.3, -0.35], "ci_high": [0.7, 0.2], "n": 14.0,
    ...     "p_value": [0.0002, 0.64], "note": ["", "few cases"]})
    >>> print(table(delta))
    Change in pass rate; in points.
    <BLANKLINE>
    | Skill | Estimate [interval] | Cases | p | Notes |
    | --- | ---: | ---: | ---: | --- |
    | a | +50.0 [30.0, 70.0] | 14 | < .001 |  |
    | b | −7.1 [−35.0, 20.0] | 14 | .640 | a |
    <BLANKLINE>
    a: few cases
    <BLANKLINE>
    """
    if not isinstance(frame, pd.DataFrame):
        raise FrameError(f"table: expected a DataFrame, found {type(frame).__name__}.")
    flat = _with_plain_columns(frame)
    if "unit" not in flat.columns and {"measure", "estimate"} <= set(flat.columns):
        flat.insert(list(flat.columns).index("measure") + 1, "unit", flat["measure"].map(UNITS))
        frame = flat
    spread, units = _spread_rates(frame), _units_of_rows(flat)
    if columns is not None:
        require_columns(flat, columns, "table")
        flat = flat[list(columns)]
    elif set(_ESTIMATE) <= set(flat.columns):
        flat = flat.drop(columns=_detail_columns(flat))
    about, hidden = _common_facts(flat)
    if frame.columns.names != [None]:  # a pivot keeps every level, even if all cells are missing
        hidden = [name for name in hidden if not flat[name].isna().all()]
    # the columns that have limits, such as the estimate, with the two columns of their limits
    limits = {name: (f"{name}_low", f"{name}_high") for name in flat.columns}
    limits["estimate"] = ("ci_low", "ci_high")
    shown = set(flat.columns) if set(_ESTIMATE) <= set(flat.columns) else set()
    limits = {name: ends for name, ends in limits.items() if set(ends) <= shown}
    apart = {*hidden, *_NOTES, *(end for ends in limits.values() for end in ends)}
    formatted = []
    for name in [name for name in flat.columns if name not in apart]:
        if name in limits:
            # a distance is no difference in points, and its axis goes from 0 to 1
            unit_of_row = [None] * len(flat) if name == "distance" else units
            rows = zip(flat[name], *(flat[end] for end in limits[name]), unit_of_row, strict=True)
            texts = [interval(dict(zip((*_ESTIMATE, "unit"), row, strict=True))) for row in rows]
            formatted.append((f"{_head_text(name)} [interval]", texts, True))
            continue
        unit_of_row = spread.get(name) or (units if name in _ONE_SCALE else [None] * len(flat))
        texts = [_cell_text(name, *cell) for cell in zip(flat[name], unit_of_row, strict=True)]
        numeric = pd.api.types.is_numeric_dtype(flat[name])
        numeric = numeric or all(re.fullmatch(_NUMBER, text) for text in texts)
        head = "Cases" if name == "n" and counts_cases(frame) else _head_text(name)
        formatted.append((head, texts, numeric))
    letters, notes = _lettered_notes(flat)
    if any(letters):
        formatted.append(("Notes", letters, False))
    cells = pd.DataFrame({at: texts for at, (_, texts, _) in enumerate(formatted)})
    cells = cells.set_axis([head for head, _, _ in formatted], axis="columns")
    return Table(cells, about, notes, tuple(right for _, _, right in formatted), frame)


def _detail_columns(frame: pd.DataFrame) -> list[str]:
    """Return the columns that a table of estimates shows only if `columns=` names them."""
    texts = [name for name in frame.columns if isinstance(name, str)]
    details = [name for name in texts if name in _DETAILS or name.endswith(_DETAIL_ENDS)]
    none = [n for n in texts if n in _LOST and pd.to_numeric(frame[n]).fillna(0).eq(0).all()]
    return [*details, *none]


def _with_plain_columns(frame: pd.DataFrame) -> pd.DataFrame:
    """Turn the index into columns if it is informative; give columns plain and unique names."""
    index = frame.index
    keep_index = index.dtype.kind != "i" and not index.equals(pd.RangeIndex(len(frame)))
    keep_index = keep_index or any(name is not None for name in index.names)
    flat = frame.copy()
    heads = []
    for head in map(_plain_head, flat.columns):
        while head in heads:  # a blank at the end makes a repeated name unique
            head = f"{head} "
        heads.append(head)
    flat.columns = pd.Index(heads)
    if not keep_index:
        return flat.reset_index(drop=True)
    index_names = [" " * i if name is None else str(name) for i, name in enumerate(index.names)]
    taken = {str(column) for column in flat.columns}
    flat.index.names = [f"{name} " if name in taken else name for name in index_names]
    return flat.reset_index()


def _units_of_rows(frame: pd.DataFrame) -> list[str | None]:
    units = frame.get("unit", [None] * len(frame))
    return [unit if isinstance(unit, str) else None for unit in units]


def _spread_rates(frame: pd.DataFrame) -> dict[Any, list[str | None]]:
    """Return the unit of each row in each column, for a table that was pivoted by measure.

    In such a table, the measures are a level of the columns or of the index. For any other table,
    the result is empty. The unit of a rate is ``"rate"``, because its cells show a percent sign.
    Every other unit is None, because the head would have to name it.
    """
    rows = frame.index.get_level_values("measure") if "measure" in frame.index.names else None
    rates_of = {}
    heads: list[Any] = list(frame.columns) if frame.columns.names != [None] else []
    for head in heads:
        names = head if isinstance(head, tuple) else ("estimate", head)
        with_measures = rows is not None or frame.columns.names[-1] == "measure"
        if names[0] in _ESTIMATE and with_measures:
            measures = [names[-1]] * len(frame) if rows is None else rows
            units = map(UNITS.get, measures)
            rates_of[_plain_head(head)] = ["rate" if unit == "rate" else None for unit in units]
    return rates_of


def _plain_head(head: Any) -> Any:
    return " ".join(map(str, head)).strip() if isinstance(head, tuple) else head


def _common_facts(frame: pd.DataFrame) -> tuple[str, list[Any]]:
    """Describe what all rows have in common, and return the columns that need not be shown."""
    sentences = []
    hidden = [n for n in frame.columns if str(n) in _NOTES or frame[n].isna().all()]
    units = set(_units_of_rows(frame))
    units_visible = units <= _PLAIN or (units <= {"points", *_PLAIN} and "rate" in units)
    if "unit" in frame.columns and units_visible:
        # a percent sign marks a rate, and a leading + or − marks a difference in points
        hidden.append("unit")
        sentences += ["differences in points"] * ("points" in units)
    if "estimate" not in frame.columns:
        return "", hidden
    for name in _ABOUT if len(frame) > 1 else ("ci_level",):
        if name in frame.columns and name not in hidden and frame[name].nunique(dropna=False) == 1:
            value = frame[name].iloc[0]
            hidden.append(name)
            if name == "unit" and value == "rate":
                continue  # percent signs mark rates
            starts = {"unit": "in ", "margin": "margin of ", "reference": "compared with "}
            fact = f"{starts.get(name, '')}{called(value)}"
            if name == "ci_level":
                fact = f"{100 * value:g} % intervals"
            elif name == "margin" and units == {"points"}:
                fact = f"margin of {100 * value:g} points"
            sentences.append(fact)
    text = "; ".join(sentences)
    return (text[:1].upper() + text[1:] + "." if text else ""), hidden


def _lettered_notes(frame: pd.DataFrame) -> tuple[list[str], tuple[str, ...]]:
    """Return the letters of the notes for each row, and the texts of all notes and methods."""
    letters: list[list[str]] = [[] for _ in range(len(frame))]
    letter_of: dict[str, str] = {}
    common = []
    for name in reversed(_NOTES):
        if name not in frame.columns:
            continue
        texts = [str(v).strip() if isinstance(v, str) else "" for v in frame[name]]
        texts = [re.sub(_OF_METHOD, "", text) for text in texts]
        if len(set(texts)) == 1 and texts and texts[0] and len(texts) > 1:
            common.append(f"{_COMMON}{texts[0]}")
            continue
        for row, text in enumerate(texts):
            if text:
                letters[row].append(letter_of.setdefault(text, _letters_of(len(letter_of))))
    return [", ".join(names) for names in letters], (*letter_of, *common)


def _letters_of(at: int) -> str:
    """Return the letter of the note at a position: a to z, then aa, bb to zz, and so on."""
    return ascii_lowercase[at % 26] * (at // 26 + 1)


def _head_text(name: Any) -> str:
    text = str(name)
    if text in _HEADS:
        return _HEADS[text]
    words = re.sub(r"^n_", "", text).replace("_", " ") if text.startswith("n_") else called(text)
    # A name from the study, such as g0, claude:opus or rubric@fc05, is not capitalised.
    return words if re.fullmatch(r"[a-z]+\d+|\S+[:@]\S+", words) else words[:1].upper() + words[1:]


def _cell_text(name: Any, value: Any, unit: str | None) -> str:
    if pd.api.types.is_scalar(value) and pd.isna(value):
        return "n/a"
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if not isinstance(value, int | float | np.number):
        return called(value) if isinstance(value, str) else str(value)
    number = float(value)
    if re.match(r"p_(value|adjusted|mcnemar|differential)$", str(name)):
        return "< .001" if number < 0.001 else f"{number:.3f}".lstrip("0") or "0"
    if re.search(_RATES, str(name)) and 0 <= number <= 1:
        return quantity(number, "rate")
    if "youden" in str(name):
        return quantity(number, "coefficient")
    if unit:
        signed = unit in ("points", "logits", "percentage points") and name not in _UNSIGNED
        return quantity(number, unit, signed=signed)
    if abs(number) < 1e15 and number == round(number):
        return quantity(number, "count") if str(name) != "year" else f"{number:.0f}"
    return quantity(number)


# Characters to escape: markup, the `]` of a link, image or definition, and signs of bare addresses
# (`@`, `://`, `www.`), because GitHub turns addresses into links.
_MARKDOWN = r"[\\|`*_@]|<(?=\S)|\](?=[(\[:])|:(?=//)|(?i:(?<=www)\.)"


def _escape_markdown(text: str) -> str:
    """Escape Markdown characters, and everything that a renderer turns into a link or image."""
    return re.sub(_MARKDOWN, r"\\\g<0>", re.sub(r"\s*\n\s*", " ", text))


def install(most: int = 5) -> None:
    """Make the current notebook show every DataFrame as a :class:`Table`."""
    with extra_imports("lab", "a notebook"):
        from IPython.core.getipython import get_ipython

    shell: Any = get_ipython()
    if shell is not None:
        html = shell.display_formatter.formatters["text/html"]
        html.for_type(pd.DataFrame, lambda frame: table(frame).html(most=most))
