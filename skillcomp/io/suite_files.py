"""Find the files that belong to a suite, and their places in a store."""

from __future__ import annotations

from pathlib import Path

from skillcomp.errors import SuiteError, literal
from skillcomp.io.files import INPUTS, MAX_FILES, MAX_TREE, JsonObject, bases_of, inside, leaves
from skillcomp.io.task_suites import FILE_NAME, task_files
from skillcomp.records import Suite


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
