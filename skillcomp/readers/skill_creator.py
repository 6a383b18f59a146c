"""Workspaces, gradings, benchmarks and trigger results of skill-creator."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator
from functools import cache
from itertools import chain, groupby
from pathlib import Path
from typing import Any

import pandas as pd

from skillcomp.errors import FrameError, literal
from skillcomp.frames.estimates import columns_of
from skillcomp.frames.words import usual_condition
from skillcomp.io.files import (
    JsonObject,
    as_object,
    as_text,
    as_truth,
    files_below,
    json_content,
    json_object,
    list_of_objects,
    listed_objects,
    number_at,
    object_at,
    objects_at,
    read_json,
    text_at,
    whole_number,
)
from skillcomp.io.study_overview import change_lines
from skillcomp.readers.reader import Problems, Reader, rows_of_attempt

_CASE = ["skill", "case", "iteration"]
_ATTEMPT = ["condition", "repeat", "agent"]
_RUN = re.compile(r"run[-_](\d+)")
_ITERATION = re.compile(r"iteration-(\d+)")
_EVAL = re.compile(r"eval-(.+)")
_GRADER = "skill-creator"
_MOST = 10_000  # largest valid count of checks or of attempts
FILE, TIMING = "grading.json", "timing.json"
# texts that tools write as evidence if their judge did not answer
_NO_JUDGE = (
    "judge returned unparseable",
    "judge omitted",
    "judge response missing",
    "grading parse error",
    "grading error",
)
_MISSING = "the verdict is missing, not a fail"
_TOOL = {"target", "judge", "modes"}  # keys of the meta.json of agent-skills-eval
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
        """Return whether gradings are in subfolders."""
        files = files_below(path, FILE)  # none below a file
        return any(file.parent != path and is_grading(json_object(file, path)) for file in files)

    def table(self, path: Path, problems: Problems) -> pd.DataFrame:
        """Return one row per attempt and expectation, with the ids of :func:`with_check_ids`."""
        graded = _folders_of_runs(path, FILE, problems)
        folders, with_grading = [*graded, *_ungraded(path, graded, problems)], set(graded)
        rows, facts_of = [], cache(_facts_of_workspace)
        for place, here in groupby(folders, key=_eval_folder):
            of_eval = _facts_of_eval(place, path) | {"key": place.name}
            of_eval |= facts_of(_workspace_of(place, path))
            for folder in here:
                about = {**of_eval, **_facts_of_attempt(folder, place, path)}
                grading = json_object(folder / FILE, path)
                if folder in with_grading and not expectations_of(grading):
                    name = folder.relative_to(path).as_posix()
                    problems.add("gradings without expectations", name, _MISSING)
                verdicts = verdicts_of_grading(grading, problems)
                rows += rows_of_attempt(about, verdicts)
        if any(json_object(file, path).keys() >= _TOOL for file in files_below(path, "meta.json")):
            done = "the delta is that of these too, and not of the skill alone"
            what = "gives input files and a system message only with the skill"
            problems.add("agent-skills-eval", what, done, 0)
        return with_check_ids(_with_own_names(pd.DataFrame(rows), problems), problems)

    def pairs(self, path: Path, problems: Problems) -> pd.DataFrame:
        """Return the comparisons, each with its case and, if analysis.json has them, the arms."""
        rows = []
        for file in files_below(path, "comparison*.json"):
            content = json_object(file, path)
            folder = next(filter(_is_eval, file.parents), None)
            if is_comparison(content):
                about = _facts_of_eval(folder, path) if folder else {}
                arms = _arms_of_analysis(json_object(file.parent / "analysis.json", path))
                about["iteration"] = _iteration_of(file.parent, path)
                about["skill"] = _facts_of_workspace(_workspace_of(file, path))["skill"]
                rows.append({**about, **pair_of(content, problems), **arms})
        return pd.DataFrame(rows) if rows else super().pairs(path, problems)


def is_comparison(content: JsonObject) -> bool:
    """Return whether a file is a blind comparison of two answers."""
    sides = content.get("rubric") or content.get("output_quality")
    return content.get("winner") in ("A", "B", "TIE") and isinstance(sides, dict) and "A" in sides


def pair_of(content: JsonObject, problems: Problems) -> JsonObject:
    """Return the columns of a comparison; the first answer is A."""
    done = "each pair is judged in one order only: a preference for a position cannot be seen"
    problems.add("comparisons", "A is always first", done)
    winner = {"A": "first", "B": "second", "TIE": "tie"}[content["winner"]]
    return {
        "first": "A",
        "second": "B",
        "winner": winner,
        "grader": "comparator",
        "rationale": text_at(content, "reasoning"),
    }


def _arms_of_analysis(content: JsonObject) -> JsonObject:
    """Return the arms of A and B, if an analysis names the skill folders of winner and loser."""
    summary = object_at(content, "comparison_summary")
    arms = []
    for key in ("winner_skill", "loser_skill"):
        parts = Path(text_at(summary, key) or "").parts
        arms.append(next((part for part in reversed(parts) if part in _ARMS), None))
    if None in arms or summary.get("winner") not in ("A", "B"):
        return {}
    return dict(
        zip(("first", "second"), arms[:: 1 if summary["winner"] == "A" else -1], strict=True)
    )


_ARMS = ("with_skill", "without_skill", "old_skill", "new_skill", "baseline")


def _folders_of_runs(
    path: Path, name: str, problems: Problems, known: Collection[Path] = ()
) -> list[Path]:
    """Return the folder of each run with a file `name`, and report the other folders with one.

    Folders of ``known`` are left out.
    The folder of a run is that of an arm, or a folder `run-K` in it. Of two layouts of the same
    cases, folders `eval-NAME` are read.
    """
    found = [file.parent for file in files_below(path, name) if file.parent not in known]
    with_runs = {folder.parent for folder in found if _RUN.fullmatch(folder.name)}
    folders = []
    for folder in found:
        if place := _right_place(folder, path, with_runs):
            if is_grading(json_object(folder / name, path)):
                found_at = f"in {folder.relative_to(path).as_posix()}/ instead of {place}/"
                problems.add(f"{name} in the wrong folder", found_at, "left out")
        else:
            folders.append(folder)
    if name == TIMING:
        return folders
    if not folders:
        lines = change_lines(change._asdict() for change in problems.changes)
        raise FrameError(f"{path}: no {name} is in the folder of a run. {' '.join(lines)}")
    return _one_layout(folders, path, problems)


def _right_place(folder: Path, path: Path, with_runs: Collection[Path]) -> str | None:
    """Return where the grading in a folder belongs; None if the folder is that of a run."""
    arm = _arm_folder(folder)
    outer = arm.parent
    if folder in with_runs:
        return f"{folder.name}/run-K"
    if _eval_folder(folder) != outer and usual_condition(outer.name):
        return f"{outer.parent.name}/{outer.name}"
    if arm == path or _is_eval(arm):
        inner = [below.name for below in sorted(arm.glob("*")) if usual_condition(below.name)]
        name = outer.name if usual_condition(outer.name) else "ARM"
        return f"{arm.name}/{inner[0] if inner else name}"
    if _ITERATION.fullmatch(arm.name):
        return f"{arm.name}/eval-NAME/ARM"
    if (outer == path and not _is_eval(path)) or _ITERATION.fullmatch(outer.name):
        return f"eval-NAME/{arm.name}" if usual_condition(arm.name) else f"{arm.name}/ARM"
    return None


def _is_eval(folder: Path) -> bool:
    """Return whether a folder is that of a case."""
    return bool(_EVAL.fullmatch(folder.name)) or (folder / "eval_metadata.json").exists()


def _one_layout(folders: list[Path], path: Path, problems: Problems) -> list[Path]:
    """Leave out the folders of runs whose case also has a folder `eval-NAME` beside it."""
    of_eval: dict[Path, list[Path]] = {}
    for folder in folders:
        of_eval.setdefault(_eval_folder(folder), []).append(folder)
    numbered = [place for place in of_eval if _EVAL.fullmatch(place.name)]
    if len(numbered) in (0, len(of_eval)):
        return folders
    known = {(place.parent, name) for place in numbered for name in _names_of_eval(place, path)}
    gradings = [_gradings_in(of_eval[place], path) for place in numbered]
    for place in [place for place in of_eval if place not in numbered]:
        same_name = any((place.parent, name) in known for name in _names_of_eval(place, path))
        own = _gradings_in(of_eval[place], path)
        if same_name or (own and any(own <= others for others in gradings)):
            done = "left out; the folders eval-NAME were read"
            n = len(of_eval.pop(place))
            problems.add("a second layout of the same runs", place.name, done, n)
    return list(chain(*of_eval.values()))


def _names_of_eval(folder: Path, path: Path) -> list[str]:
    """Return the name of a case and its id, if it has one."""
    ident = text_at(json_object(folder / "eval_metadata.json", path), "eval_id")
    ids = [ident, *re.findall(r"\Aeval-(\d+)\Z", folder.name)]
    return [str(_facts_of_eval(folder, path)["case"]), *(f"id {name}" for name in ids if name)]


def _gradings_in(folders: list[Path], path: Path) -> set[tuple[str, str]]:
    """Return the arm and the content of each grading of a case, if every check has evidence."""
    found = {folder: expectations_of(json_object(folder / FILE, path)) for folder in folders}
    if not all(row.get("evidence") for row in chain(*found.values())):
        return set()
    return {(_arm_folder(folder).name, repr(content)) for folder, content in found.items()}


def _arm_folder(folder: Path) -> Path:
    """Return the folder of an arm: the folder of a run or, if that is a run-K, its parent."""
    return folder.parent if _RUN.fullmatch(folder.name) else folder


def _eval_folder(folder: Path) -> Path:
    """Return the folder of the case of a run; between it and the arm may be one of an agent."""
    outer = _arm_folder(folder).parent
    return outer.parent if _is_eval(outer.parent) and not _is_eval(outer) else outer


def _facts_of_attempt(folder: Path, of_eval: Path, path: Path) -> JsonObject:
    """Return the facts about an attempt: from its folders, and its seconds."""
    run = _RUN.fullmatch(folder.name)
    timing = json_object(folder / TIMING, path)  # total_tokens mixes kinds of tokens
    outer = _arm_folder(folder).parent
    return {
        **({} if outer == of_eval else {"agent": outer.name}),
        "condition": _arm_folder(folder).name,
        "repeat": int(run[1]) if run else 1,
        "iteration": _iteration_of(folder, path),
        "seconds": _seconds_of(timing, "total_duration_seconds"),
    }


def _iteration_of(folder: Path, path: Path) -> int:
    names = [path.name, *folder.relative_to(path).parts]
    numbers = [int(match[1]) for name in names if (match := _ITERATION.fullmatch(name))]
    return numbers[-1] if numbers else 1


def _facts_of_eval(folder: Path, root: Path) -> JsonObject:
    """Return name and prompt of a case from its metadata; without a name, use the folder's."""
    about = json_object(folder / "eval_metadata.json", root)
    name = text_at(about, "eval_name") or folder.name.removeprefix("eval-") or folder.name
    return {"case": name, "prompt": text_at(about, "prompt")}


