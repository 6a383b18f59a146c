"""Agreement of graders with each other and with gold, with intervals over cases."""

from __future__ import annotations

import math
from dataclasses import replace

import krippendorff
import numpy as np
from numpy.typing import ArrayLike, NDArray
from statsmodels.stats.inter_rater import cohens_kappa

from skillcomp.stats._agreement_bootstrap import FEWEST_EVENTS, bootstrap_agreement, score_limits
from skillcomp.stats._coefficients import ONE_CATEGORY, rating_matrix
from skillcomp.stats.clusters import wilson_effective
from skillcomp.stats.intervals import wilson
from skillcomp.stats.results import NAN, Interval, check_level, undefined
from skillcomp.stats.score import quantile, wilson_limits

__all__ = [
    "bootstrap_agreement",
    "cohen_kappa",
    "gwet_ac1",
    "krippendorff_alpha",
    "raw_agreement",
    "sensitivity",
    "specificity",
]

Floats = NDArray[np.float64]

_CONSTANT_AC1 = "all ratings fall into one category: AC1 equals raw agreement here"


def _table(table: ArrayLike) -> Floats:
    cells = np.asarray(table, dtype=float)
    if cells.ndim != 2 or cells.shape[0] != cells.shape[1] or cells.shape[0] < 2:
        raise ValueError(f"table must be square, at least 2 x 2, found shape {cells.shape}.")
    if not np.all(np.isfinite(cells) & (cells >= 0)):
        raise ValueError("table must hold counts: finite and not negative.")
    return cells


def raw_agreement(table: ArrayLike, *, ci_level: float = 0.95) -> Interval:
    """Share of the units that two raters place in the same category.

    Parameters
    ----------
    table : array_like, shape (q, q)
        Units by category of the first rater (rows) and of the second (columns).
    ci_level : float, default 0.95
        Confidence level.

    Returns
    -------
    Interval
        Share between 0 and 1 with Wilson's interval; ``n`` counts units. NaN for an empty table.

    Raises
    ------
    ValueError
        The table is not square or holds something that is no count.

    See Also
    --------
    bootstrap_agreement : the same from ratings, several raters, cases as clusters.

    Examples
    --------
    >>> raw_agreement([[118, 5], [2, 0]]).estimate
    0.944
    """
    cells = _table(table)
    total = float(cells.sum())
    if total == 0.0:
        return undefined("raw agreement", "no units", ci_level=check_level(ci_level), n=0.0)
    found = wilson(float(np.trace(cells)), total, ci_level=ci_level)
    return replace(found, method=f"raw agreement, {found.method}")


def _from_table(
    name: str, cells: Floats, estimate: float, se: float, expected: float, level: float, rare: bool
) -> Interval:
    total = float(cells.sum())
    observed = float(np.trace(cells)) / total
    disagreements = total - float(np.trace(cells))
    if disagreements < FEWEST_EVENTS:
        rule = f"fewer than {FEWEST_EVENTS} disagreements"
    elif rare and float(np.min(np.diag(cells))) < FEWEST_EVENTS:
        rule = f"a category with fewer than {FEWEST_EVENTS} agreements"
    elif not se > 0.0:
        rule = "standard error is zero"
    else:
        half = quantile(level, total - 1.0) * se
        return Interval(
            estimate,
            max(-1.0, estimate - half),
            min(1.0, estimate + half),
            level,
            f"{name}, t with the analytic standard error",
            "",
            total,
            NAN,
            se,
            total - 1.0,
        )
    wilson_low, wilson_high = wilson_limits(observed, total, quantile(level))
    low, high = score_limits(estimate, expected, float(wilson_low), float(wilson_high))
    return Interval(
        estimate,
        low,
        high,
        level,
        f"{name}, Wilson limits of the raw agreement rescaled",
        f"{rule}, so the analytic interval can collapse: score interval instead, chance "
        "agreement held fixed",
        total,
        NAN,
        se,
    )


