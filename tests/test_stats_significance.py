"""Tests of paired verdicts, severity of grader versions, and Holm's adjustment."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from oracles import rows_of_one_call
from scipy.stats import t
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests

from skillcomp.stats import Interval, holm
from skillcomp.stats.clusters_and_amounts import p_of_rows
from skillcomp.stats.significance_and_grader_errors import clustered_midp, cochran_q, severity_shift


def _rows(both, only_new, only_old, neither):
    return np.repeat([[1, 1], [0, 1], [1, 0], [0, 0]], [both, only_new, only_old, neither], axis=0)


def test_two_versions_agree_with_the_arithmetic_by_hand():
    # fails 16 that the first passes, passes 6 that it fails: log(16 / 6) = 0.980829,
    # sqrt(1/16 + 1/6) = 0.478714
    found = severity_shift(_rows(59, 6, 16, 80))
    assert (found.estimate, found.se) == pytest.approx((0.980829, 0.478714), abs=1e-6)
    assert found.low == pytest.approx(0.980829 - 1.959964 * 0.478714, abs=1e-5)


@settings(max_examples=40, deadline=None)
@given(cells=st.tuples(*[st.integers(0, 30)] * 4), level=st.floats(0.5, 0.99))
def test_swapping_the_versions_negates_the_shift(cells, level):
    assume(cells[1] + cells[2] > 0)
    rows = _rows(*cells)
    found, other = (severity_shift(r, ci_level=level) for r in (rows, rows[:, ::-1]))
    assert (other.low, other.high) == pytest.approx((-found.high, -found.low))
    assert other.p_value == pytest.approx(found.p_value)
    assert found.low < found.estimate < found.high


def test_clusters_that_repeat_their_items_widen_the_interval():
    rows = _rows(20, 8, 3, 9)
    alone = severity_shift(rows)
    clustered = severity_shift(np.repeat(rows, 5, axis=0), np.repeat(np.arange(40), 5))
    naive = severity_shift(np.repeat(rows, 5, axis=0))
    # 8 + 3 of the 40 clusters disagree: G / (G - 1) and the degrees of freedom count those
    assert clustered.se == pytest.approx(alone.se * math.sqrt(11 / 10))
    assert clustered.se > 2 * naive.se
    assert clustered.df == 10


def test_disagreement_in_one_direction_gets_half_an_item_and_says_so():
    found = severity_shift(_rows(10, 4, 0, 2))
    assert found.estimate == pytest.approx(math.log(0.5 / 4.5))
    assert "half an item added to both" in found.note
    assert math.isfinite(found.low)


def test_no_disagreement_and_a_single_cluster_are_unknown():
    never = severity_shift(_rows(5, 0, 0, 5))
    assert math.isnan(never.estimate) and "never disagree" in never.note
    one = severity_shift(_rows(5, 2, 2, 5), np.zeros(14))
    assert math.isnan(one.low) and "come from one cluster" in one.note


@pytest.mark.parametrize(("up", "down"), [(3, 1), (2, 2)])
def test_cases_with_flips_balanced_alike_keep_the_error_of_independent_items(up, down):
    table = np.tile([[0, 1]] * up + [[1, 0]] * down, (10, 1))
    found = severity_shift(table, np.repeat(np.arange(10), 4))
    # b = 10 up, c = 10 down, so the standard error is sqrt(1/b + 1/c)
    assert found.se == pytest.approx(math.sqrt(1 / (10 * up) + 1 / (10 * down)))
    assert found.low < found.estimate < found.high and found.p_value > 0.01
    assert "gains and losses cancel within cases" in found.note


def test_flips_of_whole_cases_in_one_direction_get_half_a_case():
    found = severity_shift([[0, 1]] * 12 + [[1, 1]] * 5, [0] * 4 + [1] * 4 + [2] * 4 + [3] * 5)
    # 0 + 2 against 12 + 2 items: -log 7; four items a case: sqrt(4 (1/14 + 1/2)); 3 - 1 df
    assert (found.estimate, found.se) == pytest.approx((-math.log(7), math.sqrt(4 * (8 / 14))))
    assert found.df == 2 and found.high > 0
    assert "half a case (2 items) added to both" in found.note


def covered(informative, items, shape, runs, seed=1):
    """Share of studies of 40 cases whose interval holds 0, the truth, flips of a case alike."""
    rng, hits = np.random.default_rng(seed), 0
    for _ in range(runs):
        share = rng.beta(shape, shape, informative) if shape else rng.integers(0, 2, informative)
        up = rng.binomial(items, share)
        steps = [[[0, 1]] * u + [[1, 0]] * (items - u) for u in up]
        table = np.array(sum(steps, [[1, 1]] * (40 - informative)))
        case = np.r_[np.arange(informative, 40), np.repeat(np.arange(informative), items)]
        found = severity_shift(table, case)
        hits += found.low <= 0 <= found.high
    return hits / runs


@pytest.mark.parametrize("informative", [3, 5, 10])
def test_the_interval_covers_where_few_of_forty_cases_flip(informative):
    assert covered(informative, 5, 0, 200) >= 0.935


def test_a_missing_verdict_leaves_out_that_item():
    rng = np.random.default_rng(4)
    table = (rng.random((200, 2)) < [0.4, 0.6]).astype(float)
    gaps = table.copy()
    gaps[:20, 1] = np.nan
    assert severity_shift(gaps).estimate == severity_shift(table[20:]).estimate


def test_cochrans_q_without_disagreement_has_p_1():
    found = cochran_q([[1, 1, 1], [0, 0, 0]])
    assert found.p_value == 1.0 and "agree on every item" in found.note


@settings(max_examples=30, deadline=None)
@given(b=st.integers(0, 30), c=st.integers(0, 30))
def test_mid_p_is_the_exact_p_value_less_the_observed_table(b, c):
    assume(b + c > 0)
    exact = mcnemar([[1, b], [c, 1]], exact=True).pvalue
    observed = math.comb(b + c, b) / 2 ** (b + c)
    gained = np.repeat([1, 0], [b, c])
    midp = clustered_midp(gained, 1 - gained, range(b + c)).p_value
    assert midp == pytest.approx(1 - observed / 2 if b == c else exact - observed)
    assert 0 <= midp <= exact


def test_without_discordant_cases_mcnemar_has_p_1_and_a_note():
    test = clustered_midp([0, 0], [0, 0], [1, 2])
    assert test.p_value == 1.0 and "no verdict flipped" in test.note


def test_holm_agrees_with_statsmodels_if_an_unknown_p_value_counts_as_1():
    raw = np.array([0.03, math.nan, 0.001, 0.2, 0.04, 0.04, 1.0])
    family = multipletests(np.where(np.isnan(raw), 1.0, raw), method="holm")[1]
    np.testing.assert_array_equal(holm(raw), np.where(np.isnan(raw), np.nan, family))


@settings(max_examples=30, deadline=None)
@given(n_rows=st.integers(1, 9), seed=st.integers(0, 999))
def test_p_values_of_rows_agree_with_those_computed_row_by_row(n_rows, seed):
    rng = np.random.default_rng(seed)
    estimate, se, mixed = (rng.random(n_rows) * size for size in (0.6, 0.2, 1.0))
    n = rng.integers(3, 40, n_rows)
    se[rng.random(n_rows) < 0.2] = math.nan
    df = np.where(np.isnan(se), math.nan, n - 1.0)
    expected = rows_of_one_call.p_values(list(zip(estimate, se, n, mixed, strict=True)))
    np.testing.assert_allclose(p_of_rows(estimate, se, df, mixed), expected, rtol=1e-9)


def test_a_quiet_row_borrows_the_variance_of_the_others():
    alone = p_of_rows([0.1], [0.03], [13], [1.0])
    among = p_of_rows([0.1, 0.2, 0.3], [0.03, 0.12, 0.1], [13, 13, 13], [1.0, 1.0, 1.0])
    assert alone[0] == pytest.approx(2 * t.sf(0.1 / 0.03, 13)) and among[0] > 2 * alone[0]


def test_p_from_the_limits_of_a_t_interval_is_that_of_the_t_test():
    reach = t.isf(0.025, 9) * 0.1
    interval = Interval(0.3, 0.3 - reach, 0.3 + reach, n=10)
    for null in (0.0, 0.5):
        p_value = t.sf((0.3 - null) / 0.1, 9)
        assert interval.p_from_limits(null) == pytest.approx(p_value)


def test_a_p_value_above_1_is_refused():
    with pytest.raises(ValueError, match=r"must lie in 0\.\.1, found 1\.2 at position 1"):
        holm([0.1, 1.2])
