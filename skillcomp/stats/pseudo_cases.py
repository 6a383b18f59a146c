"""Position of the pseudo-case of a bounded mean: the adaptive rule.

The interval of a bounded mean adds one pseudo-case to the data. With the bounded rule it is at the
bound of the scale: any case may be unseen. If the attempts show that ordinary cases have mixed
outcomes, cases at the bound are implausible. The adaptive rule then moves the pseudo-case inwards,
to a distance from the mean that is given by the mixed outcomes and the spread between cases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

Floats = NDArray[np.float64]

# Both constants were chosen on one half of the designs of `make validate` and checked on the other.
_PHI = 0.05  # Share of the distance to the bound that is kept if all cases have mixed outcomes.
_KAPPA = 1.45  # Distance in standard deviations of a case, for many cases.
_SURE = 0.975  # The distance does not depend on the level, so that wider levels have wider limits.


@dataclass(frozen=True, slots=True)
class Arm:
    """One arm of a contrast: the pass rate of each case under one condition.

    A contrast is a sum of pass rates over arms, each multiplied by ``sign``. A rate has one arm, a
    paired difference two (signs 1 and -1), and an interaction four (1, -1, -1 and 1).

    Attributes
    ----------
    rates : array_like, shape (n,)
        Share of the attempts at each case that passed, or share of its checks.
    attempts : array_like, shape (n,), optional
        Number of attempts behind each rate. If several agents, graders or rounds repeat a case,
        ``rates`` are means over them, and this is the smallest of their numbers.
    sign : float, default 1
        Coefficient of the arm.
    checks : array_like, shape (n,), optional
        For shares of checks, the number of different checks of each case; without ``attempts``.
        Without either of the two, differences between attempts are ignored.
    """

    rates: Any
    attempts: Any = None
    sign: float = 1.0
    checks: Any = None

    def rows(self, keep: Any) -> Arm:
        """Return the arm for the selected cases."""
        columns = (self.rates, self.attempts, self.checks)
        rates, attempts, checks = (c if c is None else np.asarray(c, float)[keep] for c in columns)
        return Arm(rates, attempts, self.sign, checks)


@dataclass(frozen=True, slots=True)
class Positions:
    """Positions of the pseudo-cases, and the standard error that they rest on; one per study.

    Attributes
    ----------
    low, high : ndarray, shape (S,)
        Position for the lower limit and for the upper limit.
    se, df : ndarray, shape (S,)
        Standard error of the mean, at least that of independent attempts, and its Satterthwaite
        degrees of freedom.
    """

    low: Floats
    high: Floats
    se: Floats
    df: Floats


def adaptive_positions(
    arms: Sequence[Arm],
    value: Floats,
    size: Floats,
    bounds: tuple[float, float],
    *,
    count: Floats | float = 1.0,
    n_cases: Floats | float = 1.0,
    mixed_cases: Sequence[Any] | None = None,
    scale: Floats | float = 1.0,
) -> Positions:
    """Return where the adaptive rule places the pseudo-cases.

    Parameters
    ----------
    arms : sequence of Arm
        Arms of the clusters: mean rate of the cases in each cluster, and sums of their attempts or
        checks. Arrays have the shape (S, m) or (m,), for S studies of m clusters.
    value, size : ndarray, shape (S, m)
        Value and size of each cluster.
    bounds : tuple of float
        Smallest and largest possible value.
    count : ndarray, shape (S, m), default 1
        Number of clusters that each entry stands for.
    n_cases : ndarray, shape (m,), default 1
        Number of cases in each cluster.
    mixed_cases : sequence of ndarray, optional
        :func:`mixed_outcomes` of the cases of each arm. Required if a cluster has several cases.
    scale : ndarray, shape (m,), default 1
        Factor by which the value of a cluster exceeds the contrast of its arms.

    Notes
    -----
    Section G of the statistics notes defines the rule. An attempt at a case that always has the
    same outcome tells nothing new, so a cluster of several cases has fewer effective attempts.
    """
    low, high = bounds
    share = size / (count * size).sum(-1, keepdims=True)
    square = (count * share**2).sum(-1)
    mean = (count * share * value).sum(-1)
    noise: Any = 0.0
    down: Any = 0.0
    up: Any = 0.0
    for at, arm in enumerate(arms):
        rate, sign = np.asarray(arm.rates, float), abs(arm.sign)
        weight = count * share * np.ones_like(rate)
        mixed = mixed_outcomes(arm, weight)
        of_cases = mixed if mixed_cases is None else mixed_cases[at]
        more = _independent_variance(arm, n_cases, mixed, of_cases)
        noise = noise + sign**2 * (weight * share * more * np.square(scale)).sum(-1)
        part = sign * (_PHI + (1.0 - _PHI) * (1.0 - np.minimum(1.0, mixed)))
        passed, failed = (weight * rate).sum(-1), (weight * (1.0 - rate)).sum(-1)
        down = down + part * (passed if arm.sign > 0 else failed)
        up = up + part * (failed if arm.sign > 0 else passed)
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = 1.0 / (1.0 - share)
        variance = (count * factor * (share * (value - mean[..., None])) ** 2).sum(-1)
        crossed = (count * factor * share**2).sum(-1) ** 2
        df = 1.0 / (square + crossed - (count * factor**2 * share**4).sum(-1))
        se = np.sqrt(np.maximum(variance, noise))
        reach = _KAPPA * stdtrit(df, _SURE) / ndtri(_SURE) * se / np.sqrt(square)
        lower = mean - np.minimum(np.hypot(down, reach), mean - low)
        upper = mean + np.minimum(np.hypot(up, reach), high - mean)
    single = np.asarray((share >= 1.0 - 1e-12).any(-1))  # nothing tells how clusters vary
    lower, upper = np.where(single, low, lower), np.where(single, high, upper)
    return Positions(lower, upper, np.where(single, np.nan, se), np.where(single, np.nan, df))


def mixed_outcomes(arm: Arm, weight: Floats) -> Floats:
    """Return how mixed the outcomes are: 4 p (1 - p), corrected for the number of attempts.

    0 if every case always has the same outcome, about 1 if each case passes half the time. Cases
    with one attempt count as 0. ``weight`` adds up to 1 over the last axis.
    """
    rate = np.asarray(arm.rates, float)
    mixed = 4.0 * rate * (1.0 - rate)
    if arm.attempts is not None:
        attempts = np.asarray(arm.attempts, float)
        mixed = np.where(attempts > 1, mixed * attempts / np.maximum(attempts - 1.0, 1.0), 0.0)
    return np.asarray((weight * mixed).sum(-1))


def _independent_variance(
    arm: Arm, n_cases: Floats | float, mixed: Floats, of_cases: Floats
) -> Floats | float:
    """Return the variance of the rate of each cluster if its effective attempts are independent."""
    rate = np.asarray(arm.rates, float)
    spread = rate * (1.0 - rate)
    if arm.attempts is None:
        if arm.checks is None:
            return 0.0
        return np.asarray(spread / np.maximum(np.asarray(arm.checks, float) - 1.0, 1.0))
    attempts = np.asarray(arm.attempts, float)
    ratio = np.minimum(1.0, np.where(mixed > 0, of_cases, 0.0) / np.where(mixed > 0, mixed, 1.0))
    effective = n_cases + (attempts - n_cases) * ratio[..., None]
    left = np.where(np.asarray(n_cases) > 1, effective, attempts) - 1.0
    return np.asarray(np.where(attempts > 1, spread, 0.0) / np.maximum(left, 1.0))
