"""Two groups of cases compared within levels, such as near and far within a rubric dimension.

The estimate of each group is a fixed weighted mean of its cases, with the same weights of the
levels in both groups, and the gap is their difference. Nothing is as large as levels x levels per
cluster: the level means are taken out instead of fitted as dummies.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.optimize import brentq
from scipy.stats import t as student_t

from skillcomp.stats.moments import ZERO_VARIANCE, attempt_ceiling, cluster_codes
from skillcomp.stats.pairs import Sides
from skillcomp.stats.results import Interval, check_level
from skillcomp.stats.score import quantile, reduced_phi

__all__ = ["Arm", "Compared", "WithinLevels"]

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

_TINY_P = 1e-15  # below, a p-value is reported as this
_NO_RESIDUAL = 1e-10  # share of a direction that the model leaves over: below is rounding


@dataclass(frozen=True, slots=True)
class Compared:
    """Both groups and the difference of them.

    Attributes
    ----------
    first, second, gap : Interval
        Weighted mean of each group, and second minus first.
    """

    first: Interval
    second: Interval
    gap: Interval


@dataclass(frozen=True, slots=True)
class Arm:
    """Rates of all cases under one condition.

    Attributes
    ----------
    rates : ndarray of float, shape (n,)
        Between 0 and 1.
    attempts : ndarray of float, shape (n,), or None
        How many attempts stand behind each rate; None counts each case once.
    """

    rates: Floats
    attempts: Floats | None = None


@dataclass(frozen=True, slots=True)
class _Weighted:
    """A weighted mean: weights of the cases, their CR2 adjustment, and degrees of freedom."""

    weights: Floats
    adjusted: Floats
    df: float


class WithinLevels:
    """The design: which group, level and cluster each case belongs to.

    Parameters
    ----------
    second : array_like of bool, shape (n,)
        Whether the case is of the second group (far) or the first (near).
    levels : array_like, shape (n,)
        Level of each case; each level must hold cases of both groups.
    clusters : array_like, shape (n,)
        Cluster of each case.

    Raises
    ------
    ValueError
        When the lengths differ, a label is missing, or a level has one group only.

    Notes
    -----
    The weight of a level with ``a`` cases of the first and ``b`` of the second group is
    proportional to ``a b / (a + b)``, what its cases can say about a gap; the gap is then the
    least-squares coefficient beside a dummy for each level. It is an average of the gaps of the
    levels and does not assume that they are equal. The variance is CR2 with the residuals of that
    model: unbiased where the levels' gaps are equal, and on the long side where they are not. It
    exists for levels with one case of a group, which have no spread of their own.

    References
    ----------
    Pustejovsky and Tipton 2018, doi:10.1080/07350015.2016.1247004.

    Examples
    --------
    >>> design = WithinLevels([0, 0, 1, 1, 0, 1], list("uuuuvv"), range(6))
    >>> found = design.by_t([0.0, 0.5, 0.5, 1.0, 0.0, 0.2])
    >>> round(found.gap.estimate, 3)  # weights 1 and 1/2: (1 x 0.5 + 1/2 x 0.2) / (3/2)
    0.4
    """

    def __init__(self, second: ArrayLike, levels: ArrayLike, clusters: ArrayLike) -> None:
        group = np.asarray(second, dtype=float)
        self._level, n_levels = cluster_codes(levels)
        self._cluster, self.n_clusters = cluster_codes(clusters)
        if not len(group) == len(self._level) == len(self._cluster):
            raise ValueError(
                "second, levels and clusters must have one entry per case, found "
                f"{len(group)}, {len(self._level)} and {len(self._cluster)}."
            )
        self._size = np.bincount(self._level, minlength=n_levels).astype(float)
        counts = [np.bincount(self._level, weights=w, minlength=n_levels) for w in _sides(group)]
        if not n_levels or min(count.min() for count in counts) == 0:
            raise ValueError("every level must have cases of both groups.")
        share = counts[0] * counts[1] / self._size
        share /= share.sum()
        self.n, self._group = len(group), group
        self._centred = group - (counts[1] / self._size)[self._level]
        self._square = float(self._centred @ self._centred)
        weights = [
            side * (share / count)[self._level]
            for side, count in zip(_sides(group), counts, strict=True)
        ]
        self._blocks = list(self._factored())
        self._first, self._second = (self._weighted(w) for w in weights)
        self._gap = self._weighted(weights[1] - weights[0])

    @property
    def weights(self) -> tuple[Floats, Floats]:
        """Weight of each case in the mean of the first and of the second group."""
        return self._first.weights, self._second.weights

    def _residuals(self, values: Floats) -> Floats:
        means = np.bincount(self._level, weights=values) / self._size
        centred = values - means[self._level]
        rest: Floats = centred - self._centred * (self._centred @ values) / self._square
        return rest

    def _block(self, members: Ints) -> Floats:
        """Residual maker of some clusters of equal size, shape (clusters, size, size)."""
        level, x = self._level[members], self._centred[members]
        same = level[:, :, None] == level[:, None, :]
        fitted = same / self._size[level][:, :, None] + x[:, :, None] * x[:, None, :] / self._square
        block: Floats = np.eye(members.shape[1]) - fitted
        return block

    def _factored(self) -> Iterator[tuple[Ints, Floats, Floats]]:
        """Yield members, eigenvalues and eigenvectors of the blocks, by size of cluster."""
        order = np.argsort(self._cluster, kind="stable")
        sizes = np.bincount(self._cluster)
        starts = np.cumsum(sizes) - sizes
        for size in np.unique(sizes):
            members = order[starts[sizes == size][:, None] + np.arange(size)]
            block = self._block(members)
            if size == 1:  # thousands of 1 x 1 decompositions would take seconds
                yield members, block[:, :, 0], np.ones_like(block)
            else:
                yield members, *np.linalg.eigh(block)

    def _weighted(self, weights: Floats) -> _Weighted:
        adjusted, kept = np.zeros(self.n), 0.0
        for members, values, vectors in self._blocks:
            along = np.einsum("gij,gi->gj", vectors, weights[members])
            has = values > _NO_RESIDUAL
            kept += float((along**2 * has).sum())
            root = np.where(has, np.maximum(values, _NO_RESIDUAL) ** -0.5, 0.0)
            adjusted[members] = np.einsum("gij,gj->gi", vectors, root * along)
        # a cluster that is a level of its own leaves directions without residual; the others
        # then stand for them, as they would with equal variances
        if kept > 0:
            adjusted *= math.sqrt(float(weights @ weights) / kept)
        return _Weighted(weights, adjusted, self._df(adjusted))

    def _df(self, adjusted: Floats) -> float:
        """Satterthwaite df: 2 E(V)^2 / Var(V) with independent rows of equal variance."""
        rows = np.concatenate([self._cluster, self._cluster])
        columns = np.concatenate([self._level, np.full(self.n, len(self._size))])
        fitted = [
            adjusted / np.sqrt(self._size)[self._level],
            adjusted * self._centred / math.sqrt(self._square),
        ]
        shape = (self.n_clusters, len(self._size) + 1)
        parts = sparse.csr_array((np.concatenate(fitted), (rows, columns)), shape=shape)
        lost = np.asarray(parts.multiply(parts).sum(axis=1)).ravel()
        own = np.bincount(self._cluster, weights=adjusted**2, minlength=self.n_clusters) - lost
        crossed = float(((parts.T @ parts).power(2)).sum())
        square = float((own**2).sum() + crossed - (lost**2).sum())
        return float(own.sum() ** 2 / square) if square > 0 else math.nan

    def _covariance(self, mean: _Weighted, left: Floats, right: Floats) -> float:
        sums = [np.bincount(self._cluster, weights=mean.adjusted * v) for v in (left, right)]
        return float(sums[0] @ sums[1])

    def by_t(self, values: ArrayLike, *, ci_level: float = 0.95) -> Compared:
        """Compare the groups by CR2 standard errors and Satterthwaite t.

        Parameters
        ----------
        values : array_like of float, shape (n,)
            One finite value per case, such as its delta.
        ci_level : float, default 0.95
            Confidence level.

        Returns
        -------
        Compared
            Limits and p-value NaN with a note where the standard error is 0 or undefined.
        """
        check_level(ci_level)
        numbers = np.asarray(values, dtype=float)
        residuals = self._residuals(numbers)
        return Compared(
            *(
                self._t(mean, numbers, residuals, ci_level)
                for mean in (self._first, self._second, self._gap)
            )
        )

    def _t(self, mean: _Weighted, values: Floats, residuals: Floats, ci_level: float) -> Interval:
        estimate = float(mean.weights @ values)
        variance = self._covariance(mean, residuals, residuals)
        n, n_clusters = self._sizes(mean)
        label = "CR2 with Satterthwaite t"
        if not (variance > ZERO_VARIANCE and mean.df > 0):
            note = "no variation between clusters: no standard error"
            return Interval(
                estimate, math.nan, math.nan, ci_level, label, note, n=n, n_clusters=n_clusters
            )
        se = math.sqrt(variance)
        reach = quantile(ci_level, mean.df) * se
        return Interval(
            estimate,
            estimate - reach,
            estimate + reach,
            ci_level,
            label,
            n=n,
            n_clusters=n_clusters,
            se=se,
            df=mean.df,
            p_value=float(2 * student_t.sf(abs(estimate) / se, mean.df)),
        )

    def _sizes(self, mean: _Weighted) -> tuple[float, float]:
        inside = mean.weights != 0
        return float(inside.sum()), float(len(np.unique(self._cluster[inside])))

    def by_score(self, one: Arm, other: Arm, *, ci_level: float = 0.95) -> Compared:
        """Compare the groups' differences of two rates by score intervals put together (MOVER).

        Parameters
        ----------
        one, other : Arm
            Rates of the cases with the skill and in the baseline.
        ci_level : float, default 0.95
            Confidence level.

        Returns
        -------
        Compared
            Of each group: weighted mean of the difference with Newcombe's interval on the
            effective number of cases, limits inside [-1, 1]; of the gap: Zou and Donner's limits.
            p-values invert the same intervals. Never of zero width.

        Notes
        -----
        The effective number is ``p (1 - p) / V`` with the CR2 variance of the weighted rate,
        between Kish's ``1 / sum(w^2)`` of the clusters and that of the attempts. The groups are
        taken as independent: a cluster with members in both is not credited for their likeness.

        References
        ----------
        Kish 1965, Survey Sampling; Newcombe 1998, Statistics in Medicine 17:2635; Zou and Donner
        2008, doi:10.1002/sim.3095.
        """
        check_level(ci_level)
        means = (self._first, self._second)
        sides = [self._score(mean, one, other) for mean in means]
        first, second = (
            self._score_interval(mean, side, ci_level)
            for mean, side in zip(means, sides, strict=True)
        )
        gap = second.estimate - first.estimate
        reach = _mover(means, sides, 1 - ci_level)
        n, n_clusters = self._sizes(self._gap)
        method = f"MOVER of score intervals with t of {first.df:.1f} and {second.df:.1f} df"
        both = Interval(
            gap,
            gap - reach[0],
            gap + reach[1],
            ci_level,
            method,
            n=n,
            n_clusters=n_clusters,
            p_value=_mover_p(means, sides, gap),
        )
        return Compared(first, second, both)

    def _score(self, mean: _Weighted, one: Arm, other: Arm) -> Sides:
        rates = [float(np.clip(mean.weights @ arm.rates, 0.0, 1.0)) for arm in (one, other)]
        residuals = [self._residuals(arm.rates) for arm in (one, other)]
        variances = [self._covariance(mean, r, r) for r in residuals]
        units = [
            self._units(mean, arm, rate, variance)
            for arm, rate, variance in zip((one, other), rates, variances, strict=True)
        ]
        phi = 0.0
        if min(variances) > ZERO_VARIANCE:  # a quotient of rounding is no correlation
            phi = self._covariance(mean, *residuals) / math.sqrt(variances[0] * variances[1])
        rate1, rate0, n1, n0 = (np.asarray(v) for v in (*rates, *units))
        return Sides(rate1, n1, rate0, n0, reduced_phi(phi, rate1, rate0, np.sqrt(n1 * n0)))

    def _units(self, mean: _Weighted, arm: Arm, rate: float, variance: float) -> float:
        """Effective number of cases of a weighted rate."""
        inside = mean.weights > 0
        weights = mean.weights[inside]
        floor = 1.0 / float((np.bincount(self._cluster, weights=mean.weights) ** 2).sum())
        ceiling = 1.0 / float(weights @ weights)
        if arm.attempts is not None:
            tries = arm.attempts[inside]
            copies = float(attempt_ceiling(arm.rates[inside] * tries, tries)) / tries.sum()
            ceiling = copies / float((weights**2 / tries).sum())
        spread = rate * (1 - rate)
        if spread <= 0:
            return floor
        raw = spread / variance if variance > ZERO_VARIANCE else math.inf
        return float(np.clip(raw, floor, max(floor, ceiling)))

    def _score_interval(self, mean: _Weighted, side: Sides, ci_level: float) -> Interval:
        low, high = side.interval(quantile(ci_level, mean.df))
        n, n_clusters = self._sizes(mean)
        return Interval(
            float(side.rate1 - side.rate0),
            float(low),
            float(high),
            ci_level,
            f"Newcombe 10 on effective n {float(side.n1):.1f} and {float(side.n0):.1f}, "
            f"t with {mean.df:.1f} df",
            n=n,
            n_clusters=n_clusters,
            df=mean.df,
            p_value=float(side.p_value(mean.df)),
        )


def _sides(second: Floats) -> tuple[Floats, Floats]:
    return 1.0 - second, second


def _mover(means: Any, sides: list[Sides], alpha: float) -> tuple[float, float]:
    """Return how far the limits of second minus first lie below and above the estimate."""
    limits = [
        side.interval(quantile(1 - alpha, mean.df)) for mean, side in zip(means, sides, strict=True)
    ]
    centre = [float(side.rate1 - side.rate0) for side in sides]
    below = [c - float(low) for c, (low, _) in zip(centre, limits, strict=True)]
    above = [float(high) - c for c, (_, high) in zip(centre, limits, strict=True)]
    return math.hypot(below[1], above[0]), math.hypot(above[1], below[0])


def _mover_p(means: Any, sides: list[Sides], gap: float) -> float:
    """Invert the limits: the level at which one of them is zero."""
    which = 0 if gap > 0 else 1
    ends = math.log(_TINY_P), -1e-12

    def over(log_alpha: float) -> float:
        return abs(gap) - _mover(means, sides, math.exp(log_alpha))[which]

    if over(ends[1]) <= 0:  # a gap of rounding
        return 1.0
    return _TINY_P if over(ends[0]) >= 0 else math.exp(float(brentq(over, *ends, xtol=1e-10)))
