"""How often the grader errs, by condition, and whether the conditions differ."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from skillcomp.correction.tables import Tables, Unit, key_of, tables
from skillcomp.errors import FrameError, suggest
from skillcomp.estimates import check_settings, estimates, groups, listed, row
from skillcomp.records import CONDITIONS
from skillcomp.stats.agreement import sensitivity, specificity
from skillcomp.stats.differential import DifferentialTests, differential_misclassification
from skillcomp.stats.intervals import mover_difference
from skillcomp.stats.misclassification import youden, youden_difference
from skillcomp.stats.multiplicity import holm
from skillcomp.stats.results import HypothesisTest, Interval, undefined

NO_POWER = "a p-value that is not small is no licence to pool the conditions"


@dataclass(frozen=True)
class Errors:
    """Sensitivity and specificity of one arm or of several pooled."""

    sensitivity: Interval
    specificity: Interval

    @property
    def youden(self) -> Interval:
        """How much better than chance the grader is."""
        return youden(self.sensitivity, self.specificity)

    @property
    def known(self) -> bool:
        """Whether both rates are defined."""
        return not math.isnan(self.sensitivity.estimate + self.specificity.estimate)


def errors(units: pd.DataFrame, ci_level: float) -> Errors:
    """Return sensitivity and specificity with intervals by case.

    Parameters
    ----------
    units : pandas.DataFrame
        One row per unit with gold: verdict, gold, cluster.
    ci_level : float
        Level of the intervals.

    Returns
    -------
    Errors
        Each NaN with a note where gold has no unit of its class.
    """
    verdict, gold = units["verdict"].to_numpy(), units["gold"].to_numpy()
    two = (
        one(verdict, gold, clusters=units["cluster"].to_numpy(), ci_level=ci_level)
        for one in (sensitivity, specificity)
    )
    return Errors(*two)


def by_condition(units: pd.DataFrame, conditions: Iterable[str]) -> dict[str, pd.DataFrame]:
    """Return the units of each condition, an empty frame where it has none."""
    return {name: units[units["condition"].eq(name)] for name in conditions}


def no_units() -> pd.DataFrame:
    """Return units of a group without gold."""
    columns = {"verdict": "float64", "gold": "float64", "cluster": "int64", "condition": "str"}
    return pd.DataFrame({name: pd.Series(dtype=dtype) for name, dtype in columns.items()})


def compare(arm: pd.DataFrame, base: pd.DataFrame) -> DifferentialTests:
    """Test whether the grader errs alike in two arms, clustered by case.

    Parameters
    ----------
    arm, base : pandas.DataFrame
        Units as of :func:`errors`.

    Returns
    -------
    DifferentialTests
        Sensitivity, specificity, either.
    """
    verdict, gold, cluster = (
        np.concatenate([arm[name].to_numpy(), base[name].to_numpy()])
        for name in ("verdict", "gold", "cluster")
    )
    first = np.arange(len(verdict)) < len(arm)
    return differential_misclassification(verdict, gold, first, clusters=cluster)


def ordered(conditions: Iterable[str]) -> list[str]:
    """Return conditions in their fixed order, others after by first appearance."""
    found = list(dict.fromkeys(conditions))
    return [c for c in CONDITIONS if c in found] + [c for c in found if c not in CONDITIONS]


def require_reference(made: Tables, reference: str) -> None:
    """Raise FrameError when the frame is not empty and has no such condition."""
    found = ordered(made.cases["condition"])
    if found and reference not in found:
        raise FrameError(
            f"reference: there is no condition '{reference}'; there: {', '.join(found)}."
            + suggest(reference, found)
        )


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
    """Say whether the grader errs differently in the skill arm than in the baseline.

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
    Rates: Wilson's interval on effective n, clustered by case. Differences: limits by the method
    of variance estimates recovery, which takes the arms as independent and is somewhat too wide
    where the same cases carry gold in both; p-values by CR2 over cases. With 30 to 60 labels the
    test has little power, so a large p-value is no licence to pool the arms.

    The comparison is crude over skills, dimensions and checks: the behaviours that fail in the
    skill arm need not be of the skills whose behaviours fail in the baseline, and a grader that
    errs alike within every skill can then show a difference (or hide one). Put ``"skill"`` in
    ``by``, or ask :func:`skillcomp.bias.audit`, which compares within a skill. For the
    correction itself crude rates are the right ones: they belong to the arms as they are.

    References
    ----------
    Fiedler 2026, arXiv:2605.06939; Zou and Donner 2008, doi:10.1002/sim.3095.
    """
    names = [name for name in listed(by) if name != "condition"]
    what = "correction.differential"
    check_settings(what, ci_level)
    made = tables(verdicts, gold, by=names, unit=unit, cases=cases, what=what)
    require_reference(made, reference)
    rows: list[dict[str, Any]] = []
    labelled = made.labelled()
    for values, part in groups(made.cases, names):
        units = by_condition(
            labelled.get(key_of(values, names), no_units()), ordered(part["condition"])
        )
        found = {c: errors(frame, ci_level) for c, frame in units.items()}
        for condition, own in found.items():
            key = {**values, "condition": condition}
            named = {"sensitivity": own.sensitivity, "specificity": own.specificity}
            rows += [row(m, i, **key) for m, i in (named | {"youden": own.youden}).items()]
            if condition != reference and reference in found:
                tests = compare(units[condition], units[reference])
                rows += [one | key for one in _differences(own, found[reference], tests)]
    return estimates(rows, by=[*names, "condition"])


def _differences(arm: Errors, base: Errors, tests: DifferentialTests) -> list[dict[str, Any]]:
    rows = []
    pairs: list[tuple[str, Interval, Interval, HypothesisTest]] = [
        ("delta_sensitivity", arm.sensitivity, base.sensitivity, tests.sensitivity),
        ("delta_specificity", arm.specificity, base.specificity, tests.specificity),
    ]
    adjusted = holm([test.p_value for *_, test in pairs])
    for (measure, first, second, test), p_adjusted in zip(pairs, adjusted, strict=True):
        found = _minus(first, second)
        found = replace(
            found,
            method=f"{found.method}; p by {test.method}; Holm over two",
            note="; ".join(filter(None, (found.note, test.note, NO_POWER))),
            p_value=test.p_value,
        )
        rows.append(row(measure, found) | {"p_adjusted": float(p_adjusted)})
    return [*rows, row("delta_youden", youden_difference(arm.youden, base.youden))]


def _minus(first: Interval, second: Interval) -> Interval:
    if math.isnan(first.low + second.low):
        reason = "; ".join(filter(None, (first.note, second.note)))
        return undefined("MOVER", reason or "an arm has no limits", ci_level=first.ci_level)
    return mover_difference(first, second)
