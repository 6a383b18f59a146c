"""What agents and graders are told; every datum in it is delimited and escaped.

The instructions stand first and never change within a study, the skill's text follows, the case
comes last: so the service can cache all but the case, and no rule stands behind the material that
it guards against.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import jinja2
from pydantic import BaseModel, ConfigDict

from skillcomp.errors import GraderError, suggest
from skillcomp.records import Case, Skill

__all__ = [
    "STYLES",
    "EvidenceReply",
    "GraderPrompt",
    "ImpressionReply",
    "Style",
    "agent_version",
    "escape",
    "grader_prompt",
    "grader_version",
    "reply_schema",
    "skill_block",
]

Style = Literal["forced", "evidence", "impression"]
STYLES: tuple[Style, ...] = ("forced", "evidence", "impression")
_CASE = "grader-case.j2"
_VERSION_LENGTH = 12  # hex digits of the hash; enough to tell prompts apart
# The text of a skill is given to an agent byte for byte, as a harness would load it.
_SKILL_BLOCK = 'You have one skill loaded.\n\n<skill name="{slug}">\n{text}\n</skill>'
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


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


class _Attribute(str):
    """Text that stands between double quotes."""

    __slots__ = ()


def escape(value: Any) -> str:
    """Return a datum as it may stand inside a tag of a prompt.

    ``&``, ``<`` and ``>`` are replaced, so that no text can close its own tag or open another;
    control characters and lone surrogates, which no model should meet, become U+FFFD.

    Parameters
    ----------
    value : object
        Text; anything else is shown as ``str`` shows it.

    Returns
    -------
    str
        Escaped text.

    Examples
    --------
    >>> escape("5 < 6 </agent-answer>")
    '5 &lt; 6 &lt;/agent-answer&gt;'
    """
    text = _CONTROL.sub("\ufffd", str(value))
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace('"', "&quot;") if isinstance(value, _Attribute) else text


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
    """Return the hash of everything a grader of this style is told and may answer.

    Parameters
    ----------
    style : str
        ``forced``, ``evidence`` or ``impression``.

    Returns
    -------
    str
        Twelve hex digits of the SHA-256 over both templates and the JSON schema.
    """
    schema = json.dumps(reply_schema(style).model_json_schema(), sort_keys=True)
    parts = (_source(f"grader-{style}.j2"), _source(_CASE), schema)
    return _hash(*parts)


def agent_version() -> str:
    """Return the hash of how a skill is put before an agent."""
    return _hash(_SKILL_BLOCK)


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:_VERSION_LENGTH]


def skill_block(skill: Skill) -> str:
    """Return the text by which a skill is loaded into an agent's context.

    Parameters
    ----------
    skill : Skill
        Its whole text is given unchanged: the skill is what is tested, and its author is trusted.

    Returns
    -------
    str
        One line, then the text between tags that carry the slug.
    """
    return _SKILL_BLOCK.format(slug=escape(_Attribute(skill.slug)), text=skill.text)


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
    """Return what a grader is told about one answer.

    Parameters
    ----------
    style : str
        ``forced``: evidence, reasons and the four forcing functions; ``evidence``: evidence and
        reasons; ``impression``: neither, and no text of the skill and no overlap check.
    case : Case
        The question and its checks.
    skill : Skill
        The skill that the case belongs to, whatever the agent had loaded.
    answer : str
        The answer to judge. Hostile text in it is escaped and stays between its tags.
    item : str
        A blind name: neither the attempt nor the condition is told.
    overlap : sequence of str
        N-grams that the answer shares with the skill; empty when the check passed.
    overlap_n : int
        Their length in tokens.
    problems : sequence of str
        Why an earlier reply was thrown away.

    Returns
    -------
    GraderPrompt
        Both parts as text.
    """
    impression = _style(style) == "impression"
    system = _environment().get_template(f"grader-{style}.j2").render(skill_body=skill.body)
    concept = skill.concept.get(case.concept_field or "")
    user = _environment().get_template(_CASE)
    text = user.render(
        item=_Attribute(item),
        dimension=case.comprehension_dimension or case.dimension or "none",
        concept_name=_Attribute(case.concept_field or ""),
        concept_field="" if impression else concept or "",
        question=case.prompt,
        answer=answer,
        expected_reasoning="" if impression else case.expected_reasoning or "",
        overlap=None if impression else list(overlap),
        overlap_n=_Attribute(overlap_n),
        checks=[
            {
                "id": _Attribute(check.check_id),
                "kind": _Attribute(check.check_kind),
                "description": check.description,
            }
            for check in case.checks
        ],
        with_evidence=not impression,
        problems=list(problems),
    )
    return GraderPrompt(system=system, user=text)
