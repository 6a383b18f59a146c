"""Paired deltas: what changes on the same cases when the skill is loaded.

Pairs are formed on the case; repeats are averaged inside it; attempts are never units.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from skillcomp.columns import Columns
from skillcomp.contracts import check
from skillcomp.errors import FrameError, suggest
from skillcomp.estimates import (
    estimates,
    groups,
    listed,
    require_columns,
    require_one_agent,
    require_one_grader,
    row,
)
from skillcomp.pairing import Cluster, Pairing, Value, check_cluster, one_delta
from skillcomp.records import CONDITIONS, DIMENSIONS
from skillcomp.stats.clusters import cr2_mean, wilson_effective
from skillcomp.stats.multiplicity import holm
from skillcomp.stats.passk import pooled_pass_at_k, pooled_pass_hat_k
from skillcomp.stats.results import Interval, undefined
from skillcomp.twins import twin_clusters

__all__ = ["by_dimension", "case_table", "paired", "pass_at_k", "pass_hat_k", "rates"]

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
        ``by``, skill, case_id, cluster (the case, or a number of the pair where two cases
        contrast), condition, n (attempts with an outcome), n_passed, share (mean share of checks
        passed over the attempts that have one; NaN without).
    """
    alone = outcomes["contrast_of"].isna().all()
    cluster = outcomes["case_id"] if alone else twin_clusters(outcomes)
    names = list(dict.fromkeys([*by, *_KEYS, "condition"]))
    keyed = outcomes.assign(cluster=cluster)[names].reset_index(drop=True)
    code, first = Columns(keyed).groups(names)
    passed, share = outcomes["passed"], outcomes["share_passed"].to_numpy(dtype=np.float64)
    known = passed.notna().to_numpy()
    shared = ~np.isnan(share)
    n_shares = np.bincount(code, weights=shared)
    sums = np.bincount(code, weights=np.where(shared, share, 0.0))
    table = keyed.take(first).reset_index(drop=True)
    return table.assign(
        n=np.bincount(code, weights=known).astype(np.int64),
        n_passed=np.bincount(code, weights=passed.to_numpy(dtype=bool, na_value=False)),
        share=np.divide(sums, n_shares, out=np.full(len(sums), np.nan), where=n_shares > 0),
    )


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
    cases = Pairing(case_table(given, by=names), names, reference)
    rows = [
        one_delta(cases.pairs(number, condition), value, cluster, ci_level)
        | values
        | {"condition": condition, "reference": reference}
        for number, values in enumerate(cases.groups)
        for condition in _ordered(cases.conditions(number), reference)
    ]
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
    require_one_agent(given, names, what)
    return given


def _ordered(conditions: Iterable[str], reference: str | None) -> list[str]:
    """Return conditions in their fixed order, others after by first appearance."""
    found = [name for name in dict.fromkeys(conditions) if name != reference]
    return [c for c in CONDITIONS if c in found] + [c for c in found if c not in CONDITIONS]


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
    check_cluster(cluster)
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