def _workspace_of(folder: Path, path: Path) -> Path:
    """Return the nearest folder `<skill>-workspace` above a folder, up to `path`; else `path`."""
    above = (path / part for part in folder.relative_to(path).parents)
    return next((place for place in above if place.name.endswith("-workspace")), path)


def _facts_of_workspace(path: Path) -> JsonObject:
    """Return skill and models from a benchmark.json, or the skill from `<skill>-workspace`."""
    about: JsonObject = {}
    for folder in (path, *sorted(p for p in path.glob("iteration-*") if p.is_dir())):
        about |= _facts_of_file(json_object(folder / "benchmark.json", path))
    names = (p.name for p in (path, path.parent) if p.name.endswith("-workspace"))
    folder_name = next(names, "").removesuffix("-workspace") or None
    return {
        "skill": _recorded_name(about, "skill_name") or folder_name,
        "agent_model": _recorded_name(about, *_MODELS),
        "grader_model": _recorded_name(about, *_JUDGES),
    }


def _seconds_of(result: JsonObject, key: str) -> float | None:
    """Return the seconds of an attempt from the key, or else from its milliseconds."""
    seconds, duration = number_at(result, key), number_at(result, "duration_ms")
    return seconds or (duration / 1000 if duration else None)


def verdicts_of_grading(grading: JsonObject, problems: Problems) -> Iterator[JsonObject]:
    """Yield the verdict on each expectation."""
    for position, row in enumerate(expectations_of(grading), start=1):
        evidence, passed = text_at(row, "evidence") or "", as_truth(row.get("passed"))
        if row.get("skipped") is True or evidence.lower().startswith(_NO_JUDGE):
            problems.add("checks without a verdict", evidence[:80] or "skipped", _MISSING)
            passed = None
        elif passed is None:
            found = f"passed is {literal(row.get('passed'))}"
            problems.add("checks without a verdict", found, _MISSING)
        yield {
            "position": position,
            "text": text_at(row, "text") or text_at(row, "name") or f"check {position}",
            "passed": passed,
            "rationale": evidence,
            "grader": _GRADER,
            "grader_kind": "rules" if _SCRIPT.search(evidence) else "llm",
        }


