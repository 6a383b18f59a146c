"""Paired deltas: what changes on the same cases when the skill is loaded.

Pairs are formed on the case; repeats are averaged inside it; attempts are never units.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal, get_args

import pandas as pd

from skillcomp.errors import FrameError, literal, suggest
from skillcomp.frames.case_table import (
    ONE_SKILL,
    WEIGHT,
    Cluster,
    Pairing,
    Value,
    case_table,
    check_cluster,
    claim,
    claimed,
    clusters_of,
    delta_rows,
    level_of,
    with_weights,
)
from skillcomp.frames.contracts import CASE, CONTRACTS
from skillcomp.frames.estimates import (
    estimates,
    groups,
    listed,
    ordered,
    prepared,
    refuse_pooling,
    require_columns,
    require_reference,
    row,
)
from skillcomp.frames.reference_labels import usable
from skillcomp.records import dimension_family
from skillcomp.stats.bounded import RATES, SHARES, bounded_means
from skillcomp.stats.clusters import cr2_mean, log_ratio
from skillcomp.stats.passk import pooled_pass_at_k, pooled_pass_hat_k
from skillcomp.stats.results import join_notes, undefined
from skillcomp.stats.significance import holm

Amount = Literal[
    "cost_usd", "seconds", "input_tokens", "output_tokens", "n_words", "n_commands", "score"
]
AMOUNTS = get_args(Amount)
NO_AMOUNTS = "no case has an amount in both conditions"

__all__ = ["by_dimension", "over_time", "paired", "pass_at_k", "pass_hat_k", "rates"]


def __dir__() -> list[str]:
    return __all__


def paired(
    outcomes: pd.DataFrame,
    *,
    by: Sequence[str] = (),
    value: Value | Amount = "passed",
    reference: str = "baseline",
    cluster: Cluster = "case",
    weight: str | None = None,
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Say how much more often the same cases pass when the skill is loaded, or what it costs.

    Pairs on the case, averages repeats inside a case (there may be unequal numbers of them) and
    gives each case one vote. For the levels themselves use :func:`rates`.

    Parameters
    ----------
    outcomes : pandas.DataFrame
        An outcomes frame. Reads skill, case_id, condition, contrast_of, passed or share_passed.
        For an amount an attempts frame, for ``"score"`` an outcomes frame.
    by : sequence of str
        Columns that keep rows apart, such as ``["skill"]`` or ``["grader", "skill"]``.
    value : {"passed", "share_passed"} or an amount, default "passed"
        Whole attempts passed, or the share of checks passed; of an attempts frame ``cost_usd``,
        ``seconds``, ``input_tokens``, ``output_tokens``, ``n_words`` or ``n_commands``; of an
        outcomes frame ``score``, whatever scale its grader has.
    reference : str, default "baseline"
        The condition that every other one is compared with.
    cluster : {"case", "skill"}, default "case"
        ``"case"``: the interval speaks of cases like these of these skills. ``"skill"``: it speaks
        of skills in general, which fewer than five skills do not allow: the interval then falls
        back to these cases only and says so; a single skill gives NaN. With five to seven skills
        hardly any delta can exclude 0, which ``note`` says.
    weight : str, optional
        A column of the outcomes with the weight of each case, a number above 0 that is the same in
        all rows of a case: what its criticality is worth, stated by you before the data are seen.
        Cases weigh equally without it. Not for amounts.
    ci_level : float, default 0.95
        Level of the interval.

    Returns
    -------
    pandas.DataFrame
        One row per ``by`` and condition other than the reference: ``by``, condition, then the
        estimates columns (measure ``delta_passed`` or ``delta_share_passed``, estimate in rate
        units from -1 to 1, ci_low, ci_high, ci_level, n = pairs of cases, n_clusters, p_value by
        inverting the same interval, method, note) and reference, rate, reference_rate (means over
        the paired cases), n_dropped (cases without a partner), n_missing and n_missing_reference
        (attempts without an outcome at cases asked under both conditions), worst_low and worst_high
        (see Notes).

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
    The interval of a bounded mean (:func:`skillcomp.stats.bounded.bounded_mean`) of the case
    differences, for attempts passed and for shares alike: no method is chosen by the data, and
    copying every attempt changes nothing. The two members of a contrast pair share a prompt and
    form one cluster. Attempts without an outcome (a failed grader) are left out of the mean of
    their case; a case without any outcome under a condition is dropped and counted. ``se`` and
    ``df`` (CR2) serve to combine results; where they are NaN there is no spread, and results
    combine by their limits.

    An attempt is missing when its row has no outcome, or when it has no row although other cases
    of the skill have that repeat under the condition; a case without any row under a condition was
    not asked there. Averages over what is left are right only if what is missing is like it.
    ``worst_low`` and ``worst_high`` assume nothing: they are the delta if every missing attempt of
    the condition had failed and of the reference passed, and the reverse, over all cases asked
    under both. They bound the delta that the complete study would have shown; its sampling error
    comes on top. Where the shares of missing attempts differ by five points or more the note
    warns.

    Amounts have no bound and do not go through that interval. They have two rows: measure
    ``delta_<amount>``, the mean difference of the case means with a t interval (CR2,
    :func:`skillcomp.stats.clusters.cr2_mean`), and ``ratio_<amount>``, the geometric mean of the
    case ratios (:func:`skillcomp.stats.clusters.log_ratio`; cases with an amount of 0 are left
    out; a ``score`` has no ratio). Attempts that are not ``ok`` are left out.

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
    if value in AMOUNTS:
        if weight is not None:
            raise FrameError(f"weight=: amounts are not weighted; found value='{value}'.")
        return _paired_amounts(outcomes, names, value, reference, cluster, ci_level)
    given = _prepared(outcomes, names, value, "deltas.paired")
    require_reference(given["condition"], reference)
    cases = Pairing(with_weights(case_table(given, by=names), given, weight), names, reference)
    compared = [
        (number, condition)
        for number in range(len(cases.groups))
        for condition in ordered(cases.conditions(number), reference)
    ]
    rated: Value = "passed" if value == "passed" else "share_passed"
    found = delta_rows([cases.pairs(*one) for one in compared], rated, cluster, ci_level)
    rows = [
        one | cases.groups[number] | {"condition": condition, "reference": reference}
        for one, (number, condition) in zip(found, compared, strict=True)
    ]
    if weight is not None:
        rows = [one | {"method": f"{one['method']}; cases weighted by {weight}"} for one in rows]
    extra = ["reference", "rate", "reference_rate", "n_dropped"]
    extra += ["n_missing", "n_missing_reference", "worst_low", "worst_high"]
    return estimates(rows, by=[*names, "condition"], extra=extra)


def _paired_amounts(
    attempts: pd.DataFrame,
    names: list[str],
    value: str,
    reference: str,
    cluster: Cluster,
    ci_level: float,
) -> pd.DataFrame:
    """Return differences and ratios of what attempts took, case by case."""
    check_cluster(cluster)
    kind = "outcomes" if value == "score" else "attempts"
    given = prepared(attempts, kind, names, "deltas.paired", compared=["condition"], agents=True)
    require_reference(given["condition"], reference)
    amount = given[value]
    if value != "score":
        amount = amount.where(usable(given))
    given = given.assign(cluster=clusters_of(given), amount=amount)
    keys = list(dict.fromkeys([*names, *CASE, "cluster"]))
    sides = given.groupby([*keys, "condition"], sort=False, dropna=False, observed=True)["amount"]
    # conditions may be called as keys are
    wide = sides.mean().astype("float64").unstack("condition").add_prefix("of ")
    asked = sides.size().unstack("condition").add_prefix("asked ")
    rows = []
    for values, group in groups(wide.join(asked).reset_index(), names):
        for condition in ordered(given["condition"].unique(), reference):
            if group[f"asked {condition}"].isna().all():
                continue
            about = values | {"condition": condition, "reference": reference}
            rows += _amount_rows(group, value, about, cluster, ci_level)
    extra = ["reference", "rate", "reference_rate", "n_dropped"]
    return estimates(rows, by=[*names, "condition"], extra=extra)


def _amount_rows(
    group: pd.DataFrame, value: str, about: dict[str, Any], cluster: Cluster, ci_level: float
) -> list[dict[str, Any]]:
    """Return the difference and the ratio of one condition, NaN with a note where none is."""
    one, base = (group[f"of {about[name]}"] for name in ("condition", "reference"))
    known = one.notna() & base.notna()
    one, base, pairs = one[known], base[known], group[known]
    label, note = claim(pairs["skill"], pairs["cluster"], cluster)
    scale = max(one.abs().max(), base.abs().max()) if len(pairs) else None
    difference = cr2_mean(one - base, label, ci_level=ci_level, scale=scale)
    ratio = log_ratio(one, base, label, ci_level=ci_level)
    both = (one > 0) & (base > 0)
    rows = []
    measures = [("delta", difference, known[known])]
    measures += [("ratio", ratio, both)] if value != "score" else []
    for measure, found, used in measures:
        if not len(pairs):
            found = undefined(found.method, NO_AMOUNTS, ci_level=ci_level, n=0.0)
        elif note == ONE_SKILL:
            found = undefined(found.method, note, ci_level=ci_level, n=found.n)
        else:
            found = replace(found, note=join_notes(found.note, note))
        about |= {"rate": one[used].mean(), "reference_rate": base[used].mean()}
        about["n_dropped"] = len(group) - len(pairs)
        rows.append(row(f"{measure}_{value}", found, **about))
    return rows


def _prepared(
    outcomes: pd.DataFrame, names: list[str], value: str, what: str, *, agents: bool = True
) -> pd.DataFrame:
    if value not in ("passed", "share_passed"):
        known = [] if value in AMOUNTS else ["passed", "share_passed", *AMOUNTS]
        raise FrameError(
            f"value: found {literal(value)}; allowed: 'passed', 'share_passed' and, in "
            "deltas.paired, 'score' of an outcomes frame or, of an attempts frame, "
            f"{', '.join(AMOUNTS[:-1])}." + suggest(str(value), known)
        )
    return prepared(outcomes, "outcomes", names, what, compared=["condition"], agents=agents)


def rates(
    outcomes: pd.DataFrame,
    *,
    by: Sequence[str] = (),
    value: Value = "passed",
    cluster: Cluster = "case",
    weight: str | None = None,
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
        The unit of evidence; as in :func:`paired`.
    weight : str, optional
        As in :func:`paired`.
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
    Cases weigh equally, or by ``weight``. The interval of a bounded mean of the case rates
    (:func:`skillcomp.stats.bounded.bounded_mean`): inside 0 and 1, never of zero width.
    """
    names = [name for name in listed(by) if name != "condition"]
    check_cluster(cluster)
    given = _prepared(outcomes, names, value, "deltas.rates")
    table = with_weights(case_table(given, by=names), given, weight)
    missing = [int(part[value].isna().sum()) for _, part in condition_groups(given, names)]
    asked = list(condition_groups(table, names))
    known = [_levels(part, value, cluster) for _, part in asked]
    quantity = RATES if value == "passed" else SHARES
    samples = [sample for sample, _ in known]
    intervals = bounded_means(samples, quantity=quantity, ci_level=ci_level)
    rows = []
    for (about, _), (_, note), interval, n in zip(asked, known, intervals, missing, strict=True):
        found = claimed(interval, note, "no attempt has an outcome")
        rows.append(row(f"rate_{value}", found, **about, n_missing=n))
    return estimates(rows, by=[*names, "condition"], extra=["n_missing"])


