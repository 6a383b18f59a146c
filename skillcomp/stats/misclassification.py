"""What a grader's errors do to a pass rate, and how to put it right."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from skillcomp.stats.differential import (
    DifferentialTests,
    differential_misclassification,
    fisher_midp,
)
from skillcomp.stats.intervals import mover_difference
from skillcomp.stats.ppi import ppi_mean, ppi_paired, within_range
from skillcomp.stats.results import Interval, check_level, undefined
from skillcomp.stats.score import quantile

__all__ = [
    "DifferentialTests",
    "GoldAllocation",
    "differential_misclassification",
    "fisher_midp",
    "gold_allocation",
    "ppi_mean",
    "ppi_paired",
    "rogan_gladen",
    "youden",
    "youden_difference",
]

Floats = NDArray[np.float64]
Estimate = Interval | tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class GoldAllocation:
    """How many gold passes and gold fails to label.

    Attributes
    ----------
    n_sensitivity, n_specificity : int
        Labels among what passes and among what fails by gold.
    width : float
        Expected width of the Lang-Reiczigel interval with this split, before it is cut to [0, 1].
    """

    n_sensitivity: int
    n_specificity: int
    width: float


def _check_rate(**rates: float) -> None:
    for name, value in rates.items():
        if not 0.0 <= value <= 1.0:
            raise ValueError(f"{name} must lie between 0 and 1, found {value!r}.")


def _lang_reiczigel(
    rate: float, n: float, sens: float, n_sens: Floats, spec: float, n_spec: Floats, z: float
) -> tuple[Floats, Floats]:
    # Centre and half-width. Every rate is shrunk first: the pass rate as in the Agresti-Coull
    # interval, sensitivity and specificity by one imagined label of each kind.
    n_prime = n + z * z
    p = (n * rate + z * z / 2.0) / n_prime
    se = (n_sens * sens + 1.0) / (n_sens + 2.0)
    sp = (n_spec * spec + 1.0) / (n_spec + 2.0)
    j = se + sp - 1.0
    theta = (p + sp - 1.0) / j
    var_se = se * (1.0 - se) / (n_sens + 2.0)
    var_sp = sp * (1.0 - sp) / (n_spec + 2.0)
    shift = 2.0 * z * z * (theta * var_se - (1.0 - theta) * var_sp)
    variance = p * (1.0 - p) / n_prime + theta**2 * var_se + (1.0 - theta) ** 2 * var_sp
    return theta + shift, z * np.sqrt(variance) / np.abs(j)


def rogan_gladen(
    positive_rate: float,
    n: float,
    sensitivity: float,
    n_sensitivity: float,
    specificity: float,
    n_specificity: float,
    *,
    ci_level: float = 0.95,
) -> Interval:
    """Correct a grader's pass rate for how often the grader errs.

    For gold that comes from elsewhere than the cases estimated here. Where a random part of the
    same cases carries gold, :func:`ppi_mean` assumes less; for a difference between conditions use
    :func:`ppi_paired`, since one pair of rates for both arms can reverse its sign.

    Parameters
    ----------
    positive_rate : float
        Share of units the grader passes.
    n : float
        Number of units behind it (the effective number where units are clustered).
    sensitivity, n_sensitivity : float
        Share of gold passes the grader passes, and how many gold passes that rests on.
    specificity, n_specificity : float
        Share of gold fails the grader fails, and how many gold fails that rests on.
    ci_level : float, default 0.95
        Confidence level.

    Returns
    -------
    Interval
        Rogan-Gladen estimate cut to [0, 1] with the Lang-Reiczigel interval, which carries the
        uncertainty of all three rates. NaN with a note where sensitivity plus specificity do not
        exceed 1 (a grader no better than chance) or a count is 0.

    Raises
    ------
    ValueError
        A rate outside [0, 1] or a negative count.

    Notes
    -----
    ``(p + Sp - 1) / (Se + Sp - 1)``. Assumes that both rates carry over to these units; they
    usually differ between conditions. Gold may over-sample fails. Where the estimate
    itself lies outside [0, 1] the interval keeps its half-width from the bound on, and ``note``
    says so. Equal to asht 1.0.1 ``prevSeSp`` (R) and to Lee et al. 2025.

    References
    ----------
    Rogan and Gladen 1978, doi:10.1093/oxfordjournals.aje.a112510; Lang and Reiczigel 2014,
    doi:10.1016/j.prevetmed.2013.09.015; Lee et al. 2025, arXiv:2511.21140.

    Examples
    --------
    >>> found = rogan_gladen(0.3, 100, 0.8, 50, 0.9, 50)
    >>> round(found.estimate, 4), round(found.low, 4), round(found.high, 4)
    (0.2857, 0.1139, 0.4492)
    """
    level = check_level(ci_level)
    _check_rate(positive_rate=positive_rate, sensitivity=sensitivity, specificity=specificity)
    counts = {"n": n, "n_sensitivity": n_sensitivity, "n_specificity": n_specificity}
    for name, value in counts.items():
        if not value >= 0.0:
            raise ValueError(f"{name} must not be negative, found {value!r}.")
        if value == 0.0:
            return undefined(
                "Rogan-Gladen, Lang-Reiczigel", f"{name} is 0", ci_level=level, n=float(n)
            )
    label = "Rogan-Gladen, Lang-Reiczigel"
    j = sensitivity + specificity - 1.0
    if j <= 1e-12:
        return undefined(
            label,
            "sensitivity + specificity do not exceed 1: the grader is no better than chance",
            ci_level=level,
            n=float(n),
        )
    estimate = (positive_rate + specificity - 1.0) / j
    centre, half = _lang_reiczigel(
        positive_rate,
        n,
        sensitivity,
        np.asarray(n_sensitivity, float),
        specificity,
        np.asarray(n_specificity, float),
        quantile(level),
    )
    if not math.isfinite(float(half)):
        return replace(
            undefined(
                label,
                "shrunk sensitivity + specificity equal 1: no interval",
                ci_level=level,
                n=float(n),
            ),
            estimate=min(max(estimate, 0.0), 1.0),
        )
    low, high, cut = max(float(centre - half), 0.0), min(float(centre + half), 1.0), ""
    inside = min(max(estimate, 0.0), 1.0)
    if inside != estimate or not low < high:
        _, shifted_low, shifted_high, cut = within_range(
            estimate, estimate - float(half), estimate + float(half), (0.0, 1.0)
        )
        low, high = min(low, shifted_low), max(high, shifted_high)
    return Interval(
        inside,
        min(low, inside),
        max(high, inside),
        level,
        label,
        cut,
        float(n),
        se=float(half) / quantile(level),
    )


def gold_allocation(
    total: int,
    *,
    positive_rate: float,
    n: float,
    sensitivity: float,
    specificity: float,
    ci_level: float = 0.95,
) -> GoldAllocation:
    """Split of ``total`` gold labels between passes and fails that minimises the interval.

    Parameters
    ----------
    total : int
        Gold labels to be spent, at least 2.
    positive_rate, n : float
        Grader's pass rate, as expected, and the number of units behind it.
    sensitivity, specificity : float
        Rates expected of the grader, from a pilot.
    ci_level : float, default 0.95
        Confidence level.

    Returns
    -------
    GoldAllocation
        The split with the shortest :func:`rogan_gladen` interval, by trying every one.

    Raises
    ------
    ValueError
        Fewer than 2 labels, a rate outside [0, 1], or a grader no better than chance.

    Notes
    -----
    Close to labels in proportion ``theta sqrt(Se (1 - Se))`` to
    ``(1 - theta) sqrt(Sp (1 - Sp))``. Whether a unit passes by gold is known only after labelling;
    draw by the grader's verdict, and go on until each class is full.

    References
    ----------
    Lee et al. 2025, arXiv:2511.21140.

    Examples
    --------
    >>> split = gold_allocation(60, positive_rate=0.7, n=200, sensitivity=0.9, specificity=0.9)
    >>> split.n_sensitivity, split.n_specificity, round(split.width, 3)
    (42, 18, 0.277)
    """
    check_level(ci_level)
    _check_rate(positive_rate=positive_rate, sensitivity=sensitivity, specificity=specificity)
    if total < 2:
        raise ValueError(f"total must be at least 2 gold labels, found {total!r}.")
    if sensitivity + specificity <= 1.0:
        raise ValueError("sensitivity + specificity must exceed 1, else no number of labels helps.")
    passes = np.arange(1, int(total), dtype=float)
    _, half = _lang_reiczigel(
        positive_rate, n, sensitivity, passes, specificity, total - passes, quantile(ci_level)
    )
    best = int(np.nanargmin(half))
    return GoldAllocation(int(passes[best]), int(total - passes[best]), float(2.0 * half[best]))


def youden(sensitivity: Estimate, specificity: Estimate) -> Interval:
    """How much better than chance a grader is: sensitivity + specificity - 1.

    Parameters
    ----------
    sensitivity, specificity : Interval or tuple of float
        Estimate, low and high of each, from :func:`skillcomp.stats.agreement.sensitivity` and
        :func:`skillcomp.stats.agreement.specificity`, of one arm.

    Returns
    -------
    Interval
        J in [-1, 1], 0 for a grader that guesses. NaN with a note where one rate is not defined.

    See Also
    --------
    youden_difference : of two arms.

    Notes
    -----
    Limits by the method of variance estimates recovery from those of the two rates, which come
    from different units and are taken as independent.

    References
    ----------
    Youden 1950, doi:10.1002/1097-0142(1950)3:1<32::AID-CNCR2820030106>3.0.CO;2-3; Zou and Donner
    2008, doi:10.1002/sim.3095.

    Examples
    --------
    >>> round(youden((0.9, 0.8, 0.95), (0.8, 0.7, 0.9)).estimate, 3)
    0.7
    """
    estimate, low, high, level = _unpacked(specificity)
    note = specificity.note if isinstance(specificity, Interval) else ""
    wrong = Interval(1.0 - estimate, 1.0 - high, 1.0 - low, level, note=note)
    return _difference("Youden's J", sensitivity, wrong)


def youden_difference(skill: Estimate, baseline: Estimate) -> Interval:
    """How much better a grader tells passes from fails in one arm than in the other.

    Parameters
    ----------
    skill, baseline : Interval or tuple of float
        :func:`youden` of each arm.

    Returns
    -------
    Interval
        ``J(skill) - J(baseline)`` in [-2, 2]. NaN with a note where one arm is not defined.

    Notes
    -----
    Arms are taken as independent; gold on the same cases in both arms makes the interval somewhat
    too wide. An interval that holds 0 is no licence to pool the arms' rates of error.

    References
    ----------
    Fiedler 2026, arXiv:2605.06939; Zou and Donner 2008, doi:10.1002/sim.3095.

    Examples
    --------
    >>> round(youden_difference((0.6, 0.5, 0.7), (0.7, 0.6, 0.8)).low, 4)
    -0.2414
    """
    return _difference("difference of Youden's J", skill, baseline)


def _unpacked(value: Estimate) -> tuple[float, float, float, float]:
    if isinstance(value, Interval):
        return value.estimate, value.low, value.high, value.ci_level
    return (*value, 0.95)


def _difference(label: str, first: Estimate, second: Estimate) -> Interval:
    estimate, low, high, level = _unpacked(first)
    other, _, _, other_level = _unpacked(second)
    if level != other_level:
        raise ValueError(f"both intervals must have one level, found {level} and {other_level}.")
    if math.isnan(estimate) or math.isnan(other):
        notes = (v.note for v in (first, second) if isinstance(v, Interval))
        reason = "; ".join(filter(None, notes)) or "one of the two rates is not defined"
        return undefined(label, reason, ci_level=level)
    found = mover_difference(
        Interval(estimate, low, high, level), Interval(*_unpacked(second)[:3], other_level)
    )
    return replace(found, method=f"{label}, {found.method}")
