"""Measurement of copying: how far a text repeats the words of its skill."""

from skillcomp.removed_names import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
