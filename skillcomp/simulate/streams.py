"""Streams of gold checks with a planted rise of the error rate, for control charts."""

from __future__ import annotations

import numpy as np
import pandas as pd

from skillcomp.errors import StudyError

_START = np.datetime64("2026-02-02T08:00:00", "us")


def gold_stream(
    *,
    n: int = 400,
    rise_at: int | None = 200,
    rate: float = 0.05,
    raised: float = 0.15,
    minutes_apart: float = 30.0,
    n_streams: int = 1,
    seed: int = 0,
) -> pd.DataFrame:
    """Simulate gold checks in order of time, with an error rate that rises at a known one.

    Parameters
    ----------
    n : int, default 400
        Gold checks in a stream.
    rise_at : int or None, default 200
        Index of the first check at the raised rate, counted from 0; None plants no rise, for
        measuring false alarms.
    rate, raised : float, default 0.05 and 0.15
        Chance that the grader contradicts gold before and from ``rise_at`` on.
    minutes_apart : float, default 30
        Time between checks.
    n_streams : int, default 1
        Independent streams.
    seed : int, default 0
        Source of randomness.

    Returns
    -------
    pandas.DataFrame
        One row per check in order of time: ``stream`` (str), ``index`` (from 0), ``time``,
        ``error`` (boolean: grader and gold differ) and ``true_rate``.

    Raises
    ------
    StudyError
        If a rate is outside 0 to 1, or the rise outside the stream.

    See Also
    --------
    skillcomp.reliability.chart : the control chart that should find the rise.

    Examples
    --------
    >>> stream = gold_stream(n=300, rise_at=200)
    >>> stream["true_rate"].value_counts().to_dict()
    {0.05: 200, 0.15: 100}
    """
    for name, value in (("rate", rate), ("raised", raised)):
        if not 0 <= value <= 1:
            raise StudyError(f"{name}: found {value}; allowed: 0 to 1.")
    if n < 1 or (rise_at is not None and not 0 <= rise_at < n):
        raise StudyError(f"rise_at: found {rise_at} in a stream of {n}; allowed: 0 to {n - 1}.")
    rng = np.random.default_rng(seed)
    index = np.tile(np.arange(n), n_streams)
    true = np.where(index >= (n if rise_at is None else rise_at), raised, rate)
    moved = (index * minutes_apart * 60).round().astype("timedelta64[s]")
    return pd.DataFrame(
        {
            "stream": pd.array([f"stream-{k + 1}" for k in range(n_streams)], dtype="str").take(
                np.repeat(np.arange(n_streams), n)
            ),
            "index": pd.array(index, dtype="Int64"),
            "time": pd.DatetimeIndex(_START + moved).as_unit("us").tz_localize("UTC"),
            "error": pd.array(rng.random(len(index)) < true, dtype="boolean"),
            "true_rate": true,
        }
    )
