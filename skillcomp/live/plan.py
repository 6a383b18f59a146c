"""What a study asks: which cells, in which order, and which text is loaded in each."""

from __future__ import annotations

import json
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os.path import exists
from pathlib import Path
from typing import Any, NamedTuple

from skillcomp.errors import StudyError, require_known, suggest
from skillcomp.io.files import INPUTS, digest
from skillcomp.io.skills import read_skill, tree_of
from skillcomp.io.store import RunStore
from skillcomp.io.suites import file_place, names_of_files
from skillcomp.live.agents.agent import PAID, Agent, agent_version, whole_hash
from skillcomp.records import CONDITIONS, Case, Record, Skill, Suite

Text = str | Path | Skill
_CHARACTERS = 4  # a token; the usual estimate for English text
_ALIKE = 1.25  # a placebo may be this many times longer or shorter than the skill


class Key(NamedTuple):
    """What makes a cell of a study: who is asked what, under which condition, which time."""

    agent: str
    case_id: str
    condition: str
    repeat: int

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Key:
        """Return the cell that a line of the plan or of the answers is about."""
        return cls(row["agent"] or "", row["case_id"], row["condition"], row["repeat"])


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
    given = {"placebo": placebo, "previous": previous}
    texts = _settled_texts(store, skills, conditions, given, recorded)
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
    require_apart("agent", agents, lambda agent: agent.name)
    if not isinstance(repeats, int) or repeats < 1:
        raise StudyError(f"repeats is {repeats!r}; allowed: a whole number from 1.")
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


def require_apart(kind: str, given: Sequence[Any], ident: Callable[[Any], object]) -> None:
    """Raise when nobody is given, or what two of them say could not be told apart."""
    if not given:
        raise StudyError(f"{kind}s is empty; give at least one.")
    several = Counter(map(ident, given))
    for one in given:
        if several[ident(one)] > 1:
            raise StudyError(
                f"Two {kind}s are named '{one.name}'; give one of them another name=, since what "
                "they say is told apart by it."
            )


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
                raise changed("agent", agent.name, name, was, now)
    return new


def _names(planned: Iterable[PlannedCell], agents: Sequence[str], store: RunStore) -> Any:
    """Return the function that names a new cell: the agent is told where there are several."""
    taken = {cell.attempt_id for cell in planned}
    taken |= set(store.table("attempts").column("attempt_id").to_pylist())
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
        key = Key.of(row)
        if row["status"] in PAID:
            found[key].paid += (sys.intern(row["status"]),)
        else:
            found[key].n_errors += 1
    return found


def changed(kind: str, who: str, name: str, was: str | None, now: str | None) -> StudyError:
    """Return the error that an agent or a grader is no longer what it was under its name."""
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


class ConditionText(Record):
    """What is loaded for the cases of a skill under a condition.

    Attributes
    ----------
    skill, condition : str
        Whose cases, and under which condition.
    loaded_skill : str or None
        Name of the text; None for a baseline.
    sha256 : str or None
        Of the text as loaded.
    n_tokens : int or None
        Its length, estimated at four characters a token.
    choice : str
        ``none``, ``own``, ``given`` or ``nearest`` (another skill of about the same length).
    text : str or None
        The text where it is not one of the store's skills.
    note : str or None
        What to keep in mind about it.
    """

    skill: str
    condition: str
    loaded_skill: str | None = None
    sha256: str | None = None
    n_tokens: int | None = None
    choice: str = "none"
    text: str | None = None
    note: str | None = None

    def loaded(self, store: RunStore) -> Skill | None:
        """Return the skill to give to an agent, None for a baseline."""
        if self.loaded_skill is None:
            return None
        if self.text is None:
            skill = store.skills[self.loaded_skill]
            # with its folder only where that was recorded: answers of earlier releases had none
            has_tree = "tree" in store.manifest["skills"].get(skill.slug, {})
            path = str((store.path / skill.path).resolve()) if has_tree else ""
            return skill.model_copy(update={"path": path})
        # an agent is told the name without the mark that tells two texts of a skill apart
        return Skill(slug=self.loaded_skill.split("@")[0], text=self.text, body=self.text)


