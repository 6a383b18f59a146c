"""Graders: who decides about the checks of an answer; each loads on first use."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
