"""Turn runs of real programs on a scripted server into one RunStore.

Usage: ``python tools/convert_process.py DST RUN...`` writes ``DST`` from folders of
``skillcomp trigger run`` (one per program, all with the same suite). A script answered the
programs, not a model, so the store shows the form of traces and nothing about models. Paths of the
recording machine are replaced.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from skillcomp.io import RunStore

RECORDED = "2026-11-22"
_PLACE = re.compile(r"(?:/[\w.-]+)*/skillcomp-[^/\"\s]+/[^/\"\s]+")
_FOLDED = re.compile(r"-[\w-]*?skillcomp-[\w-]+?-work")
_PORT = re.compile(r"(127\.0\.0\.1|localhost):\d+")


def cleaned(text: str) -> str:
    """Replace the paths and ports of the recording machine in a text."""
    return _PORT.sub(r"\1", _FOLDED.sub("-room-work", _PLACE.sub("/room", text)))


def rows(run: Path, table: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a run, with the program in their ids."""
    for row in RunStore(run / "store").table(table).to_pylist():
        program = run.name
        row["attempt_id"] = f"{program}/{row['attempt_id']}"
        yield {
            key: cleaned(value) if isinstance(value, str) else value
            for key, value in row.items()
            if value is not None and key not in ("request_id", "seconds", "cost_usd")
        }


def convert(target: Path, runs: list[Path]) -> None:
    """Write the store at ``target``, which must not exist."""
    if target.exists():
        raise SystemExit(f"{target} is there already; remove it first.")
    store, first = RunStore(target), RunStore(runs[0] / "store")
    with store.writer():
        for slug in sorted(first.skills):
            store.add_skill(first.path / "skills" / slug)
        root = runs[0].parents[2]
        for file in sorted((root / "evals" / "skills").glob("*/prompts.csv")):
            store.add_suite(file)
        for run in runs:
            store.append("attempts", list(rows(run, "attempts")))
            store.append("verdicts", [r for r in rows(run, "verdicts") if r["grader"] == "trace"])
        store.annotate(created=RECORDED, collected=RECORDED, name="process")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    convert(Path(sys.argv[1]), [Path(path) for path in sys.argv[2:]])
