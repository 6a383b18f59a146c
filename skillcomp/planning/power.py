"""Power and required size of a study for a delta or a near/far gap, by simulation.

Simulated studies are tested with the interval that the analyses report. Power is not computed by a
formula.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from itertools import product
from typing import Any

import joblib
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import brentq, nnls
from scipy.stats import binom, norm
from scipy.stats import t as student

from skillcomp.contrast import few_skills
from skillcomp.errors import StudyError, plural
from skillcomp.frames.estimates import estimates, listed, row
from skillcomp.planning.assumed_components import (
    PLAN,
    Assumptions,
    Components,
    Numbers,
    components_by_group,
    effects,
    number,
    read_several,
    stated,
    whole,
)
from skillcomp.stats.bounded import (
    DELTAS,
    Arm,
    CaseCounts,
    ContrastTerms,
    Positions,
    Quantity,
    bounded_label,
    bounded_mean,
    contrast_terms,
    mixed_outcomes,
    placed_cases,
    sides_of_null,
)
from skillcomp.stats.results import NAN, Fields, Floats, Interval, join_notes, undefined

Counted = NDArray[np.int64]

GAPS = Quantity(-2.0, 2.0, DELTAS.c, largest=True)  # a gap is between -2 and 2

_WAYS = (-1.0, 1.0)  # Signs of the near delta and of the far delta in a gap.
MOST_CASES = 2000  # Largest number of cases per skill that a search tries.
KNOWN = "the variances are taken as known, so this number of cases or power has no limits"
NO_VARIANCE = "the components leave a delta no variance at all: nothing to plan with"
ONE_REPEAT = "the pilot has one repeat a case: further repeats are taken to gain nothing"
OTHER_VARIANCE = "a delta cannot vary as much or as little as stated: the nearest is simulated"
# Columns with the sizes of a design as text, such as "1 repeat", for legends.
_LABELS = ["skills", "cases", "repeats"]
_NOTHING = 1e-15  # A variance below this is a rounding error and counts as 0.
_EDGE = 1e-3  # Smallest distance of a simulated rate from 0 and from 1.
# A grid of skill effects, in standard deviations, and the probability of each grid point.
_SKILLS = np.linspace(-4.0, 4.0, 41)
_CHANCE = norm.pdf(_SKILLS) / norm.pdf(_SKILLS).sum()
_NEARLY_ALL = 0.95
_TOLERANCE = 1e-4  # A note reports a simulated variance that is off its target by more than this.
# The pass probabilities of cases are drawn from a distribution on the grid _RATES. The targets for
# this distribution are its sum, the mean and the second moment of the delta, the baseline rate and
# the two sigma2. _PRIORITIES has the weights of these targets: if the targets conflict, the largest
# weights prevail. _EVEN is the weight of a further target: equal probabilities.
_RATES = np.linspace(0.0, 1.0, 9)
_PRIORITIES = np.array([1e8, 1e7, 1e3, 10.0, 1.0, 1.0])
_EVEN = 3e-3


def power_curve(
    pilot: pd.DataFrame | None = None,
    *,
    sizes: float | Sequence[float] = (0.05, 0.1, 0.15, 0.2, 0.3),
    n_skills: Numbers = 6,
    n_cases: Numbers = 14,
    n_repeats: Numbers = 2,
    **words: Any,
) -> pd.DataFrame:
    """Estimate the power of a study to detect a delta or a near/far gap.

    Power is the chance that the interval excludes 0 and the estimate has the right sign. With a
    ``margin``, power is the chance that the interval is beyond the margin or, for a size below the
    margin, within it (with ``claim="as_good"``, that it is above minus the margin). For a given
    power, :func:`cases_needed` finds the number of cases. The smallest effect that a study detects
    is the size at which its power is sufficient.

    Parameters
    ----------
    pilot : pandas.DataFrame, optional
        Outcomes frame of a pilot, or the frame of :func:`variance_components`. Components in the
        assumptions override those of the pilot. Without a pilot, they are required.
    sizes : float or sequence of float
        True effects in rate units, or in the unit of the score; a gap is far minus near and may be
        negative.
    n_skills, n_cases, n_repeats : int or sequence of int
        Numbers of skills, of cases per skill, and of attempts per case and condition. One study is
        planned for each combination.
    **words
        The claim, the assumed components and the settings of the simulation: the fields of
        :class:`Assumptions`, such as ``effect="gap"`` or ``omega2=0.05``.

    Returns
    -------
    pandas.DataFrame
        One row per ``by``, condition, plan and size. The measure is ``power``. The estimate is from
        0 to 1; its 95 % limits show the simulation error. Further columns: effect, cluster, scope
        (of a gap), n_skills, n_cases (per skill), n_repeats and size. ``skills``, ``cases`` and
        ``repeats`` are the numbers in words, such as "1 repeat", for a legend. The estimate is NaN
        with a note in three situations: the analysis would have no interval (as for
        ``cluster="skill"`` with fewer than five skills), the size requires a rate outside 0 to 1,
        or the pilot has no variance or too few data for a required component.

    Raises
    ------
    StudyError
        If a required component is neither stated nor known from any group of the pilot, or if a
        word or number is not allowed.
    FrameError
        If the pilot breaks its contract or pools graders.

    See Also
    --------
    gold_needed : Number of gold labels.

    Notes
    -----
    For each case, two pass probabilities are drawn, one with the skill and one without it. The
    passes are then drawn with these probabilities. The joint distribution of the two probabilities
    over cases has the stated baseline rate, mean delta and sigma2 of both conditions. The variance
    of the observed delta is omega2 + (sigma2_skill + sigma2_baseline) / repeats, to which tau2 may
    be added (see :class:`Assumptions`). Of all such distributions, the one that is closest to
    uniform is used. If no distribution has all these properties, the mean and the variance of the
    delta have priority; a note reports a variance that differs from the stated one. If the baseline
    rate is unknown, both rates are equally far from one half. Shares of checks and scores are drawn
    in steps of 1/8 of their range. With ``cluster="skill"``, the effects of skills are drawn from a
    normal distribution. A pilot with one repeat cannot distinguish the variance between cases from
    that between repeats. Further repeats are then assumed to give the result of the first.

    Each simulated study is tested with the interval that the analyses report. For a delta, this is
    the interval of :func:`skillcomp.deltas.paired` with the same ``interval``. For a gap, it is
    :func:`skillcomp.stats.gaps.standardised_gap` with all cases in one level, as in
    :func:`skillcomp.transfer.gap`. With ``cluster="skill"``, each skill is a cluster. Shares of
    checks and scores are tested with ``interval="bounded"`` instead of ``"adaptive"``, because the
    number of checks and the variance within a case are unknown; the column ``method`` names the
    rule. The t interval of a gap is computed
    from residuals instead of values, which is nearly the CR2 interval.

    References
    ----------
    Miller 2024, arXiv:2411.00640.

    Examples
    --------
    >>> curve = power_curve(sizes=[0.1, 0.2], omega2=0.05, sigma2=0.15, baseline_rate=0.4)
    >>> curve["estimate"].round(2).tolist()
    [0.48, 0.98]
    """
    settings = stated(words)
    numbers = {"n_skills": n_skills, "n_cases": n_cases, "n_repeats": n_repeats}
    found = _results(_PlannedStudy.power, pilot, settings, numbers, "sizes", sizes)
    rows = [study.row("power", power, size=size) for study, size, power in found]
    return _frame_of(rows, settings, "size", *_LABELS)


def _results(
    find: Callable[..., Interval],
    pilot: pd.DataFrame | None,
    settings: Assumptions,
    numbers: Mapping[str, Numbers],
    name: str,
    sizes: float | Sequence[float],
    *more: float,
) -> Iterator[tuple[_PlannedStudy, float, Interval]]:
    """Yield each planned study with each true effect and the result of ``find``.

    If an effect is impossible in a study, the result is undefined. ``name`` is the argument with
    the ``sizes`` of the true effects, and ``more`` are further arguments of ``find``.
    """
    targets = effects(name, sizes, settings.span)
    each = product(*(read_several(noun, several, whole) for noun, several in numbers.items()))
    plans, groups = list(each), components_by_group(pilot, settings)
    studies = [_PlannedStudy(settings, *group, *plan) for group in groups for plan in plans]
    pairs = list(product(studies, targets))
    found = joblib.Parallel()(joblib.delayed(_result)(find, *pair, *more) for pair in pairs)
    for (study, size), interval in zip(pairs, found, strict=True):
        yield study, size, interval


def _result(
    find: Callable[..., Interval], study: _PlannedStudy, size: float, *more: float
) -> Interval:
    why = study.why_undefined(size)
    return study.undefined(why) if why else find(study, size, *more)


def cases_needed(
    pilot: pd.DataFrame | None = None,
    *,
    size: float | Sequence[float] = 0.1,
    n_skills: Numbers = 6,
    n_repeats: Numbers = 2,
    power: float = 0.8,
    **words: Any,
) -> pd.DataFrame:
    """Estimate the number of cases per skill needed to detect a delta (or near/far gap).

    Parameters
    ----------
    pilot, n_skills, n_repeats, **words
        As in :func:`power_curve`.
    size : float or sequence of float, default 0.1
        True effects in rate units; a gap is far minus near and may be negative.
    power : float, default 0.8
        Target power.

    Returns
    -------
    pandas.DataFrame
        Three rows per ``by``, condition, plan and size, with the measures ``cases_per_skill``,
        ``cases_in_all`` and ``attempts`` (under both conditions, with all repeats). Further
        columns: effect, cluster, scope, n_skills, n_cases (per skill), n_repeats, size and power.
        There are no confidence limits, because the components are taken as known; plan for a range
        of components. The estimate is NaN with a note if no number of cases is
        sufficient, for instance because the skills are few and differ too much.

    Raises
    ------
    StudyError, FrameError
        As in :func:`power_curve`.

    See Also
    --------
    gold_needed : Number of cases that need gold labels.

    Notes
    -----
    The number is found by bisection. The error of the simulated power, about 1.3 points with 1,000
    studies, changes the number by a few per cent.

    Examples
    --------
    >>> needed = cases_needed(size=0.1, n_repeats=[1, 3], omega2=0.05, sigma2=0.15)
    >>> needed.loc[needed["measure"].eq("cases_per_skill"), "estimate"].tolist()
    [47.0, 21.0]
    """
    settings = stated(words)
    error_rate = 1 - settings.ci_level
    if not error_rate < number("power", power, least=0, most=1) < 1:
        allowed = f"above {error_rate:.3g} (the error rate) and below 1"
        raise StudyError(f"power: found {power}; allowed: {allowed}.")
    fewest = 2
    if settings.effect == "gap":  # a gap needs at least one near and one far case
        sizes = range(4, MOST_CASES + 1)
        fewest = next((n for n in sizes if 0 < round(n * settings.far_share) < n), 4)
    numbers = {"n_skills": n_skills, "n_cases": fewest, "n_repeats": n_repeats}
    rows = []
    find = _PlannedStudy.fewest_cases
    for study, target, needed in _results(find, pilot, settings, numbers, "size", size, power):
        n = needed.estimate
        planned = replace(study, n_cases=0 if math.isnan(n) else int(n))
        counts = {"cases_per_skill": n, "cases_in_all": n * study.n_skills}
        counts["attempts"] = counts["cases_in_all"] * 2 * study.n_repeats
        for measure, count in counts.items():
            interval = replace(needed, estimate=count)
            rows.append(planned.row(measure, interval, size=target, power=power))
    return _frame_of(rows, settings, "size", "power")


def detectable_changes(
    deltas: pd.DataFrame, *, power: float = 0.8, bounds: tuple[float, float] = (0.0, 1.0)
) -> pd.Series:
    """Return the smallest true change that each study would have shown with the given power.

    ``deltas`` has rows of :func:`skillcomp.deltas.paired` from one call. A change is shown if the
    interval excludes 0 and the p-value is small enough for Holm's method with all rows that have an
    adjusted p-value. The result is the smallest estimate that is shown, plus the standard error
    times a quantile of t. It takes the width of the interval and the standard error as they are: in
    simulations of 14 to 60 cases, in 1 to 6 rows, such a change was shown in 71 to 84 % of studies
    for 80 %. NaN without an interval, and infinite if it is more than the reference rate allows: in
    simulations of 4 to 8 cases the largest possible change was then shown in 20 to 73 %. ``bounds``
    are the lowest and the highest possible score; those of a rate are 0 and 1.
    """
    limits = deltas["estimate"] - deltas["ci_low"], deltas["ci_high"] - deltas["estimate"]
    reach = np.maximum(*limits)
    error_rate = 1.0 - deltas["ci_level"]
    # without a spread between the cases there is no standard error: that of the interval is taken
    se = deltas["se"].fillna(pd.Series(reach / norm.isf(error_rate / 2), deltas.index))
    df, n_rows = deltas["df"].fillna(np.inf), max(deltas["p_adjusted"].count(), 1)
    needed = np.maximum(reach, student.isf(error_rate / 2 / n_rows, df) * se)
    changes = pd.Series(needed + student.isf(1.0 - power, df) * se, deltas.index)
    possible = np.maximum(
        deltas["reference_rate"] - bounds[0], bounds[1] - deltas["reference_rate"]
    )
    return changes.mask(changes > possible, np.inf)


def _frame_of(rows: list[Fields], settings: Assumptions, *extra: str) -> pd.DataFrame:
    return estimates(rows, by=[*listed(settings.by), "condition", *PLAN], extra=extra)


@dataclass(frozen=True, slots=True)
class _PlannedStudy:
    """One group of the pilot, and the size of a study; ``n_cases`` is the number per skill.

    ``lacking`` is a phrase that names the required components that are unknown; it is empty if all
    are known. ``lost`` is a note on the attempts of the pilot without an outcome.
    """

    settings: Assumptions
    about: Fields
    components: Components
    lacking: str
    lost: str
    n_skills: int
    n_cases: int
    n_repeats: int

    @property
    def sides(self) -> list[int]:
        """Number of cases per skill; for a gap, the numbers of near and of far cases."""
        if self.settings.effect == "delta":
            return [self.n_cases]
        far = round(self.n_cases * self.settings.far_share)
        return [self.n_cases - far, far]

    @property
    def too_small(self) -> str:
        """Reason why the study is too small for an interval, or an empty string."""
        if self.settings.cluster == "skill" and (few := few_skills(self.n_skills)):
            return few
        if min(self.sides) < 1:
            return "each skill needs a near and a far case"
        return "too few cases" if self.n_skills * self.n_cases < 2 * len(self.sides) else ""

    @property
    def between_skills(self) -> float:
        """Variance of a delta between skills; 0 with ``cluster="case"``.

        A gap has two deltas, near and far; both have this variance. They are drawn independently,
        so each gets half the variance of their gap.
        """
        if self.settings.cluster == "case":
            return 0.0
        gap, parts = self.settings.effect == "gap", self.components
        return parts.tau2_gap / 2 if gap else parts.tau2

    @property
    def of_a_case(self) -> float:
        """Variance, between cases, of the observed delta in the simulation."""
        settings, parts = self.settings, self.components
        variance, skills = parts.omega2, not math.isnan(parts.tau2)
        if settings.effect == "gap":
            # The interval of a pooled gap counts variation between skills as variation between
            # cases.
            variance, skills = parts.omega2_gap, settings.scope == "pooled"
        skills = skills and settings.cluster == "case"
        return variance + (parts.tau2 if skills else 0.0) + sum(parts.sigma2) / self.n_repeats

    def why_undefined(self, size: float) -> str:
        """Return why the study has no power for an effect of this size; empty if it has."""
        settings, parts = self.settings, self.components
        if self.lacking or self.too_small:
            return f"the pilot {self.lacking}" if self.lacking else self.too_small
        if not self.of_a_case + self.between_skills > _NOTHING:
            return NO_VARIANCE
        # if the baseline rate is unknown, allow any delta from -1 to 1
        unknown, base = math.isnan(parts.baseline_rate), parts.baseline_rate
        up, down = (1.0, 1.0) if unknown else (1 - base, base)
        if settings.effect == "gap":
            share = self.sides[1] / self.n_cases
            up, down = up - parts.delta, down + parts.delta
            # `share` is the share of far cases. A gap adds (1 - share) times the gap to the deltas
            # of far cases, and subtracts share times the gap from the deltas of near cases.
            up, down = (
                min(far / (1 - share), near / share) for far, near in ((up, down), (down, up))
            )
        most = ((up if math.copysign(1.0, size) > 0 else down) - _EDGE) * settings.span
        if abs(size) <= most:
            return ""
        needs = "needs a rate outside 0 to 1"
        if settings.bounds:
            needs = "needs a score outside {:g} to {:g}".format(*settings.bounds)
        return f"a {settings.effect} of {size:g} {needs}; at most {most:.3f}"

    def row(self, measure: str, interval: Interval, **extra: Any) -> Fields:
        """Return a row of the estimates frame; its note includes the notes on the pilot."""
        repeats = ONE_REPEAT if self.components.one_repeat and self.n_repeats > 1 else ""
        settings = self.settings
        sizes = {"skill": self.n_skills, "case": self.n_cases, "repeat": self.n_repeats}
        return {
            **self.about,
            "effect": settings.effect,
            "cluster": settings.cluster,
            "scope": settings.scope if settings.effect == "gap" else None,
            **{f"n_{noun}s": size for noun, size in sizes.items()},
            **{f"{noun}s": plural(size, noun) for noun, size in sizes.items()},
            **row(measure, interval.with_note(repeats, self.lost)),
            "n": self.n_skills * self.n_cases,
            "n_clusters": self.n_skills,
            **extra,
        }

    @property
    def adaptive(self) -> bool:
        """Whether the simulated studies are judged by the adaptive rule."""
        return self.settings.interval == "adaptive" and self.settings.value == "passed"

    def undefined(self, why: str) -> Interval:
        """Return an undefined interval with the reason `why`, and the method of the simulation."""
        settings = self.settings
        judge = "the " + bounded_label(DELTAS, self.adaptive)
        if settings.interval == "t":
            judge = "CR2 with Satterthwaite t"
        elif settings.interval == "adaptive" and not self.adaptive:
            judge += " (not adaptive for shares of checks and scores)"
        size = f"{100 * settings.margin:g} points"
        if settings.value == "score":
            size = f"{settings.margin:g}"
        margin = f" against a margin of {size}" if settings.margin else ""
        studies = f"{settings.n_studies} studies, seed {settings.seed}"
        level = f"{100 * settings.ci_level:.4g} %"
        method = f"simulation of {studies}, judged by {judge} at {level}{margin}"
        return undefined(method, why, settings.ci_level)

    def power(self, size: float) -> Interval:
        """Return the share of simulated studies that detect an effect of this size."""
        settings = self.settings
        rng = np.random.default_rng(settings.seed)
        change = size / settings.span
        deltas = [change]
        if settings.effect == "gap":
            far_share, delta = self.sides[1] / self.n_cases, self.components.delta
            deltas = [delta - far_share * change, delta + (1 - far_share) * change]
        draws = [self._draw_counts(rng, *side) for side in zip(self.sides, deltas, strict=True)]
        drawn, possible = zip(*draws, strict=True)
        # the possible results of a case: its rates with the skill and without it
        k, share = self.n_repeats, settings.value != "passed"
        rates = _RATES if share else np.arange(k + 1) / k
        skill, baseline = _pairs_of(rates)
        attempts = None if share else np.full(len(skill), k)
        arms = [Arm(skill, attempts), Arm(baseline, attempts, -1.0)] if self.adaptive else []
        if settings.cluster == "case":
            samples = case_samples(skill - baseline, arms, drawn)
        else:
            samples = _skill_samples(skill - baseline, arms, drawn, self.sides)
        right = np.ones(settings.n_studies, dtype=bool)
        for null, side in _excluded_effects(size, settings):
            sides = sides_of_null(
                samples,
                quantity=DELTAS if settings.effect == "delta" else GAPS,
                null=null / settings.span,
                ci_level=settings.ci_level,
                interval=settings.interval,
            )
            right &= sides == side
        share_right = bounded_mean(right)
        return replace(
            self.undefined("" if all(possible) else OTHER_VARIANCE),
            estimate=share_right.estimate,
            low=share_right.low,
            high=share_right.high,
            ci_level=0.95,
        )

    def _draw_counts(
        self, rng: np.random.Generator, n_cases: int, delta: float
    ) -> tuple[Counted, bool]:
        """Draw, for each study, the number of cases with each possible result.

        With ``cluster="skill"``, the cases are counted by study and skill. The second return value
        is False if a delta with the mean ``delta`` cannot have the planned variance.
        """
        settings, parts = self.settings, self.components
        sigma2 = parts.sigma2 if settings.value == "passed" else None
        about = self.of_a_case, self.n_repeats, parts.baseline_rate, sigma2
        if settings.cluster == "case":
            chance, fits = case_chances(delta, *about)
            return rng.multinomial(self.n_skills * n_cases, chance, settings.n_studies), fits
        tables, fits = _chances_by_skill(delta, self.between_skills, about)
        skill = rng.choice(len(_SKILLS), size=(settings.n_studies, self.n_skills), p=_CHANCE)
        return rng.multinomial(n_cases, tables[skill]), fits

    def fewest_cases(self, size: float, power: float) -> Interval:
        """Return the fewest cases per skill with which the study has the target power."""
        settings = self.settings
        if settings.claim == "as_good" and size <= -settings.margin:
            return self.undefined("a loss of the margin is not as good")
        if settings.claim == "change" and abs(size) == settings.margin:
            return self.undefined("the size is that of the margin" if size else "a size of 0")

        def reached(n: int) -> bool:
            planned = replace(self, n_cases=n)
            return not planned.too_small and planned.power(size).estimate >= power

        skills = settings.cluster == "skill"
        hopeless = skills and not reached(MOST_CASES)
        fewest = None if hopeless else smallest_sufficient(reached, self._guess(size, power))
        if fewest is None:
            note = f"more than {MOST_CASES} cases per skill"
            if skills:
                varied = self.between_skills > _NOTHING
                why = "differ too much from each other" if varied else "are too few for this effect"
                why += f" (tried {MOST_CASES} cases each)"
                note = f"no number of cases is enough: {self.n_skills} skills {why}"
            return self.undefined(note)
        at = replace(self, n_cases=fewest).power(size)
        return replace(self.undefined(join_notes(KNOWN, at.note)), estimate=fewest)

    def _guess(self, size: float, power: float) -> int:
        """Guess the number of cases per skill from a normal approximation of the power."""
        settings = self.settings
        reach = norm.ppf((1 + settings.ci_level) / 2) + norm.ppf(power)
        each = len(self.sides) ** 2 * self.of_a_case / self.n_skills
        as_good = settings.claim == "as_good"
        distance = size + settings.margin if as_good else abs(size) - settings.margin
        return math.ceil(min(reach**2 * each / (distance / settings.span) ** 2, MOST_CASES))


def _excluded_effects(size: float, settings: Assumptions) -> list[tuple[float, float]]:
    """Return pairs of a value and a sign: the interval must be above (1) or below (-1) the value.

    To show an effect beyond the margin, the interval must exclude the margin on the side of the
    effect. To show an effect within the margin, it must exclude ``margin`` and ``-margin``; to show
    that the condition is as good, only ``-margin``.
    """
    margin = settings.margin
    if settings.claim == "as_good":
        return [(-margin, 1.0)]
    if abs(size) >= margin:
        sign = math.copysign(1.0, size)
        return [(sign * margin, sign)]
    return [(margin, -1.0), (-margin, 1.0)]


def smallest_sufficient(enough: Callable[[int], bool], guess: int) -> int | None:
    """Return the smallest n up to MOST_CASES for which ``enough(n)`` is True, or None."""
    low, high = 0, min(max(guess, 1), MOST_CASES)
    while not enough(high):
        if high == MOST_CASES:
            return None
        low, high = high, min(2 * high, MOST_CASES)
    step = max(high // 8, 1)
    while low == 0 and high > 1:
        trial = max(high - step, 1)
        low, high, step = (0, trial, 2 * step) if enough(trial) else (trial, high, step)
    while high - low > 1:
        trial = (low + high) // 2
        low, high = (low, trial) if enough(trial) else (trial, high)
    return high


def case_samples(values: Floats, arms: Sequence[Arm], drawn: Sequence[Counted]) -> CaseCounts:
    """Return the cases of each study, and the pseudo-cases that its interval adds.

    ``values`` has the possible deltas of a case. An array in ``drawn`` has one row per study, with
    the number of cases that have each of these deltas. A delta has one array; a gap has two, for
    near and for far cases. A gap is treated as in :func:`skillcomp.stats.gaps.standardised_gap`.
    Without ``arms`` (the rates of the two conditions), the pseudo-cases are at the bounds.
    """
    distinct, code = np.unique(values.round(9), return_inverse=True)
    counts = [side @ np.eye(len(distinct))[code] for side in drawn]
    n = [side[0].sum() for side in drawn]
    means = [side @ distinct / m for side, m in zip(counts, n, strict=True)]
    value, share = np.tile(distinct, (len(counts[0]), 1)), [1.0 / m for m in n]
    if len(drawn) > 1:
        residuals = [
            way * 2.0 * (distinct - mean[:, None]) / math.sqrt(max(1.0 - 1.0 / m, 0.5))
            for way, mean, m in zip(_WAYS, means, n, strict=True)
        ]
        value = np.hstack([(means[1] - means[0])[:, None] + rest for rest in residuals])
    each = np.repeat([part / len(n) for part in share], len(distinct))
    terms = [
        contrast_terms(signed, np.full((1, len(values)), part), count=side.astype(float))
        for signed, part, side in zip(_signed_arms(arms, len(n)), share, drawn, strict=True)
    ]
    weight = np.broadcast_to(each, value.shape)
    return _placed_samples(value, weight, np.hstack(counts), terms, has_arms=bool(arms))


def _skill_samples(
    values: Floats, arms: Sequence[Arm], drawn: Sequence[Counted], sizes: Sequence[int]
) -> CaseCounts:
    """Return the same as :func:`case_samples`, with skills instead of cases as units.

    The value of a skill is the mean delta (or gap) of its cases. ``sizes`` has the number of cases
    per skill. For a gap, it has the numbers of near and of far cases per skill.
    """
    means = [side @ values / n for side, n in zip(drawn, sizes, strict=True)]
    value = means[0] if len(means) == 1 else means[1] - means[0]
    n_skills, terms = value.shape[1], []
    share = np.full(value.shape, 1.0 / n_skills)
    for signed, side, n in zip(_signed_arms(arms, len(sizes)), drawn, sizes, strict=True):
        skills = [
            Arm(side @ arm.rates / n, np.full(n_skills, n * arm.attempts[0]), arm.sign)
            for arm in signed
        ]
        weight = side.sum(1) / side[0].sum()
        mixed = [mixed_outcomes(arm, weight) for arm in signed]
        terms.append(contrast_terms(skills, share, n_cases=n, mixed_cases=mixed))
    return _placed_samples(value, share, np.ones(value.shape), terms, has_arms=bool(arms))


def _signed_arms(arms: Sequence[Arm], n_sides: int) -> list[list[Arm]]:
    """Return the arms with their signs: one list for a delta, a near and a far list for a gap."""
    return [[replace(arm, sign=way * arm.sign) for arm in arms] for way in _WAYS[-n_sides:]]


def _placed_samples(
    value: Floats, share: Floats, count: Floats, terms: Sequence[ContrastTerms], *, has_arms: bool
) -> CaseCounts:
    """Add pseudo-cases to cases or skills; without arms, pseudo-cases are at the bounds."""
    quantity = DELTAS if len(terms) == 1 else GAPS
    places = Positions.at_bounds(quantity, len(value))
    if has_arms:
        bounds = quantity.low, quantity.high
        places = placed_cases(reduce(ContrastTerms.plus, terms), value, share, bounds, count=count)
    return CaseCounts(value, share, count, *places)


def _chances_by_skill(delta: float, tau2: float, about: tuple[Any, ...]) -> tuple[Floats, bool]:
    """Return the chances of each result of a case, with one row per skill effect of `_SKILLS`.

    The second return value is True if nearly all skills have the planned variance.
    """
    spread = math.sqrt(tau2)

    def mean(centre: float) -> float:
        return float(_CHANCE @ np.clip(centre + spread * _SKILLS, -1, 1)) - delta

    reach = 1 + 4 * spread + 1e-9
    centre = brentq(mean, -reach, reach) if spread > 0 and abs(delta) < 1 else delta
    means = np.clip(centre + spread * _SKILLS, -1, 1).tolist()
    tables = [case_chances(round(m, 9), *about) for m in means]
    fits = _CHANCE @ [fits for _, fits in tables] > _NEARLY_ALL
    return np.stack([chance for chance, _ in tables]), bool(fits)


@lru_cache(maxsize=4096)
def case_chances(
    delta: float,
    variance: float,
    n_repeats: int,
    baseline_rate: float = NAN,
    sigma2: tuple[float, float] | None = (0.0, 0.0),
) -> tuple[Floats, bool]:
    """Return the chance of each result of a case, and whether the delta can have `variance`.

    A result is a pair of rates, with the skill and without, as in :func:`_pairs_of`. Each case has
    two pass probabilities p, and its numbers of passes are binomial. The joint distribution of the
    two probabilities over cases has four properties. The mean of the delta is `delta`, the variance
    of the observed delta is `variance`, the baseline rate is `baseline_rate`, and the means of
    p (1 - p) are `sigma2`. Of all such distributions, the one that is closest to uniform is used.
    If no distribution has all four properties, the mean and the variance of the delta have
    priority. If `sigma2` is None, a result is a pair of shares of checks or of scores, and these
    themselves have this distribution.
    """
    skill, baseline = _pairs_of(_RATES)
    mixed = skill * (1.0 - skill), baseline * (1.0 - baseline)
    # if the baseline rate is unknown, assume that both rates are equally far from 1/2
    rate = (1.0 - delta) / 2.0 if math.isnan(baseline_rate) else baseline_rate
    square, noise = variance + delta**2, sum(mixed) / n_repeats if sigma2 else 0.0
    squares = (skill - baseline) ** 2 + noise
    targets = np.array([1.0, delta, square, rate, *(sigma2 or ())])
    features = np.stack([np.ones(len(skill)), skill - baseline, squares, baseline, *mixed])
    chance = _most_even(features[: len(targets)], targets)
    fits = abs(features[2] @ chance - square) < _TOLERANCE
    if sigma2:
        passes = np.asarray(binom.pmf(np.arange(n_repeats + 1), n_repeats, _RATES[:, None]))
        chance = (passes.T @ chance.reshape(len(_RATES), -1) @ passes).ravel()
    return chance / chance.sum(), fits


def _pairs_of(rates: Floats) -> tuple[Floats, Floats]:
    """Return the rates with the skill and without it of all pairs of rates."""
    return np.repeat(rates, len(rates)), np.tile(rates, len(rates))


def _most_even(features: Floats, targets: Floats) -> Floats:
    """Return a probability for each column of `features`, so that the mean of row i is target i.

    Of all such probabilities, these are the closest to equal ones. If the targets conflict, the
    result is a compromise by `_PRIORITIES`.
    """
    n, weights = features.shape[1], _PRIORITIES[: len(targets)]
    left = np.vstack([features * weights[:, None], _EVEN * np.eye(n)])
    chance, _ = nnls(left, np.append(targets * weights, np.full(n, _EVEN / n)), maxiter=100 * n)
    return np.asarray(chance / chance.sum())
