"""The change from the reference to a condition on the same cases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd

from skillcomp.contrast import (
    MISSING,
    BoundedValue,
    Bounds,
    Contrast,
    Units,
    compared_units,
    contrasts_with,
    within,
)
from skillcomp.deltas.amounts import DELTA_FACTS, amount_deltas
from skillcomp.errors import FrameError
from skillcomp.frames.check import as_list
from skillcomp.frames.contracts import AMOUNTS, CASE, Amount
from skillcomp.frames.estimates import (
    By,
    estimates,
    grouped,
    groups,
    listed,
    require_columns,
    row,
    with_adjusted_p,
    with_method,
)
from skillcomp.stats.bounded import IntervalRule
from skillcomp.stats.results import Fields, join_notes

_WHAT = "deltas.paired"
_DIMENSION = "comprehension_dimension"
DELTA_COLUMNS = [*DELTA_FACTS, *MISSING]
OwnWords = Literal["passed_own_words"]
AnyValue = BoundedValue | OwnWords | Amount


def paired(
    outcomes: pd.DataFrame,
    attempts: pd.DataFrame | None = None,
    *,
    by: By = (),
    value: AnyValue | Sequence[AnyValue] = "passed",
    bounds: Bounds = None,
    reference: str = "baseline",
    cluster: str = "case",
    average: By = (),
    weight: str | None = None,
    limit: float | None = None,
    ci_level: float = 0.95,
    interval: IntervalRule = "adaptive",
) -> pd.DataFrame:
    """Estimate the paired change in pass rate (or cost) between a condition and the reference.

    Conditions are paired on the case. Repeats are averaged within a case, so their number may
    differ, and each case has the same weight. For the rates themselves use :func:`rates`.

    Parameters
    ----------
    outcomes : pandas.DataFrame
        An outcomes frame with skill, case_id, condition, contrast_of, and the column ``value``. An
        attempts frame if ``value`` is one of its amounts and ``attempts`` is omitted.
    attempts : pandas.DataFrame, optional
        An attempts frame with the amounts. Only rows that match the outcomes in case, condition and
        agent are used. Facts of a case that this frame lacks, such as ``contrast_of``, are taken
        from the outcomes.
    by : str or sequence of str
        Columns that group the rows, such as ``["skill"]`` or ``["grader", "skill"]``. With
        ``comprehension_dimension``, cases without a dimension are left out, and the dimensions of
        each group are sorted.
    value : {"passed", "share_passed", "score"}, an amount, or a list of these, default "passed"
        ``"passed"``: whether all checks of an attempt passed. ``"share_passed"``: the share of its
        checks that passed. ``"passed_own_words"``: whether it passed without copying, a column of
        :func:`skillcomp.overlap.flag`; the interval then allows for both possibilities if a pass
        is too short to tell whether it copies. ``"score"``: the score of the grader; with
        ``bounds``, its interval is that of a bounded mean, otherwise a t interval. An amount is a
        column of an attempts frame (``cost_usd``, ``seconds``, ``input_tokens``,
        ``output_tokens``, ``n_words`` or ``n_commands``). A list, such as ``["passed", "cost_usd",
        "seconds"]``, gives the rows of each value in turn; ``share_passed`` beside ``passed`` is
        left out if each attempt has one check, because both are then the same.
    bounds : tuple of float, optional
        The lowest and the highest score that an attempt can have, such as ``(1, 5)``. Estimates
        and limits are then in the unit of the scores.
    reference : str, default "baseline"
        The condition that all others are compared with.
    cluster : {"case", "skill"} or str, default "case"
        ``"case"``: the interval is about further cases of these skills. ``"skill"``: the interval
        is about skills in general. This needs at least five skills: with two to four the interval
        is about cases, and with one it is NaN. ``note`` states this, and the smallest delta that
        nine of ten studies with this number of skills detect. You can also name a column that has
        one value in all rows of a case (a video, a repository, a user). Cases with the same value
        are then one cluster, together with the other case of a contrast pair; a case without a
        value forms its own cluster. Coverage falls to 84-91 % if clusters differ much in size and
        only the large ones change.
    average : str or sequence of str, optional
        Columns to average over within each case, such as ``["agent"]``: each value is paired with
        the same value under the reference. If all rows are copied under another agent, grader,
        round or run, the average over this column gives the same results. Columns in ``by`` cannot
        be averaged.
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
    interval : {"adaptive", "bounded", "t"}, default "adaptive"
        Rule for the interval. ``"adaptive"``: if the attempts show that outcomes are mixed within
        cases, the rule assumes that there are no cases unlike those observed. Without repeats it
        equals ``"bounded"``, which assumes nothing about unseen cases and is wider. ``"t"``: the
        textbook interval (CR2 with Satterthwaite degrees of freedom). It is NaN without spread, and
        covers as little as 62 % if agents always give the same answer. Amounts have their own
        interval (see Notes), whatever the rule.

    Returns
    -------
    pandas.DataFrame
        One row per ``by`` and condition other than the reference. The estimates columns hold the
        delta. ``measure`` is ``delta_passed``, ``delta_share_passed``,
        ``delta_passed_own_words`` or ``delta_score``. ``estimate`` is in rate units, from -1 to 1,
        or in the unit of the scores. ``n`` counts the
        cases with an outcome under both conditions. Notes explain ``p_value``, ``p_adjusted`` and
        ``shown``. Further columns: ``reference`` is the reference condition. ``rate`` and
        ``reference_rate`` are the rates of the two conditions over these cases. ``n_dropped``
        counts the cases with an outcome under only one of the two. ``n_attempts`` and
        ``n_attempts_reference`` count the attempts at cases asked under both conditions,
        ``n_missing`` and ``n_missing_reference`` the missing ones among them. ``worst_low`` and
        ``worst_high`` bound the delta whatever the missing attempts would have shown (see Notes).

    Raises
    ------
    FrameError
        If the frame breaks its contract, several graders would be pooled, the reference is not
        among the conditions, or ``by`` names ``condition``.

    See Also
    --------
    rates : The rates of the conditions.
    skillcomp.plots.estimates : Draws the result.

    Notes
    -----
    The interval is that of :func:`skillcomp.stats.bounded.bounded_mean` for the differences of the
    cases, both for attempts passed and for shares. Shares of an unknown number of checks have the
    ``"bounded"`` interval; ``method`` names the rule. The interval for shares of checks assumes
    that the checks of a case do not agree in blocks: if half of ten checks always pass and the
    others always agree with each other, coverage fell to 87-92 % in simulations (``"bounded"``:
    99 %). The two cases of a contrast pair have nearly the same prompt and form one cluster.
    Attempts without an outcome (a failed grader) are left out of the mean of their case; a case
    without any outcome under a condition is dropped and counted. ``se`` and ``df`` (CR2) serve to
    combine results. They are NaN if there is no spread; results are then combined by their limits.

    An attempt is missing if its row has no outcome, or if it was planned and has no row. Give the
    plan by ``asked=`` of :func:`skillcomp.from_frame`; then no other attempt is missing. Without
    it, the plan of each skill is the one that explains the numbers of attempts with the fewest
    losses: equal numbers under all conditions, or a pattern that the numbers show, in whole rounds
    per case. Cases with fewer rounds under all conditions were planned so, unless there are no more
    of them than losses by chance would leave. A case with rows under only one of baseline and skill
    lacks all attempts under the other, unless most cases do; under any other condition, a case
    without rows was not asked. Averages over the remaining attempts are unbiased only if the
    missing attempts are like the remaining ones. ``worst_low`` and ``worst_high`` do not assume
    this. ``worst_low`` is the delta if every missing attempt of the condition had failed and every
    missing attempt of the reference had passed (a missing attempt with a failed check cannot pass);
    ``worst_high`` is the reverse. Both are computed over all cases asked under both conditions.
    Without missing attempts, the delta of these cases would be between the two bounds; sampling
    error comes on top. The note counts the missing attempts, and warns if their shares under the
    two conditions differ by five points or more.

    Amounts have three rows. ``total_ratio_<amount>`` is the ratio of the totals, over the cases
    with both amounts, with Fieller's limits (:func:`skillcomp.stats.ratios.ratio_of_means`); it has
    no limits if the reference could be 0. ``delta_<amount>`` is the mean difference of the case
    means (:func:`skillcomp.stats.ratios.amount_change`). Its limits allow for ordinary skew, which
    a t interval does not; if a total is 0, they are those of t, and the note says so.
    ``ratio_<amount>`` is the geometric mean of the case ratios
    (:func:`skillcomp.stats.ratios.log_ratio`), without the cases with an amount of 0. In
    simulations of lognormal amounts of 14 to 84 cases, also in clusters of two to five, the first
    two covered 94 to 98 %. With a fifth of the amounts 0, the ratio of totals covered 95 % and the
    difference 92 to 94 %. If a few cases hold most of the amount, for instance because the agent
    loops there, a sample may contain no such case and then gives no warning; ``note`` warns if a
    tenth of the cases or fewer hold a third of the amount. With a ``limit``, the difference has a
    bounded interval. The note also counts amounts of 0 where others have an amount: such attempts
    may not have been billed. Attempts that
    ended in an error or a pause are missing; those with the status ``timeout``, ``truncated`` or
    ``refused`` are results. There are no ``worst_low`` and ``worst_high``.

    Scores with ``bounds`` are mapped to 0 and 1. The pseudo-cases of the adaptive rule then depend
    on how much the scores of a case vary: four times their variance takes the place of 4 p (1 - p)
    for a pass rate p. In simulations with one to four attempts, also in clusters, coverage was at
    least 98 % (``docs/intervals.md``). For scores that hardly vary, the interval can be several
    times as wide as that of ``interval="t"``. t assumes that no case is unlike the observed ones:
    where 7 % of cases break to the lowest score, it covers the mean score in 78 to 91 %. A
    ``score`` without ``bounds`` has a t interval and no worst case.

    If the table names three or more repeats (``repeat=``), the interval is widened where repeats
    share something, see :func:`skillcomp.stats.repeats.for_other_runs`; not for amounts.

    ``p_value`` is that of :func:`skillcomp.stats.clusters.p_of_rows`, a t test with a variance
    that the rows of the call share; without spread in a row, it inverts the interval. For amounts
    it inverts the interval. ``p_adjusted`` is adjusted by Holm over all rows of the call that have
    the same measure, except those of a placebo.

    Examples
    --------
    Of twelve cases, 3 pass in the baseline and 11 with the skill.

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
    if _DIMENSION in names:
        require_columns(outcomes, [_DIMENSION], "deltas.paired: by")
        outcomes = outcomes[outcomes[_DIMENSION].notna()]
    how: Fields = {
        "by": names,
        "reference": reference,
        "cluster": cluster,
        "average": listed(average),
        "weight": weight,
        "ci_level": ci_level,
        "interval": interval,
    }
    if attempts is not None or not isinstance(value, str):
        values = list(dict.fromkeys(as_list(value)))
        result = _deltas_of_values(outcomes, attempts, values, bounds, limit, how)
    else:
        result = _deltas_of_value(outcomes, value, bounds, limit, how)
    if _DIMENSION not in names:
        return result
    keys = listed([*names, "condition", "measure"], _DIMENSION)
    parts = [part.sort_values(_DIMENSION, kind="stable") for _, part in groups(result, keys)]
    return pd.concat(parts or [result], ignore_index=True)


