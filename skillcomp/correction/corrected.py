"""Corrected pass rates and deltas, and whether the grader errs differently between conditions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from scipy.stats import norm

from skillcomp.correction.estimators import (
    ESTIMATORS,
    Condition,
    Errors,
    Tables,
    by_condition_delta,
    corrected_rate,
    differential_tests,
    errors_of,
    key_of,
    no_units,
    paired_cases,
    plain_deltas,
    plain_rates,
    pooled_delta,
    pooled_rate,
    ppi_delta,
    ppi_rate,
    tables,
    unrecorded,
)
from skillcomp.errors import FrameError, plural, require_known
from skillcomp.frames.case_table import Value
from skillcomp.frames.estimates import (
    By,
    check_settings,
    estimates,
    groups,
    listed,
    ordered,
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

# The prediction-powered interval was measured from this many cases on.
FEWEST_GOLD = 10
# The words by which the prediction-powered note names the two errors it imagines.
SAFEGUARD = "imagined errors"
FEW_ERRORS = "few errors of the grader seen: the interval rests on two imagined ones"
LEADING = ("estimator", "recommended", "reason", "n_gold")
# Of gold that chance drew, one in a thousand is doubted: a table of many rows must not cry wolf.
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
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Say how often attempts truly pass under each condition, the grader's errors put right.

    Cases weigh equally; repeats are averaged inside a case. For a difference between conditions
    use :func:`delta`, which works on the cases both have.

    Parameters
    ----------
    verdicts, gold, by, value, estimator, gold_drawn, cases, ci_level
        As in :func:`delta`.

    Returns
    -------
    pandas.DataFrame
        One row per ``by``, condition and estimator: estimates columns (measure
        ``rate_share_passed`` or ``rate_passed``, estimate from 0 to 1), estimator, recommended,
        reason, n_gold (cases with gold), sensitivity, specificity, youden of the grader under
        this condition (NaN where gold has no unit of a class). Estimators as in :func:`delta`.

    Raises
    ------
    FrameError
        As :func:`delta`.

    See Also
    --------
    delta : The paired difference.

    Notes
    -----
    Recommended as in :func:`delta`. ``naive`` and ``gold_only`` have the interval of
    :func:`skillcomp.deltas.rates`.
    """
    names = [name for name in listed(by) if name != "condition"]
    check_settings("correction.rate", ci_level)
    wanted = estimators_of(estimator, gold_drawn)
    made = tables(verdicts, gold, by=names, value=value, cases=cases, what="correction.rate")
    asked = [
        (values, group, condition)
        for values, group in _groups(made, ci_level)
        for condition in group.sides
    ]
    plain = plain_rates([group.sides[condition] for _, group, condition in asked], ci_level)
    rows = []
    for (values, group, condition), both in zip(asked, plain, strict=True):
        key = {**values, "condition": condition}
        naive, error, side = both["verdict"], group.errors[condition], group.sides[condition]
        found = {
            "naive": naive,
            "gold_only": both["gold"],
            "rogan_gladen_pooled": pooled_rate(naive, side, group.pooled, ci_level),
            "rogan_gladen_by_arm": corrected_rate(naive, side, error, ci_level),
            "ppi": ppi_rate(side, ci_level),
        }
        one, n_gold, settled = {condition: side}, side.n_gold, made.settled(values, [condition])
        chosen = choose(one, found, n_gold, gold_drawn, strays=made.strays, settled=settled)
        about = error_columns(error) | {"youden": error.j, "n_gold": n_gold}
        rows += rows_of(f"rate_{value}", found, wanted, chosen, key | about)
    extra = [*LEADING, "sensitivity", "specificity", "youden"]
    return estimates(rows, by=[*names, "condition"], extra=extra)


@dataclass(frozen=True)
class _Group:
    """Cases, labels and error rates of each condition of a group."""

    sides: dict[str, Condition]
    units: dict[str, pd.DataFrame]
    errors: dict[str, Errors]
    pooled: Errors


