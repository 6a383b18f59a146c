"""Interval for the mean of a bounded quantity over cases or clusters.

The interval is Gaffke's bound with a pseudo-case of weight ``c``. It is computed exactly from a sum
of chi-squares, without random numbers, and by the same method for all data. All analyses use it for
rates, paired differences and shares of checks. For quantities without bounds, such as dollars,
seconds or tokens, see :func:`skillcomp.stats.clusters.cr2_mean` and
:func:`skillcomp.stats.clusters.log_ratio`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri, stdtr
from scipy.stats import beta as beta_distribution

from skillcomp.errors import require_known
from skillcomp.stats.clusters import (
    ZERO_VARIANCE,
    Clusters,
    complete_values,
    heavy_note,
    satterthwaite,
)
from skillcomp.stats.pseudo_cases import Arm, Positions, adaptive_positions, mixed_outcomes
from skillcomp.stats.random_weights import chance_below
from skillcomp.stats.results import Interval, check_level, join_notes, quantile, undefined

Floats = NDArray[np.float64]
IntervalRule = Literal["adaptive", "bounded", "t"]


class Sample(NamedTuple):
    """Cases of one mean.

    ``values``, ``clusters`` and ``weights`` are as in :func:`bounded_mean`. ``arms`` are the rates
    behind the values; without them, the adaptive rule places the pseudo-case at the bound.
    """

    values: ArrayLike
    clusters: Any = None
    weights: ArrayLike | None = None
    arms: Sequence[Arm] = ()

    @classmethod
    def of_arms(cls, *arms: Arm, clusters: Any = None, weights: ArrayLike | None = None) -> Sample:
        """Return the sample of a contrast: the sum of the rates, multiplied by their signs."""
        values = sum(arm.sign * np.asarray(arm.rates, float) for arm in arms)
        return cls(values, clusters, weights, arms)


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

    def weight_at(self, error_rate: Any) -> Floats:
        """Return the weight of the pseudo-case at error rates (1 minus the confidence level).

        It is ``c`` up to 5 % and 1 from 10 % on, because lower levels need more of a case.
        """
        rise = np.clip(np.asarray(error_rate, float) / _ALPHA - 1.0, 0.0, 1.0)
        return np.asarray(self.c + rise * max(1.0 - self.c, 0.0))


# c was chosen by a rule that was fixed before the results were seen. It is the smallest of .5, .55,
# ..., 1 that meets two conditions. First, coverage must be at least 94 % in every design of `make
# validate`. Second, for yes/no data with 1 to 100 cases, coverage must be at least 92 % at the
# worst true value, with at most 5 % error on either side. For example, 0.7 fails: coverage is 93.0
# % for eight cases that all flip, half of them up, or that pass half the time.
_C = 0.75
_ALPHA = 0.05  # c holds at this error rate; at twice the rate or more, the weight is 1.
RATES = Quantity(0.0, 1.0, _C)
SHARES = Quantity(0.0, 1.0, _C)
DELTAS = Quantity(-1.0, 1.0, _C)

_SMALL_P = 1e-3  # P-values of the adaptive rule below this are not below those of a t test.
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

    ``value``, ``weight`` and ``count`` have the shape (S, m). Entries with a count of 0 only fill
    up the shape. ``start`` and ``end``, of the shape (S,), are the positions of the pseudo-case for
    the lower and the upper limit.
    """

    value: Floats
    weight: Floats
    count: Floats
    start: Floats
    end: Floats

    @property
    def top(self) -> Floats:
        return np.asarray(np.where(self.count > 0, self.value, -np.inf).max(1))

    def rows(self, keep: Any) -> _Samples:
        parts = (self.value, self.weight, self.count, self.start, self.end)
        return _Samples(*(part[keep] for part in parts))

    def mirrored(self) -> _Samples:
        return _Samples(-self.value, self.weight, self.count, -self.end, -self.start)

    def with_pseudo_case(self, c: Any, largest: bool) -> tuple[Floats, Floats, Floats]:
        """Return value, weight and count with a pseudo-case of count ``c`` at ``start``."""
        size = (self.count * self.weight**3).sum(1) / (self.count * self.weight**2).sum(1)
        if largest:
            size = np.where(self.count > 0, self.weight, 0.0).max(1)
        return (
            np.hstack([self.value, self.start[:, None]]),
            np.hstack([self.weight, size[:, None]]),
            np.hstack([self.count, np.broadcast_to(c, len(size))[:, None]]),
        )


