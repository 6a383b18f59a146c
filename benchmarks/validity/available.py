"""Available power of claims about skills in general, for the note of ``contrast``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.many_studies import counted_studies
from benchmarks.simulated import counts
from benchmarks.validity.methods import Rows
from skillcomp.stats import sides_of_null
from skillcomp.stats.bounded import DELTAS, Arm

SKILLS = (5, 6, 7, 8, 9, 10, 12, 15, 20, 25, 30)
SHARE = 0.9  # share of the studies that show the delta
CASES, ATTEMPTS, SEED = 10, 3, 1
# standard deviations in logits: effects and levels of skills, effects and levels of cases
SPREADS = {
    "between_skill_sd": 2.0, "skill_level_sd": 0.5, "case_effect_sd": 0.5, "between_case_sd": 1.0,
}  # fmt: skip
_PRECISION = 0.005


@dataclass(frozen=True, slots=True)
class Available:
    """Studies of a number of skills, each with ten cases and three attempts."""

    skills: int
    runs: int


def run(cell: Available) -> Rows:
    """Find the smallest delta that excludes 0 in nine of ten studies, by bisection.

    The rates are as far below one half in the baseline as they are above it with the skill.
    """
    low, high = 0.0, 0.98
    while high - low > _PRECISION:
        delta = (low + high) / 2
        low, high = (low, delta) if _shown_share(cell, delta) >= SHARE else (delta, high)
    return [{"skills": cell.skills, "delta": high, "runs": cell.runs}]


def _shown_share(cell: Available, delta: float) -> float:
    drawn = counts(
        n_runs=cell.runs, n_skills=cell.skills, n_cases=CASES, n_repeats=ATTEMPTS,
        baseline_rate=(1 - delta) / 2, delta=delta, seed=SEED, **SPREADS,
    )  # fmt: skip
    skill, baseline = drawn.skill / ATTEMPTS, drawn.baseline / ATTEMPTS
    tries = np.full(skill.shape, float(ATTEMPTS))
    arms = Arm(skill, tries), Arm(baseline, tries, -1.0)
    how: dict[str, Any] = {"arms": arms, "quantity": DELTAS}
    studies, back = counted_studies(skill - baseline, drawn.clusters, **how)
    return float((sides_of_null(studies, quantity=DELTAS)[back] > 0).mean())
