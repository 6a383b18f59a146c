import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import false_discovery_control

from skillcomp.stats.clusters import cr2_mean
from skillcomp.stats.multiplicity import adjust, bh, holm, max_t, simultaneous_level

REFERENCE = Path(__file__).parent / "reference" / "stats_reference.json"


def entry(name):
    entries = json.loads(REFERENCE.read_text(encoding="utf-8"))
    return next(e for e in entries if e["name"] == name)


@pytest.mark.parametrize("method", ["holm", "bh", "by", "hochberg", "hommel"])
def test_adjusted_p_values_equal_r_p_adjust(method):
    found = entry("holm_bh_9dims")
    assert adjust(found["inputs"]["p"], method=method) == pytest.approx(
        found["expected"][method], abs=found["expected"]["tol"]
    )


def test_an_untestable_comparison_stays_unknown_but_counts():
    # three comparisons, two p-values: Holm multiplies by 3 and 2, not by 2 and 1
    assert holm([0.01, math.nan, 0.04]) == pytest.approx([0.03, math.nan, 0.08], nan_ok=True)
    # BH: 0.01 * 3 / 1 and 0.04 * 3 / 2
    assert bh([0.01, math.nan, 0.04]) == pytest.approx([0.03, math.nan, 0.06], nan_ok=True)
    assert np.isnan(holm([math.nan, math.nan])).all() and holm([]).size == 0


def test_a_family_declared_larger_counts_in_full():
    assert holm([0.01, 0.02], family=9) == pytest.approx([0.09, 0.16])
    assert holm([0.01, math.nan], family=9) == pytest.approx([0.09, math.nan], nan_ok=True)


p_lists = st.lists(st.floats(0, 1) | st.just(math.nan), min_size=1, max_size=12)


# statsmodels collects garbage on every call of Holm, about 0.1 s: few examples
@settings(max_examples=25, deadline=None)
@given(p_lists)
def test_holm_is_never_below_bh_which_is_never_below_the_p_value(p):
    by_holm, by_bh, raw = holm(p), bh(p), np.array(p)
    known = ~np.isnan(raw)
    assert (np.isnan(by_holm) == ~known).all() and (np.isnan(by_bh) == ~known).all()
    assert (by_holm[known] >= by_bh[known] - 1e-12).all()
    assert (by_bh[known] >= raw[known] - 1e-12).all() and (by_holm[known] <= 1).all()
    if known.all():
        assert by_bh == pytest.approx(false_discovery_control(raw))


@settings(max_examples=8, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=2, max_size=10), st.randoms(use_true_random=False))
def test_adjustment_does_not_depend_on_the_order(p, random):
    order = list(range(len(p)))
    random.shuffle(order)
    assert holm(np.array(p)[order]) == pytest.approx(holm(p)[order])


def test_max_t_worked_by_hand():
    # Column 1: sums 1 1 1, column 2: 1 1 -1 (three cases). Statistics 3/sqrt 3 and 1/sqrt 3.
    # The four patterns but mirrors, with both statistics times sqrt 3:
    # +++ (3, 1), ++- (1, 3), +-+ (1, 1), -++ (1, 1).
    # Alone: 3 is reached by 1 of 4; 1 by all. Together: the larger reaches 3 in 2 of 4.
    found = max_t([[1, 1], [1, 1], [1, -1]])
    assert found.p_values == (0.25, 1.0)
    assert found.p_adjusted == (0.5, 1.0)
    assert found.note == "fewer than 6 clusters: no p-value can fall below 0.05"


def brute_force(sums):
    """Step-down p-values by visiting all patterns one by one."""
    scaled = sums / np.sqrt((sums**2).sum(axis=0))
    observed = np.abs(scaled.sum(axis=0))
    ranks = np.argsort(-observed, kind="stable")
    result, before = np.zeros(len(observed)), 0.0
    for step, column in enumerate(ranks):
        hits = [
            np.abs(np.array(s) @ scaled[:, ranks[step:]]).max() >= observed[column] - 1e-9
            for s in itertools.product([1, -1], repeat=len(sums))
        ]
        before = result[column] = max(before, np.mean(hits))
    return result


@pytest.mark.parametrize("seed", range(4))
def test_enumeration_agrees_with_brute_force(seed):
    sums = np.random.default_rng(seed).integers(-3, 4, size=(7, 3)) + np.array([0.5, 1.0, 0.0])
    assert max_t(sums).p_adjusted == pytest.approx(brute_force(sums))


