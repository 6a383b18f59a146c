"""skillcomp answer: from a table, a store or another tool's results to sentences and the page."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from build import results
from typer.testing import CliRunner

import skillcomp as sc
from skillcomp import cli
from skillcomp.cli import app
from skillcomp.report import page

NOTEBOOK = Path(__file__).parents[1] / "notebooks" / "my-study.ipynb"
ROWS = [
    {"case": f"c{i}", "skill": "sea", "condition": arm, "passed": arm == right or i == 0}
    for i in range(8)
    for arm, right in (("without", "with"), ("with", "with"))
]


@pytest.fixture
def no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the page, which takes seconds."""
    monkeypatch.setattr(page, "write_answer", lambda *_: "page/index.html")


@pytest.fixture
def no_answer(no_page: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the answer and its page where a test is about reading."""
    nothing = sc.report.Answer(pd.DataFrame({"sentence": []}), {}, {}, "", {})
    monkeypatch.setattr(sc.report, "answer", lambda *_, **__: nothing)


def run(*arguments: Any, input: str | None = None) -> Any:
    return CliRunner().invoke(app, ["answer", *map(str, arguments)], input=input)


def a_table(folder: Path, name: str = "own.csv", **words: str) -> Path:
    table = pd.DataFrame(ROWS)
    table["condition"] = table["condition"].replace(words)
    file = folder / name
    if file.suffix == ".csv":
        table.to_csv(file, index=False)
    else:
        table.to_parquet(file)
    return file


def test_a_study_is_answered_once_and_its_page_holds_its_problems(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    answer = sc.report.answer
    monkeypatch.setattr(sc.report, "answer", lambda *a, **k: calls.append(1) or answer(*a, **k))
    monkeypatch.setattr(page, "answer", lambda *a, **k: calls.append(2) or answer(*a, **k))
    file = tmp_path / "own.csv"
    pd.DataFrame(ROWS).assign(passed="yes").to_csv(file, index=False)
    result = run(results(file).save(tmp_path / "s"), "--out", tmp_path / "page")
    assert result.exit_code == 0, result.output
    assert calls == [1]
    assert "'yes' as True (16 rows)" in result.stdout and "note:" not in result.stderr
    html = (tmp_path / "page" / "index.html").read_text("utf-8")
    assert "Study <strong>s</strong>" in html and "as True (16 rows)" in html


@pytest.mark.usefixtures("no_answer")
def test_an_unknown_baseline_is_asked_for_and_otherwise_both_options_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = a_table(tmp_path, "own.parquet", **{"without": "alpha", "with": "beta"})
    out = ["--out", tmp_path / "page"]
    result = run(file, *out)
    message = str(result.exception)
    assert "Which of these is the baseline: alpha, beta?" in message
    assert "- --reference alpha\n- --reference beta\n" in message
    assert "- --words condition:alpha=... --words condition:beta=..." in message
    assert not (tmp_path / "page").exists()
    monkeypatch.setattr(cli, "in_terminal", lambda: True)
    asked = run(file, *out, input="alpha\n")
    assert asked.exit_code == 0 and "page:" in asked.output


def test_my_study_reads_what_answer_reads(tmp_path: Path) -> None:
    notebook = json.loads(NOTEBOOK.read_text("utf-8"))
    cells = ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code"]
    parameters, imports, reading = cells[:3]
    csv, parquet = a_table(tmp_path), a_table(tmp_path, "own.parquet")
    store, tool = results(csv).save(tmp_path / "s"), another_tool(tmp_path)
    arms = {"x": "skill", "y": "baseline"}
    places: list[tuple[Any, dict[str, Any]]] = [(csv, {}), (parquet, {}), (store, {})]
    places += [(tool, {"words": {"condition": arms}}), (one_arm_files(tmp_path), {"skill": "sea"})]
    for place, about in places:
        names: dict[str, Any] = {}
        exec(parameters, names)
        names |= {"DATA": str(place) if isinstance(place, Path) else place}
        names |= {"COLUMNS": {}, "MORE_COLUMNS": {}, "AMOUNTS": {}}
        names |= {"WORDS": about.get("words", {}), "ABOUT": about | {}}
        names["ABOUT"].pop("words", None)
        with warnings.catch_warnings():
            exec(f"{imports}\n{reading}", names)
        expected = results(place, **about)
        assert names["own"].outcomes.equals(expected.outcomes)
        assert names["own"].problems.equals(expected.problems)


def one_arm_files(folder: Path) -> dict[str, str]:
    """Test runs of deepeval: one case passes without the skill, and all four with it."""
    files = {}
    for arm, passes in (("baseline", 1), ("skill", 4)):
        rows = [{"name": "g", "success": at < passes} for at in range(4)]
        cases = [{"name": f"c{i}", "input": "?", "metricsData": [r]} for i, r in enumerate(rows)]
        files[arm] = str(folder / f"{arm}.json")
        Path(files[arm]).write_text(json.dumps({"testRunData": {"testCases": cases}}))
    return files


@pytest.mark.usefixtures("no_page")
def test_one_file_per_arm_and_what_the_files_do_not_name(tmp_path: Path) -> None:
    arms = [f"{arm}={file}" for arm, file in one_arm_files(tmp_path).items()]
    facts = ("--agent", "a", "--agent-model", "m", "--grader-model", "j", "--skill", "sea")
    result = run(*arms, *facts, "--out", tmp_path / "page")
    assert result.exit_code == 0, result.output
    assert "+75 points" in result.output and "not in the file" not in result.output
    message = str(run(arms[0], "skilled.json", *facts).exception)
    assert "give one path, or one per arm: baseline=FILE skill=FILE" in message


def another_tool(folder: Path) -> Path:
    """Results of plugin-eval with the unknown arms x and y."""
    cases = []
    for number in range(4):
        rows = {
            arm: [{"error": None, "graders": [{"name": "a", "passed": arm == "x" or number == 0}]}]
            for arm in ("x", "y")
        }
        cases.append({"name": f"c{number}", "arms": rows})
    file = folder / "aggregate-result.json"
    content = {"schemaVersion": 1, "claudeVersion": "2", "suite": {}, "cases": cases}
    file.write_text(json.dumps(content))
    return file


@pytest.mark.usefixtures("no_answer")
def test_results_of_another_tool_with_unknown_arms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = another_tool(tmp_path)
    content = json.loads(file.read_text())
    for case in content["cases"]:
        case["arms"]["with"] = case["arms"]["x"]
    (tmp_path / "three.json").write_text(json.dumps(content))
    assert "baseline: x, y, skill?" in str(run(tmp_path / "three.json").exception)
    out = ["--skill", "sea", "--out", tmp_path / "page"]
    message = str(run(file, *out).exception)
    assert "- --reference x\n- --reference y\n- --words condition:x=..." in message
    assert not (tmp_path / "page").exists()
    with monkeypatch.context() as patch:
        patch.setattr(cli, "in_terminal", lambda: True)
        asked = run(file, *out, input="y\n")
    assert asked.exit_code == 0 and "Which of these is the baseline: x, y?" in asked.output
    result = run(file, *out, "--words", "condition:y=baseline", "--words", "condition:x=skill")
    assert result.exit_code == 0, result.output


@pytest.mark.usefixtures("no_page")
def test_columns_of_a_table_are_named_on_the_command_line(tmp_path: Path) -> None:
    file, out = tmp_path / "own.csv", ["--out", tmp_path / "page"]
    names = {"case": "task", "passed": "ok", "condition": "arm"}
    table = pd.DataFrame(ROWS).rename(columns=names).assign(passed="a remark")
    table.to_csv(file, index=False)
    assert "--column task=case, --column arm=condition; no role: ok" in str(
        run(file, *out).exception
    )
    options = [f"--column={name}={role}" for role, name in names.items()]
    result = run(file, *options, *out)
    assert result.exit_code == 0, result.output
    assert result.output.splitlines()[:2] == run(a_table(tmp_path), *out).output.splitlines()[:2]


@pytest.mark.parametrize(("options", "message"), [
    (["taks=case"], "columns: found no column 'taks'; there: .*Did you mean 'task'"),
    (["task=cas"], "columns: 'task': found no role 'cas'; allowed: .*Did you mean 'case'"),
    (["task"], "answer: --column 'task'; expected "),
    (["task=case", "ok=case"], "'task' and 'ok' are both 'case'; give one column per role"),
])  # fmt: skip
def test_a_wrong_column_or_role_is_named(tmp_path: Path, options: list[str], message: str) -> None:
    file = tmp_path / "own.csv"
    pd.DataFrame({"task": ["a"], "ok": [True], "condition": "baseline"}).to_csv(file, index=False)
    result = run(file, *(f"--column={option}" for option in options), "--out", tmp_path / "page")
    assert re.search(message, str(result.exception), re.DOTALL), result.exception


@pytest.mark.usefixtures("no_page")
def test_cases_of_one_name_under_several_skills_are_one_task_or_two_as_stated(
    tmp_path: Path,
) -> None:
    sea = pd.DataFrame(ROWS)
    sky = sea.assign(skill="sky", passed=sea["passed"] | sea["case"].eq("c1"))
    file = tmp_path / "two.csv"
    pd.concat([sea, sky]).assign(human=True).to_csv(file, index=False)
    gold = ("--column", "human=gold")
    unknown = run(file, *gold).output
    assert "Not computed: effect of all skills" in unknown and "--own-cases" in unknown
    assert "Not computed: agreement" in unknown and "no gold labels" not in unknown
    assert "Without gold labels" not in unknown
    for option in ("--shared-cases", "--own-cases"):
        stated = run(file, option, *gold).output
        assert "Over all skills" in stated and "Not computed" not in stated, option
    with pytest.warns(sc.frames.FrameWarning):
        frames = sc.read_results(file, columns={"human": "gold"}, shared_cases=True)
    assert sc.deltas.paired(frames.outcomes)["n_clusters"].tolist() == [8]
