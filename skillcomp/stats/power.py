"""How many cases, and what difference a given number of them can show.

One attempt per case and independent cases: `mcnemar_power`, `connor`. Means of cases with known
variance: `miller_cases`, `miller_mde`. Repeats and skills: `paired_variance` with `t_mde`. For a
number to be published: `simulate_power`, which runs the project's own interval on studies with
those properties and so knows what the formulas leave out (ceilings, small numbers, its own rule).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import nct, norm
from scipy.stats import t as student_t

from skillcomp.stats.casepower import (
    check_shares,
    connor,
    mcnemar_cases,
    mcnemar_power,
    miller_cases,
    miller_mde,
)
from skillcomp.stats.components import PairedComponents, paired_components, paired_variance
from skillcomp.stats.moments import Clusters
from skillcomp.stats.powersim import SimulatedPower, draw_paired_studies, simulate_power

__all__ = [
    "PairedComponents",
    "SimulatedPower",
    "clustered_cases",
    "clustered_df",
    "clustered_mde",
    "connor",
    "design_effect",
    "draw_paired_studies",
    "mcnemar_cases",
    "mcnemar_power",
    "miller_cases",
    "miller_mde",
    "paired_components",
    "paired_variance",
    "simulate_power",
    "t_mde",
    "t_power",
]


def design_effect(sizes: ArrayLike, rho: float) -> float:
    """Factor by which clusters raise the variance of a mean of case differences.

    Parameters
    ----------
    sizes : array_like of int
        Cases in each cluster.
    rho : float
        Correlation of the differences of two cases of one cluster.

    Returns
    -------
    float
        ``1 + (sum(sizes^2) / sum(sizes) - 1) rho``.

    Examples
    --------
    >>> design_effect([5, 5, 5, 5], 0.25)
    2.0
    """
    n = np.asarray(sizes, dtype=np.float64)
    return float(1.0 + ((n**2).sum() / n.sum() - 1.0) * rho)


def t_mde(variance: float, df: float, *, power: float = 0.8, alpha: float = 0.05) -> float:
    """Smallest difference seen with the wanted power by a t interval of known variance.

    Parameters
    ----------
    variance : float
        Variance of the estimate, for instance from `paired_variance`; those of independent parts
        (near and far cases of a transfer gap) add.
    df : float
        Degrees of freedom of the interval; may be infinite.
    power, alpha : float
        Wanted power and two-sided level.

    Returns
    -------
    float
        ``(t_{1-alpha/2} + t_power) sqrt(variance)``.

    Examples
    --------
    >>> round(t_mde(0.0016, 7), 3)
    0.13
    """
    check_shares(alpha, power)
    quantiles = student_t.isf(alpha / 2.0, df) + student_t.ppf(power, df)
    return float(quantiles * math.sqrt(variance))


def t_power(delta: float, variance: float, df: float, *, alpha: float = 0.05) -> float:
    """Power of a t interval to exclude 0 in the right direction at a true difference ``delta``.

    Examples
    --------
    >>> round(t_power(0.13, 0.0016, 7), 2)
    0.8
    """
    if variance <= 0:
        raise ValueError(f"variance must be above 0, found {variance!r}.")
    ratio = abs(delta) / math.sqrt(variance)
    if math.isinf(df):
        return float(norm.sf(norm.isf(alpha / 2.0) - ratio))
    return float(nct.sf(student_t.isf(alpha / 2.0, df), df, ratio))


def clustered_df(sizes: ArrayLike) -> float:
    """Satterthwaite degrees of freedom of the CR2 mean over clusters of these sizes.

    Examples
    --------
    >>> round(clustered_df([6, 6, 6, 6]), 6), round(clustered_df([30, 4, 4, 4]), 2)
    (3.0, 1.55)
    """
    n = np.asarray(sizes, dtype=np.int64)
    return float(Clusters.of(np.repeat(np.arange(n.size), n), int(n.sum())).df)


def clustered_mde(
    sizes: ArrayLike,
    components: PairedComponents,
    *,
    attempts_skill: int = 1,
    attempts_baseline: int = 1,
    power: float = 0.8,
    alpha: float = 0.05,
) -> float:
    """Smallest paired difference that cases in skills with repeats show with the wanted power.

    Parameters
    ----------
    sizes : array_like of int
        Cases in each skill. For a claim about these skills only, give ones (every case is its own
        cluster) and components with ``tau2 = 0``.
    components : PairedComponents
        Variances between skills, between cases and between attempts.
    attempts_skill, attempts_baseline : int
        Attempts per case in each arm.
    power, alpha : float
        Wanted power and two-sided level.

    Returns
    -------
    float
        `t_mde` of `paired_variance` on Satterthwaite's degrees of freedom. With few skills more
        cases do not help: the variance tends to ``tau2`` over the number of skills. The formula
        knows no ceiling: check a number to be published with `simulate_power`.

    Examples
    --------
    >>> parts = PairedComponents(tau2=0.01, omega2=0.08, sigma2_skill=0.15, sigma2_baseline=0.15)
    >>> round(clustered_mde([6] * 8, parts, attempts_skill=3, attempts_baseline=3), 3)
    0.231
    """
    variance = paired_variance(
        sizes, components, attempts_skill=attempts_skill, attempts_baseline=attempts_baseline
    )
    return t_mde(variance, clustered_df(sizes), power=power, alpha=alpha)


def clustered_cases(
    delta: float,
    n_clusters: int,
    components: PairedComponents,
    *,
    attempts_skill: int = 1,
    attempts_baseline: int = 1,
    power: float = 0.8,
    alpha: float = 0.05,
) -> float:
    """Cases per skill needed to see ``delta`` over ``n_clusters`` equally large skills.

    Parameters
    ----------
    delta : float
        Difference to be seen.
    n_clusters : int
        Skills, at least 2.
    components, attempts_skill, attempts_baseline, power, alpha
        As in `clustered_mde`.

    Returns
    -------
    float
        Whole number of cases in each skill; infinite when no number suffices because the skills
        differ too much from each other for so few of them.

    Examples
    --------
    >>> parts = PairedComponents(tau2=0.01, omega2=0.08, sigma2_skill=0.15, sigma2_baseline=0.15)
    >>> clustered_cases(0.15, 8, parts), clustered_cases(0.15, 20, parts)
    (55.0, 10.0)
    """
    check_shares(alpha, power)
    if n_clusters < 2 or delta == 0.0:
        raise ValueError(
            f"n_clusters must be at least 2 and delta not 0, found {n_clusters!r} and {delta!r}."
        )
    largest = (delta / t_mde(1.0, n_clusters - 1.0, power=power, alpha=alpha)) ** 2
    spare = largest - components.tau2 / n_clusters
    within = components.within(attempts_skill, attempts_baseline)
    if spare <= 0.0:
        return math.inf
    return float(max(1, math.ceil(within / n_clusters / spare - 1e-9)))