def n_tokens(text: str) -> int:
    """Return the length of a text in tokens, estimated at four characters each."""
    return -(-len(text) // _CHARACTERS)


def _settled_texts(
    store: RunStore,
    skills: Sequence[str],
    conditions: Collection[str],
    given: Mapping[str, Text | Mapping[str, Text] | None],
    recorded: Mapping[tuple[str, str], ConditionText],
) -> dict[tuple[str, str], ConditionText]:
    """Return what is loaded for every skill under every condition."""
    _check_conditions(conditions, given)
    found: dict[tuple[str, str], ConditionText] = {}
    for slug in skills:
        for condition in conditions:
            known = recorded.get((slug, condition))
            text = _text_of(store, slug, condition, given.get(condition), known, len(skills) == 1)
            if known is not None and text.sha256 != known.sha256:
                raise StudyError(
                    f"condition '{condition}' of skill '{slug}': the study was begun with "
                    f"'{known.loaded_skill}' ({_hash_of(known)}), now given is "
                    f"'{text.loaded_skill}' ({_hash_of(text)}). One study keeps one text; use a "
                    "new store for another."
                )
            found[slug, condition] = known or text
    return found


def _check_conditions(conditions: Collection[str], given: Mapping[str, object]) -> None:
    if not conditions:
        raise StudyError(f"conditions is empty; allowed: {', '.join(CONDITIONS)}.")
    for condition in conditions:
        require_known("There is no condition", condition, CONDITIONS, StudyError)
    for name, text in given.items():
        if text is not None and name not in conditions:
            raise StudyError(
                f"{name}= is given, but '{name}' is not among the conditions "
                f"({', '.join(conditions)})."
            )


def _text_of(
    store: RunStore,
    slug: str,
    condition: str,
    given: Text | Mapping[str, Text] | None,
    known: ConditionText | None,
    alone: bool,
) -> ConditionText:
    if condition == "baseline":
        return ConditionText(skill=slug, condition=condition)
    own = store.skills[slug]
    if condition == "skill":
        return _of(slug, condition, own, choice="own", name=slug)
    text = given.get(slug) if isinstance(given, Mapping) else given
    if text is None:
        if known is not None:
            return known
        if condition == "placebo" and given is None:
            return _nearest(store, own)
        raise StudyError(
            f"condition '{condition}' of skill '{slug}': no text; give {condition}= a SKILL.md"
            f"{'' if given is None else f' for {slug!r} too'}."
        )
    loaded = _read(store, text, condition)
    if condition == "placebo":
        inside = store.skills.get(loaded.slug)
        known_text = inside is not None and inside.text == loaded.text
        chosen = _of(slug, condition, loaded, choice="given", name=loaded.slug)
        chosen = chosen if known_text else chosen.model_copy(update={"text": loaded.text})
        return _compared(chosen, own)
    if not alone and not isinstance(given, Mapping) and slug not in (loaded.slug, loaded.name):
        raise StudyError(
            f"previous= is one file, '{loaded.slug}', and not of skill '{slug}'; give a mapping "
            "from slug to file."
        )
    name = f"{slug}@{whole_hash(loaded.text)[:8]}"
    return _of(slug, condition, loaded, choice="given", name=name, text=loaded.text)


def _of(
    slug: str, condition: str, loaded: Skill, *, choice: str, name: str, text: str | None = None
) -> ConditionText:
    return ConditionText(
        skill=slug,
        condition=condition,
        loaded_skill=name,
        sha256=whole_hash(loaded.text),
        n_tokens=n_tokens(loaded.text),
        choice=choice,
        text=text,
    )


def _nearest(store: RunStore, own: Skill) -> ConditionText:
    others = [skill for slug, skill in store.skills.items() if slug != own.slug]
    if not others:
        raise StudyError(
            f"condition 'placebo' of skill '{own.slug}': the store holds no other skill to load "
            "in its place; give placebo= a text of about the same length."
        )
    length = n_tokens(own.text)
    chosen = min(others, key=lambda skill: (abs(n_tokens(skill.text) - length), skill.slug))
    found = _of(own.slug, "placebo", chosen, choice="nearest", name=chosen.slug)
    return _compared(found, own)


def _compared(text: ConditionText, own: Skill) -> ConditionText:
    length, other = n_tokens(own.text), text.n_tokens or 0
    if max(length, other) <= _ALIKE * min(length, other):
        return text
    note = f"the placebo has about {other} tokens, the skill about {length}"
    return text.model_copy(update={"note": note})


def _read(store: RunStore, text: Text, condition: str) -> Skill:
    if isinstance(text, Skill):
        return text
    if isinstance(text, str) and text in store.skills:
        return store.skills[text]
    if isinstance(text, str) and len(text.split()) > 1 and not exists(text):
        return Skill(slug=condition, text=text, body=text)
    path = Path(text)
    if not exists(path):
        raise StudyError(
            f"{condition}= is '{text}': no file and no skill of the store "
            f"({', '.join(store.skills)}).{suggest(path.name, store.skills)}"
        )
    return read_skill(path)


def _hash_of(text: ConditionText) -> str:
    return f"sha256 {text.sha256[:8]}" if text.sha256 else "no text"
