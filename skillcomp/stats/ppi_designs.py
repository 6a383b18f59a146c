"""The three ways in which gold can lie on cases, each with its estimate and variance."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skillcomp.stats.clusters import cr2, cr2_mean

__all__ = ["Data", "Found", "collect", "fitted", "tuned"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Data:
    """Cases with a usable prediction, in the order given."""

    gold: Floats
    predicted: Floats
    on_gold: Floats
    weights: Floats
    weighted: bool
    clusters: NDArray[np.intp]
    clustered: bool
    notes: tuple[str, ...]

    @property
    def labelled(self) -> NDArray[np.bool_]:
        """Whether each case carries gold."""
        return np.isfinite(self.gold)

    @property
    def gold_clusters(self) -> int:
        """Clusters in which gold lies."""
        return int(np.unique(self.clusters[self.labelled]).size)


@dataclass(frozen=True)
class Found:
    """Estimate before any rule is applied; ``error`` is what gold adds to each of its cases."""

    estimate: float
    variance: float
    df: float
    error: Floats


def _vector(name: str, values: ArrayLike, size: int | None = None) -> Floats:
    vector = np.asarray(values, dtype=float)
    if vector.ndim != 1 or (size is not None and vector.size != size):
        wanted = "one value per case" if size is None else f"one value for each of {size} cases"
        raise ValueError(f"{name} must hold {wanted}, found shape {vector.shape}.")
    return vector


def collect(
    gold: ArrayLike,
    predicted: ArrayLike,
    predicted_on_gold: ArrayLike | None,
    clusters: ArrayLike | None,
    inclusion_probability: ArrayLike | None,
    bounds: tuple[float, float],
) -> Data:
    """Return the cases with a usable prediction; raise ValueError for what lies out of bounds."""
    y = _vector("gold", gold)
    f = _vector("predicted", predicted, y.size)
    g = f if predicted_on_gold is None else _vector("predicted_on_gold", predicted_on_gold, y.size)
    for name, values in (("gold", y), ("predicted", f), ("predicted_on_gold", g)):
        seen = values[np.isfinite(values)]
        if seen.size and (seen.min() < bounds[0] - 1e-9 or seen.max() > bounds[1] + 1e-9):
            raise ValueError(
                f"{name} must lie between {bounds[0]:g} and {bounds[1]:g}, found "
                f"{seen.min():g} to {seen.max():g}."
            )
    labels = np.arange(y.size) if clusters is None else np.asarray(clusters)
    if labels.shape != y.shape:
        raise ValueError(f"clusters must name one cluster for each of {y.size} cases.")
    labelled = np.isfinite(y)
    usable = np.isfinite(f) & (np.isfinite(g) | ~labelled)
    lost, lost_gold = int((~usable).sum()), int((labelled & ~usable).sum())
    notes = []
    if lost:
        notes.append(f"{lost} cases without a prediction left out, {lost_gold} of them with gold")
    weights, weighted = np.ones(int(usable.sum())), False
    if inclusion_probability is not None:
        chance = _vector("inclusion_probability", inclusion_probability, y.size)
        known = chance[labelled & usable]
        if not np.all((known > 0.0) & (known <= 1.0)):
            raise ValueError("inclusion_probability must lie in (0, 1] for every case with gold.")
        if known.size and np.ptp(known) > 1e-9:
            weights, weighted = 1.0 / np.where(labelled, chance, 1.0)[usable], True
    codes = np.unique(labels[usable], return_inverse=True)[1]
    return Data(
        y[usable],
        f[usable],
        g[usable],
        weights,
        weighted,
        codes,
        clusters is not None,
        tuple(notes),
    )


def _share(covariance: float, variance: float) -> float:
    return min(max(covariance / variance, 0.0), 1.0) if variance > 1e-15 else 0.0


def _cross(a: Floats, b: Floats, w: Floats | None = None) -> float:
    weights = np.ones(a.size) if w is None else w
    share = weights / weights.sum()
    return float(share @ ((a - share @ a) * (b - share @ b)))


def tuned(data: Data) -> float:
    """Return the weight of the grader, 0 to 1, that makes the variance smallest."""
    has = data.labelled
    y, g, f = data.gold[has], data.on_gold[has], data.predicted[has]
    if has.all():
        # The repeat with gold deviates from the case's mean by chance only, with expectation 0.
        return _share(float((y - f) @ (g - f)), float((g - f) @ (g - f)))
    if data.weighted:
        w = data.weights[has]
        return _share(_cross(y, g, w), _cross(g, g, w))
    ratio = float(has.sum()) / float((~has).sum())
    return _share(_cross(y, g), _cross(g, g) + ratio * _cross(f, f))


def _every_case(data: Data, lam: float, ddof: int) -> Found:
    values = lam * data.predicted + data.gold - lam * data.on_gold
    estimate = float(values.mean())
    if data.clustered and np.unique(data.clusters).size > 1:
        found = cr2_mean(values, data.clusters)
        df = found.df if math.isfinite(found.df) else data.gold_clusters - 1.0
        return Found(estimate, found.se**2, df, values)
    n = values.size
    variance = float(values.var(ddof=ddof)) / n if n > ddof else 0.0
    return Found(estimate, variance, n - 1.0, values)


def _subset(data: Data, lam: float, ddof: int) -> Found:
    has = data.labelled
    error = data.gold[has] - lam * data.on_gold[has]
    rest = lam * data.predicted[~has]
    estimate = float(rest.mean() + error.mean())
    groups = data.gold_clusters
    if data.clustered and groups > 1:
        # Response = theta - beta in the unlabelled rows and beta in the labelled ones: the first
        # coefficient is the sum of the two means, so CR2 covers what they share in a cluster.
        response = np.concatenate([rest, error])
        design = np.zeros((response.size, 2))
        design[: rest.size] = (1.0, -1.0)
        design[rest.size :, 1] = 1.0
        order = np.concatenate([data.clusters[~has], data.clusters[has]])
        fit = cr2(response, design, order)
        df = min(float(np.nan_to_num(fit.df[0], nan=1.0)), groups - 1.0)
        return Found(estimate, float(fit.covariance[0, 0]), df, error)
    spread = float(error.var(ddof=ddof)) / error.size if error.size > ddof else 0.0
    variance = float(rest.var(ddof=ddof)) / rest.size if rest.size > ddof else 0.0
    return Found(estimate, spread + variance, groups - 1.0, error)


def _weighted(data: Data, lam: float) -> Found:
    has = data.labelled
    w = np.where(has, data.weights, 0.0) / data.weights[has].sum()
    error = np.where(has, data.gold - lam * data.on_gold, 0.0)
    correction = float(w @ error)
    mean = float(data.predicted.mean())
    influence = lam * (data.predicted - mean) / has.size + w * (error - correction)
    totals = np.bincount(data.clusters, weights=influence)
    groups = data.gold_clusters
    inflate = groups / (groups - 1.0) if groups > 1 else 1.0
    variance = inflate * float(totals @ totals)
    return Found(lam * mean + correction, variance, groups - 1.0, error[has])


def fitted(data: Data, lam: float, ddof: int) -> tuple[str, Found]:
    """Return the name of the way in which gold lies, and its estimate with this weight."""
    if data.labelled.all():
        return "gold on every case", _every_case(data, lam, ddof)
    if data.weighted:
        return "gold on a subset of unequal inclusion probability", _weighted(data, lam)
    return "gold on a subset", _subset(data, lam, ddof)
