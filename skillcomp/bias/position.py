"""Whether the answer shown first wins for being first, from pairwise judgements of any layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from skillcomp.bias.feature_effects import in_points
from skillcomp.errors import FrameError, require_known, suggest
from skillcomp.frames.case_table import clusters_of
from skillcomp.frames.check import check, require_frame
from skillcomp.frames.contracts import CASE
from skillcomp.frames.estimates import (
    GRADER,
    check_settings,
    estimates,
    groups,
    listed,
    require_columns,
    row,
)
from skillcomp.reliability.drift import paired_change
from skillcomp.stats.bounded import DELTAS, RATES, bounded_mean
from skillcomp.stats.results import Interval, undefined

WHAT = "bias.position"
TIES = ("tie", "tied", "draw", "equal", "both", "neither", "none", "c",
        "tie (bothbad)", "tie (inconsistent)")  # fmt: skip
_PAIR = ("pair", "pair_id", "comparison", "case_id", "question_id", "id")
# columns by which files of other tools tell who judged
_JUDGES = (*GRADER, "judge", "judge_name", "judge_id", "judge_model", "model", "annotator", "rater")
_ORDERS = {"ab": 1, "ba": 2, "1": 1, "2": 2}
_SAID = {"a": "A", "b": "B", "1": "A", "2": "B", "model_a": "A", "model_b": "B",
         "answer_a": "A", "answer_b": "B"}  # fmt: skip
_NAMES = "A and B, 1 and 2, model_a and model_b, answer_a and answer_b"
_EXTRA = ("n_consistent", "n_first_twice", "n_second_twice", "n_dropped")


def position(
    pairwise: pd.DataFrame,
    *,
    by: Sequence[str] = (),
    pair: str | None = None,
    winner_names: str = "answer",
    ties: Sequence[str] = TIES,
    cases: pd.DataFrame | None = None,
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Say how often a pair of answers gets the same winner whichever is shown first.

    Parameters
    ----------
    pairwise : pandas.DataFrame
        Our pairwise frame (case_id, first, second, winner or winner_position, both orders of each
        pair), or a frame of another layout with one row per pair and order: a pair column,
        ``order`` (``"AB"`` and ``"BA"``, or 1 and 2) and ``winner`` (``"A"`` and ``"B"``,
        ``"model_a"`` and ``"model_b"``, ``"answer_a"`` and ``"answer_b"``, or 1 and 2).
    by : sequence of str
        Columns that keep rows apart, such as ``["grader"]``. Judgements of several graders, or of
        several values of a column such as judge or model, are never pooled silently.
    pair : str, optional
        The column that names the pair in another layout; without it the first of pair, pair_id,
        comparison, case_id, question_id, id that is there.
    winner_names : {"answer", "position"}, default "answer"
        In another layout, what a winner ``"A"`` means. ``answer``: always the same answer, the
        one shown first in order AB (or 1) and second in BA (or 2), so a judge who keeps to one
        answer says A twice. ``position``: the answer shown first, whichever it is, so a judge who
        keeps to one answer says A and then B.
    ties : sequence of str, default ("tie", "draw", "equal", "both", "neither", "c", ...)
        Words in ``winner`` that name neither answer, in small or capital letters. Such rows, and
        those with a missing winner, have no winner; any other word raises.
    cases : pandas.DataFrame, optional
        Makes the two members of a contrast pair one cluster. Needs case_id in ``pairwise``.
    ci_level : float, default 0.95
        Level of the intervals.

    Returns
    -------
    pandas.DataFrame
        Three rows per ``by``: measure ``position_consistency`` (share of the pairs whose winner is
        the same in both orders), ``first_wins_if_inconsistent`` (share of the other pairs won
        twice by the first shown; p_value against 1/2), and ``position_points`` (how many
        percentage points more often an answer wins when it is shown first, paired, cases weighing
        equally). Extra: n_consistent, n_first_twice, n_second_twice, n_dropped (pairs
        without a winner in both orders).

    Raises
    ------
    FrameError
        If columns are missing, a pair has more than two rows or one order twice, a winner is
        neither an answer nor a tie, graders would be pooled, or ``ci_level`` is no level.

    Notes
    -----
    A pair is named by its case (skill and case_id, where they are there) and its two answers, or
    the pair column. Intervals: :func:`skillcomp.stats.bounded.bounded_mean` with the pairs of a
    case, or of a contrast pair, as one cluster.

    See Also
    --------
    consistency_change : Two judges on the same pairs.

    References
    ----------
    Zheng et al. 2023, arXiv:2306.05685.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"pair": [1, 1, 2, 2, 3, 3], "order": ["AB", "BA"] * 3,
    ...                       "winner": ["A", "A", "A", "B", "B", "B"]})
    >>> found = position(frame)
    >>> found[["measure", "estimate", "n"]].round(3).values.tolist()[:2]
    [['position_consistency', 0.667, 3.0], ['first_wins_if_inconsistent', 1.0, 1.0]]
    """
    check_settings(WHAT, ci_level)
    names = listed(by)
    pairs = first_wins(
        pairwise, by=names, pair=pair, winner_names=winner_names, ties=ties, cases=cases
    )
    rows = []
    for values, part in groups(pairs, names):
        for measure, interval, counts in of_pairs(part, ci_level):
            rows.append(row(measure, interval, **counts) | values)
    return estimates(rows, by=names, extra=list(_EXTRA))


