"""Workspaces, gradings, benchmarks and trigger results of skill-creator."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from skillcomp.errors import FrameError, literal
from skillcomp.frames.words import usual_condition
from skillcomp.io.files import (
    JsonObject,
    as_text,
    as_truth,
    list_of_objects,
    number_at,
    object_at,
    objects_at,
    text_at,
)
from skillcomp.readers.reader import (
    Problems,
    Reader,
    as_count,
    files_below,
    json_object,
    read_json,
    rows_of_attempt,
)

_CASE = ["skill", "case", "iteration"]
_ATTEMPT = ["condition", "repeat", "agent"]
_RUN = re.compile(r"run-(\d+)")
_ITERATION = re.compile(r"iteration-(\d+)")
_EVAL = re.compile(r"eval-(.+)")
_GRADER = "skill-creator"
# texts that tools write as evidence if their judge did not answer
_NO_JUDGE = ("judge returned unparseable", "judge omitted", "judge response missing")
_SCRIPT = re.compile(r"\b(?:script|regex|grep|exit code|pytest|assert)\b", re.I)


def expectations_of(grading: JsonObject) -> list[JsonObject]:
    """Return the graded expectations of a grading; the file has them under one of two keys."""
    return list_of_objects(grading.get("expectations", grading.get("assertion_results")))


def is_grading(content: JsonObject) -> bool:
    """Return whether a file is a grading of skill-creator, and not one of another tool."""
    rows = expectations_of(content)
    foreign = any(row.keys() & {"confidence", "method", "skipped"} for row in rows)
    return bool(rows) and not foreign and all("passed" in row and "text" in row for row in rows)


class WorkspaceReader(Reader):
    """Reader of workspaces `iteration-N/eval-NAME/CONFIG/[run-K/]grading.json`."""

    name = "skill-creator"

    def recognises(self, path: Path) -> bool:
        """Return whether gradings are in subfolders: one per eval and, inside it, one per arm."""
        if not path.is_dir():
            return False
        return any(is_grading(json_object(file, path)) for file in _grading_files(path))

    def table(self, path: Path, problems: Problems) -> pd.DataFrame:
        """Return one row per attempt and expectation, with the ids of :func:`with_check_ids`."""
        rows = []
        for file in _grading_files(path):
            verdicts = verdicts_of_grading(json_object(file, path), problems)
            rows += rows_of_attempt(_facts_of_attempt(file, path), verdicts)
        rows += _ungraded(path, {_cell_of(row) for row in rows}, problems)
        _report_tool(path, problems)
        table = pd.DataFrame(rows)
        names = {place: _skill_name(place) for place in table["workspace"].unique()}
        table = table.assign(skill=table.pop("workspace").map(names))
        return with_check_ids(table, problems)

    def pairs(self, path: Path, problems: Problems) -> pd.DataFrame:
        """Return the comparisons, each with its case and, if analysis.json has them, the arms."""
        rows = []
        for file in files_below(path, "comparison*.json"):
            content = json_object(file, path)
            folder = next((p for p in file.parents if (p / "eval_metadata.json").exists()), None)
            folder = folder or next((p for p in file.parents if _EVAL.fullmatch(p.name)), None)
            if is_comparison(content):
                about = _facts_of_eval(folder, path) if folder else {}
                arms = _arms_of_analysis(json_object(file.parent / "analysis.json", path))
                about["iteration"] = _iteration_of(file, path)
                about["skill"] = _skill_name(_workspace_of(file, path))
                rows.append({**about, **pair_of(content, problems), **arms})
        return pd.DataFrame(rows) if rows else super().pairs(path, problems)


def _report_tool(path: Path, problems: Problems) -> None:
    """Report if agent-skills-eval wrote the folders: its arms differ in more than the skill."""
    for file in files_below(path, "meta.json"):
        if {"target", "judge", "modes"} <= json_object(file, path).keys():
            done = "the delta is that of these too, and not of the skill alone"
            what = "agent-skills-eval gives input files and a system message only with the skill"
            problems.add("meta.json", what, done, 0)
            return


class ComparisonReader(Reader):
    """Reader of one comparison.json: two answers and, if recorded, the checks of each."""

    name = "skill-creator-comparison"

    def recognises(self, path: Path) -> bool:
        """Return whether the file has a winner (A, B or TIE) and rubric scores."""
        return is_comparison(json_object(path))

    def table(self, path: Path, problems: Problems) -> pd.DataFrame:
        """Return the expectations of A and B; the case and the arms are not in the file."""
        results = object_at(json_object(path), "expectation_results")
        rows = []
        for side in "AB":
            details = objects_at(object_at(results, side), "details")
            about = {"condition": side, "repeat": 1, "case": None}
            rows += rows_of_attempt(about, verdicts_of_grading({"expectations": details}, problems))
        return with_check_ids(pd.DataFrame(rows), problems).drop(columns="case")

    def pairs(self, path: Path, problems: Problems) -> pd.DataFrame:
        """Return the one comparison."""
        return pd.DataFrame([pair_of(json_object(path), problems)])


def is_comparison(content: JsonObject) -> bool:
    """Return whether a file is a blind comparison of two answers."""
    sides = content.get("rubric") or content.get("output_quality")
    return content.get("winner") in ("A", "B", "TIE") and isinstance(sides, dict) and "A" in sides


def pair_of(content: JsonObject, problems: Problems) -> JsonObject:
    """Return the columns of a comparison; the first answer is A."""
    done = "each pair is judged in one order only: a preference for a position cannot be seen"
    problems.add("comparison", "A is always first", done)
    winner = {"A": "first", "B": "second", "TIE": "tie"}[content["winner"]]
    return {
        "first": "A",
        "second": "B",
        "winner": winner,
        "grader": "comparator",
        "rationale": text_at(content, "reasoning"),
    }


def _arms_of_analysis(content: JsonObject) -> dict[str, str]:
    """Return the arms of A and B, if an analysis names the skill folders of winner and loser."""
    summary = object_at(content, "comparison_summary")
    if summary.get("winner") not in ("A", "B"):
        return {}
    arms = []
    for key in ("winner_skill", "loser_skill"):
        parts = Path(text_at(summary, key) or "").parts
        arms.append(next((part for part in reversed(parts) if part in _ARMS), None))
    if None in arms:
        return {}
    first, second = arms if summary["winner"] == "A" else arms[::-1]
    return {"first": str(first), "second": str(second)}


_ARMS = ("with_skill", "without_skill", "old_skill", "new_skill", "baseline")


def _grading_files(path: Path) -> list[Path]:
    """Return each grading.json below `path` that is in the folder of an arm."""
    files = [file for file in files_below(path, "grading.json") if file.parent != path]
    return [file for file in files if len(_arm_folder(file).relative_to(path).parts) > 1]


def _arm_folder(file: Path) -> Path:
    """Return the folder of an arm: the folder of the grading or, if that is a run-K, its parent."""
    return file.parent.parent if _RUN.fullmatch(file.parent.name) else file.parent


def _facts_of_attempt(file: Path, path: Path) -> JsonObject:
    """Return the facts about the attempt of a grading: from its folders, and its seconds."""
    run = _RUN.fullmatch(file.parent.name)
    return {
        **_facts_of_eval(_arm_folder(file).parent, path),
        "workspace": _workspace_of(file, path),
        "condition": _arm_folder(file).name,
        "repeat": int(run[1]) if run else 1,
        "iteration": _iteration_of(file, path),
        # total_tokens, which mixes kinds of tokens, is ignored
        "seconds": _seconds_of(
            json_object(file.parent / "timing.json", path), "total_duration_seconds"
        ),
    }


def _iteration_of(file: Path, path: Path) -> int:
    names = [path.name, *file.relative_to(path).parts[:-1]]
    numbers = [int(match[1]) for name in names if (match := _ITERATION.fullmatch(name))]
    return numbers[-1] if numbers else 1


def _facts_of_eval(folder: Path, root: Path) -> JsonObject:
    """Return name and prompt of a case from its metadata; without a name, use the folder's."""
    about = json_object(folder / "eval_metadata.json", root)
    match = _EVAL.fullmatch(folder.name)
    name = text_at(about, "eval_name") or (match[1] if match else folder.name)
    return {"case": name, "prompt": text_at(about, "prompt")}


