"""The Message Batches API as a way to ask: half the price, within a day.

Here is what bounds a batch, and what the store knows of it: begun, named by the service, collected
or given up; `transport` does the asking.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from skillcomp.errors import plural
from skillcomp.io.store import RunStore
from skillcomp.live.agents.agent import whole_hash

_OVER = ("collected", "dropped")


@dataclass(frozen=True)
class BatchLimits:
    """How large a batch may be and how patiently it is waited for.

    Attributes
    ----------
    max_requests : int, default 10000
        The service takes 100,000.
    max_bytes : int, default 64 million
        The service takes 256 MB; a batch of this size is held in memory while it is sent.
    first_wait, longest_wait : float
        Seconds between two looks at a batch; the wait doubles from the first to the longest.
    longest_silence : float, default 86400
        Seconds without a word from the service after which it is no longer asked for a batch. The
        batch stays there and is asked for at the next start.
    n_rounds : int, default 4
        How often a request that comes back with an error, or expires, is sent in all.
    resend : bool, default False
        Send the requests of a batch again that the service does not know, although they may have
        been paid for: it knows only batches of the key's own workspace.
    """

    max_requests: int = 10_000
    max_bytes: int = 64_000_000
    first_wait: float = 5.0
    longest_wait: float = 120.0
    longest_silence: float = 86_400.0
    n_rounds: int = 4
    resend: bool = False


def custom_id(nonce: str, key: str) -> str:
    """Return the name of a request in its batch."""
    return whole_hash(nonce, key)[:48]


class Before(NamedTuple):
    """What the service's list looked like before a batch was sent.

    Attributes
    ----------
    newest : str or None
        Name of the newest batch there was; None when there was none.
    at : datetime or None
        The service's clock.
    """

    newest: str | None
    at: datetime | None


@dataclass
class Sent:
    """A batch that has been begun.

    Attributes
    ----------
    nonce : str
        Its name here.
    keys : list of str
        What it asks for.
    at : datetime
        When it was begun, by this machine's clock.
    batch_id : str or None
        Its name at the service, once that is known.
    before : Before or None
        None when it could not be looked up.
    usd : float
        What it can cost at most; NaN when not known.
    aside : dict of str to float
        What the budget holds for each key.
    """

    nonce: str
    keys: list[str]
    at: datetime
    batch_id: str | None = None
    before: Before | None = None
    usd: float = math.nan
    aside: dict[str, float] = field(default_factory=dict)

    @property
    def each(self) -> float:
        """What one of its requests can cost at most, on average; NaN when not known."""
        return self.usd / len(self.keys)

    @property
    def names(self) -> dict[str, str]:
        """The keys by custom_id."""
        return {custom_id(self.nonce, key): key for key in self.keys}

    def noted(self) -> dict[str, Any]:
        """Return what is noted of it before it is sent, from which it can be told again."""
        note: dict[str, Any] = {"keys": self.keys}
        if not math.isnan(self.usd):
            note["usd"] = self.usd
        if self.before is not None:
            note["after"] = self.before.newest
            note["server_at"] = self.before.at.isoformat() if self.before.at else None
        return note

    def __str__(self) -> str:
        """Name, date and size."""
        name = f"batch {self.batch_id}" if self.batch_id else "a batch"
        return f"{name} of {self.at:%Y-%m-%d %H:%M} UTC with {plural(len(self.keys), 'request')}"


def open_batches(store: RunStore) -> Iterator[tuple[str, Sent]]:
    """Yield purpose and batch for each that was begun and is neither collected nor given up."""
    yield from _read(store)[0].values()


def _read(store: RunStore) -> tuple[dict[str, tuple[str, Sent]], list[tuple[str, float]]]:
    """Return what is open by nonce, and purpose and dollars of what was given up with its cost."""
    found: dict[str, tuple[str, Sent]] = {}
    lost = []
    for row in store.records("batches"):
        nonce = row["nonce"]
        if row["event"] == "intent":
            found[nonce] = (row["purpose"], _sent(row))
        elif row["event"] == "created" and nonce in found:
            found[nonce][1].batch_id = row["batch_id"]
        elif row["event"] in _OVER and (over := found.pop(nonce, None)) and "usd" in row:
            lost.append((over[0], row["usd"]))
    return found, lost


def _sent(row: Mapping[str, Any]) -> Sent:
    at, before = datetime.fromisoformat(row["at"]), None
    if "after" in row:
        told = row.get("server_at")
        before = Before(row["after"], datetime.fromisoformat(told) if told else None)
    usd = row.get("usd")
    return Sent(row["nonce"], row["keys"], at, before=before, usd=math.nan if usd is None else usd)


def outstanding(store: RunStore, stage: str, but: Collection[str] = ()) -> float:
    """Return the dollars that batches without results can have cost or may cost at most."""
    found, lost = _read(store)
    wanted = [(purpose, sent.usd) for purpose, sent in found.values() if purpose not in but]
    each = (usd for purpose, usd in wanted + lost if purpose.startswith(f"{stage}:"))
    return math.fsum(usd for usd in each if not math.isnan(usd))


def under_way(store: RunStore, stage: str) -> dict[str, str]:
    """Return how many batches have been begun and are not collected."""
    count: defaultdict[str, list[int]] = defaultdict(list)
    for purpose, sent in open_batches(store):
        what, _, name = purpose.partition(":")
        if what == stage:
            whose = name.rsplit("/", 1)[0] if stage == "grade" else name  # without the table
            count[whose].append(len(sent.keys))
    return {
        name: f"{len(n)} {'batch' if len(n) == 1 else 'batches'} with {plural(sum(n), 'request')}"
        for name, n in count.items()
    }
