"""Waiting for batches and booking what comes back, each result once."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Collection, Iterable
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from typing import Any

from anthropic.types.messages import MessageBatch, MessageBatchIndividualResponse

from skillcomp.errors import AgentError
from skillcomp.live.batchnotes import Notes, Sent
from skillcomp.live.batchservice import BatchAgent, BatchLimits, BatchService, MissingBatchError
from skillcomp.live.budget import Budget, at_most
from skillcomp.live.loop import StoppedError
from skillcomp.live.reply import Reply, redact
from skillcomp.live.retry import UnreadableReplyError, told

__all__ = ["Book", "Collector", "size"]

Book = Callable[[str, Reply], Awaitable[None]]
_log = logging.getLogger("skillcomp.live")
_WRITTEN_AT_ONCE = 256  # results that share one write to the disk
_KEPT = timedelta(days=29)  # how long the service keeps results


class Collector:
    """Takes in the results of batches that the service has named.

    Parameters
    ----------
    service, notes : BatchService, Notes
        Who has them, and where they are noted.
    agent : BatchAgent
        Reads the messages.
    book : callable
        Takes a key and its reply, and returns once it is on the disk.
    booked : collection of str
        Every ``request_id`` that is on the disk already.
    budget : Budget
        Of the run.
    limits : BatchLimits
        Whether what is missing is sent again.
    """

    def __init__(
        self,
        service: BatchService,
        notes: Notes,
        agent: BatchAgent,
        *,
        book: Book,
        booked: Collection[str],
        budget: Budget,
        limits: BatchLimits,
    ) -> None:
        self._service, self._notes, self._agent = service, notes, agent
        self._book, self._booked = book, set(booked)
        self._budget, self._limits = budget, limits

    async def all(self, sent: list[Sent], *, earlier: bool = False) -> None:
        """Collect all, then raise the first error; a batch stays open until it is collected.

        Parameters
        ----------
        sent : list of Sent
            What to wait for.
        earlier : bool, default False
            Sent by an earlier call. Only then a batch whose results are gone is given up, so that
            its requests are sent again: one of this call would be gone as soon the next time.
        """
        await _all_of(self._collect(one, earlier) for one in sent)

    async def _collect(self, sent: Sent, earlier: bool) -> None:
        try:
            batch = await self._service.ended(sent.batch_id or "")
            if batch.archived_at or (batch.results_url is None and _is_old(sent)):
                await self._give_up(sent, "the service has deleted its results", earlier)
                return
            await self._service.call(
                lambda: self._take_in(batch, sent), f"results of {sent} cannot be read"
            )
            await self._notes.add(sent, "collected", batch_id=batch.id)
        except StoppedError:
            pass  # it stays with the service
        except MissingBatchError:
            if not (earlier and (self._limits.resend or _is_old(sent))):
                raise self._service.other_workspace(sent, "the service does not know it") from None
            await self._give_up(sent, "the service does not know it any more", earlier)
        finally:
            await self.free(sent)

    async def _give_up(self, sent: Sent, why: str, earlier: bool) -> None:
        if not earlier:
            raise AgentError(
                f"agent '{self._agent.name}': {sent}: {why} before they could be read; they may "
                "have been paid for. The same call sends its requests again."
            )
        _log.warning("%s: %s; they are sent again", sent, why)
        usd = sent.each * len(sent.aside)
        more = {} if math.isnan(usd) else {"usd": usd}
        await self._notes.add(sent, "dropped", batch_id=sent.batch_id, why=why, **more)
        for taken in sent.aside.values():  # it may have been paid for
            lost = self._failed(why, "").model_copy(update={"cost_usd": taken}) if taken else None
            await self._budget.settle(taken, lost)
        sent.aside.clear()

    async def _take_in(self, batch: MessageBatch, sent: Sent) -> None:
        waiting: list[tuple[str, Reply]] = []
        missing, n_seen = sent.names, 0
        async with aclosing(self._service.results(batch.id)) as rows:
            async for row in rows:
                n_seen += 1
                name = getattr(row, "custom_id", None) or ""
                key, request_id = missing.pop(name, None), f"{batch.id}/{name}"
                if key is None or request_id in self._booked:
                    continue
                waiting.append((key, self._reply(row, request_id)))
                if len(waiting) >= _WRITTEN_AT_ONCE:
                    await _all_of(self._one(*one, sent) for one in waiting)
                    waiting = []
        if n_seen < size(batch):
            await _all_of(self._one(*one, sent) for one in waiting)
            raise UnreadableReplyError(f"{n_seen} of {size(batch)} results came")
        for name, key in missing.items():
            if (request_id := f"{batch.id}/{name}") not in self._booked:
                waiting.append((key, self._failed("not among the results", request_id)))
        await _all_of(self._one(*one, sent) for one in waiting)

    async def _one(self, key: str, reply: Reply, sent: Sent) -> None:
        reply = at_most(reply, lambda: sent.each)
        await self._book(key, reply)
        self._booked.add(reply.request_id or "")
        await self._budget.settle(sent.aside.pop(key), reply)

    def _reply(self, row: MessageBatchIndividualResponse, request_id: str) -> Reply:
        try:
            return self._read(row.result, request_id)
        except (AttributeError, TypeError, ValueError) as error:
            return self._failed(f"its result cannot be read ({told(error)})", request_id)

    def _read(self, result: Any, request_id: str) -> Reply:
        if result.type == "succeeded":
            reply = self._agent.read(result.message, batch=True)
            return reply.model_copy(update={"request_id": request_id})
        if result.type == "errored":
            error = result.error.error
            text = f"{error.type}: {redact(error.message)}"
            # the same request would be refused again
            fatal = error.type in ("invalid_request_error", "not_found_error")
        else:
            text, fatal = f"{result.type} in its batch", result.type == "canceled"
        return self._failed(text, request_id, fatal=fatal)

    def _failed(self, text: str, request_id: str, *, fatal: bool = False) -> Reply:
        settings = self._agent.settings
        return Reply(
            status="error", error=text, fatal=fatal, request_id=request_id, settings=settings
        )

    async def free(self, sent: Sent) -> None:
        """Give back what the budget holds for a batch."""
        for taken in sent.aside.values():
            await self._budget.settle(taken, None)
        sent.aside.clear()


def size(batch: MessageBatch) -> int:
    """Return how many requests a batch has."""
    return sum(batch.request_counts.model_dump().values())


async def _all_of(work: Iterable[Awaitable[None]]) -> None:
    """Do all of it, then raise the first error."""
    for error in await asyncio.gather(*work, return_exceptions=True):
        if isinstance(error, BaseException):
            raise error


def _is_old(sent: Sent) -> bool:
    return datetime.now(UTC) - sent.at > _KEPT
