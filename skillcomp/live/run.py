"""Running a study: every planned cell asked once, every answer on the disk before the next."""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from functools import partial
from os.path import isfile
from pathlib import Path
from typing import Any

import pandas as pd

from skillcomp.errors import StudyError, plural, require_known, suggest
from skillcomp.io.store import RunStore
from skillcomp.live.agents.agent import (
    PAID,
    Agent,
    Cell,
    Reply,
    StudyWarning,
    agent_version,
    attribute_of,
)
from skillcomp.live.batches import (
    Batches,
    BatchLimits,
    batch_cost,
    batch_service,
    outstanding,
)
from skillcomp.live.concurrency import Stop, run_sync
from skillcomp.live.engine import Engine, Options, Recorder
from skillcomp.live.ledger import Budget, RunRecord, charged_usd, receipt_at_start, with_upper_cost
from skillcomp.live.plan import Plan, PlannedCell, Text, Tried, input_files, make_plan, tries
from skillcomp.live.status import most_frequent, status
from skillcomp.records import Attempt, Suite

_AGAIN = ("refused", "truncated", "paused")
_FROM_REPLY = tuple(name for name in Reply.model_fields if name in Attempt.model_fields)


def run(
    store: RunStore,
    suites: Iterable[Suite | str | Path] | Mapping[str, Suite] | None = None,
    *,
    agents: Sequence[Agent],
    conditions: Sequence[str] = ("baseline", "skill"),
    repeats: int = 1,
    placebo: Text | Mapping[str, Text] | None = None,
    previous: Text | Mapping[str, Text] | None = None,
    seed: int = 0,
    concurrency: int = 8,
    budget_usd: float | None = None,
    batch: bool | BatchLimits = False,
    again: Collection[str] = (),
    progress: bool = True,
) -> pd.DataFrame:
    """Ask agents the cases of a study with and without the skill, and lose no answer.

    Every cell (agent, case, condition, repeat) is asked until it has an answer, and then never
    again: called once more with the same arguments, after an error, Ctrl-C or a crash, the run
    goes on where it was.

    Parameters
    ----------
    store : RunStore
        Where the study stands; nothing else may write to it meanwhile.
    suites : iterable or mapping, optional
        Suites of the store, their slugs, or files, which are added. All of the store's when not
        given. Each suite's skill must be in the store (`RunStore.add_skill`).
    agents : sequence of Agent
        Who is asked; answers are told apart by the agent's name.
    conditions : sequence of str, default ("baseline", "skill")
        Also ``placebo`` (another text of about the same length) and ``previous`` (an older
        SKILL.md).
    repeats : int, default 1
        How often each cell is asked.
    placebo : str, path, Skill or mapping, optional
        A text, a file or a slug of the store, or one for each skill; the store's other skill of
        the nearest length when not given. Kept with the study and named in ``loaded_skill``.
    previous : path, Skill or mapping, optional
        The older SKILL.md, or one for each skill.
    seed : int, default 0
        Of the order: interleaved over the conditions, so that time does not confound them.
    concurrency : int, default 8
        Questions under way at once.
    budget_usd : float, optional
        Dollars that the answers of this store may cost in all, earlier ones included. Each call
        under way has its highest cost put aside, so the run stops before the limit is passed.
        Calls whose highest cost is not known (programs, models without a price) go one at a time,
        and the last of them can pass it.
    batch : bool or BatchLimits, default False
        Ask through the Message Batches API: half the price, within a day. Batches that an earlier
        call left under way are collected first in any case, before anything is asked.
    again : collection of str, optional
        Statuses among ``refused``, ``truncated`` and ``paused`` that are asked anew; without it
        what has been paid for is not asked for twice.
    progress : bool, default True
        Show a progress bar.

    Returns
    -------
    pandas.DataFrame
        The state of the study, as `skillcomp.live.status.status` gives it.

    Raises
    ------
    StudyError
        When something is missing or differs from what the study was begun with; nothing is asked.
    StoreError
        When another process writes to the store; it is named.
    AgentError
        When no further question could succeed (no key, no money) or twenty failed in a row. What
        was answered is kept.

    Warns
    -----
    StudyWarning
        When cells are left open: after errors, or at the end of the budget.

    Notes
    -----
    ``attempt_id`` is ``case_id/condition/repeat``, with the agent's name behind it in a study of
    several. A try that brought no answer is recorded with its error under ``.../error-1``, a
    question asked anew under ``.../again-1``. What a killed process can lose is what was under way
    between the service and the disk: at most `concurrency` replies, and none in a batch. A reply
    that arrives broken (half a body) is asked for again by the agent's retries; it cannot be kept
    and its cost is not known here.

    The first Ctrl-C, or SIGTERM, begins nothing new and no further try, and waits for what is under
    way; the second gives that up too.
    """
    found = _suites(store, suites)
    wanted_again = _again(again)
    if not isinstance(concurrency, int) or concurrency < 1:
        raise StudyError(f"concurrency is {concurrency!r}; allowed: a whole number from 1.")
    options = Options.of(concurrency, batch, progress, agents)
    with store.writer():
        settings = dict[str, Any](conditions=list(conditions), repeats=repeats, seed=seed)
        plan = make_plan(store, found, agents, placebo=placebo, previous=previous, **settings)
        work = AnswerWork(store, plan, agents, wanted_again, settings, options)
        work.warn_of_files()
        run_sync(partial(work.main, budget_usd))
    work.warn()
    return status(store)


