"""README's study with the real `claude` and `codex` of npm, on a loopback server; no model."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path

import pytest
from live_study import make_files
from loopback import Loopback, program
from typer.testing import CliRunner

import skillcomp as sc
from skillcomp.cli import app
from skillcomp.live import CliAgent
from skillcomp.live.agents.agent import Bounds, Cell, Reply

KEY = "sk-loopback-0123456789"
MODELS = {"claude": "claude-opus-5-5", "codex": "gpt-6"}


def script(text: str, turn: int) -> list[tuple[str, str]]:
    return [("command", "echo tide")] if turn == 0 else [("text", "The line that was recorded.")]


@pytest.fixture
def at_home(monkeypatch, tmp_path):
    """Leave the programs a key and no way out but loopback."""
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, KEY)
    for name in ("ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1")
    return tmp_path


def study_file(folder: Path, name: str, url: str) -> Path:
    """Write README's study for one skill and one program; its path is looked up by the shell."""
    make_files(folder, n_cases=1)
    agent = {"kind": "cli", "program": name, "model": MODELS[name], "timeout": 90}
    agent |= {"base_url": url, "passed": ["HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"]}
    made = {
        "store": "my-study", "skills": ["skills/tides"], "suites": ["suites/tides.json"],
        "agents": [agent], "conditions": ["baseline", "skill"], "repeats": 1,
    }  # fmt: skip
    path = folder / "study.yaml"
    path.write_text(json.dumps(made))
    return path


def url_for(name: str, server: Loopback) -> str:
    return server.url + ("/v1" if name == "codex" else "")


def run_study(name, folder, monkeypatch, **options):
    """Run README's study; return the server, the path of the study file and the outcome."""
    monkeypatch.setenv("PATH", str(Path(program(name)).parent), prepend=":")
    with Loopback(script, **options) as server:
        path = study_file(folder, name, url_for(name, server))
        return server, path, CliRunner().invoke(app, ["run", str(path)])


@pytest.mark.parametrize("name", ["claude", "codex"])
def test_readmes_study_runs_with_the_real_program(name, at_home, monkeypatch):
    server, path, ran = run_study(name, at_home, monkeypatch)
    assert ran.exit_code == 0, ran.output
    store = sc.RunStore(at_home / "my-study")
    attempts = sc.frames.attempts(store).set_index("condition")
    assert attempts["status"].eq("ok").all() and len(attempts) == 2
    assert attempts["answer"].eq("The line that was recorded.").all()
    assert attempts["n_commands"].eq(1).all() and attempts["input_tokens"].gt(0).all()
    settings = [json.loads(one["settings"]) for one in store.table("attempts").to_pylist()]
    assert {one["endpoint"] for one in settings} == {"127.0.0.1"}  # the endpoint that was asked
    assert any(KEY in key for key in server.keys)
    stored = b"".join(f.read_bytes() for f in store.path.rglob("*") if f.is_file())
    assert KEY.encode() not in stored
    again = CliRunner().invoke(app, ["run", str(path)])  # the server is gone: nothing is asked
    assert again.exit_code == 0, again.output


def test_a_key_that_is_refused_is_an_error_and_no_answer(at_home, monkeypatch):
    _, _, ran = run_study("claude", at_home, monkeypatch, status=401)
    told = f"{ran.output} {ran.exception}"
    assert ran.exit_code == 1 and "401" in told and KEY not in told, told
    attempts = sc.frames.attempts(sc.RunStore(at_home / "my-study"))
    assert attempts["status"].eq("error").all() and attempts["answer"].isna().all()


# what a case may try: the folders of other cases, the common temporary folder, and keys in any form
ATTACK = """for d in ../../*/work; do touch $d/planted; done; touch {0}/planted; touch own.txt
touch $TMPDIR/mine && echo tmp-ok; printenv CODEX_API_KEY | base64; printenv OPENAI_API_KEY | rev
env | grep KEY | base64; tr '\\0' '\\n' < /proc/$PPID/environ | grep KEY | xxd -p"""


