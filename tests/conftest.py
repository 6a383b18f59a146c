"""Shared fixtures: the recorded pilot study, opened once."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import pandas as pd
import pytest

import skillcomp as sc

# a shell starts its background jobs with Ctrl-C ignored; the tests send it to themselves
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def pilot() -> sc.RunStore:
    return sc.RunStore(ROOT / "data" / "pilot")


@pytest.fixture(scope="session")
def pilot_cases(pilot: sc.RunStore) -> pd.DataFrame:
    return sc.frames.cases(pilot)


@pytest.fixture(scope="session")
def pilot_outcomes(pilot: sc.RunStore, pilot_cases: pd.DataFrame) -> pd.DataFrame:
    return sc.frames.outcomes(sc.frames.verdicts(pilot), pilot_cases)


@pytest.fixture(scope="session")
def forced(pilot_outcomes: pd.DataFrame) -> pd.DataFrame:
    return pilot_outcomes[pilot_outcomes["grader"].eq("g2")]
