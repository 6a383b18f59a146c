"""Tests for paired pass rates in clusters: Obuchowski, Durkalski, flipped signs of clusters."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import chi2

from skillcomp.stats.moments import complete_values, join_notes
from skillcomp.stats.results import HypothesisTest

__all__ = ["durkalski", "obuchowski", "sign_flip"]

Floats = NDArray[np.float64]

_ENUMERATED = 20  # clusters up to which every pattern of signs is visited: 2**20 of them


def _cluster_counts(name: str, *columns: ArrayLike) -> list[Floats]:
    arrays = [np.asarray(v, float) for v in columns]
    if any(v.ndim != 1 or v.shape != arrays[0].shape for v in arrays):
        raise ValueError(f"{name} must have one count per cluster in every argument.")
    if any((~np.isfinite(v) | (v < 0)).any() for v in arrays):
        raise ValueError(f"{name} must be counts of at least 0 without gaps.")
    return arrays


def obuchowski(b: ArrayLike, c: ArrayLike) -> HypothesisTest:
    """Whether two paired pass rates differ, by Obuchowski's test for pairs in clusters.

    Parameters
    ----------
    b, c : array_like, shape (K,)
        Pairs of each cluster passed only with the skill, only in the baseline; clusters without
        discordant pairs belong in the arrays, because their number enters.

    Returns
    -------
    HypothesisTest
        ``statistic`` on one degree of freedom; 0 with p = 1 and a note without discordant pairs.

    Raises
    ------
    ValueError
        When the arrays differ in shape or hold a gap or a negative count.

    Notes
    -----
    ``((K - 1) / K) (sum(b - c))^2 / sum((b - c)^2)``. Checked against clust.bin.pair 0.1.2; the
    paper prints 2.88 for its example where the formula gives 2.857.

    References
    ----------
    Obuchowski 1998, Statistics in Medicine 17:1495-1507.

    Examples
    --------
    >>> round(obuchowski([2, 1, 0, 3], [0, 0, 1, 1]).statistic, 3)
    1.2
    """
    only_skill, only_baseline = _cluster_counts("b and c", b, c)
    difference = only_skill - only_baseline
    factor = (len(difference) - 1) / len(difference) if len(difference) else 0.0
    return _one_df(difference, factor, "Obuchowski")


def durkalski(b: ArrayLike, c: ArrayLike, n: ArrayLike) -> HypothesisTest:
    """Whether two paired pass rates differ, by Durkalski's test with every cluster alike.

    Parameters
    ----------
    b, c : array_like, shape (K,)
        Pairs of each cluster passed only with the skill, only in the baseline.
    n : array_like, shape (K,)
        All pairs of each cluster, at least one.

    Returns
    -------
    HypothesisTest
        ``statistic`` on one degree of freedom; 0 with p = 1 and a note without discordant pairs.

    Raises
    ------
    ValueError
        When the arrays differ in shape, hold a gap or a negative count, or a cluster is empty.

    Notes
    -----
    ``(sum((b - c) / n))^2 / sum(((b - c) / n)^2)``: clusters count alike, whatever their size.
    Checked against clust.bin.pair 0.1.2.

    References
    ----------
    Durkalski, Palesch, Lipsitz and Rust 2003, Statistics in Medicine 22:2417-2428,
    doi:10.1002/sim.1438.

    Examples
    --------
    >>> round(durkalski([2, 1, 0, 3], [0, 0, 1, 1], [4, 2, 4, 8]).statistic, 3)
    1.6
    """
    only_skill, only_baseline, pairs = _cluster_counts("b, c and n", b, c, n)
    if (pairs <= 0).any():
        raise ValueError("n must be at least one pair in every cluster.")
    return _one_df((only_skill - only_baseline) / pairs, 1.0, "Durkalski")


def _one_df(difference: Floats, factor: float, label: str) -> HypothesisTest:
    squares = float((difference**2).sum())
    if squares == 0:
        note = "no cluster with a difference: nothing speaks against equality, p = 1"
        return HypothesisTest(0.0, 1.0, label, note, df=1.0)
    statistic = factor * float(difference.sum()) ** 2 / squares
    return HypothesisTest(statistic, float(chi2.sf(statistic, 1)), label, df=1.0)


def _signed_sums(totals: Floats, sizes: Floats) -> tuple[Floats, Floats]:
    """Return sums over clusters, plain and weighted by size, for every pattern but mirrors."""
    plain, weighted = totals[:1].copy(), (totals * sizes)[:1].copy()
    for total, size in zip(totals[1:], sizes[1:], strict=True):
        plain = np.concatenate([plain + total, plain - total])
        weighted = np.concatenate([weighted + total * size, weighted - total * size])
    return plain, weighted


def _drawn_sums(
    totals: Floats, sizes: Floats, n_resamples: int, seed: int
) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    plain, weighted = np.empty(n_resamples), np.empty(n_resamples)
    step = max(1, 2**22 // len(totals))
    for start in range(0, n_resamples, step):
        rows = min(step, n_resamples - start)
        signs = rng.integers(0, 2, size=(rows, len(totals))) * 2.0 - 1.0
        plain[start : start + rows] = signs @ totals
        weighted[start : start + rows] = signs @ (totals * sizes)
    return plain, weighted


def sign_flip(
    values: ArrayLike,
    clusters: Any = None,
    *,
    null: float = 0.0,
    n_resamples: int = 9999,
    seed: int = 0,
) -> HypothesisTest:
    """Whether a mean differs from a null value, by flipping the signs of whole clusters.

    The restricted wild cluster bootstrap of a mean with Rademacher weights. A second opinion
    beside the CR2 interval for 6 to 20 clusters: with five or fewer it can never reject at 5 %,
    because its smallest p-value is ``2 / 2**G``.

    Parameters
    ----------
    values : array_like of float, shape (n,)
        One value per case, such as the difference of its pass rates; NaN is left out and counted
        in ``note``.
    clusters : array_like, shape (n,), optional
        Cluster of each case; every case is its own when left out.
    null : float, default 0
        Value of the mean under the hypothesis.
    n_resamples : int, default 9999
        Random patterns of signs, used only for more than 20 clusters.
    seed : int, default 0
        Seed of the random patterns.

    Returns
    -------
    HypothesisTest
        ``statistic`` is the mean over its CR0 standard error; ``p_value`` is the share of sign
        patterns with an absolute t at least as large, ties included: all ``2**G`` of them up to
        20 clusters, random ones (the observed pattern among them) beyond.

    Raises
    ------
    ValueError
        When the lengths differ or a label is missing.

    Notes
    -----
    Exact when the clusters are symmetric about the null value. Clusters that sum to the null
    are kept: their two signs tie. Checked against an enumeration of the 8-skill fixture (p
    6/256).

    References
    ----------
    Cameron, Gelbach and Miller 2008, doi:10.1162/rest.90.3.414.

    Examples
    --------
    >>> sign_flip([1.0, 2.0, 1.5, 0.5, 1.0, 2.5]).p_value
    0.03125
    """
    numbers, groups, note = complete_values(values, clusters)
    numbers = numbers - null
    exact = groups.count <= _ENUMERATED
    label = f"sign flips of {groups.count} clusters, " + (
        f"all {2**groups.count} patterns"
        if exact
        else f"{n_resamples} random patterns, seed {seed}"
    )
    if groups.count == 0:
        return HypothesisTest(math.nan, math.nan, label, note or "no values")
    totals, sizes = groups.totals(numbers), groups.sizes
    # Thirds that cancel leave 1e-17 behind, which must not count as a difference.
    totals = np.where(np.abs(totals) <= 1e-12 * np.abs(numbers).max(), 0.0, totals)
    if not totals.any():
        reason = "every cluster sums to the null value: p = 1"
        return HypothesisTest(0.0, 1.0, label, join_notes(reason, note))
    observed = _bounded_t(totals.sum(), (totals * sizes).sum(), totals, sizes)
    sums = _signed_sums(totals, sizes) if exact else _drawn_sums(totals, sizes, n_resamples, seed)
    # The comparison allows for rounding, or patterns that tie with the observed one get lost.
    reached = int((_bounded_t(*sums, totals, sizes) >= observed - 1e-10).sum())
    p_value = reached / len(sums[0]) if exact else (reached + 1) / (n_resamples + 1)
    if groups.count < 6:
        floor = f"with {groups.count} clusters p cannot fall below {2 / 2**groups.count:g}"
        note = join_notes(floor, note)
    sign = math.copysign(1.0, totals.sum())
    statistic = sign * math.sqrt(observed / (1 - observed)) if observed < 1 else sign * math.inf
    return HypothesisTest(statistic, p_value, label, note)


def _bounded_t(plain: Any, weighted: Any, totals: Floats, sizes: Floats) -> Any:
    """Return t^2 / (1 + t^2) of the CR0 t, which stays finite where the standard error is 0."""
    mean = plain / sizes.sum()
    squares = (totals**2).sum() - 2.0 * mean * weighted + mean**2 * (sizes**2).sum()
    return plain**2 / (plain**2 + np.maximum(squares, 0.0))
