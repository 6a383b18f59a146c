"""A store is held against itself: what its tables name is there, and keeps the contracts."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

import skillcomp as sc
from skillcomp import cli
from skillcomp.lint.lint_path import store_problems

CHECKS = [{"id": "c", "kind": "positive", "description": "Says it."}]
ATTEMPT = {"attempt_id": "tea/1/skill/1", "skill": "tea", "case_id": "tea/1", "condition": "skill"}
ATTEMPT |= {"answer": "Hot.", "loaded_skill": "tea"}
OTHER = ATTEMPT | {"attempt_id": "tea/1/baseline/1", "condition": "baseline"}
VERDICT = {"attempt_id": ATTEMPT["attempt_id"], "check_id": "c", "grader": "g", "passed": True}
GOLD = {"attempt_id": ATTEMPT["attempt_id"], "check_id": "c", "labeller": "me", "passed": True}
PAIR = {"skill": "tea", "case_id": "tea/1", "grader": "g", "order": 1}
PAIR |= {"first": ATTEMPT["attempt_id"], "second": OTHER["attempt_id"]}
TABLES = {"attempts": [ATTEMPT, OTHER], "verdicts": [VERDICT], "gold": [GOLD], "pairwise": [PAIR]}


def a_store(folder: Path, **changed: list[dict[str, object]]) -> sc.RunStore:
    store = sc.RunStore(folder / "study")
    for name, rows in {**TABLES, **changed}.items():
        store.append(name, [])
        (store.path / "suites").mkdir(parents=True, exist_ok=True)
        text = b"".join(orjson.dumps(row) + b"\n" for row in rows)
        (store.path / f"{name}.jsonl").write_bytes(text)
    source = folder / "tea.json"
    cases = [{"id": 1, "prompt": "What is it?", "expected_behaviors": CHECKS}]
    source.write_bytes(orjson.dumps({"skill_name": "tea", "evals": cases}))
    store.add_suite(source)
    return sc.RunStore(store.path)


def test_a_sound_store_has_no_problem(tmp_path: Path, pilot: sc.RunStore) -> None:
    assert store_problems(a_store(tmp_path)) == []
    assert store_problems(pilot) == []


BROKEN = [
    ("verdicts", [VERDICT | {"check_id": "d"}], "judge a check that their case does not have"),
    ("verdicts", [VERDICT | {"attempt_id": "x"}], "attempts that the store does not hold: x"),
    ("verdicts", [VERDICT, VERDICT], "2 rows share a key"),
    ("attempts", [ATTEMPT | {"skill": "mug"}, OTHER], "name another skill than their case"),
    ("attempts", [ATTEMPT | {"case_id": "tea/9"}, OTHER], "answer a case that no suite has"),
    ("attempts", [ATTEMPT, ATTEMPT, OTHER], "2 rows share a key"),
    (
        "attempts",
        [ATTEMPT | {"status": "refused"}, OTHER],
        "judge an attempt whose status is not ok",
    ),
    (
        "attempts",
        [ATTEMPT, OTHER, ATTEMPT | {"attempt_id": "y", "source_attempt_id": "z"}],
        "are copies of an attempt that is not there",
    ),
    ("attempts", [ATTEMPT | {"repeat": 0}, OTHER], "column 'repeat': found 0"),
    ("gold", [GOLD | {"attempt_id": "x"}], "label an attempt that is not there"),
    ("gold", [GOLD | {"check_id": "d"}], "label a check that their case does not have"),
    ("gold", [GOLD | {"inclusion_probability": 2.0}], "inclusion_probability"),
    ("pairwise", [PAIR | {"first": "x"}], "compare an attempt that is not there"),
    ("pairwise", [PAIR | {"winner": "x"}], "a winner that is neither of the two compared"),
    ("pairwise", [PAIR | {"winner_position": 3}], "winner_position"),
]


@pytest.mark.parametrize(("table", "rows", "said"), BROKEN)
def test_a_reference_that_leads_nowhere_is_an_error_of_the_check(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    table: str,
    rows: list[dict[str, object]],
    said: str,
) -> None:
    store = a_store(tmp_path, **{table: rows})
    found = store_problems(store)
    assert any(said in one for one in found), found
    with pytest.raises(SystemExit) as ended:
        cli.app(["check", str(store.path)])
    assert ended.value.code == 1
    assert said in capsys.readouterr().out


NAMES = ["attempt_id", "check_id", "grader", "case_id", "first"]


@pytest.mark.parametrize(
    ("table", "key"), [(t, k) for t in TABLES for k in NAMES if k in TABLES[t][0]]
)
def test_an_empty_name_is_refused_with_its_line(tmp_path: Path, table: str, key: str) -> None:
    row = TABLES[table][0]
    with pytest.raises(sc.errors.StoreError, match=f"line 1: '{key}' is empty"):
        a_store(tmp_path, **{table: [row | {key: ""}]}).table(table)
    with pytest.raises(sc.errors.StoreError, match=f"'{key}' is empty"):
        sc.RunStore(tmp_path / "new").append(table, [row | {key: ""}])
