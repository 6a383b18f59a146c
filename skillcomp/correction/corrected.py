"""Pass rates and deltas corrected for grader errors, and tests of differential errors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from scipy.stats import norm

from skillcomp.correction.estimators import (
    ESTIMATORS,
    Condition,
    Errors,
    delta_estimates,
    differential_tests,
    labelled_groups,
    rate_estimates,
    tables,
    unrecorded,
)
from skillcomp.errors import FrameError, plural, require_known
from skillcomp.frames.case_table import Value, missing_note
from skillcomp.frames.check_sets import Checks
from skillcomp.frames.estimates import (
    By,
    check_settings,
    estimates,
    listed,
    require_reference,
    row,
)
from skillcomp.stats.grader_errors import DifferentialTests, youden_difference
from skillcomp.stats.ppi import UNSEEN
from skillcomp.stats.results import HypothesisTest, Interval, join_notes
from skillcomp.stats.significance import holm

Estimator = Literal[
    "auto", "naive", "gold_only", "rogan_gladen_pooled", "rogan_gladen_by_arm", "ppi"
]
Drawn = Literal["random", "chosen"]

# The smallest number of cases with gold for which the coverage of the prediction-powered interval
# was tested.
FEWEST_GOLD = 10
# The note of an estimate has this text if its variance allows for imagined errors of the grader.
SAFEGUARD = "imagined errors"
FEW_ERRORS = "few errors of the grader seen: the interval rests on two imagined ones"
LEADING = ("estimator", "recommended", "reason", "n_gold")
# If gold was drawn at random, this share of the draws gets a warning. It is low, because a table
# can have many rows.
DOUBTED = 0.001


def rate(
    verdicts: pd.DataFrame,
    gold: pd.DataFrame,
    *,
    by: By = (),
    value: Value = "share_passed",
    estimator: Estimator = "auto",
    gold_drawn: Drawn = "random",
    cases: pd.DataFrame | None = None,
    checks: Checks = "all",
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Estimate the true pass rate of each condition, corrected for the grader's errors.

    Repeats are averaged within a case, and cases have equal weight. For a difference between
    conditions use :func:`delta`, which compares the same cases.

    Parameters
    ----------
    verdicts, gold, by, value, estimator, gold_drawn, cases, checks, ci_level
        As in :func:`delta`.

    Returns
    -------
    pandas.DataFrame
        One row per ``by``, condition and estimator, with the estimates columns. The measure is
        ``rate_share_passed`` or ``rate_passed``; estimates are from 0 to 1. ``estimator``,
        ``recommended`` and ``reason`` are as in :func:`delta`. ``n_gold`` counts the cases with
        gold. ``sensitivity``, ``specificity`` and ``youden`` are those of the grader under the
        condition. The sensitivity needs gold passes, the specificity gold fails, and ``youden``
        both; otherwise they are NaN.

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
    interval of :func:`skillcomp.deltas.rates`.
    """
    names = [name for name in listed(by) if name != "condition"]
    check_settings("correction.rate", ci_level)
    requested = estimators_of(estimator, gold_drawn)
    made = tables(
        verdicts,
        gold,
        by=names,
        value=value,
        cases=cases,
        checks=checks,
        what="correction.rate",
        compares=False,
    )
    sides = [
        (values, group, condition)
        for values, group in labelled_groups(made, ci_level)
        for condition in group.sides
    ]
    rates = rate_estimates([(group, condition) for _, group, condition in sides], ci_level)
    rows = []
    for (values, group, condition), intervals in zip(sides, rates, strict=True):
        key = {**values, "condition": condition}
        error, side = group.errors[condition], group.sides[condition]
        n_gold, notes = side.n_gold, made.label_notes(values, [condition])
        chosen = choose({condition: side}, intervals, n_gold, gold_drawn, **notes)
        about: dict[str, Any] = {**error_columns(error), "youden": error.j, "n_gold": n_gold}
        lost = int((side.cases["size"] - side.cases["n"]).sum())
        about["lost"] = f"attempts missing: {lost} of {side.cases['size'].sum()}" if lost else ""
        rows += rows_of(f"rate_{value}", intervals, requested, chosen, key | about)
    extra = [*LEADING, "sensitivity", "specificity", "youden"]
    return estimates(rows, by=[*names, "condition"], extra=extra, outcomes=made.outcomes)


