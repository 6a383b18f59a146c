"""What a program wrote and left in its working folder, kept where it could not write itself."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import orjson

from skillcomp.live.agents.reply import redact

TRACE, STDERR, LEFT = "trace.jsonl", "stderr.txt", "left.json"
MAX_FILES, MAX_BYTES = 1000, 50_000_000  # of what is left behind; the rest is not kept


def keep(work: Path, folder: Path, output: str, complaint: str, hidden: Mapping[str, str]) -> None:
    """Keep the files of a working folder, then the two streams, in the place of what was there.

    Links are not followed and not kept. Secrets are replaced in every file. ``left.json`` lists the
    program's own files by name: what is not there it did not leave, whatever else stands in the
    folder.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    left: list[str] = []
    n_bytes = 0
    for root, folders, names in os.walk(work):
        folders[:] = sorted(n for n in folders if not (Path(root) / n).is_symlink())
        for name in sorted(names):
            file = Path(root) / name
            if file.is_symlink() or not file.is_file():
                continue
            n_bytes += file.stat().st_size
            if len(left) == MAX_FILES or n_bytes > MAX_BYTES:
                break
            inside = file.relative_to(work)
            # Latin-1 gives every byte a sign and back
            with contextlib.suppress(OSError):  # a file that cannot be read
                text = file.read_bytes().decode("latin-1")
                (folder / inside).parent.mkdir(parents=True, exist_ok=True)
                (folder / inside).write_bytes(redact(text, hidden).encode("latin-1"))
            left.append(os.fsencode(inside).decode("utf-8", "replace"))
    for name, text in ((TRACE, output), (STDERR, complaint)):
        put(folder, name, text.encode("utf-8"))
    put(folder, LEFT, orjson.dumps(left))


def put(folder: Path, name: str, data: bytes) -> None:
    """Write one of our files into a folder where a program may have left one of this name."""
    drop(folder, name)
    (folder / name).write_bytes(data)


def drop(folder: Path, name: str) -> None:
    """Remove what stands in a folder under a name of ours."""
    if (folder / name).is_dir():
        shutil.rmtree(folder / name)
    (folder / name).unlink(missing_ok=True)


def left_in(folder: Path) -> list[str] | None:
    """Return what a program left, as its kept folder lists it; None without such a list."""
    try:
        found = orjson.loads((folder / LEFT).read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return None
    return found if isinstance(found, list) else None
