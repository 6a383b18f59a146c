"""Phrases of sentences: rates, differences, counts and names in words; verdicts on skills."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, TypeAlias, TypeGuard

import pandas as pd

from skillcomp.errors import plural as plural
from skillcomp.frames.contracts import DIFFERENT_MODELS, REPLACED
from skillcomp.frames.estimates import columns_of
from skillcomp.skillverdicts.decide_and_compare_cases import FEWEST_GOLD, NAIVE
from skillcomp.stats.results import p_value as p_value
from skillcomp.style import called, quantity

Row: TypeAlias = pd.Series
_LIMITS = ["estimate", "ci_low", "ci_high"]
_TREATMENTS = {"skill": "the skill", "placebo": "a placebo", "previous": "the previous version"}


class Sentence(NamedTuple):
    """A sentence, its subject (skill, grader or condition), and a verdict with its reasons."""

    text: str
    about: Any = None
    verdict: Any = None
    why: Any = None


Sentences: TypeAlias = Iterator[Sentence]


def has_estimate(row: Row | None) -> TypeGuard[Row]:
    """Return whether there is a row and its estimate is a number."""
    return row is not None and bool(pd.notna(row["estimate"]))


def parts_by(frame: pd.DataFrame, *names: str) -> Iterator[tuple[tuple[Any, ...], pd.DataFrame]]:
    """Group a frame by those `names` that are columns; yield values and rows of each group."""
    by = columns_of(frame, *names)
    yield from frame.groupby(by, sort=False, dropna=False) if by else [((), frame)]


def marked(rows: pd.DataFrame, column: str = "recommended") -> pd.DataFrame:
    """Return the rows for which a column of truth values is True."""
    return rows[rows[column].fillna(False).astype(bool)]


def matching_row(frame: pd.DataFrame | None, row: Row) -> Row | None:
    """Return the row of `frame` that has the skill, agent and condition of `row`.

    Return None if there is no such row, or if it has no estimate.
    """
    if frame is None:
        return None
    names = [name for name in columns_of(frame, "skill", "agent", "condition") if name in row]
    same = frame[frame[names].eq(row[names]).all(axis=1)]
    return same.iloc[0] if len(same) == 1 and has_estimate(same.iloc[0]) else None


def direction(row: Row, above: str, below: str, neither: str) -> str:
    """Return a word for an increase, a decrease, or a difference that is not shown or unknown.

    The column ``shown`` decides; without a value there, the interval.
    """
    shown = row.get("shown")
    if shown is None or pd.isna(shown):
        shown = row["ci_low"] > 0 or row["ci_high"] < 0
    if not shown:
        return neither
    return above if row["estimate"] > 0 else below


def rows_of(frame: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Return the rows of one measure."""
    return frame[frame["measure"].eq(measure)]


def with_estimate(rows: pd.DataFrame, *more: str) -> pd.DataFrame:
    """Return the rows with an estimate, and with a value in each of the columns `more`."""
    return rows.dropna(subset=["estimate", *more])


def treatment(condition: object, reference: object = "baseline") -> str:
    """Name what the agent has under a condition, such as "the skill" or the condition itself."""
    if (condition, reference) == ("skill", "previous"):
        return "the new version"
    return _TREATMENTS.get(str(condition), called(condition))


def without(reference: object) -> str:
    """Describe the reference condition, such as "without it" or "with Tool A"."""
    return "without it" if reference == "baseline" else f"with {treatment(reference)}"


def unit_of(row: Row) -> str:
    """Return the unit of a row: ``score`` for scores, otherwise ``points``."""
    return "score" if "score" in (row.get("unit"), str(row.get("measure"))[-5:]) else "points"


def rate(value: float) -> str:
    """Format a rate, such as "79 %", "0.4 %" or "<0.1 %"; 99.7 % does not become 100 %."""
    inside = 0 < value < 0.01 or 0.99 < value < 1
    if inside and not 0.0005 < value < 0.9995:
        return "<0.1 %" if value < 0.5 else ">99.9 %"
    return quantity(value, "rate", digits=int(inside))


