"""How large a study must be, and what it costs: components of variance, power, cases, gold."""

from __future__ import annotations

from skillcomp.planning.assumptions import Assumptions
from skillcomp.planning.components import variance_components
from skillcomp.planning.cost import cost_estimate, cost_total
from skillcomp.planning.gold import gold_needed
from skillcomp.planning.power import cases_needed, minimum_detectable_delta, power_curve

__all__ = [
    "Assumptions",
    "cases_needed",
    "cost_estimate",
    "cost_total",
    "gold_needed",
    "minimum_detectable_delta",
    "power_curve",
    "variance_components",
]


def __dir__() -> list[str]:
    return list(__all__)
