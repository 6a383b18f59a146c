"""Time the reading of a large study: 100,000 attempts and 500,000 verdicts on one core.

``python -m benchmarks.store`` writes such a store to a temporary folder (answers of about 150
words, verdicts with quotes and rationales), reads it into checked frames five times in a process
pinned to one core, and prints the medians; ``--quick`` takes a tenth.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import orjson

TARGET_SECONDS = 6.0
N_ATTEMPTS, N_CHECKS = 100_000, 5
N_SUITES, CASES_PER_SUITE = 20, 50
ANSWER_WORDS, RATIONALE_WORDS = 150, 25
REPEATS = 5
SEED = 20261121


def make(folder: Path, n_attempts: int) -> None:
    """Write a study of ``n_attempts`` answers with five verdicts each to an empty folder."""
    from skillcomp.io import RunStore

    rng = np.random.default_rng(SEED)
    letters = np.array(list("etaoinshrdlcumwfgypbvk"))
    lengths = rng.integers(2, 11, 8_000)
    words = np.array(["".join(rng.choice(letters, n)) for n in lengths])
    store = RunStore(folder / "study")
    case_ids = []
    for s in range(N_SUITES):
        file = folder / f"suite-{s:02d}.json"
        file.write_bytes(orjson.dumps(_suite_of_cases(file.stem)))
        case_ids += [case.case_id for case in store.add_suite(file).cases]
    with store.writer():
        # append a thousand answers at a time
        for start in range(0, n_attempts, 1_000):
            attempts = list(_attempt_rows(range(start, start + 1_000), case_ids, words, rng))
            _append_rows(store.path / "attempts.jsonl", attempts)
            _append_rows(store.path / "verdicts.jsonl", _verdict_rows(attempts, words, rng))
    # the rows were written without pydantic, for speed: check that the store can read them
    for name in ("attempts", "verdicts"):
        next(store.records(name))


def _suite_of_cases(slug: str) -> dict[str, object]:
    behaviours = [
        {"id": f"check_{k}", "kind": "negative" if k == 4 else "positive", "description": "..."}
        for k in range(N_CHECKS)
    ]
    cases = [
        {
            "id": i + 1,
            "prompt": "...",
            "comprehension_dimension": f"C{i % 9 + 1}",
            "transfer": ("near", "far")[i % 2],
            "expected_behaviors": behaviours,
        }
        for i in range(CASES_PER_SUITE)
    ]
    return {"skill_name": slug, "evals": cases}


def _attempt_rows(
    numbers: range, case_ids: list[str], words: np.ndarray, rng: np.random.Generator
) -> Iterator[dict[str, object]]:
    lengths = rng.integers(ANSWER_WORDS - 50, ANSWER_WORDS + 51, len(numbers))
    for number, length in zip(numbers, lengths, strict=True):
        case_id = case_ids[number % len(case_ids)]
        condition = ("baseline", "skill")[number // len(case_ids) % 2]
        repeat = number // (2 * len(case_ids)) + 1
        yield {
            "attempt_id": f"{case_id}/{condition}/{repeat}",
            "skill": case_id.split("/")[0],
            "case_id": case_id,
            "condition": condition,
            "repeat": repeat,
            "sitting": f"{case_id.split('/')[0]}/{condition}/{repeat}",
            "agent": "recorded",
            "agent_family": "claude",
            "status": "ok",
            "answer": " ".join(rng.choice(words, length)),
            "input_tokens": 1_800,
            "output_tokens": int(length * 1.3),
            "cost_usd": 0.0042,
            "seconds": 6.5,
            "started_at": "2026-11-21T10:00:00Z",
        }


def _verdict_rows(
    attempts: list[dict[str, object]], words: np.ndarray, rng: np.random.Generator
) -> Iterator[dict[str, object]]:
    passed = rng.random((len(attempts), N_CHECKS)) < 0.7
    for i, attempt in enumerate(attempts):
        answer = str(attempt["answer"])
        for k in range(N_CHECKS):
            yield {
                "attempt_id": attempt["attempt_id"],
                "check_id": f"check_{k}",
                "grader": "g2",
                "check_kind": "negative" if k == 4 else "positive",
                "grader_kind": "llm",
                "grader_family": "claude",
                "grader_version": "forced@01234567",
                "round": 1,
                "batch": f"batch/{i // 50}",
                "item": f"{i % 50:02d}",
                "order": k + 1,
                "status": "ok",
                "passed": bool(passed[i, k]),
                "evidence_quote": answer[40 * k : 40 * k + 80].strip(),
                "rationale": " ".join(rng.choice(words, RATIONALE_WORDS)),
                "graded_at": "2026-11-21T11:00:00Z",
            }


def _append_rows(path: Path, rows: Iterator[dict[str, object]] | list[dict[str, object]]) -> None:
    with path.open("ab") as stream:
        stream.write(b"".join(orjson.dumps(row) + b"\n" for row in rows))


def measure(store_path: Path) -> dict[str, float]:
    """Return the median seconds of reading each frame, with this process on one core."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # before any thread is started
    from skillcomp import frames
    from skillcomp.io import RunStore

    parts: dict[str, list[float]] = {
        name: [] for name in ("tables", "attempts", "verdicts", "both", "cpu")
    }
    for _ in range(REPEATS):
        started, cpu = time.perf_counter(), time.process_time()
        store = RunStore(store_path)
        attempts = frames.attempts(store)
        middle = time.perf_counter()
        verdicts = frames.verdicts(store)
        ended = time.perf_counter()
        parts["attempts"].append(middle - started)
        parts["verdicts"].append(ended - middle)
        parts["both"].append(ended - started)
        parts["cpu"].append(time.process_time() - cpu)
        rows = (len(attempts), len(verdicts))
        del attempts, verdicts, store
        started = time.perf_counter()
        fresh = RunStore(store_path)  # a store caches the tables it has read
        for name in ("attempts", "verdicts"):
            fresh.table(name)
        parts["tables"].append(time.perf_counter() - started)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # MiB on Linux
    medians = {name: statistics.median(seconds) for name, seconds in parts.items()}
    return {**medians, "n_attempts": rows[0], "n_verdicts": rows[1], "peak_mib": peak}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the answers")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.measure:
        print(json.dumps(measure(options.measure)))
        return 0
    scale = 10 if options.quick else 1
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder), N_ATTEMPTS // scale)
        tables = list(Path(folder, "study").glob("*.jsonl"))
        size = sum(table.stat().st_size for table in tables) / 2**20
        command = [sys.executable, "-m", "benchmarks.store", "--measure", f"{folder}/study"]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    took = json.loads(done.stdout)
    print(
        f"store: {took['n_attempts']:,.0f} attempts and {took['n_verdicts']:,.0f} verdicts "
        f"({size:,.0f} MiB) on one core, median of {REPEATS}"
    )
    print(f"  JSON Lines to Arrow tables    {took['tables']:6.2f} s")
    print(f"  attempts, checked frame       {took['attempts']:6.2f} s")
    print(f"  verdicts, checked frame       {took['verdicts']:6.2f} s")
    target = TARGET_SECONDS / scale
    verdict = "reached" if took["both"] <= target else "NOT REACHED"
    print(f"  both                          {took['both']:6.2f} s   target {target:g} s: {verdict}")
    print(f"  both, time on the processor   {took['cpu']:6.2f} s")
    print(f"  peak memory                   {took['peak_mib']:6,.0f} MiB")
    return 0 if took["both"] <= target else 1


if __name__ == "__main__":
    sys.exit(main())
