from .comparing import deltas as deltas
from .comparing import drift as drift
from .reading import verdicts as verdicts
from .thresholds import threshold as threshold
