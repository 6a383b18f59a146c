"""Whole studies sent through the frames: bias and coverage of the estimates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from benchmarks.simulated import Grader, Study, study
from benchmarks.validity.designs import digest
from benchmarks.validity.methods import Rows
from skillcomp import correction, deltas, frames, reliability, transfer
from skillcomp.stats import DELTAS, bounded_mean, ppi_mean

DELTA, GAP = 0.2, 0.2
SKILL_SD = 0.5  # sd between skills of effect and difficulty, for claims about skills
# lenient to the skill condition, so that one correction for both conditions would be biased
SENSITIVITY = {"baseline": 0.90, "skill": 0.96}
SPECIFICITY = {"baseline": 0.85, "skill": 0.70}
PERFECT, LENIENT, STRICT = "gold", "lenient", "strict"
PASSES_LABELLED = 0.25  # share of the checks passed by all graders that get gold; all others do
VALUES = ("passed", "share_passed")
CHECKED, SHOWN = True, False

# quantity, estimator, whether it must be unbiased, true value, estimate, low, high
Result = tuple[str, str, bool, float, float, float, float]


@dataclass(frozen=True, slots=True)
class Batch:
    """Studies ``start`` to ``stop``; with ``skills``, skills differ and the claim is about them."""

    start: int
    stop: int
    skills: bool


def batches(n_studies: int, size: int = 4) -> list[Batch]:
    """Split the studies into small batches, so that an interruption loses little."""
    return [
        Batch(start, min(start + size, n_studies), skills)
        for skills in (False, True)
        for start in range(0, n_studies, size)
    ]


def run(batch: Batch) -> Rows:
    """Simulate and analyse the studies of a batch; return a row per quantity and study."""
    columns = ("quantity", "estimator", "checked", "truth", "estimate", "low", "high")
    return [
        {"study": number, **dict(zip(columns, row, strict=True))}
        for number in range(batch.start, batch.stop)
        for row in _analyse_study(number, batch.skills)
    ]


def _analyse_study(number: int, skills: bool) -> Iterator[Result]:
    spread = SKILL_SD if skills else 0.0
    made = study(
        n_skills=10 if skills else 6,
        n_cases=14,
        n_repeats=2,
        delta=DELTA,
        near_far_gap=GAP,
        between_skill_sd=spread,
        skill_level_sd=spread,
        graders=[
            Grader(PERFECT, 1.0, 1.0),
            Grader(LENIENT, SENSITIVITY, SPECIFICITY),
            Grader(STRICT, 0.8, 0.95),
        ],
        gold_fraction=0.5,
        seed=int(digest(["study", number, skills])[:8], 16),
    )
    outcomes = frames.outcomes(made.verdicts, made.cases)
    by_grader = {name: outcomes[outcomes["grader"].eq(name)] for name in (PERFECT, LENIENT)}
    yield from _delta_rows(made, by_grader, skills)
    yield from _corrected_rows(made, skills)
    if not skills:
        yield from _gap_rows(made, by_grader[PERFECT])
        yield from _grader_error_rows(made)
        for graders in ((LENIENT,), (LENIENT, STRICT)):
            yield from _rows_drawn_by_verdict(made, graders, number)


def _delta_rows(made: Study, by_grader: dict[str, pd.DataFrame], skills: bool) -> Iterator[Result]:
    cluster: deltas.Cluster = "skill" if skills else "case"
    for value in VALUES:
        truth = made.true("delta", value=value)
        for grader, checked in ((PERFECT, CHECKED), (LENIENT, SHOWN)):
            paired = deltas.paired(by_grader[grader], value=value, cluster=cluster)  # type: ignore[arg-type]
            label = f"deltas.paired, {value}"
            label += "" if checked else ", uncorrected verdicts of the lenient grader"
            yield _result_row(f"delta over {cluster}s", label, checked, truth, paired.iloc[0])


def _gap_rows(made: Study, outcomes: pd.DataFrame) -> Iterator[Result]:
    for value in VALUES:
        truth = made.true("gap", value=value)
        gaps = transfer.gap(outcomes, value=value)  # type: ignore[arg-type]
        for row in (row for _, row in gaps.iterrows() if row["measure"] == "gap"):
            scope = str(row["scope"]).replace("_", " ")
            yield _result_row(
                "transfer gap", f"transfer.gap, {value}, {scope}", CHECKED, truth, row
            )


def _result_row(
    quantity: str, estimator: str, checked: bool, truth: float, row: pd.Series
) -> Result:
    numbers = (float(row[name]) for name in ("estimate", "ci_low", "ci_high"))
    return (quantity, estimator, checked, truth, *numbers)  # type: ignore[return-value]


def _corrected_rows(made: Study, skills: bool) -> Iterator[Result]:
    """Estimate the delta of behaviours by PPI from a lenient grader and gold on half the cases."""
    verdicts = made.verdicts[made.verdicts["grader"].eq(LENIENT)]
    judged = verdicts.assign(passed=verdicts["passed"].astype("float64"))
    labelled = judged.merge(
        made.gold[["attempt_id", "check_id", "passed"]],
        on=["attempt_id", "check_id"],
        suffixes=("", "_gold"),
    )
    predicted = _case_differences(judged, "passed")
    gold, seen = (
        _case_differences(labelled, name).reindex(predicted.index)
        for name in ("passed_gold", "passed")
    )
    of_case = made.cases.set_index("case_id")["skill"].reindex(predicted.index)
    ci = ppi_mean(
        gold.to_numpy(),
        predicted.to_numpy(),
        quantity=DELTAS,
        predicted_on_gold=seen.to_numpy(),
        clusters=pd.factorize(of_case)[0] if skills else None,
    )
    truth = made.true("delta", value="share_passed")
    what = f"delta over {'skills' if skills else 'cases'}"
    yield what, "stats.ppi_mean, lenient grader", CHECKED, truth, ci.estimate, ci.low, ci.high


def _case_differences(rows: pd.DataFrame, name: str) -> pd.Series:
    share = rows.assign(value=rows[name].astype("float64"))
    means = share.groupby(["case_id", "condition"], sort=False)["value"].mean().unstack()
    return means["skill"] - means["baseline"]


def _grader_error_rows(made: Study) -> Iterator[Result]:
    """Estimate the error rates of the lenient grader by condition, from the checks with gold."""
    verdicts = made.verdicts[made.verdicts["grader"].eq(LENIENT)]
    both = verdicts.merge(
        made.gold[["attempt_id", "check_id", "passed"]],
        on=["attempt_id", "check_id"],
        suffixes=("", "_gold"),
    )
    for condition, part in both.groupby("condition"):
        judged, gold = (part[name].to_numpy(np.float64) for name in ("passed", "passed_gold"))
        for measure, label_of_gold in (("sensitivity", 1.0), ("specificity", 0.0)):
            truth = made.true(measure, condition=str(condition), grader=LENIENT)
            chosen = gold == label_of_gold
            right = (judged == gold)[chosen].astype(np.float64)
            ci = bounded_mean(right, part["case_id"].to_numpy()[chosen])
            label = f"stats.{measure} against gold, {condition}"
            yield "grader error", label, CHECKED, truth, ci.estimate, ci.low, ci.high


def _rows_drawn_by_verdict(made: Study, graders: Sequence[str], number: int) -> Iterator[Result]:
    """Correct the rates, the delta and the errors of a grader by gold drawn by the verdicts."""
    verdicts = made.verdicts[made.verdicts["grader"].isin(graders)]
    keys = ["attempt_id", "check_id"]
    passed = verdicts.astype({"passed": "float64"}).groupby(keys, sort=False)["passed"].min()
    chance = np.random.default_rng(number).random(len(passed))
    drawn = passed.index[(passed < 1) | (chance < PASSES_LABELLED)]
    gold = made.labels[pd.MultiIndex.from_frame(made.labels[keys]).isin(drawn)]
    what = f"gold drawn by the verdicts of {len(graders)} grader{'s' * (len(graders) > 1)}"
    how = {"by": ["grader"], "cases": made.cases, "gold_drawn": "verdict"}
    rates = correction.rate(verdicts, gold, **how)  # type: ignore[arg-type]
    delta = correction.delta(verdicts, gold, **how)  # type: ignore[arg-type]
    errors = ["sensitivity", "specificity"]
    agreement = reliability.agreement(verdicts, gold, quantities=errors, **how)  # type: ignore[arg-type]
    for frame, measure, name in ((rates, "pass_rate", "rate"), (delta, "delta", "delta")):
        rows = frame[frame["recommended"] & frame["grader"].eq(LENIENT)]
        for _, row in rows.iterrows():
            condition = {"condition": row["condition"]} if measure == "pass_rate" else {}
            truth = made.true(measure, value="share_passed", **condition)
            label = ", ".join([f"correction.{name}", *condition.values()])
            yield _result_row(what, label, CHECKED, truth, row)
    strict = agreement[agreement["grader"].eq(STRICT)].set_index("measure")
    for measure, truth in (("sensitivity", 0.8), ("specificity", 0.95)) if len(strict) else ():
        label = f"reliability.agreement, {measure}"
        yield _result_row(what, label, CHECKED, truth, strict.loc[measure])
