"""Records reach the disk at once, many under way sharing one wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from skillcomp.io.store import RunStore

__all__ = ["Ledger"]

_Entry = tuple[str, Sequence[BaseModel | Mapping[str, Any]], asyncio.Future[None]]


class Ledger:
    """Appends to a store from an event loop without holding the loop up.

    What is handed in while the disk is busy goes out together in the next write, one ``fsync`` a
    table. `write` returns only when its records are on the disk.

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
            As :meth:`RunStore.append`, also for what was written in the same go.
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
            error: BaseException | None = None
            try:
                await asyncio.to_thread(self._append, entries)
            except BaseException as raised:  # nobody may be left waiting, whatever it was
                error = raised
            for *_, done in entries:
                if done.cancelled():
                    continue
                if error is None:
                    done.set_result(None)
                else:
                    done.set_exception(error)
                    done.exception()  # whoever waited may be gone

    def _append(self, entries: list[_Entry]) -> None:
        together: dict[str, list[BaseModel | Mapping[str, Any]]] = {}
        for table, records, _ in entries:
            together.setdefault(table, []).extend(records)
        for table, rows in together.items():
            self._store.append(table, rows)
