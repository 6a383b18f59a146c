"""The one rule of what counts as shared with a skill, wherever a single answer is judged by it."""

from __future__ import annotations

from skillcomp.ngrams import shared_ngrams
from skillcomp.records import Case, Skill

RULE = "SKILL.md less prompt"  # how verdicts name it


def shared_with_skill(answer: str, skill: Skill, case: Case, *, n: int) -> list[str]:
    """Return the n-grams that an answer shares with its skill's whole SKILL.md, less the prompt's.

    The same in every condition, whatever was loaded, and the same as `skillcomp.overlap.score`
    counts.
    """
    return shared_ngrams(answer, skill.text or skill.body, n=n, exclude=case.prompt)
