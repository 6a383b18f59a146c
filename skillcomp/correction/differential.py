"""The grader's error rates under each condition, and tests of their difference."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pandas as pd

from skillcomp.contrast import Value, lost_attempts
from skillcomp.correction.delta_and_rate import ERROR_RATES, labelled_groups
from skillcomp.correction.estimators import differential_tests, tables
from skillcomp.errors import require_known
from skillcomp.frames.estimates import (
    By,
    check_settings,
    estimates,
    listed,
    require_reference,
    row,
)
from skillcomp.frames.outcomes import Checks
from skillcomp.frames.reference_labels import CALIBRATION, Drawn
from skillcomp.stats.results import join_notes
from skillcomp.stats.significance_and_grader_errors import youden_difference

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
