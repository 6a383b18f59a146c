"""Files in, records out: skills, suites and the store of a study."""

from skillcomp.io.skills import read_skill
from skillcomp.io.store import RunStore, read_table
from skillcomp.io.suites import read_suite

__all__ = ["RunStore", "read_skill", "read_suite", "read_table"]
