"""Graders: who decides about the checks of an answer; each loads on first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skillcomp.live.graders.comprehension import (
        ComprehensionGrader,
        GraderWarning,
        Grading,
        LiveGrader,
    )
    from skillcomp.live.graders.gold import GoldAnswer
    from skillcomp.live.graders.replay import ReplayGrader

__all__ = [
    "ComprehensionGrader",
    "GoldAnswer",
    "GraderWarning",
    "Grading",
    "LiveGrader",
    "ReplayGrader",
]
_WHERE = {"GoldAnswer": "gold", "ReplayGrader": "replay"}


def __getattr__(name: str) -> Any:
    if name in __all__:
        where = _WHERE.get(name, "comprehension")
        return getattr(import_module(f"{__name__}.{where}"), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
