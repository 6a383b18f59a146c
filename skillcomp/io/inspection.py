"""What stands at a path - a skill, a suite or a whole study - and everything wrong with it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from skillcomp.errors import SkillError, StudyError
from skillcomp.io.findings import Finding, finding
from skillcomp.io.lint import lint_skill, lint_suite
from skillcomp.io.skills import read_skill
from skillcomp.io.store import RunStore
from skillcomp.io.suites import read_suite
from skillcomp.records import Skill, Suite

__all__ = ["Found", "inspect"]

# The readers say these too; the lint says them with the case and the reason.
_SAID = re.compile(
    r": expected_behaviors: the id '.*' stands \d+ times\.$"
    r"|: contrast_of: '.*' is (?:no case|the case)"
    r"|: comprehension_dimension: found |: transfer: found |^evals: the list is empty"
    r"|^front matter: '\w+' is missing|^concept: missing |^concept\."
)
_OTHER_WORD = "A word of other published files"


@dataclass(frozen=True)
class Found:
    """What was read, and what was found in it.

    Attributes
    ----------
    kind : {"skill", "suite", "study"}
        What stands at the path.
    what : str
        What was read, in one line.
    findings : tuple of Finding
        Deviations met while reading, then what the lint says; file by file.
    """

    kind: str
    what: str
    findings: tuple[Finding, ...] = ()

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
        parts = [
            f"{n} {word}" if n == 1 else f"{n} {word}s"
            for n, word in ((self.n_errors, "error"), (self.n_warnings, "warning"))
            if n
        ]
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
    if not path.exists():
        raise StudyError(f"check: there is nothing at {path}.")
    if (path / "manifest.json").is_file():
        return _study(path)
    if (path.is_dir() and (path / "SKILL.md").is_file()) or path.name == "SKILL.md":
        skill = read_skill(path)
        what = f"skill '{skill.slug}': {len(skill.concept)} of 7 concept fields, "
        what += f"{len(skill.sections)} sections"
        return Found("skill", what, tuple(_skill(skill, path)))
    if path.suffix == ".json":
        suite = read_suite(path)
        n_checks = sum(len(case.checks) for case in suite.cases)
        what = f"suite '{suite.slug}': {len(suite.cases)} cases, {n_checks} checks"
        return Found("suite", what, tuple(_suite(suite, _beside(path, suite, skills), path, None)))
    raise StudyError(
        f"check: {path} is none of: a SKILL.md, a folder with one, a suite (.json), a study "
        "(a folder with manifest.json)."
    )


def _study(path: Path) -> Found:
    store = RunStore(path)
    n_cases = sum(len(suite.cases) for suite in store.suites.values())
    what = f"study '{path.name}': {len(store.skills)} skills, {n_cases} cases, "
    what += f"{store.table('attempts').num_rows} attempts, "
    what += f"{store.table('verdicts').num_rows} verdicts"
    read: list[Skill | Suite] = [*store.skills.values(), *store.suites.values()]
    inside = {f"{one.path}: {problem}" for one in read for problem in one.problems}
    # the store repeats what its skills and suites say of themselves
    found = [finding("reading", str(path), p) for p in store.problems if p not in inside]
    for slug, skill in store.skills.items():
        found += _skill(skill, path / "skills" / slug / "SKILL.md")
    for slug, suite in store.suites.items():
        file = path / "suites" / f"{slug}.json"
        found += _suite(suite, store.skills.get(suite.skill), file, path)
    return Found("study", what, tuple(found))


def _skill(skill: Skill, file: Path) -> list[Finding]:
    return [*_read(skill.problems, file), *_at(lint_skill(skill), file)]


def _suite(suite: Suite, skill: Skill | None, file: Path, root: Path | None) -> list[Finding]:
    read = _read(suite.problems, file)
    if any(problem.startswith("routing_cases:") for problem in suite.problems):
        return read  # cases for a router keep none of the rules, and need not
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
        finding("other_word" if _OTHER_WORD in problem else "reading", str(file), problem)
        for problem in problems
        if not _SAID.search(problem)
    ]


def _at(findings: Iterable[Finding], file: Path) -> list[Finding]:
    """Return findings with the file before their place."""
    return [one.model_copy(update={"place": f"{file}: {one.place}"}) for one in findings]
