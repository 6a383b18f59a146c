"""Chances that one of k attempts passes (pass@k) and that all k pass (pass^k)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skillcomp.stats.clusters import cr2_mean, wilson_effective
from skillcomp.stats.results import Interval, check_level, undefined

__all__ = ["pass_at_k", "pass_hat_k", "pooled_pass_at_k", "pooled_pass_hat_k"]

Floats = NDArray[np.float64]

# Where the t interval of a rate stops being trustworthy, read off the coverage study of the
# switching rule (see skillcomp.stats.switching): the same limits hold here.
_FEWEST_CASES = 30
_FEWEST_CLUSTERS = 10
_HIGHEST_RATE = 0.9


def _checked(n: ArrayLike, c: ArrayLike, k: int) -> tuple[Floats, Floats]:
    attempts, passes = np.broadcast_arrays(np.asarray(n, float), np.asarray(c, float))
    if isinstance(k, bool) or int(k) != k or k < 1:
        raise ValueError(f"k must be a whole number of attempts, at least 1, found {k!r}.")
    for name, values in (("n", attempts), ("c", passes)):
        if not np.all(np.isfinite(values) & (values == np.floor(values))):
            raise ValueError(f"{name} must hold whole numbers of attempts without gaps.")
    if np.any((passes < 0) | (passes > attempts)):
        raise ValueError("c (passes) must lie between 0 and n (attempts) in every case.")
    short = attempts < k
    if np.any(short):
        raise ValueError(
            f"k={k} is more than the attempts of {int(np.sum(short))} of {short.size} cases "
            f"(fewest: n={int(attempts.min())}); no unbiased estimate exists for k > n."
        )
    return attempts, passes


def _all_drawn(marked: Floats, attempts: Floats, k: int) -> Floats:
    # C(marked, k) / C(attempts, k) as a product: exact where binomial coefficients overflow.
    drawn = np.arange(k, dtype=float)
    factors = np.maximum(marked[..., None] - drawn, 0.0) / (attempts[..., None] - drawn)
    product: Floats = np.prod(factors, axis=-1)
    return product


def pass_at_k(n: ArrayLike, c: ArrayLike, k: int) -> Floats:
    """Chance, case by case, that at least one of k attempts passes.

    Parameters
    ----------
    n : array_like of int
        Attempts of each case.
    c : array_like of int
        Attempts of each case that passed, ``0 <= c <= n``.
    k : int
        Number of attempts one is allowed, ``1 <= k <= n`` in every case.

    Returns
    -------
    ndarray of float
        ``1 - C(n - c, k) / C(n, k)`` per case, the shape of ``n`` and ``c`` broadcast.

    Raises
    ------
    ValueError
        ``k`` exceeds the attempts of a case, ``c`` exceeds ``n``, or a value is missing. Attempts
        without a verdict belong neither in ``n`` nor in ``c``.

    See Also
    --------
    pass_hat_k : all k attempts pass.
    pooled_pass_at_k : the mean over cases with its interval.

    Notes
    -----
    Unbiased for each case when its attempts are exchangeable; the plug-in ``1 - (1 - c/n)**k`` is
    not. Computed as a product, so large ``n`` does not overflow.

    References
    ----------
    Chen et al. 2021, arXiv:2107.03374.

    Examples
    --------
    >>> pass_at_k([5, 5], [2, 0], 2).tolist()
    [0.7, 0.0]
    """
    attempts, passes = _checked(n, c, k)
    result: Floats = 1.0 - _all_drawn(attempts - passes, attempts, k)
    return result


def pass_hat_k(n: ArrayLike, c: ArrayLike, k: int) -> Floats:
    """Chance, case by case, that all of k attempts pass.

    Parameters
    ----------
    n : array_like of int
        Attempts of each case.
    c : array_like of int
        Attempts of each case that passed, ``0 <= c <= n``.
    k : int
        Number of attempts that must all pass, ``1 <= k <= n`` in every case.

    Returns
    -------
    ndarray of float
        ``C(c, k) / C(n, k)`` per case, the shape of ``n`` and ``c`` broadcast.

    Raises
    ------
    ValueError
        As for :func:`pass_at_k`.

    See Also
    --------
    pass_at_k : at least one attempt passes.
    pooled_pass_hat_k : the mean over cases with its interval.

    Notes
    -----
    Unbiased for each case when its attempts are exchangeable; the plug-in ``(c/n)**k`` is not.

    References
    ----------
    Yao et al. 2024, arXiv:2406.12045.

    Examples
    --------
    >>> pass_hat_k([5, 4], [2, 3], 2).tolist()
    [0.1, 0.5]
    """
    attempts, passes = _checked(n, c, k)
    return _all_drawn(passes, attempts, k)


def _collapse_rule(values: Floats, clusters: ArrayLike | None, interval: Interval) -> str:
    mean = float(values.mean())
    groups = values.size if clusters is None else np.unique(np.asarray(clusters)).size
    if np.ptp(values) == 0.0:
        return "all cases have the same value"
    if values.size < _FEWEST_CASES:
        return f"fewer than {_FEWEST_CASES} cases"
    if not 1.0 - _HIGHEST_RATE <= mean <= _HIGHEST_RATE:
        return f"mean above {_HIGHEST_RATE} or below {1.0 - _HIGHEST_RATE:.1f}"
    if groups < _FEWEST_CLUSTERS:
        return f"fewer than {_FEWEST_CLUSTERS} clusters"
    if not 0.0 < interval.low < interval.high < 1.0:
        return "the t interval collapses or leaves (0, 1)"
    return ""


def _pooled(
    label: str,
    values: Floats,
    clusters: ArrayLike | None,
    ci_level: float,
    method: Literal["auto", "t", "score"],
) -> Interval:
    level = check_level(ci_level)
    if method not in ("auto", "t", "score"):
        raise ValueError(f"method must be 'auto', 't' or 'score', found {method!r}.")
    if values.size == 0:
        return undefined(label, "no cases", ci_level=level, n=0.0)
    by_t: Interval | None = None
    rule = ""
    if method != "score":
        by_t = _t_interval(label, values, clusters, level)
        rule = _collapse_rule(values, clusters, by_t)
    if by_t is not None and (method == "t" or not rule):
        warning = f"t interval kept although {rule}: it can collapse here" if rule else ""
        return replace(by_t, note="; ".join(filter(None, (by_t.note, warning))))
    by_score = wilson_effective(values, clusters, ci_level=level)
    handed = f"{rule}: score interval on the effective number of cases instead of t" if rule else ""
    return replace(
        by_score,
        method=f"{label}, {by_score.method}",
        note="; ".join(filter(None, (handed, by_score.note))),
    )


def _t_interval(label: str, values: Floats, clusters: ArrayLike | None, level: float) -> Interval:
    groups = np.arange(values.size) if clusters is None else np.asarray(clusters)
    if np.unique(groups).size < 2:
        return Interval(
            float(values.mean()),
            math.nan,
            math.nan,
            level,
            f"{label}, t",
            "a t interval needs two cases or clusters",
            float(values.size),
            1.0,
        )
    found = cr2_mean(values, groups, ci_level=level)
    kind = "t over cases" if clusters is None else "CR2 with Satterthwaite df over clusters"
    return replace(found, method=f"{label}, {kind}", n=float(values.size))


def pooled_pass_at_k(
    n: ArrayLike,
    c: ArrayLike,
    k: int,
    *,
    clusters: ArrayLike | None = None,
    ci_level: float = 0.95,
    method: Literal["auto", "t", "score"] = "auto",
) -> Interval:
    """Chance, over all cases, that at least one of k attempts passes.

    The mean of :func:`pass_at_k` over cases. The case is the unit: more attempts sharpen the value
    of a case, they are not more cases.

    Parameters
    ----------
    n, c : array_like of int
        Attempts and passes of each case, as for :func:`pass_at_k`.
    k : int
        Number of attempts one is allowed.
    clusters : array_like, optional
        Cluster of each case (its skill, or the prompt it shares). Each case alone when omitted.
    ci_level : float, default 0.95
        Confidence level.
    method : {"auto", "t", "score"}, default "auto"
        ``t`` is Student's t over cases (CR2 with Satterthwaite degrees of freedom over clusters).
        ``score`` is Wilson's interval on the effective number of cases. ``auto`` takes ``t`` and
        hands over to ``score`` where ``t`` can collapse: under 30 cases or 10 clusters, a mean
        above 0.9 or below 0.1, equal values, limits outside (0, 1). ``note`` names the rule.

    Returns
    -------
    Interval
        Limits inside [0, 1] unless ``method="t"``; ``n`` counts cases. NaN without cases.

    Raises
    ------
    ValueError
        As for :func:`pass_at_k`.

    Notes
    -----
    A difference of two conditions is not the difference of two of these: take it case by case.

    References
    ----------
    Chen et al. 2021, arXiv:2107.03374; Miller 2024, arXiv:2411.00640.

    Examples
    --------
    >>> found = pooled_pass_at_k([4, 4, 4], [4, 4, 4], 2)
    >>> found.estimate, found.low < 0.7, found.high
    (1.0, True, 1.0)
    """
    values = np.atleast_1d(pass_at_k(n, c, k)).ravel()
    return _pooled(f"pass@{k}", values, clusters, ci_level, method)


def pooled_pass_hat_k(
    n: ArrayLike,
    c: ArrayLike,
    k: int,
    *,
    clusters: ArrayLike | None = None,
    ci_level: float = 0.95,
    method: Literal["auto", "t", "score"] = "auto",
) -> Interval:
    """Chance, over all cases, that all of k attempts pass.

    The mean of :func:`pass_hat_k` over cases; the case is the unit.

    Parameters
    ----------
    n, c : array_like of int
        Attempts and passes of each case, as for :func:`pass_hat_k`.
    k : int
        Number of attempts that must all pass.
    clusters : array_like, optional
        Cluster of each case. Each case alone when omitted.
    ci_level : float, default 0.95
        Confidence level.
    method : {"auto", "t", "score"}, default "auto"
        As for :func:`pooled_pass_at_k`.

    Returns
    -------
    Interval
        Limits inside [0, 1] unless ``method="t"``; ``n`` counts cases. NaN without cases.

    Raises
    ------
    ValueError
        As for :func:`pass_at_k`.

    References
    ----------
    Yao et al. 2024, arXiv:2406.12045.

    Examples
    --------
    >>> found = pooled_pass_hat_k(10, [0, 1, 3, 5, 10, 10, 9, 7], 3, method="t")
    >>> round(found.estimate, 4), round(found.low, 4), round(found.high, 4)
    (0.3854, 0.0124, 0.7585)
    """
    values = np.atleast_1d(pass_hat_k(n, c, k)).ravel()
    return _pooled(f"pass^{k}", values, clusters, ci_level, method)
