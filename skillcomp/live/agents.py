"""Agents: what can be asked, whichever way it is reached.

All keep the protocol `Agent` and give back the same `Reply`.
"""

from __future__ import annotations

from skillcomp.live.anthropic_agent import AnthropicAgent
from skillcomp.live.cli_agent import CliAgent
from skillcomp.live.openai_agent import OpenAIAgent
from skillcomp.live.replay_agent import ReplayAgent
from skillcomp.live.reply import Agent, Cell, Reply, family_of
from skillcomp.live.retry import RetryPolicy

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
