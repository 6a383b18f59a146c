"""Does the form of a SKILL.md predict its effect? Scores, their association, an experiment."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
