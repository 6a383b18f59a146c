"""Results of `claude plugin eval`, written by the tests in the shape of schema version 1."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from build import problems, results

import skillcomp as sc

KNOWN = {"skill": "sea", "agent_model": "m", "grader_model": "j"}


def run(*passed: bool | None, error: str | None = None, **facts: Any) -> dict[str, Any]:
    """One run with a grader `g1`, `g2` and so on for each verdict."""
    rows = [
        {"name": f"g{at}", "passed": bool(p), "weight": 1, "explanation": "", "scored": True}
        for at, p in enumerate(passed, start=1)
    ]
    return {"score": 0, "passed": False, "error": error, "graders": rows, **facts}


def written(folder: Path, cases: Mapping[str, Mapping[str, Any]], **facts: Any) -> Path:
    """Write a file with these arms of each case."""
    graders = [{"name": f"g{at}", "type": "llm"} for at in range(1, 4)]
    content = {
        "schemaVersion": 1,
        "claudeVersion": "2.1.269",
        "suite": {"ablation": "with-without"},
        "cases": [{"name": n, "graders": graders, "arms": arms} for n, arms in cases.items()],
    }
    file = folder / "aggregate-result.json"
    file.write_text(json.dumps(content | facts))
    return file


def read(file: Path, **arguments: Any) -> sc.frames.Frames:
    return results(file, **(KNOWN | arguments))


def test_repeats_are_attempts_of_one_case(tmp_path: Path) -> None:
    arms = {"with": [run(True), run(True)], "without": [run(False), run(True)]}
    frames = read(written(tmp_path, {name: arms for name in "abc"}))
    assert frames.attempts.groupby("case_id")["repeat"].max().tolist() == [2, 2, 2]
    delta = sc.deltas.paired(frames.outcomes).iloc[0]
    assert (delta["estimate"], delta["n_clusters"]) == (0.5, 3)  # 6 when repeats were cases


def test_graders_of_one_arm_are_left_out_and_reported(tmp_path: Path) -> None:
    used = {"name": "used", "passed": True, "weight": 1, "explanation": "", "scored": False}
    with_arm = run(True)
    with_arm["graders"].append(used | {"withOnly": True})
    file = written(tmp_path, {"a": {"with": [with_arm], "without": [run(True)]}})
    frames = read(file)
    assert frames.outcomes["n_missing"].tolist() == [0, 0] and frames.outcomes["passed"].all()
    assert "'used' is not scored in both arms: left out" in problems(frames, "graders")


def test_a_grader_on_the_tool_skill_is_no_check_even_if_both_arms_have_it(tmp_path: Path) -> None:
    arms = {"with": [run(True, False)], "without": [run(False, True)]}
    file = written(tmp_path, {"a": arms})
    content = json.loads(file.read_text())
    content["cases"][0]["graders"][1] |= {
        "type": "tool_used",
        "config": {"tool": "Skill", "min": 0, "max": 0},
    }
    file.write_text(json.dumps(content))
    frames = read(file)
    assert frames.verdicts["check_id"].unique().tolist() == ["g1"]
    assert frames.attempts.set_index("condition")["triggered"].to_dict() == {
        "skill": True,
        "baseline": False,
    }
    assert "read as 'triggered'" in problems(frames, "graders")


def test_a_check_of_one_arm_that_is_not_marked_is_refused(tmp_path: Path) -> None:
    file = written(tmp_path, {"a": {"with": [run(True, True)], "without": [run(True)]}})
    with pytest.raises(sc.errors.FrameError, match=r"'a', check 'g2': only under skill.*'shared'"):
        sc.read_results(file, **KNOWN)
    frames = read(file, checks="shared")
    assert frames.verdicts["check_id"].unique().tolist() == ["g1"]
    assert "left out" in problems(frames, "checks=")


def test_a_skipped_paid_grader_is_missing_not_failed(tmp_path: Path) -> None:
    skipped = run(False, skippedPaidGraders=1)
    skipped["graders"][0]["explanation"] = "skipped: cost ceiling"
    frames = read(written(tmp_path, {"a": {"with": [skipped], "without": [run(True)]}}))
    of_skill = frames.verdicts["condition"].eq("skill")
    assert frames.verdicts.loc[of_skill, ["status"]].to_numpy().tolist() == [["error"]]
    assert frames.outcomes.loc[frames.outcomes["condition"].eq("skill"), "passed"].isna().all()


@pytest.mark.parametrize(
    ("error", "status", "passed"),
    [
        ("timed out after 300 s", "timeout", False),
        ("reached the maximum turns (30)", "truncated", False),
        ("Claude usage limit reached", "error", None),
        ("invalid API key: credential rejected", "error", None),
        ("something odd", "error", None),
    ],
)
def test_an_error_is_a_result_or_missing_by_its_text(
    tmp_path: Path, error: str, status: str, passed: bool | None
) -> None:
    arms = {"with": [run(False, error=error)], "without": [run(True)]}
    frames = read(written(tmp_path, {"a": arms}))
    assert frames.attempts["status"].tolist() == [status, "ok"]
    outcome = frames.outcomes.set_index("condition").loc["skill", "passed"]
    assert (outcome is not None and outcome == False) if passed is False else outcome is not True  # noqa: E712
    assert frames.outcomes["passed"].isna().sum() == (passed is None)
    assert len(problems(frames, "error"))


def test_an_aborted_run_is_a_failed_attempt(tmp_path: Path) -> None:
    aborted = {**run(), "aborted": {"server": "db", "tool": "drop", "reason": "expect"}}
    frames = read(written(tmp_path, {"a": {"with": [aborted], "without": [run(True, True)]}}))
    assert frames.outcomes.set_index("condition")["passed"].to_dict() == {
        "skill": False,
        "baseline": True,
    }


def test_three_votes_are_one_verdict(tmp_path: Path) -> None:
    voted = run(True)
    voted["graders"][0]["judgeVotes"] = [True, False, True]
    frames = read(written(tmp_path, {"a": {"with": [voted], "without": [run(False)]}}))
    row = frames.verdicts.iloc[0]
    assert (row["passed"], row["borderline"], round(row["score"], 2)) == (True, True, 0.67)
    assert len(frames.verdicts) == 2


def test_known_confounds_are_problems_with_a_consequence(tmp_path: Path) -> None:
    start = {"with": "2026-11-01T10:00:00Z", "without": "2026-11-01T12:00:00Z"}
    arms = {arm: [run(True, startedAt=at)] * 2 for arm, at in start.items()}
    suite = {"ablation": "none", "plugins": [{"name": "sea"}]}
    frames = read(written(tmp_path, {"a": arms}, suite=suite, partial=True, partialReason="x"))
    assert "delta is that of the plugin" in problems(frames, "suite.plugins")
    assert "never combine" in problems(frames, "suite.ablation")
    assert "looks like an effect of the skill" in problems(frames, "startedAt")
    assert "ended early" in problems(frames, "partial")
    with pytest.raises(sc.errors.FrameError, match=r"4 problems:(.|\n)*ablation(.|\n)*startedAt"):
        sc.read_results(tmp_path, **KNOWN, strict=True)


def test_a_skill_tool_grader_gives_triggered_and_old_keys_are_read(tmp_path: Path) -> None:
    graders = [{"name": "used", "type": "tool_used", "config": {"tool": "Skill"}}]
    row = {"name": "used", "passed": True, "weight": 1, "explanation": "", "with_only": True}
    attempt = {"error": None, "cost_usd": 0.5, "graders": [row], "duration_seconds": 9}
    fact = {"name": "g1", "passed": True, "weight": 1, "explanation": "ok", "scored": True}
    attempt["graders"] = [row, fact]
    plain = {**attempt, "graders": [fact]}
    case = {"name": "a", "graders": graders, "arms": {"with": [attempt], "without": [plain]}}
    content = {"schema_version": 1, "claude_version": "2.1.200", "suite": {}, "cases": [case]}
    file = tmp_path / "old.json"
    file.write_text(json.dumps(content))
    attempts = read(file).attempts.set_index("condition")
    assert attempts.loc["skill", "triggered"] and attempts["triggered"].isna().sum() == 1
    assert attempts.loc["skill", ["cost_usd", "seconds"]].tolist() == [0.5, 9]
