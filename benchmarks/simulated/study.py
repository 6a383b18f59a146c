"""Simulated studies as valid frames, together with their true values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import pandas as pd
from scipy.special import expit

from benchmarks.simulated import design
from benchmarks.simulated import graders as grading
from benchmarks.simulated import study_frames as frames
from benchmarks.simulated.design import Floats, Layout, Rng, Spread
from benchmarks.simulated.graders import Grader, Items, Rate, Schedule, grade_items
from skillcomp.contrast import Value
from skillcomp.errors import StudyError, suggest
from skillcomp.frames.check import check, empty
from skillcomp.records import Skill

_TRUTH_COLUMNS = ["measure", "target", "value", "condition", "transfer"]
_TRUTH_COLUMNS += ["grader", "grader_version", "period", "true_value"]
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Study:
    """A simulated study: frames that fulfil their contracts, and their true values.

    Attributes
    ----------
    cases, checks, attempts, verdicts, gold, pairwise : pandas.DataFrame
        Frames like those that :mod:`skillcomp.frames` reads from a store.
    labels : pandas.DataFrame
        A gold frame with the truth of every check of every attempt (labeller ``truth``).
    rates : pandas.DataFrame
        One row per case and condition: skill, case_id, transfer, condition, ``behaviour_rate``
        (true chance that a check passes) and ``attempt_rate`` (true chance that all checks of an
        attempt pass).
    truth : pandas.DataFrame
        One row per true quantity, with the columns measure, target, value, condition, transfer,
        grader, grader_version, period and true_value; `true` returns one true value. The measures
        pass_rate, delta and gap have the ``value`` share_passed or passed. Their ``target`` is
        population (exact, over all skills and cases that could be drawn) or these_cases (over the
        cases drawn). The measures sensitivity and specificity are given for each condition. For
        the ``target`` population, true_value is the requested rate; if the grader drifts, there is
        one row for each ``period``, before and after. For these_cases, true_value is the mean
        chance of a correct verdict over this study's met checks (sensitivity) or unmet checks
        (specificity). This mean includes the biases and does not separate the periods. A ``*_bias``
        is the change of the log odds of a PASS per unit of the feature. A ``*_effect`` is the
        average marginal effect of the feature on the chance of a PASS, over the checks of this
        study; the truth of each check is held fixed.
    skills : dict of str to Skill
        The synthetic skills from which answers copy, with slugs as keys.
    planted : pandas.DataFrame
        Properties that the simulation gave to the answers, one row per attempt: attempt_id,
        n_words, n_copied_words, n_hedges, listed (whether the answer is a bullet list).
    conditions : tuple of str
        The conditions in order, the baseline first.
    """

    cases: pd.DataFrame
    checks: pd.DataFrame
    attempts: pd.DataFrame
    verdicts: pd.DataFrame
    gold: pd.DataFrame
    pairwise: pd.DataFrame
    labels: pd.DataFrame
    rates: pd.DataFrame
    truth: pd.DataFrame
    skills: dict[str, Skill]
    planted: pd.DataFrame
    conditions: tuple[str, ...]

    def true(self, measure: str, **where: str | None) -> float:
        """Return one true value.

        Parameters
        ----------
        measure : str
            For example ``"delta"``, ``"gap"`` or ``"sensitivity"``.
        **where : str or None
            Values of other columns of ``truth``; None selects missing values. The default of
            ``transfer`` is None; the default of ``target`` is ``"population"`` if the measure has
            this target.

        Returns
        -------
        float
            Value of the single matching row.

        Raises
        ------
        StudyError
            If no row or more than one row matches.
        """
        hit = self.truth["measure"].eq(measure)
        if not hit.any():
            names = list(dict.fromkeys(self.truth["measure"]))
            raise StudyError(
                f"truth: there is no measure '{measure}'; allowed: {', '.join(names)}."
                + suggest(measure, names)
            )
        values: dict[str, str | None] = {"transfer": None, **where}
        if "target" not in where and self.truth.loc[hit, "target"].eq("population").any():
            values["target"] = "population"
        for name, value in values.items():
            column = self.truth[name]
            hit &= column.isna() if value is None else column.eq(value)
        if hit.sum() != 1:
            fitting = f"{int(hit.sum())} rows of measure '{measure}' fit {values}"
            rule = "name value, condition, grader, grader_version or period so that one is left"
            raise StudyError(f"truth: {fitting}; {rule}.")
        return float(self.truth.loc[hit, "true_value"].iloc[0])


def study(
    *,
    n_skills: int = 6,
    n_cases: int | list[int] = 14,
    n_repeats: int = 2,
    conditions: Sequence[str] = ("baseline", "skill"),
    baseline_rate: float = 0.5,
    delta: float | Mapping[str, float] = 0.2,
    near_far_gap: float | Mapping[str, float] = 0.0,
    value: Value = "share_passed",
    between_skill_sd: float = 0.3,
    between_case_sd: float = 1.0,
    case_effect_sd: float = 0.5,
    skill_level_sd: float = 0.3,
    between_attempt_sd: float = 0.5,
    far_share: float = 0.5,
    contrast_pairs: int = 0,
    checks_per_case: int | list[int] = 5,
    graders: Sequence[Grader] = (Grader("judge"),),
    gold_fraction: float = 0.5,
    labeller_error: float | None = None,
    copying: Rate = 0.0,
    answer_words: Rate = 90.0,
    hedges_per_100: Rate = 1.0,
    listed_share: float = 0.0,
    agent_families: Sequence[str] = ("family-a",),
    attempt_failure_rate: float = 0.0,
    seed: int = 0,
) -> Study:
    """Simulate a study with known delta, gap and grader errors.

    A check of an attempt is met with chance p. The logit of p is the sum of an intercept, a skill
    level, a case level and an attempt level, plus effects of the condition that vary between skills
    and cases. The intercepts are computed by quadrature so that the marginal rates are exactly
    those requested.

    Parameters
    ----------
    n_skills : int, default 6
        Number of skills.
    n_cases : int or list of int, default 14
        Cases per skill: one number, or one for each skill.
    n_repeats : int, default 2
        Attempts per case and condition.
    conditions : sequence of str, default ("baseline", "skill")
        Names of the conditions; the first must be ``"baseline"``.
    baseline_rate : float, default 0.5
        Marginal pass rate of the baseline: a share of checks or of attempts (see `value`).
    delta : float or mapping of str to float, default 0.2
        Marginal rate of a condition minus that of the baseline, for the same `value`. A number is
        the delta of ``skill`` or, if there is no such condition, of the second condition. All other
        conditions, and those missing from a mapping, have a delta of 0.
    near_far_gap : float or mapping of str to float, default 0
        Delta of far cases minus delta of near cases; a number or a mapping, like `delta`.
    value : {"share_passed", "passed"}, default "share_passed"
        Meaning of ``baseline_rate``, ``delta`` and ``near_far_gap``: the share of checks passed, or
        the share of attempts that pass all checks. The rates of the other kind result from these.
        ``truth`` has the rates of both kinds, with equal weight of all cases.
    between_skill_sd, case_effect_sd : float
        Standard deviation, on the logit scale, of a condition's effect between skills and between
        the cases of a skill.
    skill_level_sd, between_case_sd : float
        Standard deviation, on the logit scale, of difficulty between skills and between cases.
        Difficulty is the same under all conditions.
    between_attempt_sd : float, default 0.5
        Standard deviation between attempts, on the logit scale. The checks of an attempt share its
        deviation.
    far_share : float, default 0.5
        Share of the cases of each skill that are far transfer; the number of far cases is rounded
        down.
    contrast_pairs : int, default 0
        Number of contrast pairs among the last cases of each skill. The two cases of a pair are
        equally difficult.
    checks_per_case : int or list of int, default 5
        Checks per case; a list is repeated over the cases. The last check of a case with several
        checks is negative.
    graders : sequence of Grader
        Simulated graders; each grades every attempt.
    gold_fraction : float, default 0.5
        Share of the cases of each skill that have gold labels. These cases and one repeat of each
        are drawn at random, and the repeat is labelled under every condition. The labels are the
        truth; their labeller is ``adjudicated``.
    labeller_error : float, optional
        Error rate of two additional, independent labellers. If None, there are no such labellers.
    copying : float or mapping of str to float, default 0
        Share of an answer's words that form a single span copied from the skill: one number, or one
        per condition.
    answer_words, hedges_per_100 : float or mapping of str to float
        Mean length of answers in words, and mean number of hedge words per 100 words: one number,
        or one per condition.
    listed_share : float, default 0
        Share of answers that are bullet lists.
    agent_families : sequence of str, default ("family-a",)
        Model families of the agents. One is drawn for each case and repeat; it is the same under
        all conditions.
    attempt_failure_rate : float, default 0
        Share of attempts with status ``error``, no answer and no verdicts.
    seed : int, default 0
        Source of all randomness.

    Returns
    -------
    Study
        Frames and truth. Copying, length and hedging do not change the truth of a check; they only
        affect biased graders.

    Raises
    ------
    StudyError
        If a marginal rate is not strictly between 0 and 1, a size is impossible, or a condition is
        not in the study.

    See Also
    --------
    benchmarks.simulated.counts : Thousands of studies as arrays, without frames.

    Notes
    -----
    Effects are logit-normal, checks are independent given the attempt, and all repeats have the
    same distribution. The coverage experiments behind the library's defaults use the same design.
    The quadrature is exact to about 1e-12.

    Examples
    --------
    >>> made = study(n_skills=3, n_cases=4, delta=0.2, near_far_gap=-0.1, seed=1)
    >>> len(made.attempts), round(made.true("delta", value="share_passed"), 10)
    (48, 0.2)
    """
    names = _checked_conditions(conditions)
    rng = np.random.default_rng(seed)
    plan = design.layout(n_skills, n_cases, checks_per_case, far_share, contrast_pairs)
    sds = between_skill_sd, skill_level_sd, between_case_sd, case_effect_sd, between_attempt_sd
    spread = Spread(*sds)
    deltas = _effect_by_condition(delta, names, "delta")
    gaps = _effect_by_condition(near_far_gap, names, "near_far_gap")
    intercepts = design.solve(plan, spread, baseline_rate, deltas, gaps, value)
    logits = design.draw_logits(plan, intercepts, spread, rng, 1)[0]
    grid = frames.Grid(plan, names, n_repeats)
    cases = frames.simulated_cases(plan)
    checks = frames.simulated_checks(plan, cases)
    texts, answers = frames.answers(grid, copying, answer_words, hedges_per_100, listed_share, rng)
    attempts = frames.simulated_attempts(
        grid, cases, answers, agent_families, attempt_failure_rate, rng
    )
    items = frames.items(grid, logits, spread, attempts, checks, answers, rng)
    verdicts, grader_truth = _all_verdicts(graders, items, rng)
    true_rows = _effect_rows(plan, intercepts, spread, logits, names) + grader_truth
    truth = pd.DataFrame(true_rows, columns=_TRUTH_COLUMNS)
    return Study(
        cases=cases,
        checks=checks,
        attempts=attempts,
        verdicts=verdicts,
        gold=frames.simulated_gold(grid, items, gold_fraction, labeller_error, rng),
        pairwise=frames.simulated_pairs(grid, graders, items, rng),
        labels=frames.true_labels(items, slice(None), "truth", items.truth),
        rates=frames.simulated_rates(plan, cases, names, logits, spread),
        truth=truth.astype(dict.fromkeys(_TRUTH_COLUMNS, "str") | {"true_value": "float64"}),
        skills={source.skill.slug: source.skill for source in texts},
        planted=frames.planted(attempts, answers),
        conditions=tuple(names),
    )


def grade(
    made: Study, grader: Grader, *, attempts: pd.DataFrame | None = None, seed: int = 0
) -> pd.DataFrame:
    """Grade the attempts of a study, or perturbed copies of them, with another simulated grader.

    The truth of a copy is that of its source (``source_attempt_id``). Length, hedging and list form
    are those of the copy, so only a biased grader treats a copy differently from its source.

    Parameters
    ----------
    made : Study
        The simulated study.
    grader : Grader
        The additional grader.
    attempts : pandas.DataFrame, optional
        Attempts frame with ``answer`` and, for copies, ``source_attempt_id``. By default the
        attempts of the study. Attempts without an answer are not graded.
    seed : int, default 0
        Source of randomness, independent of the draws of the study.

    Returns
    -------
    pandas.DataFrame
        A verdicts frame.

    Raises
    ------
    StudyError
        If an attempt is neither one of the study nor a copy of one.
    """
    frame = made.attempts if attempts is None else check(attempts, "attempts")
    answered = frame[frame["answer"].notna()].reset_index(drop=True)
    items = _items_with_truth(made, answered)
    # `study` uses `seed` alone; with [seed, 1], these draws are independent of those of `study`
    rng = np.random.default_rng([seed, 1])
    return grade_items(grader, items, rng)[0]


def _checked_conditions(conditions: Sequence[str]) -> list[str]:
    names = list(conditions)
    if len(set(names)) < len(names) or len(names) < 2 or names[0] != "baseline":
        rule = "'baseline' first, then at least one other, each once"
        raise StudyError(f"conditions: found {names}; allowed: {rule}.")
    return names


def _effect_by_condition(value: Rate, names: list[str], what: str) -> list[float]:
    if not isinstance(value, Mapping):
        treated = "skill" if "skill" in names else names[1]
        return [float(value) if name == treated else 0.0 for name in names]
    odd = [name for name in value if name not in names[1:]]
    if odd:
        raise StudyError(
            f"{what}: found condition '{odd[0]}'; allowed: {', '.join(names[1:])}."
            + suggest(odd[0], names[1:])
        )
    return [float(value.get(name, 0.0)) for name in names]


def _all_verdicts(graders: Sequence[Grader], items: Items, rng: Rng) -> tuple[pd.DataFrame, Rows]:
    keys = [(grader.name, grader.version) for grader in graders]
    if len(set(keys)) < len(keys):
        raise StudyError("graders: two have the same name and version; give each its own.")
    graded, rows = [], []
    for grader in graders:
        verdicts, odds, when = grade_items(grader, items, rng)
        graded.append(verdicts)
        rows += _grader_rows(grader, items, odds, when)
    return (pd.concat(graded, ignore_index=True) if graded else empty("verdicts")), rows


def _items_with_truth(made: Study, attempts: pd.DataFrame) -> Items:
    """Return attempts of a study, or copies of them, as `Items` with the truth of each check."""
    source = attempts["source_attempt_id"].fillna(attempts["attempt_id"])
    unknown = source[~source.isin(made.labels["attempt_id"])]
    if len(unknown):
        rule = f"{len(unknown)} are neither attempts of the study nor copies of one"
        raise StudyError(f"attempts: {rule}; the first is '{unknown.iloc[0]}'.")
    keys = {"attempt_id": source, "case_id": attempts["case_id"]}
    rows = pd.DataFrame(keys | {"row": np.arange(len(attempts))})
    about = rows.merge(made.labels[["attempt_id", "check_id", "passed"]], on="attempt_id")
    about = about.sort_values("row", kind="stable")
    on = ["case_id", "check_id"]
    about = about.merge(made.checks[[*on, "check_kind", "goal"]], on=on, how="left")
    words = made.planted["n_words"].to_numpy(dtype=float)
    means = (np.log2(words).mean(), (100 * made.planted["n_hedges"].to_numpy() / words).mean())
    answer = attempts["answer"]
    n_words, n_hedges = answer.str.count(r"\S+"), answer.str.count("(?i)" + frames.HEDGED)
    listed = answer.str.contains(r"(?m)^- ", regex=True)
    features = frames.features_of(n_words, n_hedges, listed, means)
    checks, truth = about[["check_id", "check_kind", "goal"]], about["passed"].to_numpy(dtype=bool)
    row = about["row"].to_numpy()
    return Items(attempts, list(made.conditions), features, row, checks, truth, None)


def _effect_rows(
    plan: Layout, intercepts: Floats, spread: Spread, logits: Floats, conditions: list[str]
) -> Rows:
    """Return the rows of ``truth`` on rates, deltas and gaps, for each ``target`` and ``value``."""
    rows: Rows = []
    for value in get_args(Value):
        power = plan.n_checks if value == "passed" else 1
        by_case = {
            "population": _marginal_rates(plan, intercepts, spread, value),
            "these_cases": design.case_rates(logits, spread.attempt, power),
        }
        for target, rates in by_case.items():
            rows += _contrast_rows(rates, plan, conditions, {"target": target, "value": value})
    return rows


def _marginal_rates(plan: Layout, intercepts: Floats, spread: Spread, value: Value) -> Floats:
    """Return, for each case and condition, the expected rate over the distribution of cases.

    The distribution is that of near cases if the case is near, and of far cases if it is far.
    """
    rates = np.empty(intercepts.shape)
    for far in np.unique(plan.far):
        rows = plan.far == far
        checks = plan.checks(rows)
        for k, intercept in enumerate(intercepts[rows][0]):
            between = spread.between(treated=k > 0)
            rates[rows, k] = design.marginal_rate(intercept, between, spread.attempt, checks, value)
    return rates


def _contrast_rows(rates: Floats, plan: Layout, names: list[str], about: dict[str, str]) -> Rows:
    rows: Rows = []
    strata = {None: np.ones_like(plan.far), "near": ~plan.far, "far": plan.far}
    deltas: dict[str | None, Floats] = {}
    for transfer, where in strata.items():
        if not where.any():
            continue
        means = rates[where].mean(axis=0)
        deltas[transfer] = means - means[0]
        for k, condition in enumerate(names):
            base = {**about, "condition": condition, "transfer": transfer}
            rows.append({"measure": "pass_rate", "true_value": means[k], **base})
            if k:
                rows.append({"measure": "delta", "true_value": deltas[transfer][k], **base})
    if len(deltas) == len(strata):
        gaps = (deltas["far"] - deltas["near"])[1:]
        rows += [
            {"measure": "gap", "true_value": value, "condition": condition, **about}
            for condition, value in zip(names[1:], gaps, strict=True)
        ]
    return rows


def _grader_rows(grader: Grader, items: Items, odds: Floats, when: Schedule) -> Rows:
    """Return the rows of ``truth`` about a grader: biases, and error rates for each ``target``."""
    about = {"grader": grader.name, "grader_version": grader.version}
    rows: Rows = []
    phases = [(None if grader.drift is None else "before", grader.sensitivity, grader.specificity)]
    if grader.drift is not None:
        phases.append(("after", grader.drift[1], grader.drift[2]))
    for period, sensitivity, specificity in phases:
        for measure, rate in (("sensitivity", sensitivity), ("specificity", specificity)):
            values = grading.value_by_condition(rate, items.conditions, measure)
            for condition, value in zip(items.conditions, values, strict=True):
                about_rate = {"target": "population", "condition": condition, "period": period}
                rows.append({"measure": measure, "true_value": value, **about_rate, **about})
    rows += _realised_error_rows(items, odds, about)
    return rows + _bias_rows(grader, items, odds, when, about)


def _realised_error_rows(items: Items, odds: Floats, about: dict[str, str]) -> Rows:
    chance = expit(odds)
    condition = items.attempts["condition"].to_numpy()[items.row]
    rows = []
    for name in items.conditions:
        here, base = condition == name, {"target": "these_cases", "condition": name, **about}
        for measure, which, value in (
            ("sensitivity", here & items.truth, chance),
            ("specificity", here & ~items.truth, 1 - chance),
        ):
            mean = float(value[which].mean()) if which.any() else np.nan
            rows.append({"measure": measure, "true_value": mean, **base})
    return rows


def _bias_rows(
    grader: Grader, items: Items, odds: Floats, when: Schedule, about: dict[str, str]
) -> Rows:
    rows: Rows = []
    for bias in grading.BIASES:
        slope = grader.coefficient(bias)
        rows.append({"measure": f"{bias}_bias", "true_value": slope, **about})
        if bias in ("family", "list"):
            without = odds - slope * grading.feature(grader, items, when, bias) if slope else odds
            effect = float((expit(without + slope) - expit(without)).mean())
        else:
            chance = expit(odds)
            effect = float((slope * chance * (1 - chance)).mean())
        here = {"target": "these_cases", "true_value": effect}
        rows.append({"measure": f"{bias}_effect", **here, **about})
    rows.append({"measure": "position_bias", "true_value": grader.position_bias, **about})
    return rows
