"""Ratios of amounts without an upper bound, such as dollars, seconds and tokens."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from skillcomp.errors import plural
from skillcomp.stats.clusters import COLLAPSED, ZERO_VARIANCE, complete_values, cr2_mean, heavy_note
from skillcomp.stats.results import (
    NAN,
    Floats,
    Interval,
    check_level,
    join_notes,
    quantile,
    undefined,
)

_SMALLEST_P = 1e-12  # smallest p-value that the inversion of an interval looks for


def _paired_amounts(first: ArrayLike, second: ArrayLike) -> Floats:
    """Return the two amounts of each case; raise ValueError if one is infinite."""
    amounts = np.array([first, second], float)
    if n_infinite := int(np.isinf(amounts).sum()):
        raise ValueError(
            f"found {plural(n_infinite, 'infinite amount')}; allowed: numbers, or NaN if missing."
        )
    return amounts


def log_ratio(
    first: ArrayLike, second: ArrayLike, clusters: Any = None, *, ci_level: float = 0.95
) -> Interval:
    """Estimate the ratio of two paired amounts with a t interval of the log ratios.

    The amounts, such as dollars, seconds or tokens, need no upper bound.

    Parameters
    ----------
    first, second : array_like of float, shape (n,)
        The two amounts of each case; average the repeats of a case first. Cases with a missing
        amount, or with an amount of 0 or less, have no ratio and are left out; ``note`` counts
        both.
    clusters : array_like, shape (n,), optional
        Cluster of each case; if omitted, each case is a cluster.
    ci_level : float, default 0.95
        Confidence level.

    Returns
    -------
    Interval
        Geometric mean of first / second with limits, all above 0; ``p_value`` tests a ratio of 1.
        ``se`` and ``df`` are on the log scale. There are no limits if the ratios have no spread or
        there is only one cluster.

    Notes
    -----
    Computed by :func:`skillcomp.stats.clusters.cr2_mean` from the logarithms of the ratios, and
    transformed back.

    Examples
    --------
    >>> ci = log_ratio([2.0, 4.0, 2.0], [1.0, 1.0, 2.0])
    >>> round(ci.estimate, 3)  # the cube root of 2 x 4 x 1
    2.0
    """
    numerator, denominator = _paired_amounts(first, second)
    empty = (numerator <= 0) | (denominator <= 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(numerator) - np.log(denominator)
    labels = None if clusters is None else np.asarray(clusters)[~empty]
    interval = cr2_mean(logs[~empty], labels, ci_level=ci_level, scale=1.0)
    if empty.any():
        skipped = f"{plural(int(empty.sum()), 'case')} with an amount of 0: no ratio"
        interval = interval.with_note(skipped)
    estimate, low, high = np.exp([interval.estimate, interval.low, interval.high]).tolist()
    method = f"geometric mean of ratios, {interval.method} of logs"
    return replace(interval, estimate=estimate, low=low, high=high, method=method)


def amount_change(
    first: ArrayLike, second: ArrayLike, clusters: Any = None, *, ci_level: float = 0.95
) -> Interval:
    """Estimate the difference of the means of two paired amounts, first - second.

    Parameters
    ----------
    first, second, clusters, ci_level
        As in :func:`ratio_of_means`; no amount may be below 0.

    Returns
    -------
    Interval
        Mean difference over the cases; ``p_value`` inverts the interval. ``se`` and ``df`` are
        those of the t interval. There are no limits with fewer than two clusters, or if the
        differences have no spread.

    Notes
    -----
    The limits combine those of the two means by square-and-add with a correlation (MOVER). The
    limits of a mean are those of its logarithms (modified Cox, which allows for skew), with the
    totals of clusters in place of single amounts. They are never inside the t interval. If a
    cluster has a total of 0, there is no logarithm, and the limits are those of t. In simulations
    of lognormal amounts with ordinary skew, t covered 83 to 93 %, and these limits 94 to 99 %.

    References
    ----------
    Zou, Huo and Taleban 2009, doi:10.1002/env.919; Olsson 2005,
    doi:10.1080/10691898.2005.11910638.

    Examples
    --------
    >>> ci = amount_change([2.0, 3.0, 9.0, 4.0], [1.0, 1.0, 2.0, 1.0])
    >>> round(ci.estimate, 2), round(ci.low, 2), round(ci.high, 2)
    (3.25, -0.93, 12.95)
    """
    top, bottom = _paired_amounts(first, second)
    labels = np.arange(len(top)) if clusters is None else np.asarray(clusters)
    known = np.isfinite(top + bottom)
    scale = max(np.abs(top[known]).max(initial=0.0), np.abs(bottom[known]).max(initial=0.0))
    plain = cr2_mean(top - bottom, labels, ci_level=ci_level, scale=scale)
    if math.isnan(plain.low):
        return plain
    code = np.unique(labels[known], return_inverse=True)[1]
    size = code.max() + 1
    sides = [np.bincount(code, side[known]) * size / len(code) for side in (top, bottom)]
    if min(side.min() for side in sides) <= 0:
        return plain.with_note("an amount of 0 has no logarithm: t alone")
    logs = np.log(sides)
    correlations = [
        np.corrcoef(pair)[0, 1] if np.ptp(pair, axis=1).all() else 0.0 for pair in (sides, logs)
    ]
    shared = 2.0 * float(np.clip(min(correlations), 0.0, 1.0))
    variances = logs.var(axis=1, ddof=1)

    def limits(level: float) -> tuple[float, float]:
        error = np.sqrt(variances / size + variances**2 / (2 * (size - 1)))
        # larger limits, at levels close to 1, would overflow
        reach = np.minimum(quantile(level, size - 1) * error, 100.0)
        means, centres = np.mean(sides, axis=1), np.exp(logs.mean(axis=1) + variances / 2)
        below = means - np.minimum(centres * np.exp(-reach), means)
        above = np.maximum(centres * np.exp(reach), means) - means
        down, up = (
            math.sqrt(max(x**2 + y**2 - shared * x * y, 0.0))
            for x, y in ((below[0], above[1]), (above[0], below[1]))
        )
        half = quantile(level, plain.df) * plain.se
        return plain.estimate - max(down, half), plain.estimate + max(up, half)

    def distance(p_value: float) -> float:
        low, high = limits(1.0 - p_value)
        return low if plain.estimate > 0 else -high

    p_value = 1.0
    if plain.estimate and distance(1.0 - 1e-12) > 0:
        p_value = _SMALLEST_P
        if distance(_SMALLEST_P) < 0:
            p_value = float(brentq(distance, _SMALLEST_P, 1.0 - 1e-12, xtol=1e-12))
    low, high = limits(ci_level)
    method = "modified Cox limits of two means, square-and-add, not inside t"
    return replace(plain, low=low, high=high, p_value=p_value, method=method)


def ratio_of_means(
    numerator: ArrayLike, denominator: ArrayLike, clusters: Any = None, *, ci_level: float = 0.95
) -> Interval:
    """Estimate the ratio of two means over the same cases with Fieller's interval.

    Parameters
    ----------
    numerator, denominator : array_like of float, shape (n,)
        Two numbers of each case, such as its cost and its pass rate. Cases that lack one of them
        are left out and counted in ``note``.
    clusters : array_like, shape (n,), optional
        Cluster of each case; if omitted, each case is a cluster.
    ci_level : float, default 0.95
        Confidence level.

    Returns
    -------
    Interval
        Mean numerator / mean denominator with limits and ``se`` (delta method). There are no limits
        if there is only one cluster, if the ratio has no spread, or if the t interval of the mean
        denominator includes 0, because arbitrarily large ratios then agree with the data. NaN
        without cases or if the mean denominator is 0.

    Notes
    -----
    The interval contains each ratio r for which the mean of ``numerator - r denominator`` is within
    t standard errors of 0 (CR2 with Satterthwaite degrees of freedom). Unlike an interval from the
    delta method, it is not symmetric and allows for a denominator that is known imprecisely.

    References
    ----------
    Fieller 1954, J. R. Stat. Soc. B 16:175-185.

    Examples
    --------
    >>> ci = ratio_of_means([2.0, 3.0, 5.0, 4.0], [1.0, 1.0, 2.0, 1.0])
    >>> round(ci.estimate, 2), round(ci.low, 2), round(ci.high, 2)
    (2.8, 1.75, 4.94)
    """
    check_level(ci_level)
    label = "Fieller, CR2 with Satterthwaite t"
    top, bottom = _paired_amounts(numerator, denominator)
    both = np.where(np.isfinite(top + bottom), top, NAN)
    top, groups, note = complete_values(both, clusters)
    bottom = bottom[np.isfinite(both)]
    if not groups.n or bottom.sum() == 0:
        reason = "the mean of the denominator is 0" if groups.n else note or "no values"
        return undefined(label, reason, ci_level=ci_level, n=float(groups.n))
    a, b = float(top.mean()), float(bottom.mean())
    note = join_notes(note, heavy_note(groups.sizes, "cluster"))
    ratio, count = a / b, float(groups.count)
    bare = Interval(ratio, NAN, NAN, ci_level, label, note, float(groups.n), count)
    if count < 2:
        return replace(bare, note=join_notes("one cluster has no standard error", note))
    sides = groups.totals(top - a), groups.totals(bottom - b)
    aa, ab, bb = (float(groups.covariance(sides[i], sides[j])) for i, j in ((0, 0), (0, 1), (1, 1)))
    variance = aa - 2.0 * ratio * ab + ratio**2 * bb
    if variance <= ZERO_VARIANCE * float(np.abs(top).max()) ** 2:
        return replace(bare, note=join_notes(COLLAPSED, note))
    bare = replace(bare, se=math.sqrt(variance) / abs(b), df=groups.df)
    t2 = quantile(ci_level, groups.df) ** 2
    square = b * b - t2 * bb
    if square <= 0.0:
        reason = "the t interval of the denominator includes 0: the ratio has no limits"
        return replace(bare, note=join_notes(reason, note))
    middle = a * b - t2 * ab
    reach = math.sqrt(max(middle**2 - square * (a * a - t2 * aa), 0.0))
    return replace(bare, low=(middle - reach) / square, high=(middle + reach) / square)
