"""Pass rates and deltas corrected for the errors of the grader.

``delta`` and ``rate`` compute several estimates and recommend one of them. ``differential`` tests
whether the grader's error rates differ between conditions. Correction requires gold labels.
"""

from skillcomp.removed_names import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
