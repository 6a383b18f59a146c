"""Print text without control characters, format findings, and write the help of commands.

Findings are formatted for people, and for programs as annotations of GitHub workflows. The help
texts of options come from the docstrings of commands.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Iterator
from copy import copy
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_type_hints

import typer
from typer import Argument, Option

from skillcomp.errors import FILE_FACTS, TABLE_OPTIONS, plural, screenful, without_control
from skillcomp.io.redaction import redact

if TYPE_CHECKING:
    import pandas as pd

    from skillcomp.lint.lint_path import LintedPlace

COLUMNS = "Columns: "  # begins the line of a message that lists the columns of a table
_PYTHON = r"import json, |with open\(|table = pd|own = sc|print\(sc"  # begins a line of Python
_LINE_FEED = re.compile(rf"\n(?!- |{COLUMNS}|{_PYTHON})")
_ROW = re.compile(r"row (\d+)\b")
_LINE = re.compile(r"^(?:row \d+, )?line (\d+)\b|, line (\d+): ")


def say(text: object, *, err: bool = False, lines: bool = False) -> None:
    """Print a text without secrets, with control characters replaced.

    With `err`, the text goes to stderr and is cut to the size of a screen. Without `lines`, a line
    feed is printed as a blank, because a CI reads some lines of its log as commands, and a name
    with a line feed could add such a line. Line feeds before a list entry (``- ``), before
    ``Columns:`` and before lines of Python are kept.
    """
    shown = redact(str(text))
    plain = without_control(screenful(shown) if err else shown)
    typer.echo(plain if lines else _LINE_FEED.sub(" ", plain), err=err)


def github(findings: pd.DataFrame) -> Iterator[str]:
    """Yield one GitHub workflow command for each finding, with escaped texts."""
    here = Path.cwd()
    for row in findings.to_dict("records"):
        file, message = Path(os.path.abspath(row["file"])), row["message"]
        match = _LINE.search(message) or _ROW.match(message)
        properties = {
            "file": file.relative_to(here) if file.is_relative_to(here) else file,
            "line": max(int(match[match.lastindex or 0]), 1) if match else None,
            "title": row["rule"],
        }
        listed = ",".join(f"{k}={_escape_signs(str(v), ':,')}" for k, v in properties.items() if v)
        text = _escape_signs(f"{message} ({row['reason']})")
        yield f"::{row['severity']} {listed}::{text}"


def _escape_signs(text: str, more: str = "") -> str:
    for sign in f"%\r\n{more}":
        text = text.replace(sign, f"%{ord(sign):02X}")
    return text


def print_findings(linted: LintedPlace, *, with_warnings: bool, err: bool = False) -> None:
    """Print the findings on a skill, suite or study, grouped by rule, and then their counts."""
    for severity in ("error", "warning") if with_warnings else ("error",):
        of_severity = linted.findings[linted.findings["severity"].eq(severity)]
        for rule, rows in of_severity.groupby("rule", sort=False):
            say(f"{severity}: {rows['reason'].iloc[0]} [{rule}]", err=err)
            for message, group in rows.groupby("message", sort=False):
                say(f"  {', '.join(group['place'].unique())}: {message}", err=err)
    numbers = linted.findings["severity"].value_counts()
    counts = [plural(numbers[noun], noun) for noun in ("error", "warning") if numbers.get(noun)]
    hint = " (--advice shows them)" if numbers.get("warning") and not with_warnings else ""
    say(f"{linted.description}: {', '.join(counts) or 'no problems'}{hint}", err=err)


# Matches the entry of a parameter in a docstring: its name, its type, and its indented text.
_ENTRY = re.compile(r"^(\w+) : .*((?:\n +.*)+)", re.MULTILINE)
OneOrMore = Annotated[int, Option(min=1)]
_Command = Callable[..., None]
# The types of options that commands pass on unchanged; without one, the function's own default
# holds.
_PASSED_ON: dict[str, Any] = {
    **FILE_FACTS,
    **TABLE_OPTIONS,
    **dict.fromkeys(("case", "grader", "reference"), str),
    "checks": Literal["all", "shared"],
    "value": Literal["passed", "share_passed", "score"],
    "bounds": tuple[float, float],
    "assume_missing": Literal["at random"],
    "interval": Literal["adaptive", "bounded", "t"],
    "margin": float,
}


def documented(command: _Command) -> _Command:
    """Return a command with the help that the section "Parameters" of its docstring has.

    A parameter ``**options`` stands for the documented options that are passed on. As in typer, a
    parameter without a default is an argument, and any other is an option. An option of type bool
    is a flag that can only be set. An annotation of typer, such as ``Annotated[bool, Option()]``,
    prevails over these rules.
    """
    summary, _, entries = inspect.cleandoc(command.__doc__ or "").partition("\n\nParameters\n")
    signature, hints = inspect.signature(command), get_type_hints(command, include_extras=True)
    parameters = dict(signature.parameters)
    passes_on = parameters.pop("options", None)
    for name, text in _ENTRY.findall(entries):
        if passes_on and name not in parameters:
            parameters[name] = Parameter(name, Parameter.KEYWORD_ONLY, default=None)
            hints[name] = _PASSED_ON[name] | None
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
