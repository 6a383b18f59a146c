"""Records reach the disk at once, many under way sharing one wait for it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, Literal

from pydantic import BaseModel, Field

from skillcomp.io.store import RunStore
from skillcomp.io.tables import as_line
from skillcomp.live.agents.reply import Reply
from skillcomp.records import Record

_Entry = tuple[str, Sequence[BaseModel | Mapping[str, Any]], asyncio.Future[None]]


class Ledger:
    """Appends to a store from an event loop without holding the loop up.

    What is handed in while the disk is busy goes out together in the next write, one ``fsync`` a
    table. `write` returns only when its records are on the disk. Records that cannot be stored
    fail by themselves: whatever else goes out with them is written.
    """

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._waiting: list[_Entry] = []
        self._flushing: asyncio.Task[None] | None = None

    async def write(self, table: str, records: Sequence[BaseModel | Mapping[str, Any]]) -> None:
        """Append records to a table and wait until they are on the disk.

        A caller that is cancelled meanwhile does not take its records back.
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
            as_line(record, table, index)
    except Exception as error:
        return error
    return None


class RunRecord(Record):
    """A line of the store's ``receipts``: one when a run begins, one when it ends.

    A run that was killed has a beginning and no end.

    Attributes
    ----------
    receipt : str
        Stage and a number, the same in both lines.
    event : str
        ``begun`` or ``ended``.
    stage : str
        ``run``, ``grade`` or ``compare``.
    name : str
        The agent or the grader.
    at : datetime
        Now.
    skillcomp : str
        Version of this library.
    model : str or None
        As asked for.
    models : dict of str to int
        As reported, with the number of replies.
    settings : str or None
        Of the agent.
    prompt_version : str or None
        Hash of what the agent or grader is told.
    skills, suites : dict of str to str
        sha256 by slug.
    study : dict
        Conditions, repeats, seed, round and the like.
    n_wanted : int
        Cells, or attempts to grade.
    n_open : int
        Of these, still open.
    statuses : dict of str to int
        Replies of this run by status.
    cost_usd : float or None
        Of the replies of this run whose cost is known.
    n_unpriced : int
        Replies whose cost is not known.
    gold : dict
        Agreement with the gold answers, where there are any.
    stopped : str or None
        Why it ended early.
    """

    receipt: str
    event: Literal["begun", "ended"]
    stage: Literal["run", "grade", "compare"]
    name: str
    at: datetime
    skillcomp: str
    model: str | None = None
    models: dict[str, int] = Field(default_factory=dict)
    settings: str | None = None
    prompt_version: str | None = None
    skills: dict[str, str] = Field(default_factory=dict)
    suites: dict[str, str] = Field(default_factory=dict)
    study: dict[str, Any] = Field(default_factory=dict)
    n_wanted: int = 0
    n_open: int = 0
    statuses: dict[str, int] = Field(default_factory=dict)
    cost_usd: float | None = None
    n_unpriced: int = 0
    gold: dict[str, Any] = Field(default_factory=dict)
    stopped: str | None = None


@dataclass
class Tally:
    """Counts of one run, kept instead of its replies."""

    statuses: Counter[str] = field(default_factory=Counter)
    models: Counter[str] = field(default_factory=Counter)
    cost_usd: float = 0.0
    n_unpriced: int = 0
    n_retries: int = 0
    n_empty: int = 0

    def add(self, reply: Reply) -> None:
        """Count a reply."""
        self.statuses[reply.status] += 1
        self.n_retries += reply.n_retries
        self.n_empty += (
            reply.status == "ok" and reply.answer is not None and not reply.answer.strip()
        )
        if reply.model:
            self.models[reply.model] += 1
        if reply.cost_usd is not None:
            self.cost_usd += reply.cost_usd
        elif reply.status == "ok":
            self.n_unpriced += 1


def begun(
    store: RunStore, stage: Literal["run", "grade", "compare"], name: str, **more: Any
) -> RunRecord:
    """Return the receipt of a run that begins, with the hashes of all skills and suites."""
    n_before = sum(row["event"] == "begun" for row in store.records("receipts"))
    return RunRecord(
        receipt=f"{stage}-{n_before + 1:04d}",
        event="begun",
        stage=stage,
        name=name,
        at=datetime.now(UTC),
        skillcomp=version("skillcomp"),
        skills=_hashes(store.skills),
        suites=_hashes(store.suites),
        **more,
    )


def ended(
    receipt: RunRecord, tally: Tally, *, n_open: int, stopped: str | None, **more: Any
) -> RunRecord:
    """Return the receipt of a run at its end."""
    return receipt.model_copy(
        update={
            "event": "ended",
            "at": datetime.now(UTC),
            "models": dict(tally.models),
            "statuses": dict(tally.statuses),
            "cost_usd": tally.cost_usd if sum(tally.statuses.values()) else None,
            "n_unpriced": tally.n_unpriced,
            "n_open": n_open,
            "stopped": stopped,
            **more,
        }
    )


def _hashes(found: Mapping[str, Any]) -> dict[str, str]:
    return {slug: one.sha256 for slug, one in found.items()}
