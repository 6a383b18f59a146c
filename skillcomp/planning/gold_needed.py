"""Number of gold labels needed for an interval of a target width."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Literal, NamedTuple, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import binom

from skillcomp.contrast import Value, lost_attempts
from skillcomp.correction.estimators import tables
from skillcomp.errors import StudyError, require_known
from skillcomp.frames.contracts import CASE
from skillcomp.frames.estimates import (
    By,
    estimates,
    groups,
    interval_of,
    listed,
    require_reference,
    row,
    rows_of_group,
)
from skillcomp.planning.assumed_components import effects, level, whole
from skillcomp.reliability.grader_agreement_and_consistency import agreement
from skillcomp.stats.bounded import DELTAS
from skillcomp.stats.ppi import FEWEST_ERRORS, ppi_limits
from skillcomp.stats.results import (
    NAN,
    Fields,
    Floats,
    Indices,
    Interval,
    join_notes,
    undefined,
    units_needed,
)

Ints = NDArray[np.int64]
Quality = Literal["agreement", "kappa", "sensitivity", "specificity", "false_passes", "false_fails"]

# the measures of a pilot whose names differ from those of the qualities
_MEASURES = {"agreement": "raw_agreement", "kappa": "cohen_kappa"}
_LABELS = ["width", "target", "rate", "n_pilot"]  # columns next to the estimates columns
_SQUARE_ROOT = "from a pilot: the width falls with the square root of the number of labels"

# Smallest number of gold cases that is planned, because the coverage of prediction-powered
# intervals was not tested with fewer.
FEWEST = 10
_EXTRA = ["width", "expected_width", "n_cases", "correlation", "lam"]
_NO_ERROR = 1e-9  # A difference between gold and grader below this is a rounding error.
_N_RESAMPLES = 500
_FEWEST_PILOT = 5  # With fewer gold cases than this, a pilot's covariances are too imprecise.


class Differences(NamedTuple):
    """Means and covariances of the cases' paired differences, in a pilot or in its resamples.

    A paired difference is the value of a case under a condition minus its value under the
    reference. Each case has three of them, computed from different values: the gold labels, the
    grader's verdicts on all repeats, and the grader's verdicts on the repeats with gold.

    ``mean`` (..., 3) and ``joint`` (..., 3, 3) are the means and covariances of the three
    differences over the cases with gold. ``grader`` is the variance, over all cases, of the
    second difference (verdicts on all repeats). An error is a case in which the gold difference is
    above or below the grader's difference on the repeats with gold. For these two directions,
    ``errors`` (..., 2) has the shares of errors among the gold cases, and ``largest`` (..., 2) the
    largest errors.
    """

    mean: Floats
    joint: Floats
    grader: Floats
    errors: Floats
    largest: Floats


def expected_variance(pilot: Differences, n: Ints, n_cases: int) -> tuple[Floats, Floats]:
    """Return the variance of the PPI++ delta and the grader weight for each number of gold cases.

    ``n`` has the numbers of gold cases. The delta is estimated as in
    :func:`skillcomp.stats.ppi.ppi_mean`. If only some cases have gold, the estimate combines the
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
    direction has fewer than five errors, :func:`skillcomp.stats.ppi.ppi_mean` adds one imagined
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
    estimate = pilot.mean[..., :1] + 0.0 * lam
    variance = variance + np.where(whole, 1.0, lam**2) * imagined_variance(pilot, n)
    with np.errstate(invalid="ignore"):
        error = estimate - weight * pilot.mean[..., 2:]
        summary = estimate, error, variance, weight, n, n - 1
        low, high = ppi_limits(*summary, quantity=DELTAS, ci_level=ci_level)
    return high - low, lam


def _clipped_ratio(covariance: Floats, variance: Floats) -> Floats:
    ratio = np.where(variance > 1e-15, covariance / np.where(variance > 1e-15, variance, 1), 0.0)
    return np.clip(ratio, 0.0, 1.0)


