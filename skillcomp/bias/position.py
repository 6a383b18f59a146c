"""Position bias in pairwise judgements: whether an answer wins because it is shown first."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from skillcomp.bias.feature_effects import POINTS, not_identified
from skillcomp.bias.first_wins import COUNTS, TIE, WHAT, first_win_rows, first_wins
from skillcomp.errors import plural
from skillcomp.frames.estimates import By, check_settings, estimates, groups, listed, row
from skillcomp.stats.bounded import DELTAS, RATES, bounded_mean
from skillcomp.stats.gaps import bounded_slope
from skillcomp.stats.results import Fields, Interval, Intervals, undefined

_OF_ALIKE = ("ties_if_identical", "first_wins_if_identical")
_MEASURES = ("position_consistency", "first_wins_if_inconsistent", "position_points",
             "position_reversals", "position_tie_differences")  # fmt: skip
_RESULTS = ["first_1", "first_2"]  # of the answer shown first, in orders 1 and 2
_DEPENDS_ON_TIES = ("position_consistency", "position_reversals")
_SIMILAR_TIES = 0.05  # Largest difference of tie rates at which consistency is comparable.
# The order was not random if one of two systems was shown first in more than the share _UNEVEN of
# the pairs, and a random order gives such a share with a probability below _RARE.
_UNEVEN, _RARE = 0.6, 0.001
RANDOM_ORDER = "one order of each pair: assumes that the order was random"


def position(
    pairwise: pd.DataFrame,
    *,
    by: By = (),
    average: By = (),
    cases: pd.DataFrame | None = None,
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Estimate how often a pair of answers has the same verdict in both orders.

    Parameters
    ----------
    pairwise : pandas.DataFrame
        A pairwise frame with case_id, first, second, and winner or winner_position, and with both
        orders of each pair, or with one random order. A tie is a verdict; a missing winner is not.
        :func:`skillcomp.from_frame` reads tables of other layouts, such as winners A and B with a
        column for the order.
    by : str or sequence of str, default ()
        Columns to group by, such as ``"grader"``. Without it, judgements of several graders are
        refused.
    average : str or sequence of str, default ()
        Columns to average within each pair, such as ``"grader"`` for the votes of several people.
        Repeats of a judgement are always averaged.
    cases : pandas.DataFrame, optional
        A cases frame; the two cases of a contrast pair then form one cluster.
    ci_level : float, default 0.95
        Level of the intervals.

    Returns
    -------
    pandas.DataFrame
        Five rows per ``by``, with the estimates columns. If no pair was shown in both orders, there
        is only the row ``position_points``. The measures are:

        - ``position_consistency``: share of the pairs with the same winner, or a tie, in both
          orders;
        - ``position_reversals``: share of the pairs with one winner in the first order and the
          other in the second;
        - ``position_tie_differences``: share of the pairs with a tie in one order only. These
          three shares sum to 1;
        - ``first_wins_if_inconsistent``: share of the reversals in which the answer shown first won
          both times. ``p_value`` tests a share of 1/2;
        - ``position_points``: how many percentage points more often an answer wins if it is shown
          first than if it is shown second, with equal weight of cases. A tie is half a win;
        - ``ties_if_identical`` and ``first_wins_if_identical``: share of ties, and win rate of the
          answer shown first (null: 1/2), where an answer was compared with itself. Only if there
          are such pairs; they count for no other measure, unless there are no others.

        ``n_consistent``, ``n_tie_differs``, ``n_first_twice`` and ``n_second_twice`` count the
        pairs; the last two are the reversals in which the answer shown first, or second, won both
        times. ``n_ties`` counts the ties among the verdicts on these pairs. ``n_dropped`` counts
        the pairs that lack a verdict in an order.

    Raises
    ------
    FrameError
        If columns are missing, a pair has more than two rows or one order twice, a winner is
        neither an answer nor a tie, graders would be pooled, or ``ci_level`` is not a level.

    Notes
    -----
    A pair is identified by its case (skill and case_id) and its two answers. Repeats and averaged
    columns are averaged within the pair. Intervals are those of
    :func:`skillcomp.stats.bounded.bounded_mean`; the pairs of a case, or of a contrast pair of
    cases, are one cluster. A graded preference counts as a win, in ``position_points`` by its
    degree. Ties change the chances of consistency and of reversal, so rows have a note if their tie
    rates differ by more than 5 points.

    If every pair was shown in one order, ``position_points`` is the win rate of a system where it
    is shown first minus its win rate where it is shown second, against the same opponent
    (:func:`skillcomp.stats.gaps.bounded_slope`, with a level for each two systems). The share of
    pairs that the answer shown first wins is no estimate, because the better system may be first
    more often. The difference assumes that the order was random, which the note states. It is NaN
    without the names of systems, if each system has a fixed place, or if a system is shown first in
    more than 60 % of its pairs with another one and this is unlikely in a random order (p < .001,
    after multiplying p by the number of pairs of systems).

    References
    ----------
    Zheng et al. 2023, arXiv:2306.05685.

    Examples
    --------
    In two of three pairs, one answer wins in both orders. In the other pair, the answer shown first
    wins both times.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"case_id": list("112233"), "first": ["x", "y"] * 3,
    ...                       "second": ["y", "x"] * 3, "winner": list("xxxyyy")})
    >>> position(frame)[["measure", "estimate", "n"]].round(3).values.tolist()[:2]
    [['position_consistency', 0.667, 3.0], ['first_wins_if_inconsistent', 1.0, 1.0]]
    """
    check_settings(WHAT, ci_level)
    names = listed(by)
    judged = first_win_rows(pairwise, by=names, average=listed(average), cases=cases)
    pairs = first_wins(judged, names)
    parts = [(values, *position_intervals(part, ci_level)) for values, part in groups(pairs, names)]
    # consistency depends on the share of ties, which may differ between the groups
    decided = [
        (i["position_consistency"].n, c["n_ties"])
        for _, i, c in parts
        if "position_consistency" in i
    ]
    ties = [n_ties / (2 * n) for n, n_ties in decided if n]
    note, rows = "", []
    if ties and max(ties) - min(ties) > _SIMILAR_TIES:
        ranging = f"{100 * min(ties):.0f} % to {100 * max(ties):.0f} %"
        note = f"ties are {ranging} of the verdicts: compare consistency only at similar tie rates"
    for values, intervals, counts in parts:
        for name, interval in intervals.items():
            noted = interval.with_note(note if name in _DEPENDS_ON_TIES else "")
            rows.append(row(name, noted, **counts) | values)
    return estimates(rows, by=names, extra=COUNTS)


