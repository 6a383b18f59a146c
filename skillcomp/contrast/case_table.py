"""The case table: attempts by case and condition, with missing attempts and worst-case bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skillcomp.errors import FrameError, literal, plural, suggest
from skillcomp.frames.clusters import both_clusters
from skillcomp.frames.contracts import AMOUNTS, CASE
from skillcomp.frames.estimates import (
    By,
    group_codes,
    grouped,
    listed,
    prepared,
    refuse_different_checks,
    refuse_ids_as_repeats,
    require_columns,
    require_reference,
)
from skillcomp.stats.bounded import Arm

Value = Literal["passed", "share_passed"]


Floats = NDArray[np.float64]


Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


MISSING_ATTEMPTS = "attempts missing"  # Start of a note that counts missing attempts.


WEIGHT = "case_weight"  # Name of the column with the case weights in a case table.


# Columns in which a table of deltas describes the missing attempts.
MISSING = [
    *("n_missing", "n_attempts", "n_missing_reference", "n_attempts_reference"),
    *("worst_low", "worst_high"),
]


# A note warns if the shares of missing attempts of two conditions differ by at least this much.
UNEQUAL_LOSS = 0.05


_OTHER_SIDE = {"baseline": "skill", "skill": "baseline"}


# A repeat counts as planned for all cases if it occurs in at least this number and this share of
# the cases.
_PLANNED_CASES, _PLANNED_SHARE = 2, 0.1


_NAMED = 3  # A note names at most this many cases.


def compared_outcomes(
    outcomes: pd.DataFrame,
    by: By,
    what: str,
    *,
    value: str = "passed",
    reference: str | None = None,
    average: Sequence[str] | None = None,
    agents: bool = True,
) -> pd.DataFrame:
    """Check outcomes for a comparison of conditions, and return them.

    Raise FrameError if ``value`` is neither ``passed`` nor ``share_passed``, if ``by`` contains
    the condition, or if the analysis would pool graders or (with ``agents``) agents. If there is a
    ``reference``, also raise FrameError if the reference has no rows or the conditions have
    different checks.
    """
    if value not in get_args(Value):
        words = [] if value in AMOUNTS else [*get_args(Value), *AMOUNTS]
        raise FrameError(
            f"value: found {literal(value)}; allowed: 'passed', 'share_passed', in deltas.rates "
            "and deltas.paired 'passed_own_words' and, in deltas.paired, 'score' of an outcomes "
            f"frame or, of an attempts frame, {', '.join(AMOUNTS[:-1])}."
            + suggest(str(value), words)
        )
    how: dict[str, Any] = {"compared": ["condition"], "average": average, "agents": agents}
    checked = prepared(outcomes, "outcomes", by, what, **how)
    require_reference(checked["condition"], reference)
    if reference is not None:
        refuse_different_checks(checked, what, value)
    return checked


def case_table(outcomes: pd.DataFrame, *, by: By = (), column: str | None = None) -> pd.DataFrame:
    """Aggregate checked outcomes to one row per ``by``, case and condition.

    The columns are those of :func:`attempt_cells`, then n (number of attempts with an outcome),
    n_passed, share (mean share of checks passed; NaN if no attempt has a share), n_shares (number
    of attempts with a share) and n_checks (largest number of checks of an attempt; NaN if no
    number is known). ``passed_low`` and ``passed_high`` bound the number of passes
    among the attempts without an outcome. ``share_low`` and ``share_high`` bound the sum of the
    shares of the attempts without a share.
    """
    table, code = attempt_cells(outcomes, listed(by), column)

    def totals(values: Any) -> Any:
        return np.bincount(code, weights=values, minlength=len(table))

    passed, share = outcomes["passed"], outcomes["share_passed"].to_numpy(dtype=np.float64)
    has_outcome, has_share = passed.notna().to_numpy(), ~np.isnan(share)
    n_shares, sums = totals(has_share), totals(np.where(has_share, share, 0.0))
    bounds = {}
    n_absent = table["size"] - totals(None)
    for name, value, present in (
        ("passed", "passed", has_outcome),
        ("share", "share_passed", has_share),
    ):
        low, high = attempt_bounds(outcomes, value)
        bounds[f"{name}_low"] = totals(np.where(present, 0.0, low))
        bounds[f"{name}_high"] = totals(np.where(present, 0.0, high)) + n_absent
    of_attempt = outcomes["n_checks"].to_numpy(dtype=np.float64, na_value=np.nan)
    n_checks = np.full(len(table), np.nan)
    np.fmax.at(n_checks, code, np.where(of_attempt > 0, of_attempt, np.nan))
    return table.assign(
        n_checks=n_checks,
        n=totals(has_outcome).astype(np.int64),
        n_passed=totals(passed.to_numpy(dtype=bool, na_value=False)),
        share=np.divide(sums, n_shares, out=np.full(len(sums), np.nan), where=n_shares > 0),
        n_shares=n_shares,
        **bounds,
    )


def attempt_bounds(outcomes: pd.DataFrame, value: str) -> tuple[Floats, Floats]:
    """Return the lowest and the highest possible value of each attempt, as two arrays.

    For the lowest value, checks without a verdict count as failed; for the highest, as passed. An
    attempt with a failed check cannot pass, so its highest value of ``passed`` is 0. If the number
    of checks is unknown, the bounds are 0 and 1. If checks have different weights, the bounds of
    ``share_passed`` are ``share_low`` and ``share_high`` of :func:`skillcomp.frames.outcomes`.
    """
    if value == "share_passed" and {"share_low", "share_high"} <= set(outcomes.columns):
        low, high = (outcomes[n].to_numpy(dtype=np.float64) for n in ("share_low", "share_high"))
        return np.nan_to_num(low, nan=0.0), np.nan_to_num(high, nan=1.0)
    n_checks, n_passed, n_missing = (
        outcomes[name].to_numpy(dtype=np.float64, na_value=np.nan)
        for name in ("n_checks", "n_passed", "n_missing")
    )
    n_checks = np.where(n_checks > 0, n_checks, np.nan)
    low, high = n_passed / n_checks, np.minimum((n_passed + n_missing) / n_checks, 1.0)
    if value == "passed":
        low, high = np.floor(low), np.floor(high)
    return np.nan_to_num(low, nan=0.0), np.nan_to_num(high, nan=1.0)


def attempt_cells(
    frame: pd.DataFrame, by: Sequence[str], column: str | None = None
) -> tuple[pd.DataFrame, Ints]:
    """Return a table with one row per cell, and the cell of each row of the frame.

    A cell is a combination of ``by``, case and condition; its number is the position of its row in
    the table. Columns: ``by``, skill, case_id, cluster (a number that linked cases share, see
    :func:`clusters_of`), cluster_by_name (the cluster if cases of the same name are the same task),
    condition, size and absent.

    ``size`` is the number of expected attempts: those in the frame, and the planned repeats that
    are missing. A repeat counts as planned for all cases of a skill under a condition if at least
    two of these cases, and at least a tenth of them, have it.

    ``absent`` is True in rows that were added. A row is added if a case has rows under only one of
    baseline and skill, and other cases have rows under the other condition. Normally the other
    cases may be of any skill. If a column of ``by``, except the agent, differs within a case, they
    must have the same skill and the same values in ``by``.
    """
    names = list(dict.fromkeys([*by, *CASE, "cluster", "cluster_by_name", "condition"]))
    cluster, by_name = both_clusters(frame, None, column)
    keyed = frame.assign(cluster=cluster, cluster_by_name=by_name)[names].reset_index(drop=True)
    code, first = group_codes(keyed, [name for name in names if not name.startswith("cluster")])
    table = keyed.take(first).reset_index(drop=True)
    refuse_ids_as_repeats(frame, by)
    n_lacking = _absent_repeats(table, by, code, frame["repeat"])
    table = table.assign(size=np.bincount(code) + n_lacking, absent=False)
    sides = table[table["condition"].isin(list(_OTHER_SIDE))]
    alone = sides[~sides.duplicated([*by, *CASE], keep=False)]
    if alone.empty:
        return table, code
    absent = alone.drop(columns="size").assign(
        condition=alone["condition"].map(_OTHER_SIDE).astype("str"), absent=True
    )
    keys = list(dict.fromkeys([*by, "skill", "condition"]))
    planned = grouped(sides, keys)["size"].agg(_planned_size).reset_index()
    absent = absent.merge(planned, on=keys, how="left")
    facts = [name for name in by if name not in ("skill", "agent")]
    if not facts or grouped(table, CASE)[facts].nunique(dropna=False).le(1).all(axis=None):
        anywhere = grouped(sides, ["condition"])["size"].agg(_planned_size)
        absent["size"] = absent["size"].fillna(absent["condition"].map(anywhere))
    absent = absent[absent["size"].notna()].astype({"size": table["size"].dtype})
    return pd.concat([table, absent], ignore_index=True), code


def _planned_size(sizes: pd.Series) -> int:
    least = max(_PLANNED_CASES, math.ceil(_PLANNED_SHARE * len(sizes) - 1e-9))
    return int(np.sort(sizes.to_numpy())[-min(least, len(sizes))])


def _absent_repeats(table: pd.DataFrame, by: Sequence[str], code: Ints, repeat: pd.Series) -> Ints:
    group = group_codes(table, list(dict.fromkeys([*by, "skill", "condition"])))[0]
    number, numbers = pd.factorize(repeat)
    numbered, k = number >= 0, max(len(numbers), 1)
    own = pd.unique(code[numbered] * k + number[numbered])
    every, n_cases = np.unique(group[own // k] * k + own % k, return_counts=True)
    n_groups = int(group.max(initial=-1)) + 1
    # if only few cases have a repeat, it was not planned for all: these few were tried more often
    least = np.maximum(_PLANNED_CASES, _PLANNED_SHARE * np.bincount(group, minlength=n_groups))
    planned = every[n_cases >= least[every // k] - 1e-9]
    n_planned = np.bincount(planned // k, minlength=n_groups)[group]
    made = own[np.isin(group[own // k] * k + own % k, planned)]
    return np.asarray(n_planned - np.bincount(made // k, minlength=len(table)), dtype=np.int64)


def with_weights(table: pd.DataFrame, outcomes: pd.DataFrame, weight: str | None) -> pd.DataFrame:
    """Add the case weights to a case table; ``weight`` is the name of their column in outcomes."""
    if weight is None:
        return table
    require_columns(outcomes, [weight], "weight=")
    numbers = pd.to_numeric(outcomes[weight], errors="coerce").astype("float64")
    wrong = ~(numbers.gt(0) & np.isfinite(numbers)).to_numpy(dtype=bool)
    if wrong.any():
        first = outcomes[wrong].iloc[0]
        raise FrameError(
            f"weight=: case '{first['case_id']}' has the weight {first[weight]!r}; allowed: a "
            "number above 0."
        )
    weights = outcomes[CASE].assign(**{WEIGHT: numbers}).drop_duplicates()
    twice = weights[weights.duplicated(CASE)]
    if len(twice):
        raise FrameError(f"weight=: case '{twice['case_id'].iloc[0]}' has more than one weight.")
    return table.merge(weights, on=CASE, how="left", validate="m:1")


def level_of(table: pd.DataFrame, value: str) -> pd.Series:
    """Return each row's share of attempts passed or, for ``share_passed``, of checks passed."""
    if value == "passed":
        return table["n_passed"] / table["n"].where(table["n"] > 0)
    return table["share"]


