"""Agents: what can be asked, whichever way it is reached.

All keep the protocol `Agent` and give back the same `Reply`. Each loads on first use, since an SDK
takes a second.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
