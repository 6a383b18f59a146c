"""Whether gold looks as if chance had drawn it, as far as the grader's own verdicts can tell."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from skillcomp.correction.estimators import Arm
from skillcomp.stats.score import quantile

# Of gold that chance drew, one in a thousand is doubted: a table of many rows must not cry wolf.
DOUBTED = 0.001


def doubts(arms: Mapping[str, Arm]) -> str:
    """Say where the grader passes clearly more or less where gold is, "" where it does not.

    Parameters
    ----------
    arms : mapping of str to Arm
        Cases of each condition concerned.

    Returns
    -------
    str
        One part per doubtful condition. Empty where cases were drawn with unequal chances, which
        may make them differ.

    Notes
    -----
    Cases with gold are held against the others by the spread that a draw of cases has; where every
    case has gold on a part of its repeats, these repeats against all of the case. One draw in a
    thousand is doubted, the conditions together. Gold that is chosen by what the grader cannot see
    passes unnoticed.
    """
    reach = quantile(1.0 - DOUBTED / max(len(arms), 1))
    told = (_doubt(name, arm, reach) for name, arm in arms.items() if arm.equal_chances)
    return "; ".join(filter(None, told))


def _doubt(name: str, arm: Arm, reach: float) -> str:
    table = arm.cases[arm.cases["verdict"].notna()]
    has = table["gold"].notna()
    if not has.any():
        return ""
    if not has.all():
        inside, outside = table.loc[has, "verdict"], table.loc[~has, "verdict"]
        spread = float(table["verdict"].std()) * math.sqrt(1 / len(inside) + 1 / len(outside))
        there, where = (float(inside.mean()), float(outside.mean())), "of the other cases"
    else:
        part = table[table["n_gold"].eq(table["n_whole"]) & table["n_gold"].lt(table["size"])]
        part = part[part["seen"].notna()]
        if part.empty:
            return ""
        seen, every = part["seen"], part["verdict"]
        spread = float(np.sqrt(((seen - every) ** 2).sum())) / len(part)
        there, where = (float(seen.mean()), float(every.mean())), "of all answers of these cases"
    if abs(there[0] - there[1]) <= reach * spread + 1e-9:
        return ""
    return (
        f"check that chance drew the gold: the grader passes {there[0]:.0%} with gold and "
        f"{there[1]:.0%} {where} ('{name}')"
    )
