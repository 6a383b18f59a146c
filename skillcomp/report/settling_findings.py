"""Sentences on the number of cases that would settle the verdicts of a study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from skillcomp.planning.cases_to_settle import MANY_REPEATS, MOST_REPEATS
from skillcomp.report import phrases as say
from skillcomp.report.phrases import Row, Sentence, Sentences
from skillcomp.skillverdicts.corrected_deltas import NAIVE

# with more undetermined skills than this, there are no sentences on single skills
_FEW = 4
_SHOWN: Mapping[Any, str] = {
    "helps": "a gain",
    "hurts": "a loss",
    "teaching": "a gain beyond the margin",
    "harmful": "a loss beyond the margin",
    "ineffective": "no change beyond the margin",
}
_MORE_THAN = "more than "  # start of the note if a number of cases is too large to be computed
FIXED_IN_ADVANCE = (
    "Fix the number of cases in advance: a t test looked at after 20, 40, 80 and 160 cases errs in "
    "14 % of null studies, not 5 %."
)


def settling_sentences(
    undecided: pd.DataFrame, needed: pd.DataFrame | None, names: Sequence[str], by: Sequence[str]
) -> Sentences:
    """Describe how many cases each undetermined skill needs; ``names`` has a name for each row."""
    parts = [_rows_of(needed, row, by) for _, row in undecided.iterrows()]
    if len(undecided) > 1 and any(len(rows) for rows in parts):
        yield Sentence(_sentence_on_all(undecided, parts))
    if len(undecided) <= _FEW or not any(len(rows) for rows in parts):
        for name, rows, (_, row) in zip(names, parts, undecided.iterrows(), strict=True):
            yield Sentence(f"{name}: {_settling_words(rows, _is_corrected(row))}", row["skill"])
    if any(len(rows) for rows in parts):
        yield Sentence(FIXED_IN_ADVANCE)


def _is_corrected(row: Row) -> bool:
    return bool(row.get("estimator", NAIVE) != NAIVE)


def _rows_of(needed: pd.DataFrame | None, row: Row, by: Sequence[str]) -> pd.DataFrame:
    """Return the rows of `needed` for one skill; none if no number of cases is known for it."""
    if needed is None:
        return pd.DataFrame()
    keys = [*by, "condition"]
    rows = needed[needed[keys].eq(row[keys]).all(axis=1)]
    at = rows[rows["measure"].eq("cases_at_estimate")]
    return rows if any(_count(count) for _, count in at.iterrows()) else rows.iloc[:0]


def _count(row: Row) -> str:
    """Format a number of cases; empty if it is unknown."""
    if pd.notna(row["estimate"]):
        return f"{row['estimate']:,.0f}"
    note = str(row["note"])
    return f"more than {int(note.split()[2]):,}" if note.startswith(_MORE_THAN) else ""


def _counts_in_words(rows: pd.DataFrame, measure: str) -> str:
    """Return words such as "31 cases would show a gain and 37 a gain beyond the margin"."""
    rows = rows[rows["measure"].eq(measure)]
    parts = [(_count(row), _SHOWN[row["sought"]]) for _, row in rows.iterrows()]
    parts = [(count, what) for count, what in parts if count]
    words = [f"{count} cases would show {what}" for count, what in parts[:1]]
    return say.listing([*words, *(f"{count} {what}" for count, what in parts[1:])]) if words else ""


def _settling_words(rows: pd.DataFrame, corrected: bool) -> str:
    """Describe the number of cases that would settle a verdict, and what repeats would achieve.

    With `corrected`, the change that the text states is the corrected estimate, but the numbers of
    cases are computed from the verdicts of the grader alone.
    """
    if rows.empty:
        return "how many cases would settle it is not known."
    first, low = rows.iloc[0], rows[rows["measure"].eq("cases_at_20th_percentile")]
    how = "estimated" if corrected else "observed"
    text = f"if the change is as {how} ({say.signed(first['size'])}), "
    text += "by the grader alone, " if corrected else ""
    text += f"{_counts_in_words(rows, 'cases_at_estimate')}, {_plan_in_words(first)}; "
    cautious = _counts_in_words(low, "cases_at_20th_percentile")
    size = low["size"].dropna()
    at = f"{say.signed(size.iloc[0])}; " if len(size) else ""
    text += f"if the change is less favourable ({at}a one-in-five chance), "
    none = low["estimate"].isna() & ~low["note"].str.startswith(_MORE_THAN)
    rest = [f"no number of cases would show {_SHOWN[word]}" for word in low.loc[none, "sought"]]
    text += "; ".join(filter(None, [cautious, *rest[:1]]))
    return f"{text}. {_fewest_in_words(rows)}"


def _plan_in_words(row: Row) -> str:
    repeats = f"{row['n_repeats']:.0f} repeat{say.plural(row['n_repeats'])}"
    return f"with {say.rate(row['power'])} power and {repeats}"


def _fewest_in_words(rows: pd.DataFrame) -> str:
    fewest = rows.loc[rows["measure"].eq("fewest_cases"), "estimate"].min()
    start = f"With fewer than {fewest:,.0f} cases no result could settle it. "
    return f"{'' if pd.isna(fewest) else start}{_repeats_in_words(rows)}"


def _repeats_in_words(rows: pd.DataFrame) -> str:
    """Describe what more repeats of the same cases would show."""
    rows = rows[rows["measure"].eq("repeats_at_estimate")]
    cases = f"these {rows['n_cases'].iloc[0]:,.0f} cases"
    enough = [
        (f"{row['estimate']:.0f}", _SHOWN[row["sought"]])
        for _, row in rows[rows["estimate"].notna()].iterrows()
    ]
    never = [_SHOWN[word] for word in rows.loc[rows["note"].eq(MANY_REPEATS), "sought"]]
    if not enough and not never:
        return f"What more repeats of {cases} would achieve is not known."
    if not enough:
        return f"Even {MOST_REPEATS} repeats of {cases} would not show {never[0]}."
    count, what = enough[0]
    parts = [f"{count} repeats of {cases} would show {what}", *map(" ".join, enough[1:])]
    end = f"; even {MOST_REPEATS} would not show {never[0]}" if never else ""
    return f"Instead, {say.listing(parts)}{end}."


def _sentence_on_all(undecided: pd.DataFrame, parts: Sequence[pd.DataFrame]) -> str:
    """Summarise how many cases each skill needs; each frame of `parts` is about one skill."""
    counted = [rows for rows in parts if len(rows)]
    firsts = pd.DataFrame([rows.iloc[0] for rows in counted])
    n, n_known = len(undecided), int(firsts["estimate"].notna().sum())
    unit = "pairs of skill and agent" if "agent" in undecided else "skills"
    text = f"{n} {unit} are undetermined, with {say.count_range(undecided['n'])} cases each. "
    counts = say.count_range(firsts["estimate"].dropna()) if n_known else "more than 2,000"
    n_settled = n_known or len(firsts)
    which = "all" if n_settled == n else f"{n_settled}"
    text += f"If the changes are as estimated, it takes {counts} cases to settle {which} of them"
    if any(_is_corrected(row) for _, row in undecided.iterrows()):
        text += " by the grader alone"
    text += f", {_plan_in_words(firsts.iloc[0])}."
    low = [rows[rows["measure"].eq("cases_at_20th_percentile")].iloc[0] for rows in counted]
    n_open = sum(not _count(row) for row in low)
    if not n_open:
        return text
    which = "any" if n_open == n else f"{n_open}"
    less = "If the changes are less favourable (a one-in-five chance)"
    return f"{text} {less}, no number of cases would settle {which} of them."
