"""``skillcomp run``, ``grade`` and ``status`` on a STUDY.yaml, against the loopback service."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from fake_anthropic import KEY, FakeAnthropic
from live_study import AGENT, GRADER, SLUGS, call, make_files, ok_cells, until

from skillcomp.errors import StudyError
from skillcomp.io.store import RunStore
from skillcomp.live.study_file import read_study

ROOT = Path(__file__).resolve().parent.parent


pytestmark = pytest.mark.usefixtures("fake_key")


def study(folder, url="http://127.0.0.1:1", **more):
    """Write the files of a study and its STUDY.yaml."""
    if not (folder / "skills").exists():
        make_files(folder, n_cases=2, gold=True)
    content = {
        "store": "runs/one",
        "skills": [f"skills/{slug}" for slug in SLUGS],
        "suites": [f"suites/{slug}.json" for slug in SLUGS],
        "agents": [{"kind": "anthropic", "model": AGENT, "base_url": url, "max_tokens": 500}],
        "graders": [
            {"agent": {"kind": "anthropic", "model": GRADER, "base_url": url}, "name": "g"}
        ],
        "repeats": 2,
        **more,
    }
    file = folder / "STUDY.yaml"
    file.write_text(yaml.safe_dump({k: v for k, v in content.items() if v is not None}))
    return file


def _estimate(out):
    """Return the rows that a dry run prints, by role."""
    lines = [line.split() for line in out.splitlines()]
    head = next(line for line in lines if line[:2] == ["role", "name"])
    return {
        line[0]: dict(zip(head, line, strict=True))
        for line in lines
        if line[0] in ("agent", "grader")
    }


def test_a_dry_run_tells_calls_and_dollars_asks_nobody_and_stores_nothing(
    tmp_path, monkeypatch, capfd
):
    with FakeAnthropic() as server:
        file = study(tmp_path, server.url, repeats=1)
        with monkeypatch.context() as without:
            without.delenv("ANTHROPIC_API_KEY")
            without.setattr("anthropic.AsyncAnthropic", None)  # no client is made
            code, out, _ = call(without, capfd, "run", file, "--dry-run", "--budget-usd", 1)
        rows_before = _estimate(out)
        assert code == 0 and not (tmp_path / "runs").exists() and not server.log
        assert [rows_before[role]["n_calls"] for role in ("agent", "grader")] == ["8", "8"]
        assert 0 < float(rows_before["agent"]["cost_usd"]) < 1
        assert rows_before["agent"]["minutes"] == "unknown"
        call(monkeypatch, capfd, "run", file, "--quiet")
        call(monkeypatch, capfd, "grade", file, "--quiet")
        file, n_asked = study(tmp_path, server.url, repeats=2), server.log.total()
        store = tmp_path / "runs" / "one"
        content = {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}
        _, out, _ = call(monkeypatch, capfd, "run", file, "--dry-run")
        again = _estimate(out)
        for role in ("agent", "grader"):
            counts = [again[role][name] for name in ("n_wanted", "n_recorded", "n_calls")]
            assert counts == ["16", "8", "8"] and float(again[role]["minutes"]) >= 0
        (tmp_path / "new").mkdir()
        for old in yaml.safe_load(file.read_text())["suites"]:
            new = tmp_path / "new" / f"new-{Path(old).name}"
            new.write_bytes((tmp_path / old).read_bytes())
        others = [f"new/{path.name}" for path in (tmp_path / "new").iterdir()]
        file = study(tmp_path, server.url, repeats=1, suites=others)
        _, out, _ = call(monkeypatch, capfd, "run", file, "--dry-run")
        assert [_estimate(out)[role]["n_calls"] for role in ("agent", "grader")] == ["8", "8"]
        assert server.log.total() == n_asked
        assert content == {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}


def test_a_dry_run_without_a_price_has_an_unknown_cost_or_is_refused_with_a_budget(
    tmp_path, monkeypatch, capfd
):
    local = {"kind": "openai", "model": "mine", "base_url": "http://127.0.0.1:1/v1"}
    file = study(tmp_path, agents=[local], graders=None)
    code, out, _ = call(monkeypatch, capfd, "run", file, "--dry-run")
    assert code == 0 and _estimate(out)["agent"]["cost_usd"] == "unknown"
    assert "note: no price for model 'mine'" in out
    code, _, err = call(monkeypatch, capfd, "run", file, "--dry-run", "--budget-usd", "1")
    assert code == 2 and "agent 'mine' cannot keep budget_usd: no price for model 'mine'" in err
    free = local | {"prices": [{"model": "mine", "input": 0, "output": 0}]}
    file = study(tmp_path, agents=[free], graders=None)
    code, out, _ = call(monkeypatch, capfd, "run", file, "--dry-run", "--budget-usd", "1")
    assert code == 0 and _estimate(out)["agent"]["cost_usd"] == "0.000"


def test_from_a_file_to_verdicts_in_two_commands(tmp_path, monkeypatch, capfd):
    with FakeAnthropic() as server:
        file = study(tmp_path, server.url, grading={"min_gold_agreement": 0.9})
        code, out, err = call(monkeypatch, capfd, "run", file)
        assert code == 0 and out.count(AGENT) == 2 and "answers: 100%" in err
        code, out, err = call(monkeypatch, capfd, "grade", file)
        # warnings come before the first grading
        assert code == 0 and err.index("are of one family") < err.index("verdicts of g")
        assert "1.0000" in out  # agreement with gold
    store = RunStore(tmp_path / "runs" / "one")
    assert len(ok_cells(store)) == 16 and store.table("verdicts").num_rows == 32
    for place in (file, store.path):
        code, out, _ = call(monkeypatch, capfd, "status", place)
        assert code == 0 and "at work: nobody" in out
        stages = [["run", AGENT, "baseline"], ["run", AGENT, "skill"], ["grade", "g", "-"]]
        assert [line.split()[:3] for line in out.splitlines()[1:4]] == stages


def test_what_is_left_open_gives_status_1_and_too_little_agreement_2(tmp_path, monkeypatch, capfd):
    with FakeAnthropic(["400"]) as server:
        file = study(tmp_path, server.url)
        code, _, err = call(monkeypatch, capfd, "run", file, "--quiet")
        assert code == 1 and "note: 1 of 16 cells have no answer yet after errors" in err
        assert call(monkeypatch, capfd, "run", file, "--quiet")[0] == 0
        code, _, err = call(monkeypatch, capfd, "grade", file, "--quiet", "--budget-usd", "0.001")
        assert code == 1 and "budget_usd 0.001" in err
        study(tmp_path, server.url, budget_usd=0.0011)
        code, _, err = call(monkeypatch, capfd, "grade", file, "--quiet")
        assert code == 1 and "budget_usd 0.0011" in err
        about = {"case_id": "tides/1", "id": "x", "answer": "It."}
        gold = about | {"labels": {"names_practice": False, "no_verbatim_span": False}}
        (tmp_path / "gold.jsonl").write_text(json.dumps(gold))
        study(tmp_path, server.url, grading={"gold": "gold.jsonl", "min_gold_agreement": 1.0})
        code, _, err = call(monkeypatch, capfd, "grade", file, "--quiet")
        assert code == 2 and "agreement with gold" in err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"batch": True}, r"batch: not a known key any more; for half the price, ask on Inspect"),
        ({"repeat": 2}, r"line \d+: repeat: not a known key; .*Did you mean 'repeats'\?"),
        ({"placebo": {"cli": 1}}, r"placebo.cli: found 1;"),
        (
            {"agents": [{"kind": "anthropic", "model": "m", "prices": [{"outptu": 2}]}]},
            r"agents\[0\].prices\[0\].outptu: not a known key; allowed: model, input, output, "
            r".*Did you mean 'output'\?",
        ),
        ({"repeats": 0}, r"line \d+: repeats: found 0; allowed: greater than 0"),
        (
            {"conditions": ["baseline", "skil"]},
            r"conditions\[1\]: found 'skil'; allowed: baseline, skill, .*Did you mean 'skill'\?",
        ),
        ({"agents": [{"model": "m"}]}, r"agents\[0\]: 'kind' is missing; allowed: anthropic"),
        (
            {"agents": [{"kind": "antropic", "model": "m"}]},
            r"kind: found 'antropic'; allowed: anthropic, .*Did you mean 'anthropic'\?",
        ),
        (
            {"agents": ["m", None]},
            r"agents\[0\]: found 'm'; write \{kind: anthropic, model: ...\}\. - line \d+: "
            r"agents\[1\]: found None; write \{kind: anthropic, model: ...\}\.",
        ),
        (
            {"agents": {"kind": "anthropic", "model": "m"}},
            r"agents: found .*; write \[\{kind: anthropic, model: ...\}\]\.",
        ),
        ({"grading": 0.9}, r"grading: found 0.9; write \{min_gold_agreement: 0.9\}\."),
        ({"skills": ["skills/tide"]}, r"skills: there is nothing at .*Did you mean 'tides'\?"),
        ({"agents": []}, r"'agents' is missing; there is nobody to ask"),
    ],
)
def test_a_mistake_in_the_file_is_told_with_its_place(
    tmp_path, monkeypatch, capfd, change, message
):
    file = study(tmp_path, **change)
    code, out, err = call(monkeypatch, capfd, "run", file)
    assert code == 2 and not out and "Traceback" not in err
    assert re.search(message, " ".join(err.split()))


def test_every_mistake_is_told_at_once_and_no_secret_is_repeated(tmp_path):
    agent = {"kind": "anthropic", "model": "m", "api_key": "sk-very-secret-0123"}
    file = study(tmp_path, agents=[agent], repeats="two", seed=1.5)
    with pytest.raises(StudyError, match="3 problems") as raised:
        read_study(file)
    told = str(raised.value)
    assert "Keys to services are read from the environment only." in told
    assert "sk-very-secret" not in told
    assert "repeats: found 'two'" in told and "seed: found 1.5" in told
    lines = file.read_text().splitlines()
    line = next(i for i, text in enumerate(lines, 1) if text.startswith("repeats"))
    assert f"line {line}: repeats" in told


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("store: [", r"STUDY.yaml, line \d+: not YAML"),
        ("store: !!python/object/apply:os.system [ls]\n", "not YAML"),
        (
            "store: s\nbudget_usd: 1\nbudget_usd: 500\n",
            r"STUDY.yaml, line 3: not YAML \('budget_usd' is given twice; first in line 2",
        ),
        (
            "store: s\nagents:\n- kind: cli\n  kind: cli\n",
            r"line 4: not YAML \('kind' is given twice",
        ),
        (
            "store: s\nagents: &all [*all]\n",
            r"with its aliases written out it has more than",
        ),
        (
            'store: "a\\0b"\nagents:\n- {kind: openai, model: m}\n',
            r"store: found 'a\\x00b'; a path holds no NUL",
        ),
    ],
)
def test_a_file_that_is_no_study_is_refused(tmp_path, monkeypatch, capfd, text, message):
    file = tmp_path / "STUDY.yaml"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    code, _, err = call(monkeypatch, capfd, "run", file)
    assert code == 2 and re.search(message, " ".join(err.split()))


TENFOLD = ["a0: &a0 [" + "x," * 10 + "]"]
TENFOLD += [f"a{i}: &a{i} [{f'*a{i - 1},' * 10}]" for i in range(1, 10)]


@pytest.mark.parametrize(
    "lines",
    [
        [*TENFOLD, "conditions: *a9"],
        ["a0: &a0 {a: b}", *(f"l{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}]}}" for i in range(1, 26))],
        ["a0: &a0 {a: b}", *(f"l{i}: &a{i} {{<<: *a{i - 1}, x: *a{i - 1}}}" for i in range(1, 26))],
    ],
)
def test_aliases_and_merge_keys_that_grow_at_each_level_are_refused_at_once(tmp_path, lines):
    file = tmp_path / "STUDY.yaml"
    file.write_text("\n".join([*lines, "store: s"]))
    begun = time.process_time()
    with pytest.raises(StudyError, match="aliases written out it has more than 1,048,576"):
        read_study(file)
    assert time.process_time() - begun < 1.0


def test_errors_of_the_lint_stop_a_run_unless_forced(tmp_path, monkeypatch, capfd):
    with FakeAnthropic() as server:
        file = study(tmp_path, server.url)
        skill = tmp_path / "skills" / SLUGS[0] / "SKILL.md"
        text = skill.read_text()
        skill.write_text(re.sub("description: .*", "description: ''", text, count=1))
        code, out, err = call(monkeypatch, capfd, "run", file, "--quiet")
        assert code == 2 and not out and "error: " in err
        assert not (tmp_path / "runs" / "one" / "attempts.jsonl").exists()
        assert "the lint finds" in err and "--force" in err
        assert call(monkeypatch, capfd, "run", file, "--quiet", "--force")[0] == 0


def test_without_a_key_or_a_file_nothing_is_asked_and_no_traceback_shows(
    tmp_path, monkeypatch, capfd
):
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    monkeypatch.setenv("HOME", str(tmp_path))
    code, _, err = call(monkeypatch, capfd, "run", study(tmp_path), "--quiet")
    assert code == 2 and "has no credentials" in err and "ANTHROPIC_API_KEY" in err
    code, _, err = call(monkeypatch, capfd, "run", tmp_path / "none.yaml")
    assert code == 2 and "there is no study here" in err
    code, _, err = call(monkeypatch, capfd, "status", tmp_path)
    assert code == 2 and "is not a recorded study: it has no manifest.json" in err


@contextmanager
def running(file, *, err):
    """Start ``skillcomp run`` as a process of its own with stderr in a file."""
    command = [sys.executable, "-c", "from skillcomp.cli import main; main()", "run", "--quiet"]
    with err.open("w") as stream:
        process = subprocess.Popen([*command, str(file)], stderr=stream, env=dict(os.environ))
    try:
        yield process
    finally:
        process.kill()
        process.wait(60)


def test_a_real_process_shows_its_state_while_it_runs_and_after_ctrl_c(
    tmp_path, monkeypatch, capfd
):
    log, store = tmp_path / "err", tmp_path / "runs" / "one"
    with FakeAnthropic(latency=0.3) as server:
        file = study(tmp_path, server.url, repeats=20, concurrency=2)
        with running(file, err=log) as process:
            until(lambda: server.log["POST /v1/messages 200"])
            code, out, _ = call(monkeypatch, capfd, "status", file)
            assert code == 0 and f"at work: process {process.pid} on" in out
            code, _, err = call(monkeypatch, capfd, "run", file, "--quiet")
            assert code == 2 and f"is being written by process {process.pid} on" in err
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 130
        n_paid = server.log["POST /v1/messages 200"]
    err = log.read_text()
    assert "interrupted" in err and "Traceback" not in err and KEY not in err
    assert len(ok_cells(RunStore(store))) == n_paid > 0
