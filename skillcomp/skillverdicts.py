"""Verdicts on skills, their cases and dimensions.

Decisions compare an interval with a stated margin. "No change" is a claim of equivalence: the whole
interval must be inside the margin. A difference that is not significant is not enough.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from scipy.stats import false_discovery_control

from skillcomp.contrast import (
    MIN_SKILLS,
    MISSING,
    BoundedValue,
    Bounds,
    Contrast,
    Units,
    Value,
    compared_outcomes,
    contrasts_with,
    ends_of,
    few_skills,
    missing_note,
    within,
)
from skillcomp.deltas import (
    amount_deltas,
    attempts_of_outcomes,
    contrast_rows,
    deltas_and_units,
    rates,
)
from skillcomp.errors import FrameError, plural, require_known, suggest
from skillcomp.frames.check import check, settle
from skillcomp.frames.contracts import (
    AMOUNTS,
    CASE,
    CONTRACTS,
    DIFFERENT_MODELS,
    GRADER_KEYS,
    REPLACED,
    Amount,
)
from skillcomp.frames.estimates import (
    PLACEBO,
    By,
    columns_of,
    estimates,
    grouped,
    groups,
    interval_of,
    is_among,
    listed,
    prepared,
    refuse_different_checks,
    require_columns,
    require_reference,
    row,
    rows_of_group,
    with_adjusted_p,
    with_notes_of,
)
from skillcomp.planning.power import detectable_changes
from skillcomp.records import SCHEMA_WEIGHTS, dimension_family
from skillcomp.removed_names import raise_missing_name
from skillcomp.stats.bounded import IntervalRule, bounded_mean
from skillcomp.stats.random_effects import prediction_interval, random_effects
from skillcomp.stats.results import NAN, Fields, is_number, join_notes, p_value, quantile, undefined

__all__ = ["across", "aggregate", "cases", "compare", "decide", "dimensions", "together"]

__dir__ = __all__.copy  # so that dir() lists the public names
__getattr__ = raise_missing_name(__name__)

_DECIDE = "skillverdicts.decide"


def decide(
    outcomes: pd.DataFrame,
    *,
    corrected: pd.DataFrame | None = None,
    by: By = ("skill",),
    margin: float = 0.1,
    reference: str = "baseline",
    value: BoundedValue = "passed",
    bounds: Bounds = None,
    cluster: str = "case",
    average: By = (),
    weight: str | None = None,
    ci_level: float = 0.95,
    interval: IntervalRule = "adaptive",
    assume_missing: Literal["at random"] | None = None,
) -> pd.DataFrame:
    """Decide for each skill whether it teaches, from the interval of its delta.

    Parameters
    ----------
    outcomes : pandas.DataFrame
        An outcomes frame of one grader (or include ``grader`` in ``by``).
    corrected : pandas.DataFrame, optional
        The rows of :func:`skillcomp.correction.delta` for the same verdicts, ``by``, ``value``,
        weights, clusters, checks and level, or only the recommended ones. For the verdict
        ``redundant`` add the rows of :func:`skillcomp.correction.rate` with ``pandas.concat``.
    by : str or sequence of str, default ("skill",)
        Columns that group the rows; one verdict per group and condition.
    margin : float, default 0.1
        The largest change that counts as no change, in rate units (0.1 is ten points) or, for
        scores, in their unit. Choose it before you see the data.
    reference : str, default "baseline"
        The condition that the others are compared with.
    value : {"passed", "share_passed", "score"}, default "passed"
        As in :func:`skillcomp.deltas.paired`.
    bounds : tuple of float, optional
        As in :func:`skillcomp.deltas.paired`: lowest and highest possible score.
    cluster, average, weight
        As in :func:`skillcomp.deltas.paired`.
    ci_level : float, default 0.95
        Level of the intervals that decide.
    interval : {"adaptive", "bounded", "t"}, default "adaptive"
        As in :func:`skillcomp.deltas.paired`. With ``"adaptive"``, the note names the verdict by
        each of the other two rules if it differs.
    assume_missing : {"at random"}, optional
        Assume that missing attempts are like the others. Default: no assumption, so that missing
        attempts can make a verdict ``undetermined``.

    Returns
    -------
    pandas.DataFrame
        The rows of :func:`skillcomp.deltas.paired` with further columns. ``margin`` is the
        argument. ``reference_low`` is the lower limit of the rate under the reference, over all
        cases with an outcome under it. ``over_placebo`` is the delta between the condition and the
        placebo, over the cases that have both; ``over_placebo_low`` and ``over_placebo_high`` are
        its limits. All three are NaN without a placebo. A note states if the delta and
        ``over_placebo`` have different cases. ``overturned`` is True if missing attempts could
        change the verdict (see Notes). ``assume_missing`` is then the assumption that keeps the
        verdict; it is empty if there is none. ``verdict`` is the first of these that applies:

        ``redundant``
            The reference already passes (its lower limit is at least ``1 - margin``; for scores,
            the highest score minus the margin) and the
            interval of the delta excludes a loss beyond the margin; its adjusted p-value, as for
            ``ineffective``, is below ``1 - ci_level``.
        ``ineffective``
            No change: the whole interval is inside ``(-margin, margin)``, whether or not it
            excludes zero, and the p-value of a change of the margin, adjusted over the rows of the
            call by Benjamini and Hochberg, is below ``1 - ci_level``.
        ``teaching``, ``harmful``
            A gain or a loss is shown, and the whole interval is above ``margin`` (teaching) or
            below ``-margin`` (harmful).
        ``helps``, ``hurts``
            A gain (helps) or a loss (hurts) is shown, but it may be smaller than the margin.
        ``undetermined``
            Anything else: the data do not decide. ``detectable`` is the smallest true change that
            such a study shows in 8 of 10 times (NaN for other verdicts). It is infinite if no
            change that is possible at the reference rate is shown as often. A note states if the
            interval of the row alone excludes zero, but ``p_adjusted`` is not below
            ``1 - ci_level``.

        A gain or loss is ``shown`` if ``p_adjusted`` is below ``1 - ci_level`` and the interval
        excludes 0. ``p_adjusted`` is the p-value adjusted by Holm over all rows of the call (skills
        x agents x conditions) except those of a placebo; ``method`` names the number of rows. It is
        NaN for a placebo, whose verdict is never one of these four; that of no change is by its
        interval alone.

        With a placebo, a note states if the verdict is ``teaching`` or ``helps`` but it is not
        shown, in the same way, that ``over_placebo`` is above zero. Any other text of the same
        length might then have the same effect.

        ``verdict_uncorrected`` is the verdict by the grader alone. ``estimator`` names the source
        of ``verdict`` and of the estimates columns: ``naive`` for the grader alone, otherwise the
        estimator that the correction recommends. ``estimate_uncorrected``, ``ci_low_uncorrected``
        and ``ci_high_uncorrected`` are by the grader alone, and so are ``rate``,
        ``reference_rate`` and ``over_placebo``. ``n_gold`` counts the cases with gold. If a verdict
        by the grader alone is not confirmed, ``labels_needed`` is the approximate number of further
        labelled cases after which a verdict is expected. It is infinite if labels on all cases
        would not be enough, and NaN if it is unknown. ``why`` gives the reasons for the verdict:
        interval, missing attempts and correction.

    Raises
    ------
    FrameError
        As :func:`skillcomp.deltas.paired`, if ``margin`` is not between 0 and 1 (for scores, their
        range), or if ``corrected`` does not match the outcomes and the other arguments.

    See Also
    --------
    cases : The single cases that change when the skill is loaded.

    Notes
    -----
    Of ten skills without an effect, one or more intervals would exclude zero in up to 40 % of
    studies (1 - 0.95^10). So each claim needs its p-value, adjusted for all rows of the call, and
    its interval; the stronger word never has the weaker control against no change. In simulated
    studies of six to thirty rows, at most 6 % had a false claim on a row without a change
    (``docs/intervals.md``). Rows share the variance of their cases
    (:func:`skillcomp.stats.clusters_and_amounts.p_of_rows`): of four gains of 31 points among ten
    skills of 14 cases with two attempts, 37 % are shown, and 29 % by the intervals' own p-values.
    The adjustment is over the rows of one call. If you split the call into several, such as one for
    each skill, the protection is lost, so decide in advance which rows belong to one call. Whether
    a gain is larger than the margin rests on the interval of its row.

    ``ineffective`` and ``redundant`` are adjusted by Benjamini and Hochberg's method. The p-values
    of a change of exactly the margin invert the interval. Among ten skills whose true gain is
    exactly the margin, at most 4 % of studies had a false verdict of this kind, and up to 16 %
    without the adjustment. It costs power where a row has few cases. With ``corrected``, p-values
    are those of the recommended intervals, and those of the margin follow from their limits.

    :func:`skillcomp.deltas.paired` defines missing attempts. If a condition lacks 5 % or more of
    its attempts, all missing attempts are counted against the verdict. If the estimate is then
    beyond the margin on which the verdict rests, or the interval includes 0 although a gain or loss
    is claimed, the verdict becomes ``undetermined``, unless ``assume_missing`` keeps it.

    With ``corrected``, the verdict follows from the recommended interval. ``redundant`` then needs
    the corrected rate of the reference. If no correction is recommended for a row, because labels
    are too few or not a random draw, the verdict is ``undetermined``: fewer labels never give a
    stronger verdict. The correction is assumed to be the same for missing attempts. A recommended
    interval follows none of the three rules: ``interval`` then decides ``verdict_uncorrected``
    only, and no note compares the rules. Without ``corrected``, all verdicts are by the grader
    alone.

    At the default level, a single verdict is wrong in nominally 2.5 % of studies. In exact scans of
    one attempt per case it was wrong in at most 5 % if the true delta equals the margin, and in
    simulations of several attempts in at most 2.5 % (:mod:`skillcomp.stats.bounded`).
    """
    ends = ends_of(value, bounds)
    check_margin(margin, assume_missing, ends)
    if corrected is not None and value == "score":
        raise FrameError("corrected=: corrections are of verdicts; found value='score'.")
    names, outcomes = listed(by), check(outcomes, "outcomes")
    rules: Fields = {"cluster": cluster, "ci_level": ci_level, "interval": interval}
    how: Fields = {"by": names, "value": value, "bounds": bounds, "weight": weight}
    how |= {"average": listed(average)} | rules
    deltas, units, contrasts = deltas_and_units(outcomes, _DECIDE, reference=reference, **how)
    bases = within(units, _references(contrasts), **rules)
    deltas = deltas.assign(margin=margin, highest=ends[1])
    deltas["reference_low"] = [base.interval.low for base in bases]
    deltas = deltas.assign(**_p_of_margins(units, contrasts, deltas, rules))
    deltas = _over_placebo(deltas, units, contrasts, names, rules)

    def judge(deltas: pd.DataFrame) -> pd.DataFrame:
        """Add the verdict, and whether missing attempts overturn it."""
        deltas = with_adjusted_p(deltas)
        deltas = deltas.assign(
            verdict=verdicts_of_rows(deltas), n_family=deltas["p_adjusted"].notna().sum()
        )
        deltas = with_missing_attempts(deltas, units, contrasts, assume_missing, rules)
        return _with_reasons(deltas)

    judged = judge(deltas)
    alone = deltas[LIMITS].add_suffix("_uncorrected").assign(verdict_uncorrected=judged["verdict"])
    alone["p_adjusted_uncorrected"] = judged["p_adjusted"]
    judged = judged.assign(**alone, estimator=NAIVE, n_gold=NAN, labels_needed=NAN)
    if corrected is None and interval == "adaptive" and len(deltas):
        judged = _with_notes(judged, _verdicts_by_other_rules(deltas, units, contrasts, rules))
    if corrected is not None:
        deltas = deltas.assign(**alone, n_family=judged["n_family"])
        judged = judge(with_corrections(deltas, corrected, names, value=value, weight=weight))
        # a verdict is undetermined if no correction is recommended for its row
        judged["verdict"] = judged["verdict"].mask(judged["estimator"].eq(NAIVE), "undetermined")
        claimed = judged["verdict_uncorrected"].ne("undetermined")
        overturned = judged["overturned"] & judged["assume_missing"].eq("")
        unconfirmed = judged["verdict"].eq("undetermined") & claimed & ~overturned
        judged["labels_needed"] = judged["labels_needed"].where(unconfirmed)
    is_open = judged["verdict"].eq("undetermined")
    judged["detectable"] = detectable_changes(judged, bounds=ends).where(is_open)
    judged["why"] = [reasons_of_verdict(row) for _, row in judged.iterrows()]
    inner = [
        *MOVED,
        *MARGIN_P,
        "highest",
        "over_placebo_shown",
        "n_family",
        "correction_reason",
        "p_adjusted_uncorrected",
    ]
    return judged.drop(columns=inner, errors="ignore")


def check_margin(margin: float, assume_missing: str | None, ends: tuple[float, float]) -> None:
    """Raise FrameError unless the margin and the assumption about missing attempts are allowed."""
    low, high = ends
    if not is_number(margin) or not 0.0 < margin < high - low:
        raise FrameError(
            f"margin: found {margin!r}; allowed: a number above 0 and below {high - low:g}."
        )
    if assume_missing is not None:
        require_known("assume_missing: found", assume_missing, ["at random"])


def verdicts_of_rows(deltas: pd.DataFrame) -> Any:
    """Return the verdict of each row, without regard to missing attempts."""
    shown, error_rate = deltas["shown"].fillna(False).astype(bool), 1.0 - deltas["ci_level"]
    low, high, margin = deltas["ci_low"], deltas["ci_high"], deltas["margin"]
    p_within = deltas[["p_no_loss", "p_no_gain"]].max(axis=1)
    p_passing = deltas[["p_no_loss", "p_passing"]].max(axis=1)
    verdicts = {
        "redundant": (
            (deltas["reference_low"] >= deltas["highest"] - margin)
            & (low > -margin)
            & (_false_discovery_p(deltas, p_passing) < error_rate)
        ),
        "ineffective": (
            (low > -margin) & (high < margin) & (_false_discovery_p(deltas, p_within) < error_rate)
        ),
        "teaching": shown & (low > margin),
        "harmful": shown & (high < -margin),
        "helps": shown & (low > 0),
        "hurts": shown & (high < 0),
    }
    return first_that_holds(verdicts, "undetermined")


def _false_discovery_p(deltas: pd.DataFrame, p_values: pd.Series) -> pd.Series:
    """Adjust p-values by Benjamini and Hochberg over the rows that have a p-value.

    Those of a placebo are not adjusted, as in :func:`with_adjusted_p`.
    """
    claims = deltas["condition"].ne(PLACEBO) & p_values.notna()
    adjusted = p_values.copy()
    adjusted[claims] = false_discovery_control(p_values[claims])
    return adjusted


def _references(contrasts: Sequence[Contrast]) -> list[Contrast]:
    """Return the reference of each contrast, as a contrast of one arm."""
    return [
        replace(each, weights={(each.about["reference"],): 1.0}, sides=("",)) for each in contrasts
    ]


def _p_of_margins(
    units: Units, contrasts: Sequence[Contrast], deltas: pd.DataFrame, how: Fields
) -> Fields:
    """Return one-sided p-values against a change beyond the margin and a reference that fails.

    The p-values invert the intervals. They are small if the row excludes a loss of the margin
    (``p_no_loss``), a gain of the margin (``p_no_gain``), and a pass rate under the reference of 1
    minus the margin (``p_passing``).
    """
    if deltas.empty:
        return dict.fromkeys(MARGIN_P, NAN)
    margin, highest = deltas[["margin", "highest"]].iloc[0].astype(float)
    bases = _references(contrasts)
    tests = ((contrasts, -margin, 1), (contrasts, margin, -1), (bases, highest - margin, 1))
    p_values = []
    for rows, null, sign in tests:
        means = _intervals(units, rows, how | {"null": null})
        half = means["p_value"] / 2.0
        p_values.append(half.where(sign * (means["estimate"] - null) > 0, 1.0 - half))
    return dict(zip(MARGIN_P, p_values, strict=True))


def _verdicts_by_other_rules(
    deltas: pd.DataFrame, units: Units, contrasts: Sequence[Contrast], how: Fields
) -> list[str]:
    """Return a note per row: the verdict by the bounded or by the t interval, if it is different.

    ``reference_low``, which decides on ``redundant``, remains the limit by the adaptive rule.
    """
    verdict = verdicts_of_rows(with_adjusted_p(deltas))
    remarks = [""] * len(deltas)
    for rule in ("bounded", "t"):
        rules = how | {"interval": rule}
        means = _intervals(units, contrasts, rules)
        other = deltas.assign(
            ci_low=means["low"],
            ci_high=means["high"],
            p_value=means["p_value"],
            **_p_of_margins(units, contrasts, deltas, rules),
        )
        other = verdicts_of_rows(with_adjusted_p(other))
        for at in np.flatnonzero(other != verdict):
            remarks[at] = join_notes(remarks[at], f"{other[at]} by the {rule} interval")
    return remarks


def first_that_holds(words: Mapping[str, Any], otherwise: str) -> Any:
    """Return for each row the first word with a true condition; if none is true, ``otherwise``."""
    return np.select(list(words.values()), list(words), default=otherwise)


def _with_notes(deltas: pd.DataFrame, remarks: Iterable[str]) -> pd.DataFrame:
    return deltas.assign(note=list(map(join_notes, deltas["note"], remarks)))


def _over_placebo(
    deltas: pd.DataFrame,
    units: Units,
    contrasts: Sequence[Contrast],
    names: list[str],
    rules: Fields,
) -> pd.DataFrame:
    """Add ``over_placebo``, the delta between each condition and the placebo, with its limits."""
    renamed = {
        "estimate": "over_placebo",
        "ci_low": "over_placebo_low",
        "ci_high": "over_placebo_high",
        "shown": "over_placebo_shown",
    }
    if not deltas["condition"].eq(PLACEBO).any():
        return deltas.assign(**dict.fromkeys(renamed.values(), NAN))
    keys = [*names, "condition"]
    rows = contrast_rows("delta_passed", units, contrasts_with(units, PLACEBO), **rules)
    over = estimates(rows, by=keys)
    over = over[[*keys, *renamed, "n"]].rename(columns=renamed | {"n": "n_over"})
    deltas = deltas.merge(over, on=keys, how="left")
    remarks = []
    for each, (_, delta) in zip(contrasts, deltas.iterrows(), strict=True):
        remark = ""
        if pd.notna(delta[["estimate", "over_placebo"]]).all():
            part = units.part(replace(each, weights={**each.weights, (PLACEBO,): 0.0}))
            has_level = pd.DataFrame(~np.isnan(part.numbers["level"]))
            known = has_level.groupby(part.facts["case"]).any()
            if (known[0] & (known[1] != known[2])).any():
                remark = "over_placebo rests on other cases than the delta"
                remark += f": {delta['n_over']:.0f} and {delta['n']:.0f}"
        remarks.append(remark)
    return _with_notes(deltas.drop(columns="n_over"), remarks)


def _with_reasons(deltas: pd.DataFrame) -> pd.DataFrame:
    """Add notes on changes that only the unadjusted interval shows, and on unbeaten placebos.

    A placebo is not beaten if it is not shown that ``over_placebo`` is above 0.
    """
    verdict, low, high = (deltas[name] for name in ("verdict", "ci_low", "ci_high"))
    alone = verdict.eq("undetermined") & ~deltas["overturned"] & ((low > 0) | (high < 0))
    better = deltas["over_placebo_shown"].eq(True).fillna(False) & (deltas["over_placebo_low"] > 0)
    unbeaten = verdict.isin(["teaching", "helps"]) & deltas["over_placebo"].notna() & ~better
    rows = (row for _, row in deltas.iterrows())
    remarks = [shown_alone(row) if it else "" for it, row in zip(alone, rows, strict=True)]
    words = np.where(unbeaten, "does not clearly beat its placebo", "").tolist()
    return _with_notes(deltas, map(join_notes, remarks, words))


# To set a missing attempt against a verdict means to assume the result that contradicts the verdict
# most. If the verdict is a gain, this is a fail under the condition, or a pass under the reference.
# A verdict is overturned only if a condition lacks at least this share of its attempts.
ENOUGH_MISSING = 0.05


# the words of `compare` that rest on the same claims as those of `decide`
_SAME_CLAIM = {"better": "helps", "worse": "hurts"}


def with_missing_attempts(
    decided: pd.DataFrame,
    units: Units,
    contrasts: Sequence[Contrast],
    assume_missing: str | None,
    rules: Fields,
) -> pd.DataFrame:
    """Overturn the verdicts that missing attempts could change.

    Parameters
    ----------
    decided : pandas.DataFrame
        Verdicts with the columns of :func:`skillcomp.deltas.paired` and ``margin``.
    units, contrasts : Units, sequence of Contrast
        The cases, and the contrast of each row with one reference.
    assume_missing : str or None
        The assumption, such as ``at random``, under which a verdict is kept.
    rules : dict
        The arguments ``cluster``, ``ci_level`` and ``interval`` of
        :func:`skillcomp.deltas.paired` with which the rows were made.

    Returns
    -------
    pandas.DataFrame
        The rows, with a remark added to ``note``, and two more columns. ``overturned`` is True if
        missing attempts could change the verdict. The verdict of these rows is ``undetermined`` or,
        if there is an assumption, unchanged; ``assume_missing`` then names the assumption. It is
        empty in all other rows.
    """
    lost, planned = (
        decided[[f"n_{name}", f"n_{name}_reference"]].to_numpy(float)
        for name in ("missing", "attempts")
    )
    lacks = (lost >= (ENOUGH_MISSING - 1e-9) * np.maximum(planned, 1.0)).any(axis=1)
    overturned = np.zeros(len(decided), bool)
    if lacks.any():
        some = [each for each, lacking in zip(contrasts, lacks, strict=True) if lacking]
        overturned[lacks] = _fails_in_worst_case(decided[lacks], units, some, rules)
    remarks = []
    for is_shaken, verdict, estimate in zip(
        overturned, decided["verdict"], decided["estimate"], strict=True
    ):
        claimed = f"'{verdict}'" if " " in verdict else verdict
        remark = f"{claimed}, assuming that attempts are missing {assume_missing}"
        if assume_missing is None:
            others = f"the others alone would say {claimed} ({estimate:+.2f})"
            remark = f"undetermined: too many attempts are missing; {others}; if fewer were "
            remark += "planned, state the plan (asked= of from_frame)"
        remarks.append(remark if is_shaken else "")
    decided = _with_notes(decided, remarks).assign(overturned=overturned)
    if assume_missing is None:
        decided["verdict"] = decided["verdict"].mask(overturned, "undetermined")
    return decided.assign(assume_missing=np.where(overturned, assume_missing or "", ""))


def _fails_in_worst_case(
    rows: pd.DataFrame, units: Units, contrasts: Sequence[Contrast], rules: Fields
) -> Any:
    """Return whether the claims of each verdict fail if all missing attempts are set against them.

    A claim that a delta (or rate) is above or below a bound fails if its estimate is not; a gain or
    loss fails, too, if the interval includes 0. The columns ``MOVED`` are what a correction for the
    grader's errors adds; it is assumed to be the same for missing attempts.
    """
    rows = rows.reset_index(drop=True)
    against_gain = dict.fromkeys(units.arms, 1.0) | {(contrasts[0].about["reference"],): -1.0}
    fewest = units.filled(against_gain)
    most = units.filled({arm: -weight for arm, weight in against_gain.items()})
    least, greatest = (_intervals(filled, contrasts, rules) for filled in (fewest, most))
    rates = _intervals(most, _references(contrasts), rules)["estimate"]
    moved = rows.reindex(columns=MOVED, fill_value=0.0)
    low, high = (each["estimate"] + moved["moved_estimate"] for each in (least, greatest))
    is_gain = least["low"] + moved["moved_low"] > 0
    is_loss = greatest["high"] + moved["moved_high"] < 0
    margin = rows["margin"]
    passes = rates + moved["moved_rate"] > rows.get("highest", 1.0) - margin
    holds = {
        "teaching": (low > margin) & is_gain,
        "harmful": (high < -margin) & is_loss,
        "ineffective": (low > -margin) & (high < margin),
        "redundant": (low > -margin) & passes,
        "helps": (low > 0) & is_gain,
        "hurts": (high < 0) & is_loss,
        "as good": low > -margin,
    }
    verdict = rows["verdict"].replace(_SAME_CLAIM)
    claims = [verdict.eq(word) | verdict.str.startswith(f"{word} ") for word in holds]
    return np.select(claims, [~kept for kept in holds.values()], default=False)


def _intervals(units: Units, contrasts: Sequence[Contrast], rules: Fields) -> pd.DataFrame:
    """Return the interval of each contrast as a row, without notes on the cases."""
    return pd.DataFrame([each.interval for each in within(units, contrasts, **rules, notes=False)])


def cases(outcomes: pd.DataFrame, *, by: By = (), reference: str = "baseline") -> pd.DataFrame:
    """Show for each case whether its answers pass with the skill and without it.

    A single case has too few repeats for a useful interval. Use these rows to find cases, not to
    claim effects.

    Parameters
    ----------
    outcomes : pandas.DataFrame
        An outcomes frame of one grader (or include ``grader`` in ``by``).
    by : str or sequence of str
        Further columns that group the rows.
    reference : str, default "baseline"
        The condition that the others are compared with.

    Returns
    -------
    pandas.DataFrame
        One row per case and condition other than the reference. It starts with ``by``, skill,
        case_id, comprehension_dimension, transfer, condition and reference. ``n`` and
        ``n_reference`` count the attempts with an outcome. ``rate`` and ``reference_rate`` are the
        shares of these that passed, and ``delta`` is their difference. Rows are sorted by
        ``delta``, the largest loss first. A condition passes a case if more than half of these
        attempts pass. ``discriminates`` is True if only one of the two conditions passes the case,
        and NA if one of them has a tie or no outcome. ``verdict`` is ``taught`` (only the condition
        passes), ``already_passes`` (both), ``not_taught`` (neither), ``harmed`` (only the reference
        passes), or ``undetermined`` where ``discriminates`` is NA. ``n`` is 0 for a case that was
        not asked under the condition. ``note`` has the notes of the outcomes.
    """
    names = listed([*listed(by), *CASE, "comprehension_dimension", "transfer"])
    what = "skillverdicts.cases"
    checked = prepared(outcomes, "outcomes", by, what, compared=["condition"], agents=True)
    require_reference(checked["condition"], reference)
    refuse_different_checks(checked, what)
    scored = checked.assign(passed=checked["passed"].astype("float64"))
    attempts = grouped(scored, [*names, "condition"])["passed"]
    table = attempts.agg(n="count", rate="mean").reset_index()
    base = table[table["condition"].eq(reference)].drop(columns="condition")
    base = base.rename(columns={"n": "n_reference", "rate": "reference_rate"})
    others = table[table["condition"].ne(reference)]
    compared = others[["condition"]].drop_duplicates()
    every = table[names].drop_duplicates().merge(compared, how="cross")
    joined = every.merge(others, on=[*names, "condition"], how="left")
    joined = joined.merge(base, on=names, how="left")
    for count in ("n", "n_reference"):
        joined[count] = joined[count].fillna(0).astype("int64")
    after, before = np.sign(joined["rate"] - 0.5), np.sign(joined["reference_rate"] - 0.5)
    decided = after.abs().eq(1) & before.abs().eq(1)
    joined["discriminates"] = after.ne(before).astype("boolean").where(decided)
    verdicts = {
        "taught": (after > 0) & (before < 0),
        "already_passes": (after > 0) & (before > 0),
        "not_taught": (after < 0) & (before < 0),
        "harmed": (after < 0) & (before > 0),
    }
    joined["verdict"] = first_that_holds(verdicts, "undetermined")
    joined["reference"] = reference
    joined["delta"] = joined["rate"] - joined["reference_rate"]
    joined = joined.sort_values("delta", kind="stable", ignore_index=True)
    counts = ["n", "rate", "n_reference", "reference_rate", "delta"]
    order = [*names, "condition", "reference", *counts, "discriminates", "verdict", "note"]
    joined = with_notes_of(joined.assign(note=""), checked, names, reference)
    return joined[order]


_GIVEN = "skillverdicts.decide: corrected"
_KEPT_NOTES = (DIFFERENT_MODELS, REPLACED)  # starts of notes that a correction keeps
NAIVE = "naive"  # The estimator that uses the grader's verdicts without correction.
# With gold on fewer cases than this, no estimator is recommended (skillcomp.correction).
FEWEST_GOLD = 10
NEEDED = (
    "condition",
    "measure",
    "estimator",
    "recommended",
    "reference",
    "reason",
    "n_gold",
    "estimate",
    "ci_low",
    "ci_high",
    "ci_level",
    "n",
    "n_clusters",
    "method",
)
# If an estimator is recommended, the delta gets the estimator's values in these columns.
_REPLACED = ["estimate", "ci_low", "ci_high", "se", "df", "p_value", "p_adjusted", "method"]
MOVED = ["moved_estimate", "moved_low", "moved_high", "moved_rate", "moved_rate_low"]
# one-sided p-values on which the verdicts `ineffective` and `redundant` rest
MARGIN_P = ["p_no_loss", "p_no_gain", "p_passing"]
LIMITS = ["estimate", "ci_low", "ci_high"]


def with_corrections(
    deltas: pd.DataFrame,
    corrected: pd.DataFrame,
    by: Sequence[str],
    *,
    value: str,
    weight: str | None,
) -> pd.DataFrame:
    """Replace each delta by its corrected value, if an estimator is recommended.

    Parameters
    ----------
    deltas : pandas.DataFrame
        Rows of :func:`skillcomp.deltas.paired` with ``margin``, ``reference_rate``,
        ``reference_low``, ``verdict_uncorrected``, ``n_family`` (the number of rows over which
        p-values are adjusted) and the columns ``MARGIN_P``.
    corrected : pandas.DataFrame
        Rows of :func:`skillcomp.correction.delta` and, optionally, of
        :func:`skillcomp.correction.rate`.
    by, value, weight
        The arguments with which ``deltas`` was made.

    Returns
    -------
    pandas.DataFrame
        The rows of ``deltas``, in their order. ``estimator`` is the recommended estimator or, if
        none is recommended, ``naive``. The estimates columns and ``reference_low`` (lower limit of
        the rate under the reference) have the values of this estimator. If an estimator is
        recommended, ``reference_low`` is NaN without rows of ``correction.rate``.
        ``correction_reason`` explains why this estimator, or none, is recommended. ``n_gold``
        counts the labelled cases. ``labels_needed`` is the number of further labelled cases after
        which a verdict is expected (NaN if unknown, infinite if labels on all cases are too few).
        The columns with the prefix ``moved_`` are the corrected minus the uncorrected values.
    """
    rows = _checked_rows(deltas, corrected, by, value)
    rates = rows[rows["measure"].eq(f"rate_{value}")]
    rows = rows[rows["measure"].eq(f"delta_{value}")]
    keys = [*by, "condition"]
    strays = rows[~is_among(rows, deltas, keys)]
    if len(strays):
        raise FrameError(
            f"{_GIVEN}: the outcomes have no {_name_of(strays.iloc[0], keys)}. Compute both from "
            "the verdicts of the same skills and conditions."
        )
    made = []
    for _, delta in deltas.iterrows():
        mine = rows_of_group(rows, dict(delta[keys]))
        base = rows_of_group(rates, {**delta[[*by]], "condition": delta["reference"]})
        _refuse_other_data(delta, mine, by, weight)
        made.append(_corrected_row(delta, mine, base))
    columns = [
        "estimator",
        "correction_reason",
        "n_gold",
        "labels_needed",
        *_REPLACED,
        "note",
        "reference_low",
        *MOVED,
        *MARGIN_P,
    ]
    frame = pd.DataFrame(made, columns=columns, index=deltas.index)
    floats = [name for name in columns if name in LIMITS or name.startswith(("moved_", "p_"))]
    return deltas.assign(**frame.astype(dict.fromkeys(floats, "float64")))


def _checked_rows(
    deltas: pd.DataFrame, corrected: pd.DataFrame, by: Sequence[str], value: str
) -> pd.DataFrame:
    """Return ``corrected``; raise FrameError if it does not fit ``deltas``, ``by`` or ``value``."""
    call = f"correction.delta(verdicts, gold, by={list(by)}, value='{value}')"
    require_columns(corrected, [*by, *NEEDED], _GIVEN)
    measures = [f"delta_{value}", f"rate_{value}"]
    others = sorted(set(corrected["measure"].dropna()) - set(measures))
    if others:
        raise FrameError(
            f"{_GIVEN}: measure: found '{others[0]}', but the verdicts are of value='{value}'. "
            f"Compute it with {call}."
        )
    keys = [*by, "condition", "measure", "estimator"]
    twice = corrected[corrected.duplicated(keys)]
    if len(twice):
        name = _name_of(twice.iloc[0], keys)
        raise FrameError(
            f"{_GIVEN}: several rows for {name}; the verdicts are by {list(by)}. Compute it with "
            f"{call}, of one grader."
        )
    is_delta = corrected["measure"].eq(measures[0])
    for column, source in (("ci_level", corrected), ("reference", corrected[is_delta])):
        wrong = source[~source[column].isin(deltas[column])] if len(deltas) else source.iloc[:0]
        if len(wrong):
            here = deltas[column].tolist()[0]
            raise FrameError(
                f"{_GIVEN}: {column}: found {wrong[column].iloc[0]}, but the verdicts are of "
                f"{here}. Compute it with {column}={here!r}."
            )
    return corrected


def _name_of(row: pd.Series, keys: Sequence[str]) -> str:
    return ", ".join(f"{name} '{row[name]}'" for name in keys)


def _refuse_other_data(
    delta: pd.Series, rows: pd.DataFrame, by: Sequence[str], weight: str | None
) -> None:
    """Raise FrameError if the rows correct a delta of other outcomes, weights, checks or clusters.

    In rows with the estimator ``naive``, the estimate must be the uncorrected delta.
    """
    name, method = _name_of(delta, [*by, "condition"]), " ".join(rows["method"].dropna())
    is_weighted = "; cases weighted by " in method
    if rows["estimate"].notna().any() and is_weighted != (weight is not None):
        raise FrameError(
            f"{_GIVEN}: {name} was not computed with weight={weight!r}, as the verdicts are. "
            f"Compute it with correction.delta(weight={weight!r})."
        )
    own = rows[rows["estimator"].eq(NAIVE)]
    for _, naive in own.iterrows():
        moved = abs(naive["estimate"] - delta["estimate"])
        if moved > 1e-9 or _both_known_and_different(naive["n"], delta["n"]):
            raise FrameError(
                f"{_GIVEN}: {name} has the uncorrected delta {naive['estimate']:+.3f} on "
                f"{naive['n']:.0f} cases, and the outcomes {delta['estimate']:+.3f} on "
                f"{delta['n']:.0f}. Compute both from the same verdicts (grader, round, agents) "
                "with the same weight=, checks= and average=."
            )
        if _both_known_and_different(naive["n_clusters"], delta["n_clusters"]):
            raise FrameError(
                f"{_GIVEN}: {name} has {naive['n_clusters']:.0f} clusters, and the outcomes have "
                f"{delta['n_clusters']:.0f}. Give correction.delta the same cluster= and the frame "
                "of cases, cases=."
            )


def _both_known_and_different(first: float, second: float) -> bool:
    return not (math.isnan(first) or math.isnan(second) or first == second)


def _corrected_row(delta: pd.Series, rows: pd.DataFrame, rates: pd.DataFrame) -> Fields:
    """Return the columns that :func:`with_corrections` sets, for one delta."""
    chosen, about = _recommended_row(rows), rows.iloc[0] if len(rows) else None
    n_gold = 0.0 if about is None else float(about["n_gold"])
    no_reason = "no row of the correction is about it"
    made = {
        "estimator": NAIVE,
        "correction_reason": no_reason if about is None else about["reason"],
        "n_gold": n_gold,
        **{name: delta.get(name) for name in (*_REPLACED, "note", "reference_low")},
        **dict.fromkeys(MOVED, 0.0),
        **delta[MARGIN_P],
    }
    base = _recommended_row(rates)
    if chosen is not None:
        made |= {name: chosen.get(name) for name in _REPLACED}
        kept = [part for part in delta["note"].split("; ") if part.startswith(_KEPT_NOTES)]
        note = join_notes(*kept, chosen.get("note", ""))
        made |= {"estimator": chosen["estimator"], "note": note}
        made |= {f"moved_{end.removeprefix('ci_')}": chosen[end] - delta[end] for end in LIMITS}
        made["reference_low"] = NAN
        if base is not None:
            made["reference_low"] = base["ci_low"]
            made["moved_rate"] = base["estimate"] - delta["reference_rate"]
            made["moved_rate_low"] = base["ci_low"] - delta["reference_low"]
            made["p_passing"] = interval_of(base).p_from_limits(1.0 - delta["margin"])
        interval = interval_of(chosen)
        made["p_no_loss"] = interval.p_from_limits(-delta["margin"])
        made["p_no_gain"] = 1.0 - interval.p_from_limits(delta["margin"])
    projected = rows[rows["estimator"].eq("ppi")] if chosen is None else chosen.to_frame().T
    gold = rows[rows["estimator"].eq("gold_only")]
    made["labels_needed"] = _labels_needed(delta, projected, gold, n_gold, base)
    return made


def _recommended_row(rows: pd.DataFrame) -> pd.Series | None:
    chosen = rows[rows["recommended"].fillna(False).astype(bool)]
    chosen = chosen.dropna(subset=LIMITS)
    return chosen.iloc[0] if len(chosen) else None


def _labels_needed(
    delta: pd.Series, rows: pd.DataFrame, gold: pd.DataFrame, n_gold: float, base: pd.Series | None
) -> float:
    """Estimate how many more labelled cases are needed to reach a verdict.

    The estimate is assumed to stay the same. The result is NaN if the number is unknown, and
    infinite if labels on all cases would not be enough.
    """
    rows, gold, n = rows.dropna(subset=LIMITS), gold.dropna(subset=LIMITS), delta["n"]
    if rows.empty or n_gold < 1:
        return NAN
    row, margin = rows.iloc[0], delta["margin"]
    alone = gold.iloc[0] if len(gold) else row
    estimate = row["estimate"]
    to_gain, to_loss = margin - estimate, estimate + margin
    if estimate > margin:
        claims = [{"low": -to_gain}]
    elif estimate < -margin:
        claims = [{"high": -to_loss}]
    else:
        claims = [{"low": to_loss, "high": to_gain}]
    if base is not None and base["ci_low"] >= 1.0 - margin and to_loss > 0:
        claims.append({"low": to_loss})
    if delta["verdict_uncorrected"] in ("helps", "hurts"):
        # p-values are adjusted for several rows, so a wider interval must exclude 0
        level = 1.0 - (1.0 - delta["ci_level"]) / max(delta["n_family"], 1)
        reach = quantile(level) / quantile(delta["ci_level"])
        claims.append({"low" if estimate > 0 else "high": abs(estimate) / reach})
    sizes = [
        max(
            _cases_needed(_distance(row, end), _distance(alone, end), distance, n_gold, n)
            for end, distance in claim.items()
        )
        for claim in claims
    ]
    size = max(min(sizes), FEWEST_GOLD)
    if size > n:  # with very few labels, it is unknown whether labels on all cases would be enough
        return math.inf if n_gold >= FEWEST_GOLD else NAN
    return float(max(math.ceil(size - n_gold), 1))


def _distance(row: pd.Series, end: str) -> float:
    return float(abs(row[f"ci_{end}"] - row["estimate"]))


def _cases_needed(now: float, alone: float, target: float, n_gold: float, n: float) -> float:
    """Return the number of labelled cases that brings a limit to the distance ``target``.

    The distance is measured between the estimate and a limit of its interval. Its square is assumed
    to be a constant plus a part proportional to 1 / (number of labelled cases). ``now`` is the
    distance with ``n_gold`` labelled cases, and ``alone`` the distance if only the gold labels are
    used. With labels on all ``n`` cases, the distance is assumed to be the smaller of the two,
    multiplied by sqrt(n_gold / n).
    """
    if n_gold >= n:
        return n_gold if now <= target else math.inf
    in_the_end = min(alone, now) ** 2 * n_gold / n
    part = (now**2 - in_the_end) / (1 / n_gold - 1 / n)
    room = target**2 - (now**2 - part / n_gold)
    return part / room if room > 0 else math.inf


def reasons_of_verdict(row: pd.Series) -> str:
    """Explain a verdict in one line: its interval, the missing attempts and the correction."""
    if pd.isna(row["ci_low"]):
        return join_notes("no interval", row["note"])
    text = _score_text if row["unit"] == "score" else _points_text
    limits = f"[{text(row['ci_low'])}, {text(row['ci_high'])}]"
    lost = [row[name] for name in ("n_missing", "n_missing_reference")]
    n_planned = [row[name] for name in ("n_attempts", "n_attempts_reference")]
    missing = f"{sum(lost):.0f} of {sum(n_planned):.0f} attempts are missing"
    if not sum(lost):
        missing = "no attempt is missing"
    elif row["overturned"]:
        missing += ", which could change it"
        missing += f"; assumed: {row['assume_missing']}" if row["assume_missing"] else ""
    place = _place_of_interval(row)
    return f"the interval {limits} {place}; {missing}; {_correction_in_words(row)}"


def _place_of_interval(row: pd.Series) -> str:
    """Describe where an interval is, relative to 0 and the margin."""
    low, high, margin = row["ci_low"], row["ci_high"], row["margin"]
    size, least = (
        f"{100 * margin:.0f} points",
        f"passes at least {100 * row['reference_low']:.0f} %",
    )
    if row["unit"] == "score":
        size, least = _score_text(margin), f"scores at least {_score_text(row['reference_low'])}"
    size = f"the margin of {size}"
    if row["verdict"] == "redundant":
        return f"excludes a loss beyond {size}, and '{row['reference']}' {least}"
    end = f"; {shown_alone(row)}"
    if row["p_adjusted"] < 1.0 - row["ci_level"]:
        end = f" ({p_value(row['p_adjusted'], 'adjusted p')} among {_family(row)})"
    same = "" if row["verdict"] == "ineffective" else f", but not once adjusted for {_family(row)}"
    places = {
        f"is above {size}{end}": low > margin,
        f"is below minus {size}{end}": high < -margin,
        f"is within {size}{same}": low > -margin and high < margin,
        f"is above 0, but reaches into {size}{end}": low > 0,
        f"is below 0, but reaches into {size}{end}": high < 0,
    }
    otherwise = f"includes no change and a change beyond {size}"
    return next((words for words, holds in places.items() if holds), otherwise)


def shown_alone(row: pd.Series) -> str:
    """Describe a gain or loss that a row's interval shows, but its adjusted p-value does not."""
    change = f"a {'gain' if row['ci_low'] > 0 else 'loss'} is shown by the interval alone"
    if pd.isna(row["p_adjusted"]):
        return f"{change}, without an adjusted p-value"
    return f"{change}, not among {_family(row)} ({p_value(row['p_adjusted'], 'adjusted p')})"