def _deltas_of_value(
    outcomes: pd.DataFrame, value: str, bounds: Bounds, limit: float | None, how: Fields
) -> pd.DataFrame:
    is_amount = value in AMOUNTS and bounds is None
    if limit is not None and not is_amount:
        raise FrameError(f"limit=: only amounts have a limit; found value='{value}'.")
    if value == "passed_own_words" and bounds is None:
        return in_own_words(
            lambda rows: deltas_and_units(rows, _WHAT, **how)[0], outcomes, _WHAT, how["reference"]
        )
    if not is_amount:
        return deltas_and_units(outcomes, _WHAT, value=value, bounds=bounds, **how)[0]
    if how["weight"] is not None:
        raise FrameError(f"weight=: amounts are not weighted; found value='{value}'.")
    return amount_deltas(outcomes, value, limit, **how)


def deltas_and_units(
    outcomes: pd.DataFrame,
    what: str,
    *,
    by: list[str],
    value: str = "passed",
    cluster: str = "case",
    weight: str | None = None,
    reference: str,
    ci_level: float,
    interval: IntervalRule,
    **how: Any,
) -> tuple[pd.DataFrame, Units, list[Contrast]]:
    """Return the deltas of verdicts or scores, and the units and contrasts they come from.

    The deltas are those of :func:`paired`, in the order of the groups. ``what`` names the analysis
    in error messages. ``how`` contains ``bounds`` and ``average``.
    """
    how |= {"value": value, "cluster": cluster, "weight": weight}
    units, contrasts = paired_units(outcomes, by, what, reference=reference, **how)
    rows = contrast_rows(
        f"delta_{value}", units, contrasts, cluster=cluster, ci_level=ci_level, interval=interval
    )
    result = estimates(
        rows, by=[*by, "condition"], extra=DELTA_COLUMNS, outcomes=outcomes, reference=reference
    )
    return with_method(result, cluster, weight), units, contrasts


