"""Widgets for notebooks: verdicts with their answers, gold labels, deltas, drift, thresholds.

Model output is escaped before it is shown. All estimates come from the analyses.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
