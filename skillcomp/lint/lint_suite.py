"""What a lint finds, the rules it knows, and what it says about one case and its sources."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import cache, lru_cache
from os.path import exists
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from skillcomp.errors import SuiteError, plural, suggest
from skillcomp.io.files import decode, read_bytes
from skillcomp.io.skills import sections_of
from skillcomp.ngrams import match, shared_ngrams, tokenize
from skillcomp.records import (
    CONCEPT_FIELDS,
    DIMENSIONS,
    Case,
    Check,
    Record,
    Skill,
    dimension_family,
)

FAR_N = 4  # content tokens; the report's R4 (7.4)
LEAK_N = 4  # content tokens; on the pilot's 84 prompts 4 marks none and 3 marks shared entities
APART = 0.5  # similarity of the words of twins; a single changed detail leaves nearly all of them
WITH_PRIMITIVES = ("C2", "C7")  # dimensions whose pass criteria name the primitives (5.3, 5.8)

_FIELD_OF = dict(zip(DIMENSIONS, CONCEPT_FIELDS, strict=False))
# what says by itself that copying is meant, and what does so of the skill or in the name of a check
_COPYING = r"verbatim|word[ -]for[ -]word|n?[ -]?gram\b|\b(?:same|exact) words"
_TAKING = r"\bquot(?:e|es|ing|ation|ations)\b|\bcop(?:y|ies|ied|ying)\b"
_SOURCE = r"\b(?:skill|body|source|definition|concept|text|document|file)\b"
_FORBIDS_COPYING = re.compile(rf"{_COPYING}|{_TAKING}", re.IGNORECASE)
_TAKES_FROM_SKILL = re.compile(
    rf"{_COPYING}|(?:{_TAKING}).{{0,60}}{_SOURCE}|{_SOURCE}.{{0,60}}(?:{_TAKING})",
    re.IGNORECASE | re.DOTALL,
)
_SKILL_SAYS = re.compile(
    r"\bSKILL\.md\b|\bskill(?:'s|s')? (?:body|text|file|document|page|says|states|tells|defines)\b"
    r"|\baccording to (?:the|this|our|your|its)\b[^.?!\n]{0,60}\bskill\b"
    r"|(?<!cross[- ])\bsections?\b|§|\S+\.md#\w[\w-]*",
    re.IGNORECASE,
)
_PART = r"(?:section|table|checklist|heading|chapter|list)"
_HEAD = re.compile(
    r"(?:[-*+]\s+|\(?\d+[.)]\s+)?[*_`\"']*([A-Za-z][\w /'-]{1,40}?)[*_`\"']*"
    r"\s*(?::|—|–|\s-\s|=)\s*\S"
)
_BOLD = re.compile(r"\*\*([A-Za-z][\w /'-]{1,40})\*\*")
_CODE = re.compile(r"`([A-Za-z][\w /'-]{1,40})`")
_SMALL = frozenset(["the", "and", "for", "not", "its", "that", "this", "with", "from"])
_ENDING = re.compile(r"(?:ies|ing|ed|es|s|y|e)$")
_MOST_SHOWN = 80  # characters of what a finding quotes
MAX_BYTES = 1 << 22  # a file named as a source of truth is read by people and graders
_PARTS = re.compile(r"(?P<path>[^#]*?)(?::(?P<first>\d+)(?:-(?P<last>\d+))?)?(?:#(?P<anchor>.*))?")
_LINES = re.compile(r"L(\d+)(?:-L?(\d+))?")
_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)
_DRIVE = re.compile(r"[A-Za-z]:")
_MARKDOWN = (".md", ".markdown")

Severity = Literal["error", "warning"]


class Finding(Record):
    """One thing that a lint found.

    Attributes
    ----------
    place : str
        Where: a case_id, with the behaviour after it where there is one, or the suite or skill.
    case_id : str or None
        The case; None for what concerns the suite or skill as a whole.
    file : str or None
        The file in which it was found, where one was read.
    rule : str
        Which rule, a key of `RULES`.
    severity : {"error", "warning"}
        A warning is for a person to judge: the rule is a heuristic, or the report lets it pass.
    message : str
        What was found and what is allowed.
    reason : str
        Why it matters.
    """

    place: str
    rule: str
    severity: Severity
    message: str
    reason: str
    case_id: str | None = None
    file: str | None = None

    def __str__(self) -> str:
        """Return the finding as one line."""
        return f"{self.place}: {self.severity}: {self.message} [{self.rule}: {self.reason}]"


_GROUNDS = "a case may rest only on what a grader can look up in the sources it names"
_TRANSFER = "near and far transfer are compared dimension by dimension (report 8.2)"

_CONCEPT = "C1 to C7 are each graded against one concept field"
_SECTIONS = "C8 is graded against Verification and C9 against Do NOT Use When (report 5.9, 5.10)"

# why each thing that a lint finds matters: what spoils a study, and what is for a person to judge
_ERRORS: Mapping[str, str] = {
    # suite
    "reading": "what deviates from the report's shape is read differently elsewhere",
    "store": "every analysis refuses it, or would count it wrongly",
    "negative_none": (
        "without a negative behaviour an answer that says everything passes everything"
    ),
    "anti_quote_none": (
        "a grader that sees the concept field rewards quoting it unless a behaviour forbids it "
        "(report 8.4)"
    ),
    # case
    "dimension_single": (
        "a case that grades several dimensions, or none, cannot say which one failed (report 8.8)"
    ),
    "transfer_unknown": "a case that is neither near nor far is left out of both",
    "behaviours_missing": "without expected_behaviors a grader has nothing to decide (report 9.5)",
    "behaviour_id": "verdicts are joined to behaviours by their id",
    "truth_source": _GROUNDS,
    "truth_outside": "a suite from elsewhere must not reach into other files",
    "contrast_missing": "a contrast case is read beside its twin",
    "contrast_same": "twins that do not differ show nothing about the detail between",
    # skill
    "front_matter": "an agent decides by name and description whether to load a skill",
    "concept_missing": _CONCEPT,
    "concept_not_text": "a concept field is shown to the grader as text",
    "section_missing": _SECTIONS,
    # skills and prompts that are to be tested by triggering (`check --evals`)
    "skill_none": "prompts for a skill that is not there test nothing",
    "slug_twice": "an agent that is offered two skills of one name loads either",
    "link_missing": "an agent that follows the link finds nothing",
    "link_outside": "a skill is installed with its own folder and nothing else",
}
_WARNINGS: Mapping[str, str] = {
    # suite
    "other_word": "other published files use the word, the report does not",
    "fields_missing": "the report's shape has it; nothing here is computed of it",
    "tasks_number": "a task suite holds five to ten tasks that cover the skill's core",
    "tasks_rubric": (
        "a judge that runs no model is free and says the same each time; a rubric is for what "
        "words and tests cannot tell"
    ),
    "cases_few": "fewer than seven cases say little about a skill (report 6.3)",
    "dimensions_missing": (
        "a dimension without a case is not measured, and the verdict on a skill needs all nine "
        "(report 5.11)"
    ),
    "far_missing": _TRANSFER,
    "far_missing_near_in_report": f"{_TRANSFER}; the report's own example has none",
    "primitive_none": (
        "an answer in empty general words passes where no behaviour asks for a primitive of the "
        "mental model (report 8.4)"
    ),
    "not_checked": "what was not looked at is not in order, it is unknown",
    # case
    "transfer_missing": _TRANSFER,
    "far_overlap": (
        "a far prompt that shares a run of words with the skill can be answered by looking it up "
        "(report 7.4)"
    ),
    "negative_missing": "without a negative behaviour an answer that says everything passes",
    "anti_quote_missing": (
        "a definition that copies the skill shows retrieval and not understanding (report 5.2)"
    ),
    "primitive_missing": (
        "this dimension is passed by reasoning with the primitives of the mental model (report "
        "5.3, 5.8, 8.4)"
    ),
    "leak": "a prompt that holds the answer asks for repetition",
    "cites_section": "a prompt that points into the skill asks for retrieval (report B.1)",
    "truth_missing": _GROUNDS,
    "contrast_behaviours": "the detail between twins is meant to change the right answer",
    "contrast_apart": "twins are meant to differ in a single detail (report 4.2.5)",
    # skill
    "concept_none": _CONCEPT,
    "concept_short": "a few words cannot carry what the dimension grades against",
    "concept_long": "a concept field of a page drowns what is load-bearing in it",
    "primitives_unnamed": "C2 and C7 are graded by the primitives that the mental model names",
    "section_missing_no_concept": _SECTIONS,
    "verification_short": "C8 asks for at least three items of the checklist",
    # skills and prompts that are to be tested by triggering (`check --evals`)
    "evals_none": "whether a skill fires when it should is known only by asking",
    "kind_none": "naming the skill, meaning it and not meaning it are three questions",
    "description_twice": "an agent chooses by the description",
    "prompt_twice": "the same prompt asked twice is no second case",
    "done_none": "without a definition of done a grader cannot tell when it is reached",
    "dry_run_none": "a skill that can answer with its steps can be tested at no risk",
    "not_when_none": "negative prompts need to be told from those that are meant",
    "unbounded": "a workflow without an end runs into every limit",
    "download": "a heavy download that a test cannot skip makes it slow and flaky",
    "machine_path": "a path of one machine is not there on another",
}
RULES: Mapping[str, tuple[Severity, str]] = {
    **{rule: ("error", reason) for rule, reason in _ERRORS.items()},
    **{rule: ("warning", reason) for rule, reason in _WARNINGS.items()},
}


Said = Iterator[tuple[str, str]]  # a rule and what was found, before its place is known


def finding(rule: str, place: str, message: str, **where: Any) -> Finding:
    """Return a finding with severity and reason of its rule; `where` may name case and file."""
    severity, reason = RULES[rule]
    about: dict[str, Any] = {"severity": severity, "reason": reason, **where}
    return Finding(rule=rule, place=place, message=message, **about)


def forbids_copying(check: Check) -> bool:
    """Return whether a behaviour forbids copying the skill: the overlap check then decides it.

    Its name says so (``no_verbatim_span``, ``no_body_copy``, ``no_quoting``) or its description
    does, of the skill; ``does not quote a price`` is about something else.
    """
    name = check.check_id.replace("_", " ").replace("-", " ")
    return check.check_kind == "negative" and bool(
        _FORBIDS_COPYING.search(name) or _TAKES_FROM_SKILL.search(check.description)
    )


def primitives(mental_model: str) -> tuple[str, ...]:
    r"""Return the primitives that a mental model names, as written, in order, each once.

    They are the heads of lines (``Name: what it is``); without any, what stands in bold; without
    that, code spans, which in a text that names its primitives are mere examples.

    Examples
    --------
    >>> primitives("Two primitives:\nClaim: what may stand, as `any`.\n- **Escape hatch**: trust.")
    ('Claim', 'Escape hatch')
    """
    heads = [m[1] for line in mental_model.splitlines() if (m := _HEAD.match(line.strip()))]
    for found in (heads, _BOLD.findall(mental_model), _CODE.findall(mental_model)):
        names = dict.fromkeys(name for name in found if "primitive" not in name.lower())
        if names:
            return tuple(names)
    return ()


def _stems(text: str) -> set[str]:
    words = set(re.findall(r"[a-z]{3,}", text.lower())) - _SMALL
    return {_ENDING.sub("", word) for word in words}


def asks_for(check: Check, names: Sequence[str]) -> bool:
    """Return whether a positive behaviour names one of the primitives, in any inflection."""
    words = _stems(f"{check.description} {check.check_id.replace('_', ' ')}")
    wanted = [stems for name in names if (stems := _stems(name))]
    return check.check_kind == "positive" and any(stems <= words for stems in wanted)


@dataclass
class CaseLint:
    """The rules that look at one case."""

    cases: dict[str, Case]
    skill: Skill | None
    sources: Sources
    names: tuple[str, ...] = ()
    telling: tuple[str, ...] = ()
    text: str = ""
    _titles: re.Pattern[str] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        """Prepare what every case needs of the skill."""
        if self.skill is None:
            return
        concept = self.skill.concept
        self.names = primitives(concept.get("mental_model", ""))
        # a single word of the skill's own name stands in every other behaviour and tells nothing
        own = _stems(f"{self.skill.name} {self.skill.slug}".replace("-", " "))
        telling = (name for name in self.names if " " in name or not _stems(name) <= own)
        self.telling = tuple(telling) or self.names
        self.text = self.skill.text or "\n\n".join([self.skill.body, *concept.values()])
        self._titles = _titles(self.skill)

    def look(self, case: Case) -> Iterator[Finding]:
        """Yield everything that is to be said about a case."""
        rules = (
            self._dimension,
            self._far,
            self._behaviours,
            self._leaks,
            self._citations,
            self._truth,
            self._contrast,
        )
        for look in rules:
            for rule, message in look(case):
                yield finding(rule, case.case_id, message, case_id=case.case_id)

    def _dimension(self, case: Case) -> Said:
        found = case.comprehension_dimension
        if found is None and all(c.comprehension_dimension is None for c in self.cases.values()):
            return  # said once for the whole suite
        family = dimension_family(c.comprehension_dimension for c in self.cases.values())
        if found not in family:
            hint = suggest(found.upper(), family) if found else ""
            yield (
                "dimension_single",
                f"comprehension_dimension: found {_named(found, 'none')}; allowed: exactly one of "
                f"{', '.join(family)}.{hint}",
            )
        elif case.transfer not in ("near", "far"):
            rule = "transfer_missing" if case.transfer is None else "transfer_unknown"
            shown = _named(case.transfer, "nothing")
            hint = suggest(case.transfer or "", ("near", "far"))
            yield rule, f"transfer: found {shown}; allowed: near, far.{hint}"

    def _far(self, case: Case) -> Said:
        if case.transfer != "far" or not self.text:
            return
        grams = shared_ngrams(case.prompt, self.text, n=FAR_N)
        if grams:
            runs, longest = plural(len(grams), "run"), _longest(case.prompt, self.text)
            yield (
                "far_overlap",
                f"transfer: tagged far, but the prompt shares '{longest}' with the skill ({runs} "
                f"of {FAR_N} content words); allowed: none.",
            )

    def _behaviours(self, case: Case) -> Said:
        what, dimension = "expected_behaviors", case.comprehension_dimension
        if not case.checks:
            if dimension is not None:
                message = f"{what}: found none; required where comprehension_dimension is set."
                yield "behaviours_missing", message
            return
        for check_id, n in Counter(check.check_id for check in case.checks).items():
            if n > 1:
                yield (
                    "behaviour_id",
                    f"{what}: the id '{check_id}' stands {n} times; allowed: once.",
                )
        if not any(check.check_kind == "negative" for check in case.checks):
            yield "negative_missing", f"{what}: none of the {len(case.checks)} is negative."
        if dimension == "C1" and not any(map(forbids_copying, case.checks)):
            message = f"{what}: none forbids copying the skill, as no_verbatim_span does."
            yield "anti_quote_missing", message
        if (
            self.names
            and dimension in WITH_PRIMITIVES
            and not any(asks_for(check, self.telling) for check in case.checks)
        ):
            yield (
                "primitive_missing",
                f"{what}: no positive one names a primitive of the mental model "
                f"({', '.join(self.names)}).",
            )

    def _leaks(self, case: Case) -> Said:
        # a negative behaviour names what the prompt tempts to: only what earns a PASS is an answer
        answers = [("expected_reasoning", case.expected_reasoning or "")]
        answers += [(c.check_id, c.description) for c in case.checks if c.check_kind == "positive"]
        field_name = case.concept_field or _FIELD_OF.get(case.comprehension_dimension or "", "")
        # the probe of C7 must voice the misconception (5.8); a far prompt is held against it all
        if self.skill and field_name not in ("", "misconception") and case.transfer != "far":
            answers.append((f"concept.{field_name}", self.skill.concept.get(field_name, "")))
        for place, answer in answers:
            if shared_ngrams(case.prompt, answer, n=LEAK_N):
                yield (
                    "leak",
                    f"prompt: shares '{_longest(case.prompt, answer)}' with {place}; allowed: no "
                    f"run of {LEAK_N} content words.",
                )

    def _citations(self, case: Case) -> Said:
        found = [m[0].strip() for m in _SKILL_SAYS.finditer(case.prompt)]
        if self._titles is not None:
            found += [m[0].strip() for m in self._titles.finditer(case.prompt)]
        for words in dict.fromkeys(found):
            message = (
                f"prompt: '{_short(words)}' points into the skill's text; ask about the matter."
            )
            yield "cites_section", message

    def _truth(self, case: Case) -> Said:
        if not case.truth_sources:
            yield "truth_missing", "truth_sources: found none."
        problems = map(self.sources.problem, case.truth_sources)
        # what could not be looked up is said once for the whole suite
        yield from (p for p in problems if p is not None and p[0] != "not_checked")

    def _contrast(self, case: Case) -> Said:
        if case.contrast_of is None:
            return
        partner = self.cases.get(case.contrast_of)
        if partner is None or case.contrast_of == case.case_id:
            what = "no case of this suite" if partner is None else "the case itself"
            hint = suggest(case.contrast_of, self.cases) if partner is None else ""
            yield "contrast_missing", f"contrast_of: '{case.contrast_of}' is {what}.{hint}"
            return
        own, other = case.prompt.split(), partner.prompt.split()
        if own == other:
            yield "contrast_same", f"prompt: the same as that of {partner.case_id}."
            return
        alike = SequenceMatcher(None, own, other, autojunk=False).ratio()
        if alike < APART:
            yield (
                "contrast_apart",
                f"prompt: {alike:.0%} of the words are those of {partner.case_id}; expected at "
                f"least {APART:.0%}.",
            )
        told, told_of_partner = ({c.description for c in one.checks} for one in (case, partner))
        if case.checks and told == told_of_partner:
            yield (
                "contrast_behaviours",
                f"expected_behaviors: the same as those of {partner.case_id}.",
            )


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


def _named(word: str | None, otherwise: str) -> str:
    return f"'{word}'" if word else otherwise


def _longest(prompt: str, text: str) -> str:
    return _short(match([prompt], [text], [0], n=FAR_N).longest_text[0])


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _MOST_SHOWN else text[: _MOST_SHOWN - 3] + "..."


class Sources:
    """Looks up truth sources below one folder, and never outside it.

    A given skill stands in for ``skills/<slug>/SKILL.md`` where there is no such file; without a
    folder nothing else is looked up.
    """

    def __init__(self, root: Path | None, skill: Skill | None = None) -> None:
        self.root = root
        self._own = {} if skill is None else {f"skills/{skill.slug}/SKILL.md": skill.text}
        self._text = cache(self._read)

    def problem(self, source: str) -> tuple[str, str] | None:
        """Return the rule that a source breaks and what was found, or None when it resolves.

        A source is ``path``, ``path:line``, ``path:first-last`` or ``path#anchor``; the rule is
        ``truth_source``, ``truth_outside`` or ``not_checked``.
        """
        if _ELSEWHERE.match(source):
            return "not_checked", f"truth_sources: '{source}' is an address; it was not looked up."
        parts = _PARTS.fullmatch(source.strip())
        path = parts["path"].replace("\\", "/") if parts else ""
        away = path.startswith(("/", "~")) or _DRIVE.match(path)
        if not path or not path.isprintable() or (":" in path and not away):
            return "truth_source", (
                f"truth_sources: found '{source}'; allowed: path, path:line, path:first-last, "
                "path#anchor."
            )
        assert parts is not None
        if away or ".." in PurePosixPath(path).parts:
            return "truth_outside", (
                f"truth_sources: '{source}' leads out of the folder; allowed: relative paths "
                "without '..'."
            )
        try:
            text = self._text(path)
        except SuiteError as cause:
            told = str(cause).removeprefix(f"{(self.root or Path()) / path}: ")
            rule = "truth_outside" if "leads out of" in told else "truth_source"
            return rule, f"truth_sources: '{source}': {told}"
        if text is None:
            return "not_checked", (
                f"truth_sources: '{source}' was not looked up: no folder is known; give root=."
            )
        first, last, anchor = parts["first"], parts["last"], parts["anchor"]
        if anchor is not None and (lines := _LINES.fullmatch(anchor)):
            (first, last), anchor = lines.groups(), None
        found = _lines(text, first, last) or _anchor(text, path, anchor)
        return ("truth_source", f"truth_sources: '{source}': {found}") if found else None

    def _read(self, path: str) -> str | None:
        """Return the text of a file, None when there is nowhere to look."""
        own = self._own.get(path)
        if self.root is None or (own is not None and not exists(self.root / path)):
            return own
        how: Any = {"root": self.root, "max_bytes": MAX_BYTES, "what": "source"}
        data = read_bytes(self.root / path, error=SuiteError, **how)
        return decode(data, self.root / path, SuiteError)


def _lines(text: str, first: str | None, last: str | None) -> str | None:
    if first is None:
        return None
    begin, end, there = int(first), int(last or first), len(text.splitlines())
    if not 1 <= begin <= end:
        return f"lines {begin}-{end} are no range; allowed: first <= last, counted from 1."
    return f"there is no line {end}; the file has {there} lines." if end > there else None


@lru_cache(maxsize=64)
def _anchors(text: str) -> tuple[str, ...]:
    return tuple(section.anchor for section in sections_of(text))


def _anchor(text: str, path: str, anchor: str | None) -> str | None:
    if anchor is None:
        return None
    if not path.lower().endswith(_MARKDOWN):
        return f"'#{anchor}' asks for a heading; only Markdown files have headings, or use :line."
    known = _anchors(text)
    return None if anchor in known else f"there is no heading '#{anchor}'.{suggest(anchor, known)}"
