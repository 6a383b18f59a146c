"""The intervals and tests compared in every design, and the bounded interval at every c."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest, chi2
from scipy.stats import t as student_t

from benchmarks.validity.designs import Design, Sample
from skillcomp.stats import (
    Quantity,
    bounded,
    bounded_mean_many,
    bounded_means,
    cr2_mean,
    mcnemar_midp,
    sign_flip,
)
from skillcomp.stats.clusters import ZERO_VARIANCE, Clusters

Floats = NDArray[np.float64]
Limits = tuple[Floats, Floats]
Row = dict[str, Any]
Rows = list[Row]

OURS = "bounded mean"
CR2, PLAIN, BOOTSTRAP = "CR2 t", "plain t", "percentile bootstrap"
METHODS = (OURS, CR2, PLAIN, BOOTSTRAP)

QUANTITIES = {"deltas": bounded.DELTAS, "rates": bounded.RATES, "shares": bounded.SHARES}
GRID = tuple(round(0.5 + 0.05 * i, 2) for i in range(11))  # c from 1/2 to 1

ALPHA = 0.05
RESAMPLES = 999  # makes the 2.5 % points order statistics
PATTERNS = 999  # random sign patterns for more than ENUMERATED clusters
ENUMERATED = 10
COMPARED = 5  # runs in which vectorised arithmetic is compared with the public function


def run(design: Design) -> Rows:
    """Simulate one cell; return a row for each interval, each test of a true null, and each c.

    c = 1 is the bound of Gaffke.
    """
    sample = design.draw()
    limits, p_value = ours(sample, QUANTITIES[design.quantity])
    rows = [_coverage_row(OURS, limits, sample.truth)]
    if sample.tested:
        rows.append(_error_row(OURS, p_value))
    groups = Clusters.of(sample.clusters, sample.values.shape[1])
    rows += [
        _coverage_row(name, result, sample.truth)
        for name, result in _other_intervals(design, sample, groups)
    ]
    if sample.tested and design.world == "logit_study":
        rows += [_error_row(name, result) for name, result in _null_tests(sample, groups)]
    return rows + [_grid_row(c, *tails(sample, groups, _quantity_with_c(design, c))) for c in GRID]


def _quantity_with_c(design: Design, c: float) -> Quantity:
    about = QUANTITIES[design.quantity]
    return Quantity(about.low, about.high, c)


def _coverage_row(method: str, limits: Limits, truth: Floats | float) -> Row:
    low, high = limits
    return {
        "kind": "coverage",
        "method": method,
        "rate": float(((low <= truth) & (truth <= high)).mean()),
        "runs": len(low),
        "mean_width": float(np.nanmean(high - low)),
        "too_high": float((low > truth).mean()),
        "too_low": float((high < truth).mean()),
        "collapsed": float((high - low < 1e-12).mean()),
        "decided": float(((low > 0) | (high < 0)).mean()),
    }


def _error_row(method: str, p_values: Floats) -> Row:
    rate = float((p_values < ALPHA).mean())
    return {"kind": "error", "method": method, "rate": rate, "runs": len(p_values)}


# --- the bounded mean --------------------------------------------------------------------------


def ours(sample: Sample, quantity: Quantity) -> tuple[Limits, Floats]:
    """Return the limits of the bounded mean, and its p-value for the true value."""
    if sample.weights is None:
        limits = bounded_mean_many(
            sample.values, sample.clusters, quantity=quantity, null=sample.truth
        )
        return (limits.low, limits.high), limits.p_value
    many = bounded_means(
        [(row, sample.clusters, sample.weights) for row in sample.values],
        quantity=quantity,
        null=sample.truth,
    )
    low, high, p_value = (np.array([getattr(ci, n) for ci in many]) for n in ("low", "high", "p_value"))  # fmt: skip  # noqa: E501
    return (low, high), p_value


def tails(sample: Sample, groups: Clusters, quantity: Quantity) -> tuple[Floats, Floats]:
    """Return the tail probabilities at the true value; the limits exclude it below 2.5 %.

    This takes one evaluation instead of a search for the limits, so a grid of c is cheap.
    """
    weights = np.ones(sample.values.shape[1]) if sample.weights is None else sample.weights
    sizes = np.broadcast_to(groups.totals(weights[None, :]), (len(sample.values), groups.count))
    means = np.clip(groups.totals(sample.values * weights) / sizes, quantity.low, quantity.high)
    compact, back = bounded.compact_samples(means, np.array(sizes))
    sides = []
    for samples, bound, at in (
        (compact, quantity.low, sample.truth),
        (compact.mirrored(), -quantity.high, -sample.truth),
    ):
        whole = samples.with_pseudo_case(bound, quantity)
        chance, _ = bounded.chance_below(whole, np.full(len(whole.value), at))
        sides.append(chance[back])
    return sides[0], sides[1]


def _grid_row(c: float, below: Floats, above: Floats) -> Row:
    too_high, too_low = below < ALPHA / 2, above < ALPHA / 2
    return {
        "kind": "grid",
        "method": f"{c:g}",
        "rate": float((~too_high & ~too_low).mean()),
        "runs": len(below),
        "too_high": float(too_high.mean()),
        "too_low": float(too_low.mean()),
    }


# --- other intervals ---------------------------------------------------------------------------


def _other_intervals(
    design: Design, sample: Sample, groups: Clusters
) -> Iterator[tuple[str, Limits]]:
    yield CR2, t_limits(sample.values, groups, sample.weights)
    if not groups.single:
        yield PLAIN, t_limits(sample.values, Clusters.of(None, groups.n), sample.weights)
    yield BOOTSTRAP, bootstrap(sample.values, groups, design.seed, sample.weights)


def cr2_errors(
    values: Floats, groups: Clusters, weights: Floats | None = None
) -> tuple[Floats, Floats, float]:
    """Return the weighted mean of each study, its CR2 standard error and its degrees of freedom."""
    heavy = np.ones(values.shape[1]) if weights is None else weights
    sizes = groups.totals(heavy[None, :])[0]
    sums = groups.totals(values * heavy)
    mean = sums.sum(axis=1) / sizes.sum()
    share = sizes / sizes.sum()
    more = 1.0 / (1.0 - share)
    residuals = sums - mean[:, None] * sizes
    own = (share**2).sum()
    crossed = (more * share**2).sum() ** 2 - (more**2 * share**4).sum()
    return mean, np.sqrt((residuals**2) @ more) / sizes.sum(), float(1.0 / (own + crossed))


def t_limits(values: Floats, groups: Clusters, weights: Floats | None = None) -> Limits:
    """Return CR2 limits with Satterthwaite t; without clusters this is the ordinary t."""
    mean, se, df = cr2_errors(values, groups, weights)
    reach = float(student_t.isf(ALPHA / 2, df)) * se
    return mean - reach, mean + reach


def bootstrap(values: Floats, groups: Clusters, seed: int, weights: Floats | None = None) -> Limits:
    """Return percentile limits over resampled clusters.

    All studies of a cell use the same resamples, which saves time and does not bias an interval.
    """
    heavy = np.ones(values.shape[1]) if weights is None else weights
    rng = np.random.default_rng(seed)
    share = np.full(groups.count, 1 / groups.count)
    drawn = rng.multinomial(groups.count, share, size=RESAMPLES).astype(np.float64)
    means = (groups.totals(values * heavy) @ drawn.T) / (drawn @ groups.totals(heavy[None, :])[0])
    tail = round((RESAMPLES + 1) * ALPHA / 2)
    means.partition((tail - 1, RESAMPLES - tail), axis=1)
    return means[:, tail - 1], means[:, RESAMPLES - tail]


# --- tests of a true null ----------------------------------------------------------------------


def _null_tests(sample: Sample, groups: Clusters) -> Iterator[tuple[str, Floats]]:
    assert sample.sides is not None
    difference = sample.sides.skill - sample.sides.baseline
    tries = float(sample.sides.skill_tries[0])
    if tries == 1 and groups.single:
        b, c = (difference > 0).sum(axis=1), (difference < 0).sum(axis=1)
        yield "mid-p McNemar", _by_table(lambda b, c: mcnemar_midp(b, c).p_value, b, c)
        yield "exact McNemar", _by_table(_exact_mcnemar, b, c)
    labels = np.arange(groups.n) if sample.clusters is None else sample.clusters
    yield CR2, _cr2_p(sample.values, groups, labels)
    totals = groups.totals(difference)
    yield "Obuchowski", clustered_mcnemar(totals, 1 - 1 / groups.count)
    yield "Durkalski", clustered_mcnemar(totals / (groups.sizes * tries))
    yield "sign flip", sign_flips(sample.values, groups, labels)


def clustered_mcnemar(totals: Floats, factor: float = 1.0) -> Floats:
    """Return the p-values of McNemar's test for pairs in clusters, one per study.

    ``totals`` are improved less worsened pairs, studies by clusters. With the factor (K - 1) / K
    this is Obuchowski's test (1998, Statistics in Medicine 17:1495); with totals divided by the
    pairs of their cluster it is Durkalski's (2003, doi:10.1002/sim.1438). The p-value is 1 if
    no cluster differs.
    """
    squares = (totals**2).sum(axis=1)
    statistic = factor * totals.sum(axis=1) ** 2 / np.where(squares > 0, squares, 1.0)
    return np.asarray(chi2.sf(statistic, 1))


def _exact_mcnemar(b: int, c: int) -> float:
    return float(binomtest(b, b + c).pvalue) if b + c else 1.0


def _by_table(
    test: Callable[[int, int], float], b: NDArray[np.int64], c: NDArray[np.int64]
) -> Floats:
    p_value = cache(test)
    return np.array([p_value(int(x), int(y)) for x, y in zip(b, c, strict=True)])


def _cr2_p(values: Floats, groups: Clusters, labels: NDArray[Any]) -> Floats:
    mean, se, df = cr2_errors(values, groups)
    # no p-value with a standard error of zero: nothing is rejected
    flat = se**2 <= ZERO_VARIANCE
    p_values = np.where(flat, np.nan, 2 * student_t.sf(np.abs(mean) / np.where(flat, 1.0, se), df))
    public = [cr2_mean(row, labels).p_value for row in values[:COMPARED]]
    np.testing.assert_allclose(p_values[:COMPARED], public, rtol=0, atol=1e-10)
    return p_values


def sign_flips(values: Floats, groups: Clusters, labels: NDArray[Any]) -> Floats:
    """Return the p-value of the sign-flip test of each study.

    Up to ten clusters use the public function. More clusters use random patterns, as that function
    does for more than twenty: all half a million patterns in each of 4,000 studies would take most
    of an hour.
    """
    if groups.count <= ENUMERATED:
        return np.array([sign_flip(row, labels).p_value for row in values])
    sizes = groups.sizes
    totals = groups.totals(values)
    totals = np.where(np.abs(totals) <= 1e-12, 0.0, totals)
    signs = np.random.default_rng(0).integers(0, 2, size=(PATTERNS, len(sizes))) * 2.0 - 1.0
    squares: Floats = (totals**2).sum(axis=1)
    ones: Floats = np.ones((1, len(sizes)))
    reached = _bounded_t(totals, sizes, squares, signs) >= (
        _bounded_t(totals, sizes, squares, ones) - 1e-10
    )
    p_values: Floats = (reached.sum(axis=1) + 1.0) / (PATTERNS + 1.0)
    p_values[squares == 0] = 1.0
    if groups.count > 20:
        public = [sign_flip(row, labels, n_resamples=PATTERNS).p_value for row in values[:COMPARED]]
        np.testing.assert_allclose(p_values[:COMPARED], public, rtol=0, atol=1e-10)
    return p_values


def _bounded_t(totals: Floats, sizes: Floats, squares: Floats, signs: Floats) -> Floats:
    """Return t^2 / (1 + t^2) of the CR0 t; rows are studies, columns patterns."""
    plain = totals @ signs.T
    mean = plain / sizes.sum()
    about = squares[:, None] - 2 * mean * ((totals * sizes) @ signs.T)
    about += mean**2 * (sizes**2).sum()
    with np.errstate(invalid="ignore"):
        bounded_t: Floats = plain**2 / (plain**2 + np.maximum(about, 0.0))
    return bounded_t
