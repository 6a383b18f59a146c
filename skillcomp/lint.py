"""The lint of skills, suites and studies: findings with their place and the reason of their rule.

A lint reads files; it changes nothing, calls no model and runs no program, so it is safe for CI.
`skillcomp check` prints its findings. It finds faults that weaken a suite or spoil its
measurements, before money is spent, and parts that are missing from a skill: graders need its
concept fields and some of its sections, and trigger tests need a definition of done, a dry-run mode
and similar parts. Test files of task suites are searched for code that executes an answer in the
test's own process.

The rules follow the source documents: the comprehension report (5.1 to 5.12, 7.4, 8.2, 8.4, 8.8)
and the trigger document's guidance for skill authors. Rules that search for words are heuristics,
so a person should judge their findings.
"""

from __future__ import annotations

import ast
import math
import posixpath
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache, partial
from itertools import islice
from os import PathLike
from os.path import exists, isdir, isfile, realpath
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import unquote
from warnings import catch_warnings

import pandas as pd

from skillcomp import frames
from skillcomp.errors import (
    SkillcompError,
    SkillError,
    StoreError,
    StudyError,
    SuiteError,
    literal,
    plural,
    require_type,
    suggest,
)
from skillcomp.frames.check import empty
from skillcomp.grading_rules import forbids_copying
from skillcomp.io.files import (
    as_object,
    as_path,
    checked_slug,
    decode,
    files_below,
    read_bytes,
    read_own,
    read_yaml,
)
from skillcomp.io.journal import has_manifest, is_store
from skillcomp.io.skills import FILE_NAME, read_skill, sections_of, tree_of
from skillcomp.io.store import RunStore
from skillcomp.io.suites import holds_suite, read_suite
from skillcomp.io.task_suites import FIXTURES, is_task_suite, suite_files, task_files
from skillcomp.io.trigger_suites import (
    CONTROL,
    KEPT,
    KINDS,
    NOT_MAPPED,
    PLACES,
    prompts_by_skill,
    suites_of_skill,
)
from skillcomp.io.trigger_suites import FILE as PROMPTS
from skillcomp.ngrams import grams, match, shared_ngrams, split_text
from skillcomp.overlap import case_distance
from skillcomp.records import (
    CONCEPT_FIELDS,
    DIMENSIONS,
    RUBRIC,
    Case,
    Check,
    Skill,
    Suite,
    dimension_family,
)
from skillcomp.removed_names import raise_missing_name

__all__ = ["lint_path", "lint_skill", "lint_suite"]

__dir__ = __all__.copy  # so that dir() lists the public names
__getattr__ = raise_missing_name(__name__)

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
            for gram in grams(split_text(text), COPIED):
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


FEWEST = 7  # A suite should have at least this many cases (comprehension report, 6.3).
TASKS = (5, 10)  # Fewest and most tasks that the format of task suites advises.
# The prompt of a far case must not share a run of this many content tokens with its skill
# (comprehension report, 7.4, rule R4).
FAR_N = 4
# A shared run of this many content tokens counts as a leak. In the 84 prompts of the pilot, runs of
# 4 tokens give no false alarm; runs of 3 would flag mere names.
LEAK_N = 4
# The pass criteria of these dimensions mention the primitives of the mental model (comprehension
# report, 5.3 and 5.8).
WITH_PRIMITIVES = ("C2", "C7")

_BEHAVIOURS = "expected_behaviors"
_FIELD_OF = dict(zip(DIMENSIONS, CONCEPT_FIELDS, strict=False))
_SMALL = frozenset(["the", "and", "for", "not", "its", "that", "this", "with", "from"])
_ENDING = re.compile(r"(?:ies|ing|ed|es|s|y|e)$")
_MOST_SHOWN = 80  # Maximum number of characters that a finding quotes.
MAX_BYTES = 1 << 22  # Maximum size of a truth source in bytes; people should be able to read it.
_PARTS = re.compile(
    r"(?P<path>[^#]*?)(?::(?P<first>\d{1,9})(?:-(?P<last>\d{1,9}))?)?(?:#(?P<anchor>.*))?"
)
_LINES = re.compile(r"L(\d{1,9})(?:-L?(\d{1,9}))?")
_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)
_DRIVE = re.compile(r"[A-Za-z]:")
_MARKDOWN = (".md", ".markdown")
# A suite should have at least this many cases of dimension C2 (comprehension report, 5.3).
FEWEST_C2 = 3
SKILLS = 3  # A prompt with this many names of skills asks for several skills at once.

# Match the role of the listener in a prompt such as "Explain it to a product manager."
_ROLE = re.compile(
    r"\b(?:to|for) (?:an?|the|your|my|our) ([\w' -]{3,40}?)(?=[^\w' -]|\s(?:who|that)\b|$)", re.I
)


