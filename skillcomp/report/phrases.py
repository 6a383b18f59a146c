"""Phrases of sentences: rates, differences, counts and names in words; verdicts on skills."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, TypeAlias, TypeGuard

import pandas as pd

from skillcomp.errors import plural as plural
from skillcomp.frames.contracts import DIFFERENT_MODELS, REPLACED
from skillcomp.frames.estimates import columns_of
from skillcomp.planning.power import MOST_CASES
from skillcomp.skillverdicts import FEWEST_GOLD, NAIVE
from skillcomp.stats.results import Fields
from skillcomp.stats.results import p_value as p_value
from skillcomp.style import called, quantity

Row: TypeAlias = pd.Series
LIMITS = ["estimate", "ci_low", "ci_high"]
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


def rows_like(frame: pd.DataFrame, row: Row) -> pd.DataFrame:
    """Return the rows of `frame` that have the skill, agent and condition of `row`."""
    names = [name for name in columns_of(frame, "skill", "agent", "condition") if name in row]
    return frame[frame[names].eq(row[names]).all(axis=1)]


def matching_row(frame: pd.DataFrame | None, row: Row) -> Row | None:
    """Return the only row like `row` that has an estimate; None if there is no such row."""
    same = [] if frame is None else [row for _, row in rows_like(frame, row).iterrows()]
    return same[0] if len(same) == 1 and has_estimate(same[0]) else None


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
    return change(row[LIMITS] / 100, unit)


def percent(row: Row) -> str:
    """Format a ratio as a change in percent, such as "+104 % [80, 131]"."""
    text = change(row[LIMITS] - 1.0)
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


def listing_of_rows(rows: pd.DataFrame, phrase: str) -> str:
    """Return a list with the phrase of each row."""
    return listing(phrase.format_map(fields_of(row)) for _, row in rows.iterrows())


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

        Two words as in ``gain/loss`` are for a positive and for a negative number.

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
        if "/" in form:
            return form.split("/")[int(number < 0)]
        if form.startswith("of "):
            return share(value, form[3:])
        if form in _OF_ROWS:
            return _OF_ROWS[form](value)
        if self.unit == "score" and form in ("rate", "size", "signed"):
            return signed(number, unit="score") if form == "signed" else quantity(number)
        if form in _OF_NUMBERS:
            return _OF_NUMBERS[form](number)
        if form in ("", "s"):
            return str(value) if form else called(value)
        return format(value, form)


_SOURCES = {"gold_only": " by gold alone", "pooled": " (error rates of all skills)"}
_OF_ROWS: dict[str, Callable[[Row], str]] = {
    "change": change,
    "points": points,
    "percent": percent,
    "share": share,
    "limits": limits,
    "lost": lost,
    "cases": on_cases,
    "kappa": coefficient_text,
    "clusters": lambda row: f"{row['n_clusters']:,.0f}",
    "reason": lambda row: reason(row),
    "source": lambda row: _SOURCES.get(str(row.get("estimator")), ""),
}
_OF_NUMBERS: dict[str, Callable[[Any], str]] = {
    "rate": rate,
    "size": size,
    "signed": signed,
    "coefficient": coefficient,
    "names": lambda text: listing(text.split(", ")),
    "p": p_value,
    "adjusted p": partial(p_value, name="adjusted p"),
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
    what = "checks" if "share" in str(row.get("measure")) else "answers"
    words = {
        "row": row,
        "grader": row.get("grader", "The grader"),
        "agrees": agrees_with(row) if row.get("measure") == "raw_agreement" else "",
        "how": treatment(condition, reference),
        "without": without(reference),
        "against": called(reference),
        "what": what,
        "mean": "the mean score" if unit_of(row) == "score" else f"the share of {what} that pass",
        "reason": reason(row),
    }
    fields = row.to_dict() | words | dict(more or {})
    return {str(name): Field(value, unit_of(row)) for name, value in fields.items()}


Part: TypeAlias = str | tuple[str, ...]  # Texts, of which the first known one is said.
Phrase: TypeAlias = Iterable[Part]


def filled(phrase: Phrase, fields: Mapping[str, Field]) -> str:
    """Fill in a phrase; leave out parts with unknown numbers, but raise LookupError for the first.

    Of a part with several texts, the first without an unknown number counts.

    >>> row = pd.Series({"estimate": 0.164, "ci_low": 0.11, "ci_high": 0.22, "n": 419})
    >>> phrase = "It fails {row:of items}", (", kappa {kappa:coefficient}", ", no kappa")
    >>> filled(phrase, fields_of(row))
    'It fails 16 % [11, 22] of 419 items, no kappa'
    >>> filled(phrase, fields_of(row) | {"kappa": Field(0.79)})
    'It fails 16 % [11, 22] of 419 items, kappa .79'
    """
    texts = []
    for part in phrase:
        for text in (part,) if isinstance(part, str) else part:
            with suppress(LookupError):
                texts.append(text.format_map(fields))
                break
        else:
            if not texts:
                text.format_map(fields)  # raises
    return "".join(texts)


RATES = "with {how} {rate:rate} of the {what} pass and {without} {reference_rate:rate}"
_MEAN_SCORES = "the mean score with {how} is {rate:rate} and {without} {reference_rate:rate}"
_UNSEEN = "even the largest possible change may go unseen"


# verdict -> its verb for one skill and for several
_VERBS = {
    "teaching": ("teaches", "teach"),
    "helps": ("helps", "help"),
    "redundant": ("is redundant", "are redundant"),
    "ineffective": ("changes nothing", "change nothing"),
    "hurts": ("hurts", "hurt"),
    "harmful": ("harms", "harm"),
    "undetermined": ("is undetermined", "are undetermined"),
}
# a verdict, or what keeps a skill undetermined -> the reason, and a phrase of the sentence
_REASONS: dict[str, Part] = {
    "teaching": "{row:limits} is above the margin of {margin:size}",
    "helps": "{row:limits} excludes 0, but not a gain within the margin",
    "redundant": "{row:limits} adds little to {reference_rate:rate}",
    "ineffective": "{row:limits} is within the margin of {margin:size}",
    "hurts": "{row:limits} excludes 0, but not a loss within the margin",
    "harmful": "{row:limits} is below a loss of {margin:size}",
    "no interval": "there is no interval",
    "overturned": "the missing answers could overturn it",
    "unconfirmed": (
        "labels on {n_gold:#case} do not confirm the grader's verdict",
        "no label confirms the grader's verdict",
    ),
    "shown alone": "{row:limits} excludes 0, but not once adjusted for all verdicts",
    "within alone": "{row:limits} is within the margin, but not once adjusted",
    "unseen": f"{{row:limits}}; {_UNSEEN}",
    "detectable": "{row:limits}; a change below {detectable:size} may go unseen",
    "undetermined": "{row:limits} includes 0 and changes beyond the margin",
}
_ADJUSTED = (
    "; adjusted for the {n_rows:#verdict} it does not ({p_adjusted:adjusted p}).",
    " by its interval, but not by its p-value ({p_adjusted:p}).",
    ", without an adjusted p-value.",
)
_REMARKS: dict[str, Phrase] = {
    "helps": [" The gain may be smaller than the margin of {margin:size}."],
    "hurts": [" The loss may be smaller than the margin of {margin:size}."],
    "overturned": [" The verdict therefore stays open."],
    "unconfirmed": [
        (
            " Labels on all {hopeless:#case} would not decide; more cases are needed.",
            " Labels on about {labels_needed:#more case} would decide.",
            " Labels on at least {lacking:#more case} are needed.",
            " How many more labels would decide is not known.",
        )
    ],
    "shown alone": [" Taken alone this row shows a {ci_high:gain/loss}", _ADJUSTED],
    "within alone": [
        " The interval is within {margin:size}, but not once adjusted for ",
        ("the {n_rows:#verdict}.", "several verdicts."),
    ],
    "unseen": [f" In such a study {_UNSEEN}."],
    "detectable": [" A change of {detectable:size} would have been shown in 8 of 10 such studies."],
}
_LOSSES = ["hurts", "harmful"]
FIXED_IN_ADVANCE = (
    "A number of cases that rests on the change observed can be too small or too large by chance. "
    "Fix the number of cases in advance: a t test looked at after 20, 40, 80 and 160 cases errs in "
    "14 % of null studies, not 5 %."
)
# start of a note that the page says first -> what it means for the result
_CAUTIONS = {
    DIFFERENT_MODELS: "a change may be that of the models",
    REPLACED: "this alone changes the pass rates",
}
_MISSING = (
    " {n_missing:,.0f} of {n_attempts:,.0f} answers under {condition} and "
    "{n_missing_reference:,.0f} of {n_attempts_reference:,.0f} answers under {reference} are "
    "missing: if all had gone against {condition}, the change would be {worst_low:signed}; if "
    "all for it, {worst_high:signed}."
)
_ASSUMED = " The verdict assumes that they are missing {assume_missing}."
_TOO_MANY = f"more than {MOST_CASES:,}"
_PLAN = "with {power:rate} power and {n_repeats:#repeat}"


def main_rows(decided: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the condition ``skill``; if there are none, of all except the placebo."""
    for chosen in (decided["condition"].eq("skill"), decided["condition"].ne("placebo")):
        if chosen.any():
            return decided[chosen]
    return decided


