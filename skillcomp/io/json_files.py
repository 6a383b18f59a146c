"""Read JSON files of other programs, such as files of results."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from skillcomp.errors import FrameError
from skillcomp.io.files import (
    JsonObject,
    as_object,
    list_of_objects,
    object_at,
    objects_at,
    read_bytes,
    strict_json,
)

MAX_BYTES = 200_000_000  # Maximum size of a results file in bytes.


def read_json(path: Path, root: Path | None = None) -> Any:
    """Return the content of a JSON file; raise FrameError if it is not JSON or above 200 MB.

    JSON Lines (a file .jsonl) are read as the list of their contents. A link that leads out of
    ``root`` (default: the folder of the file) is refused. The content is shared between calls: do
    not change it.
    """
    root = path.parent if root is None else root
    try:
        state = path.stat()
    except (OSError, ValueError) as cause:
        raise FrameError(f"{path}: there is no file of results here.") from cause
    return _parsed_json(path, root, state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=2)  # every reader needs the content of a file to recognise its format
def _parsed_json(path: Path, root: Path, size: int, changed: int) -> Any:
    what = "file of results"
    data = read_bytes(path, root=root, max_bytes=MAX_BYTES, what=what, error=FrameError)
    data = data.removeprefix(b"\xef\xbb\xbf")
    has_lines = path.suffix == ".jsonl"
    contents = []
    for number, text in enumerate(data.splitlines() if has_lines else [data], start=1):
        if has_lines and not text.strip():
            continue
        try:
            contents.append(strict_json(text))
        except (ValueError, RecursionError) as cause:
            place = f"{path}, line {number}" if has_lines else path
            raise FrameError(f"{place}: not JSON ({cause}).") from cause
    return contents if has_lines else contents[0]


def forget_files() -> None:
    """Free the memory of the files that `read_json` read."""
    _parsed_json.cache_clear()


def json_object(path: Path, root: Path | None = None) -> JsonObject:
    """Return the object in a JSON file; an empty object if the file holds no object."""
    return as_object(json_content(path, root))


def json_content(path: Path, root: Path | None = None) -> Any:
    """Return the content of a JSON file; None if it is no such file."""
    try:
        return read_json(path, root)
    except FrameError:
        return None


def listed_objects(content: Any, *keys: str) -> list[JsonObject]:
    """Return the objects of a list that is the whole content, or that keys of it lead to."""
    if isinstance(content, list):
        return list_of_objects(content)
    return objects_at(object_at(as_object(content), *keys[:-1]), keys[-1])
