"""What goes wrong in a study is told: why, how often and where; hopeless work ends early."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from fake_anthropic import KEY, FakeAnthropic
from live_study import AGENT, agent, ask, grader, make_store, rows, script
from test_live_cli import call, study

import skillcomp as sc
from skillcomp.errors import (
    AgentError,
    FrameError,
    SkillcompError,
    StoreError,
    error_text,
    problem_list,
)
from skillcomp.io import journal
from skillcomp.io.store import RunStore
from skillcomp.live.agents.agent import StudyWarning, unreadable
from skillcomp.live.status import errors

pytestmark = [
    pytest.mark.filterwarnings("ignore::skillcomp.live.GraderWarning"),
    pytest.mark.usefixtures("fake_key"),
]


def test_run_grade_and_status_show_why_something_failed(tmp_path, monkeypatch, capfd):
    with FakeAnthropic(["ok", "400", "400", "ok"]) as server:
        file = study(tmp_path, server.url, repeats=1, concurrency=1)
        code, out, err = call(monkeypatch, capfd, "run", file, "--quiet")
        assert code == 1 and "most often (2 times" in err
    store = RunStore(tmp_path / "runs" / "one")
    (reason,) = errors(store).to_dict("records")
    failed = [row["attempt_id"] for row in rows(store, "attempts") if row["status"] == "error"]
    assert (reason["stage"], reason["name"], reason["n"]) == ("run", AGENT, 2)
    assert reason["first"] + "/error-1" == failed[0]
    told = [line for line in out.splitlines() if line.startswith("failed: ")]
    assert len(told) == 1 and told[0].startswith(f"failed: {AGENT}: BadRequestError 400")
    assert "(2 times, first at " in told[0]
    assert told[0] in call(monkeypatch, capfd, "status", file)[1]
    with FakeAnthropic(["garbage"] * 15) as server:
        file = study(tmp_path, server.url, repeats=1, concurrency=1, suites=None, skills=None)
        code, out, err = call(monkeypatch, capfd, "grade", file, "--quiet")
    assert code == 1 and "5 gradings in a row cannot be read" in err
    assert "failed: g, round 1: malformed: " in out
    assert "(3 times, first at " in out  # two more were gold answers


def test_an_hour_of_retry_after_ends_the_run_without_a_wait(tmp_path, monkeypatch, capfd):
    with FakeAnthropic(["ok", "ok"] + ["429:3600"] * 50) as server:
        file = study(tmp_path, server.url, repeats=1, concurrency=1)
        begun = datetime.now(UTC)
        code, _, err = call(monkeypatch, capfd, "run", file, "--quiet")
        assert server.log["POST /v1/messages 429"] == 1
    assert code == 1 and "6 of 8 cells have no answer yet" in err
    hours = {f"{begun + timedelta(hours=1, minutes=m):%Y-%m-%d %H:}" for m in (0, 5)}
    assert any(f"the service asks to wait until {hour}" in err for hour in hours)
    assert "Traceback" not in err


def test_status_and_check_load_neither_an_sdk_nor_the_statistics():
    """They answer within a second; an SDK or scipy alone takes longer; no bar is shown."""
    pilot = Path(__file__).parent.parent / "data" / "pilot"
    code = (
        "import sys\nfrom skillcomp import cli\n"
        "for command in ('status', 'check'):\n"
        f"    sys.argv = ['skillcomp', command, {str(pilot)!r}]\n"
        "    try:\n        cli.main()\n    except SystemExit:\n        pass\n"
        "heavy = {'anthropic', 'openai', 'scipy', 'sklearn', 'matplotlib', 'tqdm'}\n"
        "sys.exit(', '.join(sorted(heavy & set(sys.modules))) or None)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "told",
    [
        "Invalid API key \u00b7 Please run /login",
        "Not logged in. Run codex login first.",
    ],
)
def test_a_program_without_a_login_is_given_up_after_the_first_few_cells(tmp_path, told):
    store, one = make_store(tmp_path), sc.CliAgent(script(tmp_path, f"sys.exit({told!r})"))
    with pytest.raises(AgentError, match="stopped, since every further question would fail too"):
        sc.run(store, agents=[one], concurrency=1, progress=False)
    assert len(rows(store, "attempts")) == 3


def test_a_login_that_one_of_two_agents_lacks_is_found_out_too(tmp_path):
    # an answer that speaks of keys stops nothing
    bodies = {
        "good": "print('A wrong API key gives 401.')",
        "bad": "sys.exit('401 Unauthorized')",
    }
    agents = [sc.CliAgent(script(tmp_path, body, name)) for name, body in bodies.items()]
    store = make_store(tmp_path)
    with pytest.raises(AgentError, match=r"every further question would fail too: .*401"):
        sc.run(store, agents=agents, concurrency=1, progress=False)
    assert sum(row["status"] == "error" for row in rows(store, "attempts")) == 3


def test_control_characters_of_a_program_do_not_reach_the_terminal(tmp_path, monkeypatch, capfd):
    told = "\x1b]0;owned\x07\x1b[2Jboom"
    command = script(tmp_path, f"sys.exit({told!r})")
    agents = [{"kind": "cli", "command": command, "name": "c"}]
    file = study(tmp_path, "http://127.0.0.1:9", agents=agents, repeats=1)
    _, out, err = call(monkeypatch, capfd, "run", file, "--quiet")
    assert "boom" in out and "\x1b" not in out + err and "\x07" not in out + err
    script(tmp_path, f"sys.exit({told + ' 401 Unauthorized'!r})")
    code, out, err = call(monkeypatch, capfd, "run", file, "--quiet")
    assert code == 2 and "boom" in err and "\x1b" not in out + err


def test_failing_questions_do_not_wait_for_each_other(tmp_path):
    """Nobody waits for a cache that a call which failed did not write."""
    store = make_store(tmp_path, n_cases=5)
    with FakeAnthropic(lambda *_: "529", latency=0.02) as server:
        with pytest.warns(StudyWarning, match="10 of 10 cells have no answer yet"):
            options = {"conditions": ["skill"], "concurrency": 10, "progress": False}
            sc.run(store, agents=[agent(server.url)], **options)
        assert server.most_in_flight > 1


def test_a_key_that_a_server_echoes_is_redacted_wherever_it_stands(monkeypatch):
    monkeypatch.setenv("MY_API_KEY", "sk-ant-own-0123456789")
    with FakeAnthropic(answer=lambda _: "Your key is sk-ant-own-0123456789.") as server:
        assert ask(agent(server.url)).answer == "Your key is [MY_API_KEY]."
    with FakeAnthropic(answer=lambda _: f"Your key is {KEY}.") as server:
        assert ask(agent(server.url)).answer == "Your key is [ANTHROPIC_API_KEY]."


class Silent(sc.live.BaseAgent):
    """An agent whose call ends with an error that has no message."""

    async def ask(self, prompt, **about):
        raise TimeoutError


def test_an_error_without_a_message_is_named_by_its_type(tmp_path):
    store = make_store(tmp_path)
    with pytest.raises(TimeoutError):
        sc.run(store, agents=[Silent()], progress=False)
    last = rows(store, "receipts")[-1]
    assert last["stopped"] == "TimeoutError (without a message)"
    assert "(TimeoutError (without a message))" in unreadable(TimeoutError(), "").error
    assert error_text(ValueError("no")) == "ValueError: no"


def _full_after(monkeypatch, n, table):
    """Let the disk be full after `n` appends to a table."""
    real, counted = journal.append, []

    def append(path, lines):
        if path.name.startswith(table):
            counted.append(path)
        full = len(counted) > n
        with monkeypatch.context() as patch:
            if full:
                patch.setattr("skillcomp.io.journal.os.fsync", _no_space)
            real(path, lines)

    monkeypatch.setattr(journal, "append", append)


def _no_space(_):
    raise OSError(28, "No space left on device")


def test_a_full_disk_reports_the_paid_answers_that_are_lost(tmp_path, monkeypatch):
    store = make_store(tmp_path)
    with FakeAnthropic() as server, monkeypatch.context() as patch:
        _full_after(patch, 2, "attempts")
        with pytest.raises(StoreError, match="No space left on device") as raised:
            sc.run(store, agents=[agent(server.url)], concurrency=1, progress=False)
    message = str(raised.value)
    assert "1 paid answer lost (" in message and f"({AGENT}, " in message
    assert "the same call asks again" in message
    n_asked = len(server.bodies)
    assert len(rows(store, "attempts")) == n_asked - 1
    with FakeAnthropic() as server:
        sc.run(store, agents=[agent(server.url)], progress=False)
        with monkeypatch.context() as patch:
            _full_after(patch, 1, "replies")
            with pytest.raises(StoreError, match="1 paid answer lost"):
                sc.grade(store, graders=[grader(server.url)], concurrency=1, progress=False)


def test_no_message_is_longer_than_a_screen():
    long = SkillcompError("\n".join(["first " + "x" * 10_000 + " last"] * 100))
    lines = str(long).split("\n")
    assert len(lines) == 24 and lines[-1] == "- and 77 more lines."
    assert max(map(len, lines)) == 400
    assert lines[0].startswith("first x") and lines[0].endswith("x last")
    problems = [f"'{'n' * 5000}' is wrong"] * 90
    assert len(str(FrameError(problem_list("f", problems), problems)).split("\n")) == 22
