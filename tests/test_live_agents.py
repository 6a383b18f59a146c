"""Agents against a loopback service, through the real SDKs."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
import time
import traceback
from contextlib import nullcontext

import pytest
from fake_anthropic import KEY, FakeAnthropic
from fake_openai import FakeOpenAI
from live_study import FAST, N_TRIES
from live_study import ask as ask_agent
from pydantic import BaseModel

from skillcomp.errors import AgentError, ExtraError
from skillcomp.io.store import RunStore
from skillcomp.live import AnthropicAgent, Cell, OpenAIAgent, ReplayAgent
from skillcomp.live.agents.agent import family_of, redact
from skillcomp.live.agents.service import (
    UnreadableReplyError,
    failed_reply,
    retry_after,
)
from skillcomp.live.concurrency import StoppedError, interruption, run_sync
from skillcomp.pricing import Price
from skillcomp.records import Attempt, Skill

MODEL = "claude-sonnet-5-5"
LONG = Skill(slug="tides", text="A tidemark is drawn once. " * 400)  # about 2,600 tokens


@pytest.fixture(autouse=True)
def openai_key(fake_key, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def ask(server, prompt="What is a tidemark?", *, model=MODEL, skill=None, schema=None, **options):
    agent = AnthropicAgent(model, base_url=server.url, **FAST, **options)
    return ask_agent(agent, prompt, skill=skill, schema=schema)


def ask_together(server, *skills, **options):
    """Ask one question about each skill, all at once."""

    async def main():
        agent = AnthropicAgent(MODEL, base_url=server.url, **FAST, **options)
        questions = (agent.ask(f"q{i}", skill=skill) for i, skill in enumerate(skills))
        try:
            return await asyncio.gather(*questions)
        finally:
            await agent.aclose()

    return asyncio.run(main())


def test_an_answer_carries_tokens_cost_model_and_settings():
    with FakeAnthropic() as server:
        reply = ask(server, effort="low", max_tokens=2000)
    assert reply.status == "ok" and reply.stop_reason == "end_turn"
    assert reply.answer.startswith("On 'What is a tidemark?'")
    assert reply.model == MODEL and reply.request_id == "req_000001"
    assert reply.cost_usd == pytest.approx(
        (reply.input_tokens * 2 + reply.output_tokens * 10) / 1e6
    )
    assert json.loads(reply.settings) == {
        "cache": "5m",
        "effort": "low",
        "endpoint": "127.0.0.1",
        "max_tokens": 2000,
        "thinking": "default",
    }
    assert server.headers[0]["anthropic-version"] == "2026-10-21"


def test_one_call_of_each_skill_warms_the_cache_and_the_others_read_it():
    other = LONG.model_copy(update={"slug": "other"})
    with FakeAnthropic(latency=0.02) as server:
        replies = ask_together(server, *[LONG, other, None] * 5)
    wrote = [reply for reply in replies if reply.cache_write_tokens]
    size = wrote[0].cache_write_tokens
    assert len(wrote) == 2 and size > 1024 and wrote[0].cached_tokens == 0
    assert sum(reply.cached_tokens >= size for reply in replies) == 8
    assert server.most_in_flight > 1  # after the first, they go at once
    systems = [body["system"] for body in server.bodies if "system" in body]
    assert systems[0][-1]["cache_control"] == {"type": "ephemeral", "ttl": "5m"}
    with FakeAnthropic(latency=0.05) as server:  # too short to be cached: nobody waits
        replies = ask_together(server, *[Skill(slug="s", text="short")] * 10)
    assert {reply.cache_write_tokens for reply in replies} == {0}
    assert server.most_in_flight > 1


@pytest.mark.parametrize(
    ("faults", "status", "n_tries", "fatal"),
    [
        (["refusal"], "refused", 1, False),
        (["max_tokens"], "truncated", 1, False),
        (["pause_turn"], "paused", 1, False),
        *[([fault] * 2, "ok", 3, False) for fault in ("408", "429:0.01", "503", "drop", "half")],
        (["400"], "error", 1, False),
        *[([fault], "error", 1, True) for fault in ("401", "403", "404")],
        (["529"] * 9, "error", N_TRIES, False),
        (["hang:5"] * 9, "timeout", N_TRIES, False),
        (["429:3600"], "error", 1, False),  # a wait of hours is reported and not waited for
    ],
)
def test_each_end_of_a_call_is_recorded_as_such(faults, status, n_tries, fatal):
    with FakeAnthropic(faults) as server:
        reply = ask(server, timeout=0.05 if status == "timeout" else 60)
    assert (reply.status, reply.n_tries, reply.fatal) == (status, n_tries, fatal)
    assert sum(server.log.values()) == n_tries or status == "timeout"
    if status == "error":
        assert f"Error {faults[0][:3]}: by schedule" in reply.error
        assert reply.wait_seconds == (3600 if "3600" in faults[0] else None)
    if status in ("refused", "truncated", "paused"):
        assert reply.stop_reason == faults[0] and reply.input_tokens > 0 and reply.cost_usd > 0
    if status == "refused":
        assert reply.answer is None and "cyber: by schedule" in reply.error


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "Mon, 01 Jan 2024 00:00:00 +99999999999999999999"}, None),
        ({}, None),
    ],
)
def test_the_wait_that_a_service_asks_for(headers, seconds):
    assert retry_after(headers) == seconds


@pytest.mark.parametrize(("seconds", "until_stop", "is_asked"), [(30, 0, True), (0.5, 0.2, False)])
def test_no_try_begins_after_ctrl_c(seconds, until_stop, is_asked):
    async def main(_):
        stop = interruption()

        def fault(number, _):
            threading.Timer(until_stop, stop.ask, ["interrupted"]).start()
            time.sleep(0.05)
            return f"429:{seconds}"

        with FakeAnthropic(fault) as server:
            agent = AnthropicAgent(MODEL, base_url=server.url)
            with nullcontext() if is_asked else pytest.raises(StoppedError):
                assert (await agent.ask("q")).status == "error"
            await agent.aclose()
        return sum(server.log.values())

    assert run_sync(main) == 1


def test_ctrl_c_before_the_work_has_begun_stops_it(monkeypatch):
    begin, reasons = asyncio.run, []

    def begin_late(work):
        time.sleep(0.3)
        return begin(work)

    async def main(stop):
        last = time.monotonic() + 5
        while stop.reason is None and time.monotonic() < last:
            await asyncio.sleep(0.01)
        reasons.append(stop.reason)

    monkeypatch.setattr(asyncio, "run", begin_late)
    threading.Timer(0.1, os.kill, [os.getpid(), signal.SIGINT]).start()
    with pytest.raises(KeyboardInterrupt):
        run_sync(main)
    assert reasons == ["interrupted"]


class Shape(BaseModel):
    point: str
    holds: bool


def test_shape_thinking_and_effort_are_sent_and_a_text_that_does_not_fit_is_kept():
    with FakeAnthropic(["garbage"]) as server:
        reply = ask(server, schema=Shape)
        thoughtful = ask(server, thinking="adaptive", effort="max")
    form = server.bodies[0]["output_config"]["format"]
    assert form["type"] == "json_schema"
    assert form["schema"]["additionalProperties"] is False
    assert reply.answer == "{nothing useful" and reply.output_tokens > 0
    assert server.bodies[1]["thinking"] == {"type": "adaptive"}
    assert server.bodies[1]["output_config"] == {"effort": "max"}
    assert thoughtful.answer.startswith("On '")  # without the blocks of thinking


def test_no_key_is_told_before_anything_is_sent(monkeypatch, tmp_path):
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.setenv("HOME", str(tmp_path))
    with FakeAnthropic() as server:
        with pytest.raises(AgentError, match="Set one of ANTHROPIC_API_KEY"):
            ask(server)
        assert not server.log
    with pytest.raises(AgentError, match="set OPENAI_API_KEY in the environment"):
        ask_agent(OpenAIAgent("gpt-6"))


def test_the_key_stands_in_no_reply_and_no_traceback(monkeypatch, caplog):
    caplog.set_level("DEBUG", logger="skillcomp")
    secret = "sk-ant-a-wrong-but-secret-key"
    monkeypatch.setenv("ANTHROPIC_API_KEY", secret)
    # the fake puts the key that it was given into its message, as a careless proxy might
    with FakeAnthropic(["ok"]) as server:
        reply = ask(server)
    assert "invalid x-api-key [ANTHROPIC_API_KEY]" in reply.error
    monkeypatch.setenv("OPENAI_API_KEY", secret)
    with FakeOpenAI(key="another") as server:
        other = ask_openai(server)
    assert other.fatal
    try:
        AnthropicAgent(MODEL, effort="never")
    except AgentError:
        shown = traceback.format_exc()
    everything = reply.model_dump_json() + other.model_dump_json() + shown + caplog.text
    assert secret not in everything
    agent = AnthropicAgent(MODEL, base_url=f"http://user:{secret}@127.0.0.1:9")
    assert secret not in agent.settings + repr(agent)


# OpenAI-compatible endpoints


def ask_openai(server, *, skill=None, schema=None, **options):
    agent = OpenAIAgent("gpt-6", base_url=server.url, **FAST, **options)
    return ask_agent(agent, skill=skill, schema=schema, system="Be brief.")


def test_another_family_is_asked_through_chat_completions():
    with FakeOpenAI() as server:
        reply = ask_openai(server, skill=LONG, schema=Shape, effort="low", options={"seed": 7})
    assert reply.status == "ok" and reply.answer == "An answer."
    assert (reply.input_tokens, reply.cached_tokens, reply.output_tokens) == (120, 100, 9)
    assert reply.cost_usd is None and "no price for model 'gpt-6-2026'" in reply.cost_note
    body = server.bodies[0]
    assert [m["role"] for m in body["messages"]] == ["system", "user"]
    assert LONG.text in body["messages"][0]["content"]
    assert (body["reasoning_effort"], body["seed"]) == ("low", 7)
    assert body["response_format"]["json_schema"]["strict"] is True
    assert json.loads(reply.settings)["seed"] == 7
    with FakeOpenAI() as server:
        priced = ask_openai(server, prices=(Price("gpt-6-2026", 3, 12, cache_read=0.3),))
    # 20 x 3 + 100 x 0.3 + 9 x 12 = 60 + 30 + 108 = 198 per million
    assert priced.cost_usd == pytest.approx(198e-6)


@pytest.mark.parametrize(
    ("ending", "status", "stop"),
    [
        ({"finish": "length"}, "truncated", "length"),
        ({"finish": "content_filter"}, "refused", "content_filter"),
        ({"finish": "tool_calls"}, "error", "tool_calls"),
        ({"refusal": "I will not."}, "refused", "refusal"),
    ],
)
def test_other_endings_of_chat_completions(ending, status, stop):
    with FakeOpenAI(**ending) as server:
        reply = ask_openai(server)
    assert (reply.status, reply.stop_reason) == (status, stop)
    assert reply.answer == ending.get("refusal", "An answer.")


def test_chat_completions_are_retried_a_used_up_quota_is_fatal_and_a_local_server_needs_no_key(
    monkeypatch,
):
    with FakeOpenAI(faults=[500, 429]) as server:
        assert ask_openai(server).n_tries == 3
    with FakeOpenAI(faults=["quota"] * 9) as server:
        assert ask_openai(server).fatal
    monkeypatch.delenv("OPENAI_API_KEY")
    with FakeOpenAI(key=None) as server:
        assert ask_openai(server, limit_name="max_tokens", json_mode="none").status == "ok"
    assert server.bodies[0]["max_tokens"] == 16_000


def test_a_missing_extra_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(ExtraError, match=r'OpenAIAgent needs .* pip install "skillcomp\[openai\]"'):
        OpenAIAgent("gpt-6")


# recordings


def recorded(folder, *rows):
    store = RunStore(folder)
    store.append("attempts", rows)
    return store


def row(number, condition="skill", **more):
    return Attempt(
        attempt_id=f"s/{number}/{condition}",
        skill="s",
        case_id=f"s/{number}",
        condition=condition,
        **{"agent": "claude", "agent_family": "claude", "answer": "yes", **more},
    )


def test_a_recording_answers_by_cell(tmp_path):
    store = recorded(
        tmp_path,
        row(1, output_tokens=5, cost_usd=0.5, stop_reason="end_turn"),
        row(2, status="refused", answer=None),
        row(3, perturbation="pad", source_attempt_id="s/1/skill"),
    )
    agent = ReplayAgent(store)
    reply, refused, missing = (ask_agent(agent, cell=Cell(f"s/{i}", "skill")) for i in (1, 2, 3))
    assert (reply.answer, reply.output_tokens, reply.cost_usd) == ("yes", 5, 0.5)
    assert refused.status == "refused" and missing.status == "error"
    assert missing.error == "not recorded: s/3, condition 'skill', repeat 1"
    with pytest.raises(AgentError, match="asked by cell="):
        ask_agent(agent)


def test_a_key_at_the_place_where_an_error_is_cut_is_gone_whole(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-very-secret-value")
    error = UnreadableReplyError("x" * 1970 + " sk-ant-very-secret-value")
    assert "sk-ant" not in failed_reply(error, seconds=0.0, settings="{}").error


def test_secrets_are_redacted_whole_also_the_password_of_a_proxy():
    environment = {"HTTPS_PROXY": "http://me:hunter2hunter2@localhost:8080", "PATH": "/usr/bin"}
    text = redact("via me:hunter2hunter2 in /usr/bin", environment)
    assert text == "via me:[HTTPS_PROXY] in /usr/bin"
    text = redact("x abcdefgh12345 abcdefgh", {"A_KEY": "abcdefgh", "B_KEY": "abcdefgh12345"})
    assert text == "x [B_KEY] [A_KEY]"


def test_an_agent_without_a_model_has_no_family():
    assert family_of(None) is None and family_of("") is None
