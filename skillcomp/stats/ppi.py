"""Prediction-powered estimates: the grader's verdicts on all cases, corrected by gold on some.

The grader's errors can be of any kind, and can differ between conditions. The cases with gold must
have been drawn at random. If every case has gold on some of its repeats, these repeats must have
been drawn at random.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import beta, norm
from scipy.stats import t as student_t

from skillcomp.errors import plural
from skillcomp.stats.bounded import RATES, Quantity
from skillcomp.stats.clusters_and_amounts import cluster_codes, cr2, cr2_mean
from skillcomp.stats.results import (
    NAN,
    Bools,
    Floats,
    Indices,
    Interval,
    check_level,
    join_notes,
    undefined,
    within_range,
)

Columns = tuple[Any, ...]

_NEAR = 1e-9  # least distance of a mean from its bound; at distance 0, no beta distribution exists

# The variance of the correction is poorly estimated if gold shows fewer errors than this in one of
# two directions: gold above the grader, or gold below the grader. The variance is then increased as
# if one more error had been seen in each direction.
FEWEST_ERRORS = 5
MOST_UNEQUAL = 10.0  # a note warns if the largest weight exceeds this multiple of the median
UNSEEN = "cases of a small chance may have no gold"
# a note warns if the sum of weights is this many standard deviations below the number of cases
SHORT = 3.0


def _collapse_rule(data: _GoldCases, fit: _RawEstimate) -> str:
    size = data.relative_weights
    fewest = min(float(size[side > 1e-9].sum()) for side in data.errors)
    _, alike = np.unique(np.round(fit.error, 9), return_inverse=True)
    differing = float(size.sum() - np.bincount(alike.ravel(), weights=size).max())
    if min(fewest, differing) < FEWEST_ERRORS - 1e-9:
        return f"fewer than {FEWEST_ERRORS} gold cases on which the grader errs in one direction"
    if data.clustered and data.gold_clusters < 2:
        return "gold in one cluster only"
    if not fit.variance > 1e-15:
        return "no variation between cases"
    return ""


def _imagined_variance(data: _GoldCases) -> float:
    """Return the variance that one imagined error in each direction adds to the correction.

    The directions are gold above and gold below the grader. If a direction has five or more errors,
    its imagined error is as large as the largest of them, but at most 1. Otherwise it is 1, a whole
    case, because a few gold cases may not show that the grader sometimes misjudges a whole answer.
    """
    size, squares = data.relative_weights, 0.0
    for side in data.errors:
        enough = float(size[side > 1e-9].sum()) >= FEWEST_ERRORS - 1e-9
        squares += min(float(side.max()), 1.0) ** 2 if enough else 1.0
    n = data.effective
    return 0.5 * squares / ((n + 1.0) * (n + 2.0))


def _about_weights(data: _GoldCases) -> list[str]:
    """Return notes if weights are very unequal or their sum is far below the number of cases."""
    size, notes = data.weights[data.labelled], []
    ratio = float(size.max() / np.median(size))
    if ratio > MOST_UNEQUAL:
        count = f"{size.size} cases with gold count for {data.effective:.1f}"
        largest = f"the largest weight of a case with gold is {ratio:.0f} times the median"
        notes.append(f"{largest}: {count}")
    size = size / data.sizes[data.labelled]
    # If cases are drawn independently, the expected sum of weights is the number of cases.
    # ``spread`` is the standard deviation of the sum.
    spread = math.sqrt(float((size * (size - 1.0)).sum()))
    if data.has_chances and size.sum() < data.labelled.size - SHORT * spread:
        share = f"{size.sum():.0f} of {data.labelled.size}"
        notes.append(f"by their chances the cases with gold stand for {share}: {UNSEEN}")
    return notes


def ppi_limits(
    estimate: ArrayLike,
    error: ArrayLike,
    variance: ArrayLike,
    lam: ArrayLike,
    n: ArrayLike,
    df: ArrayLike,
    *,
    quantity: Quantity,
    ci_level: float = 0.95,
) -> tuple[Floats, Floats]:
    """Compute limits of a prediction-powered estimate, with a pseudo-case as for a bounded mean.

    Parameters
    ----------
    estimate, variance : array_like of float
        The estimate and its variance.
    error : array_like of float
        Mean of (gold minus ``lam`` times the grader) over the cases with gold. If every case has
        gold, the estimate itself.
    lam : array_like of float
        Weight of the grader; 0 if every case has gold.
    n, df : array_like of float
        Number of cases or clusters with gold, and degrees of freedom of the variance.
    quantity : Quantity
        Bounds of the values and weight of the pseudo-case.
    ci_level : float, default 0.95
        Confidence level.

    Returns
    -------
    low, high : ndarray of float
        Limits inside the bounds, with the estimate between them.

    Notes
    -----
    As in :func:`skillcomp.stats.bounded.bounded_mean`, a pseudo-case of weight c is added at the
    bound, here to the cases with gold. For the pseudo-case, gold and the grader are both assumed to
    equal the bound, so gold minus ``lam`` times the grader is ``1 - lam`` times the bound. The
    variance is multiplied by the squared ratio of the t and normal quantiles. The limit is a
    quantile of the beta distribution with the resulting mean and variance.
    """
    sides = _beta_shapes((estimate, error, variance, lam, n, df), quantity, ci_level)
    tails = ((1.0 - ci_level) / 2.0, (1.0 + ci_level) / 2.0)
    least, span = quantity.low, quantity.high - quantity.low
    inside = np.clip(np.asarray(estimate, float), least, quantity.high)
    low, high = (least + span * beta.ppf(t, *shape) for t, shape in zip(tails, sides, strict=True))
    return np.minimum(low, inside), np.maximum(high, inside)


def _beta_shapes(
    summary: tuple[ArrayLike, ...], quantity: Quantity, ci_level: float
) -> list[tuple[Floats, Floats]]:
    """Return the parameters of two beta distributions: for the lower and for the upper limit."""
    where, off, variance, lam, count, df = (np.asarray(v, float) for v in summary)
    # without clipping, an estimate outside the bounds would put both limits at the same bound
    where = np.clip(where, quantity.low, quantity.high)
    span, c = quantity.high - quantity.low, quantity.c
    tail = (1.0 - ci_level) / 2.0
    heavy = student_t.isf(tail, df) / norm.isf(tail)
    spread = variance * heavy**2 * count / (count + c)
    share = c / (count + c)
    shapes = []
    for bound, furthest in ((quantity.low, np.minimum), (quantity.high, np.maximum)):
        pseudo = furthest((1.0 - lam) * bound, off) - off
        mean = np.clip((where + share * pseudo - quantity.low) / span, _NEAR, 1.0 - _NEAR)
        total = (spread + share * (1.0 - share) / (count + c + 1.0) * pseudo**2) / span**2
        size = np.maximum(mean * (1.0 - mean) / np.maximum(total, _NEAR**2) - 1.0, _NEAR)
        shapes.append((mean * size, (1.0 - mean) * size))
    return shapes


def ppi_mean(
    gold: ArrayLike,
    predicted: ArrayLike,
    *,
    quantity: Quantity = RATES,
    predicted_on_gold: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    inclusion_probability: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    lam: float | None = None,
    ci_level: float = 0.95,
) -> Interval:
    """Estimate the pass rate or delta that gold would give, from verdicts on all cases.

    The estimate has two terms: ``lam`` times the mean of the grader over the cases without gold,
    and the mean of (gold minus ``lam`` times the grader) over the cases with gold.

    A delta is computed from the differences of the cases (skill minus baseline), so that the
    difficulty of cases cancels. The grader may be more lenient under one condition than under the
    other.

    Parameters
    ----------
    gold : array_like of float, shape (cases,)
        Pass rate of each case by gold, or difference of its two rates; NaN if it has no gold, for
        a difference under either condition.
    predicted : array_like of float, shape (cases,)
        The same by the grader, over all repeats of the case. Cases with NaN are left out and
        counted in ``note``.
    quantity : Quantity, default RATES
        ``RATES`` or, for differences, ``DELTAS``: bounds of the values and weight of the
        pseudo-case.
    predicted_on_gold : array_like of float, shape (cases,), optional
        The same by the grader, over the repeats with gold. Needed if only some repeats of a case
        have gold; if omitted, ``predicted``.
    clusters : array_like, shape (cases,), optional
        Cluster of each case, such as its skill; if omitted, each case is a cluster.
    inclusion_probability : array_like of float, shape (cases,), optional
        Probability with which each case was drawn for gold; needed if these are unequal.
    weights : array_like of float, shape (cases,), optional
        Weight of each case, above 0; equal if omitted.
    lam : float, optional
        Weight of the grader in [0, 1]; if omitted, the weight that minimises the variance.
    ci_level : float, default 0.95
        Confidence level.

    Returns
    -------
    Interval
        Rate or difference with limits inside the bounds. ``n`` counts the cases with gold. ``df``
        is less than the number of cases (or clusters) with gold, but never below 1. ``p_value``
        tests a difference of 0. NaN with a note if no case has gold.

    Raises
    ------
    ValueError
        If the lengths differ, a value is outside the bounds, or a setting is unknown.

    Notes
    -----
    If every case has gold on some of its repeats, each case has a value with two terms. The first
    is ``lam`` times the grader's mean over all repeats; the second is (gold minus ``lam`` times the
    grader) on the repeats with gold. The estimate is the mean of these values. If only some cases
    have gold and there are clusters, the two terms of the estimate are computed in one CR2
    regression.

    If the grader errs in one direction on fewer than 5 gold cases, the variance can collapse. The
    variance of one imagined error in each direction is then added, as ``method`` and ``note``
    state. If only some cases have gold, the added variance is multiplied by ``lam`` squared. In a
    direction with five or more errors, the imagined error is as large as the largest of them;
    otherwise it is a whole case. This makes the interval wide for a grader that errs only on single
    checks, but valid for a grader that misjudges whole answers.

    Cases with gold are weighted by the inverse of their inclusion probabilities. If these are
    unequal, the variance, ``df``, imagined errors and pseudo-case use Kish's effective number of
    cases (or clusters). With probabilities that differed up to tenfold and 30 to 110 cases with
    gold, coverage of rates and deltas was at least 96 % in 1,000 studies of each of three designs.
    With probabilities that differed fiftyfold, coverage of rates was 75 to 96 %, because cases with
    a small probability may have no gold at all. ``note`` warns if the largest weight is above ten
    times the median, or if the sum of weights is clearly below the number of cases.

    For the limits, the pseudo-case of a bounded mean is added to the cases with gold. A limit is a
    quantile of a beta distribution. In their last run, the slow tests simulated 36 designs with a
    pseudo-case of weight c = .7 (14 to 100 gold cases, nearly deterministic agents, rare flips,
    rates near 0 and 1). Coverage met the required 93 to 94 % in all designs but one, with a rate
    near .9, rare flips and gold on 30 of 100 cases. There it was 93.8 % of 1,000 studies, and
    98.9 % with c = .75. Coverage of t and Wilson's interval fell to 86 %. Choosing ``lam`` from few
    gold cases near a rate of 1 causes a bias of up to 0.01; a fixed ``lam`` causes no bias. The
    estimate is checked against ppi-python 0.2.3.

    References
    ----------
    Angelopoulos, Duchi and Zrnic 2023, arXiv:2311.01453; Chen et al. 2026, arXiv:2601.05420;
    Fiedler 2026, arXiv:2605.06939.

    Examples
    --------
    >>> nan = float("nan")
    >>> gold, grader = [1, 0, 1, 1, nan, nan, nan, nan], [1, 0, 1, 1, 1, 0, 1, 1]
    >>> ppi_mean(gold, grader).estimate  # the mean over all cases, because the grader equals gold
    0.75
    """
    label = "PPI++ paired difference" if quantity.low < 0.0 else "PPI++ mean"
    if lam is not None and not 0.0 <= lam <= 1.0:
        raise ValueError(f"lam must lie between 0 and 1, found {lam!r}.")
    check_level(ci_level)
    raw = (gold, predicted, predicted_on_gold, clusters, inclusion_probability, weights)
    data = collect_cases(raw, quantity)
    has, groups, notes = data.labelled, data.gold_clusters, [data.note]
    if not has.any():
        return undefined(label, join_notes(*notes, "no case with gold"), ci_level=ci_level, n=0.0)
    notes += _about_weights(data)
    weight = tuned_weight(data) if lam is None else lam
    design, fit = fit_design(data, weight)
    over = f"CR2 over {groups} clusters" if data.clustered else "variance over cases"
    variance = fit.variance if math.isfinite(fit.variance) else 0.0
    rule = _collapse_rule(data, fit)
    df = max(fit.df, 1.0)
    method = f"{label}, {design}, lambda={weight:.4f}, {over}"
    if rule:
        # if every case has gold, an error changes the value of its case by its full size, and not
        # by lam times its size
        variance += (1.0 if data.labelled.all() else weight**2) * _imagined_variance(data)
        method += ", variance with one imagined error in each direction"
        notes += [f"{rule}, where the plain interval can collapse: two imagined errors added"]
    method += f", bounded mean, c = {quantity.c:g}"
    summary = (fit.estimate, fit.moved, variance, fit.lam, data.effective, df)
    low, high = map(float, ppi_limits(*summary, quantity=quantity, ci_level=ci_level))
    inside, _, _, cut = within_range(fit.estimate, low, high, (quantity.low, quantity.high))
    p_value = NAN
    if quantity.low < 0.0:  # 0 is a sensible null value only for a delta, not for a rate
        # the p-value of 0 is 1 minus the level at which a limit is 0
        middle = -quantity.low / (quantity.high - quantity.low)
        below, above = _beta_shapes(summary, quantity, ci_level)
        tails = float(beta.cdf(middle, *below)), float(beta.sf(middle, *above))
        p_value = min(1.0, 2.0 * min(tails))
    counts = float(has.sum()), float(groups) if data.clustered else NAN
    rest = math.sqrt(variance), df, p_value
    return Interval(inside, low, high, ci_level, method, join_notes(*notes, cut), *counts, *rest)


@dataclass(frozen=True)
class _GoldCases:
    """Cases with a usable prediction, in their original order.

    ``sizes`` are the user's weights, divided by the largest. ``weights`` are the sizes divided by
    the inclusion probabilities, or the sizes themselves if every case has gold. ``has_chances`` is
    True if inclusion probabilities were given. ``weighted`` is True if the sizes differ, or if the
    inclusion probabilities of the cases with gold differ and some cases have no gold.
    """

    gold: Floats
    predicted: Floats
    on_gold: Floats
    sizes: Floats
    weights: Floats
    weighted: bool
    has_chances: bool
    clusters: Indices
    clustered: bool
    note: str

    @property
    def labelled(self) -> Bools:
        """True for each case with gold."""
        return np.isfinite(self.gold)

    @property
    def errors(self) -> tuple[Floats, Floats]:
        """Two arrays over the cases with gold: gold minus grader, and grader minus gold."""
        above = self.gold[self.labelled] - self.on_gold[self.labelled]
        return above, -above

    @property
    def gold_clusters(self) -> int:
        """The number of clusters with gold."""
        return int(np.unique(self.clusters[self.labelled]).size)

    @property
    def relative_weights(self) -> Floats:
        """The weight of each case with gold, relative to the largest of these weights."""
        size = self.weights[self.labelled]
        return np.asarray(size / size.max(), float)

    @property
    def effective(self) -> float:
        """The number of clusters with gold; Kish's effective number if weights are unequal."""
        if not self.weighted:
            return float(self.gold_clusters)
        sums = np.bincount(self.clusters[self.labelled], weights=self.relative_weights)
        return float(sums.sum() ** 2 / (sums**2).sum())


