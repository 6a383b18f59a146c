from .calibrate import calibrate as calibrate
from .score import flag as flag
from .score import roc as roc
from .score import score as score
