"""Trials of Harbor, written by the tests in their shape."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from build import problems, results

import skillcomp as sc
from skillcomp.errors import FrameError

JOBS = {"plain": "baseline", "skilled": "skill"}
KNOWN = {"skill": "sea"}


def put(file: Path, content: dict[str, Any]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content))


def trial(task: str, reward: float | None, **facts: Any) -> dict[str, Any]:
    return {
        "task_name": task,
        "trial_name": f"{task}__x",
        "config": {"agent": {"name": "claude", "model_name": "m", "skills": []}},
        "agent_info": {"name": "claude-code", "model_info": {"name": "m"}},
        "agent_result": {"n_input_tokens": 10, "n_cache_tokens": 2, "n_output_tokens": 3},
        "verifier_result": None if reward is None else {"rewards": {"reward": reward}},
        "exception_info": None if reward is not None else {"exception_type": "DockerError"},
        "started_at": "2026-11-01T10:00:00",
        "finished_at": "2026-11-01T10:01:30",
        **facts,
    }


def a_tree(root: Path, *, start: float | None = 1.0, **facts: Any) -> Path:
    for job in JOBS:
        put(root / job / "result.json", {"n_total_trials": 2})  # the job has one, too
        for number, task in enumerate(("ebb", "flow")):
            passed = float(job == "skilled") if number else start
            put(root / job / f"{task}__x" / "result.json", trial(task, passed, **facts))
    return root


def test_the_folder_of_the_job_names_the_arm_of_a_whole_tree(tmp_path: Path) -> None:
    made = results(
        a_tree(tmp_path), words={"condition": JOBS}, columns={"job": "condition"}, **KNOWN
    )
    delta = sc.deltas.paired(made.outcomes).iloc[0]
    assert (delta["n_clusters"], delta["estimate"]) == (2, 0.5)
    assert problems(made) == ""  # tests have no model
    assert made.attempts["seconds"].eq(90).all() and made.attempts["input_tokens"].eq(10).all()
    with pytest.raises(FrameError, match="job: 'plain', 'skilled'"):
        results(a_tree(tmp_path), **KNOWN)


def test_a_trial_that_never_started_is_missing_and_reported(tmp_path: Path) -> None:
    made = results(
        a_tree(tmp_path, start=None),
        words={"condition": JOBS},
        columns={"job": "condition"},
        **KNOWN,
    )
    assert made.attempts.set_index("case_id")["status"]["ebb"].eq("error").all()
    assert "the answer is missing" in problems(made)
    assert sc.deltas.paired(made.outcomes)["n_clusters"].iloc[0] == 1


def test_a_time_limit_is_a_result_and_a_reward_in_between_is_no_pass(tmp_path: Path) -> None:
    late = {"exception_info": {"exception_type": "AgentTimeoutError"}}
    made = results(
        a_tree(tmp_path, **late), words={"condition": JOBS}, columns={"job": "condition"}, **KNOWN
    )
    assert made.attempts["status"].eq("timeout").all() and made.outcomes["passed"].notna().all()
    made = results(
        a_tree(tmp_path, start=0.4),
        words={"condition": JOBS},
        columns={"job": "condition"},
        **KNOWN,
    )
    assert made.verdicts.set_index("case_id").loc["ebb", "passed"].isna().all()
    assert "without a pass mark" in problems(made)


def test_costs_that_disagree_are_unknown(tmp_path: Path) -> None:
    spent = {"cost_usd": 0.3535, "model_usage": [{"cost_usd": 0.2976}]}
    made = results(
        a_tree(tmp_path, agent_result=spent),
        words={"condition": JOBS},
        columns={"job": "condition"},
        **KNOWN,
    )
    assert made.attempts["cost_usd"].isna().all()
    assert "cost_usd 0.3535, model_usage 0.2976" in problems(made)


def test_of_trials_that_were_run_again_the_last_try_counts(tmp_path: Path) -> None:
    a_tree(tmp_path)
    early = {"started_at": "2026-11-01T09:00:00", "finished_at": "2026-11-01T09:01:00"}
    put(tmp_path / "skilled" / "flow__y" / "result.json", trial("flow", None, **early))
    # an error beside the other try, not before it, is a missing answer of its own
    put(tmp_path / "plain" / "flow__y" / "result.json", trial("flow", None))
    made = results(tmp_path, words={"condition": JOBS}, columns={"job": "condition"}, **KNOWN)
    flow = made.outcomes[made.outcomes["case_id"].eq("flow")]
    assert flow.groupby("condition").size().to_dict() == {"baseline": 2, "skill": 1}
    assert "earlier tries: ended by DockerError: left out" in problems(made)


def test_a_reward_without_a_number_is_missing(tmp_path: Path) -> None:
    a_tree(tmp_path)
    lost = trial("ebb", 1.0, verifier_result={"rewards": {"reward": None}})
    put(tmp_path / "plain" / "ebb__x" / "result.json", lost)
    made = results(tmp_path, words={"condition": JOBS}, columns={"job": "condition"}, **KNOWN)
    assert made.outcomes["passed"].isna().sum() == 1
    assert "reward 'reward': None: the verdict is missing, not a fail" in problems(made)


def test_planned_trials_with_an_error_are_missing_and_those_with_a_reward_named(tmp_path):
    a_tree(tmp_path)
    for hour in (8, 9):  # three trials a task, one after the other
        times = {"started_at": f"2026-11-01T0{hour}:00:00", "finished_at": f"2026-11-01T0{hour}:09"}
        for job in JOBS:
            for task in ("ebb", "flow"):
                failed = (hour, job, task) == (8, "skilled", "ebb")
                content = trial(task, None if failed else 1.0, **times)
                put(tmp_path / job / f"{task}__{hour}" / "result.json", content)
    lost = trial("flow", 0.0, exception_info={"exception_type": "NonZeroAgentExitCodeError"})
    put(tmp_path / "plain" / "flow__x" / "result.json", lost)
    made = results(tmp_path, words={"condition": JOBS}, columns={"job": "condition"}, **KNOWN)
    assert made.outcomes.groupby(["case_id", "condition"]).size().eq(3).all()
    assert made.outcomes["passed"].isna().sum() == 1
    assert "NonZeroAgentExitCodeError: they have a reward, which counts" in problems(made)
