"""Prediction-powered estimates: the grader's verdicts on every case, put right by gold on some.

Nothing is assumed about the grader's errors; they may differ between conditions. What is assumed
is that chance alone decided which cases (or which repeat of a case) carry gold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import beta, norm
from scipy.stats import t as student_t

from skillcomp.errors import plural
from skillcomp.stats.bounded import DELTAS, RATES
from skillcomp.stats.clusters import cr2, cr2_mean
from skillcomp.stats.results import NAN, Interval, check_level, join_notes, undefined, within_range

Floats = NDArray[np.float64]

_NEAR = 1e-9  # a mean this near to a bound stands at it

# With fewer gold cases on which the grader errs in one direction, the spread of the correction is
# hardly seen. Two imagined cases, one error in each direction, are then added to the variance.
FEWEST_ERRORS = 5
MOST_UNEQUAL = 10.0  # a weight that is more times the median than this gets a note
UNSEEN = "cases of a small chance may have no gold"
SHORT = 3.0  # standard deviations by which weights may fall short of all cases without a note


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
    """Return the variance of one imagined error in each direction among the gold cases.

    An error is as large as the largest seen in its direction where at least five were seen, and
    otherwise a whole case: a grader that fools itself on a whole answer now and then is exactly
    what few gold cases do not show.
    """
    size, squares = data.relative_weights, 0.0
    for side in data.errors:
        enough = float(size[side > 1e-9].sum()) >= FEWEST_ERRORS - 1e-9
        squares += min(float(side.max()), 1.0) ** 2 if enough else 1.0
    n = data.effective
    return 0.5 * squares / ((n + 1.0) * (n + 2.0))


def _about_weights(data: _GoldCases) -> list[str]:
    """Say where a few labels carry the correction, and where labels stand for too few cases."""
    size, notes = data.weights[data.labelled], []
    ratio = float(size.max() / np.median(size))
    if ratio > MOST_UNEQUAL:
        notes.append(
            f"the largest weight of a case with gold is {ratio:.0f} times the median: "
            f"{size.size} cases with gold count for {data.effective:.1f}"
        )
    # of labels drawn one by one the weights add up to all cases, give or take this
    spread = math.sqrt(float((size * (size - 1.0)).sum()))
    if data.told and size.sum() < data.labelled.size - SHORT * spread:
        notes.append(
            f"by their chances the cases with gold stand for {size.sum():.0f} of "
            f"{data.labelled.size}: {UNSEEN}"
        )
    return notes


def ppi_limits(
    estimate: ArrayLike,
    error: ArrayLike,
    variance: ArrayLike,
    lam: ArrayLike,
    n: ArrayLike,
    df: ArrayLike,
    *,
    bounds: tuple[float, float],
    ci_level: float = 0.95,
) -> tuple[Floats, Floats]:
    """Limits of a prediction-powered estimate, in the manner of a bounded mean.

    Parameters
    ----------
    estimate, error, variance : array_like of float
        The estimate; the mean of gold less ``lam`` times the grader over the cases with gold (the
        estimate itself where every case has gold); the variance of the estimate.
    lam, n, df : array_like of float
        Weight of the grader (0 where every case has gold), cases or clusters with gold, and
        degrees of freedom of the variance.
    bounds : tuple of float
        Smallest and largest possible value.
    ci_level : float, default 0.95
        Confidence level.

    Returns
    -------
    low, high : ndarray of float
        Inside ``bounds``, with the estimate between them.

    Notes
    -----
    :func:`skillcomp.stats.bounded.bounded_mean` adds to the cases a pseudo-case of weight c at the
    bound. So it is done here with the cases that carry gold; of that pseudo-case the grader is
    taken to have seen the share ``lam``, so that it counts for ``1 - lam`` of the bound. The limit
    is a quantile of the beta distribution with the mean and variance that this gives, the spread
    of t against the normal distribution included in the variance.
    """
    sides = _beta_shapes((estimate, error, variance, lam, n, df), bounds, ci_level)
    tails = ((1.0 - ci_level) / 2.0, (1.0 + ci_level) / 2.0)
    smallest, largest = bounds
    inside = np.clip(np.asarray(estimate, dtype=np.float64), smallest, largest)
    low, high = (
        smallest + (largest - smallest) * beta.ppf(tail, *shape)
        for tail, shape in zip(tails, sides, strict=True)
    )
    return np.minimum(low, inside), np.maximum(high, inside)


def _pseudo_weight(bounds: tuple[float, float]) -> float:
    return RATES.c if bounds[0] == 0.0 else DELTAS.c


def _beta_shapes(
    summary: tuple[ArrayLike, ...], bounds: tuple[float, float], ci_level: float
) -> list[tuple[Floats, Floats]]:
    """Return both shapes of the beta distribution behind the lower and the upper limit."""
    where, off, variance, lam, count, df = (np.asarray(v, dtype=np.float64) for v in summary)
    where = np.clip(where, *bounds)  # from further out the limits would meet at the bound
    span, c = bounds[1] - bounds[0], _pseudo_weight(bounds)
    tail = (1.0 - ci_level) / 2.0
    heavy = student_t.isf(tail, df) / norm.isf(tail)
    spread = variance * heavy**2 * count / (count + c)
    share = c / (count + c)
    shapes = []
    for bound, furthest in zip(bounds, (np.minimum, np.maximum), strict=True):
        pseudo = furthest((1.0 - lam) * bound, off) - off
        mean = np.clip((where + share * pseudo - bounds[0]) / span, _NEAR, 1.0 - _NEAR)
        total = (spread + share * (1.0 - share) / (count + c + 1.0) * pseudo**2) / span**2
        size = np.maximum(mean * (1.0 - mean) / np.maximum(total, _NEAR**2) - 1.0, _NEAR)
        shapes.append((mean * size, (1.0 - mean) * size))
    return shapes


def _ppi_interval(
    label: str,
    columns: tuple[Any, ...],
    lam: float | None,
    distribution: str,
    ci_level: float,
    bounds: tuple[float, float],
) -> Interval:
    if lam is not None and not 0.0 <= lam <= 1.0:
        raise ValueError(f"lam must lie between 0 and 1, found {lam!r}.")
    if distribution not in ("t", "normal"):
        raise ValueError(f"distribution must be 't' or 'normal', found {distribution!r}.")
    check_level(ci_level)
    data = _collect_cases(bounds, *columns)
    has, groups, notes = data.labelled, data.gold_clusters, [data.note]
    if not has.any():
        reason = join_notes(*notes, "no case with gold")
        return undefined(label, reason, ci_level=ci_level, n=0.0)
    notes += _about_weights(data)
    weight = _tuned_weight(data) if lam is None else lam
    normal = distribution == "normal"
    design, fit = _fit_design(data, weight, 0 if normal else 1)
    over = f"CR2 over {groups} clusters" if data.clustered else "variance over cases"
    variance = fit.variance if math.isfinite(fit.variance) else 0.0
    rule = _collapse_rule(data, fit)
    estimate, p_value = fit.estimate, NAN
    df = math.inf if normal else max(fit.df, 1.0)
    method = f"{label}, {design}, lambda={weight:.4f}, {over}"
    if normal:
        method += ", normal quantile, population variances"
        notes += [f"{rule}: this interval can collapse"] if rule else []
        reach = norm.isf((1.0 - ci_level) / 2.0) * math.sqrt(variance)
        inside, low, high, cut = within_range(estimate, estimate - reach, estimate + reach, bounds)
    else:
        if rule:
            # with gold on every case an error moves that case, whatever the weight of the grader
            variance += (1.0 if data.labelled.all() else weight**2) * _imagined_variance(data)
            method += ", variance with one imagined error in each direction"
            notes.append(
                f"{rule}, where the plain interval can collapse: two imagined errors added"
            )
        method += f", bounded mean, c = {_pseudo_weight(bounds):g}"
        summary = (estimate, fit.moved, variance, fit.lam, data.effective, df)
        low, high = map(float, ppi_limits(*summary, bounds=bounds, ci_level=ci_level))
        inside, _, _, cut = within_range(estimate, low, high, bounds)
        # only a delta has a zero worth testing
        p_value = _p_of_zero(summary, bounds, ci_level) if bounds[0] < 0.0 else NAN
    counts = float(has.sum()), float(groups) if data.clustered else NAN
    rest = math.sqrt(variance), NAN if normal else df, p_value
    return Interval(inside, low, high, ci_level, method, join_notes(*notes, cut), *counts, *rest)


def _p_of_zero(summary: tuple[float, ...], bounds: tuple[float, float], ci_level: float) -> float:
    """Return the level at which the interval just holds no difference."""
    middle = -bounds[0] / (bounds[1] - bounds[0])
    below, above = _beta_shapes(summary, bounds, ci_level)
    tails = float(beta.cdf(middle, *below)), float(beta.sf(middle, *above))
    return min(1.0, 2.0 * min(tails))


def ppi_mean(
    gold: ArrayLike,
    predicted: ArrayLike,
    *,
    predicted_on_gold: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    inclusion_probability: ArrayLike | None = None,
    lam: float | None = None,
    distribution: Literal["t", "normal"] = "t",
    ci_level: float = 0.95,
) -> Interval:
    """Pass rate by gold, where every case has verdicts and only some have gold.

    ``lam`` times the mean of the grader's pass rates of the cases without gold, plus the mean of
    gold minus ``lam`` times the grader over the cases with gold. For a difference between
    conditions use :func:`ppi_paired`.

    Parameters
    ----------
    gold : array_like of float, shape (cases,)
        Pass rate of each case by gold, in [0, 1]; NaN where the case carries no gold.
    predicted : array_like of float, shape (cases,)
        Pass rate of each case by the grader over all its repeats. Cases with NaN are left out and
        counted in ``note``.
    predicted_on_gold : array_like of float, shape (cases,), optional
        The grader's pass rate on just the repeats that carry gold; ``predicted`` when omitted.
    clusters : array_like, shape (cases,), optional
        Cluster of each case (its skill). Each case alone when omitted.
    inclusion_probability : array_like of float, shape (cases,), optional
        Chance with which each case was drawn for gold, where it was not the same for all.
    lam : float, optional
        Weight of the grader in [0, 1]. Chosen to minimise the variance when omitted.
    distribution : {"t", "normal"}, default "t"
        ``normal`` takes the normal quantile and population variances, as in the paper.
    ci_level : float, default 0.95
        Confidence level.

    Returns
    -------
    Interval
        Inside [0, 1]; ``n`` counts the cases with gold, ``df`` is at most one less than these (than
        their clusters). NaN with a note where no case carries gold.

    Raises
    ------
    ValueError
        Lengths differ, values outside [0, 1], or an unknown setting.

    See Also
    --------
    ppi_paired : the same for a paired difference.

    Notes
    -----
    With gold on some repeats of every case the value of a case is ``lam`` times its mean over all
    repeats plus gold minus ``lam`` times the grader on the gold repeats; the variance is that over
    cases. With clusters both means are one CR2 regression. With fewer than 5 gold cases on which
    the grader errs in one direction the plain variance can collapse; one imagined error in each
    direction (on a subset times ``lam`` squared) is then added and named in ``method`` and
    ``note``: of a whole case, or where five were seen in a direction as large as the largest of
    these. That is wide where a grader errs on single checks only, and needed where it is fooled by
    whole answers.

    Gold drawn with unequal chances weighs by their inverse, and its cases (or clusters) count by
    Kish's effective number for the variance, ``df``, the imagined errors and the pseudo-case. With
    chances up to ten times apart, 30 to 110 cases with gold, rates and deltas were covered in 96 %
    or more of 1,000 studies of each of three designs. What no label was drawn from nobody can
    correct: with chances fifty times apart rates were covered in 75 to 96 %. ``note`` says where
    one weight is more than ten times the median, and where the labels stand for clearly fewer
    cases than there are.

    The limits are those of ``ppi_limits``: the pseudo-case of a bounded mean among the cases
    with gold, a quantile of the beta distribution with the mean and variance that result, the
    spread of t included. Of 36 designs that the slow tests ran last with c = .7 (14 to 100 gold
    cases, nearly deterministic agents, rare flips, rates near 0 and 1) all but one covered what
    their test asks, 93 to 94 %; a rate near .9 with rare flips and gold on 30 of 100 cases was
    covered in 93.8 % of 1,000 studies, with c = .75 in 98.9 %. t and Wilson's interval fell to
    86 %. Tuning ``lam`` on few gold cases near the ceiling biases by up to 0.01; a ``lam`` fixed
    beforehand does not. The estimate is checked against ppi-python 0.2.3.

    References
    ----------
    Angelopoulos, Duchi and Zrnic 2023, arXiv:2311.01453; Chen et al. 2026, arXiv:2601.05420.

    Examples
    --------
    >>> nan = float("nan")
    >>> gold, grader = [1, 0, 1, 1, nan, nan, nan, nan], [1, 0, 1, 1, 1, 0, 1, 1]
    >>> ppi_mean(gold, grader).estimate  # the grader equals gold: the mean of all
    0.75
    """
    columns = (gold, predicted, predicted_on_gold, clusters, inclusion_probability)
    return _ppi_interval("PPI++ mean", columns, lam, distribution, ci_level, (0.0, 1.0))


def ppi_paired(
    gold: ArrayLike,
    predicted: ArrayLike,
    *,
    predicted_on_gold: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    inclusion_probability: ArrayLike | None = None,
    lam: float | None = None,
    distribution: Literal["t", "normal"] = "t",
    ci_level: float = 0.95,
) -> Interval:
    """Delta by gold, where every case has verdicts and only some attempts have gold.

    Works on the difference of each case (skill minus baseline), so that the difficulty of the
    cases cancels and the grader may be lenient under one condition.

    Parameters
    ----------
    gold : array_like of float, shape (cases,)
        Difference of each case by gold, in [-1, 1]; NaN where the case carries no gold. Gold must
        cover both conditions of a case.
    predicted : array_like of float, shape (cases,)
        Difference of each case by the grader, means over all repeats under each condition.
    predicted_on_gold : array_like of float, shape (cases,), optional
        The grader's difference on just the attempts that carry gold; ``predicted`` when omitted.
        Needed for gold on one repeat of every case.
    clusters : array_like, shape (cases,), optional
        Cluster of each case (its skill). Each case alone when omitted.
    inclusion_probability : array_like of float, shape (cases,), optional
        Chance with which each case was drawn for gold, where it was not the same for all.
    lam : float, optional
        Weight of the grader in [0, 1]. Chosen to minimise the variance when omitted.
    distribution : {"t", "normal"}, default "t"
        As for :func:`ppi_mean`.
    ci_level : float, default 0.95
        Confidence level.

    Returns
    -------
    Interval
        Inside [-1, 1], with the p-value of no difference; otherwise as for :func:`ppi_mean`.

    Raises
    ------
    ValueError
        Lengths differ, values outside [-1, 1], or an unknown setting.

    See Also
    --------
    ppi_mean : one pass rate, with the formulas.

    References
    ----------
    Angelopoulos, Duchi and Zrnic 2023, arXiv:2311.01453; Fiedler 2026, arXiv:2605.06939.

    Examples
    --------
    Gold on one repeat of every case: a case's value is the grader's mean difference, moved by what
    gold says about the repeat it saw.

    >>> gold, grader, seen = [1, 0, 1, 0], [0.5, 0.5, 1.0, 0.0], [1, 1, 1, 0]
    >>> ppi_paired(gold, grader, predicted_on_gold=seen, lam=1.0).estimate
    0.25
    """
    columns = (gold, predicted, predicted_on_gold, clusters, inclusion_probability)
    return _ppi_interval(
        "PPI++ paired difference", columns, lam, distribution, ci_level, (-1.0, 1.0)
    )


@dataclass(frozen=True)
class _GoldCases:
    """Cases with a usable prediction, in the order given.

    ``told`` is whether chances of being drawn were given, ``weighted`` whether they differ.
    """

    gold: Floats
    predicted: Floats
    on_gold: Floats
    weights: Floats
    weighted: bool
    told: bool
    clusters: NDArray[np.intp]
    clustered: bool
    note: str

    @property
    def labelled(self) -> NDArray[np.bool_]:
        """Whether each case carries gold."""
        return np.isfinite(self.gold)

    @property
    def errors(self) -> tuple[Floats, Floats]:
        """By how much gold lies above, and below, the grader in each case with gold."""
        above = self.gold[self.labelled] - self.on_gold[self.labelled]
        return above, -above

    @property
    def gold_clusters(self) -> int:
        """Clusters in which gold lies."""
        return int(np.unique(self.clusters[self.labelled]).size)

    @property
    def relative_weights(self) -> Floats:
        """Weight of each case with gold, the largest 1."""
        size = self.weights[self.labelled]
        return np.asarray(size / size.max(), dtype=np.float64)

    @property
    def effective(self) -> float:
        """Clusters in which gold lies, those of unequal weight counted by Kish's formula."""
        if not self.weighted:
            return float(self.gold_clusters)
        sums = np.bincount(self.clusters[self.labelled], weights=self.relative_weights)
        return float(sums.sum() ** 2 / (sums**2).sum())


