"""How large a study must be to see a delta or a near/far gap."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from skillcomp.errors import StudyError
from skillcomp.estimates import estimates
from skillcomp.planning.arguments import number, sizes_of
from skillcomp.planning.cells import (
    LABELS,
    PLAN,
    ask,
    outside,
    stated_parts,
)
from skillcomp.planning.components import Value
from skillcomp.planning.inputs import Cluster, Counts, Effect, Method, Scope
from skillcomp.planning.search import fewest_cases, smallest_effect
from skillcomp.stats.results import undefined

__all__ = ["cases_needed", "minimum_detectable_delta", "power_curve"]


def power_curve(
    pilot: pd.DataFrame | None = None,
    *,
    sizes: float | Sequence[float] = (0.05, 0.1, 0.15, 0.2, 0.3),
    n_skills: Counts = 6,
    n_cases: Counts = 14,
    n_repeats: Counts = 2,
    effect: Effect = "delta",
    cluster: Cluster = "case",
    scope: Scope = "within_dimensions",
    method: Method = "simulation",
    by: Sequence[str] = (),
    value: Value = "passed",
    reference: str = "baseline",
    baseline_rate: float | None = None,
    delta: float | None = None,
    tau2: float | None = None,
    omega2: float | None = None,
    sigma2: float | None = None,
    far_share: float = 0.5,
    n_studies: int = 1000,
    seed: int = 0,
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Say how likely studies of given sizes are to show a delta or a near/far gap.

    Power is the chance that the interval excludes 0 on the right side. Use
    :func:`minimum_detectable_delta` and :func:`cases_needed` for the inverse questions.

    Parameters
    ----------
    pilot : pandas.DataFrame, optional
        An outcomes frame of a pilot, or what :func:`variance_components` returned. Without it the
        assumptions below are needed; with it they take the place of what the pilot says.
    sizes : float or sequence of float
        True effects in rate units; gaps are far minus near and may be negative.
    n_skills, n_cases, n_repeats : int or sequence of int
        Skills, cases per skill, attempts per case and arm; every combination is planned.
    effect : {"delta", "gap"}, default "delta"
        Skill minus baseline, or that delta among far cases minus among near ones.
    cluster : {"case", "skill"}, default "case"
        Whether the claim is about cases like these of these skills, or about skills in general.
    scope : {"within_dimensions", "pooled"}, default "within_dimensions"
        Row of :func:`skillcomp.transfer.gap` that is planned for: near and far compared within
        skills (and dimensions), where a skill's own effect cancels, or all near with all far
        cases, whose interval takes the spread between skills (tau2 of the delta) for noise. A
        delta, and a gap with ``cluster="skill"``, do not depend on it.
    method : {"simulation", "formula"}, default "simulation"
        Simulated studies judged by the library's own interval, or the t formula, which knows no
        ceiling and no switching rule.
    by : sequence of str
        Columns of the pilot that keep rows apart.
    value : {"passed", "share_passed"}, default "passed"
        What the pilot's components are of; the simulation knows attempts passed only.
    reference : str, default "baseline"
        The pilot's reference condition.
    baseline_rate, delta : float, optional
        Pass rate of the baseline, and overall delta (needed to simulate a gap).
    tau2, omega2, sigma2 : float, optional
        Variance of the delta (of the gap) between skills; of the true delta between cases of a
        skill (and distance); between repeats of a case, in either arm. With ``cluster="case"``
        the tau2 of a delta adds to omega2, as it does in an interval by case; so it does for a
        gap with ``scope="pooled"``, whose stated tau2 is that of the delta.
    far_share : float, default 0.5
        Share of far cases, for a gap.
    n_studies, seed : int
        Simulated studies per row and their seed; the same draws for every row.
    ci_level : float, default 0.95
        Level of the planned interval.

    Returns
    -------
    pandas.DataFrame
        One row per ``by``, condition, plan and size: measure ``power``, estimate from 0 to 1,
        limits of the simulation error (95 %; NaN for the formula), and effect, cluster, scope
        (of a gap), n_skills, n_cases (per skill), n_repeats, size; ``skills``, ``cases`` and
        ``repeats`` say the numbers in words for a key, such as "1 repeat". NaN with a note where
        the plan cannot be judged (one skill and ``cluster="skill"``), the size would need a rate
        outside 0 to 1, or this group of the pilot has a baseline of 0 or 1 (which is not
        simulated), no variance, or lacks a component that others have.

    Raises
    ------
    StudyError
        If neither assumptions nor any group of the pilot give what is needed, or a word or number
        is not allowed.
    FrameError
        If the pilot breaks its contract or pools graders.

    See Also
    --------
    gold_needed : How many gold labels.

    Notes
    -----
    Simulated cases have normal effects on the logit scale whose variances reproduce omega2, tau2
    and the baseline's sigma2; the skill arm's sigma2 follows. Where such effects cannot vary as
    much as the pilot's deltas do, the formula takes over and ``note`` says so. A gap is judged
    over all near and far cases, by CR2 or near the boundary MOVER. A pilot with one repeat cannot
    tell cases from repeats: the formula then lets repeats gain nothing, the simulation takes cases
    to differ by 1 on the logit scale.

    References
    ----------
    Miller 2024, arXiv:2411.00640.

    Examples
    --------
    >>> found = power_curve(
    ...     sizes=[0.1, 0.2], omega2=0.05, sigma2=0.15, baseline_rate=0.4, method="formula")
    >>> found["estimate"].round(2).tolist()
    [0.53, 0.98]
    """
    asked = ask(
        pilot,
        effect=effect,
        cluster=cluster,
        method=method,
        by=by,
        value=value,
        reference=reference,
        stated=stated_parts(baseline_rate, delta, tau2, omega2, sigma2),
        far_share=far_share,
        scope=scope,
        n_studies=n_studies,
        seed=seed,
        ci_level=ci_level,
    )
    rows, wanted = [], sizes_of("sizes", sizes)
    for cell in asked.cells(n_skills, n_cases, n_repeats):
        for size in wanted:
            problem = cell.problem or outside(cell, size, asked.ruler)
            found = (
                undefined(asked.ruler.name, problem, ci_level=ci_level)
                if problem
                else asked.ruler.power(cell.plan, cell.known, size)
            )
            rows.append(cell.row("power", found, size=size))
    return estimates(rows, by=[*asked.names, "condition", *PLAN], extra=["size", *LABELS])


