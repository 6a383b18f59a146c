"""Wilson's score interval for the pass rate of independent cases.

For several attempts per case, or cases in clusters, use
:func:`skillcomp.stats.bounded.bounded_mean`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skillcomp.stats.results import Interval, check_level, quantile, undefined

Floats = NDArray[np.float64]


def check_counts(**counts: float) -> None:
    """Raise ValueError if a count is negative or not finite; name the first such count."""
    for name, value in counts.items():
        if not (math.isfinite(value) and value >= 0):
            raise ValueError(f"{name} must be a count of at least 0, found {value!r}.")


def wilson_limits(rate: Any, n: Any, q: Any) -> tuple[Floats, Floats]:
    """Return Wilson's limits of rates over ``n`` units, element by element.

    ``q`` is the normal quantile of the confidence level. ``n`` may be fractional. The lower limit
    of a rate of 0 is exactly 0, and the upper limit of a rate of 1 is exactly 1.
    """
    p, units, z = np.asarray(rate, float), np.asarray(n, float), np.asarray(q, float)
    z2n = z * z / units
    centre = (p + z2n / 2.0) / (1.0 + z2n)
    half = np.sqrt(z2n * (p * (1.0 - p) + z2n / 4.0)) / (1.0 + z2n)
    low = np.where(p <= 0.0, 0.0, np.clip(centre - half, 0.0, p))
    high = np.where(p >= 1.0, 1.0, np.clip(centre + half, p, 1.0))
    return low, high


def wilson(successes: float, n: float, *, ci_level: float = 0.95) -> Interval:
    """Estimate a pass rate with Wilson's score interval.

    Cases must be independent. For cases in clusters, or several attempts per case, use
    :func:`skillcomp.stats.bounded.bounded_mean`.

    Parameters
    ----------
    successes, n : float
        Number of passed cases, and number of all cases; both may be fractional.
    ci_level : float, default 0.95
        Confidence level.

    Returns
    -------
    Interval
        Rate with limits that are inside [0, 1] and never equal. NaN with a note if ``n`` is 0.

    Raises
    ------
    ValueError
        If a count is negative or ``successes > n``.

    Notes
    -----
    Results are checked against R's ``prop.test`` and scipy's ``binomtest``.

    References
    ----------
    Wilson 1927, doi:10.1080/01621459.1927.10502953; Newcombe 1998, Statistics in Medicine 17:857.

    Examples
    --------
    >>> ci = wilson(9, 10)
    >>> round(ci.low, 4), round(ci.high, 4)
    (0.5958, 0.9821)
    """
    check_level(ci_level)
    check_counts(successes=successes, n=n)
    label = "Wilson score"
    if successes > n * (1 + 1e-12):
        raise ValueError(f"successes must not exceed n = {n:g}, found {successes:g}.")
    if n == 0:
        return undefined(label, "no units", ci_level=ci_level, n=0.0)
    rate = min(successes / n, 1.0)
    low, high = wilson_limits(rate, n, quantile(ci_level))
    return Interval(rate, float(low), float(high), ci_level, label, n=float(n))
