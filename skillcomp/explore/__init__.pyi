from .study_explorer import study as study
from .threshold_explorer import threshold as threshold
from .verdict_browser import verdicts as verdicts
