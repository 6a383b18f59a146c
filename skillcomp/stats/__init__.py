"""Estimators and tests: arrays and small tables in, frozen results out.

This package knows no frames and no skills. Sources, defaults and traps of every estimator stand in
its docstring. Import from the modules, or any public name straight from ``skillcomp.stats``.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_MODULES = (
    "results",
    "intervals",
    "paired",
    "clusters",
    "switching",
    "passk",
    "agreement",
    "misclassification",
    "ppi",
    "detection",
    "crossvalidation",
    "charts",
    "power",
    "multiplicity",
)


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    for module_name in _MODULES:
        try:
            module = import_module(f"{__name__}.{module_name}")
        except ModuleNotFoundError as error:
            if error.name != f"{__name__}.{module_name}":
                raise
            continue
        if module_name == name:
            return module
        if name in getattr(module, "__all__", ()):
            return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
