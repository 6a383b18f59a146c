"""Number of cases or repeats that would settle the verdicts of a study."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Unpack

import numpy as np
import pandas as pd
from scipy.stats import norm

from skillcomp.frames.estimates import estimates, listed, require_columns, row
from skillcomp.planning import assumptions as assumed
from skillcomp.planning.assumptions import Assumptions, Stated, stated
from skillcomp.planning.components import variance_components
from skillcomp.planning.power import (
    MOST_CASES,
    ONE_REPEAT,
    cases_needed,
    power_curve,
    smallest_sufficient,
)
from skillcomp.stats.bounded import DELTAS, Arm
from skillcomp.stats.bounded_studies import bounded_mean_counts
from skillcomp.stats.results import Interval, undefined

# A cautious plan assumes the change at this quantile of the estimate's sampling distribution.
CAUTIOUS = 0.2
MOST_REPEATS = 20
MANY_REPEATS = f"not even {MOST_REPEATS} repeats would be enough"
NONE_ENOUGH = "if the change is less favourable (a one-in-five chance), no number is enough"
_NEEDED = ["condition", "estimate", "ci_low", "ci_high", "ci_level", "n", "margin", "p_limit"]
_EXTRA = ["sought", "size", "margin", "power", "n_cases", "n_repeats"]


def cases_to_settle(
    decided: pd.DataFrame,
    pilot: pd.DataFrame,
    *,
    n_repeats: int = 2,
    power: float = 0.8,
    assumptions: Assumptions | None = None,
    **words: Unpack[Stated],
) -> pd.DataFrame:
    """Estimate how many cases, or how many repeats of the same cases, would settle a verdict.

    The verdicts sought are those that the data point to. If the estimate is beyond the margin,
    these are ``helps`` and ``teaching``, or ``hurts`` and ``harmful``. If it is within the margin,
    this is ``ineffective``.

    Parameters
    ----------
    decided : pandas.DataFrame
        Rows of :func:`skillcomp.skillverdicts.decide`, such as the undetermined ones.
    pilot : pandas.DataFrame
        The outcomes from which ``decided`` was computed, or :func:`variance_components` of them.
    n_repeats : int, default 2
        Number of attempts per case and condition.
    power : float, default 0.8
        Target probability of the verdict.
    assumptions, **words
        As in :func:`power_curve`: ``by``, ``value``, ``reference`` and ``interval`` are those of
        ``decided``. The margin and the level are taken from the rows of ``decided``; ``helps`` and
        ``hurts`` are sought at the level ``1 - p_limit``, where ``p_limit`` is a column of
        ``decided``.

    Returns
    -------
    pandas.DataFrame
        For each row of ``decided``, four rows per verdict sought, with the measures

        - ``cases_at_estimate``: number of cases if the true change is as observed (``size``);
        - ``cases_at_20th_percentile``: the same for a change that is closer to the margin, at the
          20th percentile of the estimate's distribution. NaN with a note if no number is enough,
          because this change is on the other side of the margin (of 0 for ``helps`` and
          ``hurts``);
        - ``fewest_cases``: smallest number of cases at which a study can settle the verdict at all;
        - ``repeats_at_estimate``: number of repeats of the same cases (``n_cases``) that would
          settle it if the true change is as observed. NaN with a note if 20 repeats would not.

        Further columns: ``sought`` (the verdict), ``size``, ``margin``, ``power``, ``n_cases`` (of
        the study) and ``n_repeats``. An estimate is NaN with a note if it is unknown.

    Raises
    ------
    StudyError, FrameError
        As in :func:`power_curve`.

    See Also
    --------
    cases_needed : Number of cases for a change that you state.

    Notes
    -----
    A study that is planned for the estimate has the target power only if the true change is at
    least as large; an estimate can be too large by chance. For a gain beyond the margin, the 20th
    percentile is the estimate minus 0.84 / 1.96 of the distance to the lower limit (at a level of
    95 %). It is therefore also defined for a corrected estimate. ``fewest_cases`` tries results in
    which all cases have the same rates. Fix the number of cases in advance: if cases are added
    until a verdict appears, the verdict is wrong more often.
    """
    settings, rows = stated(assumptions, words), []
    names = listed(settings.by)
    require_columns(decided, [*names, *_NEEDED], "planning.cases_to_settle")
    assumed.whole("n_repeats", n_repeats)
    table = pilot
    if "measure" not in getattr(pilot, "columns", ()):
        how: dict[str, Any] = {"by": names, "reference": settings.reference}
        table = variance_components(pilot, value=settings.value, **how)
    for _, verdict in decided.iterrows():
        keys = [*names, "condition"]
        about = {name: verdict[name] for name in keys}
        part = table[table[keys].eq(verdict[keys]).all(axis=1)]
        about_plan = {"power": power, "n_cases": verdict["n"], "n_repeats": n_repeats}
        for sought, margin, ci_level in _sought_verdicts(verdict):
            own = replace(settings, margin=margin, ci_level=ci_level)
            extra = {"sought": sought, "margin": margin, **about_plan}
            for measure, size, interval in _settling_counts(verdict, part, n_repeats, power, own):
                rows.append(row(measure, interval, **about) | extra | {"size": size})
    return estimates(rows, by=[*names, "condition"], extra=_EXTRA)


def _sought_verdicts(verdict: pd.Series) -> list[tuple[str, float, float]]:
    """Return the verdicts that an estimate points to, each with its margin and level."""
    size, margin, level = verdict["estimate"], verdict["margin"], verdict["ci_level"]
    if abs(size) < margin:
        return [("ineffective", margin, level)]
    change, beyond = ("helps", "teaching") if size > 0 else ("hurts", "harmful")
    of_change = [] if pd.isna(verdict["p_limit"]) else [(change, 0.0, 1.0 - verdict["p_limit"])]
    return [*of_change, (beyond, margin, level)]


def _settling_counts(
    verdict: pd.Series, pilot: pd.DataFrame, n_repeats: int, power: float, settings: Assumptions
) -> Iterator[tuple[str, float, Interval]]:
    """Yield, for one verdict sought, each measure with its assumed change and its estimate."""
    size, level = float(verdict["estimate"]), settings.ci_level
    if math.isnan(size) or pilot.empty:
        nothing = undefined("", "no estimate, or no pilot of it", ci_level=level)
        yield from ((measure, size, nothing) for measure in _MEASURES)
        return
    cautious = _cautious_size(verdict, settings.margin)
    how: dict[str, Any] = {"n_skills": 1, "assumptions": settings}
    sizes = [size] if math.isnan(cautious) else [size, cautious]
    needed = cases_needed(pilot, size=sizes, n_repeats=n_repeats, power=power, **how)
    needed = needed[needed["measure"].eq("cases_per_skill")]
    counts = [_as_interval(count) for _, count in needed.iterrows()]
    yield _MEASURES[0], size, counts[0]
    promised = undefined("", NONE_ENOUGH, ci_level=level) if len(sizes) == 1 else counts[1]
    yield _MEASURES[1], cautious, promised
    adaptive = settings.interval == "adaptive" and settings.value == "passed"
    within, n_attempts = abs(size) < settings.margin, n_repeats if adaptive else 0
    fewest, note = math.nan, "no t interval of results without spread"
    if settings.interval != "t":
        fewest = _fewest_cases_of_any_result(settings.margin, within, n_attempts, level)
        note = ""
    yield _MEASURES[2], math.nan, replace(counts[0], estimate=fewest, note=note)
    how |= {"n_cases": max(int(verdict["n"]), 2), "n_repeats": n_repeats}
    yield _MEASURES[3], size, _repeats_instead(pilot, size, power, how, counts[0])


_MEASURES = ("cases_at_estimate", "cases_at_20th_percentile", "fewest_cases", "repeats_at_estimate")


def _as_interval(count: pd.Series) -> Interval:
    limits = (math.nan, math.nan, count["ci_level"])
    return Interval(count["estimate"], *limits, count["method"], count["note"])


def _cautious_size(verdict: pd.Series, margin: float) -> float:
    """Return the change that a cautious plan assumes; NaN if it is on the margin's other side."""
    size = float(verdict["estimate"])
    within, sign = abs(size) < margin, math.copysign(1.0, size)
    # The cautious size is closer to the margin than the estimate. It is larger than an estimate
    # within the margin, and smaller than an estimate beyond it.
    upwards = (sign > 0) == within
    reach = abs(verdict["ci_high" if upwards else "ci_low"] - size)
    reach *= norm.isf(CAUTIOUS) / norm.isf((1.0 - verdict["ci_level"]) / 2)
    cautious = size + reach if upwards else size - reach
    same_side = abs(cautious) < margin if within else sign * cautious > margin
    return cautious if same_side else math.nan


