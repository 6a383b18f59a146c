"""The pass rate under each condition."""

from __future__ import annotations

from functools import partial

import pandas as pd

from skillcomp.contrast import MISSING, BoundedValue, Bounds, Contrast, Units, compared_units
from skillcomp.deltas.paired_deltas import OwnWords, contrast_rows, in_own_words
from skillcomp.frames.estimates import By, estimates, listed, ordered, with_method
from skillcomp.stats.bounded import IntervalRule
from skillcomp.stats.results import Fields

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


def contrasts_of_rates(units: Units) -> list[Contrast]:
    """Return a contrast of one arm for each group and condition."""
    return [
        Contrast(
            values | {"condition": condition},
            group,
            {(condition,): 1.0},
            nothing="no attempt has an outcome",
        )
        for group, values in enumerate(units.groups)
        for condition in ordered(key[0] for key in units.arms_of_group(group))
    ]
