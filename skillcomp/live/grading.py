"""Grading stored answers: gold answers first, then every answer once, and nothing paid twice."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import pandas as pd

from skillcomp.errors import AgentError, GraderError, StudyError
from skillcomp.io.store import RunStore
from skillcomp.live.batches import BatchLimits, batch_agent
from skillcomp.live.batchnotes import outstanding
from skillcomp.live.budget import Budget, charged
from skillcomp.live.gold import PREFIX, GoldAnswer, check_least, gold_answers
from skillcomp.live.graders import Grader, GraderWarning, family_warning
from skillcomp.live.gradework import GradeOptions, GradeWork, Item
from skillcomp.live.loop import Stop, run_sync
from skillcomp.live.pins import pin_graders, require_unedited
from skillcomp.live.status import status
from skillcomp.records import Suite

__all__ = ["grade", "regrade"]


def grade(
    store: RunStore,
    *,
    graders: Sequence[Grader],
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
    graders : sequence of Grader
        One after the other.
    round : int, default 1
        2 and up for grading again; see `regrade`.
    gold : path or iterable, optional
        Answers with known verdicts (`skillcomp.live.gold.GoldAnswer`), beside those that the
        suites carry as ``gold_answers``. Each grader gets them first. Its verdicts on them stand
        in the table ``gold_verdicts``, apart from the study's.
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
    too. A malformed or refused grading is final and gives verdicts that say so; one that ended in
    an error gives none and is tried again at the next start.

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
        if told := family_warning(grader, families):
            warnings.warn(told, GraderWarning, stacklevel=2)
    options = GradeOptions(round, min_gold_agreement, seed, concurrency, limits, progress)
    with store.writer():
        pin_graders(store, graders, round)
        items = _gradable(store)
        works = [GradeWork(store, grader, items, answers, options) for grader in graders]
        mine = [name for one in works for name in one.purposes]
        budget = Budget(budget_usd, spent=_spent(store) + outstanding(store, "grade", but=mine))
        if why := run_sync(partial(_collect, works, budget)):
            warnings.warn(f"nothing was graded ({why}).", GraderWarning, stacklevel=2)
            return status(store)
        for one in works:
            # with nothing left to spend, what is paid for still becomes verdicts
            budget = _after(budget)
            run_sync(partial(one.main, budget))
            one.warn()
            if one.stopped and one.stopped != budget.exhausted:
                break
    return status(store)


def regrade(store: RunStore, grader: Grader, **options: Any) -> pd.DataFrame:
    """Grade the stored answers once more, as a new round; no answer is touched.

    Parameters
    ----------
    store : RunStore
        The study.
    grader : Grader
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
    wanted = _gradable(store)
    whole = all(rounds[last][name] >= len(one.case.checks) for name, one in wanted.items())
    unfinished = last > 1 and not whole
    return grade(store, graders=[grader], round=last if unfinished else last + 1, **options)


async def _collect(works: Sequence[GradeWork], budget: Budget, stop: Stop) -> str | None:
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


def _after(budget: Budget) -> Budget:
    """Return the same budget for another event loop."""
    more = Budget(budget.limit, spent=budget.spent)
    more.exhausted = budget.exhausted
    return more


def _gradable(store: RunStore) -> dict[str, Item]:
    """Return every answer with checks by attempt_id, perturbed copies too."""
    skills = store.skills
    cases = {case.case_id: case for suite in store.suites.values() for case in suite.cases}
    found = {}
    for attempt in store.records("attempts"):
        if attempt.status != "ok" or attempt.answer is None:
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


def _check(store: RunStore, graders: Sequence[Grader], round: int) -> None:
    if not graders:
        raise StudyError("graders is empty; give at least one.")
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