def gold_needed(
    verdicts: pd.DataFrame,
    gold: pd.DataFrame,
    *,
    by: By = (),
    value: Value = "share_passed",
    ci_level: float = 0.95,
    measure: Literal["delta"] | Quality = "delta",
    width: float | Sequence[float] = 0.2,
    n_cases: int | None = None,
    reference: str = "baseline",
    cases: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Estimate how much gold an interval of a target width needs, from a pilot with gold.

    By default, the planned estimate is a corrected delta, the PPI++ paired delta. It needs verdicts
    on all cases, and gold in both conditions on one repeat of randomly drawn cases. With another
    ``measure``, the planned estimate is the agreement of a grader with gold, its kappa or one of
    its error rates.

    Parameters
    ----------
    verdicts, gold : pandas.DataFrame
        Frames of the pilot. If a check has several gold labels, the adjudicated label is used.
        Without an adjudicated label, all labellers must agree.
    by : str or sequence of str
        Columns to group by, such as ``["grader"]``.
    value : {"share_passed", "passed"}, default "share_passed"
        Outcome of an attempt: the share of checks passed, or whether all checks passed.
    ci_level : float, default 0.95
        Level of the planned interval and of the limits of ``estimate``.
    measure : str, default "delta"
        ``"delta"``, ``"agreement"``, ``"kappa"``, ``"sensitivity"``, ``"specificity"``,
        ``"false_passes"`` or ``"false_fails"``.
    width : float or sequence of float, default 0.2
        Target length of the interval, twice its half width, in rate units.
    n_cases : int, optional
        Number of cases of the planned study; by default the number of cases of the pilot.
    reference : str, default "baseline"
        Condition with which the others are compared.
    cases : pandas.DataFrame, optional
        A cases frame, whose tasks say which cases of several skills are the same task.

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

        For another ``measure``, one row per ``by`` and width, with the measure ``gold_labels``: the
        number of items that need a label and a verdict of the grader. ``target`` is the measure,
        and ``rate`` its value in the pilot. ``n_pilot`` is the number of items of the pilot that
        the measure counts, such as the items that fail by gold for the specificity.

    Raises
    ------
    FrameError
        If a frame breaks its contract, if graders would be pooled, or if labellers disagree and no
        label is adjudicated.
    StudyError
        If a number or word is not allowed.

    See Also
    --------
    skillcomp.stats.ppi.ppi_mean : The planned interval.
    skillcomp.reliability.label_sheet : Draws answers at random and writes a sheet to label.

    Notes
    -----
    The planned interval is ``ppi`` of :func:`skillcomp.correction.delta`. Its limits are those of
    :func:`skillcomp.stats.ppi.ppi_limits`, with the variance of PPI++. The grader has the
    weight that minimises this variance. If gold shows fewer than five errors of the grader in a
    direction, the interval allows for an error that was not observed; the plan allows for it in
    proportion to the probability of so few errors. At least 10 gold cases are planned, because
    coverage was not tested with fewer. The limits come from 500 bootstrap resamples of the pilot's
    cases, drawn with seed 0.

    For another ``measure``, the width of the interval of :func:`skillcomp.reliability.agreement` is
    taken to fall with the square root of the number of labels
    (:func:`skillcomp.stats.units_needed`), so the plan assumes as many labels per case as in the
    pilot. Without labels, label a few answers first (:func:`skillcomp.reliability.label_sheet`).

    References
    ----------
    Angelopoulos, Duchi and Zrnic 2023, arXiv:2311.01453.

    Examples
    --------
    >>> from skillcomp import frames
    >>> from skillcomp.datasets import load
    >>> pilot = load("pilot")
    >>> verdicts = frames.verdicts(pilot).query("grader == 'g2'")
    >>> plan = gold_needed(verdicts, frames.gold(pilot), measure="agreement", width=0.1)
    >>> plan[["target", "n_pilot"]].values.tolist()
    [['agreement', 820.0]]
    """
    require_known("measure: found", measure, ("delta", *get_args(Quality)), StudyError)
    level(ci_level)
    widths = effects("width", width)
    if not 0 < min(widths) <= max(widths) <= 2:
        raise StudyError(f"width: found {width}; allowed: above 0 and up to 2, in rate units.")
    require_known("value: found", value, get_args(Value), StudyError)
    names = listed(by)
    if measure != "delta":
        labels = _label_rows(verdicts, gold, measure, widths, names, ci_level, cases)
        return estimates(list(labels), by=names, extra=_LABELS)
    if n_cases is not None:
        n_cases = whole("n_cases", n_cases, least=FEWEST)
    rows = [
        count | {"note": join_notes(count["note"], part.notes)}
        for part in case_differences(verdicts, gold, names, value, reference, cases)
        for count in _count_rows(part, widths, n_cases, ci_level)
    ]
    return estimates(rows, by=[*names, "condition"], extra=_EXTRA)


def _label_rows(
    verdicts: pd.DataFrame,
    gold: pd.DataFrame,
    quality: Quality,
    widths: Sequence[float],
    by: list[str],
    ci_level: float,
    cases: pd.DataFrame | None,
) -> Iterator[Fields]:
    """Yield one row per group and width: the number of labels, from the interval of a pilot."""
    measure, whole_rate = _MEASURES.get(quality, quality), "raw_agreement"
    frame = agreement(
        verdicts,
        gold,
        quantities=[whole_rate, measure],
        by=by,
        ci_level=ci_level,
        n_resamples=_N_RESAMPLES,
        cases=cases,
    )
    for values, part in groups(frame, by):
        intervals = {row["measure"]: interval_of(row) for _, row in part.iterrows()}
        if measure not in intervals:
            continue
        interval, n_items = intervals[measure], intervals[whole_rate].n
        share = interval.n / n_items if n_items else NAN
        for width in widths:
            method = f"interval of {quality}, length {width:g} at level {ci_level:g}"
            units = units_needed(interval, width / 2)
            if math.isfinite(units) and share > 0:
                n_labels = math.ceil(units / share - 1e-9)
                count = Interval(n_labels, NAN, NAN, ci_level, method, _SQUARE_ROOT)
            else:
                reason = interval.note or "no labelled item counts for the measure"
                count = undefined(method, reason, ci_level)
            about = {"width": width, "target": quality, "n_pilot": interval.n}
            about["rate"] = interval.estimate
            yield row("gold_labels", count, **about) | values


def _count_rows(
    part: _LabelledCases, widths: Sequence[float], n_cases: int | None, ci_level: float
) -> Iterator[Fields]:
    """Yield rows for each target width: needed gold cases, attempts and labels."""
    values = part.cases[["gold", "grader", "on_gold"]].to_numpy(float)
    n_cases = len(values) if n_cases is None else n_cases
    n_gold, scale, correlation = np.isfinite(values).all(axis=1).sum(), 0.0, NAN
    if n_gold >= _FEWEST_PILOT:
        pilot = differences_of(values)
        picks = np.random.default_rng(0).integers(0, len(values), (_N_RESAMPLES, len(values)))
        resamples = differences_of(values[picks])
        scale = math.sqrt(pilot.joint[0, 0] * pilot.joint[2, 2])
        correlation = pilot.joint[0, 2] / scale if scale > 0 else NAN
    problem = ""
    if n_gold < _FEWEST_PILOT:
        problem = f"{n_gold} cases have gold in both conditions: {_FEWEST_PILOT} needed"
    elif n_cases < FEWEST:
        lacking = f"state n_cases, at least {FEWEST}"
        problem = f"the pilot has {n_cases} cases in both conditions: {lacking}"
    elif scale == 0:
        problem = "gold or grader does not vary among the gold cases: nothing to plan with"
    per_case = {"gold_cases": 1.0, "gold_attempts": 2.0, "gold_labels": 2.0 * part.n_checks}
    for width in widths:
        method = f"PPI++ paired difference, bounded mean, length {width:g} at level {ci_level:g}"
        extra = {**part.about, "width": width, "n_cases": n_cases, "correlation": correlation}
        count = undefined(method, problem, ci_level, n_cases)
        if not problem:
            count, more = _fewest_gold_cases(pilot, resamples, width, n_cases, ci_level, method)
            extra |= more
        for name, times in per_case.items():
            yield row(name, count.mapped(partial(_whole_units, times)), **extra)


def _whole_units(per_case: float, n_cases: float) -> float:
    return math.ceil(n_cases * per_case - 1e-9) if math.isfinite(n_cases) else NAN


def _fewest_gold_cases(
    pilot: Differences,
    resamples: Differences,
    width: float,
    n_cases: int,
    ci_level: float,
    method: str,
) -> tuple[Interval, Fields]:
    """Return the smallest number of gold cases whose interval is expected to be narrow enough.

    Narrow enough means no wider than ``width``. The returned dict has the width that is expected
    with this number of gold cases, and ``lam``, the weight of the grader.
    """
    n = np.arange(FEWEST, n_cases + 1)
    length, lam = expected_length(pilot, n, n_cases, ci_level)
    place = int(_first_sufficient(length, width))
    if place == len(n):
        long = f"an interval {100 * length[-1]:.1f} points long"
        note = f"gold on all {n_cases} cases gives {long}: ask more cases"
        nothing = undefined(method, note, ci_level, n_cases)
        return nothing, {"expected_width": length[-1], "lam": lam[-1]}
    resampled, _ = expected_length(resamples, n, n_cases, ci_level)
    resampled = resampled[np.isfinite(resampled).all(axis=-1)]
    low, high, caveat = NAN, NAN, "no bootstrap pilot has two cases with gold: no limits"
    if len(resampled):
        counts = np.append(n, np.inf).astype(float)[_first_sufficient(resampled, width)]
        ends = np.quantile(counts, [(1 - ci_level) / 2, (1 + ci_level) / 2], method="nearest")
        (low, high), caveat = map(float, ends), ""
    if math.isinf(high):
        share = f"in {100 * np.isinf(counts).mean():.0f} % of the bootstrap pilots"
        high, caveat = NAN, f"{share} gold on every case is not enough: no upper limit"
    least = f"no fewer than {FEWEST} are offered" if place == 0 else ""
    note = join_notes(least, caveat)
    count = Interval(n[place], low, high, ci_level, method, note, n=n_cases)
    return count, {"expected_width": length[place], "lam": lam[place]}


def _first_sufficient(length: Floats, width: float) -> Indices:
    """Return the first index on the last axis at which `length` is at most `width`.

    If no index qualifies, return the size of the axis.
    """
    enough = length <= width * (1 + 1e-12)
    return np.asarray(np.where(enough.any(axis=-1), enough.argmax(axis=-1), length.shape[-1]))


def differences_of(values: Floats) -> Differences:
    """Compute `Differences` from an array with cases on the second-last axis.

    The last axis has the three paired differences: from gold, from the grader on all repeats, and
    from the grader on the repeats with gold. The first and the third are NaN for cases without
    gold.
    """
    has = np.asarray(np.isfinite(values).all(axis=-1))
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
    return Differences(mean, joint, grader, errors, largest)


class _LabelledCases(NamedTuple):
    """Paired differences of one group and condition.

    ``cases`` has one row per case with verdicts in both conditions. Its columns are paired
    differences: ``gold``, from gold labels (NaN unless both conditions have gold); ``grader``, from
    the grader's verdicts on all repeats; ``on_gold``, from the grader's verdicts on the attempts
    with gold. ``about`` identifies the group and condition. ``n_checks`` is the mean number of
    checks per case. ``notes`` is about attempts without a verdict, and gold without an attempt.
    """

    about: Fields
    cases: pd.DataFrame
    n_checks: float
    notes: str


def case_differences(
    verdicts: pd.DataFrame,
    gold: pd.DataFrame,
    names: list[str],
    value: Value,
    reference: str,
    cases: pd.DataFrame | None = None,
) -> Iterator[_LabelledCases]:
    """Yield the cases' differences by group and condition.

    As in :mod:`skillcomp.correction`, a check without a verdict counts as missing, and an attempt
    passes only if every check has a verdict and passed.
    """
    joined = tables(verdicts, gold, by=names, value=value, cases=cases, what="planning.gold_needed")
    for values, part in groups(joined.cases, names):
        columns = {"gold": "gold", "verdict": "grader", "seen": "on_gold"}
        table = part.set_index([*CASE, "condition"])[list(columns)].rename(columns=columns)
        conditions = list(table.index.unique("condition"))
        require_reference(conditions, str(reference))
        if not conditions:
            continue
        base = table.xs(reference, level="condition")
        items = rows_of_group(joined.items, values)
        n_checks = items.groupby(CASE)["check_id"].nunique().mean()
        for condition in conditions:
            if condition == reference:
                continue
            difference = pd.DataFrame(table.xs(condition, level="condition") - base)
            difference = difference.loc[difference["grader"].notna()]
            about = {**values, "condition": condition}
            sides = [part[part["condition"].eq(name)] for name in (condition, reference)]
            lost = lost_attempts(sides, (condition, reference))
            notes = join_notes(lost, joined.strays)
            yield _LabelledCases(about, difference, n_checks, notes)