def test_sampled_patterns_agree_with_all_of_them():
    rng = np.random.default_rng(3)
    values = rng.normal(0.3, 1, size=(21, 4))
    sampled = max_t(values, n_resamples=20_000)
    assert "20000 patterns, seed 0" in sampled.method
    merged = max_t(values, np.r_[np.arange(20), 19])
    assert "all 1048576 patterns" in merged.method
    other = max_t(values, n_resamples=20_000, seed=1)
    assert sampled.p_values == pytest.approx(other.p_values, abs=0.02)
    assert min(sampled.p_adjusted) >= 1 / 20_001


def test_whole_clusters_are_flipped():
    values = np.repeat(np.array([[1.0], [1.0], [1.0]]), 10, axis=0)
    assert max_t(values, np.repeat(list("abc"), 10)).p_values == (0.25,)
    assert max_t(values).p_values[0] < 1e-3


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(6, 12), st.integers(1, 4))
def test_together_is_stricter_than_alone_and_signs_do_not_matter(seed, g, columns):
    rng = np.random.default_rng(seed)
    values = rng.integers(-2, 3, size=(2 * g, columns)) / 2
    clusters = np.arange(2 * g) // 2
    found, mirrored = max_t(values, clusters), max_t(-values, clusters)
    for k in range(columns):
        single, adjusted, interval = found.p_values[k], found.p_adjusted[k], found.intervals[k]
        assert (math.isnan(single) and math.isnan(adjusted)) or adjusted >= single - 1e-12
        assert mirrored.p_adjusted[k] == pytest.approx(adjusted, nan_ok=True)
        alone = cr2_mean(values[:, k], clusters)
        if alone.se > 0:
            assert interval.low <= alone.low + 1e-12 and interval.high >= alone.high - 1e-12
            assert mirrored.intervals[k].low == pytest.approx(-interval.high)
    assert max_t(values[:, :1], clusters).p_adjusted == pytest.approx(
        max_t(values[:, :1], clusters).p_values, nan_ok=True
    )


def test_a_column_without_any_difference_is_unknown_and_says_what_to_use():
    found = max_t(np.column_stack([np.zeros(8), [1, 1, 1, 0, 1, 1, -1, 1]]))
    assert math.isnan(found.p_adjusted[0]) and found.p_adjusted[1] > 0
    assert math.isnan(found.intervals[0].low) and "score interval" in found.intervals[0].note


def test_missing_values_leave_the_column_of_a_case_not_the_case():
    values = np.array([[1, 1], [1, np.nan], [1, 1], [1, 1], [np.nan, 1], [1, 1], [np.nan, np.nan]])
    found = max_t(values)
    assert found.n_clusters == 6 and [i.n for i in found.intervals] == [5, 5]


def test_fewer_than_six_clusters_fall_back_on_bonferroni():
    rng = np.random.default_rng(1)
    values = rng.normal(size=(5, 3))
    found = max_t(values).intervals[0]
    alone = cr2_mean(values[:, 0], ci_level=simultaneous_level(3))
    assert (found.low, found.high) == pytest.approx((alone.low, alone.high))
    assert "Bonferroni over 3 columns" in found.method


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: adjust([0.1], method="holms"), r"method must be one of .* Did you mean 'holm'"),
        (lambda: adjust([0.1, 1.2]), r"p_values must lie in 0..1, found 1.2 at position 1"),
        (lambda: adjust([0.1, 0.2], family=1), "family must be at least the 2 p-values"),
        (lambda: simultaneous_level(0), "n_comparisons must be at least 1"),
        (lambda: max_t([[1], [2]], ["a"]), "clusters must name 2 rows, found 1 labels"),
        (lambda: max_t([[1], [2]], ["a", None]), "found a missing label"),
    ],
)
def test_errors_say_what_was_found(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def correlated_study(rng, g=12, rows=3, columns=9):
    """Differences of nine dimensions that share a skill effect and a case effect, no true delta."""
    skill = np.repeat(rng.normal(size=(g, 1)) * 0.5, rows, axis=0)
    case = rng.normal(size=(g * rows, 1))
    return skill + case + rng.normal(size=(g * rows, columns)), np.repeat(np.arange(g), rows)


def test_false_claims_in_the_family_stay_at_their_level():
    rng = np.random.default_rng(11)
    false_max_t, covered, runs = 0, 0, 200
    for _ in range(runs):
        values, clusters = correlated_study(rng)
        found = max_t(values, clusters)
        false_max_t += np.nanmin(found.p_adjusted) <= 0.05
        covered += all(i.low <= 0 <= i.high for i in found.intervals)
    assert false_max_t / runs <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / runs)
    assert covered / runs >= 0.95 - 3 * math.sqrt(0.05 * 0.95 / runs)
