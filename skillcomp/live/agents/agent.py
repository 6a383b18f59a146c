"""The base class of agents, their replies, and functions that make text safe to store and send."""

from __future__ import annotations

import html
import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypedDict
from urllib.parse import urlsplit

from pydantic import BaseModel, ValidationError, model_validator

from skillcomp.errors import error_text
from skillcomp.io.event_streams import Outcome
from skillcomp.io.files import BEYOND, JsonObject, digest, whole_number, whole_text
from skillcomp.io.redaction import redact, redacted_start
from skillcomp.pricing import Price, Usage, cost
from skillcomp.records import Skill

# The values of options of agents; a study file is checked by them without importing an SDK.
Effort = Literal["low", "medium", "high", "xhigh", "max"]
SkillIn = Literal["auto", "home", "prompt"]
Output = Literal["auto", "claude", "codex", "text"]
JsonMode = Literal["schema", "object", "none"]
Thinking = Literal["adaptive", "disabled", "between_tools"]
# The family of a model is given by the first pattern that matches its name.
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
# The cost_note of a reply that was paid for but could not be read.
UNREADABLE = "unreadable"
_MAX_RAW = 100_000  # Maximum number of characters that are kept of an unreadable response.
MAX_ANSWER = 1_000_000  # Maximum number of characters of an answer or trace; a longer one is cut.
MAX_ERROR = 2000  # Maximum number of characters that are kept of an error message.
TOKENS = ("input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens")
# The text of the skill is not escaped, because programs that load a skill do not escape it.
_SKILL_BLOCK = 'You have one skill loaded.\n\n<skill name="{slug}">\n{text}\n</skill>'
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
LONGEST_WAIT = 120.0  # Longest wait in seconds; the run stops if a service asks for more.
TIME_LIMIT = "timeout_s"  # The stop_reason of an answer that took longer than its case allows.
# The service charges for replies with one of these statuses.
PAID = frozenset({"ok", "refused", "truncated", "paused"})


class StudyWarning(UserWarning):
    """Warning that a study is incomplete or that its results need a caveat."""


class Bounds(NamedTuple):
    """Limits and requirements that a case sets for a program that works in a folder.

    Attributes
    ----------
    sandbox : str or None
        Sandbox of the program, ``read-only`` or ``workspace-write``; None leaves the command
        unchanged.
    timeout : float or None
        Time limit of the case in seconds. An agent that exceeds it has failed the case.
    schema : dict or None
        JSON Schema of the answer.
    neighbours : tuple of Skill
        Skills that are installed in addition to the loaded one.
    keep : path or None
        Folder in which the output and the files of the program are kept. Earlier contents of the
        folder are deleted. With None, nothing is kept.
    """

    sandbox: str | None = None
    timeout: float | None = None
    schema: JsonObject | None = None
    neighbours: tuple[Skill, ...] = ()
    keep: Path | None = None


class Cell(NamedTuple):
    """Case, condition and repeat of an answer, and the files and bounds of the case."""

    case_id: str
    condition: str
    repeat: int = 1
    files: tuple[tuple[str, Path], ...] = ()
    bounds: Bounds | None = None


