"""Read the test cases of skill-creator: ``evals/evals.json`` and sets of trigger queries.

Several tools use the same file names, so files are recognised by their content. The fields are from
``references/schemas.md`` and ``scripts/run_eval.py`` of the skill ``skill-creator`` in the
repository anthropics/skills, read in November 2026. A field or an assertion that has no counterpart
stays in the ``extra`` of its case and is listed in ``Suite.problems``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from skillcomp.errors import SuiteError, literal
from skillcomp.io.files import (
    MAX_FILES,
    JsonObject,
    as_object,
    id_problem,
    inside,
    is_below,
    json_or_none,
    text_at,
)
from skillcomp.io.skills import FILE_NAME
from skillcomp.io.trigger_suites import FILE as PROMPTS
from skillcomp.io.trigger_suites import base_folders, kind_of_prompt, trigger_check
from skillcomp.records import Case, Check, Suite

# folders in which repositories keep the trigger prompts of a skill; SKILL stands for its folder
PLACES = (
    *("evals/skills/SKILL", "evals/SKILL", "skills/SKILL/evals", "skills/SKILL"),
    *("SKILL/evals", "SKILL", "plugins/*/skills/SKILL/evals", "plugins/*/evals/SKILL"),
)
_MARKS = ("expectations", "assertions", "expected_output")
_COMPREHENSION = ("expected_behaviors", "comprehension_dimension", "concept_field", "truth_sources")
_KEYS = ("id", "prompt", "files", "expectations", "assertions", "should_trigger")
_PROSE = ("expected_output", "name", "slug", "eval_name", "description", "category", "tags")
# keys that other tools add to this format; each changes the question or the grading
_OTHERS = (
    *("turns", "responder", "codebase", "files_root", "isolation", "tools", "tool_choice"),
    *("tool_assertions", "params", "setup_files", "force_skill_invocation", "stage_files"),
    *("side_effect_level", "side_effect_contract", "forbidden_behaviors"),
)
_TEXTS = ("rubric", "text", "description", "assertion", "expectation", "name")
_JUDGED = (None, "llm_judge", "llm-judge", "llm")
_OF_QUERY = ("id", "category", "reason", "expected_skill", "name", "notes")
# phrases in the sentences of ``Suite.problems``; from them, `skillcomp check` infers how severe a
# problem is
NOT_MAPPED = "has no counterpart and is not checked"
KEPT = "is kept in extra"


def is_evals(content: Any) -> bool:
    """Return whether parsed JSON has the shape of skill-creator's evals.json."""
    rows = _rows_of(content, "evals")
    keys = {key for row in rows for key in row}
    return bool(rows) and bool(keys & {*_MARKS}) and not keys & {*_COMPREHENSION}


def is_trigger_set(content: Any) -> bool:
    """Return whether parsed JSON lists queries (``query``) with ``should_trigger``."""
    rows = _rows_of(content, "queries")
    is_set = bool(rows) and all("query" in row for row in rows) and "should_trigger" in rows[0]
    return is_set and not rows[0].keys() & {"triggers", "runs"}  # these are results


def trigger_set_in(folder: Path) -> Path | None:
    """Return the first JSON file of a folder that is a set of trigger queries, or None.

    Files with names that begin with "trigger" come first.
    """
    files = sorted(folder.glob("*.json"), key=lambda f: (not f.name.startswith("trigger"), f.name))
    for file in files:
        if is_below(file, folder) and is_trigger_set(json_or_none(file)):
            return file
    return None


def prompts_by_skill(root: Path) -> dict[str, Path]:
    """Return the trigger prompts of each skill below a folder, from the first place that has any.

    The places are PLACES; a place holds a prompts.csv or a JSON set of trigger queries.
    """
    found: dict[str, Path] = {}
    for place in PLACES:
        at = place.split("/").index("SKILL")
        for folder in sorted(root.glob(f"{place.replace('SKILL', '*')}/")):
            table = folder / PROMPTS
            file = table if table.is_file() else trigger_set_in(folder)
            slug = folder.relative_to(root).parts[at]
            if file is not None and is_below(file, root) and slug not in ("evals", "skills"):
                found.setdefault(slug, file)
    if (root / FILE_NAME).is_file() and (file := trigger_set_in(root / "evals")) is not None:
        found.setdefault(root.resolve().name, file)  # the repository is a skill
    return found


def suites_of_skill(folder: Path) -> list[Path]:
    """Return the suite files in the folder ``evals`` of a skill; `folder` is the skill's folder."""
    evals = folder / "evals"
    files = [evals / "evals.json", trigger_set_in(evals)]
    return [file for file in files if file is not None and file.is_file()]


