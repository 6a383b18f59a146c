"""Interval for the mean of a bounded quantity over cases or clusters.

The interval is Gaffke's bound with a pseudo-case of weight ``c``. A pseudo-case is an imagined case
that is added to the sample: one with a low value for the lower limit, and one with a high value for
the upper limit. Limits are computed exactly from the distribution of a sum of chi-squares, without
random numbers, and by the same method for all data. All analyses use the interval for rates, paired
differences and shares of checks. For quantities without bounds, such as dollars, seconds or tokens,
see :func:`skillcomp.stats.clusters_and_amounts.cr2_mean` and
:func:`skillcomp.stats.clusters_and_amounts.log_ratio`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, ndtri, stdtrit
from scipy.stats import beta as beta_distribution

from skillcomp.errors import require_known
from skillcomp.stats.clusters_and_amounts import (
    ZERO_VARIANCE,
    Clusters,
    complete_values,
    cr2_of_counts,
    heavy_note,
)
from skillcomp.stats.results import (
    NAN,
    TINY_P,
    Floats,
    Interval,
    check_level,
    join_notes,
    undefined,
)

IntervalRule = Literal["adaptive", "bounded", "t"]


@dataclass(frozen=True, slots=True)
class Arm:
    """One arm of a contrast: the pass rate of each case under one condition.

    A contrast is a sum of pass rates over arms, each multiplied by ``sign``. A rate has one arm, a
    paired difference two (signs 1 and -1), and an interaction four (1, -1, -1 and 1).

    Attributes
    ----------
    rates : array_like
        Share of the attempts at each case that passed, or share of its checks.
    attempts : array_like, optional
        Number of attempts behind each rate. If several agents, graders or rounds repeat a case,
        ``rates`` are means over them, and ``attempts`` is the smallest of their numbers of
        attempts.
    sign : float, default 1
        Coefficient of the arm.
    checks : array_like, optional
        For shares of checks, the number of different checks of each case. Give it instead of
        ``attempts``. If both are omitted, differences between attempts are ignored.
    mixed : array_like, optional
        How mixed the outcomes of each case are. By default, ``mixed_of_case`` computes this from
        ``rates`` and ``attempts``. If ``rates`` are means over several agents, graders or rounds,
        give the mean of their values of ``mixed_of_case``. Otherwise one agent that always passes
        and another that always fails would count as mixed outcomes.
    squares : array_like, optional
        For scores from 0 to 1, the mean of the squared scores of each case. Omit it for passes and
        for shares of checks: the mean of the squared passes is the rate.
    """

    rates: Any
    attempts: Any = None
    sign: float = 1.0
    checks: Any = None
    mixed: Any = None
    squares: Any = None

    def rows(self, keep: Any) -> Arm:
        """Return the arm for the selected cases."""
        names = ("rates", "attempts", "checks", "mixed", "squares")
        known = [name for name in names if getattr(self, name) is not None]
        return replace(self, **{n: np.asarray(getattr(self, n), float)[keep] for n in known})

    @property
    def mixed_cases(self) -> Floats:
        """How mixed the outcomes of each case are, as in `mixed_of_case`."""
        if self.mixed is not None:
            return np.asarray(self.mixed, float)
        return mixed_of_case(self.rates, self.attempts, self.squares)


class Positions(NamedTuple):
    """Values of the two pseudo-cases of each study: one for the lower limit, one for the upper.

    Attributes
    ----------
    low, high : ndarray, shape (S,)
        Value of the pseudo-case for the lower limit, and for the upper limit, at levels up to 95 %.
        At higher levels the pseudo-cases are farther from the mean (see ``reach``).
    reach : ndarray, shape (S, 2)
        How the distances of the pseudo-cases from the mean grow above a level of 95 %. The first
        column is the part of the distance that is proportional to a t quantile; it is 0 if the
        pseudo-cases are at the bounds. The second column has the degrees of freedom of this
        quantile.
    """

    low: Floats
    high: Floats
    reach: Floats

    @classmethod
    def at_bounds(cls, quantity: Quantity, n_studies: int) -> Positions:
        """Return positions at the bounds, as for the rule ``"bounded"``."""
        low, high = (np.full(n_studies, bound) for bound in (quantity.low, quantity.high))
        return cls(low, high, np.tile([0.0, 1.0], (n_studies, 1)))


class Sample(NamedTuple):
    """The cases from which one mean is computed.

    ``values``, ``clusters`` and ``weights`` are as in :func:`bounded_mean`. ``arms`` are the rates
    behind the values; without them, the adaptive rule places the pseudo-case at the bound.
    ``places`` sets the positions of the pseudo-cases directly, in place of the bounds or ``arms``.
    """

    values: ArrayLike
    clusters: Any = None
    weights: ArrayLike | None = None
    arms: Sequence[Arm] = ()
    places: Positions | None = None

    @classmethod
    def of_arms(cls, *arms: Arm, clusters: Any = None, weights: ArrayLike | None = None) -> Sample:
        """Return the sample of a contrast: a value is the sum of sign times rate over the arms."""
        values = sum(arm.sign * np.asarray(arm.rates, float) for arm in arms)
        return cls(values, clusters, weights, arms)

    @classmethod
    def of_items(cls, new: Floats, old: Floats, clusters: Any) -> Sample:
        """Return the sample of changes between two verdicts or scores from 0 to 1 on each item.

        The pseudo-cases depend on how far the errors of each version come singly within their
        clusters, counted with one imagined cluster in which the version errs throughout. Their
        share is near 1 if errors come singly, and 0 if they come in whole clusters or none was
        seen. (The measure of attempts, 4 p (1 - p), is near 0 for versions that rarely err.)
        """
        if not len(new):
            return cls(new, clusters)
        code = np.unique(clusters, return_inverse=True)[1]
        size = np.bincount(code).astype(float)
        share, several = size / size.sum(), np.maximum(size - 1.0, 1.0)
        whole = (size**3).sum() / (size**2).sum()
        terms, value = ContrastTerms(0.0, 0.0, 0.0), np.zeros(len(size))
        for sign, verdict in ((1.0, new), (-1.0, old)):
            rate = np.bincount(code, verdict) / size
            mean = share @ rate
            variance = (np.bincount(code, verdict**2) / size - rate**2).clip(0.0)
            spread = np.where(size > 1, variance, 0.0)
            single = (size**2 / several) @ spread
            mixed = single / (size.sum() * mean * (1.0 - mean) + whole)
            part = _PHI + (1.0 - _PHI) * (1.0 - min(1.0, mixed))
            ends = part * mean, part * (1.0 - mean)
            terms = terms.plus(ContrastTerms(share**2 / several @ spread, *ends[:: int(sign)]))
            value += sign * rate
        places = placed_cases(terms, value[None], share[None], (-1.0, 1.0))
        return cls(new - old, clusters, places=places)


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

    def lowest(self, turned: Any) -> Floats:
        """Return the smallest possible value: ``low`` or, where ``turned`` is True, ``-high``."""
        return np.where(turned, -self.high, self.low)

    def weight_at(self, error_rate: Any) -> Floats:
        """Return the weight of the pseudo-case at error rates (1 minus the confidence level).

        It is ``c`` at an error rate of 5 %, and 1 at 10 % or more. At 2 % or less, it is ``c`` plus
        a fifth of ``1 - c`` (0.8 for a ``c`` of 0.75). Between these rates it is linear.
        """
        rise = np.interp(error_rate, (_SMALL, _ALPHA, 2.0 * _ALPHA), (0.2, 0.0, 1.0))
        return np.asarray(self.c + rise * max(1.0 - self.c, 0.0))


# Weight c of the pseudo-case. At 95 %, `make validate` has two rules for coverage. In its main
# suite, coverage must not be significantly below 94 % in any design. In its exact scans, it must be
# at least 93.1 % at the worst true value, with at most 5 % error on either side. Both rules hold
# with c = 0.75. With c = 0.7 the second rule fails: with eight cases, coverage is only 93.0 % for
# the delta if every case flips, up or down with equal probability, and for the rate if every case
# has one attempt that passes with probability 1/2.
_C = 0.75
# The weight is c at the error rate _ALPHA, and 1 at twice this rate or more. At _SMALL or less it
# is also larger than c: with a weight of 0.75, coverage of 99 % intervals falls to 98.4 %.
_ALPHA, _SMALL = 0.05, 0.02
_SURE = 1.0 - _ALPHA / 2
RATES = Quantity(0.0, 1.0, _C)
SHARES = Quantity(0.0, 1.0, _C)
DELTAS = Quantity(-1.0, 1.0, _C)

# Settings of the trapezoid rule for the integral along the contour: the step of v, the number of
# nodes per block, and the largest number of blocks. The height on the contour is proportional to
# sinh(v). With two or more cases, fewer blocks are enough.
_STEP, _NODES, _BLOCKS = 0.12, 20, 14
_BEND = 0.5  # Largest angle between contour and vertical; bending the contour damps oscillations.
# The limits of all samples with at most _SMALL_SAMPLE + 1 distinct values are computed in one
# batch. Larger samples are batched by size: 17 to 32 distinct values, 33 to 64, and so on.
_SMALL_SAMPLE = 15
_CHUNK = 1_000_000  # Maximum number of array elements in memory at a time.
_SADDLE = math.sqrt(math.pi / 2.0) / _STEP  # The trapezoid sum in the saddlepoint approximation.
_ENOUGH = 1e-15  # The trapezoid sum ends at a node that adds less than this share of the sum.

# _PHI and _KAPPA were chosen on half the designs of `make validate` and checked on the others. _PHI
# is the smallest distance between a pseudo-case and the mean, as a share of the distance between
# the bound and the mean.
_PHI = 0.05
# _KAPPA is the distance between a pseudo-case and the mean, in standard deviations of a case. It
# applies in the limit of many cases and at levels up to 95 %. At higher levels the distance grows
# with the t quantile. If it did not grow, coverage of 99 % intervals would fall to 97.1 % (with two
# attempts per case).
_KAPPA = 1.45
_SAME_P = 1e-8  # Relative precision of a p-value.
_LEAST_P = 1e-15  # A returned p-value below this is not exact; the exact one is also below this.
_XTOL = 1e-11  # Precision of a limit, as a fraction of the range of the quantity.
_ONE_OR_TWO = 2  # An interval from at most this number of cases gets a note.
_EFFECTIVE = 5.0  # A note warns if the effective number of clusters (Kish) is below this.


@dataclass(frozen=True)
class CaseCounts:
    """Numbers of cases (or clusters) with each value and weight, for each of S studies.

    ``value``, ``weight`` and ``count`` have the shape (S, m). Entries with a count of 0 only pad
    the arrays. ``start`` and ``end``, of the shape (S,), are the positions of the pseudo-case for
    the lower and the upper limit up to a level of 95 %; ``reach`` is as in :class:`Positions`.
    """

    value: Floats
    weight: Floats
    count: Floats
    start: Floats
    end: Floats
    reach: Floats

    @property
    def top(self) -> Floats:
        """The largest value of each study."""
        return np.asarray(np.where(self.count > 0, self.value, -np.inf).max(1))

    def rows(self, keep: Any) -> CaseCounts:
        """Return the selected studies."""
        return CaseCounts(*(part[keep] for part in vars(self).values()))

    def turned(self, which: Any) -> CaseCounts:
        """Return all studies; where ``which`` is True, the signs of the values are reversed."""
        value = np.where(which[:, None], -self.value, self.value)
        start, end = np.where(which, [-self.end, -self.start], [self.start, self.end])
        return replace(self, value=value, start=start, end=end)

    def with_pseudo_case(
        self, quantity: Quantity, error_rate: Any, bound: Floats
    ) -> tuple[Floats, Floats, Floats]:
        """Return value, weight and count, each with an extra last column for the lower pseudo-case.

        ``bound`` is the lowest possible value of each study.
        """
        size = (self.count * self.weight**3).sum(1) / (self.count * self.weight**2).sum(1)
        if quantity.largest:
            size = np.where(self.count > 0, self.weight, 0.0).max(1)
        total = self.count * self.weight
        mean = (total * self.value).sum(1) / total.sum(1)
        reach, df = self.reach.T
        ratio = stdtrit(df, 1.0 - 0.5 * np.minimum(error_rate, _ALPHA)) / stdtrit(df, _SURE)
        further = reach**2 * (ratio**2 - 1.0)
        far = mean - np.sqrt((mean - self.start) ** 2 + further)
        start = np.where(further > 0, np.maximum(far, bound), self.start)
        c = np.broadcast_to(quantity.weight_at(error_rate), len(size))
        return (
            np.hstack([self.value, start[:, None]]),
            np.hstack([self.weight, size[:, None]]),
            np.hstack([self.count, c[:, None]]),
        )


def chance_below(
    value: Floats,
    weight: Floats,
    count: Floats,
    at: Floats,
    *,
    slope: bool = False,
    near: tuple[float, float] | None = None,
) -> tuple[Floats, Floats]:
    """Compute the probability that a randomly weighted mean is below ``at``, and its density.

    ``value``, ``weight`` and ``count`` have one row per study; ``at`` has one entry per study. The
    result is the probability of ``sum g w (at - value) > 0``, where g is gamma-distributed with
    shape ``count``. The sum is a linear combination of chi-square variables. Its distribution
    function is an inversion integral. The integral is computed along a hyperbola through the
    saddlepoint, where the integrand neither oscillates nor cancels. The tail that does not contain
    the mean is computed, so that small probabilities keep their precision. The density is 0 unless
    ``slope`` is True. With ``near``, only probabilities between these two numbers are computed as
    an integral; the others are saddlepoint approximations.
    """
    reach = np.where(count > 0, weight * (at[:, None] - value), 0.0)
    most, least = reach.max(1), reach.min(1)
    chance, density = (most > 0).astype(float), np.zeros(len(at))
    open_ = np.flatnonzero((most > 0) & (least < 0))
    rows = max(1, _CHUNK // (reach.shape[1] * _NODES))
    for start in range(0, len(open_), rows):
        k = open_[start : start + rows]
        over = (count[k] * reach[k]).sum(1) > 0
        # Where `over` is True, most of the probability is below ``at``. The scale is then negative.
        # This reverses the sign of the sum, so that the small probability above ``at`` is computed.
        scale = np.where(over, least[k], most[k])[:, None]
        lam, change = reach[k] / scale, weight[k] / scale
        beyond, change = _path_integral(lam, count[k], change, slope, near)
        chance[k] = np.where(over, 1.0 - beyond, beyond)
        density[k] = np.where(over, -change, change)
    return chance, density


def _saddle_point(lam: Floats, count: Floats) -> tuple[Floats, Floats]:
    """Return two values: the s in (0, 1) at which ``exp(K(s)) / s`` is smallest, and ``1 - lam s``.

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


