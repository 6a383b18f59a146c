"""Resumable work: the results of a cell are a file named by the hash of design and code."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

import joblib
from tqdm.auto import tqdm

from benchmarks.validity.analyses import Analysis
from benchmarks.validity.available import Available
from benchmarks.validity.changes import Change
from benchmarks.validity.designs import Design, digest
from benchmarks.validity.methods import Rows
from benchmarks.validity.next_skill import NextSkill
from benchmarks.validity.scan import Scan
from benchmarks.validity.studies import Batch
from benchmarks.validity.words import Words

ROOT = Path(__file__).resolve().parents[2]
# stored results are invalid if one of these files changes
_STATS = tuple(
    f"skillcomp/stats/{name}.py"
    for name in (
        "bounded", "clusters_and_amounts", "intervals", "results", "significance_and_grader_errors",
    )
)  # fmt: skip
VECTORISED = (
    "benchmarks/many_studies.py",
    *(f"benchmarks/validity/{name}.py" for name in ("available", "designs", "methods")),
    "benchmarks/simulated/design.py",
    *_STATS,
)
SCAN = (
    "benchmarks/many_studies.py",
    *(f"benchmarks/validity/{name}.py" for name in ("methods", "scan")),
    *_STATS,
)
NEXT_SKILL = (
    *(f"benchmarks/validity/{name}.py" for name in ("designs", "next_skill")),
    *(f"skillcomp/stats/{name}.py" for name in ("random_effects", "results")),
)
WORDS = (
    *(f"benchmarks/validity/{name}.py" for name in ("designs", "next_skill", "words")),
    "skillcomp/frames/estimates.py",
    "skillcomp/skillverdicts.py",
    *_STATS,
)
CHANGES = (
    *(f"benchmarks/validity/{name}.py" for name in ("changes", "claims", "designs")),
    "skillcomp/contrast.py",
    *_STATS,
)
FRAMES = (
    "benchmarks/validity/designs.py",
    "benchmarks/validity/studies.py",
    *(
        f"skillcomp/{name}.py"
        for name in (
            "bias/features_and_perturbations", "correction/delta_and_rate",
            "correction/estimators",
            "deltas", "reliability/grader_agreement_and_consistency", "transfer",
        )
    ),
)  # fmt: skip
_FRAMES_PACKAGES = ("skillcomp/frames", "benchmarks/simulated", "skillcomp/stats")

ANALYSES = (
    "benchmarks/validity/analyses.py",
    "benchmarks/validity/corrections.py",
    "benchmarks/validity/distances.py",
    "benchmarks/validity/instruments.py",
    *FRAMES,
)
_ANALYSES_PACKAGES = tuple(
    f"skillcomp/{name}" for name in ("bias", "planning", "reliability", "structure")
)

Cell = Design | Batch | Scan | Available | NextSkill | Analysis | Words | Change
C = TypeVar("C", Design, Batch, Scan, Available, NextSkill, Analysis, Words, Change)


def code_version(root: Path = ROOT) -> dict[type[Cell], str]:
    """Return a hash of the code behind each kind of cell."""

    def files(folders: Iterable[str]) -> list[str]:
        paths = (path for folder in folders for path in sorted((root / folder).glob("*.py")))
        return [str(path.relative_to(root)) for path in paths]

    packages, analysed = files(_FRAMES_PACKAGES), files(_ANALYSES_PACKAGES)
    kinds: tuple[tuple[type[Cell], tuple[str, ...]], ...] = (
        (Design, VECTORISED), (Available, VECTORISED), (Scan, SCAN), (Batch, (*FRAMES, *packages)),
        (NextSkill, NEXT_SKILL), (Analysis, (*ANALYSES, *packages, *analysed)), (Words, WORDS),
        (Change, CHANGES),
    )  # fmt: skip
    return {
        kind: sha256(b"".join((root / name).read_bytes() for name in names)).hexdigest()[:16]
        for kind, names in kinds
    }


def work(
    cells: Sequence[C], run: Callable[[C], Rows], folder: Path, *, jobs: int, title: str
) -> tuple[list[tuple[C, Rows]], float]:
    """Run all cells that have no file yet.

    Parameters
    ----------
    cells : sequence
        Designs, scans, numbers of skills, or batches of studies.
    run : callable
        Function that returns the rows of a cell.
    folder : Path
        Folder of finished cells; a stopped run resumes from there.
    jobs : int
        Workers of the joblib backend (processes, or a cluster in ``joblib.parallel_config``), -1
        for all. Each cell has a seed of its own.
    title : str
        Name of the progress bar.

    Returns
    -------
    results : list of (cell, rows)
        All cells, in the given order.
    seconds : float
        Total CPU time of the cells when they were run.
    """
    folder.mkdir(parents=True, exist_ok=True)
    version = code_version()
    files = [folder / f"{digest([asdict(cell), version[type(cell)]])[:20]}.json" for cell in cells]
    waiting = [(cell, file) for cell, file in zip(cells, files, strict=True) if not file.exists()]
    pool = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")
    done: Iterable[None] = pool(joblib.delayed(_run_and_write)(run, c, file) for c, file in waiting)
    for _ in tqdm(
        done, desc=title, total=len(cells), initial=len(cells) - len(waiting), unit="cell"
    ):
        pass
    read = [json.loads(file.read_bytes()) for file in files]
    finished = [(cell, entry["rows"]) for cell, entry in zip(cells, read, strict=True)]
    return finished, sum(entry["seconds"] for entry in read)


def _run_and_write(run: Callable[[C], Rows], cell: C, file: Path) -> None:
    begin = time.process_time()
    rows = run(cell)
    text = json.dumps({"seconds": time.process_time() - begin, "rows": rows})
    # write to another name and rename: a stopped run leaves no partial file
    part = file.with_suffix(f".{os.getpid()}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(file)
