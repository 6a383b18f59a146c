"""Where a case says its truth stands: paths, lines and headings, and whether they are there."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path, PurePosixPath

from skillcomp.errors import SuiteError, suggest
from skillcomp.io._files import decode, read_bytes
from skillcomp.io.skills import sections_of
from skillcomp.records import Section, Skill

__all__ = ["Sources"]

MAX_BYTES = 1 << 22  # a file named as a source of truth is read by people and graders
_PARTS = re.compile(r"(?P<path>[^#]*?)(?::(?P<first>\d+)(?:-(?P<last>\d+))?)?(?:#(?P<anchor>.*))?")
_LINES = re.compile(r"L(\d+)(?:-L?(\d+))?")
_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)
_DRIVE = re.compile(r"[A-Za-z]:")
_MARKDOWN = (".md", ".markdown")


class _File:
    """A file named as a source."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def n_lines(self) -> int:
        return len(self.text.splitlines())

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        return sections_of(self.text)


class Sources:
    """Looks up truth sources below one folder, and never outside it.

    Parameters
    ----------
    root : path or None
        The folder that the paths are relative to.
    skill : Skill, optional
        Stands in for ``skills/<slug>/SKILL.md`` where there is no such file.
    """

    def __init__(self, root: Path | None, skill: Skill | None = None) -> None:
        self.root = root
        self._own: Mapping[str, str] = (
            {f"skills/{skill.slug}/SKILL.md": skill.text} if skill is not None else {}
        )
        self._files: dict[str, _File | str] = {}

    def problem(self, source: str) -> tuple[str, str] | None:
        """Return the rule that a source breaks and what was found, or None when it resolves.

        Parameters
        ----------
        source : str
            ``path``, ``path:line``, ``path:first-last`` or ``path#anchor``.

        Returns
        -------
        tuple of str, or None
            The rule is ``truth_source``, ``truth_outside`` or ``not_checked``.
        """
        if _ELSEWHERE.match(source):
            return "not_checked", f"truth_sources: '{source}' is an address; it was not looked up."
        parts = _PARTS.fullmatch(source.strip())
        path = parts["path"].replace("\\", "/") if parts else ""
        away = path.startswith(("/", "~")) or _DRIVE.match(path)
        if not path or not path.isprintable() or (":" in path and not away):
            return "truth_source", (
                f"truth_sources: found '{source}'; allowed: path, path:line, path:first-last, "
                "path#anchor."
            )
        assert parts is not None
        if away or ".." in PurePosixPath(path).parts:
            return "truth_outside", (
                f"truth_sources: '{source}' leads out of the folder; allowed: relative paths "
                "without '..'."
            )
        file = self._file(path)
        if file is None:
            return "not_checked", (
                f"truth_sources: '{source}' was not looked up: no folder is known; give root=."
            )
        if isinstance(file, str):
            rule = "truth_outside" if "leads out of" in file else "truth_source"
            return rule, f"truth_sources: '{source}': {file}"
        first, last, anchor = parts["first"], parts["last"], parts["anchor"]
        if anchor is not None and (lines := _LINES.fullmatch(anchor)):
            (first, last), anchor = lines.groups(), None
        found = _lines(file, first, last) or _anchor(file, path, anchor)
        return ("truth_source", f"truth_sources: '{source}': {found}") if found else None

    def _file(self, path: str) -> _File | str | None:
        """Return the file, why it cannot be read, or None when there is nowhere to look."""
        if path not in self._files:
            found = self._read(path)
            if found is None:
                return None
            self._files[path] = found
        return self._files[path]

    def _read(self, path: str) -> _File | str | None:
        own = self._own.get(path)
        if self.root is None or (own is not None and not (self.root / path).exists()):
            return _File(own) if own is not None else None
        file = self.root / path
        try:
            data = read_bytes(
                file, root=self.root, max_bytes=MAX_BYTES, what="source", error=SuiteError
            )
            return _File(decode(data, file, SuiteError))
        except SuiteError as cause:
            return str(cause).removeprefix(f"{file}: ")


def _lines(file: _File, first: str | None, last: str | None) -> str | None:
    if first is None:
        return None
    begin, end = int(first), int(last or first)
    if not 1 <= begin <= end:
        return f"lines {begin}-{end} are no range; allowed: first <= last, counted from 1."
    if end > file.n_lines:
        return f"there is no line {end}; the file has {file.n_lines} lines."
    return None


def _anchor(file: _File, path: str, anchor: str | None) -> str | None:
    if anchor is None:
        return None
    if not path.lower().endswith(_MARKDOWN):
        return f"'#{anchor}' asks for a heading; only Markdown files have headings, or use :line."
    known = [section.anchor for section in file.sections]
    if anchor in known:
        return None
    return f"there is no heading '#{anchor}'.{suggest(anchor, known)}"
