from .delta_explorer import deltas as deltas
from .drift_explorer import drift as drift
from .study_explorer import study as study
from .threshold_explorer import threshold as threshold
from .verdict_browser import verdicts as verdicts
