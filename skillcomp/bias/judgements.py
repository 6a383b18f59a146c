"""Pairwise judgements of any layout, one row per pair with who won in each order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from skillcomp.contracts import check
from skillcomp.correction.tables import clusters_of
from skillcomp.errors import FrameError, suggest
from skillcomp.estimates import GRADER, require_columns

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


def first_wins(
    pairwise: pd.DataFrame,
    *,
    by: Sequence[str],
    pair: str | None = None,
    winner_names: str = "answer",
    ties: Sequence[str] = TIES,
    cases: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Return one row per pair: ``by``, case and, for each order, whether the first shown won.

    Parameters
    ----------
    pairwise, by, pair, winner_names, ties, cases
        As in :func:`skillcomp.bias.position`.

    Returns
    -------
    pandas.DataFrame
        ``by``, ``case``, ``cluster`` (numbers that twins share), ``first_1`` and ``first_2`` (1, 0
        or NaN).

    Raises
    ------
    FrameError
        As in :func:`skillcomp.bias.position`.
    """
    words = [_word(one) for one in ([ties] if isinstance(ties, str) else ties)]
    ours = {"first", "second"} <= set(pairwise.columns)
    long = _ours(pairwise, words) if ours else _foreign(pairwise, pair, winner_names, words)
    require_columns(long, by, WHAT)
    _require_one_judge(long, by)
    keys = list(dict.fromkeys([*by, "_pair"]))
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
    about = long.drop_duplicates(keys)[[*keys, "_case", "_cluster"]]
    return wide.merge(
        about.rename(columns={"_case": "case", "_cluster": "cluster"}), on=keys, how="left"
    )


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
    single = known.drop_duplicates(["skill", "case_id"]).drop_duplicates("case_id", keep=False)
    found = case_id.map(single.set_index("case_id")["skill"])
    rows = pd.DataFrame({"skill": skill.fillna(found).astype("str"), "case_id": case_id})
    return clusters_of(rows, known)[0]


def _ours(pairwise: pd.DataFrame, ties: Sequence[str]) -> pd.DataFrame:
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
        _case=given.groupby(["skill", "case_id"], dropna=False).ngroup(),
        _first=by_id.fillna(by_place),
    )


def _foreign(
    pairwise: pd.DataFrame, pair: str | None, winner_names: str, ties: Sequence[str]
) -> pd.DataFrame:
    if winner_names not in ("answer", "position"):
        raise FrameError(
            f"winner_names: found '{winner_names}'; allowed: 'answer', 'position'."
            + suggest(str(winner_names), ["answer", "position"])
        )
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
    case = [name for name in ("skill", "case_id") if name in found]
    names_place = pd.Series(winner_names == "position", index=order.index)
    shown = pd.Series("B", index=order.index).mask(order.eq(1) | names_place, "A")
    return pairwise.assign(
        _pair=pairwise[column],
        _order=order.astype(int),
        _case=pairwise.groupby(
            case if "case_id" in case else column, sort=False, dropna=False
        ).ngroup(),
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
