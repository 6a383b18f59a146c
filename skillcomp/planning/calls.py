"""The calls that a study makes: their prompts and replies in tokens, not yet priced."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pandas as pd

from skillcomp.errors import FrameError, StudyError, suggest
from skillcomp.planning.lengths import (
    MESSAGE_TOKENS,
    SKILL_FRAME,
    Counter,
    Loaded,
    case_data,
    frame_of_grader,
    loaded_text,
)
from skillcomp.records import CONDITIONS, Case, Skill, Suite

__all__ = ["Asked", "Calls", "Study", "answer_lengths", "by_slug", "listed_agents"]

_R = TypeVar("_R", Suite, Skill)


@dataclass(frozen=True)
class Calls:
    """Calls of one kind: the same prefix, prompt and reply, some number of times.

    Attributes
    ----------
    key : str
        The prefix's name: equal prefixes are written into the cache once.
    prefix, rest, output : float
        Tokens that may be cached, of the rest of the prompt, and of the reply.
    n : int
        How often.
    """

    key: str
    prefix: float
    rest: float
    output: float
    n: int


@dataclass(frozen=True)
class Asked:
    """An agent or a grader, and the calls it makes under each condition.

    Attributes
    ----------
    role, name, model : str
        ``agent`` or ``grader``; the label; the model, None where none is named.
    calls, notes : mapping
        By condition.
    counted : bool
        Whether its tokens were counted and not estimated.
    """

    role: str
    name: str
    model: str | None
    calls: Mapping[str, Sequence[Calls]]
    counted: bool
    notes: Mapping[str, str]


@dataclass(frozen=True)
class Study:
    """What was asked of `cost_estimate`."""

    suites: Mapping[str, Suite]
    skills: Mapping[str, Skill]
    conditions: list[str]
    repeats: int | Mapping[str, int]
    loaded: Loaded
    count: Counter
    answer_tokens: float
    thinking: float
    lengths: Mapping[tuple[str, str], float]

    def __post_init__(self) -> None:
        """Refuse what cannot be planned."""
        for suite in self.suites.values():
            if suite.skill not in self.skills:
                raise StudyError(
                    f"cost_estimate: suite '{suite.slug}' is about the skill '{suite.skill}', "
                    f"which is not given.{suggest(suite.skill, self.skills)}"
                )
        known = {*CONDITIONS, *self.loaded}
        for condition in self.conditions:
            if condition not in known:
                raise StudyError(
                    f"cost_estimate: condition '{condition}': found no text; allowed: "
                    f"{', '.join(CONDITIONS)}, or what loaded= names." + suggest(condition, known)
                )
            if self.times(condition) < 1:
                raise StudyError(
                    f"repeats: found {self.repeats!r}; allowed: whole numbers of at least 1, for "
                    "every condition."
                )

    def times(self, condition: str) -> int:
        """Return the attempts of a case under a condition."""
        if isinstance(self.repeats, Mapping):
            return int(self.repeats.get(condition, 0))
        return int(self.repeats)

    def cases(self) -> Iterator[tuple[Case, Skill]]:
        """Yield every case with its skill."""
        for suite in self.suites.values():
            for case in suite.cases:
                yield case, self.skills[suite.skill]

    def text(self, condition: str, skill: Skill) -> str | None:
        """Return what is loaded; None where it is not known and taken to be like the skill."""
        if condition == "baseline":
            return ""
        if condition == "skill":
            return loaded_text(skill)
        found = self.loaded.get(condition)
        if isinstance(found, Mapping):
            found = found.get(skill.slug)
        return None if found is None else loaded_text(found)

    def agent(self, agent: Any) -> Asked:
        """Return what an agent is asked: every case under every condition."""
        model = _model(agent)
        calls: dict[str, list[Calls]] = {}
        notes: dict[str, str] = {}
        for condition in self.conditions:
            calls[condition] = []
            for case, skill in self.cases():
                key = text = self.text(condition, skill)
                if text is None or key is None:
                    key = f"{condition}/{skill.slug}"
                    notes[condition] = f"{condition}: taken to be as long as the skill"
                    text = loaded_text(skill)
                prefix = self.count(model, text)
                prefix += self.count.letters(SKILL_FRAME) if text else 0.0
                calls[condition].append(
                    Calls(
                        key,
                        prefix,
                        self.count(model, case.prompt) + MESSAGE_TOKENS,
                        self.answer(model, case, condition) + self.thinking,
                        self.times(condition),
                    )
                )
        return Asked("agent", _name(agent), model, calls, self.count.counts(model), notes)

    def grader(self, grader: Any, n_agents: int) -> Asked:
        """Return what a grader is asked: every answer of so many agents."""
        model, frame = _model(grader), frame_of_grader(grader)
        letters = self.count.letters
        calls: dict[str, list[Calls]] = {}
        for condition in self.conditions:
            calls[condition] = []
            for case, skill in self.cases():
                n = len(case.checks)
                shown = (skill.body or skill.text) if frame.sees_skill else ""
                rest = self.count(model, case_data(case, skill, frame))
                rest += self.answer(model, case, condition) + MESSAGE_TOKENS
                rest += letters(frame.case + n * frame.check)
                calls[condition].append(
                    Calls(
                        skill.slug if frame.sees_skill else "all",
                        self.count(model, shown) + letters(frame.system),
                        rest,
                        letters(frame.reply + n * frame.verdict) + self.thinking,
                        self.times(condition) * n_agents if n else 0,
                    )
                )
        return Asked("grader", _name(grader), model, calls, self.count.counts(model), {})

    def answer(self, model: str | None, case: Case, condition: str) -> float:
        """Return the length of an answer in tokens, from a pilot where there is one."""
        for key in ((case.case_id, condition), ("", condition), ("", "")):
            if key in self.lengths:
                return self.count.letters(self.lengths[key])
        return self.answer_tokens


def by_slug(given: _R | Iterable[_R] | Mapping[str, _R], what: str) -> dict[str, _R]:
    """Return records by slug, from one, several or a mapping."""
    if isinstance(given, Suite | Skill):
        return {given.slug: given}
    found = list(given.values() if isinstance(given, Mapping) else given)
    if wrong := [one for one in found if not isinstance(one, Suite | Skill)]:
        raise StudyError(
            f"{what}: found {wrong[0]!r}; expected records, as read_suite and read_skill give."
        )
    return {one.slug: one for one in found}


def listed_agents(given: Any) -> list[Any]:
    """Return one or several agents or graders as a list."""
    if given is None:
        return []
    return list(given) if isinstance(given, list | tuple | set) else [given]


def _model(one: Any) -> str | None:
    return one if isinstance(one, str) else getattr(one, "model", None)


def _name(one: Any) -> str:
    return one if isinstance(one, str) else str(getattr(one, "name", None) or _model(one))


def answer_lengths(attempts: pd.DataFrame | None) -> dict[tuple[str, str], float]:
    """Return mean characters of answers by case and condition, by condition, and over all."""
    if attempts is None:
        return {}
    absent = [c for c in ("case_id", "condition", "answer") if c not in attempts.columns]
    if absent:
        raise FrameError(f"attempts: there is no column '{absent[0]}'.")
    answered = attempts.dropna(subset=["answer"])
    letters = answered["answer"].str.len()
    if answered.empty:
        return {}
    fine = letters.groupby([answered["case_id"], answered["condition"]]).mean().reset_index()
    coarse = letters.groupby(answered["condition"]).mean()
    found = {
        (str(case), str(condition)): float(n) for case, condition, n in fine.itertuples(index=False)
    }
    found |= {("", str(condition)): float(n) for condition, n in coarse.items()}
    return found | {("", ""): float(letters.mean())}
