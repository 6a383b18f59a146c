"""How many gold labels an interval of a wanted width needs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import t as student_t

from skillcomp.errors import StudyError
from skillcomp.estimates import estimates, listed, row
from skillcomp.planning.arguments import level, number, sizes_of, whole
from skillcomp.planning.labelled import Unit, case_differences, unmatched
from skillcomp.stats.results import Interval, undefined

Floats = NDArray[np.float64]
Rate = float | Mapping[str, float]

FEWEST = 10  # labelled cases below which the PPI interval was not shown to cover
_EXTRA = ["width", "expected_width", "n_cases", "correlation", "lam"]
_FEWEST_PILOT = 5  # gold cases of a pilot below which a covariance means nothing


@dataclass(frozen=True, slots=True)
class Moments:
    """Covariances of the paired case differences, for one plan or many resamples of it.

    Attributes
    ----------
    joint : numpy.ndarray, shape (..., 3, 3)
        Of gold, the grader over all repeats, and the grader on the repeats with gold, over the
        cases with gold.
    grader : numpy.ndarray, shape (...)
        Variance of the grader over all repeats, over all cases.
    checks : float
        Checks of a case.
    n_gold : float
        Cases with gold behind ``joint``; infinite for assumptions.
    """

    joint: Floats
    grader: Floats
    checks: float
    n_gold: float = math.inf


def expected_variance(
    moments: Moments, n: NDArray[np.int64], n_cases: int
) -> tuple[Floats, Floats]:
    """Return variance of the PPI++ paired delta and its weight for n gold cases out of all.

    Parameters
    ----------
    moments : Moments
        With leading dimensions L (none for one plan).
    n : numpy.ndarray of int, shape (m,)
        Cases with gold, from 1 to ``n_cases``.
    n_cases : int
        Cases in all.

    Returns
    -------
    variance, lam : numpy.ndarray, shape (L, m)
        As :func:`skillcomp.stats.ppi.ppi_paired` would estimate them: gold and grader means of
        separate cases for n below ``n_cases``, one value per case when every case has gold.
    """
    joint, grader = moments.joint[..., None, :, :], moments.grader[..., None]
    gold, on_gold, cross = joint[..., 0, 0], joint[..., 2, 2], joint[..., 0, 2]
    rest = np.maximum(n_cases - n, 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        lam = _share(cross, on_gold + n / rest * grader)
        some = lam**2 * grader / rest + (gold - 2 * lam * cross + lam**2 * on_gold) / n
        # every case has gold on one repeat: the case's own mean cancels on both sides
        gap = joint[..., 1, 1] - 2 * joint[..., 1, 2] + on_gold
        both = joint[..., 0, 1] - cross - joint[..., 1, 1] + joint[..., 1, 2]
        full_lam = _share(-both, gap)
        full = (gold + 2 * full_lam * (joint[..., 0, 1] - cross) + full_lam**2 * gap) / n_cases
    whole = n >= n_cases
    return np.where(whole, full, some), np.where(whole, full_lam, lam)


def _share(covariance: Floats, variance: Floats) -> Floats:
    ratio = np.where(variance > 1e-15, covariance / np.where(variance > 1e-15, variance, 1), 0.0)
    return np.clip(ratio, 0.0, 1.0)


def gold_needed(
    verdicts: pd.DataFrame | None = None,
    gold: pd.DataFrame | None = None,
    *,
    width: float | Sequence[float] = 0.2,
    n_cases: int | None = None,
    by: Sequence[str] = (),
    unit: Unit = "behaviour",
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

    Plans for the PPI++ paired delta: the grader on every case, gold on both arms of cases drawn
    at random, one repeat of each. From a pilot with verdicts and gold, or from stated assumptions.

    Parameters
    ----------
    verdicts, gold : pandas.DataFrame, optional
        Frames of the pilot. Where gold has several labellers the adjudicated label is read, without
        one the label on which they agree, or that of the only one who gave one.
    width : float or sequence of float, default 0.2
        Wanted length of the interval of the delta, in rate units.
    n_cases : int, optional
        Cases of the planned study; those of the pilot when left out.
    by : sequence of str
        Columns that keep rows apart, such as ``["grader"]``.
    unit : {"behaviour", "attempt"}, default "behaviour"
        Delta of the share of checks met, or of attempts that meet every check.
    reference : str, default "baseline"
        The condition that the others are compared with.
    sensitivity, specificity : float or mapping of str to float, optional
        Assumed for single checks (unit ``attempt``: for whole attempts): one number, or one for
        ``baseline`` and ``skill`` each. Needed without a pilot, and then with ``n_cases``,
        ``baseline_rate``, ``delta`` and ``gold_variance``.
    baseline_rate, delta : float, optional
        Assumed rates by gold.
    gold_variance : float, optional
        Assumed variance over cases of the true paired difference of one attempt in each arm.
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
    Length = 2 t(n - 1) sqrt(V(n)) with V of PPI++ at its own weight. Assumptions take the errors
    of checks as independent. Fewer than 10 gold cases are not offered: coverage was not shown
    there. Where gold shows fewer than five errors of the grader in one direction the interval of
    :func:`skillcomp.stats.ppi.ppi_paired` carries a safeguard and comes out longer than planned.

    References
    ----------
    Angelopoulos, Duchi and Zrnic 2023, arXiv:2311.01453.

    Examples
    --------
    >>> plan = gold_needed(
    ...     width=0.2, n_cases=84, sensitivity=0.9, specificity=0.9, baseline_rate=0.5, delta=0.2,
    ...     gold_variance=0.1)
    >>> plan[["measure", "estimate"]].values.tolist()
    [['gold_cases', 24.0], ['gold_attempts', 48.0], ['gold_labels', 240.0]]
    """
    level(ci_level)
    widths = sizes_of("width", width)
    if not 0 < min(widths) <= max(widths) <= 2:
        raise StudyError(f"width: found {width}; allowed: above 0 and up to 2, in rate units.")
    names, seed = listed(by), whole("seed", seed, least=0)
    n_resamples, n_checks = whole("n_resamples", n_resamples), whole("n_checks", n_checks)
    if n_cases is not None:
        n_cases = whole("n_cases", n_cases, least=FEWEST)
    if verdicts is None or gold is None:
        moments = _assumed(
            n_cases, sensitivity, specificity, baseline_rate, delta, gold_variance, n_checks
        )
        assert n_cases is not None
        rows = [
            one
            for wanted in widths
            for one in _rows(moments, None, wanted, n_cases, ci_level, {"condition": "skill"})
        ]
        return estimates(rows, by=["condition"], extra=_EXTRA)
    rows = []
    for part in case_differences(verdicts, gold, names, unit, reference):
        values = part.cases[["gold", "grader", "on_gold"]].to_numpy(dtype=np.float64)
        total = len(values) if n_cases is None else n_cases
        pilot, resampled = _pilot(values, part.n_checks, n_resamples, seed)
        for wanted in widths:
            rows += _rows(pilot, resampled, wanted, total, ci_level, part.about)
    aside = unmatched(verdicts, gold)
    for one in rows:
        one["note"] = "; ".join(filter(None, [one["note"], aside]))
    return estimates(rows, by=[*names, "condition"], extra=_EXTRA)


