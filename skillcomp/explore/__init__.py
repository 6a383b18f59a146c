"""Notebook widgets to read verdicts, give gold labels, and explore studies and thresholds.

Model output is escaped before it is shown. All estimates are computed by the analysis modules.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
