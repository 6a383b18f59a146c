"""Read untrusted files with limits on their size and place, and write files atomically.

JSON files of other programs, such as files of results, are read here, too.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from fnmatch import filter as matching
from functools import lru_cache
from hashlib import sha256
from io import BufferedReader
from os.path import isfile, islink, join
from pathlib import Path, PurePosixPath
from typing import Any
from unicodedata import category, normalize

import orjson
import yaml
from yaml.constructor import ConstructorError, SafeConstructor

from skillcomp.errors import FrameError, SkillcompError, StoreError, literal
from skillcomp.io.redaction import redact_bytes, redact_json

ErrorClass = type[SkillcompError]  # The error that a function raises on behalf of its caller.
JsonObject = dict[str, Any]  # An object of parsed JSON, or a row of a table, by key.
_PACKAGE = Path(__file__).resolve().parent.parent
MAX_YAML = 1 << 20  # Maximum size of a YAML file in bytes; a study or suite needs far less.
# Maximum number of files and of bytes in the folder of a skill or suite.
MAX_FILES, MAX_TREE = 1000, 50_000_000
INPUTS = "inputs"  # Folder in a store that holds the input files of suites.
# PyYAML raises more than YAMLError: for example, `!!bool abc` raises KeyError.
YAML_FAILURES = (
    *(yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError, RecursionError),
    ArithmeticError,
)
_LONE = re.compile("[\ud800-\udfff]")
_SLUG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
BEYOND = 2**63  # The smallest positive integer that is too large for an int64 column.
MAX_NUMBER = 100  # Maximum number of characters of a number in YAML.
MAX_ID = 200  # Maximum size of an id in bytes; a file system allows 255, endings included.
# Unicode categories of control characters, invisible marks, halves of characters and line ends.
_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
_BLANK_LETTERS = "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"  # They show nothing.
_DRIVE = re.compile(r"[A-Za-z]:(?! )")
# Names that Windows reserves for devices, with any ending.
_DEVICE = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)\d)\s*(\..*)?", re.IGNORECASE)


def shipped(name: str) -> Path:
    """Return the folder ``data`` or ``notebooks`` of the installed package or of the checkout.

    In a wheel, these folders are below ``skillcomp/shipped`` (see pyproject.toml). In a checkout,
    they are next to the package.
    """
    inside = _PACKAGE / "shipped" / name
    return inside if inside.is_dir() else _PACKAGE.parent / name


def whole_text(text: str) -> str:
    """Replace every lone surrogate by U+FFFD, because UTF-8 cannot encode lone surrogates.

    Examples
    --------
    >>> whole_text("half " + chr(0xD83D)) == "half " + chr(0xFFFD)
    True
    """
    return _LONE.sub("\ufffd", text)


def whole_content(content: Any) -> Any:
    """Replace lone surrogates in all texts of parsed JSON, also in the keys of objects."""
    if isinstance(content, str):
        return whole_text(content)
    if isinstance(content, dict):
        return {whole_content(key): whole_content(value) for key, value in content.items()}
    return [whole_content(entry) for entry in content] if isinstance(content, list) else content


def as_path(value: Any, what: str, error: ErrorClass) -> Path:
    """Convert an argument to a path; raise if it is no path, or a folder without permission."""
    try:
        path = Path(value)
        if os.path.isdir(path) and not os.access(path, os.R_OK | os.X_OK):
            raise error(f"{path}: no permission to read this folder; ask its owner, or chmod u+rx.")
        return path
    except TypeError:
        raise error(
            f"{what}: expected a path (str or Path), found {type(value).__name__} {literal(value)}."
        ) from None


def id_problem(text: str) -> str | None:
    """Return why a text cannot be the id of a case, suite or skill; None if it can.

    An id may have parts with ``/`` between them, as ``suite/id``. No part may look like another id
    on a screen, or lead elsewhere or name a device when it is part of a path.

    Examples
    --------
    >>> id_problem("tides/6.2 (b)"), id_problem("tides/../b")
    (None, "'..' begins or ends with a dot")
    """
    return next(filter(None, map(_part_problem, text.split("/"))), None)


def _part_problem(part: str) -> str | None:
    plain = normalize("NFKC", part)  # some characters, such as a wide slash, become others
    if not plain.strip():
        return "a part is empty"
    if len(part.encode("utf-8", "surrogatepass")) > MAX_ID:
        return f"{literal(part)} has more than {MAX_ID} bytes"
    hidden = [c for c in part if category(c) in _HIDDEN or (c.isspace() and c != " ")]
    if hidden or set(part) & set(_BLANK_LETTERS):
        return f"{literal(part)} has a character that is not shown"
    if "/" in plain or "\\" in plain:
        return f"{literal(part)} has a slash or backslash"
    if plain[0] in " ~-" or plain[-1] == " ":
        return f"{literal(part)} begins with '~', '-' or a blank, or ends with a blank"
    if plain[0] == "." or plain[-1] == ".":
        return f"{literal(part)} begins or ends with a dot"
    if _DRIVE.match(plain) or _DEVICE.fullmatch(plain):
        return f"{literal(part)} names a drive or a device"
    return None


def require_ids(ids: Iterable[str], place: str, error: ErrorClass) -> None:
    """Raise one error that lists the texts that cannot be ids; see `id_problem`."""
    problems = {text: problem for text in ids if (problem := id_problem(text))}
    if problems:
        lines = "".join(f"\n- {literal(text)}: {why}." for text, why in problems.items())
        raise error(
            f"{place}: ids become names of files and parts of records. Allowed are visible "
            f"characters, at most {MAX_ID} bytes in each part; give another id to:{lines}"
        )


def checked_slug(slug: str, error: ErrorClass) -> str:
    """Return ``slug`` unchanged; raise if it cannot be the name of a file or folder of a study."""
    if not _SLUG.fullmatch(slug) or ".." in slug or id_problem(slug):
        raise error(
            f"{literal(slug)} cannot be a slug; allowed: letters, digits, '.', '_' and '-', "
            "beginning with a letter or digit, without '..' or a dot at the end, at most 100 "
            "characters, no name of a device such as 'nul'."
        )
    return slug


def folder_below(root: Path, *names: str, error: ErrorClass) -> Path:
    """Return the folder ``root/names``; raise if a name is no slug or a link is on the way."""
    folder = root
    for name in names:
        folder /= checked_slug(name, error)
        if folder.is_symlink():
            raise error(f"{folder}: a link; expected a folder. Nothing was read or written there.")
    return folder


def open_file(path: Path, *, what: str, error: ErrorClass) -> BufferedReader:
    """Open a regular file from outside for reading.

    A pipe, device, socket or folder is refused without waiting for it.
    """
    try:
        opened = open(path, "rb", opener=_open_at_once)  # noqa: SIM115  the caller closes it
    except (OSError, ValueError) as cause:  # invalid file names raise ValueError
        if isinstance(cause, IsADirectoryError):
            raise error(f"{path}: not a regular file but a folder; expected a {what}.") from cause
        raise error(f"{path}: cannot be read ({_failure_reason(cause)}).") from cause
    if not _is_regular(opened.fileno()):
        opened.close()
        raise error(
            f"{path}: not a regular file; expected a {what}. Write a pipe into a file first."
        )
    return opened


def _is_regular(descriptor: int) -> bool:
    state = os.fstat(descriptor)
    is_regular = stat.S_ISREG(state.st_mode)
    if not is_regular or state.st_size:
        return is_regular
    try:  # a file of the kernel, such as /proc/kmsg, has no size, but content that may never end
        return os.read(descriptor, 1) == b""
    except OSError:
        return False


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0))


def read_bytes(path: Path, *, root: Path, max_bytes: int, what: str, error: ErrorClass) -> bytes:
    """Read a regular file that is inside ``root`` and has at most ``max_bytes`` bytes.

    A link that leads out of ``root`` is refused, so that a downloaded folder cannot include other
    files of this machine.
    """
    try:
        name = os.path.realpath(path, strict=True)
    except (OSError, RuntimeError, ValueError) as cause:  # invalid file names raise ValueError
        raise error(f"{path}: there is no {what} here ({_failure_reason(cause)}).") from cause
    # most paths have no link
    real = path if name == str(path) else Path(name)
    is_plain = real is path and path.is_relative_to(root)
    if not is_plain and not real.is_relative_to(root.resolve()):
        raise error(f"{path}: the link leads out of its folder {root}; nothing was read.")
    with open_file(real, what=what, error=error) as stream:
        size = os.fstat(stream.fileno()).st_size
        if size <= max_bytes:
            try:
                # a buffer of `max_bytes` would take longer than most files; a file may grow
                data = stream.read(size + 1)
                data += stream.read(max_bytes + 1 - size) if len(data) > size else b""
            except OSError as cause:
                raise error(f"{path}: cannot be read ({_failure_reason(cause)}).") from cause
            size = len(data)
    if size > max_bytes:
        raise error(f"{path}: {size:,} bytes; a {what} may have at most {max_bytes:,}.")
    return data


def read_own(path: Path, *, what: str, error: ErrorClass, max_bytes: int = MAX_TREE) -> bytes:
    """Read a file that the user names; a link may lead anywhere, but only to a regular file."""
    with suppress(OSError, RuntimeError, ValueError):
        path = path.resolve()
    return read_bytes(path, root=path.parent, max_bytes=max_bytes, what=what, error=error)


def entry_problem(entry: Path, folder: Path) -> str | None:
    """Return why an entry of a folder cannot be read; None if it is a regular file or a folder."""
    try:
        name = str(entry.relative_to(folder.parent))
        name.encode("utf-8")
        real = entry.resolve(strict=True)
    except UnicodeEncodeError:
        readable = os.fsencode(name).decode("utf-8", "backslashreplace")
        return f"'{readable}': the name is not UTF-8"
    except (OSError, RuntimeError):
        return f"'{name}': a link that leads to no file"
    if not real.is_relative_to(folder.resolve()):
        return f"'{name}': the link leads out of {folder.name}/"
    if not (real.is_file() or real.is_dir()):
        return f"'{name}': not a regular file"
    return None


def strict_json(data: bytes | str, repeated: list[str] | None = None) -> Any:
    """Return the content of JSON; raise ValueError if it is broken or an object repeats a key.

    A parser would silently keep one value. The list ``repeated``, if given, collects such keys.
    """
    # orjson refuses NaN, lone surrogates and deep nesting, which json accepts
    orjson.loads(data)

    def whole_object(pairs: list[tuple[str, Any]]) -> JsonObject:
        row = dict(pairs)
        if len(row) < len(pairs):
            counts = Counter(name for name, _ in pairs)
            keys = [name for name, n in counts.items() if n > 1]
            if repeated is None:
                raise ValueError(f"an object has the key {literal(keys[0])} twice")
            repeated.extend(keys)
        return row

    return json.loads(data, object_pairs_hook=whole_object)


def list_of_objects(value: Any) -> list[JsonObject]:
    """Return the objects in a list; an empty list if the value is not a list."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def as_object(value: Any) -> JsonObject:
    """Return the value if it is a JSON object, else an empty object."""
    return value if isinstance(value, dict) else {}


