"""Position bias in pairwise judgements: whether an answer wins because it is shown first."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from skillcomp.bias.feature_effects import in_points
from skillcomp.errors import FrameError, plural, require_known, suggest
from skillcomp.frames.case_table import clusters_of
from skillcomp.frames.check import check, require_frame
from skillcomp.frames.contracts import CASE
from skillcomp.frames.estimates import (
    GRADER,
    RESERVED,
    By,
    check_settings,
    estimates,
    groups,
    listed,
    require_columns,
    row,
)
from skillcomp.frames.words import NO_VALUE
from skillcomp.reliability.drift import paired_change
from skillcomp.stats.bounded import DELTAS, RATES, bounded_mean
from skillcomp.stats.results import Interval, join_notes, undefined

WHAT = "bias.position"
TIES = ("tie", "tied", "draw", "equal", "both", "neither", "c",
        "tie (bothbad)", "tie (inconsistent)")  # fmt: skip
_TIE = 0.5  # result of the answer shown first in a tie; 1 is a win and 0 a loss
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
_MEASURES = ("position_consistency", "first_wins_if_inconsistent", "position_points",
             "position_reversals", "position_tie_differences")  # fmt: skip
_COUNTS = ("n_consistent", "n_first_twice", "n_second_twice", "n_tie_differs", "n_ties",
           "n_dropped")  # fmt: skip
_OWN_COLUMNS = ("pair", "first_1", "first_2", "winner_names", *_COUNTS)
_CHANGES = {"consistent": "position_consistency_change", "reversed": "position_reversals_change",
            "tie_differs": "position_tie_differences_change"}  # fmt: skip
_CHANGE_EXTRA = ("rate", "reference_rate", "n_gained", "n_lost", "n_ties", "reference_n_ties",
                 "n_dropped", "p_items")  # fmt: skip
_DEPENDS_ON_TIES = ("position_consistency", "position_reversals")
_SIMILAR_TIES = 0.05  # largest difference of tie rates at which consistency is comparable
# A note on the meaning of winners needs this many pairs with two winners. One answer "nearly always
# wins" from this share of them on; reversals go both ways if neither way has a larger share.
_ENOUGH_PAIRS, _NEARLY_ALL, _MOSTLY = 10, 0.9, 0.8


def position(
    pairwise: pd.DataFrame,
    *,
    by: By = (),
    pair: str | None = None,
    winner_names: str = "answer",
    ties: Sequence[str] = TIES,
    cases: pd.DataFrame | None = None,
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Estimate how often a pair of answers has the same verdict in both orders.

    Parameters
    ----------
    pairwise : pandas.DataFrame
        A pairwise frame with case_id, first, second, and winner or winner_position, and with both
        orders of each pair. Or a frame of another layout, with one row per pair and order. It has a
        pair column, ``order`` (``"AB"`` and ``"BA"``, or 1 and 2) and ``winner`` (``"A"`` and
        ``"B"``, ``"model_a"`` and ``"model_b"``, ``"answer_a"`` and ``"answer_b"``, or 1 and 2).
    by : str or sequence of str, default ()
        Columns to group by, such as ``"grader"``. Without it, judgements of several graders are
        refused, and so are several values of a column such as judge or model.
    pair : str, optional
        The column that identifies the pair in another layout. By default the first that is present
        of pair, pair_id, comparison, case_id, question_id and id.
    winner_names : {"answer", "position"}, default "answer"
        In another layout, what a winner ``"A"`` means. ``"answer"``: A is one answer, shown first
        in order AB (or 1) and second in order BA (or 2). A grader that always prefers this answer
        has A twice. ``"position"``: A is the answer shown first, whichever it is. The same grader
        then has A and B.
    ties : sequence of str, default ("tie", "draw", "equal", "both", "neither", "c", ...)
        Words in ``winner`` for a tie, in any letter case. A tie is a verdict. A missing value or a
        word for it ("na", "none", "error") is no verdict. Any other word is an error.
    cases : pandas.DataFrame, optional
        A cases frame; the two cases of a contrast pair then form one cluster. Needs case_id in
        ``pairwise``.
    ci_level : float, default 0.95
        Level of the intervals.

    Returns
    -------
    pandas.DataFrame
        Five rows per ``by``, with the estimates columns. ``position_consistency`` is the share of
        the pairs with the same winner, or a tie, in both orders; ``position_reversals`` the share
        with one winner in the first order and the other in the second;
        ``position_tie_differences`` the share with a tie in one order only. These three sum to 1.
        ``first_wins_if_inconsistent`` is the share of the reversals in which the answer shown first
        won both times; its ``p_value`` tests a share of 1/2. ``position_points`` is how many
        percentage points more often an answer wins if it is shown first than if it is shown second,
        with equal weight of cases; a tie is half a win. ``n_consistent``, ``n_tie_differs``,
        ``n_first_twice`` and ``n_second_twice`` count the pairs; the last two are the reversals in
        which the answer shown first or second won both times. ``n_ties`` counts the verdicts of
        these pairs that are ties. ``n_dropped`` counts the pairs without a verdict in an order.

    Raises
    ------
    FrameError
        If columns are missing, a pair has more than two rows or one order twice, a winner is
        neither an answer nor a tie, graders would be pooled, or ``ci_level`` is not a level.

    Notes
    -----
    A pair is identified by its case (skill and case_id, if present) and its two answers, or by the
    pair column. Intervals are those of :func:`skillcomp.stats.bounded.bounded_mean`; the pairs of a
    case, or of a contrast pair of cases, are one cluster. A grader with more ties has other chances
    of consistency and reversal, so rows with tie rates more than 5 points apart carry a note. In
    another layout, a note also says if the data fit the other value of ``winner_names`` better, or
    equally well because one answer or one place nearly always wins.

    References
    ----------
    Zheng et al. 2023, arXiv:2306.05685.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"pair": [1, 1, 2, 2, 3, 3], "order": ["AB", "BA"] * 3,
    ...                       "winner": ["A", "A", "A", "B", "B", "B"]})
    >>> position(frame)[["measure", "estimate", "n"]].round(3).values.tolist()[:2]
    [['position_consistency', 0.667, 3.0], ['first_wins_if_inconsistent', 1.0, 1.0]]
    """
    check_settings(WHAT, ci_level)
    names = listed(by)
    pairs = first_wins(
        pairwise, by=names, pair=pair, winner_names=winner_names, ties=ties, cases=cases
    )
    parts = [(values, *position_intervals(part, ci_level)) for values, part in groups(pairs, names)]
    note = _tie_rates_note([_tie_rate(counts["n_ties"], i) for _, i, counts in parts])
    rows = []
    for values, intervals, counts in parts:
        for name, interval in intervals.items():
            noted = _with_note(interval, note if name in _DEPENDS_ON_TIES else "")
            rows.append(row(name, noted, **counts) | values)
    return estimates(rows, by=names, extra=list(_COUNTS))


