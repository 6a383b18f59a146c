"""Logs of Inspect, ``.eval`` and ``.json``, read by inspect-ai itself."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from skillcomp.errors import FrameError, extra_imports
from skillcomp.io.files import (
    JsonObject,
    as_object,
    as_text,
    json_object,
    list_of_objects,
    object_at,
    open_file,
)
from skillcomp.readers.reader import Problems, Reader, passes, rows_of_attempt

_LETTERS = {"C": True, "I": False, "N": False}
_LIMITS = {"time": "timeout", "working": "timeout", "operator": "error"}
# scorers of inspect-ai that need no model, because they only compare texts
_RULES = dict.fromkeys(("includes", "match", "pattern", "answer", "exact", "f1", "choice"), "rules")
_MEMBERS = ("header.json", "_journal/start.json")
# facts about a case and its condition that a task of skillcomp writes into the log
_OWN_FACTS = (
    *("skill", "condition", "loaded_skill", "dimension", "transfer", "criticality", "contrast_of"),
    *("prompt_kind", "right_skills"),
)
# fields of a verdict of skillcomp's own tasks, and those with another name in the table
_OF_VERDICT = (
    *(
        "check_id",
        "status",
        "check_kind",
        "check_weight",
        "goal",
        "passed",
        "score",
        "rationale",
        "evidence_quote",
    ),
    *("borderline", "graded_at", "grader_kind", "grader_model", "grader_family"),
    *("grader_version", "grader"),
)
_RENAMED = {"check_id": "check", "status": "verdict_status"}


class InspectReader(Reader):
    """Reader of one log of Inspect.

    If a log has several arms, a field of the log names the arm of each sample, and ``columns=``
    names this field. If each log holds one arm, `read_results` needs a mapping of
    condition to path.
    """

    name = "inspect"

    def recognises(self, path: Path) -> bool:
        """Return whether a file is a log: a zip file with a header, or JSON with an evaluation."""
        if _is_eval_file(path):
            return True
        content = json_object(path)
        spec = content.get("eval")
        return isinstance(spec, dict) and {"task", "model"} <= spec.keys() and "status" in content

    def table(self, path: Path, problems: Problems) -> pd.DataFrame:
        """Return one row per sample, epoch and score, with columns that may name the arm."""
        log = _log_at(path)
        spec = log.eval
        if log.status != "success":
            done = "the samples that were scored are kept, the others are missing"
            problems.add("status of the log", str(log.status), done, 0)
        facts = {"task": spec.task, "agent": spec.model, "agent_model": spec.model}
        facts["tags"] = ", ".join(spec.tags or []) or None
        facts |= _texts_of("task_args", spec.task_args) | _texts_of("metadata", spec.metadata)
        models = _grader_models(spec)
        rows = []
        for sample in log.samples or []:
            about = {**facts, **_facts_of_sample(sample, spec.model)}
            rows += rows_of_attempt(about, _verdicts_on_sample(sample, about, models, problems))
        return pd.DataFrame(rows)


def _is_eval_file(path: Path) -> bool:
    try:
        opened = open_file(path, what="log", error=FrameError)
        with opened, zipfile.ZipFile(opened) as archive:
            return any(name in archive.namelist() for name in _MEMBERS)
    except (FrameError, OSError, zipfile.BadZipFile, ValueError):
        return False


def _log_at(path: Path) -> Any:
    """Return the log at a path; the file may have any name."""
    with extra_imports("inspect", f"{path}: a log of Inspect"):
        from inspect_ai.log import read_eval_log
    open_file(path, what="log", error=FrameError).close()
    try:
        return read_eval_log(str(path), format="eval" if _is_eval_file(path) else "json")
    except Exception as cause:  # a broken log can raise errors from several libraries
        raise FrameError(f"{path}: not a log of Inspect ({cause!r:.300}).") from cause


def _texts_of(prefix: str, values: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the short texts in a mapping as columns that may name the arm or the case."""
    pairs = {f"{prefix}.{key}": as_text(value) for key, value in (values or {}).items()}
    return {key: text for key, text in pairs.items() if text is not None and len(text) < 200}


def _grader_models(spec: Any) -> dict[str, str | None]:
    """Return the model of each scorer, if the log names one."""
    role = (spec.model_roles or {}).get("grader")
    shared = as_text(getattr(role, "model", role))
    return {s.name: as_text((s.options or {}).get("model")) or shared for s in (spec.scorers or [])}


