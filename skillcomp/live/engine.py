"""One engine for answers and gradings: what is open is claimed, asked and recorded, job by job."""

from __future__ import annotations

import re
import warnings
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Generic, Literal, Protocol, TypeVar, Unpack

from tqdm.auto import tqdm

from skillcomp.errors import AgentError
from skillcomp.io.store import RunStore
from skillcomp.live.agents.agent import (
    LONGEST_WAIT,
    PAID,
    Agent,
    Asked,
    BaseAgent,
    Reply,
    attribute_of,
    skill_block,
)
from skillcomp.live.batches import (
    Batches,
    BatchLimits,
    batch_service,
    log_waiting,
    open_batches,
    outstanding,
)
from skillcomp.live.batches import Record as RecordReply
from skillcomp.live.concurrency import Stop, fan_out, interruption, run_sync
from skillcomp.live.graders.grader import GraderWarning
from skillcomp.live.ledger import (
    Budget,
    Ledger,
    RunRecord,
    Tally,
    at_most,
    begun,
    charged,
    ended,
    shape_text,
    upper_cost,
)
from skillcomp.live.status import most_frequent

_REFUSED = 3  # cells in a row that were refused for want of a login, and none was answered
# What programs and proxies say when there is no login, whatever status they answer with.
_NO_ACCESS = re.compile(
    r"authenticat|unauthori[sz]ed|forbidden|permission.denied|"
    r"(invalid|incorrect|missing|no|wrong|expired)[^.:;]{0,30}(api.?key|(access|auth|bearer|api|"
    r"session).?token|credential)|(api.?key|(access|auth|bearer|api|session).?token)[^.:;]{0,20}"
    r"(invalid|expired|required|missing)|not logged in|/login|run .{0,20}login|log ?in again|"
    r"\b(401|403)\b|virtual key|insufficient.{0,10}(credit|quota|balance)|credit balance",
    re.IGNORECASE,
)
_IN_A_ROW = 20  # failures without a success in between; then something is wrong with all of them
KEPT = PAID - {"paused"}  # a grader that paused has said nothing; it is asked again
_UNREADABLE = 5  # replies in a row that cannot be read; then the grader is at fault


class ReplyNeededError(Exception):
    """A question has to go into a batch first; ``parts`` is what is asked."""

    def __init__(self, parts: dict[str, Any]) -> None:
        super().__init__("to be asked in a batch")
        self.parts = parts


class BudgetSpentError(Exception):
    """The next question does not fit into the budget."""


Book = Callable[[Reply, datetime], Awaitable[None]]


class Recorder(BaseAgent):
    """An agent that gives the replies the store has, then asks and has them stored.

    No question is asked that does not fit into the budget, and no reply is given before it is on
    the disk. Without `book` nothing is asked: `ReplyNeededError` is raised.
    """

    def __init__(
        self,
        agent: Agent,
        kept: Sequence[Reply],
        book: Book | None,
        budget: Budget,
        stop: Stop | None,
    ) -> None:
        self.name, self.model, self.family = agent.name, agent.model, agent.family
        self.settings = agent.settings
        self._agent, self._kept, self._book = agent, list(kept), book
        self._budget, self._stop = budget, stop

    async def ask(self, prompt: str, **about: Unpack[Asked]) -> Reply:
        """Return the next kept reply, or ask; see `Agent.ask`."""
        if self._kept:
            return self._kept.pop(0)
        if self._book is None:
            given = {name: part for name, part in about.items() if part is not None}
            given.pop("cell", None)
            raise ReplyNeededError({"prompt": prompt, **given})

        def estimate() -> float:
            skill, schema = about.get("skill"), about.get("schema")
            shape = shape_text(schema) if schema is not None else None
            block = skill_block(skill) if skill else None
            return upper_cost(self._agent, prompt, about.get("system"), block, shape)

        if attribute_of(self._agent, "is_recording"):
            started = datetime.now(UTC)
            reply = await self._agent.ask(prompt, **about)
            await self._book(reply, started)
            return reply
        aside = await self._budget.take(estimate() if self._budget.limit is not None else 0.0)
        if aside is None:
            raise BudgetSpentError(self._budget.exhausted or "budget_usd")
        answered = None
        try:
            if self._stop is not None:
                self._stop.check()  # the money may have been waited for
            started = datetime.now(UTC)
            answered = at_most(await self._agent.ask(prompt, **about), estimate)
            await self._book(answered, started)
        finally:
            await self._budget.settle(aside, answered)
        return answered


