"""Ask whether a Skill teaches an agent, and whether the grader that says so can be trusted.

``import skillcomp as sc`` is light: every part below loads on first use.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version as _version
from typing import Any

__version__ = _version("skillcomp")

_MODULES = (
    "bias",
    "contracts",
    "correction",
    "deltas",
    "errors",
    "estimates",
    "explore",
    "export",
    "frames",
    "io",
    "live",
    "ngrams",
    "overlap",
    "planning",
    "plots",
    "pricing",
    "records",
    "reliability",
    "report",
    "simulate",
    "skillverdicts",
    "stats",
    "style",
    "transfer",
)
# name -> module that owns it
_NAMES = {
    "RunStore": "skillcomp.io.store",
    "read_skill": "skillcomp.io.skills",
    "read_suite": "skillcomp.io.suites",
    "perturb_suite": "skillcomp.live.perturb",
    "AnthropicAgent": "skillcomp.live.agents",
    "OpenAIAgent": "skillcomp.live.agents",
    "CliAgent": "skillcomp.live.agents",
    "ReplayAgent": "skillcomp.live.agents",
    "ReplayGrader": "skillcomp.live.replay_grader",
    "ComprehensionGrader": "skillcomp.live.graders",
    "run": "skillcomp.live.runner",
    "grade": "skillcomp.live.grading",
    "regrade": "skillcomp.live.grading",
}

__all__ = ["__version__", *_MODULES, *_NAMES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"skillcomp.{name}")
    if name in _NAMES:
        return getattr(import_module(_NAMES[name]), name)
    raise AttributeError(f"module 'skillcomp' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
