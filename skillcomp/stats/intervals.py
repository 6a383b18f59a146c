"""Intervals and tests for pass rates of independent cases: one condition, or two paired ones.

Vocabulary of the paired functions: ``a`` cases passed under both conditions, ``b`` only with the
skill, ``c`` only in the baseline, ``d`` under neither; the difference is ``(b - c) / n``. These are
the field's own methods, one attempt a case, for comparison with published work. With several
attempts a case, or cases in clusters: :func:`skillcomp.stats.bounded.bounded_mean`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import beta, binomtest, norm
from statsmodels.stats.proportion import proportion_confint

from skillcomp.stats.results import Interval, check_level, quantile, undefined

Floats = NDArray[np.float64]
Limits = Callable[[float, float, float], tuple[float, float]]

_NO_CASES = "no cases"
# Largest quantiles at which a p-value is sought: where a tail, or the level itself, leaves floats.
_FURTHEST, _FURTHEST_LEVEL = 38.0, 8.0


def check_counts(**counts: float) -> None:
    """Raise ValueError, by the name of the count, unless each is finite and not negative."""
    for name, value in counts.items():
        if not (math.isfinite(value) and value >= 0):
            raise ValueError(f"{name} must be a count of at least 0, found {value!r}.")


def wilson_limits(rate: Any, n: Any, q: Any) -> tuple[Floats, Floats]:
    """Return Wilson's limits of rates on ``n`` units (fractional ones too) at quantile ``q``.

    Elementwise on arrays; exactly 0 at rate 0 and 1 at rate 1. Statsmodels has them at a normal
    quantile only, where the paired intervals are searched over quantiles.
    """
    p, units, z = np.asarray(rate, float), np.asarray(n, float), np.asarray(q, float)
    z2n = z * z / units
    centre = (p + z2n / 2.0) / (1.0 + z2n)
    half = np.sqrt(z2n * (p * (1.0 - p) + z2n / 4.0)) / (1.0 + z2n)
    low = np.where(p <= 0.0, 0.0, np.clip(centre - half, 0.0, p))
    high = np.where(p >= 1.0, 1.0, np.clip(centre + half, p, 1.0))
    return low, high


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

    For one pass rate of independent cases. With cases in clusters, or several attempts a case, use
    :func:`skillcomp.stats.bounded.bounded_mean`; where a guarantee is needed,
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

    def limits(rate: float, n: float, level: float) -> tuple[float, float]:
        return _wilson_at(successes, n, quantile(level), corrected=continuity)

    label = "Wilson score, continuity corrected" if continuity else "Wilson score"
    return _proportion(successes, n, ci_level, label, limits)


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


def _phi(a: float, b: float, c: float, d: float, corrected: bool) -> float:
    margins = (a + b) * (c + d) * (a + c) * (b + d)
    if margins == 0:
        return 0.0
    excess = a * d - b * c
    if corrected and excess > 0:
        excess = max(excess - (a + b + c + d) / 2, 0.0)
    return excess / math.sqrt(margins)


def _wilson_at(passes: float, n: float, q: float, *, corrected: bool) -> tuple[float, float]:
    """Return Wilson's limits of one rate; corrected for continuity they need whole counts."""
    if not corrected:
        low, high = wilson_limits(passes / n, n, q)
        return float(low), float(high)
    if passes != int(passes) or n != int(n):
        raise ValueError(f"a continuity correction needs whole counts, found {passes:g} of {n:g}.")
    level = 1 - 2 * float(norm.sf(q))
    ci = binomtest(int(passes), int(n)).proportion_ci(level, method="wilsoncc")
    return float(ci.low), float(ci.high)


def _newcombe(a: float, b: float, c: float, d: float, method: int, q: float) -> tuple[float, float]:
    """Square and add: the distances of both rates to their own limits, with their correlation."""
    n = a + b + c + d
    p1, p0, delta = (a + b) / n, (a + c) / n, (b - c) / n
    phi = _phi(a, b, c, d, corrected=method == 10)
    low1, high1 = _wilson_at(a + b, n, q, corrected=method == 9)
    low0, high0 = _wilson_at(a + c, n, q, corrected=method == 9)

    def reach(x: float, y: float) -> float:
        return math.sqrt(max(x * x - 2 * phi * x * y + y * y, 0.0))

    low, high = delta - reach(p1 - low1, high0 - p0), delta + reach(high1 - p1, p0 - low0)
    return max(low, -1.0), min(high, 1.0)


def _newcombe_p(a: float, b: float, c: float, d: float, method: int) -> float:
    """Two-sided p-value of "no difference": the level at which the interval ends at zero."""
    if b < c:
        b, c = c, b
    furthest = _FURTHEST_LEVEL if method == 9 else _FURTHEST
    # The continuity correction leaves a gap at level 0, so a small difference has p = 1.
    if b == c or _newcombe(a, b, c, d, method, 1e-12)[0] <= 0:
        return 1.0
    if _newcombe(a, b, c, d, method, furthest)[0] > 0:
        return float(2 * norm.sf(furthest))
    root = brentq(
        lambda q: _newcombe(a, b, c, d, method, q)[0], 1e-12, furthest, xtol=1e-14, rtol=1e-14
    )
    return float(2 * norm.sf(root))


