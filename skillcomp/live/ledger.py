"""What is recorded and what is spent: to the disk at once, and never more than is allowed."""

from __future__ import annotations

import asyncio
import json
import math
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from typing import Any, Literal

from pydantic import BaseModel, Field

from skillcomp.errors import StudyError
from skillcomp.io.json_lines import as_line
from skillcomp.io.store import RunStore
from skillcomp.live.agents.agent import PAID, UNREADABLE, Agent, Reply, attribute_of
from skillcomp.pricing import Usage, cost, price
from skillcomp.records import Record

_LETTERS = 2.5  # letters a token; English has about four, so 2.5 overstates the number of tokens
_PLAIN = (string.ascii_letters + " \n").encode()
_FRAME = 200  # tokens around the texts of a call: roles, delimiters, what the service adds
_SAFETY = 2.0  # times the dearest call seen, where no price is known beforehand
_LIMITS = ("max_tokens", "max_completion_tokens")  # how agents call the limit of an answer

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
        errors: dict[int, BaseException] = {}
        for table in dict.fromkeys(table for table, *_ in entries):
            mine = [i for i, entry in enumerate(entries) if entry[0] == table]
            while mine:
                try:
                    self._store.append(table, [one for i in mine for one in entries[i][1]])
                    break
                except Exception as error:
                    # nothing was written: what is not to blame can go once more without the rest
                    faults = {i: fault for i in mine if (fault := _fault(entries[i]))}
                    errors |= faults or dict.fromkeys(mine, error)
                    mine = [i for i in mine if faults and i not in faults]
        return [errors.get(i) for i in range(len(entries))]


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
        skills={slug: one.sha256 for slug, one in store.skills.items()},
        suites={slug: one.sha256 for slug, one in store.suites.items()},
        **more,
    )


def ended(receipt: RunRecord, tally: Tally, **more: Any) -> RunRecord:
    """Return the receipt of a run at its end: what was counted, and what else is to be said."""
    return receipt.model_copy(
        update={
            "event": "ended",
            "at": datetime.now(UTC),
            "models": dict(tally.models),
            "statuses": dict(tally.statuses),
            "cost_usd": tally.cost_usd if sum(tally.statuses.values()) else None,
            "n_unpriced": tally.n_unpriced,
            **more,
        }
    )


def upper_cost(agent: Agent, *texts: str | None, batch: bool = False) -> float:
    """Return what a call can cost at most, in dollars; NaN where that cannot be said beforehand.

    Notes
    -----
    Of one try at list prices. Earlier tries of the same call that the service charged for without
    an answer that could be read, and price changes since the table was read, are not in it.
    """
    settings = json.loads(agent.settings or "{}")
    limit = next((settings[name] for name in _LIMITS if name in settings), None)
    if agent.model is None or not isinstance(limit, int):
        return math.nan
    n_tokens = _FRAME + sum(upper_tokens(text) for text in texts if text)
    prices = attribute_of(agent, "prices")
    row = price(agent.model, prompt_tokens=n_tokens, prices=prices)
    cached = n_tokens if row is not None and not math.isnan(row.cache_write_1h) else 0.0
    usage = Usage(n_tokens, limit, 0, cached, cached)
    return cost(usage, agent.model, batch=batch, prices=prices).usd


def upper_tokens(text: str) -> float:
    """Return how many tokens a text can have at most.

    Examples
    --------
    >>> upper_tokens("tidemarks!"), upper_tokens("潮汐")
    (4.6, 6.0)
    """
    raw = text.encode("utf-8", "surrogatepass")
    n_dense = len(raw.translate(None, _PLAIN))
    return n_dense + (len(raw) - n_dense) / _LETTERS


@cache
def shape_text(schema: type[BaseModel]) -> str:
    """Return the shape of an answer as the text that goes with a call."""
    return json.dumps(schema.model_json_schema())


def at_most(reply: Reply, estimate: Callable[[], float]) -> Reply:
    """Return a reply that cannot be read with its highest cost, all others as they are.

    The store keeps it, so that later starts count what this one has paid for.
    """
    if reply.cost_note != UNREADABLE or reply.cost_usd is not None:
        return reply
    usd = estimate()
    return reply if math.isnan(usd) else reply.model_copy(update={"cost_upper_usd": usd})


