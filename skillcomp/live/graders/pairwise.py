"""A blind comparator: which of two answers of one case is better, in one order of showing them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from skillcomp.errors import GraderError
from skillcomp.live.agents.reply import Agent, Reply
from skillcomp.live.graders.comprehension import BaseGrader, ask_until_read
from skillcomp.live.graders.prompts import (
    ComparisonReply,
    comparator_prompt,
    comparator_version,
)
from skillcomp.live.graders.rules import gives_condition_away, read_json
from skillcomp.records import Attempt, Case, PairwiseJudgement


@dataclass(frozen=True)
class Comparison:
    """All that came of comparing two answers in one order.

    Attributes
    ----------
    judgement : PairwiseJudgement or None
        None when the comparator failed: it refused, could not be reached or could not be read.
    replies : tuple of Reply
        Every reply that was paid for, the malformed ones too, in order.
    problems : tuple of str
        Why the last reply could not be read; empty when it could.
    gives_away : str or None
        Words by which an answer tells its condition.
    """

    judgement: PairwiseJudgement | None
    replies: tuple[Reply, ...] = ()
    problems: tuple[str, ...] = ()
    gives_away: str | None = None


class PairwiseGrader(BaseGrader):
    """A model that says which of two answers of one case is better, or that neither is.

    It is shown the question and both answers, each delimited and escaped, and neither skill,
    condition, attempt nor behaviours. `skillcomp.compare` shows it both orders.

    Parameters
    ----------
    agent : Agent
        Who is asked; best a model of another family than the agent under test.
    version : str, optional
        Pins the prompt: the first digits of the version that a study was begun with.
    name : str, optional
        The label in the frames; ``pairwise`` and the agent when not given.

    Attributes
    ----------
    version : str
        Hash of the prompt's templates and of the reply's schema.

    Raises
    ------
    GraderError
        When the pinned version is another than the present one.

    Notes
    -----
    The rationale is asked for before the verdict. A reply that cannot be read is asked for again
    at most twice, with what was wrong. Judges of pairs favour a place, and longer answers:
    `skillcomp.bias.position` finds the first from both orders (Zheng et al. 2023,
    arXiv:2306.05685).
    """

    agent: Agent

    def __init__(
        self, agent: Agent, *, version: str | None = None, name: str | None = None
    ) -> None:
        present = comparator_version()
        if version is not None and not present.startswith(version):
            raise GraderError(
                f"PairwiseGrader: version '{version}' is asked for, but the prompt is now "
                f"'{present}'. Judgements of two versions are two graders: leave version= out to "
                "compare anew, or install the release that the study was begun with."
            )
        self.agent = agent
        self.version = present
        self.name = name or f"pairwise:{agent.name}"
        self.model, self.family = agent.model, agent.family

    async def compare(
        self, first: Attempt, second: Attempt, case: Case, *, item: str, order: int = 1
    ) -> Comparison:
        """Return which of two answers is better, shown in this order.

        Parameters
        ----------
        first, second : Attempt
            Two answers of the case with status ``ok``, as they are shown.
        case : Case
            The case of both.
        item : str
            What the comparator is told the comparison is called, so it must be blind.
        order : int, default 1
            1 or 2, for the record.

        Returns
        -------
        Comparison
            A tie is a judgement whose ``winner`` is None; a failure is no judgement.

        Raises
        ------
        GraderError
            When an answer is missing or of another case.
        """
        texts = [_answer(one, case) for one in (first, second)]
        given = next(filter(None, map(gives_condition_away, texts)), None)
        shown = {"first": texts[0], "second": texts[1]}
        prompt = partial(comparator_prompt, question=case.prompt, item=item, **shown)
        found, replies, problems = await ask_until_read(
            self.agent, prompt, ComparisonReply, partial(read_comparison, item=item)
        )
        if found is None:
            return Comparison(None, tuple(replies), tuple(problems), given)
        place = None if found.better == "tie" else int(found.better)
        judgement = PairwiseJudgement(
            skill=first.skill,
            case_id=case.case_id,
            grader=self.name,
            order=order,
            first=first.attempt_id,
            second=second.attempt_id,
            winner=None if place is None else (first, second)[place - 1].attempt_id,
            winner_position=place,
            grader_model=replies[-1].model or self.model,
            grader_family=self.family,
            grader_version=self.version,
            rationale=found.rationale,
        )
        return Comparison(judgement, tuple(replies), (), given)


def read_comparison(text: str, item: str) -> tuple[ComparisonReply | None, list[str]]:
    """Return what a comparator's reply says, and why it cannot be used where it cannot."""
    found, problem = read_json(text, ComparisonReply)
    if found is None:
        return None, [problem]
    problems = [] if found.item == item else [f"item must be '{item}'."]
    problems += [] if found.rationale.strip() else ["The rationale is empty."]
    return (None, problems) if problems else (found, [])


def _answer(attempt: Attempt, case: Case) -> str:
    if attempt.status != "ok" or attempt.answer is None:
        raise GraderError(
            f"Attempt '{attempt.attempt_id}' has status '{attempt.status}' and nothing to compare; "
            "only answers with status 'ok' are compared."
        )
    if attempt.case_id != case.case_id:
        raise GraderError(
            f"Attempt '{attempt.attempt_id}' belongs to case '{attempt.case_id}', not to "
            f"'{case.case_id}'."
        )
    return attempt.answer
