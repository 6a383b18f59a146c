"""Agreement of any number of raters with intervals that resample whole cases."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm

from skillcomp.stats._coefficients import ONE_CATEGORY, Parts, coefficient, parts_of
from skillcomp.stats.clusters import wilson_effective
from skillcomp.stats.results import NAN, Interval, check_level, undefined
from skillcomp.stats.score import quantile

__all__ = ["FEWEST_EVENTS", "bootstrap_agreement", "score_limits"]

Floats = NDArray[np.float64]

# With fewer events than this, neither a normal approximation nor resampling sees the spread:
# one resample in seven holds no event at all when the sample holds two.
FEWEST_EVENTS = 5
# Above this share of undefined resamples the remaining ones no longer describe the sample.
_MOST_UNDEFINED = 0.05
# Resampling counts held at once, so that 10,000 cases stay below 100 MB.
_BLOCK = 1_000_000


def score_limits(estimate: float, expected: float, low: float, high: float) -> tuple[float, float]:
    """Limits of a coefficient from score limits ``low``, ``high`` of the raw agreement."""
    # Chance agreement is held at its estimate; the coefficient then rises linearly with the raw
    # agreement, and the score limits of that carry over.
    room = 1.0 - expected
    lower = max(-1.0, 1.0 - (1.0 - low) / room)
    upper = min(1.0, 1.0 - (1.0 - high) / room)
    return min(lower, estimate), max(upper, estimate)


def _resampled(sums: Floats, parts: Parts, n_resamples: int, seed: int) -> Floats:
    rng = np.random.default_rng(seed)
    groups = sums.shape[0]
    block = max(1, _BLOCK // groups)
    values = []
    for start in range(0, n_resamples, block):
        rows = min(block, n_resamples - start)
        weights = rng.multinomial(groups, np.full(groups, 1.0 / groups), size=rows)
        values.append(coefficient(*parts.solve(weights.astype(float) @ sums)))
    return np.concatenate(values)


def _linearised_se(parts: Parts, sums: Floats) -> float:
    # Infinitesimal jackknife: the derivative of the coefficient towards every cluster's share.
    groups = sums.shape[0]
    if groups < 2:
        return NAN
    total = sums.sum(axis=0)
    influence = (sums - total / groups) @ parts.slope(total)
    return math.sqrt(groups / (groups - 1) * float(influence @ influence))


def bootstrap_agreement(
    ratings: ArrayLike,
    coefficient_name: str = "gwet_ac1",
    *,
    clusters: ArrayLike | None = None,
    n_categories: int | None = None,
    ci_level: float = 0.95,
    n_resamples: int = 1999,
    seed: int = 0,
) -> Interval:
    """Agreement of raters with an interval that resamples whole cases.

    Parameters
    ----------
    ratings : array_like, shape (units, raters)
        Category codes (0/1 for verdicts), one row per unit (a check of an attempt), one column
        per rater; NaN where a rater gave none.
    coefficient_name : str, default "gwet_ac1"
        ``raw_agreement``, ``cohen_kappa`` (two raters), ``gwet_ac1``, ``fleiss_kappa`` or
        ``krippendorff_alpha``.
    clusters : array_like, optional
        Case of each unit; cases are resampled whole. Each unit alone when omitted.
    n_categories : int, optional
        Categories the raters could choose from; those that occur when omitted.
    ci_level : float, default 0.95
        Confidence level.
    n_resamples, seed : int
        Number of resamples and seed of the generator; both are named in ``method``.

    Returns
    -------
    Interval
        ``n`` counts units with two ratings, ``n_clusters`` their cases; ``se`` is linearised over
        cases (Gwet's for raters with gaps). NaN with a note where the coefficient is not defined;
        limits NaN with a note where all units are of one case.

    Raises
    ------
    ValueError
        Unknown coefficient, fewer than two raters, or ``clusters`` of another length.

    Notes
    -----
    Percentile interval at levels widened for the number of cases (Hesterberg's expanded
    percentile). Resamples in which the coefficient is not defined are left out and counted in
    ``note``. Where resampling can collapse (fewer than 5 cases with a disagreement, more than 5 %
    of undefined resamples) the limits are those of the raw agreement by score interval on the
    effective number of units, with chance agreement held fixed.

    References
    ----------
    Hesterberg 2015, doi:10.1080/00031305.2015.1089789; Gwet 2008, doi:10.1348/000711006X126600.

    Examples
    --------
    >>> pairs = [[1, 1]] * 40 + [[1, 0]] * 9 + [[0, 1]] * 6 + [[0, 0]] * 45
    >>> round(bootstrap_agreement(pairs, "cohen_kappa").estimate, 4)
    0.6995
    """
    level = check_level(ci_level)
    parts = parts_of(ratings, coefficient_name, n_categories=n_categories)
    group = _cases(clusters, parts.agreeing.size)
    usable = np.isfinite(parts.agreeing)
    units = float(usable.sum())
    if not units:
        return undefined(coefficient_name, "no unit has two ratings", ci_level=level, n=0.0)
    sums = _sums(parts, group)
    groups = sums.shape[0]
    observed, expected = parts.solve(sums.sum(axis=0))
    estimate = float(coefficient(observed, expected))
    if math.isnan(estimate):
        return undefined(coefficient_name, ONE_CATEGORY, ci_level=level, n=units)
    base = Interval(
        estimate,
        NAN,
        NAN,
        level,
        f"{coefficient_name}, bootstrap of {groups} cases, expanded percentile, "
        f"n_resamples={n_resamples}, seed={seed}",
        "",
        units,
        float(groups),
        _linearised_se(parts, sums),
    )
    rule = _collapse_rule(coefficient_name, parts, group)
    if rule:
        return _handed_over(base, rule, coefficient_name, parts, group, float(expected))
    values = _resampled(sums, parts, n_resamples, seed)
    kept = values[np.isfinite(values)]
    lost = values.size - kept.size
    if lost > _MOST_UNDEFINED * values.size or np.ptp(kept) == 0.0:
        rule = f"{lost} of {values.size} resamples are undefined, or all are equal"
        return _handed_over(base, rule, coefficient_name, parts, group, float(expected))
    tail = norm.cdf(-math.sqrt(groups / (groups - 1)) * quantile(level, groups - 1))
    low, high = np.quantile(kept, [tail, 1.0 - tail])
    note = f"{lost} undefined resamples left out" if lost else ""
    return replace(base, low=min(float(low), estimate), high=max(float(high), estimate), note=note)


def _sums(parts: Parts, group: NDArray[np.intp]) -> Floats:
    # A unit with one rating may still tell how common its category is; one without has no case.
    told = parts.features.any(axis=1)
    codes = np.unique(group[told], return_inverse=True)[1]
    sums = np.zeros((int(codes.max()) + 1, parts.features.shape[1]))
    np.add.at(sums, codes, parts.features[told])
    return sums


def _cases(clusters: ArrayLike | None, units: int) -> NDArray[np.intp]:
    if clusters is None:
        return np.arange(units)
    labels = np.asarray(clusters)
    if labels.shape != (units,):
        raise ValueError(
            f"clusters must name the case of each of {units} units, found shape {labels.shape}."
        )
    return np.unique(labels, return_inverse=True)[1]


def _collapse_rule(name: str, parts: Parts, group: NDArray[np.intp]) -> str:
    if np.unique(group[parts.agreeing < 1.0]).size < FEWEST_EVENTS:
        return f"fewer than {FEWEST_EVENTS} cases with a disagreement"
    if name in ("raw_agreement", "gwet_ac1"):
        return ""
    # The other coefficients rest on the rarest category; AC1 and raw agreement do not.
    agreed = [np.unique(group[parts.category == k]).size for k in range(parts.n_categories)]
    if min(agreed) < FEWEST_EVENTS:
        return f"a category agreed on in fewer than {FEWEST_EVENTS} cases"
    return ""


def _handed_over(
    base: Interval,
    rule: str,
    name: str,
    parts: Parts,
    group: NDArray[np.intp],
    expected: float,
) -> Interval:
    usable = np.isfinite(parts.agreeing)
    raw = wilson_effective(parts.agreeing[usable], group[usable], ci_level=base.ci_level)
    if math.isnan(raw.low):
        # One case: max and min would turn unknown limits into the whole range.
        return replace(base, low=NAN, high=NAN, method=name, note=raw.note)
    low, high = score_limits(base.estimate, expected, raw.low, raw.high)
    return replace(
        base,
        low=low,
        high=high,
        method=f"{name}, rescaled limits of the raw agreement: {raw.method}",
        note=f"{rule}, so resampling can collapse: score interval instead, chance agreement "
        "held fixed",
    )
