"""Assumptions of a power analysis, and variance components between skills, cases and repeats."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, Literal, NamedTuple, TypeVar, get_args

import numpy as np
import pandas as pd
from scipy.stats import chi2
from scipy.stats import f as f_distribution

from skillcomp.contrast import (
    MISSING_ATTEMPTS,
    BoundedValue,
    Bounds,
    compared_outcomes,
    ends_of,
    lost_attempts,
)
from skillcomp.errors import FrameError, StudyError, require_known, require_whole, suggest
from skillcomp.frames.check import require_frame
from skillcomp.frames.contracts import CASE, Cluster
from skillcomp.frames.estimates import By, estimates, grouped, groups, listed, require_columns, row
from skillcomp.stats.bounded import (
    DELTAS,
    RATES,
    Arm,
    IntervalRule,
    Quantity,
    Sample,
    bounded_mean,
    bounded_means,
)
from skillcomp.stats.results import (
    NAN,
    Fields,
    Floats,
    Interval,
    Intervals,
    join_notes,
    undefined,
)

Effect = Literal["delta", "gap"]
Scope = Literal["within_dimensions", "pooled"]
Claim = Literal["change", "as_good"]
Numbers = int | Sequence[int]
_T = TypeVar("_T")

_WORDS = {"effect": Effect, "claim": Claim, "cluster": Cluster, "scope": Scope}
_WORDS |= {"interval": IntervalRule}
PLAN = ["effect", "cluster", "scope", "n_skills", "n_cases", "n_repeats"]


@dataclass(frozen=True, slots=True)
class Assumptions:
    """Claim, assumed rates and variances, and settings of the simulation.

    :func:`power_curve` and :func:`cases_needed` take each field as a keyword.

    Parameters
    ----------
    effect : {"delta", "gap"}, default "delta"
        Effect to plan for. A delta is skill minus baseline; a gap is the delta of far cases minus
        the delta of near cases.
    claim : {"change", "as_good"}, default "change"
        What a delta is to show: a change (or, with a size below the margin, no change), or that the
        condition is as good as the reference, as in :func:`skillcomp.skillverdicts.compare`: the
        lower limit is above ``-margin``.
    cluster : {"case", "skill"}, default "case"
        Whether the claim is about further cases of the same skills (``case``), or about skills in
        general (``skill``).
    scope : {"within_dimensions", "pooled"}, default "within_dimensions"
        Row of :func:`skillcomp.transfer.gap` to plan for. ``within_dimensions`` compares near with
        far cases within a skill and dimension, so that the effect of a skill cancels. ``pooled``
        compares all near with all far cases; its interval counts the variation between skills (tau2
        of the delta) as noise. The scope matters only for a gap with ``cluster="case"``.
    by : str or sequence of str
        Columns of the pilot to group by, such as ``["grader"]``.
    value : {"passed", "share_passed", "score"}, default "passed"
        Outcome of an attempt: whether all checks passed, the share of checks passed, or the score.
    bounds : tuple of float, optional
        Lowest and highest possible score. Sizes, rates, margin and variances are then in the unit
        of the score.
    reference : str, default "baseline"
        Reference condition of the pilot.
    baseline_rate, delta : float, optional
        Pass rate of the baseline, and overall delta. The rate limits the possible effects. A gap
        requires the delta.
    margin : float, default 0.0
        The study is to show an effect beyond this margin: the whole interval is above ``margin`` or
        below ``-margin``. With the default, the interval excludes 0. If the true effect is smaller
        than the margin, the study is to show that the effect is within the margin.
    tau2, omega2, sigma2 : float, optional
        tau2 is the variance, between skills, of the delta; for a gap with ``cluster="skill"``, it
        is that of the gap. omega2 is the variance of the true delta between the cases of a skill;
        for a gap, between the cases of a skill at the same distance. sigma2 is the variance between
        repeats of a case, in either condition. With ``cluster="case"``, tau2 is used only for a
        delta and a pooled gap: it is added to omega2, because an interval by case includes both.
    far_share : float, default 0.5
        Share of far cases, for a gap.
    n_studies, seed : int
        Number of simulated studies per row, and the seed that all rows share.
    ci_level : float, default 0.95
        Level of the planned interval.
    interval : {"adaptive", "bounded", "t"}, default "adaptive"
        Rule of the planned interval, as in :func:`skillcomp.deltas.paired`. Shares of checks and
        scores are planned with ``"bounded"`` instead of ``"adaptive"``; ``method`` says so.

    Raises
    ------
    StudyError
        If a word or number is not allowed.

    Examples
    --------
    >>> from skillcomp import planning
    >>> wide = {"omega2": 0.2, "sigma2": 0.15, "baseline_rate": 0.4}
    >>> curve = planning.power_curve(sizes=0.2, **wide)
    """

    effect: Effect = "delta"
    claim: Claim = "change"
    cluster: Cluster = "case"
    scope: Scope = "within_dimensions"
    by: By = ()
    value: BoundedValue = "passed"
    bounds: Bounds = None
    reference: str = "baseline"
    baseline_rate: float | None = None
    delta: float | None = None
    margin: float = 0.0
    tau2: float | None = None
    omega2: float | None = None
    sigma2: float | None = None
    far_share: float = 0.5
    n_studies: int = 1000
    seed: int = 0
    ci_level: float = 0.95
    interval: IntervalRule = "adaptive"

    def __post_init__(self) -> None:
        """Raise StudyError if a word or number is not allowed."""
        level(self.ci_level)
        whole("n_studies", self.n_studies)
        whole("seed", self.seed, least=0)
        number("far_share", self.far_share, least=0, most=1, open_=True)
        low, high = ends_of(self.value, self.bounds)
        number("margin", self.margin, least=0, most=high - low)
        for name, allowed in _WORDS.items():
            require_known(f"{name}: found", getattr(self, name), get_args(allowed), StudyError)
        if self.claim == "as_good" and (self.effect != "delta" or not self.margin):
            raise StudyError("claim='as_good' is about a delta and needs margin= above 0.")
        for name, least, most in (("baseline_rate", low, high), ("delta", low - high, high - low)):
            if getattr(self, name) is not None:
                number(name, getattr(self, name), least=least, most=most)
        for name in ("tau2", "omega2", "sigma2"):
            if getattr(self, name) is not None:
                number(f"{name}, a variance", getattr(self, name), least=0, most=math.inf)

    @property
    def span(self) -> float:
        """Highest minus lowest possible value of an attempt."""
        low, high = ends_of(self.value, self.bounds)
        return high - low

    def components(self) -> Fields:
        """Return the stated components by name; tau2, omega2 and sigma2 set two components each."""
        values = {"baseline_rate": self.baseline_rate, "delta": self.delta}
        for end in ("", "_gap"):
            values |= {f"tau2{end}": self.tau2, f"omega2{end}": self.omega2}
        values |= {f"sigma2_{condition}": self.sigma2 for condition in ("skill", "baseline")}
        return {name: float(value) for name, value in values.items() if value is not None}

    def needed(self, pilot: bool) -> list[str]:
        """Return the names of the required components; sigma2 is required only without a pilot."""
        suffix = "_gap" if self.effect == "gap" else ""
        names = [f"omega2{suffix}"]
        if self.cluster == "skill":
            names.append(f"tau2{suffix}")
        elif suffix and self.scope == "pooled":
            names.append("tau2")
        if suffix:
            names.append("delta")
        return names if pilot else [*names, "sigma2_skill", "sigma2_baseline"]


def stated(words: Fields) -> Assumptions:
    """Return the assumptions that the keywords of a function state, and the defaults of others."""
    allowed = [field.name for field in fields(Assumptions)]
    for name in words:
        if name not in allowed:
            raise TypeError(f"planning: unknown keyword '{name}'.{suggest(name, allowed)}")
    return Assumptions(**words)


def number(name: str, value: Any, *, least: float, most: float, open_: bool = False) -> float:
    """Return a number as float if it is in the range; `open_` excludes the ends of the range.

    Raises
    ------
    StudyError
        If the value is not a number, or outside the range.
    """
    inside = False
    if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool):
        inside = bool(least < value < most if open_ else least <= value <= most)
    if not inside:
        allowed = f"from {least:g} to {most:g}"
        if math.isinf(most):
            allowed = f"a number of at least {least:g}"
        elif open_:
            allowed = f"strictly between {least:g} and {most:g}"
        raise StudyError(f"{name}: found {value!r}; allowed: {allowed}.")
    return float(value)


def level(ci_level: Any) -> float:
    """Return the level of an interval as float; raise StudyError if it is not between 0 and 1."""
    return number("ci_level", ci_level, least=0, most=1, open_=True)


# read a whole number of at least 1, or of at least ``least``
whole = partial(require_whole, error=StudyError)


def effects(name: str, values: Any, span: float = 1.0) -> list[float]:
    """Return one or several effects as a list; raise StudyError if one is beyond twice ``span``."""
    return read_several(name, values, partial(number, least=-2 * span, most=2 * span))


def read_several(name: str, values: Any, read: Callable[[str, Any], _T]) -> list[_T]:
    """Read one or several numbers as a list."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        return [read(name, values)]
    numbers = [read(name, element) for element in values]
    if not numbers:
        raise StudyError(f"{name}: found nothing; allowed: at least one number.")
    return numbers


