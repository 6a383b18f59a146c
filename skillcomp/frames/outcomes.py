"""Outcomes: the verdicts on an attempt, aggregated into one row.

An attempt without an answer has an outcome, too: if it was planned and never made, or if it failed.
`check_sets` finds out why checks of an attempt have no verdict.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from skillcomp.errors import FrameError, argument, plural, require_known
from skillcomp.frames.check import as_list, check, empty, require_frame, settle, show
from skillcomp.frames.contracts import ATTEMPT_KEYS, CASE, CELL, CONTRACTS, GRADER_KEYS, PLANNED
from skillcomp.frames.estimates import (
    DIFFERENT_CHECKS,
    Ints,
    group_codes,
    is_among,
    require_columns,
    require_rows,
    with_cautions,
)
from skillcomp.frames.reference_labels import RESULTS, attempt_passed, share_of_checks, usable
from skillcomp.stats.results import Bools, Floats, join_notes

UNANSWERED = ("error", "paused")  # an attempt with one of these statuses is missing
_ENDED = {"error": "ended in an error", "timeout": "ran out of time", "truncated": "were cut off"}
_MEASURED = ["n_passed", "n_missing", "share_passed", "score", "passed", "checks_differ", "note"]
_CASE_FACTS = ["comprehension_dimension", "transfer", "contrast_of", "task"]


def outcomes(
    verdicts: pd.DataFrame,
    cases: pd.DataFrame | None = None,
    *,
    grader: str | Sequence[str] | None = None,
    attempts: pd.DataFrame | None = None,
    checks: Checks = "all",
) -> pd.DataFrame:
    """Aggregate verdicts into one outcome per attempt, grader version and round.

    Parameters
    ----------
    verdicts : pandas.DataFrame
        A verdicts frame.
    cases : pandas.DataFrame, optional
        A cases frame. It adds the dimension, the transfer distance, the task and your own columns
        about the case, and its ``n_checks`` is the number of checks that an attempt should have.
        Without ``cases``, an attempt should have every check for which its grader version has a
        verdict on the case.
    grader : str or sequence of str, optional
        Keep the outcomes of this grader, or of several. Default: all graders.
    checks : {"all", "shared"}, default "all"
        ``"shared"``: count only the checks that the grader was asked about under every condition of
        the case. Cases without such a check are dropped, and ``note`` gives their number.
    attempts : pandas.DataFrame, optional
        An attempts frame. It adds the attempts that ended without an answer and have no verdict.
        Their ``passed`` is NA after an error or a pause. It is False if the agent reached its time
        limit, if its answer was cut off or if it refused. If the attempts were planned (``asked=``
        of :func:`skillcomp.from_frame`), a column ``in_plan`` states it, and no other attempt is
        missing.

    Returns
    -------
    pandas.DataFrame
        One row per attempt, grader version and round. ``passed`` is True if every check of the
        attempt passed, False if all have a verdict and one failed, and NA if one has no verdict
        (see Notes for checks without a row). ``share_passed`` is the share of passes among the
        checks with a verdict; it is NA if fewer than half of the checks have a verdict. A column
        ``check_weight`` of the verdicts weights the checks. If weights differ, ``share_low`` is the
        share if all missing verdicts were fails, and ``share_high`` if all were passes. ``score``
        is the mean of the scores given, on the grader's own scale, or NaN without scores.
        ``n_checks``, ``n_passed`` and ``n_missing`` count checks.
        ``checks_differ`` is True if the grader was asked about different checks under different
        conditions of the case. ``note`` counts the attempts that have a check without a row. An
        altered copy of an answer has its own outcome, and ``perturbation`` names the change.
        Analyses refuse to count copies as repeats unless ``by`` contains this column.

    Raises
    ------
    FrameError
        If a frame breaks its contract, the case of a verdict is missing from ``cases``, or a name
        in ``grader`` has no verdict (the message then lists the graders in the frame); or if
        ``checks="shared"`` would select attempts by their result, because the grader stops at the
        first fail.

    Notes
    -----
    A check without a usable verdict makes ``passed`` NA even if another check failed. If such an
    attempt counted as failed, a grader that sometimes breaks would turn only passes into NA, and
    the pass rate would be too low.

    An attempt is incomplete if one of its checks has no row. Three rules, applied in this order to
    each grader version, decide what an absent row means:

    1. The grader was never asked about a check under a condition if three or more cases have this
       check id, it has no row under the condition, and at least one attempt at these cases under
       the condition has no failed check. The check does not count under this condition.
    2. The grader stops at the first fail if at least nine in ten of the failed incomplete attempts
       have exactly one failed check, and failed attempts are incomplete at least three times as
       often as attempts of the same condition without a failed check. Failed incomplete attempts
       are then False.
    3. Conditions have different checks if rule 1 applies to a check, or if more than a tenth of the
       checks of the cases, and at least three, have rows under one condition and none under
       another. Then ``checks_differ`` is True, ``passed`` rests on the checks that have rows under
       the condition, and comparisons of conditions raise an error.

    All other incomplete attempts are NA.

    With ``checks="shared"``, a check counts for a case if, under each condition of the case, it has
    a row or the grader stopped before it in at least one attempt. An attempt is NA if the grader
    stopped at a check that does not count.

    Examples
    --------
    >>> import pandas as pd
    >>> rows = pd.DataFrame({
    ...     "attempt_id": ["a", "a", "b", "b"], "skill": "s", "case_id": "s/1",
    ...     "condition": ["skill", "skill", "baseline", "baseline"], "check_id": ["x", "y"] * 2,
    ...     "grader": "g", "status": ["ok", "ok", "error", "error"],
    ...     "passed": [True, True, None, None]})
    >>> outcomes(rows)[["attempt_id", "n_checks", "n_passed", "n_missing", "passed"]]
      attempt_id  n_checks  n_passed  n_missing  passed
    0          a         2         2          0    True
    1          b         2         0          2    <NA>
    """
    rows = check(verdicts, "verdicts")
    graders = as_list(grader)
    for name in graders:
        require_known(
            "outcomes: there is no verdict by a grader",
            name,
            sorted(rows["grader"].unique()),
            label="there",
        )
    if rows.empty:
        return empty("outcomes")
    # the key columns are constant within a group: take them from its first row
    code, first = group_codes(rows, ["attempt_id", "grader", "grader_version", "round"])
    keys = rows[[*ATTEMPT_KEYS, *GRADER_KEYS]].take(first).reset_index(drop=True)
    case, first_of_case = group_codes(keys, CASE)
    facts = _case_facts(keys.take(first_of_case)[CASE], cases)
    table = keys.join(facts.take(case).reset_index(drop=True))
    decided = (usable(rows) & rows["passed"].notna()).to_numpy()
    passed = rows["passed"].to_numpy(dtype=bool, na_value=False)
    sets = check_sets(
        rows,
        code,
        keys,
        group_codes(keys, ["grader", "grader_version", "round"])[0],
        failed=decided & ~passed,
        n_listed=table["n_checks"].to_numpy(dtype=float),
        checks=checks,
        what="outcomes",
    )
    if not sets.n_checks.any():
        raise FrameError(
            f"outcomes: {argument('checks', 'shared')}: no case has a check that all its "
            "conditions share."
        )
    decided = decided & sets.counted
    n_rows, n_seen, n_passed = (
        np.bincount(code, weights=which, minlength=len(keys))
        for which in (sets.counted, decided, decided & passed)
    )
    share = share_of_checks(n_passed, n_seen, sets.n_checks)
    weighted = _weighted_shares(rows, code, sets, decided, decided & passed)
    table = table.assign(
        n_checks=sets.n_checks,
        n_passed=n_passed,
        n_missing=sets.n_checks - n_seen,
        share_passed=np.where(np.isnan(share), np.nan, weighted.pop("share_passed", share)),
        score=_mean_scores(rows, code, sets.counted),
        passed=attempt_passed(n_passed, n_seen, np.where(sets.stopped, n_rows, sets.n_checks)),
        checks_differ=sets.differ,
        note=sets.note,
        **weighted,
    )
    columns = CONTRACTS["outcomes"].columns
    own = [name for name in facts if name not in columns]
    table = table[[*columns, *own, *weighted]].astype(dict(columns))
    table = table[table["n_checks"].gt(0)].reset_index(drop=True)
    if attempts is not None:
        attempts = check(attempts, "attempts")
        more = unanswered_outcomes(table, attempts, cases)
        table = pd.concat([table, more], ignore_index=True) if len(more) else table
        if PLANNED in attempts:
            planned = attempts.loc[attempts[PLANNED].eq(True).fillna(False), "attempt_id"]
            table[PLANNED] = table["attempt_id"].isin(planned)
    table = with_cautions(table, rows, attempts)
    if grader is None:
        return table
    return table[table["grader"].isin(graders)].reset_index(drop=True)


def _weighted_shares(
    rows: pd.DataFrame, code: Ints, sets: CheckSets, decided: Bools, passed: Bools
) -> dict[str, Floats]:
    """Return the weighted share of checks that passed, for each outcome, and its limits.

    The limits are the shares if the checks without a verdict had failed, and if they had passed.
    The result is empty if all weights are equal.
    """
    weights, n = _check_weights(rows), len(sets.n_checks)
    if weights[0] > 0 and (weights == weights[0]).all():
        return {}
    n_rows, whole, total, met = (
        np.bincount(code, values, minlength=n)
        for values in (sets.counted, weights * sets.counted, weights * decided, weights * passed)
    )
    whole = np.where((n_rows == sets.n_checks) & (whole > 0), whole, np.nan)
    share = met / np.where(total > 0, total, np.nan)
    limits = {"share_low": met / whole, "share_high": 1.0 - (total - met) / whole}
    return {"share_passed": share, **limits}


def _mean_scores(rows: pd.DataFrame, code: Ints, counted: Bools) -> Floats:
    """Return the weighted mean score of the counted checks of each outcome.

    It is NaN if a check lacks a score that it has in another attempt.
    """
    scored = (usable(rows) & rows["score"].notna()).to_numpy() & counted
    weights = _check_weights(rows) * scored
    n = np.bincount(code, weights)
    if scored.any() and not scored.all():
        check_code = group_codes(rows, [*CASE, "check_id"])[0]
        lacks = counted & ~scored & (np.bincount(check_code, scored) > 0)[check_code]
        n[code[lacks]] = 0.0
    sums = np.bincount(code, np.where(scored, rows["score"], 0.0) * weights)
    return sums / np.where(n > 0, n, np.nan)


def _check_weights(rows: pd.DataFrame) -> Floats:
    """Return the weight of the check of each row; 1 without a column ``check_weight``."""
    if "check_weight" not in rows:
        return np.ones(len(rows))
    weights = settle(rows[["check_weight"]], {"check_weight": "float64"}, "outcomes")
    wrong = rows["check_weight"][~(weights["check_weight"] >= 0).fillna(False).astype(bool)]
    if len(wrong):
        allowed = "a number of at least 0 in every row"
        raise FrameError(f"outcomes: check_weight: found {show(wrong)}; allowed: {allowed}.")
    return weights["check_weight"].to_numpy(dtype=np.float64)


def _case_facts(names: pd.DataFrame, cases: pd.DataFrame | None) -> pd.DataFrame:
    """Return n_checks and the facts about the case that each row of ``names`` identifies."""
    if cases is None:
        unknown = pd.Series(pd.NA, names.index, dtype="str")
        return pd.DataFrame({"n_checks": 0} | dict.fromkeys(_CASE_FACTS, unknown))
    facts = check(cases, "cases")
    require_rows(names, facts, CASE, "outcomes", "cases")
    own = list(
        facts.columns.difference([*CONTRACTS["cases"].columns, *CONTRACTS["outcomes"].columns])
    )
    if facts["comprehension_dimension"].isna().all() and facts["dimension"].notna().any():
        own.append("dimension")
    facts = facts.set_index(CASE)[["n_checks", *_CASE_FACTS, *own]]
    n_checks = facts["n_checks"].fillna(0)
    return facts.assign(n_checks=n_checks).loc[pd.MultiIndex.from_frame(names)]


def with_asked(attempts: pd.DataFrame, asked: pd.DataFrame | None, what: str) -> pd.DataFrame:
    """Add an attempt with status ``error`` for each row of ``asked`` without an attempt.

    Parameters
    ----------
    attempts : pandas.DataFrame
        A checked attempts frame.
    asked : pandas.DataFrame or None
        The planned attempts, one per row: skill, case_id, condition and, if present, agent and
        repeat. Without ``repeat``, several equal rows mean several planned attempts.
    what : str
        Name of the function, for error messages.

    Returns
    -------
    pandas.DataFrame
        The attempts, then the added ones. The column ``in_plan`` is True: no other attempt was
        planned.

    Raises
    ------
    FrameError
        If ``asked`` has no skill, case_id or condition, or if several agents answered and it has no
        column ``agent``.
    """
    if asked is None:
        return attempts
    require_frame(asked, f"{what}: asked")
    require_columns(asked, [*CASE, "condition"], f"{what}: asked")
    names = [name for name in (*CELL, "repeat") if name in asked]
    planned = asked[names].assign(status="error", attempt_id=[str(n) for n in range(len(asked))])
    planned = check(planned, "attempts")
    agents = attempts["agent"].unique()
    if "agent" not in names and len(agents) > 1:
        raise FrameError(f"{what}: asked: several agents answered; add the column 'agent'.")
    if "agent" not in names and len(agents):
        planned["agent"] = pd.Series(agents[0], planned.index, dtype=attempts["agent"].dtype)
    place = [*CELL, "repeat" if "repeat" in names else "number"]
    planned, done = (
        rows.assign(number=rows.groupby(CELL, dropna=False).cumcount() + 1)
        for rows in (planned, attempts)
    )
    missing = planned[~is_among(planned, done, place)]
    numbers = missing.pop("number").astype("Int64")
    if "repeat" not in names and attempts["repeat"].notna().any():
        missing["repeat"] = numbers
    start = missing["case_id"] + "/" + missing["condition"] + "/unanswered/"
    missing["attempt_id"] = start + missing["attempt_id"]
    return pd.concat([attempts, missing], ignore_index=True).assign(**{PLANNED: True})


def with_cases(cases: pd.DataFrame, attempts: pd.DataFrame) -> pd.DataFrame:
    """Add to the cases frame the cases that only the attempts frame has."""
    added = pd.concat([cases, attempts[CASE]], ignore_index=True).drop_duplicates(CASE)
    return cases if len(added) == len(cases) else check(added, "cases")


def without_unanswered(verdicts: pd.DataFrame, attempts: pd.DataFrame) -> pd.DataFrame:
    """Leave out rows of attempts that ended without an answer and got neither verdict nor score."""
    ended = attempts.loc[attempts["status"].isin([*UNANSWERED, *RESULTS]), "attempt_id"]
    scored = verdicts["passed"].notna() | verdicts["score"].notna()
    graded = verdicts.loc[scored, "attempt_id"]
    keep = ~verdicts["attempt_id"].isin(ended) | verdicts["attempt_id"].isin(graded)
    return verdicts[keep].reset_index(drop=True)


def unanswered_outcomes(
    outcomes: pd.DataFrame, attempts: pd.DataFrame, cases: pd.DataFrame | None
) -> pd.DataFrame:
    """Return outcomes of the attempts that ended without an answer and have no verdict.

    ``passed`` is NA after an error or a pause. It is False if the agent reached its time limit, if
    its answer was cut off or if it refused, because these are results. Each attempt has one row per
    grader of its skill; if no attempt of the skill was graded, one row per grader of any skill.
    """
    ended = attempts["status"].isin([*UNANSWERED, *RESULTS]) & attempts["perturbation"].isna()
    if not ended.any():
        return outcomes.iloc[:0]
    graders = outcomes[["skill", *GRADER_KEYS]].drop_duplicates()
    ended_rows = attempts.loc[ended, [*ATTEMPT_KEYS, "status"]]
    lone = ended_rows.loc[~ended_rows["skill"].isin(graders["skill"]), ["skill"]].drop_duplicates()
    every = lone.merge(graders[GRADER_KEYS].drop_duplicates(), how="cross")
    rows = ended_rows.merge(pd.concat([graders, every], ignore_index=True), on="skill")
    for place in (["attempt_id"], [*CELL, "repeat"]):
        keys = [*place, *GRADER_KEYS]
        rows = rows[~is_among(rows, outcomes[outcomes[place[-1]].notna()], keys)]
    again = rows.duplicated([*CELL, "repeat", *GRADER_KEYS], keep="last")
    rows = rows[~(again & rows["repeat"].notna())]
    source = outcomes if cases is None else cases
    own = (*ATTEMPT_KEYS, *GRADER_KEYS, *_MEASURED)
    facts = [name for name in outcomes if name in source and name not in own]
    rows = rows.merge(source.drop_duplicates(CASE)[[*CASE, *facts]], on=CASE, how="left")
    rows = rows[rows["n_checks"].ne(0).fillna(True)]
    is_result = rows["status"].isin(RESULTS)
    measured: dict[str, Any] = {
        "n_passed": 0,
        "n_missing": rows["n_checks"].mask(is_result, 0),
        "share_passed": is_result.map({True: 0.0, False: float("nan")}),
        "passed": is_result.map({True: False, False: pd.NA}).astype("boolean"),
        "checks_differ": False,
        "note": [
            f"attempts that {_ENDED.get(status, f'were {status}')} have no answer"
            for status in rows["status"]
        ],
    }
    rows = rows.assign(**measured).reindex(columns=outcomes.columns)
    return rows.astype(dict(outcomes.dtypes))


# If a check has no row for an attempt, there are three possible reasons. The grader was never asked
# about this check under the condition, the grader stopped before the check, or the row was lost.
# The other attempts that the same grader version graded show which reason applies.
#
# A slot is a check of a case under one condition, graded by one grader version. The tables below
# have one row per verdict (`found`), per outcome (`each`) or per slot (`slots`); `version` is the
# number of a grader version and round.

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
    for name, n in n_cases.head(_SHOWN).items():
        under = " and ".join(by_check.get_group(name)["condition"].unique())
        texts.append(f"'{name}' not under {under} ({plural(int(n), 'case')})")
    more = len(n_cases) - _SHOWN
    return ", ".join(texts) + (f" and {plural(more, 'more check')}" if more > 0 else "")
