"""Which estimator is recommended, and the rows that say so."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Literal

import pandas as pd

from skillcomp.correction.drawing import doubts
from skillcomp.correction.errors import Errors
from skillcomp.correction.estimators import ESTIMATORS, Arm, unrecorded
from skillcomp.correction.tables import VALUES, Tables, key_of
from skillcomp.errors import FrameError, suggest
from skillcomp.estimates import row
from skillcomp.stats.results import Interval, undefined

Method = Literal["auto", "naive", "gold_only", "rogan_gladen_pooled", "rogan_gladen_by_arm", "ppi"]
Drawn = Literal["random", "chosen"]

# The prediction-powered interval was measured from this many cases on.
FEWEST_GOLD = 10
# Gold alone is preferred when its interval is narrower by a tenth. Taking the narrower of two
# whatever the distance is a choice by chance where they are alike, and cost a point of coverage.
CLEARLY = 0.9
# The words by which the prediction-powered note names the two errors it imagines.
SAFEGUARD = "imagined errors"
FEW_ERRORS = "few errors of the grader seen: the interval rests on two imagined ones"
LEADING = ("estimator", "recommended", "reason", "n_gold")


def checked(method: str, gold_drawn: str) -> tuple[str, ...]:
    """Return the estimators to give, or raise FrameError for an unknown word."""
    allowed = ("auto", *ESTIMATORS)
    drawn = ("random", "chosen")
    for name, found, words in (("method", method, allowed), ("gold_drawn", gold_drawn, drawn)):
        if found not in words:
            raise FrameError(
                f"{name}: found {found!r}; allowed: {', '.join(words)}."
                + suggest(str(found), words)
            )
    return ESTIMATORS if method == "auto" else (method,)


def complete(arms: list[Arm]) -> bool:
    """Whether gold is on every check of every attempt, so that nothing is left to estimate."""
    return all(
        len(arm.cases) and bool((arm.cases["n_whole"] >= arm.cases["size"]).all()) for arm in arms
    )


def choose(
    arms: Mapping[str, Arm],
    found: Mapping[str, Interval],
    n_gold: int,
    gold_drawn: Drawn,
    *,
    clearly: float = CLEARLY,
    strays: str = "",
    settled: str = "",
) -> tuple[str, str]:
    """Return the recommended estimator, or an empty name, and the reason.

    Parameters
    ----------
    arms : mapping of str to Arm
        Cases of each condition concerned.
    found : mapping of str to Interval
        Every estimate.
    n_gold : int
        Cases with gold.
    gold_drawn : {"random", "chosen"}
        Whether chance decided which cases carry gold.
    clearly : float
        Share of the prediction-powered width below which gold alone is preferred; 0 for never.
    strays : str
        What to say of gold labels that match no attempt, where nothing can be recommended.
    settled : str
        What to say of how the labels of several labellers were settled.

    Returns
    -------
    tuple of str
        Estimator and reason.

    Notes
    -----
    Between ``ppi`` and ``gold_only`` the widths decide, so the choice depends on the data. The
    rule of a tenth is kept because the chosen interval covered in simulation
    (``test_coverage_of_the_recommended_interval_over_designs``); the narrower of the two whatever
    the distance lost a point. Gold alone weighs cases equally, so it is never preferred where they
    were drawn with unequal chances.
    """
    name, why = _without_a_draw(arms, found, n_gold, gold_drawn) or _by_a_draw(
        arms, found, n_gold, clearly
    )
    parts = (why, _partly(arms), settled, "" if name else strays)
    return name, "; ".join(filter(None, parts))


def _without_a_draw(
    arms: Mapping[str, Arm], found: Mapping[str, Interval], n_gold: int, gold_drawn: Drawn
) -> tuple[str, str] | None:
    """Choose where it does not matter how gold was drawn, or where there is too little of it."""
    without = [name for name, arm in arms.items() if arm.n_gold == 0]
    if without:
        return "", f"no gold in condition '{without[0]}': the grader's errors there are unknown"
    if complete(list(arms.values())) and not math.isnan(found["gold_only"].low):
        return "gold_only", "every attempt carries gold: the grader is not needed"
    if gold_drawn == "chosen":
        if math.isnan(found["rogan_gladen_by_arm"].low):
            return "", "gold was chosen, and an arm lacks gold passes or gold fails"
        return "rogan_gladen_by_arm", (
            "gold was chosen, not drawn: right if the error rates of each arm carry over to its "
            "other attempts"
        )
    if n_gold < FEWEST_GOLD:
        return "", f"{n_gold} cases with gold, fewer than {FEWEST_GOLD}: label more"
    unknown = unrecorded(arms.values())
    return ("", unknown) if unknown else None


def _by_a_draw(
    arms: Mapping[str, Arm], found: Mapping[str, Interval], n_gold: int, clearly: float
) -> tuple[str, str]:
    """Choose between the two estimators that take gold as drawn at random."""
    ppi, gold_only = (found[name].high - found[name].low for name in ("ppi", "gold_only"))
    equal = all(arm.equal_chances for arm in arms.values())
    if math.isnan(ppi) and (math.isnan(gold_only) or not equal):
        return "", found["ppi"].note
    given = f"gold on {n_gold} cases, taken as drawn at random (gold_drawn='random')"
    name, why = "ppi", ""
    if not equal:
        why = "cases drawn with unequal chances, which gold alone does not weigh"
    elif math.isnan(ppi) or gold_only < clearly * ppi:
        name, why = "gold_only", _gain(found["ppi"])
    imagined = name == "ppi" and SAFEGUARD in found["ppi"].note
    rests = FEW_ERRORS if imagined else "nothing assumed of the grader's errors"
    return name, "; ".join(filter(None, (given, rests, why, doubts(arms))))


def _gain(ppi: Interval) -> str:
    """Say why gold alone is the more precise."""
    if math.isnan(ppi.low):
        return "no prediction-powered interval"
    if SAFEGUARD in ppi.note:
        return (
            "narrower by a tenth than ppi, whose interval carries a safeguard for few errors of "
            "the grader"
        )
    return "narrower by a tenth than ppi: the verdicts add nothing to gold here"


def _partly(arms: Mapping[str, Arm]) -> str:
    """Say how many attempts carry gold on a part of their checks only, "" where none does."""
    tables = [arm.cases for arm in arms.values()]
    sparse = int(sum(table["n_sparse"].sum() for table in tables))
    part = int(sum((table["n_gold"] - table["n_whole"]).sum() for table in tables))
    said = []
    if sparse:
        said.append(f"gold on too few checks of {sparse} attempts, left out")
    if part:
        said.append(f"gold on a part of the checks of {part} attempts")
    return "; ".join(said)


def looked_up(
    made: Tables,
    analysis: Callable[..., pd.DataFrame],
    source: Literal["grader", "gold"],
    ci_level: float,
    **how: Any,
) -> Callable[[Mapping[str, Any]], Interval]:
    """Run an analysis of outcomes for every group at once and return a look-up of its rows.

    Parameters
    ----------
    made : Tables
        The study.
    analysis : callable
        :func:`skillcomp.deltas.rates` or :func:`skillcomp.deltas.paired`.
    source : {"grader", "gold"}
        Whose outcomes.
    ci_level : float
        Level of the interval.
    **how : object
        Further arguments of the analysis.

    Returns
    -------
    callable
        From the columns that name a row to its Interval, NaN where there is none.
    """
    given = made.outcomes(source)
    names = [*made.by, "condition"]
    lacking = "reference" in how and not given["condition"].eq(how["reference"]).any()
    label = "gold alone" if source == "gold" else "the grader as it is"
    rows: dict[tuple[Any, ...], Interval] = {}
    if len(given) and not lacking:
        value = VALUES[made.unit]
        table = analysis(given, by=made.by, value=value, ci_level=ci_level, **how)
        for one in table.to_dict("records"):
            named = {str(name): value for name, value in one.items()}
            rows[key_of(named, names)] = _interval(named, label)
    nothing = undefined(label, f"no outcome by {source}", ci_level=ci_level, n=0.0)
    return lambda values: rows.get(key_of(values, names), nothing)


def _interval(one: Mapping[str, Any], label: str) -> Interval:
    return Interval(
        one["estimate"],
        one["ci_low"],
        one["ci_high"],
        one["ci_level"],
        f"{label}, {one['method']}",
        one["note"],
        n=one["n"],
        n_clusters=one["n_clusters"],
        p_value=one["p_value"],
    )


def rows_of(
    measure: str,
    found: Mapping[str, Interval],
    wanted: tuple[str, ...],
    choice: tuple[str, str],
    columns: Mapping[str, Any],
) -> list[dict[str, Any]]:
    """Return one row per wanted estimator with the recommendation."""
    name, reason = choice
    return [
        row(measure, found[one], **columns)
        | {"estimator": one, "recommended": one == name, "reason": reason}
        for one in wanted
    ]


def error_columns(own: Errors, prefix: str = "") -> dict[str, float]:
    """Return sensitivity and specificity as columns."""
    return {
        f"{prefix}sensitivity": own.sensitivity.estimate,
        f"{prefix}specificity": own.specificity.estimate,
    }
