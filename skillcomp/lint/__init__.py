"""Findings about a skill, a suite or a study: what is wrong, where, and why it matters."""

from skillcomp.removed_names import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
