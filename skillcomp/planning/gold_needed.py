"""How many gold labels an interval of a wanted width needs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import binom, norm

from skillcomp.correction.estimators import key_of, tables
from skillcomp.errors import StudyError
from skillcomp.frames.case_table import Value
from skillcomp.frames.contracts import CASE
from skillcomp.frames.estimates import By, estimates, groups, listed, require_reference, row
from skillcomp.planning.assumptions import effects, level, number, whole
from skillcomp.stats.ppi import FEWEST_ERRORS, ppi_limits
from skillcomp.stats.results import Interval, join_notes, undefined

Floats = NDArray[np.float64]
Rate = float | Mapping[str, float]

FEWEST = 10  # labelled cases below which the PPI interval was not shown to cover
_EXTRA = ["width", "expected_width", "n_cases", "correlation", "lam"]
_NO_ERROR = 1e-9  # gold and grader nearer than this agree
_FEWEST_PILOT = 5  # gold cases of a pilot below which a covariance means nothing


@dataclass(frozen=True, slots=True)
class Differences:
    """Mean and spread of the cases' differences, of a pilot or of many resamples of it.

    ``mean`` (..., 3) and covariances ``joint`` (..., 3, 3) are of gold, the grader over all
    repeats, and the grader on the repeats with gold, over the cases with gold; ``grader`` is the
    variance of the grader over all cases. ``errors`` and ``largest`` (..., 2): in which share of
    the cases gold is above and below the grader, and by how much at most. ``checks`` of a case;
    ``n_gold`` cases behind all this, infinite for assumptions.
    """

    mean: Floats
    joint: Floats
    grader: Floats
    errors: Floats
    largest: Floats
    checks: float
    n_gold: float = math.inf


def expected_variance(
    pilot: Differences, n: NDArray[np.int64], n_cases: int
) -> tuple[Floats, Floats]:
    """Return variance of the PPI++ paired delta and its weight for n gold cases out of all.

    As :func:`skillcomp.stats.ppi.ppi_paired` estimates them: gold and grader means of separate
    cases for n below ``n_cases``, one value per case when every case has gold. Without the errors
    that it may imagine. Leading dimensions of the pilot come first, those of n last.
    """
    joint, grader = pilot.joint[..., None, :, :], pilot.grader[..., None]
    gold, on_gold, cross = joint[..., 0, 0], joint[..., 2, 2], joint[..., 0, 2]
    rest = np.maximum(n_cases - n, 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        lam = _clipped_ratio(cross, on_gold + n / rest * grader)
        some = lam**2 * grader / rest + (gold - 2 * lam * cross + lam**2 * on_gold) / n
        # every case has gold on one repeat: the case's own mean cancels on both sides
        gap = joint[..., 1, 1] - 2 * joint[..., 1, 2] + on_gold
        both = joint[..., 0, 1] - cross - joint[..., 1, 1] + joint[..., 1, 2]
        full_lam = _clipped_ratio(-both, gap)
        full = (gold + 2 * full_lam * (joint[..., 0, 1] - cross) + full_lam**2 * gap) / n_cases
    whole = n >= n_cases
    return np.where(whole, full, some), np.where(whole, full_lam, lam)


def imagined_variance(pilot: Differences, n: NDArray[np.int64]) -> Floats:
    """Return the variance that imagined errors are expected to add to a grader of full weight.

    :func:`skillcomp.stats.ppi.ppi_paired` imagines one error in each direction where fewer than
    five are seen in one of them: of a whole case, or as large as the largest of five seen.
    """
    few = np.asarray(binom.cdf(FEWEST_ERRORS - 1, n[:, None], pilot.errors[..., None, :]))
    square = np.minimum(pilot.largest[..., None, :], 1.0) ** 2
    other = few[..., ::-1]
    squares = (few + (1.0 - few) * other * square).sum(axis=-1)
    expected: Floats = 0.5 * squares / ((n + 1.0) * (n + 2.0))
    return expected


def expected_length(
    pilot: Differences, n: NDArray[np.int64], n_cases: int, ci_level: float
) -> tuple[Floats, Floats]:
    """Return the length of the interval at its expected variance, and the weight of the grader."""
    variance, lam = expected_variance(pilot, n, n_cases)
    whole = n >= n_cases
    weight = np.where(whole, 0.0, lam)
    estimate = pilot.mean[..., 0][..., None] + 0.0 * lam
    error = np.where(whole, estimate, estimate - lam * pilot.mean[..., 2][..., None])
    variance = variance + np.where(whole, 1.0, lam**2) * imagined_variance(pilot, n)
    with np.errstate(invalid="ignore"):
        low, high = ppi_limits(
            estimate, error, variance, weight, n, n - 1, bounds=(-1.0, 1.0), ci_level=ci_level
        )
    return high - low, lam


def _clipped_ratio(covariance: Floats, variance: Floats) -> Floats:
    ratio = np.where(variance > 1e-15, covariance / np.where(variance > 1e-15, variance, 1), 0.0)
    return np.clip(ratio, 0.0, 1.0)


def gold_needed(
    verdicts: pd.DataFrame | None = None,
    gold: pd.DataFrame | None = None,
    *,
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
    """Say how many cases need gold for a corrected delta with an interval of a wanted width.

    Plans for the PPI++ paired delta: the grader on every case, gold under both conditions, on cases
    drawn at random, one repeat of each. From a pilot with verdicts and gold, or from stated
    assumptions.

    Parameters
    ----------
    verdicts, gold : pandas.DataFrame, optional
        Frames of the pilot. Where gold has several labellers the adjudicated label is read, without
        one the label on which they agree, or that of the only one who gave one.
    width : float or sequence of float, default 0.2
        Wanted length of the interval of the delta, in rate units.
    n_cases : int, optional
        Cases of the planned study; those of the pilot when left out.
    by : str or sequence of str
        Columns that keep rows apart, such as ``["grader"]``.
    value : {"share_passed", "passed"}, default "share_passed"
        Delta of the share of checks met, or of attempts that meet every check.
    reference : str, default "baseline"
        The condition that the others are compared with.
    sensitivity, specificity : float or mapping of str to float, optional
        Assumed for single checks (value ``passed``: for whole attempts): one number, or one for
        ``baseline`` and ``skill`` each. Needed without a pilot, and then with ``n_cases``,
        ``baseline_rate``, ``delta`` and ``gold_variance``.
    baseline_rate, delta : float, optional
        Assumed rates by gold.
    gold_variance : float, optional
        Assumed variance over cases of the true paired difference of one attempt a condition.
    n_checks : int, default 5
        Checks per case, without a pilot.
    ci_level : float, default 0.95
        Level of the planned interval and of the one given here.
    n_resamples, seed : int
        Bootstrap of the pilot's cases behind the limits.

    Returns
    -------
    pandas.DataFrame
        Three rows per ``by``, condition and width: measure ``gold_cases``, ``gold_attempts`` (two
        a case) and ``gold_labels`` (times the checks of a case). ``estimate`` is the smallest
        number that suffices; limits are bootstrap percentiles over the pilot's cases. NaN with a
        note where gold on every case would not do, or fewer than 5 cases of the pilot have gold;
        labels that match no attempt of the verdicts are counted in ``note``. Extra: width,
        expected_width, n_cases, correlation (of gold and grader differences over cases with
        gold), lam (weight of the grader at the estimate).

    Raises
    ------
    FrameError
        If a frame breaks its contract, graders would be pooled, or labellers differ and nothing
        was adjudicated.
    StudyError
        If neither a pilot nor all assumptions are given, or a number is out of its range.

    See Also
    --------
    skillcomp.stats.ppi.ppi_paired : The interval this plans for.
    skillcomp.reliability.label_sheet : Draws what to label.

    Notes
    -----
    The length is that of the interval :func:`skillcomp.correction.delta` prints as ``ppi``
    (:func:`skillcomp.stats.ppi.ppi_limits`) at the variance that PPI++ has with its own weight, the
    errors that it imagines where gold shows few of them included with the chance that it does.
    Assumptions take the errors of checks as independent. Fewer than 10 gold cases are not offered:
    coverage was not shown there.

    References
    ----------
    Angelopoulos, Duchi and Zrnic 2023, arXiv:2311.01453.

    Examples
    --------
    >>> plan = gold_needed(
    ...     width=0.2, n_cases=84, sensitivity=0.9, specificity=0.9, baseline_rate=0.5, delta=0.2,
    ...     gold_variance=0.1)
    >>> plan[["measure", "estimate"]].values.tolist()
    [['gold_cases', 36.0], ['gold_attempts', 72.0], ['gold_labels', 360.0]]
    """
    level(ci_level)
    widths = effects("width", width)
    if not 0 < min(widths) <= max(widths) <= 2:
        raise StudyError(f"width: found {width}; allowed: above 0 and up to 2, in rate units.")
    names, seed = listed(by), whole("seed", seed, least=0)
    n_resamples, n_checks = whole("n_resamples", n_resamples), whole("n_checks", n_checks)
    if n_cases is not None:
        n_cases = whole("n_cases", n_cases, least=FEWEST)
    if verdicts is None or gold is None:
        assumed = _assumed_differences(
            n_checks,
            n_cases=n_cases,
            sensitivity=sensitivity,
            specificity=specificity,
            baseline_rate=baseline_rate,
            delta=delta,
            gold_variance=gold_variance,
        )
        assert n_cases is not None
        rows = [
            planned
            for length in widths
            for planned in _count_rows(
                assumed, None, length, n_cases, ci_level, {"condition": "skill"}
            )
        ]
        return estimates(rows, by=["condition"], extra=_EXTRA)
    rows = []
    parts, strays = case_differences(verdicts, gold, names, value, reference)
    for part in parts:
        values = part.cases[["gold", "grader", "on_gold"]].to_numpy(dtype=np.float64)
        total = len(values) if n_cases is None else n_cases
        pilot, resampled = _pilot_differences(values, part.n_checks, n_resamples, seed)
        for length in widths:
            rows += _count_rows(pilot, resampled, length, total, ci_level, part.about)
    for planned in rows:
        planned["note"] = join_notes(planned["note"], strays)
    return estimates(rows, by=[*names, "condition"], extra=_EXTRA)


def _pilot_differences(
    values: Floats, n_checks: float, n_resamples: int, seed: int
) -> tuple[Differences, Differences | None]:
    """Return what a pilot's cases show and what resamples of them do; NaN with too few cases."""
    n_gold = int(np.isfinite(values).all(axis=1).sum())
    if n_gold < _FEWEST_PILOT:
        unknown, pair = np.full((3, 3), np.nan), np.full(2, np.nan)
        nothing = Differences(
            unknown[0], unknown, np.asarray(np.nan), pair, pair, n_checks, float(n_gold)
        )
        return nothing, None
    picks = np.random.default_rng(seed).integers(0, len(values), (n_resamples, len(values)))
    return differences_of(values, n_checks), differences_of(values[picks], n_checks)


