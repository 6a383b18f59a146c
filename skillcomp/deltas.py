"""Paired deltas: the change in pass rate on the same cases when the skill is loaded.

Conditions are paired on the case, and repeats are averaged within the case. The unit of evidence is
the case or the skill, never the attempt.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations, pairwise, product
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy.optimize import brentq

from skillcomp.contrast import (
    MISSING,
    ONE_SKILL,
    UNEQUAL_LOSS,
    BoundedValue,
    Bounds,
    Contrast,
    Units,
    case_table,
    check_bounds,
    claim,
    claimed,
    compared_outcomes,
    compared_units,
    contrasts_of_rates,
    contrasts_with,
    first_names,
    level_table,
    missing_note,
    within,
)
from skillcomp.errors import FrameError, plural, require_known
from skillcomp.frames.check import as_list, check, require_frame
from skillcomp.frames.contracts import AMOUNTS, ATTEMPT_KEYS, CASE, CONTRACTS, LINKED_BY, Amount
from skillcomp.frames.estimates import (
    RESERVED,
    By,
    estimates,
    grouped,
    groups,
    is_among,
    linking_columns,
    listed,
    n_distinct,
    ordered,
    prepared,
    refuse_different_checks,
    refuse_pooling,
    require_columns,
    require_reference,
    row,
    rows_of_group,
    sorted_by,
    with_adjusted_p,
    with_cautions,
    with_method,
)
from skillcomp.frames.reference_labels import RESULTS, usable
from skillcomp.removed_names import raise_missing_name
from skillcomp.stats import repeats
from skillcomp.stats.bounded import DELTAS, IntervalRule, bounded_mean, mixed_of_case
from skillcomp.stats.clusters_and_amounts import amount_change, cr2_mean, log_ratio, ratio_of_means
from skillcomp.stats.results import NAN, Fields, Floats, Interval, is_number, join_notes, undefined

__all__ = [
    "contrast",
    "over_time",
    "paired",
    "pass_at_k",
    "pass_hat_k",
    "price",
    "rates",
    "unpaired",
]

__dir__ = __all__.copy  # so that dir() lists the public names
__getattr__ = raise_missing_name(__name__)

_WHAT = "deltas.paired"
_DIMENSION = "comprehension_dimension"
DELTA_FACTS = ["reference", "rate", "reference_rate", "n_dropped"]
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
    cluster : {"case", "skill"}, default "case"
        ``"case"``: the interval is about further cases of these skills. ``"skill"``: the interval
        is about skills in general. This needs at least five skills: with two to four the interval
        is about cases, and with one it is NaN. ``note`` states this, and the smallest delta that
        nine of ten studies with this number of skills detect. Linked cases are one cluster: the two
        of a contrast pair, and those of a video, a repository or a user, if the table names its
        column (``cluster=`` of :func:`skillcomp.from_frame`). Coverage falls to 84-91 % if clusters
        differ much in size and only the large ones change.
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
    with both amounts, with Fieller's limits
    (:func:`skillcomp.stats.clusters_and_amounts.ratio_of_means`); it has no limits if the reference
    could be 0. ``delta_<amount>`` is the mean difference of the case means
    (:func:`skillcomp.stats.clusters_and_amounts.amount_change`). Its limits allow for ordinary
    skew, which a t interval does not; if a total is 0, they are those of t, and the note says so.
    ``ratio_<amount>`` is the geometric mean of the case ratios
    (:func:`skillcomp.stats.clusters_and_amounts.log_ratio`), without the cases with an amount of 0.
    In simulations of lognormal amounts of 14 to 84 cases, also in clusters of two to five, the
    first two covered 94 to 98 %. With a fifth of the amounts 0, the ratio of totals covered 95 %
    and the difference 92 to 94 %. If a few cases hold most of the amount, for instance because the
    agent loops there, a sample may contain no such case and then gives no warning; ``note`` warns
    if a tenth of the cases or fewer hold a third of the amount. With a ``limit``, the difference
    has a bounded interval. The note also counts amounts of 0 where others have an amount: such
    attempts may not have been billed. Attempts that ended in an error or a pause are missing; those
    with the status ``timeout``, ``truncated`` or ``refused`` are results. There are no
    ``worst_low`` and ``worst_high``.

    Scores with ``bounds`` are mapped to 0 and 1. The pseudo-cases of the adaptive rule then depend
    on how much the scores of a case vary: four times their variance takes the place of 4 p (1 - p)
    for a pass rate p. In simulations with one to four attempts, also in clusters, coverage was at
    least 98 % (``docs/intervals.md``). For scores that hardly vary, the interval can be several
    times as wide as that of ``interval="t"``. t assumes that no case is unlike the observed ones:
    where 7 % of cases break to the lowest score, it covers the mean score in 78 to 91 %. A
    ``score`` without ``bounds`` has a t interval and no worst case.

    If the table names three or more repeats (``repeat=``), the interval is widened where repeats
    share something, see :func:`skillcomp.stats.repeats.for_other_runs`; not for amounts.

    ``p_value`` is that of :func:`skillcomp.stats.clusters_and_amounts.p_of_rows`, a t test with a
    variance that the rows of the call share; without spread in a row, it inverts the interval. For
    amounts it inverts the interval. ``p_adjusted`` is adjusted by Holm over all rows of the call
    that have the same measure, except those of a placebo.

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
    values = list(dict.fromkeys(as_list(value)))
    if not values or not all(isinstance(each, str) for each in values):
        raise FrameError(f"value=: found {value!r}; allowed: names such as ['passed', 'cost_usd'].")
    amounts = [each for each in values if each in AMOUNTS and (each != "score" or bounds is None)]
    if limit is not None and len(amounts) != 1:
        raise FrameError(
            f"limit=: found value={value!r}; a limit belongs to one amount. Name a single amount."
        )
    if amounts and weight is not None:
        raise FrameError(f"weight=: amounts are not weighted; found value={value!r}.")
    if "passed" in values and has_single_checks(outcomes):
        values = [each for each in values if each != "share_passed"]
    parts = []
    for each in values:
        # bounds without any score are refused
        own = bounds if each == "score" or "score" not in values else None
        if each in AMOUNTS and own is None:
            frame = _frame_with_amount(outcomes, attempts, each, how)
            parts.append(amount_deltas(frame, each, limit, **how))
        elif each == "passed_own_words" and own is None:
            estimate = partial(_bounded_deltas, **how)
            parts.append(in_own_words(estimate, outcomes, _WHAT, reference))
        else:
            parts.append(_bounded_deltas(outcomes, value=each, bounds=own, **how))
    result = pd.concat(parts, ignore_index=True)
    if _DIMENSION not in names:
        return result
    keys = listed([*names, "condition", "measure"], _DIMENSION)
    parts = [part.sort_values(_DIMENSION, kind="stable") for _, part in groups(result, keys)]
    return pd.concat(parts or [result], ignore_index=True)


def _bounded_deltas(outcomes: pd.DataFrame, **how: Any) -> pd.DataFrame:
    return deltas_and_units(outcomes, _WHAT, **how)[0]


def _frame_with_amount(
    outcomes: pd.DataFrame, attempts: pd.DataFrame | None, amount: str, how: Fields
) -> pd.DataFrame:
    """Return the frame that has an amount: that of the outcomes, or the attempts behind them."""
    if amount == "score" or (attempts is None and amount in outcomes):
        return outcomes
    if attempts is None:
        raise FrameError(
            f"deltas.paired: '{amount}' is a column of an attempts frame. Pass it, too: "
            f"sc.deltas.paired(outcomes, attempts, value='{amount}')."
        )
    facts = [*how["by"], *how["average"]]
    return attempts_of_outcomes(outcomes, attempts, facts, _WHAT)


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
    how |= {"value": value, "weight": weight}
    _, units = compared_units(outcomes, by, what, reference=reference, **how)
    contrasts = contrasts_with(units, reference)
    rows = contrast_rows(
        f"delta_{value}", units, contrasts, cluster=cluster, ci_level=ci_level, interval=interval
    )
    result = estimates(
        rows, by=[*by, "condition"], extra=DELTA_COLUMNS, outcomes=outcomes, reference=reference
    )
    return with_method(result, weight), units, contrasts


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


def has_single_checks(outcomes: pd.DataFrame) -> bool:
    """Return whether each attempt has one check, so that its share is its pass."""
    return "n_checks" in outcomes and bool(outcomes["n_checks"].eq(1).all())


NO_AMOUNTS = "no case has an amount in both conditions"
_COUNTS = ("n_words", "n_commands")  # these are not billed: 0 is an ordinary value


def amount_deltas(
    attempts: pd.DataFrame,
    value: str,
    limit: float | None,
    *,
    by: list[str],
    reference: str,
    cluster: str,
    average: list[str],
    ci_level: float,
    what: str = _WHAT,
    **unused: Any,
) -> pd.DataFrame:
    """Compare an amount between each condition and the reference, by difference and ratio.

    The arguments and the result are those of :func:`skillcomp.deltas.paired`. Those of ``unused``
    are for pass rates. ``what`` names the analysis in error messages.
    """
    kind = "outcomes" if value == "score" else "attempts"
    checked = prepared(
        attempts, kind, by, what, compared=["condition"], average=average, agents=True
    )
    require_reference(checked["condition"], reference)
    amount = checked[value].astype("float64")
    if value == "score":
        refuse_different_checks(checked, what)
    else:
        amount = amount.where(usable(checked) | checked["status"].isin(RESULTS))
    if limit is not None and not (is_number(limit) and 0.0 < limit < np.inf):
        raise FrameError(f"limit: found {limit!r}; allowed: a number above 0.")
    if limit is not None and (amount.min() < 0 or amount.max() > limit):
        raise FrameError(
            f"limit: found {limit:g}, but {value} runs from {amount.min():g} to {amount.max():g}; "
            "allowed: amounts from 0 to the limit. Name the limit that each attempt had."
        )
    refuse_infinite(amount, value)
    # the groups of `by` in alphabetical order
    table = level_table(checked, amount, by=[*by, *average])
    units = Units.of(sorted_by(table, by), by, average=average, value="level")
    contrasts = (replace(c, nothing=NO_AMOUNTS) for c in contrasts_with(units, reference))
    rows = [
        each
        for contrast in contrasts
        for each in _rows_of_contrast(units, contrast, value, cluster, limit, ci_level)
    ]
    if kind == "attempts":
        checked = with_cautions(checked.assign(note=""), checked)
    return estimates(
        rows,
        by=[*by, "condition"],
        extra=[*DELTA_FACTS, *MISSING[:4]],
        outcomes=checked,
        reference=reference,
    )


def refuse_infinite(amount: pd.Series, name: str) -> None:
    """Raise if an amount is infinite; it would be counted as missing."""
    if n_infinite := int(np.isinf(amount).sum()):
        raise FrameError(
            f"{name}: found an infinite amount in {plural(n_infinite, 'attempt')}; allowed: a "
            "number, or missing."
        )


def _rows_of_contrast(
    units: Units,
    contrast: Contrast,
    value: str,
    cluster: str,
    limit: float | None,
    ci_level: float,
) -> list[Fields]:
    """Return the rows of an amount: ratio of totals, mean difference, mean ratio.

    A score has only the difference. An undefined estimate is NaN, with a note.
    """
    part = units.part(contrast)
    cases = part.means_of_cases()
    amounts, base = (pd.Series(level) for level in cases.numbers["level"].T)
    pairs = pd.DataFrame(cases.facts)
    counts = part.missing(contrast.sides)[0]
    missing, _ = missing_note(counts, contrast.sides, f"attempts without {value}")
    if missing:
        missing += f"; if their {value} is unlike that of the others, the result is biased; it has "
        missing += "no bounds, so there is no worst case"
    about = contrast.about | dict(zip(MISSING[:4], counts, strict=True))
    of_group = slice(*units.start[contrast.group : contrast.group + 2])
    about["n_dropped"] = n_distinct(units.facts["case"][of_group]) - cases.n
    labels, note = claim(pairs["skill"], pairs["cluster"], cluster)
    heavy = heavy_cases(amounts, base)

    def noted(interval: Interval, *more: str) -> Interval:
        # cases with amounts of 0 alone have no ratio, and the interval has the reason
        nothing = join_notes(part.nothing or interval.note, missing)
        result = claimed(interval, note, nothing, cases.note, missing, *more)
        return replace(result, method=interval.method)

    about |= {"rate": amounts.mean(), "reference_rate": base.mean()}
    if value == "score":
        scale = max(amounts.abs().max(), base.abs().max()) if len(base) else None
        change = cr2_mean(amounts - base, labels, ci_level=ci_level, scale=scale)
        return [row("delta_score", noted(change, heavy), **about)]
    unbilled = zeros_note(value, part.numbers, contrast.sides)
    total = ratio_of_means(amounts, base, labels, ci_level=ci_level)
    if not np.isnan(total.low):
        # Fieller's limits include a ratio of 1 exactly if the t interval of the change includes 0
        total = replace(total, p_value=cr2_mean(amounts - base, labels).p_value)
    if limit is None or amounts.empty:
        difference = amount_change(amounts, base, labels, ci_level=ci_level)
    else:
        difference = bounded_mean(
            (amounts - base) / limit, labels, quantity=DELTAS, null=0.0, ci_level=ci_level
        ).times(limit)
        method = f"{difference.method}; amounts from 0 to {limit:g}"
        difference = replace(difference, method=method)
    more = "" if limit is not None else heavy
    rows = [row(f"total_ratio_{value}", noted(total, unbilled, more), **about)]
    rows.append(row(f"delta_{value}", noted(difference, unbilled, more), **about))
    ratio = log_ratio(amounts, base, labels, ci_level=ci_level)
    both = (amounts > 0) & (base > 0)
    about |= {"rate": amounts[both].mean(), "reference_rate": base[both].mean()}
    return [*rows, row(f"ratio_{value}", noted(ratio, heavy), **about)]


def zeros_note(value: str, numbers: Mapping[str, Floats], sides: Sequence[str]) -> str:
    """Return a note on the attempts with an amount of 0; empty if there are none."""
    hint = "" if value in _COUNTS else " (unbilled?)"
    free, known = (np.nansum(numbers[name], axis=0) for name in ("zeros", "n"))
    parts = [
        f"{n:.0f} of {size:.0f}" + (f" under {side}" if side else "")
        for n, size, side in zip(free, known, sides, strict=True)
        if n
    ]
    return f"amounts of 0{hint}: {', '.join(parts)}" if parts else ""


def heavy_cases(amounts: pd.Series, base: pd.Series) -> str:
    """Return a warning if few cases hold much of the amount of a condition.

    "Few" means one case, or at most a tenth of all cases. "Much" means at least a third of the
    amount, and at least three times as much as the same number of average cases would have.
    Otherwise the warning is empty.
    """
    for side in (amounts.abs(), base.abs()):
        share = side.sort_values(ascending=False).cumsum().to_numpy() / (side.sum() or 1.0)
        share = share[: max(1, len(side) // 10)]
        part = np.arange(1, len(share) + 1) / max(len(side), 1)
        heavy = np.flatnonzero(share >= np.maximum(1 / 3, 3 * part))
        if len(heavy):
            holds = "hold" if heavy[0] else "holds"
            return (
                f"{heavy[0] + 1} of {len(side)} cases {holds} {100 * share[heavy[0]]:.0f} % of the "
                "amount: an interval may be too narrow; name the limit of an attempt by limit="
            )
    return ""


def attempts_of_outcomes(
    outcomes: pd.DataFrame, attempts: pd.DataFrame, facts: Sequence[str], what: str
) -> pd.DataFrame:
    """Return the attempts that match the outcomes in case, condition and agent.

    If the attempts lack a column that ``facts`` names, or one that links cases, it is taken from
    the outcomes.
    """
    require_columns(outcomes, CASE, f"{what}: outcomes")
    require_columns(attempts, CASE, f"{what}: attempts")
    outcomes, attempts = outcomes.reset_index(drop=True), attempts.reset_index(drop=True)
    links = ["contrast_of", "task", LINKED_BY, *linking_columns(outcomes)]
    names = dict.fromkeys([*facts, *links])
    lacking = [n for n in names if n in outcomes and n not in attempts]
    rows = outcomes[[*CASE, *lacking]].drop_duplicates()
    several = grouped(rows, CASE)[lacking].nunique(dropna=False).gt(1).any()
    if several.any():
        raise FrameError(
            f"{what}: the attempts have no column '{several.idxmax()}', which differs within a "
            "case of the outcomes. Select one of its values in the outcomes, and leave it out of "
            "by= and average=."
        )
    cells = [n for n in ("condition", "agent") if n in outcomes and n in attempts]
    keys = [*CASE, *(name for name in cells if outcomes[name].notna().any())]
    matched = attempts[is_among(attempts, outcomes, keys)].merge(rows, on=CASE)
    if len(outcomes) and matched.empty:
        raise no_attempt_of_these(keys, what)
    return matched


def no_attempt_of_these(keys: Sequence[str], what: str) -> FrameError:
    """Return the error for attempts that match no outcome in the columns ``keys``."""
    return FrameError(
        f"{what}: attempts: no attempt of these outcomes (equal {', '.join(keys)}). Pass the "
        "attempts from which the outcomes were made."
    )


_PRICE = "deltas.price"
_AMOUNTS = ("cost_usd", "tokens", "minutes")
_OF_PRICE = ["reference", "amount", "rate", "n_dropped", *MISSING[:4]]


def price(
    outcomes: pd.DataFrame,
    attempts: pd.DataFrame,
    *,
    by: By = (),
    reference: str = "baseline",
    cluster: str = "case",
    ci_level: float = 0.95,
    interval: IntervalRule = "adaptive",
) -> pd.DataFrame:
    """Estimate what a pass costs under each condition, and what each additional pass costs.

    A condition may cost more per attempt and less per pass. Amounts are dollars, tokens (input and
    output) and minutes. For the change of an amount itself use :func:`skillcomp.deltas.paired`.

    Parameters
    ----------
    outcomes : pandas.DataFrame
        An outcomes frame.
    attempts : pandas.DataFrame
        An attempts frame with cost_usd, input_tokens, output_tokens and seconds, as far as they
        were recorded. Only rows with an attempt_id of the outcomes are used. If the outcomes have
        no attempt_id, only rows with the same case, condition, repeat and agent are used.
    by : str or sequence of str
        Columns that group the rows, such as ``["skill"]``.
    reference : str, default "baseline"
        The condition from which additional passes are counted.
    cluster : {"case", "skill"}, default "case"
        As in :func:`skillcomp.deltas.paired`.
    ci_level : float, default 0.95
        Level of the interval.
    interval : {"adaptive", "bounded", "t"}, default "adaptive"
        Rule for the interval of the change in the pass rate, which decides whether an additional
        pass has a price.

    Returns
    -------
    pandas.DataFrame
        Three rows per ``by`` and condition with the estimates columns. The measures are
        ``cost_usd_per_pass``, ``tokens_per_pass`` and ``minutes_per_pass``: the total amount
        divided by the number of passes. Each condition other than the reference has three further
        rows, ``cost_usd_per_added_pass``, ``tokens_per_added_pass`` and
        ``minutes_per_added_pass``: the change in the amount divided by the change in the pass rate,
        over the same cases. ``amount`` and ``rate`` are the mean amount of an attempt and the pass
        rate, or the changes of both. They use only attempts with an outcome and an amount. ``n``
        counts the cases with such attempts, ``n_dropped`` the other cases. ``n_missing`` of
        ``n_attempts`` attempts at the cases asked have no outcome or no amount; the columns that
        end in ``_reference`` count those of the reference. The estimate is NaN with a note if 5 %
        or more of the attempts with an outcome lack the amount, under the condition or the
        reference, because these may be the failed attempts.

        An additional pass has no price, and its row is NaN with a note, if the interval of the
        change in the pass rate includes 0 or is below it. Limits are NaN with a note if the ratio
        is unbounded.

    Raises
    ------
    FrameError
        If a frame breaks its contract, an amount is infinite, agents or graders would be pooled,
        the reference is not among the conditions, or no attempt belongs to these outcomes.

    See Also
    --------
    skillcomp.deltas.paired : The changes of the pass rate and of each amount.
    skillcomp.plots.estimates : Draws the result, one measure at a time.

    Notes
    -----
    Repeats are averaged within a case, and each case has the same weight. With the same number of
    attempts at each case, the amount per pass is the total amount over the number of passes. The
    interval is Fieller's (:func:`skillcomp.stats.clusters_and_amounts.ratio_of_means`). In
    simulated studies of 14 to 84 cases it covered the price in 93 to 96 %, the delta method in 75
    to 94 %. Both cover too seldom if few cases hold most of an amount (72 % with 20 cases, if one
    case in twenty costs 20 times as much). ``note`` warns if the sample has such a case, but it may
    have none by chance. Attempts that ended in an error or a pause have no amount, as in
    :func:`skillcomp.deltas.paired`. Amounts of 0 are counted in ``note``, because they may be
    unbilled; infinite ones are refused.

    Examples
    --------
    The skill raises the cost of an attempt from $0.010 to $0.016, and the pass rate from 1/4 to
    3/4.

    >>> import pandas as pd
    >>> rows = [(f"s/{i}", c, 0.01 if c == "baseline" else 0.016, i % 4 < n)
    ...     for c, n in (("baseline", 1), ("skill", 3)) for i in range(20)]
    >>> frame = pd.DataFrame(rows, columns=["case_id", "condition", "cost_usd", "passed"])
    >>> frame = frame.assign(skill="s", attempt_id=range(40))
    >>> table = price(frame, frame).dropna(subset="estimate")
    >>> table[["condition", "measure", "estimate"]].round(3)
      condition                  measure  estimate
    0  baseline        cost_usd_per_pass     0.040
    3     skill        cost_usd_per_pass     0.021
    6     skill  cost_usd_per_added_pass     0.012
    """
    names = listed(by)
    checked = compared_outcomes(outcomes, names, _PRICE, reference=reference)
    asked = case_table(checked, by=names)
    judged = Units.of(asked, names)
    passed = checked["passed"].astype("float64")
    priced = {}
    for name, value in _amounts_of_outcomes(checked, attempts).items():
        known = value.notna() & passed.notna()
        amounts, passes = (
            level_table(checked, values.where(known), by=names) for values in (value, passed)
        )
        of_case: Fields = {"_size": asked["_size"], "_fewest": passes["_n"]}
        of_case["_mixed"] = mixed_of_case(passes["_level"], passes["_n"])
        priced[name] = [
            Units.of(table.assign(**of_case), names, value="level") for table in (amounts, passes)
        ]
    contrasts = [*contrasts_of_rates(judged), *contrasts_with(judged, reference)]
    contrasts.sort(key=lambda contrast: contrast.group)
    rules: Fields = {"cluster": cluster, "ci_level": ci_level, "interval": interval}
    rows = [
        _price_row(amount, contrast, judged, *priced[amount], **rules)
        for contrast, amount in product(contrasts, _AMOUNTS)
    ]
    keys = [*names, "condition"]
    return estimates(rows, by=keys, extra=_OF_PRICE, outcomes=checked, reference=reference)


def _amounts_of_outcomes(outcomes: pd.DataFrame, attempts: pd.DataFrame) -> pd.DataFrame:
    """Return the amounts of the attempt behind each outcome; NaN if there are none."""
    own = attempts_of_outcomes(outcomes, check(attempts, "attempts"), [], _PRICE)
    keys = ["attempt_id"]
    if outcomes["attempt_id"].isna().all():
        keys = [*CASE, "condition", "repeat"] + ["agent"] * bool(outcomes["agent"].notna().any())
    own = own[is_among(own, outcomes, keys)]
    if len(outcomes) and own.empty:
        raise no_attempt_of_these(keys, _PRICE)
    if own.duplicated(keys).any():
        raise FrameError(
            f"{_PRICE}: the outcomes have no attempt_id, and several attempts have the same "
            f"{', '.join(keys)}. Add attempt_id to the outcomes."
        )
    counts = usable(own) | own["status"].isin(RESULTS)
    for name in ("cost_usd", "seconds", "input_tokens", "output_tokens"):
        refuse_infinite(own[name].astype("float64").where(counts), name)
    tokens = own["input_tokens"] + own["output_tokens"]
    amounts = own.assign(tokens=tokens, minutes=own["seconds"] / 60.0)
    amounts[[*_AMOUNTS]] = amounts[[*_AMOUNTS]].astype("float64").where(counts)
    matched = outcomes[keys].merge(amounts[[*keys, *_AMOUNTS]], how="left")
    return matched[[*_AMOUNTS]].set_axis(outcomes.index)


def _reason_without_price(delta: Interval) -> str:
    """Return the reason why an additional pass has no price; "" if the pass rate clearly rises."""
    if delta.low > 0:
        return ""
    limits = f"{delta.estimate:+z.2f} [{delta.low:+z.2f}, {delta.high:+z.2f}]"
    if delta.high < 0:
        return f"the pass rate falls, {limits}: there is no additional pass"
    return f"the interval of the change in the pass rate includes 0, {limits}: no price"


def _price_row(
    amount: str,
    contrast: Contrast,
    judged: Units,
    priced: Units,
    rated: Units,
    *,
    cluster: str,
    ci_level: float,
    interval: IntervalRule,
) -> Fields:
    """Return the row of a price; if there is no price, its estimate is NaN with a note.

    ``priced`` and ``rated`` have the mean amount and the pass rate over the attempts with an
    outcome and an amount, ``judged`` those with an outcome. If many attempts with an outcome lack
    the amount under one condition, there is no price, because these may be the failed ones.
    """
    sides, is_paired = contrast.sides, len(contrast.weights) == 2
    part = priced.part(replace(contrast, nothing=f"no case has {amount} and an outcome"))
    cases = part.means_of_cases()
    levels = cases.numbers["level"]
    value, passes = (
        pd.Series(each.numbers["level"] @ each.weights)
        for each in (cases, rated.part(contrast).means_of_cases())
    )
    counts = part.missing(sides)[0]
    lost = judged.part(contrast).missing(sides)[0]
    n_judged, n_unpriced = np.subtract(lost[1::2], lost[::2]), np.subtract(counts, lost)[::2]
    unpriced = np.column_stack([n_unpriced, n_judged])
    lacking, _ = missing_note(unpriced.ravel().tolist(), sides, f"attempts without {amount}")
    lacking = join_notes(*missing_note(lost, sides), lacking)
    labels, note = claim(cases.facts["skill"], cases.facts["cluster"], cluster)
    reason = ""
    if not cases.n:
        reason, lacking = part.nothing, ""
    elif note == ONE_SKILL:
        reason, note = note, ""
    elif ((n_unpriced >= UNEQUAL_LOSS * n_judged - 1e-9) & (n_judged > 0)).any():
        reason = f"too many attempts lack {amount}, and they may be the failed ones: no price"
    elif is_paired:
        rules: Fields = {"cluster": cluster, "ci_level": ci_level, "interval": interval}
        reason = _reason_without_price(within(rated, [contrast], **rules)[0].interval)
    elif not passes.any():
        reason = "no attempt passed"
    if reason:
        result = undefined("", reason, ci_level=ci_level, n=cases.n)
    else:
        result = ratio_of_means(value, passes, labels, ci_level=ci_level)
        alike = "all cases pass alike: the interval takes their rate as exact"
        heavy = heavy_cases(pd.Series(levels[:, 0]), pd.Series(levels[:, -1]))
        result = result.with_note("" if passes.nunique() > 1 else alike, heavy)
    n_dropped = n_distinct(part.facts["case"]) - cases.n
    dropped = f"{plural(n_dropped, 'case')} dropped: no {amount} or no outcome"
    dropped = dropped if n_dropped and cases.n else ""
    result = result.with_note(
        note, dropped, lacking, zeros_note(amount, part.complete.numbers, sides)
    )
    columns = {"amount": value.mean(), "rate": passes.mean(), "n_dropped": n_dropped}
    columns |= dict(zip(MISSING, counts, strict=False)) | contrast.about
    return row(f"{amount}_per_{'added_' if is_paired else ''}pass", result, **columns)


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
    names = listed(by, "condition")
    how: Fields = {"average": listed(average), "weight": weight}
    rules: Fields = {"cluster": cluster, "ci_level": ci_level, "interval": interval}
    if value == "passed_own_words" and bounds is None:
        estimate = partial(rates, by=names, **how, **rules)
        return in_own_words(estimate, outcomes, "deltas.rates", None)
    how |= {"value": value, "bounds": bounds}
    checked, units = compared_units(outcomes, names, "deltas.rates", **how)
    rows = contrast_rows(f"rate_{value}", units, contrasts_of_rates(units), **rules)
    keys = [*names, "condition"]
    result = estimates(rows, by=keys, extra=MISSING_OF_RATE, outcomes=checked)
    return with_method(result, weight)


_LOG_P = (math.log(1e-10), math.log(1.0 - 1e-9))  # The range of p-values, as logarithms.


def unpaired(
    outcomes: pd.DataFrame,
    *,
    by: By = (),
    value: BoundedValue = "passed",
    bounds: Bounds = None,
    reference: str = "baseline",
    cluster: str = "case",
    average: By = (),
    weight: str | None = None,
    ci_level: float = 0.95,
    interval: IntervalRule = "adaptive",
) -> pd.DataFrame:
    """Estimate the change in pass rate between conditions that have different cases.

    The rate of each condition is that of :func:`skillcomp.deltas.rates`, over its own cases. If the
    conditions have the same cases, use :func:`skillcomp.deltas.paired`, which is more precise.

    Parameters
    ----------
    outcomes : pandas.DataFrame
        An outcomes frame.
    by : str or sequence of str
        Columns that group the rows.
    value : {"passed", "share_passed", "score"}, default "passed"
        As in :func:`skillcomp.deltas.paired`.
    bounds : tuple of float, optional
        As in :func:`skillcomp.deltas.paired`: lowest and highest possible score.
    reference : str, default "baseline"
        The condition that all others are compared with.
    cluster, average, weight, interval
        As in :func:`skillcomp.deltas.paired`.
    ci_level : float, default 0.95
        Level of the interval.

    Returns
    -------
    pandas.DataFrame
        One row per ``by`` and condition other than the reference, with the columns of
        :func:`skillcomp.deltas.paired`. ``n`` counts the cases of both conditions, ``n_condition``
        and ``n_reference`` those of each. The estimate is NaN with a note if a condition has no
        outcome.

    Raises
    ------
    FrameError
        As for :func:`skillcomp.deltas.paired`.

    See Also
    --------
    skillcomp.deltas.paired : The change on the same cases.
    skillcomp.plots.estimates : Draws the result.

    Notes
    -----
    The interval combines those of the two rates by square-and-add, and ``p_value`` inverts it. The
    cases of the two conditions must be independent samples from the same kind of cases: if one
    condition has the harder cases, the change is biased. In 41 simulated designs the coverage was
    95.7 to 100 %, and 95 to 99 % in three with clusters. Clusters with cases under both conditions
    were not simulated.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({
    ...     "skill": "s", "case_id": [f"s/{i}" for i in range(24)],
    ...     "condition": ["baseline"] * 12 + ["skill"] * 12,
    ...     "passed": [True] * 3 + [False] * 9 + [True] * 11 + [False]})
    >>> unpaired(frame)[["estimate", "n_condition", "n_reference"]].round(3)
       estimate  n_condition  n_reference
    0     0.667         12.0         12.0
    """
    names, what = listed(by), "deltas.unpaired"
    how: Fields = {
        "value": value,
        "bounds": bounds,
        "average": listed(average),
        "reference": reference,
        "weight": weight,
    }
    checked, units = compared_units(outcomes, names, what, **how)
    rules = {"cluster": cluster, "interval": interval}
    rows = [
        _unpaired_row(units, contrast, f"delta_{value}", ci_level, rules)
        for contrast in contrasts_with(units, reference)
    ]
    result = estimates(
        rows,
        by=[*names, "condition"],
        extra=[*DELTA_COLUMNS, "n_condition", "n_reference"],
        outcomes=checked,
        reference=reference,
    )
    return with_method(result, weight)


def _unpaired_row(
    units: Units, contrast: Contrast, measure: str, ci_level: float, rules: Fields
) -> Fields:
    """Return the row of the difference between the rates of two conditions."""
    arms = [
        replace(contrast, weights={key: 1.0}, sides=("",), nothing=f"no outcome under {key[0]}")
        for key in contrast.weights
    ]

    def difference(level: float) -> Interval:
        means = within(units, arms, ci_level=level, **rules)
        return means[0].interval.minus(means[1].interval)

    first, second = within(units, arms, ci_level=ci_level, **rules)
    result = first.interval.minus(second.interval)
    result = replace(
        result,
        method=f"{first.interval.method}; square-and-add of two conditions",
        note=join_notes(*dict.fromkeys((first.interval.note, second.interval.note))),
        n_clusters=first.interval.n_clusters + second.interval.n_clusters,
        p_value=_p_of_difference(difference, result.estimate),
    )
    (low, high), (reference_low, reference_high) = first.worst, second.worst
    worst = (low - reference_high, high - reference_low)
    return row(
        measure,
        result,
        rate=first.interval.estimate,
        reference_rate=second.interval.estimate,
        n_dropped=first.n_dropped + second.n_dropped,
        n_condition=first.interval.n,
        n_reference=second.interval.n,
        **dict(zip(MISSING, (*first.missing, *second.missing, *worst), strict=True)),
        **contrast.about,
    )


def _p_of_difference(difference: Callable[[float], Interval], estimate: float) -> float:
    """Return the smallest error rate at which the interval of a difference excludes 0."""

    def reach(log_p: float) -> float:
        interval = difference(1.0 - math.exp(log_p))
        return interval.low if estimate > 0 else -interval.high

    ends = [reach(log_p) for log_p in _LOG_P]
    if not ends[0] < 0 < ends[1]:
        # undefined, below the smallest or above the largest error rate
        return math.nan if math.isnan(sum(ends)) else math.exp(_LOG_P[int(ends[0] < 0)])
    return math.exp(brentq(reach, *_LOG_P, xtol=1e-6))


_PASS_K = {"pass_at_k": repeats.pass_at_k, "pass_hat_k": repeats.pass_hat_k}


def pass_at_k(
    outcomes: pd.DataFrame,
    *,
    k: int,
    by: By = (),
    reference: str | None = None,
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Estimate the probability that at least one of ``k`` attempts at a case passes.

    Parameters
    ----------
    outcomes : pandas.DataFrame
        An outcomes frame. Cases with fewer than ``k`` attempts that have an outcome are left out;
        the note names them, and the largest ``k`` that all cases allow.
    k : int
        Number of attempts.
    by : str or sequence of str
        Columns that group the rows, in addition to ``condition``.
    reference : str, optional
        A condition, such as ``"baseline"``, from which the paired changes of the other conditions
        are estimated. Default: estimate the probability under each condition.
    ci_level : float, default 0.95
        Level of the interval.

    Returns
    -------
    pandas.DataFrame
        One row per ``by`` and condition with the estimates columns (measure ``pass_at_k``), ``k``,
        ``n_short`` (cases left out), and the columns of :func:`skillcomp.deltas.rates` about
        missing attempts. With ``reference``, one row per ``by`` and other condition, with the
        measure ``delta_pass_at_k`` and the columns of :func:`skillcomp.deltas.paired`.

    See Also
    --------
    pass_hat_k : The probability that all of ``k`` attempts pass.

    Notes
    -----
    The estimate of a case is unbiased for any number of attempts that is at least ``k``. If the
    attempts were repeated until one passed, a case that stopped at its first pass counts as 1 if
    ``k`` is at least its number of attempts, and otherwise as 0; ``note`` gives their number. The
    attempts were repeated if, under a condition, at least three cases have several attempts and in
    nine of ten of these only the last attempt passes. The mean
    over cases, and the mean of the differences on the same cases, have the ``"bounded"`` interval
    of :func:`skillcomp.stats.bounded.bounded_mean`, which assumes nothing about unseen cases.

    Examples
    --------
    Four cases with three attempts each; ``passes`` has the number of passes of each case.

    >>> import pandas as pd
    >>> passes = {"baseline": [0, 1, 0, 2], "skill": [1, 3, 2, 3]}
    >>> frame = pd.DataFrame([{"skill": "s", "case_id": f"s/{i}", "condition": c, "passed": j < n}
    ...     for c, cases in passes.items() for i, n in enumerate(cases) for j in range(3)])
    >>> change = pass_at_k(frame, k=2, reference="baseline")
    >>> change[["condition", "measure", "estimate", "rate"]].round(2)
      condition          measure  estimate  rate
    0     skill  delta_pass_at_k       0.5  0.92
    """
    return _pass_k(outcomes, k, by, reference, ci_level, "pass_at_k")


