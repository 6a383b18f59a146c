"""Records reach the disk at once, many under way sharing one wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from skillcomp.io.store import RunStore
from skillcomp.io.tables import line_of

__all__ = ["Ledger"]

_Entry = tuple[str, Sequence[BaseModel | Mapping[str, Any]], asyncio.Future[None]]


class Ledger:
    """Appends to a store from an event loop without holding the loop up.

    What is handed in while the disk is busy goes out together in the next write, one ``fsync`` a
    table. `write` returns only when its records are on the disk. Records that cannot be stored
    fail by themselves: whatever else goes out with them is written.

    Parameters
    ----------
    store : RunStore
        Whose writer's place the caller holds.
    """

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._waiting: list[_Entry] = []
        self._flushing: asyncio.Task[None] | None = None

    async def write(self, table: str, records: Sequence[BaseModel | Mapping[str, Any]]) -> None:
        """Append records to a table and wait until they are on the disk.

        A caller that is cancelled meanwhile does not take its records back.

        Raises
        ------
        StoreError
            As :meth:`RunStore.append`: about these records, or when the disk refuses.
        """
        if not records:
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((table, records, done))
        if self._flushing is None or self._flushing.done():
            self._flushing = asyncio.ensure_future(self._flush())
        await asyncio.shield(done)

    async def close(self) -> None:
        """Wait until nothing is left to write."""
        while self._flushing is not None and not self._flushing.done():
            await asyncio.shield(self._flushing)

    async def _flush(self) -> None:
        while self._waiting:
            entries, self._waiting = self._waiting, []
            try:
                errors = await asyncio.to_thread(self._append, entries)
            except BaseException as raised:  # nobody may be left waiting, whatever it was
                errors = [raised] * len(entries)
            for (*_, done), error in zip(entries, errors, strict=True):
                if done.cancelled():
                    continue
                if error is None:
                    done.set_result(None)
                else:
                    done.set_exception(error)
                    done.exception()  # whoever waited may be gone

    def _append(self, entries: list[_Entry]) -> list[BaseException | None]:
        """Write entries table by table; return what went wrong with each."""
        errors: list[BaseException | None] = [None] * len(entries)
        for table in dict.fromkeys(table for table, *_ in entries):
            mine = [i for i, entry in enumerate(entries) if entry[0] == table]
            found = self._append_to(table, [entries[i] for i in mine])
            for i, error in zip(mine, found, strict=True):
                errors[i] = error
        return errors

    def _append_to(self, table: str, entries: list[_Entry]) -> list[Exception | None]:
        try:
            self._store.append(table, [one for _, records, _ in entries for one in records])
            return [None] * len(entries)
        except Exception as error:
            # nothing was written, so that what is not to blame can go once more without the rest
            faults = [_fault(entry) for entry in entries]
            if not any(faults):
                return [error] * len(entries)
        rest = iter(
            self._append_to(table, [e for e, f in zip(entries, faults, strict=True) if not f])
        )
        return [fault or next(rest) for fault in faults]


def _fault(entry: _Entry) -> Exception | None:
    """Return why the records of an entry cannot be stored, or None."""
    table, records, _ = entry
    try:
        for index, record in enumerate(records):
            line_of(record, table, index)
    except Exception as error:
        return error
    return None
