"""Write records of a study to the disk before work continues; keep its receipts and budget."""

from __future__ import annotations

import asyncio
import json
import math
import string
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any, Literal

from pydantic import BaseModel

from skillcomp.errors import StudyError, plural
from skillcomp.io.files import JsonObject
from skillcomp.io.json_lines import as_line
from skillcomp.io.store import RunStore
from skillcomp.live.agents.agent import PAID, UNREADABLE, Agent, Reply, attribute_of
from skillcomp.pricing import Usage, cost
from skillcomp.records import Record
from skillcomp.stats.results import NAN

# letters per token; English text has about four, so 2.5 overestimates the number of tokens
_LETTERS = 2.5
_PLAIN = (string.ascii_letters + " \n").encode()
# tokens of a call that are not in its texts: roles, delimiters and additions of the service
_FRAME = 200
# a call without a price is assumed to cost at most twice as much as the most expensive call so far
_SAFETY = 2.0
# names that settings use for the limit on the tokens of an answer
_LIMITS = ("max_tokens", "max_completion_tokens")

_Entry = tuple[str, Sequence[BaseModel | Mapping[str, Any]]]  # A table, and records for it.


class Ledger:
    """Appends records to a store without blocking the event loop.

    Records that arrive during a write are written together after it, with one ``fsync`` per table.
    A call of `write` returns when its records are on the disk, and raises if they cannot be stored;
    the records of other calls are still written.
    """

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._lock = asyncio.Lock()
        self._waiting: list[_Entry] = []
        # for each entry that was handled: the error if it was not stored, else None
        self._errors: dict[int, Exception | None] = {}

    async def write(self, table: str, records: Sequence[BaseModel | Mapping[str, Any]]) -> None:
        """Append records to a table and wait until they are on the disk.

        The records are written even if the caller is cancelled while it waits.
        """
        if records:
            entry = (table, records)
            self._waiting.append(entry)
            await asyncio.shield(self._wait_for(entry))

    async def close(self) -> None:
        """Wait until all records are written."""
        while self._waiting or self._lock.locked():
            async with self._lock:
                await asyncio.sleep(0)  # calls that have just begun then wait for the lock, too

    async def _wait_for(self, entry: _Entry) -> None:
        async with self._lock:
            # an earlier call may have written this entry together with its own
            if id(entry) not in self._errors:
                entries, self._waiting = self._waiting, []
                await asyncio.to_thread(self._append_entries, entries)
        if error := self._errors.pop(id(entry)):
            raise error

    def _append_entries(self, entries: Sequence[_Entry]) -> None:
        """Write the entries, table by table, and note the errors of those that are not stored."""
        self._errors |= dict.fromkeys(map(id, entries))
        for table in dict.fromkeys(table for table, _ in entries):
            mine = [entry for entry in entries if entry[0] == table]
            while mine:
                try:
                    self._store.append(table, [record for _, records in mine for record in records])
                    break
                except Exception as error:
                    # nothing was written, so try again without the entries that cannot be stored
                    faults = {id(e): fault for e in mine if (fault := _storage_error(*e))}
                    self._errors |= faults or dict.fromkeys(map(id, mine), error)
                    mine = [entry for entry in mine if faults and id(entry) not in faults]


def _storage_error(
    table: str, records: Sequence[BaseModel | Mapping[str, Any]]
) -> Exception | None:
    """Return the error that storing records raises; None if they can be stored."""
    try:
        for index, record in enumerate(records):
            as_line(record, table, index)
    except Exception as error:
        return error
    return None


