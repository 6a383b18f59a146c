"""The plan of a study: its cells, their order, and the text loaded under each condition."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from operator import attrgetter, itemgetter
from os.path import exists
from pathlib import Path
from typing import Any, Literal

from skillcomp.errors import StudyError, literal, require_known, require_whole, suggest
from skillcomp.io.files import INPUTS, JsonObject, digest, inside, is_below, leaves, read_own
from skillcomp.io.redaction import redact, redacted_content
from skillcomp.io.skills import read_skill, tree_of
from skillcomp.io.store import RunStore
from skillcomp.io.task_suites import file_place, names_of_files
from skillcomp.live.agents.agent import Agent, agent_version, whole_hash
from skillcomp.live.graders.grader import agent_of
from skillcomp.records import CONDITIONS, Case, Record, Skill, Suite

Text = str | Path | Skill
Texts = Text | Mapping[str, Text] | None  # One text for all skills, or one for each.
_ALIKE = 1.25  # a note is added if placebo and skill differ in length by more than this factor


KEY = ("agent", "case_id", "condition", "repeat")  # these columns identify a cell
key_of = itemgetter(*KEY)


class PlannedCell(Record):
    """A cell of a study, stored as a row of the table ``plan``.

    Attributes
    ----------
    attempt_id : str
        ``case_id/condition/repeat``, followed by the agent if the study has several.
    agent, skill, case_id, condition, repeat : str, str, str, str, int
        What identifies the cell, and the skill that its case belongs to.
    loaded_skill : str or None
        Name of the text that is loaded; None for a baseline.
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
        """The name of the cell in messages."""
        return f"{self.case_id} ({self.agent}, {self.condition}, repeat {self.repeat})"

    @property
    def place(self) -> tuple[Any, ...]:
        """Agent, case, condition and repeat, which identify the cell."""
        return self.agent, self.case_id, self.condition, self.repeat