def newcombe_paired(
    a: float, b: float, c: float, d: float, *, method: int = 10, ci_level: float = 0.95
) -> Interval:
    """Difference of two paired pass rates by Newcombe's square-and-add score interval.

    The unit is the case. Method 10 kept its level in simulation from 10 cases on, near the ceiling
    too.

    Parameters
    ----------
    a, b, c, d : float
        Cases passed under both conditions, only with the skill, only in the baseline, under
        neither. Methods 8 and 10 accept fractional (effective) counts.
    method : {10, 8, 9}
        10: Wilson limits with the reduced correlation; 8: with the plain correlation; 9: Wilson
        limits corrected for continuity with the plain correlation.
    ci_level : float, default 0.95
        Confidence level.

    Returns
    -------
    Interval
        ``estimate`` is ``(b - c) / n``, limits inside [-1, 1], ``p_value`` by inverting the same
        interval, ``n`` the number of cases. NaN with a note when there are no cases.

    Raises
    ------
    ValueError
        On negative counts, an unknown method, or fractional counts with method 9.

    See Also
    --------
    tango : the score interval that agrees exactly with the asymptotic McNemar test.

    Notes
    -----
    Methods 8 and 9 have zero width when no case is discordant and both outcomes occur; method 10
    is then returned in their place, and ``note`` says so. Checked against contingencytables 3.0.1,
    ratesci 1.0.0 and the published tables.

    References
    ----------
    Newcombe 1998, Statistics in Medicine 17:2635-2650.

    Examples
    --------
    >>> ci = newcombe_paired(20, 12, 2, 16)
    >>> round(ci.estimate, 4), round(ci.low, 4), round(ci.high, 4)
    (0.2, 0.0562, 0.3292)
    """
    check_level(ci_level)
    check_counts(a=a, b=b, c=c, d=d)
    if method not in (8, 9, 10):
        raise ValueError(f"method must be 8, 9 or 10, found {method!r}.")
    if method == 9 and any(v != int(v) for v in (a, b, c, d)):
        raise ValueError(
            "method 9 corrects for continuity and needs whole counts, found "
            f"{a:g}, {b:g}, {c:g}, {d:g}; use method 10."
        )
    n = a + b + c + d
    label = f"Newcombe {method}"
    if n == 0:
        return undefined(label, _NO_CASES, ci_level=ci_level, n=0.0)
    note = ""
    if method != 10 and b == 0 == c and a > 0 < d:
        note = f"no discordant case, where method {method} has zero width: method 10 instead"
        label, method = "Newcombe 10", 10
    low, high = _newcombe(a, b, c, d, method, quantile(ci_level))
    p_value = _newcombe_p(a, b, c, d, method)
    return Interval((b - c) / n, low, high, ci_level, label, note, n, n, p_value=p_value)


def _without_cases(label: str, b: float, c: float, n: float, ci_level: float) -> Interval | None:
    """Check level and counts; return what is said of no cases, None where there are some."""
    check_level(ci_level)
    check_counts(b=b, c=c, n=n)
    if b + c > n * (1 + 1e-12):
        raise ValueError(f"b + c must not exceed n = {n:g}, found {b:g} + {c:g}.")
    return None if n else undefined(label, _NO_CASES, ci_level=ci_level, n=0.0)


def _tango_low(b: float, c: float, n: float, z: float) -> float:
    delta = (b - c) / n
    if delta <= -1.0:
        return -1.0

    def excess(value: float) -> float:
        linear = -b - c + (2 * n - b + c) * value
        root = math.sqrt(max(linear**2 + 8 * n * c * value * (1 - value), 0.0))
        share = (root - linear) / (4 * n)
        variance = n * (2 * share + value * (1 - value))
        return b - c - n * value - z * math.sqrt(max(variance, 0.0))

    # Without discordant pairs the variance is 0 at the estimate itself, where the equation has a
    # second root that is not the limit.
    return float(brentq(excess, -1.0, delta - 1e-13, xtol=1e-15, rtol=1e-14))


def tango(b: float, c: float, n: float, *, ci_level: float = 0.95) -> Interval:
    """Difference of two paired pass rates by Tango's score interval.

    The interval excludes zero exactly when the asymptotic McNemar test rejects:
    ``(b - c)**2 / (b + c) > z**2``.

    Parameters
    ----------
    b, c : float
        Cases passed only with the skill, only in the baseline; may be fractional.
    n : float
        All cases.
    ci_level : float, default 0.95
        Confidence level.

    Returns
    -------
    Interval
        ``estimate`` is ``(b - c) / n``, limits inside [-1, 1], ``p_value`` that of the asymptotic
        McNemar test (1 without discordant cases). NaN with a note when ``n`` is 0.

    Raises
    ------
    ValueError
        On negative counts or ``b + c > n``.

    Notes
    -----
    Its lowest coverage in simulation was 93.0 % at 30 cases (Newcombe 10: 95.5 %). Checked
    against contingencytables 3.0.1.

    References
    ----------
    Tango 1998, Statistics in Medicine 17:891-908.

    Examples
    --------
    >>> ci = tango(9, 3, 32)
    >>> round(ci.low, 3), round(ci.high, 3)
    (-0.027, 0.39)
    """
    if nothing := _without_cases("Tango score", b, c, n, ci_level):
        return nothing
    z = quantile(ci_level)
    low, high = _tango_low(b, c, n, z), -_tango_low(c, b, n, z)
    p_value = 1.0 if b + c == 0 else 2 * float(norm.sf(abs(b - c) / math.sqrt(b + c)))
    return Interval((b - c) / n, low, high, ci_level, "Tango score", "", n, n, p_value=p_value)