def _facts_of_sample(sample: Any, model: str) -> JsonObject:
    limit = None if sample.limit is None else str(sample.limit.type)
    status = "ok" if limit is None else _LIMITS.get(limit, "truncated")
    usage = (sample.model_usage or {}).get(model)
    counts = {}
    if usage is not None:
        cached = usage.input_tokens_cache_read or 0
        written = usage.input_tokens_cache_write or 0
        counts = {
            "input_tokens": usage.input_tokens + cached + written,
            "cached_tokens": cached,
            "output_tokens": usage.output_tokens,
        }
    prompt = sample.input if isinstance(sample.input, str) else None
    return {
        "case": str(sample.id),
        "repeat": int(sample.epoch),
        "prompt": prompt,
        "files": ", ".join(sorted(sample.files or [])),
        "status": "error" if sample.error is not None else status,
        "stop_reason": limit,
        "answer": sample.output.completion if sample.error is None else None,
        "seconds": sample.total_time,
        **counts,
        **_texts_of("sample.metadata", sample.metadata),
        **_own_facts(sample.metadata),
    }


def _own_facts(metadata: Any) -> JsonObject:
    """Return the facts that a task of skillcomp wrote into the metadata of a log."""
    own = as_object(as_object(metadata).get("skillcomp"))
    texts = {name: as_text(own.get(name)) for name in _OWN_FACTS}
    present: JsonObject = {name: text for name, text in texts.items() if text is not None}
    if "offered" in own:  # only logs of trigger suites have the key "offered"
        offered = own["offered"] if isinstance(own["offered"], list) else []
        present |= {"offered": tuple(offered), "should_trigger": own.get("should_trigger")}
    return present | ({"asked_under": present["condition"]} if "condition" in present else {})


def _verdicts_on_sample(
    sample: Any, about: JsonObject, models: Mapping[str, str | None], problems: Problems
) -> Iterator[JsonObject]:
    """Yield the verdict of each score."""
    if sample.error is not None:
        done = "the answer is missing, not failed"
        problems.add("samples with an error", f"{sample.error.message:.80}", done)
        return
    if about["status"] == "error":
        problems.add("samples", "ended by a person", "the answer is missing")
        return
    if not sample.scores:
        problems.add("samples", "without a score", "the verdict is missing, not a fail")
        return
    for scorer, score in sample.scores.items():
        own = as_object(as_object(score.metadata).get("skillcomp"))
        if own:
            yield from _own_verdicts(own, about["status"] == "ok")
            continue
        values = score.value if isinstance(score.value, dict) else {"score": score.value}
        for check, value in values.items():
            passed, number = _verdict_of(value, scorer, problems)
            yield {
                "check": str(check),
                "passed": passed,
                "score": number,
                "grader": scorer,
                "grader_kind": "llm" if models.get(scorer) else _RULES.get(scorer),
                "grader_model": models.get(scorer),
                "rationale": score.explanation,
            }


def _own_verdicts(own: JsonObject, is_whole: bool) -> list[JsonObject]:
    """Return the verdicts of a skillcomp task, with the columns of the attempt that it records.

    An answer that hit a limit of Inspect (not ``is_whole``) keeps its status.
    """
    attempt = object_at(own, "attempt")
    names = ("agent_family", *(("status", "stop_reason") if is_whole else ()))
    about: JsonObject = {name: as_text(attempt.get(name)) for name in names}
    if isinstance(attempt.get("invoked"), list):
        about |= {"invoked": tuple(attempt["invoked"]), "triggered": attempt.get("triggered")}
    # ignore verdicts on an answer that hit a limit, because skillcomp does not grade such answers
    verdicts = own.get("verdicts") if about.get("status") == "ok" else None
    rows = list_of_objects(verdicts)
    return rows_of_attempt(
        about, [{_RENAMED.get(name, name): row.get(name) for name in _OF_VERDICT} for row in rows]
    )


def _verdict_of(value: Any, scorer: str, problems: Problems) -> tuple[bool | None, float | None]:
    """Return whether a score passes, and the score as a number; each is None if unknown."""
    if isinstance(value, bool):
        return value, None
    letter = value.upper() if isinstance(value, str) else ""
    if letter == "P":
        problems.add(f"scorer {scorer}", "P (partly correct)", "no pass; the score is 0.5")
        return False, 0.5
    if letter in _LETTERS:
        return _LETTERS[letter], None
    if isinstance(value, int | float) and not math.isnan(value):
        return passes(value, f"scorer {scorer}", problems), float(value)
    problems.add(f"scorer {scorer}", f"{value!r:.40}", "no verdict: missing, not a fail")
    return None, None
