"""What a command-line agent reported about its work: tolerant readers of its event stream.

Two streams are known, ``claude -p --output-format stream-json`` and ``codex exec --json``; all
other output is taken as the answer itself. Events that are not known are passed over, since every
release adds some, and a line that is no JSON never breaks the rest. An answer can hold lines that
look like events, so the kind is told by the command, by how the output begins, or by an output
that is one result of ``claude -p --output-format json`` and nothing else.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal, cast

from skillcomp.io.shell_commands import is_read_only, shows_skill
from skillcomp.records import AttemptStatus

Event = Mapping[str, Any]
Kind = Literal["claude", "codex", "text"]
_STOPPED: dict[str, AttemptStatus] = {
    "refusal": "refused",
    "max_tokens": "truncated",
    "model_context_window_exceeded": "truncated",
    "pause_turn": "paused",
    # limits of the program, not of the model
    "error_max_turns": "truncated",
    "error_max_budget_usd": "truncated",
}
_NORMAL = ("end_turn", "stop_sequence")
# What Claude Code says in place of an answer that ran into its limit.
_TOO_LONG = re.compile(r"exceeded the \S+ output token maximum")
_PERMISSION = (401, 402, 403)
_BEYOND = 2**63  # where the whole numbers of a table end


@dataclass(frozen=True)
class Step:
    """One thing that a program did or said.

    Attributes
    ----------
    kind : str
        ``session``, ``turn`` (it ended), ``result``, ``message``, ``reasoning``, ``command``,
        ``skill``, ``tool``, ``file_change``, ``web_search``, ``todo``, ``subagent``, ``retry``,
        ``error``, or ``other`` for what this release does not know.
    turn : int
        Counted from 1.
    tool : str or None
        The tool's name; the type of an event that is not known.
    text : str or None
        What was said or named: the command, skill, file, query or message.
    status : str or None
        ``completed``, ``failed``, ``declined``, or ``in_progress`` where no end was told.
    exit_code : int or None
        Of a command, where the program told it.
    read_only : bool or None
        Whether a command or tool can only have read; None where that means nothing.
    in_subagent : bool
        Whether a subagent did it.
    input_tokens, cached_tokens, output_tokens : int or None
        As reported with this step. Each report stands with one step only, so sums are right.
    """

    kind: str
    turn: int = 1
    tool: str | None = None
    text: str | None = None
    status: str | None = None
    exit_code: int | None = None
    read_only: bool | None = None
    in_subagent: bool = False
    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None


@dataclass(frozen=True)
class Trace:
    """What could be read from the output of a program.

    Attributes
    ----------
    kind : str
        ``claude``, ``codex`` or ``text``, which has no events.
    answer : str or None
        The final answer.
    status : str
        As in `Reply`.
    error, stop_reason, model, request_id : str or None
        As in `Reply`; the session or thread stands for the request.
    fatal : bool
        The service refused permission or payment.
    input_tokens, cached_tokens, cache_write_tokens, output_tokens : int or None
        Over all models and turns.
    cost_usd : float or None
        As the program estimates it; ``cost_note`` says when it cannot.
    n_commands : int or None
        Shell commands that were run, those that were denied not among them; None for text.
    n_retries : int
        How often the program asked its service again.
    called : tuple of str
        Skills that were called by name without error.
    opened : tuple of str
        What was read without error, each as the text that names it: files read, commands run.
    skills : tuple of str or None
        The skills that the program says it has; None when it does not say.
    steps : tuple of Step
        What was done, in order; none for text.
    """

    kind: str = "text"
    answer: str | None = None
    status: AttemptStatus = "ok"
    error: str | None = None
    stop_reason: str | None = None
    model: str | None = None
    request_id: str | None = None
    fatal: bool = False
    input_tokens: int | None = None
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    cost_note: str | None = None
    n_commands: int | None = None
    n_retries: int = 0
    called: tuple[str, ...] = ()
    opened: tuple[str, ...] = ()
    skills: tuple[str, ...] | None = None
    steps: tuple[Step, ...] = ()

    def loaded(self, slug: str) -> bool | None:
        """Return whether a skill was really loaded; None when the output is plain text.

        True when the skill was called by its name, with or without that of a plugin before it, or
        when its SKILL.md was read or printed, and nothing said that this failed. A command that
        only names the file (``ls``, ``rm``) has not read it.
        """
        if self.kind == "text":
            return None
        by_name = any(name.split(":")[-1] == slug for name in self.called)
        return by_name or any(shows_skill(text, slug) for text in self.opened)


def whole_number(value: Any) -> int | None:
    """Return a count as reported, or None when it is none: no whole number from 0 to 2**63 - 1."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _BEYOND:
        return None
    return int(value) if value == int(value) else None