def state_of(row: Row) -> str:
    """Return the verdict of a row or, if it is undetermined, what keeps it so."""
    if row["verdict"] in _VERBS and row["verdict"] != "undetermined":
        return str(row["verdict"])
    low, high, margin = row["ci_low"], row["ci_high"], row["margin"]
    detectable = row.get("detectable")
    states = {
        "overturned": row.get("overturned", False) and not row.get("assume_missing", ""),
        "unconfirmed": row.get("verdict_uncorrected", "undetermined") != "undetermined",
        "no interval": pd.isna(low) or pd.isna(high),
        "shown alone": low > 0 or high < 0,
        "within alone": low > -margin and high < margin,
        "unseen": detectable == math.inf,
        "detectable": pd.notna(detectable),
    }
    return next((state for state, holds in states.items() if holds), "undetermined")


def undetermined_rows(decided: pd.DataFrame, *states: str) -> pd.DataFrame:
    """Return the undetermined rows in these states; by default, those that lack only cases.

    Labels or missing answers would settle the others.
    """
    rows = decided[decided["verdict"].eq("undetermined")]
    states = states or tuple({*_REASONS} - {"overturned", "unconfirmed"})
    return rows.loc[[state_of(row) in states for _, row in rows.iterrows()]]


def verdict_sentences(decided: pd.DataFrame) -> Sentences:
    """Count the verdicts, and describe each."""
    # no verdict is corrected or could be confirmed by gold
    unchecked = "n_gold" not in decided or not decided["n_gold"].gt(0).any()
    yield from headline_sentences(main_rows(decided), unchecked)
    yield from row_sentences(decided, unchecked)


