"""Every reply a grader is given goes through the store: kept at once, and never paid for twice."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from copy import copy
from typing import Any

from pydantic import BaseModel

from skillcomp.live.budget import Budget, at_most, shape_text, upper_cost
from skillcomp.live.graders import Grader
from skillcomp.live.loop import interruption
from skillcomp.live.reply import Agent, Cell, Reply
from skillcomp.records import Skill

__all__ = ["NeedsReply", "NoMoney", "Recorder", "reply_of", "through"]


class NeedsReply(Exception):
    """A grader asks something that has to go into a batch first.

    Attributes
    ----------
    parts : dict
        prompt, system and schema.
    """

    def __init__(self, parts: dict[str, Any]) -> None:
        super().__init__("to be asked in a batch")
        self.parts = parts


class NoMoney(Exception):
    """The next question does not fit into the budget."""


class Recorder:
    """An agent that gives the replies the store has, then asks and has them stored.

    Parameters
    ----------
    agent : Agent
        Who is asked.
    kept : list of Reply
        Replies to the same questions from an earlier process, in order.
    book : callable, optional
        Stores a reply and returns once it is on the disk. Without it nothing is asked:
        `NeedsReply` is raised.
    budget : Budget
        Of the run.
    """

    def __init__(
        self,
        agent: Agent,
        kept: list[Reply],
        book: Callable[[Reply], Awaitable[None]] | None,
        budget: Budget,
    ) -> None:
        self.name, self.model, self.family = agent.name, agent.model, agent.family
        self.settings = agent.settings
        self._agent, self._kept, self._book, self._budget = agent, list(kept), book, budget

    async def ask(
        self,
        prompt: str,
        *,
        skill: Skill | None = None,
        system: str | None = None,
        schema: type[BaseModel] | None = None,
        cell: Cell | None = None,
    ) -> Reply:
        """Return the next kept reply, or ask; see `Agent.ask`."""
        if self._kept:
            return self._kept.pop(0)
        if self._book is None:
            raise NeedsReply({"prompt": prompt, "system": system, "schema": schema})

        def estimate() -> float:
            shape = shape_text(schema) if schema is not None else None
            return upper_cost(self._agent, prompt, system, shape)

        aside = await self._budget.take(estimate() if self._budget.limit is not None else 0.0)
        if aside is None:
            raise NoMoney(self._budget.exhausted or "budget_usd")
        reply = None
        try:
            if stop := interruption():
                stop.check()
            reply = await self._agent.ask(prompt, skill=skill, system=system, schema=schema)
            reply = at_most(reply, estimate)
            await self._book(reply)
        finally:
            await self._budget.settle(aside, reply)
        return reply

    async def aclose(self) -> None:
        """Leave the agent open: others use it."""


def through(
    grader: Grader,
    kept: list[Reply],
    book: Callable[[Reply], Awaitable[None]] | None,
    budget: Budget,
) -> Grader:
    """Return a copy of a grader whose questions go through a `Recorder`.

    A grader that has no agent is returned as it is.
    """
    agent = getattr(grader, "agent", None)
    if agent is None:
        return grader
    double = copy(grader)
    double.agent = Recorder(agent, kept, book, budget)  # type: ignore[attr-defined]
    return double


def reply_of(row: Mapping[str, Any]) -> Reply:
    """Return the reply that a line of the table ``replies`` holds."""
    return Reply(**{name: row[name] for name in Reply.model_fields if name in row})
