"""The contrast engine: weighted sums of arm means in the case, over the cases with all arms.

`within` estimates such a sum, `between` compares it in two groups of cases, such as near and far.

The case table counts the attempts of each case and condition, with missing attempts, worst-case
bounds and weights. An arm is a condition, or a level of another column under a condition. A rate is
a contrast with one arm, a delta has two arms, and an interaction has four.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, Self, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skillcomp.errors import FrameError, argument, literal, plural, suggest
from skillcomp.frames.check import as_list, check_cluster
from skillcomp.frames.contracts import AMOUNTS, CASE, NAMED_REPEATS, PLANNED
from skillcomp.frames.estimates import (
    GRADER,
    PLACEBO,
    SOME_STOPPED,
    By,
    Ints,
    clusters_of,
    group_codes,
    grouped,
    is_among,
    listed,
    n_distinct,
    ordered,
    prepared,
    refuse_different_checks,
    refuse_ids_as_repeats,
    require_columns,
    require_reference,
    with_case_facts,
    with_cautions,
)
from skillcomp.frames.outcomes import Checks, check_sets
from skillcomp.stats.bounded import (
    DELTAS,
    RATES,
    Arm,
    IntervalRule,
    Quantity,
    Sample,
    bounded_means,
    mixed_of_case,
    share_mixed,
)
from skillcomp.stats.clusters_and_amounts import FEWEST_ROWS, p_of_rows
from skillcomp.stats.gaps import bounded_slope, standardised_gap
from skillcomp.stats.repeats import FEWEST_RUNS, for_other_runs
from skillcomp.stats.results import Fields, Floats, Interval, is_number, join_notes, undefined
from skillcomp.stats.significance_and_grader_errors import clustered_midp

Value = Literal["passed", "share_passed"]
BoundedValue = Literal["passed", "share_passed", "score"]
Bounds = tuple[float, float] | None


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

_NAMED = 3  # A note names at most this many cases.

# Attempts were retries if at least this number of cases has several, and this share stopped at the
# first pass (at most 1.4 % of random studies look so).
_RETRIED_CASES, _RETRIED_SHARE = 3, 0.9


def compared_outcomes(
    outcomes: pd.DataFrame,
    by: By,
    what: str,
    *,
    value: str = "passed",
    bounds: Bounds = None,
    reference: str | None = None,
    average: Sequence[str] | None = None,
    agents: bool = True,
) -> pd.DataFrame:
    """Check outcomes for a comparison of conditions, and return them.

    Raise FrameError if ``value`` is neither ``passed`` nor ``share_passed`` nor, with ``bounds``,
    ``score``; if ``by`` contains the condition, or if the analysis would pool graders or (with
    ``agents``) agents. If there is a ``reference``, also raise FrameError if the reference has no
    rows or the conditions have different checks.
    """
    check_bounds(outcomes, value, bounds)
    how: Fields = {"compared": ["condition"], "average": average, "agents": agents}
    checked = prepared(outcomes, "outcomes", by, what, **how)
    require_reference(checked["condition"], reference)
    if reference is not None:
        refuse_different_checks(checked, what, value)
    return checked


_ALLOWED = "the lowest and the highest score that an attempt can have, such as 1 and 5"


def ends_of(value: str, bounds: Bounds) -> tuple[float, float]:
    """Return the lowest and the highest value; scores, and only scores, need bounds."""
    if value != "score":
        if bounds is not None:
            found = f"only scores have bounds; found value='{value}'"
            raise FrameError(f"{argument('bounds')}: {found}.")
        return 0.0, 1.0
    if bounds is None:
        missing = f"{argument('value', 'score')}: {argument('bounds')} is missing"
        raise FrameError(f"{missing}; give {_ALLOWED}.")
    ends = tuple(as_list(bounds))
    if len(ends) != 2 or not all(map(is_number, ends)) or not 0 < ends[1] - ends[0] < math.inf:
        raise FrameError(f"{argument('bounds')}: found {bounds!r}; allowed: {_ALLOWED}.")
    return ends[0], ends[1]


def check_bounds(outcomes: pd.DataFrame, value: str, bounds: Bounds) -> tuple[float, float]:
    """Return the ends of a value; raise FrameError if it is unknown, or if a score is outside."""
    ends = ends_of(value, bounds)
    if value not in get_args(BoundedValue):
        words = [] if value in AMOUNTS else [*get_args(BoundedValue), *AMOUNTS]
        raise FrameError(
            f"value: found {literal(value)}; allowed: 'passed', 'share_passed', 'score' with "
            "bounds= and, in deltas.rates and deltas.paired, 'passed_own_words'. Amounts of an "
            f"attempts frame are for deltas.paired: {', '.join(AMOUNTS[:-1])}."
            + suggest(str(value), words)
        )
    if value != "score":
        return ends
    require_columns(outcomes, ["score"], "value=")
    least, most = outcomes["score"].min(), outcomes["score"].max()
    if least < ends[0] or most > ends[1]:
        found = f"found {ends}, but scores run from {least:g} to {most:g}"
        raise FrameError(f"{argument('bounds')}: {found}; allowed: {_ALLOWED}.")
    return ends


def case_table(
    outcomes: pd.DataFrame,
    *,
    by: By = (),
    weight: str | None = None,
    value: str = "passed",
    bounds: Bounds = None,
) -> pd.DataFrame:
    """Aggregate checked outcomes to one row per ``by``, case and condition.

    The columns are those of :func:`level_table`, then those of ``_NUMBERS`` that are known of the
    value: ``_low`` and ``_high`` are the mean if all attempts without a value have their lowest
    or highest possible one, ``_n_checks`` is the largest number of checks of an attempt, and
    ``_retried`` and ``_first`` are those of :func:`_with_retries`. Scores between ``bounds``
    become numbers from 0 to 1.
    """
    lowest, highest = ends_of(value, bounds)
    values = (outcomes[value].to_numpy(float) - lowest) / (highest - lowest)
    table, code = attempt_cells(outcomes, listed(by))
    table = _with_runs(_with_retries(table, code, outcomes), code, outcomes, value)
    table = _with_levels(table, code, values)

    def totals(numbers: Any) -> Any:
        return np.bincount(code, weights=numbers, minlength=len(table))

    ends: Any = (0.0, 1.0) if value == "score" else attempt_bounds(outcomes, value)
    low, high = (totals(np.where(np.isnan(values), end, values)) for end in ends)
    n, level, squares = table["_n"], table["_level"], table["_level"]
    if value == "score":  # the first attempts are known by their passes only
        squares = totals(np.nan_to_num(values) ** 2) / n.where(n > 0)
        table["_first"] = np.nan
    of_attempt = outcomes["n_checks"].to_numpy(float)
    n_checks = np.full(len(table), np.nan)
    np.fmax.at(n_checks, code, np.where(of_attempt > 0, of_attempt, np.nan))
    table = table.assign(
        is_scored=totals(outcomes["score"].notna() & outcomes["passed"].isna()) > 0,
        _mixed=mixed_of_case(level, None if value == "share_passed" else n, squares),
        _squares=squares,
        _fewest=n,
        _n_checks=n_checks,
        _low=low / table["size"],
        _high=(high + table["size"] - totals(None)) / table["size"],
    )
    return _with_weights(table, outcomes, weight)


def _with_retries(table: pd.DataFrame, code: Ints, outcomes: pd.DataFrame) -> pd.DataFrame:
    """Recognise attempts that were repeated until one passed, and keep the first attempts.

    Under a condition, attempts were retries if at least three cases have more than one attempt and
    in nine of ten of these the last attempt passes and all before it fail. Attempts are in the
    order of their repeats or, without these, of their rows. ``_retried`` is True for a case that
    stopped at its first pass under such a condition. ``_first`` is 1 if the first attempt passed,
    under all conditions; it is NaN in a study without retries. Nothing was planned beyond the
    attempts of such a study, so none is missing.
    """
    passed = outcomes["passed"].to_numpy(float)
    repeat = outcomes["repeat"].to_numpy(float, na_value=0.0)
    order = np.lexsort((repeat, code))
    cells, start, n_rows = np.unique(code[order], return_index=True, return_counts=True)
    n_passed = np.bincount(code, passed)[cells]  # NaN if an outcome is missing
    stopped = (n_passed == 1) & (passed[order[start + n_rows - 1]] == 1)
    condition = pd.factorize(table["condition"])[0][cells]
    n_several, n_stopped = (np.bincount(condition, n) for n in (n_rows > 1, stopped & (n_rows > 1)))
    retried = (n_several >= _RETRIED_CASES) & (n_stopped >= _RETRIED_SHARE * n_several - 1e-9)
    table = table.assign(_retried=False, _first=np.nan)
    if retried.any():
        table.loc[cells, "_retried"] = stopped & retried[condition]
        table.loc[cells, "_first"] = passed[order[start]]
        table.loc[cells, "size"] = n_rows
    return table


def _with_runs(table: pd.DataFrame, code: Ints, outcomes: pd.DataFrame, value: str) -> pd.DataFrame:
    """Add the value of each repeat to the rows of a case table, if the repeats have names."""
    if NAMED_REPEATS not in outcomes:
        return table
    named = outcomes[NAMED_REPEATS].eq(True) & outcomes["repeat"].notna()
    repeat, names = pd.factorize(outcomes["repeat"].where(named), sort=True)
    if len(names) < FEWEST_RUNS:
        return table
    runs = np.full((len(table), len(names)), np.nan)
    values = outcomes[value].to_numpy(float)
    runs[code[repeat >= 0], repeat[repeat >= 0]] = values[repeat >= 0]
    return table.join(pd.DataFrame(runs, table.index).add_prefix(f"_{value} "))


def level_table(frame: pd.DataFrame, values: pd.Series, *, by: Sequence[str]) -> pd.DataFrame:
    """Average values of attempts, such as seconds, to one row per ``by``, case and condition.

    The columns are those of :func:`attempt_cells`, then ``_level``, ``_n``, ``_size`` and
    ``_absent``, see :meth:`Units.of`, and ``_zeros``, the number of attempts with the value 0.
    """
    table, code = attempt_cells(frame, by)
    zeros = np.bincount(code, weights=values.eq(0), minlength=len(table))
    return _with_levels(table, code, values.to_numpy(float)).assign(_zeros=zeros)


def _with_levels(table: pd.DataFrame, code: Ints, values: Floats) -> pd.DataFrame:
    """Add the mean of the known values to each cell, and how many there are and should be."""
    sums, n = (
        np.bincount(code, weights=weights, minlength=len(table))
        for weights in (np.nan_to_num(values), ~np.isnan(values))
    )
    level = np.where(n > 0, sums / np.maximum(n, 1), np.nan)
    return table.assign(_level=level, _n=n, _size=table["size"], _absent=table["absent"])


def attempt_bounds(outcomes: pd.DataFrame, value: str) -> tuple[Floats, Floats]:
    """Return the lowest and the highest possible value of each attempt, as two arrays.

    For the lowest value, checks without a verdict count as failed; for the highest, as passed. An
    attempt with a failed check cannot pass, so its highest value of ``passed`` is 0. If the number
    of checks is unknown, the bounds are 0 and 1. If checks have different weights, the bounds of
    ``share_passed`` are ``share_low`` and ``share_high`` of :func:`skillcomp.frames.outcomes`.
    """
    if value == "share_passed" and {"share_low", "share_high"} <= set(outcomes.columns):
        low, high = (outcomes[n].to_numpy(float) for n in ("share_low", "share_high"))
    else:
        n_checks, n_passed, n_missing = (
            outcomes[name].to_numpy(float) for name in ("n_checks", "n_passed", "n_missing")
        )
        n_checks = np.where(n_checks > 0, n_checks, np.nan)
        low, high = n_passed / n_checks, np.minimum((n_passed + n_missing) / n_checks, 1.0)
    if value == "passed":
        low, high = np.floor(low), np.floor(high)
    return np.nan_to_num(low, nan=0.0), np.nan_to_num(high, nan=1.0)


def attempt_cells(frame: pd.DataFrame, by: Sequence[str]) -> tuple[pd.DataFrame, Ints]:
    """Return a table with one row per cell, and the cell of each row of the frame.

    A cell is a combination of ``by``, case and condition; its number is the position of its row in
    the table. Columns: ``by``, skill, case_id, cluster (see :func:`skillcomp.frames.clusters_of`),
    condition, size, absent and alone.

    ``size`` is the number of expected attempts: those in the frame, and those that are missing. If
    the attempts have a plan (column ``PLANNED``), nothing else was expected. Otherwise the plan of
    a skill is the one that explains the numbers with the fewest losses (:func:`missing_attempts`).

    ``alone`` is True in rows of cases without a plan that have rows under only one of baseline and
    skill. ``absent`` is True in rows that were added for the other condition. They are added unless
    most cases are alone: then the arms have different cases, or the study is unfinished. Other
    cases must have rows under this condition. Normally these may be of any skill. If a column of
    ``by``, except the agent, differs within a case, they must have the same skill and the same
    values.
    """
    names = listed([*by, *CASE, "cluster", "condition"])
    keyed = frame.assign(cluster=clusters_of(frame, by=by))[names].reset_index(drop=True)
    code, first = group_codes(keyed, [name for name in names if name != "cluster"])
    table = keyed.take(first).reset_index(drop=True)
    refuse_ids_as_repeats(frame, by)
    table = table.assign(size=np.bincount(code), absent=False, alone=False)
    guessed = np.ones(len(table), bool)
    if PLANNED in frame:
        guessed = ~frame[PLANNED].eq(True).to_numpy(bool, na_value=False)[first]
    # a fact of the case does not divide its plan
    n_cases = len(group_codes(table, CASE)[1])
    plan = [
        name
        for name in dict.fromkeys(by)
        if name not in (*CASE, "condition") and len(group_codes(table, [*CASE, name])[1]) > n_cases
    ]
    unit = group_codes(table, [*plan, *CASE])[0]
    is_side = table["condition"].isin(list(_OTHER_SIDE)).to_numpy() & guessed
    table["alone"] = is_side & (np.bincount(unit, is_side)[unit] == 1)
    if table["alone"].any():
        absent = _absent_cells(table, plan, is_side)
        table = pd.concat([table, absent], ignore_index=True)
        guessed = np.append(guessed, absent["absent"])
    if guessed.any():
        table.loc[guessed, "size"] += _lacking_attempts(table[guessed], plan)
    return table, code


def _absent_cells(table: pd.DataFrame, plan: Sequence[str], is_side: Any) -> pd.DataFrame:
    """Return the missing cells of cases with rows under only one of baseline and skill."""
    same = [*plan, "skill"] if set(plan) - {"agent"} else []
    place = group_codes(table, same)[0]
    alone = table["alone"].to_numpy()
    # a case has one or two sides: most are alone if more than a third of all sides belong to one
    is_most = 3 * np.bincount(place, alone) > np.bincount(place, is_side)
    absent = table[alone & ~is_most[place]].assign(size=0, absent=True, alone=False)
    absent["condition"] = absent["condition"].map(_OTHER_SIDE).astype("str")
    return absent[is_among(absent, table, [*same, "condition"])]


def _lacking_attempts(cells: pd.DataFrame, plan: Sequence[str]) -> Ints:
    """Return the number of missing attempts of each cell; each skill has a plan of its own."""
    unit, first = group_codes(cells, [*plan, *CASE])
    condition, first_of_condition = group_codes(cells, ["condition"])
    made = np.full((len(first), len(first_of_condition)), -1)
    made[unit, condition] = cells["size"]
    group, first_of_group = group_codes(cells.take(first), [*plan, "skill"])
    lacking = np.zeros_like(made)
    # where all cells have equal numbers, nothing is missing: most skills of most studies
    usual = made.max(axis=1)[first_of_group][group]
    is_equal = ((made == usual[:, None]) | (made < 0)).all(axis=1)
    for number in np.unique(group[~is_equal]):
        rows = np.flatnonzero(group == number)
        used = np.flatnonzero((made[rows] >= 0).any(axis=0))
        lacking[np.ix_(rows, used)] = missing_attempts(made[np.ix_(rows, used)])
    return lacking[unit, condition]


def missing_attempts(made: Ints) -> Ints:
    """Return how many attempts each case lacks under each condition (STATISTICS, H6).

    The plan is the one that explains the numbers with the fewest losses. It gives each case a whole
    number of rounds. A round has one attempt under each condition or, if this explains the numbers
    much better, a pattern of attempts that a case shows. Cases with few rounds under all conditions
    were planned so, unless losses by chance would leave as many of them.

    ``made`` has one row per case and one column per condition; -1 where nothing was asked.
    """
    rows, of_case, n_cases = np.unique(made, axis=0, return_inverse=True, return_counts=True)
    asked, n = rows >= 0, np.maximum(rows, 0)
    ones = np.ones(n.shape[1], np.int64)

    def lost(pattern: Ints) -> int:
        rounds = np.ceil(n / pattern).max(axis=1, keepdims=True)
        return int(n_cases @ ((rounds * pattern - n) * asked).sum(axis=1))

    patterns = np.vstack([n, n.max(axis=0)])
    patterns = patterns[(patterns > 0).all(axis=1)]
    patterns = np.unique(patterns // np.gcd.reduce(patterns, axis=1)[:, None], axis=0)
    pattern = min(patterns, key=lost, default=ones)
    if lost(pattern) >= 0.7 * lost(ones):
        pattern = ones
    rounds = np.ceil(n / pattern).max(axis=1).astype(np.int64)
    lacks = (rounds[:, None] * pattern > n) & asked
    usual = np.bincount(rounds, n_cases).argmax()
    is_uneven = lacks.any(axis=1)
    is_few = ~is_uneven & (rounds < usual)
    by_chance = n_cases.sum() * ((n_cases @ lacks) / (n_cases @ asked)).prod()
    if n_cases @ is_few <= 3 * by_chance:
        rounds = np.where(is_few | is_uneven, np.maximum(rounds, usual), rounds)
    lacking: Ints = np.where(asked, rounds[:, None] * pattern - n, 0)
    return lacking[of_case]


def verdict_table(
    verdicts: pd.DataFrame,
    cases: pd.DataFrame | None,
    *,
    by: Sequence[str],
    checks: Checks,
    cluster: str,
    weight: str | None,
    what: str,
    compares: bool = True,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Keep the verdicts on checks that count, and add columns of the case table to each.

    The columns are cluster, n_checks (number of checks of the attempt) and, if cases are weighted,
    ``case_weight``. ``verdicts`` has a column ``verdict``: 1, 0 or NaN. With ``compares``,
    different checks under several conditions are refused. The second result is a frame with notes
    on the attempts, for :func:`skillcomp.frames.estimates`.
    """
    check_cluster(cluster)
    rows = with_case_facts(verdicts, cases, [weight])
    rows["cluster"] = clusters_of(rows, cases, by=by)
    inside = [name for name in by if name not in (*CASE, "condition", "agent", "repeat")]
    graded = listed([*GRADER, *inside])
    attempt = [*CASE, "condition", "attempt_id"]
    code, first = group_codes(rows, listed([*attempt, *graded]))
    keys = rows.take(first).reset_index(drop=True)
    sets = check_sets(
        rows,
        code,
        keys,
        group_codes(keys, graded)[0],
        failed=rows["verdict"].eq(0).to_numpy(),
        n_listed=np.zeros(len(keys)),
        checks=checks,
        what=what,
    )
    outcomes = with_cautions(keys.assign(checks_differ=sets.differ, note=sets.note), rows)
    if compares:
        refuse_different_checks(outcomes, what)
    if sets.stopped.sum() > SOME_STOPPED * len(keys):
        raise FrameError(
            f"{what}: the grader stopped at the first fail in "
            f"{plural(int(sets.stopped.sum()), 'attempt')}, so that gold on their other checks is "
            "unknown and a correction would rest on a selection. Grade every check."
        )
    rows = _with_weights(rows.assign(n_checks=sets.n_checks[code]), rows, weight)
    return rows[sets.counted].reset_index(drop=True), outcomes


def _with_weights(table: pd.DataFrame, outcomes: pd.DataFrame, weight: str | None) -> pd.DataFrame:
    """Add the case weights to a case table; ``weight`` is the name of their column in outcomes."""
    if weight is None:
        return table
    require_columns(outcomes, [weight], "weight=")
    numbers = pd.to_numeric(outcomes[weight], errors="coerce").astype("float64")
    wrong = ~(numbers.gt(0) & np.isfinite(numbers)).to_numpy(bool)
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


def arms_of(sides: Sequence[tuple[Any, ...]], *, is_share: bool) -> tuple[Arm, ...]:
    """Return the arms of a contrast (see :class:`skillcomp.stats.bounded.Arm`), one per side.

    A side is a tuple: rates, attempts, numbers of checks, sign and, if the rates are means over
    agents, how mixed the outcomes are; for scores also their mean squares. If the values are shares
    and a side has no known number of checks, or if all numbers of attempts are unknown, the result
    is empty: nothing then shows whether outcomes are mixed within a case. If only some numbers of
    checks are unknown, the smallest known number of the side replaces them.
    """
    arms = []
    for rates, attempts, checks, sign, *mixed in sides:
        if not is_share:
            if len(attempts) and pd.isna(attempts).all():
                return ()
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


def lost_attempts(
    sides: Iterable[pd.DataFrame], names: Sequence[str] = ("the condition", "the reference")
) -> str:
    """Return a note on the attempts without a value, for one or two conditions.

    Each table has the columns size (number of attempts) and n (number of those with a value).
    """
    both = [table[["size", "n"]].sum() for table in sides]
    counts = [n for s in both for n in (s["size"] - s["n"], s["size"])]
    return join_notes(*missing_note(counts, names[: len(both)]))


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


ONE_SKILL = "one skill says nothing of skills in general; use cluster='case'"

# With fewer skills than this, no estimate is about skills in general (STATISTICS, rule 4).
MIN_SKILLS = 5

# For each number of skills, the smallest delta whose interval excludes 0 in nine of ten studies.
# `make validate` computes it for ten cases per skill, three attempts per case, and deltas of skills
# with a standard deviation of 25 points.
AVAILABLE_DELTAS = {
    5: 0.64, 6: 0.51, 7: 0.46, 8: 0.41, 9: 0.38, 10: 0.35, 12: 0.33, 15: 0.29, 20: 0.24, 25: 0.21,
    30: 0.20,
}  # fmt: skip


def few_skills(n_skills: int) -> str:
    """Return a note if an estimate about skills in general needs more skills, otherwise ""."""
    if n_skills == 1:
        return ONE_SKILL
    if n_skills < MIN_SKILLS:
        return (
            f"{n_skills} skills are too few to speak of skills in general (at least {MIN_SKILLS})"
        )
    return ""


def claim(
    skill: Any, clusters: Any, cluster: str, *, delta: bool = False, rule: IntervalRule = "adaptive"
) -> tuple[NDArray[Any], str]:
    """Return the cluster of each case, and a note on the cases or skills the estimate is about.

    If ``cluster`` is ``"skill"`` and there are at least five skills, each skill is a cluster;
    otherwise the clusters are ``clusters``. With ``"skill"`` and a single skill the note is
    ``ONE_SKILL``, because an estimate about skills in general is impossible. If each skill is a
    cluster, a delta over up to 30 skills, computed with the adaptive ``rule``, has a note with the
    smallest delta that this number of skills can show (``AVAILABLE_DELTAS``).
    """
    check_cluster(cluster)
    cases = np.asarray(clusters)
    if cluster != "skill" and not delta:
        return cases, ""
    skills = np.asarray(skill)
    n_skills = n_distinct(skills)
    if cluster != "skill" or not n_skills:
        return cases, f"cases of these {n_skills} skills" if delta and n_skills > 1 else ""
    if few := few_skills(n_skills):
        return cases, few if n_skills == 1 else f"these cases only: {few}"
    if delta and rule == "adaptive" and n_skills <= max(AVAILABLE_DELTAS):
        shown = AVAILABLE_DELTAS[max(n for n in AVAILABLE_DELTAS if n <= n_skills)]
        return skills, (
            f"{n_skills} skills can show {100 * shown:.0f} points in 9 of 10 studies (ten cases of "
            "three attempts each, deltas that differ by 25 points)"
        )
    return skills, ""


