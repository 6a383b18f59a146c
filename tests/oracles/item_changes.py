"""A plain, slow form of the rule for changes of verdicts over the same items (STATISTICS, H2).

Scores from 0 to 1 have their own variance within the case (H9), which for verdicts is p (1 - p).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import product

import numpy as np

from skillcomp.stats import bounded


def change_over_items(
    new: Sequence[float], old: Sequence[float], case: Sequence[str]
) -> np.ndarray:
    """Return estimate, lower limit, upper limit and p-value of mean(new) - mean(old)."""
    size = Counter(case)
    total = len(new)
    rates, variances = [], []
    for verdict in (new, old):
        of_cases: defaultdict[str, list[float]] = defaultdict(list)
        for name, value in zip(case, verdict, strict=True):
            of_cases[name].append(value)
        rates.append({name: float(np.mean(of_cases[name])) for name in size})
        variances.append({name: float(np.var(of_cases[name])) for name in size})
    # one imagined case in which the version errs throughout, as large as the case of an item
    imagined = sum(m**3 for m in size.values()) / sum(m**2 for m in size.values())
    down = up = noise = 0.0
    for at, of_case in enumerate(rates):
        mean = sum(size[name] / total * of_case[name] for name in size)
        single = sum(m * variances[at][name] * m / (m - 1) for name, m in size.items() if m > 1)
        mixed = min(1.0, single / (total * mean * (1 - mean) + imagined))
        part = 0.05 + 0.95 * (1 - mixed)
        down += part * (mean if at == 0 else 1 - mean)
        up += part * (1 - mean if at == 0 else mean)
        noise += sum(
            (m / total) ** 2 * variances[at][name] / (m - 1) for name, m in size.items() if m > 1
        )
    names = list(size)
    places = bounded.placed_cases(
        bounded.ContrastTerms(noise, down, up),
        np.array([[rates[0][name] - rates[1][name] for name in names]]),
        np.array([[size[name] / total for name in names]]),
        (-1.0, 1.0),
    )
    step = np.subtract(new, old).astype(float)
    sample = bounded.Sample(step, np.array(case), None, (), places)
    (mean,) = bounded.bounded_means([sample], quantity=bounded.DELTAS, null=0.0)
    p_value = mean.p_value
    if set(new) | set(old) <= {0, 1}:
        p_value = _signs_of_cases(step, case)
        if max(size.values()) > 1:
            p_value = max(p_value, mean.p_value)
    return np.array([mean.estimate, mean.low, mean.high, p_value])


def _signs_of_cases(step: np.ndarray, case: Sequence[str]) -> float:
    """Return the mid-p of all ways to exchange the versions within cases."""
    sums: Counter[str] = Counter()
    for name, value in zip(case, step, strict=True):
        sums[name] += int(value)
    moved = [abs(n) for n in sums.values() if n]
    if not moved:
        return 1.0
    reached = abs(int(step.sum()))
    ways = [abs(sum(s * n for s, n in zip(signs, moved, strict=True)))
            for signs in product((-1, 1), repeat=len(moved))]  # fmt: skip
    return sum(1.0 if way > reached else 0.5 if way == reached else 0.0 for way in ways) / len(ways)
