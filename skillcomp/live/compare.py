"""Comparing stored answers in pairs, each in both orders, blind, and nothing paid twice."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from skillcomp.errors import StudyError, require_known
from skillcomp.io.store import RunStore
from skillcomp.live.agents.agent import Agent, Reply, whole_hash
from skillcomp.live.batches import BatchLimits
from skillcomp.live.engine import KEPT, Judging, Options, judge_all
from skillcomp.live.grade import settle_graders
from skillcomp.live.graders.comprehension import PairwiseGrader, read_comparison
from skillcomp.live.graders.grader import ASKED_AGAIN, ITEM_LENGTH, GraderWarning, family_warning
from skillcomp.live.plan import require_distinct, require_unedited
from skillcomp.live.status import status
from skillcomp.records import Attempt, Case


def compare(
    store: RunStore,
    graders: Sequence[PairwiseGrader],
    *,
    condition: str = "skill",
    reference: str = "baseline",
    budget_usd: float | None = None,
    seed: int = 0,
    concurrency: int = 8,
    batch: bool | BatchLimits = False,
    progress: bool = True,
) -> pd.DataFrame:
    """Have stored answers compared in pairs, blind and in both orders; no answer is touched.

    A pair is two answers with status ``ok`` of one agent to one case, under two conditions and
    with one repeat number. A judgement that was paid for is kept, whatever happens; called again,
    the comparing goes on where it was.

    Parameters
    ----------
    store : RunStore
        The study; nothing else may write to it meanwhile.
    graders : sequence of PairwiseGrader
        One after the other.
    condition, reference : str, default "skill" and "baseline"
        The two conditions. Order 1 shows the answer of `condition` first, order 2 the other.
    budget_usd : float, optional
        Dollars that all comparisons of this store may cost, earlier ones included.
    seed : int, default 0
        Of the order in which pairs are asked for.
    concurrency : int, default 8
        Comparisons under way at once.
    batch : bool or BatchLimits, default False
        Ask through the Message Batches API. Batches that an earlier call left under way are
        collected first in any case.
    progress : bool, default True
        Show progress bars.

    Returns
    -------
    pandas.DataFrame
        The state of the study, as `skillcomp.live.status.status` gives it. The judgements are
        in the table ``pairwise``, read by `skillcomp.frames.pairwise`.

    Raises
    ------
    StudyError
        When there is no pair, an argument is not allowed, a suite or skill was edited inside the
        store, or a grader has another model or other settings than before in this store.
    StoreError
        When another process writes to the store; it is named.
    AgentError
        When no further comparison could succeed, or twenty failed in a row.

    Warns
    -----
    GraderWarning
        When grader and agent share a family; when answers tell their condition; when comparisons
        are left open.

    Notes
    -----
    Every reply is in the table ``comparisons`` before it is looked at. A tie is a judgement
    without a winner. A comparison that failed has no judgement, so that it is never taken for a
    tie: a refused one is final; one that cannot be read, or ended in an error, is asked for again
    at the next start. A grader that cannot be read five times in a row is stopped.

    See Also
    --------
    skillcomp.bias.position : Whether the answer shown first wins for being first.
    """
    pairs = _pairs(store, graders, condition, reference)
    asked = (grader.agent for grader in graders)
    options = Options.of(concurrency, batch, progress, asked)
    families = {one.first.agent_family for one in pairs}
    for grader in graders:
        if told := family_warning(grader, families):
            warnings.warn(told, GraderWarning, stacklevel=2)
    pairs.sort(key=lambda one: whole_hash(seed, one.key))
    study = {"condition": condition, "against": reference, "seed": seed}
    with store.writer():
        settle_graders(store, graders, [1] * len(graders))
        works = [Comparisons(store, grader, pairs, study, options) for grader in graders]
        judge_all(works, budget_usd, "compared")
    return status(store)


@dataclass(frozen=True)
class OrderedPair:
    """Two answers of one case in one order of showing them."""

    case: Case
    order: int
    first: Attempt
    second: Attempt

    @property
    def key(self) -> str:
        """Order and both attempts, from which they can be told again."""
        return json.dumps([self.order, self.first.attempt_id, self.second.attempt_id])

    @property
    def item(self) -> str:
        """What a comparator is told it is called: tells nothing, and is the same at every start."""
        return whole_hash(self.key)[:ITEM_LENGTH]


class Comparisons(Judging[OrderedPair]):
    """One comparator: every order of every pair judged once."""

    stop_note, unit = "What was compared is kept; start again later.", "comparison"
    stage, reply_table, units = "compare", "comparisons", "comparisons"
    result_columns = ("pairwise", "order", "first", "second")
    warning_parts = (
        "comparisons are not made",
        "failed",
        "in {n} comparisons an answer tells its condition (it says that it does not know the "
        "skill, or cites it), so it was not blind to it.",
    )

    def __init__(
        self,
        store: RunStore,
        grader: PairwiseGrader,
        pairs: Sequence[OrderedPair],
        study: Mapping[str, Any],
        options: Options,
    ) -> None:
        super().__init__(store, grader, len(pairs), dict(study), options)
        self.pairs = pairs

    @property
    def purposes(self) -> dict[str, Agent]:
        """What batches of this stage are noted under, and who is asked in them."""
        return {f"compare:{self.grader.name}#{self.grader.version}": self.grader.agent}

    def row_of(self, key: str) -> dict[str, Any]:
        """Return the columns that name a comparison in the table of replies."""
        return dict(zip(("order", "first", "second"), json.loads(key), strict=True))

    def key_of(self, row: Mapping[str, Any]) -> str:
        """Return the key of the pair and order that a line of a table is about."""
        return json.dumps([row["order"], row["first"], row["second"]])

    async def judge(self) -> None:
        """Compare what is open."""
        self.take_replies({})
        done = {self.key_of(row) for row in self.own_rows("pairwise")}
        done |= {key for key, kept in self.replies.items() if kept[-1].status == "refused"}
        pending = [pair for pair in self.pairs if pair.key not in done]
        for pair in pending:
            self.replies[pair.key] = _unused(self.replies[pair.key], pair.item)
        title, (purpose,) = f"comparisons of {self.grader.name}", self.purposes
        self.n_open = await self.do_pending(pending, len(self.pairs), title, purpose)
        self.n_open += len(self.malformed)

    async def work_on(self, job: OrderedPair, *, batched: bool) -> bool:
        """Compare one pair in one order and store the judgement."""
        grader = self.asking(job.key, batched=batched)
        found = await grader.compare(
            job.first, job.second, job.case, item=job.item, order=job.order
        )
        if found.judgement is not None:
            await self.ledger.write("pairwise", [found.judgement])
        last = found.replies[-1]
        ok = last.status in KEPT
        if found.problems:
            self.malformed.add(job.key)
        self.n_given_away += ok and found.gives_away is not None
        return self.is_over(job.key, last, found.problems, ok=ok)


def _unused(kept: Sequence[Reply], item: str) -> list[Reply]:
    """Return the replies that a comparison goes on with: those of no try that was given up."""
    each = ASKED_AGAIN + 1
    last = list(kept[(len(kept) - 1) // each * each :]) if kept else []
    over = len(last) == each and last[-1].status in ("ok", "truncated")
    return [] if over and read_comparison(last[-1].answer or "", item)[1] else last


def _pairs(
    store: RunStore, graders: Sequence[PairwiseGrader], condition: str, reference: str
) -> list[OrderedPair]:
    """Return every pair of answers in both orders; refuse what cannot be compared."""
    for grader in graders:
        if not isinstance(grader, PairwiseGrader):
            raise StudyError(f"graders: found {grader!r}; allowed: PairwiseGrader.")
    require_distinct("grader", graders, lambda grader: grader.name)
    attempts = [one for one in store.records("attempts") if one.perturbation is None]
    there = sorted({one.condition for one in attempts})
    for key, name in (("condition", condition), ("reference", reference)):
        what = f"{key}: {store.path} has no answers under"
        require_known(what, name, there, StudyError, label="there")
    if condition == reference:
        raise StudyError(f"condition and reference are both '{condition}'; give two conditions.")
    cases = {case.case_id: case for suite in store.suites.values() for case in suite.cases}
    sides: dict[str, dict[tuple[Any, ...], Attempt]] = {condition: {}, reference: {}}
    for one in attempts:
        if one.condition in sides and one.status == "ok" and one.answer is not None:
            if one.case_id not in cases:
                raise StudyError(
                    f"attempt '{one.attempt_id}': its case '{one.case_id}' is not in the store; "
                    "add the suite first."
                )
            place = (one.agent, one.skill, one.case_id, one.repeat)
            sides[one.condition].setdefault(place, one)
    both = [
        (sides[condition][at], sides[reference][at])
        for at in sides[condition]
        if at in sides[reference]
    ]
    if not both:
        raise StudyError(
            f"{store.path}: no case has an answer with status ok under both '{condition}' and "
            f"'{reference}' with one repeat number of one agent."
        )
    skills = {mine.skill for mine, _ in both}
    require_unedited(store, [one for one in store.suites.values() if one.skill in skills])
    return [
        OrderedPair(cases[mine.case_id], order, *shown)
        for mine, other in both
        for order, shown in ((1, (mine, other)), (2, (other, mine)))
    ]
