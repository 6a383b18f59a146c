"""Wilson's interval."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from skillcomp.stats import wilson


@settings(max_examples=30, deadline=None)
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


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: wilson(4, 3), "successes must not exceed n = 3"),
        (lambda: wilson(-1, 3), "successes must be a count of at least 0, found -1"),
        (lambda: wilson(1, 3, ci_level=95), "ci_level must lie strictly between 0 and 1"),
    ],
)
def test_bad_counts_are_refused_with_what_was_found(call, message):
    with pytest.raises(ValueError, match=message):
        call()
