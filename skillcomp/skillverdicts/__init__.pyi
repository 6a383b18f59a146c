from .across_skills import across as across
from .aggregate_dimensions import aggregate as aggregate
from .aggregate_dimensions import dimensions as dimensions
from .aggregate_dimensions import together as together
from .compare_versions import compare as compare
from .decide_verdicts import decide as decide
from .verdicts_on_cases import cases as cases