def _tie_rate(n_ties: int, intervals: dict[str, Interval]) -> float:
    """Return the share of ties among the verdicts on the pairs of one group."""
    n = intervals["position_consistency"].n
    return n_ties / (2 * n) if n else float("nan")


def _tie_rates_note(rates: Sequence[float]) -> str:
    """Return a note if consistency is compared between groups with different tie rates."""
    rates = [rate for rate in rates if not math.isnan(rate)]
    if not rates or max(rates) - min(rates) <= _SIMILAR_TIES:
        return ""
    ranging = f"{min(rates):.0%} to {max(rates):.0%}"
    return f"ties are {ranging} of the verdicts: compare consistency only at similar tie rates"


def _with_note(interval: Interval, note: str) -> Interval:
    return replace(interval, note=join_notes(interval.note, note))


def position_intervals(
    pairs: pd.DataFrame, ci_level: float
) -> tuple[dict[str, Interval], dict[str, int]]:
    """Estimate the measures of one group of pairs, with the counts of pairs and ties."""
    decided = pairs[pairs["first_1"].notna() & pairs["first_2"].notna()]
    outcomes = _pair_outcomes(decided)
    wins = decided["first_1"] + decided["first_2"]
    is_reversed, n, n_dropped = outcomes["reversed"], len(decided), len(pairs) - len(decided)
    n_ties = sum(int(decided[name].eq(_TIE).sum()) for name in ("first_1", "first_2"))
    counts = dict(zip(_COUNTS, (
        int(outcomes["consistent"].sum()), int(wins.eq(2).sum()), int(wins.eq(0).sum()),
        int(outcomes["tie_differs"].sum()), n_ties, n_dropped,
    ), strict=True))  # fmt: skip
    if n == 0:
        nothing = undefined("", "no pair has a verdict in both orders", ci_level=ci_level, n=0.0)
        return dict.fromkeys(_MEASURES, nothing), counts
    cluster = decided["cluster"].to_numpy()
    shares = {
        name: bounded_mean(values.to_numpy(), cluster, quantity=RATES, ci_level=ci_level)
        for name, values in outcomes.items()
    }
    first_twice = wins[is_reversed].eq(2).to_numpy()
    first_share = bounded_mean(
        first_twice, cluster[is_reversed], quantity=RATES, null=0.5, ci_level=ci_level
    )
    if not is_reversed.any():
        first_share = replace(first_share, note="no pair is reversed")
    # wins - 1 = first_1 - (1 - first_2): the outcome of an answer when it is shown first (1 for a
    # win, 0 for a loss) minus its outcome when it is shown second
    by_case = decided.assign(points=wins - 1).groupby("case", sort=False)
    values, clusters = by_case["points"].mean(), by_case["cluster"].first()
    points = bounded_mean(values, clusters, quantity=DELTAS, null=0.0, ci_level=ci_level)
    others = (shares["reversed"], shares["tie_differs"])
    intervals = (shares["consistent"], first_share, in_points(points), *others)
    dropped = f"{n_dropped} of {plural(len(pairs), 'pair')} without a verdict in an order left out"
    note = join_notes(dropped if n_dropped else "", _other_reading(decided, ci_level))
    return {m: _with_note(i, note) for m, i in zip(_MEASURES, intervals, strict=True)}, counts