def _path_integral(
    lam: Floats, count: Floats, shift: Floats, slope: bool, near: tuple[float, float] | None
) -> tuple[Floats, Floats]:
    """Return the probability that ``sum lam g > 0``, and its derivative in direction ``shift``.

    The g are as in :func:`chance_below`. The largest ``lam`` must be 1.
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
    if near is not None:
        rough = height * _SADDLE
        close = (rough > near[0]) & (rough < near[1])
        live, total = np.flatnonzero(close), np.where(close, total, _SADDLE)
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


def _lower_limits(samples: CaseCounts, quantity: Quantity, ci_level: float, turned: Any) -> Floats:
    """Return the lower limit of each study, a quantile of the randomly weighted mean.

    Where ``turned`` is True, the values have reversed signs, and the result is minus the upper
    limit of the original values.

    The quantile is found by Newton's method inside a bracket, with probabilities on the scale of
    normal quantiles. It starts at a quantile of the beta distribution that has the same mean
    and variance as the randomly weighted mean.
    """
    tail = 0.5 * (1.0 - ci_level)
    bound = quantity.lowest(turned)
    value, weight, count = samples.with_pseudo_case(quantity, 1.0 - ci_level, bound)
    top = np.maximum(samples.top, value[:, -1])
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


def check_null(null: float | None, quantity: Quantity, ci_level: float) -> None:
    """Raise an error if the level is invalid or the null is outside the bounds."""
    check_level(ci_level)
    low, high = quantity.low, quantity.high
    if null is not None and (null < low or null > high):
        raise ValueError(f"null must lie between {low:g} and {high:g}, found {null:g}.")


def clip_to_bounds(values: Floats, quantity: Quantity) -> Floats:
    """Clip values to the bounds; raise ValueError if one is outside by more than rounding."""
    low, high = quantity.low, quantity.high
    slack = 1e-9 * (high - low)
    if not ((values >= low - slack) & (values <= high + slack)).all():
        extent = f"{values.min():g} to {values.max():g}"
        raise ValueError(f"values must lie between {low:g} and {high:g}, found {extent}.")
    return np.clip(values, low, high)


def relative_weights(weights: ArrayLike | None, values: Floats) -> Floats:
    """Return the weights, divided by the largest weight of a value that is not missing."""
    raw = np.ones(values.shape) if weights is None else np.asarray(weights, float)
    if raw.shape != values.shape:
        raise ValueError(f"weights: found shape {raw.shape}; there are {values.shape} values.")
    used = raw[np.isfinite(values)]
    if not (np.isfinite(used) & (used > 0)).all():
        raise ValueError("weights must be above 0.")
    return np.asarray(raw / used.max(initial=0.0), float)


def solved_limits(
    samples: CaseCounts, quantity: Quantity, null: float | None, ci_level: float
) -> Floats:
    """Return lower limits, upper limits and p-values of ``null`` as three rows.

    The p-values are NaN if ``null`` is None.
    """
    turned = np.repeat([False, True], len(samples.value))
    both = samples.rows(np.tile(np.arange(len(samples.value)), 2)).turned(turned)
    low, high = np.split(_lower_limits(both, quantity, ci_level, turned), 2)
    p_value = np.full(len(low), NAN)
    if null is not None and not math.isnan(null):
        p_value = _p_values(samples, partial(_two_sided, quantity=quantity, null=null))
    return np.stack([low, -high, p_value])


def _p_values(samples: CaseCounts, chance: Callable[..., Floats]) -> Floats:
    """Return the smallest error rates at which the limits exclude the null.

    ``chance`` returns a two-sided probability that depends on the error rate, because the
    pseudo-case does. The p-value is the error rate at which this probability equals the error rate.
    It is found by the Illinois method, on the scale of logarithms.
    """
    p_value = chance(samples, error_rate=_ALPHA)
    small = p_value <= _ALPHA
    low = np.where(small, np.maximum(p_value, _LEAST_P), _ALPHA)
    high = np.where(small, _ALPHA, 2.0 * _ALPHA)
    other = chance(samples, error_rate=np.where(small, low, high))
    chances = [np.where(small, other, p_value), np.where(small, p_value, other)]
    ends = [np.log(low), np.log(high)]
    excess = [np.log(np.maximum(c, 1e-300)) - end for c, end in zip(chances, ends, strict=True)]
    p_value = np.where(excess[0] > _SAME_P, chances[1], chances[0])
    live = np.flatnonzero((excess[0] > _SAME_P) & (excess[1] < -_SAME_P))
    a, b, over, under = (part[live] for part in (*ends, *excess))
    before = np.full(len(live), 0.5)  # the end replaced last: 1 lower, 0 upper, 0.5 neither
    for _ in range(60):
        if not len(live):
            break
        at = (a * under - b * over) / (under - over)
        p_value[live] = chance(samples.rows(live), error_rate=np.exp(at))
        rest = np.log(np.maximum(p_value[live], 1e-300)) - at
        right = rest > 0
        # if the same end is kept twice in a row, halve its function value (Illinois method)
        stays = np.where(right == before, 0.5, 1.0)
        over, under = np.where(right, rest, stays * over), np.where(right, stays * under, rest)
        a, b = np.where(right, at, a), np.where(right, b, at)
        going = np.abs(rest) > _SAME_P
        live, a, b, over, under, before = (
            part[going] for part in (live, a, b, over, under, 1.0 * right)
        )
    return np.maximum(p_value, TINY_P)


def _two_sided(samples: CaseCounts, quantity: Quantity, null: float, error_rate: Any) -> Floats:
    """Return twice the smaller of P(mean < null) and P(mean > null), but at most 1.

    Each probability is computed with its own pseudo-case, which depends on ``error_rate``. The sum
    of the two is therefore at least 1, and a probability of at most 1/2 is the smaller of the two.
    """
    size = samples.count * samples.weight
    above = (size * (samples.value - null)).sum(1) > 0
    rates = np.broadcast_to(error_rate, len(above))
    chance = chance_beyond(samples, quantity, null, rates, ~above)
    rest = np.flatnonzero(~(chance <= 0.5))
    if len(rest):
        other = chance_beyond(samples.rows(rest), quantity, null, rates[rest], above[rest])
        chance[rest] = np.fmin(chance[rest], other)
    return np.minimum(1.0, 2.0 * chance)


def chance_beyond(
    samples: CaseCounts,
    quantity: Quantity,
    null: float,
    error_rates: Floats,
    above: Any,
    near: tuple[float, float] | None = None,
) -> Floats:
    """Return for each study P(mean < null) or, where ``above`` is True, P(mean > null).

    ``near`` is as in :func:`chance_below`.
    """
    side = samples.turned(above)
    whole = side.with_pseudo_case(quantity, error_rates, quantity.lowest(above))
    at = np.where(above, -null, null)
    below, _ = chance_below(*whole, at, near=near)
    # if all cases have the value of the pseudo-case, the mean has this value, too, for all weights
    start, bottom = whole[0][:, -1], np.where(side.count > 0, side.value, np.inf).min(1)
    sure = (side.top <= start) & (bottom >= start) & (at >= start)
    return np.asarray(np.where(sure, 1.0, below))


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
        Mean under the null hypothesis, such as 0 for a difference; must be inside the bounds.
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
    sides_of_null : Sides of a null on which the intervals of simulated studies are.

    Notes
    -----
    The lower limit L solves ``P(sum g_i (x_i - L) + e (low - L) <= 0) = (1 - level) / 2``. Here
    x_i is the value of case i, ``low`` is the lower bound, and the g_i (chi-square with 2 df) and e
    (chi-square with 2c df) are independent. The upper limit is the mirror image. In words, this is
    a Bayesian bootstrap with a pseudo-case of weight c at the bound. For c = 1 it is Gaffke's
    bound, which is Clopper-Pearson for yes/no data. The probability is computed as an integral
    along a contour through the saddlepoint, precise to 1e-10. The interval does not depend on the
    order of cases, is mirrored if all signs change, and is continuous in the data.

    With ``arms``, ``placed_cases`` replaces the bounds by positions nearer to the mean. The
    more the outcomes are mixed within cases, the nearer these positions are. With one attempt per
    case nothing changes. Coverage was at least 94.7 % in the designs that docs/intervals.md
    reports, except where a few cases or skills are unlike all others: it fell to 91 % if some cases
    never pass and the others are of middling difficulty, and to 90 % if few skills have an effect
    (``"bounded"``: 96 %). The weight c of the pseudo-case rises to 1 at a level of 90 %, and to 0.8
    at a level of 98 %.

    A cluster with sum S_g and size m_g enters as ``g_g (S_g - L m_g)``. The size of the pseudo-case
    is the mean cluster size weighted by the squared sizes, ``sum m_g^3 / sum m_g^2``. If only a few
    larger clusters had the effect, coverage was at least 86 % with this size, but only 69 % with
    Kish's effective size ``sum m_g^2 / sum m_g``. With the size of the largest cluster, coverage
    would be complete, but the interval would be a third wider whenever a few clusters are larger. A
    note is added if Kish's effective number of clusters (or weighted cases), ``(sum m)^2 / sum
    m^2``, is below five. ``make validate`` repeats the simulations of coverage.

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
    return bounded_means(
        [sample], quantity=quantity, null=null, ci_level=ci_level, interval=interval
    )[0]


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
        Whether each value is an estimate plus a residual. Such values may be outside the bounds,
        and then the limits can be outside, too; the caller has to clip them.

    Returns
    -------
    list of Interval
        One interval per sample, in the order of the samples.
    """
    check_null(null, quantity, ci_level)
    require_known("interval: found", interval, get_args(IntervalRule))
    read = [
        _read_sample(Sample(*sample), quantity, rule=interval, free=recentred, ci_level=ci_level)
        for sample in samples
    ]
    if interval == "t":
        return [
            bare.with_note("no spread between clusters: no t interval" if bare.n else "")
            if math.isnan(bare.se)
            else bare.with_t_limits(bare.se, bare.df, null)
            for _, bare in read
        ]
    compact = [sample for sample, _ in read]
    limits = np.full((3, len(read)), NAN)
    # Samples that are solved together are padded to the same number of distinct values, so group
    # samples with similar numbers of distinct values.
    sizes = np.array([-1 if c is None else max(c.value.shape[1] - 1, _SMALL_SAMPLE).bit_length()
                      for c in compact])  # fmt: skip
    for size in np.unique(sizes[sizes >= 0]):
        place = np.flatnonzero(sizes == size)
        batch = [sample for i in place if (sample := compact[i]) is not None]
        limits[:, place] = solved_limits(_stack_samples(batch), quantity, null, ci_level)
    intervals = []
    for (_, bare), (low, high, p_value) in zip(read, limits.T.tolist(), strict=True):
        # widen the limits if rounding has put the estimate just outside them
        ends = min(low, bare.estimate), max(high, bare.estimate)
        intervals.append(replace(bare, low=ends[0], high=ends[1], p_value=p_value))
    return intervals


