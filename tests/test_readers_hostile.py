"""Broken and hostile files of other tools: one clear error or a missing verdict, never a crash."""

from __future__ import annotations

import copy
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from build import problems, results
from test_readers_deepeval import CRASH, a_case, metric
from test_readers_deepeval import written as deepeval
from test_readers_harbor import put, trial
from test_readers_plugin_eval import run
from test_readers_plugin_eval import written as plugin_eval
from test_readers_promptfoo import row
from test_readers_promptfoo import written as promptfoo
from test_readers_skill_creator import grading, official

from skillcomp.errors import ExtraError, FrameError
from skillcomp.readers import Problems, Reader
from skillcomp.readers.deepeval import DeepevalReader
from skillcomp.readers.harbor import HarborReader
from skillcomp.readers.plugin_eval import PluginEvalReader
from skillcomp.readers.promptfoo import PromptfooReader
from skillcomp.readers.skill_creator import (
    BenchmarkReader,
    TriggerReader,
    WorkspaceReader,
)

KNOWN = {"skill": "sea", "agent": "c", "agent_model": "m", "grader_model": "j"}
NESTED = json.loads("[" * 300 + "]" * 300)
STRANGE = ["x", {"a": {"b": 1}}, 10**15, -1, NESTED]


def triggers(**facts: Any) -> dict[str, Any]:
    return {"query": "tide?", "should_trigger": True, "triggers": 2, "runs": 3, **facts}


def counted(passed: Any, total: Any, **facts: Any) -> dict[str, Any]:
    case = {"case_id": "a", "condition": "with_skill", "passed": passed, "total": total}
    return {"runs": [{**case, **facts}]}


def contents(folder: Path) -> Iterator[tuple[Reader, Any]]:
    """Yield a reader and a small file for each format."""
    aborted = run(True, aborted={"server": "s"})
    suite = {"ablation": "none", "plugins": [{"name": "sea"}]}
    arms = {"with": [run(True), aborted], "without": [run(False, error="timeout")]}
    yield PluginEvalReader(), plugin_eval(folder, {"a": arms}, suite=suite)
    rows = [row(0, "plain", "neap", True, False), row(0, "skilled", "neap", True)]
    yield PromptfooReader(), promptfoo(folder, rows)
    yield DeepevalReader(), deepeval(folder / "d.json", a_case("a", metric(True), CRASH))
    spent = {"cost_usd": 0.3, "model_usage": [{"cost_usd": 0.2}]}
    yield HarborReader(), trial("ebb", 1.0, agent_result=spent)
    runs = [official(arm, 1, True) for arm in ("with_skill", "without_skill")]
    yield BenchmarkReader(), {"metadata": {"skill_name": "sea"}, "runs": runs}
    yield BenchmarkReader(), counted(3, 4, exit_code=0, cost_usd=0.5)
    yield TriggerReader(), {"skill_name": "sea", "results": [triggers()]}
    yield WorkspaceReader(), grading(True, False)


def changed(content: Any, value: Any) -> Iterator[Any]:
    """Yield copies of parsed JSON with the value at each place in turn."""
    yield value
    for key in content if isinstance(content, dict) else range(len(content)):
        part = content[key]
        for new in changed(part, value) if isinstance(part, dict | list) else [value]:
            other = copy.copy(content)
            other[key] = new
            yield other