def _wald_like(
    label: str, b: float, c: float, n: float, centre: float, se: float, ci_level: float
) -> Interval:
    """Return the difference of two pass rates with limits around a shrunken centre."""
    reach = quantile(ci_level) * se
    low, high = max(centre - reach, -1.0), min(centre + reach, 1.0)
    p_value = 1.0 if centre == 0 else float(2 * norm.sf(abs(centre) / se)) if se > 0 else 0.0
    return Interval((b - c) / n, low, high, ci_level, label, "", n, n, se, p_value=p_value)


def bonett_price(b: float, c: float, n: float, *, ci_level: float = 0.95) -> Interval:
    """Difference of two paired pass rates by the adjusted Wald interval of Bonett and Price.

    Parameters
    ----------
    b, c : float
        Cases passed only with the skill, only in the baseline.
    n : float
        All cases.
    ci_level : float, default 0.95
        Confidence level.

    Returns
    -------
    Interval
        ``estimate`` is ``(b - c) / n``; the limits are centred on ``(b - c) / (n + 2)`` and cut
        to [-1, 1]; ``se`` is the adjusted one and ``p_value`` inverts the interval. NaN with a
        note when ``n`` is 0.

    Raises
    ------
    ValueError
        On negative counts or ``b + c > n``.

    Notes
    -----
    The closed form closest to :func:`newcombe_paired`; checked against contingencytables 3.0.1.

    References
    ----------
    Bonett and Price 2012, Journal of Educational and Behavioral Statistics 37:479-488,
    doi:10.3102/1076998611411915.

    Examples
    --------
    >>> ci = bonett_price(9, 3, 32)
    >>> round(ci.low, 4), round(ci.high, 4)
    (-0.0309, 0.3838)
    """
    if nothing := _without_cases("Bonett-Price", b, c, n, ci_level):
        return nothing
    only_skill, only_baseline = (b + 1) / (n + 2), (c + 1) / (n + 2)
    centre = only_skill - only_baseline
    se = math.sqrt((only_skill + only_baseline - centre**2) / (n + 2))
    return _wald_like("Bonett-Price", b, c, n, centre, se, ci_level)


def agresti_min(b: float, c: float, n: float, *, ci_level: float = 0.95) -> Interval:
    """Difference of two paired pass rates by the Wald interval with half a case per cell.

    Parameters
    ----------
    b, c : float
        Cases passed only with the skill, only in the baseline.
    n : float
        All cases.
    ci_level : float, default 0.95
        Confidence level.

    Returns
    -------
    Interval
        ``estimate`` is ``(b - c) / n``; the limits are centred on ``(b - c) / (n + 2)`` and cut
        to [-1, 1]; ``p_value`` inverts the interval. NaN with a note when ``n`` is 0.

    Raises
    ------
    ValueError
        On negative counts or ``b + c > n``.

    Notes
    -----
    Its lowest coverage in simulation was 92.2 % at 30 cases. Checked against contingencytables
    3.0.1.

    References
    ----------
    Agresti and Min 2005, Statistics in Medicine 24:729-740, doi:10.1002/sim.1781.

    Examples
    --------
    >>> ci = agresti_min(9, 3, 32)
    >>> round(ci.low, 4), round(ci.high, 4)
    (-0.0227, 0.3757)
    """
    if nothing := _without_cases("Agresti-Min", b, c, n, ci_level):
        return nothing
    se = math.sqrt(b + c + 1 - (b - c) ** 2 / (n + 2)) / (n + 2)
    return _wald_like("Agresti-Min", b, c, n, (b - c) / (n + 2), se, ci_level)


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
    one, two = (v if isinstance(v, Interval) else Interval(*v) for v in (first, second))
    levels = {v.ci_level for v in (first, second) if isinstance(v, Interval)}
    levels |= set() if ci_level is None else {ci_level}
    if len(levels) > 1:
        raise ValueError(f"the intervals must have one level, found {sorted(levels)}.")
    level = check_level(levels.pop() if levels else 0.95)
    found = replace(one, ci_level=level, note="").minus(replace(two, note=""))
    for name, v in (("first", one), ("second", two)):
        if not math.isnan(found.low) and not v.low <= v.estimate <= v.high:
            raise ValueError(
                f"{name}: the estimate {v.estimate:g} must lie between its limits, "
                f"found {v.low:g} and {v.high:g}."
            )
    return found
