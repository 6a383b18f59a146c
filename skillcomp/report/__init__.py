"""Report of a study: one page with the answer and, below it, the executed notebooks."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
