"""What agents behind an SDK have in common: one client for each event loop, our own retries.

Which failures are worth another try, how long to wait before it, and the warm-up of a cache.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import tenacity
from pydantic import BaseModel

from skillcomp.errors import AgentError, SkillcompError, without_control
from skillcomp.io.event_streams import whole_number
from skillcomp.live.agents.agent import (
    MAX_ERROR,
    Cell,
    Reply,
    cost_fields,
    family_of,
    host_of,
    redact,
    skill_block,
    unreadable,
    with_raw,
)
from skillcomp.live.concurrency import Stop, StoppedError, interruption
from skillcomp.pricing import Price
from skillcomp.records import Skill

_T = TypeVar("_T")
_log = logging.getLogger("skillcomp.live")

_TRANSIENT_STATUS = frozenset({408, 409, 429})  # beside everything from 500 on
_FATAL_STATUS = frozenset({401, 402, 403, 404})  # key, money, permission, unknown model
_TOKENS = ("input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens")
# 429 answers that no waiting cures: the account's money is used up.
_SPENT = ("spend_limit", "insufficient_quota", "billing")


class UnreadableReplyError(AgentError):
    """The service answered 200 with something that is not a message."""


def _status(error: BaseException) -> int | None:
    code = getattr(error, "status_code", None)
    return code if isinstance(code, int) else None


def _spent(error: BaseException) -> bool:
    codes = [getattr(error, name, None) for name in ("error_code", "code", "type")]
    return any(word in str(code) for code in codes if code for word in _SPENT)


def _header(error: BaseException | None, name: str) -> str | None:
    headers = getattr(getattr(error, "response", None), "headers", None)
    value = headers.get(name) if headers is not None else None
    return None if value is None else str(value)


def _is_connection(error: BaseException) -> bool:
    # Both SDKs name this class alike and share no base; importing both would need the extra.
    # TransportError is the HTTP library's own, raised while a long body is read.
    names = {cls.__name__ for cls in type(error).__mro__}
    return bool(names & {"APIConnectionError", "ConnectionError", "TransportError"})


def is_timeout(error: BaseException) -> bool:
    """Return whether a call ended because it took too long."""
    names = {cls.__name__ for cls in type(error).__mro__}
    return bool(names & {"APITimeoutError", "TimeoutError"}) or _status(error) in (408, 504)


def is_fatal(error: BaseException) -> bool:
    """Return whether every further call would fail as this one: no permission or no money."""
    return _status(error) in _FATAL_STATUS or _spent(error)


def from_service(error: BaseException) -> bool:
    """Return whether an error is the service's, its client's or the connection's."""
    if isinstance(error, UnreadableReplyError):
        return True
    if isinstance(error, SkillcompError):
        return False
    # the HTTP library's names are those of every release of it
    names = {cls.__name__ for cls in type(error).__mro__}
    named = names & {"AnthropicError", "OpenAIError", "HTTPError", "InvalidURL", "StreamError"}
    no_key = isinstance(error, TypeError) and "authentication method" in str(error)
    return bool(named) or no_key or _is_connection(error) or isinstance(error, ValueError)


def is_transient(error: BaseException) -> bool:
    """Return whether asking again may help.

    Yes for 408, 409, 429 and everything from 500 on (529 included), for a lost connection, a
    timeout and a reply that is no text or not JSON. No for spend limits and for every other 4xx.
    The service's own ``x-should-retry`` header decides where it is sent, except on a spend limit.
    """
    if isinstance(error, json.JSONDecodeError | UnicodeDecodeError | UnreadableReplyError):
        return True
    if _is_connection(error) or isinstance(error, TimeoutError):
        return True
    status = _status(error)
    if status is None or is_fatal(error):
        return False
    told = _header(error, "x-should-retry")
    if told in ("true", "false"):
        return told == "true"
    return status in _TRANSIENT_STATUS or status >= 500


def error_text(error: BaseException) -> str:
    """Return class, status and message of an error, without any key."""
    status = _status(error)
    head = type(error).__name__ if status is None else f"{type(error).__name__} {status}"
    text = redact(without_control(f"{head}: {getattr(error, 'api_message', None) or error}"))
    # cut last, since half a key is not found
    return redact(text, _keys_sent(error))[:MAX_ERROR]


