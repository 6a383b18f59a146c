"""Results of promptfoo, in version 3 of its JSON format."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from skillcomp.io.files import (
    JsonObject,
    as_truth,
    list_of_objects,
    number_at,
    object_at,
    objects_at,
    text_at,
)
from skillcomp.readers.reader import Problems, Reader, json_object, read_json, rows_of_attempt

_ERROR = 2  # value of `failureReason` if the provider failed
_JUDGES = ("llm-rubric", "g-eval", "factuality", "model-graded", "answer-relevance", "context-")
_SKILL_USED = "skill-used"  # Type of assertion that only the arm with the skill can have.
_LONG = 60  # The id of a check shows at most this many characters of the assertion's value.


class PromptfooReader(Reader):
    """Reader of promptfoo results; the variables and description of a test identify its case."""

    name = "promptfoo"

    def recognises(self, path: Path) -> bool:
        """Return whether a file is in version 3: each of its results names a prompt or a test."""
        results = json_object(path).get("results")
        if not isinstance(results, dict) or not isinstance(results.get("results"), list):
            return False
        rows = list_of_objects(results["results"])
        return not rows or all(r.keys() & {"promptIdx", "testIdx", "testCase"} for r in rows)

    def table(self, path: Path, problems: Problems) -> pd.DataFrame:
        """Return one row per attempt and assertion.

        `prompt_label`, `provider` and `provider_label` are columns that may name the arms. If only
        the prompt or only the provider varies, its label is also the column `condition`. Each
        variable of a test is a column, too.
        """
        results = list_of_objects(read_json(path)["results"]["results"])
        # the file lists the results in the order in which they were completed
        results = sorted(results, key=lambda row: number_at(row, "testIdx") or 0)
        counts = Counter[tuple[str, ...]]()
        rows = []
        for result in results:
            case, variables = _case_of(result)
            prompt, label, provider = _fields_of_arms(result)
            place = (case, prompt, label, provider)
            counts[place] += 1
            about = {**variables, "case": case, "repeat": counts[place], "prompt_label": prompt}
            about |= {"provider": provider, "provider_label": label, "agent": provider}
            about |= _facts_of_result(result) | {"triggered": _used_skill(result)}
            rows += rows_of_attempt(about, _verdicts_on_result(result, about, problems))
        most = max(counts.values(), default=0)
        if most > 1:
            what = f"up to {most} tests with equal variables and description"
            problems.add("testIdx", what, "repeats of one case; promptfoo numbers them as tests")
        table = pd.DataFrame(rows)
        return table if table.empty else _with_arms(table)


def _fields_of_arms(result: JsonObject) -> tuple[str, str, str]:
    """Return the label of the prompt, and label and id of the provider."""
    provider, prompt = result.get("provider"), result.get("prompt")
    provider = provider if isinstance(provider, dict) else {"id": provider}
    prompt = prompt if isinstance(prompt, dict) else {"raw": prompt}
    name = text_at(provider, "id") or "unknown provider"
    label = text_at(prompt, "label") or text_at(prompt, "raw") or ""
    return label, text_at(provider, "label") or name, name


def _case_of(result: JsonObject) -> tuple[str, JsonObject]:
    """Return the case of a result, and its variables as columns.

    testIdx does not identify a case, because each repeat of `--repeat` has a number of its own.
    """
    test = object_at(result, "testCase")
    variables = object_at(result, "vars")
    description = text_at(test, "description")
    texts = {name: _as_case_text(value) for name, value in sorted(variables.items())}
    parts = [description] if description else []
    parts += [f"{name}={text}" for name, text in texts.items()]
    return " | ".join(parts) or f"test {result.get('testIdx')}", {
        f"vars.{name}": text for name, text in texts.items()
    }


def _as_case_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _facts_of_result(result: JsonObject) -> JsonObject:
    """Return the columns of an attempt: its status, answer, cost, time and tokens."""
    response = object_at(result, "response")
    tokens = object_at(response, "tokenUsage")
    output, latency = response.get("output"), number_at(result, "latencyMs")
    about = {
        "status": "error" if result.get("failureReason") == _ERROR else "ok",
        "answer": None if output is None else _as_case_text(output),
    }
    if response.get("cached") is True:
        return about
    cost = number_at(result, "cost") if result.get("cost") else number_at(response, "cost")
    return about | {
        "cost_usd": cost,
        "seconds": None if latency is None else latency / 1000,
        "input_tokens": number_at(tokens, "prompt"),
        "output_tokens": number_at(tokens, "completion"),
    }


def _verdicts_on_result(
    result: JsonObject, about: JsonObject, problems: Problems
) -> Iterator[JsonObject]:
    """Yield the verdict of each assertion; an assertion on the skill becomes ``triggered``."""
    if about["status"] == "error":
        error = (text_at(result, "error") or "no text")[:80]
        problems.add("failureReason", f"2: {error}", "the attempt is missing, not failed")
        return
    rows = _assertions_of(result)
    if not rows:
        done = "missing verdicts, not fails"
        problems.add("gradingResult", "no result of an assertion", done)
        return
    checks = _check_ids(rows)
    used = [row for row in rows if _type_of(row) == _SKILL_USED]
    if used:
        problems.add(_SKILL_USED, "an assertion about the skill", "no check; read as 'triggered'")
    rest = [(row, name) for row, name in zip(rows, checks, strict=True) if row not in used]
    if result.get("success") is True and any(row.get("pass") is False for row, _ in rest):
        done = "a fail here: every check has to pass; value='share_passed' counts checks"
        problems.add("success", "a test passed although an assertion failed (threshold)", done)
    for row, name in rest:
        assertion = object_at(row, "assertion")
        yield {
            "check": name,
            "passed": as_truth(row.get("pass")),
            "score": number_at(row, "score"),
            "check_weight": 1 if (weight := number_at(assertion, "weight")) is None else weight,
            "rationale": text_at(row, "reason"),
            "grader": "promptfoo",
            "grader_kind": "llm" if _type_of(row).startswith(_JUDGES) else "rules",
        }


def _assertions_of(result: JsonObject) -> list[JsonObject]:
    return objects_at(object_at(result, "gradingResult"), "componentResults")


def _used_skill(result: JsonObject) -> bool | None:
    """Return whether the skill was used; None if no assertion checked it, or after an error."""
    if result.get("failureReason") == _ERROR:
        return None
    used = [row for row in _assertions_of(result) if _type_of(row) == _SKILL_USED]
    return as_truth(used[0].get("pass")) if used else None


def _type_of(row: JsonObject) -> str:
    return text_at(object_at(row, "assertion"), "type") or "assertion"


def _check_ids(rows: list[JsonObject]) -> list[str]:
    """Return the id of each check: its metric, or its type and value; equal ids get numbers."""
    names = []
    counts = Counter[str]()
    for row in rows:
        assertion = object_at(row, "assertion")
        value = assertion.get("value")
        text = "" if value is None else _as_case_text(value)
        text = text if len(text) <= _LONG else text[: _LONG - 3] + "..."
        name = text_at(assertion, "metric") or ": ".join(filter(None, [_type_of(row), text]))
        counts[name] += 1
        names.append(name if counts[name] == 1 else f"{name} ({counts[name]})")
    return names


def _with_arms(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with a condition, unless several fields could name the arm.

    If only the provider varies, it names the arm and not the agent. If neither the provider nor the
    prompt varies, a variable of the tests could name the arm, provided that some tests differ in
    this variable only.
    """
    n_prompts, n_providers = table["prompt_label"].nunique(), table["provider_label"].nunique()
    if n_prompts == 1 and n_providers > 1:
        return table.assign(condition=table["provider_label"], agent=None)
    is_prompt = n_providers == 1 and (n_prompts > 1 or not _has_crossed_variables(table))
    return table.assign(condition=table["prompt_label"]) if is_prompt else table


def _has_crossed_variables(table: pd.DataFrame) -> bool:
    """Return whether some tests differ in only one of their variables."""
    names = [n for n in map(str, table) if n.startswith("vars.") and table[n].nunique() > 1]
    for name in names if len(names) > 1 else ():
        others = [other for other in names if other != name]
        if table.groupby(others, dropna=False)[name].nunique().max() > 1:
            return True
    return False
