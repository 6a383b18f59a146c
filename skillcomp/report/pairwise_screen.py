"""The first screen of a pairwise study: position bias, agreement with gold, and ties."""

from __future__ import annotations

from typing import Any

from skillcomp import bias
from skillcomp.report.study_data import StudyData, StudyEstimates
from skillcomp.report.study_screen import StudyScreen

_SHARES = {"position_consistency": "same choice", "position_reversals": "other choice",
           "position_tie_differences": "a tie in one order"}  # fmt: skip


def can_judge_pairs(data: StudyData) -> bool:
    """Return whether there are preferences between answers."""
    winners = [name for name in ("winner", "winner_position") if name in data.pairwise]
    return False


def pairwise_screen(
    data: StudyData, results: StudyEstimates, grader: str, **how: Any
) -> StudyScreen:
    """Estimate position bias and, if the verdicts are those of pairs, agreement with gold."""
    results.add(
        "position", True, bias.position, data.pairwise, by=["grader"], cases=data.cases
    )
    raise NotImplementedError
