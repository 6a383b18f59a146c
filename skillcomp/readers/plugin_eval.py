"""Results of `claude plugin eval`: aggregate-result.json, schema version 1."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from skillcomp.io.files import (
    JsonObject,
    as_number,
    as_object,
    as_text,
    as_truth,
    json_object,
    list_of_objects,
    number_at,
    object_at,
    objects_at,
    read_json,
    text_at,
)
from skillcomp.readers.reader import USE_OF_SKILL, Problems, Reader, one_line, rows_of_attempt

# the kind of an error can be read only from the error message
_RESULTS = {
    "timeout": re.compile(r"tim(?:ed|e) ?out|timeout|time limit", re.I),
    "truncated": re.compile(r"max(?:imum)?[ _-]?turns|turn (?:cap|limit)", re.I),
}
_INFRASTRUCTURE = re.compile(
    r"usage limit|rate.?limit|quota|credential|authenti|unauthorized|api key|sandbox|overloaded"
    r"|api error|connection|request timed out"
    r"|\b(?:401|403|429|529)\b",
    re.I,
)
_ERRORS = "runs with an error"
_PAID = ("llm", "baseline")  # types of grader that ask a model


class PluginEvalReader(Reader):
    """Reader of the results of `claude plugin eval`; the baseline arm may be missing."""

    name = "plugin-eval"

    def recognises(self, path: Path) -> bool:
        """Return whether the file has a version of Claude and cases with arms."""
        content = json_object(path)
        cases = objects_at(content, "cases") if "claudeVersion" in content else []
        return any(isinstance(case.get("arms"), dict) for case in cases)

    def table(self, path: Path, problems: Problems) -> pd.DataFrame:
        """Return one row per attempt and grader that counts; see `_verdicts_on_run`.

        An attempt without a grader that counts has one row.
        """
        content = read_json(path)
        suite = object_at(content, "suite")
        plugins = objects_at(suite, "plugins")
        _report_file(content, suite, problems)
        one_skill = _report_skills(content, problems)
        rows = []
        for case in list_of_objects(content["cases"]):
            facts = {
                "case": text_at(case, "name") or text_at(case, "dir"),
                "prompt": text_at(case, "promptMarkdown"),
                "skill": as_text(plugins[0].get("name")) if len(plugins) == 1 else None,
                "agent": "claude-code",
                "agent_model": text_at(case, "model") or text_at(suite, "modelOverride"),
                "grader_model": text_at(suite, "judgeModel"),
            }
            _report_case(case, facts["case"], problems)
            for arm, runs in object_at(case, "arms").items():
                for repeat, run in enumerate(list_of_objects(runs), start=1):
                    about = {**facts, "condition": arm, "repeat": repeat}
                    about |= _facts_of_run(run, case, problems)
                    about |= _use_of_skill(run, case) if one_skill else {}
                    rows += rows_of_attempt(about, _verdicts_on_run(run, case, problems))
        return pd.DataFrame(rows)


def _report_file(content: JsonObject, suite: JsonObject, problems: Problems) -> None:
    """Report the problems of the whole file."""
    if content.get("partial"):
        reason = text_at(content, "partialReason") or "no reason"
        done = "it ended early; later runs are missing"
        problems.add("the evaluation", reason, done, 0)
    if suite.get("ablation") == "none":
        done = "every grader counts, unlike in a file with two arms; never combine them"
        problems.add("ablation", "none", done, 0)
    if plugins := objects_at(suite, "plugins"):
        names = ", ".join(text_at(plugin, "name") or "?" for plugin in plugins)
        done = "the arm loads every skill, hook and agent of it: the delta is that of the plugin"
        problems.add("plugin", names, done, 0)


def _report_case(case: JsonObject, name: str | None, problems: Problems) -> None:
    """Report missing runs, and a recorded conversation that both arms replay."""
    planned = number_at(case, "runsPerCase") or 0
    counts = [len(list_of_objects(runs)) for runs in object_at(case, "arms").values()]
    if counts and min(counts) < planned:
        found = f"{min(counts)} of {planned:g}"
        problems.add("runs of a case", found, "fewer than planned; intervals rest on these")
    context = object_at(case, "context")
    if context.get("historyFile", context.get("history_file")):
        done = "both arms replay one transcript; recorded with the plugin, it helps the baseline"
        problems.add("history file", f"case '{name}'", done, 0)


def _facts_of_run(run: JsonObject, case: JsonObject, problems: Problems) -> JsonObject:
    """Return the columns of an attempt: how it ended, its cost and whether the skill was used."""
    status, stop_reason = "ok", None
    error, aborted = run.get("error"), run.get("aborted")
    error = error if error is None or isinstance(error, str) else json.dumps(error)
    if aborted:
        parts = [as_text(as_object(aborted).get(key)) for key in ("server", "tool", "reason")]
        stop_reason = "aborted: " + ", ".join(part for part in parts if part)
        status = "truncated"
        problems.add("runs", "stopped by a guard of a mock", "they count as failed")
    if error:
        stop_reason, found = error, one_line(error)
        outage = _INFRASTRUCTURE.search(error)
        status = next((s for s, words in _RESULTS.items() if words.search(error)), "error")
        status = "error" if outage else status
        if status != "error":
            problems.add(_ERRORS, found, "results of the agent, which count")
        elif _is_graded(run, case) and not outage:
            status = "ok"
            problems.add(_ERRORS, found, "every grader gave a verdict, and the verdicts count")
        else:
            problems.add(_ERRORS, found, "missing, not failed")
    return {
        "status": status,
        "stop_reason": stop_reason,
        "seconds": number_at(run, "durationSeconds"),
        "cost_usd": number_at(run, "costUsd"),
        "started_at": text_at(run, "startedAt"),
    }


def _is_graded(run: JsonObject, case: JsonObject) -> bool:
    """Return whether every grader of a run gave a verdict."""
    types = _types_of(case)
    rows = objects_at(run, "graders")
    return bool(rows) and all(
        as_truth(row.get("passed")) is not None and not _is_skipped(row, run, types) for row in rows
    )


def _types_of(case: JsonObject) -> dict[str | None, str | None]:
    return {text_at(g, "name"): text_at(g, "type") for g in objects_at(case, "graders")}


def _is_skipped(row: JsonObject, run: JsonObject, types: Mapping[str | None, str | None]) -> bool:
    """Return whether a grader that asks a model was skipped, so that its fail is no verdict."""
    is_paid = bool(run.get("skippedPaidGraders")) or types.get(text_at(row, "name")) in _PAID
    return is_paid and (text_at(row, "explanation") or "").lower().startswith("skipped")


def _graders_of_skill(case: JsonObject) -> dict[str | None, JsonObject]:
    """Return the settings of each grader of a case that looks at the tool Skill, by its name."""
    graders = [g for g in objects_at(case, "graders") if g.get("type") == "tool_used"]
    configs = {text_at(grader, "name"): object_at(grader, "config") for grader in graders}
    return {name: config for name, config in configs.items() if config.get("tool") == "Skill"}


def _report_skills(content: JsonObject, problems: Problems) -> bool:
    """Return whether all graders of the tool Skill look at one skill; report other files."""
    configs = [c for case in objects_at(content, "cases") for c in _graders_of_skill(case).values()]
    # a setting that is copied from the user's YAML keeps its spelling
    matches = (config.get("inputMatch", config.get("input_match")) for config in configs)
    names = sorted(set(map(json.dumps, matches)))
    if len(names) > 1:
        done = "it is not known which is tested: whether the skill fires is not read"
        problems.add("skills that graders look at", ", ".join(names), done, 0)
    return len(names) < 2


def _use_of_skill(run: JsonObject, case: JsonObject) -> JsonObject:
    """Return whether the skill should be used and was; None if no grader shows it.

    A maximum of 0 forbids the skill, and a minimum of at least 1 (the default) demands it.
    """
    limits = {}
    for name, config in _graders_of_skill(case).items():
        low, high = (as_number(config.get(key)) for key in ("min", "max"))
        limits[name] = (1 if low is None else low, high)
    demands = {high != 0 for low, high in limits.values() if low or high == 0}
    should = demands.pop() if len(demands) == 1 else None
    about: JsonObject = {"triggered": None} | ({"should_trigger": should} if limits else {})
    for row in objects_at(run, "graders"):
        low, high = limits.get(text_at(row, "name"), (0, None))
        passed = as_truth(row.get("passed"))
        if passed is not None and high == 0:
            return about | {"triggered": not passed}
        if passed is not None and low and (passed or (low == 1 and high is None)):
            return about | {"triggered": passed}
    return about


def _verdicts_on_run(run: JsonObject, case: JsonObject, problems: Problems) -> Iterator[JsonObject]:
    """Yield the verdict of each grader that counts.

    A grader that is not scored in both arms, or that checks the tool Skill, does not count.
    """
    of_skill, types = _graders_of_skill(case), _types_of(case)
    for row in objects_at(run, "graders"):
        name = text_at(row, "name")
        if name in of_skill:
            problems.add(*USE_OF_SKILL)
            continue
        if not row.get("scored", not row.get("withOnly")):
            problems.add("graders that count in one arm only", f"'{name}'", "left out")
            continue
        skipped = _is_skipped(row, run, types)
        if skipped:
            done = "the verdict is missing, although the file has a fail"
            problems.add("graders", text_at(row, "explanation") or "", done)
        yield {
            "check": name,
            "passed": None if skipped else as_truth(row.get("passed")),
            "check_weight": 1 if (weight := number_at(row, "weight")) is None else weight,
            "grader": "plugin-eval",
            "grader_kind": types.get(name),
            "rationale": text_at(row, "explanation") or "",
            **_facts_of_votes(row.get("judgeVotes")),
        }


def _facts_of_votes(votes: Any) -> JsonObject:
    """Return ``score``, the share of passing votes, and ``borderline``: whether votes differ."""
    if not isinstance(votes, list) or not votes or not all(isinstance(v, bool) for v in votes):
        return {"score": None, "borderline": None}
    return {"score": sum(votes) / len(votes), "borderline": len(set(votes)) > 1}