def position_intervals(pairs: pd.DataFrame, ci_level: float) -> tuple[Intervals, Fields]:
    """Estimate the measures of one group of pairs, and count its pairs and ties."""
    alike = pairs[pairs["_alike"] & pairs["first_1"].notna()]
    pairs = pairs[~pairs["_alike"]]
    if len(alike):
        first, ties = alike["first_1"], alike["first_1"].eq(TIE)
        rates = _mean_of_pairs(alike, ties, ci_level), _mean_of_pairs(alike, first, ci_level, 0.5)
        if len(pairs):
            intervals, counts = position_intervals(pairs, ci_level)
        else:
            counts = dict.fromkeys(COUNTS, 0) | {"n_ties": ties.sum()}
            effect = _mean_points(alike.assign(points=2 * first - 1), ci_level)
            intervals = {"position_points": effect.with_note("from identical answers")}
        return intervals | dict(zip(_OF_ALIKE, rates, strict=True)), counts
    shown_once = pairs["n_orders"].eq(1)
    if shown_once.all():
        n_dropped = pairs[_RESULTS].isna().all(axis=1).sum()
        counts = dict.fromkeys(COUNTS, 0) | {"n_ties": _n_ties(pairs), "n_dropped": n_dropped}
        return {"position_points": _difference_of_orders(pairs, ci_level)}, counts
    n_once = int(shown_once.sum()) if shown_once.mean() > 0.5 else 0
    if n_once:
        pairs = pairs[~shown_once]
    decided = pairs.dropna(subset=_RESULTS)
    points = decided[_RESULTS].sum(axis=1) - 1
    wins = (np.sign(decided[_RESULTS] - TIE).sum(axis=1) + 2) / 2
    n_dropped, is_reversed = len(pairs) - len(decided), wins.isin([0, 2])
    outcomes = (wins.eq(1), wins.eq(2), wins.eq(0), wins.isin([TIE, 1 + TIE]))
    numbers = (*(outcome.sum() for outcome in outcomes), _n_ties(decided), n_dropped)
    counts = dict(zip(COUNTS, numbers, strict=True))
    if decided.empty:
        nothing = undefined("", "no pair has a verdict in both orders", ci_level, 0.0)
        return dict.fromkeys(_MEASURES, nothing), counts
    shares = [
        _mean_of_pairs(decided, outcome, ci_level)
        for outcome in (outcomes[0], is_reversed, outcomes[3])
    ]
    first_share = _mean_of_pairs(decided[is_reversed], outcomes[1][is_reversed], ci_level, 0.5)
    if not is_reversed.any():
        first_share = replace(first_share, note="no pair is reversed")
    # The points of a pair are the outcome of an answer when it is shown first (1 for a win, 0 for
    # a loss) minus its outcome when it is shown second: first_1 - (1 - first_2). This is the number
    # of wins of the answer shown first, minus 1.
    effect = _mean_points(decided.assign(points=points), ci_level)
    measured = (shares[0], first_share, effect, *shares[1:])
    dropped = f"{n_dropped} of {plural(len(pairs), 'pair')} without a verdict in an order left out"
    note = dropped if n_dropped else ""
    once = f"{plural(n_once, 'pair')} shown in one order left out" if n_once else ""
    return {m: i.with_note(note, once) for m, i in zip(_MEASURES, measured, strict=True)}, counts


