"""World of the judge's datasheet."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from benchmarks.validity.distances import NOT_SHOWN, Found
from skillcomp.bias import datasheet

Floats = np.ndarray
ANY_SHOWN, POWER = "any property shown", f": {NOT_SHOWN}"
POINTS, QUESTIONS = (0, 10, 30), (30, 100)
BATCH = 25  # judges in one call
TIES, TIES_IF_IDENTICAL = 0.05, 0.6
# Pairs of each question: reference a and b are of the judge's family, c and its copies are not.
# Effects of the place differ, with a mean of 1, and leave room for the other effects of the pair.
PAIRS = {("b", "a"): 5 / 3, ("a", "c"): 2 / 3, ("bullets", "original"): 2 / 3}
# Points -> half-ranges of the log2 of the words: of questions, and of b and c around a. The longest
# answers and the largest effects must have chances of at most 1.
LENGTHS = {0: (1.5, 1.0, 0.8), 10: (1.5, 1.0, 0.8), 30: (0.1, 0.6, 0.1)}
# Points -> share of pairs that gold decides, and half-ranges of what questions and pairs add
OF_PAIRS = {0: (0.15, 0.2, 0.1), 10: (0.08, 0.08, 0.08), 30: (0.015, 0.02, 0.01)}
# Points -> difference between gold passes and fails, and half-range of what questions add
OF_CHECKS = {0: (0.5, 0.2), 10: (0.2, 0.09), 30: (0.2, 0.03)}


def judge(rng: np.random.Generator, runs: int, *, points: int, n: int) -> Iterator[Found]:
    """Draw judges of pairs and of single answers, each with all effects of this many points.

    Effects are added to the chance of a win or a pass, so that each is the same in every drawn
    question, or on average over the pairs of a question.
    """
    effect = points / 100
    truths = {
        "first of identical answers wins": 0.5 + effect / 2, "first answer wins": points,
        "copy in bullets": points, "copy in bullets in pairs": 0.5 + effect,
        "length per doubling": points, "length per doubling in pairs": points,
        "own family": points, "own family in pairs": points,
    }  # fmt: skip
    for start in range(0, runs, BATCH):
        names = [f"s{number:05d}" for number in range(start, min(start + BATCH, runs))]
        cases = pd.DataFrame({"skill": np.repeat(names, n)})
        cases["case_id"] = cases["skill"] + "/" + np.arange(len(cases)).astype(str)
        answers = _answers(rng, cases, points)
        verdicts, gold = _verdicts(rng, answers, points)
        pairwise = _pairwise(rng, cases, answers, points)
        sheet = datasheet(verdicts, answers, gold, pairwise)
        shown = sheet["shown"].fillna(False).astype(float)
        rows = sheet.assign(missed=1 - shown)[sheet["property"].isin(truths)]
        rows = rows[["property", "ci_low", "ci_high", "missed"]]
        for name, low, high, missed in rows.itertuples(index=False, name=None):
            yield name, truths[name], low, high
            if points:
                yield f"{name}{POWER}", 0.0, missed, missed
        if not points:
            yield from (
                (ANY_SHOWN, 0.0, wrong, wrong) for wrong in shown.groupby(sheet["grader"]).max()
            )


def _answers(rng: np.random.Generator, cases: pd.DataFrame, points: int) -> pd.DataFrame:
    """Draw the answers of three systems to each question, and copies in bullets."""
    of_question, of_b, of_c = LENGTHS[points]
    log2 = 8 + rng.uniform(-of_question, of_question, len(cases))
    longer = {name: rng.uniform(-of, of, len(cases)) for name, of in (("b", of_b), ("c", of_c))}
    longer |= {
        "a": 0.0,
        "original": longer["c"],
        "bullets": longer["c"],
        "c in bullets": longer["c"],
    }
    made = pd.concat(
        [
            cases.assign(
                attempt_id=cases["case_id"] + "/" + name, agent=name, condition="skill",
                agent_family="own" if name in "ab" else "other",
                n_words=np.rint(2 ** (log2 + more)), perturbation=None, source_attempt_id=None,
            )
            for name, more in longer.items()
        ]
    ).reset_index(drop=True)  # fmt: skip
    copies = made["agent"].eq("c in bullets")
    made.loc[copies, "perturbation"] = "bullets"
    made.loc[copies, "source_attempt_id"] = made["case_id"] + "/c"
    return made.assign(agent=made["agent"].mask(copies, "c"))


def _verdicts(
    rng: np.random.Generator, answers: pd.DataFrame, points: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Draw verdicts on two checks of the answers of the systems and of copies, and gold."""
    effect, (right, of_question) = points / 100, OF_CHECKS[points]
    graded = answers[~answers["agent"].isin(["original", "bullets"])]
    frame = graded.merge(pd.DataFrame({"check_id": ["c1", "c2"]}), how="cross")
    own, copy = frame["agent_family"].eq("own"), frame["perturbation"].notna()
    gold = pd.Series(rng.random(len(frame)) < np.where(own, 0.6, 0.5))
    chance = 0.5 + effect * (np.log2(frame["n_words"]) - 8) + effect * (own - 0.5)
    chance += effect * copy + right * (gold - 0.5) + _of_case(rng, frame, of_question)
    labels = frame[["attempt_id", "check_id"]].assign(passed=gold)[~copy]
    about = {"grader": frame["skill"], "grader_family": "own", "passed": _drawn(rng, chance)}
    kept = ["attempt_id", "skill", "case_id", "condition", "agent", "perturbation", "check_id"]
    return frame[kept].assign(**about), labels


