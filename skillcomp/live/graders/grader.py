"""What all graders share: their identity, their results, and how a model is asked."""

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
ASKED_AGAIN = 2  # times, after a reply that breaks a rule (report 7.10: re-run, not a silent pass)
ITEM_LENGTH = 8  # hex digits of a blind name


class GraderWarning(UserWarning):
    """Verdicts may be biased by who grades whom, or by what the grader can tell."""


@dataclass(frozen=True)
class Grading:
    """All that came of grading one attempt.

    Attributes
    ----------
    verdicts : tuple of Verdict
        One a check, whatever happened: a grader that failed gives verdicts whose status says so.
    replies : tuple of Reply
        Every reply that was paid for, the malformed ones too, in order.
    problems : tuple of str
        Which rules the last reply broke; empty when it could be used.
    gives_away : str or None
        Words by which the answer tells its condition.
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
    """Who judges, as a study keeps it.

    Attributes
    ----------
    name, kind : str
        The label in the frames, and what it is (``llm``, ``replay``, ...).
    model, family, version : str or None
        Of the model behind it; the version changes whenever it would be told something else.
    """

    name: str
    kind: str
    model: str | None
    family: str | None
    version: str | None


class Place(TypedDict, total=False):
    """Where a grading stands in its record.

    Attributes
    ----------
    round : int
        2 and up for grading again; 1 when not given.
    batch, item : str or None
        Names for the record; `item` is also what a model is told, so it must be blind.
    order : int
        Position of the first verdict in its batch; 1 when not given.
    """

    round: int
    batch: str | None
    item: str | None
    order: int


class LiveGrader(Judge, Protocol):
    """Anything that decides about the checks of an attempt."""

    async def grade(
        self, attempt: Attempt, case: Case, skill: Skill, **place: Unpack[Place]
    ) -> Grading:
        """Return the verdicts on one attempt; see `ComprehensionGrader.grade`."""
        ...

    async def aclose(self) -> None:
        """Close connections."""
        ...


class BaseGrader:
    """What graders share: who they are in a verdict, and the connections of whom they ask."""

    name: str
    kind: str = "llm"
    model: str | None = None
    family: str | None = None
    version: str | None = None
    agent: Agent | None = None

    async def aclose(self) -> None:
        """Close the connections of whom it asks, if it asks anybody."""
        if self.agent is not None:
            await self.agent.aclose()

    def about(
        self, attempt: Attempt, place: Place, replies: Sequence[Reply] = ()
    ) -> dict[str, Any]:
        """Return what all verdicts on one answer have in common."""
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
    """One verdict as read from a reply that keeps the rules.

    Attributes
    ----------
    passed : bool
        PASS or FAIL.
    evidence_quote, rationale : str or None
        As given; None for graders by impression.
    borderline : bool or None
        A PASS whose rationale hedges: it deserves a second look. None without a rationale.
    dimension_passed : bool or None
        What the reply says of all its behaviours together; None for graders by impression.
    score : float or None
        Where one is asked for.
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
    """Return what a reply says, all replies, and why the last one cannot be used.

    A reply that cannot be used is asked for again at most twice, with what was wrong.
    """
    replies: list[Reply] = []
    found, problems = None, list[str]()
    while len(replies) <= ASKED_AGAIN and (problems or not replies):
        told = prompt(problems=problems)
        reply = await agent.ask(told.user, system=told.system, schema=schema, cell=cell)
        replies.append(reply)
        if reply.status not in usable:
            return None, replies, []
        found, problems = read(reply.answer or "")
    return found, replies, problems


def on_check(check: Check, position: int, about: Mapping[str, Any], **said: Any) -> Verdict:
    """Return the verdict on a check of a case from what all of them have in common."""
    same = {"check_id": check.check_id, "check_kind": check.check_kind, "goal": check.goal}
    return Verdict(**{**about, **same, "order": about["order"] + position, **said})


def verdicts_of(
    case: Case, replies: Sequence[Reply], judged: Mapping[str, Judged], about: Mapping[str, Any]
) -> tuple[Verdict, ...]:
    """Return one verdict a check from what the last reply judges; `about` says who judged."""
    last = replies[-1]
    status: VerdictStatus = "ok" if judged else failure(last)
    cost = cost_of(replies)
    share = None if cost is None else cost / len(case.checks)
    verdicts = []
    for position, check in enumerate(case.checks):
        one = judged.get(check.check_id)
        said = asdict(one) if one is not None else {"raw": last.answer or last.error}
        verdicts.append(on_check(check, position, about, status=status, cost_usd=share, **said))
    return tuple(verdicts)


def cost_of(replies: Sequence[Reply]) -> float | None:
    """Return what replies cost together; None where one of them does not say."""
    costs = [reply.cost_usd for reply in replies]
    known = [cost for cost in costs if cost is not None]
    return sum(known) if len(known) == len(costs) else None


def failure(reply: Reply) -> VerdictStatus:
    """Return the status of verdicts that a reply did not bring."""
    if reply.status in ("ok", "truncated"):
        return "malformed"
    return "refused" if reply.status == "refused" else "error"


def answer_of(
    attempt: Attempt, case: Case, skill: Skill | None = None, *, done: str = "graded"
) -> str:
    """Return the answer that is to be judged, or raise where there is none or it is another's."""
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
    """An attempt with the name that its grader sees and the place of its first verdict."""

    attempt_id: str
    item: str
    order: int


def blind(attempts: Mapping[str, int], *, seed: int) -> list[Blind]:
    """Return attempts in a shuffled order under names that tell nothing.

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
    """Return a warning when a grader judges answers of its own family, or None."""
    families = set(agents)
    if grader.family is not None and grader.family in families:
        return (
            f"Grader '{grader.name}' and an agent under test are of one family "
            f"('{grader.family}'): self-preference cannot be told from merit."
        )
    if grader.family is None or None in families:
        return f"Grader '{grader.name}': the family of grader or agent is unknown."
    return None
