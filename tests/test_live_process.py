"""Programs that answer: ended with their starter, told where to ask, and shown without keys."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import yaml
from filelock import FileLock
from live_study import ask, lines, make_store, rows, script, until

import skillcomp as sc
from skillcomp.errors import AgentError, StudyError
from skillcomp.io.event_streams import read_trace
from skillcomp.live import CliAgent
from skillcomp.live.agents import process
from skillcomp.live.study_file import read_study

INIT = {"type": "system", "subtype": "init", "session_id": "s", "model": "claude-sonnet-5-5"}
RESULT = {"type": "result", "subtype": "success", "result": "Yes.", "stop_reason": "end_turn"}


def is_alive(pid):
    try:
        os.kill(pid, 0)
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, ProcessLookupError):
        return False


def wait_for_end(file):
    """Wait for the end of the process with the id that a program wrote."""
    until(lambda: not is_alive(int(file.read_text())), 5)


SPAWN = """
import subprocess
child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])
open({file!r}, 'w').write(str(child.pid)); print('begun', flush=True)
"""
needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@needs_proc
@pytest.mark.parametrize("ends", [True, False])
def test_all_processes_of_a_program_end_with_it_or_its_time(tmp_path, ends):
    file = tmp_path / "pid"
    body = SPAWN.format(file=str(file)) + "time.sleep(60)" * (not ends)
    reply = ask(CliAgent(script(tmp_path, body), timeout=30 if ends else 1.0))
    assert reply.status == ("ok" if ends else "timeout") and reply.seconds < 20
    assert reply.answer == "begun"  # a timeout keeps what was written
    assert reply.error == (None if ends else "no end after 1 seconds")
    wait_for_end(file)


@needs_proc
def test_cancelling_the_question_ends_the_program(tmp_path):
    file = tmp_path / "pid"
    body = f"open({str(file)!r}, 'w').write(str(os.getpid())); time.sleep(60)"

    async def main():
        task = asyncio.create_task(CliAgent(script(tmp_path, body)).ask("q"))
        while not (file.exists() and file.read_text()):
            await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    wait_for_end(file)


@needs_proc
def test_a_killed_runner_leaves_no_program_and_no_folder_behind(tmp_path):
    base = tmp_path / "tmp"
    base.mkdir()
    pids = tmp_path / "pids"
    child = "import subprocess; c = subprocess.Popen(['sleep', '300'])\n"
    note = f"open({str(pids)!r}, 'w').write(f'{{os.getpid()}} {{c.pid}}'); time.sleep(300)"
    command = script(tmp_path, child + note)
    code = "import asyncio, pathlib, sys; from skillcomp.live import CliAgent\n"
    code += f"sys.modules['skillcomp.live.agents.process'].VAR_TMP = pathlib.Path({str(base)!r})\n"
    code += "asyncio.run(CliAgent(sys.argv[1:]).ask('Hello?'))"
    runner = subprocess.Popen([sys.executable, "-c", code, *command])
    until(lambda: pids.exists() and len(pids.read_text().split()) == 2)
    mine = [int(pid) for pid in pids.read_text().split()]
    assert all(map(is_alive, mine)) and list(base.glob("*/skillcomp-*"))
    runner.kill()
    runner.wait()
    until(lambda: not any(map(is_alive, mine)))
    until(lambda: not list(base.glob("*/skillcomp-*")))


def test_folders_that_nobody_holds_are_cleared_away_at_the_next_start(tmp_path):
    left = tmp_path / "skillcomp-left"
    (left / "room").mkdir(parents=True)
    (left / ".lock").touch()
    others = tmp_path / "skillcomp-of-others"
    others.mkdir()
    with process.case_folder(tmp_path) as place:
        assert place.is_relative_to(tmp_path)
    assert not left.exists() and others.exists()


def test_a_folder_is_locked_before_other_processes_can_clear_it_away(tmp_path, monkeypatch):
    class Late(FileLock):
        def acquire(self, *given, **more):
            assert not list(tmp_path.glob("skillcomp-*"))
            return super().acquire(*given, **more)

    monkeypatch.setattr(process, "FileLock", Late)
    with process.case_folder(tmp_path) as folder:
        assert folder.parent.parent == tmp_path and folder.parent.name.startswith("skillcomp-")


def test_two_runs_never_have_the_same_user(tmp_path, monkeypatch):
    monkeypatch.setattr(process, "USERS", process.USERS[:4])
    monkeypatch.setattr(process, "private_base", lambda: tmp_path)
    monkeypatch.setattr(os, "getuid", lambda: 0)
    for _ in range(5):
        with process.lent_users() as users, process.lent_users() as others:
            assert {*users, *others} == {*process.USERS}


def test_codex_and_claude_are_told_where_to_ask_in_the_way_that_they_heed(tmp_path, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://proxy.example:1")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://proxy.example:2/v1")
    body = "print(sys.argv[1:], os.environ.get('ANTHROPIC_BASE_URL'))"
    url = "http://127.0.0.1:9/v1"
    claude = CliAgent(script(tmp_path, body, "claude"), base_url=url, output="text")
    codex = CliAgent([*script(tmp_path, body, "codex"), "exec", "-"], base_url=url, output="text")
    assert ask(claude).answer == f"[] {url}"
    assert f'model_providers.skillcomp.base_url="{url}"' in ask(codex).answer
    # a repository around the working folder, such as a home, gives codex no instructions
    assert "'project_root_markers=[]'" in ask(codex).answer
    assert json.loads(claude.settings)["endpoint"] == json.loads(codex.settings)["endpoint"]
    assert json.loads(codex.settings)["endpoint"] == "127.0.0.1"
    codex = CliAgent([*script(tmp_path, body, "codex"), "exec", "-"], output="text")
    assert 'base_url="http://proxy.example:2/v1"' in ask(codex).answer
    assert json.loads(codex.settings)["endpoint"] == "proxy.example"
    with pytest.raises(AgentError, match="base_url is for claude and codex; 'mine' is told"):
        CliAgent(["mine"], base_url=url)


def test_empty_answers_are_shown(tmp_path):
    store = make_store(tmp_path)
    body = f"print('''{lines(INIT, {**RESULT, 'result': ''})}''')"
    agent = CliAgent(script(tmp_path, body), name="mute")
    options = {"conditions": ["baseline"], "concurrency": 2, "progress": False}
    table = sc.run(store, agents=[agent], **options)
    assert table["note"].tolist() == ["8 empty answers, graded"]
    assert {row["status"] for row in rows(store, "attempts")} == {"ok"}


def test_denied_commands_are_not_counted_and_retries_are():
    uses = [
        {"type": "tool_use", "id": name, "name": "Bash", "input": {"command": name}}
        for name in ("ls", "rm")
    ]
    retry = {"type": "system", "subtype": "api_retry", "attempt": 1}
    said = {"type": "assistant", "message": {"id": "m", "content": uses}}
    denied = [{"tool_name": "Bash", "tool_use_id": "rm"}]
    trace = read_trace(lines(INIT, retry, retry, said, {**RESULT, "permission_denials": denied}))
    assert (trace.n_commands, trace.opened, trace.n_retries) == (1, ("ls",), 2)
    items = [
        {"type": "item.completed", "item": {"id": i, "type": "command_execution", "status": s}}
        for i, s in (("1", "completed"), ("2", "declined"))
    ]
    again = {"type": "error", "message": "Reconnecting... 1/5 (stream disconnected)"}
    end = {"type": "turn.completed", "usage": {}}
    trace = read_trace(lines({"type": "thread.started", "thread_id": "t"}, again, *items, end))
    assert (trace.n_commands, trace.n_retries) == (1, 1)


# the study file


def agents_of(folder, *agents):
    file = folder / "STUDY.yaml"
    file.write_text(yaml.safe_dump({"store": "mine", "agents": list(agents)}))
    return read_study(file).build("agents")


def test_a_study_file_names_a_program_with_all_that_it_needs(tmp_path):
    price = {"model": "gpt-6", "input": 1.0, "output": 4.0}
    given = {"kind": "cli", "program": "codex", "model": "gpt-6", "base_url": "http://127.0.0.1:9"}
    more = {"extra": ["-c", "x=1"], "prices": [price], "timeout": 60, "name": "c"}
    codex, claude = agents_of(tmp_path, given | more, {"kind": "cli", "program": "claude"})
    options = {"base_url": "http://127.0.0.1:9", "timeout": 60.0, "name": "c"}
    own = CliAgent.codex("gpt-6", extra=["-c", "x=1"], **options)
    assert (codex.settings, codex.model, codex.name) == (own.settings, "gpt-6", "c")
    assert codex.prices[0].output == 4.0
    assert claude.settings == CliAgent.claude().settings


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "give either 'program' .* or 'command'"),
        ({"program": "codx"}, "found 'codx'; allowed: claude, codex. Did you mean 'codex'?"),
        ({"command": ["x"], "extra": ["-c"]}, "'extra' goes with 'program'"),
    ],
)
def test_a_program_is_named_in_one_way_only(tmp_path, given, told):
    with pytest.raises(StudyError, match=f"line [23]: agents.*{told}"):
        agents_of(tmp_path, {"kind": "cli"} | given)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ({"store": "../elsewhere"}, "store: .*elsewhere is outside the study's folder"),
        ({"store": "mine", "placebo": "../secret.md"}, "placebo: .*secret.md is outside"),
        ({"store": "mine", "previous": {"s": "/etc/hostname"}}, "previous: /etc/hostname is out"),
    ],
)
def test_paths_outside_the_folder_of_a_study_are_refused_unless_allowed(tmp_path, content, told):
    (tmp_path / "secret.md").write_text("secret")
    file = tmp_path / "study" / "STUDY.yaml"
    file.parent.mkdir()
    file.write_text(yaml.safe_dump(content))

    def opened(**options):
        found = read_study(file, **options)
        store = found.open_store()
        return [found.texts(store, name) for name in ("placebo", "previous")]

    with pytest.raises(StudyError, match=f"{told}.*allow it by --allow-outside"):
        opened()
    assert opened(outside=True)


def test_working_folders_are_private_and_outside_the_temporary_folder(tmp_path, monkeypatch):
    agent = CliAgent(script(tmp_path, "print(os.getcwd(), os.environ['TMPDIR'])"))

    def require_below(base):
        assert all(Path(place).is_relative_to(base) for place in ask(agent).answer.split())
        assert base.stat().st_mode & 0o777 == 0o700

    own, cache = tmp_path / f"skillcomp-{os.getuid()}", tmp_path / "cache" / "skillcomp" / "work"
    monkeypatch.setattr(process, "VAR_TMP", tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    require_below(own)
    shutil.rmtree(own)
    own.symlink_to(tmp_path)  # prepared by another user
    require_below(cache)
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "relative")
    assert process.private_base() == Path(tempfile.gettempdir())


HOGS = (
    "import os, sys, time\nfor _ in range(3):\n    if os.fork() == 0:\n        {0}\ntime.sleep(60)"
)


def test_a_limit_of_memory_alone_limits_no_processor_time():
    busy = "import time\nend = time.monotonic() + 1\nwhile time.monotonic() < end: pass"
    with process.case_folder() as folder:
        command, limits = [sys.executable, "-c", busy], process.Limits(memory=1 << 40)
        ran = asyncio.run(process.run_program(command, b"", dict(os.environ), folder, 50, limits))
    assert (ran.code, ran.excess) == (0, "")


@pytest.mark.parametrize(
    ("hog", "limits", "excess"),
    [
        ("while True: pass", process.Limits(cpu=1.0, memory=1 << 40), "more than 1 s of processor"),
        ("x = b'x' * (60 << 20); time.sleep(60)", process.Limits(memory=120 << 20, cpu=1e9),
         "more than 120 MiB of memory"),
        ("import mmap; m = mmap.mmap(-1, 60 << 20); m.write(b'x' * (60 << 20)); time.sleep(60)",
         process.Limits(memory=120 << 20, cpu=1e9), "more than 120 MiB of memory"),
    ],
)  # fmt: skip
def test_memory_and_processor_time_of_all_processes_are_limited_together(hog, limits, excess):
    with process.case_folder() as folder:
        command = [sys.executable, "-c", HOGS.format(hog)]
        ran = asyncio.run(process.run_program(command, b"", dict(os.environ), folder, 50, limits))
    assert excess in ran.excess and ran.seconds < 40


def test_a_program_that_nests_folders_without_end_loses_only_what_is_deep(tmp_path):
    with process.case_folder(tmp_path) as folder:
        place = folder / "work"
        (place / "kept.txt").write_text("kept")
        here = os.getcwd()
        os.chdir(place)
        try:
            for _ in range(1500):
                os.mkdir("d")
                os.chdir("d")
            Path("lost.txt").write_text("lost")
        finally:
            os.chdir(here)
        process.keep_files(place, tmp_path / "kept", process.Ran("", "", 0, 0.0))
        assert process.files_left(tmp_path / "kept") == ["kept.txt"]
    assert not folder.exists()
