"""Models of other families, through any endpoint that speaks OpenAI's chat completions."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from pydantic import BaseModel

from skillcomp.errors import AgentError
from skillcomp.live.loop import StoppedError, interruption
from skillcomp.live.prompts import skill_block
from skillcomp.live.reply import (
    Cell,
    Reply,
    cost_fields,
    family_of,
    host_of,
    redact,
    settings_json,
    unreadable,
    whole_number,
    with_raw,
)
from skillcomp.live.retry import RetryPolicy, UnreadableReplyError, failed
from skillcomp.pricing import Price, Usage, cost
from skillcomp.records import AttemptStatus, Skill

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from openai.types.chat import ChatCompletion

__all__ = ["OpenAIAgent"]

_STATUS: dict[str, AttemptStatus] = {
    "stop": "ok",
    "length": "truncated",
    "content_filter": "refused",
}
_HOST = "api.openai.com"
_NO_KEY = "not-needed"  # local servers ask for none, the client insists on one


class OpenAIAgent:
    """A model behind an OpenAI-compatible endpoint: OpenAI itself, vLLM, Ollama and many others.

    Needs the extra ``openai``. Instructions and skill are sent as the system message. The key is
    taken from the environment and from nowhere else.

    Parameters
    ----------
    model : str
        As the endpoint names it.
    name : str, optional
        The label in the frames; the model when not given.
    base_url : str, optional
        Such as ``http://localhost:8000/v1`` (vLLM) or ``http://localhost:11434/v1`` (Ollama);
        ``OPENAI_BASE_URL`` of the environment, else OpenAI's own, when not given. Its host stands
        in the settings.
    key_env : str, default "OPENAI_API_KEY"
        Which variable of the environment holds the key. With a `base_url` it may be missing.
    effort : str, optional
        ``reasoning_effort``, where the model has one.
    max_tokens : int, default 16000
        Limit of the answer.
    limit_name : str, default "max_completion_tokens"
        How the endpoint calls that limit; older servers know ``max_tokens`` only.
    json_mode : str, default "schema"
        How a shape of the answer is asked for: ``"schema"``, ``"object"`` (any JSON object) or
        ``"none"`` (the prompt alone).
    options : dict, optional
        Further fields of the body (temperature, seed, ...); recorded in the settings.
    timeout : float, default 600
        Seconds for one try.
    retry : RetryPolicy, optional
        How often to ask again.
    client : openai.AsyncOpenAI, optional
        A client of one's own, used as it is but for its retries.
    prices : sequence of Price, optional
        Prices of the model; none are built in, so the cost is unknown without them.

    Raises
    ------
    AgentError
        When the extra is not installed or an option is not allowed.
    """

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
        json_mode: Literal["schema", "object", "none"] = "schema",
        options: dict[str, Any] | None = None,
        timeout: float = 600.0,
        retry: RetryPolicy | None = None,
        client: AsyncOpenAI | None = None,
        prices: Sequence[Price] = (),
    ) -> None:
        _sdk()
        if json_mode not in ("schema", "object", "none"):
            raise AgentError(
                f"OpenAIAgent: json_mode is '{json_mode}'; allowed: schema, object, none."
            )
        self.model: str | None = model
        self.name = name or model
        self.family = family_of(model)
        self.prices = tuple(prices)
        # read now, so that what the settings say is what is asked
        self._base_url = base_url or os.environ.get("OPENAI_BASE_URL") or None
        self._model, self._key_env, self._own = model, key_env, bool(base_url)
        self._fixed: dict[str, Any] = {limit_name: max_tokens, **(options or {})}
        if effort:
            self._fixed["reasoning_effort"] = effort
        self._json_mode = json_mode
        self._timeout, self._retry = timeout, retry or RetryPolicy()
        self._given = client.with_options(max_retries=0) if client is not None else None
        # A connection pool belongs to the event loop in which it was first used.
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncOpenAI]
        self._clients = WeakKeyDictionary()
        used = self._base_url if client is None else getattr(client, "base_url", None)
        endpoint = host_of(used, _HOST) or (urlsplit(base_url).hostname if base_url else None)
        self.settings = settings_json(**self._fixed, endpoint=endpoint)

    def client(self) -> AsyncOpenAI:
        """Return the SDK's client of the running event loop, with its own retries off.

        Raises
        ------
        AgentError
            When the environment holds no key and the endpoint is not one's own.
        """
        if self._given is not None:
            return self._given
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            key = os.environ.get(self._key_env) or (_NO_KEY if self._own else None)
            if key is None:
                raise AgentError(
                    f"OpenAIAgent '{self.name}' has no key: set {self._key_env} in the "
                    "environment; keys are read from nowhere else."
                )
            self._clients[loop] = _sdk().AsyncOpenAI(
                api_key=key,
                base_url=self._base_url or f"https://{_HOST}/v1",
                timeout=self._timeout,
                max_retries=0,
            )
        return self._clients[loop]

    async def aclose(self) -> None:
        """Close the connections of the running event loop; a given client is left open."""
        made = self._clients.pop(asyncio.get_running_loop(), None)
        if made is not None:
            await made.close()

    def request(
        self,
        prompt: str,
        *,
        skill: Skill | None = None,
        system: str | None = None,
        schema: type[BaseModel] | None = None,
    ) -> dict[str, Any]:
        """Return the body of the call."""
        texts = [text for text in (system, skill_block(skill) if skill else None) if text]
        messages = [{"role": "system", "content": "\n\n".join(texts)}] if texts else []
        messages.append({"role": "user", "content": prompt})
        body: dict[str, Any] = {"model": self._model, "messages": messages, **self._fixed}
        if schema is not None and self._json_mode == "schema":
            form = {"name": schema.__name__, "schema": schema.model_json_schema(), "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": form}
        elif schema is not None and self._json_mode == "object":
            body["response_format"] = {"type": "json_object"}
        return body

    async def ask(
        self,
        prompt: str,
        *,
        skill: Skill | None = None,
        system: str | None = None,
        schema: type[BaseModel] | None = None,
        cell: Cell | None = None,
    ) -> Reply:
        """Return the reply to one prompt; see `Agent.ask`.

        Raises
        ------
        AgentError
            When the environment holds no key.
        """
        body = self.request(prompt, skill=skill, system=system, schema=schema)
        client = self.client()
        begun = last = time.monotonic()
        came: Any = None

        async def once() -> ChatCompletion:
            nonlocal last, came
            last, came = time.monotonic(), None
            came = await client.chat.completions.create(**body)
            if not getattr(came, "choices", None):
                raise UnreadableReplyError("the service answered with something else than choices")
            completion: ChatCompletion = came
            return completion

        try:
            completion, n_tries = await self._retry.call(once, interruption())
        except StoppedError:
            raise
        except Exception as error:  # whatever it is, one reply is lost and not the run
            reply = failed(error, seconds=time.monotonic() - begun, settings=self.settings)
            return self._redacted(with_raw(reply, error, came))
        return self._read(completion, seconds=time.monotonic() - last, n_tries=n_tries)

    def _redacted(self, reply: Reply) -> Reply:
        # the variable of the key may have a name that does not speak of a key
        secret = {f"{self._key_env}, a key": os.environ.get(self._key_env, "")}
        texts = {"error": reply.error, "trace": reply.trace}
        return reply.model_copy(update={k: redact(v, secret) for k, v in texts.items() if v})

    def _read(self, completion: ChatCompletion, *, seconds: float, n_tries: int) -> Reply:
        ident: Any = getattr(completion, "_request_id", None) or completion.id
        common: dict[str, Any] = {
            "seconds": seconds,
            "request_id": ident if isinstance(ident, str) else None,
            "n_tries": n_tries,
            "settings": self.settings,
        }
        try:
            choice = completion.choices[0]
            stop, refusal = choice.finish_reason, choice.message.refusal
            status = "refused" if refusal else _STATUS.get(stop, "error")
            error = f"finish_reason '{stop}' is not an answer" if status == "error" else None
            return Reply(
                answer=_text(choice.message.content) or refusal or ("" if status == "ok" else None),
                status=status,
                stop_reason="refusal" if refusal else stop,
                model=completion.model or None,
                error=error,
                **self._usage(completion),
                **common,
            )
        except Exception as error:  # of a completion that was paid for
            return self._redacted(unreadable(error, completion, **common))

    def _usage(self, completion: ChatCompletion) -> dict[str, Any]:
        used: Any = completion.usage
        model: Any = completion.model
        if used is None:
            return {"cost_note": "the endpoint reports no usage"}
        details = getattr(used, "prompt_tokens_details", None)
        whole = whole_number(getattr(used, "prompt_tokens", None))
        out = whole_number(getattr(used, "completion_tokens", None))
        read = whole_number(getattr(details, "cached_tokens", None) or 0)
        write = whole_number(getattr(details, "cache_write_tokens", None) or 0)
        if whole is None or out is None or read is None or write is None:
            return {"cost_note": "the endpoint reports no token counts that can be read"}
        try:
            usage = Usage(whole, out, read, write)
            if isinstance(model, str):
                price = cost_fields(cost(usage, model, prices=self.prices))
            else:
                price = {"cost_note": "the endpoint does not say which model answered"}
        except ValueError:
            price = {"cost_note": "the endpoint reports more cached tokens than tokens"}
        return {
            "input_tokens": whole,
            "cached_tokens": read,
            "cache_write_tokens": write,
            "output_tokens": out,
            **price,
        }


def _text(content: Any) -> Any:
    """Return the text of a message; some servers send it in parts, thoughts apart from it."""
    if isinstance(content, list):
        return "".join(part["text"] for part in content if part["type"] == "text")
    return content


def _sdk() -> Any:
    try:
        import openai
    except ImportError:
        raise AgentError(
            "OpenAIAgent needs the package openai, which comes with an extra: "
            "pip install 'skillcomp[openai]'."
        ) from None
    return openai