def as_number(value: Any) -> float | None:
    """Return the value if it is a number, else None; a truth value is not a number."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def whole_number(value: Any, most: int = BEYOND - 1) -> int | None:
    """Return the value if it is a whole number from 0 to ``most``, else None."""
    number = as_number(value)
    if number is None or not 0 <= number <= most or number % 1:
        return None
    return int(number)


def as_text(value: Any) -> str | None:
    """Return a text that is not empty, or a whole number as text; None for any other value."""
    if isinstance(value, str):
        return value.strip() or None
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def as_truth(value: Any) -> bool | None:
    """Return a truth value; None for any other value, so that a broken verdict is missing."""
    return value if isinstance(value, bool) else None


def text_at(row: JsonObject, key: str) -> str | None:
    """Return the value of a key as `as_text` does; None without the key."""
    return as_text(row.get(key))


def number_at(row: JsonObject, key: str) -> float | None:
    """Return the value of a key as `as_number` does; None without the key."""
    return as_number(row.get(key))


def object_at(row: JsonObject, *keys: str) -> JsonObject:
    """Return the object that keys lead to, one inside the other; else an empty object."""
    for key in keys:
        row = as_object(row.get(key))
    return row


def objects_at(row: JsonObject, key: str) -> list[JsonObject]:
    """Return the objects of the list at a key; else an empty list."""
    return list_of_objects(row.get(key))


def replace_file(path: Path, data: bytes, *, is_copy: bool = False) -> None:
    """Replace the content of a file; a reader sees the whole old or the whole new content.

    Secrets in `data` are replaced, unless it is the copy of a file of the user (`is_copy`).
    """
    data = data if is_copy else redact_bytes(data)
    fresh = path.with_name(path.name + ".new")
    try:
        # a link of this name, in a folder from elsewhere, must not make us write to its target
        fresh.unlink(missing_ok=True)
        with fresh.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(fresh, path)
    except OSError as cause:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)
        why = f"cannot be written ({_failure_reason(cause)}); it is as it was before"
        raise StoreError(f"{path}: {why}.") from cause


def write_json(path: Path, content: Any, *, sort_keys: bool = False) -> None:
    """Write indented JSON with `replace_file`; make the folder if it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    options = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE | orjson.OPT_SORT_KEYS * sort_keys
    replace_file(path, redact_json(orjson.dumps(content, option=options), options))


