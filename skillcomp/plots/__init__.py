"""Axes-level plots: a finished frame in, Axes out; nothing is computed, filtered or sorted here.

Every function draws each row that it is given. Frames come from the analyses; what a row means is
documented there. ``facet`` repeats a plot over the levels of a column.
"""

from skillcomp.plots.calibration import overlap, precision_recall, roc, threshold
from skillcomp.plots.charts import coverage, cusum, power, scores
from skillcomp.plots.forest import corrected, estimates, severity, transfer
from skillcomp.plots.grids import dimensions, facet, flips

__all__ = [
    "corrected",
    "coverage",
    "cusum",
    "dimensions",
    "estimates",
    "facet",
    "flips",
    "overlap",
    "power",
    "precision_recall",
    "roc",
    "scores",
    "severity",
    "threshold",
    "transfer",
]


def __dir__() -> list[str]:
    return list(__all__)