def _groups(made: Tables, ci_level: float) -> Iterator[tuple[dict[str, Any], _Group]]:
    labelled = made.labelled()
    for values, part in groups(made.cases, made.by):
        names = ordered(part["condition"])
        every = labelled.get(key_of(values, made.by), no_units())
        units = {c: every[every["condition"].eq(c)] for c in names}
        found = errors_of([*units.values(), every], ci_level)
        sides = {c: Condition(part[part["condition"].eq(c)].reset_index(drop=True)) for c in names}
        yield values, _Group(sides, units, dict(zip(names, found[:-1], strict=True)), found[-1])


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
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Say how much the skill truly changes, when the grader may be lenient under one condition.

    Pairs on the case, averages repeats inside it and gives each case one vote, as
    :func:`skillcomp.deltas.paired` does for the grader's own verdicts.

    Parameters
    ----------
    verdicts : pandas.DataFrame
        A verdicts frame: skill, case_id, condition, attempt_id, check_id, status, passed. A
        failed grader is a gap, never a fail.
    gold : pandas.DataFrame
        A gold frame: attempt_id, check_id, passed, inclusion_probability where cases were drawn
        with unequal chances (then for every label: known for some alone, ``ppi`` is NaN and none
        is recommended). On some of the cases, or on one repeat of every case. An attempt with gold
        on fewer than half of its checks has none; for whole attempts, one with gold on not all of
        them (a part settles an attempt only where it fails). Of several labellers the adjudicated
        label is taken, without one the label on which they agree, or that of the only one who
        gave one; ``reason`` then counts them for the conditions of its row, and how many match no
        attempt where gold does not suffice.
    by : str or sequence of str, default ()
        Columns of the verdicts that keep rows apart, such as ``["grader", "skill"]``.
    value : {"share_passed", "passed"}, default "share_passed"
        Share of behaviours met, or whole attempts passed (every behaviour met).
    estimator : str, default "auto"
        ``"auto"`` gives every estimator and recommends one; the name of an estimator gives its
        rows only.
    reference : str, default "baseline"
        The condition that every other one is compared with.
    gold_drawn : {"random", "chosen"}, default "random"
        ``"random"``: chance alone decided which cases, or which repeats, carry gold.
        ``"chosen"``: not so (doubtful ones first, for instance); the prediction-powered and the
        gold-only estimate are then wrong and ``rogan_gladen_by_arm`` is recommended.
    cases : pandas.DataFrame, optional
        Makes the two members of a contrast pair one cluster.
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
        - recommended: True in at most one row of a group; reason says why, or why none is;
        - n_gold: cases with gold under both conditions (under the one with fewer where none has
          both);
        - sensitivity, specificity, reference_sensitivity, reference_specificity, delta_youden
          (of the condition minus the reference), p_differential (equal error rates under both;
          smaller of two p-values after Holm, clustered by case). All of them are crude over what
          the rows hold: see the notes of :func:`differential`.

        NaN with a note where gold does not allow an estimate.

    Raises
    ------
    FrameError
        If a frame breaks its contract, graders, rounds, agents, altered copies or labellers would
        be pooled, the reference is missing, ``by`` names ``condition``, or an argument is unknown.

    See Also
    --------
    differential : The error rates themselves, with intervals.

    Notes
    -----
    The recommendation: gold on every check of every attempt, ``gold_only``; gold on at least 10
    cases drawn at random, ``ppi`` (it assumes nothing about the grader's errors, but where gold
    shows few of them it adds imagined ones to its interval, and ``note`` and ``reason`` say so;
    that gold alone is narrower is no reason to prefer it, near 0 and 1 it then covered 86 %);
    gold that was chosen, ``rogan_gladen_by_arm``, which assumes that the error rates of a condition
    carry over from its labels to its other attempts; otherwise none. It never pools error rates of
    conditions (a pooled correction can be worse than none) and does not depend on
    p_differential, which has little power. Whether gold was drawn at random is yours to say;
    ``reason`` warns where the grader passes clearly more or less in cases with gold than in the
    others (or on the repeats with gold), which a random draw does once in a thousand times.

    With no true effect and a grader more lenient with the skill (sensitivity .90 against .96,
    specificity .85 against .70; six designs of 14 to 60 cases, gold on 14 to 40 of them) the
    recommended interval covered 94 to 97 % of 1500 simulated studies, the naive one 27 to 64 %.

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
    wanted = estimators_of(estimator, gold_drawn)
    made = tables(verdicts, gold, by=names, value=value, cases=cases, what="correction.delta")
    require_reference(made.cases["condition"], reference)
    asked = [
        (values, group, condition)
        for values, group in _groups(made, ci_level)
        for condition in group.sides
        if condition != reference and reference in group.sides
    ]
    compared = [(group.sides[condition], group.sides[reference]) for _, group, condition in asked]
    rows = []
    for (values, group, condition), plain in zip(
        asked, plain_deltas(compared, ci_level), strict=True
    ):
        sides, own = group.sides, group.errors
        key = {**values, "condition": condition}
        two = {c: sides[c] for c in (condition, reference)}
        found, n_gold = _estimated(plain, two, group, ci_level)
        settled = made.settled(values, list(two))
        chosen = choose(two, found, n_gold, gold_drawn, strays=made.strays, settled=settled)
        tests = differential_tests(group.units[condition], group.units[reference])
        about = {
            **error_columns(own[condition]),
            **error_columns(own[reference], "reference_"),
            "delta_youden": own[condition].j - own[reference].j,
            "p_differential": tests.either.p_value,
            "reference": reference,
            "n_gold": n_gold,
        }
        rows += rows_of(f"delta_{value}", found, wanted, chosen, key | about)
    shown = ["sensitivity", "specificity", "reference_sensitivity", "reference_specificity"]
    extra = [*LEADING, "reference", *shown, "delta_youden", "p_differential"]
    return estimates(rows, by=[*names, "condition"], extra=extra)