@dataclass(frozen=True)
class _RawEstimate:
    """A prediction-powered estimate before imagined errors are added.

    ``error`` is (gold minus ``lam`` times the grader) for each case with gold, and ``moved`` is its
    (weighted) mean. If every case has gold, ``error`` holds the values of the cases, ``moved`` is
    the estimate, and ``lam`` is 0.
    """

    estimate: float
    variance: float
    df: float
    error: Floats
    moved: float
    lam: float


def _case_vector(name: str, values: ArrayLike, size: int | None = None) -> Floats:
    vector = np.asarray(values, float)
    if vector.ndim != 1 or (size is not None and vector.size != size):
        expected = "one value per case" if size is None else f"one value for each of {size} cases"
        raise ValueError(f"{name} must hold {expected}, found shape {vector.shape}.")
    return vector


def collect_cases(columns: Columns, quantity: Quantity) -> _GoldCases:
    """Return the cases with a usable prediction; raise ValueError if a value is out of bounds."""
    gold, predicted, on_gold, clusters, probability, heavy = columns
    y = _case_vector("gold", gold)
    n = y.size
    f = _case_vector("predicted", predicted, n)
    g = f if on_gold is None else _case_vector("predicted_on_gold", on_gold, n)
    for name, values in (("gold", y), ("predicted", f), ("predicted_on_gold", g)):
        seen = values[np.isfinite(values)]
        if seen.size and (seen.min() < quantity.low - 1e-9 or seen.max() > quantity.high + 1e-9):
            extent = f"{seen.min():g} to {seen.max():g}"
            allowed = f"between {quantity.low:g} and {quantity.high:g}"
            raise ValueError(f"{name} must lie {allowed}, found {extent}.")
    codes = cluster_codes(clusters, n)[0]
    labelled = np.isfinite(y)
    usable = np.isfinite(f) & (np.isfinite(g) | ~labelled)
    lost, lost_gold = int((~usable).sum()), int((labelled & ~usable).sum())
    note = f"{plural(lost, 'case')} without a prediction left out, {lost_gold} of them with gold"
    size = np.ones(n) if heavy is None else _case_vector("weights", heavy, n)
    if not np.all(np.isfinite(size) & (size > 0.0)):
        raise ValueError("weights must be above 0 for every case.")
    sizes = (size / size.max())[usable]
    weights, weighted = sizes, bool(np.ptp(sizes) > 1e-9) if sizes.size else False
    if probability is not None:
        chance = _case_vector("inclusion_probability", probability, n)
        chances = chance[labelled & usable]
        if not np.all((chances > 0.0) & (chances <= 1.0)):
            raise ValueError("inclusion_probability must lie in (0, 1] for every case with gold.")
        # If every case has gold, the inclusion probabilities are those of repeats. They then do not
        # change the weights of cases.
        alike = bool(labelled[usable].all())
        weights = sizes if alike else sizes / np.where(labelled, chance, 1.0)[usable]
        weighted = weighted or (not alike and chances.size > 0 and bool(np.ptp(chances) > 1e-9))
    codes = np.unique(codes[usable], return_inverse=True)[1]
    flags = weighted, probability is not None
    arrays = y[usable], f[usable], g[usable], sizes, weights
    return _GoldCases(*arrays, *flags, codes, clusters is not None, note if lost else "")


