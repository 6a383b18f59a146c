"""Coverage of the rows of ``bias.audit``: ``python -m benchmarks.validity.biases``.

The leniency among answers that fail by gold is scanned exactly for two conditions with different
cases. Slopes on features of the answers are simulated for graders that few answers fool.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.stats import binom

from skillcomp.stats import bounded_slope

CASES = (10, 20, 40)  # answers under each condition
SHARES = (0.0, 0.02, 0.05, 0.08, 0.2, 0.5)  # true shares of answers that fool the grader
FEATURES = ("normal", "skewed", "binary", "place")
N_CASES, RUNS = 20, 1000


def leniency(cases: tuple[int, ...] = CASES, shares: tuple[float, ...] = SHARES) -> pd.DataFrame:
    """Compute the exact coverage at every pair of shares, one row per pair and number of cases."""
    rows = []
    for n in cases:
        column, none = np.repeat([[0.0], [1.0]], n, axis=0), np.zeros(2 * n)
        limits = np.empty((n + 1, n + 1, 2))
        for a, b in np.ndindex(n + 1, n + 1):
            values = (np.r_[np.arange(n) < a, np.arange(n) < b]).astype(float)
            interval = bounded_slope(values, column, none, np.arange(2 * n), units=np.arange(2 * n))
            limits[a, b] = interval.low, interval.high
        for p, q in np.array(np.meshgrid(shares, shares)).reshape(2, -1).T:
            chance = np.outer(binom.pmf(range(n + 1), n, p), binom.pmf(range(n + 1), n, q))
            inside = (limits[..., 0] <= q - p + 1e-12) & (q - p - 1e-12 <= limits[..., 1])
            rows.append({"n": n, "p": p, "q": q, "coverage": float(chance[inside].sum())})
    return pd.DataFrame(rows)


def slopes(runs: int = RUNS, seed: int = 0) -> pd.DataFrame:
    """Simulate slopes of rare passes on a feature, one row per feature, effect and interval."""
    rng, rows = np.random.default_rng(seed), []
    cases, levels = np.repeat(np.arange(N_CASES), 2), np.tile([0, 1], N_CASES)
    for feature in FEATURES:
        for effect in (0.0, 0.05):
            hits = {"adaptive": 0, "bounded": 0, "t": 0}
            for _ in range(runs):
                x = _feature_values(feature, len(cases), rng)
                chance = np.clip(0.03 + effect * x, 0.0, 1.0)
                values = (rng.random(len(x)) < chance).astype(float)
                centred = x - np.array([x[levels == k].mean() for k in (0, 1)])[levels]
                truth = float(centred @ chance / (centred @ centred))
                for rule in hits:
                    interval = bounded_slope(
                        values, x[:, None], levels, cases, units=cases, interval=rule
                    )
                    hits[rule] += interval.low <= truth <= interval.high
            about = {"feature": feature, "effect": effect}
            rows += [about | {"interval": k, "coverage": v / runs} for k, v in hits.items()]
    return pd.DataFrame(rows)


def _feature_values(feature: str, n: int, rng: np.random.Generator) -> np.ndarray:
    if feature == "normal":
        return rng.normal(size=n)
    if feature == "skewed":
        return rng.exponential(size=n) * 2.0 * (rng.random(n) < 0.4)
    return (rng.random(n) < 0.4).astype(float) if feature == "binary" else rng.random(n)


if __name__ == "__main__":
    exact = leniency()
    print(exact.loc[exact.groupby("n")["coverage"].idxmin()].to_string(index=False))
    print(slopes().to_string(index=False))
