"""Difference of two bounded means, plain and within levels."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta, binom, ttest_ind

from skillcomp.stats.bounded import DELTAS, RATES, bounded_mean
from skillcomp.stats.clusters import cr2
from skillcomp.stats.gaps import independent_difference, standardised_gap


def sample(values, clusters=None, weights=None):
    return np.asarray(values, dtype=float), clusters, weights


def test_limits_are_square_and_add_of_the_two_bounded_intervals():
    first, second = [1, 1, 0, 1, 0.5, 1], [0, 0.5, 0, 1, 0, 0, 0, 0]
    a = bounded_mean(first, quantity=RATES)
    b = bounded_mean(second, quantity=RATES)
    found = independent_difference(sample(first), sample(second), quantity=RATES)
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
    found = independent_difference(sample(np.zeros(10)), sample(np.zeros(10)), quantity=RATES)
    assert found.estimate == 0
    assert (found.low, found.high) == pytest.approx((-reach, reach), abs=1e-9)
    assert found.p_value == 1.0
    assert math.isnan(found.se) and math.isnan(found.df)


def test_turning_the_samples_round_turns_the_sign():
    rng = np.random.default_rng(7)
    first, second = sample(rng.binomial(3, 0.4, 12) / 3), sample(rng.binomial(2, 0.8, 9) / 2)
    one = independent_difference(first, second, quantity=RATES, null=0.1)
    other = independent_difference(second, first, quantity=RATES, null=-0.1)
    assert (other.estimate, other.low, other.high) == pytest.approx(
        (-one.estimate, -one.high, -one.low), abs=1e-9
    )
    assert (other.p_value, other.se, other.df) == pytest.approx(
        (one.p_value, one.se, one.df), rel=1e-6
    )


@pytest.mark.parametrize("quantity", [RATES, DELTAS])
def test_the_p_value_is_the_level_at_which_a_limit_reaches_the_null(quantity):
    first, second = sample([0, 0, 0.5, 0, 0, 1, 0, 0]), sample([1, 0.5, 1, 1, 0, 1, 0.5])
    p = independent_difference(first, second, quantity=quantity).p_value
    assert 0.001 < p < 0.5
    at = independent_difference(first, second, quantity=quantity, ci_level=1 - p)
    assert at.low == pytest.approx(0, abs=1e-6)


def test_a_difference_without_doubt_has_the_smallest_p_value_told():
    found = independent_difference(sample(np.zeros(400)), sample(np.ones(400)), quantity=RATES)
    assert found.p_value == 2e-12
    assert found.low > 0.98 and found.high == 1


def test_standard_errors_combine_as_welch_does():
    first, second = np.array([0, 1, 0.5, 1, 0]), np.array([1, 1, 0, 1, 0.5, 1, 1])
    found = independent_difference(sample(first), sample(second), quantity=RATES)
    welch = ttest_ind(second, first, equal_var=False)
    assert found.estimate / found.se == pytest.approx(welch.statistic)
    assert found.df == pytest.approx(welch.df)


def test_copies_inside_a_cluster_change_nothing():
    values, clusters = np.array([1, 0, 1, 1, 0, 1.0]), np.array(list("abcdef"))
    second = sample([0, 0, 1, 0.0])
    once = independent_difference(sample(values, clusters), second, quantity=RATES)
    thrice = independent_difference(
        sample(np.repeat(values, 3), np.repeat(clusters, 3)), second, quantity=RATES
    )
    assert (thrice.low, thrice.high, thrice.p_value) == pytest.approx(
        (once.low, once.high, once.p_value), abs=1e-9
    )
    assert thrice.n_clusters == once.n_clusters == 10


def test_an_empty_sample_gives_nan_and_says_so():
    found = independent_difference(sample([]), sample([1, 0]), quantity=RATES)
    assert math.isnan(found.estimate) and math.isnan(found.low) and math.isnan(found.p_value)
    assert "no cases" in found.note


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n1", "p1", "n2", "p2"),
    [(30, 0.05, 30, 0.05), (8, 0.9, 40, 0.7), (14, 0.5, 14, 0.5), (60, 0.02, 10, 0.1)],
)
def test_the_difference_covers_the_true_one(n1, p1, n2, p2):
    rng, hits = np.random.default_rng(11), 0
    for _ in range(1500):
        first, second = (bounded_mean(rng.binomial(1, p, n)) for n, p in ((n1, p1), (n2, p2)))
        interval = second.minus(first)
        hits += interval.low <= p2 - p1 <= interval.high
    assert hits / 1500 >= 0.935


def layout(near: list[int], far: list[int]) -> tuple[np.ndarray, np.ndarray]:
    second = np.concatenate([np.repeat([0, 1], ab) for ab in zip(near, far, strict=True)])
    sizes = np.add(near, far)
    return second, np.repeat(np.arange(len(sizes)), sizes)


def test_the_gap_is_least_squares_with_a_dummy_for_each_level() -> None:
    rng = np.random.default_rng(3)
    second, levels = layout([4, 1, 2, 1], [1, 3, 2, 1])
    values = rng.uniform(-1, 1, size=15)
    fit = cr2(values, np.column_stack([second, pd.get_dummies(levels)]).astype(float), range(15))
    found = standardised_gap(values, second, levels, range(15))
    assert found.gap.estimate == pytest.approx(fit.coefficients[0])
    assert found.second.estimate - found.first.estimate == pytest.approx(fit.coefficients[0])
    assert found.gap.se == pytest.approx(fit.se[0], rel=0.25)


def test_one_level_gives_each_group_its_own_interval() -> None:
    rng = np.random.default_rng(4)
    second, levels = layout([8], [11])
    values = rng.choice([-1, 0, 0.5, 1], 19)
    found = standardised_gap(values, second, levels, range(19))
    near = bounded_mean(values[second == 0], quantity=DELTAS, null=0.0)
    assert (found.first.low, found.first.high) == pytest.approx((near.low, near.high))
    assert found.first.p_value == pytest.approx(near.p_value)


def test_what_is_the_same_in_all_cases_of_a_level_is_no_uncertainty() -> None:
    second, levels = layout([4] * 5, [4] * 5)
    rng = np.random.default_rng(5)
    noise = rng.choice([-0.1, 0.0, 0.1], 40)
    flat = standardised_gap(noise, second, levels, range(40)).gap
    steps = standardised_gap(noise + levels / 10, second, levels, range(40)).gap
    assert steps.high - steps.low == pytest.approx(flat.high - flat.low, rel=0.02)


def test_turning_the_groups_or_the_values_round_turns_the_gap() -> None:
    rng = np.random.default_rng(6)
    second, levels = layout([2, 3, 1], [3, 1, 1])
    values = rng.choice([-1, -0.5, 0, 0.5, 1], 11)
    there = standardised_gap(values, second, levels, range(11)).gap
    for back in (
        standardised_gap(-values, second, levels, range(11)).gap,
        standardised_gap(values, 1 - second, levels, range(11)).gap,
    ):
        assert (-back.high, -back.low) == pytest.approx((there.low, there.high))
        assert back.p_value == pytest.approx(there.p_value)
    assert -2 <= there.low < there.estimate < there.high <= 2


def test_no_spread_and_single_cases_have_a_width() -> None:
    second, levels = layout([1, 1], [1, 1])
    for values in ([0, 0, 0, 0], [1, 1, 1, 1], [0, 1, 0, 1], [-1, 1, 1, -1]):
        found = standardised_gap(values, second, levels, range(4))
        for one in (found.first, found.second, found.gap):
            assert one.high - one.low > 0.3


def test_levels_with_one_group_only_are_refused() -> None:
    with pytest.raises(ValueError, match="cases of both groups"):
        standardised_gap([0, 0, 0], [0, 1, 1], ["u", "u", "v"], [0, 1, 2])


@pytest.mark.parametrize(("up_near", "up_far"), [(0.05, 0.0), (0.9, 0.95)])
def test_the_gap_is_covered_where_deltas_have_little_spread(up_near: float, up_far: float) -> None:
    rng = np.random.default_rng(8)
    second, levels = layout([3, 2, 4], [3, 4, 2])
    share = np.where(second == 1, up_far, up_near)
    covered = 0
    for _ in range(60):
        values = (rng.random(18) < share).astype(float)
        gap = standardised_gap(values, second, levels, range(18)).gap
        covered += gap.low <= up_far - up_near <= gap.high
    assert covered >= 53  # 60 at 95 %: fewer in 1 % of runs


def test_a_small_group_with_all_the_spread_is_no_less_sure_than_alone() -> None:
    # 14 near and 100 far cases, nothing passes anywhere: the near delta alone is +-.2
    second = np.repeat([0, 1], [14, 100])
    found = standardised_gap(np.zeros(114), second, np.zeros(114), range(114))
    assert found.gap.high - found.gap.low >= found.first.high - found.first.low
    # 25 near cases of which 7 % flip, 200 far ones that never do: exact coverage
    rows, chances = range(26), binom.pmf(range(26), 25, 0.07)
    covered = 0.0
    for k, chance in zip(rows, chances, strict=True):
        if chance < 1e-4:
            continue
        values = np.r_[np.ones(k), np.zeros(225 - k)]
        gap = standardised_gap(values, np.repeat([0, 1], [25, 200]), np.zeros(225), range(225)).gap
        covered += chance * (gap.low <= -0.07 <= gap.high)
    assert covered >= 0.94
