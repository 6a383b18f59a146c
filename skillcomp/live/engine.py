"""The engine of all stages: send the prompts of jobs, and store the replies.

A job is open until it is done. Records are on the disk before work continues; the engine keeps
receipts and the budget of a study.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import string
import warnings
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from copy import copy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from importlib.metadata import version
from typing import Any, Literal, NamedTuple, Unpack

from pydantic import BaseModel
from tqdm.auto import tqdm

from skillcomp.errors import AgentError, StoreError, StudyError, error_text, plural, shortened
from skillcomp.grading_rules import addresses_grader
from skillcomp.io.files import JsonObject
from skillcomp.io.json_lines import as_line
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
    agent_version,
    attribute_of,
    skill_block,
)
from skillcomp.live.concurrency import Stop, fan_out, run_sync
from skillcomp.live.graders.grader import GraderWarning, agent_of
from skillcomp.live.plan import own_attempts
from skillcomp.live.status import most_frequent
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


class Ledger:
    """Appends records to a store without blocking the event loop.

    Records that arrive during a write are written together after it, with one ``fsync`` per table.
    A call of `write` returns when its records are on the disk, and raises if they cannot be stored.
    """

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._lock = asyncio.Lock()
        # the records of each table that wait for the next write, and this write
        self._waiting: defaultdict[str, list[BaseModel | Mapping[str, Any]]] = defaultdict(list)
        self._writes: dict[str, asyncio.Task[None]] = {}

    async def write(self, table: str, records: Sequence[BaseModel | Mapping[str, Any]]) -> None:
        """Append records to a table and wait until they are on the disk.

        The records are written even if the caller is cancelled while it waits.
        """
        for index, record in enumerate(records):
            as_line(record, table, index)  # raise here, before others are written with it
        if records:
            self._waiting[table] += records
            if table not in self._writes:
                self._writes[table] = asyncio.create_task(self._append_waiting(table))
            await asyncio.shield(self._writes[table])

    async def close(self) -> None:
        """Wait until all records are written; errors have been raised by `write`."""
        await asyncio.gather(*self._writes.values(), return_exceptions=True)
        async with self._lock:  # the last write has ended
            pass

    async def _append_waiting(self, table: str) -> None:
        async with self._lock:
            del self._writes[table]  # records that arrive from now on are written next
            await asyncio.to_thread(self._store.append, table, self._waiting.pop(table))


@dataclass
class Participant:
    """An agent or grader at work, the number of its jobs, and counts over its replies in a run."""

    agent_or_grader: Any
    n_wanted: int
    n_open: int
    statuses: Counter[str] = field(default_factory=Counter)
    models: Counter[str] = field(default_factory=Counter)
    cost_usd: float = 0.0
    n_unpriced: int = 0
    n_retries: int = 0
    n_login_failures: int = 0

    def add(self, reply: Reply) -> None:
        """Count a reply."""
        self.statuses[reply.status] += 1
        self.n_retries += reply.n_retries
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


def require_price(agent: Agent) -> None:
    """Raise if a budget cannot be kept, because no price of the model of an agent is known."""
    if attribute_of(agent, "reports_cost"):
        return
    note: str | None = "it names no model, so no price is known."
    if agent.model is not None:
        note = cost(Usage(1, 1), agent.model, prices=attribute_of(agent, "prices")).note
    if note is not None:
        raise StudyError(
            f"agent '{agent.name}' cannot keep budget_usd: {note} The prices of a model that costs "
            "nothing are input: 0 and output: 0."
        )


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


class Budget:
    """The dollars that may be spent; the highest possible cost of each running call is reserved.

    A call for which that cost is unknown (by a program that reports its cost) runs alone, so the
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
        self._running: list[float] = []  # what is reserved for each running call
        self._dearest = NAN
        self._changed = asyncio.Condition()

    async def reserve(self, estimate: float) -> float | None:
        """Wait until a cost fits into the budget, then reserve and return it.

        A call of unknown cost (NaN) needs twice the cost of the most expensive call so far. All the
        money that is left is reserved for it, as soon as no other call is running.

        Return None if the budget is exhausted, or if the cost does not fit and no call is running.
        """
        if self.limit is None:
            return 0.0
        is_unknown = math.isnan(estimate)
        async with self._changed:
            while not self.exhausted:
                free = self.limit - self.spent - sum(self._running)
                most = self._dearest * _SAFETY if is_unknown else estimate
                is_too_dear = free <= 0 or most > free
                if not (is_too_dear or (is_unknown and self._running)):
                    self._running.append(free if is_unknown else estimate)
                    return self._running[-1]
                if self._running:
                    await self._changed.wait()
                    continue
                following = "what the next call costs is not known"
                if not math.isnan(most):
                    following = f"the next call may cost up to {most:.4f}"
                spent = f"budget_usd {self.limit:g}: {self.spent:.4f} are spent"
                self.exhausted = f"{spent} and {following} ({max(free, 0.0):.4f} left)"
        return None

    async def settle(self, reserved: float, reply: Reply | None) -> None:
        """Book the cost of a call that has ended, and free what was reserved for it."""
        reply = reply or Reply(status="error")
        usd, upper = reply.cost_usd, reply.cost_upper_usd
        self.spent += usd or upper or 0.0
        if self.limit is None:
            return
        async with self._changed:
            self._running.remove(reserved)
            if usd is not None:
                # With this order of the arguments, max returns the cost if `_dearest` is still NaN.
                self._dearest = max(usd, self._dearest)
            elif upper is None and (reply.cost_note == UNREADABLE or reply.status in PAID):
                self.exhausted = (
                    f"the cost of an answer is not known ({reply.cost_note or 'not reported'}), so "
                    "budget_usd cannot be kept; give prices= to the agent or leave budget_usd out"
                )
            self._changed.notify_all()


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
GOLD = "gold_verdicts"  # The table of verdicts on gold answers, which are no part of the study.
KEPT = PAID - {"paused"}  # A paused reply contains no judgement, so the grader is asked again.


