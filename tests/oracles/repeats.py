"""Repeats that share a run (STATISTICS, H7), computed with loops, one condition at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence

from scipy import stats

Table = Sequence[Sequence[float]]  # cases by repeats


def _sums(table: Table, clusters: Sequence[str]) -> list[list[float]]:
    """Return the deviations from the mean of the case, summed over the cases of each cluster."""
    sums: dict[str, list[float]] = {}
    for values, cluster in zip(table, clusters, strict=True):
        mean = sum(values) / len(values)
        before = sums.get(cluster, [0.0] * len(values))
        sums[cluster] = [old + value - mean for old, value in zip(before, values, strict=True)]
    return list(sums.values())


def variances(table: Table, clusters: Sequence[str]) -> tuple[float, float]:
    """Return the mean squares between repeats and within them, of the sums over clusters."""
    sums = _sums(table, clusters)
    n, k = len(sums), len(sums[0])
    means = [sum(row[r] for row in sums) / n for r in range(k)]
    between = n * sum(mean**2 for mean in means) / (k - 1)
    rest = sum((row[r] - means[r]) ** 2 for row in sums for r in range(k))
    return between, rest / ((k - 1) * (n - 1))


def p_values(table: Table, clusters: Sequence[str]) -> tuple[float, float]:
    """Return the p-values of any difference between repeats, and of a linear trend."""
    sums = _sums(table, clusters)
    n, k = len(sums), len(sums[0])
    between, within = variances(table, clusters)
    middle = (k - 1) / 2
    slopes = [sum((r - middle) * value for r, value in enumerate(row)) for row in sums]
    return (
        float(stats.f.sf(between / within, k - 1, (k - 1) * (n - 1))),
        float(stats.ttest_1samp(slopes, 0.0).pvalue),
    )


def widened(estimate: float, low: float, high: float, arms: Sequence[Table]) -> tuple[float, float]:
    """Return the limits of a 95 % interval of a delta for other runs; each case is a cluster."""
    extra = total = parts = 0.0
    for table in arms:
        n, k = len(table), len(table[0])
        between, within = variances(table, [str(case) for case in range(n)])
        extra += max(between - within, 0.0) / (n * k)
        total += between / (n * k)
        parts += (between / (n * k)) ** 2 / (k - 1)
    more = float(stats.t.ppf(0.975, total**2 / parts)) * math.sqrt(extra)
    return estimate - math.hypot(estimate - low, more), estimate + math.hypot(high - estimate, more)
