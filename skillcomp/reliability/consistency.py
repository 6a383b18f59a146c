"""Consistency of a grader: verdicts of one version on the same answers in several rounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from skillcomp.errors import plural
from skillcomp.frames.case_table import clusters_of
from skillcomp.frames.contracts import CASE
from skillcomp.frames.estimates import (
    By,
    check_settings,
    estimates,
    groups,
    listed,
    prepared,
    refuse_pooling,
    row,
)
from skillcomp.frames.reference_labels import ITEM, known_verdict
from skillcomp.reliability.grader_agreement import coefficients
from skillcomp.stats.bounded import DELTAS, RATES, bounded_mean, bounded_means
from skillcomp.stats.results import Interval, undefined

_NO_RETEST = "nothing was graded twice; frames.verdicts(store, round='all') reads all rounds"
_MEASURES = ("flip_rate", "case_flip_rate", "attempt_flip_rate", "pass_rate_change")


def consistency(
    verdicts: pd.DataFrame,
    *,
    by: By = ("grader",),
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
        Columns to group by; not ``round``, because rounds are compared.
    cases : pandas.DataFrame, optional
        A cases frame; the two cases of a contrast pair then form one cluster.
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

        ``n_rounds`` is the number of rounds. NaN with a note if nothing was graded twice.

    Raises
    ------
    FrameError
        If the frame breaks its contract, graders or versions would be pooled, or ``by`` names
        ``round``.

    See Also
    --------
    flip_rates : The flip rate of every case.

    Notes
    -----
    Flip rates, raw agreement and the change have the interval of
    :func:`skillcomp.stats.bounded.bounded_mean` with cases as clusters. A consistent grader may be
    wrong: see :func:`agreement`.
    """
    check_settings("reliability.consistency", ci_level, n_resamples, seed)
    names, decided = _checked_rounds(verdicts, by, cases, "reliability.consistency")
    settings: dict[str, Any] = {"ci_level": ci_level, "n_resamples": n_resamples, "seed": seed}
    rows: list[dict[str, Any]] = []
    for values, part in groups(decided, names):
        numbered = part.assign(round=part["round"].fillna(1))
        wide = numbered.pivot(index=["cluster", *CASE, *ITEM], columns="round", values="verdict")
        wide = wide[wide.notna().sum(axis=1) >= 2].dropna(axis=1, how="all")
        cluster = wide.index.get_level_values("cluster").to_numpy()
        measures = coefficients(wide.to_numpy(dtype=float), cluster, **settings)
        measures |= _flip_measures(wide, ci_level)
        about = {**values, "n_rounds": wide.shape[1]}
        for name, interval in measures.items():
            measure_row = row(name, interval, **about)
            rows.append(measure_row if len(wide) else measure_row | {"note": _NO_RETEST})
    return estimates(rows, by=names, extra=["n_rounds"])


def _checked_rounds(
    verdicts: pd.DataFrame, by: Sequence[str], cases: pd.DataFrame | None, what: str
) -> tuple[list[str], pd.DataFrame]:
    names = listed(by)
    checked = prepared(verdicts, "verdicts", names, what, compared=["round"], graders=False)
    refuse_pooling(checked, [*names, "round"], what)
    return names, checked.assign(
        verdict=known_verdict(checked), cluster=clusters_of(checked, cases)
    )


def _flip_measures(wide: pd.DataFrame, level: float) -> dict[str, Interval]:
    if wide.empty:
        return {name: undefined(name, _NO_RETEST, ci_level=level, n=0.0) for name in _MEASURES}
    keys = wide.index.to_frame(index=False)
    flips = wide.min(axis=1).ne(wide.max(axis=1)).to_numpy(dtype=float)
    by_case = keys.assign(flips=flips).groupby(["cluster", *CASE], sort=False)["flips"]
    shares = by_case.mean()
    intervals = (
        _flip_rate(flips, keys["cluster"], level),
        _flip_rate(shares, shares.index.get_level_values("cluster"), level),
        _attempt_flips(wide, level),
        _last_less_first(wide, keys["cluster"], level),
    )
    return dict(zip(_MEASURES, intervals, strict=True))


