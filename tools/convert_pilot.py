"""Turn the raw files of the pilot study into a RunStore and a corpus of labelled passages.

Usage: ``python tools/convert_pilot.py SRC DST`` writes ``DST`` (the store with the prompts of the
graders) and, in ``DST/../corpus``, ``copies.jsonl`` and ``copies_second.jsonl``. Every run writes
the same bytes.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson

from skillcomp.io import RunStore
from skillcomp.records import Attempt, GoldLabel, PairwiseJudgement, Passage, Verdict

PROMPTS = {"g0": "g0-impression.md", "g1": "g1-evidence.md", "g2": "g2-forced.md"}
STYLES = {"g0": "impression", "g1": "evidence", "g2": "forced"}
# one of the two repeats of each case was labelled, in baseline and skill
GOLD_INCLUSION = 0.5
RETEST_ROUND = 2
CORPORA = ("copies.jsonl", "copies_second.jsonl")


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSON Lines file."""
    with path.open("rb") as stream:
        for line in stream:
            yield orjson.loads(line)


def case_id(row: dict[str, Any]) -> str:
    """Return ``suite/id``; in the pilot a suite has the name of its skill."""
    return f"{row['skill']}/{row['case_id']}"


def attempts(source: Path) -> Iterator[Attempt]:
    """Yield the recorded answers, then the padded copies with the agent of their source."""
    recorded = {row["attempt_id"]: row for row in rows(source / "attempts.jsonl")}
    for row in recorded.values():
        columns = {key: value for key, value in row.items() if key != "collected"}
        yield Attempt(**{**columns, "case_id": case_id(row)})
    for row in rows(source / "padded_attempts.jsonl"):
        origin = recorded[row["source_attempt_id"]]
        inherited = {key: origin[key] for key in ("sitting", "agent", "agent_family")}
        yield Attempt(**{**row, **inherited, "case_id": case_id(row)})


def verdicts(source: Path) -> Iterator[Verdict]:
    """Yield the first gradings, those of the padded copies, then the retest as round 2."""
    versions = {
        grader: f"{STYLES[grader]}@{_prompt_hash(source / 'prompts' / name)}"
        for grader, name in PROMPTS.items()
    }
    for name, round_ in (
        ("verdicts.jsonl", 1),
        ("padded_verdicts.jsonl", 1),
        ("retest.jsonl", RETEST_ROUND),
    ):
        for row in rows(source / name):
            yield Verdict(
                passed=_is_pass(row.pop("verdict")),
                grader_kind="llm",
                grader_version=versions[row["grader"]],
                round=round_,
                **row,
            )


def gold(source: Path) -> Iterator[GoldLabel]:
    """Yield the labels of both labellers and the adjudicated ones."""
    for row in rows(source / "gold.jsonl"):
        passed = _is_pass(row.pop("verdict"))
        yield GoldLabel(passed=passed, inclusion_probability=GOLD_INCLUSION, **row)


def pairwise(source: Path) -> Iterator[PairwiseJudgement]:
    """Yield the pairwise judgements in both orders."""
    for row in rows(source / "pairwise.jsonl"):
        yield PairwiseJudgement(**{**row, "case_id": case_id(row)})


def passages(file: Path) -> Iterator[Passage]:
    """Yield the labelled passages; a document is a skill and a topic."""
    for row in rows(file):
        yield Passage(document=f"{row['skill']}/{row['topic']}", **row)


def _prompt_hash(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()[:8]


def _is_pass(verdict: str) -> bool:
    return {"PASS": True, "FAIL": False}[verdict]


def convert(source: Path, target: Path) -> None:
    """Write the store at ``target``, which must not exist, and the corpus next to it."""
    if target.exists():
        raise SystemExit(f"{target} is there already; remove it first.")
    store = RunStore(target)
    with store.writer():
        for folder in sorted((source / "skills").iterdir()):
            store.add_skill(folder)
        for file in sorted((source / "suites").glob("*.json")):
            store.add_suite(file)
        store.append("attempts", attempts(source))
        store.append("verdicts", verdicts(source))
        store.append("gold", gold(source))
        store.append("pairwise", pairwise(source))
        collected = next(rows(source / "attempts.jsonl"))["collected"]
        store.annotate(created=collected, collected=collected, name="pilot")
    (target / "prompts").mkdir()
    for file in sorted((source / "prompts").glob("*.md")):
        shutil.copyfile(file, target / "prompts" / file.name)
    corpus = target.parent / "corpus"
    corpus.mkdir(exist_ok=True)
    for name in CORPORA:
        records = [passage.model_dump(exclude_none=True) for passage in passages(source / name)]
        (corpus / name).write_bytes(b"\n".join(map(orjson.dumps, records)) + b"\n")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
