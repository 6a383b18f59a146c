"""Verdicts on single cases: taught, already passed, not taught or harmed."""

from __future__ import annotations

import numpy as np
import pandas as pd

from skillcomp.errors import FrameError
from skillcomp.frames.contracts import CASE
from skillcomp.frames.estimates import (
    By,
    grouped,
    listed,
    prepared,
    refuse_different_checks,
    require_reference,
    with_notes_of,
)
from skillcomp.skillverdicts.decide_verdicts import first_that_holds


def cases(outcomes: pd.DataFrame, *, by: By = (), reference: str = "baseline") -> pd.DataFrame:
    """Show for each case whether its answers pass with the skill and without it.

    A single case has too few repeats for a useful interval. Use these rows to find cases, not to
    claim effects.

    Parameters
    ----------
    outcomes : pandas.DataFrame
        An outcomes frame of one grader (or include ``grader`` in ``by``).
    by : str or sequence of str
        Further columns that group the rows.
    reference : str, default "baseline"
        The condition that the others are compared with.

    Returns
    -------
    pandas.DataFrame
        One row per case and condition other than the reference. It starts with ``by``, skill,
        case_id, comprehension_dimension, transfer, condition and reference. ``n`` and
        ``n_reference`` count the attempts with an outcome. ``rate`` and ``reference_rate`` are the
        shares of these that passed, and ``delta`` is their difference. Rows are sorted by
        ``delta``, the largest loss first. A condition passes a case if more than half of these
        attempts pass. ``discriminates`` is True if only one of the two conditions passes the case,
        and NA if one of them has a tie or no outcome. ``verdict`` is ``taught`` (only the condition
        passes), ``already_passes`` (both), ``not_taught`` (neither), ``harmed`` (only the reference
        passes), or ``undetermined`` where ``discriminates`` is NA. ``n`` is 0 for a case that was
        not asked under the condition. ``note`` has the notes of the outcomes.
    """
    names = list(dict.fromkeys([*listed(by), *CASE, "comprehension_dimension", "transfer"]))
    if "condition" in names:
        raise FrameError("skillverdicts.cases: by= names 'condition'; a row has one already.")
    checked = prepared(outcomes, "outcomes", listed(by), "skillverdicts.cases", agents=True)
    require_reference(checked["condition"], reference)
    refuse_different_checks(checked, "skillverdicts.cases")
    scored = checked.assign(passed=checked["passed"].astype("float64"))
    attempts = grouped(scored, [*names, "condition"])["passed"]
    table = attempts.agg(n="count", rate="mean").reset_index()
    base = table[table["condition"].eq(reference)].drop(columns="condition")
    base = base.rename(columns={"n": "n_reference", "rate": "reference_rate"})
    others = table[table["condition"].ne(reference)]
    compared = others[["condition"]].drop_duplicates()
    every = table[names].drop_duplicates().merge(compared, how="cross")
    joined = every.merge(others, on=[*names, "condition"], how="left")
    joined = joined.merge(base, on=names, how="left")
    for count in ("n", "n_reference"):
        joined[count] = joined[count].fillna(0).astype("int64")
    after, before = np.sign(joined["rate"] - 0.5), np.sign(joined["reference_rate"] - 0.5)
    decided = after.abs().eq(1) & before.abs().eq(1)
    joined["discriminates"] = after.ne(before).astype("boolean").where(decided)
    verdicts = {
        "taught": (after > 0) & (before < 0),
        "already_passes": (after > 0) & (before > 0),
        "not_taught": (after < 0) & (before < 0),
        "harmed": (after < 0) & (before > 0),
    }
    joined["verdict"] = first_that_holds(verdicts, "undetermined")
    joined["reference"] = reference
    joined["delta"] = joined["rate"] - joined["reference_rate"]
    joined = joined.sort_values("delta", kind="stable", ignore_index=True)
    counts = ["n", "rate", "n_reference", "reference_rate", "delta"]
    order = [*names, "condition", "reference", *counts, "discriminates", "verdict", "note"]
    joined = with_notes_of(joined.assign(note=""), checked, names, reference)
    return joined[order]
