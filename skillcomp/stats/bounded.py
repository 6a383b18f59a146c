"""Interval for the mean of a bounded quantity over cases or clusters.

The interval is Gaffke's bound with a pseudo-case of weight ``c``. It is computed exactly from a sum
of chi-squares, without random numbers, and by the same method for all data. All analyses use it for
rates, paired differences and shares of checks. For quantities without bounds, such as dollars,
seconds or tokens, see :func:`skillcomp.stats.clusters.cr2_mean` and
:func:`skillcomp.stats.clusters.log_ratio`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, ndtri
from scipy.stats import beta as beta_distribution

from skillcomp.stats.clusters import (
    ZERO_VARIANCE,
    Clusters,
    complete_values,
    heavy_note,
    satterthwaite,
)
from skillcomp.stats.results import Interval, check_level, join_notes, undefined

Floats = NDArray[np.float64]
Sample = tuple[ArrayLike, Any, ArrayLike | None]  # values, clusters and weights


@dataclass(frozen=True, slots=True)
class Quantity:
    """Bounds of a quantity and the weight of its pseudo-case.

    Attributes
    ----------
    low, high : float
        Smallest and largest possible value of one case.
    c : float
        Weight of the pseudo-case at the bound, as a number of cases. With 1, the interval is
        Gaffke's bound (Clopper-Pearson for yes/no data); with 1/2, it corresponds to the mid-p
        interval. With less than 1/3, a limit could be on the wrong side of the estimate.
    largest : bool, default False
        Whether the pseudo-case is as large as the largest cluster. Otherwise its size is a weighted
        mean of the cluster sizes, with the squared sizes as weights. Choose True for a gap between
        two groups with different weights: all the variation may be in the group that is measured
        less precisely, and the interval must be wide enough for that.
    """

    low: float
    high: float
    c: float
    largest: bool = False


# c was chosen by a rule that was fixed before the results were seen. It is the smallest of .5, .55,
# ..., 1 that meets two conditions. First, coverage must be at least 94 % in every design of `make
# validate`. Second, for yes/no data with 1 to 100 cases, coverage must be at least 92 % at the
# worst true value, with at most 5 % error on either side. For example, 0.7 fails: coverage is 93.0
# % for eight cases that all flip, half of them up, or that pass half the time.
_C = 0.75
RATES = Quantity(0.0, 1.0, _C)
SHARES = Quantity(0.0, 1.0, _C)
DELTAS = Quantity(-1.0, 1.0, _C)

# Settings of the trapezoid rule for the integral along the contour: the step in v (y = sd sinh(v)),
# the number of nodes per block, and the largest number of blocks. With two or more cases, fewer
# blocks are enough.
_STEP, _NODES, _BLOCKS = 0.12, 20, 14
_BEND = 0.5  # Largest angle between the contour and the vertical. The bend damps slow oscillations.
_CHUNK = 1_000_000  # Maximum number of array elements in memory at a time.
_ENOUGH = 1e-15  # The trapezoid sum ends at a node that adds less than this share of the sum.
_XTOL = 1e-11  # Precision of a limit, as a fraction of the range of the quantity.
_ONE_OR_TWO = 2  # An interval from at most this number of cases gets a note.
_EFFECTIVE = 5.0  # A note warns if the effective number of clusters (Kish) is below this.


@dataclass(frozen=True, slots=True)
class BoundedMeans:
    """Means of many studies, with intervals.

    Attributes
    ----------
    estimate, low, high, p_value : ndarray of float64, shape (S,)
        As in :class:`skillcomp.stats.results.Interval`, with one entry per study.
    ci_level : float
        Confidence level of the limits.
    """

    estimate: Floats
    low: Floats
    high: Floats
    p_value: Floats
    ci_level: float

    @classmethod
    def around(cls, estimate: Floats, solved: Floats, ci_level: float) -> BoundedMeans:
        """Combine estimates with ``solved``, an array with the rows low, high and p-value.

        Limits are widened if rounding has put the estimate outside them.
        """
        low, high = np.minimum(solved[0], estimate), np.maximum(solved[1], estimate)
        return cls(estimate, low, high, solved[2], ci_level)


@dataclass(frozen=True)
class _Samples:
    """Numbers of cases (or clusters) with each value and weight, for each of S studies.

    All arrays have the shape (S, m). Entries with a count of 0 only fill up the shape.
    """

    value: Floats
    weight: Floats
    count: Floats

    @property
    def top(self) -> Floats:
        return np.asarray(np.where(self.count > 0, self.value, -np.inf).max(1))

    def rows(self, keep: Any) -> _Samples:
        return _Samples(self.value[keep], self.weight[keep], self.count[keep])

    def mirrored(self) -> _Samples:
        return _Samples(-self.value, self.weight, self.count)

    def with_pseudo_case(self, bound: float, quantity: Quantity) -> _Samples:
        """Add a pseudo-case at ``bound`` with count ``c``; `Quantity` describes its weight."""
        size = (self.count * self.weight**3).sum(1) / (self.count * self.weight**2).sum(1)
        if quantity.largest:
            size = np.where(self.count > 0, self.weight, 0.0).max(1)
        column = np.ones((len(self.value), 1))
        return _Samples(
            np.hstack([self.value, bound * column]),
            np.hstack([self.weight, size[:, None]]),
            np.hstack([self.count, quantity.c * column]),
        )


def chance_below(samples: _Samples, at: Floats, *, slope: bool = False) -> tuple[Floats, Floats]:
    """Compute the probability that the randomly weighted mean is below ``at``, and its density.

    This is the probability of ``sum g w (at - value) > 0``, where g is gamma-distributed with shape
    ``count``. The sum is a linear combination of chi-square variables. Its distribution function is
    an inversion integral. The integral is computed along a hyperbola through the saddlepoint, where
    the integrand neither oscillates nor cancels. The tail that does not contain the mean is
    computed, so that small probabilities keep their precision. The density is 0 unless ``slope`` is
    True.
    """
    reach = np.where(samples.count > 0, samples.weight * (at[:, None] - samples.value), 0.0)
    most, least = reach.max(1), reach.min(1)
    chance, density = (most > 0).astype(float), np.zeros(len(at))
    open_ = np.flatnonzero((most > 0) & (least < 0))
    rows = max(1, _CHUNK // (reach.shape[1] * _NODES))
    for start in range(0, len(open_), rows):
        k = open_[start : start + rows]
        over = (samples.count[k] * reach[k]).sum(1) > 0
        # Where `over` is True, most of the probability is below ``at``. The scale is then negative.
        # This reverses the sign of the sum, so that the small probability above ``at`` is computed.
        scale = np.where(over, least[k], most[k])[:, None]
        lam, change = reach[k] / scale, samples.weight[k] / scale
        beyond, change = _path_integral(lam, samples.count[k], change, slope)
        chance[k] = np.where(over, 1.0 - beyond, beyond)
        density[k] = np.where(over, -change, change)
    return chance, density


def _saddle_point(lam: Floats, count: Floats) -> tuple[Floats, Floats]:
    """Return the s in (0, 1) that minimises ``exp(K(s)) / s``, and ``1 - lam s``.

    K is the cumulant generating function of ``sum lam g``. Newton steps on the logit of s stay
    inside a bracket. An approximate s is enough.
    """
    start = 1.0 / (1.0 + (count * np.maximum(lam, 0.0)).sum(1))
    low = np.log(start) - np.log1p(-start) - 1e-9
    high, u = np.full(len(lam), 60.0), low + 0.5
    for _ in range(100):
        s, rest = expit(u), expit(-u)
        ratio = lam / ((1.0 - lam) + lam * rest[:, None])
        first, second = (count * ratio).sum(1), (count * ratio * ratio).sum(1)
        value = s * first - 1.0
        up = value > 0
        high, low = np.where(up, u, high), np.where(up, low, u)
        with np.errstate(divide="ignore", invalid="ignore"):
            new = u - value / ((s * first + s * s * second) * rest)
        new = np.where((new > low) & (new < high), new, 0.5 * (low + high))
        moved = np.abs(new - u)
        u = new
        if (moved < 1e-3).all():
            break
    return expit(u), (1.0 - lam) + lam * expit(-u)[:, None]


def _path_integral(lam: Floats, count: Floats, shift: Floats, slope: bool) -> tuple[Floats, Floats]:
    """Return the probability that ``sum lam g > 0``, and its slope along ``shift``.

    The largest ``lam`` must be 1.
    """
    s, rest = _saddle_point(lam, count)
    ratio = lam / rest
    sd = 1.0 / np.sqrt((count * ratio * ratio).sum(1) + 1.0 / s**2)
    height = np.exp(-(count * np.log(rest)).sum(1) - np.log(s)) * sd * _STEP / np.pi
    # Bend the contour only so far that the integrand does not grow along it. The limit depends on
    # the number of terms with a positive lam.
    bend = np.minimum(_BEND, 1.0 / np.sqrt((count * (lam > 0)).sum(1)))
    across, along = np.cos(bend), np.sin(bend)
    total = 0.5 * across
    steep = shift / rest
    tilt = total * s * (count * steep).sum(1) if slope else np.zeros(len(s))
    live = np.arange(len(s))
    for block in range(_BLOCKS):
        v = _STEP * (np.arange(_NODES) + 1.0 + block * _NODES)
        up, right = across[live][:, None], along[live][:, None]
        speed = up * np.cosh(v) - 1j * right * np.sinh(v)
        y = sd[live][:, None] * (right * (np.cosh(v) - 1.0) + 1j * up * np.sinh(v))
        # Store the complex factors 1 - ratio y as two real arrays, because the logarithm of complex
        # numbers takes five times as long.
        each, shape = ratio[live][:, :, None], count[live][:, :, None]
        real, imaginary = 1.0 - each * y.real[:, None, :], -each * y.imag[:, None, :]
        square = real * real + imaginary * imaginary
        size = 0.5 * (shape * np.log(square)).sum(1)
        turn = (shape * np.arctan2(imaginary, real)).sum(1)
        place = 1.0 + y / s[live][:, None]
        node = np.exp(-size - 1j * turn) / place * speed
        total[live] += node.real.sum(1)
        if slope:
            weight = shape * steep[live][:, :, None] / square
            change = (weight * real).sum(1) - 1j * (weight * imaginary).sum(1)
            tilt[live] += (node * change * place * s[live][:, None]).real.sum(1)
        live = live[np.abs(node[:, -1]) > _ENOUGH * np.abs(total[live])]
        if not len(live):
            break
    return height * total, height * tilt


def _lower_limits(samples: _Samples, quantity: Quantity, tail: float) -> Floats:
    """Return the lower limit of each study: the ``tail`` quantile of the randomly weighted mean.

    The quantile is found by Newton's method inside a bracket, with probabilities on the scale of
    normal quantiles. The first value is a quantile of the beta distribution that has the same mean
    and variance as the randomly weighted mean.
    """
    whole = samples.with_pseudo_case(quantity.low, quantity)
    top = samples.top
    limits = np.full(len(top), float(quantity.low))
    live = np.flatnonzero(top > quantity.low)
    whole, low, high = whole.rows(live), limits[live], top[live]
    at = _beta_start(whole, low, high, tail)
    target, span = float(ndtri(tail)), quantity.high - quantity.low
    for _ in range(100):
        if not len(live):
            break
        chance, density = chance_below(whole, at, slope=True)
        z = ndtri(np.clip(chance, 1e-300, 1.0 - 1e-16))
        above = z > target
        high, low = np.where(above, at, high), np.where(above, low, at)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            new = at - (z - target) * np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi) / density
        new = np.where((new >= low) & (new <= high), new, 0.5 * (low + high))
        moved = np.abs(new - at)
        limits[live] = at = new
        going = moved > _XTOL * span
        live, whole, at = live[going], whole.rows(going), at[going]
        low, high = low[going], high[going]
    return limits


def _beta_start(whole: _Samples, low: Floats, top: Floats, tail: float) -> Floats:
    share = whole.count * whole.weight
    share /= share.sum(1, keepdims=True)
    mean = (share * whole.value).sum(1)
    spread = (share * (whole.value - mean[:, None]) ** 2).sum(1) / (1.0 + whole.count.sum(1))
    width = top - low
    m = np.clip((mean - low) / width, 1e-9, 1 - 1e-9)
    size = np.maximum(m * (1 - m) / np.maximum(spread / width**2, 1e-14) - 1.0, 1e-3)
    start = low + width * beta_distribution.ppf(tail, m * size, (1 - m) * size)
    return np.asarray(np.clip(start, low + 1e-12 * width, top - 1e-12 * width))


def _check_null(null: float | None, quantity: Quantity, ci_level: float) -> None:
    check_level(ci_level)
    low, high = quantity.low, quantity.high
    if null is not None and (null < low or null > high):
        raise ValueError(f"null must lie between {low:g} and {high:g}, found {null:g}.")


def _clip_to_bounds(values: Floats, quantity: Quantity) -> Floats:
    """Clip values to the bounds; raise ValueError if one is outside by more than rounding."""
    low, high = quantity.low, quantity.high
    slack = 1e-9 * (high - low)
    if not ((values >= low - slack) & (values <= high + slack)).all():
        extent = f"{values.min():g} to {values.max():g}"
        raise ValueError(f"values must lie between {low:g} and {high:g}, found {extent}.")
    return np.clip(values, low, high)


def _relative_weights(weights: ArrayLike | None, values: Floats) -> Floats:
    """Return the weights, divided by the largest weight of a value that is not missing."""
    raw = np.ones(values.shape) if weights is None else np.asarray(weights, dtype=np.float64)
    if raw.shape != values.shape:
        raise ValueError(f"weights: found shape {raw.shape}; there are {values.shape} values.")
    used = raw[np.isfinite(values)]
    if not (np.isfinite(used) & (used > 0)).all():
        raise ValueError("weights must be above 0.")
    return np.asarray(raw / used.max(initial=0.0), dtype=np.float64)


def _solve_limits(
    samples: _Samples, quantity: Quantity, null: float | None, ci_level: float, limits: bool = True
) -> Floats:
    """Return lower limits, upper limits and p-values of ``null`` as three rows.

    The limits are NaN if ``limits`` is False. The p-values are NaN if ``null`` is None.
    """
    tail = 0.5 * (1.0 - ci_level)
    turned = replace(quantity, low=-quantity.high, high=-quantity.low)
    low = high = np.full(len(samples.value), np.nan)
    if limits:
        low = _lower_limits(samples, quantity, tail)
        high = -_lower_limits(samples.mirrored(), turned, tail)
    p_value = np.full(len(low), np.nan)
    if null is not None and not math.isnan(null):
        # The p-value is twice the smaller of two probabilities: that the mean is below the null and
        # that it is above. Each is computed with a pseudo-case at its own bound, so they add up to
        # 1 or more. If the first one computed is at most 1/2, it is the smaller one.
        size = samples.count * samples.weight
        above = (size * (samples.value - null)).sum(1) > 0
        chance = _chance_beyond(samples, quantity, null, above)
        chance = np.fmin(chance, _chance_beyond(samples.mirrored(), turned, -null, ~above))
        rest = ~(chance <= 0.5)
        other = _chance_beyond(samples, quantity, null, rest & ~above)
        other = np.fmin(other, _chance_beyond(samples.mirrored(), turned, -null, rest & above))
        p_value = np.minimum(1.0, 2.0 * np.fmin(chance, other))
    return np.stack([low, high, p_value])


def _chance_beyond(samples: _Samples, quantity: Quantity, null: float, which: Any) -> Floats:
    """Return P(mean is below the null) for each study in ``which``; NaN for the others."""
    chance = np.full(len(samples.value), np.nan)
    if which.any():
        side = samples.rows(which)
        whole = side.with_pseudo_case(quantity.low, quantity)
        below, _ = chance_below(whole, np.full(len(side.value), null))
        # if all values are at the bound, the mean is at the bound whatever the weights
        sure = (side.top <= quantity.low) & (null >= quantity.low)
        chance[which] = np.where(sure, 1.0, below)
    return chance


def bounded_mean(
    values: ArrayLike,
    clusters: Any = None,
    *,
    quantity: Quantity = RATES,
    weights: ArrayLike | None = None,
    null: float | None = None,
    ci_level: float = 0.95,
) -> Interval:
    """Estimate the mean of a bounded quantity over cases, with an interval valid near the bounds.

    Parameters
    ----------
    values : array_like of float, shape (n,)
        One value per case, inside the bounds of the quantity; average the repeats and checks of a
        case first. NaN is left out and counted in ``note``.
    clusters : array_like, shape (n,), optional
        Cluster of each case; if omitted, each case is a cluster. The mean is over cases, not over
        clusters.
    quantity : Quantity, default RATES
        Bounds of the values and weight of the pseudo-case: ``RATES``, ``SHARES`` or ``DELTAS``.
    weights : array_like of float, shape (n,), optional
        Weight of each case, above 0; equal if omitted.
    null : float, optional
        Mean to test, such as 0 for a difference; must be inside the bounds.
    ci_level : float, default 0.95
        Confidence level.

    Returns
    -------
    Interval
        Weighted mean, with limits that are inside the bounds and never equal. ``p_value`` tests
        ``null`` by inverting the same interval; NaN if ``null`` is omitted. ``se`` is the CR2
        standard error and ``df`` its Satterthwaite degrees of freedom; use them to combine several
        results. Both are NaN if there is only one cluster or if all values are equal; then use the
        limits to combine results. ``n`` counts cases and ``n_clusters`` clusters. All values are
        NaN if there are no cases.

    Raises
    ------
    ValueError
        If a value or ``null`` is outside the bounds, a weight is not above 0, or lengths differ.

    See Also
    --------
    bounded_mean_many : Means of thousands of simulated studies.

    Notes
    -----
    The lower limit L solves ``P(sum g_i (x_i - L) + e (low - L) <= 0) = (1 - level) / 2`` with
    independent g_i (chi-square with 2 df) and e (chi-square with 2c df). The upper limit is the
    mirror image. In words, this is a Bayesian bootstrap with a pseudo-case of weight c at the
    bound. For c = 1 it is Gaffke's bound, which is Clopper-Pearson for yes/no data. The probability
    is computed as an integral along a contour through the saddlepoint, precise to 1e-10. The
    interval does not depend on the order of cases, is mirrored if all signs change, and is
    continuous in the data.

    A cluster with sum S_g and size m_g enters as ``g_g (S_g - L m_g)``. The size of the pseudo-case
    is the mean cluster size weighted by variance, ``sum m_g^3 / sum m_g^2``. If only a few larger
    clusters had the effect, coverage was at least 86 % with this size, but only 69 % with Kish's
    effective size ``sum m_g^2 / sum m_g``. With the size of the largest cluster, coverage would be
    complete, but the interval would be a third wider whenever a few clusters are larger. A note is
    added if the effective number of clusters (or weighted cases) by Kish, ``(sum m)^2 / sum m^2``,
    is below five. ``make validate`` repeats the studies of coverage and the choice of c.

    References
    ----------
    Gaffke 2005, Adv. Appl. Prob. (mean-minimum bounds); Learned-Miller and Thomas 2019,
    arXiv:1905.06208; Imhof 1961, doi:10.1093/biomet/48.3-4.419.

    Examples
    --------
    >>> ci = bounded_mean([1, 1, 1, 1, 1, 1, 1, 1, 1, 0])
    >>> round(ci.estimate, 3), round(ci.low, 3), round(ci.high, 3)
    (0.9, 0.578, 0.997)
    """
    sample = (values, clusters, weights)
    return bounded_means([sample], quantity=quantity, null=null, ci_level=ci_level)[0]


def bounded_means(
    samples: Sequence[Sample],
    *,
    quantity: Quantity = RATES,
    null: float | None = None,
    ci_level: float = 0.95,
    recentred: bool = False,
) -> list[Interval]:
    """Estimate the means of several samples as :func:`bounded_mean` does, in one computation.

    Parameters
    ----------
    samples : sequence of (values, clusters or None, weights or None)
        One sample per interval.
    quantity, null, ci_level
        As in :func:`bounded_mean`.
    recentred : bool, default False
        Whether each value is an estimate plus a residual. Such values may be outside the bounds;
        the limits of the interval are inside them nevertheless.

    Returns
    -------
    list of Interval
        One interval per sample, in the order of the samples.
    """
    _check_null(null, quantity, ci_level)
    read = [_read_sample(sample, quantity, recentred, ci_level) for sample in samples]
    compact = [sample for sample, _ in read]
    limits = np.full((3, len(read)), np.nan)
    # Samples that are solved together are padded to the same number of distinct values, so each
    # group has samples with a similar number.
    sizes = np.array([-1 if c is None else (c.value.shape[1] - 1).bit_length() for c in compact])
    for size in np.unique(sizes[sizes >= 0]):
        place = np.flatnonzero(sizes == size)
        batch = [sample for i in place if (sample := compact[i]) is not None]
        limits[:, place] = _solve_limits(_stack_samples(batch), quantity, null, ci_level)
    intervals = []
    for (_, bare), (low, high, p_value) in zip(read, limits.T.tolist(), strict=True):
        # widen the limits if rounding has put the estimate just outside them
        ends = min(low, bare.estimate), max(high, bare.estimate)
        intervals.append(replace(bare, low=ends[0], high=ends[1], p_value=p_value))
    return intervals


def _read_sample(
    sample: Sample, quantity: Quantity, free: bool, ci_level: float
) -> tuple[_Samples | None, Interval]:
    """Return a sample in compact form (None without cases) and its interval without limits."""
    values, clusters, weights = sample
    label = f"bounded mean, c = {quantity.c:g}"
    numbers = np.asarray(values, dtype=np.float64)
    complete, groups, note = complete_values(numbers, clusters)
    if not complete.size:
        return None, undefined(label, note or "no cases", ci_level=ci_level, n=0.0)
    if not free:
        _clip_to_bounds(complete, quantity)
    heavy = _relative_weights(weights, numbers)[np.isfinite(numbers)]
    sizes, sums = groups.totals(heavy), groups.totals(heavy * complete)
    estimate = float(sums.sum() / sizes.sum())
    se, df = _cr2_from_sums(sizes, sums - estimate * sizes)
    means = sums / sizes
    compact = _compact_sample(means if free else np.clip(means, quantity.low, quantity.high), sizes)
    n, count, effective = groups.n, groups.count, float(sizes.sum() ** 2 / (sizes**2).sum())
    if effective < _EFFECTIVE - 1e-9 and (effective < count - 1e-9 or count < n):
        units = "clusters" if count < n else "cases"
        note = join_notes(note, f"only {effective:.1f} effective {units}: read with care")
    elif count <= _ONE_OR_TWO:
        note = join_notes(note, f"only {count} case{'s' * (count > 1)}: read with care")
    note = join_notes(note, heavy_note(sizes, "cluster" if count < n else "case"))
    ends, counts = (math.nan, math.nan), (float(n), float(count))
    return compact, Interval(estimate, *ends, ci_level, label, note, *counts, se, df)


def _cr2_from_sums(sizes: Floats, residuals: Floats) -> tuple[float, float]:
    """Return CR2 standard error and Satterthwaite df of a mean, from sums over clusters."""
    if len(sizes) < 2:
        return math.nan, math.nan
    share = sizes / sizes.sum()
    variance = float((residuals**2 / (1.0 - share)).sum() / sizes.sum() ** 2)
    if variance <= ZERO_VARIANCE:
        return math.nan, math.nan
    return math.sqrt(variance), satterthwaite(share)


def _compact_sample(value: Floats, weight: Floats) -> _Samples:
    """Count the clusters with equal value and weight, apart from rounding errors."""
    pairs = np.stack([value, weight], axis=1).round(12)
    distinct, count = np.unique(pairs, axis=0, return_counts=True)
    return _Samples(distinct[None, :, 0], distinct[None, :, 1], count[None, :].astype(np.float64))


def _stack_samples(samples: Sequence[_Samples]) -> _Samples:
    width = max(sample.value.shape[1] for sample in samples)
    parts = [np.zeros((len(samples), width)) for _ in range(3)]
    for i, sample in enumerate(samples):
        for part, row in zip(parts, (sample.value, sample.weight, sample.count), strict=True):
            part[i, : row.shape[1]] = row[0]
    return _Samples(*parts)


def bounded_mean_many(
    values: ArrayLike,
    clusters: Any = None,
    *,
    quantity: Quantity = RATES,
    null: float | None = None,
    ci_level: float = 0.95,
    limits: bool = True,
) -> BoundedMeans:
    """Estimate the means of many studies over the same cases, as :func:`bounded_mean` does.

    Parameters
    ----------
    values : array_like of float, shape (S, n)
        One row per study and one column per case; no value may be missing.
    clusters : array_like, shape (n,), optional
        Cluster of each case, the same in every study.
    quantity, null, ci_level
        As in :func:`bounded_mean`.
    limits : bool, default True
        Whether to compute limits. Without limits, which are then NaN, a test of ``null`` is ten
        times as fast.

    Returns
    -------
    BoundedMeans
        One entry per study; ``p_value`` is NaN without ``null``.

    Raises
    ------
    ValueError
        If ``values`` is not a matrix, a value is missing, or a value or ``null`` is outside the
        bounds.

    Examples
    --------
    >>> bounded_mean_many([[1, 0, 1, 1], [0, 0, 0, 0]]).high.round(3)
    array([0.993, 0.554])
    """
    _check_null(null, quantity, ci_level)
    matrix = np.asarray(values, dtype=np.float64)
    if matrix.ndim != 2 or not matrix.size:
        raise ValueError(f"values must be studies by cases, found shape {matrix.shape}.")
    _clip_to_bounds(matrix, quantity)
    groups = Clusters.of(clusters, matrix.shape[1])
    sizes = np.broadcast_to(groups.sizes, (len(matrix), groups.count))
    means = np.clip(groups.totals(matrix) / sizes, quantity.low, quantity.high)
    compact, back = compact_samples(means, sizes)
    solved = _solve_limits(compact, quantity, null, ci_level, limits)[:, back]
    return BoundedMeans.around(matrix.mean(axis=1), solved, ci_level)


def compact_samples(value: Floats, weight: Floats) -> tuple[_Samples, NDArray[np.intp]]:
    """Convert studies to counts of cases; return one row per distinct study, and each study's row.

    A count is the number of cases with the same value and weight. If this would not make the arrays
    shorter, all studies are returned with a count of 1 per case.
    """
    # sorting numbers is many times faster than sorting pairs of numbers
    values, of_value = np.unique(value.ravel().round(12), return_inverse=True)
    weights, of_weight = np.unique(weight.ravel().round(12), return_inverse=True)
    pairs, code = np.unique(of_value * len(weights) + of_weight, return_inverse=True)
    distinct = np.stack([values[pairs // len(weights)], weights[pairs % len(weights)]], axis=1)
    n_studies, n = value.shape
    if len(distinct) >= n:
        return _Samples(value, weight, np.ones(value.shape)), np.arange(n_studies)
    flat = np.repeat(np.arange(n_studies), n) * len(distinct) + code.ravel()
    count = np.bincount(flat, minlength=n_studies * len(distinct)).reshape(n_studies, -1)
    rows, back = np.unique(count, axis=0, return_inverse=True)
    value_of, weight_of = (np.tile(column, (len(rows), 1)) for column in distinct.T)
    return _Samples(value_of, weight_of, rows.astype(np.float64)), back.ravel()


def bounded_mean_counts(
    values: ArrayLike,
    counts: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    quantity: Quantity = RATES,
    null: float | None = None,
    ci_level: float = 0.95,
    limits: bool = True,
    recentred: bool = False,
) -> BoundedMeans:
    """Estimate the means of many studies from counts of values, as :func:`bounded_mean` does.

    Parameters
    ----------
    values : array_like of float, shape (m,) or (S, m)
        Possible values of a case, the same for all studies or one row per study.
    counts : array_like of int, shape (S, m)
        Number of cases with each value in each study; at least one case per study.
    weights : array_like of float, shape (m,), optional
        Weight of each case that has the value; equal if omitted.
    quantity, null, ci_level, limits, recentred
        ``recentred`` as in :func:`bounded_means`, the others as in :func:`bounded_mean_many`.

    Returns
    -------
    BoundedMeans
        One entry per study; ``p_value`` is NaN without ``null``.

    Raises
    ------
    ValueError
        If ``counts`` is not a matrix, a count is negative, a study has no case, a value or ``null``
        is outside the bounds, a weight is not above 0, or shapes differ.

    Examples
    --------
    >>> bounded_mean_counts([0, 1], [[1, 3], [4, 0]]).high.round(3)
    array([0.993, 0.554])
    """
    _check_null(null, quantity, ci_level)
    count = np.asarray(counts, dtype=np.float64)
    if count.ndim != 2 or not count.size:
        raise ValueError(f"counts must be studies by values, found shape {count.shape}.")
    if not (np.isfinite(count) & (count >= 0)).all() or not count.any(axis=1).all():
        raise ValueError("counts must not be negative, with at least one case in every study.")
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.shape not in (count.shape, count.shape[1:]):
        raise ValueError(f"values: found shape {numbers.shape}; there are {count.shape} counts.")
    if recentred and not np.isfinite(numbers).all():
        raise ValueError("values must be numbers; none may be missing.")
    inside = numbers if recentred else _clip_to_bounds(numbers, quantity)
    value = np.broadcast_to(inside, count.shape)
    heavy = _relative_weights(weights, np.zeros(count.shape[1]))
    both = np.hstack([count, value])
    _, first, back = np.unique(both, axis=0, return_index=True, return_inverse=True)
    samples = _Samples(value[first], np.tile(heavy, (len(first), 1)), count[first])
    solved = _solve_limits(samples, quantity, null, ci_level, limits)[:, back.ravel()]
    return BoundedMeans.around((count * value) @ heavy / (count @ heavy), solved, ci_level)
