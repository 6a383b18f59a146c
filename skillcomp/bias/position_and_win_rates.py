"""Pairwise judgements: position bias, and win rates of systems with ties as half a win."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binomtest

from skillcomp.bias.features_and_perturbations import POINTS, known_attempts, not_identified
from skillcomp.errors import FrameError, plural, require_known
from skillcomp.frames.check import check, require_frame
from skillcomp.frames.contracts import CASE
from skillcomp.frames.estimates import (
    By,
    check_settings,
    clusters_of,
    estimates,
    grouped,
    groups,
    listed,
    prepared,
    row,
)
from skillcomp.frames.words import NO_VALUE
from skillcomp.stats.bounded import DELTAS, RATES, Arm, IntervalRule, bounded_mean
from skillcomp.stats.gaps import bounded_slope
from skillcomp.stats.ppi import ppi_mean
from skillcomp.stats.results import Fields, Interval, Intervals, undefined

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
        rates = (_mean_of(alike, ties, ci_level), _mean_of(alike, first, ci_level, null=0.5))
        if len(pairs):
            intervals, counts = position_intervals(pairs, ci_level)
        else:
            counts = dict.fromkeys(COUNTS, 0) | {"n_ties": ties.sum()}
            effect = _mean_points(alike, 2 * first - 1, ci_level)
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
        _mean_of(decided, outcome, ci_level) for outcome in (outcomes[0], is_reversed, outcomes[3])
    ]
    first_share = _mean_of(decided[is_reversed], outcomes[1][is_reversed], ci_level, null=0.5)
    if not is_reversed.any():
        first_share = replace(first_share, note="no pair is reversed")
    # The points of a pair are the outcome of an answer when it is shown first (1 for a win, 0 for
    # a loss) minus its outcome when it is shown second: first_1 - (1 - first_2). This is the number
    # of wins of the answer shown first, minus 1.
    effect = _mean_points(decided, points, ci_level)
    measured = (shares[0], first_share, effect, *shares[1:])
    dropped = f"{n_dropped} of {plural(len(pairs), 'pair')} without a verdict in an order left out"
    note = dropped if n_dropped else ""
    once = f"{plural(n_once, 'pair')} shown in one order left out" if n_once else ""
    return {m: i.with_note(note, once) for m, i in zip(_MEASURES, measured, strict=True)}, counts


def _n_ties(pairs: pd.DataFrame) -> int:
    return int(pairs[_RESULTS].eq(TIE).to_numpy().sum())


def _mean_of(
    rows: pd.DataFrame,
    values: pd.Series,
    ci_level: float,
    by: Sequence[str] = ("_case", "_pair"),
    **how: Any,
) -> Interval:
    """Estimate the mean of values over pairs or cases, each the mean of its judgements."""
    units = rows.assign(_value=values.astype("float64")).groupby([*by], sort=False)
    mean, clusters = units["_value"].mean(), units["_cluster"].first()
    return bounded_mean(mean, clusters, ci_level=ci_level, **how)


def _mean_points(pairs: pd.DataFrame, points: pd.Series, ci_level: float) -> Interval:
    how: Fields = {"quantity": DELTAS, "null": 0.0}
    return _mean_of(pairs, points, ci_level, ["_case"], **how).times(POINTS)


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


def _shown_first(names: Sequence[Any], n_first: int, n: int, tests: int = 1) -> str:
    """Return which of two systems was shown first too often for a random order, or "".

    The first of ``names`` was shown first in ``n_first`` of ``n`` comparisons. ``tests`` is the
    number of such tests, by which the p-value is multiplied.
    """
    most = max(n_first, n - n_first)
    if most <= _UNEVEN * n or binomtest(most, n).pvalue * tests >= _RARE:
        return ""
    first, second = names if most == n_first else reversed(names)
    shown = f"{100 * most / n:.0f} % of {plural(n, 'comparison')} with '{second}'"
    return f"'{first}' was shown first in {shown}"


def _uneven_order(pairs: pd.DataFrame) -> str:
    """Return the reason why the order cannot have been random; empty if it may have been."""
    table = pairs.groupby("_systems")["is_first"].agg(["sum", "size"])
    for systems, n_first, n in table.itertuples():
        if shown := _shown_first(systems.split(" against ", 1), n_first, n, len(table)):
            return f"{shown}, so the order was not random"
    return ""


_WIN_RATES = "bias.win_rates"
INCLUDES_PLACE = "the rate includes the preference of the grader for a place"
FEWEST_GOLD = 10  # fewer cases with gold correct no rate
_WINS = ("n_wins", "n_losses", "n_ties", "n_dropped")


def win_rates(
    pairwise: pd.DataFrame,
    attempts: pd.DataFrame,
    *,
    by: By = (),
    average: By = (),
    sides: str = "agent",
    reference: str | None = None,
    cases: pd.DataFrame | None = None,
    ci_level: float = 0.95,
    interval: IntervalRule = "adaptive",
) -> pd.DataFrame:
    """Estimate how often a grader prefers one system to another; a tie is half a win.

    Parameters
    ----------
    pairwise : pandas.DataFrame
        A pairwise frame, such as ``made.pairwise`` of :func:`skillcomp.from_frame`.
    attempts : pandas.DataFrame
        The attempts that were compared.
    by : str or sequence of str, default ()
        Columns to group by, such as ``"grader"``. Without it, several graders are refused.
    average : str or sequence of str, default ()
        Columns to average within each pair, such as ``"grader"`` for the votes of several people.
    sides : str, default "agent"
        Column of ``attempts`` with the names that are compared: ``"agent"`` for systems,
        ``"condition"`` for a skill against the baseline.
    reference : str, optional
        The name with which the others are compared. Without it, there is a row for every two names
        that were compared.
    cases : pandas.DataFrame, optional
        A cases frame; the two cases of a contrast pair then form one cluster.
    ci_level : float, default 0.95
        Level of the intervals.
    interval : {"adaptive", "bounded", "t"}, default "adaptive"
        As in :func:`skillcomp.deltas.paired`.

    Returns
    -------
    pandas.DataFrame
        One row per ``by`` and two names, with the estimates columns. ``side`` and ``opponent`` are
        the names, in alphabetical order unless there is a reference. The measure is ``win_rate``:
        the mean over cases of the result of ``side``, 1 for a win, 1/2 for a tie, 0 for a loss.
        ``p_value`` tests a rate of 1/2. If some comparisons have a gold winner, such as people's
        choices, ``win_rate_corrected`` is the rate that gold would give on all cases
        (:func:`skillcomp.stats.ppi.ppi_mean`); the cases with gold are taken as drawn at random.
        ``n`` counts cases. ``n_wins``, ``n_losses`` and ``n_ties``
        count verdicts, ``n_dropped`` comparisons without a verdict. NaN with a note if no
        comparison has a verdict.

    Raises
    ------
    FrameError
        If a frame breaks its contract, graders would be pooled, an attempt is missing, ``sides`` is
        not a column or has no values, or ``reference`` does not occur.

    See Also
    --------
    position : Estimates the position bias; a win rate from both orders is not affected by it.

    Notes
    -----
    The judgements of a pair in one order, then its orders, and then the pairs of a case are
    averaged. The interval
    is that of :func:`skillcomp.stats.bounded.bounded_mean`, with the pairs of a case as attempts.
    If more than half of the pairs were shown in one order, a note states that the rate assumes a
    random order. A win rate depends on the opponent, so rates against different opponents are not
    averaged.

    References
    ----------
    Zheng et al. 2023, arXiv:2306.05685.

    Examples
    --------
    System x wins five of eight comparisons and two are ties, so its rate is (5 + 2 / 2) / 8.

    >>> import pandas as pd
    >>> import skillcomp as sc
    >>> table = pd.DataFrame({"case": range(8), "model_a": "x", "model_b": "y",
    ...     "winner": ["x"] * 5 + ["tie"] * 2 + ["y"]})
    >>> made = sc.from_frame(table)
    >>> win_rates(made.pairwise, made.attempts)[["side", "opponent", "estimate", "n_ties"]]
      side opponent  estimate  n_ties
    0    x        y      0.75       2
    """
    check_settings(_WIN_RATES, ci_level)
    names = listed(by)
    judged = first_win_rows(
        pairwise, by=names, average=listed(average), cases=cases, what=_WIN_RATES
    )
    judged = _with_sides(judged, attempts, sides, reference)
    rows = [
        estimate | values
        for values, part in groups(judged, names)
        for estimate in _win_rate_rows(part, ci_level=ci_level, interval=interval)
    ]
    return estimates(rows, by=[*names, "side", "opponent"], extra=_WINS)


def _with_sides(
    judged: pd.DataFrame, attempts: pd.DataFrame, sides: str, reference: str | None
) -> pd.DataFrame:
    """Add the names of the side and its opponent, and the result of the side."""
    ids = judged[["first", "second"]].melt(value_name="attempt_id")
    every = known_attempts(ids, attempts, _WIN_RATES, "answers")
    if sides not in every.columns or every[sides].isna().all():
        filled = [c for c in ("agent", "condition") if every[c].nunique() > 1 and c != sides]
        hint = (
            f" Compared are perhaps sides='{filled[0]}'."
            if filled
            else (
                " from_frame takes the names of systems in first= and second=, and the texts in "
                "first_answer= and second_answer=."
            )
        )
        raise FrameError(f"{_WIN_RATES}: the attempts have no values in a column '{sides}'.{hint}")
    of_attempt = every.set_index("attempt_id")[sides].astype("str")
    first, second = (judged[name].map(of_attempt) for name in ("first", "second"))
    if reference is not None:
        require_known(f"{_WIN_RATES}: reference: found", reference, sorted({*first, *second}))
        swap = first.eq(reference)
        keep = swap | second.eq(reference)
    else:
        swap, keep = first.gt(second), pd.Series(True, judged.index)
    made = judged.assign(
        _side=second.where(swap, first),
        _opponent=first.where(swap, second),
        _side_first=~swap,
        **{
            name: (1 - judged[result]).where(swap, judged[result])
            for name, result in (("_result", "_first"), ("_by_gold", "_gold"))
        },
    )
    return made[keep & first.ne(second)]


def _win_rate_rows(part: pd.DataFrame, **how: Any) -> Iterator[Any]:
    """Estimate the win rates of one group, with one row per pair of names."""
    for (side, opponent), judged in part.groupby(["_side", "_opponent"], sort=True):
        decided = judged.dropna(subset="_result")
        result, n_dropped = decided["_result"], len(judged) - len(decided)
        about = {
            "side": side,
            "opponent": opponent,
            "n_wins": result.gt(TIE).sum(),
            "n_losses": result.lt(TIE).sum(),
            "n_ties": result.eq(TIE).sum(),
            "n_dropped": n_dropped,
        }
        if decided.empty:
            missing = undefined("", "no comparison has a verdict", how["ci_level"], 0.0)
            yield row("win_rate", missing, **about)
            continue
        pair, of_case = ["_case", "_cluster", "_pair"], ["_case", "_cluster"]
        orders = decided.groupby([*pair, "_order"], sort=False)[["_result", "_by_gold"]].mean()
        pairs = orders.groupby(pair, sort=False)["_result"].agg(["mean", "size"])
        by_case = pairs.groupby(of_case, sort=False)["mean"].agg(["mean", "size"])
        values, clusters = by_case["mean"].to_numpy(), by_case.index.get_level_values("_cluster")
        arm = Arm(values, by_case["size"].to_numpy())
        rate = bounded_mean(values, clusters, quantity=RATES, arms=[arm], null=0.5, **how)
        lost = f"{plural(n_dropped, 'comparison')} without a verdict left out"
        notes = [lost if n_dropped else ""]
        if pairs["size"].eq(1).mean() > 0.5:
            n_first = int(decided["_side_first"].sum())
            shown = _shown_first([side, opponent], n_first, len(decided))
            notes.append(f"{shown}: {INCLUDES_PLACE}" if shown else RANDOM_ORDER)
        yield row("win_rate", rate.with_note(*notes), **about)
        labelled = orders.dropna().groupby(pair, sort=False).mean().groupby(of_case).mean()
        note = f"gold on {plural(len(labelled), 'case')}, as drawn at random"
        if 0 < len(labelled) < FEWEST_GOLD:
            few = f"{note}: fewer than {FEWEST_GOLD}, label more"
            missing = undefined("", few, how["ci_level"], float(len(labelled)))
            yield row("win_rate_corrected", missing, **about)
        elif len(labelled):
            labelled = labelled.reindex(by_case.index)
            corrected = ppi_mean(
                labelled["_by_gold"],
                values,
                predicted_on_gold=labelled["_result"],
                clusters=clusters,
                ci_level=how["ci_level"],
            )
            yield row("win_rate_corrected", corrected.with_note(note), **about)
