"""Consistency of a grader: verdicts of one version on the same answers in several rounds."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
import pandas as pd

from skillcomp.contrast import cluster_readings, covering
from skillcomp.errors import plural
from skillcomp.frames.contracts import CASE
from skillcomp.frames.estimates import (
    By,
    check_settings,
    estimates,
    grouped,
    groups,
    listed,
    refuse_pooling,
    row,
)
from skillcomp.frames.reference_labels import ITEM, clustered_verdicts, missing_reasons
from skillcomp.reliability.grader_agreement import coefficients
from skillcomp.stats.bounded import DELTAS, RATES, bounded_mean
from skillcomp.stats.results import NAN, Interval, join_notes, undefined

_NO_RETEST = "nothing was graded twice; frames.verdicts(store, round='all') reads all rounds"
_NO_PAIR = "no item has verdicts in two rounds"
_MEASURES = ("flip_rate", "case_flip_rate", "attempt_flip_rate", "pass_rate_change")
_MISSING = ["n_missing", "worst_low", "worst_high"]
_Bounds = dict[str, tuple[int, float, float]]


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
    check_settings("reliability.consistency", ci_level, n_resamples, seed)
    how: dict[str, Any] = {"average": average, "cases": cases}
    names, decided, together = _checked_rounds(verdicts, by, "reliability.consistency", **how)
    settings: dict[str, Any] = {"ci_level": ci_level, "n_resamples": n_resamples, "seed": seed}
    rows: list[dict[str, Any]] = []
    for values, part in groups(decided, names):
        graded = _by_round(part)
        both = graded[graded.notna().sum(axis=1) >= 2].dropna(axis=1, how="all")
        keys = both.index.to_frame(index=False)
        readings = [
            coefficients(both.to_numpy(dtype=float), clusters, **settings)
            | _flip_measures(both, clusters, ci_level)
            for clusters in cluster_readings(keys)
        ]
        measures = {name: reduce(covering, [r[name] for r in readings]) for name in readings[0]}
        bounds, notes = _worst_cases(part), _left_out(part)
        for name, interval in measures.items():
            n_missing, *worst = bounds.get(name, (bounds["flip_rate"][0], NAN, NAN))
            note = interval.note if len(both) else _NO_PAIR if part["again"].any() else _NO_RETEST
            ends = f"in the worst case it is {worst[0]:.2f} or {worst[1]:.2f}"
            ends = ends if n_missing and not np.isnan(worst).any() else ""
            interval = replace(interval, note=join_notes(note, *notes, ends, together))
            about = dict(zip(_MISSING, (n_missing, *worst), strict=True))
            rows.append(row(name, interval, **values, **about, n_rounds=both.shape[1]))
    return estimates(rows, by=names, extra=["n_rounds", *_MISSING])


def _checked_rounds(
    verdicts: pd.DataFrame,
    by: By,
    what: str,
    *,
    average: By = (),
    cases: pd.DataFrame | None = None,
) -> tuple[list[str], pd.DataFrame, str]:
    """Check verdicts of several rounds; return the names in ``by``, the verdicts and a note.

    The verdicts get the column ``verdict``, the columns of the clusters, and ``again``. ``again``
    is True if the item was graded in two or more rounds, even if a verdict is missing.
    """
    names = listed(by)
    how: dict[str, Any] = {"compared": ["round"], "graders": False}
    checked, note = clustered_verdicts(verdicts, names, what, cases=cases, average=average, **how)
    refuse_pooling(checked, [*names, "round", *listed(average)], what)
    checked = checked.assign(round=checked["round"].fillna(1))
    n_rounds = grouped(checked, [*names, *ITEM])["round"].transform("size")
    return names, checked.assign(again=n_rounds.ge(2)), note


def _by_round(part: pd.DataFrame, values: str = "verdict") -> pd.DataFrame:
    """Pivot the column named by ``values`` to one row per item and one column per round."""
    index = ["cluster", *CASE, *ITEM, "cluster_by_name"]
    return part.pivot(index=index, columns="round", values=values)


def _left_out(part: pd.DataFrame) -> list[str]:
    """Return notes on the items that are left out or lack verdicts, with reasons."""
    again = part[part["again"]]
    lacking = again[again["verdict"].isna()]
    n_seen = again.groupby(ITEM, sort=False)["verdict"].count()
    n_left, n_lacking = int(n_seen.lt(2).sum()), len(lacking.drop_duplicates(ITEM))
    n_once = len(part.loc[~part["again"], ITEM].drop_duplicates())
    reasons = missing_reasons(lacking["status"])
    notes = []
    if n_left:
        notes.append(f"{plural(n_left, 'item')} left out, without verdicts in two rounds")
    if n_lacking > n_left:
        notes.append(f"{plural(n_lacking - n_left, 'item')} without a verdict in some round")
    notes += [f"verdicts missing: {reasons}"] if n_lacking else []
    notes += [f"{plural(n_once, 'item')} graded in one round only"] if n_once else []
    return notes if len(again) else []


def _worst_cases(part: pd.DataFrame) -> _Bounds:
    """Return for each measure how many items or attempts lack a verdict, and worst-case bounds."""
    again = part[part["again"]]
    if again.empty:
        return dict.fromkeys((*_MEASURES, "raw_agreement"), (0, NAN, NAN))
    verdict = _by_round(again)
    asked = _by_round(again.assign(asked=1.0), "asked").notna()
    n, n_passed = asked.sum(axis=1), verdict.eq(1).sum(axis=1)
    n_open = n - verdict.notna().sum(axis=1)
    low = n_passed.gt(0) & verdict.eq(0).any(axis=1)
    high = low | n_open.gt(0)
    n_missing = int(n_open.gt(0).sum())
    # Most pairs of rounds agree if missing verdicts join the more frequent verdict of the item, and
    # the fewest agree if passes and fails are as equal in number as possible.
    best = (n_passed + n_open).where(2 * n_passed >= n - n_open, n_passed)
    worst = (n // 2).clip(n_passed, n_passed + n_open)
    agreeing = [(k * (k - 1) + (n - k) * (n - k - 1)) / (n * (n - 1)) for k in (worst, best)]
    values, rows = verdict.to_numpy(dtype=float), np.arange(len(verdict))
    first = values[rows, asked.to_numpy().argmax(axis=1)]
    last = values[rows, -1 - asked.to_numpy()[:, ::-1].argmax(axis=1)]
    changes = [np.nan_to_num(last, nan=x) - np.nan_to_num(first, nan=1.0 - x) for x in (0.0, 1.0)]
    ends = {
        "flip_rate": (low, high),
        "case_flip_rate": [flips.groupby(level=CASE).mean() for flips in (low, high)],
        "raw_agreement": agreeing,
        "pass_rate_change": changes,
    }
    bounds = {
        name: (n_missing, float(least.mean()), float(most.mean()))
        for name, (least, most) in ends.items()
    }
    return bounds | {"attempt_flip_rate": _worst_attempt_flips(verdict, asked)}


def _worst_attempt_flips(verdict: pd.DataFrame, asked: pd.DataFrame) -> tuple[int, float, float]:
    """Return how many attempts lack a verdict, and the lowest and highest possible flip rate.

    Only attempts of which every check has a row in every round count.
    """
    whole = asked.all(axis=1).groupby(level="attempt_id", sort=False).transform("all")
    attempts = verdict[whole].groupby(level="attempt_id", sort=False)
    if not whole.any():
        return 0, NAN, NAN
    failed = attempts.min().eq(0)
    is_open = attempts.count().lt(attempts.size(), axis=0)
    unknown, passed = is_open & ~failed, ~is_open & ~failed
    low = failed.any(axis=1) & passed.any(axis=1)
    high = low | unknown.any(axis=1)
    return int(is_open.any(axis=1).sum()), float(low.mean()), float(high.mean())


def _flip_measures(wide: pd.DataFrame, clusters: Any, level: float) -> dict[str, Interval]:
    if wide.empty:
        return {name: undefined(name, _NO_PAIR, ci_level=level, n=0.0) for name in _MEASURES}
    flips = wide.min(axis=1).ne(wide.max(axis=1)).astype(float)
    table = wide.index.to_frame(index=False).assign(cluster=clusters)
    by_case = table.assign(flips=flips.to_numpy()).groupby(CASE, sort=False)
    of_case = by_case.agg(flips=("flips", "mean"), cluster=("cluster", "first"))
    intervals = (
        _flip_rate(flips, clusters, level),
        _flip_rate(of_case["flips"], of_case["cluster"], level),
        _attempt_flips(wide, table, level),
        _last_less_first(wide, clusters, level),
    )
    return dict(zip(_MEASURES, intervals, strict=True))


def _attempt_flips(wide: pd.DataFrame, table: pd.DataFrame, level: float) -> Interval:
    # Keep only attempts with a verdict on every check in every round, because others have no
    # outcome.
    attempt = table["attempt_id"].to_numpy()
    full = wide.notna().all(axis=1).groupby(attempt, sort=False).all()
    passed = wide.groupby(attempt, sort=False).min()[full]
    if passed.empty:
        why = "no attempt has the same checks decided in all rounds"
        return undefined("bounded mean", why, ci_level=level, n=0.0)
    flips = passed.min(axis=1).ne(passed.max(axis=1))
    cluster = table["cluster"].groupby(attempt, sort=False).first()[full]
    return _flip_rate(flips, cluster, level)


def _flip_rate(flips: Any, cluster: Any, level: float) -> Interval:
    values = np.asarray(flips, dtype=float)
    return bounded_mean(values, np.asarray(cluster), quantity=RATES, ci_level=level)


def _last_less_first(wide: pd.DataFrame, cluster: Any, level: float) -> Interval:
    first = wide.bfill(axis=1).iloc[:, 0].to_numpy(dtype=float)
    last = wide.ffill(axis=1).iloc[:, -1].to_numpy(dtype=float)
    return bounded_mean(last - first, cluster, quantity=DELTAS, null=0.0, ci_level=level)


def round_flips(verdicts: pd.DataFrame, *, cases: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return how often the rounds of each grader disagree, for graders with several rounds.

    The rows are those of :func:`consistency` with the measures ``flip_rate`` and
    ``attempt_flip_rate``. Every grader version has one row for each measure; agents are pooled.
    """
    version = [verdicts["grader"], verdicts["grader_version"]]
    n_rounds = verdicts["round"].fillna(1).groupby(version, dropna=False).transform("nunique")
    # no resampling, because only the chance-corrected coefficients need it
    how: dict[str, Any] = {"by": ["grader", "grader_version"], "cases": cases, "n_resamples": 1}
    how["average"] = ["agent"] if "agent" in verdicts else []
    rows = consistency(verdicts[n_rounds.gt(1)], **how)
    return rows[rows["measure"].isin(["flip_rate", "attempt_flip_rate"])].reset_index(drop=True)
