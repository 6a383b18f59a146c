"""A loopback endpoint for chat completions, small: what `OpenAIAgent` relies on and no more."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from fake_anthropic import KEY

_KNOWN = {
    *("model", "messages", "max_completion_tokens", "max_tokens", "response_format", "seed"),
    *("reasoning_effort", "temperature"),
}


class FakeOpenAI:
    def __init__(
        self, *, key=KEY, faults=(), finish="stop", refusal=None, answer="An answer.", edit=None
    ):
        self.key, self.faults = key, list(faults)
        self.edit = edit  # changes a reply before it is sent
        self.finish, self.refusal, self.answer = finish, refusal, answer
        self.bodies: list[dict[str, Any]] = []

    def __enter__(self):
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                status, out = outer.reply(self.path, self.headers, body)
                raw = json.dumps(out).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def reply(self, path, headers, body):
        if self.key and headers.get("authorization") != f"Bearer {self.key}":
            return 401, error("invalid_api_key", f"wrong key: {headers.get('authorization')}")
        if path != "/v1/chat/completions":
            return 404, error("not_found", path)
        if set(body) - _KNOWN:
            return 400, error("unknown_parameter", str(set(body) - _KNOWN))
        if self.faults:
            fault = self.faults.pop(0)
            if fault == "quota":
                return 429, error("insufficient_quota", "You exceeded your current quota")
            return fault, error("server_error", "by schedule")
        self.bodies.append(body)
        text = self.answer(body) if callable(self.answer) else self.answer
        message = {"role": "assistant", "content": None if self.refusal else text}
        message["refusal"] = self.refusal
        out = {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 0,
            "model": f"{body['model']}-2026",
            "choices": [{"index": 0, "finish_reason": self.finish, "message": message}],
            "usage": {
                "prompt_tokens": 120,
                "completion_tokens": 9,
                "total_tokens": 129,
                "prompt_tokens_details": {"cached_tokens": 100},
            },
        }
        if self.edit:
            self.edit(out)
        return 200, out


def error(code, message):
    return {"error": {"message": message, "type": code, "code": code, "param": None}}
