"""How well a score separates two classes, where to cut it, and how sure that is.

Labels are 1 for what should be flagged; a higher score means "flag", always: no curve is turned
round silently. Every function takes ``groups``, the document of each row. With documents, they are
the unit of evidence: variances, resamples and exact intervals count documents, not rows.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from skillcomp.stats._curve import (
    FEW_DOCUMENTS,
    TIE,
    Criterion,
    Floats,
    Labelled,
    count,
    join,
    over_documents,
    prepare,
    resamples,
)
from skillcomp.stats.results import NAN, Interval, check_level, undefined
from skillcomp.stats.thresholds import (
    OperatingPoint,
    Threshold,
    at_threshold,
    choose_threshold,
    clean_needed,
)

__all__ = [
    "Criterion",
    "OperatingPoint",
    "Threshold",
    "at_threshold",
    "bootstrap_auc",
    "choose_threshold",
    "clean_needed",
    "delong",
    "delong_paired",
]

SMALL_CLASS = 30  # rows or documents; below, DeLong limits are made on the logit scale
EXTREME = 0.9  # area above which (or below 1 minus which) they are, too: plain covers 83 % at 0.98


def _placements(data: Labelled) -> tuple[Floats, Floats, Floats]:
    """Return the AUC and the centred placement values of each class, per candidate score."""
    positive, negative = data.scores[data.positive], data.scores[~data.positive]
    m, n = len(positive), len(negative)
    ranks = stats.rankdata(data.scores, axis=0)
    above = (ranks[data.positive] - stats.rankdata(positive, axis=0)) / n
    below = 1.0 - (ranks[~data.positive] - stats.rankdata(negative, axis=0)) / m
    auc = above.mean(axis=0)
    return auc, above - auc, below - auc


def _covariance(data: Labelled, above: Floats, below: Floats) -> Floats:
    """Return Obuchowski's covariance of the AUCs; DeLong's where every row is its own document."""
    m, n = len(above), len(below)
    codes = data.documents[data.positive], data.documents[~data.positive]
    sums = []
    for values, code in zip((above, below), codes, strict=True):
        total = np.zeros((data.n_documents, values.shape[1]))
        np.add.at(total, code, values)
        sums.append(total)
    i10, i01 = (np.unique(code).size for code in codes)
    if min(i10, i01) < 2:
        return np.full((above.shape[1],) * 2, np.nan)
    s10 = i10 / ((i10 - 1) * m) * sums[0].T @ sums[0]
    s01 = i01 / ((i01 - 1) * n) * sums[1].T @ sums[1]
    s11 = data.n_documents / (data.n_documents - 1) * sums[0].T @ sums[1]
    return np.asarray(s10 / m + s01 / n + (s11 + s11.T) / (m * n))


def _quantile(data: Labelled, ci_level: float) -> tuple[float, float]:
    """Return the two-sided quantile and its degrees of freedom; normal without documents."""
    upper = (1.0 + ci_level) / 2.0
    if not data.grouped:
        return float(stats.norm.ppf(upper)), NAN
    df = float(min(data.documents_of(True), data.documents_of(False)) - 1)
    return float(stats.t.ppf(upper, df)), df


def _single(data: Labelled, auc: float, variance: float, scale: str, ci_level: float) -> Interval:
    n_documents = min(data.documents_of(True), data.documents_of(False))
    n = float(data.positive.size)
    if data.grouped and n_documents < FEW_DOCUMENTS:
        few = f"fewer than {FEW_DOCUMENTS} documents with one class: counted by document"
        return over_documents(
            auc, n_documents, ci_level=ci_level, n=n, unit=data.unit, note=join(few, data.note)
        )
    # Rounding leaves about 1e-34 where the placements are constant.
    if not variance > TIE**2:
        why = "perfect separation" if auc in (0.0, 1.0) else "no variance to estimate"
        return over_documents(
            auc, n_documents, ci_level=ci_level, n=n, unit=data.unit, note=join(why, data.note)
        )
    se = math.sqrt(variance)
    hard = n_documents < SMALL_CLASS or max(auc, 1.0 - auc) > EXTREME
    logit = scale == "logit" or (scale == "auto" and hard)
    q, df = _quantile(data, ci_level)
    if logit:
        centre, spread = math.log(auc / (1.0 - auc)), q * se / (auc * (1.0 - auc))
        low, high = (1.0 / (1.0 + math.exp(-(centre + s * spread))) for s in (-1.0, 1.0))
    else:
        low, high = max(0.0, auc - q * se), min(1.0, auc + q * se)
    name = "Obuchowski (DeLong by document)" if data.grouped else "DeLong"
    return Interval(
        auc,
        low,
        high,
        ci_level=ci_level,
        method=f"{name}, {'logit' if logit else 'plain'} scale, {'t' if data.grouped else 'z'}",
        note=data.note,
        n=n,
        n_clusters=float(data.n_documents) if data.grouped else NAN,
        se=se,
        df=df,
    )


def delong(
    labels: ArrayLike,
    scores: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    scale: str = "auto",
    ci_level: float = 0.95,
) -> Interval:
    """How well does a score separate the two classes: the area under its ROC curve.

    The area is the chance that a random positive scores above a random negative, ties counting
    one half.

    Parameters
    ----------
    labels : array_like of {0, 1}
        1 for what should be flagged. Rows with a missing label, score or document are left out,
        and ``note`` says how many.
    scores : array_like of float
        Higher means "flag".
    groups : array_like, optional
        Document of each row. The variance is then Obuchowski's, whose rows within a document may
        depend on each other, with t quantiles on the smaller number of documents minus one.
    scale : {"auto", "plain", "logit"}
        Scale of the limits. ``auto`` takes the logit when a class has fewer than 30 units or the
        area lies outside 0.1..0.9.
    ci_level : float, default 0.95
        Confidence level.

    Returns
    -------
    Interval
        ``estimate`` is the area. Where the classes separate perfectly, where no variance can be
        estimated and where a class comes from fewer than 10 documents, the limits are
        Clopper-Pearson over the documents of the rarer class, and ``note`` says why. NaN with a
        note when a class is absent.

    Raises
    ------
    ValueError
        For labels other than 0 and 1, arrays of unequal length, an unknown scale or level.

    Notes
    -----
    V10_i is the share of negatives below positive i, V01_j the share of positives above negative
    j, the variance S10/m + S01/n. Checked against pROC 1.18.0 on its aSAH data.

    References
    ----------
    DeLong, DeLong and Clarke-Pearson 1988, doi:10.2307/2531595. Obuchowski 1997,
    doi:10.2307/2533958.

    Examples
    --------
    >>> delong([0, 0, 1, 0, 1, 1], [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]).estimate.__round__(4)
    0.8889
    """
    check_level(ci_level)
    if scale not in ("auto", "plain", "logit"):
        raise ValueError(f"scale must be 'auto', 'plain' or 'logit', found {scale!r}.")
    data = prepare(labels, scores, groups)
    if data.lacking():
        return undefined("DeLong", join(data.lacking(), data.note), ci_level=ci_level)
    auc, above, below = _placements(data)
    variance = float(_covariance(data, above, below)[0, 0])
    return _single(data, float(auc[0]), variance, scale, ci_level)


def delong_paired(
    labels: ArrayLike,
    first: ArrayLike,
    second: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    ci_level: float = 0.95,
) -> Interval:
    """Which of two scores of the same rows separates the classes better: first minus second.

    Parameters
    ----------
    labels : array_like of {0, 1}
        1 for what should be flagged.
    first, second : array_like of float
        The two scores of each row. A row that misses either is left out of both.
    groups : array_like, optional
        Document of each row, as in `delong`.
    ci_level : float, default 0.95
        Confidence level.

    Returns
    -------
    Interval
        Difference of the two areas, its limits, standard error and the two-sided ``p_value`` of
        no difference. Where the difference has no variance (equal or perfect curves), the limits
        are squared and added from the two single intervals (MOVER) without credit for the
        pairing, ``p_value`` is 1 for equal areas and NaN otherwise.

    References
    ----------
    DeLong, DeLong and Clarke-Pearson 1988, doi:10.2307/2531595.

    Examples
    --------
    >>> same = delong_paired([0, 0, 1, 1], [1, 3, 2, 4], [1, 3, 2, 4])
    >>> same.estimate, same.p_value, same.low < 0 < same.high
    (0.0, 1.0, True)
    """
    check_level(ci_level)
    both = np.column_stack([np.ravel(np.asarray(s, dtype=np.float64)) for s in (first, second)])
    data = prepare(labels, both, groups)
    if data.lacking():
        return undefined("DeLong, paired", join(data.lacking(), data.note), ci_level=ci_level)
    auc, above, below = _placements(data)
    covariance = _covariance(data, above, below)
    delta = float(auc[0] - auc[1])
    variance = float(covariance[0, 0] + covariance[1, 1] - 2.0 * covariance[0, 1])
    n, clusters = float(data.positive.size), float(data.n_documents) if data.grouped else NAN
    few = data.grouped and min(data.documents_of(c) for c in (True, False)) < FEW_DOCUMENTS
    if few or not variance > TIE**2:
        a, b = (
            _single(data, float(auc[k]), float(covariance[k, k]), "auto", ci_level) for k in (0, 1)
        )
        why = f"fewer than {FEW_DOCUMENTS} documents with one class" if few else "no variance"
        return Interval(
            delta,
            delta - math.hypot(a.estimate - a.low, b.high - b.estimate),
            delta + math.hypot(a.high - a.estimate, b.estimate - b.low),
            ci_level=ci_level,
            method="MOVER of the single intervals",
            note=join(f"{why}: no credit for the pairing", data.note),
            n=n,
            n_clusters=clusters,
            p_value=1.0 if abs(delta) < TIE else NAN,
        )
    se = math.sqrt(variance)
    q, df = _quantile(data, ci_level)
    tail = stats.t.sf(abs(delta) / se, df) if data.grouped else stats.norm.sf(abs(delta) / se)
    name = "Obuchowski (DeLong by document)" if data.grouped else "DeLong"
    return Interval(
        delta,
        max(-1.0, delta - q * se),
        min(1.0, delta + q * se),
        ci_level=ci_level,
        method=f"{name}, paired, {'t' if data.grouped else 'z'}",
        note=data.note,
        n=n,
        n_clusters=clusters,
        se=se,
        df=df,
        p_value=float(2.0 * tail),
    )


def bootstrap_auc(
    labels: ArrayLike,
    scores: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    measure: str = "roc",
    n_resamples: int = 2000,
    seed: int = 0,
    ci_level: float = 0.95,
) -> Interval:
    """Area under the ROC or precision-recall curve with a bootstrap over whole documents.

    Parameters
    ----------
    labels, scores, groups
        As in `delong`.
    measure : {"roc", "average_precision"}
        ``average_precision`` depends on the prevalence of the sample, which ``method`` states.
    n_resamples : int, default 2000
        Draws of all documents with replacement; draws without both classes are left out.
    seed : int, default 0
        Seed of the draws.
    ci_level : float, default 0.95
        Confidence level.

    Returns
    -------
    Interval
        Percentile limits and the bootstrap standard error. Clopper-Pearson over documents, with
        a note, where the draws do not vary (perfect separation) or a class comes from fewer than
        10 documents. NaN with a note when a class is absent.

    Notes
    -----
    The percentile interval is too narrow when there are few documents; `delong` with ``groups``
    is the first choice for the ROC area.

    Examples
    --------
    >>> bootstrap_auc([0, 0, 0, 1, 1], [1, 2, 3, 4, 5]).note
    'perfect separation'
    """
    check_level(ci_level)
    if measure not in ("roc", "average_precision"):
        raise ValueError(f"measure must be 'roc' or 'average_precision', found {measure!r}.")
    data = prepare(labels, scores, groups)
    area = _roc_area if measure == "roc" else _average_precision
    setting = f"{n_resamples} resamples of {data.unit}s, seed {seed}"
    method = f"{measure}, percentile bootstrap, {setting}"
    if data.lacking():
        return undefined(method, join(data.lacking(), data.note), ci_level=ci_level)
    if measure != "roc":
        method += f", prevalence {data.positive.mean():.3g}"
    table = count(data)[0]
    estimate = float(area(*table.of(np.ones((1, data.n_documents))))[0])
    blocks = resamples(data, n_resamples, seed, table.values.size)
    draws = np.concatenate([area(*table.of(weights)) for weights in blocks])
    n_documents = min(data.documents_of(True), data.documents_of(False))
    few = data.grouped and n_documents < FEW_DOCUMENTS
    low, high = np.quantile(draws, [(1 - ci_level) / 2, (1 + ci_level) / 2])
    if few or high - low < TIE:
        why = f"fewer than {FEW_DOCUMENTS} documents with one class" if few else ""
        why = why or ("perfect separation" if estimate in (0.0, 1.0) else "draws do not vary")
        return over_documents(
            estimate,
            n_documents,
            ci_level=ci_level,
            n=float(data.positive.size),
            unit=data.unit,
            note=join(why, data.note),
        )
    left_out = n_resamples - draws.size
    return Interval(
        estimate,
        float(low),
        float(high),
        ci_level=ci_level,
        method=method,
        note=join(f"{left_out} draws without both classes left out" if left_out else "", data.note),
        n=float(data.positive.size),
        n_clusters=float(data.n_documents) if data.grouped else NAN,
        se=float(draws.std(ddof=1)),
    )


def _roc_area(positive: Floats, negative: Floats) -> NDArray[np.float64]:
    below = np.cumsum(negative, axis=-1) - negative / 2.0
    pairs = positive.sum(axis=-1) * negative.sum(axis=-1)
    return np.asarray((positive * below).sum(axis=-1) / pairs)


def _average_precision(positive: Floats, negative: Floats) -> NDArray[np.float64]:
    flagged = np.cumsum((positive + negative)[..., ::-1], axis=-1)
    found = np.cumsum(positive[..., ::-1], axis=-1)
    precision = np.divide(found, flagged, out=np.zeros_like(found), where=flagged > 0)
    total = positive.sum(axis=-1)
    return np.asarray((precision * positive[..., ::-1]).sum(axis=-1) / total)
