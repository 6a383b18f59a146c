"""Which cases form a cluster, what each case contributes, and pairs of cases: defined only here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.stats import beta

from skillcomp.errors import FrameError, plural, require_known
from skillcomp.frames.check import check
from skillcomp.frames.contracts import CASE
from skillcomp.frames.estimates import (
    group_codes,
    prepared,
    require_columns,
    require_reference,
    row,
)
from skillcomp.stats.bounded import DELTAS, bounded_means
from skillcomp.stats.results import Interval, join_notes, undefined


def clusters_of(frame: pd.DataFrame, cases: pd.DataFrame | None = None) -> pd.Series:
    """Assign each row to a cluster: its case and all cases linked to it by ``contrast_of``.

    Clusters are connected components, so it does not matter which of two twins names the other.
    Cases of different skills are never in one cluster; cases that name the same absent twin are.
    The numbers follow the sorted skills and cases, so the order of the rows changes no resample.

    Parameters
    ----------
    frame : pandas.DataFrame
        Cases, attempts, verdicts or outcomes; columns ``skill``, ``case_id`` and, if cases have
        twins, ``contrast_of``.
    cases : pandas.DataFrame, optional
        A cases frame with further twins.

    Returns
    -------
    pandas.Series
        Cluster numbers from 0, with the index of ``frame``.

    Examples
    --------
    >>> frame = pd.DataFrame({"skill": "s", "case_id": ["a", "b", "c"],
    ...                       "contrast_of": ["b", "a", None]})
    >>> clusters_of(frame).tolist()
    [0, 0, 1]
    """
    n = len(frame)
    rows = _linked(frame)
    if cases is not None:
        rows = pd.concat([rows, _linked(check(cases, "cases"))], ignore_index=True)
    named = rows["contrast_of"].notna().to_numpy()
    skill = pd.factorize(rows["skill"], sort=True, use_na_sentinel=False)[0]
    ids = pd.concat([rows["case_id"], rows["contrast_of"][named]], ignore_index=True)
    case, found = pd.factorize(ids, sort=True, use_na_sentinel=False)
    place = np.concatenate([skill, skill[named]]) * max(len(found), 1) + case
    places, node = np.unique(place, return_inverse=True)
    edges = (np.ones(int(named.sum())), (node[: len(rows)][named], node[len(rows) :]))
    graph = coo_array(edges, shape=(len(places), len(places)))
    label = connected_components(graph, directed=False)[1] if len(places) else node
    # a component is named by its first case; those of cases that are not in the frame go
    first = np.unique(label, return_index=True)[1][label] if len(places) else node
    numbers = np.unique(first[node[:n]], return_inverse=True)[1]
    return pd.Series(numbers.astype(np.int64), index=frame.index, name="cluster")


def _linked(frame: pd.DataFrame) -> pd.DataFrame:
    """Return who names whom as contrast, nobody where the frame does not tell."""
    if "contrast_of" in frame.columns:
        return frame[[*CASE, "contrast_of"]].astype("str")
    return frame[CASE].astype("str").assign(contrast_of=pd.Series(pd.NA, frame.index, dtype="str"))


def compared_outcomes(
    outcomes: pd.DataFrame,
    by: Sequence[str],
    what: str,
    *,
    value: str = "passed",
    reference: str | None = None,
) -> pd.DataFrame:
    """Return outcomes of which conditions are compared, or raise FrameError where they cannot be.

    The value is a rate, ``by`` does not name the condition, graders and agents are not pooled, and
    the reference is there.
    """
    require_known("value: found", value, get_args(Value))
    given = prepared(outcomes, "outcomes", by, what, compared=["condition"], agents=True)
    require_reference(given["condition"], reference)
    return given


def case_table(outcomes: pd.DataFrame, *, by: Sequence[str] = ()) -> pd.DataFrame:
    """Return what each case of checked outcomes contributes, one row per ``by`` and condition.

    ``by``, skill, case_id, cluster (a number that cases share which contrast), condition, n
    (attempts with an outcome), n_passed, share (mean share of checks passed over the attempts
    that have one; NaN without), n_shares (how many have one), size (attempts that there should be:
    the rows, and one for each repeat that other cases of the skill have under the condition and
    this one has not).
    """
    names = list(dict.fromkeys([*by, *CASE, "cluster", "condition"]))
    keyed = outcomes.assign(cluster=clusters_of(outcomes))[names].reset_index(drop=True)
    code, first = group_codes(keyed, names)
    passed, share = outcomes["passed"], outcomes["share_passed"].to_numpy(dtype=np.float64)
    known = passed.notna().to_numpy()
    shared = ~np.isnan(share)
    n_shares = np.bincount(code, weights=shared)
    sums = np.bincount(code, weights=np.where(shared, share, 0.0))
    table = keyed.take(first).reset_index(drop=True)
    return table.assign(
        n=np.bincount(code, weights=known).astype(np.int64),
        n_passed=np.bincount(code, weights=passed.to_numpy(dtype=bool, na_value=False)),
        share=np.divide(sums, n_shares, out=np.full(len(sums), np.nan), where=n_shares > 0),
        n_shares=n_shares,
        size=np.bincount(code)
        + _absent(table, [*by, "skill", "condition"], code, outcomes["repeat"]),
    )


def _absent(table: pd.DataFrame, by: Sequence[str], code: Ints, repeat: pd.Series) -> Ints:
    """Count the repeats that each row lacks and other cases of its skill and condition have."""
    group = group_codes(table, list(dict.fromkeys([*by, "skill", "condition"])))[0]
    number, found = pd.factorize(repeat)
    known, k = number >= 0, max(len(found), 1)
    own = pd.unique(code[known] * k + number[known]) // k
    every = pd.unique(group[code[known]] * k + number[known]) // k
    n_groups = int(group.max(initial=-1)) + 1
    asked = np.bincount(every, minlength=n_groups)[group]
    return np.asarray(asked - np.bincount(own, minlength=len(table)), dtype=np.int64)


WEIGHT = "case_weight"  # the column of a case table that holds the weights of cases


def with_weights(table: pd.DataFrame, outcomes: pd.DataFrame, weight: str | None) -> pd.DataFrame:
    """Add the weight of each case to a case table, from a column of the outcomes."""
    if weight is None:
        return table
    require_columns(outcomes, [weight], "weight=")
    numbers = pd.to_numeric(outcomes[weight], errors="coerce").astype("float64")
    wrong = ~(numbers.gt(0) & np.isfinite(numbers)).to_numpy(dtype=bool)
    if wrong.any():
        first = outcomes[wrong].iloc[0]
        raise FrameError(
            f"weight=: case '{first['case_id']}' has the weight {first[weight]!r}; allowed: a "
            "number above 0."
        )
    known = outcomes[CASE].assign(**{WEIGHT: numbers}).drop_duplicates()
    twice = known[known.duplicated(CASE)]
    if len(twice):
        raise FrameError(f"weight=: case '{twice['case_id'].iloc[0]}' has more than one weight.")
    return table.merge(known, on=CASE, how="left", validate="m:1")


def level_of(table: pd.DataFrame, value: str) -> pd.Series:
    """Return what of each row of a case table passed: the share of attempts, or that of checks."""
    if value == "passed":
        return table["n_passed"] / table["n"].where(table["n"] > 0)
    return table["share"]


def mean_of(values: Any, weights: Any = None) -> float:
    """Return the mean of cases, weighted where there are weights."""
    return float(np.mean(values) if weights is None else np.average(values, weights=weights))


Value = Literal["passed", "share_passed"]
Cluster = Literal["case", "skill"]
ONE_SKILL = "one skill says nothing of skills in general; use cluster='case'"
_RATES = ("rate", "reference_rate")
UNEQUAL_LOSS = 0.05  # shares of attempts missing that differ by this much or more are warned of
MIN_SKILLS = 5  # fewer clusters carry no claim about skills in general (STATISTICS, rule 4)
HARDLY_ENOUGH = 7  # so many skills let hardly any delta exclude 0

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class CasePairs:
    """The columns of a case table for the condition (1) and the reference (0), case by case.

    ``n_dropped`` counts the cases left out because one of the two has nothing on them; all cases
    weigh alike without ``weight``.
    """

    n1: Floats
    n_passed1: Floats
    share1: Floats
    n_shares1: Floats
    size1: Floats
    n0: Floats
    n_passed0: Floats
    share0: Floats
    n_shares0: Floats
    size0: Floats
    cluster: Ints
    skill: Ints
    n_dropped: int
    weight: Floats | None = None

    def where(self, keep: Any) -> CasePairs:
        """Return the pairs to keep; the others count as dropped."""
        if keep.all():
            return self
        columns = {one.name: getattr(self, one.name) for one in fields(self)}
        del columns["n_dropped"]
        kept: dict[str, Any] = {
            name: None if one is None else one[keep] for name, one in columns.items()
        }
        return CasePairs(**kept, n_dropped=self.n_dropped + int((~keep).sum()))


class Pairing:
    """Pairs each row of a case table with the row of the same case under the reference.

    ``groups`` are the values of ``by`` of each group, in the order of the table.
    """

    def __init__(self, table: pd.DataFrame, by: Sequence[str], reference: str) -> None:
        group, first = group_codes(table, by)
        values = [table[name].array.take(first) for name in by]
        rows = zip(*values, strict=True) if values else ((),) * len(first)
        self.groups: list[dict[str, Any]] = [dict(zip(by, row, strict=True)) for row in rows]
        base = table["condition"].eq(reference).to_numpy()
        case, _ = group_codes(table, [*by, *CASE])
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
        names = ("n", "n_passed", "share", "n_shares", "size")
        self._values = [table[name].to_numpy(dtype=np.float64) for name in names]
        self._cluster, self._skill = (pd.factorize(table[k])[0] for k in ("cluster", "skill"))
        self._weight = table[WEIGHT].to_numpy(dtype=np.float64) if WEIGHT in table else None

    def conditions(self, group: int) -> list[str]:
        """Return the conditions of one group, the reference too, in the order of the table."""
        return self._found[group]

    def pairs(self, group: int, condition: str) -> CasePairs:
        """Return the pairs of a condition and the reference in one group, in the table's order."""
        wanted = group * len(self._names) + self._names.index(condition)
        low, high = np.searchsorted(self._keys, np.array([wanted, wanted + 1]))
        rows = self._rows[low:high]
        there, n_rows = rows[self._partner[rows] >= 0], len(rows)
        base = self._partner[there]
        sides: list[Any] = [values[at] for at in (there, base) for values in self._values]
        n_dropped = n_rows + int(self._n_base[group]) - 2 * len(there)
        weight = None if self._weight is None else self._weight[there]
        return CasePairs(*[*sides, self._cluster[there], self._skill[there], n_dropped, weight])


