"""Grade stored answers: gold answers first, then every answer once; pay for nothing twice."""

from __future__ import annotations

import json
import logging
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, cast

import pandas as pd
from tqdm.auto import tqdm

from skillcomp.errors import GraderError, StudyError
from skillcomp.io.store import RunStore
from skillcomp.live.agents.agent import TIME_LIMIT, Agent, Reply
from skillcomp.live.batches import BatchLimits
from skillcomp.live.engine import Judging, Options, judge_all
from skillcomp.live.graders.gold_answers import (
    PREFIX,
    Agreement,
    GoldAnswer,
    check_least,
    gold_agreement,
    gold_answers,
    require_agreement,
)
from skillcomp.live.graders.grader import GraderWarning, Judge, LiveGrader, blind, family_warning
from skillcomp.live.ledger import RunRecord
from skillcomp.live.plan import changed_error, require_distinct, require_unedited
from skillcomp.live.status import status
from skillcomp.records import Attempt, Case, Record, Skill, Verdict

_log = logging.getLogger("skillcomp.live")
_LONG_AGO = datetime.min.replace(tzinfo=UTC)
_TABLES = ("gold_verdicts", "verdicts")


def grade(
    store: RunStore,
    graders: Sequence[LiveGrader],
    *,
    round: int | Literal["next"] = 1,
    gold: str | Path | Iterable[Mapping[str, Any] | GoldAnswer] | None = None,
    min_gold_agreement: float | None = None,
    budget_usd: float | None = None,
    seed: int = 0,
    concurrency: int = 8,
    batch: bool | BatchLimits = False,
    progress: bool = True,
) -> pd.DataFrame:
    """Grade every stored answer once with each grader; answers do not change.

    A grader gets the answers in a shuffled order under blind names. Every grading that was paid
    for is kept, and the same call resumes the grading.

    Parameters
    ----------
    store : RunStore
        The study. No other process may write to it during the grading.
    graders : sequence of LiveGrader
        The graders, which work one after the other.
    round : int or "next", default 1
        Number of the round; 2 and more grade again. ``"next"`` is the round after the last one of
        each grader and version, or the last one if it is above 1 and unfinished. A malformed
        verdict does not leave a round unfinished.
    gold : path or iterable, optional
        Answers with known verdicts (`skillcomp.live.GoldAnswer`), in addition to the
        ``gold_answers`` of the suites. Each grader grades them first. Those verdicts go to the
        table ``gold_verdicts``, apart from the verdicts of the study.
    min_gold_agreement : float, optional
        Share of the gold labels that a grader must agree with before it grades the study.
    budget_usd : float, optional
        Maximum cost of all gradings of this store in dollars, including earlier gradings.
    seed : int, default 0
        Seed of the order and the blind names.
    concurrency : int, default 8
        Maximum number of gradings under way at once.
    batch : bool or BatchLimits, default False
        Ask through the Message Batches API. In any case, batches that an earlier call left under
        way are collected before anything is asked.
    progress : bool, default True
        Show progress bars; the bar of the gold answers ends with the agreement.

    Returns
    -------
    pandas.DataFrame
        The state of the study, as `skillcomp.live.status` returns it.

    Raises
    ------
    GraderError
        If the agreement with gold is too low; no answer of the study is graded then.
    StudyError
        If nothing can be graded, an argument is not allowed, a suite or skill was edited inside
        the store, or the model or settings of a grader changed since its verdicts in this store.
    StoreError
        If another process writes to the store. The message names the process.
    AgentError
        If no further grading could succeed, or twenty failed in a row.

    Warns
    -----
    GraderWarning
        If grader and agent share a model family, answers reveal their condition, or gradings stay
        open.

    Notes
    -----
    Every reply of a grader is stored in the table ``replies`` before it is read, malformed ones
    too. A refused grading is final: its verdicts have the status ``refused``. A malformed grading
    gives verdicts with the status ``malformed``; the next call asks again, and the new verdicts
    count instead. A grading that ended in an error gives no verdicts and is repeated too. A
    grader with five unreadable replies in a row is stopped.

    Name and version identify a grader in all rounds; the table ``graders`` keeps its model and
    settings.
    """
    _check_arguments(store, graders, round)
    answers = gold_answers(store.suites.values(), gold)
    check_least(min_gold_agreement, answers)
    gold_cases = {answer.case_id for answer in answers}
    carrying = (s for s in store.suites.values() if any(c.case_id in gold_cases for c in s.cases))
    require_unedited(store, carrying)
    agents = (getattr(grader, "agent", None) or cast(Any, grader) for grader in graders)
    options = Options.of(concurrency, batch, progress, agents)
    _warn_of_shared_family(store, graders)
    with store.writer():
        items = _items_to_grade(store)
        items_by_grader = [_items_of_grader(items, grader) for grader in graders]
        rounds = [
            _next_round(store, *pair) if round == "next" else round
            for pair in zip(graders, items_by_grader, strict=True)
        ]
        settle_graders(store, graders, rounds)
        works = []
        for grader, own, number in zip(graders, items_by_grader, rounds, strict=True):
            study = {"round": number, "seed": seed}
            works.append(Gradings(store, grader, own, answers, min_gold_agreement, study, options))
        judge_all(works, budget_usd, "graded")
    return status(store)


