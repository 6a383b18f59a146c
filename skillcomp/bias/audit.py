"""Audit of a grader for known biases, with one or more rows for each bias."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

import pandas as pd

from skillcomp.bias.features_and_perturbations import (
    ANSWER,
    POINTS,
    checked_verdicts,
    feature_effect,
    known_attempts,
    labelled_verdicts,
    leniency,
    sides_of_pairs,
)
from skillcomp.bias.position_and_win_rates import first_win_rows
from skillcomp.contrast import Bounds, ends_of
from skillcomp.errors import FrameError, plural, require_known, require_type
from skillcomp.frames.check import check
from skillcomp.frames.estimates import (
    By,
    check_settings,
    estimates,
    group_codes,
    groups,
    listed,
    ordered,
    require_reference,
    row,
    rows_of_group,
)
from skillcomp.frames.from_frame import compare_answers
from skillcomp.frames.reference_labels import (
    ITEM,
    join_gold,
    labellers_said,
    reference_labels,
    strays_of,
)
from skillcomp.reliability.grader_agreement_and_consistency import (
    GradedValue,
    reference_scores,
    scaled_scores,
)
from skillcomp.stats.results import Fields, join_notes

# for each bias, the column of its feature, and the meaning of one unit of the feature
_FEATURES = {
    "verbosity": ("log2_words", "doubling of the words"),
    "hedging": ("hedges_per_100", "hedge more in 100 words"),
    "model family": ("own_family", "answer of the grader's own family against another"),
    "order in the batch": ("place", "batch, from its first to its last verdict"),
    "polish: lists": ("has_list", "answer with a list against one without"),
    "polish: sentences": ("log2_words_per_sentence", "doubling of the words per sentence"),
}
# the answer that wins a pair if the difference of a feature is above 0
_PREFERRED = {
    "verbosity": "the longer answer",
    "hedging": "the answer with more hedges",
    "model family": "the answer of the grader's own family",
    "polish: lists": "the answer with a list",
    "polish: sentences": "the answer with the longer sentences",
}
_EFFECT = ("effect_points", "effect_score")  # the measure for verdicts and for scores
_IN_POINTS = ("estimate", "ci_low", "ci_high", "se")
_STRATA = {"all": None, "gold pass": 1.0, "gold fail": 0.0}


def audit(
    verdicts: pd.DataFrame,
    attempts: pd.DataFrame,
    gold: pd.DataFrame,
    *,
    by: By = (),
    value: GradedValue = "passed",
    bounds: Bounds = None,
    pairwise: pd.DataFrame | None = None,
    families: Mapping[str, str] | None = None,
    exclude_checks: str | Sequence[str] = (),
    reference: str = "baseline",
    cases: pd.DataFrame | None = None,
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Estimate the effect of each known bias on a grader's verdicts.

    Parameters
    ----------
    verdicts : pandas.DataFrame
        A verdicts frame. Verdicts on perturbed copies are left out; :func:`perturbed` compares
        them with their originals.
    attempts : pandas.DataFrame
        The attempts of the verdicts.
    gold : pandas.DataFrame
        A gold frame. If a verdict has several labels, the adjudicated label is used. Without an
        adjudicated label, the label on which all labellers agree is used. The note of an estimate
        states how many labels of its group are of each kind. If gold is empty, only the rows of
        pairs have estimates.
    by : str or sequence of str, default ()
        Columns to group by, such as ``"grader"``, in addition to ``perturbation``.
    value : {"passed", "score"}, default "passed"
        Verdicts, or scores with their ``bounds``. For scores, gold needs a column ``score``.
    bounds : tuple of float, optional
        Lowest and highest possible score, such as ``(1, 5)``.
    pairwise : pandas.DataFrame, optional
        A pairwise frame, as in :func:`position`, for the effects of features on the choice
        between two answers. Its graders have separate rows. Verdicts of
        :func:`skillcomp.from_frame` on such pairs count once, as pairs.
    families : mapping of str to str, optional
        The model family of graders and agents by their names, such as ``{"judge": "a", "m1": "a",
        "m2": "b"}``. It takes precedence over ``grader_family`` and ``agent_family``.
    exclude_checks : str or sequence of str, default ()
        Leave out checks with one of these texts in their id, such as checks that a grader cannot
        decide.
    reference : str, default "baseline"
        Condition with which the leniency under the other conditions is compared. If all verdicts
        are of one condition, there are no rows of leniency.
    cases : pandas.DataFrame, optional
        A cases frame; the two cases of a contrast pair then form one cluster, also in ``pairwise``.
    ci_level : float, default 0.95
        Level of the intervals.

    Returns
    -------
    pandas.DataFrame
        Per ``by``, one or several rows per bias:

        - bias: ``verbosity``, ``hedging``, ``model family``, ``condition leniency``,
          ``order in the batch``, ``polish: lists`` or ``polish: sentences``.
        - condition: the condition that is compared with the reference. Only for leniency.
        - stratum: ``all``. For leniency also ``gold pass`` and ``gold fail``: the effect among
          checks that pass or that fail by gold.
        - the estimates columns. The measure is ``effect_points`` (average marginal effect on the
          pass rate given gold) or, in pairs, ``pair_effect_points`` (given the gold winner) and,
          without gold, ``pair_preference_points``, which is no bias: the better answer may be the
          longer one. For scores it is ``effect_score``, in the unit of the scores; other estimates
          are in percentage points. They are positive if the feature makes a PASS (in pairs, a
          win) more likely, or the score higher. An effect that the data do not identify is NaN,
          with a note that begins "not identified". ``n`` counts verdicts or pairs.
        - p_adjusted: the p-value adjusted by Holm over all rows of the same measure and stratum,
          except those of a placebo.
        - per: what one unit of the feature means.
        - n_empty_strata: the number of combinations of skill and gold label that lack answers
          under one of the two conditions. Only for leniency.

    Raises
    ------
    FrameError
        If a frame breaks its contract, graders, rounds or labellers would be pooled, a verdict has
        no attempt, ``reference`` or an excluded check does not occur, ``by`` names a column of the
        result, or ``ci_level`` is not between 0 and 1.

    See Also
    --------
    perturbed : Verdicts on copies against those on the originals.
    position : Position bias in pairwise judgements.
    skillcomp.plots.estimates : Draws the result.

    Notes
    -----
    In pairs, a feature is the difference between the two answers, such as the logarithm of the
    ratio of their words, and the effect is the change of the win rate per unit. Judgements of a
    pair are averaged. The model is the same, with an intercept for answers that win and that lose
    by gold. It holds constant which answer was shown first. (If the answers of a pair were treated
    as single answers to questions of varied length, the effect of length would be several times too
    small.)

    ``effect_points`` is the slope of a linear probability model of the verdict. The model has an
    intercept for each combination of skill, condition and gold label, and the slope is adjusted for
    the other features. For scores, gold is one of the other features, with one slope. The model for
    leniency has an intercept for each combination of skill and gold label. Its slope is not
    adjusted for other features, because leniency distorts a delta, whatever the cause of the
    leniency.

    Cases are clusters. Leniency, model family and lists compare two groups of answers and have the
    interval of :func:`skillcomp.stats.gaps.bounded_slope`. Other features have the t interval of
    CR2, widened where a score test does not exclude a slope. Both are defined even if all verdicts
    are equal, as for a grader that is never fooled. If few answers fool the grader, t alone covers
    as little as 82 %, and the widened interval 95 % and more (``make validate``).

    The effects are associations among answers that differ in several ways, so prefer the test with
    copies if there is one. If errors of gold depend on a feature, they look like a bias of the
    grader.

    References
    ----------
    Wataoka et al. 2024, arXiv:2410.21819; Spiliopoulou et al. 2025, arXiv:2508.06709; Dubois et
    al. 2024, arXiv:2404.04475; Zheng et al. 2023, arXiv:2306.05685.
    """
    names, what = [name for name in listed(by) if name != "perturbation"], "bias.audit"
    pairwise = None if pairwise is None or pairwise.empty else pairwise
    check_settings(what, ci_level)
    if taken := sorted({"bias", "condition", "stratum", "per"} & set(names)):
        raise FrameError(
            f"bias.audit: by= names '{taken[0]}', a column of the result. Drop it, or give the "
            "verdicts of one value only."
        )
    graded = checked_verdicts(
        verdicts, by=names, exclude_checks=exclude_checks, cases=cases, what=what
    )
    every = known_attempts(graded, attempts, what)
    if families is not None:
        graded, every, pairwise = with_families(graded, every, pairwise, families, what)
    if (in_pairs := compare_answers(graded, every)).any():
        if pairwise is None:
            raise FrameError(
                f"{what}: {in_pairs.sum()} verdicts compare two answers. Give the comparisons, "
                "too: pairwise=made.pairwise of from_frame."
            )
        graded = graded[~in_pairs]
    compares = graded["condition"].nunique() > 1
    if compares:
        require_reference(graded["condition"], reference)
    require_known(f"{what}: value: found", value, get_args(GradedValue))
    lowest, highest = ends_of(value, bounds)
    is_score = value == "score"
    if is_score:
        labels = reference_scores(gold, bounds, what)
        graded = graded.assign(verdict=scaled_scores(graded, bounds))
    else:
        labels = reference_labels(gold, what)
    graded = graded.reset_index(drop=True).assign(_group=group_codes(graded, names)[0])
    labelled = labelled_verdicts(graded, every, labels)
    labelled_of = labelled.groupby("_group").indices
    items, strays = join_gold(graded[ITEM], labels), strays_of(graded, labels)
    shared = [name for name in names if name in ("grader", "skill")]
    sides = None
    if pairwise is not None:
        long = first_win_rows(pairwise, by=shared, cases=cases)
        known_attempts(long[["first", "second"]].melt(value_name="attempt_id"), every, what)
        sides = sides_of_pairs(long, every, shared)
    rows = []
    for values, part in groups(graded, names) if len(graded) or sides is None else ():
        number = part["_group"].iloc[0] if len(part) else -1
        frame = labelled.iloc[labelled_of.get(number, [])]
        effects = _feature_rows(frame, ci_level, is_score)
        effects += _leniency_rows(frame, part, reference, ci_level, is_score) if compares else []
        settled = items.iloc[part.index].dropna(subset="settled_by")
        note = labellers_said(settled["settled_by"], settled["gold"])
        agents = every.loc[every["attempt_id"].isin(part["attempt_id"]), "agent"].nunique()
        pooled = f"pools the answers of {agents} agents; by=['agent'] shows each"
        pooled = pooled if agents > 1 and "agent" not in names else ""
        for effect in effects:
            notes = ["" if len(frame) else strays]
            if not math.isnan(effect["estimate"]):
                notes += [note, "" if effect["bias"] == "model family" else pooled]
            if is_score:
                effect |= {n: effect[n] * (highest - lowest) / POINTS for n in _IN_POINTS}
            rows.append(effect | {"note": join_notes(effect["note"], *notes)} | values)
        of_group = {name: values[name] for name in shared}
        rows += [r | values for r in _pair_rows(sides, of_group, ci_level)]
    for values, _ in groups(sides, shared) if sides is not None else ():
        if rows_of_group(graded, values).empty:
            found = _pair_rows(sides, values, ci_level)
            rows += [dict.fromkeys(names) | r | values for r in found]
    extra = ["per", "n_empty_strata"]
    return estimates(rows, by=[*names, "bias", "condition", "stratum"], extra=extra)


