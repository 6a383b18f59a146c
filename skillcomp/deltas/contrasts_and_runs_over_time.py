"""Contrasts of agents, graders or rounds on the same cases, and successive runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise, product
from typing import Any

import pandas as pd

from skillcomp.contrast import (
    MISSING,
    BoundedValue,
    Bounds,
    Contrast,
    Units,
    case_table,
    check_bounds,
    compared_outcomes,
    first_names,
)
from skillcomp.deltas.paired_deltas_and_price import contrast_rows, paired
from skillcomp.deltas.unpaired_rates_and_pass_k import rates
from skillcomp.errors import FrameError, plural, require_known
from skillcomp.frames.check import as_list, require_frame
from skillcomp.frames.contracts import ATTEMPT_KEYS, CASE, CONTRACTS
from skillcomp.frames.estimates import (
    RESERVED,
    By,
    estimates,
    grouped,
    listed,
    ordered,
    prepared,
    refuse_different_checks,
    refuse_pooling,
    require_columns,
    require_reference,
    rows_of_group,
    with_method,
)
from skillcomp.stats.bounded import IntervalRule
from skillcomp.stats.results import Fields, join_notes

_WHAT = "deltas.contrast"
_EXTRA = ["reference", "reference_condition", "rate", "reference_rate", "n_dropped", *MISSING]


def contrast(
    outcomes: pd.DataFrame,
    *,
    between: By,
    condition: str | None = None,
    reference: str = "baseline",
    by: By = (),
    value: BoundedValue = "passed",
    bounds: Bounds = None,
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
    value : {"passed", "share_passed", "score"}, default "passed"
        As in :func:`skillcomp.deltas.paired`.
    bounds : tuple of float, optional
        As in :func:`skillcomp.deltas.paired`: lowest and highest possible score.
    cluster, average, weight, interval
        As in :func:`skillcomp.deltas.paired`.
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
        Holm over all rows that have a p-value, except those of a placebo.
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
    names, averaged, columns = listed(by), listed(average), as_list(between)
    if len(columns) != 1 or not isinstance(columns[0], str):
        raise FrameError(
            f"{_WHAT}: between: found {between!r}; allowed: the name of one column, such as "
            "'agent'. To compare combinations, add a column: "
            "outcomes.assign(level=outcomes['agent'] + '/' + outcomes['grader'])."
        )
    between = columns[0]
    checked = _checked_outcomes(outcomes, between, names, averaged)
    check_bounds(outcomes, value, bounds)
    base = reference if condition is None else None
    require_reference(checked["condition"], base)
    conditions = ordered(checked["condition"], base)
    if condition is not None and conditions:
        require_known(f"{_WHAT}: condition: found", condition, conditions, label="there")
        conditions = [condition]
    elif conditions:
        refuse_different_checks(checked, _WHAT, value)
    keys = [*names, between, *averaged]
    of_value: Fields = {"value": value, "bounds": bounds}
    table = case_table(checked, by=keys, cluster=cluster, weight=weight, **of_value)
    units = Units.of(table, names, arm=[between, "condition"], average=averaged, **of_value)
    levels = sorted(checked[between].unique().tolist(), key=lambda x: (isinstance(x, str), x))
    contrasts = []
    for group, about in enumerate(units.groups):
        for name, (other, level) in product(conditions, combinations(levels, 2)):
            compared = rows_of_group(checked[checked["condition"].isin([name, base])], about)
            note = note_on_checks(compared, [], between, (other, level), _WHAT)
            place = {"condition": name, "reference": other, between: level}
            weights = {(level, name): 1.0, (other, name): -1.0}
            if base is not None:
                weights |= {(level, base): -1.0, (other, base): 1.0}
            contrasts.append(
                Contrast(
                    about=about | place | {"reference_condition": base},
                    group=group,
                    weights=weights,
                    sides=(str(level), str(other)),
                    nothing=_why_nothing(units, group, weights, between),
                    note=note,
                )
            )
    measure = f"{'delta' if base is None else 'difference'}_{value}"
    rows = contrast_rows(
        measure, units, contrasts, cluster=cluster, ci_level=ci_level, interval=interval
    )
    # `estimates` adds to a row the notes of the outcomes with the same keys. Drop the column of
    # levels, so that a row has the notes of all levels.
    noted = checked.drop(columns=between)
    keys = [*names, between, "condition"]
    result = estimates(rows, by=keys, extra=_EXTRA, outcomes=noted, reference=base)
    return with_method(result, cluster, weight)


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
    outcomes = _with_ids_of_levels(outcomes, between, _WHAT)
    compared = ["condition", between]
    checked = prepared(
        outcomes, "outcomes", names, _WHAT, compared=compared, average=averaged, agents=True
    )
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
    for name in averaged:
        if len(levels) and grouped(checked, [name])[between].nunique().max() < 2:
            raise FrameError(
                f"{_WHAT}: average='{name}': no {name} has two values of '{between}', so they "
                f"cannot be compared for the same {name}. Use between='{name}', or no average=."
            )
    return checked


def _with_ids_of_levels(outcomes: pd.DataFrame, between: str, what: str) -> pd.DataFrame:
    """Add the level to attempt ids, because two levels may have the same ids or repeat numbers."""
    if outcomes[between].isna().any():
        raise FrameError(
            f"{what}: column '{between}': missing in some rows. Name their level, or leave these "
            f"rows out: outcomes[outcomes['{between}'].notna()]."
        )
    names = ["attempt_id"]
    if "attempt_id" not in outcomes:
        names = [name for name in ATTEMPT_KEYS if name in outcomes]
        if "repeat" not in names:
            return outcomes
    ids = outcomes[between].astype("str")
    for name in names:
        ids = ids + "/" + outcomes[name].astype("str").fillna("")
    has_id = outcomes["repeat" if len(names) > 1 else "attempt_id"].notna()
    return outcomes.assign(attempt_id=ids.where(has_id))


def _why_nothing(
    units: Units, group: int, weights: Mapping[tuple[Any, str], float], between: str
) -> str:
    """Return the reason why a contrast has no estimate, if it has none.

    Raise FrameError if cases have rows of one level and none of the other.
    """
    there = units.arms_of_group(group)
    for level, condition in weights:
        if (level, condition) not in there:
            return f"{between} {level!r} has no attempts under '{condition}'"
    arms = list(weights)
    for (level, condition), (other, _) in (arms[:2], arms[2:])[: len(arms) // 2]:
        sides = [
            f"only {between} {name!r}: {first_names(labels)}"
            for name, labels in (
                (other, units.labels_only_in(group, (other, condition), (level, condition))),
                (level, units.labels_only_in(group, (level, condition), (other, condition))),
            )
            if len(labels)
        ]
        if sides:
            raise FrameError(
                f"{_WHAT}: different cases were asked under '{condition}'; {'; '.join(sides)}. "
                f"Ask all levels the same cases; deltas.rates with by=['{between}'] gives the rate "
                "of each level on its own cases."
            )
    return "no case has an outcome in every compared cell"


# Two levels may be compared if their numbers of checks differ in fewer than _FEW_CASES cases, or in
# at most the share _FEW_SHARE of the cases.
_FEW_CASES, _FEW_SHARE = 3, 0.1


def over_time(
    outcomes: pd.DataFrame,
    changes: pd.DataFrame | None = None,
    *,
    by: By = (),
    value: BoundedValue = "passed",
    bounds: Bounds = None,
    ci_level: float = 0.95,
    interval: IntervalRule = "adaptive",
) -> pd.DataFrame:
    """Estimate the pass rate of successive runs of the same cases, and the change between them.

    Parameters
    ----------
    outcomes : pandas.DataFrame
        Outcomes of one condition with a column ``run``, the oldest run first, for example the
        ``pd.concat`` of several runs. Runs may have different agents, but each run has only one
        agent unless ``by`` contains ``agent``.
    changes : pandas.DataFrame, optional
        The result of :func:`skillcomp.frames.runs` for the same runs.
    by : str or sequence of str
        Columns that group the rows, such as ``["skill"]``.
    value : {"passed", "share_passed", "score"}, default "passed"
        As in :func:`skillcomp.deltas.paired`.
    bounds : tuple of float, optional
        As in :func:`skillcomp.deltas.paired`: lowest and highest possible score.
    ci_level : float, default 0.95
        Level of the interval.
    interval : {"adaptive", "bounded", "t"}, default "adaptive"
        As in :func:`paired`.

    Returns
    -------
    pandas.DataFrame
        One row per ``by``, run and measure, in the order of the runs, with the estimates columns.
        Every run has a row ``rate_passed``. From the second run on it also has a row
        ``delta_passed``: the change since the run before, over the cases of both runs, with its
        p-value. With ``value="share_passed"`` the measures are ``rate_share_passed`` and
        ``delta_share_passed``. ``reference`` is the run before. ``n_dropped`` counts the cases with
        an outcome in only one of the two runs. ``changed`` lists the properties that changed; it is
        empty without ``changes``, or if no property changed.

    Raises
    ------
    FrameError
        If there is no column ``run``, there are several conditions, graders would be pooled, or
        successive runs have different numbers of checks in more than a tenth of their common cases.

    See Also
    --------
    skillcomp.plots.estimates : Draws the result with ``y="run"``, one measure at a time.

    Notes
    -----
    Each delta is computed by :func:`skillcomp.deltas.paired`. A second run in which nothing was
    changed (A/A) shows the differences due to chance. If the interval of its delta excludes 0, the
    attempts of a run are related in ways that an interval by case does not capture. Deltas are not
    adjusted for the number of comparisons. Checks are compared only by their number (``n_checks``):
    a check that was replaced by another check is not noticed.

    Examples
    --------
    Of twelve cases, 4 pass in the first run and 5 in the second.

    >>> import pandas as pd
    >>> runs = {"monday": [True] * 4 + [False] * 8, "again": [True] * 5 + [False] * 7}
    >>> frame = pd.concat([pd.DataFrame({
    ...     "run": name, "skill": "s", "case_id": [f"s/{i}" for i in range(12)],
    ...     "condition": "skill", "passed": passed}) for name, passed in runs.items()])
    >>> over_time(frame)[["run", "measure", "estimate", "p_value"]].round(2)
          run       measure  estimate  p_value
    0  monday   rate_passed      0.33      NaN
    1   again   rate_passed      0.42      NaN
    2   again  delta_passed      0.08     0.34
    """
    names = listed(by)
    what = "deltas.over_time"
    require_columns(outcomes, ["run"], what)
    outcomes = _with_ids_of_levels(outcomes, "run", what)
    if "run" in names:
        raise FrameError(f"{what}: by= names 'run', which is compared. Leave it out.")
    of_value: Fields = {"value": value, "bounds": bounds}
    checked = compared_outcomes(outcomes, [*names, "run"], what, **of_value, agents=False)
    if "agent" not in names:
        for _, part in checked.groupby("run", sort=False):
            refuse_pooling(part, [*names, "run"], what, agents=True)
        checked = checked.drop(columns="agent")  # runs with different agents may be compared
    conditions = ordered(checked["condition"].unique())
    if len(conditions) > 1:
        raise FrameError(
            f"deltas.over_time: the frame holds the conditions {', '.join(conditions)}; select one."
        )
    order = [str(name) for name in checked["run"].unique()]
    # Name the runs as conditions, because `paired` compares conditions. `checks_differ` describes
    # the original conditions, so reset it.
    checked = checked.drop(columns="run").assign(condition=checked["run"].astype("str"))
    checked = checked.assign(checks_differ=False)
    how: Fields = {"by": names, "ci_level": ci_level, "interval": interval} | of_value
    parts = [rates(checked, **how)]
    for before, run in pairwise(order):
        two = checked[checked["condition"].isin([before, run])]
        note = note_on_checks(two.assign(run=two["condition"]), names, "run", (before, run), what)
        change = paired(two, reference=before, **how)
        parts.append(change.assign(note=[join_notes(old, note) for old in change["note"]]))
    rows = pd.concat(parts, ignore_index=True).rename(columns={"condition": "run"})
    place = {name: at for at, name in enumerate(order)}
    rows = rows.sort_values("run", key=lambda runs: runs.map(place), kind="stable")
    new = _changes_by_run(changes)
    changed = pd.Series([new.get(run, "") for run in rows["run"]], index=rows.index, dtype="str")
    columns = [*names, "run", *CONTRACTS["estimates"].columns, "reference", "n_dropped"]
    return rows.reindex(columns=columns).assign(changed=changed).reset_index(drop=True)


def note_on_checks(
    outcomes: pd.DataFrame, by: Sequence[str], column: str, levels: tuple[Any, Any], what: str
) -> str:
    """Return a note on the cases with different numbers of checks at the two ``levels``.

    Raise FrameError if there are too many such cases.
    """
    counts = grouped(outcomes, [*by, *CASE, column])["n_checks"].max().unstack(column)
    common = counts.reindex(columns=list(levels)).astype("float64").dropna()
    differ = common[common[levels[0]].ne(common[levels[1]])]
    if differ.empty:
        return ""
    name = differ.index.get_level_values("case_id")[0]
    first, second = differ.iloc[0].astype(int)
    contents = (
        f"{len(differ)} of {plural(len(common), 'case')} have another number of checks for the "
        f"{column} {levels[1]!r} than for {levels[0]!r}, such as '{name}' ({first} and {second})"
    )
    if len(differ) >= min(_FEW_CASES, len(common)) and len(differ) > _FEW_SHARE * len(common):
        raise FrameError(
            f"{what}: {contents}. Compare only the checks of both: select them in the verdicts "
            'before sc.frames.outcomes, verdicts[verdicts["check_id"].isin(names)].'
        )
    return contents


def _changes_by_run(changes: pd.DataFrame | None) -> dict[str, str]:
    """Return the changed properties of each run, joined by a comma."""
    if changes is None:
        return {}
    require_columns(changes, ["run", "what", "changed"], "deltas.over_time: changes")
    new = changes[changes["changed"].fillna(False).astype(bool)]
    by_run = new.groupby(new["run"].astype("str"), sort=False)["what"]
    return {run: ", ".join(part.dropna().astype("str")) for run, part in by_run}