def of_pairs(pairs: pd.DataFrame, ci_level: float) -> list[tuple[str, Interval, dict[str, int]]]:
    """Return the three measures of one group of pairs."""
    known = pairs[pairs["first_1"].notna() & pairs["first_2"].notna()]
    wins = known["first_1"] + known["first_2"]
    twice, never = int(wins.eq(2).sum()), int(wins.eq(0).sum())
    n = len(known)
    counts = dict(zip(_EXTRA, (n - twice - never, twice, never, len(pairs) - n), strict=True))
    if n == 0:
        nothing = undefined("", "no pair has a winner in both orders", ci_level=ci_level, n=0.0)
        return [(measure, nothing, counts) for measure in _MEASURES]
    cluster, both = known["cluster"].to_numpy(), ~wins.eq(1)
    consistent = bounded_mean(~both.to_numpy(), cluster, quantity=RATES, ci_level=ci_level)
    biased = bounded_mean(
        wins[both].eq(2).to_numpy(), cluster[both], quantity=RATES, null=0.5, ci_level=ci_level
    )
    if not both.any():
        biased = replace(biased, note="every pair is consistent")
    # what was shown first in order 1 loses order 2 exactly when the first shown wins there
    by_case = known.assign(points=wins - 1).groupby("case", sort=False)
    values, clusters = by_case["points"].mean(), by_case["cluster"].first()
    points = bounded_mean(values, clusters, quantity=DELTAS, null=0.0, ci_level=ci_level)
    found = zip(_MEASURES, (consistent, biased, in_points(points)), strict=True)
    return [(measure, interval, counts) for measure, interval in found]


_MEASURES = ("position_consistency", "first_wins_if_inconsistent", "position_points")


_CHANGE_EXTRA = ("rate", "reference_rate", "n_gained", "n_lost", "n_dropped", "p_items")