def _family(row: pd.Series) -> str:
    return plural(int(row["n_family"]), "row")


def _correction_in_words(row: pd.Series) -> str:
    alone, p = f"by the grader alone {row['verdict_uncorrected']}", row["p_adjusted_uncorrected"]
    if pd.isna(row["n_gold"]):
        return "no correction: no labels were given"
    if row["estimator"] == NAIVE:
        return f"not corrected: {row['correction_reason']}"
    low, high = (_points_text(row[f"{name}_uncorrected"]) for name in ("ci_low", "ci_high"))
    gold = plural(int(row["n_gold"]), "labelled case")
    excludes_0 = row["ci_low_uncorrected"] > 0 or row["ci_high_uncorrected"] < 0
    reason = ""
    if row["verdict_uncorrected"] == "undetermined" and excludes_0 and pd.notna(p):
        reason = f" ({p_value(p, 'adjusted p')})"
    if pd.isna(row["ci_low_uncorrected"]):
        return f"corrected by {row['estimator']} with {gold} (the grader alone gives no interval)"
    return f"corrected by {row['estimator']} with {gold} ({alone}, [{low}, {high}]{reason})"


def _score_text(value: float) -> str:
    return f"{value:.3g}".replace("-", "\N{MINUS SIGN}")


def _points_text(value: float) -> str:
    # a number other than 0 must not appear as 0, so it may get decimals
    text = f"{100 * value:.0f}"
    text = text if float(text) or not value else f"{100 * value:.1g}"
    return text.replace("-", "\N{MINUS SIGN}")


