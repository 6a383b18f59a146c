"""Read skills, suites and the store of a study; write suites and stores."""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
