"""Compare stored answers in pairs, with graders that do not see the conditions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from skillcomp.errors import StudyError, require_known
from skillcomp.grading_rules import addresses_grader
from skillcomp.io.files import JsonObject
from skillcomp.io.store import RunStore, as_store
from skillcomp.live.agents.agent import whole_hash
from skillcomp.live.engine import KEPT, Judging, Options, do_stage
from skillcomp.live.grade import settle_graders, warn_of_shared_family
from skillcomp.live.graders.comprehension import PairwiseGrader, read_comparison
from skillcomp.live.graders.grader import ASKED_AGAIN, ITEM_LENGTH
from skillcomp.live.plan import cases_by_id, require_distinct, require_unedited
from skillcomp.live.status import status
from skillcomp.records import Attempt, Case


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
    options = Options(concurrency, progress)
    warn_of_shared_family(graders, [pair.first.agent_family for pair in pairs])
    pairs.sort(key=lambda pair: whole_hash(seed, pair.key))
    study = {"condition": condition, "against": reference, "seed": seed}
    with store.writer():
        settle_graders(store, graders)
        works = [Comparisons(store, grader, pairs, study, options) for grader in graders]
        do_stage(works, budget_usd)
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
        title = f"comparisons of {self.grader.name}"
        n_open = await self.do_all(pending, len(self.jobs), title)
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
    require_distinct("grader", graders, lambda grader: grader.name)
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