def test_a_case_of_codex_reaches_no_other_case_and_no_key(at_home, monkeypatch):
    monkeypatch.setenv("PATH", str(Path(program("codex")).parent), prepend=":")
    common = at_home / "common"
    common.mkdir()
    monkeypatch.setenv("TMPDIR", str(common))
    attack = ATTACK.format(common)

    def say(text: str, turn: int) -> list[tuple[str, str]]:
        if turn:
            return [("text", "done")]
        return [("command", attack if "attack" in text else "sleep 3; touch note.md")]

    async def both(agent: CliAgent) -> list[Reply]:
        bounds = {n: Bounds("workspace-write", keep=at_home / n) for n in ("calm", "attack")}
        cells = [Cell(name, "skill", bounds=bound) for name, bound in bounds.items()]
        return await asyncio.gather(*(agent.ask(c.case_id, cell=c) for c in cells))

    with Loopback(say) as server:
        agent = CliAgent.codex("gpt-6", base_url=f"{server.url}/v1", timeout=90)
        replies = asyncio.run(both(agent))
    assert server.got == [] and len(server.asked) == 4  # no websocket was tried
    assert [reply.status for reply in replies] == ["ok", "ok"], replies
    left = {n: set(json.loads((at_home / n / "left.json").read_text())) for n in ("calm", "attack")}
    assert left == {"calm": {"note.md"}, "attack": {"own.txt", "planted"}}
    assert not (common / "planted").exists() and "tmp-ok" in replies[1].trace
    written = b"".join(f.read_bytes() for f in at_home.rglob("*") if f.is_file())
    written += "".join(reply.model_dump_json() for reply in replies).encode()
    raw = KEY.encode()
    encoded = [base64.b64encode(b"x" * k + raw).strip(b"=")[4:-2] for k in range(3)]
    for form in (raw, raw[::-1], raw.hex().encode(), *encoded):
        assert form not in written


SKILL = "---\nname: {0}\ndescription: How to read {0}, for high water.\n---\n# {0}\nMARK-{0}\n"
HEAD = "id,should_trigger,prompt,max_commands,max_input_tokens,output_schema,judge,require_files"
TABLE = f"""{HEAD},fixture
explicit-1,true,Use $tides for the harbour,4,9000,,true,note.md,fixtures/a
implicit-1,true,When is high water?,,,,,,
negative-1,false,What is a mortgage?,,,,,,
shape-1,true,Use $tides in a shape,,,schemas/s.json,,,
"""
SHAPE = {
    "type": "object",
    "properties": {"invoked_skills": {"type": "array", "items": {"type": "string"}}},
    "required": ["invoked_skills"],
    "additionalProperties": False,
}


def work_with_tides(name: str):
    """Return a script that invokes the skill in the program's own way, but for mortgages."""
    ids = ("trigger", "outcome", "process", "style", "efficiency")
    checks = [{"id": one, "pass": True, "notes": "trace.jsonl, line 4"} for one in ids]
    verdict = json.dumps({"overall_pass": True, "score": 88, "checks": checks})

    def say(text: str, turn: int) -> list[tuple[str, str]]:
        if "Judge the run" in text:
            return [("shape", verdict)] if turn else [("command", "ls")]
        if "mortgage" in text:
            return [("text", "A loan on a house.")]
        if "in a shape" in text:
            if turn == 0 and name == "claude":
                return [("skill", "tides")]
            return [("shape", '{"invoked_skills": ["tides"]}')]
        opening = ("skill", "tides")
        if name == "codex":
            opening = ("command", "cat ~/.codex/skills/tides/SKILL.md")
        steps = [opening, ("command", "ls"), ("command", "touch note.md")]
        return [steps[turn]] if turn < len(steps) else [("text", "The mark is read.")]

    return say


