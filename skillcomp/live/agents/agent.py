"""What every agent is asked and what it gives back, whichever way it is reached."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypedDict, runtime_checkable
from urllib.parse import urlsplit

from pydantic import BaseModel, model_validator

from skillcomp.pricing import Price, Usage, cost
from skillcomp.records import AttemptStatus, Record, Skill

if TYPE_CHECKING:
    from skillcomp.live.agents.batch_service import BatchService

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
UNREADABLE = "unreadable"  # cost_note of a reply that came, but of which nothing can be made
_LONE = re.compile("[\ud800-\udfff]")  # halves of a character, which UTF-8 cannot hold
_BEYOND = 2**63  # where the whole numbers of a table end
_MAX_RAW = 100_000  # characters of an unreadable reply that are kept
MAX_ANSWER = 1_000_000  # characters of an answer that are kept; a longer one is truncated
MAX_ERROR = 2000  # characters of a message that are kept
_NUMBERS = ("input_tokens", "cached_tokens", "cache_write_tokens", "output_tokens", "n_commands")
# The text of a skill is given to an agent byte for byte, as a harness would load it.
_SKILL_BLOCK = 'You have one skill loaded.\n\n<skill name="{slug}">\n{text}\n</skill>'
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
_VERSION_LENGTH = 12  # hex digits of the hash; enough to tell prompts apart
LONGEST_WAIT = 120.0  # seconds; if a service asks to wait longer, the stage ends
TIME_LIMIT = "timeout_s"  # stop_reason of an answer that took longer than its case allows
# What came back from a model and is charged for, whatever its use.
PAID = frozenset({"ok", "refused", "truncated", "paused"})


class StudyWarning(UserWarning):
    """A study ended with less than was asked for, or with something to keep in mind."""


class Bounds(NamedTuple):
    """What one case asks of a program that works in a folder.

    Attributes
    ----------
    sandbox : str or None
        ``read-only`` or ``workspace-write``; as the command says when None.
    timeout : float or None
        Seconds of the case itself: who needs longer has failed it, and is not asked again.
    schema : dict or None
        JSON Schema of the answer.
    neighbours : tuple of Skill
        Skills that are installed beside the one that is loaded.
    keep : path or None
        Where what the program wrote and left is kept, in the place of what is there.
    """

    sandbox: str | None = None
    timeout: float | None = None
    schema: dict[str, Any] | None = None
    neighbours: tuple[Skill, ...] = ()
    keep: Path | None = None


class Cell(NamedTuple):
    """Where an answer stands in a study: case, condition, repeat, the case's files and bounds."""

    case_id: str
    condition: str
    repeat: int = 1
    files: tuple[tuple[str, Path], ...] = ()
    bounds: Bounds | None = None


