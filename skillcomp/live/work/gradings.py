"""Grading stored answers: gold answers first, then every answer once, and nothing paid twice."""

from __future__ import annotations

import logging
import warnings
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing
from copy import copy
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Protocol, cast

import pandas as pd
from tqdm.auto import tqdm

from skillcomp.errors import AgentError, GraderError, StudyError
from skillcomp.io.store import RunStore
from skillcomp.live.agents.reply import PAID, TIME_LIMIT, Agent, Reply
from skillcomp.live.batches import BatchLimits
from skillcomp.live.batches.record import open_batches, outstanding
from skillcomp.live.batches.service import batch_agent
from skillcomp.live.batches.transport import Batches
from skillcomp.live.graders.comprehension import (
    Blind,
    GraderWarning,
    Grading,
    LiveGrader,
    blind,
    family_warning,
)
from skillcomp.live.graders.gold import (
    PREFIX,
    Agreement,
    GoldAnswer,
    check_least,
    gold_agreement,
    gold_answers,
    passes,
)
from skillcomp.live.stopping import Stop, interruption, run_sync
from skillcomp.live.study.plan import require_unedited, settle_graders
from skillcomp.live.work.budget import Budget, charged
from skillcomp.live.work.jobs import Book, Engine, Options, Recorder
from skillcomp.live.work.ledger import RunRecord, begun
from skillcomp.live.work.status import most_frequent, status
from skillcomp.records import Attempt, Case, Skill, Suite, Verdict

_log = logging.getLogger("skillcomp.live")
KEPT = PAID - {"paused"}  # a grader that paused has said nothing; it is asked again
_LONG_AGO = datetime.min.replace(tzinfo=UTC)
UNREADABLE = 5  # gradings in a row that cannot be read; then the grader is at fault
_TABLES = ("gold_verdicts", "verdicts")


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
    batch: bool | BatchLimits = False,
    progress: bool = True,
) -> pd.DataFrame:
    """Have every stored answer graded, once by each grader; no answer is touched.

    Answers go to a grader in a shuffled order under blind names. A grading that was paid for is
    kept, whatever happens; called again, the grading goes on where it was.

    Parameters
    ----------
    store : RunStore
        The study; nothing else may write to it meanwhile.
    graders : sequence of LiveGrader
        One after the other.
    round : int, default 1
        2 and up for grading again; see `regrade`.
    gold : path or iterable, optional
        Answers with known verdicts (`skillcomp.live.graders.gold.GoldAnswer`), beside those that
        the suites carry as ``gold_answers``. Each grader gets them first. Its verdicts on them
        stand in the table ``gold_verdicts``, apart from the study's.
    min_gold_agreement : float, optional
        Share of the gold labels that a grader must agree with before it grades the study.
    budget_usd : float, optional
        Dollars that all gradings of this store may cost, earlier ones included.
    seed : int, default 0
        Of the order and the blind names.
    concurrency : int, default 8
        Gradings under way at once.
    batch : bool or BatchLimits, default False
        Ask through the Message Batches API. Batches that an earlier call left under way are
        collected first in any case, before anything is asked.
    progress : bool, default True
        Show progress bars, one for the gold answers with the agreement reached.

    Returns
    -------
    pandas.DataFrame
        The state of the study, as `skillcomp.live.work.status.status` gives it.

    Raises
    ------
    GraderError
        When the agreement with gold is too low; no answer of the study has been graded then.
    StudyError
        When nothing can be graded, an argument is not allowed, a suite or skill was edited inside
        the store, or a grader has another model or other settings than its verdicts in this store.
    StoreError
        When another process writes to the store; it is named.
    AgentError
        When no further grading could succeed, or twenty failed in a row.

    Warns
    -----
    GraderWarning
        When grader and agent share a family; when answers tell their condition; when gradings are
        left open.

    Notes
    -----
    Every reply of a grader is in the table ``replies`` before it is looked at, the malformed ones
    too. A refused grading is final and gives verdicts that say so; a malformed one gives such
    verdicts and is asked for again at the next start, and what comes then stands in its place; one
    that ended in an error gives none and is tried again too. A grader that cannot be read five
    times in a row is stopped.

    A grader is its name and version, in all rounds; the table ``graders`` keeps the model and the
    settings behind it.
    """
    _check(store, graders, round)
    answers = gold_answers(store.suites.values(), gold)
    check_least(min_gold_agreement, answers)
    require_unedited(store, _suites_of(store, {answer.case_id for answer in answers}))
    limits = BatchLimits() if batch is True else batch or None
    if limits:
        for grader in graders:
            batch_agent(getattr(grader, "agent", None) or cast(Any, grader))
    families = store.table("attempts").column("agent_family").unique().to_pylist()
    for grader in graders:
        judges = grader.kind not in ("mock", "rules") and (
            grader.kind != "suite" or grader.model is not None
        )
        if judges and (told := family_warning(grader, families)):  # words and tests have no family
            warnings.warn(told, GraderWarning, stacklevel=2)
    options = Options(concurrency, limits, progress)
    with store.writer():
        settle_graders(store, graders, round)
        items = _gradable(store)
        works = [
            Gradings(
                store,
                grader,
                _taken(items, grader),
                answers,
                round,
                min_gold_agreement,
                seed,
                options,
            )
            for grader in graders
        ]
        mine = [name for one in works for name in one.purposes]
        budget = Budget(budget_usd, spent=_spent(store) + outstanding(store, "grade", but=mine))
        if why := run_sync(partial(collect_all, works, budget)):
            warnings.warn(f"nothing was graded ({why}).", GraderWarning, stacklevel=2)
            return status(store)
        for one in works:
            # with nothing left to spend, what is paid for still becomes verdicts
            budget = after(budget)
            run_sync(partial(one.main, budget))
            one.warn()
            if one.stopped and one.stopped != budget.exhausted and one.unreadable < UNREADABLE:
                break
    return status(store)


