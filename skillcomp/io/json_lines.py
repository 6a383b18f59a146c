"""Read JSON Lines into Arrow tables with the columns of the records, and write records as lines.

Records are validated by pydantic when they are written. Reading uses Arrow, which is fast enough
for half a million records; if Arrow rejects a file, its lines are checked one by one, so that the
error names the line.
"""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from pydantic import BaseModel, ValidationError

from skillcomp.errors import StoreError, literal, suggest
from skillcomp.io.files import JsonObject, open_file, strict_json
from skillcomp.io.journal import BOM
from skillcomp.records import Attempt, GoldLabel, PairwiseJudgement, Passage, Record, Verdict

RECORDS: Mapping[str, type[Record]] = {
    "attempts": Attempt,
    "verdicts": Verdict,
    "gold": GoldLabel,
    "pairwise": PairwiseJudgement,
    "passages": Passage,
}
_BLOCK = 1 << 22  # Arrow reads blocks of this many bytes; the fastest size in a benchmark.
_LONG_BLOCK = 1 << 29  # Block size for files with very long lines; a block must hold a whole line.
_NEWLINE = 10
MAX_TABLE = 1 << 34  # Maximum size of a table in bytes; frames of more do not fit into memory.
_WRITE = orjson.OPT_UTC_Z | orjson.OPT_NAIVE_UTC | orjson.OPT_SERIALIZE_NUMPY
_TEXTS = pa.list_(pa.string())
_TYPES: Mapping[Any, pa.DataType] = {
    str: pa.string(),
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
    datetime: pa.timestamp("us", tz="UTC"),
}
_NULL = re.compile(b"null")
_DAY, _FINER = re.compile(r"\d{4}-\d\d-\d\d"), re.compile(r"\.\d{7}")


@cache
def schema(name: str) -> pa.Schema:
    """Return the Arrow schema of a table: the fields of its record, in order.

    Text is ``string``, lists of texts ``list<string>``, whole numbers ``int64``, numbers
    ``double``, truth values ``bool``, times ``timestamp[us, UTC]``.
    """
    fields = RECORDS[name].model_fields
    return pa.schema([(key, _arrow_type(field.annotation)) for key, field in fields.items()])


def _arrow_type(annotation: Any) -> pa.DataType:
    options = [a for a in get_args(annotation) if a is not NoneType]
    if get_origin(annotation) is Literal:
        return _TYPES[type(options[0])]
    if get_origin(annotation) is tuple:
        return _TEXTS
    return _TYPES[annotation] if annotation in _TYPES else _arrow_type(options[0])


def read_lines(
    path: Path, name: str, size: int | None = None, *, defaults: bool = True
) -> tuple[pa.Table, Counter[str]]:
    """Read a JSON Lines file into a table; also return a count of each unknown key.

    Parameters
    ----------
    path : path
        The file.
    name : str
        The kind of record: ``"attempts"``, ``"verdicts"``, ``"gold"``, ``"pairwise"`` or
        ``"passages"``. Tables of other names get inferred types.
    size : int, optional
        Number of bytes to read, so that a line that another process is still writing is left out.
        Default: the whole file. A last line without a line feed is read if it is a JSON object.
    defaults : bool, default True
        Whether a missing key gets the default of the record's field. With False, it is null.

    Returns
    -------
    pyarrow.Table
        One row per line with the columns of ``schema(name)``. Unknown keys are left out.
    Counter of str
        In how many lines each unknown key is; known only if there are any.

    Raises
    ------
    StoreError
        If there is no such file, a line is not a JSON object, or a value does not fit its column;
        the message names file and line.
    """
    has_record = name in RECORDS
    if size is None:
        with open_file(path, what=f"file of {name}", error=StoreError) as stream:
            size = os.fstat(stream.fileno()).st_size
    empty = schema(name).empty_table() if has_record else pa.table({})
    if size == 0:
        return empty, Counter()
    if size > MAX_TABLE:
        raise StoreError(
            f"{path}: {size:,} bytes; a table may have at most {MAX_TABLE:,}. Keep the records in "
            "several studies; sc.frames.concat puts them together."
        )
    with pa.memory_map(os.fsencode(path)) as stream:
        buffer = stream.read_buffer(size)
        extras: Counter[str] = Counter()
        try:
            if _may_hold_a_null_row(buffer):
                raise pa.ArrowInvalid("null is not a JSON object")
            table = _parse_arrow(buffer, name, "error")
        except (pa.ArrowInvalid, UnicodeDecodeError) as cause:
            extras = _check_lines(buffer, path, name)
            # Arrow rejected the file; leave out its blank lines and unknown keys
            lines = [line for line in buffer.to_pybytes().split(b"\n") if line.strip()]
            try:
                sound = pa.py_buffer(b"\n".join(lines) + b"\n")
                table = _parse_arrow(sound, name, "ignore") if lines else empty
            except (pa.ArrowInvalid, UnicodeDecodeError) as again:
                raise StoreError(f"{path}: cannot be read as {name} ({again}).") from cause
        fields = RECORDS[name].model_fields if has_record and defaults else {}
        for key, field in fields.items():
            if not field.is_required() and field.default is not None:
                column = table.column(key)
                if column.null_count:
                    index = table.column_names.index(key)
                    table = table.set_column(index, key, pc.fill_null(column, field.default))
        if has_record and not _meets_contract(table, name):
            _check_lines(buffer, path, name)
    return table, extras


