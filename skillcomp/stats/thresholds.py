"""Where to cut a score, how sure the cut is, and what it catches. Public through ``detection``."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skillcomp.stats._curve import (
    FEW_DOCUMENTS,
    Counts,
    Criterion,
    Floats,
    Labelled,
    as_criterion,
    count,
    join,
    over_documents,
    pick,
    prepare,
    rates,
    resamples,
)
from skillcomp.stats.effective import wilson_effective
from skillcomp.stats.results import NAN, Interval, check_level

__all__ = [
    "OperatingPoint",
    "Threshold",
    "at_threshold",
    "choose_threshold",
    "clean_needed",
    "rate_by_document",
]


@dataclass(frozen=True, slots=True)
class Threshold(Interval):
    """A chosen cut: flag every score at or above ``estimate``.

    ``low`` and ``high`` are bootstrap limits of the cut, never narrower than the gap between the
    two neighbouring scores, inside which every cut flags the same rows.

    Attributes
    ----------
    sensitivity, specificity : float
        Share of positives flagged and of negatives not flagged, on the rows the cut was picked on:
        optimistic (see `skillcomp.stats.crossvalidation`).
    gain : float
        Value of the criterion at the cut: Youden's J, minus the cost, or the sensitivity.
    gap_low, gap_high : float
        Largest score not flagged and smallest score flagged; infinite where there is none.
    near_optimal : float
        Average of the neighbouring cuts whose gain is within ``tolerance`` of the best, steadier
        than the best cut alone. NaN when none of them is finite.
    cuts, shares : tuple of float
        Cuts chosen in the resamples, ascending, and the share of resamples for each.
    """

    sensitivity: float = NAN
    specificity: float = NAN
    gain: float = NAN
    gap_low: float = NAN
    gap_high: float = NAN
    near_optimal: float = NAN
    cuts: tuple[float, ...] = ()
    shares: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """What one cut does: rates with intervals.

    Attributes
    ----------
    cut : float
        Scores at or above it are flagged.
    sensitivity, specificity : Interval
        Share of positives flagged, share of negatives not flagged.
    precision : Interval
        Share of flagged rows that are positive, at the prevalence of this sample.
    prevalence : float
        Share of positives in this sample.
    """

    cut: float
    sensitivity: Interval
    specificity: Interval
    precision: Interval
    prevalence: float


def rate_by_document(
    values: ArrayLike, documents: ArrayLike | None, *, ci_level: float = 0.95, note: str = ""
) -> Interval:
    """Score interval of a mean of shares in 0..1 whose unit of evidence is the document.

    Parameters
    ----------
    values : array_like of float in 0..1
        One value per row.
    documents : array_like or None
        Document of each row; None makes every row its own.
    ci_level : float, default 0.95
        Confidence level.
    note : str
        Passed on.

    Returns
    -------
    Interval
        `skillcomp.stats.clusters.wilson_effective` with documents as clusters. From fewer than 10
        documents: Clopper-Pearson over documents. NaN with a note without rows.

    Examples
    --------
    >>> rate_by_document([1, 1, 0, 1], None).method
    'Wilson on effective n 4.0, z'
    """
    value = np.asarray(values, dtype=np.float64)
    if documents is not None and value.size:
        n_documents = np.unique(np.asarray(documents)).size
        if n_documents < FEW_DOCUMENTS:
            few = f"only {n_documents} documents: counted by document"
            return over_documents(
                float(value.mean()),
                n_documents,
                ci_level=ci_level,
                n=float(value.size),
                unit="document",
                note=join(few, note),
            )
    found = wilson_effective(value, documents, ci_level=ci_level)
    return replace(found, note=join("not defined: no rows" if not value.size else "", note))


def at_threshold(
    labels: ArrayLike,
    scores: ArrayLike,
    cut: float,
    *,
    groups: ArrayLike | None = None,
    ci_level: float = 0.95,
) -> OperatingPoint:
    """Report what a cut catches and what it flags wrongly, on rows it was not picked on.

    Parameters
    ----------
    labels, scores, groups
        As in `skillcomp.stats.detection.delong`; the limits are those of `rate_by_document`.
    cut : float
        Scores at or above it are flagged.
    ci_level : float, default 0.95
        Confidence level.

    Returns
    -------
    OperatingPoint
        Each rate is NaN with a note where it has no rows.

    Notes
    -----
    On the rows the cut was picked on these rates are too good; use
    `skillcomp.stats.crossvalidation`.

    Examples
    --------
    >>> point = at_threshold([1, 1, 0, 0], [0.9, 0.2, 0.3, 0.1], 0.5)
    >>> point.sensitivity.estimate, point.specificity.estimate
    (0.5, 1.0)
    """
    check_level(ci_level)
    if math.isnan(cut):
        raise ValueError("cut must be a number, found nan.")
    data = prepare(labels, scores, groups)
    flagged = data.scores[:, 0] >= cut

    def rate(rows: NDArray[np.bool_], hit: NDArray[np.bool_], note: str = "") -> Interval:
        documents = data.documents[rows] if data.grouped else None
        return rate_by_document(hit[rows], documents, ci_level=ci_level, note=join(note, data.note))

    return OperatingPoint(
        cut=float(cut),
        sensitivity=rate(data.positive, flagged),
        specificity=rate(~data.positive, ~flagged),
        precision=rate(flagged, data.positive, "at the prevalence of this sample"),
        prevalence=float(data.positive.mean()) if data.positive.size else NAN,
    )


def clean_needed(max_rate: float, *, ci_level: float = 0.95) -> int:
    """How many negatives without one flag bound the false-flag rate at ``max_rate``.

    Parameters
    ----------
    max_rate : float
        Wanted upper limit of the two-sided Clopper-Pearson interval, strictly between 0 and 1.
    ci_level : float, default 0.95
        Confidence level.

    Returns
    -------
    int
        Smallest n for which 0 of n has its upper limit at or below ``max_rate``.

    Examples
    --------
    36 clean passages bound the rate at 9.7 %, 72 bound it at 5 %.

    >>> clean_needed(0.0974), clean_needed(0.05)
    (36, 72)
    """
    check_level(ci_level)
    if not 0.0 < max_rate < 1.0:
        raise ValueError(f"max_rate must lie strictly between 0 and 1, found {max_rate!r}.")
    return math.ceil(math.log((1.0 - ci_level) / 2.0) / math.log1p(-max_rate))


def choose_threshold(
    labels: ArrayLike,
    scores: ArrayLike,
    *,
    criterion: str | Criterion = "youden",
    groups: ArrayLike | None = None,
    tolerance: float = 0.02,
    n_resamples: int = 2000,
    seed: int = 0,
    ci_level: float = 0.95,
) -> Threshold:
    """Where to cut the score, and how much the cut would move with other documents.

    Parameters
    ----------
    labels, scores, groups
        As in `skillcomp.stats.detection.delong`.
    criterion : str or Criterion, default "youden"
        What the cut must do best; a cost needs ``Criterion("cost", prevalence=...)``.
    tolerance : float, default 0.02
        Loss of gain up to which a neighbouring cut counts as near-optimal.
    n_resamples, seed : int
        Draws of whole documents in which the cut is chosen again.
    ci_level : float, default 0.95
        Level of the percentile limits of the cut.

    Returns
    -------
    Threshold
        The cut halfway between two scores. Among equally good cuts the highest is taken: fewest
        rows flagged. Infinite when flagging nothing (or everything) is best. NaN with a note when
        a class is absent.

    Notes
    -----
    Youden's cut is noisy on small samples: read ``cuts`` and ``shares``, and prefer
    ``near_optimal`` when the choice is free.

    References
    ----------
    Youden 1950, Cancer 3:32-35.

    Examples
    --------
    >>> cut = choose_threshold([0, 0, 1, 1], [0.1, 0.3, 0.5, 0.9])
    >>> cut.estimate, cut.sensitivity, cut.specificity
    (0.4, 1.0, 1.0)
    """
    check_level(ci_level)
    rule = as_criterion(criterion)
    data = prepare(labels, scores, groups)
    method = f"{rule.describe()}; percentile bootstrap, {n_resamples} resamples of {data.unit}s, "
    method += f"seed {seed}"
    if data.lacking():
        return Threshold(
            NAN, NAN, NAN, ci_level=ci_level, method=method, note=join(data.lacking(), data.note)
        )
    table = count(data)[0]
    positive, negative = table.of(np.ones((1, data.n_documents)))
    best = pick(positive, negative, table.values, rule)
    sensitivity, specificity = (r[0] for r in rates(positive, negative))
    at = int(best.index[0])
    draws = _redraw(data, table, rule, n_resamples, seed)
    low, high = _limits(draws, ci_level)
    cuts, counts = np.unique(draws[2], return_counts=True)
    left_out = n_resamples - draws.shape[1]
    skipped = f"{left_out} draws without both classes left out" if left_out else ""
    gain = rule.gain(sensitivity, specificity)
    return Threshold(
        float(best.cut[0]),
        min(low, float(best.low[0])),
        max(high, float(best.high[0])),
        ci_level=ci_level,
        method=method,
        note=join(_few(data), skipped, data.note),
        n=float(data.positive.size),
        n_clusters=float(data.n_documents) if data.grouped else NAN,
        sensitivity=float(sensitivity[at]),
        specificity=float(specificity[at]),
        gain=float(best.gain[0]),
        gap_low=float(best.low[0]),
        gap_high=float(best.high[0]),
        near_optimal=_near_optimal(table.values, gain, at, tolerance),
        cuts=tuple(cuts.tolist()),
        shares=tuple((counts / max(draws.shape[1], 1)).tolist()),
    )


def _limits(draws: Floats, ci_level: float) -> tuple[float, float]:
    """Return percentile limits of the cut that are scores themselves; NaN without draws."""
    if not draws.size:
        return NAN, NAN
    tail = (1.0 - ci_level) / 2.0
    return (
        float(np.quantile(draws[0], tail, method="inverted_cdf")),
        float(np.quantile(draws[1], 1.0 - tail, method="inverted_cdf")),
    )


def _few(data: Labelled) -> str:
    fewest = min(data.documents_of(True), data.documents_of(False))
    if fewest >= FEW_DOCUMENTS:
        return ""
    return f"only {fewest} {data.unit}s hold the rarer class: limits of the cut are rough"


def _redraw(data: Labelled, table: Counts, rule: Criterion, n_resamples: int, seed: int) -> Floats:
    """Return lower score, upper score and cut of every resample: three rows."""
    blocks = [np.empty((3, 0))]
    for weights in resamples(data, n_resamples, seed, table.values.size):
        picked = pick(*table.of(weights), table.values, rule)
        blocks.append(np.stack([picked.low, picked.high, picked.cut]))
    return np.concatenate(blocks, axis=1)


def _near_optimal(values: Floats, gain: Floats, at: int, tolerance: float) -> float:
    """Average the finite cuts of the unbroken stretch around the best with nearly its gain."""
    good = np.concatenate([[False], gain >= gain[at] - tolerance, [False]])
    first = at + 1 - int(np.argmin(good[: at + 2][::-1])) + 1
    last = at + 1 + int(np.argmin(good[at + 1 :])) - 1
    inner = np.arange(max(first - 1, 1), min(last - 1, values.size - 1) + 1)
    return float(((values[inner - 1] + values[inner]) / 2.0).mean()) if inner.size else NAN
