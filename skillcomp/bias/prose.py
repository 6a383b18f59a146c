"""Parts of an answer: prose, list items and what no perturbation may touch."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

Kind = Literal["blank", "fixed", "paragraph", "bullet", "number"]

FENCE = re.compile(r"\s*(```|~~~)")
_BULLET = re.compile(r"(?P<indent>\s*)[-*+•]\s+\S")
_NUMBER = re.compile(r"\s*\d+[.)]\s+\S")
# table, quotation, heading, rule
_FIXED = re.compile(r"\s*(\||>|#{1,6}\s|([-*_]\s*){3,}$)")


@dataclass(frozen=True, slots=True)
class Part:
    """Lines of an answer that belong together.

    Attributes
    ----------
    kind : str
        ``blank``; ``fixed`` (code, table, quotation, heading: never changed); ``paragraph``;
        ``bullet`` or ``number`` (one list item with the lines indented under it).
    lines : tuple of str
        The lines as they stand, without line ends.
    indent : int
        Blanks before the mark of a list item.
    """

    kind: Kind
    lines: tuple[str, ...]
    indent: int = 0

    @property
    def text(self) -> str:
        """The lines joined."""
        return "\n".join(self.lines)

    def with_text(self, text: str) -> Part:
        """Return the part with other lines."""
        return replace(self, lines=tuple(text.split("\n")))


def parts(answer: str) -> list[Part]:
    r"""Split an answer into parts; joining their texts by line ends gives it back.

    Parameters
    ----------
    answer : str
        Plain text or Markdown.

    Returns
    -------
    list of Part
        In order.

    Examples
    --------
    >>> [(one.kind, one.text) for one in parts("So:\n\n- one\n- two")]
    [('paragraph', 'So:'), ('blank', ''), ('bullet', '- one'), ('bullet', '- two')]
    """
    found: list[Part] = []
    fence = ""
    for line in answer.split("\n"):
        mark = FENCE.match(line)
        if fence or mark:
            started = not fence
            found.append(Part("fixed", (line,)))
            if mark and started:
                fence = mark.group(1)
            elif mark and line.strip() == fence:
                fence = ""
            continue
        kind = _kind(line)
        last = found[-1] if found else None
        indent = len(line) - len(line.lstrip())
        if last and kind == "fixed" and _goes_on(last, line, indent, kind):
            kind = "paragraph"
        if last and _goes_on(last, line, indent, kind):
            found[-1] = replace(last, lines=(*last.lines, line))
        else:
            found.append(Part(kind, (line,), indent))
    return found


def _kind(line: str) -> Kind:
    if not line.strip():
        return "blank"
    if _FIXED.match(line):
        return "fixed"
    if _BULLET.match(line):
        return "bullet"
    if _NUMBER.match(line):
        return "number"
    return "fixed" if re.match(r"( {4}|\t)", line) else "paragraph"


def _goes_on(last: Part, line: str, indent: int, kind: Kind) -> bool:
    """Whether a line belongs to the part before it."""
    if last.kind in ("bullet", "number"):
        return kind != "blank" and (indent > last.indent or kind == "paragraph")
    return last.kind == "paragraph" and kind == "paragraph"


def prose(answer: str) -> str:
    """Return the paragraphs and list items of an answer, without code, tables and quotations."""
    return "\n".join(one.text for one in parts(answer) if one.kind not in ("fixed", "blank"))