def cohen_kappa(table: ArrayLike, *, ci_level: float = 0.95) -> Interval:
    """Agreement of two raters beyond what their own category rates would give.

    Falls near 0 where one category is rare although nearly all units agree; report
    :func:`raw_agreement` and :func:`gwet_ac1` beside it.

    Parameters
    ----------
    table : array_like, shape (q, q)
        Units by category of the first rater (rows) and of the second (columns).
    ci_level : float, default 0.95
        Confidence level.

    Returns
    -------
    Interval
        Kappa in [-1, 1] with ``se``; limits from t with n - 1 degrees of freedom, or from Wilson's
        limits of the raw agreement where that can collapse (fewer than 5 disagreements, or a
        category with fewer than 5 agreements), named in ``note``. NaN with a note where both
        raters use one category only.

    Raises
    ------
    ValueError
        The table is not square or holds something that is no count.

    Notes
    -----
    Units are taken as independent; where a case holds several, use :func:`bootstrap_agreement`.

    References
    ----------
    Cohen 1960, doi:10.1177/001316446002000104; Fleiss, Cohen and Everitt 1969,
    doi:10.1037/h0028106.

    Examples
    --------
    >>> round(cohen_kappa([[40, 9], [6, 45]]).estimate, 4)
    0.6995
    """
    level = check_level(ci_level)
    cells = _table(table)
    total = float(cells.sum())
    if total == 0.0:
        return undefined("Cohen's kappa", "no units", ci_level=level, n=0.0)
    shares = cells / total
    expected = float(shares.sum(axis=0) @ shares.sum(axis=1))
    if 1.0 - expected < 1e-12:
        return undefined("Cohen's kappa", ONE_CATEGORY, ci_level=level, n=total)
    with np.errstate(invalid="ignore", divide="ignore"):
        found = cohens_kappa(cells)
        se = float(found.std_kappa)
    estimate = float(found.kappa)
    return _from_table("Cohen's kappa", cells, estimate, se, expected, level, rare=True)


def gwet_ac1(table: ArrayLike, *, ci_level: float = 0.95) -> Interval:
    """Agreement of two raters beyond chance, where a skewed category rate must not decide.

    Parameters
    ----------
    table : array_like, shape (q, q)
        Units by category of the first rater (rows) and of the second (columns).
    ci_level : float, default 0.95
        Confidence level.

    Returns
    -------
    Interval
        AC1 in [-1, 1] with ``se``; limits from t with n - 1 degrees of freedom, or from Wilson's
        limits of the raw agreement with fewer than 5 disagreements, named in ``note``. NaN for an
        empty table.

    Raises
    ------
    ValueError
        The table is not square or holds something that is no count.

    Notes
    -----
    Chance agreement is the mean of ``pi (1 - pi)`` over the other categories, ``pi`` the mean
    share of a category over both raters. The standard error divides by n, as for a table in
    irrCAC 1.0 (R), against which it was checked.

    References
    ----------
    Gwet 2008, doi:10.1348/000711006X126600.

    Examples
    --------
    >>> found = gwet_ac1([[118, 5], [2, 0]])
    >>> round(found.estimate, 4), round(found.se, 4)
    (0.9408, 0.023)
    """
    level = check_level(ci_level)
    cells = _table(table)
    total = float(cells.sum())
    if total == 0.0:
        return undefined("Gwet's AC1", "no units", ci_level=level, n=0.0)
    q = cells.shape[0]
    p = cells / total
    share = (p.sum(axis=0) + p.sum(axis=1)) / 2.0
    observed, expected = float(np.trace(p)), float((share * (1.0 - share)).sum() / (q - 1))
    estimate = 1.0 - (1.0 - observed) / (1.0 - expected)
    pair = (share[:, None] + share[None, :]) / 2.0
    terms = np.eye(q) - 2.0 * (1.0 - estimate) * (1.0 - pair) / (q - 1)
    centre = observed - 2.0 * (1.0 - estimate) * expected
    variance = (float((p * terms**2).sum()) - centre**2) / (total * (1.0 - expected) ** 2)
    se = math.sqrt(max(variance, 0.0))
    found = _from_table("Gwet's AC1", cells, estimate, se, expected, level, rare=False)
    if expected == 0.0:
        found = replace(found, note=f"{_CONSTANT_AC1}; {found.note}")
    return found


