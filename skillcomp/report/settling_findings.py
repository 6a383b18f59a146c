"""Sentences on the number of cases that would settle the verdicts of a study."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from skillcomp.report import phrases as say
from skillcomp.report.phrases import Row, Sentence, Sentences
from skillcomp.skillverdicts.corrected_deltas import NAIVE

# with more undetermined skills than this, there are no sentences on single skills
_FEW = 4
_MORE_THAN = "more than "  # start of the note if a number of cases is too large to be computed
FIXED_IN_ADVANCE = (
    "A number of cases that rests on the change observed can be too small or too large by chance. "
    "Fix the number of cases in advance: a t test looked at after 20, 40, 80 and 160 cases errs in "
    "14 % of null studies, not 5 %."
)


def settling_sentences(undecided: pd.DataFrame, needed: pd.DataFrame | None) -> Sentences:
    """Describe how many cases each undetermined skill needs."""
    parts = [_rows_of(needed, row) for _, row in undecided.iterrows()]
    any_known = any(map(len, parts))
    if len(undecided) > 1 and any_known:
        yield Sentence(_sentence_on_all(undecided, parts))
    if len(undecided) <= _FEW or not any_known:
        for rows, (_, row) in zip(parts, undecided.iterrows(), strict=True):
            text = _settling_words(rows, _is_corrected(row))
            yield Sentence(f"{say.skill_and_agent(row)}: {text}", row["skill"])
    if any_known:
        yield Sentence(FIXED_IN_ADVANCE)


def _is_corrected(row: Row) -> bool:
    return bool(row.get("estimator", NAIVE) != NAIVE)


def _rows_of(needed: pd.DataFrame | None, row: Row) -> pd.DataFrame:
    """Return the rows of `needed` for one skill that have a number of cases."""
    if needed is None or needed.empty:
        return pd.DataFrame()
    keys = say.columns_of(row, "skill", "agent", "condition")
    rows = needed[needed[keys].eq(row[keys]).all(axis=1)]
    return rows[rows["estimate"].notna() | rows["note"].str.startswith(_MORE_THAN)]


def _count(row: Row) -> str:
    if pd.notna(row["estimate"]):
        return f"{row['estimate']:,.0f}"
    return f"more than {int(str(row['note']).split()[2]):,}"


def _shown_by(row: Row) -> str:
    """Name what a study with this number of cases would show."""
    if abs(row["size"]) < row["margin"]:
        return "no change beyond the margin"
    change = "a gain" if row["size"] > 0 else "a loss"
    return f"{change} beyond the margin" if row["margin"] else change


def _settling_words(rows: pd.DataFrame, corrected: bool) -> str:
    """Describe the number of cases that would settle a verdict.

    With `corrected`, the change that the text states is the corrected estimate, but the numbers of
    cases are computed from the verdicts of the grader alone.
    """
    if rows.empty:
        return "how many cases would settle it is not known."
    first = rows.iloc[0]
    how = "estimated" if corrected else "observed"
    text = f"if the change is as {how} ({say.signed(first['size'])}), "
    text += "by the grader alone, " if corrected else ""
    counts = [(_count(row), _shown_by(row)) for _, row in rows.iterrows()]
    words = [f"{count} cases would show {what}" for count, what in counts[:1]]
    words += [f"{count} {what}" for count, what in counts[1:]]
    return f"{text}{say.listing(words)}, {_plan_in_words(first)}."


def _plan_in_words(row: Row) -> str:
    repeats = f"{row['n_repeats']:.0f} repeat{say.plural(row['n_repeats'])}"
    return f"with {say.rate(row['power'])} power and {repeats}"


def _sentence_on_all(undecided: pd.DataFrame, parts: Sequence[pd.DataFrame]) -> str:
    """Summarise how many cases each skill needs; each frame of `parts` is about one skill."""
    firsts = pd.DataFrame([rows.iloc[0] for rows in parts if len(rows)])
    n, n_known = len(undecided), int(firsts["estimate"].notna().sum())
    text = f"{n} {say.unit_of_rows(undecided)} are undetermined, "
    text += f"with {say.count_range(undecided['n'])} cases each. "
    counts = say.count_range(firsts["estimate"].dropna()) if n_known else "more than 2,000"
    n_settled = n_known or len(firsts)
    which = "all" if n_settled == n else f"{n_settled}"
    text += f"If the changes are as estimated, it takes {counts} cases to settle {which} of them"
    if any(_is_corrected(row) for _, row in undecided.iterrows()):
        text += " by the grader alone"
    return f"{text}, {_plan_in_words(firsts.iloc[0])}."
