"""Read the event stream in which a command-line agent reports its work.

Two formats are read, ``claude -p --output-format stream-json`` and ``codex exec --json``; any other
output counts as the answer itself. The events are one per line, or one JSON array. Every release
adds events, so an unknown event becomes a step of the kind ``other``; lines that are not JSON are
skipped. An answer can contain lines that look like events, so the format is recognised only by the
command, by the first event of the output, or by an output that consists of one result of ``claude
-p --output-format json``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

from skillcomp.io.files import (
    BEYOND,
    JsonObject,
    as_number,
    as_object,
    list_of_objects,
    object_at,
    objects_at,
    whole_content,
    whole_number,
)
from skillcomp.io.shell_commands import is_read_only, shows_skill
from skillcomp.records import AttemptStatus, Record

Event = JsonObject
_Fields = dict[str, Any]  # Fields of a `Trace` or a `Step`, by name.
Kind = Literal["claude", "codex", "text"]
# Statuses of replies that did not end normally, by the reason to stop that a service, a program or
# Inspect reports; below it, the reasons of replies that ended normally.
STOPPED: dict[str, AttemptStatus] = {
    "refusal": "refused",
    "content_filter": "refused",
    "max_tokens": "truncated",
    "length": "truncated",
    "model_length": "truncated",
    "model_context_window_exceeded": "truncated",
    "pause_turn": "paused",
    # limits on turns and budget, which are set by Claude Code and not by the model
    "error_max_turns": "truncated",
    "error_max_budget_usd": "truncated",
}
ENDED = ("end_turn", "stop_sequence", "stop")
# Claude Code writes this text instead of an answer that is too long.
_TOO_LONG = re.compile(r"exceeded the \S+ output token maximum")


@dataclass(frozen=True)
class Step:
    """One step of a program's work, such as a command or a message.

    Attributes
    ----------
    kind : str
        ``session``, ``turn`` (the end of a turn), ``result``, ``message``, ``reasoning``,
        ``command``, ``skill``, ``tool``, ``file_change``, ``web_search``, ``todo``, ``subagent``,
        ``retry``, ``error``, or ``other`` for an unknown event.
    turn : int
        Number of the turn, counted from 1.
    tool : str or None
        The tool's name or, for an unknown event, the type of the event.
    text : str or None
        The command, skill, file, query or message.
    status : str or None
        ``completed``, ``failed``, ``declined``, or ``in_progress`` if no end was reported.
    exit_code : int or None
        The exit code of a command, if reported.
    read_only : bool or None
        True if the step is known to write nothing, False if it may write. None for tools of MCP
        servers, for subagents, and for steps that never write, such as messages.
    in_subagent : bool
        Whether a subagent took the step.
    input_tokens, cached_tokens, output_tokens : int or None
        Token counts reported with this step. Each report is attached to one step only, so the
        counts can be summed.
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


class Outcome(Record):
    """How a prompt was answered: the fields that `Trace` and `Reply` share."""

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


class Trace(Outcome):
    """The contents of a program's output.

    Attributes
    ----------
    kind : str
        ``claude``, ``codex`` or ``text``, which has no events.
    answer : str or None
        The final answer.
    status : str
        As in `Reply`.
    error, stop_reason, model, request_id : str or None
        As in `Reply`; the id of the session or thread serves as the id of the request.
    fatal : bool
        Whether the service refused permission or payment.
    input_tokens, cached_tokens, cache_write_tokens, output_tokens : int or None
        Token counts over all models and turns; input tokens include the cached ones.
    cost_usd : float or None
        The program's own estimate; None if there is no estimate or it cannot be used. For an
        estimate that cannot be used, ``cost_note`` gives the reason.
    n_commands : int or None
        Number of shell commands run, without those that were denied; None for text.
    n_retries : int
        Number of times that the program repeated a request to its service.
    called : tuple of str
        Skills that were called by name. Calls that were reported as failed or declined are left
        out.
    opened : tuple of str
        Paths of the files that were read and texts of the commands that were run. Steps that
        were reported as failed or declined are left out.
    skills : tuple of str or None
        The skills that the program lists as available; None if it lists none.
    steps : tuple of Step
        The steps in order; empty for text.
    """

    kind: str = "text"
    called: tuple[str, ...] = ()
    opened: tuple[str, ...] = ()
    skills: tuple[str, ...] | None = None
    steps: tuple[Step, ...] = ()

    def loaded(self, slug: str) -> bool | None:
        """Return whether the agent loaded a skill; None if the output is plain text.

        A skill is loaded if it was called by its name, with or without the name of a plugin before
        it, or if its SKILL.md was read or printed. A step that was reported as failed does not
        count, nor does a command that only names the file (``ls``, ``rm``).
        """
        if self.kind == "text":
            return None
        by_name = any(name.split(":")[-1] == slug for name in self.called)
        return by_name or any(shows_skill(text, slug) for text in self.opened)


