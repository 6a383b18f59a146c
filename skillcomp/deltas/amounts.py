"""Paired differences and ratios of amounts, such as dollars, seconds and tokens."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
import pandas as pd

from skillcomp.contrast import (
    MISSING,
    ONE_SKILL,
    attempt_cells,
    claim,
    cluster_readings,
    covering,
    means_of_cases,
    missing_note,
)
from skillcomp.errors import FrameError
from skillcomp.frames.check import check_cluster
from skillcomp.frames.contracts import CASE
from skillcomp.frames.estimates import (
    groups,
    ordered,
    prepared,
    refuse_different_checks,
    require_reference,
    row,
)
from skillcomp.frames.reference_labels import RESULTS, usable
from skillcomp.stats.bounded import DELTAS, bounded_mean
from skillcomp.stats.clusters import cr2_mean
from skillcomp.stats.ratios import log_ratio
from skillcomp.stats.results import Interval, is_number, join_notes, undefined

NO_AMOUNTS = "no case has an amount in both conditions"


def amount_rows(
    attempts: pd.DataFrame,
    names: list[str],
    value: str,
    reference: str,
    cluster: str,
    average: list[str],
    limit: float | None,
    ci_level: float,
) -> list[dict[str, Any]]:
    """Compare an amount between each condition and the reference, by difference and ratio.

    The arguments, and the columns of the rows, are those of :func:`skillcomp.deltas.paired`.
    """
    kind = "outcomes" if value == "score" else "attempts"
    how: dict[str, Any] = {"compared": ["condition"], "average": average, "agents": True}
    checked = prepared(attempts, kind, names, "deltas.paired", **how)
    require_reference(checked["condition"], reference)
    amount = checked[value].astype("float64")
    if value == "score":
        refuse_different_checks(checked, "deltas.paired")
    else:
        amount = amount.where(usable(checked) | checked["status"].isin(RESULTS))
    _check_limit(amount, value, limit)
    wide = _amounts_by_condition(checked, amount, [*names, *average], cluster)
    rows = []
    for values, group in groups(wide, names):
        for condition in ordered(checked["condition"].unique(), reference):
            if group[f"size of {condition}"].isna().all():
                continue
            about = values | {"condition": condition, "reference": reference}
            rows += _rows_of_group(group, value, about, cluster, average, limit, ci_level)
    return rows


def _amounts_by_condition(
    checked: pd.DataFrame, amount: pd.Series, by: list[str], cluster: str
) -> pd.DataFrame:
    """Return one row per ``by`` and case, with three columns for each condition.

    For the condition skill, ``amount of skill`` is the mean amount, ``n of skill`` the number of
    attempts with an amount, and ``size of skill`` the number of expected attempts.
    """
    table, code = attempt_cells(checked, by, check_cluster(cluster, checked))
    sums, n = (
        np.bincount(code, weights=weights, minlength=len(table))
        for weights in (amount.fillna(0.0), amount.notna())
    )
    table = table.assign(amount=np.where(n > 0, sums / np.maximum(n, 1), np.nan), n=n)
    keys = list(dict.fromkeys([*by, *CASE, "cluster", "cluster_by_name"]))
    wide = table.pivot(index=keys, columns="condition", values=["amount", "n", "size"])
    # prefix the names, because a condition can have the name of a key column
    wide.columns = pd.Index([" of ".join(map(str, names)) for names in wide.columns.to_list()])
    return wide.reset_index()


def _check_limit(amount: pd.Series, value: str, limit: float | None) -> None:
    if limit is None:
        return
    if not is_number(limit) or not 0.0 < limit < np.inf:
        raise FrameError(f"limit: found {limit!r}; allowed: a number above 0.")
    if amount.min() < 0 or amount.max() > limit:
        raise FrameError(
            f"limit: found {limit:g}, but {value} runs from {amount.min():g} to {amount.max():g}; "
            "allowed: amounts from 0 to the limit. Name the limit that each attempt had."
        )


def _rows_of_group(
    group: pd.DataFrame,
    value: str,
    about: dict[str, Any],
    cluster: str,
    average: list[str],
    limit: float | None,
    ci_level: float,
) -> list[dict[str, Any]]:
    """Return a row with the mean difference and, unless the amount is a score, one with the ratio.

    An undefined estimate is NaN, with a note.
    """
    sides = [about[name] for name in ("condition", "reference")]
    amounts, base = (group[f"amount of {name}"] for name in sides)
    entries = group.assign(amount=amounts, base=base)[amounts.notna() & base.notna()]
    pairs, means = means_of_cases(entries, ["amount", "base"], average)
    amounts, base = pairs["amount"], pairs["base"]
    counts, missing = _missing_amounts(group, sides, value)
    n_dropped = len(group.drop_duplicates(CASE)) - len(pairs)
    about = about | counts | {"n_dropped": n_dropped}
    notes = (claim(pairs["skill"], pairs["cluster"], cluster)[1], join_notes(means, missing))
    heavy = heavy_cases(amounts, base)
    readings = cluster_readings(pairs, cluster)
    differences = [_mean_difference(amounts, base, each, limit, ci_level) for each in readings]
    delta = _interval_with_notes(differences, pairs, *notes, heavy if limit is None else "")
    about |= {"rate": amounts.mean(), "reference_rate": base.mean()}
    rows = [row(f"delta_{value}", delta, **about)]
    if value != "score":
        ratios = [log_ratio(amounts, base, each, ci_level=ci_level) for each in readings]
        ratio = _interval_with_notes(ratios, pairs, *notes, heavy)
        both = (amounts > 0) & (base > 0)
        about |= {"rate": amounts[both].mean(), "reference_rate": base[both].mean()}
        rows.append(row(f"ratio_{value}", ratio, **about))
    return rows


def _interval_with_notes(
    readings: list[Interval], pairs: pd.DataFrame, note: str, missing: str, heavy: str
) -> Interval:
    """Combine the intervals of one estimate under several clusterings; add the notes.

    The result covers all these intervals. The estimate is NaN if there are no pairs, or if ``note``
    is ``ONE_SKILL``: an estimate about skills in general is impossible with a single skill.
    """
    interval = reduce(covering, readings)
    how: dict[str, Any] = {"ci_level": interval.ci_level}
    if pairs.empty:
        return undefined(interval.method, join_notes(NO_AMOUNTS, missing), **how, n=0.0)
    if note == ONE_SKILL:
        return undefined(interval.method, note, **how, n=interval.n)
    return replace(interval, note=join_notes(interval.note, note, missing, heavy))


def _mean_difference(
    amounts: pd.Series, base: pd.Series, label: Any, limit: float | None, ci_level: float
) -> Interval:
    """Return the mean difference with its t interval or, if there is a ``limit``, a bounded one."""
    difference = amounts - base
    if limit is None or difference.empty:
        sides = (amounts, base)
        scale = max(side.abs().max() for side in sides) if len(difference) else None
        return cr2_mean(difference, label, ci_level=ci_level, scale=scale)
    share = bounded_mean(difference / limit, label, quantity=DELTAS, null=0.0, ci_level=ci_level)
    scaled = {name: getattr(share, name) * limit for name in ("estimate", "low", "high", "se")}
    return replace(share, **scaled, method=f"{share.method}; amounts from 0 to {limit:g}")


def heavy_cases(amounts: pd.Series, base: pd.Series) -> str:
    """Return a warning if few cases hold much of the amount of a condition.

    "Few" means one case, or at most a tenth of all cases. "Much" means at least a third of the
    amount, and at least three times as much as the same number of average cases would have.
    Otherwise the warning is empty.
    """
    for side in (amounts.abs(), base.abs()):
        share = side.sort_values(ascending=False).cumsum().to_numpy() / (side.sum() or 1.0)
        share = share[: max(1, len(side) // 10)]
        part = np.arange(1, len(share) + 1) / max(len(side), 1)
        heavy = np.flatnonzero(share >= np.maximum(1 / 3, 3 * part))
        if len(heavy):
            holds = "hold" if heavy[0] else "holds"
            return (
                f"{heavy[0] + 1} of {len(side)} cases {holds} {100 * share[heavy[0]]:.0f} % of the "
                "amount: a t interval covers too seldom; name the limit of an attempt by limit="
            )
    return ""


def _missing_amounts(
    group: pd.DataFrame, sides: list[str], value: str
) -> tuple[dict[str, int], str]:
    """Count the attempts without an amount; return the counts and a note.

    Attempts count only if their case has attempts under both conditions.
    """
    both = group[group[[f"size of {name}" for name in sides]].notna().all(axis=1)]
    counts: list[int] = []
    for name in sides:
        n_attempts = int(both[f"size of {name}"].sum())
        counts += [n_attempts - int(both[f"n of {name}"].sum()), n_attempts]
    note, _ = missing_note(counts, sides, f"attempts without {value}")
    if note:
        note += f"; if their {value} is unlike that of the others, the result is biased; it has no "
        note += "bounds, so there is no worst case"
    return dict(zip(MISSING[:4], counts, strict=True)), note
