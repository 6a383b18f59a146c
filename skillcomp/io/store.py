"""The store of a study: append-only JSON Lines, with copies of its skills and suites."""

from __future__ import annotations

import json
import os
import re
import shutil
import threading
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from hashlib import file_digest, sha256
from os import PathLike
from os.path import isdir
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from pydantic import BaseModel

from skillcomp.errors import (
    SkillError,
    StoreError,
    SuiteError,
    literal,
    require_known,
    require_type,
)
from skillcomp.io import journal
from skillcomp.io.files import JsonObject, as_path, checked_slug, digest, read_own, replace_file
from skillcomp.io.journal import StoreWarning
from skillcomp.io.json_lines import RECORDS, as_line, parse_line, read_lines, record_of
from skillcomp.io.redaction import redact_lines
from skillcomp.io.skills import FILE_NAME, copy_skill, read_skill, tree_of
from skillcomp.io.study_overview import change_lines, overview_facts, overview_html
from skillcomp.io.suites import read_suite, suite_source
from skillcomp.io.task_suites import FILE_NAME as TASKS
from skillcomp.io.task_suites import file_place, suite_files
from skillcomp.records import Skill, Suite

__all__ = ["RunStore", "StoreWarning"]

# A saved passage with this ``level`` is the text of a skill.
SOURCE = "source"
SAVED_FRAMES = "frames"  # Only manifests that `Frames.save` wrote have an entry of this name.
RECORDED = "recorded answers, nothing was asked anew"  # Pages and tables say so of a replay.
_OWN_NOTES = frozenset({"format", "version", "skills", "suites"})
_TABLE = re.compile("[a-z_][a-z0-9_]{0,99}")
_SKILL_FILES = (f"skills/*/{FILE_NAME}",)
# What a user can do if a skill or suite has another text than the recorded one.
_WAYS = {
    "skills": "Answers belong to the recorded text: for the new one, name another store in "
    "study.yaml (store: {0}-2). It can compare both, under the conditions previous (previous: "
    "{0}/skills/{1}/SKILL.md) and skill.",
    "suites": "If it has no answers yet, 'skillcomp drop {0} {1}' removes it. Answers and verdicts "
    "belong to the recorded text: for the new one, name another store in study.yaml (store: {0}-2) "
    "where all its cases are asked and graded. If only checks have changed, the agent {{kind: "
    "replay, store: {0}}} takes over the answers there, and only the grading is new. Or give the "
    "file of the suite another name: its cases are then added to this store, asked and graded, and "
    "a verdict on the skill counts the cases of both suites.",
}
_SUITE_FILES = ("suites/*.csv", "suites/*.json", f"suites/*/{TASKS}")


