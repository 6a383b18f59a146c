"""Intervals and tests of one cell: the rule as users get it, beside what a naive analysis gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from scipy.stats import t as student_t

from benchmarks.validity.designs import Design
from skillcomp.simulate import Counts
from skillcomp.stats import (
    cr2_mean,
    durkalski,
    mcnemar_exact,
    mcnemar_midp,
    obuchowski,
    paired_delta_many,
    sign_flip,
)
from skillcomp.stats.moments import ZERO_VARIANCE, Clusters

Floats = NDArray[np.float64]
Limits = tuple[Floats, Floats]
Row = dict[str, Any]
Rows = list[Row]

RULE, CR2 = "the rule", "CR2 t"
Z = float(norm.isf(0.025))
ALPHA = 0.05
RESAMPLES = 999  # makes the 2.5 % points order statistics
PATTERNS = 999  # random sign patterns where there are more than ENUMERATED clusters
ENUMERATED = 10
COMPARED = 5  # runs in which vectorised arithmetic is held against the public function


def run(design: Design) -> Rows:
    """Simulate one cell: a row for each interval, and for each test where the null is true."""
    drawn = design.draw()
    rule = paired_delta_many(
        drawn.skill,
        drawn.n_repeats,
        drawn.baseline,
        drawn.n_repeats,
        drawn.clusters if design.nested else None,
    )
    truth = drawn.realised if design.these_cases else np.full(design.runs, design.delta)
    fired, times = np.unique(rule.method, return_counts=True)
    rows = [_covered(RULE, (rule.low, rule.high), truth) | {"fired": str(fired[times.argmax()])}]
    rows += [_covered(name, limits, truth) for name, limits in _others(design, drawn)]
    if design.null_for_rule:
        rows.append(_rejected(RULE, rule.p_value))
    if design.delta == 0:
        rows += [_rejected(name, p_values) for name, p_values in _tests(design, drawn)]
    return rows


def _covered(method: str, limits: Limits, truth: Floats) -> Row:
    low, high = limits
    return {
        "kind": "coverage",
        "method": method,
        "rate": float(((low <= truth) & (truth <= high)).mean()),
        "runs": len(truth),
        "mean_width": float(np.nanmean(high - low)),
        "too_high": float((low > truth).mean()),
        "too_low": float((high < truth).mean()),
        "collapsed": float((high - low < 1e-12).mean()),
    }


def _rejected(method: str, p_values: Floats) -> Row:
    return {
        "kind": "error",
        "method": method,
        "rate": float((p_values < ALPHA).mean()),
        "runs": len(p_values),
    }


def _others(design: Design, drawn: Counts) -> Iterator[tuple[str, Limits]]:
    k, n = drawn.n_repeats, drawn.skill.shape[1]
    rates1, rates0 = drawn.skill / k, drawn.baseline / k
    p1, p0 = rates1.mean(axis=1), rates0.mean(axis=1)
    delta, spread1, spread0 = p1 - p0, p1 * (1 - p1), p0 * (1 - p0)
    yield "unpaired Wald", _around(delta, np.sqrt((spread1 + spread0) / (n * k)))
    if k > 1:
        # The variance over attempts, averaged over the ways to pair them within a case.
        shared = (rates1 * rates0).mean(axis=1) - p1 * p0
        variance = np.maximum(spread1 + spread0 - 2 * shared, 0)
        yield "attempts as units", _around(delta, np.sqrt(variance / (n * k - 1)))
    values = rates1 - rates0
    yield "plain CLT, z", _around(delta, values.std(axis=1, ddof=1) / np.sqrt(n))
    clusters = Clusters.of(drawn.clusters if design.nested else None, n)
    yield "percentile bootstrap", bootstrap(values, clusters, design.seed)
    se, df = cr2_errors(values, clusters)
    yield CR2, _around(delta, se, float(student_t.isf(ALPHA / 2, df)))


def _around(middle: Floats, se: Floats, quantile: float = Z) -> Limits:
    return middle - quantile * se, middle + quantile * se


def bootstrap(values: Floats, clusters: Clusters, seed: int) -> Limits:
    """Percentile limits over resampled cases, or over resampled skills where cases are nested.

    The resamples are the same in every study of a cell, which changes no study's interval.
    """
    rng = np.random.default_rng(seed)
    share = np.full(clusters.count, 1 / clusters.count)
    weights = rng.multinomial(clusters.count, share, size=RESAMPLES).astype(np.float64)
    means = (clusters.totals(values) @ weights.T) / (weights @ clusters.sizes)
    tail = round((RESAMPLES + 1) * ALPHA / 2)
    means.partition((tail - 1, RESAMPLES - tail), axis=1)
    return means[:, tail - 1], means[:, RESAMPLES - tail]


def cr2_errors(values: Floats, clusters: Clusters) -> tuple[Floats, float]:
    """Return the CR2 standard error of each study's mean, and its degrees of freedom."""
    totals = clusters.totals(values - values.mean(axis=1, keepdims=True))
    return np.sqrt(clusters.covariance(totals, totals)), clusters.df


