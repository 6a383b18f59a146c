"""Near versus far: how well what the skill teaches carries over to cases it does not resemble."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from skillcomp import deltas
from skillcomp.bias.feature_effects import features, known_attempts
from skillcomp.errors import plural
from skillcomp.frames.case_table import (
    Value,
    case_table,
    clusters_of,
    compared_outcomes,
    level_of,
)
from skillcomp.frames.check import check
from skillcomp.frames.contracts import CASE
from skillcomp.frames.estimates import estimates, groups, listed, ordered, row
from skillcomp.stats.bounded import RATES, bounded_mean
from skillcomp.stats.gaps import standardised_gap
from skillcomp.stats.results import Interval, join_notes, undefined

__all__ = ["contrast", "gap", "hedging", "rates"]


def __dir__() -> list[str]:
    return __all__


# With four cases or fewer of a kind the mean of their deltas moves by a quarter or more with each
# single case, and the interval spans most of the range from -1 to 1 whatever was observed.
MIN_CASES = 5

_EXTRA = ["scope", "n_near", "n_far", "dimensions", "n_dropped"]
_MEASURES = ("near_delta", "far_delta", "gap")


def gap(
    outcomes: pd.DataFrame,
    *,
    by: Sequence[str] = (),
    value: Value = "passed",
    reference: str = "baseline",
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Say whether the skill helps far cases as much as near ones.

    The delta of each case (skill minus baseline, repeats averaged) is compared between near and
    far cases. Distance is confounded with the rubric dimension by design, so the headline compares
    near and far within dimensions and skills that have both.

    Parameters
    ----------
    outcomes : pandas.DataFrame
        An outcomes frame with transfer and comprehension_dimension.
    by : sequence of str
        Columns that keep rows apart, such as ``["skill"]``.
    value : {"passed", "share_passed"}, default "passed"
        Whole attempts passed, or the share of checks passed.
    reference : str, default "baseline"
        The condition that the others are compared with.
    ci_level : float, default 0.95
        Level of the intervals.

    Returns
    -------
    pandas.DataFrame
        Six rows per ``by`` and condition: measure ``near_delta``, ``far_delta`` and ``gap`` (far
        minus near) for scope ``within_dimensions`` (the headline) and then ``pooled`` (all cases,
        distance mixed with dimension, as its note says). Estimates in rate units with interval
        and p-value clustered by case (cases that contrast with one another together), ``n`` and
        ``n_clusters`` behind the row, ``n_near`` and ``n_far`` cases, ``dimensions`` that enter,
        ``n_dropped`` cases without a partner. NaN with a note where there are fewer than five
        near or five far cases, or no dimension has both.

    Raises
    ------
    FrameError
        As :func:`skillcomp.deltas.paired`.

    See Also
    --------
    contrast : Both members of a contrast pair right, one, or none.
    skillcomp.plots.transfer : Draws the rates behind it (:func:`rates`).

    Notes
    -----
    A level is a dimension of a skill. ``within_dimensions`` averages the levels' near deltas, far
    deltas and gaps with the same weights ``a b / (a + b)`` for ``a`` near and ``b`` far cases:
    what a level can say about a gap (:func:`skillcomp.stats.gaps.standardised_gap`). No common
    gap is assumed, and differences between levels do not count as uncertainty. Intervals are
    those of bounded means for attempts passed and for shares alike. Additive: the difference is
    in rate units and may look different on a log-odds scale near the ceiling.
    """
    names = listed(by)
    given = compared_outcomes(outcomes, names, "transfer", value=value, reference=reference)
    table = case_table(given, by=names)
    table["rate"] = level_of(table, value)
    facts = ["transfer", "comprehension_dimension"]
    facts_of = given.drop_duplicates(CASE)[[*CASE, *(name for name in facts if name not in names)]]
    table = table.merge(facts_of, on=CASE, validate="m:1")
    rows = []
    for values, group in groups(table, names):
        base = group.loc[group["condition"].eq(reference), [*CASE, "rate"]]
        for condition in ordered(group["condition"], reference):
            part = group[group["condition"].eq(condition)]
            both = part.merge(base, on=CASE, suffixes=("", "_of_reference"), validate="1:1")
            both["delta"] = both["rate"] - both["rate_of_reference"]
            known = both[both["delta"].notna()]
            dropped = len(part) + len(base) - len(both) - len(known)
            about = values | {"condition": condition, "n_dropped": dropped}
            known = known[known["transfer"].notna()]
            rows += _within_dimensions(known, ci_level, about) + _pooled(known, ci_level, about)
    return estimates(rows, by=[*names, "condition"], extra=_EXTRA)