def _warn_of_shared_family(store: RunStore, graders: Sequence[LiveGrader]) -> None:
    families = store.table("attempts").column("agent_family").unique().to_pylist()
    for grader in graders:
        # a grader by fixed words or tests has no model family
        by_rules = grader.kind in ("mock", "rules") or (grader.kind, grader.model) == (
            "suite",
            None,
        )
        if not by_rules and (message := family_warning(grader, families)):
            warnings.warn(message, GraderWarning, stacklevel=3)


def _next_round(store: RunStore, grader: LiveGrader, items: Mapping[str, Item]) -> int:
    """Return the round after the last one of a grader, or its last one if unfinished."""
    verdicts: defaultdict[int, Counter[str]] = defaultdict(Counter)  # round, attempt
    columns = ["attempt_id", "grader", "grader_version", "round"]
    for row in store.table("verdicts").select(columns).to_pylist():
        if (row["grader"], row["grader_version"]) == (grader.name, grader.version):
            verdicts[row["round"]][row["attempt_id"]] += 1
    last = max(verdicts, default=0)
    is_whole = all(verdicts[last][name] >= len(item.case.checks) for name, item in items.items())
    return last if last > 1 and not is_whole else last + 1


@dataclass(frozen=True)
class Item:
    """An answer with its case and skill, its blind name and the number of its first verdict."""

    attempt: Attempt
    case: Case
    skill: Skill
    item: str = ""
    order: int = 1

    @property
    def key(self) -> str:
        """The attempt_id."""
        return self.attempt.attempt_id


