"""The two result types of skillcomp.stats, an interval and a test, and adjusted p-values."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skillcomp.errors import FrameError

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Indices = NDArray[np.intp]
Fields = dict[str, Any]  # Values by name: a row of results, or arguments that several calls share.
NAN = math.nan
TINY_P = 1e-300  # the smallest p-value that is returned, in place of 0
OUTSIDE = "lies outside"  # the note of a clipped estimate contains these words


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its interval.

    Attributes
    ----------
    estimate, low, high : float
        Point estimate and limits, on the scale that the function documents. NaN if undefined.
    ci_level : float
        Confidence level of the limits.
    method : str
        Method of the limits, with every setting that changes them.
    note : str
        Reason why a value is NaN, or a rule or caution that applies; may be empty.
    n : float
        Number of units, such as cases or labels; fractional if it is an effective number.
    n_clusters : float
        Number of independent clusters; NaN if the method does not use clusters.
    se, df : float
        Standard error and degrees of freedom; NaN if the method does not use them.
    p_value : float
        Two-sided p-value for the null value that the function documents; NaN if undefined.
    """

    estimate: float
    low: float
    high: float
    ci_level: float = 0.95
    method: str = ""
    note: str = ""
    n: float = NAN
    n_clusters: float = NAN
    se: float = NAN
    df: float = NAN
    p_value: float = NAN

    def minus(self, other: Interval) -> Interval:
        """Subtract an independent estimate from this one, with limits by square-and-add (MOVER).

        If one of the two intervals has no limits, the result is NaN with the notes of both.
        """
        label = "difference of two intervals (MOVER)"
        ends = (self.estimate, self.low, self.high, other.estimate, other.low, other.high)
        if not math.isfinite(sum(ends)):
            reason = join_notes(*dict.fromkeys((self.note, other.note)))
            reason = reason or "an estimate or a limit is not defined"
            return undefined(label, reason, ci_level=self.ci_level)
        difference = self.estimate - other.estimate
        low = difference - math.hypot(self.estimate - self.low, other.high - other.estimate)
        high = difference + math.hypot(self.high - self.estimate, other.estimate - other.low)
        return Interval(difference, low, high, self.ci_level, label, n=self.n + other.n)

    def with_note(self, *notes: str, first: str = "") -> Interval:
        """Append notes, and put ``first`` before them all; those that are empty are left out."""
        return replace(self, note=join_notes(first, self.note, *notes))

    def with_t_limits(self, se: float, df: float, null: float | None = 0.0) -> Interval:
        """Return the interval with a standard error, its t limits, and the p-value of ``null``.

        The quantile is that of a normal distribution if ``df`` is infinite. The p-value is NaN if
        ``null`` is None.
        """
        from scipy.stats import t as student_t

        reach, p_value = quantile(self.ci_level, df) * se, NAN
        if null is not None:
            p_value = max(2.0 * float(student_t.sf(abs(self.estimate - null) / se, df)), TINY_P)
        low, high = self.estimate - reach, self.estimate + reach
        return replace(self, low=low, high=high, se=se, df=df, p_value=p_value)

    def p_from_limits(self, null: float) -> float:
        """Approximate the one-sided p-value against a value of at most ``null``, from the limits.

        Each side of the interval is taken as the t quantile with n - 1 degrees of freedom times a
        standard error of its own; as the normal quantile if n counts fewer than two units.
        """
        from scipy.stats import t as student_t

        df = self.n - 1.0 if self.n > 1.0 else math.inf
        end = self.low if self.estimate > null else self.high
        scale = quantile(self.ci_level, df) / abs(self.estimate - end)
        return float(student_t.sf((self.estimate - null) * scale, df))

    @property
    def complement(self) -> Interval:
        """1 minus a rate, with the limits exchanged."""
        return replace(self, estimate=1.0 - self.estimate, low=1.0 - self.high, high=1.0 - self.low)

    def times(self, factor: float, plus: float = 0.0) -> Interval:
        """Multiply the estimate, its limits and its standard error by a positive factor.

        ``plus`` is then added to the estimate and its limits.
        """
        moved = self.mapped(lambda number: factor * number + plus)
        return replace(moved, se=factor * self.se)

    def mapped(self, function: Callable[[float], float]) -> Interval:
        """Apply an increasing function to the estimate and its limits."""
        estimate, low, high = map(function, (self.estimate, self.low, self.high))
        return replace(self, estimate=estimate, low=low, high=high)


