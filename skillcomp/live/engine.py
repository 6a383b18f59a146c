"""The engine of all stages: send the prompts of jobs, and store the replies.

A job is open until it is done.
"""

from __future__ import annotations

import math
import re
import warnings
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from copy import copy
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib.metadata import version
from typing import Any, Generic, Literal, Protocol, TypeVar, Unpack

from tqdm.auto import tqdm

from skillcomp.errors import AgentError, StoreError, error_text, plural, shortened
from skillcomp.io.files import JsonObject
from skillcomp.io.redaction import redacted_content
from skillcomp.io.store import RunStore
from skillcomp.live.agents.agent import (
    LONGEST_WAIT,
    PAID,
    UNREADABLE,
    Agent,
    Asked,
    BaseAgent,
    Reply,
    attribute_of,
    skill_block,
)
from skillcomp.live.concurrency import Stop, fan_out, interruption, run_sync
from skillcomp.live.graders.grader import GraderWarning, agent_of
from skillcomp.live.ledger import (
    Budget,
    Ledger,
    RunRecord,
    Tally,
    charged_usd,
    shape_text,
    uncollected_batches,
    upper_cost,
)
from skillcomp.live.status import most_frequent

# Match messages about a missing login. Status codes do not help, because programs and proxies use
# different ones.
_NO_ACCESS = re.compile(
    r"authenticat|unauthori[sz]ed|forbidden|permission.denied|"
    r"(invalid|incorrect|missing|no|wrong|expired)[^.:;]{0,30}(api.?key|(access|auth|bearer|api|"
    r"session).?token|credential)|(api.?key|(access|auth|bearer|api|session).?token)[^.:;]{0,20}"
    r"(invalid|expired|required|missing)|not logged in|/login|run .{0,20}login|log ?in again|"
    r"\b(401|403)\b|virtual key|insufficient.{0,10}(credit|quota|balance)|credit balance",
    re.IGNORECASE,
)
_SHOWN = 8  # Maximum number of lost replies that a message names.
KEPT = PAID - {"paused"}  # A paused reply contains no judgement, so the grader is asked again.


class BudgetSpentError(Exception):
    """The next prompt does not fit into the budget."""


class Job(Protocol):
    """A piece of work that is done once: an answer to get or to grade, or a pair to compare."""

    @property
    def key(self) -> str:
        """Unique name of the job, such as an attempt_id; messages show it."""


J = TypeVar("J", bound=Job)


