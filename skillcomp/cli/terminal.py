"""Print text without control characters, and format findings for people and for programs.

The formats for programs are SARIF, for code scanning, and the annotations of GitHub workflows.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from skillcomp.errors import plural, screenful, without_control
from skillcomp.io.redaction import redact

if TYPE_CHECKING:
    import pandas as pd

    from skillcomp.lint.lint_path import LintedPlace

FORMATS = ("text", "github")
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
    for row in findings.to_dict("records"):
        properties = {
            "file": _relative_name(row["file"]),
            "line": _line_in_message(row["message"]),
            "title": row["rule"],
        }
        listed = ",".join(f"{k}={_escape_signs(str(v), ':,')}" for k, v in properties.items() if v)
        text = _escape_signs(f"{row['message']} ({row['reason']})")
        yield f"::{row['severity']} {listed}::{text}"


def _escape_signs(text: str, more: str = "") -> str:
    for sign in f"%\r\n{more}":
        text = text.replace(sign, f"%{ord(sign):02X}")
    return text


def _relative_name(file: str) -> str:
    folder, whole = Path.cwd(), Path(os.path.abspath(file))
    return (whole.relative_to(folder) if whole.is_relative_to(folder) else whole).as_posix()


def _line_in_message(message: str) -> int | None:
    match = _LINE.search(message) or _ROW.match(message)
    return max(int(match[match.lastindex or 0]), 1) if match else None


def print_findings(linted: LintedPlace, *, with_warnings: bool, err: bool = False) -> None:
    """Print the findings on a skill, suite or study, grouped by rule, and then their counts."""
    severities = ("error", "warning") if with_warnings else ("error",)
    for severity in severities:
        of_severity = linted.findings[linted.findings["severity"].eq(severity)]
        for rule, rows in of_severity.groupby("rule", sort=False):
            say(f"{severity}: {rows['reason'].iloc[0]} [{rule}]", err=err)
            for message, group in rows.groupby("message", sort=False):
                say(f"  {', '.join(group['place'].unique())}: {message}", err=err)
    numbers = [(int(linted.findings["severity"].eq(n).sum()), n) for n in ("error", "warning")]
    counts = ", ".join(plural(n, noun) for n, noun in numbers if n) or "no problems"
    hint = " (--advice shows them)" if numbers[1][0] and not with_warnings else ""
    say(f"{linted.description}: {counts}{hint}", err=err)