@dataclass(frozen=True)
class Plan:
    """The part of a study's plan that one run works on.

    Attributes
    ----------
    cells : tuple of PlannedCell
        The cells, in the order in which they are asked.
    cases : dict of str to Case
        The cases, by case_id.
    texts : dict of (str, str) to ConditionText
        The texts that are loaded, by skill and condition.
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
    placebo: Texts = None,
    previous: Texts = None,
) -> Plan:
    """Make the plan of a study and write it into the store, before any prompt is sent.

    A second call extends the study: planned cells keep their position and name, and new cells
    follow after them. The caller must hold the lock of the store (`RunStore.writer`).
    """
    _require_complete(store, suites, agents, repeats)
    require_unedited(store, suites)
    recorded = {
        (row["skill"], row["condition"]): ConditionText(**row) for row in store.records("arms")
    }
    skills = list(dict.fromkeys(suite.skill for suite in suites))
    arguments = {"placebo": placebo, "previous": previous}
    if not conditions:
        raise StudyError(f"conditions is empty; allowed: {', '.join(CONDITIONS)}.")
    for condition in conditions:
        require_known("There is no condition", condition, CONDITIONS, StudyError)
    for name, argument in arguments.items():
        if argument is not None and name not in conditions:
            raise StudyError(
                f"{name}= is given, but '{name}' is not among the conditions "
                f"({', '.join(conditions)})."
            )
    texts = {}
    for slug, condition in product(skills, conditions):
        before = recorded.get((slug, condition))
        argument = arguments.get(condition)
        text = _condition_text(store, slug, condition, argument, before, len(skills) == 1)
        place = f"condition '{condition}' of skill '{slug}'"
        if before is not None and text.sha256 != before.sha256:
            raise StudyError(
                f"{place}: the study was begun with '{before.loaded_skill}' (sha256 "
                f"{before.sha256!s:.8}), now given is '{text.loaded_skill}' (sha256 "
                f"{text.sha256!s:.8}). One study keeps one text; use a new store for another."
            )
        _require_no_secret(f"{place}: '{redact(text.text or '')[:200]}'", text.text or "")
        texts[slug, condition] = before or text
    record_members(
        store,
        "agent",
        agents,
        lambda agent: {"prompt_version": agent_version()},
        ("model", "settings", "prompt_version"),
    )
    planned = {key_of(row): PlannedCell(**row) for row in store.records("plan")}
    names = [agent.name for agent in agents]
    places = [(suite.skill, case.case_id) for suite in suites for case in suite.cases]
    taken = {cell.attempt_id for cell in planned.values()}
    taken |= {row["attempt_id"] for row in store.rows("attempts", "attempt_id")}
    cells = {}
    for skill, name, case_id, condition, repeat in interleaved(
        places, names, conditions, repeats, seed=seed
    ):
        ident = f"{case_id}/{condition}/{repeat}"
        cell = PlannedCell(
            attempt_id=f"{ident}/{name}" if len(names) > 1 or ident in taken else ident,
            agent=name,
            skill=skill,
            case_id=case_id,
            condition=condition,
            repeat=repeat,
            loaded_skill=texts[skill, condition].loaded_skill,
        )
        cells[cell.place] = cell
    fresh = [cell for key, cell in cells.items() if key not in planned]
    store.append("arms", [text for at, text in texts.items() if at not in recorded])
    store.append("plan", fresh)
    earlier = [cell for key, cell in planned.items() if key in cells]
    return Plan((*earlier, *fresh), cases_by_id(suites), texts)


def cases_by_id(suites: Iterable[Suite]) -> dict[str, Case]:
    """Return the cases of suites by case_id."""
    return {case.case_id: case for suite in suites for case in suite.cases}


def _require_complete(
    store: RunStore, suites: Sequence[Suite], agents: Sequence[Agent], repeats: int
) -> None:
    if not suites or not any(suite.cases for suite in suites):
        raise StudyError(f"{store.path}: there are no cases to ask; add a suite first.")
    require_distinct("agent", agents, "name")
    require_whole("repeats", repeats, StudyError)
    for suite in suites:
        if suite.skill not in store.skills:
            raise StudyError(
                f"suite '{suite.slug}': its skill '{suite.skill}' is not in the store "
                f"({', '.join(store.skills) or 'which has none'}); add it with "
                "store.add_skill(path) or under 'skills:' of the study file. The 'skill' of a "
                "suite is the name of the skill's folder."
            )
        for name in (suite.skill, *(case.case_id for case in suite.cases)):
            _require_no_secret(f"suite '{redact(suite.slug)}': the name '{redact(name)}'", name)
    ids = Counter(case.case_id for suite in suites for case in suite.cases)
    if twice := [name for name, n in ids.items() if n > 1]:
        raise StudyError(f"The case ids {', '.join(twice)} stand more than once.")


def require_distinct(kind: str, members: Sequence[Any], *names: str) -> None:
    """Raise if there are no agents or graders, or if two of them agree in all these attributes."""
    if not members:
        raise StudyError(f"{kind}s is empty; give at least one.")
    ident = attrgetter(*names)
    counts = Counter(map(ident, members))
    for member in members:
        _require_no_secret(f"the name of {kind} '{redact(member.name)}'", member.name)
        if counts[ident(member)] > 1:
            raise StudyError(
                f"Two {kind}s are named '{member.name}'; give one of them another name=, "
                "since what they say is told apart by it."
            )


def _require_no_secret(what: str, text: str) -> None:
    """Raise if a text that must be stored unchanged holds a secret."""
    if redact(text) != text:
        raise StudyError(
            f"{what} holds a secret (the value of the variable in brackets). It must be stored "
            "unchanged, so that the study can resume: write it without the secret, or unset the "
            "variable."
        )


def interleaved(
    cases: Sequence[tuple[str, str]],
    agents: Sequence[str],
    conditions: Sequence[str],
    repeats: int,
    *,
    seed: int,
) -> Iterator[tuple[str, str, str, str, int]]:
    """Yield the cells as (skill, agent, case_id, condition, repeat), repeat by repeat.

    Within a repeat, the order of the cases is random, and so is the order of agents and conditions
    of each case. The time of asking is then not confounded with the condition.

    Examples
    --------
    >>> cells = interleaved([("s", "s/1")], ["a"], ["baseline", "skill"], 2, seed=1)
    >>> [(condition, repeat) for _, _, _, condition, repeat in cells]
    [('baseline', 1), ('skill', 1), ('skill', 2), ('baseline', 2)]
    """
    draw = random.Random(seed)
    for repeat in range(1, repeats + 1):
        for skill, case_id in draw.sample(list(cases), len(cases)):
            pairs = [(agent, condition) for agent in agents for condition in conditions]
            for agent, condition in draw.sample(pairs, len(pairs)):
                yield skill, agent, case_id, condition, repeat


def own_attempts(store: RunStore, *columns: str) -> Iterator[JsonObject]:
    """Yield the given columns (default: all) of the attempts that are no perturbed copies."""
    marks = ("perturbation", "source_attempt_id")
    rows = store.rows("attempts", *columns, *marks) if columns else store.rows("attempts")
    return (row for row in rows if all(row[mark] is None for mark in marks))


def record_members(
    store: RunStore,
    kind: Literal["agent", "grader"],
    members: Iterable[Any],
    more_about: Callable[[Any], JsonObject],
    fixed: Iterable[str],
) -> None:
    """Record agents or graders with their model, family, settings and what `more_about` returns.

    Raise if one has a recorded name (and version and round, if it has them), but differs in one of
    the columns `fixed`. The caller must hold the lock of the store (`RunStore.writer`).
    """
    recorded, new = list(store.records(f"{kind}s")), []
    what = "Answers" if kind == "agent" else "Verdicts"
    for member in members:
        about = {kind: member.name, "model": member.model, "family": member.family}
        about["settings"] = getattr(agent_of(member) or member, "settings", None)
        # the rows in the store contain no secrets, so compare without them
        about = redacted_content(about | more_about(member))
        before = [
            row
            for row in recorded
            if (row[kind], row.get("version")) == (about[kind], about.get("version"))
            and len({row.get("round"), about.get("round")} - {None}) < 2
        ]
        for row, name in product(before, fixed):
            if (was := row.get(name)) != (now := about[name]):
                raise StudyError(
                    f"{kind} '{about[kind]}': {name} is now {now}, the study was begun with {was}. "
                    f"{what} of two settings are two {kind}s: give this one another name=."
                )
        new += [] if about in before else [about]
    store.append(f"{kind}s", new)


def require_unedited(store: RunStore, suites: Iterable[Suite]) -> None:
    """Raise if a suite, its skill or its files were edited since they were recorded."""
    manifest = store.manifest
    for suite in suites:
        skill = store.skills.get(suite.skill)
        tree = manifest["skills"].get(suite.skill, {}).get("tree")
        folder = store.path / "skills" / suite.skill
        if tree and tree_of(folder) != tree:
            raise StudyError(
                f"{folder}: its files are not those that were recorded (the hash of the tree "
                "differs from the manifest). Answers belong to the recorded files: put them back."
            )
        entry = manifest["suites"].get(suite.slug, {})
        for name, hashed in entry.get("files", {}).items():
            file = store.path / file_place(str(entry.get("path", "")), suite.slug, name)
            is_recorded = is_below(file, store.path) and hashed == digest(
                read_own(file, what="recorded file", error=StudyError)
            )
            if not is_recorded:
                raise StudyError(f"{file} is not the file that was recorded; put it back.")
        for kind, text in (("suites", suite), ("skills", skill)):
            listed = manifest[kind].get(text.slug) if text else None
            if text and listed and listed.get("sha256") != text.sha256:
                raise StudyError(
                    f"{store.path / text.path} was edited after it was recorded (its sha256 "
                    "differs from the manifest). Answers and verdicts belong to the recorded "
                    "text: put it back, or add the new text with "
                    f"store.add_{kind[:-1]}(path, slug=...) under another slug."
                )


def input_files(store: RunStore, case: Case) -> tuple[tuple[str, Path], ...]:
    """Return the name and the path of each recorded file that a case lists as its input.

    The folder of a fixture is dropped from the names, so that its files are copied directly into
    the working folder. A task has no input files, because its files are only for its judge.
    """
    slug = case.case_id.partition("/")[0]
    is_task = any(check.judge for check in case.checks)
    recorded = {} if is_task else store.manifest["suites"].get(slug, {}).get("files", {})
    folder = (store.path / INPUTS / slug).resolve()
    fixture = str(case.extra.get("fixture", "")).rstrip("/")
    # a fixture is either a file or a folder
    above = fixture.rpartition("/")[0] if fixture in recorded else fixture
    files = []
    for name in names_of_files(case.extra):
        if name in recorded:
            place, target = inside(name, [folder]), name.removeprefix(f"{above}/")
            if place is None or leaves(target):
                raise StudyError(
                    f"case '{case.case_id}': files: {literal(name)} is not inside {folder}, or its "
                    "copy would not be inside the agent's folder; nothing was copied."
                )
            files.append((target, place))
    return tuple(files)


class ConditionText(Record):
    """The text that is loaded for the cases of a skill under a condition.

    Attributes
    ----------
    skill, condition : str
        The skill that the cases belong to, and the condition.
    loaded_skill : str or None
        Name of the text that is loaded; None for a baseline.
    sha256 : str or None
        Hash of the loaded text; None for a baseline.
    n_tokens : int or None
        Estimated length of the text, at four characters per token.
    choice : str
        How the text was chosen: ``none`` (baseline), ``own`` (the skill itself), ``given`` (passed
        by the user) or ``nearest`` (the other skill of the most similar length).
    text : str or None
        The text itself; None if it is a skill in the store, or for a baseline.
    note : str or None
        A caveat about the length of a placebo; None if there is no caveat.
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
        """Return the skill that is loaded for an agent; None for a baseline."""
        if self.loaded_skill is None:
            return None
        if self.text is None:
            return installed_skill(store, self.loaded_skill)
        # the hash in the name distinguishes two texts of a skill; the agent does not see it
        return Skill(slug=self.loaded_skill.split("@")[0], text=self.text, body=self.text)


