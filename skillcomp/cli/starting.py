"""The commands of whoever begins: ``skillcomp init`` and ``notebooks``."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated, Any

import typer

from skillcomp.cli.terminal import say
from skillcomp.errors import StudyError

SLUG = "tidemark-reconciliation"  # of the pilot's skills: an invented discipline, whose skill shows
_GRADER = "g2"
_STUDY = f"""\
# A study that runs offline: answers and verdicts are replayed from the folder `recorded`.
# For a study of your own put your skill and suite beside these, and name a model:
#   agents: [{{kind: anthropic, model: claude-sonnet-5-5}}]
#   graders: [{{agent: {{kind: anthropic, model: claude-opus-5-5}}, style: forced}}]
#   budget_usd: 20
store: study
skills: [skills/{SLUG}]
suites: [suites/{SLUG}.json]
agents: [{{kind: replay, store: recorded}}]
graders: [{{kind: replay, store: recorded, grader: {_GRADER}}}]
conditions: [baseline, skill]
repeats: 2
"""
STEPS = (
    "skillcomp check study.yaml",
    "skillcomp run study.yaml",
    "skillcomp grade study.yaml",
    "skillcomp deltas study",
    "skillcomp report --data study --answer-only",
)
_Folder = Annotated[Path, typer.Argument(metavar="DIR", help="A folder that is not there yet.")]


def init(folder: _Folder) -> None:
    """Make a study to begin with: a skill, its suite, and recorded answers to replay offline."""
    from skillcomp import datasets
    from skillcomp.io.store import RunStore

    _new(folder, "init")
    pilot = datasets.load("pilot")
    shutil.copytree(pilot.path / "skills" / SLUG, folder / "skills" / SLUG)
    (folder / "suites").mkdir()
    shutil.copyfile(pilot.path / "suites" / f"{SLUG}.json", folder / "suites" / f"{SLUG}.json")
    attempts = [row for row in _rows(pilot, "attempts") if _is_wanted(row)]
    ids = {row["attempt_id"] for row in attempts}
    verdicts = [
        row
        for row in _rows(pilot, "verdicts")
        if row["attempt_id"] in ids and row["grader"] == _GRADER and row["round"] == 1
    ]
    recorded = RunStore(folder / "recorded")
    with recorded.writer(sync=False):
        recorded.append("attempts", attempts)
        recorded.append("verdicts", verdicts)
    (folder / "study.yaml").write_text(_STUDY, encoding="utf-8")
    say(f"init: {folder} holds a skill, its suite and a study that runs offline. Next:")
    for step in (f"cd {folder}", *STEPS):
        say(f"  {step}")


def _rows(store: Any, table: str) -> list[dict[str, Any]]:
    rows = store.table(table).to_pylist()
    return [{key: value for key, value in row.items() if value is not None} for row in rows]


def _is_wanted(row: dict[str, Any]) -> bool:
    plain = "perturbation" not in row
    return plain and row["skill"] == SLUG and row["condition"] in ("baseline", "skill")


def notebooks(folder: _Folder) -> None:
    """Copy the notebooks, and the recorded data that they read, to a folder of your own."""
    from skillcomp import datasets
    from skillcomp.report import find_notebooks

    paths = find_notebooks(every=True)
    _new(folder, "notebooks")
    for part in ("notebooks", "data"):
        (folder / part).mkdir()
    for path in paths:
        shutil.copyfile(path, folder / "notebooks" / path.name)
    sources = (datasets.path("pilot"), datasets.path("execution"), datasets.path("copies").parent)
    for source in sources:
        hidden = shutil.ignore_patterns(".*")
        shutil.copytree(source, folder / "data" / source.name, ignore=hidden)
    say(
        f"notebooks: {len(paths)} in {folder / 'notebooks'}, their data in {folder / 'data'}. Next:"
    )
    say(f"  jupyter lab {folder / 'notebooks'}")


def _new(folder: Path, command: str) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise StudyError(f"{command}: {folder} is there already; name a folder that is not.")
    folder.mkdir(parents=True, exist_ok=True)
