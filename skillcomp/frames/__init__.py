"""Tidy frames out of a store, their contract, and what every analysis shares about them."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
