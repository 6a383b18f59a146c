"""Read a ``task_suite.yaml`` of version 1.0: tasks with judges, and every fault with its line.

The files that belong to a suite of any kind are found here, with their places in a store.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from os.path import isdir, isfile
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from skillcomp.errors import SuiteError, literal, problem_list, suggest
from skillcomp.io.files import (
    INPUTS,
    MAX_FILES,
    MAX_TREE,
    MAX_YAML,
    JsonObject,
    as_number,
    as_text,
    bases_of,
    entry_problem,
    inside,
    is_below,
    leaves,
    line_of,
    open_file,
    read_own,
    read_yaml,
    sentence_at,
    shown,
)
from skillcomp.records import JUDGES, Case, Check, Suite, TaskJudge

FILE_NAME = "task_suite.yaml"
VERSION = "1.0"
# Folders next to the suite's file, for the files of judges and for the reference answers.
FIXTURES, REFERENCES = "fixtures", "reference"
THRESHOLD = 0.7  # Default of pass_threshold, the lowest score (from 0 to 1) that passes.
_TASK_KEYS = ("id", "description", "prompt", "judge", "timeout_seconds")
# skillcomp's own key in a task, which version 1.0 lacks; live.probe reads it from `Case.extra`
_TASK_OURS = ("refusal",)
_SUITE_KEYS = ("skill_id", "version", "tasks")
_JUDGE_KEYS = {
    "contains": ("expected",),
    "pytest": ("test_file",),
    "llm-rubric": ("rubric", "pass_threshold"),
}
_TEXT, _JUDGES = "text that is not empty", ", ".join(JUDGES)
_IS_ONE = re.compile(r"^[\"']?(?:skill_id|tasks)[\"']?\s*:", re.MULTILINE)


def is_task_suite(path: Path) -> bool:
    """Return whether a path is the YAML file of a task suite, or a folder with one."""
    path = path / FILE_NAME if isdir(path) else path
    if path.suffix not in (".yaml", ".yml") or not isfile(path):
        return False
    with open_file(path, what="suite", error=SuiteError) as stream:
        text = stream.read(MAX_YAML).decode("utf-8", "replace")
    return path.name == FILE_NAME or bool(_IS_ONE.search(text))


def read_tasks(data: bytes, path: Path, slug: str | None) -> Suite:
    """Read a task file into a suite; see `skillcomp.read_suite`.

    Raises
    ------
    SuiteError
        If the file breaks a rule of the format; the message lists every fault on a line of its own.
    """
    content, node = read_yaml(path, what="suite", error=SuiteError, data=data)
    reader = _Reader(path, node)
    suite = reader.suite(content, slug)
    try:
        list(task_files(path.parent))
    except SuiteError as error:
        reader.faults.append(str(error))
    if reader.faults:
        raise SuiteError(problem_list(shown(path), reader.faults))
    return suite.model_copy(update={"problems": tuple(reader.notes)})


def _is_number(value: Any, most: float = sys.float_info.max) -> bool:
    """Return whether a value is a number above 0 and at most `most`, or missing."""
    return value is None or 0 < (as_number(value) or 0) <= most


def _are_texts(value: Any) -> bool:
    texts = value if isinstance(value, list) else [None]
    return bool(texts) and all(isinstance(text, str) and text for text in texts)


# For each key of the format: whether a value is allowed, what is allowed in words, and the value
# that a missing or broken one is read as. Keys that may be missing allow None.
_FIELDS: Mapping[str, tuple[Callable[[Any], bool], str, Any]] = {
    **dict.fromkeys(
        ("skill_id", "prompt", "rubric"),
        (lambda value: isinstance(value, str) and bool(value.strip()), _TEXT, ""),
    ),
    "version": (lambda value: value == VERSION, f'"{VERSION}" in quotes', ""),
    "tasks": (lambda value: isinstance(value, list) and bool(value), "a list of tasks", []),
    "id": (lambda value: as_text(value) is not None, _TEXT, ""),
    "description": (lambda value: isinstance(value, str), "text", ""),
    "timeout_seconds": (_is_number, "a number above 0", None),
    "judge": (lambda value: isinstance(value, dict), f"a block with type: {_JUDGES}", None),
    "type": (lambda value: value in JUDGES, " or ".join(JUDGES), None),
    "expected": (_are_texts, "a list of texts, none of them empty", ()),
    "test_file": (
        lambda value: isinstance(value, str) and value.startswith(f"{FIXTURES}/"),
        f"a file below {FIXTURES}/",
        None,
    ),
    "pass_threshold": (lambda value: _is_number(value, 1.0), "a number above 0 up to 1", THRESHOLD),
}


class _Reader:
    """Turn the parsed file into records; collect errors, and other deviations from the format."""

    def __init__(self, path: Path, node: yaml.Node | None) -> None:
        self.path, self.node = path, node
        self.faults: list[str] = []
        self.notes: list[str] = []
        self.lines: dict[str, int] = {}  # the line of each id

    def fault(self, place: Sequence[Any], value: Any, allowed: str, hint: str = "") -> None:
        problem = "missing" if value is None else f"found {literal(value)}"
        sentence = sentence_at(self.node, place, f"{problem}; expected {allowed}.{hint}")
        self.faults.append(f"{shown(self.path)}, {sentence}")

    def value(self, row: Mapping[Any, Any], key: str, place: Sequence[Any] = ()) -> Any:
        """Return the value of a key; record a fault if it is not allowed."""
        value, (is_allowed, allowed, otherwise) = row.get(key), _FIELDS[key]
        if is_allowed(value):
            return otherwise if value is None else value
        near = (key, map(str, row)) if value is None else (str(value), allowed.split(" or "))
        self.fault([*place, key], value, allowed, suggest(*near))
        return otherwise

    def others(
        self, row: Mapping[Any, Any], known_keys: Sequence[str], place: Sequence[Any]
    ) -> JsonObject:
        """Return the entries with unknown keys; record each, except `refusal`, as a problem."""
        others = {str(key): value for key, value in row.items() if key not in known_keys}
        for key in (key for key in others if key not in _TASK_OURS):
            sentence = f"not a known key.{suggest(key, known_keys)}"
            self.notes.append(sentence_at(self.node, [*place, key], sentence))
        return others

    def suite(self, content: Mapping[Any, Any], slug: str | None) -> Suite:
        skill, _, tasks = (self.value(content, key) for key in _SUITE_KEYS)
        slug = slug or (skill if self.path.name == FILE_NAME else self.path.stem)
        cases = tuple(self.case(task, ["tasks", i], slug) for i, task in enumerate(tasks))
        extra = self.others(content, _SUITE_KEYS, [])
        return Suite(slug=slug, skill=skill, kind="tasks", cases=cases, extra=extra)

    def case(self, row: Any, place: list[Any], slug: str) -> Case:
        if not isinstance(row, dict):
            self.fault(place, row, "a task with id, prompt and judge")
            return Case(case_id=f"{slug}/{place[-1]}", prompt="")
        at = [*place, "id"]
        ident = str(self.value(row, "id", place)) or f"task-{place[-1] + 1}"
        if ident in self.lines:
            first = f"an id of its own; the first '{ident}' stands in line {self.lines[ident]}"
            self.fault(at, ident, first)
        self.lines.setdefault(ident, line_of(self.node, at))
        description = self.value(row, "description", place) if "description" in row else ""
        judge = self.judge(self.value(row, "judge", place), [*place, "judge"])
        return Case(
            case_id=f"{slug}/{ident}",
            prompt=self.value(row, "prompt", place),
            checks=(Check(check_id=judge.type, description=description, judge=judge),),
            timeout_seconds=self.value(row, "timeout_seconds", place),
            extra=self.others(row, _TASK_KEYS, place),
        )

    def judge(self, row: Mapping[Any, Any] | None, place: list[Any]) -> TaskJudge:
        kind = None if row is None else self.value(row, "type", place)
        if row is None or kind is None:
            return TaskJudge(type="contains")
        keys = _JUDGE_KEYS[kind]
        self.others(row, ("type", *keys), place)
        fields = {key: self.value(row, key, place) for key in keys}
        if (name := fields.get("test_file")) is not None:
            self.check_test_file(name, [*place, "test_file"])
        return TaskJudge(type=kind, **fields)

    def check_test_file(self, name: str, place: list[Any]) -> None:
        folder, file, near = self.path.parent / FIXTURES, self.path.parent / name, ""
        if leaves(name) or "\0" in name or not name.endswith(".py"):
            allowed = f"a .py file below {FIXTURES}/, without '..'"
        elif not isfile(file):
            near = suggest(file.name, [p.name for p in folder.glob("*.py")])
            allowed = f"a file that is there; {shown(file)} is not"
        elif not is_below(file, folder) or folder.is_symlink():
            allowed = f"a file below {FIXTURES}/; the link leads out of it"
        else:
            return
        self.fault(place, name, allowed, near)


def task_files(folder: Path, *parts: str) -> Iterator[str]:
    """Yield the names of files that the judges of a suite may need, of all or some folders.

    Raises
    ------
    SuiteError
        If an entry is not a regular file inside its folder, or its name is not UTF-8.
    """
    for part in parts or (FIXTURES, REFERENCES):
        for file in sorted((folder / part).rglob("*")):
            name = file.relative_to(folder)
            if file.is_dir() or "__pycache__" in name.parts or name.name.startswith("."):
                continue
            if problem := entry_problem(file, folder / part):
                raise SuiteError(f"{folder}: {problem}; nothing was read.")
            yield name.as_posix()


def reference_of(folder: Path, case: Case) -> str | None:
    """Return the reference answer of a task, ``reference/<id>.*``, or None."""
    for name in task_files(folder, REFERENCES):
        if PurePosixPath(name).stem == case.own_id:
            data = read_own(folder / name, what="reference answer", error=SuiteError)
            return data.decode("utf-8", "replace")
    return None


def file_place(place: str, slug: str, name: str) -> str:
    """Return the path in a store for the file `name` of a suite; `place` is the suite's path."""
    inner = f"{INPUTS}/{slug}/{name}"
    if place.endswith(FILE_NAME):
        inner = f"{place.removesuffix(FILE_NAME)}{name}"
    if leaves(name) or leaves(inner):
        raise SuiteError(f"suite '{slug}': files: {literal(name)} leads out of the store.")
    return inner


