"""pass@k and pass^k: exact values, unbiasedness by summing every outcome, honest intervals."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from skillcomp.stats.bounded import bounded_mean
from skillcomp.stats.repeats import pass_at_k, pass_hat_k


def test_two_of_five_attempts_by_hand():
    # Ten pairs can be drawn from five attempts; three hold no pass, one holds two.
    assert pass_at_k(5, 2, 2) == pytest.approx(1 - 3 / 10)
    assert pass_hat_k(5, 2, 2) == pytest.approx(1 / 10)


def test_both_equal_the_share_of_all_draws():
    for n in range(1, 8):
        for c in range(n + 1):
            outcomes = [1] * c + [0] * (n - c)
            for k in range(1, n + 1):
                draws = [sum(draw) for draw in combinations(outcomes, k)]
                assert pass_at_k(n, c, k) == pytest.approx(np.mean([s > 0 for s in draws]))
                assert pass_hat_k(n, c, k) == pytest.approx(np.mean([s == k for s in draws]))


@pytest.mark.parametrize("rate", [0.05, 0.4, 0.9])
def test_both_are_unbiased_where_the_plug_in_is_not(rate):
    n, k = 5, 3
    c = np.arange(n + 1)
    chance = binom.pmf(c, n, rate)
    assert chance @ pass_at_k(n, c, k) == pytest.approx(1 - (1 - rate) ** k, abs=1e-12)
    assert chance @ pass_hat_k(n, c, k) == pytest.approx(rate**k, abs=1e-12)
    assert chance @ (c / n) ** k > rate**k + 0.001


@given(st.lists(st.booleans(), min_size=1, max_size=40), st.integers(2, 5))
@settings(max_examples=25, deadline=None)
def test_identical_attempts_are_no_further_evidence(passed, repeats):
    c = np.array(passed, int)
    once = bounded_mean(pass_hat_k(1, c, 1))
    again = bounded_mean(pass_hat_k(repeats, c * repeats, repeats))
    assert (again.estimate, again.low, again.high) == (once.estimate, once.low, once.high)


@pytest.mark.parametrize(
    ("rule", "arguments", "message"),
    [
        (pass_at_k, ([3, 5], [1, 1], 4), r"k=4 .* 1 of 2 cases \(fewest: n=3\).*no unbiased"),
        (pass_hat_k, (3, 1, 0), "k must be a whole number"),
        (pass_hat_k, (3, 4, 1), "between 0 and n"),
        (pass_at_k, ([3, 3], [1, np.nan], 1), "without gaps"),
    ],
)
def test_bad_attempts_are_refused(rule, arguments, message):
    with pytest.raises(ValueError, match=message):
        rule(*arguments)