def installed_skill(store: RunStore, slug: str) -> Skill:
    """Return a skill of the store with the path of its recorded folder."""
    skill = store.skills[slug]
    # Stores of earlier releases do not record the skill's folder. Their agents answered
    # without it, so leave it out.
    has_tree = "tree" in store.manifest["skills"].get(slug, {})
    path = str((store.path / skill.path).resolve()) if has_tree else ""
    return skill.model_copy(update={"path": path})


def n_tokens(text: str) -> int:
    """Estimate the length of a text in tokens, at four characters per token."""
    return -(-len(text) // 4)


def _condition_text(
    store: RunStore,
    slug: str,
    condition: str,
    argument: Texts,
    before: ConditionText | None,
    is_only_skill: bool,
) -> ConditionText:
    if condition == "baseline":
        return ConditionText(skill=slug, condition=condition)
    own = store.skills[slug]
    length = n_tokens(own.text)
    text = argument.get(slug) if isinstance(argument, Mapping) else argument
    stored = note = None
    if condition == "skill":
        choice, loaded = "own", own
    elif text is not None:
        choice, loaded = "given", _skill_from(store, text, condition)
        same = store.skills.get(loaded.slug)
        if condition == "previous" or same is None or same.text != loaded.text:
            stored = loaded.text
    elif before is not None:
        return before
    elif condition != "placebo" or argument is not None:
        raise StudyError(
            f"condition '{condition}' of skill '{slug}': no text; give {condition}= a SKILL.md"
            f"{'' if argument is None else f' for {slug!r} too'}."
        )
    elif others := [skill for name, skill in store.skills.items() if name != slug]:
        # the placebo is the skill in the store with the most similar length
        near = min(others, key=lambda skill: (abs(n_tokens(skill.text) - length), skill.slug))
        choice, loaded = "nearest", near
    else:
        raise StudyError(
            f"condition 'placebo' of skill '{slug}': the store holds no other skill to load in its "
            "place; give placebo= a text of about the same length."
        )
    name, other = loaded.slug, n_tokens(loaded.text)
    if condition == "previous":
        is_mapping = isinstance(argument, Mapping)
        if not is_only_skill and not is_mapping and slug not in (loaded.slug, loaded.name):
            raise StudyError(
                f"previous= is one file, '{loaded.slug}', and not of skill '{slug}'; give a "
                "mapping from slug to file."
            )
        name = f"{slug}@{whole_hash(loaded.text)[:8]}"
    elif max(length, other) > _ALIKE * min(length, other):
        note = f"the placebo has about {other} tokens, the skill about {length}"
    return ConditionText(
        skill=slug,
        condition=condition,
        loaded_skill=name,
        sha256=whole_hash(loaded.text),
        n_tokens=other,
        choice=choice,
        text=stored,
        note=note,
    )


def _skill_from(store: RunStore, text: Text, condition: str) -> Skill:
    """Return the skill that `text` specifies.

    `text` is a Skill, the slug of a skill in the store, the path of a file, or the text itself if
    it has two or more words and is no path.
    """
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
