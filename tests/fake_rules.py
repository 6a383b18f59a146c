"""The rules of the Messages API that a fake must keep: what is refused, cached and said.

From the documented behaviour of API version 2026-10-21.
"""

from __future__ import annotations

import hashlib
import html
import json
import re
import time
from dataclasses import dataclass, field
from typing import Any

VERSION = "2026-10-21"
CUSTOM_ID = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")
EFFORTS = ("low", "medium", "high", "xhigh", "max")
PARAMETERS = (
    *("max_tokens", "messages", "model", "cache_control", "container", "diagnostics"),
    *("inference_geo", "metadata", "output_config", "service_tier", "speed", "stop_sequences"),
    *("stream", "system", "thinking", "tool_choice", "tools", "user_profile_id", "workspace_id"),
)
# Smallest prefix that is cached, in tokens; None stands for the models with no confirmed value.
CACHE_MINIMUM = {
    "claude-opus-5-5": 1024,
    "claude-sonnet-5-5": 1024,
    "claude-haiku-5-5": 512,
    "claude-haiku-4-5": 4096,
}
ALWAYS_THINKING = ("fable-5", "mythos-5", "opus-5-5")
BUDGETED = ("haiku-4-5", "opus-4-6", "opus-4-5", "sonnet-4-6", "sonnet-4-5")
_SECONDS = {"5m": 300.0, "1h": 3600.0}
_UNSUPPORTED = ("minimum", "maximum", "minLength", "maxLength", "pattern", "multipleOf", "oneOf")


class RefusedError(Exception):
    """The request is answered with an error."""

    def __init__(self, status: int, kind: str, message: str, **details: Any) -> None:
        super().__init__(message)
        self.status, self.kind, self.details = status, kind, details


def bad(message: str) -> RefusedError:
    return RefusedError(400, "invalid_request_error", message)


def _is(model: str, families: tuple[str, ...]) -> bool:
    name = model.removeprefix("claude-")
    return any(name == family or name.startswith(family + "-2") for family in families)


def check_body(body: Any, *, batch: bool = False) -> None:
    """Raise what the real service would answer to a body that it refuses."""
    if not isinstance(body, dict):
        raise bad("body: Input should be a valid dictionary")
    for name in body:
        if name not in PARAMETERS:
            raise bad(f"{name}: Extra inputs are not permitted")
    for name in ("model", "messages", "max_tokens"):
        if name not in body:
            raise bad(f"{name}: Field required")
    model = body["model"]
    if re.sub(r"-\d{8}$", "", model) not in CACHE_MINIMUM:
        raise RefusedError(404, "not_found_error", f"model: {model}")
    _check_messages(body["messages"])
    _check_system(body.get("system"))
    output = body.get("output_config") or {}
    _check_output(output)
    _check_thinking(model, body.get("thinking"), output.get("effort"), body["max_tokens"])
    low = 1 if batch or output.get("format") else 0
    limit = body["max_tokens"]
    if not isinstance(limit, int) or isinstance(limit, bool) or not low <= limit <= 128_000:
        raise bad(f"max_tokens: {limit} is not between {low} and 128000")
    breakpoints = json.dumps(body).count('"cache_control"')
    if breakpoints > 4:
        raise bad(f"A maximum of 4 blocks with cache_control may be provided. Found {breakpoints}.")


def _check_messages(messages: Any) -> None:
    if not isinstance(messages, list) or not messages:
        raise bad("messages: at least one message is required")
    for index, message in enumerate(messages):
        extra = set(message) - {"role", "content"}
        if extra:
            raise bad(f"messages.{index}.{extra.pop()}: Extra inputs are not permitted")
        if message.get("role") not in ("user", "assistant"):
            raise bad(f"messages.{index}.role: Input should be 'user' or 'assistant'")
        content = message.get("content")
        if content in ("", []) or not isinstance(content, str | list):
            raise bad(f"messages.{index}.content: Input should be a non-empty string or list")
    if messages[0]["role"] != "user":
        raise bad("messages: first message must use the user role")
    if messages[-1]["role"] == "assistant":
        raise bad("This model does not support assistant message prefill.")


def _check_system(system: Any) -> None:
    if system is None or isinstance(system, str):
        return
    for index, block in enumerate(system):
        if block.get("type") != "text" or not block.get("text"):
            raise bad(f"system.{index}: text content blocks must be non-empty")
        mark = block.get("cache_control")
        if mark and (mark.get("type") != "ephemeral" or mark.get("ttl", "5m") not in _SECONDS):
            raise bad(f"system.{index}.cache_control: Input should be 5m or 1h")


def _check_output(output: dict[str, Any]) -> None:
    for name in output:
        if name not in ("effort", "format"):
            raise bad(f"output_config.{name}: Extra inputs are not permitted")
    if "effort" in output and output["effort"] not in EFFORTS:
        raise bad(f"output_config.effort: Input should be one of {', '.join(EFFORTS)}")
    form = output.get("format")
    if form is None:
        return
    if form.get("type") != "json_schema" or "schema" not in form:
        raise bad("output_config.format: schema: Field required")
    _check_schema(form["schema"], "output_config.format.schema")


def _check_schema(schema: Any, place: str) -> None:
    if isinstance(schema, list):
        for part in schema:
            _check_schema(part, place)
    if not isinstance(schema, dict):
        return
    for word in _UNSUPPORTED:
        if word in schema and not isinstance(schema[word], dict):
            raise bad(f"{place}: '{word}' is not supported")
    if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
        raise bad(f"{place}: for 'object' type, 'additionalProperties' must be explicitly false")
    for name, part in schema.items():
        _check_schema(part, f"{place}.{name}")


