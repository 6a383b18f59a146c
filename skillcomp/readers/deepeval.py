"""Test runs of deepeval: ``.latest_test_run.json`` and ``.latest_run_full.json``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from skillcomp.io.files import (
    JsonObject,
    as_object,
    as_truth,
    json_object,
    number_at,
    objects_at,
    read_json,
    text_at,
)
from skillcomp.readers.reader import Problems, Reader, rows_of_attempt

# name that deepeval makes from the position of a test case without a name
_POSITION = re.compile(r"test_case_\d+")


class DeepevalReader(Reader):
    """Reader of a test run; a run holds one arm, so `read_results` needs the path of each arm."""

    name = "deepeval"

    def recognises(self, path: Path) -> bool:
        """Return whether a file has test cases with the results of metrics."""
        cases = _cases_of(json_object(path))
        return bool(cases) and all(
            "metricsData" in case or "actualOutput" in case for case in cases
        )

    def table(self, path: Path, problems: Problems) -> pd.DataFrame:
        """Return one row per test case and metric; a judge that crashed has no verdict."""
        cases = _cases_of(read_json(path))
        rows = []
        for case in sorted(cases, key=lambda case: number_at(case, "order") or 0):
            rows += rows_of_attempt(
                _facts_of_case(case, problems), _verdicts_on_case(case, problems)
            )
        return pd.DataFrame(rows)


def _cases_of(content: Any) -> list[JsonObject]:
    run = as_object(content)
    return objects_at(as_object(run.get("testRunData", run)), "testCases")


def _facts_of_case(case: JsonObject, problems: Problems) -> JsonObject:
    """Return the columns of an attempt; a case without a real name gets its input as name."""
    name, prompt = text_at(case, "name"), text_at(case, "input")
    if prompt and (name is None or _POSITION.fullmatch(name)):
        problems.add("names of cases", "positions such as test_case_0", "the input is the name")
        name = prompt
    return {
        "case": name,
        "prompt": prompt,
        "answer": text_at(case, "actualOutput"),
        "seconds": number_at(case, "runDuration"),
    }


def _verdicts_on_case(case: JsonObject, problems: Problems) -> Iterator[JsonObject]:
    """Yield the verdict of each metric."""
    metrics = objects_at(case, "metricsData")
    if not metrics:
        problems.add("test cases", "without a metric", "the verdict is missing, not a fail")
    for metric in metrics:
        error = text_at(metric, "error")
        if error:
            done = "the judge crashed: the verdict is missing, although the file has a fail"
            problems.add("metrics with an error", error[:80], done)
        yield {
            "check": text_at(metric, "name"),
            "passed": None if error else as_truth(metric.get("success")),
            "score": None if error else number_at(metric, "score"),
            "grader": "deepeval",
            "grader_kind": "llm" if metric.get("evaluationModel") else None,
            "grader_model": text_at(metric, "evaluationModel"),
            "rationale": text_at(metric, "reason"),
        }
