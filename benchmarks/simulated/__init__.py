"""Simulated studies with known truth, which tests, figures and benchmarks draw.

design: random effects with an exact delta
    ``counts``, ``Counts``: thousands of studies as arrays, without frames.
    ``scored_documents``, ``ScoredDocuments``: skills with a score that explains a known share of
    the variance of their pass rates.

graders: simulated graders
    ``Grader``: a grader with known error rates, drift and biases.

study: a study with known truth
    ``study``, ``Study``: frames of a study together with its true values.
    ``grade``: verdicts of a further simulated grader.

text: synthetic texts
    ``passages``: passages that copy from skills to a known degree.
"""

from benchmarks.simulated.design import Counts, ScoredDocuments, counts, scored_documents
from benchmarks.simulated.graders import Grader
from benchmarks.simulated.study import Study, grade, study
from benchmarks.simulated.text import passages

__all__ = [
    "Counts", "Grader", "ScoredDocuments", "Study", "counts", "grade", "passages",
    "scored_documents", "study",
]  # fmt: skip