@dataclass(frozen=True)
class _RawEstimate:
    """Estimate before any rule is applied.

    ``error`` is what gold adds to each of its cases, ``moved`` their (weighted) mean, and ``lam``
    the weight of the grader in them; where every case has gold, the values of the cases, the
    estimate and 0.
    """

    estimate: float
    variance: float
    df: float
    error: Floats
    moved: float
    lam: float


def _case_vector(name: str, values: ArrayLike, size: int | None = None) -> Floats:
    vector = np.asarray(values, dtype=float)
    if vector.ndim != 1 or (size is not None and vector.size != size):
        expected = "one value per case" if size is None else f"one value for each of {size} cases"
        raise ValueError(f"{name} must hold {expected}, found shape {vector.shape}.")
    return vector


def _collect_cases(
    bounds: tuple[float, float],
    gold: ArrayLike,
    predicted: ArrayLike,
    predicted_on_gold: ArrayLike | None,
    clusters: ArrayLike | None,
    inclusion_probability: ArrayLike | None,
) -> _GoldCases:
    """Return the cases with a usable prediction; raise ValueError for what lies out of bounds."""
    y = _case_vector("gold", gold)
    f = _case_vector("predicted", predicted, y.size)
    g = (
        f
        if predicted_on_gold is None
        else _case_vector("predicted_on_gold", predicted_on_gold, y.size)
    )
    for name, values in (("gold", y), ("predicted", f), ("predicted_on_gold", g)):
        seen = values[np.isfinite(values)]
        if seen.size and (seen.min() < bounds[0] - 1e-9 or seen.max() > bounds[1] + 1e-9):
            raise ValueError(
                f"{name} must lie between {bounds[0]:g} and {bounds[1]:g}, found "
                f"{seen.min():g} to {seen.max():g}."
            )
    labels = np.arange(y.size) if clusters is None else np.asarray(clusters)
    if labels.shape != y.shape:
        raise ValueError(f"clusters must name one cluster for each of {y.size} cases.")
    labelled = np.isfinite(y)
    usable = np.isfinite(f) & (np.isfinite(g) | ~labelled)
    lost, lost_gold = int((~usable).sum()), int((labelled & ~usable).sum())
    note = f"{plural(lost, 'case')} without a prediction left out, {lost_gold} of them with gold"
    weights, weighted = np.ones(int(usable.sum())), False
    if inclusion_probability is not None:
        chance = _case_vector("inclusion_probability", inclusion_probability, y.size)
        chances = chance[labelled & usable]
        if not np.all((chances > 0.0) & (chances <= 1.0)):
            raise ValueError("inclusion_probability must lie in (0, 1] for every case with gold.")
        weights = 1.0 / np.where(labelled, chance, 1.0)[usable]
        weighted = chances.size > 0 and bool(np.ptp(chances) > 1e-9)
    codes = np.unique(labels[usable], return_inverse=True)[1]
    has_chances, clustered = inclusion_probability is not None, clusters is not None
    columns = y[usable], f[usable], g[usable]
    return _GoldCases(
        *columns, weights, weighted, has_chances, codes, clustered, note if lost else ""
    )


