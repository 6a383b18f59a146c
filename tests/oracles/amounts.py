"""Plain, slow forms of the comparison of two paired amounts (STATISTICS, H5)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import mean, variance

import numpy as np
from scipy.stats import t as student


def total_ratio(new: Sequence[float], old: Sequence[float]) -> tuple[float, float, float]:
    """Return the ratio of the totals and all ratios r that a t test of new - r old accepts."""
    n, limit = len(new), student.ppf(0.975, len(new) - 1)

    def distance(r: float) -> float:
        rest = [x - r * y for x, y in zip(new, old, strict=True)]
        return abs(mean(rest)) - limit * math.sqrt(variance(rest) / n)

    if distance_of_mean(old, limit) <= 0:
        return sum(new) / sum(old), math.nan, math.nan
    ratio = sum(new) / sum(old)
    ends = []
    for side in (-1.0, 1.0):
        inside, step = ratio, 0.001 * side * max(ratio, 1e-6)
        while distance(inside + step) < 0:
            inside, step = inside + step, 1.5 * step
        outside = inside + step
        for _ in range(200):
            middle = (inside + outside) / 2
            inside, outside = (middle, outside) if distance(middle) < 0 else (inside, middle)
        ends.append(inside)
    return ratio, ends[0], ends[1]


def distance_of_mean(values: Sequence[float], limit: float) -> float:
    """Return how far the t interval of a mean is above 0."""
    return abs(mean(values)) - limit * math.sqrt(variance(values) / len(values))


def amount_change(new: Sequence[float], old: Sequence[float]) -> tuple[float, float, float]:
    """Return the difference of two means with square-and-add of their modified Cox limits."""
    n, limit = len(new), student.ppf(0.975, len(new) - 1)
    reach = []
    for side in (new, old):
        logs = [math.log(x) for x in side]
        s2 = variance(logs)
        half = limit * math.sqrt(s2 / n + s2**2 / (2 * (n - 1)))
        middle = math.exp(mean(logs) + s2 / 2)
        low, high = (
            min(middle * math.exp(-half), mean(side)),
            max(middle * math.exp(half), mean(side)),
        )
        reach.append((mean(side) - low, high - mean(side)))
    (down1, up1), (down0, up0) = reach
    plain, of_logs = (np.corrcoef(a, b)[0, 1] for a, b in ((new, old), (np.log(new), np.log(old))))
    r = min(max(min(plain, of_logs), 0.0), 1.0)
    change = mean(new) - mean(old)
    steps = [x - y for x, y in zip(new, old, strict=True)]
    least = limit * math.sqrt(variance(steps) / n)
    down = math.sqrt(max(down1**2 + up0**2 - 2 * r * down1 * up0, 0.0))
    up = math.sqrt(max(up1**2 + down0**2 - 2 * r * up1 * down0, 0.0))
    return change, change - max(down, least), change + max(up, least)
