"""A line is read by ``table`` exactly where ``records`` reads it, or both say why not."""

from __future__ import annotations

import json
from pathlib import Path

import orjson
import pytest
from analyses import LONG

from skillcomp.errors import StoreError
from skillcomp.io import RunStore
from skillcomp.io.json_lines import RECORDS, read_lines

SOUND = {
    "attempts": {"attempt_id": "a/1", "skill": "a", "case_id": "a/1", "condition": "skill"},
    "verdicts": {"attempt_id": "a/1", "check_id": "c", "grader": "g"},
    "gold": {"attempt_id": "a", "check_id": "c", "labeller": "m"},
    "pairwise": {"skill": "a", "case_id": "1", "grader": "g", "order": 1, "first": "x"}
    | {"second": "y"},
}
# JSON as it stands in the line
VALUES = [
    *("null", '""', '" "', "0", "1", "-1", "1.0", "1.5", "1e2", "1E400", "-0", "1e308", "-1e-400"),
    *("true", "false", "[]", "{}", "[1]", '{"a": 1}', '"x"', '"ok"', '"error"', '"positive"'),
    *(str(2**62), str(2**63), str(2**64), str(-(2**63)), str(-(2**63) - 1), str(10**30)),
    *("NaN", "Infinity", "-Infinity", "01", "1.", '"\\ud800"', '"\\u0000"', '"é"'),
    *('"2026-01-01"', '"2026-01-01T10:00:00"', '"2026-01-01T10:00:00Z"', '"2026-01-01 10:00"'),
    *('"2026-01-01T10:00:00+02:00"', '"2026-01-01T10:00:00.123456Z"', '"20260101T100000"'),
    *('"2026-01-01T10:00:00.123456789Z"', '"2026-W01-1"', '"noon"', '"0001-01-01T00:00:00Z"'),
]
# null where a row should stand; @ is a sound row
NULLS = [b"null", b"null\n", b" null \n{}\n", b"\xef\xbb\xbfnull\n", b"\n\nnull", b"nullnull"]
NULLS += [b"{}null\n", b"{}\rnull", b"@\nnull", b"@\nnull\n@\n", b"@ null\n", b"@}null\n"]
NULLS += [b" " * 100 + b"null"]
TRIED = [(name, key) for name in SOUND for key in [*RECORDS[name].model_fields, "unknown"]]


@pytest.mark.parametrize(("name", "key"), TRIED if LONG else TRIED[::6])
def test_table_takes_exactly_what_records_takes(tmp_path: Path, name: str, key: str) -> None:
    for value in VALUES:
        sound = json.dumps(SOUND[name])
        given = {one: other for one, other in SOUND[name].items() if one != key}
        line = json.dumps({**given, key: "@"}).replace('"@"', value)
        (tmp_path / f"{name}.jsonl").write_text(f"{sound}\n{line}\n", encoding="utf-8")
        taken = []
        for read in (lambda s: s.table(name).num_rows, lambda s: len([*s.records(name)])):
            try:
                taken.append(read(RunStore(tmp_path)))
            except StoreError as error:
                assert f"{name}.jsonl" in str(error)
                taken.append(0)
        assert taken[0] == taken[1], line


@pytest.mark.parametrize("name", SOUND)
def test_a_line_without_what_is_required_is_refused(tmp_path: Path, name: str) -> None:
    for line in (b"{}", b"null", b"[]", b"1", b'{"attempt_id": "a"}'):
        (tmp_path / f"{name}.jsonl").write_bytes(orjson.dumps(SOUND[name]) + b"\n" + line + b"\n")
        for read in (lambda s: s.table(name), lambda s: [*s.records(name)]):
            with pytest.raises(StoreError, match="line 2"):
                read(RunStore(tmp_path))


@pytest.mark.parametrize("name", [*SOUND, "passages"])
def test_null_where_a_row_should_be_is_an_error_and_not_the_end_of_the_process(tmp_path, name):
    file, sound = tmp_path / f"{name}.jsonl", orjson.dumps(SOUND.get(name, {}))
    for data in NULLS:
        file.write_bytes(data.replace(b"@", sound))
        with pytest.raises(StoreError, match=r"line [123]:"):
            read_lines(file, name)[0]