def _pair_outcomes(pairs: pd.DataFrame) -> pd.DataFrame:
    """Return whether each pair is consistent, reversed, or has a tie in one order only."""
    wins = pairs["first_1"] + pairs["first_2"]
    named = {"consistent": wins.eq(1), "reversed": wins.isin([0, 2])}
    return pd.DataFrame(named | {"tie_differs": wins.isin([_TIE, 1 + _TIE])})


def _other_reading(decided: pd.DataFrame, ci_level: float) -> str:
    """Return a note if the other value of ``winner_names`` fits the data better or equally well."""
    reading = decided["winner_names"].iloc[0] if len(decided) else None
    clear = decided[decided[["first_1", "first_2"]].ne(_TIE).all(axis=1)]
    if pd.isna(reading) or len(clear) < _ENOUGH_PAIRS:
        return ""
    other = {"answer": "position", "position": "answer"}[reading]
    unclear = (
        "one answer or one place nearly always wins: the data cannot tell whether winners name "
        f"answers or places; check winner_names={reading!r}"
    )
    if clear.value_counts(["first_1", "first_2"]).max() >= _NEARLY_ALL * len(clear):
        return unclear
    wins = clear["first_1"] + clear["first_2"]
    same = bounded_mean(
        wins.eq(1).to_numpy(), clear["cluster"].to_numpy(), quantity=RATES, ci_level=ci_level
    )
    if not same.high < 0.5:
        return ""
    share = float(wins[wins.ne(1)].eq(2).mean())
    if max(share, 1 - share) > _MOSTLY:
        return unclear.replace("nearly always", "mostly")
    return (
        f"consistency is below chance and reversals go both ways: winners probably name the {other}"
        f", not the {reading}; then winner_names={other!r}"
    )


