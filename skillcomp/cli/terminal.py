"""What the commands say, free of signs that a terminal would obey."""

from __future__ import annotations

import re

import typer

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def say(text: object, *, err: bool = False) -> None:
    """Print a text; control characters, which skills, suites and programs can hold, are shown."""
    typer.echo(_CONTROL.sub("\ufffd", str(text)), err=err)