@dataclass(frozen=True, slots=True)
class HypothesisTest:
    """A test of one hypothesis.

    Attributes
    ----------
    statistic : float
        Test statistic; NaN if the test has none.
    p_value : float
        Two-sided p-value; NaN if undefined.
    method : str
        Name of the test, with every setting that changes the result.
    note : str
        Reason why the p-value is NaN, or a rule or caution that applies; may be empty.
    df : float
        Degrees of freedom of the reference distribution; NaN if it has none.
    """

    statistic: float
    p_value: float
    method: str = ""
    note: str = ""
    df: float = NAN


Intervals = dict[str, Interval]  # The estimates of several measures, by name.


def undefined(method: str, note: str, ci_level: float = 0.95, n: float = NAN) -> Interval:
    """Return an interval that is NaN except for ``n``, with the reason in ``note``."""
    return Interval(NAN, NAN, NAN, ci_level=ci_level, method=method, note=note, n=n)


def units_needed(interval: Interval, half_width: float) -> float:
    """Estimate how many units an interval needs to have a given half width.

    Parameters
    ----------
    interval : Interval
        An interval from ``n`` units, such as labels of a pilot, or from an expected table of
        counts.
    half_width : float
        Half of the distance between the limits, above 0.

    Returns
    -------
    float
        Number of units, if the estimate and the number of units per case stay the same. NaN if the
        interval is undefined or has no ``n``.

    Raises
    ------
    ValueError
        If ``half_width`` is not above 0.

    Notes
    -----
    The width is assumed to fall with the square root of the number of units. It falls faster near a
    bound and in small samples, so the result tends to be too large.

    Examples
    --------
    An interval that is ten times as narrow needs a hundred times as many units.

    >>> units_needed(Interval(0.5, 0.2, 0.8, n=25), 0.03)
    2500.0
    """
    if not half_width > 0.0:
        raise ValueError(f"half_width must be above 0, found {half_width!r}.")
    n = interval.n * ((interval.high - interval.low) / 2.0 / half_width) ** 2
    return float(math.ceil(n - 1e-9)) if math.isfinite(n) else NAN


HALF_WIDTHS = (0.2, 0.1)  # results have one column for each: the number of units needed
NEEDED = ("n_for_half_width_20", "n_for_half_width_10")


def needed_columns(interval: Interval) -> dict[str, float]:
    """Return, for each of ``HALF_WIDTHS``, a column name and the number of units needed."""
    needed = [units_needed(interval, half_width) for half_width in HALF_WIDTHS]
    return dict(zip(NEEDED, needed, strict=True))


def note_on_width(interval: Interval, units: str, *, coefficient: bool = False) -> str:
    """Return a note on how many units would narrow a wide interval; "" if it is not wide.

    Widths are in percentage points or, for a ``coefficient`` such as kappa, without a unit.
    """
    wide, narrow = (units_needed(interval, width) for width in HALF_WIDTHS)
    if not wide > interval.n:
        return ""
    sizes = ((interval.high - interval.low) / 2.0, *HALF_WIDTHS)
    if coefficient:
        half, first, second = (f"{size:.2g}".lstrip("0") for size in sizes)
    else:
        half, first, second = (f"{100 * size:.0f} points" for size in sizes)
    return (
        f"half of the interval's width is {half}: about {wide:,.0f} {units} would bring it to "
        f"{first}, and {narrow:,.0f} to {second}"
    )


def is_number(value: object) -> bool:
    """Return whether a value is a real number."""
    return isinstance(value, Real)


def check_level(ci_level: float) -> float:
    """Return ``ci_level``; raise FrameError unless it is strictly between 0 and 1."""
    if not is_number(ci_level) or not 0.0 < ci_level < 1.0:
        raise FrameError(f"ci_level must lie strictly between 0 and 1, found {ci_level!r}.")
    return float(ci_level)