def _lower_limits(samples: _Samples, quantity: Quantity, ci_level: float) -> Floats:
    """Return the lower limit of each study, a quantile of the randomly weighted mean.

    The quantile is found by Newton's method inside a bracket, with probabilities on the scale of
    normal quantiles. The first value is a quantile of the beta distribution that has the same mean
    and variance as the randomly weighted mean.
    """
    tail = 0.5 * (1.0 - ci_level)
    value, weight, count = samples.with_pseudo_case(
        quantity.weight_at(1.0 - ci_level), quantity.largest
    )
    top = np.maximum(samples.top, samples.start)
    limits: Floats = np.where(count > 0, value, np.inf).min(1)
    live = np.flatnonzero(top - limits > _XTOL * (quantity.high - quantity.low))
    value, weight, count, low, high = (a[live] for a in (value, weight, count, limits, top))
    at = _beta_start(value, weight * count, count, low, high, tail)
    target, span = float(ndtri(tail)), quantity.high - quantity.low
    for _ in range(100):
        if not len(live):
            break
        chance, density = chance_below(value, weight, count, at, slope=True)
        z = ndtri(np.clip(chance, 1e-300, 1.0 - 1e-16))
        above = z > target
        high, low = np.where(above, at, high), np.where(above, low, at)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            new = at - (z - target) * np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi) / density
        new = np.where((new >= low) & (new <= high), new, 0.5 * (low + high))
        moved = np.abs(new - at)
        limits[live] = at = new
        going = moved > _XTOL * span
        live, at, low, high = live[going], at[going], low[going], high[going]
        value, weight, count = value[going], weight[going], count[going]
    return limits