def _rows_of(content: Any, key: str) -> list[JsonObject]:
    rows = content.get(key) if isinstance(content, dict) else content
    is_listed = isinstance(rows, list) and all(isinstance(row, dict) for row in rows)
    return rows if is_listed and rows is not None else []


def read_evals(content: Any, file: Path, slug: str | None, skill: str | None) -> Suite:
    """Turn a parsed evals.json into a suite; see `skillcomp.read_suite`."""
    top = as_object(content)
    skill = skill or _named_skill(top, file)
    slug = slug or skill
    reader = _Reader(slug, base_folders(file, slug))
    others = [key for key in top if key not in ("skill_name", "evals")]
    reader.problems += [f"'{key}' {KEPT}." for key in others]
    rows = _rows_of(content, "evals")
    cases = tuple(reader.case(row, number) for number, row in enumerate(rows))
    reader.note_repeats("evals", [case.own_id for case in cases])
    return Suite(
        slug=slug,
        skill=skill,
        kind="skill-creator",
        cases=cases,
        extra={key: top[key] for key in others},
        problems=tuple(reader.problems),
    )


def read_trigger_set(content: Any, file: Path, slug: str | None, skill: str | None) -> Suite:
    """Turn a parsed set of trigger queries into a suite; see `skillcomp.read_suite`."""
    skill = skill or _named_skill(as_object(content), file)
    slug = slug or f"{skill}-triggers"
    reader = _Reader(slug, [])
    rows = _rows_of(content, "queries")
    cases = tuple(reader.query(row, number, skill) for number, row in enumerate(rows))
    reader.note_repeats("queries", [case.prompt for case in cases], "query")
    reader.note_repeats("queries", [case.own_id for case in cases])
    problems = tuple(reader.problems)
    return Suite(slug=slug, skill=skill, kind="trigger-set", cases=cases, problems=problems)


def _named_skill(top: JsonObject, file: Path) -> str:
    """Return the name of the skill that a file tests.

    This is the file's ``skill_name``, else the folder above ``evals``, else the file's stem.
    """
    name = top.get("skill_name")
    if isinstance(name, str) and name.strip():
        return name.strip()
    folder = file.resolve().parent
    return folder.parent.name if folder.name == "evals" else file.stem


class SuiteReader:
    """Base class of the readers of a suite, which collect deviations from the format."""

    def __init__(self, slug: str) -> None:
        self.slug = slug
        self.problems: list[str] = []

    def note(self, place: str, sentence: str) -> None:
        """Add a problem; `place` is empty for a problem of the whole suite."""
        self.problems.append(f"{place}: {sentence}" if place else sentence)

    def note_repeats(self, place: str, names: Iterable[str], what: str = "id") -> None:
        """Add a problem for each name that occurs more than once."""
        for name, n in Counter(names).items():
            if n > 1:
                self.note(place, f"the {what} '{name:.60}' stands {n} times.")

    def trigger(self, value: Any, place: str, key: str = "should_trigger") -> bool | None:
        """Return whether the skill should trigger; None if it is unknown, or no truth value."""
        if not isinstance(value, bool | None):
            self.note(place, f"{key}: found {literal(value)}; allowed: true, false.")
            return None
        return value


