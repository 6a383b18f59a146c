"""Have graders judge stored answers: grade each answer once, or compare answers in pairs."""

from __future__ import annotations

import json
import logging
import warnings
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd
from tqdm.auto import tqdm

from skillcomp.errors import GraderError, StudyError, require_known, require_whole
from skillcomp.grading_rules import addresses_grader
from skillcomp.io.files import JsonObject
from skillcomp.io.redaction import redacted_content
from skillcomp.io.store import RunStore, as_store
from skillcomp.live.agents.agent import TIME_LIMIT, Reply, whole_hash
from skillcomp.live.engine import KEPT, Judging, do_stage
from skillcomp.live.graders.comprehension import PairwiseGrader, read_comparison
from skillcomp.live.graders.gold_answers import (
    KEY,
    PREFIX,
    GoldAnswer,
    gold_agreement,
    gold_answers,
)
from skillcomp.live.graders.grader import (
    ASKED_AGAIN,
    ITEM_LENGTH,
    GraderWarning,
    Judge,
    LiveGrader,
    agent_of,
    blind,
)
from skillcomp.live.plan import cases_by_id, require_distinct, require_unchanged, require_unedited
from skillcomp.live.status import status
from skillcomp.records import Attempt, Case, Record, Skill, Verdict

_log = logging.getLogger("skillcomp.live")
_TABLES = ("gold_verdicts", "verdicts")
_ABOUT_GRADER = ("version", "kind", "model", "family")


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
    graders : sequence of LiveGrader
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
    _check_arguments(as_store(store), graders, round)
    suites = store.suites.values()
    answers = gold_answers(suites, gold)
    if min_gold_agreement is not None:
        what = "min_gold_agreement is"
        if not 0 < min_gold_agreement <= 1:
            raise StudyError(f"{what} {min_gold_agreement!r}; allowed: above 0, at most 1.")
        if not answers:
            raise StudyError(
                f"{what} {min_gold_agreement:g}, but there are no gold answers: add '{KEY}' to "
                "cases of a suite, or give gold= a file."
            )
    gold_cases = {answer.case_id for answer in answers}
    carrying = (s for s in suites if any(c.case_id in gold_cases for c in s.cases))
    require_unedited(store, carrying)
    warn_of_shared_family(graders, store.table("attempts").column("agent_family").to_pylist())
    with store.writer():
        cases, skills = cases_by_id(suites), store.skills
        items = {}
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
                items[attempt.attempt_id] = Item(attempt, case, skills[attempt.skill])
        settle_graders(store, graders, round)
        study = {"round": round, "seed": seed}
        works = []
        for grader in graders:
            # a grader may choose its own checks, also for attempts that exceeded their time limit
            of = getattr(grader, "checks_of", None)
            own = [item for item in items.values() if of or item.attempt.status == "ok"]
            if of is not None:
                chosen = ((item, of(item.attempt, item.case)) for item in own)
                own = [
                    replace(item, case=item.case.model_copy(update={"checks": checks}))
                    for item, checks in chosen
                    if checks
                ]
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


