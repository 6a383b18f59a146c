"""Grader error: published intervals, limits of the formulas, what pooling conditions does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import fisher_exact

from skillcomp.stats.results import Interval
from skillcomp.stats.significance_and_grader_errors import (
    differential_misclassification,
    fisher_midp,
    rates_against_gold,
    youden,
    youden_difference,
)


def rate(verdicts, gold, truth):
    """Return the sensitivity (truth 1) or the specificity (truth 0)."""
    arrays = np.asarray(verdicts, float), np.asarray(gold, float)
    return rates_against_gold([(*arrays, None, None, None)], 0.95)[0][0 if truth else 1]


def test_youden_by_hand_and_its_difference():
    # 0.9 + 0.8 - 1 = 0.7; low 0.7 - sqrt(0.1^2 + 0.1^2), high 0.7 + sqrt(0.05^2 + 0.1^2).
    first = youden(Interval(0.9, 0.8, 0.95), Interval(0.8, 0.7, 0.9))
    assert [first.estimate, first.low, first.high] == pytest.approx(
        [0.7, 0.7 - 0.02**0.5, 0.7 + 0.0125**0.5]
    )
    second = youden(Interval(0.8, 0.7, 0.9), Interval(0.6, 0.5, 0.7))
    found, mirrored = youden_difference(first, second), youden_difference(second, first)
    assert found.estimate == pytest.approx(0.3)
    assert [mirrored.low, mirrored.high] == pytest.approx([-found.high, -found.low])


@given(st.integers(0, 30), st.integers(1, 30), st.integers(0, 30), st.integers(1, 30))
@settings(max_examples=30, deadline=None)
def test_youden_stays_in_range_and_keeps_a_width(right1, n1, right0, n0):
    se = rate([1] * min(right1, n1) + [0] * (n1 - min(right1, n1)), [1] * n1, 1.0)
    sp = rate([0] * min(right0, n0) + [1] * (n0 - min(right0, n0)), [0] * n0, 0.0)
    found = youden(se, sp)
    assert -1 - 1e-12 <= found.low <= found.estimate <= found.high <= 1 + 1e-12
    assert found.high - found.low > 0.01


def test_youden_without_gold_of_one_class_is_unknown():
    unknown = youden(rate([1, 1], [1, 1], 1.0), rate([1, 1], [1, 1], 0.0))
    assert np.isnan(unknown.estimate) and "no gold label fails" in unknown.note
    assert np.isnan(
        youden_difference(unknown, youden(Interval(0.9, 0.8, 1), Interval(0.9, 0.8, 1))).low
    )


@given(st.integers(0, 15), st.integers(1, 15), st.integers(0, 15), st.integers(1, 15))
@settings(max_examples=40, deadline=None)
def test_mid_p_is_fishers_test_less_half_the_equally_likely_tables(a, n1, c, n0):
    a, c = min(a, n1), min(c, n0)
    found = fisher_midp(a, n1, c, n0)
    exact = fisher_exact([[a, n1 - a], [c, n0 - c]]).pvalue
    assert 0.0 < found.p_value <= exact + 1e-12
    assert fisher_midp(c, n0, a, n1).p_value == pytest.approx(found.p_value)


def test_a_lenient_grader_is_told_from_an_even_one():
    # Gold fails: 18 of 20 caught in the baseline, 9 of 20 with the skill; passes: all alike.
    gold = np.tile(np.r_[np.ones(10), np.zeros(20)], 2)
    verdict = np.r_[np.ones(10), np.zeros(18), np.ones(2), np.ones(10), np.zeros(9), np.ones(11)]
    side = np.repeat([False, True], 30)
    found = differential_misclassification(verdict, gold, side, clusters=np.arange(60))
    assert found.specificity.statistic == pytest.approx(-0.45)
    assert found.specificity.p_value < 0.01
    assert found.sensitivity.p_value == 1.0 and "nothing to test" in found.sensitivity.note
    assert found.either.p_value == pytest.approx(2 * found.specificity.p_value)
    assert found.specificity.p_value == pytest.approx(fisher_midp(9, 20, 18, 20).p_value, abs=0.01)
    assert "CR2" in found.specificity.method and found.specificity.df > 10


def test_what_cannot_be_tested_says_so():
    sides = [True, True, False]
    found = differential_misclassification([1, 0, np.nan], [1, 1, 1], sides, clusters=[1, 2, 3])
    assert np.isnan(found.sensitivity.p_value) and np.isnan(found.either.p_value)
    assert found.either.note == "neither can be tested"
    flat = differential_misclassification(
        [1, 1, 0, 0], [1] * 4, [True, True, False, False], clusters=[1, 2, 3, 4]
    )
    assert "CR2 collapses" in flat.sensitivity.note and 0 < flat.sensitivity.p_value < 1


def test_where_the_robust_error_collapses_whole_cases_change_conditions():
    # Four cases, each with three units in both conditions, all right in one, wrong in the other:
    # 2 of the 2**4 patterns of exchanges are as far apart. Over 24 units Fisher's p is 4e-7.
    verdict, case = np.tile([1] * 3 + [0] * 3, 4), np.repeat(np.arange(4), 6)
    found = differential_misclassification(verdict, np.ones(24), verdict == 1, clusters=case)
    assert found.sensitivity.statistic == 1.0
    assert found.sensitivity.p_value == pytest.approx(2 / 16)
    assert "conditions exchanged within 4 cases" in found.sensitivity.note
    # Cases in one condition each: three against three cases, 2 * (1 / 20) / 2 as in fisher_midp.
    apart = differential_misclassification(
        np.repeat([1, 0], 12),
        np.ones(24),
        np.repeat([True, False], 12),
        clusters=np.arange(24) // 4,
    )
    assert apart.sensitivity.p_value == pytest.approx(0.05)
    assert "whole cases" in apart.sensitivity.note
    one = differential_misclassification(
        verdict[:6], np.ones(6), verdict[:6] == 1, clusters=np.zeros(6)
    )
    assert np.isnan(one.sensitivity.p_value) and "too few cases" in one.sensitivity.note


def test_an_even_grader_is_rarely_accused():
    rng, rejected = np.random.default_rng(6), 0
    for _ in range(100):
        case = np.repeat(np.arange(40), 4)
        skill = np.tile([False, False, True, True], 40)
        # Attempts of a case share how hard its answer is to grade.
        right = rng.random(160) < np.repeat(rng.beta(8, 2, 40), 4)
        gold = rng.random(160) < 0.6
        tests = differential_misclassification(right == gold, gold, skill, clusters=case)
        rejected += tests.either.p_value < 0.05
    assert rejected <= 10
