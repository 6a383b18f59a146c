"""Verdicts on skills, their cases and dimensions.

Decisions compare an interval with a stated margin. "No change" is a claim of equivalence: the whole
interval must be inside the margin. A difference that is not significant is not enough.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
