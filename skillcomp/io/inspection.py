"""What stands at a path - a skill, a suite or a whole study - and every problem in it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from skillcomp.errors import StudyError
from skillcomp.io.skills import read_skill
from skillcomp.io.store import RunStore
from skillcomp.io.suites import read_suite

__all__ = ["Found", "inspect"]


@dataclass(frozen=True)
class Found:
    """What was read, and its problems.

    Attributes
    ----------
    kind : {"skill", "suite", "study"}
        What stands at the path.
    summary : str
        One line: what was read and how many problems it has.
    problems : tuple of str
        One sentence each, with the place.
    """

    kind: str
    summary: str
    problems: tuple[str, ...]


def inspect(path: Path) -> Found:
    """Read a SKILL.md, its folder, a suite file or a study's folder and list every problem.

    Parameters
    ----------
    path : pathlib.Path
        What to read.

    Returns
    -------
    Found
        Kind, a one-line summary and the problems.

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
        return _found("skill", what, [f"{path}: {p}" for p in skill.problems])
    if path.suffix == ".json":
        suite = read_suite(path)
        n_checks = sum(len(case.checks) for case in suite.cases)
        what = f"suite '{suite.slug}': {len(suite.cases)} cases, {n_checks} checks"
        return _found("suite", what, [f"{path}: {p}" for p in suite.problems])
    raise StudyError(
        f"check: {path} is none of: a SKILL.md, a folder with one, a suite (.json), a study "
        "(a folder with manifest.json)."
    )


def _study(path: Path) -> Found:
    store = RunStore(path)
    problems = list(store.problems)
    for slug, skill in store.skills.items():
        problems += [f"{path}/skills/{slug}/SKILL.md: {p}" for p in skill.problems]
    for slug, suite in store.suites.items():
        problems += [f"{path}/suites/{slug}.json: {p}" for p in suite.problems]
    n_cases = sum(len(suite.cases) for suite in store.suites.values())
    what = f"study '{path.name}': {len(store.skills)} skills, {n_cases} cases, "
    what += f"{store.table('attempts').num_rows} attempts, "
    what += f"{store.table('verdicts').num_rows} verdicts"
    return _found("study", what, problems)


def _found(kind: str, what: str, problems: list[str]) -> Found:
    many = {0: "no problems", 1: "1 problem"}.get(len(problems), f"{len(problems)} problems")
    return Found(kind, f"{what}: {many}", tuple(problems))
