"""Model graders: verdicts on the checks of an answer, or the better of two answers."""

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
    """A model that grades one answer at a time with the prompt of the source report.

    Parameters
    ----------
    agent : Agent
        The model, preferably of another family than the agent under test (`family_warning`).
    style : str, default "forced"
        ``"forced"``: a quote and a reason for every verdict, four forcing functions, and a
        precomputed overlap check that binds the verbatim checks. ``"evidence"``: quotes and
        reasons, and the overlap check as information. ``"impression"``: verdicts only, without
        sight of the skill. These are the three graders of the pilot.
    version : str, optional
        Pins the prompt: the first digits of the version that the study started with.
    name : str, optional
        Label in the frames, by default style and agent. Within a study, a name belongs to one
        model and one set of agent settings.
    ngram : int, default 6
        Length in content tokens of a shared run that counts as copied.
    without : sequence of str
        Parts of the prompt to leave out, to measure their effect: ``"RULE-1"``, ``"RULE-3"``,
        ``"RULE-6"``, ``"RULE-9"`` (forcing functions of style ``forced``), ``"concept_field"`` and
        ``"expected_reasoning"``. Without RULE-6, failures with hedged reasons are accepted; every
        behaviour always needs a verdict.
    reply : {"plain", "report"}, default "plain"
        JSON form of the reply: that of this package or of the source report (appendix A.1).
    template : path, optional
        A custom prompt instead of that of the style, in plain text with the placeholders
        ``{{ skill_body }}``, ``{{ concept_field }}``, ``{{ question }}``, ``{{ answer }}``,
        ``{{ expected_reasoning }}``, ``{{ overlap }}``, ``{{ behaviors }}`` and ``{{ output }}``.
        Each becomes a delimited block; the style still decides which rules a reply must follow.

    Attributes
    ----------
    version : str
        Hash of the prompt (its templates, or the custom one) and of the reply schema, followed by
        the parts left out and by `ngram` if it is not 6.

    Raises
    ------
    GraderError
        If the style does not exist, the pinned version is not the present one, or `without`,
        `reply` or `template` is not allowed.

    Notes
    -----
    The overlap check compares the answer with the whole SKILL.md of the skill, in every condition,
    and ignores text of the prompt, as `skillcomp.overlap.score` does with the tokenizer of the
    report (A.3); each verdict stores its result. After a reply that breaks a rule, the model is
    asked again, at most twice, and shown the problems; then the verdicts are ``malformed`` and keep
    the raw text. If the grader refuses or cannot be reached, the status of its verdicts shows it: a
    failed grader is never a failed agent.
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
        self.agent, self.style, self.version = agent, style, present
        self.name = name or f"{style}:{agent.name}"
        self.model, self.family = agent.model, agent.family
        self._ngram, self._template = ngram, own
        self._form: dict[str, Any] = {"style": style, "without": off, "reply": reply}

    def overlap(self, answer: str, case: Case, skill: Skill) -> list[str]:
        """Return the n-grams that an answer shares with its skill, as shown to the grader."""
        if self.style == "impression":
            return []
        return shared_with_skill(answer, skill, case, n=self._ngram)

    async def grade(
        self, attempt: Attempt, case: Case, skill: Skill, **place: Unpack[Place]
    ) -> Grading:
        """Grade an answer: one verdict for each check.

        Parameters
        ----------
        attempt : Attempt
            An attempt with status ``ok``; the model does not see its condition.
        case : Case
            The attempt's case.
        skill : Skill
            The skill of the case, whichever skill was loaded.
        **place
            The fields of `Place`: round, batch, item and order.

        Returns
        -------
        Grading
            The cost of all replies is divided evenly among the verdicts.

        Raises
        ------
        GraderError
            If there is no answer to grade, or case or skill do not belong to the attempt.
        """
        answer = answer_of(attempt, case, skill)
        item = place.get("item") or blind({attempt.attempt_id: 1}, seed=0)[0].item
        if not case.checks:
            return Grading(())
        shared = self.overlap(answer, case, skill)
        same = {**self._form, "item": item, "answer": answer, "overlap": shared}
        form: dict[str, Any] = {"ngram": self._ngram, "template": self._template}
        prompt = partial(grader_prompt, case=case, skill=skill, **form, **same)
        read = partial(judge, checks=case.checks, dimension=dimension_of(case), **same)
        schema = reply_schema(self.style, self._form["reply"])
        judged, replies, problems = await ask_until_read(self.agent, prompt, schema, read)
        about = {**self.about(attempt, place, replies), "item": item}
        if self.style != "impression":
            overlap_record = {"rule": OVERLAP_RULE, "n": self._ngram, "shared": shared}
            about["overlap"] = json.dumps(overlap_record, ensure_ascii=False)
        verdicts = verdicts_of(case, replies, judged or {}, about)
        return Grading(verdicts, tuple(replies), tuple(problems), gives_condition_away(answer))


@dataclass(frozen=True)
class Comparison:
    """The result of comparing two answers in one order.

    Attributes
    ----------
    judgement : PairwiseJudgement or None
        None if the comparator refused, could not be reached or gave no usable reply.
    replies : tuple of Reply
        All replies in order, including malformed ones (they cost money too).
    problems : tuple of str
        Why the last reply cannot be used; empty if it can.
    gives_away : str or None
        Words by which an answer reveals its condition.
    """

    judgement: PairwiseJudgement | None
    replies: tuple[Reply, ...] = ()
    problems: tuple[str, ...] = ()
    gives_away: str | None = None


class PairwiseGrader(BaseGrader):
    """A model that chooses the better of two answers to a case, or declares a tie.

    It sees the question and both answers, each delimited and escaped, but not the skill, the
    condition, the attempt or the behaviours. `skillcomp.compare` shows it both orders.

    Parameters
    ----------
    agent : Agent
        The model, preferably of another family than the agent under test.
    version : str, optional
        Pins the prompt: the first digits of the version that the study started with.
    name : str, optional
        Label in the frames, by default ``pairwise`` and the agent.

    Attributes
    ----------
    version : str
        Hash of the templates of the prompt and of the reply schema.

    Raises
    ------
    GraderError
        If the pinned version is not the present one.

    Notes
    -----
    The rationale comes before the verdict. After a reply that cannot be read, the model is asked
    again, at most twice, and shown the problems. Judges of pairs favour a position, and longer
    answers: `skillcomp.bias.position` estimates the former from both orders (Zheng et al. 2023,
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
        self.agent, self.version = agent, present
        self.name = name or f"pairwise:{agent.name}"
        self.model, self.family = agent.model, agent.family

    async def compare(
        self, first: Attempt, second: Attempt, case: Case, *, item: str, order: int = 1
    ) -> Comparison:
        """Compare two answers, shown in this order.

        Parameters
        ----------
        first, second : Attempt
            Two answers to the case with status ``ok``, in the order shown.
        case : Case
            The case of both.
        item : str
            Name of the comparison; the model sees it, so it must reveal nothing.
        order : int, default 1
            1 or 2; only recorded.

        Returns
        -------
        Comparison
            A tie is a judgement with ``winner`` None; a failure has no judgement.

        Raises
        ------
        GraderError
            If an answer is missing or belongs to another case.
        """
        texts = [answer_of(attempt, case, done="compared") for attempt in (first, second)]
        telltale = next(filter(None, map(gives_condition_away, texts)), None)
        answers = {"first": texts[0], "second": texts[1]}
        prompt = partial(COMPARATOR.about, question=case.prompt, item=item, **answers)
        reply, replies, problems = await ask_until_read(
            self.agent, prompt, COMPARATOR.reply, partial(read_comparison, item=item)
        )
        if reply is None:
            return Comparison(None, tuple(replies), tuple(problems), telltale)
        place = None if reply.better == "tie" else int(reply.better)
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
            rationale=reply.rationale,
        )
        return Comparison(judgement, tuple(replies), (), telltale)


def read_comparison(text: str, item: str) -> tuple[ComparisonReply | None, list[str]]:
    """Parse a reply of the comparator; return it, or None, and its problems."""
    reply, problems = read_item(text, COMPARATOR.reply, item)
    if reply is not None and not reply.rationale.strip():
        problems.append("The rationale is empty.")
    return (None if problems else reply), problems
