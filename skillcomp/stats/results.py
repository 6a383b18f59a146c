"""The two shapes in which skillcomp.stats answers: an interval and a test."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real

from skillcomp.errors import FrameError

NAN = math.nan


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its interval.

    Attributes
    ----------
    estimate, low, high : float
        Point estimate and limits, on the scale the function names. NaN when not defined.
    ci_level : float
        Confidence level of the limits, 0.95 unless asked otherwise.
    method : str
        How the limits were made, with every setting that changes them.
    note : str
        What a reader must know: why a value is NaN, which rule fired. Empty when nothing.
    n : float
        Number of units (cases, labels) behind the estimate; may be fractional for effective n.
    n_clusters : float
        Number of independent clusters; NaN where the method has none.
    se, df : float
        Standard error and degrees of freedom where the method has them, else NaN.
    p_value : float
        p-value of "the estimate is zero" by inverting the same interval, where defined, else NaN.
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
        """Return the difference of two independent estimates, their limits squared and added.

        NaN with the notes of both where one has no limits.
        """
        label = "difference of two intervals (MOVER)"
        ends = (self.estimate, self.low, self.high, other.estimate, other.low, other.high)
        if not math.isfinite(sum(ends)):
            note = "; ".join(dict.fromkeys(filter(None, (self.note, other.note))))
            reason = note or "an estimate or a limit is not defined"
            return undefined(label, reason, ci_level=self.ci_level)
        difference = self.estimate - other.estimate
        low = difference - math.hypot(self.estimate - self.low, other.high - other.estimate)
        high = difference + math.hypot(self.high - self.estimate, other.estimate - other.low)
        return Interval(difference, low, high, self.ci_level, label, n=self.n + other.n)


@dataclass(frozen=True, slots=True)
class HypothesisTest:
    """A test of one hypothesis.

    Attributes
    ----------
    statistic : float
        The test statistic; NaN where the test is exact and has none.
    p_value : float
        Two-sided p-value unless ``method`` says otherwise. NaN when not defined.
    method : str
        Name of the test with every setting that changes it.
    note : str
        Why the value is NaN, or which guard fired. Empty when nothing.
    df : float
        Degrees of freedom of the reference distribution, NaN where it has none.
    """

    statistic: float
    p_value: float
    method: str = ""
    note: str = ""
    df: float = NAN


def undefined(method: str, note: str, *, ci_level: float = 0.95, n: float = NAN) -> Interval:
    """Return an interval that is NaN throughout, with the reason in ``note``."""
    return Interval(NAN, NAN, NAN, ci_level=ci_level, method=method, note=note, n=n)


def is_number(value: object) -> bool:
    """Tell a number from what a caller may give in its place."""
    return isinstance(value, Real)


def check_level(ci_level: float) -> float:
    """Return ``ci_level`` when it lies strictly between 0 and 1, else raise FrameError."""
    if not is_number(ci_level) or not 0.0 < ci_level < 1.0:
        raise FrameError(f"ci_level must lie strictly between 0 and 1, found {ci_level!r}.")
    return float(ci_level)


def quantile(ci_level: float, df: float = math.inf) -> float:
    """Return the two-sided t quantile of a level; the normal one without degrees of freedom."""
    from scipy.stats import t as student_t  # whoever only asks and records needs none of it

    return float(student_t.isf((1.0 - ci_level) / 2.0, df))


def join_notes(*notes: str) -> str:
    """Join the notes that say something, separated by semicolons."""
    return "; ".join(filter(None, notes))


def within_range(
    estimate: float, low: float, high: float, bounds: tuple[float, float]
) -> tuple[float, float, float, str]:
    """Cut an interval to the possible range without letting it lose its width.

    Parameters
    ----------
    estimate, low, high : float
        Estimate and limits, possibly outside ``bounds``.
    bounds : tuple of float
        Smallest and largest possible value.

    Returns
    -------
    tuple
        Estimate, low and high inside ``bounds``, and a note that is empty unless the estimate
        itself lay outside. An interval wholly outside keeps its length on that side, counted from
        the bound.

    Examples
    --------
    >>> within_range(1.5, 1.25, 1.75, (0.0, 1.0))[:3]
    (1.0, 0.75, 1.0)
    """
    smallest, largest = bounds
    inside = min(max(estimate, smallest), largest)
    if inside == estimate:
        return estimate, max(low, smallest), min(high, largest), ""
    note = f"estimate {estimate:.3g} lies outside {smallest:g} to {largest:g} and is cut to it"
    if estimate > largest:
        low, high = min(low, largest - (estimate - low)), largest
    else:
        low, high = smallest, max(high, smallest + (high - estimate))
    return inside, max(low, smallest), min(high, largest), note
