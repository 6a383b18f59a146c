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
    as_object,
    as_truth,
    json_content,
    listed_objects,
    number_at,
    object_at,
    objects_at,
    read_json,
    text_at,
)
from skillcomp.readers.reader import USE_OF_SKILL, Problems, Reader, one_line, rows_of_attempt

_ERROR = 2  # value of `failureReason` if the provider failed
_JUDGES = ("llm-rubric", "g-eval", "factuality", "model-graded", "answer-relevance", "context-")
_NO_JUDGE = "Could not extract JSON from"  # begins the reason if the reply of a judge is unusable
_SKILL_USED = "skill-used"  # Type of assertion that only the arm with the skill can have.
_RESULTS = ("results", "results")  # keys of the list of results


class PromptfooReader(Reader):
    """Reader of promptfoo results; the variables and description of a test identify its case."""

    name = "promptfoo"

    def recognises(self, path: Path) -> bool:
        """Return whether each result of a file in version 3 names a prompt or a test.

        The results may also be a list of their own, or JSON Lines.
        """
        content = json_content(path)
        rows = listed_objects(content, *_RESULTS)
        is_empty = isinstance(object_at(as_object(content), "results").get("results"), list)
        needed = {"promptIdx", "testIdx", "testCase"}
        return all(row.keys() & needed for row in rows) if rows else is_empty

    def table(self, path: Path, problems: Problems) -> pd.DataFrame:
        """Return one row per attempt and assertion.

        `prompt_label`, `provider` and `provider_label` are columns that may name the arms. If only
        the prompt or only the provider varies, its label is also the column `condition`. Each
        variable of a test is a column, too.
        """
        results = listed_objects(read_json(path), *_RESULTS)
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
            about |= _facts_of_result(result) | _use_of_skill(result)
            rows += rows_of_attempt(about, _verdicts_on_result(result, about, problems))
        most = max(counts.values(), default=0)
        if most > 1:
            what = f"up to {most} with equal variables and description"
            problems.add("tests", what, "they are repeats of one case")
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
        problems.add("errors of the provider", error, "the answer is missing, not failed")
        return
    rows = _assertions_of(result)
    if not rows:
        problems.add("assertions", "no result", "the verdict is missing, not a fail")
        return
    checks = _check_ids(rows)
    used = [row for row in rows if _type_of(row).endswith(_SKILL_USED)]
    if used:
        problems.add(*USE_OF_SKILL)
    rest = [(row, name) for row, name in zip(rows, checks, strict=True) if row not in used]
    if result.get("success") is True and any(row.get("pass") is False for row, _ in rest):
        done = "a fail here: every check has to pass; value='share_passed' counts checks"
        problems.add("tests", "passed although an assertion failed (threshold)", done)
    for row, name in rest:
        assertion, reason = object_at(row, "assertion"), text_at(row, "reason") or ""
        lost = object_at(row, "metadata").get("graderError") or reason.startswith(_NO_JUDGE)
        if lost:
            problems.add("assertions", reason[:80], "the judge failed: the verdict is missing")
        yield {
            "check": name,
            "passed": None if lost else as_truth(row.get("pass")),
            "score": None if lost else number_at(row, "score"),
            "check_weight": 1 if (weight := number_at(assertion, "weight")) is None else weight,
            "rationale": reason,
            "grader": "promptfoo",
            "grader_kind": "llm" if _type_of(row).startswith(_JUDGES) else "rules",
        }


def _assertions_of(result: JsonObject) -> list[JsonObject]:
    return objects_at(object_at(result, "gradingResult"), "componentResults")


def _use_of_skill(result: JsonObject) -> JsonObject:
    """Return whether the skill should be used and was, if an assertion checked it."""
    used = [row for row in _assertions_of(result) if _type_of(row).endswith(_SKILL_USED)]
    if result.get("failureReason") == _ERROR or not used:
        return {"triggered": None}
    should, passed = _type_of(used[0]) == _SKILL_USED, as_truth(used[0].get("pass"))
    return {"should_trigger": should, "triggered": None if passed is None else passed == should}


def _type_of(row: JsonObject) -> str:
    return text_at(object_at(row, "assertion"), "type") or "assertion"


def _check_ids(rows: list[JsonObject]) -> list[str]:
    """Return the id of each check: its metric, or its type and value; equal ids get numbers."""
    names = []
    counts = Counter[str]()
    for row in rows:
        assertion = object_at(row, "assertion")
        value = assertion.get("value")
        text = "" if value is None else one_line(_as_case_text(value))
        name = text_at(assertion, "metric") or ": ".join(filter(None, [_type_of(row), text]))
        counts[name] += 1
        names.append(name if counts[name] == 1 else f"{name} ({counts[name]})")
    return names


def _with_arms(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with a condition if either the prompt or the provider varies, and not both.

    If only the provider varies, it names the arm and not the agent.
    """
    prompts, providers = table["prompt_label"], table["provider_label"]
    prompt_varies, provider_varies = prompts.nunique() > 1, providers.nunique() > 1
    if prompt_varies == provider_varies:
        return table
    if prompt_varies:
        return table.assign(condition=prompts)
    return table.assign(condition=providers, agent=None)