def _estimated(
    plain: dict[str, Interval],
    two: dict[str, Condition],
    group: _Group,
    ci_level: float,
) -> tuple[dict[str, Interval], int]:
    """Return every estimate of one delta, and how many cases with gold it rests on."""
    side, base = two.values()
    pairs = paired_cases(side, base)
    n_gold = int(pairs["gold"].notna().sum()) or min(side.n_gold, base.n_gold)
    rates = plain_rates(list(two.values()), ci_level)
    sides = (
        corrected_rate(own["verdict"], one, group.errors[name], ci_level)
        for own, (name, one) in zip(rates, two.items(), strict=True)
    )
    found = {
        "naive": plain["verdict"],
        "gold_only": plain["gold"],
        "rogan_gladen_pooled": pooled_delta(plain["verdict"], group.pooled, n_gold, ci_level),
        "rogan_gladen_by_arm": by_condition_delta(*sides),
        "ppi": ppi_delta(side, base, pairs, ci_level),
    }
    return found, n_gold


def estimators_of(estimator: str, gold_drawn: str) -> tuple[str, ...]:
    """Return the estimators to give, or raise FrameError for an unknown word."""
    require_known("estimator: found", estimator, ("auto", *ESTIMATORS))
    require_known("gold_drawn: found", gold_drawn, get_args(Drawn))
    return ESTIMATORS if estimator == "auto" else (estimator,)


def complete(sides: list[Condition]) -> bool:
    """Whether gold is on every check of every attempt, so that nothing is left to estimate."""
    return all(
        len(side.cases) and bool((side.cases["n_whole"] >= side.cases["size"]).all())
        for side in sides
    )


def choose(
    sides: Mapping[str, Condition],
    found: Mapping[str, Interval],
    n_gold: int,
    gold_drawn: Drawn,
    *,
    strays: str = "",
    settled: str = "",
) -> tuple[str, str]:
    """Return the recommended estimator, or an empty name, and the reason.

    Widths decide nothing: taking the narrower of two intervals is a choice by chance, and where
    gold alone was taken for its width it covered 86 to 89 % near 0 and 1. ``strays`` says how many
    gold labels match no attempt, ``settled`` how the labels of several labellers were settled.
    """
    name, why = _without_a_draw(sides, found, n_gold, gold_drawn) or _by_a_draw(
        sides, found, n_gold
    )
    return name, join_notes(why, _partly(sides), settled, "" if name else strays)


