"""What every agent is asked and what it gives back, whichever way it is reached."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

from pydantic import BaseModel

from skillcomp.pricing import Cost
from skillcomp.records import AttemptStatus, Record, Skill

# First match wins; the words are those of the makers' own model names.
_FAMILIES = {
    "claude": r"claude|anthropic|fable|mythos|opus|sonnet|haiku",
    "gpt": r"gpt|codex|openai|^o\d",
    "gemini": r"gemini|gemma",
    "llama": r"llama",
    "qwen": r"qwen|qwq",
    "mistral": r"mistral|mixtral|ministral",
    "deepseek": r"deepseek",
    "grok": r"grok",
}
_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH$", re.IGNORECASE)
_IN_URL = re.compile(r"://[^/@\s]*:([^/@\s]+)@")  # the password of a proxy, for one
_MIN_SECRET = 8  # characters; shorter values ("1", "true") are no secrets


class Cell(NamedTuple):
    """Where an answer stands in a study: the case, the condition and the repeat."""

    case_id: str
    condition: str
    repeat: int = 1


class Reply(Record):
    """One answer with all that is known about how it came to be.

    Attributes
    ----------
    answer : str or None
        The text; None when there is none. A refusal or a cut-off keeps what was said.
    status : str
        ``ok``, ``error``, ``refused``, ``truncated``, ``paused`` or ``timeout``. Only ``ok`` is an
        answer to grade; nothing else counts as a failed answer.
    stop_reason : str or None
        As reported.
    model : str or None
        The model as reported, not as asked for.
    input_tokens, cached_tokens, cache_write_tokens, output_tokens : int or None
        The whole prompt, its parts read from and written to a cache, and the answer with its
        thinking. None when not reported.
    cost_usd : float or None
        None when no price is known; ``cost_note`` says why.
    seconds : float or None
        Wall clock of the try that gave the reply; waiting for retries is not counted.
    request_id : str or None
        As reported.
    triggered : bool or None
        Whether the agent loaded the skill, read from its trace; None where it cannot be known.
    n_commands : int or None
        Shell commands run, from the trace.
    n_tries : int
        How often the question was sent.
    trace : str or None
        What the agent reported about its work.
    error : str or None
        What went wrong, one sentence.
    fatal : bool
        Whether every further question would fail in the same way (no permission, no money).
    settings : str or None
        Settings of the agent, as JSON.
    """

    answer: str | None = None
    status: AttemptStatus = "ok"
    stop_reason: str | None = None
    model: str | None = None
    input_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    cost_note: str | None = None
    seconds: float | None = None
    request_id: str | None = None
    triggered: bool | None = None
    n_commands: int | None = None
    n_tries: int = 1
    trace: str | None = None
    error: str | None = None
    fatal: bool = False
    settings: str | None = None

    def attempt_fields(self) -> dict[str, Any]:
        """Return the fields that an `Attempt` keeps, under its names."""
        fields = self.model_dump(exclude={"model", "cost_note", "n_tries", "fatal"})
        return {**fields, "agent_model": self.model}


@runtime_checkable
class Agent(Protocol):
    """Anything that can be asked: a model, a program on the command line, a recording.

    Attributes
    ----------
    name : str
        The label in the frames.
    model : str or None
        The model asked for.
    family : str or None
        Maker's family of the model, as `family_of` tells it.
    settings : str
        What else decides the answer, as JSON with sorted keys.
    """

    name: str
    model: str | None
    family: str | None
    settings: str

    async def ask(
        self,
        prompt: str,
        *,
        skill: Skill | None = None,
        system: str | None = None,
        schema: type[BaseModel] | None = None,
        cell: Cell | None = None,
    ) -> Reply:
        """Return the reply to one prompt; whatever the service does is in the reply's status.

        Parameters
        ----------
        prompt : str
            The user's message.
        skill : Skill, optional
            The skill to load; a baseline has none.
        system : str, optional
            Instructions that are the same for many prompts; agents that can, cache them.
        schema : type of pydantic.BaseModel, optional
            The shape of the answer. The reply keeps the text; who asks validates it.
        cell : Cell, optional
            Where the answer stands in the study; only a recording needs it.
        """
        ...

    async def aclose(self) -> None:
        """Close connections; the agent may be asked again afterwards."""
        ...


def family_of(model: str | None) -> str | None:
    """Return the family of a model: what a cross-family grader must differ in.

    Parameters
    ----------
    model : str or None
        A model's name, with or without a provider before a slash.

    Returns
    -------
    str or None
        One of claude, gpt, gemini, llama, qwen, mistral, deepseek, grok, or the name's first word.

    Examples
    --------
    >>> family_of("claude-sonnet-5-5"), family_of("openai/gpt-6"), family_of("olmo-3:7b")
    ('claude', 'gpt', 'olmo')
    """
    if not model:
        return None
    name = model.lower().rsplit("/", 1)[-1]
    for family, pattern in _FAMILIES.items():
        if re.search(pattern, name):
            return family
    return re.split(r"[-_:. 0-9]", name)[0] or name


def settings_json(**settings: Any) -> str:
    """Return settings as JSON with sorted keys, without those that were left open (None)."""
    given = {key: value for key, value in settings.items() if value is not None}
    return json.dumps(given, sort_keys=True, ensure_ascii=False)


def cost_fields(cost: Cost) -> dict[str, Any]:
    """Return the two fields of a `Reply` that a cost fills; NaN becomes None."""
    return {"cost_usd": None if math.isnan(cost.usd) else cost.usd, "cost_note": cost.note}


def redact(text: str, environment: Mapping[str, str] | None = None) -> str:
    """Return a text without the secrets that stand in the environment.

    Parameters
    ----------
    text : str
        An answer, a trace or an error message.
    environment : mapping of str to str, optional
        Names and values; the process's own when not given.

    Returns
    -------
    str
        Every value whose name speaks of a key, token, secret, password or credential, and every
        password within a URL, is replaced by ``[NAME]``. Those of fewer than eight characters are
        left.

    Examples
    --------
    >>> redact("401: key sk-12345678 is wrong", {"A_KEY": "sk-12345678"})
    '401: key [A_KEY] is wrong'
    """
    found = os.environ if environment is None else environment
    for name, value in found.items():
        secrets = [value] if _SECRET_NAME.search(name) else _IN_URL.findall(value)
        for secret in secrets:
            if len(secret) >= _MIN_SECRET:
                text = text.replace(secret, f"[{name}]")
    return text