def check_cluster(cluster: str) -> None:
    """Raise FrameError unless ``cluster`` is ``"case"`` or ``"skill"``."""
    require_known("cluster: found", cluster, get_args(Cluster))


def delta_rows(
    sets: Sequence[CasePairs], value: Value, cluster: Cluster, ci_level: float
) -> list[dict[str, Any]]:
    """Return the estimates row of each set of pairs, all intervals solved together.

    Each row is as made by :func:`skillcomp.frames.estimates.row`, with rate, reference_rate,
    n_dropped, and what is missing.
    """
    check_cluster(cluster)
    known = [pairs.where(_known(pairs, value)) for pairs in sets]
    claims = [claim(pairs.skill, pairs.cluster, cluster, delta=True) for pairs in known]
    levels = [_levels(pairs, value) for pairs in known]
    intervals = bounded_means(
        [
            (one - other, label, pairs.weight)
            for (one, other), (label, _), pairs in zip(levels, claims, known, strict=True)
        ],
        quantity=DELTAS,
        null=0.0,
        ci_level=ci_level,
    )
    missing = [_missing(pairs, value) for pairs in sets]
    return [
        _delta_row(pairs, value, interval, level, note, lost)
        for pairs, interval, level, (_, note), lost in zip(
            known, intervals, levels, claims, missing, strict=True
        )
    ]