def _clipped_ratio(covariance: float, variance: float) -> float:
    return min(max(covariance / variance, 0.0), 1.0) if variance > 1e-15 else 0.0


def _weighted_covariance(a: Floats, b: Floats, w: Floats | None = None) -> float:
    weights = np.ones(a.size) if w is None else w
    share = weights / weights.sum()
    return float(share @ ((a - share @ a) * (b - share @ b)))


def _tuned_weight(data: _GoldCases) -> float:
    """Return the weight of the grader, 0 to 1, that makes the variance smallest."""
    has = data.labelled
    y, g, f = data.gold[has], data.on_gold[has], data.predicted[has]
    if has.all():
        # The repeat with gold deviates from the case's mean by chance only, with expectation 0.
        return _clipped_ratio(float((y - f) @ (g - f)), float((g - f) @ (g - f)))
    if data.weighted:
        w = data.weights[has]
        return _clipped_ratio(_weighted_covariance(y, g, w), _weighted_covariance(g, g, w))
    ratio = float(has.sum()) / float((~has).sum())
    return _clipped_ratio(
        _weighted_covariance(y, g), _weighted_covariance(g, g) + ratio * _weighted_covariance(f, f)
    )


def _fit_every_case(data: _GoldCases, lam: float, ddof: int) -> _RawEstimate:
    values = lam * data.predicted + data.gold - lam * data.on_gold
    estimate = float(values.mean())
    if data.clustered and np.unique(data.clusters).size > 1:
        mean = cr2_mean(values, data.clusters)
        df = mean.df if math.isfinite(mean.df) else data.gold_clusters - 1.0
        return _RawEstimate(estimate, mean.se**2, df, values, estimate, 0.0)
    return _RawEstimate(
        estimate, _variance_of_mean(values, ddof), values.size - 1.0, values, estimate, 0.0
    )


