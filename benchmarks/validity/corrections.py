"""Coverage of corrected deltas: a calibration set of its own, and error rates of other skills."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from skillcomp import correction

Rng = np.random.Generator
BATCH = 25  # studies in one call with by=
GAIN = 0.3
SHOWN = "gain of 30 points not shown"  # a share of rows, without a rule
Found = tuple[str, float, float, float]  # quantity, true value, lower and upper limit


def separate_gold(
    rng: Rng,
    runs: int,
    *,
    rates: tuple[float, float],
    errors: tuple[float, float],
    labels: int,
    cases: int = 100,
) -> Iterator[Found]:
    """Draw studies of one attempt per case, and calibration sets with labels of each kind.

    ``rates`` are the true rates with the skill and without it, ``errors`` the shares of missed
    passes and of false passes.
    """
    size = {"skill": cases, "baseline": cases, "calibration": 2 * labels}
    condition = np.repeat(list(size), list(size.values()))
    case = np.concatenate([np.arange(cases), np.arange(cases), cases + np.arange(2 * labels)])
    in_set = condition == "calibration"
    for start in range(0, runs, BATCH):
        studies = []
        for number in range(start, min(start + BATCH, runs)):
            truth = rng.random(len(case)) < np.repeat([*rates, 0.5], list(size.values()))
            truth[in_set] = np.arange(2 * labels) < labels
            wrong = rng.random(len(case)) < np.where(truth, *errors)
            frame = pd.DataFrame({"condition": condition, "case_id": case.astype(str)})
            studies.append(frame.assign(grader=f"{number:05d}", passed=truth ^ wrong, true=truth))
        rows = pd.concat(studies, ignore_index=True)
        rows["attempt_id"] = rows["grader"] + rows["condition"] + rows["case_id"]
        rows = rows.assign(skill="s", check_id="c", status="ok")
        labelled = rows[rows["condition"].eq("calibration")]
        gold = labelled[["attempt_id", "check_id"]].assign(passed=labelled["true"])
        verdicts = rows.drop(columns="true")
        how = {"by": "grader", "gold_drawn": "separate"}
        found = correction.rate(verdicts, gold, **how)
        found = found[found["condition"].eq("skill")]
        for name, rows_of, true in (
            ("rate", found, rates[0]),
            ("delta", correction.delta(verdicts, gold, **how), rates[0] - rates[1]),
        ):
            for low, high in rows_of.loc[rows_of["recommended"], ["ci_low", "ci_high"]].to_numpy():
                yield name, true, low, high


def drawn_skills(
    rng: Rng, *, errors: float, odd: float | None = None, skills: int = 6, cases: int = 14
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Draw two attempts per case of several skills that gain, and gold on the first attempts.

    With ``odd``, the grader passes this share of the fails of the first skill.
    """
    names = ["skill", "case_id", "condition", "repeat"]
    levels = [[f"s{k}" for k in range(skills)], range(cases), ["baseline", "skill"], [1, 2]]
    rows = pd.MultiIndex.from_product(levels, names=names).to_frame(index=False)
    base = np.repeat(rng.beta(1.05, 1.95, skills * cases), 4)
    gain = rows["condition"].eq("skill").to_numpy()
    rows["chance"] = np.clip(base + GAIN * gain, 0.0, 1.0)
    truth = rng.random(len(rows)) < rows["chance"]
    fooled = gain & rows["skill"].eq("s0") & ~truth & (odd is not None)
    rows["passed"] = truth ^ (rng.random(len(rows)) < np.where(fooled, odd or 0.0, errors))
    rows["case_id"] = rows["skill"] + "/" + rows["case_id"].astype(str)
    rows["attempt_id"] = rows["case_id"] + rows["condition"] + rows["repeat"].astype(str)
    rows = rows.assign(check_id="c", grader="g", status="ok")
    labelled = rows["repeat"].eq(1)
    gold = rows.loc[labelled, ["attempt_id", "check_id"]].assign(passed=truth[labelled])
    return rows, gold.reset_index(drop=True)


def skills_gold(rng: Rng, runs: int, *, errors: float, odd: float | None) -> Iterator[Found]:
    """Draw studies of six skills, and their recommended deltas."""
    for start in range(0, runs, BATCH):
        drawn = [drawn_skills(rng, errors=errors, odd=odd) for _ in range(start, start + BATCH)]
        verdicts, gold = (
            pd.concat(
                [
                    frame.assign(study=number, attempt_id=f"{number}/" + frame["attempt_id"])
                    for number, frame in enumerate(frames)
                ],
                ignore_index=True,
            )
            for frames in zip(*drawn, strict=True)
        )
        rows = correction.delta(verdicts, gold.drop(columns="study"), by=["study", "skill"])
        mean = verdicts.groupby(["study", "skill", "condition"])["chance"].mean().unstack()
        truth = (mean["skill"] - mean["baseline"]).rename("truth").reset_index()
        rows = rows[rows["recommended"]].merge(truth, on=["study", "skill"])
        for skill, true, low, high in rows[["skill", "truth", "ci_low", "ci_high"]].itertuples(
            index=False
        ):
            yield f"delta, {'first skill' if skill == 's0' else 'others'}", true, low, high
            yield SHOWN, 0.0, float(low <= 0.0), float(low <= 0.0)
