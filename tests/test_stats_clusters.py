"""CR2, tests for clustered pairs, sign flips."""

from __future__ import annotations

import itertools
import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import ttest_1samp

from skillcomp.stats.clusters_and_amounts import (
    cr2,
    cr2_mean,
    log_ratio,
    sign_flip,
)


def _dense_cr2(y, X, groups):
    """Return standard errors and df from the n x n definition, as an oracle for small data."""
    bread = np.linalg.inv(X.T @ X)
    hat = X @ bread @ X.T
    residuals = (np.eye(len(y)) - hat) @ y
    names = np.unique(groups)
    pieces, columns = [], [[] for _ in range(X.shape[1])]
    for name in names:
        rows = groups == name
        values, vectors = np.linalg.eigh(np.eye(rows.sum()) - hat[np.ix_(rows, rows)])
        inverse = np.where(values > 1e-10, np.maximum(values, 1e-300) ** -0.5, 0.0)
        adjust = (vectors * inverse) @ vectors.T
        pieces.append(bread @ X[rows].T @ adjust @ residuals[rows])
        for j in range(X.shape[1]):
            weights = adjust @ X[rows] @ bread[:, j]
            columns[j].append((np.eye(len(y)) - hat)[:, rows] @ weights)
    covariance = sum(np.outer(v, v) for v in pieces)
    q = [np.array(c) @ np.array(c).T for c in columns]
    df = [np.trace(m) ** 2 / np.trace(m @ m) for m in q]
    return np.sqrt(np.diag(covariance)), np.array(df)


@settings(max_examples=20, deadline=None)
@given(values=st.lists(st.floats(-3, 3), min_size=2, max_size=30))
def test_with_one_case_a_cluster_cr2_is_the_ordinary_t(values):
    assume(np.std(values) > 1e-6)
    expected = ttest_1samp(values, 0.0)
    low, high = expected.confidence_interval(0.95)
    for found in (
        cr2_mean(values),
        cr2_mean(values, np.arange(len(values))),
        cr2(values, np.ones((len(values), 1)), np.arange(len(values)))[0],
    ):
        assert found.df == pytest.approx(len(values) - 1)
        assert found.p_value == pytest.approx(expected.pvalue, abs=1e-9)
        assert (found.low, found.high) == pytest.approx((low, high), rel=1e-8, abs=1e-9)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000), n=st.integers(5, 40), g=st.integers(3, 8))
def test_the_general_cr2_agrees_with_the_dense_definition_and_the_closed_form(seed, n, g):
    rng = np.random.default_rng(seed)
    groups = np.concatenate([np.arange(g), rng.integers(0, g, max(n - g, 0))])
    y = rng.normal(size=len(groups))
    X = np.column_stack([np.ones(len(y)), rng.normal(size=len(y))])
    se, df = _dense_cr2(y, X, groups)
    found = cr2(y, X, groups)
    assert [each.se for each in found] == pytest.approx(se, rel=1e-8)
    assert [each.df for each in found] == pytest.approx(df, rel=1e-6)
    mean, fit = cr2_mean(y, groups), cr2(y, X[:, :1], groups)[0]
    assert (mean.se, mean.df) == pytest.approx((fit.se, fit.df), rel=1e-9)
    assert (mean.low, mean.high) == pytest.approx((fit.low, fit.high), rel=1e-9)


def test_cr2_of_a_mean_agrees_with_the_arithmetic_by_hand():
    # Clusters {0, 2} and {4, 6}: mean 3, totals -4 and 4, V = (16 + 16) / (1 - 1/2) / 16 = 4;
    # two equal clusters leave one degree of freedom, whose 97.5 % point is 12.7062
    found = cr2_mean([0.0, 2.0, 4.0, 6.0], ["u", "u", "v", "v"])
    assert (found.se, found.df) == pytest.approx((2.0, 1.0))
    assert found.high == pytest.approx(3 + 2 * 12.7062, abs=1e-3)


def test_ten_thousand_clusters_need_no_square_matrix():
    rng = np.random.default_rng(3)
    groups = rng.integers(0, 10_000, 50_000)
    X = np.column_stack([np.ones(50_000), rng.normal(size=50_000)])
    y = rng.normal(size=50_000)
    tracemalloc.start()
    fit, mean = cr2(y, X, groups)[0], cr2_mean(y, groups)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert fit.n_clusters == mean.n_clusters
    assert peak < 100e6  # 50,000 x 50,000 numbers would be 20 GB