def bases_of(file: Path) -> list[Path]:
    """Return the folders to which names in a suite may be relative.

    These are the suite's own folder and, for a suite in ``evals`` or ``evals/skills/<slug>``, the
    folder that contains ``evals``.
    """
    folder = file.resolve().parent
    for above in (folder, folder.parent.parent):
        if above.name == "evals" and (above == folder or folder.parent.name == "skills"):
            return [folder, above.parent]
    return [folder]


def inside(name: str, bases: list[Path]) -> Path | None:
    """Look for `name` in the folders `bases`, in order; return the first path found, or None.

    The last base contains all others. A path that leads out of it does not count.
    """
    places = [] if leaves(name) else [base / name for base in bases]
    return next((place for place in places if is_below(place, bases[-1])), None)


def is_below(place: Path, base: Path) -> bool:
    """Return whether a path exists and, with links resolved, is inside a folder."""
    try:
        return place.exists() and place.resolve().is_relative_to(base.resolve())
    except (OSError, RuntimeError, ValueError):  # raised if a name is too long or links form a loop
        return False


MAX_RESULTS = 100_000  # largest number of files of one name that are read from a folder


def files_below(folder: Path, name: str) -> Iterator[Path]:
    """Yield the files called ``name`` in a folder, in order, without links that lead out of it.

    ``name`` is a pattern of one file name, such as ``comparison*.json``.
    """
    found = [join(at, file) for at, _, files in os.walk(folder) for file in matching(files, name)]
    if len(found) > MAX_RESULTS:
        raise FrameError(f"{folder}: more than {MAX_RESULTS:,} files '{name}'; name a part.")
    for place in sorted(found, key=lambda place: place.split(os.sep)):
        if isfile(place) and (not islink(place) or is_below(Path(place), folder)):
            yield Path(place)


