"""Events and commands read from traces: every event type, torn lines, turns, subagents, tokens."""

from __future__ import annotations

import json
import time

import pytest

import skillcomp as sc
from skillcomp.io.event_streams import read_trace
from skillcomp.io.shell_commands import is_read_only, opens_skill, thrashing, unwrapped
from skillcomp.records import Attempt

INIT = {"type": "system", "subtype": "init", "session_id": "s-1", "skills": ["tides"]}
RESULT = {
    "type": "result",
    "subtype": "success",
    "result": "Done.",
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 999, "output_tokens": 999},
}


def lines(*events):
    return "\n".join(json.dumps(event) for event in events)


def said(message, *blocks, parent=None, n=10):
    usage = {"input_tokens": n, "output_tokens": 1, "cache_read_input_tokens": 2}
    return {
        "type": "assistant",
        "parent_tool_use_id": parent,
        "message": {"id": message, "content": list(blocks), "usage": usage},
    }


def call(ident, name, **given):
    return {"type": "tool_use", "id": ident, "name": name, "input": given}


def back(ident, content="", *, is_error=False):
    block = {"type": "tool_result", "tool_use_id": ident, "content": content, "is_error": is_error}
    return {"type": "user", "message": {"content": [block]}}


CLAUDE = (
    INIT,
    {"type": "system", "subtype": "api_retry", "error": "overloaded"},
    {"type": "rate_limit_event"},
    {"type": "stream_event", "event": {}},
    said("m1", {"type": "thinking", "thinking": "hm"}),
    said("m1", {"type": "text", "text": "I look."}),  # another line of the same message
    said("m2", call("t1", "Bash", command="ls -la"), call("t2", "Skill", skill="tides")),
    back("t1", "a.md"),
    back("t2", "loaded"),
    said("m3", call("t3", "Bash", command="make"), n=20),
    back("t3", [{"type": "text", "text": "Exit code 2\nno rule"}], is_error=True),
    said("m4", call("t4", "Bash", command="rm -rf /")),
    back("t4", "denied", is_error=True),
    said("m5", call("t5", "Task", description="go", prompt="look around")),
    said("m6", call("t6", "Read", file_path="/a/b.md"), parent="t5"),
    said("m7", call("t7", "Write", file_path="c.md"), call("t8", "WebSearch", query="tides")),
    said("m8", call("t9", "TodoWrite"), call("t10", "mcp__db__ask"), {"type": "new_block"}),
    {"type": "brand_new_event"},
    RESULT | {"permission_denials": [{"tool_name": "Bash", "tool_use_id": "t4"}]},
)


def test_every_event_of_claude_becomes_a_step_and_no_token_is_counted_twice():
    trace = read_trace(lines(*CLAUDE))
    found = [(s.kind, s.tool, s.text, s.status, s.exit_code, s.read_only) for s in trace.steps]
    assert found == [
        ("session", None, "s-1", None, None, None),
        ("retry", "api_retry", "overloaded", None, None, None),
        ("retry", "rate_limit_event", None, None, None, None),
        ("reasoning", None, "hm", None, None, None),
        ("message", None, "I look.", None, None, None),
        ("command", "Bash", "ls -la", "completed", 0, True),
        ("skill", "Skill", "tides", "completed", None, True),
        ("command", "Bash", "make", "failed", 2, False),
        ("command", "Bash", "rm -rf /", "declined", None, False),
        ("subagent", "Task", "look around", "in_progress", None, None),
        ("tool", "Read", "/a/b.md", "in_progress", None, True),
        ("file_change", "Write", "c.md", "in_progress", None, False),
        ("web_search", "WebSearch", "tides", "in_progress", None, True),
        ("todo", "TodoWrite", None, "in_progress", None, True),
        ("tool", "mcp__db__ask", None, "in_progress", None, None),
        ("other", "new_block", None, None, None, None),
        ("other", "brand_new_event", None, None, None, None),
        ("result", "success", None, None, None, None),
    ]
    assert [s.kind for s in trace.steps if s.in_subagent] == ["tool"]
    # 8 messages of 10 + 2 tokens read, one of them with 10 more; m1 stands in two lines
    assert sum(s.input_tokens or 0 for s in trace.steps) == 8 * 12 + 10
    assert sum(s.cached_tokens or 0 for s in trace.steps) == 16
    assert (trace.n_commands, trace.n_retries) == (2, 1)
    assert trace.loaded("tides") and not trace.loaded("ebbs")


def item(kind, event="item.completed", ident=None, **more):
    return {"type": event, "item": {"id": ident or kind, "type": kind, **more}}