class RunRecord(Record):
    """A receipt of a run: one is stored when the run begins, and one when it ends.

    A run that was killed has only the first receipt.

    Attributes
    ----------
    receipt : str
        Stage and number of the run; the same in both receipts of a run.
    event : str
        ``begun`` or ``ended``.
    stage : str
        ``run``, ``grade`` or ``compare``.
    name : str
        Name of the agent or grader.
    at : datetime
        When the run began or ended.
    skillcomp : str
        Version of this library.
    model : str or None
        The model that was requested.
    models : dict of str to int
        Number of replies for each model, under the name that the service reports.
    settings : str or None
        Settings of the agent.
    prompt_version : str or None
        Hash of the template that loads a skill for an agent, or the version of a grader.
    skills, suites : dict of str to str
        The sha256 of each skill and suite in the store, by slug.
    study : dict
        Conditions, repeats, seed, round and other arguments of the run.
    n_wanted : int
        Number of cells to answer, attempts to grade or comparisons to make.
    n_open : int
        Number of wanted cells, attempts or comparisons that are still open.
    statuses : dict of str to int
        Number of replies of this run by status.
    cost_usd : float or None
        Sum of the known costs of this run in dollars; None if there were no replies.
    n_unpriced : int
        Number of replies of unknown cost.
    gold : dict
        Agreement with the gold answers; empty if there are none.
    stopped : str or None
        Why the run ended early; None if it did not.
    """

    receipt: str
    event: Literal["begun", "ended"]
    stage: Literal["run", "grade", "compare"]
    name: str
    at: datetime
    skillcomp: str
    model: str | None = None
    models: dict[str, int] = {}
    settings: str | None = None
    prompt_version: str | None = None
    skills: dict[str, str] = {}
    suites: dict[str, str] = {}
    study: JsonObject = {}
    n_wanted: int = 0
    n_open: int = 0
    statuses: dict[str, int] = {}
    cost_usd: float | None = None
    n_unpriced: int = 0
    gold: JsonObject = {}
    stopped: str | None = None


@dataclass
class Tally:
    """Counts over the replies of one run."""

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
        if reply.status == "ok" and reply.answer is not None:
            self.n_empty += not reply.answer.strip()
        if reply.model:
            self.models[reply.model] += 1
        if reply.cost_usd is not None:
            self.cost_usd += reply.cost_usd
        elif reply.status == "ok":
            self.n_unpriced += 1


def upper_cost(agent: Agent, *texts: str | None) -> float:
    """Return the highest possible cost of a call in dollars; NaN if it is unknown.

    Notes
    -----
    The cost is that of one try at the prices of the agent or, without them, at list prices. Earlier
    tries that were charged for but gave no readable answer are not covered. Price changes since the
    release of genai-prices are not covered either.
    """
    settings = json.loads(agent.settings or "{}")
    limit = next((settings[name] for name in _LIMITS if name in settings), None)
    if agent.model is None or not isinstance(limit, int):
        return NAN
    n_tokens = _FRAME + sum(upper_tokens(text) for text in texts if text)
    prices = attribute_of(agent, "prices")
    dearest = Usage(n_tokens, limit, 0, n_tokens, n_tokens)  # all written to a cache for an hour
    dollars = cost(dearest, agent.model, prices=prices).usd
    if math.isnan(dollars):  # the model has no such cache, or no price at all
        return cost(Usage(n_tokens, limit), agent.model, prices=prices).usd
    return dollars


def upper_tokens(text: str) -> float:
    """Return an upper estimate of the number of tokens of a text.

    Examples
    --------
    An English letter, a space or a line end counts as 0.4 tokens, and any other byte as one:

    >>> upper_tokens("tidemarks!"), upper_tokens("潮汐")
    (4.6, 6.0)
    """
    raw = text.encode("utf-8", "surrogatepass")
    n_dense = len(raw.translate(None, _PLAIN))
    return n_dense + (len(raw) - n_dense) / _LETTERS


@cache
def shape_text(schema: type[BaseModel]) -> str:
    """Return the JSON Schema of an answer as the text that is sent with a call."""
    return json.dumps(schema.model_json_schema())


def charged_usd(row: JsonObject) -> float:
    """Return the dollars of a stored reply: its cost, else its highest possible cost, else 0."""
    usd = row.get("cost_usd")
    return (row.get("cost_upper_usd") or 0.0) if usd is None else usd


def uncollected_batches(store: RunStore, stage: str) -> tuple[dict[str, str], float]:
    """Describe the batches of a stage whose answers were never collected, and price them.

    Up to version 3, a study could send batches, which the table ``batches`` records. The answers
    of a batch that was still under way are not collected any more. They may have been paid for, so
    the budget counts their highest possible cost.

    Returns
    -------
    dict of str to str
        A note for each agent or grader. The name of a grader includes version and round.
    float
        Dollars, including batches that were given up. Batches of unknown cost count as 0.
    """
    under_way = {}
    usd = 0.0
    for row in store.records("batches"):
        if row["event"] == "intent" and row["purpose"].startswith(f"{stage}:"):
            under_way[row["nonce"]] = row
        elif row["event"] in ("collected", "dropped") and under_way.pop(row["nonce"], {}):
            usd += row.get("usd") or 0.0
    sizes = defaultdict(list)
    for row in under_way.values():
        usd += row.get("usd") or 0.0
        name = row["purpose"].partition(":")[2]
        # for a grading, the name ends with a slash and the name of a table
        sizes[name.rsplit("/", 1)[0] if stage == "grade" else name].append(len(row["keys"]))
    notes = {}
    for name, n in sizes.items():
        batches = "1 batch" if len(n) == 1 else f"{len(n)} batches"
        notes[name] = (
            f"{batches} with {plural(sum(n), 'request')} of an earlier version: the answers are "
            "not collected any more; open questions are asked, and paid for, again"
        )
    return notes, usd


