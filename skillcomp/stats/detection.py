"""Area under the ROC curve of a score, and number of negatives needed to bound a rate.

A text that should be flagged has the label 1. A higher score always means "flag", so an area below
0.5 is not replaced by 1 minus the area.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import sparse, stats
from scipy.optimize import brentq

from skillcomp.errors import plural
from skillcomp.stats.bounded import RATES
from skillcomp.stats.resampling import resampled_values
from skillcomp.stats.results import (
    NAN,
    Bools,
    Floats,
    Indices,
    Interval,
    check_level,
    join_notes,
    undefined,
)

_TIE = 1e-12  # two limits that differ by less than this differ only by rounding
_FEW_DOCUMENTS = 10  # With fewer documents than this, Clopper-Pearson limits are used.
_FEW = f"fewer than {_FEW_DOCUMENTS} documents with one class"


@dataclass(frozen=True, slots=True)
class _Labelled:
    """Label, score and document code of each row; rows with a missing value are left out."""

    positive: Bools
    scores: Floats
    documents: Indices
    n_documents: int
    clustered: bool
    note: str

    @property
    def unit(self) -> str:
        """The unit that is resampled: document, or row if no documents were given."""
        return "document" if self.clustered else "row"

    @property
    def fewest_documents(self) -> int:
        """The number of documents with positives or with negatives, whichever is smaller."""
        classes = (self.positive, ~self.positive)
        return min(int(np.unique(self.documents[rows]).size) for rows in classes)


def _complete_rows(labels: ArrayLike, scores: ArrayLike, clusters: ArrayLike | None) -> _Labelled:
    """Check lengths and labels, drop rows with a missing value, and number the documents."""
    label = np.asarray(labels, float).ravel()
    score = np.asarray(scores, float).ravel()
    names = np.arange(label.size) if clusters is None else np.asarray(clusters, object).ravel()
    if not label.size == score.size == names.size:
        sizes = f"{label.size}, {score.size} and {names.size}"
        raise ValueError(f"labels, scores and clusters must be equally long, found {sizes}.")
    odd = label[~np.isnan(label) & (label != 0) & (label != 1)]
    if odd.size:
        raise ValueError(f"labels must be 0 or 1 (or missing), found {odd[0]:g}.")
    keep = ~(np.isnan(label) | np.isnan(score) | pd.isna(names))
    codes, documents = pd.factorize(names[keep])
    dropped = int((~keep).sum())
    note = f"{plural(dropped, 'row')} without label, score or document left out" if dropped else ""
    clustered = clusters is not None
    return _Labelled(label[keep] == 1, score[keep], codes, len(documents), clustered, note)


def _exact_over_documents(data: _Labelled, estimate: float, ci_level: float, why: str) -> Interval:
    """Return Clopper-Pearson limits that count every document once, however many rows it has.

    If the estimate times the number of documents is not a whole number, the limits are between
    those of the two nearest whole numbers.
    """
    # imported here because the import is slow and most results need no such limits
    from statsmodels.stats.proportion import proportion_confint

    n_documents = data.fewest_documents
    right = estimate * n_documents
    low, high = proportion_confint(right, n_documents, 1.0 - ci_level, method="beta")
    method, note = f"Clopper-Pearson over {n_documents} {data.unit}s", join_notes(why, data.note)
    n = float(data.positive.size)
    return Interval(estimate, float(low), float(high), ci_level, method, note, n, n_documents)


def bootstrap_auc(
    labels: ArrayLike,
    scores: ArrayLike,
    *,
    clusters: ArrayLike | None = None,
    n_resamples: int = 2000,
    seed: int = 0,
    ci_level: float = 0.95,
) -> Interval:
    """Estimate the area under the ROC curve with a bootstrap over whole documents.

    The area is the chance that a random positive scores above a random negative; a tie counts one
    half.

    Parameters
    ----------
    labels : array_like of {0, 1}
        1 if the text should be flagged, otherwise 0. Rows with a missing label, score or document
        are left out and counted in ``note``.
    scores : array_like of float
        Score of each text; higher means "flag".
    clusters : array_like, optional
        Document of each row; if omitted, each row is a document.
    n_resamples : int, default 2000
        Number of resamples of the documents. Resamples without positives or without negatives are
        left out.
    seed : int, default 0
        Seed of the resampling.
    ci_level : float, default 0.95
        Confidence level.

    Returns
    -------
    Interval
        Area with percentile limits and the bootstrap standard error. The limits are Clopper-Pearson
        over documents, with a note, if the resamples do not vary (perfect separation), or if fewer
        than 10 documents have positives or fewer than 10 have negatives. NaN with a note if there
        are no positives or no negatives.

    Raises
    ------
    ValueError
        If a label is not 0, 1 or missing, lengths differ, or the level is not between 0 and 1.

    Notes
    -----
    The percentile interval is too narrow when there are few documents.

    Examples
    --------
    >>> bootstrap_auc([0, 0, 0, 1, 1], [1, 2, 3, 4, 5]).note
    'perfect separation'
    """
    check_level(ci_level)
    data = _complete_rows(labels, scores, clusters)
    positive = data.positive
    method = f"roc, percentile bootstrap, {n_resamples} resamples of {data.unit}s, seed {seed}"
    if positive.all() or not positive.any():
        why = "not defined: one class only" if positive.size else "not defined: no rows"
        return undefined(method, join_notes(why, data.note), ci_level=ci_level)
    # the numbers of positives and of negatives, by document and distinct score
    values, codes = np.unique(data.scores, return_inverse=True)
    shape = (data.n_documents, values.size)
    positives, negatives = (
        sparse.coo_array(
            (np.ones(int(rows.sum())), (data.documents[rows], codes[rows])), shape=shape
        ).tocsr()
        for rows in (positive, ~positive)
    )

    def area(weights: Floats) -> Floats:
        above, below = np.asarray(weights @ positives), np.asarray(weights @ negatives)
        rank = np.cumsum(below, axis=-1) - below / 2.0
        pairs = above.sum(axis=-1) * below.sum(axis=-1)
        # a resample without positives or without negatives has no ROC curve
        with np.errstate(invalid="ignore"):
            return np.asarray((above * rank).sum(axis=-1) / pairs)

    estimate = float(area(np.ones((1, data.n_documents)))[0])
    draws = resampled_values(area, data.n_documents, n_resamples, seed, width=positives.shape[1])
    low, high = np.quantile(draws, [(1 - ci_level) / 2, (1 + ci_level) / 2])
    if data.clustered and data.fewest_documents < _FEW_DOCUMENTS:
        return _exact_over_documents(data, estimate, ci_level, _FEW)
    if high - low < _TIE:
        why = "perfect separation" if estimate in (0.0, 1.0) else "draws do not vary"
        return _exact_over_documents(data, estimate, ci_level, why)
    left_out = n_resamples - draws.size
    skipped = f"{left_out} draws without both classes left out" if left_out else ""
    note, se = join_notes(skipped, data.note), float(draws.std(ddof=1))
    sizes = float(positive.size), float(data.n_documents) if data.clustered else NAN
    return Interval(estimate, float(low), float(high), ci_level, method, note, *sizes, se)


def clean_needed(max_rate: float, *, ci_level: float = 0.95) -> int:
    """Return how many negatives, none of them flagged, suffice to bound the false-flag rate.

    Parameters
    ----------
    max_rate : float
        Wanted upper bound of the false-flag rate, strictly between 0 and 1.
    ci_level : float, default 0.95
        Confidence level of the two-sided interval.

    Returns
    -------
    int
        Smallest n for which the upper limit of :func:`skillcomp.stats.bounded.bounded_mean` for 0
        of n is at most ``max_rate``.

    Examples
    --------
    >>> clean_needed(0.1), clean_needed(0.05)
    (30, 62)
    """
    c = float(RATES.weight_at(1.0 - ci_level))

    def excess(n: float) -> float:
        return float(stats.beta.ppf((1.0 + ci_level) / 2.0, c, n)) - max_rate

    # The Clopper-Pearson limit has a pseudo-case of weight 1, which is at least c. It needs at
    # least as many negatives as the limit with weight c, so its n is an upper bound for the search.
    most = math.ceil(math.log((1.0 - ci_level) / 2.0) / math.log1p(-max_rate))
    if excess(1.0) <= 0:
        return 1
    return math.ceil(float(brentq(excess, 1.0, most + 1.0)) - 1e-9)
