"""No data: `skillcomp init` and the commands that it prints end in a page."""

import contextlib
import io
import os
import sys
from pathlib import Path

import skillcomp as sc
from skillcomp.cli import main


def skillcomp(command: str) -> str:
    """Run a command as a shell would, and return what it prints."""
    sys.argv[1:] = command.split()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            main()
        except SystemExit as end:
            assert not end.code, command
    return printed.getvalue()


steps = skillcomp("init my-study").splitlines()[2:]
os.chdir("my-study")
printed = {step.split()[1]: skillcomp(step.strip().removeprefix("skillcomp ")) for step in steps}
assert list(printed) == ["check", "run", "grade", "answer"]
store = sc.RunStore("study")
outcomes = sc.frames.outcomes(sc.frames.verdicts(store), sc.frames.cases(store))
delta = sc.deltas.paired(outcomes)
row = delta[delta["condition"].eq("skill")].iloc[0]
assert f"{100 * row['estimate']:+.0f} points [" in printed["answer"], printed["answer"]
(index,) = Path().glob("**/index.html")
assert f"{100 * row['estimate']:+.0f}" in index.read_text(encoding="utf-8")