_NOTHING = 1e-15  # a mean square below this is a rounding error
_EXTRA = ["n_skills", "n_repeats"]
# The sample variance of values in [0, 1] is at most 1/2; two repeats with 0 and 1 reach it.
_SPREADS = Quantity(0.0, 0.5, RATES.c)
_MOMENTS = "moments of the nested analysis of variance, modified large-sample limits"


def variance_components(
    outcomes: pd.DataFrame,
    *,
    by: By = (),
    value: BoundedValue = "passed",
    bounds: Bounds = None,
    reference: str = "baseline",
    ci_level: float = 0.95,
    interval: IntervalRule = "adaptive",
) -> pd.DataFrame:
    """Split the variance of a pilot's paired deltas into parts between skills, cases and repeats.

    The delta of a case is the mean of its repeats in one condition minus the mean of its repeats in
    the reference. :func:`power_curve` and :func:`cases_needed` take this frame as their pilot.

    Parameters
    ----------
    outcomes : pandas.DataFrame
        Outcomes frame of the pilot with skill, case_id, condition, transfer and the column
        ``value``.
    by : str or sequence of str
        Columns to group by, such as ``["grader"]``.
    value : {"passed", "share_passed", "score"}, default "passed"
        Outcome of an attempt: whether all checks passed, the share of checks passed, or the score.
    bounds : tuple of float, optional
        Lowest and highest possible score; for ``value="score"``, and required there.
    reference : str, default "baseline"
        Condition with which the others are compared.
    ci_level : float, default 0.95
        Level of the intervals.
    interval : {"adaptive", "bounded", "t"}, default "adaptive"
        Rule of the intervals of the rate, the delta and the gap, as in
        :func:`skillcomp.stats.bounded.bounded_mean`. Shares of checks and scores use ``"bounded"``
        instead of ``"adaptive"``.

    Returns
    -------
    pandas.DataFrame
        Nine rows per ``by`` and condition, with the estimates columns. The measures are

        - ``baseline_rate``, ``delta``: mean over cases, in the unit of ``value`` (variances: in
          its square);
        - ``gap``: mean delta of far cases minus mean delta of near cases; NaN with fewer than two
          cases of either kind;
        - ``tau2``, ``tau2_gap``: variance, between skills, of the delta and of the gap;
        - ``omega2``: variance of the true delta between cases of a skill;
        - ``omega2_gap``: variance of the true delta between cases of the same skill and distance;
        - ``sigma2_baseline``, ``sigma2_skill``: variance between the repeats of a case, averaged
          over cases; for ``passed``, this is the mean of p(1 - p), where p is the pass probability.

        ``n`` is the number of paired cases, ``n_clusters`` the number of skills, and ``n_repeats``
        the mean number of repeats per case and condition. A variance estimated below zero is set to
        0 with a note. A component that needs several skills or repeats is NaN with a note if there
        is only one skill or repeat. The limits of a variance are NaN if all deltas are equal.

    Raises
    ------
    FrameError
        If the frame breaks its contract, several graders or agents would be pooled, or the
        reference is missing.

    See Also
    --------
    cases_needed : Number of cases that a study needs, from the components of a pilot.

    Notes
    -----
    The expected mean square within skills is omega2 plus the mean noise of a case's delta. The
    noise is sigma2_baseline / K_baseline + sigma2_skill / K_skill, where K is the number of repeats
    under the condition. The expected mean square between skills is larger by n0 tau2, where n0 is
    the effective number of cases per skill. sigma2 is the mean over cases of the sample variance
    between repeats. With one repeat, omega2 and sigma2 cannot be distinguished, and omega2 includes
    both.

    The limits of the rate and the delta are those of :func:`skillcomp.stats.bounded.bounded_mean`
    with the rule ``interval``. The limits of sigma2 always have the rule ``"bounded"``. Rate and
    delta are clustered by skill if there are several skills. The limits of the gap combine the
    intervals of near and far by square-and-add. The limits of tau2 and omega2 are the modified
    large-sample limits for a difference of mean squares; they assume normal deltas and are wide in
    small pilots.

    References
    ----------
    Miller 2024, arXiv:2411.00640; Burdick and Graybill 1992, Confidence Intervals on Variance
    Components, Dekker.
    """
    level(ci_level)
    names = listed(by)
    read: Fields = {"value": value, "bounds": bounds, "reference": reference}
    prepared = compared_outcomes(outcomes, names, "planning", **read)
    scale = scale_of(value, bounds)
    rows = []
    for values, part in groups(prepared, names):
        for condition in part["condition"].unique():
            if condition != reference:
                pairs = pilot_pairs(part, condition, **read)
                n, n_skills = len(pairs), pairs["skill"].nunique()
                about = {**values, "condition": condition, "n_skills": n_skills}
                sizes = {"n_clusters": n_skills, "n": n}
                about["n_repeats"] = (pairs.n1 + pairs.n0).mean() / 2 if n else NAN
                counted, sides = part.assign(size=1, n=part[value].notna()), (condition, reference)
                lost = lost_attempts([counted[counted["condition"].eq(s)] for s in sides], sides)
                intervals = components(pairs, ci_level, interval)
                for measure in MEASURES:
                    noted = intervals[measure].times(*scale[measure]).with_note(lost)
                    unit = "score" if value == "score" and "2" not in measure else None
                    rows.append(row(measure, noted, unit=unit, **about) | sizes)
    by = [*names, "condition"]
    return estimates(rows, by=by, extra=_EXTRA, outcomes=prepared, reference=reference)


