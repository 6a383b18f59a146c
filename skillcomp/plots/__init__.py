"""Axes-level plots: a finished frame in, Axes out; nothing is computed, filtered or sorted here.

Every function draws each row that it is given. Frames come from the analyses; what a row means is
documented there. ``facet`` repeats a plot over the levels of a column.
"""

from skillcomp.plots.copying import precision_recall, roc, threshold
from skillcomp.plots.curves import cusum, power
from skillcomp.plots.distance import transfer
from skillcomp.plots.facets import facet
from skillcomp.plots.forest import corrected, estimates, severity
from skillcomp.plots.matrix import dimensions, flips
from skillcomp.plots.strips import coverage, overlap

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
    "severity",
    "threshold",
    "transfer",
]