def run_triggers(name, folder, monkeypatch, *slugs, table=TABLE, status=200):
    """Run the triggers of tides with skills on offer; return the server and the outcome."""
    monkeypatch.setenv("PATH", str(Path(program(name)).parent), prepend=":")
    monkeypatch.chdir(folder)
    for slug in slugs:
        (folder / "skills" / slug).mkdir(parents=True)
        (folder / "skills" / slug / "SKILL.md").write_text(SKILL.format(slug))
    suite = folder / "evals" / "skills" / "tides"
    suite.mkdir(parents=True, exist_ok=True)
    (suite / "prompts.csv").write_text(table)
    args = ["trigger", "run", "--suite", "all", "--program", name, "--model", MODELS[name]]
    with Loopback(work_with_tides(name), status=status) as server:
        variable = {"claude": "ANTHROPIC_BASE_URL", "codex": "OPENAI_BASE_URL"}[name]
        monkeypatch.setenv(variable, url_for(name, server))
        return server, CliRunner().invoke(app, [*args, "--run-id", "r", "--quiet"])


@pytest.mark.parametrize("name", ["claude", "codex"])
def test_a_trigger_run_with_the_real_program_leaves_every_artefact(name, at_home, monkeypatch):
    folder = at_home / "evals" / "skills" / "tides"
    (folder / "fixtures" / "a").mkdir(parents=True)
    (folder / "fixtures" / "a" / "given.txt").write_text("given")
    (folder / "schemas").mkdir()
    (folder / "schemas" / "s.json").write_text(json.dumps(SHAPE))
    server, ran = run_triggers(name, at_home, monkeypatch, "tides", "ebbs")
    asked = [json.dumps(body) for path, body in server.asked if "count" not in path]
    run = at_home / "artifacts" / "skill-evals" / "r"
    told = (run / "summary.md").read_text() + ran.output
    assert ran.exit_code == 0 and "4 passed, 0 failed, 0 unknown" in ran.output, told
    for case in ("explicit-1", "implicit-1", "negative-1", "shape-1"):
        place = run / "work" / "tides" / case
        graded = json.loads((place / "grade.json").read_text())
        assert graded["deterministic"]["pass"] is True and graded["deterministic"]["exit_code"] == 0
        meta = json.loads((place / "meta.json").read_text())
        assert meta["run"]["offered"] == ["tides", "ebbs"]
        assert meta["run"]["invoked"] == ([] if case == "negative-1" else ["tides"])
        assert (place / "trace.jsonl").read_text().count("\n") > 2
        assert (place / "stderr.txt").exists()
    first = run / "work" / "tides" / "explicit-1"
    assert {"given.txt", "note.md"} <= {path.name for path in first.iterdir()}
    assert (first / "final.txt").read_text() == "The mark is read."
    assert json.loads((first / "judge.json").read_text())["score"] == 88
    shaped = run / "work" / "tides" / "shape-1" / "final.txt"
    assert json.loads(shaped.read_text()) == {"invoked_skills": ["tides"]}
    store = sc.RunStore(run / "store")
    commands = sc.frames.commands(store)
    assert commands["exit_code"].eq(0).all() and commands["text"].str.contains("touch").any()
    events = sc.frames.events(store)
    attempts = sc.frames.attempts(store).set_index("attempt_id")
    if name == "codex":  # one turn reports all; claude has a helper model that no event shows
        spent = events.groupby("attempt_id")["input_tokens"].sum()
        assert spent.eq(attempts["input_tokens"]).all()
        # why `triggered` may be read from the prompt: the text is there before the first event
        assert any("MARK-tides" in one for one in asked if "in a shape" in one)
    assert any("How to read ebbs" in one for one in asked)  # the neighbour is on offer
    fired = sc.frames.invocations(store).query("invoked")["offered"]
    assert set(fired) == {"tides"}


def test_a_quota_of_the_real_program_is_unknown_and_no_failed_skill(at_home, monkeypatch):
    table = "id,should_trigger,prompt\na,true,When is high water?\n"
    _, ran = run_triggers("codex", at_home, monkeypatch, "tides", table=table, status=429)
    assert "0 passed, 0 failed, 1 unknown" in ran.output, ran.output
    run = at_home / "artifacts" / "skill-evals" / "r"
    graded = json.loads((run / "work" / "tides" / "a" / "grade.json").read_text())
    assert graded["deterministic"]["pass"] is None
    assert sc.frames.verdicts(sc.RunStore(run / "store")).empty
