"""Read tables in csv, parquet and JSON files, and convert them to frames."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import pandas as pd

from skillcomp.errors import FrameError, literal, plural, require_known
from skillcomp.frames.from_frame import ROLES, from_frame
from skillcomp.frames.save_frames import Frames
from skillcomp.frames.table_reader import FrameWarning
from skillcomp.frames.words import (
    ARGUMENTS,
    COLUMN_OF,
    distinct_words,
    kind_of_table,
    usual_roles,
)
from skillcomp.io.files import (
    MAX_BYTES,
    JsonObject,
    as_object,
    decode,
    json_content,
    list_of_objects,
    open_file,
    read_own,
    shown,
)
from skillcomp.io.parquet_tables import read_parquet

_FEW = 10_000  # number of objects whose fields a message names
_DEPTH = 4  # number of keys, one inside the other, that may lead to a list of objects


def table_at(path: Path, *, needed: bool = False) -> pd.DataFrame | None:
    """Return the table in a parquet or csv file; of another file raise (``needed``) or None."""
    table = _parsed_table(path) if path.is_file() else None
    if table is None and needed:
        raise FrameError(f"{path}: expected a csv or parquet file.")
    return table


def _parsed_table(path: Path) -> pd.DataFrame | None:
    with open_file(path, what="table", error=FrameError) as stream, _table_errors(path):
        head = stream.read(4096)
        if head.startswith(b"PAR1"):
            stream.seek(0)
            return read_parquet(stream, path)
    first = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    line = first.splitlines()[0] if first else b""
    separator = "\t" if b"\t" in line else ";" if b";" in line and b"," not in line else ","
    if first[:1] in (b"{", b"[") or separator.encode() not in line or b"\0" in head:
        return None
    data = read_own(path, what="table", error=FrameError, max_bytes=MAX_BYTES)
    return csv_table(decode(data, path, FrameError), separator, path)


def csv_table(text: str, separator: str, path: Path) -> pd.DataFrame:
    """Parse a csv text; a missing value is NaN, all others are text."""
    with _table_errors(path):
        header = pd.read_csv(StringIO(text), sep=separator, header=None, nrows=1, dtype="str").iloc[
            0
        ]
        if twice := sorted(set(header[header.duplicated() & header.notna()])):
            raise FrameError(f"{path}: columns stand twice: {', '.join(twice)}.")
        table = pd.read_csv(
            StringIO(text), sep=separator, dtype="str", keep_default_na=False, na_values=[""]
        )
    if not isinstance(table.index, pd.RangeIndex):
        raise FrameError(
            f"{path}: rows have more values than the header has columns; name every column in the "
            "header, and end no row with a separator."
        )
    return table


@contextmanager
def _table_errors(path: Path) -> Iterator[None]:
    """Raise FrameError if the ``with`` block cannot parse a table."""
    try:
        yield
    except FrameError:
        raise
    except (ValueError, OSError) as cause:  # ArrowInvalid and ParserError are kinds of ValueError
        message = " ".join(str(cause).split())
        raise FrameError(f"{path}: the table cannot be read ({message:.200}).") from cause


def one_table(paths: Mapping[str | None, Path], columns: Mapping[str, str]) -> pd.DataFrame | None:
    """Return the table at a path, or those of several arms in one; None if a file is no table."""
    tables = {arm: table_at(path) for arm, path in paths.items()}
    if None in tables or any(table is None for table in tables.values()):
        return tables.get(None)
    names = {name: role for name, role in columns.items() if role == "condition"}
    parts = [
        one_arm(table.rename(columns=names), arm, shown(paths[arm]))
        for arm, table in tables.items()
        if table is not None
    ]
    return pd.concat(parts, ignore_index=True)


def one_arm(table: pd.DataFrame, condition: str | None, place: str) -> pd.DataFrame:
    """Return the rows of one file; a condition from the mapping of paths applies to all rows."""
    if condition is None:
        return table
    words, under = (
        distinct_words(table[name]) if name in table else []
        for name in ("condition", "asked_under")
    )
    if len(words) > 1:
        raise FrameError(
            f"{place}: holds several arms ({', '.join(map(str, words))}), but the mapping of paths "
            f"gives it one, {literal(condition)}. Give the path alone."
        )
    if any((word == "baseline") != (condition == "baseline") for word in under):
        raise FrameError(
            f"{place}: the mapping of paths calls it {literal(condition)}, but its answers were "
            f"given under the condition {literal(under[0])}."
        )
    return table.assign(condition=str(condition))


def columns_by_role(table: pd.DataFrame, columns: Mapping[str, str]) -> dict[str, Any]:
    """Return the column of each role: as ``columns`` says, otherwise the column of that name."""
    labels = {str(name): name for name in table}
    named: dict[str, Any] = {}
    for name, role in columns.items():
        require_known(f"columns: {name!r}: found no role", role, ROLES)
        if role.startswith("labeller") and name not in labels:  # a column of the labels
            named[role] = name
            continue
        require_known("columns: found no column", name, labels, label="there")
        if role in ("cluster", "facts"):
            named[role] = [*named.get(role, []), labels[name]]
            continue
        if role in named:
            both = f"'{named[role]}' and {name!r}"
            raise FrameError(f"columns: {both} are both {role!r}; give one column per role.")
        named[role] = labels[name]
    others = {name: label for name, label in labels.items() if name not in columns}
    for role, name in COLUMN_OF.items():
        if name in others:
            others.setdefault(role, others[name])
    return {**others, **named}


def json_table_at(path: Path, columns: Mapping[str, str]) -> pd.DataFrame | None:
    """Return the table in a file of JSON objects (a list or JSON Lines); None for other files."""
    rows = json_content(path) if path.suffix in (".json", ".jsonl") else None
    flat = isinstance(rows, list) and all(isinstance(row, dict) for row in rows)
    table = pd.DataFrame(rows) if flat and rows else pd.DataFrame()
    names = {columns.get(str(name), str(name)) for name in table}
    has_case = names & {"case", "case_id", "question_id", "id"}
    has_verdict = names & {"winner", "passed", "score"}
    of_text = kind_of_table(table, list(columns.values()), names) == "passages"
    return table if of_text or (has_case and has_verdict) else None


def frames_of_table(
    table: pd.DataFrame, values: Mapping[str, str | None], columns: Mapping[str, str], **how: Any
) -> Frames:
    """Convert a table to frames.

    Its columns are named like the arguments of from_frame or have usual names; ``columns`` gives
    the role of each column with another name.
    """
    names = columns_by_role(table, columns)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FrameWarning)  # the caller warns about all problems
        given = list(dict.fromkeys(columns.values()))
        if kind_of_table(table, given, names) != "answers":
            return from_frame(table, **{role: names[role] for role in given}, **how)
        for role, value in values.items():
            if value is None:
                continue
            if value not in table:
                table = table.assign(**{role: value})
                value = role
            names[role] = value
        without: dict[str, Any] = {"skill": None}
        without |= {"condition": None} if "gold" in names else {}
        without |= {"passed": None} if "score" in names else {}
        other = {*ARGUMENTS["pair"], *ARGUMENTS["passage"]}
        roles = {role: names[role] for role in ROLES if role in names and role not in other}
        return from_frame(table, **without | roles, **how)


def table_in_python(path: Path, keys: Sequence[str], rows: Sequence[JsonObject]) -> str:
    """Return which fields of a list have a role, and Python that makes a table of it."""
    if not rows:
        return ""
    frame = pd.json_normalize(list(rows[:_FEW]))
    names = list(map(str, frame.columns))
    last = [name.rpartition(".")[-1] for name in names]
    # a field inside another one is known by its own name, unless several have it
    pairs = zip(last, names, strict=True)
    labels = {end if last.count(end) == 1 else name: name for end, name in pairs}
    named = pd.DataFrame(columns=list(labels))
    found = usual_roles(named, ROLES, {})
    rest = [name for last, name in labels.items() if last not in found.values()]
    roles = {role: repr(labels[str(name)]) for role, name in found.items()}
    given = {"skill": "None", **dict.fromkeys(("case", "condition", "passed"), "..."), **roles}
    lines = "[json.loads(line) for line in file]" if path.suffix == ".jsonl" else "json.load(file)"
    return (
        f"\n- {plural(len(rows), 'object')}; recognised by name: "
        f"{', '.join(f'{name} as {role}' for role, name in roles.items()) or 'none'}; no role: "
        f"{', '.join(rest) or 'none'}. This Python reads them; give names for ... :\n"
        "import json, pandas as pd, skillcomp as sc\n"
        f"with open({str(path)!r}, encoding='utf-8-sig') as file: content = {lines}\n"
        f"table = pd.json_normalize(content{''.join(f'[{key!r}]' for key in keys)})\n"
        f"own = sc.from_frame(table, {', '.join(f'{r}={name}' for r, name in given.items())})\n"
        "print(sc.report.answer(own).lines())"
    )


def longest_list(content: Any, keys: tuple[str, ...]) -> tuple[tuple[str, ...], list[Any]]:
    """Return the longest list of objects in JSON, and the keys that lead to it."""
    if isinstance(content, list):
        return keys, list_of_objects(content)
    inner = as_object(content).items() if len(keys) < _DEPTH else ()
    found = [longest_list(value, (*keys, key)) for key, value in inner]
    return max(found, key=lambda pair: len(pair[1]), default=(keys, []))
