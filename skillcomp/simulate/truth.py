"""The truth of a simulated study as one long frame."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

from skillcomp.simulate.effects import (
    Floats,
    Intercepts,
    Layout,
    Spread,
    Unit,
    case_rates,
    marginal_rate,
)
from skillcomp.simulate.grading import (
    BIASES,
    Grader,
    Items,
    Schedule,
    by_condition,
    feature,
)

COLUMNS = (
    "measure",
    "target",
    "unit",
    "condition",
    "transfer",
    "grader",
    "grader_version",
    "period",
    "value",
)
_TRANSFER = ("near", "far")


def effect_rows(
    plan: Layout, found: Intercepts, spread: Spread, logits: Floats, conditions: list[str]
) -> list[dict[str, Any]]:
    """Rates, deltas and gaps, of the population and of these cases, in both units."""
    rows: list[dict[str, Any]] = []
    units: tuple[Unit, Unit] = ("behaviour", "attempt")
    for unit in units:
        power = plan.n_checks if unit == "attempt" else 1
        by_case = {
            "population": _marginal(plan, found, spread, unit),
            "these_cases": case_rates(logits, spread.attempt, power),
        }
        for target, rates in by_case.items():
            rows += _contrasts(rates, plan, conditions, {"target": target, "unit": unit})
    return rows


def _marginal(plan: Layout, found: Intercepts, spread: Spread, unit: Unit) -> Floats:
    """Return the marginal rate of each case's stratum, case by condition."""
    rates = np.empty((plan.n_cases, found.values.shape[1]))
    for far in (False, True):
        rows = plan.far == far
        if not rows.any():
            continue
        checks, first = plan.checks(rows), int(np.argmax(rows))
        for k in range(rates.shape[1]):
            between = spread.between(treated=k > 0)
            rates[rows, k] = marginal_rate(
                found.values[first, k], between, spread.attempt, checks, unit
            )
    return rates


def _contrasts(
    rates: Floats, plan: Layout, conditions: list[str], about: dict[str, str]
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    strata: list[tuple[str | None, Any]] = [(None, slice(None))]
    strata += [(_TRANSFER[far], plan.far == bool(far)) for far in (0, 1) if (plan.far == far).any()]
    deltas: dict[tuple[str | None, int], float] = {}
    for transfer, where in strata:
        means = rates[where].mean(axis=0)
        for k, condition in enumerate(conditions):
            base = {**about, "condition": condition, "transfer": transfer}
            rows.append({"measure": "pass_rate", "value": means[k], **base})
            if k:
                deltas[transfer, k] = means[k] - means[0]
                rows.append({"measure": "delta", "value": deltas[transfer, k], **base})
    for k, condition in enumerate(conditions[1:], start=1):
        if ("near", k) in deltas and ("far", k) in deltas:
            value = deltas["far", k] - deltas["near", k]
            rows.append({"measure": "gap", "value": value, "condition": condition, **about})
    return rows


def grader_rows(grader: Grader, items: Items, odds: Floats, when: Schedule) -> list[dict[str, Any]]:
    """Error rates as asked and as they are among these verdicts, and the biases."""
    about = {"grader": grader.name, "grader_version": grader.version}
    rows: list[dict[str, Any]] = []
    phases = [(None if grader.drift is None else "before", grader.sensitivity, grader.specificity)]
    if grader.drift is not None:
        phases.append(("after", grader.drift[1], grader.drift[2]))
    for period, sensitivity, specificity in phases:
        for measure, rate in (("sensitivity", sensitivity), ("specificity", specificity)):
            values = by_condition(rate, items.conditions, measure)
            for condition, value in zip(items.conditions, values, strict=True):
                about_rate = {"target": "population", "condition": condition, "period": period}
                rows.append({"measure": measure, "value": value, **about_rate, **about})
    return (
        rows + _realised(grader, items, odds, about) + _bias_rows(grader, items, odds, when, about)
    )


def _realised(
    grader: Grader, items: Items, odds: Floats, about: dict[str, str]
) -> list[dict[str, Any]]:
    chance = expit(odds)
    condition = items.attempts["condition"].to_numpy()[items.row]
    rows = []
    for name in items.conditions:
        here = condition == name
        for measure, which, value in (
            ("sensitivity", here & items.truth, chance),
            ("specificity", here & ~items.truth, 1 - chance),
        ):
            mean = float(value[which].mean()) if which.any() else np.nan
            rows.append(
                {
                    "measure": measure,
                    "target": "these_cases",
                    "condition": name,
                    "value": mean,
                    **about,
                }
            )
    return rows


def _bias_rows(
    grader: Grader, items: Items, odds: Floats, when: Schedule, about: dict[str, str]
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for bias in BIASES:
        slope = grader.coefficient(bias)
        rows.append({"measure": f"{bias}_bias", "value": slope, **about})
        if bias in ("family", "list"):
            without = odds - slope * feature(grader, items, when, bias) if slope else odds
            effect = float((expit(without + slope) - expit(without)).mean())
        else:
            chance = expit(odds)
            effect = float((slope * chance * (1 - chance)).mean())
        rows.append(
            {
                "measure": f"{bias}_effect",
                "target": "these_cases",
                "value": effect,
                **about,
            }
        )
    rows.append({"measure": "position_bias", "value": grader.position_bias, **about})
    return rows


def frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Return the rows as a frame with text columns and a float value."""
    table = {name: [row.get(name) for row in rows] for name in COLUMNS}
    return pd.DataFrame(
        {
            name: pd.array(values, dtype="float64" if name == "value" else "str")
            for name, values in table.items()
        }
    )
