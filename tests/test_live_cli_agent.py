"""Agents that are programs; each program here is a script of a few lines."""

from __future__ import annotations

import json
import os

import pytest
from live_study import ask, lines, script
from pydantic import BaseModel

from skillcomp.errors import AgentError
from skillcomp.io.event_streams import read_trace
from skillcomp.live import BaseAgent, CliAgent
from skillcomp.pricing import Price
from skillcomp.records import Skill

SKILL = Skill(slug="tides", name="tides", text="# Tides\nDraw the mark once.")


def prints(folder, *events, name="agent", then=""):
    """Write a program that prints events."""
    return script(folder, f"print({lines(*events)!r}, flush=True)\n{then}", name=name)


# isolation


def test_the_prompt_comes_on_standard_input_and_the_answer_goes_to_standard_output(tmp_path):
    agent = CliAgent(script(tmp_path, "print(sys.stdin.read().upper())"))
    reply = ask(agent, "what; echo $HOME `id`?", system="be brief.")
    assert reply.answer == "BE BRIEF.\n\nWHAT; ECHO $HOME `ID`?"
    assert reply.status == "ok" and reply.trace is None and reply.triggered is None
    assert isinstance(agent, BaseAgent) and agent.name == "agent"


def test_home_and_working_folder_are_its_own_and_empty_and_are_gone_afterwards(tmp_path):
    show = "home = os.environ['HOME']\n"
    show += "print(json.dumps([os.getcwd(), os.listdir(), home, os.listdir(home)]))"
    work, inside, home, at_home = json.loads(ask(CliAgent(script(tmp_path, show))).answer)
    assert inside == [] and at_home == []
    assert home != os.environ.get("HOME") and work not in home
    assert not os.path.exists(work) and not os.path.exists(home)


def test_a_key_that_the_program_prints_is_kept_nowhere(tmp_path, monkeypatch):
    secret = "sk-ant-very-secret-value"
    monkeypatch.setenv("ANTHROPIC_API_KEY", secret)
    body = "k = os.environ['ANTHROPIC_API_KEY']; print(json.dumps({'type': 'assistant', 'k': k}))"
    body += "; print(k, file=sys.stderr); sys.exit(3)"
    reply = ask(CliAgent(script(tmp_path, body), output="claude"))
    assert "[ANTHROPIC_API_KEY]" in reply.trace and "[ANTHROPIC_API_KEY]" in reply.error
    assert secret not in reply.model_dump_json()


def test_the_skill_is_installed_into_the_home_or_put_before_the_question(tmp_path):
    body = "f = os.path.expanduser('~/.claude/skills/tides/SKILL.md')\n"
    body += "print(open(f).read() if os.path.exists(f) else 'none', '|', sys.stdin.read())"
    command = script(tmp_path, body)
    at_home = ask(CliAgent(command, skill_in="home"), skill=SKILL).answer
    assert at_home == f"{SKILL.text} | What?"
    in_prompt = ask(CliAgent(command), skill=SKILL).answer
    assert in_prompt.startswith("none | You have one skill loaded.")
    assert SKILL.text in in_prompt and in_prompt.endswith("What?")
    assert ask(CliAgent(command, skill_in="home")).answer == "none | What?"


# endings


def test_a_program_without_an_answer_is_an_error_with_its_complaint(tmp_path):
    command = script(tmp_path, "print('half'); print('no credit', file=sys.stderr); sys.exit(2)")
    reply = ask(CliAgent(command))
    assert (reply.status, reply.error) == ("error", "exit code 2: no credit")
    silent = ask(CliAgent(script(tmp_path, "pass")))
    assert (silent.status, silent.error) == ("error", "the program wrote no answer")
    gone = ask(CliAgent(["no-such-program-here", "-"]))
    assert gone.fatal and "no-such-program-here cannot be started: No such file" in gone.error
    with pytest.raises(AgentError, match="no shell takes it apart"):
        CliAgent("codex exec -")
    with pytest.raises(AgentError, match="skill_in is 'cwd'"):
        CliAgent(["x"], skill_in="cwd")
    bad = SKILL.model_copy(update={"slug": "../../../../x"})
    with pytest.raises(AgentError, match="outside the home"):
        ask(CliAgent(command, skill_in="home"), skill=bad)