@pytest.mark.parametrize("number", range(8))
def test_a_value_of_another_type_at_any_place_is_no_crash(number: int, tmp_path: Path) -> None:
    reader, content = list(contents(tmp_path))[number]
    content = json.loads(content.read_text()) if isinstance(content, Path) else content
    whole = isinstance(reader, WorkspaceReader)
    file = tmp_path / "w" / "eval-a" / "with_skill" / "grading.json"
    file.parent.mkdir(parents=True)
    path, n_read = (tmp_path / "w" if whole else file), 0
    # each place gets two or three of the five values
    others = [new for at, v in enumerate(STRANGE) for new in [*changed(content, v)][at % 2 :: 2]]
    for at, other in enumerate(others):
        file.write_text(json.dumps(other) + " " * at)  # files of one size and time are one file
        if reader.recognises(path):
            made = reader.table(path, Problems())
            n_read += 1
            assert len(made) < 50 and len(reader.pairs(path, Problems())) < 2
    assert n_read > 8


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"results": {"results": [', "not JSON .*line 1 column 26"),
        ('{"runs": [{"pass_rate": NaN}]}', "not JSON .*line 1 column 25"),
        ('{"runs": [{"passed": 1, "passed": 0}]}', "not JSON .*the key 'passed' twice"),
        ('{"a": ' + "[" * 100_000, "not JSON"),
    ],
)
def test_a_broken_file_is_named_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "out.json"
    file.write_text(text)
    for path in (file, tmp_path):
        with pytest.raises(FrameError, match=f"out.json: {message}"):
            results(path)


def test_a_broken_file_in_a_tree_is_a_missing_attempt_that_is_reported(tmp_path: Path) -> None:
    for job, passed in {"plain": 0.0, "skilled": 1.0}.items():
        put(tmp_path / "jobs" / job / "a" / "result.json", trial("ebb", passed))
    jobs = {"plain": "baseline", "skilled": "skill"}
    file = tmp_path / "jobs" / "skilled" / "b" / "c" / "result.json"
    file.parent.mkdir(parents=True)
    file.write_text('{"task_name": "flow"')
    (file.parent / "x").symlink_to("/etc")
    made = results(
        tmp_path / "jobs", words={"condition": jobs}, columns={"job": "condition"}, **KNOWN
    )
    assert "their answers are missing" in problems(made)
    assert made.outcomes["passed"].tolist() == [False, True]


def test_impossible_numbers_are_missing_verdicts(tmp_path):
    counts = [(5, 4), (-1, 4), (2.5, 4), (3, 10**15), (3, "4"), (None, 4), (1, 0)]
    rows = [counted(*two, case_id=str(at))["runs"][0] for at, two in enumerate(counts)]
    odd = [{"triggers": 5}, {"triggers": "x"}, {"runs": 10**15}, {"should_trigger": "yes"}]
    queries = [triggers(query=str(at), **facts) for at, facts in enumerate(odd)]
    for content, n in (
        ({"runs": rows}, 7),
        ({"skill_name": "sea", "results": queries}, 12),
    ):
        put(tmp_path / f"{n}.json", content)
        made = results(tmp_path / f"{n}.json", **KNOWN)
        assert made.outcomes["passed"].isna().all() and made.verdicts["score"].isna().all()
        assert len(made.attempts) <= n
        assert re.search("no usable grading|missing", problems(made))
    assert "missing" in problems(made)


def test_a_query_of_another_type_is_named(tmp_path: Path) -> None:
    put(tmp_path / "t.json", {"results": [triggers(query=["a"]), triggers()]})
    with pytest.raises(
        FrameError, match=r"t.json(.|\n)*'case' \(columns=\{'case': 'case'\}\): missing in 3 rows"
    ):
        results(tmp_path / "t.json", **KNOWN)


def test_cases_of_one_name_with_other_prompts_are_refused(tmp_path: Path) -> None:
    file = deepeval(tmp_path / "d.json", a_case("a", metric(True)), a_case("a", metric(False)))
    content = json.loads(file.read_text())
    content["testRunData"]["testCases"][1]["input"] = "Something else?"
    file.write_text(json.dumps(content))
    with pytest.raises(FrameError, match=r"d.json(.|\n)*'prompt'.*differs between the rows of one"):
        results({"skill": file}, **KNOWN)


def test_a_log_of_inspect_without_inspect_ai_names_the_command(tmp_path, monkeypatch):
    put(tmp_path / "log.json", {"status": "success", "eval": {"task": "t", "model": "m"}})
    monkeypatch.setitem(sys.modules, "inspect_ai.log", None)
    with pytest.raises(ExtraError, match=r"log.json: a log of Inspect needs .*skillcomp\[inspect"):
        results(tmp_path / "log.json", **KNOWN)