def _count_rows(
    pilot: Differences,
    resampled: Differences | None,
    width: float,
    n_cases: int,
    ci_level: float,
    about: dict[str, Any],
) -> list[dict[str, Any]]:
    """Return the three counts for one width."""
    joint = pilot.joint
    scale = math.sqrt(joint[0, 0] * joint[2, 2]) if pilot.n_gold >= _FEWEST_PILOT else 0.0
    extra = {
        **about,
        "width": width,
        "n_cases": n_cases,
        "correlation": joint[0, 2] / scale if scale > 0 else np.nan,
    }
    method = f"PPI++ paired difference, bounded mean, length {width:g} at level {ci_level:g}"
    problem = _planning_problem(pilot, scale, n_cases)
    if problem:
        count = undefined(method, problem, ci_level=ci_level, n=float(n_cases))
    else:
        count, more = _fewest_gold_cases(pilot, resampled, width, n_cases, ci_level, method)
        extra |= more
    per_case = {"gold_cases": 1.0, "gold_attempts": 2.0, "gold_labels": 2.0 * pilot.checks}
    return [
        row(name, _scaled_interval(count, factor), **extra) for name, factor in per_case.items()
    ]


def _planning_problem(pilot: Differences, scale: float, n_cases: int) -> str:
    """Return why nothing can be planned, or an empty string."""
    if pilot.n_gold < _FEWEST_PILOT:
        return f"{pilot.n_gold:.0f} cases have gold in both conditions: {_FEWEST_PILOT} needed"
    if n_cases < FEWEST:
        return f"the pilot has {n_cases} cases in both conditions: state n_cases, at least {FEWEST}"
    if scale == 0:
        return "gold or grader does not vary among the gold cases: nothing to plan with"
    return ""


