"""Paired deltas on each rubric dimension."""

from __future__ import annotations

from typing import Any

import pandas as pd

from skillcomp.contrast import Value, compared_outcomes
from skillcomp.deltas.paired_deltas import paired
from skillcomp.frames.estimates import By, groups, listed
from skillcomp.records import dimension_family
from skillcomp.stats.bounded import IntervalRule
from skillcomp.stats.significance import holm


def by_dimension(
    outcomes: pd.DataFrame,
    *,
    by: By = (),
    value: Value = "passed",
    reference: str = "baseline",
    weight: str | None = None,
    ci_level: float = 0.95,
    interval: IntervalRule = "adaptive",
) -> pd.DataFrame:
    """Estimate the paired change on each dimension, adjusted for the number of dimensions.

    Parameters
    ----------
    outcomes : pandas.DataFrame
        An outcomes frame with comprehension_dimension; rows without a dimension are left out.
    by, value, reference, weight, ci_level, interval
        As in :func:`skillcomp.deltas.paired`.

    Returns
    -------
    pandas.DataFrame
        One row per ``by``, dimension and condition, with the columns of
        :func:`skillcomp.deltas.paired` and ``p_adjusted``: the p-value adjusted by Holm for the
        number of dimensions (see Notes). A dimension without paired cases has no p-value but counts
        towards this number.

    Notes
    -----
    Within each ``by`` and condition, p-values are adjusted for all of C1 to C9, even if the data
    have fewer dimensions, so that the data do not choose the number. If a study has its own
    dimensions, p-values are adjusted for all dimensions of its cases.
    """
    names = [name for name in listed(by) if name != "comprehension_dimension"]
    checked = compared_outcomes(outcomes, names, "deltas.by_dimension", value=value)
    checked = checked[checked["comprehension_dimension"].notna()]
    keys = [*names, "comprehension_dimension"]
    dimensions = list(dimension_family(checked["comprehension_dimension"]))
    how: dict[str, Any] = {"value": value, "reference": reference, "weight": weight}
    result = paired(checked, by=keys, **how, ci_level=ci_level, interval=interval)
    parts = []
    for _, part in groups(result, [*names, "condition"]):
        family = part.set_index("comprehension_dimension")["p_value"].reindex(dimensions)
        adjusted = pd.Series(holm(family.to_numpy(dtype=float)), index=dimensions)
        parts.append(
            part.assign(
                p_adjusted=adjusted.reindex(part["comprehension_dimension"]).to_numpy(),
                method=part["method"] + f"; Holm over {len(dimensions)} dimensions",
            ).sort_values("comprehension_dimension", kind="stable")
        )
    return pd.concat(parts, ignore_index=True) if parts else result
