"""The severity and reason of every rule of the lint, and the rules about a skill.

Graders need the concept fields and some sections of a skill. Trigger tests need a definition of
done, a dry-run mode and similar parts.

The rules follow the source documents: the comprehension report (5.1 to 5.12) and the trigger
document's guidance for skill authors. Rules that search for words are heuristics, so a person
should judge their findings.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from skillcomp.errors import SkillError, plural, require_type, suggest
from skillcomp.io.files import as_object
from skillcomp.ngrams import split_text
from skillcomp.records import CONCEPT_FIELDS, DIMENSIONS, Skill, Suite

RuleMessages = Iterator[tuple[str, str]]  # (rule, message) of each finding


class Finding(NamedTuple):
    """One problem of a skill, a suite or a study.

    Attributes
    ----------
    rule : str
        Key of `RULES`.
    message : str
        What was found and what is allowed.
    place : str
        The case_id, or the suite or skill that the finding is about; empty for a whole file.
    case_id : str or None
        Id of the case; None for a finding about the whole suite or skill.
    file : str or None
        The file that was read.
    severity : {"error", "warning"} or None
        None for the severity of the rule.
    """

    rule: str
    message: str
    place: str = ""
    case_id: str | None = None
    file: str | None = None
    severity: str | None = None

    def in_file(self, file: Path) -> Finding:
        """Return the finding with the file that it is about, which `place` then names first."""
        return self._replace(file=str(file), place=f"{file}: {self.place}".removesuffix(": "))


_GROUNDS = "a grader must be able to look up what a case rests on"
_TRANSFER = "near and far transfer are compared dimension by dimension (report 8.2)"

_NO_NEGATIVE = "without a negative behaviour an answer that says everything passes"
_CONCEPT = "C1 to C7 are each graded against one concept field"
_SECTIONS = "C8 is graded against Verification and C9 against Do NOT Use When (report 5.9, 5.10)"

# The reason for each rule. An error makes a study useless; a warning needs the judgement of a
# person.
ERRORS = {
    # rules about a suite
    "reading": "other tools may read what deviates from the report's format differently",
    "not_mapped": "the outcome rests on fewer checks than the file has",
    "store": "every analysis refuses it, or would count it wrongly",
    "negative_none": f"{_NO_NEGATIVE} everything",
    "anti_quote_none": (
        "a grader that sees the concept field rewards quoting it unless a behaviour forbids it "
        "(report 8.4)"
    ),
    # rules about a case
    "dimension_single": (
        "a case that grades several dimensions, or none, cannot say which one failed (report 8.8)"
    ),
    "transfer_unknown": "a case that is neither near nor far is left out of both",
    "behaviours_missing": "without expected_behaviors a grader has nothing to decide (report 9.5)",
    "behaviour_id": "verdicts are joined to behaviours by their id",
    "truth_source": _GROUNDS,
    "truth_outside": "a suite from elsewhere must not reach into other files",
    "contrast_missing": "a contrast case is compared with the other case of its pair",
    "contrast_same": "a contrast pair without a difference shows nothing",
    # rules about a skill
    "front_matter": "an agent decides by name and description whether to load a skill",
    "concept_missing": _CONCEPT,
    "concept_not_text": "a concept field is shown to the grader as text",
    "section_missing": _SECTIONS,
    # rules about skills and prompts for trigger tests (`check --evals`)
    "skill_none": "prompts for a skill that is not there test nothing",
    "slug_twice": "an agent that is offered two skills of one name loads either",
    "link_missing": "an agent that follows the link finds nothing",
    "link_outside": "a skill is installed with its own folder and nothing else",
}
_WARNINGS = {
    # rules about a suite
    "kept": "no analysis uses it",
    "other_word": "other published files use the word, the report does not",
    "fields_missing": "the report's format has it; no analysis uses it",
    "tasks_number": "a task suite holds five to ten tasks that cover the skill's core",
    "tasks_rubric": (
        "a judge that runs no model is free and says the same each time; a rubric is for what "
        "words and tests cannot tell"
    ),
    "answer_in_process": (
        "an answer that is executed in the process of its test can read the test and forge the "
        "result; execute it in a process of its own, as subprocess.run([sys.executable, path]) does"
    ),
    "cases_few": "fewer than seven cases say little about a skill (report 6.3)",
    "dimensions_missing": (
        "a dimension without a case is not measured, and the verdict on a skill needs all nine "
        "(report 5.11)"
    ),
    "c2_few": "C2 is the hardest and most informative dimension (report 5.3)",
    "c1_roles": "outsiders of different roles need different explanations (report 4.1.4, 5.2)",
    "far_missing": _TRANSFER,
    "primitive_none": (
        "an answer in empty general words passes where no behaviour asks for a primitive of the "
        "mental model (report 8.4)"
    ),
    "not_checked": "what was not checked is unknown, not free of faults",
    # rules about a case
    "transfer_missing": _TRANSFER,
    "far_overlap": (
        "a far prompt that shares a run of words with the skill can be answered by looking it up "
        "(report 7.4)"
    ),
    "negative_missing": _NO_NEGATIVE,
    "anti_quote_missing": (
        "a definition that copies the skill shows retrieval and not understanding (report 5.2)"
    ),
    "primitive_missing": (
        "this dimension is passed by reasoning with the primitives of the mental model (report "
        "5.3, 5.8, 8.4)"
    ),
    "leak": "a prompt that contains its answer tests repetition (report 4.2.4)",
    "truth_missing": _GROUNDS,
    "contrast_behaviours": "the difference of a contrast pair should change the right answer",
    "many_skills": (
        "a prompt for several skills cannot say which one helped; it belongs to a routing suite "
        "(report 8.8)"
    ),
    # rules about a skill
    "concept_none": _CONCEPT,
    "concept_in_body": (
        "a body with the shape of a concept is a candidate for a concept block (report B.5)"
    ),
    "concept_shared": (
        "concept blocks that share their wording are written for the rubric (report 8.5)"
    ),
    "section_missing_no_concept": _SECTIONS,
    "verification_short": "C8 asks for at least three items of the checklist",
    # rules about skills and prompts for trigger tests (`check --evals`)
    "evals_none": "only trigger prompts show whether a skill fires when it should",
    "kind_none": "explicit, implicit and negative prompts ask three different questions",
    "description_twice": "an agent chooses by the description",
    "prompt_twice": "a repeated prompt adds no evidence",
    "done_none": "without a definition of done a grader cannot tell when it is reached",
    "dry_run_none": "a skill that can answer with its steps can be tested at no risk",
    "not_when_none": "negative prompts need to be told from those that are meant",
    "unbounded": "a workflow without an end runs into every limit",
    "download": "a heavy download that a test cannot skip makes it slow and flaky",
}
RULES = ERRORS | _WARNINGS


def findings_frame(findings: Iterable[Finding]) -> pd.DataFrame:
    """Return a frame with one row per finding, in order, with the severity and reason of its rule.

    A warning needs the judgement of a person, because the rule is a heuristic or because the
    comprehension report (the source of the rules) allows what the rule flags.
    """
    columns = ["place", "rule", "severity", "message", "reason", "case_id", "file"]
    rows = []
    for finding in findings:
        severity = finding.severity or ("error" if finding.rule in ERRORS else "warning")
        rows.append(finding._asdict() | {"severity": severity, "reason": RULES[finding.rule]})
    # Arrow, the default storage of text in pandas, refuses file names that are not UTF-8
    return pd.DataFrame(rows, columns=columns, dtype=pd.StringDtype("python", na_value=math.nan))


MOST = 20  # maximum number of links, and of downloads, that are checked in a file
SECTIONS = {"Verification": "C8", "Do NOT Use When": "C9"}
# Dimension C8 needs at least this many items in ``Verification`` (comprehension report, 5.9).
ITEMS = 3
_ITEM = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+\S", re.MULTILINE)
_ROW = re.compile(r"^\s*\|(?!\s*:?-+).*\|\s*$", re.MULTILINE)
_HEAD = re.compile(
    r"(?:[-*+]\s+|\(?\d+[.)]\s+)?[*_`\"']*([A-Za-z][\w /'-]{1,40}?)[*_`\"']*"
    r"\s*(?::|—|–|\s-\s|=)\s*\S"
)
_BOLD = re.compile(r"\*\*([A-Za-z][\w /'-]{1,40})\*\*")
_CODE = re.compile(r"`([A-Za-z][\w /'-]{1,40})`")
_DONE = re.compile(
    r"definition of done|\bdone (?:when|if|means)\b|acceptance criteria|success criteria"
    r"|^#{1,6} .*\b(?:verification|verify|done|exit criteria)\b",
    re.IGNORECASE | re.MULTILINE,
)
_DRY = re.compile(r"dry[- ]?run|without (?:executing|running) (?:anything|it|them|commands?)", re.I)
_NOT_WHEN = re.compile(
    r"when not to use|(?:do not|don't|never|not) use (?:it |this |this skill )?(?:when|for|if|to)\b"
    r"|not (?:meant|intended|suited) for|out of scope",
    re.IGNORECASE,
)
_UNBOUNDED = re.compile(r"\bdo everything\b", re.IGNORECASE)
_DOWNLOAD = re.compile(
    r"\bgit clone\b[^\n`]*|\b(?:wget|aria2c)\b +\S[^\n`]*"
    r"|\bcurl\b[^\n`]{0,300}?\s-(?:o|O|LO|fsSLO)\b[^\n`]*"
    r"|\bdocker pull\b[^\n`]*|\bhuggingface-cli download\b[^\n`]*",
)
_OPTIONAL = re.compile(r"\boptional|\bonly if\b|\bif (?:you )?need|\bskip\b", re.IGNORECASE)
_REFERENCES = ".references/"  # the folder in which the trigger document expects large downloads

# Match headings that belong in a concept block (comprehension report, B.5).
_CONCEPT_HEADING = re.compile(
    r"coverage|philosophy|definition|mental model|primitives|purpose|boundar(?:y|ies)|taxonomy"
    r"|analog(?:y|ies)|(?:common )?misconceptions?",
    re.IGNORECASE,
)
# A skill without a concept block is reported if it has at least this many headings of such a block.
FEWEST_HEADINGS = 3
COPIED = 6  # Two concept blocks must not share a run of this many content tokens.
# Match the first or the last line of a code block.
_FENCE = re.compile(r"^ {0,3}(?:`{3,}|~{3,})", re.MULTILINE)


def lint_skill(skill: Skill, suites: Iterable[Suite] = ()) -> pd.DataFrame:
    """List the parts that are missing from a skill and needed to grade its comprehension.

    Parameters
    ----------
    skill : Skill
        The skill, as read from its SKILL.md.
    suites : iterable of Suite
        Suites of the skill. If a skill need not have a concept block (see Notes), a missing block
        or section is reported only if a case of these suites needs it.

    Returns
    -------
    pandas.DataFrame
        One row per finding, with the columns of :func:`skillcomp.lint.lint_suite`; ``case_id`` and
        ``file`` are missing. No rows for a skill without findings.

    Raises
    ------
    SkillError
        If `skill` is not a Skill but, for example, a path.

    See Also
    --------
    skillcomp.lint.lint_path : The findings about a file, a study or a folder of skills.

    Notes
    -----
    An empty name or description is an error. If the skill has a concept block or its
    ``comprehension_state`` is ``present``, two more things are errors: a concept field that is
    missing, empty or not text, and a section ``Verification`` or ``Do NOT Use When`` that is
    missing or empty. For all other skills, a missing block or section is only a warning, and it
    depends on the cases of `suites`: the block is reported if a case has a dimension from C1 to C7
    or a concept field; a section is reported if a case has the dimension that is graded against it
    (C8 or C9).

    Two more findings are warnings: a section ``Verification`` with fewer than three items, and a
    skill without a concept block but with three headings that belong in one (such as ``Coverage``,
    ``Philosophy``, ``Misconceptions``).

    Examples
    --------
    >>> from skillcomp.records import Case, Skill, Suite
    >>> skill = Skill(slug="tea", name="tea", description="Brewing.")
    >>> case = Case(case_id="tea/1", prompt="What is it?", comprehension_dimension="C1")
    >>> findings = lint_skill(skill, [Suite(slug="tea", skill="tea", cases=(case,))])
    >>> findings["rule"].tolist()
    ['concept_none']

    Without a suite, no case needs a concept block:

    >>> len(lint_skill(skill))
    0
    """
    require_type("lint_skill: skill", skill, Skill, "sc.read_skill(path)", SkillError)
    return findings_frame(skill_findings(skill, suites))


def skill_findings(skill: Skill, suites: Iterable[Suite] = ()) -> list[Finding]:
    """Return the findings of `lint_skill` as records."""
    block = skill.metadata.get("concept")
    entries = as_object(block)
    expected = bool(skill.concept) or block is not None
    expected |= skill.metadata.get("comprehension_state") == "present"
    messages = [
        ("front_matter", f"front matter: '{key}' is missing or empty.")
        for key in ("name", "description")
        if not getattr(skill, key).strip()
    ]
    cases = [case for suite in suites if suite.skill == skill.slug for case in suite.cases]
    tested = {case.comprehension_dimension for case in cases} & {*DIMENSIONS}
    if expected:
        absent = [name for name in CONCEPT_FIELDS if name not in skill.concept]
        not_text = [name for name in absent if not isinstance(entries.get(name), str | None)]
        if missing := [name for name in absent if name not in not_text]:
            message = f"concept: missing or empty: {', '.join(missing)}."
            messages.append(("concept_missing", message))
        for name in not_text:
            message = f"concept.{name}: found a {type(entries[name]).__name__}; expected text."
            messages.append(("concept_not_text", message))
        for name in (str(name) for name in entries if name not in CONCEPT_FIELDS):
            hint = suggest(name, CONCEPT_FIELDS)
            message = f"concept.{name}: not one of the seven concept fields.{hint}"
            messages.append(("reading", message))
    elif tested - {*SECTIONS.values()} or any(case.concept_field for case in cases):
        message = f"concept: there is none; expected {', '.join(CONCEPT_FIELDS)}."
        messages.append(("concept_none", message))
    if not expected:
        titles = [s.title for s in skill.sections if _CONCEPT_HEADING.fullmatch(s.title.strip())]
        if len(titles) >= FEWEST_HEADINGS:
            message = f"concept: there is none, but the body has sections {', '.join(titles)}."
            messages.append(("concept_in_body", message))
    rule = "section_missing" + "_no_concept" * (not expected)
    messages += _section_messages(skill, rule, set(SECTIONS.values()) if expected else tested)
    return [Finding(*message, f"skill {skill.slug}") for message in messages]


def shared_concepts(skills: Iterable[Skill]) -> dict[str, Finding]:
    """Return a finding for each skill that repeats words of an earlier skill's concept block.

    The keys of the result are the slugs of these skills.
    """
    first: dict[tuple[str, ...], str] = {}
    findings = {}
    for skill in skills:
        for name, text in skill.concept.items():
            words = split_text(text)
            for gram in zip(*(words[i:] for i in range(COPIED)), strict=False):
                other = first.setdefault(gram, skill.slug)
                if other != skill.slug and skill.slug not in findings:
                    message = f"concept.{name}: shares '{' '.join(gram)}' with skill '{other}'."
                    findings[skill.slug] = Finding("concept_shared", message, f"skill {skill.slug}")
    return findings


def _section_messages(skill: Skill, rule: str, dimensions: Collection[str | None]) -> RuleMessages:
    sections = {" ".join(s.title.lower().split()): s for s in skill.sections}
    for title, dimension in SECTIONS.items():
        if dimension not in dimensions:
            continue
        section = sections.get(title.lower())
        if section is None:
            hint = suggest(title, [s.title for s in skill.sections])
            message = f"sections: there is no '## {title}', which {dimension} is graded against."
            yield rule, message + hint
            continue
        place = f"line {section.line}"
        # the text of the section with its subsections
        after = [s for s in skill.sections if s.line > section.line]
        ends = (at for at, s in enumerate(after) if s.level <= section.level)
        text = "\n".join(s.text for s in (section, *after[: next(ends, None)]))
        n = len(_ITEM.findall(text)) + max(len(_ROW.findall(text)) - 1, 0)
        if not text.strip():
            yield rule, f"{place}: the section '{section.title}' is empty."
        elif title == "Verification" and n < ITEMS:
            message = f"{place}: '{section.title}' has {plural(n, 'item')}; expected at least "
            yield "verification_short", f"{message}{ITEMS}."


def primitives(mental_model: str) -> tuple[str, ...]:
    r"""Return the primitives (basic terms) that a mental model names, in order and without repeats.

    A primitive is the head of a line (``Name: what it is``). If no line has a head, the primitives
    are the words in bold or, if there are none either, the code spans. If lines have heads, bold
    words and code are taken to be examples.

    Examples
    --------
    >>> primitives("Claim: a statement, such as `any`.\n- **Escape hatch**: a way out.")
    ('Claim', 'Escape hatch')
    """
    heads = [m[1] for line in mental_model.splitlines() if (m := _HEAD.match(line.strip()))]
    for marked in (heads, _BOLD.findall(mental_model), _CODE.findall(mental_model)):
        names = dict.fromkeys(name for name in marked if "primitive" not in name.lower())
        if names:
            return tuple(names)
    return ()


def untestable_messages(skill: Skill) -> RuleMessages:
    """Yield the rule and the message of everything that makes a skill hard to test.

    These rules of the trigger document belong to ``skillcomp check --evals``: no definition of done
    although the skill shows commands or files; no dry-run mode; no text on when not to use it; an
    instruction to "do everything"; downloads that are not called optional. All findings are
    warnings. The rules search for words, so a skill that follows a rule in other words is flagged,
    too.

    Examples
    --------
    >>> from skillcomp.records import Skill
    >>> bare = Skill(slug="tea", name="tea", description="Brews.", body="Boil. Do everything.")
    >>> [rule for rule, message in untestable_messages(bare)]
    ['dry_run_none', 'not_when_none', 'unbounded']
    """
    body = skill.body
    if _FENCE.search(body) and not _DONE.search(body):
        yield "done_none", "commands or files are shown, and nothing says when the work is done."
    if not _DRY.search(body):
        yield "dry_run_none", "nothing says how to answer with steps only, without doing them."
    if not _NOT_WHEN.search(f"{skill.description}\n{body}"):
        yield "not_when_none", "neither description nor body says when not to use it."
    if match := _UNBOUNDED.search(body):
        phrase = match[0].lower()
        yield "unbounded", f"line {line_with(skill, phrase)}: '{phrase}'; expected an end."
    parts = (part for part in re.split(r"\n(?=#{1,6} )", body) if not _OPTIONAL.search(part))
    downloads = (match[0].strip() for part in parts for match in _DOWNLOAD.finditer(part))
    for text in first_distinct(text for text in downloads if _REFERENCES not in text):
        yield "download", f"line {line_with(skill, text)}: '{text:.80}' is not called optional."


def first_distinct(texts: Iterable[str]) -> list[str]:
    """Return the distinct texts in order, at most `MOST` of them."""
    return list(islice(dict.fromkeys(texts), MOST))


def line_with(skill: Skill, text: str) -> int:
    """Return the number of the first line of a SKILL.md that contains `text`; 1 if none does."""
    whole = (skill.text or skill.body).lower()
    return whole.count("\n", 0, max(whole.find(text.lower()), 0)) + 1