def suite_files(suite: Suite, file: Path) -> dict[str, Path]:
    """Return the files that belong to a suite, by their relative names.

    Comprehension and trigger cases need their input files and schemas; tasks need the files of
    their judges.

    Raises
    ------
    SuiteError
        If a name leads outside the folder, a file is missing, or there are too many files or bytes.
    """
    if suite.kind == "tasks":
        files = {name: file.parent / name for name in task_files(file.parent)}
    else:
        files = {}
        for case in suite.cases:
            schema = case.extra.get("output_schema") if "schema" in case.extra else None
            for name in (*names_of_files(case.extra), *([schema] if schema else [])):
                if leaves(name):
                    raise SuiteError(
                        f"case '{case.case_id}': files: '{name}' leads elsewhere; allowed are "
                        "names relative to the suite's folder."
                    )
                place = inside(name, bases_of(file))
                if place is None or not place.is_file() or place.resolve() == file.resolve():
                    raise SuiteError(f"case '{case.case_id}': files: there is no file '{name}'.")
                files[name] = place
    n_bytes = sum(place.stat().st_size for place in files.values())
    if n_bytes > MAX_TREE or len(files) > MAX_FILES:
        raise SuiteError(
            f"{file}: {len(files):,} files with {n_bytes:,} bytes belong to it; allowed are "
            f"{MAX_FILES:,} with {MAX_TREE:,}."
        )
    return files


def names_of_files(extra: JsonObject) -> list[str]:
    """Return the names listed under ``files`` of a case; empty if ``files`` is not a list."""
    listed = extra.get("files")
    return [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []
