"""Scores of the form of a SKILL.md, their association with pass rates, and an experiment."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