def size(value: float, digits: int = 0, unit: str = "points") -> str:
    """Format the size of a difference in rates, such as "10 points" or "1 point"."""
    return signed(abs(value), digits, unit).lstrip("+")


def signed(value: float, digits: int = 0, unit: str = "points") -> str:
    """Format a difference in rates, such as "+52 points"; one in scores has no unit."""
    if unit == "score":
        return quantity(value, unit, signed=True)
    text = quantity(value, "points", signed=True, digits=digits)
    return text + (" point" if text.lstrip("+\N{MINUS SIGN}") == "1" else " points")


def bare(text: str) -> str:
    """Return a number without its unit, for a column that has the unit in its header."""
    return text.partition(" ")[0]


def limits(row: Row) -> str:
    """Format the interval of a difference, such as "[37, 64]"; empty if it is unknown."""
    return _in_brackets(row, lambda end: quantity(end, unit_of(row), digits=_decimals(end)))


def _in_brackets(row: Row, form: Callable[[float], str]) -> str:
    ends = row["ci_low"], row["ci_high"]
    return "" if any(map(pd.isna, ends)) else f"[{', '.join(map(form, ends))}]".replace(" %", "")


def _decimals(value: float) -> int:
    """Return the number of decimals of a difference: 0, or more if it would be rounded to 0."""
    points = 0.0 if pd.isna(value) else abs(100 * value)
    return 0 if points < 1e-6 or float(f"{points:.0f}") else -math.floor(math.log10(points)) or 1


def change(row: Row, unit: bool = True) -> str:
    """Format a difference in rates with its interval, such as "+52 points [37, 64]"."""
    text = signed(row["estimate"], unit=unit_of(row))
    return f"{text if unit else bare(text)} {limits(row)}".rstrip()


def points(row: Row, unit: bool = True) -> str:
    """Format an estimate in percentage points with its interval, such as "+3 points [−2, 8]"."""
    return change(row[_LIMITS] / 100, unit)


def percent(row: Row) -> str:
    """Format a ratio as a change in percent, such as "+104 % [80, 131]"."""
    text = change(row[_LIMITS] - 1.0)
    return text.replace(" points", " %").replace(" point", " %")


def share(row: Row, of: str = "") -> str:
    """Format a rate with its interval and, with `of`, its n, such as "16 % [11, 22] of 419 items".

    >>> row = pd.Series({"estimate": 0.164, "ci_low": 0.11, "ci_high": 0.22, "n": 419})
    >>> share(row, "items"), share(row)
    ('16 % [11, 22] of 419 items', '16 % [11, 22]')
    """
    form = partial(quantity, unit="score") if unit_of(row) == "score" else rate
    text = f"{form(row['estimate'])} {_in_brackets(row, form)}".rstrip()
    return f"{text} of {row['n']:,.0f} {of}" if of else text


def change_text(row: Row | None) -> str:
    """Format a change in points with its interval, such as "+52 [37, 64]"; empty if unknown."""
    return change(row, unit=False) if has_estimate(row) else ""


def coefficient_text(row: Row | None) -> str:
    """Format a coefficient with its interval, such as ".62 [.52, .72]"; empty if unknown."""
    if not has_estimate(row):
        return ""
    return f"{coefficient(row['estimate'])} {_in_brackets(row, coefficient)}".rstrip()


def coefficient(value: float) -> str:
    """Format kappa, AC1 or a correlation, such as ".79"."""
    return quantity(value, "coefficient")


def on_cases(row: Row) -> str:
    """Format the numbers of cases, cases dropped and attempts missing; empty if n is unknown."""
    n = row["n"]
    return "" if pd.isna(n) else f" on {plural(n, 'case')}{lost(row)}"


