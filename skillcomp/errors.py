"""Errors of skillcomp: each message names the place, what was found and what is allowed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches
from numbers import Integral

__all__ = [
    "AgentError",
    "ExtraError",
    "FrameError",
    "GraderError",
    "SkillError",
    "SkillcompError",
    "StoreError",
    "StudyError",
    "SuiteError",
    "suggest",
]


# Matches control characters and lone surrogates. A terminal would obey the former, and the latter
# cannot be printed.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


_SHOWN = 20  # a message lists at most this many problems, so that it fits on a screen

# Largest numbers of lines and of characters of a message. The lines share the characters equally,
# but every line may have 400 characters.
_LINES, _LETTERS = 24, 2400


class SkillcompError(Exception):
    """Base of every error that skillcomp raises on purpose; its message fits on a screen."""

    def __init__(self, message: object = "") -> None:
        super().__init__(screenful(str(message)))

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython shows in place of a traceback: the message."""
        return [str(self)]


class SkillError(SkillcompError):
    """A SKILL.md cannot be read, or a required part of it is missing."""


class SuiteError(SkillcompError):
    """A suite of cases cannot be read or is inconsistent."""


class StoreError(SkillcompError):
    """A RunStore is damaged, locked by another writer or used against its rules."""


class FrameError(SkillcompError, ValueError):
    """A DataFrame breaks the contract of its kind of frame, such as verdicts.

    Attributes
    ----------
    problems : tuple of str
        Every problem found, one sentence each.
    """

    def __init__(self, message: str, problems: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems)


class AgentError(SkillcompError):
    """A call to an agent failed, or the reply of the agent could not be read."""


class GraderError(SkillcompError):
    """A call to a grader failed, or the reply of the grader could not be used."""


class StudyError(SkillcompError):
    """An argument or the design of a study is missing or not allowed."""


class ExtraError(SkillcompError, ImportError):
    """A package of an extra, such as ``lab``, is missing; the message has the install command."""


@contextmanager
def extra_imports(extra: str, purpose: str) -> Iterator[None]:
    """Raise ExtraError with the install command if the ``with`` block imports a missing package."""
    try:
        yield
    except ModuleNotFoundError as cause:
        package = (cause.name or "").partition(".")[0]
        if package == "skillcomp":
            raise
        raise missing_package(extra, purpose, package) from cause


def missing_package(extra: str, purpose: str, package: str) -> ExtraError:
    """Return the error for a missing package, with the command that installs its extra."""
    remedy = f'pip install "skillcomp[{extra}]"'
    return ExtraError(f"{purpose} needs the package {package}, which is not installed: {remedy}.")


_FORM: ContextVar[Callable[[str, object], str] | None] = ContextVar("form", default=None)
UNKNOWN = ...  # stands for a value that the user has to choose


@contextmanager
def arguments_as(form: Callable[[str, object], str]) -> Iterator[None]:
    """Name arguments in messages of the ``with`` block as `form` does; an outer form prevails."""
    token = _FORM.set(_FORM.get() or form)
    try:
        yield
    finally:
        _FORM.reset(token)


# Facts that files of results may lack, and arguments of `from_frame` that apply to tables in files.
FILE_FACTS = ("skill", "agent", "agent_model", "grader_model")
TABLE_OPTIONS = ("missing", "keep", "asked", "gold", "gold_drawn", "drawn_by", "skills")


def argument(name: str, value: object = UNKNOWN, *, label: object = UNKNOWN) -> str:
    """Return how an argument is given where the message is printed.

    ``label`` is the column that an argument names; Python's form of the argument leaves it out.

    A name that begins with "fact " is that of a value for all rows, and not of a column.

    Examples
    --------
    >>> argument("case", "task"), argument("words", {"passed": {"good": UNKNOWN}}), argument("keep")
    ("case='task'", "words={'passed': {'good': ...}}", 'keep=')
    """
    if (form := _FORM.get()) is None:
        return in_python(name, value)
    return form(name, label if value is UNKNOWN else value)


def in_python(name: str, value: object) -> str:
    """Return an argument as Python code."""
    return f"{name.removeprefix('fact ')}=" + (
        "" if value is UNKNOWN else repr(value).replace("Ellipsis", "...")
    )


