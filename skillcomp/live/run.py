"""The verbs of a study: run it, grade its answers, or compare them in pairs.

Agents are asked the planned questions, and each answer is stored as soon as it arrives. Graders
grade each stored answer once, or compare answers in pairs.
"""

from __future__ import annotations

import json
import math
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from os.path import exists
from pathlib import Path
from typing import Any

import pandas as pd
from tqdm.auto import tqdm

from skillcomp.errors import GraderError, StudyError, plural, require_known, require_whole
from skillcomp.frames.contracts import ORIGINAL
from skillcomp.io.files import JsonObject
from skillcomp.io.store import RunStore, as_store
from skillcomp.live.agents.agent import (
    PAID,
    TIME_LIMIT,
    Agent,
    Cell,
    Reply,
    StudyWarning,
    attribute_of,
    whole_hash,
)
from skillcomp.live.engine import (
    GOLD,
    KEPT,
    Engine,
    Judging,
    Participant,
    Recorder,
    Ruling,
    do_stage,
    require_price,
)
from skillcomp.live.graders.comprehension import PairwiseGrader
from skillcomp.live.graders.gold_answers import (
    KEY,
    PREFIX,
    GoldAnswer,
    gold_agreement,
    gold_answers,
)
from skillcomp.live.graders.grader import (
    ASKED_AGAIN,
    COMPARATOR,
    ITEM_LENGTH,
    GraderWarning,
    Judge,
    LiveGrader,
    agent_of,
    blind,
)
from skillcomp.live.plan import (
    Plan,
    PlannedCell,
    Text,
    cases_by_id,
    input_files,
    make_plan,
    record_members,
    require_distinct,
    require_unedited,
)
from skillcomp.live.replay import ReplayAgent
from skillcomp.live.status import compare_works, grade_works, most_frequent, run_works, status
from skillcomp.planning.cost import cost_estimate, cost_total
from skillcomp.records import Attempt, Case, Skill, Suite, Verdict

_FROM_REPLY = Reply.model_fields.keys() & Attempt.model_fields.keys()


