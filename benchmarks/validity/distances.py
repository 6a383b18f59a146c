"""World of transfer by measured distance."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from skillcomp.transfer import curve

Found = tuple[str, float, float, float]
NOT_SHOWN, NOT_SAID = "not shown", "not said"  # endings of shares without a rule
N, REPEATS = 40, 3
# name of a design -> rate of the nearest case without the skill and its fall to the farthest case,
# delta of the nearest case and its change to the farthest case
CURVES = {
    "level baseline, equal deltas": (0.3, 0.0, 0.3, 0.0),
    "level baseline, deltas fall by 40 points": (0.3, 0.0, 0.5, -0.4),
    "baseline falls by 20 points, equal deltas": (0.5, 0.2, 0.3, 0.0),
    "baseline falls by 20 points, deltas by 40": (0.5, 0.2, 0.45, -0.4),
    "baseline falls by 40 points, equal deltas": (0.5, 0.4, 0.3, 0.0),
    "baseline falls by 40 points, deltas by 40": (0.5, 0.4, 0.45, -0.4),
    "baseline falls by 60 points, equal deltas": (0.75, 0.6, 0.2, 0.0),
}


def by_distance(rng: np.random.Generator, runs: int, *, design: str) -> Iterator[Found]:
    """Draw cases at distances from 0 to 1; rates change with the distance and by case."""
    base, fall, delta, change = CURVES[design]
    for size in [50] * (runs // 50) + [runs % 50] * bool(runs % 50):
        x = rng.uniform(0.0, 1.0, (size, N))
        x[:, [0, -1]] = 0.0, 1.0
        middle, effect = base - fall * x, delta + change * x
        own = np.clip(rng.normal(0, 0.15, x.shape), -middle, 1 - middle)
        own = np.clip(own, -middle - effect, 1 - middle - effect)
        studies = np.repeat([f"s{i}" for i in range(size)], N)
        cases = pd.DataFrame({"skill": studies, "x": x.ravel()})
        cases["case_id"] = [f"{name}/{i}" for i, name in enumerate(studies)]
        parts = [
            cases.assign(condition=condition, repeat=repeat, passed=rng.random(len(cases)) < rate)
            for condition, rates in (("baseline", middle + own), ("skill", middle + own + effect))
            for rate in [rates.ravel()]
            for repeat in range(1, REPEATS + 1)
        ]
        rows = curve(pd.concat(parts, ignore_index=True), distance="x", bins=1, by=["skill"])
        slopes = rows[rows["measure"].eq("delta_slope")]
        for low, high, note in slopes[["ci_low", "ci_high", "note"]].itertuples(index=False):
            yield "slope of the delta", change, low, high
            shown = low > 0 or high < 0
            yield f"slope of the delta {NOT_SHOWN}", 0.0, float(not shown), float(not shown)
            said = "cannot be separated" in note
            yield f"difficulty {NOT_SAID}", 0.0, float(not said), float(not said)
