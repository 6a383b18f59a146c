"""Turn the raw files of the experiment on content and form into a RunStore.

Usage: ``python tools/convert_execution.py SRC DST``. Every run writes the same bytes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson
from convert_pilot import rows

from skillcomp.io import RunStore
from skillcomp.records import Attempt, Verdict

CREATED = "2026-11-22"
ORIGINAL = "full-structured"  # the unchanged skill: condition `skill`
RUBRICS = ("rubric-1", "rubric-2")
# effects are those of the first level of each factor
DESIGN = [
    {"condition": "skill", "content": "full", "form": "structured"},
    {"condition": "full-flat", "content": "full", "form": "flat"},
    {"condition": "gutted-structured", "content": "gutted", "form": "structured"},
    {"condition": "gutted-flat", "content": "gutted", "form": "flat"},
]
GROUPS = {
    "Invented disciplines, which no agent can know": [
        *("braid-provenance", "lantern-escalation", "tidemark-reconciliation"),
    ],
    "Known subjects": ["base-rate-reasoning", "idempotent-retries", "type-safety"],
}


def document(skill: str, condition: str) -> str | None:
    """Return the slug of the loaded document, or None."""
    if condition == "baseline":
        return None
    return skill if condition == ORIGINAL else f"{skill}-{condition}"


def attempts(source: Path) -> Iterator[Attempt]:
    """Yield the answers; the condition of the original document is renamed to ``skill``."""
    for row in rows(source / "answers.jsonl"):
        condition = row["condition"]
        yield Attempt(
            attempt_id=row["attempt_id"],
            skill=row["skill"],
            case_id=f"{row['skill']}/{row['task_id']}",
            condition="skill" if condition == ORIGINAL else condition,
            repeat=row["repeat"],
            sitting=row["sitting"],
            loaded_skill=document(row["skill"], condition),
            agent="claude",
            agent_family="claude",
            answer=row["answer"],
        )


def verdicts(source: Path, suites: Mapping[str, Any]) -> Iterator[Verdict]:
    """Yield the verdicts once for each rubric grader, together with those of the suites' judges."""
    hashed = sha256(orjson.dumps(suites, option=orjson.OPT_SORT_KEYS)).hexdigest()[:8]
    for rubric in RUBRICS:
        for row in rows(source / "verdicts.jsonl"):
            if row["grader"] in RUBRICS and row["grader"] != rubric:
                continue
            yield Verdict(
                attempt_id=row["attempt_id"],
                check_id=row["judge"],
                grader="suite",
                grader_kind="suite",
                grader_family="claude",
                grader_version=f"{rubric}@{hashed}",
                passed=row["passed"],
                score=row["score"],
                rationale=row.get("reason"),
            )


def convert(source: Path, target: Path) -> None:
    """Write the store at ``target``, which must not exist."""
    if target.exists():
        raise SystemExit(f"{target} is there already; remove it first.")
    store = RunStore(target)
    with store.writer():
        for folder in sorted((source / "skills").glob("*/*")):
            store.add_skill(folder, slug=document(folder.parent.name, folder.name))
        for folder in sorted((source / "suites").iterdir()):
            store.add_suite(folder)
        store.append("attempts", attempts(source))
        store.append("verdicts", verdicts(source, store.manifest["suites"]))
        store.annotate(created=CREATED, collected=CREATED, name="execution", design=DESIGN)
    text = orjson.dumps(GROUPS, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    (target / "groups.json").write_bytes(text)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