def _read_sample(
    sample: Sample, quantity: Quantity, *, rule: IntervalRule, free: bool, ci_level: float
) -> tuple[CaseCounts | None, Interval]:
    """Return a sample in compact form (None if it has no cases) and its interval without limits."""
    adaptive = rule == "adaptive" and (bool(sample.arms) or sample.places is not None)
    label = "CR2 with Satterthwaite t" if rule == "t" else bounded_label(quantity, adaptive)
    numbers = np.asarray(sample.values, float)
    complete, groups, note = complete_values(numbers, sample.clusters)
    if not complete.size:
        return None, undefined(label, note or "no cases", ci_level=ci_level, n=0.0)
    if not free:
        clip_to_bounds(complete, quantity)
    present = np.isfinite(numbers)
    heavy = relative_weights(sample.weights, numbers)[present]
    sizes, sums = groups.totals(heavy), groups.totals(heavy * complete)
    total = sizes.sum()
    estimate = float(sums.sum() / total)
    means, share = sums / sizes, sizes / total
    variance, dfs = cr2_of_counts(means - estimate, share, 1.0)
    # no spread between clusters, or one cluster
    spread = len(sizes) > 1 and variance > ZERO_VARIANCE
    se, df = (math.sqrt(variance), float(dfs)) if spread else (NAN, NAN)
    values = means if free else np.clip(means, quantity.low, quantity.high)
    if sample.places is not None:
        places = sample.places
    elif adaptive:
        arms = sample.arms if present.all() else [arm.rows(present) for arm in sample.arms]
        places = cluster_positions(arms, values[None], groups, quantity, heavy)
    else:
        places = Positions.at_bounds(quantity, 1)
    compact = _compact_sample(values, sizes, places)
    n, count, effective = groups.n, groups.count, float(total**2 / (sizes**2).sum())
    if effective < _EFFECTIVE - 1e-9 and (effective < count - 1e-9 or count < n):
        units = "clusters" if count < n else "cases"
        note = join_notes(note, f"only {effective:.1f} effective {units}: read with care")
    elif count <= _ONE_OR_TWO:
        note = join_notes(note, f"only {count} case{'s' * (count > 1)}: read with care")
    note = join_notes(note, heavy_note(sizes, "cluster" if count < n else "case"))
    limits, counts = (NAN, NAN), (float(n), float(count))
    return compact, Interval(estimate, *limits, ci_level, label, note, *counts, se, df)