def scale_of(value: str, bounds: Bounds) -> dict[str, tuple[float, float]]:
    """Return the factor and the summand that turn a measure from 0 to 1 into the unit of scores."""
    low, high = ends_of(value, bounds)
    span = high - low
    scale = dict.fromkeys(MEASURES, (span**2, 0.0))
    return scale | {"baseline_rate": (span, low), "delta": (span, 0.0), "gap": (span, 0.0)}


def pilot_pairs(
    part: pd.DataFrame, condition: str, reference: str, value: str, bounds: Bounds = None
) -> pd.DataFrame:
    """Return a row for each case that has an outcome under the condition and the reference.

    ``skill`` is a code from 0. ``far`` is 1 for far, 0 for near and NaN if unknown. ``mean1`` and
    ``mean0`` are the means over repeats under the condition (1) and the reference (0), ``n1`` and
    ``n0`` the numbers of repeats with an outcome, and ``variance1`` and ``variance0`` the sample
    variances between these repeats, NaN with one repeat. Scores are between 0 and 1. ``delta`` is
    ``mean1`` minus ``mean0``. ``is_share`` is True for shares of checks and scores.
    """
    low, high = ends_of(value, bounds)
    numbers = part.assign(_value=(part[value].astype("float64") - low) / (high - low))
    sides = [
        grouped(numbers[numbers["condition"].eq(name)], [*CASE, "transfer"])["_value"]
        .agg(mean="mean", n="count", variance="var")
        .add_suffix(end)
        for name, end in ((condition, "1"), (reference, "0"))
    ]
    both = sides[0].join(sides[1], how="inner").reset_index()
    both = both[both["n1"].gt(0) & both["n0"].gt(0)]
    cases: pd.DataFrame = both.assign(
        skill=pd.factorize(both["skill"])[0],
        far=both["transfer"].map({"far": 1.0, "near": 0.0}).astype("float64"),
        delta=both["mean1"] - both["mean0"],
        is_share=value != "passed",
    )
    return cases


