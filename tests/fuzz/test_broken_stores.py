"""Broken files of a study give an answer or one error of ours, soon, and no byte is lost."""

from __future__ import annotations

import random
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
from analyses import LONG
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.main import get_command

import skillcomp as sc
from skillcomp import cli
from skillcomp.errors import SkillcompError
from skillcomp.lint import lint_path, lint_places

SKILL = """---
name: tea
description: Brewing tea.
metadata: {author: me, tags: [hot, dry]}
concept:
  definition: Tea is what hot water draws from dried leaves within some minutes.
  mental_model: |
    Leaf: what gives its taste.
    Water: what takes it.
---
# Tea

## Coverage

Leaves and water.

```sh
boil
```

## Verification

- hot
- short
"""
CHECKS = [{"id": "c", "kind": "positive", "description": "Says it."}]
CHECKS += [{"id": "no_quoting", "kind": "negative", "description": "Does not quote."}]
CASES = [
    {"id": i, "prompt": f"What is {i}?", "comprehension_dimension": "C1", "transfer": "near"}
    | {"truth_sources": ["skills/tea/SKILL.md:1-3"], "expected_behaviors": CHECKS}
    for i in (1, 2)
]
IDS = [(i, c) for i in (1, 2) for c in ("baseline", "skill")]
TABLES = {
    "attempts": [
        {"attempt_id": f"tea/{i}/{c}", "skill": "tea", "case_id": f"tea/{i}", "condition": c}
        | {"answer": "Hot.", "started_at": "2026-01-01T10:00:00Z", "cost_usd": 0.1, "repeat": 1}
        for i, c in IDS
    ],
    "verdicts": [
        {"attempt_id": f"tea/{i}/{c}", "check_id": "c", "grader": "g", "passed": True, "round": 1}
        | {"evidence_quote": "Hot", "status": "ok"}
        for i, c in IDS
    ],
    "gold": [
        {"attempt_id": f"tea/{i}/{c}", "check_id": "c", "labeller": "me", "passed": True}
        for i, c in IDS
    ],
    "pairwise": [
        {"skill": "tea", "case_id": "tea/1", "grader": "g", "order": 1}
        | {"first": "tea/1/skill", "second": "tea/1/baseline", "winner": "tea/1/skill"}
    ],
}
PIECES = [
    *(b"\0", b"\xff\xfe", b"\xc3", b"\n", b"\r", b"\r\n", b"{", b"}", b"[", b"]", b'"', b",", b":"),
    *(b"null", b"true", b"-1", b"1e999", b"NaN", b"{}", b"[]", b'""', b'"\\ud800"', b"\\u0000"),
    *(b"&a", b"*a", b"<<: *a", b"!!python/object:os.system", b"---", b"- ", b"\t", b"# ", b"```"),
    *(b"9" * 5000, b"[" * 2000, b"\xef\xbb\xbf", "\u2028é".encode(), b"../../x", b"x" * 70_000),
]

COMMAND = get_command(cli.app)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sound")
    (folder / "tea").mkdir()
    (folder / "tea" / "SKILL.md").write_text(SKILL, encoding="utf-8")
    (folder / "tea.json").write_bytes(orjson.dumps({"skill_name": "tea", "evals": CASES}))
    store = sc.RunStore(folder / "study")
    store.add_skill(folder / "tea")
    store.add_suite(folder / "tea.json")
    for name, rows in TABLES.items():
        store.append(name, rows)
    return store.path


