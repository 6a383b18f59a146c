"""Random effects with an exact marginal delta: the design behind every simulated study.

The module also draws many small studies as plain arrays, for coverage experiments. It also draws
documents with a score that explains a known share of the variance of pass rates.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit
from scipy.stats import norm

from skillcomp.contrast import Value
from skillcomp.errors import StudyError
from skillcomp.frames.check import check

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Rng = np.random.Generator
Checks = tuple[tuple[int, float], ...]

# For a normal density times an analytic function, the trapezoid rule converges exponentially. With
# 161 points from -8.5 to 8.5, the error is below 1e-12 if the standard deviation of the logits is
# at most 4.
_Z = np.linspace(-8.5, 8.5, 161)
_W = norm.pdf(_Z) / norm.pdf(_Z).sum()


@dataclass(frozen=True, slots=True)
class Spread:
    """Standard deviations of the random effects, all on the logit scale.

    Attributes
    ----------
    skill_effect : float
        Spread of a condition's effect between skills (tau).
    skill_level : float
        Spread of difficulty between skills. A skill is equally difficult in every condition.
    case_level : float
        Spread of difficulty between the cases of a skill. A case is equally difficult in every
        condition.
    case_effect : float
        Spread of a condition's effect between the cases of a skill.
    attempt : float
        Spread between attempts at a case under one condition. It shifts all checks of an attempt
        together.
    """

    skill_effect: float = 0.0
    skill_level: float = 0.0
    case_level: float = 0.0
    case_effect: float = 0.0
    attempt: float = 0.0

    def __post_init__(self) -> None:
        """Raise StudyError for standard deviations that the quadrature does not cover."""
        for name in self.__slots__:
            value = getattr(self, name)
            if not 0 <= value <= 4:
                label = f"standard deviation '{name}'"
                raise StudyError(f"{label}: found {value!r}; allowed: 0 to 4 on the logit scale.")

    def between(self, *, treated: bool) -> float:
        """Return the standard deviation of case logits over all skills and cases.

        `treated` is True for every condition other than the baseline.
        """
        variance = self.skill_level**2 + self.case_level**2
        if treated:
            variance += self.skill_effect**2 + self.case_effect**2
        return float(np.sqrt(variance))


def marginal_rate(
    intercept: float, between: float, attempt: float, checks: Checks, value: Value
) -> float:
    """Compute the pass rate over all skills, cases and attempts by quadrature.

    `between` and `attempt` are standard deviations of the logit. Each entry of `checks` is a
    number of checks and the share of cases that have this number. The result is exact to about
    1e-12 for standard deviations up to 4.
    """
    if value == "share_passed":
        checks = ((1, 1.0),)
    if all(m == 1 for m, _ in checks):
        return float(expit(intercept + np.hypot(between, attempt) * _Z) @ _W)
    if attempt == 0:
        p = expit(intercept + between * _Z)
        return float(sum(w * (p**m @ _W) for m, w in checks))
    p = expit(intercept + between * _Z[:, None] + attempt * _Z)
    return float(sum(w * (_W @ p**m @ _W) for m, w in checks))


@lru_cache(maxsize=1024)
def intercept_for(
    rate: float, between: float, attempt: float, checks: Checks, value: Value
) -> float:
    """Return the intercept for which `marginal_rate` equals ``rate``."""
    if not 0 < rate < 1:
        problem = f"A pass rate of {rate:.4g} was asked for"
        parts = "baseline_rate plus delta, near and far apart"
        raise StudyError(f"{problem} ({parts}); allowed: strictly between 0 and 1.")

    def excess(intercept: float) -> float:
        return marginal_rate(intercept, between, attempt, checks, value) - rate

    return float(brentq(excess, -80, 80, xtol=1e-13))


def case_rates(logits: Floats, attempt: float, n_checks: Ints | int = 1) -> Floats:
    """Return for each logit the chance that all ``n_checks`` checks of an attempt pass.

    The first axis of `logits` is the case. The chance is averaged over attempts; `attempt` is the
    standard deviation of the logit between attempts.
    """
    power = np.asarray(n_checks).reshape(-1, *[1] * (logits.ndim - 1))
    if attempt == 0:
        return np.asarray(expit(logits) ** power, dtype=np.float64)
    rates = np.zeros(logits.shape)
    # loop over the 161 points of the quadrature, because a single array for all of them would need
    # 161 times the memory
    for z, w in zip(_Z, _W, strict=True):
        rates += w * expit(logits + attempt * z) ** power
    return rates


@dataclass(frozen=True, slots=True)
class Layout:
    """Skill, transfer, number of checks and contrast partner of every case of a study.

    Every array has one entry per case. `skill` is the index of the case's skill. `partner` is the
    index of the first case of the contrast pair or, for a case in no pair, of the case itself.
    """

    skill: Ints
    far: Bools
    n_checks: Ints
    partner: Ints

    @property
    def n_cases(self) -> int:
        """Number of cases over all skills."""
        return len(self.skill)

    @property
    def n_skills(self) -> int:
        """Number of skills."""
        return int(self.skill[-1]) + 1

    def checks(self, rows: Bools | slice = slice(None)) -> Checks:
        """Return each number of checks, with the share of the cases in `rows` that have it."""
        values, counts = np.unique(self.n_checks[rows], return_counts=True)
        return tuple((int(m), float(n / counts.sum())) for m, n in zip(values, counts, strict=True))


def layout(
    n_skills: int,
    n_cases: int | list[int] | tuple[int, ...],
    checks_per_case: int | list[int] | tuple[int, ...],
    far_share: float,
    contrast_pairs: int = 0,
) -> Layout:
    """Decide which cases of each skill are far, and which form contrast pairs.

    A far case is one that differs much from the examples in the skill. Far cases are spread evenly
    over the numbered cases of a skill; contrast pairs are the last cases.
    """
    if n_skills < 1:
        raise StudyError(f"n_skills: found {n_skills}; allowed: 1 or more.")
    if not 0 <= far_share <= 1:
        raise StudyError(f"far_share: found {far_share}; allowed: 0 to 1.")
    sizes = [n_cases] * n_skills if isinstance(n_cases, int | np.integer) else list(n_cases)
    if len(sizes) != n_skills or min(sizes) < 1:
        rule = "one number, or one for each skill, all at least 1"
        raise StudyError(f"n_cases: found {n_cases!r} for {n_skills} skills; allowed: {rule}.")
    if contrast_pairs < 0 or 2 * contrast_pairs > min(sizes):
        rule = f"0 to half of a skill's cases ({min(sizes) // 2})"
        raise StudyError(f"contrast_pairs: found {contrast_pairs}; allowed: {rule}.")
    checks = np.atleast_1d(checks_per_case).tolist()
    if not checks or min(checks) < 1:
        raise StudyError(f"checks_per_case: found {checks_per_case!r}; allowed: 1 or more each.")
    inside = np.concatenate([np.arange(n) for n in sizes])
    skill = np.repeat(np.arange(n_skills), sizes)
    left = np.repeat(sizes, sizes) - inside
    second = (left <= 2 * contrast_pairs) & (left % 2 == 1)
    index = np.arange(len(skill))
    # Round first, because 0.29 * 100 is 28.999..., which would lose a far case.
    reached = np.floor(np.round(np.stack([inside, inside + 1]) * far_share, 9))
    n_checks = np.resize(np.array(checks, dtype=np.int64), len(skill))
    return Layout(skill, reached[1] > reached[0], n_checks, np.where(second, index - 1, index))


def solve(
    plan: Layout, spread: Spread, rate: float, deltas: list[float], gaps: list[float], value: Value
) -> Floats:
    """Return intercepts (cases x conditions) that give the requested deltas and gaps.

    `deltas` and `gaps` have one value per condition, 0 for the baseline. A delta is the rate over
    all cases minus that of the baseline. A gap is the delta of far cases minus that of near cases.
    The mean delta over cases equals the requested delta to about 1e-12.
    """
    share_far = float(plan.far.mean())
    if any(gaps) and share_far in (0.0, 1.0):
        rule = "near_far_gap needs both near and far cases"
        only = f"only {'far' if share_far else 'near'} ones"
        raise StudyError(f"{rule}; far_share or the number of cases leaves {only}.")
    values = np.zeros((plan.n_cases, len(deltas)))
    plain, treated = spread.between(treated=False), spread.between(treated=True)
    values[:, 0] = intercept_for(rate, plain, spread.attempt, plan.checks(), value)
    for far in np.unique(plan.far):
        rows = plan.far == far
        checks = plan.checks(rows)
        base = marginal_rate(values[0, 0], plain, spread.attempt, checks, value)
        for k in range(1, len(deltas)):
            target = base + deltas[k] + (int(far) - share_far) * gaps[k]
            values[rows, k] = intercept_for(float(target), treated, spread.attempt, checks, value)
    return values


def draw_logits(plan: Layout, intercepts: Floats, spread: Spread, rng: Rng, n_runs: int) -> Floats:
    """Draw the logit of every case in every condition: runs x cases x conditions.

    logit p(baseline) = a + s + u and logit p(condition) = b + s + u + v + e, where a and b are the
    intercepts. s and v are effects of the skill, u and e effects of the case. The two cases of a
    contrast pair have the same u.
    """
    n_conditions = intercepts.shape[1]
    level = spread.skill_level * rng.standard_normal((n_runs, plan.n_skills))
    case = spread.case_level * rng.standard_normal((n_runs, plan.n_cases))
    effect = spread.skill_effect * rng.standard_normal((n_runs, plan.n_skills, n_conditions))
    own = spread.case_effect * rng.standard_normal((n_runs, plan.n_cases, n_conditions))
    effect[..., 0] = own[..., 0] = 0
    shared = level[:, plan.skill] + case[:, plan.partner]
    return np.asarray(intercepts + shared[..., None] + effect[:, plan.skill] + own)


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of passed attempts in many simulated studies, as arrays.

    Attributes
    ----------
    baseline, skill : numpy.ndarray of int
        Number of passed attempts out of ``n_repeats`` under each of these conditions; one row per
        run and one column per case.
    clusters : numpy.ndarray of int
        Index of the skill of each case.
    far : numpy.ndarray of bool
        Whether each case is far transfer.
    n_repeats : int
        Attempts per case and condition.
    delta, gap : float
        True marginal delta, and true delta of far cases minus that of near cases. The gap is NaN if
        all cases are far or all are near.
    """

    baseline: Ints
    skill: Ints
    clusters: Ints
    far: Bools
    n_repeats: int
    delta: float
    gap: float


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
    """Simulate how many attempts pass in ``n_runs`` studies with the same true delta.

    An attempt passes if all of its checks pass. ``delta`` is exactly the marginal difference in the
    share of attempts passed. `study` returns frames instead.

    Parameters
    ----------
    n_runs : int
        Number of studies.
    n_skills, n_cases, n_repeats, baseline_rate, delta, near_far_gap, checks_per_case, far_share
        As in :func:`benchmarks.simulated.study`.
    between_skill_sd, between_case_sd, case_effect_sd, skill_level_sd, between_attempt_sd : float
        Standard deviations on the logit scale, as in :func:`benchmarks.simulated.study`.
    seed : int or numpy.random.Generator
        Source of randomness.

    Returns
    -------
    Counts
        Integer arrays of shape (``n_runs``, number of cases).

    Raises
    ------
    StudyError
        If a marginal rate is not strictly between 0 and 1, or a size is impossible.

    Examples
    --------
    >>> many = counts(n_runs=4000, n_skills=5, n_cases=6, n_repeats=3, delta=0.1, seed=1)
    >>> many.skill.shape
    (4000, 30)
    >>> mean_delta = (many.skill - many.baseline).mean() / many.n_repeats
    >>> bool(abs(mean_delta - 0.1) < 0.01)
    True
    """
    plan = layout(n_skills, n_cases, checks_per_case, far_share)
    sds = between_skill_sd, skill_level_sd, between_case_sd, case_effect_sd, between_attempt_sd
    spread = Spread(*sds)
    intercepts = solve(plan, spread, baseline_rate, [0.0, delta], [0.0, near_far_gap], "passed")
    rng = np.random.default_rng(seed)
    logits = draw_logits(plan, intercepts, spread, rng, n_runs)
    passed = _draw_passed(logits, plan.n_checks, n_repeats, between_attempt_sd, rng)
    gap = near_far_gap if 0 < plan.far.mean() < 1 else np.nan
    return Counts(passed[..., 0], passed[..., 1], plan.skill, plan.far, n_repeats, delta, gap)


