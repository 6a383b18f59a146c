"""Near versus far: how well what the skill teaches carries over to cases it does not resemble."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd

from skillcomp.contracts import check
from skillcomp.deltas import case_table
from skillcomp.errors import FrameError, suggest
from skillcomp.estimates import (
    estimates,
    groups,
    listed,
    require_columns,
    require_one_grader,
    row,
)
from skillcomp.records import CONDITIONS
from skillcomp.stats.clusters import cr2, wilson_effective
from skillcomp.stats.intervals import mover_difference
from skillcomp.stats.results import Interval, undefined
from skillcomp.stats.switching import paired_delta

__all__ = ["contrast", "gap", "rates"]

Value = Literal["passed", "share_passed"]
MIN_CASES = 2  # of each kind: one case has no spread of its own
BOUNDARY = 0.9  # a rate beyond this or below its complement: normal limits are not trusted there
_EXTRA = ["scope", "n_near", "n_far", "dimensions", "n_dropped"]


def gap(
    outcomes: pd.DataFrame,
    *,
    by: Sequence[str] = (),
    value: Value = "passed",
    reference: str = "baseline",
    ci_level: float = 0.95,
) -> pd.DataFrame:
    """Say whether the skill helps far cases as much as near ones.

    The delta of each case (skill minus baseline, repeats averaged) is compared between near and
    far cases. Distance is confounded with the rubric dimension by design, so the headline compares
    near and far within dimensions and skills that have both.

    Parameters
    ----------
    outcomes : pandas.DataFrame
        An outcomes frame with transfer and comprehension_dimension.
    by : sequence of str
        Columns that keep rows apart, such as ``["skill"]``.
    value : {"passed", "share_passed"}, default "passed"
        Whole attempts passed, or the share of checks passed.
    reference : str, default "baseline"
        The condition that the others are compared with.
    ci_level : float, default 0.95
        Level of the intervals.

    Returns
    -------
    pandas.DataFrame
        Six rows per ``by`` and condition: measure ``near_delta``, ``far_delta`` and ``gap`` (far
        minus near) for scope ``within_dimensions`` (the headline) and then ``pooled`` (all cases,
        distance mixed with dimension, as its note says). Estimates in rate units with
        intervals clustered by case (contrast pairs together), ``n_near`` and ``n_far`` cases,
        ``dimensions`` that enter, ``n_dropped`` cases without a partner. NaN with a note where
        there are fewer than two near or two far cases, or no dimension has both.

    Raises
    ------
    FrameError
        As :func:`skillcomp.deltas.paired`.

    See Also
    --------
    contrast : Both members of a contrast pair right, one, or none.
    skillcomp.plots.transfer : Draws the rates behind it (:func:`rates`).

    Notes
    -----
    ``within_dimensions`` is least squares of the case's delta on "far" with a level for each skill
    and dimension, CR2 standard errors and Satterthwaite t; near and far deltas are standardised
    to the cases' shares of these levels. It assumes the gap is the same in every level. Where a
    rate lies beyond 0.9 or 0.1, or the deltas have no spread, the limits are those of two score
    intervals put together (MOVER), of the pooled cases of these dimensions. Additive: the
    difference is in rate units and may look different on a log-odds scale near the ceiling.
    """
    names = listed(by)
    given, table = _table(outcomes, names, value, reference)
    facts = given.drop_duplicates("case_id").set_index("case_id")
    rows = []
    for values, part in groups(table, names):
        for condition in _others(part["condition"], reference):
            pairs, n_dropped = _pairs(part, condition, reference, value)
            pairs = pairs.join(facts[["transfer", "comprehension_dimension"]], on="case_id")
            pairs = pairs[pairs["transfer"].notna()]
            about = values | {"condition": condition, "n_dropped": n_dropped}
            rows += _within(pairs, value, ci_level, about)
            rows += _pooled(pairs, value, ci_level, about)
    return estimates(rows, by=[*names, "condition"], extra=_EXTRA)


def _table(
    outcomes: pd.DataFrame, names: list[str], value: str, reference: str
) -> tuple[pd.DataFrame, pd.DataFrame]:
    if value not in ("passed", "share_passed"):
        raise FrameError(f"value: found '{value}'; allowed: 'passed', 'share_passed'.")
    if "condition" in names:
        raise FrameError(
            "transfer: by= names 'condition', which is what is compared. Leave it out."
        )
    given = check(outcomes, "outcomes")
    require_columns(given, names, "transfer")
    require_one_grader(given, names, "transfer")
    found = list(given["condition"].unique())
    if found and reference not in found:
        raise FrameError(
            f"reference: there is no condition '{reference}'; there: {', '.join(found)}."
            + suggest(reference, found)
        )
    return given, case_table(given, by=names)


def _others(conditions: pd.Series, reference: str | None) -> list[str]:
    found = [name for name in conditions.unique() if name != reference]
    return [c for c in CONDITIONS if c in found] + [c for c in found if c not in CONDITIONS]


def _pairs(
    part: pd.DataFrame, condition: str, reference: str, value: str
) -> tuple[pd.DataFrame, int]:
    """Return one row per case with both arms (suffixes 1 and 0) and the delta of the case."""
    arms = [part[part["condition"].eq(name)] for name in (condition, reference)]
    both = arms[0].merge(
        arms[1][["case_id", "n", "n_passed", "share"]],
        on="case_id",
        how="outer",
        suffixes=("1", "0"),
    )
    if value == "passed":
        rates_ = [both[f"n_passed{s}"] / both[f"n{s}"].where(both[f"n{s}"] > 0) for s in "10"]
    else:
        rates_ = [both["share1"], both["share0"]]
    both = both.assign(rate1=rates_[0], rate0=rates_[1], delta=rates_[0] - rates_[1])
    pairs = both[both["delta"].notna()]
    return pairs, len(both) - len(pairs)


def _within(
    pairs: pd.DataFrame, value: str, ci_level: float, about: dict[str, Any]
) -> list[dict[str, Any]]:
    known = pairs[pairs["comprehension_dimension"].notna()]
    level = known["skill"] + " " + known["comprehension_dimension"]
    mixed = known["transfer"].groupby(level).transform("nunique").eq(2)
    kept, level = known[mixed], level[mixed]
    names = ", ".join(sorted(kept["comprehension_dimension"].unique()))
    about = about | {"scope": "within_dimensions", "dimensions": names}
    counts, problem = _counts(kept, "no dimension of a skill has enough near and far cases")
    about |= counts
    if problem:
        nothing = undefined("", problem, ci_level=ci_level, n=float(len(kept)))
        return [row(m, nothing, **about) for m in ("near_delta", "far_delta", "gap")]
    note = f"near and far compared within {names}, standardised over dimensions and skills"
    far = kept["transfer"].eq("far").to_numpy(dtype=float)
    dummies = pd.get_dummies(level, dtype=float)
    centred = (dummies - dummies.mean()).iloc[:, 1:].to_numpy()
    fits = {}
    for start, slope in (("near_delta", far), ("far_delta", 1.0 - far)):
        design = np.column_stack([np.ones(len(far)), slope, centred])
        fits[start] = cr2(
            kept["delta"].to_numpy(), design, pd.factorize(kept["cluster"])[0], ci_level=ci_level
        )
    found = {
        "near_delta": fits["near_delta"].interval(0),
        "far_delta": fits["far_delta"].interval(0),
        "gap": fits["near_delta"].interval(1),
    }
    return _rows(found, kept, value, ci_level, about, note)


def _pooled(
    pairs: pd.DataFrame, value: str, ci_level: float, about: dict[str, Any]
) -> list[dict[str, Any]]:
    names = ", ".join(sorted(pairs["comprehension_dimension"].dropna().unique()))
    counts, problem = _counts(pairs, "too few near or far cases")
    about = about | {"scope": "pooled", "dimensions": names} | counts
    if problem:
        nothing = undefined("", problem, ci_level=ci_level, n=float(len(pairs)))
        return [row(m, nothing, **about) for m in ("near_delta", "far_delta", "gap")]
    note = (
        "distance is confounded with the rubric dimension: near and far cases ask different things"
    )
    far = pairs["transfer"].eq("far").to_numpy(dtype=float)
    codes = pd.factorize(pairs["cluster"])[0]
    delta = pairs["delta"].to_numpy()
    near_first = cr2(delta, np.column_stack([np.ones(len(far)), far]), codes, ci_level=ci_level)
    far_first = cr2(delta, np.column_stack([np.ones(len(far)), 1 - far]), codes, ci_level=ci_level)
    found = {
        "near_delta": near_first.interval(0),
        "far_delta": far_first.interval(0),
        "gap": near_first.interval(1),
    }
    return _rows(found, pairs, value, ci_level, about, note)


def _counts(pairs: pd.DataFrame, words: str) -> tuple[dict[str, int], str]:
    n_near = int(pairs["transfer"].eq("near").sum())
    n_far = int(pairs["transfer"].eq("far").sum())
    few = min(n_near, n_far) < MIN_CASES
    note = f"{words}: {n_near} near and {n_far} far, at least {MIN_CASES} of each" if few else ""
    return {"n_near": n_near, "n_far": n_far}, note


def _rows(
    found: dict[str, Interval],
    pairs: pd.DataFrame,
    value: str,
    ci_level: float,
    about: dict[str, Any],
    note: str,
) -> list[dict[str, Any]]:
    """Print the least-squares limits, or MOVER's where a rate is near the boundary."""
    sides = [pairs[pairs["transfer"].eq(kind)] for kind in ("near", "far")]
    means = np.array([[side["rate1"].mean(), side["rate0"].mean()] for side in sides])
    near_edge = bool((means > BOUNDARY).any() or (means < 1 - BOUNDARY).any())
    collapsed = any(not np.isfinite(one.low) for one in found.values())
    spans = [1.0 if measure != "gap" else 2.0 for measure in found]
    outside = any(
        max(-one.low, one.high) > span for one, span in zip(found.values(), spans, strict=True)
    )
    usable = bool(pairs["n1"].gt(0).all() and pairs["n0"].gt(0).all())
    if usable and (collapsed or outside or (near_edge and value == "passed")):
        why = "a rate beyond 0.9 or 0.1" if near_edge else "too little spread between clusters"
        found = _by_mover(found, sides, ci_level)
        note = f"{note}; {why}: limits by MOVER from two score intervals"
    elif collapsed:
        note = f"{note}; no spread and no passed counts to fall back on"
    n = {"near_delta": len(sides[0]), "far_delta": len(sides[1]), "gap": len(pairs)}
    return [
        row(measure, one, **about)
        | {"n": float(n[measure]), "note": "; ".join(filter(None, [note, one.note]))}
        for measure, one in found.items()
    ]


