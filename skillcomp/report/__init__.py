"""Report of a study: its answer on one page, and the executed notebooks below it."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