class Engine(ABC, Generic[J]):
    """The jobs of one stage, the agents or graders that do them, and the store for the replies.

    A subclass defines what the jobs are and how to do one, and how to record a reply. This class
    does the jobs, stops the work and writes the receipts.
    """

    stage: Literal["run", "grade", "compare"]
    # the last sentence of the error that is raised after a stop
    stop_note: str
    unit: str  # noun for a job in messages
    warning: type[UserWarning]

    def __init__(
        self,
        store: RunStore,
        participants: Sequence[Any],
        study: JsonObject,
        wanted: Mapping[str, int],
    ) -> None:
        self.store, self.participants, self.study = store, participants, study
        self.width, self.progress = 1, False  # concurrent prompts, and whether to show a bar
        # number of all jobs and of the open jobs, by name of the agent or grader
        self.wanted, self.n_open = Counter(wanted), Counter(wanted)
        self.gold: JsonObject = {}  # agreement with the gold answers
        # replies that are stored but not yet used, by key of their job
        self.replies: defaultdict[str, list[Reply]] = defaultdict(list)
        self.failures_in_a_row = 0
        # number of login failures by name of the agent or grader
        self.login_failures: Counter[str] = Counter()
        self.answered: set[str] = set()  # names of agents or graders that have replied successfully
        self.is_at_fault = False  # whether a grader was stopped for its unreadable replies
        self.progress_bar: Any = None
        self.stopped: str | None = None
        # for each paid reply that could not be stored: the name of its job, and its cost
        self.lost: list[tuple[str, float | None]] = []

    @abstractmethod
    async def do_open_jobs(self) -> None:
        """Do all open jobs of the stage."""

    @abstractmethod
    async def work_on(self, job: J) -> bool:
        """Do and record one job; return whether it is done."""

    @abstractmethod
    async def record_reply(self, job: J, reply: Reply, started: datetime) -> None:
        """Store the reply to the prompt of a job."""

    @abstractmethod
    def identity(self, participant: Any) -> JsonObject:
        """Return settings and version of an agent or grader, for its receipt."""

    @abstractmethod
    def paid_rows(self) -> Iterable[JsonObject]:
        """Return all stored rows of the stage that have a cost."""

    @abstractmethod
    def messages(self) -> Iterable[str]:
        """Return the warnings about the work that was done or left open."""

    async def main(self, budget: Budget, stop: Stop) -> None:
        """Do all open jobs; write receipts before and after."""
        self.budget, self.stop, self.ledger = budget, stop, Ledger(self.store)
        receipts = self._first_receipts()
        self.tallies = {receipt.name: Tally() for receipt in receipts}
        await self.ledger.write("receipts", receipts)
        try:
            try:
                await self.do_open_jobs()
            finally:
                await self._close_with_receipts(receipts)
        except Exception as error:
            if not self.lost:
                raise
            costs = [usd for _, usd in self.lost if usd is not None]
            cost = f" ({sum(costs):.4f} USD)" if costs else ""
            jobs = shortened((job for job, _ in self.lost), _SHOWN)
            raise StoreError(
                f"{str(error) or error_text(error)}\n{plural(len(self.lost), 'paid answer')} "
                f"lost{cost}: {jobs}. Solve the problem above; the same call asks again."
            ) from error

    def _first_receipts(self) -> list[RunRecord]:
        """Return a receipt for each agent or grader, with the hashes of all skills and suites."""
        n_before = sum(row["event"] == "begun" for row in self.store.records("receipts"))
        skills = {slug: skill.sha256 for slug, skill in self.store.skills.items()}
        suites = {slug: suite.sha256 for slug, suite in self.store.suites.items()}
        return [
            RunRecord(
                receipt=f"{self.stage}-{n_before + 1:04d}",
                event="begun",
                stage=self.stage,
                name=who.name,
                at=datetime.now(UTC),
                skillcomp=version("skillcomp"),
                model=who.model,
                skills=skills,
                suites=suites,
                study=self.study,
                n_wanted=self.wanted[who.name],
                n_open=self.n_open[who.name],
                **self.identity(who),
            )
            for who in self.participants
        ]

    async def _close_with_receipts(self, receipts: Sequence[RunRecord]) -> None:
        await self.ledger.close()
        self.stopped = self.stop.reason or (self.budget.exhausted if self.n_open.total() else None)
        rows = []
        for receipt in receipts:
            tally = self.tallies[receipt.name]
            fields = {
                "event": "ended",
                "at": datetime.now(UTC),
                "n_open": self.n_open[receipt.name],
                "models": tally.models,
                "statuses": tally.statuses,
                "cost_usd": tally.cost_usd if tally.statuses.total() else None,
                "n_unpriced": tally.n_unpriced,
                "gold": self.gold,
                "stopped": self.stopped,
            }
            rows.append(receipt.model_copy(update=fields))
        try:
            await self.ledger.write("receipts", rows)
        finally:
            for participant in self.participants:
                await participant.aclose()

    async def do_all(self, jobs: Iterable[J], n: int, title: str) -> int:
        """Do jobs and return how many are still open.

        `n` is the number of all jobs, open or done, for the progress bar.
        """
        # First do jobs with stored replies: they cost nothing, and the budget may run out later.
        jobs = sorted(jobs, key=lambda job: not self.replies.get(job.key))
        n_open = len(jobs)

        async def do_job(job: J) -> None:
            nonlocal n_open
            try:
                if await self.work_on(job):
                    n_open -= 1
            except BudgetSpentError as error:
                self.stop.ask(str(error))

        hidden = not self.progress
        bar = tqdm(total=n, initial=n - n_open, desc=title, unit="answer", disable=hidden)
        with closing(bar) as self.progress_bar:
            await fan_out(jobs, do_job, width=self.width, stop=self.stop)
        return n_open

    def watch(self, who: str, last: Reply, *, ok: bool) -> None:
        """Stop the stage after fatal or repeated failures, or if a service demands a long wait."""
        self.failures_in_a_row = 0 if ok else self.failures_in_a_row + 1
        if ok:
            self.answered.add(who)
        error, wait = redacted_content(last.error), last.wait_seconds or 0.0
        if not ok and wait > LONGEST_WAIT:
            until = datetime.now(UTC) + timedelta(seconds=wait)
            self.stop.ask(f"the service asks to wait until {until:%Y-%m-%d %H:%M} UTC: {error}")
            return
        self.login_failures[who] += not ok and bool(_NO_ACCESS.search(error or ""))
        # three login failures of an agent that has never succeeded stop the stage
        has_no_login = self.login_failures[who] >= 3 and who not in self.answered
        why = None
        if last.fatal or has_no_login:
            why = f"stopped, since every further {self.unit} would fail too: {error}"
        elif self.failures_in_a_row >= 20:
            why = f"stopped after {self.failures_in_a_row} failures in a row; the last: {error}"
        if why:
            self.stop.ask(why, AgentError(f"{why.rstrip('.')}. {self.stop_note}"))


