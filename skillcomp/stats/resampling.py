"""Bootstrap over whole units, such as cases or documents."""

from __future__ import annotations

from collections.abc import Callable

import joblib
import numpy as np

from skillcomp.stats.results import Floats

# largest number of array elements in memory; 10,000 units then need less than 100 MB
_BLOCK = 1_000_000


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
