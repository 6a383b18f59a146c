"""Widgets over finished frames: read the cases behind a number, and give gold labels.

Whatever a model wrote is escaped before it is shown. Nothing here estimates anything.
"""

from skillcomp.explore.browsing import verdicts
from skillcomp.explore.labelling import label, labels

__all__ = ["label", "labels", "verdicts"]


def __dir__() -> list[str]:
    return list(__all__)