USAGE = {"input_tokens": 100, "cached_input_tokens": 40, "output_tokens": 7}
CODEX = (
    {"type": "thread.started", "thread_id": "th-1"},
    {"type": "turn.started"},
    item("reasoning", text="hm"),
    item("command_execution", "item.started", "c1", command="ls", status="in_progress"),
    item("command_execution", "item.updated", "c1", command="ls", status="in_progress"),
    item(
        "command_execution", "item.completed", "c1", command="ls", exit_code=0, status="completed"
    ),
    item("command_execution", ident="c2", command="make", exit_code=2, status="failed"),
    item("command_execution", ident="c3", command="rm x", status="declined"),
    item("file_change", changes=[{"path": "a.md", "kind": "add"}, {"path": "b.md"}], status="done"),
    item("mcp_tool_call", server="db", tool="ask", status="failed", error={"message": "no"}),
    item("web_search", query="tides"),
    item("todo_list", items=[]),
    item("plan", text="first this"),
    item("collab_tool_call", tool="spawn_agent", status="completed"),
    item("error", message="a passing one"),
    item("brand_new_item"),
    {"type": "error", "message": "Reconnecting... 1/5"},
    item("agent_message", ident="a1", text="First."),
    {"type": "turn.completed", "usage": USAGE},
    {"type": "turn.started"},
    item("agent_message", ident="a2", text="Second."),
    {"type": "brand.new"},
    {"type": "turn.completed", "usage": USAGE},
)


def test_every_event_of_codex_becomes_a_step_and_several_turns_are_summed():
    trace = read_trace(lines(*CODEX))
    found = [(s.turn, s.kind, s.tool, s.text, s.status, s.exit_code) for s in trace.steps]
    assert found == [
        (1, "session", None, "th-1", None, None),
        (1, "reasoning", None, "hm", None, None),
        (1, "command", None, "ls", "completed", 0),
        (1, "command", None, "make", "failed", 2),
        (1, "command", None, "rm x", "declined", None),
        (1, "file_change", None, "a.md; b.md", "done", None),
        (1, "tool", "db.ask", None, "failed", None),
        (1, "web_search", None, "tides", None, None),
        (1, "todo", None, None, None, None),
        (1, "todo", None, "first this", None, None),
        (1, "subagent", "spawn_agent", None, "completed", None),
        (1, "error", None, "a passing one", None, None),
        (1, "other", "brand_new_item", None, None, None),
        (1, "retry", None, "Reconnecting... 1/5", None, None),
        (1, "message", None, "First.", None, None),
        (1, "turn", None, None, "completed", None),
        (2, "message", None, "Second.", None, None),
        (2, "other", "brand.new", None, None, None),
        (2, "turn", None, None, "completed", None),
    ]
    assert (trace.answer, trace.status, trace.n_commands) == ("Second.", "ok", 2)
    assert trace.input_tokens == sum(s.input_tokens or 0 for s in trace.steps) == 200
    assert trace.cached_tokens == 80 and trace.output_tokens == 14


@pytest.mark.parametrize("events", [CLAUDE, CODEX])
def test_a_truncated_last_line_costs_that_line_only(events):
    whole = lines(*events)
    cut = whole[: whole.rindex("\n") + 9]
    assert read_trace(cut).steps == read_trace(lines(*events[:-1])).steps
    assert read_trace(cut).status == "error"


@pytest.mark.parametrize(
    ("events", "told"),
    [
        (
            [
                *CODEX[:3],
                {"type": "error", "message": "You've hit your usage limit."},
                {"type": "turn.failed", "error": {"message": "You've hit your usage limit."}},
            ],
            "usage limit",
        ),
        ([INIT, RESULT | {"is_error": True, "result": "API Error: 429 quota"}], "429 quota"),
        (CODEX[:6], "without a completed turn"),
        (CLAUDE[:6], "without a result"),
    ],
)
def test_quota_and_transport_failures_are_errors_of_the_infrastructure(events, told):
    trace = read_trace(lines(*events))
    assert trace.status == "error" and trace.answer is None and told in trace.error
    assert trace.steps


def test_one_result_alone_carries_its_own_tokens():
    (step,) = read_trace(json.dumps(RESULT)).steps
    assert (step.kind, step.input_tokens, step.output_tokens) == ("result", 999, 999)


