"""Turn the raw files of the recorded study of triggering into a RunStore.

Usage: ``python tools/convert_triggers.py SRC DST`` writes ``DST``: the store with the descriptions
and the opaque names. Every run writes the same bytes.
"""

from __future__ import annotations

import csv
import io
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson

from skillcomp.io import RunStore
from skillcomp.records import Attempt

RECORDED = "2026-11-22"
BESIDE = ("descriptions.json", "opaque_names.json")


def with_right_skills(file: Path, key: dict[str, Any]) -> str:
    """Return the text of a prompts.csv with an additional column of the right skills."""
    rows = list(csv.reader(io.StringIO(file.read_text(encoding="utf-8"), newline="")))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*rows[0], "right_skills"])
    for row in rows[1:]:
        writer.writerow([*row, ";".join(key[row[0]]["right_skills"])])
    return text.getvalue()


def attempts(source: Path, skill_of: dict[str, str], offered: tuple[str, ...]) -> Iterator[Attempt]:
    """Yield the decisions in order of time."""
    for line in (source / "decisions.jsonl").read_bytes().splitlines():
        row = orjson.loads(line)
        skill = skill_of[row["case_id"]]
        yield Attempt(
            attempt_id=f"{row['sitting']}/{row['case_id']}",
            skill=skill,
            case_id=f"{skill}/{row['case_id']}",
            condition=row["descriptions"],
            repeat=row["repeat"],
            sitting=row["sitting"],
            agent="claude",
            agent_family="claude",
            triggered=skill in row["invoked_skills"],
            offered=offered,
            invoked=row["invoked_skills"],
        )


def convert(source: Path, target: Path) -> None:
    """Write the store at ``target``, which must not exist."""
    if target.exists():
        raise SystemExit(f"{target} is there already; remove it first.")
    key = orjson.loads((source / "key.json").read_bytes())
    offered = tuple(orjson.loads((source / "opaque_names.json").read_bytes()))
    store, skill_of = RunStore(target), {}
    with store.writer(), TemporaryDirectory() as folder:
        for file in sorted((source / "evals" / "skills").glob("*/prompts.csv")):
            place = Path(folder) / "evals" / "skills" / file.parent.name / file.name
            place.parent.mkdir(parents=True)
            place.write_text(with_right_skills(file, key), encoding="utf-8", newline="")
            suite = store.add_suite(place)
            skill_of |= {case.case_id.partition("/")[2]: suite.skill for case in suite.cases}
        store.append("attempts", attempts(source, skill_of, offered))
        store.annotate(created=RECORDED, collected=RECORDED, name="triggers")
    for name in BESIDE:
        shutil.copyfile(source / name, target / name)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
