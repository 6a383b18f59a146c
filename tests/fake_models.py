"""A loopback model for real agent programs: it streams scripted moves, as two services would.

    with FakeModels([["call", "ls"], ["say", "Done."]]) as server:
        CliAgent.claude(base_url=server.url), CliAgent.codex(base_url=f"{server.url}/v1")

Speaks the Messages API (claude) and the Responses API (codex). A move is ``["say", text]``,
``["shape", object]`` (the answer in the shape that is asked for), ``["call", command]``, ``["tool",
name, input]`` or ``["fail", status]``; each question begins the script anew, each answer to a tool
takes it one move further. Moves may be a function of the prompt.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Moves = Sequence[Sequence[Any]]


class FakeModels:
    """The server; ``asked`` holds path and body of every request."""

    def __init__(self, moves: Moves | Callable[[str], Moves]) -> None:
        self.moves = moves
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def __enter__(self) -> FakeModels:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                self.answer(404, "{}")

            def do_HEAD(self):
                self.answer(200, "")

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or "{}")
                path = self.path.partition("?")[0]
                outer.asked.append((path, body))
                if path.endswith("/count_tokens"):
                    return self.answer(200, '{"input_tokens": 10}')
                speak = {"/v1/messages": _messages, "/v1/responses": _responses}.get(path)
                if speak is None:
                    return self.answer(404, "{}")
                move = outer.move(body)
                if move[0] == "fail":
                    told = {"type": "error", "error": {"type": "fake", "message": "a fake failure"}}
                    return self.answer(move[1], json.dumps(told))
                events = "".join(
                    f"event: {one['type']}\ndata: {json.dumps(one)}\n\n"
                    for one in speak(move, len(outer.asked), body)
                )
                self.answer(200, events, "text/event-stream")

            def answer(self, code, text, kind="application/json"):
                self.send_response(code)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(text.encode())))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()

    def move(self, body: dict[str, Any]) -> Sequence[Any]:
        """Return the move for a request: as many tools as have answered, so many moves further."""
        turns = body.get("messages") or body.get("input") or []
        text = json.dumps(turns)
        n = text.count('"type": "tool_result"') + text.count('"type": "function_call_output"')
        moves = self.moves(text) if callable(self.moves) else self.moves
        return moves[min(n, len(moves) - 1)]


def _messages(move, number, body):
    kind, *more = move
    usage = {"input_tokens": 10, "output_tokens": 0, "cache_read_input_tokens": 5}
    head = {"id": f"msg_{number}", "type": "message", "role": "assistant", "content": []}
    head |= {"model": body["model"], "stop_reason": None, "stop_sequence": None, "usage": usage}
    yield {"type": "message_start", "message": head}
    shaped = [t["name"] for t in body.get("tools", []) if t["name"] == "StructuredOutput"]
    if kind == "say" or (kind == "shape" and not shaped):
        text = more[0] if kind == "say" else json.dumps(more[0])
        block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": text}
        stop = "end_turn"
    else:
        name, given = {
            "call": ("Bash", {"command": more[0], "description": "d"}),
            "shape": ("StructuredOutput", more[0]),
        }.get(kind) or more
        block = {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(given)}
        stop = "tool_use"
    yield {"type": "content_block_start", "index": 0, "content_block": block}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    used = {"output_tokens": 7}
    yield {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": used}
    yield {"type": "message_stop"}


def _responses(move, number, body):
    kind, *more = move
    ident = f"resp_{number}"
    yield {"type": "response.created", "response": {"id": ident}}
    if kind in ("say", "shape"):
        text = more[0] if kind == "say" else json.dumps(more[0])
        item = {"type": "message", "role": "assistant", "id": f"m_{number}"}
        item["content"] = [{"type": "output_text", "text": text}]
    else:
        names = [t.get("name") for t in body.get("tools", [])]
        if kind == "call" and "exec_command" in names:
            name, given = "exec_command", {"cmd": more[0]}
        elif kind == "call":
            name, given = "shell", {"command": ["bash", "-lc", more[0]]}
        else:
            name, given = more
        item = {"type": "function_call", "id": f"f_{number}", "call_id": f"c_{number}"}
        item |= {"name": name, "arguments": json.dumps(given)}
    yield {"type": "response.output_item.done", "item": item}
    used = {"input_tokens": 30, "input_tokens_details": {"cached_tokens": 20}, "output_tokens": 7}
    used |= {"output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 37}
    yield {"type": "response.completed", "response": {"id": ident, "usage": used}}