# claude -p


INIT = {
    "type": "system", "subtype": "init", "session_id": "s-1", "model": "claude-sonnet-5-5",
    "skills": ["tides", "docs:pdf"],
}  # fmt: skip
RESULT = {
    "type": "result", "subtype": "success", "is_error": False, "stop_reason": "end_turn",
    "result": "The mark is drawn once.", "total_cost_usd": 0.0123,
    "usage": {"input_tokens": 1, "output_tokens": 1},
    "modelUsage": {
        "claude-haiku-5-5": {"inputTokens": 5, "outputTokens": 2, "costUSD": 0.0001},
        "claude-sonnet-5-5": {
            "inputTokens": 100, "outputTokens": 40, "costUSD": 0.0122,
            "cacheReadInputTokens": 3000, "cacheCreationInputTokens": 200,
        },
    },
}  # fmt: skip


def used(name, ident="t1", message="m1", **given):
    block = {"type": "tool_use", "id": ident, "name": name, "input": given}
    usage = {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 20}
    return {
        "type": "assistant",
        "parent_tool_use_id": None,
        "message": {"id": message, "content": [block], "usage": usage},
    }


def came_back(ident="t1", *, is_error=False):
    block = {"type": "tool_result", "tool_use_id": ident, "is_error": is_error}
    return {"type": "user", "message": {"content": [block]}}


def test_a_claude_trace_gives_answer_tokens_cost_and_whether_the_skill_loaded(tmp_path):
    events = [INIT, used("Skill", skill="tides"), came_back(), used("Bash", "t2", command="ls")]
    after = {"type": "system", "subtype": "hook_note"}
    command = prints(tmp_path, *events, RESULT, after, name="claude")
    reply = ask(CliAgent(command), skill=SKILL)
    assert reply.answer == "The mark is drawn once." and reply.status == "ok"
    # everything that ran: 100 + 5 plain, 3,000 read, 200 written
    assert (reply.input_tokens, reply.cached_tokens, reply.cache_write_tokens) == (3305, 3000, 200)
    assert reply.output_tokens == 42 and reply.cost_usd == 0.0123
    assert reply.model == "claude-sonnet-5-5" and reply.request_id == "s-1"
    assert reply.triggered is True and reply.n_commands == 1
    assert len(reply.trace.splitlines()) == 6


@pytest.mark.parametrize(
    ("events", "loaded"),
    [
        ([used("Skill", command="/tides")], True),
        ([used("Skill", skill="plugin:tides")], True),
        ([used("Read", file_path="/h/.claude/skills/tides/SKILL.md")], True),
        ([used("Bash", command="cat ~/.claude/skills/tides/SKILL.md")], True),
        ([used("Skill", skill="tides"), came_back(is_error=True)], False),
        ([used("Skill", skill="ebbs")], False),
        # a skill whose name ends alike, a program of the same name, and what only names the file
        ([used("Read", file_path="/h/.claude/skills/low-tides/SKILL.md")], False),
        ([used("Bash", command="tides")], False),
        ([used("Bash", command="git show HEAD:tides")], False),
        ([used("Bash", command="cat > .claude/skills/tides/SKILL.md")], False),
        ([used("Bash", command="cd .claude/skills/tides && cat SKILL.md")], True),
        ([used("Bash", command="cd .claude/skills; head -50 tides/SKILL.md | cat")], True),
        ([{"type": "assistant", "message": {"content": [{"type": "text", "text": "tides"}]}}], 0),
        ([], False),
    ],
)
def test_only_the_trace_says_that_a_skill_was_loaded(events, loaded):
    assert read_trace(lines(INIT, *events, RESULT)).loaded("tides") is bool(loaded)


def test_a_skill_fires_by_the_name_in_its_front_matter_and_only_if_it_is_listed(tmp_path):
    named = SKILL.model_copy(update={"name": "high-water"})
    events = [INIT | {"skills": ["high-water"]}, used("Skill", skill="high-water"), RESULT]
    command = prints(tmp_path, *events, name="claude")
    reply = ask(CliAgent(command), skill=named)
    assert (reply.triggered, reply.invoked) == (True, ("tides",))
    reply = ask(CliAgent(command), skill=SKILL)
    assert reply.status == "error" and reply.cost_usd == 0.0123
    assert reply.error == "skill 'tides' was installed, but the program has: high-water"


