"""Paired deltas: the change in pass rate on the same cases when the skill is loaded.

Conditions are paired on the case, and repeats are averaged within the case. The unit of evidence is
the case or the skill, never the attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial, reduce
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import pandas as pd

from skillcomp.errors import FrameError, plural
from skillcomp.frames.amounts import amount_rows
from skillcomp.frames.case_table import (
    MISSING,
    WEIGHT,
    CasePairs,
    Pairing,
    Value,
    case_table,
    claim,
    claimed,
    cluster_readings,
    compared_outcomes,
    covering_means,
    delta_rows,
    first_names,
    level_of,
    missing_note,
    with_weights,
)
from skillcomp.frames.check import check_cluster
from skillcomp.frames.contracts import AMOUNTS, CASE, CONTRACTS, Amount
from skillcomp.frames.estimates import (
    By,
    covering,
    estimates,
    grouped,
    groups,
    listed,
    means_of_cases,
    ordered,
    refuse_pooling,
    require_columns,
    row,
    with_method,
)
from skillcomp.records import dimension_family
from skillcomp.stats import passk
from skillcomp.stats.bounded import RATES, SHARES
from skillcomp.stats.results import join_notes
from skillcomp.stats.significance import holm

_PASS_K = {
    "pass_at_k": (passk.pass_at_k, passk.pooled_pass_at_k),
    "pass_hat_k": (passk.pass_hat_k, passk.pooled_pass_hat_k),
}
OwnWords = Literal["passed_own_words"]
_MISSING_OF_RATE = ["n_missing", "n_attempts", "worst_low", "worst_high"]
# Runs with different checks in fewer cases, or in a smaller share of the cases, are compared.
_FEW_CASES, _FEW_SHARE = 3, 0.1
_EXTRA = ["reference", "rate", "reference_rate", "n_dropped"]

__all__ = ["by_dimension", "over_time", "paired", "pass_at_k", "pass_hat_k", "rates"]


def __dir__() -> list[str]:
    return __all__


def paired(
    outcomes: pd.DataFrame,
    *,
    by: By = (),
    value: Value | OwnWords | Amount = "passed",
    reference: str = "baseline",
    cluster: str = "case",
    average: By = (),
    weight: str | None = None,
    limit: float | None = None,
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Estimate the paired change in pass rate (or cost) between a condition and the reference.

    Conditions are paired on the case. Repeats are averaged within a case, so their number may
    differ, and each case has the same weight. For the rates themselves use :func:`rates`.

    Parameters
    ----------
    outcomes : pandas.DataFrame
        An outcomes frame with skill, case_id, condition, contrast_of, and the column ``value``. An
        attempts frame if ``value`` is one of its amounts.
    by : str or sequence of str
        Columns that group the rows, such as ``["skill"]`` or ``["grader", "skill"]``.
    value : {"passed", "share_passed"} or an amount, default "passed"
        ``"passed"``: whether all checks of an attempt passed. ``"share_passed"``: the share of its
        checks that passed. ``"passed_own_words"``: whether it passed without copying, a column of
        :func:`skillcomp.overlap.flag`; the interval then covers both readings of passes that are
        too short to tell whether they copy. An amount is a column of an attempts frame
        (``cost_usd``, ``seconds``, ``input_tokens``, ``output_tokens``, ``n_words`` or
        ``n_commands``), or ``score`` of an outcomes frame, on the scale of the grader.
    reference : str, default "baseline"
        The condition that all others are compared with.
    cluster : {"case", "skill"} or str, default "case"
        ``"case"``: the interval is about further cases of these skills. ``"skill"``: the interval
        is about skills in general. This needs at least five skills: with two to four the interval
        is about cases, and with one it is NaN. With five to seven skills hardly any interval can
        exclude 0. ``note`` states each of these limits. Any other column with one value in all
        rows of a case (a video, a repository, a user): cases with the same value are one cluster,
        together with the other case of a contrast pair; a case without a value is a cluster of its
        own. Coverage falls to 84-91 % if clusters differ much in size and only the large ones
        change.
    average : str or sequence of str, optional
        Columns to average over within each case, such as ``["agent"]``: each value is paired with
        the same value under the reference. Copies of all rows under another agent, grader, round or
        run then change nothing. Columns in ``by`` cannot be averaged.
    weight : str, optional
        A column of the outcomes with the weight of each case, such as its criticality. A weight is
        a number above 0 and the same in all rows of a case. Choose the weights before you see the
        data. Default: equal weights. Amounts cannot be weighted. Coverage falls to 84-91 % if
        weights are very unequal and only heavy cases change; ``note`` warns if one case or cluster
        has more than a fifth of the weight.
    limit : float, optional
        The largest amount that an attempt can have, in the unit of the amount, such as the time
        limit of the agent in seconds. Only for amounts. ``delta_<amount>`` then has the interval of
        a bounded mean, which is valid even if few attempts hold most of the amount.
    ci_level : float, default 0.95
        Level of the interval.

    Returns
    -------
    pandas.DataFrame
        One row per ``by`` and condition other than the reference. The estimates columns hold the
        delta. ``measure`` is ``delta_passed`` or ``delta_share_passed``. ``estimate`` is in rate
        units, from -1 to 1. ``n`` counts the cases with an outcome under both conditions.
        ``p_value`` inverts the interval. Further columns: ``reference`` is the reference condition.
        ``rate`` and ``reference_rate`` are the rates of the two conditions over these cases.
        ``n_dropped`` counts the cases with an outcome under only one of the two. ``n_missing`` and
        ``n_missing_reference`` count the missing attempts at cases asked under both conditions, of
        ``n_attempts`` and ``n_attempts_reference``. ``worst_low`` and ``worst_high`` bound the
        delta whatever these attempts would have shown (see Notes).

    Raises
    ------
    FrameError
        If the frame breaks its contract, several graders would be pooled, the reference is not
        among the conditions, or ``by`` names ``condition``.

    See Also
    --------
    by_dimension : The same estimates by rubric dimension, adjusted for multiplicity.
    skillcomp.plots.estimates : Draws the result.

    Notes
    -----
    The interval is that of :func:`skillcomp.stats.bounded.bounded_mean` for the differences of the
    cases, both for attempts passed and for shares. The method does not depend on the data, and
    copying every attempt changes no result. The two cases of a contrast pair have nearly the same
    prompt and form one cluster. Attempts without an outcome (a failed grader) are left out of the
    mean of their case; a case without any outcome under a condition is dropped and counted. ``se``
    and ``df`` (CR2) serve to combine results. They are NaN if there is no spread; results are then
    combined by their limits.

    An attempt is missing if its row has no outcome, or if it has no row although other cases of the
    skill have that repeat under the condition. A case with rows under only one of baseline and
    skill lacks all attempts under the other; under any other condition, a case without rows was not
    asked. Averages over the remaining attempts are unbiased only if the missing attempts
    are like the remaining ones. ``worst_low`` and ``worst_high`` do not assume this. ``worst_low``
    is the delta if every missing attempt of the condition had failed and every missing attempt of
    the reference had passed; ``worst_high`` is the reverse. Both are computed over all cases asked
    under both conditions. They bound the delta without missing attempts and do not include sampling
    error. The note counts the missing attempts, and warns if their shares under the two conditions
    differ by five points or more.

    Amounts without a ``limit`` have no bound and therefore another interval. They have two
    rows. ``delta_<amount>`` is the mean difference of the case means, with a t interval
    (:func:`skillcomp.stats.clusters.cr2_mean`). A t interval covers the truth too seldom if a
    few cases hold most of the amount. In a simulation in which the agent loops in 5 % of the
    cases, at 20 times the cost, it covered 51 % with 14 cases and 85 % with 84. A sample
    without such a case cannot reveal them. ``note`` warns if a tenth of the cases or fewer hold
    a third of the amount. ``ratio_<amount>`` is the geometric mean of the case ratios
    (:func:`skillcomp.stats.clusters.log_ratio`). It leaves out cases with an amount of 0. A
    ``score`` has no ratio. Attempts that ended in an error or a pause are missing; those with
    the status ``timeout``, ``truncated`` or ``refused`` are results. There are no ``worst_low``
    and ``worst_high``.

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
    names, levels = listed(by), listed(average)
    how: dict[str, Any] = {"value": value, "reference": reference, "cluster": cluster}
    if value == "passed_own_words":
        if limit is not None:
            raise FrameError(f"limit=: only amounts have a limit; found value='{value}'.")
        how |= {"by": names, "average": levels, "weight": weight, "ci_level": ci_level}
        estimate = partial(paired, **how | {"value": "passed"})
        return _in_own_words(estimate, outcomes, "deltas.paired", reference)
    how["average"] = levels
    if value in AMOUNTS:
        if weight is not None:
            raise FrameError(f"weight=: amounts are not weighted; found value='{value}'.")
        rows = amount_rows(outcomes, names, **how, limit=limit, ci_level=ci_level)
        result = estimates(rows, by=[*names, "condition"], extra=[*_EXTRA, *MISSING[:4]])
    elif limit is not None:
        raise FrameError(f"limit=: only amounts have a limit; found value='{value}'.")
    else:
        about, sets, _ = paired_cases(outcomes, by=names, **how, weight=weight)
        sides = [(place["condition"], place["reference"]) for place in about]
        estimated = delta_rows(sets, value, cluster, ci_level, levels, sides)
        rows = [estimate | place for estimate, place in zip(estimated, about, strict=True)]
        noted: dict[str, Any] = {"outcomes": outcomes, "reference": reference}
        result = estimates(rows, by=[*names, "condition"], extra=[*_EXTRA, *MISSING], **noted)
    return with_method(result, cluster, weight)


def paired_cases(
    outcomes: pd.DataFrame,
    *,
    by: list[str],
    value: str,
    reference: str,
    weight: str | None,
    cluster: str,
    average: list[str],
) -> tuple[list[dict[str, Any]], list[CasePairs], list[CasePairs]]:
    """Return for each group and condition what identifies it, and its pairs of cases.

    The last list holds the pairs of the reference with itself, in the same order.
    """
    if not isinstance(reference, str):
        raise FrameError(f"reference: found {reference!r}; allowed: the name of a condition.")
    how: dict[str, Any] = {"value": value, "reference": reference, "average": average}
    checked = compared_outcomes(outcomes, by, "deltas.paired", **how)
    table = case_table(checked, by=[*by, *average], column=check_cluster(cluster, checked))
    table = with_weights(table, checked, weight)
    cases = Pairing(table, by, reference, value, average)
    compared = [
        (number, condition)
        for number in range(len(cases.groups))
        for condition in ordered(cases.conditions(number), reference)
    ]
    about = [
        cases.groups[number] | {"condition": condition, "reference": reference}
        for number, condition in compared
    ]
    sets = [cases.pairs(number, condition) for number, condition in compared]
    return about, sets, [cases.pairs(number, reference) for number, _ in compared]


def rates(
    outcomes: pd.DataFrame,
    *,
    by: By = (),
    value: Value | OwnWords = "passed",
    cluster: str = "case",
    average: By = (),
    weight: str | None = None,
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Estimate the pass rate under each condition, with an interval clustered by case or skill.

    Parameters
    ----------
    outcomes : pandas.DataFrame
        An outcomes frame.
    by : str or sequence of str
        Columns that group the rows, in addition to ``condition``.
    value : {"passed", "share_passed", "passed_own_words"}, default "passed"
        As in :func:`paired`.
    cluster, average, weight
        As in :func:`paired`.
    ci_level : float, default 0.95
        Level of the interval.

    Returns
    -------
    pandas.DataFrame
        One row per ``by`` and condition with the estimates columns. The measure is ``rate_passed``
        or ``rate_share_passed``; the estimate, from 0 to 1, is NaN with a note if no attempt has an
        outcome. ``n_missing`` of ``n_attempts`` are missing, as in :func:`paired`; ``worst_low``
        and ``worst_high`` are the rates if all of these had failed or passed.

    Notes
    -----
    Cases have equal weights, unless ``weight`` is used. The interval is that of
    :func:`skillcomp.stats.bounded.bounded_mean` for the rates of the cases. It is within 0 and 1
    and never has zero width.
    """
    names, levels = [name for name in listed(by) if name != "condition"], listed(average)
    if value == "passed_own_words":
        how: dict[str, Any] = {"by": names, "cluster": cluster, "average": levels}
        estimate = partial(rates, **how, weight=weight, ci_level=ci_level)
        return _in_own_words(estimate, outcomes, "deltas.rates", None)
    checked = compared_outcomes(outcomes, names, "deltas.rates", value=value, average=levels)
    table = case_table(checked, by=[*names, *levels], column=check_cluster(cluster, checked))
    table = with_weights(table, checked, weight)
    parts, samples, by_name = [], [], []
    for about, part in condition_groups(table.assign(rate=level_of(table, value)), names):
        n = part["n" if value == "passed" else "n_shares"]
        lost, warning = _missing_of_rate(part["size"], n, _worst_rates(part, value))
        part, means = means_of_cases(part[part["rate"].notna()], ["rate"], levels)
        label, note = claim(part["skill"], part["cluster"], cluster)
        samples.append((part["rate"], label, part.get(WEIGHT)))
        by_name.append(claim(part["skill"], part["cluster_by_name"], cluster)[0])
        parts.append((about | lost, note, join_notes(means, warning)))
    quantity = RATES if value == "passed" else SHARES
    intervals = covering_means(samples, by_name, quantity=quantity, ci_level=ci_level)
    nothing = "no attempt has an outcome"
    rows = [
        row(f"rate_{value}", claimed(interval, note, nothing, warning), **about)
        for (about, note, warning), interval in zip(parts, intervals, strict=True)
    ]
    result = estimates(rows, by=[*names, "condition"], extra=_MISSING_OF_RATE, outcomes=checked)
    return with_method(result, cluster, None)


