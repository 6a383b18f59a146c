"""The switching rule: which method, in which order, and that its interval holds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import expit

from skillcomp.stats.clusters import cr2_mean, newcombe_effective
from skillcomp.stats.intervals import newcombe_paired
from skillcomp.stats.switching import paired_delta, paired_delta_many


def _random_study(seed, n, attempts=3, rate=0.6, lift=0.1):
    rng = np.random.default_rng(seed)
    p0 = np.clip(rng.normal(rate, 0.2, n), 0.02, 0.98)
    p1 = np.clip(p0 + lift, 0.02, 0.98)
    return rng.binomial(attempts, p1), attempts, rng.binomial(attempts, p0), attempts


@st.composite
def studies(draw, max_cases=40, max_attempts=4):
    n = draw(st.integers(1, max_cases))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n1, n0 = (rng.integers(1, draw(st.integers(1, max_attempts)) + 1, n) for _ in range(2))
    p1, p0 = (draw(st.sampled_from([0.0, 0.03, 0.5, 0.8, 0.97, 1.0])) for _ in range(2))
    groups = rng.integers(0, draw(st.integers(1, 15)), n) if draw(st.booleans()) else None
    return (rng.binomial(n1, p1), n1, rng.binomial(n0, p0), n0), groups


def _defined(study):
    (_, n1, _, _), groups = study
    return groups is None or len(n1) == 1 or len(set(groups)) > 1


@settings(max_examples=150, deadline=None)
@given(study=studies(), level=st.floats(0.5, 0.995))
def test_the_interval_mirrors_stays_in_range_has_width_and_matches_its_p_value(study, level):
    assume(_defined(study))
    (x1, n1, x0, n0), groups = study
    found = paired_delta(x1, n1, x0, n0, groups, ci_level=level)
    other = paired_delta(x0, n0, x1, n1, groups, ci_level=level)
    assert other.estimate == pytest.approx(-found.estimate, abs=1e-12)
    assert (other.low, other.high) == pytest.approx((-found.high, -found.low), abs=1e-9)
    assert other.p_value == pytest.approx(found.p_value, abs=1e-9)
    assert (other.method, other.note) == (found.method, found.note)
    assert -1 <= found.low < found.high <= 1
    assert found.low - 1e-9 <= found.estimate <= found.high + 1e-9
    assert found.note and 0 <= found.p_value <= 1
    assume(abs(found.p_value - (1 - level)) > 1e-6)
    assert (found.p_value < 1 - level) == (found.low > 0 or found.high < 0)


@settings(max_examples=100, deadline=None)
@given(study=studies(), level=st.floats(0.5, 0.99))
def test_a_higher_level_never_narrows_the_interval(study, level):
    assume(_defined(study))
    arms, groups = study
    inner = paired_delta(*arms, groups, ci_level=level)
    outer = paired_delta(*arms, groups, ci_level=level + 0.005)
    assert outer.low <= inner.low + 1e-12 and outer.high >= inner.high - 1e-12
    assert outer.p_value == inner.p_value
    assert outer.method == inner.method


@settings(max_examples=100, deadline=None)
@given(study=studies(), copies=st.integers(2, 3))
def test_duplicating_every_attempt_changes_nothing_unless_another_method_is_named(study, copies):
    assume(_defined(study))
    arms, groups = study
    once = paired_delta(*arms, groups)
    again = paired_delta(*(copies * v for v in arms), groups)
    assert again.estimate == pytest.approx(once.estimate, abs=1e-12)
    if once.method == again.method:
        assert (again.low, again.high) == pytest.approx((once.low, once.high), abs=1e-9)
    else:
        assert once.method == "Newcombe 10"
        assert "one attempt a case" in once.note and "one attempt" not in again.note


@settings(max_examples=50, deadline=None)
@given(study=studies(), seed=st.integers(0, 1000))
def test_neither_the_order_of_cases_nor_the_names_of_clusters_matter(study, seed):
    assume(_defined(study))
    arms, groups = study
    order = np.random.default_rng(seed).permutation(len(arms[0]))
    names = None if groups is None else np.array([f"skill {100 - g}" for g in groups])[order]
    one = paired_delta(*arms, groups)
    other = paired_delta(*(v[order] for v in arms), names)
    assert (other.low, other.high) == pytest.approx((one.low, one.high), abs=1e-9)
    assert other.note == one.note


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(1, 45),
    attempts=st.integers(1, 4),
    rate=st.sampled_from([0.1, 0.5, 0.9, 0.99]),
    groups=st.sampled_from([None, 2, 7, 12]),
)
def test_many_studies_at_once_equal_one_at_a_time_to_1e_10(seed, n, attempts, rate, groups):
    rng = np.random.default_rng(seed)
    labels = None if groups is None else np.arange(n) % groups
    x1, x0 = rng.binomial(attempts, rate, (2, 6, n))
    many = paired_delta_many(x1, attempts, x0, attempts, labels)
    for i in range(6):
        one = paired_delta(x1[i], attempts, x0[i], attempts, labels)
        expected = (one.estimate, one.low, one.high, one.p_value)
        row = (many.estimate[i], many.low[i], many.high[i], many.p_value[i])
        assert row == pytest.approx(expected, abs=1e-10)
        assert one.method.startswith(many.method[i])
    bare = paired_delta_many(x1, attempts, x0, attempts, labels, p_values=False)
    assert (bare.low == many.low).all() and np.isnan(bare.p_value).all()


@settings(max_examples=50, deadline=None)
@given(table=st.tuples(*[st.integers(0, 12)] * 4).filter(lambda t: sum(t) >= 10))
def test_one_attempt_and_independent_cases_is_newcombe_10_itself(table):
    a, b, c, d = table
    x1, x0 = np.repeat([1, 1, 0, 0], table), np.repeat([1, 0, 1, 0], table)
    found, expected = paired_delta(x1, 1, x0, 1), newcombe_paired(a, b, c, d)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-12)
    assert found.p_value == pytest.approx(expected.p_value, abs=1e-9)
    assert found.method == "Newcombe 10"
    assert found.note == "one attempt a case, independent cases: Newcombe 10"


def test_many_cases_away_from_the_ends_get_the_cr2_interval():
    x1, k, x0, _ = _random_study(1, 60)
    found, expected = paired_delta(x1, k, x0, k), cr2_mean((x1 - x0) / 3)
    assert (found.low, found.high, found.p_value) == pytest.approx(
        (expected.low, expected.high, expected.p_value)
    )
    assert found.method == "CR2, t with 59.0 df"
    assert found.note == "CR2 t interval over 60 clusters"
    skills = np.arange(60) % 12
    by_skill, expected = paired_delta(x1, k, x0, k, skills), cr2_mean((x1 - x0) / 3, skills)
    assert (by_skill.low, by_skill.se, by_skill.df) == pytest.approx(
        (expected.low, expected.se, expected.df)
    )


@pytest.mark.parametrize(
    ("study", "groups", "reason"),
    [
        (_random_study(1, 29), None, "fewer than 30 cases"),
        (_random_study(1, 60, rate=0.9, lift=0.2), None, "a pass rate above 0.9 or below 0.1"),
        (_random_study(1, 60, rate=0.02, lift=0.1), None, "a pass rate above 0.9 or below 0.1"),
        (_random_study(1, 60), np.arange(60) % 9, "fewer than 10 clusters"),
        (
            (np.full(40, 2), 3, np.full(40, 1), 3),
            None,
            "no variation of the difference between clusters",
        ),
    ],
)
def test_each_reason_to_switch_is_named_and_gives_the_score_interval(study, groups, reason):
    found, expected = paired_delta(*study, groups), newcombe_effective(*study, groups)
    assert found.note == f"score interval on effective n: {reason}"
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-12)
    assert found.p_value == pytest.approx(expected.p_value, abs=1e-12)


def test_all_reasons_that_hold_are_named():
    note = paired_delta([1] * 8, 1, [1] * 8, 1).note
    assert note == (
        "score interval on effective n: fewer than 30 cases, a pass rate above 0.9 or below 0.1, "
        "fewer than 10 clusters, no variation of the difference between clusters"
    )


@pytest.mark.parametrize("count", [2, 3, 4])
def test_under_five_skills_the_interval_is_for_these_cases_only(count):
    x1, k, x0, _ = _random_study(2, 40)
    found = paired_delta(x1, k, x0, k, np.arange(40) % count)
    alone = paired_delta(x1, k, x0, k)
    assert (found.low, found.high, found.n_clusters) == (alone.low, alone.high, 40.0)
    assert f"{count} clusters are too few for a claim beyond them (5 needed)" in found.note
    assert "for these cases only; CR2 t interval over 40 clusters" in found.note
    many = paired_delta_many([x1, x0], k, [x0, x1], k, np.arange(40) % count)
    assert "for these cases only" in many.note


def test_four_cases_that_are_their_own_clusters_are_no_claim_about_skills():
    assert "too few" not in paired_delta([3, 2, 1, 0], 3, [1, 1, 1, 1], 3, [1, 2, 3, 4]).note


def test_a_single_case_gives_a_wide_interval_whatever_its_repeats():
    # One unit in each arm and t on 1 df: 12.7062^2 = 161.447, so Wilson of 1/1 starts at
    # 1 / 162.447 = 0.006156 and of 0/1 ends at 0.993844: 1 - 0.993844 * sqrt(2) = -0.405508
    for attempts in (1, 5):
        found = paired_delta([attempts], attempts, [0], attempts)
        assert (found.low, found.high) == pytest.approx((-0.405508, 1.0), abs=1e-6)
        assert "a single case counts as one unit in each arm" in found.note
    same = paired_delta([1], 1, [1], 1, ["only skill"])
    assert -1 <= same.low < 0 < same.high <= 1
    assert same.p_value == 1.0


def test_a_single_cluster_of_several_cases_has_an_estimate_but_no_limits():
    found = paired_delta([3, 2, 3], 3, [1, 1, 0], 3, ["one skill"] * 3)
    assert found.estimate == pytest.approx(6 / 9)
    assert math.isnan(found.low) and math.isnan(found.high) and math.isnan(found.p_value)
    assert "one cluster of several cases" in found.note


def test_unequal_repeats_are_averaged_inside_the_case_and_gaps_are_counted():
    found = paired_delta([2, 1, 3, np.nan, 1], [2, 3, 3, 3, 1], [0, 1, 1, 2, 0], [1, 2, 2, 3, 0])
    # 1 - 0, 1/3 - 1/2, 1 - 1/2: mean (1 - 1/6 + 1/2) / 3 = 4/9
    assert found.estimate == pytest.approx(4 / 9)
    assert found.n == 3.0
    assert found.note.endswith("2 cases without a partner left out")


def test_no_complete_case_is_nan_with_a_note():
    found = paired_delta([np.nan], 1, [1], 1)
    assert math.isnan(found.estimate)
    assert "no case with attempts in both arms; 1 case without a partner left out" in found.note
    assert math.isnan(paired_delta([], 1, [], 1).estimate)


def test_bad_input_is_refused_with_what_was_found():
    with pytest.raises(ValueError, match="x0 must lie between 0 and the attempts of its case"):
        paired_delta([1], 1, [2], 1)
    with pytest.raises(ValueError, match="clusters must name 2 cases, found 1 labels"):
        paired_delta([1, 1], 1, [0, 1], 1, ["u"])
    with pytest.raises(ValueError, match="one row per study and one column per case"):
        paired_delta_many([1, 1], 1, [0, 1], 1)
    with pytest.raises(ValueError, match="at least two clusters are needed, found 1"):
        paired_delta_many([[1, 1]], 1, [[0, 1]], 1, ["u", "u"])
    with pytest.raises(ValueError, match=r"x1 must lie between 0 and the attempts .*above 0"):
        paired_delta_many([[1, 1]], 0, [[0, 1]], 1)


def _rate_for(marginal, sd):
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    weights = weights / weights.sum()
    return brentq(lambda a: (weights * expit(a + sd * nodes)).sum() - marginal, -30, 30)


def _simulated(seed, sims, labels, attempts, p0, delta, *, between=0.0):
    """Return passes of both arms and the cases' own rates under logit-normal random effects."""
    rng = np.random.default_rng(seed)
    codes = np.unique(labels, return_inverse=True)[1]
    skill = between * rng.normal(size=(2, sims, codes.max() + 1))[:, :, codes]
    case, effect = rng.normal(size=(sims, len(codes))), 0.5 * rng.normal(size=(sims, len(codes)))
    q0 = expit(_rate_for(p0, math.hypot(1, between)) + case + skill[0])
    sd = math.sqrt(1 + 0.25 + 2 * between**2)
    q1 = expit(_rate_for(p0 + delta, sd) + case + effect + skill.sum(axis=0))
    return rng.binomial(attempts, q1), rng.binomial(attempts, q0), q1, q0


