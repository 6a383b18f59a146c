"""Deltas of the recorded pilot by skill and condition, with their intervals."""

from __future__ import annotations

import pandas as pd

import skillcomp as sc
from benchmarks.validity.cells import ROOT

GRADER = "g2"
_NAMES = {"ci_low": "low", "ci_high": "high"}


def table() -> pd.DataFrame:
    """Tabulate delta and limits, one row per condition and skill, or all skills."""
    store = sc.RunStore(ROOT / "data" / "pilot")
    outcomes = sc.frames.outcomes(sc.frames.verdicts(store), sc.frames.cases(store), grader=GRADER)
    overall = sc.deltas.paired(outcomes).assign(skill="all six")
    rows = pd.concat([overall, sc.deltas.paired(outcomes, by=["skill"])], ignore_index=True)
    rows = rows[["skill", "condition", "estimate", "ci_low", "ci_high"]]
    return rows.rename(columns={"skill": "of", **_NAMES})