def arms_of(sides: Sequence[tuple[Any, ...]], *, is_share: bool) -> tuple[Arm, ...]:
    """Return the arms of a contrast (see :class:`skillcomp.stats.bounded.Arm`), one per side.

    A side is a tuple: rates, attempts, numbers of checks, sign and, if the rates are means over
    agents, how mixed the outcomes are. If the values are shares and a side has no known number of
    checks, the result is empty: nothing then shows whether outcomes are mixed within a case. If
    only some numbers are unknown, the smallest known number of the side replaces them.
    """
    arms = []
    for rates, attempts, checks, sign, *mixed in sides:
        if not is_share:
            arms.append(Arm(rates, attempts, sign, None, *mixed))
            continue
        n_checks = pd.Series(np.asarray(checks, float))
        if n_checks.isna().all():
            return ()
        arms.append(Arm(rates, None, sign, n_checks.fillna(n_checks.min()).to_numpy(), *mixed))
    return tuple(arms)


def missing_note(
    counts: Sequence[float],
    names: Sequence[str] = ("the condition", "the reference"),
    what: str = MISSING_ATTEMPTS,
) -> tuple[str, str]:
    """Return a note that counts missing attempts, and a warning if their shares differ.

    ``counts`` holds two numbers for each condition in ``names``: its missing attempts and all its
    attempts. If a name is empty, the note gives only the numbers.
    """
    sides = [(int(n), int(size)) for n, size in zip(counts[::2], counts[1::2], strict=True)]
    if not any(n for n, _ in sides):
        return "", ""
    texts = [
        f"{n} of {size}{f' under {name}' if name else ''}"
        for (n, size), name in zip(sides, names, strict=True)
    ]
    shares = [n / size for n, size in sides if size]
    unequal = max(shares) - min(shares) >= UNEQUAL_LOSS - 1e-9
    warning = "their shares differ: if they are unlike the others, the delta is biased"
    return f"{what}: {', '.join(texts)}", warning if unequal else ""