def condition_groups(
    frame: pd.DataFrame, by: Sequence[str]
) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """Yield the values of ``by`` and the condition, and the rows of each of them."""
    for values, group in groups(frame, by):
        for condition in ordered(group["condition"]):
            part = group[group["condition"].eq(condition)]
            yield values | {"condition": condition}, part


def over_time(
    outcomes: pd.DataFrame,
    changes: pd.DataFrame | None = None,
    *,
    by: Sequence[str] = (),
    value: Value = "passed",
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Say how runs of the same cases scored one after another, and what changed between them.

    Parameters
    ----------
    outcomes : pandas.DataFrame
        Outcomes of one condition with a column ``run``: the oldest run first, as
        ``pd.concat`` of the runs gives them. Each run is of one agent (or ``by`` names it), which
        may be another from run to run.
    changes : pandas.DataFrame, optional
        What :func:`skillcomp.frames.runs` returns of the same runs.
    by : sequence of str
        Columns that keep rows apart, such as ``["skill"]``.
    value : {"passed", "share_passed"}, default "passed"
        As in :func:`paired`.
    ci_level : float, default 0.95
        Level of the interval.

    Returns
    -------
    pandas.DataFrame
        One row per ``by``, run and measure, runs in order: ``rate_passed`` (or
        ``rate_share_passed``) of every run, and from the second on ``delta_passed`` against the run
        before, on the cases that both asked, with its p-value; then reference (the run before),
        n_dropped (cases that one of the two lacks) and changed (what is not as it was, joined by a
        comma; empty without ``changes`` and where nothing that is recorded changed).

    Raises
    ------
    FrameError
        If there is no column ``run``, there are several conditions, or graders would be pooled.

    See Also
    --------
    skillcomp.plots.estimates : Draws the result with ``y="run"``, one measure at a time.

    Notes
    -----
    Each delta is that of :func:`paired`. A run of the same again (A/A) says how much of a
    difference is noise: where nothing changed and the interval leaves out 0, attempts of a run
    are related in ways that an interval by case does not see. Deltas are not adjusted for how many
    runs were compared.

    Examples
    --------
    >>> import pandas as pd
    >>> runs = {"monday": [True] * 4 + [False] * 8, "again": [True] * 5 + [False] * 7}
    >>> frame = pd.concat([pd.DataFrame({
    ...     "run": name, "skill": "s", "case_id": [f"s/{i}" for i in range(12)],
    ...     "condition": "skill", "passed": passed}) for name, passed in runs.items()])
    >>> over_time(frame)[["run", "measure", "estimate", "p_value"]].round(2)
          run       measure  estimate  p_value
    0  monday   rate_passed      0.33      NaN
    1   again   rate_passed      0.42      NaN
    2   again  delta_passed      0.08     0.81
    """
    names = listed(by)
    require_columns(outcomes, ["run"], "deltas.over_time")
    if outcomes["run"].isna().any():
        raise FrameError("deltas.over_time: column 'run': missing in some rows; it is required.")
    if "attempt_id" in outcomes.columns:  # runs may number their attempts alike
        ids = outcomes["run"].astype("str") + "/" + outcomes["attempt_id"].astype("str")
        outcomes = outcomes.assign(attempt_id=ids)
    if "run" in names:
        raise FrameError("deltas.over_time: by= names 'run', which is compared. Leave it out.")
    given = _prepared(outcomes, [*names, "run"], value, "deltas.over_time", agents=False)
    if "agent" not in names:
        for _, part in given.groupby("run", sort=False):
            refuse_pooling(part, [*names, "run"], "deltas.over_time", agents=True)
        given = given.drop(columns="agent")  # another one is a change between runs, as any other
    conditions = ordered(given["condition"].unique())
    if len(conditions) > 1:
        raise FrameError(
            f"deltas.over_time: the frame holds the conditions {', '.join(conditions)}; select one."
        )
    order = [str(name) for name in given["run"].unique()]
    # runs are compared as conditions are
    given = given.drop(columns="run").assign(condition=given["run"].astype("str"))
    how: dict[str, Any] = {"by": names, "value": value, "ci_level": ci_level}
    found = [rates(given, **how)]
    for before, run in pairwise(order):
        two = given[given["condition"].isin([before, run])]
        found.append(paired(two, reference=before, **how))
    rows = pd.concat(found, ignore_index=True).rename(columns={"condition": "run"})
    place = {name: at for at, name in enumerate(order)}
    rows = rows.sort_values("run", key=lambda runs: runs.map(place), kind="stable")
    new = _changed(changes)
    told = pd.Series([new.get(run, "") for run in rows["run"]], index=rows.index, dtype="str")
    columns = [*names, "run", *CONTRACTS["estimates"].columns, "reference", "n_dropped"]
    return rows.reindex(columns=columns).assign(changed=told).reset_index(drop=True)


def _changed(changes: pd.DataFrame | None) -> dict[str, str]:
    """Return what changed in each run."""
    if changes is None:
        return {}
    require_columns(changes, ["run", "what", "changed"], "deltas.over_time: changes")
    new = changes[changes["changed"].fillna(False).astype(bool)]
    told = new.groupby(new["run"].astype("str"), sort=False)["what"]
    return {run: ", ".join(part.dropna().astype("str")) for run, part in told}


def _levels(part: pd.DataFrame, value: Value, cluster: Cluster) -> tuple[tuple[Any, Any, Any], str]:
    """Return the level of each case with an outcome and its cluster; what to say of the claim."""
    level = level_of(part, value)
    known = level.notna()
    label, note = claim(part.loc[known, "skill"], part.loc[known, "cluster"], cluster)
    weights = part.loc[known, WEIGHT].to_numpy(dtype=float) if WEIGHT in part else None
    return (level[known].to_numpy(dtype=float), label, weights), note


def by_dimension(
    outcomes: pd.DataFrame,
    *,
    by: Sequence[str] = (),
    value: Value = "passed",
    reference: str = "baseline",
    weight: str | None = None,
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Say on which dimensions the skill helps, adjusted for asking of each of them.

    Parameters
    ----------
    outcomes : pandas.DataFrame
        An outcomes frame with comprehension_dimension; attempts without one are left out.
    by, value, reference, weight, ci_level
        As in :func:`paired`.

    Returns
    -------
    pandas.DataFrame
        As :func:`paired`, one row per ``by``, dimension and condition, with ``p_adjusted`` by
        Holm over the dimensions of each ``by`` and condition. A dimension without a pair has
        NaN and still counts in the family.

    Notes
    -----
    The family is C1 to C9 per ``by`` and condition, declared here and not chosen by the data; of a
    study with dimensions of its own it is all that its cases name.
    """
    names = [name for name in listed(by) if name != "comprehension_dimension"]
    given = _prepared(outcomes, names, value, "deltas.by_dimension")
    given = given[given["comprehension_dimension"].notna()]
    keys = [*names, "comprehension_dimension"]
    asked = list(dimension_family(given["comprehension_dimension"]))
    how: dict[str, Any] = {"value": value, "reference": reference, "weight": weight}
    result = paired(given, by=keys, **how, ci_level=ci_level)
    parts = []
    for _, part in groups(result, [*names, "condition"]):
        family = part.set_index("comprehension_dimension")["p_value"].reindex(asked)
        adjusted = pd.Series(holm(family.to_numpy(dtype=float)), index=asked)
        parts.append(
            part.assign(
                p_adjusted=adjusted.reindex(part["comprehension_dimension"]).to_numpy(),
                method=part["method"] + f"; Holm over {len(asked)} dimensions",
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
    for values, group in condition_groups(table, names):
        part = group[group["n"].gt(0)]
        passed, cluster = part["n_passed"].to_numpy(dtype=int), part["cluster"].to_numpy()
        result = compute(part["n"], passed, k, clusters=cluster, ci_level=ci_level)
        rows.append(row(measure, result, **values, k=k))
    return estimates(rows, by=[*names, "condition"], extra=["k"])
