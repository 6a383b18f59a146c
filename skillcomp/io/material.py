"""What belongs to a skill or a case beside its text: the skill's other files, a case's input."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import orjson

from skillcomp.errors import SkillError, SuiteError
from skillcomp.io.tasks import FILE_NAME, FIXTURES, REFERENCES, is_task_suite, task_files
from skillcomp.records import Suite

MAX_FILES, MAX_BYTES = 1000, 50_000_000  # of one skill's folder, or of the input of one suite
INPUTS = "inputs"  # folder of a store
_SUITE_KEYS = ("evals", "routing_cases")
_LEFT_OUT = ("evals", "eval", "task_suites", "__pycache__", "node_modules")


def skill_files(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield name and place of every file of a skill's folder, SKILL.md included, in order.

    Left out is what an agent must not see: hidden files, and what tests the skill (folders
    ``evals``, files that hold a suite, fixtures and reference answers beside them).

    Raises
    ------
    SkillError
        When there are too many files or bytes, or a link leads out of the folder or to a folder.
    """
    n_bytes = n_files = 0
    for root, folders, names in os.walk(folder):
        tests = any(is_task_suite(Path(root) / name) for name in names)
        hidden = (FIXTURES, REFERENCES) if tests else ()
        folders[:] = sorted(n for n in folders if _is_shown(n) and n not in hidden)
        for name in folders:
            if (Path(root) / name).is_symlink():
                raise SkillError(f"{Path(root) / name}: a link to a folder; put the folder there.")
        for name in sorted(names):
            file = Path(root) / name
            if not _is_shown(name) or _is_suite(file):
                continue
            if not file.resolve().is_relative_to(folder.resolve()) or not file.is_file():
                raise SkillError(f"{file}: no file of the skill's own folder; nothing was copied.")
            n_files, n_bytes = n_files + 1, n_bytes + file.stat().st_size
            if n_files > MAX_FILES or n_bytes > MAX_BYTES:
                raise SkillError(
                    f"{folder}: more than {MAX_FILES:,} files or {MAX_BYTES // 1_000_000} MB; a "
                    "skill's folder may hold no more, since it is copied for every question."
                )
            yield file.relative_to(folder).as_posix(), file


def _is_shown(name: str) -> bool:
    return not name.startswith(".") and name not in _LEFT_OUT


def _is_suite(file: Path) -> bool:
    if is_task_suite(file):
        return True
    if file.suffix != ".json" or file.stat().st_size > MAX_BYTES:
        return False
    try:
        found = orjson.loads(file.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return False
    return isinstance(found, dict) and any(key in found for key in _SUITE_KEYS)


def tree_of(folder: Path) -> dict[str, Any] | None:
    """Return hash and size of a skill's folder; None when there is nothing beside SKILL.md."""
    whole, n_files, n_bytes = hashlib.sha256(), 0, 0
    for name, file in skill_files(folder):
        data = file.read_bytes()
        mode = "x" if os.access(file, os.X_OK) else "-"
        whole.update(f"{name}\n{mode}\n{hashlib.sha256(data).hexdigest()}\n".encode())
        n_files, n_bytes = n_files + 1, n_bytes + len(data)
    if n_files < 2:
        return None
    return {"sha256": whole.hexdigest(), "n_files": n_files, "bytes": n_bytes}


def copy_skill(folder: Path, target: Path) -> None:
    """Copy the files of a skill's folder."""
    for name, file in skill_files(folder):
        place = target / name
        if place.resolve() != file.resolve():
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, place)


def suite_place(suite: Suite, slug: str, suffix: str) -> str:
    """Return where a store keeps the file of a suite."""
    return f"suites/{slug}/{FILE_NAME}" if suite.kind == "tasks" else f"suites/{slug}{suffix}"


def file_place(place: str, slug: str, name: str) -> str:
    """Return where a store keeps a file that belongs to the suite at `place`."""
    if place.endswith(FILE_NAME):
        return f"{place.removesuffix(FILE_NAME)}{name}"
    return f"{INPUTS}/{slug}/{name}"


def suite_files(suite: Suite, file: Path) -> dict[str, Path]:
    """Return the files that belong to a suite, by the name that they have beside it.

    Of comprehension cases, what they list as their input; of tasks, what their judges need.

    Raises
    ------
    SuiteError
        When a name leads elsewhere, there is no such file, or there are too many bytes.
    """
    if suite.kind == "tasks":
        found = {name: file.parent / name for name in task_files(file.parent)}
    else:
        found = _case_files(suite, file)
    n_bytes = sum(one.stat().st_size for one in found.values())
    if n_bytes > MAX_BYTES or len(found) > MAX_FILES:
        raise SuiteError(
            f"{file}: {len(found):,} files with {n_bytes:,} bytes belong to it; allowed are "
            f"{MAX_FILES:,} with {MAX_BYTES:,}."
        )
    return found


def _case_files(suite: Suite, file: Path) -> dict[str, Path]:
    """Return what the cases of a suite list as their input, by the name it has there."""
    found: dict[str, Path] = {}
    for case in suite.cases:
        schema = case.extra.get("output_schema") if "schema" in case.extra else None
        for name in (*names_of_files(case.extra), *([schema] if schema else [])):
            if name in found:
                continue
            if _leaves(name):
                raise SuiteError(
                    f"case '{case.case_id}': files: '{name}' leads elsewhere; allowed are names "
                    "relative to the suite's folder."
                )
            place = inside(name, bases_of(file))
            if place is None or not place.is_file() or place.resolve() == file.resolve():
                raise SuiteError(f"case '{case.case_id}': files: there is no file '{name}'.")
            found[name] = place
    return found


def bases_of(file: Path) -> list[Path]:
    """Return the folder of a suite and that above ``evals``, from which names may count as well."""
    folder = file.resolve().parent
    for above in (folder, folder.parent.parent):
        if above.name == "evals" and (above == folder or folder.parent.name == "skills"):
            return [folder, above.parent]
    return [folder]


def inside(name: str, bases: list[Path]) -> Path | None:
    """Return what a name stands for in the first base that has it; None where it leads elsewhere.

    The last base is the widest; a link may lead to any place in it.
    """
    places = [] if _leaves(name) else [base / name for base in bases]
    return next((place for place in places if is_below(place, bases[-1])), None)


def is_below(place: Path, base: Path) -> bool:
    """Return whether there is something at a place and no link leads it out of a folder."""
    try:
        return place.exists() and place.resolve().is_relative_to(base.resolve())
    except (OSError, RuntimeError, ValueError):  # a name too long, a link that leads in a circle
        return False


def _leaves(name: str) -> bool:
    pure = PurePosixPath(name)
    return pure.is_absolute() or ".." in pure.parts or "\\" in name or not pure.parts


def names_of_files(extra: Mapping[str, Any]) -> list[str]:
    """Return the names under ``files`` of a case; what is no list of names counts as none."""
    listed = extra.get("files")
    return [one for one in listed if isinstance(one, str)] if isinstance(listed, list) else []