def _pilot(
    values: Floats, n_checks: float, n_resamples: int, seed: int
) -> tuple[Moments, Moments | None]:
    """Return the moments of a pilot's cases and of resamples; NaN with too few gold cases."""
    n_gold = int(np.isfinite(values).all(axis=1).sum())
    if n_gold < _FEWEST_PILOT:
        unknown = np.full((3, 3), np.nan)
        return Moments(unknown, np.asarray(np.nan), n_checks, float(n_gold)), None
    picks = np.random.default_rng(seed).integers(0, len(values), (n_resamples, len(values)))
    return _measured(values, n_checks), _measured(values[picks], n_checks)


def _rows(
    moments: Moments,
    resampled: Moments | None,
    width: float,
    n_cases: int,
    ci_level: float,
    about: dict[str, Any],
) -> list[dict[str, Any]]:
    """Return the three counts for one width."""
    joint = moments.joint
    scale = math.sqrt(joint[0, 0] * joint[2, 2]) if moments.n_gold >= _FEWEST_PILOT else 0.0
    extra = {
        **about,
        "width": width,
        "n_cases": n_cases,
        "correlation": joint[0, 2] / scale if scale > 0 else np.nan,
    }
    method = f"PPI++ paired variance, t, length {width:g} at level {ci_level:g}"
    problem = _problem(moments, scale, n_cases)
    if problem:
        found = undefined(method, problem, ci_level=ci_level, n=float(n_cases))
    else:
        found, more = _fewest(moments, resampled, width, n_cases, ci_level, method)
        extra |= more
    per_case = {"gold_cases": 1.0, "gold_attempts": 2.0, "gold_labels": 2.0 * moments.checks}
    return [row(name, _times(found, factor), **extra) for name, factor in per_case.items()]


