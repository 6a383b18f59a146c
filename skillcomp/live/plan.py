"""What a study asks, in which order, and what of it is still open."""

from __future__ import annotations

import json
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from skillcomp.errors import StudyError
from skillcomp.io.store import RunStore
from skillcomp.live.arms import Arm, Text, settle_arms
from skillcomp.live.budget import PAID
from skillcomp.live.pins import require_unedited
from skillcomp.live.prompts import agent_version
from skillcomp.live.reply import Agent
from skillcomp.records import Case, Record, Suite

__all__ = ["Key", "Plan", "PlannedCell", "Tried", "interleaved", "make_plan", "tries"]


class Key(NamedTuple):
    """What makes a cell of a study: who is asked what, under which condition, which time."""

    agent: str
    case_id: str
    condition: str
    repeat: int


class PlannedCell(Record):
    """One answer that a study wants; a line of the store's ``plan``.

    Attributes
    ----------
    attempt_id : str
        ``case_id/condition/repeat``, with the agent behind it where a study has several.
    agent, skill, case_id, condition, repeat : str, str, str, str, int
        The cell.
    loaded_skill : str or None
        Name of the text that is loaded.
    """

    attempt_id: str
    agent: str
    skill: str
    case_id: str
    condition: str
    repeat: int
    loaded_skill: str | None = None

    @property
    def key(self) -> Key:
        """The cell without its names."""
        return Key(self.agent, self.case_id, self.condition, self.repeat)


class PlannedAgent(Record):
    """An agent as a study was begun with it; a line of the store's ``agents``.

    Attributes
    ----------
    agent : str
        Its name.
    model, family, settings, prompt_version : str or None
        As the agent has them.
    tells_endpoint : bool
        Whether settings without ``endpoint`` mean the usual host. Where it is False, the line is
        of an earlier release, which said nothing of an endpoint that the environment gave.
    """

    agent: str
    model: str | None = None
    family: str | None = None
    settings: str | None = None
    prompt_version: str | None = None
    tells_endpoint: bool = False

    def is_still(self, now: str | None) -> bool:
        """Return whether settings are those of this line, as far as it tells."""
        if now == self.settings or self.tells_endpoint or not (now and self.settings):
            return now == self.settings
        try:
            old, new = json.loads(self.settings), json.loads(now)
            return bool({"endpoint": new.get("endpoint")} | old == new)
        except (ValueError, AttributeError, TypeError):
            return False


@dataclass(slots=True)
class Tried:
    """What the store holds for one cell.

    Attributes
    ----------
    paid : tuple of str
        Statuses of the replies that came, in order.
    n_errors : int
        Tries that brought none.
    settled : bool
        Whether a reply came in this run, which is not asked for once more.
    """

    paid: tuple[str, ...] = ()
    n_errors: int = 0
    settled: bool = False

    def is_done(self, again: Collection[str] = ()) -> bool:
        """Return whether nothing is left to ask; statuses in `again` are asked anew."""
        if "ok" in self.paid or self.settled:
            return True
        return bool(self.paid) and self.paid[-1] not in again


@dataclass(frozen=True)
class Plan:
    """A study as it stands in the store.

    Attributes
    ----------
    cells : tuple of PlannedCell
        What this run wants, in the order of asking.
    cases : dict of str to Case
        By case_id.
    arms : dict of (str, str) to Arm
        By skill and condition.
    """

    cells: tuple[PlannedCell, ...]
    cases: Mapping[str, Case]
    arms: Mapping[tuple[str, str], Arm]


def make_plan(
    store: RunStore,
    suites: Sequence[Suite],
    agents: Sequence[Agent],
    *,
    conditions: Sequence[str],
    repeats: int,
    placebo: Text | Mapping[str, Text] | None,
    previous: Text | Mapping[str, Text] | None,
    seed: int,
) -> Plan:
    """Settle what is asked and write it into the store, before anything is asked.

    A study that was begun earlier goes on: cells that are planned keep their place and their name,
    new ones follow. The caller holds the store's writer's place.

    Returns
    -------
    Plan
        The cells that these arguments ask for.

    Raises
    ------
    StudyError
        When something is missing, or differs from what the study was begun with: a suite or skill
        that was edited inside the store too.
    """
    _check(store, suites, agents, repeats)
    require_unedited(store, suites)
    recorded = {(arm.skill, arm.condition): arm for arm in map(_as(Arm), store.records("arms"))}
    skills = list(dict.fromkeys(suite.skill for suite in suites))
    arms = settle_arms(
        store, skills, conditions, placebo=placebo, previous=previous, recorded=recorded
    )
    settled = _agents(store, agents)
    planned = {cell.key: cell for cell in map(_as(PlannedCell), store.records("plan"))}
    order = interleaved(
        [(suite.skill, case.case_id) for suite in suites for case in suite.cases],
        [agent.name for agent in agents],
        list(conditions),
        repeats,
        seed=seed,
    )
    wanted = list(order)
    new = [cell for cell in wanted if Key(*cell[1:]) not in planned]
    names = _names(planned.values(), [agent.name for agent in agents], store)
    fresh = [
        PlannedCell(
            attempt_id=names(key),
            skill=skill,
            loaded_skill=arms[skill, key.condition].loaded_skill,
            **key._asdict(),
        )
        for skill, key in ((cell[0], Key(*cell[1:])) for cell in new)
    ]
    store.append("arms", [arm for at, arm in arms.items() if at not in recorded])
    store.append("agents", settled)
    store.append("plan", fresh)
    keys = {Key(*cell[1:]) for cell in wanted}
    cells = [cell for key, cell in planned.items() if key in keys] + fresh
    cases = {case.case_id: case for suite in suites for case in suite.cases}
    return Plan(tuple(cells), cases, arms)


