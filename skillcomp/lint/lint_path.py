"""Before money is spent: what in a suite or a skill would make a study say less than it seems to.

The rules are those of the source report (5.1 to 5.12, 7.4, 8.2, 8.4, 8.8); each finding carries
its case, severity and reason. A lint reads; it changes nothing and calls no model.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from os import PathLike
from os.path import exists, isdir, isfile
from pathlib import Path
from typing import Any

from skillcomp.errors import SkillError, StudyError, SuiteError, plural, suggest
from skillcomp.io.skills import read_skill
from skillcomp.io.store import RunStore
from skillcomp.io.suites import read_suite
from skillcomp.io.task_suites import is_task_suite
from skillcomp.io.trigger_suites import FILE as PROMPTS
from skillcomp.lint.lint_skill import lint_evals
from skillcomp.lint.lint_suite import (
    RULES,
    CaseLint,
    Finding,
    Said,
    Sources,
    asks_for,
    finding,
    forbids_copying,
    primitives,
)
from skillcomp.records import (
    CONCEPT_FIELDS,
    DIMENSIONS,
    RUBRIC,
    Case,
    Section,
    Skill,
    Suite,
    dimension_family,
)

__all__ = ["RULES", "Finding", "Found", "inspect", "inspect_evals", "lint_skill", "lint_suite"]

FEWEST = 7  # cases of a skill (report 6.3)
TASKS = (5, 10)  # of a task suite, as its format asks for
CONCEPT_DIMENSIONS = DIMENSIONS[:7]
NEAR_IN_REPORT = ("C1", "C3", "C4")  # the report's own example has no far case for these (6.3)
# Words; the fields of the pilot's skills have 36 to 120, those of the report's two examples fill
# 115 lines of front matter.
SHORTEST, LONGEST = 8, 400
SECTIONS = {"Verification": "C8", "Do NOT Use When": "C9"}
ITEMS = 3  # C8 asks for at least three items of the checklist (report 5.9)
_ITEM = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+\S", re.MULTILINE)
_ROW = re.compile(r"^\s*\|(?!\s*:?-+).*\|\s*$", re.MULTILINE)
# Problems the readers note that the lint reports itself, so they are not shown twice
_SAID = re.compile(
    r": expected_behaviors: the id '.*' stands \d+ times\.$"
    r"|: contrast_of: '.*' is (?:no case|the case)"
    r"|: comprehension_dimension: found |: transfer: found |^evals: the list is empty"
    r"|^front matter: '\w+' is missing|^concept: missing |^concept\."
)
_OTHER_WORD = "A word of other published files"
_FIELDS = re.compile(r"^evals\[\d+\](?: \(id .*\))?: missing [a-z_]+(?:, [a-z_]+)*\.$")


def lint_suite(
    suite: Suite, skill: Skill | None = None, *, root: str | PathLike[str] | None = None
) -> tuple[Finding, ...]:
    """Say what in a suite would weaken or spoil what it measures.

    Parameters
    ----------
    suite : Suite
        The cases.
    skill : Skill, optional
        The skill that they are about. Without it far prompts, leaks of the concept field, headings
        and primitives cannot be looked at, and a finding says so.
    root : path, optional
        The folder that `truth_sources` are relative to. When not given, the folder above the
        suite's own if that holds ``skills``, else the suite's own; where neither is there, only
        sources in the skill itself are looked up. Nothing outside the folder is ever read.

    Returns
    -------
    tuple of Finding
        For the suite as a whole first, then case by case in file order. Empty when there is
        nothing to say.

    Raises
    ------
    SuiteError
        When `skill` is not the suite's skill.

    See Also
    --------
    lint_skill : The same for a SKILL.md.

    Notes
    -----
    Of a task suite it says how many tasks it has, where that is not five to ten, and whether more
    than half are scored by a model; all else concerns comprehension.

    A suite may name dimensions of its own in place of C1 to C9; none is then expected beside them.

    Errors spoil what is measured: a case with no or several dimensions; a case without behaviours;
    behaviour ids that stand twice; no negative behaviour or no anti-quote behaviour in the whole
    suite; truth sources that do not resolve; twins that do not exist or do not differ.

    That a suite says less than it could is a warning, which `skillcomp check` gives as advice:
    fewer than seven cases; a dimension of C1 to C9 without a case; no far case for one of C1 to
    C7; fields of the report's shape that are not there.

    A suite in which no case has a key of the report's extension (comprehension_dimension,
    concept_field, transfer, expected_behaviors) has the older shape, which remains valid: all but
    truth sources that do not resolve are warnings there.

    Other warnings are heuristics, for a person to judge. Texts are compared by the report's content
    tokens (A.3): a far prompt may share no run of four with the skill (R4), a prompt no run of
    four with its expected reasoning, positive behaviours or concept field. A shared run can be a
    mere name, and a leak in other words is not seen. Primitives are read from the mental model
    (``Name: what it is``, bold or code) and looked for in the behaviours of C2 and C7 by their
    stems; a behaviour that asks for one in other words is not recognized.

    Examples
    --------
    >>> from skillcomp.records import Case, Check, Suite
    >>> case = Case(case_id="tea/1", prompt="What is it?", comprehension_dimension="C1")
    >>> found = lint_suite(Suite(slug="tea", skill="tea", cases=(case,)))
    >>> [f.rule for f in found if f.case_id == "tea/1"]
    ['transfer_missing', 'behaviours_missing', 'truth_missing']
    """
    if skill is not None and skill.slug != suite.skill:
        raise SuiteError(
            f"lint_suite: suite '{suite.slug}' is about the skill '{suite.skill}'; found "
            f"'{skill.slug}'."
        )
    if suite.kind == "tasks":
        return tuple(finding(rule, f"suite {suite.slug}", said) for rule, said in _tasks(suite))
    folder = _root(suite) if root is None else Path(root)
    one = CaseLint({case.case_id: case for case in suite.cases}, skill, Sources(folder, skill))
    whole = (
        finding(rule, f"suite {suite.slug}", message)
        for look in (_covered, _far, _behaviours, _unchecked)
        for rule, message in look(suite, one)
    )
    said = (*whole, *(found for case in suite.cases for found in one.look(case)))
    if suite.cases and not any(map(_is_extended, suite.cases)):
        return tuple(map(_as_advice, said))
    return said


def _tasks(suite: Suite) -> Said:
    n_tasks, (low, high) = len(suite.cases), TASKS
    if not low <= n_tasks <= high:
        yield "tasks_number", f"{plural(n_tasks, 'task')}; advised are {low} to {high}."
    kinds = [check.judge.type for case in suite.cases for check in case.checks if check.judge]
    n_rubrics = kinds.count("llm-rubric")
    if 2 * n_rubrics > n_tasks:
        yield (
            "tasks_rubric",
            f"{n_rubrics} of {n_tasks} tasks are scored by a model; prefer contains or pytest "
            "where words or structure tell a good answer.",
        )


def _is_extended(case: Case) -> bool:
    """Tell whether a case has one of the keys that the report adds to the shape of before."""
    return bool(case.comprehension_dimension or case.concept_field or case.transfer or case.checks)


def _as_advice(found: Finding) -> Finding:
    """Return a finding about a suite of the older shape, which remains valid (report 6.1)."""
    holds = found.rule.startswith("truth_")
    return found if holds else found.model_copy(update={"severity": "warning"})


def lint_skill(skill: Skill) -> tuple[Finding, ...]:
    """Say what a skill lacks that its comprehension is graded against.

    Parameters
    ----------
    skill : Skill
        As read from its SKILL.md.

    Returns
    -------
    tuple of Finding
        Errors: an empty name or description; where a concept block has begun or
        ``comprehension_state`` is ``present``, a concept field that is missing, empty or not text,
        and a missing or empty section ``Verification`` or ``Do NOT Use When``. Warnings: no
        concept block at all, a field of fewer than 8 or more than 400 words, a mental model in
        which no primitive is named, a Verification of fewer than three items.

    Examples
    --------
    >>> from skillcomp.records import Skill
    >>> [f.rule for f in lint_skill(Skill(slug="tea", name="tea", description="Brewing."))]
    ['concept_none', 'section_missing_no_concept', 'section_missing_no_concept']
    """
    block = skill.metadata.get("concept")
    others = block if isinstance(block, dict) else {}
    expected = bool(skill.concept) or block is not None
    expected |= skill.metadata.get("comprehension_state") == "present"
    said = [
        ("front_matter", f"front matter: '{key}' is missing or empty.")
        for key in ("name", "description")
        if not getattr(skill, key).strip()
    ]
    if expected:
        said += _concept(skill.concept, others)
    else:
        message = f"concept: there is none; expected {', '.join(CONCEPT_FIELDS)}."
        said.append(("concept_none", message))
    said += _needed_sections(skill, "section_missing" + "_no_concept" * (not expected))
    return tuple(finding(rule, f"skill {skill.slug}", message) for rule, message in said)


def _root(suite: Suite) -> Path | None:
    file = Path(suite.path)
    if not suite.path or not isfile(file):
        return None
    above = file.resolve().parent.parent
    return above if (above / "skills").is_dir() else file.resolve().parent


def _covered(suite: Suite, one: CaseLint) -> Said:
    cases = suite.cases
    if len(cases) < FEWEST:
        yield "cases_few", f"{plural(len(cases), 'case')}; expected at least {FEWEST}."
    covered = {case.comprehension_dimension for case in cases}
    missing = [name for name in dimension_family(covered) if name not in covered]
    expected = "expected one or more for each of C1 to C9."
    if cases and covered == {None}:
        message = f"none of the {len(cases)} cases names a comprehension_dimension; {expected}"
        yield "dimensions_missing", message
    elif missing:
        named = ", ".join(f"{name} ({RUBRIC[name][0]})" for name in missing)
        yield "dimensions_missing", f"no case for {named}; {expected}"


def _far(suite: Suite, one: CaseLint) -> Said:
    near = {case.comprehension_dimension for case in suite.cases}
    near -= {case.comprehension_dimension for case in suite.cases if case.transfer == "far"}
    for rule, wanted in (
        ("far_missing", [d for d in CONCEPT_DIMENSIONS if d not in NEAR_IN_REPORT]),
        ("far_missing_near_in_report", NEAR_IN_REPORT),
    ):
        lacking = [name for name in wanted if name in near]
        if lacking:
            yield rule, f"no far case for {', '.join(lacking)}; expected one for each of C1 to C7."


def _behaviours(suite: Suite, one: CaseLint) -> Said:
    checks = [check for case in suite.cases for check in case.checks]
    if not checks:
        return
    none = f"none of the {len(checks)} behaviours"
    if not any(check.check_kind == "negative" for check in checks):
        yield "negative_none", f"{none} is negative."
    if not any(map(forbids_copying, checks)):
        message = f"{none} forbids quoting the skill; expected one such as no_verbatim_span."
        yield "anti_quote_none", message
    if one.names and not any(asks_for(check, one.telling) for check in checks):
        message = f"{none} names a primitive of the mental model ({', '.join(one.names)})."
        yield "primitive_none", message


def _unchecked(suite: Suite, one: CaseLint) -> Said:
    if one.skill is None:
        yield (
            "not_checked",
            f"skill '{suite.skill}' is not at hand: far prompts, leaks of concept fields, headings "
            "and primitives were not looked at.",
        )
    elif not one.names:
        yield (
            "not_checked",
            "the mental model names no primitives: whether behaviours ask for one was not looked "
            "at.",
        )
    named = [source for case in suite.cases for source in case.truth_sources]
    problems = [one.sources.problem(source) for source in named]
    n = sum(problem is not None and problem[0] == "not_checked" for problem in problems)
    if n:
        yield (
            "not_checked",
            f"{n} of {len(named)} truth sources were not looked up: they are addresses, or no "
            "folder is known (root=).",
        )


def _concept(concept: Mapping[str, str], others: Mapping[str, Any]) -> Said:
    """Say what a begun concept block lacks; `others` is what it holds beside the fields."""
    absent = [name for name in CONCEPT_FIELDS if name not in concept]
    odd = [name for name in absent if not isinstance(others.get(name), str | None)]
    missing = [name for name in absent if name not in odd]
    if missing:
        yield "concept_missing", f"concept: missing or empty: {', '.join(missing)}."
    for name in odd:
        kind = type(others[name]).__name__
        yield "concept_not_text", f"concept.{name}: found a {kind}; expected text."
    for name in (str(name) for name in others if name not in CONCEPT_FIELDS):
        hint = suggest(name, CONCEPT_FIELDS)
        yield "reading", f"concept.{name}: not one of the seven concept fields.{hint}"
    for name, text in concept.items():
        n = len(text.split())
        if n < SHORTEST:
            yield (
                "concept_short",
                f"concept.{name}: {n} words ('{text[:60]}'); expected at least {SHORTEST}.",
            )
        elif n > LONGEST:
            yield "concept_long", f"concept.{name}: {n} words; expected at most {LONGEST}."
    if concept.get("mental_model") and not primitives(concept["mental_model"]):
        yield (
            "primitives_unnamed",
            "concept.mental_model: no primitive can be told from the text; expected lines "
            "such as 'Name: what it is', or names in bold.",
        )


def _needed_sections(skill: Skill, rule: str) -> Said:
    found = {" ".join(s.title.lower().split()): s for s in skill.sections}
    for title, dimension in SECTIONS.items():
        section = found.get(title.lower())
        if section is None:
            hint = suggest(title, [s.title for s in skill.sections])
            message = f"sections: there is no '## {title}', which {dimension} is graded against."
            yield rule, message + hint
            continue
        place = f"line {section.line}"
        text = _with_below(skill, section)
        n = len(_ITEM.findall(text)) + max(len(_ROW.findall(text)) - 1, 0)
        if not text.strip():
            yield rule, f"{place}: the section '{section.title}' is empty."
        elif title == "Verification" and n < ITEMS:
            message = (
                f"{place}: '{section.title}' has {plural(n, 'item')}; expected at least {ITEMS}."
            )
            yield "verification_short", message


def _with_below(skill: Skill, section: Section) -> str:
    """Return the text of a section with its subsections."""
    after = (s for s in skill.sections if s.line > section.line)
    below = takewhile(lambda s: s.level > section.level, after)
    return "\n".join([section.text, *(s.text for s in below)])


@dataclass(frozen=True)
class Found:
    """What was read, and what was found in it.

    Attributes
    ----------
    kind : {"skill", "suite", "study", "evals"}
        What stands at the path.
    what : str
        What was read, in one line.
    findings : tuple of Finding
        Deviations met while reading, then what the lint says; file by file.
    store : RunStore or None
        The study, as it was opened.
    """

    kind: str
    what: str
    findings: tuple[Finding, ...] = ()
    store: RunStore | None = None

    @property
    def n_errors(self) -> int:
        """Return how many findings are errors."""
        return sum(found.severity == "error" for found in self.findings)

    @property
    def n_warnings(self) -> int:
        """Return how many findings are warnings."""
        return len(self.findings) - self.n_errors

    @property
    def summary(self) -> str:
        """Return one line: what was read, and how many errors and warnings there are."""
        counts = ((self.n_errors, "error"), (self.n_warnings, "warning"))
        parts = [plural(n, word) for n, word in counts if n]
        return f"{self.what}: {', '.join(parts) or 'no problems'}"


def inspect(path: Path, *, skills: Sequence[Path] = ()) -> Found:
    """Read a SKILL.md, its folder, a suite file or a study's folder and say what is wrong with it.

    Parameters
    ----------
    path : pathlib.Path
        What to read.
    skills : sequence of pathlib.Path
        Skills of the same study, each a SKILL.md or its folder.

    Returns
    -------
    Found
        Kind, what was read, and the findings. A suite is linted beside its skill: the one of that
        name among `skills`, else ``../skills/<skill>/SKILL.md``. Where neither is there, what needs
        the skill is not looked at, and a finding says so.

    Raises
    ------
    StudyError
        If there is nothing at the path, or nothing of ours.
    SkillError, SuiteError, StoreError
        If it cannot be read at all.
    """
    if not exists(path):
        raise StudyError(f"check: there is nothing at {path}.")
    if (path / "manifest.json").is_file():
        return _study(path)
    if (path.is_dir() and (path / "SKILL.md").is_file()) or path.name == "SKILL.md":
        skill = read_skill(path)
        what = f"skill '{skill.slug}': {len(skill.concept)} of 7 concept fields, "
        what += f"{len(skill.sections)} sections"
        return Found("skill", what, tuple(_skill(skill, path)))
    is_suite = path.suffix in (".json", ".csv") or is_task_suite(path)
    if is_suite or (path / PROMPTS).is_file():
        suite = read_suite(path)
        n_checks = sum(len(case.checks) for case in suite.cases)
        what = (
            f"suite '{suite.slug}': {plural(len(suite.cases), 'case')}, {plural(n_checks, 'check')}"
        )
        if suite.kind == "tasks":
            what = f"task suite '{suite.slug}': {plural(len(suite.cases), 'task')}"
        return Found("suite", what, tuple(_suite(suite, _beside(path, suite, skills), path, None)))
    raise StudyError(
        f"check: {path} is none of: a SKILL.md, a folder with one, a suite (.json, .csv, or .yaml "
        "with tasks), a study "
        "(a folder with manifest.json)."
        + (" --evals lints all skills below a folder." if path.is_dir() else "")
    )


def inspect_evals(path: Path) -> Found:
    """Read all skills below a folder and their trigger prompts and say what is wrong with them.

    Parameters
    ----------
    path : pathlib.Path
        The folder, such as that of a repository.

    Returns
    -------
    Found
        What :func:`skillcomp.lint.lint_skill.lint_evals` finds.

    Raises
    ------
    StudyError
        If there is no such folder, or nothing to lint below it.
    """
    if not isdir(path):
        raise StudyError(f"check --evals: there is no folder {path}.")
    n_skills, n_cases, findings = lint_evals(path)
    return Found(
        "evals", f"'{path}': {plural(n_skills, 'skill')}, {plural(n_cases, 'prompt')}", findings
    )


def _study(path: Path) -> Found:
    store = RunStore(path)
    n_cases = sum(len(suite.cases) for suite in store.suites.values())
    counts = {"skill": len(store.skills), "case": n_cases}
    counts |= {one: store.table(f"{one}s").num_rows for one in ("attempt", "verdict")}
    what = f"study '{path.name}': {', '.join(plural(n, one) for one, n in counts.items())}"
    read: list[Skill | Suite] = [*store.skills.values(), *store.suites.values()]
    inside = {f"{one.path}: {problem}" for one in read for problem in one.problems}
    # the store repeats what its skills and suites say of themselves
    found = [finding("reading", str(path), p) for p in store.problems if p not in inside]
    for slug, skill in store.skills.items():
        found += _skill(skill, path / "skills" / slug / "SKILL.md")
    for suite in store.suites.values():
        found += _suite(suite, store.skills.get(suite.skill), path / suite.path, path)
    return Found("study", what, tuple(found), store)


def _skill(skill: Skill, file: Path) -> list[Finding]:
    return [*_read(skill.problems, file), *_at(lint_skill(skill), file)]


def _suite(suite: Suite, skill: Skill | None, file: Path, root: Path | None) -> list[Finding]:
    read = _read(suite.problems, file)
    routed = any(problem.startswith("routing_cases:") for problem in suite.problems)
    if routed or suite.path.endswith(".csv"):
        return read  # such cases keep none of the rules of comprehension, and need not
    return [*read, *_at(lint_suite(suite, skill, root=root), file)]


def _beside(path: Path, suite: Suite, skills: Sequence[Path]) -> Skill | None:
    for place in (*skills, path.resolve().parent.parent / "skills" / suite.skill):
        try:
            skill = read_skill(place)
        except SkillError:
            continue
        if skill.slug == suite.skill:
            return skill
    return None


def _read(problems: Sequence[str], file: Path) -> list[Finding]:
    """Return what a reader noted as findings, but for what the lint says as well."""
    return [
        finding(_rule_of(problem), str(file), problem, file=str(file))
        for problem in problems
        if not _SAID.search(problem)
    ]


def _rule_of(problem: str) -> str:
    """Return the rule that what a reader noted belongs to."""
    if _OTHER_WORD in problem:
        return "other_word"
    return "fields_missing" if _FIELDS.match(problem) else "reading"


def _at(findings: Iterable[Finding], file: Path) -> list[Finding]:
    """Return findings with the file before their place."""
    return [
        one.model_copy(update={"place": f"{file}: {one.place}", "file": str(file)})
        for one in findings
    ]
