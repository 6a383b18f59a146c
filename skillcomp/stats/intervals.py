"""Rates with Wilson's interval: rates of independent cases, and rates from gold in strata.

For several attempts per case, or cases in clusters, use
:func:`skillcomp.stats.bounded.bounded_mean`. The module also has the bootstrap and the jackknife
over whole units, such as cases or documents.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import joblib
import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from skillcomp.stats.clusters_and_amounts import cluster_codes
from skillcomp.stats.results import NAN, Floats, Interval, check_level, quantile, undefined

NO_GOLD = "no gold in the stratum"  # the start of the note on strata without gold


def wilson_limits(rate: Any, n: Any, q: Any) -> tuple[Floats, Floats]:
    """Return Wilson's limits of rates over ``n`` units, element by element.

    ``q`` is the normal quantile of the confidence level. ``n`` may be fractional. The lower limit
    of a rate of 0 is exactly 0, and the upper limit of a rate of 1 is exactly 1.
    """
    p, units, z = np.asarray(rate, float), np.asarray(n, float), np.asarray(q, float)
    z2n = z * z / units
    centre = (p + z2n / 2.0) / (1.0 + z2n)
    half = np.sqrt(z2n * (p * (1.0 - p) + z2n / 4.0)) / (1.0 + z2n)
    low = np.where(p <= 0.0, 0.0, np.clip(centre - half, 0.0, p))
    return low, np.where(p >= 1.0, 1.0, np.clip(centre + half, p, 1.0))


def wilson(successes: float, n: float, *, ci_level: float = 0.95) -> Interval:
    """Estimate a pass rate with Wilson's score interval.

    Cases must be independent. For cases in clusters, or several attempts per case, use
    :func:`skillcomp.stats.bounded.bounded_mean`.

    Parameters
    ----------
    successes, n : float
        Number of passed cases, and number of all cases; both may be fractional.
    ci_level : float, default 0.95
        Confidence level.

    Returns
    -------
    Interval
        Rate with limits that are inside [0, 1] and never equal. NaN with a note if ``n`` is 0.

    Raises
    ------
    ValueError
        If a count is negative or ``successes > n``.

    Notes
    -----
    Results are checked against R's ``prop.test`` and scipy's ``binomtest``.

    References
    ----------
    Wilson 1927, doi:10.1080/01621459.1927.10502953; Newcombe 1998, Statistics in Medicine 17:857.

    Examples
    --------
    >>> ci = wilson(9, 10)
    >>> round(ci.low, 4), round(ci.high, 4)
    (0.5958, 0.9821)
    """
    check_level(ci_level)
    for name, value in (("successes", successes), ("n", n)):
        if not (math.isfinite(value) and value >= 0):
            raise ValueError(f"{name} must be a count of at least 0, found {value!r}.")
    label = "Wilson score"
    if successes > n * (1 + 1e-12):
        raise ValueError(f"successes must not exceed n = {n:g}, found {successes:g}.")
    if n == 0:
        return undefined(label, "no units", ci_level=ci_level, n=0.0)
    rate = min(successes / n, 1.0)
    low, high = wilson_limits(rate, n, quantile(ci_level))
    return Interval(rate, float(low), float(high), ci_level, label, n=float(n))


def weighted_rate(
    hits: ArrayLike,
    strata: ArrayLike,
    *,
    counted: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    ci_level: float = 0.95,
) -> Interval:
    """Estimate a rate from gold that covers a different share of the units in each stratum.

    An example is gold on all answers that a grader failed and on some that it passed: the strata
    are then its verdicts. The rate of each stratum is weighted by its share of all units.

    Parameters
    ----------
    hits : array_like of float, shape (n,)
        Value of each unit with gold, from 0 to 1; NaN for a unit without gold.
    strata : array_like, shape (n,)
        Stratum of each unit, such as ``"pass"`` and ``"fail"``.
    counted : array_like of 0, 1 or NaN, shape (n,), optional
        1 if the unit counts, 0 if not, NaN if it has no gold. The rate is computed among the units
        that count, such as those that gold passes. By default all units count.
    weights : array_like of float, shape (n,), optional
        Weight of each unit, above 0; equal if omitted.
    clusters : array_like, shape (n,), optional
        Case of each unit; if omitted, each unit is a case.
    ci_level : float, default 0.95
        Confidence level.

    Returns
    -------
    Interval
        Rate with limits in [0, 1]. ``n`` counts the units with gold, and ``n_clusters`` their
        cases. NaN with a note if a stratum has no gold, or if no unit with gold counts.

    Notes
    -----
    Gold must be a random sample within each stratum. The interval is the wider of two. The first
    combines Wilson's intervals of the strata by MOVER and adds the variance of the strata's shares.
    If only some units count, the first interval contains each rate r for which the interval of
    (hits minus r times the units that count) contains 0. The second is Wilson's interval with the
    effective number of units that follows from the linearised variance over cases. ``make
    validate`` simulates the coverage.

    References
    ----------
    Begg and Greenes 1983, doi:10.2307/2530820; Zou and Donner 2008, doi:10.1002/sim.3095.

    Examples
    --------
    The grader fails 4 of 10 answers, and gold passes 1 of these 4. The grader passes the other 6;
    3 of these have gold, which passes 2 of the 3. The rate is 0.4 * 1/4 + 0.6 * 2/3.

    >>> nan, grader = float("nan"), ["fail"] * 4 + ["pass"] * 6
    >>> round(weighted_rate([1, 0, 0, 0, 1, 1, 0, nan, nan, nan], grader).estimate, 3)
    0.5
    """
    label, level = "gold weighted within strata", check_level(ci_level)
    value = np.asarray(hits, float)
    names, code = np.unique(np.asarray(strata, str), return_inverse=True)
    ones = np.ones(value.size)
    size = ones if weights is None else np.asarray(weights, float)
    case, has = cluster_codes(clusters, value.size)[0], np.isfinite(value)
    without = [f"'{name}'" for k, name in enumerate(names) if not has[code == k].any()]
    if without or not value.size:
        note = f"{NO_GOLD} {' and '.join(without)}" if without else "no unit"
        return undefined(label, note, ci_level=level, n=float(has.sum()))
    asked = ones if counted is None else np.nan_to_num(np.asarray(counted, float))
    of = np.where(has, asked, 0.0)
    strata_sums = _Strata(np.where(has, value, 0.0) * of, of, has, size / size.sum(), code, case)
    if not strata_sums.total > 0.0:
        return undefined(label, "no unit with gold counts", ci_level=level, n=0.0)
    rate, n_cases, whole = strata_sums.rate, np.unique(case[has]).size, counted is None
    effective, se = strata_sums.effective_units(whole)
    ends = wilson_limits(rate, effective, quantile(level, max(n_cases - 1.0, 1.0)))
    limits = strata_sums.mover_limits(quantile(level), whole)
    low, high = max(min(float(ends[0]), limits[0]), 0.0), min(max(float(ends[1]), limits[1]), 1.0)
    method = f"{label} ({len(names)}), the wider of MOVER and Wilson with effective n"
    about = float((has & (of > 0)).sum()), float(n_cases), se
    return Interval(rate, low, high, level, method, "", *about)


class _Strata:
    """The rate of units in strata, with its limits.

    ``has`` is True for a unit with gold. ``of`` is 1 for a unit that has gold and counts, otherwise
    0. ``value`` is the hit of a unit, from 0 to 1; it is 0 if ``of`` is 0. A miss is ``of`` minus
    ``value``. ``size`` is the weight of a unit; all sizes add up to 1. Hits and misses of a stratum
    are shares of its units with gold.
    """

    def __init__(
        self, value: Floats, of: Floats, has: Any, size: Floats, code: Any, case: Any
    ) -> None:
        self._value, self._of, self._has, self._size = value, of, has, size
        self._code, self._case = code, case
        self._share, self._labelled = self._sums_by_stratum(size), self._sums_by_stratum(size * has)
        self._hit = self._sums_by_stratum(size * value) / self._labelled
        self._miss = self._sums_by_stratum(size * of) / self._labelled - self._hit
        self._labels = self._labelled**2 / self._sums_by_stratum(size**2 * has)
        self.total = float(self._share @ (self._hit + self._miss))
        self.rate = float(self._share @ self._hit) / self.total if self.total > 0.0 else math.nan
        self._n_units = 1.0 / float(size @ size)

    def _sums_by_stratum(self, numbers: Floats) -> Floats:
        return np.asarray(np.bincount(self._code, numbers), float)

    def _effective_labels(self, mean: Floats, values: Floats) -> Floats:
        """Return the effective number of labels of each stratum.

        The result is at least the number of cases with gold in the stratum, and at most the number
        of labels there. With unequal weights, these two bounds are effective numbers as well.
        """
        n_cases = self._case.max() + 1
        pair = self._code * n_cases + self._case
        codes, place = np.unique(pair, return_inverse=True)
        stratum = codes // n_cases
        errors = np.bincount(place, self._has * self._size * (values - mean[self._code]))
        variance = np.bincount(stratum, errors**2) / self._labelled**2
        whole = np.bincount(place, self._has * self._size)
        least = self._labelled**2 / np.bincount(stratum, whole**2)
        spread = mean * (1.0 - mean)
        varied = (spread > 1e-12) & (variance > 1e-15)
        effective = np.divide(spread, variance, out=least.copy(), where=varied)
        return np.clip(effective, least, self._labels)

    def effective_units(self, whole: bool) -> tuple[float, float]:
        """Return the effective number of units, and the standard error from which it follows."""
        part = self._hit - self.rate * (self._hit + self._miss)
        own = self._value - self.rate * self._of - part[self._code]
        # Deviations from the estimated mean of a stratum are too small. Multiply them by the root
        # of n / (n - 1), the usual correction of a variance.
        more = np.sqrt(self._labels / np.maximum(self._labels - 1.0, 0.5))
        scale = (self._share / self._labelled * more)[self._code]
        influence = self._size * (part[self._code] + self._has * scale * own)
        sums = np.bincount(self._case, influence)
        n = np.unique(self._case).size
        se = math.sqrt(float(sums @ sums) * n / max(n - 1, 1)) / self.total
        size = self._size * self._has * self._of
        most = self._n_units if whole else float(size.sum() ** 2 / (size @ size))
        spread = self.rate * (1.0 - self.rate)
        return (min(most, spread / se**2) if spread > 0.0 and se > 0.0 else most), se

    def mover_limits(self, z: float, whole: bool) -> tuple[float, float]:
        """Return the limits that combine Wilson's intervals of the strata."""
        hit, miss, share = self._hit, self._miss, self._share
        hits = wilson_limits(hit, self._effective_labels(hit, self._value), z)
        others = wilson_limits(miss, self._effective_labels(miss, self._of - self._value), z)

        def ends(rate: float, side: int) -> float:
            """Return the lower (``side`` 0) or upper (1) limit of (hits - expected hits)."""
            part = hit - rate if whole else (1.0 - rate) * hit - rate * miss
            middle = float(share @ part)
            first = share * (1.0 if whole else 1.0 - rate) * (hits[side] - hit)
            second = share * (0.0 if whole else rate) * (others[1 - side] - miss)
            shares = z**2 * float(share @ (part - middle) ** 2) / self._n_units
            return middle + (2 * side - 1) * math.sqrt(first @ first + second @ second + shares)

        if whole:
            return self.rate + ends(self.rate, 0), self.rate + ends(self.rate, 1)
        low = brentq(ends, 0.0, self.rate, args=(0,)) if ends(0.0, 0) > 0.0 else 0.0
        high = brentq(ends, self.rate, 1.0, args=(1,)) if ends(1.0, 1) < 0.0 else 1.0
        return float(low), float(high)


