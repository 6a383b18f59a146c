"""Searches for the smallest effect a plan shows and the fewest cases that show an effect."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from skillcomp.planning.cells import (
    CALM,
    KNOWN,
    Cell,
    Ruler,
    outside,
    problem_of,
    room,
    variance_and_df,
)
from skillcomp.stats.power import t_mde
from skillcomp.stats.results import Interval, undefined

MOST_CASES = 2000  # per skill: a search beyond this has no practical answer
_STEP = 5e-4  # a minimum detectable effect is found to this width


def smallest_effect(cell: Cell, ruler: Ruler, power: float) -> Interval:
    """Return the smallest effect that the plan of a cell shows with the wanted power."""
    if cell.problem:
        return undefined(ruler.name, cell.problem, ci_level=ruler.ci_level)
    if ruler.method == "formula":
        variance, df = variance_and_df(cell.plan, cell.known)
        if not variance > 0:
            return undefined(ruler.name, CALM, ci_level=ruler.ci_level)
        size = t_mde(variance, df, power=power, alpha=1 - ruler.ci_level)
        return Interval(size, math.nan, math.nan, ruler.ci_level, ruler.name, KNOWN)
    sign = -1.0 if cell.plan.effect == "gap" else 1.0
    most = room(cell, sign)
    best = ruler.power(cell.plan, cell.known, sign * most) if most > 0 else None
    if best is None or not best.estimate >= power:
        note = f"no {cell.plan.effect} is possible at these rates"
        if best is not None:
            note = (
                f"even the largest possible {cell.plan.effect}, {most:.3f}, has a power of "
                f"{best.estimate:.2f}"
            )
        return undefined(ruler.name, note, ci_level=ruler.ci_level)
    low, high, noted = 0.0, most, best
    while high - low > _STEP:
        middle = (low + high) / 2
        found = ruler.power(cell.plan, cell.known, sign * middle)
        low, high = (low, middle) if found.estimate >= power else (middle, high)
        noted = found if found.estimate >= power else noted
    return _answer(high, noted, ruler)


def _answer(value: float, at: Interval, ruler: Ruler) -> Interval:
    """Return the answer of a search with the method and notes of the power at its end."""
    note = "; ".join(filter(None, dict.fromkeys([KNOWN, at.note])))
    method = at.method if math.isnan(at.low) else ruler.name
    return Interval(value, math.nan, math.nan, ruler.ci_level, method, note)


def fewest_cases(cell: Cell, ruler: Ruler, size: float, power: float) -> Interval:
    """Return the fewest cases per skill that show an effect with the wanted power."""
    problem = cell.problem or outside(cell, size, ruler) or ("" if size else "a size of 0")
    if problem:
        return undefined(ruler.name, problem, ci_level=ruler.ci_level)

    def reaches(n: int, judge: Ruler) -> bool:
        plan = replace(cell.plan, n_cases=n)
        if problem_of(plan):
            return False
        return judge.power(plan, cell.known, size).estimate >= power

    formula = replace(ruler, method="formula")
    if ruler.method == "formula" and not variance_and_df(cell.plan, cell.known)[0] > 0:
        return undefined(ruler.name, CALM, ci_level=ruler.ci_level)
    guess = _smallest(lambda n: reaches(n, formula), 1)
    if guess is None and cell.plan.cluster == "skill":
        variance, _ = variance_and_df(replace(cell.plan, n_cases=MOST_CASES), cell.known)
        note = (
            f"no number of cases is enough: {cell.plan.n_skills} skills differ too much from each "
            f"other (standard error {math.sqrt(variance):.3f} with {MOST_CASES} cases each)"
        )
        return undefined(ruler.name, note, ci_level=ruler.ci_level)
    found = guess
    if ruler.method == "simulation":
        found = _smallest(lambda n: reaches(n, ruler), guess or MOST_CASES)
    if found is None:
        note = f"more than {MOST_CASES} cases per skill"
        return undefined(ruler.name, note, ci_level=ruler.ci_level)
    at = ruler.power(replace(cell.plan, n_cases=found), cell.known, size)
    return _answer(float(found), at, ruler)


def _smallest(enough: Callable[[int], bool], guess: int) -> int | None:
    """Return the smallest number from 1 that is enough, searching outward from a guess."""
    low, high = 0, min(max(guess, 1), MOST_CASES)
    while not enough(high):
        if high == MOST_CASES:
            return None
        low, high = high, min(2 * high, MOST_CASES)
    step = max(high // 8, 1)
    while low == 0 and high > 1:
        trial = max(high - step, 1)
        low, high, step = (0, trial, 2 * step) if enough(trial) else (trial, high, step)
    while high - low > 1:
        trial = (low + high) // 2
        low, high = (low, trial) if enough(trial) else (trial, high)
    return high