def krippendorff_alpha(
    ratings: ArrayLike,
    *,
    clusters: ArrayLike | None = None,
    ci_level: float = 0.95,
    n_resamples: int = 1999,
    seed: int = 0,
) -> Interval:
    """Reliability of the ratings of any number of raters, with gaps.

    Parameters
    ----------
    ratings : array_like, shape (units, raters)
        Category codes, NaN where a rater gave none.
    clusters : array_like, optional
        Case of each unit; cases are resampled whole. Each unit alone when omitted.
    ci_level : float, default 0.95
        Confidence level.
    n_resamples, seed : int
        Number of resamples and seed of the generator.

    Returns
    -------
    Interval
        Nominal alpha, at most 1; NaN with a note where all ratings are equal or no unit has two.

    Raises
    ------
    ValueError
        Fewer than two raters, or ``clusters`` of another length.

    Notes
    -----
    The estimate is that of the krippendorff library at the nominal level (its own default is the
    interval level); the interval is that of :func:`bootstrap_agreement`.

    References
    ----------
    Hayes and Krippendorff 2007, doi:10.1080/19312450709336664.

    Examples
    --------
    >>> round(krippendorff_alpha([[1, 1], [0, 0], [1, 0], [1, 1]]).estimate, 4)
    0.5333
    """
    found = bootstrap_agreement(
        ratings,
        "krippendorff_alpha",
        clusters=clusters,
        ci_level=ci_level,
        n_resamples=n_resamples,
        seed=seed,
    )
    if math.isnan(found.estimate):
        return found
    matrix = rating_matrix(ratings)
    value = krippendorff.alpha(reliability_data=matrix.T, level_of_measurement="nominal")
    return replace(found, estimate=float(value))


def _against_gold(
    label: str,
    verdicts: ArrayLike,
    gold: ArrayLike,
    truth: float,
    clusters: ArrayLike | None,
    level: float,
) -> Interval:
    given, true = np.asarray(verdicts, float), np.asarray(gold, float)
    if given.shape != true.shape or given.ndim != 1:
        raise ValueError(
            f"verdicts and gold must be of one length, found shapes {given.shape} and {true.shape}."
        )
    for name, values in (("verdicts", given), ("gold", true)):
        if not np.isin(values[np.isfinite(values)], (0.0, 1.0)).all():
            raise ValueError(f"{name} must hold 0, 1 or NaN.")
    wanted = true == truth
    used = wanted & np.isfinite(given)
    lost = int(wanted.sum() - used.sum())
    note = f"{lost} labels without a verdict left out" if lost else ""
    if not used.any():
        what = "passes" if truth else "fails"
        return undefined(label, f"no gold label {what} with a verdict", ci_level=level, n=0.0)
    right = (given[used] == truth).astype(float)
    if clusters is None:
        found = wilson(float(right.sum()), float(right.size), ci_level=level)
    else:
        found = wilson_effective(right, np.asarray(clusters)[used], ci_level=level)
    return replace(
        found, method=f"{label}, {found.method}", note="; ".join(filter(None, (found.note, note)))
    )


def sensitivity(
    verdicts: ArrayLike,
    gold: ArrayLike,
    *,
    clusters: ArrayLike | None = None,
    ci_level: float = 0.95,
) -> Interval:
    """Share of what passes by gold that the grader passes.

    Parameters
    ----------
    verdicts, gold : array_like of 0, 1 or NaN
        Verdict and gold label of each unit. A failed grader is NaN, never 0.
    clusters : array_like, optional
        Case of each unit. Each unit alone when omitted.
    ci_level : float, default 0.95
        Confidence level.

    Returns
    -------
    Interval
        Wilson's interval, on the effective number of units with ``clusters``. ``n`` counts the
        gold passes with a verdict. NaN with a note where there is none.

    Raises
    ------
    ValueError
        Lengths differ or a value is neither 0, 1 nor NaN.

    See Also
    --------
    specificity : the share of gold fails that the grader fails.

    Examples
    --------
    >>> sensitivity([1, 1, 0, 0], [1, 1, 1, 0]).n
    3.0
    """
    return _against_gold("sensitivity", verdicts, gold, 1.0, clusters, check_level(ci_level))


def specificity(
    verdicts: ArrayLike,
    gold: ArrayLike,
    *,
    clusters: ArrayLike | None = None,
    ci_level: float = 0.95,
) -> Interval:
    """Share of what fails by gold that the grader fails.

    Parameters
    ----------
    verdicts, gold : array_like of 0, 1 or NaN
        Verdict and gold label of each unit. A failed grader is NaN, never 0.
    clusters : array_like, optional
        Case of each unit. Each unit alone when omitted.
    ci_level : float, default 0.95
        Confidence level.

    Returns
    -------
    Interval
        Wilson's interval, on the effective number of units with ``clusters``. ``n`` counts the
        gold fails with a verdict. NaN with a note where there is none.

    Raises
    ------
    ValueError
        Lengths differ or a value is neither 0, 1 nor NaN.

    See Also
    --------
    sensitivity : the share of gold passes that the grader passes.

    Examples
    --------
    >>> specificity([1, 1, 0, 0], [1, 1, 1, 0]).estimate
    1.0
    """
    return _against_gold("specificity", verdicts, gold, 0.0, clusters, check_level(ci_level))