def _within_dimensions(
    pairs: pd.DataFrame, ci_level: float, about: dict[str, Any]
) -> list[dict[str, Any]]:
    known = pairs[pairs["comprehension_dimension"].notna()]
    level = known.groupby(["skill", "comprehension_dimension"], sort=False)
    kept = known[level["transfer"].transform("nunique").eq(2)]
    names = ", ".join(sorted(kept["comprehension_dimension"].unique()))
    about = about | {"scope": "within_dimensions", "dimensions": names}
    codes = kept.groupby(["skill", "comprehension_dimension"], sort=False).ngroup().to_numpy()
    n_levels = len(np.unique(codes))
    note = (
        f"near and far compared within {names}: average over {plural(n_levels, 'level')} "
        "(dimension of a skill), weights near x far / (near + far) cases"
    )
    few = "too few cases in dimensions of a skill that have both near and far"
    return _rows(kept, codes, ci_level, about, note, few)


def _pooled(pairs: pd.DataFrame, ci_level: float, about: dict[str, Any]) -> list[dict[str, Any]]:
    names = ", ".join(sorted(pairs["comprehension_dimension"].dropna().unique()))
    about = about | {"scope": "pooled", "dimensions": names}
    note = (
        "distance is confounded with the rubric dimension: near and far cases ask different things"
    )
    codes = np.zeros(len(pairs), dtype=np.intp)
    return _rows(pairs, codes, ci_level, about, note, "too few near or far cases")


def _rows(
    pairs: pd.DataFrame,
    levels: np.ndarray[Any, Any],
    ci_level: float,
    about: dict[str, Any],
    note: str,
    few: str,
) -> list[dict[str, Any]]:
    n_near, n_far = (int(pairs["transfer"].eq(kind).sum()) for kind in ("near", "far"))
    about = about | {"n_near": n_near, "n_far": n_far}
    if min(n_near, n_far) < MIN_CASES:
        note = f"{few}: {n_near} near and {n_far} far, at least {MIN_CASES} of each are needed"
        sizes = zip(_MEASURES, (n_near, n_far, n_near + n_far), strict=True)
        return [
            row(m, undefined("", note, ci_level=ci_level, n=float(n)), **about) for m, n in sizes
        ]
    far = pairs["transfer"].eq("far").to_numpy()
    found = standardised_gap(pairs["delta"], far, levels, pairs["cluster"], ci_level=ci_level)
    intervals = zip(_MEASURES, (found.first, found.second, found.gap), strict=True)
    return [row(m, replace(one, note=join_notes(note, one.note)), **about) for m, one in intervals]


def rates(
    outcomes: pd.DataFrame, *, by: Sequence[str] = (), ci_level: float = 0.95
) -> pd.DataFrame:
    """Give the pass rates of near and far cases under each condition: what the figure draws.

    Parameters
    ----------
    outcomes : pandas.DataFrame
        An outcomes frame with transfer.
    by : sequence of str
        Columns that keep rows apart.
    ci_level : float, default 0.95
        Level of the intervals.

    Returns
    -------
    pandas.DataFrame
        One row per ``by``, transfer (near, far) and condition: estimates columns (measure
        ``rate_passed``) with the interval of a bounded mean over cases. Raw rates,
        each case with one vote: not standardised over dimensions as :func:`gap` is.
    """
    given = check(outcomes, "outcomes")
    given = given[given["transfer"].notna()]
    return deltas.rates(given, by=[*listed(by), "transfer"], ci_level=ci_level)


