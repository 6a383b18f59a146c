"""Simulated studies with known truth, to check estimators.

Functions are imported on first use. Each heading below is the name of a file.

design: random effects with an exact delta
    ``counts``, ``Counts``: thousands of studies as arrays, without frames.
    ``scored_documents``, ``ScoredDocuments``: skills with a score that explains a known share of
    the variance of their pass rates.

graders: simulated graders
    ``Grader``: a grader with known error rates, drift and biases.
    ``gold_stream``: gold checks for a control chart.

study: a study with known truth
    ``study``, ``Study``: frames of a study together with its true values.
    ``grade``: verdicts of a further simulated grader.

text: synthetic texts
    ``passages``: passages that copy from skills to a known degree.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
