"""Clusters of cases, the case table, and pairs of cases under two conditions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from skillcomp.errors import FrameError, literal, plural, suggest
from skillcomp.frames.check import check, show
from skillcomp.frames.contracts import AMOUNTS, CASE
from skillcomp.frames.estimates import (
    By,
    average_note,
    covering,
    group_codes,
    grouped,
    listed,
    prepared,
    refuse_different_checks,
    require_columns,
    require_reference,
    row,
)
from skillcomp.stats.bounded import DELTAS, Arm, IntervalRule, Sample, bounded_means, mixed_of_case
from skillcomp.stats.results import Interval, join_notes, undefined


def clusters_of(
    frame: pd.DataFrame,
    cases: pd.DataFrame | None = None,
    *,
    column: str | None = None,
    by_name: bool = False,
) -> pd.Series:
    """Assign each row to a cluster: its case and all cases linked to it.

    Two cases are linked if one names the other in ``contrast_of`` (a contrast pair within a skill),
    if they have the same ``task`` under several skills, or if they have the same value of
    ``column``. Clusters are connected components of these links, so it does not matter which case
    of a pair names the other. Cases that name the same third case are in one cluster, even if the
    third case is not in the frame. All rows of a case are in its cluster, whatever their agent,
    grader, round or repeat. Clusters are numbered in the order of the sorted skills and cases, so
    resampling does not depend on the order of the rows.

    Parameters
    ----------
    frame : pandas.DataFrame
        Cases, attempts, verdicts or outcomes; columns ``skill``, ``case_id`` and, if there are
        any, ``contrast_of`` and ``task``.
    cases : pandas.DataFrame, optional
        A cases frame; its links between cases are used, too.
    column : str, optional
        A column of ``frame`` or ``cases`` with one value in all rows of a case, such as the
        repository that the case comes from. A missing value links a case to no other case.
    by_name : bool, default False
        Whether equal case names under several skills are the same task where ``task`` is missing.

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
    n, names = len(frame), list(dict.fromkeys(["task", column or "task"]))
    rows = _case_links(frame, names)
    if cases is not None:
        rows = pd.concat([rows, _case_links(check(cases, "cases"), names)], ignore_index=True)
    if by_name:
        unknown = rows["task"].isna().groupby(rows["case_id"]).transform("any")
        rows, names = rows.assign(name=rows["case_id"].where(unknown)), [*names, "name"]
    has_twin = rows["contrast_of"].notna().to_numpy()
    skill = pd.factorize(rows["skill"], sort=True, use_na_sentinel=False)[0]
    ids = pd.concat([rows["case_id"], rows["contrast_of"][has_twin]], ignore_index=True)
    case, distinct_ids = pd.factorize(ids, sort=True, use_na_sentinel=False)
    place = np.concatenate([skill, skill[has_twin]]) * max(len(distinct_ids), 1) + case
    places, node = np.unique(place, return_inverse=True)
    edges, n_nodes = [(node[: len(rows)][has_twin], node[len(rows) :])], len(places)
    # in the graph of links, each distinct value of the column (such as a task) is a node of its own
    for name in names:
        value = pd.factorize(rows[name])[0]
        linked = value >= 0
        edges.append((node[: len(rows)][linked], n_nodes + value[linked]))
        n_nodes += int(value.max(initial=-1)) + 1
    ends = np.hstack(edges)
    graph = coo_array((np.ones(ends.shape[1]), (ends[0], ends[1])), shape=(n_nodes, n_nodes))
    label = connected_components(graph, directed=False)[1] if len(places) else node
    # number components by their first case; leave out components without a row in `frame`
    first = np.unique(label, return_index=True)[1][label] if len(places) else node
    numbers = np.unique(first[node[:n]], return_inverse=True)[1]
    return pd.Series(numbers.astype(np.int64), index=frame.index, name="cluster")


