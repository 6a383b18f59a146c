"""Two arms over the same cases: checked counts, and the moments of one study or of many."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skillcomp.stats.moments import Clusters, effective_n
from skillcomp.stats.results import Interval, undefined
from skillcomp.stats.score import reduced_phi, square_and_add, square_and_add_p

__all__ = [
    "PairedCounts",
    "Sides",
    "dropped_note",
    "effective_sides",
    "paired_counts",
    "without_limits",
]

Floats = NDArray[np.float64]

ONE_CLUSTER = "one cluster of several cases: nothing tells how clusters vary"


@dataclass(frozen=True)
class Sides:
    """What the square-and-add interval needs of one study or of many.

    Attributes
    ----------
    rate1, n1, rate0, n0 : ndarray
        Mean pass rate and effective number of units of the skill arm and of the baseline.
    phi : ndarray
        Correlation of the two means, reduced by Newcombe's correction.
    """

    rate1: Floats
    n1: Floats
    rate0: Floats
    n0: Floats
    phi: Floats

    def interval(self, q: float) -> tuple[Floats, Floats]:
        """Return the limits at quantile ``q``.

        Parameters
        ----------
        q : float
            Quantile of the reference distribution.

        Returns
        -------
        tuple of ndarray
            Lower and upper limit.
        """
        return square_and_add(self.rate1, self.n1, self.rate0, self.n0, self.phi, q)

    def p_value(self, df: float) -> Floats:
        """Return the p-value of "no difference" by inverting the interval.

        Parameters
        ----------
        df : float
            Degrees of freedom of the quantile, infinite for the normal one.

        Returns
        -------
        ndarray
            One p-value per study.
        """
        return square_and_add_p(self.rate1, self.n1, self.rate0, self.n0, self.phi, df)


def effective_sides(
    rates1: Floats, rates0: Floats, clusters: Clusters, ceiling1: Any, ceiling0: Any
) -> Sides:
    """Rates, effective numbers and correlation of two arms over the same cases.

    Parameters
    ----------
    rates1, rates0 : ndarray, shape (..., n)
        Pass rate of each case in the skill arm and in the baseline.
    clusters : Clusters
        The cases by cluster: at least two clusters, or a single case.
    ceiling1, ceiling0 : float or ndarray
        Upper limits of the effective numbers (see :func:`attempt_ceiling`).

    Returns
    -------
    Sides
        One entry per study. A single case counts as one unit in each arm.
    """
    rate1, rate0 = rates1.mean(axis=-1), rates0.mean(axis=-1)
    if clusters.n == 1:
        one = np.ones_like(rate1)
        return Sides(rate1, one, rate0, one, 0.0 * one)
    totals1 = clusters.totals(rates1 - rate1[..., None])
    totals0 = clusters.totals(rates0 - rate0[..., None])
    variance1 = clusters.covariance(totals1, totals1)
    variance0 = clusters.covariance(totals0, totals0)
    n1 = effective_n(rate1, variance1, clusters, ceiling1)
    n0 = effective_n(rate0, variance0, clusters, ceiling0)
    scale = np.sqrt(variance1 * variance0)
    varies = scale > 0
    phi = clusters.covariance(totals1, totals0) / np.where(varies, scale, 1.0)
    phi = np.where(varies, phi, 0.0)
    return Sides(rate1, n1, rate0, n0, reduced_phi(phi, rate1, rate0, np.sqrt(n1 * n0)))


@dataclass(frozen=True)
class PairedCounts:
    """Passes and attempts of both arms of the complete cases of one study.

    Attributes
    ----------
    x1, n1, x0, n0 : ndarray of float, shape (n,)
        Passes and attempts with the skill and in the baseline.
    clusters : Clusters
        The cases by cluster.
    dropped : int
        Cases left out because an arm has no attempt.
    """

    x1: Floats
    n1: Floats
    x0: Floats
    n0: Floats
    clusters: Clusters
    dropped: int


def paired_counts(
    x1: ArrayLike, n1: ArrayLike, x0: ArrayLike, n0: ArrayLike, clusters: Any
) -> PairedCounts:
    """Check the four arrays of a paired study and keep its complete cases.

    Parameters
    ----------
    x1, n1, x0, n0 : array_like, shape (n,)
        Passes and attempts of each case with the skill and in the baseline; attempts may be one
        number for all cases. NaN passes or no attempts leave the case out.
    clusters : array_like of shape (n,) or None
        Cluster of each case.

    Returns
    -------
    PairedCounts
        The complete cases.

    Raises
    ------
    ValueError
        When the shapes differ, or when passes are negative or exceed the attempts.
    """
    passes = [np.atleast_1d(np.asarray(v, float)) for v in (x1, x0)]
    tries = [
        np.broadcast_to(np.asarray(v, float), p.shape)
        for v, p in zip((n1, n0), passes, strict=True)
    ]
    if passes[0].ndim != 1 or passes[0].shape != passes[1].shape:
        raise ValueError(
            f"x1 and x0 must hold the same cases, found shapes {passes[0].shape} and "
            f"{passes[1].shape}."
        )
    for name, x, n in (("x1", passes[0], tries[0]), ("x0", passes[1], tries[1])):
        known = np.isfinite(x) & np.isfinite(n)
        if (x[known] < 0).any() or (x[known] > n[known] * (1 + 1e-12)).any():
            raise ValueError(f"{name} must lie between 0 and the attempts of its case.")
    keep = np.logical_and.reduce(
        [np.isfinite(x) & np.isfinite(n) & (n > 0) for x, n in zip(passes, tries, strict=True)]
    )
    labels = None
    if clusters is not None:
        labels = np.asarray(clusters)
        if len(labels) != len(keep):
            raise ValueError(f"clusters must name {len(keep)} cases, found {len(labels)} labels.")
        labels = labels[keep]
    kept = Clusters.of(labels, int(keep.sum()))
    return PairedCounts(
        passes[0][keep], tries[0][keep], passes[1][keep], tries[1][keep], kept, int((~keep).sum())
    )


def without_limits(counts: PairedCounts, ci_level: float, label: str) -> Interval | None:
    """Answer for a study that cannot have limits, else None.

    Parameters
    ----------
    counts : PairedCounts
        The study.
    ci_level : float
        Confidence level.
    label : str
        Name of the method.

    Returns
    -------
    Interval or None
        NaN throughout without complete cases; an estimate without limits for one cluster of
        several cases.
    """
    if counts.clusters.n == 0:
        note = dropped_note("no case with attempts in both arms", counts.dropped)
        return undefined(label, note, ci_level=ci_level, n=0.0)
    if counts.clusters.count == 1 < counts.clusters.n:
        delta = float(np.mean(counts.x1 / counts.n1 - counts.x0 / counts.n0))
        note = dropped_note(ONE_CLUSTER, counts.dropped)
        n = float(counts.clusters.n)
        return Interval(delta, math.nan, math.nan, ci_level, label, note, n=n, n_clusters=1.0)
    return None


def dropped_note(note: str, dropped: int) -> str:
    """Add to a note how many cases were left out.

    Parameters
    ----------
    note : str
        What there is to say otherwise; may be empty.
    dropped : int
        Cases left out.

    Returns
    -------
    str
        The note, unchanged when no case was left out.
    """
    if not dropped:
        return note
    left_out = f"{dropped} {'case' if dropped == 1 else 'cases'} without a partner left out"
    return f"{note}; {left_out}" if note else left_out
