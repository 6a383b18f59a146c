"""Successive runs of the same cases."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pandas as pd

from skillcomp.contrast import BoundedValue, Bounds, compared_outcomes
from skillcomp.deltas.condition_rates import rates
from skillcomp.deltas.paired_deltas import paired
from skillcomp.errors import FrameError, plural
from skillcomp.frames.contracts import CASE, CONTRACTS
from skillcomp.frames.estimates import By, grouped, listed, ordered, refuse_pooling, require_columns
from skillcomp.stats.bounded import IntervalRule
from skillcomp.stats.results import Fields, join_notes

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
    require_columns(outcomes, ["run"], "deltas.over_time")
    if outcomes["run"].isna().any():
        raise FrameError("deltas.over_time: column 'run': missing in some rows; it is required.")
    if "attempt_id" in outcomes:  # two runs may use the same attempt ids
        ids = outcomes["run"].astype("str") + "/" + outcomes["attempt_id"].astype("str")
        outcomes = outcomes.assign(attempt_id=ids)
    if "run" in names:
        raise FrameError("deltas.over_time: by= names 'run', which is compared. Leave it out.")
    what = "deltas.over_time"
    of_value: Fields = {"value": value, "bounds": bounds}
    checked = compared_outcomes(outcomes, [*names, "run"], what, **of_value, agents=False)
    if "agent" not in names:
        for _, part in checked.groupby("run", sort=False):
            refuse_pooling(part, [*names, "run"], "deltas.over_time", agents=True)
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
