"""Several attempts per case: pass@k and pass^k, and repeats that share something.

Repeats may share a day, a server or what the agent has learned. The attempts of one repeat at all
cases are a run. If runs differ more than chance allows, the attempts of a case are not independent,
and an interval by case is too narrow (STATISTICS, H7).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats import f as fisher_f
from scipy.stats import t as student_t

from skillcomp.errors import FrameError
from skillcomp.stats.results import Floats, Interval, is_number, quantile


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


FEWEST_RUNS = 3
_ALPHA = 0.01  # of all tests of an estimate together; each arm has two
_POWER = 0.8
_MOST = 0.8  # the least share of cases that have a run, and that have all runs
_FEW, _SAME_END = 3, 0.9  # so many incomplete cases, with this share of equal last values
_MANY, _ORDERS = 12, 1999  # with fewer clusters, so many orders of the runs are drawn
RUNS_DIFFER = "repeats differ more than chance allows"


@dataclass(frozen=True, slots=True)
class Runs:
    """How the runs of one arm differ.

    Attributes
    ----------
    rates : ndarray of float
        Mean of each run, over the cases that have all runs.
    p_value : float
        The smaller p-value of two tests: of any difference, and of a trend over the runs.
    between, noise : float
        Variance of the mean of a run: the observed one, and the one expected by chance.
    unseen : float
        Standard deviation of a run effect that the test would find with 80 % power.
    """

    rates: Floats
    p_value: float
    between: float
    noise: float
    unseen: float

    @classmethod
    def of(cls, values: Floats, clusters: Any, weights: Floats, alpha: float) -> Runs | None:
        """Test the runs of one arm, over the cases that have all runs that most cases have.

        ``values`` has a row for each case and a column for each run. In each cluster, deviations
        from the mean of the case are summed by run. The tests are F of run against cluster by run,
        and a t test of the linear trend; with few clusters, a test that exchanges the runs of each
        cluster must agree. The result is None if there are fewer than three runs or
        two clusters, or if many cases lack a run: attempts may then have ended with a pass.
        """
        values = values[:, (~np.isnan(values)).mean(axis=0) >= _MOST] if len(values) else values
        full = ~np.isnan(values).any(axis=1)
        if not full.any() or full.mean() < _MOST or _ends_by_result(values[~full]):
            return None
        values, weights = values[full], weights[full] / weights[full].sum()
        cluster, names = pd.factorize(np.asarray(clusters)[full])
        n, k = len(names), values.shape[1]
        if n < 2 or k < FEWEST_RUNS:
            return None
        sums = np.zeros((n, k))
        np.add.at(sums, cluster, weights[:, None] * (values - values.mean(axis=1, keepdims=True)))
        df = (k - 1, (k - 1) * (n - 1))
        size = np.bincount(cluster, weights)
        total = sums.sum(axis=0)
        between = float(total @ total) / df[0]
        noise = n * float(((sums - sums.mean(axis=0)) ** 2).sum()) / df[1]
        rates = weights @ values
        if between <= noise:
            p_value = 1.0
        else:
            slopes = sums @ (np.arange(k) - (k - 1) / 2)
            with np.errstate(divide="ignore", invalid="ignore"):
                trend = abs(slopes.mean()) / (slopes.std(ddof=1) / math.sqrt(n))
                ratio = np.divide(between, noise)
            p_values = fisher_f.sf(ratio, *df), 2.0 * student_t.sf(np.nan_to_num(trend), n - 1)
            p_value = float(min(p_values))
            if p_value < alpha and size @ size > 1 / _MANY:
                p_value = float(min(np.maximum(p_values, _p_of_orders(sums))))
        uneven = n * float(((size - 1 / n) ** 2).sum()) / (n - 1)
        larger = float(fisher_f.isf(alpha, *df) / fisher_f.isf(_POWER, *df))
        left = 1.0 - larger * uneven
        unseen = math.sqrt((larger - 1.0) * noise / left) if left > 0 and noise else math.inf
        return cls(rates, p_value, between, noise, unseen)


def _ends_by_result(values: Floats) -> bool:
    """Return whether attempts seem to have ended with a pass, or with a fail."""
    n = len(values)
    last = pd.DataFrame(values).ffill(axis=1).to_numpy()[:, -1:]
    return n >= _FEW and bool((last == last[0]).mean() >= _SAME_END)


def _p_of_orders(sums: Floats) -> tuple[float, float]:
    """Return p-values of a difference and of a trend: runs change places in each cluster."""
    rng, steps = np.random.default_rng(0), np.arange(sums.shape[1]) - (sums.shape[1] - 1) / 2

    def statistics(table: Floats) -> Floats:
        total = table.sum(axis=0)
        return np.array([total @ total, abs(total @ steps)])

    found = statistics(sums) * (1 - 1e-9)
    larger = [statistics(rng.permuted(sums, axis=1)) >= found for _ in range(_ORDERS)]
    any_change, trend = (1 + np.sum(larger, axis=0)) / (1 + _ORDERS)
    return float(any_change), float(trend)


def for_other_runs(
    interval: Interval,
    arms: Sequence[tuple[str, float, Floats]],
    clusters: Any,
    weights: Floats | None,
    bounds: tuple[float, float],
    null: float = 0.0,
    *,
    span: float | None = None,
) -> Interval:
    """Widen an interval if the runs of an arm differ, and say in the note what was tested.

    Parameters
    ----------
    interval : Interval
        A weighted sum of arm means in the case.
    arms : sequence of tuple
        For each arm its name, its weight in the sum, and its values: cases by runs, NaN if missing.
    clusters, weights
        The cluster and the weight of each case; without weights, cases are equal.
    bounds : tuple of float
        Lowest and highest possible value of the sum.
    null : float
        The value that the p-value tests, if there is one.
    span : float, optional
        Range of scores. Default: the values are rates, and the note gives points.

    Returns
    -------
    Interval
        If one of the tests is significant at 0.01 divided by the number of tests, the interval and
        the p-value are those for other runs of the same kind: the variance between runs is added,
        and the degrees of freedom follow by Satterthwaite. Otherwise they are unchanged, and the
        note states how large a run effect may go unseen.

    Notes
    -----
    The runs of different arms count as independent. If they share their effects, as on the same
    day, a difference of arms has a wider interval than it needs.
    """
    n_cases = len(arms[0][2])
    heavy = np.ones(n_cases) if weights is None else weights
    alpha = _ALPHA / (2 * len(arms))
    found = [(name, w, Runs.of(values, clusters, heavy, alpha)) for name, w, values in arms]
    tested = [(name, w, runs) for name, w, runs in found if runs is not None]
    differing = [(name, runs) for name, _, runs in tested if runs.p_value < alpha]
    if not differing:
        unseen = max((runs.unseen for _, _, runs in tested), default=math.inf)
        size = f"below {100 * unseen:.0f} points" if span is None else f"below {unseen:.2g}"
        # the standard deviation of rates is at most .5
        if len(tested) < len(arms) or not unseen < 0.5 * (span or 1.0):
            size = "of any size"
        return interval.with_note(
            f"attempts are taken as independent: a run effect with a standard deviation {size} may "
            "go unseen"
        )
    shares = [(w**2 / len(r.rates), r) for _, w, r in tested]
    extra = sum(share * max(r.between - r.noise, 0.0) for share, r in shares)
    parts = sum((share * r.between) ** 2 / (len(r.rates) - 1) for share, r in shares)
    df = sum(share * r.between for share, r in shares) ** 2 / parts
    more = quantile(interval.ci_level, df) * math.sqrt(extra)
    low = interval.estimate - math.hypot(interval.estimate - interval.low, more)
    high = interval.estimate + math.hypot(interval.high - interval.estimate, more)
    own = interval.se**2 if math.isfinite(interval.se) else 0.0
    se = math.sqrt(own + extra)
    df = se**4 / ((own**2 / interval.df if own else 0.0) + extra**2 / df)
    p_value = interval.p_value
    if math.isfinite(p_value):
        p_value = float(2.0 * student_t.sf(abs(interval.estimate - null) / se, df))
    texts = [
        f"{', '.join(f'{rate:.2f}' for rate in runs.rates)}{' under ' * bool(name)}{name}"
        for name, runs in differing
    ]
    return replace(
        interval,
        low=max(low, bounds[0]),
        high=min(high, bounds[1]),
        se=se,
        df=df,
        p_value=p_value,
        method=f"{interval.method.split('; p: ')[0]}, widened by the variance between repeats",
    ).with_note(
        f"{RUNS_DIFFER}, so their attempts share something, such as a day, a server or what the "
        f"agent learned: by repeat {'; '.join(texts)}. The interval is the one for other runs of "
        "this kind"
    )
