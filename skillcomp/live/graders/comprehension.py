"""Graders that ask a model to judge the checks of an answer, or to choose the better answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Unpack

from skillcomp.errors import GraderError, require_whole
from skillcomp.grading_rules import overlap_record, shared_with_skill
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
    """A model that grades one answer at a time with the prompt of the comprehension report.

    Parameters
    ----------
    agent : Agent
        The model, preferably of another family than the agent under test.
    style : str, default "forced"
        With ``"forced"``, the model must give a quote and a reason for every verdict and follow
        four rules (the forcing functions); an overlap check, computed beforehand, decides the
        checks that forbid copying. With ``"evidence"``, it must give quotes and reasons, and it
        sees the result of the overlap check. With ``"impression"``, it gives only verdicts and does
        not see the skill. These are the three graders of the pilot.
    version : str, optional
        First digits of the version that the study started with; another version is an error.
    name : str, optional
        Label of the grader in the frames. Default: the style and the agent's name. Within a study,
        a name belongs to one model and one set of agent settings.
    ngram : int, default 6
        An answer counts as copying if it shares this many consecutive content tokens with the
        skill. The check does not apply to an answer with fewer tokens.
    without : sequence of str
        Parts of the prompt to leave out, to measure their effect: ``"RULE-1"``, ``"RULE-3"``,
        ``"RULE-6"``, ``"RULE-9"`` (forcing functions of style ``forced``), ``"concept_field"`` and
        ``"expected_reasoning"``. Without RULE-6, a FAIL with a hedged reason is accepted. Every
        behaviour needs a verdict, even without RULE-9.
    reply : {"plain", "report"}, default "plain"
        JSON format of the reply: ``"plain"`` is the format of this package, and ``"report"`` is the
        format in appendix A.1 of the comprehension report.
    template : path, optional
        File of a custom prompt that replaces the style's prompt: plain text with the placeholders
        ``{{ skill_body }}``, ``{{ concept_field }}``, ``{{ question }}``, ``{{ answer }}``,
        ``{{ expected_reasoning }}``, ``{{ overlap }}``, ``{{ behaviors }}`` and ``{{ output }}``.
        A delimited block replaces each placeholder. The style still decides which rules a reply
        must follow.

    Attributes
    ----------
    version : str
        Hash of the prompt (of the style's templates or of the custom prompt) and of the reply
        schema. After the hash come the names of the parts left out and, except with style
        ``impression``, `ngram` if it is not 6.

    Raises
    ------
    GraderError
        If the style does not exist, `version` is not that of the present prompt, or `ngram`,
        `without`, `reply` or `template` is not allowed.

    Notes
    -----
    The overlap check compares the answer with the whole SKILL.md of the case's skill, in every
    condition, and ignores n-grams that also occur in the prompt. `skillcomp.overlap.score` with
    the default tokenizer does the same. Each verdict stores the result of the check. An answer with
    fewer than `ngram` tokens is too short to be checked: the prompt then has no result, and the
    model decides the checks that forbid copying.

    A quote is valid if it has at least three words or is a whole sentence, line or answer. For a
    FAIL of a positive behaviour or a PASS of a negative one, any quote from the answer is valid.

    After a reply that breaks a rule, the model is shown the problems and asked again, at most
    twice. If the last reply still breaks a rule, the verdicts are ``malformed`` and keep its raw
    text. If the grader refuses or cannot be reached, the status of the verdicts shows this; a
    failure of the grader never counts as a failure of the agent.
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
        require_whole("ngram", ngram, GraderError)
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
        _require_version(f"ComprehensionGrader, style '{style}'", version, present)
        self.set_agent(agent)
        self.style, self.version = style, present
        self.name = name or f"{style}:{agent.name}"
        self._ngram, self._template = ngram, own
        self._form: dict[str, Any] = {"style": style, "without": off, "reply": reply}

    def overlap(self, answer: str, case: Case, skill: Skill) -> list[str] | None:
        """Return the n-grams that answer and skill share; [] with style ``impression``.

        Return None if the answer is too short to be checked.
        """
        if self.style == "impression":
            return []
        return shared_with_skill(answer, skill, case, n=self._ngram)

    async def grade(
        self, attempt: Attempt, case: Case, skill: Skill, **place: Unpack[Place]
    ) -> Grading:
        """Grade an answer and return one verdict for each check.

        Parameters
        ----------
        attempt : Attempt
            An attempt with status ``ok``; the model does not see its condition.
        case : Case
            The attempt's case.
        skill : Skill
            The skill of the case, even if the agent had another skill loaded or none.
        **place
            The fields of `Place`: round, batch, item and order.

        Returns
        -------
        Grading
            The verdicts and replies. Each verdict has an equal share of the cost of all replies.

        Raises
        ------
        GraderError
            If there is no answer to grade, or if the case or the skill is not that of the attempt.
        """
        answer = answer_of(attempt, case, skill)
        item = place.get("item") or blind({attempt.attempt_id: 1}, seed=0)[0].item
        shared = self.overlap(answer, case, skill)
        same = {**self._form, "item": item, "answer": answer, "overlap": shared}
        prompt = partial(
            grader_prompt,
            case=case,
            skill=skill,
            ngram=self._ngram,
            template=self._template,
            **same,
        )
        read = partial(judge, checks=case.checks, dimension=dimension_of(case), **same)
        schema = reply_schema(self.style, self._form["reply"])
        judged, replies, problems = await ask_until_read(self.agent, prompt, schema, read)
        about = {**self.about(attempt, place, replies), "item": item}
        if self.style != "impression":
            about["overlap"] = overlap_record(shared, n=self._ngram)
        verdicts = verdicts_of(case, replies, judged or {}, about)
        telltale = gives_condition_away(answer)
        return Grading(tuple(verdicts), tuple(replies), tuple(problems), telltale)


def _require_version(grader: str, version: str | None, present: str) -> None:
    if version is not None and not present.startswith(version):
        raise GraderError(
            f"{grader}: version '{version}' is asked for, but the prompt is now '{present}'. "
            "Verdicts of two versions are two graders: leave version= out to grade anew, or "
            "install the release that the study was begun with."
        )


@dataclass(frozen=True)
class Comparison:
    """The result of comparing two answers in one order.

    Attributes
    ----------
    judgement : PairwiseJudgement or None
        The judgement; None if the model refused, could not be reached or gave no usable reply.
    replies : tuple of Reply
        All replies in order, including malformed ones, because they cost money too.
    problems : tuple of str
        Reasons why the last reply cannot be used; empty if it can be used.
    gives_away : str or None
        Words by which an answer reveals its condition; None if no such words were found.
    """

    judgement: PairwiseJudgement | None
    replies: tuple[Reply, ...] = ()
    problems: tuple[str, ...] = ()
    gives_away: str | None = None


class PairwiseGrader(BaseGrader):
    """A model that chooses the better of two answers to a case, or declares a tie.

    The model sees the question and both answers, each delimited and escaped, but not the skill,
    the conditions, the attempt_ids or the behaviours. `skillcomp.compare` shows each pair in both
    orders.

    Parameters
    ----------
    agent : Agent
        The model, preferably of another family than the agent under test.
    version : str, optional
        First digits of the version that the study started with; another version is an error.
    name : str, optional
        Label of the grader in the frames. Default: ``pairwise`` and the agent's name.

    Attributes
    ----------
    version : str
        Hash of the templates of the prompt and of the reply schema.

    Raises
    ------
    GraderError
        If `version` is not that of the present prompt.

    Notes
    -----
    In a reply, the rationale comes before the verdict. After a reply that cannot be used, the model
    is shown the problems and asked again, at most twice. Models that compare answers tend to prefer
    the answer in one position (Zheng et al. 2023, arXiv:2306.05685) and longer answers.
    `skillcomp.bias.position` estimates the preference for a position from both orders.
    """

    agent: Agent

    def __init__(
        self, agent: Agent, *, version: str | None = None, name: str | None = None
    ) -> None:
        present = COMPARATOR.version
        _require_version("PairwiseGrader", version, present)
        self.set_agent(agent)
        self.version = present
        self.name = name or f"pairwise:{agent.name}"

    async def compare(
        self, first: Attempt, second: Attempt, case: Case, *, item: str, order: int = 1
    ) -> Comparison:
        """Compare two answers, shown to the model in the given order.

        Parameters
        ----------
        first, second : Attempt
            Two attempts at the case, both with status ``ok``; `first` is shown first.
        case : Case
            The case of both attempts.
        item : str
            Blind name of the comparison. The model sees it, so it must not reveal the conditions.
        order : int, default 1
            Number of this order of the pair, 1 or 2. The judgement records the number; the prompt
            does not depend on it.

        Returns
        -------
        Comparison
            The result. A tie is a judgement with ``winner`` None; a failed comparison has no
            judgement.

        Raises
        ------
        GraderError
            If an answer is missing or belongs to another case.
        """
        texts = [answer_of(attempt, case, done="compared") for attempt in (first, second)]
        telltale = next(filter(None, map(gives_condition_away, texts)), None)
        prompt = partial(
            COMPARATOR.about, question=case.prompt, item=item, first=texts[0], second=texts[1]
        )
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
    """Return the parsed reply to a comparison (None if unusable), and its problems."""

    def fault(reply: ComparisonReply) -> str:
        return "" if reply.rationale.strip() else "The rationale is empty."

    return read_item(text, COMPARATOR.reply, item, fault)
