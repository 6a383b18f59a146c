"""Before money is spent: what in a suite or a skill would make a study say less than it seems to.

The rules are those of the source report (5.1 to 5.12, 7.4, 8.2, 8.4, 8.8); each finding carries
its case, severity and reason. A lint reads; it changes nothing and calls no model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path

from skillcomp.errors import SuiteError
from skillcomp.io._lint_cases import CaseLint, asks_for, is_anti_quote
from skillcomp.io._lint_skill import SkillLint
from skillcomp.io.findings import RULES, Finding, finding
from skillcomp.io.sources import Sources
from skillcomp.records import DIMENSIONS, Case, Skill, Suite

__all__ = ["RULES", "Finding", "lint_skill", "lint_suite"]

FEWEST = 7  # cases of a skill (report 6.3)
CONCEPT_DIMENSIONS = DIMENSIONS[:7]
NEAR_IN_REPORT = ("C1", "C3", "C4")  # the report's own example has no far case for these (6.3)


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
    Errors: fewer than seven cases; a dimension of C1 to C9 without a case; a case with no or
    several dimensions; no far case for C2, C5, C6 or C7 (for C1, C3 and C4, which the report's own
    example leaves near, a warning); a case without behaviours; behaviour ids that stand twice; no
    negative behaviour or no anti-quote behaviour in the whole suite; truth sources that do not
    resolve; twins that do not exist or do not differ.

    Warnings are heuristics, for a person to judge. Texts are compared by the report's content
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
    folder = _root(suite) if root is None else Path(root)
    sources = Sources(folder, skill)
    one = CaseLint({case.case_id: case for case in suite.cases}, skill, sources)
    found = list(_whole(suite, one))
    for case in suite.cases:
        found += one.look(case)
    return tuple(found)


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
    return tuple(SkillLint(skill).look())


def _root(suite: Suite) -> Path | None:
    file = Path(suite.path)
    if not suite.path or not file.is_file():
        return None
    above = file.resolve().parent.parent
    return above if (above / "skills").is_dir() else file.resolve().parent


def _whole(suite: Suite, one: CaseLint) -> Iterator[Finding]:
    """Yield what concerns the suite as a whole."""
    place, cases = f"suite {suite.slug}", suite.cases
    if len(cases) < FEWEST:
        yield finding("cases_few", place, f"{len(cases)} cases; expected at least {FEWEST}.")
    covered = {case.comprehension_dimension for case in cases}
    missing = [name for name in DIMENSIONS if name not in covered]
    if cases and covered == {None}:
        yield finding(
            "dimensions_missing",
            place,
            f"none of the {len(cases)} cases names a comprehension_dimension; expected one or more "
            "for each of C1 to C9.",
        )
    elif missing:
        yield finding(
            "dimensions_missing",
            place,
            f"no case for {', '.join(missing)}; expected one or more for each of C1 to C9.",
        )
    yield from _far(place, cases)
    yield from _behaviours(place, cases, one)
    yield from _unchecked(place, suite, one)


def _far(place: str, cases: Sequence[Case]) -> Iterator[Finding]:
    near = {case.comprehension_dimension for case in cases}
    near -= {case.comprehension_dimension for case in cases if case.transfer == "far"}
    for rule, wanted in (
        ("far_missing", [d for d in CONCEPT_DIMENSIONS if d not in NEAR_IN_REPORT]),
        ("far_missing_near_in_report", NEAR_IN_REPORT),
    ):
        lacking = [name for name in wanted if name in near]
        if lacking:
            yield finding(
                rule,
                place,
                f"no far case for {', '.join(lacking)}; expected one for each of C1 to C7.",
            )


def _behaviours(place: str, cases: Sequence[Case], one: CaseLint) -> Iterator[Finding]:
    checks = [check for case in cases for check in case.checks]
    if not checks:
        return
    if not any(check.check_kind == "negative" for check in checks):
        yield finding("negative_none", place, f"none of the {len(checks)} behaviours is negative.")
    if not any(map(is_anti_quote, checks)):
        yield finding(
            "anti_quote_none",
            place,
            f"none of the {len(checks)} behaviours forbids quoting the skill; expected one such as "
            "no_verbatim_span.",
        )
    if one.names and not any(asks_for(check, one.names) for check in checks):
        yield finding(
            "primitive_none",
            place,
            f"none of the {len(checks)} behaviours names a primitive of the mental model "
            f"({', '.join(one.names)}).",
        )


def _unchecked(place: str, suite: Suite, one: CaseLint) -> Iterator[Finding]:
    if one.skill is None:
        yield finding(
            "not_checked",
            place,
            f"skill '{suite.skill}' is not at hand: far prompts, leaks of concept fields, headings "
            "and primitives were not looked at.",
        )
    elif not one.names:
        yield finding(
            "not_checked",
            place,
            "the mental model names no primitives: whether behaviours ask for one was not looked "
            "at.",
        )
    named = [source for case in suite.cases for source in case.truth_sources]
    problems = [one.sources.problem(source) for source in named]
    n = sum(problem is not None and problem[0] == "not_checked" for problem in problems)
    if n:
        yield finding(
            "not_checked",
            place,
            f"{n} of {len(named)} truth sources were not looked up: they are addresses, or no "
            "folder is known (root=).",
        )
