"""Widgets over finished frames: the cases behind a number, gold labels, thresholds, flips.

Whatever a model wrote is escaped before it is shown. Nothing here estimates anything.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