def _in_own_words(
    estimate: Callable[[pd.DataFrame], pd.DataFrame],
    outcomes: pd.DataFrame,
    what: str,
    reference: str | None,
) -> pd.DataFrame:
    """Estimate a rate or delta of ``passed_own_words``.

    A pass without a value there is too short to tell whether it copies, or was not scored. The
    estimate is that of the other attempts, within its bounds. The interval reaches from the lower
    limit if all such passes copy to the upper limit if none does; for a delta, the passes of the
    reference are read the other way round.
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


def _worst_rates(part: pd.DataFrame, value: str) -> list[float]:
    """Return the rate of a condition if all missing attempts had failed, and if all had passed."""
    met, name = part["n_passed"], "passed"
    if value != "passed":
        met, name = part["share"].fillna(0.0) * part["n_shares"], "share"
    # a case has its weight once, however many rows it has
    weights = part.get(WEIGHT, 1.0) / part.groupby(CASE)["size"].transform("size")
    return [
        float(np.average((met + part[f"{name}_{end}"]) / part["size"], weights=weights))
        for end in ("low", "high")
    ]


def _missing_of_rate(
    size: pd.Series, n: pd.Series, worst: list[float]
) -> tuple[dict[str, Any], str]:
    """Return the columns about the missing attempts of a condition, and a note on them."""
    counts = [int((size - n).sum()), int(size.sum())]
    note, _ = missing_note(counts, [""])
    if note:
        note += f"; in the worst case the rate is {worst[0]:.2f} or {worst[1]:.2f}"
    return dict(zip(_MISSING_OF_RATE, (*counts, *worst), strict=True)), note


def condition_groups(frame: pd.DataFrame, by: By) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """Yield a pair for each group and condition: the values that identify it, and its rows."""
    for values, group in groups(frame, by):
        for condition in ordered(group["condition"]):
            part = group[group["condition"].eq(condition)]
            yield values | {"condition": condition}, part


def over_time(
    outcomes: pd.DataFrame,
    changes: pd.DataFrame | None = None,
    *,
    by: By = (),
    value: Value = "passed",
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Estimate the pass rate of successive runs of the same cases, and the change between them.

    Parameters
    ----------
    outcomes : pandas.DataFrame
        Outcomes of one condition with a column ``run``, the oldest run first, for example the
        ``pd.concat`` of several runs. Runs may have different agents, but each run has only one
        unless ``by`` contains ``agent``.
    changes : pandas.DataFrame, optional
        The result of :func:`skillcomp.frames.runs` for the same runs.
    by : str or sequence of str
        Columns that group the rows, such as ``["skill"]``.
    value : {"passed", "share_passed"}, default "passed"
        As in :func:`paired`.
    ci_level : float, default 0.95
        Level of the interval.

    Returns
    -------
    pandas.DataFrame
        One row per ``by``, run and measure, in the order of the runs, with the estimates columns.
        Every run has a row ``rate_passed``. From the second run on it also has a row
        ``delta_passed``: the change since the run before, over the cases of both runs, with its
        p-value. With ``value="share_passed"`` the measures are ``rate_share_passed`` and
        ``delta_share_passed``. ``reference`` is the run before. ``n_dropped`` counts the cases with
        an outcome in only one of the two runs. ``changed`` lists the properties that changed; it is
        empty without ``changes``, or if none did.

    Raises
    ------
    FrameError
        If there is no column ``run``, there are several conditions, graders would be pooled, or
        successive runs have different numbers of checks in more than a tenth of their common cases.

    See Also
    --------
    skillcomp.plots.estimates : Draws the result with ``y="run"``, one measure at a time.

    Notes
    -----
    Each delta is computed by :func:`paired`. A second run in which nothing was changed (A/A) shows
    the differences due to chance. If its interval excludes 0, the attempts of a run are related in
    ways that an interval by case does not capture. Deltas are not adjusted for the number of
    comparisons. Different checks are recognised by ``n_checks``; checks that were replaced by as
    many others are not.

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
    if "attempt_id" in outcomes.columns:  # two runs may use the same ids
        ids = outcomes["run"].astype("str") + "/" + outcomes["attempt_id"].astype("str")
        outcomes = outcomes.assign(attempt_id=ids)
    if "run" in names:
        raise FrameError("deltas.over_time: by= names 'run', which is compared. Leave it out.")
    what = "deltas.over_time"
    checked = compared_outcomes(outcomes, [*names, "run"], what, value=value, agents=False)
    if "agent" not in names:
        for _, part in checked.groupby("run", sort=False):
            refuse_pooling(part, [*names, "run"], "deltas.over_time", agents=True)
        checked = checked.drop(columns="agent")  # runs of different agents are comparable
    conditions = ordered(checked["condition"].unique())
    if len(conditions) > 1:
        raise FrameError(
            f"deltas.over_time: the frame holds the conditions {', '.join(conditions)}; select one."
        )
    order = [str(name) for name in checked["run"].unique()]
    # name the runs as conditions, because `paired` compares conditions; `checks_differ` is about
    # other conditions than these
    checked = checked.drop(columns="run").assign(condition=checked["run"].astype("str"))
    checked = checked.assign(checks_differ=False)
    how: dict[str, Any] = {"by": names, "value": value, "ci_level": ci_level}
    parts = [rates(checked, **how)]
    for before, run in pairwise(order):
        two = checked[checked["condition"].isin([before, run])]
        note = _note_on_checks_of_runs(two, names, before, run)
        change = paired(two, reference=before, **how)
        parts.append(change.assign(note=[join_notes(old, note) for old in change["note"]]))
    rows = pd.concat(parts, ignore_index=True).rename(columns={"condition": "run"})
    place = {name: at for at, name in enumerate(order)}
    rows = rows.sort_values("run", key=lambda runs: runs.map(place), kind="stable")
    new = _changes_by_run(changes)
    changed = pd.Series([new.get(run, "") for run in rows["run"]], index=rows.index, dtype="str")
    columns = [*names, "run", *CONTRACTS["estimates"].columns, "reference", "n_dropped"]
    return rows.reindex(columns=columns).assign(changed=changed).reset_index(drop=True)


def _note_on_checks_of_runs(two: pd.DataFrame, by: list[str], before: str, run: str) -> str:
    """Return a note on cases with different numbers of checks in two runs; refuse many of them."""
    keys = list(dict.fromkeys([*by, *CASE]))
    counts = grouped(two, [*keys, "condition"])["n_checks"].max().unstack("condition")
    common = counts.reindex(columns=[before, run]).astype("float64").dropna()
    differ = common[common[before].ne(common[run])]
    if differ.empty:
        return ""
    name = differ.index.get_level_values("case_id")[0]
    first, second = differ.iloc[0].astype(int)
    contents = (
        f"{len(differ)} of {plural(len(common), 'case')} have another number of checks in the run "
        f"{run!r} than in {before!r}, such as '{name}' ({first} and {second})"
    )
    if len(differ) >= min(_FEW_CASES, len(common)) and len(differ) > _FEW_SHARE * len(common):
        raise FrameError(
            f"deltas.over_time: {contents}. Compare only the checks of both runs: select them in "
            'the verdicts before sc.frames.outcomes, verdicts[verdicts["check_id"].isin(names)].'
        )
    return contents


def _changes_by_run(changes: pd.DataFrame | None) -> dict[str, str]:
    """Return the changed properties of each run, joined by a comma."""
    if changes is None:
        return {}
    require_columns(changes, ["run", "what", "changed"], "deltas.over_time: changes")
    new = changes[changes["changed"].fillna(False).astype(bool)]
    by_run = new.groupby(new["run"].astype("str"), sort=False)["what"]
    return {run: ", ".join(part.dropna().astype("str")) for run, part in by_run}


def by_dimension(
    outcomes: pd.DataFrame,
    *,
    by: By = (),
    value: Value = "passed",
    reference: str = "baseline",
    weight: str | None = None,
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Estimate the paired change on each dimension, adjusted for the number of dimensions.

    Parameters
    ----------
    outcomes : pandas.DataFrame
        An outcomes frame with comprehension_dimension; rows without a dimension are left out.
    by, value, reference, weight, ci_level
        As in :func:`paired`.

    Returns
    -------
    pandas.DataFrame
        One row per ``by``, dimension and condition, with the columns of :func:`paired` and
        ``p_adjusted``: the p-value adjusted by Holm for the number of dimensions (see Notes). A
        dimension without paired cases has no p-value but counts towards this number.

    Notes
    -----
    Within each ``by`` and condition, p-values are adjusted for all of C1 to C9, even if the data
    have fewer dimensions, so that the data do not choose the number. In a study with its own
    dimensions, they are adjusted for all dimensions of its cases.
    """
    names = [name for name in listed(by) if name != "comprehension_dimension"]
    checked = compared_outcomes(outcomes, names, "deltas.by_dimension", value=value)
    checked = checked[checked["comprehension_dimension"].notna()]
    keys = [*names, "comprehension_dimension"]
    dimensions = list(dimension_family(checked["comprehension_dimension"]))
    how: dict[str, Any] = {"value": value, "reference": reference, "weight": weight}
    result = paired(checked, by=keys, **how, ci_level=ci_level)
    parts = []
    for _, part in groups(result, [*names, "condition"]):
        family = part.set_index("comprehension_dimension")["p_value"].reindex(dimensions)
        adjusted = pd.Series(holm(family.to_numpy(dtype=float)), index=dimensions)
        parts.append(
            part.assign(
                p_adjusted=adjusted.reindex(part["comprehension_dimension"]).to_numpy(),
                method=part["method"] + f"; Holm over {len(dimensions)} dimensions",
            ).sort_values("comprehension_dimension", kind="stable")
        )
    return pd.concat(parts, ignore_index=True) if parts else result


