"""Effects that differ between units such as skills: spread, prediction and partial pooling."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from skillcomp.errors import FrameError
from skillcomp.stats.results import NAN, Floats, Interval, check_level, quantile, undefined

_SPREADS = 100  # number of points taken from the confidence distribution of the variance
_HALVINGS = 50
_NO_SPREAD = "all effects are the same: their spread is unknown"
_TOO_ALIKE = "the effects differ less than their errors alone should make them: no limits"
_NO_NOISE = "no spread within the units: nothing shows the error of an effect"


@dataclass(frozen=True, slots=True)
class RandomEffects:
    """The spread of the effects of several units, and the partially pooled effects.

    Attributes
    ----------
    sd : Interval
        Standard deviation between units; ``p_value`` tests that all units have the same effect.
    pooled : list of Interval
        The effect of each unit, shrunk towards the mean of all units.
    """

    sd: Interval
    pooled: list[Interval]


def prediction_interval(
    effects: ArrayLike,
    *,
    bounds: tuple[float, float] = (-math.inf, math.inf),
    ci_level: float = 0.95,
) -> Interval:
    """Predict the effect of the next unit from the estimated effects of several units.

    Parameters
    ----------
    effects : array_like of float, shape (k,)
        The estimated effects, such as the delta of each skill. At least three.
    bounds : tuple of float, optional
        Smallest and largest possible effect.
    ci_level : float, default 0.95
        Probability that the interval covers the effect of the next unit.

    Returns
    -------
    Interval
        The mean and the prediction limits. NaN with a note if all effects are the same.

    Raises
    ------
    FrameError
        If there are fewer than three effects, or one is not a finite number.

    Notes
    -----
    The limits are those of a t prediction interval: mean plus or minus t s sqrt(1 + 1/k). Here s is
    the standard deviation of the k effects, and t is a quantile with k - 2 degrees of freedom. The
    lower limit is replaced by the j-th smallest effect if that is lower, and the upper limit by the
    j-th largest effect if that is higher. j is (k + 1) (1 - ci_level) / 2, rounded down, but at
    least 1; at 95 % and with fewer than 79 units, j is 1. Ranks do not need normal effects: the
    next effect is between the smallest and the largest of k with probability (k - 1) / (k + 1). The
    variance s squared includes the error of the estimated effects, so that the interval is too wide
    rather than too narrow if effects differ little. With k - 1 instead of k - 2 degrees of freedom,
    coverage falls just below 93 % for 5 units if only few have an effect.

    ``docs/intervals.md`` compares the coverage with that of other intervals. No interval from k
    units can cover a rare unit that is unlike all of them. Suppose that a share p of all units has
    a different effect. The k units then contain none of these with probability (1 - p)^k. The
    probability that, in addition, the next unit is one of them is p (1 - p)^k: at most 6.7 % for 5
    units and 2.4 % for 15.

    References
    ----------
    Higgins, Thompson and Spiegelhalter 2009, doi:10.1111/j.1467-985X.2008.00552.x.

    Examples
    --------
    >>> interval = prediction_interval([0.1, 0.2, 0.3, 0.2, 0.2])
    >>> round(interval.low, 3), round(interval.high, 3)
    (-0.047, 0.447)
    """
    level, y = check_level(ci_level), np.sort(np.asarray(effects, float))
    k = len(y)
    method = f"t(k - 2) prediction interval, extended to the observed effects; {k} units"
    if k < 3 or not np.isfinite(y).all():
        raise FrameError(f"prediction_interval: found {k} effects; allowed: three or more numbers.")
    mean, spread = float(y.mean()), float(y.std(ddof=1))
    if spread <= 1e-12:
        return undefined(method, _NO_SPREAD, ci_level=level, n=float(k))
    t = quantile(level, k - 2)
    reach = t * spread * math.sqrt(1.0 + 1.0 / k)
    rank = max(int((k + 1) * (1.0 - level) / 2.0 + 1e-9), 1)
    low, high = min(mean - reach, y[rank - 1]), max(mean + reach, y[-rank])
    limits = max(float(low), bounds[0]), min(float(high), bounds[1])
    se = reach / t
    return Interval(mean, *limits, level, method, n=k, n_clusters=k, se=se, df=k - 2.0)


def random_effects(
    effects: ArrayLike, variances: ArrayLike, *, ci_level: float = 0.95
) -> RandomEffects:
    """Estimate the spread of the effects of several units, and pool the effects partially.

    Parameters
    ----------
    effects : array_like of float, shape (k,)
        The estimated effects. At least three.
    variances : array_like of float, shape (k,)
        The squared standard errors of the effects. They should not depend on the effects, so
        compute them from one variance within units that is pooled over all units.
    ci_level : float, default 0.95
        Confidence level.

    Returns
    -------
    RandomEffects
        The standard deviation (Paule and Mandel) with the limits of its Q profile, and the
        partially pooled effects. The pooled effects are NaN with a note if all variances are 0.

    Raises
    ------
    FrameError
        If there are fewer than three effects, the lengths differ, a number is not finite, or a
        variance is below 0.

    Notes
    -----
    For a variance t between units, Q(t) = sum of (effect - mean)^2 / (variance + t) has a
    chi-square distribution with k - 1 degrees of freedom if effects are normal. The values of t at
    which Q(t) equals the quantiles of this distribution form the confidence distribution of t, cut
    at 0. The limits of the standard deviation are square roots of two quantiles of this
    distribution (Viechtbauer 2007); they are NaN with a note if both are 0. For the pooled effects,
    100 values of t are taken from the distribution. For each value, the usual shrinkage estimate of
    a unit and its variance define a normal distribution. The limits are quantiles of the mixture of
    these 100 distributions. They include the uncertainty about the spread, which limits from a
    single estimate of t do not.

    The interval of the standard deviation assumes normal effects. If few units carry the whole
    effect, the sample may happen to contain none of them, and the interval is then too low.
    Partially pooled effects are nearer to the truth on average, but too near to the mean for the
    few units that are unlike the others.

    References
    ----------
    Paule and Mandel 1982, doi:10.6028/jres.087.022. Viechtbauer 2007, doi:10.1002/sim.2514.
    """
    level = check_level(ci_level)
    y, v = (np.asarray(part, float) for part in (effects, variances))
    k = len(y)
    if k < 3 or v.shape != y.shape or not (np.isfinite([y, v]).all() and (v >= 0).all()):
        raise FrameError(
            f"random_effects: found {k} effects and {v.size} variances; allowed: three or more "
            "numbers with as many variances of 0 or more."
        )
    if v.min() == 0 and np.ptp(y) <= 1e-12:
        sd = undefined("Q profile", _NO_SPREAD, ci_level=level, n=float(k))
    else:
        sd = _spread_interval(y, v, level)
    if v.max() == 0:
        return RandomEffects(sd, [undefined("", _NO_NOISE, ci_level=level, n=1.0)] * k)
    return RandomEffects(sd, _pooled_effects(y, v, level))


def _spread_interval(y: Floats, v: Floats, level: float) -> Interval:
    """Return the standard deviation between units, with the limits of its Q profile."""
    from scipy.stats import chi2
    from statsmodels.stats.meta_analysis import combine_effects

    k, tail = len(y), (1.0 - level) / 2.0
    targets = chi2.isf([tail, 1.0 - tail], k - 1)
    low, high = np.sqrt(_variances_at(y, v, np.asarray(targets))).tolist()
    p_value = NAN
    if v.min() > 0 and np.ptp(y) > 0:
        combined = combine_effects(y, v, method_re="iterated")
        tau2, p_value = combined.tau2, float(combined.test_homogeneity().pvalue)
    else:
        (tau2,) = _variances_at(y, v, np.array([k - 1.0]))  # tau2 is 0 if all effects are equal
    note = "" if high > 0 else _TOO_ALIKE
    low, high = (low, high) if high > 0 else (NAN, NAN)
    sd = Interval(math.sqrt(tau2), low, high, level, "Paule-Mandel, Q profile", note)
    return replace(sd, n=k, n_clusters=k, df=k - 1.0, p_value=p_value)


def _variances_at(y: Floats, v: Floats, targets: Floats) -> Floats:
    """Return, for each target value of Q, the variance between units at which Q has this value.

    The result is 0 if Q is below the target for all variances.
    """
    low = np.zeros(len(targets))
    high = float(((y - y.mean()) ** 2).sum()) / targets
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        mean, precision = _means_at(y, v, middle)
        q = (precision * (y[:, None] - mean) ** 2).sum(axis=0)
        low, high = np.where(q > targets, middle, low), np.where(q > targets, high, middle)
    return np.where(low > 0, high, 0.0)


def _means_at(y: Floats, v: Floats, between: Floats) -> tuple[Floats, Floats]:
    """Return the weighted mean of the effects, and the precision of each effect.

    There is one result for each variance between units in the array ``between``.
    """
    precision = 1.0 / np.maximum(v[:, None] + between, 1e-300)
    return (precision * y[:, None]).sum(axis=0) / precision.sum(axis=0), precision


def _pooled_effects(y: Floats, v: Floats, level: float) -> list[Interval]:
    """Return partially pooled effects, averaged over the plausible variances between units."""
    from scipy.special import ndtr
    from scipy.stats import chi2

    points = (np.arange(_SPREADS) + 0.5) / _SPREADS
    mean, precision = _means_at(y, v, _variances_at(y, v, chi2.isf(points, len(y) - 1)))
    shrink = v[:, None] * precision
    centre = shrink * mean + (1.0 - shrink) * y[:, None]
    sd = np.sqrt((1.0 - shrink) * v[:, None] + shrink**2 / precision.sum(axis=0))
    ends = []
    for share in ((1.0 - level) / 2.0, (1.0 + level) / 2.0):
        low, high = (centre - 12 * sd).min(axis=1), (centre + 12 * sd).max(axis=1)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2.0
            above = ndtr((middle[:, None] - centre) / sd).mean(axis=1) > share
            low, high = np.where(above, low, middle), np.where(above, middle, high)
        ends.append((low + high) / 2.0)
    method = "partially pooled, over the confidence distribution of the spread"
    deviation = np.sqrt((sd**2).mean(axis=1) + centre.var(axis=1))
    return [
        Interval(estimate, low, high, level, method, n=1.0, se=se)
        for estimate, low, high, se in zip(
            centre.mean(axis=1).tolist(), *(end.tolist() for end in ends), deviation.tolist(),
            strict=True,
        )
    ]  # fmt: skip
