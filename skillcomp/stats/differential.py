"""Whether a grader errs differently in the two arms."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import hypergeom

from skillcomp.stats.clusters import cr2, sign_flip
from skillcomp.stats.moments import join_notes
from skillcomp.stats.results import NAN, HypothesisTest

__all__ = ["DifferentialTests", "differential_misclassification", "fisher_midp"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class DifferentialTests:
    """Whether a grader errs differently in the two arms, by class of gold.

    Attributes
    ----------
    sensitivity, specificity : HypothesisTest
        Equal sensitivity (among gold passes) and equal specificity (among gold fails). The
        statistic is the skill arm's rate minus the baseline's.
    either : HypothesisTest
        Smaller of the two p-values after Holm's adjustment.
    """

    sensitivity: HypothesisTest
    specificity: HypothesisTest
    either: HypothesisTest


def fisher_midp(passes1: float, n1: float, passes0: float, n0: float) -> HypothesisTest:
    """Whether two independent pass rates differ, by Fisher's test with the mid-p.

    Parameters
    ----------
    passes1, n1, passes0, n0 : int
        Passes and units of each group.

    Returns
    -------
    HypothesisTest
        ``statistic`` is the difference of the rates; the two-sided mid-p counts tables as likely
        as the observed one half. NaN with a note where a group is empty; 1 where nothing varies.

    Notes
    -----
    The exact test keeps its level but is far too careful on tables this small.

    References
    ----------
    Hirji, Tan and Elashoff 1991, doi:10.1002/sim.4780100709.

    Examples
    --------
    >>> round(fisher_midp(3, 3, 0, 3).p_value, 4)  # 2 * (1 / 20) / 2
    0.05
    """
    label = "Fisher's test, mid-p"
    if n1 == 0 or n0 == 0:
        return HypothesisTest(NAN, NAN, label, "one arm has no unit of this class")
    difference = float(passes1 / n1 - passes0 / n0)
    total = int(passes1 + passes0)
    tables = np.arange(max(0, total - int(n0)), min(total, int(n1)) + 1)
    weights = hypergeom.pmf(tables, int(n1 + n0), total, int(n1))
    observed = weights[tables == int(passes1)][0]
    # Equal probabilities differ by rounding only.
    same = np.isclose(weights, observed, rtol=1e-7)
    p_value = weights[(weights < observed) & ~same].sum() + weights[same].sum() / 2.0
    if tables.size == 1:
        return HypothesisTest(difference, 1.0, label, "all verdicts agree: nothing to test, p = 1")
    return HypothesisTest(difference, float(min(p_value, 1.0)), label)


def differential_misclassification(
    verdicts: ArrayLike,
    gold: ArrayLike,
    skill_arm: ArrayLike,
    *,
    clusters: ArrayLike | None = None,
) -> DifferentialTests:
    """Whether a grader is more lenient, or stricter, in one arm than in the other.

    Parameters
    ----------
    verdicts, gold : array_like of 0, 1 or NaN
        Verdict and gold label of each unit; units with a gap in either are left out.
    skill_arm : array_like of bool
        True for units of the skill arm, False for the baseline.
    clusters : array_like, optional
        Case of each unit: rates are then compared by CR2 with Satterthwaite degrees of freedom.
        Where that has no variation left, cases exchange their arms as wholes. Each unit alone
        (Fisher's mid-p) when omitted.

    Returns
    -------
    DifferentialTests
        Sensitivity, specificity, and either of them after Holm. NaN with a note where an arm has
        no gold of that class.

    Raises
    ------
    ValueError
        Lengths differ.

    Notes
    -----
    With 30 to 60 gold labels the test has little power: "not significant" is no reason to pool
    the arms.

    References
    ----------
    Fiedler 2026, arXiv:2605.06939.

    Examples
    --------
    >>> found = differential_misclassification([1, 1, 1, 0, 0, 0], [1] * 6, [1, 1, 1, 0, 0, 0])
    >>> found.sensitivity.statistic, round(found.sensitivity.p_value, 3), found.specificity.note
    (1.0, 0.05, 'one arm has no unit of this class')
    """
    given, true = np.asarray(verdicts, float), np.asarray(gold, float)
    arm = np.asarray(skill_arm, bool)
    labels = None if clusters is None else np.asarray(clusters)
    if not given.shape == true.shape == arm.shape or (
        labels is not None and labels.shape != arm.shape
    ):
        raise ValueError("verdicts, gold, skill_arm and clusters must be of one length.")
    known = np.isfinite(given) & np.isfinite(true)
    tests = []
    for truth in (1.0, 0.0):
        used = known & (true == truth)
        right = (given[used] == truth).astype(float)
        tests.append(_compare(right, arm[used], None if labels is None else labels[used]))
    return DifferentialTests(tests[0], tests[1], _either(tests))


def _compare(
    right: Floats, arm: NDArray[np.bool_], labels: NDArray[np.generic] | None
) -> HypothesisTest:
    by_units = fisher_midp(right[arm].sum(), arm.sum(), right[~arm].sum(), (~arm).sum())
    if labels is None or math.isnan(by_units.p_value) or np.ptp(right) == 0.0:
        return by_units
    fit = cr2(right, np.column_stack([np.ones(right.size), arm]), labels)
    if not fit.p_values[1] >= 0.0:
        return _by_exchange(right, arm, labels)
    return HypothesisTest(
        float(fit.coefficients[1]),
        float(fit.p_values[1]),
        f"difference of rates, {fit.method} over {fit.n_clusters} clusters",
        "",
        float(fit.df[1]),
    )


def _by_exchange(
    right: Floats, arm: NDArray[np.bool_], labels: NDArray[np.generic]
) -> HypothesisTest:
    # Where CR2 collapses, cases with units in both arms exchange their arms, all units together.
    codes = np.unique(labels, return_inverse=True)[1]
    units, sums = (
        np.array([np.bincount(codes, w * side, codes.max() + 1) for side in (arm, ~arm)])
        for w in (np.ones(right.size), right)
    )
    both = (units > 0).all(axis=0)
    difference = float(right[arm].mean() - right[~arm].mean())
    if both.sum() >= 2:
        rates = sums[:, both] / units[:, both]
        test = sign_flip(rates[0] - rates[1])
        note = f"CR2 collapses: arms exchanged within {int(both.sum())} cases instead"
        return HypothesisTest(difference, test.p_value, test.method, join_notes(note, test.note))
    label = "difference of rates over cases"
    if both.any() or np.ptp(right[arm]) > 0.0 or np.ptp(right[~arm]) > 0.0:
        return HypothesisTest(difference, NAN, label, "CR2 collapses: too few cases for a test")
    # Every case lies in one arm and all arms are flat, so whole cases are the units of Fisher.
    cases, passed = (units > 0).sum(axis=1), (sums > 0).sum(axis=1)
    found = fisher_midp(passed[0], cases[0], passed[1], cases[1])
    return replace(found, note="CR2 collapses: Fisher's mid-p over whole cases instead")


def _either(tests: list[HypothesisTest]) -> HypothesisTest:
    defined = [t.p_value for t in tests if not math.isnan(t.p_value)]
    label = "sensitivity or specificity, Holm over two"
    if not defined:
        return HypothesisTest(NAN, NAN, label, "neither can be tested")
    note = "" if len(defined) == 2 else "only one of the two can be tested"
    # The smallest of Holm's adjusted p-values; statsmodels collects garbage on every call (0.2 s).
    return HypothesisTest(NAN, min(1.0, len(defined) * min(defined)), label, note)
