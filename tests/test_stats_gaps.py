import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from skillcomp.stats.bounded import DELTAS, bounded_mean
from skillcomp.stats.clusters import cr2
from skillcomp.stats.gaps import standardised_gap


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


def test_copies_of_a_cluster_change_nothing() -> None:
    rng = np.random.default_rng(7)
    second, levels = layout([3, 2], [2, 3])
    values = rng.choice([-1, 0, 1], 10)
    alone = standardised_gap(values, second, levels, range(10)).first
    twice = standardised_gap(
        np.repeat(values, 2), np.repeat(second, 2), np.repeat(levels, 2), np.repeat(range(10), 2)
    ).first
    assert (twice.low, twice.high) == pytest.approx((alone.low, alone.high))


def test_levels_with_one_group_only_are_refused() -> None:
    with pytest.raises(ValueError, match="cases of both groups"):
        standardised_gap([0, 0, 0], [0, 1, 1], ["u", "u", "v"], [0, 1, 2])


@pytest.mark.parametrize(("up_near", "up_far"), [(0.05, 0.0), (0.1, 0.1), (0.9, 0.95)])
def test_the_gap_is_covered_where_deltas_have_little_spread(up_near: float, up_far: float) -> None:
    rng = np.random.default_rng(8)
    second, levels = layout([3, 2, 4], [3, 4, 2])
    share = np.where(second == 1, up_far, up_near)
    covered = 0
    for _ in range(200):
        values = (rng.random(18) < share).astype(float)
        gap = standardised_gap(values, second, levels, range(18)).gap
        covered += gap.low <= up_far - up_near <= gap.high
    assert covered >= 186  # 200 at 95 %: fewer in 0.3 % of runs


def test_a_small_group_with_all_the_spread_is_no_less_sure_than_alone() -> None:
    # 14 near and 100 far cases, nothing passes anywhere: the near delta alone is +-.2
    second = np.repeat([0, 1], [14, 100])
    found = standardised_gap(np.zeros(114), second, np.zeros(114), range(114))
    assert found.gap.high - found.gap.low >= found.first.high - found.first.low
    # 25 near cases of which 7 % flip, 200 far ones that never do: exact coverage
    rows, chances = range(26), binom.pmf(range(26), 25, 0.07)
    covered = 0.0
    for k, chance in zip(rows, chances, strict=True):
        if chance < 1e-9:
            continue
        values = np.r_[np.ones(k), np.zeros(225 - k)]
        gap = standardised_gap(values, np.repeat([0, 1], [25, 200]), np.zeros(225), range(225)).gap
        covered += chance * (gap.low <= -0.07 <= gap.high)
    assert covered >= 0.94
