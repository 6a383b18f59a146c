"""The change in pass rate between conditions that have different cases."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pandas as pd
from scipy.optimize import brentq

from skillcomp.contrast import (
    MISSING,
    BoundedValue,
    Bounds,
    Contrast,
    Units,
    compared_units,
    contrasts_with,
    within,
)
from skillcomp.deltas.paired_deltas import DELTA_COLUMNS
from skillcomp.frames.estimates import By, estimates, listed, row, with_method
from skillcomp.stats.bounded import IntervalRule
from skillcomp.stats.results import Fields, Interval, join_notes

_LOG_P = (math.log(1e-10), math.log(1.0 - 1e-9))  # The range of p-values, as logarithms.


def unpaired(
    outcomes: pd.DataFrame,
    *,
    by: By = (),
    value: BoundedValue = "passed",
    bounds: Bounds = None,
    reference: str = "baseline",
    cluster: str = "case",
    average: By = (),
    weight: str | None = None,
    ci_level: float = 0.95,
    interval: IntervalRule = "adaptive",
) -> pd.DataFrame:
    """Estimate the change in pass rate between conditions that have different cases.

    The rate of each condition is that of :func:`skillcomp.deltas.rates`, over its own cases. If the
    conditions have the same cases, use :func:`skillcomp.deltas.paired`, which is more precise.

    Parameters
    ----------
    outcomes : pandas.DataFrame
        An outcomes frame.
    by : str or sequence of str
        Columns that group the rows.
    value : {"passed", "share_passed", "score"}, default "passed"
        As in :func:`skillcomp.deltas.paired`.
    bounds : tuple of float, optional
        As in :func:`skillcomp.deltas.paired`: lowest and highest possible score.
    reference : str, default "baseline"
        The condition that all others are compared with.
    cluster, average, weight, interval
        As in :func:`skillcomp.deltas.paired`.
    ci_level : float, default 0.95
        Level of the interval.

    Returns
    -------
    pandas.DataFrame
        One row per ``by`` and condition other than the reference, with the columns of
        :func:`skillcomp.deltas.paired`. ``n`` counts the cases of both conditions, ``n_condition``
        and ``n_reference`` those of each. The estimate is NaN with a note if a condition has no
        outcome.

    Raises
    ------
    FrameError
        As for :func:`skillcomp.deltas.paired`.

    See Also
    --------
    skillcomp.deltas.paired : The change on the same cases.
    skillcomp.plots.estimates : Draws the result.

    Notes
    -----
    The interval combines those of the two rates by square-and-add, and ``p_value`` inverts it. The
    cases of the two conditions must be independent samples from the same kind of cases: if one
    condition has the harder cases, the change is biased. In 41 simulated designs the coverage was
    95.7 to 100 %, and 95 to 99 % in three with clusters. Clusters with cases under both conditions
    were not simulated.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({
    ...     "skill": "s", "case_id": [f"s/{i}" for i in range(24)],
    ...     "condition": ["baseline"] * 12 + ["skill"] * 12,
    ...     "passed": [True] * 3 + [False] * 9 + [True] * 11 + [False]})
    >>> unpaired(frame)[["estimate", "n_condition", "n_reference"]].round(3)
       estimate  n_condition  n_reference
    0     0.667         12.0         12.0
    """
    names, what = listed(by), "deltas.unpaired"
    how: Fields = {
        "value": value,
        "bounds": bounds,
        "average": listed(average),
        "reference": reference,
        "cluster": cluster,
        "weight": weight,
    }
    checked, units = compared_units(outcomes, names, what, **how)
    rules = {"cluster": cluster, "interval": interval}
    rows = [
        _unpaired_row(units, contrast, f"delta_{value}", ci_level, rules)
        for contrast in contrasts_with(units, reference)
    ]
    result = estimates(
        rows,
        by=[*names, "condition"],
        extra=[*DELTA_COLUMNS, "n_condition", "n_reference"],
        outcomes=checked,
        reference=reference,
    )
    return with_method(result, cluster, weight)


def _unpaired_row(
    units: Units, contrast: Contrast, measure: str, ci_level: float, rules: Fields
) -> Fields:
    """Return the row of the difference between the rates of two conditions."""
    arms = [
        replace(contrast, weights={key: 1.0}, sides=("",), nothing=f"no outcome under {key[0]}")
        for key in contrast.weights
    ]

    def difference(level: float) -> Interval:
        means = within(units, arms, ci_level=level, **rules)
        return means[0].interval.minus(means[1].interval)

    first, second = within(units, arms, ci_level=ci_level, **rules)
    result = first.interval.minus(second.interval)
    result = replace(
        result,
        method=f"{first.interval.method}; square-and-add of two conditions",
        note=join_notes(*dict.fromkeys((first.interval.note, second.interval.note))),
        n_clusters=first.interval.n_clusters + second.interval.n_clusters,
        p_value=_p_of_difference(difference, result.estimate),
    )
    (low, high), (reference_low, reference_high) = first.worst, second.worst
    worst = (low - reference_high, high - reference_low)
    return row(
        measure,
        result,
        rate=first.interval.estimate,
        reference_rate=second.interval.estimate,
        n_dropped=first.n_dropped + second.n_dropped,
        n_condition=first.interval.n,
        n_reference=second.interval.n,
        **dict(zip(MISSING, (*first.missing, *second.missing, *worst), strict=True)),
        **contrast.about,
    )


def _p_of_difference(difference: Callable[[float], Interval], estimate: float) -> float:
    """Return the smallest error rate at which the interval of a difference excludes 0."""

    def reach(log_p: float) -> float:
        interval = difference(1.0 - math.exp(log_p))
        return interval.low if estimate > 0 else -interval.high

    ends = [reach(log_p) for log_p in _LOG_P]
    if not ends[0] < 0 < ends[1]:
        # undefined, below the smallest or above the largest error rate
        return math.nan if math.isnan(sum(ends)) else math.exp(_LOG_P[int(ends[0] < 0)])
    return math.exp(brentq(reach, *_LOG_P, xtol=1e-6))