class Budget:
    """The dollars that may be spent; the highest possible cost of each running call is reserved.

    A call for which that cost is unknown (a program, a model without a price) runs alone, so the
    limit is exceeded by at most the cost of one such call.

    Notes
    -----
    A call is booked at its reported cost. A call that timed out or lost its connection reports no
    cost and is booked at 0, although the service may charge for it. An unreadable reply is booked
    at its highest possible cost. Later runs read this cost from the store and count it too.
    """

    def __init__(self, limit: float | None, *, spent: float = 0.0) -> None:
        if limit is not None and not 0 < limit < math.inf:
            raise StudyError(f"budget_usd is {limit!r}; allowed: a number of dollars above 0.")
        self.limit, self.spent = limit, spent
        self.exhausted: str | None = None  # the reason why no further call is allowed
        self._reserved = 0.0
        self._n_running = 0
        # whether the highest possible cost of the running call is unknown
        self._has_unknown_cost = False
        self._dearest = NAN
        self._changed = asyncio.Condition()

    def _reserve_now(self, estimate: float) -> float | None:
        """Reserve and return the estimated cost of a call; None if the budget has no room."""
        if self.limit is None:
            return 0.0
        free = self.limit - self.spent - self._reserved
        is_unknown = math.isnan(estimate)
        if is_unknown:
            # Reserve all the money that is left. Refuse the call if this is less than twice the
            # cost of the most expensive call so far.
            if self._n_running or self._dearest * _SAFETY > free:
                return None
            estimate = max(free, 0.0)
        if self.exhausted or free <= 0 or estimate > free:
            return None
        self._has_unknown_cost = is_unknown
        self._reserved += estimate
        self._n_running += 1
        return estimate

    async def reserve(self, estimate: float) -> float | None:
        """Wait until a cost fits into the budget, then reserve and return it.

        Return None if the budget is exhausted, or if the cost does not fit and no call is running.
        """
        async with self._changed:
            while (reserved := self._reserve_now(estimate)) is None:
                if self.exhausted or not self._n_running:
                    self.exhausted = self.exhausted or self._exhausted_text(estimate)
                    return None
                await self._changed.wait()
        return reserved

    async def settle(self, reserved: float, reply: Reply | None) -> None:
        """Book the cost of a call that has ended, and free what was reserved for it."""
        if self.limit is None:
            self.spent += (reply.cost_usd or 0.0) if reply else 0.0
            return
        async with self._changed:
            self._reserved -= reserved
            self._n_running -= 1
            had_unknown_cost, self._has_unknown_cost = self._has_unknown_cost, False
            if reply is not None and reply.cost_usd is not None:
                self.spent += reply.cost_usd
                # With this order of the arguments, max returns the cost if `_dearest` is still NaN.
                self._dearest = max(reply.cost_usd, self._dearest)
            elif reply is not None and reply.cost_note == UNREADABLE and not had_unknown_cost:
                self.spent += reserved
            elif reply is not None and (reply.status in PAID or reply.cost_note == UNREADABLE):
                self.exhausted = (
                    "the cost of an answer is not known "
                    f"({reply.cost_note or 'not reported'}), so budget_usd cannot be kept; give "
                    "prices= to the agent or leave budget_usd out"
                )
            self._changed.notify_all()

    def _exhausted_text(self, estimate: float) -> str:
        left = max((self.limit or 0.0) - self.spent, 0.0)
        most = self._dearest * _SAFETY if math.isnan(estimate) else estimate
        following = "what the next call costs is not known"
        if not math.isnan(most):
            following = f"the next call may cost up to {most:.4f}"
        spent = f"budget_usd {self.limit:g}: {self.spent:.4f} are spent"
        return f"{spent} and {following} ({left:.4f} left)"
