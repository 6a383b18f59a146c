"""Graders that are models: one verdict a check of an answer, or the better of two answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Unpack

from skillcomp.errors import GraderError
from skillcomp.grading_rules import OVERLAP_RULE, shared_with_skill
from skillcomp.live.agents.agent import Agent, Reply
from skillcomp.live.graders.grader import (
    BaseGrader,
    Grading,
    Place,
    answer_of,
    ask_until_read,
    blind,
    verdicts_of,
)
from skillcomp.live.graders.prompts import (
    COMPARATOR,
    ComparisonReply,
    ReplyForm,
    Style,
    dimension_of,
    grader_prompt,
    grader_version,
    read_template,
    reply_schema,
    switched_off,
)
from skillcomp.live.graders.reply import gives_condition_away, judge, read_item
from skillcomp.records import Attempt, Case, PairwiseJudgement, Skill


class ComprehensionGrader(BaseGrader):
    """A model that grades one answer at a time by the source report's prompt.

    Parameters
    ----------
    agent : Agent
        Who is asked; best a model of another family than the agent under test (`family_warning`).
    style : str, default "forced"
        ``"forced"``: a quote and a reason for every verdict, four forcing functions, and a
        precomputed overlap check that binds the verbatim checks. ``"evidence"``: quotes and
        reasons, and the overlap check as information. ``"impression"``: neither, and no sight of
        the skill. These are the three graders of the pilot.
    version : str, optional
        Pins the prompt: the first digits of the version that a study was begun with.
    name : str, optional
        The label in the frames; style and agent when not given. A study keeps one model and one
        set of the agent's settings under a name.
    ngram : int, default 6
        Length in content tokens of a shared run that counts as copied.
    without : sequence of str
        What is left out, to measure what it does: ``"RULE-1"``, ``"RULE-3"``, ``"RULE-6"``,
        ``"RULE-9"`` (forcing functions of style ``forced``), ``"concept_field"`` and
        ``"expected_reasoning"``. Without RULE-6 hedged failures are not held against a reply; a
        verdict for each behaviour is always required.
    reply : {"plain", "report"}, default "plain"
        The JSON asked for: this package's, or that of the source report (its appendix A.1).
    template : path, optional
        A prompt of one's own in the place of the style's, in plain text with the placeholders
        ``{{ skill_body }}``, ``{{ concept_field }}``, ``{{ question }}``, ``{{ answer }}``,
        ``{{ expected_reasoning }}``, ``{{ overlap }}``, ``{{ behaviors }}`` and ``{{ output }}``.
        Each becomes a delimited block; the style still says which rules a reply is held against.

    Attributes
    ----------
    version : str
        Hash of the prompt's templates (or of one's own) and of the reply's schema, then what is
        left out, and `ngram` where it is not 6.

    Raises
    ------
    GraderError
        When the style does not exist, the pinned version is another than the present one, or
        `without`, `reply` or `template` is not allowed.

    Notes
    -----
    The overlap check compares the answer with the skill's whole SKILL.md, in every condition, and
    leaves out what stands in the prompt, as `skillcomp.overlap.score` does, by the report's
    tokenizer (A.3); each verdict keeps what it found. A reply that breaks a rule is asked for again
    at most twice, with what was wrong; then its verdicts are ``malformed`` and keep the raw text. A
    grader that refuses or cannot be reached gives verdicts that say so: a failed grader is never a
    failed agent.
    """

    agent: Agent

    def __init__(
        self,
        agent: Agent,
        *,
        version: str | None = None,
        style: Style = "forced",
        name: str | None = None,
        ngram: int = 6,
        without: Sequence[str] = (),
        reply: ReplyForm = "plain",
        template: str | Path | None = None,
    ) -> None:
        off = switched_off(without, style)
        own = read_template(template) if template is not None else None
        if own is not None and any(name.startswith("RULE") for name in set(off) - {"RULE-6"}):
            raise GraderError(
                "without: a template of one's own says by itself which rules it tells; allowed "
                "with template=: RULE-6, concept_field, expected_reasoning."
            )
        present = grader_version(style, off, reply, own)
        if ngram != 6 and style != "impression":
            present = f"{present}-n{ngram}"
        if version is not None and not present.startswith(version):
            raise GraderError(
                f"ComprehensionGrader: version '{version}' is asked for, but the prompt of style "
                f"'{style}' is now '{present}'. Verdicts of two versions are two graders: leave "
                "version= out to grade anew, or install the release that the study was begun with."
            )
        self.agent, self.style = agent, style
        self.version = present
        self.name = name or f"{style}:{agent.name}"
        self.model, self.family = agent.model, agent.family
        self._ngram, self._without, self._reply, self._template = ngram, off, reply, own

    def overlap(self, answer: str, case: Case, skill: Skill) -> list[str]:
        """Return the n-grams that an answer shares with its skill, as its grader is told."""
        if self.style == "impression":
            return []
        return shared_with_skill(answer, skill, case, n=self._ngram)

    async def grade(
        self, attempt: Attempt, case: Case, skill: Skill, **place: Unpack[Place]
    ) -> Grading:
        """Return one verdict a check on an answer.

        Parameters
        ----------
        attempt : Attempt
            With status ``ok``; its condition is not told.
        case : Case
            The attempt's case.
        skill : Skill
            The skill that the case belongs to, whatever was loaded.
        **place
            The fields of `Place`: round, batch, item and order.

        Returns
        -------
        Grading
            The cost of all replies is shared out evenly over the verdicts.

        Raises
        ------
        GraderError
            When there is no answer to grade, or case or skill are not the attempt's.
        """
        answer = answer_of(attempt, case, skill)
        item = place.get("item") or blind({attempt.attempt_id: 1}, seed=0)[0].item
        if not case.checks:
            return Grading(())
        shared = self.overlap(answer, case, skill)
        same: dict[str, Any] = {
            "style": self.style,
            "item": item,
            "answer": answer,
            "overlap": shared,
            "without": self._without,
            "reply": self._reply,
        }
        prompt = partial(
            grader_prompt,
            case=case,
            skill=skill,
            ngram=self._ngram,
            template=self._template,
            **same,
        )
        read = partial(judge, checks=case.checks, dimension=dimension_of(case), **same)
        schema = reply_schema(self.style, self._reply)
        judged, replies, problems = await ask_until_read(self.agent, prompt, schema, read)
        about = {**self.about(attempt, place, replies), "item": item}
        if self.style != "impression":
            found = {"rule": OVERLAP_RULE, "n": self._ngram, "shared": shared}
            about["overlap"] = json.dumps(found, ensure_ascii=False)
        verdicts = verdicts_of(case, replies, judged or {}, about)
        return Grading(verdicts, tuple(replies), tuple(problems), gives_condition_away(answer))


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
        present = COMPARATOR.version
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
        texts = [answer_of(one, case, done="compared") for one in (first, second)]
        given = next(filter(None, map(gives_condition_away, texts)), None)
        shown = {"first": texts[0], "second": texts[1]}
        prompt = partial(COMPARATOR.about, question=case.prompt, item=item, **shown)
        found, replies, problems = await ask_until_read(
            self.agent, prompt, COMPARATOR.reply, partial(read_comparison, item=item)
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
    found, problems = read_item(text, COMPARATOR.reply, item)
    if found is not None and not found.rationale.strip():
        problems.append("The rationale is empty.")
    return (None if problems else found), problems