class Gradings(Judging[Item]):
    """The gradings of one grader in one round, gold answers first."""

    stop_note, unit, units = "What was graded is kept; start again later.", "grading", "gradings"
    stage, reply_table = "grade", "replies"
    result_columns = ("verdicts", "attempt_id", "check_id", "status", "graded_at")
    warning_parts = (
        "answers are not graded",
        "gradings failed",
        "{n} answers tell their condition (they say that they do not know the skill, or cite it), "
        "so it was not blind to it.",
    )

    def __init__(
        self,
        store: RunStore,
        grader: LiveGrader,
        items: Mapping[str, Item],
        answers: Sequence[GoldAnswer],
        least: float | None,
        study: dict[str, int],
        options: Options,
    ) -> None:
        own = {"own_checks": True} if hasattr(grader, "checks_of") else {}
        super().__init__(store, grader, len(items), study | own, options)
        self.items, self.answers, self.least = items, answers, least
        self.round = self.grader_columns["round"] = study["round"]
        self.done: defaultdict[str, set[str]] = defaultdict(set)  # checks by attempt
        self.table = "verdicts"
        self.agreement: Agreement | None = None

    @property
    def purposes(self) -> dict[str, Agent]:
        """The agent of each batch label of this stage."""
        mine = f"grade:{self.grader.name}#{self.grader.version}/{self.round}"
        return {f"{mine}/{table}": self.agent or self.grader for table in _TABLES}

    def row_of(self, key: str) -> dict[str, Any]:
        """Return the key columns of a grading in the table of replies."""
        return {"attempt_id": key}

    def key_of(self, row: Mapping[str, Any]) -> str:
        """Return the attempt_id of a row."""
        return str(row["attempt_id"])

    async def judge(self) -> None:
        """Grade the gold answers, then the answers of the study."""
        # replies of a malformed grading are used up: the grader is asked again
        self.take_replies(self._malformed_at())
        if self.answers:
            await self._grade_gold()
        if not self.stop.reason:
            title = f"verdicts of {self.grader.name}"
            self.n_open = await self._grade_all(self.items, "verdicts", title)
            self.n_open += len(self.malformed)

    def final_fields(self, receipt: RunRecord) -> dict[str, Any]:
        """Return the fields that a receipt gets at the end of the grading."""
        return {"n_open": self.n_open, "gold": self.agreement.fields() if self.agreement else {}}

    async def _grade_gold(self) -> None:
        cases = {c.case_id: (c, s.skill) for s in self.store.suites.values() for c in s.cases}
        items = {}
        for answer in self.answers:
            case, slug = cases[answer.case_id]
            attempt = answer.attempt(slug)
            items[attempt.attempt_id] = Item(attempt, case, self.store.skills[slug])
        n_open = await self._grade_all(items, "gold_verdicts", f"gold for {self.grader.name}")
        if n_open and self.budget.exhausted:
            self.stop.ask(self.budget.exhausted)
        if self.stop.reason and n_open:
            return
        own = [Verdict.model_validate(row) for row in self.own_rows("gold_verdicts")]
        self.agreement = gold_agreement(self.answers, own)
        _log.info("grader %s: %s", self.grader.name, self.agreement)
        message = f"{self.grader.name}: {self.agreement}"
        tqdm(total=0, desc=message, bar_format="{desc}", disable=not self.options.progress).close()
        require_agreement(self.agreement, self.grader.name, self.least)

    def _malformed_at(self) -> dict[str, datetime]:
        """Return the time of each malformed grading that must be repeated, by attempt_id."""
        times: dict[str, datetime] = {}
        for row in (row for table in _TABLES for row in self.own_rows(table)):
            at = row.get("graded_at")
            if self.agent and row["status"] == "malformed" and at is not None:
                at = at if isinstance(at, datetime) else datetime.fromisoformat(at)
                times[row["attempt_id"]] = max(times.get(row["attempt_id"], _LONG_AGO), at)
        return times

    async def _grade_all(self, items: Mapping[str, Item], table: str, title: str) -> int:
        """Grade the open items and return the number of items still open."""
        self.table, self.done, pending = table, defaultdict(set), []
        for row in self.own_rows(table):
            if row["status"] != "malformed" or not self.agent:
                self.done[row["attempt_id"]].add(row["check_id"])
        n_checks = {name: len(item.case.checks) for name, item in items.items()}
        for name, item, order in blind(n_checks, seed=self.study["seed"]):
            check_ids = {check.check_id for check in items[name].case.checks}
            if not check_ids <= self.done[name]:
                pending.append(replace(items[name], item=item, order=order))
        purpose = next(name for name in self.purposes if name.endswith(f"/{table}"))
        return await self.do_pending(pending, len(items), title, purpose)

    async def work_on(self, job: Item, *, batched: bool) -> bool:
        """Grade one answer and store the verdicts."""
        grader = self.asking(job.key, batched=batched)
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
        last = Reply(error=next((verdict.raw for verdict in grading.verdicts), None))
        if grading.replies:  # none from a grader without an agent
            last = grading.replies[-1]
        return self.is_over(job.key, last, problems, ok=ok)


def _items_to_grade(store: RunStore) -> dict[str, Item]:
    """Return every answer with checks, by attempt_id.

    Perturbed copies are included, and so are answers over the time limit, which some graders
    count as failed.
    """
    skills = store.skills
    cases = {case.case_id: case for suite in store.suites.values() for case in suite.cases}
    items = {}
    for attempt in store.records("attempts"):
        answered = attempt.status == "ok" and attempt.answer is not None
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
    return items


def _items_of_grader(items: Mapping[str, Item], grader: LiveGrader) -> Mapping[str, Item]:
    """Return the items of a grader, with its own checks if it defines ``checks_of``."""
    of = getattr(grader, "checks_of", None)
    if of is None:
        return {name: item for name, item in items.items() if item.attempt.status == "ok"}
    chosen = {}
    for name, item in items.items():
        if checks := of(item.attempt, item.case):
            chosen[name] = replace(item, case=item.case.model_copy(update={"checks": checks}))
    return chosen