def delta(
    verdicts: pd.DataFrame,
    gold: pd.DataFrame,
    *,
    by: By = (),
    value: Value = "share_passed",
    estimator: Estimator = "auto",
    reference: str = "baseline",
    gold_drawn: Drawn = "random",
    cases: pd.DataFrame | None = None,
    checks: Checks = "all",
    ci_level: float = 0.95,
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
        attempt.
    by : str or sequence of str, default ()
        Columns to group by, such as ``["grader", "skill"]``.
    value : {"share_passed", "passed"}, default "share_passed"
        What is averaged: the share of checks passed, or whether the attempt passes every check.
    estimator : str, default "auto"
        ``"auto"`` returns the rows of every estimator, the name of an estimator only its own rows.
    reference : str, default "baseline"
        Condition with which every other condition is compared.
    gold_drawn : {"random", "chosen"}, default "random"
        ``"random"``: the cases or repeats with gold were drawn at random. ``"chosen"``: they were
        selected, for instance the doubtful ones first. ``ppi`` and ``gold_only`` are then biased,
        and ``rogan_gladen_by_arm`` is recommended.
    cases : pandas.DataFrame, optional
        A cases frame. If given, the members of a contrast pair form one cluster.
    checks : {"all", "shared"}, default "all"
        ``"shared"``: count only checks that the grader was asked about under every condition of the
        case.
    ci_level : float, default 0.95
        Level of the interval.

    Returns
    -------
    pandas.DataFrame
        One row per ``by``, condition other than the reference, and estimator: estimates columns
        (measure ``delta_share_passed`` or ``delta_passed``, estimate from -1 to 1) and

        - estimator: ``naive`` (the grader as it is), ``gold_only`` (cases with gold under both
          conditions), ``rogan_gladen_pooled`` (one sensitivity and specificity for all
          conditions), ``rogan_gladen_by_arm`` (those of each condition), ``ppi`` (PPI++ on paired
          differences);
        - recommended: True for the recommended estimator, in at most one row per ``by`` and
          condition; reason: why this estimator is recommended, or why none is;
        - n_gold: number of cases with gold under both conditions. If no case has gold under both,
          it is the smaller of the two numbers of cases with gold under one condition;
        - sensitivity, specificity, reference_sensitivity, reference_specificity, delta_youden
          (condition minus reference), p_differential (test that the error rates are equal under
          both conditions, clustered by case; the smaller of two p-values after Holm). These columns
          pool skills and checks: see the notes of :func:`differential`.

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
    - ``ppi`` if at least 10 cases drawn at random have gold. It makes no assumption about the
      grader's errors. If the grader errs on fewer than five gold cases in one direction, the
      variance is increased as if gold showed one more error in each direction; ``note`` and
      ``reason`` state this. ``ppi`` is recommended even if the interval of ``gold_only`` is
      narrower. In simulations with rates near 0 and 1, a rule that chose the narrower of the two
      used an interval of ``gold_only`` that contained the true value in only 86 to 89 % of studies;
    - ``rogan_gladen_by_arm`` if the cases with gold were selected. It assumes that the grader's
      error rates under a condition are the same for attempts with and without gold;
    - otherwise none.

    The recommended estimator never pools the error rates of conditions, because a pooled correction
    can be worse than none. The choice does not depend on p_differential, a test of little power.
    ``reason`` warns if the grader passes clearly more or fewer cases (or repeats) with gold than
    without, that is, if only one random draw in a thousand would show so large a difference.

    The recommended interval was checked in 1500 simulated studies without a true effect. Their
    grader was more lenient with the skill: sensitivity and specificity were .96 and .70 with the
    skill, and .90 and .85 in the baseline. In six designs of 14 to 60 cases, with gold on 14 to 40
    of them, the recommended interval contained 0 in 94 to 97 % of the studies, and the naive
    interval in 27 to 64 %.

    References
    ----------
    Angelopoulos, Duchi and Zrnic 2023, arXiv:2311.01453; Lang and Reiczigel 2014,
    doi:10.1016/j.prevetmed.2013.09.015; Fiedler 2026, arXiv:2605.06939.

    Examples
    --------
    >>> from skillcomp import simulate
    >>> made = simulate.study(n_skills=4, delta=0.2, seed=1)
    >>> found = delta(made.verdicts, made.gold)
    >>> found.loc[found["recommended"], "estimator"].tolist()
    ['ppi']
    """
    names = listed(by)
    if "condition" in names:
        raise FrameError(
            "correction.delta: by= names 'condition', which is what is compared. Leave it out."
        )
    check_settings("correction.delta", ci_level)
    requested = estimators_of(estimator, gold_drawn)
    made = tables(
        verdicts, gold, by=names, value=value, cases=cases, checks=checks, what="correction.delta"
    )
    require_reference(made.cases["condition"], reference)
    comparisons = [
        (values, group, condition)
        for values, group in labelled_groups(made, ci_level)
        for condition in group.sides
        if condition != reference and reference in group.sides
    ]
    pairs = [(group, condition, reference) for _, group, condition in comparisons]
    deltas = delta_estimates(pairs, ci_level)
    rows = []
    for (values, group, condition), (intervals, n_gold) in zip(comparisons, deltas, strict=True):
        own, key = group.errors, {**values, "condition": condition}
        two = {c: group.sides[c] for c in (condition, reference)}
        notes = made.label_notes(values, list(two))
        chosen = choose(two, intervals, n_gold, gold_drawn, **notes)
        tests = differential_tests(group.units[condition], group.units[reference])
        about = {
            **error_columns(own[condition]),
            **error_columns(own[reference], "reference_"),
            "delta_youden": own[condition].j - own[reference].j,
            "p_differential": tests.either.p_value,
            "reference": reference,
            "n_gold": n_gold,
            "lost": _lost_attempts(two.values()),
        }
        rows += rows_of(f"delta_{value}", intervals, requested, chosen, key | about)
    error_names = ["sensitivity", "specificity", "reference_sensitivity", "reference_specificity"]
    extra = [*LEADING, "reference", *error_names, "delta_youden", "p_differential"]
    noted: dict[str, Any] = {"outcomes": made.outcomes, "reference": reference}
    return estimates(rows, by=[*names, "condition"], extra=extra, **noted)


def _lost_attempts(sides: Iterable[Condition]) -> str:
    """Return a note on the attempts without a verdict of a condition and its reference."""
    both = [side.cases[["size", "n"]].sum() for side in sides]
    return join_notes(*missing_note([n for s in both for n in (s["size"] - s["n"], s["size"])]))


def estimators_of(estimator: str, gold_drawn: str) -> tuple[str, ...]:
    """Return the estimators to compute; raise FrameError if an argument has an unknown value."""
    require_known("estimator: found", estimator, ("auto", *ESTIMATORS))
    require_known("gold_drawn: found", gold_drawn, get_args(Drawn))
    return ESTIMATORS if estimator == "auto" else (estimator,)


def complete(sides: list[Condition]) -> bool:
    """Return whether every check of every attempt has gold."""
    return all(
        len(side.cases) and bool((side.cases["n_whole"] >= side.cases["size"]).all())
        for side in sides
    )


def choose(
    sides: Mapping[str, Condition],
    intervals: Mapping[str, Interval],
    n_gold: int,
    gold_drawn: Drawn,
    *,
    strays: str = "",
    settled: str = "",
) -> tuple[str, str]:
    """Return the name of the recommended estimator (empty if there is none), and the reason.

    The choice does not depend on the widths of the intervals. If the narrower interval were chosen,
    that of ``gold_only`` would contain the true value in only 86 to 89 % of studies with rates near
    0 and 1. ``strays`` is the note on gold labels that match no attempt, ``settled`` the note on
    labels by several labellers.
    """
    choice = _without_a_draw(sides, intervals, n_gold, gold_drawn)
    name, why = choice or _by_a_draw(sides, intervals, n_gold)
    return name, join_notes(why, _partial_gold_note(sides), settled, "" if name else strays)


def _without_a_draw(
    sides: Mapping[str, Condition],
    intervals: Mapping[str, Interval],
    n_gold: int,
    gold_drawn: Drawn,
) -> tuple[str, str] | None:
    """Recommend an estimator if gold is complete, too scarce or not a random draw, else None."""
    without = [name for name, side in sides.items() if side.n_gold == 0]
    if without:
        return "", f"no gold in condition '{without[0]}': the grader's errors there are unknown"
    if complete(list(sides.values())) and not math.isnan(intervals["gold_only"].low):
        return "gold_only", "every attempt carries gold: the grader is not needed"
    if gold_drawn == "chosen":
        if math.isnan(intervals["rogan_gladen_by_arm"].low):
            return "", "gold was chosen, and a condition lacks gold passes or gold fails"
        return "rogan_gladen_by_arm", (
            "gold was chosen, not drawn: right if the error rates of each condition carry over to "
            "its other attempts"
        )
    if n_gold < FEWEST_GOLD:
        return "", f"{plural(n_gold, 'case')} with gold, fewer than {FEWEST_GOLD}: label more"
    unknown = unrecorded(sides.values())
    return ("", unknown) if unknown else None


def _by_a_draw(
    sides: Mapping[str, Condition], intervals: Mapping[str, Interval], n_gold: int
) -> tuple[str, str]:
    """Recommend ``ppi`` or ``gold_only``, which both assume that gold was drawn at random."""
    lacking = {name: math.isnan(intervals[name].low) for name in ("ppi", "gold_only")}
    equal = all(side.equal_chances for side in sides.values())
    if lacking["ppi"] and (lacking["gold_only"] or not equal):
        return "", intervals["ppi"].note
    drawn = f"gold on {n_gold} cases, taken as drawn at random (gold_drawn='random')"
    name, why = "ppi", ""
    if not equal:
        why = "cases drawn with unequal chances, which gold alone does not weigh"
    elif lacking["ppi"]:
        name, why = "gold_only", "no prediction-powered interval"
    imagined = name == "ppi" and SAFEGUARD in intervals["ppi"].note
    rests = FEW_ERRORS if imagined else "nothing assumed of the grader's errors"
    unseen = f"by their chances {UNSEEN}" if UNSEEN in intervals["ppi"].note else ""
    return name, join_notes(drawn, rests, why, unseen, doubts(sides))


def _partial_gold_note(sides: Mapping[str, Condition]) -> str:
    """Return a note that counts the attempts with gold on only some of their checks."""
    tables = [side.cases for side in sides.values()]
    sparse = int(sum(table["n_sparse"].sum() for table in tables))
    part = int(sum((table["n_gold"] - table["n_whole"]).sum() for table in tables))
    few = f"gold on too few checks of {sparse} attempts, left out" if sparse else ""
    return join_notes(few, f"gold on a part of the checks of {part} attempts" if part else "")


def rows_of(
    measure: str,
    intervals: Mapping[str, Interval],
    estimators: tuple[str, ...],
    chosen: tuple[str, str],
    columns: Mapping[str, Any],
) -> list[dict[str, Any]]:
    """Build one row per estimator, marking the recommended one.

    ``columns`` may have ``lost``, a note for all estimators that use verdicts.
    """
    name, reason = chosen
    shared = {**columns, "reason": reason}
    lost = shared.pop("lost", "")
    rows = [
        row(measure, intervals[word], **shared, estimator=word, recommended=word == name)
        for word in estimators
    ]
    return [
        line | {"note": join_notes(line["note"], "" if line["estimator"] == "gold_only" else lost)}
        for line in rows
    ]


def error_columns(own: Errors, prefix: str = "") -> dict[str, float]:
    """Build the columns with sensitivity and specificity; ``prefix`` begins their names."""
    return {
        f"{prefix}sensitivity": own.sensitivity.estimate,
        f"{prefix}specificity": own.specificity.estimate,
    }


def doubts(sides: Mapping[str, Condition]) -> str:
    """Note the conditions in which the grader's pass rates with and without gold differ clearly.

    Cases with gold are compared with cases without gold, relative to the standard error of a random
    draw. If every case has gold on some of its repeats, these repeats are compared with all repeats
    of the cases. Over all conditions together, one random draw in a thousand gives a note. Cases
    that were drawn with unequal chances may differ and are not compared. A selection that is
    unrelated to the verdicts cannot be noticed.
    """
    reach = float(norm.isf(0.5 * DOUBTED / max(len(sides), 1)))
    drawn_alike = {name: side for name, side in sides.items() if side.equal_chances}
    return join_notes(*(_doubt_of_draw(name, side, reach) for name, side in drawn_alike.items()))


def _doubt_of_draw(name: str, side: Condition, reach: float) -> str:
    table = side.cases[side.cases["verdict"].notna()]
    has = table["gold"].notna()
    if not has.any():
        return ""
    if not has.all():
        inside, outside = table.loc[has, "verdict"], table.loc[~has, "verdict"]
        spread = float(table["verdict"].std()) * math.sqrt(1 / len(inside) + 1 / len(outside))
        there, where = (float(inside.mean()), float(outside.mean())), "of the other cases"
    else:
        part = table[table["n_gold"].eq(table["n_whole"]) & table["n_gold"].lt(table["size"])]
        part = part[part["seen"].notna()]
        if part.empty:
            return ""
        seen, every = part["seen"], part["verdict"]
        spread = float(np.sqrt(((seen - every) ** 2).sum())) / len(part)
        there, where = (float(seen.mean()), float(every.mean())), "of all answers of these cases"
    if abs(there[0] - there[1]) <= reach * spread + 1e-9:
        return ""
    return (
        f"check that chance drew the gold: the grader passes {there[0]:.0%} with gold and "
        f"{there[1]:.0%} {where} ('{name}')"
    )


NO_POWER = "a p-value that is not small is no licence to pool the conditions"


def differential(
    verdicts: pd.DataFrame,
    gold: pd.DataFrame,
    *,
    by: By = (),
    value: Value = "share_passed",
    reference: str = "baseline",
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
        ``p_adjusted`` by Holm over both. ``n`` counts labels. The sensitivity is NaN with a note
        without gold passes, the specificity without gold fails.

    Raises
    ------
    FrameError
        As in :func:`skillcomp.correction.delta`.

    Notes
    -----
    Rates have the interval of a bounded mean, clustered by case. Differences have limits by
    square-and-add (MOVER). This assumes independent conditions and gives somewhat too wide
    intervals if the same cases have gold under both. The p-values of differences are by CR2 over
    cases. With 30 to 60 labels the tests have little power, so a large p-value does not justify
    pooling the conditions.

    The comparison pools skills, dimensions and checks. The checks that fail with the skill may
    belong to other skills than the checks that fail in the baseline. Error rates that are equal
    within every skill can then seem to differ, and differences can cancel. To compare within
    skills, use ``by="skill"`` or :func:`skillcomp.bias.audit`. The correction itself needs rates
    that are pooled over skills, because these are the error rates of the condition.

    References
    ----------
    Fiedler 2026, arXiv:2605.06939; Zou and Donner 2008, doi:10.1002/sim.3095.
    """
    names = [name for name in listed(by) if name != "condition"]
    what = "correction.differential"
    check_settings(what, ci_level)
    made = tables(verdicts, gold, by=names, value=value, cases=cases, checks=checks, what=what)
    require_reference(made.cases["condition"], reference)
    rows: list[dict[str, Any]] = []
    for values, group in labelled_groups(made, ci_level):
        errors, units = group.errors, group.units
        for condition, own in errors.items():
            key = {**values, "condition": condition}
            rates = {"sensitivity": own.sensitivity, "specificity": own.specificity}
            rows += [row(m, i, **key) for m, i in (rates | {"youden": own.youden}).items()]
            if condition != reference and reference in errors:
                tests = differential_tests(units[condition], units[reference])
                rows += [change | key for change in _difference_rows(own, errors[reference], tests)]
    return estimates(rows, by=[*names, "condition"], outcomes=made.outcomes)


def _difference_rows(
    own: Errors, reference: Errors, tests: DifferentialTests
) -> list[dict[str, Any]]:
    rows = []
    pairs: list[tuple[str, Interval, Interval, HypothesisTest]] = [
        ("delta_sensitivity", own.sensitivity, reference.sensitivity, tests.sensitivity),
        ("delta_specificity", own.specificity, reference.specificity, tests.specificity),
    ]
    adjusted = holm([test.p_value for *_, test in pairs])
    for (measure, first, second, test), p_adjusted in zip(pairs, adjusted, strict=True):
        change = first.minus(second)
        change = replace(
            change,
            method=f"{change.method}; p by {test.method}; Holm over two",
            note=join_notes(change.note, test.note, NO_POWER),
            p_value=test.p_value,
        )
        rows.append(row(measure, change) | {"p_adjusted": float(p_adjusted)})
    return [*rows, row("delta_youden", youden_difference(own.youden, reference.youden))]
