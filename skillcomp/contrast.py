"""The contrast engine: weighted sums of arm means in the case, over the cases with all arms.

`within` estimates such a sum, `between` compares it in two groups of cases, such as near and far.

The case table counts the attempts of each case and condition, with missing attempts, worst-case
bounds and weights. An arm is a condition, or a level of another column under a condition. A rate is
a contrast with one arm, a delta has two arms, and an interaction has four.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, Self, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skillcomp.errors import FrameError, literal, plural, suggest
from skillcomp.frames.contracts import AMOUNTS, CASE
from skillcomp.frames.estimates import (
    PLACEBO,
    By,
    group_codes,
    grouped,
    linked_clusters,
    listed,
    n_distinct,
    ordered,
    prepared,
    refuse_different_checks,
    refuse_ids_as_repeats,
    require_columns,
    require_reference,
)
from skillcomp.stats.bounded import (
    DELTAS,
    RATES,
    SHARES,
    Arm,
    IntervalRule,
    Quantity,
    Sample,
    bounded_means,
    mixed_of_case,
    share_mixed,
)
from skillcomp.stats.clusters import FEWEST_ROWS, p_of_rows
from skillcomp.stats.gaps import standardised_gap
from skillcomp.stats.results import Interval, join_notes, undefined

Value = Literal["passed", "share_passed"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MISSING_ATTEMPTS = "attempts missing"  # Start of a note that counts missing attempts.

WEIGHT = "case_weight"  # Name of the column with the case weights in a case table.

# Columns in which a table of deltas describes the missing attempts.
MISSING = [
    *("n_missing", "n_attempts", "n_missing_reference", "n_attempts_reference"),
    *("worst_low", "worst_high"),
]

# A note warns if the shares of missing attempts of two conditions differ by at least this much.
UNEQUAL_LOSS = 0.05

_OTHER_SIDE = {"baseline": "skill", "skill": "baseline"}

# A repeat counts as planned for all cases if it occurs in at least this number and this share of
# the cases.
_PLANNED_CASES, _PLANNED_SHARE = 2, 0.1

_NAMED = 3  # A note names at most this many cases.


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


def case_table(
    outcomes: pd.DataFrame, *, by: By = (), cluster: str = "case", weight: str | None = None
) -> pd.DataFrame:
    """Aggregate checked outcomes to one row per ``by``, case and condition.

    The columns are those of :func:`attempt_cells`, then n (number of attempts with an outcome),
    n_passed, share (mean share of checks passed; NaN if no attempt has a share), n_shares (number
    of attempts with a share) and n_checks (largest number of checks of an attempt; NaN if no
    number is known). ``passed_low`` and ``passed_high`` bound the number of passes
    among the attempts without an outcome. ``share_low`` and ``share_high`` bound the sum of the
    shares of the attempts without a share.
    """
    table, code = attempt_cells(outcomes, listed(by), cluster)

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
    table = table.assign(
        n_checks=n_checks,
        n=totals(has_outcome).astype(np.int64),
        n_passed=totals(passed.to_numpy(dtype=bool, na_value=False)),
        share=np.divide(sums, n_shares, out=np.full(len(sums), np.nan), where=n_shares > 0),
        n_shares=n_shares,
        **bounds,
    )
    return with_weights(table, outcomes, weight)


def level_table(
    frame: pd.DataFrame, values: pd.Series, *, by: Sequence[str], cluster: str = "case"
) -> pd.DataFrame:
    """Average values of attempts, such as seconds, to one row per ``by``, case and condition.

    The columns are those of :func:`attempt_cells`, then ``_level``, ``_n`` and ``_size``, see
    :meth:`Units.of`.
    """
    table, code = attempt_cells(frame, by, cluster)
    sums, n = (
        np.bincount(code, weights=weights, minlength=len(table))
        for weights in (values.fillna(0.0), values.notna())
    )
    level = np.where(n > 0, sums / np.maximum(n, 1), np.nan)
    return table.assign(_level=level, _n=n, _size=table["size"])


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
    frame: pd.DataFrame, by: Sequence[str], cluster: str = "case"
) -> tuple[pd.DataFrame, Ints]:
    """Return a table with one row per cell, and the cell of each row of the frame.

    A cell is a combination of ``by``, case and condition; its number is the position of its row in
    the table. Columns: ``by``, skill, case_id, cluster (see :func:`linked_clusters`), condition,
    size and absent.

    ``size`` is the number of expected attempts: those in the frame, and the planned repeats that
    are missing. A repeat counts as planned for all cases of a skill under a condition if at least
    two of these cases, and at least a tenth of them, have it.

    ``absent`` is True in rows that were added. A row is added if a case has rows under only one of
    baseline and skill, and other cases have rows under the other condition. Normally the other
    cases may be of any skill. If a column of ``by``, except the agent, differs within a case, they
    must have the same skill and the same values in ``by``.
    """
    names = list(dict.fromkeys([*by, *CASE, "cluster", "condition"]))
    linked = linked_clusters(frame, None, by, cluster)
    keyed = frame.assign(cluster=linked)[names].reset_index(drop=True)
    code, first = group_codes(keyed, [name for name in names if name != "cluster"])
    table = keyed.take(first).reset_index(drop=True)
    refuse_ids_as_repeats(frame, by)
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
    # if only few cases have a repeat, it was not planned for all: these few were tried more often
    least = np.maximum(_PLANNED_CASES, _PLANNED_SHARE * np.bincount(group, minlength=n_groups))
    planned = every[n_cases >= least[every // k] - 1e-9]
    n_planned = np.bincount(planned // k, minlength=n_groups)[group]
    made = own[np.isin(group[own // k] * k + own % k, planned)]
    return np.asarray(n_planned - np.bincount(made // k, minlength=len(table)), dtype=np.int64)


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


def average_note(case: Ints, combination: Ints, average: Sequence[str]) -> str:
    """Return a note on averaging within cases; it counts the cases that lack some of the values.

    ``case`` and ``combination`` have one number per entry: its case, and its combination of values
    in ``average``. The note is empty if there is only one combination.
    """
    n_values, counts = len(pd.unique(combination)), np.bincount(case)
    n_short = int((counts[counts > 0] < n_values).sum())
    short = f"; {plural(n_short, 'case')} without some of them" if n_short else ""
    if n_values < 2:
        return ""
    several = f"{n_values} {average[0]}s"
    if len(average) > 1:
        several = f"{n_values} combinations of {' and '.join(average)}"
    return f"averaged over {several} within each case{short}"


ONE_SKILL = "one skill says nothing of skills in general; use cluster='case'"

# With fewer skills than this, no estimate is about skills in general (STATISTICS, rule 4).
MIN_SKILLS = 5

# For each number of skills, the smallest delta whose interval excludes 0 in nine of ten studies.
# `make validate` computes it for ten cases per skill, three attempts per case, and deltas of skills
# with a standard deviation of 25 points.
AVAILABLE_DELTAS = {
    5: 0.64, 6: 0.51, 7: 0.46, 8: 0.41, 9: 0.38, 10: 0.35, 12: 0.33, 15: 0.29, 20: 0.24, 25: 0.21,
    30: 0.20,
}  # fmt: skip


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
    cases = np.asarray(clusters)
    if cluster != "skill" and not delta:
        return cases, ""
    skills = np.asarray(skill)
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
    if note == ONE_SKILL:
        return undefined("", note, ci_level=interval.ci_level, n=interval.n)
    if not interval.n:
        return replace(interval, note=nothing)
    return replace(interval, note=join_notes(interval.note, note, *more))


def sample_of_checks(items: pd.DataFrame, arms: Mapping[str, float]) -> Sample:
    """Return the mean over items of a weighted sum of columns; a unit is a check of a case.

    A unit has the weight of its items. If several agents or runs answer a case, the number of
    attempts of a unit is that of the agent or run with the fewest, so that copies of an agent do
    not narrow the interval. ``arms`` has the weights of the columns. ``_check`` and ``_source`` are
    codes of the check, and of check, agent and run.
    """
    check, first = group_codes(items, ["_check"])
    source, first_of_source = group_codes(items, ["_source"])
    check_of_source = check[first_of_source]
    n, n_of_source = np.bincount(check), np.bincount(source)
    attempts = np.full(len(n), np.inf)
    np.minimum.at(attempts, check_of_source, n_of_source)
    sides = []
    for name, weight in arms.items():
        mixed = mixed_of_case(np.bincount(source, items[name]) / n_of_source, n_of_source)
        mixed = np.bincount(check_of_source, mixed) / np.bincount(check_of_source)
        sides.append(Arm(np.bincount(check, items[name]) / n, attempts, weight, None, mixed))
    return Sample.of_arms(*sides, clusters=items["cluster"].to_numpy()[first], weights=n)


Facts = dict[str, NDArray[Any]]
ArmKey = tuple[Any, ...]  # The values of the arm columns, such as ("skill",).
# Numbers of a unit in an arm: mean value; how mixed the outcomes are; smallest number of attempts
# and of checks among the rows that were averaged; attempts with a value; expected attempts; bounds
# of the mean value, whatever the missing attempts would have shown; 1 if there is no row; place of
# the row in the table.
_NUMBERS = ("level", "mixed", "fewest", "n_checks", "n", "size", "low", "high", "absent", "row")
# In a table their names begin with an underscore, because a column of `by` may be called level.
_MEANS, _SUMS = ("_level", "_mixed", "_low", "_high"), ("_n", "_size")
_LEAST = ("_fewest", "_n_checks")


@dataclass(frozen=True)
class Contrast:
    """A weighted sum of arms in one group.

    Attributes
    ----------
    about : dict
        The columns that identify the row of the result.
    group : int
        Number of the group, see :attr:`Units.groups`.
    weights : dict of tuple to float
        The weight of each arm.
    sides : tuple of str
        Names of the sides, for notes. Missing attempts are counted by side, and arm j belongs to
        side j modulo the number of sides.
    nothing : str
        Note of a contrast without complete units.
    note : str
        A further note.
    """

    about: dict[str, Any]
    group: int
    weights: Mapping[ArmKey, float]
    sides: tuple[str, ...] = ("",)
    nothing: str = "no case has an outcome in every compared cell"
    note: str = ""


@dataclass(frozen=True)
class Estimate:
    """The result of a contrast.

    Attributes
    ----------
    interval : Interval
        Estimate and limits, with all notes.
    levels : list of float
        Mean value of each arm over the complete units.
    n_dropped : int
        Number of cases with rows in an arm, but without a value in one of the arms.
    missing : list of int
        Numbers of missing attempts and of expected attempts, side by side.
    worst : list of float
        The lowest and the highest value of the contrast, whatever the missing attempts would have
        shown, over the units with rows in all arms.
    """

    interval: Interval
    levels: list[float]
    n_dropped: int
    missing: list[int]
    worst: list[float]


@dataclass(frozen=True)
class Units:
    """The units of a table and their numbers in each arm.

    A unit is a case in a group or, if columns are averaged, a case with one combination of their
    values. Units are sorted by group.

    Attributes
    ----------
    facts : dict of str to ndarray
        One entry per unit: numbers of its case, of its skill and of its combination of averaged
        values, cluster, label and, if cases are weighted, the weight.
    groups : list of dict
        The values of ``by`` in each group.
    arms : list of tuple
        The arms, in the order in which they first appear.
    numbers : dict of str to ndarray, shape (units, arms)
        One array for each name in ``_NUMBERS``; NaN if the unit has no row in the arm.
    start : ndarray of int
        Position of the first unit of each group, and the number of units.
    average : list of str
        Columns that are averaged within the case.
    is_share : bool
        Whether values are shares of checks rather than passes.
    """

    facts: Facts
    groups: list[dict[str, Any]]
    arms: list[ArmKey]
    numbers: dict[str, Floats]
    start: Ints
    average: list[str]
    is_share: bool

    @classmethod
    def of(
        cls,
        table: pd.DataFrame,
        by: Sequence[str],
        *,
        arm: Sequence[str] = ("condition",),
        unit: Sequence[str] = CASE,
        value: str = "passed",
        average: Sequence[str] = (),
        nested: Sequence[str] = (),
        facts: Sequence[str] = (),
    ) -> Units:
        """Arrange a case table as units and arms.

        Parameters
        ----------
        table : pandas.DataFrame
            Result of :func:`skillcomp.contrast.case_table`.
        by, average : sequence of str
            Columns that group the rows, and columns to average within each case.
        arm : sequence of str
            Columns that tell the arms apart.
        unit : sequence of str
            Columns that identify a unit in its group, such as case and check.
        value : {"passed", "share_passed", "level"}
            The value of an attempt. With ``"level"``, the table has a column ``_level`` with the
            value of the unit in the arm and, if known, ``_n``, ``_size``, ``_low`` and ``_high``.
        nested : sequence of str
            Columns that are averaged within the arm, such as the agents of a family. An arm has a
            value only if each combination of their values that the arm's level has, has one.
        facts : sequence of str
            Columns with one value in each unit that become facts of the units.
        """
        table = _with_numbers(table, value)
        if nested:
            table = _averaged_within_arms(table, by, arm, nested)
        group, first_of_group = group_codes(table, by)
        place_of_row, first_of_unit = group_codes(table, [*by, *average, *unit])
        of_arm, first_of_arm = group_codes(table, arm)
        order = np.argsort(group[first_of_unit], kind="stable")
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        first_of_unit = first_of_unit[order]
        numbers = {}
        for name in _NUMBERS:
            numbers[name] = np.full((len(order), len(first_of_arm)), np.nan)
            numbers[name][place[place_of_row], of_arm] = table[f"_{name}"].to_numpy(
                dtype=np.float64
            )
        rows = table.take(first_of_unit)
        about: Facts = {"label": case_labels(rows).to_numpy(dtype=object)}
        for name in ("cluster", WEIGHT, *facts):
            if name in rows:
                about[name] = rows[name].to_numpy()
        for name, columns in (("case", unit), ("skill", ["skill"]), ("combination", average)):
            about[name] = group_codes(rows, columns)[0]
        return cls(
            facts=about,
            groups=_records(table, by, first_of_group),
            arms=[tuple(row.values()) for row in _records(table, arm, first_of_arm)],
            numbers=numbers,
            start=np.searchsorted(group[first_of_unit], np.arange(len(first_of_group) + 1)),
            average=list(average),
            is_share=value != "passed",
        )

    def arms_of_group(self, group: int) -> list[ArmKey]:
        """Return the arms in which the group has rows, in the order of `arms`."""
        sizes = self.numbers["size"][self.start[group] : self.start[group + 1]]
        return [self.arms[j] for j in np.flatnonzero(~np.isnan(sizes).all(axis=0))]

    def cases_of_group(self, group: int) -> Any:
        """Return the number of the case of each unit of a group."""
        return self.facts["case"][self.start[group] : self.start[group + 1]]

    def labels_only_in(self, group: int, arm: ArmKey, other: ArmKey) -> Any:
        """Return the labels of the units of a group with a row in one arm and none in the other."""
        rows = slice(self.start[group], self.start[group + 1])
        sizes = self.numbers["size"][rows]
        has_row, has_other = (~np.isnan(sizes[:, self.arms.index(key)]) for key in (arm, other))
        return self.facts["label"][rows][has_row & ~has_other]

    def part(self, contrast: Contrast) -> _Part:
        """Return the units of a contrast that have a row in one of its arms."""
        at = [self.arms.index(key) if key in self.arms else -1 for key in contrast.weights]
        rows = slice(self.start[contrast.group], self.start[contrast.group + 1])
        numbers = {}
        for name, values in self.numbers.items():
            numbers[name] = values[rows][:, at]
            numbers[name][:, np.array(at) < 0] = np.nan
        # in the order of the rows of the first arm, so that sums do not depend on the other arms
        order = np.argsort(numbers["row"][:, 0], kind="stable")
        present = order[~np.isnan(numbers["row"][order]).all(axis=1)]
        return _Part(
            facts=_rows_of(_rows_of(self.facts, rows), present),
            numbers=_rows_of(numbers, present),
            weights=np.array(list(contrast.weights.values())),
            average=self.average,
        )

    def filled(self, weights: Mapping[ArmKey, float]) -> Units:
        """Return the units with values for the missing attempts that lower the contrast most."""
        numbers = {name: values.copy() for name, values in self.numbers.items()}
        for key, weight in weights.items():
            if key in self.arms:
                j = self.arms.index(key)
                level = self.numbers["low" if weight > 0 else "high"][:, j]
                size = self.numbers["size"][:, j]
                numbers["level"][:, j] = level
                numbers["n"][:, j] = numbers["fewest"][:, j] = size
                numbers["mixed"][:, j] = mixed_of_case(level, None if self.is_share else size)
        return replace(self, numbers=numbers)


def contrasts_with(units: Units, reference: str) -> list[Contrast]:
    """Return the contrast of each group and condition with the reference."""
    return [
        Contrast(
            about=values | {"condition": condition, "reference": reference},
            group=group,
            weights={(condition,): 1.0, (reference,): -1.0},
            sides=(condition, reference),
            nothing="no case has outcomes in both conditions",
        )
        for group, values in enumerate(units.groups)
        for condition in ordered((key[0] for key in units.arms_of_group(group)), reference)
    ]


def _with_numbers(table: pd.DataFrame, value: str) -> pd.DataFrame:
    """Add the columns of ``_NUMBERS`` to a case table, for one value of its attempts."""
    if value == "level":
        columns = table.columns.union([f"_{name}" for name in _NUMBERS])
        table = table.reindex(columns=columns).reset_index(drop=True)
        return table.assign(_row=table.index.where(table[["_level", "_size"]].notna().any(axis=1)))
    if value == "passed":
        n, total, name = table["n"], table["n_passed"], "passed"
        level = total / n.where(n > 0)
    else:
        n, level, name = table["n_shares"], table["share"], "share"
        total = level.fillna(0.0) * n
    own = {f"_{name}": table[name] for name in ("n_checks", "size", "absent")}
    return table.assign(
        **own,
        _level=level,
        _mixed=mixed_of_case(level, n if value == "passed" else None),
        _fewest=n,
        _n=n,
        _row=np.arange(len(table)),
        _low=(total + table[f"{name}_low"]) / table["size"],
        _high=(total + table[f"{name}_high"]) / table["size"],
    )


def _averaged_within_arms(
    table: pd.DataFrame, by: Sequence[str], arm: Sequence[str], nested: Sequence[str]
) -> pd.DataFrame:
    """Average the rows of each unit and arm over columns that are nested in the arm's level.

    The level is NaN if one of the nested values (such as an agent of a family) has no level.
    """
    table = table.assign(_member=group_codes(table, nested)[0], _answered=table["_level"].notna())
    levels = [name for name in arm if name != "condition"]
    table["_n_members"] = grouped(table, [*by, *levels])["_member"].transform("nunique")
    keys = list(dict.fromkeys([*by, *CASE, *arm]))
    how = dict.fromkeys(table.columns.difference([*keys, *nested], sort=False), "first")
    how |= dict.fromkeys(_MEANS, "mean") | dict.fromkeys(_LEAST, "min")
    how |= dict.fromkeys([*_SUMS, "_answered"], "sum")
    means: pd.DataFrame = grouped(table, keys).agg(how).reset_index()
    return means.assign(_level=means["_level"].where(means["_answered"].eq(means["_n_members"])))


def _rows_of(arrays: Mapping[str, NDArray[Any]], rows: Any) -> dict[str, Any]:
    return {name: values[rows] for name, values in arrays.items()}


def _records(table: pd.DataFrame, names: Sequence[str], rows: Ints) -> list[dict[str, Any]]:
    columns = [table[name].array.take(rows) for name in names]
    values = zip(*columns, strict=True) if columns else ((),) * len(rows)
    return [dict(zip(names, each, strict=True)) for each in values]


@dataclass(frozen=True)
class _Rows:
    """Units or cases of a contrast; ``numbers`` has one column for each of its arms."""

    facts: Facts
    numbers: dict[str, Floats]
    weights: Floats

    def rows(self, keep: Any) -> Self:
        """Return the selected units or cases."""
        facts, numbers = (_rows_of(arrays, keep) for arrays in (self.facts, self.numbers))
        return replace(self, facts=facts, numbers=numbers)


@dataclass(frozen=True)
class _Part(_Rows):
    """The units of a contrast."""

    average: list[str]

    def means_of_cases(self) -> _Cases:
        """Average the complete units of each case.

        The numbers of attempts and of checks are the smallest of the case, so that copied rows do
        not change an interval.
        """
        complete = self.rows(~np.isnan(self.numbers["level"]).any(axis=1))
        facts, numbers = complete.facts, {name: complete.numbers[name] for name in _NUMBERS[:4]}
        case = pd.factorize(facts["case"])[0]
        first = np.unique(case, return_index=True)[1]
        if len(first) == len(case):
            return _Cases(facts, numbers, self.weights, "")
        note = average_note(case, facts["combination"], self.average)
        for name, values in numbers.items():
            rows = pd.DataFrame(values).groupby(case)
            numbers[name] = (rows.min() if f"_{name}" in _LEAST else rows.mean()).to_numpy()
        return _Cases(_rows_of(facts, first), numbers, self.weights, note)

    def missing(self, sides: Sequence[str]) -> tuple[list[int], list[float], str]:
        """Return the counts of missing attempts, the bounds of the contrast, and a note on both.

        Only units with expected attempts in all arms count. For the lower bound, the missing
        attempts of an arm with a positive weight have their lowest value, and those of other arms
        their highest.
        """
        both = self.rows(~np.isnan(self.numbers["size"]).any(axis=1))
        numbers, size, n_sides = both.numbers, both.numbers["size"], len(sides)
        lost = size - numbers["n"]
        counts = []
        for j in range(n_sides):
            counts += [int(lost[:, j::n_sides].sum()), int(size[:, j::n_sides].sum())]
        worst = [np.nan, np.nan]
        low, high = numbers["low"], numbers["high"]
        bounded = ~np.isnan(low).any(axis=1)
        if bounded.any():
            ends = np.where(self.weights > 0, low, high), np.where(self.weights > 0, high, low)
            heavy = _weights_of_units(_rows_of(both.facts, bounded))
            worst = [float(np.average(end[bounded] @ self.weights, weights=heavy)) for end in ends]
        note, biased = missing_note(counts, sides)
        if not note:
            return counts, worst, ""
        parts = [note]
        if n_sides == len(self.weights) == 2:
            for j, side in enumerate(("condition", "reference")):
                absent = numbers["absent"][:, j] > 0
                if absent.any():
                    names = first_names(both.facts["label"][absent])
                    parts.append(f"no row under the {side}: {names}")
        sign, noun = ("", "rate") if len(self.weights) == 1 else ("+", "delta")
        noun = noun if len(self.weights) <= 2 else "estimate"
        parts.append(
            f"in the worst case the {noun} is {worst[0]:{sign}.2f} or {worst[1]:{sign}.2f}"
        )
        return counts, worst, join_notes(*parts, biased)


def _weights_of_units(facts: Facts) -> Floats | None:
    """Return an equal part of the weight of its case for each unit; None for equal weights."""
    heavy, case = facts.get(WEIGHT), facts["case"]
    code, n_units = np.unique(case, return_inverse=True, return_counts=True)[1:]
    counts = n_units[code]
    if (counts == 1).all():
        return heavy
    return 1.0 / counts if heavy is None else heavy / counts


@dataclass(frozen=True)
class _Cases(_Rows):
    """The complete cases of a contrast."""

    note: str

    @property
    def n(self) -> int:
        """The number of cases."""
        return len(self.facts["case"])

    def sample(self, clusters: Any, *, is_share: bool) -> Sample:
        """Return the weighted sums of the arms, with the levels from which they are computed."""
        level = self.numbers["level"]
        arms = arms_of(
            [
                (level[:, j], self.numbers["fewest"][:, j], self.numbers["n_checks"][:, j], weight,
                 self.numbers["mixed"][:, j])
                for j, weight in enumerate(self.weights)
            ],
            is_share=is_share,
        )  # fmt: skip
        values = np.sum([w * level[:, j] for j, w in enumerate(self.weights)], axis=0)
        return Sample(values, clusters, self.facts.get(WEIGHT), arms)

    def levels(self) -> list[float]:
        """Return the mean level of each arm; NaN without cases."""
        if not self.n:
            return [np.nan] * len(self.weights)
        heavy = self.facts.get(WEIGHT)
        return [float(np.average(level, weights=heavy)) for level in self.numbers["level"].T]


def within(
    units: Units,
    contrasts: Sequence[Contrast],
    *,
    cluster: str = "case",
    ci_level: float = 0.95,
    interval: IntervalRule = "adaptive",
    null: float = 0.0,
    notes: bool = True,
) -> list[Estimate]:
    """Estimate contrasts of arms within the unit, over the units that have all arms.

    Parameters
    ----------
    units : Units
        The units and their numbers in each arm.
    contrasts : sequence of Contrast
        The contrasts. All have the same number of arms or bounds of their own: a quantity is
        between minus and plus half the sum of the absolute weights; with one arm, between 0 and 1.
    cluster : str
        ``"case"``, ``"skill"`` or a column, see :func:`skillcomp.deltas.paired`.
    ci_level, interval
        Level and rule of the intervals. All intervals are computed in one call, which saves time
        and does not change them.
    null : float
        The value that p-values test. If it is 0, contrasts of one arm have no p-value.
    notes : bool
        Whether the notes state what the interval is about, and what is missing. An analysis with
        notes of its own sets it to False.

    Returns
    -------
    list of Estimate
        One estimate for each contrast.

    Notes
    -----
    Repeats are averaged within the unit, and averaged columns within the case. A case without a
    value in one of the arms is dropped. The interval is that of
    :func:`skillcomp.stats.bounded.bounded_mean` for the contrasts of the cases. The p-value of a
    contrast of several arms is that of :func:`skillcomp.stats.clusters.p_of_rows`, whose
    variance is shared by the contrasts of this call, or by those of a placebo. Without a standard
    error, and for a ``null`` other than 0, it is that of the interval.
    """
    parts = [units.part(contrast) for contrast in contrasts]
    cases = [part.means_of_cases() for part in parts]
    samples, claims, families = [], [], []
    for contrast, part, each in zip(contrasts, parts, cases, strict=True):
        skill, label = each.facts["skill"], each.facts["cluster"]
        # what a number of skills can show is known for deltas alone, with the adaptive rule
        rule: IntervalRule = interval if _span(part.weights) == 1.0 else "bounded"
        labels, note = claim(skill, label, cluster, delta=len(part.weights) > 1, rule=rule)
        samples.append(each.sample(labels, is_share=units.is_share))
        claims.append(note)
        families.append((_span(part.weights), contrast.about.get("condition") == PLACEBO))
    how: dict[str, Any] = {"ci_level": ci_level, "interval": interval}
    intervals: dict[int, Interval] = {}
    for family in dict.fromkeys(families):
        at, span = [i for i, each in enumerate(families) if each == family], family[0]
        rows = [samples[i] for i in at]
        quantity = _quantity(span, is_share=units.is_share)
        tested = None if span is None and not null else null
        means = bounded_means(rows, quantity=quantity, null=tested, **how)
        if span is not None and not null:
            means = _with_p_of_rows(means, rows, span)
        intervals |= dict(zip(at, means, strict=True))
    return [
        _estimate(contrast, part, each, intervals[i], claims[i] if notes else None)
        for i, (contrast, part, each) in enumerate(zip(contrasts, parts, cases, strict=True))
    ]


def _with_p_of_rows(means: list[Interval], samples: list[Sample], span: float) -> list[Interval]:
    """Replace the p-values of intervals by those of a t test with a shared variance."""
    estimate, se, df = np.array([[mean.estimate, mean.se, mean.df] for mean in means]).T
    p_values = p_of_rows(estimate / span, se / span, df, [share_mixed(each) for each in samples])
    n = int(np.isfinite(p_values).sum())
    label = f"CR2 t, variance shared by {n} rows" if n >= FEWEST_ROWS else "CR2 t"
    return [
        replace(mean, p_value=p_value, method=f"{mean.method}; p: {label}")
        if math.isfinite(p_value) and not math.isclose(p_value, mean.p_value, rel_tol=1e-6)
        else mean
        for mean, p_value in zip(means, p_values.tolist(), strict=True)
    ]


def _span(weights: Floats) -> float | None:
    """Return half the sum of the absolute weights, the largest contrast; None for one arm."""
    return None if len(weights) == 1 else 0.5 * float(np.abs(weights).sum())


def _quantity(span: float | None, *, is_share: bool) -> Quantity:
    if span is None:
        return SHARES if is_share else RATES
    return Quantity(span * DELTAS.low, span * DELTAS.high, DELTAS.c)


def _estimate(
    contrast: Contrast, part: _Part, cases: _Cases, interval: Interval, note: str | None
) -> Estimate:
    counts, worst, lost = part.missing(contrast.sides)
    n_dropped = n_distinct(part.facts["case"]) - cases.n
    if note is not None:
        dropped, nothing = "", contrast.nothing
        if len(part.weights) > 1:
            where = "two conditions" if len(part.weights) == 2 else "compared cells"
            if n_dropped:
                dropped = f"{plural(n_dropped, 'case')} dropped: no outcome in one of the {where}"
            if n_lost := sum(counts[::2]):
                nothing += f"; {plural(n_lost, 'attempt')} lack one (no usable verdict)"
        if note != ONE_SKILL:
            note = join_notes(cases.note, note)
        interval = claimed(interval, note, nothing, contrast.note, dropped, lost)
    return Estimate(interval, cases.levels(), n_dropped, counts, worst)


class Gap(NamedTuple):
    """A contrast in two groups of units, and the difference.

    Attributes
    ----------
    intervals : list of Interval
        Mean of the first group, mean of the second group, and the second mean minus the first.
    sizes : list of int
        Number of compared cases in each group.
    cases : _Cases
        The compared cases; the fact ``stratum`` has the number of their stratum.
    part : _Part
        All units of the contrast.
    n_dropped : int
        Number of cases with rows in an arm, but without a value in one of the arms.
    """

    intervals: list[Interval]
    sizes: list[int]
    cases: _Cases
    part: _Part
    n_dropped: int


def between(
    units: Units,
    contrast: Contrast,
    column: str,
    values: tuple[Any, Any],
    *,
    strata: Sequence[str] = (),
    least: int = 1,
    ci_level: float = 0.95,
    interval: IntervalRule = "adaptive",
) -> Gap:
    """Compare a contrast of arms between two groups of units, standardised over strata.

    Parameters
    ----------
    units : Units
        The units and their numbers in each arm.
    contrast : Contrast
        The weights of the arms.
    column : str
        The fact of the units that tells the groups apart.
    values : tuple
        Its value in the first group and in the second group.
    strata : sequence of str
        Facts of the units that form the strata. A stratum counts if it has cases of both groups.
        Without names, all units are one stratum.
    least : int
        With fewer cases than this in one of the groups, the intervals are NaN.
    ci_level, interval
        Level and rule of the intervals.

    Returns
    -------
    Gap
        The intervals and the cases that they compare.

    Notes
    -----
    The means and the gap are those of :func:`skillcomp.stats.gaps.standardised_gap`. A cluster may
    have cases of both groups. The adaptive rule computes how mixed the outcomes of a case are from
    its mean level, also if this is an average over agents or graders.
    """
    part = units.part(contrast)
    cases = part.means_of_cases()
    n_dropped = n_distinct(part.facts["case"]) - cases.n
    facts = pd.DataFrame({name: cases.facts[name] for name in dict.fromkeys([column, *strata])})
    cases = cases.rows(facts.notna().all(axis=1).to_numpy())
    facts = facts.dropna()
    cases.facts["stratum"], _ = group_codes(facts, strata)
    if strata:
        groups = facts[column].groupby(cases.facts["stratum"])
        cases = cases.rows(groups.transform("nunique").eq(2).to_numpy())
    second = cases.facts[column] == values[1]
    sizes = [int((~second).sum()), int(second.sum())]
    if min(sizes) < least:
        counts = (*sizes, sum(sizes))
        nothing = [undefined("", "", ci_level=ci_level, n=float(n)) for n in counts]
        return Gap(nothing, sizes, cases, part, n_dropped)
    how: dict[str, Any] = {"ci_level": ci_level, "interval": interval}
    how["quantity"] = _quantity(_span(part.weights), is_share=units.is_share)
    sample = cases.sample(cases.facts["cluster"], is_share=units.is_share)
    how["arms"] = [replace(arm, mixed=None) for arm in sample.arms]
    stratum = cases.facts["stratum"]
    intervals = standardised_gap(sample.values, second, stratum, sample.clusters, **how)
    return Gap(list(intervals), sizes, cases, part, n_dropped)


__all__ = [
    *("Contrast", "Estimate", "Gap", "Units", "between", "case_table", "contrasts_with"),
    *("level_table", "within"),
]


def __dir__() -> list[str]:
    return __all__
