"""Planning of a study: variance components, power, cases and gold labels needed, and cost."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
