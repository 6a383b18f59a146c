"""Wilson's interval and the mid-p McNemar test."""

import math

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest
from statsmodels.stats.contingency_tables import mcnemar

from skillcomp.stats import mcnemar_midp, wilson

cell = st.integers(0, 30)


@settings(max_examples=60, deadline=None)
@given(n=st.integers(1, 300), share=st.floats(0, 1), level=st.floats(0.5, 0.99))
def test_wilson_agrees_with_scipy_and_mirrors_when_passes_and_failures_swap(n, share, level):
    x = round(share * n)
    ci, mirrored = wilson(x, n, ci_level=level), wilson(n - x, n, ci_level=level)
    expected = binomtest(x, n).proportion_ci(level, method="wilson")
    assert (ci.low, ci.high) == pytest.approx((expected.low, expected.high), abs=1e-9)
    assert (mirrored.low, mirrored.high) == pytest.approx((1 - ci.high, 1 - ci.low), abs=1e-9)
    assert 0 <= ci.low <= ci.estimate <= ci.high <= 1
    assert ci.low < ci.high


def test_wilson_agrees_with_the_arithmetic_by_hand():
    # 0 of 20: centre z^2/2n over 1 + z^2/n; high = z^2 / (n + z^2) = 3.841459/23.841459
    ci = wilson(0, 20)
    assert (ci.low, ci.high) == (0, pytest.approx(0.161125, abs=1e-6))
    assert math.isnan(wilson(0, 0).estimate) and wilson(0, 0).note == "no units"


@settings(max_examples=60, deadline=None)
@given(b=cell, c=cell)
def test_mid_p_is_the_exact_p_value_less_the_observed_table(b, c):
    assume(b + c > 0)
    exact = mcnemar([[1, b], [c, 1]], exact=True).pvalue
    observed = math.comb(b + c, b) / 2 ** (b + c)
    midp = mcnemar_midp(b, c).p_value
    assert midp == pytest.approx(1 - observed / 2 if b == c else exact - observed)
    assert 0 <= midp <= exact


def test_without_discordant_cases_mcnemar_has_p_1_and_a_note():
    test = mcnemar_midp(0, 0)
    assert test.p_value == 1.0 and "no discordant case" in test.note


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: wilson(4, 3), "successes must not exceed n = 3"),
        (lambda: wilson(-1, 3), "successes must be a count of at least 0, found -1"),
        (lambda: wilson(1, 3, ci_level=95), "ci_level must lie strictly between 0 and 1"),
        (lambda: mcnemar_midp(1.5, 2), "b and c must be whole numbers"),
    ],
)
def test_bad_counts_are_refused_with_what_was_found(call, message):
    with pytest.raises(ValueError, match=message):
        call()
