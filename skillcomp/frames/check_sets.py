"""Find out why checks of an attempt have no verdict, and which checks all conditions have.

If a check has no row for an attempt, there are three possible reasons. The grader was never asked
about this check under the condition, the grader stopped before the check, or the row was lost. The
other attempts that the same grader version graded show which reason applies.

A slot is a check of a case under one condition, graded by one grader version. The tables here have
one row per verdict (``found``), per outcome (``each``) or per slot (``slots``); ``version`` is the
number of a grader version and round.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from skillcomp.errors import FrameError, plural, require_known
from skillcomp.frames.contracts import CASE
from skillcomp.frames.estimates import DIFFERENT_CHECKS, group_codes
from skillcomp.frames.estimates import Ints as Ints
from skillcomp.stats.results import Bools as Bools
from skillcomp.stats.results import join_notes

# Which checks an analysis counts: all, or only those that are graded under every condition.
Checks = Literal["all", "shared"]

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

_CASE = ["version", "case"]
_CELL = [*_CASE, "condition"]  # An outcome belongs to the cell of its case and condition.
_PAIR = [*_CASE, "check"]
_SLOT = [*_CELL, "check"]


@dataclass(frozen=True)
class CheckSets:
    """The checks that count for each outcome.

    ``counted`` has one entry per row: whether its check counts. The other arrays have one entry per
    outcome: ``n_checks``, the number of checks that count; ``stopped``, whether the grader stopped
    at the first fail; ``differ``, whether the grader was asked about different checks under
    different conditions of the case; and ``note``, a text.
    """

    counted: Any
    n_checks: Any
    stopped: Any
    differ: Any
    note: Any


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
    case = group_codes(keys.assign(version=group), ["version", *CASE])[0]
    n_rows = np.bincount(outcome, minlength=len(keys))
    # number of checks with a row for the case, whatever the condition
    _, first = group_codes(rows.assign(case=case[outcome]), ["case", "check_id"])
    n_pairs = np.bincount(case[outcome[first]])[case]
    if (n_rows == n_pairs).all() and (n_listed <= n_pairs).all():  # no row is absent
        nothing = np.zeros(len(keys), bool)
        return CheckSets(np.ones(len(rows), bool), n_pairs, nothing, nothing, "")
    each = keys[["skill", "condition"]].assign(version=group, case=case, n_rows=n_rows)
    each["n_failed"] = np.bincount(outcome[failed], minlength=len(keys))
    each["n_unlisted"] = np.maximum(n_listed - n_pairs, 0).astype(np.int64)
    found = each.take(outcome).assign(check=rows["check_id"].array, failed=failed, outcome=outcome)
    slots = each[_CELL].drop_duplicates().merge(found[_PAIR].drop_duplicates(), on=_CASE)
    each, slots = _explained(each, slots.assign(has_rows=_count(found, _SLOT, slots) > 0))
    if shared:
        _refuse_stopping(each, slots, what)
        counts = ~(~slots["asked"]).groupby([slots[name] for name in _PAIR]).transform("any")
        each["n_unlisted"] = 0
    else:
        counts = ~slots["never"] & (slots["asked"] | ~slots["designed"])
    counted = _count(slots[counts], _SLOT, found) > 0
    seen = found[counted].groupby("outcome")["failed"].agg(["size", "sum"])
    each[["n_rows", "n_failed"]] = seen.reindex(each.index, fill_value=0)
    each["n_checks"] = _count(slots[counts], _CELL, each) + each["n_unlisted"]
    stopped = each["stopped"] & each["n_failed"].gt(0)
    lacking = each["n_rows"].lt(each["n_checks"]) & ~stopped
    if shared:
        _refuse_mixed(each["stopped"] & lacking & each["n_rows"].gt(0), each, what)
    differ = (_count(slots[slots["differ"]], _CASE, each) > 0) & (not shared)
    note = pd.Series("", each.index, dtype="str")
    several = each["skill"].nunique() > 1

    def parts_of(which: pd.Series) -> Iterator[tuple[pd.DataFrame, str]]:
        for (_, skill), part in each[which].groupby(["version", "skill"]):
            yield part, f" of {skill}" if several else ""

    def add_note(part: pd.DataFrame, text: str) -> None:
        joined = [join_notes(before, text) for before in note[part.index]]
        note.update(pd.Series(joined, part.index, dtype="str"))

    for part, skill in parts_of(stopped):
        count = _attempts(part, skill)
        add_note(part, f"the grader stopped at the first fail in {count}, which count as failed")
    for part, skill in parts_of(lacking & each["n_checks"].gt(0)):
        add_note(part, f"a check has no row in {_attempts(part, skill)}, which have no outcome")
    absent = slots[~slots["asked"] & (shared | slots["differ"])]
    which = differ
    if shared:
        groups = (_count(absent, _CELL, each) > 0).groupby([each["version"], each["skill"]])
        which = groups.transform("any")
    for part, skill in parts_of(which):
        start = "left out" if shared else DIFFERENT_CHECKS
        text = f"{start}{skill}: {_checks_in_words(absent[_count(part, _CELL, absent) > 0])}"
        if shared and (n := len(part[part["n_checks"].eq(0)].drop_duplicates(_CASE))):
            text += f", and {plural(n, 'case')} without a shared check"
        add_note(part, text)
    n_checks = each["n_checks"].to_numpy()
    return CheckSets(
        counted.to_numpy(), n_checks, stopped.to_numpy(), differ.to_numpy(), note.array
    )


def _count(rows: pd.DataFrame, keys: list[str], of: pd.DataFrame) -> pd.Series:
    """Return, for each row of ``of``, the number of ``rows`` with the same values in ``keys``."""
    counts = rows.groupby(keys).size().rename("number")
    return of[keys].join(counts, on=keys)["number"].fillna(0).astype("int64")


def _explained(each: pd.DataFrame, slots: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Find out, for each grader version, why slots have no rows.

    Columns are added to the slots:

    - ``never``: in no case was the grader asked about this check under the condition.
    - ``asked``: there are rows, or the grader stopped before the check.
    - ``designed``: the grader was asked about the check under only some conditions of the case, and
      no slot of the check and case is True in ``never``.
    - ``differ``: the same, or a slot of the check and case is True in ``never``.

    Columns are added to the outcomes: ``stopped``, whether the grader stopped at the first fail,
    and ``sure``, whether it certainly stops there, overall or under the condition.
    """
    slots["clean"] = _count(each[each["n_failed"].eq(0)], _CELL, slots) > 0
    by_check = slots.groupby(["version", "condition", "check"])
    common = slots.groupby(["version", "check"])["case"].transform("nunique").ge(_FEW_CASES)
    has_rows, clean = (by_check[name].transform("any") for name in ("has_rows", "clean"))
    slots["never"] = ~has_rows & clean & common
    n_asked = _count(slots[~slots["never"]], _CELL, each) + each["n_unlisted"]
    each["lacking"] = n_asked > each["n_rows"]
    stops, sure = _stops_at_fail(each, ["version"])
    each["stopped"] = stops & each["lacking"] & each["n_failed"].gt(0)
    each["sure"] = sure | _stops_at_fail(each, ["version", "condition"])[1]
    after_fail = (_count(each[each["stopped"]], _CELL, slots) > 0) & ~slots["never"]
    slots["asked"] = slots["has_rows"] | after_fail
    pair = slots.assign(absent=~slots["asked"]).groupby(_PAIR)
    has_never = pair["never"].transform("any")
    partly = pair["absent"].transform("any") & ~has_never
    first, several = ~slots.duplicated(_PAIR), slots.duplicated(_PAIR, keep=False)
    n_partly, n_several = (
        _count(slots[first & which], ["version"], slots) for which in (partly, several)
    )
    design = n_partly.ge(_MIN_DIFFERENT) & n_partly.gt(_FEW_LOST * n_several)
    slots["designed"] = partly & design
    slots["differ"] = slots["designed"] | has_never
    return each, slots


