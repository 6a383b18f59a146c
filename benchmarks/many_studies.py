"""Bounded means of many studies at once, for simulations and scans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skillcomp.stats.bounded import (
    RATES,
    Arm,
    CaseCounts,
    Floats,
    Positions,
    Quantity,
    check_null,
    clip_to_bounds,
    cluster_positions,
    contrast_terms,
    placed_cases,
    relative_weights,
    solved_limits,
)
from skillcomp.stats.clusters_and_amounts import Clusters


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


def bounded_mean_many(
    values: ArrayLike,
    clusters: Any = None,
    *,
    weights: ArrayLike | None = None,
    arms: Sequence[Arm] = (),
    quantity: Quantity = RATES,
    null: float | None = None,
    ci_level: float = 0.95,
) -> BoundedMeans:
    """Estimate the means of many studies over the same cases.

    Each result is that of :func:`skillcomp.stats.bounded.bounded_mean`.

    Parameters
    ----------
    values : array_like of float, shape (S, n)
        One row per study and one column per case; no value may be missing.
    clusters : array_like, shape (n,), optional
        Cluster of each case, the same in every study.
    weights : array_like of float, shape (n,), optional
        Weight of each case, the same in every study; equal if omitted.
    arms : sequence of Arm, optional
        As in :func:`skillcomp.stats.bounded.bounded_mean`, with rates of the shape (S, n).
    quantity, null, ci_level
        As in :func:`skillcomp.stats.bounded.bounded_mean`.

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
    check_null(null, quantity, ci_level)
    samples, back = counted_studies(values, clusters, weights=weights, arms=arms, quantity=quantity)
    solved = solved_limits(samples, quantity, null, ci_level)[:, back]
    heavy = None if weights is None else np.asarray(weights, dtype=np.float64)
    estimate = np.average(np.asarray(values, dtype=np.float64), axis=1, weights=heavy)
    return BoundedMeans.around(estimate, solved, ci_level)


def counted_studies(
    values: ArrayLike,
    clusters: Any = None,
    *,
    weights: ArrayLike | None = None,
    arms: Sequence[Arm] = (),
    quantity: Quantity = RATES,
) -> tuple[CaseCounts, NDArray[np.intp]]:
    """Return distinct studies for ``sides_of_null``, and which of them each study is.

    The parameters are those of :func:`bounded_mean_many`.
    """
    matrix = np.asarray(values, dtype=np.float64)
    if matrix.ndim != 2 or not matrix.size:
        raise ValueError(f"values must be studies by cases, found shape {matrix.shape}.")
    clip_to_bounds(matrix, quantity)
    groups = Clusters.of(clusters, matrix.shape[1])
    heavy = relative_weights(weights, matrix[0])
    sizes = np.broadcast_to(groups.totals(heavy), (len(matrix), groups.count))
    means = np.clip(groups.totals(matrix * heavy) / sizes, quantity.low, quantity.high)
    places = Positions.at_bounds(quantity, len(matrix))
    if arms:
        places = cluster_positions(arms, means, groups, quantity, heavy)
    ends = places.low, places.high, places.reach
    return _compact_samples(CaseCounts(means, sizes, np.ones(means.shape), *ends))


def _compact_samples(samples: CaseCounts) -> tuple[CaseCounts, NDArray[np.intp]]:
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
    ends = np.column_stack([samples.start, samples.end, samples.reach])
    both = np.hstack([count, ends.round(12)])
    _, first, back = np.unique(both, axis=0, return_index=True, return_inverse=True)
    value_of, weight_of = (np.tile(column, (len(first), 1)) for column in distinct.T)
    counts = count[first].astype(np.float64)
    places = samples.start[first], samples.end[first], samples.reach[first]
    return CaseCounts(value_of, weight_of, counts, *places), back.ravel()


def bounded_mean_counts(
    values: ArrayLike,
    counts: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    arms: Sequence[Arm] = (),
    quantity: Quantity = RATES,
    null: float | None = None,
    ci_level: float = 0.95,
) -> BoundedMeans:
    """Estimate the means of many studies from counts of values.

    Each result is that of :func:`skillcomp.stats.bounded.bounded_mean`.

    Parameters
    ----------
    values : array_like of float, shape (m,) or (S, m)
        Possible values of a case, the same for all studies or one row per study.
    counts : array_like of int, shape (S, m)
        Number of cases with each value in each study; at least one case per study.
    weights : array_like of float, shape (m,), optional
        Weight of a case with each value; equal if omitted.
    arms : sequence of Arm, optional
        As in :func:`skillcomp.stats.bounded.bounded_mean`: the rates behind each value, of the
        shape (m,) or (S, m).
    quantity, null, ci_level
        As in :func:`skillcomp.stats.bounded.bounded_means`.

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
    The first study has one fail and three passes, the second one four fails.

    >>> bounded_mean_counts([0, 1], [[1, 3], [4, 0]]).high.round(3)
    array([0.993, 0.554])
    """
    check_null(null, quantity, ci_level)
    count = np.asarray(counts, dtype=np.float64)
    if count.ndim != 2 or not count.size:
        raise ValueError(f"counts must be studies by values, found shape {count.shape}.")
    if not (np.isfinite(count) & (count >= 0)).all() or not count.any(axis=1).all():
        raise ValueError("counts must not be negative, with at least one case in every study.")
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.shape not in (count.shape, count.shape[1:]):
        raise ValueError(f"values: found shape {numbers.shape}; there are {count.shape} counts.")
    value = np.broadcast_to(clip_to_bounds(numbers, quantity), count.shape)
    heavy = relative_weights(weights, np.zeros(count.shape[1]))
    sides = [(arm.rates, arm.attempts, arm.checks, arm.mixed) for arm in arms]
    both = np.hstack(
        [count, value, *(part for side in sides for part in side if np.ndim(part) > 1)]
    )
    _, first, back = np.unique(both, axis=0, return_index=True, return_inverse=True)
    size = np.tile(heavy, (len(first), 1))
    places = Positions.at_bounds(quantity, len(first))
    if arms:
        parts = [[np.asarray(p)[first] if np.ndim(p) > 1 else p for p in side] for side in sides]
        distinct = [
            Arm(rates, attempts, arm.sign, checks, mixed)
            for arm, (rates, attempts, checks, mixed) in zip(arms, parts, strict=True)
        ]
        bounds = quantity.low, quantity.high
        places = adaptive_positions(distinct, value[first], size, bounds, count=count[first])
    ends = places.low, places.high, places.reach
    samples = CaseCounts(value[first], size, count[first], *ends)
    solved = solved_limits(samples, quantity, null, ci_level)[:, back.ravel()]
    return BoundedMeans.around((count * value) @ heavy / (count @ heavy), solved, ci_level)


def adaptive_positions(
    arms: Sequence[Arm],
    value: Floats,
    size: Floats,
    bounds: tuple[float, float],
    *,
    count: Floats | float = 1.0,
) -> Positions:
    """Return the positions of the pseudo-cases under the adaptive rule.

    Parameters
    ----------
    arms : sequence of Arm
        Arms with one entry per cluster: the mean rate of its cases, and the total number of their
        attempts or checks. Arrays have the shape (S, m) or (m,), for S studies of m clusters.
    value, size : ndarray, shape (S, m)
        Value and size of each cluster.
    bounds : tuple of float
        Smallest and largest possible value.
    count : ndarray, shape (S, m), default 1
        Number of clusters in each entry.
    """
    share = size / (count * size).sum(-1, keepdims=True)
    terms = contrast_terms(arms, share, count=count)
    return placed_cases(terms, value, share, bounds, count=count)
