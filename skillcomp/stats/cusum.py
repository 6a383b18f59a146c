"""Control chart that alarms if the error rate in a stream of gold checks has risen.

The rate of false alarms is exact for independent checks. If errors in the checks of one attempt
occur together, alarms come earlier.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve_banded

Floats = NDArray[np.float64]

# allowed relative error of ``down / (up + down)`` if steps are rounded to whole numbers
LATTICE_TOLERANCE = 0.02
# largest limit that is tried, in units of the steps; no stream is long enough to reach a larger one
LARGEST_LIMIT = 100_000


@dataclass(frozen=True, slots=True)
class BernoulliCusum:
    """A CUSUM chart over single checks.

    Attributes
    ----------
    path : tuple of float
        Value of the chart after each check, in the unit of ``up`` and ``down``, so that values are
        whole numbers. A missing check does not change the value.
    limit : int
        Value at which the chart alarms, in the same unit.
    alarm : int or None
        Position (from 0) of the check that raised the first alarm; None without alarm.
    change : int or None
        Position (from 0) of the check with which the chart left 0 for the last time before the
        alarm. This is the usual estimate of when the rate rose; None without alarm.
    up, down : int
        Steps of the chart: ``+up`` on an error, ``-down`` (but not below 0) on a correct check.
    arl_p0, arl_p1 : float
        Exact mean number of checks from the start to an alarm, at the rates ``p0`` and ``p1``.
    p_false_alarm : float
        Exact probability of at least one alarm in a stream of ``n`` checks at the rate ``p0``.
    method, note : str
        Settings of the chart, and a note on checks without a result (empty if there are none).
    n : int
        Number of checks with a known result.
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
    """Raise ValueError unless the rate is between 0 and 1, both excluded."""
    if not 0.0 < rate < 1.0:
        raise ValueError(f"{name} must lie strictly between 0 and 1, found {rate!r}.")


def _check_chart(p: float, up: int, down: int, limit: int) -> None:
    """Raise ValueError unless the rate, the steps and the limit of a chart are possible."""
    _check_rate("p", p)
    if min(up, down, limit) < 1:
        raise ValueError(f"up, down and limit must be at least 1, found {up}, {down} and {limit}.")


def cusum_steps(p0: float, p1: float) -> tuple[int, int]:
    """Return the whole-number steps of the chart that best detects a rise from ``p0`` to ``p1``.

    Parameters
    ----------
    p0, p1 : float
        Tolerated error rate, and the higher rate that should be found quickly.

    Returns
    -------
    tuple of int
        Step up on an error and step down on a correct check. The exact steps are the two
        log-likelihood ratios. The result is the smallest whole numbers for which
        ``down / (up + down)`` is within 2 % of its value for the exact steps.

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
    """Compute the exact mean number of checks until a chart that starts at 0 alarms.

    Parameters
    ----------
    p : float
        Error rate of the stream.
    up, down : int
        Steps of the chart (see `cusum_steps`).
    limit : int
        Value at which the chart alarms.

    Returns
    -------
    float
        Mean run length in checks, computed from the Markov chain on the values 0 to limit - 1.

    Examples
    --------
    This chart alarms at the first error, so its mean run length is 1 / p.

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
    # A run consists of excursions from 0, each of which ends in an alarm or back at 0. The mean run
    # length is the mean length of an excursion divided by its probability of an alarm. All terms
    # are positive, so nothing cancels, and long run lengths are as exact as short ones.
    alarm = np.where(np.arange(limit) + up >= limit, p, 0.0)
    length, chance = solve_banded((below, above), band, np.column_stack([np.ones(limit), alarm]))[0]
    return float(length / chance) if chance > 0.0 else math.inf


def cusum_limit(p0: float, *, up: int, down: int, arl: float) -> int:
    """Find the smallest limit with a mean run length of at least ``arl`` checks at rate ``p0``.

    Parameters
    ----------
    p0 : float
        Tolerated error rate.
    up, down : int
        Steps of the chart.
    arl : float
        Wanted mean number of checks until a false alarm, above 1.

    Returns
    -------
    int
        The limit, in the unit of the steps.

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
    """Compute the exact probability that a chart alarms within ``n`` checks at error rate ``p``.

    Parameters
    ----------
    n : int
        Number of checks in the stream.
    p : float
        Error rate of the stream.
    up, down, limit : int
        Steps of the chart, and the value at which it alarms.

    Returns
    -------
    float
        Probability of at least one alarm.

    Examples
    --------
    This chart alarms at the first error, so the result is 1 - 0.8 ** 2.

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


def bernoulli_cusum(errors: ArrayLike, *, p0: float, p1: float, limit: int) -> BernoulliCusum:
    """Chart a stream of checks, to detect whether its error rate rose from ``p0`` towards ``p1``.

    Parameters
    ----------
    errors : array_like of {0, 1}
        1 for each check on which grader and gold disagree, otherwise 0, in the order of the checks.
        A missing value (the grader failed) leaves the chart unchanged.
    p0, p1 : float
        Tolerated error rate, and the higher rate that should be found quickly.
    limit : int
        Limit in the unit of the steps (see `cusum_steps` and `cusum_limit`).

    Returns
    -------
    BernoulliCusum
        Path, limit, alarm and the exact properties of the chart.

    Raises
    ------
    ValueError
        If a rate is impossible, or a value is not 0, 1 or missing.

    Notes
    -----
    The chart is ``S_t = max(0, S_{t-1} + l_t)``, where l_t is the log-likelihood ratio of p1 to p0
    for check t. It is scaled and rounded to whole-number steps, so that the chart is a finite
    Markov chain. Checks are assumed to be independent.

    References
    ----------
    Reynolds and Stoumbos 1999, doi:10.1080/00224065.1999.11979900.

    Examples
    --------
    An error adds 10 to the chart, and a correct check subtracts 1. The last check (position 5)
    raises the alarm, and the first error (position 2) is the estimated change.

    >>> chart = bernoulli_cusum([0, 0, 1, 1, 0, 1], p0=0.05, p1=0.15, limit=28)
    >>> chart.path, chart.alarm, chart.change
    ((0.0, 0.0, 10.0, 20.0, 19.0, 29.0), 5, 2)
    """
    up, down = cusum_steps(p0, p1)
    stream = np.asarray(errors, dtype=np.float64).ravel()
    odd = stream[~np.isnan(stream) & (stream != 0) & (stream != 1)]
    if odd.size:
        raise ValueError(f"errors must be 0 or 1 (or missing), found {odd[0]:g}.")
    steps = np.where(np.isnan(stream), 0.0, np.where(stream == 1, up, -down))
    total = np.concatenate([[0.0], np.cumsum(steps)])
    path = (total - np.minimum.accumulate(total))[1:]
    hits = np.flatnonzero(path >= limit)
    alarm = int(hits[0]) if hits.size else None
    n = int((~np.isnan(stream)).sum())
    return BernoulliCusum(
        path=tuple(path.tolist()),
        limit=limit,
        alarm=alarm,
        change=None if alarm is None else int(np.flatnonzero(np.r_[0.0, path[:alarm]] == 0)[-1]),
        up=up,
        down=down,
        arl_p0=cusum_run_length(p0, up=up, down=down, limit=limit),
        arl_p1=cusum_run_length(p1, up=up, down=down, limit=limit),
        p_false_alarm=false_alarm_probability(n, p0, up=up, down=down, limit=limit),
        method=f"Bernoulli CUSUM, p0={p0:g}, p1={p1:g}, steps +{up}/-{down}, limit {limit}",
        note=f"{stream.size - n} checks without a result skipped" if n < stream.size else "",
        n=n,
    )