def _sample(pairs: pd.DataFrame, *ends: str, several_skills: bool) -> Sample:
    """Return a `Sample` of the means under conditions ("1", "0"), with skills as clusters."""
    arms = [
        Arm(pairs[f"mean{end}"].to_numpy(float), pairs[f"n{end}"].to_numpy(float), sign)
        for end, sign in zip(ends, (1.0, -1.0), strict=False)
    ]
    sample = Sample.of_arms(*arms, clusters=pairs["skill"].to_numpy() if several_skills else None)
    return sample._replace(arms=()) if pairs["is_share"].any() else sample


def components(
    pairs: pd.DataFrame, ci_level: float, interval: IntervalRule = "adaptive"
) -> Intervals:
    """Return the interval of each measure.

    The measures are the baseline rate, the delta (rate with the skill minus baseline rate), the gap
    (delta of far cases minus delta of near cases) and the variance components.
    """
    if pairs.empty:
        nothing = undefined("", "no case has outcomes in both conditions", ci_level, 0)
        return dict.fromkeys(MEASURES, nothing)
    sigma = {
        "sigma2_skill": sigma2_interval(pairs.variance1, ci_level),
        "sigma2_baseline": sigma2_interval(pairs.variance0, ci_level),
    }
    noise = noise_of_repeats(pairs, sigma)
    labelled = pairs.dropna(subset="far")
    labelled = labelled.assign(skill=np.unique(labelled["skill"], return_inverse=True)[1])
    kinds = np.unique(2 * labelled.skill + labelled.far.astype(np.intp), return_inverse=True)[1]
    apart = spread_of_cases(labelled.delta, kinds)
    how: Fields = {"ci_level": ci_level, "interval": interval}
    several = pairs["skill"].nunique() > 1
    rate = _sample(pairs, "0", several_skills=several)
    change = _sample(pairs, "1", "0", several_skills=several)
    delta = bounded_means([change], quantity=DELTAS, null=0.0, **how)
    return {
        "baseline_rate": bounded_means([rate], quantity=RATES, **how)[0],
        "delta": delta[0],
        "gap": _gap_interval(labelled, how),
        "tau2": tau2_interval(pairs, ci_level),
        "tau2_gap": _tau2_gap(labelled, apart, ci_level),
        "omega2": omega2_interval(spread_of_cases(pairs.delta, pairs.skill), noise, ci_level),
        "omega2_gap": omega2_interval(apart, noise, ci_level),
        **sigma,
    }


