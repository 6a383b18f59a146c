"""Read a store, or a file with a table, as frames."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from io import StringIO
from pathlib import Path
from typing import Any

import orjson
import pandas as pd

from skillcomp.errors import FrameError, require_known
from skillcomp.frames import from_store
from skillcomp.frames.from_frame import from_frame
from skillcomp.frames.from_pairs import from_pairs
from skillcomp.frames.from_passages import from_passages
from skillcomp.frames.missing_attempts import with_planned
from skillcomp.frames.outcomes import outcomes
from skillcomp.frames.save_frames import Frames, saved_facts
from skillcomp.frames.table_reader import FrameWarning
from skillcomp.io.files import decode, open_file, read_own, strict_json
from skillcomp.io.parquet_tables import read_parquet
from skillcomp.io.store import RunStore
from skillcomp.readers.reader import (
    MAX_BYTES,
    read_json,
)
from skillcomp.readers.result_table import ROLES

# columns of a table of passages, and of a table of pairs
_OF_PASSAGES = {"text", "source", "label"}
_ALSO_OF_PASSAGES = ("document", "question")
_OF_PAIRS = ("case", "first", "second", "winner", "order", "gold", "grader")
# maps names of frame columns to arguments of from_frame, where the two names differ
_ARGUMENTS = {"case_id": "case", "check_id": "check", "attempt_id": "attempt"}


def frames_of_store(path: Path) -> Frames:
    """Return the frames of a recorded study or of saved frames."""
    store = RunStore(path)
    cases, attempts = from_store.cases(store), with_planned(from_store.attempts(store), store)
    verdicts = from_store.verdicts(store)
    return Frames(
        cases=cases,
        attempts=attempts,
        verdicts=verdicts,
        outcomes=outcomes(verdicts, cases, attempts=attempts),
        gold=from_store.gold(store),
        pairwise=from_store.pairwise(store),
        passages=from_store.passages(store),
        skills={slug: skill.text for slug, skill in store.skills.items()},
        **saved_facts(store),
    )


def table_at(path: Path) -> pd.DataFrame | None:
    """Return the table in a parquet or csv file; None if the file is of another kind."""
    if not path.is_file():
        return None
    with open_file(path, what="table", error=FrameError) as stream:
        head = stream.read(4096)
        if head.startswith(b"PAR1"):
            stream.seek(0)
            return _parsed_table(lambda: read_parquet(stream, path), path)
    first = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    line = first.splitlines()[0] if first else b""
    separator = "\t" if b"\t" in line else ";" if b";" in line and b"," not in line else ","
    if first[:1] in (b"{", b"[") or separator.encode() not in line or b"\0" in head:
        return None
    data = read_own(path, what="table", error=FrameError, max_bytes=MAX_BYTES)
    text = decode(data, path, FrameError)
    table = _parsed_table(lambda: pd.read_csv(StringIO(text), sep=separator), path)
    if not isinstance(table.index, pd.RangeIndex):
        raise FrameError(
            f"{path}: rows have more values than the header has columns; name every column in the "
            "header, and end no row with a separator."
        )
    return table


def _parsed_table(parse: Callable[[], pd.DataFrame], path: Path) -> pd.DataFrame:
    try:
        return parse()
    except FrameError:
        raise
    except (ValueError, OSError) as cause:  # ArrowInvalid and ParserError are kinds of ValueError
        message = " ".join(str(cause).split())
        raise FrameError(f"{path}: the table cannot be read ({message:.200}).") from cause


def renamed_columns(table: pd.DataFrame, columns: Mapping[str, str]) -> pd.DataFrame:
    """Rename columns to their roles; drop another column that already has the name of a role."""
    known = [*ROLES, *sorted(_OF_PASSAGES), *_ALSO_OF_PASSAGES, *_OF_PAIRS]
    labels, roles = [str(name) for name in table.columns], list(columns.values())
    for name, role in columns.items():
        require_known(f"columns: {name!r}: found no role", role, list(dict.fromkeys(known)))
        require_known("columns: found no column", name, labels, label="there")
        if roles.count(role) > 1:
            both = " and ".join(repr(n) for n, r in columns.items() if r == role)
            raise FrameError(f"columns: {both} are both {role!r}; give one column per role.")
    replaced = [n for n in table.columns if str(n) in roles and str(n) not in columns]
    table = table.drop(columns=replaced)
    return table.rename(columns={n: columns.get(str(n), n) for n in table.columns})


def json_table_at(path: Path, columns: Mapping[str, str]) -> pd.DataFrame | None:
    """Return the table in a file of JSON objects (a list or JSON Lines); None for other files."""
    if not path.is_file() or path.suffix not in (".json", ".jsonl"):
        return None
    lines: list[bytes] = []
    try:
        if path.suffix == ".json":
            rows = read_json(path)
        else:
            data = read_own(path, what="table", error=FrameError, max_bytes=MAX_BYTES)
            lines = data.split(b"\n")
            rows = [orjson.loads(line) for line in lines if line.strip()]
    except (FrameError, orjson.JSONDecodeError):
        return None
    flat = isinstance(rows, list) and all(isinstance(row, dict) for row in rows)
    table = pd.DataFrame(rows) if flat and rows else pd.DataFrame()
    names = {columns.get(str(name), str(name)) for name in table.columns}
    has_case = names & {"case", "case_id", "question_id", "id"}
    has_verdict = names & {"winner", "passed", "score"}
    if not (names >= _OF_PASSAGES or (has_case and has_verdict)):
        return None
    for number, line in enumerate(lines, start=1):
        try:
            strict_json(line.strip() or b"null")
        except ValueError as cause:
            raise FrameError(f"{path}, line {number}: not JSON ({cause}).") from cause
    return table


def frames_of_table(
    table: pd.DataFrame, values: Mapping[str, str | None], columns: Mapping[str, str], **how: Any
) -> Frames:
    """Convert a table to frames.

    Its columns are named like the arguments of from_frame or have usual names; ``columns`` gives
    the role of each column with another name. A table of texts with sources and labels is read by
    from_passages, a table of winners by from_pairs.
    """
    table = renamed_columns(table, columns)
    present = set(map(str, table.columns))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FrameWarning)  # the caller warns about all problems
        if present >= _OF_PASSAGES and "condition" not in present:
            more: dict[str, Any] = {name: name for name in _ALSO_OF_PASSAGES if name in present}
            return from_passages(table, **more, name=how.get("name"))
        if "winner" in present and not present & {"passed", "score"}:
            pairs: dict[str, Any] = {r: r for r in columns.values() if r in _OF_PAIRS}
            return from_pairs(table, **pairs)
    names = {c: _ARGUMENTS.get(str(c), c) for c in table.columns}
    names = {c: role for c, role in names.items() if role == c or role not in table.columns}
    table = table.rename(columns=names)
    for role, value in values.items():
        if value is not None:
            table = table.assign(**{role: table[value] if value in table.columns else value})
    roles: dict[str, Any] = {role: role for role in ROLES if role in table.columns}
    roles.setdefault("skill", None)
    if "gold" in roles:
        roles.setdefault("condition", None)
    if "score" in roles:
        roles.setdefault("passed", None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FrameWarning)  # the caller warns about all problems
        return from_frame(table, **roles, **how)
