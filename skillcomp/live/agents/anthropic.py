"""Claude through the Messages API."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from functools import cache, partial
from typing import Any, Literal
from weakref import WeakKeyDictionary

import anthropic
from anthropic.types import Message
from pydantic import BaseModel

from skillcomp.errors import AgentError, require_known
from skillcomp.io.event_streams import whole_number
from skillcomp.live.agents.agent import Reply, redact, settings_json, whole_hash
from skillcomp.live.agents.service import CacheGate, RetryPolicy, ServiceAgent
from skillcomp.pricing import Price
from skillcomp.records import AttemptStatus, Skill

EFFORTS = ("low", "medium", "high", "xhigh", "max")
THINKING = ("adaptive", "disabled", "between_tools", "enabled")
_SECONDS = {"5m": 300.0, "1h": 3600.0}
_CREDENTIALS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE")
# Everything else that the API may report is an answer that did not come about as asked.
_STATUS: dict[str, AttemptStatus] = {
    "end_turn": "ok",
    "stop_sequence": "ok",
    "max_tokens": "truncated",
    "model_context_window_exceeded": "truncated",
    "refusal": "refused",
    "pause_turn": "paused",
}


class AnthropicAgent(ServiceAgent):
    """A Claude model, asked through the official SDK.

    The skill is loaded as a system block that the service caches: the first question about a skill
    goes alone, the others read what it wrote. Retries are ours (see `RetryPolicy`), the SDK's own
    are switched off, since it would obey a wait of any length. The key is taken from the
    environment by the SDK and from nowhere else.

    Parameters
    ----------
    model : str
        As the API names it.
    name : str, optional
        The label in the frames; the model when not given.
    effort : str, optional
        ``low``, ``medium``, ``high``, ``xhigh`` or ``max``; the model's default when not given.
    thinking : str or dict, optional
        ``"adaptive"``, ``"disabled"``, ``"between_tools"``, or the API's own object. What is
        allowed differs by model; the API refuses the rest. Left out when not given.
    max_tokens : int, default 16000
        Limit of answer and thinking together; a longer answer is recorded as truncated.
    cache : bool, default True
        Ask the service to cache the system blocks.
    cache_ttl : str, default "5m"
        ``"5m"`` or ``"1h"``, counted from the last use.
    timeout : float, default 600
        Seconds for one try.
    retry : RetryPolicy, optional
        How often to ask again.
    base_url : str, optional
        Another endpoint; ``ANTHROPIC_BASE_URL`` of the environment when not given. Its host stands
        in the settings.
    client : anthropic.AsyncAnthropic, optional
        A client of one's own, used as it is but for its retries.
    prices : sequence of Price, optional
        Prices that are not list prices.

    Raises
    ------
    AgentError
        When an option is not one of those allowed.

    Notes
    -----
    There is no temperature and no seed: determinism cannot be asked for, so a study records
    repeats. A refusal, a cut-off and a pause are statuses of the reply and never failed answers.
    """

    _default_host, _variable = "api.anthropic.com", "ANTHROPIC_BASE_URL"
    _answers_with = "a message"

    def __init__(
        self,
        model: str,
        *,
        name: str | None = None,
        effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None,
        thinking: str | dict[str, Any] | None = None,
        max_tokens: int = 16_000,
        cache: bool = True,
        cache_ttl: Literal["5m", "1h"] = "5m",
        timeout: float = 600.0,
        retry: RetryPolicy | None = None,
        base_url: str | None = None,
        client: anthropic.AsyncAnthropic | None = None,
        prices: Sequence[Price] = (),
    ) -> None:
        _allowed("effort", effort, EFFORTS)
        _allowed("cache_ttl", cache_ttl, tuple(_SECONDS))
        thinking = {"type": thinking} if isinstance(thinking, str) else thinking
        _allowed("thinking", thinking and thinking.get("type"), THINKING)
        super().__init__(model, name, timeout, retry, client, prices, base_url)
        self._effort, self._thinking, self._max_tokens = effort, thinking, max_tokens
        self._cache = {"type": "ephemeral", "ttl": cache_ttl} if cache else None
        self._ttl = cache_ttl
        # a lock belongs to the event loop in which it was first used
        self._gates: WeakKeyDictionary[asyncio.AbstractEventLoop, CacheGate] = WeakKeyDictionary()
        self.settings = settings_json(
            effort=effort or "default",
            thinking=thinking or "default",
            max_tokens=max_tokens,
            cache=cache_ttl if cache else "off",
            endpoint=self._endpoint,
        )

    def _made_client(self) -> anthropic.AsyncAnthropic:
        try:
            made = anthropic.AsyncAnthropic(
                base_url=self._base_url, timeout=self._timeout, max_retries=0
            )
        except anthropic.AnthropicError as error:
            raise AgentError(self._no_key(redact(str(error)))) from None
        # a profile can bring in an endpoint, and one can be set after the agent was made
        if (found := self._host_of(made.base_url)) != self._host:
            found, told = (host or self._default_host for host in (found, self._host))
            raise AgentError(
                f"AnthropicAgent '{self.name}': the environment or its profile leads to "
                f"'{found}', but the settings of the agent say '{told}'; give the endpoint as "
                "base_url=."
            )
        return made

    def _no_key(self, why: str) -> str:
        return (
            f"AnthropicAgent '{self.name}' has no credentials: {why} Set one of "
            f"{', '.join(_CREDENTIALS)} in the environment; keys are read from nowhere else."
        )

    def _require_key(self, error: Exception) -> None:
        # the SDK finds out about missing credentials only when it builds the headers
        if isinstance(error, TypeError) and not any(map(os.environ.get, _CREDENTIALS)):
            raise AgentError(self._no_key(redact(str(error)))) from None

    def _is_answer(self, came: Any) -> bool:
        return isinstance(came, Message) and isinstance(came.content, list)

    def _body(
        self, prompt: str, texts: list[str], schema: type[BaseModel] | None
    ) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self._model,
            "max_tokens": self._max_tokens,
            "messages": [{"role": "user", "content": prompt}],
        }
        if texts:
            blocks: list[dict[str, Any]] = [{"type": "text", "text": text} for text in texts]
            if self._cache:
                blocks[-1]["cache_control"] = self._cache
            body["system"] = blocks
        output: dict[str, Any] = {"effort": self._effort} if self._effort else {}
        if schema is not None:
            output["format"] = {"type": "json_schema", "schema": _schema(schema)}
        if output:
            body["output_config"] = output
        if self._thinking:
            body["thinking"] = self._thinking
        return body

    async def _answer_to(self, body: dict[str, Any]) -> Reply:
        create = partial(self.client().messages.create, **body)
        if not (self._cache and "system" in body):
            return await self._send(create)
        loop = asyncio.get_running_loop()
        gate = self._gates.setdefault(loop, CacheGate(_SECONDS[self._ttl]))
        before = {k: v for k, v in body.items() if k not in ("messages", "max_tokens")}
        prefix = whole_hash(json.dumps(before, sort_keys=True))
        async with gate.passing(prefix):
            reply = await self._send(create)
            if reply.input_tokens is not None:
                gate.open(prefix, cached=bool(reply.cached_tokens or reply.cache_write_tokens))
            else:
                gate.let_all_pass(prefix)
        return reply

    def _said(self, message: Message, *, batch: bool) -> dict[str, Any]:
        stop = message.stop_reason
        status = _STATUS.get(stop or "", "error")
        text = "".join(block.text for block in message.content if block.type == "text")
        return {
            "answer": text if text or status == "ok" else None,
            "status": status,
            "stop_reason": stop,
            "model": message.model if isinstance(message.model, str) else None,
            "error": _explained(message, status),
            **self._used(message, batch),
        }

    def _used(self, message: Message, batch: bool) -> dict[str, Any]:
        used: Any = message.usage
        plain = whole_number(getattr(used, "input_tokens", None))
        read = whole_number(getattr(used, "cache_read_input_tokens", None) or 0)
        write = whole_number(getattr(used, "cache_creation_input_tokens", None) or 0)
        hours = getattr(used, "cache_creation", None)
        # here the input counts only what was neither read nor written
        whole = None if plain is None or read is None or write is None else plain + read + write
        out, hour = getattr(used, "output_tokens", None), "ephemeral_1h_input_tokens"
        counts = [whole, out, read, write, getattr(hours, hour, None) or 0]
        in_batch = batch or getattr(used, "service_tier", None) == "batch"
        return self._usage(message.model, counts, batch=in_batch)

    async def count_tokens(
        self, prompt: str, *, skill: Skill | None = None, system: str | None = None
    ) -> int:
        """Return the length of the whole prompt in tokens, as the service counts it."""
        body = self.request(prompt, skill=skill, system=system)
        wanted = {key: body[key] for key in ("model", "messages", "system") if key in body}
        counted, _ = await self.retry.call(lambda: self.client().messages.count_tokens(**wanted))
        return int(counted.input_tokens)


@cache
def _schema(schema: type[BaseModel]) -> dict[str, Any]:
    # made once: it takes longer than everything else about a request
    return anthropic.transform_schema(schema)


def _explained(message: Message, status: AttemptStatus) -> str | None:
    if status == "refused":
        details = message.stop_details
        found = (getattr(details, "category", None), getattr(details, "explanation", None))
        told = ": ".join(text for text in found if text)
        return f"refused ({told})" if told else "refused"
    if status == "error":
        return f"stop_reason '{message.stop_reason}' is not an answer"
    return None


def _allowed(option: str, found: Any, allowed: tuple[str, ...]) -> None:
    if found is not None:
        require_known(f"AnthropicAgent: {option}: found", found, allowed, AgentError)
