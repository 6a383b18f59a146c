"""How much a straight line explains: against R, statsmodels, sklearn and brute force."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import LeaveOneGroupOut, cross_val_predict

from skillcomp.stats import association, detectable_r_squared

# R's data set `cars` (Ezekiel 1930): speed and stopping distance of fifty cars
SPEED = np.repeat(
    [4, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 22, 23, 24, 25],
    [2, 2, 1, 1, 3, 2, 4, 4, 4, 3, 2, 3, 4, 3, 5, 1, 1, 4, 1],
)
DISTANCE = [
    *(2, 10, 4, 22, 16, 10, 18, 26, 34, 17, 28, 14, 20, 24, 28, 26, 34, 34, 46, 26, 36, 60, 80),
    *(20, 26, 54, 32, 40, 32, 40, 50, 42, 56, 76, 84, 36, 46, 68, 32, 48, 52, 56, 64, 66, 54, 70),
    *(92, 93, 120, 85),
]


def drawn(n: int, clusters: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    label = rng.integers(0, clusters, n)
    shift = rng.normal(size=clusters)[label]
    x = rng.normal(size=n)
    return x, 0.5 * x + shift + rng.normal(size=n), label


def test_it_gives_what_r_prints_of_the_cars() -> None:
    # summary(lm(dist ~ speed, cars)), R 4.3: Multiple R-squared 0.6511, Adjusted 0.6438;
    # cor(cars, method = "spearman"): 0.8303568
    found = association(SPEED, DISTANCE)
    assert round(found.r_squared.estimate, 4) == 0.6511
    assert round(found.adjusted.estimate, 4) == 0.6438
    assert round(found.spearman.estimate, 7) == 0.8303568
    assert found.r_squared.low < 0.6511 < found.r_squared.high


def test_the_cross_validated_share_is_that_of_sklearn() -> None:
    x, y, label = drawn(60, 12)
    fold = {"groups": label, "cv": LeaveOneGroupOut()}
    line = cross_val_predict(LinearRegression(), x[:, None], y, **fold)
    mean = cross_val_predict(LinearRegression(), np.zeros((60, 1)), y, **fold)
    share = 1 - ((y - line) ** 2).sum() / ((y - mean) ** 2).sum()
    assert association(x, y, label).cross_validated.estimate == pytest.approx(share)


def test_the_limits_are_those_of_leaving_clusters_out_one_by_one() -> None:
    x, y, label = drawn(60, 12)
    rest = [math.atanh(np.corrcoef(x[label != g], y[label != g])[0, 1]) for g in range(12)]
    se = math.sqrt(11 / 12 * ((np.array(rest) - np.mean(rest)) ** 2).sum())
    z = math.atanh(np.corrcoef(x, y)[0, 1])
    low, high = (math.tanh(z + side * stats.t.ppf(0.975, 11) * se) for side in (-1, 1))
    found = association(x, y, label).r_squared
    assert low > 0
    assert (found.low, found.high) == pytest.approx((low**2, high**2))
    assert found.p_value == pytest.approx(2 * stats.t.sf(z / se, 11))


numbers = st.lists(st.integers(-50, 50), min_size=12, max_size=30)


@settings(max_examples=25, deadline=None)
@given(numbers, st.integers(0, 10**6), st.floats(-9, 9).filter(lambda a: abs(a) > 0.01))
def test_scale_order_and_direction_change_nothing(x: list[int], seed: int, a: float) -> None:
    rng = np.random.default_rng(seed)
    y = rng.normal(size=len(x))
    turn = rng.permutation(len(x))
    plain = association(x, y)
    other = association(3 + a * np.array(x)[turn], y[turn])
    for name in ("r_squared", "adjusted", "cross_validated"):
        one, two = getattr(plain, name), getattr(other, name)
        for value in ("estimate", "low", "high", "p_value"):
            expected = pytest.approx(getattr(one, value), abs=1e-6, nan_ok=True)
            assert getattr(two, value) == expected
    found = plain.r_squared
    if not math.isnan(found.low):
        assert 0 <= found.low <= found.estimate <= found.high <= 1
        assert found.low < found.high


@pytest.mark.parametrize(
    ("x", "y", "note"),
    [
        ([], [], "0 units"),
        ([1, 2], [1, 2], "2 units"),
        ([5, 5, 5, 5], [1, 2, 3, 4], "x is the same in all units"),
        ([1, 2, 3, 4], [0.7] * 4, "y is the same in all units"),
        ([1, 2, 3, 4], [1, 3, 2, 4], "4 clusters are too few for limits"),
        (list(range(12)), list(range(12)), "the fit is perfect"),
        ([0] * 11 + [1], list(range(12)), "rests on one cluster"),
    ],
)
def test_what_is_not_known_is_nan_with_the_reason(x: list, y: list, note: str) -> None:
    found = association(x, y).r_squared
    assert note in found.note
    assert math.isnan(found.low) and math.isnan(found.high) and math.isnan(found.p_value)


def test_what_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="leave out what is missing"):
        association([1, 2, np.nan], [1, 2, 3])
    with pytest.raises(ValueError, match="one entry per unit"):
        association([1, 2], [1, 2, 3])


def test_so_many_units_show_what_cohen_says() -> None:
    # Cohen 1992, A power primer, table 2: 783, 85 and 28 for r = .10, .30, .50 (power .80, 5 %)
    for n, r in ((783, 0.10), (85, 0.30), (28, 0.50)):
        assert detectable_r_squared(n) ** 0.5 == pytest.approx(r, abs=0.003)
        assert detectable_r_squared(n - 1) > detectable_r_squared(n)
    # pwr.r.test(r = 0.3, power = 0.8), R package pwr 1.3-0: n = 84.07364
    assert detectable_r_squared(84.07364) ** 0.5 == pytest.approx(0.3, abs=1e-6)
    assert math.isnan(detectable_r_squared(3))
