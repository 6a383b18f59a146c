"""Words that tables use for conditions, verdicts and distances, and their meanings."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from skillcomp.frames.contracts import key_by_word
from skillcomp.io.files import whole_text
from skillcomp.io.store import SOURCE

# Words that tables use for each condition, as `plain_word` returns them.
_CONDITIONS = {
    "baseline": "baseline|base|control|vanilla|without|no|off|0|false|no skill|without skill"
    "|without skills|without the skill|without a skill|noskill|unassisted|w/o|w/o skill"
    "|w/o skill.md|without skill.md|no skill.md",
    "skill": "skill|with|treatment|treated|on|yes|1|true|with skill|with the skill|with a skill"
    "|with skills|withskill|skilled|w/|w/ skill|w/ skill.md|with skill.md|skill.md|new skill"
    "|candidate|isolated|skilledisolated",
    "placebo": "placebo|sham|placebo skill|other skill|with placebo|with a placebo",
    "previous": "previous|old|old skill|previous skill|previous version",
}
_TRUE = ("true", "t", "yes", "y", "1", "1.0", "pass", "passed", "ok", "correct", "right", "success")
_FALSE = ("false", "f", "no", "n", "0", "0.0", "fail", "failed", "incorrect", "wrong", "failure")
NO_VALUE = ("", "na", "n/a", "nan", "none", "null", "missing", "error", "?", ".")
TRUTHS: dict[str, bool | None] = {
    **dict.fromkeys(_TRUE, True),
    **dict.fromkeys(_FALSE, False),
    **dict.fromkeys(NO_VALUE),
}
# values that often mean "missing" in tables; only `missing=` makes them missing
_NUMBER_CODES = (-1, -9, -99, -999, 9, 99, 999)
_TEXT_CODES = ("-", "--", "n.a.", "#n/a", "<na>", "unknown", "skipped", "pending")
_ENDS = {
    "ok": "ok|success|succeeded|completed|complete|done|finished",
    "error": "error|errored|crash|crashed|exception|aborted|cancelled|canceled",
    "timeout": "timeout|timed out|time out|time limit",
    "truncated": "truncated|length|max tokens|cut off",
    "refused": "refused|refusal|content filter",
    "paused": "paused|interrupted",
}
STATUSES: dict[str, str | None] = key_by_word(_ENDS, "|")
STATUSES |= dict.fromkeys(("", "na", "n/a", "nan", "none", "null"))
NO_ERROR = ("", "na", "n/a", "nan", "none", "null", "false", "no", "0", "ok", "-", "[]", "{}")
DISTANCES: dict[str, str | None] = {"near": "near", "far": "far", **dict.fromkeys(NO_VALUE)}
# words for each degree of copying; "copied" is a copy of unknown degree
_DEGREES = {
    "verbatim": "verbatim|exact|exact copy|copy and paste|copy paste|word for word",
    "near_copy": "near copy|cut|cut and paste",
    "light_revision": "light revision|light",
    "heavy_revision": "heavy revision|heavy",
    "fresh": "fresh|non|clean|not copied|non plagiarism|non plagiarised|non plagiarized"
    "|not plagiarised|not plagiarized|own words|no|n|false|f|0|0.0",
    "copied": "copied|copy|plagiarism|plagiarised|plagiarized|yes|y|true|t|1|1.0",
}
LEVELS: dict[str, str | None] = key_by_word(_DEGREES, "|")
LEVELS |= dict.fromkeys((SOURCE, "original", "orig"), SOURCE)
LEVELS |= dict.fromkeys(("", "na", "n/a", "nan", "null", "missing"))
# A winner is the answer in the first or second column (A, B), the answer shown first or second, or
# a tie. The form of a word is that of `winner_word`.
_WINNERS = {
    "A": "a|1|1.0|a>b|a>>b|b<a|b<<a|1>2",
    "B": "b|2|2.0|b>a|b>>a|a<b|a<<b|2>1",
    "first": "first",
    "second": "second",
    "tie": "tie|tied|draw|equal|same|c|a=b|a~=b|b=a",
}
# words for a tie that also say something else, such as that both answers are bad
_TIES_TOO = (
    *("both", "both bad", "bothbad", "both good", "neither"),
    *("tie (bothbad)", "tie (both bad)", "tie (inconsistent)"),
)
_NOUNS = ("model", "system", "output", "response", "answer", "assistant", "candidate")
PLAIN_WINNERS: dict[str, str | None] = key_by_word(_WINNERS, "|") | {
    f"{noun} {side}": name for noun in _NOUNS for side, name in zip("a1b2", "AABB", strict=True)
}
WINNERS = {**PLAIN_WINNERS, **dict.fromkeys(_TIES_TOO, "tie"), **dict.fromkeys(NO_VALUE)}
# words for an order of presentation, and the order that a truth value in a column "swapped" means
_ORDERS = {
    1: "ab|1|1.0|original|swap=false|not swapped",
    2: "ba|2|2.0|swapped|reversed|swap=true",
}
ORDERS: dict[str, int | None] = {**key_by_word(_ORDERS, "|"), **dict.fromkeys(NO_VALUE)}
SWAPS = ORDERS | key_by_word({1: "false|0|no", 2: "true|1|yes"}, "|")
_CONDITION_OF = key_by_word(_CONDITIONS, "|")
_THE = "(?:the |an? |any )?"
_WITHOUT = re.compile(rf"(?:without|w/o|no) {_THE}(.+)|(.+) (?:off|disabled)")
_WITH = re.compile(rf"(?:with|w/) {_THE}(.+)|(.+) (?:on|enabled)")
_BEFORE = re.compile("(?:before|pre|old|previous)((?: .+)?)")
_AFTER = re.compile("(?:after|post|new|current|updated)((?: .+)?)")
_VERSION = re.compile(r"(?:(.*) )?v(?:ersion)? ?(\d{1,9}(?:\.\d{1,9})*)")
_HYPHEN = re.compile(r"(?<=[^\W\d_])-(?=[^\W\d_])")
_NEGATED = re.compile(r"(?:not?|non|un|dis|\W).+")


def condition_names(words: Iterable[Any]) -> dict[Any, str | None]:
    """Return the condition that each word means; an unknown word keeps its name.

    The words are read together, because "v1" means the previous version only if there is also a
    "v2", and "tools" means the skill only if there is also "no tools". A word that cannot be a name
    has the value None.
    """
    texts = {word: plain_word(word) for word in words}
    names = {text: _CONDITION_OF[text] for text in texts.values() if text in _CONDITION_OF}
    unknown = list(dict.fromkeys(text for text in texts.values() if text not in names))
    for pair in (_with_and_without(unknown), _before_and_after([*unknown, *names])):
        taken = [name for text, name in names.items() if text not in pair]
        if not set(pair.values()) & set(taken) and (pair | names).items() >= pair.items():
            names |= pair
    return {word: names.get(text) or as_name(word) for word, text in texts.items()}


def _with_and_without(texts: list[str]) -> dict[str, str]:
    """Return the meanings of two words such as "with X" (or "X") and "without X" (or "no X")."""
    without, loaded = (
        {text: match[1] or match[2] for text in texts if (match := pattern.fullmatch(text))}
        for pattern in (_WITHOUT, _WITH)
    )
    loaded |= {text: text for text in texts if text in without.values()}
    things = {thing.removesuffix("s") for thing in (*without.values(), *loaded.values())}
    if len(things) != 1 or len(without) != 1 or len(loaded) != 1:
        return {}
    return dict.fromkeys(without, "baseline") | dict.fromkeys(loaded, "skill")


def _before_and_after(texts: list[str]) -> dict[str, str]:
    """Return the meanings of two words such as before and after, old and new, or v1 and v2."""
    before = {text: match[1] for text in texts if (match := _BEFORE.fullmatch(text))}
    after = {text: match[1] for text in texts if (match := _AFTER.fullmatch(text))}
    versions = {text: match for text in texts if (match := _VERSION.fullmatch(text))}
    if len(before) == 1 and list(before.values()) == list(after.values()):
        return {next(iter(after)): "skill", next(iter(before)): "previous"}
    if len(versions) == 2 and len({match[1] for match in versions.values()}) == 1:
        numbers = {t: [int(n) for n in match[2].split(".")] for t, match in versions.items()}
        first, second = sorted(versions, key=lambda text: numbers[text])
        return {second: "skill", first: "previous"} if numbers[first] != numbers[second] else {}
    return {}


def distinct_words(values: pd.Series) -> list[Any]:
    """Return the distinct values of a column; an empty list if a value cannot be hashed."""
    try:
        return list(pd.unique(values[values.notna()].astype("object")))
    except TypeError:
        return []


def is_flag(words: Iterable[Any]) -> bool:
    """Return whether the words mean exactly skill and baseline, such as 1 and 0."""
    return set(condition_names(words).values()) == {"baseline", "skill"}


def as_name(value: Any) -> str | None:
    """Return a text unchanged and a whole number as text; None if the value cannot be a name."""
    if isinstance(value, str):
        return value if whole_text(value) == value else None
    if isinstance(value, bool | np.bool_ | complex | np.complexfloating):
        return None
    try:
        return str(int(value)) if value == int(value) else None
    except (TypeError, ValueError, OverflowError):
        return None


def plain_word(value: Any) -> str:
    """Return a word in lower case; ``_`` and a hyphen between letters become a space.

    Minus signs and negating words are kept: "-1" is not "1", and "-skill" is not "skill".
    """
    text = str(value) if isinstance(value, bool | np.bool_) else as_name(value)
    if text is None:
        return "\0"  # not a name: return a text that equals no known word
    return " ".join(_HYPHEN.sub(" ", text.casefold().replace("_", " ")).split())


def winner_word(value: Any) -> str:
    """Return a word for a winner without brackets, and without spaces around ">" or "=".

    >>> [winner_word(word) for word in ("[[A]]", "model_a", "Model-2", "A > B")]
    ['a', 'model a', 'model 2', 'a>b']
    """
    word = re.sub(r"^\[+(.*?)\]+$", r"\1", plain_word(value))
    return re.sub(r"\s*([<>=~]+)\s*", r"\1", re.sub(r"(?<=\w)-(?=\w)", " ", word))


def is_negated(word: str) -> bool:
    """Return whether a plain word is negated. A similar known word may mean the opposite."""
    return bool(_NEGATED.fullmatch(word))


def code_number(value: Any) -> int | None:
    """Return the number of a usual code for a missing value, such as -1 or "99"; else None."""
    number = None if isinstance(value, bool | np.bool_) else pd.to_numeric(value, errors="coerce")
    return int(number) if number in _NUMBER_CODES else None


def is_code(value: Any) -> bool:
    """Return whether a value is a usual code for a missing value, such as -1 or "unknown"."""
    return code_number(value) is not None or plain_word(value) in _TEXT_CODES


def literal_key(value: Any) -> str:
    """Return a key that is equal for a number and its text, such as -1, -1.0 and "-1"."""
    return as_name(value) or f"\0{as_literal(value)}"


def as_literal(value: Any) -> str:
    """Return a value as Python code."""
    return repr(value.item() if isinstance(value, np.generic) else value)