def claimed(interval: Interval, note: str, nothing: str, *more: str) -> Interval:
    """Add the note of :func:`claim` to an interval; with ``ONE_SKILL``, the interval becomes NaN.

    If the interval has no cases, its note is the text in ``nothing`` instead. The texts in ``more``
    are added only to an interval with an estimate.
    """
    if note == ONE_SKILL:
        return undefined("", note, ci_level=interval.ci_level, n=interval.n)
    if not interval.n:
        return replace(interval, note=nothing)
    return replace(interval, note=join_notes(interval.note, note, *more))


def changes_over_items(
    tables: Sequence[pd.DataFrame],
    *,
    ci_level: float,
    interval: IntervalRule = "adaptive",
) -> list[Interval]:
    """Estimate how much more often new verdicts pass than old ones on the same items.

    A table has one row per item: the columns ``new`` and ``old`` (0 or 1, or scores from 0 to 1),
    and ``cluster``. Items have equal weight. The interval is that of
    :func:`skillcomp.stats.bounded.bounded_mean`, see
    :meth:`skillcomp.stats.bounded.Sample.of_items`. The p-value is that of
    :func:`skillcomp.stats.significance_and_grader_errors.clustered_midp` or, if a cluster has
    several items, that of the interval if it is larger. For scores, it is that of the interval.
    ``n`` counts items.
    """
    samples = [
        Sample.of_items(*(items[name].to_numpy() for name in ("new", "old", "cluster")))
        for items in tables
    ]
    how: Fields = {"quantity": DELTAS, "null": 0.0, "ci_level": ci_level}
    changes = []
    for items, mean in zip(tables, bounded_means(samples, **how, interval=interval), strict=True):
        new, old = items["new"], items["old"]
        if not items[["new", "old"]].isin([0.0, 1.0]).all(axis=None):
            changes.append(replace(mean, n=float(len(items))))
            continue
        test = clustered_midp(new > old, new < old, items["cluster"])
        p_value, method = test.p_value, test.method
        if items["cluster"].duplicated().any():
            p_value = float(np.fmax(p_value, mean.p_value))
            method = f"at least that of {method}"
        method = f"{mean.method}; p: {method}"
        changes.append(replace(mean, p_value=p_value, method=method, n=float(len(items))))
    return changes


Facts = dict[str, NDArray[Any]]
ArmKey = tuple[Any, ...]  # The values of the arm columns, such as ("skill",).
# Numbers of a unit in an arm: mean value; how mixed the outcomes are; smallest number of attempts
# and of checks among the rows that were averaged; attempts with a value; expected attempts; bounds
# of the mean value, whatever the missing attempts would have shown; 1 if there is no row; place of
# the row in the table; 1 if the attempts stopped at the first pass; value of the first attempt in a
# study of such attempts; attempts with the value 0. For scores, `squares` is the mean of their
# squares.
_NUMBERS = (
    *("level", "mixed", "squares", "fewest", "n_checks", "n", "size", "low", "high", "absent"),
    *("row", "retried", "first", "zeros"),
)
# In a table their names begin with an underscore, because a column of `by` may be called level.
_MEANS = ("_level", "_mixed", "_squares", "_low", "_high", "_retried", "_first")
_SUMS = ("_n", "_size")
_LEAST = ("_fewest", "_n_checks")


@dataclass(frozen=True)
class Contrast:
    """A weighted sum of arms in one group.

    Attributes
    ----------
    about : dict
        The columns that identify the row of the result.
    group : int
        Number of the group, see :attr:`Units.groups`.
    weights : dict of tuple to float
        The weight of each arm.
    sides : tuple of str
        Names of the sides, for notes. Missing attempts are counted by side, and arm j belongs to
        side j modulo the number of sides.
    nothing : str
        Note of a contrast without complete units.
    note : str
        A further note.
    """

    about: Fields
    group: int
    weights: Mapping[ArmKey, float]
    sides: tuple[str, ...] = ("",)
    nothing: str = "no case has an outcome in every compared cell"
    note: str = ""


@dataclass(frozen=True)
class Estimate:
    """The result of a contrast.

    Attributes
    ----------
    interval : Interval
        Estimate and limits, with all notes.
    levels : list of float
        Mean value of each arm over the complete units.
    n_dropped : int
        Number of cases with rows in an arm, but without a value in one of the arms.
    missing : list of int
        Numbers of missing attempts and of expected attempts, side by side.
    worst : list of float
        The lowest and the highest value of the contrast, whatever the missing attempts would have
        shown, over the units with rows in all arms.
    """

    interval: Interval
    levels: list[float]
    n_dropped: int
    missing: list[int]
    worst: list[float]