class Recorder(BaseAgent):
    """An agent that first returns the stored replies of a job, then asks another and stores.

    A prompt is sent only if its cost fits into the budget. A new reply is on the disk before it is
    returned.
    """

    def __init__(self, engine: Engine[Any], agent: Agent, job: Job, stop: Stop | None) -> None:
        self.name, self.model, self.family = agent.name, agent.model, agent.family
        self.settings = agent.settings
        self._engine, self._agent, self._job, self._stop = engine, agent, job, stop
        self._replies = list(engine.replies.get(job.key, ()))

    async def ask(self, prompt: str, **about: Unpack[Asked]) -> Reply:
        """Return the next stored reply or, if none is left, ask the agent; see `Agent.ask`."""
        if self._replies:
            return self._replies.pop(0)

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
        budget = self._engine.budget
        reserved = await budget.reserve(estimate() if budget.limit is not None else 0.0)
        if reserved is None:
            raise BudgetSpentError(budget.exhausted or "budget_usd")
        paid_reply = None
        try:
            if self._stop is not None:
                # the user may have pressed Ctrl-C while the call waited for the budget
                self._stop.check()
            started = datetime.now(UTC)
            paid_reply = await self._agent.ask(prompt, **about)
            if paid_reply.cost_note == UNREADABLE and paid_reply.cost_usd is None:
                # the highest possible cost is stored, so that later runs count it as spent
                usd = estimate()
                upper = {} if math.isnan(usd) else {"cost_upper_usd": usd}
                paid_reply = paid_reply.model_copy(update=upper)
            await self._book(paid_reply, started)
        finally:
            await budget.settle(reserved, paid_reply)
        return paid_reply

    async def _book(self, reply: Reply, started: datetime) -> None:
        """Store a reply; note it as lost if that fails and it was paid for."""
        try:
            await self._engine.record_reply(self._job, reply, started)
        except Exception:
            if reply.status in PAID:
                self._engine.lost.append((self._job.key, reply.cost_usd))
            raise


class GradedJob(Job, Protocol):
    """A job of a grader."""

    @property
    def columns(self) -> JsonObject:
        """Columns that identify the job in the table of replies, with their values."""


G = TypeVar("G", bound=GradedJob)


