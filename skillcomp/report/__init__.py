"""Report of a study: one page with the answer and, below it, the executed notebooks."""

from skillcomp.removed_names import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
