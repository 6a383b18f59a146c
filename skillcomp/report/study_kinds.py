"""Kinds of study that a report recognises: the data and the first screen of each kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from skillcomp.report.calibration_screen import calibration_screen, can_calibrate
from skillcomp.report.grader_screen import can_judge_graders, grader_screen
from skillcomp.report.pairwise_screen import can_judge_pairs, pairwise_screen
from skillcomp.report.study_data import StudyData, StudyEstimates
from skillcomp.report.study_screen import StudyScreen


@dataclass(frozen=True)
class StudyKind:
    """A kind of study: its question, what it needs, its chapters, and its first screen."""

    name: str
    question: str
    needs: str
    chapters: frozenset[str]
    is_possible: Callable[[StudyData], bool]
    make_screen: Callable[..., StudyScreen]


SKILL_QUESTION = "Does the skill teach the agent, and can the grader be trusted?"
_SKILL_NEEDS = "answers to the same cases under two conditions, one of them the reference"
STUDY_KINDS = (
    StudyKind(
        "grader study",
        "Can the grader be trusted?",
        "verdicts with gold labels (from_frame with gold=), or verdicts of two graders, versions "
        "or rounds on the same answers",
        frozenset({"05", "06"}),
        can_judge_graders,
        grader_screen,
    ),
    StudyKind(
        "pairwise study",
        "Does the judge choose the better answer, wherever it is shown?",
        "preferences between two answers (from_pairs)",
        frozenset({"06"}),
        can_judge_pairs,
        pairwise_screen,
    ),
    StudyKind(
        "calibration study",
        "From which length on does a shared n-gram mean copying?",
        "passages that are labelled as copies or as original texts, with their sources "
        "(from_passages)",
        frozenset({"01"}),
        can_calibrate,
        calibration_screen,
    ),
)


def study_screens(
    data: StudyData, results: StudyEstimates, grader: str, *, skip: str = "", **how: Any
) -> tuple[StudyScreen, ...]:
    """Return the first screen of each kind that the study has data for, except the kind `skip`."""
    kinds = [kind for kind in STUDY_KINDS if kind.name != skip and kind.is_possible(data)]
    return tuple(kind.make_screen(data, results, grader, **how) for kind in kinds)


def needs_in_words() -> str:
    """Return one sentence per kind of study, which names the data that this kind needs."""
    needs = {"skill study": _SKILL_NEEDS} | {kind.name: kind.needs for kind in STUDY_KINDS}
    return " ".join(f"A {name} needs {what}." for name, what in needs.items())