@dataclass(frozen=True)
class Units:
    """The units of a table and their numbers in each arm.

    A unit is a case in a group or, if columns are averaged, a case with one combination of their
    values. Units are sorted by group.

    Attributes
    ----------
    facts : dict of str to ndarray
        One entry per unit: numbers of its case, of its skill and of its combination of averaged
        values, cluster, label and, if cases are weighted, the weight.
    groups : list of dict
        The values of ``by`` in each group.
    arms : list of tuple
        The arms, in the order in which they first appear.
    numbers : dict of str to ndarray, shape (units, arms)
        One array for each name in ``_NUMBERS``; NaN if the unit has no row in the arm.
    start : ndarray of int
        Position of the first unit of each group, and the number of units.
    average : list of str
        Columns that are averaged within the case.
    value : str
        The value of an attempt, see :meth:`of`.
    runs : ndarray of float, shape (rows of the table, repeats)
        The value of each repeat, if repeats have names; otherwise without columns.
    scale : tuple of float
        Lowest value and range of the results. Scores are read as numbers from 0 to 1.
    """

    facts: Facts
    groups: list[Fields]
    arms: list[ArmKey]
    numbers: dict[str, Floats]
    start: Ints
    average: list[str]
    value: str
    runs: Floats
    scale: tuple[float, float] = (0.0, 1.0)

    @classmethod
    def of(
        cls,
        table: pd.DataFrame,
        by: Sequence[str],
        *,
        arm: Sequence[str] = ("condition",),
        unit: Sequence[str] = CASE,
        value: str = "passed",
        bounds: Bounds = None,
        average: Sequence[str] = (),
        nested: Sequence[str] = (),
        facts: Sequence[str] = (),
    ) -> Units:
        """Arrange a case table as units and arms.

        Parameters
        ----------
        table : pandas.DataFrame
            Result of :func:`case_table` for the same ``value`` and ``bounds``, or another table of
            levels.
        by, average : sequence of str
            Columns that group the rows, and columns to average within each case.
        arm : sequence of str
            Columns that tell the arms apart.
        unit : sequence of str
            Columns that identify a unit in its group, such as case and check.
        value : {"passed", "share_passed", "score", "level"}
            The value of an attempt. With ``"level"``, the table has a column ``_level`` with the
            value of the unit in the arm and, if known, ``_n``, ``_size``, ``_low`` and ``_high``;
            for the share of attempts with an event, also ``_fewest`` (attempts) and ``_mixed``.
        bounds : tuple of float, optional
            Lowest and highest possible score.
        nested : sequence of str
            Columns that are averaged within the arm, such as the agents of a family. An arm has a
            value only if each combination of their values that the arm's level has, has one.
        facts : sequence of str
            Columns with one value in each unit that become facts of the units.
        """
        low, high = ends_of(value, bounds)
        every = table.columns.union([f"_{name}" for name in _NUMBERS], sort=False)
        table = table.reindex(columns=every).reset_index(drop=True)
        is_row = table[["_level", "_size"]].notna().any(axis=1)
        table["_row"] = table.index.where(is_row)
        table["_squares"] = table["_squares"].fillna(table["_level"])
        names = [name for name in table if str(name).startswith(f"_{value} ")]
        runs = table[[] if nested else names].to_numpy(float)
        if nested:
            table = _averaged_within_arms(table, by, arm, nested)
        group, first_of_group = group_codes(table, by)
        place_of_row, first_of_unit = group_codes(table, [*by, *average, *unit])
        of_arm, first_of_arm = group_codes(table, arm)
        order = np.argsort(group[first_of_unit], kind="stable")
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        first_of_unit = first_of_unit[order]
        numbers = {}
        for name in _NUMBERS:
            numbers[name] = np.full((len(order), len(first_of_arm)), np.nan)
            numbers[name][place[place_of_row], of_arm] = table[f"_{name}"].to_numpy(float)
        rows = table.take(first_of_unit)
        about: Facts = {"label": case_labels(rows).to_numpy(object)}
        for name in ("case_id", "cluster", WEIGHT, "alone", "is_scored", *facts):
            if name in rows:
                about[name] = rows[name].to_numpy()
        about["skill_name"] = rows["skill"].to_numpy()
        for name, columns in (("case", unit), ("skill", ["skill"]), ("combination", average)):
            about[name] = group_codes(rows, columns)[0]
        return cls(
            facts=about,
            groups=_records(table, by, first_of_group),
            arms=[tuple(row.values()) for row in _records(table, arm, first_of_arm)],
            numbers=numbers,
            start=np.searchsorted(group[first_of_unit], np.arange(len(first_of_group) + 1)),
            average=list(average),
            value=value,
            runs=runs,
            scale=(low, high - low),
        )

    @property
    def is_share(self) -> bool:
        """Whether values are shares of checks."""
        return self.value == "share_passed"

    def arms_of_group(self, group: int) -> list[ArmKey]:
        """Return the arms in which the group has rows, in the order of `arms`."""
        sizes = self.numbers["size"][self._rows_of_group(group)]
        return [self.arms[j] for j in np.flatnonzero(~np.isnan(sizes).all(axis=0))]

    def _rows_of_group(self, group: int) -> slice:
        return slice(self.start[group], self.start[group + 1])

    def labels_only_in(self, group: int, arm: ArmKey, other: ArmKey) -> Any:
        """Return the labels of the units of a group with a row in one arm and none in the other."""
        rows = self._rows_of_group(group)
        sizes = self.numbers["size"][rows]
        has_row, has_other = (~np.isnan(sizes[:, self.arms.index(key)]) for key in (arm, other))
        return self.facts["label"][rows][has_row & ~has_other]

    def part(self, contrast: Contrast) -> _Part:
        """Return the units of a contrast that have a row in one of its arms."""
        at = [self.arms.index(key) if key in self.arms else -1 for key in contrast.weights]
        rows = self._rows_of_group(contrast.group)
        numbers = {}
        for name, values in self.numbers.items():
            numbers[name] = values[rows][:, at]
            numbers[name][:, np.array(at) < 0] = np.nan
        # in the order of the rows of the first arm, so that sums do not depend on the other arms
        order = np.argsort(numbers["row"][:, 0], kind="stable")
        present = order[~np.isnan(numbers["row"][order]).all(axis=1)]
        part = _Part(
            facts=_rows_of(_rows_of(self.facts, rows), present),
            numbers=_rows_of(numbers, present),
            weights=np.array(list(contrast.weights.values())),
            average=self.average,
            scale=self.scale,
        )
        return replace(part, nothing=self._why_nothing(contrast, part))

    def _why_nothing(self, contrast: Contrast, part: _Part) -> str:
        """Return why a contrast has no estimate; "" if it has one.

        A contrast of two conditions has none if no unit has values under both, or if most units
        have rows under only one, and no plan says that this was meant.
        """
        sides, numbers, nothing = contrast.sides, part.numbers, contrast.nothing
        is_pair = len(sides) == 2 and list(contrast.weights) == [(side,) for side in sides]
        alone = np.isnan(numbers["size"]).any(axis=1) & part.facts.get("alone", np.False_)
        is_mostly_alone = is_pair and 2 * alone.sum() > alone.size
        if not np.isnan(numbers["level"]).any(axis=1).all():
            if not is_mostly_alone:
                return ""
            nothing = f"{alone.sum()} of {alone.size} cases have rows under only one condition"
        n_values = np.nansum(numbers["n"])
        if not n_values and part.facts.get("is_scored", np.False_).any():
            return (
                f"{nothing}: attempts have scores, but no verdicts (passed); "
                f"{argument('value', 'score')} with {argument('bounds')} compares scores"
            )
        has_rows = ~np.isnan(numbers["row"]) & ~(numbers["absent"] > 0)
        if not is_pair or (has_rows.all(axis=1).any() and not is_mostly_alone):
            n = int(np.nansum(numbers["size"]) - n_values)
            if not n or "is_scored" not in part.facts:
                return nothing
            what = "score" if self.value == "score" else "verdict"
            return f"{nothing}; {plural(n, 'attempt')} without a usable {what}"
        texts = [
            f"{first_names(part.facts['label'][rows])} only under {side}"
            for rows, side in zip((has_rows & ~has_rows[:, ::-1]).T, sides, strict=True)
            if rows.any()
        ]
        # the rows of a condition may be in another group, under another name
        names = ["skill_name", "case_id"]
        keys = pd.DataFrame({name: self.facts[name] for name in names})
        at = [self.arms.index(key) for key in contrast.weights]
        there = ~np.isnan(self.numbers["row"][:, at]) & ~(self.numbers["absent"][:, at] > 0)
        first, second = (keys[rows].drop_duplicates().astype("str") for rows in there.T)
        only_first = first[~is_among(first, second, names)]
        only_second = second[~is_among(second, first, names)]
        cause = _differing_names(only_first, only_second, sides)
        if only_first.empty and only_second.empty:
            cause = "the same cases were answered, but never by the same agent or in the same group"
        return f"{nothing}: " + (
            cause
            or f"different cases were asked: {', '.join(texts)}. If this was planned, "
            "deltas.unpaired compares the rates; if the study is unfinished, "
            f"{argument('asked')} gives its plan when the table is read"
        )

    def filled(self, weights: Mapping[ArmKey, float]) -> Units:
        """Return the units with values for the missing attempts that lower the contrast most."""
        numbers = {name: values.copy() for name, values in self.numbers.items()}
        for key, weight in weights.items():
            if key in self.arms:
                j = self.arms.index(key)
                level = self.numbers["low" if weight > 0 else "high"][:, j]
                size = self.numbers["size"][:, j]
                # the values that replace missing ones are 0 or 1, and equal to their squares
                known = np.nan_to_num(numbers["squares"][:, j] - numbers["level"][:, j])
                squares = level + known * self.numbers["n"][:, j] / size
                numbers["level"][:, j], numbers["squares"][:, j] = level, squares
                numbers["n"][:, j] = numbers["fewest"][:, j] = size
                of_case = None if self.is_share else size
                numbers["mixed"][:, j] = mixed_of_case(level, of_case, squares)
        return replace(self, numbers=numbers)


