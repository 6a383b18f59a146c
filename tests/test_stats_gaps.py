"""Difference of two bounded means, plain and within levels."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta

from skillcomp.stats.bounded import DELTAS, RATES, bounded_mean
from skillcomp.stats.clusters_and_amounts import cr2
from skillcomp.stats.gaps import bounded_slope, standardised_gap


def difference(first, second, **how):
    """Second minus first, of different cases."""
    values = np.concatenate([first, second]).astype(float)
    column = np.repeat([[0.0], [1.0]], [len(first), len(second)], axis=0)
    label = np.arange(len(values))
    return bounded_slope(values, column, np.zeros(len(values)), label, **how)


def test_two_groups_without_spread_differ_by_no_more_than_one_of_them_allows():
    # forty zeros and a pseudo-case of weight c at 2, because a single 1 in a group of twenty
    # moves the difference twice as far as one of forty: 2 times a quantile of Beta(c, 40)
    reach = 2 * beta.ppf(0.975, RATES.c, 40)
    found = difference(np.zeros(20), np.zeros(20))
    assert (found.estimate, found.p_value) == (0, 1)
    assert (found.low, found.high) == pytest.approx((-reach, reach), abs=1e-8)
    assert found.high == pytest.approx(bounded_mean(np.zeros(20)).high, rel=0.05)


def test_the_slope_is_that_of_least_squares_given_levels_and_other_columns():
    rng = np.random.default_rng(2)
    columns, levels = rng.normal(size=(60, 2)), np.repeat(np.arange(3), 20)
    values, cases = rng.integers(0, 2, 60).astype(float), np.arange(60) % 15
    fit = cr2(values, np.column_stack([columns, np.eye(3)[levels]]), cases)[0]
    plain, textbook = (
        bounded_slope(values, columns, levels, cases, interval=rule) for rule in ("bounded", "t")
    )
    assert (textbook.low, textbook.high) == pytest.approx((fit.low, fit.high))
    assert plain.estimate == pytest.approx(fit.estimate)
    assert plain.low < fit.estimate < plain.high
    twice = bounded_slope(values, 2 * columns, levels, cases, interval="bounded")
    assert (twice.low, twice.high) == pytest.approx((plain.low / 2, plain.high / 2))


@pytest.mark.parametrize("interval", ["adaptive", "bounded"])
def test_the_p_value_is_the_level_at_which_a_limit_reaches_zero(interval):
    first, second = [0, 0, 1, 0, 0, 1, 0, 0], [1, 0, 1, 1, 0, 1, 1, 1, 1]
    how = {"units": np.arange(17), "interval": interval}
    p = difference(first, second, **how).p_value
    assert 0.001 < p < 0.5
    assert difference(first, second, ci_level=1 - p, **how).low == pytest.approx(0, abs=1e-6)


def layout(near: list[int], far: list[int]) -> tuple[np.ndarray, np.ndarray]:
    second = np.concatenate([np.repeat([0, 1], ab) for ab in zip(near, far, strict=True)])
    sizes = np.add(near, far)
    return second, np.repeat(np.arange(len(sizes)), sizes)


def test_the_gap_is_least_squares_with_a_dummy_for_each_level() -> None:
    rng = np.random.default_rng(3)
    second, levels = layout([4, 1, 2, 1], [1, 3, 2, 1])
    values = rng.uniform(-1, 1, size=15)
    fit = cr2(values, np.column_stack([second, pd.get_dummies(levels)]).astype(float), range(15))[0]
    found = standardised_gap(values, second, levels, range(15))
    assert found.gap.estimate == pytest.approx(fit.estimate)
    assert found.second.estimate - found.first.estimate == pytest.approx(fit.estimate)
    assert found.gap.se == pytest.approx(fit.se, rel=0.25)


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


def test_levels_with_one_group_only_are_refused() -> None:
    with pytest.raises(ValueError, match="weights must be above 0"):
        standardised_gap([0, 0, 0], [0, 1, 1], ["u", "u", "v"], [0, 1, 2])


def test_a_small_group_with_all_the_spread_is_no_less_sure_than_alone() -> None:
    # 14 near and 100 far cases, nothing passes anywhere: the near delta alone is +-.2
    second = np.repeat([0, 1], [14, 100])
    found = standardised_gap(np.zeros(114), second, np.zeros(114), range(114))
    assert found.gap.high - found.gap.low >= found.first.high - found.first.low


def test_a_t_interval_of_too_many_small_levels_is_unknown() -> None:
    level = np.repeat(np.arange(600), 3)
    values, column = np.random.default_rng(0).random((2, 1_800))
    slope = bounded_slope(values, column[:, None], level, level, interval="t")
    assert np.isfinite(slope.estimate) and np.isnan([slope.low, slope.se, slope.p_value]).all()
    assert "use another interval" in slope.note
