"""Transfer: effects of a skill on near cases, and on far cases that do not resemble the skill."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
import pandas as pd

from skillcomp import deltas
from skillcomp.bias.feature_effects import features, known_attempts
from skillcomp.contrast import (
    Value,
    arms_of,
    case_table,
    cluster_readings,
    compared_outcomes,
    covering,
    level_of,
    means_of_cases,
    missing_note,
)
from skillcomp.errors import FrameError, plural
from skillcomp.frames.case_clusters import both_clusters
from skillcomp.frames.check import check
from skillcomp.frames.contracts import CASE
from skillcomp.frames.estimates import (
    By,
    condition_groups,
    estimates,
    grouped,
    groups,
    listed,
    ordered,
    row,
)
from skillcomp.stats.bounded import RATES, Arm, IntervalRule, bounded_mean
from skillcomp.stats.gaps import StandardisedGap, standardised_gap
from skillcomp.stats.results import Interval, join_notes, undefined

__all__ = ["contrast", "gap", "hedging", "rates"]


def __dir__() -> list[str]:
    return __all__


# With four near (or far) cases or fewer, each case has at least a quarter of the weight in the mean
# delta, and the interval spans most of the range from -1 to 1 for any data.
MIN_CASES = 5

NO_DISTANCE = "no case is near or far: name its column by transfer= in from_frame"

_LEFT_OUT = ["n_missing", "worst_low", "worst_high"]
_EXTRA = ["scope", "n_near", "n_far", "dimensions", "n_dropped"]
_MEASURES = ("near_delta", "far_delta", "gap")
_Row = dict[str, Any]


def gap(
    outcomes: pd.DataFrame,
    *,
    by: By = (),
    value: Value = "passed",
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
    value : {"passed", "share_passed"}, default "passed"
        As in :func:`skillcomp.deltas.paired`.
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
        ``near_delta``, ``far_delta`` and ``gap`` (far minus near), first for scope
        ``within_dimensions`` (the main result), then for scope ``pooled`` (all cases, with distance
        and dimension confounded). Estimates are in rate units. Intervals and p-values are clustered
        by case, and a contrast pair is one cluster. ``n_near`` and ``n_far`` count the cases.
        ``dimensions`` lists the dimensions used. ``n_dropped`` counts the cases with an outcome
        under only one of the two conditions. Estimates are NaN with a note if there are fewer than
        five near or five far cases; for ``within_dimensions`` only cases in dimensions with both
        kinds count. ``note`` counts the near and far attempts without an outcome by condition.

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
    names, averaged = listed(by), listed(average)
    how: dict[str, Any] = {"value": value, "reference": reference, "average": averaged}
    checked = compared_outcomes(outcomes, names, "transfer", **how)
    table = case_table(checked, by=[*names, *averaged])
    table["rate"] = level_of(table, value)
    facts = [name for name in ("transfer", "comprehension_dimension") if name not in names]
    table = table.merge(checked.drop_duplicates(CASE)[[*CASE, *facts]], on=CASE, validate="m:1")
    settings = _GapSettings(value != "passed", ci_level, interval)
    deltas_of_case = ["delta", "rate", "rate_of_reference"]
    rows = []
    for values, group in groups(table, names):
        counted = [*CASE, *averaged, "rate", "size", "n", "n_shares", "n_checks"]
        base = group.loc[group["condition"].eq(reference), counted]
        for condition in ordered(group["condition"], reference):
            part = group[group["condition"].eq(condition)]
            keys = [*CASE, *averaged]
            both = part.merge(base, on=keys, suffixes=("", "_of_reference"), validate="1:1")
            both["delta"] = both["rate"] - both["rate_of_reference"]
            either = pd.concat([part[CASE], base[CASE]]).drop_duplicates()
            complete, means = means_of_cases(both[both["delta"].notna()], deltas_of_case, averaged)
            about = values | {"condition": condition, "n_dropped": len(either) - len(complete)}
            complete = complete[complete["transfer"].notna()]
            each = _within_dimensions(complete, settings, about)
            each += _pooled_rows(complete, settings, about)
            each = [_with_missing(line, both, value) for line in each]
            rows += [line | {"note": join_notes(line["note"], means)} for line in each]
    noted: dict[str, Any] = {"outcomes": checked, "reference": reference}
    return estimates(rows, by=[*names, "condition"], extra=_EXTRA, **noted)


@dataclass(frozen=True, slots=True)
class _GapSettings:
    """Settings: whether values are shares of checks, and the level and rule of the intervals."""

    is_share: bool
    ci_level: float
    interval: IntervalRule

    def gaps(self, pairs: pd.DataFrame, far: Any, levels: Any) -> list[StandardisedGap]:
        """Compare far with near cases, once for each possible clustering of the cases."""
        sides: list[Any] = [
            (*(pairs[f"{name}{end}"].to_numpy() for name in ("rate", "n", "n_checks")), sign)
            for end, sign in (("", 1.0), ("_of_reference", -1.0))
        ]
        how: dict[str, Any] = {"ci_level": self.ci_level, "interval": self.interval}
        how["arms"] = arms_of(sides, is_share=self.is_share)
        return [
            standardised_gap(pairs["delta"], far, levels, clusters, **how)
            for clusters in cluster_readings(pairs)
        ]


def _with_missing(line: _Row, pairs: pd.DataFrame, value: Value) -> _Row:
    """Add to the note the numbers of near and of far attempts without an outcome."""
    n = "n" if value == "passed" else "n_shares"
    if line["scope"] == "within_dimensions":
        dimensions = line["dimensions"].split(", ")
        pairs = pairs[pairs["comprehension_dimension"].isin(dimensions)]
    notes = []
    for kind in ("near", "far"):
        part = pairs[pairs["transfer"].eq(kind)]
        sides = [(part[f"size{end}"], part[f"{n}{end}"]) for end in ("", "_of_reference")]
        counts = [total for size, seen in sides for total in ((size - seen).sum(), size.sum())]
        note, warning = missing_note(counts)
        if note and line["measure"] in (f"{kind}_delta", "gap"):
            notes.append(join_notes(f"{kind}: {note}", warning))
    return line | {"note": join_notes(line["note"], *notes)}


def _within_dimensions(pairs: pd.DataFrame, settings: _GapSettings, about: _Row) -> list[_Row]:
    labelled = pairs[pairs["comprehension_dimension"].notna()]
    level = labelled.groupby(["skill", "comprehension_dimension"], sort=False)
    compared = labelled[level["transfer"].transform("nunique").eq(2)]
    names = ", ".join(sorted(compared["comprehension_dimension"].unique()))
    about = about | {"scope": "within_dimensions", "dimensions": names}
    codes = compared.groupby(["skill", "comprehension_dimension"], sort=False).ngroup().to_numpy()
    n_levels = len(np.unique(codes))
    note = (
        f"near and far compared within {names}: average over {plural(n_levels, 'level')} "
        "(dimension of a skill), weights near x far / (near + far) cases"
    )
    few = "too few cases in dimensions of a skill that have both near and far"
    if compared.empty:
        n_near, n_far = (int(pairs["transfer"].eq(kind).sum()) for kind in ("near", "far"))
        why = "no case has a dimension: name its column by dimension= in from_frame"
        why = why if labelled.empty else "no dimension of a skill has both near and far cases"
        counts = f"{n_near} near and {n_far} far cases"
        few = f"{why}; scope 'pooled' ({counts}) confounds distance with dimension"
        few = few if n_near or n_far else NO_DISTANCE
    return _gap_rows(compared, codes, settings, about, note, few)


def _pooled_rows(pairs: pd.DataFrame, settings: _GapSettings, about: _Row) -> list[_Row]:
    names = ", ".join(sorted(pairs["comprehension_dimension"].dropna().unique()))
    about = about | {"scope": "pooled", "dimensions": names}
    why = (
        "distance is confounded with the rubric dimension: near and far cases ask different things"
    )
    codes = np.zeros(len(pairs), dtype=np.intp)
    few = "too few near or far cases" if pairs["transfer"].notna().any() else NO_DISTANCE
    return _gap_rows(pairs, codes, settings, about, why, few)


def _gap_rows(
    pairs: pd.DataFrame, levels: Any, settings: _GapSettings, about: _Row, note: str, few: str
) -> list[_Row]:
    n_near, n_far = (int(pairs["transfer"].eq(kind).sum()) for kind in ("near", "far"))
    about = about | {"n_near": n_near, "n_far": n_far}
    if min(n_near, n_far) < MIN_CASES:
        counts = f": {n_near} near and {n_far} far, at least {MIN_CASES} of each are needed"
        note = few + (counts if len(pairs) else "")
        sizes = (n_near, n_far, n_near + n_far)
        three = [undefined("", note, ci_level=settings.ci_level, n=float(n)) for n in sizes]
    else:
        far = pairs["transfer"].eq("far").to_numpy()
        gaps = settings.gaps(pairs, far, levels)
        sets = [[each.first, each.second, each.gap] for each in gaps]
        three = [reduce(covering, intervals) for intervals in zip(*sets, strict=True)]
        three = [replace(i, note=join_notes(note, i.note)) for i in three]
    return [row(m, interval, **about) for m, interval in zip(_MEASURES, three, strict=True)]


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
    checked = checked[checked["transfer"].notna()]
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
        a pair, with the interval of a bounded mean. ``n`` counts the pairs. ``n_missing`` counts
        the pairs of attempts that are left out because one has no outcome; ``worst_low`` and
        ``worst_high`` are the lowest and the highest value that these allow. NaN with a note if no
        pair has outcomes of both cases.

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
    complete = pairs["passed"].notna() & pairs["passed_of"].notna()
    right = pairs[["passed", "passed_of"]].fillna(False).astype(int).sum(axis=1)
    wrong = pairs[["passed", "passed_of"]].eq(False).fillna(False).astype(int).sum(axis=1)
    original = pairs["passed_of"].fillna(False).astype(bool)
    # `both_right_possible` is True if `both_right` would be True for some values of the missing
    # outcomes, and so on for the other measures.
    pairs = pairs.assign(
        known=complete,
        both_right=right.eq(2),
        one_right=right.eq(1) & complete,
        none_right=right.eq(0) & complete,
        only_original_right=right.eq(1) & original & complete,
        both_right_possible=wrong.eq(0),
        one_right_possible=right.lt(2) & wrong.lt(2),
        none_right_possible=right.eq(0),
        only_original_right_possible=(right.eq(0) | original & right.eq(1))
        & ~pairs["passed_of"].eq(False).fillna(False).astype(bool),
    )
    how: dict[str, Any] = {"ci_level": ci_level, "interval": interval}
    rows = []
    for values, part in condition_groups(pairs, names):
        for measure in ("both_right", "one_right", "none_right"):
            rows.append(_contrast_row(part, measure, **how) | values)
        with_original = part[~part["mutual"]]
        why = "twins that name each other have no original and are left out"
        why = why if len(with_original) < len(part) else ""
        rows.append(_contrast_row(with_original, "only_original_right", why, **how) | values)
    return estimates(rows, by=[*names, "condition"], extra=_LEFT_OUT, outcomes=checked)


def _contrast_row(part: pd.DataFrame, measure: str, note: str = "", **how: Any) -> _Row:
    """Estimate a share of pairs, and its bounds over all possible outcomes of the missing pairs."""
    interval = _share_of_pairs(part[part["known"]], measure, **how)
    n_missing, worst = int((~part["known"]).sum()), [np.nan, np.nan]
    if len(part):
        shares = part.groupby(CASE, sort=False)[[measure, f"{measure}_possible"]].mean()
        worst = shares.mean().tolist()
    missing = (
        f"{n_missing} of {plural(len(part), 'pair')} of attempts left out, without an outcome of "
        f"one or both; in the worst case the share is {worst[0]:.2f} or {worst[1]:.2f}"
    )
    interval = replace(interval, note=join_notes(interval.note, note, missing if n_missing else ""))
    return row(measure, interval, **dict(zip(_LEFT_OUT, (n_missing, *worst), strict=True)))


def _twin_attempts(outcomes: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """Return one row per pair, condition and repeat, with the outcomes of both of its cases.

    ``passed_of`` is the outcome of the case that ``contrast_of`` names.
    """
    cluster, by_name = both_clusters(outcomes, None, None)
    outcomes = outcomes.assign(cluster=cluster, cluster_by_name=by_name)
    cases = outcomes.drop_duplicates(CASE)
    cases = cases[cases["contrast_of"].notna() & cases["contrast_of"].ne(cases["case_id"])]
    ends = np.sort(cases[["case_id", "contrast_of"]].to_numpy(dtype=object), axis=1)
    both = pd.DataFrame(ends, index=cases.index).assign(skill=cases["skill"])
    # if two cases name each other, keep one of the two rows
    cases = cases.assign(mutual=both.duplicated(keep=False))[~both.duplicated()]
    keys = list(dict.fromkeys([*names, "condition", "skill", "repeat"]))
    # Several attempts of a case may have the same repeat, or none. Number them, because otherwise
    # each of them would be matched with every such attempt of the other case.
    outcomes = outcomes.assign(turn=grouped(outcomes, [*keys, "case_id"]).cumcount())
    contrasts = outcomes.merge(cases[[*CASE, "mutual"]], on=CASE)
    other = outcomes[[*keys, "turn", "case_id", "passed"]].rename(
        columns={"case_id": "contrast_of", "passed": "passed_of"}
    )
    return contrasts.merge(other, on=[*keys, "turn", "contrast_of"], how="left", validate="m:1")


def _share_of_pairs(pairs: pd.DataFrame, measure: str, **how: Any) -> Interval:
    if pairs.empty:
        why = "no contrast pair with outcomes of both members"
        return undefined("", why, ci_level=how["ci_level"], n=0)
    keys = [*CASE, "cluster", "cluster_by_name"]
    shares = pairs.groupby(keys, sort=False)[measure].agg(["mean", "size"]).reset_index()
    how |= {"quantity": RATES, "arms": [Arm(shares["mean"], shares["size"])]}
    return reduce(
        covering, [bounded_mean(shares["mean"], c, **how) for c in cluster_readings(shares)]
    )


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
    cluster, by_name = both_clusters(checked, None, None)
    checked = checked.assign(
        cluster=cluster,
        cluster_by_name=by_name,
        hedges=checked["attempt_id"].map(about).astype("float64"),
    )
    complete = checked[checked["passed"].notna() & checked["hedges"].notna()]
    complete = complete.assign(
        wrong=~complete["passed"].astype(bool), hedged=complete["hedges"].gt(0)
    )
    keys = [*names, "condition", *CASE, "cluster", "cluster_by_name", "wrong"]
    shares = grouped(complete, keys)["hedged"].agg(["mean", "size"]).reset_index()
    measures = ("hedged_rate_right", "hedged_rate_wrong", "hedged_gap")
    how: dict[str, Any] = {"quantity": RATES, "ci_level": ci_level, "interval": interval}
    rows = []
    for values, part in condition_groups(shares, names):
        mine = part[part.groupby("skill")["wrong"].transform("nunique").eq(2)]
        why = "no skill has both right and wrong answers"
        three = [undefined("", why, ci_level=ci_level, n=0)] * 3
        if len(mine):
            hedged, wrong, skill = (mine[name] for name in ("mean", "wrong", "skill"))
            how["arms"] = [Arm(hedged, mine["size"])]
            gaps = [
                standardised_gap(hedged, wrong, skill, clusters, **how)
                for clusters in cluster_readings(mine)
            ]
            sets = [[each.first, each.second, each.gap] for each in gaps]
            three = [reduce(covering, intervals) for intervals in zip(*sets, strict=True)]
        rows += [row(m, interval, **values) for m, interval in zip(measures, three, strict=True)]
    return estimates(rows, by=[*names, "condition"], outcomes=checked)