class Job(Protocol):
    """What is done once: an answer to get, or an answer to grade; ``key`` is its attempt_id."""

    @property
    def key(self) -> str:
        """Name of what is done."""
        ...


J = TypeVar("J", bound=Job)


@dataclass(frozen=True)
class Options:
    """How the work is done: questions at once, in batches or not, with a bar or without."""

    width: int
    limits: BatchLimits | None
    progress: bool

    @classmethod
    def of(
        cls, width: int, batch: bool | BatchLimits, progress: bool, asked: Iterable[Agent]
    ) -> Options:
        """Return what a user asks for; raise where somebody cannot be asked in batches."""
        limits = BatchLimits() if batch is True else batch or None
        for agent in asked if limits else ():
            batch_service(agent)
        return cls(width, limits, progress)


class Engine(ABC, Generic[J]):
    """The jobs of one stage: those who are asked, what is open, and where replies go.

    A subclass says what a job is (`work_on`), whether it is done (`is_done`), who is asked and
    what is left behind; claiming, stopping, batches and receipts are the same for all.
    """

    kept = "What was done is kept; start again later."  # ends the sentence of an early stop
    each = "job"

    def __init__(self, store: RunStore, options: Options, asked: Sequence[Any]) -> None:
        self.store, self.options, self.asked = store, options, asked
        self.in_a_row = 0
        self.refused: Counter[str] = Counter()  # by who was asked
        self.answered: set[str] = set()
        self.shown: Any = None  # the progress bar
        self.stopped: str | None = None
        self.failures: Counter[str] = Counter()  # of requests in batches
        self.given_up: set[str] = set()  # what a batch did not answer often enough

    # -- what a stage defines -----------------------------------------------------------------

    @property
    @abstractmethod
    def purposes(self) -> dict[str, Agent]:
        """What batches of this stage are noted under, and who is asked in them."""

    @abstractmethod
    def transport(self, purpose: str) -> Batches:
        """Return the batches of one purpose."""

    @abstractmethod
    async def work_on(self, job: J, *, batched: bool) -> bool:
        """Ask and record one job; False when it is still to be done."""

    @abstractmethod
    def begun(self) -> list[RunRecord]:
        """Return the receipts of those at work, before anything is asked."""

    @abstractmethod
    def at_end(self, receipt: RunRecord) -> dict[str, Any]:
        """Return what the end of a receipt says: n_open and the like."""

    def is_done(self, job: J) -> bool:
        """Return whether what a batch brought has left nothing to do of a job."""
        return False

    # -- the same for all ---------------------------------------------------------------------

    def who(self, agent: Agent) -> str:
        """Return how messages name who is asked."""
        return f"agent '{agent.name}'"

    @asynccontextmanager
    async def at_work(self, budget: Budget, stop: Stop) -> AsyncIterator[None]:
        """Open the ledger, and leave receipts of what was done."""
        self.budget, self.stop, self.ledger = budget, stop, Ledger(self.store)
        receipts = self.begun()
        self.tallies = {one.name: Tally() for one in receipts}
        await self.ledger.write("receipts", receipts)
        try:
            yield
        finally:
            await self.ledger.close()
            last = [(one, self.at_end(one)) for one in receipts]
            n_open = sum(more["n_open"] for _, more in last)
            self.stopped = stop.reason or (budget.exhausted if n_open else None)
            rows = [ended(r, self.tallies[r.name], stopped=self.stopped, **m) for r, m in last]
            await self.ledger.write("receipts", rows)
            for one in self.asked:
                await one.aclose()

    async def collect_earlier(self) -> None:
        """Take in the batches that earlier calls left under way; nothing is asked."""
        under_way = Counter(purpose for purpose, _ in open_batches(self.store))
        for purpose, agent in self.purposes.items():
            if not under_way[purpose] or self.stop.reason:
                continue
            batch_service(agent)
            if self.options.limits is None:
                log_waiting(self.who(agent), under_way[purpose])
            await self.transport(purpose).resume()

    def batches(self, purpose: str, record: RecordReply, recorded: Iterable[str | None]) -> Batches:
        """Return the batches of one purpose; `record` stores their replies."""
        return Batches(
            self.store,
            self.ledger,
            self.purposes[purpose],
            purpose=purpose,
            record=record,
            recorded={name for name in recorded if name},
            budget=self.budget,
            stop=self.stop,
            limits=self.options.limits or BatchLimits(),
        )

    async def do_all(self, jobs: Sequence[J], purpose: str | None = None) -> set[str]:
        """Do jobs, in batches of a purpose where one is given; return the keys still open."""
        open_ = {job.key: job for job in jobs}

        async def one(job: J) -> None:
            if await self._do(job, batched=False):
                del open_[job.key]

        if purpose is None:
            await fan_out(jobs, one, width=self.options.width, stop=self.stop)
        else:
            await self._in_batches(open_, purpose)
        return set(open_)

    async def _do(self, job: J, *, batched: bool) -> bool:
        try:
            return await self.work_on(job, batched=batched)
        except BudgetSpentError as out:
            self.stop.ask(str(out))
            return False

    async def _in_batches(self, open_: dict[str, J], purpose: str) -> None:
        service = batch_service(self.purposes[purpose])

        async def bodies() -> AsyncIterator[tuple[str, dict[str, Any]]]:
            for name, job in list(open_.items()):
                if name in self.given_up:
                    continue
                if self.is_done(job):
                    del open_[name]
                    continue
                try:
                    if await self._do(job, batched=True):
                        del open_[name]
                except ReplyNeededError as needed:
                    parts = dict(needed.parts)
                    yield name, service.request(parts.pop("prompt"), **parts)

        transport = self.transport(purpose)
        while await transport.send(bodies()) and not self.stop.reason:
            pass
        limited = self.budget.limit is not None and not self.stop.reason
        if set(open_) - self.given_up and limited:
            self.budget.exhausted = self.budget.exhausted or "budget_usd: nothing further fits"

    def failed_in_batch(self, key: str, reply: Reply) -> None:
        """Count a request that brought nothing; give it up after the rounds that are allowed."""
        self.failures[key] += 1
        limits = self.options.limits or BatchLimits()
        if reply.fatal or self.failures[key] >= limits.n_rounds:
            self.given_up.add(key)

    def watch(self, who: str, last: Reply, *, ok: bool) -> None:
        """Stop where nothing further can succeed, or not for a long time."""
        self.in_a_row = 0 if ok else self.in_a_row + 1
        if ok:
            self.answered.add(who)
        told, wait = last.error, last.wait_seconds or 0.0
        if not ok and wait > LONGEST_WAIT:
            until = datetime.now(UTC) + timedelta(seconds=wait)
            self.stop.ask(f"the service asks to wait until {until:%Y-%m-%d %H:%M} UTC: {told}")
            return
        self.refused[who] += not ok and bool(_NO_ACCESS.search(told or ""))
        why = None
        if last.fatal or (self.refused[who] >= _REFUSED and who not in self.answered):
            why = f"stopped, since every further {self.each} would fail too: {told}"
        elif self.in_a_row >= _IN_A_ROW:
            why = f"stopped after {self.in_a_row} failures in a row; the last: {told}"
        if why:
            self.stop.ask(why, AgentError(f"{why.rstrip('.')}. {self.kept}"))

    def bar(self, title: str, total: int, done: int) -> Any:
        """Return a progress bar."""
        off = not self.options.progress
        return tqdm(total=total, initial=done, desc=title, unit="answer", disable=off)