def kind_of(command: Sequence[str]) -> Kind | None:
    """Return what a command asks its program to write, or None when it does not tell.

    Examples
    --------
    >>> kind_of(["claude", "-p", "--output-format", "stream-json"])
    'claude'
    >>> kind_of(["codex", "exec", "--json", "-"]), kind_of(["my-agent", "--json"])
    ('codex', None)
    """
    formats = [now for before, now in pairwise(command) if before == "--output-format"]
    formats += [arg.partition("=")[2] for arg in command if arg.startswith("--output-format=")]
    if formats:
        found = {"stream-json": "claude", "json": "claude", "text": "text"}.get(formats[-1])
        return cast("Kind | None", found)
    return "codex" if "exec" in command and "--json" in command else None


def read_trace(output: str, kind: Kind | None = None) -> Trace:
    """Return what the output of a program says.

    Examples
    --------
    >>> read_trace('{"type": "thread.started", "thread_id": "t"}').error
    'the event stream ends without a completed turn'
    >>> read_trace('An event: {"type": "result"}').kind
    'text'
    """
    kind = kind or _begins(output)
    text = output.strip()
    if kind == "text":
        if text:
            return Trace(answer=text)
        return Trace(status="error", error="the program wrote no answer")
    whole = _whole(output) if kind == "claude" else {}
    events = [whole] if whole else list(_events(output))
    if not events:
        error = "the program wrote no event, but something else" if text else "it wrote nothing"
        return Trace(kind=kind, status="error", error=error)
    return _claude(events) if kind == "claude" else _codex(events)


def is_result(output: str) -> bool:
    """Return whether an output is one JSON object of the type ``result`` and nothing else."""
    return _whole(output).get("type") == "result"


def _whole(output: str) -> Event:
    return _object(output.strip()) or {}


def _object(text: str) -> Event | None:
    try:
        found = json.loads(text) if text.lstrip().startswith("{") else None
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _begins(output: str) -> Kind:
    if is_result(output) and _text(_whole(output).get("subtype")):
        return "claude"
    first = next(_events(output.lstrip().partition("\n")[0]), {})
    if first.get("type") == "system" and _text(first.get("session_id")):
        return "claude"
    if first.get("type") == "thread.started" and _text(first.get("thread_id")):
        return "codex"
    return "text"


def _events(output: str) -> Iterator[Event]:
    # not splitlines: an event may hold signs that only Python takes for the end of a line
    return (event for line in output.split("\n") if (event := _object(line)) is not None)


def _map(value: Any) -> Event:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Event]:
    return [_map(one) for one in value] if isinstance(value, list) else []


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _int(value: Any) -> float:
    """Return a count; 0 where there is none, NaN where it cannot be one, so that sums show it."""
    if value is None:
        return 0
    found = whole_number(value)
    return math.nan if found is None else found


def _counts(**found: float) -> dict[str, Any]:
    return {name: whole_number(value) for name, value in found.items()}


# claude -p


def _claude(events: list[Event]) -> Trace:
    init = next((e for e in events if e.get("subtype") == "init"), {})
    result = next((e for e in reversed(events) if e.get("type") == "result"), {})
    denied = {str(one.get("tool_use_id")) for one in _list(result.get("permission_denials"))}
    steps = _claude_steps(events, denied)
    opened = [s for s in steps if s.status in ("completed", "in_progress")]
    skills = init.get("skills")
    found: dict[str, Any] = {"model": _text(init.get("model"))}
    if result:
        found |= {**_claude_usage(result), **_claude_outcome(result)}
    else:
        error = "the event stream ends without a result"
        found |= {**_usage_of_messages(events), "status": "error", "error": error}
    return Trace(
        kind="claude",
        request_id=_text(init.get("session_id")),
        called=tuple(s.text.lstrip("/") for s in opened if s.text and s.tool == "Skill"),
        opened=tuple(s.text for s in opened if s.text and s.tool in ("Read", "Bash")),
        skills=tuple(str(_map(s).get("name", s)) for s in skills)
        if isinstance(skills, list)
        else None,
        **_counted(steps),
        **found,
    )


