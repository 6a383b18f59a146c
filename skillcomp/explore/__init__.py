"""Notebook widgets to read verdicts, give gold labels, and explore deltas, drift and thresholds.

Model output is escaped before it is shown. All estimates are computed by the analysis modules.
"""

from skillcomp.removed_names import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
