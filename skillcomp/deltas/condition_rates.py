"""The pass rate under each condition, and passes in the agent's own words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd

from skillcomp.contrast import (
    MISSING,
    Contrast,
    Units,
    Value,
    case_table,
    compared_outcomes,
    with_weights,
    within,
)
from skillcomp.frames.check import check_cluster
from skillcomp.frames.estimates import (
    By,
    estimates,
    listed,
    ordered,
    require_columns,
    row,
    with_method,
)
from skillcomp.stats.bounded import IntervalRule
from skillcomp.stats.results import join_notes

OwnWords = Literal["passed_own_words"]
MISSING_OF_RATE = [*MISSING[:2], *MISSING[-2:]]


def rates(
    outcomes: pd.DataFrame,
    *,
    by: By = (),
    value: Value | OwnWords = "passed",
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
    value : {"passed", "share_passed", "passed_own_words"}, default "passed"
        As in :func:`skillcomp.deltas.paired`.
    cluster, average, weight, interval
        As in :func:`skillcomp.deltas.paired`.
    ci_level : float, default 0.95
        Level of the interval.

    Returns
    -------
    pandas.DataFrame
        One row per ``by`` and condition with the estimates columns. The measure is ``rate_passed``,
        ``rate_share_passed`` or ``rate_passed_own_words``; the estimate, from 0 to 1, is NaN with a
        note if no attempt has an outcome. ``n_missing`` of ``n_attempts`` attempts are missing, as
        in :func:`skillcomp.deltas.paired`. ``worst_low`` is the rate if all missing attempts had
        failed, ``worst_high`` the rate if all had passed (a missing attempt with a failed check
        cannot pass).

    Notes
    -----
    Cases have equal weights, unless ``weight`` is used. The interval is that of
    :func:`skillcomp.stats.bounded.bounded_mean` for the rates of the cases. Unless ``interval`` is
    ``"t"``, it is within 0 and 1 and never has zero width.
    """
    names, levels = [name for name in listed(by) if name != "condition"], listed(average)
    if value == "passed_own_words":
        estimate = partial(
            rates,
            by=names,
            cluster=cluster,
            average=levels,
            weight=weight,
            ci_level=ci_level,
            interval=interval,
        )
        return in_own_words(estimate, outcomes, "deltas.rates", None)
    checked = compared_outcomes(outcomes, names, "deltas.rates", value=value, average=levels)
    table = case_table(checked, by=[*names, *levels], column=check_cluster(cluster, checked))
    units = Units.of(with_weights(table, checked, weight), names, value=value, average=levels)
    rows = contrast_rows(
        f"rate_{value}",
        units,
        contrasts_of_rates(units),
        cluster=cluster,
        ci_level=ci_level,
        interval=interval,
    )
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


def contrast_rows(
    measure: str, units: Units, contrasts: Sequence[Contrast], **how: Any
) -> list[dict[str, Any]]:
    """Estimate rates, deltas or differences of deltas; return one row for each contrast.

    ``how`` contains arguments of :func:`skillcomp.contrast.within`. Of a difference of deltas, the
    columns ``rate`` and ``reference_rate`` hold the two deltas.
    """
    rows = []
    for contrast, mean in zip(contrasts, within(units, contrasts, **how), strict=True):
        levels: Any = mean.levels
        if len(levels) > 2:
            levels = np.subtract(levels[:2], levels[2:])
        about = dict(zip(("rate", "reference_rate"), levels, strict=False))
        names = [*MISSING[: len(mean.missing)], *MISSING[-2:]]
        about |= dict(zip(names, (*mean.missing, *mean.worst), strict=True))
        about["n_dropped"] = mean.n_dropped
        rows.append(row(measure, mean.interval, **about) | contrast.about)
    return rows


def in_own_words(
    estimate: Callable[[pd.DataFrame], pd.DataFrame],
    outcomes: pd.DataFrame,
    what: str,
    reference: str | None,
) -> pd.DataFrame:
    """Estimate a rate or delta of ``passed_own_words``.

    A pass without a value of ``passed_own_words`` is *open*: it is too short to tell whether it
    copies, or it was not scored. The estimate uses all other attempts. It is clipped so that it
    lies between two extremes: all open passes copy, or none does. The lower limit of the interval
    is the one for "all copy", the upper limit the one for "none copies". For a delta, the open
    passes of the reference are assumed to do the opposite.
    """
    require_columns(outcomes, ["passed", "passed_own_words", "condition"], what)
    passed, own = (outcomes[n].astype("boolean") for n in ("passed", "passed_own_words"))
    unknown = passed.fillna(False) & own.isna()
    turned = outcomes["condition"].eq(reference) if reference is not None else unknown & False
    judged, low, high = (
        estimate(outcomes.assign(passed=own.mask(unknown, reading)))
        for reading in (pd.NA, turned.astype("boolean"), ~turned.astype("boolean"))
    )
    result = high.assign(measure=high["measure"] + "_own_words")
    counts = [name for name in ("n_missing", "n_missing_reference") if name in high.columns]
    n_unknown = (judged[counts] - high[counts]).sum(axis=1).astype(int)
    open_ = n_unknown > 0
    result["estimate"] = judged["estimate"].clip(low["estimate"], high["estimate"])
    result["estimate"] = result["estimate"].where(open_, high["estimate"])
    result["ci_low"] = low["ci_low"].where(open_, high["ci_low"])
    result["worst_low"] = low["worst_low"].where(open_, high["worst_low"])
    result["p_value"] = high["p_value"].where(~open_, np.fmax(low["p_value"], high["p_value"]))
    result[["se", "df"]] = result[["se", "df"]].mask(open_)
    sides = zip(n_unknown, low["estimate"], high["estimate"], result["note"], strict=True)
    result["note"] = [
        join_notes(_own_words_note(int(n), a, b), note) if n else note for n, a, b, note in sides
    ]
    return result


def _own_words_note(n_unknown: int, low: float, high: float) -> str:
    return (
        f"passes too short to tell whether they copy, or not scored: {n_unknown}; the estimate is "
        f"between {low:.2f} and {high:.2f}, whatever they do, and the interval covers both"
    )
