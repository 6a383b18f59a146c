"""Programs that a machine may lack: a test that needs one skips and names it.

`.ci/run` lists in SKILLCOMP_PROGRAMS the programs that it has installed; without one of these a
test fails, so that no test of the full run is skipped in silence.
"""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

from skillcomp.live.graders import sandbox


def without(program: str, reason: str) -> NoReturn:
    """Skip the test because a program is missing; fail it if the program was promised."""
    if program in os.environ.get("SKILLCOMP_PROGRAMS", "").split():
        pytest.fail(reason)
    pytest.skip(f"program missing: {reason}")


def needs_bubblewrap() -> None:
    """Skip the test where answers cannot be run in a sandbox."""
    if reason := sandbox.why_no_sandbox():
        without("bwrap", reason)
