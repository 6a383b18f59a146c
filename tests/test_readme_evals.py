"""From a skill folder with evals/evals.json, and from other tools' results, to the page."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
from test_readers_deepeval import a_case, metric, written
from test_readers_harbor import a_tree, put, rollout
from typer.testing import CliRunner

import skillcomp as sc
from skillcomp.cli import app

ROOT = Path(__file__).resolve().parent.parent
SECTION = (ROOT / "README.md").read_text(encoding="utf-8").split("### From a skill's own evals")[1]
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


@pytest.mark.parametrize("name", ["deepeval", "harbor", "benchflow"])
def test_three_lines_of_each_how_to_lead_to_delta_verdict_figure_and_page(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for arm, passed in (("plain", False), ("skilled", True)):
        cases = [a_case(f"c{i}", metric(passed or i == 0)) for i in range(3)]
        written(tmp_path / f"{arm}.json", *cases)
    a_tree(tmp_path / "jobs")
    for task in ("ebb", "flow"):
        for mode in ("no-skill", "with-skill"):
            content = rollout(task, mode, float(mode == "with-skill"), 1)
            put(tmp_path / "rollouts" / task / mode / "r1" / "a" / "result.json", content)
    monkeypatch.chdir(tmp_path)
    code = re.search(r"```python\n(.*?)```", (ROOT / f"docs/results/{name}.md").read_text(), re.S)
    assert code is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        space: dict[str, object] = {}
        exec(code[1], space)
    plt.close("all")
    assert (tmp_path / "page" / "index.html").is_file()
    assert len(space["verdicts"]) == len(space["delta"]) == 1  # type: ignore[arg-type]
