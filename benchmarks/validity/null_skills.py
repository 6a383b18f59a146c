"""Family-wise error of ``helps`` and ``hurts``: skills without an effect in one call of decide."""

from __future__ import annotations

import numpy as np
import pandas as pd

from benchmarks.validity.claims import Claim, deviations
from skillcomp.deltas import paired
from skillcomp.stats import holm

SKILLS, CASES, RATE = 10, 20, 0.5
LEVEL = 0.05


def family_errors(n_studies: int, *, seed: int = 0) -> tuple[float, float]:
    """Return the shares of studies in which a skill without an effect seems to help or hurt.

    The first is with p-values adjusted as one call of decide does, the second without adjustment.
    """
    names = [f"s{number:05d}" for number in range(SKILLS * n_studies)]
    frame = pd.MultiIndex.from_product([names, range(CASES), ["baseline", "skill"]])
    frame = frame.to_frame(index=False, name=["skill", "case_id", "condition"])
    frame["case_id"] = frame["skill"] + "/" + frame["case_id"].astype(str)
    passed = np.random.default_rng(seed).random(len(frame)) < RATE
    frame["passed"] = pd.array(passed, dtype="boolean")
    p_values = paired(frame, by=["skill"])["p_value"].to_numpy().reshape(n_studies, SKILLS)
    adjusted = np.stack([holm(family) for family in p_values])
    return (
        float((adjusted < LEVEL).any(axis=1).mean()),
        float((p_values < LEVEL).any(axis=1).mean()),
    )


def claim(n_studies: int) -> Claim:
    """Return the claim about the family-wise error, with its numbers."""
    error, alone = family_errors(n_studies)
    limit = LEVEL + deviations(1) * np.sqrt(LEVEL * (1 - LEVEL) / n_studies)
    text = f"{SKILLS} skills without an effect: one helps or hurts in {error:.1%} of {n_studies} "
    text += f"studies (at most {LEVEL:.0%}, with the margin {limit:.2%}); unadjusted {alone:.1%}"
    return Claim(text, error <= limit)