class Judging(Engine[J]):
    """One grader at work: every reply is kept before it is looked at, and nothing is paid twice.

    A subclass says which columns name a job in the tables (`row_of`, `key_of`); the tables and the
    words of messages are its own.
    """

    stage: Literal["grade", "compare"]
    said: str  # the table of replies
    made: tuple[str, ...]  # the table of what they come to, which may be long, and its columns
    plural: str  # of what is done once, in messages
    told: tuple[str, str, str]  # in warnings: what is open, what failed, and what tells too much

    def __init__(
        self, store: RunStore, grader: Any, n_wanted: int, study: dict[str, Any], options: Options
    ) -> None:
        super().__init__(store, options, [grader])
        self.grader, self.n_wanted, self.study = grader, n_wanted, study
        self.agent: Agent | None = getattr(grader, "agent", None)  # a recording asks nobody
        self.replies: defaultdict[str, list[Reply]] = defaultdict(list)  # not judged by so far
        self.n_open, self.n_given_away = n_wanted, 0
        self.mine = {"grader": grader.name, "grader_version": grader.version}
        self.failed: set[str] = set()  # in this run
        self.malformed: set[str] = set()  # what counts as open, in this run
        self.unreadable = 0  # in a row

    @abstractmethod
    def row_of(self, key: str) -> dict[str, Any]:
        """Return the columns that name a job in the table of replies."""

    @abstractmethod
    def key_of(self, row: Mapping[str, Any]) -> str:
        """Return the key of the job that a line of a table is about."""

    @abstractmethod
    async def judge(self) -> None:
        """Do what is open."""

    def own(self, table: str) -> Iterable[dict[str, Any]]:
        """Return this grader's lines of a table."""
        made, *columns = self.made
        rows = self.store.records(table)
        if table == made:
            rows = iter(self.store.table(made).select([*self.mine, *columns]).to_pylist())
        mine = tuple(self.mine.values())
        return (row for row in rows if tuple(map(row.get, self.mine)) == mine)

    def who(self, agent: Agent) -> str:
        """Return how messages name who is asked."""
        return f"grader '{self.grader.name}'"

    async def collect(self, budget: Budget, stop: Stop) -> None:
        """Take in the batches that earlier calls left under way; nothing is asked."""
        open_ = {purpose for purpose, _ in open_batches(self.store)}
        if open_ & set(self.purposes) and not stop.reason:
            async with self.at_work(budget, stop):
                await self.collect_earlier()

    async def main(self, budget: Budget, stop: Stop) -> None:
        """Do what is open, between two receipts."""
        async with self.at_work(budget, stop):
            await self.judge()

    def begun(self) -> list[RunRecord]:
        """Return the receipt of the grader, before anything is asked."""
        self.n_open = self.n_wanted
        who = {"model": self.grader.model, "prompt_version": self.grader.version}
        who["settings"] = getattr(self.agent, "settings", None)
        n = {"n_wanted": self.n_wanted, "n_open": self.n_open}
        return [begun(self.store, self.stage, self.grader.name, study=self.study, **who, **n)]

    def at_end(self, receipt: RunRecord) -> dict[str, Any]:
        """Return what the end of a receipt says."""
        return {"n_open": self.n_open}

    def asking(self, key: str, *, batched: bool) -> Any:
        """Return a copy of the grader whose questions about a job go through a `Recorder`."""
        if self.agent is None:
            return self.grader

        async def book(reply: Reply, started: datetime) -> None:
            await self._book(key, reply)

        double = copy(self.grader)
        kept, ask = self.replies[key], None if batched else book
        double.agent = Recorder(self.agent, kept, ask, self.budget, interruption())
        return double

    async def _book(self, key: str, reply: Reply) -> None:
        row = {**self.mine, **self.row_of(key), "at": datetime.now(UTC).isoformat()}
        await self.ledger.write(self.said, [row | reply.model_dump(exclude_none=True)])
        self.tallies[self.grader.name].add(reply)

    def transport(self, purpose: str) -> Batches:
        """Return the batches of one purpose."""

        async def book(key: str, reply: Reply) -> None:
            await self._book(key, reply)
            if reply.status in KEPT:
                self.replies[key].append(reply)
            else:
                self.failed_in_batch(key, reply)

        return self.batches(purpose, book, (row.get("request_id") for row in self.own(self.said)))

    def take_replies(self, used: Mapping[str, datetime]) -> None:
        """Take what the store has to judge by; replies made until the time of `used` are used."""
        self.replies.clear()  # what was collected just now is in the store, too
        for row in self.own(self.said):
            key = self.key_of(row)
            fresh = key not in used or datetime.fromisoformat(row["at"]) > used[key]
            if row["status"] in KEPT and fresh:
                known = {name: row[name] for name in Reply.model_fields if name in row}
                self.replies[key].append(Reply(**known))

    async def do_pending(self, pending: list[J], n: int, title: str, purpose: str) -> int:
        """Do what is open of n jobs; return how many are still open then."""
        # what is paid for first: the budget may end at any other
        pending.sort(key=lambda job: not self.replies.get(job.key))
        with closing(self.bar(title, n, n - len(pending))) as self.shown:
            return len(await self.do_all(pending, purpose if self.options.limits else None))

    def is_over(self, key: str, last: Reply, problems: Sequence[str], *, ok: bool) -> bool:
        """Return whether nothing is left to do of a job; stop where nothing further can succeed."""
        if self.agent:
            self.watch(self.grader.name, last, ok=ok)
        if not ok:
            self.failed.add(key)
            return False
        self.unreadable = self.unreadable + 1 if problems else 0
        if self.is_at_fault:
            told = f"{self.unreadable} {self.plural} in a row cannot be read"
            self.stop.ask(f"{told}; the last: {problems[0]}")
        self.replies.pop(key, None)
        self.shown.update()
        return True

    @property
    def is_at_fault(self) -> bool:
        """Whether the grader was stopped for what it says, so that the next one may go on."""
        return self.unreadable >= _UNREADABLE

    def warn(self) -> None:
        """Say what was left open, and whether the grader could tell the condition."""
        name, n = self.who(self.grader), self.n_wanted
        open_, failed, given_away = self.told
        if self.n_open:
            told = [f"{len(self.failed)} {failed}"] if self.failed else []
            told += [f"{len(self.malformed)} cannot be read"] if self.malformed else []
            why = self.stopped or " and ".join(told)
            if not self.stopped:
                why += most_frequent(self.store, self.stage, self.grader.name)
            goes_on = "the same call goes on with them."
            text = f"{name}: {self.n_open} of {n} {open_} yet ({why}); {goes_on}"
            warnings.warn(text, GraderWarning, stacklevel=4)
        if self.n_given_away:
            text = f"{name}: {given_away.format(n=f'{self.n_given_away} of {n}')}"
            warnings.warn(text, GraderWarning, stacklevel=4)


