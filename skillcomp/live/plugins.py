"""Make the agents and graders of a study file that are defined in other packages.

With ``kind: python``, the key ``target: "my_module:MyAgent"`` names a class or function. Any other
``kind`` that is not built in must be the name of an entry point of an installed package, in the
group ``skillcomp.agents`` or ``skillcomp.graders``. A module is imported when its agent or grader
is made, not when the study file is read.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Literal

from skillcomp.errors import (
    SkillcompError,
    StudyError,
    error_text,
    literal,
    require_known,
    suggest,
)
from skillcomp.io.files import JsonObject

Group = Literal["agents", "graders"]
Maker = Callable[..., Any]  # a class, or a function that returns an agent or grader
_MEMBERS = {
    "agents": ("name", "model", "family", "settings", "ask", "aclose"),
    "graders": ("name", "kind", "model", "family", "version", "grade", "aclose"),
}
_BASES = {"agents": "sc.live.BaseAgent", "graders": "sc.live.BaseGrader"}


def installed_kinds(group: Group) -> dict[str, EntryPoint]:
    """Return the entry points for agents or graders in installed packages, by kind."""
    return {entry.name: entry for entry in entry_points(group=f"skillcomp.{group}")}


def build_from_target(
    group: Group, target: str, arguments: JsonObject, *, place: str, folder: Path
) -> Any:
    """Import the target of a ``kind: python`` entry and call it with the entry's other keys.

    The module is looked up on the import path of Python, then in the folder of the study file.
    """
    module_name, _, name = target.partition(":")
    where = f"{place}.target: found {literal(target)}"
    folder = folder.resolve()
    if str(folder) not in sys.path:
        # append the folder at the end, so that installed modules are found first
        sys.path.append(str(folder))
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as cause:
        if cause.name is None or not f"{module_name}.".startswith(f"{cause.name}."):
            raise _import_failure(where, module_name, cause) from cause
        near = suggest(module_name, [path.stem for path in folder.glob("*.py")])
        raise StudyError(
            f"{where}: there is no module '{cause.name}'; allowed: an installed module, or a file "
            f"in {folder}.{near}"
        ) from None
    except Exception as cause:  # code of another package may raise any exception
        raise _import_failure(where, module_name, cause) from cause
    own = folder / f"{module_name.replace('.', '/')}.py"
    file = getattr(module, "__file__", None)
    if own.is_file() and (file is None or Path(file).resolve() != own):
        raise StudyError(
            f"{where}: module '{module_name}' is already {file or 'part of Python'}, not {own}; "
            "give the file another name."
        )
    if not hasattr(module, name):
        names = [
            key
            for key, value in vars(module).items()
            if callable(value)
            and getattr(value, "__module__", None) == module_name
            and not key.startswith("_")
        ]
        require_known(f"{where}: {module_name} has no", name, names, StudyError, label="there")
    maker = getattr(module, name)
    if not callable(maker):
        raise StudyError(
            f"{where}, which is {literal(maker)}; allowed: a class, or a function that returns "
            f"one of the {group}."
        )
    return _checked_call(group, maker, arguments, place, ("kind", "target"))


def build_installed(group: Group, kind: str, arguments: JsonObject, *, place: str) -> Any:
    """Load the entry point for a kind; call it with the other keys of the agent or grader."""
    entry = installed_kinds(group)[kind]
    try:
        maker = entry.load()
    except Exception as cause:
        raise _import_failure(f"{place}.kind: found {literal(kind)}", entry.value, cause) from cause
    return _checked_call(group, maker, arguments, place, ("kind",))


def _import_failure(where: str, module: str, cause: BaseException) -> StudyError:
    return StudyError(f"{where}: importing {module} failed: {error_text(cause)}")


def _checked_call(
    group: Group, maker: Maker, arguments: JsonObject, place: str, keys: tuple[str, ...]
) -> Any:
    """Call a class or function with the keys of a study file, and check the object it returns."""
    # code in C may have no signature; the call itself then checks the arguments
    by_name = {}
    takes_any = True
    with suppress(TypeError, ValueError):
        parameters = inspect.signature(maker).parameters.values()
        by_name = {
            p.name: p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
        }
        takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
    for key in arguments:
        if key not in by_name and not takes_any:
            allowed = [*keys, *by_name]
            raise StudyError(
                f"{place}.{key}: not a known key; allowed: {', '.join(allowed)}."
                f"{suggest(key, allowed)}"
            )
    for name, parameter in by_name.items():
        if parameter.default is parameter.empty and name not in arguments:
            raise StudyError(f"{place}.{name}: missing.")
    name = getattr(maker, "__qualname__", repr(maker))
    try:
        made = maker(**arguments)
    except SkillcompError as cause:
        raise StudyError(f"{place}: {cause}") from cause
    except Exception as cause:  # code of another package may raise any exception
        raise StudyError(f"{place}: {name} raised {error_text(cause)}") from cause
    missing = [member for member in _MEMBERS[group] if not hasattr(made, member)]
    if missing:
        raise StudyError(
            f"{place}: {name} returned {literal(made)}, without {', '.join(missing)}; allowed: an "
            f"object with {', '.join(_MEMBERS[group])}, such as a {_BASES[group]}."
        )
    return made
