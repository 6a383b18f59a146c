"""Prompts of graders; all data in them are delimited and escaped.

A prompt starts with the instructions, which never change within a study. The text of the skill
follows, then the case. With this order, the service can cache everything before the case, and each
rule comes before the material to which it applies.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Generic, Literal, TypeVar, get_args

import jinja2
from pydantic import AliasChoices, Field

from skillcomp.errors import GraderError, require_known
from skillcomp.io.files import decode, read_own
from skillcomp.live.agents.agent import Attribute, escape, short_hash
from skillcomp.records import Case, Record, Skill

Style = Literal["forced", "evidence", "impression"]
STYLES: tuple[Style, ...] = get_args(Style)
# JSON format of a grader's reply: "plain" is the format of this package, and "report" is the format
# in appendix A.1 of the comprehension report.
ReplyForm = Literal["plain", "report"]
# These parts can be left out of a prompt (comprehension report, 7.10, 8.4 and 8.6). The version of
# a grader names the parts that are left out.
Without = Literal["RULE-1", "RULE-3", "RULE-6", "RULE-9", "concept_field", "expected_reasoning"]
SWITCHES: tuple[Without, ...] = get_args(Without)
_RULES = tuple(name for name in SWITCHES if name.startswith("RULE"))
_CASE = "grader-case.j2"
# Maps the hash of a prompt to the hash under which older stores recorded the same prompt. An edited
# template gets a new hash, which has no entry here.
_FIRST_NAMES = {
    "cc8e781cbc46": "837d064b95ba",
    "d02f721984c5": "4e36003d1584",
    "2665762ac2e6": "07fb165f8f78",
}
_COUNTED = ("", "This rule", "These two rules", "These three rules", "These four rules")
_PLACE = re.compile(r"\{\{\s*(.*?)\s*\}\}")
_MAX_TEMPLATE = 1 << 18  # maximum length of a custom prompt, in characters


# Do not change names or docstrings of the reply classes: their schemas contain both, and a
# grader's version is a hash that covers the schema.


class _Evidenced(Record):
    # The evidence precedes the verdict, so that a model cannot choose evidence to fit its verdict.
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

    rationale: str = Field(validation_alias=AliasChoices("rationale", "reason"))
    score: float


_R = TypeVar("_R", bound=ItemReply)
Schema = type[EvidenceReply] | type[ImpressionReply] | type[ReportReply]


@dataclass(frozen=True)
class GraderPrompt:
    """A prompt in two parts; ``system`` is the same for all cases of a skill, but ``user`` is not.

    A custom prompt is entirely in ``user``, and its ``system`` is None.
    """

    system: str | None
    user: str


_LOADER = jinja2.PackageLoader("skillcomp", "templates")
# With `finalize`, the output of every expression is escaped, whatever the template does.
_TEMPLATES = jinja2.Environment(
    loader=_LOADER,
    autoescape=False,
    finalize=escape,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def template_text(name: str) -> str:
    """Return the source text of one of the package's prompt templates."""
    return _LOADER.get_source(_TEMPLATES, name)[0]


def reply_schema(style: Style, reply: ReplyForm = "plain") -> Schema:
    """Return the pydantic model of a reply for a grader style and a JSON format."""
    require_known("reply: found", reply, get_args(ReplyForm), GraderError)
    if reply == "report":
        if style == "impression":
            raise GraderError(
                "reply: the report's JSON holds a quote for each behavior, which style "
                "'impression' does not ask for; allowed: styles forced and evidence."
            )
        return ReportReply
    return ImpressionReply if style == "impression" else EvidenceReply


@cache
def grader_version(
    style: Style,
    without: tuple[str, ...] = (),
    reply: ReplyForm = "plain",
    template: str | None = None,
) -> str:
    """Return the hash of a prompt and its reply schema, followed by the names of parts left out."""
    schema = json.dumps(reply_schema(style, reply).model_json_schema(), sort_keys=True)
    rules = template_text(f"grader-{style}.j2") if template is None else template
    parts = [rules, template_text(_CASE)]
    if template is not None or reply == "report":
        parts += [reply, style]
    version = short_hash(*parts, schema)
    return "-no-".join([_FIRST_NAMES.get(version, version), *without])


def switched_off(without: Sequence[str], style: Style) -> tuple[str, ...]:
    """Return the names in `without`, each once, in a fixed order; raise if one is not allowed."""
    require_known("There is no grader style", style, STYLES, GraderError)
    names = [without] if isinstance(without, str) else list(without)
    switches = {"forced": SWITCHES, "evidence": SWITCHES[len(_RULES) :], "impression": ()}
    allowed = switches[style] or ("nothing, it is told none of these",)
    for name in names:
        what = f"allowed with style '{style}'"
        require_known("without: found", name, allowed, GraderError, label=what)
    return tuple(name for name in SWITCHES if name in names)


