"""Pairwise judgements as a table with one row per pair, and results of the answer shown first."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from skillcomp.errors import FrameError
from skillcomp.frames.check import check, require_frame
from skillcomp.frames.contracts import CASE
from skillcomp.frames.estimates import clusters_of, grouped, listed, prepared
from skillcomp.frames.words import NO_VALUE

WHAT = "bias.position"
_ANSWERS = ["first", "second"]
TIE = 0.5  # result of a tie for the answer shown first; a win is 1 and a loss is 0
_WORDS = {"first": 1.0, "second": 0.0, "tie": TIE}
COUNTS = ("n_consistent", "n_first_twice", "n_second_twice", "n_tie_differs", "n_ties",
          "n_dropped")  # fmt: skip
_OWN_COLUMNS = {"pair", "first_1", "first_2", "n_orders", "systems", *COUNTS}


def first_win_rows(
    pairwise: pd.DataFrame,
    *,
    by: Sequence[str],
    average: Sequence[str] = (),
    cases: pd.DataFrame | None = None,
    what: str = WHAT,
) -> pd.DataFrame:
    """Add to each judgement its pair, order, case, systems, cluster and result.

    The names of the new columns begin with an underscore. ``_first`` is the result of the answer
    shown first, with the values of ``first_1`` in :func:`first_wins`. ``_gold`` is the same by
    gold. ``_alike`` is True if the answer was compared with itself. ``_judge`` numbers the
    judgements of a pair by different graders of ``average`` and by repeats.
    """
    require_frame(pairwise, "pairwise")
    if lacking := [name for name in ("case_id", "first", "second") if name not in pairwise.columns]:
        raise FrameError(
            f"{what}: the judgements have no {' and no '.join(lacking)}; sc.from_frame(table)"
            ".pairwise reads a table of any layout."
        )
    judged = prepared(pairwise, "pairwise", by, what, average=average, copies=False)
    if taken := sorted(_OWN_COLUMNS & set(by)):
        raise FrameError(f"{what}: by= names '{taken[0]}', a column of the result. Rename yours.")
    names = judged[["first", "second"]].to_numpy(object)
    sorted_names = np.sort(names, axis=1)
    clusters = case = grouped(judged, CASE).ngroup()
    if cases is not None:  # linked cases (contrast pairs) share a cluster
        cases = check(cases, "cases")
        # infer a missing skill from the case id if only one skill has a case with this id
        unique = cases.drop_duplicates(CASE).drop_duplicates("case_id", keep=False)
        inferred = judged["case_id"].map(unique.set_index("case_id")["skill"])
        known = judged[CASE].assign(skill=judged["skill"].fillna(inferred))
        clusters = clusters_of(known, cases)
    alike = judged["first"].eq(judged["second"])
    place = grouped(judged, [*by, *_ANSWERS, *CASE]).cumcount().where(alike, judged["repeat"])
    judged = judged.assign(_judge=place.fillna(1))
    if average:
        judged["_judge"] = grouped(judged, [*average, "_judge"]).ngroup()
    return judged.assign(
        _alike=alike,
        _gold=_results_of(judged.assign(winner=judged["gold_winner"], winner_position=None)),
        _pair=[" against ".join(answers) for answers in sorted_names],
        # In order 1, the answer with the alphabetically first id is shown first.
        _order=np.where(names[:, 0] == sorted_names[:, 0], 1, 2),
        _case=case,
        _first=_results_of(judged).where(judged["preference"].isna(), judged["preference"]),
        _systems=_names_of_systems(judged["case_id"], sorted_names),
        _cluster=clusters,
    )


def first_wins(long: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Reshape the result of `first_win_rows` to one row per pair and judge, with both orders.

    The columns are ``by``, _case, _pair, _judge, _cluster, _systems, _alike, n_orders, first_1 and
    first_2. The last two are the results in orders 1 and 2: 1 if the answer shown first won, 0 if
    it lost, 0.5 for a tie, between them for a graded preference, NaN without a verdict.
    ``n_orders`` counts the orders that were shown. ``_systems`` names the system shown first in
    order 1, then the other; NA if the systems have no names.
    """
    keys = listed([*by, "_case", "_pair", "_judge"])
    doubled = long.duplicated([*keys, "_order"], keep=False)
    if doubled.any():
        first = long.loc[doubled, "_pair"].iloc[0]
        raise FrameError(
            f"{WHAT}: pair '{first}' has one order twice; a pair has one row for each of "
            "two orders. Is a column missing in by= or average=, or the repeat of the judgement?"
        )
    wide = long.set_index([*keys, "_order"])["_first"].unstack("_order").reindex(columns=[1, 2])
    wide = wide.rename(columns={1: "first_1", 2: "first_2"}).reset_index()
    about = long.assign(n_orders=grouped(long, keys)["_order"].transform("size"))
    about = about.drop_duplicates(keys)[[*keys, "_cluster", "n_orders", "_systems", "_alike"]]
    return wide.merge(about, on=keys, how="left")


def _results_of(judged: pd.DataFrame) -> pd.Series:
    """Return whether the answer shown first won: 1, 0, .5 for a tie, or NaN without a verdict."""
    is_first, is_second = (judged["winner"].eq(judged[side]) for side in _ANSWERS)
    both = is_first & is_second  # only its place says which of two equal answers won
    is_first, is_second = is_first & ~both, is_second & ~both
    words = judged["winner"].fillna("").str.strip().str.lower()
    by_name = is_first.astype("float64").where(is_first | is_second, words.map(_WORDS))
    placed = judged["winner_position"].notna()
    by_place = judged["winner_position"].eq(1).astype("float64").where(placed)
    unknown = ~words.isin(NO_VALUE) & by_name.isna() & ~placed & ~both
    if unknown.any():
        quoted = ", ".join(f"'{name}'" for name in judged.loc[unknown, "winner"].unique()[:5])
        raise FrameError(
            f"{WHAT}: {unknown.sum()} of {len(judged)} rows name a winner that is not known: "
            f"{quoted}; allowed: the id of the first or the second answer, first, second, tie, or "
            "missing. sc.from_frame(table).pairwise reads other words."
        )
    contradicts = by_name.notna() & placed & by_name.ne(by_place)
    if contradicts.any():
        odd = judged[contradicts].iloc[0]
        raise FrameError(
            f"{WHAT}: winner '{odd['winner']}' and winner_position {odd['winner_position']} "
            f"of case '{odd['case_id']}' contradict each other."
        )
    return by_name.fillna(by_place)


def _names_of_systems(case_ids: pd.Series, answers: Any) -> pd.Series:
    """Return the names of both systems in ids such as ``case/name``; None if a name is missing."""
    names = []
    for case, two in zip(case_ids.astype(str), answers, strict=True):
        # the second text of a system has a number behind its name
        sides = [re.sub(r"#\d+$", "", str(answer).removeprefix(f"{case}/")) for answer in two]
        has_names = not any(s.isdigit() or s == a for s, a in zip(sides, two, strict=True))
        names.append(" against ".join(sides) if has_names else None)
    return pd.Series(names, index=case_ids.index, dtype="object")
