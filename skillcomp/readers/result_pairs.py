"""Comparisons of two answers become a pairwise frame."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from skillcomp.frames.check import check, empty
from skillcomp.readers.reader import ARM_WORDS, Problems

_FACTS = ("rationale", "grader_family", "grader_version", "order")


def pairwise_of(
    pairs: pd.DataFrame,
    attempts: pd.DataFrame,
    conditions: Mapping[Any, str] | None,
    problems: Problems,
) -> pd.DataFrame:
    """Return comparisons as a pairwise frame, with the ids of the attempts compared.

    A comparison of answers that have no results is left out and reported.
    """
    names = {**ARM_WORDS, **{str(word): name for word, name in (conditions or {}).items()}}
    pairs = pairs.assign(repeat=pairs.get("repeat", 1))
    key = ["skill", "case_id", "condition", "repeat"]
    ids = attempts.drop_duplicates(key).set_index(key)["attempt_id"].to_dict()
    made = []
    for row in pairs.to_dict("records"):
        arms = [names.get(str(row[side]), str(row[side])) for side in ("first", "second")]
        cells = [(row["skill"], str(row["case"]), arm, row["repeat"]) for arm in arms]
        missing = next((cell for cell in cells if cell not in ids), None)
        if missing is not None:
            what = f"case '{missing[1]}': no answer under '{missing[2]}'"
            done = "left out; conditions={'A': 'skill', 'B': 'baseline'} names the arm of each side"
            problems.add("comparison", what, done)
            continue
        first, second = (ids[cell] for cell in cells)
        winner = {"first": first, "second": second, "tie": "tie"}.get(row["winner"])
        position = {"first": 1, "second": 2}.get(row["winner"])
        made.append(
            {"skill": row["skill"], "case_id": str(row["case"]), "first": first, "second": second}
            | {"winner": winner, "winner_position": position}
            | {"grader": row.get("grader") or "comparator"}
            | {name: row[name] for name in _FACTS if name in row}
        )
    if not made:
        return empty("pairwise")
    rows = pd.DataFrame(made)
    if "order" not in rows:
        rows["order"] = (
            rows.groupby(["skill", "case_id", "grader", "first", "second"]).cumcount() + 1
        )
    return check(rows, "pairwise")
