from .condition_rates import rates as rates
from .contrasts import contrast as contrast
from .paired_deltas import paired as paired
from .pass_k import pass_at_k as pass_at_k
from .pass_k import pass_hat_k as pass_hat_k
from .price_of_pass import price as price
from .runs_over_time import over_time as over_time
from .unpaired_rates import unpaired as unpaired
