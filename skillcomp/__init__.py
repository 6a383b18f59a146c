"""Measure whether a skill teaches an agent, and whether its grader can be trusted.

``import skillcomp as sc`` is fast, since every part loads on first use. ``__init__.pyi`` lists all
names and the files that define them; editors and type checkers read it too.
"""

from importlib.metadata import version as _version

from skillcomp.removed_names import attach_stub as _attach_stub

__version__ = _version("skillcomp")
__getattr__, _, _names = _attach_stub(__name__, __file__)
__all__ = ["__version__", *_names]

__dir__ = __all__.copy  # so that dir() lists the public names