def headline_sentences(main: pd.DataFrame, unchecked: bool) -> Sentences:
    """Count the verdicts; ``unchecked`` means that the study has no gold."""
    for start, end in _CAUTIONS.items():
        for text in main["note"].str.extract(f"({start}[^;]*)")[0].dropna().unique():
            yield Sentence(f"{text[:1].upper()}{text[1:]}; {end}.")
    n, rows = len(main), unit_of_rows(main)
    if n > len(main.drop_duplicates(columns_of(main, "skill", "agent"))):
        rows = "conditions" if main["skill"].nunique() == 1 else "pairs of skill and condition"
    counts = _counts_in_words(main["verdict"])
    if not counts:
        return
    text = f"Of {n} {rows}, {_counts_listed(counts)}"
    if len(counts) == 1 and main["verdict"].isin(list(_VERBS)).all():
        whole = {1: called(main["skill"].iloc[0]), 2: f"Both {rows}"}.get(n, f"All {n} {rows}")
        text = f"{whole} {counts[0][1]}"
    if unchecked:
        first = text[:1].lower() if n > 1 else text[:1]
        what = "scores" if unit_of(main.iloc[0]) == "score" else "grader"
        text = f"Nobody has checked the {what}. By the grader alone: {first}{text[1:]}"
    alone = undetermined_rows(main, "unconfirmed")
    if len(alone):
        n_open = int(main["verdict"].eq("undetermined").sum())
        others = ["undetermined"] * (n_open - len(alone))
        counts = _counts_in_words([*alone["verdict_uncorrected"], *others])
        words = f"by the grader alone {_counts_listed(counts)}"
        if len(counts) == 1:
            words = f"by the grader alone {'it' if n_open == 1 else 'they'} {counts[0][1]}"
        elif n_open < n:
            words = f"of these, {words}"
        text += f"; {words}"
    yield Sentence(f"{text}.")


