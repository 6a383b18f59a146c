"""Findings about a skill, a suite or a study: what is wrong, where, and why it matters."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