def _clipped_ratio(covariance: float, variance: float) -> float:
    return min(max(covariance / variance, 0.0), 1.0) if variance > 1e-15 else 0.0


def _weighted_covariance(a: Floats, b: Floats, w: Floats | None = None) -> float:
    weights = np.ones(a.size) if w is None else w
    share = weights / weights.sum()
    return float(share @ ((a - share @ a) * (b - share @ b)))


def tuned_weight(data: _GoldCases) -> float:
    """Return the weight of the grader, from 0 to 1, that minimises the variance."""
    has = data.labelled
    y, g, f = data.gold[has], data.on_gold[has], data.predicted[has]
    if has.all():
        # The repeats with gold are drawn at random, so the means of the grader over them and over
        # all repeats have the same expectation.
        return _clipped_ratio(float((y - f) @ (g - f)), float((g - f) @ (g - f)))
    if data.weighted:
        w = data.weights[has]
        return _clipped_ratio(_weighted_covariance(y, g, w), _weighted_covariance(g, g, w))
    ratio = float(has.sum()) / float((~has).sum())
    rest = ratio * _weighted_covariance(f, f)
    return _clipped_ratio(_weighted_covariance(y, g), _weighted_covariance(g, g) + rest)


def _fit_every_case(data: _GoldCases, lam: float) -> _RawEstimate:
    values = lam * data.predicted + data.gold - lam * data.on_gold
    # one cluster does not show how clusters vary, so its cases are taken as clusters
    clusters = data.clusters if data.gold_clusters > 1 else np.arange(values.size)
    mean = cr2_mean(values, clusters)
    df = mean.df if math.isfinite(mean.df) else mean.n_clusters - 1.0
    return _RawEstimate(mean.estimate, mean.se**2, df, values, mean.estimate, 0.0)


