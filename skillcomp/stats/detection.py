"""Area under the ROC curve of a score, and number of negatives needed to bound a rate.

A text that should be flagged has the label 1. A higher score always means "flag", so an area below
0.5 is not replaced by 1 minus the area.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import sparse, stats

from skillcomp.errors import plural
from skillcomp.stats.bounded import RATES
from skillcomp.stats.intervals import resampled_values
from skillcomp.stats.results import (
    NAN,
    Floats,
    Interval,
    check_level,
    join_notes,
    undefined,
)

_TIE = 1e-12  # two limits that differ by less than this differ only by rounding
_FEW_DOCUMENTS = 10  # With fewer documents than this, Clopper-Pearson limits are used.


def _complete_rows(
    labels: ArrayLike, scores: ArrayLike, clusters: ArrayLike | None
) -> tuple[pd.DataFrame, str]:
    """Check lengths and labels, and drop rows with a missing value, with a note on these.

    The columns are positive, score and document, the number of the document.
    """
    label, score = (np.asarray(values, float).ravel() for values in (labels, scores))
    names = np.arange(label.size) if clusters is None else np.asarray(clusters, object).ravel()
    if not label.size == score.size == names.size:
        sizes = f"{label.size}, {score.size} and {names.size}"
        raise ValueError(f"labels, scores and clusters must be equally long, found {sizes}.")
    rows = pd.DataFrame({"label": label, "score": score, "document": names})
    complete = rows.dropna()
    odd = label[~np.isnan(label) & (label != 0) & (label != 1)]
    if odd.size:
        raise ValueError(f"labels must be 0 or 1 (or missing), found {odd[0]:g}.")
    dropped = len(rows) - len(complete)
    note = f"{plural(dropped, 'row')} without label, score or document left out" if dropped else ""
    codes = pd.factorize(complete["document"])[0]
    return complete.assign(positive=complete["label"].eq(1), document=codes), note


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
    rows, note = _complete_rows(labels, scores, clusters)
    positive, documents = rows["positive"].to_numpy(), rows["document"].to_numpy()
    unit = "row" if clusters is None else "document"
    method = f"roc, percentile bootstrap, {n_resamples} resamples of {unit}s, seed {seed}"
    if positive.all() or not positive.any():
        why = "not defined: one class only" if positive.size else "not defined: no rows"
        return undefined(method, join_notes(why, note), ci_level=ci_level)
    # the numbers of positives and of negatives, by document and distinct score
    values, codes = np.unique(rows["score"], return_inverse=True)
    n_documents = int(documents.max()) + 1
    shape = (n_documents, values.size)
    positives, negatives = (
        sparse.coo_array((np.ones(at.sum()), (documents[at], codes[at])), shape=shape).tocsr()
        for at in (positive, ~positive)
    )

    def area(weights: Floats) -> Floats:
        above, below = np.asarray(weights @ positives), np.asarray(weights @ negatives)
        rank = np.cumsum(below, axis=-1) - below / 2.0
        pairs = above.sum(axis=-1) * below.sum(axis=-1)
        # a resample without positives or without negatives has no ROC curve
        with np.errstate(invalid="ignore"):
            return np.asarray((above * rank).sum(axis=-1) / pairs)

    estimate = float(area(np.ones((1, n_documents)))[0])
    draws = resampled_values(area, n_documents, n_resamples, seed, width=values.size)
    low, high = np.quantile(draws, [(1 - ci_level) / 2, (1 + ci_level) / 2])
    fewest, few = min(np.unique(documents[at]).size for at in (positive, ~positive)), ""
    if clusters is not None and fewest < _FEW_DOCUMENTS:
        few = f"fewer than {_FEW_DOCUMENTS} documents with one class"
    elif high - low < _TIE:
        few = "perfect separation" if estimate in (0.0, 1.0) else "draws do not vary"
    bootstrap = Interval(estimate, float(low), float(high), ci_level, method, note, positive.size)
    if few:
        # imported here because the import is slow and most results need no such limits
        from statsmodels.stats.proportion import proportion_confint

        # Every document counts once, however many rows it has. If the estimate times their number
        # is not a whole number, the limits are between those of the two nearest ones.
        low, high = proportion_confint(estimate * fewest, fewest, 1.0 - ci_level, method="beta")
        exact = f"Clopper-Pearson over {fewest} {unit}s"
        bootstrap = replace(bootstrap, low=float(low), high=float(high), method=exact)
        return replace(bootstrap, n_clusters=fewest).with_note(first=few)
    left_out = n_resamples - draws.size
    skipped = f"{left_out} draws without both classes left out" if left_out else ""
    n_clusters = NAN if clusters is None else n_documents
    bootstrap = replace(bootstrap, n_clusters=n_clusters, se=float(draws.std(ddof=1)))
    return bootstrap.with_note(first=skipped)


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

    def is_bounded(n: int) -> bool:
        return bool(stats.beta.ppf((1.0 + ci_level) / 2.0, c, n) <= max_rate)

    # The Clopper-Pearson limit has a pseudo-case of weight 1, which is at least c. It needs at
    # least as many negatives as the limit with weight c, so its n is an upper bound for the search.
    most = math.ceil(math.log((1.0 - ci_level) / 2.0) / math.log1p(-max_rate))
    return 1 + bisect_left(range(1, most + 1), True, key=is_bounded)
