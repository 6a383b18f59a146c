"""Many questions at half the price: the Message Batches API, resumable at every moment.

A batch is noted in the store before it is sent and again when the service has named it, so that a
process that dies in between finds it again: the names of its requests tell it from all others.
"""

from __future__ import annotations

import json
import logging
import math
import uuid
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import anthropic
from anthropic.types.messages import MessageBatch

from skillcomp.errors import AgentError
from skillcomp.io.store import RunStore
from skillcomp.live.batchcollecting import Book, Collector, size
from skillcomp.live.batchnotes import Notes, Sent, custom_id
from skillcomp.live.batchservice import (
    BatchAgent,
    BatchLimits,
    BatchService,
    batch_agent,
)
from skillcomp.live.budget import Budget
from skillcomp.live.ledger import Ledger
from skillcomp.live.loop import Stop, StoppedError
from skillcomp.live.retry import from_service, told

__all__ = ["BatchAgent", "BatchLimits", "Batches", "batch_agent", "custom_id", "tell_of"]

_log = logging.getLogger("skillcomp.live")
_SLACK = timedelta(minutes=10)  # between two clocks of the service
_CLOCKS = timedelta(days=1)  # between the clock of this machine and the service's
_SENDING = timedelta(hours=6)  # all tries of one batch, with their waits
_SURE_REFUSALS = frozenset({400, 401, 402, 403, 404, 413, 422, 429, 529})

Body = tuple[str, dict[str, Any]]


@dataclass
class _Chunk:
    keys: list[str] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    aside: dict[str, float] = field(default_factory=dict)
    usd: float = 0.0
    size: int = 0


