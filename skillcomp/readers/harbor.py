"""Trials of Harbor: a ``result.json`` per trial, alone or in a tree of jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd

from skillcomp.errors import FrameError, literal
from skillcomp.io.files import (
    JsonObject,
    as_number,
    as_object,
    files_below,
    json_object,
    list_of_objects,
    number_at,
    object_at,
    read_json,
    text_at,
)
from skillcomp.readers.reader import Problems, Reader, passes, rows_of_attempt

FILE = "result.json"
_MISSING = "the verdict is missing, not a fail"
_FIRST = 20  # maximum number of files below a folder that are tried to recognise the format
_ERRORS = "trials with an error"
_Cell = tuple[str | None, ...]  # job, task, agent and model of a trial
_CENT = 0.005  # largest allowed difference between the two recorded costs of a trial, in dollars


class HarborReader(Reader):
    """Reader of a trial or of a tree of trials; the job's folder or the skills name the arm."""

    name = "harbor"

    def recognises(self, path: Path) -> bool:
        """Return whether the file, or a result.json below the folder, is a trial of Harbor."""
        files = [path] if path.is_file() else islice(path.rglob(FILE), _FIRST)
        return any(_is_trial(json_object(file)) for file in files)

    def table(self, path: Path, problems: Problems) -> pd.DataFrame:
        """Return one row per trial and reward; column ``job`` or ``skills`` may name the arm."""
        rows = []
        for (job, *_), content in _last_tries(list(_trials_at(path, problems)), problems):
            about = {**_facts_of_trial(content, problems), "job": job}
            rows += rows_of_attempt(about, _verdicts_of_rewards(content, about["status"], problems))
        return pd.DataFrame(rows)


def _trials_at(path: Path, problems: Problems) -> Iterator[tuple[_Cell, JsonObject]]:
    """Yield the trials in a file or below a folder; a file that is not JSON is reported."""
    root = path if path.is_dir() else path.parent
    for file in [path] if path.is_file() else files_below(path, FILE):
        try:
            content = as_object(read_json(file, root))
        except FrameError as error:
            reason = str(error).removeprefix(f"{file}: ").rstrip(".")
            found = f"{file.relative_to(root)}: {reason}"
            problems.add("files that cannot be read", found, "left out; their answers are missing")
            continue
        if _is_trial(content):  # another result.json describes a whole job
            yield _cell_of(file, content), content


def _last_tries(
    trials: list[tuple[_Cell, JsonObject]], problems: Problems
) -> Iterator[tuple[_Cell, JsonObject]]:
    """Yield the trials without those that ended with an error and were run again later."""
    last_start: dict[_Cell, str] = {}
    whole, every = Counter[_Cell](), Counter[_Cell]()
    for cell, content in trials:
        start = text_at(content, "started_at") or ""
        last_start[cell] = max(start, last_start.get(cell, ""))
        every[cell] += 1
        whole[cell] += _kind_of_error(content) is None
    planned = max(whole.values(), default=0)  # a cell with more trials has some that were repeated
    for cell, content in trials:
        end, kind = text_at(content, "finished_at"), _kind_of_error(content)
        if (
            kind
            and not _is_of_agent(kind)
            and every[cell] > planned
            and end
            and end <= last_start[cell]
        ):
            every[cell] -= 1
            problems.add("earlier tries", f"ended by {kind}", "left out: the task was run again")
        else:
            yield cell, content


def _cell_of(file: Path, content: JsonObject) -> _Cell:
    """Return the job, task, agent and model of a trial."""
    job, agent = file.resolve().parent.parent.name, object_at(content, "config", "agent")
    return job, text_at(content, "task_name"), text_at(agent, "name"), text_at(agent, "model_name")


def _is_of_agent(kind: str) -> bool:
    """Return whether an error is a time limit of the agent."""
    return "timeout" in kind.lower() and "agent" in kind.lower()


def _kind_of_error(content: JsonObject) -> str | None:
    return text_at(object_at(content, "exception_info"), "exception_type")


def _is_trial(content: JsonObject) -> bool:
    return {"trial_name", "task_name", "verifier_result"} <= content.keys()


def _rewards_of(content: JsonObject) -> Any:
    return object_at(content, "verifier_result").get("rewards")


def _facts_of_trial(content: JsonObject, problems: Problems) -> JsonObject:
    config = object_at(content, "config", "agent")
    info, spent = (object_at(content, key) for key in ("agent_info", "agent_result"))
    kind, status = _kind_of_error(content), "ok"
    if kind is not None and _is_of_agent(kind):
        status = "timeout"
        problems.add(_ERRORS, kind, "results of the agent, which count")
    elif _rewards_of(content) is None:
        status = "error"
    elif kind is not None:
        problems.add(_ERRORS, kind, "they have a reward, which counts")
    skills = config.get("skills")
    return {
        "case": text_at(content, "task_name"),
        "skills": ", ".join(map(str, skills)) or "none" if isinstance(skills, list) else None,
        "agent": text_at(info, "name") or text_at(config, "name"),
        "agent_model": text_at(config, "model_name")
        or text_at(object_at(info, "model_info"), "name"),
        "status": status,
        "stop_reason": kind,
        "started_at": text_at(content, "started_at"),
        "seconds": _seconds_between(content),
        "input_tokens": number_at(spent, "n_input_tokens"),
        "cached_tokens": number_at(spent, "n_cache_tokens"),
        "output_tokens": number_at(spent, "n_output_tokens"),
        "cost_usd": _cost_of(spent, problems),
    }


def _seconds_between(content: JsonObject) -> float | None:
    ends = [text_at(content, name) for name in ("started_at", "finished_at")]
    first, last = pd.to_datetime(pd.Series(ends), format="ISO8601", errors="coerce", utc=True)
    return None if pd.isna(last - first) else (last - first).total_seconds()


def _cost_of(spent: JsonObject, problems: Problems) -> float | None:
    """Return the cost of a trial; None if its two records of the cost disagree."""
    cost, models = number_at(spent, "cost_usd"), spent.get("model_usage")
    rows = list_of_objects(list(models.values()) if isinstance(models, dict) else models)
    parts = [as_number(row.get("cost_usd", row.get("costUSD"))) for row in rows]
    total = sum(part or 0 for part in parts) if parts and None not in parts else None
    if cost is not None and total is not None and abs(cost - total) > _CENT:
        costs = f"cost_usd {cost:.4f}, model_usage {total:.4f}"
        problems.add("two records of the cost", costs, "the cost is unknown")
        return None
    return cost if cost is not None else total


def _verdicts_of_rewards(
    content: JsonObject, status: str, problems: Problems
) -> Iterator[JsonObject]:
    """Yield the verdict of each reward of a trial."""
    rewards = _rewards_of(content)
    rewards = {"reward": rewards} if as_number(rewards) is not None else rewards
    if not isinstance(rewards, dict) or not rewards:
        done = "the answer is missing, not failed" if status == "error" else "they count as failed"
        problems.add("trials", "without a reward", done)
        return
    for name, value in rewards.items():
        number = float(value) if isinstance(value, bool) else as_number(value)
        if number is None:
            problems.add(f"reward '{name}'", literal(value), _MISSING)
        yield {
            "check": str(name),
            "passed": None if number is None else passes(number, f"reward '{name}'", problems),
            "score": number,
            "grader": "verifier",
            "grader_kind": "tests",
        }
