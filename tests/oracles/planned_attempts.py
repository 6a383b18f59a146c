"""Missing attempts without a plan (STATISTICS, H6), one case and one pattern after the other."""

from collections import Counter
from math import ceil, gcd, prod

Counts = list[list[int]]


def _rounds(counts: list[int], pattern: tuple[int, ...]) -> int:
    return max(ceil(n / u) for n, u in zip(counts, pattern, strict=True))


def _losses(table: Counts, pattern: tuple[int, ...]) -> int:
    return sum(_rounds(row, pattern) * sum(pattern) - sum(row) for row in table)


def _pattern_of(table: Counts) -> tuple[int, ...]:
    equal = (1,) * len(table[0])
    most = [max(column) for column in zip(*table, strict=True)]
    shown = {tuple(n // gcd(*row) for n in row) for row in [*table, most] if min(row) > 0}
    best = min(sorted(shown), key=lambda pattern: _losses(table, pattern), default=equal)
    return best if _losses(table, best) < 0.7 * _losses(table, equal) else equal


def lacking(table: Counts) -> Counts:
    """Return the attempts that each case lacks; one row per case, one number per condition."""
    pattern = _pattern_of(table)
    planned = [_rounds(row, pattern) for row in table]
    short = [
        [t * u > n for n, u in zip(row, pattern, strict=True)]
        for row, t in zip(table, planned, strict=True)
    ]
    frequency = Counter(planned)
    usual = min(frequency, key=lambda t: (-frequency[t], t))
    few = [not any(s) and t < usual for s, t in zip(short, planned, strict=True)]
    by_chance = len(table) * prod(sum(column) / len(table) for column in zip(*short, strict=True))
    if sum(few) <= 3 * by_chance:
        planned = [
            max(t, usual) if any(s) or is_few else t
            for t, s, is_few in zip(planned, short, few, strict=True)
        ]
    return [
        [t * u - n for n, u in zip(row, pattern, strict=True)]
        for row, t in zip(table, planned, strict=True)
    ]
