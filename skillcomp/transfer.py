"""Transfer: effects of a skill on near cases, and on far cases that do not resemble the skill."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd

from skillcomp import deltas
from skillcomp.bias.features_and_perturbations import features, known_attempts
from skillcomp.contrast import (
    MISSING,
    BoundedValue,
    Bounds,
    Contrast,
    Gap,
    Units,
    between,
    case_table,
    compared_outcomes,
    compared_units,
    contrasts_of_rates,
    contrasts_with,
    missing_note,
    slope,
)
from skillcomp.deltas import OwnWords, contrast_rows, in_own_words
from skillcomp.errors import FrameError, literal, plural, require_whole
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
    require_columns,
    row,
)
from skillcomp.removed_names import raise_missing_name
from skillcomp.stats.bounded import IntervalRule, mixed_of_case
from skillcomp.stats.results import NAN, Fields, join_notes

__all__ = ["contrast", "curve", "gap", "hedging"]

__dir__ = __all__.copy  # so that dir() lists the public names
__getattr__ = raise_missing_name(__name__)

# With four near (or far) cases or fewer, each case has at least a quarter of the weight in the mean
# delta, and the interval spans most of the range from -1 to 1 for any data.
MIN_CASES = 5

NO_DISTANCE = "no case is near or far: name its column by transfer= in from_frame"

MIN_SLOPE = 10  # with fewer cases than this, no slope is estimated
_SLOPES = ("delta_slope", "reference_slope")
_DISTANCES = ["distance_low", "distance", "distance_high"]
# An effect is shown in 8 of 10 studies if it is (1.96 + 0.84) / 1.96 times the half-width.
_SEEN = 1.43

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
    skillcomp.plots.transfer : Draws the rates (:func:`skillcomp.deltas.rates`).

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
    counts = f"{near} near and {far} far cases"
    if not _dimensions(pooled):
        return f"no case has a dimension; scope 'pooled' compares all {counts}"
    why = "no dimension of a skill has both near and far cases"
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
    note = ""
    if pd.notna(part.facts["comprehension_dimension"]).any():
        note = "distance is confounded with the rubric dimension: near and far cases ask different"
        note += " things"
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


def curve(
    outcomes: pd.DataFrame,
    *,
    distance: str,
    by: By = (),
    value: BoundedValue | OwnWords = "passed",
    bins: int = 3,
    bounds: Bounds = None,
    reference: str = "baseline",
    average: By = (),
    ci_level: float = 0.95,
    interval: IntervalRule = "adaptive",
) -> pd.DataFrame:
    """Estimate how the effect of a skill changes with the distance of the cases from it.

    Cases are compared within skills, because between skills the distance follows the subject.

    Parameters
    ----------
    outcomes : pandas.DataFrame
        An outcomes frame with a column of distances.
    distance : str
        A numeric column with one value per case; larger is farther. It may be that of
        :func:`skillcomp.overlap.case_distance`, merged with the outcomes by skill and case_id, or
        your own, such as a distance of embeddings or the rank that an expert gave.
    by : str or sequence of str
        Columns that group the rows, such as ``["skill"]``.
    value : {"passed", "share_passed", "passed_own_words", "score"}, default "passed"
        As in :func:`skillcomp.deltas.paired`. With ``"passed_own_words"``, copied answers do not
        count as passed, at any distance.
    bins : int, default 3
        Number of bins. The cases of each skill are cut by their rank into bins of equal size,
        before an outcome is read. Cases at one distance are in one bin.
    bounds, average, ci_level, interval
        As in :func:`skillcomp.deltas.paired`.
    reference : str, default "baseline"
        The condition that the others are compared with.

    Returns
    -------
    pandas.DataFrame
        The estimates columns, in this order for each ``by``:

        - per condition and bin, the delta (:func:`skillcomp.deltas.paired`)
        - per condition (also the reference) and bin, the rate (:func:`skillcomp.deltas.rates`)
        - per condition, ``delta_slope`` and ``reference_slope``: the change of the delta, and of
          the rate of the reference, from the nearest to the farthest case. The ends are those of
          the skill whose distances differ most.

        ``bin`` is 1 for the nearest cases, and NA in rows of slopes. ``distance_low`` and
        ``distance_high`` are the least and the largest distance of the row, ``distance`` the mean
        of its cases. A slope is NaN with a note if fewer than ten cases have different distances
        within a skill.

    Raises
    ------
    FrameError
        If ``distance`` is no numeric column, ``bins`` is no whole number of at least 1, or as
        :func:`skillcomp.deltas.paired`.

    See Also
    --------
    gap : Compares cases that an author has marked as near and far.
    skillcomp.plots.transfer_curve : Draws the result.

    Notes
    -----
    Slopes are those of :func:`skillcomp.stats.gaps.bounded_slope`; each skill has a level of its
    own. If the interval of ``reference_slope`` excludes 0, far cases are harder (or easier) without
    the skill, and the note of ``delta_slope`` says that distance and difficulty cannot be
    separated. Otherwise the note gives the movement of the reference that 8 of 10 such studies
    would have shown. The delta is not adjusted for the outcomes of the reference that it contains:
    this would show a slope where there is none. For a curve at equal difficulty, take the
    difficulty from other attempts, such as those of another agent.

    With 40 cases of three attempts, the interval of ``delta_slope`` is about 90 points wide; a
    slope of 40 points is shown in two of five studies (``docs/intervals.md``).

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({
    ...     "skill": "s", "case_id": [f"s/{i}" for i in range(12)] * 2, "far": [*range(12)] * 2,
    ...     "condition": ["baseline"] * 12 + ["skill"] * 12,
    ...     "passed": [False] * 12 + [True] * 8 + [False] * 4})
    >>> rows = curve(frame, distance="far").set_index("measure")
    >>> rows.loc["delta_passed", "estimate"].tolist()
    [1.0, 1.0, 0.0]
    """
    names = listed(by)
    binned, unmeasured = _with_bins(outcomes, distance, bins)
    how: Fields = {"ci_level": ci_level, "interval": interval}
    of_value: Fields = {"value": value, "bounds": bounds, "average": listed(average)}
    by_bin = {"by": [*names, "bin"], **of_value, **how}
    parts = [deltas.paired(binned, reference=reference, **by_bin), deltas.rates(binned, **by_bin)]
    measured = binned.drop_duplicates([*names, *CASE])
    ends = grouped(measured, [*names, "bin"])[distance].agg(["min", "mean", "max"])
    ends.columns = pd.Index(_DISTANCES)
    parts = [part.merge(ends.reset_index(), on=[*names, "bin"], how="left") for part in parts]
    in_words = value == "passed_own_words"
    of_value |= {"value": "passed"} if in_words else {}

    def slopes(rows: pd.DataFrame) -> pd.DataFrame:
        own: Fields = {**of_value, "facts": [distance], "reference": reference}
        checked, units = compared_units(rows, names, "transfer.curve", **own)
        made = []
        for contrast in contrasts_with(units, reference):
            alone = replace(contrast, weights={(reference,): 1.0}, sides=(reference,))
            for measure, each in zip(_SLOPES, (contrast, alone), strict=True):
                change = slope(units, each, distance, stratum="skill", least=MIN_SLOPE, **how)
                counts = units.part(each).missing(each.sides)[0]
                about = each.about | dict(zip(MISSING, counts, strict=False))
                about |= {"distance_low": change.low, "distance_high": change.high}
                made.append(
                    row(measure + ("_score" * (value == "score")), change.interval, **about)
                )
        keys, extra = [*names, "condition"], ["reference", *_DISTANCES, *MISSING]
        return estimates(made, by=keys, extra=extra, outcomes=checked, reference=reference)

    if in_words:
        is_far = binned[distance] > grouped(binned, ["skill"])[distance].transform("mean")
        is_reference = binned["condition"].eq(reference)
        changes, of_reference = (
            in_own_words(slopes, binned, "transfer.curve", reference, lowers)
            for lowers in (is_far == is_reference, ~is_far)
        )
        is_delta = changes["measure"].str.startswith("delta")
        changes = changes.where(is_delta, of_reference)
        changes["measure"] = changes["measure"].str.removesuffix("_own_words")
    else:
        changes = slopes(binned)
    return pd.concat([*parts, _with_difficulty(changes, unmeasured)], ignore_index=True)


def _with_bins(outcomes: pd.DataFrame, distance: str, bins: int) -> tuple[pd.DataFrame, str]:
    """Return the outcomes that have a distance, with their bins, and a note on the others."""
    checked = check(outcomes, "outcomes")
    require_columns(checked, [distance], "transfer.curve: distance")
    require_whole("bins", bins, FrameError)
    if not pd.api.types.is_numeric_dtype(checked[distance].dropna().infer_objects()):
        found = f"column '{distance}' with {literal(checked[distance].dropna().iloc[0])}"
        raise FrameError(f"transfer.curve: distance: found {found}; allowed: numbers.")
    numbers = checked[distance].astype("float64")
    cases = checked[CASE].assign(**{distance: numbers}).drop_duplicates()
    if len(twice := cases[cases.duplicated(CASE)]):
        case = twice["case_id"].iloc[0]
        raise FrameError(f"transfer.curve: case '{case}' has more than one '{distance}'.")
    known = cases.dropna()
    lost = plural(len(cases) - len(known), "case")
    ranks = known.groupby("skill")[distance]
    place = (ranks.rank() - 0.5) / ranks.transform("size")
    known = known.assign(bin=np.minimum(np.floor(place * bins), bins - 1) + 1)
    binned = checked.drop(columns=distance).merge(known, on=CASE, validate="m:1")
    binned = binned.assign(bin=binned["bin"].astype("Int64")).sort_values("bin", kind="stable")
    if binned.empty:
        raise FrameError(f"transfer.curve: no case has a number in column '{distance}'.")
    return binned, f"left out: {lost} without '{distance}'" if len(cases) > len(known) else ""


def _with_difficulty(slopes: pd.DataFrame, *notes: str) -> pd.DataFrame:
    """Add notes to the slopes of deltas: whether the rate without the skill also has a slope."""
    is_delta = slopes["measure"].str.startswith("delta")
    for at, base in zip(slopes.index[is_delta], slopes.index[~is_delta], strict=True):
        rate = slopes.loc[base]
        ends, reference = rate[["estimate", "ci_low", "ci_high"]].to_numpy(float), rate["reference"]
        scale, form, unit = (1, "+.2f", "") if rate["unit"] == "score" else (100, "+.0f", " points")
        change, low, high = (format(scale * end, form) for end in ends)
        unseen = scale * _SEEN * (ends[2] - ends[1]) / 2
        text = f"whether cases far away are harder under {reference} is not known"
        if ends[1] > 0 or ends[2] < 0:
            text = (
                f"under {reference} the rate changes by {change}{unit} [{low}, {high}] from the "
                "nearest to the farthest case: distance and difficulty cannot be separated"
            )
        elif np.isfinite(unseen):
            text = (
                f"under {reference} no slope of the rate is shown; one of "
                f"{unseen:{form[1:]}}{unit} would be shown in 8 of 10 such studies"
            )
        slopes.loc[at, "note"] = join_notes(slopes.loc[at, "note"], text, *notes)
    return slopes.assign(bin=pd.array([pd.NA] * len(slopes), "Int64"))


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
