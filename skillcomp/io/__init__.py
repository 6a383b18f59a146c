"""Files in, records out: skills, suites and the store of a study; and what a lint says of them."""

from skillcomp.io.lint import Finding, lint_skill, lint_suite
from skillcomp.io.skills import read_skill
from skillcomp.io.store import RunStore, read_table
from skillcomp.io.suites import read_suite
from skillcomp.io.writing import write_suite

__all__ = [
    "Finding",
    "RunStore",
    "lint_skill",
    "lint_suite",
    "read_skill",
    "read_suite",
    "read_table",
    "write_suite",
]