def _problem(moments: Moments, scale: float, n_cases: int) -> str:
    """Return why nothing can be planned, or an empty string."""
    if moments.n_gold < _FEWEST_PILOT:
        return f"{moments.n_gold:.0f} cases have gold in both arms: at least {_FEWEST_PILOT} needed"
    if n_cases < FEWEST:
        return f"the pilot has {n_cases} cases with both arms: state n_cases, at least {FEWEST}"
    if scale == 0:
        return "gold or grader does not vary among the gold cases: nothing to plan with"
    return ""


def _fewest(
    moments: Moments,
    resampled: Moments | None,
    width: float,
    n_cases: int,
    ci_level: float,
    method: str,
) -> tuple[Interval, dict[str, float]]:
    """Return the fewest gold cases that suffice, with expected width and weight."""
    n = np.arange(FEWEST, n_cases + 1)
    variance, lam = expected_variance(moments, n, n_cases)
    length = 2 * student_t.ppf((1 + ci_level) / 2, n - 1) * np.sqrt(variance)
    place = int(_first(length, width))
    if place == len(n):
        note = f"gold on all {n_cases} cases gives a length of {length[-1]:.3f}: ask more cases"
        nothing = undefined(method, note, ci_level=ci_level, n=float(n_cases))
        return nothing, {"expected_width": length[-1], "lam": lam[-1]}
    low, high, caveat = _limits(resampled, n, n_cases, width, ci_level)
    least = f"no fewer than {FEWEST} are offered" if place == 0 else ""
    note = "; ".join(filter(None, [least, caveat]))
    found = Interval(float(n[place]), low, high, ci_level, method, note, n=float(n_cases))
    return found, {"expected_width": length[place], "lam": lam[place]}


def _times(found: Interval, factor: float) -> Interval:
    numbers = (found.estimate, found.low, found.high)
    scaled = (math.ceil(v * factor - 1e-9) if math.isfinite(v) else math.nan for v in numbers)
    estimate, low, high = map(float, scaled)
    return replace(found, estimate=estimate, low=low, high=high)


def _first(length: Floats, width: float) -> NDArray[np.intp]:
    """Return the first place on the last axis where the length suffices; its size if nowhere."""
    enough = length <= width * (1 + 1e-12)
    place: NDArray[np.intp] = np.where(
        enough.any(axis=-1), enough.argmax(axis=-1), length.shape[-1]
    )
    return place