def pass_at_k(
    outcomes: pd.DataFrame, *, k: int, by: By = (), ci_level: float = 0.95
) -> pd.DataFrame:
    """Estimate the probability that at least one of ``k`` attempts at a case passes.

    Parameters
    ----------
    outcomes : pandas.DataFrame
        An outcomes frame. Cases with fewer than ``k`` attempts that have an outcome are left out;
        the note names them and the largest ``k`` for all cases.
    k : int
        Number of attempts.
    by : str or sequence of str
        Columns that group the rows, in addition to ``condition``.
    ci_level : float, default 0.95
        Level of the interval.

    Returns
    -------
    pandas.DataFrame
        One row per ``by`` and condition with the estimates columns (measure ``pass_at_k``), ``k``,
        ``n_short`` (cases left out), and the columns of :func:`rates` about missing attempts.

    See Also
    --------
    pass_hat_k : The probability that all of ``k`` attempts pass.
    """
    return _pass_k(outcomes, k, by, ci_level, "pass_at_k")


def pass_hat_k(
    outcomes: pd.DataFrame, *, k: int, by: By = (), ci_level: float = 0.95
) -> pd.DataFrame:
    """Estimate the probability that all of ``k`` attempts pass; see :func:`pass_at_k`."""
    return _pass_k(outcomes, k, by, ci_level, "pass_hat_k")


