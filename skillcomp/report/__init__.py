"""The report: the answer of a study on one page, and the notebooks executed below it."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
