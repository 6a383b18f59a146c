from .contrasts_and_runs_over_time import contrast as contrast
from .contrasts_and_runs_over_time import over_time as over_time
from .paired_deltas_and_price import paired as paired
from .paired_deltas_and_price import price as price
from .unpaired_rates_and_pass_k import pass_at_k as pass_at_k
from .unpaired_rates_and_pass_k import pass_hat_k as pass_hat_k
from .unpaired_rates_and_pass_k import rates as rates
from .unpaired_rates_and_pass_k import unpaired as unpaired