def _attempt_flips(wide: pd.DataFrame, level: float) -> Interval:
    # Keep only attempts with a verdict on every check in every round, because others have no
    # outcome.
    full = wide.notna().all(axis=1).groupby(level=["cluster", "attempt_id"], sort=False).all()
    passed = wide.groupby(level=["cluster", "attempt_id"], sort=False).min()[full]
    if passed.empty:
        why = "no attempt has the same checks decided in all rounds"
        return undefined("bounded mean", why, ci_level=level, n=0.0)
    flips = passed.min(axis=1).ne(passed.max(axis=1))
    return _flip_rate(flips, passed.index.get_level_values("cluster"), level)


def _flip_rate(flips: Any, cluster: Any, level: float) -> Interval:
    values = np.asarray(flips, dtype=float)
    return bounded_mean(values, np.asarray(cluster), quantity=RATES, ci_level=level)


def _last_less_first(wide: pd.DataFrame, cluster: pd.Series, level: float) -> Interval:
    first = wide.bfill(axis=1).iloc[:, 0].to_numpy(dtype=float)
    last = wide.ffill(axis=1).iloc[:, -1].to_numpy(dtype=float)
    return bounded_mean(last - first, cluster.to_numpy(), quantity=DELTAS, null=0.0, ci_level=level)


def round_flips(verdicts: pd.DataFrame, *, cases: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return how often the rounds of each grader disagree, for graders with several rounds.

    The rows are those of :func:`consistency` by grader and version, for the measures ``flip_rate``
    and ``attempt_flip_rate``.
    """
    version = [verdicts["grader"], verdicts["grader_version"]]
    n_rounds = verdicts["round"].fillna(1).groupby(version, dropna=False).transform("nunique")
    # no resampling, because the coefficients are left out
    how: dict[str, Any] = {"by": ["grader", "grader_version"], "cases": cases, "n_resamples": 1}
    rows = consistency(verdicts[n_rounds.gt(1)], **how)
    return rows[rows["measure"].isin(["flip_rate", "attempt_flip_rate"])].reset_index(drop=True)


def flip_rates(
    verdicts: pd.DataFrame, *, by: By = ("grader",), ci_level: float = 0.95
) -> pd.DataFrame:
    """Estimate the flip rate of each case between rounds of grading.

    Parameters
    ----------
    verdicts : pandas.DataFrame
        A verdicts frame with all rounds.
    by : str or sequence of str, default ("grader",)
        As in :func:`consistency`.
    ci_level : float, default 0.95
        Level of the intervals.

    Returns
    -------
    pandas.DataFrame
        One row per ``by``, skill and case that was graded twice, with the estimates columns. The
        measure is ``flip_rate``; ``n`` counts items graded twice. The interval is that of
        :func:`skillcomp.stats.bounded.bounded_mean`, which takes the checks of the case as
        independent, as ``note`` states. ``n_flipped`` counts the items that flipped.

    Raises
    ------
    FrameError
        As in :func:`consistency`.
    """
    check_settings("reliability.flip_rates", ci_level)
    names, decided = _checked_rounds(verdicts, by, None, "reliability.flip_rates")
    keys = [name for name in CASE if name not in names]
    where = list(dict.fromkeys([*names, *keys, *ITEM]))
    by_item = decided[decided["verdict"].notna()].groupby(
        where, sort=False, dropna=False, observed=True
    )
    items = by_item["verdict"].agg(["min", "max", "count"]).reset_index()
    items = items[items["count"] >= 2]
    items["flipped"] = items["min"].ne(items["max"])
    cases = list(groups(items, [*names, *keys]))
    samples = [(part["flipped"].to_numpy(), None, None) for _, part in cases]
    rows = []
    shares = bounded_means(samples, quantity=RATES, ci_level=ci_level)
    for (values, part), share in zip(cases, shares, strict=True):
        rate_row = row("flip_rate", share, n_flipped=int(part["flipped"].sum()), **values)
        note = f"{plural(len(part), 'check')} of one case taken as independent"
        rows.append(rate_row | {"n_clusters": 1.0, "note": note})
    return estimates(rows, by=[*names, *keys], extra=["n_flipped"])