def bounded_label(quantity: Quantity, adaptive: bool) -> str:
    """Return the text for ``method``, such as "adaptive bounded mean, c = 0.75"."""
    return f"{'adaptive ' if adaptive else ''}bounded mean, c = {quantity.c:g}"


class ContrastTerms(NamedTuple):
    """Sums over the arms of a contrast, one per study.

    ``noise`` is the variance of the mean if the attempts are independent. The lower pseudo-case is
    below the mean, and the upper one is above it. The distance of each from the mean is the root of
    a sum of two squares (see `placed_cases`). One square depends on the spread between clusters.
    The other is ``down`` squared for the lower pseudo-case, and ``up`` squared for the upper one.
    """

    noise: Any
    down: Any
    up: Any

    def plus(self, other: ContrastTerms) -> ContrastTerms:
        """Add the terms of another contrast."""
        return ContrastTerms(*(a + b for a, b in zip(self, other, strict=True)))


def contrast_terms(
    arms: Sequence[Arm],
    share: Floats,
    *,
    count: Floats | float = 1.0,
    n_cases: Floats | float = 1.0,
    mixed_cases: Sequence[Any] | None = None,
) -> ContrastTerms:
    """Return the terms of a contrast; ``share`` is the share of each cluster in the mean.

    If clusters have several cases, ``n_cases`` is the number of cases in each cluster, and
    ``mixed_cases`` has, for each arm, the :func:`mixed_outcomes` of the cases. Further attempts at
    a case that always has the same outcome add no information. Clusters with such cases therefore
    have fewer effective attempts.
    """
    terms = ContrastTerms(0.0, 0.0, 0.0)
    for at, arm in enumerate(arms):
        rate, sign = np.asarray(arm.rates, float), abs(arm.sign)
        weight = count * share * np.ones_like(rate)
        mixed = mixed_outcomes(arm, weight)
        of_cases = mixed if mixed_cases is None else mixed_cases[at]
        more = _independent_variance(arm, n_cases, mixed, of_cases)
        noise = sign**2 * (weight * share * more).sum(-1)
        part = sign * (_PHI + (1.0 - _PHI) * (1.0 - np.minimum(1.0, mixed)))
        ends = [part * (weight * rate).sum(-1), part * (weight * (1.0 - rate)).sum(-1)]
        terms = terms.plus(ContrastTerms(noise, *(ends if arm.sign > 0 else ends[::-1])))
    return terms