LIMIT = "API Error: Claude's response exceeded the 32000 output token maximum."


@pytest.mark.parametrize(
    ("change", "status", "error", "fatal"),
    [
        ({"is_error": True, "result": "API Error: 529"}, "error", "API Error: 529", False),
        ({"is_error": True, "result": "no", "api_error_status": 401}, "error", "no", True),
        ({"subtype": "error_max_turns", "errors": ["8 turns"]}, "truncated", "8 turns", False),
        ({"subtype": "error_during_execution", "errors": ["a", "b"]}, "error", "a; b", False),
        ({"stop_reason": "refusal"}, "refused", None, False),
        ({"stop_reason": "max_tokens"}, "truncated", None, False),
        ({"is_error": True, "result": LIMIT, "stop_reason": "x"}, "truncated", LIMIT, False),
        ({"result": ""}, "ok", None, False),  # empty after a normal stop
    ],
)
def test_a_claude_run_that_came_to_no_answer(change, status, error, fatal):
    result = RESULT | change
    if result["subtype"] != "success":
        del result["result"]
    trace = read_trace(lines(INIT, result))
    assert (trace.status, trace.error, trace.fatal) == (status, error, fatal)
    assert trace.cost_usd == 0.0123  # paid all the same


def test_a_claude_stream_that_is_cut_off_still_counts_its_tokens_once_a_message(tmp_path):
    events = [INIT, used("Read", "t1", "m1"), used("Bash", "t2", "m1"), used("Bash", "t3", "m2")]
    command = prints(tmp_path, *events, name="claude", then="time.sleep(60)")
    reply = ask(CliAgent(command, timeout=1.5))
    assert reply.status == "timeout" and reply.n_commands == 2
    # two messages of 10 + 20 tokens
    assert (reply.input_tokens, reply.cached_tokens, reply.output_tokens) == (60, 40, 10)
    # sonnet-5-5: 20 plain x 2 + 40 read x 0.10 + 10 out x 10 = 144 per million
    assert reply.cost_usd == pytest.approx(144e-6)


def test_noise_unknown_events_and_a_guessed_cost_are_passed_over():
    noise = '{"type": "rate_limit_event"}\nnot json\n{"broken": \n[1, 2]\n{"type": 5}\n'
    odd = {"type": "assistant", "message": {"content": "text", "usage": None}}
    stream = noise + lines(INIT | {"skills": [{"name": "tides"}]}, odd, RESULT)
    trace = read_trace(stream, "claude")
    assert trace.status == "ok" and trace.skills == ("tides",)
    guess = {"claude-x": {"inputTokens": 5, "outputTokens": 2, "costBasis": "unknown"}}
    trace = read_trace(lines(INIT, RESULT | {"modelUsage": guess}))
    assert trace.cost_usd is None and "no price" in trace.cost_note
    broken = read_trace(lines(INIT, RESULT | {"result": "", "stop_reason": None}))
    assert broken.status == "error" and "no normal stop" in broken.error
    bare = lines({"type": "result", "modelUsage": 3, "usage": []})
    assert read_trace(bare, "claude").status == "error"
    # a sign that only Python takes for the end of a line
    split = json.dumps(RESULT | {"result": "one\u2028two\x85"}, ensure_ascii=False)
    assert read_trace(lines(INIT) + "\n" + split).answer == "one\u2028two\x85"


class Shape(BaseModel):
    point: str


def test_a_shape_is_asked_for_in_the_way_of_the_program(tmp_path):
    result = RESULT | {"structured_output": {"point": "once"}}
    (tmp_path / "r").write_text(lines(INIT, result))
    body = "assert json.loads(sys.argv[sys.argv.index('--json-schema') + 1])['type'] == 'object'\n"
    body += f"print(open({str(tmp_path / 'r')!r}).read())"
    reply = ask(CliAgent(script(tmp_path, body, name="claude")), schema=Shape)
    assert json.loads(reply.answer) == {"point": "once"}
    body = "assert sys.argv[-1] == '-'; print(json.load(open(sys.argv[sys.argv.index("
    body += "'--output-schema') + 1]))['title'])"
    agent = CliAgent([*script(tmp_path, body, name="codex"), "exec", "-"])
    assert ask(agent, schema=Shape).answer == "Shape"
    plain = ask(CliAgent(script(tmp_path, "print(sys.stdin.read())")), schema=Shape).answer
    assert "fits this JSON schema" in plain and '"point"' in plain


