"""Tests on items judged by two or more grader versions, and adjustment of several p-values.

If ``clusters`` are given, cases are the units of a test. Otherwise items are assumed to be
independent.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import binom

from skillcomp.stats.clusters import Clusters, cluster_codes
from skillcomp.stats.results import NAN, Floats, HypothesisTest, Interval, check_level, undefined

_BLOCK = 2_000_000  # maximum number of floats in memory while cases are permuted


def severity_shift(
    verdicts: ArrayLike, clusters: Any = None, *, ci_level: float = 0.95
) -> Interval:
    """Estimate how much more severe one grader version is than another, in logits.

    Parameters
    ----------
    verdicts : array_like, shape (items, 2)
        Verdicts of the first version (the reference) and of the second one: 1 passed, 0 failed, NaN
        for no verdict.
    clusters : array_like, shape (items,), optional
        Case of each item. Needed if a case has several items, because these are not independent.
        The standard error is then cluster-robust, but not below that of independent items. The
        interval is a t interval with G - 1 degrees of freedom, where G counts the cases with a
        disagreement.
    ci_level : float, default 0.95
        Confidence level.

    Returns
    -------
    Interval
        Shift in logits. It is positive if the second version is more severe (it fails more items
        than the first), and negative if it is more lenient. The p-value tests a shift of 0. NaN
        with a note if the versions never disagree, or disagree in only one case.

    Notes
    -----
    The sign is that of the many-facet Rasch model, which subtracts severity from the logit of a
    PASS. The estimate is that of a conditional logistic regression with items as strata. ``lost``
    counts the items that only the first version passes, ``gained`` those that only the second one
    passes. The estimate is then ``log(lost / gained)`` with standard error
    ``sqrt(1/lost + 1/gained)``. If one of the two counts is 0, half an item is added to both. With
    clusters, the addition is half the mean number of disagreements of a case that has any. Cases
    without a disagreement have no influence. In simulated studies without a shift, with 2 to 20
    cases of 1 to 10 disagreements each, at least 94.8 % of the clustered intervals contained 0.
    Results are checked against ``clogit`` of survival 3.5.3.

    References
    ----------
    Rasch 1960; Linacre 1989, Many-Facet Rasch Measurement; Breslow and Day 1980, chapter 7.

    Examples
    --------
    The second version fails 16 items that the first passes, and passes 6 that it fails.

    >>> shift = severity_shift([[1, 0]] * 16 + [[0, 1]] * 6 + [[1, 1]] * 59)
    >>> round(shift.estimate, 4), round(shift.se, 4)
    (0.9808, 0.4787)
    """
    table = np.asarray(verdicts, float)
    gained, lost = (table[:, 1] > table[:, 0]), (table[:, 1] < table[:, 0])
    labels = None if clusters is None else np.asarray(clusters)
    up, down = float(gained.sum()), float(lost.sum())
    label, note, size = "log odds of the discordant items", "", 1.0
    groups = Clusters.of(labels, len(lost))
    per_cluster = groups.totals((lost | gained).astype(float))
    per_cluster = per_cluster[per_cluster > 0]
    n = len(per_cluster)
    if not n:
        note = "the versions never disagree: a shift cannot be estimated"
    elif labels is not None and n < 2:
        note = "the disagreements come from one cluster"
    if note:
        return undefined(label, note, ci_level=ci_level, n=float(len(lost)))
    if down == 0 or up == 0:
        # To both counts, add half the mean number of disagreements per case. Half an item would be
        # wrong, because the disagreements in a case are dependent.
        size = float(per_cluster.mean())
        down, up = down + size / 2, up + size / 2
        what = "half an item" if size == 1.0 else f"half a case ({size / 2:.3g} items)"
        note = f"all disagreements in one direction: {what} added to both"
    estimate, se, df = math.log(down / up), math.sqrt(size * (1 / down + 1 / up)), math.inf
    if labels is not None:
        scores = groups.totals(lost / down - gained / up)
        df = n - 1.0
        robust = math.sqrt(n / df * float((scores**2).sum()))
        if robust < se and not note:
            note = "gains and losses cancel within cases: limits as if items were independent"
        # Gains and losses may cancel within cases. Keep at least the standard error of independent
        # items.
        se = max(robust, se)
        label += f", {n} clusters with one, t with {df:.0f} df"
    counts = float(len(lost)), float(groups.count)
    bare = Interval(estimate, NAN, NAN, ci_level, label, note, *counts)
    return replace(bare.with_t_limits(se, df), df=df if labels is not None else NAN)


def cochran_q(verdicts: ArrayLike) -> HypothesisTest:
    """Test whether three or more grader versions pass the same share of the same items.

    Parameters
    ----------
    verdicts : array_like, shape (items, versions)
        1 passed, 0 failed.

    Returns
    -------
    HypothesisTest
        ``statistic`` is Q; its degrees of freedom are the number of versions minus one. The p-value
        is 1 with a note if the versions agree on every item.

    Notes
    -----
    Items are assumed to be independent. The test is computed by ``cochrans_q`` of statsmodels.

    References
    ----------
    Cochran 1950, doi:10.1093/biomet/37.3-4.256.

    Examples
    --------
    >>> cochran_q([[1, 1, 0]] * 4 + [[1, 0, 0]] * 2 + [[1, 1, 1]]).statistic
    9.333333333333334
    """
    from statsmodels.stats.contingency_tables import cochrans_q  # slow to import

    table = np.asarray(verdicts, float)
    df = table.shape[1] - 1.0
    if not len(table) or (table == table[:, :1]).all():
        note = "the versions agree on every item: p = 1"
        return HypothesisTest(0.0, 1.0, "Cochran's Q", note, df)
    result = cochrans_q(table)
    return HypothesisTest(float(result.statistic), float(result.pvalue), "Cochran's Q", df=df)


def clustered_midp(gained: ArrayLike, lost: ArrayLike, clusters: ArrayLike) -> HypothesisTest:
    """Test whether verdicts flip more often in one direction, with cases as units.

    Parameters
    ----------
    gained, lost : array_like of bool, shape (items,)
        Whether only the new version passes the item, and whether only the old version does.
    clusters : array_like, shape (items,)
        Case of each item.

    Returns
    -------
    HypothesisTest
        ``statistic`` is the number of gains minus the number of losses. If there are neither, the
        p-value is 1 with a note.

    Notes
    -----
    If the versions are exchangeable, all flips of a case could as well have gone the other way. The
    test computes the exact distribution of gains minus losses over all such reversals of cases. The
    p-value is the probability of a larger absolute difference plus half the probability of an equal
    one. With one flip per case this is exactly the mid-p McNemar test.

    References
    ----------
    Fagerland, Lydersen and Laake 2013, doi:10.1186/1471-2288-13-91.

    Examples
    --------
    Seven cases flip to PASS and one to FAIL: 2 (1/256 + 8/512) = 0.0390625.

    >>> test = clustered_midp([1] * 7 + [0], [0] * 7 + [1], list("abcdefgh"))
    >>> round(test.p_value, 7)
    0.0390625
    """
    codes, count = cluster_codes(clusters)
    step = np.asarray(gained, float) - np.asarray(lost, float)
    sums = np.abs(np.rint(np.bincount(codes, weights=step, minlength=count))).astype(int)
    label = f"mid-p McNemar, flips of a case exchanged together ({count} cases)"
    if not np.any(step):
        return HypothesisTest(0.0, 1.0, label, "no verdict flipped: p = 1")
    reach, chance = int(sums.sum()), np.ones(1)
    for size, n in zip(*np.unique(sums[sums > 0], return_counts=True), strict=True):
        steps = np.zeros(2 * size * n + 1)
        steps[:: 2 * size] = binom.pmf(np.arange(n + 1), n, 0.5)
        chance = np.convolve(chance, steps)
    observed = int(abs(np.rint(step.sum())))
    away = np.abs(np.arange(-reach, reach + 1))
    p_value = float(chance[away > observed].sum() + 0.5 * chance[away == observed].sum())
    return HypothesisTest(float(step.sum()), min(p_value, 1.0), label)


def clustered_cochran(
    verdicts: ArrayLike, clusters: ArrayLike, *, n_resamples: int, seed: int
) -> HypothesisTest:
    """Test whether three or more versions pass the same share of items, with cases as units.

    Parameters
    ----------
    verdicts : array_like of {0, 1}, shape (items, versions)
        1 passed, 0 failed; no verdict may be missing.
    clusters : array_like, shape (items,)
        Case of each item.
    n_resamples, seed : int
        Number of random permutations of the versions within cases, and their seed.

    Returns
    -------
    HypothesisTest
        The test with cases as units; its statistic is that of :func:`cochran_q`.

    Notes
    -----
    A permutation exchanges the versions within each case, for all items of the case together. The
    p-value is the share of permutations, including the observed order, with a Q at least as large
    as the observed one. Only the numerator of Q changes under permutation, so only it is computed.

    References
    ----------
    Cochran 1950, doi:10.1093/biomet/37.3-4.256.
    """
    table = np.asarray(verdicts, float)
    plain = cochran_q(table)
    codes, count = cluster_codes(clusters)
    label = f"Cochran's Q, versions exchanged within {count} cases, "
    label += f"n_resamples={n_resamples}, seed={seed}"
    if plain.statistic == 0.0:
        return HypothesisTest(0.0, 1.0, label, plain.note, plain.df)
    totals = np.zeros((count, table.shape[1]))
    np.add.at(totals, codes, table)
    # Leave out a case in which all versions pass equally many items, because an exchange of the
    # versions there changes nothing.
    totals = totals[np.ptp(totals, axis=1) > 0]
    # Sort by value, so that the permutations do not depend on the names of the cases.
    totals = totals[np.lexsort(totals.T)]
    observed = _sum_of_squares(totals.sum(axis=0))
    rng, reached = np.random.default_rng(seed), 0
    rows = max(1, _BLOCK // max(totals.size, 1))
    for start in range(0, n_resamples, rows):
        many = np.broadcast_to(totals, (min(rows, n_resamples - start), *totals.shape))
        drawn = _sum_of_squares(rng.permuted(many, axis=2).sum(axis=1))
        reached += int((drawn >= observed - 1e-9).sum())
    p_value = (reached + 1) / (n_resamples + 1)
    return HypothesisTest(plain.statistic, p_value, label, plain.note, plain.df)


def _sum_of_squares(sums: Floats) -> Floats:
    return np.asarray(((sums - sums.mean(axis=-1, keepdims=True)) ** 2).sum(axis=-1))


def rank_sets(
    differences: ArrayLike, p_adjusted: ArrayLike, *, ci_level: float = 0.95
) -> tuple[Floats, Floats]:
    """Return confidence sets of the ranks of several units, from adjusted pairwise comparisons.

    Parameters
    ----------
    differences : array_like, shape (units, units)
        Entry (i, j) is the value of unit i minus the value of unit j; NaN if unknown.
    p_adjusted : array_like, shape (units, units)
        Two-sided p-values of the pairs, adjusted over all pairs, such as by :func:`holm`; NaN if
        unknown. The matrix is symmetric.
    ci_level : float, default 0.95
        Level at which all sets contain their true ranks simultaneously.

    Returns
    -------
    low, high : ndarray, shape (units,)
        Best and worst rank of each unit: 1 plus the number of units shown to be better, and the
        number of units minus the number shown to be worse.

    Notes
    -----
    If no pair is wrongly shown to differ, and no difference has the wrong direction, every set
    contains the true rank of its unit. For equal units, the set contains all of their tied ranks
    (Mogstad et al. 2024). Holm's method controls the chance of a false difference. There is no
    proof that it also controls wrong directions if pairs depend on each other; ``make validate``
    simulates this, with and without ties. Al Mohamad et al. 2022 build the same sets from Tukey's
    pairwise comparisons.

    References
    ----------
    Mogstad, Romano, Shaikh and Wilhelm 2024, doi:10.1093/restud/rdad006; Al Mohamad, Goeman and van
    Zwet 2022, Simultaneous confidence intervals for ranks, Biometrics.

    Examples
    --------
    Only the first unit and the last are shown to differ.

    >>> low, high = rank_sets([[0, 1, 2], [-1, 0, 1], [-2, -1, 0]],
    ...     [[1, 0.2, 0.01], [0.2, 1, 0.2], [0.01, 0.2, 1]])
    >>> low.tolist(), high.tolist()
    ([1.0, 1.0, 2.0], [2.0, 3.0, 3.0])
    """
    differs = np.asarray(p_adjusted, float) <= 1.0 - check_level(ci_level)
    better = differs & (np.asarray(differences, float) > 0.0)
    return 1.0 + better.sum(axis=0), float(len(better)) - better.sum(axis=1)
