"""Limits of a slope by trying one slope after the other: t of CR2, widened by a score test."""

from __future__ import annotations

import numpy as np
from scipy.stats import norm, t

from skillcomp.stats.clusters_and_amounts import cr2


def widened_slope(verdict, feature, strata, clusters, control, step=1e-4):
    """Return the slope within strata, given a control, and the last slopes that are not excluded.

    A slope is excluded if it is farther from the estimate than t allows and farther than a score
    test allows. The test takes the chance of each verdict from the fitted line at this slope, with
    half a verdict per stratum added, and multiplies its variance by the design effect.
    """
    levels, n = np.unique(strata), len(verdict)
    dummies = np.array([[float(s == level) for level in levels] for s in strata])
    others = np.column_stack([dummies, control])
    fit = cr2(verdict, np.column_stack([feature, others]), clusters)[0]
    se = 0.0 if np.isnan(fit.se) else fit.se
    df = 1.0 if np.isnan(fit.df) else max(fit.df, 1.0)

    def without_others(values):
        return values - others @ np.linalg.lstsq(others, values, rcond=None)[0]

    value, rest = without_others(feature), without_others(verdict)
    total = sum(value**2)
    independent = sum((value * (rest - fit.estimate * value)) ** 2) / total**2
    largest = max(np.unique(clusters, return_counts=True)[1])
    design = 1.0
    if independent > 1e-10:
        design = min(max(se**2 / independent, 1.0), largest)

    def is_excluded(slope):
        variance = 0.0
        for i in range(n):
            size = sum(strata == strata[i])
            chance = min(max(verdict[i] - rest[i] + slope * value[i], 0.0), 1.0)
            chance = (chance * size + 0.5) / (size + 1.0)
            variance += design * value[i] ** 2 * chance * (1 - chance) / total**2
        away = abs(slope - fit.estimate)
        return away > t.ppf(0.975, df) * se and away > norm.ppf(0.975) * variance**0.5

    limits = []
    for side in (-1, 1):
        slope = fit.estimate
        while not is_excluded(slope + side * step):
            slope += side * step
        limits.append(slope)
    return fit.estimate, *limits
