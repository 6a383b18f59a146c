"""Run a study: ask agents the planned questions and store each answer as soon as it arrives."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from functools import partial
from os.path import exists
from pathlib import Path
from typing import Any

import pandas as pd

from skillcomp.errors import StudyError, plural, require_whole, suggest
from skillcomp.io.store import RunStore, as_store
from skillcomp.live.agents.agent import (
    PAID,
    Agent,
    Cell,
    Reply,
    StudyWarning,
    agent_version,
    attribute_of,
)
from skillcomp.live.concurrency import Stop, run_sync
from skillcomp.live.engine import Engine, Options, Recorder, warn_of_batches
from skillcomp.live.ledger import Budget, RunRecord, charged_usd, receipt_at_start
from skillcomp.live.plan import Plan, PlannedCell, Text, Tried, input_files, make_plan, tries
from skillcomp.live.status import most_frequent, status
from skillcomp.records import Attempt, Suite

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
    progress: bool = True,
) -> pd.DataFrame:
    """Have agents answer the cases of a study with and without the skill, and store all answers.

    A cell is one combination of agent, case, condition and repeat. Each call asks the cells that
    have no answer yet, so after an error, Ctrl-C or a crash, the same call resumes the run.

    Parameters
    ----------
    store : RunStore
        The study. No other process may write to it during the run.
    suites : iterable or mapping, optional
        The suites to ask. Each is a suite of the store, its slug, or a file, which is then added to
        the store. Default: all suites of the store. The skill of each suite must be in the store
        (`RunStore.add_skill`).
    agents : sequence of Agent
        The agents to ask, each with a different name.
    conditions : sequence of str, default ("baseline", "skill")
        What the agents have loaded: no skill (``baseline``), the skill (``skill``), another text of
        about the same length (``placebo``), or an older SKILL.md (``previous``).
    repeats : int, default 1
        Number of answers to collect from each agent for each case and condition.
    placebo : str, path, Skill or mapping, optional
        The placebo: a text, a file or the slug of a skill in the store, or a mapping with one of
        these for each skill. Default: the other skill of the store with the length nearest to that
        of the skill under test. The store keeps the text; ``loaded_skill`` of an attempt names it.
    previous : path, Skill or mapping, optional
        The older SKILL.md, or a mapping with an older SKILL.md for each skill.
    seed : int, default 0
        Seed of the order of the questions. The questions of all conditions are interleaved, so that
        a change of the model over time affects them equally.
    concurrency : int, default 8
        Maximum number of questions that are under way at the same time.
    budget_usd : float, optional
        Maximum cost of all answers of this store in dollars, including earlier answers. The
        highest possible cost of a question is reserved before it is asked, so the run stops before
        it exceeds the limit. Questions without a known highest cost (to programs and to models
        without a price) are asked one at a time, and the last of them can exceed the limit.
    progress : bool, default True
        Whether to show a progress bar.

    Returns
    -------
    pandas.DataFrame
        The state of the study; `skillcomp.live.status` describes the columns.

    Raises
    ------
    StudyError
        If an argument is not allowed, a needed skill or file is missing, or the plan contradicts
        that of an earlier call. Nothing is asked then.
    StoreError
        If another process writes to the store. The message names the process.
    AgentError
        If no further question could succeed (for example, without a key or without credit), or if
        twenty questions failed in a row. All earlier answers are kept.

    Warns
    -----
    StudyWarning
        If cells are left without an answer, because of errors or because the budget is used up.
        Also, for example, if answers are empty.

    Notes
    -----
    ``attempt_id`` is ``case_id/condition/repeat``, followed by the agent's name if the study has
    several agents. The attempt_id of a failed try ends in ``/error-1`` (``/error-2`` and so on).

    If the process is killed, replies that have not yet reached the disk are lost: at most
    `concurrency` replies. If a reply arrives incomplete, the agent asks again;
    the incomplete reply is not stored, and its cost is unknown.

    After the first Ctrl-C or SIGTERM, the run asks no new questions and waits for the replies to
    those under way. After the second, it does not wait for them any longer.
    """
    own = as_store(store).suites
    if isinstance(suites, str | Path):
        raise StudyError(f"suites is {str(suites)!r}; give a list of suites, slugs or files.")
    suites = own if suites is None else suites
    listed = suites.values() if isinstance(suites, Mapping) else suites
    chosen = [_suite_in_store(store, suite) for suite in listed]
    require_whole("concurrency", concurrency, StudyError)
    options = Options(concurrency, progress)
    with store.writer():
        settings = dict[str, Any](conditions=list(conditions), repeats=repeats, seed=seed)
        plan = make_plan(store, chosen, agents, placebo=placebo, previous=previous, **settings)
        work = AnswerWork(store, plan, agents, settings, options)
        work.warn_of_files()
        run_sync(partial(work.main, Budget(budget_usd, spent=_cost_so_far(store))))
    work.warn()
    return status(store)


class AnswerWork(Engine[PlannedCell]):
    """The work of one call of `run`: it sends the prompts of the cells and records the answers."""

    stop_note, unit = "What was answered is kept; start again later.", "question"

    def __init__(
        self,
        store: RunStore,
        plan: Plan,
        agents: Sequence[Agent],
        settings: dict[str, Any],
        options: Options,
    ) -> None:
        super().__init__(store, options, agents)
        self.plan, self.settings = plan, settings
        earlier = tries(store)
        # `done` has an entry for every cell from the start, so that memory use does not grow later
        self.done = {cell.place: earlier.get(cell.place) or Tried() for cell in plan.cells}
        self.agents = {agent.name: agent for agent in agents}
        self.files = {name: input_files(store, case) for name, case in plan.cases.items()}
        self.loaded = {at: text.loaded(store) for at, text in plan.texts.items()}

    def open(self, agent: str | None = None) -> list[PlannedCell]:
        """Return the cells that have no answer, in the planned order. `agent` selects one agent."""
        cells = (cell for cell in self.plan.cells if agent in (None, cell.agent))
        return [cell for cell in cells if not self.done[cell.place].paid]

    async def main(self, budget: Budget, stop: Stop) -> None:
        """Ask the open cells."""
        n_cells = len(self.plan.cells)
        async with self.at_work(budget, stop):
            bar = self.bar("answers", n_cells, n_cells - len(self.open()))
            with closing(bar) as self.progress_bar:
                await self.do_all(self.open())

    def first_receipts(self) -> list[RunRecord]:
        """Return one receipt for each agent, to be written before the first question."""
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
        """Return the fields that are added to a receipt at the end of the run."""
        return {"n_open": len(self.open(receipt.name))}

    async def work_on(self, job: PlannedCell) -> bool:
        """Ask one cell and record the reply; return whether the cell now has an answer."""
        name = f"{job.case_id} ({job.agent}, {job.condition}, repeat {job.repeat})"
        book = self.reporting_loss(name, partial(self._record_reply, job))
        recorder = Recorder(self.agents[job.agent], (), book, self.budget, self.stop)
        reply = await recorder.ask(
            self.plan.cases[job.case_id].prompt,
            skill=self.loaded[job.skill, job.condition],
            cell=Cell(job.case_id, job.condition, job.repeat, self.files[job.case_id]),
        )
        paid = reply.status in PAID
        self.watch(job.agent, reply, ok=paid)
        return paid

    async def _record_reply(self, cell: PlannedCell, reply: Reply, started: datetime) -> None:
        tried = self.done[cell.place]
        self.tallies[cell.agent].add(reply)
        agent = self.agents[cell.agent]
        # the attempt_id of an error gets a suffix, because the cell is asked again
        ending = "" if reply.status in PAID else f"/error-{tried.n_errors + 1}"
        fields = {name: getattr(reply, name) for name in _FROM_REPLY}
        attempt = Attempt(
            **{**cell.model_dump(), **fields, "attempt_id": f"{cell.attempt_id}{ending}"},
            agent_model=reply.model or agent.model,
            agent_family=agent.family,
            started_at=started,
        )
        if reply.cost_upper_usd is not None:
            # Write the highest possible cost first, then the attempt. If the process crashes
            # between the two, the budget counts too much rather than too little.
            row = {"attempt_id": attempt.attempt_id, "cost_upper_usd": reply.cost_upper_usd}
            await self.ledger.write("unreadable", [row])
        await self.ledger.write("attempts", [attempt])
        if reply.status in PAID:
            tried.paid += (reply.status,)
            self.progress_bar.update()
        else:
            tried.n_errors += 1
        if cost := sum(tally.cost_usd for tally in self.tallies.values()):
            self.progress_bar.set_postfix_str(f"{cost:.2f} USD", refresh=False)

    def warn_of_files(self) -> None:
        """Warn about agents that cannot read the files of a skill or the input files of a case."""
        skills, texts = self.store.manifest["skills"], self.plan.texts.values()
        slugs = {text.loaded_skill for text in texts if text.loaded_skill and text.text is None}
        with_files = sorted(slug for slug in slugs if skills.get(slug, {}).get("tree"))
        n_cases = sum(map(bool, self.files.values()))
        for name, agent in self.agents.items():
            if attribute_of(agent, "is_recording"):
                continue
            limits = []
            if with_files and not attribute_of(agent, "installs_folders"):
                limits.append(f"sees SKILL.md only of {', '.join(with_files)}, none of its files")
            if n_cases and not attribute_of(agent, "takes_files"):
                limits.append(f"cannot read the files listed as input by {plural(n_cases, 'case')}")
            if limits:
                text = f"agent '{name}' {' and '.join(limits)}."
                warnings.warn(text, StudyWarning, stacklevel=3)

    def warn(self) -> None:
        """Warn about open cells, empty answers, retries and imperfect placebos."""
        messages = []
        if n_open := len(self.open()):
            causes = f" after errors{most_frequent(self.store, 'run')}"
            why = f" ({self.stopped})" if self.stopped else causes
            messages.append(
                f"{n_open} of {len(self.plan.cells)} cells have no answer yet{why}; the same call "
                "continues with them."
            )
        for name, tally in self.tallies.items():
            if tally.n_empty:
                messages.append(
                    f"agent '{name}': {plural(tally.n_empty, 'answer')} empty after a normal stop; "
                    "such are its own and are graded."
                )
            if tally.n_retries > 0:
                times = plural(tally.n_retries, "time")
                messages.append(f"agent '{name}' asked its service again by itself ({times}).")
        texts = self.plan.texts.values()
        messages += [f"skill '{text.skill}': {text.note}." for text in texts if text.note]
        for text in messages:
            warnings.warn(text, StudyWarning, stacklevel=3)


def _suite_in_store(store: RunStore, suite: Suite | str | Path) -> Suite:
    if isinstance(suite, Suite):
        inside = store.suites.get(suite.slug)
        if inside is not None and inside.sha256 == suite.sha256:
            return inside
        if suite.path and Path(suite.path).exists():
            return store.add_suite(suite.path, slug=suite.slug)
        raise StudyError(
            f"suite '{suite.slug}' is not in the store and its file is not known; add it with "
            "store.add_suite(path)."
        )
    if isinstance(suite, str) and suite in store.suites:
        return store.suites[suite]
    if not exists(suite):
        raise StudyError(
            f"suite '{suite}': no file and no suite of the store "
            f"({', '.join(store.suites) or 'which has none'}).{suggest(str(suite), store.suites)}"
        )
    return store.add_suite(suite)


def _cost_so_far(store: RunStore) -> float:
    costs = store.rows("attempts", "cost_usd", "perturbation")
    paid = [row["cost_usd"] or 0.0 for row in costs if row["perturbation"] is None]
    rows = (row for table in ("surplus", "unreadable") for row in store.records(table))
    return sum(paid) + sum(map(charged_usd, rows)) + warn_of_batches(store, "run", StudyWarning)