_COMPARE = "skillverdicts.compare"
CHEAPER = "as good and cheaper"
CHEAPER_TYPICALLY = f"{CHEAPER} for a typical answer, total not bounded"
NOT_SHOWN = "not shown"
_SAVED = ("cost_usd", "seconds", "input_tokens", "output_tokens")


def compare(
    outcomes: pd.DataFrame,
    attempts: pd.DataFrame,
    *,
    condition: str = "skill",
    reference: str = "previous",
    by: By = ("skill",),
    margin: float = 0.1,
    amount: Amount = "cost_usd",
    limit: float | None = None,
    value: BoundedValue = "passed",
    bounds: Bounds = None,
    cluster: str = "case",
    average: By = (),
    ci_level: float = 0.95,
    interval: IntervalRule = "adaptive",
    assume_missing: Literal["at random"] | None = None,
) -> pd.DataFrame:
    """Decide whether a version of a skill is as good as another one, and cheaper.

    Parameters
    ----------
    outcomes : pandas.DataFrame
        An outcomes frame of one grader (or include ``grader`` in ``by``).
    attempts : pandas.DataFrame
        The attempts frame of the same answers, with the amounts. Attempts at other cases, or of
        other agents or conditions, are left out.
    condition, reference : str, default "skill" and "previous"
        The new and the old version.
    by : str or sequence of str, default ("skill",)
        Columns that group the rows; one verdict per group.
    margin : float, default 0.1
        The largest loss that counts as "as good", in rate units (0.1 is ten points) or, for scores,
        in their unit. Choose it before you see the data.
    amount : str, default "cost_usd"
        The amount that must fall: ``cost_usd``, ``seconds``, ``input_tokens``, ``output_tokens``,
        ``n_words`` or ``n_commands``.
    limit : float, optional
        The largest ``amount`` that an attempt can have, as in :func:`skillcomp.deltas.paired`.
        Only with a limit can the total be shown to fall.
    value, bounds, cluster, average, ci_level, interval
        As in :func:`skillcomp.deltas.paired`; ``interval`` is for the difference in quality.
    assume_missing : {"at random"}, optional
        As in :func:`skillcomp.skillverdicts.decide`.

    Returns
    -------
    pandas.DataFrame
        One row per ``by``, with the columns of :func:`skillcomp.deltas.paired`: the difference in
        quality between condition and reference, on the same cases. ``margin``, ``amount`` and
        ``limit`` are the arguments. ``saved`` is the mean saving per answer in ``amount``, above 0
        if the condition needs less, with the limits ``saved_low`` and ``saved_high``. ``ratio`` is
        the geometric mean of the ratios of the cases, condition to reference, with ``ratio_low``
        and ``ratio_high``. ``saved_cost_usd``, ``saved_seconds`` and ``saved_tokens`` (input and
        output) are mean savings per answer, NaN if they are not recorded. ``overturned`` and
        ``assume_missing`` are as in :func:`skillcomp.skillverdicts.decide`. ``verdict`` is the
        first of these that applies:

        ``worse``
            A loss of quality is shown: ``shown`` is True, and the interval is below 0.
        ``as good and cheaper``
            The interval is above ``-margin``, and ``saved_low`` is above 0 with a ``limit``.
        ``as good and cheaper for a typical answer, total not bounded``
            The interval is above ``-margin``, there is no ``limit``, ``ratio_high`` is below 1, and
            the total over the cases is lower.
        ``better``
            A gain in quality is shown.
        ``as good``
            The interval is above ``-margin``.
        ``not shown``
            Anything else: the data do not decide, or too many attempts are missing.

    Raises
    ------
    FrameError
        As :func:`skillcomp.deltas.paired`, for an unknown condition or amount, if ``margin`` is
        not between 0 and 1 (for scores, their range), or if no attempt belongs to these outcomes.

    See Also
    --------
    decide : Whether a skill teaches, with a margin for the gain.

    Notes
    -----
    Savings are those of the attempts with the amount; ``note`` counts the attempts without it. If
    the failed answers have no amount, the savings are biased.

    "Worse" and "better" need a difference that is shown, as in
    :func:`skillcomp.skillverdicts.decide`: the p-value, adjusted for all rows of the call, and the
    interval. "As good" rests on the interval of its row alone: a loss of exactly the margin is
    called "as good" in nominally 2.5 % of rows.

    Without a limit no method can bound a total: a sample without a loop does not show how often an
    agent loops. In a simulation with 30 cases, a version costs 0.6 times as much in a typical
    answer, but loops in 1.6 % of the answers, so that its true cost rises by 55 %. The interval of
    the ratio alone is below 1 in 82 % of 20,000 studies. In 62 %, the total is lower as well,
    because no answer loops in these studies. With a limit, none of 150 studies had the verdict "as
    good and cheaper".
    """
    check_margin(margin, assume_missing, ends_of(value, bounds))
    require_known("amount: found", amount, [name for name in AMOUNTS if name != "score"])
    names, levels = listed(by), listed(average)
    outcomes = check(outcomes, "outcomes")
    require_reference(outcomes["condition"], reference)
    if condition == reference:
        raise FrameError(f"{_COMPARE}: condition and reference are both '{condition}'.")
    if len(outcomes):
        require_known(f"{_COMPARE}: condition: found", condition, outcomes["condition"].unique())
    two = outcomes["condition"].isin([condition, reference])
    outcomes = outcomes[two].reset_index(drop=True)
    facts = [name for name in (*names, *levels) if name not in GRADER_KEYS]
    attempts = attempts_of_outcomes(outcomes, check(attempts, "attempts"), facts, _COMPARE)
    how: Fields = {
        "by": names,
        "average": levels,
        "reference": reference,
        "cluster": cluster,
        "ci_level": ci_level,
        "interval": interval,
    }
    rows, units, contrasts = deltas_and_units(outcomes, _COMPARE, value=value, bounds=bounds, **how)
    rows = rows.assign(margin=margin, amount=amount)
    rows["limit"] = np.nan if limit is None else limit
    for argument in ("by", "average"):
        how[argument] = columns_of(attempts, *how[argument])
    rows = _with_savings(rows, attempts, amount, limit, how | {"what": _COMPARE})
    rows["verdict"] = _comparison_verdicts(rows)
    rules = {name: how[name] for name in ("cluster", "ci_level", "interval")}
    rows = with_missing_attempts(rows, units, contrasts, assume_missing, rules)
    return rows.assign(verdict=rows["verdict"].replace("undetermined", NOT_SHOWN))


