"""Sentences on the number of cases that would settle the verdicts of a study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from skillcomp.planning.cases_to_settle import MANY_REPEATS, MOST_REPEATS
from skillcomp.report import phrases as say
from skillcomp.report.phrases import Row, Sentence, Sentences

# with more undetermined skills than this, one sentence is about all of them
_FEW = 4
_SHOWN: Mapping[Any, str] = {
    "helps": "a gain",
    "hurts": "a loss",
    "teaching": "a gain beyond the margin",
    "harmful": "a loss beyond the margin",
    "ineffective": "no change beyond the margin",
}
_MORE_THAN = "more than "  # begins the note of a number of cases that is too large to be computed
FIXED_IN_ADVANCE = (
    "Fix the number of cases in advance: adding cases until a verdict appears inflates its error "
    "(a t test looked at after 20, 40, 80 and 160 cases errs in 14 % of null studies, not 5 %)."
)


def settling_sentences(
    undecided: pd.DataFrame, needed: pd.DataFrame | None, names: Sequence[str], by: Sequence[str]
) -> Sentences:
    """Describe how many cases each undetermined skill needs; ``names`` are those of the rows."""
    parts = [_rows_of(needed, row, by) for _, row in undecided.iterrows()]
    if len(undecided) > _FEW and any(len(rows) for rows in parts):
        yield Sentence(_sentence_on_all(undecided, parts))
    else:
        for name, rows, (_, row) in zip(names, parts, undecided.iterrows(), strict=True):
            yield Sentence(f"{name}: {_settling_words(rows)}", row["skill"])
    if any(len(rows) for rows in parts):
        yield Sentence(FIXED_IN_ADVANCE)


def _rows_of(needed: pd.DataFrame | None, row: Row, by: Sequence[str]) -> pd.DataFrame:
    """Return the numbers of one skill, without those for an unknown change."""
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
    """Return such words as "31 cases would show a gain and 37 a gain beyond the margin"."""
    rows = rows[rows["measure"].eq(measure)]
    parts = [(_count(row), _SHOWN[row["sought"]]) for _, row in rows.iterrows()]
    parts = [(count, what) for count, what in parts if count]
    words = [f"{count} cases would show {what}" for count, what in parts[:1]]
    return say.listing([*words, *(f"{count} {what}" for count, what in parts[1:])]) if words else ""


def _settling_words(rows: pd.DataFrame) -> str:
    """Describe the number of cases that would settle a verdict, and what repeats would achieve."""
    if rows.empty:
        return "how many cases would settle it is not known."
    first, low = rows.iloc[0], rows[rows["measure"].eq("cases_at_20th_percentile")]
    text = f"if the change is as observed ({say.signed(first['size'])} points), "
    text += f"{_counts_in_words(rows, 'cases_at_estimate')}, {_plan_in_words(first)}; "
    cautious = _counts_in_words(low, "cases_at_20th_percentile")
    size = low["size"].dropna()
    at = f" ({say.signed(size.iloc[0])})" if len(size) else ""
    text += f"at the 20th percentile of the change{at} "
    none = low["estimate"].isna() & ~low["note"].str.startswith(_MORE_THAN)
    rest = say.listing([_SHOWN[word] for word in low.loc[none, "sought"]]) if none.any() else ""
    of_which = f" for {rest}" if cautious else ""
    text += cautious + ("; " if cautious and rest else "")
    text += f"no number can be promised{of_which}" if rest else ""
    return f"{text}. {_fewest_in_words(rows)}"


def _plan_in_words(row: Row) -> str:
    repeats = f"{row['n_repeats']:.0f} repeat{say.plural(row['n_repeats'])}"
    return f"with {say.rate(row['power'])} power and {repeats}"


def _fewest_in_words(rows: pd.DataFrame) -> str:
    fewest = rows.loc[rows["measure"].eq("fewest_cases"), "estimate"].min()
    repeats = rows[rows["measure"].eq("repeats_at_estimate")].iloc[0]
    text = "" if pd.isna(fewest) else f"Fewer than {fewest:,.0f} cases cannot settle it. "
    cases = f"{repeats['n_cases']:,.0f} cases of this study"
    if pd.notna(repeats["estimate"]):
        return f"{text}{repeats['estimate']:.0f} repeats of the {cases} would do instead."
    if str(repeats["note"]) == MANY_REPEATS:
        return f"{text}Nor would {MOST_REPEATS} repeats of the {cases}."
    return f"{text}What more repeats of the {cases} would achieve is not known."


def _sentence_on_all(undecided: pd.DataFrame, parts: Sequence[pd.DataFrame]) -> str:
    """Summarise the numbers of many skills: for each, those of the first verdict it points to."""
    counted = [rows for rows in parts if len(rows)]
    firsts = pd.DataFrame([rows.iloc[0] for rows in counted])
    n_known = int(firsts["estimate"].notna().sum())
    counts = say.count_range(firsts["estimate"].dropna()) if n_known else "more than 2,000"
    unit = "pairs of skill and agent" if "agent" in undecided else "skills"
    text = f"{len(undecided)} {unit} are undetermined: if the changes are as observed, {counts} "
    text += f"cases each would show them, {_plan_in_words(firsts.iloc[0])}"
    text += f" ({n_known} of {len(undecided)})" if n_known < len(undecided) else ""
    low = [rows[rows["measure"].eq("cases_at_20th_percentile")].iloc[0] for rows in counted]
    n_open = sum(pd.isna(row["estimate"]) for row in low)
    text += f"; for {n_open} of them no number can be promised" if n_open else ""
    return f"{text}. They have {say.count_range(undecided['n'])}."