def _workspace_of(file: Path, path: Path) -> Path:
    """Return the nearest folder `<skill>-workspace` above a file, up to `path`; else `path`."""
    folders = (path / part for part in file.relative_to(path).parents)
    return next((place for place in folders if place.name.endswith("-workspace")), path)


def _cell_of(row: JsonObject) -> tuple[Any, ...]:
    return tuple(row[key] for key in ("workspace", "iteration", "case", "condition", "repeat"))


def _skill_name(path: Path) -> str | None:
    """Return the name of the skill from a benchmark.json or from a folder `<skill>-workspace`."""
    for folder in (path, *sorted(p for p in path.glob("iteration-*") if p.is_dir())):
        if name := _recorded_skill(json_object(folder / "benchmark.json", path)):
            return name
    names = [p.name for p in (path, *path.parents[:1]) if p.name.endswith("-workspace")]
    return names[0].removesuffix("-workspace") if names else None


def _seconds_of(result: JsonObject, key: str) -> float | None:
    """Return the seconds of an attempt from the key, or else from its milliseconds."""
    seconds, duration = number_at(result, key), number_at(result, "duration_ms")
    return seconds or (duration / 1000 if duration else None)


def verdicts_of_grading(grading: JsonObject, problems: Problems) -> Iterator[JsonObject]:
    """Yield the verdict on each expectation."""
    rows = expectations_of(grading)
    if not rows:
        problems.add("grading", "no expectations", "missing verdicts, not fails")
    for position, row in enumerate(rows, start=1):
        evidence, passed = text_at(row, "evidence") or "", as_truth(row.get("passed"))
        if row.get("skipped") is True or evidence.lower().startswith(_NO_JUDGE):
            problems.add("passed", evidence[:80] or "skipped", "a missing verdict, not a fail")
            passed = None
        elif passed is None:
            problems.add("passed", f"{row.get('passed')!r:.80}", "a missing verdict, not a fail")
        yield {
            "position": position,
            "text": text_at(row, "text") or text_at(row, "name") or f"check {position}",
            "passed": passed,
            "rationale": evidence,
            "grader": _GRADER,
            "grader_kind": "rules" if _SCRIPT.search(evidence) else "llm",
        }


