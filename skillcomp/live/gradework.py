"""One grader at work on stored answers: gold first, every reply kept, nothing paid twice."""

from __future__ import annotations

import logging
import warnings
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tqdm.auto import tqdm

from skillcomp.errors import AgentError
from skillcomp.io.store import RunStore
from skillcomp.live.batches import Batches, BatchLimits, batch_agent, tell_of
from skillcomp.live.batchnotes import open_batches
from skillcomp.live.budget import PAID, Budget, batch_cost
from skillcomp.live.gold import Agreement, GoldAnswer, agreement, passes
from skillcomp.live.graders import Blind, Grader, GraderWarning, Grading, blind
from skillcomp.live.ledger import Ledger
from skillcomp.live.loop import Stop, fan_out
from skillcomp.live.receipts import Receipt, Tally, begun, ended
from skillcomp.live.recorder import NeedsReply, NoMoney, reply_of, through
from skillcomp.live.reply import Reply
from skillcomp.records import Attempt, Case, Skill, Verdict

__all__ = ["GradeOptions", "GradeWork", "Item"]

_log = logging.getLogger("skillcomp.live")
_KEPT = PAID - {"paused"}  # a grader that paused has said nothing; it is asked again
_TABLES = ("gold_verdicts", "verdicts")
_IN_A_ROW = 20  # gradings that fail without one in between that does not


@dataclass(frozen=True)
class GradeOptions:
    """What `grade` was asked for, beside whom."""

    round: int
    least: float | None
    seed: int
    width: int
    limits: BatchLimits | None
    progress: bool


@dataclass(frozen=True)
class Item:
    """An answer with what it is graded by, and its blind name."""

    attempt: Attempt
    case: Case
    skill: Skill
    placed: Blind | None = None


