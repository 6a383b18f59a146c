"""Intervals and tests for one pass rate and for two paired ones."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from oracles.paired import fay_lumbard
from scipy.special import gammaln
from scipy.stats import binomtest, norm
from statsmodels.stats.contingency_tables import mcnemar

from skillcomp.stats.intervals import (
    agresti_min,
    bonett_price,
    clopper_pearson,
    jeffreys,
    mover_difference,
    newcombe_paired,
    tango,
    wilson,
)
from skillcomp.stats.results import Interval
from skillcomp.stats.significance import mcnemar_asymptotic, mcnemar_exact, mcnemar_midp

PAIRED = {
    "newcombe 8": lambda a, b, c, d, level: newcombe_paired(a, b, c, d, method=8, ci_level=level),
    "newcombe 9": lambda a, b, c, d, level: newcombe_paired(a, b, c, d, method=9, ci_level=level),
    "newcombe 10": lambda a, b, c, d, level: newcombe_paired(a, b, c, d, ci_level=level),
    "tango": lambda a, b, c, d, level: tango(b, c, a + b + c + d, ci_level=level),
    "bonett_price": lambda a, b, c, d, level: bonett_price(b, c, a + b + c + d, ci_level=level),
    "agresti_min": lambda a, b, c, d, level: agresti_min(b, c, a + b + c + d, ci_level=level),
}

cell = st.integers(0, 25)
tables = st.tuples(cell, cell, cell, cell).filter(any)
levels = st.floats(0.5, 0.995)


@pytest.mark.parametrize("name", PAIRED)
@settings(max_examples=25, deadline=None)
@given(table=tables, level=levels)
def test_swapping_the_conditions_mirrors_the_interval_and_keeps_the_p_value(name, table, level):
    a, b, c, d = table
    one, other = PAIRED[name](a, b, c, d, level), PAIRED[name](a, c, b, d, level)
    assert other.estimate == pytest.approx(-one.estimate, abs=1e-12)
    assert (other.low, other.high) == pytest.approx((-one.high, -one.low), abs=1e-9)
    assert other.p_value == pytest.approx(one.p_value, abs=1e-9)


@pytest.mark.parametrize("name", PAIRED)
@settings(max_examples=25, deadline=None)
@given(table=tables, level=st.sampled_from([0.8, 0.9, 0.95, 0.99]))
def test_limits_stay_in_range_have_width_and_hold_the_estimate(name, table, level):
    found = PAIRED[name](*table, level)
    assert -1 <= found.low < found.high <= 1
    assert 0 <= found.p_value <= 1
    assert found.low - 1e-12 <= found.estimate <= found.high + 1e-12


@pytest.mark.parametrize("name", PAIRED)
@settings(max_examples=25, deadline=None)
@given(table=tables, level=levels)
def test_the_p_value_says_at_every_level_whether_zero_is_excluded(name, table, level):
    found = PAIRED[name](*table, level)
    assume(abs(found.p_value - (1 - level)) > 1e-7)
    assert (found.p_value < 1 - level) == (found.low > 0 or found.high < 0)


@settings(max_examples=200, deadline=None)
@given(table=tables, level=levels)
def test_a_higher_level_never_narrows_newcombes_interval(table, level):
    inner = newcombe_paired(*table, ci_level=level)
    outer = newcombe_paired(*table, ci_level=level + 0.004)
    assert outer.low <= inner.low + 1e-12
    assert outer.high >= inner.high - 1e-12


@settings(max_examples=200, deadline=None)
@given(b=cell, c=cell, rest=cell)
def test_tango_excludes_zero_exactly_when_mcnemar_rejects(b, c, rest):
    assume(b + c > 0)
    found, z = tango(b, c, b + c + rest), norm.isf(0.025)
    assert (found.low > 0 or found.high < 0) == ((b - c) ** 2 / (b + c) > z**2)


@settings(max_examples=40, deadline=None)
@given(b=cell, c=cell, rest=cell)
def test_fay_lumbard_excludes_zero_exactly_when_the_exact_test_rejects(b, c, rest):
    assume(b + c + rest > 0)
    low, high = fay_lumbard(b, c, b + c + rest)
    assert (low > 0 or high < 0) == (mcnemar_exact(b, c).p_value < 0.05)


@pytest.mark.parametrize("name", PAIRED)
@pytest.mark.parametrize(
    "table", [(10, 0, 0, 0), (5, 0, 0, 5), (0, 10, 0, 0), (0, 0, 10, 0), (0, 1, 0, 0), (1, 0, 0, 0)]
)
def test_no_discordance_total_discordance_and_one_case_still_give_width(name, table):
    found = PAIRED[name](*table, 0.95)
    assert -1 <= found.low < found.high <= 1
    if table[1] == table[2]:
        assert found.p_value == pytest.approx(1.0)


@pytest.mark.parametrize("name", PAIRED)
def test_no_cases_give_nan_with_a_note(name):
    found = PAIRED[name](0, 0, 0, 0, 0.95)
    assert math.isnan(found.low) and found.note == "no cases"


def test_bonett_price_agrees_with_the_arithmetic_by_hand():
    # b=2, c=0, n=6: 3/8 and 1/8, centre 1/4, variance (1/2 - 1/16)/8 = 7/128,
    # 1.959964 * sqrt(7/128) = 0.458345, so -0.208345 and 0.708345
    found = bonett_price(2, 0, 6)
    assert (found.low, found.high) == pytest.approx((-0.208345, 0.708345), abs=1e-6)
    assert found.estimate == pytest.approx(1 / 3)


def test_tango_without_discordant_cases_agrees_with_the_arithmetic_by_hand():
    # With b = c = 0 the score equation becomes n delta / (1 - delta) = z^2, so the limits are
    # +- z^2 / (n + z^2) = 3.841459 / 13.841459 = 0.277533 at n = 10
    found = tango(0, 0, 10)
    assert (found.low, found.high) == pytest.approx((-0.277533, 0.277533), abs=1e-6)


def test_newcombe_without_correlation_agrees_with_the_arithmetic_by_hand():
    # a = n = 10: both rates 1, phi 0, Wilson low = 10 / (10 + 3.841459) = 0.722467, so both
    # distances are 0.277533 on one side only
    found = newcombe_paired(10, 0, 0, 0)
    assert (found.low, found.high) == pytest.approx((-0.277533, 0.277533), abs=1e-6)


@pytest.mark.parametrize("method", [8, 9])
def test_methods_that_collapse_hand_over_to_method_10_and_say_so(method):
    found = newcombe_paired(5, 0, 0, 5, method=method)
    assert found.low < 0 < found.high
    assert found.method == "Newcombe 10"
    assert f"method {method} has zero width" in found.note


@pytest.mark.parametrize("function", [wilson, clopper_pearson, jeffreys])
@settings(max_examples=60, deadline=None)
@given(n=st.integers(1, 300), share=st.floats(0, 1), level=levels)
def test_limits_of_one_rate_mirror_when_passes_and_failures_swap(function, n, share, level):
    x = round(share * n)
    one, other = function(x, n, ci_level=level), function(n - x, n, ci_level=level)
    assert (other.low, other.high) == pytest.approx((1 - one.high, 1 - one.low), abs=1e-9)
    assert 0 <= one.low <= one.estimate <= one.high <= 1
    assert one.low < one.high


@settings(max_examples=60, deadline=None)
@given(n=st.integers(1, 300), share=st.floats(0, 1), level=levels)
def test_wilson_and_clopper_pearson_agree_with_scipy(n, share, level):
    x = round(share * n)
    for found, method in (
        (wilson(x, n, ci_level=level), "wilson"),
        (wilson(x, n, continuity=True, ci_level=level), "wilsoncc"),
        (clopper_pearson(x, n, ci_level=level), "exact"),
    ):
        expected = binomtest(x, n).proportion_ci(level, method=method)
        assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_wilson_agrees_with_the_arithmetic_by_hand():
    # 0 of 20: centre z^2/2n over 1 + z^2/n; high = z^2 / (n + z^2) = 3.841459/23.841459
    assert wilson(0, 20).high == pytest.approx(0.161125, abs=1e-6)
    assert wilson(0, 20).low == 0


def test_no_units_give_nan_with_a_note():
    assert math.isnan(wilson(0, 0).estimate)
    assert clopper_pearson(0, 0).note == "no units"


@settings(max_examples=60, deadline=None)
@given(b=cell, c=cell)
def test_mcnemar_agrees_with_statsmodels_and_mid_p_takes_the_observed_table_off(b, c):
    assume(b + c > 0)
    table = [[1, b], [c, 1]]
    exact = mcnemar_exact(b, c).p_value
    assert exact == pytest.approx(mcnemar(table, exact=True).pvalue)
    plain = mcnemar(table, exact=False, correction=False)
    assert mcnemar_asymptotic(b, c).p_value == pytest.approx(plain.pvalue)
    observed = math.comb(b + c, b) / 2 ** (b + c)
    midp = mcnemar_midp(b, c).p_value
    assert midp == pytest.approx(1 - observed / 2 if b == c else exact - observed)
    assert 0 <= midp <= exact


@pytest.mark.parametrize("function", [mcnemar_exact, mcnemar_midp, mcnemar_asymptotic])
def test_without_discordant_cases_every_mcnemar_has_p_1_and_a_note(function):
    found = function(0, 0)
    assert found.p_value == 1.0
    assert "no discordant case" in found.note


def test_the_continuity_correction_never_turns_the_statistic_round():
    assert mcnemar_asymptotic(3, 3, continuity=True).p_value == 1.0


def test_mover_agrees_with_the_arithmetic_by_hand():
    # 0.4 - sqrt(0.3^2 + 0.4^2) = -0.1 and 0.4 + sqrt(0.2^2 + 0.3^2) = 0.760555
    found = mover_difference((0.5, 0.2, 0.7), (0.1, -0.2, 0.5))
    assert (found.low, found.high) == pytest.approx((-0.1, 0.760555), abs=1e-6)


@settings(max_examples=40, deadline=None)
@given(first=tables, second=tables)
def test_mover_mirrors_when_the_two_estimates_swap(first, second):
    one, two = newcombe_paired(*first), newcombe_paired(*second)
    there, back = mover_difference(one, two), mover_difference(two, one)
    assert (back.low, back.high) == pytest.approx((-there.high, -there.low), abs=1e-12)
    assert there.low < there.high
    assert there.n == sum(first) + sum(second)


def test_mover_says_nan_when_a_part_is_undefined_and_refuses_mixed_levels():
    nothing = Interval(math.nan, math.nan, math.nan)
    assert "not defined" in mover_difference(nothing, newcombe_paired(1, 2, 3, 4)).note
    with pytest.raises(ValueError, match=r"one level, found \[0\.9, 0\.95\]"):
        mover_difference(newcombe_paired(1, 2, 3, 4), newcombe_paired(1, 2, 3, 4, ci_level=0.9))
    with pytest.raises(ValueError, match="first: the estimate 1 must lie between its limits"):
        mover_difference((1.0, 0.0, 0.5), (0.0, -1.0, 1.0))


def test_bad_counts_are_refused_with_what_was_found():
    with pytest.raises(ValueError, match="b must be a count of at least 0, found -1"):
        newcombe_paired(1, -1, 0, 0)
    with pytest.raises(ValueError, match=r"b \+ c must not exceed n = 3, found 2 \+ 2"):
        tango(2, 2, 3)
    with pytest.raises(ValueError, match="method must be 8, 9 or 10, found 7"):
        newcombe_paired(1, 2, 3, 4, method=7)
    with pytest.raises(ValueError, match="method 9 corrects for continuity and needs whole counts"):
        newcombe_paired(1.5, 2, 3, 4, method=9)
    with pytest.raises(ValueError, match="successes must not exceed n = 3"):
        wilson(4, 3)
    with pytest.raises(ValueError, match=r"needs whole counts, found 1\.5 of 3"):
        wilson(1.5, 3, continuity=True)
    with pytest.raises(ValueError, match="ci_level must lie strictly between 0 and 1"):
        wilson(1, 3, ci_level=95)
    with pytest.raises(ValueError, match="b and c must be whole numbers"):
        mcnemar_exact(1.5, 2)
    with pytest.raises(ValueError, match="prior must be above 0"):
        jeffreys(1, 2, prior=0)


@cache
def _all_tables(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Every table of n cases, and the limits of each."""
    a, b, c = np.indices((n + 1,) * 3).reshape(3, -1)
    keep = a + b + c <= n
    counts = np.stack([a, b, c, n - a - b - c])[:, keep]
    found = [newcombe_paired(*table) for table in counts.T.tolist()]
    return counts, np.array([(one.low, one.high) for one in found]).T


def _exact_coverage(n: int, cells: tuple[float, float, float, float]) -> float:
    """Sum the probabilities of every table of n cases whose interval holds the true difference."""
    counts, (low, high) = _all_tables(n)
    log_p = gammaln(n + 1) - gammaln(counts + 1.0).sum(0) + counts.T @ np.log(cells)
    truth = cells[1] - cells[2]
    return float(np.exp(log_p)[(low <= truth + 1e-12) & (truth <= high + 1e-12)].sum())


@pytest.mark.parametrize(
    ("cells", "wanted"),
    [
        ((0.45, 0.15, 0.15, 0.25), 0.94),
        ((0.45, 0.25, 0.05, 0.25), 0.94),
        ((0.85, 0.10, 0.04, 0.01), 0.94),
        ((0.93, 0.03, 0.03, 0.01), 0.94),
    ],
)
@pytest.mark.parametrize("n", [10, 30])
def test_the_exact_coverage_of_newcombe_10_holds(n, cells, wanted):
    assert _exact_coverage(n, cells) >= wanted
