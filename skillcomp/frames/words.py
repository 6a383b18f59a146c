"""Words that tables use for conditions, verdicts and distances, and their meanings."""

from __future__ import annotations

from typing import Any

import numpy as np

# Words that tables use for each condition. Comparison ignores case and reads "_" and "-" as blanks.
_CONDITIONS = {
    "baseline": "baseline|base|control|without|no|off|0|false|no skill|without skill"
    "|without the skill|without a skill|noskill|unassisted|w/o|w/o skill|w/o skill.md"
    "|without skill.md|no skill.md",
    "skill": "skill|with|treatment|treated|on|yes|1|true|with skill|with the skill|with a skill"
    "|withskill|skilled|w/|w/ skill|w/ skill.md|with skill.md|skill.md",
    "placebo": "placebo|sham|placebo skill|other skill",
    "previous": "previous|old|old skill|previous skill|previous version",
}
_TRUE = ("true", "t", "yes", "y", "1", "pass", "passed", "ok", "correct", "right", "success")
_FALSE = ("false", "f", "no", "n", "0", "fail", "failed", "incorrect", "wrong", "failure")
NO_VALUE = ("", "na", "n/a", "nan", "none", "null", "missing", "error", "?", ".")
TRUTHS: dict[str, bool | None] = {
    **dict.fromkeys(_TRUE, True),
    **dict.fromkeys(_FALSE, False),
    **dict.fromkeys(NO_VALUE),
}
_ENDS = {
    "ok": "ok|success|succeeded|completed|complete|done|finished",
    "error": "error|errored|crash|crashed|exception|aborted|cancelled|canceled",
    "timeout": "timeout|timed out|time out|time limit",
    "truncated": "truncated|length|max tokens|cut off",
    "refused": "refused|refusal|content filter",
    "paused": "paused|interrupted",
}
STATUSES: dict[str, str | None] = {w: n for n, words in _ENDS.items() for w in words.split("|")}
STATUSES |= dict.fromkeys(("", "na", "n/a", "nan", "none", "null"))
NO_ERROR = ("", "na", "n/a", "nan", "none", "null", "false", "no", "0", "ok", "[]", "{}")
DISTANCES: dict[str, str | None] = {"near": "near", "far": "far", **dict.fromkeys(NO_VALUE)}
CONDITION_OF = {word: name for name, words in _CONDITIONS.items() for word in words.split("|")}


def as_name(value: Any) -> str | None:
    """Return text, or a whole number as text; None for any other value."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | np.bool_):
        return None
    try:
        return str(int(value)) if value == int(value) else None
    except (TypeError, ValueError, OverflowError):
        return None


def plain_word(value: Any) -> str:
    """Return a word in lower case, with one blank for each run of blanks, ``_`` and ``-``."""
    text = str(value) if isinstance(value, bool | np.bool_) else as_name(value)
    if text is None:
        return "\0"  # matches no known word
    return " ".join(text.casefold().replace("_", " ").replace("-", " ").split())


def as_literal(value: Any) -> str:
    """Return a value as Python code."""
    return repr(value.item() if isinstance(value, np.generic) else value)
