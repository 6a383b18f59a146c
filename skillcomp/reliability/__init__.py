"""Reliability of a grader: agreement with gold, consistency, drift and integrity of verdicts."""

from skillcomp.removed_names import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
