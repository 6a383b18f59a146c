"""Texts of models as HTML: escaped, with visible control characters and marked spans."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from skillcomp.grading_rules import STRAIGHT_QUOTES, normalise_quote
from skillcomp.io.redaction import redact
from skillcomp.ngrams import Tokenizer, grams, intern
from skillcomp.records import Skill

# maximum number of characters of a text that are shown; a longer text would stall the browser
MOST = 100_000
_MOST_MARKS = 500
_LONGEST_QUOTE = 10_000  # A quote with more characters than this is not marked in the answer.
# Visible replacements of invisible characters, and of characters that change the text direction.
_HIDDEN = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\t\n"}
_HIDDEN |= {127: "\N{SYMBOL FOR DELETE}"}
_HIDDEN |= {
    code: f"[U+{code:04X}]"
    for part in ((0x80, 0xA0), (0x200B, 0x2010), (0x2028, 0x202F), (0x2060, 0x2070))
    for code in range(*part)
}
_HIDDEN |= {0xFEFF: "[U+FEFF]", 0x061C: "[U+061C]"}
_HIDDEN |= dict.fromkeys((*range(0xD800, 0xE000), 0xFFFE, 0xFFFF), "\N{REPLACEMENT CHARACTER}")
_HARMFUL = re.compile(f"[{''.join(map(re.escape, map(chr, _HIDDEN)))}]")
Piece = tuple[str, bool, bool]


def visible(value: Any) -> Any:
    """Replace invisible and text-reordering characters by visible ones; keep Markup unchanged."""
    if not isinstance(value, str) or isinstance(value, Markup) or not _HARMFUL.search(value):
        return value
    return re.sub("\r\n?", "\n", value).translate(_HIDDEN)


@cache
def _template_environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("skillcomp"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=visible,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["enumerated"] = enumerate
    return environment


def render(template: str, /, **values: Any) -> Markup:
    """Fill in a template; every value that is not Markup is escaped."""
    return Markup(_template_environment().get_template(f"{template}.html").render(**values))


def template_text(name: str) -> str:
    """Return the text of a file next to the templates, such as a script or a style sheet."""
    return (files("skillcomp") / "templates" / name).read_text(encoding="utf-8")


def absent(value: Any) -> bool:
    """Return whether a value is None, pandas.NA or NaN."""
    return value is None or value is pd.NA or value != value


def text(value: Any) -> str | None:
    """Return a value as text to show, cut if it is too long; None if it is missing or blank."""
    if absent(value):
        return None
    whole = redact(str(value))  # a key that is divided by marks or a fold is not recognised later
    if len(whole) > MOST:
        whole = f"{whole[:MOST]} … ({len(whole) - MOST:,} characters more)"
    return whole if whole.strip() else None


def quote_spans(answer: str, quotes: Iterable[str]) -> list[tuple[int, int]]:
    """Find start and end of each quote, even if blanks or quotation marks are different."""
    flat = re.sub(r"\s+", " ", answer.translate(STRAIGHT_QUOTES))
    # `flat` has one blank for each run of blanks in `answer`. A position in `flat` plus the number
    # of blanks dropped before it is the position in `answer`. `dropped` has these numbers, and
    # `ends` has the positions in `flat` from which each next number applies.
    ends, dropped = [], [0]
    for run in re.finditer(r"\s{2,}", answer):
        dropped.append(dropped[-1] + len(run[0]) - 1)
        ends.append(run.end() - dropped[-1])
    spans = []
    for quote in dict.fromkeys(quotes):
        words = normalise_quote(quote)
        if not words or len(quote) > _LONGEST_QUOTE:
            continue
        start = flat.find(words)
        for _ in range(_MOST_MARKS):
            if start < 0:
                break
            end = start + len(words)
            first, last = (at + dropped[bisect_right(ends, at)] for at in (start, end - 1))
            spans.append((first, last + 1))
            start = flat.find(words, end)
    return spans


def copied_spans(
    answer: str,
    source: Skill | str | None,
    prompt: Any,
    *,
    n: int,
    tokenizer: Tokenizer | None = None,
) -> list[tuple[int, int]]:
    """Return start and end of each run of n content tokens copied from the skill.

    A run that is also in the prompt does not count as copied.

    Tokens and runs are defined as in :func:`skillcomp.overlap.score`. The list is empty if the
    tokens do not occur literally in the answer, for example because the tokenizer stems.
    """
    whole = source.text or source.body if isinstance(source, Skill) else source
    question = "" if absent(prompt) else str(prompt)
    tokens = intern([answer, whole or "", question], tokenizer)
    in_answer, in_skill, in_prompt = (grams(tokens.of(doc).tolist(), n) for doc in range(3))
    copied = set(in_skill) - set(in_prompt)
    places = [at for at, gram in enumerate(in_answer) if gram in copied]
    return [span for at in places if (span := tokens.edges(answer, 0, at, n))]


def pieces(
    answer: str, quotes: Sequence[tuple[int, int]] = (), copies: Sequence[tuple[int, int]] = ()
) -> list[Piece]:
    """Cut an answer at every start and end of a quote or of a copied run.

    Parameters
    ----------
    answer : str
        The answer of the agent.
    quotes, copies : sequence of (int, int)
        Start and end of each quote, and of each run copied from the skill. They may overlap.

    Returns
    -------
    list of (str, bool, bool)
        Text of each piece, whether it is quoted, and whether it is copied. Together, the texts
        are the answer.
    """
    marks = np.zeros((2, len(answer)), bool)
    for marked, spans in zip(marks, (quotes, copies), strict=True):
        for start, end in spans:
            marked[start:end] = True
    changed = (marks[:, 1:] != marks[:, :-1]).any(axis=0)
    edges = [0, *(np.flatnonzero(changed) + 1).tolist(), len(answer)]
    return [
        (answer[start:end], *marks[:, start].tolist())
        for start, end in pairwise(edges)
        if end > start
    ]