def _check_thinking(model: str, thinking: Any, effort: str | None, max_tokens: int) -> None:
    if thinking is None:
        return
    kind = thinking.get("type")
    if kind not in ("adaptive", "enabled", "disabled", "between_tools"):
        raise bad("thinking.type: Input should be adaptive, enabled, disabled or between_tools")
    if kind == "disabled" and _is(model, (*ALWAYS_THINKING, "fable-5-1", "sonnet-5-5")):
        raise bad("thinking.type: disabled is not supported by this model")
    if kind == "disabled" and _is(model, ("haiku-5-5",)) and effort in ("xhigh", "max"):
        raise bad("thinking.type: disabled is not supported at this effort")
    if kind == "between_tools" and not _is(model, ("sonnet-5-5",)):
        raise bad("thinking.type: between_tools is not supported by this model")
    if kind == "adaptive" and _is(model, ("haiku-4-5", "opus-4-5", "sonnet-4-5")):
        raise bad("thinking.type: adaptive is not supported by this model")
    if kind == "enabled":
        if not _is(model, BUDGETED):
            raise bad("thinking.type: enabled is not supported by this model; use adaptive")
        if not 1024 <= thinking.get("budget_tokens", 0) < max_tokens:
            raise bad("thinking.budget_tokens: Input should be at least 1024 and below max_tokens")


def count(value: Any) -> int:
    """Tokens of a text or of blocks: four characters each, which is near enough."""
    if value is None:
        return 0
    text = value if isinstance(value, str) else json.dumps(value)
    return (len(text) + 3) // 4


@dataclass
class Cache:
    """Prefixes that the service holds, with the time of their end."""

    entries: dict[str, float] = field(default_factory=dict)

    def book(self, body: dict[str, Any]) -> tuple[int, int, int, list[tuple[str, float]]]:
        """Return tokens read, written for 5 minutes and for 1 hour, and what is to be stored."""
        blocks: list[Any] = [*body.get("tools", [])]
        system = body.get("system")
        blocks += [{"type": "text", "text": system}] if isinstance(system, str) else system or []
        for message in body["messages"]:
            content = message["content"]
            blocks += [content] if isinstance(content, str) else content
        format_ = (body.get("output_config") or {}).get("format")
        digest = hashlib.sha256(json.dumps([body["model"], format_]).encode())
        size, read = 0, 0
        pending: list[tuple[str, float, int, str]] = []
        for block in blocks:
            bare = dict(block) if isinstance(block, dict) else {"text": block}
            mark = bare.pop("cache_control", None)
            digest.update(json.dumps(bare, sort_keys=True).encode())
            size += count(bare.get("text") or bare)
            if mark is None:
                continue
            ttl = mark.get("ttl", "5m")
            key = digest.hexdigest()
            if size < CACHE_MINIMUM[re.sub(r"-\d{8}$", "", body["model"])]:
                continue
            if self.entries.get(key, 0.0) > time.monotonic():
                read, pending = size, []
                self.entries[key] = time.monotonic() + _SECONDS[ttl]
            else:
                pending.append((key, _SECONDS[ttl], size, ttl))
        wrote = max((size for *_, size, _ in pending), default=read) - read
        hour = wrote if pending and pending[-1][3] == "1h" else 0
        return read, wrote - hour, hour, [(key, life) for key, life, *_ in pending]

    def store(self, entries: list[tuple[str, float]]) -> None:
        for key, life in entries:
            self.entries[key] = time.monotonic() + life


def text_of(body: dict[str, Any], part: str) -> str:
    """Return all text of the system part or of the messages."""
    if part == "system":
        system = body.get("system") or ""
        return system if isinstance(system, str) else "\n".join(b["text"] for b in system)
    content = [message["content"] for message in body["messages"]]
    return "\n".join(
        c if isinstance(c, str) else "".join(b.get("text", "") for b in c) for c in content
    )


def answer(body: dict[str, Any]) -> str:
    """Return a text that depends on nothing but the prompt; valid grader JSON where asked for."""
    prompt = text_of(body, "messages")
    seed = hashlib.sha256((text_of(body, "system") + prompt).encode()).hexdigest()
    if (body.get("output_config") or {}).get("format"):
        return json.dumps(grade(prompt))
    first = " ".join(prompt.split()[:8])
    return f"On '{first}': the deciding point is {seed[:8]}, and it holds because of {seed[8:16]}."


def grade(prompt: str) -> dict[str, Any]:
    """Return well-formed verdicts on the item of a grader's prompt, decided by a hash."""

    def inside(tag: str) -> str:
        found = re.search(rf"<{tag}[^>]*>\n?(.*?)\n?</{tag}>", prompt, re.DOTALL)
        return html.unescape(found.group(1)) if found else ""

    item = re.search(r'<item id="([^"]*)"', prompt)
    evidence = "evidence_quote" in prompt
    copied = re.search(r'<overlap-check [^>]*passed="false"', prompt) is not None
    quote = " ".join(inside("agent-answer").split()[:6])
    rows = []
    for found in re.finditer(r'<behavior id="([^"]*)" kind="([^"]*)"', prompt):
        name = html.unescape(found.group(1))
        odd = int(hashlib.sha256((name + quote).encode()).hexdigest(), 16) % 3
        passed = not copied if "verbatim" in name else bool(odd)
        row = {"id": name}
        if evidence:
            row |= {"evidence_quote": quote, "rationale": "The span shows it." if passed else
                    "The span does not show it."}  # fmt: skip
        rows.append(row | {"verdict": "PASS" if passed else "FAIL"})
    told: dict[str, Any] = {"item": item.group(1) if item else "", "behavior_verdicts": rows}
    if evidence:
        passed = all(row["verdict"] == "PASS" for row in rows)
        told["dimension_verdict"] = "PASS" if passed else "FAIL"
    return told
