"""Text from models as HTML: escaped by the template, quotes marked where they stand."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined

from skillcomp.frames.readers import normalise_quote

MOST = 100_000  # characters of one text that are shown; more would stall a browser
_MARKS = {"'": "['‘’]", '"': '["“”]'}


@cache
def _templates() -> Environment:
    return Environment(
        loader=PackageLoader("skillcomp"), autoescape=True, undefined=StrictUndefined
    )


def render(name: str, **values: Any) -> str:
    """Return a template filled in; every value is escaped."""
    return _templates().get_template(f"explore-{name}.html").render(**values)


def text(value: Any) -> str | None:
    """Return a value as text to be shown, None where it is missing or empty."""
    if value is None or value is pd.NA or value != value:
        return None
    shown = str(value)
    if len(shown) > MOST:
        shown = f"{shown[:MOST]} … ({len(shown) - MOST:,} characters more)"
    return shown if shown.strip() else None


def pieces(answer: str, quote: str | None) -> list[tuple[str, bool]]:
    """Cut an answer into pieces of plain text and of text that the quote matches.

    Parameters
    ----------
    answer : str
        What the agent wrote.
    quote : str or None
        What the grader quoted. White space and the shape of quotation marks do not matter, as in
        ``evidence_found`` of a verdicts frame.

    Returns
    -------
    list of (str, bool)
        Together the answer, none of them empty; True marks the quote.
    """
    words = [re.escape(word) for word in normalise_quote(quote or "").split(" ") if word]
    if not words:
        return [(answer, False)]
    pattern = r"\s+".join(re.sub("['\"]", lambda m: _MARKS[m.group()], word) for word in words)
    found, at = [], 0
    for match in re.finditer(pattern, answer):
        found += [(answer[at : match.start()], False), (match.group(), True)]
        at = match.end()
    return [(part, marked) for part, marked in [*found, (answer[at:], False)] if part]
