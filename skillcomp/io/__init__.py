"""Read skills and suites; read and write the store of a study."""

from skillcomp.removed_names import attach_stub

__getattr__, _, _names = attach_stub(__name__, __file__)
# RunStore, read_skill and read_suite are public names of `skillcomp`, so they are not listed here
__all__ = [name for name in _names if name not in {"RunStore", "read_skill", "read_suite"}]

__dir__ = __all__.copy  # so that dir() lists the public names