def _n_ties(pairs: pd.DataFrame) -> int:
    return int(pairs[_RESULTS].eq(TIE).to_numpy().sum())


def _mean_of_pairs(
    rows: pd.DataFrame, outcome: pd.Series, ci_level: float, null: float | None = None
) -> Interval:
    """Return the share of pairs with an outcome, averaged over the judgements of a pair."""
    pairs = rows.assign(outcome=outcome.astype("float64")).groupby(["_case", "_pair"], sort=False)
    values, clusters = pairs["outcome"].mean(), pairs["_cluster"].first()
    return bounded_mean(values, clusters, quantity=RATES, null=null, ci_level=ci_level)


def _mean_points(pairs: pd.DataFrame, ci_level: float) -> Interval:
    """Return the mean of the column ``points`` in percentage points, with equal weight of cases."""
    cases = pairs.groupby("_case", sort=False)
    values, clusters = cases["points"].mean(), cases["_cluster"].first()
    mean = bounded_mean(values, clusters, quantity=DELTAS, null=0.0, ci_level=ci_level)
    return mean.times(POINTS)


def _difference_of_orders(pairs: pd.DataFrame, ci_level: float) -> Interval:
    """Return the points that being shown first is worth, from pairs that were shown in one order.

    They are the win rate of a system where it is shown first, minus that where it is shown second.
    """
    wins = pairs["first_1"].fillna(1 - pairs["first_2"])
    n_dropped = int(wins.isna().sum())
    decided = pairs.assign(wins=wins, is_first=pairs["first_1"].notna())[wins.notna()]
    reason = ""
    if decided.empty:
        reason = "no pair has a verdict"
    elif decided["_systems"].isna().any():
        reason = "each pair was shown in one order, and the systems have no names"
    elif decided.groupby("_systems")["is_first"].nunique().max() < 2:
        reason = "each pair was shown in one order, and each system always in the same place"
    places = ["_case", "_pair", "_systems", "is_first"]
    if len(decided):  # several judgements of a pair are one observation
        decided = decided.groupby(places, sort=False, dropna=False, as_index=False).agg(
            {"wins": "mean", "_cluster": "first"}
        )
    if reason := _uneven_order(decided) or reason:
        return not_identified(reason, ci_level, len(decided))
    slope = bounded_slope(
        decided["wins"],
        decided[["is_first"]].to_numpy(float),
        decided["_systems"],
        decided["_cluster"],
        ci_level=ci_level,
    )
    dropped = f"{n_dropped} of {plural(len(pairs), 'pair')} without a verdict left out"
    return slope.times(POINTS).with_note(RANDOM_ORDER, dropped if n_dropped else "")


def is_uneven(share: float, n: int, tests: int = 1) -> bool:
    """Return whether one order has a ``share`` of ``n`` pairs that is too large for a random order.

    ``tests`` is the number of such tests, by which the p-value is multiplied.
    """
    return share > _UNEVEN and binomtest(round(share * n), n).pvalue * tests < _RARE


def _uneven_order(pairs: pd.DataFrame) -> str:
    """Return the reason why the order cannot have been random; empty if it may have been."""
    table = pairs.groupby("_systems")["is_first"].agg(["size", "sum"])
    for systems, row_of_pair in table.iterrows():
        n, n_in_order = row_of_pair["size"], row_of_pair["sum"]
        share = max(n_in_order, n - n_in_order) / n
        if is_uneven(share, n, len(table)):
            both = str(systems).split(" against ", 1)
            first, second = both if 2 * n_in_order > n else both[::-1]
            return (
                f"'{first}' was shown first in {100 * share:.0f} % of its {plural(n, 'pair')} with "
                f"'{second}', so the order was not random"
            )
    return ""
