"""Chance-corrected agreement as a function of sums over units, so that resampling is a product.

Every coefficient is ``1 - (1 - observed) / (1 - expected)``. Both parts depend on the data only
through sums of a few numbers per unit; a bootstrap over cases is then a matrix product of the
resampling counts with the sums per case.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skillcomp.errors import suggest

__all__ = ["COEFFICIENTS", "ONE_CATEGORY", "Parts", "coefficient", "parts_of", "rating_matrix"]

Floats = NDArray[np.float64]
Solve = Callable[[Floats], tuple[Floats, Floats]]

COEFFICIENTS = ("raw_agreement", "cohen_kappa", "gwet_ac1", "fleiss_kappa", "krippendorff_alpha")

ONE_CATEGORY = "all ratings fall into one category: agreement beyond chance is not defined"

# Relative step of the central difference; the error of the derivative is of order its square.
_STEP = 1e-5
# Rounding of a sum of squares of shares that add up to one stays far below this.
_NO_VARIATION = 1e-12


@dataclass(frozen=True)
class Parts:
    """Per-unit numbers of one coefficient and the way from their sums to its two parts.

    Attributes
    ----------
    features : array, shape (units, numbers)
        What is summed. Units that carry no information hold zeros.
    solve : callable
        Sums, shape (..., numbers), to observed and expected agreement, shape (...).
    slope : callable
        Sums, shape (numbers,), to the derivative of the coefficient by each of them, for the
        linearised standard error.
    agreeing : array of float, shape (units,)
        Share of the pairs of ratings of a unit that agree; NaN with fewer than two ratings.
    category : array of int, shape (units,)
        Category on which all ratings of a unit agree, -1 where they do not or are fewer than two.
    n_categories : int
        Categories the raters could choose from.
    """

    features: Floats
    solve: Solve
    slope: Callable[[Floats], Floats]
    agreeing: Floats
    category: NDArray[np.intp]
    n_categories: int


def rating_matrix(ratings: ArrayLike) -> Floats:
    """Return ``ratings`` as floats, one row per unit, one column per rater, NaN where missing."""
    matrix = np.asarray(ratings, dtype=float)
    if matrix.ndim != 2 or matrix.shape[1] < 2:
        raise ValueError(
            "ratings must have one row per unit and one column per rater, at least two raters, "
            f"found shape {matrix.shape}."
        )
    return matrix


def coefficient(observed: Floats, expected: Floats) -> Floats:
    """Agreement beyond chance; NaN where chance agreement is complete or nothing was observed."""
    room = 1.0 - np.asarray(expected, float)
    defined = np.isfinite(room) & np.isfinite(observed) & (room > _NO_VARIATION)
    short = np.where(defined, 1.0 - np.asarray(observed, float), np.nan)
    result: Floats = 1.0 - short / np.where(defined, room, np.nan)
    return result


def _numeric_slope(solve: Solve, sums: Floats) -> Floats:
    steps = np.diag(_STEP * np.maximum(np.abs(sums), 1.0))
    up, down = coefficient(*solve(sums + steps)), coefficient(*solve(sums - steps))
    result: Floats = (up - down) / (2.0 * np.diag(steps))
    return result


def _share_slope(solve: Solve, sums: Floats) -> Floats:
    # Gwet's standard error lets the share of units with two ratings vary as well; kept, so that
    # it agrees with the published one. Without gaps it changes nothing.
    slope = _numeric_slope(solve, sums)
    value = float(coefficient(*solve(sums)))
    slope[0] += value / sums[0]
    slope[2] -= value / sums[2]
    return slope


def _coincidence_slope(sums: Floats) -> Floats:
    # The published standard error leaves out alpha's correction for few ratings.
    def solve(total: Floats) -> tuple[Floats, Floats]:
        ratings = total[..., 1:].sum(axis=-1)
        shares = _ratio(total[..., 1:], ratings[..., None])
        return _ratio(total[..., 0], ratings), (shares**2).sum(axis=-1)

    return _numeric_slope(solve, sums)


def _ratio(top: Floats, bottom: Floats) -> Floats:
    result: Floats = np.divide(
        top, bottom, out=np.full(np.broadcast(top, bottom).shape, np.nan), where=bottom > 0
    )
    return result


def _two_rater_parts(codes: Floats, q: int) -> tuple[Floats, Solve]:
    if codes.shape[1] != 2:
        raise ValueError(f"cohen_kappa takes two raters, found {codes.shape[1]}; use gwet_ac1.")
    usable = np.isfinite(codes).all(axis=1)
    cells = np.zeros((codes.shape[0], q * q))
    pair = codes[usable].astype(int)
    cells[np.flatnonzero(usable), pair[:, 0] * q + pair[:, 1]] = 1.0

    def solve(sums: Floats) -> tuple[Floats, Floats]:
        table = sums.reshape((*sums.shape[:-1], q, q))
        total = sums.sum(axis=-1)
        rows = _ratio(table.sum(axis=-1), total[..., None])
        columns = _ratio(table.sum(axis=-2), total[..., None])
        observed = _ratio(np.trace(table, axis1=-2, axis2=-1), total)
        return observed, (rows * columns).sum(axis=-1)

    return cells, solve


def _share_parts(counts: Floats, q: int, name: str) -> tuple[Floats, Solve]:
    raters = counts.sum(axis=1)
    usable = raters >= 2
    pairs = np.where(usable, raters * (raters - 1.0), 1.0)
    agreeing = (counts * (counts - 1.0)).sum(axis=1) / pairs * usable
    shares = counts / np.maximum(raters, 1.0)[:, None]
    features = np.column_stack([usable, agreeing, raters >= 1, shares]).astype(float)

    def solve(sums: Floats) -> tuple[Floats, Floats]:
        observed = _ratio(sums[..., 1], sums[..., 0])
        share = _ratio(sums[..., 3:], sums[..., 2][..., None])
        if name == "raw_agreement":
            return observed, np.where(np.isfinite(observed), 0.0, np.nan)
        if name == "fleiss_kappa":
            return observed, (share**2).sum(axis=-1)
        if q < 2:
            return observed, np.full(observed.shape, np.nan)
        return observed, (share * (1.0 - share)).sum(axis=-1) / (q - 1)

    return features, solve


def _coincidence_parts(counts: Floats) -> tuple[Floats, Solve]:
    raters = counts.sum(axis=1)
    usable = raters >= 2
    used = counts * usable[:, None]
    within = (used * (used - 1.0)).sum(axis=1) / np.where(usable, raters - 1.0, 1.0)
    features = np.column_stack([within, used])

    def solve(sums: Floats) -> tuple[Floats, Floats]:
        values = sums[..., 1:]
        total = values.sum(axis=-1)
        observed = _ratio(sums[..., 0], total)
        return observed, _ratio((values * (values - 1.0)).sum(axis=-1), total * (total - 1.0))

    return features, solve


def parts_of(ratings: ArrayLike, name: str, *, n_categories: int | None = None) -> Parts:
    """Return the sums behind the coefficient ``name``.

    Parameters
    ----------
    ratings : array_like, shape (units, raters)
        Category codes, NaN where a rater gave none.
    name : str
        One of ``COEFFICIENTS``.
    n_categories : int, optional
        Number of categories the raters could choose from; those that occur when omitted.

    Returns
    -------
    Parts
        Features, solver and the units that count.

    Raises
    ------
    ValueError
        Unknown coefficient, fewer than two raters, or fewer categories declared than found.
    """
    if name not in COEFFICIENTS:
        raise ValueError(
            f"coefficient must be one of {', '.join(COEFFICIENTS)}, found {name!r}."
            + suggest(str(name), COEFFICIENTS)
        )
    matrix = rating_matrix(ratings)
    present = np.isfinite(matrix)
    values, inverse = np.unique(matrix[present], return_inverse=True)
    found = values.size
    q = found if n_categories is None else int(n_categories)
    if q < found:
        raise ValueError(f"n_categories is {q}, but {found} different ratings occur.")
    codes = np.full(matrix.shape, np.nan)
    codes[present] = inverse
    counts = (codes[:, :, None] == np.arange(max(found, 1))).sum(axis=1).astype(float)
    slope: Callable[[Floats], Floats]
    if name == "cohen_kappa":
        counts = counts * np.asarray(present).all(axis=1, keepdims=True)
        features, solve = _two_rater_parts(codes, max(q, 1))
        slope = partial(_numeric_slope, solve)
    elif name == "krippendorff_alpha":
        features, solve = _coincidence_parts(counts)
        slope = _coincidence_slope
    else:
        features, solve = _share_parts(counts, q, name)
        slope = partial(_share_slope, solve)
    raters = counts.sum(axis=1)
    agreeing = _ratio((counts * (counts - 1.0)).sum(axis=1), raters * (raters - 1.0))
    category = np.where(agreeing == 1.0, counts.argmax(axis=1), -1)
    return Parts(features, solve, slope, agreeing, category, q)
