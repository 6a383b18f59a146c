"""Replies that break the rules of their service: paid for, so they are kept and end no run."""

from __future__ import annotations

import base64
import json
import math
from urllib.parse import quote

import httpx
import openai
import pytest
from fake_anthropic import KEY, FakeAnthropic
from fake_openai import FakeOpenAI
from live_study import FAST, agent, make_store, ok_cells, rows
from live_study import ask as ask_agent

import skillcomp as sc
from skillcomp.errors import AgentError
from skillcomp.live import AnthropicAgent, CliAgent, OpenAIAgent, Reply
from skillcomp.live.agents.agent import MAX_ANSWER, UNREADABLE, redact
from skillcomp.live.agents.service import error_text
from skillcomp.live.status import is_other_model

MODEL = "claude-sonnet-5-5"
PARTS = [{"type": "thinking"}, {"type": "text", "text": "b"}]
HALF, WHOLE = "\ud83d", "\ufffd"


@pytest.fixture(autouse=True)
def openai_key(fake_key, monkeypatch):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


class Edited(FakeAnthropic):
    """Changes the body of chosen messages, counted from 1, before they are sent."""

    def __init__(self, edit, *, at=None, **kw):
        super().__init__(**kw)
        self.edit, self.at, self.n_messages = edit, at, 0

    async def _route(self, method, path, body):
        status, out, *rest = await super()._route(method, path, body)
        if (method, path) == ("POST", "/v1/messages") and status == 200:
            self.n_messages += 1
            if self.at is None or self.n_messages in self.at:
                out = self.edit(out)
        return status, out, *rest


def changed(change):
    """Return the edit that changes the object of a message."""

    def edit(out):
        message = json.loads(out)
        change(message)
        return json.dumps(message).encode()

    return edit


def ask(edit, **kw):
    with Edited(edit, **kw) as server:
        return ask_agent(AnthropicAgent(MODEL, base_url=server.url, **FAST))


def test_a_model_that_was_not_asked_for_is_named_in_status_and_on_the_page(tmp_path):
    store = make_store(tmp_path, n_cases=1)
    with Edited(changed(lambda m: m.update(model="claude-haiku-5-5-20261007"))) as server:
        sc.run(store, agents=[agent(server.url)], progress=False)
    note = "claude-haiku-5-5-20261007 answered, not claude-sonnet-5-5 as asked"
    assert sc.live.status(store)["note"].eq(note).all()
    page = sc.report.build(store, tmp_path / "page", notebooks=[], progress=False).read_text()
    assert f"Agent claude-sonnet-5-5 (skill): {note}." in page


@pytest.mark.parametrize(
    ("asked", "model", "is_other"),
    [
        ("gpt-6", "openai/gpt-6-2026-10-01", False),
        ("claude-opus-5-5[1m]", "claude-opus-5-5", False),
        ("sonnet", "claude-sonnet-5-5", False),
        ("sonnet", "claude-haiku-5-5", True),
        ("gpt-6", "gpt-6-mini", True),
    ],
)
def test_the_date_or_provider_of_a_model_makes_no_other_model(asked, model, is_other):
    assert is_other_model(asked, model) is is_other


# what a reply may hold


def test_a_reply_can_always_be_stored():
    reply = Reply(
        answer=f"a{HALF}b",
        error=HALF,
        trace=f"{HALF}{HALF}",
        input_tokens=2**63,
        output_tokens=-1,
        cost_usd=math.nan,
        seconds=math.inf,
    )
    assert (reply.answer, reply.error, reply.trace) == (f"a{WHOLE}b", WHOLE, WHOLE * 2)
    assert reply.input_tokens is None and reply.output_tokens is None and reply.seconds is None
    assert reply.cost_usd is None and reply.cost_note.startswith("a cost of nan USD is reported")
    assert Reply(cost_usd=-5).cost_usd is None
    assert Reply(answer="😀 whole", cost_usd=0.0).cost_usd == 0.0
    long = Reply(answer="x" * (MAX_ANSWER + 5))
    assert len(long.answer) == MAX_ANSWER and long.status == "truncated"
    assert "1,000,005 characters and is cut after 1,000,000" in long.error


def first_text(message, text):
    message["content"][0]["text"] = text