def consistency_change(
    pairwise: pd.DataFrame,
    *,
    reference: str,
    judge: str = "grader",
    by: Sequence[str] = (),
    pair: str | None = None,
    winner_names: str = "answer",
    ties: Sequence[str] = TIES,
    cases: pd.DataFrame | None = None,
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Say whether another version of a pairwise judge is swayed less by the order of the answers.

    Compares two judges on the pairs that both decided in both orders. For the consistency of one
    judge use :func:`position`.

    Parameters
    ----------
    pairwise : pandas.DataFrame
        As in :func:`position`, with the judgements of the reference and of at least one other.
    reference : str
        The value of ``judge`` that the others are compared with.
    judge : str, default "grader"
        The column that tells the judges or versions apart.
    by : sequence of str
        Further columns that keep rows apart.
    pair, winner_names, ties, cases, ci_level
        As in :func:`position`.

    Returns
    -------
    pandas.DataFrame
        One row per ``by`` and value of ``judge`` other than the reference, in the estimates shape:
        measure ``position_consistency_change`` (share of pairs with the same winner in both orders,
        less that of the reference; from -1 to 1, above 0 is steadier), n counts pairs. Extra:
        reference, rate and reference_rate, n_gained (consistent with this judge only), n_lost (with
        the reference only), n_dropped (pairs that lack a winner in one order of one judge), p_items
        (mid-p McNemar with pairs as independent). NaN with a note without a pair in common.

    Raises
    ------
    FrameError
        As :func:`position`; or if the reference is not there, is the only judge, or ``by`` names
        ``judge``.

    Notes
    -----
    p_value is the mid-p McNemar test on consistent and inconsistent pairs with the case as unit:
    the flips of a case, or of cases that contrast, are exchanged together. The interval is that of
    :func:`skillcomp.reliability.drift`. A judge may be consistent and wrong.

    References
    ----------
    Fagerland, Lydersen and Laake 2013, doi:10.1186/1471-2288-13-91.

    Examples
    --------
    The old judge keeps to the first answer in three of four pairs, the new one in none.

    >>> import pandas as pd
    >>> old = pd.DataFrame({"pair": [1, 1, 2, 2, 3, 3, 4, 4], "order": ["AB", "BA"] * 4,
    ...                     "winner": ["A", "A"] + ["A", "B"] * 3, "grader": "old"})
    >>> new = old.assign(winner="A", grader="new")
    >>> found = consistency_change(pd.concat([old, new]), reference="old").iloc[0]
    >>> float(found["estimate"]), int(found["n_gained"]), round(float(found["p_value"]), 3)
    (0.75, 3, 0.125)
    """
    what = "bias.consistency_change"
    check_settings(what, ci_level)
    names = listed(by)
    if judge in names:
        raise FrameError(f"{what}: by= names '{judge}', which is what is compared. Leave it out.")
    pairs = first_wins(
        pairwise, by=[*names, judge], pair=pair, winner_names=winner_names, ties=ties, cases=cases
    )
    pairs[judge] = pairs[judge].astype("str")
    reference, there = str(reference), pairs[judge].dropna().unique().tolist()
    if reference not in there or len(there) < 2:
        lacking = "is the only one" if reference in there else "is not there"
        raise FrameError(
            f"{what}: reference: {judge} '{reference}' {lacking}; there: {', '.join(there)}."
            + ("" if reference in there else suggest(str(reference), there))
        )
    known = pairs[["first_1", "first_2"]].notna().all(axis=1)
    same = pairs["first_1"].add(pairs["first_2"]).eq(1).astype("float64").where(known)
    pairs = pairs.assign(consistent=same)
    rows = []
    for values, part in groups(pairs, names):
        old = part.loc[part[judge].eq(reference), [*_KEY, "consistent"]]
        for name, new in part[part[judge].ne(reference)].groupby(judge, sort=False):
            both = new[[*_KEY, "consistent"]].merge(
                old, on=_KEY, how="outer", suffixes=("", "_old")
            )
            about = {**values, judge: name, "reference": reference}
            rows.append(about | _changed(both, ci_level))
    return estimates(rows, by=[*names, judge], extra=["reference", *_CHANGE_EXTRA])


_KEY = ["case", "pair", "cluster"]


def _changed(both: pd.DataFrame, ci_level: float) -> dict[str, Any]:
    """Return the row of one judge beside the reference."""
    measure = "position_consistency_change"
    kept = both.dropna(subset=["consistent", "consistent_old"])
    n_dropped = len(both) - len(kept)
    if kept.empty:
        why = "no pair has a winner in both orders by both judges"
        nothing = undefined("", why, ci_level=ci_level, n=0.0)
        return row(measure, nothing, n_dropped=n_dropped, n_gained=0, n_lost=0)
    new, old = kept["consistent"].to_numpy(), kept["consistent_old"].to_numpy()
    found, about = paired_change(new, old, kept["cluster"], ci_level)
    counts = {"n_gained": int((new > old).sum()), "n_lost": int((new < old).sum())}
    return row(measure, found, **about, **counts, n_dropped=n_dropped)


def first_wins(
    pairwise: pd.DataFrame,
    *,
    by: Sequence[str],
    pair: str | None = None,
    winner_names: str = "answer",
    ties: Sequence[str] = TIES,
    cases: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Return one row per pair: ``by``, case and, for each order, whether the first shown won."""
    require_frame(pairwise, "pairwise")
    words = [_word(one) for one in ([ties] if isinstance(ties, str) else ties)]
    ours = {"first", "second"} <= set(pairwise.columns)
    long = (
        _from_our_layout(pairwise, words)
        if ours
        else _from_other_layout(pairwise, pair, winner_names, words)
    )
    require_columns(long, by, WHAT)
    _require_one_judge(long, by)
    keys = list(dict.fromkeys([*by, "_case", "_pair"]))
    doubled = long.duplicated([*keys, "_order"], keep=False)
    if doubled.any():
        first = long.loc[doubled, "_pair"].iloc[0]
        raise FrameError(
            f"{WHAT}: pair '{first}' has one order twice; a pair has one row for each of "
            "two orders. Is a column missing in by=?"
        )
    long = long.assign(_cluster=_clusters(long, cases))
    wide = long.set_index([*keys, "_order"])["_first"].unstack("_order").reindex(columns=[1, 2])
    wide = wide.rename(columns={1: "first_1", 2: "first_2"}).reset_index()
    about = long.drop_duplicates(keys)[[*keys, "_cluster"]]
    plain = {"_case": "case", "_pair": "pair", "_cluster": "cluster"}
    return wide.merge(about, on=keys, how="left").rename(columns=plain)


def _require_one_judge(long: pd.DataFrame, by: Sequence[str]) -> None:
    """Raise FrameError when judgements of several judges would be taken for those of one."""
    kept = [name for name in _JUDGES if name in by and name in long.columns]
    for name in _JUDGES:
        if name in kept or name not in long.columns:
            continue
        parts = [rows for _, rows in long.groupby(kept, dropna=False)] if kept else [long]
        if any(rows[name].nunique(dropna=False) > 1 for rows in parts):
            found = ", ".join(sorted("none" if pd.isna(n) else str(n) for n in long[name].unique()))
            raise FrameError(
                f"{WHAT}: the frame holds more than one {name}: {found}. Add '{name}' to by=, "
                "or select one first."
            )


def _clusters(long: pd.DataFrame, cases: pd.DataFrame | None) -> pd.Series:
    """Return numbers that the judgements of a case share, and those of its twin."""
    if cases is None:
        return long.groupby("_case", sort=False, dropna=False).ngroup()
    if "case_id" not in long.columns:
        raise FrameError(
            f"{WHAT}: cases= needs a column case_id in the judgements; there: "
            f"{', '.join(str(name) for name in long.columns if not str(name).startswith('_'))}."
        )
    known = check(cases, "cases")
    case_id = long["case_id"].astype("str")
    skill = long["skill"] if "skill" in long.columns else pd.Series(pd.NA, index=long.index)
    # a case id that stands under one skill names that skill
    single = known.drop_duplicates(CASE).drop_duplicates("case_id", keep=False)
    found = case_id.map(single.set_index("case_id")["skill"])
    rows = pd.DataFrame({"skill": skill.fillna(found).astype("str"), "case_id": case_id})
    return clusters_of(rows, known)


def _from_our_layout(pairwise: pd.DataFrame, ties: Sequence[str]) -> pd.DataFrame:
    given = check(pairwise, "pairwise")
    names = given[["first", "second"]].to_numpy(dtype=object)
    sorted_names = np.sort(names, axis=1)
    is_first, is_second = (given["winner"].eq(given[side]) for side in ("first", "second"))
    by_id = is_first.astype("float64").where(is_first | is_second)
    placed = given["winner_position"].notna()
    by_place = given["winner_position"].eq(1).astype("float64").where(placed)
    said = given["winner"].notna() & ~given["winner"].map(_word).isin(["", *ties])
    _refuse_winners(given, said & by_id.isna() & ~placed, "the first or the second", ties)
    against = by_id.notna() & placed & by_id.ne(by_place)
    if against.any():
        odd = given[against].iloc[0]
        raise FrameError(
            f"{WHAT}: winner '{odd['winner']}' and winner_position {odd['winner_position']} "
            f"of case '{odd['case_id']}' name two different answers."
        )
    return given.assign(
        _pair=[" against ".join(two) for two in sorted_names],
        # the order that shows the alphabetically first answer first
        _order=np.where(names[:, 0] == sorted_names[:, 0], 1, 2),
        _case=given.groupby(CASE, dropna=False).ngroup(),
        _first=by_id.fillna(by_place),
    )


def _from_other_layout(
    pairwise: pd.DataFrame, pair: str | None, winner_names: str, ties: Sequence[str]
) -> pd.DataFrame:
    require_known("winner_names: found", winner_names, ["answer", "position"])
    found = [str(name) for name in pairwise.columns]
    column = pair or next((name for name in _PAIR if name in found), None)
    lacking = [name for name in ("order", "winner") if name not in found]
    if column is None or column not in found or lacking:
        what = ", ".join([*lacking, *([] if column in found else [pair or "a pair column"])])
        raise FrameError(
            f"{WHAT}: missing: {what}; there: {', '.join(found)}. Needed are first, second "
            f"and winner, or order, winner and a column that names the pair ({', '.join(_PAIR)} "
            "or pair=)."
        )
    order = pairwise["order"].map(_word).map(_ORDERS)
    if order.isna().any():
        odd = pairwise.loc[order.isna(), "order"].iloc[0]
        raise FrameError(f"{WHAT}: order '{odd}'; allowed: AB and BA, or 1 and 2.")
    word = pairwise["winner"].map(_word)
    said = word.where(~word.isin(ties)).map(_SAID)
    _refuse_winners(pairwise, said.isna() & ~word.isin(["", *ties]), _NAMES, ties)
    case = [name for name in CASE if name in found]
    case = case if "case_id" in case else [*case, column]
    names_place = pd.Series(winner_names == "position", index=order.index)
    shown = pd.Series("B", index=order.index).mask(order.eq(1) | names_place, "A")
    return pairwise.assign(
        _pair=pairwise[column],
        _order=order.astype(int),
        _case=pairwise.groupby(case, sort=False, dropna=False).ngroup(),
        _first=said.eq(shown).astype("float64").where(said.notna()),
    )


def _word(value: Any) -> str:
    """Return a cell as a small word: a number without its point, nothing where it is missing."""
    if pd.isna(value):
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip().lower()


def _refuse_winners(frame: pd.DataFrame, odd: pd.Series, allowed: str, ties: Sequence[str]) -> None:
    if not odd.any():
        return
    names = list(dict.fromkeys(map(str, frame.loc[odd, "winner"])))
    shown = ", ".join(f"'{name}'" for name in names[:5]) + (", ..." if len(names) > 5 else "")
    raise FrameError(
        f"{WHAT}: {int(odd.sum())} of {len(frame)} rows name a winner that is not known: {shown}; "
        f"allowed: {allowed}; for no winner a missing one or a word of ties= ({', '.join(ties)})."
    )
