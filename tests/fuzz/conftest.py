"""How many inputs the fuzzers tried, told at the end of a run, by however many processes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from analyses import LONG

TIMEOUT = 3600  # seconds; what one test of a long run may take


@pytest.fixture
def fuzzed(record_property: Callable[[str, object], None]) -> Iterator[Counter[str]]:
    counts: Counter[str] = Counter()
    yield counts
    record_property("fuzzed", dict(counts))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items if LONG else ():
        item.add_marker(pytest.mark.timeout(TIMEOUT))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    told: Counter[str] = Counter()
    for report in (one for reports in terminalreporter.stats.values() for one in reports):
        if getattr(report, "when", "") == "teardown":
            for name, counts in report.user_properties:
                told.update(counts if name == "fuzzed" else {})
    for name, n in told.items():
        terminalreporter.write_line(f"fuzzed: {n} {name}")
