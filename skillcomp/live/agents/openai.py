"""Models behind any endpoint that offers the chat completions of the OpenAI API."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, get_args

from pydantic import BaseModel

from skillcomp.errors import AgentError, extra_imports, require_known
from skillcomp.io.event_streams import ENDED, STOPPED
from skillcomp.io.files import JsonObject
from skillcomp.io.redaction import hide
from skillcomp.live.agents.agent import JsonMode, Reply, cost_fields, settings_json
from skillcomp.live.agents.service import MAX_RETRIES, NO_KEY, ServiceAgent
from skillcomp.pricing import Price

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from openai.types.chat import ChatCompletion


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
