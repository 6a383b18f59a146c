"""Whether the answer shown first wins for being first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd
from scipy.stats import binomtest

from skillcomp.bias.effects import in_points
from skillcomp.bias.judgements import TIES, WHAT, first_wins
from skillcomp.estimates import check_settings, estimates, groups, listed, row
from skillcomp.stats.intervals import clopper_pearson
from skillcomp.stats.results import Interval, undefined
from skillcomp.stats.switching import paired_delta

__all__ = ["position"]

EXTRA = ("n_consistent", "n_first_twice", "n_second_twice", "n_dropped")


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
        twice by the first shown; p_value against 1/2), both with the exact binomial interval, and
        ``position_points`` (how many percentage points more often an answer wins when it is shown
        first, paired). Extra: n_consistent, n_first_twice, n_second_twice, n_dropped (pairs
        without a winner in both orders).

    Raises
    ------
    FrameError
        If columns are missing, a pair has more than two rows or one order twice, a winner is
        neither an answer nor a tie, graders would be pooled, or ``ci_level`` is no level.

    Notes
    -----
    Clopper-Pearson takes pairs as independent; where a case or contrast pair holds several, a note
    says so and only ``position_points`` is clustered.

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
    return estimates(rows, by=names, extra=list(EXTRA))


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
    shared = ""
    if known["cluster"].nunique() < n:
        what = "a case" if known["case"].nunique() < n else "a contrast pair"
        shared = f"several pairs share {what}: taken as independent here"
    consistent = clopper_pearson(n - twice - never, n, ci_level=ci_level)
    biased = clopper_pearson(twice, twice + never, ci_level=ci_level)
    if twice + never:
        p_value = float(binomtest(twice, twice + never).pvalue)
        biased = replace(biased, p_value=p_value, method=f"{biased.method}, exact binomial test")
    else:
        biased = replace(biased, note="every pair is consistent")
    grouped = known.groupby("case", sort=False)
    by_case = grouped[["first_1", "first_2"]].agg(["sum", "count"])
    size = by_case["first_1", "count"].to_numpy()
    points = paired_delta(
        by_case["first_1", "sum"].to_numpy(),
        size,
        # what was shown first in order 1 loses order 2 exactly when the first shown wins there
        size - by_case["first_2", "sum"].to_numpy(),
        size,
        clusters=pd.factorize(grouped["cluster"].first())[0],
        ci_level=ci_level,
    )
    noted = (replace(one, note=one.note or shared) for one in (consistent, biased))
    return [*((m, i, counts) for m, i in zip(_MEASURES, noted, strict=False)),
            (_MEASURES[2], in_points(points), counts)]  # fmt: skip


_MEASURES = ("position_consistency", "first_wins_if_inconsistent", "position_points")
