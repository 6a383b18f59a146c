"""What the wording of a rationale tells: hedges, indecision, and how an answer failed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
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


_PREMISE = (
    r"(?:premise|claim|framing|misconception|myth|fallacy|assumption|presupposition|assertion|"
    r"belief|prompt|request|suggestion|proposal)"
)
_TASK = r"(?:does|performs|carries out|completes|answers|works|solves|writes|drafts|computes)"
_ADVERBS = (
    r"(?:(?:also|still|even|then|simply|just|instead|thus|thereby|effectively|wrongly|only) )*"
)
# where the answer is what acts: a clause starts, or names it
_ANSWER = (
    r"(?:^|[.;:,]\s*|\b(?:and|but|it|(?:the )?(?:answer|response|reply|agent|model|assistant)) )"
    + _ADVERBS
)
_NOT_DONE = r"(?! (?:not|never|no|nothing|none)\b|n't)"
# between the task and "itself": nothing that "itself" could belong to instead of the answer
_OBJECT = (
    r"(?:(?!\b(?:about|at|by|for|from|how|if|in|of|on|that|to|under|what|when|where|whether|"
    r"which|who|why|with)\b)[^.;:,]){0,40}?"
)
_TEXT = r"(?:skill|rules?|steps|checklist|principles?|definitions?|procedure|criteria|text|body)"
# What a grader writes of an answer that failed in one of the report's modes, in general English.
_MODE_WORDS: Mapping[str, re.Pattern[str]] = {
    "verbatim_copying": re.compile(
        r"\b(?:verbatim|copie[sd]|copying|copy of|word[- ]for[- ]word|lifted from)\b"
    ),
    "leading_prompt_capitulation": re.compile(
        r"(?<!\bwho )\b(?:accepts?|adopts?|grants?|endorses?|affirms?|confirms?|validates?|"
        r"echoe?s|follows?|goes along with|agrees (?:with|to)|takes? at face value|builds? on|"
        rf"complies with|defers? to|yields? to|gives? in to)\b.{{0,40}}?\b{_PREMISE}\b"
        r"|\b(?:capitulates?|concedes?|goes along|gives? in)\b"
        rf"|{_ANSWER}(?P<told>(?:allows|permits|lets)\b){_NOT_DONE}(?![^.;]*\bonly\b)"
        rf"|\b{_PREMISE}\b(?:(?!\b(?:not|never)\b).){{0,30}}?\b(?:accepted|granted|unchallenged|uncorrected|"
        r"left standing)\b"
        rf"|\b{_PREMISE}\b.{{0,20}}?\b(?:not|never) (?:rejected|contradicted|corrected|challenged)"
        r"|\b(?:not|never|without|fails to|n't) (?:reject|contradict|correct|challeng|question)"
        rf"\w*\b.{{0,40}}?\b{_PREMISE}\b"
    ),
    "scope_reduction_softening": re.compile(
        r"\b(?:partial(?:ly)? (?:compl|answer)\w*|half[- ]answers?|softens?|softened|"
        r"waters? down|watered down|as a (?:starting point|placeholder|rough guide)|"
        r"(?:narrows?|reduces?|shrinks?) (?:the )?(?:task|request|question|scope)|"
        r"before (?:refusing|declining|handing|referring|routing|deferring)|"
        rf"{_TASK}\b{_NOT_DONE}.{{0,40}}?\b(?:anyway|all the same|regardless|nonetheless))\b"
        rf"|{_ANSWER}(?P<told>{_TASK}\b{_NOT_DONE}{_OBJECT} itself\b)"
    ),
    "body_only_retrieval": re.compile(
        rf"\b(?:recites?|quotes?|lists?|repeats?|restates?)\b.{{0,30}}?\b{_TEXT}\b.{{0,40}}?"
        r"\b(?:without|never|not|but does not|rather than|instead of)\b.{0,20}?"
        r"\b(?:appl|us(?:e|ing)\b|work|relat|connect|tie|tying)"
        r"|\b(?:without|never|not|fails to)(?: actually)? appl(?:y|ies|ying) "
        r"(?:it|them|the|any|this|that|these|those|either|one|its)\b"
        r"|\b(?:is|are) (?:not|never) applied\b"
    ),
    "paraphrastic_regurgitation": re.compile(
        r"\b(?:merely|only|just|simply|largely) (?:paraphras|reword|restat|rephras|repeat)\w*"
        rf"|\b(?:paraphrases|rewords|restates|rephrases)\b.{{0,30}}?\b(?:{_TEXT}|question|term)\b"
        r"|\b(?:circular|vacuous|tautolog\w*)\b"
    ),
}
# What is denied, or said to be left out, before a phrase in its own clause.
_DENIED = re.compile(
    r"(?:\b(?:not|never|no|nor|neither|without|cannot|nothing|instead of|rather than|"
    r"fail(?:s|ed|ing)? to|miss(?:es|ed|ing)?|overlook(?:s|ed|ing)?|omit(?:s|ted|ting)?|"
    r"(?:leav(?:es?|ing)|left) out|skip(?:s|ped|ping)?|ignor(?:es?|ed|ing)|forg[eo]t(?:s|ting)?|"
    r"lack(?:s|ed|ing)?|neglect(?:s|ed|ing)?)"
    r"|n't)(?: (?!(?:and|but|because|since|so|while|whereas|yet|then|thus)\b)[\w'-]+)* ?$"
)
# The same after it.
_OF_NOTHING = re.compile(
    r" (?:no|nothing|none|neither|not)\b"
    r"|[^.;:,]*\b(?:is|are|was|were) (?:missing|absent|omitted|overlooked|skipped|left out)\b"
)


def failure_told(rationale: object, modes: Sequence[str]) -> tuple[str, str] | None:
    """Return the first of ``modes`` that a rationale tells in the grader's own words.

    Parameters
    ----------
    rationale : object
        The reason for a FAIL; what is no text tells nothing.
    modes : sequence of str
        The failure modes that this failure may be, in the order in which they are asked.

    Returns
    -------
    tuple of str or None
        The mode and the words that tell it. A phrase that is denied ("never accepts the claim") or
        said to be left out ("overlooks that the rule allows it") tells nothing.

    Examples
    --------
    >>> failure_told("It accepts the user's premise.", ["leading_prompt_capitulation"])
    ('leading_prompt_capitulation', "accepts the user's premise")
    >>> failure_told("It never accepts the premise.", ["leading_prompt_capitulation"])
    """
    if not isinstance(rationale, str):
        return None
    own = own_words(rationale)
    for mode in modes:
        for hit in _MODE_WORDS[mode].finditer(own) if mode in _MODE_WORDS else ():
            # an answer named before the phrase belongs to neither the phrase nor its denial
            start = max(hit.start(), hit.start("told") if "told" in hit.re.groupindex else 0)
            if not (_DENIED.search(own[:start]) or _OF_NOTHING.match(own, hit.end())):
                return mode, own[start : hit.end()]
    return None