def _with_savings(
    rows: pd.DataFrame, attempts: pd.DataFrame, amount: str, limit: float | None, how: Fields
) -> pd.DataFrame:
    """Add the savings of each group, and notes: amounts are missing, or a total is not lower."""
    keys, columns = [*how["by"], "condition"], pd.DataFrame()
    for name in dict.fromkeys([amount, *_SAVED]):
        table = amount_deltas(attempts, name, limit if name == amount else None, **how)
        delta, ratio = (
            table[table["measure"].eq(f"{measure}_{name}")].reset_index(drop=True)
            for measure in ("delta", "ratio")
        )
        # a difference from 0.0 is never -0.0
        saved = 0.0 - delta[["estimate", "ci_high", "ci_low"]]
        columns[f"saved_{name}"] = saved["estimate"]
        if name == amount:
            columns[["saved", "saved_low", "saved_high"]] = saved
            columns[["ratio", "ratio_low", "ratio_high"]] = ratio[LIMITS]
            sides = zip(delta[MISSING[:4]].to_numpy().tolist(), delta["condition"], strict=True)
            columns["lacking"] = [
                missing_note(counts, [condition, how["reference"]], f"attempts without {name}")[0]
                for counts, condition in sides
            ]
    columns[keys] = delta[keys]
    rows = rows.merge(columns, on=keys, how="left")
    rows["saved_tokens"] = rows.pop("saved_input_tokens") + rows.pop("saved_output_tokens")
    remarks = {
        f"{amount} is not recorded, so that nothing can be shown to be cheaper": rows[
            "saved"
        ].isna(),
        f"a typical answer has less {amount}, but the total over these cases is not lower": (
            rows["ratio_high"].lt(1) & rows["saved"].le(0)
        ),
    }
    remark = first_that_holds(remarks, "")
    lacking = rows.pop("lacking").fillna("").where(rows["saved"].notna(), "")
    return _with_notes(rows, map(join_notes, remark, lacking))


