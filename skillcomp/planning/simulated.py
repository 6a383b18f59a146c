"""Power by simulation: studies with a pilot's components, judged by the intervals users get."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import norm

from skillcomp.errors import StudyError
from skillcomp.planning.inputs import Parts, Plan
from skillcomp.stats.power import draw_paired_studies, simulate_power
from skillcomp.stats.results import Interval
from skillcomp.stats.score import quantile, wilson_limits
from skillcomp.stats.switching import paired_delta_many

Floats = NDArray[np.float64]

ONE_REPEAT = "the pilot has one repeat a case: cases are taken to differ by 1 on the logit scale"
TOO_CALM = (
    "deltas vary less than the difficulty of cases alone makes them: the power is rather too low"
)
WIDEST = 4.0  # largest standard deviation on the logit scale
EDGE = 0.9  # beyond this rate, or below its complement, a gap gets score limits put together
# even grids make the trapezoid rule exponentially accurate for normal effects
_Z = np.linspace(-7.0, 7.0, 57)
_W = norm.pdf(_Z) / norm.pdf(_Z).sum()


@dataclass(frozen=True, slots=True)
class Spread:
    """Standard deviations on the logit scale that give wanted variances of rates."""

    case: float
    effect: float
    skill_effect: float
    note: str = ""
    reached: bool = True


@lru_cache(maxsize=512)
def spread_for(
    baseline: float, delta: float, tau2: float, omega2: float, sigma2_baseline: float
) -> Spread:
    """Find normal effects on the logit scale with the components of a pilot.

    Parameters
    ----------
    baseline, delta : float
        Mean rate without the skill, and what it adds.
    tau2, omega2 : float
        Variance of the true difference between skills, and between cases of a skill.
    sigma2_baseline : float
        Mean p(1 - p) of the baseline; NaN takes a standard deviation of 1 between cases.

    Returns
    -------
    Spread
        ``reached`` is False where the rates do not allow so much variance; ``note`` says where
        they do not allow so little.
    """
    case = 1.0
    if not math.isnan(sigma2_baseline):
        case = _root(lambda sd: _mean_pq(baseline, sd) - sigma2_baseline)
    total = tau2 + omega2
    effect = _root(lambda sd: total - _difference_variance(baseline, delta, case, sd))
    calm = total < _difference_variance(baseline, delta, case, 0.0) - 1e-4
    share = tau2 / total if total > 0 else 0.0
    return Spread(
        case,
        effect * math.sqrt(1 - share),
        effect * math.sqrt(share),
        TOO_CALM if calm else "",
        effect < WIDEST,
    )


def _root(falling: Callable[[float], float]) -> float:
    """Return where a falling function crosses 0 in 0 to the widest spread, or the near end."""
    if falling(0.0) <= 0:
        return 0.0
    if falling(WIDEST) >= 0:
        return WIDEST
    return float(brentq(falling, 0.0, WIDEST, xtol=1e-6))


def _intercept(rate: float, sd: float) -> float:
    if not 0 < rate < 1:
        raise StudyError(
            f"a pass rate of {rate:.4g} would be simulated (baseline plus delta); allowed: "
            "strictly between 0 and 1."
        )
    return float(brentq(lambda a: float(_W @ expit(a + sd * _Z)) - rate, -80, 80))


def _mean_pq(rate: float, sd: float) -> float:
    p = expit(_intercept(rate, sd) + sd * _Z)
    return float(_W @ (p * (1 - p)))


def _difference_variance(baseline: float, delta: float, case: float, effect: float) -> float:
    low = expit(_intercept(baseline, case) + case * _Z)[:, None]
    above = _intercept(baseline + delta, math.hypot(case, effect))
    high = expit(above + case * _Z[:, None] + effect * _Z)
    return float(_W @ (high - low) ** 2 @ _W - delta**2)


def power(
    plan: Plan, parts: Parts, size: float, *, n_studies: int, seed: int, ci_level: float
) -> Interval | None:
    """Return the share of simulated studies that show an effect of this size.

    Parameters
    ----------
    plan, parts : Plan, Parts
        The study and what is known of its variation.
    size : float
        True delta, or true gap.
    n_studies, seed, ci_level
        Studies, their seed, and the level of their intervals.

    Returns
    -------
    Interval or None
        With Wilson limits of the simulation error. None where normal effects on the logit scale
        cannot vary as much as the pilot's deltas do.
    """
    settled, note = _settled(parts)
    judge = _gap_power if plan.effect == "gap" else _delta_power
    found = judge(plan, settled, size, n_studies, seed, ci_level)
    if found is None:
        return None
    return replace(found, note="; ".join(filter(None, [found.note, note])))


def _settled(parts: Parts) -> tuple[Parts, str]:
    """Split what one repeat could not: cases are taken to differ by 1 on the logit scale."""
    if not parts.one_repeat:
        return parts, ""
    delta = 0.0 if math.isnan(parts.delta) else parts.delta
    low = _mean_pq(parts.baseline_rate, 1.0)
    high = _mean_pq(min(max(parts.baseline_rate + delta, 0.01), 0.99), 1.0)
    settled = replace(
        parts,
        sigma2_baseline=low,
        sigma2_skill=high,
        omega2=max(parts.omega2 - low - high, 0.0),
        omega2_gap=max(parts.omega2_gap - low - high, 0.0),
    )
    return settled, ONE_REPEAT


def _delta_power(
    plan: Plan, parts: Parts, size: float, n_studies: int, seed: int, ci_level: float
) -> Interval | None:
    known = parts.paired("delta", plan.cluster, plan.scope)
    spread = spread_for(parts.baseline_rate, size, known.tau2, known.omega2, parts.sigma2_baseline)
    if not spread.reached:
        return None
    found = simulate_power(
        plan.sizes,
        baseline=parts.baseline_rate,
        delta=size,
        attempts_skill=plan.n_repeats,
        attempts_baseline=plan.n_repeats,
        sd_case=spread.case,
        sd_effect=spread.effect,
        sd_skill_effect=spread.skill_effect,
        claim="skills" if plan.cluster == "skill" else "cases",
        n_studies=n_studies,
        seed=seed,
        ci_level=ci_level,
    )
    text = "; ".join(filter(None, [found.note, spread.note]))
    return Interval(found.estimate, found.low, found.high, 0.95, found.method, text)


def _gap_power(
    plan: Plan, parts: Parts, size: float, n_studies: int, seed: int, ci_level: float
) -> Interval | None:
    rng = np.random.default_rng(seed)
    known = parts.paired("gap", plan.cluster, plan.scope)
    far_share = sum(plan.split()[1]) / (plan.n_cases * plan.n_skills)
    sides, notes = [], []
    for sizes, far in zip(plan.split(), (0.0, 1.0), strict=True):
        delta = parts.delta + (far - far_share) * size
        spread = spread_for(
            parts.baseline_rate, delta, known.tau2, known.omega2, parts.sigma2_baseline
        )
        if not spread.reached:
            return None
        notes.append(spread.note)
        drawn = draw_paired_studies(
            sizes,
            baseline=parts.baseline_rate,
            delta=delta,
            attempts_skill=plan.n_repeats,
            attempts_baseline=plan.n_repeats,
            sd_case=spread.case,
            sd_effect=spread.effect,
            sd_skill_effect=spread.skill_effect,
            n_studies=n_studies,
            seed=rng,
        )
        sides.append((drawn.skill, drawn.baseline))
    low, high = _gap_limits(sides, plan, ci_level)
    share = float(((low > 0) if size > 0 else (high < 0)).mean())
    limits = wilson_limits(share, float(n_studies), quantile(0.95))
    method = (
        f"simulation of {n_studies} studies, seed {seed}, near and far cases compared by CR2 or, "
        f"near the boundary, MOVER at {ci_level:g}, claim: {plan.cluster}s"
    )
    text = "; ".join(dict.fromkeys(filter(None, notes)))
    return Interval(share, float(limits[0]), float(limits[1]), 0.95, method, text)


def _gap_limits(
    sides: list[tuple[Floats, Floats]], plan: Plan, ci_level: float
) -> tuple[Floats, Floats]:
    """Return limits of far minus near, study by study, by the rule of ``transfer.gap``."""
    k = plan.n_repeats
    deltas = [(skill - baseline) / k for skill, baseline in sides]
    gap = deltas[1].mean(axis=1) - deltas[0].mean(axis=1)
    if plan.cluster == "skill":
        # equal numbers in every skill: the gaps of the skills are the units
        by_skill = [one.reshape(len(one), plan.n_skills, -1).mean(axis=2) for one in deltas]
        variance = (by_skill[1] - by_skill[0]).var(axis=1, ddof=1) / plan.n_skills
        df = plan.n_skills - 1.0
    else:
        n = [float(one.shape[1]) for one in deltas]
        variance = sum(one.var(axis=1, ddof=1) / m for one, m in zip(deltas, n, strict=True))
        # Satterthwaite's df of CR2 for two groups of independent cases of equal variance
        df = sum(1 / m for m in n) ** 2 / sum(1 / (m**2 * (m - 1)) for m in n)
    reach = quantile(ci_level, df) * np.sqrt(variance)
    low, high = gap - reach, gap + reach
    rates = np.stack([arm.mean(axis=1) / k for side in sides for arm in side])
    edge = ((rates > EDGE) | (rates < 1 - EDGE)).any(axis=0) | (variance <= 1e-12)
    if edge.any() and plan.cluster == "case":
        near, far = (
            paired_delta_many(skill[edge], k, baseline[edge], k, p_values=False, ci_level=ci_level)
            for skill, baseline in sides
        )
        low[edge] = gap[edge] - np.hypot(far.estimate - far.low, near.high - near.estimate)
        high[edge] = gap[edge] + np.hypot(far.high - far.estimate, near.estimate - near.low)
    return low, high