def _ungraded(path: Path, graded: list[Path], problems: Problems) -> list[Path]:
    """Return the folders of runs that have a timing.json but no grading."""
    arms = {folder.parent for folder in graded}  # the time of an arm may stand beside its run-K
    timed = _folders_of_runs(path, TIMING, Problems(), set(graded))
    lone = [place for place in timed if not (place / FILE).exists() and place not in arms]
    if lone:
        problems.add("runs", "without a grading", _MISSING, len(lone))
    return lone


def _with_own_names(table: pd.DataFrame, problems: Problems) -> pd.DataFrame:
    """Return the table with a case of its own for each key of cases with the same name."""
    key, name = table.pop("key"), table["case"]
    by_name = key.groupby([table[fact] for fact in columns_of(table, *_CASE)], dropna=False)
    several = by_name.transform("nunique").gt(1)
    if several.any():
        found, done = ", ".join(map(str, name[several].unique())), "each id is a case of its own"
        problems.add("names that several cases have", found, done, int(several.sum()))
    return table.assign(
        case=name.mask(several, name.astype("str") + " (" + key.astype("str") + ")")
    )


def with_check_ids(table: pd.DataFrame, problems: Problems) -> pd.DataFrame:
    """Return the table with a column `check` instead of `position` and `text`.

    The id of a check is its text. If the attempts of a case have the same number of checks, but not
    the same different texts, the id is the position, and different texts are reported.
    """
    if "text" not in table:
        return table.assign(check=table.get("check"))
    rows = table[table["text"].notna()]
    text, place = rows["text"], rows["position"].astype("Int64").astype("str")
    case = rows.groupby(columns_of(rows, *_CASE), dropna=False).ngroup()
    attempt = [case, *(rows[name] for name in columns_of(rows, *_ATTEMPT))]
    of_attempt = text.groupby(attempt, dropna=False)
    n, n_texts = of_attempt.transform("size"), text.groupby(case).transform("nunique")
    differs = n.ne(n_texts) | of_attempt.transform("nunique").ne(n_texts)
    by_place = n.groupby(case).transform("nunique").eq(1) & differs.groupby(case).transform("any")
    n_words = text[by_place].groupby([rows["case"][by_place], place[by_place]]).nunique()
    for name, count in n_words.gt(1).groupby(level=0).sum().items():
        if count:
            done = "taken for the same check by its position; read both texts"
            problems.add("wording of a check", f"differs in case '{name}'", done, int(count))
    check = place.where(by_place, text).reindex(table.index)
    check = check.combine_first(table.get("check", check))
    return table.assign(check=check).drop(columns=["position", "text"])