def kind_of(command: Sequence[str]) -> Kind | None:
    """Return the output format that a command requests, or None if the command does not name one.

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
        kinds: dict[str, Kind] = {"stream-json": "claude", "json": "claude", "text": "text"}
        return kinds.get(formats[-1])
    return "codex" if "exec" in command and "--json" in command else None


def read_trace(output: str, kind: Kind | None = None) -> Trace:
    """Read the output of a program into a `Trace`; if ``kind`` is None, recognise the format.

    Examples
    --------
    >>> read_trace('{"type": "thread.started", "thread_id": "t"}').error
    'the event stream ends without a completed turn'
    >>> read_trace('An event: {"type": "result"}').kind
    'text'
    """
    kind = kind or _kind_of_output(output)
    text = output.strip()
    if kind == "text":
        if text:
            return Trace(answer=text)
        return Trace(status="error", error="the program wrote no answer")
    # str.splitlines also splits at characters that may occur inside an event
    lines = output.split("\n")
    events = _parse_json(output) or [event for line in lines for event in _parse_json(line)]
    if not events:
        error = "the program wrote no event, but something else" if text else "it wrote nothing"
        return Trace(kind=kind, status="error", error=error)
    return _claude_trace(events) if kind == "claude" else _codex_trace(events)


def is_result(output: str) -> bool:
    """Return whether an output consists of one JSON object of the type ``result``."""
    events = _parse_json(output)
    return len(events) == 1 and events[0].get("type") == "result"


def _parse_json(text: str) -> list[Event]:
    """Return the objects of a JSON array, or one object; an empty list for any other text."""
    try:
        content = json.loads(text) if text.lstrip().startswith(("{", "[")) else None
        # A JSON escape may be a lone surrogate, and no table can hold lone surrogates.
        content = whole_content(content) if "\\u" in text else content
    except (ValueError, RecursionError):
        return []
    return list_of_objects(content if isinstance(content, list) else [content])


def _kind_of_output(output: str) -> Kind:
    if is_result(output) and _text_at(_parse_json(output)[0], "subtype"):
        return "claude"
    first = next(iter(_parse_json(output) or _parse_json(output.lstrip().partition("\n")[0])), {})
    if first.get("type") == "system" and _text_at(first, "session_id"):
        return "claude"
    if first.get("type") == "thread.started" and _text_at(first, "thread_id"):
        return "codex"
    return "text"


def _of_type(events: Iterable[Event], *kinds: str) -> list[Event]:
    return [event for event in events if event.get("type") in kinds]


def _text_at(event: Event, key: str) -> str | None:
    value = event.get(key)
    return value if isinstance(value, str) and value else None


def _count_or_nan(value: Any) -> float:
    """Return a count: 0 if it is missing; NaN if it is malformed, so that sums become NaN."""
    count = 0 if value is None else whole_number(value)
    return math.nan if count is None else count


def _claude_trace(events: list[Event]) -> Trace:
    init = next((e for e in events if e.get("subtype") == "init"), {})
    result = ({}, *_of_type(events, "result"))[-1]
    denied = {str(d.get("tool_use_id")) for d in objects_at(result, "permission_denials")}
    steps = _claude_steps(events, denied)
    opened = [s for s in steps if s.status in ("completed", "in_progress")]
    skills = init.get("skills")
    models = {name: as_object(used) for name, used in object_at(result, "modelUsage").items()}
    n_main = object_at(result, "usage").get("output_tokens")
    own = [e for e in _of_type(events, "assistant") if e.get("parent_tool_use_id") is None]
    # The model that wrote the answer, not one that only helped, comes last: that of the last
    # message of the main agent, before that of the session, that with as many output tokens as the
    # main loop (``usage``), and that with the most.
    names = [
        *sorted(models, key=lambda name: _count_or_nan(models[name].get("outputTokens"))),
        *(name for name, used in models.items() if used.get("outputTokens") == n_main),
        _text_at(init, "model"),
        *(_text_at(object_at(e, "message"), "model") for e in own),
    ]
    # a message that the program wrote itself has the model "<synthetic>"
    model = next((name for name in reversed(names) if name and name[0] != "<"), None)
    fields: _Fields = {"model": _text_at(models.get(model or "", {}), "canonicalModel") or model}
    if result:
        fields |= {**_claude_usage(result), **_claude_outcome(result)}
    else:
        error = "the event stream ends without a result"
        counts = _token_counts(_usage_of_messages(events).values())
        fields |= {**counts, "status": "error", "error": error}
    return Trace(
        kind="claude",
        request_id=_text_at(init, "session_id"),
        called=tuple(s.text.lstrip("/") for s in opened if s.text and s.tool == "Skill"),
        opened=tuple(s.text for s in opened if s.text and s.tool in ("Read", "Bash")),
        skills=tuple(str(as_object(s).get("name", s)) for s in skills)
        if isinstance(skills, list)
        else None,
        **_step_counts(steps),
        **fields,
    )


def _claude_outcome(result: Event) -> _Fields:
    text, stop = result.get("result"), _text_at(result, "stop_reason")
    # a wrapper script around Claude Code may omit the ``subtype`` of the result
    subtype = str(result.get("subtype", "success" if isinstance(text, str) else None))
    out = {"stop_reason": stop or subtype}
    # "success" only means that the program ended normally; is_error shows an error of the API
    if result.get("is_error") or subtype != "success":
        errors = result.get("errors")
        messages = [str(e) for e in errors] if isinstance(errors, list) else []
        messages += [str(text)] if text else []
        status = STOPPED.get(subtype) or STOPPED.get(str(stop)) or "error"
        if _TOO_LONG.search(str(text or "")):
            status = "truncated"
        fatal = result.get("api_error_status") in (401, 402, 403)
        return out | {"status": status, "error": "; ".join(messages) or subtype, "fatal": fatal}
    structured = result.get("structured_output")
    if structured is None and isinstance(text, str | None):
        answer = text or ""
    else:
        answer = json.dumps(text if structured is None else structured)
    status = STOPPED.get(str(stop), "ok")
    if not answer and status == "ok" and stop not in ENDED:
        return out | {"status": "error", "error": "no answer, and no normal stop is reported"}
    return out | {"status": status, "answer": answer, "error": None}


def _claude_usage(result: Event) -> _Fields:
    """Return the tokens of all models together, also those of subagents, and the total cost."""
    models = {key: as_object(used) for key, used in object_at(result, "modelUsage").items()}
    cost = result.get("total_cost_usd")
    number = as_number(cost)
    out: _Fields = {"cost_usd": None}
    if number is not None and 0 <= number < BEYOND:
        out = {"cost_usd": float(number)}
    elif cost is not None:
        out["cost_note"] = f"the program reports a cost of {cost!r:.40}"
    if any(used.get("costBasis") == "unknown" for used in models.values()):
        out = {"cost_usd": None, "cost_note": "the program knows no price for a model it used"}
    if not models:
        return out | _token_counts([object_at(result, "usage")])
    reports = [{"inputTokens": 0, **used} for used in models.values()]
    return {**out, **_token_counts(reports, _OF_MODEL)}


# keys of four token counts: input without cache, input read from the cache, input written to the
# cache, and output
_USAGE = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")
_OF_MODEL = ("inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens", "outputTokens")
# in events of codex, input_tokens includes the cached tokens
_OF_CODEX = ("input_tokens", "cached_input_tokens", "cache_write_input_tokens", "output_tokens")


def _token_counts(reports: Iterable[Event], names: Sequence[str] = _USAGE) -> _Fields:
    """Return the sums of the token counts in reports; a sum with a malformed count is None.

    Empty reports do not count. Without reports, there are no counts.
    """
    rows = [[_count_or_nan(used.get(name)) for name in names] for used in reports if used]
    if not rows:
        return {}
    plain, read, write, out = (sum(column) for column in zip(*rows, strict=True))
    return {
        "input_tokens": whole_number(plain if names == _OF_CODEX else plain + read + write),
        "cached_tokens": whole_number(read),
        "cache_write_tokens": whole_number(write),
        "output_tokens": whole_number(out),
    }


def _usage_of_messages(events: Iterable[Event]) -> dict[str, Event]:
    """Map the id of each message of claude to its usage.

    Several lines can report the usage of one message; only the last report counts.
    """
    messages = [object_at(e, "message") for e in _of_type(events, "assistant")]
    return {str(m.get("id")): usage for m in messages if (usage := object_at(m, "usage"))}


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
    at = {}  # Maps the id of a tool call to the index of its step.
    first_steps: dict[str, int] = {}  # Maps the id of a message to the index of its first step.
    spent = _usage_of_messages(events)
    turn = 1
    for event in events:
        kind, below = event.get("type"), event.get("parent_tool_use_id") is not None
        message = object_at(event, "message")
        if kind == "assistant":
            first_steps.setdefault(str(message.get("id")), len(steps))
            for block in objects_at(message, "content") or [{"type": "text"}]:
                if block.get("type") == "tool_use":
                    at[str(block.get("id"))] = len(steps)
                steps.append(_claude_block(block, turn, below, denied))
        elif kind == "user":
            for block in objects_at(message, "content"):
                place = at.get(str(block.get("tool_use_id")), -1)
                if place >= 0 and block.get("type") == "tool_result":
                    steps[place] = _with_result(steps[place], block)
        elif kind == "result":
            steps.append(Step("result", turn, tool=_text_at(event, "subtype")))
            turn += 1
            if not spent:
                first_steps["result"] = len(steps) - 1
                spent = {"result": object_at(event, "usage")}
        elif kind != "stream_event":  # skip fragments of a message; the whole message follows
            steps.append(_claude_other(event, turn))
    for name, usage in spent.items():
        place = first_steps[name]
        steps[place] = replace(steps[place], **_step_tokens(usage))
    return tuple(steps)


def _claude_block(block: Event, turn: int, below: bool, denied: Collection[str]) -> Step:
    kind = str(block.get("type"))
    if kind != "tool_use":
        text = _text_at(block, "text") or _text_at(block, "thinking")
        mapped = _BLOCKS.get(kind)
        return Step(mapped or "other", turn, None if mapped else kind, text, in_subagent=below)
    tool, arguments = str(block.get("name")), object_at(block, "input")
    text = next((str(arguments[key]) for key in _NAMED_BY if arguments.get(key)), None)
    kind = _TOOLS.get(tool, "tool")
    reads = None if tool.startswith("mcp__") or kind == "subagent" else tool in _READING
    if kind == "command":
        reads = is_read_only(text or "")
    status = "declined" if str(block.get("id")) in denied else "in_progress"
    return Step(kind, turn, tool, text, status, read_only=reads, in_subagent=below)


def _with_result(step: Step, block: Event) -> Step:
    if step.status == "declined":
        return step
    body = block.get("content")
    texts = [body] if isinstance(body, str) else [b.get("text") for b in list_of_objects(body)]
    failed = bool(block.get("is_error"))
    code = None
    if step.kind == "command":
        match = _EXIT.match(str(texts[0]) if texts else "")
        code = int(match[1]) if match else (None if failed else 0)
    return replace(step, status="failed" if failed else "completed", exit_code=code)


def _claude_other(event: Event, turn: int) -> Step:
    kind, sub = str(event.get("type")), _text_at(event, "subtype")
    if kind == "system" and sub == "init":
        return Step("session", turn, text=_text_at(event, "session_id"))
    if sub == "api_retry" or kind == "rate_limit_event":
        return Step("retry", turn, sub or kind, _text_at(event, "error"))
    return Step("other", turn, sub or kind)


def _step_tokens(usage: Event, names: Sequence[str] = _USAGE) -> _Fields:
    counts = _token_counts([usage], names)
    return {name: counts.get(name) for name in ("input_tokens", "cached_tokens", "output_tokens")}


def _step_counts(steps: Sequence[Step]) -> _Fields:
    ran = [step for step in steps if step.kind == "command" and step.status != "declined"]
    retries = sum(s.kind == "retry" and s.tool != "rate_limit_event" for s in steps)
    return {"steps": tuple(steps), "n_commands": len(ran), "n_retries": retries}


def _codex_trace(events: list[Event]) -> Trace:
    turns = [e for e in events if str(e.get("type")).startswith("turn.")]
    done = _of_type(turns, "turn.completed")
    items = [object_at(e, "item") for e in _of_type(events, "item.completed")]
    answers = [str(i.get("text") or "") for i in _of_type(items, "agent_message")]
    steps = _codex_steps(events)
    error = None
    is_complete = bool(done) and turns[-1] is done[-1]
    counts = _token_counts([{"input_tokens": 0, **object_at(e, "usage")} for e in done], _OF_CODEX)
    # a turn without a message and without tokens is one that the service refused, as at a limit
    if not is_complete or not (answers or counts["input_tokens"] or counts["output_tokens"]):
        # an "error" event may be temporary (a reconnection), so an answered turn has no error
        ended = [*_of_type(items, "error"), *_of_type(events, "turn.failed", "error")]
        messages = [object_at(e, "error").get("message") or e.get("message") for e in ended]
        none = "the event stream ends without a completed turn"
        none = "the turn has no message and no tokens" if is_complete else none
        error = str(next(filter(None, reversed(messages)), none))
    started = (*_of_type(events, "thread.started"), {})[0]
    return Trace(
        kind="codex",
        # a turn that used tokens and gave no message counts as an empty answer, not as an error
        answer=answers[-1] if answers else None if error else "",
        status="error" if error else "ok",
        error=error,
        request_id=_text_at(started, "thread_id"),
        opened=tuple(s.text for s in steps if s.exit_code == 0 and s.text),
        **_step_counts(steps),
        **counts,
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
    # maps the id of each unfinished item to the index of its step; a later turn may reuse an id
    at: dict[str, int] = {}
    turn = 0
    for event in events:
        kind, item = str(event.get("type")), object_at(event, "item")
        turn += kind == "turn.started"
        now = max(turn, 1)
        if item:
            ident = _text_at(item, "id") or f"none, {len(steps)}"
            place = at.setdefault(ident, len(steps))
            began = steps[place].turn if place < len(steps) else now
            steps[place : place + 1] = [_codex_item(item, began)]
            if kind == "item.completed":
                del at[ident]
        elif kind == "thread.started":
            steps.append(Step("session", now, text=_text_at(event, "thread_id")))
        elif kind == "turn.completed":
            used = _step_tokens(object_at(event, "usage"), _OF_CODEX)
            steps.append(Step("turn", now, status="completed", **used))
        elif kind == "turn.failed":
            message = _text_at(object_at(event, "error"), "message")
            steps.append(Step("turn", now, text=message, status="failed"))
        elif kind == "error":
            passing = str(event.get("message")).startswith("Reconnecting...")
            message = _text_at(event, "message")
            steps.append(Step("retry" if passing else "error", now, text=message))
        elif kind != "turn.started":
            steps.append(Step("other", now, kind))
    return tuple(steps)


def _codex_item(item: Event, turn: int) -> Step:
    kind = str(item.get("type"))
    step_kind, status = _ITEMS.get(kind, "other"), _text_at(item, "status")
    texts = (_text_at(item, key) for key in ("command", "text", "query", "message"))
    text = next(filter(None, texts), None)
    tool = None if step_kind != "other" else kind
    reads = None
    if step_kind == "command":
        reads = is_read_only(text or "")
    elif step_kind == "file_change":
        text = "; ".join(str(c.get("path")) for c in objects_at(item, "changes")) or None
        reads = False
    elif step_kind in ("tool", "subagent"):
        text = None
        tool = ".".join(str(item[key]) for key in ("server", "tool") if item.get(key))
    code = whole_number(item.get("exit_code")) if step_kind == "command" else None
    return Step(step_kind, turn, tool, text, status, code, reads)
