"""Pairwise judgements of any layout: one row per pair, with whether the answer shown first won."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from skillcomp.errors import FrameError, require_known
from skillcomp.frames.case_table import clusters_of
from skillcomp.frames.check import check, require_frame
from skillcomp.frames.contracts import CASE
from skillcomp.frames.estimates import GRADER, RESERVED, require_columns
from skillcomp.frames.words import NO_VALUE

WHAT = "bias.position"
TIES = ("tie", "tied", "draw", "equal", "both", "neither", "c",
        "tie (bothbad)", "tie (inconsistent)")  # fmt: skip
TIE = 0.5  # result of the answer shown first in a tie; 1 is a win and 0 a loss
_PAIR_COLUMNS = ("pair", "pair_id", "comparison", "case_id", "question_id", "id")
# names that other tools use for the column of the grader
_GRADER_COLUMNS = (
    *GRADER,
    *("judge", "judge_name", "judge_id", "judge_model", "model", "annotator", "rater"),
)
_ORDERS = {"ab": 1, "ba": 2, "1": 1, "2": 2}
_WINNERS = {"a": "A", "b": "B", "1": "A", "2": "B", "model_a": "A", "model_b": "B",
            "answer_a": "A", "answer_b": "B"}  # fmt: skip
_PLACES = {"first": 1.0, "second": 0.0}
_WINNER_WORDS = "A and B, 1 and 2, model_a and model_b, answer_a and answer_b, first and second"
COUNTS = ("n_consistent", "n_first_twice", "n_second_twice", "n_tie_differs", "n_ties",
          "n_dropped")  # fmt: skip
_OWN_COLUMNS = ("pair", "first_1", "first_2", "n_orders", "systems", "winner_names", *COUNTS)


def first_win_rows(
    pairwise: pd.DataFrame,
    *,
    by: Sequence[str],
    pair: str | None = None,
    winner_names: str = "answer",
    ties: Sequence[str] = TIES,
    cases: pd.DataFrame | None = None,
    what: str = WHAT,
) -> pd.DataFrame:
    """Add to each judgement its pair, order, case, cluster, and whether the first answer won.

    The columns begin with an underscore; ``_first`` is as in :func:`first_wins`.
    """
    require_frame(pairwise, "pairwise")
    words = [_normalised_word(word) for word in ([ties] if isinstance(ties, str) else ties)]
    if {"first", "second"} <= set(pairwise.columns):
        long = _from_pairwise_frame(pairwise, words)
    else:
        long = _from_other_layout(pairwise, pair, winner_names, words)
    require_columns(long, by, WHAT)
    if taken := sorted({*RESERVED, *_OWN_COLUMNS} & set(by)):
        raise FrameError(f"{what}: by= names '{taken[0]}', a column of the result. Rename yours.")
    _require_one_grader(long, by, what)
    return long.assign(_cluster=_clusters_of_judgements(long, cases))


def first_wins(
    pairwise: pd.DataFrame,
    *,
    by: Sequence[str],
    pair: str | None = None,
    winner_names: str = "answer",
    ties: Sequence[str] = TIES,
    cases: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Reshape judgements to one row per pair, with the result in each order.

    The columns are ``by``, case, pair, cluster, winner_names, n_orders, systems, first_1 and
    first_2. The last two are the results in orders 1 and 2: 1 if the answer shown first won, 0 if
    it lost, 0.5 for a tie, NaN without a verdict. ``winner_names`` is missing where no other
    reading is possible. ``n_orders`` counts the orders that were shown. ``systems`` names both
    sides in the order of the alphabet, which is order 1; it is missing where they have no names.
    """
    how: dict[str, Any] = {"pair": pair, "winner_names": winner_names, "ties": ties}
    long = first_win_rows(pairwise, by=by, cases=cases, **how)
    keys = list(dict.fromkeys([*by, "_case", "_pair"]))
    doubled = long.duplicated([*keys, "_order"], keep=False)
    if doubled.any():
        first = long.loc[doubled, "_pair"].iloc[0]
        raise FrameError(
            f"{WHAT}: pair '{first}' has one order twice; a pair has one row for each of "
            "two orders. Is a column missing in by=?"
        )
    reading = long["_reading"].iloc[0] if len(long) else None
    wide = long.set_index([*keys, "_order"])["_first"].unstack("_order").reindex(columns=[1, 2])
    wide = wide.rename(columns={1: "first_1", 2: "first_2"}).reset_index()
    about = long.assign(n_orders=long.groupby(keys, dropna=False)["_order"].transform("size"))
    about = about.drop_duplicates(keys)[[*keys, "_cluster", "n_orders", "_systems"]]
    names = {"_case": "case", "_pair": "pair", "_cluster": "cluster", "_systems": "systems"}
    wide = wide.merge(about, on=keys, how="left").rename(columns=names)
    return wide.assign(winner_names=reading)


