"""Cluster sums, CR2 variances of means and effective numbers of cases, for one study or many.

Arrays of rates have the cases on their last axis; every axis before it counts studies, so one
study and thousands of simulated ones go through the same arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "Clusters",
    "as_rates",
    "attempt_ceiling",
    "cluster_codes",
    "complete_values",
    "effective_n",
    "join_notes",
]

Floats = NDArray[np.float64]

# A variance of rates below this is rounding: with a million cases of a thousand attempts the
# smallest possible one is near 1e-18.
ZERO_VARIANCE = 1e-20


def cluster_codes(labels: Any) -> tuple[NDArray[np.intp], int]:
    """Give the clusters numbers from 0 in order of appearance.

    Parameters
    ----------
    labels : array_like, shape (n,)
        Cluster of each case: strings, numbers or a pandas categorical.

    Returns
    -------
    codes : ndarray of int, shape (n,)
        Number of each case's cluster.
    n_clusters : int
        How many there are.

    Raises
    ------
    ValueError
        When a label is missing.
    """
    codes, found = pd.factorize(np.asarray(labels))
    if (codes < 0).any():
        raise ValueError(f"{int((codes < 0).sum())} of {len(codes)} cases have no cluster label.")
    return codes, len(found)


@dataclass(frozen=True)
class Clusters:
    """Cases sorted by cluster, ready for sums over clusters.

    Attributes
    ----------
    order : ndarray of int, shape (n,)
        Positions of the cases, cluster by cluster.
    starts : ndarray of int, shape (G,)
        Where each cluster begins in ``order``.
    sizes : ndarray of float, shape (G,)
        Cases in each cluster.
    """

    order: NDArray[np.intp]
    starts: NDArray[np.intp]
    sizes: Floats

    @classmethod
    def of(cls, labels: Any, n: int) -> Clusters:
        """Sort ``n`` cases by their labels; every case is its own cluster when those are None.

        Parameters
        ----------
        labels : array_like of shape (n,) or None
            Cluster of each case.
        n : int
            Number of cases.

        Returns
        -------
        Clusters
            The cases sorted by cluster.

        Raises
        ------
        ValueError
            When there are not ``n`` labels, or one of them is missing.
        """
        if labels is None:
            return cls(np.arange(n), np.arange(n), np.ones(n))
        codes, count = cluster_codes(labels)
        if len(codes) != n:
            raise ValueError(f"clusters must name {n} cases, found {len(codes)} labels.")
        sizes = np.bincount(codes, minlength=count)
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.intp)
        return cls(np.argsort(codes, kind="stable"), starts[:count], sizes.astype(float))

    @property
    def n(self) -> int:
        """Number of cases."""
        return len(self.order)

    @property
    def count(self) -> int:
        """Number of clusters."""
        return len(self.sizes)

    @property
    def single(self) -> bool:
        """Whether every case is its own cluster."""
        return self.count == self.n

    def totals(self, values: Floats) -> Floats:
        """Sum over the cases of each cluster.

        Parameters
        ----------
        values : ndarray, shape (..., n)
            One value per case.

        Returns
        -------
        ndarray, shape (..., G)
            One sum per cluster.
        """
        if self.single:
            return values
        sums: Floats = np.add.reduceat(values[..., self.order], self.starts, axis=-1)
        return sums

    def covariance(self, totals1: Floats, totals0: Floats) -> Floats:
        """CR2 covariance of two means from the cluster totals of their residuals.

        Parameters
        ----------
        totals1, totals0 : ndarray, shape (..., G)
            Cluster sums of value minus mean; the same array twice gives the variance.

        Returns
        -------
        ndarray, shape (...)
            Covariance of the two means; at least two clusters are needed.
        """
        if self.single:
            product: Floats = np.einsum("...g,...g->...", totals1, totals0)
            return product / (self.n * (self.n - 1.0))
        weights = 1.0 / (1.0 - self.sizes / self.n) / self.n**2
        return np.asarray((totals1 * totals0) @ weights, dtype=float)

    @property
    def df(self) -> float:
        """Satterthwaite degrees of freedom of the CR2 variance of a mean.

        NaN for one cluster of several cases; 1, the widest choice, for a single case.
        """
        if self.count < 2:
            return 1.0 if self.n == 1 else float("nan")
        share = self.sizes / self.n
        weight = 1.0 / (1.0 - share)
        own = (share**2).sum()
        crossed = (weight * share**2).sum() ** 2 - (weight**2 * share**4).sum()
        return float(1.0 / (own + crossed))


def complete_values(
    values: ArrayLike, clusters: Any, usable: ArrayLike | None = None
) -> tuple[Floats, Clusters, str]:
    """Keep the cases with a value, sort them by cluster and say how many were left out.

    Parameters
    ----------
    values : array_like of float, shape (n,)
        One value per case, NaN where unknown.
    clusters : array_like of shape (n,) or None
        Cluster of each case.
    usable : array_like of bool, shape (n,), optional
        Cases to keep besides having a value.

    Returns
    -------
    values : ndarray of float64
        The known values.
    clusters : Clusters
        Their clusters.
    note : str
        How many were left out, empty when none.

    Raises
    ------
    ValueError
        When the values are not one-dimensional or the lengths differ.
    """
    numbers = np.asarray(values, float)
    if numbers.ndim != 1:
        raise ValueError(f"values must be one-dimensional, found shape {numbers.shape}.")
    labels = None if clusters is None else np.asarray(clusters)
    if labels is not None and len(labels) != len(numbers):
        raise ValueError(
            f"there must be one cluster label for each of {len(numbers)} cases, found "
            f"{len(labels)} labels."
        )
    keep = np.isfinite(numbers)
    if usable is not None:
        keep &= np.asarray(usable, dtype=bool)
    dropped = int((~keep).sum())
    note = f"{dropped} missing {'value' if dropped == 1 else 'values'} left out" if dropped else ""
    groups = Clusters.of(None if labels is None else labels[keep], int(keep.sum()))
    return numbers[keep], groups, note


def join_notes(*notes: str) -> str:
    """Join the notes that say something.

    Parameters
    ----------
    *notes : str
        Notes, some of them empty.

    Returns
    -------
    str
        The others, separated by semicolons.
    """
    return "; ".join(filter(None, notes))


def attempt_ceiling(passes: Floats, attempts: Floats) -> Floats:
    """Largest number of independent units that the attempts of an arm can stand for.

    Attempts that come as exact copies of one another in every case count once, so that
    duplicating every attempt changes nothing.

    Parameters
    ----------
    passes, attempts : ndarray, shape (..., n)
        Passes and attempts of each case.

    Returns
    -------
    ndarray, shape (...)
        Number of attempts, divided by the largest number that divides all counts of the study.
    """
    total: Floats = attempts.sum(axis=-1)
    whole = np.rint(attempts).astype(np.int64)
    if not np.array_equal(whole, attempts):
        return total
    copies = np.gcd.reduce(whole, axis=-1)
    if np.all(copies == 1):
        return total
    passed = np.rint(passes).astype(np.int64)
    if not np.array_equal(passed, passes):
        return total
    return np.asarray(total / np.gcd(copies, np.gcd.reduce(passed, axis=-1)), dtype=float)


def effective_n(
    rate: Floats, variance: Floats, clusters: Clusters, ceiling: Floats | float
) -> Floats:
    """Find the number of independent attempts that would give a rate the variance it has.

    Parameters
    ----------
    rate, variance : ndarray
        Mean rate of an arm and its CR2 variance.
    clusters : Clusters
        The cases by cluster, at least two clusters.
    ceiling : float or ndarray
        Upper limit: the attempts of the arm.

    Returns
    -------
    ndarray
        ``rate (1 - rate) / variance`` between the number of clusters and ``ceiling``; the number
        of clusters where the rate is 0 or 1, which tells nothing about the variance.
    """
    # With every case its own cluster the plain binomial variance is reached exactly by one
    # attempt a case, which makes Newcombe's interval a special case.
    shrink = (clusters.n - 1.0) / clusters.n if clusters.single else 1.0
    spread = rate * (1.0 - rate)
    raw = np.where(
        variance > ZERO_VARIANCE, spread / np.maximum(variance * shrink, ZERO_VARIANCE), np.inf
    )
    floor = float(clusters.count)
    return np.where(spread > 0.0, np.clip(raw, floor, np.maximum(ceiling, floor)), floor)


def as_rates(values: ArrayLike, name: str) -> Floats:
    """Return rates as an array, raising ValueError when one lies outside [0, 1].

    Parameters
    ----------
    values : array_like of float
        Rates, NaN where unknown.
    name : str
        What they are called in the message.

    Returns
    -------
    ndarray of float64
        The same values.

    Raises
    ------
    ValueError
        When the values are not one-dimensional or lie outside [0, 1].
    """
    rates = np.asarray(values, float)
    if rates.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, found {rates.ndim} dimensions.")
    known = rates[~np.isnan(rates)]
    if known.size and (known.min() < 0 or known.max() > 1):
        raise ValueError(
            f"{name} must lie between 0 and 1, found {known.min():g} to {known.max():g}."
        )
    return rates