# codex exec


def codex(*events, last="turn.completed"):
    usage = {"input_tokens": 900, "cached_input_tokens": 600, "output_tokens": 50}
    end = {"type": last, "usage": usage, "error": {"message": "out of luck"}}
    return [{"type": "thread.started", "thread_id": "t"}, {"type": "turn.started"}, *events, end]


def item(ident, kind, event="item.completed", **more):
    return {"type": event, "item": {"id": ident, "type": kind, **more}}


def test_a_codex_trace_gives_the_last_message_and_what_was_read(tmp_path):
    run = {"command": "cat /h/.codex/skills/tides/SKILL.md", "exit_code": 0, "status": "completed"}
    events = codex(
        item("1", "reasoning", text="hm"),
        item("2", "command_execution", "item.started", command=run["command"]),
        item("2", "command_execution", **run),
        item("3", "agent_message", text="First."),
        {"type": "error", "message": "Reconnecting 1/5"},
        item("4", "agent_message", text="Once."),
    )
    options = {"skill_in": "home", "skills_folder": ".codex/skills", "model": "gpt-6"}
    prices = [Price("gpt-6", 1, 10, cache_read=0.1)]
    agent = CliAgent(prints(tmp_path, *events, name="codex"), prices=prices, **options)
    reply = ask(agent, skill=SKILL)
    assert (reply.answer, reply.status, reply.error) == ("Once.", "ok", None)
    assert reply.triggered is True and reply.n_commands == 1
    assert (reply.input_tokens, reply.cached_tokens, reply.output_tokens) == (900, 600, 50)
    # 300 x 1 + 600 x 0.1 + 50 x 10 = 860 per million
    assert reply.cost_usd == pytest.approx(860e-6) and reply.model == "gpt-6"
    assert agent.family == "gpt" and agent.name == "codex:gpt-6"


def test_a_codex_turn_that_failed_is_no_answer_and_one_that_said_nothing_an_empty_one():
    failed = read_trace(lines(*codex(item("1", "agent_message", text="So"), last="turn.failed")))
    assert (failed.status, failed.error) == ("error", "out of luck")
    silent = read_trace(lines(*codex()))
    assert (silent.status, silent.answer) == ("ok", "")
    refused = item("1", "command_execution", command="cat tides/SKILL.md", exit_code=1)
    trace = read_trace(lines(*codex(refused, item("2", "agent_message", text="a"))))
    assert trace.loaded("tides") is False


LIMIT = "You've hit your usage limit."
USED_UP = [{"type": "thread.started", "thread_id": "t"}, {"type": "turn.started"}]


@pytest.mark.parametrize(
    ("event", "told"),
    [
        ({"type": "error", "message": LIMIT}, LIMIT),
        (item("1", "error", message=LIMIT), LIMIT),
        (item("1", "reasoning", text="hm"), "the turn has no message and no tokens"),
    ],
)
@pytest.mark.parametrize("usage", [None, {"input_tokens": 0, "output_tokens": 0}])
def test_a_codex_turn_without_message_and_tokens_is_asked_again(tmp_path, event, told, usage):
    events = [*USED_UP, event, {"type": "turn.completed", "usage": usage}]
    agent = CliAgent([*prints(tmp_path, *events, name="codex"), "exec", "--json"])
    reply = ask(agent)
    assert (reply.status, reply.answer, reply.error) == ("error", None, told)


@pytest.mark.parametrize("indent", [None, 2])
def test_events_in_one_array_are_read(indent):
    events = codex(item("1", "agent_message", text="Once."))
    claude = [INIT, used("Bash", command="ls"), RESULT]
    for kind, stream in (("codex", events), ("claude", claude)):
        whole = read_trace(json.dumps(stream, indent=indent))
        assert whole == read_trace(lines(*stream)) and whole.kind == kind