def _comparison_verdicts(rows: pd.DataFrame) -> Any:
    low, high, shown = rows["ci_low"], rows["ci_high"], rows["shown"].fillna(False).astype(bool)
    as_good = low > -rows["margin"]
    return first_that_holds(
        {
            "worse": shown & (high < 0),
            CHEAPER: as_good & rows["limit"].notna() & rows["saved_low"].gt(0),
            CHEAPER_TYPICALLY: (
                as_good & rows["limit"].isna() & rows["ratio_high"].lt(1) & rows["saved"].gt(0)
            ),
            "better": shown & (low > 0),
            "as good": as_good,
        },
        NOT_SHOWN,
    )


_ACROSS = "skillverdicts.across"
ALL, NEXT = "all skills", "next skill"
# Name of the column of weights; it is a phrase, because the column "method" of the result shows it.
_EQUAL = "1 / cases of the skill"


def across(
    outcomes: pd.DataFrame,
    *,
    by: By = (),
    reference: str = "baseline",
    value: Value = "passed",
    average: By = (),
    ci_level: float = 0.95,
    interval: IntervalRule = "adaptive",
) -> pd.DataFrame:
    """Estimate mean and spread of the effects of skills, and predict the effect of the next skill.

    The skills are treated as a sample of similar skills, and each counts equally. The effect of
    each skill is also pooled partially with the others.

    Parameters
    ----------
    outcomes : pandas.DataFrame
        An outcomes frame of one grader (or include ``grader`` in ``by``) with five skills or more.
    by : str or sequence of str
        Columns that group the rows, other than ``skill``.
    reference, value, average, ci_level, interval
        As in :func:`skillcomp.deltas.paired`; ``interval`` applies only to the rows ``delta_...``
        and ``mean_delta``.

    Returns
    -------
    pandas.DataFrame
        Rows with the estimates columns for each ``by`` and condition other than the reference.
        ``skill`` is the skill, "all skills" or "next skill"; ``measure`` names the row:

        ``delta_passed`` (or ``delta_share_passed``)
            The delta of the skill, from :func:`skillcomp.deltas.paired`.
        ``pooled_delta``
            The delta of the skill, drawn towards the mean; nearer to the truth on average.
        ``mean_delta``
            The mean over the skills, from :func:`skillcomp.deltas.paired` with
            ``cluster="skill"`` and equal weights of the skills.
        ``next_skill_delta``
            The mean, with the prediction interval for the true delta of the next skill.
        ``between_skill_sd``
            The standard deviation of the true deltas of skills. ``p_value`` tests that all skills
            have the same delta.

        ``n`` counts the cases in the rows of one skill, and the skills in all other rows.
        ``reference`` and the columns about missing attempts are as in
        :func:`skillcomp.deltas.paired`. With fewer than five skills in a group, its rows about
        skills in general are NaN with a note.

    Raises
    ------
    FrameError
        As :func:`skillcomp.deltas.paired`, if ``by`` names ``skill``, or if no group has five
        skills.

    See Also
    --------
    skillcomp.plots.estimates : Draws the rows with the unit ``points``; see the example.
    skillcomp.stats.prediction_interval, skillcomp.stats.random_effects : The methods.

    Notes
    -----
    The squared standard error of the delta of a skill is sigma squared divided by the skill's
    number of clusters. Sigma squared is pooled over the skills, as in an analysis of variance, for
    two reasons. If all cases of a skill have the same delta, the standard error of this skill alone
    is 0. And a variance that depends on the delta would bias the weights.

    The prediction interval covers the next skill in at least 93 % of studies of 5 to 30 skills, in
    simulations with normal effects, with lopsided effects, and with an effect in only a few skills
    (``docs/intervals.md``). It cannot cover a rare skill that is unlike all skills of the study, so
    the coverage is an average over the skills that could come next. The interval of the standard
    deviation assumes normal effects, and is too low if only few skills have an effect. The interval
    of the mean can be wider than the prediction interval. It has to allow for rare skills that are
    unlike all observed ones, because they change the true mean. The prediction interval need not,
    because the next skill is seldom one of them.

    Examples
    --------
    Six skills with ten cases each; ``passed`` has the number of passed cases of each skill.

    >>> import pandas as pd
    >>> passed = {"baseline": [3, 2, 4, 5, 1, 3], "skill": [9, 6, 8, 7, 8, 5]}
    >>> frame = pd.DataFrame([
    ...     {"skill": f"s{i}", "case_id": f"s{i}/{k}", "condition": condition, "passed": k < n}
    ...     for condition, numbers in passed.items()
    ...     for i, n in enumerate(numbers) for k in range(10)])
    >>> rows = across(frame)
    >>> rows.loc[rows["skill"].isin([ALL, NEXT]), ["measure", "estimate"]].round(2)
                 measure  estimate
    12        mean_delta      0.42
    13  next_skill_delta      0.42
    14  between_skill_sd      0.14

    ``sc.plots.estimates(rows[rows["unit"].eq("points")], y="skill", hue="measure")`` draws them.
    """
    require_known(f"{_ACROSS}: value: found", value, get_args(Value))
    names, levels = listed(by), listed(average)
    if "skill" in names:
        raise FrameError(f"{_ACROSS}: by= names 'skill', over which the effect is estimated.")
    how: Fields = {"reference": reference, "value": value, "average": levels}
    outcomes = compared_outcomes(outcomes, [*names, "skill"], _ACROSS, **how)
    how |= {"ci_level": ci_level, "interval": interval}
    raw = deltas_and_units(outcomes, _ACROSS, by=[*names, "skill"], **how)[0]
    keys = [*names, "condition"]
    counts = raw[raw["n"].gt(0)].groupby(keys, dropna=False)["skill"].nunique()
    if len(raw) and counts.max() < MIN_SKILLS:
        few = few_skills(int(counts.max())) or "no case has outcomes in both conditions"
        raise FrameError(
            f"{_ACROSS}: {few}. For these skills alone: sc.skillverdicts.decide(outcomes), or "
            "sc.deltas.paired(outcomes) for their mean."
        )
    rows = [
        about | values | {"reference": reference}
        for values, skills in groups(raw, keys)
        for about in _rows_of_group(outcomes, skills, values, how)
    ]
    return estimates(rows, by=[*keys, "skill"], extra=["reference", *MISSING])