def placed_cases(
    terms: ContrastTerms,
    value: Floats,
    share: Floats,
    bounds: tuple[float, float],
    *,
    count: Floats | float = 1.0,
) -> Positions:
    """Return the positions of the two pseudo-cases of a contrast, below and above its mean.

    ``value`` is the value of each cluster, ``share`` its share in the mean, and ``count`` its
    number of copies. The distance of a pseudo-case from the mean is the root of a sum of two
    squares. One is the square of ``terms.down`` (below the mean) or ``terms.up`` (above it). The
    other depends on the spread between clusters. Positions do not exceed ``bounds``.
    With a single cluster, the pseudo-cases are at the bounds.
    """
    low, high = bounds
    square = (count * share**2).sum(-1)
    mean = (count * share * value).sum(-1)
    variance, df = cr2_of_counts(value - mean[..., None], share, count)
    with np.errstate(invalid="ignore"):
        se = np.sqrt(np.maximum(variance, terms.noise))
        reach = _KAPPA * stdtrit(df, _SURE) / ndtri(_SURE) * se / np.sqrt(square)
        lower = mean - np.minimum(np.hypot(terms.down, reach), mean - low)
        upper = mean + np.minimum(np.hypot(terms.up, reach), high - mean)
    single = np.asarray((share >= 1.0 - 1e-12).any(-1))  # one cluster: no spread can be estimated
    lower, upper = np.where(single, low, lower), np.where(single, high, upper)
    parts = np.where(single, 0.0, reach), np.where(single, 1.0, df)
    return Positions(lower, upper, np.stack(np.broadcast_arrays(*parts), axis=-1))


