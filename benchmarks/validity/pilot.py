"""What the interval means for the recorded pilot: its deltas by the first release and now."""

from __future__ import annotations

import numpy as np
import pandas as pd

import skillcomp as sc
from benchmarks.validity.cells import ROOT
from benchmarks.validity.designs import Sides
from benchmarks.validity.first_release import paired_rule
from skillcomp.frames.case_table import Pairing, case_table
from skillcomp.stats.clusters import Clusters

GRADER = "g2"


def table() -> pd.DataFrame:
    """Return one row per skill (and all of them) and condition: delta, limits now and before."""
    store = sc.RunStore(ROOT / "data" / "pilot")
    cases = sc.frames.cases(store)
    outcomes = sc.frames.outcomes(sc.frames.verdicts(store), cases, grader=GRADER)
    parts = [_rows(outcomes.assign(skill_or_all="all six")), _rows(outcomes, "skill")]
    return pd.concat(parts, ignore_index=True)


def _rows(outcomes: pd.DataFrame, name: str = "skill_or_all") -> pd.DataFrame:
    found = sc.deltas.paired(outcomes, by=[name])
    pairing = Pairing(case_table(outcomes, by=[name]), [name], "baseline")
    before = {
        (group[name], condition): _first_release(pairing.pairs(number, condition))
        for number, group in enumerate(pairing.groups)
        for condition in pairing.conditions(number)
        if condition != "baseline"
    }
    limits = [before[one, two] for one, two in zip(found[name], found["condition"], strict=True)]
    return pd.DataFrame(
        {
            "of": found[name],
            "condition": found["condition"],
            "estimate": found["estimate"],
            "low": found["ci_low"],
            "high": found["ci_high"],
            "low_first": [low for low, _ in limits],
            "high_first": [high for _, high in limits],
        }
    )


def _first_release(pairs: object) -> tuple[float, float]:
    names = ("n_passed1", "n1", "n_passed0", "n0")
    skill, skill_tries, baseline, tries = (np.asarray(getattr(pairs, n)) for n in names)
    sides = Sides(skill[None], skill_tries, baseline[None], tries)
    labels = np.asarray(pairs.cluster)  # type: ignore[attr-defined]
    rule = paired_rule(sides, Clusters.of(labels, len(labels)))
    return float(rule.low[0]), float(rule.high[0])
