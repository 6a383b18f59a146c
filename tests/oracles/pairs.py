"""Position effect of pairs that were shown in one order, by plain counting."""

from __future__ import annotations

from collections import defaultdict

import numpy as np


def difference_of_orders(pairs: list[tuple[str, str, float]]) -> float:
    """Return the win rate of a system shown first minus its win rate shown second, in points.

    ``pairs`` has the system shown first, the system shown second, and the result of the first (1,
    0, or 0.5 for a tie). Each two systems have the difference of their two orders. The differences
    are averaged with the weights n m / (n + m) for n and m pairs in the two orders.
    """
    results: dict[tuple[str, str], list[float]] = defaultdict(list)
    for first, second, result in pairs:
        results[first, second].append(result)
    total = weights = 0.0
    for one, other in {tuple(sorted(key)) for key in results}:
        ahead, behind = results[one, other], [1 - result for result in results[other, one]]
        n, m = len(ahead), len(behind)
        if n and m:
            weight = n * m / (n + m)
            total += weight * (sum(ahead) / n - sum(behind) / m)
            weights += weight
    return 100 * total / weights


def effect_of_a_difference(pairs: list[tuple[float, ...]]) -> float:
    """Return the slope of an answer's win rate on its difference from the other answer, in points.

    ``pairs`` has, for one answer of each pair, its result, its result by gold (1, 0 or 0.5), its
    difference, and the differences to hold constant, such as its place (0.5 if shown first, -0.5 if
    second). Each pair is turned so that the winner by gold comes first. The intercept is then the
    grader's agreement with gold; pairs that are tied by gold have none.
    """
    result, gold, *differences = np.array(pairs, float).T
    turn = np.where(gold < 0.5, -1.0, 1.0)
    columns = [turn * column for column in differences] + [1.0 * (gold != 0.5)]
    return 100 * np.linalg.lstsq(np.column_stack(columns), turn * (result - 0.5))[0][0]
