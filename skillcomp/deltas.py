"""Paired deltas: what changes on the same cases when the skill is loaded.

Pairs are formed on the case; repeats are averaged inside it; attempts are never units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from skillcomp.contracts import check
from skillcomp.errors import FrameError, suggest
from skillcomp.estimates import (
    estimates,
    groups,
    listed,
    require_columns,
    require_one_grader,
    row,
)
from skillcomp.records import CONDITIONS, DIMENSIONS
from skillcomp.stats.clusters import cr2_mean, wilson_effective
from skillcomp.stats.multiplicity import holm
from skillcomp.stats.passk import pooled_pass_at_k, pooled_pass_hat_k
from skillcomp.stats.results import Interval, undefined
from skillcomp.stats.switching import paired_delta

__all__ = ["by_dimension", "case_table", "paired", "pass_at_k", "pass_hat_k", "rates"]

Value = Literal["passed", "share_passed"]
Cluster = Literal["case", "skill"]
MIN_SKILLS = 5  # fewer clusters carry no claim about skills in general (STATISTICS, rule 4)
_KEYS = ["skill", "case_id", "cluster"]


def case_table(outcomes: pd.DataFrame, *, by: Sequence[str] = ()) -> pd.DataFrame:
    """Return what each case contributes, one row per ``by``, case and condition.

    Parameters
    ----------
    outcomes : pandas.DataFrame
        A checked outcomes frame.
    by : sequence of str
        Further columns that keep rows apart.

    Returns
    -------
    pandas.DataFrame
        ``by``, skill, case_id, cluster (the case, or the pair where two cases contrast),
        condition, n (attempts with an outcome), n_passed, share (mean share of checks passed over
        the attempts that have one; NaN without).
    """
    twin = outcomes["contrast_of"]
    keyed = outcomes.assign(
        cluster=twin.where(twin.notna(), outcomes["case_id"]),
        _passed=outcomes["passed"].astype("float64"),
    )
    names = list(dict.fromkeys([*by, *_KEYS, "condition"]))
    grouped = keyed.groupby(names, sort=False, dropna=False, observed=True)
    table = grouped.agg(
        n=("_passed", "count"), n_passed=("_passed", "sum"), share=("share_passed", "mean")
    )
    return table.reset_index()


def paired(
    outcomes: pd.DataFrame,
    *,
    by: Sequence[str] = (),
    value: Value = "passed",
    reference: str = "baseline",
    cluster: Cluster = "case",
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Say how much more often the same cases pass when the skill is loaded.

    Pairs on the case, averages repeats inside a case (arms may have unequal numbers of them) and
    gives each case one vote. For the levels themselves use :func:`rates`.

    Parameters
    ----------
    outcomes : pandas.DataFrame
        An outcomes frame. Reads skill, case_id, condition, contrast_of, passed or share_passed.
    by : sequence of str
        Columns that keep rows apart, such as ``["skill"]`` or ``["grader", "skill"]``.
    value : {"passed", "share_passed"}, default "passed"
        Whole attempts passed, or the share of checks passed.
    reference : str, default "baseline"
        The condition that every other one is compared with.
    cluster : {"case", "skill"}, default "case"
        ``"case"``: the interval speaks of cases like these of these skills. ``"skill"``: it speaks
        of skills in general, which fewer than five skills do not allow: the interval then falls
        back to these cases only and says so; a single skill gives NaN.
    ci_level : float, default 0.95
        Level of the interval.

    Returns
    -------
    pandas.DataFrame
        One row per ``by`` and condition other than the reference: ``by``, condition, then the
        estimates columns (measure ``delta_passed`` or ``delta_share_passed``, estimate in rate
        units from -1 to 1, ci_low, ci_high, ci_level, n = pairs of cases, n_clusters, p_value by
        inverting the same interval, method, note) and reference, rate, reference_rate (means over
        the paired cases), n_dropped (cases without a partner). The note says which rule fired.

    Raises
    ------
    FrameError
        If the frame breaks its contract, several graders would be pooled, the reference is not
        among the conditions, or ``by`` names ``condition``.

    See Also
    --------
    by_dimension : The same by rubric dimension, adjusted for multiplicity.
    skillcomp.plots.estimates : Draws the result.

    Notes
    -----
    ``passed``: the switching rule of :func:`skillcomp.stats.switching.paired_delta`.
    ``share_passed``: mean difference with CR2 standard error and Satterthwaite degrees of freedom;
    when all differences are equal it has no spread to measure, and the score interval of the
    passed counts is printed instead, with a note. The two members of a contrast pair share a
    prompt and form one cluster. Attempts without an outcome (a failed grader) are left out of the
    mean of their case; a case without any outcome in an arm is dropped and counted.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({
    ...     "skill": "s", "case_id": [f"s/{i}" for i in range(12)] * 2,
    ...     "condition": ["baseline"] * 12 + ["skill"] * 12,
    ...     "passed": [True] * 3 + [False] * 9 + [True] * 11 + [False]})
    >>> row = paired(frame, by=["skill"]).iloc[0]
    >>> row["condition"], round(float(row["estimate"]), 3), int(row["n"])
    ('skill', 0.667, 12)
    """
    names = listed(by)
    given = _prepared(outcomes, names, value, "deltas.paired")
    found = list(given["condition"].unique())
    if len(given) and reference not in found:
        raise FrameError(
            f"reference: there is no condition '{reference}'; there: {', '.join(found)}."
            + suggest(reference, found)
        )
    table = case_table(given, by=names)
    rows = []
    for values, part in groups(table, names):
        base = part[part["condition"].eq(reference)]
        for condition in _ordered(part["condition"], reference):
            arm = part[part["condition"].eq(condition)]
            rows.append(
                _one_delta(arm, base, value, cluster, ci_level)
                | values
                | {"condition": condition, "reference": reference}
            )
    extra = ["reference", "rate", "reference_rate", "n_dropped"]
    return estimates(rows, by=[*names, "condition"], extra=extra)