class _Reader(SuiteReader):
    """Turn the rows of a file into cases, and collect the parts unknown to skillcomp."""

    def __init__(self, slug: str, bases: list[Path]) -> None:
        super().__init__(slug)
        self.bases = bases

    def ident(self, row: JsonObject, fields: Sequence[str], otherwise: str) -> str:
        return next(filter(None, (text_at(row, field) for field in fields)), otherwise)

    def case(self, row: JsonObject, number: int) -> Case:
        ident, otherwise = self.ident(row, ("id",), ""), f"case-{number + 1}"
        if not ident:
            ident = self.ident(row, ("eval_name", "name", "slug"), otherwise)
            ident = otherwise if id_problem(ident) else ident  # a name may be a sentence
        place = f"evals[{number}] (id {ident})"
        prompt = row.get("prompt")
        if not isinstance(prompt, str) or not prompt.strip():
            self.note(place, f"prompt: found {literal(prompt)}; there is nothing to ask.")
            prompt = ""
        trigger_key = "skill_should_trigger" if "skill_should_trigger" in row else "should_trigger"
        checks, unmapped = self.checks(row, place)
        extra = {key: value for key, value in row.items() if key not in (*_KEYS, trigger_key)}
        for key in extra:
            if key in _OTHERS:
                self.note(place, f"'{key}' {NOT_MAPPED}; it {KEPT}.")
            elif key not in _PROSE:
                self.note(place, f"'{key}' {KEPT}.")
        names = self.files(row.get("files"), place)
        extra |= {"files": names} if names else {}
        extra |= {"unmapped": unmapped} if unmapped else {}
        trigger = self.trigger(row.get(trigger_key), place, trigger_key)
        return Case(
            case_id=f"{self.slug}/{ident}",
            prompt=prompt,
            checks=checks,
            should_trigger=trigger,
            extra=extra,
        )

    def checks(self, row: JsonObject, place: str) -> tuple[tuple[Check, ...], list[JsonObject]]:
        """Return the checks that a grader can judge, and the expectations that have no check."""
        unmapped = []
        key = "expectations" if row.get("expectations") else "assertions"
        if key == "expectations" and row.get("assertions"):
            both = f"'assertions' {NOT_MAPPED}, since there are expectations too; it {KEPT}."
            self.note(place, both)
            unmapped.append({"assertions": row["assertions"]})
        listed = row.get(key)
        if not isinstance(listed, list | None):
            self.note(place, f"{key}: found {literal(listed)}; expected a list.")
            listed = []
        if not listed:
            expected = "expected_output is prose for people" if row.get("expected_output") else ""
            sentence = "no expectations; a grader has nothing to decide."
            self.note(place, f"{sentence} {expected}".strip())
        checks = []
        for number, item in enumerate(listed or (), start=1):
            check = self.check(item, number)
            if check is not None:
                checks.append(check)
                continue
            unmapped.append(item if isinstance(item, dict) else {key: item})
            kind = as_object(item).get("type")
            what = f"the type '{kind}'" if kind else literal(item)
            self.note(f"{place}: {key}[{number - 1}]", f"{what} {NOT_MAPPED}; it {KEPT}.")
        self.note_repeats(f"{place}: {key}", [check.check_id for check in checks])
        return tuple(checks), unmapped

    def check(self, item: Any, number: int) -> Check | None:
        """Return the check for an expectation; None if a grader cannot judge it."""
        row = {"text": item} if isinstance(item, str) else item
        if not isinstance(row, dict) or row.get("type") not in _JUDGED:
            return None
        texts = (row.get(key) for key in _TEXTS)
        text = next((text for text in texts if isinstance(text, str) and text.strip()), None)
        if text is None:
            return None
        fields = ("id",) if text == row.get("name") else ("id", "name")
        return Check(check_id=self.ident(row, fields, f"expectation-{number}"), description=text)

    def files(self, listed: Any, place: str) -> list[str]:
        """Return the names of a case's files; a folder is replaced by its files."""
        names = []
        if not isinstance(listed, list | None):
            self.note(place, f"files: found {literal(listed)}; expected a list of names.")
            listed = []
        for name in listed or ():
            at = inside(name, self.bases) if isinstance(name, str) else None
            if at is None:
                self.note(place, f"files: there is no file {literal(name)} in the skill's folder.")
                continue
            if at.is_dir():
                names += [
                    f"{name.rstrip('/')}/{file.relative_to(at).as_posix()}"
                    for file in sorted(at.rglob("*"))
                    if file.is_file() and is_below(file, self.bases[-1])
                ]
            else:
                names.append(name)
        if len(names) > MAX_FILES:
            raise SuiteError(f"{place}: {len(names):,} files; allowed are {MAX_FILES:,}.")
        return names

    def query(self, row: JsonObject, number: int, skill: str) -> Case:
        ident = self.ident(row, ("id",), f"query-{number + 1}")
        place = f"queries[{number}] (id {ident})"
        prompt = row["query"] if isinstance(row["query"], str) else ""
        if not prompt.strip():
            self.note(place, f"query: found {literal(row['query'])}; there is nothing to ask.")
        trigger = self.trigger(row.get("should_trigger"), place)
        if row.get("should_trigger") is None:
            self.note(place, "should_trigger: missing; allowed: true, false.")
        others = {k: v for k, v in row.items() if k not in ("query", "should_trigger")}
        for key in others:
            if key not in _OF_QUERY:
                self.note(place, f"'{key}' {KEPT}.")
        right = row.get("expected_skill")
        return Case(
            case_id=f"{self.slug}/{ident}",
            prompt=prompt,
            checks=() if trigger is None else (trigger_check(trigger),),
            should_trigger=trigger,
            prompt_kind=kind_of_prompt(prompt, skill, trigger),
            right_skills=(right,) if isinstance(right, str) and right else None,
            extra=others,
        )
