"""Verdicts on skills, their cases and dimensions.

Decisions compare an interval with a stated margin. "No change" is a claim of equivalence: the whole
interval must be inside the margin. A difference that is not significant is not enough.
"""

from skillcomp.removed_names import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
