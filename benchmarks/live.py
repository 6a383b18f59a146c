"""Live studies: the overhead of skillcomp over the bare SDK, and the cost of the pilot's design.

``python -m benchmarks.live`` sends 2,000 questions, 64 at a time, to a loopback service
(`tests/fake_anthropic.py`, a separate process on another core): with `sc.run`, and with a bare
loop over the same SDK and request bodies. The two alternate, each in a fresh process pinned to one
core. Then it prices the pilot's design from the pilot's texts and list prices; tokens
are estimated at 3.5 characters each (`sc.planning.cost_estimate`). ``--quick``
sends 400.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

TARGET_MS = 5.0  # overhead per question
TARGET_GROWTH = 0.01  # of memory, relative to that after a quarter of the questions
TARGET_RATIO = 0.6  # of the plain cost, cached
REPORT_USD = 0.10  # a graded case (comprehension report, appendix E)
N, WIDTH, LATENCY = 2_000, 64, 0.05
ROUNDS = 3
AGENT, GRADER = "claude-sonnet-5-5", "claude-opus-5-5"
ROOT = Path(__file__).resolve().parent.parent
_KEY = "sk-fake-0123456789abcdef"  # accepted by the loopback service only


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="400 questions, once")
    parser.add_argument("--measure", choices=("ours", "bare"), help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    parser.add_argument("--n", type=int, default=N, help=argparse.SUPPRESS)
    parser.add_argument("--core", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.measure:
        os.sched_setaffinity(0, {options.core})  # before any thread is started
        measure = ours if options.measure == "ours" else bare
        print(json.dumps(measure(options.url, options.n)))
        return 0
    n, rounds = (400, 1) if options.quick else (N, ROUNDS)
    return max(_measure_throughput(n, rounds), _price_pilot())


# -- skillcomp and the bare SDK --------------------------------------------------------------------


def _measure_throughput(n: int, rounds: int) -> int:
    cores = sorted(os.sched_getaffinity(0))
    server = subprocess.Popen(
        [sys.executable, str(ROOT / "tests" / "fake_anthropic.py"), "--latency", str(LATENCY)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        os.sched_setaffinity(server.pid, {cores[-1]})
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        measured: dict[str, list[dict[str, float]]] = {"bare": [], "ours": []}
        for _ in range(rounds):
            for kind, taken in measured.items():
                command = [sys.executable, "-m", "benchmarks.live", "--measure", kind]
                command += ["--url", url, "--n", str(n)]
                taken.append(_run_child(command, cores[0]))
    finally:
        server.terminate()
        server.wait(10)
        if server.stdout is not None:
            server.stdout.close()
    return _print_throughput(measured, n, rounds)


def _run_child(command: list[str], core: int) -> dict[str, float]:
    # the user's credentials never reach the loopback service
    names = ("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE", "ANTHROPIC_BASE_URL")
    environment = {k: v for k, v in os.environ.items() if k not in names}
    environment["ANTHROPIC_API_KEY"] = _KEY
    done = subprocess.run(
        [*command, "--core", str(core)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=ROOT,
    )
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def _print_throughput(measured: dict[str, list[dict[str, float]]], n: int, rounds: int) -> int:
    def middle(kind: str, key: str) -> float:
        return statistics.median(row[key] for row in measured[kind])

    cpu = (middle("ours", "cpu") - middle("bare", "cpu")) / n * 1e3
    wall = (middle("ours", "wall") - middle("bare", "wall")) / n * 1e3
    grown = {kind: middle(kind, "late") - middle(kind, "early") for kind in measured}
    share = grown["ours"] / middle("ours", "early")
    print(f"live: {n:,} questions, {WIDTH} under way, median of {rounds}, in turns with the SDK")
    print("                              wall s   cpu s   a question   RSS at 1/4   at the end")
    for kind, label in (("bare", "bare SDK loop"), ("ours", "sc.run, all on disk")):
        print(
            f"  {label:26s}  {middle(kind, 'wall'):7.2f} {middle(kind, 'cpu'):7.2f} "
            f"{middle(kind, 'wall') / n * 1e3:9.2f} ms {middle(kind, 'early') / 1024:8.1f} MiB "
            f"{middle(kind, 'late') / 1024:8.1f} MiB"
        )
    fast, flat = max(cpu, wall) < TARGET_MS, share < TARGET_GROWTH
    print(
        f"  our side a question: {cpu:.2f} ms of processor, {wall:.2f} ms of wall clock; target "
        f"{TARGET_MS:g} ms: {'reached' if fast else 'NOT REACHED'}"
    )
    print(
        f"  growth from {n // 4:,} to {n:,} answers: {grown['ours']:,.0f} KiB, {share:.1%} (bare "
        f"loop {grown['bare']:,.0f} KiB); flat means under {TARGET_GROWTH:.0%}: "
        f"{'reached' if flat else 'NOT REACHED'}"
    )
    return 0 if fast and flat else 1


def _resident_memory() -> float:
    """Return the resident memory of this process in KiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024