def _plain_names(names: pd.Series) -> pd.Series:
    """Return names without blanks, capital letters, leading zeros and decimal zeros."""
    short = names.str.replace(r"\s|\.0+$", "", regex=True).str.casefold()
    return short.str.replace(r"(?<!\d)0+(?=\d)", "", regex=True)


def _differing_names(first: pd.DataFrame, second: pd.DataFrame, sides: Sequence[str]) -> str:
    """Return how two conditions name the same cases differently, and the remedy; "" if they do not.

    ``first`` and ``second`` have the skill_name and case_id of the cases that only one of the
    conditions has. At least half of the smaller number must be alike.
    """
    fewest = max(1.0, 0.5 * min(len(first), len(second)))
    plain = [rows.assign(plain=_plain_names(rows["case_id"])) for rows in (first, second)]
    alike = plain[0].merge(plain[1], on=["plain", "skill_name"])
    same_id = first.merge(second, on="case_id")
    if len(alike) >= fewest:
        ids = [f"{alike[f'case_id_{of}'][0]!r}" for of in "xy"]
        return (
            f"ids of cases differ only by blanks, zeros or capital letters, such as {ids[0]} under "
            f"{sides[0]} and {ids[1]} under {sides[1]}; write them alike"
        )
    if same_id["case_id"].nunique() >= fewest:
        row = same_id.iloc[0]
        return (
            f"equal cases have different skills, such as {row['case_id']!r} with skill "
            f"{row['skill_name_x']!r} under {sides[0]} and {row['skill_name_y']!r} under "
            f"{sides[1]}; in every row, name the skill that the case is about, also where it was "
            "not loaded"
        )
    return ""


def compared_units(
    outcomes: pd.DataFrame,
    by: Sequence[str],
    what: str,
    *,
    reference: str | None = None,
    average: Sequence[str] | None = None,
    facts: Sequence[str] = (),
    weight: str | None = None,
    **of_value: Any,
) -> tuple[pd.DataFrame, Units]:
    """Return the outcomes that :func:`compared_outcomes` has checked, and their units.

    ``facts`` names columns with one value in each case that become facts of the units. ``of_value``
    contains ``value`` and ``bounds``.
    """
    checked = compared_outcomes(
        outcomes, by, what, reference=reference, average=average, **of_value
    )
    keys = [*by, *(average or ())]
    table = case_table(checked, by=keys, weight=weight, **of_value)
    if lacking := [name for name in facts if name not in table]:
        rows = checked.drop_duplicates(CASE)[[*CASE, *lacking]]
        table = table.merge(rows, on=CASE, validate="m:1")
    return checked, Units.of(table, by, facts=facts, average=average or (), **of_value)


def contrasts_with(units: Units, reference: str) -> list[Contrast]:
    """Return the contrast of each group and condition with the reference."""
    if not isinstance(reference, str):
        raise FrameError(f"reference: found {reference!r}; allowed: the name of a condition.")
    return [
        Contrast(
            about=values | {"condition": condition, "reference": reference},
            group=group,
            weights={(condition,): 1.0, (reference,): -1.0},
            sides=(condition, reference),
            nothing="no case has outcomes in both conditions",
        )
        for group, values in enumerate(units.groups)
        for condition in ordered((key[0] for key in units.arms_of_group(group)), reference)
    ]


def contrasts_of_rates(units: Units) -> list[Contrast]:
    """Return a contrast of one arm for each group and condition."""
    return [
        Contrast(
            values | {"condition": condition},
            group,
            {(condition,): 1.0},
            nothing="no attempt has an outcome",
        )
        for group, values in enumerate(units.groups)
        for condition in ordered(key[0] for key in units.arms_of_group(group))
    ]


def _averaged_within_arms(
    table: pd.DataFrame, by: Sequence[str], arm: Sequence[str], nested: Sequence[str]
) -> pd.DataFrame:
    """Average the rows of each unit and arm over columns that are nested in the arm's level.

    The level is NaN if one of the nested values (such as an agent of a family) has no level.
    """
    table = table.assign(_member=group_codes(table, nested)[0], _answered=table["_level"].notna())
    levels = [name for name in arm if name != "condition"]
    table["_n_members"] = grouped(table, [*by, *levels])["_member"].transform("nunique")
    keys = listed([*by, *CASE, *arm])
    how = dict.fromkeys(table.columns.difference([*keys, *nested], sort=False), "first")
    how |= dict.fromkeys(_MEANS, "mean") | dict.fromkeys(_LEAST, "min")
    how |= dict.fromkeys([*_SUMS, "_answered"], "sum")
    means: pd.DataFrame = grouped(table, keys).agg(how).reset_index()
    return means.assign(_level=means["_level"].where(means["_answered"].eq(means["_n_members"])))


def _rows_of(arrays: Mapping[str, NDArray[Any]], rows: Any) -> Fields:
    return {name: values[rows] for name, values in arrays.items()}


def _records(table: pd.DataFrame, names: Sequence[str], rows: Ints) -> list[Fields]:
    columns = [table[name].array.take(rows) for name in names]
    values = zip(*columns, strict=True) if columns else ((),) * len(rows)
    return [dict(zip(names, each, strict=True)) for each in values]


@dataclass(frozen=True)
class _Rows:
    """Units or cases of a contrast; ``numbers`` has one column for each of its arms."""

    facts: Facts
    numbers: dict[str, Floats]
    weights: Floats

    def rows(self, keep: Any) -> Self:
        """Return the selected units or cases."""
        facts, numbers = (_rows_of(arrays, keep) for arrays in (self.facts, self.numbers))
        return replace(self, facts=facts, numbers=numbers)


@dataclass(frozen=True)
class _Part(_Rows):
    """The units of a contrast; ``nothing`` is the reason why there is no estimate."""

    average: list[str]
    scale: tuple[float, float]
    nothing: str = ""

    @property
    def complete(self) -> Self:
        """The rows with a level in every arm; none if the contrast has no estimate."""
        return self.rows(~np.isnan(self.numbers["level"]).any(axis=1) & (not self.nothing))

    def means_of_cases(self) -> _Cases:
        """Average the complete units of each case.

        The numbers of attempts and of checks are the smallest of the case, so that copied rows do
        not change an interval.
        """
        complete = self.complete
        facts, numbers = complete.facts, {name: complete.numbers[name] for name in _NUMBERS[:5]}
        case = pd.factorize(facts["case"])[0]
        first = np.unique(case, return_index=True)[1]
        if len(first) == len(case):
            return _Cases(facts, numbers, self.weights, "")
        note = average_note(case, facts["combination"], self.average)
        for name, values in numbers.items():
            rows = pd.DataFrame(values).groupby(case)
            numbers[name] = (rows.min() if f"_{name}" in _LEAST else rows.mean()).to_numpy()
        return _Cases(_rows_of(facts, first), numbers, self.weights, note)

    def missing(self, sides: Sequence[str]) -> tuple[list[int], list[float], str]:
        """Return the counts of missing attempts, the bounds of the contrast, and a note on both.

        Only units with expected attempts in all arms count. For the lower bound, the missing
        attempts of an arm with a positive weight have their lowest value, and those of other arms
        their highest.
        """
        both = self.rows(~np.isnan(self.numbers["size"]).any(axis=1))
        numbers, size, n_sides = both.numbers, both.numbers["size"], len(sides)
        lost, weights = size - numbers["n"], self.weights
        counts = []
        for j in range(n_sides):
            counts += [int(lost[:, j::n_sides].sum()), int(size[:, j::n_sides].sum())]
        worst = [np.nan, np.nan]
        low, high = numbers["low"], numbers["high"]
        bounded = ~np.isnan(low).any(axis=1)
        if bounded.any():
            ends = np.where(weights > 0, low, high), np.where(weights > 0, high, low)
            heavy = _weights_of_units(_rows_of(both.facts, bounded))
            worst = [
                _in_unit(float(np.average(end[bounded] @ weights, weights=heavy)), self)
                for end in ends
            ]
        note, biased = missing_note(counts, sides)
        if not note:
            return counts, worst, ""
        parts = [note]
        if n_sides == len(weights) == 2:
            for j, side in enumerate(("condition", "reference")):
                absent = numbers["absent"][:, j] > 0
                if absent.any():
                    names = first_names(both.facts["label"][absent])
                    parts.append(f"no row under the {side}: {names}")
        sign, noun = ("", "rate") if len(weights) == 1 else ("+", "delta")
        if len(weights) > 2 or self.scale != (0.0, 1.0):
            noun = "estimate"
        parts.append(
            f"in the worst case the {noun} is {worst[0]:{sign}.2f} or {worst[1]:{sign}.2f}"
        )
        return counts, worst, join_notes(*parts, biased)

    def retries(self, sides: Sequence[str]) -> str:
        """Return a note if the attempts were repeated until one passed; otherwise ""."""
        n = int((self.numbers["retried"] > 0).any(axis=1).sum())
        if not n:
            return ""
        start = f"attempts were repeated until one passed ({plural(n, 'case')}), so "
        known = self.rows(~np.isnan(self.numbers["first"]).any(axis=1))
        if not len(known.facts["case"]):
            return start + "scores are biased"
        rates = np.average(known.numbers["first"], axis=0, weights=_weights_of_units(known.facts))
        texts = [
            f"{rate:.2f} under {side}" if side else f"{rate:.2f}"
            for rate, side in zip(rates, sides, strict=False)
        ]
        return f"{start}pass rates are biased; the rate of first attempts is {', '.join(texts)}"