def test_the_frames_hold_the_steps_of_all_attempts_with_a_trace(tmp_path):
    store = sc.RunStore(tmp_path / "store")
    common = {"skill": "tides", "case_id": "tides/1", "condition": "skill", "agent": "a"}
    store.append(
        "attempts",
        [
            Attempt(attempt_id="x", **common, answer="Second.", trace=lines(*CODEX)),
            Attempt(attempt_id="y", **common, repeat=2, status="error", trace=lines(*CLAUDE[:-1])),
            Attempt(attempt_id="z", **common, repeat=3, answer="without a trace"),
            Attempt(attempt_id="x/pad", **common, perturbation="pad", trace=lines(*CODEX)),
        ],
    )
    events = sc.frames.events(store)
    assert events.groupby("attempt_id")["ordinal"].max().to_dict() == {"x": 19, "y": 17}
    assert events[["input_tokens", "output_tokens"]].sum().tolist() == [200 + 106, 14 + 8]
    commands = sc.frames.commands(store)
    shown = commands[["attempt_id", "ordinal", "text", "exit_code", "read_only"]]
    assert shown.drop(columns="exit_code").values.tolist() == [
        ["x", 3, "ls", True],
        ["x", 4, "make", False],
        ["y", 6, "ls -la", True],
        ["y", 8, "make", False],
        ["y", 9, "rm -rf /", False],  # no result says that it was denied
    ]
    assert commands["exit_code"].tolist()[:4] == [0, 2, 0, 2] and commands["exit_code"].isna()[4]
    assert len(sc.frames.events(store, perturbation="all")) == 19 + 17 + 19
    (tmp_path / "none").mkdir()
    empty = sc.frames.events(sc.RunStore(tmp_path / "none"))
    assert empty.empty and list(empty) == list(events)


READS = (
    *("ls -la", "cat a.md && head -3 b.md; wc -l c | sort", "git status && git log --oneline"),
    *("bash -lc 'grep -rn tide . 2>/dev/null'", "sed -n 1,5p a.md", "find . -name x"),
)
WRITES = (
    *("sed -i s/a/b/ a.md", "find . -delete", "echo hi > a.md", "cat $(make)", "git commit -m x"),
    *("python x.py", "make", "ls | tee out", "ls & rm x", "ls\nrm x", "uniq a b", "'unclosed", ""),
)


def test_a_command_is_read_only_where_every_program_of_it_is():
    assert [command for command in READS if not is_read_only(command)] == []
    assert [command for command in WRITES if is_read_only(command)] == []


def test_a_command_of_megabytes_costs_nothing_and_may_still_show_a_skill():
    began = time.monotonic()
    long = f"cat <<E\n{'x y z ' * 500_000}\nE\ncat .codex/skills/tides/SKILL.md"
    ran = item("command_execution", command=long, exit_code=0)
    trace = read_trace(lines(*CODEX[:2], ran))
    assert trace.loaded("tides") and not trace.loaded("ebbs")
    assert not any(step.read_only for step in trace.steps) and not opens_skill(long)
    assert thrashing([long] * 3) and time.monotonic() - began < 10


def test_items_without_an_id_and_ids_that_begin_anew_are_items_of_their_own():
    def ran(command, ident):
        return item("command_execution", ident=ident, command=command, exit_code=0)

    again = [{"type": "turn.completed"}, {"type": "turn.started"}, ran("make", "item_0")]
    trace = read_trace(lines(*CODEX[:2], ran("ls", "item_0"), *again, {"type": "turn.completed"}))
    told = [(s.text, s.turn) for s in trace.steps if s.kind == "command"]
    assert told == [("ls", 1), ("make", 2)]
    bare = [ran("ls", None), ran("make", None)]
    for one in bare:
        del one["item"]["id"]
    assert read_trace(lines(*CODEX[:2], *bare)).n_commands == 2


def test_only_reading_an_injected_skill_is_left_out_of_the_effective_count():
    assert opens_skill("/bin/zsh -lc \"sed -n '1,200p' /r/home/.codex/skills/tides/SKILL.md\"")
    assert not opens_skill("rm .codex/skills/tides/SKILL.md")
    assert not opens_skill("cat notes/SKILL.md")


@pytest.mark.parametrize(
    ("commands", "loop"),
    [
        (["make"] * 3, "make"),
        (["make", "make", "ls", "make"], None),
        (["bash -lc make", "make", "sh -c 'make'"], "make"),
        (["a", "b"] * 3, "a; b"),
        (["x", "a", "b", "c", "d", "a", "b", "c", "d", "a", "b", "c", "d"], "a; b; c; d"),
        (["a", "b", "a", "b"], None),
        ([], None),
    ],
)
def test_thrashing_is_three_times_running_of_a_command_or_a_loop(commands, loop):
    assert thrashing(commands) == loop
    assert unwrapped("bash -lc 'make  all'") == "make all"