def regrade(store: RunStore, grader: LiveGrader, **options: Any) -> pd.DataFrame:
    """Grade the stored answers once more, as a new round; no answer is touched.

    Parameters
    ----------
    store : RunStore
        The study.
    grader : LiveGrader
        Who grades.
    **options
        As for `grade`, without `graders` and `round`.

    Returns
    -------
    pandas.DataFrame
        As `grade`.

    Notes
    -----
    The round is one above the last of this grader and version; a later round that was left
    unfinished is finished first.
    """
    _check(store, [grader], 1)
    rounds: defaultdict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    columns = ["attempt_id", "grader", "grader_version", "round"]
    for row in store.table("verdicts").select(columns).to_pylist():
        if (row["grader"], row["grader_version"]) == (grader.name, grader.version):
            rounds[row["round"]][row["attempt_id"]] += 1
    last = max(rounds, default=0)
    wanted = _taken(_gradable(store), grader)
    whole = all(rounds[last][name] >= len(one.case.checks) for name, one in wanted.items())
    unfinished = last > 1 and not whole
    return grade(store, graders=[grader], round=last if unfinished else last + 1, **options)


@dataclass(frozen=True)
class Item:
    """An answer with what it is graded by, and its blind name."""

    attempt: Attempt
    case: Case
    skill: Skill
    placed: Blind | None = None

    @property
    def key(self) -> str:
        """The attempt's name."""
        return self.attempt.attempt_id

    @property
    def checks(self) -> set[str]:
        """Names of all that is to be decided."""
        return {check.check_id for check in self.case.checks}


class Collecting(Protocol):
    """A stage that may have left batches under way."""

    async def collect(self, budget: Budget, stop: Stop) -> None:
        """Take them in; nothing is asked."""
        ...


