"""What a study asks, in which order, and what of it is still open."""

from __future__ import annotations

import json
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from skillcomp.errors import StudyError
from skillcomp.io.files import INPUTS, digest
from skillcomp.io.skills import tree_of
from skillcomp.io.store import RunStore
from skillcomp.io.suites import file_place, names_of_files
from skillcomp.live.agents.reply import PAID, Agent, agent_version
from skillcomp.live.study.conditions import ConditionText, Text, settle_texts
from skillcomp.records import Case, Record, Suite

if TYPE_CHECKING:
    from skillcomp.live.graders.comprehension import Judge


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
    def key(self) -> str:
        """The name of its first answer."""
        return self.attempt_id

    @property
    def place(self) -> Key:
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
    texts : dict of (str, str) to ConditionText
        By skill and condition.
    """

    cells: tuple[PlannedCell, ...]
    cases: Mapping[str, Case]
    texts: Mapping[tuple[str, str], ConditionText]


def make_plan(
    store: RunStore,
    suites: Sequence[Suite],
    agents: Sequence[Agent],
    *,
    conditions: Sequence[str],
    repeats: int,
    seed: int,
    placebo: Text | Mapping[str, Text] | None = None,
    previous: Text | Mapping[str, Text] | None = None,
) -> Plan:
    """Settle what is asked and write it into the store, before anything is asked.

    A study that was begun earlier goes on: cells that are planned keep their place and their name,
    new ones follow. The caller has the store open for writing (`RunStore.writer`).
    """
    _check(store, suites, agents, repeats)
    require_unedited(store, suites)
    texts_before = map(ConditionText.model_validate, store.records("arms"))
    recorded = {(one.skill, one.condition): one for one in texts_before}
    skills = list(dict.fromkeys(suite.skill for suite in suites))
    texts = settle_texts(
        store, skills, conditions, placebo=placebo, previous=previous, recorded=recorded
    )
    settled = settled_agents(store, agents)
    planned = {cell.place: cell for cell in map(PlannedCell.model_validate, store.records("plan"))}
    order = interleaved(
        [(suite.skill, case.case_id) for suite in suites for case in suite.cases],
        [agent.name for agent in agents],
        list(conditions),
        repeats,
        seed=seed,
    )
    wanted = {Key(*cell[1:]): cell[0] for cell in order}
    names = _names(planned.values(), [agent.name for agent in agents], store)
    fresh = [
        PlannedCell(
            attempt_id=names(key),
            skill=skill,
            loaded_skill=texts[skill, key.condition].loaded_skill,
            **key._asdict(),
        )
        for key, skill in wanted.items()
        if key not in planned
    ]
    store.append("arms", [one for at, one in texts.items() if at not in recorded])
    store.append("agents", settled)
    store.append("plan", fresh)
    cells = [cell for key, cell in planned.items() if key in wanted] + fresh
    cases = {case.case_id: case for suite in suites for case in suite.cases}
    return Plan(tuple(cells), cases, texts)


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


def settled_agents(store: RunStore, agents: Sequence[Agent]) -> list[PlannedAgent]:
    """Return the agents that need a line; refuse one that has changed under its name.

    A line of an earlier release is followed by one that tells the endpoint, which counts from then.
    """
    known = {one.agent: one for one in map(PlannedAgent.model_validate, store.records("agents"))}
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
                raise _changed("agent", agent.name, name, was, now)
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
    """Yield the cells of a study so that time does not confound the conditions.

    Examples
    --------
    >>> cells = list(interleaved([("s", "s/1")], ["a"], ["baseline", "skill"], 2, seed=0))
    >>> [cell[3] for cell in cells[:2]] != [cell[3] for cell in cells[2:]] or len(cells)
    4
    """
    draw = random.Random(seed)
    for repeat in range(1, repeats + 1):
        for skill, case_id in draw.sample(list(cases), len(cases)):
            pairs = [(agent, condition) for agent in agents for condition in conditions]
            for agent, condition in draw.sample(pairs, len(pairs)):
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


class PlannedGrader(Record):
    """A grader as it began to grade a study; a line of the store's ``graders``.

    Attributes
    ----------
    grader, version : str, str or None
        Which grader: verdicts of another version stand apart in every frame.
    round : int or None
        Of a recording, which says another model in another round when the service moved on; None
        for a grader that asks, which is one and the same in all rounds.
    kind, model, family : str or None
        As the grader has them.
    settings : str or None
        Of the agent behind it.
    """

    grader: str
    version: str | None = None
    round: int | None = None
    kind: str | None = None
    model: str | None = None
    family: str | None = None
    settings: str | None = None

    def is_same(self, other: PlannedGrader) -> bool:
        """Return whether verdicts of both would stand under one name, version and round."""
        if (self.grader, self.version) != (other.grader, other.version):
            return False
        return None in (self.round, other.round) or self.round == other.round


def require_graders(graders: Sequence[Any], ident: Callable[[Any], object]) -> None:
    """Raise when there is no grader, or verdicts of two could not be told apart."""
    if not graders:
        raise StudyError("graders is empty; give at least one.")
    several = Counter(map(ident, graders))
    for grader in graders:
        if several[ident(grader)] > 1:
            raise StudyError(f"Two graders are named '{grader.name}'; give one another name=.")


def settle_graders(store: RunStore, graders: Sequence[Judge], round: int) -> None:
    """Write down who grades, before anything is asked; refuse one changed under its name.

    The caller has the store open for writing (`RunStore.writer`).
    """
    known = [PlannedGrader.model_validate(row) for row in store.records("graders")]
    new: list[PlannedGrader] = []
    for grader in graders:
        given = _planned(grader, round)
        before = [one for one in (*known, *new) if one.is_same(given)]
        for one in before:
            for name in ("model", "family", "settings"):
                if (was := getattr(one, name)) != (now := getattr(given, name)):
                    raise _changed("grader", given.grader, name, was, now)
        if not before:
            _compare_receipts(store, given, round)
        if given not in before:
            new.append(given)
    store.append("graders", new)


def _planned(grader: Judge, round: int) -> PlannedGrader:
    agent = getattr(grader, "agent", None)
    return PlannedGrader(
        grader=grader.name,
        version=grader.version,
        round=round if agent is None else None,
        kind=grader.kind,
        model=grader.model,
        family=grader.family,
        settings=getattr(agent or grader, "settings", None),
    )


def _compare_receipts(store: RunStore, given: PlannedGrader, round: int) -> None:
    """Compare with the last grading of a store that has no line about this grader."""
    mine = ("grade", given.grader, given.version)
    last: dict[str, Any] = {}
    for row in store.records("receipts"):
        same_round = given.round is None or row["study"].get("round") == round
        if (row["stage"], row["name"], row.get("prompt_version")) == mine and same_round:
            last = row
    if (was := last.get("model")) is not None and was != given.model:
        raise _changed("grader", given.grader, "model", was, given.model)
    if (was := last.get("settings")) is not None and not _holds(given.settings, was):
        raise _changed("grader", given.grader, "settings", was, given.settings)


def _holds(now: str | None, was: str) -> bool:
    """Return whether all settings of an earlier release are still the same; there may be more."""
    try:
        old, new = json.loads(was), json.loads(now or "{}")
        return bool(old.items() <= {key: new.get(key) for key in old}.items())
    except (ValueError, AttributeError, TypeError):
        return was == now


def _changed(kind: str, who: str, name: str, was: str | None, now: str | None) -> StudyError:
    what = "Answers" if kind == "agent" else "Verdicts"
    return StudyError(
        f"{kind} '{who}': {name} is now {now}, the study was begun with {was}. {what} of two "
        f"settings are two {kind}s: give this one another name=."
    )


def require_unedited(store: RunStore, suites: Iterable[Suite]) -> None:
    """Raise when a suite or its skill is no longer the text that the store recorded."""
    manifest = store.manifest
    for suite in suites:
        skill = store.skills.get(suite.skill)
        _require_unedited_files(store, suite, manifest)
        for kind, one in (("suites", suite), ("skills", skill)):
            listed = manifest[kind].get(one.slug) if one else None
            if one and listed and listed.get("sha256") != one.sha256:
                raise StudyError(
                    f"{store.path / one.path} was edited after it was recorded (its sha256 differs "
                    "from the manifest). Answers and verdicts belong to the recorded text: put it "
                    f"back, or add the new text with store.add_{kind[:-1]}(path, slug=...) under "
                    "another slug."
                )


def _require_unedited_files(store: RunStore, suite: Suite, manifest: Mapping[str, Any]) -> None:
    """Raise when other files of the skill, or the input of cases, are no longer as recorded."""
    tree = manifest["skills"].get(suite.skill, {}).get("tree")
    folder = store.path / "skills" / suite.skill
    if tree and tree_of(folder) != tree:
        raise StudyError(
            f"{folder}: its files are not those that were recorded (the hash of the tree differs "
            "from the manifest). Answers belong to the recorded files: put them back."
        )
    listed = manifest["suites"].get(suite.slug, {})
    for name, hashed in listed.get("files", {}).items():
        file = store.path / file_place(str(listed.get("path", "")), suite.slug, name)
        if not file.is_file() or digest(file.read_bytes()) != hashed:
            raise StudyError(f"{file} is not the file that was recorded; put it back.")


def input_files(store: RunStore, case: Case) -> tuple[tuple[str, Path], ...]:
    """Return name and place of the recorded files that a case lists as its input.

    The files of a fixture come into the working folder itself, without that of the fixture. A task
    has none: what belongs to its suite is its judge's, and no agent's to see.
    """
    slug = case.case_id.partition("/")[0]
    is_task = any(check.judge for check in case.checks)
    recorded = {} if is_task else store.manifest["suites"].get(slug, {}).get("files", {})
    folder = (store.path / INPUTS / slug).resolve()
    fixture = str(case.extra.get("fixture", "")).rstrip("/")
    above = fixture.rpartition("/")[0] if fixture in recorded else fixture  # a file or a folder
    names = (name for name in names_of_files(case.extra) if name in recorded)
    return tuple((name.removeprefix(f"{above}/"), folder / name) for name in names)
