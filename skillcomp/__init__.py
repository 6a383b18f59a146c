"""Ask whether a Skill teaches an agent, and whether the grader that says so can be trusted.

``import skillcomp as sc`` is light: every part below loads on first use. What there is, and where
it is defined, stands in ``__init__.pyi``, which editors and type checkers read as well.
"""

from importlib.metadata import version as _version

import lazy_loader as _lazy

__version__ = _version("skillcomp")
__getattr__, _, _names = _lazy.attach_stub(__name__, __file__)
__all__ = ["__version__", *_names]


def __dir__() -> list[str]:
    return __all__
