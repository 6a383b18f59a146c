"""The file benchmark.json of skill-creator, in its official form and in the known variants."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from skillcomp.errors import FrameError, literal
from skillcomp.io.files import JsonObject, as_text, list_of_objects, number_at, object_at, text_at
from skillcomp.readers.reader import ARM_WORDS, Problems, Reader, as_count, json_object, read_json
from skillcomp.readers.skill_creator import rows_of_grading, with_check_ids

_ARM_KEYS = ("configuration", "condition", "config")
_PASSED, _TOTAL = ("passed", "assertions_passed"), ("total", "assertions_total")
_CHECKS = ("expectations", "assertion_results", "assertion_details")


class BenchmarkReader(Reader):
    """Reader of benchmark.json files that have a row per run; averages alone are not enough."""

    name = "skill-creator-benchmark"

    def recognises(self, path: Path) -> bool:
        """Return whether the file has runs with an arm and a result."""
        content = json_object(path)
        foreign = content.keys() & {"conditions_compared", "engine_name", "schemaVersion"}
        return not foreign and any(_is_run(run) for run in _runs_of(content))

    def table(self, path: Path, problems: Problems) -> pd.DataFrame:
        """Return one row per run and expectation, or one row for a run without expectations."""
        content = read_json(path)
        runs = [run for run in _runs_of(content) if _is_run(run)]
        _require_one_scale(runs, path)
        _report_delta(content, runs, problems)
        metadata = object_at(content, "metadata")
        models = {_recorded_name(run, "model") for run in runs} - {None}
        counts = Counter[tuple[Any, ...]]()
        rows: list[JsonObject] = []
        for run in runs:
            model = _recorded_name(run, "model") or _recorded_name(metadata, "executor_model")
            skill = _recorded_name(run, "skill") or _recorded_name(metadata, "skill_name")
            facts = {"skill": skill or _recorded_name(content, "skill_name"), "agent_model": model}
            facts |= {"case": _case_name(run), "condition": as_text(_value(run, *_ARM_KEYS))}
            if len(models) > 1:
                facts["agent"] = model or "unnamed model"
            counts[tuple(facts.values())] += 1
            number = number_at(run, "run_number")
            repeat = counts[tuple(facts.values())] if number is None else number
            rows += _rows_of_run(run, facts | {"repeat": repeat}, problems)
        return with_check_ids(pd.DataFrame(rows), problems)


def _runs_of(content: JsonObject) -> Iterator[JsonObject]:
    """Yield the runs of a file in the official form, each with its arm."""
    yield from list_of_objects(content.get("runs"))
    for key, inner in (("configs", "results"), ("configurations", "evals")):
        for config in list_of_objects(content.get(key)):
            for run in list_of_objects(config.get(inner)):
                yield {**run, "configuration": config.get("name")}
    for case in list_of_objects(content.get("evals")):
        about = {key: value for key, value in case.items() if not isinstance(value, dict)}
        for arm, result in case.items():
            if arm in ARM_WORDS and isinstance(result, dict):
                yield {**about, **result, "configuration": arm}


def _is_run(run: JsonObject) -> bool:
    """Return whether a run names its arm and case, and has a result."""
    result = {**run, **object_at(run, "result")}
    graded = any(key in result for key in (*_CHECKS, *_TOTAL, "pass_rate"))
    arm = as_text(_value(run, *_ARM_KEYS))
    return graded and arm is not None and _case_name(run) is not None


def _value(run: JsonObject, *keys: str) -> Any:
    return next((run[key] for key in keys if run.get(key) is not None), None)


def _recorded_name(about: JsonObject, key: str) -> str | None:
    """Return a name; None for the placeholders that the script leaves, such as <model-name>."""
    name = text_at(about, key)
    return None if name is None or name.startswith("<") else name


def _case_name(run: JsonObject) -> str | None:
    return as_text(_value(run, "eval_name", "case_id", "eval_id", "name", "id"))


def _rows_of_run(run: JsonObject, facts: JsonObject, problems: Problems) -> Iterator[JsonObject]:
    """Yield a row per expectation of a run.

    Without expectations, yield one row with the counts of the run or, without counts, with its pass
    rate as a score.
    """
    result = {**run, **object_at(run, "result")}
    seconds, duration = number_at(result, "time_seconds"), number_at(result, "duration_ms")
    failed = result.get("exit_code") not in (None, 0, "0")
    about = {
        **facts,
        "seconds": seconds or (duration / 1000 if duration else None),
        "cost_usd": number_at(result, "cost_usd"),
        "input_tokens": number_at(result, "input_tokens"),
        "output_tokens": number_at(result, "output_tokens"),
        "status": "error" if failed else "ok",
        "grader": "skill-creator",
    }
    checks = next((run[key] for key in _CHECKS if list_of_objects(run.get(key))), None)
    counts = [_value(result, *keys) for keys in (_PASSED, _TOTAL)]
    passed, total = map(as_count, counts)
    share = number_at(result, "pass_rate")
    if failed:
        problems.add(
            "exit_code", literal(result["exit_code"]), "the attempt is missing, not failed"
        )
        yield {**about, "passed": None}
    elif checks is not None:
        yield from rows_of_grading({"expectations": checks}, about, problems)
    elif total and passed is not None and passed <= total:
        yield {**about, "n_passed": passed, "n_checks": total}
    elif counts[1] is None and share is not None and 0 <= share <= 100:
        if share > 1:
            problems.add("pass_rate", "percentages", "divided by 100")
        share = share / 100 if share > 1 else share
        problems.add("pass_rate", "no counts of checks", "read as a score: value='score'")
        yield {**about, "check": "pass rate", "passed": share == 1, "score": share}
    else:
        counts_text = f"passed {literal(counts[0])} of {literal(counts[1])}, share {literal(share)}"
        problems.add("total", counts_text, "no usable grading: a missing verdict, not 0")
        yield {**about, "passed": None, "verdict_status": "error"}


def _require_one_scale(runs: list[JsonObject], path: Path) -> None:
    """Raise if runs without counts have both shares (0 to 1) and percentages as pass rates."""
    results = [{**run, **object_at(run, "result")} for run in runs]
    results = [r for r in results if _value(r, *_TOTAL) is None and not _value(r, *_CHECKS)]
    shares = [share for r in results if (share := number_at(r, "pass_rate")) is not None]
    if any(share > 1 for share in shares) and any(0 < share <= 1 for share in shares):
        raise FrameError(
            f"{path}: pass_rate has percentages (such as {max(shares):g}) next to shares (such as "
            f"{min(s for s in shares if s > 0):g}), and no counts decide what 1 means. Give the "
            "file one scale."
        )


def _report_delta(content: JsonObject, runs: list[JsonObject], problems: Problems) -> None:
    """Report the file's own delta if its sign is reversed.

    The tool subtracts the second arm in alphabetical order from the first, which may be the
    baseline.
    """
    arms = sorted({str(_value(run, *_ARM_KEYS)) for run in runs})
    summary = object_at(content, "run_summary")
    if "delta" in summary and len(arms) == 2 and ARM_WORDS.get(arms[0]) in ("baseline", "previous"):
        done = f"it is {arms[0]} minus {arms[1]}, so its sign is reversed; it is not read"
        problems.add("run_summary.delta", "the file's own delta", done)