def position_change(
    pairwise: pd.DataFrame,
    *,
    reference_grader: str,
    grader: str = "grader",
    by: By = (),
    pair: str | None = None,
    winner_names: str = "answer",
    ties: Sequence[str] = TIES,
    cases: pd.DataFrame | None = None,
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Estimate whether another pairwise grader depends less on the order of the answers.

    Each grader is compared with the reference on the pairs with a verdict of both in both orders.
    For the consistency of one grader use :func:`position`.

    Parameters
    ----------
    pairwise : pandas.DataFrame
        As in :func:`position`, with the judgements of the reference and of at least one other
        grader.
    reference_grader : str
        The value in the column ``grader`` with which the others are compared.
    grader : str, default "grader"
        The column that distinguishes the graders or their versions.
    by : str or sequence of str, default ()
        Further columns to group by.
    pair, winner_names, ties, cases, ci_level
        As in :func:`position`.

    Returns
    -------
    pandas.DataFrame
        Three rows per ``by`` and grader other than the reference, with the estimates columns:
        ``position_consistency_change``, ``position_reversals_change`` and
        ``position_tie_differences_change``, each the share of pairs of :func:`position` minus that
        of the reference. They are from -1 to 1, and NaN with a note if there is no common pair.
        ``n`` counts pairs. ``reference`` names the reference. ``rate`` and ``reference_rate`` are
        the two shares. ``n_gained`` counts the pairs that are consistent (reversed, with a tie in
        one order) by this grader only, ``n_lost`` by the reference only. ``n_ties`` and
        ``reference_n_ties`` count the ties among the verdicts; a note says if they are too
        different to compare consistency. ``n_dropped`` counts the pairs for which a grader has no
        verdict in an order. ``p_items`` is the p-value of the mid-p McNemar test that takes pairs
        as independent.

    Raises
    ------
    FrameError
        As in :func:`position`. Also if the reference is missing or is the only grader, or if
        ``by`` names the column ``grader``.

    Notes
    -----
    ``p_value`` is that of the mid-p McNemar test on consistent and inconsistent pairs, with cases
    as units: the changes of a case, or of a contrast pair of cases, are reversed together. The
    interval is that of :func:`skillcomp.reliability.drift`. A grader may be consistent but wrong.

    References
    ----------
    Fagerland, Lydersen and Laake 2013, doi:10.1186/1471-2288-13-91.

    Examples
    --------
    The old grader prefers the first answer in three of four pairs, the new one in none.

    >>> import pandas as pd
    >>> old = pd.DataFrame({"pair": [1, 1, 2, 2, 3, 3, 4, 4], "order": ["AB", "BA"] * 4,
    ...                     "winner": ["A", "A"] + ["A", "B"] * 3, "grader": "old"})
    >>> new = old.assign(winner="A", grader="new")
    >>> change = position_change(pd.concat([old, new]), reference_grader="old").iloc[0]
    >>> float(change["estimate"]), int(change["n_gained"]), round(float(change["p_value"]), 3)
    (0.75, 3, 0.125)
    """
    what = "bias.position_change"
    check_settings(what, ci_level)
    names = listed(by)
    if grader in names:
        raise FrameError(f"{what}: by= names '{grader}', which is what is compared. Leave it out.")
    pairs = first_wins(
        pairwise, by=[*names, grader], pair=pair, winner_names=winner_names, ties=ties, cases=cases
    )
    pairs[grader] = pairs[grader].astype("str")
    reference, graders = str(reference_grader), pairs[grader].dropna().unique().tolist()
    if reference not in graders or len(graders) < 2:
        lacking = "is the only one" if reference in graders else "is not there"
        message = f"{what}: reference_grader: {grader} '{reference}' {lacking}; "
        close = "" if reference in graders else suggest(reference, graders)
        raise FrameError(f"{message}there: {', '.join(graders)}.{close}")
    decided = pairs[["first_1", "first_2"]].notna().all(axis=1)
    n_ties = pairs[["first_1", "first_2"]].eq(_TIE).sum(axis=1)
    measured = _pair_outcomes(pairs).assign(n_ties=n_ties).astype("float64").where(decided)
    pairs = pd.concat([pairs, measured], axis=1)
    keys = ["case", "pair", "cluster"]
    rows = []
    for values, part in groups(pairs, names):
        old = part.loc[part[grader].eq(reference), [*keys, *measured.columns]]
        for name, rows_of_grader in part[part[grader].ne(reference)].groupby(grader, sort=False):
            new = rows_of_grader[[*keys, *measured.columns]]
            both = new.merge(old, on=keys, how="outer", suffixes=("", "_old"))
            columns = {**values, grader: name, "reference": reference}
            pairs_of_both = part[decided[part.index] & part[grader].isin([name, reference])]
            note = _other_reading(pairs_of_both, ci_level)
            rows += [columns | change for change in _change_rows(both, note, ci_level)]
    return estimates(rows, by=[*names, grader], extra=["reference", *_CHANGE_EXTRA])


def _change_rows(both: pd.DataFrame, note: str, ci_level: float) -> Iterator[dict[str, Any]]:
    """Estimate the differences between a grader and the reference grader, one row per measure."""
    common = both.dropna(subset=["consistent", "consistent_old"])
    counts = {"n_dropped": len(both) - len(common), "n_ties": int(common["n_ties"].sum())}
    counts["reference_n_ties"] = int(common["n_ties_old"].sum())
    if len(common):
        rates = [common[name].mean() / 2 for name in ("n_ties", "n_ties_old")]
        n_lost = f"{counts['n_dropped']} of {plural(len(both), 'pair')}"
        lacking = f"{n_lost} without a verdict of both in an order left out"
        note = join_notes(lacking if counts["n_dropped"] else "", _tie_rates_note(rates), note)
    for name, measure in _CHANGES.items():
        if common.empty:
            why = "no pair has a verdict in both orders by both judges"
            nothing = undefined("", why, ci_level=ci_level, n=0.0)
            yield row(measure, nothing, n_gained=0, n_lost=0, **counts)
            continue
        new, old = common[name].to_numpy(), common[f"{name}_old"].to_numpy()
        change, columns = paired_change(new, old, common["cluster"], ci_level)
        changed = {"n_gained": int((new > old).sum()), "n_lost": int((new < old).sum())}
        yield row(measure, _with_note(change, note), **columns, **changed, **counts)


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

    The columns are ``by``, case, pair, cluster, winner_names, first_1 and first_2. The last two are
    the results in orders 1 and 2: 1 if the answer shown first won, 0 if it lost, 0.5 for a tie, NaN
    without a verdict. ``winner_names`` is missing where no other reading is possible.
    """
    require_frame(pairwise, "pairwise")
    words = [_normalised_word(word) for word in ([ties] if isinstance(ties, str) else ties)]
    if {"first", "second"} <= set(pairwise.columns):
        long = _from_pairwise_frame(pairwise, words)
    else:
        long = _from_other_layout(pairwise, pair, winner_names, words)
    require_columns(long, by, WHAT)
    if taken := sorted({*RESERVED, *_OWN_COLUMNS} & set(by)):
        raise FrameError(f"{WHAT}: by= names '{taken[0]}', a column of the result. Rename yours.")
    _require_one_grader(long, by)
    keys = list(dict.fromkeys([*by, "_case", "_pair"]))
    doubled = long.duplicated([*keys, "_order"], keep=False)
    if doubled.any():
        first = long.loc[doubled, "_pair"].iloc[0]
        raise FrameError(
            f"{WHAT}: pair '{first}' has one order twice; a pair has one row for each of "
            "two orders. Is a column missing in by=?"
        )
    long = long.assign(_cluster=_clusters_of_judgements(long, cases))
    reading = long["_reading"].iloc[0] if len(long) else None
    wide = long.set_index([*keys, "_order"])["_first"].unstack("_order").reindex(columns=[1, 2])
    wide = wide.rename(columns={1: "first_1", 2: "first_2"}).reset_index()
    clusters = long.drop_duplicates(keys)[[*keys, "_cluster"]]
    names = {"_case": "case", "_pair": "pair", "_cluster": "cluster"}
    wide = wide.merge(clusters, on=keys, how="left").rename(columns=names)
    return wide.assign(winner_names=reading)


def _require_one_grader(long: pd.DataFrame, by: Sequence[str]) -> None:
    """Raise FrameError if judgements of several graders would be pooled."""
    names = [name for name in _GRADER_COLUMNS if name in long.columns]
    grouped = [name for name in names if name in by]
    for name in (name for name in names if name not in grouped):
        parts = [rows for _, rows in long.groupby(grouped, dropna=False)] if grouped else [long]
        if any(rows[name].nunique(dropna=False) > 1 for rows in parts):
            values = sorted("none" if pd.isna(n) else str(n) for n in long[name].unique())
            raise FrameError(
                f"{WHAT}: the frame holds more than one {name}: {', '.join(values)}. Add '{name}' "
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
    by_name = by_name.mask(words.isin(ties) & by_name.isna(), _TIE)
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
    )


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
        _first=by_name.fillna(by_place.astype("float64")).mask(tied, _TIE),
        _reading=winner_names if winner.notna().any() else None,
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
