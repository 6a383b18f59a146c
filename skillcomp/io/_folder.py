"""What stands in a store's folder beside its tables: the manifest, the skills and the suites."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any

import orjson

from skillcomp.errors import StoreError
from skillcomp.io import _journal
from skillcomp.io.skills import FILE_NAME, read_skill
from skillcomp.io.suites import read_suite
from skillcomp.io.tables import RECORDS
from skillcomp.records import Skill, Suite

FORMAT, VERSION = "skillcomp-store", 1
MANIFEST = "manifest.json"
OWN_NOTES = frozenset({"format", "version", "skills", "suites", "repairs"})
_SKILLS, _SUITES = f"skills/*/{FILE_NAME}", "suites/*.json"

Hashes = dict[Path, tuple[int, int, str]]  # file -> size, time of change in ns, sha256


class StoreWarning(UserWarning):
    """A store was found damaged in a way that could be repaired."""


def make(root: Path) -> None:
    """Make the folder of a store; refuse one that holds other things."""
    if root.exists() and not has_manifest(root):
        names = {file.name for file in root.iterdir() if not file.name.startswith(".")}
        strange = sorted(names - {"skills", "suites"})
        if strange and not names & {f"{table}.jsonl" for table in RECORDS}:
            raise StoreError(
                f"{root} holds other things ({', '.join(strange[:3])}) and no {MANIFEST}; "
                "name an empty or new folder for the store."
            )
    root.mkdir(parents=True, exist_ok=True)


def has_manifest(root: Path) -> bool:
    """Return whether the folder has a manifest."""
    return (root / MANIFEST).exists()


def read_manifest(root: Path) -> dict[str, Any]:
    """Return the manifest of a folder, a bare one where there is none yet."""
    file = root / MANIFEST
    try:
        manifest = orjson.loads(file.read_bytes())
    except FileNotFoundError:
        return {"format": FORMAT, "version": VERSION, "skills": {}, "suites": {}}
    except orjson.JSONDecodeError as cause:
        raise StoreError(f"{file}, line {cause.lineno}: not JSON ({cause.msg}).") from cause
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise StoreError(f"{file}: not the manifest of a store (no format '{FORMAT}').")
    if not isinstance(manifest.get("version"), int) or manifest["version"] > VERSION:
        raise StoreError(
            f"{file}: format version {manifest.get('version')!r}; this skillcomp reads up to "
            f"{VERSION}. A newer skillcomp wrote it."
        )
    return {"skills": {}, "suites": {}, **manifest}


def write_manifest(root: Path, **changes: Any) -> None:
    """Change entries of the manifest; a reader sees the old or the new one whole."""
    manifest = {**read_manifest(root), **changes}
    options = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE
    _journal.replace(root / MANIFEST, orjson.dumps(manifest, option=options))


def read_skills(root: Path) -> dict[str, Skill]:
    """Return the skills of a folder by slug, with paths relative to it."""
    return {
        file.parent.name: read_skill(file).model_copy(update={"path": place})
        for file, place in _inside(root, _SKILLS)
    }


def read_suites(root: Path) -> dict[str, Suite]:
    """Return the suites of a folder by slug, with paths relative to it."""
    return {
        file.stem: read_suite(file).model_copy(update={"path": place})
        for file, place in _inside(root, _SUITES)
    }


def _inside(root: Path, pattern: str) -> Iterator[tuple[Path, str]]:
    real = root.resolve()
    for file in sorted(root.glob(pattern)):
        if not file.resolve().is_relative_to(real):
            raise StoreError(f"{file}: the link leads out of the store; nothing was read.")
        yield file, file.relative_to(root).as_posix()


def mismatches(
    kind: str, listed: Mapping[str, Any], present: Mapping[str, Skill] | Mapping[str, Suite]
) -> Iterator[str]:
    """Yield one sentence for each skill or suite that the manifest does not describe."""
    for slug, record in present.items():
        if slug not in listed:
            yield f"{record.path} is not in the manifest; add it with add_{kind[:-1]}."
        elif listed[slug].get("sha256") != record.sha256:
            yield (
                f"{record.path} was edited after it was recorded (its sha256 differs from the "
                "manifest); answers and verdicts belong to the older text."
            )
    for slug in listed:
        if slug not in present:
            yield f"{kind}: '{slug}' is in the manifest and its file is missing."


def fingerprint(root: Path, known: Hashes) -> str:
    """Return the sha256 over names and contents; files unchanged since ``known`` are not re-read.

    ``known`` is brought up to date.
    """
    whole = sha256()
    files = [f for pattern in (MANIFEST, _SKILLS, _SUITES, "*.jsonl") for f in root.glob(pattern)]
    for place, file in sorted((f.relative_to(root).as_posix(), f) for f in files):
        state = file.stat()
        if known.get(file, (None, None))[:2] != (state.st_size, state.st_mtime_ns):
            with file.open("rb") as stream:
                hashed = file_digest(stream, "sha256").hexdigest()
            known[file] = (state.st_size, state.st_mtime_ns, hashed)
        whole.update(f"{place}\n{known[file][2]}\n".encode())
    return whole.hexdigest()


def mend(root: Path, table: str) -> None:
    """Move a torn last line out of a table, note it in the manifest, and warn.

    The caller holds the writer's place.
    """
    file = root / f"{table}.jsonl"
    size, torn = _journal.whole_size(file)
    if torn:
        repair: dict[str, Any] = {
            "table": table,
            "line": _journal.n_lines(file, size) + 1,
            "n_bytes": len(torn),
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        # in this order a second crash in between can tell it twice, but never lose it
        _journal.keep_torn(file, torn)
        write_manifest(root, repairs=[*read_manifest(root).get("repairs", []), repair])
        _journal.shorten(file, size)
        warnings.warn(repair_sentence(**repair), StoreWarning, stacklevel=5)
    if _journal.ends_open(file):  # a whole record that only lacks its line feed
        _journal.append(file, [b""], sync=True)


def repair_sentence(table: str, line: int, n_bytes: int, at: str) -> str:
    """Return what was done about a torn line."""
    return (
        f"{table}.jsonl, line {line}: the last line was torn off after {n_bytes} bytes; they were "
        f"moved to {table}.torn ({at})."
    )
