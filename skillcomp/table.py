"""Tables set for people: the same one in a notebook, as markdown and as LaTeX."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import ascii_lowercase
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup, escape

from skillcomp.errors import FrameError
from skillcomp.frames.estimates import require_columns, unit_of
from skillcomp.style import called, interval, quantity

_ESTIMATE = ("estimate", "ci_low", "ci_high")
# what stands on the scale of the estimate, and which of it has no direction
_ONE_SCALE = (*_ESTIMATE, "planted", "worst_low", "worst_high", "se", "margin")
_UNSIGNED = ("se", "margin")
_NOTES = ("method", "note")
_WIDE = 88  # characters of a row that fill half of a page
_PLAIN = {"rate", "count", "coefficient", None}  # units that the cells show, or have none
_TEXT = 28  # characters that a column of words needs: heads and words wrap, numbers do not
_NUMBER = r"n/a|[+−]?\d[\d,.]*( %)?( \[.*\])?"  # a quantity, alone or with its interval
# said once above the table where all rows agree
_ABOUT = ("measure", "unit", "ci_level", "value", "effect", "cluster", "reference", "margin")
_HEADS = {
    "n": "n",
    "n_clusters": "Clusters",
    "p_value": "p",
    "p_adjusted": "p (adjusted)",
    "p_mcnemar": "p (McNemar)",
    "ci_low": "From",
    "ci_high": "To",
    "comprehension_dimension": "Dimension",
    "ci_level": "Level",
    "cost_usd": "Cost (US$)",
    "lam": "Lambda",
}
_TEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_TEX |= {one: f"\\{one}" for one in "&%$#_{}"} | {"−": "$-$", "∞": r"$\infty$", "±": r"$\pm$"}
_COMMON = "all rows: "


@dataclass(frozen=True)
class Table:
    """A table set for people; a notebook shows it as HTML.

    Attributes
    ----------
    cells : pandas.DataFrame
        The texts of the cells, under the texts of the heads.
    about : str
        What holds for all rows.
    notes : tuple of str
        What stands below the table, each under the letter that the rows name.
    numeric : tuple of bool
        Which columns are numbers, set to the right.
    """

    cells: pd.DataFrame
    about: str
    notes: tuple[str, ...]
    numeric: tuple[bool, ...]

    @property
    def lettered(self) -> list[tuple[str, str]]:
        """Each note after its letter, which is empty where no row names the note."""
        return [("" if n.startswith(_COMMON) else _letter(i), n) for i, n in enumerate(self.notes)]

    def html(self, *, most: int | None = None) -> str:
        """Return the table as HTML, escaped; with `most`, further rows and notes behind a fold."""
        lines = self.cells.itertuples(index=False, name=None)
        rows = ["".join(map(self._cell, line, self.numeric)) for line in lines]
        if not rows:
            return str(Markup("<p class='note'>No rows.</p>"))
        rest = [] if most is None or len(rows) <= most + 2 else rows[most:]
        shown = self._html(rows[: len(rows) - len(rest)])
        if rest:
            shown += Markup("<details><summary>{} more rows</summary>{}</details>").format(
                len(rest), self._html(rest, about=False)
            )
        notes = Markup("").join(
            Markup("<p class='note'>{}{}</p>").format(
                Markup("<sup>{}</sup> ").format(letter) if letter else "", note
            )
            for letter, note in self.lettered
        )
        if notes and most is not None:
            notes = Markup("<details><summary>Notes</summary>{}</details>").format(notes)
        return str(shown + notes)

    def _html(self, rows: Sequence[str], *, about: bool = True) -> Markup:
        heads = Markup("").join(
            Markup("<th scope='col'{}>{}</th>").format(Markup(" class='n'" if right else ""), head)
            for head, right in zip(self.cells.columns, self.numeric, strict=True)
        )
        text = Markup("<caption>{}</caption>").format(self.about) if about and self.about else ""
        body = Markup("").join(Markup(f"<tr>{row}</tr>") for row in rows)
        wide = sum(self._width(k) + 2 for k in range(len(self.numeric))) > _WIDE
        kind = "set wide" if wide else "set"
        return Markup("<table class='{}'>{}<thead><tr>{}</tr></thead><tbody>{}</tbody></table>")\
            .format(kind, text, heads, body)  # fmt: skip

    def _width(self, place: int) -> int:
        """Return how many characters a column needs at least."""
        words = str(self.cells.columns[place]).split()
        cells = max(map(len, self.cells.iloc[:, place]), default=0)
        return max(cells if self.numeric[place] else min(cells, _TEXT), *map(len, words), 0)

    @staticmethod
    def _cell(text: str, right: bool) -> str:
        return f"<td class='n'>{escape(text)}</td>" if right else f"<td>{escape(text)}</td>"

    def markdown(self) -> str:
        """Return the table as markdown."""
        rows: list[Any] = [self.cells.columns, *self.cells.itertuples(index=False, name=None)]
        head, *body = ["| " + " | ".join(map(_markdown, row)) + " |" for row in rows]
        rule = "| " + " | ".join("---:" if right else "---" for right in self.numeric) + " |"
        lines = [*([self.about, ""] if self.about else []), head, rule, *body]
        lines += [""] if self.notes else []
        lines += [f"{a}: {_markdown(n)}  ".removeprefix(": ") for a, n in self.lettered]
        return "\n".join(lines).rstrip() + "\n"

    def latex(self) -> str:
        """Return the table as LaTeX for the booktabs package."""
        align = "".join("r" if right else "l" for right in self.numeric)
        rows: list[Any] = [self.cells.columns, *self.cells.itertuples(index=False, name=None)]
        lines = [" & ".join(_tex(cell) for cell in row) + r" \\" for row in rows]
        body = [rf"\begin{{tabular}}{{{align}}}", r"\toprule", lines[0], r"\midrule", *lines[1:]]
        body += [r"\bottomrule", r"\end{tabular}"]
        body += [rf"\par {_tex(f'{a}: {n}'.removeprefix(': '))}" for a, n in self.lettered]
        head = [_tex(self.about) + r"\par"] if self.about else []
        return "\n".join([*head, *body]) + "\n"

    _repr_html_, _repr_latex_ = html, latex
    __str__ = _repr_markdown_ = markdown


def table(frame: pd.DataFrame, *, columns: Sequence[str] | None = None) -> Table:
    """Set a frame for people: words, percentages, counts, p-values, and notes in full.

    Parameters
    ----------
    frame : pandas.DataFrame
        An estimates frame, or any other. Estimate and limits become one column, in the row's
        ``unit`` (rates in percent, points times 100); what is the same in all rows stands above
        the table; method and note stand below it, once each.
    columns : sequence of str, optional
        The columns to show, in this order; by default all that hold something.

    Returns
    -------
    Table
        A notebook shows it; ``html()``, ``markdown()`` and ``latex()`` give its text.

    Raises
    ------
    FrameError
        If a column is not there.

    Examples
    --------
    >>> import pandas as pd
    >>> delta = pd.DataFrame({"skill": ["a", "b"], "measure": "delta_passed", "unit": "points",
    ...     "estimate": [0.5, -0.071], "ci_low": [0.3, -0.35], "ci_high": [0.7, 0.2], "n": 14.0,
    ...     "p_value": [0.0002, 0.64], "note": ["", "few cases"]})
    >>> print(table(delta))
    Delta passed; in points.
    <BLANKLINE>
    | Skill | Estimate [interval] | n | p | Notes |
    | --- | ---: | ---: | ---: | --- |
    | a | +50.0 [+30.0, +70.0] | 14 | < .001 |  |
    | b | −7.1 [−35.0, +20.0] | 14 | .640 | a |
    <BLANKLINE>
    a: few cases
    <BLANKLINE>
    """
    if not isinstance(frame, pd.DataFrame):
        raise FrameError(f"table: expected a DataFrame, found {type(frame).__name__}.")
    given = _flat(frame)
    if "unit" not in given.columns and {"measure", "estimate"} <= set(given.columns):
        place = list(given.columns).index("measure") + 1
        given.insert(place, "unit", given["measure"].map(_unit))
        frame = given
    spread, units = _spread_rates(frame), _units(given)
    if columns is not None:
        require_columns(given, columns, "table")
        given = given[list(columns)]
    about, hidden = _about(given)
    if frame.columns.names != [None]:  # a level that was spread stays, even if unknown
        hidden = [name for name in hidden if not given[name].isna().all()]
    limits = _limits(given)
    shown = [
        _column(name, given, units, limits.get(name), spread)
        for name in given.columns
        if name not in (*hidden, *_NOTES, *(end for ends in limits.values() for end in ends))
    ]
    letters, notes = _notes(given)
    if any(letters):
        shown.append(("Notes", letters, False))
    cells = pd.DataFrame({at: told for at, (_, told, _) in enumerate(shown)})
    cells = cells.set_axis([head for head, _, _ in shown], axis="columns")
    return Table(cells, about, notes, tuple(right for _, _, right in shown))


def _limits(given: pd.DataFrame) -> dict[Any, tuple[str, str]]:
    """Return which columns hold the limits of an estimate, or of one beside it as over_placebo."""
    found = {one: (f"{one}_low", f"{one}_high") for one in given.columns}
    found["estimate"] = ("ci_low", "ci_high")
    if not set(_ESTIMATE) <= set(given.columns):
        return {}
    return {name: ends for name, ends in found.items() if set(ends) <= set(given.columns)}


def _column(
    name: Any,
    given: pd.DataFrame,
    units: list[str | None],
    ends: tuple[str, str] | None,
    spread: Mapping[Any, list[str | None]],
) -> tuple[str, list[str], bool]:
    """Return head and texts of a column, and whether they are numbers."""
    if ends is not None:
        rows = zip(given[name], *(given[end] for end in ends), units, strict=True)
        told = [interval(dict(zip((*_ESTIMATE, "unit"), row, strict=True))) for row in rows]
        return f"{_head(name)} [interval]", told, True
    known = spread.get(name) or (units if name in _ONE_SCALE else [None] * len(given))
    told = [_text(name, value, unit) for value, unit in zip(given[name], known, strict=True)]
    written = all(re.fullmatch(_NUMBER, one) for one in told)
    return _head(name), told, written or pd.api.types.is_numeric_dtype(given[name])


def _flat(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with an index that says something as columns, and simple column names."""
    index = frame.index
    named = index.dtype.kind != "i" and not index.equals(pd.RangeIndex(len(frame)))
    named = named or any(name is not None for name in index.names)
    flat = frame.copy()
    heads: list[Any] = []
    for head in map(_plain, flat.columns):
        while head in heads:  # a second column of the same name
            head = f"{head} "
        heads.append(head)
    flat.columns = pd.Index(heads)
    if not named:
        return flat.reset_index(drop=True)
    names = [str(name) if name is not None else " " * i for i, name in enumerate(flat.index.names)]
    taken = {str(one) for one in flat.columns}
    flat.index.names = [f"{name} " if name in taken else name for name in names]
    return flat.reset_index()


