"""Pass rates and deltas corrected for the errors of the grader.

``delta`` and ``rate`` return several estimators and recommend one; ``differential`` tests whether
the error rates differ between conditions. Without gold labels nothing is corrected.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
