"""Skills in general: the mean effect, the spread of effects, and the effect of the next skill."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import get_args

import numpy as np
import pandas as pd

from skillcomp.contrast import MIN_SKILLS, MISSING, Value, compared_outcomes, few_skills
from skillcomp.deltas.paired_deltas import deltas_and_units
from skillcomp.errors import FrameError, require_known
from skillcomp.frames.estimates import By, estimates, groups, listed, row, rows_of_group
from skillcomp.stats.bounded import IntervalRule
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
        yield {str(name): field for name, field in about.items()}
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
    about = {str(name): field for name, field in mean.items()}
    return about | {"measure": "mean_delta", "skill": ALL, "n": mean["n_clusters"]}
