"""The first screen of a pairwise study: position bias, agreement with gold, and ties."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pandas as pd

from skillcomp import bias
from skillcomp.report import phrases as say
from skillcomp.report.about_graders import about_graders
from skillcomp.report.grader_screen import (
    add_comparisons,
    difference_sentences,
    drift_sentences_of,
    gold_sentences,
)
from skillcomp.report.study_data import StudyData, StudyEstimates
from skillcomp.report.study_screen import StudyScreen, cell_table, draw_shares, topic_sentences

_SHARES = {
    "first_wins": "the answer shown first, in one order",
    "position_consistency": "the same choice",
    "position_reversals": "the other choice",
    "position_tie_differences": "a tie in one order",
}
_CHOICES = ["winner", "winner_position"]
_MOST = 10  # The screen has at most this number of sentences on win rates.
_SIDES = 2  # A comparison has two items: "is the first better?" and "is the second better?".


def can_judge_pairs(data: StudyData) -> bool:
    """Return whether there are preferences between answers."""
    return bool(data.pairwise[_CHOICES].notna().any(axis=None))


def pairwise_screen(
    data: StudyData, results: StudyEstimates, grader: str, *, chosen: bool = False, **how: Any
) -> StudyScreen:
    """Describe position bias and, for a study from `from_pairs`, win rates and agreement.

    `results` has ``agreement`` if the pairs have gold. The new estimates are added to `results`.
    """
    decided = data.pairwise[data.pairwise[_CHOICES].notna().any(axis=1)]
    graders = dict.fromkeys(decided["grader"].dropna())
    judge = grader if chosen or grader in graders else next(iter(graders), "")
    by_grader = {"by": ["grader"], "cases": data.cases}
    results.add("position", True, bias.position, data.pairwise, **by_grader)
    position = results.frames.get("position", pd.DataFrame({"grader": [], "measure": []}))
    agreement = results.frames.get("agreement") if data.is_of_pairs else None
    makers: dict[str, Any] = {"bias": about_graders(position=position)}
    if data.is_of_pairs:
        add_comparisons(data, results, judge)
        makers["drift"] = drift_sentences_of(data, results.frames)
        if agreement is not None:
            makers["differences"] = difference_sentences(data, results.frames, judge)
        makers["gold"] = gold_sentences(data, agreement, judge, per_item=_SIDES)
        systems = data.attempts["agent"].nunique() > 1
        results.add("win_rates", systems, bias.win_rates, data.pairwise, data.attempts, **by_grader)
        makers["wins"] = _win_sentences(results.frames.get("win_rates"), judge)
    makers["limits"] = _limit_sentences(data)
    sentences = topic_sentences(makers, results.missing)
    rows = position[position["measure"].isin(list(_SHARES))]
    rows = rows.assign(measure=rows["measure"].map(_SHARES))
    caption = "What happens to the choice between two answers when their order is swapped."
    return StudyScreen(
        "pairwise study",
        _pairwise_headline(position, agreement, judge),
        _table(data, position, agreement),
        sentences,
        rows,
        caption,
        partial(draw_shares, label="Share of the pairs (95 % CI)"),
    )


def _pairwise_headline(position: pd.DataFrame, agreement: pd.DataFrame | None, judge: str) -> str:
    """Return one sentence on a judge: its consistency, position bias and agreement with gold."""
    rows = say.of_grader(position, judge)
    same, points = rows.get("position_consistency"), rows.get("position_points")
    once = rows.get("first_wins") if same is None else None
    if say.has_estimate(once):
        text = f"{judge} prefers the answer shown first in {say.share(once, 'pairs')}"
        text += ", each shown in one order"
    elif not say.has_estimate(same):
        same = same if once is None else once
        why = say.reason(same) if same is not None else "no pair was judged in both orders"
        text = f"Whether {judge} prefers a place is not known: {why}"
    else:
        text = f"{judge} makes the same choice in both orders in {say.share(same, 'pairs')}"
        if say.has_estimate(points):
            text += f"; being shown first is worth {say.points(points)}"
    if agreement is not None:
        rows = say.of_grader(agreement, judge)
        if say.has_estimate(raw := rows.get("raw_agreement")):
            text += f"; it agrees with gold in {say.rate_text(raw)} of {raw['n'] / _SIDES:,.0f} "
            text += "comparisons"
    return f"{text}."


def _table(data: StudyData, position: pd.DataFrame, agreement: pd.DataFrame | None) -> Any:
    """Return one row per grader: agreement, consistency, position bias and ties."""
    cells, both_orders = [], position["measure"].eq("position_consistency").any()
    for grader, part in position.groupby("grader", sort=False):
        rows, row = say.by_measure(part), {"Grader": str(grader)}
        if agreement is not None:
            gold = say.of_grader(agreement, grader)
            row["Agrees with gold"] = say.rate_text(gold.get("raw_agreement"))
            row["Kappa"] = say.coefficient_text(gold.get("cohen_kappa"))
        same, points = rows.get("position_consistency"), rows["position_points"]
        if both_orders:
            row["Same choice"] = say.rate_text(same) or "not known"
        known = say.has_estimate(points)
        row["Shown first, points"] = say.points(points, unit=False) if known else ""
        own = data.pairwise[data.pairwise["grader"].eq(grader)]["winner"]
        row["Ties"] = say.rate(own.eq("tie").sum() / max(own.notna().sum(), 1))
        row["Pairs"] = f"{points['n'] if same is None else same['n']:,.0f}"
        cells.append(row)
    return cell_table(cells)


def _win_sentences(rates: pd.DataFrame | None, judge: str) -> Iterator[str]:
    """Describe for each pair of systems how often a judge prefers the first one."""
    if rates is None:
        return
    rows = rates[rates["grader"].eq(judge)].dropna(subset=["estimate"])
    for _, row in rows.head(_MOST).iterrows():
        wins = say.share(row, "cases")
        yield f"{row['side']} against {row['opponent']}: {wins} won, a tie as half a win."
    if len(rows) > _MOST:
        yield f"{len(rows) - _MOST} more pairs of systems are in bias.win_rates."


def _limit_sentences(data: StudyData) -> Iterator[str]:
    """Name what the comparisons cannot show."""
    pairs = data.pairwise
    lacking = int(pairs["winner"].isna().sum()) if "winner" in pairs else 0
    if lacking:
        yield f"{lacking:,} of {len(pairs):,} comparisons have no verdict and are left out."
    orders = pairs["order"].dropna().nunique() if "order" in pairs else 0
    if orders < 2:
        yield "Whether a choice holds in the other order is not known: each pair was shown in one."
    if data.gold.empty and data.is_of_pairs:
        yield "Which choices are right is not known without gold: a judge can be wrong twice."