def _counts_in_words(verdicts: Iterable[str]) -> list[tuple[int, str]]:
    """Return the number of each verdict, with its verb."""
    n_of = Counter(verdicts)
    return [
        (n_of[name], many if n_of[name] > 1 else one)
        for name, (one, many) in _VERBS.items()
        if name in n_of
    ]


def _counts_listed(counts: Iterable[tuple[int, str]]) -> str:
    return listing(f"{n} {verb}" for n, verb in counts)


def overall_sentences(
    overall: pd.DataFrame, corrected: pd.DataFrame | None, main: pd.DataFrame, unchecked: bool
) -> Sentences:
    """Describe the change over all skills, its correction, and name the skills with a loss."""
    single = main["skill"].nunique() == 1
    averaged = "agent" in main and main["agent"].nunique() > 1
    over = "Over all skills, "
    if averaged:
        what = "agents" if single else "skills and agents"
        over = f"Over all {what} (agents averaged within each case), "
    for _, row in overall.iterrows():
        own = main[main["condition"].eq(row["condition"])]
        words: Fields = {"over": "" if single and not averaged else over, "best": None}
        if corrected is not None:
            best = marked(corrected[corrected["condition"].eq(row["condition"])])
            known = [best for _, best in with_estimate(best, "ci_low").iterrows()]
            words["best"] = next(filter(_is_corrected, known), None)
        phrase: list[Part] = [f"{{over:s}}{_levels_of(row)}: {{row:change}}{{row:cases}}"]
        if not unchecked and unit_of(row) != "score":
            phrase.append(("; corrected for the grader's errors, {best:change}", "; not corrected"))
        if not has_estimate(row):
            phrase = ["With {how:s}: not known, {reason:s}"]
        text = filled(phrase, fields_of(row, words))
        text = f"{text[:1].upper()}{text[1:]}." + _losses_in_words(own)
        yield Sentence(text, row["condition"])


def _losses_in_words(main: pd.DataFrame) -> str:
    """Name the skills with a loss, then those with an unconfirmed loss."""
    alone = undetermined_rows(main, "unconfirmed")
    losses = {
        "A loss is shown for {}.": main[main["verdict"].isin(_LOSSES)],
        "According to the grader, a loss is shown for {}, but labels do not confirm it.": (
            alone[alone["verdict_uncorrected"].isin(_LOSSES)] if len(alone) else alone
        ),
    }
    return "".join(
        f" {text.format(listing(skill_and_agent(row) for _, row in rows.iterrows()))}"
        for text, rows in losses.items()
        if len(rows)
    )


def row_sentences(
    rows: pd.DataFrame,
    unchecked: bool,
    placebo: pd.DataFrame | None = None,
    previous: pd.DataFrame | None = None,
) -> Sentences:
    """Describe each verdict and its evidence; a placebo has only evidence."""
    for _, row in rows.iterrows():
        others = {"placebo": matching_row(placebo, row), "previous": matching_row(previous, row)}
        fields = fields_of(row, _words_on_verdict(row) | others)
        verdict, why = row["verdict"], None
        if verdict in _VERBS:
            why = filled([_REASONS[state_of(row)]], fields)
        phrase: Phrase = _phrase_of_verdict(row, unchecked)
        if pd.isna(row["estimate"]):
            phrase = ["{name:s} cannot be judged: {reason:s}."]
        elif row["condition"] == "placebo":
            phrase = [f"{{name:s}}: {_evidence(row)}{{row:cases}}."]
            verdict = why = None
        yield Sentence(filled(phrase, fields), row["skill"], verdict, why)


def _phrase_of_verdict(row: Row, unchecked: bool) -> Phrase:
    """Yield the parts on a verdict: the evidence for it, what limits it, and comparisons."""
    state, corrected = state_of(row), _is_corrected(row)
    yield "{name:s} {verb:s}"
    if state == "unconfirmed":
        yield " according to the grader"
        yield ", but labels on {n_gold:#case} do not confirm it", ", but no case has a label"
    elif unchecked and state == row["verdict"] != "undetermined":
        yield " by the grader alone"
    yield f": {_evidence(row)}{{counted:cases}}.", ": {row:change}{counted:cases}.", "."
    if row.get("overturned", False):
        yield _MISSING + (_ASSUMED if row["assume_missing"] else "")
    if state == "unconfirmed" and corrected and (row["ci_low"] > 0 or row["ci_high"] < 0):
        yield " Corrected and taken alone it shows a {ci_high:gain/loss}"
        yield _ADJUSTED
    yield from _REMARKS.get(state, ())
    if state not in ("unconfirmed", "overturned"):
        end = " (grader alone)" if corrected else ""
        worse = "But it is not shown to beat" if state in ("teaching", "helps") else ""
        yield _comparison("placebo", f"its placebo{end}", worse)
        yield _comparison("previous", f"the previous version{end}", "")