def _without_a_draw(
    sides: Mapping[str, Condition],
    found: Mapping[str, Interval],
    n_gold: int,
    gold_drawn: Drawn,
) -> tuple[str, str] | None:
    """Choose where it does not matter how gold was drawn, or where there is too little of it."""
    without = [name for name, side in sides.items() if side.n_gold == 0]
    if without:
        return "", f"no gold in condition '{without[0]}': the grader's errors there are unknown"
    if complete(list(sides.values())) and not math.isnan(found["gold_only"].low):
        return "gold_only", "every attempt carries gold: the grader is not needed"
    if gold_drawn == "chosen":
        if math.isnan(found["rogan_gladen_by_arm"].low):
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
    sides: Mapping[str, Condition], found: Mapping[str, Interval], n_gold: int
) -> tuple[str, str]:
    """Choose between the two estimators that take gold as drawn at random."""
    lacking = {name: math.isnan(found[name].low) for name in ("ppi", "gold_only")}
    equal = all(side.equal_chances for side in sides.values())
    if lacking["ppi"] and (lacking["gold_only"] or not equal):
        return "", found["ppi"].note
    given = f"gold on {n_gold} cases, taken as drawn at random (gold_drawn='random')"
    name, why = "ppi", ""
    if not equal:
        why = "cases drawn with unequal chances, which gold alone does not weigh"
    elif lacking["ppi"]:
        name, why = "gold_only", "no prediction-powered interval"
    imagined = name == "ppi" and SAFEGUARD in found["ppi"].note
    rests = FEW_ERRORS if imagined else "nothing assumed of the grader's errors"
    unseen = f"by their chances {UNSEEN}" if UNSEEN in found["ppi"].note else ""
    return name, join_notes(given, rests, why, unseen, doubts(sides))


def _partly(sides: Mapping[str, Condition]) -> str:
    """Say how many attempts carry gold on a part of their checks only, "" where none does."""
    tables = [side.cases for side in sides.values()]
    sparse = int(sum(table["n_sparse"].sum() for table in tables))
    part = int(sum((table["n_gold"] - table["n_whole"]).sum() for table in tables))
    few = f"gold on too few checks of {sparse} attempts, left out" if sparse else ""
    return join_notes(few, f"gold on a part of the checks of {part} attempts" if part else "")


def rows_of(
    measure: str,
    found: Mapping[str, Interval],
    wanted: tuple[str, ...],
    chosen: tuple[str, str],
    columns: Mapping[str, Any],
) -> list[dict[str, Any]]:
    """Return one row per wanted estimator with the recommendation."""
    name, reason = chosen
    return [
        row(measure, found[one], **columns, estimator=one, recommended=one == name, reason=reason)
        for one in wanted
    ]


def error_columns(own: Errors, prefix: str = "") -> dict[str, float]:
    """Return sensitivity and specificity as columns."""
    return {
        f"{prefix}sensitivity": own.sensitivity.estimate,
        f"{prefix}specificity": own.specificity.estimate,
    }


def doubts(sides: Mapping[str, Condition]) -> str:
    """Say where the grader passes clearly more or less where gold is, "" where it does not.

    Cases with gold are held against the others by the spread that a draw of cases has; where every
    case has gold on a part of its repeats, these repeats against all of the case. One draw in a
    thousand is doubted, the conditions together. Gold that is chosen by what the grader cannot see
    passes unnoticed, and so do cases drawn with unequal chances, which may differ.
    """
    reach = float(norm.isf(0.5 * DOUBTED / max(len(sides), 1)))
    told = (_doubt(name, side, reach) for name, side in sides.items() if side.equal_chances)
    return join_notes(*told)


def _doubt(name: str, side: Condition, reach: float) -> str:
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
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Say whether the grader errs differently with the skill than without it.

    Parameters
    ----------
    verdicts, gold : pandas.DataFrame
        As in :func:`skillcomp.correction.delta`.
    by : str or sequence of str, default ()
        Columns of the verdicts that keep rows apart.
    value : {"share_passed", "passed"}, default "share_passed"
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
    made = tables(verdicts, gold, by=names, value=value, cases=cases, what=what)
    require_reference(made.cases["condition"], reference)
    rows: list[dict[str, Any]] = []
    for values, group in _groups(made, ci_level):
        found, units = group.errors, group.units
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
            note=join_notes(found.note, test.note, NO_POWER),
            p_value=test.p_value,
        )
        rows.append(row(measure, found) | {"p_adjusted": float(p_adjusted)})
    return [*rows, row("delta_youden", youden_difference(own.youden, reference.youden))]
