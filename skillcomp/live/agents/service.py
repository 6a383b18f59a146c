"""Agents that call a model through an SDK: their base class, and OpenAI-compatible services.

It makes one client per event loop, lets calls wait until the prompt cache is filled, and reports
the keys of clients as secrets. The SDK repeats failed calls, waits between the tries and applies
the time limit.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import time
from abc import abstractmethod
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, get_args
from weakref import WeakKeyDictionary

from pydantic import BaseModel

from skillcomp.errors import AgentError, extra_imports, require_known, without_control
from skillcomp.io.event_streams import ENDED, STOPPED
from skillcomp.io.files import JsonObject
from skillcomp.io.redaction import hide, redact, redacted_start
from skillcomp.live.agents.agent import (
    MAX_ERROR,
    UNREADABLE,
    BaseAgent,
    Cell,
    JsonMode,
    Reply,
    cost_fields,
    family_of,
    host_of,
    raw_text,
    redacted_reply,
    settings_json,
    skill_block,
    unreadable,
)
from skillcomp.live.concurrency import StoppedError, interruption
from skillcomp.pricing import Price
from skillcomp.records import Skill

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from openai.types.chat import ChatCompletion

# default number of retries of a call; the SDKs' own default, 2, gives up within two seconds
MAX_RETRIES = 5
# statuses for a wrong key, no money, no permission and an unknown model
_FATAL_STATUS = frozenset({401, 402, 403, 404})
NO_KEY = "not-needed"  # A local server needs no key, but the class of the client requires one.
# A 429 error with one of these words in its code means that the account has no money left, so
# waiting does not help.
_SPENT = ("spend_limit", "insufficient_quota", "billing")


class UnreadableReplyError(AgentError):
    """The service responded with HTTP status 200, but the response is not a model's answer."""


def _status_code(error: BaseException) -> int | None:
    code = getattr(error, "status_code", None)
    return code if isinstance(code, int) else None


def error_text(error: BaseException) -> str:
    """Return class, status and message of an error as one text."""
    status = _status_code(error)
    head = type(error).__name__ if status is None else f"{type(error).__name__} {status}"
    sent = _request_headers(error)
    # keys in the headers of a failed call are secrets, too
    for name, header in (("API_KEY", "x-api-key"), ("AUTHORIZATION", "authorization")):
        key = str(sent.get(header, "")).removeprefix("Bearer ")
        if key != NO_KEY and redact(key) == key:
            hide({name: key})
    text = f"{head}: {getattr(error, 'api_message', None) or error}"
    return without_control(redacted_start(text, MAX_ERROR))


def _request_headers(error: BaseException) -> Mapping[str, Any]:
    try:
        headers: Mapping[str, Any] = error.request.headers  # type: ignore[attr-defined]
    except (AttributeError, RuntimeError):  # the `request` of an error may be missing or not set
        return {}
    return headers


def failed_reply(error: BaseException, *, seconds: float, settings: str) -> Reply:
    """Return a reply that records a call which ended in an error."""
    codes = [getattr(error, name, None) for name in ("error_code", "code", "type")]
    is_spent = any(word in str(code) for code in codes if code for word in _SPENT)
    # every further call would fail, too
    fatal = is_spent or _status_code(error) in _FATAL_STATUS
    headers = getattr(getattr(error, "response", None), "headers", None)
    # The classes of the two SDKs have no common base and may not be installed, so compare names.
    names = [cls.__name__ for cls in type(error).__mro__]
    is_timeout = "APITimeoutError" in names or _status_code(error) in (408, 504)
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
        value = headers.get(name)
        seconds = None if value is None else _seconds_or_date(value, unit)
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
        self._until: defaultdict[str, float] = defaultdict(float)
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def is_open(self, prefix: str) -> bool:
        """Return whether calls with this prefix may pass without waiting."""
        return self._until[prefix] > time.monotonic()

    def open(self, prefix: str, *, cached: bool) -> None:
        """Open the gate after a response; `cached` is True if the call read or wrote the cache."""
        self._until[prefix] = time.monotonic() + self._alive if cached else float("inf")

    def open_after_failure(self, prefix: str) -> None:
        """Open the gate for 30 seconds after a failed call, which may have written the cache."""
        self._until[prefix] = max(self._until[prefix], time.monotonic() + 30.0)

    @asynccontextmanager
    async def passing(self, prefix: str) -> AsyncIterator[None]:
        """Wait while the gate of the prefix is closed.

        The first call passes at once; the caller opens the gate after the response.
        """
        if not self.is_open(prefix):
            async with self._locks[prefix]:
                if not self.is_open(prefix):
                    yield
                    return
        yield


