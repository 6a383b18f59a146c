"""Skills in general, with the next skill; verdicts by dimension, and policies to combine them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Literal, get_args

import numpy as np
import pandas as pd

from skillcomp.contrast import MIN_SKILLS, MISSING, Value, compared_outcomes, few_skills
from skillcomp.deltas.paired_deltas_and_price import deltas_and_units
from skillcomp.deltas.unpaired_rates_and_pass_k import rates
from skillcomp.errors import FrameError, require_known, suggest
from skillcomp.frames.check import check, settle
from skillcomp.frames.contracts import CASE, CONTRACTS
from skillcomp.frames.estimates import (
    By,
    estimates,
    grouped,
    groups,
    listed,
    refuse_pooling,
    require_columns,
    row,
    rows_of_group,
)
from skillcomp.records import SCHEMA_WEIGHTS, dimension_family
from skillcomp.stats.bounded import IntervalRule, bounded_mean
from skillcomp.stats.random_effects import prediction_interval, random_effects
from skillcomp.stats.results import Fields, undefined

WHAT = "skillverdicts.across"
ALL, NEXT = "all skills", "next skill"
# Name of the column of weights; it is a phrase, because the column "method" of the result shows it.
_EQUAL = "1 / cases of the skill"


def across(
    outcomes: pd.DataFrame,
    *,
    by: By = (),
    reference: str = "baseline",
    value: Value = "passed",
    average: By = (),
    ci_level: float = 0.95,
    interval: IntervalRule = "adaptive",
) -> pd.DataFrame:
    """Estimate mean and spread of the effects of skills, and predict the effect of the next skill.

    The skills are treated as a sample of similar skills, and each counts equally. The effect of
    each skill is also pooled partially with the others.

    Parameters
    ----------
    outcomes : pandas.DataFrame
        An outcomes frame of one grader (or include ``grader`` in ``by``) with five skills or more.
    by : str or sequence of str
        Columns that group the rows, other than ``skill``.
    reference, value, average, ci_level, interval
        As in :func:`skillcomp.deltas.paired`; ``interval`` applies only to the rows ``delta_...``
        and ``mean_delta``.

    Returns
    -------
    pandas.DataFrame
        Rows with the estimates columns for each ``by`` and condition other than the reference.
        ``skill`` is the skill, "all skills" or "next skill"; ``measure`` names the row:

        ``delta_passed`` (or ``delta_share_passed``)
            The delta of the skill, from :func:`skillcomp.deltas.paired`.
        ``pooled_delta``
            The delta of the skill, drawn towards the mean; nearer to the truth on average.
        ``mean_delta``
            The mean over the skills, from :func:`skillcomp.deltas.paired` with
            ``cluster="skill"`` and equal weights of the skills.
        ``next_skill_delta``
            The mean, with the prediction interval for the true delta of the next skill.
        ``between_skill_sd``
            The standard deviation of the true deltas of skills. ``p_value`` tests that all skills
            have the same delta.

        ``n`` counts the cases in the rows of one skill, and the skills in all other rows.
        ``reference`` and the columns about missing attempts are as in
        :func:`skillcomp.deltas.paired`. With fewer than five skills in a group, its rows about
        skills in general are NaN with a note.

    Raises
    ------
    FrameError
        As :func:`skillcomp.deltas.paired`, if ``by`` names ``skill``, or if no group has five
        skills.

    See Also
    --------
    skillcomp.plots.estimates : Draws the rows with the unit ``points``; see the example.
    skillcomp.stats.prediction_interval, skillcomp.stats.random_effects : The methods.

    Notes
    -----
    The squared standard error of the delta of a skill is sigma squared divided by the skill's
    number of clusters. Sigma squared is pooled over the skills, as in an analysis of variance, for
    two reasons. If all cases of a skill have the same delta, the standard error of this skill alone
    is 0. And a variance that depends on the delta would bias the weights.

    The prediction interval covers the next skill in at least 93 % of studies of 5 to 30 skills, in
    simulations with normal effects, with lopsided effects, and with an effect in only a few skills
    (``docs/intervals.md``). It cannot cover a rare skill that is unlike all skills of the study, so
    the coverage is an average over the skills that could come next. The interval of the standard
    deviation assumes normal effects, and is too low if only few skills have an effect. The interval
    of the mean can be wider than the prediction interval. It has to allow for rare skills that are
    unlike all observed ones, because they change the true mean. The prediction interval need not,
    because the next skill is seldom one of them.

    Examples
    --------
    Six skills with ten cases each; ``passed`` has the number of passed cases of each skill.

    >>> import pandas as pd
    >>> passed = {"baseline": [3, 2, 4, 5, 1, 3], "skill": [9, 6, 8, 7, 8, 5]}
    >>> frame = pd.DataFrame([
    ...     {"skill": f"s{i}", "case_id": f"s{i}/{k}", "condition": condition, "passed": k < n}
    ...     for condition, numbers in passed.items()
    ...     for i, n in enumerate(numbers) for k in range(10)])
    >>> rows = across(frame)
    >>> rows.loc[rows["skill"].isin([ALL, NEXT]), ["measure", "estimate"]].round(2)
                 measure  estimate
    12        mean_delta      0.42
    13  next_skill_delta      0.42
    14  between_skill_sd      0.14

    ``sc.plots.estimates(rows[rows["unit"].eq("points")], y="skill", hue="measure")`` draws them.
    """
    require_known(f"{WHAT}: value: found", value, get_args(Value))
    names, levels = listed(by), listed(average)
    if "skill" in names:
        raise FrameError(f"{WHAT}: by= names 'skill', over which the effect is estimated.")
    how: Fields = {"reference": reference, "value": value, "average": levels}
    outcomes = compared_outcomes(outcomes, [*names, "skill"], WHAT, **how)
    how |= {"ci_level": ci_level, "interval": interval}
    raw = deltas_and_units(outcomes, WHAT, by=[*names, "skill"], **how)[0]
    keys = [*names, "condition"]
    counts = raw[raw["n"].gt(0)].groupby(keys, dropna=False)["skill"].nunique()
    if len(raw) and counts.max() < MIN_SKILLS:
        raise FrameError(
            f"{WHAT}: {few_skills(int(counts.max())) or 'no case has outcomes in both conditions'}."
            " For these skills alone: sc.skillverdicts.decide(outcomes), or sc.deltas.paired("
            "outcomes) for their mean."
        )
    rows = [
        about | values | {"reference": reference}
        for values, skills in groups(raw, keys)
        for about in _rows_of_group(outcomes, skills, values, how)
    ]
    return estimates(rows, by=[*keys, "skill"], extra=["reference", *MISSING])


def _rows_of_group(
    outcomes: pd.DataFrame, skills: pd.DataFrame, values: Fields, how: Fields
) -> Iterator[Fields]:
    """Yield the rows of one condition: those of each skill, then mean, next skill and spread."""
    used = skills[skills["n"].gt(0)]
    few, level = few_skills(len(used)), how["ci_level"]
    y = used["estimate"].to_numpy(float)
    if few:
        nothing = undefined("", few, ci_level=level, n=len(used))
        pooled, following, spread = [nothing] * len(used), nothing, nothing
    else:
        # the squared standard error of each skill's delta, from one pooled variance; se is NaN if
        # all cases have the same delta
        n, se = used["n_clusters"].to_numpy(float), used["se"].fillna(0.0).to_numpy(float)
        df = np.maximum(n - 1.0, 0.0)
        variances = (df @ (n * se**2)) / max(df.sum(), 1.0) / n
        effects = random_effects(y, variances, ci_level=level)
        pooled, spread = effects.pooled, effects.sd
        following = prediction_interval(y, bounds=(-1.0, 1.0), ci_level=level)
    of_skill = dict(zip(used["skill"], pooled, strict=True))
    for _, about in skills.iterrows():
        yield dict(about)
        if (shrunk := of_skill.get(about["skill"])) is not None:
            shrunk = replace(
                shrunk,
                low=max(shrunk.low, -1.0),
                high=min(shrunk.high, 1.0),
                n=about["n"],
                n_clusters=about["n_clusters"],
            )
            yield row("pooled_delta", shrunk, skill=about["skill"])
    if few:
        yield row("mean_delta", nothing, skill=ALL)
    else:
        yield _mean_row(outcomes, used, values, how)
    yield row("next_skill_delta", following, skill=NEXT)
    yield row("between_skill_sd", spread, skill=ALL)


def _mean_row(outcomes: pd.DataFrame, used: pd.DataFrame, values: Fields, how: Fields) -> Fields:
    """Return the row of the mean over skills, each with the same weight."""
    weights = (1.0 / used["n"]).rename(_EQUAL)
    sides = outcomes["condition"].isin([values["condition"], how["reference"]])
    part = rows_of_group(outcomes[sides], {k: v for k, v in values.items() if k != "condition"})
    part = part.merge(used[["skill"]].assign(**{_EQUAL: weights}), on="skill")
    how = how | {"by": [], "cluster": "skill", "weight": _EQUAL}
    mean = deltas_and_units(part, WHAT, **how)[0].iloc[0]
    return dict(mean) | {"measure": "mean_delta", "skill": ALL, "n": mean["n_clusters"]}


Policy = Literal["strict", "weighted", "pass_count"]


def dimensions(
    outcomes: pd.DataFrame, *, by: By = ("skill",), ci_level: float = 0.95
) -> pd.DataFrame:
    """Decide which dimensions each skill passes under each condition.

    Parameters
    ----------
    outcomes : pandas.DataFrame
        An outcomes frame of one grader (or include ``grader`` in ``by``).
    by : str or sequence of str, default ("skill",)
        Columns that group the rows; one verdict per group, condition and dimension.
    ci_level : float, default 0.95
        Level of the interval of the rate.

    Returns
    -------
    pandas.DataFrame
        One row per ``by``, condition and comprehension_dimension. The estimates columns hold the
        rate of attempts passed, with an interval by case. ``n_cases`` and ``n_cases_passed`` count
        the cases; a case is passed if more than half of its repeats pass. ``passed`` is True if
        every case is passed, False if a case fails, and NA if no case fails but one has no outcome.
        ``score`` is a mark from 1 to 5, with the limits ``score_low`` and ``score_high``.

    Notes
    -----
    The score is derived from the binary checks (report 9.4). An answer that passes 5 of 5 checks
    scores 5, one that passes 4 of 5 scores 4, and no answer scores less than 1. Scores are averaged
    over repeats, then over cases. The interval is that of a bounded mean, on the scale of the
    score. Use ``passed`` as the verdict, because a score hides which check failed.
    """
    names = listed(by, "comprehension_dimension", "condition")
    keys = [*names, "comprehension_dimension"]
    checked = check(outcomes, "outcomes")
    refuse_pooling(checked, names, "skillverdicts.dimensions")
    checked = checked.dropna(subset="comprehension_dimension")
    level = rates(checked, by=keys, ci_level=ci_level)
    marks = ((5 * checked["share_passed"] - 1) / 4).clip(lower=0.0)
    given_marks = checked.assign(share_passed=marks)
    marked = rates(given_marks, by=keys, value="share_passed", ci_level=ci_level)
    marked = marked.set_index([*keys, "condition"])[["estimate", "ci_low", "ci_high"]]
    marked = 1 + 4 * marked.set_axis(["score", "score_low", "score_high"], axis=1)
    scored = checked.assign(passed=checked["passed"].astype("float64"))
    shares = grouped(scored, [*keys, "condition", *CASE])["passed"].mean().reset_index(name="share")
    shares = shares.assign(won=shares["share"].gt(0.5), failed=shares["share"].le(0.5))
    verdict = grouped(shares, [*keys, "condition"]).agg(
        n_cases=("won", "size"), n_cases_passed=("won", "sum"), failed=("failed", "any")
    )
    passed = verdict["n_cases_passed"].eq(verdict["n_cases"]).astype("boolean")
    verdict["passed"] = passed.where(passed | verdict.pop("failed"))
    verdict = verdict.reset_index()
    verdict = verdict.merge(marked.reset_index(), on=[*keys, "condition"], how="left")
    return level.merge(verdict, on=[*keys, "condition"], how="left")


def together(
    judged: pd.DataFrame,
    *,
    first: str = "C4",
    second: str = "C7",
    by: By = (),
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Estimate how often skills pass one of two dimensions without the other.

    Parameters
    ----------
    judged : pandas.DataFrame
        The result of :func:`dimensions`, with ``skill`` in its ``by``.
    first, second : str, default "C4" and "C7"
        The two dimensions. The comprehension report (9.2) considers merging C4 (boundary) and C7
        (misconception), the defaults.
    by : str or sequence of str
        Columns that group the rows, in addition to ``condition``.
    ci_level : float, default 0.95
        Level of the intervals.

    Returns
    -------
    pandas.DataFrame
        Four rows per ``by`` and condition, with the estimates columns and the columns ``first``
        and ``second``. The measures are ``both_rate``, ``first_only_rate``, ``second_only_rate``
        and ``neither_rate``. Each is a share of the skills that have a verdict on both dimensions,
        with the interval of a bounded mean over skills. If both dimensions measure the same thing,
        the two ``only`` rates are near 0. NaN with a note if no skill has both verdicts.

    Raises
    ------
    FrameError
        For an unknown dimension, or the same dimension twice.
    """
    if first == second:
        raise FrameError(f"second: found '{second}' twice; give two different dimensions.")
    names = listed(by, "condition")
    keys = listed([*names, "condition", "skill"])
    what = "skillverdicts.together"
    require_columns(judged, [*keys, "comprehension_dimension", "passed"], what)
    family = dimension_family(judged["comprehension_dimension"])
    _require_dimensions(family, first=[first], second=[second])
    judged = _checked_verdicts(judged, keys, what, "name in by= what tells them apart")
    chosen = judged[judged["comprehension_dimension"].isin([first, second])]
    passed = chosen.set_index([*keys, "comprehension_dimension"])["passed"].astype("float64")
    table = passed.unstack("comprehension_dimension")
    wide = pd.DataFrame(table).reindex(columns=[first, second]).reset_index()
    measures = ("both_rate", "first_only_rate", "second_only_rate", "neither_rate")
    rows = []
    for values, part in groups(wide, [*names, "condition"]):
        complete = part.dropna(subset=[first, second])
        for name, (left, right) in zip(measures, product((1.0, 0.0), repeat=2), strict=True):
            share = complete[first].eq(left) & complete[second].eq(right)
            interval = bounded_mean(share.astype(float), ci_level=ci_level)
            if complete.empty:
                interval = replace(interval, note="no skill has a verdict on both dimensions")
            rows.append(row(name, interval, **values, first=first, second=second))
    return estimates(rows, by=[*names, "condition"], extra=["first", "second"])


