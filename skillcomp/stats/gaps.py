"""Differences between two groups of cases, and slopes of bounded values, both within levels.

A level is a category that has cases of both groups, such as a rubric dimension with near and far
cases, or all checks of one skill for which gold is a fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skillcomp.stats.bounded import (
    DELTAS,
    RATES,
    Arm,
    ContrastTerms,
    IntervalRule,
    Positions,
    Quantity,
    Sample,
    bounded_means,
    clustered_terms,
    placed_cases,
)
from skillcomp.stats.clusters_and_amounts import Clusters, cluster_codes, cr2
from skillcomp.stats.results import Fields, Floats, Interval, join_notes

_ALONE = 1e-9  # If 1 - leverage is below this, the case is fitted exactly and has no residual.
_LARGEST = 1_000_000  # A matrix of intercepts has at most this number of elements.
# Without intercepts, a standard error is 1 % too small at this mean number of rows per level.
_MANY_ROWS = 50


class StandardisedGap(NamedTuple):
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
    arms: Sequence[Arm] = (),
    ci_level: float = 0.95,
    interval: IntervalRule = "adaptive",
) -> StandardisedGap:
    """Estimate the means of two groups and their gap; a level has the same weight in both groups.

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
    arms : sequence of Arm, optional
        As in :func:`skillcomp.stats.bounded.bounded_mean`: the rates behind the values.
    ci_level : float, default 0.95
        Confidence level.
    interval : {"adaptive", "bounded", "t"}, default "adaptive"
        As in :func:`skillcomp.stats.bounded.bounded_mean`.

    Returns
    -------
    StandardisedGap
        Intervals of bounded means. The p-values test a value of 0 by inverting the intervals.

    Raises
    ------
    ValueError
        If a label is missing, or a level has cases of only one group.

    Notes
    -----
    The weight of a level with ``a`` cases of the first group and ``b`` cases of the second is
    proportional to ``a b / (a + b)``. The gap is thus the least-squares coefficient of the group in
    a model with a dummy for each level. It is a weighted mean of the gaps within levels. These need
    not be equal.

    The mean of a group is the weighted bounded mean of its cases. The gap is the result of
    :func:`bounded_slope` with the group as the column.

    Examples
    --------
    >>> means = standardised_gap(
    ...     [0.0, 0.5, 0.5, 1.0, 0.0, 0.2], [0, 0, 1, 1, 0, 1], list("uuuuvv"), range(6))
    >>> round(means.gap.estimate, 3)  # weights 1 and 1/2: (1 x 0.5 + 1/2 x 0.2) / (3/2)
    0.4
    """
    x, group = np.asarray(values, float), np.asarray(second, bool)
    level, label = (cluster_codes(codes)[0] for codes in (levels, clusters))
    # a case counts as much as the share of the other group in its level, for example b / (a + b)
    n_first, n_second = (np.bincount(level, side)[level] for side in (~group, group))
    weight = np.where(group, n_first, n_second) / (n_first + n_second)
    how: Fields = {"quantity": quantity, "ci_level": ci_level, "interval": interval}
    samples = [
        Sample(x[side], label[side], weight[side], [arm.rows(side) for arm in arms])
        for side in (~group, group)
    ]
    first, other = bounded_means(samples, null=0.0, **how)
    gap = bounded_slope(x, group[:, None], level, label, arms=arms, **how)
    return StandardisedGap(first, other, gap)


def bounded_slope(
    values: ArrayLike,
    columns: Floats,
    levels: ArrayLike,
    clusters: ArrayLike,
    *,
    quantity: Quantity = RATES,
    arms: Sequence[Arm] = (),
    units: ArrayLike | None = None,
    ci_level: float = 0.95,
    interval: IntervalRule = "adaptive",
) -> Interval:
    """Estimate the slope of bounded values on a column, adjusted for levels and other columns.

    Parameters
    ----------
    values : array_like of float, shape (n,)
        Value of each row, inside the bounds of the quantity; none may be missing.
    columns : ndarray, shape (n, p)
        First the column of interest, then the columns to adjust for. They must be linearly
        independent of each other and of the levels.
    levels, clusters : array_like, shape (n,)
        Level and cluster of each row. Each level has its own intercept.
    quantity : Quantity, default RATES
        Bounds of the values and weight of the pseudo-case.
    arms : sequence of Arm, optional
        As in :func:`skillcomp.stats.bounded.bounded_mean`: the rates behind the values.
    units : array_like, shape (n,), optional
        The check to which each row belongs, if values are 0 or 1. Rows of one case with the same
        check count as attempts. Give ``units`` or ``arms``, not both. If both are omitted, the
        adaptive rule places the pseudo-case at the bound.
    ci_level, interval
        As in :func:`skillcomp.stats.bounded.bounded_mean`.

    Returns
    -------
    Interval
        Least-squares coefficient of the first column. ``p_value`` tests 0.

    Notes
    -----
    The slope is ``sum b x``: the sum over rows of the value x times a coefficient b, where the b
    add up to 0. The slope is therefore B times D. B is half the sum of ``|b|``. D is a difference:
    the weighted mean of the rows with positive b minus that of the rows with negative b. (If the
    column distinguishes two groups, B is 1.) The interval is that of one bounded mean over all
    rows, multiplied by B. In this mean, each row has the weight ``|b|`` and the value
    ``D + 2 s r / sqrt(1 - h)``. Here s is the sign of b; r and h are the residual and the leverage
    of the row in the linear model. Differences between levels thus do not count as uncertainty, and
    a level may have a single row of a group.

    For differences, the pseudo-case is at the bound of the gap, and as large as the largest
    cluster, because all the variation may be in the group that is measured less precisely. For
    rates, its distance from D is computed from the largest possible change of the rows. If a group
    has the mean m in a level, a row there can rise from m to 1, which changes its value in the mean
    by up to 2 (1 - m). Such changes are added up for the rows of a case in one level, and averaged
    over cases and levels. (The bound of D would be too near: if no row passes, it is only half as
    far from D as the pseudo-case. With 40 rows in each group and no pass, the limits would be
    +-.039, although those of one group alone are 0 and .076.) The limits of D are clipped to its
    bounds.

    The adaptive rule computes how mixed the outcomes are, and the mean of each arm, separately for
    rows with positive and with negative b. Over these two sets, it adds up the distances of the
    pseudo-cases and the variances of independent attempts. With ``"t"`` the interval is that of
    :func:`skillcomp.stats.clusters_and_amounts.cr2`.
    """
    x, columns = np.asarray(values, float), np.asarray(columns, float)
    level, n_levels = cluster_codes(levels)
    label, n_clusters = cluster_codes(clusters)
    size = np.bincount(level, minlength=n_levels).astype(float)

    def centred(values: Floats) -> Floats:
        return np.asarray(values - (np.bincount(level, weights=values) / size)[level])

    x0, design = centred(x), np.column_stack([centred(column) for column in columns.T])
    if interval == "t":
        # A larger matrix of intercepts needs too much memory. Without it, the standard error is too
        # small, by the factor sqrt(1 - 1/m) if a level has m rows and each row is a cluster.
        few = len(x) * n_levels <= _LARGEST
        dummies = np.eye(n_levels)[level] if few else np.empty((len(x), 0))
        slope = cr2(x0, np.hstack([design, dummies]), label, ci_level=ci_level)[0]
        if few or len(x) >= _MANY_ROWS * n_levels:
            return slope
        why = f"interval='t' takes no {n_levels:,} levels of few rows; use another interval"
        unknown: Any = dict.fromkeys(("low", "high", "se", "df", "p_value"), np.nan)
        return replace(slope, **unknown, note=join_notes(slope.note, why))
    # Reverse the design, so that the column of interest is its last column. The last vector of the
    # basis is then proportional to the residual of this column given the other columns.
    basis = np.linalg.qr(design[:, ::-1])[0]
    effect = basis[:, -1] / (basis[:, -1] @ design[:, 0])
    left = 1.0 - 1.0 / size[level] - (basis**2).sum(1)
    rest = x0 - basis @ (basis.T @ x0)
    rest = np.where(left > _ALONE, rest / np.sqrt(np.maximum(left, _ALONE)), 0.0)
    share = np.abs(effect)
    used = share > _ALONE * share.max()
    reach = 0.5 * float(share[used].sum())
    weight, sign = share[used] / (2.0 * reach), np.sign(effect[used])
    spread = 2.0 * sign * rest[used]
    spread -= weight @ spread
    below, above = (np.average(x[used][at], weights=weight[at]) for at in (sign < 0, sign > 0))
    value = above - below + spread
    unit = None if units is None else cluster_codes(units)[0][used]
    rows = _Rows(x[used], label[used], level[used], weight, sign, unit)
    adaptive = interval == "adaptive" and (bool(arms) or units is not None)
    places = rows.positions([arm.rows(used) for arm in arms] if adaptive else None, value, quantity)
    span = quantity.high - quantity.low
    wide = max(span, float(-places.low[0]), float(places.high[0]))
    gap = Quantity(-wide, wide, quantity.c, largest=quantity.low < 0)
    sample = Sample(value, label[used], weight, places=places)
    slope = bounded_means(
        [sample],
        interval="adaptive" if adaptive else "bounded",
        quantity=gap,
        null=0.0,
        ci_level=ci_level,
        recentred=True,
    )[0]
    low, high = max(slope.low, -span), min(slope.high, span)
    return replace(slope, low=low, high=high, n=float(len(x)), n_clusters=float(n_clusters)).times(
        reach
    )


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows from which a slope is computed, with the sign of the coefficient of each row.

    ``unit`` holds the check of each row, or is None.
    """

    x: Floats
    label: NDArray[Any]
    level: NDArray[Any]
    weight: Floats
    sign: Floats
    unit: NDArray[Any] | None

    def positions(self, arms: Sequence[Arm] | None, value: Floats, quantity: Quantity) -> Positions:
        """Return the positions of the pseudo-cases; without arms, those of ``"bounded"``."""
        mean, span = float(self.weight @ value), quantity.high - quantity.low
        are_rates = quantity.low == 0.0
        down, up = self._pseudo_case_moves() if are_rates else (span + mean, span - mean)
        bounds = mean - down, mean + up
        if arms is None:
            return Positions.at_bounds(replace(quantity, low=bounds[0], high=bounds[1]), 1)
        sides = [self._terms_of_sign(way, arms) for way in (-1.0, 1.0)]
        terms = sides[0].plus(sides[1])
        if are_rates:
            moves = self._pseudo_case_moves([float((side.down + side.up)[0]) for side in sides])
            terms = ContrastTerms(terms.noise, *moves)
        groups = Clusters.of(self.label, len(self.label))
        sizes = groups.totals(self.weight)
        values = groups.totals(self.weight * value) / sizes
        return placed_cases(terms, values[None], sizes[None], bounds)

    def _pseudo_case_moves(self, shares: Sequence[float] = (1.0, 1.0)) -> tuple[float, float]:
        """Return the distances of the lower and upper pseudo-case from a difference of two rates.

        ``shares`` has two entries: one for rows with a negative sign, one for rows with a positive
        sign. An entry is the largest assumed change of such a row's value, as a share of the
        distance between the value and the bound.
        """
        above = self.sign > 0
        cell = 2 * self.level + above
        size = np.bincount(cell, self.weight)
        means = (np.bincount(cell, self.weight * self.x) / np.where(size > 0, size, 1.0))[cell]
        rise = np.where(above, 1.0 - means, means)
        label = _joint_codes(self.label, self.level)
        parts, clusters = (Clusters.of(codes, len(codes)) for codes in (label, self.label))
        heavy = self.weight * np.where(above, shares[1], shares[0])
        largest = _typical_size(clusters.totals(self.weight))
        moves = [_typical_size(2.0 * parts.totals(heavy * r)) / largest for r in (1.0 - rise, rise)]
        return moves[0], moves[1]

    def _terms_of_sign(self, way: float, arms: Sequence[Arm]) -> ContrastTerms:
        """Return the `ContrastTerms` of rows of one sign; a case within a level is a cluster."""
        at = self.sign == way
        label, weight = _joint_codes(self.label, self.level)[at], self.weight[at]
        arms = [arm.rows(at) for arm in arms]
        if self.unit is not None:
            checks = Clusters.of(_joint_codes(label, self.unit[at]), len(label))
            sizes = checks.totals(weight)
            rates = checks.totals(weight * self.x[at]) / sizes
            label, weight = label[checks.order][checks.starts], sizes
            # rates are shares of checks if a case has several checks, otherwise shares of attempts
            several = len(np.unique(label)) < len(label)
            arms = [Arm(rates, checks=np.ones(len(sizes))) if several else Arm(rates, checks.sizes)]
        signed = [replace(arm, sign=way * arm.sign) for arm in arms]
        return clustered_terms(signed, Clusters.of(label, len(label)), weight)


def _typical_size(sizes: Floats) -> float:
    """Return the mean of sizes, weighted by their squares; 0 if all are 0."""
    square = float((sizes**2).sum())
    return float((sizes**3).sum()) / square if square else 0.0


def _joint_codes(first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(first * (int(second.max(initial=0)) + 1) + second)
