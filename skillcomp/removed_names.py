"""Removed public names, and what answers their question now."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import resources
from typing import Any, NoReturn

import lazy_loader


@cache
def removed_names() -> dict[str, str]:
    """Return each removed dotted name with the rest of the sentence "sc.<name> is gone: ..."."""
    import yaml  # only if a name is missing, so that the package loads quickly

    table = resources.files("skillcomp") / "removed_names.yaml"
    names: dict[str, str] = yaml.safe_load(table.read_text(encoding="utf-8"))
    return names


def attach_stub(
    package: str, file: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package that loads names by its stub."""
    load, listed, names = lazy_loader.attach_stub(package, file)

    def load_name(name: str) -> Any:
        if name not in names:
            raise missing_name(package, name)
        return load(name)

    return load_name, listed, names


def raise_missing_name(module: str) -> Callable[[str], NoReturn]:
    """Return the `__getattr__` of a module in a single file."""

    def raise_error(name: str) -> NoReturn:
        raise missing_name(module, name)

    return raise_error


def missing_name(module: str, name: str) -> AttributeError:
    """Return the error of a name that a module does not have, with its answer if it had it once."""
    dotted = f"{module}.{name}".removeprefix("skillcomp.")
    if answer := removed_names().get(dotted):
        return AttributeError(f"sc.{dotted} is gone: {answer}.")
    return AttributeError(f"No {module} attribute {name}")
