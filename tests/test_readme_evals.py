"""From a skill folder with evals/evals.json, and from other tools' results, to the page."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from test_readers_deepeval import a_case, metric, written
from test_readers_harbor import a_tree, put
from test_readers_inspect import a_log
from test_readers_plugin_eval import run
from test_readers_plugin_eval import written as plugin_file
from test_readers_promptfoo import row
from test_readers_promptfoo import written as promptfoo_file
from test_readers_skill_creator import grading
from typer.testing import CliRunner

import skillcomp as sc
from skillcomp.cli import app

ROOT = Path(__file__).resolve().parent.parent
SECTION = (ROOT / "docs/own-skill.md").read_text("utf-8").split("## From a skill's own evals")[1]
N_CASES = 4


def a_skill(folder: Path) -> None:
    folder.mkdir()
    (folder / "SKILL.md").write_text("---\nname: my-skill\ndescription: D.\n---\n# S\nBoil.\n")
    rows = [
        {"id": i, "prompt": f"Q{i}?", "expected_output": "x", "expectations": ["Says a", "Says b"]}
        for i in range(N_CASES)
    ]
    (folder / "evals").mkdir()
    text = json.dumps({"skill_name": "my-skill", "evals": rows})
    (folder / "evals" / "evals.json").write_text(text)


def record(folder: Path) -> None:
    """Record an answer and two verdicts for each case and condition."""
    attempts, verdicts = [], []
    for number in range(N_CASES):
        for condition in ("baseline", "skill"):
            name = f"my-skill/{number}/{condition}"
            fields = {"skill": "my-skill", "case_id": f"my-skill/{number}", "agent": "claude"}
            fields |= {"condition": condition, "answer": f"Answer {number} {condition}."}
            attempts.append({"attempt_id": name, **fields, "agent_model": "m"})
            for check in (1, 2):
                row = {"attempt_id": name, "check_id": f"expectation-{check}", "grader": "g"}
                row |= {"passed": condition == "skill" or number == 0, "grader_kind": "llm"}
                verdicts.append(row | {"grader_model": "j", "grader_version": "1"})
    store = sc.RunStore(folder)
    store.add_skill(folder.parent / "my-skill")
    store.add_suite(folder.parent / "my-skill" / "evals" / "evals.json")
    store.append("attempts", attempts)
    store.append("verdicts", verdicts)


def test_three_commands_lead_from_a_skill_folder_to_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_skill(tmp_path / "my-skill")
    record(tmp_path / "recorded")
    study = re.search(r"```yaml\n(.*?)```", SECTION, re.DOTALL)
    commands = re.search(r"```text\n(.*?)```", SECTION, re.DOTALL)
    assert study is not None and commands is not None
    lines = study[1].replace("repeats: 3", "repeats: 1").splitlines()
    lines = [line for line in lines if not line.startswith(("agents", "graders"))]
    lines += [f"{key}: [{{kind: replay, store: recorded}}]" for key in ("agents", "graders")]
    (tmp_path / "study.yaml").write_text("\n".join(lines))
    monkeypatch.chdir(tmp_path)
    steps = commands[1].strip().splitlines()
    assert len(steps) == 3
    for step in steps:
        result = CliRunner().invoke(app, step.split()[1:])
        assert result.exit_code == 0, (step, result.output, result.exception)
    assert "my-skill" in result.output and (tmp_path / "page" / "index.html").is_file()


def skill_creator(folder: Path) -> None:
    for case in ("one", "two", "three"):
        for arm in ("with_skill", "without_skill"):
            place = folder / "my-skill-workspace/iteration-1" / f"eval-{case}" / arm
            put(place / "grading.json", grading(True, arm == "with_skill" or case == "one"))


def plugin_eval(folder: Path) -> None:
    (folder / "evals/results/today").mkdir(parents=True)
    arms = {"with": [run(True)], "without": [run(False)]}
    plugin_file(folder / "evals/results/today", dict.fromkeys("abc", arms))


def promptfoo(folder: Path) -> None:
    rows = [
        row(at, prompt, tide, prompt != "plain" or tide == "ebb")
        for at, tide in enumerate(("ebb", "flow", "neap"))
        for prompt in ("plain", "with skill")
    ]
    promptfoo_file(folder, rows)


def inspect(folder: Path) -> None:
    pytest.importorskip("inspect_ai")
    for arm, answers in {"plain": ["yes", *["no"] * 3], "skilled": ["yes"] * 4}.items():
        log = a_log(folder / arm, answers, arm, "eval")
        log.rename(folder / "logs" / f"{arm}.eval")


def deepeval(folder: Path) -> None:
    for arm, passed in (("plain", False), ("skilled", True)):
        cases = [a_case(f"c{i}", metric(passed or i == 0)) for i in range(3)]
        written(folder / f"{arm}.json", *cases)


def harbor(folder: Path) -> None:
    a_tree(folder / "jobs")


@pytest.mark.filterwarnings("ignore")  # problems of the files; streams that inspect-ai leaves open
@pytest.mark.parametrize(
    "build", [skill_creator, plugin_eval, promptfoo, inspect, deepeval, harbor]
)
def test_three_lines_of_each_how_to_lead_to_delta_verdict_figure_and_page(
    build: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "logs").mkdir()
    build(tmp_path)
    monkeypatch.chdir(tmp_path)
    text = (ROOT / f"docs/results/{build.__name__.replace('_', '-')}.md").read_text("utf-8")
    code = re.search(r"```python\n(.*?)```", text, re.S)
    assert code is not None
    lines = [line for line in code[1].splitlines() if line and not line.startswith("import")]
    assert len(lines) <= 3
    plt.close("all")
    monkeypatch.setattr(sc.report, "build", an_empty_page)
    space: dict[str, Any] = {}
    exec(code[1], space)
    assert plt.get_fignums() and (tmp_path / "page" / "index.html").is_file()
    plt.close("all")
    assert len(space["verdicts"]) == len(space["delta"]) == 1
    assert space["delta"]["estimate"].gt(0).all() and space["delta"]["skill"].eq("my-skill").all()
    (tmp_path / "page" / "index.html").unlink()
    for command in re.findall(r"`skillcomp (answer .*?)`", text):
        # the answer itself is computed above
        monkeypatch.setattr(sc.report, "answer", lambda *_, **__: sc.report.Answer(*EMPTY))
        monkeypatch.setattr("skillcomp.report.page.write_answer", lambda *_: "page")
        result = CliRunner().invoke(app, shlex.split(command))
        assert (result.exit_code, result.exception) == (0, None), command


def an_empty_page(study: sc.frames.Frames, out: str, **_: object) -> None:
    """Stand for the report of a study."""
    assert len(study.outcomes)
    Path(out).mkdir()
    (Path(out) / "index.html").touch()


EMPTY: tuple[Any, ...] = (pd.DataFrame({"sentence": []}), {}, {}, "", {})