def sigma2_interval(variances: pd.Series | Floats, ci_level: float) -> Interval:
    """Return the mean over cases of the variance between repeats, with its interval."""
    if np.isnan(variances).all():
        note = "one repeat a case cannot tell repeats from cases; omega2 holds both"
        return undefined("", note, ci_level, len(variances))
    interval = bounded_mean(variances, quantity=_SPREADS, ci_level=ci_level)
    method = f"mean over cases of the variance between repeats, {interval.method}"
    return replace(interval, method=method)


class _Square(NamedTuple):
    """A mean square with its degrees of freedom; both are NaN if it is undefined."""

    value: float
    df: float

    def times(self, factor: float) -> _Square:
        return self._replace(value=factor * self.value)


def noise_of_repeats(pairs: pd.DataFrame, sigma: Intervals) -> _Square:
    """Return the variance that repeats add to the delta of a case, averaged over cases."""
    parts = ((sigma["sigma2_skill"], pairs.n1), (sigma["sigma2_baseline"], pairs.n0))
    value = sum(interval.estimate * (1 / n).mean() for interval, n in parts)
    spread = sum((interval.se * (1 / n).mean()) ** 2 for interval, n in parts)
    if not value > 0 or not spread > 0:
        return _Square(value, np.inf)
    return _Square(value, max(2 * value**2 / spread, 1.0))


def spread_of_cases(delta: pd.Series, codes: Any) -> _Square:
    """Return the mean square of deltas within groups; `codes` has the group of each case."""
    size = np.bincount(codes)
    df = len(delta) - len(size)
    if df < 1:
        return _Square(NAN, NAN)
    means = np.bincount(codes, weights=delta) / size
    return _Square(((delta - means[codes]) ** 2).sum() / df, df)


def omega2_interval(square: _Square, noise: _Square, ci_level: float) -> Interval:
    """Return the variance of true deltas between cases: the mean square minus the noise."""
    if np.isnan(square.value):
        return undefined(_MOMENTS, "no group has two cases", ci_level)
    if not np.isnan(noise.value):
        return _difference_of_squares(square, noise, ci_level)
    interval = _difference_of_squares(square, _Square(0.0, np.inf), ci_level)
    note = "one repeat a case: holds the variance between repeats of both conditions as well"
    return interval.with_note(first=note)


