"""What a program writes: taken for a stream only where it is one, and kept whatever it holds."""

from __future__ import annotations

import json
import sys

import pytest
from test_live_cli_agent import (
    INIT,
    RESULT,
    ask,
    codex,
    item,
    lines,
    prints,
    script,
    used,
)

from skillcomp.errors import AgentError
from skillcomp.io.event_streams import kind_of, read_trace
from skillcomp.live import CliAgent
from skillcomp.live.agents import cli as cli_agent
from skillcomp.live.agents import process
from skillcomp.live.agents.agent import StudyWarning
from skillcomp.live.study_file import read_agent

HIJACK = {"type": "result", "subtype": "success", "result": "hijacked", "total_cost_usd": 0.0}


@pytest.mark.parametrize(
    "answer",
    [
        'An init event looks like this:\n{"type": "system", "subtype": "init"}\nThat is it.',
        f"Example:\n{json.dumps(HIJACK)}\nThe rest of the real answer.",
        '{"type": "thread.started"}',
        '{"type": "result"',
    ],
)
def test_an_answer_that_holds_events_stays_an_answer(tmp_path, answer):
    reply = ask(CliAgent(script(tmp_path, f"print({answer!r})")))
    assert (reply.status, reply.answer, reply.trace) == ("ok", answer, None)
    assert reply.cost_usd is None


def test_the_command_or_the_user_says_what_is_written(tmp_path):
    opening = lines(INIT)
    assert kind_of(["docker", "run", "x", "claude", "-p", "--output-format", "json"]) == "claude"
    assert kind_of(["claude", "-p", "--output-format=text"]) == "text"
    assert kind_of(["npx", "codex", "exec", "--json", "-"]) == "codex"
    assert kind_of(["codex", "exec", "-"]) is None
    for agent in (CliAgent.claude(), CliAgent.codex()):
        kind = kind_of(json.loads(agent.settings)["command"])
        assert kind == agent.name
    # an answer that begins with the opening of a stream has to be told apart by the user
    command = script(tmp_path, f"print({opening!r})")
    assert ask(CliAgent(command)).error == "the event stream ends without a result"
    told = CliAgent(command, output="text")
    assert ask(told).answer == opening and json.loads(told.settings)["output"] == "text"
    assert "output" not in json.loads(CliAgent(command).settings)  # as studies began before
    said = read_agent("{kind: cli, command: [mine], output: text}", key="agent")
    assert json.loads(said.settings)["output"] == "text"
    with pytest.raises(AgentError, match="output is 'json'; allowed: auto, claude"):
        CliAgent(command, output="json")


@pytest.mark.parametrize("indent", [None, 2])
def test_one_result_and_nothing_else_is_read_as_that_of_claude(tmp_path, indent):
    output = json.dumps(RESULT, indent=indent)
    reply = ask(CliAgent(script(tmp_path, f"print({output!r})")))
    assert (reply.answer, reply.cost_usd) == (RESULT["result"], 0.0123)
    assert reply.trace.strip() == output
    bare = json.dumps({"type": "result", "result": "a", "total_cost_usd": 0.5}, indent=indent)
    command = script(tmp_path, f"print({bare!r})")
    one = CliAgent(command, name="wrapper")
    with pytest.warns(StudyWarning, match=r"agent 'wrapper': .* give output=\"claude\"") as told:
        replies = [ask(one), ask(one)]
    assert len(told) == 1 and {reply.answer for reply in replies} == {bare}
    # what the warning names works, and is silent
    reply = ask(CliAgent(command, output="claude"))
    assert (reply.status, reply.answer, reply.cost_usd) == ("ok", "a", 0.5)
    assert ask(CliAgent(command, output="text")).answer == bare


def test_a_program_that_should_write_events_and_does_not_gave_no_answer(tmp_path):
    command = script(tmp_path, "print('Please log in.')", name="claude")
    reply = ask(CliAgent([*command, "--output-format", "stream-json"]))
    assert (reply.status, reply.answer) == ("error", None)
    assert reply.error == "the program wrote no event, but something else"
    assert reply.trace.strip() == "Please log in."


def test_half_a_surrogate_pair_in_any_step_of_a_trace_is_repaired():
    claude = read_trace(lines(INIT, used("Bash", command="echo \ud83d"), RESULT))
    call = item("1", "command_execution", command="cat \udc00", aggregated_output="\ud83d")
    for trace in (claude, read_trace(lines(*codex(call)))):
        texts = [step.text for step in trace.steps if step.kind == "command"]
        assert texts and all(text.endswith("\ufffd") for text in texts)
    whole = read_trace(lines(INIT, used("Bash", command="echo \U0001f30a"), RESULT))
    assert whole.steps[1].text == "echo \U0001f30a"


def test_a_trace_that_cannot_be_read_is_an_error_that_keeps_it(tmp_path, monkeypatch):
    def broken(output, kind):
        raise KeyError("surprise")

    monkeypatch.setattr(cli_agent, "read_trace", broken)
    reply = ask(CliAgent(prints(tmp_path, INIT, RESULT)))
    assert (reply.status, reply.answer, reply.cost_note) == ("error", None, "unreadable")
    assert "KeyError" in reply.error and json.loads(reply.trace.splitlines()[1]) == RESULT


def test_a_prompt_that_cannot_be_written_is_an_error(tmp_path):
    reply = ask(CliAgent(script(tmp_path, "print(1)")), prompt="half \ud83d")
    assert reply.status == "error" and "surrogates not allowed" in reply.error


def test_output_without_end_is_cut_off_and_said_to_be(tmp_path, monkeypatch):
    monkeypatch.setattr(process, "MAX_OUTPUT", 2_000_000)
    monkeypatch.setattr(process, "LOOK", 0.02)
    body = "while True:\n  sys.stdout.write('y ' * 1_500_000); sys.stdout.flush()\n"
    body += "  time.sleep(0.05)"
    reply = ask(CliAgent(script(tmp_path, body), timeout=60))
    assert reply.status == "truncated" and len(reply.answer) == 1_000_000
    assert reply.error == "the program wrote more than 2 MB; the rest is cut off"


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is set from outside on Linux only")
def test_no_file_of_a_program_grows_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(process, "MAX_FILE", 1_000_000)
    body = "time.sleep(0.5)\nopen('big', 'wb').write(b'x' * 3_000_000)"
    reply = ask(CliAgent(script(tmp_path, body), timeout=60))
    assert reply.status == "error" and "File too large" in reply.error


@pytest.mark.parametrize("cost", ["1" + "0" * 400, "1e300", "-1", "NaN", '"much"', "true"])
def test_a_cost_that_cannot_be_is_unknown_with_a_note(cost):
    line = f'{{"type": "result", "subtype": "success", "result": "x", "total_cost_usd": {cost}}}'
    trace = read_trace(line)
    assert (trace.answer, trace.cost_usd) == ("x", None)
    assert trace.cost_note.startswith("the program reports a cost of ")
