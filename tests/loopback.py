"""A loopback endpoint that real `claude` and `codex` programs can be pointed at.

It streams what a script says: a function of the conversation (all its text) and the turn (how many
tool results it holds) that returns parts, each ``("text", words)``, ``("command", line)``,
``("skill", name)`` or ``("shape", JSON)``, an answer in the shape asked for. Only the last
conversation counts; nothing here is a model.
"""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from machine import without

PROGRAMS = Path(__file__).resolve().parent.parent / ".venv" / "programs" / "node_modules" / ".bin"
Part = tuple[str, str]
Script = Callable[[str, int], list[Part]]


def program(name: str) -> str:
    """Return the path of a real program, from `make programs` or the search path."""
    installed = PROGRAMS / name
    if installed.exists() and shutil.which("node"):  # what npm installs is run by node
        return str(installed)
    return shutil.which(name) or without(name, f"no {name} here; `make programs` installs it")


class Loopback:
    def __init__(self, script: Script, *, status: int = 200) -> None:
        self.script, self.status = script, status
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.keys: set[str] = set()
        self.got: list[str] = []  # paths of GET requests, such as attempts to open a websocket

    def __enter__(self) -> Loopback:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers.get("content-length") or 0))
                outer.keys |= {self.headers.get(n, "") for n in ("x-api-key", "authorization")}
                kind, out = outer.answer(self.path.partition("?")[0], raw)
                self.send_response(outer.status if kind == "error" else 200)
                self.send_header("content-type", kind if "/" in kind else "application/json")
                self.send_header("content-length", str(len(out)))
                self.end_headers()
                self.wfile.write(out)

            def do_GET(self) -> None:
                outer.got.append(self.path)
                self.send_response(404)
                self.send_header("content-length", "0")
                self.end_headers()

            do_HEAD = do_GET

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.server.shutdown()
        self.server.server_close()

    def answer(self, path: str, raw: bytes) -> tuple[str, bytes]:
        body = json.loads(raw or b"{}")
        self.asked.append((path, body))
        if path.endswith("/count_tokens"):
            return "application/json", b'{"input_tokens": 10}'
        if self.status != 200:
            kind = {401: "authentication_error", 429: "rate_limit_error"}.get(self.status, "error")
            fault = {"type": "error", "error": {"type": kind, "message": "by schedule"}}
            return "error", json.dumps(fault).encode()
        if path.endswith("/messages"):
            return self._message(body)
        if path.endswith("/chat/completions"):
            return "application/json", json.dumps(self._completion(body)).encode()
        if path.endswith("/responses"):
            return "text/event-stream", _stream(_responses(self._parts(body, "input"), body))
        return "application/json", b"{}"

    def _parts(self, body: dict[str, Any], key: str) -> list[Part]:
        items = body.get(key) or []
        text = json.dumps(items)
        turn = sum(map(text.count, ('"tool_result"', '_call_output"', '"role": "tool"')))
        return self.script(text, turn)

    def _completion(self, body: dict[str, Any]) -> dict[str, Any]:
        parts = self._parts(body, "messages")
        calls = [
            {"id": f"c{i}", "type": "function",
             "function": {"name": "skill", "arguments": json.dumps({"command": said})}}
            for i, (kind, said) in enumerate(parts) if kind == "skill"
        ]  # fmt: skip
        text = "".join(said for kind, said in parts if kind == "text")
        message = {"role": "assistant", "content": text, "tool_calls": calls or None}
        choice = {
            "index": 0,
            "message": message,
            "finish_reason": "tool_calls" if calls else "stop",
        }
        usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
        return {"id": "r", "object": "chat.completion", "created": 0, "model": body["model"],
                "choices": [choice], "usage": usage}  # fmt: skip

    def _message(self, body: dict[str, Any]) -> tuple[str, bytes]:
        parts = self._parts(body, "messages") if body.get("tools") else [("text", "{}")]
        shaped = any(tool["name"] == "StructuredOutput" for tool in body.get("tools") or ())
        parts = [("text", said) if kind == "shape" and not shaped else (kind, said)
                 for kind, said in parts]  # fmt: skip
        blocks = [_block(part, i) for i, part in enumerate(parts)]
        stop = "tool_use" if any(b["type"] == "tool_use" for b in blocks) else "end_turn"
        usage = {"input_tokens": 100, "output_tokens": 20, "cache_read_input_tokens": 40}
        message = {
            "id": f"msg_{len(self.asked)}", "type": "message", "role": "assistant",
            "model": body["model"], "content": blocks, "stop_reason": stop,
            "stop_sequence": None, "usage": {**usage, "cache_creation_input_tokens": 0},
        }  # fmt: skip
        if not body.get("stream"):
            return "application/json", json.dumps(message).encode()
        return "text/event-stream", _stream(_message_events(message))


def _block(part: Part, number: int) -> dict[str, Any]:
    kind, said = part
    if kind == "text":
        return {"type": "text", "text": said}
    name, given = ("Skill", {"skill": said}) if kind == "skill" else ("Bash", {"command": said})
    if kind == "shape":
        name, given = "StructuredOutput", json.loads(said)
    return {"type": "tool_use", "id": f"toolu_{number}_{abs(hash(part))}", "name": name,
            "input": given}  # fmt: skip


def _message_events(message: dict[str, Any]) -> list[dict[str, Any]]:
    opening = {**message, "content": [], "stop_reason": None}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": opening}]
    for i, block in enumerate(message["content"]):
        if block["type"] == "text":
            empty, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            given = json.dumps(block["input"])
            empty = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": given}
        events += [
            {"type": "content_block_start", "index": i, "content_block": empty},
            {"type": "content_block_delta", "index": i, "delta": delta},
            {"type": "content_block_stop", "index": i},
        ]
    ended = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    usage = {"output_tokens": message["usage"]["output_tokens"]}
    return [*events, {"type": "message_delta", "delta": ended, "usage": usage},
            {"type": "message_stop"}]  # fmt: skip


def _responses(parts: list[Part], body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the events of the Responses API that codex reads."""
    tools = {tool.get("name"): tool for tool in body.get("tools") or []}
    items: list[dict[str, Any]] = []
    for i, (kind, said) in enumerate(parts):
        if kind in ("text", "shape"):
            content = [{"type": "output_text", "text": said, "annotations": []}]
            items.append({"type": "message", "id": f"m{i}", "role": "assistant",
                          "status": "completed", "content": content})  # fmt: skip
            continue
        name = next((n for n in ("exec_command", "shell_command", "shell") if n in tools), "shell")
        given = {"cmd": said} if name == "exec_command" else {"command": said}
        if name == "shell":
            given = {"command": ["bash", "-lc", said]}
        items.append({"type": "function_call", "id": f"f{i}", "call_id": f"call_{i}_{len(said)}",
                      "name": name, "arguments": json.dumps(given)})  # fmt: skip
    usage = {
        "input_tokens": 100, "input_tokens_details": {"cached_tokens": 40}, "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 120,
    }  # fmt: skip
    whole = {"id": "r1", "object": "response", "status": "completed", "output": items}
    events: list[dict[str, Any]] = [{"type": "response.created", "response": {"id": "r1"}}]
    for i, item in enumerate(items):
        events.append({"type": "response.output_item.done", "output_index": i, "item": item})
    return [*events, {"type": "response.completed", "response": {**whole, "usage": usage}}]


def _stream(events: list[dict[str, Any]]) -> bytes:
    lines = (f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events)
    return "".join(lines).encode()
