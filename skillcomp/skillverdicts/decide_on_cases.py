"""Verdicts on skills by intervals, a margin and the worst case; verdicts on single cases."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy.stats import false_discovery_control

from skillcomp.contrast import BoundedValue, Bounds, Contrast, Units, ends_of, within
from skillcomp.deltas.paired_deltas import deltas_and_units
from skillcomp.errors import FrameError, require_known
from skillcomp.frames.check import check
from skillcomp.frames.contracts import CASE
from skillcomp.frames.estimates import (
    PLACEBO,
    By,
    grouped,
    is_among,
    listed,
    prepared,
    refuse_different_checks,
    require_reference,
    with_adjusted_p,
    with_notes_of,
)
from skillcomp.planning.power import detectable_changes
from skillcomp.skillverdicts.corrected_deltas import (
    LIMITS,
    MARGIN_P,
    MOVED,
    NAIVE,
    reasons_of_verdict,
    shown_alone,
    with_corrections,
)
from skillcomp.stats.bounded import IntervalRule
from skillcomp.stats.results import NAN, Fields, is_number, join_notes

_WHAT = "skillverdicts.decide"


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
    (:func:`skillcomp.stats.clusters.p_of_rows`): of four gains of 31 points among ten skills of 14
    cases with two attempts, 37 % are shown, and 29 % by the intervals' own p-values. The adjustment
    is over the rows of one call. If you split the call into several, such as one for each skill,
    the protection is lost, so decide in advance which rows belong to one call. Whether a gain is
    larger than the margin rests on the interval of its row.

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
    deltas, units, contrasts = deltas_and_units(outcomes, _WHAT, reference=reference, **how)
    bases = within(units, _references(contrasts), **rules)
    deltas = deltas.assign(margin=margin, highest=ends[1])
    deltas["reference_low"] = [base.interval.low for base in bases]
    deltas = deltas.assign(**_p_of_margins(units, contrasts, deltas, rules))
    deltas = _over_placebo(deltas, outcomes, names, reference, how)

    def judge(deltas: pd.DataFrame) -> pd.DataFrame:
        """Add the verdict, and whether missing attempts overturn it."""
        deltas = with_adjusted_p(deltas)
        deltas = deltas.assign(
            verdict=verdicts_of_rows(deltas), n_family=deltas["p_adjusted"].notna().sum()
        )
        deltas = with_missing_attempts(
            deltas, units, contrasts, assume_missing, cluster=cluster, interval=interval
        )
        return _with_reasons(deltas)

    judged = judge(deltas)
    alone = deltas[LIMITS].add_suffix("_uncorrected").assign(verdict_uncorrected=judged["verdict"])
    alone["p_adjusted_uncorrected"] = judged["p_adjusted"]
    judged = judged.assign(**alone, estimator=NAIVE, n_gold=NAN, labels_needed=NAN)
    if corrected is None and interval == "adaptive":
        judged = _with_notes(judged, _verdicts_by_other_rules(deltas, units, contrasts, rules))
    if corrected is not None:
        deltas = deltas.assign(**alone, n_family=judged["n_family"])
        judged = judge(
            with_corrections(deltas, corrected, names, value=value, cluster=cluster, weight=weight)
        )
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
    p_values = [
        [
            one_sided(mean.interval.p_value, sign * (mean.interval.estimate - null) > 0)
            for mean in within(units, rows, **how, null=null, notes=False)
        ]
        for rows, null, sign in tests
    ]
    return dict(zip(MARGIN_P, p_values, strict=True))


def one_sided(p_value: float, as_claimed: bool) -> float:
    """Return a one-sided p-value; ``as_claimed``: whether the estimate is on the claimed side."""
    return p_value / 2.0 if as_claimed else 1.0 - p_value / 2.0


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
        means = [each.interval for each in within(units, contrasts, **rules, notes=False)]
        other = deltas.assign(
            ci_low=[mean.low for mean in means],
            ci_high=[mean.high for mean in means],
            p_value=[mean.p_value for mean in means],
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
    deltas: pd.DataFrame, outcomes: pd.DataFrame, names: list[str], reference: str, how: Fields
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
    over = deltas_and_units(outcomes, _WHAT, reference=PLACEBO, **how)[0]
    over = over[[*names, "condition", *renamed]].rename(columns=renamed)
    deltas = deltas.merge(over, on=[*names, "condition"], how="left")
    # a note for each condition whose deltas to placebo and to reference use different cases
    keys = list(dict.fromkeys([*names, *CASE]))
    run = outcomes.dropna(subset=how["value"])[[*keys, "condition"]].drop_duplicates()
    delta, beyond = (
        is_among(run, run[run["condition"].eq(other)], keys) for other in (reference, PLACEBO)
    )
    sides = run.assign(delta=delta, over=beyond, differs=delta != beyond)
    counts = grouped(sides, [*names, "condition"])[["delta", "over", "differs"]].sum()
    counts["remark"] = [
        f"over_placebo rests on other cases than the delta: {n_over} and {n}" if differs else ""
        for n, n_over, differs in counts.itertuples(index=False)
    ]
    other = counts["remark"].reset_index()
    matched = deltas[[*names, "condition"]].merge(other, on=[*names, "condition"], how="left")
    remarks = matched["remark"].fillna("").where(deltas["over_placebo"].notna(), "")
    return _with_notes(deltas, remarks)


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


@dataclass(frozen=True)
class Claim:
    """A claim that a contrast (a delta, or the rate of an arm) is above ``bound``.

    ``is_gain`` is True if the claim is also that the delta is above 0. A loss of the condition is
    expressed as a gain of the reference. ``moved`` is what a correction for the grader's errors
    adds to the estimate and to the lower limit; it is assumed to be the same for missing attempts.
    """

    contrast: Contrast
    bound: float
    ci_level: float
    is_gain: bool = False
    moved: tuple[float, float] = (0.0, 0.0)

    def fails_in_worst_case(self, units: Units, **how: Any) -> bool:
        """Return whether the claim fails if all missing attempts are set against it.

        It fails if the estimate is not above the bound or, for a gain, if the interval includes 0.
        """
        filled = units.filled(self.contrast.weights)
        (worst,) = within(filled, [self.contrast], ci_level=self.ci_level, **how)
        estimate = worst.interval.estimate + self.moved[0]
        low = worst.interval.low + self.moved[1]
        return not estimate > self.bound or (self.is_gain and not low > 0)


def with_missing_attempts(
    decided: pd.DataFrame,
    units: Units,
    contrasts: Sequence[Contrast],
    assume_missing: str | None,
    **how: Any,
) -> pd.DataFrame:
    """Overturn the verdicts that missing attempts could change.

    Parameters
    ----------
    decided : pandas.DataFrame
        Verdicts with the columns of :func:`skillcomp.deltas.paired` and ``margin``.
    units, contrasts : Units, sequence of Contrast
        The cases, and the contrast of each row.
    assume_missing : str or None
        The assumption, such as ``at random``, under which a verdict is kept.
    **how : str
        The arguments ``cluster`` and ``interval`` of :func:`skillcomp.deltas.paired` with which the
        rows were made.

    Returns
    -------
    pandas.DataFrame
        The rows, with a remark added to ``note``, and two more columns. ``overturned`` is True if
        missing attempts could change the verdict. The verdict of these rows is ``undetermined`` or,
        if there is an assumption, unchanged; ``assume_missing`` then names the assumption. It is
        empty in all other rows.
    """
    rows = []
    for (_, row), contrast in zip(decided.iterrows(), contrasts, strict=True):
        # examine a row only if one of its conditions lacks enough attempts
        counts = ("n_missing", "n_missing_reference")
        lost = [row[name] / max(row[name.replace("missing", "attempts")], 1) for name in counts]
        lacks = max(lost) >= ENOUGH_MISSING - 1e-9
        is_shaken = lacks and any(
            claim.fails_in_worst_case(units, **how) for claim in _claims_of_row(row, contrast)
        )
        verdict, assumed, remark = row["verdict"], "", ""
        if is_shaken:
            claimed = f"'{verdict}'" if " " in verdict else verdict
            assumed = assume_missing or ""
            remark = f"{claimed}, assuming that attempts are missing {assumed}"
            if not assumed:
                others = f"the others alone would say {claimed} ({row['estimate']:+.2f})"
                verdict = "undetermined"
                remark = f"undetermined: too many attempts are missing; {others}"
        rows.append((verdict, is_shaken, assumed, remark))
    columns = ["verdict", "overturned", "assume_missing", "remark"]
    judged = pd.DataFrame(rows, columns=columns, index=decided.index)
    notes = list(map(join_notes, decided["note"], judged.pop("remark")))
    return decided.assign(**judged.astype({"overturned": bool}), note=notes)


def _claims_of_row(row: pd.Series, contrast: Contrast) -> list[Claim]:
    """Return the claims from which the verdict of a row follows; none if it is undetermined."""
    verdict, margin = row["verdict"], row["margin"]
    level = row["ci_level"]
    moved = {end: row.get(f"moved_{end}", 0.0) for end in ("estimate", "low", "high", "rate")}
    up, down = (moved["estimate"], moved["low"]), (-moved["estimate"], -moved["high"])
    turned = replace(contrast, weights={arm: -w for arm, w in contrast.weights.items()})
    gain = Claim(contrast, margin, level, is_gain=True, moved=up)
    loss = Claim(turned, margin, level, is_gain=True, moved=down)
    base = replace(contrast, weights={(row["reference"],): 1.0}, sides=("",))
    of_rate = (moved["rate"], row.get("moved_rate_low", 0.0))
    no_loss = replace(gain, bound=-margin, is_gain=False)
    claims = {
        "teaching": [gain],
        "harmful": [loss],
        "ineffective": [no_loss, replace(loss, bound=-margin, is_gain=False)],
        "redundant": [no_loss, Claim(base, row.get("highest", 1.0) - margin, level, moved=of_rate)],
        "helps": [replace(gain, bound=0.0)],
        "hurts": [replace(loss, bound=0.0)],
    }
    # `skillverdicts.compare` uses the words worse and better instead of hurts and helps
    claims |= {"worse": claims["hurts"], "better": claims["helps"]}
    return [no_loss] if verdict.startswith("as good") else claims.get(verdict, [])


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
    names = list(dict.fromkeys([*listed(by), *CASE, "comprehension_dimension", "transfer"]))
    if "condition" in names:
        raise FrameError("skillverdicts.cases: by= names 'condition'; a row has one already.")
    checked = prepared(outcomes, "outcomes", listed(by), "skillverdicts.cases", agents=True)
    require_reference(checked["condition"], reference)
    refuse_different_checks(checked, "skillverdicts.cases")
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
