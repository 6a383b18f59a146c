"""Ask agents, have graders judge, and run whole studies.

``run``, ``grade`` and ``compare`` write to a store, ``status`` reads how far it is. Agents and
graders are objects that are passed in. Each name loads on first use, since an SDK takes a second.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