class Reply(Outcome):
    """One answer with its status, token counts, cost and trace.

    Every reply can be stored: lone surrogates become U+FFFD, and an impossible number (negative,
    not finite, beyond 64 bits) becomes None.

    Attributes
    ----------
    answer : str or None
        The text of the answer; None without an answer. A refused or truncated reply keeps its text.
        A text of more than a million characters is cut, and its status is ``truncated``. An empty
        answer after a normal stop has the status ``ok`` and is graded.
    status : str
        ``ok``, ``error``, ``refused``, ``truncated``, ``paused`` or ``timeout``. A reply is graded
        only if its status is ``ok`` or if it exceeded the time limit of its case.
    stop_reason : str or None
        Why the model stopped, as the service reports it.
    model : str or None
        The model that answered, as the service reports it.
    input_tokens, cached_tokens, cache_write_tokens, output_tokens : int or None
        Numbers of tokens: in the whole prompt; in the part of the prompt that was read from a
        cache; in the part that was written to a cache; in the answer, thinking included. None if
        not reported.
    cost_usd : float or None
        Cost in dollars; None if unknown.
    cost_note : str or None
        Why the cost is unknown; ``unreadable`` for a response that was paid for but cannot be
        read.
    cost_upper_usd : float or None
        Upper bound on the cost of an unreadable response, in dollars; None for other replies.
    seconds : float or None
        Duration of the try that gave the reply, without earlier tries and waits.
    request_id : str or None
        Identifier of the request, as the service reports it.
    triggered : bool or None
        Whether the agent loaded the skill, as the trace shows; None if unknown.
    offered, invoked : tuple of str or None
        The skills that were installed for the agent, and those that it loaded. None if no skill
        was installed; `invoked` is also None if the trace does not show which skills were loaded.
    n_commands : int or None
        Number of shell commands that the agent ran, as the trace shows.
    exit_code : int or None
        Exit code of the program, if the agent is a program and ended by itself; otherwise None.
    n_tries : int
        Number of times the prompt was sent.
    n_retries : int
        Number of times a program repeated a call to its service, as the trace shows.
    trace : str or None
        The agent's report on its work or, if the response was unreadable, its raw text.
    error : str or None
        What went wrong, as one sentence; None if nothing did.
    fatal : bool
        Whether the cause of the failure (no permission, no money) would make every further prompt
        fail, too.
    settings : str or None
        Settings of the agent that gave the reply, as JSON.
    wait_seconds : float or None
        Seconds that the service asks to wait after a failed call; None if it did not ask to wait.
    """

    cost_upper_usd: float | None = None
    seconds: float | None = None
    triggered: bool | None = None
    offered: tuple[str, ...] | None = None
    invoked: tuple[str, ...] | None = None
    exit_code: int | None = None
    n_tries: int = 1
    trace: str | None = None
    settings: str | None = None
    wait_seconds: float | None = None

    @model_validator(mode="before")
    @classmethod
    def _storable_fields(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        fields = {key: whole_text(v) if isinstance(v, str) else v for key, v in data.items()}
        for name in (*TOKENS, "n_commands", "cost_usd", "cost_upper_usd", "seconds"):
            value = fields.get(name)
            # Test `not 0 <= value` instead of `value < 0`, so that NaN becomes None, too.
            if isinstance(value, int | float) and not 0 <= value < BEYOND:
                fields[name] = None
                if name == "cost_usd" and not fields.get("cost_note"):
                    fields["cost_note"] = f"a cost of {value} USD is reported, which cannot be"
        answer = fields.get("answer")
        if isinstance(answer, str) and len(answer) > MAX_ANSWER:
            fields["answer"] = redacted_start(answer, MAX_ANSWER)
            if fields.get("status", "ok") == "ok":
                fields["status"] = "truncated"
            cut = f"the answer has {len(answer):,} characters and is cut after {MAX_ANSWER:,}"
            fields["error"] = "; ".join(filter(None, (fields.get("error"), cut)))
        return fields


class Asked(TypedDict, total=False):
    """Keyword arguments of `BaseAgent.ask`, as a type for agents that pass them on."""

    skill: Skill | None
    system: str | None
    schema: type[BaseModel] | None
    cell: Cell | None


class BaseAgent(ABC):
    """Base class of agents: a model, a program on the command line, or a recording.

    Every attribute has a default, and a subclass defines `ask`.

    Attributes
    ----------
    name : str
        Label of the agent in the frames; by default the name of the class.
    model : str or None
        The requested model.
    family : str or None
        Family of the model, as `family_of` returns it.
    settings : str
        All other settings that affect the answer, as JSON with sorted keys.
    prices : sequence of Price
        Prices to use instead of the list prices.
    reports_cost : bool
        Whether a reply can tell its own cost. If not, a study with a budget needs a price.
    is_recording : bool
        Whether the agent replays recorded replies; they cost nothing, so no budget counts them.
    takes_files : bool
        Whether the agent gets the input files of a case.
    installs_folders : bool
        Whether the agent gets the whole folder of a skill, and not only its SKILL.md.

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
    reports_cost: bool = True
    is_recording: bool = False
    takes_files: bool = False
    installs_folders: bool = False

    def __init_subclass__(cls, **options: Any) -> None:
        """Make the name of the class the default of `name`."""
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
        """Return the reply to one prompt; if the service fails, the status of the reply shows it.

        Parameters
        ----------
        prompt : str
            The user's message.
        skill : Skill, optional
            The skill to load; None for a baseline.
        system : str, optional
            Instructions that many prompts share; some agents have them cached.
        schema : type of pydantic.BaseModel, optional
            The shape that the answer must have. The reply holds the answer as text; the caller
            validates it.
        cell : Cell, optional
            Case, condition and repeat of the answer, with the files and bounds of the case.
        """

    async def aclose(self) -> None:  # noqa: B027 (most agents have nothing to close)
        """Close connections, if there are any; the agent can still be used afterwards."""


Agent = BaseAgent  # in types; an object with the same attributes and methods is accepted, too


def attribute_of(agent: Agent, name: str) -> Any:
    """Return an attribute of an agent, or the default of `BaseAgent` if the agent has none."""
    return getattr(agent, name, getattr(BaseAgent, name))


def family_of(model: str | None) -> str | None:
    """Return the family of a model, such as claude or gpt.

    Parameters
    ----------
    model : str or None
        Name of a model, with or without a provider before a slash.

    Returns
    -------
    str or None
        One of claude, gpt, gemini, llama, qwen, mistral, deepseek and grok; for other models the
        first word of the name; None without a name.

    Examples
    --------
    >>> family_of("claude-sonnet-5-5"), family_of("openai/gpt-6"), family_of("olmo-3:7b")
    ('claude', 'gpt', 'olmo')
    """
    if not model:
        return None
    name = model.lower().rsplit("/", 1)[-1]
    families = (family for family, words in _FAMILIES.items() if re.search(words, name))
    return next(families, re.split(r"[-_:. 0-9]", name)[0] or name)


def settings_json(**settings: Any) -> str:
    """Return settings as JSON with sorted keys; settings that are None are left out."""
    present = {key: value for key, value in settings.items() if value is not None}
    return json.dumps(present, sort_keys=True, ensure_ascii=False)


def host_of(url: Any, default: str) -> str | None:
    """Return the host of `url`; None if there is no URL or its host is `default`."""
    host = urlsplit(str(url)).hostname if url else None
    return None if host == default else host


def unreadable(error: BaseException, content: str | bytes, **fields: Any) -> Reply:
    """Return an error reply for an unreadable response, with the raw response as its trace."""
    text = content if isinstance(content, str) else content.decode("utf-8", "replace")
    return Reply(
        **fields,
        status="error",
        error=redacted_start(f"the reply cannot be read ({error_text(error)})", MAX_ERROR),
        cost_note=UNREADABLE,
        trace=redacted_start(whole_text(text), _MAX_RAW),
    )


def first_fault(error: ValidationError, whole: str = "") -> str:
    """Return the first fault of a validation as "place: message"; ``whole`` names no place."""
    fault = error.errors(include_url=False)[0]
    return f"{'.'.join(map(str, fault['loc'])) or whole}: {fault['msg']}"


def redacted_reply(reply: Reply) -> Reply:
    """Return a reply with the secrets replaced in all its texts."""
    texts = {name: redact(v) for name, v in reply if isinstance(v, str) and name != "status"}
    return reply.model_copy(update=texts)


def cost_fields(who: str, model: Any, counts: Sequence[Any], prices: Sequence[Price]) -> JsonObject:
    """Return token counts and cost as fields of a `Reply`, or only a note if a count is invalid.

    `who` is the name of the service or program that reported the token counts; it appears in the
    note. `counts` holds the numbers of tokens of the whole prompt, of the answer, and of those
    parts of the prompt that were read from a cache, written to a cache, and (may be left out)
    written to a cache for one hour.
    """
    tokens = [n for count in counts if (n := whole_number(count)) is not None]
    if len(tokens) < len(counts):
        return {"cost_note": f"{who} reports no token counts that can be read"}
    fields = dict(zip(TOKENS, tokens, strict=False))
    if not isinstance(model, str):
        return fields | {"cost_note": f"{who} does not say which model answered"}
    try:
        price = cost(Usage(*tokens), model, prices=prices)
    except ValueError:
        what = "tokens for one hour than in all" if any(tokens[4:]) else "cached tokens than tokens"
        return fields | {"cost_note": f"{who} reports more {what}"}
    usd = None if math.isnan(price.usd) else price.usd
    return fields | {"cost_usd": usd, "cost_note": price.note}


class Attribute(str):
    """A text that will be put between double quotes, so `escape` must replace quotes in it."""

    __slots__ = ()


def escape(value: Any) -> str:
    """Escape a value for use inside a tag of a prompt.

    ``&``, ``<`` and ``>`` are replaced, so that no text can close its own tag or open another.
    Control characters and lone surrogates become U+FFFD.

    Examples
    --------
    >>> escape("5 < 6 </agent-answer>")
    '5 &lt; 6 &lt;/agent-answer&gt;'
    """
    text = html.escape(_CONTROL.sub("\ufffd", str(value)), quote=False)
    return text.replace('"', "&quot;") if isinstance(value, Attribute) else text


def skill_block(skill: Skill) -> str:
    """Return the text that loads a skill into the context of an agent."""
    return _SKILL_BLOCK.format(slug=escape(Attribute(skill.slug)), text=skill.text)


def agent_version() -> str:
    """Return the short hash of the template with which a skill is loaded."""
    return short_hash(_SKILL_BLOCK)


def short_hash(*parts: str) -> str:
    """Return a hash of 12 characters that identifies a version of some texts."""
    return whole_hash(*parts)[:12]  # 12 characters are enough to distinguish prompts


def whole_hash(*parts: object) -> str:
    """Return the sha256 of some texts in hexadecimal; lone surrogates are hashed unchanged."""
    return digest("\0".join(map(str, parts)).encode("utf-8", "surrogatepass"))