def _rows_of_group(
    outcomes: pd.DataFrame, skills: pd.DataFrame, values: Fields, how: Fields
) -> Iterator[Fields]:
    """Yield the rows of one condition: those of each skill, then mean, next skill and spread."""
    used = skills[skills["n"].gt(0)]
    few, level = few_skills(len(used)), how["ci_level"]
    y = used["estimate"].to_numpy(float)
    if few:
        nothing = undefined("", few, ci_level=level, n=len(used))
        pooled, following, spread = [nothing] * len(used), nothing, nothing
    else:
        # the squared standard error of each skill's delta, from one pooled variance; se is NaN if
        # all cases have the same delta
        n, se = used["n_clusters"].to_numpy(float), used["se"].fillna(0.0).to_numpy(float)
        df = np.maximum(n - 1.0, 0.0)
        variances = (df @ (n * se**2)) / max(df.sum(), 1.0) / n
        effects = random_effects(y, variances, ci_level=level)
        pooled, spread = effects.pooled, effects.sd
        following = prediction_interval(y, bounds=(-1.0, 1.0), ci_level=level)
    of_skill = dict(zip(used["skill"], pooled, strict=True))
    for _, about in skills.iterrows():
        yield dict(about)
        if (shrunk := of_skill.get(about["skill"])) is not None:
            shrunk = replace(
                shrunk,
                low=max(shrunk.low, -1.0),
                high=min(shrunk.high, 1.0),
                n=about["n"],
                n_clusters=about["n_clusters"],
            )
            yield row("pooled_delta", shrunk, skill=about["skill"])
    if few:
        yield row("mean_delta", nothing, skill=ALL)
    else:
        yield _mean_row(outcomes, used, values, how)
    yield row("next_skill_delta", following, skill=NEXT)
    yield row("between_skill_sd", spread, skill=ALL)