def _ungraded(path: Path, graded: set[Any], problems: Problems) -> Iterator[JsonObject]:
    """Yield a row for each attempt that has a timing.json but no grading."""
    for folder in sorted({file.parent for file in files_below(path, "timing.json")}):
        file = folder / "grading.json"
        if file.exists() or len(_arm_folder(file).relative_to(path).parts) < 2:
            continue
        about = _facts_of_attempt(file, path)
        if _cell_of(about) not in graded:
            problems.add("grading.json", "missing for an attempt", "a missing verdict, not a fail")
            yield about


def with_check_ids(table: pd.DataFrame, problems: Problems) -> pd.DataFrame:
    """Return the table with a column `check` instead of `position` and `text`.

    If all attempts of a case have the same texts and none is repeated, the id of a check is its
    position in the first attempt. Otherwise, if all attempts have the same number of checks, checks
    at the same position are taken as one check, and different texts are reported. If the numbers
    differ, the id of a check is its text.
    """
    if "text" not in table.columns:
        return table if "check" in table.columns else table.assign(check=None)
    keys = [name for name in _CASE if name in table.columns]
    parts = [_checks_of_case(rows, problems) for _, rows in table.groupby(keys, dropna=False)]
    return pd.concat(parts).sort_index().drop(columns=["position", "text"])


def _checks_of_case(rows: pd.DataFrame, problems: Problems) -> pd.DataFrame:
    """Add the column `check`, the id of the check, to the rows of one case."""
    wording = rows["text"]
    is_graded = wording.notna()
    graded = rows[is_graded]
    if graded.empty:
        return rows.assign(check=None)
    attempt = [name for name in _ATTEMPT if name in rows.columns]
    by_attempt = graded.groupby(attempt, dropna=False)["text"].agg(list)
    lists = {tuple(texts) for texts in by_attempt}
    distinct = set().union(*lists)
    if all(len(texts) == len(set(texts)) == len(distinct) for texts in lists):
        first = by_attempt.iloc[0]  # attempts may list the checks in different orders
        numbers = {text: at for at, text in enumerate(first, start=1)}
        check = wording.map(numbers)
    elif len({len(texts) for texts in lists}) == 1:
        case = rows["case"].iloc[0]
        n = sum(len(set(texts)) > 1 for texts in zip(*lists, strict=True))
        done = "taken for the same check by its position; read both texts"
        if n:  # n is 0 if all attempts have the same texts at the same positions
            place = f"case '{case}': a check is worded differently in two attempts"
            problems.add("text", place, done, n)
        check = rows["position"]
    else:
        return rows.assign(check=wording)
    check = check.astype("Int64").astype("str").where(is_graded, rows.get("check"))
    return rows.assign(check=check)


class TriggerReader(Reader):
    """Reader of trigger results.

    Each query is a case. Its only check passes if the skill triggers exactly when it should.
    """

    name = "skill-creator-triggers"

    def recognises(self, path: Path) -> bool:
        """Return whether the file has queries with counts of triggers and runs."""
        rows = objects_at(json_object(path), "results")
        needed = {"query", "should_trigger", "triggers", "runs"}
        return bool(rows) and all(needed <= row.keys() for row in rows)

    def table(self, path: Path, problems: Problems) -> pd.DataFrame:
        """Return one row per query and attempt, under the condition skill."""
        content = read_json(path)
        rows = []
        for result in list_of_objects(content["results"]):
            should = as_truth(result["should_trigger"])
            if should is None:
                value = literal(result["should_trigger"])
                problems.add("should_trigger", value, "no truth value; missing verdicts")
            query = as_text(result["query"])
            about = {
                "skill": text_at(content, "skill_name"),
                "case": query,
                "prompt": query,
                "should_trigger": should,
                "condition": "skill",
                "check": "trigger",
                "grader": "run_eval",
                "grader_kind": "rules",
            }
            for repeat, triggered in enumerate(_attempts_of(result, problems), start=1):
                passed = None if triggered is None or should is None else triggered == should
                status = "error" if triggered is None else "ok"
                facts = {"repeat": repeat, "triggered": triggered, "passed": passed}
                rows.append({**about, **facts, "status": status})
        if rows and not any(row["triggered"] for row in rows):
            done = "a broken probe looks the same: every negative passes"
            problems.add("triggers", "no query triggered", done, len(rows))
        return pd.DataFrame(rows)


