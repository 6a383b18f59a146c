"""Whether the grader errs differently under two conditions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from skillcomp.correction.estimators import (
    Errors,
    Unit,
    by_condition,
    differential_tests,
    errors_of,
    key_of,
    no_units,
    tables,
)
from skillcomp.frames.contract import ordered
from skillcomp.frames.estimates import (
    check_settings,
    estimates,
    groups,
    listed,
    require_reference,
    row,
)
from skillcomp.stats.grader_errors import DifferentialTests, youden_difference
from skillcomp.stats.multiplicity import holm
from skillcomp.stats.results import HypothesisTest, Interval

NO_POWER = "a p-value that is not small is no licence to pool the conditions"


def differential(
    verdicts: pd.DataFrame,
    gold: pd.DataFrame,
    *,
    by: Sequence[str] = (),
    unit: Unit = "behaviour",
    reference: str = "baseline",
    cases: pd.DataFrame | None = None,
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Say whether the grader errs differently with the skill than without it.

    Parameters
    ----------
    verdicts, gold : pandas.DataFrame
        As in :func:`skillcomp.correction.delta`.
    by : sequence of str
        Columns of the verdicts that keep rows apart.
    unit : {"behaviour", "attempt"}, default "behaviour"
        Errors about single behaviours, or about whole attempts.
    reference : str, default "baseline"
        The condition that every other one is compared with.
    cases : pandas.DataFrame, optional
        Makes the two members of a contrast pair one cluster.
    ci_level : float, default 0.95
        Level of the intervals.

    Returns
    -------
    pandas.DataFrame
        Per ``by`` and condition three rows of the estimates frame: measure ``sensitivity``,
        ``specificity`` (0 to 1) and ``youden`` (their sum less 1; 0 is guessing). For every
        condition other than the reference also ``delta_sensitivity``, ``delta_specificity``
        (with p_value, and p_adjusted by Holm over the two) and ``delta_youden``, condition minus
        reference. ``n`` counts the labels behind it. NaN with a note where gold has no unit of
        the class.

    Raises
    ------
    FrameError
        As in :func:`skillcomp.correction.delta`.

    Notes
    -----
    Rates: the interval of a bounded mean, clustered by case. Differences: limits by the method of
    variance estimates recovery, which takes the conditions as independent and is somewhat too wide
    where the same cases carry gold under both; p-values by CR2 over cases. With 30 to 60 labels the
    test has little power, so a large p-value is no licence to pool the conditions.

    The comparison is crude over skills, dimensions and checks: the behaviours that fail with the
    skill need not be of the skills whose behaviours fail in the baseline, and a grader that
    errs alike within every skill can then show a difference (or hide one). Put ``"skill"`` in
    ``by``, or ask :func:`skillcomp.bias.audit`, which compares within a skill. For the
    correction itself crude rates are the right ones: they belong to the conditions as they are.

    References
    ----------
    Fiedler 2026, arXiv:2605.06939; Zou and Donner 2008, doi:10.1002/sim.3095.
    """
    names = [name for name in listed(by) if name != "condition"]
    what = "correction.differential"
    check_settings(what, ci_level)
    made = tables(verdicts, gold, by=names, unit=unit, cases=cases, what=what)
    require_reference(made.cases["condition"], reference)
    rows: list[dict[str, Any]] = []
    labelled = made.labelled()
    for values, part in groups(made.cases, names):
        units = by_condition(
            labelled.get(key_of(values, names), no_units()), ordered(part["condition"])
        )
        found = dict(zip(units, errors_of(list(units.values()), ci_level), strict=True))
        for condition, own in found.items():
            key = {**values, "condition": condition}
            named = {"sensitivity": own.sensitivity, "specificity": own.specificity}
            rows += [row(m, i, **key) for m, i in (named | {"youden": own.youden}).items()]
            if condition != reference and reference in found:
                tests = differential_tests(units[condition], units[reference])
                rows += [one | key for one in _differences(own, found[reference], tests)]
    return estimates(rows, by=[*names, "condition"])


def _differences(own: Errors, reference: Errors, tests: DifferentialTests) -> list[dict[str, Any]]:
    rows = []
    pairs: list[tuple[str, Interval, Interval, HypothesisTest]] = [
        ("delta_sensitivity", own.sensitivity, reference.sensitivity, tests.sensitivity),
        ("delta_specificity", own.specificity, reference.specificity, tests.specificity),
    ]
    adjusted = holm([test.p_value for *_, test in pairs])
    for (measure, first, second, test), p_adjusted in zip(pairs, adjusted, strict=True):
        found = first.minus(second)
        found = replace(
            found,
            method=f"{found.method}; p by {test.method}; Holm over two",
            note="; ".join(filter(None, (found.note, test.note, NO_POWER))),
            p_value=test.p_value,
        )
        rows.append(row(measure, found) | {"p_adjusted": float(p_adjusted)})
    return [*rows, row("delta_youden", youden_difference(own.youden, reference.youden))]
