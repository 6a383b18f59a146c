"""Grading stored answers: gold answers first, then every answer once, and nothing paid twice."""

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
    """Have every stored answer graded, once by each grader; no answer is touched.

    Answers go to a grader in a shuffled order under blind names. A grading that was paid for is
    kept, whatever happens; called again, the grading goes on where it was.

    Parameters
    ----------
    store : RunStore
        The study; nothing else may write to it meanwhile.
    graders : sequence of LiveGrader
        One after the other.
    round : int or "next", default 1
        2 and up to grade again. ``"next"`` is one above the last round of each grader and version;
        a later round that was left unfinished is finished first. A malformed verdict leaves no
        round unfinished.
    gold : path or iterable, optional
        Answers with known verdicts (`skillcomp.live.GoldAnswer`), beside those that
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
        The state of the study, as `skillcomp.live.status.status` gives it.

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
    gold_cases = {answer.case_id for answer in answers}
    carrying = (s for s in store.suites.values() if any(c.case_id in gold_cases for c in s.cases))
    require_unedited(store, carrying)
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
        items = _gradable(store)
        taken = [_taken(items, grader) for grader in graders]
        rounds = [
            _next_round(store, *pair) if round == "next" else round
            for pair in zip(graders, taken, strict=True)
        ]
        settle_graders(store, graders, rounds)
        works = [
            Gradings(
                store,
                grader,
                mine,
                answers,
                min_gold_agreement,
                {"round": number, "seed": seed},
                options,
            )
            for grader, mine, number in zip(graders, taken, rounds, strict=True)
        ]
        judge_all(works, budget_usd, "graded")
    return status(store)


def _next_round(store: RunStore, grader: LiveGrader, items: Mapping[str, Item]) -> int:
    """Return the round after the last of a grader, or a later round that is unfinished."""
    verdicts: defaultdict[int, Counter[str]] = defaultdict(Counter)  # by round, of each attempt
    columns = ["attempt_id", "grader", "grader_version", "round"]
    for row in store.table("verdicts").select(columns).to_pylist():
        if (row["grader"], row["grader_version"]) == (grader.name, grader.version):
            verdicts[row["round"]][row["attempt_id"]] += 1
    last = max(verdicts, default=0)
    is_whole = all(verdicts[last][name] >= len(item.case.checks) for name, item in items.items())
    return last if last > 1 and not is_whole else last + 1


@dataclass(frozen=True)
class Item:
    """An answer with what it is graded by, its blind name and the place of its first verdict."""

    attempt: Attempt
    case: Case
    skill: Skill
    item: str = ""
    order: int = 1

    @property
    def key(self) -> str:
        """The attempt's name."""
        return self.attempt.attempt_id


class Gradings(Judging[Item]):
    """One grader in one round: gold answers first."""

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
        self.found: Agreement | None = None

    @property
    def purposes(self) -> dict[str, Agent]:
        """What batches of this stage are noted under, and who is asked in them."""
        mine = f"grade:{self.grader.name}#{self.grader.version}/{self.round}"
        return {f"{mine}/{table}": self.agent or self.grader for table in _TABLES}

    def row_of(self, key: str) -> dict[str, Any]:
        """Return the columns that name a grading in the table of replies."""
        return {"attempt_id": key}

    def key_of(self, row: Mapping[str, Any]) -> str:
        """Return the attempt that a line of a table is about."""
        return str(row["attempt_id"])

    async def judge(self) -> None:
        """Grade gold, then the study."""
        # replies that made a malformed grading are not used again: it is asked anew
        self.take_replies(self._malformed_at())
        if self.answers:
            await self._hold_against_gold()
        if not self.stop.reason:
            title = f"verdicts of {self.grader.name}"
            self.n_open = await self._grade_all(self.items, "verdicts", title)
            self.n_open += len(self.malformed)

    def final_fields(self, receipt: RunRecord) -> dict[str, Any]:
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
        own = [Verdict.model_validate(row) for row in self.own_rows("gold_verdicts")]
        self.found = gold_agreement(self.answers, own)
        _log.info("grader %s: %s", self.grader.name, self.found)
        told = f"{self.grader.name}: {self.found}"
        tqdm(total=0, desc=told, bar_format="{desc}", disable=not self.options.progress).close()
        require_agreement(self.found, self.grader.name, self.least)

    def _malformed_at(self) -> dict[str, datetime]:
        """Return when each malformed grading was made that is to be asked for again."""
        found: dict[str, datetime] = {}
        for row in (row for table in _TABLES for row in self.own_rows(table)):
            at = row.get("graded_at")
            if self.agent and row["status"] == "malformed" and at is not None:
                at = at if isinstance(at, datetime) else datetime.fromisoformat(at)
                found[row["attempt_id"]] = max(found.get(row["attempt_id"], _LONG_AGO), at)
        return found

    async def _grade_all(self, items: Mapping[str, Item], table: str, title: str) -> int:
        """Grade what is open of some items; return how many are still open then."""
        self.table, self.done, pending = table, defaultdict(set), []
        for row in self.own_rows(table):
            if row["status"] != "malformed" or not self.agent:
                self.done[row["attempt_id"]].add(row["check_id"])
        n_checks = {name: len(item.case.checks) for name, item in items.items()}
        for name, item, order in blind(n_checks, seed=self.study["seed"]):
            wanted = {check.check_id for check in items[name].case.checks}
            if not wanted <= self.done[name]:
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
        why = Reply(error=next((v.raw for v in grading.verdicts), None))  # of who asked nobody
        return self.is_over(job.key, (why, *grading.replies)[-1], problems, ok=ok)


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