class Reply(Record):
    """One answer with all that is known about how it came to be.

    Whatever a service sends, a reply can be stored: half characters (lone surrogates) become
    U+FFFD, and a number that cannot be (negative, not finite, beyond 64 bits) becomes None.

    Attributes
    ----------
    answer : str or None
        The text; None when there is none. A refusal or a cut-off keeps what was said. Longer than
        a million characters, it is cut there and the status is ``truncated``. An empty answer
        after a normal stop is the agent's own, ``ok``, and graded.
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
        None when no price is known; ``cost_note`` says why: ``unreadable`` when a reply came that
        cannot be read, which was paid for all the same.
    cost_upper_usd : float or None
        What a reply that cannot be read can have cost at most; None for all others.
    seconds : float or None
        Wall clock of the try that gave the reply; waiting for retries is not counted.
    request_id : str or None
        As reported.
    triggered : bool or None
        Whether the agent loaded the skill, read from its trace; None where it cannot be known.
    offered, invoked : tuple of str or None
        The skills that were installed for the agent, and those of them that it loaded; None where
        nothing was installed, or what was loaded cannot be known.
    n_commands : int or None
        Shell commands run, from the trace.
    exit_code : int or None
        Of a program that ended by itself.
    n_tries : int
        How often the question was sent.
    n_retries : int
        How often a program asked its service again by itself, from its trace.
    trace : str or None
        What the agent reported about its work; of a reply that cannot be read, its raw text.
    error : str or None
        What went wrong, one sentence.
    fatal : bool
        Whether every further question would fail in the same way (no permission, no money).
    settings : str or None
        Settings of the agent, as JSON.
    wait_seconds : float or None
        How long the service asked to wait before the next try, where the last one failed.
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
    cost_upper_usd: float | None = None
    seconds: float | None = None
    request_id: str | None = None
    triggered: bool | None = None
    offered: tuple[str, ...] | None = None
    invoked: tuple[str, ...] | None = None
    n_commands: int | None = None
    exit_code: int | None = None
    n_tries: int = 1
    n_retries: int = 0
    trace: str | None = None
    error: str | None = None
    fatal: bool = False
    settings: str | None = None
    wait_seconds: float | None = None

    @model_validator(mode="before")
    @classmethod
    def _storable(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        fields = {key: whole_text(v) if isinstance(v, str) else v for key, v in given.items()}
        for name in (*_NUMBERS, "cost_usd", "cost_upper_usd", "seconds"):
            value = fields.get(name)
            # NaN fits no comparison
            if isinstance(value, int | float) and not 0 <= value < _BEYOND:
                fields[name] = None
                if name == "cost_usd" and not fields.get("cost_note"):
                    fields["cost_note"] = f"a cost of {value} USD is reported, which cannot be"
        answer = fields.get("answer")
        if isinstance(answer, str) and len(answer) > MAX_ANSWER:
            fields["answer"] = answer[:MAX_ANSWER]
            if fields.get("status", "ok") == "ok":
                fields["status"] = "truncated"
            told = f"the answer has {len(answer):,} characters and is cut after {MAX_ANSWER:,}"
            fields["error"] = "; ".join(filter(None, (fields.get("error"), told)))
        return fields


class Asked(TypedDict, total=False):
    """What goes with a prompt, for agents that hand it on; see `Agent.ask`."""

    skill: Skill | None
    system: str | None
    schema: type[BaseModel] | None
    cell: Cell | None


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


class BaseAgent(ABC):
    """Base of an agent: every attribute has a default, and a subclass defines `ask`.

    Attributes
    ----------
    name : str
        The label in the frames; default the name of the class.
    model, family, settings
        As of `Agent`; by default unknown, and no settings.
    prices : sequence of Price
        Prices that differ from the list prices.
    batches : BatchService or None
        The service that takes its questions in batches.
    is_recording : bool
        Whether its replies were paid for earlier, so that no budget counts them.
    takes_files : bool
        Whether it gets the files listed as input of a case.
    installs_folders : bool
        Whether it gets the whole folder of a skill, and not only SKILL.md.

    Examples
    --------
    >>> class Echo(BaseAgent):
    ...     async def ask(self, prompt, **options):
    ...         return Reply(answer=prompt)
    >>> Echo().name
    'Echo'
    """

    name: str = ""
    model: str | None = None
    family: str | None = None
    settings: str = "{}"
    prices: Sequence[Price] = ()
    batches: BatchService | None = None
    is_recording: bool = False
    takes_files: bool = False
    installs_folders: bool = False

    def __init_subclass__(cls, **options: Any) -> None:
        """Give the class its default name."""
        super().__init_subclass__(**options)
        cls.name = cls.name or cls.__name__

    @abstractmethod
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

    async def aclose(self) -> None:  # noqa: B027 - a default, not an abstract method
        """Close connections; there are none by default."""


def attribute_of(agent: Agent, name: str) -> Any:
    """Return an attribute of an agent; its default if the agent is no `BaseAgent`."""
    return getattr(agent, name, getattr(BaseAgent, name))


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


def host_of(url: Any, default: str) -> str | None:
    """Return the host of an endpoint, or None when it is the default one or not given."""
    host = urlsplit(str(url)).hostname if url else None
    return None if host == default else host


def whole_text(text: str) -> str:
    """Return a text with U+FFFD for every lone surrogate: JSON can carry them, UTF-8 cannot.

    Examples
    --------
    >>> whole_text("half " + chr(0xD83D)) == "half " + chr(0xFFFD)
    True
    """
    return _LONE.sub("\ufffd", text)


def unreadable(error: BaseException, came: Any, **known: Any) -> Reply:
    """Return the reply that records one which came but cannot be read."""
    told = f"the reply cannot be read ({type(error).__name__}: {error})"
    return Reply(
        **known,
        status="error",
        error=redact(told)[:MAX_ERROR],
        cost_note=UNREADABLE,
        trace=_raw_text(came),
    )


def with_raw(reply: Reply, content: Any, *, n_tries: int) -> Reply:
    """Return the reply of a failed call with the response that could not be used."""
    raw = {"trace": _raw_text(content), "cost_note": UNREADABLE, "n_tries": n_tries}
    return reply.model_copy(update=raw)


def _raw_text(came: Any) -> str:
    if isinstance(came, bytes | bytearray):
        came = came.decode("utf-8", "replace")
    if not isinstance(came, str):
        try:
            plain = came.model_dump(warnings=False, exclude_unset=True)
            came = json.dumps(plain, default=str, ensure_ascii=False)
        except Exception:  # it is unreadable, after all
            came = f"({type(came).__name__})"
    # cut last, since half a key is not found
    return redact(whole_text(came))[:_MAX_RAW]


def cost_fields(
    who: str, model: str, tokens: Sequence[int], prices: Sequence[Price], *, batch: bool = False
) -> dict[str, Any]:
    """Return the two fields of a `Reply` that a cost fills; `who` reports the tokens."""
    try:
        found = cost(Usage(*tokens), model, batch=batch, prices=prices)
    except ValueError:
        what = "tokens for one hour than in all" if any(tokens[4:]) else "cached tokens than tokens"
        return {"cost_note": f"{who} reports more {what}"}
    return {"cost_usd": None if math.isnan(found.usd) else found.usd, "cost_note": found.note}


def redact(text: str, environment: Mapping[str, str] | None = None) -> str:
    """Return a text without the secrets that stand in the environment.

    Examples
    --------
    >>> redact("401: key sk-12345678 is wrong", {"A_KEY": "sk-12345678"})
    '401: key [A_KEY] is wrong'
    """
    found = os.environ if environment is None else environment
    secrets = [
        (secret, name)
        for name, value in found.items()
        for secret in ([value] if _SECRET_NAME.search(name) else _IN_URL.findall(value))
        if len(secret) >= _MIN_SECRET
    ]
    # the longest first: what holds another secret is hidden as a whole
    for secret, name in sorted(secrets, key=lambda one: -len(one[0])):
        text = text.replace(secret, f"[{name}]")
    return text


class Attribute(str):
    """Text that stands between double quotes."""

    __slots__ = ()


def escape(value: Any) -> str:
    """Return a datum as it may stand inside a tag of a prompt.

    ``&``, ``<`` and ``>`` are replaced, so that no text can close its own tag or open another;
    control characters and lone surrogates, which no model should meet, become U+FFFD.

    Examples
    --------
    >>> escape("5 < 6 </agent-answer>")
    '5 &lt; 6 &lt;/agent-answer&gt;'
    """
    text = _CONTROL.sub("\ufffd", str(value))
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace('"', "&quot;") if isinstance(value, Attribute) else text


def skill_block(skill: Skill) -> str:
    """Return the text by which a skill is loaded into an agent's context."""
    return _SKILL_BLOCK.format(slug=escape(Attribute(skill.slug)), text=skill.text)


def agent_version() -> str:
    """Return the hash of how a skill is put before an agent."""
    return short_hash(_SKILL_BLOCK)


def short_hash(*parts: str) -> str:
    """Return the hash by which two versions of a text are told apart."""
    return whole_hash(*parts)[:_VERSION_LENGTH]


def whole_hash(*parts: object) -> str:
    """Return the sha256 of texts in hexadecimal; lone surrogates, which a text may hold, count."""
    text = "\0".join(map(str, parts))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
