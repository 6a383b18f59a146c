"""The rule of the first release, kept to be compared with.

It chose between Newcombe's square-and-add interval on an effective number of cases and CR2 t,
and took Wilson's interval on an effective number for rates. Studies by cases throughout.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import elementwise
from scipy.stats import t as student_t

from benchmarks.validity.designs import Sides
from skillcomp.stats.clusters import ZERO_VARIANCE, Clusters
from skillcomp.stats.intervals import wilson_limits

__all__ = ["Rule", "paired_rule", "t_quantile", "wilson_on_effective_n"]

Floats = NDArray[np.float64]

MIN_CASES, MIN_CASES_FOR_NORMAL = 30, 10
MIN_CLUSTERS, MIN_CLUSTERS_FOR_CLAIM = 10, 5
EXTREME_RATE = 0.9
_LARGEST_SHARE = 1.0 - 1e-6  # quantile 1e6 as q / (1 + q): closes the bracket of the root search


@dataclass(frozen=True)
class Rule:
    """Limits and p-values of the rule, and those of Newcombe on effective n in every study."""

    low: Floats
    high: Floats
    p_value: Floats
    newcombe: tuple[Floats, Floats]


@dataclass(frozen=True)
class _Sides:
    """Pass rate and effective number of both conditions, and their reduced correlation."""

    rate1: Floats
    n1: Floats
    rate0: Floats
    n0: Floats
    phi: Floats

    def limits(self, q: float) -> tuple[Floats, Floats]:
        low1, high1 = wilson_limits(self.rate1, self.n1, q)
        low0, high0 = wilson_limits(self.rate0, self.n0, q)
        delta = self.rate1 - self.rate0
        low = delta - _root_sum(self.rate1 - low1, high0 - self.rate0, self.phi)
        high = delta + _root_sum(high1 - self.rate1, self.rate0 - low0, self.phi)
        return np.clip(low, -1.0, 1.0), np.clip(high, -1.0, 1.0)

    def p_value(self, df: float) -> Floats:
        """Invert the limits; swapped conditions leave only lower limits to invert."""
        swap = self.rate1 < self.rate0
        pairs = ((self.rate1, self.rate0), (self.n1, self.n0))
        (a, b), (na, nb) = ((np.where(swap, y, x), np.where(swap, x, y)) for x, y in pairs)
        p_value, open_ = np.ones(a.shape), a > b
        if not open_.any():
            return p_value

        def lower(
            share: Floats, a: Floats, na: Floats, b: Floats, nb: Floats, phi: Floats
        ) -> Floats:
            q = share / (1.0 - share)
            low, high = wilson_limits(a, na, q)[0], wilson_limits(b, nb, q)[1]
            return a - b - _root_sum(a - low, high - b, phi)

        args = tuple(v[open_] for v in (a, na, b, nb, self.phi))
        ends = np.zeros(args[0].shape), np.full(args[0].shape, _LARGEST_SHARE)
        found = elementwise.find_root(lower, ends, args=args)
        root = np.where(found.status == 0, found.x, _LARGEST_SHARE)
        p_value[open_] = 2.0 * student_t.sf(root / (1.0 - root), df)
        return p_value


def paired_rule(sides: Sides, clusters: Clusters) -> Rule:
    """Paired differences by the rule.

    Parameters
    ----------
    sides : Sides
        Passes and attempts of both conditions.
    clusters : Clusters
        The cases by cluster; with two to four clusters every case became its own.
    """
    level = clusters
    if clusters.count < MIN_CLUSTERS_FOR_CLAIM and not clusters.single:
        level = Clusters.of(None, clusters.n)
    rates1, rates0 = sides.skill / sides.skill_tries, sides.baseline / sides.baseline_tries
    rate1, rate0 = rates1.mean(axis=1), rates0.mean(axis=1)
    delta = rate1 - rate0
    totals = level.totals(rates1 - rates0 - delta[:, None])
    variance = level.covariance(totals, totals)
    most, least = np.maximum(rate1, rate0), np.minimum(rate1, rate0)
    by_score = (most > EXTREME_RATE) | (least < 1 - EXTREME_RATE) | (variance <= ZERO_VARIANCE)
    by_score |= level.n < MIN_CASES or level.count < MIN_CLUSTERS
    df = level.df
    once = max(sides.skill_tries.max(), sides.baseline_tries.max()) <= 1
    if level.single and level.n >= MIN_CASES_FOR_NORMAL and once:
        df, by_score = math.inf, np.ones(len(delta), dtype=bool)
    sides = _sides(rates1, rates0, level, _ceiling(sides.skill, sides.skill_tries),
                   _ceiling(sides.baseline, sides.baseline_tries))  # fmt: skip
    newcombe = sides.limits(t_quantile(df))
    se = np.sqrt(variance)
    reach = t_quantile(df) * se
    low = np.where(by_score, newcombe[0], np.maximum(delta - reach, -1.0))
    high = np.where(by_score, newcombe[1], np.minimum(delta + reach, 1.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        p_t = 2.0 * student_t.sf(np.abs(delta) / se, df)
    return Rule(low, high, np.where(by_score, sides.p_value(df), p_t), newcombe)


def wilson_on_effective_n(
    rates: Floats, clusters: Clusters, tries: Floats | None = None
) -> tuple[Floats, Floats]:
    """Wilson's limits on an effective number of cases; without ``tries`` one attempt a case."""
    rate = rates.mean(axis=1)
    totals = clusters.totals(rates - rate[:, None])
    variance = clusters.covariance(totals, totals)
    tries = np.ones(rates.shape[1]) if tries is None else tries
    ceiling = _ceiling(rates * tries, tries)
    units = _effective_n(rate, variance, clusters, ceiling)
    plain = clusters.single & (ceiling <= clusters.n)
    q = np.where(plain, t_quantile(math.inf), t_quantile(clusters.df))
    return wilson_limits(rate, units, q)


