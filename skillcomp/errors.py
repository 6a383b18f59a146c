"""Errors of skillcomp: each names the place, what was found and what is allowed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

__all__ = [
    "AgentError",
    "FrameError",
    "GraderError",
    "SkillError",
    "SkillcompError",
    "StoreError",
    "StudyError",
    "SuiteError",
    "suggest",
]


_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")  # by a terminal


class SkillcompError(Exception):
    """Base of every error that skillcomp raises on purpose."""


class SkillError(SkillcompError):
    """A SKILL.md cannot be read or lacks what is needed."""


class SuiteError(SkillcompError):
    """A suite of cases cannot be read or does not hold together."""


class StoreError(SkillcompError):
    """A RunStore is damaged, locked by another writer or used against its rules."""


class FrameError(SkillcompError, ValueError):
    """A DataFrame does not keep the contract of its kind.

    Attributes
    ----------
    problems : tuple of str
        Every problem found, one sentence each.
    """

    def __init__(self, message: str, problems: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.problems: tuple[str, ...] = tuple(problems)


class AgentError(SkillcompError):
    """An agent could not be asked, or its reply could not be read."""


class GraderError(SkillcompError):
    """A grader could not be asked, or its reply could not be used."""


class StudyError(SkillcompError):
    """A study's description asks for something that is not there or not allowed."""


def suggest(found: str, allowed: Iterable[str]) -> str:
    """Return ``" Did you mean 'x'?"`` for the nearest allowed word, or an empty string.

    Parameters
    ----------
    found : str
        The word that was met.
    allowed : iterable of str
        The words that are allowed.

    Returns
    -------
    str
        A sentence with a leading blank, or ``""`` when nothing is near.

    Examples
    --------
    >>> suggest("baselin", ["baseline", "skill"])
    " Did you mean 'baseline'?"
    """
    near = get_close_matches(str(found), [str(word) for word in allowed], n=1)
    return f" Did you mean '{near[0]}'?" if near else ""


def instead(found: object, known: Iterable[object], *, told: str = "there") -> str:
    """Return what there is instead of a word that is not, and the nearest, to end a sentence."""
    words = list(map(str, known))
    return f"; {told}: {', '.join(words) or 'none'}.{suggest(str(found), words)}"


def require_known(
    what: str,
    found: object,
    known: Iterable[str],
    error: type[SkillcompError] | None = None,
    *,
    told: str = "allowed",
) -> None:
    """Raise an error (FrameError if none is given) that lists what is known, unless this is it."""
    words = list(known)
    if found not in words:
        raise (error or FrameError)(f"{what} {literal(found)}{instead(found, words, told=told)}")


def literal(value: object) -> str:
    """Return a value as it is written, cut to 60 characters; never an error of its own."""
    try:
        text = repr(value)
    except Exception:  # a stranger's object, or a number too long to write out
        text = f"a value of type {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."


def without_control(text: str) -> str:
    """Return a text without the signs that a terminal would obey; line feeds and tabs stay."""
    return _OBEYED.sub("\ufffd", text)


def plural(count: int, noun: str) -> str:
    """Return a count with its noun, such as ``1 label`` or ``3 labels``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def problem_list(place: str, problems: Sequence[str]) -> str:
    """Return a place with how many problems it has, and each of them on a line of its own."""
    lines = "".join(f"\n- {one}" for one in problems)
    return f"{place}, {plural(len(problems), 'problem')}:{lines}"


def __dir__() -> list[str]:
    return __all__