def lint_suite(
    suite: Suite, skill: Skill | None = None, *, root: str | PathLike[str] | None = None
) -> pd.DataFrame:
    """List the faults that weaken a suite or spoil its measurements.

    Parameters
    ----------
    suite : Suite
        The suite.
    skill : Skill, optional
        The suite's skill. Without it, three things are not checked: far prompts, primitives, and
        leaks of the concept field. A finding then says so.
    root : path, optional
        The folder to which `truth_sources` are relative. By default it is the parent of the
        suite's folder if this parent contains ``skills``, else the suite's folder. If the suite has
        no file, only sources in the skill are looked up. Nothing outside the folder is ever read.

    Returns
    -------
    pandas.DataFrame
        One row per finding: first those about the whole suite, then case by case in file order. No
        rows for a suite without findings. All columns are text.

        - ``place``: the case_id, or the suite.
        - ``rule``: the rule that was broken.
        - ``severity``: ``error`` or ``warning``.
        - ``message``: what was found and what is allowed.
        - ``reason``: why it matters.
        - ``case_id``: the case; missing for a finding about the whole suite.
        - ``file``: missing here; :func:`skillcomp.lint.lint_path` names the file.

    Raises
    ------
    SuiteError
        If `suite` is not a Suite (but, for example, a path), or `skill` is not its skill.

    See Also
    --------
    lint_skill : The findings about a SKILL.md.

    Notes
    -----
    A task suite is checked for its number of tasks (five to ten) and for the share of tasks that
    a model scores (at most half). All other rules of this function concern comprehension. Suites of
    other tools are not checked here; `lint_path` lists the problems found while reading them.

    A suite may name its own dimensions instead of C1 to C9; then C1 to C9 are not expected.

    Errors spoil the measurements: a case with no or several dimensions; a case without behaviours;
    duplicate behaviour ids; no negative behaviour or no anti-quote behaviour in the whole suite;
    truth sources that do not resolve; a ``contrast_of`` that names a missing case, or a case with
    the same prompt or behaviours.

    Gaps in a suite are warnings, which ``skillcomp check`` shows as advice: fewer than seven cases;
    a dimension of C1 to C9 without a case; one or two cases of C2; two or more prompts of
    C1 that name the same role for the explanation, or no role; a dimension of C1 to C7 without a
    far case; missing fields of the format in the comprehension report.

    If no case of a suite has one of the keys comprehension_dimension, concept_field, transfer and
    expected_behaviors, the suite has the older format, which remains valid: its only errors are
    truth sources that do not resolve.

    Other warnings are heuristics, so a person should judge them. A prompt should name fewer than
    three skills (the suite's skill, its ``adjacent_concepts``, or a ``$name``). Texts are compared
    by the content tokens of the comprehension report (A.3): a far prompt should share no run of
    four tokens with the skill (R4), and no prompt should share such a run with its expected
    reasoning, positive behaviours or concept field. A shared run can be a mere name, and a leak in
    other words is not detected. Primitives are the basic terms of the mental model (``Name: what it
    is``, bold or code). The behaviours of C2 and C7 are searched for the word stems of the
    primitives; a behaviour that asks for a primitive in other words is not recognized.

    Examples
    --------
    >>> from skillcomp.records import Case, Check, Suite
    >>> case = Case(case_id="tea/1", prompt="What is it?", comprehension_dimension="C1")
    >>> findings = lint_suite(Suite(slug="tea", skill="tea", cases=(case,)))
    >>> findings.loc[findings["case_id"].eq("tea/1"), "rule"].tolist()
    ['transfer_missing', 'behaviours_missing', 'truth_missing']
    """
    require_type("lint_suite: suite", suite, Suite, "sc.read_suite(path)", SuiteError)
    if skill is not None:
        require_type("lint_suite: skill", skill, Skill, "sc.read_skill(path)", SuiteError)
    return findings_frame(suite_findings(suite, skill, root=root))


def suite_findings(
    suite: Suite, skill: Skill | None = None, *, root: str | PathLike[str] | None = None
) -> list[Finding]:
    """Return the findings of `lint_suite` as records."""
    if skill is not None and skill.slug != suite.skill:
        raise SuiteError(
            f"lint_suite: suite '{suite.slug}' is about the skill '{suite.skill}'; found "
            f"'{skill.slug}'."
        )
    place = f"suite {suite.slug}"
    if suite.kind == "tasks":
        return [Finding(*message, place) for message in _task_messages(suite)]
    if suite.kind != "comprehension":
        return []  # all other rules are about comprehension suites
    lint = SuiteLint(suite, skill, _sources_root(suite) if root is None else Path(root))
    findings = [Finding(*message, place) for message in lint.messages()]
    for case in suite.cases:
        messages = lint.case_messages(case)
        findings += (Finding(*message, case.case_id, case.case_id) for message in messages)
    fields = ("comprehension_dimension", "concept_field", "transfer", "checks")
    if not suite.cases or any(getattr(case, name) for case in suite.cases for name in fields):
        return findings
    # advice only: no case has a field of this package
    return [
        entry if entry.rule.startswith("truth_") else entry._replace(severity="warning")
        for entry in findings
    ]


def _task_messages(suite: Suite) -> RuleMessages:
    n_tasks, (low, high) = len(suite.cases), TASKS
    if not low <= n_tasks <= high:
        yield "tasks_number", f"{plural(n_tasks, 'task')}; advised are {low} to {high}."
    kinds = [check.judge.type for case in suite.cases for check in case.checks if check.judge]
    n_rubrics = kinds.count("llm-rubric")
    if 2 * n_rubrics > n_tasks:
        message = (
            f"{n_rubrics} of {n_tasks} tasks are scored by a model; prefer contains or pytest "
        )
        yield "tasks_rubric", message + "where words or structure tell a good answer."


def _sources_root(suite: Suite) -> Path | None:
    file = Path(suite.path)
    if not suite.path or not isfile(file):
        return None
    above = file.resolve().parent.parent
    return above if (above / "skills").is_dir() else file.resolve().parent


def _word_stems(text: str) -> set[str]:
    return {_ENDING.sub("", word) for word in {*re.findall(r"[a-z]{3,}", text.lower())} - _SMALL}


