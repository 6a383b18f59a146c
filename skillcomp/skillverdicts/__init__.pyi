from .aggregate_dimensions import aggregate as aggregate
from .aggregate_dimensions import dimensions as dimensions
from .aggregate_dimensions import together as together
from .decide_verdicts import decide as decide
from .verdicts_on_cases import cases as cases
