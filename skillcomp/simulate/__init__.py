"""Studies with known truth, for checking every estimator.

Study
    ``study``, ``Study``: frames of a study together with its true values.
    ``grade``: verdicts of one more simulated grader.

Design
    ``counts``, ``Counts``: thousands of studies as arrays, without frames.
    ``scored_documents``, ``ScoredDocuments``: skills whose score explains a known share of their
    pass rates.

Graders
    ``Grader``: a grader with known error rates, drift and biases.
    ``gold_stream``: gold checks for a control chart.

Text
    ``passages``: labelled copies of the text of simulated skills.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
