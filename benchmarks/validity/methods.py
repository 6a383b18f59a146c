"""The intervals compared in every design, at several confidence levels."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student_t

from benchmarks.many_studies import bounded_mean_many, counted_studies
from benchmarks.validity.designs import DELTAS, FOUR, RATES, SHARES, Design, Sample
from skillcomp.stats import Quantity, bounded, sides_of_null
from skillcomp.stats.clusters_and_amounts import Clusters
from skillcomp.stats.significance_and_grader_errors import clustered_midp

Floats = NDArray[np.float64]
Limits = tuple[Floats, Floats]
Row = dict[str, Any]
Rows = list[Row]

ADAPTIVE, BOUNDED, CR2, PLAIN = "adaptive", "bounded", "CR2 t", "plain t"
METHODS = (ADAPTIVE, BOUNDED, CR2, PLAIN)
MCNEMAR = "mid-p McNemar"

QUANTITIES = {
    DELTAS: bounded.DELTAS,
    RATES: bounded.RATES,
    SHARES: bounded.SHARES,
    FOUR: Quantity(-2.0, 2.0, bounded.DELTAS.c),
}

LEVEL = 0.95
LEVELS = (0.8, 0.9, LEVEL, 0.99, 0.999)
MARGIN = 0.1  # margin of a verdict
MEASURED = 100  # studies with limits, for widths; the others are only tested


def run(design: Design) -> Rows:
    """Simulate one cell; return one row per interval and level."""
    sample = design.draw()
    groups = Clusters.of(sample.clusters, sample.values.shape[1])
    rows = [*_bounded_rows(ADAPTIVE, sample, design), *_bounded_rows(BOUNDED, sample, design)]
    rows += _t_rows(CR2, sample, groups)
    if not groups.single:
        rows += _t_rows(PLAIN, sample, Clusters.of(None, groups.n))
    if design.quantity == DELTAS and sample.truth == 0 and groups.single:
        rows += _mcnemar_rows(sample)
    return rows


def _coverage_row(method: str, level: float, too_high: Any, too_low: Any) -> Row:
    return {
        "method": method,
        "level": level,
        "rate": float(1.0 - (too_high | too_low).mean()),
        "runs": len(too_high),
        "too_high": float(too_high.mean()),
        "too_low": float(too_low.mean()),
    }


def _power_columns(decided: Any, gained: Any) -> Row:
    return {"decided": float(decided.mean()), "gained": float(gained.mean())}


def _bounded_rows(method: str, sample: Sample, design: Design) -> Iterator[Row]:
    quantity = QUANTITIES[design.quantity]
    arms = sample.arms if method == ADAPTIVE else ()
    how: dict[str, Any] = {"quantity": quantity, "weights": sample.weights}
    values = sample.values
    studies, back = counted_studies(values, sample.clusters, arms=arms, **how)

    def beyond(null: float, level: float) -> tuple[Any, Any]:
        """Return which limits exclude the null: the lower ones and the upper ones."""
        sides = sides_of_null(studies, quantity=quantity, null=null, ci_level=level)[back]
        return sides > 0, sides < 0

    for level in LEVELS if method == ADAPTIVE else (LEVEL,):
        row = _coverage_row(method, level, *beyond(sample.truth, level))
        if level == LEVEL:
            first = [arm.rows(slice(MEASURED)) for arm in arms]
            means = bounded_mean_many(values[:MEASURED], sample.clusters, arms=first, **how)
            row |= {
                "mean_width": float(np.mean(means.high - means.low)),
                "zero_width": float((means.high <= means.low).mean()),
            }
            if quantity.low < 0:
                row |= _power_columns(np.logical_or(*beyond(0.0, level)), beyond(MARGIN, level)[0])
        yield row


def _t_rows(method: str, sample: Sample, groups: Clusters) -> Iterator[Row]:
    for level in LEVELS:
        low, high = t_limits(sample.values, groups, sample.weights, level)
        row = _coverage_row(method, level, low > sample.truth, high < sample.truth)
        if level == LEVEL:
            row |= {
                "mean_width": float(np.mean(high - low)),
                "zero_width": float((high - low < 1e-12).mean()),
                **_power_columns((low > 0) | (high < 0), low > MARGIN),
            }
        yield row


def t_limits(
    values: Floats, groups: Clusters, weights: Floats | None = None, level: float = LEVEL
) -> Limits:
    """Return CR2 limits with Satterthwaite t; without clusters this is the ordinary t."""
    heavy = np.ones(values.shape[1]) if weights is None else weights
    sizes = groups.totals(heavy)
    sums = groups.totals(values * heavy)
    mean = sums.sum(axis=1) / sizes.sum()
    share = sizes / sizes.sum()
    more = 1.0 / (1.0 - share)
    se = np.sqrt((sums - mean[:, None] * sizes) ** 2 @ more) / sizes.sum()
    crossed = (more * share**2).sum() ** 2 - (more**2 * share**4).sum()
    reach = float(student_t.isf((1 - level) / 2, 1.0 / ((share**2).sum() + crossed))) * se
    return mean - reach, mean + reach


@cache
def _mcnemar_p(ups: int, downs: int) -> float:
    """Return the mid-p of McNemar's test: one flip per case."""
    gained = np.repeat([1, 0], [ups, downs])
    return clustered_midp(gained, 1 - gained, range(ups + downs)).p_value


def _mcnemar_rows(sample: Sample) -> Iterator[Row]:
    """Return the coverage of 0 by McNemar's test, for independent cases with one attempt."""
    if not all((arm.attempts == 1).all() for arm in sample.arms if arm.attempts is not None):
        return
    ups, downs = ((sign * sample.values > 0).sum(axis=1) for sign in (1, -1))
    pairs = zip(ups.tolist(), downs.tolist(), strict=True)
    rejected = np.array([_mcnemar_p(up, down) < 1 - LEVEL for up, down in pairs])
    yield _coverage_row(MCNEMAR, LEVEL, rejected & (ups > downs), rejected & (ups < downs))