def _variance_of_mean(values: Floats, ddof: int) -> float:
    """Return the variance of a mean, 0 where one value tells none."""
    return float(values.var(ddof=ddof)) / values.size if values.size > ddof else 0.0


def _fit_subset(data: _GoldCases, lam: float, ddof: int) -> _RawEstimate:
    has = data.labelled
    error = data.gold[has] - lam * data.on_gold[has]
    rest = lam * data.predicted[~has]
    estimate = float(rest.mean() + error.mean())
    groups = data.gold_clusters
    if data.clustered and groups > 1:
        # Response = theta - beta in the unlabelled rows and beta in the labelled ones: the first
        # coefficient is the sum of the two means, so CR2 covers what they share in a cluster.
        design = np.repeat([[1.0, -1.0], [0.0, 1.0]], [rest.size, error.size], axis=0)
        order = np.concatenate([data.clusters[~has], data.clusters[has]])
        fit = cr2(np.concatenate([rest, error]), design, order)
        df = min(float(np.nan_to_num(fit.df[0], nan=1.0)), groups - 1.0)
        return _RawEstimate(
            estimate, float(fit.covariance[0, 0]), df, error, float(error.mean()), lam
        )
    variance = _variance_of_mean(error, ddof) + _variance_of_mean(rest, ddof)
    return _RawEstimate(estimate, variance, groups - 1.0, error, float(error.mean()), lam)


def _fit_weighted(data: _GoldCases, lam: float) -> _RawEstimate:
    has = data.labelled
    w = np.where(has, data.weights, 0.0) / data.weights[has].sum()
    error = np.where(has, data.gold - lam * data.on_gold, 0.0)
    correction = float(w @ error)
    mean = float(data.predicted.mean())
    influence = lam * (data.predicted - mean) / has.size + w * (error - correction)
    totals = np.bincount(data.clusters, weights=influence)
    n = data.effective
    inflate = n / (n - 1.0) if n - 1.0 > 1e-9 else 1.0
    variance = inflate * float(totals @ totals)
    return _RawEstimate(lam * mean + correction, variance, n - 1.0, error[has], correction, lam)


def _fit_design(data: _GoldCases, lam: float, ddof: int) -> tuple[str, _RawEstimate]:
    """Return how gold was given, in words, and the estimate with this weight of the grader."""
    if data.labelled.all():
        return "gold on every case", _fit_every_case(data, lam, ddof)
    if data.weighted:
        design = "gold on a subset of unequal inclusion probability"
        return f"{design} (effective n {data.effective:.1f})", _fit_weighted(data, lam)
    return "gold on a subset", _fit_subset(data, lam, ddof)
