"""Array kernels of the score intervals: Wilson limits, square-and-add, inversion to a p-value.

Everything here works elementwise on arrays of any one shape, so that the functions for one study
and those for thousands of simulated studies share one implementation.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, elementwise
from scipy.stats import t as student_t

__all__ = ["quantile", "reduced_phi", "square_and_add", "square_and_add_p", "wilson_limits"]

Floats = NDArray[np.float64]

# Quantile 1e6 as a share q / (1 + q), beyond which a p-value is reported as that of the quantile
# itself (below 1e-15 for every df above 2); only there to close the bracket of the root search.
_LARGEST_SHARE = 1.0 - 1e-6


def quantile(ci_level: float, df: float = np.inf) -> float:
    """Two-sided t quantile of ``ci_level``; the normal one at ``df=inf``.

    Parameters
    ----------
    ci_level : float
        Confidence level, strictly between 0 and 1.
    df : float, default inf
        Degrees of freedom.

    Returns
    -------
    float
        The quantile, positive.

    Examples
    --------
    >>> round(quantile(0.95), 6)
    1.959964
    """
    return float(student_t.isf((1.0 - ci_level) / 2.0, df))


def wilson_limits(rate: Any, n: Any, q: Any) -> tuple[Floats, Floats]:
    """Wilson score limits of a rate on ``n`` units (which may be fractional) at quantile ``q``.

    Parameters
    ----------
    rate, n, q : float or array
        Rate between 0 and 1, number of units above 0, quantile of the reference distribution.

    Returns
    -------
    tuple of array
        Lower and upper limit, inside [0, 1]; exactly 0 at rate 0 and exactly 1 at rate 1.

    Notes
    -----
    Wilson 1927, doi:10.1080/01621459.1927.10502953. Statsmodels has it for a normal quantile only;
    the clustered intervals need a t quantile and arrays of effective n.
    """
    p, units, z = np.asarray(rate, float), np.asarray(n, float), np.asarray(q, float)
    z2n = z * z / units
    centre = (p + z2n / 2.0) / (1.0 + z2n)
    half = np.sqrt(z2n * (p * (1.0 - p) + z2n / 4.0)) / (1.0 + z2n)
    low = np.where(p <= 0.0, 0.0, np.clip(centre - half, 0.0, p))
    high = np.where(p >= 1.0, 1.0, np.clip(centre + half, p, 1.0))
    return low, high


def reduced_phi(phi: Any, rate1: Any, rate0: Any, n: Any) -> Floats:
    """Correlation of the two arms, reduced by Newcombe's correction when it is positive.

    Parameters
    ----------
    phi : float or array
        Correlation of the two arms' rates, NaN where one of them does not vary.
    rate1, rate0 : float or array
        Pass rates of the two arms.
    n : float or array
        (Effective) number of pairs.

    Returns
    -------
    array
        ``max(phi - 1 / (2 n sqrt(p1 q1 p0 q0)), 0)`` when ``phi > 0``, else ``phi``; 0 when NaN.
    """
    p1, p0, r = np.asarray(rate1, float), np.asarray(rate0, float), np.asarray(phi, float)
    spread = np.sqrt(p1 * (1.0 - p1) * p0 * (1.0 - p0))
    defined = (spread > 0.0) & np.isfinite(r)
    correction = 0.5 / (np.asarray(n, float) * np.where(spread > 0.0, spread, 1.0))
    reduced = np.where(r > 0.0, np.maximum(r - correction, 0.0), r)
    return np.where(defined, np.clip(reduced, -1.0, 1.0), 0.0)


def _root_sum(x: Floats, y: Floats, phi: Any) -> Floats:
    root: Floats = np.sqrt(np.maximum(x * x - 2.0 * phi * x * y + y * y, 0.0))
    return root


def square_and_add(
    rate1: Any, n1: Any, rate0: Any, n0: Any, phi: Any, q: Any
) -> tuple[Floats, Floats]:
    """Newcombe's square-and-add limits of ``rate1 - rate0`` for correlated arms.

    Parameters
    ----------
    rate1, n1, rate0, n0 : float or array
        Pass rate and (effective) number of units of the skill arm and of the baseline.
    phi : float or array
        Correlation of the two rates, already reduced where that is wanted.
    q : float or array
        Quantile at which the Wilson limits are taken.

    Returns
    -------
    tuple of array
        Lower and upper limit, inside [-1, 1].

    Notes
    -----
    Newcombe 1998, Statistics in Medicine 17:2635,
    doi:10.1002/(SICI)1097-0258(19981130)17:22<2635::AID-SIM954>3.0.CO;2-C.
    """
    p1, p0 = np.asarray(rate1, float), np.asarray(rate0, float)
    low1, high1 = wilson_limits(p1, n1, q)
    low0, high0 = wilson_limits(p0, n0, q)
    low = p1 - p0 - _root_sum(p1 - low1, high0 - p0, phi)
    high = p1 - p0 + _root_sum(high1 - p1, p0 - low0, phi)
    return np.clip(low, -1.0, 1.0), np.clip(high, -1.0, 1.0)


def square_and_add_p(
    rate1: Any, n1: Any, rate0: Any, n0: Any, phi: Any, df: float = np.inf
) -> Floats:
    """Two-sided p-value of "no difference" by inverting :func:`square_and_add`.

    Parameters
    ----------
    rate1, n1, rate0, n0, phi : float or array
        As for :func:`square_and_add`; ``phi`` must not depend on the level.
    df : float, default inf
        Degrees of freedom of the quantile.

    Returns
    -------
    array
        1 where the rates are equal. Below ``1 - ci_level`` exactly where the interval of that
        level excludes zero.
    """
    # Swapping the arms where the difference is negative leaves only lower limits to invert.
    p1, m1, p0, m0, r = np.broadcast_arrays(
        *(np.asarray(v, float) for v in (rate1, n1, rate0, n0, phi))
    )
    swap = p1 < p0
    upper, n_upper = np.where(swap, p0, p1), np.where(swap, m0, m1)
    under, n_under = np.where(swap, p1, p0), np.where(swap, m1, m0)
    p_value = np.ones(upper.shape)
    open_ = upper > under
    if not open_.any():
        return p_value

    def lower_limit(share: Any, a: Any, na: Any, b: Any, nb: Any, ph: Any) -> Any:
        # Searching on q / (1 + q) keeps the bracket short for large quantiles too.
        q = share / (1.0 - share)
        low = wilson_limits(a, na, q)[0]
        high = wilson_limits(b, nb, q)[1]
        return a - b - _root_sum(a - low, high - b, ph)

    args = tuple(v[open_] for v in (upper, n_upper, under, n_under, r))
    if args[0].size == 1:
        # The vectorised search costs milliseconds, which a loop over single studies would feel.
        one = tuple(float(v[0]) for v in args)
        no_root = float(lower_limit(_LARGEST_SHARE, *one)) >= 0
        root: Any = (
            _LARGEST_SHARE
            if no_root
            else brentq(lower_limit, 0.0, _LARGEST_SHARE, args=one, xtol=1e-16, rtol=1e-15)
        )
    else:
        ends = (np.zeros(args[0].shape), np.full(args[0].shape, _LARGEST_SHARE))
        found = elementwise.find_root(lower_limit, ends, args=args)
        root = np.where(found.status == 0, found.x, _LARGEST_SHARE)
    p_value[open_] = 2.0 * student_t.sf(root / (1.0 - root), df)
    return p_value
