"""Win rates of systems in pairwise judgements, with ties as half a win."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from skillcomp.bias.feature_effects import known_attempts
from skillcomp.bias.first_wins import TIE, first_win_rows
from skillcomp.bias.position import RANDOM_ORDER, is_uneven
from skillcomp.errors import FrameError, plural, require_known
from skillcomp.frames.estimates import By, check_settings, estimates, groups, listed, row
from skillcomp.stats.bounded import RATES, Arm, IntervalRule, bounded_mean
from skillcomp.stats.ppi import ppi_mean
from skillcomp.stats.results import undefined

WHAT = "bias.win_rates"
FEWEST_GOLD = 10  # fewer cases with gold correct no rate
_COUNTS = ("n_wins", "n_losses", "n_ties", "n_dropped")


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
    check_settings(WHAT, ci_level)
    names = listed(by)
    judged = first_win_rows(pairwise, by=names, average=listed(average), cases=cases, what=WHAT)
    judged = _with_sides(judged, attempts, sides, reference)
    rows = [
        estimate | values
        for values, part in groups(judged, names)
        for estimate in _win_rate_rows(part, ci_level=ci_level, interval=interval)
    ]
    return estimates(rows, by=[*names, "side", "opponent"], extra=_COUNTS)


def _with_sides(
    judged: pd.DataFrame, attempts: pd.DataFrame, sides: str, reference: str | None
) -> pd.DataFrame:
    """Add the names of the side and its opponent, and the result of the side."""
    ids = judged[["first", "second"]].melt(value_name="attempt_id")
    every = known_attempts(ids, attempts, WHAT, rows="answers")
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
        raise FrameError(f"{WHAT}: the attempts have no values in a column '{sides}'.{hint}")
    of_attempt = every.set_index("attempt_id")[sides].astype("str")
    first, second = (judged[name].map(of_attempt) for name in ("first", "second"))
    if reference is not None:
        require_known(f"{WHAT}: reference: found", reference, sorted({*first, *second}))
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
        result = decided["_result"]
        counts = {
            "n_wins": result.gt(TIE).sum(),
            "n_losses": result.lt(TIE).sum(),
            "n_ties": result.eq(TIE).sum(),
            "n_dropped": len(judged) - len(decided),
        }
        about = {"side": side, "opponent": opponent}
        if decided.empty:
            missing = undefined("", "no comparison has a verdict", how["ci_level"], 0.0)
            yield row("win_rate", missing, **counts) | about
            continue
        pair, of_case = ["_case", "_cluster", "_pair"], ["_case", "_cluster"]
        orders = decided.groupby([*pair, "_order"], sort=False)[["_result", "_by_gold"]].mean()
        pairs = orders.groupby(pair, sort=False)["_result"].agg(["mean", "size"])
        by_case = pairs.groupby(of_case, sort=False)["mean"].agg(["mean", "size"])
        values, clusters = by_case["mean"].to_numpy(), by_case.index.get_level_values("_cluster")
        arm = Arm(values, by_case["size"].to_numpy())
        rate = bounded_mean(values, clusters, quantity=RATES, arms=[arm], null=0.5, **how)
        n_dropped = plural(counts["n_dropped"], "comparison")
        notes = [f"{n_dropped} without a verdict left out" if counts["n_dropped"] else ""]
        if pairs["size"].eq(1).mean() > 0.5:
            share, n = decided["_side_first"].mean(), len(decided)
            name, share = (side, share) if share >= 0.5 else (opponent, 1.0 - share)
            if is_uneven(share, n):
                notes.append(
                    f"'{name}' was shown first in {100 * share:.0f} % of "
                    f"{plural(n, 'comparison')}: the rate includes the preference of the grader "
                    "for a place"
                )
            else:
                notes.append(RANDOM_ORDER)
        yield row("win_rate", rate.with_note(*notes), **counts) | about
        labelled = orders.dropna().groupby(pair, sort=False).mean().groupby(of_case).mean()
        note = f"gold on {plural(len(labelled), 'case')}, as drawn at random"
        if 0 < len(labelled) < FEWEST_GOLD:
            few = f"{note}: fewer than {FEWEST_GOLD}, label more"
            missing = undefined("", few, how["ci_level"], float(len(labelled)))
            yield row("win_rate_corrected", missing, **counts) | about
        elif len(labelled):
            labelled = labelled.reindex(by_case.index)
            corrected = ppi_mean(
                labelled["_by_gold"],
                values,
                predicted_on_gold=labelled["_result"],
                clusters=clusters,
                ci_level=how["ci_level"],
            )
            yield row("win_rate_corrected", corrected.with_note(note), **counts) | about
