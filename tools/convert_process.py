"""Turn runs of real programs on a scripted server into one RunStore.

Usage: ``python tools/convert_process.py DST RUN...`` makes ``DST`` of ``skillcomp trigger run``
folders (one for each program, the same suite). What the programs asked was answered by a script
and by no model, so the store says how traces look and nothing about models. Places of the machine
that the programs wrote down are replaced.
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
    """Return a text without the places of the machine on which it was recorded."""
    return _PORT.sub(r"\1", _FOLDED.sub("-room-work", _PLACE.sub("/room", text)))


def rows(run: Path, table: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a run under ids that tell the programs apart."""
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
    with store.writer(sync=False):
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
    convert(Path(sys.argv[1]), [Path(one) for one in sys.argv[2:]])
