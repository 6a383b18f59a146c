"""Assumptions of a power analysis, and the studies to be planned."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from itertools import product
from typing import Any, Literal, TypeVar, get_args

import numpy as np

from skillcomp.contrast import BoundedValue, Bounds, ends_of, few_skills
from skillcomp.errors import StudyError, plural, require_known, require_whole, suggest
from skillcomp.frames.contracts import Cluster
from skillcomp.frames.estimates import By
from skillcomp.stats.bounded import IntervalRule
from skillcomp.stats.results import Fields

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


@dataclass(frozen=True, slots=True)
class StudyPlan:
    """Size and assumptions of a study; ``n_cases`` is the number of cases per skill."""

    assumptions: Assumptions
    n_skills: int
    n_cases: int
    n_repeats: int

    @property
    def sides(self) -> list[int]:
        """Number of cases per skill; for a gap, the numbers of near and of far cases."""
        if self.assumptions.effect == "delta":
            return [self.n_cases]
        far = round(self.n_cases * self.assumptions.far_share)
        return [self.n_cases - far, far]

    @property
    def problem(self) -> str:
        """Reason why the study is too small for an interval, or an empty string."""
        if self.assumptions.cluster == "skill" and (few := few_skills(self.n_skills)):
            return few
        if min(self.sides) < 1:
            return "each skill needs a near and a far case"
        if self.n_skills * self.n_cases < 2 * len(self.sides):
            return "too few cases"
        return ""

    def columns(self) -> Fields:
        """Return the columns that identify the plan in a frame."""
        about = self.assumptions
        columns: Fields = {"effect": about.effect, "cluster": about.cluster}
        columns["scope"] = about.scope if about.effect == "gap" else None
        sizes = {"skill": self.n_skills, "case": self.n_cases, "repeat": self.n_repeats}
        columns |= {f"n_{noun}s": size for noun, size in sizes.items()}
        return columns | {f"{noun}s": plural(size, noun) for noun, size in sizes.items()}


def plans(
    assumptions: Assumptions, n_skills: Numbers, n_cases: Numbers, n_repeats: Numbers
) -> list[StudyPlan]:
    """Return a plan for each combination of the numbers of skills, cases and repeats."""
    sizes_by_name = {"n_skills": n_skills, "n_cases": n_cases, "n_repeats": n_repeats}
    numbers = [_read_several(name, values, whole) for name, values in sizes_by_name.items()]
    return [StudyPlan(assumptions, *sizes) for sizes in product(*numbers)]


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
    return _read_several(name, values, partial(number, least=-2 * span, most=2 * span))


def _read_several(name: str, values: Any, read: Callable[[str, Any], _T]) -> list[_T]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        return [read(name, values)]
    numbers = [read(name, element) for element in values]
    if not numbers:
        raise StudyError(f"{name}: found nothing; allowed: at least one number.")
    return numbers