def lost(row: Row) -> str:
    """Format the cases dropped and the attempts missing by condition, such as " (2 dropped)"."""
    parts = [f"{row['n_dropped']:,.0f} dropped"] if row.get("n_dropped", 0) > 0 else []
    sides = {"condition": "", "reference": "_reference"}
    missing = {side: row.get(f"n_missing{end}", 0) for side, end in sides.items()}
    if any(n > 0 for n in missing.values()):
        of = {side: row.get(f"n_attempts{end}", float("nan")) for side, end in sides.items()}
        counts = [
            f"{n:,.0f}{f' of {of[side]:,.0f}' if of[side] > 0 else ''} under {row[side]}"
            for side, n in missing.items()
            if isinstance(row.get(side), str)
        ]
        parts.append(f"attempts missing: {listing(counts)}" if counts else "attempts missing")
    return f" ({'; '.join(parts)})" if parts else ""


def count_range(counts: pd.Series) -> str:
    """Format the range of counts, such as "5 to 20"; a single number if all are equal."""
    return " to ".join(dict.fromkeys((f"{counts.min():,.0f}", f"{counts.max():,.0f}")))


def skill_and_agent(row: Row) -> str:
    """Return the name of a skill, with the agent if the rows are by agent."""
    return called(row["skill"]) + (f" ({row['agent']})" if "agent" in row else "")


def unit_of_rows(rows: pd.DataFrame) -> str:
    """Return what the rows of a frame are about."""
    return "pairs of skill and agent" if "agent" in rows else "skills"


def listing(names: Iterable[str]) -> str:
    """Join names with commas, and the last one with "and"."""
    items = list(names)
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def reason(row: Row) -> str:
    """Return the text of ``reason`` (of a correction) or, failing that, of ``note``."""
    texts = [text.strip() for text in (row.get("reason"), row.get("note")) if isinstance(text, str)]
    return next(filter(None, texts), "no reason was recorded")


class Field(NamedTuple):
    """The value of a field of a phrase: a value, or a row of estimates; unknown values raise."""

    value: Any
    unit: str = "points"

    def __format__(self, form: str) -> str:
        """Format the value, for example as a ``change``, as ``#case``, or as ``more|fewer|``.

        Raises
        ------
        LookupError
            If the value or the estimate is unknown, or if a number of things (``#``) is 0.
        """
        value, is_row = self.value, isinstance(self.value, pd.Series)
        number = value["estimate"] if is_row else value
        if pd.isna(number) or (form.startswith("#") and not number):
            raise LookupError
        if form.startswith("#"):
            return plural(number, form[1:])
        if "|" in form:
            return direction(value, *form.split("|"))
        if form.startswith("of "):
            return share(value, form[3:])
        if form in _OF_ROWS:
            return _OF_ROWS[form](value)
        if self.unit == "score" and form in ("rate", "size", "signed"):
            return signed(number, unit="score") if form == "signed" else quantity(number)
        if form in _OF_NUMBERS:
            return _OF_NUMBERS[form](number)
        return format(value, form) if form else called(value)


_OF_ROWS: dict[str, Callable[[Row], str]] = {
    "change": change,
    "points": points,
    "percent": percent,
    "share": share,
    "limits": limits,
    "lost": lost,
    "cases": on_cases,
    "kappa": coefficient_text,
    "cell": change_text,
    "n": lambda row: f"{row['n']:,.0f}",
    "clusters": lambda row: f"{row['n_clusters']:,.0f}",
    "rank": lambda row: f"{row['estimate']:.0f} [{row['ci_low']:.0f}, {row['ci_high']:.0f}]",
}
_OF_NUMBERS: dict[str, Callable[[Any], str]] = {
    "rate": rate,
    "size": size,
    "signed": signed,
    "coefficient": coefficient,
    "names": lambda text: listing(text.split(", ")),
}


def agrees_with(row: Row) -> str:
    """Name the graders of a row and with what they agree: gold, a majority, or each other."""
    if isinstance(row.get("reference"), str):
        return f"{row['grader']} and {row['reference']} agree"
    if pd.isna(row.get("grader", "")):
        return "All graders agree with each other"
    gold = "the majority of the others" if "gold is a majority" in str(row["note"]) else "gold"
    return f"{row.get('grader', 'The grader')} agrees with {gold}"