def _mean_row(outcomes: pd.DataFrame, used: pd.DataFrame, values: Fields, how: Fields) -> Fields:
    """Return the row of the mean over skills, each with the same weight."""
    weights = (1.0 / used["n"]).rename(_EQUAL)
    sides = outcomes["condition"].isin([values["condition"], how["reference"]])
    part = rows_of_group(outcomes[sides], {k: v for k, v in values.items() if k != "condition"})
    part = part.merge(used[["skill"]].assign(**{_EQUAL: weights}), on="skill")
    how = how | {"by": [], "cluster": "skill", "weight": _EQUAL}
    mean = deltas_and_units(part, _ACROSS, **how)[0].iloc[0]
    return dict(mean) | {"measure": "mean_delta", "skill": ALL, "n": mean["n_clusters"]}


Policy = Literal["strict", "weighted", "pass_count"]


def dimensions(
    outcomes: pd.DataFrame, *, by: By = ("skill",), ci_level: float = 0.95
) -> pd.DataFrame:
    """Decide which dimensions each skill passes under each condition.

    Parameters
    ----------
    outcomes : pandas.DataFrame
        An outcomes frame of one grader (or include ``grader`` in ``by``).
    by : str or sequence of str, default ("skill",)
        Columns that group the rows; one verdict per group, condition and dimension.
    ci_level : float, default 0.95
        Level of the interval of the rate.

    Returns
    -------
    pandas.DataFrame
        One row per ``by``, condition and comprehension_dimension. The estimates columns hold the
        rate of attempts passed, with an interval by case. ``n_cases`` and ``n_cases_passed`` count
        the cases; a case is passed if more than half of its repeats pass. ``passed`` is True if
        every case is passed, False if a case fails, and NA if no case fails but one has no outcome.
        ``score`` is a mark from 1 to 5, with the limits ``score_low`` and ``score_high``.

    Notes
    -----
    The score is derived from the binary checks (report 9.4). An answer that passes 5 of 5 checks
    scores 5, one that passes 4 of 5 scores 4, and no answer scores less than 1. Scores are averaged
    over repeats, then over cases. The interval is that of a bounded mean, on the scale of the
    score. Use ``passed`` as the verdict, because a score hides which check failed.
    """
    names = listed(by, "comprehension_dimension", "condition")
    keys = [*names, "comprehension_dimension"]
    checked = prepared(outcomes, "outcomes", names, "skillverdicts.dimensions")
    checked = checked.dropna(subset="comprehension_dimension")
    level = rates(checked, by=keys, ci_level=ci_level)
    marks = ((5 * checked["share_passed"] - 1) / 4).clip(lower=0.0)
    given_marks = checked.assign(share_passed=marks)
    marked = rates(given_marks, by=keys, value="share_passed", ci_level=ci_level)
    marked = marked.set_index([*keys, "condition"])[["estimate", "ci_low", "ci_high"]]
    marked = 1 + 4 * marked.set_axis(["score", "score_low", "score_high"], axis=1)
    scored = checked.assign(passed=checked["passed"].astype("float64"))
    shares = grouped(scored, [*keys, "condition", *CASE])["passed"].mean().reset_index(name="share")
    shares = shares.assign(won=shares["share"].gt(0.5), failed=shares["share"].le(0.5))
    verdict = grouped(shares, [*keys, "condition"]).agg(
        n_cases=("won", "size"), n_cases_passed=("won", "sum"), failed=("failed", "any")
    )
    passed = verdict["n_cases_passed"].eq(verdict["n_cases"]).astype("boolean")
    verdict["passed"] = passed.where(passed | verdict.pop("failed"))
    verdict = verdict.reset_index()
    verdict = verdict.merge(marked.reset_index(), on=[*keys, "condition"], how="left")
    return level.merge(verdict, on=[*keys, "condition"], how="left")


