"""Shared parts of all graders: identity, results, and repeated questions to a model."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol, TypedDict, TypeVar, Unpack

from pydantic import BaseModel

from skillcomp.errors import GraderError
from skillcomp.io.files import JsonObject
from skillcomp.live.agents.agent import Agent, Cell, Reply, whole_hash
from skillcomp.live.graders.prompts import GraderPrompt
from skillcomp.records import Attempt, Case, Check, Skill, Verdict, VerdictStatus

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


class Judge(Protocol):
    """Identity of a judge, as a study records it.

    Attributes
    ----------
    name, kind : str
        Label of the judge in the frames, and its type (``llm``, ``rules``, ...).
    model, family, version : str or None
        The model, the family of the model, and the version of the judge's instructions. Changed
        instructions have a new version.
    """

    name: str
    kind: str
    model: str | None
    family: str | None
    version: str | None


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


class LiveGrader(Judge, Protocol):
    """Protocol of a grader, which judges the checks of an attempt."""

    async def grade(
        self, attempt: Attempt, case: Case, skill: Skill, **place: Unpack[Place]
    ) -> Grading:
        """Return the verdicts on one attempt; see `ComprehensionGrader.grade`."""

    async def aclose(self) -> None:
        """Close the connections of the grader."""


def agent_of(grader: Any) -> Agent | None:
    """Return the agent that a grader asks; None for a grader without an agent, as in a replay."""
    return getattr(grader, "agent", None)


class BaseGrader:
    """Base class of graders. It adds the grader's identity to verdicts and closes connections."""

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

    def about(self, attempt: Attempt, place: Place, replies: Sequence[Reply] = ()) -> JsonObject:
        """Return the fields that all verdicts on one answer share."""
        return {
            "attempt_id": attempt.attempt_id,
            "grader": self.name,
            "grader_kind": self.kind,
            "grader_model": (replies[-1].model if replies else None) or self.model,
            "grader_family": self.family,
            "grader_version": self.version,
            "graded_at": datetime.now(UTC),
            "order": 1,
            **place,
        }


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
) -> tuple[_T | None, list[Reply], list[str]]:
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
    list of Reply
        All replies, in the order in which they arrived.
    list of str
        Problems of the last reply; empty if it has none or was not read.
    """
    replies: list[Reply] = []
    result, problems = None, list[str]()
    while len(replies) <= ASKED_AGAIN and (problems or not replies):
        request = prompt(problems=problems)
        reply = await agent.ask(request.user, system=request.system, schema=schema, cell=cell)
        replies.append(reply)
        if reply.status not in usable:
            return None, replies, []
        result, problems = read(reply.answer or "")
    return result, replies, problems


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
    costs = [reply.cost_usd for reply in replies]
    recorded = [cost for cost in costs if cost is not None]
    return sum(recorded) if len(recorded) == len(costs) else None


def failure(reply: Reply) -> VerdictStatus:
    """Return the status of verdicts for which `reply` gives no usable result."""
    if reply.status in ("ok", "truncated"):
        return "malformed"
    return "refused" if reply.status == "refused" else "error"


def answer_of(
    attempt: Attempt, case: Case, skill: Skill | None = None, *, done: str = "graded"
) -> str:
    """Return the answer of an attempt; raise if it is missing or belongs to another case.

    Parameters
    ----------
    attempt : Attempt
        The attempt to judge.
    case : Case
        The case by which the attempt is judged.
    skill : Skill, optional
        The skill of the case; without it, the skill is not checked.
    done : str, default "graded"
        Participle in the error message, such as "graded" or "compared".

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
            f"Attempt '{attempt.attempt_id}' has status '{attempt.status}' and nothing to "
            f"{done.removesuffix('d')}; only answers with status 'ok' are {done}."
        )
    slug = skill.slug if skill else attempt.skill
    if (case.case_id, slug) != (attempt.case_id, attempt.skill):
        raise GraderError(
            f"Attempt '{attempt.attempt_id}' belongs to case '{attempt.case_id}' of skill "
            f"'{attempt.skill}'; given were case '{case.case_id}' and skill '{slug}'."
        )
    return attempt.answer


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
