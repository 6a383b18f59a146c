"""Builders of small frames that several test files share."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import pandas as pd

import skillcomp as sc
from benchmarks import simulated


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


def frames_of(study: simulated.Study) -> sc.frames.Frames:
    """A simulated study as frames of one's own."""
    outcomes = sc.frames.outcomes(study.verdicts, study.cases)
    names = ("cases", "attempts", "verdicts", "gold")
    return sc.frames.Frames(outcomes=outcomes, **{name: getattr(study, name) for name in names})


def sentences_on(findings: pd.DataFrame, topic: str) -> str:
    """The sentences of a report on one topic."""
    return " ".join(findings.loc[findings["topic"].eq(topic), "sentence"])


def lenient_judge(n_gold: int = 40, **labeller: str) -> sc.frames.Frames:
    """60 cases, 24 right in both conditions; the judge is more lenient with the skill.

    It passes all right answers, and of the 36 wrong ones 4 in the baseline and 24 with the skill.
    Gold covers 40 cases, of which 16 are right; the judge passes 4 and 14 of the others.
    ``n_gold`` keeps the labels of the first cases in an order that mixes both kinds.
    """
    fooled = {"baseline": set(range(24, 28)), "skill": {*range(24, 38), *range(48, 58)}}
    labelled = sorted([*range(16), *range(24, 48)], key=lambda case: case * 7 % 60)[:n_gold]
    rows = [
        {
            "case": str(case),
            "condition": condition,
            "passed": case < 24 or case in wrong,
            "gold": case < 24 if case in labelled else None,
            **labeller,
        }
        for condition, wrong in fooled.items()
        for case in range(60)
    ]
    roles = {name: name for name in labeller}
    return sc.from_frame(pd.DataFrame(rows).assign(skill="tea"), gold="gold", **roles)


def pair_table(
    n: int = 40, *, wrong: int = 0, first: int = 0, ties: int = 0, orders: int = 2, **columns: Any
) -> pd.DataFrame:
    """Verdicts of one judge on systems x and y in n cases, as a plain table with gold.

    x is better in the even cases. The judge is wrong in the first ``wrong`` cases, prefers the
    answer shown first in the next ``first`` cases and the tie in the next ``ties``; else it is
    right. With one order, x is shown first in every second pair of cases.
    """
    rows = []
    for case in range(n):
        better, worse = ("x", "y") if case % 2 == 0 else ("y", "x")
        shown = [("x", "y"), ("y", "x")]
        for model_a, model_b in shown if orders == 2 else [shown[case // 2 % 2]]:
            winner = better if case >= wrong + first + ties else "tie"
            winner = model_a if case < wrong + first else winner
            winner = worse if case < wrong else winner
            rows.append((str(case), model_a, model_b, winner, better))
    names = ["question_id", "model_a", "model_b", "winner", "gold"]
    return pd.DataFrame(rows, columns=names).assign(judge="j", **columns)


def results(path: Any, **arguments: Any) -> sc.frames.Frames:
    """Results of another tool, read without the warning that lists their problems."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sc.frames.FrameWarning)
        return sc.read_results(path, **arguments)


def problems(frames: sc.frames.Frames, place: str = "") -> str:
    """The problems as text: all of them, or those of one place."""
    rows = frames.problems
    rows = rows[rows["place"].eq(place)] if place else rows
    return " ".join(rows["place"] + ": " + rows["found"] + ": " + rows["done"])
