"""What gold and grader say of the same cases, as paired differences."""

from __future__ import annotations

from typing import Any, Literal

import pandas as pd

from skillcomp.contracts import check
from skillcomp.errors import FrameError, suggest
from skillcomp.estimates import groups, require_columns, require_one_grader

Unit = Literal["behaviour", "attempt"]
_ADJUDICATED = "adjudicated"


def case_differences(
    verdicts: pd.DataFrame, gold: pd.DataFrame, names: list[str], unit: Unit, reference: str
) -> list[tuple[dict[str, Any], pd.DataFrame]]:
    """Return the differences of each case, by group and condition.

    Each frame holds one row per case with verdicts in both arms: ``gold`` (NaN without gold in
    both), ``grader`` over all repeats, ``on_gold`` over the repeats with gold, ``n_checks``.
    """
    if unit not in ("behaviour", "attempt"):
        raise FrameError(
            f"unit: found '{unit}'; allowed: 'behaviour', 'attempt'."
            + suggest(str(unit), ["behaviour", "attempt"])
        )
    given, labels = check(verdicts, "verdicts"), _one_labeller(check(gold, "gold"))
    require_columns(given, names, "planning.gold_needed")
    require_one_grader(given, names, "planning.gold_needed")
    found: list[tuple[dict[str, Any], pd.DataFrame]] = []
    for values, part in groups(given, names):
        table = _case_shares(part, labels, unit)
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
            difference = difference.loc[difference["grader"].notna()].copy()
            difference["n_checks"] = arm["n_checks"].reindex(difference.index)
            found.append(({**values, "condition": condition}, difference))
    return found


def _one_labeller(labels: pd.DataFrame) -> pd.DataFrame:
    names = list(labels["labeller"].dropna().unique())
    if _ADJUDICATED in names:
        return labels[labels["labeller"].eq(_ADJUDICATED)]
    if len(names) > 1:
        raise FrameError(
            f"gold: several labellers and none '{_ADJUDICATED}': {', '.join(names)}. Select one."
        )
    return labels


def _case_shares(part: pd.DataFrame, labels: pd.DataFrame, unit: Unit) -> pd.DataFrame:
    """Return one row per case and condition: gold, grader, on_gold, n_checks."""
    both = part.merge(
        labels[["attempt_id", "check_id", "passed"]].rename(columns={"passed": "label"}),
        on=["attempt_id", "check_id"],
        how="left",
    )
    numbers = both.assign(
        grader=both["passed"].astype("float64"), gold=both["label"].astype("float64")
    )
    whole = "mean" if unit == "behaviour" else "min"
    keys = ["case_id", "condition"]
    attempts = numbers.groupby([*keys, "attempt_id"], sort=False).agg(
        grader=("grader", whole), gold=("gold", whole), n_checks=("check_id", "nunique")
    )
    attempts["on_gold"] = attempts["grader"].where(attempts["gold"].notna())
    return attempts.groupby(level=keys, sort=False).mean()
