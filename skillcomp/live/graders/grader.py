"""Shared parts of all graders: prompts, identity, results, and repeated questions to a model.

A prompt starts with the instructions, which never change within a study. The text of the skill
follows, then the case. With this order, the service can cache everything before the case, and each
rule comes before the material to which it applies. All data in a prompt are delimited and escaped.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, TypedDict, TypeVar, Unpack, get_args

import jinja2
from pydantic import AliasChoices, BaseModel, Field, ValidationError

from skillcomp.errors import GraderError, require_known, require_whole
from skillcomp.io.files import JsonObject, decode, read_own, whole_content
from skillcomp.live.agents.agent import (
    Agent,
    Attribute,
    Cell,
    Reply,
    escape,
    first_fault,
    short_hash,
    whole_hash,
)
from skillcomp.records import Attempt, Case, Check, Record, Skill, Verdict, VerdictStatus

Style = Literal["forced", "evidence", "impression"]
STYLES: tuple[Style, ...] = get_args(Style)
# JSON format of a grader's reply: "plain" is the format of this package, and "report" is the format
# in appendix A.1 of the comprehension report.
ReplyForm = Literal["plain", "report"]
# These parts can be left out of a prompt (comprehension report, 7.10, 8.4 and 8.6). The version of
# a grader names the parts that are left out.
Without = Literal["RULE-1", "RULE-3", "RULE-6", "RULE-9", "concept_field", "expected_reasoning"]
SWITCHES: tuple[Without, ...] = get_args(Without)
RULES = tuple(name for name in SWITCHES if name.startswith("RULE"))
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

    def fault(self) -> str:
        """Return what is wrong with a reply that fits the schema; an empty text if nothing is."""
        return ""


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

    def fault(self) -> str:
        """Return a message if the rationale is empty."""
        return "" if self.rationale.strip() else "The rationale is empty."


class RubricReply(ItemReply):
    """What a grader answers that scores one item by a rubric; no bounds, which services refuse."""

    rationale: str = Field(validation_alias=AliasChoices("rationale", "reason"))
    score: float

    def fault(self) -> str:
        """Return a message if the score is out of range; NaN is not in the range either."""
        return "" if 0 <= self.score <= 1 else "score must be a number from 0 to 1."


_M = TypeVar("_M", bound=BaseModel)
_R = TypeVar("_R", bound=ItemReply)


class GraderPrompt(NamedTuple):
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


def _prompt_hash(reply: type[BaseModel], *parts: str) -> str:
    return short_hash(*parts, json.dumps(reply.model_json_schema(), sort_keys=True))


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


@dataclass(frozen=True)
class BlindPrompt(Generic[_R]):
    """Templates and reply schema of a prompt that shows neither skill nor condition."""

    rules: str
    case: str
    reply: type[_R]

    @cached_property
    def version(self) -> str:
        """Hash of the templates and of the reply schema."""
        return _prompt_hash(self.reply, *map(template_text, (self.rules, self.case)))

    def about(self, *, item: str, problems: Sequence[str] = (), **data: Any) -> GraderPrompt:
        """Build the prompt about one item; `data` holds the values for the templates, by name."""
        data |= {"item": Attribute(item), "problems": list(problems)}
        names = (self.rules, self.case)
        return GraderPrompt(*(_TEMPLATES.get_template(name).render(data) for name in names))

    def read(self, text: str, item: str) -> tuple[_R | None, list[str]]:
        """Return the parsed reply about an item (None if unusable), and its problems."""
        parsed, problem = read_json(text, self.reply)
        if parsed is None:
            return None, [problem]
        wrong_item = "" if parsed.item == item else f"item must be '{item}'."
        problems = list(filter(None, (wrong_item, parsed.fault())))
        return (None if problems else parsed), problems

    async def ask(
        self, agent: Agent, item: str, **data: str
    ) -> tuple[_R | None, tuple[Reply, ...], tuple[str, ...]]:
        """Ask a model about an item; see `ask_until_read`."""
        prompt, read = partial(self.about, item=item, **data), partial(self.read, item=item)
        return await ask_until_read(agent, prompt, self.reply, read)


class Shown(NamedTuple):
    """The material of one grading: an answer with its case, its skill and its blind name.

    Attributes
    ----------
    overlap : sequence of str or None
        The n-grams that answer and skill share; None if the answer is too short to be checked.
    """

    case: Case
    skill: Skill
    answer: str
    item: str
    overlap: Sequence[str] | None = ()


@dataclass(frozen=True)
class GraderForm:
    """How a model is asked for verdicts on one answer, and how it replies.

    Attributes
    ----------
    style : str
        ``forced``, ``evidence`` or ``impression``.
    without : sequence of str
        Parts of the prompt that are left out, each of `SWITCHES`.
    reply : str
        JSON format of the reply, ``plain`` or ``report``.
    template : str or None
        A custom prompt. Each placeholder is replaced by a whole block with its tags, as in the
        prompts of this package.
    ngram : int
        Number of shared consecutive tokens that count as copying.

    Raises
    ------
    GraderError
        If a value is not allowed.
    """

    style: Style = "forced"
    without: Sequence[Without] = ()
    reply: ReplyForm = "plain"
    template: str | None = None
    ngram: int = 6

    def __post_init__(self) -> None:
        """Raise if a value is not allowed."""
        require_whole("ngram", self.ngram, GraderError)
        require_known("There is no grader style", self.style, STYLES, GraderError)
        require_known("reply: found", self.reply, get_args(ReplyForm), GraderError)
        names = [self.without] if isinstance(self.without, str) else list(self.without)
        switches = {"forced": SWITCHES, "evidence": SWITCHES[len(RULES) :], "impression": ()}
        allowed = switches[self.style] or ("nothing, it is told none of these",)
        for name in names:
            what = f"allowed with style '{self.style}'"
            require_known("without: found", name, allowed, GraderError, label=what)
        if self.template is not None and set(RULES).intersection(names) - {"RULE-6"}:
            raise GraderError(
                "without: a template of one's own says by itself which rules it tells; allowed "
                "with template=: RULE-6, concept_field, expected_reasoning."
            )
        if (self.reply, self.style) == ("report", "impression"):
            raise GraderError(
                "reply: the report's JSON holds a quote for each behavior, which style "
                "'impression' does not ask for; allowed: styles forced and evidence."
            )

    @property
    def schema(self) -> type[EvidenceReply] | type[ImpressionReply] | type[ReportReply]:
        """The pydantic model of a reply."""
        if self.reply == "report":
            return ReportReply
        return ImpressionReply if self.style == "impression" else EvidenceReply

    @cached_property
    def version(self) -> str:
        """Hash of the prompt and its reply schema, followed by the parts left out and `ngram`."""
        own_rules = template_text(f"grader-{self.style}.j2")
        parts = [own_rules if self.template is None else self.template, template_text(_CASE)]
        if self.template is not None or self.reply == "report":
            parts += [self.reply, self.style]
        version = _prompt_hash(self.schema, *parts)
        off = [name for name in SWITCHES if name in self.without]
        version = "-no-".join([_FIRST_NAMES.get(version, version), *off])
        is_default = self.ngram == 6 or self.style == "impression"
        return version if is_default else f"{version}-n{self.ngram}"

    def prompt(self, shown: Shown, *, problems: Sequence[str] = ()) -> GraderPrompt:
        """Build the prompt that asks for verdicts on one answer.

        If the case has no text for a placeholder of a custom prompt, or that part is left out, the
        placeholder is replaced by nothing. Without an overlap check, the prompt has none.
        """
        case, skill = shown.case, shown.skill
        impression = self.style == "impression"

        def unless_left_out(part: Without, text: str | None) -> str:
            return "" if impression or part in self.without else text or ""

        concept = skill.concept.get(case.concept_field or "")
        data = {
            "dimension": dimension_of(case),
            "concept_name": Attribute(case.concept_field or ""),
            "concept_field": unless_left_out("concept_field", concept),
            "question": case.prompt,
            "answer": shown.answer,
            "expected_reasoning": unless_left_out("expected_reasoning", case.expected_reasoning),
            "overlap": None if impression or shown.overlap is None else list(shown.overlap),
            "overlap_n": Attribute(self.ngram),
            "checks": [
                {
                    "id": Attribute(check.check_id),
                    "kind": Attribute(check.check_kind),
                    "description": check.description,
                }
                for check in case.checks
            ],
            "with_evidence": not impression,
            "reply": self.reply,
            "skill_body": skill.body,
            "without": self.without,
            "n_rules": _COUNTED[len([name for name in RULES if name not in self.without])],
        }
        templates = BlindPrompt(f"grader-{self.style}.j2", _CASE, ItemReply)
        prompt = templates.about(item=shown.item, problems=problems, **data)
        if self.template is None:
            return prompt
        text = prompt.user
        blocks = {"skill_body": f"<skill-body>\n{escape(skill.body)}\n</skill-body>"}
        for name, tag in _BLOCKS.items():
            if block := re.search(rf"<{tag}[ >].*?</{tag}>", text, re.DOTALL):
                blocks[name] = block[0]
        # look for the last "# OUTPUT" line, because the data before it may contain such a line, too
        blocks["output"] = text[text.rindex("\n# OUTPUT\n") + 1 :]
        own = _PLACE.sub(lambda match: blocks.get(match[1], ""), self.template)
        return GraderPrompt(None, own)


COMPARATOR = BlindPrompt("comparator.j2", "comparator-case.j2", ComparisonReply)
RUBRIC = BlindPrompt("rubric.j2", "rubric-case.j2", RubricReply)


_T = TypeVar("_T")
# maximum number of times that a question is repeated after unusable replies (comprehension report,
# 7.10)
ASKED_AGAIN = 2
ITEM_LENGTH = 8  # number of hex digits in a blind name


class GraderWarning(UserWarning):
    """Warning about a grader, for example that it has the model family of an agent under test."""


@dataclass(frozen=True)
class Grading:
    """The result of grading one attempt.

    Attributes
    ----------
    verdicts : tuple of Verdict
        One verdict for each check. If the grader failed, the status of the verdicts shows it.
    replies : tuple of Reply
        All replies in order, including malformed ones, because they cost money too.
    problems : tuple of str
        Rules that the last reply breaks; empty if the reply is usable.
    gives_away : str or None
        Words by which the answer reveals its condition; None if no such words were found.
    """

    verdicts: tuple[Verdict, ...]
    replies: tuple[Reply, ...] = ()
    problems: tuple[str, ...] = ()
    gives_away: str | None = None


class Place(TypedDict, total=False):
    """Position of a grading in the record of a study.

    Attributes
    ----------
    round : int
        Number of the grading round. Default: 1; repeated gradings have 2 or more.
    batch, item : str or None
        Name of the batch, and blind name of the answer; both are recorded with the verdicts. A
        model sees `item`, so it must not reveal the condition.
    order : int
        Position of the grading's first verdict within its batch. Default: 1.
    """

    round: int
    batch: str | None
    item: str | None
    order: int


def agent_of(grader: Any) -> Agent | None:
    """Return the agent that a grader asks; None for a grader without an agent, as in a replay."""
    return getattr(grader, "agent", None)


class Judge:
    """Identity of a grader or comparator, as a study records it, and its connections.

    Attributes
    ----------
    name, kind : str
        Label of the judge in the frames, and its type (``llm``, ``rules``, ...).
    model, family, version : str or None
        The model, the family of the model, and the version of the judge's instructions. Changed
        instructions have a new version.
    agent : BaseAgent or None
        The agent that the judge asks.
    """

    name: str
    kind: str = "llm"
    model: str | None = None
    family: str | None = None
    version: str | None = None
    agent: Agent | None = None

    def set_agent(self, agent: Agent) -> None:
        """Set the agent that the grader asks; its model and family are those of the grader."""
        self.agent, self.model, self.family = agent, agent.model, agent.family

    async def aclose(self) -> None:
        """Close the connections of the agent, if there is one."""
        if self.agent is not None:
            await self.agent.aclose()

    def identity(self, replies: Sequence[Reply] = ()) -> JsonObject:
        """Return the name, model, family and version of the grader, as results record them."""
        return {
            "grader": self.name,
            "grader_model": (replies[-1].model if replies else None) or self.model,
            "grader_family": self.family,
            "grader_version": self.version,
        }

    def about(self, attempt: Attempt, place: Place, replies: Sequence[Reply] = ()) -> JsonObject:
        """Return the fields that all verdicts on one answer share."""
        return {
            "attempt_id": attempt.attempt_id,
            **self.identity(replies),
            "grader_kind": self.kind,
            "graded_at": datetime.now(UTC),
            "order": 1,
            **place,
        }


class BaseGrader(Judge, ABC):
    """Base class of graders, which judge the checks of an attempt."""

    @abstractmethod
    async def grade(
        self, attempt: Attempt, case: Case, skill: Skill, **place: Unpack[Place]
    ) -> Grading:
        """Return the verdicts on one attempt; see `ComprehensionGrader.grade`."""


LiveGrader = BaseGrader  # in types; an object with the same members is accepted, too


@dataclass(frozen=True)
class Judged:
    """One verdict, read from a reply that follows the rules.

    Attributes
    ----------
    passed : bool
        True for PASS, False for FAIL.
    evidence_quote, rationale : str or None
        Quote and reason from the reply; None for the style ``impression``.
    borderline : bool or None
        Whether the verdict is a PASS with a hedged rationale, which deserves a second look; None if
        the rationale was not examined for hedges.
    dimension_passed : bool or None
        The reply's verdict on all behaviours together; None for the style ``impression``.
    score : float or None
        Score from the reply; None if the prompt asks for none.
    """

    passed: bool
    evidence_quote: str | None = None
    rationale: str | None = None
    borderline: bool | None = None
    dimension_passed: bool | None = None
    score: float | None = None


async def ask_until_read(
    agent: Agent,
    prompt: Callable[..., GraderPrompt],
    schema: type[BaseModel] | None,
    read: Callable[[str], tuple[_T | None, list[str]]],
    usable: Collection[str] = ("ok", "truncated"),
    cell: Cell | None = None,
) -> tuple[_T | None, tuple[Reply, ...], tuple[str, ...]]:
    """Ask a model; if its reply has problems, name them and ask again, at most twice.

    Parameters
    ----------
    agent : Agent
        The agent to ask.
    prompt : callable
        Called with ``problems=`` (a list of str, empty at first); returns a `GraderPrompt`.
    schema : type of pydantic.BaseModel or None
        Schema that the reply must fit.
    read : callable
        Called with the text of a reply; returns the result and a list of problems, empty if the
        reply follows the rules.
    usable : collection of str, default ("ok", "truncated")
        Statuses of replies that are read. A reply with any other status is not read, and the model
        is not asked again.
    cell : Cell, optional
        Case, condition, repeat and files of the question, passed on to the agent.

    Returns
    -------
    result
        Result of `read` for the last reply; None if that reply has a status outside `usable`.
    tuple of Reply
        All replies, in the order in which they arrived.
    tuple of str
        Problems of the last reply; empty if it has none or was not read.
    """
    replies: tuple[Reply, ...] = ()
    result, problems = None, list[str]()
    while len(replies) <= ASKED_AGAIN and (problems or not replies):
        request = prompt(problems=problems)
        reply = await agent.ask(request.user, system=request.system, schema=schema, cell=cell)
        replies += (reply,)
        if reply.status not in usable:
            return None, replies, ()
        result, problems = read(reply.answer or "")
    return result, replies, tuple(problems)


def json_inside(text: str) -> Any:
    """Parse the JSON object in a reply; raise ValueError or RecursionError if it is not JSON."""
    start, end = text.find("{"), text.rfind("}")
    return whole_content(json.loads(text[start : end + 1] if start >= 0 else text))


def read_json(text: str, schema: type[_M], *, strict: bool = True) -> tuple[_M | None, str]:
    """Parse the JSON object in a reply; return (object, "") or, if that fails, (None, problem)."""
    try:
        content = json_inside(text)
    except (ValueError, RecursionError):
        return None, "The reply must be one JSON object."
    try:
        return schema.model_validate(content, strict=strict), ""
    except ValidationError as error:
        return None, f"The JSON does not fit the schema: {first_fault(error, 'the object')}."


def on_check(check: Check, position: int, about: Mapping[str, Any], **outcome: Any) -> Verdict:
    """Build the verdict on one check of an answer.

    Parameters
    ----------
    check : Check
        The check.
    position : int
        Position of the check in its case, counted from 0. The verdict's ``order`` is the sum of
        this position and ``about["order"]``.
    about : mapping
        Fields that all verdicts on the answer share, as returned by `BaseGrader.about`.
    **outcome
        Further fields of the `Verdict`, such as ``passed``, ``status`` and ``rationale``.

    Returns
    -------
    Verdict
        The verdict.
    """
    identity = {"check_id": check.check_id, "check_kind": check.check_kind, "goal": check.goal}
    return Verdict(**{**about, **identity, "order": about["order"] + position, **outcome})


def verdicts_of(
    case: Case, replies: Sequence[Reply], judged: Mapping[str, Judged], about: Mapping[str, Any]
) -> tuple[Verdict, ...]:
    """Build one verdict for each check of a case from the replies of a model.

    Parameters
    ----------
    case : Case
        The case with its checks.
    replies : sequence of Reply
        All replies of the grading. Each verdict has an equal share of their cost.
    judged : mapping of str to Judged
        Judgements read from the last reply, by check_id; empty if the reply cannot be used.
    about : mapping
        Fields that all verdicts on the answer share, as returned by `BaseGrader.about`.

    Returns
    -------
    tuple of Verdict
        One verdict for each check, in the order of the case. If `judged` is empty, the verdicts
        have status ``malformed``, ``refused`` or ``error``, and their ``passed`` is None.
    """
    last = replies[-1]
    status = "ok" if judged else failure(last)
    cost = cost_of(replies)
    share = None if cost is None else cost / len(case.checks)
    verdicts = []
    for position, check in enumerate(case.checks):
        verdict = judged.get(check.check_id)
        outcome = asdict(verdict) if verdict is not None else {"raw": last.answer or last.error}
        verdicts.append(on_check(check, position, about, status=status, cost_usd=share, **outcome))
    return tuple(verdicts)


def cost_of(replies: Sequence[Reply]) -> float | None:
    """Return the total cost of replies in US dollars; None if any cost is unknown."""
    costs = [reply.cost_usd for reply in replies if reply.cost_usd is not None]
    return sum(costs) if len(costs) == len(replies) else None


def failure(reply: Reply) -> VerdictStatus:
    """Return the status of verdicts for which `reply` gives no usable result."""
    if reply.status in ("ok", "truncated"):
        return "malformed"
    return "refused" if reply.status == "refused" else "error"


def answer_of(attempt: Attempt, case: Case, skill: Skill | None = None) -> str:
    """Return the answer of an attempt; raise if it is missing or belongs to another case.

    Parameters
    ----------
    attempt : Attempt
        The attempt to judge.
    case : Case
        The case by which the attempt is judged.
    skill : Skill, optional
        The skill of the case; without it, the skill is not checked.

    Returns
    -------
    str
        The answer; it can be empty.

    Raises
    ------
    GraderError
        If the status is not ``ok``, if the case or the skill is not that of the attempt, or if the
        case is one of ``claude plugin eval`` in an old store.
    """
    if any(check.rule is not None for check in case.checks):
        raise GraderError(
            f"Case '{case.case_id}' is one of claude plugin eval, recorded by an earlier version; "
            "that program runs and grades its cases. Read its results with sc.read_results."
        )
    if attempt.status != "ok" or attempt.answer is None:
        raise GraderError(
            f"Attempt '{attempt.attempt_id}' has status '{attempt.status}' and nothing to judge; "
            "only answers with status 'ok' are graded and compared."
        )
    slug = skill.slug if skill else attempt.skill
    if (case.case_id, slug) != (attempt.case_id, attempt.skill):
        raise GraderError(
            f"Attempt '{attempt.attempt_id}' belongs to case '{attempt.case_id}' of skill "
            f"'{attempt.skill}'; given were case '{case.case_id}' and skill '{slug}'."
        )
    return attempt.answer


def item_of(attempt: Attempt, place: Place) -> str:
    """Return the blind name under which a grader sees an answer."""
    return place.get("item") or whole_hash(0, attempt.attempt_id)[-ITEM_LENGTH:]


class Blind(NamedTuple):
    """An attempt with its blind name, which graders see, and the position of its first verdict."""

    attempt_id: str
    item: str
    order: int


def blind(attempts: Mapping[str, int], *, seed: int) -> list[Blind]:
    """Shuffle attempts and give them blind names, which reveal nothing about the attempts.

    Parameters
    ----------
    attempts : mapping of str to int
        Number of checks of each attempt, by attempt_id.
    seed : int
        Seed of the order and the names.

    Returns
    -------
    list of Blind
        The attempts in shuffled order. ``order`` is the position of an attempt's first verdict
        among the verdicts on all attempts, counted from 1.

    Examples
    --------
    >>> [b.order for b in blind({"a/1": 4, "a/2": 4, "a/3": 4}, seed=1)]
    [1, 5, 9]
    """
    digest = {name: whole_hash(seed, name) for name in attempts}
    placed, order = [], 1
    for name in sorted(attempts, key=digest.__getitem__):
        placed.append(Blind(name, digest[name][-ITEM_LENGTH:], order))
        order += attempts[name]
    return placed