def test_a_collapsed_standard_error_is_said():
    bare = cr2_mean([0.5] * 6, ["u", "u", "v", "v", "w", "w"])
    assert math.isnan(bare.low) and bare.estimate == 0.5
    assert "collapsed to 0" in bare.note
    assert "collapsed" in cr2([1.0, 1.0, 1.0], np.ones((3, 1)), [1, 2, 3])[0].note


@pytest.mark.parametrize("unit", [1e-9, 1e-4, 1.0, 1e9])
def test_dollars_and_tokens_behave_alike(unit):
    values, skill = np.array([0.1, 0.2, 0.35, 0.2, 0.15]), ["u", "u", "v", "w", "x"]
    one, other = cr2_mean(values, skill), cr2_mean(values * unit, skill)
    assert (other.low, other.high) == pytest.approx((one.low * unit, one.high * unit), rel=1e-9)
    assert (other.df, other.p_value, other.note) == pytest.approx((one.df, one.p_value, one.note))
    fit = cr2(values * unit, np.ones((5, 1)), skill)[0]
    assert fit.low == pytest.approx(one.low * unit, rel=1e-9) and fit.note == ""
    flat = cr2_mean(np.full(6, 0.3 * unit))
    assert "collapsed to 0" in flat.note and "score interval" not in flat.note
    assert "collapsed to 0" in cr2(np.full(6, 0.3 * unit), np.ones((6, 1)), range(6))[0].note
    # rounding of amounts that are the same is no spread
    same = np.array([1e-17, 0.0, 2e-17, 0.0]) * unit
    assert "collapsed to 0" in cr2_mean(same, scale=unit).note
    ratio = log_ratio(values * unit, values[::-1] * unit)
    assert ratio.low == pytest.approx(log_ratio(values, values[::-1]).low, rel=1e-6)


def test_one_cluster_one_case_and_no_case_have_no_standard_error():
    assert "one cluster of several cases" in cr2_mean([1.0, 2.0], ["u", "u"]).note
    assert "one case" in cr2_mean([1.0]).note
    assert cr2_mean([]).note == "no values"
    fit = cr2([1.0, 2.0], np.ones((2, 1)), ["u", "u"])[0]
    assert np.isnan(fit.se) and "one cluster" in fit.note


def test_missing_values_are_left_out_and_counted():
    found = cr2_mean([1.0, 2.0, np.nan, 4.0], ["u", "v", "v", "w"])
    expected = cr2_mean([1.0, 2.0, 4.0], ["u", "v", "w"])
    assert (found.low, found.n) == (expected.low, 3.0)
    assert found.note == "1 missing value left out"


def test_sign_flips_say_their_floor_and_draw_at_random_beyond_twenty_clusters():
    few = sign_flip(np.array([1.0, 2.0, 3.0]))
    assert few.p_value == 2 / 8 and "cannot fall below 0.25" in few.note
    values = np.random.default_rng(5).normal(0.4, 1.0, 40)
    drawn = sign_flip(values)
    assert drawn.p_value == pytest.approx(ttest_1samp(values, 0.0).pvalue, abs=0.02)
    assert "9999 random patterns, seed 0" in drawn.method
    assert sign_flip(np.zeros(2)).p_value == 1.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cr2([1.0] * 3, np.ones((3, 2)), [1, 2, 3]), "linearly independent over 3 rows"),
        (lambda: cr2_mean([1.0, 2.0], ["u", None]), "have no cluster label"),
        (lambda: cr2_mean([1.0, 2.0], ["u"]), "one cluster label for each of 2 cases"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


deltas = st.lists(st.integers(-6, 6), min_size=2, max_size=12)


@settings(max_examples=25, deadline=None)
@given(deltas)
def test_the_enumerated_sign_flip_agrees_with_brute_force(sixths):
    d = np.array(sixths) / 6
    assume(d.any())

    def squared_t(signs):
        flipped = d * signs
        square = ((flipped - flipped.mean()) ** 2).sum()
        return np.inf if square < 1e-12 else flipped.sum() ** 2 / square

    patterns = [squared_t(np.array(s)) for s in itertools.product([1, -1], repeat=len(d))]
    reached = np.mean([p >= patterns[0] * (1 - 1e-9) - 1e-12 for p in patterns])
    assert sign_flip(d).p_value == pytest.approx(reached)
    assert sign_flip(-d).p_value == pytest.approx(reached)
