"""A loopback Messages API that is as strict as the real one where a client can go wrong.

    with FakeAnthropic(faults=["429:0.05", "529", "ok"]) as server:
        client = anthropic.AsyncAnthropic(api_key=KEY, base_url=server.url)

Faults are used up one a POST to /v1/messages, in order, then all is well; or give a function of the
number of the request and its body. They are: ``ok``, ``429[:seconds]``, ``spend`` (a spend limit),
``408``, ``409``, ``500``, ``503``, ``529``, ``4xx`` codes, ``drop`` (closed without a word),
``half`` (half of the body, then closed), ``hang:seconds``, ``refusal``, ``max_tokens``,
``pause_turn``, ``garbage`` (an answer that is not what was asked for). Also a program:
``python tests/fake_anthropic.py --latency 0.1``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import fake_rules as rules

KEY = "sk-fake-0123456789abcdef"
Fault = Callable[[int, dict[str, Any]], str]
# status, body, further headers, and how the connection breaks off
Response = tuple[int, bytes, dict[str, str], str]
_KINDS = {
    400: "invalid_request_error", 401: "authentication_error", 402: "billing_error",
    403: "permission_error", 404: "not_found_error", 408: "timeout_error", 409: "conflict_error",
    413: "request_too_large", 429: "rate_limit_error", 500: "api_error", 503: "api_error",
    504: "timeout_error", 529: "overloaded_error",
}  # fmt: skip
_STOPS = ("refusal", "max_tokens", "pause_turn")


class FakeAnthropic:
    """The server with all it remembers; thread-safe to read once requests have come back.

    Parameters
    ----------
    faults : sequence of str or callable
        What goes wrong with which message.
    latency : float
        Seconds that every message takes.
    answer : callable, optional
        From body to text, in place of the default.
    keep : bool
        Remember bodies and headers; off for long runs, so that memory stays flat.
    """

    def __init__(
        self,
        faults: Sequence[str] | Fault = (),
        *,
        latency: float = 0.0,
        answer: Callable[[dict[str, Any]], str] = rules.answer,
        keep: bool = True,
    ) -> None:
        listed = list(faults) if not callable(faults) else []
        self._fault: Fault = (
            faults if callable(faults) else lambda n, _: listed[n] if n < len(listed) else "ok"
        )
        self._latency, self._answer = latency, answer
        self.cache = rules.Cache()
        self.bodies: list[dict[str, Any]] = []  # of every message request that was well formed
        self.headers: list[dict[str, str]] = []
        self.log: Counter[str] = Counter()  # "METHOD path status"
        self.in_flight = self.most_in_flight = 0
        self.batches: dict[str, dict[str, Any]] = {}
        self._n, self.n_exchanges, self._keep = 0, 0, keep
        self._tasks: set[asyncio.Task[Any]] = set()

    # -- life ---------------------------------------------------------------------------------

    def __enter__(self) -> FakeAnthropic:
        ready = threading.Event()
        self._thread = threading.Thread(target=self._main, args=(ready,), daemon=True)
        self._thread.start()
        assert ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    def _main(self, ready: threading.Event | None) -> None:
        asyncio.run(self.serve(ready))

    async def serve(self, ready: threading.Event | None = None) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0, backlog=512)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        if ready:
            ready.set()
        else:
            print(self.url, flush=True)
        await self._stop.wait()
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # -- HTTP ---------------------------------------------------------------------------------

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while await self._exchange(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, target, _ = head[0].split(" ")
        headers = dict(line.lower().split(": ", 1) for line in head[1:] if ": " in line)
        # values of credentials keep their case
        for line in head[1:]:
            if line.lower().startswith(("authorization: ", "x-api-key: ")):
                headers[line.split(": ", 1)[0].lower()] = line.split(": ", 1)[1]
        raw = await reader.readexactly(int(headers.get("content-length", 0)))
        path = target.split("?")[0]
        self.n_exchanges += 1
        number = self.n_exchanges
        if self._keep:
            self.headers.append(headers)
        status, out, extra, cut = 500, b"", {}, ""
        try:
            self._authorise(headers)
            body = json.loads(raw) if raw else None
            status, out, extra, cut = await self._route(method, path, body)
        except rules.RefusedError as refused:
            status, out = refused.status, _error(refused)
        except json.JSONDecodeError:
            status, out = 400, _error(rules.bad("The request body is not valid JSON"))
        self.log[f"{method} {re.sub(r'msgbatch_[0-9]+', '{id}', path)} {status}"] += 1
        if cut == "drop":
            writer.transport.abort()
            return False
        lines = [f"HTTP/1.1 {status} X", f"content-length: {len(out)}"]
        lines += [f"{k}: {v}" for k, v in ({"content-type": "application/json"} | extra).items()]
        lines.append(f"request-id: req_{number:06d}")
        reply = "\r\n".join(lines).encode() + b"\r\n\r\n" + out
        writer.write(reply[: len(reply) - len(out) // 2] if cut == "half" else reply)
        await writer.drain()
        return cut != "half"

    def _authorise(self, headers: dict[str, str]) -> None:
        given = headers.get("authorization", "").removeprefix("Bearer ") or headers.get("x-api-key")
        if given != KEY:
            raise rules.RefusedError(401, _KINDS[401], f"invalid x-api-key {given}")
        if headers.get("anthropic-version") != rules.VERSION:
            raise rules.bad("anthropic-version: header is required")

    async def _route(self, method: str, path: str, body: Any) -> Response:
        if (method, path) == ("POST", "/v1/messages"):
            return await self._messages(body)
        if (method, path) == ("POST", "/v1/messages/count_tokens"):
            rules.check_body({"max_tokens": 1, **body})
            parts = (body["messages"], body.get("system"), body.get("tools"))
            return _ok({"input_tokens": sum(rules.count(part) for part in parts)})
        if path.startswith("/v1/messages/batches"):
            return self._batch_route(method, path, body)
        raise rules.RefusedError(404, _KINDS[404], f"{method} {path}")

    # -- messages -----------------------------------------------------------------------------

    async def _messages(self, body: Any) -> Response:
        number, self._n = self._n, self._n + 1
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            fault, _, seconds = self._fault(number, body).partition(":")
            if fault == "hang" or self._latency:
                await asyncio.sleep(float(seconds) if fault == "hang" else self._latency)
            if fault == "drop":
                return 200, b"", {}, "drop"
            if fault == "spend":
                detail = {"error_code": "enforced_spend_limit_reached"}
                raise rules.RefusedError(429, _KINDS[429], "Spend limit reached", **detail)
            if fault.isdigit():
                wait = {"retry-after": seconds} if seconds else {}
                return int(fault), _error(_scheduled(int(fault))), wait, ""
            rules.check_body(body)
            if self._keep:
                self.bodies.append(body)
            out = json.dumps(self.message(body, fault=fault)).encode()
            return 200, out, {}, "half" if fault == "half" else ""
        finally:
            self.in_flight -= 1

    def message(self, body: dict[str, Any], *, fault: str = "ok", tier: str = "standard") -> Any:
        read, wrote_5m, wrote_1h, entries = self.cache.book(body)
        self.cache.store(entries)
        total = rules.count(rules.text_of(body, "system")) + rules.count(
            rules.text_of(body, "messages")
        )
        text = "{nothing useful" if fault == "garbage" else self._answer(body)
        if fault == "refusal":
            text = ""
        elif fault in ("max_tokens", "pause_turn"):
            text = text[: len(text) // 2]
        elif rules.count(text) > body["max_tokens"]:
            text, fault = text[: body["max_tokens"] * 4], "max_tokens"
        thinking = (body.get("thinking") or {}).get("type") == "adaptive"
        content: list[dict[str, Any]] = [{"type": "thinking", "thinking": "", "signature": "s"}]
        content = (content if thinking else []) + ([{"type": "text", "text": text}] if text else [])
        details = {"type": "refusal", "category": "cyber", "explanation": "by schedule"}
        return {
            "id": f"msg_{random.randrange(10**9):09d}",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": content,
            "stop_reason": fault if fault in _STOPS else "end_turn",
            "stop_sequence": None,
            "stop_details": details if fault == "refusal" else None,
            "usage": {
                "input_tokens": max(total - read - wrote_5m - wrote_1h, 0),
                "output_tokens": rules.count(text),
                "cache_read_input_tokens": read,
                "cache_creation_input_tokens": wrote_5m + wrote_1h,
                "cache_creation": {
                    "ephemeral_5m_input_tokens": wrote_5m,
                    "ephemeral_1h_input_tokens": wrote_1h,
                },
                "service_tier": tier,
            },
        }

    # -- batches ------------------------------------------------------------------------------

    def _batch_route(self, method: str, path: str, body: Any) -> Response:
        parts = path.split("/")[4:]
        if not parts and method == "POST":
            return _ok(self.create_batch(body))
        if not parts:
            rows = [self.shown(batch) for batch in reversed(self.batches.values())]
            return _ok({"data": rows, "has_more": False, "first_id": None, "last_id": None})
        batch = self.batches.get(parts[0])
        if batch is None:
            raise rules.RefusedError(404, _KINDS[404], f"batch {parts[0]} not found")
        if parts[1:] == ["results"]:
            if batch["left"] > 0:
                raise rules.bad("Batch has not ended")
            return 200, self._results(batch), {"content-type": "application/x-jsonl"}, ""
        batch["left"] -= 1
        return _ok(self.shown(batch))

    def create_batch(self, body: Any) -> dict[str, Any]:
        requests = body.get("requests") if isinstance(body, dict) else None
        if not requests or len(requests) > 100_000:
            raise rules.bad("requests: between 1 and 100000 are allowed")
        for index, request in enumerate(requests):
            if not rules.CUSTOM_ID.match(request.get("custom_id", "")):
                raise rules.bad(f"requests.{index}.custom_id: String should match pattern")
        if len({request["custom_id"] for request in requests}) < len(requests):
            raise rules.bad("requests: custom_id must be unique")
        name = f"msgbatch_{len(self.batches) + 1:04d}"
        self.batches[name] = {"id": name, "requests": requests, "left": 1}
        return self.shown(self.batches[name])

    def shown(self, batch: dict[str, Any]) -> dict[str, Any]:
        ended = batch["left"] <= 0
        n = len(batch["requests"])
        counts = dict.fromkeys(("processing", "succeeded", "errored", "canceled", "expired"), 0)
        if ended:
            lines = self._results(batch).splitlines()
            counts |= Counter(json.loads(line)["result"]["type"] for line in lines)
        else:
            counts["processing"] = n
        now = "2026-11-21T00:00:00Z"
        url = f"{self.url}/v1/messages/batches/{batch['id']}/results"
        return {
            "id": batch["id"],
            "type": "message_batch",
            "processing_status": "ended" if ended else "in_progress",
            "request_counts": counts,
            "created_at": now,
            "expires_at": "2026-11-22T00:00:00Z",
            "ended_at": now if ended else None,
            "archived_at": None,
            "cancel_initiated_at": None,
            "results_url": url if ended else None,
        }

    def _results(self, batch: dict[str, Any]) -> bytes:
        if "rows" not in batch:
            rows = [self._row(request) for request in batch["requests"]]
            random.Random(batch["id"]).shuffle(rows)
            batch["rows"] = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
        return batch["rows"]

    def _row(self, request: dict[str, Any]) -> dict[str, Any]:
        name, body = request["custom_id"], request["params"]
        try:
            rules.check_body(body, batch=True)
        except rules.RefusedError as refused:
            return _errored_row(name, refused)
        if self._keep:
            self.bodies.append(body)
        message = self.message(body, tier="batch")
        return {"custom_id": name, "result": {"type": "succeeded", "message": message}}


def _ok(body: Any) -> Response:
    return 200, json.dumps(body).encode(), {}, ""


def _scheduled(status: int) -> rules.RefusedError:
    return rules.RefusedError(status, _KINDS[status], f"by schedule: {status}")


def _errored_row(name: str, refused: rules.RefusedError) -> dict[str, Any]:
    error = json.loads(_error(refused))
    return {"custom_id": name, "result": {"type": "errored", "error": error}}


def _error(refused: rules.RefusedError) -> bytes:
    error: dict[str, Any] = {"type": refused.kind, "message": str(refused)}
    if refused.details:
        error["details"] = refused.details
    return json.dumps({"type": "error", "error": error, "request_id": "req_x"}).encode()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--latency", type=float, default=0.0)
    server = FakeAnthropic(latency=parser.parse_args().latency, keep=False)
    asyncio.run(server.serve())