def _stops_at_fail(each: pd.DataFrame, by: list[str]) -> tuple[pd.Series, pd.Series]:
    """Return whether the grader stops at the first fail, and whether this is certain.

    An attempt shows it if it failed and one of its checks has no row. Both results have one entry
    per outcome and are equal within ``by``.
    """
    lacking, failed = each["lacking"], each["n_failed"].gt(0)
    shown = {"failed": failed, "passed": ~failed, "observed": lacking & failed}
    shown |= {"others": lacking & ~failed, "single": lacking & each["n_failed"].eq(1)}
    n = each[["version", "condition"]].assign(**shown).groupby(["version", "condition"]).sum()
    n["expected"] = n["failed"] * n["others"] / n["passed"].clip(lower=1)
    n = n.groupby(by).sum()
    observed = n["observed"]
    stops = n["single"].ge(_ONE_FAIL * observed) & observed.gt(0)
    stops &= observed.ge(_STOP_RATIO * n["expected"])
    sure = stops & observed.ge(_MIN_STOPPED)
    both = each[by].join(pd.DataFrame({"stops": stops, "sure": sure}), on=by)
    return both["stops"], both["sure"]


def _refuse_stopping(each: pd.DataFrame, slots: pd.DataFrame, what: str) -> None:
    """Raise FrameError if the grader stops at the first fail and conditions have different checks.

    This concerns checks that belong to a single case. If such a check has no row under a condition
    with failed attempts, there are two possible reasons: the check was never graded under this
    condition, or the grader stopped before it.
    """
    sure = _count(each[each["sure"]], ["version"], slots) > 0
    unknown = slots[slots["designed"] & sure].drop_duplicates(_CASE)
    if len(unknown):
        raise FrameError(
            f"{what}: checks='shared': the grader stops at the first fail, and in "
            f"{plural(len(unknown), 'case')} the conditions were asked "
            "different checks of the case alone, so that it is unknown which checks they share. "
            "Grade every check of every attempt, or leave these cases out."
        )


