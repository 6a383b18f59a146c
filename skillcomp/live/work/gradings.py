"""Grading stored answers: gold answers first, then every answer once, and nothing paid twice."""

from __future__ import annotations

import logging
import warnings
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pandas as pd
from tqdm.auto import tqdm

from skillcomp.errors import GraderError, StudyError
from skillcomp.io.store import RunStore
from skillcomp.live.agents.reply import TIME_LIMIT, Agent, Reply
from skillcomp.live.batches import BatchLimits
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
from skillcomp.live.study.plan import require_graders, require_unedited, settle_graders
from skillcomp.live.work.jobs import KEPT, Judging, Options, judge_all, reply_of
from skillcomp.live.work.ledger import RunRecord
from skillcomp.live.work.status import status
from skillcomp.records import Attempt, Case, Skill, Suite, Verdict

_log = logging.getLogger("skillcomp.live")
_LONG_AGO = datetime.min.replace(tzinfo=UTC)
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
    asked = (getattr(grader, "agent", None) or cast(Any, grader) for grader in graders)
    options = Options.of(concurrency, batch, progress, asked)
    families = store.table("attempts").column("agent_family").unique().to_pylist()
    for grader in graders:
        judges = grader.kind not in ("mock", "rules") and (
            grader.kind != "suite" or grader.model is not None
        )
        if judges and (told := family_warning(grader, families)):  # words and tests have no family
            warnings.warn(told, GraderWarning, stacklevel=2)
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
        judge_all(works, budget_usd, "graded")
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


class Gradings(Judging[Item]):
    """One grader in one round: gold answers first."""

    kept, each, plural = "What was graded is kept; start again later.", "grading", "gradings"
    stage, said = "grade", "replies"
    told = (
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
        round: int,
        least: float | None,
        seed: int,
        options: Options,
    ) -> None:
        super().__init__(store, grader, len(items), {"round": round, "seed": seed}, options)
        self.items, self.answers = items, answers
        self.round, self.least, self.seed = round, least, seed
        self.done: defaultdict[str, set[str]] = defaultdict(set)  # checks by attempt
        self.table = "verdicts"
        self.found: Agreement | None = None

    @property
    def purposes(self) -> dict[str, Agent]:
        """What batches of this stage are noted under, and who is asked in them."""
        mine = f"grade:{self.grader.name}#{self.grader.version}/{self.round}"
        return {f"{mine}/{table}": self.agent or self.grader for table in _TABLES}

    def row_of(self, key: str) -> dict[str, Any]:
        """Return the columns that name a grading in the table of replies."""
        return {"attempt_id": key, "round": self.round}

    def is_done(self, job: Item) -> bool:
        """Return whether all checks of an answer have their verdicts."""
        return job.checks <= self.done[job.key]

    async def judge(self) -> None:
        """Grade gold, then the study."""
        used = self._malformed_at()
        for row in self._own("replies"):
            # replies that made a malformed grading are not used again: it is asked anew
            fresh = datetime.fromisoformat(row["at"]) > used.get(row["attempt_id"], _LONG_AGO)
            if row["status"] in KEPT and fresh:
                self.replies[row["attempt_id"]].append(reply_of(row))
        if self.answers:
            await self._hold_against_gold()
        if not self.stop.reason:
            title = f"verdicts of {self.grader.name}"
            self.n_open = await self._grade_all(self.items, "verdicts", title)
            self.n_open += len(self.malformed)

    def at_end(self, receipt: RunRecord) -> dict[str, Any]:
        """Return what the end of a receipt says."""
        return {"n_open": self.n_open, "gold": self.found.fields() if self.found else {}}

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
            if self.agent and row["status"] == "malformed" and at is not None:
                at = at if isinstance(at, datetime) else datetime.fromisoformat(at)
                found[row["attempt_id"]] = max(found.get(row["attempt_id"], _LONG_AGO), at)
        return found

    async def _grade_all(self, items: Mapping[str, Item], table: str, title: str) -> int:
        """Grade what is open of some items; return how many are still open then."""
        self.table, placed = table, _placed(items, self.seed)
        self.done = defaultdict(set)
        for row in self._own(table):
            if row["status"] != "malformed" or not self.agent:
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
        grader = self.asking(job.key, batched=batched)
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
        if self.agent is None:
            self.tallies[self.grader.name].add(Reply(model=self.grader.model))
        given = grading.gives_away is not None and self.table == "verdicts"
        self.done_with(job.key, gives_away=given)
        return True

    def _is_final(self, name: str, grading: Grading) -> bool:
        """Return whether a grading is final; stop where nothing further can succeed."""
        ok = all(verdict.status != "error" for verdict in grading.verdicts)
        if not ok:
            self.failed.add(name)
        if self.agent:
            told = None
            if not ok:
                replies = grading.replies
                told = replies[-1].error if replies else grading.verdicts[0].raw
            wait = grading.replies[-1].wait_seconds if grading.replies else None
            fatal = not ok and grading.fatal
            self.watch(self.grader.name, ok=ok, fatal=fatal, told=told, wait=wait)
            if ok and all(verdict.status != "malformed" for verdict in grading.verdicts):
                self.unreadable = 0
            elif ok:
                if self.table == "verdicts":
                    self.malformed.add(name)
                self.cannot_read((grading.problems or ("no reason is known",))[0])
        return ok


def _placed(items: Mapping[str, Item], seed: int) -> list[Item]:
    order = blind({name: len(item.case.checks) for name, item in items.items()}, seed=seed)
    return [replace(items[one.attempt_id], placed=one) for one in order]


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
    for grader in graders:
        if not callable(getattr(grader, "grade", None)):
            why = "; sc.compare takes it" if hasattr(grader, "compare") else ""
            raise StudyError(f"graders: found {grader!r}{why}; allowed: what has a method grade.")
    require_graders(graders, lambda grader: (grader.name, grader.version))
    if not isinstance(round, int) or round < 1:
        raise StudyError(f"round is {round!r}; allowed: a whole number from 1.")
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
