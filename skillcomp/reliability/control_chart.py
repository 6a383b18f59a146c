"""Control chart of a grader's errors over a stream of gold checks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from skillcomp.errors import FrameError, plural
from skillcomp.frames.check import require_frame
from skillcomp.frames.estimates import By, groups, listed, refuse_pooling, require_columns
from skillcomp.stats.cusum import BernoulliCusum, bernoulli_cusum, cusum_limit, cusum_steps

_TIMES = ("time", "graded_at")
# The kinds of values that a column of times may have, as `infer_dtype` of pandas names them. Text
# is not allowed, because its alphabetical order need not be the order in time.
_MOMENTS = ("datetime64", "datetime", "date", "timedelta64", "timedelta")
_NUMBERS = ("integer", "floating", "mixed-integer-float", "decimal")
_COLUMNS = ["check", "time", "error", "cusum", "limit", "alarm", "alarm_at", "alarm_time"]
_COLUMNS += ["change_at", "arl_p0", "arl_p1", "p_false_alarm", "method", "note"]


def chart(
    gold_checks: pd.DataFrame,
    *,
    p0: float,
    p1: float,
    arl: float,
    by: By = (),
    time: str | None = None,
) -> pd.DataFrame:
    """Detect a rise of a grader's error rate from ``p0`` towards ``p1`` with a CUSUM chart.

    Parameters
    ----------
    gold_checks : pandas.DataFrame
        One row per check with a gold label. It has either ``error``, true if grader and gold
        differ, or ``passed`` and ``gold``, which are compared. A missing value means that the
        grader failed; it leaves the chart unchanged.
    p0, p1 : float
        Tolerated error rate, and the higher rate that should be detected quickly.
    arl : float
        Wanted mean number of checks until a false alarm at ``p0``; the limit is derived from it.
    by : str or sequence of str, default ()
        Columns to group by, such as ``"grader"``; each group has its own chart.
    time : str, optional
        Column of times, dates or numbers that gives the order of the checks. By default ``time``
        or, if it is missing, ``graded_at``. Rows with equal times keep their order, and rows
        without a time come last. If there are no times, rows keep their order, with a note.

    Returns
    -------
    pandas.DataFrame
        One row per check, in the order of the checks. ``check`` is its number, from 1. ``time`` is
        NaT if unknown. ``error`` is true if grader and gold differ on the check. ``cusum`` is the
        value of the chart after the check. ``alarm`` is true only at the first alarm.

        The other columns are the same for all checks of a group. ``limit`` is the value at which
        the chart alarms. ``alarm_at`` is the number of the check with the first alarm, and
        ``alarm_time`` its time. ``change_at`` is the usual estimate of when the rate rose: the
        number of the check from which ``cusum`` stays above 0 until the alarm. ``arl_p0`` and
        ``arl_p1`` are the exact mean numbers of checks until an alarm at the two rates.
        ``p_false_alarm`` is the exact probability of an alarm at ``p0`` in a stream of this length.
        ``method`` and ``note`` describe the chart. ``alarm_at``, ``alarm_time`` and ``change_at``
        are missing without an alarm.

    Raises
    ------
    FrameError
        If a column is missing or has values that are not booleans or times, only some times have a
        time zone, several graders or streams would be pooled, ``0 < p0 < p1 < 1`` does not hold, or
        ``arl`` is not above 1. Convert times that are text with ``pandas.to_datetime``.

    See Also
    --------
    skillcomp.plots.cusum : Draws the result.
    skillcomp.simulate.gold_stream : Simulates a stream with a rise.

    Notes
    -----
    The chart is a Bernoulli CUSUM with whole-number steps, so that its run length can be computed
    exactly from a finite Markov chain. It assumes independent checks. Use one check per attempt;
    otherwise alarms come too early.

    References
    ----------
    Reynolds and Stoumbos 1999, doi:10.1080/00224065.1999.11979900.

    Examples
    --------
    Errors begin at check 41, and the third error, at check 45, raises the alarm.

    >>> import pandas as pd
    >>> stream = pd.DataFrame({"error": [False] * 40 + [True, False, True, False, True, True]})
    >>> found = chart(stream, p0=0.05, p1=0.15, arl=300)
    >>> found.loc[found["alarm"], ["check", "cusum", "limit", "change_at"]].values.tolist()
    [[45, 28.0, 24, 41]]
    """
    names = listed(by)
    require_frame(gold_checks, "gold_checks")
    require_columns(gold_checks, names, "reliability.chart")
    refuse_pooling(gold_checks, names, "reliability.chart")
    streams = gold_checks["stream"].astype("str") if "stream" in gold_checks else pd.Series("")
    if "stream" not in names and streams.nunique() > 1:
        raise FrameError("reliability.chart: the frame holds several streams. Add 'stream' to by=.")
    limit = _chart_limit(p0, p1, arl)
    times = _ordering_times(gold_checks, time)
    stream = gold_checks.assign(_error=_error_flags(gold_checks), _time=times)
    if times is not None:
        stream = stream.sort_values("_time", kind="stable")
    parts = []
    for values, rows in groups(stream, names):
        cusum = bernoulli_cusum(rows["_error"].to_numpy(dtype=float), p0=p0, p1=p1, limit=limit)
        when = None if times is None else rows["_time"].reset_index(drop=True)
        parts.append(_chart_rows(cusum, rows["_error"], when).assign(**values))
    shape = [*names, *_COLUMNS]
    if not parts:
        return pd.DataFrame(columns=pd.Index(shape))
    return pd.concat(parts, ignore_index=True)[shape]


def _chart_limit(p0: float, p1: float, arl: float) -> int:
    """Compute the limit of the chart; raise FrameError if no limit fits the settings."""
    try:
        up, down = cusum_steps(p0, p1)
        return cusum_limit(p0, up=up, down=down, arl=arl)
    except (TypeError, ValueError) as error:
        raise FrameError(
            f"reliability.chart: found p0={p0!r}, p1={p1!r}, arl={arl!r}; allowed: "
            f"0 < p0 < p1 < 1 and arl above 1. {error}"
        ) from None


def _error_flags(frame: pd.DataFrame) -> pd.Series:
    if "error" in frame.columns:
        return _as_boolean(frame["error"], "error").astype("float64")
    if not {"passed", "gold"} <= set(frame.columns):
        require_columns(frame, ["error"], "reliability.chart needs 'error', or 'passed' and 'gold'")
    passed, gold = (_as_boolean(frame[name], name) for name in ("passed", "gold"))
    return passed.ne(gold).astype("float64")


def _ordering_times(frame: pd.DataFrame, name: str | None) -> pd.Series | None:
    """Return the times that order the rows; None if there are none."""
    if name is not None:
        require_columns(frame, [name], "reliability.chart: time")
    # Ignore a column without values: a verdicts frame always has the column `graded_at`.
    there = [column for column in (_TIMES if name is None else [name]) if column in frame.columns]
    dated = [column for column in there if frame[column].notna().any()]
    if not dated:
        return None
    times = frame[dated[0]]
    if isinstance(times.dtype, pd.CategoricalDtype):
        categories = pd.Series(times.cat.categories)
        times = categories.reindex(times.cat.codes).set_axis(times.index)
    if pd.api.types.infer_dtype(times, skipna=True) not in (*_MOMENTS, *_NUMBERS):
        raise FrameError(
            f"gold_checks: column '{dated[0]}': found {times.dropna().iloc[0]!r}; allowed: times, "
            "dates or numbers. pandas.to_datetime makes times of text."
        )
    try:
        times.sort_values()
    except TypeError as error:
        raise FrameError(
            f"gold_checks: column '{dated[0]}': its times have no common order: {error}; allowed: "
            "all with a time zone or all without. pandas.to_datetime(..., utc=True) gives all one."
        ) from None
    return times


def _as_boolean(values: pd.Series, name: str) -> pd.Series:
    # The numbers 0 and 1 are allowed, too. A list or array in a cell is not.
    odd = [v for v in values.dropna() if not (np.isscalar(v) and v in (0, 1))]
    if odd:
        raise FrameError(
            f"gold_checks: column '{name}': found {odd[0]!r}; allowed: True, False or missing."
        )
    return values.astype("boolean")


def _chart_rows(cusum: BernoulliCusum, errors: pd.Series, times: pd.Series | None) -> pd.DataFrame:
    number = np.arange(1, len(errors) + 1)
    at = None if cusum.alarm is None else cusum.alarm + 1
    change = None if cusum.change is None else cusum.change + 1
    never: Any = pd.NaT
    if times is None:
        times = pd.Series(pd.NaT, index=range(len(errors)))
        order = "no times: rows taken in the order in which they stand"
    else:
        never = np.nan if pd.api.types.is_numeric_dtype(times.dtype) else pd.NaT
        late = int(times.isna().sum())
        order = f"{plural(late, 'check')} without a time taken last" if late else ""
    notes = [cusum.note, "" if at else "no alarm in this stream", order]
    return pd.DataFrame(
        {
            "check": number,
            "time": times,
            "error": errors.astype("boolean").array,
            "cusum": cusum.path,
            "limit": cusum.limit,
            "alarm": number == (at or 0),
            "alarm_at": pd.array([at] * len(number), dtype="Int64"),
            "alarm_time": never if at is None else times.iloc[at - 1],
            "change_at": pd.array([change] * len(number), dtype="Int64"),
            "arl_p0": cusum.arl_p0,
            "arl_p1": cusum.arl_p1,
            "p_false_alarm": cusum.p_false_alarm,
            "method": f"{cusum.method}, arl {cusum.arl_p0:.1f} at p0, {cusum.arl_p1:.1f} at p1",
            "note": "; ".join(filter(None, notes)),
        }
    )
