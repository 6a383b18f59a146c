"""The same case under two conditions: pairs of cases as arrays, and the delta of a set of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skillcomp.columns import Columns
from skillcomp.errors import FrameError, suggest
from skillcomp.estimates import row
from skillcomp.stats.clusters import cr2_mean
from skillcomp.stats.results import Interval, undefined
from skillcomp.stats.switching import paired_delta

__all__ = [
    "MIN_CASES",
    "MIN_SKILLS",
    "CasePairs",
    "Cluster",
    "Pairing",
    "Value",
    "check_cluster",
    "one_delta",
]

Value = Literal["passed", "share_passed"]
Cluster = Literal["case", "skill"]
MIN_CASES = 30  # the t interval of shares is trusted from here on (STATISTICS, rule 3)
FALLBACK = "differences without spread"
MIN_SKILLS = 5  # fewer clusters carry no claim about skills in general (STATISTICS, rule 4)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class CasePairs:
    """Cases of one group under a condition and the reference.

    Attributes
    ----------
    n1, n_passed1, share1, n0, n_passed0, share0 : ndarray of float
        Attempts with an outcome, how many of them passed, and the mean share of checks passed,
        under the condition (1) and the reference (0).
    cluster, skill : ndarray of int
        Number of the case's cluster and skill.
    n_dropped : int
        Cases left out because one of the conditions has nothing on them.
    """

    n1: Floats
    n_passed1: Floats
    share1: Floats
    n0: Floats
    n_passed0: Floats
    share0: Floats
    cluster: Ints
    skill: Ints
    n_dropped: int

    def where(self, keep: Any) -> CasePairs:
        """Return some of the pairs.

        Parameters
        ----------
        keep : ndarray of bool
            Which; the others count as dropped.

        Returns
        -------
        CasePairs
            The pairs kept.
        """
        if keep.all():
            return self
        return CasePairs(
            self.n1[keep],
            self.n_passed1[keep],
            self.share1[keep],
            self.n0[keep],
            self.n_passed0[keep],
            self.share0[keep],
            self.cluster[keep],
            self.skill[keep],
            self.n_dropped + int((~keep).sum()),
        )


class Pairing:
    """Pairs each row of a table of cases with the row of the same case under the reference.

    Parameters
    ----------
    table : pandas.DataFrame
        As made by :func:`skillcomp.deltas.case_table`.
    by : sequence of str
        Columns that keep rows apart.
    reference : str
        The condition that the others are compared with.

    Attributes
    ----------
    groups : list of dict
        The values of ``by`` of each group, in the order of the table.
    """

    def __init__(self, table: pd.DataFrame, by: Sequence[str], reference: str) -> None:
        columns = Columns(table)
        group, first = columns.groups(by)
        values = [table[name].array.take(first) for name in by]
        rows = zip(*values, strict=True) if values else ((),) * len(first)
        self.groups: list[dict[str, Any]] = [dict(zip(by, row, strict=True)) for row in rows]
        base = table["condition"].eq(reference).to_numpy()
        case, _ = columns.groups([*by, "skill", "case_id"])
        partner = np.full(int(case.max(initial=-1)) + 1, -1)
        partner[case[base]] = np.flatnonzero(base)
        condition, found = pd.factorize(table["condition"])
        self._names = [str(name) for name in found]
        key = group * len(self._names) + condition
        self._rows = np.argsort(key, kind="stable")
        self._keys = key[self._rows]
        self._found: dict[int, list[str]] = {}
        for one in pd.unique(key).tolist():
            number, code = divmod(one, len(self._names))
            self._found.setdefault(number, []).append(self._names[code])
        self._partner = partner[case]
        self._n_base = np.bincount(group[base], minlength=int(group.max(initial=-1)) + 1)
        self._n, self._n_passed, self._share = (
            table[name].to_numpy(dtype=np.float64) for name in ("n", "n_passed", "share")
        )
        self._cluster, self._skill = (pd.factorize(table[k])[0] for k in ("cluster", "skill"))

    def conditions(self, group: int) -> list[str]:
        """Return the conditions of one group in the order of the table.

        Parameters
        ----------
        group : int
            Number of the combination of ``by``.

        Returns
        -------
        list of str
            The reference among them.
        """
        return self._found[group]

    def pairs(self, group: int, condition: str) -> CasePairs:
        """Return the pairs of one group.

        Parameters
        ----------
        group : int
            Number of the combination of ``by``.
        condition : str
            The condition to compare with the reference.

        Returns
        -------
        CasePairs
            In the order of the table.
        """
        wanted = group * len(self._names) + self._names.index(condition)
        low, high = np.searchsorted(self._keys, np.array([wanted, wanted + 1]))
        arm = self._rows[low:high]
        arm, n_arm = arm[self._partner[arm] >= 0], len(arm)
        base = self._partner[arm]
        return CasePairs(
            self._n[arm],
            self._n_passed[arm],
            self._share[arm],
            self._n[base],
            self._n_passed[base],
            self._share[base],
            self._cluster[arm],
            self._skill[arm],
            n_arm + int(self._n_base[group]) - 2 * len(arm),
        )


def check_cluster(cluster: str) -> None:
    """Raise FrameError unless ``cluster`` is ``"case"`` or ``"skill"``."""
    if cluster not in ("case", "skill"):
        raise FrameError(
            f"cluster: found '{cluster}'; allowed: 'case', 'skill'."
            + suggest(str(cluster), ["case", "skill"])
        )


def one_delta(pairs: CasePairs, value: Value, cluster: Cluster, ci_level: float) -> dict[str, Any]:
    """Return the estimates row of one set of pairs.

    Parameters
    ----------
    pairs : CasePairs
        The cases.
    value : {"passed", "share_passed"}
        What is averaged.
    cluster : {"case", "skill"}
        What the claim is about.
    ci_level : float
        Level of the interval.

    Returns
    -------
    dict
        As made by :func:`skillcomp.estimates.row`, with rate, reference_rate and n_dropped.
    """
    check_cluster(cluster)
    if value == "passed":
        pairs = pairs.where((pairs.n1 > 0) & (pairs.n0 > 0))
    else:
        pairs = pairs.where(~np.isnan(pairs.share1) & ~np.isnan(pairs.share0))
    measure, n_dropped = f"delta_{value}", pairs.n_dropped
    if not pairs.n1.size:
        nothing = undefined("", "no case has outcomes in both conditions", ci_level=ci_level, n=0)
        return row(measure, nothing, rate=np.nan, reference_rate=np.nan, n_dropped=n_dropped)
    compute = _delta_passed if value == "passed" else _delta_share
    interval, notes = _at_level(pairs, cluster, ci_level, compute)
    if n_dropped:
        notes.append(f"{n_dropped} cases dropped: no outcome in one of the two conditions")
    if value == "passed":
        levels = pairs.n_passed1 / pairs.n1, pairs.n_passed0 / pairs.n0
    else:
        levels = pairs.share1, pairs.share0
    rate, reference_rate = (float(level.mean()) for level in levels)
    result = row(measure, interval, rate=rate, reference_rate=reference_rate, n_dropped=n_dropped)
    return result | {"note": "; ".join([*([interval.note] if interval.note else []), *notes])}


def _at_level(
    pairs: CasePairs, cluster: Cluster, ci_level: float, compute: Any
) -> tuple[Interval, list[str]]:
    """Cluster at the level of the claim, or say why the claim is refused."""
    n_skills = len(np.unique(pairs.skill))
    if cluster == "skill" and n_skills == 1 and pairs.n1.size > 1:
        note = "one skill says nothing of skills in general; use cluster='case'"
        return undefined("", note, ci_level=ci_level, n=float(pairs.n1.size)), []
    if cluster == "skill" and n_skills < MIN_SKILLS:
        note = (
            f"these cases only: {n_skills} skills are too few to speak of skills in general "
            f"(at least {MIN_SKILLS})"
        )
        return compute(pairs, pairs.cluster, ci_level, True), [note]
    label = pairs.skill if cluster == "skill" else pairs.cluster
    note = f"cases of these {n_skills} skills" if cluster == "case" and n_skills > 1 else ""
    return compute(pairs, label, ci_level, cluster == "case"), [note] if note else []


def _delta_passed(pairs: CasePairs, clusters: Ints, ci_level: float, dependent: bool) -> Interval:
    arms = (pairs.n_passed1, pairs.n1, pairs.n_passed0, pairs.n0)
    return paired_delta(*arms, clusters=clusters, dependent=dependent, ci_level=ci_level)


def _delta_share(pairs: CasePairs, clusters: Ints, ci_level: float, dependent: bool) -> Interval:
    difference = pairs.share1 - pairs.share0
    several = len(np.unique(clusters)) > 1
    if several and np.ptp(difference) > 0:
        interval = cr2_mean(difference, clusters, ci_level=ci_level)
        if interval.high > interval.low:
            return _short(_inside(interval))
    scored = (pairs.n1 > 0) & (pairs.n0 > 0)
    n = float(pairs.n1.size)
    if not scored.any():
        note = "no spread, and no passed counts to fall back on"
        return undefined("CR2", note, ci_level=ci_level, n=n)
    score = _delta_passed(pairs.where(scored), clusters[scored], ci_level, dependent)
    estimate = float(difference.mean())
    why = FALLBACK if several else "one case or cluster"
    note = f"{why}: the limits are the score interval of attempts passed, another quantity"
    return Interval(
        estimate,
        min(score.low, estimate),
        max(score.high, estimate),
        ci_level=ci_level,
        method=score.method,
        note=f"{note}; {score.note}" if score.note else note,
        n=n,
        n_clusters=score.n_clusters,
    )


def _short(interval: Interval) -> Interval:
    """Warn of t intervals from few cases, which are too short when most differences are equal."""
    if interval.n >= MIN_CASES:
        return interval
    note = f"fewer than {MIN_CASES} cases: a t interval of shares may be too short"
    return replace(interval, note="; ".join(filter(None, [interval.note, note])))


def _inside(interval: Interval) -> Interval:
    """Cut limits to the range that a difference of rates has."""
    if interval.low >= -1.0 and interval.high <= 1.0:
        return interval
    return replace(
        interval,
        low=max(interval.low, -1.0),
        high=min(interval.high, 1.0),
        note="; ".join(filter(None, [interval.note, "limits cut to -1 and 1"])),
    )
