"""Several claims at once: p-values adjusted for having asked several questions.

Holm for claims named in advance, Benjamini-Hochberg for screening; the arithmetic is that of
statsmodels.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from statsmodels.stats.multitest import multipletests

from skillcomp.errors import suggest

__all__ = ["adjust", "benjamini_hochberg", "holm"]

Floats = NDArray[np.float64]

METHODS = {
    "holm": "holm",
    "bh": "fdr_bh",
    "by": "fdr_by",
    "bonferroni": "bonferroni",
    "hochberg": "simes-hochberg",
    "hommel": "hommel",
}


def adjust(p_values: ArrayLike, *, method: str = "holm", family: int | None = None) -> Floats:
    """Adjust p-values for having asked several questions.

    Parameters
    ----------
    p_values : array_like of float
        NaN (a comparison without discordant pairs) stays NaN and counts in the family.
    method : {"holm", "bh", "by", "bonferroni", "hochberg", "hommel"}
        ``holm`` holds for any dependence and controls the chance of one false claim; ``bh``
        controls the share of false claims and holds for independent or positively dependent tests,
        as those of dimensions of the same cases are.
    family : int, optional
        Number of comparisons declared in advance, when it exceeds the number of p-values given.

    Returns
    -------
    ndarray of float64
        Adjusted p-values in the order given.

    Raises
    ------
    ValueError
        For an unknown method, a p-value outside 0..1 or a family smaller than its p-values.

    References
    ----------
    Holm 1979, Scandinavian Journal of Statistics 6:65-70. Benjamini and Hochberg 1995,
    doi:10.1111/j.2517-6161.1995.tb02031.x.

    Examples
    --------
    >>> adjust([0.01, float("nan"), 0.04]).tolist()
    [0.03, nan, 0.08]
    """
    if method not in METHODS:
        raise ValueError(
            f"method must be one of {', '.join(METHODS)}, found {method!r}."
            f"{suggest(str(method), METHODS)}"
        )
    p = np.asarray(p_values, dtype=np.float64).ravel()
    known = ~np.isnan(p)
    if ((p[known] < 0) | (p[known] > 1)).any():
        at = int(np.flatnonzero(known & ~((p >= 0) & (p <= 1)))[0])
        raise ValueError(f"p_values must lie in 0..1, found {p[at]:g} at position {at}.")
    size = p.size if family is None else family
    if size < p.size:
        raise ValueError(f"family must be at least the {p.size} p-values given, found {family}.")
    if not known.any():
        return np.full(p.size, np.nan)
    # A comparison that could not be tested stands last in the family, as one with p = 1 does.
    whole = np.concatenate([np.where(known, p, 1.0), np.ones(size - p.size)])
    adjusted = np.asarray(multipletests(whole, method=METHODS[method])[1], dtype=np.float64)
    return np.where(known, adjusted[: p.size], np.nan)


def holm(p_values: ArrayLike, *, family: int | None = None) -> Floats:
    """Adjust p-values by Holm's method, for confirmatory claims (see `adjust`).

    Examples
    --------
    >>> holm([0.01, 0.02, 0.2]).round(3).tolist()
    [0.03, 0.04, 0.2]
    """
    return adjust(p_values, method="holm", family=family)


def benjamini_hochberg(p_values: ArrayLike, *, family: int | None = None) -> Floats:
    """Adjust p-values by Benjamini and Hochberg's method, for screening (see `adjust`).

    Examples
    --------
    >>> benjamini_hochberg([0.01, 0.02, 0.2]).round(3).tolist()
    [0.03, 0.03, 0.2]
    """
    return adjust(p_values, method="bh", family=family)