def read_template(path: str | Path) -> str:
    """Read a custom prompt; raise if it lacks a placeholder that every prompt needs.

    Raises
    ------
    GraderError
        If the file cannot be read or is too long, contains an unknown placeholder (the message
        lists the known ones), or lacks ``{{ answer }}``, ``{{ behaviors }}`` or ``{{ output }}``.
    """
    file = Path(path)
    text = decode(read_own(file, what="template", error=GraderError), file, GraderError)
    if len(text) > _MAX_TEMPLATE:
        raise GraderError(f"template {file}: allowed are at most {_MAX_TEMPLATE:,} characters.")
    placeholders = _PLACE.findall(text)
    for name in placeholders:
        require_known(f"template {file}: there is no placeholder", name, PLACEHOLDERS, GraderError)
    if lacking := [name for name in _NEEDED if name not in placeholders]:
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
    """Return the dimension of a case as a grader sees it; "none" if the case has none."""
    return case.comprehension_dimension or case.dimension or "none"


def grader_prompt(
    style: Style,
    *,
    case: Case,
    skill: Skill,
    answer: str,
    item: str,
    overlap: Sequence[str] | None = (),
    ngram: int = 6,
    problems: Sequence[str] = (),
    without: Sequence[str] = (),
    reply: ReplyForm = "plain",
    template: str | None = None,
) -> GraderPrompt:
    """Build the prompt that asks for verdicts on one answer.

    In a custom `template`, each placeholder is replaced by a whole block with its tags, as in the
    prompts of this package. If the case has no text for a placeholder, or that part is left out,
    the placeholder is replaced by nothing. With ``overlap=None`` (the answer is too short to be
    checked) the prompt has no overlap check.
    """
    impression = style == "impression"

    def unless_left_out(part: Without, text: str | None) -> str:
        return "" if impression or part in without else text or ""

    concept = skill.concept.get(case.concept_field or "")
    data = {
        "item": Attribute(item),
        "dimension": dimension_of(case),
        "concept_name": Attribute(case.concept_field or ""),
        "concept_field": unless_left_out("concept_field", concept),
        "question": case.prompt,
        "answer": answer,
        "expected_reasoning": unless_left_out("expected_reasoning", case.expected_reasoning),
        "overlap": None if impression or overlap is None else list(overlap),
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
    text = _TEMPLATES.get_template(_CASE).render(data)
    if template is not None:
        blocks = {"skill_body": f"<skill-body>\n{escape(skill.body)}\n</skill-body>"}
        for name, tag in _BLOCKS.items():
            if block := re.search(rf"<{tag}[ >].*?</{tag}>", text, re.DOTALL):
                blocks[name] = block[0]
        # look for the last "# OUTPUT" line, because the data before it may contain such a line, too
        blocks["output"] = text[text.rindex("\n# OUTPUT\n") + 1 :]
        return GraderPrompt(None, _PLACE.sub(lambda match: blocks.get(match[1], ""), template))
    n_rules = _COUNTED[len([name for name in _RULES if name not in without])]
    rules = _TEMPLATES.get_template(f"grader-{style}.j2")
    return GraderPrompt(rules.render(skill_body=skill.body, without=without, n_rules=n_rules), text)


@dataclass(frozen=True)
class BlindPrompt(Generic[_R]):
    """Templates and reply schema of a prompt that shows neither skill nor condition."""

    rules: str
    case: str
    reply: type[_R]

    @cached_property
    def version(self) -> str:
        """Hash of the templates and of the reply schema."""
        schema = json.dumps(self.reply.model_json_schema(), sort_keys=True)
        return short_hash(template_text(self.rules), template_text(self.case), schema)

    def about(self, *, item: str, problems: Sequence[str] = (), **data: str) -> GraderPrompt:
        """Build the prompt about one item; `data` holds the values for the template, by name."""
        make = _TEMPLATES.get_template
        user = make(self.case).render(data, item=Attribute(item), problems=list(problems))
        return GraderPrompt(system=make(self.rules).render(), user=user)


COMPARATOR = BlindPrompt("comparator.j2", "comparator-case.j2", ComparisonReply)
RUBRIC = BlindPrompt("rubric.j2", "rubric-case.j2", RubricReply)
