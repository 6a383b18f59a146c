"""What agents and graders are told; every datum in it is delimited and escaped.

The instructions stand first and never change within a study, the skill's text follows, the case
comes last: so the service can cache all but the case, and no rule stands behind the material that
it guards against.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import jinja2
from pydantic import BaseModel, ConfigDict

from skillcomp.errors import GraderError, suggest
from skillcomp.live.agents.reply import Attribute, escape, short_hash
from skillcomp.records import Case, Skill

Style = Literal["forced", "evidence", "impression"]
STYLES: tuple[Style, ...] = ("forced", "evidence", "impression")
_CASE = "grader-case.j2"


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


@dataclass(frozen=True)
class GraderPrompt:
    """A prompt in two parts: ``system`` is the same for every case of a skill, ``user`` is not."""

    system: str
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


def reply_schema(style: Style) -> type[EvidenceReply] | type[ImpressionReply]:
    """Return the model that a reply of this style must fit."""
    return ImpressionReply if _style(style) == "impression" else EvidenceReply


@cache
def grader_version(style: Style) -> str:
    """Return the hash of everything a grader of this style is told and may answer."""
    schema = json.dumps(reply_schema(style).model_json_schema(), sort_keys=True)
    parts = (_source(f"grader-{style}.j2"), _source(_CASE), schema)
    return short_hash(*parts)


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
) -> GraderPrompt:
    """Return what a grader is told about one answer."""
    impression = _style(style) == "impression"
    system = _environment().get_template(f"grader-{style}.j2").render(skill_body=skill.body)
    concept = skill.concept.get(case.concept_field or "")
    user = _environment().get_template(_CASE)
    text = user.render(
        item=Attribute(item),
        dimension=case.comprehension_dimension or case.dimension or "none",
        concept_name=Attribute(case.concept_field or ""),
        concept_field="" if impression else concept or "",
        question=case.prompt,
        answer=answer,
        expected_reasoning="" if impression else case.expected_reasoning or "",
        overlap=None if impression else list(overlap),
        overlap_n=Attribute(overlap_n),
        checks=[
            {
                "id": Attribute(check.check_id),
                "kind": Attribute(check.check_kind),
                "description": check.description,
            }
            for check in case.checks
        ],
        with_evidence=not impression,
        problems=list(problems),
    )
    return GraderPrompt(system=system, user=text)
