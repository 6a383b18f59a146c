from .calibrate import calibrate as calibrate
from .case_distances import case_distance as case_distance
from .positives import positives as positives
from .positives import positives_found as positives_found
from .score import flag as flag
from .score import roc as roc
from .score import score as score
from .spans import spans as spans
