"""Control chart for the error rates of batches (EWMA). Public through ``charts``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.stats import norm

__all__ = ["Ewma", "check_rate", "ewma", "ewma_run_length", "ewma_width"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Ewma:
    """An EWMA chart over the error rates of batches.

    Attributes
    ----------
    path : tuple of float
        Weighted average after each batch, starting from ``p0``.
    low, high : tuple of float
        Control limits at each batch, inside 0..1.
    alarm : int or None
        Position (from 0) of the first batch outside the limits; None without one.
    rates : tuple of float
        Error rate of each batch, NaN for an empty one.
    width : float
        Limits in standard deviations of the average.
    arl_p0 : float
        Mean number of batches to a false alarm for normal rates and steady limits.
    method, note : str
        Settings; what a reader must know.
    """

    path: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    alarm: int | None
    rates: tuple[float, ...]
    width: float
    arl_p0: float
    method: str
    note: str = ""


def check_rate(name: str, rate: float) -> None:
    """Raise ValueError unless the rate lies strictly between 0 and 1."""
    if not 0.0 < rate < 1.0:
        raise ValueError(f"{name} must lie strictly between 0 and 1, found {rate!r}.")


def ewma_run_length(width: float, *, weight: float, shift: float = 0.0, nodes: int = 101) -> float:
    """Mean run length of a two-sided EWMA chart with steady limits, for normal values.

    Parameters
    ----------
    width : float
        Limits in standard deviations of the average.
    weight : float
        Weight of the newest value, in 0..1.
    shift : float, default 0
        Shift of the mean, in standard deviations of one value.
    nodes : int, default 101
        Gauss-Legendre nodes of the integral equation.

    Returns
    -------
    float
        Mean number of values until the average leaves the limits, from a start at the centre.

    References
    ----------
    Lucas and Saccucci 1990, doi:10.1080/00401706.1990.10484583. Checked against R spc 0.6.7.

    Examples
    --------
    >>> round(ewma_run_length(2.814, weight=0.1))
    500
    """
    if not 0.0 < weight <= 1.0 or width <= 0.0:
        raise ValueError(
            f"weight must lie in 0..1 and width above 0, found {weight!r} and {width!r}."
        )
    return _run_length(float(width), float(weight), float(shift), int(nodes))


@lru_cache(maxsize=256)
def _run_length(width: float, weight: float, shift: float, nodes: int) -> float:
    half = width * math.sqrt(weight / (2.0 - weight))
    points, weights = np.polynomial.legendre.leggauss(nodes)
    at, mass = half * points, half * weights

    def kernel(start: Floats) -> Floats:
        reach = (at[None, :] - (1.0 - weight) * start[:, None]) / weight - shift
        return np.asarray(norm.pdf(reach) * mass / weight)

    lengths = np.linalg.solve(np.eye(nodes) - kernel(at), np.ones(nodes))
    return float(1.0 + (kernel(np.zeros(1)) @ lengths)[0])


def ewma_width(arl: float, *, weight: float) -> float:
    """Width of the EWMA limits for a wanted mean run length without a shift.

    Parameters
    ----------
    arl : float
        Wanted mean number of batches to a false alarm, between 5 and 100,000.
    weight : float
        Weight of the newest batch, in 0..1.

    Returns
    -------
    float
        Limits in standard deviations of the average.

    Examples
    --------
    >>> round(ewma_width(500, weight=0.2), 3)
    2.962
    """
    if not 5.0 <= arl <= 100_000.0:
        raise ValueError(f"arl must lie between 5 and 100000 batches, found {arl!r}.")
    return float(
        brentq(lambda width: math.log(ewma_run_length(width, weight=weight) / arl), 0.05, 6.0)
    )


def ewma(
    errors: ArrayLike,
    totals: ArrayLike,
    *,
    p0: float,
    weight: float = 0.2,
    arl: float | None = None,
    width: float | None = None,
) -> Ewma:
    """Do the error rates of batches wander off from ``p0``, up or down.

    Parameters
    ----------
    errors, totals : array_like of int
        Errors and checks of each batch, in order. A batch without checks leaves the average
        unchanged.
    p0 : float
        Error rate in control.
    weight : float, default 0.2
        Weight of the newest batch.
    arl : float, optional
        Wanted mean number of batches to a false alarm; 500 when ``width`` is not given either.
    width : float, optional
        Limits in standard deviations instead of ``arl``.

    Returns
    -------
    Ewma
        Path, exact standard-deviation limits at each batch, first alarm.

    Raises
    ------
    ValueError
        For unequal lengths, more errors than checks, or both ``arl`` and ``width``.

    Notes
    -----
    z_t = w x_t + (1 - w) z_{t-1}; its variance follows the batch sizes. Run lengths are those of
    normal rates and steady limits: rough when a batch expects fewer than about 5 errors, as
    ``note`` then says. For single checks use `bernoulli_cusum`.

    References
    ----------
    Lucas and Saccucci 1990, doi:10.1080/00401706.1990.10484583.

    Examples
    --------
    >>> ewma([5, 6, 19, 20], [100, 100, 100, 100], p0=0.05).alarm
    2
    """
    check_rate("p0", p0)
    if arl is not None and width is not None:
        raise ValueError(f"give one of arl and width, found arl={arl} and width={width}.")
    wrong, n = (np.asarray(x, dtype=np.float64).ravel() for x in (errors, totals))
    if wrong.size != n.size:
        raise ValueError(f"errors and totals must be equally long, found {wrong.size}, {n.size}.")
    if ((wrong < 0) | (wrong > n)).any():
        at = int(np.flatnonzero((wrong < 0) | (wrong > n))[0])
        raise ValueError(f"batch {at}: errors must lie in 0..{n[at]:g}, found {wrong[at]:g}.")
    reach = width if width is not None else ewma_width(500 if arl is None else arl, weight=weight)
    rates = np.divide(wrong, n, out=np.full(n.size, np.nan), where=n > 0)
    path, spread = _smooth(rates, n, p0, weight)
    low, high = np.clip(p0 - reach * spread, 0, 1), np.clip(p0 + reach * spread, 0, 1)
    outside = np.flatnonzero(((path < low) | (path > high)) & (n > 0))
    few = n[n > 0].min() * min(p0, 1 - p0) if (n > 0).any() else math.inf
    return Ewma(
        path=tuple(path.tolist()),
        low=tuple(low.tolist()),
        high=tuple(high.tolist()),
        alarm=int(outside[0]) if outside.size else None,
        rates=tuple(rates.tolist()),
        width=float(reach),
        arl_p0=ewma_run_length(reach, weight=weight),
        method=f"EWMA of batch rates, p0={p0:g}, weight {weight:g}, width {reach:.3f}",
        note=f"a batch expects only {few:.2g} errors: limits are rough" if few < 5 else "",
    )


def _smooth(rates: Floats, n: Floats, p0: float, weight: float) -> tuple[Floats, Floats]:
    """Return the weighted average and its standard deviation after each batch."""
    level, variance = p0, 0.0
    path, spread = np.empty(n.size), np.empty(n.size)
    for t in range(n.size):
        if n[t] > 0:
            level = weight * rates[t] + (1.0 - weight) * level
            variance = weight**2 * p0 * (1.0 - p0) / n[t] + (1.0 - weight) ** 2 * variance
        path[t], spread[t] = level, math.sqrt(variance)
    return path, spread
