"""Worlds of two instruments: the datasheet of a judge, and transfer by measured distance."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from skillcomp.bias import datasheet
from skillcomp.transfer import curve

Found = tuple[str, float, float, float]
NOT_SHOWN, NOT_SAID = "not shown", "not said"  # endings of shares without a rule
N, REPEATS = 40, 3
# name of a design -> rate of the nearest case without the skill and its fall to the farthest case,
# delta of the nearest case and its change to the farthest case
CURVES = {
    "level baseline, equal deltas": (0.3, 0.0, 0.3, 0.0),
    "level baseline, deltas fall by 40 points": (0.3, 0.0, 0.5, -0.4),
    "baseline falls by 20 points, equal deltas": (0.5, 0.2, 0.3, 0.0),
    "baseline falls by 20 points, deltas by 40": (0.5, 0.2, 0.45, -0.4),
    "baseline falls by 40 points, equal deltas": (0.5, 0.4, 0.3, 0.0),
    "baseline falls by 40 points, deltas by 40": (0.5, 0.4, 0.45, -0.4),
    "baseline falls by 60 points, equal deltas": (0.75, 0.6, 0.2, 0.0),
}
# effects of a judge: of the place, per doubling of the length, of its own family, and of bullets
JUDGES = {
    "no bias": (0.0, 0.0, 0.0, 0.0),
    "each bias 10 points": (0.1, 0.1, 0.1, 0.1),
    "place 30 points": (0.3, 0.0, 0.0, 0.0),
    "length and form 30 points": (0.0, 0.3, 0.0, 0.3),
    "family 30 points": (0.0, 0.0, 0.3, 0.0),
}


def distances(rng: np.random.Generator, runs: int, *, design: str) -> Iterator[Found]:
    """Draw cases at distances from 0 to 1; rates change with the distance and by case."""
    base, fall, delta, change = CURVES[design]
    for size in [50] * (runs // 50) + [runs % 50] * bool(runs % 50):
        x = rng.uniform(0.0, 1.0, (size, N))
        x[:, [0, -1]] = 0.0, 1.0
        middle, effect = base - fall * x, delta + change * x
        own = np.clip(rng.normal(0, 0.15, x.shape), -middle, 1 - middle)
        own = np.clip(own, -middle - effect, 1 - middle - effect)
        studies = np.repeat([f"s{i}" for i in range(size)], N)
        cases = pd.DataFrame({"skill": studies, "x": x.ravel()})
        cases["case_id"] = [f"{name}/{i}" for i, name in enumerate(studies)]
        parts = [
            cases.assign(condition=condition, repeat=repeat, passed=rng.random(len(cases)) < rate)
            for condition, rates in (("baseline", middle + own), ("skill", middle + own + effect))
            for rate in [rates.ravel()]
            for repeat in range(1, REPEATS + 1)
        ]
        rows = curve(pd.concat(parts, ignore_index=True), distance="x", bins=1, by=["skill"])
        slopes = rows[rows["measure"].eq("delta_slope")]
        for low, high, note in slopes[["ci_low", "ci_high", "note"]].itertuples(index=False):
            yield "slope of the delta", change, low, high
            shown = low > 0 or high < 0
            yield f"slope of the delta {NOT_SHOWN}", 0.0, float(not shown), float(not shown)
            said = "cannot be separated" in note
            yield f"difficulty {NOT_SAID}", 0.0, float(not said), float(not said)


def judge(rng: np.random.Generator, runs: int, *, n: int, design: str) -> Iterator[Found]:
    """Draw the choices of judges between two systems, an answer and itself, and its copy."""
    place, length, family, form = JUDGES[design]
    truths = {
        "shown first": 100 * place,
        "first of identical answers wins": 0.5 + place / 2,
        "copy as bullets in pairs": 0.5 + form,
        "length per doubling in pairs (a preference)": 100 * length,
        "own family in pairs (a preference)": 100 * family,
    }
    for size in [25] * (runs // 25) + [runs % 25] * bool(runs % 25):
        judges = np.repeat([f"j{i}" for i in range(size)], n)
        case = pd.DataFrame({"skill": "s", "grader": judges, "grader_family": "f"})
        case["case_id"] = [f"{name}/{i}" for i, name in enumerate(judges)]
        x, y, copy = (case["case_id"] + name for name in ("/x", "/y", "/x/bullets"))
        words = np.rint(2 ** rng.uniform(6, 10, len(case)))
        other = np.rint(words * 2 ** rng.uniform(-1, 1, len(case)))
        own = rng.normal(0, 0.03, len(case))  # what the judge thinks of a question's answers
        ahead = length * np.log2(words / other) + family + own
        rows = []
        for one, two, gain in ((x, y, ahead), (copy, x, form + own), (x, x, 0.0 * own)):
            for order in (1, -1) if one is not two else (1,):
                chance = np.clip(0.5 + gain + order * place / 2, 0.0, 1.0)
                wins = rng.random(len(case)) < chance
                first, second = (one, two) if order == 1 else (two, one)
                won = np.where(wins == (order == 1), 1, 2)
                rows.append(case.assign(first=first, second=second, winner_position=won))
        of: list[tuple[Any, ...]] = [
            (x, "x", "f", words, None, None),
            (y, "y", "h", other, None, None),
            (copy, "x", "f", words, "bullets", x),
        ]
        names = ["attempt_id", "agent", "agent_family", "n_words", "perturbation",
                 "source_attempt_id"]  # fmt: skip
        attempts = pd.concat(
            [
                case[["skill", "case_id"]].assign(
                    condition="skill", **dict(zip(names, values, strict=True))
                )
                for values in of
            ],
            ignore_index=True,
        )
        sheet = datasheet(None, attempts, pairwise=pd.concat(rows, ignore_index=True))
        sheet = sheet[sheet["property"].isin(truths) & sheet["estimate"].notna()]
        names = ["property", "ci_low", "ci_high", "shown"]
        for name, low, high, shown in sheet[names].itertuples(index=False):
            yield name, truths[name], low, high
            missed = float(pd.isna(shown) or not shown)
            yield f"{name}: {NOT_SHOWN}", 0.0, missed, missed
        any_shown = sheet.groupby("grader")["shown"].any()
        for shown in any_shown:
            yield f"any bias {NOT_SHOWN}", 0.0, float(not shown), float(not shown)