def tau2_interval(pairs: pd.DataFrame, ci_level: float) -> Interval:
    """Return the variance of deltas between skills, from mean squares between and within skills."""
    size = np.bincount(pairs.skill)
    n_skills = len(size)
    within = spread_of_cases(pairs.delta, pairs.skill)
    if n_skills < 2 or np.isnan(within.value):
        return undefined(_MOMENTS, _NEEDS.format("two cases"), ci_level)
    means = np.bincount(pairs.skill, weights=pairs.delta) / size
    squares = size * (means - pairs.delta.mean()) ** 2
    effective = (size.sum() - (size**2).sum() / size.sum()) / (n_skills - 1)
    between = _Square(squares.sum() / (n_skills - 1) / effective, n_skills - 1.0)
    return _difference_of_squares(between, within.times(1 / effective), ci_level)


_NEEDS = "needs at least two skills, and {} in at least one"


def _tau2_gap(pairs: pd.DataFrame, within: _Square, ci_level: float) -> Interval:
    n_far = np.bincount(pairs.skill, weights=pairs.far)
    n_near = np.bincount(pairs.skill) - n_far
    both = (n_far > 0) & (n_near > 0)
    if both.sum() < 2 or np.isnan(within.value):
        note = _NEEDS.format("near and far cases, with two of a kind")
        return undefined(_MOMENTS, note, ci_level)
    far = np.bincount(pairs.skill, weights=pairs.far * pairs.delta)
    near = np.bincount(pairs.skill, weights=pairs.delta) - far
    gaps = far[both] / n_far[both] - near[both] / n_near[both]
    scale = (1 / n_far[both] + 1 / n_near[both]).mean()
    between = _Square(gaps.var(ddof=1), both.sum() - 1.0)
    return _difference_of_squares(between, within.times(scale), ci_level)


def _gap_interval(pairs: pd.DataFrame, how: Fields) -> Interval:
    n_far = pairs.far.sum()
    if min(n_far, len(pairs) - n_far) < 2:
        note = "needs at least two near and two far cases"
        return undefined("", note, how["ci_level"], len(pairs))
    several = pairs["skill"].nunique() > 1
    sides = (pairs[pairs["far"].eq(side)] for side in (0, 1))
    samples = [_sample(side, "1", "0", several_skills=several) for side in sides]
    near, far = bounded_means(samples, quantity=DELTAS, **how)
    return replace(far.minus(near), n=len(pairs))


def _difference_of_squares(first: _Square, second: _Square, ci_level: float) -> Interval:
    """Return the variance ``first - second`` with modified large-sample limits."""
    plain = first.value - second.value
    notes = [] if plain >= 0 else [f"estimated below zero ({plain:.3g}) and set to 0"]
    low = high = NAN
    if first.value > _NOTHING or second.value > _NOTHING:
        below, above = _distances_to_limits(first, second, (1 - ci_level) / 2)
        low, high = max(plain - below, 0.0), plain + above
        if high <= 0:
            # set no limits: 0 and 0 would claim that the variance is exactly 0
            low = high = NAN
            notes.append("so are both limits: unknown")
    else:
        notes.append("no delta of the pilot differs from another: no limits")
    return Interval(max(plain, 0.0), low, high, ci_level, _MOMENTS, "; ".join(notes), df=first.df)


def _distances_to_limits(first: _Square, second: _Square, alpha: float) -> tuple[float, float]:
    """Return the distances of the lower and of the upper limit from `first - second`."""
    a, b = first.value, second.value
    low1, high1 = _scaled_chi2(alpha, first.df)
    low2, high2 = _scaled_chi2(alpha, second.df)
    out = []
    for own, other, f in (
        (1 - 1 / high1, 1 / low2 - 1, _f_quantile(1 - alpha, first.df, second.df)),
        (1 / low1 - 1, 1 - 1 / high2, _f_quantile(alpha, first.df, second.df)),
    ):
        cross = ((f - 1) ** 2 - (own * f) ** 2 - other**2) / f
        out.append(math.sqrt(max((own * a) ** 2 + (other * b) ** 2 + cross * a * b, 0.0)))
    return out[0], out[1]


def _scaled_chi2(alpha: float, df: float) -> tuple[float, float]:
    if math.isinf(df):
        return 1.0, 1.0
    return chi2.ppf(alpha, df) / df, chi2.ppf(1 - alpha, df) / df


def _f_quantile(level: float, df1: float, df2: float) -> float:
    if math.isinf(df2):
        return chi2.ppf(level, df1) / df1
    return f_distribution.ppf(level, df1, df2)