class SuiteLint:
    """The rules for a comprehension suite and for its cases.

    Attributes
    ----------
    suite : Suite
        The suite.
    skill : Skill or None
        The suite's skill, if known.
    root : Path or None
        The folder below which truth sources are looked up.
    covered, family : collection of str
        The dimensions of the cases (None for a case without one), and those of a full suite.
    names : tuple of str
        Primitives (basic terms) of the skill's mental model.
    distinctive : tuple of str
        Primitives of which a behaviour must name at least one. These are the `names` that are not
        words of the skill's own name, or all `names` if none are left.
    text : str
        The skill's text, with which prompts are compared.
    """

    def __init__(self, suite: Suite, skill: Skill | None, root: Path | None) -> None:
        self.suite, self.skill, self.root = suite, skill, root
        self._source_text = cache(self._read_source)
        self.covered = {case.comprehension_dimension for case in suite.cases}
        self.family = dimension_family(self.covered)
        concept = skill.concept if skill else {}
        self.names = primitives(concept.get("mental_model", ""))
        # Many behaviours contain the name of the skill. If a primitive is a word of this name, its
        # occurrence does not show that a behaviour asks for the primitive.
        own = _word_stems(f"{skill.name} {skill.slug}".replace("-", " ")) if skill else set()
        distinctive = (name for name in self.names if " " in name or not _word_stems(name) <= own)
        self.distinctive = tuple(distinctive) or self.names
        self.text = ""
        if skill:
            self.text = skill.text or "\n\n".join([skill.body, *concept.values()])

    def messages(self) -> RuleMessages:
        """Yield rule and message of each finding about the whole suite."""
        yield from self._check_coverage()
        checks = [check for case in self.suite.cases for check in case.checks]
        yield from self._check_kinds(checks)
        yield from self._check_knowledge()

    def case_messages(self, case: Case) -> RuleMessages:
        """Yield rule and message of each finding about a case."""
        yield from self._check_dimension(case)
        yield from self._check_prompt(case)
        yield from self._check_behaviours(case)
        yield from self._check_leaks(case)
        yield from self._check_references(case)

    def _check_coverage(self) -> RuleMessages:
        cases, covered = self.suite.cases, self.covered
        if len(cases) < FEWEST:
            yield "cases_few", f"{plural(len(cases), 'case')}; expected at least {FEWEST}."
        missing = [name for name in self.family if name not in covered]
        expected = "expected one or more for each of C1 to C9."
        if covered == {None}:
            message = f"none of the {len(cases)} cases names a comprehension_dimension; {expected}"
            yield "dimensions_missing", message
        elif missing:
            titles = ", ".join(f"{name} ({RUBRIC[name][0]})" for name in missing)
            yield "dimensions_missing", f"no case for {titles}; {expected}"
        near = covered - {case.comprehension_dimension for case in cases if case.transfer == "far"}
        if lacking := [name for name in DIMENSIONS[:7] if name in near]:
            message = f"no far case for {', '.join(lacking)}; expected one for each of C1 to C7."
            yield "far_missing", message
        n_c2 = sum(case.comprehension_dimension == "C2" for case in cases)
        if 0 < n_c2 < FEWEST_C2:
            yield "c2_few", f"{plural(n_c2, 'case')} of C2; expected at least {FEWEST_C2}."
        of_c1 = (case.prompt for case in cases if case.comprehension_dimension == "C1")
        roles = [role[1].lower() if (role := _ROLE.search(text)) else "nobody" for text in of_c1]
        if len(set(roles)) < len(roles):
            distinct = ", ".join(dict.fromkeys(roles))
            message = f"the {len(roles)} prompts of C1 explain to {distinct}; expected a role for "
            yield "c1_roles", f"{message}each, such as 'to a product manager'."

    def _check_kinds(self, checks: Sequence[Check], case: Case | None = None) -> RuleMessages:
        """Yield the kinds of behaviours that a case or, without a case, the suite lacks."""
        if not checks:
            return
        level = "none" if case is None else "missing"
        none = f"{_BEHAVIOURS}: none of the {len(checks)}"
        if "negative" not in [check.check_kind for check in checks]:
            yield f"negative_{level}", f"{none} is negative."
        is_c1 = case is None or case.comprehension_dimension == "C1"
        if is_c1 and not any(map(forbids_copying, checks)):
            message = f"{none} forbids copying the skill, as no_verbatim_span does."
            yield f"anti_quote_{level}", message
        has_primitives = case is None or case.comprehension_dimension in WITH_PRIMITIVES
        if has_primitives and self._lacks_primitives(checks):
            names = ", ".join(self.names)
            message = f"{none} asks for a primitive of the mental model ({names})."
            yield f"primitive_{level}", message

    def _lacks_primitives(self, checks: Sequence[Check]) -> bool:
        for check in checks:
            words = _word_stems(f"{check.description} {check.check_id.replace('_', ' ')}")
            stems = filter(None, map(_word_stems, self.distinctive))
            if check.check_kind == "positive" and any(name <= words for name in stems):
                return False
        return bool(self.names)

    def _check_knowledge(self) -> RuleMessages:
        if self.skill is None:
            message = f"skill '{self.suite.skill}' is not at hand: far prompts, leaks of concept "
            yield "not_checked", f"{message}fields and primitives were not checked."
        elif not self.names:
            message = "the mental model names no primitives: whether behaviours ask for one "
            yield "not_checked", f"{message}was not checked."
        sources = [source for case in self.suite.cases for source in case.truth_sources]
        if n := [self._source_fault(source) for source in sources].count(None):
            message = f"{n} of {len(sources)} truth sources were not looked up: they are addresses,"
            yield "not_checked", f"{message} or no folder is known (root=)."

    def _check_dimension(self, case: Case) -> RuleMessages:
        dimension, family = case.comprehension_dimension, self.family
        if self.covered == {None}:
            return  # `_check_coverage` already reports that no case has a dimension
        if dimension not in family:
            hint = suggest(dimension.upper(), family) if dimension else ""
            value = f"'{dimension}'" if dimension else "none"
            message = f"comprehension_dimension: found {value}; allowed: "
            yield "dimension_single", f"{message}exactly one of {', '.join(family)}.{hint}"
        elif case.transfer not in ("near", "far"):
            rule = "transfer_missing" if case.transfer is None else "transfer_unknown"
            value = f"'{case.transfer}'" if case.transfer else "nothing"
            hint = suggest(case.transfer or "", ("near", "far"))
            yield rule, f"transfer: found {value}; allowed: near, far.{hint}"

    def _check_prompt(self, case: Case) -> RuleMessages:
        if case.transfer == "far" and self.text:
            about = pd.DataFrame([{"skill": "s", "case_id": case.case_id, "prompt": case.prompt}])
            with catch_warnings(action="ignore"):  # of words that are not English
                measured = case_distance(about, {"s": self.text})
            (n,), (run,) = measured["longest_run"].fillna(0), measured["longest_text"]
            if n >= FAR_N:
                message = f"transfer: tagged far, but the prompt shares '{_shortened(run)}' with "
                message += f"the skill ({n} content words); allowed: below {FAR_N}."
                yield "far_overlap", message
        # remove code, in which $ begins a variable and not the name of a skill
        text = re.sub(r"(?s)```.*?```|`[^`]*`", " ", case.prompt)
        named = {name[1:] for name in re.findall(r"\$[a-z][\w-]*", text)}
        for name in map(str.lower, (self.suite.skill, *self.suite.adjacent_concepts)):
            if re.search(rf"(?<![\w$-]){re.escape(name)}(?![\w-])", text.lower()):
                named.add(name)
        if len(named) >= SKILLS:
            listed = ", ".join(sorted(named))
            yield "many_skills", f"prompt: names {len(named)} skills ({listed}); expected one."

    def _check_behaviours(self, case: Case) -> RuleMessages:
        if not case.checks and case.comprehension_dimension is not None:
            message = f"{_BEHAVIOURS}: found none; required where comprehension_dimension is set."
            yield "behaviours_missing", message
        for check_id, n in Counter(check.check_id for check in case.checks).items():
            if n > 1:
                message = f"{_BEHAVIOURS}: the id '{check_id}' stands {n} times; allowed: once."
                yield "behaviour_id", message
        yield from self._check_kinds(case.checks, case)

    def _check_leaks(self, case: Case) -> RuleMessages:
        # Compare the prompt only with positive behaviours. A negative behaviour may name the wrong
        # answer that the prompt suggests.
        answers = [("expected_reasoning", case.expected_reasoning or "")]
        answers += [(c.check_id, c.description) for c in case.checks if c.check_kind == "positive"]
        field_name = case.concept_field or _FIELD_OF.get(case.comprehension_dimension or "", "")
        # A prompt may share words with the misconception, because a prompt of dimension C7 must
        # state it (comprehension report, 5.8). Far prompts have a rule of their own.
        if self.skill and field_name not in ("", "misconception") and case.transfer != "far":
            answers.append((f"concept.{field_name}", self.skill.concept.get(field_name, "")))
        for place, answer in answers:
            if shared_ngrams(case.prompt, answer, n=LEAK_N):
                longest = match([case.prompt], [answer], [0], n=LEAK_N).longest_text[0]
                message = f"prompt: shares '{_shortened(longest)}' with {place}; "
                yield "leak", f"{message}allowed: no run of {LEAK_N} content words."

    def _check_references(self, case: Case) -> RuleMessages:
        if not case.truth_sources:
            yield "truth_missing", "truth_sources: found none."
        for fault in filter(None, map(self._source_fault, case.truth_sources)):
            rule = "truth_outside" if "leads out of" in fault else "truth_source"
            yield rule, f"truth_sources: {fault}"
        name = case.contrast_of
        cases = {case.case_id: case for case in self.suite.cases}
        if name is None:
            return
        if name not in cases:
            hint = suggest(name, cases)
            yield "contrast_missing", f"contrast_of: '{name}' is no case of this suite.{hint}"
        elif name == case.case_id:
            yield "contrast_missing", f"contrast_of: '{name}' is the case itself."
        elif case.prompt.split() == cases[name].prompt.split():
            yield "contrast_same", f"prompt: the same as that of {name}."
        elif case.checks and _descriptions_of(case) == _descriptions_of(cases[name]):
            yield "contrast_behaviours", f"expected_behaviors: the same as those of {name}."

    def _source_fault(self, source: str) -> str | None:
        """Return what is wrong with a truth source; empty if it resolves.

        A source is ``path``, ``path:line``, ``path:first-last`` or ``path#anchor``. The result is
        None if it is not looked up: the source is an address, or no folder is known.
        """
        if _ELSEWHERE.match(source):
            return None
        parts = _PARTS.fullmatch(source.strip())
        path = parts["path"].replace("\\", "/") if parts else ""
        away = path.startswith(("/", "~")) or _DRIVE.match(path)
        if not parts or not path or not path.isprintable() or (":" in path and not away):
            return f"found '{source}'; allowed: path, path:line, path:first-last, path#anchor."
        if away or ".." in PurePosixPath(path).parts:
            return f"'{source}' leads out of the folder; allowed: relative paths without '..'."
        try:
            text = self._source_text(path)
        except SuiteError as cause:
            reason = str(cause).removeprefix(f"{(self.root or Path()) / path}: ")
            return f"'{source}': {reason}"
        if text is None:
            return None
        first, last, anchor = parts["first"], parts["last"], parts["anchor"]
        if anchor is not None and (lines := _LINES.fullmatch(anchor)):
            (first, last), anchor = lines.groups(), None
        fault = _place_fault(text, path, first, last, anchor)
        return f"'{source}': {fault}" if fault else ""

    def _read_source(self, path: str) -> str | None:
        """Return the text of a truth source below the folder `root`, and never outside it.

        The text of the skill replaces ``skills/<slug>/SKILL.md`` if there is no such file. Without
        a `root`, this text is the only source; the result is None for all others.
        """
        skill = self.skill
        is_skill = skill is not None and path == f"skills/{skill.slug}/SKILL.md"
        file = (self.root or Path()) / path
        if self.root is None or (is_skill and not exists(file)):
            return skill.text if skill and is_skill else None
        data = read_bytes(
            file, root=self.root, max_bytes=MAX_BYTES, what="source", error=SuiteError
        )
        return decode(data, file, SuiteError)