def _parse_arrow(buffer: pa.Buffer, name: str, unknown: str, block: int = _BLOCK) -> pa.Table:
    has_record = name in RECORDS
    options = pj.ParseOptions(
        explicit_schema=schema(name) if has_record else None,
        unexpected_field_behavior=unknown if has_record else "infer",
    )
    try:
        table = pj.read_json(pa.BufferReader(buffer), pj.ReadOptions(block_size=block), options)
    except pa.ArrowInvalid as cause:
        if "straddling" not in str(cause) or block == _LONG_BLOCK:
            raise
        return _parse_arrow(buffer, name, unknown, _LONG_BLOCK)
    table.validate(full=True)  # Arrow's reader does not check that text is valid UTF-8
    data = np.frombuffer(buffer, np.uint8)
    parts = (data[start : start + _BLOCK] for start in range(0, len(data), _BLOCK))
    n_full = sum(int(np.count_nonzero(part == _NEWLINE)) for part in parts)
    if table.num_rows != n_full + int(data[-1] != _NEWLINE):
        raise pa.ArrowInvalid("rows and lines differ in number")
    return table


def _may_hold_a_null_row(buffer: pa.Buffer) -> bool:
    """Return whether a line may consist of the word null alone, which crashes Arrow's reader.

    The word null inside a text can also give True. `_check_lines` then finds no error in the file.
    """
    data = memoryview(buffer)
    for match in _NULL.finditer(data):
        before = data[max(match.start() - 64, 0) : match.start()].tobytes().rstrip()
        # before a null row comes nothing, a record (`}`) or a byte-order mark (last byte: \xbf)
        if not before or before[-1:] in (b"}", b"\xbf"):
            return True
    return False


def _meets_contract(table: pa.Table, name: str) -> bool:
    """Return whether required fields have values, numbers are finite and all words are allowed."""
    for key, field in RECORDS[name].model_fields.items():
        column = table.column(key)
        if field.is_required():
            is_text = pa.types.is_string(column.type)
            if column.null_count or (is_text and pc.any(pc.equal(column, "")).as_py()):
                return False
        if pa.types.is_floating(column.type) and pc.any(pc.invert(pc.is_finite(column))).as_py():
            return False  # Arrow accepts NaN, which JSON does not allow
        words = _allowed_words(field.annotation)
        if words and not set(pc.unique(column).to_pylist()) <= {*words, None}:
            return False
    return True


def _allowed_words(annotation: Any) -> tuple[str, ...]:
    """Return the words that a field allows; empty if it allows any text."""
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    return next((words for option in get_args(annotation) if (words := _allowed_words(option))), ())


def _check_lines(buffer: pa.Buffer, path: Path, name: str) -> Counter[str]:
    """Raise an error at the first invalid line; if all lines are valid, count the unknown keys."""
    extras: Counter[str] = Counter()
    for number, line in enumerate(buffer.to_pybytes().split(b"\n"), start=1):
        if not line.strip():
            continue
        row = parse_line(line, path, number)
        if name in RECORDS:
            record_of(row, name, f"{path}, line {number}")
            extras.update(key for key in row if key not in RECORDS[name].model_fields)
    return extras


