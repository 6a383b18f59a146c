"""Grader versions on the same items with the case as the unit: changes and exact tests."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skillcomp.stats.clusters import cr2_mean, newcombe_effective
from skillcomp.stats.moments import cluster_codes, join_notes
from skillcomp.stats.results import HypothesisTest, Interval
from skillcomp.stats.severity import cochran_q
from skillcomp.stats.switching import MIN_CASES, MIN_CLUSTERS_FOR_CLAIM, paired_delta

Floats = NDArray[np.float64]

_BLOCK = 2_000_000  # numbers held at once while cases are permuted


def paired_change(
    new: ArrayLike, old: ArrayLike, clusters: ArrayLike, *, ci_level: float
) -> Interval:
    """Mean change of a verdict over items, by the rule of the project with cases as clusters.

    Parameters
    ----------
    new, old : array_like of {0, 1}, shape (items,)
        What the two versions said, complete.
    clusters : array_like, shape (items,)
        Case of each item.
    ci_level : float
        Confidence level.

    Returns
    -------
    Interval
        From :func:`skillcomp.stats.switching.paired_delta`. With two to four cases that function
        would take every row for a unit, and rows are checks here: CR2 over the cases instead.
        Below 30 cases, however many checks, the score interval on effective n.
    """
    first, second = np.asarray(old, dtype=float), np.asarray(new, dtype=float)
    codes, count = cluster_codes(clusters)
    if MIN_CLUSTERS_FOR_CLAIM <= count < MIN_CASES and count < len(first):
        # The rule of the project counts its rows, which are checks here; cases are what it means.
        found = newcombe_effective(second, 1, first, 1, codes, ci_level=ci_level)
        why = f"score interval on effective n: fewer than {MIN_CASES} cases ({count})"
        return replace(found, note=join_notes(why, found.note))
    if not 1 < count < MIN_CLUSTERS_FOR_CLAIM or count == len(first):
        ones = np.ones(len(first))
        return paired_delta(second, ones, first, ones, codes, ci_level=ci_level)
    found = cr2_mean(second - first, codes, bounds=(-1.0, 1.0), ci_level=ci_level)
    note = join_notes(f"{count} cases only: they speak for no others", found.note)
    low, high = max(found.low, -1.0), min(found.high, 1.0)
    return replace(found, low=low, high=high, note=note)


def clustered_midp(gained: ArrayLike, lost: ArrayLike, clusters: ArrayLike) -> HypothesisTest:
    """Whether flips go one way more often than the other, with the case as the unit.

    Parameters
    ----------
    gained, lost : array_like of bool, shape (items,)
        Items that only the new version passes, and that only the old one passes.
    clusters : array_like, shape (items,)
        Case of each item.

    Returns
    -------
    HypothesisTest
        ``statistic`` is the sum of gains less losses; p = 1 with a note without flips.

    Notes
    -----
    Under the hypothesis that the versions are exchangeable, every case might as well have had its
    flips the other way, all of them together. The distribution of the sum over all sign patterns
    of the cases is found exactly by convolution; p is the chance of a larger absolute sum plus
    half that of an equal one. With one flip a case it is the mid-p McNemar test to the last digit.

    References
    ----------
    Fagerland, Lydersen and Laake 2013, doi:10.1186/1471-2288-13-91.

    Examples
    --------
    Seven cases flip to PASS, one to FAIL: the mid-p McNemar test of 1 against 7.

    >>> found = clustered_midp([1] * 7 + [0], [0] * 7 + [1], list("abcdefgh"))
    >>> round(found.p_value, 7)
    0.0390625
    """
    codes, count = cluster_codes(clusters)
    step = np.asarray(gained, dtype=float) - np.asarray(lost, dtype=float)
    sums = np.abs(np.rint(np.bincount(codes, weights=step, minlength=count))).astype(int)
    label = f"mid-p McNemar, flips of a case exchanged together ({count} cases)"
    if not np.any(step):
        return HypothesisTest(0.0, 1.0, label, "no verdict flipped: p = 1")
    reach = int(sums.sum())
    chance = np.zeros(2 * reach + 1)
    chance[reach] = 1.0
    for size in sums[sums > 0]:
        chance = 0.5 * (np.roll(chance, size) + np.roll(chance, -size))
    observed = int(abs(np.rint(step.sum())))
    away = np.abs(np.arange(-reach, reach + 1))
    p_value = float(chance[away > observed].sum() + 0.5 * chance[away == observed].sum())
    return HypothesisTest(float(step.sum()), min(p_value, 1.0), label)


def clustered_cochran(
    verdicts: ArrayLike, clusters: ArrayLike, *, n_resamples: int, seed: int
) -> tuple[HypothesisTest, HypothesisTest]:
    """Whether three or more versions pass the same share of items, with the case as the unit.

    Parameters
    ----------
    verdicts : array_like of {0, 1}, shape (items, versions)
        Complete rows only.
    clusters : array_like, shape (items,)
        Case of each item.
    n_resamples, seed : int
        Random exchanges of the versions within cases.

    Returns
    -------
    tuple of HypothesisTest
        The test by case, then Cochran's own, which takes items as independent.

    Notes
    -----
    Within every case the versions change places, all items of the case together; the share of
    exchanges with a Q at least as large is the p-value, the observed one counted among them. The
    denominator of Q does not change under such exchanges.

    References
    ----------
    Cochran 1950, doi:10.1093/biomet/37.3-4.256.
    """
    table = np.asarray(verdicts, dtype=float)
    plain = cochran_q(table)
    codes, count = cluster_codes(clusters)
    label = (
        f"Cochran's Q, versions exchanged within {count} cases, n_resamples={n_resamples}, "
        f"seed={seed}"
    )
    if plain.statistic == 0.0:
        return HypothesisTest(0.0, 1.0, label, plain.note, plain.df), plain
    totals = np.zeros((count, table.shape[1]))
    np.add.at(totals, codes, table)
    # a case that all versions pass alike stays as it is under every exchange
    totals = totals[np.ptp(totals, axis=1) > 0]
    observed = _spread(totals.sum(axis=0))
    rng, reached = np.random.default_rng(seed), 0
    rows = max(1, _BLOCK // max(totals.size, 1))
    for start in range(0, n_resamples, rows):
        size = min(rows, n_resamples - start)
        many = np.broadcast_to(totals, (size, *totals.shape))
        drawn = _spread(rng.permuted(many, axis=2).sum(axis=1))
        reached += int((drawn >= observed - 1e-9).sum())
    p_value = (reached + 1) / (n_resamples + 1)
    return HypothesisTest(plain.statistic, p_value, label, plain.note, plain.df), plain


def _spread(sums: Floats) -> Floats:
    spread: Floats = ((sums - sums.mean(axis=-1, keepdims=True)) ** 2).sum(axis=-1)
    return spread