def _keys_sent(error: BaseException) -> dict[str, str]:
    try:
        headers: Any = error.request.headers  # type: ignore[attr-defined]
    except (AttributeError, RuntimeError):  # the HTTP library raises when there was no request
        return {}
    bearer = str(headers.get("authorization", "")).removeprefix("Bearer ")
    return {"API_KEY": str(headers.get("x-api-key", "")), "AUTH_TOKEN": bearer}


def failed(error: BaseException, *, seconds: float, settings: str) -> Reply:
    """Return the reply that records a call which ended in an error."""
    asked = retry_after(error)
    return Reply(
        status="timeout" if is_timeout(error) else "error",
        wait_seconds=asked if is_transient(error) else None,
        error=error_text(error),
        fatal=is_fatal(error),
        seconds=seconds,
        request_id=getattr(error, "request_id", None),
        n_tries=getattr(error, "n_tries", 1),
        settings=settings,
    )


def retry_after(error: BaseException | None) -> float | None:
    """Return how many seconds the service asked to wait, or None when it did not say.

    Reads ``retry-after-ms``, then ``retry-after`` as seconds or as an HTTP date. A value that
    cannot be read, is negative or is not finite counts as not said.
    """
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        value = _header(error, name)
        seconds = None if value is None else _seconds(value, unit)
        if seconds is not None and 0 <= seconds < float("inf"):
            return seconds
    return None


def _seconds(value: str, unit: float) -> float | None:
    try:
        return float(value) / unit
    except ValueError:
        pass
    try:
        when = parsedate_to_datetime(value)
    except (ValueError, OverflowError):  # the latter of an absurd zone
        return None
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return max(0.0, (when - datetime.now(UTC)).total_seconds())


@dataclass(frozen=True)
class RetryPolicy:
    """How often to ask again and how long to wait.

    Attributes
    ----------
    tries : int, default 6
        Calls in all, the first included.
    base, longest : float
        Seconds: the first wait and the longest without a word from the service. The wait doubles
        with each try and carries up to ``base`` of jitter.
    cap : float, default 120
        Seconds: the longest wait that the service may ask for. Where it asks for more, nothing is
        asked again and a study ends there, to be gone on with later.
    """

    tries: int = 6
    base: float = 0.5
    longest: float = 30.0
    cap: float = 120.0

    def is_worth_it(self, error: BaseException) -> bool:
        """Return whether to ask again: it may help, and the wait is not too long."""
        return is_transient(error) and (retry_after(error) or 0.0) <= self.cap

    def wait(self, state: tenacity.RetryCallState) -> float:
        """Return the seconds to wait before the next try."""
        error = state.outcome.exception() if state.outcome else None
        asked = retry_after(error)
        if asked is not None:
            return min(asked, self.cap)
        growth = tenacity.wait_exponential(multiplier=self.base, max=self.longest)
        return growth(state) + tenacity.wait_random(0, self.base)(state)

    async def call(
        self, function: Callable[[], Awaitable[_T]], stop: Stop | None = None
    ) -> tuple[_T, int]:
        """Return what the function returns and how often it was called."""
        n_tries = 0
        last: Exception | None = None

        async def once() -> _T:
            nonlocal n_tries, last
            if stop is not None and stop.reason:
                raise last or StoppedError(f"Not asked: {stop.reason}.")
            n_tries += 1
            try:
                return await function()
            except Exception as error:
                last = error
                raise

        def enough(state: tenacity.RetryCallState) -> bool:
            return state.attempt_number >= self.tries or bool(stop is not None and stop.reason)

        retrying = tenacity.AsyncRetrying(
            stop=enough,
            wait=self.wait,
            sleep=asyncio.sleep if stop is None else stop.sleep,
            retry=tenacity.retry_if_exception(self.is_worth_it),
            before_sleep=partial(_note, stop),
            reraise=True,
        )
        try:
            return await retrying(once), n_tries
        except Exception as error:
            error.n_tries = n_tries  # type: ignore[attr-defined]
            raise


