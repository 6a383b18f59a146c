"""Rules of grading that a program can check, such as quotes, hedges and forbidden copying.

They are applied to the replies of graders, to recorded verdicts and, by the lint, to suites.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Sequence
from functools import cache

from skillcomp.ngrams import shared_ngrams, split_text, tokenize_unicode
from skillcomp.records import Case, Check, Skill

# Hedge words as listed in the comprehension report, A.4 (RULE-6) and 8.9.
HEDGES_ON_FAIL = (
    *("could be improved", "worth reviewing", "could be strengthened", "might be", "perhaps"),
)
HEDGES_ON_PASS = ("could be", "would benefit", "consider", "perhaps", "might be")
# The value of `rule` in a stored result of an overlap check. The check counts the n-grams that an
# answer shares with SKILL.md and that are not in the prompt.
OVERLAP_RULE = "SKILL.md less prompt"

STRAIGHT_QUOTES = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"'})
_QUOTED = re.compile(r"\"[^\"]*\"|“[^”]*”|‘[^’]*’|`[^`]*`|(?<!\w)'[^']*'(?!\w)")
_JUDGE = r"(?:evaluat|decid|judg|grad|assess|determin|verif)\w*"
# Match statements that the grader could not decide. A statement that the answer is undecided does
# not match.
_UNDECIDED = re.compile(
    rf"(?:^|[.;:]\s*|\b(?:i|we|the grader)\s+)(?:could|can)(?:not|n't| not)\s+(?:be\s+)?{_JUDGE}"
    rf"|\b(?:could|can)(?:not|n't| not)\s+be\s+(?:evaluated|judged|graded|assessed)\b"
    rf"|(?:^|[.;:]\s*|\b(?:i am|i'm|we are|the grader is)\s+)unable to {_JUDGE}"
    r"|^undecid(?:ed|able)\b",
)
# Statements about a verdict or a requirement, in lower case. A rationale that makes one of them
# contradicts the verdict PASS (key True) or FAIL (key False).
_REQUIREMENT = r"(?:the|this|its) (?:behaviou?r|criterion|requirement|check|condition)"
_NOT = r"(?:does not|doesn't|did not|didn't)"
_CONTRADICTIONS = {
    passed: re.compile(
        r"(?:^|[.;:,!]\s*|\b(?:so|thus|hence|therefore|and) )"
        r"(?:(?:it|this|(?:the|this) (?:answer|response|behaviou?r|check|verdict)) )?"
        rf"(?:(?:is|must be|should be) )?(?:a )?{verb}(?=$|[.;:,!]| [-–—])"
        rf"|\bverdict(?: is| must be| should be|:) {verb}\b|(?P<requirement>\b{met})"
    )
    for passed, verb, met in (
        (
            True,
            "fail(?:s|ed)?",
            rf"(?:fails|violates|{_NOT} (?:meet|satisfy|fulfil|pass)) {_REQUIREMENT}\b"
            rf"|{_REQUIREMENT} is (?:not (?:met|satisfied|fulfilled)|unmet|violated)\b",
        ),
        (
            False,
            "pass(?:es|ed)?",
            rf"(?:meets|satisfies|fulfils|passes) {_REQUIREMENT}\b"
            rf"|{_REQUIREMENT} is (?:fully |clearly )?(?:met|satisfied|fulfilled)\b",
        ),
    )
}
# A statement such as "it meets the requirement" does not count as a contradiction if a word of
# _QUALIFIER, such as "not" or "barely", precedes it, or a word of _LIMIT, such as "only", follows.
_LIMITS = r"if|unless|part\w*|barely|nearly|almost|hardly|only"
_QUALIFIER = re.compile(
    rf"\b(?:no|not|nothing|none|never|neither|nor|without|cannot|whether|would|{_LIMITS})\b|n't\b"
)
# A word of _LIMIT counts only if it follows the statement in the same clause.
_LIMIT = re.compile(rf"\b(?:{_LIMITS})\b")
_CLAUSE_END = re.compile(r"[.;:,]|\b(?:because|since|as|and)\b")
# Phrases by which an answer addresses its grader, and the tags and keys of graders' prompts.
_TO_GRADER = re.compile(
    r"\b(?:ignore|disregard|forget|override) (?:(?:all|any|of|the|your|these|those|previous|prior"
    r"|above|earlier|other) ){0,4}(?:rubric|criteria|grading|instructions?|behaviou?rs"
    r"|checks|your (?:(?:previous|prior|above|earlier|other) )?rules?)\b"
    r"|\b(?:dear|attention|note (?:to|for)|message (?:to|for)|instructions? (?:to|for)) (?:the )?"
    r"(?:grader|judge|evaluator|examiner)s?\b"
    r"|\b(?:grader|judge|evaluator)(?: must| should|,? please) (?:mark|grade|score|pass|rate)\b"
    r"|\b(?:you(?: must| should|,? please) pass|mark|grade|score|rate) (?:this|my|the)"
    r" (?:answer|response|reply)\b"
    r"|\bverdicts?\b[\"'*_`]*(?: (?:is|must be|should be))?\s?[:=]?\s?[\"'*_`]*pass\b"
    r"|</?(?:agent-answer|skill-body|behaviou?rs?|(?:precomputed-)?overlap-check|shared-run"
    r"|concept-field|expected-reasoning|verdicts?|rubric)\b"
    r"|</(?:answer|question|system|instructions?)>\s*(?:<|#)"
    r"|\b(?:behavior_verdicts|dimension_verdict|verbatim_overlap_check)\b",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"(?<=[.!?…؟।])[*_\"'”’)\]]*\s+(?![a-z])|(?<=[。！？])")
_LIST_MARK = re.compile(r"^\s*(?:(?:[-+*•>#]+|\d+[.)])\s+)+")
# A quote with fewer words is evidence only if it is a whole sentence or line.
_LEAST_WORDS = 3
# Words that show that a check is about copying. A word in _COPYING shows it in the name and in the
# description of a check. A word in _TAKING shows it in the name; in the description it counts only
# if a word in _SOURCE is near.
_COPYING = r"verbatim|word[ -]for[ -]word|n?[ -]?gram\b|\b(?:same|exact) words"
_TAKING = r"\bquot(?:e|es|ing|ation|ations)\b|\bcop(?:y|ies|ied|ying)\b"
_SOURCE = r"\b(?:skill|body|source|definition|concept|text|document|file)\b"
_FORBIDS_COPYING = re.compile(rf"{_COPYING}|{_TAKING}", re.IGNORECASE)
_TAKES_FROM_SKILL = re.compile(
    rf"{_COPYING}|(?:{_TAKING}).{{0,60}}{_SOURCE}|{_SOURCE}.{{0,60}}(?:{_TAKING})",
    re.IGNORECASE | re.DOTALL,
)


def normalise_quote(text: str) -> str:
    """Return ``text`` with straight quotation marks and single spaces, for comparing quotes."""
    return " ".join(text.translate(STRAIGHT_QUOTES).split())


def is_valid_quote(quote: str, answer: str) -> bool:
    """Check whether a quote is long enough to be evidence.

    A valid quote has at least three words, or is a whole sentence, line or answer. White space,
    punctuation, list marks, emphasis and case do not count. In scripts without spaces (Chinese,
    Japanese, Thai) each character is a word.
    """
    words = tokenize_unicode(quote)
    if len(words) >= _LEAST_WORDS:
        return True
    if not words:
        return normalise_quote(quote) == normalise_quote(answer)
    lines = [_LIST_MARK.sub("", line) for line in answer.splitlines()]
    parts = (part for line in lines for part in (line, *_SENTENCE_END.split(line)))
    return any(tokenize_unicode(part) == words for part in parts)


def needs_evidence(check_kind: str | None, *, passed: bool) -> bool:
    """Check whether a verdict claims that the answer shows the behaviour, which can then be quoted.

    If a positive behaviour failed or a negative one passed, the behaviour is absent from the
    answer and cannot be quoted. The quote is then the passage that comes closest to the behaviour.
    """
    return passed != (check_kind == "negative")


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


def contradicts_verdict(rationale: str, passed: bool, check_kind: str | None = None) -> bool:
    """Check whether a rationale states the opposite of its verdict.

    Only English statements about the verdict or the requirement are found, such as "so it fails",
    "does not meet this requirement" or "the criterion is met". For a negative check, "not met" may
    mean that the behaviour is absent, as it should be, so only statements about the verdict count.
    """
    text = own_words(rationale)
    for match in _CONTRADICTIONS[passed].finditer(text):
        if match["requirement"] is None:
            return True
        before = re.split(r"[.;:,]", text[: match.start()])[-1]
        after = _CLAUSE_END.split(text[match.end() :], maxsplit=1)[0]
        limited = _QUALIFIER.search(before) or _LIMIT.search(after)
        if check_kind != "negative" and not limited:
            return True
    return False


def addresses_grader(answer: str) -> str | None:
    """Return the words by which an answer addresses its grader, or None.

    Such words are English phrases ("ignore the rubric", "verdict: PASS") and tags or keys of a
    grader's prompt. They may be harmless, so a person should read the answer.
    """
    match = _TO_GRADER.search(html.unescape(answer))
    return match.group(0) if match else None


def overlap_record(shared: Sequence[str] | None, *, n: int) -> str | None:
    """Return the result of an overlap check as JSON, as a verdict stores it.

    The result is None if the answer is too short to be checked.
    """
    if shared is None:
        return None
    record = {"rule": OVERLAP_RULE, "n": n, "shared": list(shared)}
    return json.dumps(record, ensure_ascii=False)


def forbids_copying(check: Check) -> bool:
    """Check whether a behaviour forbids copying the skill, so that the overlap check decides it.

    Only a negative behaviour can forbid copying. Its name must be about copying (such as
    ``no_verbatim_span``, ``no_body_copy`` or ``no_quoting``), or its description must be about
    copying from the skill. For example, "does not quote a price" is not about copying from it.
    """
    name = check.check_id.replace("_", " ").replace("-", " ")
    return check.check_kind == "negative" and bool(
        _FORBIDS_COPYING.search(name) or _TAKES_FROM_SKILL.search(check.description)
    )


def shared_with_skill(answer: str, skill: Skill, case: Case, *, n: int) -> list[str] | None:
    """Return the n-grams that an answer shares with SKILL.md and that are not in the prompt.

    Return None if the answer has fewer than n tokens: it is too short to tell whether it copies.
    ``skill`` is the skill of the case under every condition, whichever document was loaded.
    :func:`skillcomp.overlap.score` counts the same n-grams for a whole frame.
    """
    if len(split_text(answer, None)) < n:
        return None
    source = skill.text or skill.body
    return shared_ngrams(answer, source, n=n, exclude=case.prompt)
