"""What a study was begun with and has to keep: its graders, and the text of skills and suites."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from skillcomp.errors import StudyError
from skillcomp.io.store import RunStore
from skillcomp.live.graders import Grader
from skillcomp.records import Record, Suite

__all__ = ["PinnedGrader", "pin_graders", "require_unedited"]


class PinnedGrader(Record):
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

    def is_same(self, other: PinnedGrader) -> bool:
        """Return whether verdicts of both would stand under one name, version and round."""
        if (self.grader, self.version) != (other.grader, other.version):
            return False
        return None in (self.round, other.round) or self.round == other.round


def pin_graders(store: RunStore, graders: Sequence[Grader], round: int) -> None:
    """Write down who grades, before anything is asked; refuse one changed under its name.

    The caller holds the store's writer's place.

    Parameters
    ----------
    store : RunStore
        Its table ``graders`` gets a line for each grader and version that is new. A store of an
        earlier release has no such table; there the receipts say what they know.
    graders : sequence of Grader
        Who is to grade.
    round : int
        Which round.

    Raises
    ------
    StudyError
        When model, family or settings are other than those that the grader's verdicts in this
        store were made with. Nothing is written then.
    """
    known = [PinnedGrader.model_validate(row) for row in store.records("graders")]
    new: list[PinnedGrader] = []
    for grader in graders:
        given = _pinned(grader, round)
        before = [one for one in (*known, *new) if one.is_same(given)]
        for one in before:
            _compare(one, given)
        if not before:
            _compare_receipts(store, given, round)
        if given not in before:
            new.append(given)
    store.append("graders", new)


def _pinned(grader: Grader, round: int) -> PinnedGrader:
    agent = getattr(grader, "agent", None)
    return PinnedGrader(
        grader=grader.name,
        version=grader.version,
        round=round if agent is None else None,
        kind=grader.kind,
        model=grader.model,
        family=grader.family,
        settings=getattr(agent or grader, "settings", None),
    )


def _compare(before: PinnedGrader, given: PinnedGrader) -> None:
    for name in ("model", "family", "settings"):
        was, now = getattr(before, name), getattr(given, name)
        if was != now:
            raise _changed(given.grader, name, was, now)


def _compare_receipts(store: RunStore, given: PinnedGrader, round: int) -> None:
    """Compare with the last grading of a store that has no line about this grader."""
    mine = ("grade", given.grader, given.version)
    last: dict[str, Any] = {}
    for row in store.records("receipts"):
        same_round = given.round is None or row["study"].get("round") == round
        if (row["stage"], row["name"], row.get("prompt_version")) == mine and same_round:
            last = row
    if (was := last.get("model")) is not None and was != given.model:
        raise _changed(given.grader, "model", was, given.model)
    if (was := last.get("settings")) is not None and not _holds(given.settings, was):
        raise _changed(given.grader, "settings", was, given.settings)


def _holds(now: str | None, was: str) -> bool:
    """Return whether all settings of an earlier release are still the same; there may be more."""
    try:
        old, new = json.loads(was), json.loads(now or "{}")
        return bool(old.items() <= {key: new.get(key) for key in old}.items())
    except (ValueError, AttributeError, TypeError):
        return was == now


def _changed(grader: str, name: str, was: str | None, now: str | None) -> StudyError:
    return StudyError(
        f"grader '{grader}': {name} is now {now}, the study was begun with {was}. Verdicts of two "
        "settings are two graders: give this one another name=."
    )


def require_unedited(store: RunStore, suites: Iterable[Suite]) -> None:
    """Raise when a suite or its skill is no longer the text that the store recorded.

    Parameters
    ----------
    store : RunStore
        Its manifest holds the sha256 of every text that was added.
    suites : iterable of Suite
        Suites of the store that are to be asked or graded by.

    Raises
    ------
    StudyError
        Names the file: what was answered belongs to the older text. A file that was put into the
        folder by hand is not in the manifest and cannot be compared; `RunStore.problems` names it.
    """
    manifest = store.manifest
    for suite in suites:
        skill = store.skills.get(suite.skill)
        for kind, one in (("suites", suite), ("skills", skill)):
            listed = manifest[kind].get(one.slug) if one else None
            if one and listed and listed.get("sha256") != one.sha256:
                raise StudyError(
                    f"{store.path / one.path} was edited after it was recorded (its sha256 differs "
                    "from the manifest). Answers and verdicts belong to the recorded text: put it "
                    f"back, or add the new text with store.add_{kind[:-1]}(path, slug=...) under "
                    "another slug."
                )