def _fewest_cases_of_any_result(
    margin: float, within: bool, n_attempts: int, ci_level: float
) -> float:
    """Return the smallest number of cases for which some result would settle the verdict.

    A result settles the verdict if its interval is beyond the margin or, with ``within``, inside
    the margin. ``n_attempts`` is the number of attempts per case and condition, which the adaptive
    rule uses; it is 0 for the bounded rule.
    """
    steps = max(n_attempts, 1)
    up, down = (side.ravel() / steps for side in np.indices((steps + 1, steps + 1)))
    favourable = up == down if within else up - down > margin
    up, down = up[favourable, None], down[favourable, None]
    attempts = np.full(up.shape, float(steps))
    arms = [Arm(up, attempts), Arm(down, attempts, -1.0)] if n_attempts else []
    how: dict[str, Any] = {"arms": arms, "quantity": DELTAS, "ci_level": ci_level}

    def possible(n: int) -> bool:
        limits = bounded_mean_counts(up - down, np.full(up.shape, n), **how)
        inside = (limits.low > -margin) & (limits.high < margin)
        return bool((inside if within else limits.low > margin).any())

    return float(smallest_sufficient(possible, 8) or MOST_CASES)


def _repeats_instead(
    pilot: pd.DataFrame, size: float, power: float, how: dict[str, Any], needed: Interval
) -> Interval:
    """Return the number of repeats needed for the target power; NaN if 20 are not enough."""
    least = how.pop("n_repeats")

    def powers(n_repeats: int) -> pd.Series:
        return power_curve(pilot, sizes=size, n_repeats=n_repeats, **how).iloc[0]

    most = powers(MOST_REPEATS)
    unknown = pd.isna(most["estimate"]) or ONE_REPEAT in most["note"]
    if unknown or most["estimate"] < power:
        reason = most["note"] if unknown else MANY_REPEATS
        return replace(needed, estimate=math.nan, note=reason)

    def enough(n_repeats: int) -> bool:
        return n_repeats > least and bool(powers(n_repeats)["estimate"] >= power)

    return replace(needed, estimate=float(smallest_sufficient(enough, MOST_REPEATS) or 0))
