"""Average marginal effects on the verdict given gold, in percentage points."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import brentq

from skillcomp.bias.graded import cells
from skillcomp.stats.clusters import cr2, wilson_effective
from skillcomp.stats.intervals import mover_difference
from skillcomp.stats.ppi import within_range
from skillcomp.stats.results import Interval, undefined

Floats = NDArray[np.float64]

POINTS = 100.0  # percentage points of a rate
NOT = "not identified"
_METHOD = "linear probability, least squares"
_FEWEST_CLUSTERS = 5  # below, CR2 rests on one or two degrees of freedom
_REACH = 0.9  # share of a unit that the feature must span; labels may miss the ends of a batch
_LARGEST = 1_000_000  # numbers in a matrix of intercepts
_FLAT = 1e-10  # share of a feature's variance left after the others, below which it is theirs


@dataclass(frozen=True)
class Effect:
    """An average marginal effect in points, and how many rows and cases tell about it."""

    interval: Interval
    n_empty: int = 0


def in_points(found: Interval) -> Interval:
    """Return an interval on rates in percentage points."""
    return replace(
        found,
        estimate=found.estimate * POINTS,
        low=found.low * POINTS,
        high=found.high * POINTS,
        se=found.se * POINTS,
    )


def refused(reason: str, ci_level: float, n: float = 0.0) -> Interval:
    """Return NaN with a note that begins with "not identified"."""
    return undefined(_METHOD, f"{NOT}: {reason}", ci_level=ci_level, n=n)


def _dummies(codes: NDArray[np.intp]) -> Floats:
    found, codes = np.unique(codes, return_inverse=True)
    return np.eye(len(found))[codes]


def _within(values: Floats, codes: NDArray[np.intp]) -> Floats:
    """Return values less the mean of their cell."""
    codes = np.unique(codes, return_inverse=True)[1]
    size = np.bincount(codes)
    return values - (np.bincount(codes, weights=values) / size)[codes]


def feature_effect(frame: pd.DataFrame, name: str, others: list[str], ci_level: float) -> Interval:
    """Effect of one feature of an answer, given gold, skill, condition and the other features.

    Parameters
    ----------
    frame : pandas.DataFrame
        Rows of :func:`skillcomp.bias.graded.graded` of one group.
    name : str
        The feature.
    others : list of str
        Features held constant, where they vary and are known for half of the rows at least; rows
        without them are then left out.
    ci_level : float
        Level of the interval.

    Returns
    -------
    Interval
        Points of the pass rate per unit of the feature; ``method`` names what was held constant,
        the note how many rows were left out for it. NaN with a note where the data cannot tell,
        also where the feature spans less than its unit.

    Notes
    -----
    Linear probability model with one intercept for every combination of skill, condition and gold
    label; CR2 by case. The slope is the average marginal effect where the effect is the same in
    every cell, and its precision-weighted mean otherwise.
    """
    if frame.empty:
        return refused("no verdict with a gold label", ci_level)
    known = frame[frame[name].notna()]
    if known.empty:
        return refused(f"{name} is not recorded", ci_level)
    held = [other for other in others if 2 * known[other].notna().sum() >= len(known)]
    whole = known.dropna(subset=held)
    note = _left_out(known, len(known) - len(whole), others, held)
    known = whole
    codes = cells(known, ["skill", "condition", "gold"])
    given = known[name].to_numpy(dtype=float)
    value = _within(given, codes)
    total = float(value @ value)
    if total <= _FLAT * len(known):
        reason = f"{name} does not vary between answers of one skill, condition and gold label"
        return refused(reason, ci_level, float(len(known)))
    span = float(np.ptp(given))
    if span < _REACH:
        reason = f"{name} spans {span:.2g}, less than the unit of the effect"
        return refused(reason, ci_level, float(len(known)))
    names, columns = _varying(known, held, codes)
    if columns:
        basis = np.column_stack(columns)
        rest = value - basis @ np.linalg.lstsq(basis, value, rcond=None)[0]
        if float(rest @ rest) <= _FLAT * total:
            return refused(
                f"{name} cannot be told apart from {', '.join(others)}", ci_level, float(len(known))
            )
    found = _fitted(known, np.column_stack([value, *columns]), codes, ci_level)
    if math.isnan(found.low):
        return found
    if np.isin(given, (0.0, 1.0)).all():
        found = _cut(found)
    constant = f", holding {', '.join(names)}" if names else ""
    said = "; ".join(filter(None, (note, found.note)))
    return replace(found, method=f"{found.method}{constant}", note=said)


def _left_out(known: pd.DataFrame, n_lost: int, others: list[str], held: list[str]) -> str:
    """Say which rows, and which features known for few rows, play no part."""
    said = []
    if n_lost:
        said.append(f"{n_lost} of {len(known)} rows lack a feature held constant and are left out")
    for other in others:
        n_known = int(known[other].notna().sum())
        if other not in held and n_known:
            said.append(f"{other} is known for {n_known} of {len(known)} rows: not held constant")
    return "; ".join(said)


def _varying(
    known: pd.DataFrame, held: list[str], codes: NDArray[np.intp]
) -> tuple[list[str], list[Floats]]:
    """Return the features held constant, one after the other, so that no two say the same."""
    names: list[str] = []
    columns: list[Floats] = []
    for other in held:
        rest = column = _within(known[other].to_numpy(dtype=float), codes)
        if columns:
            basis = np.column_stack(columns)
            rest = column - basis @ np.linalg.lstsq(basis, column, rcond=None)[0]
        if float(rest @ rest) > _FLAT * len(known):
            names.append(other)
            columns.append(column)
    return names, columns


def _fitted(
    frame: pd.DataFrame, columns: Floats, codes: NDArray[np.intp], ci_level: float
) -> Interval:
    """Return the first slope within cells, clustered by case."""
    clusters = pd.factorize(frame["cluster"])[0]
    n_clusters = len(np.unique(clusters))
    if n_clusters < _FEWEST_CLUSTERS:
        reason = f"{n_clusters} cases, fewer than {_FEWEST_CLUSTERS}"
        return refused(reason, ci_level, float(len(frame)))
    verdict = frame["verdict"].to_numpy(dtype=float)
    if len(frame) * (int(codes.max()) + 1) <= _LARGEST:
        design, how = np.column_stack([columns, _dummies(codes)]), ""
    else:
        # the intercepts of large studies are swept out; their leverage is then next to nothing
        verdict, design = _within(verdict, codes), columns
        how = ", intercepts swept out"
    fit = cr2(verdict, design, clusters, ci_level=ci_level)
    found = fit.interval(0)
    method = f"{_METHOD}{how}, {found.method} over {n_clusters} cases"
    if math.isnan(found.low):
        return in_points(replace(found, method=method))
    # the fit's note is about the intercepts of cells where all verdicts agree
    return in_points(replace(found, method=method, note=""))


def _cut(found: Interval) -> Interval:
    """Cut limits in points to the range of a difference of rates."""
    most = (-POINTS, POINTS)
    if math.isnan(found.low) or (found.low >= most[0] and found.high <= most[1]):
        return found
    _, low, high, _ = within_range(found.estimate, found.low, found.high, most)
    note = "; ".join(filter(None, (found.note, "limits cut to -100 and 100")))
    return replace(found, low=low, high=high, note=note)


def leniency(
    frame: pd.DataFrame, condition: str, reference: str, gold: float | None, ci_level: float
) -> Effect:
    """How much more often the grader passes the condition's answers of the same gold label.

    Parameters
    ----------
    frame : pandas.DataFrame
        Rows of :func:`skillcomp.bias.graded.graded` of one group.
    condition, reference : str
        The two arms.
    gold : float, optional
        1 among gold passes, 0 among gold fails, None both.
    ci_level : float
        Level of the interval.

    Returns
    -------
    Effect
        Points, within skill and gold label; ``n_empty`` counts the strata (skill and label) that
        lack answers of one arm and so tell nothing. NaN where a label has no stratum with both.
    """
    arms = frame[frame["condition"].isin([condition, reference])]
    skills = arms["skill"].drop_duplicates()
    wanted = [0.0, 1.0] if gold is None else [gold]
    arms = arms[arms["gold"].isin(wanted)].assign(_arm=arms["condition"].eq(condition))
    both = arms.groupby(["skill", "gold"], observed=True)["_arm"].nunique().eq(2)
    usable = both[both].index
    n_empty = len(skills) * len(wanted) - len(usable)
    told = set(usable.get_level_values("gold"))
    lacking = [_LABEL[label] for label in wanted if label not in told]
    if lacking:
        reason = f"no skill has {' and '.join(lacking)} in both '{condition}' and '{reference}'"
        return Effect(refused(reason, ci_level, float(len(arms))), n_empty)
    rows = pd.MultiIndex.from_frame(arms[["skill", "gold"]]).isin(usable)
    kept = arms[rows].reset_index(drop=True)
    return Effect(_told(kept, n_empty, ci_level), n_empty)


_LABEL = {1.0: "gold passes", 0.0: "gold fails"}


def _told(kept: pd.DataFrame, n_empty: int, ci_level: float) -> Interval:
    one_stratum = len(kept[["skill", "gold"]].drop_duplicates()) == 1
    flat = not kept.groupby(["skill", "gold"])["verdict"].nunique().gt(1).any()
    if one_stratum or flat:
        found = _by_arm(kept, flat, ci_level)
    else:
        codes = cells(kept, ["skill", "gold"])
        arm = _within(kept["_arm"].to_numpy(dtype=float), codes)
        found = _cut(_fitted(kept, arm[:, None], codes, ci_level))
    if n_empty:
        note = f"{n_empty} strata of skill and gold label lack an arm and tell nothing"
        found = replace(found, note="; ".join(filter(None, (note, found.note))))
    return found


def _by_arm(kept: pd.DataFrame, flat: bool, ci_level: float) -> Interval:
    """Return the difference of the two arms from a score interval of each.

    For one stratum, where least squares would rest on a few cases with a failing behaviour, and
    for verdicts that do not vary within a stratum.
    """
    values = kept["verdict"].to_numpy(dtype=float)
    if flat:
        # No verdict leaves the one its stratum always gets: none of n in either arm. Rates of
        # the verdicts themselves would compare how often gold passes.
        values = np.zeros(len(kept))
    codes, arm = pd.factorize(kept["cluster"])[0], kept["_arm"].to_numpy(dtype=bool)

    def difference(level: float) -> Interval:
        two = [wilson_effective(values[at], codes[at], ci_level=level) for at in (arm, ~arm)]
        return mover_difference(*two)

    found = difference(ci_level)
    if math.isnan(found.low):
        return refused("all labels of an arm are of one case", ci_level, float(len(kept)))
    note = "no verdict varies within a skill and gold label" if flat else ""
    return replace(
        in_points(found),
        method=f"Wilson on effective n by arm, {found.method}; p by inverting it",
        note="; ".join(filter(None, (found.note, note))),
        n=float(len(kept)),
        n_clusters=float(len(np.unique(codes))),
        p_value=_inverted(difference),
    )


def _inverted(difference: Callable[[float], Interval]) -> float:
    """Return one less the largest level whose interval leaves out zero."""
    sign = np.sign(difference(0.5).estimate)

    def margin(level: float) -> float:
        found = difference(level)
        return float(found.low if sign > 0 else -found.high)

    smallest = 1e-9
    if sign == 0 or margin(smallest) <= 0:
        return 1.0
    if margin(1.0 - smallest) >= 0:
        return smallest
    return 1.0 - float(brentq(margin, smallest, 1.0 - smallest, xtol=1e-10))
