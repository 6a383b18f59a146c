"""Intervals and tests for pass rates of independent cases: one arm, or two paired arms.

The paired intervals live in :mod:`skillcomp.stats.paired` and the two built on Beta distributions
in :mod:`skillcomp.stats.betas`; all can be had from here. Cases in clusters, or several attempts a
case: :mod:`skillcomp.stats.clusters` and :mod:`skillcomp.stats.switching`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.stats import beta, binom, binomtest, chi2
from statsmodels.stats.proportion import proportion_confint

from skillcomp.stats.betas import dirichlet_paired, fay_lumbard
from skillcomp.stats.paired import (
    agresti_min,
    bonett_price,
    check_counts,
    newcombe_paired,
    tango,
    wald_paired,
)
from skillcomp.stats.results import HypothesisTest, Interval, check_level, undefined
from skillcomp.stats.score import quantile, wilson_limits

__all__ = [
    "agresti_min",
    "bonett_price",
    "clopper_pearson",
    "dirichlet_paired",
    "fay_lumbard",
    "jeffreys",
    "mcnemar_asymptotic",
    "mcnemar_exact",
    "mcnemar_midp",
    "mover_difference",
    "newcombe_paired",
    "tango",
    "wald_paired",
    "wilson",
]

Limits = Callable[[float, float, float], tuple[float, float]]


def _proportion(
    successes: float, n: float, ci_level: float, label: str, limits: Limits
) -> Interval:
    check_level(ci_level)
    check_counts(successes=successes, n=n)
    if successes > n * (1 + 1e-12):
        raise ValueError(f"successes must not exceed n = {n:g}, found {successes:g}.")
    if n == 0:
        return undefined(label, "no units", ci_level=ci_level, n=0.0)
    rate = min(successes / n, 1.0)
    low, high = limits(rate, n, ci_level)
    # Rounding must not leave the rate outside its own interval.
    low, high = max(min(low, rate), 0.0), min(max(high, rate), 1.0)
    return Interval(rate, low, high, ci_level, label, n=float(n))


def wilson(
    successes: float, n: float, *, continuity: bool = False, ci_level: float = 0.95
) -> Interval:
    """Range of a pass rate by Wilson's score interval.

    The default for one pass rate of independent cases. With cases in clusters, or several attempts
    a case, use :func:`skillcomp.stats.clusters.wilson_effective`; where a guarantee is needed,
    :func:`clopper_pearson`.

    Parameters
    ----------
    successes, n : float
        Cases passed and all cases; may be fractional unless ``continuity`` is set.
    continuity : bool, default False
        Correct for continuity.
    ci_level : float, default 0.95
        Confidence level.

    Returns
    -------
    Interval
        Limits inside [0, 1], never of zero width. NaN with a note when ``n`` is 0.

    Raises
    ------
    ValueError
        When a count is negative or ``successes > n``, or fractional with ``continuity``.

    Notes
    -----
    Checked against R's ``prop.test`` and scipy's ``binomtest``.

    References
    ----------
    Wilson 1927, doi:10.1080/01621459.1927.10502953; Newcombe 1998, Statistics in Medicine 17:857.

    Examples
    --------
    >>> ci = wilson(9, 10)
    >>> round(ci.low, 4), round(ci.high, 4)
    (0.5958, 0.9821)
    """

    def plain(rate: float, n: float, level: float) -> tuple[float, float]:
        low, high = wilson_limits(rate, n, quantile(level))
        return float(low), float(high)

    def corrected(rate: float, n: float, level: float) -> tuple[float, float]:
        if successes != int(successes) or n != int(n):
            raise ValueError(
                f"a continuity correction needs whole counts, found {successes:g} of {n:g}."
            )
        ci = binomtest(int(successes), int(n)).proportion_ci(level, method="wilsoncc")
        return float(ci.low), float(ci.high)

    label = "Wilson score, continuity corrected" if continuity else "Wilson score"
    return _proportion(successes, n, ci_level, label, corrected if continuity else plain)


def clopper_pearson(successes: float, n: float, *, ci_level: float = 0.95) -> Interval:
    """Range of a pass rate with guaranteed coverage, and so rather wide.

    Parameters
    ----------
    successes, n : float
        Cases passed and all cases.
    ci_level : float, default 0.95
        Confidence level.

    Returns
    -------
    Interval
        Limits inside [0, 1], never of zero width. NaN with a note when ``n`` is 0.

    Raises
    ------
    ValueError
        When a count is negative or ``successes > n``.

    Notes
    -----
    Limits by statsmodels ``proportion_confint(method="beta")``. Checked against R's ``binom.test``.

    References
    ----------
    Clopper and Pearson 1934, doi:10.1093/biomet/26.4.404.

    Examples
    --------
    >>> ci = clopper_pearson(0, 20)
    >>> ci.low, round(ci.high, 4)
    (0.0, 0.1684)
    """

    def limits(rate: float, n: float, level: float) -> tuple[float, float]:
        low, high = proportion_confint(rate * n, n, alpha=1 - level, method="beta")
        return float(low), float(high)

    return _proportion(successes, n, ci_level, "Clopper-Pearson", limits)


def jeffreys(successes: float, n: float, *, prior: float = 0.5, ci_level: float = 0.95) -> Interval:
    """Posterior of a pass rate under a symmetric Beta prior, Jeffreys' unless told otherwise.

    Parameters
    ----------
    successes, n : float
        Cases passed and all cases.
    prior : float, default 0.5
        Both parameters of the prior, above 0; 1 is the uniform prior.
    ci_level : float, default 0.95
        Probability of the central interval.

    Returns
    -------
    Interval
        ``estimate`` is the posterior mean, limits the raw posterior quantiles, which at 0 or ``n``
        successes leave the observed rate outside. NaN with a note when ``n`` is 0.

    Raises
    ------
    ValueError
        When a count is negative, ``successes > n`` or the prior is not above 0.

    Notes
    -----
    Checked against R's ``qbeta``.

    References
    ----------
    Brown, Cai and DasGupta 2001, doi:10.1214/ss/1009213286.

    Examples
    --------
    >>> ci = jeffreys(9, 10)
    >>> round(ci.low, 4), round(ci.high, 4)
    (0.6187, 0.989)
    """
    if not prior > 0:
        raise ValueError(f"prior must be above 0, found {prior!r}.")
    label = f"Beta posterior, prior {prior:g}"
    checked = _proportion(successes, n, ci_level, label, lambda *_: (0.0, 1.0))
    if n == 0:
        return checked
    posterior = beta(successes + prior, n - successes + prior)
    low, high = (float(v) for v in posterior.interval(ci_level))
    return replace(checked, estimate=float(posterior.mean()), low=low, high=high)


def mover_difference(
    first: Interval | tuple[float, float, float],
    second: Interval | tuple[float, float, float],
    *,
    ci_level: float | None = None,
) -> Interval:
    """Difference of two independent estimates from their separate intervals.

    The method of variance estimates recovery: for instance the far delta minus the near delta,
    each with its own score interval.

    Parameters
    ----------
    first, second : Interval or tuple of float
        Estimate, lower and upper limit of each, at the same confidence level, from different
        cases. The difference is first minus second.
    ci_level : float, optional
        Level of the limits; needed only when both are tuples (0.95 when left out).

    Returns
    -------
    Interval
        Limits of the difference, not cut. NaN with a note when a part is NaN. ``p_value`` is NaN:
        two finished intervals do not tell how they change with the level.

    Raises
    ------
    ValueError
        When an estimate lies outside its limits, or when the two levels differ.

    Notes
    -----
    Checked against ratesci 1.0.0 and a value worked by hand.

    References
    ----------
    Zou and Donner 2008, Statistics in Medicine 27:1693-1702, doi:10.1002/sim.3095.

    Examples
    --------
    >>> ci = mover_difference((0.5, 0.2, 0.7), (0.1, -0.2, 0.5))
    >>> round(ci.estimate, 3), round(ci.low, 3), round(ci.high, 3)
    (0.4, -0.1, 0.761)
    """
    level = _common_level(first, second, ci_level)
    label = "difference of two intervals (MOVER)"
    parts = [
        (v.estimate, v.low, v.high) if isinstance(v, Interval) else tuple(map(float, v))
        for v in (first, second)
    ]
    if not all(math.isfinite(v) for part in parts for v in part):
        return undefined(label, "an estimate or a limit is not defined", ci_level=level)
    for name, (estimate, low, high) in zip(("first", "second"), parts, strict=True):
        if not low <= estimate <= high:
            raise ValueError(
                f"{name}: the estimate {estimate:g} must lie between its limits, "
                f"found {low:g} and {high:g}."
            )
    (e1, l1, u1), (e2, l2, u2) = parts
    difference = e1 - e2
    low = difference - math.hypot(e1 - l1, u2 - e2)
    high = difference + math.hypot(u1 - e1, e2 - l2)
    sizes = [v.n for v in (first, second) if isinstance(v, Interval)]
    n = sum(sizes) if len(sizes) == 2 else math.nan
    return Interval(difference, low, high, level, label, n=n)


def _common_level(
    first: Interval | tuple[float, float, float],
    second: Interval | tuple[float, float, float],
    ci_level: float | None,
) -> float:
    levels = {v.ci_level for v in (first, second) if isinstance(v, Interval)}
    if ci_level is not None:
        levels.add(ci_level)
    if len(levels) > 1:
        raise ValueError(f"the intervals must have one level, found {sorted(levels)}.")
    return check_level(levels.pop() if levels else 0.95)


def _discordant(b: float, c: float) -> tuple[int, int]:
    check_counts(b=b, c=c)
    if b != int(b) or c != int(c):
        raise ValueError(f"b and c must be whole numbers of cases, found {b:g} and {c:g}.")
    return int(b), int(c)


_GUARD = "no discordant case: nothing speaks against equality, p = 1"


def mcnemar_exact(b: float, c: float) -> HypothesisTest:
    """Whether two paired pass rates differ, by the exact test on the discordant cases.

    Parameters
    ----------
    b, c : int
        Cases passed only with the skill, only in the baseline.

    Returns
    -------
    HypothesisTest
        ``statistic`` is ``b``; ``p_value`` two-sided; 1 with a note when ``b + c`` is 0.

    Raises
    ------
    ValueError
        When a count is negative or not whole.

    See Also
    --------
    mcnemar_midp : less conservative, recommended by Fagerland et al. for small samples.

    References
    ----------
    McNemar 1947, doi:10.1007/BF02295996.

    Examples
    --------
    >>> mcnemar_exact(1, 7).p_value
    0.0703125
    """
    b, c = _discordant(b, c)
    label = "exact McNemar"
    if b + c == 0:
        return HypothesisTest(0.0, 1.0, label, _GUARD)
    return HypothesisTest(float(b), float(binomtest(b, b + c).pvalue), label)


def mcnemar_midp(b: float, c: float) -> HypothesisTest:
    """Whether two paired pass rates differ, by the mid-p test on the discordant cases.

    Parameters
    ----------
    b, c : int
        Cases passed only with the skill, only in the baseline.

    Returns
    -------
    HypothesisTest
        ``statistic`` is ``b``; ``p_value`` is the exact one less the probability of the observed
        table; 1 with a note when ``b + c`` is 0.

    Raises
    ------
    ValueError
        When a count is negative or not whole.

    References
    ----------
    Fagerland, Lydersen and Laake 2013, doi:10.1186/1471-2288-13-91.

    Examples
    --------
    >>> round(mcnemar_midp(1, 7).p_value, 7)
    0.0390625
    """
    b, c = _discordant(b, c)
    label = "mid-p McNemar"
    if b + c == 0:
        return HypothesisTest(0.0, 1.0, label, _GUARD)
    at = float(binom.pmf(b, b + c, 0.5))
    p_value = 1 - at / 2 if b == c else float(binomtest(b, b + c).pvalue) - at
    return HypothesisTest(float(b), float(np.clip(p_value, 0.0, 1.0)), label)


def mcnemar_asymptotic(b: float, c: float, *, continuity: bool = False) -> HypothesisTest:
    """Whether two paired pass rates differ, by the chi-squared test on the discordant cases.

    Parameters
    ----------
    b, c : float
        Cases passed only with the skill, only in the baseline.
    continuity : bool, default False
        Subtract 1 from the absolute difference, never going below 0.

    Returns
    -------
    HypothesisTest
        ``statistic`` on one degree of freedom; 0 with p = 1 and a note when ``b + c`` is 0, where
        statsmodels with its correction answers p = 0.

    Raises
    ------
    ValueError
        When a count is negative.

    Examples
    --------
    >>> round(mcnemar_asymptotic(1, 7).p_value, 6)
    0.033895
    """
    check_counts(b=b, c=c)
    label = "asymptotic McNemar" + (", continuity corrected" if continuity else "")
    if b + c == 0:
        return HypothesisTest(0.0, 1.0, label, _GUARD, df=1.0)
    distance = max(abs(b - c) - 1, 0) if continuity else abs(b - c)
    statistic = distance**2 / (b + c)
    return HypothesisTest(statistic, float(chi2.sf(statistic, 1)), label, df=1.0)
