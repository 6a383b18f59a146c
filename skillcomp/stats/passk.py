"""Chances that at least one of k attempts passes (pass@k) and that all pass (pass^k).

Also any-of-k: whether one of the first k attempts passed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from skillcomp.errors import FrameError
from skillcomp.stats.results import Floats, is_number


def _check_attempts(n: ArrayLike, c: ArrayLike, k: int) -> tuple[Floats, Floats]:
    attempts, passes = np.broadcast_arrays(np.asarray(n, float), np.asarray(c, float))
    if isinstance(k, bool) or not is_number(k) or k % 1 or k < 1:
        raise FrameError(f"k must be a whole number of attempts, at least 1, found {k!r}.")
    for name, values in (("n", attempts), ("c", passes)):
        if not np.all(np.isfinite(values) & (values == np.floor(values))):
            raise ValueError(f"{name} must hold whole numbers of attempts without gaps.")
    if np.any((passes < 0) | (passes > attempts)):
        raise ValueError("c (passes) must lie between 0 and n (attempts) in every case.")
    short = attempts < k
    if np.any(short):
        few = f"{int(np.sum(short))} of {short.size} cases (fewest: n={int(attempts.min())})"
        reason = "no unbiased estimate exists for k > n"
        raise FrameError(f"k={k} is more than the attempts of {few}; {reason}.")
    return attempts, passes


def _all_drawn(marked: Floats, attempts: Floats, k: int) -> Floats:
    # Of the attempts of a case, some are marked. The chance that k attempts drawn at random are all
    # marked is C(marked, k) / C(attempts, k). Compute it as a product, because binomial
    # coefficients can overflow.
    drawn = np.arange(k, dtype=float)
    factors = np.maximum(marked[..., None] - drawn, 0.0) / (attempts[..., None] - drawn)
    product: Floats = np.prod(factors, axis=-1)
    return product


def any_of_k(passed: ArrayLike, k: int) -> Floats:
    """Decide for each case whether one of its first k attempts passed.

    Parameters
    ----------
    passed : array_like, shape (cases, attempts)
        1 or True for a pass, 0 or False for a fail, NaN for an attempt without a verdict. The
        attempts of a case are in the order in which they were made.
    k : int
        Number of attempts allowed, at most the number of attempts per case.

    Returns
    -------
    ndarray of float, shape (cases,)
        1 if one of the first k attempts passed, 0 if all k failed, NaN if none passed but at least
        one has no verdict.

    Raises
    ------
    ValueError
        If `passed` is not a table of 0, 1 and NaN, or has fewer than k attempts per case.

    See Also
    --------
    pass_at_k : Chance of a pass among k attempts, estimated from all attempts.

    Notes
    -----
    Task suites call this rule pass@k. With exactly k attempts per case, the result equals that of
    :func:`pass_at_k`. If there are more attempts, only the first k count. The result never falls as
    k grows, so rates with different k are not comparable.

    Examples
    --------
    >>> any_of_k([[0, 1, 0], [0, 0, 1], [0, float("nan"), 1]], 2).tolist()
    [1.0, 0.0, nan]
    """
    table = np.asarray(passed, float)
    if isinstance(k, bool) or not is_number(k) or k % 1 or not 1 <= k <= max(table.shape[1], 1):
        rule = f"a whole number from 1 to the attempts of a case ({table.shape[1]})"
        raise FrameError(f"k must be {rule}, found {k!r}.")
    first = table[:, : int(k)]
    missing = np.isnan(first).any(axis=1)
    return np.where((first == 1).any(axis=1), 1.0, np.where(missing, np.nan, 0.0))


def pass_at_k(n: ArrayLike, c: ArrayLike, k: int) -> Floats:
    """Estimate for each case the chance that at least one of k attempts passes.

    Parameters
    ----------
    n : array_like of int
        Number of attempts with a verdict for each case.
    c : array_like of int
        Number of passed attempts of each case, ``0 <= c <= n``.
    k : int
        Number of attempts allowed, ``1 <= k <= n`` in every case.

    Returns
    -------
    ndarray of float
        ``1 - C(n - c, k) / C(n, k)`` per case, in the broadcast shape of ``n`` and ``c``.

    Raises
    ------
    ValueError
        If ``k`` exceeds the attempts of a case, ``c`` exceeds ``n``, or a value is missing.

    See Also
    --------
    pass_hat_k : Chance that all k attempts pass.

    Notes
    -----
    The estimate is unbiased for exchangeable attempts; the simple estimate ``1 - (1 - c/n)**k`` is
    biased. The formula is computed as a product, so that a large ``n`` does not overflow.

    References
    ----------
    Chen et al. 2021, arXiv:2107.03374.

    Examples
    --------
    >>> pass_at_k([5, 5], [2, 0], 2).tolist()
    [0.7, 0.0]
    """
    attempts, passes = _check_attempts(n, c, k)
    return 1.0 - _all_drawn(attempts - passes, attempts, k)


def pass_hat_k(n: ArrayLike, c: ArrayLike, k: int) -> Floats:
    """Estimate for each case the chance that all of k attempts pass.

    Parameters
    ----------
    n : array_like of int
        Number of attempts with a verdict for each case.
    c : array_like of int
        Number of passed attempts of each case, ``0 <= c <= n``.
    k : int
        Number of attempts that must all pass, ``1 <= k <= n`` in every case.

    Returns
    -------
    ndarray of float
        ``C(c, k) / C(n, k)`` per case, in the broadcast shape of ``n`` and ``c``.

    Raises
    ------
    ValueError
        As for :func:`pass_at_k`.

    See Also
    --------
    pass_at_k : Chance that at least one attempt passes.

    Notes
    -----
    The estimate is unbiased for exchangeable attempts; the simple estimate ``(c/n)**k`` is biased.

    References
    ----------
    Yao et al. 2024, arXiv:2406.12045.

    Examples
    --------
    >>> pass_hat_k([5, 4], [2, 3], 2).tolist()
    [0.1, 0.5]
    """
    attempts, passes = _check_attempts(n, c, k)
    return _all_drawn(passes, attempts, k)
