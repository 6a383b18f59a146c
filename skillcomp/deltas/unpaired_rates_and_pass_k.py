"""The pass rate under each condition, its change between different cases, pass@k and pass^k."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import brentq

from skillcomp.contrast import (
    MISSING,
    BoundedValue,
    Bounds,
    Contrast,
    Units,
    compared_units,
    contrasts_of_rates,
    contrasts_with,
    first_names,
    within,
)
from skillcomp.deltas.paired_deltas_and_price import (
    DELTA_COLUMNS,
    OwnWords,
    contrast_rows,
    in_own_words,
)
from skillcomp.frames.estimates import By, estimates, listed, row, with_method
from skillcomp.stats import repeats
from skillcomp.stats.bounded import IntervalRule
from skillcomp.stats.results import NAN, Fields, Interval, join_notes

MISSING_OF_RATE = [*MISSING[:2], *MISSING[-2:]]


def rates(
    outcomes: pd.DataFrame,
    *,
    by: By = (),
    value: BoundedValue | OwnWords = "passed",
    bounds: Bounds = None,
    cluster: str = "case",
    average: By = (),
    weight: str | None = None,
    ci_level: float = 0.95,
    interval: IntervalRule = "adaptive",
) -> pd.DataFrame:
    """Estimate the pass rate under each condition, with an interval clustered by case or skill.

    Parameters
    ----------
    outcomes : pandas.DataFrame
        An outcomes frame.
    by : str or sequence of str
        Columns that group the rows, in addition to ``condition``.
    value : {"passed", "share_passed", "passed_own_words", "score"}, default "passed"
        As in :func:`skillcomp.deltas.paired`; scores need ``bounds``.
    bounds : tuple of float, optional
        As in :func:`skillcomp.deltas.paired`: lowest and highest possible score.
    cluster, average, weight, interval
        As in :func:`skillcomp.deltas.paired`.
    ci_level : float, default 0.95
        Level of the interval.

    Returns
    -------
    pandas.DataFrame
        One row per ``by`` and condition with the estimates columns. The measure is ``rate_passed``,
        ``rate_share_passed``, ``rate_passed_own_words`` or ``rate_score``. The estimate is from 0
        to 1, or within ``bounds``; it is NaN with a note if no attempt has an outcome.
        ``n_missing`` of ``n_attempts`` attempts are missing, as in :func:`skillcomp.deltas.paired`.
        ``worst_low`` is the rate if all missing attempts had
        failed, ``worst_high`` the rate if all had passed (a missing attempt with a failed check
        cannot pass).

    Notes
    -----
    Cases have equal weights, unless ``weight`` is used. The interval is that of
    :func:`skillcomp.stats.bounded.bounded_mean` for the rates of the cases. Unless ``interval`` is
    ``"t"``, it is within 0 and 1 and never has zero width.
    """
    names, levels = listed(by, "condition"), listed(average)
    how: Fields = {"cluster": cluster, "average": levels, "weight": weight}
    rules: Fields = {"ci_level": ci_level, "interval": interval}
    if value == "passed_own_words" and bounds is None:
        estimate = partial(rates, by=names, **how, **rules)
        return in_own_words(estimate, outcomes, "deltas.rates", None)
    how |= {"value": value, "bounds": bounds}
    checked, units = compared_units(outcomes, names, "deltas.rates", **how)
    contrasts = contrasts_of_rates(units)
    rows = contrast_rows(f"rate_{value}", units, contrasts, cluster=cluster, **rules)
    result = estimates(rows, by=[*names, "condition"], extra=MISSING_OF_RATE, outcomes=checked)
    return with_method(result, cluster, None)


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


_PASS_K = {"pass_at_k": repeats.pass_at_k, "pass_hat_k": repeats.pass_hat_k}


def pass_at_k(
    outcomes: pd.DataFrame,
    *,
    k: int,
    by: By = (),
    reference: str | None = None,
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Estimate the probability that at least one of ``k`` attempts at a case passes.

    Parameters
    ----------
    outcomes : pandas.DataFrame
        An outcomes frame. Cases with fewer than ``k`` attempts that have an outcome are left out;
        the note names them, and the largest ``k`` that all cases allow.
    k : int
        Number of attempts.
    by : str or sequence of str
        Columns that group the rows, in addition to ``condition``.
    reference : str, optional
        A condition, such as ``"baseline"``, from which the paired changes of the other conditions
        are estimated. Default: estimate the probability under each condition.
    ci_level : float, default 0.95
        Level of the interval.

    Returns
    -------
    pandas.DataFrame
        One row per ``by`` and condition with the estimates columns (measure ``pass_at_k``), ``k``,
        ``n_short`` (cases left out), and the columns of :func:`skillcomp.deltas.rates` about
        missing attempts. With ``reference``, one row per ``by`` and other condition, with the
        measure ``delta_pass_at_k`` and the columns of :func:`skillcomp.deltas.paired`.

    See Also
    --------
    pass_hat_k : The probability that all of ``k`` attempts pass.

    Notes
    -----
    The estimate of a case is unbiased for any number of attempts that is at least ``k``. If the
    attempts were repeated until one passed, a case that stopped at its first pass counts as 1 if
    ``k`` is at least its number of attempts, and otherwise as 0; ``note`` gives their number. The
    attempts were repeated if, under a condition, at least three cases have several attempts and in
    nine of ten of these only the last attempt passes. The mean
    over cases, and the mean of the differences on the same cases, have the ``"bounded"`` interval
    of :func:`skillcomp.stats.bounded.bounded_mean`, which assumes nothing about unseen cases.

    Examples
    --------
    Four cases with three attempts each; ``passes`` has the number of passes of each case.

    >>> import pandas as pd
    >>> passes = {"baseline": [0, 1, 0, 2], "skill": [1, 3, 2, 3]}
    >>> frame = pd.DataFrame([{"skill": "s", "case_id": f"s/{i}", "condition": c, "passed": j < n}
    ...     for c, cases in passes.items() for i, n in enumerate(cases) for j in range(3)])
    >>> change = pass_at_k(frame, k=2, reference="baseline")
    >>> change[["condition", "measure", "estimate", "rate"]].round(2)
      condition          measure  estimate  rate
    0     skill  delta_pass_at_k       0.5  0.92
    """
    return _pass_k(outcomes, k, by, reference, ci_level, "pass_at_k")


