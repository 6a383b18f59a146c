"""Tests on items judged by several grader versions, and error rates of a grader against gold.

If ``clusters`` are given, cases are the units of a test. Otherwise items are assumed to be
independent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import beta, binom, hypergeom

from skillcomp.errors import plural
from skillcomp.stats.bounded import bounded_means
from skillcomp.stats.clusters_and_amounts import Clusters, cluster_codes, cr2, sign_flip
from skillcomp.stats.intervals import weighted_rate
from skillcomp.stats.results import (
    NAN,
    Bools,
    Floats,
    HypothesisTest,
    Interval,
    check_level,
    join_notes,
    undefined,
)

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


GoldSample = tuple[Floats, Floats, Any, Any, Any]  # an argument of `rates_against_gold`


def rates_against_gold(
    samples: Sequence[GoldSample], ci_level: float
) -> list[tuple[Interval, Interval]]:
    """Return the sensitivity and the specificity of each of several samples.

    A sample is a tuple of verdicts, gold, clusters, weights and strata; the last three may be None.
    Missing verdicts and gold are NaN. With strata, the sample must also contain the units without
    gold, and the rate is computed by :func:`skillcomp.stats.intervals.weighted_rate`.
    """
    questions = [(sample, truth) for sample in samples for truth in (1.0, 0.0)]
    right_verdicts, notes = [], []
    for (verdict, true, clusters, weights, strata), truth in questions:
        of_class = true == truth
        used = of_class & np.isfinite(verdict)
        right = (verdict[used] == truth).astype(float)
        parts = [None if v is None else np.asarray(v)[used] for v in (clusters, weights)]
        right_verdicts.append((right, *parts) if strata is None else ([], None, None))
        lost = int(of_class.sum() - used.sum())
        notes.append(f"{plural(lost, 'label')} without a verdict left out" if lost else "")
        if not used.any():
            notes[-1] = f"no gold label {'passes' if truth else 'fails'} with a verdict"
    rates = []
    solved = bounded_means(right_verdicts, ci_level=ci_level)
    for (sample, truth), interval, note in zip(questions, solved, notes, strict=True):
        label = "sensitivity" if truth else "specificity"
        if sample[-1] is not None:
            interval = _rate_in_strata(sample, truth, ci_level)
        if not interval.n or math.isnan(interval.estimate):
            why = interval.note if interval.n else note
            rates.append(undefined(label, why, ci_level=ci_level, n=0.0))
        else:
            all_notes = join_notes(interval.note, note)
            rates.append(replace(interval, method=f"{label}, {interval.method}", note=all_notes))
    return list(zip(rates[::2], rates[1::2], strict=True))


def _rate_in_strata(sample: GoldSample, truth: float, ci_level: float) -> Interval:
    verdict, true, clusters, weights, strata = sample
    used = (true == truth) & np.isfinite(verdict)
    has = np.isfinite(true)
    right = np.where(has, used & (verdict == truth), NAN)
    counted = np.where(has, used, NAN)
    return weighted_rate(
        right, strata, counted=counted, weights=weights, clusters=clusters, ci_level=ci_level
    )


@dataclass(frozen=True, slots=True)
class DifferentialTests:
    """Tests of equal grader errors in two conditions.

    Attributes
    ----------
    sensitivity, specificity : HypothesisTest
        Tests of equal sensitivity and of equal specificity. The statistic is the rate with the
        skill minus the rate in the baseline.
    either : HypothesisTest
        Test that neither rate differs between the conditions. Its p-value is the smaller of the two
        p-values after Holm's adjustment.
    """

    sensitivity: HypothesisTest
    specificity: HypothesisTest
    either: HypothesisTest


def fisher_midp(passes1: float, n1: float, passes0: float, n0: float) -> HypothesisTest:
    """Test two independent pass rates for equality by Fisher's test with the mid-p.

    ``statistic`` is the difference of the rates. The two-sided mid-p is the probability of tables
    less likely than the observed one, plus half the probability of equally likely tables (which
    include the observed one). Fisher's usual p-value is far too conservative for small tables. See
    Hirji, Tan and Elashoff 1991, doi:10.1002/sim.4780100709.

    >>> round(fisher_midp(3, 3, 0, 3).p_value, 4)  # 2 * (1 / 20) / 2
    0.05
    """
    label = "Fisher's test, mid-p"
    if n1 == 0 or n0 == 0:
        return HypothesisTest(NAN, NAN, label, "one condition has no unit of this class")
    difference = float(passes1 / n1 - passes0 / n0)
    total = int(passes1 + passes0)
    tables = np.arange(max(0, total - int(n0)), min(total, int(n1)) + 1)
    weights = hypergeom.pmf(tables, int(n1 + n0), total, int(n1))
    observed = weights[tables == int(passes1)][0]
    # Equal probabilities may differ by a rounding error, so compare with a tolerance.
    same = np.isclose(weights, observed, rtol=1e-7)
    p_value = weights[(weights < observed) & ~same].sum() + weights[same].sum() / 2.0
    if tables.size == 1:
        return HypothesisTest(difference, 1.0, label, "all verdicts agree: nothing to test, p = 1")
    return HypothesisTest(difference, float(min(p_value, 1.0)), label)


def differential_misclassification(
    verdicts: ArrayLike,
    gold: ArrayLike,
    with_skill: ArrayLike,
    *,
    clusters: ArrayLike,
) -> DifferentialTests:
    """Test whether a grader's errors differ between two conditions.

    Parameters
    ----------
    verdicts, gold : array_like of 0, 1 or NaN
        Verdict and gold label of each unit; units that lack one of the two are left out.
    with_skill : array_like of bool
        True for units with the skill, False for units of the baseline.
    clusters : array_like
        Case of each unit. The rates are compared by CR2 with Satterthwaite degrees of freedom. If
        the CR2 standard error is 0, the conditions are permuted within cases instead; if every case
        has only one condition, whole cases are compared by Fisher's mid-p.

    Returns
    -------
    DifferentialTests
        Tests of equal sensitivity, of equal specificity, and of both together. The test of
        sensitivity needs gold passes under both conditions, and the test of specificity needs gold
        fails under both; otherwise the test is NaN with a note.

    Notes
    -----
    With 30 to 60 gold labels the tests have little power: a result that is not significant does not
    justify pooling the error rates of the conditions.

    References
    ----------
    Fiedler 2026, arXiv:2605.06939.

    Examples
    --------
    >>> verdicts = skill = [1, 1, 1, 0, 0, 0]
    >>> tests = differential_misclassification(verdicts, [1] * 6, skill, clusters=range(6))
    >>> tests.sensitivity.statistic, round(tests.sensitivity.p_value, 3), tests.specificity.note
    (1.0, 0.05, 'one condition has no unit of this class')
    """
    verdict, true = np.asarray(verdicts, float), np.asarray(gold, float)
    skill = np.asarray(with_skill, bool)
    labels = np.asarray(clusters)
    complete = np.isfinite(verdict) & np.isfinite(true)
    tests = []
    for truth in (1.0, 0.0):
        used = complete & (true == truth)
        tests.append(_test_rates((verdict[used] == truth).astype(float), skill[used], labels[used]))
    return DifferentialTests(tests[0], tests[1], _holm_of_both(tests))


def _test_rates(right: Floats, skill: Bools, labels: NDArray[np.generic]) -> HypothesisTest:
    by_units = fisher_midp(right[skill].sum(), skill.sum(), right[~skill].sum(), (~skill).sum())
    if math.isnan(by_units.p_value) or np.ptp(right) == 0.0:
        return by_units
    difference = cr2(right, np.column_stack([np.ones(right.size), skill]), labels)[1]
    if not difference.p_value >= 0.0:
        return _by_exchange(right, skill, labels)
    label = f"difference of rates, {difference.method} over {difference.n_clusters:.0f} clusters"
    return HypothesisTest(difference.estimate, difference.p_value, label, df=difference.df)


def _by_exchange(right: Floats, skill: Bools, labels: NDArray[np.generic]) -> HypothesisTest:
    # The CR2 standard error is 0, so CR2 gives no test. Exchange the conditions within those cases
    # that have units under both conditions.
    codes = np.unique(labels, return_inverse=True)[1]
    units, sums = (
        np.array([np.bincount(codes, w * side, codes.max() + 1) for side in (skill, ~skill)])
        for w in (np.ones(right.size), right)
    )
    both = (units > 0).all(axis=0)
    gap = float(right[skill].mean() - right[~skill].mean())
    if both.sum() >= 2:
        rates = sums[:, both] / units[:, both]
        test = sign_flip(rates[0] - rates[1])
        note = f"CR2 collapses: conditions exchanged within {int(both.sum())} cases instead"
        return replace(test, statistic=gap, note=join_notes(note, test.note))
    label = "difference of rates over cases"
    if both.any() or np.ptp(right[skill]) > 0.0 or np.ptp(right[~skill]) > 0.0:
        return HypothesisTest(gap, NAN, label, "CR2 collapses: too few cases for a test")
    # Each case has only one condition, and all units of a condition have the same value, so
    # compare whole cases.
    cases, passed = (units > 0).sum(axis=1), (sums > 0).sum(axis=1)
    by_case = fisher_midp(passed[0], cases[0], passed[1], cases[1])
    return replace(by_case, note="CR2 collapses: Fisher's mid-p over whole cases instead")


def _holm_of_both(tests: list[HypothesisTest]) -> HypothesisTest:
    defined = [t.p_value for t in tests if not math.isnan(t.p_value)]
    label = "sensitivity or specificity, Holm over two"
    if not defined:
        return HypothesisTest(NAN, NAN, label, "neither can be tested")
    note = "" if len(defined) == 2 else "only one of the two can be tested"
    # Compute Holm's smallest p-value here, because statsmodels takes 0.2 s per call.
    return HypothesisTest(NAN, min(1.0, len(defined) * min(defined)), label, note)


def error_limits(error_rate: Interval, labels: float, ci_level: float) -> Floats:
    """Return an error rate with its Jeffreys limits; without labels 0, with limits 0 and 1."""
    if not labels > 0:
        return np.array([0.0, 0.0, 1.0])
    rate, tail = error_rate.estimate, (1.0 - ci_level) / 2.0
    shape = labels * rate + 0.5, labels * (1.0 - rate) + 0.5
    low, high = (float(beta.ppf(p, *shape)) for p in (tail, 1.0 - tail))
    return np.array([rate, low if rate > 0 else 0.0, high if rate < 1 else 1.0])


def equal_errors(errors: ArrayLike, labels: ArrayLike) -> Floats:
    """Test, for each group, whether its error rates are those of the other groups.

    Parameters
    ----------
    errors, labels : array_like of int, shape (kinds, groups)
        Numbers of errors, and of gold labels, of each kind: missed passes and false passes.

    Returns
    -------
    ndarray of float, shape (groups,)
        The smallest two-sided mid-p value of the kinds, given their totals; exact. Twice the
        smallest one of all conditions tests them together.

    Examples
    --------
    >>> equal_errors([[0, 0, 8]], [[14, 14, 14]]).round(3).tolist()
    [0.026, 0.026, 0.0]
    """
    wrong, n = np.asarray(errors), np.asarray(labels)
    chance = hypergeom(n.sum(1, keepdims=True), wrong.sum(1, keepdims=True), n)
    below = chance.cdf(wrong) - chance.pmf(wrong) / 2.0
    two_sided: Floats = np.minimum(1.0, 2.0 * np.minimum(below, 1.0 - below)).min(0)
    return two_sided


def youden(sensitivity: Interval, specificity: Interval) -> Interval:
    """Estimate Youden's J of a grader: sensitivity + specificity - 1.

    Parameters
    ----------
    sensitivity, specificity : Interval
        Results of :func:`sensitivity` and :func:`specificity` under one condition.

    Returns
    -------
    Interval
        J in [-1, 1]; it is 0 for a grader that guesses. NaN with a note if one of the rates is
        undefined.

    See Also
    --------
    youden_difference : Difference of J between two conditions.

    Notes
    -----
    The limits are computed from those of the two rates by square-and-add (MOVER). This assumes that
    the two rates, which come from different units, are independent.

    References
    ----------
    Youden 1950, doi:10.1002/1097-0142(1950)3:1<32::AID-CNCR2820030106>3.0.CO;2-3; Zou and Donner
    2008, doi:10.1002/sim.3095.

    Examples
    --------
    >>> rates = Interval(0.9, 0.8, 0.95), Interval(0.8, 0.7, 0.9)
    >>> round(youden(*rates).estimate, 3)
    0.7
    """
    return _labelled_difference("Youden's J", sensitivity, specificity.complement)


def youden_difference(skill: Interval, baseline: Interval) -> Interval:
    """Estimate the difference of Youden's J between two conditions.

    Parameters
    ----------
    skill, baseline : Interval
        Results of :func:`youden` with the skill and in the baseline.

    Returns
    -------
    Interval
        ``J(skill) - J(baseline)`` in [-2, 2]. NaN with a note if one of the two is undefined.

    Notes
    -----
    The conditions are assumed to be independent. If the same cases have gold under both, the
    interval is somewhat too wide. An interval that includes 0 does not justify pooling the error
    rates.

    References
    ----------
    Fiedler 2026, arXiv:2605.06939; Zou and Donner 2008, doi:10.1002/sim.3095.

    Examples
    --------
    >>> both = Interval(0.6, 0.5, 0.7), Interval(0.7, 0.6, 0.8)
    >>> round(youden_difference(*both).low, 4)
    -0.2414
    """
    return _labelled_difference("difference of Youden's J", skill, baseline)


def _labelled_difference(label: str, left: Interval, right: Interval) -> Interval:
    difference = left.minus(right)
    return replace(difference, method=f"{label}, {difference.method}", n=NAN)
