"""Scores for the form of a SKILL.md, their link to pass rates, and effects of content and form."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
