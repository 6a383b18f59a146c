"""Stopping before the money is spent, not after."""

from __future__ import annotations

import asyncio
import json
import math
import string
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel

from skillcomp.errors import StudyError
from skillcomp.live.agents.reply import PAID, UNREADABLE, Agent, Reply
from skillcomp.pricing import Usage, cost, price

_LETTERS = 2.5  # a token; plain English has about four, so this overstates the tokens
_PLAIN = (string.ascii_letters + " \n").encode()
_FRAME = 200  # tokens around the texts of a call: roles, delimiters, what the service adds
_SAFETY = 2.0  # times the dearest call seen, where no price is known beforehand
_LIMITS = ("max_tokens", "max_completion_tokens")  # how agents call the limit of an answer


def upper_cost(agent: Agent, *texts: str | None, batch: bool = False) -> float:
    """Return what a call can cost at most, in dollars; NaN where that cannot be said beforehand.

    Notes
    -----
    Of one try at list prices. Earlier tries of the same call that the service charged for without
    an answer that could be read, and price changes since the table was read, are not in it.
    """
    settings = json.loads(agent.settings or "{}")
    limit = next((settings[name] for name in _LIMITS if name in settings), None)
    if agent.model is None or not isinstance(limit, int):
        return math.nan
    n_tokens = _FRAME + sum(upper_tokens(text) for text in texts if text)
    prices = getattr(agent, "prices", ())
    row = price(agent.model, prompt_tokens=n_tokens, prices=prices)
    cached = n_tokens if row is not None and not math.isnan(row.cache_write_1h) else 0.0
    usage = Usage(n_tokens, limit, 0, cached, cached)
    return cost(usage, agent.model, batch=batch, prices=prices).usd


def upper_tokens(text: str) -> float:
    """Return how many tokens a text can have at most.

    Examples
    --------
    >>> upper_tokens("tidemarks!"), upper_tokens("潮汐")
    (4.6, 6.0)
    """
    raw = text.encode("utf-8", "surrogatepass")
    n_dense = len(raw.translate(None, _PLAIN))
    return n_dense + (len(raw) - n_dense) / _LETTERS


@cache
def shape_text(schema: type[BaseModel]) -> str:
    """Return the shape of an answer as the text that goes with a call."""
    return json.dumps(schema.model_json_schema())


def batch_cost(agent: Agent, budget: Budget) -> Callable[[dict[str, Any]], float]:
    """Return a function from the body of a request to what it can cost at most in a batch."""

    def estimate(body: dict[str, Any]) -> float:
        if budget.limit is None:
            return 0.0
        texts = [body["messages"][0]["content"]]
        texts += [block["text"] for block in body.get("system", [])]
        if shape := body.get("output_config", {}).get("format"):
            texts.append(json.dumps(shape))
        return upper_cost(agent, *texts, batch=True)

    return estimate


def at_most(reply: Reply, estimate: Callable[[], float]) -> Reply:
    """Return a reply that cannot be read with its highest cost, all others as they are.

    The store keeps it, so that later starts count what this one has paid for.
    """
    if reply.cost_note != UNREADABLE or reply.cost_usd is not None:
        return reply
    usd = estimate()
    return reply if math.isnan(usd) else reply.model_copy(update={"cost_upper_usd": usd})


def charged(row: Mapping[str, Any]) -> float:
    """Return what a stored reply has cost in dollars: at most, where it cannot be read; else 0."""
    usd = row.get("cost_usd")
    return (row.get("cost_upper_usd") or 0.0) if usd is None else usd


class Budget:
    """Dollars that may be spent; every call under way has its highest cost put aside.

    A call whose highest cost is not known beforehand (a program, a model without a price) goes
    alone, so that the limit can be passed by what one such call costs and no more.

    Notes
    -----
    What is reported is what is booked. A call that timed out or lost its connection reports no
    cost and is booked at none, although the service may charge for it; a reply that came and
    cannot be read is booked at its highest cost, in this call and, from the store, in later ones.
    """

    def __init__(self, limit: float | None, *, spent: float = 0.0) -> None:
        if limit is not None and not 0 < limit < math.inf:
            raise StudyError(f"budget_usd is {limit!r}; allowed: a number of dollars above 0.")
        self.limit, self.spent = limit, spent
        self.exhausted: str | None = None  # why no further call fits
        self._aside = 0.0
        self._under_way = 0
        self._alone = False  # whether what is under way has no highest cost
        self._dearest = math.nan
        self._changed = asyncio.Condition()

    def fits(self, estimate: float) -> float | None:
        """Put the estimate of one call aside and return it; None when it does not fit now."""
        if self.limit is None:
            return 0.0
        free = self.limit - self.spent - self._aside
        unknown = math.isnan(estimate)
        if unknown:
            # it takes all there is and goes alone, as long as another like the dearest would fit
            if self._under_way or self._dearest * _SAFETY > free:
                return None
            estimate = max(free, 0.0)
        if self.exhausted or free <= 0 or estimate > free:
            return None
        self._alone = unknown
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
            alone, self._alone = self._alone, False
            if reply is not None and reply.cost_usd is not None:
                self.spent += reply.cost_usd
                self._dearest = max(self._dearest, reply.cost_usd)
                if math.isnan(self._dearest):
                    self._dearest = reply.cost_usd
            elif reply is not None and reply.cost_note == UNREADABLE and not alone:
                self.spent += aside  # it was paid for, and it cannot have cost more
            elif reply is not None and (reply.status in PAID or reply.cost_note == UNREADABLE):
                self.exhausted = (
                    "the cost of an answer is not known "
                    f"({reply.cost_note or 'not reported'}), so budget_usd cannot be kept; give "
                    "prices= to the agent or leave budget_usd out"
                )
            self._changed.notify_all()

    def _told(self, estimate: float) -> str:
        left = max((self.limit or 0.0) - self.spent, 0.0)
        most = self._dearest * _SAFETY if math.isnan(estimate) else estimate
        told = "what the next call costs is not known"
        if not math.isnan(most):
            told = f"the next call may cost up to {most:.4f}"
        return f"budget_usd {self.limit:g}: {self.spent:.4f} are spent and {told} ({left:.4f} left)"