def contrast(
    outcomes: pd.DataFrame, *, by: Sequence[str] = (), ci_level: float = 0.95
) -> pd.DataFrame:
    """Say how often both members of a contrast pair are right: the test of pattern matching.

    A contrast pair is a case and its twin with one decisive detail changed. An agent that matches
    surface patterns gets one right and the other wrong.

    Parameters
    ----------
    outcomes : pandas.DataFrame
        An outcomes frame in which at least one of two twins carries ``contrast_of``, the case_id
        of the other in the same skill.
    by : sequence of str
        Columns that keep rows apart.
    ci_level : float, default 0.95
        Level of the intervals.

    Returns
    -------
    pandas.DataFrame
        Four rows per ``by`` and condition: measure ``both_right``, ``one_right``, ``none_right``,
        and ``only_original_right``, the part of ``one_right`` in which the case is right that the
        wrong one names in ``contrast_of``: the sign of pattern matching. The share of pairs,
        averaged over repeats within a pair (repeat 1 of the case goes with repeat 1 of its twin;
        without repeat numbers, attempts go together in their order), n pairs, the interval of a
        bounded mean. Twins that name each other are one pair, of which nobody says which is the
        original; pairs that share a case are one cluster. NaN with a note where there is no
        complete pair.

    Raises
    ------
    FrameError
        If the frame breaks its contract or several graders would be pooled.
    """
    names = listed(by)
    given = compared_outcomes(outcomes, names, "transfer")
    pairs = _twin_attempts(given, names)
    known = pairs["passed"].notna() & pairs["passed_of"].notna()
    right = pairs[["passed", "passed_of"]].fillna(False).astype(int).sum(axis=1)
    pairs = pairs.assign(
        known=known,
        both_right=right.eq(2),
        one_right=right.eq(1),
        none_right=right.eq(0),
        only_original_right=right.eq(1) & pairs["passed_of"].fillna(False).astype(bool),
    )
    rows = []
    for values, part in deltas.condition_groups(pairs, names):
        mine = part[part["known"]]
        for measure in ("both_right", "one_right", "none_right"):
            rows.append(row(measure, _share(mine, measure, ci_level), **values))
        named = mine[~mine["mutual"]]
        found = _share(named, "only_original_right", ci_level)
        if len(named) < len(mine):
            why = "twins that name each other have no original and are left out"
            found = replace(found, note=join_notes(found.note, why))
        rows.append(row("only_original_right", found, **values))
    return estimates(rows, by=[*names, "condition"])