class AnswerWork(Engine[PlannedCell]):
    """The cells of one call of `run`: what is open, and where its answers go."""

    stop_note, unit = "What was answered is kept; start again later.", "question"

    def __init__(
        self,
        store: RunStore,
        plan: Plan,
        agents: Sequence[Agent],
        again: Collection[str],
        settings: dict[str, Any],
        options: Options,
    ) -> None:
        super().__init__(store, options, agents)
        self.plan, self.again, self.settings = plan, again, settings
        self.tried = tries(store)  # also of cells that this run does not want
        # all there from the start, so that memory does not grow with the answers
        self.done = {cell.place: self.tried.get(cell.place) or Tried() for cell in plan.cells}
        self.agents = {agent.name: agent for agent in agents}
        self.files = {name: input_files(store, case) for name, case in plan.cases.items()}
        self.loaded = {at: text.loaded(store) for at, text in plan.texts.items()}

    @property
    def purposes(self) -> dict[str, Agent]:
        """What batches of this stage are noted under, and who is asked in them."""
        return {f"run:{name}": agent for name, agent in self.agents.items()}

    def is_done(self, job: PlannedCell) -> bool:
        """Return whether a cell has its answer."""
        return self.done[job.place].is_done(self.again)

    def open(self, agent: str | None = None) -> list[PlannedCell]:
        """Return the cells that are left to ask, in their order."""
        cells = (cell for cell in self.plan.cells if agent in (None, cell.agent))
        return [cell for cell in cells if not self.is_done(cell)]

    async def main(self, budget_usd: float | None, stop: Stop) -> None:
        """Ask what is open."""
        under_way = outstanding(self.store, "run", but=self.purposes)
        budget = Budget(budget_usd, spent=_spent(self.store) + under_way)
        n_cells = len(self.plan.cells)
        async with self.at_work(budget, stop):
            with closing(
                self.bar("answers", n_cells, n_cells - len(self.open()))
            ) as self.progress_bar:
                await self.collect_earlier()
                if self.options.limits is None:
                    await self.do_all(self.open())
                else:
                    for purpose, agent in self.purposes.items():
                        await self.do_all(self.open(agent.name), purpose)

    def first_receipts(self) -> list[RunRecord]:
        """Return the receipts of the agents, before anything is asked."""
        return [
            receipt_at_start(
                self.store,
                "run",
                agent.name,
                model=agent.model,
                settings=agent.settings,
                study=self.settings,
                prompt_version=agent_version(),
                n_wanted=sum(cell.agent == agent.name for cell in self.plan.cells),
                n_open=len(self.open(agent.name)),
            )
            for agent in self.agents.values()
        ]

    def final_fields(self, receipt: RunRecord) -> dict[str, Any]:
        """Return what the end of a receipt says."""
        return {"n_open": len(self.open(receipt.name))}

    async def work_on(self, job: PlannedCell, *, batched: bool) -> bool:
        """Ask one cell and record the answer."""

        async def book(reply: Reply, started: datetime) -> None:
            await self._book(job, reply, started)

        asked = Recorder(
            self.agents[job.agent], (), None if batched else book, self.budget, self.stop
        )
        reply = await asked.ask(
            self.plan.cases[job.case_id].prompt,
            skill=self.loaded[job.skill, job.condition],
            cell=Cell(job.case_id, job.condition, job.repeat, self.files[job.case_id]),
        )
        paid = reply.status in PAID
        self.watch(job.agent, reply, ok=paid)
        return paid

    async def _book(self, cell: PlannedCell, reply: Reply, started: datetime | None) -> None:
        at = cell.place
        tried = self.done.setdefault(at, self.tried.get(at) or Tried())
        self.tallies[cell.agent].add(reply)
        if reply.status in PAID and "ok" in tried.paid:
            # it was paid for and is one too many: a cell has one answer
            row = {**cell.model_dump(), **reply.model_dump(exclude_none=True)}
            await self.ledger.write("surplus", [row])
            return
        attempt = _attempt(cell, reply, self.agents[cell.agent], _name(cell, reply, tried), started)
        if reply.cost_upper_usd is not None:  # first, since too much is better than none
            row = {"attempt_id": attempt.attempt_id, "cost_upper_usd": reply.cost_upper_usd}
            await self.ledger.write("unreadable", [row])
        await self.ledger.write("attempts", [attempt])
        if reply.status in PAID:
            tried.paid += (reply.status,)
            tried.settled = True
            self.progress_bar.update()
        else:
            tried.n_errors += 1
        if cost := sum(tally.cost_usd for tally in self.tallies.values()):
            self.progress_bar.set_postfix_str(f"{cost:.2f} USD", refresh=False)

    def transport(self, purpose: str) -> Batches:
        """Return the batches of one agent."""
        agent = self.purposes[purpose]
        cells = {cell.attempt_id: cell for cell in self.plan.cells if cell.agent == agent.name}
        ids = self.store.table("attempts").column("request_id").to_pylist()
        ids += [row.get("request_id") for row in self.store.records("surplus")]

        def cost(cell: PlannedCell) -> float:
            at, cases = (cell.skill, cell.condition), self.plan.cases
            if at not in self.loaded or cell.case_id not in cases:
                return math.nan
            prompt = cases[cell.case_id].prompt
            return batch_cost(agent, batch_service(agent).request(prompt, skill=self.loaded[at]))

        async def book(key: str, reply: Reply) -> None:
            if key not in cells:  # of an earlier run that wanted more than this one
                rows = map(PlannedCell.model_validate, self.store.records("plan"))
                cells[key] = next(cell for cell in rows if cell.attempt_id == key)
            await self._book(cells[key], with_upper_cost(reply, partial(cost, cells[key])), None)
            if reply.fatal or reply.status not in PAID:
                self.failed_in_batch(key, reply)

        return self.batches(purpose, book, ids)

    def warn_of_files(self) -> None:
        """Say which agents cannot see the files of a skill, or the input of a case."""
        trees = {
            text.loaded_skill: self.store.manifest["skills"].get(text.loaded_skill, {}).get("tree")
            for text in self.plan.texts.values()
            if text.loaded_skill and text.text is None
        }
        with_files = sorted(slug for slug, tree in trees.items() if tree)
        n_cases = sum(map(bool, self.files.values()))
        for name, agent in self.agents.items():
            if attribute_of(agent, "is_recording"):
                continue
            told = []
            if with_files and not attribute_of(agent, "installs_folders"):
                told.append(f"sees SKILL.md only of {', '.join(with_files)}, none of its files")
            if n_cases and not attribute_of(agent, "takes_files"):
                told.append(f"cannot read the files listed as input by {plural(n_cases, 'case')}")
            if told:
                text = f"agent '{name}' {' and '.join(told)}."
                warnings.warn(text, StudyWarning, stacklevel=3)

    def warn(self) -> None:
        """Say what was left open, and what to keep in mind about the placebo."""
        told = []
        if n_open := len(self.open()):
            why = f" ({self.stopped})" if self.stopped else " after errors"
            why += most_frequent(self.store, "run") if not self.stopped else ""
            told.append(
                f"{n_open} of {len(self.plan.cells)} cells have no answer yet{why}; the same call "
                "goes on with them."
            )
        for name, tally in self.tallies.items():
            if tally.n_empty:
                told.append(
                    f"agent '{name}': {plural(tally.n_empty, 'answer')} empty after a normal stop; "
                    "such are its own and are graded."
                )
            if (n := tally.n_retries) > 0:
                told.append(
                    f"agent '{name}' asked its service again by itself ({plural(n, 'time')})."
                )
        texts = self.plan.texts.values()
        told += [f"skill '{text.skill}': {text.note}." for text in texts if text.note]
        for text in told:
            warnings.warn(text, StudyWarning, stacklevel=3)