# largest number of array elements in memory; 10,000 units then need less than 100 MB
_BLOCK = 1_000_000
_PERFECT = 1.0 - 1e-12
_FLAT = 1e-12  # a standard error below this is a rounding error


def resampled_values(
    statistic: Callable[[Floats], Floats], n_units: int, n_resamples: int, seed: int, *, width: int
) -> Floats:
    """Return a statistic of each resample of the units, without those that are undefined.

    Parameters
    ----------
    statistic : callable
        Takes counts, shape (resamples, units): how often each resample contains each unit. Returns
        one number per resample; NaN if it is undefined.
    n_units, n_resamples, seed : int
        Number of units, number of resamples, and seed of the random generator.
    width : int
        Number of array elements that the statistic needs for one resample.

    Returns
    -------
    ndarray of float
        The values that are defined, at most ``n_resamples``.
    """
    rng, share = np.random.default_rng(seed), np.full(n_units, 1.0 / n_units)
    block = max(1, _BLOCK // max(width, n_units))
    # draw the resamples here, in order, so that the result is the same for any number of workers
    draws = (
        rng.multinomial(n_units, share, min(block, n_resamples - start)).astype(float)
        for start in range(0, n_resamples, block)
    )
    values = np.concatenate(joblib.Parallel()(map(joblib.delayed(statistic), draws)))
    return np.asarray(values[np.isfinite(values)])


def jackknifed_z(estimate: float, left: Floats) -> tuple[float, float, float]:
    """Return Fisher's z of a coefficient, its standard error and their degrees of freedom.

    ``left`` has the coefficient without each of the units. The degrees of freedom are the number of
    units minus 1, and fewer if few units make up most of the variance: 2 n / (k - 1) for n units
    and the kurtosis k of their values. The standard error is 0 if no unit changes the coefficient,
    and NaN if it is 1 or -1, or becomes so or undefined without a unit.
    """
    n = len(left)
    if n < 2 or not np.abs([estimate, *left]).max() < _PERFECT:
        return NAN, NAN, NAN
    z = np.arctanh(left)
    squares = (z - z.mean()) ** 2
    se = math.sqrt((n - 1) / n * squares.sum())
    if se <= _FLAT:
        return math.atanh(estimate), 0.0, n - 1.0
    kurtosis = n * (squares**2).sum() / squares.sum() ** 2
    return math.atanh(estimate), se, min(n - 1.0, 2.0 * n / max(kurtosis - 1.0, _FLAT))