def _prepared(outcomes: pd.DataFrame, names: list[str], value: str, what: str) -> pd.DataFrame:
    if value not in ("passed", "share_passed"):
        raise FrameError(
            f"value: found '{value}'; allowed: 'passed', 'share_passed'."
            + suggest(str(value), ["passed", "share_passed"])
        )
    if "condition" in names:
        raise FrameError(f"{what}: by= names 'condition', which is what is compared. Leave it out.")
    given = check(outcomes, "outcomes")
    require_columns(given, names, what)
    require_one_grader(given, names, what)
    return given


def _ordered(conditions: pd.Series, reference: str | None) -> list[str]:
    """Return conditions in their fixed order, others after by first appearance."""
    found = [name for name in conditions.unique() if name != reference]
    return [c for c in CONDITIONS if c in found] + [c for c in found if c not in CONDITIONS]


def _one_delta(
    arm: pd.DataFrame, base: pd.DataFrame, value: Value, cluster: Cluster, ci_level: float
) -> dict[str, Any]:
    if cluster not in ("case", "skill"):
        raise FrameError(
            f"cluster: found '{cluster}'; allowed: 'case', 'skill'."
            + suggest(str(cluster), ["case", "skill"])
        )
    known = "n" if value == "passed" else "share"
    both = arm.merge(base, on=["case_id"], suffixes=("_1", "_0"), how="outer")
    has = [
        both[f"n_{side}"].fillna(0).gt(0) if known == "n" else both[f"share_{side}"].notna()
        for side in (1, 0)
    ]
    pairs = both[has[0] & has[1]]
    n_dropped = len(both) - len(pairs)
    measure = f"delta_{value}"
    if pairs.empty:
        nothing = undefined("", "no case has outcomes in both conditions", ci_level=ci_level, n=0)
        return row(measure, nothing, rate=np.nan, reference_rate=np.nan, n_dropped=n_dropped)
    compute = _delta_passed if value == "passed" else _delta_share
    interval, notes = _at_level(pairs, cluster, ci_level, compute)
    if n_dropped:
        notes.append(f"{n_dropped} cases dropped: no outcome in one of the two conditions")
    rate, reference_rate = (
        float((pairs[f"n_passed_{s}"] / pairs[f"n_{s}"]).mean())
        if value == "passed"
        else float(pairs[f"share_{s}"].mean())
        for s in (1, 0)
    )
    result = row(measure, interval, rate=rate, reference_rate=reference_rate, n_dropped=n_dropped)
    return result | {"note": "; ".join([*([interval.note] if interval.note else []), *notes])}


def _at_level(
    pairs: pd.DataFrame, cluster: Cluster, ci_level: float, compute: Any
) -> tuple[Interval, list[str]]:
    """Cluster at the level of the claim, or say why the claim is refused."""
    n_skills = pairs["skill_1"].nunique()
    if cluster == "skill" and n_skills == 1 and len(pairs) > 1:
        note = "one skill says nothing of skills in general; use cluster='case'"
        return undefined("", note, ci_level=ci_level, n=float(len(pairs))), []
    if cluster == "skill" and n_skills < MIN_SKILLS:
        note = (
            f"these cases only: {n_skills} skills are too few to speak of skills in general "
            f"(at least {MIN_SKILLS})"
        )
        return compute(pairs, pairs["cluster_1"], ci_level), [note]
    label = pairs["skill_1"] if cluster == "skill" else pairs["cluster_1"]
    note = f"cases of these {n_skills} skills" if cluster == "case" and n_skills > 1 else ""
    return compute(pairs, label, ci_level), [note] if note else []