def with_families(
    graded: pd.DataFrame,
    attempts: pd.DataFrame,
    pairwise: pd.DataFrame | None,
    families: Mapping[str, str],
    what: str,
) -> list[Any]:
    """Return the verdicts, attempts and pairs with the families of their graders and agents."""
    require_type(f"{what}: families", families, Mapping, "{'judge': 'family', ...}", FrameError)
    frames = [(graded, "grader"), (attempts, "agent")]
    if pairwise is not None:
        frames.append((check(pairwise, "pairwise"), "grader"))
    names = [frame[name] for frame, name in frames]
    present = sorted({name for values in names for name in values.dropna()})
    for name in families:
        require_known(f"{what}: families: found", str(name), present)
    made: list[Any] = []
    for frame, name in frames:
        family = frame[name].map({str(word): str(value) for word, value in families.items()})
        family = family.astype("str").fillna(frame[f"{name}_family"])
        made.append(frame.assign(**{f"{name}_family": family}))
    return made if pairwise is not None else [*made, None]


def _bias_columns(
    bias: str, per: str, condition: str | None = None, stratum: str = "all"
) -> Fields:
    return {"bias": bias, "per": per, "condition": condition, "stratum": stratum}


def _feature_rows(frame: pd.DataFrame, ci_level: float, is_score: bool) -> list[Fields]:
    """Estimate the effect of each feature of the answers on the verdict, given the gold label."""
    rows = []
    strata = ["skill", "condition"] if is_score else ["skill", "condition", "gold"]
    for bias, (name, per) in _FEATURES.items():
        others = sorted({*ANSWER, "place", "own_family"} - {name}) + ["gold"] * is_score
        effect = feature_effect(frame, name, others, ci_level, strata=strata)
        if name == "own_family" and math.isnan(effect.estimate) and len(frame):
            effect = replace(effect, note=_why_no_family_effect(frame))
        rows.append(row(_EFFECT[is_score], effect) | _bias_columns(bias, per))
    return rows


