"""The Message Batches API of Anthropic, which answers within a day at half the price."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import Any

from skillcomp.errors import SkillcompError, extra_imports
from skillcomp.io.redaction import redact
from skillcomp.live.agents.agent import LONGEST_WAIT, Reply
from skillcomp.live.agents.batch_service import BatchError, BatchState, Before
from skillcomp.live.agents.service import (
    ServiceAgent,
    UnreadableReplyError,
    error_text,
    is_fatal,
    retry_after,
)

with extra_imports("live", "AnthropicAgent"):
    import anthropic
    import httpx2
    from anthropic.types.messages import MessageBatch, MessageBatchIndividualResponse

# A response with one of these statuses means that no batch was created.
_REFUSALS = frozenset({400, 401, 402, 403, 404, 413, 422, 429, 529})
# After one of these statuses, or any status from 500 on, a later try may succeed.
_PASSING = frozenset({408, 409, 429})
_LOST = (
    *(anthropic.APIConnectionError, httpx2.TransportError, TimeoutError, ConnectionError),
    *(json.JSONDecodeError, UnicodeDecodeError, UnreadableReplyError),
)
# The errors of the HTTP library are listed too, because the SDK does not translate them while it
# reads a long body.
_SERVICE_ERRORS = (
    *(anthropic.AnthropicError, ConnectionError, TimeoutError, ValueError, UnreadableReplyError),
    *(httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError),
)


class AnthropicBatches:
    """The `BatchService` for the batches of an agent that uses the Messages API."""

    def __init__(self, agent: ServiceAgent) -> None:
        self._agent = agent
        self.request = agent.request  # a request in a batch has the same body as a single call

    def _batch_resource(self) -> Any:
        # The SDK must not retry, because a failed call may have made a batch. `Batches` looks for
        # that batch before it sends the requests again.
        return self._agent.client().with_options(max_retries=0).messages.batches

    def texts(self, body: Mapping[str, Any]) -> list[str]:
        """Return all texts in the body of a request, to estimate how much it can cost."""
        texts = [body["messages"][0]["content"]]
        texts += [block["text"] for block in body.get("system", [])]
        if shape := body.get("output_config", {}).get("format"):
            texts.append(json.dumps(shape))
        return texts

    async def create(self, bodies: Mapping[str, dict[str, Any]]) -> str:
        """Send a batch and return its name; `bodies` maps the name of each request to its body."""
        requests = [{"custom_id": name, "params": body} for name, body in bodies.items()]
        with _batch_errors():
            batch = await self._batch_resource().create(requests=requests)
            if not isinstance(name := getattr(batch, "id", None), str):
                raise UnreadableReplyError("the service answered with something else than a batch")
        return name

    async def before(self) -> Before:
        """Return the newest batch of the service, and the time by the service's clock.

        The caller sends a new batch right afterwards.
        """
        with _batch_errors():
            raw = await self._batch_resource().with_raw_response.list(limit=1)
            page = await raw.parse()
            try:
                names = [batch.id for batch in page.data]
            except (AttributeError, TypeError):
                raise UnreadableReplyError("the list of batches cannot be read") from None
        try:
            at = parsedate_to_datetime(raw.headers.get("date", ""))
        except (ValueError, OverflowError):  # OverflowError is raised for an absurd time zone
            at = None
        return Before(names[0] if names else None, at if at and at.tzinfo else None)

    async def newer_than(self, batch_id: str | None) -> tuple[list[BatchState], bool]:
        """Return batches newer than `batch_id`, newest first, and whether `batch_id` was listed."""
        states: list[BatchState] = []
        with _batch_errors():
            async for batch in self._batch_resource().list(limit=100):
                if batch.id == batch_id:
                    return states, True
                states.append(_state_of(batch))
        return states, False

    async def state(self, batch_id: str) -> BatchState:
        """Return the current state of a batch."""
        with _batch_errors():
            return _state_of(await self._batch_resource().retrieve(batch_id))

    async def results(self, batch_id: str) -> AsyncGenerator[tuple[str, Reply], None]:
        """Yield the name and the reply of each request in a batch that has ended."""
        with _batch_errors():
            rows = await self._batch_resource().results(batch_id)
            try:
                async for row in rows:
                    yield getattr(row, "custom_id", None) or "", self._reply_of(row)
            finally:
                await rows.close()

    def _reply_of(self, row: MessageBatchIndividualResponse) -> Reply:
        fatal = False
        try:
            result = row.result
            if result.type == "succeeded":
                return self._agent.read(result.message, batch=True)
            if result.type == "errored":
                error = result.error.error
                text = f"{error.type}: {redact(error.message)}"
                # after these errors, the service would refuse the same request again
                fatal = error.type in ("invalid_request_error", "not_found_error")
            else:
                text, fatal = f"{result.type} in its batch", result.type == "canceled"
        except (AttributeError, TypeError, ValueError) as wrong:
            text = f"its result cannot be read ({error_text(wrong)})"
        return Reply(status="error", error=text, fatal=fatal, settings=self._agent.settings)


def _state_of(batch: MessageBatch) -> BatchState:
    return BatchState(
        batch.id,
        size=sum(batch.request_counts.model_dump().values()),
        created_at=batch.created_at,
        has_ended=batch.processing_status == "ended",
        has_results=batch.results_url is not None,
        is_archived=batch.archived_at is not None,
    )


@contextmanager
def _batch_errors() -> Iterator[None]:
    """Turn errors of the service, of its SDK and of the connection into `BatchError`."""
    try:
        yield
    except Exception as error:
        # the SDK raises a TypeError if it has no credentials
        has_no_key = isinstance(error, TypeError) and "authentication method" in str(error)
        is_own = isinstance(error, SkillcompError) and not isinstance(error, UnreadableReplyError)
        if is_own or not (has_no_key or isinstance(error, _SERVICE_ERRORS)):
            raise
        code, wait = 0, None
        if isinstance(error, anthropic.APIStatusError):
            code, wait = error.status_code, retry_after(error.response.headers)
        passes = code in _PASSING or code >= 500 or isinstance(error, _LOST)
        raise BatchError(
            error_text(error),
            is_transient=passes and not is_fatal(error) and (wait or 0.0) <= LONGEST_WAIT,
            is_missing=code == 404,
            was_refused=has_no_key or code in _REFUSALS,
            wait_seconds=wait,
        ) from None
