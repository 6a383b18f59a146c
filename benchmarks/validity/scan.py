"""Exact coverage for yes/no outcomes at every true value, without simulation.

The scan covers rates of ``n`` cases at every p, and deltas in {-1, 0, 1} at every (p+, p-).
Coverage jumps where a limit passes the true value and is smooth in between, so the worst points
are next to the limits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import gammaln, xlogy
from scipy.stats import beta as beta_distribution
from scipy.stats import binom, norm

from benchmarks.validity.designs import DELTAS, RATES
from benchmarks.validity.methods import GRID, QUANTITIES, Rows
from skillcomp.stats import Quantity, bounded_mean_counts, bounded_mean_many
from skillcomp.stats.intervals import wilson_limits

Floats = NDArray[np.float64]

RATE_CASES = (*range(1, 21), 25, 30, 36, 42, 60, 84, 100)
DELTA_CASES = tuple(range(1, 43))
QUICK_RATE_CASES = (*range(1, 21), 30, 42, 84)
QUICK_DELTA_CASES = (*range(1, 11), 14, 20)
# (single cases, larger clusters, cases in each of these)
LARGER = (
    (10, 2, 2), (10, 4, 2), (20, 8, 2), (60, 8, 2), (100, 16, 2), (200, 20, 2), (30, 5, 3),
    (60, 5, 3), (100, 3, 3), (100, 12, 3), (40, 3, 4), (100, 4, 4), (40, 2, 10), (100, 3, 10),
    (60, 1, 20), (100, 6, 20),
)  # fmt: skip
_DISTANCE = 1e-9  # distance from a limit
_SUMS = 33  # values of p+ + p- for each delta
_POINTS = 4000  # true values per block, to limit memory


@dataclass(frozen=True, slots=True)
class Scan:
    """All yes/no outcomes of ``n`` cases, for every c of the grid."""

    quantity: str
    n: int


def scans(quick: bool) -> list[Scan]:
    """List the cells of the scan, the largest first."""
    rates = QUICK_RATE_CASES if quick else RATE_CASES
    deltas = QUICK_DELTA_CASES if quick else DELTA_CASES
    cells = [*(Scan(DELTAS, n) for n in deltas), *(Scan(RATES, n) for n in rates)]
    return sorted(cells, key=lambda cell: -cell.n * (cell.quantity == DELTAS))


def run(scan: Scan) -> Rows:
    """Find the lowest coverage and the highest one-sided error, one row per c."""
    values, counts = _all_outcomes(scan)
    about = QUANTITIES[scan.quantity]
    rows = []
    for c in GRID:
        intervals = bounded_mean_many(values, quantity=Quantity(about.low, about.high, c))
        worst = _worst_delta if scan.quantity == DELTAS else _worst_rate
        limits = intervals.low, intervals.high
        rows.append({"method": "bounded mean", "c": c, **worst(scan.n, counts, *limits)})
    if scan.quantity == RATES:
        for name, limits in _usual_limits(counts[:, 0], scan.n).items():
            rows.append({"method": name, "c": None, **_worst_rate(scan.n, counts, *limits)})
    return rows


def _usual_limits(passed: Floats, n: int) -> dict[str, tuple[Floats, Floats]]:
    """Return the limits of a rate by Wilson and by Jeffreys, for comparison."""
    jeffreys = [beta_distribution.ppf(q, passed + 0.5, n - passed + 0.5) for q in (0.025, 0.975)]
    return {
        "Wilson": wilson_limits(passed / n, n, norm.isf(0.025)),
        "Jeffreys": (
            np.where(passed == 0, 0.0, jeffreys[0]), np.where(passed == n, 1.0, jeffreys[1])
        ),
    }  # fmt: skip


def _all_outcomes(scan: Scan) -> tuple[Floats, Floats]:
    """List all outcomes as values of cases, and as counts of each value."""
    n = scan.n
    if scan.quantity == RATES:
        k = np.arange(n + 1)
        return (np.arange(n) < k[:, None]).astype(float), k[:, None].astype(float)
    ups, downs = (part.ravel() for part in np.indices((n + 1, n + 1)))
    ups, downs = ups[ups + downs <= n], downs[ups + downs <= n]
    case = np.arange(n)
    values = (case < ups[:, None]) * 1.0 - (case >= n - downs[:, None])
    return values, np.stack([ups, downs], axis=1).astype(float)


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
    for at in range(0, len(truth), _POINTS):
        t, s = truth[at : at + _POINTS], total[at : at + _POINTS]
        up, down = (s + t) / 2, np.clip((s - t) / 2, 0.0, 1.0)
        same = np.clip(1 - s, 0.0, 1.0)
        rest = n - counts.sum(axis=1, keepdims=True)
        with np.errstate(divide="ignore"):
            logs = np.maximum(np.log(np.stack([up, down, same])), -1e6)
        chance = np.exp(ways + np.hstack([counts, rest]) @ logs)
        worst.append(_worst_points(chance, low, high, t, up, down))
    lowest = min(worst, key=lambda row: row["coverage"])
    widest = max(worst, key=lambda row: row["side"])
    return lowest | {name: widest[name] for name in ("side", "side_up", "side_down")}


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
