"""Transfer: effects of a skill on near cases, and on far cases that do not resemble the skill."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd

from skillcomp import deltas
from skillcomp.bias.features_and_perturbations import features, known_attempts
from skillcomp.contrast import (
    BoundedValue,
    Bounds,
    Contrast,
    Gap,
    Units,
    between,
    case_table,
    compared_outcomes,
    compared_units,
    contrasts_with,
    missing_note,
)
from skillcomp.deltas.paired_deltas_and_price import contrast_rows
from skillcomp.deltas.unpaired_rates_and_pass_k import contrasts_of_rates
from skillcomp.errors import FrameError, plural
from skillcomp.frames.check import check
from skillcomp.frames.contracts import CASE
from skillcomp.frames.estimates import (
    By,
    clusters_of,
    estimates,
    grouped,
    listed,
    n_distinct,
    ordered,
    row,
)
from skillcomp.stats.bounded import IntervalRule, mixed_of_case
from skillcomp.stats.results import NAN, Fields, join_notes

__all__ = ["contrast", "gap", "hedging", "rates"]

__dir__ = __all__.copy  # so that dir() lists the public names


# With four near (or far) cases or fewer, each case has at least a quarter of the weight in the mean
# delta, and the interval spans most of the range from -1 to 1 for any data.
MIN_CASES = 5

NO_DISTANCE = "no case is near or far: name its column by transfer= in from_frame"

_LEFT_OUT = ["n_missing", "worst_low", "worst_high"]
_EXTRA = ["scope", "n_near", "n_far", "dimensions", "n_dropped"]
_HEDGED = ("hedged_rate_right", "hedged_rate_wrong", "hedged_gap")


def gap(
    outcomes: pd.DataFrame,
    *,
    by: By = (),
    value: BoundedValue = "passed",
    bounds: Bounds = None,
    reference: str = "baseline",
    average: By = (),
    ci_level: float = 0.95,
    interval: IntervalRule = "adaptive",
) -> pd.DataFrame:
    """Compare the effect of a skill between far and near cases.

    The delta of a case is its pass rate with the skill minus that of the baseline. Distance is
    confounded with the rubric dimension by design: near and far cases ask different things. The
    main result therefore compares near with far cases within each dimension of a skill that has
    both.

    Parameters
    ----------
    outcomes : pandas.DataFrame
        An outcomes frame with transfer and comprehension_dimension.
    by : str or sequence of str
        Columns that group the rows, such as ``["skill"]``.
    value : {"passed", "share_passed", "score"}, default "passed"
        As in :func:`skillcomp.deltas.paired`.
    bounds : tuple of float, optional
        As in :func:`skillcomp.deltas.paired`: lowest and highest possible score.
    reference : str, default "baseline"
        The condition that the others are compared with.
    average : str or sequence of str, optional
        As in :func:`skillcomp.deltas.paired`.
    ci_level : float, default 0.95
        Level of the intervals.
    interval : {"adaptive", "bounded", "t"}, default "adaptive"
        As in :func:`skillcomp.deltas.paired`.

    Returns
    -------
    pandas.DataFrame
        Six rows per ``by`` and condition, with the estimates columns. The measures are
        ``near_delta``, ``far_delta`` and ``gap`` (far minus near), for scores with the ending
        ``_score``. They come first for scope ``within_dimensions`` (the main result), then for
        scope ``pooled`` (all cases, with distance and dimension confounded). Estimates are in rate
        units or in the unit of the scores. Intervals and p-values are clustered by case, and a
        contrast pair is one cluster. ``n_near`` and ``n_far`` count the cases. ``dimensions`` lists
        the dimensions used. ``n_dropped`` counts the cases with an outcome under only one of the
        two conditions. Estimates are NaN with a note if there are fewer than five near or five far
        cases; for ``within_dimensions`` only cases in dimensions with both kinds count. ``note``
        counts the near and far attempts without an outcome by condition.

    Raises
    ------
    FrameError
        As :func:`skillcomp.deltas.paired`.

    See Also
    --------
    contrast : Estimates how often both, one or none of the cases of a contrast pair are passed.
    skillcomp.plots.transfer : Draws the rates (:func:`rates`).

    Notes
    -----
    A level is one dimension of one skill. ``within_dimensions`` averages the near deltas, the far
    deltas and the gaps over the levels (:func:`skillcomp.stats.gaps.standardised_gap`). The weight
    of a level with ``a`` near and ``b`` far cases is ``a b / (a + b)``, which measures how
    precisely the level shows its gap. The method does not assume that all levels have the same gap,
    and differences between levels do not count as uncertainty. Intervals are those of bounded
    means (CR2 with ``interval="t"``), both for attempts passed and for shares. The gap is a
    difference of rates; near a rate of 1, a gap on a log-odds scale may have another size or sign.
    """
    names = listed(by)
    how: Fields = {"value": value, "bounds": bounds, "average": listed(average)}
    how |= {"reference": reference, "facts": ["transfer", "comprehension_dimension"]}
    checked, units = compared_units(outcomes, names, "transfer", **how)
    measures = ["near_delta", "far_delta", "gap"]
    if value == "score":
        measures = [f"{measure}_score" for measure in measures]
    rows = []
    for contrast in contrasts_with(units, reference):
        within, pooled = (
            between(
                units,
                contrast,
                "transfer",
                ("near", "far"),
                strata=strata,
                least=MIN_CASES,
                ci_level=ci_level,
                interval=interval,
            )
            for strata in (["skill", "comprehension_dimension"], [])
        )
        few = _few_in_dimensions(within, pooled)
        rows += _gap_rows(within, "within_dimensions", contrast, few, measures)
        few = "too few near or far cases" if sum(pooled.sizes) else NO_DISTANCE
        rows += _gap_rows(pooled, "pooled", contrast, few, measures)
    return estimates(
        rows, by=[*names, "condition"], extra=_EXTRA, outcomes=checked, reference=reference
    )


def _few_in_dimensions(within: Gap, pooled: Gap) -> str:
    """Return a note on the lack of cases in dimensions that have both near and far cases."""
    near, far = pooled.sizes
    if not near + far:
        return NO_DISTANCE
    if sum(within.sizes):
        return "too few cases in dimensions of a skill that have both near and far"
    why = "no dimension of a skill has both near and far cases"
    if not _dimensions(pooled):
        why = "no case has a dimension: name its column by dimension= in from_frame"
    counts = f"{near} near and {far} far cases"
    return f"{why}; scope 'pooled' ({counts}) confounds distance with dimension"


def _dimensions(gap: Gap) -> list[str]:
    return sorted(pd.Series(gap.cases.facts["comprehension_dimension"]).dropna().unique())


def _gap_rows(
    gap: Gap, scope: str, contrast: Contrast, few: str, measures: list[str]
) -> list[Fields]:
    """Return the rows of a scope; ``few`` is the note if there are too few cases."""
    near, far = gap.sizes
    dimensions, part = _dimensions(gap), gap.part
    names = ", ".join(dimensions)
    about = {"scope": scope, "n_near": near, "n_far": far, "dimensions": names}
    about |= contrast.about | {"n_dropped": gap.n_dropped}
    note = (
        "distance is confounded with the rubric dimension: near and far cases ask different things"
    )
    if scope == "within_dimensions":
        part = part.rows(np.isin(part.facts["comprehension_dimension"], dimensions))
        n_levels = n_distinct(gap.cases.facts["stratum"])
        note = (
            f"near and far compared within {names}: average over {plural(n_levels, 'level')} "
            "(dimension of a skill), weights near x far / (near + far) cases"
        )
    if min(near, far) < MIN_CASES:
        note = few
        if near + far:
            note += f": {near} near and {far} far, at least {MIN_CASES} of each are needed"
    lost = []
    for kind in ("near", "far"):
        units = part.rows(part.facts["transfer"] == kind)
        text, warning = missing_note(units.missing(("the condition", "the reference"))[0])
        lost.append(join_notes(text and f"{kind}: {text}", warning))
    rows = []
    for measure, interval, missing in zip(
        measures, gap.intervals, (*lost, join_notes(*lost)), strict=True
    ):
        whole = join_notes(note, interval.note, missing, gap.cases.note)
        rows.append(row(measure, replace(interval, note=whole), **about))
    return rows


def rates(
    outcomes: pd.DataFrame,
    *,
    by: By = (),
    ci_level: float = 0.95,
    interval: IntervalRule = "adaptive",
) -> pd.DataFrame:
    """Estimate the pass rates of near and far cases under each condition.

    Parameters
    ----------
    outcomes : pandas.DataFrame
        An outcomes frame with transfer.
    by : str or sequence of str
        Columns that group the rows.
    ci_level : float, default 0.95
        Level of the intervals.
    interval : {"adaptive", "bounded", "t"}, default "adaptive"
        As in :func:`skillcomp.deltas.paired`.

    Returns
    -------
    pandas.DataFrame
        One row per ``by``, transfer (near, far) and condition, with the columns of
        :func:`skillcomp.deltas.rates`. Each case has the same weight; unlike in :func:`gap`, the
        rates are not standardised over dimensions.

    Raises
    ------
    FrameError
        If no case is near or far, or as :func:`skillcomp.deltas.rates`.
    """
    checked = check(outcomes, "outcomes")
    checked = checked.dropna(subset="transfer")
    if checked.empty and len(outcomes):
        raise FrameError(f"transfer.rates: {NO_DISTANCE}.")
    return deltas.rates(checked, by=[*listed(by), "transfer"], ci_level=ci_level, interval=interval)


def contrast(
    outcomes: pd.DataFrame,
    *,
    by: By = (),
    ci_level: float = 0.95,
    interval: IntervalRule = "adaptive",
) -> pd.DataFrame:
    """Estimate how often both cases of a contrast pair are passed, to detect pattern matching.

    A contrast pair consists of two cases with prompts that differ in one decisive detail. An agent
    that matches surface patterns passes one of them and fails the other.

    Parameters
    ----------
    outcomes : pandas.DataFrame
        An outcomes frame in which at least one case of each pair has ``contrast_of``, the case_id
        of the other case, in the same skill.
    by : str or sequence of str
        Columns that group the rows.
    ci_level : float, default 0.95
        Level of the intervals.
    interval : {"adaptive", "bounded", "t"}, default "adaptive"
        As in :func:`skillcomp.deltas.paired`.

    Returns
    -------
    pandas.DataFrame
        Four rows per ``by`` and condition, with the estimates columns. The measures are
        ``both_right``, ``one_right``, ``none_right`` and ``only_original_right``. The original is
        the case that the other case names in ``contrast_of``. If only the original is right,
        pattern matching is likely. Each estimate is a share of pairs, averaged over repeats within
        a pair, with the interval of a bounded mean. ``n`` counts the pairs. Two matched attempts
        count as one attempt, which is missing if one of them has no outcome: ``n_missing`` and the
        note count these, and ``worst_low`` and ``worst_high`` are the lowest and the highest value
        that they allow. NaN with a note if no pair has outcomes of both cases.

    Raises
    ------
    FrameError
        If the frame breaks its contract or several graders would be pooled.

    Notes
    -----
    Repeat 1 of a case is matched with repeat 1 of the other case of its pair. Without repeat
    numbers, attempts are matched in their order. Two cases that name each other in ``contrast_of``
    are one pair without an original. Pairs that share a case, or a task under several skills, are
    one cluster.
    """
    names = listed(by)
    checked = compared_outcomes(outcomes, names, "transfer")
    pairs = _twin_attempts(checked, names)
    other, original = pairs["passed"], pairs["passed_of"]
    known = other.notna() & original.notna()
    right = {
        "both_right": other & original,
        "one_right": other ^ original,
        "none_right": ~(other | original),
        "only_original_right": original & ~other,
    }
    tables = []
    for measure, values in right.items():
        counted = ~(pairs["mutual"] & (measure == "only_original_right"))
        seen, possible = known & counted, values.fillna(True) & counted
        sums = {"_size": counted, "_n": seen, "_low": possible & seen, "_high": possible}
        tables.append(pairs.assign(measure=measure, **sums))
    keys = [*names, "measure", "mutual", *CASE, "cluster", "condition"]
    sums = grouped(pd.concat(tables), keys)[["_size", "_n", "_low", "_high"]].sum()
    sums = sums.astype("float64")
    n, level = sums["_n"], sums["_low"] / sums["_n"]
    sums = sums.assign(_level=level, _fewest=n, _mixed=mixed_of_case(level, n))
    sums[["_low", "_high"]] = sums[["_low", "_high"]].div(sums["_size"], axis=0)
    how: Fields = {"arm": ["condition", "measure"], "facts": ["mutual"], "value": "level"}
    units = Units.of(sums.reset_index(), names, **how)
    contrasts = []
    for group, about in enumerate(units.groups):
        arms = units.arms_of_group(group)
        for arm in product(ordered(condition for condition, _ in arms), right):
            place = {"condition": arm[0], "measure": arm[1]}
            contrast = Contrast(about | place, group, {arm: 1.0})
            part = units.part(contrast)
            note = ""
            if arm[1] == "only_original_right" and part.facts["mutual"].any():
                note = "twins that name each other have no original and are left out"
            lost = part.missing([""])[2]
            nothing = join_notes("no contrast pair with outcomes of both members", note, lost)
            contrasts.append(replace(contrast, nothing=nothing, note=note))
    # the measures of the contrasts replace that of the rows; all of them are rates
    rows = contrast_rows("both_right", units, contrasts, ci_level=ci_level, interval=interval)
    return estimates(rows, by=[*names, "condition"], extra=_LEFT_OUT, outcomes=checked)


def _twin_attempts(outcomes: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """Return one row per pair, condition and repeat, with the outcomes of both of its cases.

    ``passed_of`` is the outcome of the case that ``contrast_of`` names.
    """
    outcomes = outcomes.assign(cluster=clusters_of(outcomes, by=names))
    cases = outcomes.drop_duplicates(CASE)
    cases = cases[cases["contrast_of"].notna() & cases["contrast_of"].ne(cases["case_id"])]
    ends = np.sort(cases[["case_id", "contrast_of"]].to_numpy(object), axis=1)
    both = pd.DataFrame(ends, index=cases.index).assign(skill=cases["skill"])
    # if two cases name each other, keep one of the two rows
    cases = cases.assign(mutual=both.duplicated(keep=False))[~both.duplicated()]
    keys = listed([*names, "condition", "skill", "repeat"])
    # Several attempts of a case may have the same repeat, or none. Number them, because otherwise
    # each of them would be matched with every such attempt of the other case.
    outcomes = outcomes.assign(turn=grouped(outcomes, [*keys, "case_id"]).cumcount())
    contrasts = outcomes.merge(cases[[*CASE, "mutual"]], on=CASE)
    other = outcomes[[*keys, "turn", "case_id", "passed"]].rename(
        columns={"case_id": "contrast_of", "passed": "passed_of"}
    )
    return contrasts.merge(other, on=[*keys, "turn", "contrast_of"], how="left", validate="m:1")


def hedging(
    outcomes: pd.DataFrame,
    attempts: pd.DataFrame,
    *,
    by: By = (),
    ci_level: float = 0.95,
    interval: IntervalRule = "adaptive",
) -> pd.DataFrame:
    """Compare how often right and wrong answers contain a hedge, such as "perhaps".

    If the words of an agent are calibrated, it hedges more often when it is wrong.

    Parameters
    ----------
    outcomes : pandas.DataFrame
        An outcomes frame of one grader (or include ``grader`` in ``by``).
    attempts : pandas.DataFrame
        An attempts frame with the answers.
    by : str or sequence of str
        Columns of the outcomes that group the rows, such as ``["transfer"]``.
    ci_level : float, default 0.95
        Level of the intervals.
    interval : {"adaptive", "bounded", "t"}, default "adaptive"
        As in :func:`skillcomp.deltas.paired`.

    Returns
    -------
    pandas.DataFrame
        An estimates frame with three rows per ``by`` and condition. ``hedged_rate_right`` is the
        share of right answers with at least one hedge, and ``hedged_rate_wrong`` the share of wrong
        answers with one. Both are means over cases, with repeats averaged within a case.
        ``hedged_gap`` is wrong minus right, from -1 to 1; above 0, wrong answers contain hedges
        more often. ``n`` counts cases; a case with right and wrong answers counts once for each.
        NaN with a note if no skill has both kinds of answer.

    Raises
    ------
    FrameError
        If a frame breaks its contract, graders or agents would be pooled, or an attempt of the
        outcomes is not in ``attempts``.

    Notes
    -----
    Right and wrong answers are compared within skills
    (:func:`skillcomp.stats.gaps.standardised_gap`). If a skill has right answers to ``a`` cases and
    wrong answers to ``b`` cases, its weight is ``a b / (a + b)``. A contrast pair is one cluster.
    Hedges are the English words that :func:`skillcomp.bias.features` counts. Probabilities that an
    answer states are not used.

    References
    ----------
    Liang et al. 2022, arXiv:2211.09110 (calibration as a metric of its own).
    """
    names = listed(by)
    checked = compared_outcomes(outcomes, names, "transfer")
    answered = known_attempts(checked, attempts, "transfer.hedging", "outcomes")
    about = features(answered).set_index("attempt_id")["hedges_per_100"]
    hedges = checked["attempt_id"].map(about).astype("Float64")
    judged = checked.assign(wrong=~checked["passed"], passed=hedges.gt(0))
    table = case_table(judged, by=[*names, "wrong"])
    units = Units.of(table, names, average=["wrong"], facts=["wrong"])
    # a case counts once for its right answers and once for its wrong ones
    units = replace(units, facts=units.facts | {"case": np.arange(len(units.facts["case"]))})
    rows = []
    for contrast in contrasts_of_rates(units):
        gap = between(
            units,
            contrast,
            "wrong",
            (False, True),
            strata=["skill"],
            ci_level=ci_level,
            interval=interval,
        )
        if np.isnan(gap.part.numbers["level"]).all():
            continue  # no attempt has both an answer and an outcome
        nothing = "" if sum(gap.sizes) else "no skill has both right and wrong answers"
        for measure, each in zip(_HEDGED, gap.intervals, strict=True):
            each = each.with_note(nothing)
            if measure != "hedged_gap":
                each = replace(each, p_value=NAN)  # no claim says that a rate is above 0
            rows.append(row(measure, each, **contrast.about))
    return estimates(rows, by=[*names, "condition"], outcomes=checked)