def _check(store: RunStore, graders: Sequence[LiveGrader], round: object) -> None:
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
    require_unedited(store, [one for one in store.suites.values() if one.skill in skills])


class PlannedGrader(Record):
    """A grader as it began to grade a study; a line of the store's ``graders``.

    Attributes
    ----------
    grader, version : str, str or None
        Which grader: verdicts of another version stand apart in every frame.
    round : int or None
        Of a recording, which says another model in another round when the service moved on; None
        for a grader that asks, which is one and the same in all rounds.
    kind, model, family : str or None
        As the grader has them.
    settings : str or None
        Of the agent behind it.
    """

    grader: str
    version: str | None = None
    round: int | None = None
    kind: str | None = None
    model: str | None = None
    family: str | None = None
    settings: str | None = None

    def is_same(self, other: PlannedGrader) -> bool:
        """Return whether verdicts of both would stand under one name, version and round."""
        if (self.grader, self.version) != (other.grader, other.version):
            return False
        return None in (self.round, other.round) or self.round == other.round


def settle_graders(store: RunStore, graders: Sequence[Judge], rounds: Sequence[int]) -> None:
    """Write down who grades, before anything is asked; refuse one changed under its name.

    The caller has the store open for writing (`RunStore.writer`).
    """
    known = [PlannedGrader.model_validate(row) for row in store.records("graders")]
    new: list[PlannedGrader] = []
    for grader, round in zip(graders, rounds, strict=True):
        agent = getattr(grader, "agent", None)
        given = PlannedGrader(
            grader=grader.name,
            version=grader.version,
            round=round if agent is None else None,
            kind=grader.kind,
            model=grader.model,
            family=grader.family,
            settings=getattr(agent or grader, "settings", None),
        )
        before = [one for one in (*known, *new) if one.is_same(given)]
        for one in before:
            for name in ("model", "family", "settings"):
                if (was := getattr(one, name)) != (now := getattr(given, name)):
                    raise changed_error("grader", given.grader, name, was, now)
        if not before:
            _compare_receipts(store, given, round)
        if given not in before:
            new.append(given)
    store.append("graders", new)


def _compare_receipts(store: RunStore, given: PlannedGrader, round: int) -> None:
    """Compare with the last grading of a store that has no line about this grader."""
    mine = ("grade", given.grader, given.version)
    last: dict[str, Any] = {}
    for row in store.records("receipts"):
        same_round = given.round is None or row["study"].get("round") == round
        if (row["stage"], row["name"], row.get("prompt_version")) == mine and same_round:
            last = row
    if (was := last.get("model")) is not None and was != given.model:
        raise changed_error("grader", given.grader, "model", was, given.model)
    if (was := last.get("settings")) is not None and not _holds(given.settings, was):
        raise changed_error("grader", given.grader, "settings", was, given.settings)


def _holds(now: str | None, was: str) -> bool:
    """Return whether all settings of an earlier release are still the same; there may be more."""
    try:
        old, new = json.loads(was), json.loads(now or "{}")
        return bool(old.items() <= {key: new.get(key) for key in old}.items())
    except (ValueError, AttributeError, TypeError):
        return was == now