def _case_links(frame: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Return skill, case_id, contrast_of and the columns ``names``; absent columns are NA."""
    present = [name for name in ("contrast_of", *names) if name in frame.columns]
    columns = list(dict.fromkeys([*CASE, *present]))
    links = frame[columns].astype("str")
    absent = {name: pd.Series(pd.NA, frame.index, dtype="str") for name in ("contrast_of", *names)}
    return links.assign(**{name: na for name, na in absent.items() if name not in columns})


def _tasks_unknown(frame: pd.DataFrame) -> bool:
    """Return True if cases of several skills share a name and one of them has no ``task``."""
    cases = frame.reindex(columns=[*CASE, "task"]).drop_duplicates(CASE)
    same_name = cases["case_id"].duplicated(keep=False)
    return bool(cases.loc[same_name, "task"].isna().any())


def both_clusters(
    frame: pd.DataFrame, cases: pd.DataFrame | None, column: str | None
) -> tuple[pd.Series, pd.Series]:
    """Return the clusters of the rows twice, for two readings of equal case names.

    In the first, equal names under several skills are different tasks where ``task`` is missing;
    in the second, they are the same task.
    """
    cluster = clusters_of(frame, cases, column=column)
    if not _tasks_unknown(frame):
        return cluster, cluster
    return cluster, clusters_of(frame, cases, column=column, by_name=True)


def with_case_facts(
    frame: pd.DataFrame, cases: pd.DataFrame | None, columns: Sequence[str | None]
) -> pd.DataFrame:
    """Add columns of ``cases`` that ``frame`` lacks: ``task`` and those in ``columns``."""
    if cases is None:
        return frame
    checked = check(cases, "cases")
    facts = [n for n in dict.fromkeys(["task", *columns]) if n in checked and n not in frame]
    return frame.merge(checked[[*CASE, *facts]], on=CASE, how="left", validate="m:1")


def compared_outcomes(
    outcomes: pd.DataFrame,
    by: By,
    what: str,
    *,
    value: str = "passed",
    reference: str | None = None,
    average: Sequence[str] | None = None,
    agents: bool = True,
) -> pd.DataFrame:
    """Check outcomes for a comparison of conditions, and return them.

    Raise FrameError if ``value`` is neither ``passed`` nor ``share_passed``, if ``by`` contains
    the condition, or if the analysis would pool graders or (with ``agents``) agents. If there is a
    ``reference``, also raise FrameError if the reference has no rows or the conditions have
    different checks.
    """
    if value not in get_args(Value):
        words = [] if value in AMOUNTS else [*get_args(Value), *AMOUNTS]
        raise FrameError(
            f"value: found {literal(value)}; allowed: 'passed', 'share_passed', in deltas.rates "
            "and deltas.paired 'passed_own_words' and, in deltas.paired, 'score' of an outcomes "
            f"frame or, of an attempts frame, {', '.join(AMOUNTS[:-1])}."
            + suggest(str(value), words)
        )
    how: dict[str, Any] = {"compared": ["condition"], "average": average, "agents": agents}
    checked = prepared(outcomes, "outcomes", by, what, **how)
    require_reference(checked["condition"], reference)
    if reference is not None:
        refuse_different_checks(checked, what, value)
    return checked


def case_table(outcomes: pd.DataFrame, *, by: By = (), column: str | None = None) -> pd.DataFrame:
    """Aggregate checked outcomes to one row per ``by``, case and condition.

    The columns are those of :func:`attempt_cells`, then n (number of attempts with an outcome),
    n_passed, share (mean share of checks passed; NaN if no attempt has a share), n_shares (number
    of attempts with a share) and n_checks (largest number of checks of an attempt; NaN if no
    number is known). ``passed_low`` and ``passed_high`` bound the number of passes
    among the attempts without an outcome. ``share_low`` and ``share_high`` bound the sum of the
    shares of the attempts without a share.
    """
    table, code = attempt_cells(outcomes, listed(by), column)

    def totals(values: Any) -> Any:
        return np.bincount(code, weights=values, minlength=len(table))

    passed, share = outcomes["passed"], outcomes["share_passed"].to_numpy(dtype=np.float64)
    has_outcome, has_share = passed.notna().to_numpy(), ~np.isnan(share)
    n_shares, sums = totals(has_share), totals(np.where(has_share, share, 0.0))
    bounds = {}
    n_absent = table["size"] - totals(None)
    for name, value, present in (
        ("passed", "passed", has_outcome),
        ("share", "share_passed", has_share),
    ):
        low, high = attempt_bounds(outcomes, value)
        bounds[f"{name}_low"] = totals(np.where(present, 0.0, low))
        bounds[f"{name}_high"] = totals(np.where(present, 0.0, high)) + n_absent
    of_attempt = outcomes["n_checks"].to_numpy(dtype=np.float64, na_value=np.nan)
    n_checks = np.full(len(table), np.nan)
    np.fmax.at(n_checks, code, np.where(of_attempt > 0, of_attempt, np.nan))
    return table.assign(
        n_checks=n_checks,
        n=totals(has_outcome).astype(np.int64),
        n_passed=totals(passed.to_numpy(dtype=bool, na_value=False)),
        share=np.divide(sums, n_shares, out=np.full(len(sums), np.nan), where=n_shares > 0),
        n_shares=n_shares,
        **bounds,
    )


def attempt_bounds(outcomes: pd.DataFrame, value: str) -> tuple[Floats, Floats]:
    """Return the lowest and the highest possible value of each attempt, as two arrays.

    For the lowest value, checks without a verdict count as failed; for the highest, as passed. An
    attempt with a failed check cannot pass, so its highest value of ``passed`` is 0. If the number
    of checks is unknown, the bounds are 0 and 1. If checks have different weights, the bounds of
    ``share_passed`` are ``share_low`` and ``share_high`` of :func:`skillcomp.frames.outcomes`.
    """
    if value == "share_passed" and {"share_low", "share_high"} <= set(outcomes.columns):
        low, high = (outcomes[n].to_numpy(dtype=np.float64) for n in ("share_low", "share_high"))
        return np.nan_to_num(low, nan=0.0), np.nan_to_num(high, nan=1.0)
    n_checks, n_passed, n_missing = (
        outcomes[name].to_numpy(dtype=np.float64, na_value=np.nan)
        for name in ("n_checks", "n_passed", "n_missing")
    )
    n_checks = np.where(n_checks > 0, n_checks, np.nan)
    low, high = n_passed / n_checks, np.minimum((n_passed + n_missing) / n_checks, 1.0)
    if value == "passed":
        low, high = np.floor(low), np.floor(high)
    return np.nan_to_num(low, nan=0.0), np.nan_to_num(high, nan=1.0)


def attempt_cells(
    frame: pd.DataFrame, by: Sequence[str], column: str | None = None
) -> tuple[pd.DataFrame, Ints]:
    """Return a table with one row per cell, and the cell of each row of the frame.

    A cell is a combination of ``by``, case and condition; its number is the position of its row in
    the table. Columns: ``by``, skill, case_id, cluster (a number that linked cases share, see
    :func:`clusters_of`), cluster_by_name (the cluster if cases of the same name are the same task),
    condition, size and absent.

    ``size`` is the number of expected attempts: those in the frame, and the planned repeats that
    are missing. A repeat counts as planned for all cases of a skill under a condition if at least
    two of these cases, and at least a tenth of them, have it.

    ``absent`` is True in rows that were added. A row is added if a case has rows under only one of
    baseline and skill, and other cases have rows under the other condition. Normally the other
    cases may be of any skill. If a column of ``by``, except the agent, differs within a case, they
    must have the same skill and the same values in ``by``.
    """
    names = list(dict.fromkeys([*by, *CASE, "cluster", "cluster_by_name", "condition"]))
    cluster, by_name = both_clusters(frame, None, column)
    keyed = frame.assign(cluster=cluster, cluster_by_name=by_name)[names].reset_index(drop=True)
    code, first = group_codes(keyed, [name for name in names if not name.startswith("cluster")])
    table = keyed.take(first).reset_index(drop=True)
    n_lacking = _absent_repeats(table, by, code, frame["repeat"])
    table = table.assign(size=np.bincount(code) + n_lacking, absent=False)
    sides = table[table["condition"].isin(list(_OTHER_SIDE))]
    alone = sides[~sides.duplicated([*by, *CASE], keep=False)]
    if alone.empty:
        return table, code
    absent = alone.drop(columns="size").assign(
        condition=alone["condition"].map(_OTHER_SIDE).astype("str"), absent=True
    )
    keys = list(dict.fromkeys([*by, "skill", "condition"]))
    planned = grouped(sides, keys)["size"].agg(_planned_size).reset_index()
    absent = absent.merge(planned, on=keys, how="left")
    facts = [name for name in by if name not in ("skill", "agent")]
    if not facts or grouped(table, CASE)[facts].nunique(dropna=False).le(1).all(axis=None):
        anywhere = grouped(sides, ["condition"])["size"].agg(_planned_size)
        absent["size"] = absent["size"].fillna(absent["condition"].map(anywhere))
    absent = absent[absent["size"].notna()].astype({"size": table["size"].dtype})
    return pd.concat([table, absent], ignore_index=True), code


def refuse_ids_as_repeats(attempts: pd.DataFrame) -> None:
    """Raise FrameError if the repeats of the attempts look like ids of attempts."""
    code, first = group_codes(attempts, ["agent", *CASE, "condition"])
    _absent_repeats(attempts.take(first), ["agent"], code, attempts["repeat"])


def _planned_size(sizes: pd.Series) -> int:
    least = max(_PLANNED_CASES, math.ceil(_PLANNED_SHARE * len(sizes) - 1e-9))
    return int(np.sort(sizes.to_numpy())[-min(least, len(sizes))])


def _absent_repeats(table: pd.DataFrame, by: Sequence[str], code: Ints, repeat: pd.Series) -> Ints:
    group = group_codes(table, list(dict.fromkeys([*by, "skill", "condition"])))[0]
    number, numbers = pd.factorize(repeat)
    numbered, k = number >= 0, max(len(numbers), 1)
    own = pd.unique(code[numbered] * k + number[numbered])
    every, n_cases = np.unique(group[own // k] * k + own % k, return_counts=True)
    n_groups = int(group.max(initial=-1)) + 1
    several = np.bincount(group, minlength=n_groups)[every // k] >= _SEVERAL_CASES
    shared = n_cases[several] > 1
    if len(shared) >= _FEWEST_IDS and shared.mean() < _SHARED_REPEATS:
        raise FrameError(
            f"repeat: {len(shared)} values, nearly all of a single case, such as "
            f"{show(repeat)}; a repeat counts the attempts at a case (1, 2, 3). These look like "
            "ids of attempts: name their column as attempt= of from_frame, not as repeat=."
        )
    # if only few cases have a repeat, it was not planned for all: these few were tried more often
    least = np.maximum(_PLANNED_CASES, _PLANNED_SHARE * np.bincount(group, minlength=n_groups))
    planned = every[n_cases >= least[every // k] - 1e-9]
    n_planned = np.bincount(planned // k, minlength=n_groups)[group]
    made = own[np.isin(group[own // k] * k + own % k, planned)]
    return np.asarray(n_planned - np.bincount(made // k, minlength=len(table)), dtype=np.int64)


MISSING_ATTEMPTS = "attempts missing"  # Start of a note that counts missing attempts.
WEIGHT = "case_weight"  # Name of the column with the case weights in a case table.


def with_weights(table: pd.DataFrame, outcomes: pd.DataFrame, weight: str | None) -> pd.DataFrame:
    """Add the case weights to a case table; ``weight`` is the name of their column in outcomes."""
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
    weights = outcomes[CASE].assign(**{WEIGHT: numbers}).drop_duplicates()
    twice = weights[weights.duplicated(CASE)]
    if len(twice):
        raise FrameError(f"weight=: case '{twice['case_id'].iloc[0]}' has more than one weight.")
    return table.merge(weights, on=CASE, how="left", validate="m:1")


def level_of(table: pd.DataFrame, value: str) -> pd.Series:
    """Return each row's share of attempts passed or, for ``share_passed``, of checks passed."""
    if value == "passed":
        return table["n_passed"] / table["n"].where(table["n"] > 0)
    return table["share"]


Value = Literal["passed", "share_passed"]
ONE_SKILL = "one skill says nothing of skills in general; use cluster='case'"
_OTHER_SIDE = {"baseline": "skill", "skill": "baseline"}
# Repeats are taken for ids of attempts if they have at least ten different values, and fewer than a
# tenth of these values occur in two or more cases. Only skills with at least three cases under a
# condition are examined.
_SEVERAL_CASES = 3
_FEWEST_IDS = 10
_SHARED_REPEATS = 0.1
# A repeat counts as planned for all cases if it occurs in at least this number and this share of
# the cases.
_PLANNED_CASES, _PLANNED_SHARE = 2, 0.1
_NAMED = 3  # A note names at most this many cases.
# Columns in which a table of deltas describes the missing attempts.
MISSING = [
    *("n_missing", "n_attempts", "n_missing_reference", "n_attempts_reference"),
    *("worst_low", "worst_high"),
]
# A note warns if the shares of missing attempts of two conditions differ by at least this much.
UNEQUAL_LOSS = 0.05
# With fewer skills than this, no estimate is about skills in general (STATISTICS, rule 4).
MIN_SKILLS = 5
# For each number of skills, the smallest delta whose interval excludes 0 in nine of ten studies.
# `make validate` computes it for ten cases per skill, three attempts per case, and deltas of skills
# with a standard deviation of 25 points.
AVAILABLE_DELTAS = {
    5: 0.64, 6: 0.51, 7: 0.46, 8: 0.41, 9: 0.38, 10: 0.35, 12: 0.33, 15: 0.29, 20: 0.24, 25: 0.21,
    30: 0.20,
}  # fmt: skip

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class CasePairs:
    """Arrays with one entry per case, for the condition (suffix 1) and the reference (suffix 0).

    ``level0`` and ``level1`` are the shares of attempts that passed or, for the value
    ``share_passed``, the mean shares of checks passed; they are NaN without outcomes. ``n`` counts
    the attempts with an outcome. ``met`` is the number of these attempts that passed or, for
    ``share_passed``, the sum of their shares. ``size`` counts all expected attempts. ``low`` and
    ``high`` bound the sum of the values of the attempts without an outcome. ``absent`` is 1 if the
    case has no row under the condition. ``checks`` is the largest number of checks of an attempt
    (NaN if unknown). ``n_dropped`` counts the cases that were left out because one of the two
    conditions has no outcome. If ``weight`` is None, all cases have the same weight. ``by_name`` is
    the cluster if cases of the same name under several skills are the same task.

    If columns are averaged within the case, a case has one entry per combination of their values.
    ``combination`` is then the number of the combination, and ``case_number`` that of the case.
    ``mixed`` is how mixed the outcomes of a case are (see :class:`skillcomp.stats.bounded.Arm`); it
    is None unless entries were averaged.
    """

    level1: Floats
    met1: Floats
    n1: Floats
    size1: Floats
    low1: Floats
    high1: Floats
    absent1: Floats
    checks1: Floats
    level0: Floats
    met0: Floats
    n0: Floats
    size0: Floats
    low0: Floats
    high0: Floats
    absent0: Floats
    checks0: Floats
    cluster: Ints
    by_name: Ints
    skill: Ints
    case: NDArray[Any]
    case_number: Ints
    combination: Ints
    n_dropped: int
    weight: Floats | None = None
    is_share: bool = False
    mixed1: Floats | None = None
    mixed0: Floats | None = None

    def where(self, keep: Any) -> CasePairs:
        """Return the selected entries; a case without a selected entry counts as dropped."""
        if keep.all():
            return self
        columns = {field.name: getattr(self, field.name) for field in fields(self)}
        n_dropped, is_share = columns.pop("n_dropped"), columns.pop("is_share")
        n_dropped += n_distinct(self.case_number) - n_distinct(self.case_number[keep])
        selected: dict[str, Any] = {k: v if v is None else v[keep] for k, v in columns.items()}
        return CasePairs(**selected, n_dropped=n_dropped, is_share=is_share)

    def entry_weights(self) -> Floats | None:
        """Return the weight of each entry: an equal part of the weight of its case.

        None means that all entries have the same weight.
        """
        if n_distinct(self.case_number) == len(self.case_number):
            return self.weight
        share = 1.0 / np.bincount(self.case_number)[self.case_number]
        return np.asarray(share if self.weight is None else share * self.weight)

    def averaged(self) -> CasePairs:
        """Average the entries of each case, but keep its smallest ``n`` and smallest ``checks``."""
        code, numbers = pd.factorize(self.case_number)
        if len(numbers) == len(code):
            return self
        n, first = np.bincount(code), np.unique(code, return_index=True)[1]
        columns = {field.name: getattr(self, field.name) for field in fields(self)}
        n_dropped, is_share = columns.pop("n_dropped"), columns.pop("is_share")
        means: dict[str, Any] = {
            name: np.bincount(code, values) / n if values.dtype == float else values[first]
            for name, values in columns.items()
            if values is not None
        }
        for name in ("n1", "n0", "checks1", "checks0"):
            means[name] = pd.Series(columns[name]).groupby(code).min().to_numpy()
        for side in "10":
            attempts = None if is_share else columns[f"n{side}"]
            mixed = mixed_of_case(columns[f"level{side}"], attempts)
            means[f"mixed{side}"] = np.bincount(code, mixed) / n
        return CasePairs(**means, n_dropped=n_dropped, is_share=is_share)

    def arms(self, *, with_reference: bool = True) -> tuple[Arm, ...]:
        """Return one arm for the condition and, by default, one for the reference.

        Return no arms if the values are shares and no number of checks is known (see
        :func:`arms_of`).
        """
        sides = [(self.level1, self.n1, self.checks1, 1.0, self.mixed1)]
        if with_reference:
            sides.append((self.level0, self.n0, self.checks0, -1.0, self.mixed0))
        return arms_of(sides, is_share=self.is_share)


def n_distinct(values: Any) -> int:
    """Return the number of distinct values; for short arrays, this is faster than pandas."""
    values = np.asarray(values)
    return len(pd.unique(values) if values.dtype == object else np.unique(values))


def arms_of(sides: Sequence[tuple[Any, ...]], *, is_share: bool) -> tuple[Arm, ...]:
    """Return the arms of a contrast (see :class:`skillcomp.stats.bounded.Arm`), one per side.

    A side is a tuple: rates, attempts, numbers of checks, sign and, if the rates are means over
    agents, how mixed the outcomes are. If the values are shares and a side has no known number of
    checks, the result is empty: nothing then shows whether outcomes are mixed within a case. If
    only some numbers are unknown, the smallest known number of the side replaces them.
    """
    arms = []
    for rates, attempts, checks, sign, *mixed in sides:
        if not is_share:
            arms.append(Arm(rates, attempts, sign, None, *mixed))
            continue
        n_checks = pd.Series(np.asarray(checks, float))
        if n_checks.isna().all():
            return ()
        arms.append(Arm(rates, None, sign, n_checks.fillna(n_checks.min()).to_numpy(), *mixed))
    return tuple(arms)


class Pairing:
    """The pairs of a case table: a case's row under a condition and its row under the reference.

    ``groups`` holds the values of ``by`` for each group, in the order of the table.
    """

    def __init__(
        self,
        table: pd.DataFrame,
        by: Sequence[str],
        reference: str,
        value: str,
        average: Sequence[str] = (),
    ) -> None:
        group, first = group_codes(table, by)
        values = [table[name].array.take(first) for name in by]
        rows = zip(*values, strict=True) if values else ((),) * len(first)
        self.groups: list[dict[str, Any]] = [dict(zip(by, row, strict=True)) for row in rows]
        base = table["condition"].eq(reference).to_numpy()
        case, _ = group_codes(table, [*by, *average, *CASE])
        partner = np.full(int(case.max(initial=-1)) + 1, -1)
        partner[case[base]] = np.flatnonzero(base)
        condition, condition_names = pd.factorize(table["condition"])
        self._names = [str(name) for name in condition_names]
        key = group * len(self._names) + condition
        self._rows = np.argsort(key, kind="stable")
        self._keys = key[self._rows]
        self._conditions: dict[int, list[str]] = {}
        for combination in pd.unique(key).tolist():
            number, code = divmod(combination, len(self._names))
            self._conditions.setdefault(number, []).append(self._names[code])
        self._partner = partner[case]
        self._base, self._group = np.flatnonzero(base), group[base]
        n, met, name = table["n"], table["n_passed"], "passed"
        if value != "passed":
            n, met, name = (
                table["n_shares"],
                table["share"].fillna(0.0) * table["n_shares"],
                "share",
            )
        self._is_share = name == "share"
        bounds = [table[column] for column in (f"{name}_low", f"{name}_high", "absent", "n_checks")]
        columns = (level_of(table, value), met, n, table["size"], *bounds)
        self._values = [column.to_numpy(dtype=np.float64) for column in columns]
        self._case = case_labels(table).to_numpy(dtype=object)
        self._codes = [pd.factorize(table[k])[0] for k in ("cluster", "cluster_by_name", "skill")]
        self._case_number, self._combination = (
            group_codes(table, names)[0] for names in (CASE, average)
        )
        self._weight = table[WEIGHT].to_numpy(dtype=np.float64) if WEIGHT in table else None

    def conditions(self, group: int) -> list[str]:
        """Return the conditions of a group, including the reference, in the order of the table."""
        return self._conditions[group]

    def pairs(self, group: int, condition: str) -> CasePairs:
        """Return the pairs of a group, for one condition, in the order of the table."""
        combination = group * len(self._names) + self._names.index(condition)
        low, high = np.searchsorted(self._keys, np.array([combination, combination + 1]))
        rows = self._rows[low:high]
        there, lone = rows[self._partner[rows] >= 0], self._base[self._group == group]
        base = self._partner[there]
        sides: list[Any] = [values[at] for at in (there, base) for values in self._values]
        case_number = self._case_number[there]
        n_cases = n_distinct(self._case_number[np.concatenate([rows, lone])])
        n_dropped = n_cases - n_distinct(case_number)
        weight = None if self._weight is None else self._weight[there]
        about = (*(codes[there] for codes in self._codes), self._case[there])
        counts = (case_number, self._combination[there], n_dropped, weight)
        return CasePairs(*[*sides, *about, *counts, self._is_share])


def cluster_readings(table: pd.DataFrame, cluster: str = "case") -> list[NDArray[Any]]:
    """Return the clusters of the rows, for two readings of equal case names.

    In the first array, equal names under several skills are different tasks; in the second, they
    are one task. The second array is left out if it has the same clusters as the first.
    """
    columns = (table[name] for name in ("cluster", "cluster_by_name"))
    first, by_name = (claim(table["skill"], column, cluster)[0] for column in columns)
    return [first] if n_distinct(by_name) == n_distinct(first) else [first, by_name]


def covering_means(samples: Sequence[Sample], by_name: Sequence[Any], **how: Any) -> list[Interval]:
    """Return the interval of each sample; it is valid whether or not equal names are one task.

    Cases with the same name under several skills may be different tasks, or one task and so one
    cluster. Both intervals are computed and combined by :func:`covering`. ``by_name`` has the
    clusters of each sample if equal names are one task. ``how`` contains arguments of
    :func:`skillcomp.stats.bounded.bounded_means`.
    """
    intervals = bounded_means(samples, **how)
    twice = [
        at
        for at, (sample, shared) in enumerate(zip(samples, by_name, strict=True))
        if n_distinct(shared) < n_distinct(sample.clusters)
    ]
    others = [samples[at]._replace(clusters=by_name[at]) for at in twice]
    for at, other in zip(twice, bounded_means(others, **how) if others else (), strict=True):
        intervals[at] = covering(intervals[at], other)
    return intervals


def delta_rows(
    sets: Sequence[CasePairs],
    value: str,
    cluster: str,
    ci_level: float,
    average: Sequence[str] = (),
    names: Sequence[tuple[str, str]] | None = None,
    interval: IntervalRule = "adaptive",
) -> list[dict[str, Any]]:
    """Estimate the delta of each set of pairs; return one row of an estimates frame per set.

    ``names`` has the condition and the reference of each set, for the notes. Computing all
    intervals in one call saves time; it does not change them.

    Each row has the columns of :func:`skillcomp.frames.row`, then rate, reference_rate, n_dropped
    and the columns that :data:`MISSING` lists.
    """
    entries = [pairs.where(~np.isnan(pairs.level1 - pairs.level0)) for pairs in sets]
    complete = [pairs.averaged() for pairs in entries]
    claims = [claim(p.skill, p.cluster, cluster, delta=True, rule=interval) for p in complete]
    samples = [
        Sample(pairs.level1 - pairs.level0, label, pairs.weight, pairs.arms())
        for pairs, (label, _) in zip(complete, claims, strict=True)
    ]
    by_name = [claim(pairs.skill, pairs.by_name, cluster)[0] for pairs in complete]
    how: dict[str, Any] = {"quantity": DELTAS, "null": 0.0, "ci_level": ci_level}
    intervals = covering_means(samples, by_name, **how, interval=interval)
    notes = [note for _, note in claims]
    if average:
        means = (average_note(pairs.case_number, pairs.combination, average) for pairs in entries)
        both = zip(means, notes, strict=True)
        notes = [note if note == ONE_SKILL else join_notes(mean, note) for mean, note in both]
    names = names or [("the condition", "the reference")] * len(sets)
    missing = map(_missing_counts, sets, names)
    parts = zip(complete, intervals, notes, missing, strict=True)
    return [_delta_row(f"delta_{value}", *part) for part in parts]


def _missing_counts(pairs: CasePairs, names: tuple[str, str]) -> tuple[dict[str, Any], str]:
    """Return the numbers of missing attempts and the bounds of the delta, and a note on both.

    For the lower bound, the missing attempts of the condition have their lowest possible value (see
    :func:`attempt_bounds`), and those of the reference their highest. The upper bound is the
    reverse. Both are means over the cases that were attempted under both conditions.
    """
    lost, lost_base = pairs.size1 - pairs.n1, pairs.size0 - pairs.n0
    counts: dict[str, Any] = {"n_missing": int(lost.sum()), "n_attempts": int(pairs.size1.sum())}
    counts["n_missing_reference"] = int(lost_base.sum())
    counts["n_attempts_reference"] = int(pairs.size0.sum())
    if not len(pairs.n1):
        return {**counts, "worst_low": np.nan, "worst_high": np.nan}, ""
    low = (pairs.met1 + pairs.low1) / pairs.size1 - (pairs.met0 + pairs.high0) / pairs.size0
    high = (pairs.met1 + pairs.high1) / pairs.size1 - (pairs.met0 + pairs.low0) / pairs.size0
    weights = pairs.entry_weights()
    worst = [float(np.average(delta, weights=weights)) for delta in (low, high)]
    counts |= dict(zip(("worst_low", "worst_high"), worst, strict=True))
    missing, biased = missing_note(list(counts.values())[:4], names)
    if not missing:
        return counts, ""
    parts = [missing]
    for side, absent in (("condition", pairs.absent1), ("reference", pairs.absent0)):
        if absent.any():
            parts.append(f"no row under the {side}: {first_names(pairs.case[absent > 0])}")
    parts.append(f"in the worst case the delta is {worst[0]:+.2f} or {worst[1]:+.2f}")
    return counts, join_notes(*parts, biased)


def missing_note(
    counts: Sequence[float],
    names: Sequence[str] = ("the condition", "the reference"),
    what: str = MISSING_ATTEMPTS,
) -> tuple[str, str]:
    """Return a note that counts missing attempts, and a warning if their shares differ.

    ``counts`` holds two numbers for each condition in ``names``: its missing attempts and all its
    attempts. If a name is empty, the note gives only the numbers.
    """
    sides = [(int(n), int(size)) for n, size in zip(counts[::2], counts[1::2], strict=True)]
    if not any(n for n, _ in sides):
        return "", ""
    texts = [
        f"{n} of {size}{f' under {name}' if name else ''}"
        for (n, size), name in zip(sides, names, strict=True)
    ]
    shares = [n / size for n, size in sides if size]
    unequal = max(shares) - min(shares) >= UNEQUAL_LOSS - 1e-9
    warning = "their shares differ: if they are unlike the others, the delta is biased"
    return f"{what}: {', '.join(texts)}", warning if unequal else ""


def case_labels(table: pd.DataFrame) -> pd.Series:
    """Return a label for each row: case_id or, if skills share a case_id, skill and case_id."""
    names = table["case_id"].astype("str")
    if not table[CASE].drop_duplicates()["case_id"].duplicated().any():
        return names
    return table["skill"].astype("str") + "/" + names


def first_names(names: NDArray[Any]) -> str:
    """Return the number of distinct cases and the labels of the first few, for a note."""
    names = np.unique(names)
    more = ", ..." if len(names) > _NAMED else ""
    return f"{plural(len(names), 'case')} ({', '.join(map(str, names[:_NAMED]))}{more})"


def few_skills(n_skills: int) -> str:
    """Return a note if an estimate about skills in general needs more skills, otherwise ""."""
    if n_skills == 1:
        return ONE_SKILL
    if n_skills < MIN_SKILLS:
        return (
            f"{n_skills} skills are too few to speak of skills in general (at least {MIN_SKILLS})"
        )
    return ""


def claim(
    skill: Any, clusters: Any, cluster: str, *, delta: bool = False, rule: IntervalRule = "adaptive"
) -> tuple[NDArray[Any], str]:
    """Return the cluster of each case, and a note on the cases or skills the estimate is about.

    If ``cluster`` is ``"skill"`` and there are at least five skills, each skill is a cluster;
    otherwise the clusters are ``clusters``. With ``"skill"`` and a single skill the note is
    ``ONE_SKILL``, because an estimate about skills in general is impossible. If each skill is a
    cluster, a delta over up to 30 skills, computed with the adaptive ``rule``, has a note with the
    smallest delta that this number of skills can show (``AVAILABLE_DELTAS``).
    """
    skills, cases = np.asarray(skill), np.asarray(clusters)
    if cluster != "skill" and not delta:
        return cases, ""
    n_skills = n_distinct(skills)
    if cluster != "skill" or not n_skills:
        return cases, f"cases of these {n_skills} skills" if delta and n_skills > 1 else ""
    if few := few_skills(n_skills):
        return cases, few if n_skills == 1 else f"these cases only: {few}"
    if delta and rule == "adaptive" and n_skills <= max(AVAILABLE_DELTAS):
        shown = AVAILABLE_DELTAS[max(n for n in AVAILABLE_DELTAS if n <= n_skills)]
        return skills, (
            f"{n_skills} skills can show {100 * shown:.0f} points in 9 of 10 studies (ten cases of "
            "three attempts each, deltas that differ by 25 points)"
        )
    return skills, ""


def claimed(interval: Interval, note: str, nothing: str, *more: str) -> Interval:
    """Add the note of :func:`claim` to an interval; with ``ONE_SKILL``, the interval becomes NaN.

    If the interval has no cases, its note is the text in ``nothing`` instead. The texts in ``more``
    are added only to an interval with an estimate.
    """
    if not interval.n:
        return replace(interval, note=nothing)
    if note == ONE_SKILL:
        return undefined("", note, ci_level=interval.ci_level, n=interval.n)
    return replace(interval, note=join_notes(interval.note, note, *more))


def _delta_row(
    measure: str,
    pairs: CasePairs,
    interval: Interval,
    note: str,
    missing: tuple[dict[str, Any], str],
) -> dict[str, Any]:
    """Return the row of one set of pairs; ``missing`` is the result of :func:`_missing_counts`."""
    (lost, warning), n_dropped = missing, pairs.n_dropped
    rate, base = (
        float(np.average(level, weights=pairs.weight)) if interval.n else np.nan
        for level in (pairs.level1, pairs.level0)
    )
    nothing = "no case has outcomes in both conditions"
    if n_lost := lost["n_missing"] + lost["n_missing_reference"]:
        nothing += f"; {plural(n_lost, 'attempt')} lack one (no usable verdict)"
    dropped = f"{plural(n_dropped, 'case')} dropped: no outcome in one of the two conditions"
    interval = claimed(interval, note, nothing, dropped if n_dropped else "", warning)
    about = {"n_dropped": n_dropped, "rate": rate, "reference_rate": base, **lost}
    return row(measure, interval, **about)
