"""Rules of grading that a program can check: quotes, hedges, forbidden copying and overlap.

They are applied to the replies of graders, to recorded verdicts and, by the lint, to suites.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from skillcomp.ngrams import shared_ngrams
from skillcomp.records import Case, Check, Skill

# Hedge words as listed in the comprehension report, A.4 (RULE-6) and 8.9.
HEDGES_ON_FAIL = (
    *("could be improved", "worth reviewing", "could be strengthened", "might be", "perhaps"),
)
HEDGES_ON_PASS = ("could be", "would benefit", "consider", "perhaps", "might be")
# This name in a verdict means that the overlap is counted in n-grams that occur in SKILL.md and not
# in the prompt.
OVERLAP_RULE = "SKILL.md less prompt"

_STRAIGHT_QUOTES = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"'})
_QUOTED = re.compile(r"\"[^\"]*\"|“[^”]*”|‘[^’]*’|`[^`]*`|(?<!\w)'[^']*'(?!\w)")
_JUDGE = r"(?:evaluat|decid|judg|grad|assess|determin|verif)\w*"
# A rationale may say that the answer is undecided, so match only indecision of the grader.
_UNDECIDED = re.compile(
    rf"(?:^|[.;:]\s*|\b(?:i|we|the grader)\s+)(?:could|can)(?:not|n't| not)\s+(?:be\s+)?{_JUDGE}"
    rf"|\b(?:could|can)(?:not|n't| not)\s+be\s+(?:evaluated|judged|graded|assessed)\b"
    rf"|(?:^|[.;:]\s*|\b(?:i am|i'm|we are|the grader is)\s+)unable to {_JUDGE}"
    r"|^undecid(?:ed|able)\b",
)
# A word in _COPYING always means copying. A word in _TAKING means copying if it is in the name of a
# check; in the description of a check, it does so only near a word in _SOURCE.
_COPYING = r"verbatim|word[ -]for[ -]word|n?[ -]?gram\b|\b(?:same|exact) words"
_TAKING = r"\bquot(?:e|es|ing|ation|ations)\b|\bcop(?:y|ies|ied|ying)\b"
_SOURCE = r"\b(?:skill|body|source|definition|concept|text|document|file)\b"
_FORBIDS_COPYING = re.compile(rf"{_COPYING}|{_TAKING}", re.IGNORECASE)
_TAKES_FROM_SKILL = re.compile(
    rf"{_COPYING}|(?:{_TAKING}).{{0,60}}{_SOURCE}|{_SOURCE}.{{0,60}}(?:{_TAKING})",
    re.IGNORECASE | re.DOTALL,
)


def normalise_quote(text: str) -> str:
    """Return ``text`` with straight quotation marks and single blanks, for comparing quotes."""
    return " ".join(text.translate(_STRAIGHT_QUOTES).split())


def quote_occurs(quote: str, answer: str) -> bool:
    """Check whether an answer contains a quote, both normalised; an empty quote never occurs."""
    normalised = normalise_quote(quote)
    return bool(normalised) and normalised in normalise_quote(answer)


def own_words(rationale: str) -> str:
    """Return a rationale in lower case without its quotations."""
    return " ".join(_QUOTED.sub(" ", rationale).lower().replace("’", "'").split())


def hedges(rationale: str, words: Sequence[str]) -> str | None:
    """Return the first hedge word in a rationale outside its quotations, or None."""
    match = _any_word_pattern(tuple(words)).search(own_words(rationale))
    return match.group(0) if match else None


@cache
def _any_word_pattern(words: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, words))})\b")


def undecided(rationale: str) -> bool:
    """Check whether a rationale says that the grader could not decide."""
    return _UNDECIDED.search(own_words(rationale)) is not None


def forbids_copying(check: Check) -> bool:
    """Check whether a behaviour forbids copying the skill, so that the overlap check decides it.

    Only a negative behaviour can forbid copying. Either its name must be about copying, such as
    ``no_verbatim_span``, ``no_body_copy`` or ``no_quoting``, or its description about copying from
    the skill. For example, ``does not quote a price`` is not about copying from the skill.
    """
    name = check.check_id.replace("_", " ").replace("-", " ")
    return check.check_kind == "negative" and bool(
        _FORBIDS_COPYING.search(name) or _TAKES_FROM_SKILL.search(check.description)
    )


def shared_with_skill(answer: str, skill: Skill, case: Case, *, n: int) -> list[str]:
    """Return the n-grams that an answer shares with SKILL.md and that are not in the prompt.

    ``skill`` is the skill of the case under every condition, whichever document was loaded.
    :func:`skillcomp.overlap.score` counts the same n-grams for a whole frame.
    """
    return shared_ngrams(answer, skill.text or skill.body, n=n, exclude=case.prompt)