class TriggerReader(Reader):
    """Reader of trigger results.

    Each query is a case. Its only check passes if the skill triggers exactly when it should.
    """

    name = "skill-creator-triggers"

    def recognises(self, path: Path) -> bool:
        """Return whether the file has queries with counts of triggers and runs."""
        rows = listed_objects(json_content(path), "results")
        needed = {"query", "should_trigger", "triggers", "runs"}
        return bool(rows) and all(needed <= row.keys() for row in rows)

    def table(self, path: Path, problems: Problems) -> pd.DataFrame:
        """Return one row per query and attempt, under the condition skill."""
        content = read_json(path)
        rows = []
        for result in listed_objects(content, "results"):
            should = as_truth(result["should_trigger"])
            if should is None:
                value = literal(result["should_trigger"])
                problems.add("should_trigger", value, "no truth value; the verdict is missing")
            query = as_text(result["query"])
            about = {
                "skill": text_at(as_object(content), "skill_name"),
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
            problems.add("queries", "none triggered the skill", done, len(rows))
        return pd.DataFrame(rows)


def _attempts_of(result: JsonObject, problems: Problems) -> Iterator[bool | None]:
    """Yield whether each attempt triggered; None if it failed. Older files record no failures."""
    attempts = objects_at(result, "attempts")
    for attempt in attempts:
        triggered = None if attempt.get("error") else as_truth(attempt.get("triggered"))
        if triggered is None:
            problems.add("attempts", "with an error", "missing, not 'not triggered'")
        yield triggered
    if not attempts:
        done = "time-outs and crashes count as not triggered, so that negatives pass"
        problems.add("counts of triggers", "without the single attempts", done)
        n_triggers, n_runs = (whole_number(result[key], _MOST) for key in ("triggers", "runs"))
        if result.get("error") or n_triggers is None or not n_runs or n_triggers > n_runs:
            value = f"{literal(result['triggers'])} of {literal(result['runs'])}"
            problems.add("counts of triggers", value, "no counts: missing, not 'not triggered'")
            yield None
        else:
            yield from [True] * n_triggers + [False] * (n_runs - n_triggers)


_ARM_KEYS = ("configuration", "condition", "config")
_CASE_KEYS = ("eval_name", "case_id", "eval_id", "name", "id")
_CHECKS = ("expectations", "assertion_results", "assertions")
_MODELS = ("model", "agent_model", "executor_model")
_JUDGES = ("grader_model", "judge_model")


class BenchmarkReader(Reader):
    """Reader of benchmark.json files that have a row per run; averages alone are not enough."""

    name = "skill-creator-benchmark"

    def recognises(self, path: Path) -> bool:
        """Return whether the file has runs with an arm and a result."""
        content = json_object(path)
        foreign = content.keys() & {"conditions_compared", "engine_name", "schemaVersion"}
        return not foreign and any(_is_graded(run) for run in _runs_of(content))

    def table(self, path: Path, problems: Problems) -> pd.DataFrame:
        """Return one row per run and expectation, or one row for a run without expectations."""
        content = read_json(path)
        runs = list(_runs_of(content))
        of_file = _facts_of_file(content)
        models = {_recorded_name(run, *_MODELS) for run in runs} - {None}
        named = any(_checks_of(run["result"]) for run in runs)
        counts = Counter[tuple[Any, ...]]()
        rows = []
        for run in runs:
            model = _recorded_name(run, *_MODELS) or _recorded_name(of_file, *_MODELS)
            facts = {
                "skill": _recorded_name(run, "skill") or _recorded_name(of_file, "skill_name"),
                "agent_model": model,
                "grader_model": _recorded_name({**of_file, **run}, *_JUDGES),
                "case": run["case"],
                "key": as_text(_value(run, "eval_id", "case_id", "id")),
                "condition": run["arm"],
            }
            if len(models) > 1:
                facts["agent"] = model or "unnamed model"
            place = tuple(facts.values())
            counts[place] += 1
            number = number_at(run, "run_number")
            repeat = counts[place] if number is None else number
            rows += _rows_of_run(run, facts | {"repeat": repeat}, named, problems)
        return with_check_ids(_with_own_names(pd.DataFrame(rows), problems), problems)


def _facts_of_file(content: JsonObject) -> JsonObject:
    """Return the facts of a benchmark, which may stand in its metadata or its configuration."""
    return {**content, **object_at(content, "config"), **object_at(content, "metadata")}


def _runs_of(content: JsonObject) -> Iterator[JsonObject]:
    """Yield the runs that name their arm and case, with both; ``result`` has all facts of a run."""
    for run in objects_at(content, "runs"):
        arm, case = (as_text(_value(run, *keys)) for keys in (_ARM_KEYS, _CASE_KEYS))
        if arm and case:
            yield {**run, "arm": arm, "case": case, "result": run | object_at(run, "result")}


def _is_graded(run: JsonObject) -> bool:
    """Return whether a run has checks or counts."""
    return bool(_checks_of(run["result"])) or "total" in run["result"]


def _checks_of(result: JsonObject) -> list[JsonObject]:
    """Return the checks of a run that say whether they passed."""
    lists = (objects_at(result, key) for key in _CHECKS)
    return next((rows for rows in lists if any("passed" in row for row in rows)), [])


def _value(run: JsonObject, *keys: str) -> Any:
    return next((run[key] for key in keys if run.get(key) is not None), None)


def _recorded_name(about: JsonObject, *keys: str) -> str | None:
    """Return a name; None for the placeholders that the script leaves, such as <model-name>."""
    names = (text_at(about, key) for key in keys)
    return next((name for name in names if name and not name.startswith("<")), None)


def _rows_of_run(
    run: JsonObject, facts: JsonObject, named: bool, problems: Problems
) -> list[JsonObject]:
    """Return a row per expectation of a run.

    If no run of the file has expectations (not ``named``), return one row with the counts of the
    run.
    """
    result = run["result"]
    code, error = result.get("exit_code"), result.get("error")
    failed = bool(error) or code not in (None, 0, "0")
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
        found = literal(error) if error else f"exit code {literal(code)}"
        problems.add("runs with an error", found, "missing, not failed")
        return rows_of_attempt(about, [])
    if checks := _checks_of(result):
        return rows_of_attempt(about, verdicts_of_grading({"expectations": checks}, problems))
    if named:
        problems.add("runs", "without a verdict on each check", _MISSING)
    return rows_of_attempt(about, () if named else _counts_of_run(result, problems))


def _counts_of_run(result: JsonObject, problems: Problems) -> Iterator[JsonObject]:
    """Yield the counts of a run without expectations."""
    counts = [result.get("passed"), result.get("total")]
    passed, total = (whole_number(count, _MOST) for count in counts)
    if total and passed is not None and passed <= total:
        yield {"n_passed": passed, "n_checks": total}
    else:
        found = f"passed {literal(counts[0])} of {literal(counts[1])}"
        problems.add("counts of checks", found, "unusable: the verdict is missing, not 0")
