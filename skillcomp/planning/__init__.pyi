from .assumed_components import Assumptions as Assumptions
from .assumed_components import variance_components as variance_components
from .cost import cost_estimate as cost_estimate
from .cost import cost_total as cost_total
from .gold_needed import gold_needed as gold_needed
from .power import cases_needed as cases_needed
from .power import power_curve as power_curve