def minimum_detectable_delta(
    pilot: pd.DataFrame | None = None,
    *,
    n_skills: Counts = 6,
    n_cases: Counts = 14,
    n_repeats: Counts = 2,
    power: float = 0.8,
    effect: Effect = "delta",
    cluster: Cluster = "case",
    scope: Scope = "within_dimensions",
    method: Method = "simulation",
    by: Sequence[str] = (),
    value: Value = "passed",
    reference: str = "baseline",
    baseline_rate: float | None = None,
    delta: float | None = None,
    tau2: float | None = None,
    omega2: float | None = None,
    sigma2: float | None = None,
    far_share: float = 0.5,
    n_studies: int = 1000,
    seed: int = 0,
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Say the smallest delta (or near/far gap) that studies of given sizes show.

    Parameters
    ----------
    pilot, effect, cluster, scope, method, by, value, reference, baseline_rate, delta
        As in :func:`power_curve`.
    n_skills, n_cases, n_repeats : int or sequence of int
        Skills, cases per skill, attempts per case and arm; every combination is planned.
    power : float, default 0.8
        Wanted chance of showing it.
    tau2, omega2, sigma2, far_share, n_studies, seed, ci_level
        As in :func:`power_curve`.

    Returns
    -------
    pandas.DataFrame
        One row per ``by``, condition and plan: measure ``minimum_detectable_delta`` or
        ``minimum_detectable_gap`` (its size; the skill helping far cases less is simulated),
        estimate in rate units, and effect, cluster, scope, n_skills, n_cases, n_repeats,
        power. No limits, since the components are taken as known: plan for a range of them. NaN
        with a note where no possible effect reaches the power.

    Raises
    ------
    StudyError, FrameError
        As :func:`power_curve`.

    See Also
    --------
    power_curve : The whole curve.

    Notes
    -----
    Formula: (t(1 - alpha / 2) + t(power)) sqrt(variance), with Satterthwaite's degrees of
    freedom. Simulation: bisection with the same draws at every step.

    Examples
    --------
    >>> found = minimum_detectable_delta(
    ...     n_cases=[14, 56], omega2=0.05, sigma2=0.15, method="formula")
    >>> found["estimate"].round(3).tolist()
    [0.138, 0.069]
    """
    asked = ask(
        pilot,
        effect=effect,
        cluster=cluster,
        method=method,
        by=by,
        value=value,
        reference=reference,
        stated=stated_parts(baseline_rate, delta, tau2, omega2, sigma2),
        far_share=far_share,
        scope=scope,
        n_studies=n_studies,
        seed=seed,
        ci_level=ci_level,
    )
    _check_power(power, ci_level)
    rows = [
        cell.row(
            f"minimum_detectable_{effect}", smallest_effect(cell, asked.ruler, power), power=power
        )
        for cell in asked.cells(n_skills, n_cases, n_repeats)
    ]
    return estimates(rows, by=[*asked.names, "condition", *PLAN], extra=["power"])


def _check_power(power: float, ci_level: float) -> None:
    if not 1 - ci_level < number("power", power, least=0, most=1) < 1:
        raise StudyError(
            f"power: found {power}; allowed: above {1 - ci_level:.3g} (the error rate) and below 1."
        )


def cases_needed(
    pilot: pd.DataFrame | None = None,
    *,
    size: float | Sequence[float] = 0.1,
    n_skills: Counts = 6,
    n_repeats: Counts = 2,
    power: float = 0.8,
    effect: Effect = "delta",
    cluster: Cluster = "case",
    scope: Scope = "within_dimensions",
    method: Method = "simulation",
    by: Sequence[str] = (),
    value: Value = "passed",
    reference: str = "baseline",
    baseline_rate: float | None = None,
    delta: float | None = None,
    tau2: float | None = None,
    omega2: float | None = None,
    sigma2: float | None = None,
    far_share: float = 0.5,
    n_studies: int = 1000,
    seed: int = 0,
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Say how many cases per skill show a delta (or near/far gap) of a wanted size.

    Parameters
    ----------
    pilot, effect, cluster, scope, method, by, value, reference, baseline_rate, delta
        As in :func:`power_curve`.
    size : float or sequence of float, default 0.1
        True effects in rate units; a gap is far minus near and may be negative.
    n_skills, n_repeats : int or sequence of int
        Skills, and attempts per case and arm; every combination is planned.
    power : float, default 0.8
        Wanted chance of showing it.
    tau2, omega2, sigma2, far_share, n_studies, seed, ci_level
        As in :func:`power_curve`.

    Returns
    -------
    pandas.DataFrame
        Three rows per ``by``, condition, plan and size: measure ``cases_per_skill``,
        ``cases_in_all`` and ``attempts`` (both arms, all repeats), and effect, cluster, scope,
        n_skills, n_cases (per skill), n_repeats, size, power. No limits, as in
        :func:`minimum_detectable_delta`. NaN with a note where no number of cases suffices: with
        few skills that differ, more cases do not help.

    Raises
    ------
    StudyError, FrameError
        As :func:`power_curve`.

    See Also
    --------
    gold_needed : How many of these cases need gold labels.

    Notes
    -----
    The smallest number found by bisection; simulated power wavers by its error (about 1.3 points
    at 1,000 studies), and with it the answer by a few per cent.

    Examples
    --------
    >>> found = cases_needed(
    ...     size=0.1, n_repeats=[1, 3], omega2=0.05, sigma2=0.15, method="formula")
    >>> found.loc[found["measure"].eq("cases_per_skill"), "estimate"].tolist()
    [47.0, 20.0]
    """
    asked = ask(
        pilot,
        effect=effect,
        cluster=cluster,
        method=method,
        by=by,
        value=value,
        reference=reference,
        stated=stated_parts(baseline_rate, delta, tau2, omega2, sigma2),
        far_share=far_share,
        scope=scope,
        n_studies=n_studies,
        seed=seed,
        ci_level=ci_level,
    )
    _check_power(power, ci_level)
    rows, wanted = [], sizes_of("size", size)
    for cell in asked.cells(n_skills, 2 if effect == "delta" else 4, n_repeats):
        for one in wanted:
            found = fewest_cases(cell, asked.ruler, one, power)
            n = found.estimate
            planned = replace(cell, plan=replace(cell.plan, n_cases=0 if math.isnan(n) else int(n)))
            in_all = n * cell.plan.n_skills
            for measure, count in (
                ("cases_per_skill", n),
                ("cases_in_all", in_all),
                ("attempts", in_all * 2 * cell.plan.n_repeats),
            ):
                shown = replace(found, estimate=count)
                rows.append(planned.row(measure, shown, size=one, power=power))
    return estimates(rows, by=[*asked.names, "condition", *PLAN], extra=["size", "power"])
