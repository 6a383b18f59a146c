"""Base of all graders: identity, results, and asking a model until its reply is usable."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol, TypedDict, TypeVar, Unpack

from pydantic import BaseModel

from skillcomp.errors import GraderError
from skillcomp.live.agents.agent import Agent, Cell, Reply, whole_hash
from skillcomp.live.graders.prompts import GraderPrompt
from skillcomp.records import Attempt, Case, Check, Skill, Verdict, VerdictStatus

_T = TypeVar("_T")
ASKED_AGAIN = 2  # times, after a reply that breaks a rule (report 7.10)
ITEM_LENGTH = 8  # hex digits of a blind name


class GraderWarning(UserWarning):
    """Verdicts may be biased: grader and agent are related, or the grader can guess conditions."""


@dataclass(frozen=True)
class Grading:
    """The result of grading one attempt.

    Attributes
    ----------
    verdicts : tuple of Verdict
        One for each check; if the grader failed, their status shows it.
    replies : tuple of Reply
        All replies in order, including malformed ones (they cost money too).
    problems : tuple of str
        Rules that the last reply breaks; empty if it is usable.
    gives_away : str or None
        Words by which the answer reveals its condition.
    """

    verdicts: tuple[Verdict, ...]
    replies: tuple[Reply, ...] = ()
    problems: tuple[str, ...] = ()
    gives_away: str | None = None

    @property
    def fatal(self) -> bool:
        """Whether every further grading would fail in the same way."""
        return bool(self.replies) and self.replies[-1].fatal


class Judge(Protocol):
    """Identity of a judge, as a study records it.

    Attributes
    ----------
    name, kind : str
        Label in the frames, and type (``llm``, ``replay``, ...).
    model, family, version : str or None
        Model, its family, and version of the instructions; other instructions, other version.
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
        1 by default; 2 and up for grading again.
    batch, item : str or None
        Recorded names; a model sees `item`, so it must reveal nothing.
    order : int
        Position of the first verdict in its batch; 1 by default.
    """

    round: int
    batch: str | None
    item: str | None
    order: int


class LiveGrader(Judge, Protocol):
    """A grader: decides the checks of an attempt."""

    async def grade(
        self, attempt: Attempt, case: Case, skill: Skill, **place: Unpack[Place]
    ) -> Grading:
        """Return the verdicts on one attempt; see `ComprehensionGrader.grade`."""

    async def aclose(self) -> None:
        """Close connections."""


class BaseGrader:
    """Base class of graders: their identity in verdicts, and the connections of their agent."""

    name: str
    kind: str = "llm"
    model: str | None = None
    family: str | None = None
    version: str | None = None
    agent: Agent | None = None

    async def aclose(self) -> None:
        """Close the connections of the agent, if there is one."""
        if self.agent is not None:
            await self.agent.aclose()

    def about(
        self, attempt: Attempt, place: Place, replies: Sequence[Reply] = ()
    ) -> dict[str, Any]:
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
        PASS or FAIL.
    evidence_quote, rationale : str or None
        Text of the reply; None for the style ``impression``.
    borderline : bool or None
        A PASS with a hedged rationale, which deserves a second look; None without a rationale.
    dimension_passed : bool or None
        The reply's verdict on all behaviours together; None for the style ``impression``.
    score : float or None
        Score, if the prompt asks for one.
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
    schema: type[BaseModel],
    read: Callable[[str], tuple[_T | None, list[str]]],
    usable: Collection[str] = ("ok", "truncated"),
    cell: Cell | None = None,
) -> tuple[_T | None, list[Reply], list[str]]:
    """Ask a model until its reply is usable: at most twice again, with the problems shown.

    Parameters
    ----------
    agent : Agent
        The agent to ask.
    prompt : callable
        Called with ``problems=`` (a list of str, empty at first); returns a `GraderPrompt`.
    schema : type of pydantic.BaseModel
        Shape of the reply.
    read : callable
        Called with the text of a reply; returns the result and its problems. A reply without
        problems is usable.
    usable : collection of str, default ("ok", "truncated")
        Statuses of a reply that is read; after another status nothing more is asked.
    cell : Cell, optional
        Passed on to the agent.

    Returns
    -------
    result
        The result of `read` for the last reply; None after a status that is not usable.
    list of Reply
        All replies, first to last.
    list of str
        Problems of the last reply; empty if it is usable.
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
        Position of the check in its case, from 0; it is added to ``about["order"]``.
    about : mapping
        The fields that all verdicts on the answer share, from `BaseGrader.about`.
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
        All replies to the grading; their cost is divided equally among the checks.
    judged : mapping of str to Judged
        The judgements of the last reply, by check_id; empty if it cannot be used.
    about : mapping
        The fields that all verdicts on the answer share, from `BaseGrader.about`.

    Returns
    -------
    tuple of Verdict
        One verdict for each check, in the order of the case. Without `judged` their status is
        ``malformed``, ``refused`` or ``error``, and ``passed`` is None.
    """
    last = replies[-1]
    status: VerdictStatus = "ok" if judged else failure(last)
    cost = cost_of(replies)
    share = None if cost is None else cost / len(case.checks)
    verdicts = []
    for position, check in enumerate(case.checks):
        verdict = judged.get(check.check_id)
        outcome = asdict(verdict) if verdict is not None else {"raw": last.answer or last.error}
        verdicts.append(on_check(check, position, about, status=status, cost_usd=share, **outcome))
    return tuple(verdicts)


def cost_of(replies: Sequence[Reply]) -> float | None:
    """Return the total cost of replies in US dollars; None if one of them has no cost."""
    costs = [reply.cost_usd for reply in replies]
    recorded = [cost for cost in costs if cost is not None]
    return sum(recorded) if len(recorded) == len(costs) else None


def failure(reply: Reply) -> VerdictStatus:
    """Return the status of the verdicts that are missing because of a reply."""
    if reply.status in ("ok", "truncated"):
        return "malformed"
    return "refused" if reply.status == "refused" else "error"


def answer_of(
    attempt: Attempt, case: Case, skill: Skill | None = None, *, done: str = "graded"
) -> str:
    """Return the answer to judge; raise if it is missing or belongs to another case.

    Parameters
    ----------
    attempt : Attempt
        The attempt to judge.
    case : Case
        The case that the caller judges it by.
    skill : Skill, optional
        The skill of the case, if the caller has it.
    done : str, default "graded"
        The verb of the error message.

    Returns
    -------
    str
        The answer; it can be empty.

    Raises
    ------
    GraderError
        If the status is not ``ok``, or case or skill are not those of the attempt.
    """
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
    """An attempt with the name that its grader sees and the position of its first verdict."""

    attempt_id: str
    item: str
    order: int


def blind(attempts: Mapping[str, int], *, seed: int) -> list[Blind]:
    """Shuffle attempts and give them names that reveal nothing.

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


def family_warning(grader: Judge, agents: Iterable[str | None]) -> str | None:
    """Return a warning if a grader judges answers of its own family, or None."""
    families = set(agents)
    if grader.family is not None and grader.family in families:
        return (
            f"Grader '{grader.name}' and an agent under test are of one family "
            f"('{grader.family}'): self-preference cannot be told from merit."
        )
    if grader.family is None or None in families:
        return f"Grader '{grader.name}': the family of grader or agent is unknown."
    return None
