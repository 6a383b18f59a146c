from .calibrate import calibrate as calibrate
from .positives import positives as positives
from .positives import positives_found as positives_found
from .score import flag as flag
from .score import roc as roc
from .score import score as score
from .score_files import score_files as score_files
from .spans import spans as spans
