"""Shared fixtures: the recorded pilot study, opened once."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from browser import Browser, chromium
from hypothesis import settings
from live_study import make_store, only_the_fake_key

import skillcomp as sc

# jsonschema builds 38 grammars for addresses when it finds this package; no test needs one
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]

# a shell starts its background jobs with Ctrl-C ignored; the tests send it to themselves
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)

# for tests that set no number of examples; `make fuzz` takes the default of hypothesis
settings.register_profile("short", max_examples=25, deadline=None)
if os.environ.get("SKILLCOMP_FUZZ") != "long":
    settings.load_profile("short")

ROOT = Path(__file__).resolve().parent.parent
# IPython and Inspect warn where they cannot write into the home of a user, and hypothesis where it
# cannot write into the checkout; the programs that the tests start need a home as well
if not os.access(Path.home(), os.W_OK):
    _home = tempfile.TemporaryDirectory(prefix="skillcomp-home-")
    os.environ["HOME"] = _home.name
if not os.access(ROOT, os.W_OK):
    settings.register_profile("short", settings.get_profile("short"), database=None)
    settings.load_profile("short")
# Files that start kernels, browsers or programs, build pages, or fuzz or simulate for long.
# `make quick` leaves them out; `make test` starts with them, so that the longest do not come last.
INTEGRATION = {
    "test_analysis_tables",
    "test_notebooks",
    "test_docs",
    "test_journeys",
    "test_report",
    "test_explore_jupyter",
    "test_live_kill",
    "test_wheel",
    "test_readme_study",
    "test_report_findings",
    "test_snippet",
    "test_cli",
    "test_benchmarks",
    "test_broken_frames",
    "test_broken_stores",
    "test_arguments",
    "test_relations",
    "test_explore",
    "test_frames_from_frame",
    "test_overlap_calibrate",
    "test_planning",
    "test_dtypes",
    "test_guests",
    "test_live_batch_resume",
    "test_live_batches",
    "test_live_cli",
    "test_live_cli_agent",
    "test_live_compare",
    "test_live_errors",
    "test_live_evaluate",
    "test_live_process",
    "test_live_programs",
    "test_live_run",
    "test_live_task_graders",
    "test_live_trigger_runs",
    "test_own_dimensions",
    "test_runs",
    "test_live_inspect_task",
    "test_report_study_kinds",
    "test_explore_study",
    "test_case_pages",
    "test_cli_answer",
    "test_report_conditions",
    "test_readme_evals",
    "test_workers",
    "test_correction_by_verdict",
    "test_skillverdicts_compare_versions",
    "test_howto_dask",
    "test_readers_inspect",
    "test_live_probe",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark integration tests and put them first."""
    for item in items:
        if item.path.stem in INTEGRATION:
            item.add_marker("integration")
    items.sort(key=lambda item: item.path.stem not in INTEGRATION)


@pytest.fixture
def fake_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Make the key of `FakeAnthropic` the only one in the environment."""
    only_the_fake_key(monkeypatch, tmp_path)


@pytest.fixture
def store(tmp_path: Path) -> sc.RunStore:
    """A store with the two skills and suites of `live_study`."""
    return make_store(tmp_path)


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("profile")) as started:
        yield started


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
