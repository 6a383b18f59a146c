"""Whole studies through the frames: what was planted is found again, without bias and covered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from benchmarks.validity.designs import digest
from benchmarks.validity.methods import Rows
from skillcomp import deltas, frames, transfer
from skillcomp.simulate import Grader, Study, study
from skillcomp.stats import ppi_paired, sensitivity, specificity

DELTA, GAP = 0.2, 0.2
SKILL_SD = 0.5  # between skills, of effect and of difficulty, where the claim is about skills
# Lenient to the skill condition: a shared calibration can turn the sign of a delta.
SENSITIVITY = {"baseline": 0.90, "skill": 0.96}
SPECIFICITY = {"baseline": 0.85, "skill": 0.70}
PERFECT, LENIENT = "gold", "lenient"
UNITS = {"passed": "attempt", "share_passed": "behaviour"}
CHECKED, SHOWN = True, False

# quantity, estimator, whether it must be right, true value, estimate, low, high
Found = tuple[str, str, bool, float, float, float, float]


@dataclass(frozen=True, slots=True)
class Batch:
    """Studies ``start`` to ``stop``; with ``skills`` they differ and the claim is about them."""

    start: int
    stop: int
    skills: bool


def batches(n_studies: int, size: int = 4) -> list[Batch]:
    """Return the studies in batches small enough to be lost without regret."""
    return [
        Batch(start, min(start + size, n_studies), skills)
        for skills in (False, True)
        for start in range(0, n_studies, size)
    ]


def run(batch: Batch) -> Rows:
    """Simulate and analyse the studies of a batch; a row for each quantity and study."""
    columns = ("quantity", "estimator", "checked", "truth", "estimate", "low", "high")
    return [
        {"study": number, **dict(zip(columns, found, strict=True))}
        for number in range(batch.start, batch.stop)
        for found in _one(number, batch.skills)
    ]


def _one(number: int, skills: bool) -> Iterator[Found]:
    spread = SKILL_SD if skills else 0.0
    made = study(
        n_skills=10 if skills else 6,
        n_cases=14,
        n_repeats=2,
        delta=DELTA,
        near_far_gap=GAP,
        between_skill_sd=spread,
        skill_level_sd=spread,
        graders=[Grader(PERFECT, 1.0, 1.0), Grader(LENIENT, SENSITIVITY, SPECIFICITY)],
        gold_fraction=0.5,
        seed=int(digest(["study", number, skills])[:8], 16),
    )
    outcomes = frames.outcomes(made.verdicts, made.cases)
    by_grader = {name: outcomes[outcomes["grader"].eq(name)] for name in (PERFECT, LENIENT)}
    yield from _deltas(made, by_grader, skills)
    yield from _corrected(made, skills)
    if not skills:
        yield from _gaps(made, by_grader[PERFECT])
        yield from _errors(made)


def _deltas(made: Study, by_grader: dict[str, pd.DataFrame], skills: bool) -> Iterator[Found]:
    cluster: deltas.Cluster = "skill" if skills else "case"
    for value, unit in UNITS.items():
        truth = made.true("delta", unit=unit)
        for grader, checked in ((PERFECT, CHECKED), (LENIENT, SHOWN)):
            given = deltas.paired(by_grader[grader], value=value, cluster=cluster)  # type: ignore[arg-type]
            label = f"deltas.paired, {value}"
            label += "" if checked else ", uncorrected verdicts of the lenient grader"
            yield _found(f"delta over {cluster}s", label, checked, truth, given.iloc[0])


def _gaps(made: Study, outcomes: pd.DataFrame) -> Iterator[Found]:
    for value, unit in UNITS.items():
        truth = made.true("gap", unit=unit)
        found = transfer.gap(outcomes, value=value)  # type: ignore[arg-type]
        for row in (row for _, row in found.iterrows() if row["measure"] == "gap"):
            scope = str(row["scope"]).replace("_", " ")
            yield _found("transfer gap", f"transfer.gap, {value}, {scope}", CHECKED, truth, row)


def _found(quantity: str, estimator: str, checked: bool, truth: float, row: pd.Series) -> Found:
    numbers = (float(row[name]) for name in ("estimate", "ci_low", "ci_high"))
    return (quantity, estimator, checked, truth, *numbers)  # type: ignore[return-value]


def _corrected(made: Study, skills: bool) -> Iterator[Found]:
    """Delta of behaviours by PPI from the lenient grader and gold on half of the cases."""
    verdicts = made.verdicts[made.verdicts["grader"].eq(LENIENT)]
    judged = verdicts.assign(passed=verdicts["passed"].astype("float64"))
    labelled = judged.merge(
        made.gold[["attempt_id", "check_id", "passed"]],
        on=["attempt_id", "check_id"],
        suffixes=("", "_gold"),
    )
    predicted = _difference(judged, "passed")
    gold, seen = (
        _difference(labelled, name).reindex(predicted.index) for name in ("passed_gold", "passed")
    )
    of_case = made.cases.set_index("case_id")["skill"].reindex(predicted.index)
    ci = ppi_paired(
        gold.to_numpy(),
        predicted.to_numpy(),
        predicted_on_gold=seen.to_numpy(),
        clusters=pd.factorize(of_case)[0] if skills else None,
    )
    truth = made.true("delta", unit="behaviour")
    what = f"delta over {'skills' if skills else 'cases'}"
    yield what, "stats.ppi_paired, lenient grader", CHECKED, truth, ci.estimate, ci.low, ci.high


def _difference(rows: pd.DataFrame, name: str) -> pd.Series:
    share = rows.assign(value=rows[name].astype("float64"))
    means = share.groupby(["case_id", "condition"], sort=False)["value"].mean().unstack()
    return means["skill"] - means["baseline"]


def _errors(made: Study) -> Iterator[Found]:
    """Error rates of the lenient grader in each condition, from the checks with gold."""
    verdicts = made.verdicts[made.verdicts["grader"].eq(LENIENT)]
    both = verdicts.merge(
        made.gold[["attempt_id", "check_id", "passed"]],
        on=["attempt_id", "check_id"],
        suffixes=("", "_gold"),
    )
    for condition, part in both.groupby("condition"):
        given, gold = (part[name].to_numpy(np.float64) for name in ("passed", "passed_gold"))
        for measure, estimate in (("sensitivity", sensitivity), ("specificity", specificity)):
            truth = made.true(measure, condition=str(condition), grader=LENIENT)
            ci = estimate(given, gold, clusters=part["case_id"].to_numpy())
            label = f"stats.{measure} against gold, {condition}"
            yield "grader error", label, CHECKED, truth, ci.estimate, ci.low, ci.high
