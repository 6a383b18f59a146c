"""The file that gold labels are written to: one row a label, on disk before the next is asked."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from filelock import FileLock, Timeout

from skillcomp.errors import StoreError, StudyError, suggest
from skillcomp.io._journal import append, keep_torn, replace, shorten

Row = dict[str, Any]
ENDINGS = (".csv", ".jsonl")
_PATIENCE = 5.0  # seconds; another editor holds the lock for moments
_TRUTH = {"true": True, "false": False, "": None}


@dataclass(frozen=True)
class LabelFile:
    """A csv or JSON Lines file of labels.

    Attributes
    ----------
    path : pathlib.Path
        The file; its ending says which kind. Made with the first label.
    columns : tuple of str
        What a row holds, in the order of a new csv.
    key : tuple of str
        The columns that name a label.
    """

    path: Path
    columns: tuple[str, ...]
    key: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.path.suffix not in ENDINGS:
            raise StudyError(
                f"path: found '{self.path.name}'; allowed: a file ending in .csv or .jsonl."
                + suggest(self.path.suffix, ENDINGS)
            )

    def rows(self) -> list[Row]:
        """Return every row, a half-written last line put aside into ``<name>.torn``."""
        with self._locked():
            return self._read()[1]

    def write(self, row: Mapping[str, Any]) -> None:
        """Append a row, or put it in the place of the row with its key."""
        with self._locked():
            header, rows = self._read()
            name = [row[one] for one in self.key]
            same = [k for k, old in enumerate(rows) if [old.get(one) for one in self.key] == name]
            if not same:
                lines = [] if self.path.exists() and self.path.stat().st_size else self._head()
                # an empty line first closes a last line that lacks its line feed
                lines = lines or ([b""] if self._open_end() else [])
                append(self.path, [*lines, self._line(row, header)], sync=True)
                return
            rows[same[-1]] = {**rows[same[-1]], **row}
            lines = [*self._head(header), *(self._line(one, header) for one in rows)]
            replace(self.path, b"".join(line + b"\n" for line in lines))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(f"{self.path}.lock", timeout=_PATIENCE):
                yield
        except Timeout as cause:
            raise StoreError(
                f"{self.path.name} is held by another editor; nothing was written. Try again."
            ) from cause

    def _head(self, header: Sequence[str] | None = None) -> list[bytes]:
        if self.path.suffix == ".jsonl":
            return []
        return [_csv_line(header or self.columns)]

    def _line(self, row: Mapping[str, Any], header: Sequence[str]) -> bytes:
        if self.path.suffix == ".jsonl":
            return orjson.dumps(dict(row))
        return _csv_line([_cell(row.get(name)) for name in header])

    def _open_end(self) -> bool:
        data = self.path.read_bytes() if self.path.exists() else b""
        return bool(data) and not data.endswith(b"\n")

    def _read(self) -> tuple[Sequence[str], list[Row]]:
        data = self.path.read_bytes() if self.path.exists() else b""
        parse = self._parse_json if self.path.suffix == ".jsonl" else self._parse_csv
        try:
            return parse(data)
        except _Unreadable as cause:
            whole = data.rfind(b"\n") + 1
            if whole == len(data):
                raise StoreError(f"{self.path.name}, {cause}") from None
            try:
                found = parse(data[:whole])
            except _Unreadable as earlier:
                raise StoreError(f"{self.path.name}, {earlier}") from None
            keep_torn(self.path, data[whole:])
            shorten(self.path, whole)
            return found

    def _parse_json(self, data: bytes) -> tuple[Sequence[str], list[Row]]:
        rows = []
        for number, line in enumerate(data.splitlines(), 1):
            if not line.strip():
                continue
            try:
                row = orjson.loads(line)
            except orjson.JSONDecodeError as cause:
                raise _Unreadable(f"line {number}: not JSON ({cause}).") from None
            if not isinstance(row, dict) or any(name not in row for name in self.key):
                raise _Unreadable(
                    f"line {number}: expected an object with {', '.join(self.key)}; found "
                    f"{line[:60].decode(errors='replace')}."
                )
            rows.append(row)
        return self.columns, rows

    def _parse_csv(self, data: bytes) -> tuple[Sequence[str], list[Row]]:
        if not data.strip():
            return self.columns, []
        try:
            text = data.decode("utf-8-sig")
            lines = list(csv.reader(io.StringIO(text, newline=""), strict=True))
        except (UnicodeDecodeError, csv.Error) as cause:
            raise _Unreadable(f"not a csv file in UTF-8 ({cause}).") from None
        header = lines[0]
        for name in self.columns:
            if name not in header:
                raise _Unreadable(
                    f"line 1: there is no column '{name}'; there: {', '.join(header)}."
                    + suggest(name, header)
                )
        rows = []
        for number, cells in enumerate(lines[1:], 2):
            if not cells:
                continue
            if len(cells) != len(header):
                raise _Unreadable(
                    f"row {number}: {len(cells)} fields, the header has {len(header)}."
                )
            rows.append(dict(zip(header, cells, strict=True)))
        return header, rows


class _Unreadable(Exception):
    """Why a file of labels cannot be read."""


def _csv_line(cells: Sequence[str]) -> bytes:
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow(cells)
    return out.getvalue().encode()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def truth(value: Any, place: str) -> bool | None:
    """Return a label as it was written to a csv or JSON Lines file."""
    if value is None or isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    if word not in _TRUTH:
        raise StoreError(
            f"{place}: found '{value}'; allowed: true, false or empty."
            + suggest(word, [one for one in _TRUTH if one])
        )
    return _TRUTH[word]
