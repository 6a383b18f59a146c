"""Spread of effects between units, partial pooling and the next unit."""

import math

import numpy as np
import pytest
from statsmodels.stats.meta_analysis import combine_effects

from skillcomp.errors import FrameError
from skillcomp.stats import prediction_interval, random_effects

# BCG vaccine against tuberculosis, 13 trials (Colditz et al. 1994; metafor's dat.bcg)
BCG = np.array([
    (4, 119, 11, 128), (6, 300, 29, 274), (3, 228, 11, 209), (62, 13536, 248, 12619),
    (33, 5036, 47, 5761), (180, 1361, 372, 1079), (8, 2537, 10, 619), (505, 87886, 499, 87892),
    (29, 7470, 45, 7232), (17, 1699, 65, 1600), (186, 50448, 141, 27197), (5, 2493, 3, 2338),
    (27, 16886, 29, 17825),
], dtype=float)  # fmt: skip
TREATED, CONTROLS = BCG[:, 0] + BCG[:, 1], BCG[:, 2] + BCG[:, 3]
Y = np.log(BCG[:, 0] / TREATED) - np.log(BCG[:, 2] / CONTROLS)
V = 1 / BCG[:, 0] - 1 / TREATED + 1 / BCG[:, 2] - 1 / CONTROLS


def test_the_spread_of_a_published_meta_analysis() -> None:
    sd = random_effects(Y, V).sd
    # metafor 4.0, confint(rma(yi, vi, data=dat)): tau between 0.3460 and 1.0543 (Q profile)
    assert (sd.low, sd.high) == pytest.approx((0.3460, 1.0543), abs=1e-4)
    combined = combine_effects(Y, V, method_re="iterated")
    assert sd.estimate == pytest.approx(math.sqrt(combined.tau2))
    # metafor: test for heterogeneity Q(df = 12) = 152.2330, p < .0001
    assert sd.p_value < 1e-4 and combined.q == pytest.approx(152.2330, abs=1e-3)


def test_pooled_effects_lie_between_the_mean_and_the_effect() -> None:
    pooled = random_effects(Y, V).pooled
    mean = combine_effects(Y, V, method_re="iterated").mean_effect_re
    between = [min(mean, y) - 0.1 < unit.estimate < max(mean, y) + 0.1
               for y, unit in zip(Y, pooled, strict=True)]  # fmt: skip
    assert all(between)
    width = np.array([unit.high - unit.low for unit in pooled])
    assert (width > 0).all() and (width < 2 * 1.96 * np.sqrt(V) * 1.02).all()
    # without error of the effects there is nothing to pool; the spread is that of a sample
    known = random_effects(Y, 0 * V)
    assert known.sd.estimate == pytest.approx(Y.std(ddof=1))
    assert math.isnan(known.pooled[0].low) and "no spread within" in known.pooled[0].note


def test_effects_more_alike_than_their_errors_have_no_limits() -> None:
    for last in (0.21, 0.2):
        sd = random_effects([0.2, 0.2, 0.2, 0.2, last], [0.01] * 5).sd
        assert sd.estimate == 0 and math.isnan(sd.high) and "less than their errors" in sd.note


def test_the_prediction_interval_reaches_the_observed_effects() -> None:
    # mean .2, s .0707, t(3) = 3.1824: .2 +- 3.1824 * .0707 * sqrt(1.2)
    interval = prediction_interval([0.1, 0.2, 0.3, 0.2, 0.2])
    assert (interval.low, interval.high) == pytest.approx((-0.04651, 0.44651), abs=1e-5)
    # one carrier among 30: the t interval ends at .35
    carrier = prediction_interval([0.0] * 29 + [0.6])
    assert carrier.high == 0.6 and carrier.low == pytest.approx(-0.2081, abs=1e-4)
    # from 79 units on, the second smallest and the second largest
    assert prediction_interval([0.0] * 78 + [0.6]).high < 0.6
    narrow = prediction_interval(np.arange(8) / 10, ci_level=0.5)  # rank 9 / 4, and t is nearer
    assert (narrow.low, narrow.high) == pytest.approx((0.1, 0.6))
    assert prediction_interval([0.2, 0.9, 1.0], bounds=(-1.0, 1.0)).high == 1
    alike = prediction_interval([0.2] * 5)
    assert math.isnan(alike.low) and "spread is unknown" in alike.note


def test_two_effects_are_too_few() -> None:
    with pytest.raises(FrameError, match="three or more"):
        prediction_interval([0.1, 0.2])
    with pytest.raises(FrameError, match="as many variances"):
        random_effects([0.1, 0.2, 0.3], [0.1])