def _by_mover(
    found: dict[str, Interval], sides: list[pd.DataFrame], ci_level: float
) -> dict[str, Interval]:
    """Keep the standardised estimates; take the widths from the score intervals of each side."""
    score = [
        paired_delta(
            side["n_passed1"].to_numpy(),
            side["n1"].to_numpy(),
            side["n_passed0"].to_numpy(),
            side["n0"].to_numpy(),
            clusters=pd.factorize(side["cluster"])[0],
            ci_level=ci_level,
        )
        for side in sides
    ]
    shifted = {}
    for name, part in zip(("near_delta", "far_delta"), score, strict=True):
        estimate = float(np.clip(found[name].estimate, -1.0, 1.0))
        shifted[name] = Interval(
            estimate,
            max(estimate - (part.estimate - part.low), -1.0),
            min(estimate + (part.high - part.estimate), 1.0),
            ci_level=ci_level,
            method=part.method,
            n=part.n,
            n_clusters=part.n_clusters,
        )
    difference = mover_difference(shifted["far_delta"], shifted["near_delta"], ci_level=ci_level)
    return shifted | {"gap": difference}


def rates(
    outcomes: pd.DataFrame, *, by: Sequence[str] = (), ci_level: float = 0.95
) -> pd.DataFrame:
    """Give the pass rates of near and far cases under each condition: what the figure draws.

    Parameters
    ----------
    outcomes : pandas.DataFrame
        An outcomes frame with transfer.
    by : sequence of str
        Columns that keep rows apart.
    ci_level : float, default 0.95
        Level of the intervals.

    Returns
    -------
    pandas.DataFrame
        One row per ``by``, transfer (near, far) and condition: estimates columns (measure
        ``rate_passed``) with Wilson's interval on the effective number of attempts.
    """
    from skillcomp.deltas import rates as levels

    given = check(outcomes, "outcomes")
    given = given[given["transfer"].notna()]
    return levels(given, by=[*listed(by), "transfer"], ci_level=ci_level)


