"""Bootstrap and jackknife over whole units, such as cases or documents."""

from __future__ import annotations

import math
from collections.abc import Callable

import joblib
import numpy as np

from skillcomp.stats.results import NAN, Floats

# largest number of array elements in memory; 10,000 units then need less than 100 MB
_BLOCK = 1_000_000
_PERFECT = 1.0 - 1e-12
_FLAT = 1e-12  # a standard error below this is a rounding error


def resampled_values(
    statistic: Callable[[Floats], Floats], n_units: int, n_resamples: int, seed: int, *, width: int
) -> Floats:
    """Return a statistic of each resample of the units, without those that are undefined.

    Parameters
    ----------
    statistic : callable
        Takes counts, shape (resamples, units): how often each resample contains each unit. Returns
        one number per resample; NaN if it is undefined.
    n_units, n_resamples, seed : int
        Number of units, number of resamples, and seed of the random generator.
    width : int
        Number of array elements that the statistic needs for one resample.

    Returns
    -------
    ndarray of float
        The values that are defined, at most ``n_resamples``.
    """
    rng, share = np.random.default_rng(seed), np.full(n_units, 1.0 / n_units)
    block = max(1, _BLOCK // max(width, n_units))
    # draw the resamples here, in order, so that the result is the same for any number of workers
    draws = (
        rng.multinomial(n_units, share, min(block, n_resamples - start)).astype(float)
        for start in range(0, n_resamples, block)
    )
    values = np.concatenate(joblib.Parallel()(map(joblib.delayed(statistic), draws)))
    return np.asarray(values[np.isfinite(values)])


def jackknifed_z(estimate: float, left: Floats) -> tuple[float, float, float]:
    """Return Fisher's z of a coefficient, its standard error and their degrees of freedom.

    ``left`` has the coefficient without each of the units. The degrees of freedom are the number of
    units minus 1, and fewer if few units make up most of the variance: 2 n / (k - 1) for n units
    and the kurtosis k of their values. The standard error is 0 if no unit changes the coefficient,
    and NaN if it is 1 or -1, or becomes so or undefined without a unit.
    """
    n = len(left)
    if n < 2 or not np.abs([estimate, *left]).max() < _PERFECT:
        return NAN, NAN, NAN
    z = np.arctanh(left)
    squares = (z - z.mean()) ** 2
    se = math.sqrt((n - 1) / n * squares.sum())
    if se <= _FLAT:
        return math.atanh(estimate), 0.0, n - 1.0
    kurtosis = n * (squares**2).sum() / squares.sum() ** 2
    return math.atanh(estimate), se, min(n - 1.0, 2.0 * n / max(kurtosis - 1.0, _FLAT))