class Gradings(Engine[Item]):
    """One grader in one round: gold answers first, every reply kept, nothing paid twice."""

    kept, each = "What was graded is kept; start again later.", "grading"

    def __init__(
        self,
        store: RunStore,
        grader: LiveGrader,
        items: Mapping[str, Item],
        answers: Sequence[GoldAnswer],
        round: int,
        least: float | None,
        seed: int,
        options: Options,
    ) -> None:
        super().__init__(store, options)
        self.grader, self.items, self.answers = grader, items, answers
        self.round, self.least, self.seed = round, least, seed
        self.asks = getattr(grader, "agent", None) is not None  # a recording asks nobody
        self.replies: defaultdict[str, list[Reply]] = defaultdict(list)  # not graded by so far
        self.done: defaultdict[str, set[str]] = defaultdict(set)  # checks by attempt
        self.table = "verdicts"
        self.n_open, self.n_given_away = len(items), 0
        self.found: Agreement | None = None
        self.failed: set[str] = set()  # in this run
        self.malformed: set[str] = set()  # answers of the study, in this run
        self.unreadable = 0  # gradings in a row

    @property
    def purposes(self) -> dict[str, Agent]:
        """What batches of this stage are noted under, and who is asked in them."""
        mine = f"grade:{self.grader.name}#{self.grader.version}/{self.round}"
        agent = getattr(self.grader, "agent", None) or cast(Any, self.grader)
        return {f"{mine}/{table}": agent for table in _TABLES}

    def who(self, agent: Agent) -> str:
        """Return how messages name who is asked."""
        return f"grader '{self.grader.name}'"

    def is_done(self, job: Item) -> bool:
        """Return whether all checks of an answer have their verdicts."""
        return job.checks <= self.done[job.key]

    async def collect(self, budget: Budget, stop: Stop) -> None:
        """Take in the batches that earlier calls left under way; nothing is asked."""
        open_ = {purpose for purpose, _ in open_batches(self.store)}
        if open_ & set(self.purposes) and not stop.reason:
            async with self.at_work(budget, stop):
                await self.collect_earlier()

    async def main(self, budget: Budget, stop: Stop) -> None:
        """Grade gold, then the study."""
        async with self.at_work(budget, stop):
            used = self._malformed_at()
            for row in self._own("replies"):
                # replies that made a malformed grading are not used again: it is asked anew
                fresh = datetime.fromisoformat(row["at"]) > used.get(row["attempt_id"], _LONG_AGO)
                if row["status"] in KEPT and fresh:
                    self.replies[row["attempt_id"]].append(reply_of(row))
            if self.answers:
                await self._hold_against_gold()
            if not stop.reason:
                title = f"verdicts of {self.grader.name}"
                self.n_open = await self._grade_all(self.items, "verdicts", title)
                self.n_open += len(self.malformed)

    def begun(self) -> list[RunRecord]:
        """Return the receipt of the grader, before anything is asked."""
        self.n_open = len(self.items)
        receipt = begun(
            self.store,
            "grade",
            self.grader.name,
            model=self.grader.model,
            settings=getattr(getattr(self.grader, "agent", None), "settings", None),
            prompt_version=self.grader.version,
            study={"round": self.round, "seed": self.seed},
            n_wanted=len(self.items),
            n_open=self.n_open,
        )
        return [receipt]

    def at_end(self, receipt: RunRecord) -> dict[str, Any]:
        """Return what the end of a receipt says."""
        return {"n_open": self.n_open, "gold": self.found.fields() if self.found else {}}

    async def close(self) -> None:
        """Close the grader's connections."""
        await self.grader.aclose()

    async def _hold_against_gold(self) -> None:
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
        own = [Verdict.model_validate(row) for row in self._own("gold_verdicts")]
        self.found = gold_agreement(self.answers, own)
        _log.info("grader %s: %s", self.grader.name, self.found)
        told = f"{self.grader.name}: {self.found}"
        tqdm(total=0, desc=told, bar_format="{desc}", disable=not self.options.progress).close()
        passes(self.found, self.grader.name, self.least)

    def _own(self, table: str) -> Iterable[dict[str, Any]]:
        """Yield this grader's lines of a table in this round."""
        mine = (self.grader.name, self.grader.version, self.round)
        rows = self.store.records(table)
        if table == "verdicts":  # there may be many
            columns = ["attempt_id", "check_id", "grader", "grader_version", "round"]
            columns += ["status", "graded_at"]
            rows = iter(self.store.table(table).select(columns).to_pylist())
        for row in rows:
            if (row["grader"], row.get("grader_version"), row["round"]) == mine:
                yield row

    def _malformed_at(self) -> dict[str, datetime]:
        """Return when each malformed grading was made that is to be asked for again."""
        found: dict[str, datetime] = {}
        for row in (row for table in _TABLES for row in self._own(table)):
            at = row.get("graded_at")
            if self.asks and row["status"] == "malformed" and at is not None:
                at = at if isinstance(at, datetime) else datetime.fromisoformat(at)
                found[row["attempt_id"]] = max(found.get(row["attempt_id"], _LONG_AGO), at)
        return found

    async def _grade_all(self, items: Mapping[str, Item], table: str, title: str) -> int:
        """Grade what is open of some items; return how many are still open then."""
        self.table, placed = table, _placed(items, self.seed)
        self.done = defaultdict(set)
        for row in self._own(table):
            if row["status"] != "malformed" or not self.asks:
                self.done[row["attempt_id"]].add(row["check_id"])
        pending = [item for item in placed if not self.is_done(item)]
        # what is paid for first: the budget may end at any other
        pending.sort(key=lambda item: item.key not in self.replies)
        purpose = next(name for name in self.purposes if name.endswith(f"/{table}"))
        with closing(self.bar(title, len(items), len(items) - len(pending))) as self.shown:
            in_batches = purpose if self.options.limits else None
            return len(await self.do_all(pending, in_batches))

    async def work_on(self, job: Item, *, batched: bool) -> bool:
        """Grade one answer and store the verdicts."""

        async def book(reply: Reply, started: datetime | None = None) -> None:
            await self._book(job.key, reply)

        grader = self._through(self.replies[job.key], None if batched else book)
        assert job.placed is not None
        grading = await grader.grade(
            job.attempt,
            job.case,
            job.skill,
            round=self.round,
            batch=f"{self.grader.name}/{self.round}",
            item=job.placed.item,
            order=job.placed.order,
        )
        done = self.done[job.key]
        fresh = [v for v in grading.verdicts if v.status != "error" and v.check_id not in done]
        await self.ledger.write(self.table, fresh)
        if not self._is_final(job.key, grading):
            return False
        if not self.asks:
            self.tallies[self.grader.name].add(Reply(model=self.grader.model))
        self.replies.pop(job.key, None)
        self.n_given_away += grading.gives_away is not None and self.table == "verdicts"
        self.shown.update()
        return True

    def _through(self, kept: Sequence[Reply], book: Book | None) -> LiveGrader:
        """Return a copy of the grader whose questions go through a `Recorder`."""
        if not self.asks:
            return self.grader
        double: Any = copy(self.grader)
        double.agent = Recorder(double.agent, kept, book, self.budget, interruption())
        return cast(LiveGrader, double)

    async def _book(self, attempt_id: str, reply: Reply) -> None:
        row = {
            "attempt_id": attempt_id,
            "grader": self.grader.name,
            "grader_version": self.grader.version,
            "round": self.round,
            "at": datetime.now(UTC).isoformat(),
            **reply.model_dump(exclude_none=True),
        }
        await self.ledger.write("replies", [row])
        self.tallies[self.grader.name].add(reply)

    def _is_final(self, name: str, grading: Grading) -> bool:
        """Return whether a grading is final; stop where nothing further can succeed."""
        ok = all(verdict.status != "error" for verdict in grading.verdicts)
        if not ok:
            self.failed.add(name)
        if self.asks:
            told = None
            if not ok:
                replies = grading.replies
                told = replies[-1].error if replies else grading.verdicts[0].raw
            wait = grading.replies[-1].wait_seconds if grading.replies else None
            fatal = not ok and grading.fatal
            self.watch(self.grader.name, ok=ok, fatal=fatal, told=told, wait=wait)
            if ok:
                self._watch_form(name, grading)
        return ok

    def _watch_form(self, name: str, grading: Grading) -> None:
        """Stop a grader whose replies cannot be read, one after the other."""
        if all(verdict.status != "malformed" for verdict in grading.verdicts):
            self.unreadable = 0
            return
        self.unreadable += 1
        if self.table == "verdicts":
            self.malformed.add(name)
        if self.unreadable >= UNREADABLE:
            self.stop.ask(
                f"{self.unreadable} gradings in a row cannot be read; the last: "
                f"{(grading.problems or ('no reason is known',))[0]}"
            )

    def transport(self, purpose: str) -> Batches:
        """Return the batches of one table."""

        async def book(key: str, reply: Reply) -> None:
            await self._book(key, reply)
            if reply.status in KEPT:
                self.replies[key].append(reply)
            else:
                self.failed_in_batch(key, reply)

        return self.batches(purpose, book, (row.get("request_id") for row in self._own("replies")))

    def warn(self) -> None:
        """Say what was left open, and whether the grader could tell the condition."""
        name, n_wanted = self.grader.name, len(self.items)
        if self.n_open:
            told = [f"{len(self.failed)} gradings failed"] if self.failed else []
            told += [f"{len(self.malformed)} cannot be read"] if self.malformed else []
            why = self.stopped or " and ".join(told)
            why += most_frequent(self.store, "grade", name) if not self.stopped else ""
            warnings.warn(
                f"grader '{name}': {self.n_open} of {n_wanted} answers are not graded yet "
                f"({why}); the same call goes on with them.",
                GraderWarning,
                stacklevel=3,
            )
        if self.n_given_away:
            warnings.warn(
                f"grader '{name}': {self.n_given_away} of {n_wanted} answers tell their "
                "condition (they say that they do not know the skill, or cite it), so it was not "
                "blind to it.",
                GraderWarning,
                stacklevel=3,
            )


