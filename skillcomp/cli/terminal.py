"""What the commands say: to people, free of signs that a terminal would obey, and to machines.

Findings for machines are SARIF for code scanning, and the annotations of GitHub's workflows.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import typer

from skillcomp.errors import without_control

if TYPE_CHECKING:
    from skillcomp.lint.lint_suite import Finding

FORMATS = ("text", "sarif", "github")
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_ROW = re.compile(r"row (\d+)\b")
_LINE = re.compile(r"^(?:row \d+, )?line (\d+)\b|, line (\d+): ")


def say(text: object, *, err: bool = False) -> None:
    """Print a text; control characters, which skills, suites and programs can hold, are shown."""
    typer.echo(without_control(str(text)), err=err)


def sarif(findings: Sequence[Finding]) -> str:
    """Return findings as one SARIF 2.1.0 run; files are named relative to the working folder."""
    from skillcomp.lint.lint_suite import RULES

    used = list(dict.fromkeys(one.rule for one in findings))
    rules = [
        {
            "id": rule,
            "shortDescription": {"text": RULES[rule][1]},
            "defaultConfiguration": {"level": RULES[rule][0]},
        }
        for rule in used
    ]
    results = [_result(one, used.index(one.rule)) for one in findings]
    run = {"tool": {"driver": {"name": "skillcomp", "rules": rules}}, "results": results}
    log = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=2, ensure_ascii=False)


def _result(one: Finding, index: int) -> dict[str, Any]:
    found: dict[str, Any] = {
        "ruleId": one.rule,
        "ruleIndex": index,
        "level": one.severity,
        "message": {"text": f"{one.message} ({one.reason})"},
    }
    if one.file is not None:
        place: dict[str, Any] = {"artifactLocation": {"uri": _uri(one.file)}}
        if line := _line(one):
            place["region"] = {"startLine": line}
        found["locations"] = [{"physicalLocation": place}]
    return found


def github(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield a workflow command for each finding; what it says cannot begin another command."""
    for one in findings:
        about = {
            "file": _named(one.file) if one.file else "",
            "line": _line(one),
            "title": one.rule,
        }
        told = ",".join(f"{k}={_escaped(str(v), ':,')}" for k, v in about.items() if v)
        yield f"::{one.severity} {told}::{_escaped(f'{one.message} ({one.reason})')}"


def _escaped(text: str, more: str = "") -> str:
    for sign in f"%\r\n{more}":
        text = text.replace(sign, f"%{ord(sign):02X}")
    return text


def _named(file: str) -> str:
    here, whole = Path.cwd(), Path(os.path.abspath(file))
    return (whole.relative_to(here) if whole.is_relative_to(here) else whole).as_posix()


def _uri(file: str) -> str:
    """Return a file as a URI: relative to the working folder where it lies below it."""
    name = _named(file)
    return Path(name).as_uri() if Path(name).is_absolute() else quote(os.fsencode(name))


def _line(one: Finding) -> int | None:
    match = _LINE.search(one.message) or _ROW.match(one.message)
    return max(int(match[match.lastindex or 0]), 1) if match else None