class Judging(Engine[G]):
    """The work of one grader: each reply is stored before it is read and never paid for twice.

    A subclass defines the tables to use, which of their columns identify a job (`row_of`,
    `key_of`), and the words of the messages.
    """

    warning = GraderWarning
    reply_table: str
    # the name of the table with the results, followed by the columns to read from it
    result_columns: tuple[str, ...]
    units: str  # the plural of the noun in `unit`

    # Four texts for warnings: about open jobs, failed jobs, answers that reveal their condition,
    # and answers that address the grader.
    warning_parts: tuple[str, str, str, str]

    def __init__(self, store: RunStore, grader: Any, jobs: Sequence[G], study: JsonObject) -> None:
        super().__init__(store, [grader], study, {grader.name: len(jobs)})
        self.grader, self.jobs = grader, jobs
        self.agent = agent_of(grader)
        self.n_given_away = self.n_addressing = 0
        self.grader_columns = {"grader": grader.name, "grader_version": grader.version}
        self.failed: set[str] = set()  # Keys of the jobs that failed in this run.
        self.malformed: set[str] = set()  # Keys of the jobs with unreadable replies in this run.
        self.n_unreadable = 0  # Number of consecutive unreadable replies.

    @abstractmethod
    def key_of(self, row: JsonObject) -> str:
        """Return the key of the job that a row of a table belongs to."""

    def own_rows(self, table: str) -> Iterable[JsonObject]:
        """Return the rows of this grader in a table."""
        results, *columns = self.result_columns
        rows = self.store.records(table)
        if table == results:  # read only some columns, because this table can be long
            columns = [*self.grader_columns, *columns]
            rows = iter(self.store.rows(results, *columns))
        own = tuple(self.grader_columns.values())
        return (row for row in rows if tuple(map(row.get, self.grader_columns)) == own)

    def identity(self, participant: Any) -> JsonObject:
        """Return settings and version of the grader."""
        settings = getattr(self.agent, "settings", None)
        return {"settings": settings, "prompt_version": self.grader.version}

    def paid_rows(self) -> Iterable[JsonObject]:
        """Return the replies of all graders."""
        return self.store.records(self.reply_table)

    def asking(self, job: G) -> Any:
        """Return a copy of the grader, with a `Recorder` for one job as its agent."""
        if self.agent is None:
            return self.grader
        recording_grader = copy(self.grader)
        recording_grader.agent = Recorder(self, self.agent, job, interruption())
        return recording_grader

    async def record_reply(self, job: G, reply: Reply, started: datetime) -> None:
        """Store a reply of the grader in the table of replies."""
        row = {**self.grader_columns, **job.columns, "at": datetime.now(UTC).isoformat()}
        await self.ledger.write(self.reply_table, [row | reply.model_dump(exclude_none=True)])
        self.tallies[self.grader.name].add(reply)

    def take_replies(self, used: Mapping[str, datetime]) -> None:
        """Read the stored replies of this grader.

        `used` maps the key of a job to a time; only later replies to this job are read.
        """
        self.replies.clear()  # this loses no reply, because all are in the store
        for row in self.own_rows(self.reply_table):
            key = self.key_of(row)
            fresh = key not in used or datetime.fromisoformat(row["at"]) > used[key]
            if row["status"] in KEPT and fresh:
                fields = {name: row[name] for name in Reply.model_fields if name in row}
                self.replies[key].append(Reply(**fields))

    def is_over(self, key: str, last: Reply, problems: Sequence[str], *, ok: bool) -> bool:
        """Return whether a job is done; stop the stage if no further job can succeed."""
        if self.agent:
            self.watch(self.grader.name, last, ok=ok)
        if not ok:
            self.failed.add(key)
            return False
        self.n_unreadable = self.n_unreadable + 1 if problems else 0
        # other graders continue after the unreadable replies of this one
        self.is_at_fault = self.n_unreadable >= 5
        if self.is_at_fault:
            message = f"{self.n_unreadable} {self.units} in a row cannot be read"
            self.stop.ask(f"{message}; the last: {problems[0]}")
        self.replies.pop(key, None)
        self.progress_bar.update()
        return True

    def messages(self) -> Iterable[str]:
        """Return warnings about open jobs, and about answers that cannot be judged blindly."""
        name, n = f"grader '{self.grader.name}'", self.wanted.total()
        open_, failed, given_away, addressing = self.warning_parts
        if n_open := self.n_open.total():
            why = self.stopped
            if not why:
                reasons = [f"{len(self.failed)} {failed}"] if self.failed else []
                reasons += [f"{len(self.malformed)} cannot be read"] if self.malformed else []
                often = most_frequent(self.store, self.stage, self.grader.name)
                why = f"{' and '.join(reasons)}{often}"
            goes_on = "the same call continues with them."
            yield f"{name}: {n_open} of {n} {open_} yet ({why}); {goes_on}"
        for count, part in ((self.n_given_away, given_away), (self.n_addressing, addressing)):
            if count:
                yield f"{name}: {part.format(n=f'{count} of {n}')}"


def do_stage(
    works: Sequence[Engine[Any]], budget_usd: float | None, concurrency: int, progress: bool
) -> None:
    """Let the agents answer, or let graders work one after the other; warn about open jobs."""
    first = works[0]
    notes, spent = uncollected_batches(first.store, first.stage)
    for name, note in notes.items():
        warnings.warn(f"{name.partition('#')[0]}: {note}.", first.warning, stacklevel=3)
    budget = Budget(budget_usd, spent=spent + sum(map(charged_usd, first.paid_rows())))
    for work in works:
        # Each event loop needs its own Budget. Go on even if the budget is exhausted, because
        # stored replies can still be read.
        following = Budget(budget.limit, spent=budget.spent)
        following.exhausted = budget.exhausted
        budget = following
        work.width, work.progress = concurrency, progress
        run_sync(partial(work.main, budget))
        for text in work.messages():
            warnings.warn(text, work.warning, stacklevel=3)
        if work.stopped and work.stopped != budget.exhausted and not work.is_at_fault:
            break
