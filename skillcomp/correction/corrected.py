"""Corrected pass rates and deltas, several estimators side by side and one recommended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from skillcomp import deltas
from skillcomp.correction.choice import (
    LEADING,
    Drawn,
    Method,
    checked,
    choose,
    error_columns,
    looked_up,
    rows_of,
)
from skillcomp.correction.errors import (
    Errors,
    by_condition,
    compare,
    errors,
    no_units,
    ordered,
    require_reference,
)
from skillcomp.correction.estimators import (
    Arm,
    by_arm_delta,
    corrected_rate,
    paired_cases,
    pooled_delta,
    pooled_rate,
    ppi_delta,
    ppi_rate,
)
from skillcomp.correction.tables import VALUES, Tables, Unit, key_of, tables
from skillcomp.errors import FrameError
from skillcomp.estimates import check_settings, estimates, groups, listed
from skillcomp.stats.results import Interval


def rate(
    verdicts: pd.DataFrame,
    gold: pd.DataFrame,
    *,
    by: Sequence[str] = (),
    unit: Unit = "behaviour",
    method: Method = "auto",
    gold_drawn: Drawn = "random",
    cases: pd.DataFrame | None = None,
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Say how often attempts truly pass under each condition, the grader's errors put right.

    Cases weigh equally; repeats are averaged inside a case. For a difference between conditions
    use :func:`delta`, which works on the cases both have.

    Parameters
    ----------
    verdicts, gold, by, unit, method, gold_drawn, cases, ci_level
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
    Recommended as in :func:`delta`, but ``ppi`` is kept where gold alone has a narrower interval:
    near 1, gold alone covered 93 % in simulated studies and ``ppi`` 97 to 100 %.
    """
    names = [name for name in listed(by) if name != "condition"]
    check_settings("correction.rate", ci_level)
    wanted = checked(method, gold_drawn)
    made = tables(verdicts, gold, by=names, unit=unit, cases=cases, what="correction.rate")
    plain = looked_up(made, deltas.rates, "grader", ci_level)
    true = looked_up(made, deltas.rates, "gold", ci_level)
    rows = []
    for values, group in _groups(made, ci_level):
        for condition, arm in group.arms.items():
            key = {**values, "condition": condition}
            naive, error = plain(key), group.errors[condition]
            found = {
                "naive": naive,
                "gold_only": true(key),
                "rogan_gladen_pooled": pooled_rate(naive.estimate, arm, group.pooled, ci_level),
                "rogan_gladen_by_arm": corrected_rate(naive.estimate, arm, error, ci_level),
                "ppi": ppi_rate(arm, ci_level),
            }
            # a t interval of a share near 1 from few cases covers too little: never preferred
            choice = choose(
                {condition: arm},
                found,
                arm.n_gold,
                gold_drawn,
                clearly=0.0,
                strays=made.strays,
                settled=made.settled(values, [condition]),
            )
            about = error_columns(error) | {
                "youden": error.youden.estimate,
                "n_gold": arm.n_gold,
            }
            rows += rows_of(f"rate_{VALUES[unit]}", found, wanted, choice, key | about)
    extra = [*LEADING, "sensitivity", "specificity", "youden"]
    return estimates(rows, by=[*names, "condition"], extra=extra)


@dataclass(frozen=True)
class _Group:
    """Cases, labels and error rates of each condition of a group."""

    arms: dict[str, Arm]
    units: dict[str, pd.DataFrame]
    errors: dict[str, Errors]
    pooled: Errors


def _groups(made: Tables, ci_level: float) -> Iterator[tuple[dict[str, Any], _Group]]:
    labelled = made.labelled()
    for values, part in groups(made.cases, made.by):
        names = ordered(part["condition"])
        every = labelled.get(key_of(values, made.by), no_units())
        units = by_condition(every, names)
        yield (
            values,
            _Group(
                {c: Arm(part[part["condition"].eq(c)].reset_index(drop=True)) for c in names},
                units,
                {c: errors(units[c], ci_level) for c in names},
                errors(every, ci_level),
            ),
        )


