"""Time a step of the explorers: 50,000 verdicts browsed, filtered and labelled on one core.

``python -m benchmarks.explore`` opens the browser of verdicts on 5,000 answers of 150 words, five
checks and two graders each, and times how long Python takes to build the next page after a key or
a filter. ``--quick`` takes a tenth of the answers.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

TARGET = 0.1  # seconds of one step
N_ANSWERS, N_CHECKS, GRADERS = 5_000, 5, ("g1", "g2")
ANSWER_WORDS, SKILL_WORDS, N_STEPS = 150, 2_000, 200
SEED = 20261122


def measure(n_answers: int, folder: Path) -> dict[str, list[float]]:
    """Return the seconds of every step, by kind of step, with this process on one core."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # before any thread is started
    import pandas as pd

    import skillcomp as sc

    sc.explore.verdicts  # noqa: B018 - load it first: imports are not timed
    rng = np.random.default_rng(SEED)
    letters = np.array(list("etaoinshrdlcumwfgypbvk"))
    words = np.array(["".join(rng.choice(letters, n)) for n in rng.integers(3, 11, 4_000)])
    conditions = ("baseline", "skill", "placebo")
    number = np.arange(n_answers)
    case, skills = number // 6, [f"skill-{k:02d}" for k in range(20)]
    skill = np.array(skills)[case % len(skills)]
    attempts = pd.DataFrame(
        {
            "attempt_id": [f"a{k}" for k in number],
            "skill": skill,
            "case_id": [f"{s}/{k}" for s, k in zip(skill, case, strict=True)],
            "condition": np.array(conditions)[number % 3],
            "repeat": number // 3 % 2 + 1,
            "answer": [" ".join(rng.choice(words, ANSWER_WORDS)) for _ in number],
        }
    )
    rows = attempts.drop(columns="answer").loc[np.repeat(number, N_CHECKS * len(GRADERS))]
    quotes = attempts["answer"].str.slice(40, 120).loc[rows.index]
    verdicts = rows.assign(
        check_id=np.tile(np.repeat([f"check_{k}" for k in range(N_CHECKS)], 2), n_answers),
        grader=np.tile(GRADERS, n_answers * N_CHECKS),
        passed=rng.random(len(rows)) < 0.7,
        status="ok",
        evidence_quote=quotes,
        rationale=" ".join(rng.choice(words, 25)),
    ).reset_index(drop=True)
    texts = {name: " ".join(rng.choice(words, SKILL_WORDS)) for name in skills}
    took: dict[str, list[float]] = {}
    started = time.perf_counter()
    reader = sc.explore.verdicts(verdicts, attempts, skills=texts)
    took["open"] = [time.perf_counter() - started]
    took["next"] = _seconds_per_step(lambda _: reader.do("step", 1), N_STEPS)
    filters: list[dict[str, object]] = [
        {"grader": "g2"}, {"passed": "failed"}, {"condition": "skill"}, {"skill": skills[3]},
        {"skill": None}, {"condition": None}, {"passed": None}, {"grader": None},
    ]  # fmt: skip
    took["filter"] = _seconds_per_step(
        lambda k: reader.choose(**filters[k % len(filters)]), 5 * len(filters)
    )
    no_verdicts = verdicts.iloc[:0]
    checks = rows.drop_duplicates("case_id")[["skill", "case_id"]].assign(
        check_id="check_0", check_kind="positive", description="Says so."
    )
    how = {"label": True, "store": folder / "labels", "labeller": "ann", "checks": checks}
    editor = sc.explore.verdicts(no_verdicts, attempts, **how)
    took["label"] = _seconds_per_step(lambda k: editor.do("label", k % 2 == 0), N_STEPS)
    took["n"] = [len(verdicts)]
    return took


def _seconds_per_step(step: Callable[[int], object], count: int) -> list[float]:
    seconds = []
    for k in range(count):
        started = time.perf_counter()
        step(k)
        seconds.append(time.perf_counter() - started)
    return seconds


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the answers")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    n_answers = N_ANSWERS // (10 if options.quick else 1)
    if options.measure:
        print(json.dumps(measure(n_answers, options.measure)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        quick = ["--quick"] if options.quick else []
        command = [sys.executable, "-m", "benchmarks.explore", "--measure", folder, *quick]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    took = json.loads(done.stdout)
    print(f"explore: a browser of {took.pop('n')[0]:,} verdicts on one core")
    print(f"  opened in                {took.pop('open')[0]:8.2f} s")
    missed = 0
    for name, seconds in took.items():
        worst = float(np.quantile(seconds, 0.99))
        verdict = "reached" if worst <= TARGET else "NOT REACHED"
        missed += worst > TARGET
        print(
            f"  {name:<8} median of {len(seconds):>3}   {1000 * statistics.median(seconds):6.1f} ms"
            f"   99 % within {1000 * worst:6.1f} ms   target {1000 * TARGET:.0f} ms: {verdict}"
        )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
