"""The Message Batches API, asked patiently; what goes wrong is told without any key in it."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from email.utils import parsedate_to_datetime
from typing import Any, Protocol, TypeVar, runtime_checkable

import anthropic
import tenacity
from anthropic.types.messages import MessageBatch, MessageBatchIndividualResponse

from skillcomp.errors import AgentError
from skillcomp.live.agents.asking import (
    RetryPolicy,
    UnreadableReplyError,
    error_text,
    from_service,
    is_transient,
)
from skillcomp.live.agents.reply import Agent, Reply
from skillcomp.live.batches import BatchLimits
from skillcomp.live.batches.record import Before, Sent
from skillcomp.live.stopping import Stop, StoppedError

_T = TypeVar("_T")
_log = logging.getLogger("skillcomp.live")
_STAYS = "What was sent stays with the service for 29 days; the same call goes on with it."


@runtime_checkable
class BatchAgent(Protocol):
    """An agent whose questions can be put into a batch."""

    name: str
    model: str | None
    family: str | None
    settings: str

    @property
    def retry(self) -> RetryPolicy:
        """How often it is asked again."""
        ...

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
    """Return the agent, or raise that it cannot be asked in batches."""
    if not isinstance(agent, BatchAgent):
        raise AgentError(
            f"agent '{agent.name}' ({type(agent).__name__}) cannot be asked in batches; allowed: "
            "AnthropicAgent."
        )
    return agent


class MissingBatchError(AgentError):
    """The service knows no batch of this name in the workspace of the key."""


class BatchService:
    """The calls to the service for one agent."""

    def __init__(self, agent: BatchAgent, limits: BatchLimits, stop: Stop) -> None:
        self._agent, self._limits, self._stop = agent, limits, stop

    async def call(self, function: Callable[[], Awaitable[_T]], about: str) -> _T:
        """Return what a function returns that asks the service, tried again where that helps."""
        return await self._telling(self._tried(function), about)

    async def _tried(self, function: Callable[[], Awaitable[_T]]) -> _T:
        return (await self._agent.retry.call(function, self._stop))[0]

    async def _telling(self, work: Awaitable[_T], about: str) -> _T:
        try:
            return await work
        except Exception as error:
            if not from_service(error):
                raise
            if self._stop.reason and is_transient(error):
                raise StoppedError(f"{about}: {self._stop.reason}.") from None
            missing = getattr(error, "status_code", None) == 404
            kind = MissingBatchError if missing else AgentError
            message = f"agent '{self._agent.name}': {about} ({error_text(error)}). {_STAYS}"
            raise kind(message) from None

    def other_workspace(self, sent: Sent, what: str) -> AgentError:
        """Return the error that the key seems to be of another workspace than a batch."""
        return AgentError(
            f"agent '{self._agent.name}': {what}: {sent}. The key is likely of another workspace "
            "than the one it was sent from: start again with a key of that one, and nothing is "
            "paid twice. Where the batch is truly lost, --resend-lost (in Python: "
            "batch=BatchLimits(resend=True)) sends its requests again."
        )

    async def post(self, requests: Any) -> str:
        """Send a batch, once, and return its name; errors are those of the client."""
        made = await self._agent.client().messages.batches.create(requests=requests)
        if not isinstance(name := getattr(made, "id", None), str):
            raise UnreadableReplyError("the service answered with something else than a batch")
        return name

    async def before(self) -> Before | None:
        """Return how the list of batches stands; None where the service does not tell."""

        async def newest() -> Before:
            listed = self._agent.client().messages.batches.with_raw_response.list(limit=1)
            raw = await listed
            page = await raw.parse()
            names = [batch.id for batch in page.data]
            try:
                at = parsedate_to_datetime(raw.headers.get("date", ""))
            except ValueError:
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
            async for batch in self._agent.client().messages.batches.list(limit=100):
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
                batch = await self._tried(
                    lambda: self._agent.client().messages.batches.retrieve(batch_id)
                )
            except Exception as error:
                silent = time.monotonic() - heard >= self._limits.longest_silence
                if silent or not is_transient(error):
                    raise
                _log.log(level, "batch %s: no word (%s); asking on", batch_id, error_text(error))
                level = logging.DEBUG  # once for each silence
                return None
            heard, level = time.monotonic(), logging.WARNING
            return batch

        waiting = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_result(lambda batch: not (_over(batch) or self._stop.reason)),
            wait=tenacity.wait_exponential(
                multiplier=self._limits.first_wait, max=self._limits.longest_wait
            ),
            sleep=self._stop.sleep,
        )
        batch: MessageBatch | None = await self._telling(
            waiting(look), f"batch {batch_id} cannot be looked at"
        )
        if batch is None or not _over(batch):
            raise StoppedError(f"batch {batch_id} has not ended: {self._stop.reason}.")
        return batch

    async def results(self, batch_id: str) -> AsyncGenerator[MessageBatchIndividualResponse, None]:
        """Yield the results of a batch that has ended; errors are those of the client."""
        rows = await self._agent.client().messages.batches.results(batch_id)
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