def _suites(
    store: RunStore, suites: Iterable[Suite | str | Path] | Mapping[str, Suite] | None
) -> list[Suite]:
    if suites is None:
        return list(store.suites.values())
    listed = suites.values() if isinstance(suites, Mapping) else suites
    if isinstance(listed, str | Path):
        raise StudyError(f"suites is {str(listed)!r}; give a list of suites, slugs or files.")
    return [_suite(store, one) for one in listed]


def _suite(store: RunStore, one: Suite | str | Path) -> Suite:
    if isinstance(one, Suite):
        inside = store.suites.get(one.slug)
        if inside is not None and inside.sha256 == one.sha256:
            return inside
        if one.path and Path(one.path).is_file():
            return store.add_suite(one.path, slug=one.slug)
        raise StudyError(
            f"suite '{one.slug}' is not in the store and its file is not known; add it with "
            "store.add_suite(path)."
        )
    if isinstance(one, str) and one in store.suites:
        return store.suites[one]
    if not isfile(one):
        raise StudyError(
            f"suite '{one}': no file and no suite of the store "
            f"({', '.join(store.suites) or 'which has none'}).{suggest(str(one), store.suites)}"
        )
    return store.add_suite(one)


def _again(again: Collection[str]) -> frozenset[str]:
    words = frozenset([again] if isinstance(again, str) else again)
    for found in sorted(words):
        require_known("again: found", found, _AGAIN, StudyError)
    return words


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
        **{**cell.model_dump(), **said, "attempt_id": attempt_id},
        agent_model=reply.model or agent.model,
        agent_family=agent.family,
        started_at=started,
    )


def _spent(store: RunStore) -> float:
    costs = store.table("attempts").select(["cost_usd", "perturbation"]).to_pylist()
    paid = [row["cost_usd"] or 0.0 for row in costs if row["perturbation"] is None]
    return sum(paid) + sum(
        charged_usd(r) for t in ("surplus", "unreadable") for r in store.records(t)
    )
