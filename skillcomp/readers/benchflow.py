"""Rollouts of BenchFlow (SkillsBench): a ``result.json`` per rollout, alone or in a tree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from skillcomp.readers.harbor import FILE, first_files, rows_of_rewards
from skillcomp.readers.reader import (
    Problems,
    Reader,
    as_number,
    as_object,
    as_text,
    json_object,
    objects_below,
)


class BenchflowReader(Reader):
    """Reader of a rollout or of a tree of rollouts; the field ``skill_mode`` gives the arm."""

    name = "benchflow"

    def recognises(self, path: Path) -> bool:
        """Return whether the file, or a result.json below the folder, is a rollout."""
        return any(_is_rollout(json_object(file)) for file in first_files(path))

    def table(self, path: Path, problems: Problems) -> pd.DataFrame:
        """Return one row per rollout and reward."""
        rollouts = [part for part in objects_below(path, FILE, problems) if _is_rollout(part[1])]
        finished = {_cell_of(f, c) for f, c in rollouts if c.get("rewards") is not None}
        rows: list[dict[str, Any]] = []
        for file, content in rollouts:
            if content.get("rewards") is None and _cell_of(file, content) in finished:
                done = "left out: a later start in the same folder has a result"
                problems.add("rewards", "null, a start that failed", done)
                continue
            about = _facts_of_rollout(content)
            rows += rows_of_rewards(content.get("rewards"), about, problems)
        _report_unused(rows, problems)
        return pd.DataFrame(rows)


def _is_rollout(content: dict[str, Any]) -> bool:
    return {"task_name", "rollout_name", "rewards"} <= content.keys()


def _cell_of(file: Path, content: dict[str, Any]) -> tuple[str, ...]:
    """Return task, arm and parent folder, which are the same for all retries of a rollout."""
    folder = file.resolve().parent.parent
    return str(content.get("task_name")), str(content.get("skill_mode")), str(folder)


def _facts_of_rollout(content: dict[str, Any]) -> dict[str, Any]:
    n_used = as_number(content.get("n_skill_invocations"))
    error, category = as_text(content.get("error")), as_text(content.get("error_category"))
    is_missing = content.get("rewards") is None and not content.get("verifier_error")
    seconds = as_number(as_object(content.get("timing")).get("total"))
    timed_out = "timeout" in f"{category} {error}".lower().replace("timed out", "timeout")
    status = "timeout" if timed_out else "error" if is_missing else "ok"
    return {
        "case": as_text(content.get("task_name")),
        "condition": as_text(content.get("skill_mode")),
        "agent": as_text(content.get("agent")),
        "agent_model": as_text(content.get("model")),
        "status": status,
        "stop_reason": category or error,
        "seconds": seconds,
        "triggered": None if n_used is None else n_used > 0,
    }


def _report_unused(rows: list[dict[str, Any]], problems: Problems) -> None:
    """Report a problem if no rollout under the condition with the skill used the skill."""
    used = [r["triggered"] for r in rows if r["condition"] in ("with-skill", "with_skill")]
    if used and not any(used):
        done = "the delta is that of offering the skill, not of its text"
        problems.add("n_skill_invocations", "0 in every rollout with the skill", done, 0)