def reply_of(row: Mapping[str, Any]) -> Reply:
    """Return the reply that a line of the table ``replies`` holds."""
    return Reply(**{name: row[name] for name in Reply.model_fields if name in row})


def _placed(items: Mapping[str, Item], seed: int) -> list[Item]:
    order = blind({name: len(item.case.checks) for name, item in items.items()}, seed=seed)
    return [replace(items[one.attempt_id], placed=one) for one in order]


async def collect_all(works: Sequence[Collecting], budget: Budget, stop: Stop) -> str | None:
    """Take in every batch under way before anyone is asked; return why that was broken off."""
    errors = []
    for one in works:
        try:
            await one.collect(budget, stop)
        except AgentError as error:  # the next grader's are with the service all the same
            errors.append(error)
    if errors:
        raise errors[0]
    return stop.reason


def after(budget: Budget) -> Budget:
    """Return the same budget for another event loop."""
    more = Budget(budget.limit, spent=budget.spent)
    more.exhausted = budget.exhausted
    return more


def _gradable(store: RunStore) -> dict[str, Item]:
    """Return every answer with checks by attempt_id, perturbed copies too.

    So is what took longer than its case allows, for graders to which that is an answer.
    """
    skills = store.skills
    cases = {case.case_id: case for suite in store.suites.values() for case in suite.cases}
    found = {}
    for attempt in store.records("attempts"):
        limited = attempt.stop_reason == TIME_LIMIT
        if not limited and (attempt.status != "ok" or attempt.answer is None):
            continue
        case = cases.get(attempt.case_id)
        if case is None or attempt.skill not in skills:
            raise StudyError(
                f"attempt '{attempt.attempt_id}': its case '{attempt.case_id}' or skill "
                f"'{attempt.skill}' is not in the store; add the suite and the skill first."
            )
        if case.checks:
            found[attempt.attempt_id] = Item(attempt, case, skills[attempt.skill])
    return found


