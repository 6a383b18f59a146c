"""Results of promptfoo, written by the tests in the shape of version 3."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest
from build import problems, results

import skillcomp as sc
from skillcomp.errors import FrameError
from skillcomp.readers.reader import in_one_line

ARMS = {"plain": "baseline", "skilled": "skill"}
KNOWN = {"words": {"condition": ARMS}, "skill": "sea", "agent_model": "m", "grader_model": "j"}


def row(index: int, prompt: str, tide: str, *passed: bool, **facts: Any) -> dict[str, Any]:
    """One result with an assertion for each verdict."""
    parts = [
        {"pass": p, "score": int(p), "reason": "", "assertion": {"type": "contains", "value": v}}
        for p, v in zip(passed, "abc", strict=False)
    ]
    return {
        "testIdx": index,
        "promptIdx": 0,
        "provider": {"id": "openai:x", "label": ""},
        "prompt": {"raw": "?", "label": prompt},
        "vars": {"tide": tide},
        "testCase": {"assert": []},
        "failureReason": 0,
        "response": {"output": "high", "tokenUsage": {"prompt": 3, "completion": 4}},
        "latencyMs": 500,
        "gradingResult": {"pass": all(passed), "componentResults": parts},
        **facts,
    }


def written(folder: Path, rows: list[dict[str, Any]]) -> Path:
    file = folder / "out.json"
    file.write_text(json.dumps({"evalId": "e", "results": {"version": 3, "results": rows}}))
    return file


def test_the_message_on_unknown_arms_lists_the_prompts_and_no_variable(tmp_path: Path) -> None:
    rows = [row(at, arm, tide, True) for at, tide in enumerate("ab") for arm in ARMS]
    for at, other in enumerate(rows):
        other["provider"] = {"id": f"openai:{at // 2}", "label": ""}
    text = (
        r"Name the field of the arms, columns=\{'FIELD': 'condition'\}.*prompt_label: 'plain', 'sk"
    )
    with pytest.raises(FrameError, match=text):
        sc.read_results(written(tmp_path, rows))
    file = written(tmp_path, [row(0, arm, "a", True) for arm in ("plain", "x")])
    with pytest.warns(sc.frames.FrameWarning):
        made = sc.read_results(file, words={"condition": {"plain": "baseline"}})
    assert made.attempts["condition"].tolist() == ["baseline", "x"]
    with pytest.raises(FrameError, match="promptfoo: there are no results in it"):
        results(written(tmp_path, []), **KNOWN)


def test_a_variable_may_be_the_arm_and_another_the_case(tmp_path: Path) -> None:
    rows = []
    for at, text in enumerate(["", "# Tides\nRead."] * 3):
        tide = ("neap", "spring", "ebb")[at // 2]
        rows.append(row(at, "p", tide, bool(text)) | {"vars": {"tide": tide, "skill": text}})
    file = written(tmp_path, rows)
    arms = {"": "baseline", "# Tides\nRead.": "skill"}
    with pytest.raises(FrameError, match=r"Fields: vars.skill: '\(empty\)', '# Tides Read.'"):
        sc.read_results(file)
    named = KNOWN | {"words": {"condition": arms}, "columns": {"vars.skill": "condition"}}
    made = results(file, **named)
    assert "case= names a field that the arms share" in problems(made)
    made = results(file, case="vars.tide", **named)
    assert sc.deltas.paired(made.outcomes)[["estimate", "n"]].to_numpy().tolist() == [[1, 3]]
    with pytest.raises(FrameError, match=r"no field 'tide'; there: .*vars.tide"):
        results(file, case="tide", **named)


def test_a_repeat_is_no_case(tmp_path: Path) -> None:
    rows = []
    for at, tide in enumerate(["neap", "spring", "ebb", "neap", "spring", "ebb"]):
        rows += [row(at, "plain", tide, at % 2 == 0), row(at, "skilled", tide, at != 5)]
    made = results(written(tmp_path, rows[::-1]), **KNOWN)
    delta = sc.deltas.paired(made.outcomes, interval="t").iloc[0]
    assert delta["n_clusters"] == 3  # 6 by testIdx, with the interval [.17, 1]
    assert made.attempts.groupby(["case_id", "condition"])["repeat"].max().eq(2).all()
    assert "repeats of one case" in problems(made)


def test_the_caller_names_the_field_that_is_the_arm(tmp_path: Path) -> None:
    rows = []
    for provider in ("p1", "p2"):
        for prompt in ARMS:
            rows.append(row(0, prompt, "neap", True, provider={"id": provider}))
    with pytest.raises(sc.errors.FrameError, match=r"does not say which.*provider: 'p1', 'p2'"):
        results(written(tmp_path, rows), skill="sea")
    made = results(written(tmp_path, rows), **KNOWN, columns={"prompt_label": "condition"})
    assert made.attempts["agent"].nunique() == 2
    assert made.attempts["condition"].nunique() == 2
    labels = [row(0, "p", "neap", True, provider={"id": "x", "label": arm}) for arm in ARMS]
    assert results(written(tmp_path, labels), **KNOWN).attempts["agent"].isna().all()


def test_every_trap_of_a_result_keeps_its_meaning(tmp_path):
    rows = [row(0, "plain", "error", failureReason=2, gradingResult=None, error="429")]
    rows.append(row(1, "plain", "lost", gradingResult=None))
    rows += [row(at, "skilled", tide, True) for at, tide in enumerate(("error", "lost"))]
    rows += [row(2, "skilled", "used", True), row(2, "plain", "used", True)]
    part = {"pass": False, "score": 1, "assertion": {"type": "skill-used", "value": "sea"}}
    rows[-2]["gradingResult"]["componentResults"].append(part)
    rows.append(row(3, "skilled", "threshold", True, False, success=True))
    rows.append(row(3, "plain", "threshold", True, True, success=True))
    made = results(written(tmp_path, rows), **KNOWN)
    attempts = made.attempts.set_index(["case_id", "condition"])
    outcomes = made.outcomes.set_index(["case_id", "condition"])
    passed = outcomes["passed"].astype(object).where(outcomes["passed"].notna(), None)
    assert attempts["status"]["tide=error", "baseline"] == "error"
    assert attempts["status"]["tide=lost", "baseline"] == "ok"
    assert passed["tide=error", "baseline"] is passed["tide=lost", "baseline"] is None
    assert "missing, not failed" in problems(made)
    assert passed["tide=used", "skill"] and outcomes["n_checks"]["tide=used", "skill"] == 1
    assert attempts["triggered"]["tide=used", "skill"] == False  # noqa: E712 - and not missing
    assert [passed["tide=threshold", arm] for arm in ("baseline", "skill")] == [True, False]
    assert "every check has to pass" in problems(made)


def test_labels_of_several_lines_can_be_pasted_as_they_are_printed(tmp_path: Path) -> None:
    long = "You are a pilot.\n\nUse the tide tables of the harbour office, and name the datum.\n"
    labels = [long + "Be brief.", long + "Be thorough.", "Just answer.\nPlease."]
    rows = [row(at, arm, tide, True) for at, tide in enumerate("ab") for arm in labels]
    for at, other in enumerate(rows):
        other["provider"] = {"id": f"openai:{at // 3}"}
    file = written(tmp_path, rows)
    with pytest.raises(FrameError) as caught:
        results(file, **KNOWN)
    listed = re.search(r"prompt_label: (.*?); provider", str(caught.value))
    words = ast.literal_eval(f"[{listed[1]}]") if listed else []
    assert len(set(words)) == 3 and not any("\n" in word for word in words)
    arms = dict(zip(words, ("baseline", "skill", "short"), strict=True))
    for meaning in (arms, {labels[0]: "baseline", labels[1]: "skill", labels[2]: "short"}):
        known = KNOWN | {"words": {"condition": meaning}}
        made = results(file, columns={"prompt_label": "condition"}, **known)
        assert made.attempts["condition"].value_counts().to_dict() == dict.fromkeys(
            ("baseline", "skill", "short"), 2
        )


def test_an_array_and_lines_of_results_are_read_as_the_whole_file_is(tmp_path: Path) -> None:
    rows = [row(at, arm, tide, True) for at, tide in enumerate("ab") for arm in ARMS]
    whole = results(written(tmp_path, rows), **KNOWN)
    array, lines = tmp_path / "array.json", tmp_path / "lines.jsonl"
    array.write_text(json.dumps(rows))
    lines.write_text("\n".join(map(json.dumps, rows)))
    for file in (array, lines):
        assert results(file, **KNOWN).outcomes.equals(whole.outcomes)


def test_a_column_of_rates_is_no_condition(tmp_path: Path) -> None:
    rows = [{"case": f"c{at}", "passed": at > 2, "trigger_rate": at / 10} for at in range(5)]
    file = tmp_path / "rows.json"
    file.write_text(json.dumps(rows))
    with pytest.raises(FrameError) as caught:
        results(file, skill="sea")
    assert "'condition'" in str(caught.value)
    assert "trigger_rate': 'condition'" not in str(caught.value)


def test_names_of_labels_do_not_depend_on_the_order_of_the_file() -> None:
    labels = ["You are an expert. " * 9 + end + " Answer." * 9 for end in "ab"]
    labels += ["a b", "a  b", "a b (2)"]
    names = in_one_line(labels)
    assert names == in_one_line(labels[::-1]) and len(set(names.values())) == len(labels)


def test_a_judge_that_failed_gives_no_verdict(tmp_path: Path) -> None:
    rows = [row(at, arm, tide, True) for at, tide in enumerate("ab") for arm in ARMS]
    lost = {"pass": False, "reason": "Could not extract JSON from llm-rubric response"}
    rows[0]["gradingResult"]["componentResults"][0] |= lost
    rows[1]["gradingResult"]["componentResults"][0] |= {
        "pass": False,
        "metadata": {"graderError": True},
    }
    made = results(written(tmp_path, rows), **KNOWN)
    assert made.outcomes["passed"].isna().sum() == 2
    assert "the judge failed: the verdict is missing" in problems(made)
