"""Outcomes: the verdicts on an attempt, aggregated into one row.

An attempt without an answer has an outcome, too: if it was planned and never made, or if it failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skillcomp.errors import FrameError, argument, require_known
from skillcomp.frames.check import as_list, check, empty, require_frame, settle, show
from skillcomp.frames.check_sets import Bools, Checks, CheckSets, Ints, check_sets
from skillcomp.frames.contracts import (
    ATTEMPT_KEYS,
    CASE,
    CELL,
    CONTRACTS,
    GRADER_KEYS,
    PLANNED,
)
from skillcomp.frames.estimates import (
    group_codes,
    is_among,
    require_columns,
    require_rows,
    with_cautions,
)
from skillcomp.frames.reference_labels import RESULTS, attempt_passed, share_of_checks, usable

Floats = NDArray[np.float64]
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
