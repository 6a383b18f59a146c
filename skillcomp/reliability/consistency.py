"""Consistency of a grader: verdicts of one version on the same answers in several rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from skillcomp.contrast import Contrast, Estimate, Units, within
from skillcomp.errors import plural
from skillcomp.frames.contracts import CASE
from skillcomp.frames.estimates import (
    By,
    grouped,
    groups,
    row,
)
from skillcomp.frames.reference_labels import ITEM, missing_reasons
from skillcomp.reliability.graded_items import graded_items
from skillcomp.reliability.grader_agreement import coefficients
from skillcomp.stats.results import NAN, undefined

_NO_RETEST = "nothing was graded twice; frames.verdicts(store, round='all') reads all rounds"
_NO_PAIR = "no item has verdicts in two rounds"
_NO_ATTEMPT = "no attempt has the same checks decided in all rounds"
_MEASURES = ("flip_rate", "case_flip_rate", "attempt_flip_rate", "pass_rate_change")
_MISSING = ["n_missing", "worst_low", "worst_high"]
_FACTS = [*CASE, "cluster"]


def consistency(
    verdicts: pd.DataFrame,
    *,
    by: By = ("grader",),
    average: By = (),
    cases: pd.DataFrame | None = None,
    ci_level: float = 0.95,
    n_resamples: int = 1999,
    seed: int = 0,
) -> pd.DataFrame:
    """Estimate how consistently one grader version grades the same answers in several rounds.

    Parameters
    ----------
    verdicts : pandas.DataFrame
        A verdicts frame with all rounds, as ``frames.verdicts(store, round="all")`` returns it.
    by : str or sequence of str, default ("grader",)
        Columns to group by, such as ``["grader", "agent"]``; not ``round``, because rounds are
        compared.
    average, cases
        As in :func:`drift`.
    ci_level : float, default 0.95
        Level of the intervals.
    n_resamples, seed : int
        Number of bootstrap resamples of cases and their seed, for the chance-corrected
        coefficients.

    Returns
    -------
    pandas.DataFrame
        Several rows per ``by``, with the estimates columns. An item is a check of an attempt; only
        items with verdicts in two or more rounds count. The measures are:

        - ``raw_agreement``, ``gwet_ac1``, ``cohen_kappa`` (only for two rounds) and
          ``krippendorff_alpha``: agreement between rounds;
        - ``flip_rate``: share of items with different verdicts in different rounds;
        - ``case_flip_rate``: the flip rate within each case, averaged over cases;
        - ``attempt_flip_rate``: share of attempts that pass (every check passed) in one round but
          not in another; only attempts with a verdict on every check in every round count;
        - ``pass_rate_change``: pass rate of the last round minus that of the first.

        ``n_rounds`` is the number of rounds. ``n_missing`` counts the items that have rows in two
        or more rounds, but in at least one of them no verdict (malformed, refused or an error). For
        ``attempt_flip_rate``, it counts the attempts of which every check has a row in every round,
        but at least one row has no verdict. ``worst_low`` and ``worst_high`` are the lowest and the
        highest value that these missing verdicts allow; they are NaN for the three chance-corrected
        coefficients. The note counts the items that were left out, with reasons. Estimates are NaN
        with a note if nothing was graded twice.

    Raises
    ------
    FrameError
        If the frame breaks its contract, graders, versions or agents would be pooled, or ``by``
        names ``round``.

    Notes
    -----
    Flip rates, raw agreement and the change have the interval of
    :func:`skillcomp.stats.bounded.bounded_mean` with cases as clusters. A consistent grader can
    still be wrong: see :func:`agreement`. The note counts the items that were graded in only one
    round; ``worst_low`` and ``worst_high`` do not allow for them.
    """
    graded = graded_items(
        verdicts,
        None,
        "reliability.consistency",
        by=by,
        settings=(ci_level, n_resamples, seed),
        average=average,
        cases=cases,
        compared=["round"],
    )
    decided = graded.rows.assign(round=graded.rows["round"].fillna(1))
    n_rounds = grouped(decided, [*graded.names, *ITEM])["round"].transform("size")
    rows = []
    for values, part in groups(decided.assign(again=n_rounds.ge(2)), graded.names):
        index = ["cluster", *CASE, *ITEM]
        wide = part.pivot(index=index, columns="round", values="verdict")
        both = wide[wide.notna().sum(axis=1) >= 2].dropna(axis=1, how="all")
        clusters = both.index.get_level_values("cluster")
        measures = coefficients(
            both.to_numpy(float), clusters, ci_level=ci_level, n_resamples=n_resamples, seed=seed
        )
        means = _means_of_changes(part[part["again"]], ci_level)
        notes = _left_out(part, means["flip_rate"])
        measures |= {name: means[name].interval for name in _MEASURES}
        for name, interval in measures.items():
            if not len(both):
                note = _NO_PAIR if part["again"].any() else _NO_RETEST
                interval = replace(interval, method=name, note=note)
            elif not interval.n:
                interval = undefined("bounded mean", _NO_ATTEMPT, ci_level, 0.0)
            n_missing = means[name if name == "attempt_flip_rate" else "flip_rate"].missing[0]
            worst = means[name].worst if name in means else [NAN, NAN]
            ends = f"in the worst case it is {worst[0]:.2f} or {worst[1]:.2f}"
            ends = ends if n_missing and not np.isnan(worst).any() else ""
            interval = interval.with_note(*notes, ends)
            about = dict(zip(_MISSING, (n_missing, *worst), strict=True))
            rows.append(row(name, interval, **values, **about, n_rounds=both.shape[1]))
    return graded.estimates(rows, ["n_rounds", *_MISSING])


def _left_out(part: pd.DataFrame, flips: Estimate) -> list[str]:
    """Return notes on the items that are left out or lack verdicts, with reasons."""
    again, n_left, n_lacking = part["again"], flips.n_dropped, flips.missing[0]
    reasons = missing_reasons(part.loc[again & part["verdict"].isna(), "status"])
    n_once = (~again).sum()
    counts = {
        f"{plural(n_left, 'item')} left out, without verdicts in two rounds": n_left,
        f"{plural(n_lacking - n_left, 'item')} without a verdict in some round": n_lacking > n_left,
        f"verdicts missing: {reasons}": n_lacking,
        f"{plural(n_once, 'item')} graded in one round only": n_once,
    }
    return [note for note, count in counts.items() if count and again.any()]


def _means_of_changes(again: pd.DataFrame, ci_level: float) -> dict[str, Estimate]:
    """Estimate the measures of changes between rounds, with the bounds of missing verdicts.

    ``raw_agreement`` has only bounds. The rows in ``again`` are verdicts on items that were graded
    in several rounds.
    """
    again = again.assign(
        _low=again["verdict"].fillna(0.0),
        _high=again["verdict"].fillna(1.0),
        is_open=again["verdict"].isna(),
    ).sort_values("round")
    items = _flips(again, ITEM)
    n, n_passed, n_known = items["n_rounds"], items["n_passed"], items["n_known"]
    # Most pairs of rounds agree if missing verdicts join the more frequent verdict of the item, and
    # the fewest agree if passes and fails are as equal in number as possible.
    most = n - n_known + n_passed
    counts = {"_low": (n // 2).clip(n_passed, most)}
    counts["_high"] = most.where(2 * n_passed >= n_known, n_passed)
    pairs = {k: (m * (m - 1) + (n - m) * (n - m - 1)) / (n * (n - 1)) for k, m in counts.items()}
    ends = []
    for end in ("first", "last"):
        values = (
            grouped(again, [*ITEM, *_FACTS])[["verdict", "_low", "_high"]].agg(end).reset_index()
        )
        level = values["verdict"].where(n_known >= 2)
        ends.append(values.assign(end=end, _level=level, _size=1, _n=1))
    attempts = _flips(_outcomes_of_rounds(again), ["attempt_id"]).drop(columns="_level")
    known = again.dropna(subset="verdict")
    known = known[grouped(known, ITEM)["round"].transform("size") >= 2]
    decided = _flips(_outcomes_of_rounds(known), ["attempt_id"])
    attempts = attempts.merge(decided[["attempt_id", *_FACTS, "_level"]], how="outer")

    def mean(
        table: pd.DataFrame, unit: list[str], arm: Sequence[str] = (), average: Sequence[str] = ()
    ) -> Estimate:
        if table.empty:
            return Estimate(undefined("", "", ci_level, 0.0), [], 0, [0], [NAN, NAN])
        units = Units.of(table, [], arm=arm, unit=unit, average=average, value="level")
        weights = {("last",): 1.0, ("first",): -1.0} if arm else {(): 1.0}
        return within(
            units, [Contrast({}, 0, weights)], ci_level=ci_level, interval="bounded", notes=False
        )[0]

    return {
        "flip_rate": mean(items, ITEM),
        "case_flip_rate": mean(items, CASE, average=ITEM),
        "attempt_flip_rate": mean(attempts, ["attempt_id"]),
        "pass_rate_change": mean(pd.concat(ends), ITEM, ["end"]),
        "raw_agreement": mean(items.assign(**pairs), ITEM),
    }


def _flips(rows: pd.DataFrame, unit: list[str]) -> pd.DataFrame:
    """Return one row per unit: whether its verdict changes, and the bounds of this."""
    units = grouped(rows, [*unit, *_FACTS])
    table: pd.DataFrame = (
        units["verdict"].agg(n_rounds="size", n_known="count", n_passed="sum").reset_index()
    )
    changes = table["n_passed"].between(0, table["n_known"], inclusive="neither")
    return table.assign(
        _level=changes.astype(float).where(table["n_known"] >= 2),
        _low=changes,
        _high=changes | (table["n_known"] < table["n_rounds"]),
        _size=1,
        _n=~units["is_open"].any().to_numpy(),
    )


def _outcomes_of_rounds(rows: pd.DataFrame) -> pd.DataFrame:
    """Return whether each attempt passed in each round, NaN if a missing verdict decides it.

    Only attempts of which every check has a row in every round count.
    """
    whole = grouped(rows, ITEM)["round"].transform("size").eq(rows["round"].nunique())
    rows = rows[whole.groupby(rows["attempt_id"]).transform("all")]
    outcomes = grouped(rows, ["attempt_id", *_FACTS, "round"])
    lowest: pd.DataFrame = outcomes["verdict"].min().reset_index()
    is_open = outcomes["is_open"].any().to_numpy()
    verdict = lowest["verdict"].where(lowest["verdict"].eq(0) | ~is_open)
    return lowest.assign(verdict=verdict, is_open=is_open)


def round_flips(verdicts: pd.DataFrame, *, cases: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return how often the rounds of each grader disagree, for graders with several rounds.

    The rows are those of :func:`consistency` with the measures ``flip_rate`` and
    ``attempt_flip_rate``. Every grader version has one row for each measure; agents are pooled.
    """
    version = [verdicts["grader"], verdicts["grader_version"]]
    n_rounds = verdicts["round"].fillna(1).groupby(version, dropna=False).transform("nunique")
    # no resampling, because only the chance-corrected coefficients need it
    rows = consistency(
        verdicts[n_rounds.gt(1)],
        by=["grader", "grader_version"],
        average=["agent"] if "agent" in verdicts else [],
        cases=cases,
        n_resamples=1,
    )
    return rows[rows["measure"].isin(["flip_rate", "attempt_flip_rate"])].reset_index(drop=True)
