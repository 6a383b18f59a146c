"""Skills and their trigger prompts before anything runs: safe for CI, no model and no program.

The rules are those of the source's trigger document (guidance for skill authors, recommended
coverage); the rules about words in a SKILL.md are heuristics for a person to judge.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from os.path import exists
from pathlib import Path, PurePosixPath
from typing import TypeVar
from urllib.parse import unquote

from skillcomp.errors import SkillcompError, StudyError
from skillcomp.io.journal import is_store
from skillcomp.io.skills import FILE_NAME, read_skill
from skillcomp.io.suites import read_suite
from skillcomp.io.trigger_suites import FILE, KINDS
from skillcomp.lint.lint_suite import Finding, Said, finding
from skillcomp.records import Skill, Suite

__all__ = ["lint_evals", "lint_testable"]

Read = TypeVar("Read", Skill, Suite)
MOST = 20  # findings of one rule in one file
STEPS = 15  # numbered steps of one list; more are no small workflow
_SKIPPED = frozenset(["node_modules", "artifacts", "site-packages", "__pycache__", "dist", "build"])
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
_ENDLESS = re.compile(
    r"\bdo everything\b|\bkeep going until\b|\bas long as it takes\b|\buntil (?:it is )?perfect\b"
    r"|\bno matter how long\b|\brepeat (?:forever|indefinitely)\b",
    re.IGNORECASE,
)
_STEP = re.compile(r"^ {0,3}(\d{1,3})[.)]\s+\S", re.MULTILINE)
_DOWNLOAD = re.compile(
    r"\bgit clone\b[^\n`]*|\b(?:wget|aria2c)\b +\S[^\n`]*"
    r"|\bcurl\b[^\n`]{0,300}?\s-(?:o|O|LO|fsSLO)\b[^\n`]*"
    r"|\bdocker pull\b[^\n`]*|\bhuggingface-cli download\b[^\n`]*",
)
_OPTIONAL = re.compile(r"\boptional|\bonly if\b|\bif (?:you )?need|\bskip\b", re.IGNORECASE)
_KEPT_APART = ".references/"
_DOES = re.compile(r"^ {0,3}(?:`{3,}|~{3,})", re.MULTILINE)  # commands or files stand in fences
_MACHINE = re.compile(r"(?<![\w.$}])(?:/(?:home|Users|root)/[\w.-]+|[A-Z]:\\\\?[\w.-]+)")
_LINK = re.compile(r"\]\(<?([^)\s>]{1,500})>?(?:\s{1,9}\"[^\"]{0,300}\")?\)")
_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|#|/", re.IGNORECASE)


def lint_testable(skill: Skill) -> tuple[Finding, ...]:
    """Say what keeps a skill from being tested as an interface.

    Parameters
    ----------
    skill : Skill
        As read from its SKILL.md.

    Returns
    -------
    tuple of Finding
        No definition of done where the skill shows commands or files; no dry-run mode; no word on
        when not to use it; a workflow without bounds; downloads that are not optional; paths of
        one machine. All are warnings, found by their words: a rule kept in other words is not seen.

    Examples
    --------
    >>> from skillcomp.records import Skill
    >>> bare = Skill(slug="tea", name="tea", description="Brews.", body="Boil. Do everything.")
    >>> [f.rule for f in lint_testable(bare)]
    ['dry_run_none', 'not_when_none', 'unbounded']
    """
    said = _testable(skill)
    return tuple(finding(rule, f"skill {skill.slug}", message) for rule, message in said)


def _testable(skill: Skill) -> Said:
    body = skill.body
    if _DOES.search(body) and not _DONE.search(body):
        yield "done_none", "commands or files are shown, and nothing says when the work is done."
    if not _DRY.search(body):
        yield "dry_run_none", "nothing says how to answer with steps only, without doing them."
    if not _NOT_WHEN.search(f"{skill.description}\n{body}"):
        yield "not_when_none", "neither description nor body says when not to use it."
    for phrase in _some(match[0].lower() for match in _ENDLESS.finditer(body)):
        yield "unbounded", f"line {_line(skill, phrase)}: '{phrase}'; expected an end."
    steps = [int(match[1]) for match in _STEP.finditer(body)]
    if steps and max(steps) > STEPS:
        yield "unbounded", f"a list of {max(steps)} steps; expected at most {STEPS}."
    needed = (part for part in re.split(r"\n(?=#{1,6} )", body) if not _OPTIONAL.search(part))
    fetched = (match[0].strip() for part in needed for match in _DOWNLOAD.finditer(part))
    for text in _some(one for one in fetched if _KEPT_APART not in one):
        yield "download", f"line {_line(skill, text)}: '{text:.80}' is not called optional."
    for text in _some(match[0] for match in _MACHINE.finditer(skill.text)):
        yield "machine_path", f"line {_line(skill, text)}: '{text}' is a path of one machine."


def _some(texts: Iterable[str]) -> list[str]:
    return list(islice(dict.fromkeys(texts), MOST))


def _line(skill: Skill, text: str) -> int:
    whole = (skill.text or skill.body).lower()
    return whole.count("\n", 0, max(whole.find(text.lower()), 0)) + 1


def lint_evals(root: Path) -> tuple[int, int, tuple[Finding, ...]]:
    """Look at every skill below a folder and at the trigger prompts that belong to it.

    Parameters
    ----------
    root : pathlib.Path
        The folder: SKILL.md files anywhere below it (hidden folders, ``artifacts`` and installed
        packages left out), prompts in ``evals/skills/<slug>/prompts.csv``.

    Returns
    -------
    n_skills, n_cases : int
        How many skills and prompts there are.
    findings : tuple of Finding
        Errors: broken front matter or prompts, two skills of one slug or name, prompts without
        their skill, links to files that are not there or lead out of the folder. Warnings: the
        rules of :func:`lint_testable`, a skill without explicit, implicit or negative prompts,
        prompts and descriptions that stand twice.

    Raises
    ------
    StudyError
        If there is no skill and no prompts.csv below the folder.
    """
    found: list[Finding] = []
    skills = list(_read(_files(root, FILE_NAME), read_skill, found))
    tables = (one for one in _files(root, FILE) if one.parts[-4:-2] == ("evals", "skills"))
    suites = list(_read(tables, read_suite, found))
    if not (skills or suites or found):
        raise StudyError(
            f"check --evals: below {root} there is no {FILE_NAME} and no evals/skills/*/{FILE}."
        )
    for file, skill in skills:
        found += [_in(file, "reading", problem) for problem in skill.problems]
        said = (*_testable(skill), *_links(skill, file, root))
        found += [_in(file, rule, message) for rule, message in said]
    for file, suite in suites:
        found += [_in(file, "reading", problem) for problem in suite.problems]
    found += _alike(skills)
    found += _covered(skills, suites)
    found += _twice(suites)
    return len(skills), sum(len(suite.cases) for _, suite in suites), tuple(found)


def _files(root: Path, name: str) -> Iterator[Path]:
    """Yield the files of a name below a folder, in order; nothing that leads out of it."""
    whole = root.resolve()
    for file in sorted(root.rglob(name)):
        parts = file.relative_to(root).parts[:-1]
        hidden = any(part.startswith(".") or part in _SKIPPED for part in parts)
        # what a study recorded is a copy, and stands elsewhere once more
        copied = any(is_store(root.joinpath(*parts[:k])) for k in range(1, len(parts)))
        if not (hidden or copied) and file.is_file() and file.resolve().is_relative_to(whole):
            yield file


def _read(
    files: Iterable[Path], read: Callable[[Path], Read], found: list[Finding]
) -> Iterator[tuple[Path, Read]]:
    """Yield what can be read, with its file; say of the others why they cannot."""
    for file in files:
        try:
            yield file, read(file)
        except SkillcompError as error:
            found.append(_in(file, "reading", str(error)))


def _in(file: Path, rule: str, message: str, case_id: str | None = None) -> Finding:
    return finding(rule, str(file), message, case_id=case_id, file=str(file))


def _links(skill: Skill, file: Path, root: Path) -> Said:
    for name in _some(match[1] for match in _LINK.finditer(skill.body)):
        target = unquote(name.partition("#")[0])
        if not target or _ELSEWHERE.match(name):
            continue
        place = file.parent / PurePosixPath(target)
        where = f"line {_line(skill, name)}: '{name}'"
        if "\0" not in target and not place.resolve().is_relative_to(root.resolve()):
            yield "link_outside", f"{where} leads out of {root}."
        elif not exists(place):  # nor is what no file can be called
            yield "link_missing", f"{where} is not there."


def _alike(skills: list[tuple[Path, Skill]]) -> Iterator[Finding]:
    """Yield what two skills share that must tell them apart."""
    for rule, what, of in (
        ("slug_twice", "slug", lambda one: one.slug.casefold()),
        ("slug_twice", "name", lambda one: one.name.casefold()),
        ("description_twice", "description", lambda one: " ".join(one.description.lower().split())),
    ):
        seen: dict[str, tuple[Path, Skill]] = {}
        for file, skill in skills:
            key = of(skill)
            if key and key in seen:
                other, twin = seen[key]
                if what != "name" or twin.slug.casefold() != skill.slug.casefold():
                    shown = f" '{getattr(skill, what)}'" if what != "description" else ""
                    message = f"the {what}{shown} is that of {other} as well."
                    yield _in(file, rule, message)
            seen.setdefault(key, (file, skill))


def _covered(
    skills: list[tuple[Path, Skill]], suites: list[tuple[Path, Suite]]
) -> Iterator[Finding]:
    of_skill = {suite.skill: (place, suite) for place, suite in suites}
    known = {skill.slug for _, skill in skills}
    for file, skill in skills:
        if skill.slug not in of_skill:
            yield _in(file, "evals_none", f"there is no evals/skills/{skill.slug}/{FILE}.")
            continue
        place, suite = of_skill[skill.slug]
        kinds = {case.prompt_kind for case in suite.cases}
        for kind in KINDS:
            if kind not in kinds:
                yield _in(place, "kind_none", f"no {kind} prompt among {len(suite.cases)}.")
    for file, suite in suites:
        if suite.skill not in known:
            folder = f"no folder of this name with {FILE_NAME}"
            yield _in(file, "skill_none", f"there is no skill '{suite.skill}' ({folder}).")


def _twice(suites: list[tuple[Path, Suite]]) -> Iterator[Finding]:
    seen: dict[str, str] = {}
    for file, suite in suites:
        for case in suite.cases:
            text = " ".join(case.prompt.lower().split())
            if text and text in seen:
                message = f"{case.case_id}: the prompt is that of {seen[text]} as well."
                yield _in(file, "prompt_twice", message, case.case_id)
            seen.setdefault(text, case.case_id)