def record_of(row: JsonObject, name: str, place: str) -> Record:
    """Return the validated record of a line; unknown keys and keys with null are left out."""
    fields = RECORDS[name].model_fields
    values = {key: value for key, value in row.items() if key in fields and value is not None}
    for key, value in values.items():
        kind = schema(name).field(key).type
        if type(value) is int and pa.types.is_floating(kind):
            values[key] = float(value)
        if isinstance(value, str) and pa.types.is_timestamp(kind):
            if _FINER.search(value):
                raise StoreError(f"{place}: '{key}' is '{value}'; expected microseconds at most.")
            values[key] = f"{value}T00:00:00Z" if _DAY.fullmatch(value) else value
    return validated(_json_line(values, place), name, place)


def parse_line(line: bytes, path: Path, number: int) -> JsonObject:
    """Parse the JSON object of a line; an error names file and line."""
    try:
        row = strict_json(line.removeprefix(BOM) if number == 1 else line)
    except orjson.JSONDecodeError as cause:
        raise StoreError(
            f"{path}, line {number}: not a JSON object ({cause.msg} at character {cause.pos + 1}). "
            "The lines before and after it are whole; restore this one from a copy or remove it."
        ) from cause
    except ValueError as cause:
        raise StoreError(
            f"{path}, line {number}: {cause}; restore the line from a copy."
        ) from cause
    if not isinstance(row, dict):
        raise StoreError(f"{path}, line {number}: {literal(row)} is not a JSON object.")
    return row


def validated(line: bytes, name: str, place: str) -> Record:
    """Validate a JSON line as a record; one error lists all faults of the line."""
    model = RECORDS[name]
    try:
        record = model.model_validate_json(line, strict=True)
    except ValidationError as cause:
        faults = [_fault_text(fault, model) for fault in cause.errors(include_url=False)]
        raise StoreError(f"{place}: {'; '.join(faults)}.") from cause
    for key, field in model.model_fields.items():
        if field.is_required() and getattr(record, key) == "":
            raise StoreError(f"{place}: '{key}' is empty; it is required.")
    return record


def as_line(record: BaseModel | Mapping[str, Any], name: str, index: int) -> bytes:
    """Return a record as a JSON line; errors name the table `name` and the number of the record.

    A record of a known table is validated again, because pydantic does not check copies with
    changed fields. Its fields that are None are left out. Times are written in UTC; a time without
    a zone counts as UTC.
    """
    place = f"{name}, record {index + 1}"
    if name in RECORDS and isinstance(record, BaseModel) and not isinstance(record, RECORDS[name]):
        model = RECORDS[name].__name__
        raise StoreError(f"{place}: found {type(record).__name__}; this table takes {model}.")
    row = record.model_dump(warnings=False) if isinstance(record, BaseModel) else record
    line = _json_line(row, place)
    if name not in RECORDS:
        return line
    return _json_line(validated(line, name, place).model_dump(exclude_none=True), place)


def _json_line(row: Mapping[str, Any], place: str) -> bytes:
    try:
        return orjson.dumps({k: _checked_number(v, k) for k, v in row.items()}, option=_WRITE)
    except (TypeError, ValueError) as cause:
        raise StoreError(f"{place}: cannot be stored as JSON ({cause}).") from cause


def _checked_number(value: Any, key: str) -> Any:
    """Return ``value``; raise if JSON or a 64-bit column would change the number."""
    if isinstance(value, float) and math.isinf(value):
        raise ValueError(f"'{key}' is infinite")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError(f"'{key}' is beyond 64 bits")
    return value


def _fault_text(fault: Any, model: type[Record]) -> str:
    key = ".".join(map(str, fault["loc"]))
    if fault["type"] == "extra_forbidden":
        hint = suggest(key, model.model_fields).strip()
        return f"'{key}' is not a field of {model.__name__}" + (f" ({hint})" if hint else "")
    if fault["type"] == "missing":
        return f"'{key}' is missing"
    message = fault["msg"][0].lower() + fault["msg"][1:]
    return f"'{key}' is {literal(fault['input'])}: {message}"