def _comparison(name: str, other: str, worse: str) -> str:
    """Return the phrase of a comparison; `worse` starts it if no gain is shown."""
    start = f"Against {other}|It does worse than {other}|{worse or 'Against'} {other}"
    end = "" if worse else ", which may be chance"
    return f" {{{name}:{start}}}: {{{name}:change}}{{{name}:||{end}}}."


def _words_on_verdict(row: Row) -> Fields:
    """Return further fields of a phrase on a verdict; those that do not apply are None."""
    n_gold = row.get("n_gold", float("nan"))
    n_rows = re.search(r"by Holm over (\d+)", str(row.get("method", "")))
    counted = ["n_missing", "n_missing_reference"] if row.get("overturned", False) else []
    verdict = row["verdict_uncorrected" if state_of(row) == "unconfirmed" else "verdict"]
    condition = f" ({row['condition']})" if row["condition"] != "skill" else ""
    return {
        "name": f"{skill_and_agent(row)}{condition}",
        "verb": _VERBS.get(verdict, _VERBS["undetermined"])[0],
        "counted": row.drop(counted),  # the sentence on missing answers has their numbers
        "n_rows": int(n_rows[1]) if n_rows else None,
        "hopeless": row["n"] if row.get("labels_needed") == math.inf else None,
        "lacking": max(FEWEST_GOLD - n_gold, 0),
    }


def _levels_of(row: Row) -> str:
    return _MEAN_SCORES if unit_of(row) == "score" else RATES


def _evidence(row: Row) -> str:
    """Describe the rates and the change (corrected, if there is a correction) behind a verdict."""
    within = row.get("verdict") == "ineffective"
    effect = "the whole interval {row:limits} is within {margin:size}" if within else "{row:change}"
    if _is_corrected(row):
        return f"{RATES} by the grader; corrected, {effect}"
    if row.get("verdict") == "redundant" and unit_of(row) != "score":
        return "{reference_rate:rate} of the {what} pass {without}; with it {row:change}"
    return f"{_levels_of(row)}{'; ' if within else ', '}{effect}"


def _is_corrected(row: Row) -> bool:
    return row.get("estimator") not in (None, "", NAIVE)


# The number of cases that would settle a verdict


def settling_sentences(undecided: pd.DataFrame, needed: pd.DataFrame | None) -> Sentences:
    """Give the range of the numbers of cases that undetermined skills need."""
    if undecided.empty:
        return
    n, of = len(undecided), f"with {count_range(undecided['n'])} cases"
    text = f"{n} {unit_of_rows(undecided)} are undetermined, {of} each. "
    it, them = "the changes are", "them"
    if n == 1:
        text = f"{skill_and_agent(undecided.iloc[0])} is undetermined, {of}. "
        it, them = "the change is", "it"
    rows = _first_rows_needed(undecided, needed)
    if rows.empty:
        yield Sentence(f"{text}How many cases would settle {them} is not known.")
        return
    counts = with_estimate(rows)["estimate"]
    n_settled = len(counts) or len(rows)
    settled = f"{'all' if n_settled == n else n_settled} of them" if n > 1 else them
    alone = any(_is_corrected(row) for _, row in undecided.iterrows())
    text += f"If {it} as estimated, it takes "
    text += f"{count_range(counts) if len(counts) else _TOO_MANY} cases to settle {settled}"
    text += f"{' by the grader alone' if alone else ''}, "
    yield Sentence(f"{text}{_PLAN.format_map(fields_of(rows.iloc[0]))}.")
    yield Sentence(FIXED_IN_ADVANCE)


def _first_rows_needed(undecided: pd.DataFrame, needed: pd.DataFrame | None) -> pd.DataFrame:
    """Return for each undetermined skill the first row of `needed` with a number of cases."""
    if needed is None or needed.empty:
        return pd.DataFrame()
    known = needed["estimate"].notna() | needed["note"].str.startswith("more than ")
    parts = [rows_like(needed[known], row).head(1) for _, row in undecided.iterrows()]
    return pd.concat(parts)
