"""Builders of small frames that several test files share."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd


def verdicts(passed: Sequence[bool | None], *, checks: int = 1, **columns: object) -> pd.DataFrame:
    """One verdict per entry, None being malformed; ``checks`` in a row share attempt and case."""
    cases = [f"s/{k // checks}" for k in range(len(passed))]
    rows = pd.DataFrame(
        {
            "attempt_id": [f"{case}/skill/1" for case in cases],
            "skill": "s",
            "case_id": cases,
            "condition": "skill",
            "check_id": [f"c{k % checks}" for k in range(len(passed))],
            "grader": "g",
            "passed": pd.array(list(passed), dtype="boolean"),
            "status": ["malformed" if one is None else "ok" for one in passed],
        }
    )
    return rows.assign(**columns)


def gold(
    passed: Sequence[bool | None], *, checks: int = 1, labeller: str | None = "adjudicated"
) -> pd.DataFrame:
    """One label per entry, for the items of :func:`verdicts`."""
    rows = verdicts(passed, checks=checks)
    return rows[["attempt_id", "check_id", "passed"]].assign(labeller=labeller)