def _units(given: pd.DataFrame) -> list[str | None]:
    found = given.get("unit", [None] * len(given))
    return [unit if isinstance(unit, str) else None for unit in found]


def _unit(measure: object) -> str | None:
    return unit_of(measure) if isinstance(measure, str) else None


def _spread_rates(frame: pd.DataFrame) -> dict[Any, list[str | None]]:
    """Return which cells are rates where measures were spread over the columns or name the rows.

    Percent signs tell what they are; other units would need a head of their own.
    """
    rows = frame.index.get_level_values("measure") if "measure" in frame.index.names else None
    found: dict[Any, list[str | None]] = {}
    heads: list[Any] = list(frame.columns) if frame.columns.names != [None] else []
    for head in heads:
        names = head if isinstance(head, tuple) else ("estimate", head)
        if names[0] not in _ESTIMATE:
            continue
        if rows is None and frame.columns.names[-1] != "measure":
            continue
        measures = [names[-1]] * len(frame) if rows is None else rows
        rates = ["rate" if _unit(one) == "rate" else None for one in measures]
        found[_plain(head)] = rates
    return found


def _plain(head: Any) -> Any:
    return " ".join(map(str, head)).strip() if isinstance(head, tuple) else head


def _about(given: pd.DataFrame) -> tuple[str, list[Any]]:
    """Return what holds for all rows, as one sentence, and the columns that it stands for."""
    said: list[str] = []
    hidden: list[Any] = [name for name in given.columns if given[name].isna().all()]
    hidden += [n for n in given.columns if str(n) in _NOTES]
    found = set(_units(given))
    shown = found <= _PLAIN or (found <= {"points", *_PLAIN} and "rate" in found)
    if "unit" in given.columns and shown:
        hidden.append("unit")  # signs of percent and of gain or loss say which is which
        said += ["differences in points"] * ("points" in found)
    if len(given) < 2 or "estimate" not in given.columns:
        return "", [name for name in hidden if name not in ("estimate",)]
    for name in _ABOUT:
        if name in given.columns and name not in hidden and given[name].nunique(dropna=False) == 1:
            value = given[name].iloc[0]
            text = f"{100 * value:g} % intervals" if name == "ci_level" else called(value)
            hidden.append(name)
            if name == "unit" and value == "rate":
                continue  # its percent signs say so
            text = f"in {text}" if name == "unit" else text
            said.append(f"{name} {text}" if name in ("margin", "reference") else text)
    text = "; ".join(said)
    return (text[:1].upper() + text[1:] + "." if text else ""), hidden


