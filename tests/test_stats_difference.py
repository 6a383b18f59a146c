"""Difference of two bounded means of different cases."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import beta, ttest_ind

import skillcomp as sc

RATES, DELTAS = sc.stats.RATES, sc.stats.DELTAS
difference = sc.stats.independent_difference


def sample(values, clusters=None, weights=None):
    return np.asarray(values, dtype=float), clusters, weights


def test_limits_are_square_and_add_of_the_two_bounded_intervals():
    first, second = [1, 1, 0, 1, 0.5, 1], [0, 0.5, 0, 1, 0, 0, 0, 0]
    a = sc.stats.bounded_mean(first, quantity=RATES)
    b = sc.stats.bounded_mean(second, quantity=RATES)
    found = difference(sample(first), sample(second), quantity=RATES)
    # D = 1.5 / 8 - 4.5 / 6 = -.5625
    assert found.estimate == pytest.approx(-0.5625)
    low = math.sqrt((b.estimate - b.low) ** 2 + (a.high - a.estimate) ** 2)
    high = math.sqrt((b.high - b.estimate) ** 2 + (a.estimate - a.low) ** 2)
    assert found.low == pytest.approx(-0.5625 - low, abs=1e-12)
    assert found.high == pytest.approx(-0.5625 + high, abs=1e-12)
    assert found.n == found.n_clusters == 14


def test_two_samples_without_spread_keep_the_width_of_their_own_limits():
    # upper limit of ten zeros with a pseudo-case of weight c at 1: the .975 quantile of
    # Beta(c, 10). The lower limits are 0, so that each side of the difference is one of them.
    reach = beta.ppf(0.975, RATES.c, 10)
    found = difference(sample(np.zeros(10)), sample(np.zeros(10)), quantity=RATES)
    assert found.estimate == 0
    assert (found.low, found.high) == pytest.approx((-reach, reach), abs=1e-9)
    assert found.p_value == 1.0
    assert math.isnan(found.se) and math.isnan(found.df)


def test_turning_the_samples_round_turns_the_sign():
    rng = np.random.default_rng(7)
    first, second = sample(rng.binomial(3, 0.4, 12) / 3), sample(rng.binomial(2, 0.8, 9) / 2)
    one = difference(first, second, quantity=RATES, null=0.1)
    other = difference(second, first, quantity=RATES, null=-0.1)
    assert (other.estimate, other.low, other.high) == pytest.approx(
        (-one.estimate, -one.high, -one.low), abs=1e-9
    )
    assert (other.p_value, other.se, other.df) == pytest.approx(
        (one.p_value, one.se, one.df), rel=1e-6
    )


@pytest.mark.parametrize("quantity", [RATES, DELTAS])
def test_the_p_value_is_the_level_at_which_a_limit_reaches_the_null(quantity):
    first, second = sample([0, 0, 0.5, 0, 0, 1, 0, 0]), sample([1, 0.5, 1, 1, 0, 1, 0.5])
    p = difference(first, second, quantity=quantity).p_value
    assert 0.001 < p < 0.5
    at = difference(first, second, quantity=quantity, ci_level=1 - p)
    assert at.low == pytest.approx(0, abs=1e-6)


def test_a_difference_without_doubt_has_the_smallest_p_value_told():
    found = difference(sample(np.zeros(400)), sample(np.ones(400)), quantity=RATES)
    assert found.p_value == 2e-12
    assert found.low > 0.98 and found.high == 1


def test_standard_errors_combine_as_welch_does():
    first, second = np.array([0, 1, 0.5, 1, 0]), np.array([1, 1, 0, 1, 0.5, 1, 1])
    found = difference(sample(first), sample(second), quantity=RATES)
    welch = ttest_ind(second, first, equal_var=False)
    assert found.estimate / found.se == pytest.approx(welch.statistic)
    assert found.df == pytest.approx(welch.df)


def test_copies_inside_a_cluster_change_nothing():
    values, clusters = np.array([1, 0, 1, 1, 0, 1.0]), np.array(list("abcdef"))
    second = sample([0, 0, 1, 0.0])
    once = difference(sample(values, clusters), second, quantity=RATES)
    thrice = difference(
        sample(np.repeat(values, 3), np.repeat(clusters, 3)), second, quantity=RATES
    )
    assert (thrice.low, thrice.high, thrice.p_value) == pytest.approx(
        (once.low, once.high, once.p_value), abs=1e-9
    )
    assert thrice.n_clusters == once.n_clusters == 10


def test_an_empty_sample_gives_nan_and_says_so():
    found = difference(sample([]), sample([1, 0]), quantity=RATES)
    assert math.isnan(found.estimate) and math.isnan(found.low) and math.isnan(found.p_value)
    assert "no cases" in found.note


def test_values_outside_the_bounds_are_refused():
    with pytest.raises(ValueError, match="between 0 and 1"):
        difference(sample([2.0]), sample([1, 0]), quantity=RATES)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n1", "p1", "n2", "p2"),
    [(30, 0.05, 30, 0.05), (8, 0.9, 40, 0.7), (14, 0.5, 14, 0.5), (60, 0.02, 10, 0.1)],
)
def test_the_difference_covers_the_true_one(n1, p1, n2, p2):
    rng = np.random.default_rng(11)
    hits, n_studies = 0, 1500
    for _ in range(n_studies):
        first, second = rng.binomial(1, p1, n1), rng.binomial(1, p2, n2)
        a, b = (
            sc.stats.bounded_mean(first, quantity=RATES),
            sc.stats.bounded_mean(second, quantity=RATES),
        )
        d = b.estimate - a.estimate
        low = d - math.hypot(b.estimate - b.low, a.high - a.estimate)
        high = d + math.hypot(b.high - b.estimate, a.estimate - a.low)
        hits += low <= p2 - p1 <= high
    assert hits / n_studies >= 0.935