def contrast_rows(
    measure: str, units: Units, contrasts: Sequence[Contrast], **how: Any
) -> list[Fields]:
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
    lowers: pd.Series | None = None,
) -> pd.DataFrame:
    """Estimate a rate or delta of ``passed_own_words``.

    A pass without a value of ``passed_own_words`` is *open*: it is too short to tell whether it
    copies, or it was not scored. The estimate uses all other attempts. It is clipped so that it
    lies between two extremes: all open passes copy, or none does. The lower limit of the interval
    is the one for "all copy", the upper limit the one for "none copies". For a delta, the open
    passes of the reference are assumed to do the opposite. ``lowers`` marks the rows in which a
    pass lowers the estimate; by default those of the reference.
    """
    require_columns(outcomes, ["passed", "passed_own_words", "condition"], what)
    passed, own = (outcomes[n].astype("boolean") for n in ("passed", "passed_own_words"))
    unknown = passed.fillna(False) & own.isna()
    if lowers is None:
        lowers = unknown & False if reference is None else outcomes["condition"].eq(reference)
    turned = lowers.astype("boolean")
    judged, low, high = (
        estimate(outcomes.assign(passed=own.mask(unknown, reading)))
        for reading in (pd.NA, turned, ~turned)
    )
    result = high.assign(measure=high["measure"] + "_own_words")
    counts = [name for name in ("n_missing", "n_missing_reference") if name in high]
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
        join_notes(
            f"passes too short to tell whether they copy, or not scored: {n}; the estimate is "
            f"between {a:.2f} and {b:.2f}, whatever they do, and the interval covers both",
            note,
        )
        if n
        else note
        for n, a, b, note in sides
    ]
    return with_adjusted_p(result)