def _pairwise(
    rng: np.random.Generator, cases: pd.DataFrame, answers: pd.DataFrame, points: int
) -> pd.DataFrame:
    """Draw judgements of pairs in both orders, and of an answer against itself."""
    effect, (right, of_question, of_pair) = points / 100, OF_PAIRS[points]
    about = answers.set_index("attempt_id")
    shift, parts = _of_case(rng, cases, of_question), []
    for (x, y), place in PAIRS.items():
        ids = {name: cases["case_id"] + "/" + name for name in (x, y)}
        longer, own = (
            (value.loc[ids[x]].to_numpy() - value.loc[ids[y]].to_numpy())
            for value in (np.log2(about["n_words"]), about["agent_family"].eq("own").astype(float))
        )
        better = rng.random(len(cases)) < 0.6
        copies = x == "bullets"
        ahead = effect * (longer + own + copies) / (1 - TIES)
        ahead += 0 if copies else right * np.where(better, 1, -1)
        ahead += shift + rng.uniform(-of_pair, of_pair, len(cases))
        for first, second, sign in ((x, y, 1), (y, x, -1)):
            chance = 0.5 + ahead + sign * place * effect / 2 / (1 - TIES)
            winner = ids[x].where(_drawn(rng, chance), ids[y])
            parts.append(
                cases.assign(
                    first=ids[first], second=ids[second],
                    winner=winner.mask(rng.random(len(cases)) < TIES, "tie"),
                    gold_winner=None if copies else ids[x].where(better, ids[y]),
                )
            )  # fmt: skip
    same, place = cases["case_id"] + "/a", effect / 2 / (1 - TIES_IF_IDENTICAL)
    winner = np.where(_drawn(rng, np.full(len(cases), 0.5 + place)), "first", "second")
    tied = rng.random(len(cases)) < TIES_IF_IDENTICAL
    parts.append(cases.assign(first=same, second=same, winner=np.where(tied, "tie", winner)))
    made = pd.concat(parts, ignore_index=True)
    return made.assign(grader=made["skill"], grader_family="own")


def _of_case(rng: np.random.Generator, frame: pd.DataFrame, half: float) -> Floats:
    """Draw one value per question and return it for each row."""
    codes, cases = pd.factorize(frame["case_id"])
    return rng.uniform(-half, half, len(cases))[codes]


def _drawn(rng: np.random.Generator, chance: Floats) -> Floats:
    """Draw from chances, which must lie between 0 and 1: cut ones would change the effects."""
    if np.min(chance) < 0 or np.max(chance) > 1:
        raise ValueError(f"chances from {np.min(chance):.3f} to {np.max(chance):.3f}")
    return rng.random(len(chance)) < chance
