from .aggregate_across_dimensions import across as across
from .aggregate_across_dimensions import aggregate as aggregate
from .aggregate_across_dimensions import dimensions as dimensions
from .aggregate_across_dimensions import together as together
from .decide_and_compare_cases import cases as cases
from .decide_and_compare_cases import compare as compare
from .decide_and_compare_cases import decide as decide
