"""Agents: what can be asked, whichever way it is reached.

All keep the protocol `Agent` and give back the same `Reply`. Each loads on first use, since an SDK
takes a second.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from skillcomp.live.agents.reply import Agent, Cell, Reply, family_of

if TYPE_CHECKING:
    from skillcomp.live.agents.anthropic import AnthropicAgent
    from skillcomp.live.agents.asking import RetryPolicy
    from skillcomp.live.agents.cli import CliAgent
    from skillcomp.live.agents.openai import OpenAIAgent
    from skillcomp.live.agents.replay import ReplayAgent

__all__ = [
    "Agent",
    "AnthropicAgent",
    "Cell",
    "CliAgent",
    "OpenAIAgent",
    "ReplayAgent",
    "Reply",
    "RetryPolicy",
    "family_of",
]
_WHERE = {
    "AnthropicAgent": "anthropic",
    "CliAgent": "cli",
    "OpenAIAgent": "openai",
    "ReplayAgent": "replay",
    "RetryPolicy": "asking",
}


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
