"""Many questions at half the price: the Message Batches API, resumable at every moment.

A batch is noted in the store before it is sent and again when the service has named it, so that a
process that dies in between finds it again: the names of its requests tell it from all others.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

import anthropic
import tenacity
from anthropic.types.messages import MessageBatch, MessageBatchIndividualResponse

from skillcomp.errors import AgentError
from skillcomp.io.store import RunStore
from skillcomp.live.agents.agent import Agent, Reply, redact
from skillcomp.live.agents.anthropic import AnthropicAgent
from skillcomp.live.agents.service import (
    UnreadableReplyError,
    error_text,
    from_service,
    is_transient,
)
from skillcomp.live.batches import BatchLimits, Before, Sent, custom_id, open_batches
from skillcomp.live.concurrency import Stop, StoppedError
from skillcomp.live.ledger import Budget, Ledger, at_most

_log = logging.getLogger("skillcomp.live")
_SLACK = timedelta(minutes=10)  # between two clocks of the service
_CLOCKS = timedelta(days=1)  # between the clock of this machine and the service's
_SENDING = timedelta(hours=6)  # all tries of one batch, with their waits
_SURE_REFUSALS = frozenset({400, 401, 402, 403, 404, 413, 422, 429, 529})

_STAYS = "What was sent stays with the service for 29 days; the same call goes on with it."
_WRITTEN_AT_ONCE = 256  # results that share one write to the disk
_KEPT = timedelta(days=29)  # how long the service keeps results

_T = TypeVar("_T")
Body = tuple[str, dict[str, Any]]
Book = Callable[[str, Reply], Awaitable[None]]


def batch_agent(agent: Agent) -> AnthropicAgent:
    """Return the agent, or raise that it cannot be asked in batches."""
    if not isinstance(agent, AnthropicAgent):
        raise AgentError(
            f"agent '{agent.name}' ({type(agent).__name__}) cannot be asked in batches; allowed: "
            "AnthropicAgent."
        )
    return agent


class MissingBatchError(AgentError):
    """The service knows no batch of this name in the workspace of the key."""


@dataclass
class BatchService:
    """The calls to the service for one agent."""

    agent: AnthropicAgent
    limits: BatchLimits
    stop: Stop

    async def call(self, function: Callable[[], Awaitable[_T]], about: str) -> _T:
        """Return what a function returns that asks the service, tried again where that helps."""
        return await self._telling(self._tried(function), about)

    async def _tried(self, function: Callable[[], Awaitable[_T]]) -> _T:
        return (await self.agent.retry.call(function, self.stop))[0]

    async def _telling(self, work: Awaitable[_T], about: str) -> _T:
        try:
            return await work
        except Exception as error:
            if not from_service(error):
                raise
            if self.stop.reason and is_transient(error):
                raise StoppedError(f"{about}: {self.stop.reason}.") from None
            missing = getattr(error, "status_code", None) == 404
            kind = MissingBatchError if missing else AgentError
            message = f"agent '{self.agent.name}': {about} ({error_text(error)}). {_STAYS}"
            raise kind(message) from None

    def other_workspace(self, sent: Sent, what: str) -> AgentError:
        """Return the error that the key seems to be of another workspace than a batch."""
        return AgentError(
            f"agent '{self.agent.name}': {what}: {sent}. The key is likely of another workspace "
            "than the one it was sent from: start again with a key of that one, and nothing is "
            "paid twice. Where the batch is truly lost, --resend-lost (in Python: "
            "batch=BatchLimits(resend=True)) sends its requests again."
        )

    async def post(self, requests: Any) -> str:
        """Send a batch, once, and return its name; errors are those of the client."""
        made = await self.agent.client().messages.batches.create(requests=requests)
        if not isinstance(name := getattr(made, "id", None), str):
            raise UnreadableReplyError("the service answered with something else than a batch")
        return name

    async def before(self) -> Before | None:
        """Return the newest batch in the service's list and the service's time, where it tells."""

        async def newest() -> Before:
            listed = self.agent.client().messages.batches.with_raw_response.list(limit=1)
            raw = await listed
            page = await raw.parse()
            names = [batch.id for batch in page.data]
            try:
                at = parsedate_to_datetime(raw.headers.get("date", ""))
            except (ValueError, OverflowError):  # the latter of an absurd zone
                at = None
            return Before(names[0] if names else None, at if at and at.tzinfo else None)

        try:
            return await self.call(newest, "batches cannot be listed")
        except StoppedError:
            raise
        except (AgentError, AttributeError, TypeError) as error:
            _log.info("%s", error)
            return None  # sending will tell what is wrong, if it is

    async def newer(self, than: str | None) -> tuple[list[MessageBatch], bool]:
        """Return the batches after a certain one, newest first, and whether that one was met."""

        async def listed() -> tuple[list[MessageBatch], bool]:
            found: list[MessageBatch] = []
            async for batch in self.agent.client().messages.batches.list(limit=100):
                if batch.id == than:
                    return found, True
                found.append(batch)
            return found, False

        return await self.call(listed, "batches cannot be listed")

    async def ended(self, batch_id: str) -> MessageBatch:
        """Wait for the end of a batch, also while the service cannot be reached."""
        heard, level = time.monotonic(), logging.WARNING

        async def look() -> MessageBatch | None:
            nonlocal heard, level
            try:
                batch: MessageBatch = await self._tried(
                    lambda: self.agent.client().messages.batches.retrieve(batch_id)
                )
            except Exception as error:
                silent = time.monotonic() - heard >= self.limits.longest_silence
                if silent or not is_transient(error):
                    raise
                _log.log(level, "batch %s: no word (%s); asking on", batch_id, error_text(error))
                level = logging.DEBUG  # once for each silence
                return None
            heard, level = time.monotonic(), logging.WARNING
            return batch

        waiting = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_result(lambda batch: not (_over(batch) or self.stop.reason)),
            wait=tenacity.wait_exponential(
                multiplier=self.limits.first_wait, max=self.limits.longest_wait
            ),
            sleep=self.stop.sleep,
        )
        batch: MessageBatch | None = await self._telling(
            waiting(look), f"batch {batch_id} cannot be looked at"
        )
        if batch is None or not _over(batch):
            raise StoppedError(f"batch {batch_id} has not ended: {self.stop.reason}.")
        return batch

    async def results(self, batch_id: str) -> AsyncGenerator[MessageBatchIndividualResponse, None]:
        """Yield the results of a batch that has ended; errors are those of the client."""
        rows = await self.agent.client().messages.batches.results(batch_id)
        try:
            async for row in rows:
                yield row
        finally:
            await rows.close()

    async def holds(self, batch_id: str, names: dict[str, str]) -> bool:
        """Return whether the first result of a batch has one of these names."""

        async def first() -> bool:
            async with aclosing(self.results(batch_id)) as rows:
                async for row in rows:
                    return row.custom_id in names
            return False

        return await self.call(first, f"results of batch {batch_id} cannot be read")


def _over(batch: MessageBatch | None) -> bool:
    return batch is not None and batch.processing_status == "ended"


@dataclass
class Batches:
    """The batches of one purpose in one store."""

    store: RunStore
    ledger: Ledger
    agent: AnthropicAgent
    purpose: str
    book: Book
    booked: set[str]  # names of the results that the store has already
    budget: Budget
    stop: Stop
    limits: BatchLimits

    def __post_init__(self) -> None:
        """Open the way to the service."""
        self._service = BatchService(self.agent, self.limits, self.stop)

    async def _note(self, sent: Sent, event: str, **more: Any) -> None:
        """Note what has become of a batch."""
        row = {"event": event, "nonce": sent.nonce, "at": datetime.now(UTC).isoformat(), **more}
        await self.ledger.write("batches", [row])

    # -- sending ------------------------------------------------------------------------------

    async def send(
        self, bodies: AsyncIterator[Body], estimate: Callable[[dict[str, Any]], float]
    ) -> int:
        """Send bodies in as many batches as needed, wait for all, book what comes back."""
        sent: list[Sent] = []
        async for one, requests in self._chunks(bodies, estimate):
            if await self._submit(one, requests):
                sent.append(one)
            if self.stop.reason:
                break
        await self._collect_all(sent)
        return sum(len(one.keys) for one in sent)

    async def _chunks(
        self, bodies: AsyncIterator[Body], estimate: Callable[[dict[str, Any]], float]
    ) -> AsyncIterator[tuple[Sent, list[dict[str, Any]]]]:
        sent, requests, size = None, list[dict[str, Any]](), 0
        async for key, body in bodies:
            usd = estimate(body)
            if self.stop.reason or (taken := self.budget.fits(usd)) is None:
                break
            length = len(json.dumps(body)) + 100  # its name and brackets
            full = len(requests) >= self.limits.max_requests
            if sent is not None and (full or size + length > self.limits.max_bytes):
                yield sent, requests
                sent, requests, size = None, [], 0
            sent = sent or Sent(uuid.uuid4().hex, [], datetime.now(UTC), usd=0.0)
            sent.keys.append(key)
            sent.aside[key] = taken
            sent.usd += usd
            requests.append({"custom_id": custom_id(sent.nonce, key), "params": body})
            size += length
        if sent is not None:
            yield sent, requests

    async def _submit(self, sent: Sent, requests: list[dict[str, Any]]) -> bool:
        """Send one batch; False when work is to stop and the service has not said it has it."""
        try:
            sent.before = await self._service.before()
            await self._note(sent, "intent", purpose=self.purpose, **sent.noted())
            sent.batch_id = await self._post(sent, requests)
        except StoppedError:
            await self._free(sent)
            return False
        await self._note(sent, "created", batch_id=sent.batch_id)
        return True

    async def _post(self, sent: Sent, requests: list[dict[str, Any]]) -> str:
        unsure = False

        async def create() -> str:
            nonlocal unsure
            # after an answer that got lost, the batch may exist: sending it again would pay twice
            if unsure and (found := await self._find(sent)):
                return found
            try:
                return await self._service.post(requests)
            except Exception as error:
                code = error.status_code if isinstance(error, anthropic.APIStatusError) else None
                # a TypeError tells of no credentials: the client did not send it
                refused = code in _SURE_REFUSALS or isinstance(error, TypeError)
                unsure = unsure or not refused
                raise

        try:
            return (await self.agent.retry.call(create, self.stop))[0]
        except Exception as error:
            if not (from_service(error) or isinstance(error, StoppedError)):
                raise
            if not unsure:
                await self._note(sent, "dropped")
            await self._free(sent)
            if self.stop.reason:
                raise StoppedError(
                    f"interrupted while sending a batch: {error_text(error)}"
                ) from None
            again = " The next start looks whether the service has it." if unsure else ""
            raise AgentError(
                f"agent '{self.agent.name}': a batch of {len(sent.keys)} requests was not taken "
                f"({error_text(error)}).{again}"
            ) from None

    # -- finding again ------------------------------------------------------------------------

    async def resume(self) -> None:
        """Collect every batch of this purpose that an earlier process sent."""
        open_ = [sent for purpose, sent in open_batches(self.store) if purpose == self.purpose]
        for sent in open_:
            each = 0.0 if math.isnan(sent.each) else sent.each
            sent.aside = {key: self.budget.hold(each) for key in sent.keys}
        ready = []
        for sent in open_:
            try:
                if sent.batch_id is None:
                    await self._find_again(sent)
            except StoppedError:
                break
            if sent.batch_id is not None:
                ready.append(sent)
        await self._collect_all(ready, earlier=True)

    async def _find_again(self, sent: Sent) -> None:
        sent.batch_id = await self._find(sent)
        if sent.batch_id is None:
            await self._note(sent, "dropped")
            await self._free(sent)
        else:
            await self._note(sent, "created", batch_id=sent.batch_id)

    async def _find(self, sent: Sent) -> str | None:
        """Return the batch that holds the requests of an intent, or None when there is none."""
        listed, met = await self._service.newer(sent.before.newest if sent.before else None)
        known = {row.get("batch_id") for row in self.store.records("batches")}
        names = sent.names
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
            if batch.processing_status != "ended" and _can_be_of(batch, sent):
                _log.warning("%s may be %s; waiting for its end", batch.id, sent)
                await self._service.ended(batch.id)
                if await self._service.holds(batch.id, names):
                    return batch.id
        if not (met or self.limits.resend or _empty_before(sent, listed)):
            raise self._service.other_workspace(
                sent, "the service lists neither it nor the one before it"
            )
        return None

    # -- taking in ----------------------------------------------------------------------------

    async def _collect_all(self, sent: list[Sent], *, earlier: bool = False) -> None:
        """Collect all, then raise the first error; a batch stays open until it is collected."""
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
            await self._note(sent, "collected", batch_id=batch.id)
        except StoppedError:
            pass  # it stays with the service
        except MissingBatchError:
            if not (earlier and (self.limits.resend or _is_old(sent))):
                raise self._service.other_workspace(sent, "the service does not know it") from None
            await self._give_up(sent, "the service does not know it any more", earlier)
        finally:
            await self._free(sent)

    async def _give_up(self, sent: Sent, why: str, earlier: bool) -> None:
        if not earlier:
            raise AgentError(
                f"agent '{self.agent.name}': {sent}: {why} before they could be read; they may "
                "have been paid for. The same call sends its requests again."
            )
        _log.warning("%s: %s; they are sent again", sent, why)
        usd = sent.each * len(sent.aside)
        more = {} if math.isnan(usd) else {"usd": usd}
        await self._note(sent, "dropped", batch_id=sent.batch_id, why=why, **more)
        for taken in sent.aside.values():  # it may have been paid for
            lost = self._failed(why, "").model_copy(update={"cost_usd": taken}) if taken else None
            await self.budget.settle(taken, lost)
        sent.aside.clear()

    async def _take_in(self, batch: MessageBatch, sent: Sent) -> None:
        waiting: list[tuple[str, Reply]] = []
        missing, n_seen = sent.names, 0
        async with aclosing(self._service.results(batch.id)) as rows:
            async for row in rows:
                n_seen += 1
                name = getattr(row, "custom_id", None) or ""
                key, request_id = missing.pop(name, None), f"{batch.id}/{name}"
                if key is None or request_id in self.booked:
                    continue
                waiting.append((key, self._reply(row, request_id)))
                if len(waiting) >= _WRITTEN_AT_ONCE:
                    await _all_of(self._one(*one, sent) for one in waiting)
                    waiting = []
        is_whole = n_seen >= size(batch)
        for name, key in missing.items() if is_whole else ():
            if (request_id := f"{batch.id}/{name}") not in self.booked:
                waiting.append((key, self._failed("not among the results", request_id)))
        await _all_of(self._one(*one, sent) for one in waiting)
        if not is_whole:
            raise UnreadableReplyError(f"{n_seen} of {size(batch)} results came")

    async def _one(self, key: str, reply: Reply, sent: Sent) -> None:
        reply = at_most(reply, lambda: sent.each)
        await self.book(key, reply)
        self.booked.add(reply.request_id or "")
        await self.budget.settle(sent.aside.pop(key), reply)

    def _reply(self, row: MessageBatchIndividualResponse, request_id: str) -> Reply:
        fatal = False
        try:
            result = row.result
            if result.type == "succeeded":
                reply = self.agent.read(result.message, batch=True)
                return reply.model_copy(update={"request_id": request_id})
            if result.type == "errored":
                error = result.error.error
                text = f"{error.type}: {redact(error.message)}"
                # the same request would be refused again
                fatal = error.type in ("invalid_request_error", "not_found_error")
            else:
                text, fatal = f"{result.type} in its batch", result.type == "canceled"
        except (AttributeError, TypeError, ValueError) as wrong:
            text = f"its result cannot be read ({error_text(wrong)})"
        return self._failed(text, request_id, fatal=fatal)

    def _failed(self, text: str, request_id: str, *, fatal: bool = False) -> Reply:
        settings = self.agent.settings
        return Reply(
            status="error", error=text, fatal=fatal, request_id=request_id, settings=settings
        )

    async def _free(self, sent: Sent) -> None:
        """Give back what the budget holds for a batch."""
        for taken in sent.aside.values():
            await self.budget.settle(taken, None)
        sent.aside.clear()


def tell_of(who: str, n: int) -> None:
    """Say that batches are waited for although this call did not ask for batches."""
    what = "a batch under way; it is" if n == 1 else f"{n} batches under way; they are"
    _log.warning(
        "%s has %s collected before anything else is asked, which may take a day (Ctrl-C leaves "
        "what is under way with the service)",
        who,
        what,
    )


def _can_be_of(batch: MessageBatch, sent: Sent) -> bool:
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