class BudgetSpentError(Exception):
    """The next prompt does not fit into the budget."""


class Engine(ABC):
    """The jobs of one stage, the agents or graders that do them, and the store for the replies.

    A subclass defines what the jobs are and how to do one, and how to record a reply. This class
    does the jobs, stops the work and writes the receipts.

    A job is done once: an answer to get or to grade, or a pair to compare. It has a unique ``key``,
    such as an attempt_id, which messages show. A job of a grader has ``columns``, too, the columns
    of its stored replies that identify it.
    """

    stage: Literal["run", "grade", "compare"]
    paid_tables: tuple[str, ...]  # the tables whose rows have a cost
    stop_note: str  # the last sentence of the error that is raised after a stop
    unit: str  # noun for a job in messages
    warning: type[UserWarning]

    def __init__(
        self, store: RunStore, study: JsonObject, participants: Iterable[Participant]
    ) -> None:
        self.store, self.study = store, study
        self.participants = {one.agent_or_grader.name: one for one in participants}
        self.gold: JsonObject = {}  # agreement with the gold answers
        # replies that are stored but not yet used, by key of their job
        self.replies: defaultdict[str, list[Reply]] = defaultdict(list)
        self.failures_in_a_row = 0
        self.is_at_fault = False  # whether a grader was stopped for its unreadable replies
        self.progress_bar: Any = None
        self.stopped: str | None = None
        # for each paid reply that could not be stored: the name of its job, and its cost
        self.lost: list[tuple[str, float | None]] = []

    @abstractmethod
    async def do_open_jobs(self) -> None:
        """Do all open jobs of the stage."""

    @abstractmethod
    async def work_on(self, job: Any) -> bool:
        """Do and record one job; return whether it is done."""

    @abstractmethod
    async def record_reply(self, job: Any, reply: Reply, started: datetime) -> None:
        """Store the reply to the prompt of a job."""

    @abstractmethod
    def messages(self) -> Iterable[str]:
        """Return the warnings about the work that was done or left open."""

    @property
    def n_open(self) -> int:
        """Number of the jobs that are still open."""
        return sum(participant.n_open for participant in self.participants.values())

    async def main(self, budget: Budget, width: int, progress: bool, stop: Stop) -> None:
        """Do all open jobs, `width` at a time; write receipts before and after."""
        self.budget, self.stop, self.ledger = budget, stop, Ledger(self.store)
        self.width, self.progress = width, progress
        n_before = sum(row["event"] == "begun" for row in self.store.records("receipts"))
        receipts = partial(self._receipts, f"{self.stage}-{n_before + 1:04d}")
        await self.ledger.write("receipts", receipts("begun"))
        try:
            try:
                await self.do_open_jobs()
            finally:
                await self.ledger.close()
                self.stopped = self.stop.reason or (self.budget.exhausted if self.n_open else None)
                try:
                    await self.ledger.write("receipts", receipts("ended"))
                finally:  # close the agents or graders even if the receipts cannot be written
                    for participant in self.participants.values():
                        await participant.agent_or_grader.aclose()
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

    def _receipts(self, receipt: str, event: str) -> list[JsonObject]:
        """Return a receipt for each agent or grader.

        One is stored when the run begins, and one when it ends; a run that was killed has only the
        first. A receipt has these fields:

        - receipt: stage and number of the run, the same in both receipts.
        - event, at: ``begun`` or ``ended``, and when.
        - stage, name: ``run``, ``grade`` or ``compare``, and the agent or grader.
        - skillcomp: version of this library.
        - model, models: the model that was requested, and the number of replies for each model,
          under the name that the service reports.
        - settings, prompt_version: settings of the agent, and the hash of the template that loads a
          skill or the version of the grader.
        - skills, suites: the sha256 of each skill and suite in the store, by slug.
        - study: arguments of the run, such as conditions, repeats, seed and round.
        - n_wanted, n_open: number of all jobs, and of those that are still open.
        - statuses: number of replies of this run by status.
        - cost_usd, n_unpriced: sum of the known costs of this run in dollars (None without
          replies), and number of replies of unknown cost.
        - gold: agreement with the gold answers; empty if there are none.
        - stopped: why the run ended early; None if it did not.
        """
        return [
            {
                "receipt": receipt,
                "event": event,
                "stage": self.stage,
                "name": name,
                "at": datetime.now(UTC),
                "skillcomp": version("skillcomp"),
                "model": who.model,
                "models": participant.models,
                "settings": getattr(agent_of(who) or who, "settings", None),
                "prompt_version": agent_version() if self.stage == "run" else who.version,
                "skills": {slug: skill.sha256 for slug, skill in self.store.skills.items()},
                "suites": {slug: suite.sha256 for slug, suite in self.store.suites.items()},
                "study": self.study,
                "n_wanted": participant.n_wanted,
                "n_open": participant.n_open,
                "statuses": participant.statuses,
                "cost_usd": participant.cost_usd if participant.statuses.total() else None,
                "n_unpriced": participant.n_unpriced,
                "gold": self.gold,
                "stopped": self.stopped,
            }
            for name, participant in self.participants.items()
            for who in [participant.agent_or_grader]
        ]

    async def do_all(self, jobs: Iterable[Any], n: int, title: str) -> int:
        """Do jobs and return how many are still open.

        `n` is the number of all jobs, open or done, for the progress bar.
        """
        # First do jobs with stored replies: they cost nothing, and the budget may run out later.
        jobs = sorted(jobs, key=lambda job: not self.replies.get(job.key))
        n_open = len(jobs)
        if jobs and self.budget.limit is not None:
            for who in (p.agent_or_grader for p in self.participants.values() if p.n_open):
                require_price(agent_of(who) or who)

        async def do_job(job: Any) -> None:
            nonlocal n_open
            try:
                if await self.work_on(job):
                    n_open -= 1
                    self.progress_bar.update()
            except BudgetSpentError as error:
                self.stop.ask(str(error))

        hidden = not self.progress
        bar = tqdm(total=n, initial=n - n_open, desc=title, unit="answer", disable=hidden)
        with closing(bar) as self.progress_bar:
            await fan_out(jobs, do_job, width=self.width, stop=self.stop)
        return n_open

    def watch(self, name: str, last: Reply, *, ok: bool) -> None:
        """Stop the stage after fatal or repeated failures, or if a service demands a long wait."""
        participant = self.participants[name]
        self.failures_in_a_row = 0 if ok else self.failures_in_a_row + 1
        error, wait = redacted_content(last.error), last.wait_seconds or 0.0
        if not ok and wait > LONGEST_WAIT:
            until = datetime.now(UTC) + timedelta(seconds=wait)
            self.stop.ask(f"the service asks to wait until {until:%Y-%m-%d %H:%M} UTC: {error}")
            return
        participant.n_login_failures += not ok and bool(_NO_ACCESS.search(error or ""))
        # three login failures of an agent that has never succeeded stop the stage
        has_no_login = participant.n_login_failures >= 3 and not PAID & participant.statuses.keys()
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

    def __init__(self, engine: Engine, agent: Agent, job: Any) -> None:
        self.name, self.model, self.family = agent.name, agent.model, agent.family
        self.settings = agent.settings
        self._engine, self._agent, self._job = engine, agent, job
        self._replies = list(engine.replies.get(job.key, ()))

    async def ask(self, prompt: str, **about: Unpack[Asked]) -> Reply:
        """Return the next stored reply or, if none is left, ask the agent; see `BaseAgent.ask`."""
        if self._replies:
            return self._replies.pop(0)

        def estimate() -> float:
            skill, schema = about.get("skill"), about.get("schema")
            shape = shape_text(schema) if schema is not None else None
            block = skill_block(skill) if skill else None
            return upper_cost(self._agent, prompt, about.get("system"), block, shape)

        is_free = attribute_of(self._agent, "is_recording")
        budget = Budget(None) if is_free else self._engine.budget
        reserved = await budget.reserve(estimate() if budget.limit is not None else 0.0)
        if reserved is None:
            raise BudgetSpentError(budget.exhausted or "budget_usd")
        paid_reply = None
        try:
            # work may have been stopped while the call waited for the budget
            self._engine.stop.check()
            started = datetime.now(UTC)
            paid_reply = await self._agent.ask(prompt, **about)
            if paid_reply.cost_note == UNREADABLE and paid_reply.cost_usd is None:
                # the highest possible cost is stored, so that later runs count it as spent
                usd = estimate()
                upper = {} if math.isnan(usd) else {"cost_upper_usd": usd}
                paid_reply = paid_reply.model_copy(update=upper)
            try:
                await self._engine.record_reply(self._job, paid_reply, started)
            except Exception:
                if paid_reply.status in PAID:
                    self._engine.lost.append((self._job.key, paid_reply.cost_usd))
                raise
        finally:
            await budget.settle(reserved, paid_reply)
        return paid_reply