def _as(model: type[Any]) -> Any:
    return model.model_validate


def _check(store: RunStore, suites: Sequence[Suite], agents: Sequence[Agent], repeats: int) -> None:
    if not suites or not any(suite.cases for suite in suites):
        raise StudyError(f"{store.path}: there are no cases to ask; add a suite first.")
    if not agents:
        raise StudyError("agents is empty; give at least one.")
    if not isinstance(repeats, int) or repeats < 1:
        raise StudyError(f"repeats is {repeats!r}; allowed: a whole number from 1.")
    names = [agent.name for agent in agents]
    for name in names:
        if names.count(name) > 1:
            raise StudyError(
                f"Two agents are named '{name}'; give one of them another name=, since answers "
                "are told apart by it."
            )
    for suite in suites:
        if suite.skill not in store.skills:
            raise StudyError(
                f"suite '{suite.slug}': its skill '{suite.skill}' is not in the store "
                f"({', '.join(store.skills) or 'which has none'}); add it with "
                "store.add_skill(path) or under 'skills:' of the study file. The 'skill' of a "
                "suite is the name of the skill's folder."
            )
    ids = Counter(case.case_id for suite in suites for case in suite.cases)
    if twice := [name for name, n in ids.items() if n > 1]:
        raise StudyError(f"The case ids {', '.join(twice)} stand more than once.")


def _agents(store: RunStore, agents: Sequence[Agent]) -> list[PlannedAgent]:
    """Return the agents that need a line; refuse one that has changed under its name.

    A line of an earlier release is followed by one that tells the endpoint, which counts from then.
    """
    known = {one.agent: one for one in map(_as(PlannedAgent), store.records("agents"))}
    new = []
    for agent in agents:
        given = PlannedAgent(
            agent=agent.name,
            model=agent.model,
            family=agent.family,
            settings=agent.settings,
            prompt_version=agent_version(),
            tells_endpoint=True,
        )
        before = known.get(agent.name)
        if before is None or not before.tells_endpoint:
            new.append(given)
        if before is None:
            continue
        for name in ("model", "settings", "prompt_version"):
            was, now = getattr(before, name), getattr(given, name)
            if was != now and not (name == "settings" and before.is_still(now)):
                raise StudyError(
                    f"agent '{agent.name}': {name} is now {now}, the study was begun with {was}. "
                    "Answers of two settings are two agents: give this one another name=."
                )
    return new


def _names(planned: Iterable[PlannedCell], agents: Sequence[str], store: RunStore) -> Any:
    """Return the function that names a new cell: the agent is told where there are several."""
    taken = {cell.attempt_id: cell.agent for cell in planned}
    rows = store.table("attempts").select(["attempt_id", "agent"]).to_pylist()
    taken |= {row["attempt_id"]: row["agent"] or "" for row in rows}
    several = len(set(agents)) > 1

    def name(key: Key) -> str:
        plain = f"{key.case_id}/{key.condition}/{key.repeat}"
        return f"{plain}/{key.agent}" if several or plain in taken else plain

    return name


def interleaved(
    cases: Sequence[tuple[str, str]],
    agents: Sequence[str],
    conditions: Sequence[str],
    repeats: int,
    *,
    seed: int,
) -> Iterator[tuple[str, str, str, str, int]]:
    """Yield the cells of a study so that time does not confound the arms.

    Parameters
    ----------
    cases : sequence of (str, str)
        Skill and case_id.
    agents, conditions : sequence of str
        Names.
    repeats : int
        How often each cell is asked.
    seed : int
        Of the order.

    Yields
    ------
    tuple
        skill, agent, case_id, condition, repeat. One repeat after the other; in each, the cases in
        a random order of its own; of each case all agents and conditions at once, again in random
        order. At any moment two arms have been asked about equally often, to within one case.

    Examples
    --------
    >>> cells = list(interleaved([("s", "s/1")], ["a"], ["baseline", "skill"], 2, seed=0))
    >>> [cell[3] for cell in cells[:2]] != [cell[3] for cell in cells[2:]] or len(cells)
    4
    """
    draw = random.Random(seed)
    for repeat in range(1, repeats + 1):
        for skill, case_id in draw.sample(list(cases), len(cases)):
            arms = [(agent, condition) for agent in agents for condition in conditions]
            for agent, condition in draw.sample(arms, len(arms)):
                yield skill, agent, case_id, condition, repeat


def tries(store: RunStore) -> dict[Key, Tried]:
    """Return what the store holds for each cell; perturbed copies are no tries."""
    columns = ["agent", "case_id", "condition", "repeat", "status", "perturbation"]
    columns += ["source_attempt_id"]
    found: defaultdict[Key, Tried] = defaultdict(Tried)
    for row in store.table("attempts").select(columns).to_pylist():
        if row["perturbation"] is not None or row["source_attempt_id"] is not None:
            continue
        key = Key(row["agent"] or "", row["case_id"], row["condition"], row["repeat"])
        if row["status"] in PAID:
            found[key].paid += (sys.intern(row["status"]),)
        else:
            found[key].n_errors += 1
    return found