def pass_hat_k(
    outcomes: pd.DataFrame,
    *,
    k: int,
    by: By = (),
    reference: str | None = None,
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Estimate the probability that all of ``k`` attempts pass; see :func:`pass_at_k`."""
    return _pass_k(outcomes, k, by, reference, ci_level, "pass_hat_k")


def _pass_k(
    outcomes: pd.DataFrame, k: int, by: By, reference: str | None, ci_level: float, measure: str
) -> pd.DataFrame:
    names, what = listed(by, "condition"), f"deltas.{measure}"
    of_case = _PASS_K[measure]
    of_case([], [], k)  # this call raises an error if k is not a positive whole number
    _, units = compared_units(outcomes, names, what, reference=reference)
    if reference is None:
        contrasts = contrasts_of_rates(units)
        name, extra = measure, MISSING_OF_RATE
    else:
        contrasts = contrasts_with(units, reference)
        name, extra = f"delta_{measure}", DELTA_COLUMNS
    numbers = units.numbers
    retried = (numbers["retried"] > 0) & (measure == "pass_at_k")
    at_k = _units_at_k(units, k, of_case, retried, is_paired=reference is not None)
    # the attempts at a case that stopped at its first pass are enough for any k
    n_at_k = np.where(retried, np.maximum(numbers["n"], k), numbers["n"])
    units = replace(units, numbers=numbers | {"n": n_at_k})
    # the adaptive rule is not defined for sets of k attempts, so use the bounded interval
    rows = contrast_rows(name, at_k, contrasts, ci_level=ci_level, interval="bounded")
    for each, contrast in zip(rows, contrasts, strict=True):
        part = units.part(contrast)
        n, label = pd.Series(part.numbers["n"].min(axis=1)), pd.Series(part.facts["label"])
        note = each["note"].replace("no outcome in", f"fewer than {k} outcomes in")
        each |= {"k": k, "n_short": int(n.lt(k).sum())}
        if n.lt(k).any():
            largest = int(n.min())
            largest_k = (
                f"the largest k for all cases is {largest}" if largest else "no k suits all cases"
            )
            short = first_names(label[n.lt(k)].to_numpy())
            few = f"with fewer than {k} attempts that have an outcome: {short}"
            note = join_notes(note, f"left out, {few}; {largest_k}")
        each["note"] = note
        each["method"] = f"pass{'@' if measure == 'pass_at_k' else '^'}{k}, {each['method']}"
    columns = [*extra, "k", "n_short"]
    keys = [*names, "condition"]
    return estimates(rows, by=keys, extra=columns, outcomes=outcomes, reference=reference)


def _units_at_k(
    units: Units, k: int, of_case: Callable[..., Any], retried: Any, *, is_paired: bool
) -> Units:
    """Replace the rates of the units, and the bounds of the rates, by pass@k or pass^k.

    Whether a case that stopped at its first pass would pass within k attempts is known: 1 if k is
    at least its number of attempts, otherwise 0.
    """
    numbers = dict(units.numbers)
    for name, count in (("level", "n"), ("low", "size"), ("high", "size")):
        n = units.numbers[count]
        enough = np.nan_to_num(n) >= k
        passes = np.rint(units.numbers[name][enough] * n[enough])
        numbers[name] = np.full(n.shape, NAN)
        numbers[name][enough] = of_case(n[enough], passes, k)
        numbers[name][retried] = n[retried] <= k
    enough |= retried
    if is_paired:  # pairs with fewer than k expected attempts lack no attempts
        numbers["size"] = np.where(enough, numbers["size"], NAN)
    return replace(units, numbers=numbers)


_CONTRAST = "deltas.contrast"
_OF_CONTRAST = ["reference", "reference_condition", "rate", "reference_rate", "n_dropped", *MISSING]


def contrast(
    outcomes: pd.DataFrame,
    *,
    between: By,
    condition: str | None = None,
    reference: str = "baseline",
    by: By = (),
    value: BoundedValue = "passed",
    bounds: Bounds = None,
    cluster: str = "case",
    average: By = (),
    weight: str | None = None,
    ci_level: float = 0.95,
    interval: IntervalRule = "adaptive",
) -> pd.DataFrame:
    """Estimate how deltas or pass rates differ between agents, graders or rounds.

    All levels are compared on the same cases. Without ``condition``, the deltas of the levels are
    compared: does the skill help one agent more than another? With ``condition``, their pass rates
    under this condition are compared.

    Parameters
    ----------
    outcomes : pandas.DataFrame
        An outcomes frame with skill, case_id, condition and the column ``between``.
    between : str
        The column with the levels to compare, such as ``"agent"``, ``"grader"``, ``"round"`` or a
        column of your own; one column only. Conditions, such as versions of a skill, are compared
        by :func:`skillcomp.deltas.paired`.
    condition : str, optional
        The condition under which pass rates are compared. Default: compare deltas.
    reference : str, default "baseline"
        The condition from which deltas are taken. Not used with ``condition``.
    by : str or sequence of str
        Columns that group the rows, such as ``["skill"]``.
    value : {"passed", "share_passed", "score"}, default "passed"
        As in :func:`skillcomp.deltas.paired`.
    bounds : tuple of float, optional
        As in :func:`skillcomp.deltas.paired`: lowest and highest possible score.
    cluster, average, weight, interval
        As in :func:`skillcomp.deltas.paired`. An averaged column may be nested in ``between``, such
        as ``average="agent"`` with ``between="agent_family"``: the agents of each family are
        averaged within the case; a case that lacks the outcome of one of them is dropped.
    ci_level : float, default 0.95
        Level of the interval.

    Returns
    -------
    pandas.DataFrame
        One row per ``by``, condition and pair of levels, with the estimates columns. The column
        ``between`` holds the level and ``reference`` the level that comes before it in sorted
        order. The measure is ``difference_passed``: the delta of the level minus that of the
        reference level, from -2 to 2. With ``condition`` it is ``delta_passed``: the rate of the
        level minus that of the reference level, from -1 to 1. With ``value="share_passed"`` the
        measures are ``difference_share_passed`` and ``delta_share_passed``. ``rate`` and
        ``reference_rate`` are the deltas or rates of the two levels. ``p_adjusted`` is adjusted by
        Holm over all rows that have a p-value, except those of a placebo.
        ``reference_condition`` is ``reference``; it is missing if ``condition`` is given.
        ``n_dropped`` counts the cases that lack an outcome in at least one compared cell (a level
        under a condition). The columns about missing attempts are those of
        :func:`skillcomp.deltas.paired`, for the level and the reference level. The estimate is NaN
        with a note if one of the levels has no attempts under the condition.

    Raises
    ------
    FrameError
        If ``between`` names several columns, the condition, a fact of the case, or a column with
        missing values or fewer than two levels; if the levels were asked different cases or, in
        more than a tenth of the cases, different numbers of checks; or if other agents, graders or
        rounds would be pooled.

    See Also
    --------
    skillcomp.deltas.paired : Compares conditions.
    skillcomp.deltas.over_time : Compares each run with the run before.
    skillcomp.plots.estimates : Draws the result; with several pairs, use ``hue="reference"``.

    Notes
    -----
    Repeats are averaged within a case. A difference of deltas is a contrast of four rates of the
    same case, (skill - baseline of the level) - (skill - baseline of the reference level); the
    interval is that of :func:`skillcomp.stats.bounded.bounded_mean` for the contrasts of the cases.
    It is narrower than an interval from the two separate deltas if levels agree on which cases are
    hard.

    Examples
    --------
    Of ten cases, agent a passes 2 in the baseline and 8 with the skill, agent b 3 and 5.

    >>> import pandas as pd
    >>> passed = {("a", "baseline"): 2, ("a", "skill"): 8, ("b", "baseline"): 3, ("b", "skill"): 5}
    >>> frame = pd.DataFrame([{"skill": "s", "case_id": f"s/{i}", "agent": agent, "condition": c,
    ...     "passed": i < n} for (agent, c), n in passed.items() for i in range(10)])
    >>> contrast(frame, between="agent")[["agent", "reference", "estimate", "rate"]].round(2)
      agent reference  estimate  rate
    0     b         a      -0.4   0.2
    """
    names, averaged, columns = listed(by), listed(average), as_list(between)
    if len(columns) != 1 or not isinstance(columns[0], str):
        raise FrameError(
            f"{_CONTRAST}: between: found {between!r}; allowed: the name of one column, such as "
            "'agent'. To compare combinations, add a column: "
            "outcomes.assign(level=outcomes['agent'] + '/' + outcomes['grader'])."
        )
    between = columns[0]
    checked = _checked_outcomes(outcomes, between, names, averaged)
    check_bounds(outcomes, value, bounds)
    base = reference if condition is None else None
    require_reference(checked["condition"], base)
    conditions = ordered(checked["condition"], base)
    if condition is not None and conditions:
        require_known(f"{_CONTRAST}: condition: found", condition, conditions, label="there")
        conditions = [condition]
    elif conditions:
        refuse_different_checks(checked, _CONTRAST, value)
    keys = [*names, between, *averaged]
    of_value: Fields = {"value": value, "bounds": bounds}
    table = case_table(checked, by=keys, weight=weight, **of_value)
    nested = [n for n in averaged if grouped(table, [n])[between].nunique().max() == 1]
    units = Units.of(
        table,
        names,
        arm=[between, "condition"],
        average=[name for name in averaged if name not in nested],
        nested=nested,
        **of_value,
    )
    means = f"averaged over {', '.join(nested)} within each {between} and case" if nested else ""
    levels = sorted(checked[between].unique().tolist(), key=lambda x: (isinstance(x, str), x))
    contrasts = []
    for group, about in enumerate(units.groups):
        for name, (other, level) in product(conditions, combinations(levels, 2)):
            compared = rows_of_group(checked[checked["condition"].isin([name, base])], about)
            note = note_on_checks(compared, [], between, (other, level), _CONTRAST)
            place = {"condition": name, "reference": other, between: level}
            weights = {(level, name): 1.0, (other, name): -1.0}
            if base is not None:
                weights |= {(level, base): -1.0, (other, base): 1.0}
            contrasts.append(
                Contrast(
                    about=about | place | {"reference_condition": base},
                    group=group,
                    weights=weights,
                    sides=(str(level), str(other)),
                    nothing=_why_nothing(units, group, weights, between),
                    note=join_notes(means, note),
                )
            )
    measure = f"{'delta' if base is None else 'difference'}_{value}"
    rows = contrast_rows(
        measure, units, contrasts, cluster=cluster, ci_level=ci_level, interval=interval
    )
    # `estimates` adds to a row the notes of the outcomes with the same keys. Drop the column of
    # levels, so that a row has the notes of all levels.
    noted = checked.drop(columns=between)
    keys = [*names, between, "condition"]
    result = estimates(rows, by=keys, extra=_OF_CONTRAST, outcomes=noted, reference=base)
    return with_method(result, weight)


def _checked_outcomes(
    outcomes: pd.DataFrame, between: str, names: list[str], averaged: list[str]
) -> pd.DataFrame:
    """Return the checked outcomes; raise FrameError if the column of levels cannot be compared."""
    if between == "condition":
        raise FrameError(
            f"{_CONTRAST}: between='condition': conditions, such as versions of a skill, are "
            "compared by sc.deltas.paired(outcomes, reference=...)."
        )
    if between in (*RESERVED, *_OF_CONTRAST):
        raise FrameError(
            f"{_CONTRAST}: between= names '{between}', a column that the analysis adds. Rename "
            "yours."
        )
    require_frame(outcomes, _CONTRAST)
    if between not in outcomes and between in CONTRACTS["attempts"].columns:
        raise FrameError(
            f"{_CONTRAST}: between='{between}': this is a column of the attempts. Add it: "
            f"outcomes.merge(attempts[['attempt_id', '{between}']], on='attempt_id')."
        )
    require_columns(outcomes, [between], f"{_CONTRAST}: between=")
    outcomes = _with_ids_of_levels(outcomes, between, _CONTRAST)
    compared = ["condition", between]
    checked = prepared(
        outcomes, "outcomes", names, _CONTRAST, compared=compared, average=averaged, agents=True
    )
    levels = checked[between].unique()
    if len(levels) == 1:
        raise FrameError(
            f"{_CONTRAST}: column '{between}' has one value, {levels[0]!r}; a contrast needs two."
        )
    if len(levels) and checked.groupby(CASE)[between].nunique().max() < 2:
        raise FrameError(
            f"{_CONTRAST}: no case has two values of '{between}', so it cannot be compared on the "
            f"same cases. Use by=['{between}'] in sc.deltas.paired; sc.transfer.gap compares near "
            "and far cases."
        )
    return checked


def _with_ids_of_levels(outcomes: pd.DataFrame, between: str, what: str) -> pd.DataFrame:
    """Add the level to attempt ids, because two levels may have the same ids or repeat numbers."""
    if outcomes[between].isna().any():
        raise FrameError(
            f"{what}: column '{between}': missing in some rows. Name their level, or leave these "
            f"rows out: outcomes[outcomes['{between}'].notna()]."
        )
    names = ["attempt_id"]
    if "attempt_id" not in outcomes:
        names = [name for name in ATTEMPT_KEYS if name in outcomes]
        if "repeat" not in names:
            return outcomes
    ids = outcomes[between].astype("str")
    for name in names:
        ids = ids + "/" + outcomes[name].astype("str").fillna("")
    has_id = outcomes["repeat" if len(names) > 1 else "attempt_id"].notna()
    return outcomes.assign(attempt_id=ids.where(has_id))


def _why_nothing(
    units: Units, group: int, weights: Mapping[tuple[Any, str], float], between: str
) -> str:
    """Return the reason why a contrast has no estimate, if it has none.

    Raise FrameError if cases have rows of one level and none of the other.
    """
    there = units.arms_of_group(group)
    for level, condition in weights:
        if (level, condition) not in there:
            return f"{between} {level!r} has no attempts under '{condition}'"
    arms = list(weights)
    for (level, condition), (other, _) in (arms[:2], arms[2:])[: len(arms) // 2]:
        sides = [
            f"only {between} {name!r}: {first_names(labels)}"
            for name, labels in (
                (other, units.labels_only_in(group, (other, condition), (level, condition))),
                (level, units.labels_only_in(group, (level, condition), (other, condition))),
            )
            if len(labels)
        ]
        if sides:
            raise FrameError(
                f"{_CONTRAST}: different cases were asked under '{condition}'; {'; '.join(sides)}. "
                f"Ask all levels the same cases; deltas.rates with by=['{between}'] gives the rate "
                "of each level on its own cases."
            )
    return "no case has an outcome in every compared cell"


# Two levels may be compared if their numbers of checks differ in fewer than _FEW_CASES cases, or in
# at most the share _FEW_SHARE of the cases.
_FEW_CASES, _FEW_SHARE = 3, 0.1


def over_time(
    outcomes: pd.DataFrame,
    changes: pd.DataFrame | None = None,
    *,
    by: By = (),
    value: BoundedValue = "passed",
    bounds: Bounds = None,
    ci_level: float = 0.95,
    interval: IntervalRule = "adaptive",
) -> pd.DataFrame:
    """Estimate the pass rate of successive runs of the same cases, and the change between them.

    Parameters
    ----------
    outcomes : pandas.DataFrame
        Outcomes of one condition with a column ``run``, the oldest run first, for example the
        ``pd.concat`` of several runs. Runs may have different agents, but each run has only one
        agent unless ``by`` contains ``agent``.
    changes : pandas.DataFrame, optional
        The result of :func:`skillcomp.frames.runs` for the same runs.
    by : str or sequence of str
        Columns that group the rows, such as ``["skill"]``.
    value : {"passed", "share_passed", "score"}, default "passed"
        As in :func:`skillcomp.deltas.paired`.
    bounds : tuple of float, optional
        As in :func:`skillcomp.deltas.paired`: lowest and highest possible score.
    ci_level : float, default 0.95
        Level of the interval.
    interval : {"adaptive", "bounded", "t"}, default "adaptive"
        As in :func:`paired`.

    Returns
    -------
    pandas.DataFrame
        One row per ``by``, run and measure, in the order of the runs, with the estimates columns.
        Every run has a row ``rate_passed``. From the second run on it also has a row
        ``delta_passed``: the change since the run before, over the cases of both runs, with its
        p-value. With ``value="share_passed"`` the measures are ``rate_share_passed`` and
        ``delta_share_passed``. ``reference`` is the run before. ``n_dropped`` counts the cases with
        an outcome in only one of the two runs. ``changed`` lists the properties that changed; it is
        empty without ``changes``, or if no property changed.

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
    Each delta is computed by :func:`skillcomp.deltas.paired`. A second run in which nothing was
    changed (A/A) shows the differences due to chance. If the interval of its delta excludes 0, the
    attempts of a run are related in ways that an interval by case does not capture. Deltas are not
    adjusted for the number of comparisons. Checks are compared only by their number (``n_checks``):
    a check that was replaced by another check is not noticed.

    Examples
    --------
    Of twelve cases, 4 pass in the first run and 5 in the second.

    >>> import pandas as pd
    >>> runs = {"monday": [True] * 4 + [False] * 8, "again": [True] * 5 + [False] * 7}
    >>> frame = pd.concat([pd.DataFrame({
    ...     "run": name, "skill": "s", "case_id": [f"s/{i}" for i in range(12)],
    ...     "condition": "skill", "passed": passed}) for name, passed in runs.items()])
    >>> over_time(frame)[["run", "measure", "estimate", "p_value"]].round(2)
          run       measure  estimate  p_value
    0  monday   rate_passed      0.33      NaN
    1   again   rate_passed      0.42      NaN
    2   again  delta_passed      0.08     0.34
    """
    names = listed(by)
    what = "deltas.over_time"
    require_columns(outcomes, ["run"], what)
    outcomes = _with_ids_of_levels(outcomes, "run", what)
    if "run" in names:
        raise FrameError(f"{what}: by= names 'run', which is compared. Leave it out.")
    of_value: Fields = {"value": value, "bounds": bounds}
    checked = compared_outcomes(outcomes, [*names, "run"], what, **of_value, agents=False)
    if "agent" not in names:
        for _, part in checked.groupby("run", sort=False):
            refuse_pooling(part, [*names, "run"], what, agents=True)
        checked = checked.drop(columns="agent")  # runs with different agents may be compared
    conditions = ordered(checked["condition"].unique())
    if len(conditions) > 1:
        raise FrameError(
            f"deltas.over_time: the frame holds the conditions {', '.join(conditions)}; select one."
        )
    order = [str(name) for name in checked["run"].unique()]
    # Name the runs as conditions, because `paired` compares conditions. `checks_differ` describes
    # the original conditions, so reset it.
    checked = checked.drop(columns="run").assign(condition=checked["run"].astype("str"))
    checked = checked.assign(checks_differ=False)
    how: Fields = {"by": names, "ci_level": ci_level, "interval": interval} | of_value
    parts = [rates(checked, **how)]
    for before, run in pairwise(order):
        two = checked[checked["condition"].isin([before, run])]
        note = note_on_checks(two.assign(run=two["condition"]), names, "run", (before, run), what)
        change = paired(two, reference=before, **how)
        parts.append(change.assign(note=[join_notes(old, note) for old in change["note"]]))
    rows = pd.concat(parts, ignore_index=True).rename(columns={"condition": "run"})
    place = {name: at for at, name in enumerate(order)}
    rows = rows.sort_values("run", key=lambda runs: runs.map(place), kind="stable")
    new = _changes_by_run(changes)
    changed = pd.Series([new.get(run, "") for run in rows["run"]], index=rows.index, dtype="str")
    columns = [*names, "run", *CONTRACTS["estimates"].columns, "reference", "n_dropped"]
    return rows.reindex(columns=columns).assign(changed=changed).reset_index(drop=True)


def note_on_checks(
    outcomes: pd.DataFrame, by: Sequence[str], column: str, levels: tuple[Any, Any], what: str
) -> str:
    """Return a note on the cases with different numbers of checks at the two ``levels``.

    Raise FrameError if there are too many such cases.
    """
    counts = grouped(outcomes, [*by, *CASE, column])["n_checks"].max().unstack(column)
    common = counts.reindex(columns=list(levels)).astype("float64").dropna()
    differ = common[common[levels[0]].ne(common[levels[1]])]
    if differ.empty:
        return ""
    name = differ.index.get_level_values("case_id")[0]
    first, second = differ.iloc[0].astype(int)
    contents = (
        f"{len(differ)} of {plural(len(common), 'case')} have another number of checks for the "
        f"{column} {levels[1]!r} than for {levels[0]!r}, such as '{name}' ({first} and {second})"
    )
    if len(differ) >= min(_FEW_CASES, len(common)) and len(differ) > _FEW_SHARE * len(common):
        raise FrameError(
            f"{what}: {contents}. Compare only the checks of both: select them in the verdicts "
            'before sc.frames.outcomes, verdicts[verdicts["check_id"].isin(names)].'
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
