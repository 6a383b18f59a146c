"""How many inputs the fuzzers tried, told at the end of a run."""

from __future__ import annotations

from collections import Counter

import pytest

_TRIED: Counter[str] = Counter()


@pytest.fixture
def fuzzed() -> Counter[str]:
    return _TRIED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for name, n in _TRIED.items():
        terminalreporter.write_line(f"fuzzed: {n} {name}")
