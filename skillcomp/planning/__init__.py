"""How large a study must be, and what it costs: components of variance, power, cases, gold."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
