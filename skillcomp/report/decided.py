"""Verdicts on skills, corrected for the grader's errors where gold allows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from skillcomp import skillverdicts
from skillcomp.correction.delta_and_rate import delta_with_rates
from skillcomp.errors import SkillcompError
from skillcomp.frames.contracts import CASE
from skillcomp.frames.reference_labels import RESULTS
from skillcomp.skillverdicts import NEEDED


def decided_with(
    outcomes: pd.DataFrame, corrected: pd.DataFrame | None, reason: str, **how: Any
) -> tuple[pd.DataFrame, str]:
    """Decide with the result of :func:`corrected_rates`; if that fails, decide without it."""
    try:
        return skillverdicts.decide(outcomes, corrected=corrected, **how), reason
    except SkillcompError as error:
        if corrected is None or corrected.empty:
            raise
        return skillverdicts.decide(outcomes, corrected=corrected.iloc[:0], **how), str(error)


def corrected_rates(
    outcomes: pd.DataFrame,
    verdicts: pd.DataFrame,
    gold: pd.DataFrame,
    *,
    by: Sequence[str],
    reference: str,
    correct: Mapping[str, Any],
) -> tuple[pd.DataFrame | None, str]:
    """Return the argument ``corrected=`` of `decide`, and the reason if a correction failed.

    `verdicts` are those of :func:`with_failed_ends`. If the correction fails, the argument has no
    rows; otherwise the reason is empty. Without gold, the argument is None.
    """
    if gold.empty:
        return None, ""
    try:
        corrected = delta_with_rates(
            verdicts, gold, reference=reference, by=["grader", *by], value="passed", **correct
        )
    except SkillcompError as error:
        return pd.DataFrame(columns=[*by, *NEEDED]), str(error)
    return corrected[corrected["grader"].isin(outcomes["grader"])].drop(columns="grader"), ""


def with_failed_ends(
    verdicts: pd.DataFrame, outcomes: pd.DataFrame, attempts: pd.DataFrame
) -> pd.DataFrame:
    """Add failed verdicts for attempts with status timeout, truncated or refused but no verdict."""
    ended = attempts.loc[attempts["status"].isin(RESULTS), "attempt_id"]
    judged = verdicts.loc[verdicts["passed"].notna(), "attempt_id"]
    fails = outcomes[outcomes["attempt_id"].isin(ended) & ~outcomes["attempt_id"].isin(judged)]
    fails = fails.dropna(subset="passed")
    if fails.empty:
        return verdicts
    shared = [name for name in verdicts.columns if name in fails.columns and name != "score"]
    checks = verdicts[[*CASE, "check_id"]].drop_duplicates()
    rows = fails[shared].merge(checks, on=CASE).assign(status="ok", passed=False)
    kept = verdicts[~verdicts["attempt_id"].isin(fails["attempt_id"])]
    return pd.concat([kept, rows.astype({"passed": "boolean"})], ignore_index=True)
