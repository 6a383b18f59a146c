"""Rates of false flags in texts of another length: a plain, slow computation and a simulation."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence


def rate_with(chance: float, places: Sequence[float]) -> float:
    """Return the share of flagged texts if every place flags with the same small chance."""
    return sum(1 - math.exp(-chance * n) for n in places) / len(places)


def carried(rate: float, places: Sequence[float], target: Sequence[float]) -> float:
    """Carry a rate from texts with ``places`` over to texts with ``target`` places."""
    low, high = 0.0, 1e6
    for _ in range(300):
        middle = (low + high) / 2
        low, high = (middle, high) if rate_with(middle, places) < rate else (low, middle)
    return rate_with(low, target)


def largest_rate(limit: float, places: Sequence[float], target: Sequence[float]) -> float:
    """Return the largest rate of texts with ``places`` that grows at most to ``limit``."""
    low, high = 0.0, limit
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if carried(middle, places, target) <= limit else (low, middle)
    return min(low, limit)


def honest_text(
    rng: random.Random, n: int, source: Sequence[str], start: float, go_on: float
) -> str:
    """Write n words of a text that does not copy.

    A run of words of the source begins with the chance ``start`` at each place and goes on with the
    chance ``go_on``, because texts about a subject share its terms.
    """
    words: list[str] = []
    while len(words) < n:
        if rng.random() < start:
            at = rng.randrange(len(source))
            words.append(source[at])
            while rng.random() < go_on and at + 1 < len(source):
                at += 1
                words.append(source[at])
        words.append(f"own{rng.randrange(10**9)}")
    return " ".join(words[:n])