def _require_one_grader(long: pd.DataFrame, by: Sequence[str], what: str) -> None:
    """Raise FrameError if judgements of several graders would be pooled."""
    names = [name for name in _GRADER_COLUMNS if name in long.columns]
    grouped = [name for name in names if name in by]
    for name in (name for name in names if name not in grouped):
        parts = [rows for _, rows in long.groupby(grouped, dropna=False)] if grouped else [long]
        if any(rows[name].nunique(dropna=False) > 1 for rows in parts):
            values = sorted("none" if pd.isna(n) else str(n) for n in long[name].unique())
            raise FrameError(
                f"{what}: the frame holds more than one {name}: {', '.join(values)}. Add '{name}' "
                "to by=, or select one first."
            )


def _clusters_of_judgements(long: pd.DataFrame, cases: pd.DataFrame | None) -> pd.Series:
    """Return the cluster of each judgement; linked cases (contrast pairs) share a cluster."""
    if cases is None:
        return long.groupby("_case", sort=False, dropna=False).ngroup()
    if "case_id" not in long.columns:
        raise FrameError(
            f"{WHAT}: cases= needs a column case_id in the judgements; there: "
            f"{', '.join(str(name) for name in long.columns if not str(name).startswith('_'))}."
        )
    cases = check(cases, "cases")
    case_id = long["case_id"].astype("str")
    skill = long["skill"] if "skill" in long.columns else pd.Series(pd.NA, index=long.index)
    # infer a missing skill from the case id if only one skill has this id
    unique = cases.drop_duplicates(CASE).drop_duplicates("case_id", keep=False)
    inferred = case_id.map(unique.set_index("case_id")["skill"])
    rows = pd.DataFrame({"skill": skill.fillna(inferred).astype("str"), "case_id": case_id})
    return clusters_of(rows, cases)


def _from_pairwise_frame(pairwise: pd.DataFrame, ties: Sequence[str]) -> pd.DataFrame:
    """Add to a pairwise frame: pair, order, case, and whether the answer shown first won."""
    pairwise = check(pairwise, "pairwise")
    names = pairwise[["first", "second"]].to_numpy(dtype=object)
    sorted_names = np.sort(names, axis=1)
    is_first, is_second = (pairwise["winner"].eq(pairwise[side]) for side in ("first", "second"))
    words = pairwise["winner"].map(_normalised_word)
    by_name = is_first.astype("float64").where(is_first | is_second, words.map(_PLACES))
    by_name = by_name.mask(words.isin(ties) & by_name.isna(), TIE)
    placed = pairwise["winner_position"].notna()
    by_place = pairwise["winner_position"].eq(1).astype("float64").where(placed)
    unknown = ~words.isin(NO_VALUE) & by_name.isna() & ~placed
    _refuse_winners(pairwise, unknown, "the id of the first or the second answer", ties)
    contradicts = by_name.notna() & placed & by_name.ne(by_place)
    if contradicts.any():
        odd = pairwise[contradicts].iloc[0]
        raise FrameError(
            f"{WHAT}: winner '{odd['winner']}' and winner_position {odd['winner_position']} "
            f"of case '{odd['case_id']}' contradict each other."
        )
    return pairwise.assign(
        _pair=[" against ".join(answers) for answers in sorted_names],
        # In order 1, the answer that is first in the alphabet is shown first.
        _order=np.where(names[:, 0] == sorted_names[:, 0], 1, 2),
        _case=pairwise.groupby(CASE, dropna=False).ngroup(),
        _first=by_name.fillna(by_place),
        _reading=None,
        _systems=_names_of_systems(pairwise["case_id"], sorted_names),
    )


