"""Number of gold labels needed for an interval of a target width."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import binom, norm

from skillcomp.contrast.case_table import Value, missing_note
from skillcomp.correction.estimators import key_of, tables
from skillcomp.errors import StudyError, require_known
from skillcomp.frames.contracts import CASE
from skillcomp.frames.estimates import By, estimates, groups, listed, require_reference, row
from skillcomp.planning.assumptions import effects, level, number, whole
from skillcomp.planning.labels_for_width import LABELS, Quality, assumed_rows, pilot_rows
from skillcomp.reliability.drift import Reference
from skillcomp.stats.ppi import FEWEST_ERRORS, ppi_limits
from skillcomp.stats.results import Interval, join_notes, undefined

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Rate = float | Mapping[str, float]

# Smallest number of gold cases that is planned, because the coverage of prediction-powered
# intervals was not tested with fewer.
FEWEST = 10
_EXTRA = ["width", "expected_width", "n_cases", "correlation", "lam"]
_NO_ERROR = 1e-9  # A difference between gold and grader below this is a rounding error.
_FEWEST_PILOT = 5  # With fewer gold cases than this, a pilot's covariances are too imprecise.


@dataclass(frozen=True, slots=True)
class Differences:
    """Means and covariances of the cases' paired differences, in a pilot or in its resamples.

    A paired difference is the value of a case under a condition minus its value under the
    reference. Each case has three of them, computed from different values: the gold labels, the
    grader's verdicts on all repeats, and the grader's verdicts on the repeats with gold.

    ``mean`` (..., 3) and ``joint`` (..., 3, 3) are the means and covariances of the three
    differences over the cases with gold. ``grader`` is the variance, over all cases, of the
    second difference (verdicts on all repeats). An error is a case in which the gold difference is
    above or below the grader's difference on the repeats with gold. For these two directions,
    ``errors`` (..., 2) has the shares of errors among the gold cases, and ``largest`` (..., 2) the
    largest errors. ``checks`` is the number of checks per case. ``n_gold`` is the number of cases
    with gold; it is infinite if there is no pilot.
    """

    mean: Floats
    joint: Floats
    grader: Floats
    errors: Floats
    largest: Floats
    checks: float
    n_gold: float = math.inf


# the `Differences` of the pilot, and those of its resamples (None without resamples)
Pilots = tuple[Differences, Differences | None]
# `Pilots`, the number of cases of the study, and the columns that identify a row of the result
_Plan = tuple[Pilots, int, dict[str, Any]]


def expected_variance(pilot: Differences, n: Ints, n_cases: int) -> tuple[Floats, Floats]:
    """Return the variance of the PPI++ delta and the grader weight for each number of gold cases.

    ``n`` has the numbers of gold cases. The delta is estimated as in
    :func:`skillcomp.stats.ppi.ppi_paired`. If only some cases have gold, the estimate combines the
    mean of the cases with gold and the mean of the cases without. If every case has gold, the
    estimate is the mean of one value per case. The variance does not include the imagined errors of
    :func:`imagined_variance`. Both results are arrays. Their last dimension is that of ``n``. If
    ``pilot`` holds resamples, their dimensions come first.
    """
    joint, grader = pilot.joint[..., None, :, :], pilot.grader[..., None]
    gold, on_gold, cross = joint[..., 0, 0], joint[..., 2, 2], joint[..., 0, 2]
    rest = np.maximum(n_cases - n, 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        lam = _clipped_ratio(cross, on_gold + n / rest * grader)
        some = lam**2 * grader / rest + (gold - 2 * lam * cross + lam**2 * on_gold) / n
        # If every case has gold, only one difference matters: the grader's mean over all repeats
        # minus the grader's value on the repeat with gold. The case's true mean cancels in it.
        # `gap` is the variance of this difference.
        gap = joint[..., 1, 1] - 2 * joint[..., 1, 2] + on_gold
        both = joint[..., 0, 1] - cross - joint[..., 1, 1] + joint[..., 1, 2]
        full_lam = _clipped_ratio(-both, gap)
        full = (gold + 2 * full_lam * (joint[..., 0, 1] - cross) + full_lam**2 * gap) / n_cases
    whole = n >= n_cases
    return np.where(whole, full, some), np.where(whole, full_lam, lam)


def imagined_variance(pilot: Differences, n: Ints) -> Floats:
    """Return the expected variance of imagined errors if the grader has the weight 1.

    An error is a case in which gold and grader differ. An imagined error was not observed; it is
    added for caution. Errors have two directions: gold is above the grader, or below it. If either
    direction has fewer than five errors, :func:`skillcomp.stats.ppi.ppi_paired` adds one imagined
    error in each direction. In a direction with five or more errors, the imagined error is as large
    as the largest of them, but at most 1; otherwise its size is 1.
    """
    few = np.asarray(binom.cdf(FEWEST_ERRORS - 1, n[:, None], pilot.errors[..., None, :]))
    square = np.minimum(pilot.largest[..., None, :], 1.0) ** 2
    other = few[..., ::-1]
    squares = (few + (1.0 - few) * other * square).sum(axis=-1)
    return np.asarray(0.5 * squares / ((n + 1.0) * (n + 2.0)))


def expected_length(
    pilot: Differences, n: Ints, n_cases: int, ci_level: float
) -> tuple[Floats, Floats]:
    """For each ``n``, return the expected length of the interval and the weight of the grader.

    The expected length is approximated by the length of the interval at the expected variance.
    """
    variance, lam = expected_variance(pilot, n, n_cases)
    whole = n >= n_cases
    weight = np.where(whole, 0.0, lam)
    estimate = pilot.mean[..., 0][..., None] + 0.0 * lam
    error = np.where(whole, estimate, estimate - lam * pilot.mean[..., 2][..., None])
    variance = variance + np.where(whole, 1.0, lam**2) * imagined_variance(pilot, n)
    with np.errstate(invalid="ignore"):
        summary = estimate, error, variance, weight, n, n - 1
        low, high = ppi_limits(*summary, bounds=(-1.0, 1.0), ci_level=ci_level)
    return high - low, lam


def _clipped_ratio(covariance: Floats, variance: Floats) -> Floats:
    ratio = np.where(variance > 1e-15, covariance / np.where(variance > 1e-15, variance, 1), 0.0)
    return np.clip(ratio, 0.0, 1.0)


def gold_needed(
    verdicts: pd.DataFrame | None = None,
    gold: pd.DataFrame | None = None,
    *,
    measure: Literal["delta"] | Quality = "delta",
    reference_grader: Reference | None = None,
    width: float | Sequence[float] = 0.2,
    n_cases: int | None = None,
    by: By = (),
    value: Value = "share_passed",
    reference: str = "baseline",
    sensitivity: Rate | None = None,
    specificity: Rate | None = None,
    baseline_rate: float | None = None,
    delta: float | None = None,
    gold_variance: float | None = None,
    n_checks: int = 5,
    ci_level: float = 0.95,
    n_resamples: int = 500,
    seed: int = 0,
) -> pd.DataFrame:
    """Estimate how much gold an interval of a target width needs.

    By default, the planned estimate is a corrected delta, the PPI++ paired delta. It needs verdicts
    on all cases, and gold in both conditions on one repeat of randomly drawn cases. With another
    ``measure``, the planned estimate is the agreement of a grader with gold, its kappa or one of
    its error rates. With ``reference_grader``, it is the difference of two graders in this measure,
    on the same items. The plan is based on a pilot with verdicts and gold, or on stated
    assumptions.

    Parameters
    ----------
    verdicts, gold : pandas.DataFrame, optional
        Frames of the pilot. If a check has several gold labels, the adjudicated label is used.
        Without an adjudicated label, all labellers must agree.
    measure : str, default "delta"
        ``"delta"``, ``"agreement"``, ``"kappa"``, ``"sensitivity"``, ``"specificity"``,
        ``"false_passes"`` or ``"false_fails"``.
    reference_grader : str or tuple of str, optional
        The grader with which the others are compared, as in :func:`skillcomp.reliability.drift`.
    width : float or sequence of float, default 0.2
        Target length of the interval, twice its half width, in rate units.
    n_cases : int, optional
        Number of cases of the planned study; by default the number of cases of the pilot.
    by : str or sequence of str
        Columns to group by, such as ``["grader"]``.
    value : {"share_passed", "passed"}, default "share_passed"
        Outcome of an attempt: the share of checks passed, or whether all checks passed.
    reference : str, default "baseline"
        Condition with which the others are compared.
    sensitivity, specificity : float or mapping of str to float, optional
        Assumed sensitivity and specificity of the grader on single checks, or on whole attempts if
        `value` is ``passed``. Each is one number, or a mapping with the keys ``baseline`` and
        ``skill``. Without a pilot, both are required, as are ``n_cases``, ``baseline_rate``,
        ``delta`` and ``gold_variance``. For another ``measure``, only ``baseline_rate`` is required
        in addition. With ``reference_grader``, each is a mapping with the names of two graders as
        keys.
    baseline_rate, delta : float, optional
        Assumed pass rate of the baseline according to gold, and assumed rate with the skill minus
        the rate of the baseline. For another ``measure``, ``baseline_rate`` is the share of gold
        passes among the labels.
    gold_variance : float, optional
        Assumed variance, over cases, of the paired difference computed from gold labels on one
        attempt per condition.
    n_checks : int, default 5
        Number of checks per case; not used with a pilot.
    ci_level : float, default 0.95
        Level of the planned interval and of the limits of ``estimate``.
    n_resamples, seed : int
        Number of bootstrap resamples of the pilot's cases for the limits, and their seed.

    Returns
    -------
    pandas.DataFrame
        Three rows per ``by``, condition and width, with the measures ``gold_cases``,
        ``gold_attempts`` (two per case) and ``gold_labels`` (attempts times checks per case).
        ``estimate`` is the smallest sufficient number; its limits are bootstrap percentiles over
        the pilot's cases. The estimate is NaN with a note if even gold on every case is not
        sufficient, or if fewer than 5 cases of the pilot have gold. ``note`` also states the number
        of labels without a matching attempt. ``width`` is the target, and ``expected_width`` is the
        width expected with the estimated number of gold cases. ``n_cases`` is the number of cases
        of the study. ``correlation`` is the correlation, over cases with gold, of the paired
        differences computed from gold and from the grader. ``lam`` is the weight of the grader's
        verdicts in the estimate, from 0 to 1.

        For another ``measure``, one row per ``by`` (and compared grader) and width, with the
        measure ``gold_labels``: the number of items that need a label and a verdict of the grader.
        ``target`` is the measure, and ``rate`` its value in the pilot or by assumption. ``n_pilot``
        is the number of items of the pilot that the measure counts, such as the items that fail by
        gold for the specificity.

    Raises
    ------
    FrameError
        If a frame breaks its contract, if graders would be pooled, or if labellers disagree and no
        label is adjudicated.
    StudyError
        If neither a pilot nor all assumptions are given, or a number is out of range.

    See Also
    --------
    skillcomp.stats.ppi.ppi_paired : The planned interval.
    skillcomp.reliability.label_sheet : Draws answers at random and writes a sheet to label.

    Notes
    -----
    The planned interval is ``ppi`` of :func:`skillcomp.correction.delta`. Its limits are those of
    :func:`skillcomp.stats.ppi.ppi_limits`, with the variance of PPI++. The grader has the
    weight that minimises this variance. If gold shows fewer than five errors of the grader in a
    direction, the interval allows for an error that was not observed; the plan allows for it in
    proportion to the probability of so few errors. Without a pilot, the errors of different checks
    are assumed to be independent; with ``value="passed"``, an attempt counts as one check. At least
    10 gold cases are planned, because coverage was not tested with fewer.

    For another ``measure``, the width of the pilot's interval is taken to fall with the square root
    of the number of labels (:func:`skillcomp.stats.units_needed`), so the plan assumes as many
    labels per case as in the pilot. Without a pilot, items are independent cases. The interval of a
    rate or a difference is then that of :func:`skillcomp.stats.bounded.bounded_mean` with the
    expected counts. The interval of kappa is normal with the standard error of Fleiss, Cohen and
    Everitt; if errors are few, it is the rescaled interval of the agreement. The errors of two
    graders are assumed to be independent given gold; if they err on the same items, fewer labels
    are sufficient.

    References
    ----------
    Angelopoulos, Duchi and Zrnic 2023, arXiv:2311.01453; Fleiss, Cohen and Everitt 1969,
    doi:10.1037/h0028106.

    Examples
    --------
    >>> plan = gold_needed(
    ...     width=0.2, n_cases=84, sensitivity=0.9, specificity=0.9, baseline_rate=0.5, delta=0.2,
    ...     gold_variance=0.1)
    >>> plan[["measure", "estimate"]].values.tolist()
    [['gold_cases', 36.0], ['gold_attempts', 72.0], ['gold_labels', 360.0]]
    """
    require_known("measure: found", measure, ("delta", *get_args(Quality)), StudyError)
    widths = _checked_widths(width, ci_level)
    require_known("value: found", value, get_args(Value), StudyError)
    names, seed = listed(by), whole("seed", seed, least=0)
    n_resamples, n_checks = whole("n_resamples", n_resamples), whole("n_checks", n_checks)
    if measure != "delta":
        how: dict[str, Any] = {"widths": widths, "reference_grader": reference_grader}
        how |= {"ci_level": ci_level}
        compared = ["grader"] if reference_grader is not None else []
        if verdicts is None or gold is None:
            how |= {"sensitivity": sensitivity, "specificity": specificity}
            labels = assumed_rows(measure, baseline_rate=baseline_rate, **how)
            names = []
        else:
            how |= {"n_resamples": n_resamples, "seed": seed}
            labels = pilot_rows(verdicts, gold, measure, by=names, **how)
        return estimates(list(labels), by=[*names, *compared], extra=LABELS)
    if reference_grader is not None:
        raise StudyError("gold_needed: reference_grader= needs a measure, such as 'agreement'.")
    if n_cases is not None:
        n_cases = whole("n_cases", n_cases, least=FEWEST)
    if verdicts is None or gold is None:
        rates = {"sensitivity": sensitivity, "specificity": specificity}
        rates |= {"baseline_rate": baseline_rate, "delta": delta, "gold_variance": gold_variance}
        plans, names = [(*_assumed_plan(value, n_checks, n_cases, **rates), "")], []
    else:
        parts, strays = case_differences(verdicts, gold, names, value, reference)
        plans = [
            (*_pilot_plan(part, n_cases, n_resamples, seed), join_notes(part.lost, strays))
            for part in parts
        ]
    rows = [
        count | {"note": join_notes(count["note"], note)}
        for pilots, total, about, note in plans
        for length in widths
        for count in _count_rows(pilots, length, total, ci_level, about)
    ]
    return estimates(rows, by=[*names, "condition"], extra=_EXTRA)


def _checked_widths(width: float | Sequence[float], ci_level: float) -> list[float]:
    level(ci_level)
    widths = effects("width", width)
    if not 0 < min(widths) <= max(widths) <= 2:
        raise StudyError(f"width: found {width}; allowed: above 0 and up to 2, in rate units.")
    return widths


def _assumed_plan(value: Value, n_checks: int, n_cases: int | None, **rates: Any) -> _Plan:
    # a grader of whole attempts gives one verdict per attempt, so only one verdict can be wrong
    n_verdicts = 1 if value == "passed" else n_checks
    assumed = _assumed_differences(n_verdicts, n_cases=n_cases, **rates)
    assert n_cases is not None  # if n_cases were None, the line above would have raised
    return (replace(assumed, checks=float(n_checks)), None), n_cases, {"condition": "skill"}


def _pilot_plan(part: _LabelledCases, n_cases: int | None, n_resamples: int, seed: int) -> _Plan:
    values = part.cases[["gold", "grader", "on_gold"]].to_numpy(dtype=np.float64)
    pilots = _pilot_differences(values, part.n_checks, n_resamples, seed)
    return pilots, len(values) if n_cases is None else n_cases, part.about


def _pilot_differences(values: Floats, n_checks: float, n_resamples: int, seed: int) -> Pilots:
    """Return the differences in a pilot and in its resamples.

    If too few cases have gold, return NaN for the pilot and None for the resamples.
    """
    n_gold = float(np.isfinite(values).all(axis=1).sum())
    if n_gold < _FEWEST_PILOT:
        unknown, pair = np.full((3, 3), np.nan), np.full(2, np.nan)
        nothing = Differences(unknown[0], unknown, unknown[..., 0, 0], pair, pair, n_checks, n_gold)
        return nothing, None
    picks = np.random.default_rng(seed).integers(0, len(values), (n_resamples, len(values)))
    return differences_of(values, n_checks), differences_of(values[picks], n_checks)


def _count_rows(
    pilots: Pilots, width: float, n_cases: int, ci_level: float, about: dict[str, Any]
) -> list[dict[str, Any]]:
    """Return the rows for one target width: needed gold cases, attempts and labels."""
    pilot, joint = pilots[0], pilots[0].joint
    scale = math.sqrt(joint[0, 0] * joint[2, 2]) if pilot.n_gold >= _FEWEST_PILOT else 0.0
    extra = {**about, "width": width, "n_cases": n_cases}
    extra["correlation"] = joint[0, 2] / scale if scale > 0 else np.nan
    method = f"PPI++ paired difference, bounded mean, length {width:g} at level {ci_level:g}"
    problem = _planning_problem(pilot, scale, n_cases)
    if problem:
        count = undefined(method, problem, ci_level=ci_level, n=float(n_cases))
    else:
        count, more = _fewest_gold_cases(pilots, width, n_cases, ci_level, method)
        extra |= more
    per_case = {"gold_cases": 1.0, "gold_attempts": 2.0, "gold_labels": 2.0 * pilot.checks}
    return [row(name, _scaled_count(count, times), **extra) for name, times in per_case.items()]


def _planning_problem(pilot: Differences, scale: float, n_cases: int) -> str:
    """Return the reason why no study can be planned; empty if one can."""
    if pilot.n_gold < _FEWEST_PILOT:
        return f"{pilot.n_gold:.0f} cases have gold in both conditions: {_FEWEST_PILOT} needed"
    if n_cases < FEWEST:
        return f"the pilot has {n_cases} cases in both conditions: state n_cases, at least {FEWEST}"
    if scale == 0:
        return "gold or grader does not vary among the gold cases: nothing to plan with"
    return ""


def _fewest_gold_cases(
    pilots: Pilots, width: float, n_cases: int, ci_level: float, method: str
) -> tuple[Interval, dict[str, float]]:
    """Return the smallest number of gold cases whose interval is expected to be narrow enough.

    Narrow enough means no wider than ``width``. The returned dict has the width that is expected
    with this number of gold cases, and ``lam``, the weight of the grader.
    """
    n = np.arange(FEWEST, n_cases + 1)
    length, lam = expected_length(pilots[0], n, n_cases, ci_level)
    place = int(_first_sufficient(length, width))
    if place == len(n):
        long = f"an interval {100 * length[-1]:.1f} points long"
        note = f"gold on all {n_cases} cases gives {long}: ask more cases"
        nothing = undefined(method, note, ci_level=ci_level, n=float(n_cases))
        return nothing, {"expected_width": length[-1], "lam": lam[-1]}
    low, high, caveat = _bootstrap_limits(pilots[1], n, n_cases, width, ci_level)
    least = f"no fewer than {FEWEST} are offered" if place == 0 else ""
    note = join_notes(least, caveat)
    count = Interval(float(n[place]), low, high, ci_level, method, note, n=float(n_cases))
    return count, {"expected_width": length[place], "lam": lam[place]}


def _scaled_count(interval: Interval, factor: float) -> Interval:
    numbers = (interval.estimate, interval.low, interval.high)
    scaled = (math.ceil(v * factor - 1e-9) if math.isfinite(v) else math.nan for v in numbers)
    estimate, low, high = map(float, scaled)
    return replace(interval, estimate=estimate, low=low, high=high)


def _first_sufficient(length: Floats, width: float) -> NDArray[np.intp]:
    """Return the first index on the last axis at which `length` is at most `width`.

    If no index qualifies, return the size of the axis.
    """
    enough = length <= width * (1 + 1e-12)
    return np.asarray(np.where(enough.any(axis=-1), enough.argmax(axis=-1), length.shape[-1]))


def _bootstrap_limits(
    resampled: Differences | None, n: Ints, n_cases: int, width: float, ci_level: float
) -> tuple[float, float, str]:
    if resampled is None:
        return math.nan, math.nan, "from stated assumptions: no limits"
    length, _ = expected_length(resampled, n, n_cases, ci_level)
    length = length[np.isfinite(length).all(axis=-1)]
    if not len(length):
        return math.nan, math.nan, "no bootstrap pilot has two cases with gold: no limits"
    place = _first_sufficient(length, width)
    counts = np.append(n, np.inf).astype(np.float64)[place]
    low, high = np.quantile(counts, [(1 - ci_level) / 2, (1 + ci_level) / 2], method="nearest")
    if math.isfinite(high):
        return float(low), float(high), ""
    pilots = f"in {100 * np.isinf(counts).mean():.0f} % of the bootstrap pilots"
    return float(low), math.nan, f"{pilots} gold on every case is not enough: no upper limit"


def differences_of(values: Floats, checks: float) -> Differences:
    """Compute `Differences` from an array with cases on the second-last axis.

    The last axis has the three paired differences: from gold, from the grader on all repeats, and
    from the grader on the repeats with gold. The first and the third are NaN for cases without
    gold.
    """
    has: NDArray[np.bool_] = np.asarray(np.isfinite(values).all(axis=-1))
    count = has.sum(axis=-1)[..., None]
    filled = np.where(has[..., None], values, 0.0)
    error = filled[..., 0] - filled[..., 2]
    directions = np.stack([error, -error], axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = filled.sum(axis=-2) / count
        centred = np.where(has[..., None], values - mean[..., None, :], 0.0)
        joint = np.swapaxes(centred, -1, -2) @ centred / (count[..., None] - 1)
        errors = (directions > _NO_ERROR).sum(axis=-2) / count
    grader = values[..., 1].var(axis=-1, ddof=1)
    largest = np.maximum(directions.max(axis=-2), 0.0)
    return Differences(mean, joint, grader, errors, largest, checks, float(count.max()))


def _assumed_differences(n_verdicts: int, **values: Any) -> Differences:
    """Return `Differences` from stated assumptions; raise StudyError if one is missing."""
    if absent := [name for name, value in values.items() if value is None]:
        rule = "give verdicts and gold of a pilot, or all assumptions"
        raise StudyError(f"gold_needed: {rule}; missing: {', '.join(absent)}.")
    base = number("baseline_rate", values["baseline_rate"], least=0, most=1)
    change = number("delta", values["delta"], least=-1, most=1)
    # a difference of two shares is between -1 and 1, so its variance is at most 1
    gold_variance = number("gold_variance", values["gold_variance"], least=0, most=1)
    if not -1e-9 <= base + change <= 1 + 1e-9:
        both = f"{base:g} and {change:g}, a rate of {base + change:.4g} with the skill"
        raise StudyError(f"baseline_rate, delta: found {both}; allowed: 0 to 1.")
    youden, error, seen = {}, 0.0, {}
    for condition, rate in (("baseline", base), ("skill", base + change)):
        se = _rate_of_condition(values["sensitivity"], condition)
        sp = _rate_of_condition(values["specificity"], condition)
        youden[condition] = se + sp - 1
        seen[condition] = rate * se + (1 - rate) * (1 - sp)
        error += (rate * se * (1 - se) + (1 - rate) * sp * (1 - sp)) / n_verdicts
    # Assume that the baseline and the skill each contribute half of the variance of the gold
    # difference. If the grader's error rates differ between the two, another split would give
    # another covariance of grader and gold.
    middle = (youden["baseline"] + youden["skill"]) / 2
    cross, grader = middle * gold_variance, middle**2 * gold_variance + error
    seen_twice = [cross, grader, grader]
    joint = np.array([[gold_variance, cross, cross], seen_twice, seen_twice])
    apparent = seen["skill"] - seen["baseline"]
    # Approximate the sum of a case's errors by a normal distribution. The sum changes in steps of
    # one verdict, so use a continuity correction of half a step.
    off, spread = change - apparent, math.sqrt(error)
    step = 0.5 / n_verdicts
    errors = norm.cdf(np.array([off - step, -off - step]) / spread) if spread > 0 else np.zeros(2)
    mean = np.array([change, apparent, apparent])
    largest = np.full(2, min(4.0 * step + 3.0 * spread, 1.0))
    return Differences(mean, joint, np.asarray(grader), errors, largest, float(n_verdicts))


def _rate_of_condition(rate: Rate | None, condition: str) -> float:
    value = rate.get(condition) if isinstance(rate, Mapping) else rate
    return number(f"sensitivity, specificity of '{condition}'", value, least=0, most=1)


@dataclass(frozen=True)
class _LabelledCases:
    """Paired differences of one group and condition.

    ``cases`` has one row per case with verdicts in both conditions. Its columns are paired
    differences: ``gold``, from gold labels (NaN unless both conditions have gold); ``grader``, from
    the grader's verdicts on all repeats; ``on_gold``, from the grader's verdicts on the attempts
    with gold. ``about`` identifies the group and condition. ``n_checks`` is the mean number of
    checks per case. ``lost`` is a note on attempts without a verdict.
    """

    about: dict[str, Any]
    cases: pd.DataFrame
    n_checks: float
    lost: str


def case_differences(
    verdicts: pd.DataFrame, gold: pd.DataFrame, names: list[str], value: Value, reference: str
) -> tuple[list[_LabelledCases], str]:
    """Return the cases' differences by group and condition, and a note on gold without an attempt.

    As in :mod:`skillcomp.correction`, a check without a verdict counts as missing, and an attempt
    passes only if every check has a verdict and passed.
    """
    joined = tables(verdicts, gold, by=names, value=value, cases=None, what="planning.gold_needed")
    checks = {
        key_of(values, names): float(part.groupby(CASE)["check_id"].nunique().mean())
        for values, part in groups(joined.items, names)
    }
    labelled: list[_LabelledCases] = []
    for values, part in groups(joined.cases, names):
        columns = {"gold": "gold", "verdict": "grader", "seen": "on_gold"}
        table = part.set_index([*CASE, "condition"])[list(columns)].rename(columns=columns)
        conditions = list(table.index.unique("condition"))
        require_reference(conditions, str(reference))
        if not conditions:
            continue
        base = table.xs(reference, level="condition")
        for condition in conditions:
            if condition == reference:
                continue
            difference = pd.DataFrame(table.xs(condition, level="condition") - base)
            difference = difference.loc[difference["grader"].notna()]
            about = {**values, "condition": condition}
            sides = [part[part["condition"].eq(name)] for name in (condition, reference)]
            counts = [int(n) for p in sides for n in ((p["size"] - p["n"]).sum(), p["size"].sum())]
            lost, _ = missing_note(counts, (condition, reference))
            n_checks = checks[key_of(values, names)]
            labelled.append(_LabelledCases(about, difference, n_checks, lost))
    return labelled, joined.strays
