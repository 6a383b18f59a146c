"""Text from models as HTML: escaped by the template, harmless in what it shows, with marks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from skillcomp.frames.readers import normalise_quote
from skillcomp.ngrams import intern

MOST = 100_000  # characters of one text that are shown; more would stall a browser
_MOST_MARKS = 500
_LONGEST_QUOTE = 10_000  # characters
_MARKS = {"'": "['‘’]", '"': '["“”]'}
# what cannot be seen, or turns round what is seen, is named
_HIDDEN = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\t\n"}
_HIDDEN |= {127: "\N{SYMBOL FOR DELETE}"}
_HIDDEN |= {
    code: f"[U+{code:04X}]"
    for part in ((0x80, 0xA0), (0x200B, 0x2010), (0x2028, 0x202F), (0x2060, 0x2070))
    for code in range(*part)
}
_HIDDEN |= {0xFEFF: "[U+FEFF]", 0x061C: "[U+061C]"}
Piece = tuple[str, bool, bool]


def visible(value: Any) -> Any:
    """Return a text without characters that hide, move or break; markup and numbers as they are."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    lines = re.sub("\r\n?", "\n", value).translate(_HIDDEN)
    return re.sub("[\ud800-\udfff\ufffe\uffff]", "\N{REPLACEMENT CHARACTER}", lines)


@cache
def _templates() -> Environment:
    return Environment(
        loader=PackageLoader("skillcomp"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def render(template: str, /, **values: Any) -> Markup:
    """Return a template filled in; every value is escaped."""
    return Markup(_templates().get_template(f"explore-{template}.html").render(**values))


def absent(value: Any) -> bool:
    """Return whether a value is missing, in any of pandas' ways."""
    return value is None or value is pd.NA or value != value


def text(value: Any) -> str | None:
    """Return a value as text to be shown, None where it is missing or empty."""
    if absent(value):
        return None
    shown = str(value)
    if len(shown) > MOST:
        shown = f"{shown[:MOST]} … ({len(shown) - MOST:,} characters more)"
    return shown if shown.strip() else None


def stands_in(quote: str, answer: str) -> bool:
    """Return whether a quote stands in an answer, as ``evidence_found`` of verdicts has it."""
    wanted = normalise_quote(quote)
    return bool(wanted) and wanted in normalise_quote(answer)


def quoted(answer: str, quotes: Iterable[str]) -> list[tuple[int, int]]:
    """Return where quotes stand in an answer, white space and shapes of quotation marks aside."""
    found = []
    for quote in dict.fromkeys(quotes):
        words = [re.escape(w) for w in normalise_quote(quote).split(" ") if w]
        if not words or len(quote) > _LONGEST_QUOTE:
            continue
        pattern = r"\s+".join(re.sub("['\"]", lambda m: _MARKS[m.group()], w) for w in words)
        for number, match in enumerate(re.finditer(pattern, answer)):
            if number == _MOST_MARKS:
                break
            found.append(match.span())
    return found


def shared(answer: str, source: str, prompt: str, *, n: int) -> list[tuple[int, int]]:
    """Return where an answer shares n content tokens in a row with a skill and not the prompt.

    The tokens, and what counts as shared, are those of :func:`skillcomp.overlap.score`.
    """
    tokens = intern([answer, source, prompt])
    mine, theirs, asked = (_grams(tokens.of(doc).tolist(), n) for doc in range(3))
    copied = set(theirs) - set(asked)
    assert tokens.start is not None and tokens.end is not None
    first = int(tokens.bounds[0])
    places = [at for at, gram in enumerate(mine) if gram in copied]
    return [(int(tokens.start[first + at]), int(tokens.end[first + at + n - 1])) for at in places]


def _grams(ids: list[int], n: int) -> list[tuple[int, ...]]:
    return [tuple(ids[i : i + n]) for i in range(len(ids) - n + 1)]


def pieces(
    answer: str, quotes: Sequence[tuple[int, int]] = (), copies: Sequence[tuple[int, int]] = ()
) -> list[Piece]:
    """Cut an answer into pieces, each with whether it is quoted and whether it is shared.

    Parameters
    ----------
    answer : str
        What the agent wrote.
    quotes, copies : sequence of (int, int)
        Places of what a grader quoted and of what stands in the skill too; they may overlap.

    Returns
    -------
    list of (str, bool, bool)
        Together the answer, none of them empty.
    """
    edges = sorted({0, len(answer), *(at for span in (*quotes, *copies) for at in span)})
    steps = {at: [0, 0] for at in edges}
    for kind, spans in enumerate((quotes, copies)):
        for start, end in spans:
            steps[start][kind] += 1
            steps[end][kind] -= 1
    found: list[Piece] = []
    depth = [0, 0]
    for start, end in pairwise(edges):
        depth = [d + s for d, s in zip(depth, steps[start], strict=True)]
        now = (depth[0] > 0, depth[1] > 0)
        if found and found[-1][1:] == now:
            found[-1] = (found[-1][0] + answer[start:end], *now)
        else:
            found.append((answer[start:end], *now))
    return [piece for piece in found if piece[0]]
