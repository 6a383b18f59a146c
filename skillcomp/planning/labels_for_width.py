"""Number of gold labels for an interval of agreement, kappa, error rates or their difference."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy.stats import binom

from skillcomp.errors import StudyError, require_known
from skillcomp.frames.estimates import groups, row
from skillcomp.planning.assumptions import number
from skillcomp.reliability.drift import drift
from skillcomp.reliability.grader_agreement import agreement
from skillcomp.stats.agreement import FEWEST_EVENTS
from skillcomp.stats.bounded import DELTAS, RATES, Quantity
from skillcomp.stats.bounded_studies import bounded_mean_counts
from skillcomp.stats.results import Interval, quantile, undefined, units_needed

Quality = Literal["agreement", "kappa", "sensitivity", "specificity", "false_passes", "false_fails"]
# target quality -> the measure that a pilot estimates. The rate of false passes is 1 minus the
# specificity, and that of false fails is 1 minus the sensitivity.
_MEASURES = {
    "agreement": "raw_agreement",
    "kappa": "cohen_kappa",
    "sensitivity": "sensitivity",
    "specificity": "specificity",
    "false_passes": "specificity",
    "false_fails": "sensitivity",
}
LABELS = ["width", "target", "rate", "n_pilot"]  # columns next to the estimates columns
_SQUARE_ROOT = "from a pilot: the width falls with the square root of the number of labels"
# the search starts with 100 labels and has at most 12 steps
_START, _STEPS = 100.0, 12


def pilot_rows(
    verdicts: pd.DataFrame,
    gold: pd.DataFrame,
    quality: Quality,
    *,
    by: list[str],
    widths: Sequence[float],
    reference_grader: Any,
    **how: Any,
) -> Iterator[dict[str, Any]]:
    """Yield one row per group and width: the number of labels, from the interval of a pilot."""
    measure = _MEASURES[quality]
    differs = {"is_difference": reference_grader is not None}
    if reference_grader is None:
        whole = "raw_agreement"
        frame = agreement(verdicts, gold, quantities=[whole, measure], by=by, **how)
    else:
        _refuse_kappa(quality)
        whole, measure = "agreement_change", f"{measure.removeprefix('raw_')}_change"
        frame = drift(verdicts, gold, reference_grader=reference_grader, by=by, **how)
        by = [*by, "grader"]
    for values, part in groups(frame, by):
        intervals = {row["measure"]: _interval_of(row) for _, row in part.iterrows()}
        if measure not in intervals:
            continue
        interval, n_items = intervals[measure], intervals[whole].n
        share = interval.n / n_items if n_items else math.nan
        for width in widths:
            planned = _label_row(quality, interval, width, share, _SQUARE_ROOT, **differs)
            yield planned | {"n_pilot": interval.n} | values


def assumed_rows(
    quality: Quality,
    *,
    widths: Sequence[float],
    reference_grader: str | None,
    ci_level: float,
    **rates: Any,
) -> Iterator[dict[str, Any]]:
    """Yield one row per width: the number of labels, from assumed error rates of the graders."""
    prevalence = _stated("baseline_rate", rates["baseline_rate"])
    se, sp = (_both(name, rates[name], reference_grader) for name in ("sensitivity", "specificity"))
    expected, share = _expected_interval(quality, prevalence, se, sp, ci_level)
    about = {} if reference_grader is None else {"grader": _other_grader(rates, reference_grader)}
    for width in widths:
        n = _START
        for _ in range(_STEPS):
            interval = expected(n)
            needed = units_needed(interval, width / 2)
            if not math.isfinite(needed) or needed == n:
                break
            n = needed
        note, differs = "from stated assumptions", {"is_difference": reference_grader is not None}
        yield _label_row(quality, interval, width, share, note, **differs) | about


def _label_row(
    quality: Quality,
    interval: Interval,
    width: float,
    share: float,
    note: str,
    *,
    is_difference: bool,
) -> dict[str, Any]:
    """Return the row of one width; ``share`` is the share of labels that the measure counts."""
    units = units_needed(interval, width / 2)
    method = f"interval of {quality}, length {width:g} at level {interval.ci_level:g}"
    if math.isfinite(units) and share > 0:
        estimate = float(math.ceil(units / share - 1e-9))
        count = Interval(estimate, math.nan, math.nan, interval.ci_level, method, note)
    else:
        reason = interval.note or "no labelled item counts for the measure"
        count = undefined(method, reason, ci_level=interval.ci_level)
    rate = interval.estimate
    # `rate` is a specificity or sensitivity, or a difference of two. The rate of false passes or
    # fails is 1 minus it; a difference of two such rates has the opposite sign.
    if quality.startswith("false_"):
        rate = -rate if is_difference else 1.0 - rate
    return row("gold_labels", count, width=width, target=quality, rate=rate)


def _interval_of(estimate: pd.Series) -> Interval:
    columns = ("estimate", "ci_low", "ci_high", "ci_level", "n")
    value, low, high, ci_level, n = (float(estimate[name]) for name in columns)
    return Interval(value, low, high, ci_level, note=str(estimate["note"] or ""), n=n)


def _refuse_kappa(quality: Quality) -> None:
    if quality == "kappa":
        raise StudyError(
            "gold_needed: measure 'kappa' is not compared between graders; allowed with "
            "reference_grader=: agreement, sensitivity, specificity, false_passes, false_fails."
        )


def _stated(name: str, value: Any) -> float:
    if value is None:
        raise StudyError(
            "gold_needed: give verdicts and gold of a pilot, or sensitivity, specificity and "
            f"baseline_rate (share of gold passes); missing: {name}."
        )
    return number(name, value, least=0, most=1)


def _both(name: str, rate: Any, reference_grader: str | None) -> list[float]:
    """Return a list with the rate of the grader and, if there is one, of the reference grader."""
    if reference_grader is None:
        if isinstance(rate, Mapping):
            raise StudyError(f"gold_needed: {name}: found a mapping; name reference_grader=.")
        return [_stated(name, rate)]
    if not isinstance(rate, Mapping) or len(rate) != 2:
        example = f"{name}={{'new': 0.9, '{reference_grader}': 0.8}}"
        raise StudyError(f"gold_needed: {name} needs the rates of two graders, such as {example}.")
    require_known("gold_needed: reference_grader: found", reference_grader, list(rate), StudyError)
    other = next(name for name in rate if name != reference_grader)
    return [_stated(name, rate[other]), _stated(name, rate[reference_grader])]


def _other_grader(rates: Mapping[str, Any], reference_grader: str) -> str:
    return next(str(name) for name in rates["sensitivity"] if name != reference_grader)


def _expected_interval(
    quality: Quality, prevalence: float, se: list[float], sp: list[float], ci_level: float
) -> tuple[Callable[[float], Interval], float]:
    """Return two values: a function of n that gives the expected interval, and a share.

    n is the number of labels that the measure counts, and the share is their part of all labels.
    For the specificity, for example, only the labels of items that fail by gold count.
    """
    right = np.array([se, sp])  # sensitivity and specificity of each grader
    weights = {
        "sensitivity": np.array([1.0, 0.0]),
        "false_fails": np.array([1.0, 0.0]),
        "specificity": np.array([0.0, 1.0]),
        "false_passes": np.array([0.0, 1.0]),
    }.get(quality, np.array([prevalence, 1.0 - prevalence]))
    counted = {1.0: prevalence, 0.0: 1.0 - prevalence}[weights[0]] if weights.max() == 1.0 else 1.0
    if quality == "kappa" and len(se) == 1:
        return _expected_kappa(prevalence, se[0], sp[0], ci_level), 1.0
    if len(se) == 1:
        rate = float(weights @ right[:, 0])
        return _expected_bounded([0.0, 1.0], [1.0 - rate, rate], RATES, ci_level), counted
    _refuse_kappa(quality)
    # the errors of two graders are assumed to be independent given the gold label
    better = float(weights @ (right[:, 0] * (1.0 - right[:, 1])))
    worse = float(weights @ (right[:, 1] * (1.0 - right[:, 0])))
    chances = [worse, 1.0 - better - worse, better]
    return _expected_bounded([-1.0, 0.0, 1.0], chances, DELTAS, ci_level), counted


def _expected_bounded(
    values: list[float], chances: list[float], quantity: Quantity, ci_level: float
) -> Callable[[float], Interval]:
    """Return a function that gives the interval of a bounded mean for the expected counts."""

    def expected(n: float) -> Interval:
        counts = np.round(np.array([chances]) * max(n, 1.0))
        made = bounded_mean_counts(np.array(values), counts, quantity=quantity, ci_level=ci_level)
        limits = float(made.low[0]), float(made.high[0])
        mean = float(np.dot(values, chances))  # use `chances`, because `counts` are rounded
        return Interval(mean, *limits, ci_level, n=float(counts.sum()))

    return expected


def _expected_kappa(
    prevalence: float, se: float, sp: float, ci_level: float
) -> Callable[[float], Interval]:
    """Return a function that gives the expected interval of kappa with n labels.

    The standard error is that of Fleiss, Cohen and Everitt 1969. If a study has too few
    disagreements, or too few agreements on a category, the interval of kappa is the rescaled
    interval of the raw agreement. The expected width is the mean of the widths of these two
    intervals, weighted by their probabilities.
    """
    table = np.array([[prevalence * se, prevalence * (1 - se)],
                      [(1 - prevalence) * (1 - sp), (1 - prevalence) * sp]])  # fmt: skip
    gold, grader = table.sum(axis=1), table.sum(axis=0)
    agreed, chance = float(np.trace(table)), float(gold @ grader)
    if not 0.0 < prevalence < 1.0:
        return lambda n: undefined("", "kappa: the gold labels do not vary", ci_level=ci_level, n=n)
    kappa = (agreed - chance) / (1.0 - chance)
    sides = grader[:, None] + gold[None, :]
    on = sum(table[i, i] * (1.0 - sides[i, i] * (1.0 - kappa)) ** 2 for i in range(2))
    off = sum(table[i, j] * sides[i, j] ** 2 for i, j in ((0, 1), (1, 0)))
    rest = (kappa - chance * (1.0 - kappa)) ** 2
    variance = (on + (1.0 - kappa) ** 2 * off - rest) / (1.0 - chance) ** 2

    raw = _expected_bounded([0.0, 1.0], [1.0 - agreed, agreed], RATES, ci_level)

    def expected(n: float) -> Interval:
        half = quantile(ci_level) * math.sqrt(max(variance, 0.0) / n)
        counts = np.array([1.0 - agreed, table[0, 0], table[1, 1]])
        enough = float(np.prod(binom.sf(FEWEST_EVENTS - 1, n, counts)))
        few = raw(n)
        half = enough * half + (1.0 - enough) * (few.high - few.low) / 2.0 / (1.0 - chance)
        return Interval(kappa, kappa - half, kappa + half, ci_level, n=n)

    return expected