class Batches:
    """The batches of one purpose in one store.

    Parameters
    ----------
    store, ledger : RunStore, Ledger
        Where they are noted.
    agent : BatchAgent
        Who is asked.
    purpose : str
        Tells them from the other batches of the store: ``run:NAME`` or ``grade:NAME#...``.
    book : callable
        Takes a key and its reply, and returns once it is on the disk. ``request_id`` of the reply
        is batch and custom_id.
    booked : collection of str
        Every ``request_id`` that is on the disk already.
    budget, stop : Budget, Stop
        Of the run.
    limits : BatchLimits, optional
        Sizes and waits.
    """

    def __init__(
        self,
        store: RunStore,
        ledger: Ledger,
        agent: BatchAgent,
        *,
        purpose: str,
        book: Book,
        booked: Collection[str],
        budget: Budget,
        stop: Stop,
        limits: BatchLimits | None = None,
    ) -> None:
        self._agent, self._budget, self._stop = agent, budget, stop
        self._limits = limits or BatchLimits()
        self._notes = Notes(store, ledger, purpose)
        self._service = BatchService(agent, self._limits, stop)
        self._collector = Collector(
            self._service,
            self._notes,
            agent,
            book=book,
            booked=booked,
            budget=budget,
            limits=self._limits,
        )

    # -- sending ------------------------------------------------------------------------------

    async def send(
        self, bodies: AsyncIterator[Body], estimate: Callable[[dict[str, Any]], float]
    ) -> int:
        """Send bodies in as many batches as needed, wait for all, book what comes back.

        Parameters
        ----------
        bodies : async iterator of (str, dict)
            Key and body of each request.
        estimate : callable
            From body to the highest cost in dollars; NaN when not known.

        Returns
        -------
        int
            How many requests were sent; fewer than given when the budget holds no more, or when
            work is to stop.

        Raises
        ------
        AgentError
            When a batch is not taken, or cannot be collected; what was sent is collected at the
            next start.
        """
        sent: list[Sent] = []
        async for chunk in self._chunks(bodies, estimate):
            one = await self._submit(chunk)
            if one is not None:
                sent.append(one)
            if self._stop.reason:
                break
        await self._collector.all(sent)
        return sum(len(one.keys) for one in sent)

    async def _chunks(
        self, bodies: AsyncIterator[Body], estimate: Callable[[dict[str, Any]], float]
    ) -> AsyncIterator[_Chunk]:
        chunk = _Chunk()
        async for key, body in bodies:
            usd = estimate(body)
            taken = self._budget.fits(usd)
            if taken is None or self._stop.reason:
                break
            length = len(json.dumps(body)) + 100  # its name and brackets
            full = len(chunk.keys) >= self._limits.max_requests
            if chunk.keys and (full or chunk.size + length > self._limits.max_bytes):
                yield chunk
                chunk = _Chunk()
            chunk.keys.append(key)
            chunk.bodies.append(body)
            chunk.aside[key] = taken
            chunk.usd += usd
            chunk.size += length
        if chunk.keys:
            yield chunk

    async def _submit(self, chunk: _Chunk) -> Sent | None:
        """Send one batch; None when work is to stop and the service has not said that it has it."""
        sent = Sent(
            uuid.uuid4().hex, chunk.keys, datetime.now(UTC), usd=chunk.usd, aside=chunk.aside
        )
        try:
            sent.before = await self._service.before()
        except StoppedError:
            await self._collector.free(sent)
            return None
        await self._notes.intend(sent)
        try:
            sent.batch_id = await self._post(sent, chunk.bodies)
        except StoppedError:
            await self._collector.free(sent)
            return None
        await self._notes.add(sent, "created", batch_id=sent.batch_id)
        return sent

    async def _post(self, sent: Sent, bodies: Iterable[dict[str, Any]]) -> str:
        requests = [
            {"custom_id": name, "params": body}
            for name, body in zip(sent.names, bodies, strict=True)
        ]
        unsure = False

        async def create() -> str:
            nonlocal unsure
            # after an answer that got lost, the batch may exist: sending it again would pay twice
            if unsure and (found := await self._find(sent)):
                return found
            try:
                return await self._service.post(requests)
            except Exception as error:
                unsure = unsure or not _surely_refused(error)
                raise

        try:
            return (await self._agent.retry.call(create, self._stop))[0]
        except Exception as error:
            if not (from_service(error) or isinstance(error, StoppedError)):
                raise
            if not unsure:
                await self._notes.add(sent, "dropped")
            await self._collector.free(sent)
            if self._stop.reason:
                raise StoppedError(f"interrupted while sending a batch: {told(error)}") from None
            again = " The next start looks whether the service has it." if unsure else ""
            raise AgentError(
                f"agent '{self._agent.name}': a batch of {len(sent.keys)} requests was not taken "
                f"({told(error)}).{again}"
            ) from None

    # -- finding again ------------------------------------------------------------------------

    async def resume(self) -> int:
        """Collect every batch of this purpose that an earlier process sent; return how many.

        Raises
        ------
        AgentError
            When one of them cannot be collected, or when the key seems to be of another workspace
            than theirs. None of them is lost by that.
        """
        open_ = self._notes.open()
        for sent in open_:
            each = 0.0 if math.isnan(sent.each) else sent.each
            sent.aside = {key: self._budget.hold(each) for key in sent.keys}
        ready = []
        for sent in open_:
            try:
                if sent.batch_id is None and not await self._found_again(sent):
                    continue
            except StoppedError:
                break
            ready.append(sent)
        await self._collector.all(ready, earlier=True)
        return len(open_)

    async def _found_again(self, sent: Sent) -> bool:
        sent.batch_id = await self._find(sent)
        if sent.batch_id is None:
            await self._notes.add(sent, "dropped")
            await self._collector.free(sent)
            return False
        await self._notes.add(sent, "created", batch_id=sent.batch_id)
        return True

    async def _find(self, sent: Sent) -> str | None:
        """Return the batch that holds the requests of an intent, or None when there is none."""
        listed, met = await self._service.newer(sent.before.newest if sent.before else None)
        known, names = self._notes.known(), sent.names
        like = [
            batch
            for batch in listed
            if batch.id not in known and not batch.archived_at and size(batch) == len(names)
        ]
        # names can be read only in the results
        for batch in (one for one in like if one.processing_status == "ended"):
            if await self._service.holds(batch.id, names):
                return batch.id
        for batch in reversed(like):
            if batch.processing_status != "ended" and _within(batch, sent):
                _log.warning("%s may be %s; waiting for its end", batch.id, sent)
                await self._service.ended(batch.id)
                if await self._service.holds(batch.id, names):
                    return batch.id
        if not (met or self._limits.resend or _empty_before(sent, listed)):
            raise self._service.other_workspace(
                sent, "the service lists neither it nor the one before it"
            )
        return None


def tell_of(who: str, n: int) -> None:
    """Say that batches are waited for although this call did not ask for batches."""
    what = "a batch under way; it is" if n == 1 else f"{n} batches under way; they are"
    _log.warning(
        "%s has %s collected before anything else is asked, which may take a day (Ctrl-C leaves "
        "what is under way with the service)",
        who,
        what,
    )


def _surely_refused(error: Exception) -> bool:
    if isinstance(error, anthropic.APIStatusError):
        return error.status_code in _SURE_REFUSALS
    return isinstance(error, TypeError)  # no credentials: the client did not send it


def _within(batch: MessageBatch, sent: Sent) -> bool:
    """Return whether a batch can have been sent right after a look at the list."""
    if sent.before is None:  # an earlier release noted no more than this machine's clock
        return abs(batch.created_at - sent.at) <= _CLOCKS
    if sent.before.at is None:
        return True
    return sent.before.at - _SLACK <= batch.created_at <= sent.before.at + _SENDING


def _empty_before(sent: Sent, listed: list[MessageBatch]) -> bool:
    """Return whether the list may be that of the workspace in which there was none before."""
    if sent.before is None:
        return True  # nothing is known of it
    if sent.before.newest is not None:
        return False
    since = sent.before.at - _SLACK if sent.before.at else sent.at - _CLOCKS
    return all(one.created_at >= since for one in listed)
