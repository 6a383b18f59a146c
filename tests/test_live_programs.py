"""README's study with the real `claude` and `codex` of npm, on a loopback server; no model."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parent))
from live_study import make_files
from loopback import Loopback, program

import skillcomp as sc
from skillcomp.cli import app

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


@pytest.mark.parametrize("name", ["claude", "codex"])
def test_readmes_study_runs_with_the_real_program(name, at_home, monkeypatch):
    real = Path(program(name))
    monkeypatch.setenv("PATH", str(real.parent), prepend=":")
    with Loopback(script) as server:
        path = study_file(at_home, name, server.url + ("/v1" if name == "codex" else ""))
        ran = CliRunner().invoke(app, ["run", str(path)])
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


@pytest.mark.parametrize("name", ["claude", "codex"])
def test_a_key_that_is_refused_is_an_error_and_no_answer(name, at_home, monkeypatch):
    real = Path(program(name))
    monkeypatch.setenv("PATH", str(real.parent), prepend=":")
    with Loopback(script, status=401) as server:
        path = study_file(at_home, name, server.url + ("/v1" if name == "codex" else ""))
        ran = CliRunner().invoke(app, ["run", str(path)])
    told = f"{ran.output} {ran.exception}"
    assert ran.exit_code == 1 and "401" in told, told
    assert KEY not in told
    attempts = sc.frames.attempts(sc.RunStore(at_home / "my-study"))
    assert attempts["status"].eq("error").all() and attempts["answer"].isna().all()