def pass_hat_k(
    outcomes: pd.DataFrame,
    *,
    k: int,
    by: By = (),
    reference: str | None = None,
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Estimate the probability that all of ``k`` attempts pass; see :func:`pass_at_k`."""
    return _pass_k(outcomes, k, by, reference, ci_level, "pass_hat_k")


def _pass_k(
    outcomes: pd.DataFrame, k: int, by: By, reference: str | None, ci_level: float, measure: str
) -> pd.DataFrame:
    names, what = listed(by, "condition"), f"deltas.{measure}"
    of_case = _PASS_K[measure]
    of_case([], [], k)  # this call raises an error if k is not a positive whole number
    _, units = compared_units(outcomes, names, what, reference=reference)
    if reference is None:
        contrasts = contrasts_of_rates(units)
        name, extra = measure, MISSING_OF_RATE
    else:
        contrasts = contrasts_with(units, reference)
        name, extra = f"delta_{measure}", DELTA_COLUMNS
    numbers = units.numbers
    retried = (numbers["retried"] > 0) & (measure == "pass_at_k")
    at_k = _units_at_k(units, k, of_case, retried, is_paired=reference is not None)
    # the attempts at a case that stopped at its first pass are enough for any k
    n_at_k = np.where(retried, np.maximum(numbers["n"], k), numbers["n"])
    units = replace(units, numbers=numbers | {"n": n_at_k})
    # the adaptive rule is not defined for sets of k attempts, so use the bounded interval
    rows = contrast_rows(name, at_k, contrasts, ci_level=ci_level, interval="bounded")
    for each, contrast in zip(rows, contrasts, strict=True):
        part = units.part(contrast)
        n, label = pd.Series(part.numbers["n"].min(axis=1)), pd.Series(part.facts["label"])
        note = each["note"].replace("no outcome in", f"fewer than {k} outcomes in")
        each |= {"k": k, "n_short": int(n.lt(k).sum())}
        if n.lt(k).any():
            largest = int(n.min())
            largest_k = (
                f"the largest k for all cases is {largest}" if largest else "no k suits all cases"
            )
            short = first_names(label[n.lt(k)].to_numpy())
            few = f"with fewer than {k} attempts that have an outcome: {short}"
            note = join_notes(note, f"left out, {few}; {largest_k}")
        each["note"] = note
        each["method"] = f"pass{'@' if measure == 'pass_at_k' else '^'}{k}, {each['method']}"
    columns = [*extra, "k", "n_short"]
    keys = [*names, "condition"]
    return estimates(rows, by=keys, extra=columns, outcomes=outcomes, reference=reference)


def _units_at_k(
    units: Units, k: int, of_case: Callable[..., Any], retried: Any, *, is_paired: bool
) -> Units:
    """Replace the rates of the units, and the bounds of the rates, by pass@k or pass^k.

    Whether a case that stopped at its first pass would pass within k attempts is known: 1 if k is
    at least its number of attempts, otherwise 0.
    """
    numbers = dict(units.numbers)
    for name, count in (("level", "n"), ("low", "size"), ("high", "size")):
        n = units.numbers[count]
        enough = np.nan_to_num(n) >= k
        passes = np.rint(units.numbers[name][enough] * n[enough])
        numbers[name] = np.full(n.shape, NAN)
        numbers[name][enough] = of_case(n[enough], passes, k)
        numbers[name][retried] = n[retried] <= k
    enough |= retried
    if is_paired:  # pairs with fewer than k expected attempts lack no attempts
        numbers["size"] = np.where(enough, numbers["size"], NAN)
    return replace(units, numbers=numbers)
