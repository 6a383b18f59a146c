"""Find out why checks of an attempt have no verdict, and which checks all conditions have.

If a check has no row for an attempt, there are three possible reasons. The grader was never asked
about this check under the condition, the grader stopped before the check, or the row was lost. The
other attempts that the same grader version graded show which reason applies.

The code works with arrays of integers that have one entry per row, outcome, cell, pair or slot. A
cell is a case under one condition, graded by one grader version. A pair is a check of a case,
graded by one grader version. A slot is a pair under one condition.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skillcomp.errors import FrameError, plural, require_known
from skillcomp.frames.contracts import CASE
from skillcomp.frames.estimates import DIFFERENT_CHECKS, dense_codes, group_codes
from skillcomp.stats.results import join_notes

# Which checks an analysis counts: all, or only those that are graded under every condition.
Checks = Literal["all", "shared"]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_FEW_CASES = 3  # A check id in fewer cases than this counts as specific to its case.
# An attempt is incomplete if one of its checks has no row. A grader is taken to stop at the first
# fail if two conditions hold. At least the share _ONE_FAIL of the failed incomplete attempts has
# exactly one failed check. Failed attempts are incomplete at least _STOP_RATIO times as often as
# other attempts of the same condition.
_ONE_FAIL = 0.9
_STOP_RATIO = 3.0
# It is certain that a grader stops at the first fail only if at least this many attempts show it.
_MIN_STOPPED = 3
# Conditions are taken to have different checks if more than the share _FEW_LOST of the pairs, and
# at least _MIN_DIFFERENT of them, have rows under one condition and none under another. Otherwise
# the absent rows are taken as lost.
_FEW_LOST = 0.1
_MIN_DIFFERENT = 3
# Largest allowed share of attempts in which the grader stopped after some of the shared checks and
# before others.
_MIXED = 0.01
_SHOWN = 3  # A note names at most this many checks.


@dataclass(frozen=True)
class CheckSets:
    """The checks that count for each outcome.

    ``counted`` has one entry per row: whether its check counts. The other arrays have one entry per
    outcome: ``n_checks``, the number of checks that count; ``stopped``, whether the grader stopped
    at the first fail; ``differ``, whether the grader was asked about different checks under
    different conditions of the case; and ``note``, a text.
    """

    counted: Bools
    n_checks: Ints
    stopped: Bools
    differ: Bools
    note: Any


class _Cells:
    """The cells of a study, their slots, and which of the slots have rows."""

    def __init__(
        self, check: Ints, outcome: Ints, group: Ints, case: Ints, condition: Ints
    ) -> None:
        self.cell, first = dense_codes(group, case, condition)
        self.group, self.condition = group[first], condition[first]
        self.side = dense_codes(self.group, self.condition)[0]
        graded, first_graded = dense_codes(group, case)
        self.graded = graded[first]
        row_pair, first_row = dense_codes(graded[outcome], check)
        self.pair_check, self.pair_group = check[first_row], group[outcome][first_row]
        self.pair_graded = graded[outcome][first_row]
        # number the pairs within each case, to find the place of a slot within its cell
        self.n_pairs = np.bincount(self.pair_graded, minlength=len(first_graded))
        order = np.argsort(self.pair_graded, kind="stable")
        start = np.cumsum(self.n_pairs) - self.n_pairs
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order)) - start[self.pair_graded[order]]
        n_slots = self.n_pairs[self.graded]
        offset = np.cumsum(n_slots) - n_slots
        self.slot_cell = np.repeat(np.arange(len(first)), n_slots)
        place = np.arange(len(self.slot_cell)) - offset[self.slot_cell]
        self.slot_pair = order[start[self.graded][self.slot_cell] + place]
        self.row_slot = offset[self.cell[outcome]] + rank[row_pair]
        self.has_rows = np.bincount(self.row_slot, minlength=len(self.slot_cell)) > 0

    def slots_with(self, outcomes: Bools) -> Bools:
        """Return for each slot whether ``outcomes`` selects an outcome of its cell."""
        cells = np.bincount(self.cell[outcomes], minlength=len(self.group)) > 0
        return np.asarray(cells[self.slot_cell])

    def count_by_pair(self, slots: Bools) -> Ints:
        """Return, for each pair, the number of its slots that are selected by ``slots``."""
        return np.bincount(self.slot_pair[slots], minlength=len(self.pair_check))

    def count_by_outcome(self, slots: Bools) -> Ints:
        """Return, for each outcome, the number of slots of its cell selected by ``slots``."""
        return np.bincount(self.slot_cell[slots], minlength=len(self.group))[self.cell]


@dataclass(frozen=True)
class _Absences:
    """The reasons why slots have no rows.

    - ``never``, one entry per slot: in no case was the grader asked about this check under the
      condition.
    - ``stopped``, per outcome: the grader stopped at the first fail.
    - ``asked``, per slot: there are rows, or the grader stopped before the check.
    - ``differ``, per pair: the grader was asked about the check under only some conditions of the
      case.
    - ``designed``, per pair: ``differ`` is True, and no slot of the pair is True in ``never``.
    - ``stops``, per grader version and round: the grader certainly stops at the first fail, overall
      or under one condition.
    """

    never: Bools
    stopped: Bools
    asked: Bools
    designed: Bools
    differ: Bools
    stops: Bools


def check_sets(
    rows: pd.DataFrame,
    outcome: Ints,
    keys: pd.DataFrame,
    group: Ints,
    *,
    failed: Bools,
    n_listed: Any,
    checks: Checks,
    what: str,
) -> CheckSets:
    """Decide which checks count for each outcome.

    Parameters
    ----------
    rows : pandas.DataFrame
        Checked verdicts.
    outcome : array of int
        The outcome of each row.
    keys : pandas.DataFrame
        One row per outcome: skill, case_id, condition.
    group : array of int
        The grader version and round of each outcome.
    failed : array of bool
        Whether the verdict of a row is a fail.
    n_listed : array of float
        The number of checks that the suite lists for the case of each outcome; 0 if unknown.
    checks : {"all", "shared"}
        Whether to count all checks, or only those that the grader was asked about under every
        condition of the case.
    what : str
        Name of the analysis, the first words of every error message.
    """
    require_known(f"{what}: checks: found", checks, get_args(Checks))
    shared = checks == "shared"
    check, names = pd.factorize(rows["check_id"])
    condition, conditions = pd.factorize(keys["condition"])
    cells = _Cells(check, outcome, group, group_codes(keys, CASE)[0], condition)
    n_rows, n_failed = _count_by_outcome(outcome, failed, len(keys))
    # number of checks of the suite that have no row for the case under any condition
    n_unlisted = np.maximum(n_listed - cells.n_pairs[cells.graded][cells.cell], 0).astype(np.int64)
    absences = _explain_absences(cells, n_unlisted, n_rows, n_failed)
    counts = ~absences.never & (absences.asked | ~absences.designed[cells.slot_pair])
    if shared:
        _refuse_stopping(cells, absences, what)
        counts, n_unlisted = (cells.count_by_pair(~absences.asked) == 0)[cells.slot_pair], 0
    counted = counts[cells.row_slot]
    n_checks = cells.count_by_outcome(counts) + n_unlisted
    n_rows, n_failed = _count_by_outcome(outcome[counted], failed[counted], len(keys))
    stopped = absences.stopped & (n_failed > 0)
    lacking = (n_rows < n_checks) & ~stopped
    if shared:
        _refuse_mixed(absences.stopped & lacking & (n_rows > 0), group, what)
    differ = np.bincount(cells.pair_graded, absences.differ, len(cells.n_pairs)) > 0
    differ = differ[cells.graded][cells.cell] & (not shared)
    place = keys["condition"].to_numpy(dtype=object)
    skill = dense_codes(group, pd.factorize(keys["skill"])[0])[0]
    names_of = keys["skill"].to_numpy(dtype=object) if keys["skill"].nunique() > 1 else None
    note = np.full(len(keys), "", dtype=object)
    texts = {
        "the grader stopped at the first fail in {}, which count as failed": stopped,
        "a check has no row in {}, which have no outcome": lacking & (n_checks > 0),
    }
    for text, which in texts.items():
        _add_note(note, skill, which, partial(_with_counts, text, place, names_of))
    slots = ~absences.asked & (shared | absences.differ[cells.slot_pair])

    def in_words(at: Bools) -> str:
        n_dropped = len(np.unique(cells.graded[cells.cell[at & (n_checks == 0)]]))
        text = _checks_in_words(cells, slots & cells.slots_with(at), names, conditions)
        if not shared:
            return f"{DIFFERENT_CHECKS}{_of_skill(names_of, at)}: {text}"
        dropped = f", and {plural(n_dropped, 'case')} without a shared check" if n_dropped else ""
        return f"left out{_of_skill(names_of, at)}: {text}{dropped}"

    which = differ
    if shared:
        lacking_cells = np.isin(cells.cell, cells.slot_cell[slots])
        which = np.isin(skill, skill[lacking_cells])
    _add_note(note, skill, which, in_words)
    return CheckSets(counted, n_checks, stopped, differ, pd.array(note, dtype="str"))


def _count_by_outcome(outcome: Ints, failed: Bools, n: int) -> tuple[Ints, Ints]:
    """Count the rows and the failed rows of each outcome."""
    return np.bincount(outcome, minlength=n), np.bincount(outcome[failed], minlength=n)


def _explain_absences(cells: _Cells, n_unlisted: Ints, n_rows: Ints, n_failed: Ints) -> _Absences:
    """Find out, for each grader version, why slots have no rows."""
    group, side = cells.group[cells.cell], cells.side[cells.cell]
    never = _never_asked(cells, n_failed == 0)
    lacking = cells.count_by_outcome(~never) + n_unlisted > n_rows
    stops, n_stopped = _stops_at_fail(group, side, lacking, n_failed)
    stops_there, n_there = _stops_at_fail(side, side, lacking, n_failed)
    stopped = stops[group] & lacking & (n_failed > 0)
    asked = cells.has_rows | (cells.slots_with(stopped) & ~never)
    has_never = cells.count_by_pair(never) > 0
    partly = (cells.count_by_pair(~asked) > 0) & ~has_never
    n_partly = np.bincount(cells.pair_group, partly)
    n_pairs = np.bincount(cells.pair_group, cells.count_by_pair(np.full(len(asked), True)) > 1)
    design = (n_partly >= _MIN_DIFFERENT) & (n_partly > _FEW_LOST * n_pairs)
    designed = partly & design[cells.pair_group]
    sure = (stops & (n_stopped >= _MIN_STOPPED))[group]
    sure |= (stops_there & (n_there >= _MIN_STOPPED))[side]
    stops = np.bincount(group, sure) > 0
    return _Absences(never, stopped, asked, designed, designed | has_never, stops)


def _never_asked(cells: _Cells, unfailed: Bools) -> Bools:
    """Return, for each slot, whether the grader was never asked about the slot's check.

    Never means in no case under the condition of the slot.
    """
    check, cell = cells.pair_check[cells.slot_pair], cells.slot_cell
    place, first = dense_codes(cells.side[cell], check)
    n_rows = np.bincount(place, cells.has_rows)
    n_unfailed = np.bincount(place, cells.slots_with(unfailed))
    pairs = dense_codes(cells.pair_group, cells.pair_check)[0]
    n_cases = np.bincount(pairs)[pairs]
    common = np.zeros(len(first), dtype=bool)
    common[place] = (n_cases >= _FEW_CASES)[cells.slot_pair]
    return np.asarray(((n_rows == 0) & (n_unfailed > 0) & common)[place])


def _stops_at_fail(by: Ints, side: Ints, lacking: Bools, n_failed: Ints) -> tuple[Bools, Ints]:
    """Return whether the grader stops at the first fail, and the number of attempts that show it.

    An attempt shows it if it failed and one of its checks has no row. Both results have one entry
    per code of ``by``. ``side`` is a code for the grader version, round and condition.
    """
    failed, n = n_failed > 0, int(side.max()) + 1
    group = np.zeros(n, dtype=np.int64)
    group[side] = by

    def total(outcomes: Bools) -> Any:
        return np.bincount(side[outcomes], minlength=n)

    observed = total(lacking & failed)
    expected = total(failed) * total(lacking & ~failed) / np.maximum(total(~failed), 1)
    single = total(lacking & (n_failed == 1))
    n_observed, n_expected, n_single = (np.bincount(group, x) for x in (observed, expected, single))
    stops = (n_single >= _ONE_FAIL * n_observed) & (n_observed >= _STOP_RATIO * n_expected)
    return stops & (n_observed > 0), n_observed


def _refuse_stopping(cells: _Cells, absences: _Absences, what: str) -> None:
    """Raise FrameError if the grader stops at the first fail and conditions have different checks.

    This concerns checks that belong to a single case. If such a check has no row under a condition
    with failed attempts, there are two possible reasons: the check was never graded under this
    condition, or the grader stopped before it.
    """
    stops = absences.stops[cells.pair_group] & absences.designed
    if stops.any():
        raise FrameError(
            f"{what}: checks='shared': the grader stops at the first fail, and in "
            f"{plural(len(np.unique(cells.pair_graded[stops])), 'case')} the conditions were asked "
            "different checks of the case alone, so that it is unknown which checks they share. "
            "Grade every check of every attempt, or leave these cases out."
        )


def _refuse_mixed(mixed: Bools, group: Ints, what: str) -> None:
    """Raise FrameError if the grader often stopped after some shared checks and before others."""
    if np.any(np.bincount(group, mixed) > _MIXED * np.bincount(group)):
        raise FrameError(
            f"{what}: checks='shared': in {plural(int(mixed.sum()), 'attempt')} the grader stopped "
            "at a check that not every condition was asked, after some of the shared checks and "
            "before others. The attempts left would be a selection. Grade every check of every "
            "attempt."
        )


def _add_note(note: Any, group: Ints, which: Bools, sentence: Callable[[Bools], str]) -> None:
    """Add a sentence to the notes of the outcomes that ``which`` selects.

    There is one sentence for each code of ``group``. The function ``sentence`` returns it; its
    argument marks the selected outcomes with this code.
    """
    for number in np.unique(group[which]):
        chosen = which & (group == number)
        text = sentence(chosen)
        note[chosen] = [join_notes(before, text) for before in note[chosen]]


def _of_skill(names_of: Any, which: Bools) -> str:
    """Return the words " of <skill>" for the outcomes; no words if there is only one skill."""
    return "" if names_of is None else f" of {names_of[which][0]}"


def _with_counts(text: str, conditions: Any, names_of: Any, which: Bools) -> str:
    """Put the number of outcomes into a text; numbers by condition follow in brackets."""
    counts = pd.Series(conditions[which]).value_counts(sort=False)
    parts = ", ".join(f"{name} {n}" for name, n in counts.items())
    attempts = plural(int(which.sum()), "attempt")
    return text.format(f"{attempts}{_of_skill(names_of, which)} ({parts})")


def _checks_in_words(cells: _Cells, slots: Bools, names: Any, conditions: Any) -> str:
    """List checks, each with the conditions that do not have it and the number of cases."""
    pairs, conditions_without = cells.slot_pair[slots], cells.condition[cells.slot_cell[slots]]
    missing = pd.DataFrame({"check": cells.pair_check[pairs], "condition": conditions_without})
    by_check = missing.assign(pair=pairs).groupby("check", sort=False)
    n_cases = by_check["pair"].nunique().sort_values(ascending=False, kind="stable")
    texts = []
    for check, n in n_cases.head(_SHOWN).items():
        absent = by_check.get_group(check)["condition"].unique()
        under = " and ".join(str(conditions[code]) for code in absent)
        texts.append(f"'{names[check]}' not under {under} ({plural(int(n), 'case')})")
    more = len(n_cases) - _SHOWN
    return ", ".join(texts) + (f" and {plural(more, 'more check')}" if more > 0 else "")
