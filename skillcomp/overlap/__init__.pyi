from .calibrate import calibrate as calibrate
from .case_distances import case_distance as case_distance
from .score_spans_and_positives import flag as flag
from .score_spans_and_positives import positives as positives
from .score_spans_and_positives import positives_found as positives_found
from .score_spans_and_positives import roc as roc
from .score_spans_and_positives import score as score
from .score_spans_and_positives import spans as spans