def leaves(name: str) -> bool:
    """Return whether a name is empty, absolute, or contains ``..`` or a backslash."""
    pure = PurePosixPath(name)
    return pure.is_absolute() or ".." in pure.parts or "\\" in name or not pure.parts


def decode(data: bytes, path: Path, error: ErrorClass) -> str:
    """Decode UTF-8 and drop a byte-order mark; errors name the line of the first invalid byte."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as cause:
        line = data.count(b"\n", 0, cause.start) + 1
        raise error(
            f"{path}, line {line}: byte 0x{data[cause.start]:02x} is not UTF-8; "
            "save the file as UTF-8."
        ) from cause


def digest(data: bytes) -> str:
    """Return the sha256 of bytes in hexadecimal."""
    return sha256(data).hexdigest()


def shown(path: Path) -> str:
    """Return ``path`` with forward slashes; a path in the working folder becomes relative to it."""
    try:
        return path.resolve().relative_to(Path.cwd()).as_posix()
    except (ValueError, RuntimeError):  # RuntimeError: the path is a link to itself
        return path.as_posix()


def _failure_reason(cause: Exception) -> str:
    return str(getattr(cause, "strerror", None) or cause)


def read_yaml(
    path: Path, *, what: str, error: ErrorClass, data: bytes | None = None
) -> tuple[dict[Any, Any], yaml.Node | None]:
    """Read a YAML mapping; return its content and its root node, in which `line_of` finds lines."""
    if data is None:
        data = read_own(path, what=what, error=error, max_bytes=MAX_YAML)
    if len(data) > MAX_YAML:
        raise error(f"{path}: {len(data):,} bytes; a {what} may have at most {MAX_YAML:,}.")
    content, node = parse_yaml(decode(data, path, error), path, error)
    if not isinstance(content, dict):
        example = "store: my-study" if what == "study" else "skill_id: my-skill"
        raise error(f"{path}: expected 'key: value' lines, as '{example}'.")
    return content, node


def parse_yaml(
    text: str,
    path: Path,
    error: ErrorClass,
    what: str = "not YAML",
    repeated: list[str] | None = None,
) -> tuple[Any, yaml.Node | None]:
    """Return the content of YAML and its root node; every failure raises ``error``.

    A repeated key is a failure, too, unless the list ``repeated`` collects a sentence on each.
    """
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        _require_plain(node, repeated)
        return None if node is None else PlainConstructor().construct_document(node), node
    except YAML_FAILURES as cause:
        names = ("problem_mark", "context_mark", "position")
        *marks, position = (getattr(cause, name, None) for name in names)
        mark = marks[0] or marks[1]
        line = mark.line if mark else position and text.count("\n", 0, position)
        place = "" if line is None else f", line {line + 1}"
        parts = (getattr(cause, name, None) for name in ("context", "problem"))
        why = " ".join(filter(None, parts)) or str(cause).splitlines()[0]
        raise error(f"{path}{place}: {what} ({why}).") from cause


class PlainConstructor(SafeConstructor):
    """Constructs the values of YAML; the error for a value that does not fit its type has a mark.

    A number of very many digits, or of parts as in ``1:59:59``, is an error, too.
    """

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Return the value of a node; raise ConstructorError if it has none."""
        kind = node.tag.rpartition(":")[2]
        if not isinstance(node, yaml.ScalarNode):
            return super().construct_object(node, deep)
        try:
            if kind not in ("int", "float") or len(node.value) <= MAX_NUMBER:
                return super().construct_object(node, deep)
            why = f"a number of {len(node.value):,} characters; write a text in quotes"
        except yaml.YAMLError:
            raise
        except YAML_FAILURES:
            why = f"{literal(node.value)} is no value of the type {kind}"
        raise ConstructorError(None, None, why, node.start_mark)


