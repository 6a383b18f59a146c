"""Base class of the readers of other tools' results, and the problems that they report."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from skillcomp.errors import shortened
from skillcomp.frames.table_reader import Change
from skillcomp.io.files import JsonObject

_LONG = 50  # maximum number of characters of a label
# the problem that a check looks at the use of the skill
USE_OF_SKILL = (
    "checks of the skill's use",
    "no checks of the answer",
    "they show when the skill fires (triggered)",
)
_SHOWN = 3  # maximum number of examples that a problem lists


class Problems:
    """The values that a reader converted, left out or did not find, by place and kind."""

    def __init__(self) -> None:
        self._counts = defaultdict[tuple[str, str], Counter[str]](Counter)

    def add(self, place: str, found: str, done: str, n: int = 1) -> None:
        """Report a problem; problems of one kind are merged, and their numbers of rows are added.

        Problems with the same ``place`` and ``done`` are of one kind.

        Parameters
        ----------
        place : str
            What the problem is about, in words.
        found : str
            What is there.
        done : str
            What was done with it, or its consequence for the result.
        n : int, default 1
            Number of rows with the problem; 0 for a problem of the whole study, such as a known
            distortion of the comparison.
        """
        self._counts[place, done][" ".join(found.split())] += n

    @property
    def changes(self) -> list[Change]:
        """One change for each kind of problem, in the order of the first problems."""
        return [
            Change(place, shortened(list(counts), _SHOWN), done, counts.total())
            for (place, done), counts in self._counts.items()
        ]


class Reader:
    """A reader of one format; a subclass sets ``name`` and defines two methods.

    Attributes
    ----------
    name : str
        The name of the format in messages.
    """

    name = ""

    def recognises(self, path: Path) -> bool:
        """Return whether the content at a path, a file or a folder, has this format.

        It is called with files and folders of any kind and must not raise.
        """
        raise NotImplementedError

    def table(self, path: Path, problems: Problems) -> pd.DataFrame:
        """Return the results, one row per attempt, check and grader.

        Returns
        -------
        pandas.DataFrame
            The columns are arguments of :func:`skillcomp.from_frame`; ``passed`` or ``score`` is
            required. ``condition`` holds the tool's words for the arms, which have the meanings
            that they have in ``from_frame``. Without ``condition``, the argument ``columns=``
            names the column of the arms. Without ``case``, the argument ``case=`` names
            the column of the cases. An attempt without a verdict (an error, a crashed judge) is a
            row without ``check`` and ``passed``; it gets a missing verdict on each check of its
            case. A missing verdict has the status ``error``, or that in ``verdict_status``. If only
            counts are known, ``n_passed`` and ``n_checks`` replace ``passed``. ``iteration``
            numbers the versions of the skill; the last one is read. Columns of the attempts frame
            (such as ``triggered``) and of the verdicts frame (such as ``rationale`` and
            ``borderline``) are carried over.
        """
        raise NotImplementedError

    def pairs(self, path: Path, problems: Problems) -> pd.DataFrame:
        """Return comparisons of two answers; no rows if the format has no comparisons.

        Returns
        -------
        pandas.DataFrame
            ``case``, ``first`` and ``second`` (words for the arms), ``winner`` (``first``,
            ``second``, ``tie`` or missing); optional are ``skill``, ``repeat`` (of both attempts),
            ``iteration``, ``grader`` and ``rationale``.
        """
        return pd.DataFrame(columns=["case", "first", "second", "winner"])


def rows_of_attempt(about: JsonObject, verdicts: Iterable[JsonObject]) -> list[JsonObject]:
    """Return one row per verdict on an attempt, or one row without a check if there is no verdict.

    ``about`` has the columns of the attempt. A verdict without ``passed`` is missing, never a fail;
    `read_results` gives it the status ``error``, and gives an attempt without verdicts a missing
    verdict on each check of its case.
    """
    return [{**about, **verdict} for verdict in verdicts] or [dict(about)]


def one_line(text: str) -> str:
    """Return a label in one line of at most 50 characters, without the middle if it is longer."""
    line = " ".join(text.split()) or "(empty)"
    return line if len(line) <= _LONG else f"{line[: _LONG // 2]}...{line[-(_LONG // 2 - 3) :]}"


def in_one_line(labels: Iterable[str]) -> dict[str, str]:
    """Map each label to a short one; different labels stay different, in any order."""
    short: dict[str, str] = {}
    for label in sorted(set(labels)):
        line, number = one_line(label), 1
        while (name := line if number == 1 else f"{line} ({number})") in short.values():
            number += 1
        short[label] = name
    return {label: short[label] for label in labels}


def passes(score: float, place: str, problems: Problems) -> bool | None:
    """Return whether a score of 0 or 1 passes; report any other score, which has no pass mark."""
    if score in (0, 1):
        return bool(score)
    done = "a score without a pass mark: the verdict is missing, the score is kept"
    problems.add(place, "other than 0 and 1", done)
    return None
