"""What every curve of detection rests on: labelled scores, operating points, the picked cut."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse, stats

from skillcomp.errors import suggest
from skillcomp.stats.results import Interval, undefined

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Criteria that differ by less are ties: sums of rates carry rounding of this order.
TIE = 1e-12
FEW_DOCUMENTS = 10  # below, only Clopper-Pearson over documents is given
CELLS_AT_ONCE = 2_000_000  # float64 cells of one block of resamples, 16 MB


@dataclass(frozen=True, slots=True)
class Labelled:
    """Rows with a label, one or more scores and a document, missing rows removed."""

    positive: NDArray[np.bool_]
    scores: Floats  # rows x candidates
    documents: Ints
    n_documents: int
    grouped: bool
    note: str

    @property
    def unit(self) -> str:
        """Return the word for the unit of evidence: document, or row where none was given."""
        return "document" if self.grouped else "row"

    def documents_of(self, positive: bool) -> int:
        """Return the number of documents that hold a row of one class."""
        return int(np.unique(self.documents[self.positive == positive]).size)

    def lacking(self) -> str:
        """Return why no curve exists, or an empty string."""
        if self.positive.all() or not self.positive.any():
            only = "no rows" if not self.positive.size else "one class only"
            return f"not defined: {only}"
        return ""


def prepare(labels: ArrayLike, scores: ArrayLike, groups: ArrayLike | None) -> Labelled:
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
    unknown = np.array([g is None or g != g for g in raw]) if groups is not None else False
    keep = ~(np.isnan(label) | np.isnan(score).any(axis=1) | unknown)
    seen: dict[Any, int] = {}
    codes = np.array([seen.setdefault(g, len(seen)) for g in raw[keep].tolist()], dtype=np.int64)
    dropped = int((~keep).sum())
    note = f"{dropped} rows without label, score or document left out" if dropped else ""
    return Labelled(label[keep] == 1, score[keep], codes, len(seen), groups is not None, note)


@dataclass(frozen=True, slots=True)
class Criterion:
    """What the chosen cut must do best.

    Attributes
    ----------
    kind : {"youden", "cost", "false_flags"}
        ``youden`` maximises sensitivity + specificity - 1. ``cost`` minimises
        ``cost_miss * prevalence * (1 - sensitivity)
        + cost_false_flag * (1 - prevalence) * (1 - specificity)``. ``false_flags`` maximises
        sensitivity among the cuts whose false-flag rate in the sample is at most
        ``max_false_flags``.
    prevalence : float
        Share of positives where the detector will be used, not in the labelled sample.
        Required for ``cost``.
    cost_miss, cost_false_flag : float
        Cost of one missed positive and of one flagged negative, in the same unit.
    max_false_flags : float
        Largest tolerated share of flagged negatives. Required for ``false_flags``.

    Raises
    ------
    ValueError
        For an unknown kind, a prevalence or limit that is missing or outside 0..1, or costs that
        are negative or both zero.

    Examples
    --------
    >>> Criterion("cost", prevalence=0.1, cost_false_flag=5).describe()
    'lowest cost (miss 1, false flag 5, prevalence 0.1)'
    """

    kind: str = "youden"
    prevalence: float = np.nan
    cost_miss: float = 1.0
    cost_false_flag: float = 1.0
    max_false_flags: float = np.nan

    def __post_init__(self) -> None:
        kinds = ("youden", "cost", "false_flags")
        if self.kind not in kinds:
            raise ValueError(
                f"criterion must be one of {', '.join(kinds)}, found {self.kind!r}."
                f"{suggest(str(self.kind), kinds)}"
            )
        if self.kind == "cost" and not 0 < self.prevalence < 1:
            raise ValueError(
                "criterion 'cost' needs the prevalence of positives where the detector will be "
                f"used, strictly between 0 and 1, found {self.prevalence}."
            )
        if self.kind == "cost" and (
            min(self.cost_miss, self.cost_false_flag) < 0
            or self.cost_miss + self.cost_false_flag == 0
        ):
            raise ValueError(
                "costs must not be negative nor both zero, found "
                f"cost_miss={self.cost_miss}, cost_false_flag={self.cost_false_flag}."
            )
        if self.kind == "false_flags" and not 0 <= self.max_false_flags < 1:
            raise ValueError(
                "criterion 'false_flags' needs max_false_flags from 0 to below 1, "
                f"found {self.max_false_flags}."
            )

    def gain(self, sensitivity: Floats, specificity: Floats) -> Floats:
        """Return what is maximised, one value for each pair of rates."""
        if self.kind == "youden":
            return sensitivity + specificity - 1.0
        if self.kind == "cost":
            misses = self.cost_miss * self.prevalence * (1.0 - sensitivity)
            flags = self.cost_false_flag * (1.0 - self.prevalence) * (1.0 - specificity)
            return -(misses + flags)
        allowed = 1.0 - specificity <= self.max_false_flags + TIE
        return np.where(allowed, sensitivity, -1.0)

    def describe(self) -> str:
        """Return the criterion as words for ``method``."""
        if self.kind == "youden":
            return "largest sensitivity + specificity"
        if self.kind == "cost":
            return (
                f"lowest cost (miss {self.cost_miss:g}, false flag {self.cost_false_flag:g}, "
                f"prevalence {self.prevalence:g})"
            )
        return f"largest sensitivity with at most {self.max_false_flags:g} of negatives flagged"


def as_criterion(criterion: str | Criterion) -> Criterion:
    """Return a Criterion for a name or a ready one."""
    return criterion if isinstance(criterion, Criterion) else Criterion(criterion)


@dataclass(frozen=True, slots=True)
class Counts:
    """Rows of each class by document and distinct score, for one candidate score."""

    values: Floats
    positive: sparse.csr_array
    negative: sparse.csr_array

    def of(self, weights: Floats) -> tuple[Floats, Floats]:
        """Return weighted counts per distinct score, one row for each row of weights."""
        return (
            np.asarray(weights @ self.positive, dtype=np.float64),
            np.asarray(weights @ self.negative, dtype=np.float64),
        )


def count(data: Labelled) -> list[Counts]:
    """Count the rows of each class by document and distinct score, for every candidate."""
    tables = []
    for scores in data.scores.T:
        values, code = np.unique(scores, return_inverse=True)
        shape = (data.n_documents, values.size)
        both = [
            sparse.coo_array(
                (np.ones(int(rows.sum())), (data.documents[rows], code[rows])), shape=shape
            ).tocsr()
            for rows in (data.positive, ~data.positive)
        ]
        tables.append(Counts(values, both[0], both[1]))
    return tables


def rates(positive: Floats, negative: Floats) -> tuple[Floats, Floats]:
    """Return sensitivity and specificity when rows from distinct score k upward are flagged.

    The last axis runs over k = 0 .. K: everything flagged, ..., nothing flagged.
    """

    def from_k(counts: Floats) -> Floats:
        above = np.cumsum(counts[..., ::-1], axis=-1)[..., ::-1]
        above = np.concatenate([above, np.zeros((*counts.shape[:-1], 1))], axis=-1)
        return np.asarray(above / above[..., :1])

    return from_k(positive), 1.0 - from_k(negative)


@dataclass(frozen=True, slots=True)
class Picked:
    """The best cut of each weighted sample, between ``low`` (not flagged) and ``high``."""

    index: Ints
    gain: Floats
    low: Floats
    high: Floats
    cut: Floats


def pick(positive: Floats, negative: Floats, values: Floats, criterion: Criterion) -> Picked:
    """Pick the best cut, the highest among equally good ones, halfway between two scores."""
    gain = criterion.gain(*rates(positive, negative))
    k = values.size
    best = gain.max(axis=-1, keepdims=True)
    index = k - np.argmax((gain >= best - TIE)[..., ::-1], axis=-1)
    # A score that the resample does not hold cannot bound the gap.
    held = np.where(positive + negative > 0, np.arange(k), -1)
    below = np.maximum.accumulate(held, axis=-1)
    before = np.take_along_axis(below, np.maximum(index - 1, 0)[..., None], axis=-1)[..., 0]
    low = np.where((index == 0) | (before < 0), -np.inf, values[np.maximum(before, 0)])
    high = np.where(index == k, np.inf, values[np.minimum(index, k - 1)])
    with np.errstate(invalid="ignore"):
        cut = (low + high) / 2.0
    # Between two neighbouring floats there is no midpoint above the lower one.
    cut = np.where(cut > low, cut, np.where(index == 0, -np.inf, high))
    return Picked(index.astype(np.int64), best[..., 0], low, high, cut)


def resamples(data: Labelled, n_resamples: int, seed: int, width: int) -> Iterator[Floats]:
    """Yield blocks of document weights, each row a draw of all documents with replacement.

    Draws that lack a class are left out, as no curve exists for them.
    """
    rng = np.random.default_rng(seed)
    share = np.full(data.n_documents, 1.0 / data.n_documents)
    holds = [
        np.bincount(data.documents[rows], minlength=data.n_documents).astype(np.float64)
        for rows in (data.positive, ~data.positive)
    ]
    block = max(1, CELLS_AT_ONCE // max(width, data.n_documents))
    for start in range(0, n_resamples, block):
        size = min(block, n_resamples - start)
        weights = rng.multinomial(data.n_documents, share, size=size).astype(np.float64)
        yield weights[(weights @ holds[0] > 0) & (weights @ holds[1] > 0)]


def over_documents(
    estimate: float, n_documents: int, *, ci_level: float, n: float, unit: str, note: str
) -> Interval:
    """Return Clopper-Pearson limits that count every document once, however many rows it holds.

    A share that is no whole number of documents enters the beta quantiles as it is, which is the
    exact interval at 0 and 1 and lies between the neighbouring exact intervals elsewhere.
    """
    method = f"Clopper-Pearson over {n_documents} {unit}s"
    if n_documents == 0:
        return undefined(method, note, ci_level=ci_level, n=n)
    tail = (1.0 - ci_level) / 2.0
    right = estimate * n_documents
    wrong = n_documents - right
    low = stats.beta.ppf(tail, right, wrong + 1.0) if right > 0 else 0.0
    high = stats.beta.ppf(1.0 - tail, right + 1.0, wrong) if wrong > 0 else 1.0
    return Interval(
        estimate,
        float(low),
        float(high),
        ci_level=ci_level,
        method=method,
        note=note,
        n=n,
        n_clusters=n_documents,
    )


def join(*notes: str) -> str:
    """Join the notes that say something."""
    return "; ".join(note for note in notes if note)