def _beta_start(
    value: Floats, size: Floats, count: Floats, low: Floats, top: Floats, tail: float
) -> Floats:
    share = size / size.sum(1, keepdims=True)
    mean = (share * value).sum(1)
    spread = (share * (value - mean[:, None]) ** 2).sum(1) / (1.0 + count.sum(1))
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

    If ``limits`` is False, the limits are NaN, and the p-values serve only to be compared with 1
    minus ``ci_level``. The p-values are NaN if ``null`` is None.
    """
    low = high = np.full(len(samples.value), np.nan)
    if limits:
        low = _lower_limits(samples, quantity, ci_level)
        high = -_lower_limits(samples.mirrored(), quantity, ci_level)
    p_value = np.full(len(low), np.nan)
    if null is not None and not math.isnan(null):
        chance = partial(_two_sided, quantity=quantity, null=null)
        if not limits:
            return np.stack([low, high, chance(samples, error_rate=1.0 - ci_level)])
        p_value = chance(samples, error_rate=_ALPHA)
        larger = np.flatnonzero(p_value > _ALPHA)
        if len(larger) and quantity.c < 1.0:
            p_value[larger] = _larger_p_values(samples.rows(larger), p_value[larger], chance)
    return np.stack([low, high, p_value])


def _larger_p_values(samples: _Samples, at_c: Floats, chance: Callable[..., Floats]) -> Floats:
    """Return p-values above ``_ALPHA``, at which the pseudo-case is heavier than ``c``.

    A p-value is the smallest error rate at which the limits exclude the null. Between ``_ALPHA``
    and its double, the weight depends on this error rate, and the p-value solves an equation that
    is almost linear.
    """
    p_value = chance(samples, error_rate=2.0 * _ALPHA)
    between = np.flatnonzero(p_value < 2.0 * _ALPHA)
    if len(between):
        rows, first = samples.rows(between), at_c[between]
        slope = (p_value[between] - first) / _ALPHA
        guess = (first - slope * _ALPHA) / (1.0 - slope)
        for _ in range(8):
            excess = chance(rows, error_rate=guess) - guess
            guess = np.clip(guess + excess / (1.0 - slope), _ALPHA, 2.0 * _ALPHA)
        p_value[between] = guess
    return p_value


def _two_sided(samples: _Samples, quantity: Quantity, null: float, error_rate: Any) -> Floats:
    """Return twice the smaller of two probabilities: that the mean is below or above the null.

    Each is computed with a pseudo-case at its own position, so they add up to 1 or more. If the
    first one computed is at most 1/2, it is the smaller one. The weight of the pseudo-case is that
    of ``error_rate``.
    """
    size = samples.count * samples.weight
    above = (size * (samples.value - null)).sum(1) > 0
    c = np.broadcast_to(quantity.weight_at(error_rate), len(above))
    beyond = partial(_chance_beyond, c=c, largest=quantity.largest)
    chance = beyond(samples, null, above)
    chance = np.fmin(chance, beyond(samples.mirrored(), -null, ~above))
    rest = ~(chance <= 0.5)
    other = beyond(samples, null, rest & ~above)
    other = np.fmin(other, beyond(samples.mirrored(), -null, rest & above))
    return np.minimum(1.0, 2.0 * np.fmin(chance, other))


def _chance_beyond(
    samples: _Samples, null: float, which: Any, *, c: Floats, largest: bool
) -> Floats:
    """Return P(mean is below the null) for each study in ``which``; NaN for the others."""
    chance = np.full(len(samples.value), np.nan)
    if which.any():
        side = samples.rows(which)
        whole = side.with_pseudo_case(c[which], largest)
        below, _ = chance_below(*whole, np.full(len(side.value), null))
        # if all values are at the pseudo-case, so is the mean, whatever the weights
        bottom = np.where(side.count > 0, side.value, np.inf).min(1)
        sure = (side.top <= side.start) & (bottom >= side.start) & (null >= side.start)
        chance[which] = np.where(sure, 1.0, below)
    return chance


def bounded_mean(
    values: ArrayLike,
    clusters: Any = None,
    *,
    quantity: Quantity = RATES,
    weights: ArrayLike | None = None,
    arms: Sequence[Arm] = (),
    null: float | None = None,
    ci_level: float = 0.95,
    interval: IntervalRule = "adaptive",
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
    arms : sequence of Arm, optional
        The rates behind the values: one arm for a rate, two for a difference, four for an
        interaction. The adaptive rule needs them.
    null : float, optional
        Mean to test, such as 0 for a difference; must be inside the bounds.
    ci_level : float, default 0.95
        Confidence level.
    interval : {"adaptive", "bounded", "t"}, default "adaptive"
        ``"adaptive"``: if the attempts show mixed outcomes, cases unlike those observed count as
        implausible; without ``arms``, the same as ``"bounded"``. ``"bounded"``: assumes nothing
        about unseen cases. ``"t"``: CR2 with Satterthwaite degrees of freedom; without spread its
        limits are NaN. Coverage of ``"t"`` falls to 62 % if agents always give the same answer.

    Returns
    -------
    Interval
        Weighted mean. Its limits are inside the bounds and never equal, except those of ``"t"``.
        ``p_value`` tests ``null`` by inverting the same interval; NaN if ``null`` is omitted.
        ``se`` is the CR2 standard error and ``df`` its Satterthwaite degrees of freedom; use them
        to combine several results. Both are NaN if there is only one cluster or if all values are
        equal; then use the limits to combine results. ``n`` counts cases and ``n_clusters``
        clusters. All values are NaN if there are no cases.

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

    With ``arms``, :func:`skillcomp.stats.pseudo_cases.adaptive_positions` replaces the bounds by
    positions nearer to the mean, as far as outcomes are mixed within cases. With one attempt per
    case nothing changes. Coverage was at least 93.7 % in all designs of ``make validate``, except
    where a few cases are unlike all others: with hopeless cases among middling ones it fell to 91 %
    (``"bounded"``: 96 %). Below 95 %, the weight c of the pseudo-case rises, to 1 at 90 %.

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

    Ten cases with three attempts each. The outcomes are mixed, so the adaptive interval is shorter:

    >>> rates = [1, 1, 2 / 3, 0, 2 / 3, 1, 1 / 3, 2 / 3, 2 / 3, 2 / 3]
    >>> for rule in ("adaptive", "bounded"):
    ...     ci = bounded_mean(rates, arms=[Arm(rates, [3] * 10)], interval=rule)
    ...     print(rule, round(ci.low, 3), round(ci.high, 3))
    adaptive 0.429 0.843
    bounded 0.411 0.843
    """
    sample = Sample(values, clusters, weights, arms)
    how: dict[str, Any] = {"quantity": quantity, "null": null, "ci_level": ci_level}
    return bounded_means([sample], **how, interval=interval)[0]