class GradeWork:
    """One grader in one round."""

    def __init__(
        self,
        store: RunStore,
        grader: Grader,
        items: Mapping[str, Item],
        answers: Sequence[GoldAnswer],
        options: GradeOptions,
    ) -> None:
        self.items = items
        self.store, self.grader, self.answers, self.options = store, grader, answers, options
        self.asks = getattr(grader, "agent", None) is not None  # a recording asks nobody
        self.kept: defaultdict[str, list[Reply]] = defaultdict(list)
        self.stopped: str | None = None
        self.n_wanted = self.n_open = self.n_given_away = self.in_a_row = 0
        self.found: Agreement | None = None
        self.failed: set[str] = set()  # in this run
        self.failures: Counter[str] = Counter()  # of requests in batches
        self.given_up: set[str] = set()

    @property
    def purposes(self) -> list[str]:
        """What its batches are noted under."""
        return [self._purpose(table) for table in _TABLES]

    async def collect(self, budget: Budget, stop: Stop) -> None:
        """Take in the batches that earlier calls left under way; nothing is asked."""
        open_ = Counter(purpose for purpose, _ in open_batches(self.store))
        tables = [table for table in _TABLES if open_[self._purpose(table)]]
        if not tables or stop.reason:
            return
        async with self._at_work(budget, stop):
            for table in tables:
                if self.options.limits is None:
                    tell_of(f"grader '{self.grader.name}'", open_[self._purpose(table)])
                await self._batches(table).resume()

    async def main(self, budget: Budget, stop: Stop) -> None:
        """Grade gold, then the study."""
        async with self._at_work(budget, stop):
            self.kept = self._kept()
            if self.answers:
                await self._hold_against_gold()
            if not stop.reason:
                study = _placed(self.items, self.options.seed)
                self.n_open = await self._all(study, "verdicts", f"verdicts of {self.grader.name}")

    @asynccontextmanager
    async def _at_work(self, budget: Budget, stop: Stop) -> AsyncIterator[None]:
        """Open the ledger, and leave a receipt of what was done."""
        self.budget, self.stop, self.ledger = budget, stop, Ledger(self.store)
        self.tally = Tally()
        self.n_wanted = self.n_open = len(self.items)
        receipt = self._begun()
        await self.ledger.write("receipts", [receipt])
        try:
            yield
        finally:
            self.stopped = stop.reason or (self.budget.exhausted if self.n_open else None)
            await self.ledger.close()
            gold = self.found.fields() if self.found else {}
            last = ended(receipt, self.tally, n_open=self.n_open, stopped=self.stopped, gold=gold)
            await self.ledger.write("receipts", [last])
            await self.grader.aclose()

    def _begun(self) -> Receipt:
        agent = getattr(self.grader, "agent", None)
        return begun(
            self.store,
            "grade",
            self.grader.name,
            model=self.grader.model,
            settings=getattr(agent, "settings", None),
            prompt_version=self.grader.version,
            study={"round": self.options.round, "seed": self.options.seed},
            n_wanted=self.n_wanted,
            n_open=self.n_open,
        )

    async def _hold_against_gold(self) -> None:
        cases = {c.case_id: (c, s.skill) for s in self.store.suites.values() for c in s.cases}
        items = {}
        for answer in self.answers:
            case, slug = cases[answer.case_id]
            attempt = answer.attempt(slug)
            items[attempt.attempt_id] = Item(attempt, case, self.store.skills[slug])
        n_open = await self._all(
            _placed(items, self.options.seed), "gold_verdicts", f"gold for {self.grader.name}"
        )
        if n_open and self.budget.exhausted:
            self.stop.ask(self.budget.exhausted)
        if self.stop.reason and n_open:
            return
        own = [Verdict.model_validate(row) for row in self._own("gold_verdicts")]
        self.found = agreement(self.answers, own)
        _log.info("grader %s: %s", self.grader.name, self.found)
        told = f"{self.grader.name}: {self.found}"
        tqdm(total=0, desc=told, bar_format="{desc}", disable=not self.options.progress).close()
        passes(self.found, self.grader.name, self.options.least)

    def _own(self, table: str) -> Iterable[dict[str, Any]]:
        """Yield this grader's lines of a table in this round."""
        mine = (self.grader.name, self.grader.version, self.options.round)
        for row in self.store.records(table):
            if (row["grader"], row.get("grader_version"), row["round"]) == mine:
                yield row

    def _kept(self) -> defaultdict[str, list[Reply]]:
        kept: defaultdict[str, list[Reply]] = defaultdict(list)
        for row in self._own("replies"):
            if row["status"] in _KEPT:
                kept[row["attempt_id"]].append(reply_of(row))
        return kept

    def _done(self, table: str) -> defaultdict[str, set[str]]:
        done: defaultdict[str, set[str]] = defaultdict(set)
        if table == "verdicts":
            columns = ["attempt_id", "check_id", "grader", "grader_version", "round"]
            rows = self.store.table(table).select(columns).to_pylist()
            mine = (self.grader.name, self.grader.version, self.options.round)
            own = (r for r in rows if (r["grader"], r["grader_version"], r["round"]) == mine)
        else:
            own = (row for row in self._own(table))
        for row in own:
            done[row["attempt_id"]].add(row["check_id"])
        return done

    # -- one after the other ------------------------------------------------------------------

    async def _all(self, items: Sequence[Item], table: str, title: str) -> int:
        """Grade what is open of some items; return how many are still open then."""
        done = self._done(table)
        pending = [i for i in items if not _names(i) <= done[i.attempt.attempt_id]]
        # what is paid for first: the budget may end at any other
        pending.sort(key=lambda item: item.attempt.attempt_id not in self.kept)
        bar = tqdm(
            total=len(items),
            initial=len(items) - len(pending),
            desc=title,
            unit="answer",
            disable=not self.options.progress,
        )
        n_open = len(pending)

        async def one(item: Item) -> None:
            nonlocal n_open
            if await self._grade(item, table, done[item.attempt.attempt_id], batched=False):
                n_open -= 1
                bar.update()

        try:
            if self.options.limits is None:
                await fan_out(pending, one, width=self.options.width, stop=self.stop)
            else:
                n_open = await self._all_in_batches(pending, table, done, bar)
        finally:
            bar.close()
        return n_open

    async def _grade(self, item: Item, table: str, done: set[str], *, batched: bool) -> bool:
        """Grade one answer and store the verdicts; False when that is still to be done."""
        name = item.attempt.attempt_id

        async def book(reply: Reply) -> None:
            await self._book(name, reply)

        grader = through(self.grader, self.kept[name], None if batched else book, self.budget)
        assert item.placed is not None
        try:
            grading = await grader.grade(
                item.attempt,
                item.case,
                item.skill,
                round=self.options.round,
                batch=f"{self.grader.name}/{self.options.round}",
                item=item.placed.item,
                order=item.placed.order,
            )
        except NoMoney as out:
            self.stop.ask(str(out))
            return False
        fresh = [v for v in grading.verdicts if v.status != "error" and v.check_id not in done]
        await self.ledger.write(table, fresh)
        if not self._watch(name, grading):
            return False
        if not self.asks:
            self.tally.add(Reply(model=self.grader.model))
        self.kept.pop(name, None)
        self.n_given_away += grading.gives_away is not None and table == "verdicts"
        return True

    async def _book(self, attempt_id: str, reply: Reply) -> None:
        row = {
            "attempt_id": attempt_id,
            "grader": self.grader.name,
            "grader_version": self.grader.version,
            "round": self.options.round,
            "at": datetime.now(UTC).isoformat(),
            **reply.model_dump(exclude_none=True),
        }
        await self.ledger.write("replies", [row])
        self.tally.add(reply)

    def _watch(self, name: str, grading: Grading) -> bool:
        """Return whether a grading is final; stop where nothing further can succeed."""
        if all(verdict.status != "error" for verdict in grading.verdicts):
            self.in_a_row = 0
            return True
        self.failed.add(name)
        if not self.asks:
            return False
        self.in_a_row += 1
        told = grading.replies[-1].error if grading.replies else grading.verdicts[0].raw
        why = None
        if grading.fatal:
            why = f"stopped, since every further grading would fail too: {told}"
        elif self.in_a_row >= _IN_A_ROW:
            why = f"stopped after {self.in_a_row} failures in a row; the last: {told}"
        if why:
            self.stop.ask(why, AgentError(f"{why} What was graded is kept; start again later."))
        return False

    # -- in batches ---------------------------------------------------------------------------

    def _purpose(self, table: str) -> str:
        return f"grade:{self.grader.name}#{self.grader.version}/{self.options.round}/{table}"

    def _batches(self, table: str) -> Batches:
        limits = self.options.limits or BatchLimits()

        async def book(key: str, reply: Reply) -> None:
            await self._book(key, reply)
            if reply.status in _KEPT:
                self.kept[key].append(reply)
                return
            self.failures[key] += 1
            if reply.fatal or self.failures[key] >= limits.n_rounds:
                self.given_up.add(key)

        return Batches(
            self.store,
            self.ledger,
            batch_agent(self.grader.agent),  # type: ignore[attr-defined]
            purpose=self._purpose(table),
            book=book,
            booked={row["request_id"] for row in self._own("replies") if row.get("request_id")},
            budget=self.budget,
            stop=self.stop,
            limits=limits,
        )

    async def _all_in_batches(
        self, pending: Sequence[Item], table: str, done: Mapping[str, set[str]], bar: Any
    ) -> int:
        agent = batch_agent(self.grader.agent)  # type: ignore[attr-defined]
        batches = self._batches(table)
        open_ = {item.attempt.attempt_id: item for item in pending}

        async def bodies() -> AsyncIterator[tuple[str, dict[str, Any]]]:
            for name, item in list(open_.items()):
                if name in self.given_up:
                    continue
                try:
                    if await self._grade(item, table, done[name], batched=True):
                        del open_[name]
                        bar.update()
                except NeedsReply as needed:
                    parts = dict(needed.parts)
                    yield name, agent.request(parts.pop("prompt"), **parts)

        # also where this run has no limit: the next one may count what this one has sent
        estimate = batch_cost(agent, Budget(1.0))  # type: ignore[arg-type]
        while await batches.send(bodies(), estimate) and not self.stop.reason:
            pass
        limited = self.budget.limit is not None and not self.stop.reason
        if set(open_) - self.given_up and limited:
            self.budget.exhausted = self.budget.exhausted or "budget_usd: nothing further fits"
        return len(open_)

    def warn(self) -> None:
        """Say what was left open, and whether the grader could tell the condition."""
        name = self.grader.name
        if self.n_open:
            why = self.stopped or f"{len(self.failed)} gradings failed"
            warnings.warn(
                f"grader '{name}': {self.n_open} of {self.n_wanted} answers are not graded yet "
                f"({why}); the same call goes on with them.",
                GraderWarning,
                stacklevel=3,
            )
        if self.n_given_away:
            warnings.warn(
                f"grader '{name}': {self.n_given_away} of {self.n_wanted} answers tell their "
                "condition (they say that they do not know the skill, or cite it), so it was not "
                "blind to it.",
                GraderWarning,
                stacklevel=3,
            )


def _names(item: Item) -> set[str]:
    return {check.check_id for check in item.case.checks}


def _placed(items: Mapping[str, Item], seed: int) -> list[Item]:
    order = blind({name: len(item.case.checks) for name, item in items.items()}, seed=seed)
    return [
        Item(items[p.attempt_id].attempt, items[p.attempt_id].case, items[p.attempt_id].skill, p)
        for p in order
    ]