def contrast(
    outcomes: pd.DataFrame, *, by: Sequence[str] = (), ci_level: float = 0.95
) -> pd.DataFrame:
    """Say how often both members of a contrast pair are right: the test of pattern matching.

    A contrast pair is a case and its twin with one decisive detail changed. An agent that matches
    surface patterns gets one right and the other wrong.

    Parameters
    ----------
    outcomes : pandas.DataFrame
        An outcomes frame in which twins carry ``contrast_of``.
    by : sequence of str
        Columns that keep rows apart.
    ci_level : float, default 0.95
        Level of the intervals.

    Returns
    -------
    pandas.DataFrame
        Three rows per ``by`` and condition: measure ``both_right``, ``one_right``, ``none_right``;
        the share of pairs, averaged over repeats within a pair (repeat 1 of the case goes with
        repeat 1 of its twin), n pairs, Wilson's interval on the effective number of pairs.
        NaN with a note where there is no complete pair.

    Raises
    ------
    FrameError
        If the frame breaks its contract or several graders would be pooled.
    """
    names = listed(by)
    given = check(outcomes, "outcomes")
    require_columns(given, names, "transfer.contrast")
    require_one_grader(given, [*names, "condition"], "transfer.contrast")
    keys = list(dict.fromkeys([*names, "condition", "repeat"]))
    twins = given[given["contrast_of"].notna()]
    pairs = twins.merge(
        given[[*keys, "case_id", "passed"]].rename(
            columns={"case_id": "contrast_of", "passed": "passed_of"}
        ),
        on=[*keys, "contrast_of"],
        how="left",
    )
    complete = pairs[pairs["passed"].notna() & pairs["passed_of"].notna()]
    right = complete["passed"].astype(int) + complete["passed_of"].astype(int)
    complete = complete.assign(
        both_right=right.eq(2), one_right=right.eq(1), none_right=right.eq(0)
    )
    rows = []
    for values, part in groups(twins, names):
        for condition in _others(part["condition"], None):
            mine = _matching(complete, values | {"condition": condition})
            for measure in ("both_right", "one_right", "none_right"):
                rows.append(
                    row(measure, _share(mine, measure, ci_level), **values, condition=condition)
                )
    return estimates(rows, by=[*names, "condition"])


def _matching(frame: pd.DataFrame, values: dict[str, Any]) -> pd.DataFrame:
    keep = pd.Series(True, index=frame.index)
    for name, value in values.items():
        keep &= frame[name].isna() if pd.isna(value) else frame[name].eq(value).fillna(False)
    return frame[keep]


def _share(pairs: pd.DataFrame, measure: str, ci_level: float) -> Interval:
    if pairs.empty:
        return undefined(
            "", "no contrast pair with outcomes of both members", ci_level=ci_level, n=0
        )
    per_pair = pairs.groupby("case_id")[measure].agg(["mean", "count"])
    return wilson_effective(
        per_pair["mean"].to_numpy(), attempts=per_pair["count"].to_numpy(), ci_level=ci_level
    )
