from .calibrate import calibrate as calibrate
from .positives import positives as positives
from .score import flag as flag
from .score import roc as roc
from .score import score as score