def _note(stop: Stop | None, state: tenacity.RetryCallState) -> None:
    error: Any = state.outcome.exception() if state.outcome else None
    wait = state.next_action.sleep if state.next_action else 0.0
    # the message of an error may quote the request; its class and status say enough
    what = " ".join(filter(None, (type(error).__name__, str(_status(error) or ""))))
    if stop is not None and stop.on_wait is not None:
        stop.on_wait(what, wait)
    _log.info("try %d: %s; next in %.2f s", state.attempt_number, what, wait)


_FAILED = 30.0  # seconds in which nobody waits after a call that failed
_MARGIN = 0.9  # of the time to live: a call sent near its end may arrive after it


class CacheGate:
    """One warm-up call per prefix, then everybody.

    A cache entry can be read only after the response that writes it has begun. Sixty calls sent at
    once would all write it and none would read it. The first call of a prefix therefore goes
    alone; the others wait until it is back. After a call that failed nobody waits for a while, so
    that failures do not queue up one behind the other. A prefix that is too short to be cached is
    let through for good after its first call.
    """

    def __init__(self, seconds: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._alive = seconds * _MARGIN
        self._clock = clock
        self._until: dict[str, float] = {}
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def is_open(self, prefix: str) -> bool:
        """Return whether the prefix is in the cache, or cannot be, as far as is known."""
        return self._until.get(prefix, -1.0) > self._clock()

    def open(self, prefix: str, *, cached: bool) -> None:
        """Record that a call came back, and whether it read or wrote the cache."""
        self._until[prefix] = self._clock() + self._alive if cached else float("inf")

    def let_all_pass(self, prefix: str) -> None:
        """Record that a call failed: whether it wrote the cache is not known, and none waits."""
        self._until[prefix] = max(self._until.get(prefix, -1.0), self._clock() + _FAILED)

    @asynccontextmanager
    async def passing(self, prefix: str) -> AsyncIterator[None]:
        """Wait for the prefix to be in the cache, or be the call that brings it there."""
        if not self.is_open(prefix):
            async with self._locks[prefix]:
                if not self.is_open(prefix):
                    yield
                    return
        yield


class ServiceAgent(ABC):
    """A model behind an SDK whose own retries are switched off, since it obeys waits of any length.

    A subclass makes the client, the body of a call, and a `Reply` of what comes back.
    """

    settings: str
    _default_host: str  # of the service itself
    _variable: str  # of the environment, that names another endpoint
    _answers_with: str  # what the service calls an answer
    _reporter = "the service"  # who reports tokens, in notes about the cost
    _ident = "_request_id"  # what names an answer where its headers do not

    def __init__(
        self,
        model: str,
        name: str | None,
        timeout: float,
        retry: RetryPolicy | None,
        client: Any,
        prices: Sequence[Price],
        base_url: str | None,
    ) -> None:
        self.model: str | None = model
        self.name = name or model
        self.family = family_of(model)
        self.prices = tuple(prices)
        self._model, self._timeout = model, timeout
        self.retry = retry or RetryPolicy()  # in batches too
        self._given = client.with_options(max_retries=0) if client is not None else None
        # read now, so that what the settings say is what is asked
        self._base_url = base_url or os.environ.get(self._variable) or None
        used = self._base_url if client is None else getattr(client, "base_url", None)
        self._host = self._host_of(used)
        self._endpoint = self._host or (urlsplit(base_url).hostname if base_url else None)
        # A connection pool belongs to the event loop in which it was first used.
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = WeakKeyDictionary()

    def client(self) -> Any:
        """Return the SDK's client of the running event loop, with its own retries off."""
        if self._given is not None:
            return self._given
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            self._clients[loop] = self._made_client()
        return self._clients[loop]

    async def aclose(self) -> None:
        """Close the connections of the running event loop; a given client is left open."""
        made = self._clients.pop(asyncio.get_running_loop(), None)
        if made is not None:
            await made.close()

    @abstractmethod
    def _made_client(self) -> Any:
        """Make a client, or raise that the environment holds no key."""

    def request(
        self,
        prompt: str,
        *,
        skill: Skill | None = None,
        system: str | None = None,
        schema: type[BaseModel] | None = None,
    ) -> dict[str, Any]:
        """Return the body of the call, as the service takes it."""
        texts = [text for text in (system, skill_block(skill) if skill else None) if text]
        return self._body(prompt, texts, schema)

    @abstractmethod
    def _body(
        self, prompt: str, texts: list[str], schema: type[BaseModel] | None
    ) -> dict[str, Any]:
        """Return the body of a call with the texts that stand before the prompt."""

    @abstractmethod
    async def _answer_to(self, body: dict[str, Any]) -> Reply:
        """Send a body, in the way that the service likes."""

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
        body = self.request(prompt, skill=skill, system=system, schema=schema)
        return await self._answer_to(body)

    @abstractmethod
    def _is_answer(self, came: Any) -> bool:
        """Return whether what came has the outer form of an answer."""

    @abstractmethod
    def _said(self, message: Any, *, batch: bool) -> dict[str, Any]:
        """Return what an answer says as fields of a reply; whatever is wrong in it may raise."""

    def read(
        self,
        message: Any,
        *,
        seconds: float | None = None,
        n_tries: int = 1,
        batch: bool = False,
    ) -> Reply:
        """Return what a message of the service says, as a reply with its cost.

        One that breaks the rules of its API gives a reply with status ``error`` that keeps it as
        text; where only its token counts cannot be read, only its cost is unknown.
        """
        ident = getattr(message, "_request_id", None) or getattr(message, self._ident, None)
        common: dict[str, Any] = {
            "seconds": seconds,
            "request_id": ident if isinstance(ident, str) else None,
            "n_tries": n_tries,
            "settings": self.settings,
        }
        try:
            return Reply(**self._said(message, batch=batch), **common)
        except Exception as error:  # of a message that was paid for
            return self._redacted(unreadable(error, message, **common))

    def _host_of(self, url: Any) -> str | None:
        return host_of(url, self._default_host)

    def _secrets(self) -> Mapping[str, str]:
        """Return further texts that no reply may hold, by what stands in their place."""
        names = {"api_key": "a key", "auth_token": "a token"}
        given = {told: getattr(self._given, name, None) for name, told in names.items()}
        return {told: value for told, value in given.items() if isinstance(value, str)}

    def _redacted(self, reply: Reply) -> Reply:
        texts = {"error": reply.error, "trace": reply.trace, "answer": reply.answer}
        hidden = {k: redact(redact(v), self._secrets()) for k, v in texts.items() if v}
        return reply.model_copy(update=hidden)

    async def _send(self, create: Callable[[], Awaitable[Any]]) -> Reply:
        """Ask until there is an answer; whatever goes wrong, one reply is lost and not the run."""
        begun = last = time.monotonic()
        came: Any = None

        async def once() -> Any:
            nonlocal last, came
            last, came = time.monotonic(), None
            async with asyncio.timeout(self._timeout):  # the SDK's is for each read by itself
                came = await create()
            if not self._is_answer(came):
                raise UnreadableReplyError(
                    f"the service answered with something else than {self._answers_with}"
                )
            return came

        try:
            message, n_tries = await self.retry.call(once, interruption())
        except StoppedError:
            raise
        except Exception as error:
            self._require_key(error)
            reply = failed(error, seconds=time.monotonic() - begun, settings=self.settings)
            return self._redacted(with_raw(reply, error, came))
        read = self.read(message, seconds=time.monotonic() - last, n_tries=n_tries)
        return self._redacted(read)  # a server can echo what it was sent

    def _require_key(self, error: Exception) -> None:  # noqa: B027 - most clients refuse earlier
        """Raise where an error of the client says that there is no key."""

    def _usage(self, model: Any, counts: Sequence[Any], *, batch: bool = False) -> dict[str, Any]:
        """Return tokens and cost as fields of a reply; counts that cannot be have no cost.

        They are those of the whole prompt, of the answer, and of the prompt what was read from a
        cache, written to one, and written for one hour; the last three may be left open (None).
        """
        whole, out, *cached = counts
        given = (whole, out, *(0 if n is None else n for n in cached))
        tokens = [n for one in given if (n := whole_number(one)) is not None]
        if len(tokens) < len(given):
            return {"cost_note": f"{self._reporter} reports no token counts that can be read"}
        fields: dict[str, Any] = dict(zip(_TOKENS, tokens, strict=False))
        if not isinstance(model, str):
            return fields | {"cost_note": f"{self._reporter} does not say which model answered"}
        return fields | cost_fields(self._reporter, model, tokens, self.prices, batch=batch)
