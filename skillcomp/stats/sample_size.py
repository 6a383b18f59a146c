"""How many cases, and what difference they show, by the field's formulas.

One attempt per case and independent cases: :func:`mcnemar_power`, :func:`mcnemar_cases` and
:func:`connor` (McNemar's test). Means of cases with known variance: :func:`miller_cases` and
:func:`miller_mde`. They know no ceiling and not the interval that the analyses print: plan a study
with :mod:`skillcomp.planning`.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import binom, norm

LARGEST_STUDY = 1_000_000  # cases; a search beyond this has no practical answer
SLACK = 1e-12  # rounding allowed in a p-value that equals alpha


def _check_shares(alpha: float, power: float) -> None:
    """Raise ValueError unless both lie in 0..1 and the power is above the level."""
    for name, value in (("alpha", alpha), ("power", power)):
        if not 0.0 < value < 1.0:
            raise ValueError(f"{name} must lie strictly between 0 and 1, found {value!r}.")
    if power <= alpha:
        raise ValueError(f"power must be above alpha, found {power!r} and {alpha!r}.")


def _check_discordant(p_improve: float, p_regress: float) -> float:
    if min(p_improve, p_regress) < 0 or not 0.0 < p_improve + p_regress <= 1.0:
        raise ValueError(
            "p_improve and p_regress must not be negative and their sum must lie in 0..1 "
            f"(above 0), found {p_improve!r} and {p_regress!r}."
        )
    return p_improve + p_regress


def mcnemar_power(
    n: int, p_improve: float, p_regress: float, *, test: str = "midp", alpha: float = 0.05
) -> float:
    """Exact power of the two-sided McNemar test on ``n`` independent cases with one attempt.

    Parameters
    ----------
    n : int
        Cases.
    p_improve, p_regress : float
        Chance that only the skill passes a case, and that only the baseline does.
    test : {"midp", "exact"}
        The test to be used.
    alpha : float, default 0.05
        Two-sided level.

    Returns
    -------
    float
        Chance of a significant result in the direction of the larger chance.

    Notes
    -----
    Sum over the number of discordant cases, binomial, of the chance that the improved ones reach
    the critical value. Checked against R exact2x2 1.7.0 ``powerPaired2x2(strict = FALSE)``.

    Examples
    --------
    >>> round(mcnemar_power(100, 0.25, 0.10, test="exact"), 4)
    0.6743
    """
    discordant = _check_discordant(p_improve, p_regress)
    if test not in ("midp", "exact"):
        raise ValueError(f"test must be 'midp' or 'exact', found {test!r}.")
    if n < 1 or not 0.0 < alpha < 1.0:
        raise ValueError(f"n must be at least 1 and alpha in 0..1, found {n!r} and {alpha!r}.")
    m = np.arange(n + 1)
    # P(B > below) <= alpha / 2 first holds at `below`: the exact test rejects from below + 1.
    below = binom.isf(alpha / 2.0, m, 0.5)
    first = below + 1.0
    if test == "midp":
        mid_p = binom.sf(below - 1.0, m, 0.5) + binom.sf(below, m, 0.5)
        first = np.where((mid_p <= alpha + SLACK) & (below > m / 2.0), below, first)
    share = max(p_improve, p_regress) / discordant
    power = float((binom.pmf(m, n, discordant) * binom.sf(first - 1.0, m, share)).sum())
    return min(power, 1.0)  # the sum of many terms may pass 1 by rounding


def mcnemar_cases(
    p_improve: float,
    p_regress: float,
    *,
    test: str = "midp",
    power: float = 0.8,
    alpha: float = 0.05,
) -> int:
    """Independent cases needed for a wanted exact power of the McNemar test.

    Parameters
    ----------
    p_improve, p_regress : float
        Chance that only the skill passes a case, and that only the baseline does.
    test : {"midp", "exact"}
        The test to be used.
    power, alpha : float
        Wanted power and two-sided level.

    Returns
    -------
    int
        The number of cases from which the power stays at or above the wanted one. (Exact power
        goes up in small saw-teeth: single smaller numbers may reach it, too.)

    Raises
    ------
    ValueError
        When both chances are equal, as no number of cases shows no difference.

    Examples
    --------
    >>> mcnemar_cases(0.30, 0.05, test="exact"), mcnemar_cases(0.30, 0.05)
    (45, 39)
    """
    _check_shares(alpha, power)
    guess = connor(p_improve, p_regress, power=power, alpha=alpha)

    def enough(n: int) -> bool:
        return mcnemar_power(n, p_improve, p_regress, test=test, alpha=alpha) >= power

    high = max(2, math.ceil(guess))
    while not enough(high):
        high = math.ceil(high * 1.1) + 1
        if high > LARGEST_STUDY:
            raise ValueError(f"more than {LARGEST_STUDY} cases are needed.")
    # Saw-teeth are a few cases wide: look that far on both sides of the first crossing.
    reach = 10 + high // 50
    last_short = max((n for n in range(high, high + reach) if not enough(n)), default=0)
    if last_short:
        return last_short + 1
    n = high
    while n > 1 and enough(n - 1):
        n -= 1
    return n


def connor(p_improve: float, p_regress: float, *, power: float = 0.8, alpha: float = 0.05) -> float:
    """Independent cases needed for McNemar's test by Connor's formula, before rounding up.

    Parameters
    ----------
    p_improve, p_regress : float
        Chance that only the skill passes a case, and that only the baseline does.
    power, alpha : float
        Wanted power and two-sided level.

    Returns
    -------
    float
        ``(z_{1-alpha/2} sqrt(psi) + z_power sqrt(psi - delta^2))^2 / delta^2`` with ``psi`` the
        sum and ``delta`` the difference of the two chances. Too small for few discordant cases:
        see `mcnemar_cases`.

    References
    ----------
    Connor 1987, doi:10.2307/2531961. Miettinen 1968, doi:10.2307/2528288.

    Examples
    --------
    >>> round(connor(0.30, 0.05), 2)
    41.51
    """
    _check_shares(alpha, power)
    discordant = _check_discordant(p_improve, p_regress)
    delta = p_improve - p_regress
    if delta == 0.0:
        raise ValueError(f"p_improve and p_regress must differ, found {p_improve!r} for both.")
    reach = norm.isf(alpha / 2.0) * math.sqrt(discordant)
    reach += norm.ppf(power) * math.sqrt(max(discordant - delta**2, 0.0))
    return float(reach**2 / delta**2)


def _miller(
    variances: tuple[float, float, float], attempts: tuple[int, int], power: float, alpha: float
) -> float:
    """Return Miller's variance of a case times the squared sum of both quantiles."""
    _check_shares(alpha, power)
    omega2, skill, baseline = variances
    if min(variances) < 0 or min(attempts) < 1:
        raise ValueError(
            "variances must not be negative and attempts at least 1, found "
            f"{omega2!r}, {skill!r}, {baseline!r} and {attempts!r}."
        )
    variance = omega2 + skill / attempts[0] + baseline / attempts[1]
    return float((norm.isf(alpha / 2.0) + norm.ppf(power)) ** 2 * variance)


