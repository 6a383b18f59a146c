"""Many small studies at once as plain arrays, for coverage experiments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from skillcomp.simulate.effects import Floats, Spread, Unit, case_rates, draw_logits, layout, solve


@dataclass(frozen=True, slots=True)
class Counts:
    """Passes of many simulated studies, without frames.

    Attributes
    ----------
    baseline, skill : numpy.ndarray of int
        Runs x cases: passed attempts out of ``n_repeats``.
    clusters : numpy.ndarray of int
        Skill of each case.
    far : numpy.ndarray of bool
        Whether each case is far transfer.
    n_repeats : int
        Attempts per case and arm.
    delta, gap : float
        True marginal delta, and true far minus near delta (NaN without both kinds of case).
    realised : numpy.ndarray
        Per run, the true delta of exactly the cases drawn: the target when the claim is about
        these cases only.
    """

    baseline: NDArray[np.int64]
    skill: NDArray[np.int64]
    clusters: NDArray[np.int64]
    far: NDArray[np.bool_]
    n_repeats: int
    delta: float
    gap: float
    realised: Floats


def counts(
    *,
    n_runs: int,
    n_skills: int,
    n_cases: int | list[int],
    n_repeats: int = 1,
    baseline_rate: float = 0.5,
    delta: float = 0.2,
    near_far_gap: float = 0.0,
    between_skill_sd: float = 0.0,
    between_case_sd: float = 1.0,
    case_effect_sd: float = 0.5,
    skill_level_sd: float = 0.0,
    between_attempt_sd: float = 0.0,
    checks_per_case: int | list[int] = 1,
    far_share: float = 0.5,
    seed: int | np.random.Generator = 0,
) -> Counts:
    """Simulate the passed attempts of ``n_runs`` studies with the same true delta.

    The unit is the attempt: it passes when all of its checks do, and ``delta`` is exactly the
    marginal difference of attempts passed. Use :func:`skillcomp.simulate.study` for frames.

    Parameters
    ----------
    n_runs : int
        Number of studies.
    n_skills, n_cases, n_repeats, baseline_rate, delta, near_far_gap, checks_per_case, far_share
        As in :func:`skillcomp.simulate.study`.
    between_skill_sd, between_case_sd, case_effect_sd, skill_level_sd, between_attempt_sd : float
        Logit-scale standard deviations, as in :func:`skillcomp.simulate.study`.
    seed : int or numpy.random.Generator
        Source of randomness.

    Returns
    -------
    Counts
        Integer arrays of shape (``n_runs``, number of cases).

    Raises
    ------
    StudyError
        If a rate leaves (0, 1) or a size is impossible.

    Examples
    --------
    >>> many = counts(n_runs=4000, n_skills=5, n_cases=6, n_repeats=3, delta=0.1, seed=1)
    >>> many.skill.shape
    (4000, 30)
    >>> bool(abs((many.skill - many.baseline).mean() / 3 - 0.1) < 0.01)
    True
    """
    unit: Unit = "attempt"
    plan = layout(n_skills, n_cases, checks_per_case, far_share)
    spread = Spread(
        between_skill_sd, skill_level_sd, between_case_sd, case_effect_sd, between_attempt_sd
    )
    found = solve(plan, spread, baseline_rate, [0.0, delta], [0.0, near_far_gap], unit)
    rng = np.random.default_rng(seed)
    logits = draw_logits(plan, found.values, spread, rng, n_runs)
    passed = _passed(logits, plan.n_checks, n_repeats, between_attempt_sd, rng)
    rates = case_rates(np.moveaxis(logits, 1, 0), between_attempt_sd, plan.n_checks)
    two_kinds = 0 < plan.far.mean() < 1
    return Counts(
        baseline=passed[..., 0],
        skill=passed[..., 1],
        clusters=plan.skill,
        far=plan.far,
        n_repeats=n_repeats,
        delta=delta,
        gap=near_far_gap if two_kinds else np.nan,
        realised=(rates[..., 1] - rates[..., 0]).mean(axis=0),
    )


def _passed(
    logits: Floats,
    n_checks: NDArray[np.int64],
    n_repeats: int,
    attempt_sd: float,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    power: Any = n_checks[:, None]
    if attempt_sd == 0:
        drawn: NDArray[np.int64] = rng.binomial(n_repeats, expit(logits) ** power)
        return drawn
    passed = np.zeros(logits.shape, dtype=np.int64)
    for _ in range(n_repeats):
        shift = attempt_sd * rng.standard_normal(logits.shape)
        passed += rng.random(logits.shape) < expit(logits + shift) ** power
    return passed
