"""How large a study must be: components of variance, power, cases, gold."""

from __future__ import annotations

from skillcomp.planning.components import variance_components
from skillcomp.planning.gold import gold_needed
from skillcomp.planning.power import cases_needed, minimum_detectable_delta, power_curve

__all__ = [
    "cases_needed",
    "gold_needed",
    "minimum_detectable_delta",
    "power_curve",
    "variance_components",
]