def _attempts_of(result: JsonObject, problems: Problems) -> Iterator[bool | None]:
    """Yield whether each attempt triggered; None if it failed. Older files record no failures."""
    attempts = objects_at(result, "attempts")
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
        rows = []
        for run in runs:
            model = _recorded_name(run, "model") or _recorded_name(metadata, "executor_model")
            skill = _recorded_name(run, "skill") or _recorded_skill(content)
            facts = {
                "skill": skill,
                "agent_model": model,
                "case": _case_name(run),
                "condition": as_text(_value(run, *_ARM_KEYS)),
            }
            if len(models) > 1:
                facts["agent"] = model or "unnamed model"
            place = tuple(facts.values())
            counts[place] += 1
            number = number_at(run, "run_number")
            repeat = counts[place] if number is None else number
            rows += _rows_of_run(run, facts | {"repeat": repeat}, problems)
        return with_check_ids(pd.DataFrame(rows), problems)


def _runs_of(content: JsonObject) -> Iterator[JsonObject]:
    """Yield the runs of a file in the official form, each with its arm."""
    yield from objects_at(content, "runs")
    for key, inner in (("configs", "results"), ("configurations", "evals")):
        for config in objects_at(content, key):
            for run in objects_at(config, inner):
                yield {**run, "configuration": config.get("name")}
    for case in objects_at(content, "evals"):
        about = {key: value for key, value in case.items() if not isinstance(value, dict)}
        for arm, result in case.items():
            if usual_condition(arm) and isinstance(result, dict):
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


def _recorded_skill(content: JsonObject) -> str | None:
    """Return the name of the skill that a benchmark.json records."""
    metadata = object_at(content, "metadata")
    return _recorded_name(metadata, "skill_name") or _recorded_name(content, "skill_name")


def _case_name(run: JsonObject) -> str | None:
    return as_text(_value(run, "eval_name", "case_id", "eval_id", "name", "id"))


def _rows_of_run(run: JsonObject, facts: JsonObject, problems: Problems) -> list[JsonObject]:
    """Return a row per expectation of a run.

    Without expectations, return one row with the counts of the run or, without counts, with its
    pass rate as a score.
    """
    result = {**run, **object_at(run, "result")}
    failed = result.get("exit_code") not in (None, 0, "0")
    about = {
        **facts,
        "seconds": _seconds_of(result, "time_seconds"),
        "cost_usd": number_at(result, "cost_usd"),
        "input_tokens": number_at(result, "input_tokens"),
        "output_tokens": number_at(result, "output_tokens"),
        "status": "error" if failed else "ok",
        "grader": "skill-creator",
    }
    if failed:
        done = "the attempt is missing, not failed"
        problems.add("exit_code", literal(result["exit_code"]), done)
        return rows_of_attempt(about, [])
    checks = next((run[key] for key in _CHECKS if objects_at(run, key)), None)
    if checks is not None:
        return rows_of_attempt(about, verdicts_of_grading({"expectations": checks}, problems))
    return rows_of_attempt(about, _result_of_run(result, problems))


def _result_of_run(result: JsonObject, problems: Problems) -> Iterator[JsonObject]:
    """Yield the counts or the pass rate of a run without expectations."""
    counts = [_value(result, *keys) for keys in (_PASSED, _TOTAL)]
    passed, total = map(as_count, counts)
    share = number_at(result, "pass_rate")
    if total and passed is not None and passed <= total:
        yield {"n_passed": passed, "n_checks": total}
    elif counts[1] is None and share is not None and 0 <= share <= 100:
        if share > 1:
            problems.add("pass_rate", "percentages", "divided by 100")
        share = share / 100 if share > 1 else share
        problems.add("pass_rate", "no counts of checks", "read as a score: value='score'")
        yield {"check": "pass rate", "passed": share == 1, "score": share}
    else:
        counts_text = f"passed {literal(counts[0])} of {literal(counts[1])}, share {literal(share)}"
        problems.add("total", counts_text, "no usable grading: a missing verdict, not 0")


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
    if (
        "delta" in summary
        and len(arms) == 2
        and usual_condition(arms[0]) in ("baseline", "previous")
    ):
        done = f"it is {arms[0]} minus {arms[1]}, so its sign is reversed; it is not read"
        problems.add("run_summary.delta", "the file's own delta", done)
