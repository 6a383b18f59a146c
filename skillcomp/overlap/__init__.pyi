from .calibrate import calibrate as calibrate
from .flag import flag as flag
from .flag import roc as roc
from .score import score as score
