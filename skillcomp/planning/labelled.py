"""What gold and grader say of the same cases, as paired differences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from skillcomp.contracts import check
from skillcomp.correction.tables import Unit, key_of, strays_of, tables
from skillcomp.errors import FrameError, suggest
from skillcomp.estimates import groups
from skillcomp.labels import one_label

__all__ = ["Labelled", "Unit", "case_differences"]


@dataclass(frozen=True)
class Labelled:
    """The paired differences of one group and condition.

    Attributes
    ----------
    about : dict
        The values that name the group, and the condition.
    cases : pandas.DataFrame
        One row per case with verdicts in both arms: ``gold`` (NaN without gold in both),
        ``grader`` over all repeats, ``on_gold`` over what carries gold.
    n_checks : float
        Checks of a case, on average.
    """

    about: dict[str, Any]
    cases: pd.DataFrame
    n_checks: float


def case_differences(
    verdicts: pd.DataFrame, gold: pd.DataFrame, names: list[str], unit: Unit, reference: str
) -> list[Labelled]:
    """Return the differences of each case, by group and condition.

    Attempts are judged as in :mod:`skillcomp.correction`: a failed grader says nothing, and an
    attempt passes only where every check of it is known to.
    """
    joined = tables(verdicts, gold, by=names, unit=unit, cases=None, what="planning.gold_needed")
    checks = {
        key_of(values, names): float(part.groupby("case_id")["check_id"].nunique().mean())
        for values, part in groups(joined.items, names)
    }
    found: list[Labelled] = []
    for values, part in groups(joined.cases, names):
        columns = {"gold": "gold", "verdict": "grader", "seen": "on_gold"}
        table = part.set_index(["case_id", "condition"])[list(columns)].rename(columns=columns)
        arms = list(table.index.unique("condition"))
        if reference not in arms:
            raise FrameError(
                f"reference: there is no condition '{reference}'; there: {', '.join(arms)}."
                + suggest(reference, arms)
            )
        base = table.xs(reference, level="condition")
        for condition in arms:
            if condition == reference:
                continue
            arm = table.xs(condition, level="condition")
            difference = pd.DataFrame(arm - base)
            difference = difference.loc[difference["grader"].notna()]
            about = {**values, "condition": condition}
            found.append(Labelled(about, difference, checks[key_of(values, names)]))
    return found


def unmatched(verdicts: pd.DataFrame, gold: pd.DataFrame) -> str:
    """Return how many gold labels belong to no attempt of the verdicts, or an empty string."""
    labels = one_label(check(gold, "gold"), "planning.gold_needed")
    return strays_of(check(verdicts, "verdicts"), labels)
