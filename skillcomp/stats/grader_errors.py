"""Errors of a grader compared with gold: rates, differences between conditions, Youden's J."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import beta, hypergeom

from skillcomp.errors import plural
from skillcomp.stats.bounded import bounded_means
from skillcomp.stats.clusters import cr2, sign_flip
from skillcomp.stats.intervals import weighted_rate
from skillcomp.stats.results import (
    NAN,
    Bools,
    Floats,
    HypothesisTest,
    Interval,
    join_notes,
    undefined,
)

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
