"""Models of other families, through any endpoint that speaks OpenAI's chat completions."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel

from skillcomp.errors import AgentError, require_known
from skillcomp.live.agents.agent import Reply, settings_json
from skillcomp.live.agents.service import RetryPolicy, ServiceAgent
from skillcomp.pricing import Price
from skillcomp.records import AttemptStatus

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from openai.types.chat import ChatCompletion

_STATUS: dict[str, AttemptStatus] = {
    "stop": "ok",
    "length": "truncated",
    "content_filter": "refused",
}
_NO_KEY = "not-needed"  # local servers ask for none, the client insists on one


class OpenAIAgent(ServiceAgent):
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

    _default_host, _variable = "api.openai.com", "OPENAI_BASE_URL"
    _answers_with, _reporter, _ident = "choices", "the endpoint", "id"

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
        modes = ("schema", "object", "none")
        require_known("OpenAIAgent: json_mode is", json_mode, modes, AgentError)
        super().__init__(model, name, timeout, retry, client, prices, base_url)
        self._key_env, self._own = key_env, bool(base_url)
        self._fixed: dict[str, Any] = {limit_name: max_tokens, **(options or {})}
        if effort:
            self._fixed["reasoning_effort"] = effort
        self._json_mode = json_mode
        self.settings = settings_json(**self._fixed, endpoint=self._endpoint)

    def _made_client(self) -> AsyncOpenAI:
        key = os.environ.get(self._key_env) or (_NO_KEY if self._own else None)
        if key is None:
            raise AgentError(
                f"OpenAIAgent '{self.name}' has no key: set {self._key_env} in the environment; "
                "keys are read from nowhere else."
            )
        made: AsyncOpenAI = _sdk().AsyncOpenAI(
            api_key=key,
            base_url=self._base_url or f"https://{self._default_host}/v1",
            timeout=self._timeout,
            max_retries=0,
        )
        return made

    def _is_answer(self, came: Any) -> bool:
        return bool(getattr(came, "choices", None))

    def _secrets(self) -> Mapping[str, str]:
        # the variable of the key may have a name that does not speak of a key
        return {**super()._secrets(), f"{self._key_env}, a key": os.environ.get(self._key_env, "")}

    def _body(
        self, prompt: str, texts: list[str], schema: type[BaseModel] | None
    ) -> dict[str, Any]:
        messages = [{"role": "system", "content": "\n\n".join(texts)}] if texts else []
        messages.append({"role": "user", "content": prompt})
        body: dict[str, Any] = {"model": self._model, "messages": messages, **self._fixed}
        if schema is not None and self._json_mode == "schema":
            form = {"name": schema.__name__, "schema": schema.model_json_schema(), "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": form}
        elif schema is not None and self._json_mode == "object":
            body["response_format"] = {"type": "json_object"}
        return body

    async def _answer_to(self, body: dict[str, Any]) -> Reply:
        return await self._send(partial(self.client().chat.completions.create, **body))

    def _said(self, message: ChatCompletion, *, batch: bool) -> dict[str, Any]:
        choice = message.choices[0]
        stop, refusal = choice.finish_reason, choice.message.refusal
        status = "refused" if refusal else _STATUS.get(stop, "error")
        return {
            "answer": _text(choice.message.content) or refusal or ("" if status == "ok" else None),
            "status": status,
            "stop_reason": "refusal" if refusal else stop,
            "model": message.model or None,
            "error": f"finish_reason '{stop}' is not an answer" if status == "error" else None,
            **self._used(message),
        }

    def _used(self, completion: ChatCompletion) -> dict[str, Any]:
        used: Any = completion.usage
        if used is None:
            return {"cost_note": "the endpoint reports no usage"}
        details = getattr(used, "prompt_tokens_details", None)
        counts = [getattr(used, name, None) for name in ("prompt_tokens", "completion_tokens")]
        cached = [getattr(details, name, None) for name in ("cached_tokens", "cache_write_tokens")]
        return self._usage(completion.model, [*counts, *cached])


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