def _descriptions_of(case: Case) -> set[str]:
    return {check.description for check in case.checks}


def _shortened(text: str) -> str:
    run = " ".join(text.split())
    return run if len(run) <= _MOST_SHOWN else run[: _MOST_SHOWN - 3] + "..."


def _place_fault(
    text: str, path: str, first: str | None, last: str | None, anchor: str | None
) -> str | None:
    """Return why a text has no such lines or no such heading; None if it has them."""
    if first is not None:
        begin, end, n_lines = int(first), int(last or first), len(text.splitlines())
        if not 1 <= begin <= end:
            return f"lines {begin}-{end} are no range; allowed: first <= last, counted from 1."
        if end > n_lines:
            return f"there is no line {end}; the file has {n_lines} lines."
    if anchor is None:
        return None
    if not path.lower().endswith(_MARKDOWN):
        return f"'#{anchor}' asks for a heading; only Markdown files have headings, or use :line."
    anchors = _heading_anchors(text)
    if anchor in anchors:
        return None
    return f"there is no heading '#{anchor}'.{suggest(anchor, anchors)}"


@lru_cache(maxsize=64)
def _heading_anchors(text: str) -> tuple[str, ...]:
    return tuple(section.anchor for section in sections_of(text))


_MAX_BYTES = 1 << 20
_FORKS = "fork forkpty execl execle execlp execlpe execv execve execvp execvpe posix_spawn"
_SPAWNS = "posix_spawnp spawnl spawnle spawnlp spawnlpe spawnv spawnve spawnvp spawnvpe"
# module -> its functions that execute or load code in the process of the test, or start a process
# that is not separated from the test
_NAMES = {
    "builtins": "exec eval __import__",
    "runpy": "run_path run_module",
    "importlib": "import_module reload",
    "importlib.util": "spec_from_file_location module_from_spec",
    "importlib.machinery": "SourceFileLoader SourcelessFileLoader",
    "code": "InteractiveInterpreter InteractiveConsole interact",
    "cProfile": "run runctx",
    "profile": "run runctx",
    "timeit": "timeit repeat Timer",
    "doctest": "testfile testmod",
    "pkgutil": "resolve_name",
    "types": "FunctionType CodeType",
    "pickle": "load loads Unpickler",
    "marshal": "load loads",
    "shelve": "open",
    "zipimport": "zipimporter",
    "ctypes": "CDLL PyDLL cdll",
    "os": f"{_FORKS} {_SPAWNS}",
    "pty": "fork spawn",
    "multiprocessing": "Process Pool get_context",
    "concurrent.futures": "ProcessPoolExecutor",
}
_CALLS = {f"{module}.{name}" for module, names in _NAMES.items() for name in names.split()}
_CALLS |= {*_NAMES["builtins"].split()}  # these names need no module


