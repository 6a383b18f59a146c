"""Whether the answer shown first wins for being first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from skillcomp.bias.effects import in_points
from skillcomp.contracts import check
from skillcomp.errors import FrameError, suggest
from skillcomp.estimates import estimates, groups, listed, require_columns, row
from skillcomp.stats.intervals import clopper_pearson
from skillcomp.stats.results import Interval, undefined
from skillcomp.stats.switching import paired_delta

__all__ = ["position"]

EXTRA = ("n_consistent", "n_first_twice", "n_second_twice", "n_dropped")
_PAIR = ("pair", "pair_id", "comparison", "case_id", "question_id", "id")
_SAID = {"a": "A", "b": "B"}
_ORDERS = {"ab": 1, "ba": 2, "1": 1, "2": 2}


def position(
    pairwise: pd.DataFrame,
    *,
    by: Sequence[str] = (),
    pair: str | None = None,
    winner_names: str = "answer",
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Say how often a pair of answers gets the same winner whichever is shown first.

    Parameters
    ----------
    pairwise : pandas.DataFrame
        Our pairwise frame (case_id, first, second, winner or winner_position, both orders of each
        pair), or a frame of another layout with one row per pair and order: a pair column,
        ``order`` (``"AB"`` and ``"BA"``, or 1 and 2) and ``winner`` (``"A"``, ``"B"``; anything
        else, such as a tie, counts as no winner).
    by : sequence of str
        Columns that keep rows apart, such as ``["grader"]``. Graders are never pooled silently.
    pair : str, optional
        The column that names the pair in another layout; without it the first of pair, pair_id,
        comparison, case_id, question_id, id that is there.
    winner_names : {"answer", "position"}, default "answer"
        In another layout: whether ``"A"`` is always the same answer (shown first in order AB or
        1, second in BA or 2), or the one shown first.
    ci_level : float, default 0.95
        Level of the intervals.

    Returns
    -------
    pandas.DataFrame
        Three rows per ``by``: measure ``position_consistency`` (share of the pairs whose winner is
        the same in both orders), ``first_wins_if_inconsistent`` (share of the other pairs won
        twice by the first shown; p_value against 1/2), both with the exact binomial interval, and
        ``position_points`` (how many percentage points more often an answer wins when it is shown
        first, paired). Extra: n_consistent, n_first_twice, n_second_twice, n_dropped (pairs
        without a winner in both orders).

    Raises
    ------
    FrameError
        If columns are missing, a pair has more than two rows or one order twice, or graders would
        be pooled.

    Notes
    -----
    Clopper-Pearson takes pairs as independent; where a case holds several, a note says so and
    only ``position_points`` is clustered by case.

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
    names = listed(by)
    pairs = first_wins(pairwise, by=names, pair=pair, winner_names=winner_names)
    rows = []
    for values, part in groups(pairs, names):
        for measure, interval, counts in of_pairs(part, ci_level):
            rows.append(row(measure, interval, **counts) | values)
    return estimates(rows, by=names, extra=list(EXTRA))


def first_wins(
    pairwise: pd.DataFrame,
    *,
    by: Sequence[str],
    pair: str | None = None,
    winner_names: str = "answer",
) -> pd.DataFrame:
    """Return one row per pair: ``by``, case and, for each order, whether the first shown won.

    Parameters
    ----------
    pairwise, by, pair, winner_names
        As in :func:`position`.

    Returns
    -------
    pandas.DataFrame
        ``by``, ``case``, ``first_1`` and ``first_2`` (1, 0 or NaN).

    Raises
    ------
    FrameError
        As in :func:`position`.
    """
    ours = {"first", "second"} <= set(pairwise.columns)
    long = _ours(pairwise) if ours else _foreign(pairwise, pair, winner_names)
    require_columns(long, by, "bias.position")
    if "grader" in long and "grader" not in by and long["grader"].nunique() > 1:
        found = ", ".join(sorted(map(str, long["grader"].dropna().unique())))
        raise FrameError(
            f"bias.position: the frame holds more than one grader: {found}. Add 'grader' to by=, "
            "or select one first."
        )
    keys = list(dict.fromkeys([*by, "_pair"]))
    doubled = long.duplicated([*keys, "_order"], keep=False)
    if doubled.any():
        first = long.loc[doubled, "_pair"].iloc[0]
        raise FrameError(
            f"bias.position: pair '{first}' has one order twice; a pair has one row for each of "
            "two orders. Is a column missing in by=?"
        )
    wide = long.set_index([*keys, "_order"])["_first"].unstack("_order").reindex(columns=[1, 2])
    wide = wide.rename(columns={1: "first_1", 2: "first_2"}).reset_index()
    cases = long.drop_duplicates(keys)[[*keys, "_case"]].rename(columns={"_case": "case"})
    return wide.merge(cases, on=keys, how="left")


def _ours(pairwise: pd.DataFrame) -> pd.DataFrame:
    given = check(pairwise, "pairwise")
    names = given[["first", "second"]].to_numpy(dtype=object)
    sorted_names = np.sort(names, axis=1)
    by_id = (
        given["winner"]
        .eq(given["first"])
        .where(given["winner"].eq(given["first"]) | given["winner"].eq(given["second"]))
    )
    by_place = given["winner_position"].eq(1).where(given["winner_position"].notna())
    return given.assign(
        _pair=[" against ".join(two) for two in sorted_names],
        # the order that shows the alphabetically first answer first
        _order=np.where(names[:, 0] == sorted_names[:, 0], 1, 2),
        _case=given.groupby(["skill", "case_id"], dropna=False).ngroup(),
        _first=by_id.astype("float64").fillna(by_place.astype("float64")),
    )


def _foreign(pairwise: pd.DataFrame, pair: str | None, winner_names: str) -> pd.DataFrame:
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
            f"bias.position: missing: {what}; there: {', '.join(found)}. Needed are first, second "
            f"and winner, or order, winner and a column that names the pair ({', '.join(_PAIR)} "
            "or pair=)."
        )
    order = pairwise["order"].astype("str").str.strip().str.lower().map(_ORDERS)
    if order.isna().any():
        odd = pairwise.loc[order.isna(), "order"].iloc[0]
        raise FrameError(f"bias.position: order '{odd}'; allowed: AB and BA, or 1 and 2.")
    said = pairwise["winner"].astype("str").str.strip().str.lower().map(_SAID)
    names_place = pd.Series(winner_names == "position", index=order.index)
    shown = pd.Series("B", index=order.index).mask(order.eq(1) | names_place, "A")
    return pairwise.assign(
        _pair=pairwise[column],
        _order=order.astype(int),
        _case=pairwise["case_id"] if "case_id" in found else pairwise[column],
        _first=said.eq(shown).astype("float64").where(said.notna()),
    )


def of_pairs(pairs: pd.DataFrame, ci_level: float) -> list[tuple[str, Interval, dict[str, float]]]:
    """Return the three measures of one group of pairs."""
    known = pairs[pairs["first_1"].notna() & pairs["first_2"].notna()]
    wins = known["first_1"] + known["first_2"]
    twice, never = int(wins.eq(2).sum()), int(wins.eq(0).sum())
    n = len(known)
    counts: dict[str, float] = {
        "n_consistent": n - twice - never,
        "n_first_twice": twice,
        "n_second_twice": never,
        "n_dropped": len(pairs) - n,
    }
    if n == 0:
        nothing = undefined("", "no pair has a winner in both orders", ci_level=ci_level, n=0.0)
        return [(measure, nothing, counts) for measure in _MEASURES]
    note = "several pairs share a case: taken as independent here"
    shared = note if known["case"].nunique() < n else ""
    consistent = clopper_pearson(n - twice - never, n, ci_level=ci_level)
    biased = clopper_pearson(twice, twice + never, ci_level=ci_level)
    if twice + never:
        p_value = float(binomtest(twice, twice + never).pvalue)
        biased = replace(biased, p_value=p_value, method=f"{biased.method}, exact binomial test")
    else:
        biased = replace(biased, note="every pair is consistent")
    by_case = known.groupby("case", sort=False)[["first_1", "first_2"]].agg(["sum", "count"])
    size = by_case["first_1", "count"].to_numpy()
    points = paired_delta(
        by_case["first_1", "sum"].to_numpy(),
        size,
        # what was shown first in order 1 loses order 2 exactly when the first shown wins there
        size - by_case["first_2", "sum"].to_numpy(),
        size,
        ci_level=ci_level,
    )
    noted = (replace(one, note=one.note or shared) for one in (consistent, biased))
    return [*((m, i, counts) for m, i in zip(_MEASURES, noted, strict=False)),
            (_MEASURES[2], in_points(points), counts)]  # fmt: skip


_MEASURES = ("position_consistency", "first_wins_if_inconsistent", "position_points")