def run(
    store: RunStore,
    suites: Iterable[Suite | str] | None = None,
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
    suites : iterable, optional
        The suites to ask. Each is a suite, or the slug of a suite of the store. A suite that is not
        in the store is added from its file. The ``cases`` of a suite can be a selection; the
        recorded prompts are used.
        Default: all suites of the store. The skill of each suite must be in the store
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
        it exceeds the limit. Questions without a known highest cost (to programs) are asked one at
        a time, and the last of them can exceed the limit. A model without a price is refused.
    progress : bool, default True
        Whether to show a progress bar.

    Returns
    -------
    pandas.DataFrame
        The state of the study; `skillcomp.live.status` describes the columns.

    Raises
    ------
    StudyError
        If an argument is not allowed, a needed skill or file is missing, the plan contradicts that
        of an earlier call, or a `ReplayAgent` has no answers to the prompts and skill texts of the
        plan, or there is a budget and no price. Nothing is asked then, and nothing is added to the
        store.
    StoreError
        If another process writes to the store. The message names the process.
    AgentError
        If no further question could succeed (for example, without a key or without credit), or if
        twenty questions failed in a row. All earlier answers are kept.

    Warns
    -----
    StudyWarning
        If cells are left without an answer, because of errors or because the budget is used up.
        Also, for example, if an agent asked its service again by itself.

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
        raise StudyError(f"suites is {str(suites)!r}; give a list of suites or slugs.")
    listed = own if suites is None else suites
    require_whole("concurrency", concurrency, StudyError)
    with store.provisional():
        chosen = [_suite_in_store(store, suite) for suite in listed]
        settings = JsonObject(conditions=list(conditions), repeats=repeats, seed=seed)
        plan = make_plan(store, chosen, agents, placebo=placebo, previous=previous, **settings)
        work = AnswerWork(store, plan, agents, settings)
        work.warn_of_files()
        do_stage([work], budget_usd, concurrency, progress)
    return status(store)


class AnswerWork(Engine):
    """The work of one call of `run`: it sends the prompts of the cells and records the answers."""

    stage, warning = "run", StudyWarning
    paid_tables = ("attempts", "unreadable")
    stop_note, unit = "What was answered is kept; start again later.", "question"

    def __init__(
        self,
        store: RunStore,
        plan: Plan,
        agents: Sequence[Agent],
        settings: JsonObject,
    ) -> None:
        works = run_works(store).values()
        done = set().union(*(work.done for work in works))
        self.n_errors = Counter(failure.job for work in works for failure in work.failures)
        participants = []
        for agent in agents:
            places = [cell.place for cell in plan.cells if cell.agent == agent.name]
            n_open = sum(place not in done for place in places)
            if n_open and isinstance(agent, ReplayAgent):
                agent.require_recorded(store, plan)
            participants.append(Participant(agent, len(places), n_open))
        super().__init__(store, settings, participants)
        self.open_cells = [cell for cell in plan.cells if cell.place not in done]
        self.plan = plan
        self.files = {name: input_files(store, case) for name, case in plan.cases.items()}
        self.loaded = {at: text.loaded(store) for at, text in plan.texts.items()}

    async def do_open_jobs(self) -> None:
        """Ask the open cells, in the planned order."""
        await self.do_all(self.open_cells, len(self.plan.cells), "answers")

    async def work_on(self, job: PlannedCell) -> bool:
        """Ask one cell and record the reply; return whether the cell now has an answer."""
        agent = self.participants[job.agent].agent_or_grader
        reply = await Recorder(self, agent, job).ask(
            self.plan.cases[job.case_id].prompt,
            skill=self.loaded[job.skill, job.condition],
            cell=Cell(job.case_id, job.condition, job.repeat, self.files[job.case_id]),
        )
        paid = reply.status in PAID
        self.watch(job.agent, reply, ok=paid)
        return paid

    async def record_reply(self, job: PlannedCell, reply: Reply, started: datetime) -> None:
        """Store the reply to the question of a cell as an attempt."""
        participant = self.participants[job.agent]
        participant.add(reply)
        # the attempt_id of an error gets a suffix, because the cell is asked again
        ending = "" if reply.status in PAID else f"/error-{self.n_errors[job.place] + 1}"
        fields = job.model_dump() | reply.model_dump(include=_FROM_REPLY)
        fields["attempt_id"] += ending
        attempt = Attempt(
            **fields,
            agent_model=reply.model or participant.agent_or_grader.model,
            agent_family=participant.agent_or_grader.family,
            started_at=started,
        )
        if reply.cost_upper_usd is not None:
            # Write the highest possible cost first, then the attempt. If the process crashes
            # between the two, the budget counts too much rather than too little.
            row = {"attempt_id": attempt.attempt_id, "cost_upper_usd": reply.cost_upper_usd}
            await self.ledger.write("unreadable", [row])
        await self.ledger.write("attempts", [attempt])
        if reply.status in PAID:
            participant.n_open -= 1
        else:
            self.n_errors[job.place] += 1
        if cost := sum(participant.cost_usd for participant in self.participants.values()):
            self.progress_bar.set_postfix_str(f"{cost:.2f} USD", refresh=False)

    def warn_of_files(self) -> None:
        """Warn about agents that cannot read the files of a skill or the input files of a case."""
        with_files = sorted({skill.slug for skill in self.loaded.values() if skill and skill.path})
        n_cases = sum(map(bool, self.files.values()))
        for name, participant in self.participants.items():
            agent = participant.agent_or_grader
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
        """Return warnings about open cells, retries and imperfect placebos."""
        if n_open := self.n_open:
            causes = f" after errors{most_frequent(self.store, 'run')}"
            why = f" ({self.stopped})" if self.stopped else causes
            yield (
                f"{n_open} of {len(self.plan.cells)} cells have no answer yet{why}; the same call "
                "continues with them."
            )
        for name, participant in self.participants.items():
            if participant.n_retries > 0:
                times = plural(participant.n_retries, "time")
                yield f"agent '{name}' asked its service again by itself ({times})."
        for text in self.plan.texts.values():
            if text.note:
                yield f"skill '{text.skill}': {text.note}."


def estimate(
    store: RunStore,
    suites: Sequence[Suite] | None,
    *,
    agents: Sequence[Agent],
    graders: Sequence[LiveGrader] = (),
    concurrency: int = 8,
    budget_usd: float | None = None,
    **study: Any,
) -> pd.DataFrame:
    """Estimate what the open cells and gradings of a study will need; nobody is asked.

    Parameters
    ----------
    store : RunStore
        A copy of the study, because the plan is written into it.
    suites : sequence of Suite, optional
        Suites of the store. Default: all.
    agents, graders : sequence
        The agents and graders. A grader without an agent asks nobody and has no row.
    concurrency, budget_usd
        As in `run`.
    **study
        Further arguments of `run`: conditions, repeats, seed, placebo and previous.

    Returns
    -------
    pandas.DataFrame
        One row per agent and grader: role, name, n_wanted (cells, or answers to grade) and
        n_recorded. The other columns are about the calls that are left: n_calls, input_tokens,
        output_tokens, cost_usd (NaN if unknown; ``note`` gives the reason) and seconds (from the
        mean of the recorded calls; NaN without any). Tokens and dollars are those of
        `skillcomp.planning.cost_estimate`, with caching if its price is known; a placebo and a
        previous version are taken to be as long as the skill.
    """
    suites = suites or list(store.suites.values())
    with store.writer():
        plan = make_plan(store, suites, agents, **study)
    participants = AnswerWork(store, plan, agents, {}).participants
    if budget_usd is not None:
        for agent in agents:
            require_price(agent)
    graders = [grader for grader in graders if agent_of(grader)]
    answers = store.table("attempts").to_pandas()
    replies = pd.DataFrame(store.records("replies"), columns=["grader", "seconds"])
    seconds = {
        **answers.groupby("agent")["seconds"].mean(),
        **replies.groupby("grader")["seconds"].mean(),
    }
    costs = cost_estimate(
        suites,
        store.skills,
        agents=agents,
        graders=graders,
        conditions=study["conditions"],
        repeats=study["repeats"],
        attempts=answers,
        prices=[
            price
            for agent in (*agents, *filter(None, map(agent_of, graders)))
            for price in attribute_of(agent, "prices")
        ],
    )
    n_done = {("agent", name): who.n_wanted - who.n_open for name, who in participants.items()}
    works = grade_works(store)
    # the store can have answers to other suites, too
    own = {cell.attempt_id for cell in plan.cells}
    for grader in graders:
        work = works.get((grader.name, grader.version, 1))
        n_done["grader", grader.name] = len(work.done & own) if work else 0
    free = {agent.name for agent in agents if attribute_of(agent, "is_recording")}
    rows = []
    for (role, name), part in costs.groupby(["role", "name"], sort=False):
        plain, cached = cost_total(part).to_dict("records")
        n_wanted, n_recorded = plain["n_calls"], n_done[str(role), str(name)]
        n_left = max(n_wanted - n_recorded, 0)
        usd = plain["cost_usd"] if math.isnan(cached["cost_usd"]) else cached["cost_usd"]
        share = n_left / max(n_wanted, 1)
        row = {
            "role": role,
            "name": name,
            "n_wanted": n_wanted,
            "n_recorded": n_recorded,
            "n_calls": n_left,
            "input_tokens": round(plain["input_tokens"] * share),
            "output_tokens": round(plain["output_tokens"] * share),
            "cost_usd": usd * share if n_left and name not in free else 0.0,
            "seconds": math.ceil(n_left / concurrency) * seconds.get(name, math.nan),
            "note": plain["note"],
        }
        rows.append(row)
    return pd.DataFrame(rows)


def _suite_in_store(store: RunStore, suite: Suite | str) -> Suite:
    if not isinstance(suite, Suite):
        hint = f"{store.path}: store.add_suite(path) adds a file; there is no suite"
        require_known(hint, suite, store.suites, StudyError, label="there")
        return store.suites[suite]
    inside = store.suites.get(suite.slug)
    if inside is None or inside.sha256 != suite.sha256:
        if not (suite.path and exists(suite.path)):
            raise StudyError(
                f"suite '{suite.slug}' is not in the store and its file is not known; add it with "
                "store.add_suite(path)."
            )
        return store.add_suite(suite.path, slug=suite.slug)
    recorded, ids = cases_by_id([inside]), cases_by_id([suite])
    for case_id in ids:
        if case_id not in recorded:
            raise StudyError(
                f"suite '{suite.slug}': the store has no case '{case_id}'; add the edited suite "
                "under another slug."
            )
    cases = tuple(case for case_id, case in recorded.items() if case_id in ids)
    return inside.model_copy(update={"cases": cases})


def grade(
    store: RunStore,
    *,
    graders: Sequence[LiveGrader],
    round: int = 1,
    gold: str | Path | Iterable[Mapping[str, Any] | GoldAnswer] | None = None,
    min_gold_agreement: float | None = None,
    budget_usd: float | None = None,
    seed: int = 0,
    concurrency: int = 8,
    progress: bool = True,
) -> pd.DataFrame:
    """Grade every stored answer once with each grader, without changing the answers.

    A grader gets the answers in shuffled order and under blind names. Each grading is stored
    immediately; after an interruption, the same call resumes and pays for nothing twice.

    Parameters
    ----------
    store : RunStore
        The study. No other process may write to it during the grading.
    graders : sequence of BaseGrader
        The graders, which work one after the other.
    round : int, default 1
        Number of the grading round; with 2 or more, answers are graded again.
    gold : path or iterable, optional
        Answers with known verdicts (`skillcomp.live.GoldAnswer`), in addition to the
        ``gold_answers`` of the suites. Each grader grades all gold answers first. Its verdicts on
        them go to the table ``gold_verdicts``, apart from the verdicts of the study.
    min_gold_agreement : float, optional
        Minimum share of the gold labels that a grader must agree with. A grader that agrees with
        a smaller share does not grade the study.
    budget_usd : float, optional
        Maximum cost of all gradings of this store in dollars, including earlier gradings.
    seed : int, default 0
        Seed of the order of the answers and of their blind names.
    concurrency : int, default 8
        Maximum number of gradings that are under way at the same time.
    progress : bool, default True
        Whether to show progress bars, and the agreement with the gold answers.

    Returns
    -------
    pandas.DataFrame
        The state of the study; `skillcomp.live.status` describes the columns.

    Raises
    ------
    GraderError
        If `min_gold_agreement` is given, and a grader agrees with a smaller share of the gold
        labels or has no verdict on half or more of them. This grader and those after it then do
        not grade the study.
    StudyError
        If there is nothing to grade, an argument is not allowed, a suite or skill was edited inside
        the store, or a grader has another model or other settings than in an earlier call.
    StoreError
        If another process writes to the store. The message names the process.
    AgentError
        If no further grading could succeed, or if twenty gradings failed in a row.

    Warns
    -----
    GraderWarning
        If a grader and an agent share a model family, answers reveal their condition or address the
        grader, or gradings are left open.

    Notes
    -----
    Every reply of a grader, even a malformed one, is stored in the table ``replies`` before it is
    read. If a grader refuses, the verdicts have the status ``refused``, and the answer is not
    graded again. If its replies are unusable, the verdicts have the status ``malformed``; the next
    call asks again, and the new verdicts replace them. After an error there are no verdicts, and
    the next call asks again. A grader with five unreadable replies in a row is stopped.

    A grader is identified by its name and version, in all rounds. The table ``graders`` keeps its
    model and settings.
    """
    suites = as_store(store).suites.values()
    for grader in graders:
        if not callable(getattr(grader, "grade", None)):
            why = "; sc.compare takes it" if hasattr(grader, "compare") else ""
            raise StudyError(f"graders: found {grader!r}{why}; allowed: what has a method grade.")
    require_distinct("grader", graders, "name", "version")
    require_whole("round", round, StudyError)
    rows = store.rows("attempts", "attempt_id", "skill", "agent_family")
    if not rows:
        raise StudyError(f"{store.path}: there are no answers to grade; run the study first.")
    for row in rows:
        if row["attempt_id"].startswith(PREFIX):
            raise GraderError(
                f"attempt '{row['attempt_id']}': names that begin with '{PREFIX}' are reserved."
            )
    slugs = {row["skill"] for row in rows}
    answers = gold_answers(suites, gold)
    gold_cases = {answer.case_id for answer in answers}
    require_unedited(
        store, (s for s in suites if s.skill in slugs or gold_cases & cases_by_id([s]).keys())
    )
    if min_gold_agreement is not None:
        what = "min_gold_agreement is"
        if not 0 < min_gold_agreement <= 1:
            raise StudyError(f"{what} {min_gold_agreement!r}; allowed: above 0, at most 1.")
        if not answers:
            raise StudyError(
                f"{what} {min_gold_agreement:g}, but there are no gold answers: add '{KEY}' to "
                "cases of a suite, or give gold= a file."
            )
    warn_of_shared_family(graders, [row["agent_family"] for row in rows])
    with store.writer():
        cases, skills, items = cases_by_id(suites), store.skills, []
        for attempt in store.records("attempts"):
            answered = attempt.status == "ok" and attempt.answer is not None
            # some graders count attempts that exceeded their time limit as a fail
            if not answered and attempt.stop_reason != TIME_LIMIT:
                continue
            case = cases.get(attempt.case_id)
            if case is None or attempt.skill not in skills:
                raise StudyError(
                    f"attempt '{attempt.attempt_id}': its case '{attempt.case_id}' or skill "
                    f"'{attempt.skill}' is not in the store; add the suite and the skill first."
                )
            if case.checks:
                items.append(Item(attempt, case, skills[attempt.skill]))
        settle_graders(store, graders, round)
        study = {"round": round, "seed": seed}
        works = []
        for grader in graders:
            # a grader may choose its own checks, also for attempts that exceeded their time limit
            if of := getattr(grader, "checks_of", None):
                own = [
                    replace(item, case=item.case.model_copy(update={"checks": checks}))
                    for item in items
                    if (checks := of(item.attempt, item.case))
                ]
            else:
                own = [item for item in items if item.attempt.status == "ok"]
            works.append(Gradings(store, grader, own, answers, min_gold_agreement, study))
        do_stage(works, budget_usd, concurrency, progress)
    return status(store)


def warn_of_shared_family(graders: Sequence[Judge], families: Iterable[str | None]) -> None:
    """Warn about each grader with a model of a family that an agent has, too."""
    families = set(families)
    for grader in graders:
        # graders that apply rules, and suite graders without a rubric, have no model, so their
        # family does not matter
        is_suite_by_rules = grader.kind == "suite" and grader.model is None
        if grader.kind in ("mock", "rules") or is_suite_by_rules:
            continue
        message = f"Grader '{grader.name}': the family of grader or agent is unknown."
        if grader.family is not None and grader.family in families:
            message = (
                f"Grader '{grader.name}' and an agent under test are of one family "
                f"('{grader.family}'): self-preference cannot be separated from merit."
            )
        if grader.family in {None, *families} or None in families:
            warnings.warn(message, GraderWarning, stacklevel=3)


@dataclass(frozen=True)
class Item:
    """An answer to grade, with its case and skill.

    `item` is the blind name of the answer. `order` is the position of its first verdict among the
    grader's verdicts on all answers.
    """

    attempt: Attempt
    case: Case
    skill: Skill
    item: str = ""
    order: int = 1

    @property
    def key(self) -> str:
        """The attempt_id of the answer."""
        return self.attempt.attempt_id

    @property
    def columns(self) -> JsonObject:
        """The column that identifies the answer in the table of replies."""
        return {"attempt_id": self.key}

    @property
    def answers(self) -> Sequence[str | None]:
        """The answer."""
        return (self.attempt.answer,)


class Gradings(Judging):
    """The work of one grader in one round: gold answers first, then the answers of the study."""

    stop_note, unit = "What was graded is kept; start again later.", "grading"
    stage, paid_tables = "grade", ("replies",)
    warning_parts = (
        "answers are not graded",
        "{n} answers tell their condition (they say that they do not know the skill, or cite it), "
        "so it was not blind to it.",
        "{n} answers address the grader (such as 'ignore the rubric'): read their verdicts.",
    )

    def __init__(
        self,
        store: RunStore,
        grader: LiveGrader,
        items: Sequence[Item],
        answers: Sequence[GoldAnswer],
        least: float | None,
        study: dict[str, int],
    ) -> None:
        own = {"own_checks": True} if hasattr(grader, "checks_of") else {}
        super().__init__(store, grader, items, study | own)
        self.answers, self.least = answers, least
        self.round = self.grader_columns["round"] = study["round"]

    def key_of(self, row: JsonObject) -> str:
        """Return the key of a grading, its attempt_id, from a row of the table of replies."""
        return str(row["attempt_id"])

    async def do_open_jobs(self) -> None:
        """Grade the gold answers, then the answers of the study."""
        if self.answers:
            await self._grade_gold()
        if not self.stop.reason:
            n_open = await self._grade_all(self.jobs, "verdicts", f"verdicts of {self.grader.name}")
            self.participant.n_open = n_open + len(self.malformed)

    async def _grade_gold(self) -> None:
        cases = {c.case_id: (c, s.skill) for s in self.store.suites.values() for c in s.cases}
        items = []
        for answer in self.answers:
            case, slug = cases[answer.case_id]
            items.append(Item(answer.attempt(slug), case, self.store.skills[slug]))
        n_open = await self._grade_all(items, GOLD, f"gold for {self.grader.name}")
        if n_open and self.budget.exhausted:
            self.stop.ask(self.budget.exhausted)
        if self.stop.reason and n_open:
            return
        own = [Verdict.model_validate(row) for row in self.own_rows(GOLD)]
        agreement = gold_agreement(self.answers, own)
        self.gold = agreement.fields()
        message = f"grader '{self.grader.name}': {agreement}"
        tqdm(total=0, desc=message, bar_format="{desc}", disable=not self.progress).close()
        is_unknown = agreement.n_missing >= max(agreement.n, 1)
        if self.least is not None and (is_unknown or agreement.share < self.least):
            differing = "; ".join(agreement.differing)
            raise GraderError(
                f"{message}; at least {self.least:g} is asked for. No answer of the study was "
                f"graded.{f' It differs at: {differing}.' if differing else ''}"
            )

    async def _grade_all(self, items: Sequence[Item], table: str, title: str) -> int:
        """Grade the items that lack a verdict in `table`; return how many are still open."""
        self.table = table
        # for each attempt_id: the check_ids with a verdict, and the time of a malformed one
        self.done: defaultdict[str, set[str]] = defaultdict(set)
        malformed_at: dict[str, datetime] = {}
        # read only some columns of the verdicts, because their table can be long
        columns = () if table == GOLD else ("attempt_id", "check_id", "status", "graded_at")
        for row in self.own_rows(table, *columns):
            if row["status"] != "malformed" or not self.agent:
                self.done[row["attempt_id"]].add(row["check_id"])
            elif row.get("graded_at") is not None:
                malformed_at[row["attempt_id"]] = pd.Timestamp(row["graded_at"])
        # the replies of a malformed grading are not used again, so the grader is asked again
        self.take_replies(malformed_at)
        by_key, pending = {item.key: item for item in items}, []
        n_checks = {item.key: len(item.case.checks) for item in items}
        for name, item, order in blind(n_checks, seed=self.study["seed"]):
            check_ids = {check.check_id for check in by_key[name].case.checks}
            if not check_ids <= self.done[name]:
                pending.append(replace(by_key[name], item=item, order=order))
        return await self.do_all(pending, len(items), title)

    async def judge(self, grader: LiveGrader, job: Item) -> Ruling:
        """Grade one answer; only verdicts that are not stored yet are returned."""
        grading = await grader.grade(
            job.attempt,
            job.case,
            job.skill,
            round=self.round,
            batch=f"{self.grader.name}/{self.round}",
            item=job.item,
            order=job.order,
        )
        statuses, done = {v.status for v in grading.verdicts}, self.done[job.key]
        fresh = [v for v in grading.verdicts if v.status != "error" and v.check_id not in done]
        problems: Sequence[str] = ()
        if self.agent is not None and "malformed" in statuses:
            problems = grading.problems or ["no reason is known"]
        last = Reply(error=next((v.raw for v in grading.verdicts if v.status == "error"), None))
        if grading.replies:  # a grader without an agent has no replies
            last = grading.replies[-1]
        return Ruling(fresh, last, "error" not in statuses, problems, grading.gives_away)


def settle_graders(store: RunStore, graders: Sequence[Judge], round: int = 1) -> None:
    """Record the graders; raise if one has another model, family or settings than in its record.

    A row of the table ``graders`` has name, version, kind, model, family and settings of a grader:
    those of its agent, if it has one. ``round`` is None for a grader with an agent, because the
    agent must not change between rounds; the model of a replayed grader can. The caller must hold
    the writer's lock of the store (`RunStore.writer`).
    """
    record_members(
        store,
        "grader",
        graders,
        lambda grader: {
            "version": grader.version,
            "kind": grader.kind,
            "round": None if agent_of(grader) else round,
        },
        ("model", "family", "settings"),
    )


def compare(
    store: RunStore,
    *,
    graders: Sequence[PairwiseGrader],
    condition: str = "skill",
    reference: str = "baseline",
    budget_usd: float | None = None,
    seed: int = 0,
    concurrency: int = 8,
    progress: bool = True,
) -> pd.DataFrame:
    """Compare stored answers in pairs, blind and in both orders, without changing the answers.

    A pair is two answers with status ``ok`` of one agent to one case, under two conditions and
    with the same repeat number; or an answer and its copy of :func:`skillcomp.bias.perturb`. Each
    judgement is stored immediately; after an interruption, the same call resumes and pays for
    nothing twice.

    Parameters
    ----------
    store : RunStore
        The study. No other process may write to it during the comparisons.
    graders : sequence of PairwiseGrader
        The graders, which work one after the other.
    condition, reference : str, default "skill" and "baseline"
        The two conditions. In order 1, the answer under `condition` is shown first; in order 2, the
        answer under `reference`. With ``reference="original"``, `condition` is a kind of copies in
        the store, such as ``"bullets"``, and each copy is compared with its original.
    budget_usd : float, optional
        Maximum cost of all comparisons of this store in dollars, including earlier ones.
    seed : int, default 0
        Seed of the order of the pairs.
    concurrency : int, default 8
        Maximum number of comparisons that are under way at the same time.
    progress : bool, default True
        Whether to show progress bars.

    Returns
    -------
    pandas.DataFrame
        The state of the study; `skillcomp.live.status` describes the columns. The judgements are in
        the table ``pairwise``, which `skillcomp.frames.pairwise` reads.

    Raises
    ------
    StudyError
        If there is no pair, an argument is not allowed, a suite or skill was edited inside the
        store, or a grader has another model or other settings than in an earlier call.
    StoreError
        If another process writes to the store. The message names the process.
    AgentError
        If no further comparison could succeed, or if twenty comparisons failed in a row.

    Warns
    -----
    GraderWarning
        If a grader and an agent share a model family, answers reveal their condition, or
        comparisons are left open.

    Notes
    -----
    Every reply is stored in the table ``comparisons`` before it is read. A tie is a judgement
    without a winner. A failed comparison has no judgement, so that it never counts as a tie. A
    comparison that a grader refuses is not asked again. After an unreadable reply or an error, the
    next call asks again. A grader with five unreadable replies in a row is stopped.

    See Also
    --------
    skillcomp.bias.position : Estimate how much the answer shown first is preferred.
    """
    pairs = _ordered_pairs(as_store(store), graders, condition, reference)
    warn_of_shared_family(graders, [pair.first.agent_family for pair in pairs])
    pairs.sort(key=lambda pair: whole_hash(seed, pair.key))
    study = {"condition": condition, "against": reference, "seed": seed}
    with store.writer():
        settle_graders(store, graders)
        works = [Comparisons(store, grader, pairs, study) for grader in graders]
        do_stage(works, budget_usd, concurrency, progress)
    return status(store)


@dataclass(frozen=True)
class OrderedPair:
    """Two answers to one case, in the order in which they are shown."""

    case: Case
    order: int
    first: Attempt
    second: Attempt

    @property
    def key(self) -> str:
        """The order number and both attempt_ids, as JSON."""
        return json.dumps(list(self.columns.values()))

    @property
    def columns(self) -> JsonObject:
        """The columns that identify the ordered pair in the table of replies."""
        first, second = self.first.attempt_id, self.second.attempt_id
        return {"order": self.order, "first": first, "second": second}

    @property
    def answers(self) -> Sequence[str | None]:
        """Both answers."""
        return (self.first.answer, self.second.answer)

    @property
    def item(self) -> str:
        """Name of the ordered pair in prompts: a hash of `key`, which hides the conditions."""
        return whole_hash(self.key)[:ITEM_LENGTH]


class Comparisons(Judging):
    """The work of one grader, which compares each pair of answers once in each order."""

    stop_note, unit = "What was compared is kept; start again later.", "comparison"
    stage, paid_tables = "compare", ("comparisons",)
    table = "pairwise"
    warning_parts = (
        "comparisons are not made",
        "in {n} comparisons an answer tells its condition (it says that it does not know the "
        "skill, or cites it), so it was not blind to it.",
        "in {n} comparisons an answer addresses the grader (such as 'ignore the rubric').",
    )

    def key_of(self, row: JsonObject) -> str:
        """Return the key of an ordered pair, from a row of the replies or of the judgements."""
        return json.dumps([row["order"], row["first"], row["second"]])

    async def do_open_jobs(self) -> None:
        """Compare the ordered pairs that have neither a judgement nor a refusal."""
        self.take_replies({})
        two = frozenset((self.study["condition"], self.study["against"]))
        work = compare_works(self.store)[self.grader.name, self.grader.version, two]
        pending = [pair for pair in self.jobs if tuple(pair.columns.values()) not in work.done]
        each = ASKED_AGAIN + 1
        for pair in pending:
            # The grader continues with the stored replies of the last try. If this try has all of
            # its replies and the last one is unreadable, the grader starts a new try.
            replies = self.replies[pair.key]
            last = replies[(len(replies) - 1) // each * each :]
            over = len(last) == each and last[-1].status in ("ok", "truncated")
            is_unread = over and COMPARATOR.read(last[-1].answer or "", pair.item)[1]
            self.replies[pair.key] = [] if is_unread else last
        n_open = await self.do_all(pending, len(self.jobs), f"comparisons of {self.grader.name}")
        self.participant.n_open = n_open + len(self.malformed)

    async def judge(self, grader: PairwiseGrader, job: OrderedPair) -> Ruling:
        """Compare one pair in one order."""
        comparison = await grader.compare(
            job.first, job.second, job.case, item=job.item, order=job.order
        )
        records = [] if comparison.judgement is None else [comparison.judgement]
        last = comparison.replies[-1]
        ok = last.status in KEPT
        return Ruling(records, last, ok, comparison.problems, comparison.gives_away)


def _ordered_pairs(
    store: RunStore, graders: Sequence[PairwiseGrader], condition: str, reference: str
) -> list[OrderedPair]:
    """Return every pair of answers in both orders; raise if there is no pair."""
    for grader in graders:
        if not isinstance(grader, PairwiseGrader):
            raise StudyError(f"graders: found {grader!r}; allowed: PairwiseGrader.")
    require_distinct("grader", graders, "name")
    answers = list(store.records("attempts"))
    plain = [attempt for attempt in answers if attempt.perturbation is None]
    there = {attempt.condition for attempt in plain}
    of_copies = reference == ORIGINAL and ORIGINAL not in there
    if of_copies:
        there = {ORIGINAL} | {a.perturbation for a in answers if a.perturbation is not None}
    for key, name in (("condition", condition), ("reference", reference)):
        what = f"{key}: {store.path} has no answers under"
        require_known(what, name, sorted(there), StudyError, label="there")
    if condition == reference:
        raise StudyError(f"condition and reference are both '{condition}'; give two conditions.")
    cases = cases_by_id(store.suites.values())
    sides: defaultdict[Any, dict[str, Attempt]] = defaultdict(dict)
    for attempt in answers if of_copies else plain:
        if attempt.status == "ok" and attempt.answer is not None:
            place: Any = (attempt.agent, attempt.skill, attempt.case_id, attempt.repeat)
            side = attempt.condition
            if of_copies:
                place = attempt.source_attempt_id or attempt.attempt_id
                side = attempt.perturbation or ORIGINAL
            sides[place].setdefault(side, attempt)
    both = [
        (by_condition[condition], by_condition[reference])
        for by_condition in sides.values()
        if {condition, reference} <= by_condition.keys()
    ]
    if not both:
        raise StudyError(
            f"{store.path}: no case has an answer with status ok under both '{condition}' and "
            f"'{reference}' with one repeat number of one agent."
        )
    for mine, _ in both:
        if mine.case_id not in cases:
            raise StudyError(
                f"attempt '{mine.attempt_id}': its case '{mine.case_id}' is not in the store; add "
                "the suite first."
            )
    skills = {mine.skill for mine, _ in both}
    require_unedited(store, [suite for suite in store.suites.values() if suite.skill in skills])
    return [
        OrderedPair(cases[mine.case_id], order, *answers)
        for mine, other in both
        for order, answers in ((1, (mine, other)), (2, (other, mine)))
    ]