def test_the_model_is_the_one_that_wrote_the_answer_not_a_busy_helper():
    helper = {"claude-haiku-5-5": {"inputTokens": 5, "outputTokens": 9000}}
    result = RESULT | {"modelUsage": helper | RESULT["modelUsage"] | helper}
    result["usage"] = {"input_tokens": 100, "output_tokens": 40}
    init = {key: value for key, value in INIT.items() if key != "model"}
    assert read_trace(lines(INIT, result)).model == "claude-sonnet-5-5"
    assert read_trace(lines(init, result)).model == "claude-sonnet-5-5"
    # another model took over; the words of a subagent and of the program itself do not count
    said = [
        {"type": "assistant", "parent_tool_use_id": above, "message": {"id": name, "model": name}}
        for above, name in ((None, "claude-opus-5-5"), ("t1", "other"), (None, "<synthetic>"))
    ]
    assert read_trace(lines(INIT, *said, result)).model == "claude-opus-5-5"


def test_the_usual_commands_are_built_in():
    claude = CliAgent.claude("claude-opus-5-5", extra=["--max-turns", "5"])
    assert claude.name == "claude:claude-opus-5-5" and claude.family == "claude"
    settings = json.loads(claude.settings)
    assert settings["skill_in"] == "home"
    assert " ".join(settings["command"][:5]) == "claude -p --output-format stream-json --verbose"
    codex = CliAgent.codex("gpt-6", extra=["--config", "a=1"])
    assert json.loads(codex.settings)["command"][-3:] == ["--config", "a=1", "-"]
    assert CliAgent(["codex", "exec", "-"]).family == "gpt"


def test_only_listed_variables_and_keys_of_the_programs_maker_are_passed(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_API_KEY", "x")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-very-secret-value")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-value")
    show = "print(sorted(name for name in os.environ if name.endswith('_API_KEY')))"
    for program, wanted in (
        ("claude", "['ANTHROPIC_API_KEY']"),
        ("codex", "['CODEX_API_KEY', 'OPENAI_API_KEY']"),
        ("mine", "['ANTHROPIC_API_KEY', 'OPENAI_API_KEY']"),
    ):
        command = script(tmp_path, show, name=program)
        assert ask(CliAgent(command)).answer == wanted
    agent = CliAgent(command, passed=["MY_API_KEY"])
    assert ask(agent).answer == "['ANTHROPIC_API_KEY', 'MY_API_KEY', 'OPENAI_API_KEY']"


@pytest.mark.parametrize(
    ("arguments", "settings"),
    [
        (["--key=sk-very-secret-value"], ["--key=[OPENAI_API_KEY]"]),
        (["sk-aaaaaaaaaaaa", "sk-bbbbbbbbbbbb"], ["[a key]", "[a key (2)]"]),
        (
            ["-c", "api_key=AAAAAAAA1", "-c", "api_key=BBBBBBBB2"],
            ["-c", "api_key=[api_key, a key]", "-c", "api_key=[api_key, a key (2)]"],
        ),
        (["--api-key", "abcdef-123456"], ["--api-key", "[api-key, a key]"]),
        (["-H", "Bearer abcdef-123456"], ["-H", "Bearer [a key]"]),
        (["-H", "X-Api-Key: abcdef-1"], ["-H", "X-Api-Key: [X-Api-Key, a key]"]),
        (["ghp_abcdefghij0123456789"], ["[a key]"]),
        (["claude-sonnet-5-5-20260101", "a1b2c3d4" * 5], ["claude-sonnet-5-5-20260101", "[a key]"]),
    ],
)
def test_a_key_in_a_command_is_neither_shown_nor_kept(tmp_path, monkeypatch, arguments, settings):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-value")
    body = "sys.stderr.write(str(sys.argv)); print(sys.argv); sys.exit(3)"
    agent = CliAgent([*script(tmp_path, body), *arguments])
    assert json.loads(agent.settings)["command"][1:] == settings
    secret = arguments[-1].split("=")[-1].split()[-1]
    assert secret not in agent.settings + str(ask(agent))


def test_a_hash_that_a_command_names_as_one_is_no_key():
    first, second = (
        CliAgent(["agent", "--revision", part * 20, f"image@sha256:{part * 32}"]).settings
        for part in ("a1", "b2")
    )
    assert first != second and "a key" not in first