def _require_plain(root: yaml.Node | None, repeated: list[str] | None) -> None:
    """Raise ConstructorError if YAML has lone surrogates, a key twice, or aliases that expand it.

    The check runs before any value is made. Every use of an alias or merge key counts.
    """
    n_characters = 0
    waiting = [] if root is None else [root]
    while waiting:
        node = waiting.pop()
        why, lines, mark = "", dict[str, int](), node.start_mark
        n_characters += 1
        if isinstance(node, yaml.ScalarNode):
            n_characters += len(node.value)
            if _LONE.search(node.value):
                why = "half of a surrogate pair, which is no character"
        elif isinstance(node, yaml.SequenceNode):
            waiting += node.value
        else:
            for key, value in node.value:
                waiting += [key, value]
                word, line = str(key.value), key.start_mark.line + 1
                if word in lines and repeated is not None:
                    before = f"stands already in line {lines[word]}; the later one counts"
                    repeated.append(f"line {line}: the key '{word}' {before}.")
                elif word in lines:
                    why = f"'{word}' is given twice; first in line {lines[word]}"
                    mark = key.start_mark
                lines[word] = line
        if n_characters > MAX_YAML:
            why = f"with its aliases written out it has more than {MAX_YAML:,} characters"
        if why:
            raise ConstructorError(None, None, why, mark)


def line_of(node: yaml.Node | None, place: Sequence[Any]) -> int:
    """Return the line number (from 1) of the value at `place`, a path of keys and indexes."""
    for part in place:
        if isinstance(node, yaml.MappingNode):
            pairs = [(k, v) for k, v in node.value if k.value == str(part)]
            if not pairs:
                break
            key, value = pairs[-1]
            # continue in a mapping or list; for a scalar, use the line of its key
            node = value if isinstance(value, yaml.CollectionNode) else key
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int):
            node = node.value[part]
        else:
            break
    return node.start_mark.line + 1 if node is not None else 1


def sentence_at(node: yaml.Node | None, place: Sequence[Any], sentence: str) -> str:
    """Return a sentence about the value at `place`, with its line and its name."""
    name = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in place).lstrip(".")
    return f"line {line_of(node, place)}: {name}: {sentence}"


MAX_BYTES = 200_000_000  # Maximum size of a results file in bytes.


def read_json(path: Path, root: Path | None = None, error: ErrorClass = FrameError) -> Any:
    """Return the content of a JSON file; raise ``error`` if it is not JSON or above 200 MB.

    JSON Lines (a file .jsonl) are read as the list of their contents. A link that leads out of
    ``root`` (default: the folder of the file) is refused. The content is shared between calls: do
    not change it.
    """
    root = path.parent if root is None else root
    try:
        state = path.stat()
    except (OSError, ValueError) as cause:
        raise error(f"{path}: there is no JSON file here.") from cause
    # mypy takes a class for unhashable
    return _parsed_json(path, root, error, state.st_size, state.st_mtime_ns)  # type: ignore[arg-type]


@lru_cache(maxsize=2)  # every reader needs the content of a file to recognise its format
def _parsed_json(path: Path, root: Path, error: ErrorClass, size: int, changed: int) -> Any:
    what = "JSON file"
    data = read_bytes(path, root=root, max_bytes=MAX_BYTES, what=what, error=error)
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
            raise error(f"{place}: not JSON ({cause}).") from cause
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