def _missing(pairs: CasePairs, value: Value) -> tuple[dict[str, float], str]:
    """Count attempts without an outcome, bound the delta they leave open, and warn of unequal loss.

    The bounds are those of the mean over the cases asked under both conditions: every missing
    attempt of one condition failed and of the other passed, and the reverse.
    """
    if value == "passed":
        met, there = (pairs.n_passed1, pairs.n_passed0), (pairs.n1, pairs.n0)
    else:
        there = (pairs.n_shares1, pairs.n_shares0)
        met = (np.nan_to_num(pairs.share1) * there[0], np.nan_to_num(pairs.share0) * there[1])
    size = (pairs.size1, pairs.size0)
    lost = [every - seen for every, seen in zip(size, there, strict=True)]
    least = [of / every for of, every in zip(met, size, strict=True)]
    most = [(of + gone) / n for of, gone, n in zip(met, lost, size, strict=True)]
    empty = not len(pairs.n1)
    found = {
        "n_missing": int(lost[0].sum()),
        "n_missing_reference": int(lost[1].sum()),
        "worst_low": np.nan if empty else mean_of(least[0] - most[1], pairs.weight),
        "worst_high": np.nan if empty else mean_of(most[0] - least[1], pairs.weight),
    }
    if empty:
        return found, ""
    share, reference_share = (float(g.sum() / n.sum()) for g, n in zip(lost, size, strict=True))
    if abs(share - reference_share) < UNEQUAL_LOSS - 1e-9:
        return found, ""
    return found, (
        f"attempts missing: {share:.0%} of the condition, {reference_share:.0%} of the reference: "
        "if they differ from the others the delta is biased, at worst up to worst_low and "
        "worst_high"
    )


