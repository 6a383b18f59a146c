"""Run a study: ask agents the planned questions and store each answer as soon as it arrives."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from os.path import exists
from pathlib import Path
from typing import Any

import pandas as pd

from skillcomp.errors import StudyError, plural, require_whole, suggest
from skillcomp.io.files import JsonObject
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
from skillcomp.live.engine import Engine, Recorder, do_stage
from skillcomp.live.plan import Plan, PlannedCell, Text, Tried, input_files, make_plan, tries
from skillcomp.live.status import most_frequent, status
from skillcomp.records import Attempt, Suite

_FROM_REPLY = Reply.model_fields.keys() & Attempt.model_fields.keys()


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
    with store.writer():
        settings = JsonObject(conditions=list(conditions), repeats=repeats, seed=seed)
        plan = make_plan(store, chosen, agents, placebo=placebo, previous=previous, **settings)
        work = AnswerWork(store, plan, agents, settings)
        work.warn_of_files()
        do_stage([work], budget_usd, concurrency, progress)
    return status(store)


class AnswerWork(Engine[PlannedCell]):
    """The work of one call of `run`: it sends the prompts of the cells and records the answers."""

    stage, warning = "run", StudyWarning
    stop_note, unit = "What was answered is kept; start again later.", "question"

    def __init__(
        self,
        store: RunStore,
        plan: Plan,
        agents: Sequence[Agent],
        settings: JsonObject,
    ) -> None:
        super().__init__(store, agents, settings, Counter(cell.agent for cell in plan.cells))
        self.plan = plan
        earlier = tries(store)
        tried = {cell.place: earlier.get(cell.place, Tried()) for cell in plan.cells}
        self.open_cells = [cell for cell in plan.cells if not tried[cell.place].paid]
        self.n_open = Counter(cell.agent for cell in self.open_cells)
        # the dict has an entry for every cell from the start, so that it does not grow later
        self.n_errors = {place: summary.n_errors for place, summary in tried.items()}
        self.agents = {agent.name: agent for agent in agents}
        self.files = {name: input_files(store, case) for name, case in plan.cases.items()}
        self.loaded = {at: text.loaded(store) for at, text in plan.texts.items()}

    async def do_open_jobs(self) -> None:
        """Ask the open cells, in the planned order."""
        await self.do_all(self.open_cells, len(self.plan.cells), "answers")

    def identity(self, participant: Any) -> JsonObject:
        """Return the settings of an agent, and the version of the text that loads a skill."""
        return {"settings": participant.settings, "prompt_version": agent_version()}

    def paid_rows(self) -> Iterable[JsonObject]:
        """Return the answers of all agents, and unreadable and surplus replies."""
        costs = self.store.rows("attempts", "cost_usd", "perturbation")
        yield from (row for row in costs if row["perturbation"] is None)
        for table in ("surplus", "unreadable"):
            yield from self.store.records(table)

    async def work_on(self, job: PlannedCell) -> bool:
        """Ask one cell and record the reply; return whether the cell now has an answer."""
        reply = await Recorder(self, self.agents[job.agent], job, self.stop).ask(
            self.plan.cases[job.case_id].prompt,
            skill=self.loaded[job.skill, job.condition],
            cell=Cell(job.case_id, job.condition, job.repeat, self.files[job.case_id]),
        )
        paid = reply.status in PAID
        self.watch(job.agent, reply, ok=paid)
        return paid

    async def record_reply(self, job: PlannedCell, reply: Reply, started: datetime) -> None:
        """Store the reply to the question of a cell as an attempt."""
        self.tallies[job.agent].add(reply)
        agent = self.agents[job.agent]
        # the attempt_id of an error gets a suffix, because the cell is asked again
        ending = "" if reply.status in PAID else f"/error-{self.n_errors[job.place] + 1}"
        fields = job.model_dump() | reply.model_dump(include=_FROM_REPLY)
        fields["attempt_id"] += ending
        attempt = Attempt(
            **fields,
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
            self.n_open[job.agent] -= 1
            self.progress_bar.update()
        else:
            self.n_errors[job.place] += 1
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

    def messages(self) -> Iterable[str]:
        """Return warnings about open cells, empty answers, retries and imperfect placebos."""
        if n_open := self.n_open.total():
            causes = f" after errors{most_frequent(self.store, 'run')}"
            why = f" ({self.stopped})" if self.stopped else causes
            yield (
                f"{n_open} of {len(self.plan.cells)} cells have no answer yet{why}; the same call "
                "continues with them."
            )
        for name, tally in self.tallies.items():
            if tally.n_empty:
                yield (
                    f"agent '{name}': {plural(tally.n_empty, 'answer')} empty after a normal stop; "
                    "such are its own and are graded."
                )
            if tally.n_retries > 0:
                times = plural(tally.n_retries, "time")
                yield f"agent '{name}' asked its service again by itself ({times})."
        for text in self.plan.texts.values():
            if text.note:
                yield f"skill '{text.skill}': {text.note}."


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
