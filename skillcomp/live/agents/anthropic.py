"""Claude through the Messages API."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from functools import cache, partial
from typing import Any, Literal, get_args
from weakref import WeakKeyDictionary

from pydantic import BaseModel

from skillcomp.errors import AgentError, extra_imports, require_known
from skillcomp.io.event_streams import ENDED, STOPPED, whole_number
from skillcomp.io.files import JsonObject
from skillcomp.io.redaction import redact
from skillcomp.live.agents.agent import (
    LONGEST_WAIT,
    Effort,
    Reply,
    cost_fields,
    host_of,
    settings_json,
    whole_hash,
)
from skillcomp.live.agents.service import MAX_RETRIES, CacheGate, ServiceAgent, retry_after
from skillcomp.live.concurrency import interruption
from skillcomp.pricing import Price

with extra_imports("live", "AnthropicAgent"):
    import anthropic
    from anthropic.types import Message

EFFORTS = get_args(Effort)
THINKING = ("adaptive", "disabled", "between_tools", "enabled")
_SECONDS = {"5m": 300.0, "1h": 3600.0}
_CREDENTIALS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE")


class AnthropicAgent(ServiceAgent):
    """A Claude model that is called through the official SDK.

    The skill is loaded as a system block that the service caches. The first prompt with a skill is
    sent alone; the other prompts wait for its reply and then read the cache entry that this first
    prompt wrote. The SDK repeats failed calls, with growing waits. There are two exceptions: a call
    ends in an error if the service asks to wait for more than two minutes, and no retry begins
    after Ctrl-C. The SDK reads the key from the environment.

    Parameters
    ----------
    model : str
        Name of the model in the API.
    name : str, optional
        Label of the agent in the frames; by default the model.
    effort : str, optional
        ``low``, ``medium``, ``high``, ``xhigh`` or ``max``; by default the model's own effort.
    thinking : str or dict, optional
        ``"adaptive"``, ``"disabled"``, ``"between_tools"``, or an object that is sent to the API
        unchanged. The API refuses values that a model does not support. By default nothing is sent.
    max_tokens : int, default 16000
        Limit on the tokens of answer and thinking together; an answer that reaches it is recorded
        as truncated.
    cache : bool, default True
        Whether the service is asked to cache the system blocks.
    cache_ttl : str, default "5m"
        How long a cache entry lives after its last use, ``"5m"`` or ``"1h"``.
    timeout : float, default 600
        Time limit of one try in seconds, passed to the SDK.
    max_retries : int, default 5
        Largest number of tries after the first one, passed to the SDK.
    base_url : str, optional
        Another endpoint; by default the environment variable ``ANTHROPIC_BASE_URL``. Its host is
        recorded in the settings of the agent.
    client : anthropic.AsyncAnthropic, optional
        A client to use instead of a new one, with its own time limit and number of retries.
    prices : sequence of Price, optional
        Prices to use instead of the list prices.

    Raises
    ------
    AgentError
        If an option has a value that is not allowed.

    Notes
    -----
    No temperature and no seed is sent, so answers to the same prompt vary; repeats show how much.
    A reply with the status refused, truncated or paused is not graded. In
    :func:`skillcomp.frames.outcomes`, a refused or truncated answer fails, and a paused one is
    missing.
    """

    _default_host, _url_variable = "api.anthropic.com", "ANTHROPIC_BASE_URL"
    _answer_noun = "a message"

    def __init__(
        self,
        model: str,
        *,
        name: str | None = None,
        effort: Effort | None = None,
        thinking: str | JsonObject | None = None,
        max_tokens: int = 16_000,
        cache: bool = True,
        cache_ttl: Literal["5m", "1h"] = "5m",
        timeout: float = 600.0,
        max_retries: int = MAX_RETRIES,
        base_url: str | None = None,
        client: anthropic.AsyncAnthropic | None = None,
        prices: Sequence[Price] = (),
    ) -> None:
        thinking = {"type": thinking} if isinstance(thinking, str) else thinking
        for option, value, allowed in (
            ("effort", effort, EFFORTS),
            ("cache_ttl", cache_ttl, tuple(_SECONDS)),
            ("thinking", thinking and thinking.get("type"), THINKING),
        ):
            if value is not None:
                require_known(f"AnthropicAgent: {option}: found", value, allowed, AgentError)
        if client is not None:
            client = client.with_middleware(_end_long_retries)
        super().__init__(model, name, timeout, max_retries, client, prices, base_url)
        self._effort, self._thinking, self._max_tokens = effort, thinking, max_tokens
        self._cache = {"type": "ephemeral", "ttl": cache_ttl} if cache else None
        self._ttl = cache_ttl
        # a lock belongs to the event loop that first used it, so each loop needs its own CacheGate
        self._gates: WeakKeyDictionary[asyncio.AbstractEventLoop, CacheGate] = WeakKeyDictionary()
        self.settings = settings_json(
            effort=effort or "default",
            thinking=thinking or "default",
            max_tokens=max_tokens,
            cache=cache_ttl if cache else "off",
            endpoint=self._endpoint,
        )

    def _make_client(self) -> anthropic.AsyncAnthropic:
        try:
            client = anthropic.AsyncAnthropic(
                base_url=self._base_url,
                timeout=self._timeout,
                max_retries=self._max_retries,
                middleware=[_end_long_retries],
            )
        except anthropic.AnthropicError as error:
            raise self._no_key_error(error) from None
        # The endpoint of the client can differ from the recorded endpoint, because of a profile or
        # of a change in the environment since __init__.
        if (host := host_of(client.base_url, self._default_host)) != self._host:
            used, recorded = (name or self._default_host for name in (host, self._host))
            raise AgentError(
                f"AnthropicAgent '{self.name}': the environment or its profile leads to "
                f"'{used}', but the settings of the agent say '{recorded}'; give the endpoint as "
                "base_url=."
            )
        return client

    def _no_key_error(self, error: Exception) -> AgentError:
        return AgentError(
            f"AnthropicAgent '{self.name}' has no credentials: {redact(str(error))} Set one of "
            f"{', '.join(_CREDENTIALS)} in the environment; keys are read from nowhere else."
        )

    def _require_key(self, error: Exception) -> None:
        # the SDK notices missing credentials only when it builds the headers of a call
        if isinstance(error, TypeError) and not any(map(os.environ.get, _CREDENTIALS)):
            raise self._no_key_error(error) from None

    def _is_answer(self, message: Any) -> bool:
        return isinstance(message, Message) and isinstance(message.content, list)

    def _request_body(
        self, prompt: str, texts: list[str], schema: type[BaseModel] | None
    ) -> JsonObject:
        body: JsonObject = {
            "model": self.model,
            "max_tokens": self._max_tokens,
            "messages": [{"role": "user", "content": prompt}],
        }
        if texts:
            blocks: list[JsonObject] = [{"type": "text", "text": text} for text in texts]
            if self._cache:
                blocks[-1]["cache_control"] = self._cache
            body["system"] = blocks
        output: JsonObject = {"effort": self._effort} if self._effort else {}
        if schema is not None:
            output["format"] = {"type": "json_schema", "schema": _api_schema(schema)}
        if output:
            body["output_config"] = output
        if self._thinking:
            body["thinking"] = self._thinking
        return body

    async def _send_body(self, body: JsonObject) -> Reply:
        create = partial(self.client().messages.with_raw_response.create, **body)
        if not (self._cache and "system" in body):
            return await self._reply_to(create)
        gate = self._gates.setdefault(asyncio.get_running_loop(), CacheGate(_SECONDS[self._ttl]))
        head = {k: v for k, v in body.items() if k not in ("messages", "max_tokens")}
        prefix = whole_hash(json.dumps(head, sort_keys=True))
        async with gate.passing(prefix):
            reply = await self._reply_to(create)
            if reply.input_tokens is not None:
                gate.open(prefix, cached=bool(reply.cached_tokens or reply.cache_write_tokens))
            else:
                gate.open_after_failure(prefix)
        return reply

    def _reply_fields(self, message: Message) -> JsonObject:
        stop = message.stop_reason
        # a stop reason that is not known means an unfinished answer, so the reply is an error
        status = "ok" if stop in ENDED else STOPPED.get(stop or "", "error")
        text = "".join(block.text for block in message.content if block.type == "text")
        error = f"stop_reason '{stop}' is not an answer" if status == "error" else None
        if status == "refused":
            details = message.stop_details
            why = (getattr(details, "category", None), getattr(details, "explanation", None))
            reason = ": ".join(filter(None, why))
            error = f"refused ({reason})" if reason else "refused"
        return {
            "answer": text if text or status == "ok" else None,
            "status": status,
            "stop_reason": stop,
            "model": message.model if isinstance(message.model, str) else None,
            "error": error,
            **self._usage_fields(message),
        }

    def _usage_fields(self, message: Message) -> JsonObject:
        usage = message.usage
        read, write = (
            getattr(usage, f"cache_{how}_input_tokens", None) or 0 for how in ("read", "creation")
        )
        parts: list[Any] = [getattr(usage, "input_tokens", None), read, write]
        parts = list(map(whole_number, parts))
        # in the API, input_tokens excludes the tokens that were read from or written to a cache
        whole = None if None in parts else sum(parts)
        hour = getattr(getattr(usage, "cache_creation", None), "ephemeral_1h_input_tokens", None)
        counts = [whole, getattr(usage, "output_tokens", None), read, write, hour or 0]
        return cost_fields("the service", message.model, counts, self.prices)


async def _end_long_retries(
    request: anthropic.APIRequest, call_next: anthropic.AsyncCallNext
) -> anthropic.AsyncAPIResponse[Any]:
    """Make the SDK stop retrying before a wait of more than two minutes, and after Ctrl-C.

    Without this middleware the SDK waits as long as ``retry-after`` asks, even for hours.
    """
    stop = interruption()
    if request.retries_taken and stop is not None:
        stop.check()
    response = await call_next(request)
    is_stopped = stop is not None and stop.reason is not None
    if is_stopped or (retry_after(response.headers) or 0.0) > LONGEST_WAIT:
        response.http_response.headers["x-should-retry"] = "false"
    return response


@cache
def _api_schema(schema: type[BaseModel]) -> JsonObject:
    # Cache the result, because making the schema takes longer than making the rest of a request.
    return anthropic.transform_schema(schema)