def _delta_passed(pairs: pd.DataFrame, clusters: pd.Series, ci_level: float) -> Interval:
    return paired_delta(
        pairs["n_passed_1"].to_numpy(),
        pairs["n_1"].to_numpy(),
        pairs["n_passed_0"].to_numpy(),
        pairs["n_0"].to_numpy(),
        clusters=pd.factorize(clusters)[0],
        ci_level=ci_level,
    )


def _delta_share(pairs: pd.DataFrame, clusters: pd.Series, ci_level: float) -> Interval:
    difference = (pairs["share_1"] - pairs["share_0"]).to_numpy()
    if len(difference) > 1 and np.ptp(difference) > 0:
        interval = cr2_mean(difference, pd.factorize(clusters)[0], ci_level=ci_level)
        if interval.high > interval.low:
            return _inside(interval)
    scored = pairs[(pairs["n_1"] > 0) & (pairs["n_0"] > 0)]
    estimate = float(difference.mean())
    if scored.empty:
        return undefined(
            "CR2",
            "no spread, and no passed counts to fall back on",
            ci_level=ci_level,
            n=float(len(pairs)),
        )
    score = _delta_passed(scored, clusters.loc[scored.index], ci_level)
    note = "differences without spread: the limits are the score interval of attempts passed"
    return Interval(
        estimate,
        min(score.low, estimate),
        max(score.high, estimate),
        ci_level=ci_level,
        method=score.method,
        note=f"{note}; {score.note}" if score.note else note,
        n=float(len(pairs)),
        n_clusters=score.n_clusters,
    )


def _inside(interval: Interval) -> Interval:
    """Cut limits to the range that a difference of rates has."""
    if interval.low >= -1.0 and interval.high <= 1.0:
        return interval
    return replace(
        interval,
        low=max(interval.low, -1.0),
        high=min(interval.high, 1.0),
        note="; ".join(filter(None, [interval.note, "limits cut to -1 and 1"])),
    )