def _weights_of_units(facts: Facts) -> Floats | None:
    """Return an equal part of the weight of its case for each unit; None for equal weights."""
    heavy, case = facts.get(WEIGHT), facts["case"]
    code, n_units = np.unique(case, return_inverse=True, return_counts=True)[1:]
    counts = n_units[code]
    if (counts == 1).all():
        return heavy
    return 1.0 / counts if heavy is None else heavy / counts


@dataclass(frozen=True)
class _Cases(_Rows):
    """The complete cases of a contrast."""

    note: str

    @property
    def n(self) -> int:
        """The number of cases."""
        return len(self.facts["case"])

    def sample(self, clusters: Any, *, is_share: bool) -> Sample:
        """Return the weighted sums of the arms, with the levels from which they are computed."""
        level = self.numbers["level"]
        arms = arms_of(
            [
                (level[:, j], self.numbers["fewest"][:, j], self.numbers["n_checks"][:, j], weight,
                 self.numbers["mixed"][:, j], self.numbers["squares"][:, j])
                for j, weight in enumerate(self.weights)
            ],
            is_share=is_share,
        )  # fmt: skip
        values = np.sum([w * level[:, j] for j, w in enumerate(self.weights)], axis=0)
        return Sample(values, clusters, self.facts.get(WEIGHT), arms)

    def levels(self) -> list[float]:
        """Return the mean level of each arm; NaN without cases."""
        if not self.n:
            return [np.nan] * len(self.weights)
        heavy = self.facts.get(WEIGHT)
        return [float(np.average(level, weights=heavy)) for level in self.numbers["level"].T]


def within(
    units: Units,
    contrasts: Sequence[Contrast],
    *,
    cluster: str = "case",
    ci_level: float = 0.95,
    interval: IntervalRule = "adaptive",
    null: float = 0.0,
    notes: bool = True,
) -> list[Estimate]:
    """Estimate contrasts of arms within the unit, over the units that have all arms.

    Parameters
    ----------
    units : Units
        The units and their numbers in each arm.
    contrasts : sequence of Contrast
        The contrasts. All have the same number of arms or bounds of their own: a quantity is
        between minus and plus half the sum of the absolute weights; with one arm, between 0 and 1.
    cluster : str
        ``"case"`` or ``"skill"``, see :func:`skillcomp.deltas.paired`.
    ci_level, interval
        Level and rule of the intervals. All intervals are computed in one call, which saves time
        and does not change them.
    null : float
        The value that p-values test. If it is 0, contrasts of one arm have no p-value.
    notes : bool
        Whether the notes state what the interval is about, and what is missing. An analysis with
        notes of its own sets it to False.

    Returns
    -------
    list of Estimate
        One estimate for each contrast.

    Notes
    -----
    Repeats are averaged within the unit, and averaged columns within the case. A case without a
    value in one of the arms is dropped. The interval is that of
    :func:`skillcomp.stats.bounded.bounded_mean` for the contrasts of the cases. The p-value of a
    contrast of several arms is that of :func:`skillcomp.stats.clusters_and_amounts.p_of_rows`,
    whose variance is shared by the contrasts of this call, or by those of a placebo. Without a
    standard error, and for a ``null`` other than 0, it is that of the interval.
    """
    parts = [units.part(contrast) for contrast in contrasts]
    cases = [part.means_of_cases() for part in parts]
    compared = list(zip(contrasts, parts, cases, strict=True))
    samples, claims, families = [], [], []
    for contrast, part, each in compared:
        skill, label = each.facts["skill"], each.facts["cluster"]
        # what a number of skills can show is known for deltas alone, with the adaptive rule
        is_delta = _span(part.weights) == 1.0 and units.value != "score"
        rule: IntervalRule = interval if is_delta else "bounded"
        labels, note = claim(skill, label, cluster, delta=len(part.weights) > 1, rule=rule)
        samples.append(each.sample(labels, is_share=units.is_share))
        claims.append(note)
        families.append((_span(part.weights), contrast.about.get("condition") == PLACEBO))
    how: Fields = {"ci_level": ci_level, "interval": interval}
    intervals: dict[int, Interval] = {}
    for family in dict.fromkeys(families):
        at, span = [i for i, each in enumerate(families) if each == family], family[0]
        rows = [samples[i] for i in at]
        quantity, first = _quantity(span), parts[at[0]]
        tested = None
        if span is not None or null:
            tested = (null - _in_unit(0.0, first)) / units.scale[1]
        means = bounded_means(rows, quantity=quantity, null=tested, **how)
        if span is not None and not null:
            means = _with_p_of_rows(means, rows, span)
        if units.value == "score":
            means = [_interval_in_unit(mean, first) for mean in means]
        if units.runs.shape[1]:
            bounds = _in_unit(quantity.low, first), _in_unit(quantity.high, first)
            means = [
                _for_other_runs(m, units, contrasts[i], parts[i], bounds, cluster, null)
                for i, m in zip(at, means, strict=True)
            ]
        intervals |= dict(zip(at, means, strict=True))
    return [
        _estimate(contrast, part, each, intervals[i], claims[i] if notes else None)
        for i, (contrast, part, each) in enumerate(compared)
    ]


def _with_p_of_rows(means: list[Interval], samples: list[Sample], span: float) -> list[Interval]:
    """Replace the p-values of intervals by those of a t test with a shared variance."""
    estimate, se, df = np.array([[mean.estimate, mean.se, mean.df] for mean in means]).T
    p_values = p_of_rows(estimate / span, se / span, df, [share_mixed(each) for each in samples])
    n = int(np.isfinite(p_values).sum())
    label = f"CR2 t, variance shared by {n} rows" if n >= FEWEST_ROWS else "CR2 t"
    return [
        replace(mean, p_value=p_value, method=f"{mean.method}; p: {label}")
        if math.isfinite(p_value) and not math.isclose(p_value, mean.p_value, rel_tol=1e-6)
        else mean
        for mean, p_value in zip(means, p_values.tolist(), strict=True)
    ]