def _taken(items: Mapping[str, Item], grader: LiveGrader) -> Mapping[str, Item]:
    """Return what a grader grades, by its own checks where it says which (``checks_of``)."""
    of = getattr(grader, "checks_of", None)
    if of is None:
        return {name: item for name, item in items.items() if item.attempt.status == "ok"}
    found = {}
    for name, item in items.items():
        if checks := of(item.attempt, item.case):
            found[name] = replace(item, case=item.case.model_copy(update={"checks": checks}))
    return found


def _check(store: RunStore, graders: Sequence[LiveGrader], round: int) -> None:
    if not graders:
        raise StudyError("graders is empty; give at least one.")
    for grader in graders:
        if not callable(getattr(grader, "grade", None)):
            why = "; sc.compare takes it" if hasattr(grader, "compare") else ""
            raise StudyError(f"graders: found {grader!r}{why}; allowed: what has a method grade.")
    if not isinstance(round, int) or round < 1:
        raise StudyError(f"round is {round!r}; allowed: a whole number from 1.")
    names = [(grader.name, grader.version) for grader in graders]
    for one in names:
        if names.count(one) > 1:
            raise StudyError(f"Two graders are named '{one[0]}'; give one another name=.")
    if not store.table("attempts").num_rows:
        raise StudyError(f"{store.path}: there are no answers to grade; run the study first.")
    for row in store.table("attempts").column("attempt_id").to_pylist():
        if row.startswith(PREFIX):
            raise GraderError(f"attempt '{row}': names that begin with '{PREFIX}' are reserved.")
    skills = set(store.table("attempts").column("skill").unique().to_pylist())
    require_unedited(store, [one for one in store.suites.values() if one.skill in skills])


def _suites_of(store: RunStore, cases: Collection[str]) -> list[Suite]:
    found = store.suites.values()
    return [suite for suite in found if any(case.case_id in cases for case in suite.cases)]


def _spent(store: RunStore) -> float:
    return float(sum(charged(row) for row in store.records("replies")))
