"""Planning of a study: variance components, power, cases and gold labels needed, and cost."""

from skillcomp.removed_names import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
