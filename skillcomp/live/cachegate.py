"""Lets one call write a prompt cache before the others that want to read it."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

__all__ = ["CacheGate"]

_MARGIN = 0.9  # of the time to live: a call sent near its end may arrive after it


class CacheGate:
    """One warm-up call per prefix, then everybody.

    A cache entry can be read only after the response that writes it has begun. Sixty calls sent at
    once would all write it and none would read it. The first call of a prefix therefore goes
    alone; the others wait until it is back. A call that failed opens nothing, and the next one
    waiting goes alone in its place. A prefix that is too short to be cached is let through for
    good after its first call.

    Parameters
    ----------
    seconds : float
        How long an entry lives after it was last used.
    clock : callable, optional
        Returns seconds; for tests.
    """

    def __init__(self, seconds: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._alive = seconds * _MARGIN
        self._clock = clock
        self._until: dict[str, float] = {}
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def is_open(self, prefix: str) -> bool:
        """Return whether the prefix is in the cache, or cannot be, as far as is known."""
        return self._until.get(prefix, -1.0) > self._clock()

    def open(self, prefix: str, *, cached: bool) -> None:
        """Record that a call came back, and whether it read or wrote the cache."""
        self._until[prefix] = self._clock() + self._alive if cached else float("inf")

    @asynccontextmanager
    async def passing(self, prefix: str) -> AsyncIterator[None]:
        """Wait for the prefix to be in the cache, or be the call that brings it there."""
        if not self.is_open(prefix):
            async with self._locks[prefix]:
                if not self.is_open(prefix):
                    yield
                    return
        yield
