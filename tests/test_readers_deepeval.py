"""Test runs of deepeval, written by the tests in its shape."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from build import problems, results

import skillcomp as sc

KNOWN = {"skill": "sea", "agent_model": "m"}


def metric(success: bool, **facts: Any) -> dict[str, Any]:
    base = {"name": "Correct", "threshold": 0.5, "success": success, "score": float(success)}
    return {**base, "evaluationModel": "judge-1", **facts}


def a_case(name: str, *metrics: dict[str, Any], **facts: Any) -> dict[str, Any]:
    return {
        **{"name": name, "input": f"What about {name}?", "actualOutput": "An answer."},
        **{"success": all(m["success"] for m in metrics), "metricsData": list(metrics)},
        **{"runDuration": 1.5, "order": 0, **facts},
    }


CRASH = metric(False, score=None, error="Rate limit of the judge")


def written(file: Path, *cases: dict[str, Any], key: str | None = "testRunData") -> Path:
    content: dict[str, Any] = {"testCases": list(cases)}
    file.write_text(json.dumps({key: content} if key else {"testFile": "t.py", **content}))
    return file


def test_a_crashed_judge_is_missing_and_no_fail(tmp_path: Path) -> None:
    crashed = [a_case(name, CRASH) for name in ("b", "c", "d")]
    paths = {
        "baseline": written(tmp_path / "0.json", a_case("a", metric(True)), *crashed),
        "skill": written(tmp_path / "1.json", *(a_case(n, metric(True)) for n in "abcd")),
    }
    made = results(paths, **KNOWN)
    baseline = made.outcomes[made.outcomes["condition"].eq("baseline")]
    # success is false in the file for all three, as for a failed answer
    assert baseline["passed"].eq(True).sum() == 1 and baseline["passed"].isna().sum() == 3
    statuses = made.verdicts.loc[made.verdicts["passed"].isna(), "status"]
    assert statuses.tolist() == ["error"] * 3
    assert "the judge crashed" in problems(made)
    assert made.verdicts["grader_model"].dropna().unique().tolist() == ["judge-1"]
    assert sc.deltas.paired(made.outcomes)["n_clusters"].iloc[0] == 1


def test_a_position_is_no_case(tmp_path: Path) -> None:
    first = [a_case("test_case_0", metric(True), input="A?")]
    second = [
        a_case("test_case_0", metric(True), input="B?"),
        a_case("test_case_1", metric(False), input="A?"),
    ]
    paths = {"baseline": written(tmp_path / "0.json", *first, key=None)}
    paths["skill"] = written(tmp_path / "1.json", *second)
    made = results(paths, **KNOWN)
    delta = sc.deltas.paired(made.outcomes).iloc[0]
    assert (delta["n_clusters"], delta["estimate"]) == (1, -1)  # by name: 0
    assert "positions" in problems(made)
