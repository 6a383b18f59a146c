"""How large a study must be: components of variance, power, cases, gold."""

from __future__ import annotations

from skillcomp.planning.components import variance_components
from skillcomp.planning.gold import gold_needed

__all__ = ["gold_needed", "variance_components"]