def _for_other_runs(
    mean: Interval,
    units: Units,
    contrast: Contrast,
    part: _Part,
    bounds: tuple[float, float],
    cluster: str,
    null: float,
) -> Interval:
    """Widen an interval if the repeats of an arm share something."""
    complete = part.complete
    rows, facts = complete.numbers["row"].astype(np.int64), complete.facts
    clusters, _ = claim(facts["skill"], facts["cluster"], cluster)
    names = [" ".join(map(str, key)) for key in contrast.weights]
    arms = list(zip(names, part.weights.tolist(), [units.runs[at] for at in rows.T], strict=True))
    heavy = _weights_of_units(facts)
    span = units.scale[1] if units.value == "score" else None
    return for_other_runs(mean, arms, clusters, heavy, bounds, null, span=span)


def _in_unit(number: Any, part: _Part) -> Any:
    """Return a value of a contrast in the unit of the scores."""
    lowest, span = part.scale
    return lowest * part.weights.sum() + span * number


def _interval_in_unit(interval: Interval, part: _Part) -> Interval:
    """Return an interval of a contrast in the unit of the scores."""
    return interval.times(part.scale[1], _in_unit(0.0, part))


def _span(weights: Floats) -> float | None:
    """Return half the sum of the absolute weights, the largest contrast; None for one arm."""
    return None if len(weights) == 1 else 0.5 * float(np.abs(weights).sum())


def _quantity(span: float | None) -> Quantity:
    if span is None:
        return RATES
    return Quantity(span * DELTAS.low, span * DELTAS.high, DELTAS.c)


def _estimate(
    contrast: Contrast, part: _Part, cases: _Cases, interval: Interval, note: str | None
) -> Estimate:
    counts, worst, lost = part.missing(contrast.sides)
    n_dropped = n_distinct(part.facts["case"]) - cases.n
    if note is not None:
        dropped = ""
        if len(part.weights) > 1 and n_dropped:
            where = "two conditions" if len(part.weights) == 2 else "compared cells"
            dropped = f"{plural(n_dropped, 'case')} dropped: no outcome in one of the {where}"
        if note != ONE_SKILL:
            note = join_notes(cases.note, note)
        interval = claimed(
            interval, note, part.nothing, contrast.note, dropped, lost, part.retries(contrast.sides)
        )
    lowest, span = part.scale
    levels = [lowest + span * level for level in cases.levels()]
    return Estimate(interval, levels, n_dropped, counts, worst)


class Gap(NamedTuple):
    """A contrast in two groups of units, and the difference.

    Attributes
    ----------
    intervals : list of Interval
        Mean of the first group, mean of the second group, and the second mean minus the first.
    sizes : list of int
        Number of compared cases in each group.
    cases : _Cases
        The compared cases; the fact ``stratum`` has the number of their stratum.
    part : _Part
        All units of the contrast.
    n_dropped : int
        Number of cases with rows in an arm, but without a value in one of the arms.
    """

    intervals: list[Interval]
    sizes: list[int]
    cases: _Cases
    part: _Part
    n_dropped: int


def between(
    units: Units,
    contrast: Contrast,
    column: str,
    values: tuple[Any, Any],
    *,
    strata: Sequence[str] = (),
    least: int = 1,
    ci_level: float = 0.95,
    interval: IntervalRule = "adaptive",
) -> Gap:
    """Compare a contrast of arms between two groups of units, standardised over strata.

    Parameters
    ----------
    units : Units
        The units and their numbers in each arm.
    contrast : Contrast
        The weights of the arms.
    column : str
        The fact of the units that tells the groups apart.
    values : tuple
        Its value in the first group and in the second group.
    strata : sequence of str
        Facts of the units that form the strata. A stratum counts if it has cases of both groups.
        Without names, all units are one stratum.
    least : int
        With fewer cases than this in one of the groups, the intervals are NaN.
    ci_level, interval
        Level and rule of the intervals.

    Returns
    -------
    Gap
        The intervals and the cases that they compare.

    Notes
    -----
    The means and the gap are those of :func:`skillcomp.stats.gaps.standardised_gap`. A cluster may
    have cases of both groups. The adaptive rule computes how mixed the outcomes of a case are from
    its mean level, also if this is an average over agents or graders.
    """
    part = units.part(contrast)
    cases = part.means_of_cases()
    n_dropped = n_distinct(part.facts["case"]) - cases.n
    facts = pd.DataFrame({name: cases.facts[name] for name in dict.fromkeys([column, *strata])})
    cases = cases.rows(facts.notna().all(axis=1).to_numpy())
    facts = facts.dropna()
    cases.facts["stratum"], _ = group_codes(facts, strata)
    if strata:
        groups = facts[column].groupby(cases.facts["stratum"])
        cases = cases.rows(groups.transform("nunique").eq(2).to_numpy())
    second = cases.facts[column] == values[1]
    sizes = [int((~second).sum()), int(second.sum())]
    if min(sizes) < least:
        counts = (*sizes, sum(sizes))
        means = [undefined("", "", ci_level=ci_level, n=float(n)) for n in counts]
    else:
        sample = cases.sample(cases.facts["cluster"], is_share=units.is_share)
        intervals = standardised_gap(
            sample.values,
            second,
            cases.facts["stratum"],
            sample.clusters,
            quantity=_quantity(_span(part.weights)),
            arms=[replace(arm, mixed=None) for arm in sample.arms],
            ci_level=ci_level,
            interval=interval,
        )
        means = [_interval_in_unit(mean, part) for mean in intervals]
    return Gap(means, sizes, cases, part, n_dropped)


class Slope(NamedTuple):
    """The change of a contrast from the lowest to the highest value of a fact of the cases.

    Attributes
    ----------
    interval : Interval
        The change; NaN with a note if it is unknown.
    low, high : float
        The lowest and the highest value of the fact, in the stratum where they differ most.
    """

    interval: Interval
    low: float
    high: float


def slope(
    units: Units,
    contrast: Contrast,
    column: str,
    *,
    stratum: str,
    least: int,
    ci_level: float = 0.95,
    interval: IntervalRule = "adaptive",
) -> Slope:
    """Estimate how a contrast changes with a numeric fact of the cases, within strata.

    ``column`` and ``stratum`` name facts of the units. Each stratum has its own level. With fewer
    than ``least`` cases in strata where the fact varies, the estimate is NaN. The interval is that
    of :func:`skillcomp.stats.gaps.bounded_slope`, for the largest range of the fact in a stratum.
    """
    part = units.part(contrast)
    cases = part.means_of_cases()
    x = np.asarray(cases.facts[column], float)
    cases, x = cases.rows(~np.isnan(x)), x[~np.isnan(x)]
    groups = pd.Series(x).groupby(cases.facts[stratum])
    reach = groups.transform("max").to_numpy() - groups.transform("min").to_numpy()
    varies = reach > 0
    if (n := int(varies.sum())) < least:
        note = part.nothing or f"{plural(n, 'case')} with different values of '{column}' in a skill"
        note += f"; at least {least} are needed"
        return Slope(undefined("", note, ci_level=ci_level, n=float(n)), np.nan, np.nan)
    cases, x, reach = cases.rows(varies), x[varies], reach[varies]
    widest = cases.facts[stratum] == cases.facts[stratum][reach.argmax()]
    sample = cases.sample(cases.facts["cluster"], is_share=units.is_share)
    change = bounded_slope(
        sample.values,
        x[:, None] / reach.max(),
        cases.facts[stratum],
        sample.clusters,
        quantity=_quantity(_span(part.weights)),
        arms=[replace(arm, mixed=None) for arm in sample.arms],
        ci_level=ci_level,
        interval=interval,
    ).times(part.scale[1])
    lost = part.missing(contrast.sides)[2]
    change = change.with_note(join_notes(cases.note, lost))
    return Slope(change, float(x[widest].min()), float(x[widest].max()))


__all__ = [
    *("Contrast", "Estimate", "Gap", "Slope", "Units", "between", "case_table", "contrasts_with"),
    *("level_table", "slope", "within"),
]

__dir__ = __all__.copy  # so that dir() lists the public names
