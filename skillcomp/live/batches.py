"""Many questions at half the price: the Message Batches API, resumable at every moment.

A batch is noted in the store before it is sent and again when the service has named it, so that a
process that dies in between finds it again: the names of its requests tell it from all others.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol, runtime_checkable

import anthropic
import tenacity
from anthropic.types.messages import MessageBatch, MessageBatchIndividualResponse

from skillcomp.errors import AgentError
from skillcomp.io.store import RunStore
from skillcomp.live.budget import Budget
from skillcomp.live.ledger import Ledger
from skillcomp.live.loop import Stop
from skillcomp.live.reply import Agent, Reply, redact
from skillcomp.live.retry import RetryPolicy

__all__ = ["BatchAgent", "BatchLimits", "Batches", "batch_agent", "custom_id"]

_log = logging.getLogger("skillcomp.live")
_WRITTEN_AT_ONCE = 256  # results that share one write to the disk
_SLACK = timedelta(minutes=10)  # between the clocks of the service and of this machine
_SURE_REFUSALS = frozenset({400, 401, 402, 403, 404, 413, 422, 429, 529})


@runtime_checkable
class BatchAgent(Protocol):
    """An agent whose questions can be put into a batch."""

    name: str
    model: str | None
    family: str | None
    settings: str

    def client(self) -> anthropic.AsyncAnthropic:
        """Return the client of the running event loop."""
        ...

    def request(self, prompt: str, **parts: Any) -> dict[str, Any]:
        """Return the body of one call."""
        ...

    def read(self, message: Any, *, batch: bool = False) -> Reply:
        """Return a message as a reply."""
        ...


def batch_agent(agent: Agent) -> BatchAgent:
    """Return the agent, or raise that it cannot be asked in batches.

    Raises
    ------
    AgentError
        When it is no agent of the Messages API.
    """
    if not isinstance(agent, BatchAgent):
        raise AgentError(
            f"agent '{agent.name}' ({type(agent).__name__}) cannot be asked in batches; allowed: "
            "AnthropicAgent."
        )
    return agent


@dataclass(frozen=True)
class BatchLimits:
    """How large a batch may be and how patiently it is waited for.

    Attributes
    ----------
    max_requests : int, default 10000
        The service takes 100,000.
    max_bytes : int, default 64 million
        The service takes 256 MB; a batch of this size is held in memory while it is sent.
    first_wait, longest_wait : float
        Seconds between two looks at a batch; the wait doubles from the first to the longest.
    n_rounds : int, default 4
        How often a request that comes back with an error, or expires, is sent in all.
    """

    max_requests: int = 10_000
    max_bytes: int = 64_000_000
    first_wait: float = 5.0
    longest_wait: float = 120.0
    n_rounds: int = 4


def custom_id(nonce: str, key: str) -> str:
    """Return the name of a request in its batch.

    Parameters
    ----------
    nonce : str
        Of the batch: two batches never share a name.
    key : str
        What is asked for, such as an attempt_id.

    Returns
    -------
    str
        48 hex digits: what the service allows is ``^[a-zA-Z0-9_-]{1,64}$``.
    """
    return hashlib.sha256(f"{nonce}\0{key}".encode()).hexdigest()[:48]


@dataclass
class _Sent:
    nonce: str
    keys: list[str]
    at: datetime
    batch_id: str | None = None
    aside: dict[str, float] = field(default_factory=dict)


Book = Callable[[str, Reply], Awaitable[None]]
Body = tuple[str, dict[str, Any]]


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
    retry : RetryPolicy, optional
        For the calls themselves.
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
        retry: RetryPolicy | None = None,
    ) -> None:
        self._store, self._ledger, self._agent = store, ledger, agent
        self._purpose, self._book, self._booked = purpose, book, set(booked)
        self._budget, self._stop = budget, stop
        self._limits = limits or BatchLimits()
        self._retry = retry or RetryPolicy()

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
            From body to the highest cost in dollars.

        Returns
        -------
        int
            How many requests were sent; fewer than given when the budget holds no more.
        """
        sent: list[_Sent] = []
        async for keys, requests, aside in self._chunks(bodies, estimate):
            sent.append(await self._submit(keys, requests, aside))
            if self._stop.reason:
                break
        await self._collect_all(sent)
        return sum(len(one.keys) for one in sent)

    async def _chunks(
        self, bodies: AsyncIterator[Body], estimate: Callable[[dict[str, Any]], float]
    ) -> AsyncIterator[tuple[list[str], list[dict[str, Any]], dict[str, float]]]:
        keys: list[str] = []
        requests: list[dict[str, Any]] = []
        aside: dict[str, float] = {}
        size = 0
        async for key, body in bodies:
            taken = self._budget.fits(estimate(body))
            if taken is None or self._stop.reason:
                break
            length = len(json.dumps(body)) + 100  # its name and brackets
            full = len(keys) >= self._limits.max_requests
            if keys and (full or size + length > self._limits.max_bytes):
                yield keys, requests, aside
                keys, requests, aside, size = [], [], {}, 0
            keys.append(key)
            requests.append(body)
            aside[key] = taken
            size += length
        if keys:
            yield keys, requests, aside

    async def _submit(
        self, keys: list[str], bodies: list[dict[str, Any]], aside: dict[str, float]
    ) -> _Sent:
        sent = _Sent(uuid.uuid4().hex, keys, datetime.now(UTC), aside=aside)
        await self._note(sent, "intent", purpose=self._purpose, keys=keys)
        requests: Any = [
            {"custom_id": custom_id(sent.nonce, key), "params": body}
            for key, body in zip(keys, bodies, strict=True)
        ]
        unsure = False

        async def create() -> str:
            nonlocal unsure
            # after an answer that got lost, the batch may exist: sending it again would pay twice
            if unsure and (found := await self._find(sent)):
                return found
            if unsure and self._stop.reason:
                raise AgentError(f"agent '{self._agent.name}': interrupted while sending a batch.")
            try:
                made = await self._agent.client().messages.batches.create(requests=requests)
            except anthropic.APIStatusError as error:
                unsure = unsure or error.status_code not in _SURE_REFUSALS
                raise
            except (anthropic.APIConnectionError, ValueError):
                unsure = True
                raise
            return made.id

        try:
            sent.batch_id, _ = await self._retry.call(create)
        except (anthropic.AnthropicError, ValueError) as error:
            if not unsure:
                await self._note(sent, "dropped")
            await self._free(sent)
            told = redact(str(getattr(error, "api_message", None) or error))
            raise AgentError(
                f"agent '{self._agent.name}': a batch of {len(keys)} requests was not taken "
                f"({type(error).__name__}: {told})."
            ) from None
        await self._note(sent, "created", batch_id=sent.batch_id)
        return sent

    async def _note(self, sent: _Sent, event: str, **more: Any) -> None:
        row = {"event": event, "nonce": sent.nonce, "at": datetime.now(UTC).isoformat(), **more}
        await self._ledger.write("batches", [row])

    # -- finding again ------------------------------------------------------------------------

    async def resume(self) -> int:
        """Collect every batch of this purpose that an earlier process sent; return how many."""
        open_ = self._open()
        ready = []
        for sent in open_:
            if sent.batch_id is None:
                sent.batch_id = await self._find(sent)
                if sent.batch_id is None:
                    # without a stop this means that the service never took it
                    if not self._stop.reason:
                        await self._note(sent, "dropped")
                    continue
                await self._note(sent, "created", batch_id=sent.batch_id)
            ready.append(sent)
        await self._collect_all(ready)
        return len(open_)

    def _open(self) -> list[_Sent]:
        found: dict[str, _Sent] = {}
        for row in self._store.records("batches"):
            nonce = row["nonce"]
            if row["event"] == "intent" and row["purpose"] == self._purpose:
                found[nonce] = _Sent(nonce, row["keys"], datetime.fromisoformat(row["at"]))
            elif nonce in found and row["event"] == "created":
                found[nonce].batch_id = row["batch_id"]
            elif row["event"] in ("collected", "dropped"):
                found.pop(nonce, None)
        return list(found.values())

    async def _find(self, sent: _Sent) -> str | None:
        """Return the batch that holds the requests of an intent, or None when there is none."""
        known = {row.get("batch_id") for row in self._store.records("batches")}
        ours = {custom_id(sent.nonce, key) for key in sent.keys}
        listing = self._agent.client().messages.batches.list(limit=100)
        async for batch in listing:
            if batch.created_at < sent.at - _SLACK:
                return None  # the newest stand first
            counts = batch.request_counts
            total = sum(counts.model_dump().values())
            if batch.id in known or total != len(ours):
                continue
            # names can be read only in the results
            if not await self._ended(batch.id):
                return None
            async for row in await self._agent.client().messages.batches.results(batch.id):
                if row.custom_id in ours:
                    return batch.id
                break
        return None

    # -- waiting and collecting ---------------------------------------------------------------

    async def _collect_all(self, sent: list[_Sent]) -> None:
        done = await asyncio.gather(*map(self._collect, sent), return_exceptions=True)
        for error in done:
            if isinstance(error, BaseException):
                raise error

    async def _ended(self, batch_id: str) -> bool:
        """Wait for the end of a batch; False when asked to stop before it."""

        async def look() -> MessageBatch:
            client = self._agent.client()
            batch, _ = await self._retry.call(lambda: client.messages.batches.retrieve(batch_id))
            return batch

        waiting = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_result(
                lambda batch: batch.processing_status != "ended" and self._stop.reason is None
            ),
            wait=tenacity.wait_exponential(
                multiplier=self._limits.first_wait, max=self._limits.longest_wait
            ),
            sleep=self._stop.sleep,
        )
        batch: MessageBatch = await waiting(look)
        return batch.processing_status == "ended"

    async def _collect(self, sent: _Sent) -> None:
        assert sent.batch_id is not None
        name = sent.batch_id
        try:
            if not await self._ended(name):
                return
            keys = {custom_id(sent.nonce, key): key for key in sent.keys}
            await self._retry.call(lambda: self._take_in(name, keys, sent.aside))
            await self._note(sent, "collected", batch_id=name)
        except anthropic.NotFoundError:
            _log.warning("batch %s is gone; its requests are sent again", name)
            await self._note(sent, "collected", batch_id=name)
        finally:
            await self._free(sent)

    async def _take_in(self, name: str, keys: dict[str, str], aside: dict[str, float]) -> None:
        waiting: list[tuple[str, Reply]] = []
        missing = dict(keys)
        async for row in await self._agent.client().messages.batches.results(name):
            key, request_id = keys.get(row.custom_id), f"{name}/{row.custom_id}"
            missing.pop(row.custom_id, None)
            if key is None or request_id in self._booked:
                continue
            waiting.append((key, self._reply(row, request_id)))
            if len(waiting) >= _WRITTEN_AT_ONCE:
                await asyncio.gather(*(self._one(*one, aside) for one in waiting))
                waiting = []
        for name_of, key in missing.items():
            if (request_id := f"{name}/{name_of}") not in self._booked:
                waiting.append((key, self._failed("not among the results", request_id)))
        await asyncio.gather(*(self._one(*one, aside) for one in waiting))

    async def _one(self, key: str, reply: Reply, aside: dict[str, float]) -> None:
        await self._book(key, reply)
        self._booked.add(reply.request_id or "")
        if (taken := aside.pop(key, None)) is not None:
            await self._budget.settle(taken, reply)
        elif reply.cost_usd is not None:
            self._budget.spent += reply.cost_usd

    def _reply(self, row: MessageBatchIndividualResponse, request_id: str) -> Reply:
        result = row.result
        if result.type == "succeeded":
            reply = self._agent.read(result.message, batch=True)
            return reply.model_copy(update={"request_id": request_id})
        if result.type == "errored":
            error = result.error.error
            told = f"{error.type}: {redact(error.message)}"
            # the same request would be refused again
            fatal = error.type in ("invalid_request_error", "not_found_error")
        else:
            told, fatal = f"{result.type} in its batch", result.type == "canceled"
        return self._failed(told, request_id, fatal=fatal)

    def _failed(self, told: str, request_id: str, *, fatal: bool = False) -> Reply:
        settings = self._agent.settings
        return Reply(
            status="error", error=told, fatal=fatal, request_id=request_id, settings=settings
        )

    async def _free(self, sent: _Sent) -> None:
        for taken in sent.aside.values():
            await self._budget.settle(taken, None)
        sent.aside.clear()