def _deltas_of_values(
    outcomes: pd.DataFrame,
    attempts: pd.DataFrame | None,
    values: list[Any],
    bounds: Bounds,
    limit: float | None,
    how: Fields,
) -> pd.DataFrame:
    """Return the rows for each entry of ``values``; amounts other than scores need the attempts."""
    amounts = [value for value in values if value in AMOUNTS]
    if limit is not None and len(amounts) != 1:
        raise FrameError(
            f"limit=: found value={values}; a limit belongs to one amount. Name a single amount."
        )
    if not values or not all(isinstance(value, str) for value in values):
        raise FrameError(f"value=: found {values}; allowed: names such as ['passed', 'cost_usd'].")
    if "passed" in values and has_single_checks(outcomes):
        values = [value for value in values if value != "share_passed"]
    parts = []
    for value in values:
        frame = outcomes
        if value in AMOUNTS and value != "score":
            if attempts is not None:
                facts = [*how["by"], *how["average"], how["cluster"]]
                frame = attempts_of_outcomes(outcomes, attempts, facts, _WHAT)
            elif value not in outcomes:
                raise FrameError(
                    f"deltas.paired: '{value}' is a column of an attempts frame. Pass it, too: "
                    f"sc.deltas.paired(outcomes, attempts, value={values})."
                )
        # bounds without any score are refused
        own_bounds = bounds if value == "score" or "score" not in values else None
        own_limit = limit if value in amounts else None
        parts.append(_deltas_of_value(frame, value, own_bounds, own_limit, how))
    return pd.concat(parts, ignore_index=True)


