"""Two groups of cases compared within levels, such as far and near within a rubric dimension."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skillcomp.stats.bounded import DELTAS, Quantity, bounded_means
from skillcomp.stats.clusters import cluster_codes
from skillcomp.stats.results import Interval

__all__ = ["StandardisedGap", "standardised_gap"]

Floats = NDArray[np.float64]

_ALONE = 1e-9  # a case whose residual has less than this left is fitted exactly


@dataclass(frozen=True, slots=True)
class StandardisedGap:
    """Both groups and the difference of them.

    Attributes
    ----------
    first, second, gap : Interval
        Weighted mean of each group, and second minus first.
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
    """Mean of each of two groups of cases, and their difference, with the same mix of levels.

    Parameters
    ----------
    values : array_like of float, shape (n,)
        One value per case, inside the bounds of the quantity; none may be missing.
    second : array_like of bool, shape (n,)
        Whether the case is of the second group (far) or the first (near).
    levels : array_like, shape (n,)
        Level of each case; each level must hold cases of both groups.
    clusters : array_like, shape (n,)
        Cluster of each case; a cluster may have cases in both groups.
    quantity : Quantity, default DELTAS
        Bounds of the values and weight of the pseudo-case.
    ci_level : float, default 0.95
        Confidence level.

    Returns
    -------
    StandardisedGap
        Intervals of bounded means, the p-values of 0 by inverting them.

    Raises
    ------
    ValueError
        When the lengths differ, a label is missing, or a level has one group only.

    Notes
    -----
    The weight of a level with ``a`` cases of the first and ``b`` of the second group is
    proportional to ``a b / (a + b)``, what its cases can say about a gap; the gap is then the
    least-squares coefficient beside a dummy for each level. It averages the gaps of the levels
    and does not assume that they are equal.

    Each group: the weighted bounded mean of its cases. The gap: one bounded mean over all cases
    of both groups, each with half its weight and the value ``gap + 2 s r / sqrt(1 - h)`` (s = 1
    in the second group, -1 in the first; r and h residual and leverage in the model of levels
    and a common gap), with one pseudo-case at the bound, as large as the largest case or cluster.
    Differences between levels therefore do not count as uncertainty, a level with a single case
    of a group has an interval, and no level pays for a pseudo-case of its own. In 120 simulated
    designs (2 to 8 levels of 1 to 6 cases) it covered at least 95.5 %, a t interval (CR2) down to
    20 %.

    Examples
    --------
    >>> found = standardised_gap(
    ...     [0.0, 0.5, 0.5, 1.0, 0.0, 0.2], [0, 0, 1, 1, 0, 1], list("uuuuvv"), range(6))
    >>> round(found.gap.estimate, 3)  # weights 1 and 1/2: (1 x 0.5 + 1/2 x 0.2) / (3/2)
    0.4
    """
    x, group = np.asarray(values, dtype=float), np.asarray(second, dtype=float)
    level, n_levels = cluster_codes(levels)
    label, _ = cluster_codes(clusters)
    if not len(x) == len(group) == len(level) == len(label):
        raise ValueError(
            "values, second, levels and clusters must have one entry per case, found "
            f"{len(x)}, {len(group)}, {len(level)} and {len(label)}."
        )
    counts = [np.bincount(level, weights=w, minlength=n_levels) for w in (1 - group, group)]
    if not n_levels or min(count.min() for count in counts) == 0:
        raise ValueError("every level must have cases of both groups.")
    size: Floats = np.bincount(level, minlength=n_levels).astype(np.float64)
    share = counts[0] * counts[1] / size
    share /= share.sum()
    weight = np.where(group > 0, (share / counts[1])[level], (share / counts[0])[level])
    sign = 2.0 * group - 1.0
    estimate = float((sign * weight) @ x)
    spread = sign * 2.0 * _residuals(x, group - (counts[1] / size)[level], level, size)
    spread -= weight @ spread / weight.sum()
    near, far = group == 0, group > 0
    first, other = bounded_means(
        [(x[kind], label[kind], weight[kind]) for kind in (near, far)],
        quantity=quantity,
        null=0.0,
        ci_level=ci_level,
    )
    range_ = quantity.high - quantity.low
    gap = bounded_means(
        [(estimate + spread, label, 0.5 * weight)],
        quantity=Quantity(-range_, range_, quantity.c, largest=True),
        null=0.0,
        ci_level=ci_level,
        recentred=True,
    )[0]
    return StandardisedGap(first, other, gap)


def _residuals(x: Floats, centred: Floats, level: NDArray[np.intp], size: Floats) -> Floats:
    """Residuals of the model of levels and a common gap over the root of what leverage leaves."""
    square = float(centred @ centred)
    rest = x - (np.bincount(level, weights=x) / size)[level]
    rest = rest - centred * (centred @ x) / square
    left = 1.0 - 1.0 / size[level] - centred**2 / square
    scaled: Floats = np.where(left > _ALONE, rest / np.sqrt(np.maximum(left, _ALONE)), 0.0)
    return scaled
