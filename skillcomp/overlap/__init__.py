"""Measurement of copying: how far a text repeats the words of its skill."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