def test_half_a_character_costs_neither_its_own_answer_nor_those_beside_it(store):
    with Edited(changed(lambda m: first_text(m, f"bad {HALF} half")), at={3}) as server:
        sc.run(store, agents=[agent(server.url)], progress=False)
        assert server.log["POST /v1/messages 200"] == 16
        sc.run(store, agents=[agent(server.url)], progress=False)  # nothing is left
        assert server.log["POST /v1/messages 200"] == 16
    assert set(ok_cells(store).values()) == {1} and len(ok_cells(store)) == 16
    assert [r["answer"] for r in rows(store, "attempts") if WHOLE in r["answer"]] == [
        f"bad {WHOLE} half"
    ]


# Messages API


@pytest.mark.parametrize(
    ("change", "note"),
    [
        (lambda m: m.pop("usage"), "no token counts that can be read"),
        (lambda m: m["usage"].update(input_tokens=10**30), "no token counts that can be read"),
        (
            lambda m: m["usage"]["cache_creation"].update(ephemeral_1h_input_tokens=50),
            "more tokens for one hour",
        ),
        (lambda m: m.pop("model"), "does not say which model"),
    ],
)
def test_an_answer_whose_price_cannot_be_read_is_an_answer_all_the_same(change, note):
    reply = ask(changed(change))
    assert reply.status == "ok" and reply.answer.startswith("On 'What?'")
    assert reply.cost_usd is None and note in reply.cost_note


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.update(content=[{"type": "text"}]),
        lambda m: m.update(content=[5]),
        lambda m: m.update(stop_reason=["x"]),
    ],
)
def test_a_message_that_cannot_be_read_is_an_error_that_keeps_it(change):
    reply = ask(changed(change))
    assert (reply.status, reply.answer, reply.fatal) == ("error", None, False)
    assert reply.error.startswith("the reply cannot be read (")
    assert reply.cost_usd is None and reply.cost_note == UNREADABLE
    assert json.loads(reply.trace)["role"] == "assistant" and reply.request_id == "req_000001"


@pytest.mark.parametrize(
    "edit",
    [
        lambda out: b"\xff\xfe" + out,
        lambda out: out[: len(out) // 2],
        lambda out: b"[" * 100_000,  # nested too deeply
        lambda out: b"<html>busy</html>",
    ],
)
def test_a_reply_that_is_no_message_is_an_error_that_keeps_it(edit):
    reply = ask(edit)
    assert (reply.status, reply.n_tries) == ("error", 1)
    assert reply.trace and reply.cost_note == UNREADABLE


PAGE = b"<html><style>p {}</style><h1>Gateway</h1>\n<p>Back &amp; up at noon.</p></html>"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error": {"message": "The quota is used up.", "code": 429}}', "The quota is used up."),
        (b'{"error": "no credit"}', "no credit"),
        (PAGE, "Gateway Back & up at noon."),
    ],
)
def test_the_services_own_message_is_shown(body, message):
    assert f"the service answered: {message})" in ask(lambda _: body).error
    request = httpx.Request("POST", "http://127.0.0.1/v1")
    response = httpx.Response(502, content=body, request=request)
    error = openai.APIStatusError("Error code: 502", response=response, body=None)
    assert error_text(error) == f"APIStatusError 502: {message}"


def test_what_is_kept_of_an_unreadable_reply_has_an_end_and_no_key():
    spoilt = {"content": [{"type": "text"}], "id": f"{KEY} " + "x" * 200_000}
    reply = ask(changed(lambda m: m.update(spoilt)))
    assert 95_000 < len(reply.trace) <= 100_000 and "[ANTHROPIC_API_KEY]" in reply.trace
    assert KEY not in reply.model_dump_json()


# where it was asked


def test_the_endpoint_of_the_environment_is_among_the_settings(monkeypatch):
    usual = json.loads(AnthropicAgent(MODEL).settings), json.loads(OpenAIAgent("gpt-6").settings)
    assert "endpoint" not in usual[0] and "endpoint" not in usual[1]  # as studies began before
    assert "endpoint" not in CliAgent.claude().settings + CliAgent.codex().settings
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "https://api.anthropic.com")
    monkeypatch.setenv("OPENAI_BASE_URL", "https://api.openai.com/v1")
    assert json.loads(AnthropicAgent(MODEL).settings) == usual[0]
    assert json.loads(OpenAIAgent("gpt-6").settings) == usual[1]
    with FakeAnthropic() as server, FakeOpenAI() as other:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_BASE_URL", other.url)
        agents = [AnthropicAgent(MODEL), OpenAIAgent("gpt-6")]
        for one in (*agents, CliAgent.claude()):
            assert json.loads(one.settings)["endpoint"] == "127.0.0.1"
        # what was recorded is what is asked, whatever the environment says later
        monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
        monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9")
        assert [ask_agent(one).status for one in agents] == ["ok", "ok"]
    monkeypatch.delenv("ANTHROPIC_BASE_URL")
    given = AnthropicAgent(MODEL, base_url="https://api.anthropic.com")
    assert json.loads(given.settings)["endpoint"] == "api.anthropic.com"  # as before