def mixed_outcomes(arm: Arm, weight: Floats) -> Floats:
    """Average `mixed_cases` over the cases; ``weight`` adds up to 1 over the last axis."""
    return np.asarray((weight * arm.mixed_cases).sum(-1))


def spread_of_case(rates: Any, squares: Any = None) -> Floats:
    """Return the variance of the attempts of each case: p (1 - p) for a pass rate p.

    For scores from 0 to 1, it follows from their mean ``rates`` and the mean of their ``squares``.
    """
    rate = np.asarray(rates, float)
    if squares is None:
        return rate * (1.0 - rate)
    spread: Floats = np.maximum(np.asarray(squares, float) - rate**2, 0.0)
    return spread


def mixed_of_case(rates: Any, attempts: Any = None, squares: Any = None) -> Floats:
    """Return how mixed the outcomes of each case are: four times their variance.

    The result is 0 if the case always has the same outcome, and about 1 if it passes half the time.
    If ``attempts`` are given, the result is corrected for their number, and 0 for one attempt.
    """
    mixed = 4.0 * spread_of_case(rates, squares)
    if attempts is None:
        return mixed
    n = np.asarray(attempts, float)
    return np.where(n > 1, mixed * n / np.maximum(n - 1.0, 1.0), 0.0)


def _independent_variance(
    arm: Arm, n_cases: Floats | float, mixed: Floats, of_cases: Floats
) -> Floats | float:
    """Return, for each cluster, the variance of its rate, assuming independent attempts."""
    spread = spread_of_case(arm.rates, arm.squares)
    if arm.attempts is None:
        if arm.checks is None:
            return 0.0
        return np.asarray(spread / np.maximum(np.asarray(arm.checks, float) - 1.0, 1.0))
    attempts = np.asarray(arm.attempts, float)
    ratio = np.minimum(1.0, np.where(mixed > 0, of_cases, 0.0) / np.where(mixed > 0, mixed, 1.0))
    effective = n_cases + (attempts - n_cases) * ratio[..., None]
    left = np.where(np.asarray(n_cases) > 1, effective, attempts) - 1.0
    return np.asarray(np.where(attempts > 1, spread, 0.0) / np.maximum(left, 1.0))