def _claude_outcome(result: Event) -> dict[str, Any]:
    text, stop = result.get("result"), _text(result.get("stop_reason"))
    # a script around the program may leave the subtype out
    subtype = str(result.get("subtype", "success" if isinstance(text, str) else None))
    out: dict[str, Any] = {"stop_reason": stop or subtype}
    # "success" only says that the program came to its end; is_error says whether the API did
    if result.get("is_error") or subtype != "success":
        errors = result.get("errors")
        told = [str(e) for e in errors] if isinstance(errors, list) else []
        told += [str(text)] if text else []
        status = _STOPPED.get(subtype) or _STOPPED.get(str(stop)) or "error"
        if _TOO_LONG.search(str(text or "")):
            status = "truncated"
        fatal = result.get("api_error_status") in _PERMISSION
        return out | {"status": status, "error": "; ".join(told) or subtype, "fatal": fatal}
    structured = result.get("structured_output")
    if structured is None and isinstance(text, str | None):
        answer = text or ""
    else:
        answer = json.dumps(text if structured is None else structured)
    status = _STOPPED.get(str(stop), "ok")
    if not answer and status == "ok" and stop not in _NORMAL:
        return out | {"status": "error", "error": "no answer, and no normal stop is reported"}
    return out | {"status": status, "answer": answer, "error": None}


def _claude_usage(result: Event) -> dict[str, Any]:
    """Tokens and dollars of everything that ran, the helpers' models included."""
    models = {name: _map(used) for name, used in _map(result.get("modelUsage")).items()}
    out = _claude_cost(result.get("total_cost_usd"))
    if any(used.get("costBasis") == "unknown" for used in models.values()):
        out = {"cost_usd": None, "cost_note": "the program knows no price for a model it used"}
    if not models:
        return out | _counts(**_usage(_map(result.get("usage"))))
    main = max(models, key=lambda name: _int(models[name].get("outputTokens")))
    name = str(models[main].get("canonicalModel") or main)
    rows = (_usage({"inputTokens": 0, **used}, _OF_MODEL) for used in models.values())
    return {**out, "model": name, **_summed(rows)}


def _claude_cost(told: Any) -> dict[str, Any]:
    if told is None:
        return {"cost_usd": None}
    if isinstance(told, bool) or not isinstance(told, int | float) or not 0 <= told < math.inf:
        return {"cost_usd": None, "cost_note": f"the program reports a cost of {told!r:.40}"}
    return {"cost_usd": float(told)}


# tokens neither read from nor written to a cache, those read, those written, and the answer
_OF_MESSAGE = (
    *("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens"),
)
_OF_MODEL = ("inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens", "outputTokens")
# codex counts the whole prompt as input, cached tokens included
_OF_CODEX = ("input_tokens", "cached_input_tokens", "cache_write_input_tokens", "output_tokens")


def _usage(used: Event, names: Sequence[str] = _OF_MESSAGE) -> dict[str, Any]:
    if not used:
        return {}
    plain, read, write, written = (_int(used.get(name)) for name in names)
    return {
        "input_tokens": plain if names == _OF_CODEX else plain + read + write,
        "cached_tokens": read,
        "cache_write_tokens": write,
        "output_tokens": written,
    }


def _usage_of_messages(events: list[Event]) -> dict[str, Any]:
    """Tokens of a run without a result; several lines can belong to one message."""
    by_message = {
        str(message.get("id")): _usage(_map(message.get("usage")))
        for message in (_map(e.get("message")) for e in events if e.get("type") == "assistant")
    }
    return _summed(used for used in by_message.values() if used)


def _summed(rows: Iterable[Mapping[str, float]]) -> dict[str, Any]:
    kept = list(rows)
    return _counts(**{name: sum(row[name] for row in kept) for name in (kept[0] if kept else ())})


