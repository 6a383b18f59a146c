"""Position effect of pairs that were shown in one order, by plain counting."""

from __future__ import annotations

from collections import defaultdict


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