def aggregate(
    judged: pd.DataFrame,
    *,
    by: By = ("skill",),
    policy: Policy = "strict",
    exceptions: Sequence[str] = (),
    weights: Mapping[str, float] | Literal["schema", "rubric"] = "schema",
    threshold: float | None = None,
) -> pd.DataFrame:
    """Combine the verdicts on dimensions into one verdict on the skill, by one of three policies.

    Parameters
    ----------
    judged : pandas.DataFrame
        The result of :func:`dimensions`.
    by : str or sequence of str, default ("skill",)
        The ``by`` of :func:`dimensions`.
    policy : {"strict", "weighted", "pass_count"}, default "strict"
        ``strict``: every dimension must be passed, except those in ``exceptions``. ``weighted``:
        the weighted share of passed dimensions must be at least ``threshold`` (default 0.8).
        ``pass_count``: the number of passed dimensions must be at least ``threshold`` (default two
        thirds of all, so 6 of 9).
    exceptions : sequence of str
        Dimensions with documented deficiencies; only for ``strict``.
    weights : {"schema", "rubric"} or mapping of str to float, default "schema"
        Weight of each dimension. ``schema``: C1 to C6 have the weights of the schema in the
        comprehension report (2.4); C7 to C9 have no weight there and count 0. ``rubric``: the same,
        but C7, C8 and C9 have weight 1 each. The report recommends this for C7 (9.2); C8 and C9 get
        the same weight. If a study has its own dimensions, both give them equal weights.
    threshold : float, optional
        The least share or number of passed dimensions; see ``policy``.

    Returns
    -------
    pandas.DataFrame
        One row per ``by`` and condition. ``policy`` is the argument. ``passed`` is NA if it depends
        on dimensions without a verdict. ``verdict`` uses the words of the report's audit loop. If
        ``passed`` is True, it is ``PASS WITH FIXES`` if a dimension failed, otherwise ``PASS``. If
        ``passed`` is False, it is ``PARTIAL`` if a dimension passed, otherwise ``FAIL``. It is NA
        if ``passed`` is NA.
        ``score`` is the share of dimensions passed (for ``weighted``, the weighted share; for
        ``pass_count``, their number). ``n_passed``, ``n_failed`` and ``n_missing`` count
        dimensions. ``failed`` names the failed ones, ``excepted`` those of them that are in
        ``exceptions``. ``note`` names the dimensions without a verdict.

    Raises
    ------
    FrameError
        For an unknown policy or exception.
    """
    require_known("policy: found", policy, get_args(Policy))
    keys = [*listed(by, "condition"), "condition"]
    require_columns(judged, [*keys, "comprehension_dimension", "passed"], "skillverdicts.aggregate")
    family = dimension_family(judged["comprehension_dimension"])
    if isinstance(weights, str):
        require_known("weights: found", weights, ["schema", "rubric"])
        schema = SCHEMA_WEIGHTS if "C1" in family else {}
        lacking = 0.0 if schema and weights == "schema" else 1.0
        weights = dict.fromkeys(family, lacking) | schema
    weigh = dict(weights)
    _require_dimensions(family, exceptions=exceptions, weights=weigh)
    if policy == "weighted" and not sum(weigh.values()) > 0:
        raise FrameError("weights: they add up to nothing; give at least one above 0.")
    advice = "give by= as in skillverdicts.dimensions"
    judged = _checked_verdicts(judged, keys, "skillverdicts.aggregate", advice)
    rows = []
    for values, part in groups(judged, keys):
        passed = part.set_index("comprehension_dimension")["passed"].reindex(list(family))
        combined = _combined_verdict(passed, policy, exceptions, weigh, threshold)
        rows.append({**values, "policy": policy, **combined})
    shape = [*keys, "policy", "passed", "verdict", "score", "n_passed", "n_failed", "n_missing"]
    frame = pd.DataFrame(rows, columns=[*shape, "failed", "excepted", "note"])
    return frame.astype({"passed": "boolean", "verdict": "str"})