def fields_of(row: Row, more: Mapping[str, Any] | None = None) -> dict[str, Field]:
    """Return the fields of phrases: columns of a row, words for it, and more by name."""
    condition, reference = row.get("condition", "skill"), str(row.get("reference", "baseline"))
    words = {
        "row": row,
        "grader": row.get("grader", "The grader"),
        "agrees": agrees_with(row) if row.get("measure") == "raw_agreement" else "",
        "how": treatment(condition, reference),
        "without": without(reference),
        "what": "checks" if "share" in str(row.get("measure")) else "answers",
    }
    fields = row.to_dict() | words | dict(more or {})
    return {str(name): Field(value, unit_of(row)) for name, value in fields.items()}


def filled(phrase: Iterable[str], fields: Mapping[str, Field]) -> str:
    """Fill in a phrase; leave out parts with unknown numbers, but raise LookupError for the first.

    >>> row = pd.Series({"estimate": 0.164, "ci_low": 0.11, "ci_high": 0.22, "n": 419})
    >>> phrase = "It fails {row:of items}", ", kappa {kappa:coefficient}"
    >>> filled(phrase, fields_of(row)), filled(phrase, fields_of(row) | {"kappa": Field(0.79)})
    ('It fails 16 % [11, 22] of 419 items', 'It fails 16 % [11, 22] of 419 items, kappa .79')
    """
    first, *rest = phrase
    text = first.format_map(fields)
    for part in rest:
        with suppress(LookupError):
            text += part.format_map(fields)
    return text


RATES = "with {how} {rate:rate} of the {what} pass and {without} {reference_rate:rate}"
_MEAN_SCORES = "the mean score with {how} is {rate:rate} and {without} {reference_rate:rate}"
# verdict -> its verb for one and for several skills, and its reason
_VERDICTS = {
    "teaching": ("teaches", "teach", "{row:limits} is above the margin of {margin:size}"),
    "helps": ("helps", "help", "{row:limits} excludes 0, but not a gain within the margin"),
    "redundant": (
        "is redundant",
        "are redundant",
        "{row:limits} adds little to {reference_rate:rate}",
    ),
    "ineffective": (
        "changes nothing",
        "change nothing",
        "{row:limits} is within the margin of {margin:size}",
    ),
    "hurts": ("hurts", "hurt", "{row:limits} excludes 0, but not a loss within the margin"),
    "harmful": ("harms", "harm", "{row:limits} is below a loss of {margin:size}"),
    "undetermined": (
        "is undetermined",
        "are undetermined",
        "{row:limits}; a change below {detectable:size} may go unseen",
    ),
}
_LOSSES = ["hurts", "harmful"]
_UNSEEN = "even the largest possible change may go unseen"
_FEW = 4  # With more undetermined skills than this, there are no sentences on single skills.
FIXED_IN_ADVANCE = (
    "A number of cases that rests on the change observed can be too small or too large by chance. "
    "Fix the number of cases in advance: a t test looked at after 20, 40, 80 and 160 cases errs in "
    "14 % of null studies, not 5 %."
)


