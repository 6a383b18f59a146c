"""The pass rate under each condition, and passes in the agent's own words."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd

from skillcomp.frames.case_table import (
    WEIGHT,
    Value,
    arms_of,
    case_table,
    claim,
    claimed,
    compared_outcomes,
    covering_means,
    level_of,
    missing_note,
    with_weights,
)
from skillcomp.frames.check import check_cluster
from skillcomp.frames.contracts import CASE
from skillcomp.frames.estimates import (
    By,
    condition_groups,
    estimates,
    group_codes,
    listed,
    means_of_cases,
    require_columns,
    row,
    with_method,
)
from skillcomp.stats.bounded import RATES, SHARES, IntervalRule, Sample, mixed_of_case
from skillcomp.stats.results import join_notes

OwnWords = Literal["passed_own_words"]
_WORST = ["worst_low", "worst_high"]
MISSING_OF_RATE = ["n_missing", "n_attempts", *_WORST]


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
        how: dict[str, Any] = {"by": names, "cluster": cluster, "average": levels}
        estimate = partial(rates, **how, weight=weight, ci_level=ci_level, interval=interval)
        return in_own_words(estimate, outcomes, "deltas.rates", None)
    checked = compared_outcomes(outcomes, names, "deltas.rates", value=value, average=levels)
    table = case_table(checked, by=[*names, *levels], column=check_cluster(cluster, checked))
    table = with_weights(table, checked, weight)
    parts, samples, by_name = [], [], []
    cases = _rates_of_cases(table, names, levels, value)
    numbers = {name: cases[name].to_numpy() for name in cases}
    for about, group in condition_groups(cases[[*names, "condition"]], names):
        at = group.index.to_numpy()
        weights = numbers["share_of_case"][at]
        worst = [float(np.average(numbers[end][at], weights=weights)) for end in _WORST]
        lost, warning = missing_of_rate(numbers["size"][at], numbers["n"][at], worst)
        at, means = at[~np.isnan(numbers["rate"][at])], ""
        columns = {name: values[at] for name, values in numbers.items()}
        if levels:
            part, means = means_of_cases(cases.loc[at], ["rate", "mixed"], levels)
            columns = {name: part[name].to_numpy() for name in part}
        label, note = claim(columns["skill"], columns["cluster"], cluster)
        sides = [(columns["rate"], columns["n"], columns["n_checks"], 1.0, columns["mixed"])]
        arms = arms_of(sides, is_share=value != "passed")
        samples.append(Sample(columns["rate"], label, columns.get(WEIGHT), arms))
        by_name.append(claim(columns["skill"], columns["cluster_by_name"], cluster)[0])
        parts.append((about | lost, note, join_notes(means, warning)))
    quantity = RATES if value == "passed" else SHARES
    how = {"quantity": quantity, "ci_level": ci_level, "interval": interval}
    intervals = covering_means(samples, by_name, **how)
    nothing = "no attempt has an outcome"
    rows = [
        row(f"rate_{value}", claimed(interval, note, nothing, warning), **about)
        for (about, note, warning), interval in zip(parts, intervals, strict=True)
    ]
    result = estimates(rows, by=[*names, "condition"], extra=MISSING_OF_RATE, outcomes=checked)
    return with_method(result, cluster, None)


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


def _rates_of_cases(
    table: pd.DataFrame, names: list[str], levels: list[str], value: str
) -> pd.DataFrame:
    """Return the rates of a case table, with the columns for their interval and bounds.

    ``worst_low`` and ``worst_high`` are the rates if all missing attempts had failed, and if all
    had passed (a missing attempt with a failed check cannot pass). ``share_of_case`` is the weight
    of a row: the weight of its case, divided by the number of rows of the case under the condition.
    """
    n, met, name = table["n"], table["n_passed"], "passed"
    if value != "passed":
        n, met, name = table["n_shares"], table["share"].fillna(0.0) * table["n_shares"], "share"
    rate = level_of(table, value)
    group = group_codes(table, list(dict.fromkeys([*names, *CASE, "condition"])))[0]
    keys = dict.fromkeys([*names, *levels, *CASE, "condition", "cluster", "cluster_by_name"])
    weights = [WEIGHT] if WEIGHT in table else []
    return (
        table[[*keys, *weights, "size", "n_checks"]]
        .reset_index(drop=True)
        .assign(
            n=n,
            rate=rate,
            mixed=mixed_of_case(rate, n if value == "passed" else None),
            worst_low=(met + table[f"{name}_low"]) / table["size"],
            worst_high=(met + table[f"{name}_high"]) / table["size"],
            share_of_case=table.get(WEIGHT, 1.0) / np.bincount(group)[group],
        )
    )


def missing_of_rate(size: Any, n: Any, worst: list[float]) -> tuple[dict[str, Any], str]:
    """Return the columns about missing attempts of a condition, and a note on these attempts."""
    counts = [int((size - n).sum()), int(size.sum())]
    note, _ = missing_note(counts, [""])
    if note:
        note += f"; in the worst case the rate is {worst[0]:.2f} or {worst[1]:.2f}"
    return dict(zip(MISSING_OF_RATE, (*counts, *worst), strict=True)), note
