"""Pass rates and deltas corrected for the errors of the grader.

``delta`` and ``rate`` compute several estimates and recommend one of them. ``differential`` tests
whether the grader's error rates differ between conditions. Correction requires gold labels.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