def quantile(ci_level: float, df: float = math.inf) -> float:
    """Return the two-sided t quantile for a level; if ``df`` is infinite, the normal quantile."""
    # imported here because the import is slow and running a study needs no quantile
    from scipy.stats import t as student_t

    return float(student_t.isf((1.0 - ci_level) / 2.0, df))


def holm(p_values: ArrayLike) -> Floats:
    """Adjust the p-values of several claims by Holm's method.

    The method controls the chance of at least one false claim, even if the tests depend on each
    other.

    Parameters
    ----------
    p_values : array_like of float
        One p-value per comparison. NaN marks a comparison that could not be tested; it stays NaN
        but counts in the size of the family.

    Returns
    -------
    ndarray of float64
        Adjusted p-values in the order of ``p_values``.

    Raises
    ------
    ValueError
        If a p-value is outside 0..1.

    Notes
    -----
    For screening, use Benjamini and Hochberg's method in ``scipy.stats.false_discovery_control``.

    References
    ----------
    Holm 1979, Scandinavian Journal of Statistics 6:65-70.

    Examples
    --------
    NaN counts, so there are three comparisons. The results are 3 * 0.01 and 2 * 0.04.

    >>> holm([0.01, float("nan"), 0.04]).tolist()
    [0.03, nan, 0.08]
    """
    p = np.asarray(p_values, np.float64).ravel()
    present = ~np.isnan(p)
    outside = present & ~((p >= 0) & (p <= 1))
    if outside.any():
        at = int(np.flatnonzero(outside)[0])
        raise ValueError(f"p_values must lie in 0..1, found {p[at]:g} at position {at}.")
    # NaN sorts last, so a comparison that could not be tested counts like one with p = 1.
    order = np.argsort(p, kind="stable")
    stepped = p[order] * np.arange(p.size, 0, -1)
    adjusted = np.full(p.size, np.nan)
    adjusted[order] = np.minimum(np.maximum.accumulate(stepped), 1.0)
    return adjusted


def p_value(value: float, name: str = "p") -> str:
    """Format a p-value as "p = .03", "p = .004" or "p < .001"; never round .048 to .05."""
    if not 0.001 <= value <= 0.99:
        return f"{name} {'< .001' if value < 0.001 else '> .99'}"
    digits = 3 if value < 0.01 or f"{value:.2f}" == "0.05" else 2
    return f"{name} = {value:.{digits}f}".replace("0.", ".", 1)


def join_notes(*notes: str) -> str:
    """Join the notes that are not empty, separated by semicolons."""
    return "; ".join(filter(None, notes))


def within_range(
    estimate: float, low: float, high: float, bounds: tuple[float, float]
) -> tuple[float, float, float, str]:
    """Clip an estimate and its limits to the possible range.

    Parameters
    ----------
    estimate, low, high : float
        Estimate and limits, possibly outside ``bounds``.
    bounds : tuple of float
        Smallest and largest possible value.

    Returns
    -------
    tuple
        Estimate, low and high inside ``bounds``, and a note. An estimate outside ``bounds`` is
        moved to the nearest bound, which also becomes the limit on that side. The other limit is
        moved by the same distance as the estimate. The note states that the estimate was outside
        ``bounds``; it is empty if the estimate was inside.

    Examples
    --------
    >>> within_range(1.5, 1.25, 1.75, (0.0, 1.0))[:3]
    (1.0, 0.75, 1.0)
    """
    smallest, largest = bounds
    inside = min(max(estimate, smallest), largest)
    if inside == estimate:
        return estimate, max(low, smallest), min(high, largest), ""
    note = f"estimate {estimate:.3g} {OUTSIDE} {smallest:g} to {largest:g} and is cut to it"
    if estimate > largest:
        low, high = min(low, largest - (estimate - low)), largest
    else:
        low, high = smallest, max(high, smallest + (high - estimate))
    return inside, max(low, smallest), min(high, largest), note