def in_process_messages(suite: Suite, folder: Path) -> RuleMessages:
    """Yield rule and message for each place that can execute the answer in the process of a test.

    A test file that never names ``AI_OUTPUT_FILE`` is searched too, because a ``conftest.py`` or a
    helper can read the variable. Files that a test imports and every ``conftest.py`` are searched
    as well. A file that is not Python is skipped; pytest reports it.
    """
    judges = (check.judge for case in suite.cases for check in case.checks)
    tests = dict.fromkeys(judge.test_file for judge in judges if judge and judge.test_file)
    files = {}
    for name in task_files(folder, FIXTURES):
        with suppress(SuiteError):  # a file that is too large is not searched
            file, what = folder / name, "test file"
            files[name] = read_own(file, what=what, error=SuiteError, max_bytes=_MAX_BYTES)
    places = dict.fromkeys(place for test in tests for place in places_in_process(files, test))
    for name, line, call in places:
        yield "answer_in_process", f"{name}, line {line}: {literal(call)[1:-1]}."


def places_in_process(files: Mapping[str, bytes], test: str) -> Iterator[tuple[str, int, str]]:
    """Yield the places at which a test, or a file it loads, executes code in its own process.

    A place is the name of a file, a line, and the call. The values of `files` are the contents of
    the test, its fixtures and its helpers, by name.
    """
    folders = set(map(str, PurePosixPath(test).parents))
    unread = dict(files)
    names = [test, *sorted(f"{folder}/conftest.py" for folder in folders)]
    for name in names:  # the list grows by the helpers that a file imports
        if name not in unread:
            continue
        try:
            # parsing can warn, for example about an invalid escape sequence
            with catch_warnings(action="ignore"):
                tree = ast.parse(unread.pop(name))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
        written = {posixpath.basename(text) for text in texts if isinstance(text, str)}
        for line, call in _calls_in_process(tree):
            yield name, line, f"{call}(...)"
        for line, _, whole in _imports(tree):
            # the name can be a module or something in a module
            for module in filter(None, (whole.rpartition(".")[0], whole)):
                place = module.replace(".", "/")
                inside = [f"{at}/{place}{end}" for at in folders for end in (".py", "/__init__.py")]
                helpers = [file for file in inside if file in files]
                names += helpers
                package = module.partition(".")[0]
                if not helpers and f"{package}.py" in written:  # the test writes the module
                    yield name, line, f"import {package}"


