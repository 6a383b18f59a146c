"""How well a score separates two classes: the area under its ROC curve and how sure that is.

Labels are 1 for what should be flagged; a higher score means "flag", always: no curve is turned
round silently. Every function takes ``groups``, the document of each row. With documents, they are
the unit of evidence: variances, resamples and exact intervals count documents, not rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse, stats
from scipy.optimize import brentq

from skillcomp.errors import plural
from skillcomp.stats.bounded import RATES
from skillcomp.stats.results import NAN, Interval, check_level, join_notes, quantile, undefined

Floats = NDArray[np.float64]

_SMALL_CLASS = 30  # rows or documents; below, DeLong limits are made on the logit scale
_EXTREME = 0.9  # area above which (or below 1 minus which) they are, too: plain covers 83 % at .98
_TIE = 1e-12  # sums of rates carry rounding of this order
_FEW_DOCUMENTS = 10  # below, only Clopper-Pearson over documents is given
_FEW = f"fewer than {_FEW_DOCUMENTS} documents with one class"
_CELLS_AT_ONCE = 2_000_000  # float64 cells of one block of _resamples, 16 MB


@dataclass(frozen=True, slots=True)
class _Labelled:
    """Rows with a label, one or more scores and a document, missing rows removed."""

    positive: NDArray[np.bool_]
    scores: Floats  # rows x candidates
    documents: NDArray[np.int64]
    n_documents: int
    grouped: bool
    note: str

    @property
    def unit(self) -> str:
        """Return the word for the unit of evidence: document, or row where none was given."""
        return "document" if self.grouped else "row"

    @property
    def fewest_documents(self) -> int:
        """Return the number of documents that hold a row of the rarer class."""
        classes = (self.positive, ~self.positive)
        return min(int(np.unique(self.documents[rows]).size) for rows in classes)

    @property
    def name(self) -> str:
        """Return the name of the method that counts these units."""
        return "Obuchowski (DeLong by document)" if self.grouped else "DeLong"

    @property
    def counts(self) -> tuple[float, float]:
        """Return the rows, and the documents where there are any."""
        return float(self.positive.size), float(self.n_documents) if self.grouped else NAN

    def lacking(self) -> str:
        """Return why no curve exists, or an empty string."""
        if self.positive.all() or not self.positive.any():
            only = "no rows" if not self.positive.size else "one class only"
            return f"not defined: {only}"
        return ""


def _prepare(labels: ArrayLike, scores: ArrayLike, groups: ArrayLike | None) -> _Labelled:
    """Check lengths and labels, drop rows with a missing value and number the documents."""
    label = np.asarray(labels, dtype=np.float64).ravel()
    score = np.asarray(scores, dtype=np.float64)
    score = score[:, None] if score.ndim == 1 else score
    raw = np.arange(label.size) if groups is None else np.asarray(groups, dtype=object).ravel()
    if not label.size == score.shape[0] == raw.size:
        raise ValueError(
            "labels, scores and groups must be equally long, "
            f"found {label.size}, {score.shape[0]} and {raw.size}."
        )
    odd = label[~np.isnan(label) & (label != 0) & (label != 1)]
    if odd.size:
        raise ValueError(f"labels must be 0 or 1 (or missing), found {odd[0]:g}.")
    absent = [groups is not None and (g is None or g != g) for g in raw]
    keep = ~(np.isnan(label) | np.isnan(score).any(axis=1) | np.array(absent, dtype=bool))
    seen: dict[Any, int] = {}
    codes = np.array([seen.setdefault(g, len(seen)) for g in raw[keep].tolist()], dtype=np.int64)
    dropped = int((~keep).sum())
    note = f"{plural(dropped, 'row')} without label, score or document left out" if dropped else ""
    return _Labelled(label[keep] == 1, score[keep], codes, len(seen), groups is not None, note)


def _resamples(data: _Labelled, n_resamples: int, seed: int, width: int) -> Iterator[Floats]:
    """Yield blocks of document weights, each row a draw of all documents with replacement.

    Draws that lack a class are left out, as no curve exists for them.
    """
    rng = np.random.default_rng(seed)
    share = np.full(data.n_documents, 1.0 / data.n_documents)
    holds = [
        np.bincount(data.documents[rows], minlength=data.n_documents).astype(np.float64)
        for rows in (data.positive, ~data.positive)
    ]
    block = max(1, _CELLS_AT_ONCE // max(width, data.n_documents))
    for start in range(0, n_resamples, block):
        size = min(block, n_resamples - start)
        weights = rng.multinomial(data.n_documents, share, size=size).astype(np.float64)
        yield weights[(weights @ holds[0] > 0) & (weights @ holds[1] > 0)]


def _over_documents(
    data: _Labelled, estimate: float, n_documents: int, ci_level: float, why: str
) -> Interval:
    """Return Clopper-Pearson limits that count every document once, however many rows it holds.

    A share that is no whole number of documents enters the beta quantiles as it is, which is the
    exact interval at 0 and 1 and lies between the neighbouring exact intervals elsewhere.
    """
    tail = (1.0 - ci_level) / 2.0
    right = estimate * n_documents
    wrong = n_documents - right
    low = float(stats.beta.ppf(tail, right, wrong + 1.0)) if right > 0 else 0.0
    high = float(stats.beta.ppf(1.0 - tail, right + 1.0, wrong)) if wrong > 0 else 1.0
    method, note = f"Clopper-Pearson over {n_documents} {data.unit}s", join_notes(why, data.note)
    n = float(data.positive.size)
    return Interval(estimate, low, high, ci_level, method, note, n, n_documents)


def _placements(data: _Labelled) -> tuple[Floats, Floats, Floats]:
    """Return the AUC and the centred placement values of each class, per candidate score."""
    positive, negative = data.scores[data.positive], data.scores[~data.positive]
    m, n = len(positive), len(negative)
    ranks = stats.rankdata(data.scores, axis=0)
    above = (ranks[data.positive] - stats.rankdata(positive, axis=0)) / n
    below = 1.0 - (ranks[~data.positive] - stats.rankdata(negative, axis=0)) / m
    auc = above.mean(axis=0)
    return auc, above - auc, below - auc


def _covariance(data: _Labelled, above: Floats, below: Floats) -> Floats:
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


def _quantile(data: _Labelled, ci_level: float) -> tuple[float, float]:
    """Return the two-sided quantile and its degrees of freedom; normal without documents."""
    if not data.grouped:
        return quantile(ci_level), NAN
    df = float(data.fewest_documents - 1)
    return quantile(ci_level, df), df


def _single(data: _Labelled, auc: float, variance: float, scale: str, ci_level: float) -> Interval:
    n_documents = data.fewest_documents
    if data.grouped and n_documents < _FEW_DOCUMENTS:
        why = f"{_FEW}: counted by document"
        return _over_documents(data, auc, n_documents, ci_level, why)
    # Rounding leaves about 1e-34 where the placements are constant.
    if not variance > _TIE**2:
        why = "perfect separation" if auc in (0.0, 1.0) else "no variance to estimate"
        return _over_documents(data, auc, n_documents, ci_level, why)
    se = math.sqrt(variance)
    hard = n_documents < _SMALL_CLASS or max(auc, 1.0 - auc) > _EXTREME
    logit = scale == "logit" or (scale == "auto" and hard)
    q, df = _quantile(data, ci_level)
    if logit:
        centre, spread = math.log(auc / (1.0 - auc)), q * se / (auc * (1.0 - auc))
        low, high = (1.0 / (1.0 + math.exp(-(centre + s * spread))) for s in (-1.0, 1.0))
    else:
        low, high = max(0.0, auc - q * se), min(1.0, auc + q * se)
    method = f"{data.name}, {'logit' if logit else 'plain'} scale, {'t' if data.grouped else 'z'}"
    return Interval(auc, low, high, ci_level, method, data.note, *data.counts, se, df)


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
    data = _prepare(labels, scores, groups)
    if data.lacking():
        return undefined("DeLong", join_notes(data.lacking(), data.note), ci_level=ci_level)
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
    data = _prepare(labels, both, groups)
    if data.lacking():
        return undefined("DeLong, paired", join_notes(data.lacking(), data.note), ci_level=ci_level)
    auc, above, below = _placements(data)
    covariance = _covariance(data, above, below)
    delta = float(auc[0] - auc[1])
    variance = float(covariance[0, 0] + covariance[1, 1] - 2.0 * covariance[0, 1])
    few = data.grouped and data.fewest_documents < _FEW_DOCUMENTS
    if few or not variance > _TIE**2:
        a, b = (
            _single(data, float(auc[k]), float(covariance[k, k]), "auto", ci_level) for k in (0, 1)
        )
        why = _FEW if few else "no variance"
        note = join_notes(f"{why}: no credit for the pairing", data.note)
        method, p_value = "MOVER of the single intervals", 1.0 if abs(delta) < _TIE else NAN
        found = a.minus(b)
        ends = delta, found.low, found.high
        return Interval(*ends, ci_level, method, note, *data.counts, p_value=p_value)
    se = math.sqrt(variance)
    q, df = _quantile(data, ci_level)
    tail = stats.t.sf(abs(delta) / se, df) if data.grouped else stats.norm.sf(abs(delta) / se)
    low, high = max(-1.0, delta - q * se), min(1.0, delta + q * se)
    method, p_value = f"{data.name}, paired, {'t' if data.grouped else 'z'}", float(2.0 * tail)
    return Interval(delta, low, high, ci_level, method, data.note, *data.counts, se, df, p_value)


def bootstrap_auc(
    labels: ArrayLike,
    scores: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    n_resamples: int = 2000,
    seed: int = 0,
    ci_level: float = 0.95,
) -> Interval:
    """Area under the ROC curve with a bootstrap over whole documents.

    Parameters
    ----------
    labels, scores, groups
        As in `delong`.
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
    is the first choice.

    Examples
    --------
    >>> bootstrap_auc([0, 0, 0, 1, 1], [1, 2, 3, 4, 5]).note
    'perfect separation'
    """
    check_level(ci_level)
    data = _prepare(labels, scores, groups)
    method = f"roc, percentile bootstrap, {n_resamples} resamples of {data.unit}s, seed {seed}"
    if data.lacking():
        return undefined(method, join_notes(data.lacking(), data.note), ci_level=ci_level)
    tables = _counts(data)

    def area(weights: Floats) -> Floats:
        positive, negative = (np.asarray(weights @ table) for table in tables)
        below = np.cumsum(negative, axis=-1) - negative / 2.0
        pairs = positive.sum(axis=-1) * negative.sum(axis=-1)
        return np.asarray((positive * below).sum(axis=-1) / pairs)

    estimate = float(area(np.ones((1, data.n_documents)))[0])
    blocks = _resamples(data, n_resamples, seed, tables[0].shape[1])
    draws = np.concatenate([area(weights) for weights in blocks])
    n_documents = data.fewest_documents
    few = data.grouped and n_documents < _FEW_DOCUMENTS
    low, high = np.quantile(draws, [(1 - ci_level) / 2, (1 + ci_level) / 2])
    if few or high - low < _TIE:
        why = _FEW if few else ""
        why = why or ("perfect separation" if estimate in (0.0, 1.0) else "draws do not vary")
        return _over_documents(data, estimate, n_documents, ci_level, why)
    left_out = n_resamples - draws.size
    skipped = f"{left_out} draws without both classes left out" if left_out else ""
    note, se = join_notes(skipped, data.note), float(draws.std(ddof=1))
    return Interval(estimate, float(low), float(high), ci_level, method, note, *data.counts, se)


def _counts(data: _Labelled) -> tuple[sparse.csr_array, sparse.csr_array]:
    """Count the rows of each class, positives first, by document and distinct score."""
    values, code = np.unique(data.scores[:, 0], return_inverse=True)
    shape = (data.n_documents, values.size)
    positive, negative = (
        sparse.coo_array(
            (np.ones(int(rows.sum())), (data.documents[rows], code[rows])), shape=shape
        ).tocsr()
        for rows in (data.positive, ~data.positive)
    )
    return positive, negative


def clean_needed(max_rate: float, *, ci_level: float = 0.95) -> int:
    """How many negatives without one flag bound the false-flag rate at ``max_rate``.

    Parameters
    ----------
    max_rate : float
        Wanted upper limit of the rate, strictly between 0 and 1.
    ci_level : float, default 0.95
        Confidence level of the two-sided interval.

    Returns
    -------
    int
        Smallest n for which 0 of n has its upper limit at or below ``max_rate``, by
        :func:`skillcomp.stats.bounded.bounded_mean`: the quantile of a beta distribution.

    Examples
    --------
    >>> clean_needed(0.1), clean_needed(0.05)
    (30, 62)
    """
    check_level(ci_level)
    if not 0.0 < max_rate < 1.0:
        raise ValueError(f"max_rate must lie strictly between 0 and 1, found {max_rate!r}.")

    def excess(n: float) -> float:
        return float(stats.beta.ppf((1.0 + ci_level) / 2.0, RATES.c, n)) - max_rate

    # Clopper-Pearson, with a whole pseudo-case, needs no fewer
    most = math.ceil(math.log((1.0 - ci_level) / 2.0) / math.log1p(-max_rate))
    if excess(1.0) <= 0:
        return 1
    return math.ceil(float(brentq(excess, 1.0, most + 1.0)) - 1e-9)
