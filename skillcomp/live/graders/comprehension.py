"""Graders that ask a model to judge the checks of an answer, or to choose the better answer.

Replies are parsed and checked by rules, and words that reveal an answer's condition are found.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Unpack

from skillcomp.errors import GraderError, plural, shortened
from skillcomp.grading_rules import (
    HEDGES_ON_FAIL,
    HEDGES_ON_PASS,
    forbids_copying,
    hedges,
    is_valid_quote,
    needs_evidence,
    normalise_quote,
    overlap_record,
    shared_with_skill,
)
from skillcomp.io.files import decode, read_own
from skillcomp.live.agents.agent import Agent, Reply
from skillcomp.live.graders.grader import (
    COMPARATOR,
    BaseGrader,
    GraderForm,
    Grading,
    ImpressionReply,
    Judge,
    Judged,
    Place,
    ReplyForm,
    ReportReply,
    Shown,
    Style,
    Without,
    answer_of,
    ask_until_read,
    dimension_of,
    item_of,
    read_json,
    read_template,
    verdicts_of,
)
from skillcomp.records import Attempt, Case, Check, PairwiseJudgement, Skill

_MAX_SHOWN = 5

# Phrases that reveal the condition. Without the skill, an answer may say that it does not know a
# term (_UNKNOWING). With the skill, it may cite the skill (_CITING).
_UNKNOWING = re.compile(
    r"\b(?:i(?:'m| am) (?:not (?:familiar|aware|acquainted)|unfamiliar)"
    r"|(?:i )?(?:do not|don't|cannot|can't) (?:actually )?"
    r"(?:know|recogni[sz]e|have (?:a|any) (?:specific |reliable |established |solid )?"
    r"(?:knowledge|definition|information|record|source|reference|account))"
    r"|not (?:a|an) (?:[a-z-]+ ){0,3}(?:term|concept|practice|method|name|phrase) "
    r"(?:that )?(?:i|i'm|i am)\b"
    r"|isn't (?:a|an) (?:[a-z-]+ ){0,3}(?:term|concept|practice|method|name|phrase) (?:that )?i\b"
    r"|no skill (?:is |was )?loaded)",
    re.IGNORECASE,
)
_CITING = re.compile(
    r"\b(?:the (?:loaded |given |provided )?skill (?:says|states|defines|calls|tells)"
    r"|according to the (?:loaded )?skill|skill\.md|in my (?:loaded )?skill)\b",
    re.IGNORECASE,
)


def judge(text: str, form: GraderForm, shown: Shown) -> tuple[dict[str, Judged], list[str]]:
    """Return the verdicts in a reply by check_id, and the problems of the reply.

    If the reply has a problem, no verdicts are returned. A reply in the JSON format of the
    comprehension report must also give the dimension of the case, the kind of each check and the
    result of the overlap check. If the overlap check failed, the reply must list the shared
    n-grams.
    """
    parsed, problem = read_json(text, form.schema)
    if parsed is None:
        return {}, [problem]
    checks = {check.check_id: check for check in shown.case.checks}
    rows, item, overlap = parsed.behavior_verdicts, shown.item, shown.overlap
    if isinstance(parsed, ReportReply):
        dimension, own = dimension_of(shown.case), parsed.verbatim_overlap_check
        problems = [] if str(parsed.case_id) == item else [f"case_id must be '{item}'."]
        if parsed.dimension != dimension:
            problems.append(f"dimension must be '{dimension}'.")
        problems += [
            f"{row.id}: kind must be '{checks[row.id].check_kind}'."
            for row in parsed.behavior_verdicts
            if row.id in checks and row.kind != checks[row.id].check_kind
        ]
        place = "verbatim_overlap_check: passed"
        if own.passed == bool(own.overlap_ngrams):
            problems.append(f"{place} is true exactly if overlap_ngrams is empty.")
        if overlap is not None and own.passed == bool(overlap):
            must = f"false: the answer shares '{overlap[0]}' with the skill" if overlap else "true"
            problems.append(f"{place} must be {must}.")
    else:
        problems = [] if parsed.item == item else [f"item must be '{item}'."]
    count = Counter(row.id for row in rows)
    if missing := [name for name in checks if not count[name]]:
        problems.append(f"RULE-9: no verdict for {shortened(missing, _MAX_SHOWN)}.")
    if twice := [name for name in checks if count[name] > 1]:
        problems.append(f"RULE-1: more than one verdict for {shortened(twice, _MAX_SHOWN)}.")
    # Unknown ids are free text, so do not repeat them in the next prompt, which lists the problems.
    if strange := sum(n for name, n in count.items() if name not in checks):
        problems.append(f"RULE-1: {plural(strange, 'verdict')} with an id that is not in the list.")
    if problems:
        return {}, problems
    if isinstance(parsed, ImpressionReply):
        return {row.id: Judged(row.verdict == "PASS") for row in rows}, []
    dimension_passed = parsed.dimension_verdict == "PASS"
    judged = {}
    for row in parsed.behavior_verdicts:
        # a quote can contain HTML escapes, because the prompt shows the answer with such escapes
        quote = html.unescape(row.evidence_quote)
        if normalise_quote(quote) not in normalise_quote(shown.answer):
            quote = row.evidence_quote
        passed = row.verdict == "PASS"
        judged[row.id] = Judged(
            passed,
            quote,
            row.rationale,
            borderline=passed and hedges(row.rationale, HEDGES_ON_PASS) is not None,
            dimension_passed=dimension_passed,
        )
        problems += _broken_rules(checks[row.id], judged[row.id], form, shown)
    if dimension_passed != all(verdict.passed for verdict in judged.values()):
        problems.append("dimension_verdict must be PASS exactly if every behavior is PASS.")
    return ({}, problems) if problems else (judged, [])


def _broken_rules(check: Check, verdict: Judged, form: GraderForm, shown: Shown) -> list[str]:
    answer, overlap = shown.answer, shown.overlap
    name, problems = check.check_id, []
    quote = normalise_quote(verdict.evidence_quote or "")
    # the quote may be empty if the answer is empty, because there is nothing to quote
    if not quote and answer.strip():
        problems.append(f"{name}: evidence_quote is empty; quote the closest place.")
    elif quote not in normalise_quote(answer):
        problems.append(f"{name}: evidence_quote does not stand in the answer letter by letter.")
    elif needs_evidence(check.check_kind, passed=verdict.passed) and not is_valid_quote(
        quote, answer
    ):
        least = "three words or more, or a whole sentence, line or answer"
        problems.append(f"{name}: evidence_quote is too short; quote {least}.")
    if not (verdict.rationale or "").strip():
        problems.append(f"{name}: the rationale is empty.")
    if form.style != "forced":
        return problems
    is_held = not verdict.passed and "RULE-6" not in form.without
    if is_held and (hedge := hedges(verdict.rationale or "", HEDGES_ON_FAIL)):
        problems.append(f"RULE-6: {name} is FAIL and its rationale says '{hedge}'.")
    if overlap is not None and forbids_copying(check) and verdict.passed == bool(overlap):
        must = "FAIL" if overlap else "PASS"
        problems.append(f"{name}: the overlap check is final, so this must be {must}.")
    return problems


def gives_condition_away(answer: str) -> str | None:
    """Return the words by which an answer reveals its condition to a grader, or None.

    Notes
    -----
    Only English phrases are found. An answer without them can still reveal its condition.

    Examples
    --------
    >>> gives_condition_away("I'm not familiar with that term, so this is a guess.")
    "I'm not familiar"
    >>> gives_condition_away("A tidemark is drawn once.") is None
    True
    """
    plain = answer.replace("’", "'")
    match = _UNKNOWING.search(plain) or _CITING.search(plain)
    return match.group(0) if match else None


def read_reply(
    reply: str | Path,
    attempt: Attempt,
    case: Case,
    skill: Skill,
    *,
    grader: str,
    model: str | None = None,
    family: str | None = None,
    version: str | None = None,
    round: int = 1,
    ngram: int = 6,
) -> Grading:
    """Read verdicts from a grader's reply in the JSON format of the comprehension report.

    Appendix A.1 of the comprehension report describes the format.

    The reply must follow the rules that `ComprehensionGrader` applies with style ``forced``.

    Parameters
    ----------
    reply : str or Path
        Text of the reply, or the `Path` of a file that contains it. ``<verdict>`` tags and text
        around the JSON are allowed.
    attempt, case, skill : Attempt, Case, Skill
        The graded attempt with its case and skill. The reply must give the ``case_id`` of the case,
        with or without the suite's name in front; it may be a number.
    grader : str
        Name of the grader in the frames.
    model, family, version : str, optional
        Model, model family and version of the grader.
    round : int, default 1
        Number of the grading round; 2 or more for a repeated grading.
    ngram : int, default 6
        Number of consecutive content tokens that count as copying, as in `ComprehensionGrader`.

    Returns
    -------
    Grading
        One verdict for each check; ``store.append("verdicts", grading.verdicts)`` records them. The
        reply breaks a rule if, for example, a verdict is missing, a quote is not in the answer, a
        FAIL is hedged, or the reply contradicts the overlap of answer and skill, which this
        function computes. Then all verdicts have status ``malformed`` and keep the reply in
        ``raw``, and ``problems`` lists the reasons.

    Raises
    ------
    GraderError
        If the file cannot be read, the attempt has no answer, or the case or the skill is not that
        of the attempt.
    """
    if isinstance(reply, Path):
        text = decode(read_own(reply, what="reply", error=GraderError), reply, GraderError)
    else:
        text = reply
    answer = answer_of(attempt, case, skill)
    if not case.checks:
        return Grading(())
    parsed, _ = read_json(text, ReportReply)
    number = case.own_id
    item = number if parsed and str(parsed.case_id) == number else case.case_id
    shared = shared_with_skill(answer, skill, case, n=ngram)
    form = GraderForm(reply="report", ngram=ngram)
    judged, problems = judge(text, form, Shown(case, skill, answer, item, shared))
    who = Judge()
    who.name, who.model, who.family, who.version = grader, model, family, version
    replies = (Reply(answer=text, model=model),)
    about = who.about(attempt, {"round": round, "item": item})
    about["overlap"] = overlap_record(shared, n=ngram)
    verdicts = verdicts_of(case, replies, judged, about)
    return Grading(verdicts, replies, tuple(problems), gives_condition_away(answer))


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
        without: Sequence[Without] = (),
        reply: ReplyForm = "plain",
        template: str | Path | None = None,
    ) -> None:
        own = None if template is None else read_template(template)
        self._form = form = GraderForm(style, without, reply, own, ngram)
        _require_version(f"ComprehensionGrader, style '{style}'", version, form.version)
        self.set_agent(agent)
        self.style, self.version = style, form.version
        self.name = name or f"{style}:{agent.name}"

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
        answer, item = answer_of(attempt, case, skill), item_of(attempt, place)
        form, is_shown = self._form, self.style != "impression"
        shared = shared_with_skill(answer, skill, case, n=form.ngram) if is_shown else []
        shown = Shown(case, skill, answer, item, shared)
        judged, replies, problems = await ask_until_read(
            self.agent,
            partial(form.prompt, shown),
            form.schema,
            partial(judge, form=form, shown=shown),
        )
        about = {**self.about(attempt, place, replies), "item": item}
        if is_shown:
            about["overlap"] = overlap_record(shared, n=form.ngram)
        verdicts = verdicts_of(case, replies, judged or {}, about)
        return Grading(verdicts, replies, problems, gives_condition_away(answer))


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


class PairwiseGrader(Judge):
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
        texts = [answer_of(attempt, case) for attempt in (first, second)]
        telltale = next(filter(None, map(gives_condition_away, texts)), None)
        reply, replies, problems = await COMPARATOR.ask(
            self.agent, item, question=case.prompt, first=texts[0], second=texts[1]
        )
        judgement = None
        if reply is not None:
            place = None if reply.better == "tie" else int(reply.better)
            judgement = PairwiseJudgement(
                **self.identity(replies),
                skill=first.skill,
                case_id=case.case_id,
                order=order,
                first=first.attempt_id,
                second=second.attempt_id,
                winner=None if place is None else (first, second)[place - 1].attempt_id,
                winner_position=place,
                rationale=reply.rationale,
            )
        return Comparison(judgement, replies, problems, telltale)
