"""Studies with known truth, for checking every estimator.

``study`` gives frames and their truth, ``grade`` adds verdicts of one more simulated grader,
``counts`` gives thousands of studies as arrays, ``gold_stream`` gold checks for a control chart,
``passages`` labelled copies of the simulated skills, ``scored_documents`` skills whose score
explains a known share of their pass rates.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