def _check_arguments(store: RunStore, graders: Sequence[LiveGrader], round: object) -> None:
    for grader in graders:
        if not callable(getattr(grader, "grade", None)):
            why = "; sc.compare takes it" if hasattr(grader, "compare") else ""
            raise StudyError(f"graders: found {grader!r}{why}; allowed: what has a method grade.")
    require_distinct("grader", graders, lambda grader: (grader.name, grader.version))
    if round != "next" and (not isinstance(round, int) or round < 1):
        raise StudyError(f"round is {round!r}; allowed: a whole number from 1, or 'next'.")
    if not store.table("attempts").num_rows:
        raise StudyError(f"{store.path}: there are no answers to grade; run the study first.")
    for row in store.table("attempts").column("attempt_id").to_pylist():
        if row.startswith(PREFIX):
            raise GraderError(f"attempt '{row}': names that begin with '{PREFIX}' are reserved.")
    skills = set(store.table("attempts").column("skill").unique().to_pylist())
    require_unedited(store, [suite for suite in store.suites.values() if suite.skill in skills])


class PlannedGrader(Record):
    """A grader at the start of its grading; a line of the store's table ``graders``.

    Attributes
    ----------
    grader, version : str, str or None
        Name and version. Frames keep the verdicts of several versions apart.
    round : int or None
        Round of a recorded grader (its model can differ between rounds); None for a grader that
        asks a model, which is the same in all rounds.
    kind, model, family : str or None
        Those of the grader.
    settings : str or None
        Settings of its agent, as JSON.
    """

    grader: str
    version: str | None = None
    round: int | None = None
    kind: str | None = None
    model: str | None = None
    family: str | None = None
    settings: str | None = None

    def is_same(self, other: PlannedGrader) -> bool:
        """Return whether both graders share name, version and round."""
        same_round = None in (self.round, other.round) or self.round == other.round
        return same_round and (self.grader, self.version) == (other.grader, other.version)


def settle_graders(store: RunStore, graders: Sequence[Judge], rounds: Sequence[int]) -> None:
    """Record the graders before anything is asked; raise if one changed under its name.

    The caller holds the writer's lock of the store (`RunStore.writer`).
    """
    recorded = [PlannedGrader.model_validate(row) for row in store.records("graders")]
    new: list[PlannedGrader] = []
    for grader, round in zip(graders, rounds, strict=True):
        agent = getattr(grader, "agent", None)
        planned = PlannedGrader(
            grader=grader.name,
            round=round if agent is None else None,
            settings=getattr(agent or grader, "settings", None),
            **{name: getattr(grader, name) for name in ("version", "kind", "model", "family")},
        )
        before = [earlier for earlier in (*recorded, *new) if earlier.is_same(planned)]
        for earlier in before:
            for name in ("model", "family", "settings"):
                if (was := getattr(earlier, name)) != (now := getattr(planned, name)):
                    raise changed_error("grader", planned.grader, name, was, now)
        if not before:
            _compare_receipts(store, planned, round)
        if planned not in before:
            new.append(planned)
    store.append("graders", new)


def _compare_receipts(store: RunStore, planned: PlannedGrader, round: int) -> None:
    """Compare a grader without a line in ``graders`` with its last receipt."""
    mine = ("grade", planned.grader, planned.version)
    last: dict[str, Any] = {}
    for row in store.records("receipts"):
        same_round = planned.round is None or row["study"].get("round") == round
        if (row["stage"], row["name"], row.get("prompt_version")) == mine and same_round:
            last = row
    if (was := last.get("model")) is not None and was != planned.model:
        raise changed_error("grader", planned.grader, "model", was, planned.model)
    if (was := last.get("settings")) is not None and not _settings_hold(planned.settings, was):
        raise changed_error("grader", planned.grader, "settings", was, planned.settings)


def _settings_hold(now: str | None, was: str) -> bool:
    """Return whether all settings of an earlier release are unchanged; new ones may be added."""
    try:
        old, new = json.loads(was), json.loads(now or "{}")
        return bool(old.items() <= {key: new.get(key) for key in old}.items())
    except (ValueError, AttributeError, TypeError):
        return was == now
