"""Contrasts: differences between agents, graders or rounds on the same cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from skillcomp.deltas.runs_over_time import note_on_checks
from skillcomp.errors import FrameError, plural, require_known
from skillcomp.frames.case_table import (
    MISSING,
    WEIGHT,
    Value,
    arms_of,
    case_labels,
    case_table,
    claim,
    claimed,
    covering_means,
    first_names,
    level_of,
    missing_note,
    with_weights,
)
from skillcomp.frames.check import as_list, check_cluster, require_frame
from skillcomp.frames.contracts import ATTEMPT_KEYS, CASE, CONTRACTS
from skillcomp.frames.estimates import (
    RESERVED,
    By,
    estimates,
    group_codes,
    grouped,
    groups,
    listed,
    means_of_cases,
    ordered,
    prepared,
    refuse_different_checks,
    require_columns,
    require_reference,
    row,
    rows_of_group,
    with_method,
)
from skillcomp.stats.bounded import DELTAS, IntervalRule, Quantity, Sample, mixed_of_case
from skillcomp.stats.results import join_notes
from skillcomp.stats.significance import holm

_WHAT = "deltas.contrast"
# A cell (a case at one level under one condition) has these numbers. `complete_cases` averages the
# first four within a case.
CELL = ["rate", "mixed", "fewest", "n_checks", "size", "low", "high", "attempts"]
_EXTRA = ["reference", "reference_condition", "rate", "reference_rate", "n_dropped", *MISSING]
# A contrast has one (level, condition, sign) for each of its rates. The two levels alternate.
Arms = list[tuple[Any, str, float]]
Cells = dict[str, NDArray[np.float64]]  # for each name in CELL, an array of shape (rows, arms)


def contrast(
    outcomes: pd.DataFrame,
    *,
    between: By,
    condition: str | None = None,
    reference: str = "baseline",
    by: By = (),
    value: Value = "passed",
    cluster: str = "case",
    average: By = (),
    weight: str | None = None,
    ci_level: float = 0.95,
    interval: IntervalRule = "adaptive",
) -> pd.DataFrame:
    """Estimate how deltas or pass rates differ between agents, graders or rounds.

    All levels are compared on the same cases. Without ``condition``, the deltas of the levels are
    compared: does the skill help one agent more than another? With ``condition``, their pass rates
    under this condition are compared.

    Parameters
    ----------
    outcomes : pandas.DataFrame
        An outcomes frame with skill, case_id, condition and the column ``between``.
    between : str
        The column with the levels to compare, such as ``"agent"``, ``"grader"``, ``"round"`` or a
        column of your own; one column only. Conditions, such as versions of a skill, are compared
        by :func:`skillcomp.deltas.paired`.
    condition : str, optional
        The condition under which pass rates are compared. Default: compare deltas.
    reference : str, default "baseline"
        The condition from which deltas are taken. Not used with ``condition``.
    by : str or sequence of str
        Columns that group the rows, such as ``["skill"]``.
    value : {"passed", "share_passed"}, default "passed"
        As in :func:`skillcomp.deltas.paired`.
    cluster, average, weight, interval
        As in :func:`skillcomp.deltas.paired`. An averaged column may be nested in ``between``, such
        as ``average="agent"`` with ``between="agent_family"``: the agents of each family are
        averaged within the case; a case that lacks the outcome of one of them is dropped.
    ci_level : float, default 0.95
        Level of the interval.

    Returns
    -------
    pandas.DataFrame
        One row per ``by``, condition and pair of levels, with the estimates columns. The column
        ``between`` holds the level and ``reference`` the level that comes before it in sorted
        order. The measure is ``difference_passed``: the delta of the level minus that of the
        reference level, from -2 to 2. With ``condition`` it is ``delta_passed``: the rate of the
        level minus that of the reference level, from -1 to 1. With ``value="share_passed"`` the
        measures are ``difference_share_passed`` and ``delta_share_passed``. ``rate`` and
        ``reference_rate`` are the deltas or rates of the two levels. ``p_adjusted`` is adjusted by
        Holm for all pairs of levels of the same ``by`` and condition that have a p-value.
        ``reference_condition`` is ``reference``; it is missing if ``condition`` is given.
        ``n_dropped`` counts the cases that lack an outcome in at least one compared cell (a level
        under a condition). The columns about missing attempts are those of
        :func:`skillcomp.deltas.paired`, for the level and the reference level. The estimate is NaN
        with a note if one of the levels has no attempts under the condition.

    Raises
    ------
    FrameError
        If ``between`` names several columns, the condition, a fact of the case, or a column with
        missing values or fewer than two levels; if the levels were asked different cases or, in
        more than a tenth of the cases, different numbers of checks; or if other agents, graders or
        rounds would be pooled.

    See Also
    --------
    skillcomp.deltas.paired : Compares conditions.
    skillcomp.deltas.over_time : Compares each run with the run before.
    skillcomp.plots.estimates : Draws the result; with several pairs, use ``hue="reference"``.

    Notes
    -----
    Repeats are averaged within a case. A difference of deltas is a contrast of four rates of the
    same case, (skill - baseline of the level) - (skill - baseline of the reference level); the
    interval is that of :func:`skillcomp.stats.bounded.bounded_mean` for the contrasts of the cases.
    It is narrower than an interval from the two separate deltas if levels agree on which cases are
    hard.

    Examples
    --------
    Of ten cases, agent a passes 2 in the baseline and 8 with the skill, agent b 3 and 5.

    >>> import pandas as pd
    >>> passed = {("a", "baseline"): 2, ("a", "skill"): 8, ("b", "baseline"): 3, ("b", "skill"): 5}
    >>> frame = pd.DataFrame([{"skill": "s", "case_id": f"s/{i}", "agent": agent, "condition": c,
    ...     "passed": i < n} for (agent, c), n in passed.items() for i in range(10)])
    >>> contrast(frame, between="agent")[["agent", "reference", "estimate", "rate"]].round(2)
      agent reference  estimate  rate
    0     b         a      -0.4   0.2
    """
    require_known("value: found", value, get_args(Value))
    names, averaged, between = listed(by), listed(average), _compared_column(between)
    checked = _checked_outcomes(outcomes, between, names, averaged)
    base = reference if condition is None else None
    require_reference(checked["condition"], base)
    conditions = ordered(checked["condition"], base)
    if condition is not None and conditions:
        require_known(f"{_WHAT}: condition: found", condition, conditions, label="there")
        conditions = [condition]
    elif conditions:
        refuse_different_checks(checked, _WHAT, value)
    column = check_cluster(cluster, checked)
    table = case_table(checked, by=[*names, between, *averaged], column=column)
    table = with_bounds(with_weights(table, checked, weight), value)
    nested = [n for n in averaged if grouped(table, [n])[between].nunique().max() == 1]
    if nested:
        table = _averaged_within_levels(table, [*names, between], nested)
        averaged = [name for name in averaged if name not in nested]
    means = f"averaged over {', '.join(nested)} within each {between} and case" if nested else ""
    places, contrasts = [], []
    levels = sorted(checked[between].unique().tolist(), key=lambda x: (isinstance(x, str), x))
    pairs = list(combinations(levels, 2))
    for about, part in groups(table, names):
        wide = _numbers_by_cell(part, between, averaged)
        for name, pair in product(conditions, pairs):
            compared = rows_of_group(checked[checked["condition"].isin([name, base])], about)
            note = note_on_checks(compared, [], between, pair, _WHAT)
            place = {"condition": name, "reference": pair[0], between: pair[1]}
            places.append(about | place | {"reference_condition": base})
            note = join_notes(means, note)
            contrasts.append(_contrast(wide, between, _arms(pair, name, base), averaged, note))
    rows = _contrast_rows(contrasts, value, cluster, ci_level, interval)
    rows = [estimated | place for estimated, place in zip(rows, places, strict=True)]
    # `estimates` adds to a row the notes of the outcomes with the same keys. Drop the column of
    # levels, so that a row has the notes of all levels.
    noted = checked.drop(columns=between)
    keys = [*names, between, "condition"]
    result = estimates(rows, by=keys, extra=_EXTRA, outcomes=noted, reference=base)
    return with_method(_with_holm(result, [*names, "condition"], between), cluster, weight)


def _compared_column(between: By) -> str:
    """Return the name of the compared column; a list of one name is accepted."""
    columns = as_list(between)
    if len(columns) != 1 or not isinstance(columns[0], str):
        raise FrameError(
            f"{_WHAT}: between: found {between!r}; allowed: the name of one column, such as "
            "'agent'. To compare combinations, add a column: "
            "outcomes.assign(level=outcomes['agent'] + '/' + outcomes['grader'])."
        )
    return str(columns[0])


def _checked_outcomes(
    outcomes: pd.DataFrame, between: str, names: list[str], averaged: list[str]
) -> pd.DataFrame:
    """Return the checked outcomes; raise FrameError if the column of levels cannot be compared."""
    if between == "condition":
        raise FrameError(
            f"{_WHAT}: between='condition': conditions, such as versions of a skill, are compared "
            "by sc.deltas.paired(outcomes, reference=...)."
        )
    if between in (*RESERVED, *_EXTRA):
        raise FrameError(
            f"{_WHAT}: between= names '{between}', a column that the analysis adds. Rename yours."
        )
    require_frame(outcomes, _WHAT)
    if between not in outcomes and between in CONTRACTS["attempts"].columns:
        raise FrameError(
            f"{_WHAT}: between='{between}': this is a column of the attempts. Add it: "
            f"outcomes.merge(attempts[['attempt_id', '{between}']], on='attempt_id')."
        )
    require_columns(outcomes, [between], f"{_WHAT}: between=")
    if outcomes[between].isna().any():
        raise FrameError(
            f"{_WHAT}: column '{between}': missing in some rows. Name their level, or leave these "
            f"rows out: outcomes[outcomes['{between}'].notna()]."
        )
    outcomes = _with_ids_of_levels(outcomes, between)
    how: dict[str, Any] = {"compared": ["condition", between], "average": averaged, "agents": True}
    checked = prepared(outcomes, "outcomes", names, _WHAT, **how)
    levels = checked[between].unique()
    if len(levels) == 1:
        raise FrameError(
            f"{_WHAT}: column '{between}' has one value, {levels[0]!r}; a contrast needs two."
        )
    if len(levels) and checked.groupby(CASE)[between].nunique().max() < 2:
        raise FrameError(
            f"{_WHAT}: no case has two values of '{between}', so it cannot be compared on the same "
            f"cases. Use by=['{between}'] in sc.deltas.paired; sc.transfer.gap compares near and "
            "far cases."
        )
    return checked


def _with_ids_of_levels(outcomes: pd.DataFrame, between: str) -> pd.DataFrame:
    """Add the level to attempt ids, because two levels may have the same ids or repeat numbers."""
    names = ["attempt_id"]
    if "attempt_id" not in outcomes.columns:
        names = [name for name in ATTEMPT_KEYS if name in outcomes.columns]
        if "repeat" not in names:
            return outcomes
    ids = outcomes[between].astype("str")
    for name in names:
        ids = ids + "/" + outcomes[name].astype("str").fillna("")
    has_id = outcomes["repeat" if len(names) > 1 else "attempt_id"].notna()
    return outcomes.assign(attempt_id=ids.where(has_id))


def with_bounds(table: pd.DataFrame, value: str) -> pd.DataFrame:
    """Add the rate of each row of a case table, with the columns for its interval and bounds.

    ``low`` and ``high`` are the rates if all missing attempts had failed, and if all had passed (a
    missing attempt with a failed check cannot pass).
    """
    met, n, name = table["n_passed"], table["n"], "passed"
    if value != "passed":
        met, n, name = table["share"].fillna(0.0) * table["n_shares"], table["n_shares"], "share"
    bounds = {end: (met + table[f"{name}_{end}"]) / table["size"] for end in ("low", "high")}
    rate = level_of(table, value)
    mixed = mixed_of_case(rate, n if value == "passed" else None)
    return table.assign(rate=rate, mixed=mixed, attempts=n, fewest=n, **bounds)


def _averaged_within_levels(table: pd.DataFrame, by: list[str], nested: list[str]) -> pd.DataFrame:
    """Average the rows of each level, case and condition over columns that are nested in the level.

    The rate is NaN if one of the nested values (such as an agent of a family) has no rate.
    """
    table = table.assign(member=group_codes(table, nested)[0], answered=table["rate"].notna())
    table["n_members"] = grouped(table, by)["member"].transform("nunique")
    keys = list(dict.fromkeys([*by, *CASE, "condition"]))
    how = dict.fromkeys(table.columns.difference([*keys, *nested], sort=False), "first")
    how |= dict.fromkeys(["rate", "mixed", "low", "high"], "mean") | {
        "fewest": "min",
        "n_checks": "min",
    }
    how |= dict.fromkeys(["size", "attempts", "answered"], "sum")
    means: pd.DataFrame = grouped(table, keys).agg(how).reset_index()
    return means.assign(rate=means["rate"].where(means["answered"].eq(means["n_members"])))


@dataclass(frozen=True)
class _Contrast:
    """A contrast; column "rate 0" of ``cases`` is the rate of the first arm, and so on."""

    arms: Arms
    cases: pd.DataFrame
    columns: dict[str, Any]
    notes: tuple[str, ...]
    nothing: str

    def sample(self, labels: Any, *, is_share: bool) -> Sample:
        """Return the contrasts of the cases, with the rates from which they are computed."""
        return weighted_sample(self.cases, [arm[2] for arm in self.arms], labels, is_share=is_share)

    def sides(self) -> list[float]:
        """Return the mean rate or delta of the level and of the reference level."""
        if self.cases.empty:
            return [np.nan, np.nan]
        rates = [self.cases[f"rate {j}"] for j in range(len(self.arms))]
        means = [float(np.average(rate, weights=self.cases.get(WEIGHT))) for rate in rates]
        return means if len(means) == 2 else [means[0] - means[2], means[1] - means[3]]


def _arms(pair: tuple[Any, Any], condition: str, base: str | None) -> Arms:
    other, level = pair
    arms: Arms = [(level, condition, 1.0), (other, condition, -1.0)]
    return arms if base is None else [*arms, (level, base, -1.0), (other, base, 1.0)]


def _contrast(
    wide: pd.DataFrame, between: str, arms: Arms, averaged: list[str], note: str
) -> _Contrast:
    """Collect the cases with an outcome in every arm; count other cases and missing attempts."""
    facts = wide.index.to_frame(index=False)
    cells: Cells = {
        name: wide.reindex(columns=[(name, *arm[:2]) for arm in arms]).to_numpy(dtype=float)
        for name in CELL
    }
    has_rows = ~np.isnan(cells["size"])
    complete, any_row = np.asarray(has_rows.all(axis=1)), pd.Series(has_rows.any(axis=1))
    empty = [arm for arm, rows in zip(arms, has_rows.T, strict=True) if not rows.any()]
    nothing = "no case has an outcome in every compared cell"
    if empty:
        nothing = f"{between} {empty[0][0]!r} has no attempts under '{empty[0][1]}'"
    else:
        _refuse_different_cases(facts, has_rows, arms, between)
    cases, means = complete_cases(facts, cells, averaged)
    n_dropped = len(facts[any_row].drop_duplicates(CASE)) - len(cases)
    dropped = f"{plural(n_dropped, 'case')} dropped: no outcome in one of the compared cells"
    columns, loss = _missing_attempts(facts, complete, cells, arms)
    notes = (means, note, dropped if n_dropped else "", loss)
    return _Contrast(arms, cases, {"n_dropped": n_dropped, **columns}, notes, nothing)


def complete_cases(
    facts: pd.DataFrame, cells: Cells, averaged: list[str]
) -> tuple[pd.DataFrame, str]:
    """Return one row per case with a rate in every arm, and a note on averaging.

    The columns are those of ``facts``, then "rate 0" to "n_checks 0" for the first arm, and so on.
    """
    whole, n_arms = np.asarray(~np.isnan(cells["rate"]).any(axis=1)), cells["rate"].shape[1]
    names = [f"{name} {j}" for name in CELL[:4] for j in range(n_arms)]
    numbers = pd.DataFrame(np.hstack([cells[n] for n in CELL[:4]]), facts.index, columns=names)
    entries = pd.concat([facts, numbers], axis=1).loc[whole]
    if averaged:
        counts = names[2 * n_arms :]
        entries[counts] = entries.groupby(CASE)[counts].transform("min")
    return means_of_cases(entries, names, averaged)


def weighted_sample(
    cases: pd.DataFrame, weights: Sequence[float], labels: Any, *, is_share: bool
) -> Sample:
    """Return the contrasts of the cases (weighted sums over arms), with the rates of the arms."""
    sides: list[tuple[Any, ...]] = []
    for j, weight in enumerate(weights):
        rates, mixed, fewest, checks = (cases[f"{name} {j}"] for name in CELL[:4])
        sides.append((rates, fewest, checks, weight, mixed))
    values = np.sum([side[3] * side[0].to_numpy() for side in sides], axis=0)
    return Sample(values, labels, cases.get(WEIGHT), arms_of(sides, is_share=is_share))


def _numbers_by_cell(part: pd.DataFrame, between: str, averaged: list[str]) -> pd.DataFrame:
    """Return one column per entry of ``CELL``, level and condition.

    There is one row per case or, with ``averaged`` columns, one per case and value of these.
    """
    weight = [WEIGHT] if WEIGHT in part else []
    keys = [*CASE, *averaged, "cluster", "cluster_by_name", *weight]
    return part.pivot(index=keys, columns=[between, "condition"], values=CELL)


def _refuse_different_cases(
    facts: pd.DataFrame, has_rows: NDArray[np.bool_], arms: Arms, between: str
) -> None:
    """Raise FrameError if a case has rows of one level and none of the other."""
    labels = case_labels(facts)
    for first in range(0, len(arms), 2):
        (level, condition, _), (other, *_) = arms[first : first + 2]
        only = has_rows[:, first] & ~has_rows[:, first + 1]
        only_other = has_rows[:, first + 1] & ~has_rows[:, first]
        sides = [
            f"only {between} {name!r}: {first_names(labels[rows].to_numpy())}"
            for name, rows in ((other, only_other), (level, only))
            if rows.any()
        ]
        if sides:
            raise FrameError(
                f"{_WHAT}: different cases were asked under '{condition}'; {'; '.join(sides)}. "
                "Compare only the cases of all levels: outcomes[outcomes.groupby(['skill', "
                f"'case_id', 'condition'])['{between}'].transform('nunique') == "
                f"outcomes['{between}'].nunique()]."
            )


def _missing_attempts(
    facts: pd.DataFrame, complete: NDArray[np.bool_], cells: Cells, arms: Arms
) -> tuple[dict[str, Any], str]:
    """Return the counts of missing attempts, the resulting bounds of the contrast, and a note."""
    size, low, high = (cells[name][complete] for name in ("size", "low", "high"))
    lost = size - cells["attempts"][complete]
    counts = [int(part[:, j::2].sum()) for j in (0, 1) for part in (lost, size)]
    worst = [np.nan, np.nan]
    if complete.any():
        # a case has a row per value of the averaged columns, so these rows share its weight
        entries = facts[complete]
        weights = entries.get(WEIGHT, 1.0) / entries.groupby(CASE)["cluster"].transform("size")
        signs = np.array([sign for _, _, sign in arms])
        ends = np.where(signs > 0, low, high), np.where(signs > 0, high, low)
        worst = [float(np.average(end @ signs, weights=weights)) for end in ends]
    note, biased = missing_note(counts, [str(arm[0]) for arm in arms[:2]])
    if note:
        note += f"; in the worst case the estimate is {worst[0]:+.2f} or {worst[1]:+.2f}"
    return dict(zip(MISSING, (*counts, *worst), strict=True)), join_notes(note, biased)


def _contrast_rows(
    contrasts: list[_Contrast], value: str, cluster: str, ci_level: float, interval: IntervalRule
) -> list[dict[str, Any]]:
    """Estimate all contrasts in one computation; return one row for each."""
    samples, by_name, notes = [], [], []
    for each in contrasts:
        skill, label, shared = (each.cases[n] for n in ("skill", "cluster", "cluster_by_name"))
        labels, note = claim(skill, label, cluster, delta=len(each.arms) == 2, rule=interval)
        by_name.append(claim(skill, shared, cluster)[0])
        notes.append(note)
        samples.append(each.sample(labels, is_share=value != "passed"))
    n_deltas = max((len(each.arms) // 2 for each in contrasts), default=1)
    quantity = Quantity(n_deltas * DELTAS.low, n_deltas * DELTAS.high, DELTAS.c)
    how: dict[str, Any] = {"quantity": quantity, "null": 0.0, "ci_level": ci_level}
    intervals = covering_means(samples, by_name, **how, interval=interval)
    measure = f"{'delta' if n_deltas == 1 else 'difference'}_{value}"
    rows = []
    for each, result, note in zip(contrasts, intervals, notes, strict=True):
        means = dict(zip(("rate", "reference_rate"), each.sides(), strict=True))
        result = claimed(result, note, each.nothing, *each.notes)
        rows.append(row(measure, result, **each.columns, **means))
    return rows


def _with_holm(result: pd.DataFrame, family: list[str], between: str) -> pd.DataFrame:
    """Adjust p-values by Holm over the pairs of levels with the same values of ``family``."""
    parts = []
    for _, part in groups(result, family):
        has_p = part["p_value"].notna()
        p_values = part["p_value"].to_numpy(dtype=float)[has_p]
        part.loc[has_p, "p_adjusted"] = holm(p_values)
        over = f"; Holm over {plural(len(p_values), 'pair')} of {between}"
        parts.append(part.assign(method=part["method"] + (over if len(p_values) else "")))
    return pd.concat(parts, ignore_index=True) if parts else result
