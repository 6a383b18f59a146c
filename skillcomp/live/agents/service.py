"""Agents that call a model through an SDK: Claude, and OpenAI-compatible services.

Their base class makes one client per event loop, reports the keys of clients as secrets, and makes
a reply of whatever the service answers. The SDK repeats failed calls, waits between the tries and
applies the time limit. An SDK is imported when an agent is made.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import re
import time
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache, partial
from html import unescape
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Unpack, get_args
from weakref import WeakKeyDictionary

from pydantic import BaseModel, NonNegativeInt

from skillcomp.errors import AgentError, extra_imports, require_known, without_control
from skillcomp.io.event_streams import ENDED, STOPPED
from skillcomp.io.files import JsonObject, as_object, whole_number
from skillcomp.io.redaction import hide, redact, redacted_start
from skillcomp.live.agents.agent import (
    LONGEST_WAIT,
    MAX_ERROR,
    Asked,
    BaseAgent,
    Effort,
    JsonMode,
    Reply,
    Thinking,
    cost_fields,
    family_of,
    host_of,
    redacted_reply,
    settings_json,
    skill_block,
    unreadable,
    whole_hash,
)
from skillcomp.live.concurrency import StoppedError, interruption
from skillcomp.pricing import Price
from skillcomp.records import AttemptStatus

if TYPE_CHECKING:
    import anthropic
    from openai import AsyncOpenAI
    from openai.types.chat import ChatCompletion

# default number of retries of a call; the SDKs' own default, 2, gives up within two seconds
MAX_RETRIES = 5
# statuses for a wrong key, no money, no permission and an unknown model
_FATAL_STATUS = frozenset({401, 402, 403, 404})
# A local server needs no key, but the class of the client requires one; it is too short for a
# secret.
NO_KEY = "no-key"
# A 429 error with one of these words in its code means that the account has no money left, so
# waiting does not help.
_SPENT = ("spend_limit", "insufficient_quota", "billing")


# the parts of a page of HTML that are not its text
_TAGS = re.compile(r"<(script|style)\b.*?</\1>|<[^<>]*>", re.DOTALL | re.IGNORECASE)
_MAX_BODY = 50_000  # Number of bytes of a response in which a message is looked for.


class UnreadableReplyError(AgentError):
    """The service responded with HTTP status 200, but the response is not a model's answer."""


def error_text(error: BaseException) -> str:
    """Return class, status and message of an error as one text."""
    head = f"{type(error).__name__} {getattr(error, 'status_code', '')}".strip()
    sent = _request_headers(error)
    # keys in the headers of a failed call are secrets, too
    for name, header in (("API_KEY", "x-api-key"), ("AUTHORIZATION", "authorization")):
        key = str(sent.get(header, "")).removeprefix("Bearer ")
        if redact(key) == key:
            hide({name: key})
    response = getattr(error, "response", None)
    own = service_message(getattr(response, "content", b""))
    return without_control(redacted_start(f"{head}: {own or error}", MAX_ERROR))


def service_message(body: bytes) -> str:
    """Return the message in the body of a response: that of a JSON error, or the text of a page.

    It is empty if the body is something else, such as an answer.
    """
    text = body[:_MAX_BODY].decode("utf-8", "replace").strip()
    with suppress(ValueError, RecursionError):
        fault = as_object(json.loads(text)).get("error")
        fault = fault.get("message") if isinstance(fault, dict) else fault
        return fault if isinstance(fault, str) else ""
    if "{" in text and not text.startswith("<"):
        return ""
    return " ".join(unescape(_TAGS.sub(" ", text)).split())


def _request_headers(error: BaseException) -> Mapping[str, Any]:
    try:
        headers: Mapping[str, Any] = error.request.headers  # type: ignore[attr-defined]
    except (AttributeError, RuntimeError):  # the `request` of an error may be missing or not set
        return {}
    return headers