def delta(
    verdicts: pd.DataFrame,
    gold: pd.DataFrame,
    *,
    by: Sequence[str] = (),
    unit: Unit = "behaviour",
    method: Method = "auto",
    reference: str = "baseline",
    gold_drawn: Drawn = "random",
    cases: pd.DataFrame | None = None,
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Say how much the skill truly changes, when the grader may be lenient to one arm.

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
        gave one; ``reason`` then counts them for the arms of its row, and how many match no
        attempt where gold does not suffice.
    by : sequence of str
        Columns of the verdicts that keep rows apart, such as ``["grader", "skill"]``.
    unit : {"behaviour", "attempt"}, default "behaviour"
        Share of behaviours met, or whole attempts passed (every behaviour met).
    method : str, default "auto"
        ``"auto"`` gives every estimator and recommends one; the name of an estimator gives its
        rows only.
    reference : str, default "baseline"
        The condition that every other one is compared with.
    gold_drawn : {"random", "chosen"}, default "random"
        ``"random"``: chance alone decided which cases, or which repeats, carry gold.
        ``"chosen"``: not so (doubtful ones first, for instance); the prediction-powered and the
        gold-only estimate are then wrong and Rogan-Gladen by arm is recommended.
    cases : pandas.DataFrame, optional
        Makes the two members of a contrast pair one cluster.
    ci_level : float, default 0.95
        Level of the interval.

    Returns
    -------
    pandas.DataFrame
        One row per ``by``, condition other than the reference, and estimator: estimates columns
        (measure ``delta_share_passed`` or ``delta_passed``, estimate from -1 to 1) and

        - estimator: ``naive`` (the grader as it is), ``gold_only`` (cases with gold in both
          arms), ``rogan_gladen_pooled`` (one sensitivity and specificity for all conditions),
          ``rogan_gladen_by_arm`` (those of each arm), ``ppi`` (PPI++ on paired differences);
        - recommended: True in at most one row of a group; reason says why, or why none is;
        - n_gold: cases with gold in both arms (in the smaller arm where none has both);
        - sensitivity, specificity, reference_sensitivity, reference_specificity, delta_youden
          (of the condition minus the reference), p_differential (equal error rates in both arms;
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
    cases drawn at random, ``ppi``, or ``gold_only`` where its interval is narrower by a tenth
    and all cases had the same chance (that choice looks at the data, and the coverage below
    includes it; neither assumes anything about the grader's errors, but where gold shows few of
    them ``ppi`` adds imagined ones to its interval, and ``note`` and ``reason`` say so); gold
    that was chosen, ``rogan_gladen_by_arm``, which assumes that the error rates of an arm carry
    over from its labels to its other attempts; otherwise none. It never pools error rates over
    conditions (a pooled correction can be worse than none) and does not depend on
    p_differential, which has little power. Whether gold was drawn at random is yours to say;
    ``reason`` warns where the grader passes clearly more or less in cases with gold than in the
    others (or on the repeats with gold), which a random draw does once in a thousand times.

    With no true effect and a grader more lenient to the skill arm (sensitivity .90 against .96,
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
    wanted = checked(method, gold_drawn)
    made = tables(verdicts, gold, by=names, unit=unit, cases=cases, what="correction.delta")
    require_reference(made, reference)
    plain = looked_up(made, deltas.paired, "grader", ci_level, reference=reference)
    true = looked_up(made, deltas.paired, "gold", ci_level, reference=reference)
    rows = []
    for values, group in _groups(made, ci_level):
        arms, own = group.arms, group.errors
        for condition in [c for c in arms if c != reference and reference in arms]:
            key = {**values, "condition": condition}
            two = {c: arms[c] for c in (condition, reference)}
            found, n_gold = _estimated(plain(key), true(key), two, group, ci_level)
            settled = made.settled(values, list(two))
            choice = choose(two, found, n_gold, gold_drawn, strays=made.strays, settled=settled)
            tests = compare(group.units[condition], group.units[reference])
            about = {
                **error_columns(own[condition]),
                **error_columns(own[reference], "reference_"),
                "delta_youden": own[condition].youden.estimate - own[reference].youden.estimate,
                "p_differential": tests.either.p_value,
                "reference": reference,
                "n_gold": n_gold,
            }
            rows += rows_of(f"delta_{VALUES[unit]}", found, wanted, choice, key | about)
    shown = ["sensitivity", "specificity", "reference_sensitivity", "reference_specificity"]
    extra = [*LEADING, "reference", *shown, "delta_youden", "p_differential"]
    return estimates(rows, by=[*names, "condition"], extra=extra)


def _estimated(
    naive: Interval,
    gold_only: Interval,
    two: dict[str, Arm],
    group: _Group,
    ci_level: float,
) -> tuple[dict[str, Interval], int]:
    """Return every estimate of one delta, and how many cases with gold it rests on."""
    arm, base = two.values()
    pairs = paired_cases(arm, base)
    n_gold = int(pairs["gold"].notna().sum()) or min(arm.n_gold, base.n_gold)
    sides = (
        corrected_rate(float(one.cases["verdict"].mean()), one, group.errors[name], ci_level)
        for name, one in two.items()
    )
    found = {
        "naive": naive,
        "gold_only": gold_only,
        "rogan_gladen_pooled": pooled_delta(naive, group.pooled, n_gold, ci_level),
        "rogan_gladen_by_arm": by_arm_delta(*sides),
        "ppi": ppi_delta(arm, base, pairs, ci_level),
    }
    return found, n_gold