class ServiceAgent(BaseAgent):
    """Agents that call a model through an SDK: their base class, and OpenAI-compatible services.

    A subclass defines how to make the client, the body of a call, and the fields of a `Reply`.
    """

    _default_host: str  # The host of the endpoint if neither user nor environment names another.
    _url_variable: str  # The environment variable that can name another endpoint.
    _answer_noun: str  # The noun for an answer in error messages, such as "a message".
    _id_field = "_request_id"  # The attribute that holds an answer's id if no header does.
    _key_placeholder = "a key"  # The text that replaces the key of a client.

    def __init__(
        self,
        model: str,
        name: str | None,
        timeout: float,
        max_retries: int,
        client: Any,
        prices: Sequence[Price],
        base_url: str | None,
    ) -> None:
        self.model = model
        self.family = family_of(model)
        self.prices = tuple(prices)
        self._timeout, self._max_retries = timeout, max_retries
        self._own_client = client
        # read the environment only once: the recorded endpoint must be the one that calls go to
        self._base_url = base_url or os.environ.get(self._url_variable) or None
        used = self._base_url if client is None else getattr(client, "base_url", None)
        self._host = host_of(used, self._default_host)
        self._endpoint = self._host or host_of(base_url, "")
        # a connection pool belongs to the event loop that first used it, so each loop has its own
        # client
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = WeakKeyDictionary()
        hide({"base_url": str(used or "")})
        self._hide_keys(client)
        # The name is a part of the ids of answers, which must be the same when a study resumes.
        self.name = redact(name or model)

    def client(self) -> Any:
        """Return the client of the SDK for the running event loop."""
        if self._own_client is not None:
            return self._own_client
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            self._clients[loop] = self._make_client()
            self._hide_keys(self._clients[loop])
        return self._clients[loop]

    async def aclose(self) -> None:
        """Close the client of the running event loop; a client that the user passed stays open."""
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
    async def _send_body(self, body: JsonObject) -> Reply:
        """Send the body of a call and return the reply."""

    async def ask(
        self,
        prompt: str,
        *,
        skill: Skill | None = None,
        system: str | None = None,
        schema: type[BaseModel] | None = None,
        cell: Cell | None = None,
    ) -> Reply:
        """Return the reply to one prompt; see `Agent.ask`."""
        texts = [text for text in (system, skill_block(skill) if skill else None) if text]
        return await self._send_body(self._request_body(prompt, texts, schema))

    @abstractmethod
    def _is_answer(self, message: Any) -> bool:
        """Return whether a parsed response has the type and the main fields of an answer."""

    @abstractmethod
    def _reply_fields(self, message: Any) -> JsonObject:
        """Return the fields of a `Reply` from an answer; a malformed answer may raise any error."""

    def _hide_keys(self, client: Any) -> None:
        """Report the keys of a client as secrets; they may come from a profile of the user."""
        names = {self._key_placeholder: "api_key", "a token": "auth_token"}
        for placeholder, name in names.items():
            key = getattr(client, name, None)
            if isinstance(key, str) and key != NO_KEY:
                hide({placeholder: key})
        headers = getattr(client, "_custom_headers", None) or {}
        hide({name: value for name, value in headers.items() if isinstance(value, str)})

    async def _reply_to(self, create: Callable[[], Awaitable[Any]]) -> Reply:
        """Make one call through the SDK and return the reply, even if the call fails.

        `create` sends the call and returns the raw response, which is kept if it cannot be read.
        """
        if stop := interruption():
            stop.check()  # the user may have pressed Ctrl-C while CacheGate made the call wait
        begun = time.monotonic()
        raw = None
        try:
            raw = await create()
            message = raw.parse()
            if inspect.isawaitable(message):
                message = await message
            if not self._is_answer(message):
                wrong = f"the service answered with something else than {self._answer_noun}"
                raise UnreadableReplyError(wrong)
        except StoppedError:
            raise
        except Exception as error:
            self._require_key(error)
            reply = failed_reply(error, seconds=time.monotonic() - begun, settings=self.settings)
            if raw is not None:
                text = raw_text(raw.http_response.content)
                fields = {"trace": text, "cost_note": UNREADABLE, "n_tries": raw.retries_taken + 1}
                reply = reply.model_copy(update=fields)
        else:
            ident = getattr(message, "_request_id", None) or getattr(message, self._id_field, None)
            common = {
                "seconds": raw.elapsed.total_seconds(),
                "request_id": ident if isinstance(ident, str) else None,
                "n_tries": raw.retries_taken + 1,
                "settings": self.settings,
            }
            try:
                reply = Reply(**self._reply_fields(message), **common)
            except Exception as error:  # the call was paid for, so an unreadable answer is recorded
                reply = unreadable(error, message, **common)
        # a server can return parts of the request, so even a good answer can contain the API key
        return await asyncio.to_thread(redacted_reply, reply)

    def _require_key(self, error: Exception) -> None:
        """Raise AgentError if the error shows that the client has no key."""


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
    client : openai.AsyncOpenAI, optional
        A client to use instead of a new one, with its own time limit and number of retries.
    prices : sequence of Price, optional
        Prices of the model; without them the cost is unknown.

    Raises
    ------
    AgentError
        If the extra is not installed or an option has a value that is not allowed.
    """

    _default_host, _url_variable = "api.openai.com", "OPENAI_BASE_URL"
    _answer_noun, _id_field = "choices", "id"

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
        max_retries: int = MAX_RETRIES,
        client: AsyncOpenAI | None = None,
        prices: Sequence[Price] = (),
    ) -> None:
        _openai_module()
        require_known("OpenAIAgent: json_mode is", json_mode, get_args(JsonMode), AgentError)
        super().__init__(model, name, timeout, max_retries, client, prices, base_url)
        self._key_env, self._needs_key = key_env, not base_url
        if client is None:
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
        client: AsyncOpenAI = _openai_module().AsyncOpenAI(
            api_key=key,
            base_url=self._base_url or f"https://{self._default_host}/v1",
            timeout=self._timeout,
            max_retries=self._max_retries,
        )
        return client

    def _is_answer(self, message: Any) -> bool:
        return bool(getattr(message, "choices", None))

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

    async def _send_body(self, body: JsonObject) -> Reply:
        create = self.client().chat.completions.with_raw_response.create
        return await self._reply_to(partial(create, **body))

    def _reply_fields(self, message: ChatCompletion) -> JsonObject:
        choice = message.choices[0]
        stop, refusal = choice.finish_reason, choice.message.refusal
        status = "refused" if refusal else "ok" if stop in ENDED else STOPPED.get(stop, "error")
        text: Any = choice.message.content
        # some servers send a list of parts; the parts of type text are the answer
        if isinstance(text, list):
            text = "".join(part["text"] for part in text if part["type"] == "text")
        return {
            "answer": text or refusal or ("" if status == "ok" else None),
            "status": status,
            "stop_reason": "refusal" if refusal else stop,
            "model": message.model or None,
            "error": f"finish_reason '{stop}' is not an answer" if status == "error" else None,
            **self._usage_fields(message),
        }

    def _usage_fields(self, completion: ChatCompletion) -> JsonObject:
        usage = completion.usage
        if usage is None:
            return {"cost_note": "the endpoint reports no usage"}
        details = getattr(usage, "prompt_tokens_details", None)
        counts = [getattr(usage, name, None) for name in ("prompt_tokens", "completion_tokens")]
        parts = ("cached_tokens", "cache_write_tokens")
        counts += [getattr(details, name, None) or 0 for name in parts]
        return cost_fields("the endpoint", completion.model, counts, self.prices)


def _openai_module() -> Any:
    with extra_imports("openai", "OpenAIAgent"):
        import openai
    return openai