EVEN, LOPSIDED = [3, 5, 8, 12, 6, 4, 9, 11, 7, 3, 10, 6], [30] + [4] * 11


@pytest.mark.slow
@pytest.mark.parametrize("p0", [0.5, 0.87, 0.95])
@pytest.mark.parametrize("attempts", [1, 3])
@pytest.mark.parametrize("n", [2, 6, 10, 30, 100])
@pytest.mark.parametrize("delta", [0.0, 0.04])
def test_the_rule_covers_for_independent_cases(n, attempts, p0, delta):
    x1, x0, _, _ = _simulated(n, 2000, np.arange(n), attempts, p0, delta)
    found = paired_delta_many(x1, attempts, x0, attempts, p_values=False)
    # 94 % less 3.2 Monte Carlo standard errors, for 60 cells of 2,000 studies
    assert ((found.low <= delta) & (delta <= found.high)).mean() >= 0.94 - 3.2 * 0.0053


@pytest.mark.slow
@pytest.mark.parametrize("p0", [0.5, 0.87, 0.95])
@pytest.mark.parametrize("attempts", [1, 3])
@pytest.mark.parametrize("skills", [3, 5, 8, 12])
@pytest.mark.parametrize("sizes", [EVEN, LOPSIDED])
def test_the_rule_covers_for_cases_in_skills(sizes, skills, attempts, p0):
    labels = np.repeat(np.arange(skills), sizes[:skills])
    x1, x0, q1, q0 = _simulated(skills, 2000, labels, attempts, p0, 0.03, between=0.8)
    found = paired_delta_many(x1, attempts, x0, attempts, labels, p_values=False)
    truth = (q1 - q0).mean(axis=1) if skills < 5 else 0.03
    assert ((found.low <= truth) & (truth <= found.high)).mean() >= 0.94 - 3.2 * 0.0053


@pytest.mark.slow
def test_the_p_value_of_the_rule_rejects_a_true_null_at_most_as_often_as_promised():
    for n, attempts, p0 in ((10, 1, 0.5), (30, 3, 0.9), (84, 3, 0.6)):
        x1, x0, _, _ = _simulated(n, 2000, np.arange(n), attempts, p0, 0.0)
        p_values = paired_delta_many(x1, attempts, x0, attempts).p_value
        assert (p_values < 0.05).mean() <= 0.06 + 3.2 * 0.0053
