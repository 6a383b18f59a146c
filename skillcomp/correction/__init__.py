"""Pass rates and deltas corrected for the errors of the grader.

Several estimators side by side, one of them recommended, and whether the grader errs differently
between conditions. Gold decides; without it nothing is corrected and nothing is recommended.
"""

from __future__ import annotations

from skillcomp.correction.corrected import delta, rate
from skillcomp.correction.differential import differential

__all__ = ["delta", "differential", "rate"]


def __dir__() -> list[str]:
    return list(__all__)