def _draw_passed(logits: Floats, n_checks: Ints, n_repeats: int, sd: float, rng: Rng) -> Ints:
    power: Any = n_checks[:, None]
    if sd == 0:
        return np.asarray(rng.binomial(n_repeats, expit(logits) ** power))
    passed = np.zeros(logits.shape, dtype=np.int64)
    for _ in range(n_repeats):
        shift = sd * rng.standard_normal(logits.shape)
        passed += rng.random(logits.shape) < expit(logits + shift) ** power
    return passed


# Mean and standard deviation of the true pass rates of skills. With these values, all rates are
# inside (0, 1) without clipping, so that the score explains exactly the requested share of the
# variance. The rates of a skill's cases have a Beta(a, b) distribution with a + b = WEIGHT.
MEAN, SPREAD, WEIGHT = 0.6, 0.15, 4.0


@dataclass(frozen=True)
class ScoredDocuments:
    """A simulated study of documents with scores.

    Attributes
    ----------
    outcomes : pandas.DataFrame
        An outcomes frame with ``skill`` as its only condition.
    scores : pandas.DataFrame
        document (the skill's slug) and value, 0 to 100.
    rates : pandas.DataFrame
        document and rate, the true pass rate.
    r_squared_observed : float
        Share of the variance of the observed rates that the score explains in the population. It
        is smaller than the share of the variance of the true rates, because a rate observed in few
        attempts has an error.
    """

    outcomes: pd.DataFrame
    scores: pd.DataFrame
    rates: pd.DataFrame
    r_squared_observed: float