def _limits(
    resampled: Moments | None, n: NDArray[np.int64], n_cases: int, width: float, ci_level: float
) -> tuple[float, float, str]:
    if resampled is None:
        return math.nan, math.nan, "from stated assumptions: no limits"
    variance, _ = expected_variance(resampled, n, n_cases)
    variance = variance[np.isfinite(variance).all(axis=-1)]
    if not len(variance):
        return math.nan, math.nan, "no bootstrap pilot has two cases with gold: no limits"
    length = 2 * student_t.ppf((1 + ci_level) / 2, n - 1) * np.sqrt(variance)
    place = _first(length, width)
    counts = np.append(n, np.inf).astype(np.float64)[place]
    low, high = np.quantile(counts, [(1 - ci_level) / 2, (1 + ci_level) / 2], method="nearest")
    if math.isfinite(high):
        return float(low), float(high), ""
    share = float(np.isinf(counts).mean())
    note = (
        f"in {share:.0%} of the bootstrap pilots gold on every case is not enough: no upper limit"
    )
    return float(low), math.nan, note


def _measured(values: Floats, checks: float) -> Moments:
    """Return moments of cases x (gold, grader, grader on gold); NaN gold where there is none."""
    has: NDArray[np.bool_] = np.asarray(np.isfinite(values).all(axis=-1))
    count = has.sum(axis=-1)[..., None]
    kept = np.where(has[..., None], values, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = kept.sum(axis=-2) / count
        centred = np.where(has[..., None], values - mean[..., None, :], 0.0)
        joint = np.swapaxes(centred, -1, -2) @ centred / (count[..., None] - 1)
    return Moments(
        joint, values[..., 1].var(axis=-1, ddof=1), checks, float(has.sum(axis=-1).max())
    )


def _assumed(
    n_cases: int | None,
    sensitivity: Rate | None,
    specificity: Rate | None,
    baseline_rate: float | None,
    delta: float | None,
    gold_variance: float | None,
    n_checks: int,
) -> Moments:
    given = {
        "n_cases": n_cases,
        "sensitivity": sensitivity,
        "specificity": specificity,
        "baseline_rate": baseline_rate,
        "delta": delta,
        "gold_variance": gold_variance,
    }
    absent = [name for name, value in given.items() if value is None]
    if absent:
        raise StudyError(
            f"gold_needed: give verdicts and gold of a pilot, or all assumptions; missing: "
            f"{', '.join(absent)}."
        )
    assert baseline_rate is not None and delta is not None
    base = number("baseline_rate", baseline_rate, least=0, most=1)
    change = number("delta", delta, least=-1, most=1)
    # a difference of two shares lies in -1 to 1, and so varies by 1 at most
    gold_variance = number("gold_variance", gold_variance, least=0, most=1)
    if not -1e-9 <= base + change <= 1 + 1e-9:
        raise StudyError(
            f"baseline_rate, delta: found {base:g} and {change:g}, a rate of {base + change:.4g} "
            "with the skill; allowed: 0 to 1."
        )
    youden, error = {}, 0.0
    for arm, rate in (("baseline", base), ("skill", base + change)):
        se, sp = _of_arm(sensitivity, arm), _of_arm(specificity, arm)
        youden[arm] = se + sp - 1
        error += (rate * se * (1 - se) + (1 - rate) * sp * (1 - sp)) / n_checks
    if youden["baseline"] == youden["skill"]:
        middle = youden["skill"]
    else:
        # with unlike arms the covariance depends on how Var(gold) splits: halves are assumed
        middle = (youden["baseline"] + youden["skill"]) / 2
    cross, grader = middle * gold_variance, middle**2 * gold_variance + error
    joint = np.array(
        [[gold_variance, cross, cross], [cross, grader, grader], [cross, grader, grader]]
    )
    return Moments(joint, np.asarray(grader), float(n_checks))


def _of_arm(rate: Rate | None, arm: str) -> float:
    value = rate.get(arm) if isinstance(rate, Mapping) else rate
    return number(f"sensitivity, specificity of '{arm}'", value, least=0, most=1)