def _fewest_gold_cases(
    pilot: Differences,
    resampled: Differences | None,
    width: float,
    n_cases: int,
    ci_level: float,
    method: str,
) -> tuple[Interval, dict[str, float]]:
    """Return the fewest gold cases that suffice, with expected width and weight."""
    n = np.arange(FEWEST, n_cases + 1)
    length, lam = expected_length(pilot, n, n_cases, ci_level)
    place = int(_first_sufficient(length, width))
    if place == len(n):
        long = f"an interval {100 * length[-1]:.1f} points long"
        note = f"gold on all {n_cases} cases gives {long}: ask more cases"
        nothing = undefined(method, note, ci_level=ci_level, n=float(n_cases))
        return nothing, {"expected_width": length[-1], "lam": lam[-1]}
    low, high, caveat = _bootstrap_limits(resampled, n, n_cases, width, ci_level)
    least = f"no fewer than {FEWEST} are offered" if place == 0 else ""
    note = join_notes(least, caveat)
    count = Interval(float(n[place]), low, high, ci_level, method, note, n=float(n_cases))
    return count, {"expected_width": length[place], "lam": lam[place]}


def _scaled_interval(interval: Interval, factor: float) -> Interval:
    numbers = (interval.estimate, interval.low, interval.high)
    scaled = (math.ceil(v * factor - 1e-9) if math.isfinite(v) else math.nan for v in numbers)
    estimate, low, high = map(float, scaled)
    return replace(interval, estimate=estimate, low=low, high=high)