def _refuse_mixed(mixed: pd.Series, each: pd.DataFrame, what: str) -> None:
    """Raise FrameError if the grader often stopped after some shared checks and before others."""
    if mixed.groupby(each["version"]).mean().gt(_MIXED).any():
        raise FrameError(
            f"{what}: checks='shared': in {plural(int(mixed.sum()), 'attempt')} the grader stopped "
            "at a check that not every condition was asked, after some of the shared checks and "
            "before others. The attempts left would be a selection. Grade every check of every "
            "attempt."
        )


def _attempts(outcomes: pd.DataFrame, skill: str) -> str:
    """Return the number of outcomes in words; numbers by condition follow in brackets."""
    counts = outcomes["condition"].value_counts(sort=False)
    parts = ", ".join(f"{name} {n}" for name, n in counts.items())
    return f"{plural(len(outcomes), 'attempt')}{skill} ({parts})"


def _checks_in_words(absent: pd.DataFrame) -> str:
    """List checks, each with the conditions that do not have it and the number of cases."""
    by_check = absent.groupby("check", sort=False)
    n_cases = absent.drop_duplicates(_PAIR).groupby("check", sort=False).size()
    n_cases = n_cases.sort_values(ascending=False, kind="stable")
    texts = []
    for check, n in n_cases.head(_SHOWN).items():
        under = " and ".join(by_check.get_group(check)["condition"].unique())
        texts.append(f"'{check}' not under {under} ({plural(int(n), 'case')})")
    more = len(n_cases) - _SHOWN
    return ", ".join(texts) + (f" and {plural(more, 'more check')}" if more > 0 else "")
