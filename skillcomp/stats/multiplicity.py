"""Several claims at once: adjusted p-values and intervals that hold together.

Holm for claims named in advance, Benjamini-Hochberg for screening, and the largest |t| under
flipped signs of whole clusters where the claims come from the same cases (the nine dimensions of
one study), because it uses their dependence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import t as student_t
from statsmodels.stats.multitest import multipletests

from skillcomp.errors import suggest
from skillcomp.stats.clusters import cr2_mean
from skillcomp.stats.results import NAN, Interval, check_level

__all__ = ["MaxT", "adjust", "bh", "holm", "max_t", "simultaneous_level"]

Floats = NDArray[np.float64]

METHODS = {
    "holm": "holm",
    "bh": "fdr_bh",
    "by": "fdr_by",
    "bonferroni": "bonferroni",
    "hochberg": "simes-hochberg",
    "hommel": "hommel",
}
ENUMERATED = 20  # clusters up to which every pattern of signs is visited
FEW_CLUSTERS = 6  # below, no pattern of signs is rarer than 1 in 20
ROWS_AT_ONCE = 65_536
ROUNDING = 1e-9  # statistics closer than this are ties


def adjust(p_values: ArrayLike, *, method: str = "holm", family: int | None = None) -> Floats:
    """Adjust p-values for having asked several questions.

    Parameters
    ----------
    p_values : array_like of float
        NaN (a comparison without discordant pairs) stays NaN and counts in the family.
    method : {"holm", "bh", "by", "bonferroni", "hochberg", "hommel"}
        ``holm`` holds for any dependence and controls the chance of one false claim; ``bh``
        controls the share of false claims and holds for independent or positively dependent tests,
        as those of dimensions of the same cases are.
    family : int, optional
        Number of comparisons declared in advance, when it exceeds the number of p-values given.

    Returns
    -------
    ndarray of float64
        Adjusted p-values in the order given.

    Raises
    ------
    ValueError
        For an unknown method, a p-value outside 0..1 or a family smaller than its p-values.

    References
    ----------
    Holm 1979, Scandinavian Journal of Statistics 6:65-70. Benjamini and Hochberg 1995,
    doi:10.1111/j.2517-6161.1995.tb02031.x.

    Examples
    --------
    >>> adjust([0.01, float("nan"), 0.04]).tolist()
    [0.03, nan, 0.08]
    """
    if method not in METHODS:
        raise ValueError(
            f"method must be one of {', '.join(METHODS)}, found {method!r}."
            f"{suggest(str(method), METHODS)}"
        )
    p = np.asarray(p_values, dtype=np.float64).ravel()
    known = ~np.isnan(p)
    if ((p[known] < 0) | (p[known] > 1)).any():
        at = int(np.flatnonzero(known & ~((p >= 0) & (p <= 1)))[0])
        raise ValueError(f"p_values must lie in 0..1, found {p[at]:g} at position {at}.")
    size = p.size if family is None else family
    if size < p.size:
        raise ValueError(f"family must be at least the {p.size} p-values given, found {family}.")
    if not known.any():
        return np.full(p.size, np.nan)
    # A comparison that could not be tested stands last in the family, as one with p = 1 does.
    whole = np.concatenate([np.where(known, p, 1.0), np.ones(size - p.size)])
    adjusted = np.asarray(multipletests(whole, method=METHODS[method])[1], dtype=np.float64)
    return np.where(known, adjusted[: p.size], np.nan)


def holm(p_values: ArrayLike, *, family: int | None = None) -> Floats:
    """Adjust p-values by Holm's method, for confirmatory claims (see `adjust`).

    Examples
    --------
    >>> holm([0.01, 0.02, 0.2]).round(3).tolist()
    [0.03, 0.04, 0.2]
    """
    return adjust(p_values, method="holm", family=family)


def bh(p_values: ArrayLike, *, family: int | None = None) -> Floats:
    """Adjust p-values by Benjamini and Hochberg's method, for screening (see `adjust`).

    Examples
    --------
    >>> bh([0.01, 0.02, 0.2]).round(3).tolist()
    [0.03, 0.03, 0.2]
    """
    return adjust(p_values, method="bh", family=family)


def simultaneous_level(n_comparisons: int, *, ci_level: float = 0.95) -> float:
    """Level at which single intervals hold together with ``ci_level`` (Bonferroni).

    Parameters
    ----------
    n_comparisons : int
        Intervals in the family.
    ci_level : float, default 0.95
        Wanted joint level.

    Returns
    -------
    float
        Pass it as ``ci_level`` to any interval of `skillcomp.stats`; unlike those of `max_t`, the
        score intervals do not collapse.

    Examples
    --------
    >>> round(simultaneous_level(9), 5)
    0.99444
    """
    check_level(ci_level)
    if n_comparisons < 1:
        raise ValueError(f"n_comparisons must be at least 1, found {n_comparisons!r}.")
    return 1.0 - (1.0 - ci_level) / n_comparisons


@dataclass(frozen=True, slots=True)
class MaxT:
    """Several means of the same cases tested together.

    Attributes
    ----------
    p_values : tuple of float
        Sign-flip p-value of each column alone.
    p_adjusted : tuple of float
        Step-down p-values: the chance that the largest of these statistics is as large. NaN for a
        column whose cluster sums are all 0.
    intervals : tuple of Interval
        Simultaneous intervals, one for each column.
    method, note : str
        Settings; what a reader must know.
    n_clusters : int
        Clusters whose signs are flipped.
    """

    p_values: tuple[float, ...]
    p_adjusted: tuple[float, ...]
    intervals: tuple[Interval, ...]
    method: str
    note: str = ""
    n_clusters: int = 0


def max_t(
    values: ArrayLike,
    clusters: ArrayLike | None = None,
    *,
    n_resamples: int = 9999,
    seed: int = 0,
    ci_level: float = 0.95,
) -> MaxT:
    """Test which of several means of the same cases differ from 0, taken together.

    Under the hypothesis that skill and baseline are exchangeable, every case (or every cluster)
    might as well have had its differences with the other sign, in all columns at once.

    Parameters
    ----------
    values : array_like of float, shape (cases, columns)
        Differences, such as skill minus baseline on each dimension. NaN where a case has no value
        in a column.
    clusters : array_like of shape (cases,), optional
        Skill, case or contrast pair of each row; every row is its own when left out.
    n_resamples, seed : int
        Patterns of signs drawn with more than 20 clusters. Up to 20 all patterns are visited.
    ci_level : float, default 0.95
        Joint level of the intervals.

    Returns
    -------
    MaxT
        Intervals are mean +- c times the CR2 standard error, where c is the quantile of the
        largest |t| of sign-flipped residuals, never less than the single t quantile. With fewer
        than 6 clusters c is Bonferroni's t. A column that does not vary has NaN limits with a
        note: give it a score interval at `simultaneous_level`.

    Raises
    ------
    ValueError
        When rows and clusters differ in number, or a cluster is missing.

    Notes
    -----
    Statistic of a column: sum of its cluster sums over the root of their sum of squares, which
    sign flips leave unchanged. Ties count as at least as large. With G clusters no p-value lies
    below 2 / 2**G.

    References
    ----------
    Westfall and Young 1993, Resampling-Based Multiple Testing. Romano and Wolf 2005,
    doi:10.1198/016214504000000539.

    Examples
    --------
    Five cases agree in the first column: all 32 patterns but 2 give less. The second is mixed.

    >>> found = max_t([[1, 1], [1, -1], [1, 1], [1, -1], [1, 0]])
    >>> found.p_values, found.p_adjusted
    ((0.0625, 1.0), (0.0625, 1.0))
    """
    check_level(ci_level)
    table = np.asarray(values, dtype=np.float64)
    table = table[:, None] if table.ndim == 1 else table
    labels = np.arange(len(table)) if clusters is None else np.asarray(clusters, dtype=object)
    if len(labels) != len(table):
        raise ValueError(f"clusters must name {len(table)} rows, found {len(labels)} labels.")
    if any(label is None or label != label for label in labels):
        raise ValueError("clusters must name every row, found a missing label.")
    used = ~np.isnan(table).all(axis=1)
    table, labels = table[used], labels[used]
    order = {label: i for i, label in enumerate(dict.fromkeys(labels.tolist()))}
    codes = np.array([order[label] for label in labels.tolist()], dtype=np.int64)
    g = len(order)
    sums = np.zeros((g, table.shape[1]))
    np.add.at(sums, codes, np.nan_to_num(table))
    enumerated = g <= ENUMERATED
    how = f"all {2**g} patterns" if enumerated else f"{n_resamples} patterns, seed {seed}"
    single, adjusted = _flip(sums, n_resamples, seed)
    return MaxT(
        p_values=tuple(single.tolist()),
        p_adjusted=tuple(adjusted.tolist()),
        intervals=_together(table, codes, g, n_resamples, seed, ci_level),
        method=f"largest |t| under flipped signs of {g} clusters, step-down, {how}",
        note="fewer than 6 clusters: no p-value can fall below 0.05" if g < FEW_CLUSTERS else "",
        n_clusters=g,
    )


def _signs(g: int, n_resamples: int, seed: int) -> list[Floats]:
    """Return blocks of sign patterns; mirrors are left out, as |t| does not see them."""
    if g <= ENUMERATED:
        total = 2 ** max(g - 1, 0)
        starts = range(0, total, ROWS_AT_ONCE)
        numbers = (np.arange(start, min(start + ROWS_AT_ONCE, total)) for start in starts)
        return [np.asarray(1.0 - 2.0 * (n[:, None] >> np.arange(g) & 1), float) for n in numbers]
    rng = np.random.default_rng(seed)
    rows = max(1, min(ROWS_AT_ONCE, 4_000_000 // g))
    sizes = [min(rows, n_resamples - start) for start in range(0, n_resamples, rows)]
    return [np.asarray(rng.integers(0, 2, (size, g)) * 2.0 - 1.0, float) for size in sizes]


def _flip(sums: Floats, n_resamples: int, seed: int) -> tuple[Floats, Floats]:
    """Return p-values of each column alone and step-down p-values of all together."""
    g, columns = sums.shape
    root = np.sqrt((sums**2).sum(axis=0))
    tested = np.flatnonzero(root > 0)
    single, adjusted = np.full(columns, np.nan), np.full(columns, np.nan)
    if not tested.size:
        return single, adjusted
    scaled = sums[:, tested] / root[tested]
    observed = np.abs(scaled.sum(axis=0))
    ranks = np.argsort(-observed, kind="stable")
    alone, stepped, total = np.zeros(tested.size), np.zeros(tested.size), 0
    for signs in _signs(g, n_resamples, seed):
        drawn = np.abs(signs @ scaled)
        alone += (drawn >= observed - ROUNDING).sum(axis=0)
        # Step-down: each statistic is held against the largest of those not above it.
        largest = np.maximum.accumulate(drawn[:, ranks[::-1]], axis=1)[:, ::-1]
        stepped[ranks] += (largest >= observed[ranks] - ROUNDING).sum(axis=0)
        total += len(signs)
    extra = 0 if g <= ENUMERATED else 1  # the observed signs count among the drawn ones
    single[tested] = (alone + extra) / (total + extra)
    monotone = np.maximum.accumulate(((stepped + extra) / (total + extra))[ranks])
    adjusted[tested[ranks]] = monotone
    return single, adjusted


def _together(
    table: Floats, codes: NDArray[np.int64], g: int, n_resamples: int, seed: int, ci_level: float
) -> tuple[Interval, ...]:
    """Return simultaneous intervals of all columns."""
    columns = table.shape[1]
    if g >= FEW_CLUSTERS:
        critical = _largest_t(table, codes, g, n_resamples, seed, ci_level)
        name = f"mean +- {critical:.3f} CR2 standard errors (largest |t| of {columns} columns)"
    else:
        critical, name = NAN, f"CR2 with Satterthwaite t, Bonferroni over {columns} columns"
    single = ci_level if g >= FEW_CLUSTERS else simultaneous_level(columns, ci_level=ci_level)
    found = []
    for column in table.T:
        rows = ~np.isnan(column)
        mean = cr2_mean(column[rows], codes[rows], ci_level=ci_level)
        defined = math.isfinite(mean.df) and mean.se > 0
        quantile = float(student_t.ppf((1.0 + single) / 2.0, mean.df)) if defined else NAN
        reach = max(quantile, critical) if g >= FEW_CLUSTERS and defined else quantile
        found.append(
            Interval(
                mean.estimate,
                mean.estimate - reach * mean.se,
                mean.estimate + reach * mean.se,
                ci_level=ci_level,
                method=name,
                note=mean.note,
                n=mean.n,
                n_clusters=mean.n_clusters,
                se=mean.se,
                df=mean.df,
            )
        )
    return tuple(found)


def _largest_t(
    table: Floats, codes: NDArray[np.int64], g: int, n_resamples: int, seed: int, ci_level: float
) -> float:
    """Return the quantile of the largest |t| of sign-flipped residuals, studentised again."""
    size = np.zeros((g, table.shape[1]))
    np.add.at(size, codes, (~np.isnan(table)).astype(np.float64))
    total = np.maximum(size.sum(axis=0), 1.0)
    residual = np.zeros_like(size)
    np.add.at(residual, codes, np.nan_to_num(table))
    residual -= size * residual.sum(axis=0) / total
    square = (residual**2).sum(axis=0)
    keep = square > 0
    if not keep.any():
        return NAN
    residual, size, total, square = residual[:, keep], size[:, keep], total[keep], square[keep]
    largest = []
    for signs in _signs(g, n_resamples, seed):
        mean = signs @ residual / total
        spread = square - 2.0 * mean * (signs @ (residual * size)) + mean**2 * (size**2).sum(axis=0)
        t = np.abs(mean) * total / np.sqrt(np.maximum(spread, ROUNDING * square) * g / (g - 1))
        largest.append(t.max(axis=1))
    drawn = np.concatenate(largest)
    return float(np.quantile(drawn, ci_level, method="higher"))
