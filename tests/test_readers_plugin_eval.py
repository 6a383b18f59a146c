"""Results of `claude plugin eval`, written by the tests in the shape of schema version 1."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
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


def written_cases(folder: Path, cases: list[dict[str, Any]]) -> Path:
    """Write a file with these cases."""
    file = written(folder, {})
    file.write_text(json.dumps(json.loads(file.read_text()) | {"cases": cases}))
    return file


def read(file: Path, **arguments: Any) -> sc.frames.Frames:
    return results(file, **(KNOWN | arguments))


ENDS = {  # text of an error, and the status and verdict of the attempt
    "timed out after 300 s": ("timeout", False),
    "reached the maximum turns (30)": ("truncated", False),
    "Claude usage limit reached": ("error", None),
    "invalid API key: credential rejected": ("error", None),
    "exit 1: (no stderr)": ("ok", False),  # the graders judged what it left
}


def test_every_trap_of_a_run_keeps_its_meaning(tmp_path):
    cases = {error: {"with": [run(False, error=error)]} for error in ENDS}
    cases["repeats"] = {"with": [run(True), run(True)], "without": [run(False), run(True)]}
    one_arm, skipped, voted = run(True), run(False, skippedPaidGraders=1), run(True)
    used = {"name": "used", "passed": True, "weight": 1, "scored": False, "withOnly": True}
    one_arm["graders"].append(used)
    skipped["graders"][0]["explanation"] = "skipped: cost ceiling"
    voted["graders"][0]["judgeVotes"] = [True, False, True]
    aborted = run(aborted={"server": "db", "tool": "drop", "reason": "expect"})
    cases |= {"one arm": {"with": [one_arm]}, "skipped": {"with": [skipped]}}
    cases |= {"voted": {"with": [voted]}, "aborted": {"with": [aborted]}}
    frames = read(written(tmp_path, {n: {"without": [run(True)]} | c for n, c in cases.items()}))
    skilled = frames.outcomes[frames.outcomes["condition"].eq("skill")]
    passed = skilled.groupby("case_id")["passed"].first().astype(object)
    attempts = frames.attempts[frames.attempts["condition"].eq("skill")]
    status = attempts.groupby("case_id")["status"].first()
    for error, (end, verdict) in ENDS.items():
        assert status[error] == end and (passed[error] is verdict or pd.isna(passed[error]))
    verdicts = frames.verdicts[frames.verdicts["condition"].eq("skill")].set_index("case_id")
    assert attempts.groupby("case_id")["repeat"].max()["repeats"] == 2  # no cases of their own
    assert passed["one arm"] and "in one arm only: 'used': left out" in problems(frames)
    assert verdicts.loc["skipped", "status"] == "error" and pd.isna(passed["skipped"])
    assert verdicts.loc["voted", ["passed", "borderline"]].tolist() == [True, True]
    assert round(verdicts.loc["voted", "score"], 2) == 0.67
    assert not passed["aborted"] and len(problems(frames))


def test_a_check_of_one_arm_that_is_not_marked_is_refused(tmp_path: Path) -> None:
    file = written(tmp_path, {"a": {"with": [run(True, True)], "without": [run(True)]}})
    with pytest.raises(sc.errors.FrameError, match=r"'a', check 'g2': only under skill.*'shared'"):
        sc.read_results(file, **KNOWN)
    frames = read(file, checks="shared")
    assert frames.verdicts["check_id"].unique().tolist() == ["g1"]
    assert "left out" in problems(frames)


def test_known_confounds_are_problems_with_a_consequence(tmp_path: Path) -> None:
    hours = {"with": (10, 11), "without": (12, 13)}
    arms = {
        arm: [run(True, startedAt=f"2026-11-01T{hour}:00:00Z") for hour in two]
        for arm, two in hours.items()
    }
    suite = {"ablation": "none", "plugins": [{"name": "sea"}]}
    frames = read(written(tmp_path, {"a": arms}, suite=suite, partial=True, partialReason="x"))
    assert "delta is that of the plugin" in problems(frames)
    assert "never combine" in problems(frames)
    assert "looks like an effect of the skill" in problems(frames)
    assert "ended early" in problems(frames)
    with pytest.warns(sc.frames.FrameWarning, match=r"ablation(.|\n)*order of the runs"):
        sc.read_results(tmp_path, **KNOWN)
    # the same hours in two time zones, and one run of two checks in each arm
    zones = {"with": "T10:00:00Z", "without": "T15:30:00+05:00"}
    arms["with"][1]["startedAt"] = "2026-11-01T20:00:00+09:00"
    arms["without"][0]["startedAt"] = "2026-11-01T15:30:00+05:00"
    single = {arm: [run(True, False, startedAt=f"2026-11-01{at}")] for arm, at in zones.items()}
    for quiet in (arms, single):
        assert "looks like an effect of the skill" not in problems(
            read(written(tmp_path, {"a": quiet}))
        )


def test_a_grader_on_the_tool_skill_gives_triggered(tmp_path: Path) -> None:
    tool = {"name": "used", "type": "tool_used", "config": {"tool": "Skill"}}
    graders = [tool, {"name": "never", "type": "tool_used", "config": {"tool": "Skill", "max": 0}}]
    row = {"name": "used", "passed": True, "weight": 1, "explanation": "", "withOnly": True}
    fact = {"name": "g1", "passed": True, "weight": 1, "explanation": "ok", "scored": True}
    attempt = {"error": None, "costUsd": 0.5, "graders": [row, fact], "durationSeconds": 9}
    plain = {**attempt, "graders": [fact]}
    both = {**attempt, "graders": [fact, fact | {"name": "never", "passed": False}]}
    cases = [{"name": "a", "graders": graders, "arms": {"with": [attempt], "without": [plain]}}]
    cases.append({"name": "b", "graders": graders, "arms": {"with": [both], "without": [both]}})
    content = {"schemaVersion": 1, "claudeVersion": "2.1.215", "suite": {}, "cases": cases}
    file = tmp_path / "own.json"
    file.write_text(json.dumps(content))
    frames = read(file)
    attempts = frames.attempts.set_index(["case_id", "condition"])
    triggered = attempts["triggered"].astype(object).where(attempts["triggered"].notna(), None)
    assert triggered.to_dict() == {
        **{("a", "skill"): True, ("a", "baseline"): None},
        **{("b", "skill"): True, ("b", "baseline"): True},
    }
    assert frames.verdicts["check_id"].unique().tolist() == ["g1"]
    assert "when the skill fires (triggered)" in problems(frames)
    assert attempts.loc[("a", "skill"), ["cost_usd", "seconds"]].tolist() == [0.5, 9]


USED = {"name": "used", "type": "tool_used", "config": {"tool": "Skill"}}
NEVER = {"name": "never", "type": "tool_used", "config": {"tool": "Skill", "min": 0, "max": 0}}


def of_skill(name: str, passed: bool) -> dict[str, Any]:
    """The row of a grader that looks at the tool Skill."""
    return {"name": name, "passed": passed, "weight": 1, "withOnly": True, "scored": False}


def prompts_only() -> list[dict[str, Any]]:
    """Six prompts on which the skill should fire, and four on which it should not."""
    cases = []
    for at in range(10):
        grader, passed = (USED, at > 1) if at < 6 else (NEVER, at > 6)
        arms = {"with": [run() | {"graders": [of_skill(grader["name"], passed)]}] * 2}
        cases.append({"name": f"p{at}", "graders": [grader], "arms": arms})
    return cases


def test_a_case_that_only_looks_at_the_skill_is_no_case_of_the_comparison(tmp_path: Path) -> None:
    arms = {"with": [run(True)], "without": [run(False)]}
    plain = {"name": "plain", "graders": [{"name": "g1", "type": "llm"}], "arms": arms}
    only = {**prompts_only()[2], "name": "only"}
    only["arms"] = only["arms"] | {"without": [run()] * 2}
    frames = read(written_cases(tmp_path, [plain, only]))
    assert frames.outcomes["case_id"].unique().tolist() == ["plain"]
    assert sc.deltas.paired(frames.outcomes)["estimate"].tolist() == [1]
    invocations = sc.frames.invocations(frames)
    assert invocations["case_id"].tolist() == ["only"] * 2 and invocations["invoked"].all()


@pytest.mark.parametrize("with_baseline", [False, True])
def test_a_file_of_prompts_only_is_answered_as_triggers(tmp_path, with_baseline):
    cases = prompts_only()
    for case in cases if with_baseline else ():
        case["arms"]["without"] = [run()] * 2
    frames = read(written_cases(tmp_path, cases))
    assert frames.cases["should_trigger"].tolist() == [True] * 6 + [False] * 4
    answer = sc.report.answer(frames)
    rows = answer.frames["triggers"].set_index(["kind", "measure"])["estimate"]
    assert rows["all", "recall"] == pytest.approx(4 / 6)
    assert rows["all", "precision"] == pytest.approx(4 / 5)
    assert rows["negative", "specificity"] == pytest.approx(3 / 4)
    assert any("of the invocations are right" in line for line in answer.lines())


def test_a_run_with_an_error_counts_by_its_verdicts_or_is_missing(tmp_path: Path) -> None:
    error = "exit 1: (no stderr)"
    lost = run(True, True, error=error)
    lost["graders"][1]["passed"] = None
    runs = [run(True, True, error=error), run(True, False, error=error), lost, run(True, True)]
    frames = read(written(tmp_path, {"a": {"with": runs, "without": [run(True, True)]}}))
    own = frames.outcomes[frames.outcomes["condition"].eq("skill")].sort_values("repeat")
    assert own["passed"].fillna(False).tolist() == [True, False, False, True]
    assert own["passed"].isna().tolist() == [False, False, True, False]
    rows = frames.problems[frames.problems["place"].eq("runs with an error")]
    assert rows["found"].eq(error).all() and rows["n"].tolist() == [2, 1]


@pytest.mark.parametrize(
    ("limits", "passed", "should", "fired"),
    [
        ({}, True, True, True),
        ({"min": 1}, False, True, False),
        ({"max": 0}, True, False, False),
        ({"min": 0, "max": 0}, False, False, True),
        ({"min": 2}, True, True, True),
        ({"min": 2}, False, True, None),  # it may have fired once
        ({"min": 1, "max": 1}, False, True, None),
        ({"min": 0}, True, None, None),
    ],
)
def test_the_limits_of_a_grader_say_what_is_known_about_the_skill(
    tmp_path, limits, passed, should, fired
):
    grader = {"name": "used", "type": "tool_used", "config": {"tool": "Skill", **limits}}
    one = run(True)
    one["graders"].append(of_skill("used", passed))
    case = {"name": "a", "graders": [{"name": "g1", "type": "llm"}, grader]}
    case["arms"] = {"with": [one], "without": [run(True)]}
    frames = read(written_cases(tmp_path, [case]))
    attempt = frames.attempts[frames.attempts["condition"].eq("skill")].iloc[0]
    known = frames.cases.reindex(columns=["should_trigger"]).iloc[0, 0]
    for value, right in ((known, should), (attempt.get("triggered"), fired)):
        assert pd.isna(value) if right is None else value == right


def test_graders_of_several_skills_and_outages_of_the_service(tmp_path: Path) -> None:
    cases = prompts_only()
    cases[0]["graders"] = [USED | {"config": {"tool": "Skill", "input_match": "maps"}}]
    cases[1]["graders"] = [USED | {"config": {"tool": "Skill", "input_match": "tides"}}]
    plain = {"name": "plain", "graders": [{"name": "g1", "type": "llm"}]}
    late = run(False, error="API Error (Request timed out.)")
    plain["arms"] = {"with": [late], "without": [run(True)]}
    frames = read(written_cases(tmp_path, [*cases, plain]))
    assert frames.attempts.reindex(columns=["triggered"])["triggered"].isna().all()
    assert "whether the skill fires is not read" in problems(frames)
    own = frames.outcomes[frames.outcomes["case_id"].eq("plain")].set_index("condition")
    assert pd.isna(own.loc["skill", "passed"]) and own.loc["baseline", "passed"]