def t_quantile(df: float) -> float:
    """Two-sided 95 % quantile."""
    return float(student_t.isf(0.025, df))


def _root_sum(x: Floats, y: Floats, phi: Floats) -> Floats:
    root: Floats = np.sqrt(np.maximum(x * x - 2.0 * phi * x * y + y * y, 0.0))
    return root


def _ceiling(passes: Floats, tries: Floats) -> Floats:
    """Count the attempts of a study; copies of every attempt count once."""
    total = np.full(len(passes), tries.sum())
    copies = np.gcd.reduce(np.rint(tries).astype(np.int64))
    if copies == 1:
        return total
    return total / np.gcd(copies, np.gcd.reduce(np.rint(passes).astype(np.int64), axis=1))


def _effective_n(rate: Floats, variance: Floats, clusters: Clusters, ceiling: Floats) -> Floats:
    """Independent attempts that would give a rate the variance it has."""
    shrink = (clusters.n - 1.0) / clusters.n if clusters.single else 1.0
    spread, floor = rate * (1.0 - rate), float(clusters.count)
    some = variance > ZERO_VARIANCE
    raw = np.where(some, spread / np.where(some, variance * shrink, 1.0), np.inf)
    return np.where(spread > 0.0, np.clip(raw, floor, np.maximum(ceiling, floor)), floor)


def _sides(
    rates1: Floats, rates0: Floats, clusters: Clusters, ceiling1: Floats, ceiling0: Floats
) -> _Sides:
    rate1, rate0 = rates1.mean(axis=1), rates0.mean(axis=1)
    totals1 = clusters.totals(rates1 - rate1[:, None])
    totals0 = clusters.totals(rates0 - rate0[:, None])
    variance1 = clusters.covariance(totals1, totals1)
    variance0 = clusters.covariance(totals0, totals0)
    n1 = _effective_n(rate1, variance1, clusters, ceiling1)
    n0 = _effective_n(rate0, variance0, clusters, ceiling0)
    scale = np.sqrt(variance1 * variance0)
    varies = scale > 0
    phi = np.where(varies, clusters.covariance(totals1, totals0) / np.where(varies, scale, 1), 0.0)
    return _Sides(rate1, n1, rate0, n0, _reduced(phi, rate1, rate0, np.sqrt(n1 * n0)))


def _reduced(phi: Floats, rate1: Floats, rate0: Floats, n: Floats) -> Floats:
    """Newcombe's correction of a positive correlation."""
    spread = np.sqrt(rate1 * (1.0 - rate1) * rate0 * (1.0 - rate0))
    some = spread > 0.0
    less = np.maximum(phi - 0.5 / (n * np.where(some, spread, 1.0)), 0.0)
    found: Floats = np.where(some, np.clip(np.where(phi > 0.0, less, phi), -1.0, 1.0), 0.0)
    return found
