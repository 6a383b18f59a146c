"""What is handed to the ledger together: one bad record costs itself and nothing else."""

from __future__ import annotations

import asyncio

from skillcomp.errors import StoreError
from skillcomp.io.store import RunStore
from skillcomp.live.engine import Ledger
from skillcomp.records import Attempt

HALF = "\ud83d"


def attempt(number, **more):
    names = {"attempt_id": f"s/{number}", "case_id": f"s/{number}"}
    return Attempt(**names, skill="s", condition="skill", **{"answer": "a", **more})


def write_together(store, *entries):
    """Hand in everything at once and return what each writer was told."""

    async def main():
        ledger = Ledger(store)
        told = await asyncio.gather(
            *(ledger.write(table, records) for table, records in entries), return_exceptions=True
        )
        await ledger.close()
        return told

    with store.writer():
        return asyncio.run(main())


def test_a_bad_record_fails_alone_and_swallows_no_row_of_its_own_or_another_table(tmp_path):
    store = RunStore(tmp_path / "s")
    told = write_together(
        store,
        ("attempts", [attempt(1)]),
        ("attempts", [attempt("a"), attempt("b", answer=HALF)]),
        ("notes", [{"event": "created", "id": "b-1"}]),
        ("replies", [{"answer": HALF}]),
        ("Not Allowed", [{"x": 1}]),
        ("attempts", [attempt(2)]),
    )
    assert [error is None for error in told] == [True, False, True, False, False, True]
    assert isinstance(told[1], StoreError) and str(told[1]).startswith("attempts, record 2: ")
    found = [row["attempt_id"] for row in store.table("attempts").to_pylist()]
    assert found == ["s/1", "s/2"]  # each once; of an entry all or nothing
    assert list(store.records("notes")) == [{"event": "created", "id": "b-1"}]


def test_when_the_disk_refuses_nothing_is_written_twice(tmp_path, monkeypatch):
    store = RunStore(tmp_path / "s")
    asked = []

    def refuse(table, records):
        asked.append(len(list(records)))
        raise StoreError("no space left")

    monkeypatch.setattr(store, "append", refuse)
    told = write_together(store, *(("attempts", [attempt(i)]) for i in range(3)))
    assert [str(error) for error in told] == ["no space left"] * 3
    assert asked == [3]