def failed_reply(error: BaseException, *, seconds: float, settings: str) -> Reply:
    """Return a reply that records a call which ended in an error."""
    codes = [getattr(error, name, None) for name in ("error_code", "code", "type")]
    is_spent = any(word in str(code) for code in codes for word in _SPENT)
    status = getattr(error, "status_code", None)
    # every further call would fail, too
    fatal = is_spent or status in _FATAL_STATUS
    headers = getattr(getattr(error, "response", None), "headers", None)
    # The classes of the two SDKs have no common base and may not be installed, so compare names.
    names = [cls.__name__ for cls in type(error).__mro__]
    is_timeout = "APITimeoutError" in names or status in (408, 504)
    return Reply(
        status="timeout" if is_timeout else "error",
        wait_seconds=None if fatal or headers is None else retry_after(headers),
        error=error_text(error),
        fatal=fatal,
        seconds=seconds,
        request_id=getattr(error, "request_id", None),
        n_tries=1 + int(_request_headers(error).get("x-stainless-retry-count", 0)),
        settings=settings,
    )


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a service asks to wait; None if the headers give no time.

    Reads ``retry-after-ms``, then ``retry-after`` as seconds or as an HTTP date. A value that is
    unreadable, negative or not finite is ignored.
    """
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        seconds = _seconds_or_date(headers.get(name, ""), unit)
        if seconds is not None and 0 <= seconds < float("inf"):
            return seconds
    return None


def _seconds_or_date(value: str, unit: float) -> float | None:
    with suppress(ValueError):
        return float(value) / unit
    with suppress(ValueError, OverflowError):  # OverflowError is raised for an absurd time zone
        when = parsedate_to_datetime(value)
        when = when if when.tzinfo else when.replace(tzinfo=UTC)
        return max(0.0, (when - datetime.now(UTC)).total_seconds())
    return None


# Calls that read a cache entry are sent only during this share of its lifetime, because a call sent
# later may reach the service after the entry has expired.
_MARGIN = 0.9


class CacheGate:
    """A lock per prompt prefix: later calls wait until the response to the first call has arrived.

    The service caches the prefix of a prompt. The cache entry can be read only after the response
    to the call that writes it has begun. If sixty calls were sent at once, all of them would write
    the entry and none would read it. While the gate of a prefix is open, calls with this prefix
    do not wait. A failed call opens the gate for 30 seconds, so that calls do not fail one after
    the other. If a prefix is too short for the cache, its gate stays open after the first call.
    """

    def __init__(self, seconds: float) -> None:
        self._alive = seconds * _MARGIN
        # until when the gate of a prefix is open
        self._until: defaultdict[str, float] = defaultdict(float)
        # a lock belongs to the event loop that first used it
        self._locks: WeakKeyDictionary[asyncio.AbstractEventLoop, defaultdict[str, asyncio.Lock]]
        self._locks = WeakKeyDictionary()

    async def reply(self, prefix: str, call: Callable[[], Awaitable[Reply]]) -> Reply:
        """Make a call once the gate of its prefix is open or the call is the first."""
        if self._until[prefix] <= time.monotonic():
            locks = self._locks.setdefault(asyncio.get_running_loop(), defaultdict(asyncio.Lock))
            async with locks[prefix]:
                if self._until[prefix] <= time.monotonic():
                    return await self._open_after(prefix, call)
        return await self._open_after(prefix, call)

    async def _open_after(self, prefix: str, call: Callable[[], Awaitable[Reply]]) -> Reply:
        reply = await call()
        now = time.monotonic()
        if reply.input_tokens is None:  # a failed call may have written the cache
            self._until[prefix] = max(self._until[prefix], now + 30.0)
        else:
            is_cached = reply.cached_tokens or reply.cache_write_tokens
            self._until[prefix] = now + self._alive if is_cached else float("inf")
        return reply


class _Answer(NamedTuple):
    """The parts of an answer that both kinds of services give.

    `counts` are those of `cost_fields`; `error` says why the model refused to answer.
    """

    text: str | None
    stop: str | None
    counts: Sequence[Any]
    error: str | None = None


class ServiceAgent(BaseAgent):
    """Base class of agents that call a model through an SDK.

    A subclass defines how to make the client, the body of a call, and how to read its answer.
    """

    _extra: str  # The extra that brings the SDK.
    _sdk_name: str
    _default_host: str  # The host of the endpoint if neither user nor environment names another.
    _url_variable: str  # The environment variable that can name another endpoint.
    _resource: str  # The part of the client that creates an answer.
    _parts: str  # The field of an answer that lists its parts.
    reports_cost = False
    _key_placeholder = "a key"  # The text that replaces the key of a client.

    def __init__(
        self,
        model: str,
        name: str | None,
        timeout: float,
        max_retries: int,
        prices: Sequence[Price],
        base_url: str | None,
    ) -> None:
        self._sdk()
        self.model = model
        self.family = family_of(model)
        self.prices = tuple(prices)
        self._sdk_options = {"timeout": timeout, "max_retries": max_retries}
        # read the environment only once: the recorded endpoint must be the one that calls go to
        self._base_url = base_url or os.environ.get(self._url_variable) or None
        self._host = host_of(self._base_url, self._default_host)
        self._endpoint = self._host or host_of(base_url, "")
        # a connection pool belongs to the event loop that first used it, so each loop has its own
        # client
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = WeakKeyDictionary()
        hide({"base_url": self._base_url})
        # The name is a part of the ids of answers, which must be the same when a study resumes.
        self.name = redact(name or model)

    def _sdk(self) -> Any:
        with extra_imports(self._extra, type(self).__name__):
            return import_module(self._sdk_name)

    def client(self) -> Any:
        """Return the client of the SDK for the running event loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            self._clients[loop] = client = self._make_client()
            # its keys may come from a profile of the user
            keys = {
                self._key_placeholder: client.api_key,
                "a token": getattr(client, "auth_token", None),
                **(getattr(client, "_custom_headers", None) or {}),
            }
            hide({name: key for name, key in keys.items() if isinstance(key, str)})
        return self._clients[loop]

    async def aclose(self) -> None:
        """Close the client of the running event loop."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()

    @abstractmethod
    def _make_client(self) -> Any:
        """Make a client of the SDK; raise AgentError if the environment holds no key."""

    @abstractmethod
    def _request_body(
        self, prompt: str, texts: list[str], schema: type[BaseModel] | None
    ) -> JsonObject:
        """Return the body of a call; `texts` (instructions and skill) come before the prompt."""

    @abstractmethod
    def _read(self, message: Any) -> _Answer:
        """Read an answer; a malformed one may raise any error."""

    async def ask(self, prompt: str, **about: Unpack[Asked]) -> Reply:
        """Return the reply to one prompt; see `BaseAgent.ask`."""
        skill = about.get("skill")
        texts = [about.get("system"), skill_block(skill) if skill else None]
        body = self._request_body(prompt, list(filter(None, texts)), about.get("schema"))
        return await self._send_body(body)

    async def _send_body(self, body: JsonObject) -> Reply:
        """Make one call through the SDK and return the reply, even if the call fails."""
        create = attrgetter(self._resource)(self.client()).with_raw_response.create
        if stop := interruption():
            stop.check()  # the user may have pressed Ctrl-C while CacheGate made the call wait
        begun = time.monotonic()
        about: JsonObject = {"settings": self.settings}
        raw = None
        try:
            raw = await create(**body)
            about |= {"n_tries": raw.retries_taken + 1, "seconds": raw.elapsed.total_seconds()}
            message = raw.parse()
            if inspect.isawaitable(message):
                message = await message
            ident = raw.request_id or getattr(message, "id", None)
            about["request_id"] = ident if isinstance(ident, str) else None
            if not isinstance(getattr(message, self._parts, None), list):
                raise UnreadableReplyError(
                    f"the service answered with something other than a message: '{self._parts}' is "
                    "no list"
                )
            answer = self._read(message)
            # a stop reason that is not known means an unfinished answer, so the reply is an error
            status: AttemptStatus = "ok"
            if answer.stop not in ENDED:
                status = STOPPED.get(answer.stop or "", "error")
            wrong = f"stop_reason '{answer.stop}' is not an answer" if status == "error" else None
            reply = Reply(
                answer=answer.text or ("" if status == "ok" else None),
                status=status,
                stop_reason=answer.stop,
                model=message.model if isinstance(message.model, str) else None,
                error=answer.error or wrong,
                **cost_fields("the service", message.model, answer.counts, self.prices),
                **about,
            )
        except StoppedError:
            raise
        except Exception as error:
            self._require_key(error)
            if raw is None:
                seconds = time.monotonic() - begun
                reply = failed_reply(error, seconds=seconds, settings=self.settings)
            else:  # the call was paid for, so an unreadable answer is recorded
                content = raw.http_response.content
                if message := service_message(content):
                    error = UnreadableReplyError(f"the service answered: {message}")
                reply = unreadable(error, content, **about)
        # a server can return parts of the request, so even a good answer can contain the API key
        return await asyncio.to_thread(redacted_reply, reply)

    def _require_key(self, error: Exception) -> None:
        """Raise AgentError if the error shows that the client has no key."""


_THINKING = (*get_args(Thinking), "enabled")
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

    _extra, _sdk_name = "live", "anthropic"
    _default_host, _url_variable = "api.anthropic.com", "ANTHROPIC_BASE_URL"
    _resource, _parts = "messages", "content"

    def __init__(
        self,
        model: str,
        *,
        name: str | None = None,
        effort: Effort | None = None,
        thinking: Thinking | JsonObject | None = None,
        max_tokens: int = 16_000,
        cache: bool = True,
        cache_ttl: Literal["5m", "1h"] = "5m",
        timeout: float = 600.0,
        max_retries: NonNegativeInt = MAX_RETRIES,
        base_url: str | None = None,
        prices: Sequence[Price] = (),
    ) -> None:
        thinking = {"type": thinking} if isinstance(thinking, str) else thinking
        for option, value, allowed in (
            ("effort", effort, get_args(Effort)),
            ("cache_ttl", cache_ttl, tuple(_SECONDS)),
            ("thinking", thinking and thinking.get("type"), _THINKING),
        ):
            if value is not None:
                require_known(f"AnthropicAgent: {option}: found", value, allowed, AgentError)
        super().__init__(model, name, timeout, max_retries, prices, base_url)
        self._effort, self._thinking, self._max_tokens = effort, thinking, max_tokens
        self._cache = {"type": "ephemeral", "ttl": cache_ttl} if cache else None
        self._gate = CacheGate(_SECONDS[cache_ttl])
        self.settings = settings_json(
            effort=effort or "default",
            thinking=thinking or "default",
            max_tokens=max_tokens,
            cache=cache_ttl if cache else "off",
            endpoint=self._endpoint,
        )

    def _make_client(self) -> anthropic.AsyncAnthropic:
        sdk = self._sdk()
        try:
            client: anthropic.AsyncAnthropic = sdk.AsyncAnthropic(
                base_url=self._base_url,
                middleware=[_end_long_retries],
                **self._sdk_options,
            )
        except sdk.AnthropicError as error:
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

    def _request_body(
        self, prompt: str, texts: list[str], schema: type[BaseModel] | None
    ) -> JsonObject:
        blocks: list[JsonObject] = [{"type": "text", "text": text} for text in texts]
        if texts and self._cache:
            blocks[-1]["cache_control"] = self._cache
        output: JsonObject = {"effort": self._effort} if self._effort else {}
        if schema is not None:
            output["format"] = {"type": "json_schema", "schema": _api_schema(schema)}
        body = {
            "model": self.model,
            "max_tokens": self._max_tokens,
            "messages": [{"role": "user", "content": prompt}],
            "system": blocks,
            "output_config": output,
            "thinking": self._thinking,
        }
        return {name: value for name, value in body.items() if value}

    async def _send_body(self, body: JsonObject) -> Reply:
        call = partial(super()._send_body, body)
        if not (self._cache and "system" in body):
            return await call()
        head = {k: v for k, v in body.items() if k not in ("messages", "max_tokens")}
        return await self._gate.reply(whole_hash(json.dumps(head, sort_keys=True)), call)

    def _read(self, message: anthropic.types.Message) -> _Answer:
        usage, stop, error = message.usage, message.stop_reason, None
        text = "".join(block.text for block in message.content if block.type == "text")
        if STOPPED.get(stop or "") == "refused":
            details = message.stop_details
            why = (getattr(details, "category", None), getattr(details, "explanation", None))
            reason = ": ".join(filter(None, why))
            error = f"refused ({reason})" if reason else "refused"
        read, write = (
            getattr(usage, f"cache_{how}_input_tokens", None) or 0 for how in ("read", "creation")
        )
        parts: list[Any] = [getattr(usage, "input_tokens", None), read, write]
        parts = list(map(whole_number, parts))
        # in the API, input_tokens excludes the tokens that were read from or written to a cache
        whole = None if None in parts else sum(parts)
        hour = getattr(getattr(usage, "cache_creation", None), "ephemeral_1h_input_tokens", None)
        counts = [whole, getattr(usage, "output_tokens", None), read, write, hour or 0]
        return _Answer(text, stop, counts, error)


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
    from anthropic import transform_schema

    return transform_schema(schema)


class OpenAIAgent(ServiceAgent):
    """A model behind an OpenAI-compatible endpoint, such as OpenAI, vLLM or Ollama.

    Needs the extra ``openai``. Instructions and skill are sent as the system message. The SDK
    repeats failed calls, with growing waits. The key is read only from the environment.

    Parameters
    ----------
    model : str
        Name of the model at the endpoint.
    name : str, optional
        Label of the agent in the frames; by default the model.
    base_url : str, optional
        The endpoint, such as ``http://localhost:8000/v1`` (vLLM) or ``http://localhost:11434/v1``
        (Ollama); by default the environment variable ``OPENAI_BASE_URL`` or, if that is not set,
        OpenAI. Its host is recorded in the settings of the agent.
    key_env : str, default "OPENAI_API_KEY"
        Environment variable that holds the key. With `base_url`, the variable need not be set.
    effort : str, optional
        Value of the ``reasoning_effort`` of the API; by default nothing is sent.
    max_tokens : int, default 16000
        Limit on the tokens of the answer.
    limit_name : str, default "max_completion_tokens"
        Name of the field for `max_tokens` at the endpoint; older servers accept only
        ``max_tokens``.
    json_mode : str, default "schema"
        How the shape of the answer is requested: ``"schema"`` (its JSON Schema is sent),
        ``"object"`` (any JSON object) or ``"none"`` (only by the prompt).
    options : dict, optional
        Further fields of the request (temperature, seed, ...); they are recorded in the settings of
        the agent.
    timeout : float, default 600
        Time limit of one try in seconds, passed to the SDK.
    max_retries : int, default 5
        Largest number of tries after the first one, passed to the SDK.
    prices : sequence of Price, optional
        Prices of the model; without them the cost is unknown.

    Raises
    ------
    AgentError
        If the extra is not installed or an option has a value that is not allowed.
    """

    _extra = _sdk_name = "openai"
    _default_host, _url_variable = "api.openai.com", "OPENAI_BASE_URL"
    _resource, _parts = "chat.completions", "choices"

    def __init__(
        self,
        model: str,
        *,
        name: str | None = None,
        base_url: str | None = None,
        key_env: str = "OPENAI_API_KEY",
        effort: str | None = None,
        max_tokens: int = 16_000,
        limit_name: Literal["max_completion_tokens", "max_tokens"] = "max_completion_tokens",
        json_mode: JsonMode = "schema",
        options: JsonObject | None = None,
        timeout: float = 600.0,
        max_retries: NonNegativeInt = MAX_RETRIES,
        prices: Sequence[Price] = (),
    ) -> None:
        require_known("OpenAIAgent: json_mode is", json_mode, get_args(JsonMode), AgentError)
        super().__init__(model, name, timeout, max_retries, prices, base_url)
        self._key_env, self._needs_key = key_env, not base_url
        # the user chose the name of the variable, which need not be that of a secret
        self._key_placeholder = f"{key_env}, a key"
        headers = (options or {}).get("extra_headers") or {}
        hide({name: str(text) for name, text in dict(headers).items()})
        self._fixed: JsonObject = {limit_name: max_tokens, **(options or {})}
        if effort:
            self._fixed["reasoning_effort"] = effort
        self._json_mode = json_mode
        self.settings = settings_json(**self._fixed, endpoint=self._endpoint)

    def _make_client(self) -> AsyncOpenAI:
        key = os.environ.get(self._key_env) or (None if self._needs_key else NO_KEY)
        if key is None:
            raise AgentError(
                f"OpenAIAgent '{self.name}' has no key: set {self._key_env} in the environment; "
                "keys are read from nowhere else."
            )
        client: AsyncOpenAI = self._sdk().AsyncOpenAI(
            api_key=key,
            base_url=self._base_url or f"https://{self._default_host}/v1",
            **self._sdk_options,
        )
        return client

    def _request_body(
        self, prompt: str, texts: list[str], schema: type[BaseModel] | None
    ) -> JsonObject:
        messages = [{"role": "system", "content": "\n\n".join(texts)}] if texts else []
        messages.append({"role": "user", "content": prompt})
        body = {"model": self.model, "messages": messages, **self._fixed}
        if schema is not None and self._json_mode == "schema":
            form = {"name": schema.__name__, "schema": schema.model_json_schema(), "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": form}
        elif schema is not None and self._json_mode == "object":
            body["response_format"] = {"type": "json_object"}
        return body

    def _read(self, message: ChatCompletion) -> _Answer:
        if not message.choices:
            raise UnreadableReplyError("the service answered with an empty list of 'choices'")
        choice, usage = message.choices[0], message.usage
        text: Any = choice.message.content
        # some servers send a list of parts; the parts of type text are the answer
        if isinstance(text, list):
            text = "".join(part["text"] for part in text if part["type"] == "text")
        refusal = choice.message.refusal
        details = getattr(usage, "prompt_tokens_details", None)
        counts = [getattr(usage, name, None) for name in ("prompt_tokens", "completion_tokens")]
        parts = ("cached_tokens", "cache_write_tokens")
        counts += [getattr(details, name, None) or 0 for name in parts]
        return _Answer(text or refusal, "refusal" if refusal else choice.finish_reason, counts)