def judge_all(works: Sequence[Judging[Any]], budget_usd: float | None, what: str) -> None:
    """Let graders work one after the other, batches under way first."""
    store, stage = works[0].store, works[0].stage
    mine = [name for one in works for name in one.purposes]
    spent = float(sum(charged(row) for row in store.records(works[0].said)))
    budget = Budget(budget_usd, spent=spent + outstanding(store, stage, but=mine))
    if why := run_sync(partial(_collect_all, works, budget)):
        warnings.warn(f"nothing was {what} ({why}).", GraderWarning, stacklevel=3)
        return
    for one in works:
        # each loop has a budget of its own; with nothing left, what is paid for is still read
        more = Budget(budget.limit, spent=budget.spent)
        more.exhausted = budget.exhausted
        budget = more
        run_sync(partial(one.main, budget))
        one.warn()
        if one.stopped and one.stopped != budget.exhausted and not one.is_at_fault:
            break


async def _collect_all(works: Sequence[Judging[Any]], budget: Budget, stop: Stop) -> str | None:
    """Take in every batch under way before anyone is asked; return why that was broken off."""
    errors = []
    for one in works:
        try:
            await one.collect(budget, stop)
        except AgentError as error:  # the next grader's are with the service all the same
            errors.append(error)
    if errors:
        raise errors[0]
    return stop.reason
