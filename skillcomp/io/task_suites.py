"""Read a ``task_suite.yaml`` of version 1.0: tasks with judges, and every fault with its line.

The files that belong to a suite of any kind are found here, with their places in a store.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
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
    bases_of,
    entry_problem,
    inside,
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
_JUDGE_KEYS = {
    "contains": ("type", "expected"),
    "pytest": ("type", "test_file"),
    "llm-rubric": ("type", "rubric", "pass_threshold"),
}
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


class _Reader:
    """Turn the parsed file into records; collect errors, and other deviations from the format."""

    def __init__(self, path: Path, node: yaml.Node | None) -> None:
        self.path, self.node = path, node
        self.faults: list[str] = []
        self.notes: list[str] = []

    def fault(self, place: Sequence[Any], value: Any, allowed: str, hint: str = "") -> None:
        problem = "missing" if value is None else f"found {literal(value)}"
        sentence = sentence_at(self.node, place, f"{problem}; expected {allowed}.{hint}")
        self.faults.append(f"{shown(self.path)}, {sentence}")

    def others(
        self, row: Mapping[Any, Any], known_keys: Sequence[str], place: Sequence[Any]
    ) -> JsonObject:
        """Return the entries with unknown keys; record each, except `refusal`, as a problem."""
        others = {str(key): value for key, value in row.items() if key not in known_keys}
        for key in (key for key in others if key not in _TASK_OURS):
            sentence = f"not a known key.{suggest(key, known_keys)}"
            self.notes.append(sentence_at(self.node, [*place, key], sentence))
        return others

    def text(self, row: Mapping[Any, Any], key: str, place: Sequence[Any]) -> str:
        """Return the text under a key; if it is missing or empty, record a fault and return ""."""
        value = row.get(key)
        if isinstance(value, str) and value.strip():
            return value
        self.fault([*place, key], value, "text that is not empty")
        return ""

    def number(
        self, row: Mapping[Any, Any], key: str, place: Sequence[Any], top: float
    ) -> float | None:
        """Return a number above 0 and at most `top`; None if it is missing or out of range."""
        value = row.get(key)
        if value is None:
            return None
        number = as_number(value)
        if number is not None and 0 < number <= top and math.isfinite(number):
            return float(number)
        self.fault([*place, key], value, "a number above 0" + f" up to {top:g}" * (top < math.inf))
        return None

    def suite(self, content: Mapping[Any, Any], slug: str | None) -> Suite:
        skill = self.text(content, "skill_id", [])
        version = content.get("version")
        if version != VERSION:
            hint = f' Write it in quotes: version: "{VERSION}".' if version == 1.0 else ""
            self.fault(["version"], version, f'"{VERSION}"', hint)
        tasks = content.get("tasks")
        if not isinstance(tasks, list) or not tasks:
            self.fault(["tasks"], tasks, "a list of tasks", suggest("tasks", map(str, content)))
            tasks = []
        slug = slug or (skill if self.path.name == FILE_NAME else self.path.stem)
        lines: dict[str, int] = {}
        cases = [self.case(task, ["tasks", i], slug, lines) for i, task in enumerate(tasks)]
        extra = self.others(content, ("skill_id", "version", "tasks"), [])
        return Suite(slug=slug, skill=skill, kind="tasks", cases=tuple(cases), extra=extra)

    def case(self, row: Any, place: list[Any], slug: str, lines: dict[str, int]) -> Case:
        if not isinstance(row, dict):
            self.fault(place, row, "a task with id, prompt and judge")
            return Case(case_id=f"{slug}/{place[-1]}", prompt="")
        value, id_place = row.get("id"), [*place, "id"]
        ident = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
        if not isinstance(ident, str) or not ident.strip():
            self.fault(id_place, value, "text that is not empty")
            ident = f"task-{place[-1] + 1}"
        elif ident in lines:
            first = f"an id of its own; the first '{ident}' stands in line {lines[ident]}"
            self.fault(id_place, value, first)
        lines.setdefault(ident, line_of(self.node, id_place))
        description = row.get("description", "")
        if not isinstance(description, str):
            self.fault([*place, "description"], description, "text")
            description = ""
        judge = self.judge(row.get("judge"), [*place, "judge"])
        case = Case(
            case_id=f"{slug}/{ident}",
            prompt=self.text(row, "prompt", place),
            checks=(Check(check_id=judge.type, description=description, judge=judge),),
            timeout_seconds=self.number(row, "timeout_seconds", place, math.inf),
            extra=self.others(row, _TASK_KEYS, place),
        )
        try:
            case.model_dump_json()
        except ValueError:  # A YAML escape can produce a lone surrogate, which UTF-8 cannot encode.
            self.fault(place, ident, "texts that UTF-8 can hold")
        return case

    def judge(self, row: Any, place: list[Any]) -> TaskJudge:
        if not isinstance(row, dict):
            self.fault(place, row, f"a block with type: {', '.join(JUDGES)}")
            return TaskJudge(type="contains")
        kind = row.get("type")
        if kind not in JUDGES:
            self.fault([*place, "type"], kind, " or ".join(JUDGES), suggest(str(kind), JUDGES))
            return TaskJudge(type="contains")
        self.others(row, _JUDGE_KEYS[kind], place)
        if kind == "contains":
            expected = row.get("expected")
            texts = expected if isinstance(expected, list) else []
            if not texts or not all(isinstance(text, str) and text for text in texts):
                self.fault([*place, "expected"], expected, "a list of texts, none of them empty")
                texts = []
            return TaskJudge(type=kind, expected=tuple(texts))
        if kind == "pytest":
            return TaskJudge(type=kind, test_file=self.test_file(row.get("test_file"), place))
        threshold = self.number(row, "pass_threshold", place, 1.0)
        rubric = self.text(row, "rubric", place)
        return TaskJudge(type=kind, rubric=rubric, pass_threshold=threshold or THRESHOLD)

    def test_file(self, name: Any, place: list[Any]) -> str | None:
        where = [*place, "test_file"]
        if not isinstance(name, str) or not name.startswith(f"{FIXTURES}/"):
            self.fault(where, name, f"a file below {FIXTURES}/")
            return None
        folder = self.path.parent / FIXTURES
        pure = PurePosixPath(name)
        if ".." in pure.parts or "\\" in name or "\0" in name or pure.suffix != ".py":
            self.fault(where, name, f"a .py file below {FIXTURES}/, without '..'")
        elif not isfile(file := self.path.parent / pure):
            near = suggest(pure.name, [p.name for p in folder.glob("*.py")])
            self.fault(where, name, f"a file that is there; {shown(file)} is not", near)
        elif not file.resolve().is_relative_to(folder.resolve()) or folder.is_symlink():
            self.fault(where, name, f"a file below {FIXTURES}/; the link leads out of it")
        return name


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
