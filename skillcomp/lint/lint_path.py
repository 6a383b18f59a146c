"""List every finding at a path: a skill, a suite, a study, a study.yaml or a folder of skills.

``skillcomp check`` prints these findings. The lint is safe for CI: it calls no model and runs no
program.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from os import PathLike
from os.path import exists, isdir, realpath
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import unquote

import pandas as pd

from skillcomp import frames
from skillcomp.errors import SkillcompError, StoreError, StudyError, literal, plural
from skillcomp.frames.check import empty
from skillcomp.io.files import as_path, checked_slug, files_below, read_yaml
from skillcomp.io.journal import has_manifest, is_store
from skillcomp.io.skills import FILE_NAME, read_skill, tree_of
from skillcomp.io.store import RunStore
from skillcomp.io.suites import holds_suite, read_suite
from skillcomp.io.task_suites import is_task_suite, suite_files
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
from skillcomp.lint.lint_rules import (
    Finding,
    RuleMessages,
    findings_frame,
    first_distinct,
    line_with,
    shared_concepts,
    skill_findings,
    untestable_messages,
)
from skillcomp.lint.lint_suite import in_process_messages, suite_findings
from skillcomp.records import Skill, Suite

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
_ITEM = ["attempt_id", "check_id"]
_CHECK = ["skill", "case_id", "check_id"]
# What a problem of a reader says, as a pattern, and its rule. The rule is empty for problems that
# the lint finds too; only the finding of the lint is listed.
_RULES = {
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
_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|#|/", re.IGNORECASE)


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
    places, skill_files = ([path], []) if evals else _places_and_skills(path)
    skills = [skill for _, skill in _read_files(skill_files, read_skill, [])]
    suites = [] if evals else _readable_suites(places)
    read = _Read(skills, suites, shared_concepts(skills))
    for place in places:
        try:
            linted = _lint_folder(place) if evals else _lint_place(place, read)
        except SkillcompError as error:
            if len(places) == 1 or is_study_file(path):
                raise
            linted = (f"'{place}'", [Finding("reading", str(error)).in_file(place)])
        description, findings = linted
        yield LintedPlace(description, findings_frame(findings))


def is_study_file(path: Path) -> bool:
    """Check whether a path is a YAML file that is not a task suite."""
    return path.suffix in (".yaml", ".yml") and path.is_file() and not is_task_suite(path)


def _places_and_skills(path: Path) -> tuple[list[Path], list[Path]]:
    """Return the paths to lint, and the paths at which the skill of a suite is looked for first."""
    if isdir(path) and not has_manifest(path):
        skills = [path] if (path / FILE_NAME).is_file() else []
        if not (skills or holds_suite(path)):
            files = _files_below(path, FILE_NAME)
            # skip folders below evals, because a suite may have mock skills there
            skills = [f.parent for f in files if "evals" not in f.relative_to(path).parts]
        if skills:
            places = [place for skill in skills for place in (skill, *suites_of_skill(skill))]
            return places, skills
    if not is_study_file(path):
        return [path], []
    content, _ = read_yaml(path, what="study", error=StudyError)
    folder = path.parent
    skills = [folder / name for name in _names_in_study(path, content, "skills")]
    places = [*skills, *(folder / name for name in _names_in_study(path, content, "suites"))]
    store = folder / _names_in_study(path, {"store": [content.get("store")]}, "store")[0]
    return places or [store], [*skills, *sorted(store.glob("skills/*/SKILL.md"))]


def _names_in_study(path: Path, content: dict[Any, Any], key: str) -> list[str]:
    names = content.get(key, [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise StudyError(f"{path}: {key}: found {literal(names)}; expected a path or paths.")
    return names


def suites_at(path: Path) -> list[Suite]:
    """Return the suites at a path that `lint_path` accepts; unreadable suites are left out."""
    places, _ = _places_and_skills(path)
    stores = [RunStore(place) for place in places if has_manifest(place)]
    return [*_readable_suites(places), *(s for store in stores for s in store.suites.values())]


def _readable_suites(places: Iterable[Path]) -> list[Suite]:
    """Return the suites at the given paths; skip other files and suites that cannot be read."""
    return [suite for _, suite in _read_files(filter(_is_suite, places), read_suite, [])]


def _is_suite(path: Path) -> bool:
    is_file = path.suffix in (".json", ".csv") or is_task_suite(path)
    return is_file or (isdir(path) and holds_suite(path))


def _lint_place(path: Path, read: _Read) -> tuple[str, list[Finding]]:
    """Return a one-line description of the skill, suite or study at a path, and the findings.

    A suite is linted together with its skill, which is one of those read,
    ``../skills/<skill>/SKILL.md`` or ``../SKILL.md``. If the skill is not found, a finding lists
    what was not checked. The advice about a skill depends on the dimensions that the cases of the
    suites read test.
    """
    if not exists(path):
        raise StudyError(f"check: there is nothing at {path}.")
    if has_manifest(path):
        return _lint_study(path)
    if (path / FILE_NAME).is_file() or path.name == FILE_NAME:
        skill = read_skill(path)
        folder = path if path.is_dir() else path.parent
        concept = f"{len(skill.concept)} of 7 concept fields, " if skill.concept else ""
        description = f"skill '{skill.slug}': {concept}{plural(len(skill.sections), 'section')}"
        storing = _storing_messages(skill.slug, partial(tree_of, folder))
        findings = [Finding(*message).in_file(path) for message in storing]
        return description, findings + _findings_in(skill, path, read)
    if _is_suite(path):
        suite = read_suite(path)
        n, n_checks = len(suite.cases), sum(len(case.checks) for case in suite.cases)
        description = f"suite '{suite.slug}': {plural(n, 'case')}, {plural(n_checks, 'check')}"
        if suite.kind == "tasks":
            description = f"task suite '{suite.slug}': {plural(n, 'task')}"
        real = path.resolve()
        above = real.parent if real.is_dir() else real.parent.parent
        near = _read_files([above / "skills" / suite.skill, above], read_skill, [])
        read = read._replace(skills=[*read.skills, *(skill for _, skill in near)])
        return description, _findings_in(suite, path, read)
    raise StudyError(
        f"check: {path} is none of: a SKILL.md, a folder with one, a suite (.json, .csv, or .yaml "
        "with tasks, a folder with evals.json), a folder of skills, "
        "a study (a folder with manifest.json)."
        + (" --evals lints all skills below a folder." if path.is_dir() else "")
    )


def _lint_study(path: Path) -> tuple[str, list[Finding]]:
    store = RunStore(path)
    skills, suites = list(store.skills.values()), list(store.suites.values())
    counts = {"skill": len(skills), "case": sum(len(suite.cases) for suite in suites)}
    counts |= {noun: store.table(f"{noun}s").num_rows for noun in ("attempt", "verdict")}
    description = f"study '{path.name}': {', '.join(plural(n, noun) for noun, n in counts.items())}"
    # store.problems repeats the problems of every skill and suite; leave these out, because they
    # are added below
    records: list[Skill | Suite] = [*skills, *suites]
    repeated = {f"{record.path}: {problem}" for record in records for problem in record.problems}
    own_problems = [problem for problem in store.problems if problem not in repeated]
    findings = [Finding("reading", problem).in_file(path) for problem in own_problems]
    read = _Read(skills, suites, shared_concepts(skills))
    for record in records:
        name = record.path if isinstance(record, Suite) else f"skills/{record.slug}/{FILE_NAME}"
        findings += _findings_in(record, path / name, read, path)
    findings += (Finding("store", problem).in_file(path) for problem in store_problems(store))
    return description, findings


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
        if (rule := next(rule for words, rule in _RULES.items() if re.search(words, problem)))
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
    findings: list[Finding] = []
    skills = list(_read_files(_files_below(root, FILE_NAME), read_skill, findings))
    tables = (f for f in _files_below(root, PROMPTS) if f.parts[-4:-2] == ("evals", "skills"))
    slugs = {file: file.parent.name for file in tables}
    for folder in {root, *(file.parent.parent for file, _ in skills)}:
        slugs = {file: slug for slug, file in prompts_by_skill(folder).items()} | slugs
    suites = list(_read_files(slugs, lambda file: read_suite(file, skill=slugs[file]), findings))
    if not (skills or suites or findings):
        raise StudyError(
            f"check --evals: below {root} there is no {FILE_NAME} and no prompts in {_LOOKED}."
        )
    for file, skill in skills:
        messages = [
            *_storing_messages(skill.slug, partial(tree_of, file.parent)),
            *(("reading", problem) for problem in skill.problems),
            *untestable_messages(skill),
            *_link_messages(skill, file, root),
        ]
        findings += (Finding(*message).in_file(file) for message in messages)
    for file, suite in suites:
        messages = [("reading", problem) for problem in suite.problems]
        messages += _storing_messages(suite.slug, partial(suite_files, suite, file))
        findings += (Finding(*message).in_file(file) for message in messages)
    for file, *message in _messages_of_several(skills, suites):
        findings.append(Finding(*message).in_file(file))
    n_cases = sum(len(suite.cases) for _, suite in suites)
    looked = f" in {_LOOKED}" * (not n_cases)
    return (
        f"'{root}': {plural(len(skills), 'skill')}, {plural(n_cases, 'prompt')}{looked}",
        findings,
    )


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


def _read_files(
    files: Iterable[Path], read: Callable[[Path], Any], findings: list[Finding]
) -> Iterator[tuple[Path, Any]]:
    """Yield each file with its skill or suite; append a finding to `findings` if reading fails."""
    for file in files:
        try:
            yield file, read(file)
        except SkillcompError as error:
            findings.append(Finding("reading", str(error)).in_file(file))


def _link_messages(skill: Skill, file: Path, root: Path) -> RuleMessages:
    for name in first_distinct(match[1] for match in _LINK.finditer(skill.body)):
        target = unquote(name.partition("#")[0])
        if not target or _ELSEWHERE.match(name):
            continue
        place = file.parent / PurePosixPath(target)
        where = f"line {line_with(skill, name)}: '{name}'"
        # use realpath, because Path.resolve raises an error for a symbolic link to itself
        if "\0" not in target and not Path(realpath(place)).is_relative_to(root.resolve()):
            yield "link_outside", f"{where} leads out of {root}."
        # an invalid name, such as one that is too long, also counts as missing
        elif not exists(place):
            yield "link_missing", f"{where} is not there."


def _messages_of_several(
    skills: list[tuple[Path, Skill]], suites: list[tuple[Path, Suite]]
) -> Iterator[tuple[Any, ...]]:
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
    for kind, what, rows, names in _faulty_rows(tables):
        if len(rows):
            first = ", ".join(f"{name} '{rows[name].iloc[0]}'" for name in names)
            problems.append(f"{kind}: rows {what}: {len(rows)}; the first: {first}.")
    # if the attempts are invalid, reading the verdicts raises the same error; list it once
    return list(dict.fromkeys(problems))


def _faulty_rows(
    tables: Mapping[str, pd.DataFrame],
) -> Iterator[tuple[str, str, pd.DataFrame, list[str]]]:
    """Compare the frames that could be read; frames that could not are problems themselves.

    Yield a table, what is wrong with rows of it, these rows, and the columns that identify the
    first one.
    """
    if "attempts" not in tables:
        return  # then the verdicts cannot be read either
    compared = "attempts", "verdicts", "gold", "pairwise"
    attempts, verdicts, gold, pairwise = (tables.get(kind, empty(kind)) for kind in compared)
    if (cases := tables.get("cases")) is not None:
        lost = _rows_without(attempts, ["case_id"], cases)
        yield "attempts", "that answer a case that no suite has", lost, ["attempt_id", "case_id"]
        other = _rows_without(attempts.drop(lost.index), ["skill", "case_id"], cases)
        what = "that name another skill than their case"
        yield "attempts", what, other, ["attempt_id", "skill", "case_id"]
    copies = attempts.dropna(subset="source_attempt_id")
    orphans = _rows_without(copies, ["source_attempt_id"], attempts, ["attempt_id"])
    what = "that are copies of an attempt that is not there"
    yield "attempts", what, orphans, ["attempt_id", "source_attempt_id"]
    status = verdicts["attempt_id"].map(attempts.set_index("attempt_id")["status"])
    judged = verdicts[status.notna() & status.ne("ok") & verdicts["passed"].notna()]
    yield "verdicts", "that judge an attempt whose status is not ok", judged, _ITEM
    keys = [verdicts["grader"], verdicts["round"].fillna(1)]
    unversioned = verdicts["grader_version"].isna()
    mixed = verdicts[unversioned & ~unversioned.groupby(keys).transform("all")]
    what = "without the grader_version that other rows of the grader have"
    yield "verdicts", what, mixed, [*_ITEM, "grader"]
    lost = _rows_without(gold, ["attempt_id"], attempts)
    yield "gold", "that label an attempt that is not there", lost, _ITEM
    if (checks := tables.get("checks")) is not None:
        unknown = _rows_without(verdicts, _CHECK, checks)
        yield "verdicts", "that judge a check that their case does not have", unknown, _ITEM
        labels = gold.merge(attempts[["attempt_id", "skill", "case_id"]], on="attempt_id")
        unknown = _rows_without(labels, _CHECK, checks)
        yield "gold", "that label a check that their case does not have", unknown, _ITEM
    for name in ("first", "second"):
        lost = _rows_without(pairwise, [name], attempts, ["attempt_id"])
        yield "pairwise", "that compare an attempt that is not there", lost, ["case_id", name]
    winner = pairwise["winner"]
    neither = winner.ne("tie") & winner.ne(pairwise["first"]) & winner.ne(pairwise["second"])
    what = "that name a winner that is neither of the two compared"
    yield "pairwise", what, pairwise[neither], ["case_id", "winner"]


def _rows_without(
    rows: pd.DataFrame, names: list[str], other: pd.DataFrame, others: list[str] | None = None
) -> pd.DataFrame:
    """Return the rows whose values in `names` no row of `other` has (there, in `others`)."""
    present = pd.MultiIndex.from_frame(other[others or names])
    return rows[~pd.MultiIndex.from_frame(rows[names]).isin(present)]