def _suite_of_questions(n: int) -> dict[str, Any]:
    check = {"id": "names_it", "kind": "positive", "description": "Names it."}
    evals = [
        {"id": i, "prompt": f"Question {i}: what decides? " * 8, "expected_behaviors": [check]}
        for i in range(n // 4)  # two conditions, two repeats
    ]
    return {"skill_name": "type-safety", "evals": evals}


def ours(url: str, n: int) -> dict[str, float]:
    """Measure time and memory of `sc.run`."""
    import skillcomp as sc
    from skillcomp.live.run import run

    seen: dict[str, float] = {"n": 0}

    class Watched(sc.AnthropicAgent):  # type: ignore[misc,name-defined]
        async def ask(self, *args: Any, **more: Any) -> Any:
            reply = await super().ask(*args, **more)
            seen["n"] += 1
            if seen["n"] in (n // 4, n):
                seen["early" if seen["n"] == n // 4 else "late"] = _resident_memory()
            return reply

    with tempfile.TemporaryDirectory() as folder:
        store = sc.RunStore(Path(folder) / "study")
        store.add_skill(ROOT / "data" / "pilot" / "skills" / "type-safety")
        file = Path(folder) / "suite.json"
        file.write_text(json.dumps(_suite_of_questions(n)))
        store.add_suite(file)
        agent = Watched(AGENT, base_url=url, max_tokens=1_000)
        wall, cpu = time.perf_counter(), time.process_time()
        table = run(store, agents=[agent], repeats=2, concurrency=WIDTH, progress=False)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        if table["n_ok"].sum() != n:
            raise RuntimeError(f"{table['n_ok'].sum()} of {n} questions were answered")
    return {"wall": wall, "cpu": cpu, "early": seen["early"], "late": seen["late"]}


def bare(url: str, n: int) -> dict[str, float]:
    """Measure time and memory of a bare loop over the SDK that stores nothing."""
    import anthropic

    import skillcomp as sc

    skill = sc.read_skill(ROOT / "data" / "pilot" / "skills" / "type-safety")
    agent = sc.AnthropicAgent(AGENT, max_tokens=1_000)
    seen: dict[str, float] = {"n": 0}

    async def loop() -> None:
        client = anthropic.AsyncAnthropic(base_url=url, max_retries=0)
        prompts = [case["prompt"] for case in _suite_of_questions(n)["evals"]] * 2
        bodies = (agent.request(p, skill=s) for p in prompts for s in (None, skill))

        async def hand() -> None:
            for body in bodies:
                await client.messages.create(**body)
                seen["n"] += 1
                if seen["n"] in (n // 4, n):
                    seen["early" if seen["n"] == n // 4 else "late"] = _resident_memory()

        await asyncio.gather(*(hand() for _ in range(WIDTH)))
        await client.close()

    wall, cpu = time.perf_counter(), time.process_time()
    asyncio.run(loop())
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {"wall": wall, "cpu": cpu, "early": seen["early"], "late": seen["late"]}


# -- dollars --------------------------------------------------------------------------------------


def _price_pilot() -> int:
    import skillcomp as sc

    pilot = sc.RunStore(ROOT / "data" / "pilot")
    attempts = sc.frames.attempts(pilot)
    placebo = attempts[attempts["condition"].eq("placebo")]
    loaded = placebo.drop_duplicates("skill").set_index("skill")["loaded_skill"]
    estimate = sc.planning.cost_estimate(
        pilot.suites,
        pilot.skills,
        agents=[AGENT],
        graders=[GRADER],
        conditions=["baseline", "skill", "placebo"],
        repeats={"baseline": 2, "skill": 2, "placebo": 1},
        loaded={"placebo": {slug: pilot.skills[name] for slug, name in loaded.items()}},
        attempts=attempts,
    )
    print(
        f"dollars: the pilot's design, {len(attempts)} answers by {AGENT}, each graded by {GRADER}"
        f"\n  (list prices of genai-prices {version('genai-prices')}; tokens estimated from the "
        "pilot's texts; no thinking)"
    )
    print("  mode         asking    grading      total   ratio   a graded answer (grading alone)")
    total = sc.planning.cost_total(estimate).set_index("mode")
    parts = estimate.pivot_table(index="mode", columns="role", values="cost_usd", aggfunc="sum")
    for mode, row in total.iterrows():
        asking, grading = parts.loc[mode, "agent"], parts.loc[mode, "grader"]
        print(
            f"  {mode:8s} {asking:10.2f} {grading:10.2f} {row['cost_usd']:10.2f} "
            f"{row['ratio']:7.2f}   {row['cost_usd'] / len(attempts):.4f} "
            f"({grading / len(attempts):.4f})"
        )
    print(f"  the report's estimate of grading one case: {REPORT_USD:.2f}")
    reached = bool(total.loc["cached", "ratio"] <= TARGET_RATIO)
    print(
        f"  cached, of plain: {total.loc['cached', 'ratio']:.2f}; target "
        f"{TARGET_RATIO:g}: {'reached' if reached else 'NOT REACHED'}"
    )
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