def together(
    judged: pd.DataFrame,
    *,
    first: str = "C4",
    second: str = "C7",
    by: By = (),
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Estimate how often skills pass one of two dimensions without the other.

    Parameters
    ----------
    judged : pandas.DataFrame
        The result of :func:`dimensions`, with ``skill`` in its ``by``.
    first, second : str, default "C4" and "C7"
        The two dimensions. The comprehension report (9.2) considers merging C4 (boundary) and C7
        (misconception), the defaults.
    by : str or sequence of str
        Columns that group the rows, in addition to ``condition``.
    ci_level : float, default 0.95
        Level of the intervals.

    Returns
    -------
    pandas.DataFrame
        Four rows per ``by`` and condition, with the estimates columns and the columns ``first``
        and ``second``. The measures are ``both_rate``, ``first_only_rate``, ``second_only_rate``
        and ``neither_rate``. Each is a share of the skills that have a verdict on both dimensions,
        with the interval of a bounded mean over skills. If both dimensions measure the same thing,
        the two ``only`` rates are near 0. NaN with a note if no skill has both verdicts.

    Raises
    ------
    FrameError
        For an unknown dimension, or the same dimension twice.
    """
    if first == second:
        raise FrameError(f"second: found '{second}' twice; give two different dimensions.")
    names = listed(by, "condition")
    keys = listed([*names, "condition", "skill"])
    what = "skillverdicts.together"
    require_columns(judged, [*keys, "comprehension_dimension", "passed"], what)
    family = dimension_family(judged["comprehension_dimension"])
    _require_dimensions(family, first=[first], second=[second])
    judged = _checked_verdicts(judged, keys, what, "name in by= what tells them apart")
    chosen = judged[judged["comprehension_dimension"].isin([first, second])]
    passed = chosen.set_index([*keys, "comprehension_dimension"])["passed"].astype("float64")
    table = passed.unstack("comprehension_dimension")
    wide = pd.DataFrame(table).reindex(columns=[first, second]).reset_index()
    measures = ("both_rate", "first_only_rate", "second_only_rate", "neither_rate")
    rows = []
    for values, part in groups(wide, [*names, "condition"]):
        complete = part.dropna(subset=[first, second])
        for name, (left, right) in zip(measures, product((1.0, 0.0), repeat=2), strict=True):
            share = complete[first].eq(left) & complete[second].eq(right)
            interval = bounded_mean(share.astype(float), ci_level=ci_level)
            if complete.empty:
                interval = replace(interval, note="no skill has a verdict on both dimensions")
            rows.append(row(name, interval, **values, first=first, second=second))
    return estimates(rows, by=[*names, "condition"], extra=["first", "second"])


def aggregate(
    judged: pd.DataFrame,
    *,
    by: By = ("skill",),
    policy: Policy = "strict",
    exceptions: Sequence[str] = (),
    weights: Mapping[str, float] | Literal["schema", "rubric"] = "schema",
    threshold: float | None = None,
) -> pd.DataFrame:
    """Combine the verdicts on dimensions into one verdict on the skill, by one of three policies.

    Parameters
    ----------
    judged : pandas.DataFrame
        The result of :func:`dimensions`.
    by : str or sequence of str, default ("skill",)
        The ``by`` of :func:`dimensions`.
    policy : {"strict", "weighted", "pass_count"}, default "strict"
        ``strict``: every dimension must be passed, except those in ``exceptions``. ``weighted``:
        the weighted share of passed dimensions must be at least ``threshold`` (default 0.8).
        ``pass_count``: the number of passed dimensions must be at least ``threshold`` (default two
        thirds of all, so 6 of 9).
    exceptions : sequence of str
        Dimensions with documented deficiencies; only for ``strict``.
    weights : {"schema", "rubric"} or mapping of str to float, default "schema"
        Weight of each dimension. ``schema``: C1 to C6 have the weights of the schema in the
        comprehension report (2.4); C7 to C9 have no weight there and count 0. ``rubric``: the same,
        but C7, C8 and C9 have weight 1 each. The report recommends this for C7 (9.2); C8 and C9 get
        the same weight. If a study has its own dimensions, both give them equal weights.
    threshold : float, optional
        The least share or number of passed dimensions; see ``policy``.

    Returns
    -------
    pandas.DataFrame
        One row per ``by`` and condition. ``policy`` is the argument. ``passed`` is NA if it depends
        on dimensions without a verdict. ``verdict`` uses the words of the report's audit loop. If
        ``passed`` is True, it is ``PASS WITH FIXES`` if a dimension failed, otherwise ``PASS``. If
        ``passed`` is False, it is ``PARTIAL`` if a dimension passed, otherwise ``FAIL``. It is NA
        if ``passed`` is NA.
        ``score`` is the share of dimensions passed (for ``weighted``, the weighted share; for
        ``pass_count``, their number). ``n_passed``, ``n_failed`` and ``n_missing`` count
        dimensions. ``failed`` names the failed ones, ``excepted`` those of them that are in
        ``exceptions``. ``note`` names the dimensions without a verdict.

    Raises
    ------
    FrameError
        For an unknown policy or exception.
    """
    require_known("policy: found", policy, get_args(Policy))
    keys = [*listed(by, "condition"), "condition"]
    require_columns(judged, [*keys, "comprehension_dimension", "passed"], "skillverdicts.aggregate")
    family = dimension_family(judged["comprehension_dimension"])
    if isinstance(weights, str):
        require_known("weights: found", weights, ["schema", "rubric"])
        schema = SCHEMA_WEIGHTS if "C1" in family else {}
        lacking = 0.0 if schema and weights == "schema" else 1.0
        weights = dict.fromkeys(family, lacking) | schema
    weigh = dict(weights)
    _require_dimensions(family, exceptions=exceptions, weights=weigh)
    if policy == "weighted" and not sum(weigh.values()) > 0:
        raise FrameError("weights: they add up to nothing; give at least one above 0.")
    advice = "give by= as in skillverdicts.dimensions"
    judged = _checked_verdicts(judged, keys, "skillverdicts.aggregate", advice)
    rows = []
    for values, part in groups(judged, keys):
        passed = part.set_index("comprehension_dimension")["passed"].reindex(list(family))
        combined = _combined_verdict(passed, policy, exceptions, weigh, threshold)
        rows.append({**values, "policy": policy, **combined})
    shape = [*keys, "policy", "passed", "verdict", "score", "n_passed", "n_failed", "n_missing"]
    frame = pd.DataFrame(rows, columns=[*shape, "failed", "excepted", "note"])
    return frame.astype({"passed": "boolean", "verdict": "str"})


def _checked_verdicts(
    judged: pd.DataFrame, keys: list[str], what: str, advice: str
) -> pd.DataFrame:
    """Return verdicts with the right dtypes; raise FrameError if a dimension has two verdicts."""
    judged = settle(judged, CONTRACTS["outcomes"].columns, f"{what}: judged")
    if judged.duplicated([*keys, "comprehension_dimension"]).any():
        raise FrameError(
            f"{what}: a dimension has several verdicts for one {' and '.join(keys)}; {advice}."
        )
    return judged


def _require_dimensions(family: tuple[str, ...], **arguments: Iterable[str]) -> None:
    allowed = "C1 to C9" if "C1" in family else ", ".join(family)
    for argument, names in arguments.items():
        for name in names:
            if name not in family:
                raise FrameError(
                    f"{argument}: found '{name}'; allowed: {allowed}." + suggest(str(name), family)
                )


def _combined_verdict(
    passed: pd.Series,
    policy: Policy,
    exceptions: Sequence[str],
    weights: Mapping[str, float],
    threshold: float | None,
) -> dict[str, object]:
    missing = list(passed.index[passed.isna()])
    failed = list(passed.index[passed.eq(False).fillna(False)])
    won = list(passed.index[passed.eq(True).fillna(False)])
    excepted = [name for name in failed if name in exceptions]
    if policy == "strict":
        open_ = [name for name in missing if name not in exceptions]
        verdict = False if len(failed) > len(excepted) else (pd.NA if open_ else True)
        score = len(won) / len(passed)
    else:
        each = {
            name: weights.get(name, 0.0) if policy == "weighted" else 1.0 for name in passed.index
        }
        scale = sum(each.values()) if policy == "weighted" else 1.0
        enough = math.ceil(2 * len(passed) / 3)
        bound = threshold if threshold is not None else (0.8 if policy == "weighted" else enough)
        score = sum(each[name] for name in won) / scale
        best = score + sum(each[name] for name in missing) / scale
        verdict = True if score >= bound else (False if best < bound else pd.NA)
    words = "PASS WITH FIXES" if failed else "PASS", "PARTIAL" if won else "FAIL"
    return {
        "passed": verdict,
        "verdict": pd.NA if verdict is pd.NA else words[0 if verdict else 1],
        "score": score,
        "n_passed": len(won),
        "n_failed": len(failed),
        "n_missing": len(missing),
        "failed": ", ".join(failed),
        "excepted": ", ".join(excepted),
        "note": f"no verdict for {', '.join(missing)}" if missing else "",
    }
