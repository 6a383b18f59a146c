"""What agents behind an SDK have in common: one client for each event loop, our own retries."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from skillcomp.io.traces import whole_number
from skillcomp.live.agents.asking import RetryPolicy, UnreadableReplyError, failed
from skillcomp.live.agents.reply import (
    Reply,
    cost_fields,
    family_of,
    redact,
    with_raw,
)
from skillcomp.live.stopping import StoppedError, interruption
from skillcomp.pricing import Price, Usage, cost


class ServiceAgent(ABC):
    """A model behind an SDK whose own retries are switched off, since it obeys waits of any length.

    A subclass makes the client, the body of a call, and a `Reply` of what comes back.
    """

    settings: str
    _answers_with: str  # what the service calls an answer
    _reporter = "the service"  # who reports tokens, in notes about the cost

    def __init__(
        self,
        model: str,
        *,
        name: str | None,
        timeout: float,
        retry: RetryPolicy | None,
        client: Any,
        prices: Sequence[Price],
    ) -> None:
        self.model: str | None = model
        self.name = name or model
        self.family = family_of(model)
        self.prices = tuple(prices)
        self._model, self._timeout = model, timeout
        self._retry = retry or RetryPolicy()
        self._given = client.with_options(max_retries=0) if client is not None else None
        # A connection pool belongs to the event loop in which it was first used.
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = WeakKeyDictionary()

    @property
    def retry(self) -> RetryPolicy:
        """How often it is asked again, in batches too."""
        return self._retry

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

    @abstractmethod
    def _is_answer(self, came: Any) -> bool:
        """Return whether what came has the outer form of an answer."""

    @abstractmethod
    def read(self, message: Any, *, seconds: float | None = None, n_tries: int = 1) -> Reply:
        """Return what came as a reply."""

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
            message, n_tries = await self._retry.call(once, interruption())
        except StoppedError:
            raise
        except Exception as error:
            self._told_key(error)
            reply = failed(error, seconds=time.monotonic() - begun, settings=self.settings)
            return self._redacted(with_raw(reply, error, came))
        read = self.read(message, seconds=time.monotonic() - last, n_tries=n_tries)
        return self._redacted(read)  # a server can echo what it was sent

    def _told_key(self, error: Exception) -> None:
        """Raise where an error of the client says that there is no key."""
        del error

    def _usage(
        self,
        model: Any,
        whole: Any,
        out: Any,
        read: Any = 0,
        write: Any = 0,
        hour: Any = 0,
        *,
        batch: bool = False,
    ) -> dict[str, Any]:
        """Return tokens and cost as fields of a reply; counts that cannot be have no cost."""
        counts = [whole_number(0 if n is None else n) for n in (read, write, hour)]
        tokens = [whole_number(whole), whole_number(out), *counts]
        if None in tokens:
            return {"cost_note": f"{self._reporter} reports no token counts that can be read"}
        n_in, n_out, n_read, n_write, n_hour = (int(n or 0) for n in tokens)
        price: dict[str, Any]
        try:
            usage = Usage(n_in, n_out, n_read, n_write, n_hour)
            if isinstance(model, str):
                price = cost_fields(cost(usage, model, batch=batch, prices=self.prices))
            else:
                price = {"cost_note": f"{self._reporter} does not say which model answered"}
        except ValueError:
            what = (
                "more tokens for one hour than in all"
                if n_hour
                else ("more cached tokens than tokens")
            )
            price = {"cost_note": f"{self._reporter} reports {what}"}
        return {
            "input_tokens": n_in,
            "cached_tokens": n_read,
            "cache_write_tokens": n_write,
            "output_tokens": n_out,
            **price,
        }