def case_labels(table: pd.DataFrame) -> pd.Series:
    """Return a label for each row: case_id or, if skills share a case_id, skill and case_id."""
    names = table["case_id"].astype("str")
    if not table[CASE].drop_duplicates()["case_id"].duplicated().any():
        return names
    return table["skill"].astype("str") + "/" + names


def first_names(names: NDArray[Any]) -> str:
    """Return the number of distinct cases and the labels of the first few, for a note."""
    names = np.unique(names)
    more = ", ..." if len(names) > _NAMED else ""
    return f"{plural(len(names), 'case')} ({', '.join(map(str, names[:_NAMED]))}{more})"


def means_of_cases(
    rows: pd.DataFrame, columns: Sequence[str], average: Sequence[str]
) -> tuple[pd.DataFrame, str]:
    """Average ``columns`` within each case, over the values of ``average``; also return a note.

    ``n`` and ``n_checks`` are the smallest values of the case, so that copied rows do not change an
    interval. If ``average`` is empty, the rows are unchanged and the note is empty.
    """
    if not average:
        return rows, ""
    case, combination = (group_codes(rows, names)[0] for names in (CASE, average))
    how = {name: "mean" if name in columns else "first" for name in rows.columns.drop(CASE)}
    counts = [n for n in rows.columns if n.removesuffix("_of_reference") in ("n", "n_checks")]
    how |= dict.fromkeys(counts, "min")
    means = rows.groupby(CASE, sort=False, dropna=False).agg(how).reset_index()
    return means, average_note(case, combination, average)


def average_note(case: Ints, combination: Ints, average: Sequence[str]) -> str:
    """Return a note on averaging within cases; it counts the cases that lack some of the values.

    ``case`` and ``combination`` have one number per entry: its case, and its combination of values
    in ``average``. The note is empty if there is only one combination.
    """
    n_values, counts = len(pd.unique(combination)), np.bincount(case)
    n_short = int((counts[counts > 0] < n_values).sum())
    short = f"; {plural(n_short, 'case')} without some of them" if n_short else ""
    if n_values < 2:
        return ""
    several = f"{n_values} {average[0]}s"
    if len(average) > 1:
        several = f"{n_values} combinations of {' and '.join(average)}"
    return f"averaged over {several} within each case{short}"
