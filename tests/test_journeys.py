"""Four strangers come from the README to a page, each by a short script in `tests/journeys`.

`test_wheel.py` runs them from the wheel, outside the checkout.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
JOURNEYS = sorted((ROOT / "tests" / "journeys").glob("*.py"))


# says from where the package comes, then runs the script as Python would
RUN = """
import runpy, sys, skillcomp
print(skillcomp.__file__)
runpy.run_path(sys.argv[1], run_name="__main__")
"""


def make_journey(script: Path, folder: Path, package: Path, **environment: str) -> None:
    """Run a script in a folder with the package below another; a warning is an error."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", RUN, shutil.copy(script, folder)],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(str(package / "skillcomp"))


@pytest.mark.parametrize("script", JOURNEYS, ids=lambda script: script.stem)
def test_a_stranger_reaches_a_page(script: Path, tmp_path: Path) -> None:
    make_journey(script, tmp_path, ROOT)


def test_there_are_four_journeys() -> None:
    assert len(JOURNEYS) == 4
