"""One run at work: cells in their order, each answer on the disk before the next."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from tqdm.auto import tqdm

from skillcomp.errors import AgentError
from skillcomp.io.store import RunStore
from skillcomp.live.batches import BatchAgent, Batches, BatchLimits, batch_agent, tell_of
from skillcomp.live.batchnotes import open_batches, outstanding
from skillcomp.live.budget import PAID, Budget, at_most, batch_cost, charged, upper_cost
from skillcomp.live.ledger import Ledger
from skillcomp.live.loop import Stop, fan_out
from skillcomp.live.plan import Key, Plan, PlannedCell, Tried
from skillcomp.live.prompts import agent_version, skill_block
from skillcomp.live.receipts import Receipt, StudyWarning, Tally, begun, ended
from skillcomp.live.reply import Agent, Cell, Reply
from skillcomp.records import Attempt

__all__ = ["RunWork", "StudyWarning"]

_IN_A_ROW = 20  # failures without an answer in between; then something is wrong with all of them
_FROM_REPLY = tuple(name for name in Reply.model_fields if name in Attempt.model_fields)


class RunWork:
    """One call of `run`: what is open, and where its answers go."""

    def __init__(
        self,
        store: RunStore,
        plan: Plan,
        agents: Sequence[Agent],
        done: Mapping[Key, Tried],
        again: Collection[str],
        settings: dict[str, Any],
        progress: bool,
    ) -> None:
        self.store, self.plan, self.again = store, plan, again
        self.tried = done  # also of cells that this run does not want
        # all there from the start, so that memory does not grow with the answers
        self.done = {cell.key: done.get(cell.key) or Tried() for cell in plan.cells}
        self.agents = {agent.name: agent for agent in agents}
        self.tallies = {agent.name: Tally() for agent in agents}
        self.settings, self.progress = settings, progress
        self.loaded = {at: arm.loaded(store) for at, arm in plan.arms.items()}
        self.in_a_row = 0
        self.stopped: str | None = None
        self.given_up: set[str] = set()  # attempts that a batch did not answer often enough

    def open(self, agent: str | None = None) -> list[PlannedCell]:
        """Return the cells that are left to ask, in their order."""
        return [
            cell
            for cell in self.plan.cells
            if agent in (None, cell.agent) and not self.done[cell.key].is_done(self.again)
        ]

    async def main(
        self, budget_usd: float | None, width: int, limits: BatchLimits | None, stop: Stop
    ) -> None:
        """Ask what is open."""
        self.stop, self.ledger = stop, Ledger(self.store)
        mine = [_purpose(name) for name in self.agents]
        under_way = outstanding(self.store, "run", but=mine)
        self.budget = Budget(budget_usd, spent=_spent(self.store) + under_way)
        receipts = [self._begun(agent) for agent in self.agents.values()]
        await self.ledger.write("receipts", receipts)
        self.bar = tqdm(
            total=len(self.plan.cells),
            initial=len(self.plan.cells) - len(self.open()),
            desc="answers",
            unit="answer",
            disable=not self.progress,
        )
        try:
            batches = await self._collect(limits)
            if stop.reason:
                pass
            elif limits is None:
                await fan_out(self.open(), self._ask, width=width, stop=stop)
            else:
                for name, one in batches.items():
                    await self._ask_batches(one, batch_agent(self.agents[name]), limits)
        finally:
            self.stopped = stop.reason or self.budget.exhausted
            await self.ledger.close()
            await self.ledger.write("receipts", [self._ended(one) for one in receipts])
            self.bar.close()
            for agent in self.agents.values():
                await agent.aclose()

    def _begun(self, agent: Agent) -> Receipt:
        more = {"model": agent.model, "settings": agent.settings, "study": self.settings}
        n_wanted = sum(cell.agent == agent.name for cell in self.plan.cells)
        return begun(
            self.store,
            "run",
            agent.name,
            prompt_version=agent_version(),
            n_wanted=n_wanted,
            n_open=len(self.open(agent.name)),
            **more,
        )

    def _ended(self, receipt: Receipt) -> Receipt:
        tally, n_open = self.tallies[receipt.name], len(self.open(receipt.name))
        return ended(receipt, tally, n_open=n_open, stopped=self.stopped)

    # -- one at a time ------------------------------------------------------------------------

    async def _ask(self, cell: PlannedCell) -> None:
        agent, skill = self.agents[cell.agent], self.loaded[cell.skill, cell.condition]
        prompt = self.plan.cases[cell.case_id].prompt
        at = Cell(cell.case_id, cell.condition, cell.repeat)
        if getattr(agent, "is_recording", False):
            started = datetime.now(UTC)
            reply = await agent.ask(prompt, skill=skill, cell=at)
            await self._book(cell, reply, started)
        else:
            estimate = partial(upper_cost, agent, prompt, skill_block(skill) if skill else None)
            limited = self.budget.limit is not None
            aside = await self.budget.take(estimate() if limited else 0.0)
            if aside is None:
                self.stop.ask(self.budget.exhausted or "budget_usd")
                return
            started, answered = datetime.now(UTC), None
            try:
                self.stop.check()  # the money may have been waited for
                reply = await agent.ask(prompt, skill=skill, cell=at)
                reply = answered = at_most(reply, estimate)
                await self._book(cell, reply, started)
            finally:
                await self.budget.settle(aside, answered)
        self._watch(reply)

    async def _book(self, cell: PlannedCell, reply: Reply, started: datetime | None) -> None:
        tried = self.done.setdefault(cell.key, self.tried.get(cell.key) or Tried())
        if reply.status in PAID and "ok" in tried.paid:
            await self._lay_aside(cell, reply)
            return
        attempt = _attempt(cell, reply, self.agents[cell.agent], _name(cell, reply, tried), started)
        if reply.cost_upper_usd is not None:  # first, since too much is better than none
            row = {"attempt_id": attempt.attempt_id, "cost_upper_usd": reply.cost_upper_usd}
            await self.ledger.write("unreadable", [row])
        await self.ledger.write("attempts", [attempt])
        self.tallies[cell.agent].add(reply)
        if reply.status in PAID:
            tried.paid += (reply.status,)
            tried.settled = True
            self.bar.update()
        else:
            tried.n_errors += 1
        if cost := sum(tally.cost_usd for tally in self.tallies.values()):
            self.bar.set_postfix_str(f"{cost:.2f} USD", refresh=False)

    async def _lay_aside(self, cell: PlannedCell, reply: Reply) -> None:
        """Keep what was paid for and is one too many: a cell has one answer."""
        row = {**cell.model_dump(), **reply.model_dump(exclude_none=True)}
        await self.ledger.write("surplus", [row])
        self.tallies[cell.agent].add(reply)

    def _watch(self, reply: Reply) -> None:
        """Stop where nothing further can succeed."""
        self.in_a_row = 0 if reply.status in PAID else self.in_a_row + 1
        told = None
        if reply.fatal:
            told = f"stopped, since every further question would fail too: {reply.error}"
        elif self.in_a_row >= _IN_A_ROW:
            told = f"stopped after {self.in_a_row} failures in a row; the last: {reply.error}"
        if told:
            self.stop.ask(told, AgentError(f"{told} What was answered is kept; start again later."))

    # -- in batches ---------------------------------------------------------------------------

    async def _collect(self, limits: BatchLimits | None) -> dict[str, Batches]:
        """Collect what earlier calls have sent, before anything is asked; return who sends more."""
        open_ = Counter(purpose for purpose, _ in open_batches(self.store))
        batches = {}
        for agent in self.agents.values():
            n = open_[_purpose(agent.name)]
            if not n and limits is None:
                continue
            one = self._batches(batch_agent(agent), limits or BatchLimits())
            if n and limits is None:
                tell_of(f"agent '{agent.name}'", n)
            await one.resume()
            batches[agent.name] = one
        return batches

    def _batches(self, agent: BatchAgent, limits: BatchLimits) -> Batches:
        cells = {cell.attempt_id: cell for cell in self.plan.cells if cell.agent == agent.name}
        ids = self.store.table("attempts").column("request_id").to_pylist()
        ids += [row.get("request_id") for row in self.store.records("surplus")]
        failures: Counter[str] = Counter()
        estimate = batch_cost(self.agents[agent.name], Budget(1.0))

        def cost(cell: PlannedCell) -> float:
            known = (cell.skill, cell.condition) in self.loaded and cell.case_id in self.plan.cases
            return estimate(self._body(agent, cell)) if known else math.nan

        async def book(key: str, reply: Reply) -> None:
            if key not in cells:  # of an earlier run that wanted more than this one
                cells[key] = self._unplanned(key)
            await self._book(cells[key], at_most(reply, partial(cost, cells[key])), None)
            failures[key] += reply.status not in PAID
            if reply.fatal or failures[key] >= limits.n_rounds:
                self.given_up.add(key)

        return Batches(
            self.store,
            self.ledger,
            agent,
            purpose=_purpose(agent.name),
            book=book,
            booked={name for name in ids if name},
            budget=self.budget,
            stop=self.stop,
            limits=limits,
        )

    async def _ask_batches(self, batches: Batches, agent: BatchAgent, limits: BatchLimits) -> None:
        # also where this run has no limit: the next one may count what this one has sent
        estimate = batch_cost(self.agents[agent.name], Budget(1.0))
        while True:
            cells_open = [c for c in self.open(agent.name) if c.attempt_id not in self.given_up]
            if not cells_open or self.stop.reason:
                return
            n_sent = await batches.send(self._bodies(agent, cells_open), estimate)
            if not n_sent and not self.stop.reason:
                self.budget.exhausted = self.budget.exhausted or "budget_usd: nothing further fits"
            if not n_sent:
                return

    def _unplanned(self, attempt_id: str) -> PlannedCell:
        rows = (PlannedCell.model_validate(row) for row in self.store.records("plan"))
        return next(cell for cell in rows if cell.attempt_id == attempt_id)

    async def _bodies(
        self, agent: BatchAgent, cells: Iterable[PlannedCell]
    ) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        for cell in cells:
            yield cell.attempt_id, self._body(agent, cell)

    def _body(self, agent: BatchAgent, cell: PlannedCell) -> dict[str, Any]:
        skill = self.loaded[cell.skill, cell.condition]
        return agent.request(self.plan.cases[cell.case_id].prompt, skill=skill)

    def warn(self) -> None:
        """Say what was left open, and what to keep in mind about the placebo."""
        n_open = len(self.open())
        if n_open:
            why = f" ({self.stopped})" if self.stopped else " after errors"
            warnings.warn(
                f"{n_open} of {len(self.plan.cells)} cells have no answer yet{why}; the same call "
                "goes on with them.",
                StudyWarning,
                stacklevel=3,
            )
        for arm in self.plan.arms.values():
            if arm.note:
                warnings.warn(f"skill '{arm.skill}': {arm.note}.", StudyWarning, stacklevel=3)


def _purpose(agent: str) -> str:
    return f"run:{agent}"


def _name(cell: PlannedCell, reply: Reply, tried: Tried) -> str:
    """Return the cell's own name for its first reply, a longer one for whatever else was tried."""
    if reply.status not in PAID:
        return f"{cell.attempt_id}/error-{tried.n_errors + 1}"
    return f"{cell.attempt_id}/again-{len(tried.paid)}" if tried.paid else cell.attempt_id


def _attempt(
    cell: PlannedCell, reply: Reply, agent: Agent, attempt_id: str, started: datetime | None
) -> Attempt:
    said = {name: getattr(reply, name) for name in _FROM_REPLY}
    return Attempt(
        **said,
        attempt_id=attempt_id,
        skill=cell.skill,
        case_id=cell.case_id,
        condition=cell.condition,
        repeat=cell.repeat,
        loaded_skill=cell.loaded_skill,
        agent=agent.name,
        agent_model=reply.model or agent.model,
        agent_family=agent.family,
        started_at=started,
    )


def _spent(store: RunStore) -> float:
    costs = store.table("attempts").select(["cost_usd", "perturbation"]).to_pylist()
    paid = [row["cost_usd"] or 0.0 for row in costs if row["perturbation"] is None]
    return sum(paid) + sum(charged(r) for t in ("surplus", "unreadable") for r in store.records(t))