def cluster_positions(
    arms: Sequence[Arm], value: Floats, groups: Clusters, quantity: Quantity, weights: Floats
) -> Positions:
    """Return the positions of the pseudo-cases for S studies that have the same cases.

    ``value`` has the shape (S, G): the value of each of the G clusters in each study. The rates of
    the arms have the shape (n,) or (S, n), and ``weights`` has the shape (n,), for n cases.
    """
    share = groups.totals(weights)[None] / weights.sum()
    terms = clustered_terms(arms, groups, weights)
    return placed_cases(terms, value, share, (quantity.low, quantity.high))


def clustered_terms(arms: Sequence[Arm], groups: Clusters, weights: Floats) -> ContrastTerms:
    """Return the terms of a contrast from arms with one entry per case, shape (n,) or (S, n)."""
    share = groups.totals(weights)[None] / weights.sum()
    clustered = _clustered_arms(arms, groups, weights)
    if groups.single:
        return contrast_terms(clustered, share)
    mixed = [mixed_outcomes(arm, weights / weights.sum()) for arm in arms]
    return contrast_terms(clustered, share, n_cases=groups.sizes, mixed_cases=mixed)


def share_mixed(sample: Sample) -> float:
    """Return how mixed the outcomes of a sample are, from 0 to 1: the mean of its arms.

    The sample has no missing values. Without arms, nothing is known of the attempts, and the
    result is 0.
    """
    n = len(np.asarray(sample.values))
    if not sample.arms or not n:
        return 0.0
    groups = Clusters.of(sample.clusters, n)
    weights = np.ones(n) if sample.weights is None else np.asarray(sample.weights, float)
    share = groups.totals(weights) / weights.sum()
    arms = _clustered_arms(sample.arms, groups, weights)
    return float(np.mean([np.minimum(1.0, mixed_outcomes(arm, share)) for arm in arms]))