class Ruling(NamedTuple):
    """What a grader said about a job.

    Attributes
    ----------
    records : sequence of record
        The verdicts or the judgement to store.
    last : Reply
        The last reply, which shows why a grader failed.
    ok : bool
        Whether the grader replied at all, even if the reply cannot be read.
    problems : sequence of str
        Why the reply cannot be read; empty if it can.
    gives_away : str or None
        Words by which an answer reveals its condition.
    """

    records: Sequence[Record]
    last: Reply
    ok: bool
    problems: Sequence[str]
    gives_away: str | None


class Judging(Engine):
    """The work of one grader: each reply is stored before it is read and never paid for twice.

    A subclass defines the tables to use, which of their columns identify a job (`key_of`), how a
    grader judges a job, and the words of the messages. A job also has `answers`, the texts that the
    grader sees.
    """

    warning = GraderWarning
    table: str  # the table with the results

    # Three texts for warnings: about open jobs, answers that reveal their condition, and answers
    # that address the grader.
    warning_parts: tuple[str, str, str]

    def __init__(
        self, store: RunStore, grader: Any, jobs: Sequence[Any], study: JsonObject
    ) -> None:
        self.grader, self.jobs, self.agent = grader, jobs, agent_of(grader)
        self.participant = Participant(grader, n_wanted=len(jobs), n_open=len(jobs))
        super().__init__(store, study, [self.participant])
        self.n_given_away = self.n_addressing = 0
        self.grader_columns = {"grader": grader.name, "grader_version": grader.version}
        # the error of each job that failed in this run
        self.failed: dict[str, str | None] = {}
        self.malformed: set[str] = set()  # Keys of the jobs with unreadable replies in this run.
        self.n_unreadable = 0  # Number of consecutive unreadable replies.

    @abstractmethod
    def key_of(self, row: JsonObject) -> str:
        """Return the key of the job that a row of a table belongs to."""

    @abstractmethod
    async def judge(self, grader: Any, job: Any) -> Ruling:
        """Let a grader judge one job."""

    def own_rows(self, table: str, *columns: str) -> Iterable[JsonObject]:
        """Return the rows of this grader in a table, with the given columns or with all."""
        rows: Iterable[JsonObject] = self.store.records(table)
        if columns:
            rows = self.store.rows(table, *self.grader_columns, *columns)
        own = tuple(self.grader_columns.values())
        return (row for row in rows if tuple(map(row.get, self.grader_columns)) == own)

    async def record_reply(self, job: Any, reply: Reply, started: datetime) -> None:
        """Store a reply of the grader in the table of replies."""
        row = {**self.grader_columns, **job.columns, "at": datetime.now(UTC).isoformat()}
        await self.ledger.write(self.paid_tables[0], [row | reply.model_dump(exclude_none=True)])
        self.participant.add(reply)

    def take_replies(self, used: Mapping[str, datetime]) -> None:
        """Read the stored replies of this grader.

        `used` maps the key of a job to a time; only later replies to this job are read.
        """
        self.replies.clear()  # this loses no reply, because all are in the store
        for row in self.own_rows(self.paid_tables[0]):
            key = self.key_of(row)
            fresh = key not in used or datetime.fromisoformat(row["at"]) > used[key]
            if row["status"] in KEPT and fresh:
                fields = {name: row[name] for name in Reply.model_fields if name in row}
                self.replies[key].append(Reply(**fields))

    async def work_on(self, job: Any) -> bool:
        """Judge one job and store the results; stop the stage if no further job can succeed."""
        grader, key = self.grader, job.key
        if self.agent is not None:
            grader = copy(self.grader)
            grader.agent = Recorder(self, self.agent, job)
        ruling = await self.judge(grader, job)
        await self.ledger.write(self.table, ruling.records)
        if self.agent is not None:
            self.watch(self.grader.name, ruling.last, ok=ruling.ok)
        if not ruling.ok:
            self.failed[key] = ruling.last.error
            return False
        if self.agent is None:
            self.participant.add(Reply(model=self.grader.model))
        if self.table != GOLD:
            self.malformed |= {key} if ruling.problems else set()
            self.n_given_away += ruling.gives_away is not None
            self.n_addressing += any(addresses_grader(answer or "") for answer in job.answers)
        self.n_unreadable = self.n_unreadable + 1 if ruling.problems else 0
        # other graders continue after the unreadable replies of this one
        self.is_at_fault = self.n_unreadable >= 5
        if self.is_at_fault:
            message = f"{self.n_unreadable} {self.unit}s in a row cannot be read"
            self.stop.ask(f"{message}; the last: {ruling.problems[0]}")
        self.replies.pop(key, None)
        return True

    def messages(self) -> Iterable[str]:
        """Return warnings about open jobs, and about answers that cannot be judged blindly."""
        name, n = f"grader '{self.grader.name}'", self.participant.n_wanted
        open_, given_away, addressing = self.warning_parts
        if n_open := self.n_open:
            why = self.stopped
            if not why:
                reasons = [f"{plural(len(self.failed), self.unit)} failed"] if self.failed else []
                reasons += [f"{len(self.malformed)} cannot be read"] if self.malformed else []
                errors = shortened(filter(None, {*self.failed.values()}), _SHOWN, "; ")
                often = most_frequent(self.store, self.stage, self.grader.name)
                often = often or f"; {errors}" * bool(errors)
                why = f"{' and '.join(reasons)}{often}"
            goes_on = getattr(self.grader, "remedy", "the same call continues with them")
            yield f"{name}: {n_open} of {n} {open_} yet ({why}); {goes_on}."
        for count, part in ((self.n_given_away, given_away), (self.n_addressing, addressing)):
            if count:
                yield f"{name}: {part.format(n=f'{count} of {n}')}"


def do_stage(
    works: Sequence[Engine], budget_usd: float | None, concurrency: int, progress: bool
) -> None:
    """Let the agents answer, or let graders work one after the other; warn about open jobs."""
    first, spent = works[0], 0.0
    for table in first.paid_tables:
        rows = first.store.records(table)
        if table == "attempts":
            rows = own_attempts(first.store, "cost_usd")
        # a reply of unknown cost counts with its highest possible cost, if this is known
        spent += sum(row.get("cost_usd") or row.get("cost_upper_usd") or 0.0 for row in rows)
    for work in works:
        # each event loop needs its own Budget; stored replies can be read even if it is exhausted
        budget = Budget(budget_usd, spent=spent)
        run_sync(partial(work.main, budget, concurrency, progress))
        spent = budget.spent
        for text in work.messages():
            warnings.warn(text, work.warning, stacklevel=3)
        if work.stopped and work.stopped != budget.exhausted and not work.is_at_fault:
            break