class RunStore:
    """A recorded study in a folder: skills, suites, answers, verdicts and labels.

    The folder holds ``manifest.json`` (format version, date, sha256 of every skill and suite),
    ``skills/<slug>/SKILL.md``, ``suites/<slug>.json`` (or ``.csv``; tasks in
    ``suites/<slug>/task_suite.yaml`` with their fixtures) and one JSON Lines file per table
    (described in ``data/README.md``), to which lines are only ever appended. Any number of
    processes may read while one writes.

    Parameters
    ----------
    path : str or path
        The folder. The first write creates it; until then the store is empty.

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
    A process that dies while writing can leave a torn last line. Reading leaves it out, warns, and
    lists it in ``problems``; it never changes a file. The next process that writes moves the torn
    bytes to ``<table>.torn``, which ``problems`` lists from then on. A broken line anywhere else is
    an error, because this class cannot cause one.

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
        self.path = as_path(path, "RunStore", StoreError)
        try:
            is_file = self.path.exists() and not self.path.is_dir()
        except OSError as cause:
            raise StoreError(f"{self.path}: no store can be here ({cause.strerror}).") from cause
        if is_file:
            raise StoreError(f"{self.path} is a file; a store is a folder.")
        self._mutex = threading.RLock()
        self._n_writers = 0  # number of `writer` blocks that are open in any thread of this process
        self._lock_stack = ExitStack()
        self._tables: dict[str, tuple[tuple[int, int], pa.Table]] = {}
        self._extras: dict[str, Counter[str]] = {}
        self._notices: dict[str, str] = {}
        self._warned: set[str] = set()  # Tables for which a warning about a torn line was given.
        journal.read_manifest(self.path)  # raise now if the manifest is broken or of a newer format
        for table in self.tables:
            self._settled_size(table)

    def __repr__(self) -> str:
        """Return a call that opens this store."""
        return f"RunStore({str(self.path)!r})"

    def _repr_html_(self) -> str:
        """Return the contents of the study in a few lines."""
        attempts = self.table("attempts").select(["skill", "condition", "agent", "status"])
        answers = attempts.to_pandas()
        verdicts = self.table("verdicts").select(["grader", "passed", "score"]).to_pandas()
        saved = list(self.records("cases"))
        skills = list(self.skills) or list(dict.fromkeys(case["skill"] for case in saved))
        n_cases = sum(len(suite.cases) for suite in self.suites.values()) or len(saved)
        n_gold, of_table = self.table("gold").num_rows, self.manifest.get(SAVED_FRAMES, {})
        return overview_html(
            repr(self),
            overview_facts(skills, n_cases, answers, verdicts, n_gold),
            columns=of_table.get("columns", {}),
            changes=of_table.get("problems", []),
        )

    @property
    def manifest(self) -> JsonObject:
        """The current manifest; an empty manifest if the folder has none."""
        return journal.read_manifest(self.path)

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of the tables that have a file, in alphabetical order."""
        return tuple(sorted(file.stem for file in self.path.glob("*.jsonl")))

    @property
    def skills(self) -> Mapping[str, Skill]:
        """The recorded skills by slug, read on first use; their paths are relative to the store."""
        return dict(self._skills_by_slug)

    @property
    def suites(self) -> Mapping[str, Suite]:
        """The recorded suites by slug, read on first use; their paths are relative to the store."""
        return dict(self._suites_by_slug)

    @cached_property
    def _skills_by_slug(self) -> dict[str, Skill]:
        saved = self.rows("passages") if SAVED_FRAMES in self.manifest else []
        texts = {row["skill"]: row["text"] or "" for row in saved if row["level"] == SOURCE}
        return {slug: Skill(slug=slug, text=text, body=text) for slug, text in texts.items()} | {
            file.parent.name: read_skill(file).model_copy(update={"path": place})
            for file, place in _files_inside(self.path, _SKILL_FILES)
        }

    @cached_property
    def _suites_by_slug(self) -> dict[str, Suite]:
        listed, suites = self.manifest["suites"], {}
        for file, place in _files_inside(self.path, _SUITE_FILES):
            slug = file.parent.name if file.name == TASKS else file.stem
            suite = read_suite(file, slug=slug, skill=listed.get(slug, {}).get("skill"))
            suites[slug] = suite.model_copy(update={"path": place})
        return dict(sorted(suites.items()))

    def table(self, name: str) -> pa.Table:
        """Return a table as an Arrow table with stable columns.

        Parameters
        ----------
        name : str
            ``"attempts"``, ``"verdicts"``, ``"gold"``, ``"pairwise"``, or the name of a user's
            own table.

        Returns
        -------
        pyarrow.Table
            One row per line in the order of writing, with the columns and types of the record; no
            rows if nothing is recorded. Unknown keys are left out and counted in ``problems``. The
            types of a user's own table are inferred from its values.

        Raises
        ------
        StoreError
            If a line before the last is broken or a value does not fit its column. The message
            names file and line.

        Notes
        -----
        The table is cached (Arrow tables are immutable) and read again when the file has changed.
        """
        size = self._settled_size(name)
        file = self._table_file(name)
        state = (size, file.stat().st_mtime_ns if size else 0)
        if self._tables.get(name, (None,))[0] != state:
            # In saved frames, a missing key is a missing value (for example of ``status``). In
            # other stores, it means the default of the field.
            defaults = SAVED_FRAMES not in self.manifest
            table, self._extras[name] = read_lines(file, name, size, defaults=defaults)
            self._tables[name] = (state, table)
        return self._tables[name][1]

    def rows(self, name: str, *columns: str) -> list[Any]:
        """Return the rows of :meth:`table` as mappings, with the given columns or with all."""
        table = self.table(name)
        rows: list[Any] = (table.select(columns) if columns else table).to_pylist()
        return rows

    def records(self, name: str) -> Iterator[Any]:
        """Yield the rows of a table one by one: validated records, or dicts for a user's own table.

        This is much slower than :meth:`table`. Use it for small tables and to resume a study.

        Parameters
        ----------
        name : str
            Name of the table; a table without a file yields nothing.

        Yields
        ------
        Record or dict
            The rows in the order of writing.

        Raises
        ------
        StoreError
            If a line is not a JSON object or not a valid record; the message names file and line.
        """
        file, left = self._table_file(name), self._settled_size(name)
        if not left:
            return
        with file.open("rb") as stream:
            for number, line in enumerate(stream, start=1):
                left -= len(line)
                if line.strip():
                    row = parse_line(line, file, number)
                    place = f"{file}, line {number}"
                    yield record_of(row, name, place) if name in RECORDS else row
                if left <= 0:
                    return

    @property
    def problems(self) -> tuple[str, ...]:
        """Faults of the store, one sentence each; empty if there are none.

        Faults are skills and suites that were edited, are missing, are not in the manifest or
        deviate from their format, torn lines (also repaired ones), and unknown keys in the tables
        read so far.
        """
        if not self.path.exists():
            return (f"{self.path}: there is no store here yet; the first write makes it.",)
        manifest = self.manifest
        problems = [] if journal.has_manifest(self.path) else [f"{journal.MANIFEST} is missing."]
        problems += _manifest_mismatches("skills", manifest["skills"], self.skills)
        problems += _manifest_mismatches("suites", manifest["suites"], self.suites)
        problems += [
            f"{file.name} holds the bytes of torn lines of {file.stem}.jsonl."
            for file in sorted(self.path.glob("*.torn"))
        ]
        problems += self._notices.values()
        problems += change_lines(manifest.get(SAVED_FRAMES, {}).get("problems", []))
        for table, extras in self._extras.items():
            problems += [
                f"{table}: the key '{key}' is not one of the record's; left out of {n} lines."
                for key, n in extras.items()
            ]
        read: list[Skill | Suite] = [*self.skills.values(), *self.suites.values()]
        problems += [f"{record.path}: {problem}" for record in read for problem in record.problems]
        return tuple(problems)

    @property
    def fingerprint(self) -> str:
        """One sha256 over manifest, skills, suites and tables; it is the same for equal studies."""
        whole = sha256()
        patterns = (journal.MANIFEST, *_SKILL_FILES, *_SUITE_FILES, "*.jsonl")
        files = [file for pattern in patterns for file in self.path.glob(pattern)]
        for place, file in sorted((f.relative_to(self.path).as_posix(), f) for f in files):
            with file.open("rb") as stream:
                hashed = file_digest(stream, "sha256").hexdigest()
            whole.update(f"{place}\n{hashed}\n".encode())
        return whole.hexdigest()

    @contextmanager
    def writer(self) -> Iterator[RunStore]:
        """Lock the store for writing until the block ends.

        Without this block, each :meth:`append` takes and releases the lock on its own. The block
        holds the lock for the whole of a long study.

        Yields
        ------
        RunStore
            This store.

        Raises
        ------
        StoreError
            If another writer holds the lock (the message names its process, host, start and
            command), or the folder is not a store and not empty.
        """
        with self._mutex:
            if not self._n_writers:
                _make_store_folder(self.path)
                with ExitStack() as stack:
                    stack.enter_context(journal.locked(self.path))
                    if not journal.has_manifest(self.path):
                        journal.write_manifest(self.path, created=journal.time_now())
                    for table in self.tables:
                        journal.mend(self.path, table)
                    self._lock_stack = stack.pop_all()
            self._n_writers += 1
        try:
            yield self
        finally:
            with self._mutex:
                self._n_writers -= 1
                if not self._n_writers:
                    self._lock_stack.close()

    def append(self, table: str, records: Iterable[BaseModel | Mapping[str, Any]]) -> int:
        """Add records to a table; they are on the disk when this returns.

        Parameters
        ----------
        table : str
            ``"attempts"``, ``"verdicts"``, ``"gold"``, ``"pairwise"``, or a user's own table with
            a lower-case name such as ``"notes"``.
        records : iterable of pydantic records or mappings
            Validated against the table's record before anything is written: all or none are
            added. A user's own table takes any pydantic record or JSON mapping. Secrets, such as
            the values of environment variables that hold keys, are replaced in all texts.

        Returns
        -------
        int
            The number of records added.

        Raises
        ------
        StoreError
            If a record is not valid (the message names its position and every fault), the table's
            name is not allowed, another process is writing, or the disk refuses to write.
        """
        file = self._table_file(table)
        lines = [as_line(record, table, i) for i, record in enumerate(records)]
        if lines:
            with self.writer(), self._mutex:
                journal.append(file, redact_lines(lines))
        return len(lines)

    def add_skill(self, path: str | PathLike[str], *, slug: str | None = None) -> Skill:
        """Record a skill: copy its folder into the store and its sha256 into the manifest.

        Hidden files and tests of the skill (``evals``) are left out. Once the store has answers,
        no further files are added to a recorded skill.

        Parameters
        ----------
        path : str or path
            The SKILL.md or its folder.
        slug : str, optional
            Name inside the store; the folder's name when not given.

        Returns
        -------
        Skill
            The skill as recorded in the store.

        Raises
        ------
        StoreError
            If the store has another text under this slug; the recorded text stays unchanged.
        SkillError
            If the file cannot be read.
        """
        skill = read_skill(path)
        slug = checked_slug(slug or skill.slug, StoreError)
        place = Path(path)
        file = place / FILE_NAME if isdir(place) else place
        grows = file.name == FILE_NAME and self._may_grow("skills", slug)
        tree = tree_of(file.parent) if grows else None
        more = {"tree": tree} if tree else {}
        data = read_own(file, what=FILE_NAME, error=SkillError)
        self._add_file("skills", slug, f"skills/{slug}/{FILE_NAME}", data, **more)
        if more:
            copy_skill(file.parent, self.path / "skills" / slug)
        return self.skills[slug]

    def add_suite(
        self, path: str | PathLike[str], *, slug: str | None = None, skill: str | None = None
    ) -> Suite:
        """Record a suite: copy its file into the store and its sha256 into the manifest.

        The input files that its cases list under ``files`` are copied too, as are the schemas of a
        trigger suite and, for tasks, the folders ``fixtures`` and ``reference`` next to the file.

        Parameters
        ----------
        path : str or path
            The JSON or YAML file, the ``prompts.csv``, or a folder, as in `read_suite`.
        slug : str, optional
            Name inside the store and first half of every case_id; the default is that of
            `read_suite`.
        skill : str, optional
            The skill of a suite, as in `read_suite`.

        Returns
        -------
        Suite
            The suite as recorded in the store.

        Raises
        ------
        StoreError
            If the store has another text under this slug (see :meth:`drop_suite`).
        SuiteError
            If the file cannot be read.
        """
        source, data = suite_source(as_path(path, "add_suite", SuiteError))
        suite = read_suite(source, skill=skill)
        slug = checked_slug(slug or suite.slug, StoreError)
        files = suite_files(suite, source) if self._may_grow("suites", slug) else {}
        hashes = {
            name: digest(read_own(file, what="file of a suite", error=SuiteError))
            for name, file in files.items()
        }
        more: JsonObject = {"files": hashes} if files else {}
        if source.suffix == ".csv" or suite.kind not in ("comprehension", "tasks"):
            # csv files and files of other tools may lack the name of the skill
            more["skill"] = suite.skill
        place = f"suites/{slug}{source.suffix or '.json'}"
        if suite.kind == "tasks":
            place = f"suites/{slug}/{TASKS}"
        self._add_file("suites", slug, place, data, **more)
        for name, file in files.items():
            target = self.path / file_place(place, slug, name)
            self._make_way(target)
            if target.resolve() != file.resolve():
                shutil.copyfile(file, target)
        return self.suites[slug]

    def _make_way(self, target: Path) -> None:
        make_folder(target.parent)
        _require_inside(target, self.path, "nothing was written")

    def _may_grow(self, kind: str, slug: str) -> bool:
        """Return whether files may be added: the slug is new or the store has no answers yet."""
        is_new = slug not in self.manifest[kind]
        return is_new or not journal.whole_size(self._table_file("attempts"))[0]

    def _add_file(self, kind: str, slug: str, place: str, data: bytes, **more: Any) -> None:
        with self.writer():
            listed, hashed = self.manifest[kind], digest(data)
            if slug in listed and listed[slug]["sha256"] != hashed:
                raise StoreError(
                    f"{self.path}: {kind[:-1]} '{slug}' is recorded with another text. "
                    f"{_WAYS[kind].format(self.path.name, slug)}"
                )
            twins = [name for name in listed if name != slug and name.lower() == slug.lower()]
            if twins:  # on some file systems, one would overwrite the other
                both = f"'{slug}' and '{twins[0]}' differ only in upper and lower case"
                raise StoreError(f"{self.path}: {both}; choose another slug.")
            target = self.path / place
            self._make_way(target)
            # the text of a skill or suite is part of the study, so it must not be changed
            replace_file(target, data, is_copy=True)
            entry = {**listed.get(slug, {}), "path": place, "sha256": hashed, **more}
            self._list_texts(**{kind: {**listed, slug: entry}})

    def drop_suite(self, slug: str) -> None:
        """Remove a suite without answers, such as one that was added by mistake.

        Its planned cells and failed tries are moved to the files ``plan.dropped`` and
        ``attempts.dropped``.

        Parameters
        ----------
        slug : str
            The suite.

        Raises
        ------
        StoreError
            If the store has no such suite, or has answers to its cases, which are never removed.
        """
        with self.writer():
            suites = self.manifest["suites"]
            require_known(f"{self.path}: no suite", slug, suites, StoreError, label="there")
            for table in ("attempts", "plan"):
                file = self._table_file(table)
                lines = file.read_bytes().splitlines() if file.exists() else []
                parts: dict[bool, list[bytes]] = {True: [], False: []}
                for number, line in enumerate(lines, start=1):
                    row = parse_line(line, file, number)
                    is_own = str(row.get("case_id")).startswith(f"{slug}/")
                    parts[is_own].append(line)
                    failed = row.get("status") == "error"
                    failed |= row.get("status") == "timeout" and not row.get("stop_reason")
                    if is_own and table == "attempts" and not failed:
                        raise StoreError(
                            f"{self.path}: suite '{slug}' has answers, which stay in the store. "
                            "Nothing was dropped; a study without this suite needs another store."
                        )
                if parts[True]:
                    journal.append(file.with_suffix(".dropped"), parts[True])
                    replace_file(file, b"\n".join([*parts[False], b""]), is_copy=True)
            for file, place in _files_inside(self.path, _SUITE_FILES):
                if place == suites[slug].get("path"):
                    file.unlink()
            self._list_texts(suites={name: suites[name] for name in suites if name != slug})

    @contextmanager
    def provisional(self) -> Iterator[None]:
        """Undo the skills, suites and plans that the block adds if it fails before any answer.

        After an error, a changed study file can then be run as if the failed call had not been
        made. Nothing is undone once the block has stored an answer or a failed try.
        """
        with self.writer():
            attempts, *plans = map(self._table_file, ("attempts", "plan", "arms", "agents"))
            sizes = {file: journal.whole_size(file)[0] for file in (attempts, *plans)}
            manifest, files = self.manifest, {*self._text_files()}
            try:
                yield
            except Exception:
                if journal.whole_size(attempts)[0] == sizes[attempts]:
                    for file in filter(Path.exists, plans):
                        os.truncate(file, sizes[file])
                    for file in {*self._text_files()} - files:
                        file.unlink()
                    self._list_texts(skills=manifest["skills"], suites=manifest["suites"])
                raise

    def _text_files(self) -> list[Path]:
        """Return the files of skills and suites."""
        places = (file for kind in ("skills", "suites") for file in self.path.glob(f"{kind}/**/*"))
        return [file for file in places if file.is_file()]

    def _list_texts(self, **texts: JsonObject) -> None:
        """List skills or suites in the manifest; `skills` and `suites` then read the files anew."""
        journal.write_manifest(self.path, **texts)
        for name in ("_skills_by_slug", "_suites_by_slug"):
            vars(self).pop(name, None)

    def annotate(self, **notes: Any) -> None:
        """Set plain JSON values in the manifest, such as ``created`` or ``collected``.

        Parameters
        ----------
        **notes
            Name and value; ``format``, ``version``, ``skills`` and ``suites`` are reserved.

        Raises
        ------
        StoreError
            If a name is reserved.
        """
        own = _OWN_NOTES & notes.keys()
        if own:
            raise StoreError(f"{', '.join(sorted(own))}: kept by the store itself.")
        with self.writer():
            journal.write_manifest(self.path, **notes)

    def _table_file(self, table: str) -> Path:
        if not _TABLE.fullmatch(table):
            raise StoreError(
                f"{literal(table)} cannot name a table; allowed: up to 100 lower-case letters, "
                "digits and '_', no digit first."
            )
        file = self.path / f"{table}.jsonl"
        if file.is_symlink():
            _require_inside(file, self.path, "nothing was read")
        if file.exists() and not file.is_file():
            raise StoreError(f"{file}: not a regular file; expected JSON Lines.")
        return file

    def _settled_size(self, table: str) -> int:
        """Return the size of a table's whole lines; report a torn last line and leave it out."""
        file = self._table_file(table)
        size, torn = journal.whole_size(file)
        if not torn:
            self._notices.pop(table, None)
            return size
        self._notices[table] = (
            f"{file.name}: the last line is not whole ({len(torn)} bytes) and is left out; the "
            f"next command that writes moves it to {table}.torn."
        )
        # do not warn while another process writes, because it will complete its line
        if table not in self._warned and journal.active_writer(self.path) is None:
            self._warned.add(table)
            warnings.warn(self._notices[table], StoreWarning, stacklevel=3)
        return size


