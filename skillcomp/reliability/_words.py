"""What the wording of a rationale tells: hedges, and verdicts given for indecision."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

# The source report's own lists: A.4 (RULE-6) and 8.9.
HEDGES_ON_FAIL = (
    "could be improved",
    "worth reviewing",
    "could be strengthened",
    "might be",
    "perhaps",
)
HEDGES_ON_PASS = ("could be", "would benefit", "consider", "perhaps", "might be")

_QUOTED = re.compile(r"\"[^\"]*\"|“[^”]*”|‘[^’]*’|`[^`]*`|(?<!\w)'[^']*'(?!\w)")
_JUDGE = r"(?:evaluat|decid|judg|grad|assess|determin|verif)\w*"
# "It says that it cannot tell" is about the answer; only the grader's own indecision counts.
_UNDECIDED = re.compile(
    rf"(?:^|[.;:]\s*|\b(?:i|we|the grader)\s+)(?:could|can)(?:not|n't| not)\s+(?:be\s+)?{_JUDGE}"
    rf"|\b(?:could|can)(?:not|n't| not)\s+be\s+(?:evaluated|judged|graded|assessed)\b"
    rf"|(?:^|[.;:]\s*|\b(?:i am|i'm|we are|the grader is)\s+)unable to {_JUDGE}"
    r"|^undecid(?:ed|able)\b",
)


def own_words(rationale: str) -> str:
    """Return a rationale in lower case without what it quotes.

    Examples
    --------
    >>> own_words("It says 'perhaps' and never names the owner.")
    'it says and never names the owner.'
    """
    return " ".join(_QUOTED.sub(" ", rationale).lower().replace("’", "'").split())


def hedges(rationale: str, words: Sequence[str]) -> str | None:
    """Return the first hedge that the grader itself uses, or None.

    Parameters
    ----------
    rationale : str
        One grader's reason.
    words : sequence of str
        Words or phrases, matched whole.

    Returns
    -------
    str or None
        The word.
    """
    found = _any_of(tuple(words)).search(own_words(rationale))
    return found.group(0) if found else None


@cache
def _any_of(words: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, words))})\b")


def undecided(rationale: str) -> bool:
    """Return whether a FAIL was given because the grader could not decide.

    Parameters
    ----------
    rationale : str
        The grader's reason.

    Returns
    -------
    bool
        True for the grader's own indecision, not for that of the answer.

    Examples
    --------
    >>> undecided("Could not evaluate because the response did not address this criterion.")
    True
    >>> undecided("It says that it cannot determine who writes a braid.")
    False
    """
    return _UNDECIDED.search(own_words(rationale)) is not None