def _checked_verdicts(
    judged: pd.DataFrame, keys: list[str], what: str, advice: str
) -> pd.DataFrame:
    """Return verdicts with the right dtypes; raise FrameError if a dimension has two verdicts."""
    judged = settle(judged, CONTRACTS["outcomes"].columns, f"{what}: judged")
    if judged.duplicated([*keys, "comprehension_dimension"]).any():
        raise FrameError(
            f"{what}: a dimension has several verdicts for one {' and '.join(keys)}; {advice}."
        )
    return judged


def _require_dimensions(family: tuple[str, ...], **arguments: Iterable[str]) -> None:
    allowed = "C1 to C9" if "C1" in family else ", ".join(family)
    for argument, names in arguments.items():
        for name in names:
            if name not in family:
                raise FrameError(
                    f"{argument}: found '{name}'; allowed: {allowed}." + suggest(str(name), family)
                )


def _combined_verdict(
    passed: pd.Series,
    policy: Policy,
    exceptions: Sequence[str],
    weights: Mapping[str, float],
    threshold: float | None,
) -> dict[str, object]:
    missing = list(passed.index[passed.isna()])
    failed = list(passed.index[passed.eq(False).fillna(False)])
    won = list(passed.index[passed.eq(True).fillna(False)])
    excepted = [name for name in failed if name in exceptions]
    if policy == "strict":
        open_ = [name for name in missing if name not in exceptions]
        verdict = False if len(failed) > len(excepted) else (pd.NA if open_ else True)
        score = len(won) / len(passed)
    else:
        each = {
            name: weights.get(name, 0.0) if policy == "weighted" else 1.0 for name in passed.index
        }
        scale = sum(each.values()) if policy == "weighted" else 1.0
        enough = math.ceil(2 * len(passed) / 3)
        bound = threshold if threshold is not None else (0.8 if policy == "weighted" else enough)
        score = sum(each[name] for name in won) / scale
        best = score + sum(each[name] for name in missing) / scale
        verdict = True if score >= bound else (False if best < bound else pd.NA)
    words = "PASS WITH FIXES" if failed else "PASS", "PARTIAL" if won else "FAIL"
    return {
        "passed": verdict,
        "verdict": pd.NA if verdict is pd.NA else words[0 if verdict else 1],
        "score": score,
        "n_passed": len(won),
        "n_failed": len(failed),
        "n_missing": len(missing),
        "failed": ", ".join(failed),
        "excepted": ", ".join(excepted),
        "note": f"no verdict for {', '.join(missing)}" if missing else "",
    }