def _clustered_arms(arms: Sequence[Arm], groups: Clusters, weights: Floats) -> Sequence[Arm]:
    """Return the arms with one entry per cluster."""
    if groups.single:
        return arms
    sizes = groups.totals(weights)

    def means(numbers: Any) -> Floats:
        return np.asarray(groups.totals(weights * np.asarray(numbers, float)) / sizes)

    clustered = []
    for arm in arms:
        attempts, checks = (
            None if counts is None else groups.totals(np.asarray(counts, float))
            for counts in (arm.attempts, arm.checks)
        )
        squares = None if arm.squares is None else means(arm.squares)
        mixed = mixed_of_case(means(arm.rates), attempts, squares)
        if arm.mixed is not None:
            mixed = np.where(groups.sizes > 1, mixed, means(arm.mixed))
        clustered.append(Arm(means(arm.rates), attempts, arm.sign, checks, mixed, squares))
    return clustered


def _compact_sample(value: Floats, weight: Floats, places: Positions) -> CaseCounts:
    """Count the clusters that have the same value and weight; ignore rounding errors."""
    value, weight = value.round(12), weight.round(12)
    order = np.lexsort((weight, value))
    value, weight = value[order], weight[order]
    new = np.r_[True, (value[1:] != value[:-1]) | (weight[1:] != weight[:-1])]
    count = np.diff(np.flatnonzero(np.r_[new, True])).astype(float)
    return CaseCounts(value[new][None], weight[new][None], count[None], *places)


def _stack_samples(samples: Sequence[CaseCounts]) -> CaseCounts:
    width = max(sample.value.shape[1] for sample in samples)
    parts = [np.zeros((len(samples), width)) for _ in range(3)]
    for i, sample in enumerate(samples):
        for part, row in zip(parts, (sample.value, sample.weight, sample.count), strict=True):
            part[i, : row.shape[1]] = row[0]
    names = ("start", "end", "reach")
    return CaseCounts(*parts, *(np.concatenate([getattr(s, n) for s in samples]) for n in names))


def upper_limits_of_rates(
    rates: Floats, counts: Floats, weights: Floats, ci_level: float
) -> Floats:
    """Return the upper limit of the mean rate of each study, by the rule ``"bounded"``.

    ``rates`` and ``weights`` hold the possible rates of a case, with their weights. ``counts`` has
    one row per study, with the number of cases with each rate.
    """
    size = np.broadcast_to(weights / weights.max(), counts.shape)
    places = Positions.at_bounds(RATES, len(counts))
    samples = CaseCounts(np.broadcast_to(rates, counts.shape), size, counts, *places)
    estimate = (counts * rates) @ weights / (counts @ weights)
    # widen the limit if rounding has put the estimate outside it
    high: Floats = np.maximum(solved_limits(samples, RATES, None, ci_level)[1], estimate)
    return high


# `sides_of_null` needs to know only whether a probability is below the error rate. A saddlepoint
# approximation of the probability decides this. If the approximation is from 0.5 to 1.3 times the
# error rate, the exact probability is computed instead. This range is wide enough: in 20,000 random
# studies, the approximation of probabilities from .005 to .5 was .64 to 1.05 times the exact value.
_NEAR = np.array([0.5, 1.3])


def sides_of_null(
    samples: CaseCounts,
    *,
    quantity: Quantity,
    null: float = 0.0,
    ci_level: float = 0.95,
    interval: IntervalRule = "adaptive",
) -> Floats:
    """Return whether the interval of each study is above or below the null, or includes it.

    This is much faster than computing limits, because the exact probability is computed only for
    studies with a limit near the null.

    Parameters
    ----------
    samples : CaseCounts
        Cases or clusters of each study, with the positions of the pseudo-cases under the rule
        ``"adaptive"`` or ``"bounded"``.
    quantity, null, ci_level, interval
        As in :func:`skillcomp.stats.bounded.bounded_mean`.

    Returns
    -------
    ndarray of float, shape (S,)
        1 if the interval is above the null, -1 if it is below, and 0 if it includes the null.
    """
    size = samples.count * samples.weight
    share = samples.weight / size.sum(1, keepdims=True)
    mean = (samples.count * share * samples.value).sum(1)
    side, tail = np.sign(mean - null), 0.5 * (1.0 - ci_level)
    if interval == "t":
        variance, df = cr2_of_counts(samples.value - mean[:, None], share, samples.count)
        reach = stdtrit(df, 1.0 - tail) * np.sqrt(variance)
        return np.where((np.abs(mean - null) > reach) & (variance > ZERO_VARIANCE), side, 0.0)
    rates, near = np.full(len(side), 1.0 - ci_level), tuple(tail * _NEAR)
    return np.where(chance_beyond(samples, quantity, null, rates, side < 0, near) < tail, side, 0.0)
