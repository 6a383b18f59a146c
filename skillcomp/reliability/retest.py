"""A grader against itself: how steady its verdicts are on a second grading."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from skillcomp.contracts import check
from skillcomp.errors import FrameError
from skillcomp.estimates import (
    estimates,
    groups,
    listed,
    require_columns,
    require_one_grader,
    row,
)
from skillcomp.reliability._bycase import paired_change
from skillcomp.reliability._common import ITEM, check_settings, plural, with_known
from skillcomp.reliability.agreeing import coefficients
from skillcomp.stats.clusters import wilson_effective
from skillcomp.stats.intervals import wilson
from skillcomp.stats.results import Interval, undefined

_NO_RETEST = (
    "nothing was graded twice; frames.verdicts(store, round='all') reads regrades where there are"
)
_MEASURES = ("flip_rate", "case_flip_rate", "attempt_flip_rate", "pass_rate_change")


def consistency(
    verdicts: pd.DataFrame,
    *,
    by: Sequence[str] = ("grader",),
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
    by : sequence of str, default ("grader",)
        Columns that keep rows apart; not ``round``, which is what is compared.
    cases : pandas.DataFrame, optional
        A cases frame: the members of a contrast pair then form one cluster.
    ci_level : float, default 0.95
        Level of the intervals.
    n_resamples, seed : int
        Bootstrap of cases behind the four coefficients.

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
    Rates: Wilson's interval on the effective number of items, cases as clusters. A steady grader
    need not be right: see :func:`agreement`.
    """
    check_settings("reliability.consistency", ci_level, n_resamples)
    names, known = _known(verdicts, by, cases, "reliability.consistency")
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


def _known(
    verdicts: pd.DataFrame, by: Sequence[str], cases: pd.DataFrame | None, what: str
) -> tuple[list[str], pd.DataFrame]:
    names = listed(by)
    if "round" in names:
        raise FrameError(f"{what}: by= names 'round', which is what is compared. Leave it out.")
    given = check(verdicts, "verdicts")
    require_columns(given, names, what)
    require_one_grader(given, [*names, "round"], what)
    return names, with_known(given, cases)


def _rounds(part: pd.DataFrame) -> pd.DataFrame:
    """Return the items with two verdicts or more, one column per round."""
    told = part.assign(round=part["round"].fillna(1))
    wide = told.pivot(index=["cluster", "case_id", *ITEM], columns="round", values="verdict")
    return wide[wide.notna().sum(axis=1) >= 2].dropna(axis=1, how="all")


def _flip_measures(wide: pd.DataFrame, level: float) -> dict[str, Interval]:
    if wide.empty:
        return {name: undefined(name, _NO_RETEST, ci_level=level, n=0.0) for name in _MEASURES}
    keys = wide.index.to_frame(index=False)
    flips = wide.min(axis=1).ne(wide.max(axis=1)).to_numpy(dtype=float)
    by_case = keys.assign(flips=flips).groupby(["cluster", "case_id"], sort=False)["flips"]
    shares, checks = by_case.mean(), by_case.count()
    return {
        "flip_rate": wilson_effective(flips, keys["cluster"].to_numpy(), ci_level=level),
        "case_flip_rate": wilson_effective(
            shares.to_numpy(),
            shares.index.get_level_values("cluster").to_numpy(),
            attempts=checks.to_numpy(),
            ci_level=level,
        ),
        "attempt_flip_rate": _attempt_flips(wide, level),
        "pass_rate_change": _last_less_first(wide, keys["cluster"].to_numpy(), level),
    }


def _attempt_flips(wide: pd.DataFrame, level: float) -> Interval:
    # an attempt with a gap in one round has no outcome there that could have changed
    full = wide.notna().all(axis=1).groupby(level=["cluster", "attempt_id"], sort=False).all()
    passed = wide.groupby(level=["cluster", "attempt_id"], sort=False).min()[full]
    if passed.empty:
        why = "no attempt has the same checks decided in all rounds"
        return undefined("Wilson on effective n", why, ci_level=level, n=0.0)
    flips = passed.min(axis=1).ne(passed.max(axis=1)).to_numpy(dtype=float)
    cluster = passed.index.get_level_values("cluster").to_numpy()
    return wilson_effective(flips, cluster, ci_level=level)


def _last_less_first(wide: pd.DataFrame, cluster: Any, level: float) -> Interval:
    first = wide.bfill(axis=1).iloc[:, 0].to_numpy(dtype=float)
    last = wide.ffill(axis=1).iloc[:, -1].to_numpy(dtype=float)
    return paired_change(last, first, cluster, ci_level=level)


def flip_rates(
    verdicts: pd.DataFrame, *, by: Sequence[str] = ("grader",), ci_level: float = 0.95
) -> pd.DataFrame:
    """Return how often the verdicts of each case flipped on a second grading.

    Parameters
    ----------
    verdicts : pandas.DataFrame
        A verdicts frame with its rounds.
    by : sequence of str, default ("grader",)
        As in :func:`consistency`.
    ci_level : float, default 0.95
        Level of the intervals.

    Returns
    -------
    pandas.DataFrame
        One row per ``by``, skill and case that was graded twice: the estimates columns (measure
        ``flip_rate``, n counts repeated verdicts) and n_flipped. Wilson's interval; inside one
        case it can only take the checks as independent, and the note says so.

    Raises
    ------
    FrameError
        As in :func:`consistency`.
    """
    check_settings("reliability.flip_rates", ci_level)
    names, known = _known(verdicts, by, None, "reliability.flip_rates")
    keys = [name for name in ("skill", "case_id") if name not in names]
    where = list(dict.fromkeys([*names, *keys, *ITEM]))
    told = known[known["verdict"].notna()].groupby(where, sort=False, dropna=False, observed=True)
    items = told["verdict"].agg(["min", "max", "count"]).reset_index()
    items = items[items["count"] >= 2]
    items["flipped"] = items["min"].ne(items["max"])
    rows = []
    for values, part in groups(items, [*names, *keys]):
        flips = int(part["flipped"].sum())
        found = wilson(flips, len(part), ci_level=ci_level)
        one = row("flip_rate", found, n_flipped=flips, **values)
        note = f"{plural(len(part), 'check')} of one case taken as independent"
        rows.append(one | {"n_clusters": 1.0, "note": note})
    return estimates(rows, by=[*names, *keys], extra=["n_flipped"])
