"""Where the variation of a paired difference comes from: skills, cases, attempts.

Public through ``power``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skillcomp.stats.moments import Clusters
from skillcomp.stats.pairs import paired_counts

__all__ = ["PairedComponents", "paired_components", "paired_variance"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PairedComponents:
    """Variance components of paired pass rates.

    Attributes
    ----------
    tau2 : float
        Variance between skills of the true difference.
    omega2 : float
        Variance between cases of a skill of the true difference.
    sigma2_skill, sigma2_baseline : float
        Mean of p (1 - p) over cases in each arm: the variance of one attempt. NaN when no case
        has two attempts; ``omega2`` then holds it too, for one attempt per case.
    note : str
        What a reader must know. Empty when nothing.
    """

    tau2: float
    omega2: float
    sigma2_skill: float
    sigma2_baseline: float
    note: str = ""

    def within(self, attempts_skill: int, attempts_baseline: int) -> float:
        """Return the variance of one case's difference around the mean of its skill."""
        within = self.omega2
        for arm, sigma2, attempts in (
            ("skill", self.sigma2_skill, attempts_skill),
            ("baseline", self.sigma2_baseline, attempts_baseline),
        ):
            if attempts < 1:
                raise ValueError(f"attempts_{arm} must be at least 1, found {attempts!r}.")
            if math.isnan(sigma2):
                if attempts != 1:
                    raise ValueError(
                        f"attempts_{arm}={attempts} cannot be planned: the variance of one attempt "
                        "is unknown, as no case had two."
                    )
                continue
            within += sigma2 / attempts
        return within


def _attempt_variance(passes: Floats, attempts: Floats) -> float:
    """Return the mean unbiased p (1 - p) over the cases with two attempts or more."""
    several = attempts > 1
    if not several.any():
        return math.nan
    x, n = passes[several], attempts[several]
    return float((x * (n - x) / (n * (n - 1.0))).mean())


def paired_components(
    x1: ArrayLike, n1: ArrayLike, x0: ArrayLike, n0: ArrayLike, clusters: Any = None
) -> PairedComponents:
    """Estimate the variance components of a paired study by analysis of variance.

    Parameters
    ----------
    x1, n1, x0, n0 : array_like, shape (n,)
        Passes and attempts of each case with the skill and in the baseline. Attempts may be one
        number for all cases.
    clusters : array_like, shape (n,), optional
        Skill of each case; without it ``tau2`` is 0 and all variation between cases is ``omega2``.

    Returns
    -------
    PairedComponents
        Components that come out negative are set to 0, as ``note`` then says. NaN with a note
        where there are too few cases or skills.

    Notes
    -----
    Mean squares between and within skills of the case differences, set equal to their
    expectations; the variance of the attempts is taken off the part within skills. From a pilot
    with a handful of skills ``tau2`` is hardly known: plan for a range of it.

    Examples
    --------
    >>> found = paired_components([2, 1, 2, 0], 2, [0, 1, 1, 0], 2, ["u", "u", "v", "v"])
    >>> found.sigma2_skill, found.sigma2_baseline, found.tau2
    (0.125, 0.25, 0.0)
    """
    counts = paired_counts(x1, n1, x0, n0, clusters)
    groups: Clusters = counts.clusters
    sigma1 = _attempt_variance(counts.x1, counts.n1)
    sigma0 = _attempt_variance(counts.x0, counts.n0)
    d = counts.x1 / counts.n1 - counts.x0 / counts.n0
    total, g = groups.n, groups.count
    notes = []
    if groups.single:
        within = float(d.var(ddof=1)) if total > 1 else math.nan
        tau2 = 0.0
    elif g < 2 or total == g:
        within, tau2 = math.nan, math.nan
    else:
        sums, sizes = groups.totals(d), groups.sizes
        between = float((sums**2 / sizes).sum() - d.sum() ** 2 / total) / (g - 1)
        within = float((d**2).sum() - (sums**2 / sizes).sum()) / (total - g)
        typical = (total - float((sizes**2).sum()) / total) / (g - 1)
        tau2 = (between - within) / typical
        if tau2 < 0:
            notes.append("tau2 came out negative and is set to 0")
    noise = sum(
        sigma * float((1.0 / n).mean())
        for sigma, n in ((sigma1, counts.n1), (sigma0, counts.n0))
        if not math.isnan(sigma)
    )
    if math.isnan(sigma1) or math.isnan(sigma0):
        notes.append("an arm has one attempt a case: omega2 holds the variance of its attempts")
    omega2 = within - noise
    if omega2 < 0:
        notes.append("omega2 came out negative and is set to 0")
    if math.isnan(within):
        notes.append("too few cases or skills")
    return PairedComponents(
        tau2=max(tau2, 0.0) if not math.isnan(tau2) else tau2,
        omega2=max(omega2, 0.0) if not math.isnan(omega2) else omega2,
        sigma2_skill=sigma1,
        sigma2_baseline=sigma0,
        note="; ".join(notes),
    )


def paired_variance(
    sizes: ArrayLike,
    components: PairedComponents,
    *,
    attempts_skill: int = 1,
    attempts_baseline: int = 1,
) -> float:
    """Variance of the case-weighted paired difference of a planned study.

    Parameters
    ----------
    sizes : array_like of int
        Cases in each skill.
    components : PairedComponents
        Variances between skills, cases and attempts; an unknown (NaN) attempt variance counts as
        contained in ``omega2``.
    attempts_skill, attempts_baseline : int
        Attempts per case in each arm.

    Returns
    -------
    float
        ``tau2 sum(n_g^2) / T^2 + (omega2 + sigma2_skill / K1 + sigma2_baseline / K0) / T``.

    Raises
    ------
    ValueError
        When there is no case, or attempts are below 1, or attempts differ from 1 in an arm whose
        attempt variance is unknown.

    Examples
    --------
    >>> parts = PairedComponents(tau2=0.02, omega2=0.1, sigma2_skill=0.2, sigma2_baseline=0.2)
    >>> round(paired_variance([5, 5], parts, attempts_skill=2, attempts_baseline=2), 6)
    0.04
    """
    n = np.asarray(sizes, dtype=np.float64)
    if not n.size or (n < 1).any():
        raise ValueError(f"sizes must name at least one case in each cluster, found {n.tolist()}.")
    within = components.within(attempts_skill, attempts_baseline)
    total = float(n.sum())
    return float(components.tau2 * (n**2).sum() / total**2 + within / total)