def scored_documents(
    *, n_skills: int, r_squared: float, n_cases: int = 8, n_repeats: int = 2, seed: int = 0
) -> ScoredDocuments:
    """Simulate documents with a score that explains a known share of the variance of pass rates.

    Parameters
    ----------
    n_skills : int
        Number of skills, each with one document and its own cases.
    r_squared : float
        Share of the variance of the true rates that the score explains in the population, 0 to 1.
    n_cases, n_repeats : int, default 8 and 2
        Cases per skill and attempts per case. If they are few, observed rates have a large error.
    seed : int, default 0
        Source of randomness.

    Returns
    -------
    ScoredDocuments
        Outcomes, scores and true rates.

    Raises
    ------
    StudyError
        If a size is not a whole number of 1 or more, or `r_squared` is outside 0 to 1.

    See Also
    --------
    skillcomp.structure.score_association : Estimates this share from the outcomes.

    Notes
    -----
    Scores are uniform from 0 to 100. The part of the rate that they do not explain is uniform, too.
    True rates have mean 0.6 and standard deviation 0.15. The rate of a case is drawn from a Beta
    distribution around the rate of its skill.

    Examples
    --------
    >>> made = scored_documents(n_skills=50, r_squared=1.0)
    >>> round(float(np.corrcoef(made.scores["value"], made.rates["rate"])[0, 1]), 6)
    1.0
    """
    for name, size in (("n_skills", n_skills), ("n_cases", n_cases), ("n_repeats", n_repeats)):
        if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
            raise StudyError(f"{name}: found {size!r}; allowed: a whole number of 1 or more.")
    if not 0.0 <= r_squared <= 1.0:
        raise StudyError(f"r_squared: found {r_squared!r}; allowed: 0 to 1.")
    rng = np.random.default_rng(seed)
    # uniform numbers between -sqrt(3) and sqrt(3) have variance 1
    explained, other = rng.uniform(-np.sqrt(3.0), np.sqrt(3.0), (2, n_skills))
    rate = MEAN + SPREAD * (np.sqrt(r_squared) * explained + np.sqrt(1.0 - r_squared) * other)
    shape = (n_skills, n_cases)
    wide = np.broadcast_to(rate[:, None], shape)
    case = rng.beta(WEIGHT * wide, WEIGHT * (1.0 - wide))
    passed = rng.random((*shape, n_repeats)) < case[:, :, None]
    skill, number, repeat = (grid.ravel() for grid in np.indices(passed.shape))
    slug = np.array([f"skill-{k + 1:04d}" for k in range(n_skills)])
    columns = {
        "attempt_id": [f"a{k}" for k in range(passed.size)],
        "skill": slug[skill],
        "case_id": [f"{slug[s]}/{c + 1}" for s, c in zip(skill, number, strict=True)],
        "condition": "skill",
        "repeat": repeat + 1,
        "passed": passed.ravel(),
    }
    scores = pd.DataFrame({"document": slug, "value": 50.0 * (1.0 + explained / np.sqrt(3.0))})
    rates = pd.DataFrame({"document": slug, "rate": rate})
    # the mean over skills of p (1 - p), where p is the pass rate
    spread = MEAN * (1.0 - MEAN) - SPREAD**2
    error = spread / (WEIGHT + 1.0) * (1.0 + WEIGHT / n_repeats) / n_cases
    observed = r_squared * SPREAD**2 / (SPREAD**2 + error)
    return ScoredDocuments(check(pd.DataFrame(columns), "outcomes"), scores, rates, observed)