def _imports(tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    """Yield line, name and full name of everything that a file imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = getattr(node, "module", None)
            for alias in node.names:
                whole = f"{module}.{alias.name}" if module else alias.name
                yield node.lineno, alias.asname or alias.name, whole


def _calls_in_process(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and name of each function that can execute the answer in the test's process.

    A function is found where it is called and where it is only named, as in ``run = exec``.
    """
    full_names = {name: whole for _, name, whole in _imports(tree) if whole in {*_CALLS, *_NAMES}}
    places = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
            name = _dotted_name(node)
        elif isinstance(node, ast.Call) and _dotted_name(node.func) == "getattr" and node.args[1:]:
            place, attribute = node.args[:2]
            name = f"{_dotted_name(place)}.{getattr(attribute, 'value', '')}"
        else:
            continue
        module, _, function = name.rpartition(".")
        call = full_names.get(name, name)
        if module in full_names:
            call = f"{full_names[module]}.{function}"
        # every module loader has a method `exec_module`, so its name is enough
        if call in _CALLS or function == "exec_module":
            places.add((node.lineno, call))
    yield from sorted(places)


def _dotted_name(node: ast.expr) -> str:
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join(reversed([*parts, node.id if isinstance(node, ast.Name) else ""]))


_EVERY = {"perturbation": "all"}
# the frames of a store, each with the arguments by which it has all its rows
ALL_ROWS: Mapping[str, Mapping[str, Any]] = {
    "cases": {},
    "checks": {},
    "attempts": _EVERY,
    "verdicts": {**_EVERY, "round": "all"},
    "gold": {"labeller": "all"},
    "pairwise": {},
    "invocations": _EVERY,
}
_CASE = ["skill", "case_id"]
_VERDICT = ["attempt_id", "check_id"]
# the columns that identify a row of a table
_IDS = {
    "attempts": ["attempt_id"],
    "verdicts": _VERDICT,
    "gold": _VERDICT,
    "pairwise": ["case_id"],
}
# What a problem of a reader says, as a pattern, and its rule. The rule is empty for problems that
# the lint finds too; only the finding of the lint is listed.
_RULE_OF_PROBLEM = {
    r": expected_behaviors: the id '.*' stands \d+ times\.$"
    r"|: contrast_of: '.*' is (?:no case|the case)"
    r"|: comprehension_dimension: found |: transfer: found |^evals: the list is empty"
    r"|^front matter: '\w+' is missing|^concept: missing |^concept\.": "",
    "A word of other published files": "other_word",
    NOT_MAPPED: "not_mapped",
    KEPT: "kept",
    r"^evals\[\d+\](?: \(id .*\))?: missing [a-z_]+(?:, [a-z_]+)*\.$": "fields_missing",
    "": "reading",
}
_LOOKED = ", ".join(PLACES)
_SKIPPED = frozenset(["node_modules", "artifacts", "site-packages", "__pycache__", "dist", "build"])
_LINK = re.compile(r"\]\(<?([^)\s>]{1,500})>?(?:\s{1,9}\"[^\"]{0,300}\")?\)")
_OTHER_LINK = re.compile(r"[a-z][a-z0-9+.-]*:|#|/", re.IGNORECASE)


def lint_path(path: str | PathLike[str], *, evals: bool = False) -> pd.DataFrame:
    """List every finding at a path, as ``skillcomp check`` reports them.

    Parameters
    ----------
    path : path
        A SKILL.md or its folder, a suite (a file or folder, see `skillcomp.read_suite`), a study's
        folder, a study.yaml, or a folder of skills. A skill is checked together with its
        ``evals/evals.json`` and its set of trigger queries, if it has them. If a study.yaml
        names skills or suites, these are checked. If it names none, its store is checked.
        A suite is checked together with the skill that it names. This skill is looked up in the
        study, then at ``../skills/<skill>/SKILL.md`` and then at ``../SKILL.md``. Both paths are
        relative to the suite's folder: the suite itself or, if it is a file, the folder that
        contains the file.
    evals : bool, default False
        Whether to check all skills in the folder `path` and their trigger prompts
        (a prompts.csv or a JSON set of queries, in ``evals/skills/<slug>``, ``evals/<slug>`` or the
        folder ``evals`` of the skill). Hidden folders, recorded studies, ``artifacts`` and
        installed packages are left out.

    Returns
    -------
    pandas.DataFrame
        One row per finding, with the columns of :func:`skillcomp.lint.lint_suite`; ``file`` has a
        value in every row. The first rows of a file are its deviations from the format.

    Raises
    ------
    StudyError
        If there is nothing at the path, or nothing that can be checked.
    SkillError, SuiteError, StoreError
        If a file cannot be read at all.

    See Also
    --------
    lint_suite, lint_skill : The rules for a suite and for a skill.

    Notes
    -----
    A study is also checked for everything that an analysis refuses: rows that break the contract of
    a frame, rows that name a missing attempt, case or check, verdicts on attempts without an
    answer, and winners that are neither of the two compared attempts (rule ``store``).

    With `evals`, these are errors: broken front matter or prompts, two skills with the same slug or
    name, prompts for a missing skill, and links to files that are missing or outside the folder.
    Duplicate prompts or descriptions are warnings, and so is a skill without explicit, implicit or
    negative prompts. Five more warnings are about the text of a skill: it shows commands or files
    but no definition of done; it has no dry-run mode; it does not say when not to use the skill; it
    contains an instruction to "do everything"; it has downloads that are not called optional. These
    five rules search for words, so a person should judge their findings.

    The test files of a task suite are searched for calls that execute code in the process of the
    test (``exec``, ``eval``, ``runpy``, ``importlib``). If a test executes an answer in this way,
    the answer can forge the result. The search finds only the names of these functions and modules.

    The other keys of a study.yaml are checked by :func:`skillcomp.live.read_study`, not here.

    Examples
    --------
    >>> from skillcomp import datasets
    >>> findings = lint_path(datasets.path("pilot") / "skills" / "tidemark-reconciliation")
    >>> len(findings)
    0
    """
    place = as_path(path, "lint_path", StudyError)
    linted = [entry.findings for entry in lint_places(place, evals=evals)]
    return pd.concat(linted, ignore_index=True)


class _Read(NamedTuple):
    """The skills and suites read, and the findings on shared concepts by skill."""

    skills: Sequence[Skill]
    suites: Sequence[Suite]
    shared: Mapping[str, Finding]


class LintedPlace(NamedTuple):
    """The findings of one skill, suite, study or folder of skills.

    Attributes
    ----------
    description : str
        One line about what was read.
    findings : pandas.DataFrame
        The rows of `lint_path` for this place.
    """

    description: str
    findings: pd.DataFrame


def lint_places(path: Path, *, evals: bool = False) -> Iterator[LintedPlace]:
    """Yield a `LintedPlace` for each skill, suite or study at a path.

    With `evals`, yield a single one for the whole folder.
    """
    if evals:
        description, findings = _lint_folder(path)
        yield LintedPlace(description, findings_frame(findings))
        return
    records, stored_skills = _read_all(path)
    skills = [record for _, record in [*records, *stored_skills] if isinstance(record, Skill)]
    suites = [record for _, record in records if isinstance(record, Suite)]
    read = _Read(skills, suites, shared_concepts(skills))
    for place, record in records:
        if isinstance(record, SkillcompError) and (len(records) == 1 or is_study_file(path)):
            raise record
        description, findings = _lint_record(place, record, read)
        yield LintedPlace(description, findings_frame(findings))


def is_study_file(path: Path) -> bool:
    """Check whether a path is a YAML file that is not a task suite."""
    return path.suffix in (".yaml", ".yml") and path.is_file() and not is_task_suite(path)


def suites_at(path: Path) -> list[Suite]:
    """Return the suites at a path that `lint_path` accepts; unreadable suites are left out."""
    suites = []
    for _, record in _read_all(path)[0]:
        if isinstance(record, Suite):
            suites.append(record)
        elif isinstance(record, RunStore):
            suites += record.suites.values()
    return suites


_Records = list[tuple[Path, Any]]  # each path with what was read there, or with the error


def _read_all(path: Path) -> tuple[_Records, _Records]:
    """Read everything to lint at a path.

    The second list has the skills in the store of a study file, which are looked up for its suites.
    """
    places, stored_skills = [path], list[Path]()
    if isdir(path) and not has_manifest(path):
        skills = [path] if (path / FILE_NAME).is_file() else []
        if not (skills or holds_suite(path)):
            files = _files_below(path, FILE_NAME)
            # skip folders below evals, because a suite may have mock skills there
            skills = [f.parent for f in files if "evals" not in f.relative_to(path).parts]
        if skills:
            places = [place for skill in skills for place in (skill, *suites_of_skill(skill))]
    elif is_study_file(path):
        content, _ = read_yaml(path, what="study", error=StudyError)
        keys = {name: content.get(name, []) for name in ("skills", "suites")}
        for key, names in [*keys.items(), ("store", [content.get("store")])]:
            if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
                found = literal(names)
                raise StudyError(f"{path}: {key}: found {found}; expected a path or paths.")
        store = path.parent / content["store"]
        listed = [path.parent / name for names in keys.values() for name in names]
        places = listed or [store]
        stored_skills = sorted(store.glob("skills/*/SKILL.md"))
    return _read_each(places, _read_place), _read_each(stored_skills, read_skill)


def _read_each(files: Iterable[Path], read: Callable[[Path], Any]) -> _Records:
    """Return each file with its skill or suite, or with the error if reading fails."""
    records: _Records = []
    for file in files:
        try:
            records.append((file, read(file)))
        except SkillcompError as error:
            records.append((file, error))
    return records


def _read_place(path: Path) -> Skill | Suite | RunStore:
    """Read a skill or suite, or open a study."""
    if not exists(path):
        raise StudyError(f"check: there is nothing at {path}.")
    if has_manifest(path):
        return RunStore(path)
    if (path / FILE_NAME).is_file() or path.name == FILE_NAME:
        return read_skill(path)
    if path.suffix in (".json", ".csv") or is_task_suite(path) or holds_suite(path):
        return read_suite(path)
    raise StudyError(
        f"check: {path} is none of: a SKILL.md, a folder with one, a suite (.json, .csv, or .yaml "
        "with tasks, a folder with evals.json), a folder of skills, "
        "a study (a folder with manifest.json)."
        + (" --evals lints all skills below a folder." if path.is_dir() else "")
    )


def _lint_record(path: Path, record: Any, read: _Read) -> tuple[str, list[Finding]]:
    """Return a one-line description of what was read at a path, and the findings.

    A suite is linted together with its skill, which is one of those read,
    ``../skills/<skill>/SKILL.md`` or ``../SKILL.md``. If the skill is not found, a finding lists
    what was not checked. The advice about a skill depends on the dimensions that the cases of the
    suites read test.
    """
    if isinstance(record, SkillcompError):
        return f"'{path}'", _findings_at(path, [("reading", str(record))])
    if isinstance(record, RunStore):
        return _lint_study(path, record)
    folder = path if path.is_dir() else path.parent
    if isinstance(record, Skill):
        concept = f"{len(record.concept)} of 7 concept fields, " if record.concept else ""
        description = f"skill '{record.slug}': {concept}{plural(len(record.sections), 'section')}"
        storing = _storing_messages(record.slug, partial(tree_of, folder))
        return description, _findings_at(path, storing) + _findings_in(record, path, read)
    n, n_checks = len(record.cases), sum(len(case.checks) for case in record.cases)
    description = f"suite '{record.slug}': {plural(n, 'case')}, {plural(n_checks, 'check')}"
    if record.kind == "tasks":
        description = f"task suite '{record.slug}': {plural(n, 'task')}"
    real = path.resolve()
    above = real.parent if real.is_dir() else real.parent.parent
    near = _read_each([above / "skills" / record.skill, above], read_skill)
    read = read._replace(skills=[*read.skills, *(s for _, s in near if isinstance(s, Skill))])
    return description, _findings_in(record, path, read)


def _lint_study(path: Path, store: RunStore) -> tuple[str, list[Finding]]:
    skills, suites = list(store.skills.values()), list(store.suites.values())
    counts = {"skill": len(skills), "case": sum(len(suite.cases) for suite in suites)}
    counts |= {noun: store.table(f"{noun}s").num_rows for noun in ("attempt", "verdict")}
    description = f"study '{path.name}': {', '.join(plural(n, noun) for noun, n in counts.items())}"
    # store.problems repeats the problems of every skill and suite; leave these out, because they
    # are added below
    records: list[Skill | Suite] = [*skills, *suites]
    repeated = {f"{record.path}: {problem}" for record in records for problem in record.problems}
    own_problems = (problem for problem in store.problems if problem not in repeated)
    findings = _findings_at(path, (("reading", problem) for problem in own_problems))
    read = _Read(skills, suites, shared_concepts(skills))
    for record in records:
        name = record.path if isinstance(record, Suite) else f"skills/{record.slug}/{FILE_NAME}"
        findings += _findings_in(record, path / name, read, path)
    problems = (("store", problem) for problem in store_problems(store))
    return description, findings + _findings_at(path, problems)


def _findings_at(file: Path, messages: Iterable[Sequence[str]]) -> list[Finding]:
    return [Finding(*message).in_file(file) for message in messages]


def _storing_messages(slug: str, read: Callable[[], object]) -> RuleMessages:
    """Yield a message if a study cannot store a skill or suite, because of its slug or files."""
    try:
        checked_slug(slug, StoreError)
        read()
    except SkillcompError as error:
        yield "reading", str(error)


def _findings_in(
    record: Skill | Suite, file: Path, read: _Read, root: Path | None = None
) -> list[Finding]:
    """Return the findings about a skill or a suite, first those of its reader."""
    findings = [
        Finding(rule, problem)
        for problem in record.problems
        if (
            rule := next(
                rule for words, rule in _RULE_OF_PROBLEM.items() if re.search(words, problem)
            )
        )
    ]
    if isinstance(record, Skill):
        findings += skill_findings(record, read.suites)
        findings += filter(None, [read.shared.get(record.slug)])
    elif not record.path.endswith(".csv"):  # lint_suite has no rules for trigger suites
        skill = next((skill for skill in read.skills if skill.slug == record.skill), None)
        findings += suite_findings(record, skill, root=root)
        if record.kind == "tasks":
            folder = file if file.is_dir() else file.parent
            findings += (Finding(*message) for message in in_process_messages(record, folder))
    return [entry.in_file(file) for entry in findings]


def _lint_folder(root: Path) -> tuple[str, list[Finding]]:
    """Return a one-line description of a folder, and the findings about its skills and prompts."""
    if not isdir(root):
        raise StudyError(f"check --evals: there is no folder {root}.")
    skills = _read_each(_files_below(root, FILE_NAME), read_skill)
    tables = (f for f in _files_below(root, PROMPTS) if f.parts[-4:-2] == ("evals", "skills"))
    slugs = {file: file.parent.name for file in tables}
    for folder in dict.fromkeys([root, *(file.parent.parent for file, _ in skills)]):
        slugs = {file: slug for slug, file in prompts_by_skill(folder).items()} | slugs
    records = skills + _read_each(slugs, lambda file: read_suite(file, skill=slugs[file]))
    if not records:
        raise StudyError(
            f"check --evals: below {root} there is no {FILE_NAME} and no prompts in {_LOOKED}."
        )
    findings = []
    for file, record in records:
        findings += _findings_at(file, _messages_of_one(file, record, root))
    skills = [entry for entry in records if isinstance(entry[1], Skill)]
    suites = [entry for entry in records if isinstance(entry[1], Suite)]
    for file, *message in _messages_of_several(skills, suites):
        findings += _findings_at(file, [message])
    n_cases = sum(len(suite.cases) for _, suite in suites)
    looked = f" in {_LOOKED}" * (not n_cases)
    return (
        f"'{root}': {plural(len(skills), 'skill')}, {plural(n_cases, 'prompt')}{looked}",
        findings,
    )


def _messages_of_one(file: Path, record: Any, root: Path) -> RuleMessages:
    if isinstance(record, SkillcompError):
        yield "reading", str(record)
        return
    is_skill = isinstance(record, Skill)
    read = partial(tree_of, file.parent) if is_skill else partial(suite_files, record, file)
    yield from _storing_messages(record.slug, read)
    yield from (("reading", problem) for problem in record.problems)
    if is_skill:
        yield from untestable_messages(record)
        yield from _link_messages(record, file, root)


def _files_below(root: Path, name: str) -> Iterator[Path]:
    """Yield the files called `name` below a folder.

    Hidden folders, installed packages, recorded studies and links that lead out of the folder are
    skipped.
    """
    for file in files_below(root, name):
        parts = file.relative_to(root).parts[:-1]
        hidden = any(part.startswith(".") or part in _SKIPPED for part in parts)
        # skip copies of skills in a recorded study, because their originals are checked
        copied = any(is_store(root.joinpath(*parts[:k])) for k in range(1, len(parts)))
        if not (hidden or copied):
            yield file


def _link_messages(skill: Skill, file: Path, root: Path) -> RuleMessages:
    for name in first_distinct(link[1] for link in _LINK.finditer(skill.body)):
        target = unquote(name.partition("#")[0])
        if not target or _OTHER_LINK.match(name):
            continue
        place = file.parent / PurePosixPath(target)
        where = f"line {line_with(skill, name)}: '{name}'"
        # use realpath, because Path.resolve raises an error for a symbolic link to itself
        if "\0" not in target and not Path(realpath(place)).is_relative_to(root.resolve()):
            yield "link_outside", f"{where} leads out of {root}."
        # an invalid name, such as one that is too long, also counts as missing
        elif not exists(place):
            yield "link_missing", f"{where} is not there."


def _messages_of_several(skills: _Records, suites: _Records) -> Iterator[tuple[Any, ...]]:
    """Yield file, rule and message (and place and case_id) of findings that compare a folder.

    A skill has the slug, name or description of an earlier one, or lacks a kind of prompt; a suite
    has no skill; a prompt is that of an earlier case.
    """
    for what in ("slug", "name", "description"):
        named = ((getattr(skill, what), (file, skill)) for file, skill in skills)
        for (file, skill), (other, twin) in _repeated(named):
            if what == "description":
                yield file, "description_twice", f"the description is that of {other} as well."
            elif what == "slug" or twin.slug.casefold() != skill.slug.casefold():
                message = f"the {what} '{getattr(skill, what)}' is that of {other} as well."
                yield file, "slug_twice", message
    suite_of = {suite.skill: (place, suite) for place, suite in suites}
    slugs = {skill.slug for _, skill in skills}
    for file, skill in skills:
        if skill.slug not in suite_of:
            looked = _LOOKED.replace("SKILL", skill.slug)
            yield file, "evals_none", f"there are no prompts in {looked}."
            continue
        place, suite = suite_of[skill.slug]
        kinds = {CONTROL, *(case.prompt_kind for case in suite.cases)}
        for kind in (kind for kind in KINDS if kind not in kinds):
            yield place, "kind_none", f"no {kind} prompt among {len(suite.cases)}."
    for file, suite in suites:
        if suite.skill not in slugs:
            folder = f"no folder of this name with {FILE_NAME}"
            yield file, "skill_none", f"there is no skill '{suite.skill}' ({folder})."
    cases = ((file, case) for file, suite in suites for case in suite.cases)
    prompts = ((case.prompt, (file, case)) for file, case in cases)
    for (file, case), (_, earlier) in _repeated(prompts):
        message = f"{case.case_id}: the prompt is that of {earlier.case_id} as well."
        yield file, "prompt_twice", message, "", case.case_id


def _repeated(texts: Iterable[tuple[str, Any]]) -> Iterator[tuple[Any, Any]]:
    """Yield what has the same text as something earlier, with the earlier one.

    Texts that differ only in blanks and capitals are the same; empty texts are left out.
    """
    first: dict[str, Any] = {}
    for text, value in texts:
        words = " ".join(text.casefold().split())
        if words in first:
            yield value, first[words]
        elif words:
            first[words] = value


def store_problems(store: RunStore) -> list[str]:
    """List everything in a store that an analysis would refuse or count wrongly.

    Breaches of a frame's contract come first, in the words of the error that an analysis raises.
    Then come rows that name a missing attempt, case or check, verdicts on attempts without an
    answer, and winners that are neither of the two compared attempts. A table that breaks its
    contract is not compared with the others.
    """
    problems = []
    tables = {}
    for kind, arguments in ALL_ROWS.items():
        try:
            tables[kind] = getattr(frames, kind)(store, **arguments)
        except SkillcompError as error:
            problems.append(str(error))
    if "verdicts" in store.tables and not store.table("verdicts").num_rows:
        problems.append("verdicts: verdicts.jsonl has no rows; grade the study or remove the file.")
    if "attempts" in tables:  # else the verdicts cannot be read either
        for kind, what, rows, *compared in _faulty_rows(tables):
            if len(rows):
                row = rows.iloc[0]
                first = ", ".join(f"{name} '{row[name]}'" for name in [*_IDS[kind], *compared])
                problems.append(f"{kind}: rows {what}: {len(rows)}; the first: {first}.")
    # if the attempts are invalid, reading the verdicts raises the same error; list it once
    return list(dict.fromkeys(problems))


def _faulty_rows(tables: Mapping[str, pd.DataFrame]) -> Iterator[tuple[Any, ...]]:
    """Compare the frames that could be read; frames that could not are problems themselves.

    Yield a table, what is wrong with rows of it, these rows, and the names of compared columns,
    which a message shows after the columns that identify a row.
    """
    names = "attempts", "verdicts", "gold", "pairwise"
    attempts, verdicts, gold, pairwise = (tables.get(name, empty(name)) for name in names)
    lost = _rows_without(attempts, ["case_id"], tables.get("cases"))
    yield "attempts", "that answer a case that no suite has", lost, "case_id"
    other = _rows_without(attempts.drop(lost.index), _CASE, tables.get("cases"))
    yield "attempts", "that name another skill than their case", other, *_CASE
    copies = attempts.dropna(subset="source_attempt_id")
    orphans = _rows_without(copies, ["source_attempt_id"], attempts, ["attempt_id"])
    what = "that are copies of an attempt that is not there"
    yield "attempts", what, orphans, "source_attempt_id"
    status = verdicts["attempt_id"].map(attempts.set_index("attempt_id")["status"])
    judged = verdicts[status.notna() & status.ne("ok") & verdicts["passed"].notna()]
    yield "verdicts", "that judge an attempt whose status is not ok", judged
    keys = [verdicts["grader"], verdicts["round"].fillna(1)]
    unversioned = verdicts["grader_version"].isna()
    mixed = verdicts[unversioned & ~unversioned.groupby(keys).transform("all")]
    what = "without the grader_version that other rows of the grader have"
    yield "verdicts", what, mixed, "grader"
    lost = _rows_without(gold, ["attempt_id"], attempts)
    yield "gold", "that label an attempt that is not there", lost
    labels = gold.merge(attempts[["attempt_id", *_CASE]], on="attempt_id")
    for kind, verb, rows in (("verdicts", "judge", verdicts), ("gold", "label", labels)):
        unknown = _rows_without(rows, [*_CASE, "check_id"], tables.get("checks"))
        yield kind, f"that {verb} a check that their case does not have", unknown
    for name in ("first", "second"):
        lost = _rows_without(pairwise, [name], attempts, ["attempt_id"])
        yield "pairwise", "that compare an attempt that is not there", lost, name
    winner = pairwise["winner"]
    neither = winner.ne("tie") & winner.ne(pairwise["first"]) & winner.ne(pairwise["second"])
    what = "that name a winner that is neither of the two compared"
    yield "pairwise", what, pairwise[neither], "winner"


def _rows_without(
    rows: pd.DataFrame,
    names: list[str],
    other: pd.DataFrame | None,
    others: list[str] | None = None,
) -> pd.DataFrame:
    """Return the rows whose values in `names` no row of `other` has (there, in `others`).

    Return no rows if `other` could not be read.
    """
    if other is None:
        return rows[:0]
    present = pd.MultiIndex.from_frame(other[others or names])
    return rows[~pd.MultiIndex.from_frame(rows[names]).isin(present)]
