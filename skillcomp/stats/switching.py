"""The interval of a paired difference of pass rates, by a rule that says which method it chose."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import t as student_t

from skillcomp.stats.moments import ZERO_VARIANCE, Clusters, attempt_ceiling, join_notes
from skillcomp.stats.pairs import dropped_note, effective_sides, paired_counts, without_limits
from skillcomp.stats.results import Interval, check_level
from skillcomp.stats.score import quantile

__all__ = ["PairedDeltas", "paired_delta", "paired_delta_many"]

Floats = NDArray[np.float64]

# Thresholds of the rule, read off the grid of the coverage study and not optimised.
MIN_CASES = 30
MIN_CASES_FOR_NORMAL = 10
MIN_CLUSTERS = 10
MIN_CLUSTERS_FOR_CLAIM = 5
EXTREME_RATE = 0.9

_NEWCOMBE, _EFFECTIVE, _CR2 = "Newcombe 10", "Newcombe 10 on effective n", "CR2"


@dataclass(frozen=True, slots=True)
class PairedDeltas:
    """Paired differences of many studies over the same cases.

    Attributes
    ----------
    estimate, low, high, p_value : ndarray of float64, shape (S,)
        As in :class:`Interval`, one entry per study; ``p_value`` is NaN where not asked for.
    method : ndarray of str, shape (S,)
        The method the rule chose for each study.
    df : float
        Degrees of freedom of the t quantile; infinite for the normal one.
    ci_level : float
        Confidence level of the limits.
    note : str
        What holds for every study: for instance that the claim is about these cases only.
    """

    estimate: Floats
    low: Floats
    high: Floats
    p_value: Floats
    method: NDArray[np.str_]
    df: float
    ci_level: float
    note: str


def _target(clusters: Clusters, dependent: bool) -> tuple[Clusters, str]:
    """Return the level at which the claim is made, and what must be said about it."""
    if dependent or clusters.count >= MIN_CLUSTERS_FOR_CLAIM or clusters.single:
        return clusters, ""
    note = (
        f"{clusters.count} clusters are too few for a claim beyond them "
        f"({MIN_CLUSTERS_FOR_CLAIM} needed): the interval is for these cases only"
    )
    return Clusters.of(None, clusters.n), note


def _switch_reasons(
    rate1: Floats, rate0: Floats, variance: Floats, clusters: Clusters
) -> list[tuple[str, Any]]:
    """Return why the score interval on effective n is used: text and mask over studies."""
    most, least = np.maximum(rate1, rate0), np.minimum(rate1, rate0)
    every = np.ones(most.shape, dtype=bool)
    return [
        (f"fewer than {MIN_CASES} cases", every & (clusters.n < MIN_CASES)),
        (
            f"a pass rate above {EXTREME_RATE:g} or below {1 - EXTREME_RATE:g}",
            (most > EXTREME_RATE) | (least < 1 - EXTREME_RATE),
        ),
        (f"fewer than {MIN_CLUSTERS} clusters", every & (clusters.count < MIN_CLUSTERS)),
        ("no variation of the difference between clusters", variance <= ZERO_VARIANCE),
    ]


@dataclass(frozen=True)
class _Arms:
    """Passes and attempts of both arms: studies by cases."""

    x1: Floats
    n1: Floats
    x0: Floats
    n0: Floats

    def rows(self, mask: Any) -> _Arms:
        if mask.all():
            return self
        keep = (v[mask] if v.ndim == 2 else v for v in (self.x1, self.n1, self.x0, self.n0))
        return _Arms(*keep)

    @property
    def one_attempt(self) -> bool:
        return bool((self.n1 <= 1).all() and (self.n0 <= 1).all())

    def ceilings(self) -> tuple[Floats, Floats]:
        pairs = ((self.x1, self.n1), (self.x0, self.n0))
        first, second = (
            attempt_ceiling(x, n if n.ndim == 2 else np.broadcast_to(n, x.shape[-1:]))
            for x, n in pairs
        )
        return first, second


def _fill_by_score(
    many: PairedDeltas, arms: _Arms, by_score: Any, level: Clusters, with_p: bool
) -> None:
    chosen = arms.rows(by_score)
    rates1, rates0 = chosen.x1 / chosen.n1, chosen.x0 / chosen.n0
    sides = effective_sides(rates1, rates0, level, *chosen.ceilings())
    many.low[by_score], many.high[by_score] = sides.interval(quantile(many.ci_level, many.df))
    if with_p:
        many.p_value[by_score] = sides.p_value(many.df)


def _fill_by_t(many: PairedDeltas, se: Floats, by_t: Any, with_p: bool) -> None:
    delta, reach = many.estimate[by_t], quantile(many.ci_level, many.df) * se[by_t]
    many.low[by_t] = np.maximum(delta - reach, -1.0)
    many.high[by_t] = np.minimum(delta + reach, 1.0)
    if with_p:
        many.p_value[by_t] = 2.0 * student_t.sf(np.abs(delta) / se[by_t], many.df)


def _decide(
    arms: _Arms, clusters: Clusters, with_p: bool, ci_level: float, *, dependent: bool = False
) -> tuple[PairedDeltas, Floats, list[str], Clusters]:
    level, note = _target(clusters, dependent)
    rates1, rates0 = arms.x1 / arms.n1, arms.x0 / arms.n0
    rate1, rate0 = rates1.mean(axis=-1), rates0.mean(axis=-1)
    delta = rate1 - rate0
    variance = np.full(delta.shape, np.nan)
    if level.n > 1:
        residuals = np.subtract(rates1, rates0, out=rates1)
        residuals -= delta[:, None]
        totals = level.totals(residuals)
        variance = level.covariance(totals, totals)
    reasons: list[str] = []
    if level.single and level.n >= MIN_CASES_FOR_NORMAL and arms.one_attempt:
        df, by_score = math.inf, np.ones(delta.shape, dtype=bool)
        method = np.full(delta.shape, _NEWCOMBE)
    else:
        df = level.df
        masks = _switch_reasons(rate1, rate0, variance, level)
        by_score = np.logical_or.reduce([mask for _, mask in masks])
        method = np.where(by_score, _EFFECTIVE, _CR2)
        reasons = [text for text, mask in masks if mask.any()]
    low, high, p_value = (np.full(delta.shape, np.nan) for _ in range(3))
    many = PairedDeltas(delta, low, high, p_value, method, df, ci_level, note)
    se = np.sqrt(variance)
    if by_score.any():
        _fill_by_score(many, arms, by_score, level, with_p)
    if not by_score.all():
        _fill_by_t(many, se, ~by_score, with_p)
    return many, se, reasons, level


def paired_delta_many(
    x1: ArrayLike,
    n1: ArrayLike,
    x0: ArrayLike,
    n0: ArrayLike,
    clusters: Any = None,
    *,
    p_values: bool = True,
    ci_level: float = 0.95,
) -> PairedDeltas:
    """Paired differences of many studies over the same cases, each by the rule of one study.

    For simulation: the same numbers as :func:`paired_delta` row by row, without the loop.

    Parameters
    ----------
    x1, x0 : array_like, shape (S, n)
        Passes of each study and case with the skill and in the baseline; none may be missing.
    n1, n0 : array_like
        Attempts, at least one: a number, one per case, or of the shape of ``x1``.
    clusters : array_like, shape (n,), optional
        Cluster of each case, the same in every study; every case is its own when left out.
    p_values : bool, default True
        Whether to invert the intervals, which takes most of the time.
    ci_level : float, default 0.95
        Confidence level.

    Returns
    -------
    PairedDeltas
        One entry per study.

    Raises
    ------
    ValueError
        When shapes differ, a case has no attempt or more passes than attempts, or all cases are
        in one cluster.

    Examples
    --------
    >>> found = paired_delta_many([[1, 1, 1, 0], [1, 0, 0, 1]], 1, [[0, 1, 0, 0]] * 2, 1)
    >>> found.estimate
    array([0.5 , 0.25])
    """
    check_level(ci_level)
    passes1, passes0 = np.asarray(x1, float), np.asarray(x0, float)
    if passes1.ndim != 2 or passes1.shape != passes0.shape:
        raise ValueError(
            "x1 and x0 must have one row per study and one column per case, found shapes "
            f"{passes1.shape} and {passes0.shape}."
        )
    tries1, tries0 = np.asarray(n1, float), np.asarray(n0, float)
    for name, x, n in (("x1", passes1, tries1), ("x0", passes0, tries0)):
        if not ((n > 0).all() and x.min() >= 0 and (x <= n * (1 + 1e-12)).all()):
            raise ValueError(f"{name} must lie between 0 and the attempts of its case (above 0).")
    groups = Clusters.of(clusters, passes1.shape[1])
    if groups.n == 0 or groups.count == 1 < groups.n:
        raise ValueError(f"at least two clusters are needed, found {groups.count}.")
    return _decide(_Arms(passes1, tries1, passes0, tries0), groups, p_values, ci_level)[0]


def paired_delta(
    x1: ArrayLike,
    n1: ArrayLike,
    x0: ArrayLike,
    n0: ArrayLike,
    clusters: Any = None,
    *,
    dependent: bool = False,
    ci_level: float = 0.95,
) -> Interval:
    """Difference of two paired pass rates, by the method that holds its level for this study.

    The default of the project. The unit is the case: repeats are averaged inside it, numbers of
    repeats may differ, and a case without an attempt in one arm is left out.

    Parameters
    ----------
    x1, n1, x0, n0 : array_like, shape (n,)
        Passes and attempts of each case with the skill and in the baseline. Attempts may be one
        number for all cases. Missing passes (NaN) or no attempts leave the case out; ``note``
        counts such cases.
    clusters : array_like, shape (n,), optional
        What the claim is about: skills for "skills like these"; every case is its own cluster
        when left out, for "these skills only".
    dependent : bool, default False
        True when clusters hold cases that depend on each other whatever the claim, such as two
        cases that share a prompt: they stay together however few there are (rule 4 is left out).
    ci_level : float, default 0.95
        Confidence level. The choice of method does not depend on it.

    Returns
    -------
    Interval
        ``estimate`` is the mean over cases of the difference of their pass rates; limits inside
        [-1, 1], never of zero width; ``p_value`` inverts the same interval at every level.
        ``method`` names the method, ``note`` the rule that fired and why. ``n`` counts complete
        cases; ``n_clusters`` the clusters used.

    Raises
    ------
    ValueError
        When the arrays do not fit together or a cluster label is missing.

    See Also
    --------
    paired_delta_many : the same for thousands of simulated studies at once.
    skillcomp.stats.clusters.cr2_mean : differences of anything but pass rates.

    Notes
    -----
    Order of precedence, the first that applies:

    1. No case with attempts in both arms: NaN.
    2. A single case: as 6, with one unit in each arm whatever its repeats, and one df.
    3. A single cluster of several cases: the estimate without limits.
    4. Two to four clusters, unless ``dependent``: each case becomes its own cluster, and ``note``
       refuses the claim beyond these cases; the rules below then apply.
    5. At least 10 cases, each its own cluster, one attempt in each arm: Newcombe 10. With fewer
       the normal quantile is too short (exact coverage down to 82 % at one case, 87 % at two,
       91 % at three and 93.4 % at six, where a t quantile keeps 97 %).
    6. Fewer than 30 cases, or a pass rate above .9 or below .1, or fewer than 10 clusters, or no
       variation of the difference between clusters: Newcombe 10 on effective n with a t quantile
       (:func:`skillcomp.stats.clusters.newcombe_effective`).
    7. Otherwise CR2 with Satterthwaite t on the case differences.

    References
    ----------
    Newcombe 1998, Statistics in Medicine 17:2635; Pustejovsky and Tipton 2018,
    doi:10.1080/07350015.2016.1247004.

    Examples
    --------
    >>> ci = paired_delta([3, 2, 2, 3], 3, [1, 2, 2, 0], 3)
    >>> round(ci.estimate, 3), ci.note
    (0.417, 'score interval on effective n: fewer than 30 cases, fewer than 10 clusters')
    """
    check_level(ci_level)
    counts = paired_counts(x1, n1, x0, n0, clusters)
    refused = without_limits(counts, ci_level, "paired difference by the switching rule")
    if refused is not None:
        return refused
    arms = _Arms(*(v[None, :] for v in (counts.x1, counts.n1, counts.x0, counts.n0)))
    many, se, reasons, level = _decide(arms, counts.clusters, True, ci_level, dependent=dependent)
    chosen = str(many.method[0])
    notes = (many.note, _rule_note(chosen, reasons, level))
    plain = chosen == _NEWCOMBE
    return Interval(
        float(many.estimate[0]),
        float(many.low[0]),
        float(many.high[0]),
        ci_level,
        chosen if plain else f"{chosen}, t with {many.df:.1f} df",
        dropped_note(join_notes(*notes), counts.dropped),
        n=float(level.n),
        n_clusters=float(level.count),
        se=float(se[0]),
        df=math.nan if plain else many.df,
        p_value=float(many.p_value[0]),
    )


def _rule_note(chosen: str, reasons: list[str], level: Clusters) -> str:
    if level.n == 1:
        return "score interval: a single case counts as one unit in each arm, with 1 df"
    if chosen == _NEWCOMBE:
        return "one attempt a case, independent cases: Newcombe 10"
    if chosen == _EFFECTIVE:
        return "score interval on effective n: " + ", ".join(reasons)
    return f"CR2 t interval over {level.count} clusters"