@dataclass(frozen=True, slots=True)
class Components:
    """Rates and variance components of a plan; each field is a measure of `variance_components`.

    Scores are between 0 and 1.
    """

    baseline_rate: float = NAN
    delta: float = NAN
    gap: float = NAN
    tau2: float = NAN
    tau2_gap: float = NAN
    omega2: float = NAN
    omega2_gap: float = NAN
    sigma2_baseline: float = NAN
    sigma2_skill: float = NAN

    @property
    def one_repeat(self) -> bool:
        """Whether a sigma2 is unknown; omega2 then includes the variance between repeats."""
        return math.isnan(self.sigma2_skill) or math.isnan(self.sigma2_baseline)

    @property
    def sigma2(self) -> tuple[float, float]:
        """Variances between repeats, with and without the skill; 0 if omega2 includes them."""
        return (0.0, 0.0) if self.one_repeat else (self.sigma2_skill, self.sigma2_baseline)


MEASURES = tuple(component.name for component in fields(Components))
_SETTINGS_OF_PILOT = ("by", "value", "bounds", "reference")


def components_by_group(
    pilot: pd.DataFrame | None, assumptions: Assumptions
) -> list[tuple[Fields, Components, str, str]]:
    """Return the keys, the components, a phrase and a note for each group of a pilot.

    The phrase names the required components that are unknown; it is empty if all are known. The
    note counts the attempts of the pilot without an outcome. Stated assumptions override the
    components of the pilot. StudyError is raised if every group lacks a required component.
    """
    scale = scale_of(assumptions.value, assumptions.bounds)

    def between_0_and_1(values: Fields) -> Components:
        parts = {
            name: (number - scale[name][1]) / scale[name][0] for name, number in values.items()
        }
        return Components(**parts)

    stated, needed = assumptions.components(), assumptions.needed(pilot is not None)
    if pilot is None:
        merged = between_0_and_1(stated)
        if lacking := _missing_components(merged, needed):
            raise StudyError(f"planning: stated assumptions {lacking}. {_remedy(lacking)}")
        return [({"condition": "skill"}, merged, "", "")]
    keys = [*listed(assumptions.by), "condition"]
    require_frame(pilot, "planning")
    table = pilot
    if "measure" not in pilot.columns:
        words = {name: getattr(assumptions, name) for name in _SETTINGS_OF_PILOT}
        table = variance_components(pilot, **words)
    require_columns(table, [*keys, "estimate"], "planning")
    out = []
    for about, rows in groups(table, keys):
        if rows["measure"].duplicated().any():
            raise FrameError(
                "planning: the frame of components holds several groups; name their columns in by=."
            )
        numbers = rows.set_index("measure")["estimate"].to_dict()
        from_pilot = {name: float(numbers.get(name, NAN)) for name in MEASURES}
        merged = between_0_and_1(from_pilot | stated)
        notes = rows["note"].fillna("") if "note" in rows.columns else pd.Series([""])
        lost = [part for part in notes.iloc[0].split("; ") if part.startswith(MISSING_ATTEMPTS)]
        lacking = _missing_components(merged, needed)
        out.append((about, merged, lacking, join_notes(*lost)))
    if out and all(lacking for _, _, lacking, _ in out):
        about, _, lacking, _ = out[0]
        of = ", ".join(map(str, about.values()))
        raise StudyError(f"planning: the pilot ({of}) {lacking}. {_remedy(lacking)}")
    return out


# component -> the data from which a pilot can estimate this component
_SOURCES = {
    "tau2": "several skills, each with several cases",
    "omega2": "several cases of each skill (for a gap, at each distance)",
    "sigma2": "several attempts at each case",
    "baseline_rate": "outcomes under the reference",
    "delta": "outcomes under both conditions",
}


def _remedy(lacking: str) -> str:
    """Return advice on unknown components: which arguments to give, or what data a pilot needs."""
    names = [name for name in _SOURCES if name in lacking]
    parts = [f"{name}= (a pilot needs {_SOURCES[name]})" for name in names]
    return f"Give {' and '.join(parts)}." if parts else "Give it as an argument."


def _missing_components(parts: Components, needed: Sequence[str]) -> str:
    """Return a phrase that names the unknown components; empty if all are known."""
    absent = [name for name in needed if math.isnan(getattr(parts, name))]
    return f"leaves unknown what is needed: {', '.join(absent)}" if absent else ""
