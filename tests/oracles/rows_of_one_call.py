"""A second way to the p-values of several rows of one call, row by row."""

from __future__ import annotations

import math

import numpy as np
from scipy import stats
from scipy.special import polygamma


def p_values(rows):
    """Return the p-value of each row; a row is (estimate, se, cases, share of mixed outcomes).

    The variance per case is that of the row, drawn to the plain mean of the rows with a weight of
    at most the row's df; one imagined case that differs by 1 stands in where rows say little. The
    p-value is NaN for a row without a standard error.
    """
    usable = [row for row in rows if not math.isnan(row[1])]
    variances = [se**2 * n for _, se, n, _ in usable]
    several = len(usable) >= 3
    prior_df = 0.0
    if several:
        spread = np.var(np.log(np.maximum(variances, 1e-4)), ddof=1)
        chance = np.mean([polygamma(1, (n - 1) / 2) for _, _, n, _ in usable])
        prior_df = 2 / (spread - chance) if spread - chance > 1e-6 else math.inf
    result = []
    for estimate, se, n, mixed in rows:
        if math.isnan(se):
            result.append(math.nan)
            continue
        df = n - 1
        weight = min(prior_df, df)
        total = df * se**2 * n
        if several:
            total += weight * np.mean(variances) + (1 - mixed) * (1 - weight / df)
        t = abs(estimate) / math.sqrt(total / (weight + df) / n)
        result.append(2 * stats.t.sf(t, df + weight))
    return result