def _why_no_family_effect(frame: pd.DataFrame) -> str:
    families = sorted(map(str, frame["agent_family"].dropna().unique()))
    if not families or frame["grader_family"].isna().all():
        return "not identified: model family not recorded"
    if len(families) == 1:
        return (
            f"not identified: every answer is of one model family ({families[0]}), so leniency to "
            "the own family cannot be distinguished from that to all"
        )
    if frame["agent_family"].ne(frame["grader_family"]).all():
        own = ", ".join(sorted(map(str, frame["grader_family"].dropna().unique())))
        return f"not identified: no answer is of the grader's family ({own})"
    return (
        "not identified: no two answers of one skill, condition and gold label differ in being "
        "of the grader's own family"
    )


def _leniency_rows(
    frame: pd.DataFrame, verdicts: pd.DataFrame, reference: str, ci_level: float, is_score: bool
) -> list[Fields]:
    rows = []
    how: Fields = {"ci_level": ci_level, "strata": ["skill"]}
    for condition in ordered(verdicts["condition"], reference):
        per = f"answer under {condition} against {reference}"
        if is_score:
            two = frame[frame["condition"].isin([condition, reference])]
            two = two.assign(condition=two["condition"].eq(condition).astype("float64"))
            effect = feature_effect(two, "condition", ["gold"], **how)
            about = _bias_columns("condition leniency", per, condition)
            rows.append(row(_EFFECT[True], effect) | about)
            continue
        for stratum, gold in _STRATA.items():
            effect, n_empty = leniency(frame, condition, reference, gold, ci_level)
            about = _bias_columns("condition leniency", per, condition, stratum)
            rows.append(row("effect_points", effect, n_empty_strata=n_empty) | about)
    return rows


def _pair_rows(sides: pd.DataFrame | None, values: Fields, ci_level: float) -> list[Fields]:
    """Return the row of each feature of pairs; None means no judgements."""
    rows: list[Fields] = []
    if sides is None or (sides := rows_of_group(sides, values)).empty:
        return rows
    has_gold = sides["gold"].notna()
    frame = sides[has_gold] if has_gold.any() else sides.assign(gold=0.5)
    measure = "pair_effect_points" if has_gold.any() else "pair_preference_points"
    for bias, preferred in _PREFERRED.items():
        name, per = _FEATURES[bias]
        per += "" if "against" in per else " against the other answer"
        others = sorted({*ANSWER, "place", "own_family"} - {name})
        effect = feature_effect(frame, name, others, ci_level, of_pairs=True)
        if name == "own_family" and math.isnan(effect.estimate):
            effect = replace(effect, note=_why_no_family_effect(frame))
        wins = frame.loc[frame[name].gt(0), "verdict"]
        if len(wins):
            said = f"{preferred} wins {100 * wins.mean():.0f} % of {plural(len(wins), 'pair')}"
            effect = effect.with_note(said)
        rows.append(row(measure, effect) | _bias_columns(bias, per))
    return rows
