"""Exact coverage of few cases over true values, without simulation.

With one attempt per case, the scan covers rates at every p, and deltas in {-1, 0, 1} at every
(p+, p-). With two or three attempts it covers all pairs of pass rates, with shares of cases that
have the same outcome at every attempt. Coverage jumps where a limit passes the true value and is
smooth in between, so the worst points are next to the limits.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import gammaln, xlogy
from scipy.stats import beta as beta_distribution
from scipy.stats import binom, norm

from benchmarks.many_studies import bounded_mean_counts, bounded_mean_many
from benchmarks.validity.designs import DELTAS, RATES
from benchmarks.validity.methods import ADAPTIVE, LEVEL, LEVELS, QUANTITIES, Rows
from skillcomp.stats.bounded import Arm
from skillcomp.stats.intervals import wilson_limits

Floats = NDArray[np.float64]

# numbers of cases by attempts
RATE_CASES = {
    1: (*range(1, 31), 42, 60, 84, 100), 2: (3, 4, 5, 6, 8, 10, 14, 20, 30), 3: (3, 5, 8, 14)
}  # fmt: skip
DELTA_CASES = {1: tuple(range(1, 21)), 2: tuple(range(2, 9)), 3: tuple(range(2, 7))}
QUICK_RATE_CASES = {1: (*range(1, 21), 30, 84), 2: (5, 10, 20), 3: (5, 8)}
QUICK_DELTA_CASES = {1: (*range(1, 11), 14, 20), 2: (3, 4, 5), 3: (3, 4)}
SAME = (0.0, 0.3, 0.6, 0.9)  # shares of cases with the same outcome at every attempt
# (single cases, larger clusters, cases in each of these)
LARGER = (
    (10, 2, 2), (10, 4, 2), (20, 8, 2), (60, 8, 2), (100, 16, 2), (200, 20, 2), (30, 5, 3),
    (60, 5, 3), (100, 3, 3), (100, 12, 3), (40, 3, 4), (100, 4, 4), (40, 2, 10), (100, 3, 10),
    (60, 1, 20), (100, 6, 20),
)  # fmt: skip
_DISTANCE = 1e-9  # distance from a limit
_SUMS = 33  # values of p+ + p- for each delta
_TRUTHS, _BASES = 120, 17  # true values, and baseline rates for each, with several attempts
_ELEMENTS = 8_000_000  # outcomes times true values per block, to limit memory


@dataclass(frozen=True, slots=True)
class Scan:
    """All outcomes of ``n`` cases with this number of attempts."""

    quantity: str
    n: int
    attempts: int = 1


def scans(quick: bool) -> list[Scan]:
    """List the cells of the scan, the largest first."""
    rates = QUICK_RATE_CASES if quick else RATE_CASES
    deltas = QUICK_DELTA_CASES if quick else DELTA_CASES
    cells = [
        Scan(quantity, n, attempts)
        for quantity, cases in ((DELTAS, deltas), (RATES, rates))
        for attempts, many in cases.items()
        for n in many
    ]
    return sorted(cells, key=lambda cell: -cell.n * cell.attempts**2 * (cell.quantity == DELTAS))


def run(scan: Scan) -> Rows:
    """Find the lowest coverage and the highest one-sided error, one row per level."""
    arms, counts = _all_outcomes(scan)
    values = np.asarray(sum(arm.sign * arm.rates for arm in arms))
    rows = []
    for level in LEVELS:
        how: dict[str, Any] = {"quantity": QUANTITIES[scan.quantity], "ci_level": level}
        intervals = bounded_mean_many(values, arms=arms, **how)
        limits = intervals.low, intervals.high
        rows.append({"method": ADAPTIVE, "level": level, **_worst(scan, counts, *limits)})
    if scan.quantity == RATES and scan.attempts == 1:
        for name, limits in _usual_limits(counts[:, 1], scan.n).items():
            worst = _worst_rate(scan.n, counts[:, 1:], *limits)
            rows.append({"method": name, "level": LEVEL, **worst})
    return rows


def _worst(scan: Scan, counts: Floats, low: Floats, high: Floats) -> dict[str, Any]:
    if scan.attempts > 1:
        return _worst_mixture(scan, counts, low, high)
    if scan.quantity == RATES:
        return _worst_rate(scan.n, counts[:, 1:], low, high)
    # columns: both fail, baseline passes, skill passes, both pass
    return _worst_delta(scan.n, counts[:, [2, 1]], low, high)


def _usual_limits(passed: Floats, n: int) -> dict[str, tuple[Floats, Floats]]:
    """Return the limits of a rate by Wilson and by Jeffreys, for comparison."""
    jeffreys = [beta_distribution.ppf(q, passed + 0.5, n - passed + 0.5) for q in (0.025, 0.975)]
    return {
        "Wilson": wilson_limits(passed / n, n, norm.isf(0.025)),
        "Jeffreys": (
            np.where(passed == 0, 0.0, jeffreys[0]), np.where(passed == n, 1.0, jeffreys[1])
        ),
    }  # fmt: skip


def _all_outcomes(scan: Scan) -> tuple[list[Arm], Floats]:
    """List all outcomes: the rates of the cases in each arm, and the number of cases of each kind.

    A kind is the number of passes, or the pair of numbers of skill and baseline. With one attempt,
    kinds with the same delta need no distinction.
    """
    passes = range(scan.attempts + 1)
    kinds = list(product(passes, repeat=2 if scan.quantity == DELTAS else 1))
    used = [0, 1, 2] if len(kinds) == 4 else range(len(kinds))
    of = np.array(list(combinations_with_replacement(used, scan.n)))
    counts = (of[:, :, None] == np.arange(len(kinds))).sum(axis=1).astype(float)
    tries = np.full(of.shape, float(scan.attempts))
    arms = [
        Arm(np.array(kinds)[of, side] / scan.attempts, tries, sign)
        for side, sign in zip(range(len(kinds[0])), (1.0, -1.0), strict=False)
    ]
    return arms, counts


def _next_to_limits(low: Floats, high: Floats, least: float) -> Floats:
    ends = np.unique(np.round(np.concatenate([low, high]), 12))
    truth = np.concatenate([ends - _DISTANCE, ends + _DISTANCE])
    inside: Floats = np.unique(truth[(truth > least) & (truth < 1)])
    return inside


def _worst_rate(n: int, counts: Floats, low: Floats, high: Floats) -> dict[str, Any]:
    truth = np.concatenate([_next_to_limits(low, high, 0.0), np.linspace(0, 1, 1001)[1:-1]])
    passed = counts[:, :1]
    chance = np.exp(_log_orders(n, counts) + xlogy(passed, truth) + xlogy(n - passed, 1 - truth))
    return _worst_points(chance, low, high, truth, truth, np.zeros_like(truth))


def _worst_delta(n: int, counts: Floats, low: Floats, high: Floats) -> dict[str, Any]:
    # swapping the conditions mirrors the results, so deltas of 0 and above suffice
    delta = _next_to_limits(low, high, -_DISTANCE)
    share = np.linspace(0.0, 1.0, _SUMS)
    truth = np.repeat(delta, _SUMS)
    total = np.abs(truth) + (1 - np.abs(truth)) * np.tile(share, len(delta))
    ways, worst = _log_orders(n, counts), []
    rest = n - counts.sum(axis=1, keepdims=True)
    for at in _blocks(len(truth), len(counts)):
        t, s = truth[at], total[at]
        up, down = (s + t) / 2, np.clip((s - t) / 2, 0.0, 1.0)
        with np.errstate(divide="ignore"):
            logs = np.maximum(np.log(np.stack([up, down, np.clip(1 - s, 0.0, 1.0)])), -1e6)
        chance = np.exp(ways + np.hstack([counts, rest]) @ logs)
        worst.append(_worst_points(chance, low, high, t, up, down))
    return _worst_of(worst)


def _blocks(n_points: int, n_outcomes: int) -> list[slice]:
    step = max(1, _ELEMENTS // n_outcomes)
    return [slice(at, at + step) for at in range(0, n_points, step)]


def _worst_of(rows: list[dict[str, Any]]) -> dict[str, Any]:
    lowest = min(rows, key=lambda row: row["coverage"])
    widest = max(rows, key=lambda row: row["side"])
    return lowest | {name: widest[name] for name in ("side", "side_up", "side_down")}


def _worst_mixture(scan: Scan, counts: Floats, low: Floats, high: Floats) -> dict[str, Any]:
    """Scan the pass rates of several attempts; each share of ``SAME`` in turn.

    ``up`` and ``down`` are the pass rates with skill and in the baseline.
    """
    deltas = scan.quantity == DELTAS
    truth = _next_to_limits(low, high, -_DISTANCE if deltas else 0.0)
    if len(truth) > _TRUTHS:
        truth = truth[np.linspace(0, len(truth) - 1, _TRUTHS).astype(int)]
    base = np.tile(np.linspace(0.0, 1.0, _BASES if deltas else 1), len(truth))
    truth = np.repeat(truth, _BASES if deltas else 1)
    base = base * (1.0 - np.abs(truth)) + np.maximum(-truth, 0.0) if deltas else 0.0 * base
    ways, worst = _log_orders(scan.n, counts[:, 1:]), []
    for same in SAME:
        for at in _blocks(len(truth), len(counts)):
            rates = np.clip([truth[at] + base[at], base[at]], 0.0, 1.0)
            arms = [_pass_chances(rate, scan.attempts, same) for rate in rates]
            kinds = (arms[0][:, None] * arms[1]).reshape(len(counts[0]), -1) if deltas else arms[0]
            with np.errstate(divide="ignore"):
                logs = np.maximum(np.log(kinds), -1e6)
            chance = np.exp(ways + counts @ logs)
            worst.append(_worst_points(chance, low, high, truth[at], *rates))
    return _worst_of(worst)


def _pass_chances(rate: Floats, attempts: int, same: float) -> Floats:
    """Return the probability of each number of passes; rows are numbers, columns rates."""
    mixed = binom.pmf(np.arange(attempts + 1)[:, None], attempts, rate)
    mixed *= 1.0 - same
    mixed[0] += same * (1.0 - rate)
    mixed[-1] += same * rate
    return np.asarray(mixed)


def _log_orders(n: int, counts: Floats) -> Floats:
    """Return the log of the number of orders of each outcome."""
    rest = n - counts.sum(axis=1)
    ways: Floats = gammaln(n + 1) - gammaln(counts + 1).sum(axis=1) - gammaln(rest + 1)
    return ways[:, None]


def _worst_points(
    chance: Floats, low: Floats, high: Floats, truth: Floats, up: Floats, down: Floats
) -> dict[str, Any]:
    above, below = low[:, None] > truth, high[:, None] < truth
    too_high, too_low = (np.einsum("ot,ot->t", chance, side) for side in (above, below))
    side = np.maximum(too_high, too_low)
    i, j = int((too_high + too_low).argmax()), int(side.argmax())
    return {
        "coverage": float(1 - too_high[i] - too_low[i]),
        "up": float(up[i]),
        "down": float(down[i]),
        "side": float(side[j]),
        "side_up": float(up[j]),
        "side_down": float(down[j]),
    }


def larger() -> pd.DataFrame:
    """Compute the lowest coverage of deltas if only larger clusters have an effect.

    Single cases never flip; a larger cluster flips up as a whole, with every probability in turn.
    One row per entry of ``LARGER``: singles, larger, size, coverage (the lowest, exact), and
    chance (the probability at which it occurs).
    """
    rows = []
    for singles, groups, size in LARGER:
        flipped = np.arange(groups + 1)
        counts = np.stack([np.full(groups + 1, singles), groups - flipped, flipped], axis=1)
        intervals = bounded_mean_counts(
            [0.0, 0.0, 1.0], counts, weights=[1.0, size, size], quantity=QUANTITIES[DELTAS]
        )
        share = groups * size / (singles + groups * size)
        chance = np.unique(
            np.clip(_next_to_limits(intervals.low, intervals.high, 0.0) / share, 0.0, 1.0)
        )
        truth = share * chance
        holds = (intervals.low[:, None] <= truth) & (truth <= intervals.high[:, None])
        covered = (binom.pmf(flipped[:, None], groups, chance) * holds).sum(axis=0)
        worst = int(covered.argmin())
        row = {"singles": singles, "larger": groups, "size": size}
        rows.append(row | {"coverage": covered[worst], "chance": chance[worst]})
    return pd.DataFrame(rows)
