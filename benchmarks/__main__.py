"""Run the benchmarks in turn: ``python -m benchmarks [--quick] [names]``.

Each runs in its own process, so that peak memory is measured separately.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence

NAMES = ("overlap", "store", "stats", "live", "explore", "redaction")
MISSED = "NOT REACHED"


def main(argv: Sequence[str] | None = None) -> int:
    """Run benchmarks; return 1 if a target was missed or a benchmark failed, else 0."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(NAMES)}; all")
    parser.add_argument("--quick", action="store_true", help="less data, fewer rounds")
    options = parser.parse_args(argv)
    for name in options.names:
        if name not in NAMES:
            parser.error(f"there is no benchmark '{name}'; there: {', '.join(NAMES)}.")
    verdicts = {name: run(name, quick=options.quick) for name in options.names or NAMES}
    print(overall(verdicts))
    return 0 if all(verdict == "reached" for verdict in verdicts.values()) else 1


def run(name: str, *, quick: bool) -> str:
    """Run a benchmark, pass its output through, and summarise its targets in words."""
    command = [sys.executable, "-m", f"benchmarks.{name}", *(["--quick"] if quick else [])]
    missed = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            missed += MISSED in line
    if missed:
        return f"{missed} missed"
    return "reached" if process.returncode == 0 else f"ended with status {process.returncode}"


def overall(verdicts: dict[str, str]) -> str:
    """Summarise in a line which benchmarks reached all their targets."""
    good = [name for name, verdict in verdicts.items() if verdict == "reached"]
    bad = [f"{name} ({verdict})" for name, verdict in verdicts.items() if verdict != "reached"]
    return "; ".join(
        f"{words}: {', '.join(names)}"
        for words, names in (("every target reached", good), ("not reached", bad))
        if names
    )


if __name__ == "__main__":
    sys.exit(main())