def _notes(given: pd.DataFrame) -> tuple[list[str], tuple[str, ...]]:
    """Return the letters of each row, and the notes and methods that they stand for."""
    letters: list[list[str]] = [[] for _ in range(len(given))]
    found: dict[str, str] = {}
    common = []
    for name in reversed(_NOTES):
        if name not in given.columns:
            continue
        texts = [str(v).strip() if isinstance(v, str) else "" for v in given[name]]
        if len(set(texts)) == 1 and texts and texts[0] and len(texts) > 1:
            common.append(f"{_COMMON}{texts[0]}")
            continue
        for row, text in enumerate(texts):
            if text:
                letters[row].append(found.setdefault(text, _letter(len(found))))
    return [", ".join(one) for one in letters], (*found, *common)


def _letter(at: int) -> str:
    """Return a to z, then aa to zz and so on."""
    return ascii_lowercase[at % 26] * (at // 26 + 1)


def _head(name: Any) -> str:
    text = str(name)
    if text in _HEADS:
        return _HEADS[text]
    words = re.sub(r"^n_", "", text).replace("_", " ") if text.startswith("n_") else called(text)
    # a name such as g0, claude:opus or rubric@fc05 is of the study
    own = re.fullmatch(r"[a-z]+\d+|\S+[:@]\S+", words)
    return words if own else words[:1].upper() + words[1:]


def _text(name: Any, value: Any, unit: str | None) -> str:
    """Return one cell as people write it."""
    if pd.api.types.is_scalar(value) and pd.isna(value):
        return "n/a"
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if not isinstance(value, int | float | np.number):
        return called(value) if isinstance(value, str) else str(value)
    number = float(value)
    if re.match(r"p_(value|adjusted|mcnemar)$", str(name)):
        return "< .001" if number < 0.001 else f"{number:.3f}".lstrip("0") or "0"
    rates = r"(^|_)(rate|share|prevalence|coverage)($|_| )|^reference_low$"
    if re.search(rates, str(name)) and 0 <= number <= 1:
        return quantity(number, "rate")
    if unit:
        signed = unit in ("points", "logits", "percentage points") and name not in _UNSIGNED
        return quantity(number, unit, signed=signed)
    if abs(number) < 1e15 and number == round(number):
        return f"{number:,.0f}".replace("-", "−") if str(name) != "year" else f"{number:.0f}"
    return quantity(number)


def _markdown(text: str) -> str:
    return re.sub(r"([\\|`*_]|<(?=\S))", r"\\\1", text)


def _tex(text: str) -> str:
    return "".join(_TEX.get(one, one) for one in text)


def install(most: int = 5) -> None:
    """Have the notebook that runs here show DataFrames as tables set for people."""
    from IPython.core.getipython import get_ipython

    shell: Any = get_ipython()
    if shell is not None:
        html = shell.display_formatter.formatters["text/html"]
        html.for_type(pd.DataFrame, lambda frame: table(frame).html(most=most))
