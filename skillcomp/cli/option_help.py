"""Options of commands: a type that several share, and help texts from docstrings of commands."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from copy import copy
from inspect import Parameter
from typing import Annotated, Any, get_args, get_type_hints

from typer import Argument, Option

from skillcomp.errors import FILE_FACTS, TABLE_OPTIONS

# Matches the entry of a parameter in a docstring: its name, its type, and its indented text.
_ENTRY = re.compile(r"^(\w+) : .*((?:\n +.*)+)", re.MULTILINE)
OneOrMore = Annotated[int, Option(min=1)]
_Command = Callable[..., None]


def documented(command: _Command) -> _Command:
    """Return a command with the help that the section "Parameters" of its docstring has.

    A parameter ``**facts`` stands for the facts and options of files. As in typer, a parameter
    without a default is an argument, and any other is an option. An option of type bool is a flag
    that can only be set. An annotation of typer, such as ``Annotated[bool, Option()]``, prevails
    over these rules.
    """
    summary, _, entries = inspect.cleandoc(command.__doc__ or "").partition("\n\nParameters\n")
    signature, hints = inspect.signature(command), get_type_hints(command, include_extras=True)
    parameters = dict(signature.parameters)
    if parameters.pop("facts", None):
        for name, kind in (FILE_FACTS | TABLE_OPTIONS).items():
            parameters[name] = Parameter(name, Parameter.KEYWORD_ONLY, default=None)
            hints[name] = kind | None
    for name, text in _ENTRY.findall(entries):
        kind, parameter = hints[name], parameters[name]
        about: Any = Option(*[f"--{name.replace('_', '-')}"] * (kind is bool))
        if hasattr(kind, "__metadata__"):
            kind, annotated = get_args(kind)
            about = copy(annotated)
        elif parameter.default is parameter.empty:
            about = Argument()
        about.help = " ".join(text.split())
        hints[name] = Annotated[kind, about]
    whole = [parameter.replace(annotation=hints[n]) for n, parameter in parameters.items()]
    command.__dict__["__signature__"] = signature.replace(parameters=whole)
    command.__doc__ = summary
    return command
