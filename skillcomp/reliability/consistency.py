"""Consistency of a grader: verdicts of one version on the same answers, graded again."""

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

_NO_RETEST = (
    "nothing was graded twice; frames.verdicts(store, round='all') reads regrades where there are"
)
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
    """Say how steady a grader is: the same version on the same answers, graded again.

    Parameters
    ----------
    verdicts : pandas.DataFrame
        A verdicts frame with its rounds (``frames.verdicts(store, round="all")``).
    by : str or sequence of str, default ("grader",)
        Columns that keep rows apart; not ``round``, which is what is compared.
    cases : pandas.DataFrame, optional
        A cases frame: the members of a contrast pair then form one cluster.
    ci_level : float, default 0.95
        Level of the intervals.
    n_resamples, seed : int
        Bootstrap of cases behind the coefficients beyond chance.

    Returns
    -------
    pandas.DataFrame
        Rows per ``by`` in the estimates shape, over the items (attempt x check) with verdicts in
        two rounds or more:

        - ``raw_agreement``, ``gwet_ac1``, ``cohen_kappa`` (two rounds only),
          ``krippendorff_alpha`` of the rounds;
        - ``flip_rate``: share of items whose verdict is not the same in all rounds;
        - ``case_flip_rate``: the same share inside each case, averaged over cases, each one vote;
        - ``attempt_flip_rate``: share of attempts whose outcome (every check passed) changed,
          among attempts with the same checks decided in all rounds;
        - ``pass_rate_change``: pass rate of the last round less that of the first.

        Extra: n_rounds. NaN with a note where nothing was graded twice.

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
    Rates, raw agreement among them, and the change: :func:`skillcomp.stats.bounded.bounded_mean`
    with cases as clusters. A steady grader need not be right: see :func:`agreement`.
    """
    check_settings("reliability.consistency", ci_level, n_resamples, seed)
    names, known = _checked_rounds(verdicts, by, cases, "reliability.consistency")
    settings: dict[str, Any] = {"ci_level": ci_level, "n_resamples": n_resamples, "seed": seed}
    rows: list[dict[str, Any]] = []
    for values, part in groups(known, names):
        wide = _rounds(part)
        cluster = wide.index.get_level_values("cluster").to_numpy()
        found = coefficients(wide.to_numpy(dtype=float), cluster, **settings)
        found |= _flip_measures(wide, ci_level)
        about = {**values, "n_rounds": wide.shape[1]}
        for name, interval in found.items():
            one = row(name, interval, **about)
            rows.append(one if len(wide) else one | {"note": _NO_RETEST})
    return estimates(rows, by=names, extra=["n_rounds"])


def _checked_rounds(
    verdicts: pd.DataFrame, by: Sequence[str], cases: pd.DataFrame | None, what: str
) -> tuple[list[str], pd.DataFrame]:
    names = listed(by)
    given = prepared(verdicts, "verdicts", names, what, compared=["round"], graders=False)
    refuse_pooling(given, [*names, "round"], what)
    return names, given.assign(verdict=known_verdict(given), cluster=clusters_of(given, cases))


def _rounds(part: pd.DataFrame) -> pd.DataFrame:
    """Return the items with two verdicts or more, one column per round."""
    told = part.assign(round=part["round"].fillna(1))
    wide = told.pivot(index=["cluster", *CASE, *ITEM], columns="round", values="verdict")
    return wide[wide.notna().sum(axis=1) >= 2].dropna(axis=1, how="all")


def _flip_measures(wide: pd.DataFrame, level: float) -> dict[str, Interval]:
    if wide.empty:
        return {name: undefined(name, _NO_RETEST, ci_level=level, n=0.0) for name in _MEASURES}
    keys = wide.index.to_frame(index=False)
    flips = wide.min(axis=1).ne(wide.max(axis=1)).to_numpy(dtype=float)
    by_case = keys.assign(flips=flips).groupby(["cluster", *CASE], sort=False)["flips"]
    shares = by_case.mean()
    found = (
        _rate(flips, keys["cluster"], level),
        _rate(shares, shares.index.get_level_values("cluster"), level),
        _attempt_flips(wide, level),
        _last_less_first(wide, keys["cluster"], level),
    )
    return dict(zip(_MEASURES, found, strict=True))


def _attempt_flips(wide: pd.DataFrame, level: float) -> Interval:
    # an attempt with a gap in one round has no outcome there that could have changed
    full = wide.notna().all(axis=1).groupby(level=["cluster", "attempt_id"], sort=False).all()
    passed = wide.groupby(level=["cluster", "attempt_id"], sort=False).min()[full]
    if passed.empty:
        why = "no attempt has the same checks decided in all rounds"
        return undefined("bounded mean", why, ci_level=level, n=0.0)
    flips = passed.min(axis=1).ne(passed.max(axis=1))
    return _rate(flips, passed.index.get_level_values("cluster"), level)


def _rate(flips: Any, cluster: Any, level: float) -> Interval:
    values = np.asarray(flips, dtype=float)
    return bounded_mean(values, np.asarray(cluster), quantity=RATES, ci_level=level)


def _last_less_first(wide: pd.DataFrame, cluster: pd.Series, level: float) -> Interval:
    first = wide.bfill(axis=1).iloc[:, 0].to_numpy(dtype=float)
    last = wide.ffill(axis=1).iloc[:, -1].to_numpy(dtype=float)
    return bounded_mean(last - first, cluster.to_numpy(), quantity=DELTAS, null=0.0, ci_level=level)


def flip_rates(
    verdicts: pd.DataFrame, *, by: By = ("grader",), ci_level: float = 0.95
) -> pd.DataFrame:
    """Return how often the verdicts of each case flipped on a second grading.

    Parameters
    ----------
    verdicts : pandas.DataFrame
        A verdicts frame with its rounds.
    by : str or sequence of str, default ("grader",)
        As in :func:`consistency`.
    ci_level : float, default 0.95
        Level of the intervals.

    Returns
    -------
    pandas.DataFrame
        One row per ``by``, skill and case that was graded twice: the estimates columns (measure
        ``flip_rate``, n counts repeated verdicts) and n_flipped. The bounded interval; inside
        one case it can only take the checks as independent, and the note says so.

    Raises
    ------
    FrameError
        As in :func:`consistency`.
    """
    check_settings("reliability.flip_rates", ci_level)
    names, known = _checked_rounds(verdicts, by, None, "reliability.flip_rates")
    keys = [name for name in CASE if name not in names]
    where = list(dict.fromkeys([*names, *keys, *ITEM]))
    told = known[known["verdict"].notna()].groupby(where, sort=False, dropna=False, observed=True)
    items = told["verdict"].agg(["min", "max", "count"]).reset_index()
    items = items[items["count"] >= 2]
    items["flipped"] = items["min"].ne(items["max"])
    cases = list(groups(items, [*names, *keys]))
    samples = [(part["flipped"].to_numpy(), None, None) for _, part in cases]
    rows = []
    shares = bounded_means(samples, quantity=RATES, ci_level=ci_level)
    for (values, part), found in zip(cases, shares, strict=True):
        one = row("flip_rate", found, n_flipped=int(part["flipped"].sum()), **values)
        note = f"{plural(len(part), 'check')} of one case taken as independent"
        rows.append(one | {"n_clusters": 1.0, "note": note})
    return estimates(rows, by=[*names, *keys], extra=["n_flipped"])
