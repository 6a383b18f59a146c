"""Results of skill-creator's trigger evaluation, run_eval.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from skillcomp.errors import literal
from skillcomp.readers.reader import (
    Problems,
    Reader,
    as_count,
    as_text,
    as_truth,
    json_object,
    list_of_objects,
    read_json,
)


class TriggerReader(Reader):
    """Reader of trigger results: a case is a query, a check whether it triggers as it should."""

    name = "skill-creator-triggers"

    def recognises(self, path: Path) -> bool:
        """Return whether the file has queries with counts of triggers and runs."""
        rows = list_of_objects(json_object(path).get("results"))
        needed = {"query", "should_trigger", "triggers", "runs"}
        return bool(rows) and all(needed <= row.keys() for row in rows)

    def table(self, path: Path, problems: Problems) -> pd.DataFrame:
        """Return one row per query and attempt, under the condition skill."""
        content = read_json(path)
        rows: list[dict[str, Any]] = []
        for result in list_of_objects(content["results"]):
            should = as_truth(result["should_trigger"])
            if should is None:
                value = literal(result["should_trigger"])
                problems.add("should_trigger", value, "no truth value; missing verdicts")
            about = {"case": as_text(result["query"]), "should_trigger": should}
            about |= {"prompt": about["case"], "condition": "skill", "check": "trigger"}
            about |= {"skill": as_text(content.get("skill_name")), "grader": "run_eval"}
            for repeat, triggered in enumerate(_attempts_of(result, problems), start=1):
                passed = None if triggered is None or should is None else triggered == should
                status = "error" if triggered is None else "ok"
                facts = {"repeat": repeat, "triggered": triggered, "passed": passed}
                rows.append({**about, **facts, "status": status, "grader_kind": "rules"})
        if rows and not any(row["triggered"] for row in rows):
            done = "a broken probe looks the same: every negative passes"
            problems.add("triggers", "no query triggered", done, len(rows))
        return pd.DataFrame(rows)


def _attempts_of(result: dict[str, Any], problems: Problems) -> Iterator[bool | None]:
    """Yield whether each attempt triggered; None after an error, where newer files tell it."""
    attempts = list_of_objects(result.get("attempts"))
    for attempt in attempts:
        triggered = None if attempt.get("error") else as_truth(attempt.get("triggered"))
        if triggered is None:
            problems.add("attempts.error", "an attempt failed", "missing, not 'not triggered'")
        yield triggered
    if not attempts:
        done = "time-outs and crashes count as not triggered, so that negatives pass"
        problems.add("triggers", "counts only", done)
        n_triggers, n_runs = as_count(result["triggers"]), as_count(result["runs"])
        if n_triggers is None or n_runs is None or n_triggers > n_runs:
            value = f"{literal(result['triggers'])} of {literal(result['runs'])}"
            problems.add("triggers", value, "no counts; missing, not 'not triggered'")
            yield None
        else:
            yield from [True] * n_triggers + [False] * (n_runs - n_triggers)
