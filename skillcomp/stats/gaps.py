"""Difference of the means of two groups with different cases, plain or adjusted for levels.

A level is a category that has cases of both groups, such as a rubric dimension with near and far
cases.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from skillcomp.stats.bounded import DELTAS, Quantity, Sample, bounded_means
from skillcomp.stats.clusters import cluster_codes
from skillcomp.stats.results import Interval, check_level, join_notes, undefined

# The smallest p-value that is reported. A p-value is computed as 1 minus a confidence level, and
# below this it would have no correct digits.
_SMALLEST_P = 2e-12
_XTOL = 1e-8  # precision of log p


def independent_difference(
    first: Sample, second: Sample, *, quantity: Quantity, ci_level: float = 0.95, null: float = 0.0
) -> Interval:
    """Estimate the difference of the means of two groups with different cases, second minus first.

    The groups may be, for example, near and far cases, or the attempts that fail by gold under two
    conditions. If both groups have the same cases, use the mean of the case differences
    (:func:`skillcomp.stats.bounded.bounded_mean` with ``DELTAS``) instead.

    Parameters
    ----------
    first, second : tuple of (values, clusters or None, weights or None)
        The two samples, each as for :func:`skillcomp.stats.bounded.bounded_mean`: value, cluster
        and weight of each case. A cluster must not occur in both samples.
    quantity : Quantity
        Bounds of the values and weight of the pseudo-case: ``RATES``, ``SHARES`` or ``DELTAS``.
    ci_level : float, default 0.95
        Confidence level.
    null : float, default 0
        Difference to test.

    Returns
    -------
    Interval
        Difference with limits that are inside the range of possible differences and never equal.
        ``p_value`` tests ``null`` by inverting the same interval and is at least 2e-12. ``se`` and
        ``df`` combine those of the two samples (Welch-Satterthwaite); they are NaN if a sample has
        no spread. ``n`` and ``n_clusters`` are sums over both samples. All values are NaN if a
        sample has no case.

    Raises
    ------
    ValueError
        As :func:`skillcomp.stats.bounded.bounded_mean`.

    Notes
    -----
    The method is square-and-add (MOVER). The two means are d1 and d2, with limits l1, u1 and l2, u2
    at the same level. The difference is ``D = d2 - d1``, its lower limit
    ``D - sqrt((d2 - l2)^2 + (u1 - d1)^2)`` and its upper limit
    ``D + sqrt((u2 - d2)^2 + (d1 - l1)^2)``. Swapping the samples changes only the sign.

    References
    ----------
    Zou and Donner 2008, Statistics in Medicine 27:1693-1702, doi:10.1002/sim.3095.

    Examples
    --------
    >>> from skillcomp.stats.bounded import RATES
    >>> near, far = [1, 1, 1, 0, 1, 1, 1, 1], [0, 1, 0, 0, 1, 0, 0, 1]
    >>> ci = independent_difference((near, None, None), (far, None, None), quantity=RATES)
    >>> round(ci.estimate, 3), round(ci.low, 3), round(ci.high, 3), round(ci.p_value, 3)
    (-0.5, -0.811, 0.029, 0.067)
    """
    check_level(ci_level)
    label = f"difference of two bounded means (MOVER), c = {quantity.c:g}"
    mean1, mean2 = bounded_means([first, second], quantity=quantity, ci_level=ci_level)
    n = mean1.n + mean2.n
    # if both samples have the same note, keep it once
    note = join_notes(*dict.fromkeys((mean1.note, mean2.note)))
    if math.isnan(mean1.estimate) or math.isnan(mean2.estimate):
        return undefined(label, note, ci_level=ci_level, n=n)
    # Welch-Satterthwaite df; NaN if a sample has no standard error
    v1, v2 = mean1.se**2, mean2.se**2
    df = (v1 + v2) ** 2 / (v1**2 / mean1.df + v2**2 / mean2.df)
    gap = replace(mean2.minus(mean1), method=label, note=note, se=math.sqrt(v1 + v2), df=df)
    p_value = _p_value(first, second, quantity, null, gap.estimate)
    return replace(gap, n_clusters=mean1.n_clusters + mean2.n_clusters, p_value=p_value)


def _p_value(first: Sample, second: Sample, quantity: Quantity, null: float, gap: float) -> float:
    """Return 1 minus the confidence level at which a limit of the interval equals ``null``."""
    if abs(gap - null) <= 1e-12:
        return 1.0

    def margin(log_p: float) -> float:
        level = -math.expm1(log_p)
        mean1, mean2 = bounded_means([first, second], quantity=quantity, ci_level=level)
        interval = mean2.minus(mean1)
        return interval.low - null if gap > null else null - interval.high

    largest, smallest = math.log1p(-1e-9), math.log(_SMALLEST_P)
    if margin(largest) <= 0:
        return 1.0
    if margin(smallest) >= 0:
        return _SMALLEST_P
    return math.exp(float(brentq(margin, smallest, largest, xtol=_XTOL)))


Floats = NDArray[np.float64]

_ALONE = 1e-9  # if 1 - leverage is below this, the case is fitted exactly and has no residual


@dataclass(frozen=True, slots=True)
class StandardisedGap:
    """Means of two groups and their difference.

    Attributes
    ----------
    first, second, gap : Interval
        Weighted mean of each group, and the mean of the second group minus that of the first.
    """

    first: Interval
    second: Interval
    gap: Interval


def standardised_gap(
    values: ArrayLike,
    second: ArrayLike,
    levels: ArrayLike,
    clusters: ArrayLike,
    *,
    quantity: Quantity = DELTAS,
    ci_level: float = 0.95,
) -> StandardisedGap:
    """Estimate the means of two groups of cases and their gap, with the same weights of levels.

    Parameters
    ----------
    values : array_like of float, shape (n,)
        One value per case, inside the bounds of the quantity; none may be missing.
    second : array_like of bool, shape (n,)
        True for the second group, such as far cases; False for the first group, such as near cases.
    levels : array_like, shape (n,)
        Level of each case; each level must have cases of both groups.
    clusters : array_like, shape (n,)
        Cluster of each case; a cluster may have cases in both groups.
    quantity : Quantity, default DELTAS
        Bounds of the values and weight of the pseudo-case.
    ci_level : float, default 0.95
        Confidence level.

    Returns
    -------
    StandardisedGap
        Intervals of bounded means. The p-values test a value of 0 by inverting the intervals.

    Raises
    ------
    ValueError
        If the lengths differ, a label is missing, or a level has cases of only one group.

    Notes
    -----
    The weight of a level with ``a`` cases of the first group and ``b`` cases of the second is
    proportional to ``a b / (a + b)``. The gap is thus the least-squares coefficient of the group in
    a model with a dummy for each level. It is a weighted mean of the gaps within levels. These need
    not be equal.

    The mean of a group is the weighted bounded mean of its cases. The gap is one bounded mean over
    the cases of both groups. In it, each case has half its weight and the value
    ``gap + 2 s r / sqrt(1 - h)``. Here s is 1 in the second group and -1 in the first; r and h are
    the residual and the leverage of the case in the model with levels and a common gap. Differences
    between levels thus do not count as uncertainty, and a level may have a single case of a group.
    The pseudo-case at the bound is as large as the largest cluster. In 120 simulated designs (2 to
    8 levels of 1 to 6 cases), coverage was at least 95.5 %. Coverage of a t interval (CR2) fell to
    20 %.

    Examples
    --------
    >>> means = standardised_gap(
    ...     [0.0, 0.5, 0.5, 1.0, 0.0, 0.2], [0, 0, 1, 1, 0, 1], list("uuuuvv"), range(6))
    >>> round(means.gap.estimate, 3)  # weights 1 and 1/2: (1 x 0.5 + 1/2 x 0.2) / (3/2)
    0.4
    """
    x, group = np.asarray(values, dtype=float), np.asarray(second, dtype=float)
    level, n_levels = cluster_codes(levels)
    label, _ = cluster_codes(clusters)
    if not len(x) == len(group) == len(level) == len(label):
        sizes = f"{len(x)}, {len(group)}, {len(level)} and {len(label)}"
        rule = "values, second, levels and clusters must have one entry per case"
        raise ValueError(f"{rule}, found {sizes}.")
    counts = [np.bincount(level, weights=w, minlength=n_levels) for w in (1 - group, group)]
    if not n_levels or min(count.min() for count in counts) == 0:
        raise ValueError("every level must have cases of both groups.")
    size: Floats = np.bincount(level, minlength=n_levels).astype(np.float64)
    share = counts[0] * counts[1] / size
    share /= share.sum()
    weight = np.where(group > 0, (share / counts[1])[level], (share / counts[0])[level])
    sign = 2.0 * group - 1.0
    estimate = float((sign * weight) @ x)
    spread = sign * 2.0 * _scaled_residuals(x, group - (counts[1] / size)[level], level, size)
    spread -= weight @ spread / weight.sum()
    samples = [(x[side], label[side], weight[side]) for side in (group == 0, group > 0)]
    first, other = bounded_means(samples, quantity=quantity, null=0.0, ci_level=ci_level)
    span = quantity.high - quantity.low
    wide = Quantity(-span, span, quantity.c, largest=True)
    both = [(estimate + spread, label, 0.5 * weight)]
    gap = bounded_means(both, quantity=wide, null=0.0, ci_level=ci_level, recentred=True)[0]
    return StandardisedGap(first, other, gap)


def _scaled_residuals(x: Floats, centred: Floats, level: NDArray[np.intp], size: Floats) -> Floats:
    """Fit a model with levels and a common gap; return residuals divided by sqrt(1 - leverage)."""
    square = float(centred @ centred)
    rest = x - (np.bincount(level, weights=x) / size)[level]
    rest = rest - centred * (centred @ x) / square
    left = 1.0 - 1.0 / size[level] - centred**2 / square
    return np.where(left > _ALONE, rest / np.sqrt(np.maximum(left, _ALONE)), 0.0)