_TOOLS = {
    "Bash": "command",
    "Skill": "skill",
    **dict.fromkeys(("Edit", "MultiEdit", "Write", "NotebookEdit"), "file_change"),
    **dict.fromkeys(("WebSearch", "WebFetch"), "web_search"),
    **dict.fromkeys(("Task", "Agent"), "subagent"),
    "TodoWrite": "todo",
}
_READING = ("Read", "Glob", "Grep", "LS", "Skill", "TodoWrite", "WebSearch", "WebFetch")
_NAMED_BY = ("skill", "command", "name", "file_path", "path", "pattern", "query", "url", "prompt")
_BLOCKS = {"text": "message", "thinking": "reasoning", "redacted_thinking": "reasoning"}
_EXIT = re.compile(r"^(?:Error: )?Exit code (\d{1,3})\b")


def _claude_steps(events: list[Event], denied: Collection[str]) -> tuple[Step, ...]:
    steps: list[Step] = []
    at: dict[str, int] = {}  # of the call of a tool
    spent: dict[str, tuple[int, dict[str, Any]]] = {}  # by message: its first step, and its usage
    turn = 1
    for event in events:
        kind, below = event.get("type"), event.get("parent_tool_use_id") is not None
        message = _map(event.get("message"))
        if kind == "assistant":
            first = len(steps)
            for block in _list(message.get("content")) or [{"type": "text"}]:
                if block.get("type") == "tool_use":
                    at[str(block.get("id"))] = len(steps)
                steps.append(_claude_block(block, turn, below, denied))
            if usage := _usage(_map(message.get("usage"))):
                name = str(message.get("id"))
                # lines of one message repeat its usage; the last counts
                spent[name] = (spent[name][0] if name in spent else first, usage)
        elif kind == "user":
            for block in _list(message.get("content")):
                place = at.get(str(block.get("tool_use_id")), -1)
                if place >= 0 and block.get("type") == "tool_result":
                    steps[place] = _ended(steps[place], block)
        elif kind == "result":
            steps.append(Step("result", turn, tool=_text(event.get("subtype"))))
            turn += 1
            if not spent:
                spent["result"] = (len(steps) - 1, _usage(_map(event.get("usage"))))
        elif kind != "stream_event":  # parts of what comes whole
            steps.append(_claude_other(event, turn))
    for where, used in spent.values():
        steps[where] = replace(steps[where], **_spent(used))
    return tuple(steps)


def _claude_block(block: Event, turn: int, below: bool, denied: Collection[str]) -> Step:
    kind = str(block.get("type"))
    if kind != "tool_use":
        told = _text(block.get("text")) or _text(block.get("thinking"))
        known = _BLOCKS.get(kind)
        return Step(known or "other", turn, None if known else kind, told, in_subagent=below)
    tool, given = str(block.get("name")), _map(block.get("input"))
    text = next((str(given[key]) for key in _NAMED_BY if given.get(key)), None)
    kind = _TOOLS.get(tool, "tool")
    reads: bool | None = tool in _READING
    if tool.startswith("mcp__") or kind == "subagent":
        reads = None
    return Step(
        kind,
        turn,
        tool,
        text,
        status="declined" if str(block.get("id")) in denied else "in_progress",
        read_only=is_read_only(text or "") if kind == "command" else reads,
        in_subagent=below,
    )


def _ended(step: Step, block: Event) -> Step:
    if step.status == "declined":
        return step
    content = block.get("content")
    texts = [content] if isinstance(content, str) else [b.get("text") for b in _list(content)]
    failed = bool(block.get("is_error"))
    code: int | None = None
    if step.kind == "command":
        found = _EXIT.match(str(texts[0]) if texts else "")
        code = int(found[1]) if found else (None if failed else 0)
    return replace(step, status="failed" if failed else "completed", exit_code=code)


def _claude_other(event: Event, turn: int) -> Step:
    kind, sub = str(event.get("type")), _text(event.get("subtype"))
    if kind == "system" and sub == "init":
        return Step("session", turn, text=_text(event.get("session_id")))
    if sub == "api_retry" or kind == "rate_limit_event":
        return Step("retry", turn, sub or kind, _text(event.get("error")))
    return Step("other", turn, sub or kind)


def _spent(usage: Mapping[str, float]) -> dict[str, Any]:
    counts = _counts(**usage)
    return {name: counts.get(name) for name in ("input_tokens", "cached_tokens", "output_tokens")}


