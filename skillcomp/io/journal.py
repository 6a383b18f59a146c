"""Write the files of a store: append and repair lines, lock the store, edit the manifest."""

from __future__ import annotations

import json
import os
import socket
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
from filelock import FileLock, Timeout

from skillcomp.errors import StoreError, literal
from skillcomp.io.files import JsonObject, json_content, read_bytes, replace_file, write_json
from skillcomp.io.redaction import redact_json

MANIFEST = "manifest.json"
BOM = b"\xef\xbb\xbf"  # the byte-order mark that some editors write before UTF-8
_FORMAT, _VERSION = "skillcomp-store", 1
# maximum size of a manifest in bytes; it has a few lines for each skill and suite
_MAX_MANIFEST = 1 << 26
LOCK = ".writer.lock"
WHO = ".writer.json"
PATIENCE = 0.5  # seconds to wait for the lock
_CHUNK = 1 << 16
MAX_LINE = 1 << 29  # Maximum size of a line in bytes.


class StoreWarning(UserWarning):
    """Warning that a torn line in a store was moved aside or left out."""


def append(path: Path, lines: Sequence[bytes]) -> None:
    """Append lines to a file on the disk; if writing fails, remove the part that was written."""
    payload = b"".join(line + b"\n" for line in lines)
    try:
        opened = path.open("ab", buffering=0)
    except OSError as cause:
        raise StoreError(f"{path}: cannot be written ({cause.strerror or cause}).") from cause
    with opened as stream:
        before = stream.seek(0, os.SEEK_END)
        try:
            written = 0
            while written < len(payload):
                written += stream.write(payload[written:]) or 0
            os.fsync(stream.fileno())
        except OSError as cause:
            stream.truncate(before)
            raise StoreError(
                f"{path}: {len(lines)} records could not be written ({cause.strerror or cause}); "
                "the file is as it was before."
            ) from cause


def whole_size(path: Path) -> tuple[int, bytes]:
    """Return the total size of the whole lines in bytes, and the torn last line (empty if none).

    A last line without a line feed counts as whole if it is a JSON object. A last line that cannot
    be the beginning of a record (a JSON array, two objects, a line that ends in a carriage return)
    was not left by an interrupted writer, so the file is refused and left unchanged.
    """
    try:
        with path.open("rb") as stream:
            end = stream.seek(0, os.SEEK_END)
            tail, start = b"", end
            while start and b"\n" not in tail:
                step = min(max(_CHUNK, len(tail)), start)
                if len(tail) > MAX_LINE:
                    raise StoreError(f"{path}: the last line has more than {MAX_LINE:,} bytes.")
                start -= step
                stream.seek(start)
                tail = stream.read(step) + tail
    except FileNotFoundError:
        return 0, b""
    rest = tail[tail.rfind(b"\n") + 1 :]
    line = rest.removeprefix(BOM) if len(rest) == end else rest
    if not rest or _is_object(line):
        return end, b""
    if not line.startswith((b"{", b"\0")) or b"\r" in line or _begins_with_object(line):
        start_of_line = rest[:40].decode(errors="replace") + ("..." if len(rest) > 40 else "")
        raise StoreError(
            f"{path}: the last line ({start_of_line!r}) is no JSON object and no beginning of one; "
            "expected JSON Lines: one object a line, each with a line feed after it. The file was "
            "left as it is."
        )
    return end - len(rest), rest


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(orjson.loads(line), dict)
    except orjson.JSONDecodeError:
        return False


def _begins_with_object(line: bytes) -> bool:
    """Return whether a line begins with a complete JSON object."""
    try:
        return bool(json.JSONDecoder().raw_decode(line.decode(errors="replace")))
    except (json.JSONDecodeError, RecursionError):
        return False


def mend(root: Path, table: str) -> None:
    """Move a torn last line out of a table into ``<table>.torn``, and warn.

    The caller must hold the lock.
    """
    file = root / f"{table}.jsonl"
    size, torn = whole_size(file)
    if torn:
        with file.open("rb") as stream:
            line = sum(1 for _ in stream)  # number of the last line, which is torn
        # Copy the torn bytes first and cut them off last: after a crash in between, they can be
        # copied twice, but no bytes are lost.
        append(file.with_suffix(".torn"), [torn])
        with file.open("r+b") as stream:
            stream.truncate(size)
            os.fsync(stream.fileno())
        message = (
            f"{file.name}, line {line}: the last line was torn off after {len(torn)} bytes; they "
            f"were moved to {table}.torn."
        )
        warnings.warn(message, StoreWarning, stacklevel=4)
    with file.open("rb") as stream:
        stream.seek(max(stream.seek(0, os.SEEK_END) - 1, 0))
        last = stream.read(1)
    if last not in (b"", b"\n"):
        append(file, [b""])


