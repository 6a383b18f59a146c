"""Attempts without an answer: planned attempts that were never made, and attempts that failed."""

from __future__ import annotations

from typing import Any

import pandas as pd

from skillcomp.errors import FrameError
from skillcomp.frames.check import check, require_frame
from skillcomp.frames.contracts import ATTEMPT_KEYS, CASE, CELL, GRADER_KEYS, PLANNED
from skillcomp.frames.estimates import is_among, require_columns
from skillcomp.frames.reference_labels import RESULTS

UNANSWERED = ("error", "paused")  # an attempt with one of these statuses is missing
_ENDED = {"error": "ended in an error", "timeout": "ran out of time", "truncated": "were cut off"}
_MEASURED = ["n_passed", "n_missing", "share_passed", "score", "passed", "checks_differ", "note"]


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
