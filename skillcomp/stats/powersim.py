"""Power by simulation with the project's own interval. Public through ``power``."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.special import expit

from skillcomp.stats.results import NAN, Interval, check_level
from skillcomp.stats.score import quantile, wilson_limits
from skillcomp.stats.switching import paired_delta_many

__all__ = ["PairedStudies", "SimulatedPower", "draw_paired_studies", "simulate_power"]

Floats = NDArray[np.float64]
PairedInterval = Callable[
    [Floats, int, Floats, int, NDArray[np.int64] | None], tuple[Floats, Floats]
]

NODES = 61  # Gauss-Hermite nodes of the marginal rates; 1e-9 at standard deviations up to 3
CELLS_AT_ONCE = 1_000_000  # studies x cases drawn in one block


@dataclass(frozen=True, slots=True)
class PairedStudies:
    """Simulated studies with a known difference.

    Attributes
    ----------
    skill, baseline : ndarray of float, shape (studies, cases)
        Passes of each case in each arm.
    attempts_skill, attempts_baseline : int
        Attempts behind each count.
    clusters : ndarray of int, shape (cases,)
        Skill of each case.
    delta : float
        True difference of the mean pass rates.
    """

    skill: Floats
    baseline: Floats
    attempts_skill: int
    attempts_baseline: int
    clusters: NDArray[np.int64]
    delta: float


@dataclass(frozen=True, slots=True)
class SimulatedPower(Interval):
    """Share of simulated studies whose interval excludes 0 in the right direction.

    ``low`` and ``high`` bound the simulation error (Wilson); ``n`` counts studies.

    Attributes
    ----------
    coverage : float
        Share of the intervals that hold the true difference.
    mean_width : float
        Mean width of the intervals.
    wrong_direction : float
        Share that exclude 0 on the wrong side; with no difference, on the lower one.
    """

    coverage: float = NAN
    mean_width: float = NAN
    wrong_direction: float = NAN


def _intercept(rate: float, sd: float) -> float:
    """Return the logit whose mean pass rate over normal effects with this spread is ``rate``."""
    at, weights = np.polynomial.hermite_e.hermegauss(NODES)
    weights = weights / weights.sum()
    return float(brentq(lambda a: float(weights @ expit(a + sd * at)) - rate, -60.0, 60.0))


def draw_paired_studies(
    sizes: ArrayLike,
    *,
    baseline: float,
    delta: float,
    attempts_skill: int = 1,
    attempts_baseline: int = 1,
    sd_case: float = 1.0,
    sd_effect: float = 0.5,
    sd_skill: float = 0.0,
    sd_skill_effect: float = 0.0,
    n_studies: int = 1000,
    seed: int | np.random.Generator = 0,
) -> PairedStudies:
    """Draw paired studies whose marginal pass rates are exactly as stated.

    Parameters
    ----------
    sizes : array_like of int
        Cases in each skill.
    baseline, delta : float
        Mean pass rate without the skill, and what the skill adds; both rates strictly in 0..1.
    attempts_skill, attempts_baseline : int
        Attempts per case in each arm.
    sd_case, sd_effect : float
        Standard deviations over cases, on the logit scale, of the difficulty and of the effect.
    sd_skill, sd_skill_effect : float
        The same over skills.
    n_studies : int, default 1000
        Studies.
    seed : int or numpy Generator, default 0
        Source of the draws.

    Returns
    -------
    PairedStudies
        One row per study.

    Examples
    --------
    >>> studies = draw_paired_studies([5, 5], baseline=0.5, delta=0.2, n_studies=3)
    >>> studies.skill.shape, studies.clusters.tolist()
    ((3, 10), [0, 0, 0, 0, 0, 1, 1, 1, 1, 1])
    """
    for name, rate in (("baseline", baseline), ("baseline + delta", baseline + delta)):
        if not 0.0 < rate < 1.0:
            raise ValueError(f"{name} must lie strictly between 0 and 1, found {rate!r}.")
    if min(attempts_skill, attempts_baseline) < 1 or n_studies < 1:
        raise ValueError(
            "attempts and n_studies must be at least 1, found "
            f"{attempts_skill!r}, {attempts_baseline!r} and {n_studies!r}."
        )
    n = np.asarray(sizes, dtype=np.int64)
    if not n.size or (n < 1).any():
        raise ValueError(f"sizes must name at least one case in each cluster, found {n.tolist()}.")
    rng = np.random.default_rng(seed)
    clusters = np.repeat(np.arange(n.size), n)
    shape, by_skill = (n_studies, clusters.size), (n_studies, n.size)
    difficulty = sd_case * rng.normal(size=shape)
    difficulty += sd_skill * rng.normal(size=by_skill)[:, clusters]
    effect = sd_effect * rng.normal(size=shape)
    effect += sd_skill_effect * rng.normal(size=by_skill)[:, clusters]
    spread0 = math.hypot(sd_case, sd_skill)
    spread1 = math.hypot(spread0, sd_effect, sd_skill_effect)
    low = _intercept(baseline, spread0) + difficulty
    high = _intercept(baseline + delta, spread1) + difficulty + effect
    return PairedStudies(
        skill=rng.binomial(attempts_skill, expit(high)).astype(np.float64),
        baseline=rng.binomial(attempts_baseline, expit(low)).astype(np.float64),
        attempts_skill=attempts_skill,
        attempts_baseline=attempts_baseline,
        clusters=clusters,
        delta=delta,
    )


def simulate_power(
    sizes: ArrayLike,
    *,
    baseline: float,
    delta: float,
    attempts_skill: int = 1,
    attempts_baseline: int = 1,
    sd_case: float = 1.0,
    sd_effect: float = 0.5,
    sd_skill: float = 0.0,
    sd_skill_effect: float = 0.0,
    claim: str = "skills",
    interval: PairedInterval | None = None,
    n_studies: int = 1000,
    seed: int = 0,
    ci_level: float = 0.95,
) -> SimulatedPower:
    """How often a study like this one shows its difference, by the interval users get.

    Parameters
    ----------
    sizes, baseline, delta, attempts_skill, attempts_baseline
        The planned study and the difference it should show (see `draw_paired_studies`).
    sd_case, sd_effect, sd_skill, sd_skill_effect : float
        How cases and skills differ, on the logit scale.
    claim : {"skills", "cases"}
        ``skills`` clusters by skill (skills like these), ``cases`` by case (these skills only).
    interval : callable, optional
        Takes passes and attempts of both arms and the clusters as `paired_delta_many` does and
        returns lower and upper limits; the project's own rule,
        `skillcomp.stats.switching.paired_delta_many`, when left out.
    n_studies, seed : int
        Simulated studies and their seed.
    ci_level : float, default 0.95
        Level of the intervals of the studies; those of ``interval`` keep their own.

    Returns
    -------
    SimulatedPower
        Power with its simulation error, coverage and mean width of the intervals. With
        ``delta = 0`` the power is the share above 0: half the error rate of a two-sided test.

    Notes
    -----
    Effects are normal on the logit scale. Intervals that are not defined count as showing nothing
    and as not covering.

    Examples
    --------
    >>> found = simulate_power([1] * 30, baseline=0.4, delta=0.35, n_studies=200)
    >>> found.estimate > 0.6 and found.coverage > 0.9
    True
    """
    check_level(ci_level)
    if claim not in ("skills", "cases"):
        raise ValueError(f"claim must be 'skills' or 'cases', found {claim!r}.")
    rng = np.random.default_rng(seed)
    n_cases = int(np.asarray(sizes, dtype=np.int64).sum())
    block = max(1, CELLS_AT_ONCE // max(n_cases, 1))
    low, high = [], []
    for start in range(0, n_studies, block):
        studies = draw_paired_studies(
            sizes,
            baseline=baseline,
            delta=delta,
            attempts_skill=attempts_skill,
            attempts_baseline=attempts_baseline,
            sd_case=sd_case,
            sd_effect=sd_effect,
            sd_skill=sd_skill,
            sd_skill_effect=sd_skill_effect,
            n_studies=min(block, n_studies - start),
            seed=rng,
        )
        limits = _limits(studies, claim, interval, ci_level)
        low.append(limits[0])
        high.append(limits[1])
    method = "the project's paired_delta" if interval is None else "the interval given"
    return _summarise(
        np.concatenate(low),
        np.concatenate(high),
        delta,
        f"simulation of {n_studies} studies, seed {seed}, {method} at {ci_level:g}, claim: {claim}",
    )


def _limits(
    studies: PairedStudies, claim: str, interval: PairedInterval | None, ci_level: float
) -> tuple[Floats, Floats]:
    clusters = studies.clusters if claim == "skills" else None
    arms = (studies.skill, studies.attempts_skill, studies.baseline, studies.attempts_baseline)
    if interval is not None:
        return interval(*arms, clusters)
    found = paired_delta_many(*arms, clusters, p_values=False, ci_level=ci_level)
    return found.low, found.high


def _summarise(low: Floats, high: Floats, delta: float, method: str) -> SimulatedPower:
    above, below = low > 0.0, high < 0.0
    shown, wrong = (below, above) if delta < 0 else (above, below)
    power, n = float(shown.mean()), float(low.size)
    bounds = wilson_limits(power, n, quantile(0.95))
    undefined = int(np.isnan(low).sum())
    return SimulatedPower(
        power,
        float(bounds[0]),
        float(bounds[1]),
        method=method,
        note=f"{undefined} studies without an interval" if undefined else "",
        n=n,
        se=math.sqrt(power * (1.0 - power) / n),
        coverage=float(((low <= delta) & (delta <= high)).mean()),
        mean_width=float(np.nanmean(high - low)) if undefined < n else NAN,
        wrong_direction=float(wrong.mean()),
    )
