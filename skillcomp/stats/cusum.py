"""Has the error rate of a stream of gold checks risen: a control chart with known false alarms.

Holds for independent checks; checks of one attempt that fail together make alarms come earlier.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve_banded

Floats = NDArray[np.float64]

LATTICE_TOLERANCE = 0.02  # relative error allowed in the ratio of the two log-likelihood steps
LARGEST_LIMIT = 100_000  # lattice points; a chart this long waits longer than any stream


@dataclass(frozen=True, slots=True)
class BernoulliCusum:
    """A CUSUM chart over single checks.

    Attributes
    ----------
    path : tuple of float
        Value of the chart after each check, in lattice units; a missing check leaves it unchanged.
    limit : int
        The chart alarms when it reaches this value.
    alarm : int or None
        Position (from 0) of the check that raised the first alarm; None without alarm.
    change : int or None
        Position of the first check after the chart last stood at 0 before the alarm: the usual
        estimate of when the rate rose.
    up, down : int
        Step of the chart on an error (``+up``) and on a correct check (``-down``, not below 0).
    arl_p0, arl_p1 : float
        Exact mean number of checks to an alarm from the start, at either rate.
    p_false_alarm : float
        Exact probability of an alarm somewhere in a stream this long at the rate ``p0``.
    method, note : str
        Settings; what a reader must know.
    n : int
        Checks with a known result.
    """

    path: tuple[float, ...]
    limit: int
    alarm: int | None
    change: int | None
    up: int
    down: int
    arl_p0: float
    arl_p1: float
    p_false_alarm: float
    method: str
    note: str = ""
    n: int = 0


def _check_rate(name: str, rate: float) -> None:
    """Raise ValueError unless the rate lies strictly between 0 and 1."""
    if not 0.0 < rate < 1.0:
        raise ValueError(f"{name} must lie strictly between 0 and 1, found {rate!r}.")


def _check_chart(p: float, up: int, down: int, limit: int) -> None:
    """Raise ValueError unless a chart of these steps and this limit can run at the rate."""
    _check_rate("p", p)
    if min(up, down, limit) < 1:
        raise ValueError(f"up, down and limit must be at least 1, found {up}, {down} and {limit}.")


def cusum_steps(p0: float, p1: float) -> tuple[int, int]:
    """Return the whole-number steps of the chart that is best at telling ``p1`` from ``p0``.

    Parameters
    ----------
    p0, p1 : float
        Error rate in control and the higher rate to be found quickly.

    Returns
    -------
    tuple of int
        Step up on an error and step down on a correct check: the smallest whole numbers whose
        ratio is within 2 % of that of the two log-likelihood ratios.

    References
    ----------
    Reynolds and Stoumbos 1999, doi:10.1080/00224065.1999.11979900.

    Examples
    --------
    >>> cusum_steps(0.05, 0.15)
    (10, 1)
    """
    _check_rate("p0", p0)
    _check_rate("p1", p1)
    if p1 <= p0:
        raise ValueError(f"p1 must be above p0, found p0={p0} and p1={p1}.")
    correct = math.log((1.0 - p0) / (1.0 - p1))
    reference = correct / (math.log(p1 / p0) + correct)
    points = 2
    while True:
        down = max(1, round(reference * points))
        if down < points and abs(down / points / reference - 1.0) <= LATTICE_TOLERANCE:
            return points - down, down
        points += 1


def cusum_run_length(p: float, *, up: int, down: int, limit: int) -> float:
    """Exact mean number of checks until the chart alarms, from a start at 0.

    Parameters
    ----------
    p : float
        Error rate of the stream.
    up, down : int
        Steps of the chart (see `cusum_steps`).
    limit : int
        Alarm when the chart reaches it.

    Returns
    -------
    float
        Mean run length in checks, by solving the Markov chain on 0 .. limit - 1.

    Examples
    --------
    Alarm at the first error: the run length is geometric, 1 / p.

    >>> round(cusum_run_length(0.2, up=10, down=1, limit=5), 6)
    5.0
    """
    _check_chart(p, up, down, limit)
    above, below = (step if step < limit else 0 for step in (up, down))
    band = np.zeros((above + below + 1, limit))
    band[above] = 1.0
    if above:
        band[0, up:] = -p
    if below:
        band[-1, : limit - down] = -(1.0 - p)
    # The chart is cut into excursions that end in an alarm or in a fall to 0: their mean length
    # over their chance of an alarm. Only positive terms are added, so that long runs stay exact.
    alarm = np.where(np.arange(limit) + up >= limit, p, 0.0)
    length, chance = solve_banded((below, above), band, np.column_stack([np.ones(limit), alarm]))[0]
    return float(length / chance) if chance > 0.0 else math.inf


def cusum_limit(p0: float, *, up: int, down: int, arl: float) -> int:
    """Smallest limit whose mean run length at ``p0`` is at least ``arl`` checks.

    Parameters
    ----------
    p0 : float
        Error rate in control.
    up, down : int
        Steps of the chart.
    arl : float
        Wanted mean number of checks to a false alarm, above 1.

    Returns
    -------
    int
        The limit, in lattice units.

    Examples
    --------
    >>> cusum_limit(0.05, up=10, down=1, arl=500)
    28
    """
    if not 1.0 < arl < math.inf:
        raise ValueError(f"arl must be a number of checks above 1, found {arl!r}.")
    high = 1
    while cusum_run_length(p0, up=up, down=down, limit=high) < arl:
        high *= 2
        if high > LARGEST_LIMIT:
            length = f"a mean run length of {arl:g} checks at p0={p0:g}"
            raise ValueError(
                f"no limit up to {LARGEST_LIMIT} gives {length}; ask for a shorter one."
            )
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        reached = cusum_run_length(p0, up=up, down=down, limit=middle) >= arl
        low, high = (low, middle) if reached else (middle, high)
    return high


def false_alarm_probability(n: int, p: float, *, up: int, down: int, limit: int) -> float:
    """Exact probability that the chart alarms within ``n`` checks at error rate ``p``.

    Parameters
    ----------
    n : int
        Length of the stream.
    p : float
        Error rate of the stream.
    up, down, limit : int
        The chart.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> round(false_alarm_probability(2, 0.2, up=10, down=1, limit=5), 6)
    0.36
    """
    _check_chart(p, up, down, limit)
    state = np.zeros(limit)
    state[0] = 1.0
    for _ in range(n):
        new = np.zeros(limit)
        new[0] = state[:down].sum() * (1.0 - p)
        new[: max(limit - down, 0)] += state[down:] * (1.0 - p)
        if up < limit:
            new[up:] += state[: limit - up] * p
        state = new
    return float(min(1.0, max(0.0, 1.0 - state.sum())))


def bernoulli_cusum(
    errors: ArrayLike, *, p0: float, p1: float, arl: float | None = None, limit: int | None = None
) -> BernoulliCusum:
    """When did the error rate of a stream of checks rise from ``p0`` towards ``p1``.

    Parameters
    ----------
    errors : array_like of {0, 1}
        1 where grader and gold disagree, in the order of the checks. A missing value (a failed
        grader) leaves the chart where it is.
    p0, p1 : float
        Tolerated error rate and the rate that should be found quickly.
    arl : float, optional
        Wanted mean number of checks to a false alarm at ``p0``; the limit is chosen from it.
    limit : int, optional
        Limit in lattice units instead of ``arl``.

    Returns
    -------
    BernoulliCusum
        Path, limit, alarm and the exact properties of the chart.

    Raises
    ------
    ValueError
        Unless exactly one of ``arl`` and ``limit`` is given, and for values other than 0 and 1.

    Notes
    -----
    S_t = max(0, S_{t-1} + log-likelihood ratio of p1 to p0), on whole-number steps so that its run
    length is a finite Markov chain. Assumes independent checks.

    References
    ----------
    Reynolds and Stoumbos 1999, doi:10.1080/00224065.1999.11979900.

    Examples
    --------
    >>> chart = bernoulli_cusum([0, 0, 1, 1, 0, 1], p0=0.05, p1=0.15, limit=28)
    >>> chart.path, chart.alarm, chart.change
    ((0.0, 0.0, 10.0, 20.0, 19.0, 29.0), 5, 2)
    """
    up, down = cusum_steps(p0, p1)
    if (arl is None) == (limit is None):
        raise ValueError(f"give one of arl and limit, found arl={arl} and limit={limit}.")
    stream = np.asarray(errors, dtype=np.float64).ravel()
    odd = stream[~np.isnan(stream) & (stream != 0) & (stream != 1)]
    if odd.size:
        raise ValueError(f"errors must be 0 or 1 (or missing), found {odd[0]:g}.")
    h = cusum_limit(p0, up=up, down=down, arl=arl) if arl is not None else int(limit or 0)
    steps = np.where(np.isnan(stream), 0.0, np.where(stream == 1, up, -down))
    total = np.concatenate([[0.0], np.cumsum(steps)])
    path = (total - np.minimum.accumulate(total))[1:]
    hits = np.flatnonzero(path >= h)
    alarm = int(hits[0]) if hits.size else None
    n = int((~np.isnan(stream)).sum())
    return BernoulliCusum(
        path=tuple(path.tolist()),
        limit=h,
        alarm=alarm,
        change=None if alarm is None else int(np.flatnonzero(np.r_[0.0, path[:alarm]] == 0)[-1]),
        up=up,
        down=down,
        arl_p0=cusum_run_length(p0, up=up, down=down, limit=h),
        arl_p1=cusum_run_length(p1, up=up, down=down, limit=h),
        p_false_alarm=false_alarm_probability(n, p0, up=up, down=down, limit=h),
        method=f"Bernoulli CUSUM, p0={p0:g}, p1={p1:g}, steps +{up}/-{down}, limit {h}",
        note=f"{stream.size - n} checks without a result skipped" if n < stream.size else "",
        n=n,
    )