def rates(
    outcomes: pd.DataFrame,
    *,
    by: Sequence[str] = (),
    value: Value = "passed",
    cluster: Cluster = "case",
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Say how often attempts pass under each condition, with an interval by case.

    Parameters
    ----------
    outcomes : pandas.DataFrame
        An outcomes frame.
    by : sequence of str
        Columns that keep rows apart; ``condition`` always does.
    value : {"passed", "share_passed"}, default "passed"
        Whole attempts passed, or the share of checks passed.
    cluster : {"case", "skill"}, default "case"
        The unit of evidence.
    ci_level : float, default 0.95
        Level of the interval.

    Returns
    -------
    pandas.DataFrame
        One row per ``by`` and condition: estimates columns (measure ``rate_passed`` or
        ``rate_share_passed``, estimate from 0 to 1) and n_missing (attempts without an outcome).
        NaN with a note where no attempt has one.

    Notes
    -----
    Cases weigh equally. The interval is Wilson's on the effective number of attempts
    (:func:`skillcomp.stats.clusters.wilson_effective`), which stays inside 0 and 1 and never has
    zero width; for ``share_passed`` CR2 unless the shares have no spread.
    """
    names = [name for name in listed(by) if name != "condition"]
    given = _prepared(outcomes, names, value, "deltas.rates")
    table = case_table(given, by=names)
    lost = (
        given[value]
        .isna()
        .groupby([given[n] for n in [*names, "condition"]], sort=False, dropna=False)
        .sum()
    )
    missing = dict(zip(lost.index, lost, strict=True))
    rows = []
    for values, group in groups(table, names):
        for condition in _ordered(group["condition"], None):
            part = group[group["condition"].eq(condition)]
            interval = _one_rate(part, value, cluster, ci_level)
            key = (*values.values(), condition) if names else condition
            rows.append(
                row(
                    f"rate_{value}",
                    interval,
                    **values,
                    condition=condition,
                    n_missing=int(missing.get(key, 0)),
                )
            )
    return estimates(rows, by=[*names, "condition"], extra=["n_missing"])


def _one_rate(part: pd.DataFrame, value: Value, cluster: Cluster, ci_level: float) -> Interval:
    kept = part[part["n"].gt(0)] if value == "passed" else part[part["share"].notna()]
    if kept.empty:
        return undefined("", "no attempt has an outcome", ci_level=ci_level, n=0)
    codes = pd.factorize(kept["skill" if cluster == "skill" else "cluster"])[0]
    if value == "share_passed":
        shares = kept["share"].to_numpy()
        if len(shares) > 1 and np.ptp(shares) > 0 and len(np.unique(codes)) > 1:
            mean = cr2_mean(shares, codes, ci_level=ci_level)
            if 0 <= mean.low < mean.high <= 1:
                return mean
        return wilson_effective(shares, codes, ci_level=ci_level)
    share_of_repeats = (kept["n_passed"] / kept["n"]).to_numpy()
    return wilson_effective(
        share_of_repeats, codes, attempts=kept["n"].to_numpy(), ci_level=ci_level
    )


def by_dimension(
    outcomes: pd.DataFrame,
    *,
    by: Sequence[str] = (),
    value: Value = "passed",
    reference: str = "baseline",
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Say on which rubric dimensions the skill helps, adjusted for asking nine times.

    Parameters
    ----------
    outcomes : pandas.DataFrame
        An outcomes frame with comprehension_dimension; attempts without one are left out.
    by, value, reference, ci_level
        As in :func:`paired`.

    Returns
    -------
    pandas.DataFrame
        As :func:`paired`, one row per ``by``, dimension and condition, with ``p_adjusted`` by
        Holm over the nine dimensions of each ``by`` and condition. A dimension without a pair has
        NaN and still counts in the family.

    Notes
    -----
    The family is C1 to C9 per ``by`` and condition, declared here and not chosen by the data.
    """
    names = listed(by)
    given = _prepared(outcomes, names, value, "deltas.by_dimension")
    given = given[given["comprehension_dimension"].notna()]
    keys = [*names, "comprehension_dimension"]
    result = paired(given, by=keys, value=value, reference=reference, ci_level=ci_level)
    parts = []
    for _, part in groups(result, [*names, "condition"]):
        family = part.set_index("comprehension_dimension")["p_value"].reindex(list(DIMENSIONS))
        adjusted = pd.Series(holm(family.to_numpy(dtype=float)), index=list(DIMENSIONS))
        parts.append(
            part.assign(
                p_adjusted=adjusted.reindex(part["comprehension_dimension"]).to_numpy(),
                method=part["method"] + f"; Holm over {len(DIMENSIONS)} dimensions",
            ).sort_values("comprehension_dimension", kind="stable")
        )
    return pd.concat(parts, ignore_index=True) if parts else result


def pass_at_k(
    outcomes: pd.DataFrame, *, k: int, by: Sequence[str] = (), ci_level: float = 0.95
) -> pd.DataFrame:
    """Say how likely at least one of ``k`` attempts at a case passes.

    Parameters
    ----------
    outcomes : pandas.DataFrame
        An outcomes frame; every case needs at least ``k`` attempts with an outcome.
    k : int
        Number of tries.
    by : sequence of str
        Columns that keep rows apart; ``condition`` always does.
    ci_level : float, default 0.95
        Level of the interval.

    Returns
    -------
    pandas.DataFrame
        One row per ``by`` and condition: estimates columns (measure ``pass_at_k``), ``k``.

    See Also
    --------
    pass_hat_k : How likely all of ``k`` attempts pass.
    """
    return _pass_k(outcomes, k, by, ci_level, "pass_at_k", pooled_pass_at_k)


def pass_hat_k(
    outcomes: pd.DataFrame, *, k: int, by: Sequence[str] = (), ci_level: float = 0.95
) -> pd.DataFrame:
    """Say how likely all of ``k`` attempts at a case pass; see :func:`pass_at_k`."""
    return _pass_k(outcomes, k, by, ci_level, "pass_hat_k", pooled_pass_hat_k)


def _pass_k(
    outcomes: pd.DataFrame, k: int, by: Sequence[str], ci_level: float, measure: str, compute: Any
) -> pd.DataFrame:
    names = [name for name in listed(by) if name != "condition"]
    given = _prepared(outcomes, names, "passed", f"deltas.{measure}")
    table = case_table(given, by=names)
    rows = []
    for values, group in groups(table, names):
        for condition in _ordered(group["condition"], None):
            part = group[group["condition"].eq(condition) & group["n"].gt(0)]
            result = compute(
                part["n"].to_numpy(),
                part["n_passed"].to_numpy(dtype=int),
                k,
                clusters=pd.factorize(part["cluster"])[0],
                ci_level=ci_level,
            )
            rows.append(row(measure, result, **values, condition=condition, k=k))
    return estimates(rows, by=[*names, "condition"], extra=["k"])
