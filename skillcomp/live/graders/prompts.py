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
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar, cast, get_args

import jinja2

from skillcomp.errors import GraderError, require_known
from skillcomp.live.agents.agent import Attribute, escape, short_hash
from skillcomp.records import Case, Record, Skill

Style = Literal["forced", "evidence", "impression"]
STYLES: tuple[Style, ...] = ("forced", "evidence", "impression")
# How a grader answers: in this package's JSON, or in that of the source report (A.1).
ReplyForm = Literal["plain", "report"]
# What a grader may be asked to do without, each its own version (report 8.4, 8.6, 7.10).
Without = Literal["RULE-1", "RULE-3", "RULE-6", "RULE-9", "concept_field", "expected_reasoning"]
SWITCHES: tuple[Without, ...] = get_args(Without)
_RULES = tuple(name for name in SWITCHES if name.startswith("RULE"))
_CASE = "grader-case.j2"
# Hashes of the present templates, and the hashes that older stores recorded for the same text. An
# edited template gets another hash, and its line here no longer applies.
_FIRST_NAMES = {
    "cc8e781cbc46": "837d064b95ba",
    "d02f721984c5": "4e36003d1584",
    "2665762ac2e6": "07fb165f8f78",
}
_COUNTED = ("", "This rule", "These two rules", "These three rules", "These four rules")
_PLACE = re.compile(r"\{\{\s*(.*?)\s*\}\}")
_MAX_TEMPLATE = 1 << 18  # characters; a prompt and no library


class _Evidenced(Record):
    # evidence stands before the verdict: what is written first cannot be made to fit it
    id: str
    evidence_quote: str
    rationale: str
    verdict: Literal["PASS", "FAIL"]


class _Marked(Record):
    id: str
    verdict: Literal["PASS", "FAIL"]


class ItemReply(Record):
    """What is answered about one item, by its blind name."""

    item: str


class EvidenceReply(ItemReply):
    """What a grader of style ``forced`` or ``evidence`` answers about one item."""

    behavior_verdicts: list[_Evidenced]
    dimension_verdict: Literal["PASS", "FAIL"]


class ImpressionReply(ItemReply):
    """What a grader of style ``impression`` answers about one item."""

    behavior_verdicts: list[_Marked]


class _Reported(Record):
    id: str
    kind: Literal["positive", "negative"]
    evidence_quote: str
    rationale: str
    verdict: Literal["PASS", "FAIL"]


class _OverlapCheck(Record):
    passed: bool
    overlap_ngrams: list[str]


class ReportReply(Record):
    """What a grader answers in the JSON of the source report (A.1)."""

    case_id: str | int
    dimension: str
    behavior_verdicts: list[_Reported]
    dimension_verdict: Literal["PASS", "FAIL"]
    verbatim_overlap_check: _OverlapCheck


class ComparisonReply(ItemReply):
    """What a comparator answers about one item: two answers in one order."""

    rationale: str
    better: Literal["1", "2", "tie"]


class RubricReply(ItemReply):
    """What a grader answers that scores one item by a rubric; no bounds, which services refuse."""

    rationale: str
    score: float


_R = TypeVar("_R", bound=ItemReply)
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


def template_text(name: str) -> str:
    """Return the text of a template of ours."""
    environment = _environment()
    assert environment.loader is not None
    return environment.loader.get_source(environment, name)[0]


def _style(style: str) -> Style:
    require_known("There is no grader style", style, STYLES, GraderError)
    return cast(Style, style)


def reply_schema(style: Style, reply: ReplyForm = "plain") -> Schema:
    """Return the model that a reply of this style must fit."""
    require_known("reply: found", reply, get_args(ReplyForm), GraderError)
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
    own = [
        template_text(f"grader-{style}.j2") if template is None else template,
        template_text(_CASE),
    ]
    if template is not None or reply == "report":
        own += [reply, style]
    told = short_hash(*own, schema)
    return "-no-".join([_FIRST_NAMES.get(told, told), *without])


def switched_off(without: Sequence[str], style: Style) -> tuple[str, ...]:
    """Return what a grader does without, each once and in one order; refuse other words."""
    names = [without] if isinstance(without, str) else list(without)
    told = {"forced": SWITCHES, "evidence": SWITCHES[len(_RULES) :], "impression": ()}
    allowed = told[_style(style)] or ("nothing, it is told none of these",)
    for name in names:
        what = f"allowed with style '{style}'"
        require_known("without: found", name, allowed, GraderError, label=what)
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
        what = f"template {file}: there is no placeholder"
        require_known(what, name, PLACEHOLDERS, GraderError)
    if lacking := [name for name in _NEEDED if name not in found]:
        raise GraderError(
            f"template {file}: {', '.join(f'{{{{ {name} }}}}' for name in lacking)} is missing; a "
            "grader must be told the answer, the behaviors and how to reply."
        )
    return text


_BLOCKS = {
    "concept_field": "concept-field",
    "question": "question",
    "answer": "agent-answer",
    "expected_reasoning": "expected-reasoning",
    "overlap": "overlap-check",
    "behaviors": "behaviors",
}
PLACEHOLDERS = ("skill_body", *_BLOCKS, "output")
_NEEDED = ("answer", "behaviors", "output")


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
    ngram: int = 6,
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
        "overlap_n": Attribute(ngram),
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


@dataclass(frozen=True)
class BlindPrompt(Generic[_R]):
    """A prompt that says nothing of skill or condition: its templates, and what is answered."""

    rules: str
    case: str
    reply: type[_R]

    @cached_property
    def version(self) -> str:
        """The hash of everything that is told and may be answered."""
        schema = json.dumps(self.reply.model_json_schema(), sort_keys=True)
        return short_hash(template_text(self.rules), template_text(self.case), schema)

    def about(self, *, item: str, problems: Sequence[str] = (), **told: str) -> GraderPrompt:
        """Return what is told about one item, by the names in its template."""
        make = _environment().get_template
        user = make(self.case).render(told, item=Attribute(item), problems=list(problems))
        return GraderPrompt(system=make(self.rules).render(), user=user)


COMPARATOR = BlindPrompt("comparator.j2", "comparator-case.j2", ComparisonReply)
RUBRIC = BlindPrompt("rubric.j2", "rubric-case.j2", RubricReply)


def _blocks(text: str) -> dict[str, str]:
    """Return the tagged blocks of a rendered case by placeholder; data in them are escaped."""
    found = {}
    for name, tag in _BLOCKS.items():
        if block := re.search(rf"<{tag}[ >].*?</{tag}>", text, re.DOTALL):
            found[name] = block[0]
    # the last one: a datum may hold such a line as well
    return found | {"output": text[text.rindex("\n# OUTPUT\n") + 1 :]}