def miller_cases(
    delta: float,
    *,
    omega2: float,
    sigma2_skill: float = 0.0,
    sigma2_baseline: float = 0.0,
    attempts_skill: int = 1,
    attempts_baseline: int = 1,
    power: float = 0.8,
    alpha: float = 0.05,
) -> float:
    """Independent cases needed to see a mean difference ``delta``, before rounding up.

    Parameters
    ----------
    delta : float
        Difference to be seen.
    omega2 : float
        Variance over cases of the true difference of a case.
    sigma2_skill, sigma2_baseline : float
        Mean variance of one attempt around the true rate of its case, under each condition.
    attempts_skill, attempts_baseline : int
        Attempts per case and condition.
    power, alpha : float
        Wanted power and two-sided level.

    Returns
    -------
    float
        Miller's equation 9, with normal quantiles.

    References
    ----------
    Miller 2024, arXiv:2411.00640.

    Examples
    --------
    >>> round(miller_cases(0.03, omega2=1 / 9), 2)
    969.0
    """
    if delta == 0.0:
        raise ValueError("delta must not be 0.")
    variances = (omega2, sigma2_skill, sigma2_baseline)
    return _miller(variances, (attempts_skill, attempts_baseline), power, alpha) / delta**2


def miller_mde(
    n: float,
    *,
    omega2: float,
    sigma2_skill: float = 0.0,
    sigma2_baseline: float = 0.0,
    attempts_skill: int = 1,
    attempts_baseline: int = 1,
    power: float = 0.8,
    alpha: float = 0.05,
) -> float:
    """Smallest mean difference that ``n`` independent cases show with the wanted power.

    Parameters
    ----------
    n : float
        Cases.
    omega2, sigma2_skill, sigma2_baseline, attempts_skill, attempts_baseline, power, alpha
        As in `miller_cases`.

    Returns
    -------
    float
        Miller's equation 10, with normal quantiles.

    References
    ----------
    Miller 2024, arXiv:2411.00640.

    Examples
    --------
    >>> round(miller_mde(198, omega2=1 / 9, sigma2_skill=1 / 6, sigma2_baseline=1 / 6), 4)
    0.1327
    """
    if n <= 0:
        raise ValueError(f"n must be above 0, found {n!r}.")
    variances = (omega2, sigma2_skill, sigma2_baseline)
    return math.sqrt(_miller(variances, (attempts_skill, attempts_baseline), power, alpha) / n)