def charged(row: Mapping[str, Any]) -> float:
    """Return what a stored reply has cost in dollars: at most, where it cannot be read; else 0."""
    usd = row.get("cost_usd")
    return (row.get("cost_upper_usd") or 0.0) if usd is None else usd


class Budget:
    """Dollars that may be spent; every call under way has its highest cost put aside.

    A call whose highest cost is not known beforehand (a program, a model without a price) goes
    alone, so that the limit can be passed by what one such call costs and no more.

    Notes
    -----
    What is reported is what is booked. A call that timed out or lost its connection reports no
    cost and is booked at none, although the service may charge for it; a reply that came and
    cannot be read is booked at its highest cost, in this call and, from the store, in later ones.
    """

    def __init__(self, limit: float | None, *, spent: float = 0.0) -> None:
        if limit is not None and not 0 < limit < math.inf:
            raise StudyError(f"budget_usd is {limit!r}; allowed: a number of dollars above 0.")
        self.limit, self.spent = limit, spent
        self.exhausted: str | None = None  # why no further call fits
        self._aside = 0.0
        self._under_way = 0
        self._alone = False  # whether what is under way has no highest cost
        self._dearest = math.nan
        self._changed = asyncio.Condition()

    def fits(self, estimate: float) -> float | None:
        """Put the estimate of one call aside and return it; None when it does not fit now."""
        if self.limit is None:
            return 0.0
        free = self.limit - self.spent - self._aside
        unknown = math.isnan(estimate)
        if unknown:
            # it takes all there is and goes alone, as long as another like the dearest would fit
            if self._under_way or self._dearest * _SAFETY > free:
                return None
            estimate = max(free, 0.0)
        if self.exhausted or free <= 0 or estimate > free:
            return None
        self._alone = unknown
        self._aside += estimate
        self._under_way += 1
        return estimate

    def hold(self, usd: float) -> float:
        """Put aside what is under way already, whether it fits or not, and return it."""
        if self.limit is None:
            return 0.0
        self._aside += usd
        self._under_way += 1
        return usd

    async def take(self, estimate: float) -> float | None:
        """Wait until an estimate fits and put it aside; None when it never will."""
        async with self._changed:
            while (aside := self.fits(estimate)) is None:
                if self.exhausted or not self._under_way:
                    self.exhausted = self.exhausted or self._told(estimate)
                    return None
                await self._changed.wait()
        return aside

    async def settle(self, aside: float, reply: Reply | None) -> None:
        """Book what a call has cost and free what was put aside for it."""
        if self.limit is None:
            self.spent += (reply.cost_usd or 0.0) if reply else 0.0
            return
        async with self._changed:
            self._aside -= aside
            self._under_way -= 1
            alone, self._alone = self._alone, False
            if reply is not None and reply.cost_usd is not None:
                self.spent += reply.cost_usd
                self._dearest = max(self._dearest, reply.cost_usd)
                if math.isnan(self._dearest):
                    self._dearest = reply.cost_usd
            elif reply is not None and reply.cost_note == UNREADABLE and not alone:
                self.spent += aside  # it was paid for, and it cannot have cost more
            elif reply is not None and (reply.status in PAID or reply.cost_note == UNREADABLE):
                self.exhausted = (
                    "the cost of an answer is not known "
                    f"({reply.cost_note or 'not reported'}), so budget_usd cannot be kept; give "
                    "prices= to the agent or leave budget_usd out"
                )
            self._changed.notify_all()

    def _told(self, estimate: float) -> str:
        left = max((self.limit or 0.0) - self.spent, 0.0)
        most = self._dearest * _SAFETY if math.isnan(estimate) else estimate
        told = "what the next call costs is not known"
        if not math.isnan(most):
            told = f"the next call may cost up to {most:.4f}"
        return f"budget_usd {self.limit:g}: {self.spent:.4f} are spent and {told} ({left:.4f} left)"
