"""Reading files that strangers wrote: bounded in size, never outside their folder."""

from __future__ import annotations

import re
from hashlib import sha256
from pathlib import Path

from skillcomp.errors import SkillcompError

_PACKAGE = Path(__file__).resolve().parent.parent
_SLUG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def shipped(name: str) -> Path:
    """Return where ``data`` or ``notebooks`` stand: in the installed package or in a checkout.

    The wheel holds them below ``skillcomp/shipped`` (see pyproject.toml); in a checkout, also one
    installed in place, they stand beside the package.
    """
    inside = _PACKAGE / "shipped" / name
    return inside if inside.is_dir() else _PACKAGE.parent / name


def checked_slug(slug: str, error: type[SkillcompError]) -> str:
    """Return ``slug`` when it can name a file inside the store and nothing else."""
    if not _SLUG.fullmatch(slug) or ".." in slug or slug.endswith("."):
        raise error(
            f"'{slug}' cannot be a slug; allowed: letters, digits, '.', '_' and '-', beginning "
            "with a letter or digit, without '..', at most 100 characters."
        )
    return slug


def read_bytes(
    path: Path, *, root: Path, max_bytes: int, what: str, error: type[SkillcompError]
) -> bytes:
    """Return the bytes of a regular file inside ``root`` that is not larger than ``max_bytes``.

    A link that leads out of ``root`` is refused, so that a downloaded folder cannot pull in
    another file of the machine.
    """
    try:
        real = path.resolve(strict=True)
    except (OSError, RuntimeError, ValueError) as cause:  # of a name that no file can have, too
        raise error(f"{path}: there is no {what} here ({_reason(cause)}).") from cause
    if not real.is_relative_to(root.resolve()):
        raise error(f"{path}: the link leads out of its folder {root}; nothing was read.")
    if not real.is_file():
        raise error(f"{path}: not a regular file; expected a {what}.")
    try:
        with real.open("rb") as stream:
            data = stream.read(max_bytes + 1)
    except OSError as cause:
        raise error(f"{path}: cannot be read ({_reason(cause)}).") from cause
    if len(data) > max_bytes:
        size = real.stat().st_size
        raise error(f"{path}: {size:,} bytes; a {what} may have at most {max_bytes:,}.")
    return data


def decode(data: bytes, path: Path, error: type[SkillcompError]) -> str:
    """Return the text of UTF-8 bytes without a byte-order mark, or name the line that is not."""
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
    """Return ``path`` relative to the working folder where it lies inside, with forward slashes."""
    try:
        return path.resolve().relative_to(Path.cwd()).as_posix()
    except ValueError:
        return path.as_posix()


def _reason(cause: Exception) -> str:
    return str(getattr(cause, "strerror", None) or cause)
