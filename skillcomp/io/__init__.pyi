from .skills import read_skill as read_skill
from .store import RunStore as RunStore
from .suites import read_suite as read_suite
