"""Contrasts within the unit: a weighted sum of arm means, over the units that have all arms.

The unit is the case. An arm is a condition, or a level of another column under a condition. A rate
is a contrast with one arm, a delta has two arms, and an interaction has four.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from skillcomp.contrast.case_table import (
    WEIGHT,
    Bools,
    Floats,
    Ints,
    arms_of,
    average_note,
    case_labels,
    first_names,
    missing_note,
)
from skillcomp.contrast.claims import ONE_SKILL, claim, claimed, covering_means
from skillcomp.errors import plural
from skillcomp.frames.contracts import CASE
from skillcomp.frames.estimates import group_codes, grouped
from skillcomp.stats.bounded import (
    DELTAS,
    RATES,
    SHARES,
    IntervalRule,
    Quantity,
    Sample,
    mixed_of_case,
)
from skillcomp.stats.results import Interval, join_notes

ArmKey = tuple[Any, ...]  # The values of the arm columns, such as ("skill",).
# Numbers of a unit in an arm: mean value; how mixed the outcomes are; smallest number of attempts
# and of checks among the rows that were averaged; attempts with a value; expected attempts; bounds
# of the mean value, whatever the missing attempts would have shown; 1 if there is no row.
_NUMBERS = ("level", "mixed", "fewest", "n_checks", "n", "size", "low", "high", "absent")
_MEANS, _LEAST, _SUMS = ("level", "mixed", "low", "high"), ("fewest", "n_checks"), ("n", "size")


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
    facts : pandas.DataFrame
        One row per unit: skill, case_id, cluster, cluster_by_name, averaged columns, weight.
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

    facts: pd.DataFrame
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
        value: str = "passed",
        average: Sequence[str] = (),
        nested: Sequence[str] = (),
    ) -> Units:
        """Arrange a case table as units and arms.

        Parameters
        ----------
        table : pandas.DataFrame
            Result of :func:`skillcomp.contrast.case_table.case_table`.
        by, average : sequence of str
            Columns that group the rows, and columns to average within each case.
        arm : sequence of str
            Columns that tell the arms apart.
        value : {"passed", "share_passed"}
            The value of an attempt.
        nested : sequence of str
            Columns that are averaged within the arm, such as the agents of a family. An arm has a
            value only if each combination of their values that the arm's level has, has one.
        """
        table = _with_numbers(table, value)
        if nested:
            table = _averaged_within_arms(table, by, arm, nested)
        group, first_of_group = group_codes(table, by)
        unit, first_of_unit = group_codes(table, [*by, *average, *CASE])
        of_arm, first_of_arm = group_codes(table, arm)
        order = np.argsort(group[first_of_unit], kind="stable")
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        first_of_unit = first_of_unit[order]
        numbers = {}
        for name in _NUMBERS:
            numbers[name] = np.full((len(order), len(first_of_arm)), np.nan)
            numbers[name][place[unit], of_arm] = table[name].to_numpy(dtype=np.float64)
        names = [*CASE, *average, "cluster", "cluster_by_name"]
        names = list(dict.fromkeys([*names, *([WEIGHT] if WEIGHT in table else [])]))
        facts = table[names].take(first_of_unit).reset_index(drop=True)
        return cls(
            facts=facts.assign(label=case_labels(facts)),
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

    def labels_only_in(self, group: int, arm: ArmKey, other: ArmKey) -> Any:
        """Return the labels of the units of a group with a row in one arm and none in the other."""
        rows = slice(self.start[group], self.start[group + 1])
        sizes = self.numbers["size"][rows]
        has_row, has_other = (~np.isnan(sizes[:, self.arms.index(key)]) for key in (arm, other))
        return self.facts["label"].to_numpy()[rows][has_row & ~has_other]

    def part(self, contrast: Contrast) -> _Part:
        """Return the units of a contrast that have a row in one of its arms."""
        at = [self.arms.index(key) if key in self.arms else -1 for key in contrast.weights]
        rows = slice(self.start[contrast.group], self.start[contrast.group + 1])
        numbers = {}
        for name, values in self.numbers.items():
            numbers[name] = values[rows][:, at]
            numbers[name][:, np.array(at) < 0] = np.nan
        present = (~np.isnan(numbers["absent"])).any(axis=1)
        numbers = {name: values[present] for name, values in numbers.items()}
        return _Part(
            facts=self.facts.iloc[np.arange(rows.start, rows.stop)[present]],
            numbers=numbers,
            weights=np.array(list(contrast.weights.values())),
            average=self.average,
            is_share=self.is_share,
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


def _with_numbers(table: pd.DataFrame, value: str) -> pd.DataFrame:
    """Add the columns of ``_NUMBERS`` to a case table, for one value of its attempts."""
    if value == "passed":
        n, total, name = table["n"], table["n_passed"], "passed"
        level = total / n.where(n > 0)
    else:
        n, level, name = table["n_shares"], table["share"], "share"
        total = level.fillna(0.0) * n
    return table.assign(
        level=level,
        mixed=mixed_of_case(level, n if value == "passed" else None),
        fewest=n,
        n=n,
        low=(total + table[f"{name}_low"]) / table["size"],
        high=(total + table[f"{name}_high"]) / table["size"],
    )


def _averaged_within_arms(
    table: pd.DataFrame, by: Sequence[str], arm: Sequence[str], nested: Sequence[str]
) -> pd.DataFrame:
    """Average the rows of each unit and arm over columns that are nested in the arm's level.

    The level is NaN if one of the nested values (such as an agent of a family) has no level.
    """
    table = table.assign(member=group_codes(table, nested)[0], answered=table["level"].notna())
    levels = [name for name in arm if name != "condition"]
    table["n_members"] = grouped(table, [*by, *levels])["member"].transform("nunique")
    keys = list(dict.fromkeys([*by, *CASE, *arm]))
    how = dict.fromkeys(table.columns.difference([*keys, *nested], sort=False), "first")
    how |= dict.fromkeys(_MEANS, "mean") | dict.fromkeys(_LEAST, "min")
    how |= dict.fromkeys([*_SUMS, "answered"], "sum")
    means: pd.DataFrame = grouped(table, keys).agg(how).reset_index()
    return means.assign(level=means["level"].where(means["answered"].eq(means["n_members"])))


def _records(table: pd.DataFrame, names: Sequence[str], rows: Ints) -> list[dict[str, Any]]:
    columns = [table[name].array.take(rows) for name in names]
    values = zip(*columns, strict=True) if columns else ((),) * len(rows)
    return [dict(zip(names, each, strict=True)) for each in values]


@dataclass(frozen=True)
class _Part:
    """The units of a contrast; ``numbers`` has one column for each of its arms."""

    facts: pd.DataFrame
    numbers: dict[str, Floats]
    weights: Floats
    average: list[str]
    is_share: bool

    @property
    def case(self) -> Ints:
        """The number of the case of each unit."""
        return group_codes(self.facts, CASE)[0]

    @property
    def complete(self) -> Bools:
        """Whether the unit has a value in every arm."""
        return np.asarray(~np.isnan(self.numbers["level"]).any(axis=1))

    def means_of_cases(self) -> _Cases:
        """Average the complete units of each case.

        The numbers of attempts and of checks are the smallest of the case, so that copied rows do
        not change an interval.
        """
        keep = np.flatnonzero(self.complete)
        facts = self.facts.take(keep)
        numbers = {name: self.numbers[name][keep] for name in _NUMBERS[:4]}
        case, first = group_codes(facts, CASE)
        if len(first) == len(case):
            return _Cases(facts, numbers, self.weights, "")
        combined = {}
        for name, values in numbers.items():
            rows = pd.DataFrame(values).groupby(case)
            combined[name] = (rows.min() if name in _LEAST else rows.mean()).to_numpy()
        note = average_note(case, group_codes(facts, self.average)[0], self.average)
        return _Cases(facts.take(first), combined, self.weights, note)

    def missing(self, sides: Sequence[str]) -> tuple[list[int], list[float], str]:
        """Return the counts of missing attempts, the bounds of the contrast, and a note on both.

        Only units with expected attempts in all arms count. For the lower bound, the missing
        attempts of an arm with a positive weight have their lowest value, and those of other arms
        their highest.
        """
        both = ~np.isnan(self.numbers["size"]).any(axis=1)
        numbers = {name: values[both] for name, values in self.numbers.items()}
        size, n_sides = numbers["size"], len(sides)
        lost = size - numbers["n"]
        counts = []
        for j in range(n_sides):
            counts += [int(lost[:, j::n_sides].sum()), int(size[:, j::n_sides].sum())]
        worst = [np.nan, np.nan]
        low, high = numbers["low"], numbers["high"]
        bounded = ~np.isnan(low).any(axis=1)
        if bounded.any():
            known = np.flatnonzero(both)[bounded]
            ends = np.where(self.weights > 0, low, high), np.where(self.weights > 0, high, low)
            heavy = _weights_of_units(self.facts.iloc[known], self.case[known])
            worst = [float(np.average(end[bounded] @ self.weights, weights=heavy)) for end in ends]
        note, biased = missing_note(counts, sides)
        if not note:
            return counts, worst, ""
        parts = [note]
        if n_sides == len(self.weights) == 2:
            for j, side in enumerate(("condition", "reference")):
                absent = numbers["absent"][:, j] > 0
                if absent.any():
                    names = first_names(self.facts["label"].to_numpy()[both][absent])
                    parts.append(f"no row under the {side}: {names}")
        sign, noun = ("", "rate") if len(self.weights) == 1 else ("+", "delta")
        noun = noun if len(self.weights) <= 2 else "estimate"
        parts.append(
            f"in the worst case the {noun} is {worst[0]:{sign}.2f} or {worst[1]:{sign}.2f}"
        )
        return counts, worst, join_notes(*parts, biased)


def _weights_of_units(facts: pd.DataFrame, case: Ints) -> Floats | None:
    """Return an equal part of the weight of its case for each unit; None for equal weights."""
    heavy = facts[WEIGHT].to_numpy(dtype=np.float64) if WEIGHT in facts else None
    counts = np.bincount(case)[case]
    if (counts == 1).all():
        return heavy
    return 1.0 / counts if heavy is None else heavy / counts


@dataclass(frozen=True)
class _Cases:
    """The complete cases of a contrast; ``numbers`` has arrays of cases by arms."""

    facts: pd.DataFrame
    numbers: dict[str, Floats]
    weights: Floats
    note: str

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
        if self.facts.empty:
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

    Returns
    -------
    list of Estimate
        One estimate for each contrast.

    Notes
    -----
    Repeats are averaged within the unit, and averaged columns within the case. A case without a
    value in one of the arms is dropped. The interval is that of
    :func:`skillcomp.stats.bounded.bounded_mean` for the contrasts of the cases.
    """
    parts = [units.part(contrast) for contrast in contrasts]
    cases = [part.means_of_cases() for part in parts]
    samples, by_name, notes = [], [], []
    for part, each in zip(parts, cases, strict=True):
        skill, label, shared = (
            each.facts[name].to_numpy() for name in ("skill", "cluster", "cluster_by_name")
        )
        # what a number of skills can show is known for deltas alone, with the adaptive rule
        rule: IntervalRule = interval if _span(part.weights) == 1.0 else "bounded"
        labels, note = claim(skill, label, cluster, delta=len(part.weights) > 1, rule=rule)
        samples.append(each.sample(labels, is_share=units.is_share))
        by_name.append(claim(skill, shared, cluster)[0])
        notes.append(note)
    how: dict[str, Any] = {"ci_level": ci_level, "interval": interval}
    spans = [_span(part.weights) for part in parts]
    intervals: dict[int, Interval] = {}
    for span in dict.fromkeys(spans):
        at = [i for i, each in enumerate(spans) if each == span]
        quantity = _quantity(span, is_share=units.is_share)
        null = {} if span is None else {"null": 0.0}
        means = covering_means(
            [samples[i] for i in at], [by_name[i] for i in at], quantity=quantity, **null, **how
        )
        intervals |= dict(zip(at, means, strict=True))
    return [
        _estimate(contrast, part, each, intervals[i], notes[i])
        for i, (contrast, part, each) in enumerate(zip(contrasts, parts, cases, strict=True))
    ]