def _counted(steps: Sequence[Step]) -> dict[str, Any]:
    ran = [step for step in steps if step.kind == "command" and step.status != "declined"]
    retries = sum(s.kind == "retry" and s.tool != "rate_limit_event" for s in steps)
    return {"steps": tuple(steps), "n_commands": len(ran), "n_retries": retries}


# codex exec


def _codex(events: list[Event]) -> Trace:
    turns = [e for e in events if str(e.get("type")).startswith("turn.")]
    done = [e for e in turns if e.get("type") == "turn.completed"]
    items = [_map(e.get("item")) for e in events if e.get("type") == "item.completed"]
    said = [str(i.get("text") or "") for i in items if i.get("type") == "agent_message"]
    steps = _codex_steps(events)
    error = None if done and turns[-1] is done[-1] else _codex_error(events)
    usage = _summed(_usage({"input_tokens": 0, **_map(e.get("usage"))}, _OF_CODEX) for e in done)
    started = next((e for e in events if e.get("type") == "thread.started"), {})
    return Trace(
        kind="codex",
        # a turn that came to its end without a word: the agent's own
        answer=said[-1] if said else None if error else "",
        status="error" if error else "ok",
        error=error,
        request_id=_text(started.get("thread_id")),
        opened=tuple(s.text for s in steps if s.exit_code == 0 and s.text),
        **_counted(steps),
        **usage,
    )


_ITEMS = {
    "agent_message": "message",
    "reasoning": "reasoning",
    "command_execution": "command",
    "file_change": "file_change",
    "mcp_tool_call": "tool",
    "web_search": "web_search",
    "todo_list": "todo",
    "plan": "todo",
    "collab_tool_call": "subagent",
    "error": "error",
}


def _codex_steps(events: list[Event]) -> tuple[Step, ...]:
    steps: list[Step] = []
    at: dict[str, int] = {}  # of an item that has not ended; another turn may number anew
    turn = 0
    for event in events:
        kind, item = str(event.get("type")), _map(event.get("item"))
        turn += kind == "turn.started"
        now = max(turn, 1)
        if item:
            ident = _text(item.get("id")) or f"none, {len(steps)}"
            place = at.setdefault(ident, len(steps))
            began = steps[place].turn if place < len(steps) else now
            steps[place : place + 1] = [_codex_item(item, began)]
            if kind == "item.completed":
                del at[ident]
        elif kind == "thread.started":
            steps.append(Step("session", now, text=_text(event.get("thread_id"))))
        elif kind == "turn.completed":
            used = _usage(_map(event.get("usage")), _OF_CODEX)
            steps.append(Step("turn", now, status="completed", **_spent(used)))
        elif kind == "turn.failed":
            told = _text(_map(event.get("error")).get("message"))
            steps.append(Step("turn", now, text=told, status="failed"))
        elif kind == "error":
            passing = str(event.get("message")).startswith("Reconnecting...")
            told = _text(event.get("message"))
            steps.append(Step("retry" if passing else "error", now, text=told))
        elif kind != "turn.started":
            steps.append(Step("other", now, kind))
    return tuple(steps)


def _codex_item(item: Event, turn: int) -> Step:
    kind = str(item.get("type"))
    known, status = _ITEMS.get(kind, "other"), _text(item.get("status"))
    said = (_text(item.get(key)) for key in ("command", "text", "query", "message"))
    text = next(filter(None, said), None)
    tool = None if known != "other" else kind
    reads: bool | None = None
    if known == "command":
        reads = is_read_only(text or "")
    elif known == "file_change":
        text = "; ".join(str(one.get("path")) for one in _list(item.get("changes"))) or None
        reads = False
    elif known in ("tool", "subagent"):
        text = None
        tool = ".".join(str(item[key]) for key in ("server", "tool") if item.get(key))
    code = whole_number(item.get("exit_code")) if known == "command" else None
    return Step(known, turn, tool, text, status, code, reads)


def _codex_error(events: list[Event]) -> str:
    # an "error" event can be a passing one (a reconnection), so it counts only without an end
    ended = [e for e in events if e.get("type") in ("turn.failed", "error")]
    told = [_map(e.get("error")).get("message") or e.get("message") for e in ended]
    found = [str(message) for message in told if message]
    return found[-1] if found else "the event stream ends without a completed turn"