def _values(value: object, rng: random.Random) -> object:
    """Put an odd value somewhere into JSON."""
    odd = [None, True, 0, -1, 2**70, 1.5, "", "x", "\u0000", [], {}, [[]], {"a": {"a": 1}}]
    if isinstance(value, dict) and value and rng.random() < 0.8:
        key = rng.choice(list(value))
        if rng.random() < 0.15:
            return {one: other for one, other in value.items() if one != key}
        return value | {key: _values(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.8:
        at = rng.randrange(len(value))
        return [*value[:at], _values(value[at], rng), *value[at + 1 :]]
    return rng.choice(odd)


def _json(data: bytes, rng: random.Random) -> bytes:
    try:
        lines = data.splitlines() if data.count(b"\n") > 1 and data[:2] != b"{\n" else [data]
        at = rng.randrange(len(lines))
        lines[at] = orjson.dumps(_values(orjson.loads(lines[at]), rng))
        return b"\n".join(lines) + b"\n"
    except (ValueError, TypeError):
        return data


def _insert(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(PIECES) + data[at + rng.choice([0, 0, 1, 5]) :]


def _line(data: bytes, rng: random.Random) -> bytes:
    lines = data.split(b"\n")
    at = rng.randrange(len(lines))
    return b"\n".join(rng.choice([[*lines, lines[at]], lines[:at] + lines[at + 1 :]]))


CHANGES: list[Callable[[bytes, random.Random], bytes]] = [
    _json,
    _json,
    _json,
    _insert,
    _insert,
    _line,
    lambda data, rng: data[: rng.randrange(len(data) + 1)],
    lambda data, rng: data.replace(b"\n", rng.choice([b"", b"\r", b"\r\n", b"\n\n"])),
    lambda data, rng: rng.choice([b"", b"\0" * 100, rng.randbytes(200)]),
    lambda data, rng: data.replace(rng.choice([b"tea", b"1", b'"', b":"]), rng.choice(PIECES), 1),
]


def read_all(folder: Path) -> list[str]:
    """Read everything that stands in a study; return what came out but answers and our errors."""
    # check looks at the findings and the references, export at every frame
    ways: list[Callable[[sc.RunStore], object]] = [
        lambda s: s.fingerprint,
        *(lambda s, name=name: [*s.records(name)] for name in TABLES),
        sc.frames.gold,
        lambda s: [one.encode() for one in lint_path(s.path)["message"]],
        lambda s: sc.read_skill(s.path / "skills" / "tea"),
        lambda s: next(lint_places(s.path / "suites" / "tea.json")).description.encode(),
    ]
    wrong = []
    for way in ways:
        try:
            way(sc.RunStore(folder))
        except SkillcompError as error:
            str(error).encode()
        except Exception as error:
            wrong.append(f"{type(error).__name__}: {error}")
    out = str(folder.parent / "out")
    for words in (["check"], ["deltas"], ["status"], ["export"]):
        try:
            COMMAND([*words, str(folder), *([out] if words == ["export"] else [])])
        except (SkillcompError, SystemExit) as error:
            if isinstance(error, SystemExit) and error.code not in (0, 1, 2):
                wrong.append(f"{words[0]}: status {error.code}")
        except Exception as error:
            wrong.append(f"{words[0]}: {type(error).__name__}: {error}")
    return wrong


FILES = [*(f"{table}.jsonl" for table in TABLES), "manifest.json", "skill", "suite"]


@pytest.mark.parametrize("name", FILES if LONG else FILES[::3])
def test_a_broken_file_gives_an_answer_or_an_error_of_ours_and_loses_no_byte(sound, tmp_path, name):
    place = {"skill": "skills/tea/SKILL.md", "suite": "suites/tea.json"}.get(name, name)

    @settings(
        max_examples=300 if LONG else 1,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.integers(0, 2**32))
    def run(seed: int) -> None:
        rng = random.Random(f"{name} {seed}")
        shutil.rmtree(tmp_path / "study", ignore_errors=True)
        shutil.copytree(sound, tmp_path / "study")
        file = tmp_path / "study" / place
        data = file.read_bytes()
        for _ in range(rng.choice([1, 1, 2])):
            data = rng.choice(CHANGES)(data, rng)
        file.write_bytes(data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wrong = read_all(tmp_path / "study")
        assert not wrong, f"seed {seed}: {wrong}"
        assert file.read_bytes() == data, f"seed {seed}"  # reading changes nothing

    run()
