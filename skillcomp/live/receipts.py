"""What each run leaves behind: who was asked, with which texts, when, how often, for how much."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, Literal

from pydantic import Field

from skillcomp.io.store import RunStore
from skillcomp.live.reply import Reply
from skillcomp.records import Record

__all__ = ["Receipt", "StudyWarning", "Tally", "begun", "ended"]


class StudyWarning(UserWarning):
    """A study ended with less than was asked for, or with something to keep in mind."""


class Receipt(Record):
    """A line of the store's ``receipts``: one when a run begins, one when it ends.

    A run that was killed has a beginning and no end.

    Attributes
    ----------
    receipt : str
        Stage and a number, the same in both lines.
    event : str
        ``begun`` or ``ended``.
    stage : str
        ``run`` or ``grade``.
    name : str
        The agent or the grader.
    at : datetime
        Now.
    skillcomp : str
        Version of this library.
    model : str or None
        As asked for.
    models : dict of str to int
        As reported, with the number of replies.
    settings : str or None
        Of the agent.
    prompt_version : str or None
        Hash of what the agent or grader is told.
    skills, suites : dict of str to str
        sha256 by slug.
    study : dict
        Conditions, repeats, seed, round and the like.
    n_wanted : int
        Cells, or attempts to grade.
    n_open : int
        Of these, still open.
    statuses : dict of str to int
        Replies of this run by status.
    cost_usd : float or None
        Of the replies of this run whose cost is known.
    n_unpriced : int
        Replies whose cost is not known.
    gold : dict
        Agreement with the gold answers, where there are any.
    stopped : str or None
        Why it ended early.
    """

    receipt: str
    event: Literal["begun", "ended"]
    stage: Literal["run", "grade"]
    name: str
    at: datetime
    skillcomp: str
    model: str | None = None
    models: dict[str, int] = Field(default_factory=dict)
    settings: str | None = None
    prompt_version: str | None = None
    skills: dict[str, str] = Field(default_factory=dict)
    suites: dict[str, str] = Field(default_factory=dict)
    study: dict[str, Any] = Field(default_factory=dict)
    n_wanted: int = 0
    n_open: int = 0
    statuses: dict[str, int] = Field(default_factory=dict)
    cost_usd: float | None = None
    n_unpriced: int = 0
    gold: dict[str, Any] = Field(default_factory=dict)
    stopped: str | None = None


@dataclass
class Tally:
    """Counts of one run, kept instead of its replies."""

    statuses: Counter[str] = field(default_factory=Counter)
    models: Counter[str] = field(default_factory=Counter)
    cost_usd: float = 0.0
    n_unpriced: int = 0

    def add(self, reply: Reply) -> None:
        """Count a reply."""
        self.statuses[reply.status] += 1
        if reply.model:
            self.models[reply.model] += 1
        if reply.cost_usd is not None:
            self.cost_usd += reply.cost_usd
        elif reply.status == "ok":
            self.n_unpriced += 1


def begun(store: RunStore, stage: Literal["run", "grade"], name: str, **more: Any) -> Receipt:
    """Return the receipt of a run that begins, with the hashes of all skills and suites."""
    n_before = sum(row["event"] == "begun" for row in store.records("receipts"))
    return Receipt(
        receipt=f"{stage}-{n_before + 1:04d}",
        event="begun",
        stage=stage,
        name=name,
        at=datetime.now(UTC),
        skillcomp=version("skillcomp"),
        skills=_hashes(store.skills),
        suites=_hashes(store.suites),
        **more,
    )


def ended(
    receipt: Receipt, tally: Tally, *, n_open: int, stopped: str | None, **more: Any
) -> Receipt:
    """Return the receipt of a run at its end."""
    return receipt.model_copy(
        update={
            "event": "ended",
            "at": datetime.now(UTC),
            "models": dict(tally.models),
            "statuses": dict(tally.statuses),
            "cost_usd": tally.cost_usd if sum(tally.statuses.values()) else None,
            "n_unpriced": tally.n_unpriced,
            "n_open": n_open,
            "stopped": stopped,
            **more,
        }
    )


def _hashes(found: Mapping[str, Any]) -> dict[str, str]:
    return {slug: one.sha256 for slug, one in found.items()}
