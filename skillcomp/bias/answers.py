"""What in an answer may sway a grader: length, hedging, lists, sentences."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd

from skillcomp.frames.contract import check

__all__ = ["features"]

# Words by which a writer takes back certainty. "may" only in small letters: May is a month.
_WORDS = (
    "perhaps|possibly|probably|maybe|might|seems?|seemed|seemingly|appears?|apparently|arguably|"
    "presumably|likely|unlikely|conceivably|supposedly|could be|not sure|not certain|unsure|"
    "i think|i believe|i guess|i suspect|i assume|as far as i|it depends|tends? to|sort of|kind of"
)
HEDGE = re.compile(rf"(?i:\b(?:{_WORDS})\b)|\bmay\b")
_SENTENCE = re.compile(r"(?<=[.!?])[\"')\]]*\s+|\n+")
_MARK = re.compile(r"^\s*([-*+•]|\d+[.)])\s+")
Kind = Literal["blank", "fixed", "paragraph", "bullet", "number"]

FENCE = re.compile(r"\s*(```|~~~)")
_BULLET = re.compile(r"(?P<indent>\s*)[-*+•]\s+\S")
_NUMBER = re.compile(r"\s*\d+[.)]\s+\S")
# table, quotation, heading, rule
_FIXED = re.compile(r"\s*(\||>|#{1,6}\s|([-*_]\s*){3,}$)")


def features(attempts: pd.DataFrame) -> pd.DataFrame:
    r"""Return what in each answer may sway a grader, one row per attempt.

    Parameters
    ----------
    attempts : pandas.DataFrame
        An attempts frame; reads attempt_id, answer, n_words.

    Returns
    -------
    pandas.DataFrame
        attempt_id; n_words; log2_words (so that one more is a doubling); hedges_per_100 (hedge
        words and phrases per 100 words, outside code, tables and quotations); has_list (1 with at
        least two list items, else 0); words_per_sentence and its log2. NaN without an answer.

    Notes
    -----
    Hedges are counted from a fixed list of English words; it takes no account of what they qualify.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"attempt_id": ["a"], "skill": ["s"], "case_id": ["s/1"],
    ...     "condition": ["skill"], "answer": ["It may rain. Perhaps\n\n- today\n- tomorrow"]})
    >>> features(frame)[["n_words", "hedges_per_100", "has_list"]].round(1).to_dict("records")
    [{'n_words': 8.0, 'hedges_per_100': 25.0, 'has_list': 1.0}]
    """
    given = check(attempts, "attempts")
    rows = [_one(answer) for answer in given["answer"].to_numpy(object)]
    names = ["n_words", "hedges_per_100", "has_list", "words_per_sentence"]
    found = pd.DataFrame(rows, columns=names, dtype="float64")
    found["n_words"] = given["n_words"].astype("float64").fillna(found["n_words"])
    with np.errstate(divide="ignore"):
        found["log2_words"] = np.log2(found["n_words"].where(found["n_words"].gt(0)))
        found["log2_words_per_sentence"] = np.log2(found["words_per_sentence"])
    found.insert(0, "attempt_id", given["attempt_id"])
    return found


def _one(answer: object) -> tuple[float, float, float, float]:
    if not isinstance(answer, str):
        return (np.nan,) * 4
    n_words = len(answer.split())
    text = prose(answer)
    spoken = len(text.split())
    items = sum(one.kind in ("bullet", "number") for one in parts(answer))
    sentences = [s for s in (_MARK.sub("", p) for p in _SENTENCE.split(text)) if s.strip()]
    return (
        float(n_words),
        100.0 * len(HEDGE.findall(text)) / spoken if spoken else np.nan,
        float(items >= 2),
        spoken / len(sentences) if sentences else np.nan,
    )


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


def parts(answer: str) -> list[Part]:
    """Split an answer into parts; joining their texts by line ends gives it back."""
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