def has_single_checks(outcomes: pd.DataFrame) -> bool:
    """Return whether each attempt has one check, so that its share is its pass."""
    return "n_checks" in outcomes and bool(outcomes["n_checks"].eq(1).all())


def attempts_of_outcomes(
    outcomes: pd.DataFrame, attempts: pd.DataFrame, facts: Sequence[str], what: str
) -> pd.DataFrame:
    """Return the attempts that match the outcomes in case, condition and agent.

    If the attempts lack a column that ``facts`` names, or the column ``contrast_of`` or ``task``,
    it is taken from the outcomes.
    """
    require_columns(outcomes, CASE, f"{what}: outcomes")
    require_columns(attempts, CASE, f"{what}: attempts")
    outcomes, attempts = outcomes.reset_index(drop=True), attempts.reset_index(drop=True)
    names = dict.fromkeys([*facts, "contrast_of", "task"])
    lacking = [n for n in names if n in outcomes and n not in attempts]
    rows = outcomes[[*CASE, *lacking]].drop_duplicates()
    several = grouped(rows, CASE)[lacking].nunique(dropna=False).gt(1).any()
    if several.any():
        raise FrameError(
            f"{what}: the attempts have no column '{several.idxmax()}', which differs within a "
            "case of the outcomes. Select one of its values in the outcomes, and leave it out of "
            "by= and average=."
        )
    keys = [*CASE]
    for name in [n for n in ("condition", "agent") if n in outcomes and n in attempts]:
        if outcomes[name].notna().any():
            attempts = attempts[attempts[name].isin(outcomes[name])]
            keys.append(name)
    matched = attempts.merge(rows, on=CASE)
    if len(outcomes) and matched.empty:
        raise no_attempt_of_these(keys, what)
    return matched


def no_attempt_of_these(keys: Sequence[str], what: str) -> FrameError:
    """Return the error for attempts that match no outcome in the columns ``keys``."""
    return FrameError(
        f"{what}: attempts: no attempt of these outcomes (equal {', '.join(keys)}). Pass the "
        "attempts from which the outcomes were made."
    )


def paired_units(
    outcomes: pd.DataFrame, by: Sequence[str], what: str, *, reference: str, **how: Any
) -> tuple[Units, list[Contrast]]:
    """Return the cases and, for each group and condition, its contrast with the reference.

    ``what`` names the analysis in error messages. ``how`` contains further arguments of
    :func:`skillcomp.contrast.compared_units`.
    """
    if not isinstance(reference, str):
        raise FrameError(f"reference: found {reference!r}; allowed: the name of a condition.")
    _, units = compared_units(outcomes, by, what, reference=reference, **how)
    return units, contrasts_with(units, reference)