def _first_sufficient(length: Floats, width: float) -> NDArray[np.intp]:
    """Return the first place on the last axis where the length suffices; its size if nowhere."""
    enough = length <= width * (1 + 1e-12)
    place: NDArray[np.intp] = np.where(
        enough.any(axis=-1), enough.argmax(axis=-1), length.shape[-1]
    )
    return place


def _bootstrap_limits(
    resampled: Differences | None, n: NDArray[np.int64], n_cases: int, width: float, ci_level: float
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
    pilots = f"in {np.isinf(counts).mean():.0%} of the bootstrap pilots"
    return float(low), math.nan, f"{pilots} gold on every case is not enough: no upper limit"


def differences_of(values: Floats, checks: float) -> Differences:
    """Measure cases x (gold, grader, grader on gold), gold NaN where there is none."""
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
    return Differences(
        mean,
        joint,
        values[..., 1].var(axis=-1, ddof=1),
        errors,
        np.maximum(directions.max(axis=-2), 0.0),
        checks,
        float(has.sum(axis=-1).max()),
    )


def _assumed_differences(n_checks: int, **values: Any) -> Differences:
    """Return what is stated in the place of a pilot; raise StudyError where it is not enough."""
    absent = [name for name, value in values.items() if value is None]
    if absent:
        raise StudyError(
            f"gold_needed: give verdicts and gold of a pilot, or all assumptions; missing: "
            f"{', '.join(absent)}."
        )
    base = number("baseline_rate", values["baseline_rate"], least=0, most=1)
    change = number("delta", values["delta"], least=-1, most=1)
    # a difference of two shares lies in -1 to 1, and so varies by 1 at most
    gold_variance = number("gold_variance", values["gold_variance"], least=0, most=1)
    if not -1e-9 <= base + change <= 1 + 1e-9:
        raise StudyError(
            f"baseline_rate, delta: found {base:g} and {change:g}, a rate of {base + change:.4g} "
            "with the skill; allowed: 0 to 1."
        )
    youden, error, seen = {}, 0.0, {}
    for condition, rate in (("baseline", base), ("skill", base + change)):
        se, sp = (
            _rate_of_condition(values[rate], condition) for rate in ("sensitivity", "specificity")
        )
        youden[condition] = se + sp - 1
        seen[condition] = rate * se + (1 - rate) * (1 - sp)
        error += (rate * se * (1 - se) + (1 - rate) * sp * (1 - sp)) / n_checks
    # where they differ the covariance depends on how Var(gold) splits: halves are assumed
    middle = (youden["baseline"] + youden["skill"]) / 2
    cross, grader = middle * gold_variance, middle**2 * gold_variance + error
    seen_twice = [cross, grader, grader]
    joint = np.array([[gold_variance, cross, cross], seen_twice, seen_twice])
    apparent = seen["skill"] - seen["baseline"]
    # errors of a case add up to a normal sum, in steps of one check
    off, spread = change - apparent, math.sqrt(error)
    step = 0.5 / n_checks
    errors = norm.cdf(np.array([off - step, -off - step]) / spread) if spread > 0 else np.zeros(2)
    return Differences(
        np.array([change, apparent, apparent]),
        joint,
        np.asarray(grader),
        errors,
        np.minimum(4.0 * step + 3.0 * spread, 1.0) * np.ones(2),
        float(n_checks),
    )


def _rate_of_condition(rate: Rate | None, condition: str) -> float:
    value = rate.get(condition) if isinstance(rate, Mapping) else rate
    return number(f"sensitivity, specificity of '{condition}'", value, least=0, most=1)


@dataclass(frozen=True)
class _LabelledCases:
    """The paired differences of one group and condition.

    ``cases`` has one row per case with verdicts under both conditions: ``gold`` (NaN without gold
    under both), ``grader`` over all repeats, ``on_gold`` over what carries gold.
    """

    about: dict[str, Any]
    cases: pd.DataFrame
    n_checks: float


def case_differences(
    verdicts: pd.DataFrame, gold: pd.DataFrame, names: list[str], value: Value, reference: str
) -> tuple[list[_LabelledCases], str]:
    """Return the differences of each case by group and condition, and what gold matches nothing.

    Attempts are judged as in :mod:`skillcomp.correction`: a failed grader says nothing, and an
    attempt passes only where every check of it is known to.
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
        if not conditions:  # no case of this group has what is measured
            continue
        base = table.xs(reference, level="condition")
        for condition in conditions:
            if condition == reference:
                continue
            difference = pd.DataFrame(table.xs(condition, level="condition") - base)
            difference = difference.loc[difference["grader"].notna()]
            about = {**values, "condition": condition}
            labelled.append(_LabelledCases(about, difference, checks[key_of(values, names)]))
    return labelled, joined.strays
