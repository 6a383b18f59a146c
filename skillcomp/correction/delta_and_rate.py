"""Pass rates and deltas corrected for grader errors, which correction to use, and the errors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pandas as pd

from skillcomp.contrast import (
    BoundedValue,
    Bounds,
    Value,
    claim,
    claimed,
    few_skills,
    lost_attempts,
)
from skillcomp.correction.estimators import (
    ESTIMATORS,
    EVERY_ESTIMATOR,
    POOLED,
    SCORES,
    Draw,
    Errors,
    Estimator,
    Group,
    OfSkills,
    Sides,
    Tables,
    differential_tests,
    errors_of,
    estimates_by_name,
    have_equal_chances,
    key_of,
    n_with_gold,
    tables,
    unrecorded,
)
from skillcomp.errors import FrameError, plural, require_known
from skillcomp.frames.estimates import (
    By,
    check_settings,
    estimates,
    groups,
    listed,
    ordered,
    require_reference,
    row,
    rows_of_group,
    with_method,
)
from skillcomp.frames.outcomes import Checks
from skillcomp.frames.reference_labels import (
    CALIBRATION,
    Drawn,
    unequal_shares,
)
from skillcomp.stats.bounded import (
    IntervalRule,
)
from skillcomp.stats.ppi import UNSEEN
from skillcomp.stats.results import (
    NEEDED,
    OUTSIDE,
    Fields,
    Intervals,
    join_notes,
    needed_columns,
    note_on_width,
    undefined,
)
from skillcomp.stats.significance_and_grader_errors import (
    equal_errors,
    youden_difference,
)

# The smallest number of cases with gold for which the coverage of the prediction-powered interval
# was tested.
FEWEST_GOLD = 10
# If more than this share of the cases with gold has no verdict, ppi is not recommended.
LOST_GOLD = 0.05
# A skill borrows the error rates of the others if the p-value of equal error rates is above this.
MAY_BORROW = 0.2
# The smallest p-value of a test whether answers with gold of their own contradict a calibration set
SIGNIFICANT = 0.05
# The note of an estimate contains this text if imagined errors of the grader (errors that gold did
# not show) were added to the variance.
SAFEGUARD = "imagined errors"
FEW_ERRORS = "few errors of the grader seen: the interval rests on two imagined ones"
Parts = Iterable[tuple[Fields, Group]]  # type of the result of `labelled_groups`
ERROR_RATES = ("sensitivity", "specificity")
LEADING = ("estimator", "recommended", "reason", "gold_drawn", "n_gold", *NEEDED)


def rate(
    verdicts: pd.DataFrame,
    gold: pd.DataFrame,
    *,
    by: By = (),
    value: BoundedValue = "share_passed",
    bounds: Bounds = None,
    estimator: Estimator = "auto",
    gold_drawn: Drawn = "random",
    drawn_by: str | None = None,
    cases: pd.DataFrame | None = None,
    checks: Checks = "all",
    weight: str | None = None,
    cluster: str = "case",
    ci_level: float = 0.95,
    interval: IntervalRule = "adaptive",
) -> pd.DataFrame:
    """Estimate the true pass rate of each condition, corrected for the grader's errors.

    Repeats are averaged within a case, and cases have equal weight. For a difference between
    conditions use :func:`delta`, which compares the same cases.

    Parameters
    ----------
    verdicts, gold, by, value, bounds, estimator, gold_drawn, drawn_by : object
        As in :func:`delta`.
    cases, checks, weight, cluster, ci_level, interval : object
        As in :func:`delta`.

    Returns
    -------
    pandas.DataFrame
        One row per ``by``, condition and estimator, with the estimates columns. The measure is
        ``rate_share_passed``, ``rate_passed`` or ``rate_score``; estimates are from 0 to 1, or in
        the unit of the score. ``estimator``,
        ``recommended``, ``reason`` and ``gold_drawn`` are as in :func:`delta`. ``n_gold`` counts
        the cases with gold; ``n_for_half_width_20`` and ``n_for_half_width_10`` are as in
        :func:`delta`. ``sensitivity``, ``specificity`` and ``youden`` are those of the grader
        under the condition. The sensitivity needs gold passes, the specificity gold fails, and
        ``youden`` both; otherwise they are NaN.

    Raises
    ------
    FrameError
        As :func:`delta`.

    See Also
    --------
    delta : The paired difference between conditions.

    Notes
    -----
    The recommended estimator is chosen as in :func:`delta`. ``naive`` and ``gold_only`` have the
    interval of :func:`skillcomp.deltas.rates`, ``gold_only`` always with ``"bounded"``. With a
    calibration set of 20 labels of each kind and 100 answers, the interval of ``rate`` covered the
    true rate in 94.6 to 98.4 % of 1,500 simulated studies of each of four designs. With a grader
    near chance (Youden's J .4) and 1,000 answers it covered 93.2 %.
    """
    return _corrected_rows(
        verdicts,
        gold,
        [None],
        estimator,
        ci_level,
        interval,
        what="correction.rate",
        by=listed(by, "condition"),
        value=value,
        bounds=bounds,
        cases=cases,
        checks=checks,
        gold_drawn=gold_drawn,
        drawn_by=drawn_by,
        weight=weight,
        cluster=cluster,
        compares=False,
    )


def delta(
    verdicts: pd.DataFrame,
    gold: pd.DataFrame,
    *,
    by: By = (),
    value: BoundedValue = "share_passed",
    bounds: Bounds = None,
    estimator: Estimator = "auto",
    reference: str = "baseline",
    gold_drawn: Drawn = "random",
    drawn_by: str | None = None,
    cases: pd.DataFrame | None = None,
    checks: Checks = "all",
    weight: str | None = None,
    cluster: str = "case",
    ci_level: float = 0.95,
    interval: IntervalRule = "adaptive",
) -> pd.DataFrame:
    """Estimate the true paired change in pass rate, corrected for the grader's errors.

    Conditions are paired by case, repeats averaged within a case, and cases weighted equally, as
    :func:`skillcomp.deltas.paired` does for uncorrected verdicts.

    Parameters
    ----------
    verdicts : pandas.DataFrame
        A verdicts frame: skill, case_id, condition, attempt_id, check_id, status, passed. A
        verdict that the grader failed to give is missing, not a FAIL.
    gold : pandas.DataFrame
        A gold frame: attempt_id, check_id, passed, and inclusion_probability if cases were drawn
        with unequal chances. If only some labels have this probability, ``ppi`` is NaN and no
        estimator is recommended. Gold may cover some of the cases, or one repeat of every case.
        An attempt counts as labelled if at least half of its checks have gold. With
        ``value="passed"``, all of its checks must have gold: gold on some checks can show that an
        attempt fails, but not that it passes, so such attempts would bias the estimate. If an
        adjudicated label of a check exists, it is used. Otherwise the only label is used, or the
        label on which all labellers agree. ``reason`` counts the labels that were adjudicated,
        agreed or disputed. If no estimator is recommended, it also counts the labels that match no
        attempt. With ``value="score"`` gold has a column ``score`` in place of ``passed``; if
        several labellers scored a check, and none is adjudicated, gold is their mean.
    by : str or sequence of str, default ()
        Columns to group by, such as ``["grader", "skill"]``.
    value : {"share_passed", "passed", "score"}, default "share_passed"
        What is averaged: the share of checks passed, whether the attempt passes every check, or
        the mean score of its checks.
    bounds : tuple of float, optional
        For scores, the lowest and the highest score that an attempt can have, such as ``(1, 5)``.
        Estimates, limits and standard errors are then in the unit of the score.
    estimator : str, default "auto"
        ``"auto"`` returns the rows of every estimator. The name of an estimator returns only the
        rows of this estimator. ``"pooled"`` states that the error rates under a condition are the
        same for all skills; it needs ``by="skill"``.
    reference : str, default "baseline"
        Condition with which every other condition is compared.
    gold_drawn : {"random", "chosen", "verdict", "separate"}, default "random"
        ``"random"``: the cases or repeats with gold were drawn at random. ``"chosen"``: they were
        selected, for instance the doubtful ones first. ``ppi`` and ``gold_only`` are then biased,
        and ``rogan_gladen_by_arm`` is recommended. ``"verdict"``: answers or checks were drawn by
        the verdicts of graders, at random among those with equal verdicts, for instance all fails
        and a part of the passes. ``gold_only`` is then weighted within strata of condition and
        verdict, as are sensitivity and specificity; the other corrections are NaN. ``"separate"``:
        gold is a calibration set of its own. Its verdicts are rows of ``verdicts`` with the
        condition ``calibration``, which is not compared with the others; its cases, checks and
        skills may be others. The grader's sensitivity and specificity are those of the whole set
        (of the grader; by another column of ``by`` only if the set has all values of the column),
        and ``rogan_gladen_pooled`` is recommended. Gold on compared answers only tests whether
        these error rates carry over to them. What you state is not overruled: ``"chosen"`` and
        ``"separate"`` keep their estimator, with a caution in ``reason`` where labels contradict
        it. ``"random"`` and ``drawn_by`` lose it, because such labels would bias it.
    drawn_by : str, optional
        With ``gold_drawn="verdict"``, the grader that gave the verdicts by which gold was drawn. By
        default, gold counts as drawn by the pattern of the verdicts of all graders in ``verdicts``.
        If every labelled answer has gold on all its checks, the strata are verdicts on whole
        answers, otherwise on single checks.
    cases : pandas.DataFrame, optional
        A cases frame. If given, the members of a contrast pair, and cases of several skills with
        the same ``task``, form one cluster. Equal case names under several skills are refused
        unless the cases have tasks or ``by`` has ``skill``.
    checks : {"all", "shared"}, default "all"
        ``"shared"``: count only checks that the grader was asked about under every condition of the
        case.
    weight : str, optional
        A column of ``verdicts`` or ``cases`` with the weight of each case, as in
        :func:`skillcomp.deltas.paired`. The tests behind p_differential are not weighted.
    cluster : {"case", "skill"}, default "case"
        As in :func:`skillcomp.deltas.paired`.
    ci_level : float, default 0.95
        Level of the interval.
    interval : {"adaptive", "bounded", "t"}, default "adaptive"
        Rule for ``naive``, as in :func:`skillcomp.deltas.paired`. The limits of both Rogan-Gladen
        estimators are computed from limits by this rule. ``ppi`` and ``gold_only`` do not use it.

    Returns
    -------
    pandas.DataFrame
        One row per ``by``, condition other than the reference, and estimator: estimates columns
        (measure ``delta_share_passed``, ``delta_passed`` or ``delta_score``, estimate from -1 to 1
        or in the unit of the score) and

        - estimator: ``naive`` (the grader as it is), ``gold_only`` (cases with gold under both
          conditions), ``rogan_gladen_pooled`` (one sensitivity and specificity for all
          conditions), ``rogan_gladen_by_arm`` (those of each condition), ``ppi`` (PPI++ on paired
          differences) and, with ``by="skill"``, ``pooled`` (error rates of each condition, pooled
          over the skills). For scores, which have no error rates, those that need them are NaN;
        - recommended: True for the recommended estimator, in at most one row per ``by`` and
          condition; reason: why this estimator is recommended, or why no estimator is;
        - gold_drawn: how gold was drawn, in words;
        - n_gold: number of cases with gold under both conditions. If no case has gold under both,
          or gold was drawn by verdict, the cases with gold are counted under each condition, and
          ``n_gold`` is the smaller number;
        - n_for_half_width_20, n_for_half_width_10: the ``n_gold`` that would bring half of the
          width of the interval to 0.2 and 0.1 (:func:`skillcomp.stats.units_needed`), if the number
          of cases without gold grows in proportion; NaN for ``naive``. The note states them where
          half of the width is above 0.2. To plan for a fixed number of cases use
          :func:`skillcomp.planning.gold_needed`. NaN for scores;
        - sensitivity, specificity, reference_sensitivity, reference_specificity, delta_youden
          (condition minus reference), p_differential (test that the error rates are equal under
          both conditions, clustered by case; the smaller of two p-values after Holm; NaN if gold
          was drawn by verdict). These columns pool skills and checks: see the notes of
          :func:`differential`. With a calibration set, the first four are those of the set, the
          last two those of gold on compared answers.

        The estimate is NaN with a note if gold does not suffice for it.

    Raises
    ------
    FrameError
        If a frame breaks its contract, the frames would pool graders, rounds, agents, altered
        copies or labellers, the reference is missing, ``by`` names ``condition``, or an argument
        has a value that is not allowed.

    See Also
    --------
    differential : The grader's error rates, with intervals.

    Notes
    -----
    The recommended estimator is

    - ``gold_only`` if every check of every attempt has gold;
    - ``ppi`` or ``gold_only``, whichever has the narrower interval, if at least 10 cases drawn at
      random have gold. Neither makes an assumption about the grader's errors. If the grader errs on
      fewer than five gold cases in one direction, the variance of ``ppi`` is increased as if gold
      showed one more error in each direction; ``note`` and ``reason`` state this;
    - ``pooled`` for a skill of such a study if its interval is narrower than both, and the error
      rates of the skill may be those of the other skills: the exact p-value of
      :func:`skillcomp.stats.significance_and_grader_errors.equal_errors` is above 0.2. ``reason``
      states it;
    - ``rogan_gladen_by_arm`` if the cases with gold were selected. It assumes that the grader's
      error rates under a condition are the same for attempts with and without gold;
    - ``rogan_gladen_pooled`` with a calibration set of at least 10 cases. The delta then has the
      sign of the uncorrected one. ``note`` states how far the sensitivity or specificity under the
      condition would have to be from the others to turn the sign;
    - ``gold_only`` if gold was drawn by verdict and covers at least 10 cases: Begg and Greenes'
      correction, with the interval of :func:`skillcomp.stats.intervals.weighted_rate` and, for
      a delta, the difference of two such intervals;
    - otherwise no estimator. No estimator is recommended, either, if the labelled shares of passes
      and of fails differ too much for a random draw, or if the estimate is outside its range before
      it is clipped (with a calibration set, the clipped estimate is recommended).

    Without a calibration set, the recommended estimator never pools the error rates of conditions,
    because a pooled correction can be worse than none. The choice does not depend on
    p_differential, a test of little power. The limits of the Rogan-Gladen estimators are those of
    Fieller. With a calibration set of 20 labels of each kind and 100 cases, the interval of the
    delta covered 95.3 to 96.6 % of 1,500 simulated studies of each of four designs.
    The labelled shares of passes and of fails differ too much if at most one random draw in a
    thousand would show such a difference (a score test, clustered by case). This is not tested if
    the recorded inclusion probabilities are unequal.

    With six skills of 14 cases, gold on one of two repeats and 3 % errors, a gain of 30 points was
    shown in 42 % of 600 rows of skills, and 98 to 99 % of the intervals covered the true gain. For
    a skill with which alone the grader was lenient (30 % false passes), 95 % did (100 studies). In
    nine further designs, with rates near 0 and 1 and gold on a part of the cases, 97 % or more of
    720 intervals each did.

    The ppi interval was checked in 1500 simulated studies without a true effect. Their
    grader was more lenient with the skill: sensitivity and specificity were .96 and .70 with the
    skill, and .90 and .85 in the baseline. In six designs of 14 to 60 cases, with gold on 14 to 40
    of them, the ppi interval contained 0 in 94 to 97 % of the studies, and the naive
    interval in 27 to 64 %.

    References
    ----------
    Angelopoulos, Duchi and Zrnic 2023, arXiv:2311.01453; Lang and Reiczigel 2014,
    doi:10.1016/j.prevetmed.2013.09.015; Fiedler 2026, arXiv:2605.06939; Begg and Greenes 1983,
    doi:10.2307/2530820.

    Examples
    --------
    >>> import skillcomp as sc
    >>> pilot = sc.datasets.load("pilot")
    >>> verdicts, gold = sc.frames.verdicts(pilot), sc.frames.gold(pilot)
    >>> found = delta(verdicts[verdicts["grader"].eq("g2")], gold)
    >>> found.loc[found["recommended"], "estimator"].tolist()
    ['gold_only']
    """
    return _corrected_rows(
        verdicts,
        gold,
        [reference],
        estimator,
        ci_level,
        interval,
        by=listed(by),
        value=value,
        bounds=bounds,
        cases=cases,
        checks=checks,
        gold_drawn=gold_drawn,
        drawn_by=drawn_by,
        weight=weight,
        cluster=cluster,
    )


def delta_with_rates(
    verdicts: pd.DataFrame,
    gold: pd.DataFrame,
    *,
    reference: str,
    ci_level: float = 0.95,
    interval: IntervalRule = "adaptive",
    **about: Any,
) -> pd.DataFrame:
    """Return the rows of :func:`delta`, then those of :func:`rate`, from one join with gold."""
    how = "auto", ci_level, interval
    return _corrected_rows(verdicts, gold, [reference, None], *how, **about)


def _corrected_rows(
    verdicts: pd.DataFrame,
    gold: pd.DataFrame,
    references: Sequence[str | None],
    estimator: str,
    ci_level: float,
    interval: IntervalRule,
    what: str = "correction.delta",
    **about: Any,
) -> pd.DataFrame:
    """Return the rows of :func:`delta` for each reference, or of :func:`rate` for None."""
    check_settings(what, ci_level)
    made = tables(verdicts, gold, what=what, **about)
    rows: list[pd.DataFrame] = []
    for reference in references:
        if not rows or made.cluster == "skill":
            parts = list(labelled_groups(made, ci_level, deltas=reference is not None))
        rows.append(_estimated_rows(made, parts, estimator, ci_level, interval, reference))
    return pd.concat(rows, ignore_index=True)


def _estimated_rows(
    made: Tables,
    parts: Parts,
    estimator: str,
    ci_level: float,
    interval: IntervalRule,
    reference: str | None = None,
) -> pd.DataFrame:
    """Return the rows of :func:`rate` or, with a reference, of :func:`delta`, in every group."""
    require_known("estimator: found", estimator, get_args(Estimator))
    if estimator == POOLED and "skill" not in made.by:
        raise FrameError(
            f"estimator='{POOLED}' pools the error rates of skills: by= needs 'skill'."
        )
    every = EVERY_ESTIMATOR if "skill" in made.by else ESTIMATORS
    requested = every if estimator == "auto" else (estimator,)
    require_reference(made.cases["condition"], reference)
    compared = [
        (values, group, [condition] if reference is None else [condition, reference])
        for values, group in parts
        for condition in group.sides
        if reference is None or (condition != reference and reference in group.sides)
    ]
    places = [(group, *names) for _, group, names in compared]
    rows = []
    found = estimates_by_name(places, ci_level, interval)
    for (values, group, names), intervals in zip(compared, found, strict=True):
        intervals = {
            name: claimed(each, group.claim, join_notes(each.note, group.claim))
            for name, each in intervals.items()
        }
        own, n_gold = group.used_errors(names[0]), group.n_gold(*names)
        chosen = choose(
            group, names, intervals, n_gold, made.draw, *made.label_notes(values, names)
        )
        if made.value == "score":
            low, high = made.ends
            intervals = {
                name: each.times(high - low, 0.0 if reference else low)
                for name, each in intervals.items()
            }
        about = {**values, "condition": names[0], "n_gold": n_gold}
        about |= {**error_columns(own), "youden": own.j, "gold_drawn": made.draw.words}
        sides = [group.sides[name] for name in names]
        if reference is None:
            lost = lost_attempts(sides, [""])
        else:
            lost = lost_attempts(sides)
            base = group.used_errors(reference)
            tests = differential_tests(*(group.units[name] for name in names))
            about |= {
                **error_columns(base, "reference_"),
                "delta_youden": group.errors[names[0]].j - group.errors[reference].j,
                "p_differential": math.nan if group.by_strata else tests.either.p_value,
                "reference": reference,
            }
        about["reason"] = chosen[1]
        kind = "rate" if reference is None else "delta"
        for word in requested:
            by_gold = replace(intervals[word], n=n_gold)
            # the widths are in points
            has_width = word != "naive" and n_gold > 0 and made.value != "score"
            wide = note_on_width(by_gold, "cases with gold") if has_width else ""
            noted = intervals[word].with_note("" if word == "gold_only" else lost, wide)
            about |= needed_columns(by_gold if has_width else undefined("", ""))
            about |= {"estimator": word, "recommended": word == chosen[0]}
            rows.append(row(f"{kind}_{made.value}", noted, **about))
    extra = [*LEADING, *ERROR_RATES, "youden"]
    if reference is not None:
        base_errors = [f"reference_{name}" for name in ERROR_RATES]
        differences = ("delta_youden", "p_differential")
        extra = [*LEADING, "reference", *ERROR_RATES, *base_errors, *differences]
    result = estimates(
        rows,
        by=[*made.by, "condition"],
        extra=extra,
        outcomes=made.outcomes,
        reference=reference,
    )
    return with_method(result, made.weight)


def choose(
    group: Group,
    conditions: Sequence[str],
    intervals: Intervals,
    n_gold: int,
    draw: Draw,
    settled: str = "",
    strays: str = "",
) -> tuple[str, str]:
    """Return the name of the recommended estimator (empty if there is none), and the reason.

    No estimator is recommended whose interval is wider than that of valid gold alone. ``strays`` is
    the note on gold labels that match no attempt, ``settled`` the note on labels by several
    labellers.
    """
    sides = {name: group.sides[name] for name in conditions}
    choice = _without_a_draw(group, sides, intervals, n_gold, draw)
    name, why = choice or _by_a_draw(group, sides, intervals, n_gold)
    if name and OUTSIDE in intervals[name].note and group.calibration is None:
        why = f"{name}: {intervals[name].note}. Such an estimate is never recommended"
        name = ""
    part = "" if group.by_strata else _partial_gold_note(sides)
    return name, join_notes(why, part, settled, "" if name else strays)


def _without_a_draw(
    group: Group,
    sides: Sides,
    intervals: Intervals,
    n_gold: int,
    draw: Draw,
) -> tuple[str, str] | None:
    """Return the recommendation, or None if it depends on a random draw of gold.

    In that case, `_by_a_draw` chooses.
    """
    few = f"{plural(n_gold, 'case')} with gold, fewer than {FEWEST_GOLD}: label more"
    no_limits = math.isnan(intervals["gold_only"].low)
    whole = all(len(cases) and cases["n_whole"].ge(cases["size"]).all() for cases in sides.values())
    if whole and not no_limits:
        return "gold_only", "every attempt carries gold: the grader is not needed"
    if draw.gold_drawn == "separate":
        if math.isnan(intervals["rogan_gladen_pooled"].low):
            return "", intervals["rogan_gladen_pooled"].note
        return ("", few) if n_gold < FEWEST_GOLD else _by_calibration(group, sides, n_gold)
    without = [name for name in sides if group.n_gold(name) == 0]
    if without:
        why = f"no gold in condition '{without[0]}': the grader's errors there are unknown"
        there = f"gold_drawn='separate' takes those of '{CALIBRATION}'"
        return "", join_notes(why, there if CALIBRATION in group.sides else "")
    if draw.problem:
        return "", draw.problem
    if draw.gold_drawn == "verdict":
        if no_limits:
            return "", intervals["gold_only"].note
        if n_gold < FEWEST_GOLD:
            return "", few
        return "gold_only", f"gold on {n_gold} cases, {draw.words}, weighted within strata"
    alike = {
        name: group.shares[name]
        for name, cases in sides.items()
        if have_equal_chances(cases) and name in group.shares
    }
    unequal = unequal_shares(alike, draw.gold_drawn)
    if draw.gold_drawn == "chosen":
        if math.isnan(intervals["rogan_gladen_by_arm"].low):
            note = intervals["rogan_gladen_by_arm"].note
            why = note if note == SCORES else "a condition lacks gold passes or gold fails"
            return "", join_notes(f"gold was chosen, and {why}", unequal)
        # gold chosen by what it was expected to say leaves the error rates as they are
        right = "gold was chosen, not drawn: right if the error rates of each condition carry over "
        return "rogan_gladen_by_arm", join_notes(f"{right}to its other attempts", unequal)
    if unequal:
        return "", unequal
    if n_gold < FEWEST_GOLD:
        return "", few
    unknown = unrecorded(sides.values())
    return ("", unknown) if unknown else None


def _by_calibration(group: Group, sides: Sides, n_gold: int) -> tuple[str, str]:
    """Recommend error rates of a calibration set; say if gold on the compared answers differs."""
    notes = []
    n_own = sum(map(n_with_gold, sides.values()))
    if n_own:
        notes.append(f"gold on {plural(n_own, 'compared case')} only checks these error rates")
    for name in sides:
        p_value = differential_tests(group.units[name], group.calibration).either.p_value
        if p_value < SIGNIFICANT:
            notes.append(f"by this gold, those of '{name}' differ (p = {p_value:.2g})")
        passes = sides[name]["verdict"].mean()
        least, most = 1.0 - group.pooled.specificity.estimate, group.pooled.sensitivity.estimate
        if not least <= passes <= most:
            beyond = f"'{name}' has {100 * passes:.0f} % passes by the grader; by the error rates "
            beyond += f"of the set, {100 * least:.0f} to {100 * most:.0f} % are possible"
            if (
                passes < 1.0 - group.pooled.specificity.high
                or passes > group.pooled.sensitivity.high
            ):
                return "", f"{beyond}, so they do not carry over"
            notes.append(beyond)
    right = "right if its error rates carry over to all conditions"
    return "rogan_gladen_pooled", join_notes(
        f"a calibration set of {plural(n_gold, 'case')}: {right}", *notes
    )


def _by_a_draw(group: Group, sides: Sides, intervals: Intervals, n_gold: int) -> tuple[str, str]:
    """Recommend an estimator or none, for gold that was drawn at random."""
    note, equal = intervals["ppi"].note, all(map(have_equal_chances, sides.values()))
    unbounded = {name for name, each in intervals.items() if math.isnan(each.low)}
    if not equal:
        unbounded |= {"gold_only", POOLED}
    width = {name: each.high - each.low for name, each in intervals.items()}
    width |= dict.fromkeys(unbounded, math.inf)
    name = "ppi" if width["ppi"] < width["gold_only"] else "gold_only"
    if width[name] == math.inf:
        return "", note
    drawn = f"gold on {n_gold} cases, taken as drawn at random"
    lacks_verdict = pd.concat(s.loc[s["gold"].notna(), "verdict"].isna() for s in sides.values())
    n_lost, n_with_gold = lacks_verdict.sum(), len(lacks_verdict)
    if n_lost > LOST_GOLD * n_with_gold:
        lost = f"{n_lost} of {n_with_gold} cases with gold have no verdict, and ppi leaves them out"
        return ("", lost) if width["gold_only"] == math.inf else ("gold_only", f"{drawn}; {lost}")
    imagined = name == "ppi" and SAFEGUARD in note
    whys = [drawn, FEW_ERRORS if imagined else "nothing assumed of the grader's errors"]
    if not equal:
        whys.append("cases drawn with unequal chances, which gold alone does not weigh")
    elif name == "gold_only":
        whys.append("ppi is no narrower")
    whys.append(f"by their chances {UNSEEN}" if UNSEEN in note else "")
    if width[POOLED] < math.inf:
        skills = [group.skills[side] for side in sides]
        p_value = min(1.0, 2.0 * min(each.p_equal for each in skills))
        others = f"the error rates of {skills[0].n - 1} other skills"
        p_text = f"(p of equal rates {p_value:.2g})"
        if width[POOLED] >= width[name]:
            whys.append(f"no narrower with {others}")
        elif p_value > MAY_BORROW:
            return POOLED, f"{drawn}; this skill borrows {others} {p_text}"
        else:
            whys.append(f"not {others} {p_text}")
    return name, join_notes(*whys)


def _partial_gold_note(sides: Sides) -> str:
    """Return a note that counts the attempts with gold on only some of their checks."""
    sparse = sum(cases["n_sparse"].sum() for cases in sides.values())
    part = sum((cases["n_gold"] - cases["n_whole"]).sum() for cases in sides.values())
    few = f"gold on too few checks of {sparse} attempts, left out" if sparse else ""
    return join_notes(few, f"gold on a part of the checks of {part} attempts" if part else "")


def error_columns(own: Errors, prefix: str = "") -> Fields:
    """Build the columns with sensitivity and specificity; their names start with ``prefix``."""
    return {f"{prefix}{name}": getattr(own, name).estimate for name in ERROR_RATES}


def labelled_groups(made: Tables, ci_level: float, *, deltas: bool = False) -> Parts:
    """Yield each group of ``by``: the values that identify it, and its cases and error rates."""
    labelled, shares = made.labelled(), made.shares_labelled()
    place = [*listed(made.by, "skill"), "condition", "skill"]
    of_skills = _errors_of_skills(made, place, ci_level)
    for values, part in groups(made.cases, made.by):
        note, name = "", "cluster"
        if made.cluster == "skill":
            note = claim(part["skill"], part["cluster"], "skill", delta=deltas, rule="bounded")[1]
            if not few_skills(part["skill"].nunique()):
                name = "skill"
        every = rows_of_group(labelled, values)
        if every.empty:  # a group without gold has no strata
            every = every.drop(columns="stratum", errors="ignore")
        known = rows_of_group(shares, values).set_index("condition").to_dict("index")
        part, every = (t.assign(cluster=pd.factorize(t[name])[0]) for t in (part, every))
        names, by_strata = ordered(part["condition"]), "stratum" in every
        sides = {c: part[part["condition"].eq(c)].reset_index(drop=True) for c in names}
        units = {c: every[every["condition"].eq(c)] for c in names}
        # strata differ between conditions, so no error rates can be pooled over conditions
        whole = every.iloc[:0] if by_strata else every
        calibration = made.calibration_of(values)
        if made.value == "score":
            nothing = undefined("", SCORES, ci_level, 0.0)
            errors = [Errors(nothing, nothing)] * (len(names) + 1)
        else:
            sets = [*units.values(), whole if calibration is None else calibration]
            errors = errors_of(sets, ci_level)
            if calibration is None:
                n_lost = (whole["gold"].notna() & whole["verdict"].isna()).sum()
                errors[-1] = errors[-1]._replace(n_lost=n_lost)
        by_condition = dict(zip(names, errors, strict=False))
        places = {c: key_of({"skill": None, **values, "condition": c}, place) for c in names}
        own = {c: of_skills[at] for c, at in places.items() if at in of_skills}
        about = by_condition, errors[-1], known, by_strata, note, calibration, own
        yield values, Group(sides, units, *about)


def _errors_of_skills(
    made: Tables, place: Sequence[str], ci_level: float
) -> dict[tuple[Any, ...], OfSkills]:
    """Return error rates over all skills, by the values of ``place``, of which the skill is last.

    They are empty unless ``by`` has the skill, and gold is a sample of answers that pass or fail.
    """
    found = {}
    usual = made.draw.gold_drawn in ("random", "chosen") and made.value != "score"
    units = made.units.dropna(subset=["gold", "verdict"])
    units = units if usual and "skill" in made.by else units.iloc[:0]
    for values, rows in groups(units, place[:-1]):
        code, skills = pd.factorize(rows["skill"])
        wrong, passes = rows["verdict"].ne(rows["gold"]), rows["gold"].eq(1.0)
        kinds = [
            [np.bincount(code, kind & counted, len(skills)) for kind in (passes, ~passes)]
            for counted in (wrong, True)
        ]
        (errors,) = errors_of([rows], ci_level)
        for skill, p_value in zip(skills, equal_errors(*kinds), strict=True):
            at = key_of({**values, "skill": skill}, place)
            found[at] = OfSkills(len(skills), errors, p_value)
    return found


NO_POWER = "a p-value that is not small is no licence to pool the conditions"


def differential(
    verdicts: pd.DataFrame,
    gold: pd.DataFrame,
    *,
    by: By = (),
    value: Value = "share_passed",
    reference: str = "baseline",
    gold_drawn: Drawn = "random",
    drawn_by: str | None = None,
    cases: pd.DataFrame | None = None,
    checks: Checks = "all",
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Estimate and test whether the grader's error rates differ between conditions.

    Parameters
    ----------
    verdicts, gold : pandas.DataFrame
        As in :func:`skillcomp.correction.delta`.
    by : str or sequence of str, default ()
        Columns to group by.
    value : {"share_passed", "passed"}, default "share_passed"
        Whether errors are counted on single checks or on whole attempts.
    reference : str, default "baseline"
        Condition with which every other condition is compared.
    gold_drawn, drawn_by : object
        As in :func:`skillcomp.correction.delta`. If gold is ``"separate"``, the calibration set has
        rows, too, with the condition ``calibration``; the other conditions have the error rates of
        their own labels, if there are any. With ``"verdict"`` the rates are weighted within strata,
        and differences have no p-value.
    cases : pandas.DataFrame, optional
        A cases frame; the two cases of a contrast pair then form one cluster.
    checks : {"all", "shared"}, default "all"
        As in :func:`skillcomp.correction.delta`.
    ci_level : float, default 0.95
        Level of the intervals.

    Returns
    -------
    pandas.DataFrame
        Three rows per ``by`` and condition, with the estimates columns. The measures are
        ``sensitivity`` and ``specificity``, from 0 to 1, and ``youden``: their sum minus 1, which
        is 0 if the grader guesses. Every condition other than the reference has three more rows
        with the differences (condition minus reference): ``delta_sensitivity``,
        ``delta_specificity`` and ``delta_youden``. The first two have a ``p_value``, and
        ``p_adjusted`` by Holm over the rows of the measure. ``n`` counts labels. The sensitivity
        is NaN with a note if gold has no passes, the specificity if gold has no fails.

    Raises
    ------
    FrameError
        As in :func:`skillcomp.correction.delta`.

    Notes
    -----
    Rates have the interval of a bounded mean, clustered by case. Differences have limits by
    square-and-add (MOVER). This assumes independent conditions and gives somewhat too wide
    intervals if the same cases have gold under both. The p-values of differences are those of CR2
    with cases as clusters. With 30 to 60 labels the tests have little power, so a large p-value
    does not justify pooling the conditions.

    The comparison pools skills, dimensions and checks. The checks that fail with the skill may
    belong to other skills than the checks that fail in the baseline. Error rates that are equal
    within every skill can then seem to differ, and differences can cancel. To compare within
    skills, use ``by="skill"`` or :func:`skillcomp.bias.audit`. The correction itself needs rates
    that are pooled over skills, because these are the error rates of the condition.

    References
    ----------
    Fiedler 2026, arXiv:2605.06939; Zou and Donner 2008, doi:10.1002/sim.3095.
    """
    names = listed(by, "condition")
    what = "correction.differential"
    check_settings(what, ci_level)
    require_known(f"{what}: value: found", value, get_args(Value))
    made = tables(
        verdicts,
        gold,
        by=names,
        value=value,
        cases=cases,
        checks=checks,
        gold_drawn=gold_drawn,
        drawn_by=drawn_by,
        what=what,
    )
    require_reference(made.cases["condition"], reference)
    rows = []
    for values, group in labelled_groups(made, ci_level):
        units = group.units
        errors = group.errors | ({} if group.calibration is None else {CALIBRATION: group.pooled})
        for condition, own in errors.items():
            made_rows = [row(name, getattr(own, name)) for name in (*ERROR_RATES, "youden")]
            if reference in errors and condition not in (reference, CALIBRATION):
                base = errors[reference]
                # the tests do not weigh gold drawn by verdict
                end = 0 if group.by_strata else None
                tests = differential_tests(*(units[c].iloc[:end] for c in (condition, reference)))
                for name in ERROR_RATES:
                    change = getattr(own, name).minus(getattr(base, name))
                    test = getattr(tests, name)
                    method = f"{change.method}; p by {test.method}"
                    change = replace(change, method=method, p_value=test.p_value)
                    made_rows.append(row(f"delta_{name}", change.with_note(test.note, NO_POWER)))
                made_rows.append(row("delta_youden", youden_difference(own.youden, base.youden)))
            compared = dict.fromkeys([condition, reference])
            lost = lost_attempts(group.sides[n] for n in compared if n in group.sides)
            for each in made_rows:
                note = join_notes(each["note"], lost)
                rows.append(each | values | {"condition": condition, "note": note})
    return estimates(rows, by=[*names, "condition"], outcomes=made.outcomes)
