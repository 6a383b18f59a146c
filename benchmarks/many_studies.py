"""Bounded means of many studies over the same cases, for simulations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skillcomp.stats.bounded import (
    RATES,
    Arm,
    CaseCounts,
    Positions,
    Quantity,
    check_null,
    clip_to_bounds,
    cluster_positions,
    relative_weights,
    solved_limits,
)
from skillcomp.stats.bounded_studies import BoundedMeans
from skillcomp.stats.clusters import Clusters


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
