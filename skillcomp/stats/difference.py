"""Difference of two bounded means whose cases are different ones."""

from __future__ import annotations

import math
from typing import Any

from numpy.typing import ArrayLike
from scipy.optimize import brentq

from skillcomp.stats.bounded import Quantity, bounded_means
from skillcomp.stats.results import Interval, check_level, join_notes, undefined

__all__ = ["independent_difference"]

Sample = tuple[ArrayLike, Any, ArrayLike | None]

# p-values are found between these: one tail of the smallest is still told from 1 to four digits
_SMALLEST_P = 2e-12
_XTOL = 1e-8  # precision of the logarithm of a tail


def independent_difference(
    first: Sample,
    second: Sample,
    *,
    quantity: Quantity,
    ci_level: float = 0.95,
    null: float = 0.0,
) -> Interval:
    """Difference of the means of two samples of different cases, second minus first.

    For two groups that share no case, such as far and near cases, or the attempts at which gold
    fails under two conditions. Where the same cases stand on both sides, take the mean of the
    case differences (:func:`skillcomp.stats.bounded.bounded_mean` with ``DELTAS``) instead.

    Parameters
    ----------
    first, second : tuple of (values, clusters or None, weights or None)
        The two samples, each as :func:`skillcomp.stats.bounded.bounded_mean` takes it: one value
        per case, its cluster, its weight. No cluster may stand in both.
    quantity : Quantity
        Bounds of the values and weight of the pseudo-case: ``RATES``, ``SHARES`` or ``DELTAS``.
    ci_level : float, default 0.95
        Confidence level.
    null : float, default 0
        Difference to test.

    Returns
    -------
    Interval
        Limits inside the range of the quantity's differences, never of zero width. ``p_value``
        inverts the same interval and is not told below 2e-12. ``se`` and ``df`` combine those of
        the samples (Welch-Satterthwaite) where both have spread, else NaN. ``n`` and
        ``n_clusters`` count both samples. NaN throughout when a sample has no case.

    Raises
    ------
    ValueError
        As :func:`skillcomp.stats.bounded.bounded_mean`.

    Notes
    -----
    Square-and-add (MOVER): with means d1, d2 and their limits l1, u1, l2, u2 at the same level,
    ``D = d2 - d1``, lower limit ``D - sqrt((d2 - l2)^2 + (u1 - d1)^2)``, upper limit
    ``D + sqrt((u2 - d2)^2 + (d1 - l1)^2)``. Turning the samples round turns the sign.

    References
    ----------
    Zou and Donner 2008, Statistics in Medicine 27:1693-1702, doi:10.1002/sim.3095.

    Examples
    --------
    >>> from skillcomp.stats.bounded import RATES
    >>> near, far = [1, 1, 1, 0, 1, 1, 1, 1], [0, 1, 0, 0, 1, 0, 0, 1]
    >>> ci = independent_difference((near, None, None), (far, None, None), quantity=RATES)
    >>> round(ci.estimate, 3), round(ci.low, 3), round(ci.high, 3), round(ci.p_value, 3)
    (-0.5, -0.811, 0.029, 0.067)
    """
    check_level(ci_level)
    label = f"difference of two bounded means (MOVER), c = {quantity.c:g}"
    one, two = bounded_means([first, second], quantity=quantity, ci_level=ci_level)
    n = one.n + two.n
    # a note that holds for both is said once
    note = join_notes(*dict.fromkeys((one.note, two.note)))
    if math.isnan(one.estimate) or math.isnan(two.estimate):
        return undefined(label, note, ci_level=ci_level, n=n)
    low, high = _square_and_add(one, two)
    se, df = _combined(one, two)
    return Interval(
        two.estimate - one.estimate,
        low,
        high,
        ci_level,
        label,
        note,
        n=n,
        n_clusters=one.n_clusters + two.n_clusters,
        se=se,
        df=df,
        p_value=_p_value(first, second, quantity, null, two.estimate - one.estimate),
    )


def _square_and_add(one: Interval, two: Interval) -> tuple[float, float]:
    difference = two.estimate - one.estimate
    low = difference - math.hypot(two.estimate - two.low, one.high - one.estimate)
    high = difference + math.hypot(two.high - two.estimate, one.estimate - one.low)
    return low, high


def _combined(one: Interval, two: Interval) -> tuple[float, float]:
    """Return se and Welch-Satterthwaite degrees of freedom, NaN where a part has none."""
    v1, v2 = one.se**2, two.se**2
    if math.isnan(v1 + v2):
        return math.nan, math.nan
    return math.sqrt(v1 + v2), (v1 + v2) ** 2 / (v1**2 / one.df + v2**2 / two.df)


def _p_value(
    first: Sample, second: Sample, quantity: Quantity, null: float, difference: float
) -> float:
    """Return the level's complement at which a limit reaches the null value, at most 1."""
    if abs(difference - null) <= 1e-12:
        return 1.0

    def margin(log_p: float) -> float:
        level = -math.expm1(log_p)
        low, high = _square_and_add(
            *bounded_means([first, second], quantity=quantity, ci_level=level)
        )
        return low - null if difference > null else null - high

    largest, smallest = math.log1p(-1e-9), math.log(_SMALLEST_P)
    if margin(largest) <= 0:
        return 1.0
    if margin(smallest) >= 0:
        return _SMALLEST_P
    return math.exp(float(brentq(margin, smallest, largest, xtol=_XTOL)))
