"""The store of a study: append-only JSON Lines with the skills and suites beside them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa
from pydantic import BaseModel

from skillcomp.errors import StoreError
from skillcomp.io import _folder, _journal
from skillcomp.io._files import checked_slug, digest
from skillcomp.io._folder import StoreWarning
from skillcomp.io.skills import FILE_NAME, read_skill
from skillcomp.io.suites import read_suite
from skillcomp.io.tables import RECORDS, line_of, parse_line, read_lines, read_table, validated
from skillcomp.records import Skill, Suite

__all__ = ["RunStore", "StoreWarning", "read_table"]


class RunStore:
    """A recorded study in a folder: skills, suites, answers, verdicts and labels.

    The folder holds ``manifest.json`` (format version, date, sha256 of every skill and suite),
    ``skills/<slug>/SKILL.md``, ``suites/<slug>.json`` and one JSON Lines file a table, to which
    lines are only ever added. Any number of processes may read while one writes.

    Parameters
    ----------
    path : str or path
        The folder. It is made by the first write; until then the store is empty.

    Attributes
    ----------
    path : pathlib.Path
        The folder.

    Raises
    ------
    StoreError
        If ``path`` is a file, or its manifest is broken or of a newer format.

    Notes
    -----
    A process that dies while writing can leave a torn last line. Whoever opens the store next
    moves its bytes to ``<table>.torn``, notes it in the manifest, warns, and lists it in
    ``problems``; while a writer is at work the torn line is only left out. A broken line anywhere
    else is an error, since nothing that this class does can cause it.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from skillcomp.records import GoldLabel
    >>> with TemporaryDirectory() as folder:
    ...     store = RunStore(folder)
    ...     label = GoldLabel(attempt_id="a/1", check_id="c", labeller="me", passed=True)
    ...     _ = store.append("gold", [label])
    ...     store.table("gold").select(["labeller", "passed"]).to_pylist()
    [{'labeller': 'me', 'passed': True}]
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)
        if self.path.exists() and not self.path.is_dir():
            raise StoreError(f"{self.path} is a file; a store is a folder.")
        self._mutex = threading.RLock()
        self._held = 0  # writer blocks open in this process, by any of its threads
        self._hold = ExitStack()
        self._sync = True
        self._tables: dict[str, tuple[tuple[int, int], pa.Table]] = {}
        self._extras: dict[str, Counter[str]] = {}
        self._notices: dict[str, str] = {}
        self._skills: dict[str, Skill] | None = None
        self._suites: dict[str, Suite] | None = None
        self._hashes: _folder.Hashes = {}
        _folder.read_manifest(self.path)  # a broken or newer one is told now
        for table in self.tables:
            self._settle(table)

    def __repr__(self) -> str:
        """Show the folder."""
        return f"RunStore({str(self.path)!r})"

    @property
    def manifest(self) -> dict[str, Any]:
        """The manifest as it stands in the folder; a bare one where there is none yet."""
        return _folder.read_manifest(self.path)

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of the tables that have a file, in alphabetical order."""
        return tuple(sorted(file.stem for file in self.path.glob("*.jsonl")))

    @property
    def skills(self) -> Mapping[str, Skill]:
        """The recorded skills by slug, read on first use."""
        if self._skills is None:
            self._skills = _folder.read_skills(self.path)
        return dict(self._skills)

    @property
    def suites(self) -> Mapping[str, Suite]:
        """The recorded suites by slug, read on first use."""
        if self._suites is None:
            self._suites = _folder.read_suites(self.path)
        return dict(self._suites)

    def table(self, name: str) -> pa.Table:
        """Return a table as Arrow with stable columns.

        Parameters
        ----------
        name : str
            ``"attempts"``, ``"verdicts"``, ``"gold"``, ``"pairwise"``, or a table of one's own.

        Returns
        -------
        pyarrow.Table
            One row per recorded line in the order of writing, with the columns and types of the
            record (see :func:`skillcomp.io.read_table`); no rows where nothing is recorded. Keys
            that the record does not know are left out and counted in ``problems``. A table of
            one's own has the types that its values suggest.

        Raises
        ------
        StoreError
            If a line in the middle is broken or a value does not fit; names the file and line.

        Notes
        -----
        The table is kept (Arrow tables cannot be changed) and read anew once the file has changed.
        """
        size = self._settle(name)
        file = self._file(name)
        state = (size, file.stat().st_mtime_ns if size else 0)
        if self._tables.get(name, (None,))[0] != state:
            table, self._extras[name] = read_lines(file, name, size)
            self._tables[name] = (state, table)
        return self._tables[name][1]

    def records(self, name: str) -> Iterator[Any]:
        """Yield the lines of a table one by one: validated records, or dicts for other tables.

        Slower than :meth:`table` by far; meant for small tables and for resuming a study.

        Parameters
        ----------
        name : str
            Any table name; one without a file yields nothing.

        Yields
        ------
        Record or dict
            In the order of writing.

        Raises
        ------
        StoreError
            If a line is not a JSON object or not a valid record; names the file and line.
        """
        file, left = self._file(name), self._settle(name)
        if not left:
            return
        with file.open("rb") as stream:
            for number, line in enumerate(stream, start=1):
                left -= len(line)
                if line.strip():
                    row = parse_line(line, file, number)
                    place = f"{file}, line {number}"
                    yield validated(line, name, place) if name in RECORDS else row
                if left <= 0:
                    return

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong with the store, one sentence each; empty when all is well.

        Edited, missing or unlisted skills and suites; deviations inside them; torn lines, those
        repaired earlier too; unknown keys in the tables read so far.
        """
        if not self.path.exists():
            return (f"{self.path}: there is no store here yet; the first write makes it.",)
        manifest = self.manifest
        found = [] if _folder.has_manifest(self.path) else [f"{_folder.MANIFEST} is missing."]
        found += _folder.mismatches("skills", manifest["skills"], self.skills)
        found += _folder.mismatches("suites", manifest["suites"], self.suites)
        found += [_folder.repair_sentence(**repair) for repair in manifest.get("repairs", [])]
        found += self._notices.values()
        for table, extras in self._extras.items():
            found += [
                f"{table}: the key '{key}' is not one of the record's; left out of {n} lines."
                for key, n in extras.items()
            ]
        for skill in self.skills.values():
            found += [f"{skill.path}: {problem}" for problem in skill.problems]
        for suite in self.suites.values():
            found += [f"{suite.path}: {problem}" for problem in suite.problems]
        return tuple(found)

    @property
    def fingerprint(self) -> str:
        """The sha256 over manifest, skills, suites and tables: two equal studies have the same."""
        return _folder.fingerprint(self.path, self._hashes)

    # Writing

    @contextmanager
    def writer(self, *, sync: bool = True) -> Iterator[RunStore]:
        """Hold the place of the store's only writer for as long as the block runs.

        Single calls of :meth:`append` take and leave it by themselves; a long study holds it.

        Parameters
        ----------
        sync : bool, default True
            Have each :meth:`append` reach the disk before it returns. False leaves that to the
            operating system until the block ends: faster for many small appends, and a power cut
            may then cost the last of them.

        Yields
        ------
        RunStore
            This store.

        Raises
        ------
        StoreError
            If another writer holds the place: names its process, host, start and command; or if
            the folder holds other things and is no store.
        """
        self._take(_journal.PATIENCE, sync=sync)
        try:
            yield self
        finally:
            self._leave()

    def _take(self, patience: float, *, sync: bool = True) -> None:
        with self._mutex:
            if not self._held:
                _folder.make(self.path)
                with ExitStack() as stack:
                    stack.enter_context(_journal.locked(self.path, patience=patience))
                    self._prepare()
                    self._hold = stack.pop_all()
                self._sync = sync
            self._held += 1

    def _leave(self) -> None:
        with self._mutex:
            self._held -= 1
            if self._held:
                return
            with self._hold:
                for table in self.tables if not self._sync else ():
                    _journal.append(self._file(table), [], sync=True)

    def _prepare(self) -> None:
        if not _folder.has_manifest(self.path):
            _folder.write_manifest(
                self.path, created=datetime.now(UTC).isoformat(timespec="seconds")
            )
        for table in self.tables:
            _folder.mend(self.path, table)

    def append(self, table: str, records: Iterable[BaseModel | Mapping[str, Any]]) -> int:
        """Add records to a table; they are on the disk when this returns.

        Parameters
        ----------
        table : str
            ``"attempts"``, ``"verdicts"``, ``"gold"``, ``"pairwise"``, or a table of one's own in
            lower case such as ``"batches"``.
        records : iterable of pydantic records or mappings
            Validated against the table's record before anything is written: all or none are
            added. Tables of one's own take any pydantic record or JSON mapping.

        Returns
        -------
        int
            How many were added.

        Raises
        ------
        StoreError
            If a record is not valid (names its position and every fault), the table's name is not
            allowed, another writer is at work, or the disk refuses.
        """
        file = self._file(table)
        lines = [line_of(record, table, i) for i, record in enumerate(records)]
        if lines:
            with self.writer(), self._mutex:
                _journal.append(file, lines, sync=self._sync)
        return len(lines)

    def add_skill(self, path: str | PathLike[str], *, slug: str | None = None) -> Skill:
        """Record a skill: copy its SKILL.md into the store and its sha256 into the manifest.

        Parameters
        ----------
        path : str or path
            The SKILL.md or its folder.
        slug : str, optional
            Name inside the store; the folder's name when not given.

        Returns
        -------
        Skill
            As it now stands in the store.

        Raises
        ------
        StoreError
            If the store has another text under this slug: what was recorded stays as it is.
        SkillError
            If the file cannot be read.
        """
        skill = read_skill(path)
        slug = checked_slug(slug or skill.slug, StoreError)
        given = Path(path)
        file = given / FILE_NAME if given.is_dir() else given
        self._add("skills", slug, f"skills/{slug}/{FILE_NAME}", file.read_bytes())
        self._skills = None
        return self.skills[slug]

    def add_suite(self, path: str | PathLike[str], *, slug: str | None = None) -> Suite:
        """Record a suite: copy its JSON into the store and its sha256 into the manifest.

        Parameters
        ----------
        path : str or path
            The JSON file.
        slug : str, optional
            Name inside the store and first half of every case_id; the file's stem when not given.

        Returns
        -------
        Suite
            As it now stands in the store.

        Raises
        ------
        StoreError
            If the store has another text under this slug.
        SuiteError
            If the file cannot be read.
        """
        suite = read_suite(path)
        slug = checked_slug(slug or suite.slug, StoreError)
        self._add("suites", slug, f"suites/{slug}.json", Path(path).read_bytes())
        self._suites = None
        return self.suites[slug]

    def _add(self, kind: str, slug: str, place: str, data: bytes) -> None:
        with self.writer():
            listed, hashed = self.manifest[kind], digest(data)
            if slug in listed and listed[slug]["sha256"] != hashed:
                raise StoreError(
                    f"{self.path}: {kind[:-1]} '{slug}' is recorded with another text; what was "
                    "answered belongs to that text. Add the new one under another slug."
                )
            target = self.path / place
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.resolve().is_relative_to(self.path.resolve()):
                raise StoreError(f"{target}: the link leads out of the store; nothing was written.")
            _journal.replace(target, data)
            _folder.write_manifest(
                self.path, **{kind: {**listed, slug: {"path": place, "sha256": hashed}}}
            )

    def annotate(self, **notes: Any) -> None:
        """Set plain JSON values in the manifest, such as ``created`` or ``collected``.

        Parameters
        ----------
        **notes
            Name and value; ``format``, ``version``, ``skills``, ``suites`` and ``repairs`` are the
            store's own.

        Raises
        ------
        StoreError
            If a name is the store's own.
        """
        own = _folder.OWN_NOTES & notes.keys()
        if own:
            raise StoreError(f"{', '.join(sorted(own))}: kept by the store itself.")
        with self.writer():
            _folder.write_manifest(self.path, **notes)

    # Torn lines

    def _file(self, table: str) -> Path:
        if not (table.isascii() and table.isidentifier() and table == table.lower()):
            raise StoreError(
                f"'{table}' cannot name a table; allowed: lower-case letters, digits and '_'."
            )
        file = self.path / f"{table}.jsonl"
        if file.is_symlink() and not file.resolve().is_relative_to(self.path.resolve()):
            raise StoreError(f"{file}: the link leads out of the store.")
        return file

    def _settle(self, table: str) -> int:
        """Return how many bytes of a table are whole, repairing a torn end if no one writes."""
        file = self._file(table)
        size, torn = _journal.whole_size(file)
        self._notices.pop(table, None)
        if not torn:
            return size
        try:
            self._take(0)  # mends every table
            self._leave()
            return _journal.whole_size(file)[0]
        except (StoreError, OSError):
            self._notices[table] = (
                f"{file.name}: the last line is not whole ({len(torn)} bytes) and is left out; it "
                "was not repaired, because the store is being written or cannot be written."
            )
            return size
