"""What agents and graders are told; every datum in it is delimited and escaped.

The instructions stand first and never change within a study, the skill's text follows, the case
comes last: so the service can cache all but the case, and no rule stands behind the material that
it guards against.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

import jinja2
from pydantic import BaseModel, ConfigDict

from skillcomp.errors import GraderError, suggest
from skillcomp.live.agents.reply import Attribute, escape, short_hash
from skillcomp.records import Case, Skill

Style = Literal["forced", "evidence", "impression"]
STYLES: tuple[Style, ...] = ("forced", "evidence", "impression")
# How a grader answers: in this package's JSON, or in that of the source report (A.1).
ReplyForm = Literal["plain", "report"]
# What a grader may be asked to do without, each its own version (report 8.4, 8.6, 7.10).
Without = Literal["RULE-1", "RULE-3", "RULE-6", "RULE-9", "concept_field", "expected_reasoning"]
SWITCHES: tuple[Without, ...] = get_args(Without)
_RULES = tuple(name for name in SWITCHES if name.startswith("RULE"))
_CASE = "grader-case.j2"
_COMPARATOR, _TWO = "comparator.j2", "comparator-case.j2"
_RUBRIC, _TASK = "rubric.j2", "rubric-case.j2"
_COUNTED = ("", "This rule", "These two rules", "These three rules", "These four rules")
_PLACE = re.compile(r"\{\{\s*(.*?)\s*\}\}")
_MAX_TEMPLATE = 1 << 18  # characters; a prompt and no library


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Evidenced(_Strict):
    # evidence stands before the verdict: what is written first cannot be made to fit it
    id: str
    evidence_quote: str
    rationale: str
    verdict: Literal["PASS", "FAIL"]


class _Marked(_Strict):
    id: str
    verdict: Literal["PASS", "FAIL"]


class EvidenceReply(_Strict):
    """What a grader of style ``forced`` or ``evidence`` answers about one item."""

    item: str
    behavior_verdicts: list[_Evidenced]
    dimension_verdict: Literal["PASS", "FAIL"]


class ImpressionReply(_Strict):
    """What a grader of style ``impression`` answers about one item."""

    item: str
    behavior_verdicts: list[_Marked]


class _Reported(_Strict):
    id: str
    kind: Literal["positive", "negative"]
    evidence_quote: str
    rationale: str
    verdict: Literal["PASS", "FAIL"]


class _OverlapCheck(_Strict):
    passed: bool
    overlap_ngrams: list[str]


class ReportReply(_Strict):
    """What a grader answers in the JSON of the source report (A.1)."""

    case_id: str | int
    dimension: str
    behavior_verdicts: list[_Reported]
    dimension_verdict: Literal["PASS", "FAIL"]
    verbatim_overlap_check: _OverlapCheck


class ComparisonReply(_Strict):
    """What a comparator answers about one item: two answers in one order."""

    item: str
    rationale: str
    better: Literal["1", "2", "tie"]


class RubricReply(_Strict):
    """What a grader answers that scores one item by a rubric; no bounds, which services refuse."""

    item: str
    rationale: str
    score: float


Schema = type[EvidenceReply] | type[ImpressionReply] | type[ReportReply]


@dataclass(frozen=True)
class GraderPrompt:
    """A prompt in two parts: ``system`` is the same for every case of a skill, ``user`` is not.

    A template of one's own is all ``user``.
    """

    system: str | None
    user: str


@cache
def _environment() -> jinja2.Environment:
    # finalize escapes whatever an expression puts out, so no template can forget to
    return jinja2.Environment(
        loader=jinja2.PackageLoader("skillcomp", "templates"),
        autoescape=False,
        finalize=escape,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _source(name: str) -> str:
    environment = _environment()
    assert environment.loader is not None
    return environment.loader.get_source(environment, name)[0]


def _style(style: str) -> Style:
    if style not in STYLES:
        raise GraderError(
            f"There is no grader style '{style}'; allowed: {', '.join(STYLES)}."
            + suggest(style, STYLES)
        )
    return style


def reply_schema(style: Style, reply: ReplyForm = "plain") -> Schema:
    """Return the model that a reply of this style must fit."""
    if reply not in (allowed := get_args(ReplyForm)):
        raise GraderError(
            f"reply: found '{reply}'; allowed: {', '.join(allowed)}." + suggest(reply, allowed)
        )
    if reply == "report":
        if _style(style) == "impression":
            raise GraderError(
                "reply: the report's JSON holds a quote for each behavior, which style "
                "'impression' does not ask for; allowed: styles forced and evidence."
            )
        return ReportReply
    return ImpressionReply if _style(style) == "impression" else EvidenceReply


@cache
def grader_version(
    style: Style,
    without: tuple[str, ...] = (),
    reply: ReplyForm = "plain",
    template: str | None = None,
) -> str:
    """Return the hash of everything a grader is told and may answer, and what it does without."""
    schema = json.dumps(reply_schema(style, reply).model_json_schema(), sort_keys=True)
    own = [_source(f"grader-{style}.j2") if template is None else template, _source(_CASE)]
    if template is not None or reply == "report":
        own += [reply, style]
    return "-no-".join([short_hash(*own, schema), *without])


def switched_off(without: Sequence[str], style: Style) -> tuple[str, ...]:
    """Return what a grader does without, each once and in one order; refuse other words."""
    names = [without] if isinstance(without, str) else list(without)
    allowed = SWITCHES if _style(style) == "forced" else SWITCHES[len(_RULES) :]
    allowed = () if style == "impression" else allowed
    for name in names:
        if name not in allowed:
            raise GraderError(
                f"without: found '{name}'; allowed with style '{style}': "
                f"{', '.join(allowed) or 'nothing, it is told none of these'}."
                + suggest(str(name), allowed)
            )
    return tuple(name for name in SWITCHES if name in names)


def read_template(path: str | Path) -> str:
    """Return one's own prompt; refuse one that lacks what a grader must be told.

    Raises
    ------
    GraderError
        When the file cannot be read, names a placeholder that does not exist (the message says
        which do), or lacks the answer, the behaviours or the form of the reply.
    """
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as cause:
        raise GraderError(f"template {file}: cannot be read as UTF-8 ({cause}).") from None
    if len(text) > _MAX_TEMPLATE:
        raise GraderError(f"template {file}: allowed are at most {_MAX_TEMPLATE:,} characters.")
    found = _PLACE.findall(text)
    for name in found:
        if name not in PLACEHOLDERS:
            raise GraderError(
                f"template {file}: there is no placeholder '{name}'; allowed: "
                f"{', '.join(PLACEHOLDERS)}." + suggest(name, PLACEHOLDERS)
            )
    if lacking := [name for name in _NEEDED if name not in found]:
        raise GraderError(
            f"template {file}: {', '.join(f'{{{{ {name} }}}}' for name in lacking)} is missing; a "
            "grader must be told the answer, the behaviors and how to reply."
        )
    return text


PLACEHOLDERS = (
    "skill_body",
    "concept_field",
    "question",
    "answer",
    "expected_reasoning",
    "overlap",
    "behaviors",
    "output",
)
_NEEDED = ("answer", "behaviors", "output")
_BLOCKS = {
    "question": "question",
    "answer": "agent-answer",
    "expected_reasoning": "expected-reasoning",
    "concept_field": "concept-field",
    "overlap": "overlap-check",
    "behaviors": "behaviors",
}


def dimension_of(case: Case) -> str:
    """Return what a grader is told a case is about."""
    return case.comprehension_dimension or case.dimension or "none"


def grader_prompt(
    style: Style,
    *,
    case: Case,
    skill: Skill,
    answer: str,
    item: str,
    overlap: Sequence[str] = (),
    overlap_n: int = 6,
    problems: Sequence[str] = (),
    without: Sequence[str] = (),
    reply: ReplyForm = "plain",
    template: str | None = None,
) -> GraderPrompt:
    """Return what a grader is told about one answer.

    Each placeholder of a `template` becomes the whole block with its tags, as it stands in the
    prompts of this package; nothing where the case has none or it is switched off.
    """
    impression = _style(style) == "impression"
    concept = skill.concept.get(case.concept_field or "")
    told: dict[str, Any] = {
        "item": Attribute(item),
        "dimension": dimension_of(case),
        "concept_name": Attribute(case.concept_field or ""),
        "concept_field": "" if impression or "concept_field" in without else concept or "",
        "question": case.prompt,
        "answer": answer,
        "expected_reasoning": (
            "" if impression or "expected_reasoning" in without else case.expected_reasoning or ""
        ),
        "overlap": None if impression else list(overlap),
        "overlap_n": Attribute(overlap_n),
        "checks": [
            {
                "id": Attribute(check.check_id),
                "kind": Attribute(check.check_kind),
                "description": check.description,
            }
            for check in case.checks
        ],
        "with_evidence": not impression,
        "reply": reply,
        "problems": list(problems),
    }
    text = _environment().get_template(_CASE).render(told)
    if template is not None:
        blocks = _blocks(text) | {
            "skill_body": f"<skill-body>\n{escape(skill.body)}\n</skill-body>"
        }
        return GraderPrompt(None, _PLACE.sub(lambda found: blocks.get(found[1], ""), template))
    n_rules = _COUNTED[len([name for name in _RULES if name not in without])]
    system = _environment().get_template(f"grader-{style}.j2")
    return GraderPrompt(
        system=system.render(skill_body=skill.body, without=without, n_rules=n_rules), user=text
    )


@cache
def comparator_version() -> str:
    """Return the hash of everything a comparator is told and may answer."""
    return _hash_of(ComparisonReply, _COMPARATOR, _TWO)


def comparator_prompt(
    *, question: str, first: str, second: str, item: str, problems: Sequence[str] = ()
) -> GraderPrompt:
    """Return what a comparator is told about two answers; nothing of skill or condition."""
    told = {"question": question, "first": first, "second": second}
    return _prompt_of(_COMPARATOR, _TWO, item, problems, told)


@cache
def rubric_version() -> str:
    """Return the hash of everything that a grader by rubric is told and may answer."""
    return _hash_of(RubricReply, _RUBRIC, _TASK)


def rubric_prompt(
    *, question: str, rubric: str, answer: str, item: str, problems: Sequence[str] = ()
) -> GraderPrompt:
    """Return what a grader by rubric is told about one answer; nothing of skill or condition."""
    told = {"question": question, "rubric": rubric, "answer": answer}
    return _prompt_of(_RUBRIC, _TASK, item, problems, told)


def _hash_of(reply: type[BaseModel], *templates: str) -> str:
    schema = json.dumps(reply.model_json_schema(), sort_keys=True)
    return short_hash(*map(_source, templates), schema)


def _prompt_of(
    rules: str, case: str, item: str, problems: Sequence[str], told: dict[str, str]
) -> GraderPrompt:
    make = _environment().get_template
    user = make(case).render(told, item=Attribute(item), problems=list(problems))
    return GraderPrompt(system=make(rules).render(), user=user)


def _blocks(text: str) -> dict[str, str]:
    """Return the tagged blocks of a rendered case by placeholder; data in them are escaped."""
    found = {}
    for name, tag in _BLOCKS.items():
        if block := re.search(rf"<{tag}[ >].*?</{tag}>", text, re.DOTALL):
            found[name] = block[0]
    # the last one: a datum may hold such a line as well
    return found | {"output": text[text.rindex("\n# OUTPUT\n") + 1 :]}
