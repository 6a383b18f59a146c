"""Every benchmark in turn: ``python -m benchmarks [--quick] [names]``.

Each runs in a process of its own, so that the peak memory of one is not that of the next.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence

NAMES = ("overlap", "store", "stats", "live", "explore")
MISSED = "NOT REACHED"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmarks asked for; 1 when a target was not reached or one did not end well."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(NAMES)}; all")
    parser.add_argument("--quick", action="store_true", help="less data, fewer rounds")
    given = parser.parse_args(argv)
    for name in given.names:
        if name not in NAMES:
            parser.error(f"there is no benchmark '{name}'; there: {', '.join(NAMES)}.")
    verdicts = {name: run(name, quick=given.quick) for name in given.names or NAMES}
    print(overall(verdicts))
    return 0 if all(verdict == "reached" for verdict in verdicts.values()) else 1


def run(name: str, *, quick: bool) -> str:
    """Run one benchmark, show its table as it comes, and return what became of its targets."""
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
    """Return the line that says which benchmarks reached every target and which did not."""
    good = [name for name, verdict in verdicts.items() if verdict == "reached"]
    bad = [f"{name} ({verdict})" for name, verdict in verdicts.items() if verdict != "reached"]
    return "; ".join(
        f"{words}: {', '.join(names)}"
        for words, names in (("every target reached", good), ("not reached", bad))
        if names
    )


if __name__ == "__main__":
    sys.exit(main())