def _names_of_systems(case_ids: pd.Series, answers: Any) -> pd.Series:
    """Return what follows the case in the ids of both answers; None where that is a number."""
    names: list[str | None] = []
    for case, two in zip(case_ids.astype(str), answers, strict=True):
        sides = [str(answer).removeprefix(f"{case}/") for answer in two]
        has_names = not any(s.isdigit() or s == a for s, a in zip(sides, two, strict=True))
        names.append(" against ".join(sides) if has_names else None)
    return pd.Series(names, index=case_ids.index, dtype="object")


def _from_other_layout(
    pairwise: pd.DataFrame, pair: str | None, winner_names: str, ties: Sequence[str]
) -> pd.DataFrame:
    """Add pair, order, case, and whether the answer shown first won, to a frame with any layout."""
    require_known("winner_names: found", winner_names, ["answer", "position"])
    columns = [str(name) for name in pairwise.columns]
    column = pair or next((name for name in _PAIR_COLUMNS if name in columns), None)
    lacking = [name for name in ("order", "winner") if name not in columns]
    if column is None or column not in columns or lacking:
        what = ", ".join([*lacking, *([] if column in columns else [pair or "a pair column"])])
        raise FrameError(
            f"{WHAT}: missing: {what}; there: {', '.join(columns)}. Needed are first, second "
            f"and winner, or order, winner and a column that names the pair "
            f"({', '.join(_PAIR_COLUMNS)} or pair=)."
        )
    order = pairwise["order"].map(_normalised_word).map(_ORDERS)
    if order.isna().any():
        odd = pairwise.loc[order.isna(), "order"].iloc[0]
        raise FrameError(f"{WHAT}: order '{odd}'; allowed: AB and BA, or 1 and 2.")
    word = pairwise["winner"].map(_normalised_word)
    tied = word.isin(ties)
    winner, by_place = (word.where(~tied).map(names) for names in (_WINNERS, _PLACES))
    unknown = winner.isna() & by_place.isna() & ~tied & ~word.isin(NO_VALUE)
    _refuse_winners(pairwise, unknown, _WINNER_WORDS, ties)
    case = [name for name in CASE if name in columns]
    case = case if "case_id" in case else [*case, column]
    shows_a_first = order.eq(1) | (winner_names == "position")
    by_name = winner.eq("A").eq(shows_a_first).astype("float64").where(winner.notna())
    return pairwise.assign(
        _pair=pairwise[column],
        _order=order.astype(int),
        _case=pairwise.groupby(case, sort=False, dropna=False).ngroup(),
        _first=by_name.fillna(by_place.astype("float64")).mask(tied, TIE),
        _reading=winner_names if winner.notna().any() else None,
        _systems=None,
    )


def _normalised_word(value: Any) -> str:
    """Convert a cell to text in lower case: the number 1.0 to "1", a missing value to ""."""
    if pd.isna(value):
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip().lower()


def _refuse_winners(
    frame: pd.DataFrame, unknown: pd.Series, allowed: str, ties: Sequence[str]
) -> None:
    if not unknown.any():
        return
    names = list(dict.fromkeys(map(str, frame.loc[unknown, "winner"])))
    quoted = ", ".join(f"'{name}'" for name in names[:5]) + (", ..." if len(names) > 5 else "")
    raise FrameError(
        f"{WHAT}: {int(unknown.sum())} of {len(frame)} rows name a winner that is not known: "
        f"{quoted}; allowed: {allowed}; for a tie a word of ties= ({', '.join(ties)}); for no "
        "verdict a missing value."
    )
