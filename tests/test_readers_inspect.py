"""Logs of Inspect, written by inspect-ai with its mock model."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from build import problems, results

import skillcomp as sc
from skillcomp.errors import FrameError

KNOWN = {"skill": "sea", "grader_model": "none"}
# inspect-ai leaves streams open, and warnings would be errors of its samples
pytestmark = pytest.mark.filterwarnings("ignore")


def a_log(folder: Path, answers: list[str], arm: str, form: str) -> Path:
    """Ask two questions twice; the answer "stop" is an error of the model's service."""
    from inspect_ai import Task
    from inspect_ai import eval as evaluate
    from inspect_ai.dataset import Sample
    from inspect_ai.model import ModelOutput, ModelUsage, get_model
    from inspect_ai.scorer import includes

    outputs = [ModelOutput.from_content("mockllm/model", text) for text in answers]
    for output in outputs:
        output.usage = ModelUsage(input_tokens=7, output_tokens=2, total_tokens=9)
    samples = [Sample(id=name, input=f"{name}?", target="yes") for name in ("ebb", "flow")]
    evaluate(
        Task(dataset=samples, scorer=includes(), name="tides"),
        model=get_model("mockllm/model", custom_outputs=outputs),
        log_dir=str(folder),
        log_format=form,  # type: ignore[arg-type]
        epochs=2,
        metadata={"arm": arm},
        display="none",
        max_samples=1,
        fail_on_error=False,
    )
    (file,) = folder.iterdir()
    return file


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """An .eval log and a .json log, renamed: samples_df returns no rows of a renamed log."""
    pytest.importorskip("inspect_ai")
    folder = tmp_path_factory.mktemp("logs")
    first = a_log(folder / "a", ["yes", "no", "no", "no"], "plain", "eval")
    second = a_log(folder / "b", ["yes", "yes", "yes", "no"], "skilled", "json")
    paths = {"baseline": folder / "plain.eval", "skill": folder / "skilled.json"}
    for source, target in zip((first, second), paths.values(), strict=True):
        shutil.copy(source, target)
    return paths


def test_both_kinds_of_logs_become_frames(logs: dict[str, Path]) -> None:
    made = results(logs, **KNOWN)
    assert made.attempts.groupby("condition").size().tolist() == [4, 4]
    assert made.attempts["repeat"].max() == 2 and made.attempts["input_tokens"].eq(7).all()
    delta = sc.deltas.paired(made.outcomes).iloc[0]
    assert (delta["n_clusters"], delta["estimate"]) == (2, 0.5)
    assert made.attempts["agent_model"].unique().tolist() == ["mockllm/model"]
    assert made.verdicts["grader"].unique().tolist() == ["includes"]


def test_files_of_one_arm_only_are_a_confound(logs: dict[str, Path], tmp_path: Path) -> None:
    from inspect_ai.log import read_eval_log, write_eval_log

    log = read_eval_log(str(logs["skill"]), format="json")
    for sample in log.samples or []:
        sample.files = ["tides.csv"]
    file = tmp_path / "x.json"
    write_eval_log(log, str(file), format="json")
    made = results({"baseline": logs["baseline"], "skill": file}, **KNOWN)
    assert "delta is that of the files too" in problems(made)
    assert problems(results(logs, **KNOWN), "files") == ""


def test_the_arm_is_a_field_that_conditions_name(logs: dict[str, Path]) -> None:
    named = {
        "words": {"condition": {"plain": "baseline"}},
        "columns": {"metadata.arm": "condition"},
    }
    made = results(logs["baseline"], **named, **KNOWN)
    assert made.attempts["condition"].unique().tolist() == ["baseline"]
    with pytest.raises(FrameError, match="does not say which answers had the skill"):
        results(logs["baseline"], **KNOWN)


def test_an_error_or_a_lost_score_is_missing_and_a_partial_score_no_pass(logs, tmp_path):
    from inspect_ai.log import EvalError, read_eval_log, write_eval_log

    log = read_eval_log(str(logs["skill"]), format="json")
    samples: list[Any] = log.samples or []
    error = EvalError(message="overloaded", traceback="", traceback_ansi="")
    samples[0].error = error
    samples[1].scores = {}
    samples[2].scores["includes"].value = "P"
    samples[3].scores["includes"].value = 0.4
    log.status = "cancelled"
    file = tmp_path / "x.json"
    write_eval_log(log, str(file), format="json")
    made = results({"baseline": logs["baseline"], "skill": file}, **KNOWN)
    rows = made.outcomes[made.outcomes["condition"].eq("skill")]
    assert rows["passed"].isna().sum() == 3 and rows["passed"].eq(False).sum() == 1
    attempts = made.attempts[made.attempts["condition"].eq("skill")]
    assert attempts["status"].value_counts().to_dict() == {"ok": 3, "error": 1}
    assert "overloaded" in problems(made) and "cancelled" in problems(made)
    assert "the verdict is missing, not a fail" in problems(made)
    assert "P (partly correct)" in problems(made)


def test_arms_of_different_models_are_refused_and_lacking_samples_named(logs, tmp_path):
    other = tmp_path / "other.json"
    text = logs["skill"].read_text().replace("mockllm/model", "mockllm/other")
    other.write_text(text)
    arms = {"baseline": logs["skill"], "skill": other}
    with pytest.raises(FrameError, match=r"another agent \(baseline: mockllm/model; skill: mock"):
        results(arms, **KNOWN)
    made = results(arms, agent="mine", **KNOWN)
    assert "different models" in sc.report.answer(made).lines()[0]
    content = json.loads(logs["skill"].read_text())
    content["samples"] = [row for row in content["samples"] if row["id"] == "ebb"]
    part = tmp_path / "part.json"
    part.write_text(json.dumps(content))
    made = results({"baseline": logs["skill"], "skill": part}, **KNOWN)
    assert "1 case without answers under skill: flow" in problems(made)
