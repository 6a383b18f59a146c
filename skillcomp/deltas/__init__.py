"""Paired deltas: the change in pass rate on the same cases when the skill is loaded.

Conditions are paired on the case, and repeats are averaged within the case. The unit of evidence is
the case or the skill, never the attempt.
"""

from skillcomp.removed_names import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