def has_manifest(root: Path) -> bool:
    """Return whether the folder has a manifest."""
    return (root / MANIFEST).exists()


def is_store(root: Path) -> bool:
    """Return whether a folder is a recorded study, that is, has a manifest that can be read."""
    try:
        return has_manifest(root) and bool(read_manifest(root))
    except StoreError:
        return False


def read_manifest(root: Path) -> JsonObject:
    """Return the manifest of a folder; an empty one if the folder has none."""
    file = root / MANIFEST
    if not has_manifest(root):
        return {"format": _FORMAT, "version": _VERSION, "skills": {}, "suites": {}}
    data = read_bytes(file, root=root, max_bytes=_MAX_MANIFEST, what="manifest", error=StoreError)
    try:
        manifest = orjson.loads(data.removeprefix(BOM))
    except orjson.JSONDecodeError as cause:
        raise StoreError(f"{file}, line {cause.lineno}: not JSON ({cause.msg}).") from cause
    if not isinstance(manifest, dict) or manifest.get("format") != _FORMAT:
        raise StoreError(f"{file}: not the manifest of a store (no format '{_FORMAT}').")
    version = manifest.get("version")
    # `type(version)`, because isinstance would accept True as a version
    if type(version) is not int or not 1 <= version <= _VERSION:
        newer = isinstance(version, int) and version > _VERSION
        hint = "A newer skillcomp wrote it." if newer else "Restore the manifest from a copy."
        why = f"this skillcomp reads up to {_VERSION}, from 1. {hint}"
        raise StoreError(f"{file}: format version {literal(version)}; {why}")
    manifest = {"skills": {}, "suites": {}, **manifest}
    for key in ("skills", "suites"):
        listed = manifest[key]
        entries = listed.values() if isinstance(listed, dict) else [listed]
        if not all(isinstance(entry, dict) for entry in entries):
            fault = f"is {literal(listed)}; expected an object of objects, one a slug"
            raise StoreError(f"{file}: '{key}' {fault}.")
    return manifest


def write_manifest(root: Path, **changes: Any) -> None:
    """Change entries of the manifest; a reader sees either the old or the new manifest."""
    write_json(root / MANIFEST, {**read_manifest(root), **changes}, sort_keys=True)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock the store for writing, or raise an error that names the process holding the lock.

    On a shared file system, the lock protects the store only if locks there work across machines.
    """
    lock = FileLock(folder / LOCK, thread_local=False)
    try:
        lock.acquire(timeout=PATIENCE)
    except Timeout as cause:
        who = active_writer(folder) or "another process that has not said who it is"
        raise StoreError(
            f"{folder} is being written by {who}; one writer at a time. Wait for it or stop it; "
            "reading works meanwhile."
        ) from cause
    except OSError as cause:
        raise StoreError(f"{folder}: cannot be written ({cause.strerror or cause}).") from cause
    place = folder / WHO
    try:
        writer = {"pid": os.getpid(), "host": socket.gethostname(), "since": time_now()}
        command = " ".join([*(Path(argument).name for argument in sys.argv[:1]), *sys.argv[1:]])
        replace_file(place, redact_json(orjson.dumps({**writer, "command": command})))
        yield
    finally:
        place.unlink(missing_ok=True)
        lock.release()


def time_now() -> str:
    """Return the current time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def active_writer(folder: Path) -> str | None:
    """Return a description of the active writer from `.writer.json`, or None if there is none."""
    who = json_content(folder / WHO)
    try:
        command = str(who["command"])[:200] or "interactive"
        since = f"{who['host']} since {who['since']}"
        message = f"process {who['pid']} on {since} (command: {command})"
        if who["host"] == socket.gethostname():
            os.kill(who["pid"], 0)
    except PermissionError:
        pass  # raised if the process is alive but belongs to another user
    except (OSError, KeyError, TypeError, OverflowError):
        return None
    return message