def _twin_attempts(given: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """Return one row per pair, condition and repeat, ``passed_of`` NA where the twin has none."""
    given = given.assign(cluster=clusters_of(given))
    cases = given.drop_duplicates(CASE)
    cases = cases[cases["contrast_of"].notna() & cases["contrast_of"].ne(cases["case_id"])]
    ends = np.sort(cases[["case_id", "contrast_of"]].to_numpy(dtype=object), axis=1)
    both = pd.DataFrame(ends, index=cases.index).assign(skill=cases["skill"])
    # twins that name each other are one pair
    cases = cases.assign(mutual=both.duplicated(keep=False))[~both.duplicated()]
    keys = list(dict.fromkeys([*names, "condition", "skill", "repeat"]))
    # missing repeat numbers equal one another: the running number keeps them one to one
    turn = given.groupby([*keys, "case_id"], dropna=False, observed=True).cumcount()
    given = given.assign(turn=turn)
    contrasts = given.merge(cases[[*CASE, "mutual"]], on=CASE)
    other = given[[*keys, "turn", "case_id", "passed"]].rename(
        columns={"case_id": "contrast_of", "passed": "passed_of"}
    )
    return contrasts.merge(other, on=[*keys, "turn", "contrast_of"], how="left", validate="m:1")


def _share(pairs: pd.DataFrame, measure: str, ci_level: float) -> Interval:
    if pairs.empty:
        why = "no contrast pair with outcomes of both members"
        return undefined("", why, ci_level=ci_level, n=0)
    share = pairs.groupby([*CASE, "cluster"], sort=False)[measure].mean()
    cluster = share.index.get_level_values("cluster")
    return bounded_mean(share, cluster, quantity=RATES, ci_level=ci_level)


def hedging(
    outcomes: pd.DataFrame,
    attempts: pd.DataFrame,
    *,
    by: Sequence[str] = (),
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Say whether an agent hedges where it is wrong: how far its words are calibrated.

    Parameters
    ----------
    outcomes : pandas.DataFrame
        An outcomes frame of one grader (or name ``grader`` in ``by``).
    attempts : pandas.DataFrame
        The attempts with their answers.
    by : sequence of str
        Columns of the outcomes that keep rows apart, such as ``["transfer"]``.
    ci_level : float, default 0.95
        Level of the intervals.

    Returns
    -------
    pandas.DataFrame
        Three rows per ``by`` and condition: measure ``hedged_rate_right`` and ``hedged_rate_wrong``
        (share of the answers that passed, or failed, with at least one hedge such as "perhaps"; a
        mean over cases, repeats averaged inside them) and ``hedged_gap`` (wrong less right, from
        -1 to 1: above 0 the agent hedges more where it is wrong). n counts cases, right and wrong
        ones apart. NaN with a note where no skill has both right and wrong answers.

    Raises
    ------
    FrameError
        If a frame breaks its contract, graders or agents would be pooled, or an attempt of the
        outcomes is not there.

    Notes
    -----
    Right and wrong answers are compared within skills, weights right x wrong / (right + wrong)
    (:func:`skillcomp.stats.gaps.standardised_gap`); cases that contrast are one cluster. English
    hedges only, as :func:`skillcomp.bias.features` counts them: words, not stated probabilities.

    References
    ----------
    Liang et al. 2022, arXiv:2211.09110 (calibration as a metric of its own).
    """
    names = listed(by)
    given = compared_outcomes(outcomes, names, "transfer")
    answered = known_attempts(given, attempts, "transfer.hedging", "outcomes")
    about = features(answered).set_index("attempt_id")["hedges_per_100"]
    given = given.assign(
        cluster=clusters_of(given), hedges=given["attempt_id"].map(about).astype("float64")
    )
    known = given[given["passed"].notna() & given["hedges"].notna()]
    known = known.assign(wrong=~known["passed"].astype(bool), hedged=known["hedges"].gt(0))
    keys = list(dict.fromkeys([*names, "condition", *CASE, "cluster", "wrong"]))
    grouped = known.groupby(keys, sort=False, dropna=False, observed=True)["hedged"]
    shares = grouped.mean().reset_index()
    measures = ("hedged_rate_right", "hedged_rate_wrong", "hedged_gap")
    rows = []
    for values, part in deltas.condition_groups(shares, names):
        mine = part[part.groupby("skill")["wrong"].transform("nunique").eq(2)]
        why = "no skill has both right and wrong answers"
        three = [undefined("", why, ci_level=ci_level, n=0)] * 3
        if len(mine):
            given_groups = mine["hedged"], mine["wrong"], mine["skill"], mine["cluster"]
            found = standardised_gap(*given_groups, quantity=RATES, ci_level=ci_level)
            three = [found.first, found.second, found.gap]
        rows += [row(m, one, **values) for m, one in zip(measures, three, strict=True)]
    return estimates(rows, by=[*names, "condition"])
