"""How many tokens the texts of a study have: counted by the service, or estimated from letters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from skillcomp.errors import StudyError
from skillcomp.records import Case, Skill

__all__ = ["CHARS_PER_TOKEN", "Counter", "GraderFrame", "frame_of_grader", "minimum_prefix"]

CHARS_PER_TOKEN = 3.5  # of English text; the glossary of platform.claude.com
MESSAGE_TOKENS = 8  # the envelope of one message: role and delimiters
SKILL_FRAME = 64  # characters around a skill in the system prompt of an agent
# Shortest prompt prefix that the service caches, in tokens (its page on prompt caching, read
# 2026-11-21); for models that are not listed 1,024 is assumed.
_MINIMUM = {
    "claude-opus-5": 512,
    "claude-fable-5": 512,
    "claude-fable-5-1": 512,
    "claude-haiku-5-5": 512,
    "claude-opus-4-7": 2048,
    "claude-opus-4-6": 4096,
    "claude-opus-4-5": 4096,
    "claude-haiku-4-5": 4096,
}
_ASSUMED_MINIMUM = 1024


def minimum_prefix(model: str | None) -> int:
    """Return the tokens below which a prefix of a prompt is not cached."""
    name = model or ""
    dated = name.rpartition("-")
    name = dated[0] if dated[2].isdigit() and len(dated[2]) == 8 else name
    return _MINIMUM.get(name, _ASSUMED_MINIMUM)


@dataclass(frozen=True)
class GraderFrame:
    """Characters of a grader's prompt and reply around the data: measured on its templates.

    Attributes
    ----------
    system : int
        Instructions before the skill, with the schema of the reply.
    case, check : int
        Tags of a case, and of each of its checks in the list.
    reply, verdict : int
        What a reply holds once, and for each check.
    sees_skill : bool
        Whether skill, concept field and expected reasoning are shown.
    """

    system: int
    case: int
    check: int
    reply: int
    verdict: int
    sees_skill: bool = True


# Of skillcomp.live.prompts by least squares over the pilot's 84 cases; a quote and a rationale of
# the pilot's g2 have 66 and 75 characters on average. A test holds them against the templates.
_FRAMES = {
    "forced": GraderFrame(3183 + 915, 631, 53, 60, 225),
    "evidence": GraderFrame(1235 + 915, 631, 53, 60, 225),
    "impression": GraderFrame(555 + 627, 368, 44, 40, 60, sees_skill=False),
}


def frame_of_grader(grader: Any) -> GraderFrame:
    """Return the frame of a grader's style; ``forced`` where it tells none."""
    style = getattr(grader, "style", "forced")
    return _FRAMES.get(style, _FRAMES["forced"])


@dataclass
class Counter:
    """Counts tokens: by a client where one is given, by letters where not.

    Parameters
    ----------
    client : object or callable, optional
        With ``messages.count_tokens(model=, messages=)`` as the anthropic client has it, or a
        function of model and text. A client is asked about models whose name begins with
        ``claude`` only, and once for each text.
    """

    client: Any = None
    _known: dict[tuple[str, str], float] = field(default_factory=dict)

    def counts(self, model: str | None) -> bool:
        """Return whether texts for a model are counted and not estimated."""
        if self.client is None or model is None:
            return False
        return not hasattr(self.client, "messages") or model.startswith("claude")

    def __call__(self, model: str | None, text: str) -> float:
        """Return the tokens of a text, without the envelope of a message when estimated."""
        if not text:
            return 0.0
        if model is None or not self.counts(model):
            return self.letters(len(text))
        key = (model, text)
        if key not in self._known:
            self._known[key] = float(self._ask(model, text))
        return self._known[key]

    @staticmethod
    def letters(n: float) -> float:
        """Return the tokens of so many characters of English text."""
        return n / CHARS_PER_TOKEN

    def _ask(self, model: str, text: str) -> float:
        if hasattr(self.client, "messages"):
            found = self.client.messages.count_tokens(
                model=model, messages=[{"role": "user", "content": text}]
            )
        else:
            found = self.client(model, text)
        if inspect.isawaitable(found):
            if inspect.iscoroutine(found):
                found.close()
            raise StudyError(
                "cost_estimate: client= is asynchronous; give the synchronous one, or a function "
                "of model and text."
            )
        return float(getattr(found, "input_tokens", found))


def loaded_text(skill: Skill | str) -> str:
    """Return the text that is loaded for a skill, or the text itself."""
    return skill if isinstance(skill, str) else skill.text or skill.body


def case_data(case: Case, skill: Skill, frame: GraderFrame) -> str:
    """Return the data of a case that a grader is shown beside the answer."""
    parts = [case.prompt]
    parts += [f"{check.check_id} {check.description}" for check in case.checks]
    if frame.sees_skill:
        parts += [case.expected_reasoning or "", skill.concept.get(case.concept_field or "", "")]
    return "\n".join(parts)


Loaded = Mapping[str, Mapping[str, Skill | str] | Skill | str]
Count = Callable[[str | None, str], float]