def test_an_endpoint_that_the_settings_do_not_tell_is_refused(monkeypatch):
    late = AnthropicAgent(MODEL)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    with pytest.raises(AgentError, match=r"leads to '127.0.0.1'.* say 'api.anthropic.com'; give"):
        ask_agent(late)


# chat completions


def ask_openai(edit, key_env="OPENAI_API_KEY"):
    with FakeOpenAI(edit=edit) as server:
        return ask_agent(OpenAIAgent("gpt-6", base_url=server.url, key_env=key_env, **FAST))


def message_of(out):
    return out["choices"][0]["message"]


@pytest.mark.parametrize(
    ("edit", "answer", "note"),
    [
        (lambda o: message_of(o).update(content=f"a{HALF}"), f"a{WHOLE}", "no price"),
        (lambda o: message_of(o).update(content=PARTS), "b", "no price"),
        (lambda o: o.update(usage=None), "An answer.", "no token counts"),
        (lambda o: o["usage"].update(completion_tokens=10**30), "An answer.", "no token counts"),
        (lambda o: o.pop("model"), "An answer.", "does not say which model"),
    ],
)
def test_a_completion_with_odd_parts_is_read_as_far_as_it_goes(edit, answer, note):
    reply = ask_openai(edit)
    assert (reply.status, reply.answer) == ("ok", answer)
    assert reply.cost_usd is None and note in reply.cost_note


@pytest.mark.parametrize(
    "edit",
    [
        lambda o: o["choices"][0].update(message=None),
        lambda o: message_of(o).update(content=[{"text": "no type"}]),
        lambda o: o["choices"][0].update(finish_reason=["x"]),
        lambda o: o.update(choices=[None], id=["x"]),
    ],
)
def test_a_completion_that_cannot_be_read_is_an_error_that_keeps_it(edit):
    reply = ask_openai(edit)
    assert (reply.status, reply.answer, reply.cost_note) == ("error", None, UNREADABLE)
    assert "cannot be read" in reply.error and "chat.completion" in reply.trace


def test_a_completion_without_choices_is_an_error_that_says_so():
    assert "an empty list of 'choices'" in ask_openai(lambda o: o.update(choices=[])).error
    assert "other than a message" in ask_openai(lambda o: o.pop("choices")).error


def test_a_key_under_another_name_is_in_no_unreadable_reply(monkeypatch):
    monkeypatch.setenv("MINE", KEY)
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    monkeypatch.delenv("OPENAI_API_KEY")
    reply = ask_openai(lambda o: o["choices"][0].update(message=None, note=KEY), key_env="MINE")
    assert KEY not in reply.model_dump_json() and "[MINE, a key]" in reply.trace


@pytest.mark.parametrize(("before", "after"), [("", ""), ("x", "\n"), ("KEY=", "z")])
def test_encoded_forms_of_a_key_are_redacted(before, after):
    key = 'sk-lo+pb/ack-0123456789"x' * 4
    text = before + key + after
    raw = text.encode()
    lines = base64.encodebytes(raw).decode()
    forms = [base64.b64encode(raw).decode(), base64.urlsafe_b64encode(raw).decode(), lines]
    forms += [lines.replace("\n", "\\n"), raw.hex(), quote(text, safe=""), text[::-1]]
    forms += [json.dumps(lines), json.dumps(json.dumps(lines)), base64.b32encode(raw).decode()]
    forms += [json.dumps(text), json.dumps(json.dumps(text)), raw.hex(" "), raw.hex("\n", 30)]
    for form in forms:
        rest = redact(f"see {form} end", {"A_KEY": key})
        assert "[A_KEY]" in rest and len(rest) < 60, form
