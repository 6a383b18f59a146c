"""Severity of grader versions on the same checks, on the logit scale of the Rasch model."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm
from scipy.stats import t as student_t
from statsmodels.discrete.conditional_models import ConditionalLogit
from statsmodels.stats.contingency_tables import cochrans_q

from skillcomp.stats.moments import Clusters, join_notes
from skillcomp.stats.results import HypothesisTest, Interval, check_level, undefined

__all__ = ["cochran_q", "severity_shift"]

Floats = NDArray[np.float64]


def _verdicts(verdicts: ArrayLike) -> Floats:
    table = np.asarray(verdicts, float)
    if table.ndim != 2 or table.shape[1] < 2:
        raise ValueError(
            "verdicts must have one row per item and at least two versions as columns, found "
            f"shape {table.shape}."
        )
    if not np.isin(table[~np.isnan(table)], (0.0, 1.0)).all():
        raise ValueError("verdicts must be 0, 1 or NaN.")
    return table


def severity_shift(
    verdicts: ArrayLike, clusters: Any = None, *, ci_level: float = 0.95
) -> tuple[Interval, ...]:
    """Shift of each grader version against the first, in logits: above 0 is more severe.

    Parameters
    ----------
    verdicts : array_like, shape (items, versions)
        1 passed, 0 failed, NaN without a verdict; the same items for every version.
    clusters : array_like, shape (items,), optional
        Case of each item. Checks of a case are not independent: with clusters each version is
        compared with the first alone, with a cluster-robust standard error, never below that of
        independent items, and t on G - 1 df, where G counts the cases with a disagreement.
    ci_level : float, default 0.95
        Confidence level.

    Returns
    -------
    tuple of Interval
        One per version from the second on, in logits: above 0 it fails more of the same items
        than the first (harder), below 0 fewer (more lenient). NaN with a note when the two
        versions never disagree, or when the disagreements come from one cluster only.

    Raises
    ------
    ValueError
        When the shape is wrong or a value is not 0, 1 or NaN.

    Notes
    -----
    The sign is that of the many-facet Rasch model, where severity is taken away from the logit of
    a PASS. Conditional logistic regression with the items as strata, which for two versions is
    ``log(lost / gained)`` with standard error ``sqrt(1/lost + 1/gained)``: lost are the items that
    only the first version passes, gained those that only the second does. Where one of the two
    is 0, half an item (with clusters half the disagreements of a mean case) is added to both and
    the versions are compared two by two. Cases without a disagreement tell nothing. Over 2 to 20
    cases with disagreements of 1 to 10 items the clustered interval covered 0 in 94.8 % of
    studies at least. Checked against survival 3.5.3 ``clogit`` and eRm 1.0.2.

    References
    ----------
    Rasch 1960; Linacre 1989, Many-Facet Rasch Measurement; Breslow and Day 1980, chapter 7.

    Examples
    --------
    The second version fails 16 items that the first passes, and passes 6 that it fails.

    >>> shift = severity_shift([[1, 0]] * 16 + [[0, 1]] * 6 + [[1, 1]] * 59)[0]
    >>> round(shift.estimate, 4), round(shift.se, 4)
    (0.9808, 0.4787)
    """
    check_level(ci_level)
    table = _verdicts(verdicts)
    later = range(1, table.shape[1])
    gains = [(table[:, j] == 1) & (table[:, 0] == 0) for j in later]
    losses = [(table[:, j] == 0) & (table[:, 0] == 1) for j in later]
    separate = any(not up.any() or not down.any() for up, down in zip(gains, losses, strict=True))
    if clusters is not None or separate or table.shape[1] == 2:
        labels = None if clusters is None else np.asarray(clusters)
        return tuple(
            _two_versions(down, up, labels, ci_level)
            for up, down in zip(gains, losses, strict=True)
        )
    return _conditional(table, ci_level)


def _two_versions(lost: Any, gained: Any, labels: Any, ci_level: float) -> Interval:
    b, c = float(lost.sum()), float(gained.sum())
    label = "log odds of the discordant items"
    groups = Clusters.of(labels, len(lost))
    if b + c == 0:
        note = "the versions never disagree: no shift can be told"
        return undefined(label, note, ci_level=ci_level, n=float(len(lost)))
    told = groups.totals((lost | gained).astype(float))
    told = told[told > 0]
    if labels is not None and len(told) < 2:
        note = "the disagreements come from one cluster"
        return undefined(label, note, ci_level=ci_level, n=float(len(lost)))
    note, size = "", 1.0
    if b == 0 or c == 0:
        # Flips of a case go together, so half a case stands for what was not seen.
        size = float(told.mean()) if labels is not None else 1.0
        b, c = b + size / 2, c + size / 2
        what = "half an item" if size == 1.0 else f"half a case ({size / 2:.3g} items)"
        note = f"all disagreements in one direction: {what} added to both"
    estimate, se, df = math.log(b / c), math.sqrt(size * (1 / b + 1 / c)), math.nan
    if labels is not None:
        scores = groups.totals(lost / b - gained / c)
        df = len(told) - 1.0
        robust = math.sqrt(len(told) / df * float((scores**2).sum()))
        if robust < se and not note:
            note = "standard error of independent items, which is above the one by case"
        # Cases whose flips cancel say nothing against chance: never below independent items.
        se = max(robust, se)
        label += f", {len(told)} clusters with one, t with {df:.0f} df"
    reference = student_t(df) if labels is not None else norm
    reach = float(reference.isf((1 - ci_level) / 2)) * se
    return Interval(
        estimate,
        estimate - reach,
        estimate + reach,
        ci_level,
        label,
        note,
        n=float(len(lost)),
        n_clusters=float(groups.count),
        se=se,
        df=df,
        p_value=float(2 * reference.sf(abs(estimate) / se)),
    )


def _conditional(table: Floats, ci_level: float) -> tuple[Interval, ...]:
    # Items on which all versions agree tell nothing about their severity.
    informative = table[np.nanmin(table, axis=1) < np.nanmax(table, axis=1)]
    item, version = np.nonzero(~np.isnan(informative))
    dummies = (version[:, None] == np.arange(1, table.shape[1])).astype(float)
    failed = 1.0 - informative[item, version]
    fit = ConditionalLogit(failed, dummies, groups=item).fit(disp=False)
    z = float(norm.isf((1 - ci_level) / 2))
    return tuple(
        Interval(
            float(value),
            float(value - z * se),
            float(value + z * se),
            ci_level,
            "conditional logit, items as strata",
            n=float(len(table)),
            se=float(se),
            p_value=float(p),
        )
        for value, se, p in zip(fit.params, fit.bse, fit.pvalues, strict=True)
    )


def cochran_q(verdicts: ArrayLike) -> HypothesisTest:
    """Whether three or more grader versions pass the same share of the same items.

    Parameters
    ----------
    verdicts : array_like, shape (items, versions)
        1 passed, 0 failed; items with a missing verdict are left out and counted in ``note``.

    Returns
    -------
    HypothesisTest
        ``statistic`` on versions - 1 degrees of freedom; p = 1 with a note when the versions
        agree on every item.

    Raises
    ------
    ValueError
        When the shape is wrong or a value is not 0, 1 or NaN.

    Notes
    -----
    Takes items as independent; by statsmodels ``cochrans_q``.

    References
    ----------
    Cochran 1950, doi:10.1093/biomet/37.3-4.256.

    Examples
    --------
    >>> cochran_q([[1, 1, 0]] * 4 + [[1, 0, 0]] * 2 + [[1, 1, 1]]).statistic
    9.333333333333334
    """
    table = _verdicts(verdicts)
    keep = ~np.isnan(table).any(axis=1)
    table, dropped = table[keep], int((~keep).sum())
    note = f"{dropped} {'item' if dropped == 1 else 'items'} left out" if dropped else ""
    df = table.shape[1] - 1.0
    if not len(table) or (table == table[:, :1]).all():
        reason = "the versions agree on every item: p = 1"
        return HypothesisTest(0.0, 1.0, "Cochran's Q", join_notes(reason, note), df)
    found = cochrans_q(table)
    return HypothesisTest(float(found.statistic), float(found.pvalue), "Cochran's Q", note, df)