def _fit_subset(data: _GoldCases, lam: float) -> _RawEstimate:
    has = data.labelled
    error = data.gold[has] - lam * data.on_gold[has]
    rest = lam * data.predicted[~has]
    estimate, df = float(rest.mean() + error.mean()), data.gold_clusters - 1.0
    # A regression with two coefficients, theta and beta. The rows without gold have the mean theta
    # - beta, and the rows with gold have the mean beta. Theta is thus the sum of the two means, and
    # its CR2 variance includes their covariance within clusters.
    design = np.repeat([[1.0, -1.0], [0.0, 1.0]], [rest.size, error.size], axis=0)
    clusters = np.concatenate([data.clusters[~has], data.clusters[has]])
    # gold in one cluster does not show how clusters vary, so cases are taken as clusters
    order = clusters if df > 0 else np.arange(clusters.size)
    theta = cr2(np.concatenate([rest, error]), design, order)[0]
    if data.clustered:
        df = min(float(np.nan_to_num(theta.df, nan=1.0)), df)
    return _RawEstimate(estimate, theta.se**2, df, error, float(error.mean()), lam)


def _fit_weighted(data: _GoldCases, lam: float) -> _RawEstimate:
    has = data.labelled
    w = np.where(has, data.weights, 0.0) / data.weights[has].sum()
    error = np.where(has, data.gold - lam * data.on_gold, 0.0)
    correction = float(w @ error)
    share = data.sizes / data.sizes.sum()
    mean = float(share @ data.predicted)
    influence = lam * (data.predicted - mean) * share + w * (error - correction)
    totals = np.bincount(data.clusters, weights=influence)
    n = data.effective
    inflate = n / (n - 1.0) if n - 1.0 > 1e-9 else 1.0
    variance = inflate * float(totals @ totals)
    return _RawEstimate(lam * mean + correction, variance, n - 1.0, error[has], correction, lam)


def fit_design(data: _GoldCases, lam: float) -> tuple[str, _RawEstimate]:
    """Return two values: a text for ``method``, and the estimate with the grader weight ``lam``.

    The text states whether every case has gold, and whether the weights of cases are unequal.
    """
    unequal = bool(np.ptp(data.sizes) > 1e-9)
    if data.labelled.all() and not unequal:
        return "gold on every case", _fit_every_case(data, lam)
    if data.weighted:
        if data.labelled.all():
            return "gold on every case, of unequal weight", _fit_weighted(data, lam)
        design = "gold on a subset of unequal "
        design += "weight" if unequal else "inclusion probability"
        return f"{design} (effective n {data.effective:.1f})", _fit_weighted(data, lam)
    return "gold on a subset", _fit_subset(data, lam)