def main_rows(decided: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the condition ``skill``; if there are none, of all except the placebo."""
    for chosen in (decided["condition"].eq("skill"), decided["condition"].ne("placebo")):
        if chosen.any():
            return decided[chosen]
    return decided


def verdict_sentences(decided: pd.DataFrame) -> Sentences:
    """Count the verdicts, and describe each."""
    # no verdict is corrected or could be confirmed by gold
    unchecked = "n_gold" not in decided or not decided["n_gold"].gt(0).any()
    yield from headline_sentences(main_rows(decided), unchecked)
    yield from row_sentences(decided, unchecked)


# start of a note that the page says first -> what it means for the result
_CAUTIONS = {
    DIFFERENT_MODELS: "a change may be that of the models",
    REPLACED: "this alone changes the pass rates",
}


def headline_sentences(main: pd.DataFrame, unchecked: bool) -> Sentences:
    """Count the verdicts; ``unchecked`` means that the study has no gold."""
    for start, end in _CAUTIONS.items():
        for text in main["note"].str.extract(f"({start}[^;]*)")[0].dropna().unique():
            yield Sentence(f"{text[:1].upper()}{text[1:]}; {end}.")
    n, rows = len(main), unit_of_rows(main)
    if n > len(main.drop_duplicates(columns_of(main, "skill", "agent"))):
        rows = "conditions" if main["skill"].nunique() == 1 else "pairs of skill and condition"
    parts = _counts_in_words(main["verdict"])
    if not parts:
        return
    text = f"Of {n} {rows}, {listing(parts)}"
    if len(parts) == 1 and main["verdict"].isin(list(_VERDICTS)).all():
        everyone = f"Both {rows}" if n == 2 else f"All {n} {rows}"
        text = everyone if n > 1 else called(main["skill"].iloc[0])
        text += f" {parts[0].split(' ', 1)[1]}"
    if unchecked:
        first = text[:1].lower() if n > 1 else text[:1]
        what = "scores" if unit_of(main.iloc[0]) == "score" else "grader"
        text = f"Nobody has checked the {what}. By the grader alone: {first}{text[1:]}"
    open_ = main[main["verdict"].eq("undetermined")]
    alone = [row["verdict_uncorrected"] for _, row in open_.iterrows() if is_unconfirmed(row)]
    if alone:
        n_open = len(open_)
        parts = _counts_in_words(pd.Series(alone + ["undetermined"] * (n_open - len(alone))))
        words = listing(parts)
        if len(parts) == 1:
            words = f"{'it' if n_open == 1 else 'they'} {parts[0].split(' ', 1)[1]}"
        of_these = "of these, " if 1 < n_open < n and len(parts) > 1 else ""
        text += f"; {of_these}by the grader alone {words}"
    yield Sentence(f"{text}.")


def _counts_in_words(verdicts: pd.Series) -> list[str]:
    counts = verdicts.value_counts()
    words = {name: forms for name, forms in _VERDICTS.items() if name in counts}
    return [f"{counts[name]} {forms[int(counts[name] > 1)]}" for name, forms in words.items()]


def overall_sentences(
    overall: pd.DataFrame, corrected: pd.DataFrame | None, main: pd.DataFrame
) -> Sentences:
    """Describe the change over all skills, its correction, and name the skills with a loss."""
    single = main["skill"].nunique() == 1
    several_agents = "agent" in main and main["agent"].nunique() > 1
    for _, row in overall.iterrows():
        condition = row["condition"]
        how = treatment(condition, row.get("reference"))
        loaded = "the skill loaded" if single else "their skill loaded"
        how = {"the skill": loaded, "a placebo": "a placebo loaded instead"}.get(how, how)
        others = without(row.get("reference", "baseline")).removesuffix(" it")
        fields = fields_of(row, {"how": how, "without": others})
        over = "agents" if single else "skills"
        if several_agents:
            over = "agents" if single else "skills and agents"
            over += " (agents averaged within each case)"
        text = f"With {how}: not known, {reason(row)}."
        if has_estimate(row):
            text = filled([_levels_of(row) + ": {row:change}{row:cases}"], fields)
            lone = single and not several_agents
            text = f"{text[0].upper()}{text[1:]}" if lone else f"Over all {over}, {text}"
            if corrected is not None:
                best = marked(corrected[corrected["condition"].eq(condition)])
                best = with_estimate(best, "ci_low")
                if best.empty or not _is_corrected(best.iloc[0]):
                    text += "; not corrected"
                else:
                    text += f"; corrected for the grader's errors, {change(best.iloc[0])}"
            text += "."
        yield Sentence(text + _losses_in_words(main[main["condition"].eq(condition)]), condition)


def _losses_in_words(main: pd.DataFrame) -> str:
    """Name the skills with a loss, then those with an unconfirmed loss."""
    rows = [row for _, row in main.iterrows()]
    open_ = [row for row in rows if is_unconfirmed(row)]
    losses = {
        "A loss is": [row for row in rows if row["verdict"] in _LOSSES],
        "A loss by the grader alone, not confirmed, is": [
            row for row in open_ if row["verdict_uncorrected"] in _LOSSES
        ],
    }
    texts = [
        f" {start} shown for {listing(map(skill_and_agent, part))}."
        for start, part in losses.items()
        if part
    ]
    return "".join(texts)


def row_sentences(
    rows: pd.DataFrame,
    unchecked: bool,
    placebo: pd.DataFrame | None = None,
    previous: pd.DataFrame | None = None,
) -> Sentences:
    """Describe each verdict and its evidence; a placebo has only evidence."""
    for _, row in rows.iterrows():
        name = skill_and_agent(row)
        name += f" ({row['condition']})" if row["condition"] != "skill" else ""
        if pd.isna(row["estimate"]):
            text = f"{name} cannot be judged: {reason(row)}."
        elif row["condition"] == "placebo":
            text = f"{name}: {_evidence(row)}{on_cases(row)}."
            yield Sentence(text, row["skill"])
            continue
        else:
            others = matching_row(placebo, row), matching_row(previous, row)
            text = _verdict_in_words(name, row, *others, unchecked)
        yield Sentence(text, row["skill"], row["verdict"], _reason_of_verdict(row))


def _verdict_in_words(
    name: str, row: Row, placebo: Row | None, previous: Row | None, unchecked: bool
) -> str:
    """Describe the verdict on a skill, the evidence for it, and what limits it."""
    verdict = row["verdict"] if row["verdict"] in _VERDICTS else "undetermined"
    claim, overturned = _VERDICTS[verdict][0], row.get("overturned", False)
    if unconfirmed := is_unconfirmed(row):
        n, alone = row["n_gold"], row["verdict_uncorrected"]
        claim = alone if alone in ("helps", "hurts") else f"is {alone}"
        claim += " by the grader, not confirmed"
        claim += f" by labels on {plural(n, 'case')}" if n else ", as no case has a label"
    elif unchecked and verdict != "undetermined":
        claim += " by the grader alone"
    counts = row.drop(["n_missing", "n_missing_reference"]) if overturned else row
    text = f"{name} {claim}: {_evidence(row)}{on_cases(counts)}."
    if unconfirmed:
        alone = _shown_alone_in_words(row, "Corrected and taken alone it")
        return f"{text}{alone} {_labels_in_words(row)}"
    if overturned:
        text += _missing_answers_in_words(row)
        if verdict == "undetermined" and not row["assume_missing"]:
            return text
    margin = size(row["margin"], unit=unit_of(row))
    if verdict in ("helps", "hurts"):
        effect = "gain" if verdict == "helps" else "loss"
        text += f" The {effect} may be smaller than the margin of {margin}."
    elif verdict == "undetermined":
        text += _what_is_ruled_out(row, margin)
    alone = " (grader alone)" if _is_corrected(row) else ""
    text += _comparison_in_words(verdict, placebo, f"its placebo{alone}")
    return text + _comparison_in_words("", previous, f"the previous version{alone}")


def _levels_of(row: Row) -> str:
    return _MEAN_SCORES if unit_of(row) == "score" else RATES


def _evidence(row: Row) -> str:
    """Describe the rates and the change (corrected, if there is a correction) behind a verdict."""
    within = row.get("verdict") == "ineffective"
    effect = "the whole interval {row:limits} is within {margin:size}" if within else "{row:change}"
    phrase = f"{_levels_of(row)}{'; ' if within else ', '}{effect}"
    if _is_corrected(row):
        phrase = f"{RATES} by the grader; corrected, {effect}"
    elif row.get("verdict") == "redundant" and unit_of(row) != "score":
        phrase = "{reference_rate:rate} of the {what} pass {without}; with it {row:change}"
    return filled([phrase], fields_of(row))


def _is_corrected(row: Row) -> bool:
    return row.get("estimator") not in (None, "", NAIVE)


def is_unconfirmed(row: Row) -> bool:
    """Return whether the grader alone gives a verdict that the correction does not confirm."""
    alone = row.get("verdict_uncorrected", "undetermined")
    return bool(row["verdict"] == "undetermined" != alone and not is_overturned(row))


def is_overturned(row: Row) -> bool:
    """Return whether the missing answers could overturn a verdict, and nothing is assumed."""
    return bool(row.get("overturned", False) and not row.get("assume_missing", ""))


def is_short_of_cases(row: Row) -> bool:
    """Return whether more cases could settle a verdict: not labels, and not missing answers."""
    return row["verdict"] == "undetermined" and not (is_unconfirmed(row) or is_overturned(row))


def _reason_of_verdict(row: Row) -> str | None:
    """Give the reason for a verdict in at most twelve words; None without a verdict."""
    if row["verdict"] not in _VERDICTS:
        return None
    if pd.isna(row["ci_low"]):
        return "there is no interval"
    if is_overturned(row):
        return "the missing answers could overturn it"
    if is_unconfirmed(row):
        return f"labels on {plural(row['n_gold'], 'case')} do not confirm the grader's verdict"
    phrase = _VERDICTS[row["verdict"]][2]
    if row["verdict"] == "undetermined":
        inside = row["ci_low"] > -row["margin"] and row["ci_high"] < row["margin"]
        if row["ci_low"] > 0 or row["ci_high"] < 0:
            phrase = "{row:limits} excludes 0, but not once adjusted for all verdicts"
        elif inside:
            phrase = "{row:limits} is within the margin, but not once adjusted"
        elif row.get("detectable") == float("inf"):
            phrase = f"{{row:limits}}; {_UNSEEN}"
        elif pd.isna(row.get("detectable")):  # rows saved before there was this column
            phrase = "{row:limits} includes 0 and changes beyond the margin"
    return filled([phrase], fields_of(row))


def _labels_in_words(row: Row) -> str:
    """Describe how many more labelled cases would decide the verdict."""
    n, more = int(row["n_gold"]), row["labels_needed"]
    if more == float("inf"):
        cases = plural(row["n"], "case")
        return f"Labels on all {cases} would not decide; more cases are needed."
    if pd.notna(more):
        return f"Labels on about {plural(more, 'more case')} would decide."
    if n < FEWEST_GOLD:
        return f"Labels on at least {plural(FEWEST_GOLD - n, 'more case')} are needed."
    return "How many more labels would decide is not known."


def _shown_alone_in_words(row: Row, subject: str) -> str:
    """Describe a gain or loss that is significant before p-values are adjusted, if there is one."""
    low, high, p = row["ci_low"], row["ci_high"], row.get("p_adjusted", float("nan"))
    if not (low > 0 or high < 0) or (is_unconfirmed(row) and not _is_corrected(row)):
        return ""
    text = f" {subject} shows a {'gain' if low > 0 else 'loss'}"
    if pd.isna(p):
        return f"{text}, without an adjusted p-value."
    if verdicts := _adjusted_verdicts(row):
        return f"{text}; adjusted for {verdicts} it does not ({p_value(p, 'adjusted p')})."
    return f"{text} by its interval, but not by its p-value ({p_value(p)})."


def _adjusted_verdicts(row: Row) -> str:
    """Name the number of verdicts over which p-values are adjusted; "" if there is one."""
    family = re.search(r"by Holm over (\d+)", str(row.get("method", "")))
    return f"the {plural(int(family[1]), 'verdict')}" if family else ""


def _missing_answers_in_words(row: Row) -> str:
    """Describe the missing answers that could overturn a verdict, and what is assumed of them."""
    phrase = (
        " {n_missing:,.0f} of {n_attempts:,.0f} answers under {condition} and "
        "{n_missing_reference:,.0f} of {n_attempts_reference:,.0f} answers under {reference} are "
        "missing: if all had gone against {condition}, the change would be {worst_low:signed}; if "
        "all for it, {worst_high:signed}. The verdict "
    )
    end = "therefore stays open."
    if row["assume_missing"]:
        end = f"assumes that they are missing {row['assume_missing']}."
    return filled([phrase], fields_of(row)) + end


def _what_is_ruled_out(row: Row, margin: str) -> str:
    """Describe the gains or losses that the interval of an undetermined skill excludes."""
    low, high, most = row["ci_low"], row["ci_high"], row["margin"]
    if pd.isna(low) or pd.isna(high):
        return ""
    if low > 0 or high < 0:
        return _shown_alone_in_words(row, "Taken alone this row")
    if low > -most and high < most:
        verdicts = _adjusted_verdicts(row) or "several verdicts"
        return f" The interval is within {margin}, but not once adjusted for {verdicts}."
    ruled = [f"a loss of {margin}"] if low > -most else []
    ruled += [f"a gain of {margin}"] if high < most else []
    text = " Neither a gain nor a loss is ruled out."
    if ruled:
        text = f" Ruled out: {listing(ruled)}."
    if pd.isna(row.get("detectable")):
        return text
    if row["detectable"] == float("inf"):
        return f"{text} In such a study {_UNSEEN}."
    effect = f"A change of {size(row['detectable'], unit=unit_of(row))}"
    return f"{text} {effect} would have been shown in 8 of 10 such studies."


def _comparison_in_words(verdict: str, row: Row | None, other: str) -> str:
    if row is None:
        return ""
    lost = f"But it is not shown to beat {other}" if verdict in ("teaching", "helps") else ""
    start = direction(row, f"Against {other}", f"It does worse than {other}", lost)
    end = "" if start else ", which may be chance"
    return f" {start or f'Against {other}'}: {change(row)}{end}."


# The number of cases that would settle a verdict


def settling_sentences(undecided: pd.DataFrame, needed: pd.DataFrame | None) -> Sentences:
    """Describe how many cases each undetermined skill needs."""
    open_ = [row for _, row in undecided.iterrows()]
    parts = [_rows_needed(needed, row) for row in open_]
    any_known = any(map(len, parts))
    corrected = list(map(_is_corrected, open_))
    if len(undecided) > 1 and any_known:
        firsts = pd.DataFrame([rows.iloc[0] for rows in parts if len(rows)])
        counts, n = firsts["estimate"].dropna(), len(undecided)
        n_settled = len(counts) or len(firsts)
        text = (
            f"{n} {unit_of_rows(undecided)} are undetermined, with {count_range(undecided['n'])} "
            "cases each. If the changes are as estimated, it takes "
            f"{count_range(counts) if len(counts) else 'more than 2,000'} cases to settle "
            f"{'all' if n_settled == n else n_settled} of them"
        )
        text += " by the grader alone" if any(corrected) else ""
        yield Sentence(f"{text}, {_plan_in_words(firsts.iloc[0])}.")
    if len(undecided) <= _FEW or not any_known:
        for rows, alone, row in zip(parts, corrected, open_, strict=True):
            text = f"{skill_and_agent(row)}: how many cases would settle it is not known."
            if len(rows):
                how = "estimated" if alone else "observed"
                text = f"{skill_and_agent(row)}: if the change is as {how} "
                text += f"({signed(rows['size'].iloc[0])}), "
                text += "by the grader alone, " if alone else ""
                words = list[str]()
                for _, each in rows.iterrows():
                    count = f"{each['estimate']:,.0f}"
                    if not has_estimate(each):
                        count = f"more than {int(str(each['note']).split()[2]):,}"
                    would = "" if words else " cases would show"
                    words.append(f"{count}{would} {_shown_by(each)}")
                text += f"{listing(words)}, {_plan_in_words(rows.iloc[0])}."
            yield Sentence(text, row["skill"])
    if any_known:
        yield Sentence(FIXED_IN_ADVANCE)


def _rows_needed(needed: pd.DataFrame | None, row: Row) -> pd.DataFrame:
    """Return the rows of `needed` for one skill that have a number of cases."""
    if needed is None or needed.empty:
        return pd.DataFrame()
    keys = columns_of(row, "skill", "agent", "condition")
    rows = needed[needed[keys].eq(row[keys]).all(axis=1)]
    return rows[rows["estimate"].notna() | rows["note"].str.startswith("more than ")]


def _shown_by(row: Row) -> str:
    """Name what a study with this number of cases would show."""
    if abs(row["size"]) < row["margin"]:
        return "no change beyond the margin"
    effect = "a gain" if row["size"] > 0 else "a loss"
    return f"{effect} beyond the margin" if row["margin"] else effect


def _plan_in_words(row: Row) -> str:
    return f"with {rate(row['power'])} power and {plural(row['n_repeats'], 'repeat')}"