def _known(pairs: CasePairs, value: Value) -> NDArray[np.bool_]:
    if value == "passed":
        return (pairs.n1 > 0) & (pairs.n0 > 0)
    return ~np.isnan(pairs.share1) & ~np.isnan(pairs.share0)


def _levels(pairs: CasePairs, value: Value) -> tuple[Floats, Floats]:
    if value == "passed":
        return pairs.n_passed1 / pairs.n1, pairs.n_passed0 / pairs.n0
    return pairs.share1, pairs.share0


def few_skills(n_skills: int) -> str:
    """Return why so many skills carry no claim about skills in general, or an empty string."""
    if n_skills == 1:
        return ONE_SKILL
    if n_skills < MIN_SKILLS:
        return (
            f"{n_skills} skills are too few to speak of skills in general (at least {MIN_SKILLS})"
        )
    return ""


def claim(
    skill: Any, clusters: Any, cluster: Cluster, *, delta: bool = False
) -> tuple[NDArray[Any], str]:
    """Return the cluster of each case at the level of the claim, and what must be said of it.

    Fewer than five skills fall back to the clusters of cases; of one skill the note is
    ``ONE_SKILL``, and nothing may be claimed. ``delta`` tells a difference of bounded means, which
    few skills hardly let exclude 0.
    """
    skills, cases = np.asarray(skill), np.asarray(clusters)
    n_skills = len(pd.unique(skills))
    if cluster == "case" or not n_skills:
        return cases, f"cases of these {n_skills} skills" if delta and n_skills > 1 else ""
    if few := few_skills(n_skills):
        return cases, few if n_skills == 1 else f"these cases only: {few}"
    if delta and n_skills <= HARDLY_ENOUGH:
        # the mean of equal deltas d has the lower limit -1 + (1 + d) Beta(n, c)
        least = 1.0 / float(beta.ppf(0.025, n_skills, DELTAS.c)) - 1.0
        return skills, (
            f"{n_skills} skills: hardly any delta can exclude 0 (the same delta in all of them "
            f"does so from {least:.2f} on, at 95 %)"
        )
    return skills, ""


def claimed(found: Interval, note: str, nothing: str, *more: str) -> Interval:
    """Return an interval with what :func:`claim` says of it, NaN where it may not be claimed.

    ``nothing`` is said where there is no case, ``more`` where there is an estimate.
    """
    if not found.n:
        return replace(found, note=nothing)
    if note == ONE_SKILL:
        return undefined("", note, ci_level=found.ci_level, n=found.n)
    return replace(found, note=join_notes(found.note, note, *more))


def _delta_row(
    pairs: CasePairs,
    value: Value,
    interval: Interval,
    levels: tuple[Floats, Floats],
    note: str,
    missing: tuple[dict[str, float], str],
) -> dict[str, Any]:
    measure, (lost, warning), n_dropped = f"delta_{value}", missing, pairs.n_dropped
    about: dict[str, Any] = {"n_dropped": n_dropped, **dict.fromkeys(_RATES, np.nan), **lost}
    if interval.n:
        means = (mean_of(level, pairs.weight) for level in levels)
        about |= dict(zip(_RATES, means, strict=True))
    nothing = "no case has outcomes in both conditions"
    if asked := lost["n_missing"] + lost["n_missing_reference"]:
        nothing += f"; {plural(int(asked), 'attempt')} lack one (no usable verdict)"
    dropped = f"{plural(n_dropped, 'case')} dropped: no outcome in one of the two conditions"
    told = claimed(interval, note, nothing, dropped if n_dropped else "", warning)
    return row(measure, told, **about)