def bounded_means(
    samples: Iterable[Sample | tuple[Any, ...]],
    *,
    quantity: Quantity = RATES,
    null: float | None = None,
    ci_level: float = 0.95,
    recentred: bool = False,
    interval: IntervalRule = "adaptive",
) -> list[Interval]:
    """Estimate the means of several samples as :func:`bounded_mean` does, in one computation.

    Parameters
    ----------
    samples : iterable of Sample or (values, clusters or None, weights or None)
        One sample per interval.
    quantity, null, ci_level, interval
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
    require_known("interval: found", interval, get_args(IntervalRule))
    how: dict[str, Any] = {"rule": interval, "free": recentred, "ci_level": ci_level}
    read = [_read_sample(Sample(*sample), quantity, **how) for sample in samples]
    if interval == "t":
        return [_t_interval(bare, null) for _, bare, _ in read]
    compact = [sample for sample, _, _ in read]
    limits = np.full((3, len(read)), np.nan)
    # Samples that are solved together are padded to the same number of distinct values, so each
    # group has samples with a similar number.
    sizes = np.array([-1 if c is None else (c.value.shape[1] - 1).bit_length() for c in compact])
    for size in np.unique(sizes[sizes >= 0]):
        place = np.flatnonzero(sizes == size)
        batch = [sample for i in place if (sample := compact[i]) is not None]
        limits[:, place] = _solve_limits(_stack_samples(batch), quantity, null, ci_level)
    intervals = []
    for (_, bare, positions), (low, high, p_value) in zip(read, limits.T.tolist(), strict=True):
        # widen the limits if rounding has put the estimate just outside them
        ends = min(low, bare.estimate), max(high, bare.estimate)
        if positions is not None and p_value < _SMALL_P:
            p_value = max(p_value, _p_of_t(positions, bare.estimate, null))
        intervals.append(replace(bare, low=ends[0], high=ends[1], p_value=p_value))
    return intervals


def _p_of_t(positions: Positions, estimate: float, null: float | None) -> float:
    """Return the p-value of a t test, at most ``_SMALL_P``.

    The adaptive rule has no probability beyond the pseudo-case. Its small p-values are therefore
    not below those of a t test.
    """
    statistic = abs(estimate - (null or 0.0)) / float(positions.se[0])
    return min(_SMALL_P, 2.0 * float(stdtr(positions.df[0], -statistic)))


def _t_interval(bare: Interval, null: float | None) -> Interval:
    """Return the t interval of an estimate with its CR2 standard error."""
    if math.isnan(bare.se):
        note = "no spread between clusters: no t interval" if bare.n else ""
        return replace(bare, note=join_notes(bare.note, note))
    reach = quantile(bare.ci_level, bare.df) * bare.se
    statistic = math.nan if null is None else -abs(bare.estimate - null) / bare.se
    p_value = 2.0 * float(stdtr(bare.df, statistic))
    low, high = bare.estimate - reach, bare.estimate + reach
    return replace(bare, low=low, high=high, p_value=p_value)


def _read_sample(
    sample: Sample, quantity: Quantity, *, rule: IntervalRule, free: bool, ci_level: float
) -> tuple[_Samples | None, Interval, Positions | None]:
    """Return a sample in compact form (None without cases) and its interval without limits.

    The last entry is None unless the adaptive rule has placed the pseudo-case.
    """
    adaptive = rule == "adaptive" and bool(sample.arms)
    label = "CR2 with Satterthwaite t" if rule == "t" else bounded_label(quantity, adaptive)
    numbers = np.asarray(sample.values, dtype=np.float64)
    complete, groups, note = complete_values(numbers, sample.clusters)
    if not complete.size:
        bare = undefined(label, note or "no cases", ci_level=ci_level, n=0.0)
        return None, bare, None
    if not free:
        _clip_to_bounds(complete, quantity)
    present = np.isfinite(numbers)
    heavy = _relative_weights(sample.weights, numbers)[present]
    sizes, sums = groups.totals(heavy), groups.totals(heavy * complete)
    estimate = float(sums.sum() / sizes.sum())
    se, df = _cr2_from_sums(sizes, sums - estimate * sizes)
    means = sums / sizes
    values = means if free else np.clip(means, quantity.low, quantity.high)
    positions, ends = None, (np.array([quantity.low]), np.array([quantity.high]))
    if adaptive:
        arms = [arm.rows(present) for arm in sample.arms]
        positions = cluster_positions(arms, values[None], groups, quantity, heavy)
        ends = positions.low, positions.high
    compact = _compact_sample(values, sizes, *ends)
    n, count, effective = groups.n, groups.count, float(sizes.sum() ** 2 / (sizes**2).sum())
    if effective < _EFFECTIVE - 1e-9 and (effective < count - 1e-9 or count < n):
        units = "clusters" if count < n else "cases"
        note = join_notes(note, f"only {effective:.1f} effective {units}: read with care")
    elif count <= _ONE_OR_TWO:
        note = join_notes(note, f"only {count} case{'s' * (count > 1)}: read with care")
    note = join_notes(note, heavy_note(sizes, "cluster" if count < n else "case"))
    limits, counts = (math.nan, math.nan), (float(n), float(count))
    return compact, Interval(estimate, *limits, ci_level, label, note, *counts, se, df), positions


def bounded_label(quantity: Quantity, adaptive: bool) -> str:
    """Return the name of the method of a bounded mean."""
    return f"{'adaptive ' if adaptive else ''}bounded mean, c = {quantity.c:g}"


def cluster_positions(
    arms: Sequence[Arm], value: Floats, groups: Clusters, quantity: Quantity, weights: Floats
) -> Positions:
    """Return the positions of the pseudo-cases of studies over the same cases.

    ``value`` has the value of each cluster, of the shape (S, G); rates of the arms have the shape
    (n,) or (S, n), and ``weights`` the shape (n,).
    """
    sizes = groups.totals(weights)
    bounds = quantity.low, quantity.high
    if groups.single:
        return adaptive_positions(arms, value, sizes[None], bounds)
    clustered = [
        Arm(
            groups.totals(weights * np.asarray(arm.rates, float)) / sizes,
            None if arm.attempts is None else groups.totals(np.asarray(arm.attempts, float)),
            arm.sign,
            None if arm.checks is None else groups.totals(np.asarray(arm.checks, float)),
        )
        for arm in arms
    ]
    mixed = [mixed_outcomes(arm, weights / weights.sum()) for arm in arms]
    how: dict[str, Any] = {"n_cases": groups.sizes, "mixed_cases": mixed}
    return adaptive_positions(clustered, value, sizes[None], bounds, **how)


def _cr2_from_sums(sizes: Floats, residuals: Floats) -> tuple[float, float]:
    """Return CR2 standard error and Satterthwaite df of a mean, from sums over clusters."""
    if len(sizes) < 2:
        return math.nan, math.nan
    share = sizes / sizes.sum()
    variance = float((residuals**2 / (1.0 - share)).sum() / sizes.sum() ** 2)
    if variance <= ZERO_VARIANCE:
        return math.nan, math.nan
    return math.sqrt(variance), satterthwaite(share)


def _compact_sample(value: Floats, weight: Floats, start: Floats, end: Floats) -> _Samples:
    """Count the clusters with equal value and weight, apart from rounding errors."""
    pairs = np.stack([value, weight], axis=1).round(12)
    distinct, count = np.unique(pairs, axis=0, return_counts=True)
    columns = (distinct[None, :, 0], distinct[None, :, 1], count[None, :].astype(np.float64))
    return _Samples(*columns, start, end)


def _stack_samples(samples: Sequence[_Samples]) -> _Samples:
    width = max(sample.value.shape[1] for sample in samples)
    parts = [np.zeros((len(samples), width)) for _ in range(3)]
    for i, sample in enumerate(samples):
        for part, row in zip(parts, (sample.value, sample.weight, sample.count), strict=True):
            part[i, : row.shape[1]] = row[0]
    ends = (np.concatenate([getattr(s, name) for s in samples]) for name in ("start", "end"))
    return _Samples(*parts, *ends)


def bounded_mean_many(
    values: ArrayLike,
    clusters: Any = None,
    *,
    arms: Sequence[Arm] = (),
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
    arms : sequence of Arm, optional
        As in :func:`bounded_mean`, with rates of the shape (S, n).
    quantity, null, ci_level
        As in :func:`bounded_mean`.
    limits : bool, default True
        Whether to compute limits. Without limits, which are then NaN, a test of ``null`` is ten
        times as fast. Its p-value then serves only to be compared with ``1 - ci_level``.

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
    start, end = (np.full(len(matrix), bound) for bound in (quantity.low, quantity.high))
    if arms:
        positions = cluster_positions(arms, means, groups, quantity, np.ones(groups.n))
        start, end = positions.low, positions.high
    compact, back = _compact_samples(_Samples(means, sizes, np.ones(means.shape), start, end))
    solved = _solve_limits(compact, quantity, null, ci_level, limits)[:, back]
    return BoundedMeans.around(matrix.mean(axis=1), solved, ci_level)


def _compact_samples(samples: _Samples) -> tuple[_Samples, NDArray[np.intp]]:
    """Convert studies to counts of cases; return one row per distinct study, and each study's row.

    A count is the number of cases with the same value and weight. If this would not make the arrays
    shorter, all studies are returned as they are.
    """
    # sorting numbers is many times faster than sorting pairs of numbers
    values, of_value = np.unique(samples.value.ravel().round(12), return_inverse=True)
    weights, of_weight = np.unique(samples.weight.ravel().round(12), return_inverse=True)
    pairs, code = np.unique(of_value * len(weights) + of_weight, return_inverse=True)
    distinct = np.stack([values[pairs // len(weights)], weights[pairs % len(weights)]], axis=1)
    n_studies, n = samples.value.shape
    if len(distinct) >= n:
        return samples, np.arange(n_studies)
    flat = np.repeat(np.arange(n_studies), n) * len(distinct) + code.ravel()
    count = np.bincount(flat, minlength=n_studies * len(distinct)).reshape(n_studies, -1)
    ends = np.stack([samples.start, samples.end], axis=1)
    both = np.hstack([count, ends.round(12)])
    _, first, back = np.unique(both, axis=0, return_index=True, return_inverse=True)
    value_of, weight_of = (np.tile(column, (len(first), 1)) for column in distinct.T)
    counts = count[first].astype(np.float64)
    return _Samples(value_of, weight_of, counts, *ends[first].T), back.ravel()


def bounded_mean_counts(
    values: ArrayLike,
    counts: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    arms: Sequence[Arm] = (),
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
    arms : sequence of Arm, optional
        As in :func:`bounded_mean`: the rates behind each value, of the shape (m,) or (S, m).
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
    start, end = (np.full(len(first), bound) for bound in (quantity.low, quantity.high))
    size = np.tile(heavy, (len(first), 1))
    if arms:
        distinct = [arm.rows(first) if np.ndim(arm.rates) > 1 else arm for arm in arms]
        bounds = quantity.low, quantity.high
        how: dict[str, Any] = {"count": count[first]}
        positions = adaptive_positions(distinct, value[first], size, bounds, **how)
        start, end = positions.low, positions.high
    samples = _Samples(value[first], size, count[first], start, end)
    solved = _solve_limits(samples, quantity, null, ci_level, limits)[:, back.ravel()]
    return BoundedMeans.around((count * value) @ heavy / (count @ heavy), solved, ci_level)
