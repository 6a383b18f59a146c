"""Read the results of other tools as frames: ``read_results``, and the base class of readers.

``read_results`` recognises a format by its content. Each format is one module with a ``Reader``;
another package can add one by the entry point ``skillcomp.readers``.
"""

from skillcomp.removed_names import attach_stub

__getattr__, _, _names = attach_stub(__name__, __file__)
# `read_results` is a public name of `skillcomp`, so it is not listed here
__all__ = [name for name in _names if name not in {"read_results"}]


def __dir__() -> list[str]:
    return __all__
