"""What a lint says about one case: its prompt, its behaviours, its sources, its twin."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from skillcomp.errors import suggest
from skillcomp.io.findings import Finding, finding
from skillcomp.io.sources import Sources
from skillcomp.ngrams import match, shared_ngrams, tokenize
from skillcomp.records import CONCEPT_FIELDS, DIMENSIONS, Case, Check, Skill

FAR_N = 4  # content tokens; the report's R4 (7.4)
LEAK_N = 4  # content tokens; on the pilot's 84 prompts 4 marks none and 3 marks shared entities
APART = 0.5  # similarity of the words of twins; a single changed detail leaves nearly all of them
WITH_PRIMITIVES = ("C2", "C7")  # dimensions whose pass criteria name the primitives (5.3, 5.8)

_FIELD_OF = dict(zip(DIMENSIONS, CONCEPT_FIELDS, strict=False))
_ANTI_QUOTE = re.compile(
    r"verbatim|word[ _-]for[ _-]word|\bquot|[_ ]quote|copied|cop(?:y|ies|ying)\b|\d-gram"
    r"|n-gram|same words|exact words",
    re.IGNORECASE,
)
_SKILL_SAYS = re.compile(
    r"\bSKILL\.md\b|\bskill(?:'s|s')? (?:body|text|file|document|page|says|states|tells|defines)\b"
    r"|\baccording to (?:the|this|our|your|its)\b[^.?!\n]{0,60}\bskill\b"
    r"|(?<!cross[- ])\bsections?\b|§|\S+\.md#\w[\w-]*",
    re.IGNORECASE,
)
_PART = r"(?:section|table|checklist|heading|chapter|list)"
_PRIMITIVE = re.compile(
    r"(?:[-*+]\s+|\(?\d+[.)]\s+)?[*_`\"']*([A-Za-z][\w /'-]{1,40}?)[*_`\"']*"
    r"\s*(?::|—|–|\s-\s|=)\s*\S"
)
_MARKED = re.compile(r"\*\*([A-Za-z][\w /'-]{1,40})\*\*|`([A-Za-z][\w /'-]{1,40})`")
_ENDING = re.compile(r"(?:ies|ing|ed|es|s|y|e)$")


def place_of(case: Case, check: Check | None = None) -> str:
    """Return how a case or one of its behaviours is named in findings."""
    return case.case_id if check is None else f"{case.case_id}: {check.check_id}"


def is_anti_quote(check: Check) -> bool:
    """Return whether a behaviour forbids quoting the skill."""
    words = f"{check.check_id} {check.description}"
    return check.check_kind == "negative" and bool(_ANTI_QUOTE.search(words))


def primitives(mental_model: str) -> tuple[str, ...]:
    r"""Return the primitives that a mental model names: ``Name: what it is``, bold or code.

    Parameters
    ----------
    mental_model : str
        The concept field.

    Returns
    -------
    tuple of str
        As written, in order, each once.

    Examples
    --------
    >>> primitives("Six primitives:\nClaim: what may stand here.\n- Escape hatch: trust.")
    ('Claim', 'Escape hatch')
    """
    found = [m[1] for line in mental_model.splitlines() if (m := _PRIMITIVE.match(line.strip()))]
    found += [m[1] or m[2] for m in _MARKED.finditer(mental_model)]
    return tuple(dict.fromkeys(name for name in found if "primitive" not in name.lower()))


def _stems(text: str) -> set[str]:
    return {_ENDING.sub("", word) for word in re.findall(r"[a-z]{3,}", text.lower())}


def asks_for(check: Check, names: Sequence[str]) -> bool:
    """Return whether a positive behaviour names one of the primitives, in any inflection."""
    words = _stems(f"{check.description} {check.check_id.replace('_', ' ')}")
    return check.check_kind == "positive" and any(_stems(name) <= words for name in names)


@dataclass
class CaseLint:
    """The rules that look at one case."""

    cases: dict[str, Case]
    skill: Skill | None
    sources: Sources
    names: tuple[str, ...] = ()
    text: str = ""
    _titles: re.Pattern[str] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        """Prepare what every case needs of the skill."""
        if self.skill is None:
            return
        concept = self.skill.concept
        self.names = primitives(concept.get("mental_model", ""))
        self.text = self.skill.text or "\n\n".join([self.skill.body, *concept.values()])
        self._titles = _titles(self.skill)

    def look(self, case: Case) -> Iterator[Finding]:
        """Yield everything that is to be said about a case."""
        yield from self.dimension(case)
        yield from self.far(case)
        yield from self.behaviours(case)
        yield from self.leaks(case)
        yield from self.citations(case)
        yield from self.truth(case)
        yield from self.contrast(case)

    def dimension(self, case: Case) -> Iterator[Finding]:
        found = case.comprehension_dimension
        if found is None and all(c.comprehension_dimension is None for c in self.cases.values()):
            return  # said once for the whole suite
        if found not in DIMENSIONS:
            hint = suggest(found.upper(), DIMENSIONS) if found else ""
            shown = f"'{found}'" if found else "none"
            yield self._say(
                "dimension_single",
                case,
                f"comprehension_dimension: found {shown}; allowed: exactly one of "
                f"{', '.join(DIMENSIONS)}.{hint}",
            )
        elif case.transfer not in ("near", "far"):
            shown = f"'{case.transfer}'" if case.transfer else "nothing"
            yield self._say(
                "transfer_missing", case, f"transfer: found {shown}; allowed: near, far."
            )

    def far(self, case: Case) -> Iterator[Finding]:
        if case.transfer != "far" or not self.text:
            return
        grams = shared_ngrams(case.prompt, self.text, n=FAR_N)
        if grams:
            longest = match([case.prompt], [self.text], [0], n=FAR_N).longest_text[0]
            yield self._say(
                "far_overlap",
                case,
                f"transfer: tagged far, but the prompt shares '{_short(longest)}' with the skill "
                f"({_many(len(grams), 'run')} of {FAR_N} content words); allowed: none.",
            )

    def behaviours(self, case: Case) -> Iterator[Finding]:
        if not case.checks:
            if case.comprehension_dimension is not None:
                yield self._say(
                    "behaviours_missing",
                    case,
                    "expected_behaviors: found none; required where comprehension_dimension is "
                    "set.",
                )
            return
        for check_id, n in Counter(check.check_id for check in case.checks).items():
            if n > 1:
                yield self._say(
                    "behaviour_id",
                    case,
                    f"expected_behaviors: the id '{check_id}' stands {n} times; allowed: once.",
                )
        if not any(check.check_kind == "negative" for check in case.checks):
            yield self._say(
                "negative_missing",
                case,
                f"expected_behaviors: none of the {len(case.checks)} is negative.",
            )
        if case.comprehension_dimension == "C1" and not any(map(is_anti_quote, case.checks)):
            yield self._say(
                "anti_quote_missing",
                case,
                "expected_behaviors: none forbids copying the skill, as no_verbatim_span does.",
            )
        if (
            self.names
            and case.comprehension_dimension in WITH_PRIMITIVES
            and not any(asks_for(check, self.names) for check in case.checks)
        ):
            yield self._say(
                "primitive_missing",
                case,
                "expected_behaviors: no positive one names a primitive of the mental model ("
                f"{', '.join(self.names)}).",
            )

    def leaks(self, case: Case) -> Iterator[Finding]:
        # a negative behaviour names what the prompt tempts to: only what earns a PASS is an answer
        answers = [("expected_reasoning", case.expected_reasoning or "")]
        answers += [(c.check_id, c.description) for c in case.checks if c.check_kind == "positive"]
        field_name = case.concept_field or _FIELD_OF.get(case.comprehension_dimension or "", "")
        # the probe of C7 must voice the misconception (5.8); a far prompt is held against it all
        if self.skill and field_name not in ("", "misconception") and case.transfer != "far":
            answers.append((f"concept.{field_name}", self.skill.concept.get(field_name, "")))
        for place, answer in answers:
            if shared_ngrams(case.prompt, answer, n=LEAK_N):
                longest = match([case.prompt], [answer], [0], n=LEAK_N).longest_text[0]
                yield self._say(
                    "leak",
                    case,
                    f"prompt: shares '{_short(longest)}' with {place}; allowed: no run of "
                    f"{LEAK_N} content words.",
                )

    def citations(self, case: Case) -> Iterator[Finding]:
        found = [m[0].strip() for m in _SKILL_SAYS.finditer(case.prompt)]
        if self._titles is not None:
            found += [m[0].strip() for m in self._titles.finditer(case.prompt)]
        for words in dict.fromkeys(found):
            yield self._say(
                "cites_section",
                case,
                f"prompt: '{_short(words)}' points into the skill's text; ask about the matter.",
            )

    def truth(self, case: Case) -> Iterator[Finding]:
        if not case.truth_sources:
            yield self._say("truth_missing", case, "truth_sources: found none.")
        for source in case.truth_sources:
            problem = self.sources.problem(source)
            # what could not be looked up is said once for the whole suite
            if problem is not None and problem[0] != "not_checked":
                yield self._say(problem[0], case, problem[1])

    def contrast(self, case: Case) -> Iterator[Finding]:
        if case.contrast_of is None:
            return
        twin = self.cases.get(case.contrast_of)
        if twin is None or case.contrast_of == case.case_id:
            what = "no case of this suite" if twin is None else "the case itself"
            hint = suggest(case.contrast_of, self.cases) if twin is None else ""
            yield self._say(
                "contrast_missing", case, f"contrast_of: '{case.contrast_of}' is {what}.{hint}"
            )
            return
        own, other = case.prompt.split(), twin.prompt.split()
        if own == other:
            yield self._say("contrast_same", case, f"prompt: the same as that of {twin.case_id}.")
            return
        alike = SequenceMatcher(None, own, other, autojunk=False).ratio()
        if alike < APART:
            yield self._say(
                "contrast_apart",
                case,
                f"prompt: {alike:.0%} of the words are those of {twin.case_id}; expected at least "
                f"{APART:.0%}.",
            )
        if case.checks and {c.description for c in case.checks} == {
            c.description for c in twin.checks
        }:
            yield self._say(
                "contrast_behaviours",
                case,
                f"expected_behaviors: the same as those of {twin.case_id}.",
            )

    def _say(self, rule: str, case: Case, message: str) -> Finding:
        return finding(rule, place_of(case), message, case_id=case.case_id)


def _titles(skill: Skill) -> re.Pattern[str] | None:
    """Return a pattern of what points at a heading of the skill: its title or its anchor.

    The skill's own name is what the prompts are about, and a title of a single word is a word like
    others unless it is called a section or stands in quotes.
    """
    own = {skill.name.lower(), skill.slug.lower(), *skill.slug.lower().split("-")}
    choices: list[str] = []
    for section in skill.sections:
        title = section.title.strip()
        if section.level == 1 or not title or title.lower() in own:
            continue
        words = r"\s+".join(map(re.escape, title.split()))
        choices.append(rf"#{re.escape(section.anchor)}(?![\w-])")
        if len(tokenize(title)) > 1:
            choices.append(rf"\b{words}\b" if title[-1:].isalnum() else words)
        else:
            choices.append(rf"\b{words}\s+{_PART}\b|[\"'“‘*`]{words}[\"'”’*`]")
    return re.compile("|".join(choices), re.IGNORECASE) if choices else None


def _many(n: int, word: str) -> str:
    return f"1 {word}" if n == 1 else f"{n} {word}s"


def _short(text: str, most: int = 80) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 3] + "..."