def suggest(found: str, allowed: Iterable[str]) -> str:
    """Return a question that suggests the allowed word nearest to ``found``.

    Parameters
    ----------
    found : str
        The unknown word.
    allowed : iterable of str
        The allowed words.

    Returns
    -------
    str
        ``" Did you mean 'x'?"`` with its leading space, or ``""`` if no allowed word is similar.

    Examples
    --------
    >>> suggest("baselin", ["baseline", "skill"])
    " Did you mean 'baseline'?"
    """
    near = get_close_matches(str(found), [str(word) for word in allowed], n=1)
    return f" Did you mean '{near[0]}'?" if near else ""


def instead(found: object, known: Iterable[object], *, label: str = "there") -> str:
    """Return the end of an error message: the known words, and the word nearest to ``found``."""
    words = list(map(str, known))
    return f"; {label}: {', '.join(words) or 'none'}.{suggest(str(found), words)}"


def require_known(
    what: str,
    found: object,
    known: Iterable[str],
    error: type[SkillcompError] | None = None,
    *,
    label: str = "allowed",
) -> None:
    """Raise ``error`` (default: FrameError) if ``found`` is not one of the known words.

    The message lists these words and suggests the nearest one.
    """
    words = list(known)
    if found not in words:
        raise (error or FrameError)(f"{what} {literal(found)}{instead(found, words, label=label)}")


def require_whole(name: str, value: object, error: type[SkillcompError], *, least: int = 1) -> int:
    """Return a whole number (of Python or numpy) as int; raise ``error`` for any other value."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise error(f"{name}: found {value!r}; allowed: a whole number of at least {least}.")
    return int(value)


def require_type(
    what: str, value: object, kind: type, source: str, error: type[SkillcompError]
) -> None:
    """Raise ``error`` unless ``value`` is an instance of ``kind``.

    The message names ``source``, which is a call that returns such an instance.
    """
    if not isinstance(value, kind):
        other = f"{type(value).__name__} {literal(value)}"
        raise error(f"{what}: expected a {kind.__name__} ({source}), found {other}.")


def literal(value: object) -> str:
    """Return the repr of a value, cut to 60 characters, without ever raising an error."""
    try:
        text = repr(value)
    except Exception:  # repr may raise any error, for example on a number with too many digits
        text = f"a value of type {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."


def screenful(message: str) -> str:
    """Shorten a message to fit on a screen: cut long lines in the middle, and drop the last lines.

    Examples
    --------
    >>> len(screenful("x" * 10_000)), screenful("short")
    (2400, 'short')
    """
    lines = message.split("\n")
    if len(lines) > _LINES:
        lines = [*lines[: _LINES - 1], f"- and {len(lines) - _LINES + 1} more lines."]
    most = max(_LETTERS // len(lines), 400)
    tail = most // 3
    return "\n".join(
        line if len(line) <= most else f"{line[: most - tail - 5]} ... {line[-tail:]}"
        for line in lines
    )


def error_text(error: BaseException) -> str:
    """Return the type and the message of an exception; a remark replaces a missing message.

    Examples
    --------
    >>> error_text(TimeoutError()), error_text(ValueError("no number"))
    ('TimeoutError (without a message)', 'ValueError: no number')
    """
    name, message = type(error).__name__, str(error).strip()
    return f"{name}: {message}" if message else f"{name} (without a message)"


def without_control(text: str) -> str:
    """Replace control characters in a text, except line feeds and tabs."""
    return _CONTROL.sub("\ufffd", text)


def plural(count: float, noun: str) -> str:
    """Return a count with its regular noun, such as ``1 label`` or ``3,000 labels``."""
    return f"{count:,.0f} {noun}{'' if count == 1 else 's'}"


def shortened(names: Iterable[object], most: int, separator: str = ", ") -> str:
    """Return the first names in one text, and the number of the others.

    Examples
    --------
    >>> shortened(["a", "b", "c", "d"], 2)
    'a, b and 2 more'
    """
    texts = list(map(str, names))
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return separator.join(texts[:most]) + more


def problem_list(place: str, problems: Sequence[str]) -> str:
    """Return a place, the number of its problems, and a line for each of the first 20 problems."""
    lines = "".join(f"\n- {problem}" for problem in problems[:_SHOWN])
    if len(problems) > _SHOWN:
        lines += f"\n- and {len(problems) - _SHOWN} more."
    return f"{place}, {plural(len(problems), 'problem')}:{lines}"


def __dir__() -> list[str]:
    return __all__
