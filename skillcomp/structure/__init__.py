"""Scores for the form of a SKILL.md, their link to pass rates, and effects of content and form."""

from skillcomp.removed_names import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