def _tests(design: Design, drawn: Counts) -> Iterator[tuple[str, Floats]]:
    n = drawn.skill.shape[1]
    clusters = Clusters.of(drawn.clusters if design.nested else None, n)
    difference = (drawn.skill - drawn.baseline).astype(np.float64)
    if drawn.n_repeats == 1 and not design.nested:
        b, c = (difference > 0).sum(axis=1), (difference < 0).sum(axis=1)
        yield "mid-p McNemar", _mcnemar(mcnemar_midp, b, c)
        yield "exact McNemar", _mcnemar(mcnemar_exact, b, c)
    values = difference / drawn.n_repeats
    labels = drawn.clusters if design.nested else np.arange(n)
    yield CR2, _cr2_p(values, clusters, labels)
    better = clusters.totals(np.maximum(difference, 0.0))
    worse = clusters.totals(np.maximum(-difference, 0.0))
    pairs = clusters.sizes * drawn.n_repeats
    both = list(zip(better, worse, strict=True))
    yield "Obuchowski", np.array([obuchowski(b, c).p_value for b, c in both])
    yield "Durkalski", np.array([durkalski(b, c, pairs).p_value for b, c in both])
    yield "sign flip", sign_flips(values, clusters, labels)


def _mcnemar(test: Callable[..., object], b: NDArray[np.int64], c: NDArray[np.int64]) -> Floats:
    @cache
    def p_value(only_skill: int, only_baseline: int) -> float:
        return test(only_skill, only_baseline).p_value  # type: ignore[attr-defined,no-any-return]

    return np.array([p_value(int(x), int(y)) for x, y in zip(b, c, strict=True)])


def _cr2_p(values: Floats, clusters: Clusters, labels: NDArray[np.int64]) -> Floats:
    se, df = cr2_errors(values, clusters)
    # A collapsed standard error gives no p-value: nothing is rejected.
    flat = se**2 <= ZERO_VARIANCE
    t = np.abs(values.mean(axis=1)) / np.where(flat, 1.0, se)
    p_values = np.where(flat, np.nan, 2 * student_t.sf(t, df))
    public = [cr2_mean(one, labels).p_value for one in values[:COMPARED]]
    np.testing.assert_allclose(p_values[:COMPARED], public, rtol=0, atol=1e-10)
    return p_values


def sign_flips(values: Floats, clusters: Clusters, labels: NDArray[np.int64]) -> Floats:
    """Return the p-value of flipped signs of each study.

    Up to ten clusters through the public function. Beyond, with the random patterns that it takes
    for more than twenty: visiting half a million patterns in each of 4,000 studies would take
    most of an hour.
    """
    if clusters.count <= ENUMERATED:
        return np.array([sign_flip(one, labels).p_value for one in values])
    sizes = clusters.sizes
    totals = clusters.totals(values)
    totals = np.where(np.abs(totals) <= 1e-12, 0.0, totals)
    signs = np.random.default_rng(0).integers(0, 2, size=(PATTERNS, len(sizes))) * 2.0 - 1.0
    squares: Floats = (totals**2).sum(axis=1)
    ones: Floats = np.ones((1, len(sizes)))
    reached = _bounded_t(totals, sizes, squares, signs) >= (
        _bounded_t(totals, sizes, squares, ones) - 1e-10
    )
    p_values: Floats = (reached.sum(axis=1) + 1.0) / (PATTERNS + 1.0)
    p_values[squares == 0] = 1.0
    if clusters.count > 20:
        public = [sign_flip(one, labels, n_resamples=PATTERNS).p_value for one in values[:COMPARED]]
        np.testing.assert_allclose(p_values[:COMPARED], public, rtol=0, atol=1e-10)
    return p_values


def _bounded_t(totals: Floats, sizes: Floats, squares: Floats, signs: Floats) -> Floats:
    """Return t^2 / (1 + t^2) of the CR0 t, studies by patterns."""
    plain = totals @ signs.T
    mean = plain / sizes.sum()
    about = squares[:, None] - 2 * mean * ((totals * sizes) @ signs.T)
    about += mean**2 * (sizes**2).sum()
    with np.errstate(invalid="ignore"):
        bounded: Floats = plain**2 / (plain**2 + np.maximum(about, 0.0))
    return bounded