class Gradings(Judging[Item]):
    """The work of one grader in one round: gold answers first, then the answers of the study."""

    stop_note, unit, units = "What was graded is kept; start again later.", "grading", "gradings"
    stage, reply_table = "grade", "replies"
    result_columns = ("verdicts", "attempt_id", "check_id", "status", "graded_at")
    warning_parts = (
        "answers are not graded",
        "gradings failed",
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
        # for each attempt_id, the check_ids with a verdict
        self.done: defaultdict[str, set[str]] = defaultdict(set)
        self.table = "verdicts"

    def key_of(self, row: JsonObject) -> str:
        """Return the key of a grading, its attempt_id, from a row of the table of replies."""
        return str(row["attempt_id"])

    async def do_open_jobs(self) -> None:
        """Grade the gold answers, then the answers of the study."""
        # the replies of a malformed grading are not used again, so the grader is asked again
        self.take_replies(self._malformed_at())
        if self.answers:
            await self._grade_gold()
        if not self.stop.reason:
            n_open = await self._grade_all(self.jobs, "verdicts", f"verdicts of {self.grader.name}")
            self.n_open[self.grader.name] = n_open + len(self.malformed)

    async def _grade_gold(self) -> None:
        cases = {c.case_id: (c, s.skill) for s in self.store.suites.values() for c in s.cases}
        items = []
        for answer in self.answers:
            case, slug = cases[answer.case_id]
            items.append(Item(answer.attempt(slug), case, self.store.skills[slug]))
        n_open = await self._grade_all(items, "gold_verdicts", f"gold for {self.grader.name}")
        if n_open and self.budget.exhausted:
            self.stop.ask(self.budget.exhausted)
        if self.stop.reason and n_open:
            return
        own = [Verdict.model_validate(row) for row in self.own_rows("gold_verdicts")]
        agreement = gold_agreement(self.answers, own)
        self.gold = agreement.fields()
        _log.info("grader %s: %s", self.grader.name, agreement)
        message = f"{self.grader.name}: {agreement}"
        tqdm(total=0, desc=message, bar_format="{desc}", disable=not self.progress).close()
        message = f"grader '{self.grader.name}': {agreement}"
        none = "No answer of the study was graded."
        if self.least is not None and agreement.n_missing >= max(agreement.n, 1):
            raise GraderError(f"{message}. {none}")
        if self.least is not None and agreement.share < self.least:
            raise GraderError(
                f"{message}; at least {self.least:g} is asked for. {none} It differs at: "
                f"{'; '.join(agreement.differing)}."
            )

    def _malformed_at(self) -> dict[str, datetime]:
        """Return the time of the last malformed verdict on each attempt, by attempt_id."""
        times: dict[str, datetime] = {}
        for row in (row for table in _TABLES for row in self.own_rows(table)):
            at = row.get("graded_at")
            if self.agent and row["status"] == "malformed" and at is not None:
                at = at if isinstance(at, datetime) else datetime.fromisoformat(at)
                times[row["attempt_id"]] = max(times.get(row["attempt_id"], at), at)
        return times

    async def _grade_all(self, items: Sequence[Item], table: str, title: str) -> int:
        """Grade the items that lack a verdict in `table`; return how many are still open."""
        self.table, self.done, pending = table, defaultdict(set), []
        for row in self.own_rows(table):
            if row["status"] != "malformed" or not self.agent:
                self.done[row["attempt_id"]].add(row["check_id"])
        by_key = {item.key: item for item in items}
        n_checks = {item.key: len(item.case.checks) for item in items}
        for name, item, order in blind(n_checks, seed=self.study["seed"]):
            check_ids = {check.check_id for check in by_key[name].case.checks}
            if not check_ids <= self.done[name]:
                pending.append(replace(by_key[name], item=item, order=order))
        return await self.do_all(pending, len(items), title)

    async def work_on(self, job: Item) -> bool:
        """Grade one answer and store the verdicts; return whether its grading is done."""
        grader = self.asking(job)
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
        await self.ledger.write(self.table, fresh)
        ok, problems = "error" not in statuses, list[str]()
        if ok and self.agent is None:
            self.tallies[self.grader.name].add(Reply(model=self.grader.model))
        elif ok and "malformed" in statuses:
            problems = list(grading.problems) or ["no reason is known"]
        if self.table == "verdicts":
            self.malformed |= {job.key} if problems else set()
            self.n_given_away += ok and grading.gives_away is not None
            self.n_addressing += ok and addresses_grader(job.attempt.answer or "") is not None
        last = Reply(error=next((verdict.raw for verdict in grading.verdicts), None))
        if grading.replies:  # a grader without an agent has no replies
            last = grading.replies[-1]
        return self.is_over(job.key, last, problems, ok=ok)


def _check_arguments(store: RunStore, graders: Sequence[LiveGrader], round: object) -> None:
    for grader in graders:
        if not callable(getattr(grader, "grade", None)):
            why = "; sc.compare takes it" if hasattr(grader, "compare") else ""
            raise StudyError(f"graders: found {grader!r}{why}; allowed: what has a method grade.")
    require_distinct("grader", graders, "name", "version")
    require_whole("round", round, StudyError)
    if not store.table("attempts").num_rows:
        raise StudyError(f"{store.path}: there are no answers to grade; run the study first.")
    rows = store.rows("attempts", "attempt_id", "skill")
    for name in (row["attempt_id"] for row in rows):
        if name.startswith(PREFIX):
            raise GraderError(f"attempt '{name}': names that begin with '{PREFIX}' are reserved.")
    skills = {row["skill"] for row in rows}
    require_unedited(store, [suite for suite in store.suites.values() if suite.skill in skills])


class PlannedGrader(Record):
    """Identity of a grader when its grading starts; one line of the store's table ``graders``.

    Attributes
    ----------
    grader, version : str, str or None
        Name and version of the grader. Frames keep the verdicts of different versions apart.
    round : int or None
        Number of the round for a grader without an agent (such as a replayed grader), because its
        model can differ between rounds. None for a grader with an agent, because the agent must
        not change between rounds.
    kind, model, family : str or None
        Kind of the grader, its model and the family of this model.
    settings : str or None
        Settings of the grader's agent (or of the grader, if it has none), as JSON.
    """

    grader: str
    version: str | None = None
    round: int | None = None
    kind: str | None = None
    model: str | None = None
    family: str | None = None
    settings: str | None = None


def settle_graders(store: RunStore, graders: Sequence[Judge], round: int = 1) -> None:
    """Record the graders; raise if one has another model, family or settings than in its record.

    The caller must hold the writer's lock of the store (`RunStore.writer`).
    """
    recorded = [PlannedGrader(**row) for row in store.records("graders")]
    new = []
    for grader in graders:
        agent = agent_of(grader)
        planned = PlannedGrader(
            grader=grader.name,
            round=round if agent is None else None,
            settings=redacted_content(getattr(agent or grader, "settings", None)),
            **{name: redacted_content(getattr(grader, name)) for name in _ABOUT_GRADER},
        )
        who = (planned.grader, planned.version)
        before = [
            earlier
            for earlier in recorded
            if (earlier.grader, earlier.version) == who
            and (earlier.round == planned.round or None in (earlier.round, planned.round))
        ]
        for earlier in before:
            names = ("model", "family", "settings")
            require_unchanged("grader", planned.grader, earlier, planned, names)
        if planned not in before:
            new.append(planned)
    store.append("graders", new)


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
    with the same repeat number. Each judgement is stored immediately; after an interruption, the
    same call resumes and pays for nothing twice.

    Parameters
    ----------
    store : RunStore
        The study. No other process may write to it during the comparisons.
    graders : sequence of PairwiseGrader
        The graders, which work one after the other.
    condition, reference : str, default "skill" and "baseline"
        The two conditions. In order 1, the answer under `condition` is shown first; in order 2, the
        answer under `reference`.
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
    def item(self) -> str:
        """Name of the ordered pair in prompts: a hash of `key`, which hides the conditions."""
        return whole_hash(self.key)[:ITEM_LENGTH]


class Comparisons(Judging[OrderedPair]):
    """The work of one grader, which compares each pair of answers once in each order."""

    stop_note, unit = "What was compared is kept; start again later.", "comparison"
    stage, reply_table, units = "compare", "comparisons", "comparisons"
    result_columns = ("pairwise", "order", "first", "second")
    warning_parts = (
        "comparisons are not made",
        "failed",
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
        done = {self.key_of(row) for row in self.own_rows("pairwise")}
        done |= {key for key, replies in self.replies.items() if replies[-1].status == "refused"}
        pending = [pair for pair in self.jobs if pair.key not in done]
        each = ASKED_AGAIN + 1
        for pair in pending:
            # The grader continues with the stored replies of the last try. If this try has all of
            # its replies and the last one is unreadable, the grader starts a new try.
            replies = self.replies[pair.key]
            last = replies[(len(replies) - 1) // each * each :]
            over = len(last) == each and last[-1].status in ("ok", "truncated")
            is_unread = over and read_comparison(last[-1].answer or "", pair.item)[1]
            self.replies[pair.key] = [] if is_unread else last
        n_open = await self.do_all(pending, len(self.jobs), f"comparisons of {self.grader.name}")
        self.n_open[self.grader.name] = n_open + len(self.malformed)

    async def work_on(self, job: OrderedPair) -> bool:
        """Compare one pair in one order and store the judgement; return whether the job is done."""
        grader = self.asking(job)
        comparison = await grader.compare(
            job.first, job.second, job.case, item=job.item, order=job.order
        )
        if comparison.judgement is not None:
            await self.ledger.write("pairwise", [comparison.judgement])
        last = comparison.replies[-1]
        ok = last.status in KEPT
        if comparison.problems:
            self.malformed.add(job.key)
        self.n_given_away += ok and comparison.gives_away is not None
        answers = (job.first.answer, job.second.answer)
        self.n_addressing += ok and any(addresses_grader(answer or "") for answer in answers)
        return self.is_over(job.key, last, comparison.problems, ok=ok)


def _ordered_pairs(
    store: RunStore, graders: Sequence[PairwiseGrader], condition: str, reference: str
) -> list[OrderedPair]:
    """Return every pair of answers in both orders; raise if there is no pair."""
    for grader in graders:
        if not isinstance(grader, PairwiseGrader):
            raise StudyError(f"graders: found {grader!r}; allowed: PairwiseGrader.")
    require_distinct("grader", graders, "name")
    attempts = [attempt for attempt in store.records("attempts") if attempt.perturbation is None]
    there = sorted({attempt.condition for attempt in attempts})
    for key, name in (("condition", condition), ("reference", reference)):
        what = f"{key}: {store.path} has no answers under"
        require_known(what, name, there, StudyError, label="there")
    if condition == reference:
        raise StudyError(f"condition and reference are both '{condition}'; give two conditions.")
    cases = cases_by_id(store.suites.values())
    sides: dict[str, dict[tuple[Any, ...], Attempt]] = {condition: {}, reference: {}}
    for attempt in attempts:
        if attempt.condition in sides and attempt.status == "ok" and attempt.answer is not None:
            if attempt.case_id not in cases:
                raise StudyError(
                    f"attempt '{attempt.attempt_id}': its case '{attempt.case_id}' is not in the "
                    "store; add the suite first."
                )
            place = (attempt.agent, attempt.skill, attempt.case_id, attempt.repeat)
            sides[attempt.condition].setdefault(place, attempt)
    ours, theirs = sides.values()
    both = [(attempt, theirs[at]) for at, attempt in ours.items() if at in theirs]
    if not both:
        raise StudyError(
            f"{store.path}: no case has an answer with status ok under both '{condition}' and "
            f"'{reference}' with one repeat number of one agent."
        )
    skills = {mine.skill for mine, _ in both}
    require_unedited(store, [suite for suite in store.suites.values() if suite.skill in skills])
    return [
        OrderedPair(cases[mine.case_id], order, *answers)
        for mine, other in both
        for order, answers in ((1, (mine, other)), (2, (other, mine)))
    ]
