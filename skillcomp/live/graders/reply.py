"""Parse a grader's reply, check it by rules, and find words that reveal an answer's condition."""

from __future__ import annotations

import html
import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

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
from skillcomp.io.files import decode, read_own, whole_content
from skillcomp.live.agents.agent import Reply, first_fault
from skillcomp.live.graders.grader import BaseGrader, Grading, Judged, answer_of, verdicts_of
from skillcomp.live.graders.prompts import (
    ImpressionReply,
    ItemReply,
    ReplyForm,
    ReportReply,
    Style,
    dimension_of,
    reply_schema,
)
from skillcomp.records import Attempt, Case, Check, Skill

_M = TypeVar("_M", bound=BaseModel)
_I = TypeVar("_I", bound=ItemReply)
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


def judge(
    text: str,
    *,
    style: Style,
    item: str,
    checks: Sequence[Check],
    answer: str,
    overlap: Sequence[str] | None = (),
    reply: ReplyForm = "plain",
    dimension: str = "none",
    without: Sequence[str] = (),
) -> tuple[dict[str, Judged], list[str]]:
    """Return the verdicts in a reply by check_id, and the problems of the reply.

    If the reply has a problem, no verdicts are returned. A reply in the JSON format of the
    comprehension report must also give the `dimension` of the case, the kind of each check and the
    result of the overlap check. If the overlap check failed, the reply must list the shared
    n-grams.
    """
    parsed, problem = read_json(text, reply_schema(style, reply))
    if parsed is None:
        return {}, [problem]
    if isinstance(parsed, ReportReply):
        kinds = {check.check_id: check.check_kind for check in checks}
        own = parsed.verbatim_overlap_check
        problems = [] if str(parsed.case_id) == item else [f"case_id must be '{item}'."]
        if parsed.dimension != dimension:
            problems.append(f"dimension must be '{dimension}'.")
        problems += [
            f"{row.id}: kind must be '{kinds[row.id]}'."
            for row in parsed.behavior_verdicts
            if row.kind != kinds.get(row.id, row.kind)
        ]
        place = "verbatim_overlap_check: passed"
        if own.passed == bool(own.overlap_ngrams):
            problems.append(f"{place} is true exactly if overlap_ngrams is empty.")
        if overlap is not None and own.passed == bool(overlap):
            must = f"false: the answer shares '{overlap[0]}' with the skill" if overlap else "true"
            problems.append(f"{place} must be {must}.")
    else:
        problems = [] if parsed.item == item else [f"item must be '{item}'."]
    problems += _id_problems([row.id for row in parsed.behavior_verdicts], checks)
    if problems:
        return {}, problems
    if isinstance(parsed, ImpressionReply):
        marks = {row.id: row.verdict for row in parsed.behavior_verdicts}
        return {c.check_id: Judged(marks[c.check_id] == "PASS") for c in checks}, []
    rows = {row.id: row for row in parsed.behavior_verdicts}
    dimension_passed = parsed.dimension_verdict == "PASS"
    judged = {}
    for check in checks:
        row = rows[check.check_id]
        # a quote can contain HTML escapes, because the prompt shows the answer with such escapes
        quote = html.unescape(row.evidence_quote)
        if normalise_quote(quote) not in normalise_quote(answer):
            quote = row.evidence_quote
        verdict = Judged(
            passed=row.verdict == "PASS",
            evidence_quote=quote,
            rationale=row.rationale,
            borderline=row.verdict == "PASS" and hedges(row.rationale, HEDGES_ON_PASS) is not None,
            dimension_passed=dimension_passed,
        )
        problems += _broken_rules(check, verdict, answer, style, overlap, without)
        judged[check.check_id] = verdict
    if dimension_passed != all(verdict.passed for verdict in judged.values()):
        problems.append("dimension_verdict must be PASS exactly if every behavior is PASS.")
    return ({}, problems) if problems else (judged, [])


def read_item(
    text: str, schema: type[_I], item: str, fault: Callable[[_I], str]
) -> tuple[_I | None, list[str]]:
    """Return the parsed reply about an item (None if unusable), and its problems.

    `fault` returns what is wrong with a reply that fits the schema; an empty text if nothing is.
    """
    parsed, problem = read_json(text, schema)
    if parsed is None:
        return None, [problem]
    wrong_item = "" if parsed.item == item else f"item must be '{item}'."
    problems = list(filter(None, (wrong_item, fault(parsed))))
    return (None if problems else parsed), problems


def read_json(text: str, schema: type[_M]) -> tuple[_M | None, str]:
    """Parse the JSON object in a reply; return (object, "") or, if that fails, (None, problem)."""
    start, end = text.find("{"), text.rfind("}")
    text = text[start : end + 1] if start >= 0 else text
    try:
        content = whole_content(json.loads(text))
    except (ValueError, RecursionError):
        return None, "The reply must be one JSON object."
    try:
        return schema.model_validate(content, strict=True), ""
    except ValidationError as error:
        fault = first_fault(error, "the object")
        return None, f"The JSON does not fit the schema: {fault}."


def _id_problems(ids: list[str], checks: Sequence[Check]) -> list[str]:
    expected = [check.check_id for check in checks]
    count = Counter(ids)
    missing = [name for name in expected if name not in count]
    twice = [name for name in expected if count[name] > 1]
    # Unknown ids are free text, so do not repeat them in the next prompt, which lists the problems.
    strange = sum(name not in expected for name in ids)
    problems = []
    if missing:
        problems.append(f"RULE-9: no verdict for {shortened(missing, _MAX_SHOWN)}.")
    if twice:
        problems.append(f"RULE-1: more than one verdict for {shortened(twice, _MAX_SHOWN)}.")
    if strange:
        problems.append(f"RULE-1: {plural(strange, 'verdict')} with an id that is not in the list.")
    return problems


def _broken_rules(
    check: Check,
    verdict: Judged,
    answer: str,
    style: Style,
    overlap: Sequence[str] | None,
    without: Sequence[str],
) -> list[str]:
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
    if style != "forced":
        return problems
    is_held = not verdict.passed and "RULE-6" not in without
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
    judged, problems = judge(
        text,
        style="forced",
        item=item,
        checks=case.checks,
        answer=answer,
        overlap=shared,
        reply="report",
        dimension=dimension_of(case),
    )
    who = BaseGrader()
    who.name, who.model, who.family, who.version = grader, model, family, version
    replies = (Reply(answer=text, model=model),)
    about = who.about(attempt, {"round": round, "item": item})
    about["overlap"] = overlap_record(shared, n=ngram)
    verdicts = verdicts_of(case, replies, judged, about)
    return Grading(verdicts, replies, tuple(problems), gives_condition_away(answer))
