"""Stopping before the money is spent, not after."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable
from typing import Any

from skillcomp.errors import StudyError
from skillcomp.live.reply import Agent, Reply
from skillcomp.pricing import Usage, cost, price

__all__ = ["PAID", "Budget", "batch_cost", "upper_cost"]

# What came back from a model and is charged for, whatever its use.
PAID = frozenset({"ok", "refused", "truncated", "paused"})
_CHARACTERS = 2.5  # a token; plain text has about four, so this overstates the tokens
_SAFETY = 2.0  # times the dearest call seen, where no price is known beforehand


def upper_cost(agent: Agent, *texts: str | None, batch: bool = False) -> float:
    """Return what a call can cost at most, in dollars; NaN where that cannot be said beforehand.

    Parameters
    ----------
    agent : Agent
        Its model gives the price, its settings the limit of the answer (``max_tokens``).
    *texts : str or None
        All that is sent.
    batch : bool, default False
        Asked through a batch.

    Returns
    -------
    float
        Prompt at one token for 2.5 characters, all of it written to a cache, and the longest
        answer that is allowed.
    """
    limit = json.loads(agent.settings or "{}").get("max_tokens")
    if agent.model is None or not isinstance(limit, int):
        return math.nan
    n_tokens = sum(len(text) for text in texts if text) / _CHARACTERS
    prices = getattr(agent, "prices", ())
    row = price(agent.model, prompt_tokens=n_tokens, prices=prices)
    cached = n_tokens if row is not None and not math.isnan(row.cache_write_1h) else 0.0
    usage = Usage(n_tokens, limit, 0, cached, cached)
    return cost(usage, agent.model, batch=batch, prices=prices).usd


def batch_cost(agent: Agent, budget: Budget) -> Callable[[dict[str, Any]], float]:
    """Return a function from the body of a request to what it can cost at most in a batch."""

    def estimate(body: dict[str, Any]) -> float:
        if budget.limit is None:
            return 0.0
        texts = [body["messages"][0]["content"]]
        texts += [block["text"] for block in body.get("system", [])]
        return upper_cost(agent, *texts, batch=True)

    return estimate


class Budget:
    """Dollars that may be spent; every call under way has its highest cost put aside.

    Parameters
    ----------
    limit : float or None
        Dollars in all; None for no limit.
    spent : float, default 0
        Dollars of the study so far, from the store.

    Raises
    ------
    StudyError
        When the limit is not a positive number.
    """

    def __init__(self, limit: float | None, *, spent: float = 0.0) -> None:
        if limit is not None and not 0 < limit < math.inf:
            raise StudyError(f"budget_usd is {limit!r}; allowed: a number of dollars above 0.")
        self.limit, self.spent = limit, spent
        self.exhausted: str | None = None  # why no further call fits
        self._aside = 0.0
        self._under_way = 0
        self._dearest = math.nan
        self._changed = asyncio.Condition()

    def fits(self, estimate: float) -> float | None:
        """Put the estimate of one call aside and return it; None when it does not fit now."""
        if self.limit is None:
            return 0.0
        free = self.limit - self.spent - self._aside
        if math.isnan(estimate):
            # nothing is known of the first call, so it takes all there is and goes alone
            seen = not math.isnan(self._dearest)
            estimate = self._dearest * _SAFETY if seen else max(free, 0.0)
            if not seen and self._under_way:
                return None
        if self.exhausted or free <= 0 or estimate > free:
            return None
        self._aside += estimate
        self._under_way += 1
        return estimate

    def hold(self, usd: float) -> float:
        """Put aside what is under way already, whether it fits or not, and return it."""
        if self.limit is None:
            return 0.0
        self._aside += usd
        self._under_way += 1
        return usd

    async def take(self, estimate: float) -> float | None:
        """Wait until an estimate fits and put it aside; None when it never will."""
        async with self._changed:
            while (aside := self.fits(estimate)) is None:
                if self.exhausted or not self._under_way:
                    self.exhausted = self.exhausted or self._told(estimate)
                    return None
                await self._changed.wait()
        return aside

    async def settle(self, aside: float, reply: Reply | None) -> None:
        """Book what a call has cost and free what was put aside for it."""
        if self.limit is None:
            self.spent += (reply.cost_usd or 0.0) if reply else 0.0
            return
        async with self._changed:
            self._aside -= aside
            self._under_way -= 1
            if reply is not None and reply.cost_usd is not None:
                self.spent += reply.cost_usd
                self._dearest = max(self._dearest, reply.cost_usd)
                if math.isnan(self._dearest):
                    self._dearest = reply.cost_usd
            elif reply is not None and reply.status in PAID:
                self.exhausted = (
                    "the cost of an answer is not known "
                    f"({reply.cost_note or 'not reported'}), so budget_usd cannot be kept; give "
                    "prices= to the agent or leave budget_usd out"
                )
            self._changed.notify_all()

    def _told(self, estimate: float) -> str:
        left = (self.limit or 0.0) - self.spent
        return (
            f"budget_usd {self.limit:g}: {self.spent:.4f} are spent and the next call may cost "
            f"up to {estimate if not math.isnan(estimate) else self._dearest * _SAFETY:.4f} "
            f"({max(left, 0.0):.4f} left)"
        )