def _pass_k(outcomes: pd.DataFrame, k: int, by: By, ci_level: float, measure: str) -> pd.DataFrame:
    names = [name for name in listed(by) if name != "condition"]
    checked = compared_outcomes(outcomes, names, f"deltas.{measure}")
    of_case, pooled = _PASS_K[measure]
    of_case([], [], k)  # refuses a k that is no number of attempts
    rows = []
    for values, group in condition_groups(case_table(checked, by=names), names):
        part, whole = (group[group[count].ge(k)] for count in ("n", "size"))
        passed = part["n_passed"].to_numpy(dtype=int)
        readings = cluster_readings(part)
        results = [pooled(part["n"], passed, k, clusters=c, ci_level=ci_level) for c in readings]
        result = reduce(covering, results)
        worst = [
            float(of_case(whole["size"], whole["n_passed"] + whole[end], k).mean())
            for end in (("passed_low", "passed_high") if len(whole) else ())
        ] or [np.nan, np.nan]
        lost, missing = _missing_of_rate(group["size"], group["n"], worst)
        result = replace(result, note=join_notes(result.note, _short_cases(group, k), missing))
        about = values | lost | {"k": k, "n_short": len(group) - len(part)}
        rows.append(row(measure, result, **about))
    extra = ["k", "n_short", *_MISSING_OF_RATE]
    return estimates(rows, by=[*names, "condition"], extra=extra, outcomes=checked)


def _short_cases(group: pd.DataFrame, k: int) -> str:
    """Name the cases with fewer than k attempts that have an outcome, and the largest k for all."""
    short = group.loc[group["n"].lt(k), "case_id"].to_numpy()
    if not len(short):
        return ""
    largest = int(group["n"].min())
    return (
        f"left out, with fewer than {k} attempts that have an outcome: {first_names(short)}; "
        + (f"the largest k for all cases is {largest}" if largest else "no k suits all cases")
    )