def replayed_agents(store: RunStore) -> list[str]:
    """Return the names of the agents whose answers were replayed from a recording."""
    rows = store.records("agents")
    return [row["agent"] for row in rows if "replay" in json.loads(row["settings"] or "{}")]


def _make_store_folder(root: Path) -> None:
    """Make the folder of a store; raise if it has no manifest but contains unrelated files."""
    if root.exists() and not journal.has_manifest(root):
        names = {file.name for file in root.iterdir() if not file.name.startswith(".")}
        strange = sorted(names - {"skills", "suites"})
        if strange and not names & {f"{table}.jsonl" for table in RECORDS}:
            raise StoreError(
                f"{root} holds other things ({', '.join(strange[:3])}) and no {journal.MANIFEST}; "
                "name an empty or new folder for the store."
            )
    make_folder(root)


def _files_inside(root: Path, patterns: Sequence[str]) -> Iterator[tuple[Path, str]]:
    for file in sorted(file for pattern in patterns for file in root.glob(pattern)):
        _require_inside(file, root, "nothing was read")
        yield file, file.relative_to(root).as_posix()


def _require_inside(file: Path, root: Path, then: str) -> None:
    try:
        inside = file.resolve().is_relative_to(root.resolve())
        if file.is_symlink():
            file.stat()  # this call raises an error if the link is circular
    except FileNotFoundError:
        return
    except (OSError, RuntimeError) as cause:
        raise StoreError(f"{file}: the link leads round in a circle; {then}.") from cause
    if not inside:
        raise StoreError(f"{file}: the link leads out of the store; {then}.")


def make_folder(folder: Path) -> None:
    """Make a folder and the folders above it; raise StoreError if this fails."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as cause:
        why = getattr(cause, "strerror", None) or cause
        raise StoreError(f"{str(folder)!r}: the folder cannot be made ({why}).") from cause


def _manifest_mismatches(
    kind: str, listed: JsonObject, present: Mapping[str, Skill] | Mapping[str, Suite]
) -> Iterator[str]:
    """Yield a sentence for each difference between the manifest and the files in the folder."""
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


def as_store(value: object) -> RunStore:
    """Return the store unchanged; raise if the value is not a RunStore but, for example, a path."""
    require_type("store", value, RunStore, "sc.RunStore(folder)", StoreError)
    return cast(RunStore, value)


def require_store(value: object) -> RunStore:
    """Return a store unchanged if its folder holds a study or is empty; otherwise raise."""
    store = as_store(value)
    path = store.path
    nothing = not journal.has_manifest(path) and not store.tables
    if nothing and not (path.is_dir() and not any(path.iterdir())):
        raise StoreError(
            f"{path.absolute()}: there is no study here (no {journal.MANIFEST}, no tables); "
            "the one that comes with skillcomp is read by sc.datasets.load('pilot')."
        )
    return store