def _span(weights: Floats) -> float | None:
    """Return half the sum of the absolute weights, the largest contrast; None for one arm."""
    return None if len(weights) == 1 else 0.5 * float(np.abs(weights).sum())


def _quantity(span: float | None, *, is_share: bool) -> Quantity:
    if span is None:
        return SHARES if is_share else RATES
    return Quantity(span * DELTAS.low, span * DELTAS.high, DELTAS.c)


def _estimate(
    contrast: Contrast, part: _Part, cases: _Cases, interval: Interval, note: str
) -> Estimate:
    counts, worst, lost = part.missing(contrast.sides)
    n_dropped = len(np.unique(part.case)) - len(cases.facts)
    dropped = ""
    if n_dropped and len(part.weights) > 1:
        where = "two conditions" if len(part.weights) == 2 else "compared cells"
        dropped = f"{plural(n_dropped, 'case')} dropped: no outcome in one of the {where}"
    if note != ONE_SKILL:
        note = join_notes(cases.note, note)
    nothing = contrast.nothing
    n_lost = sum(counts[::2])
    if n_lost and len(part.weights) > 1:
        nothing += f"; {plural(n_lost, 'attempt')} lack one (no usable verdict)"
    interval = claimed(interval, note, nothing, contrast.note, dropped, lost)
    return Estimate(interval, cases.levels(), n_dropped, counts, worst)
